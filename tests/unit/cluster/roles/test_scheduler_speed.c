/* test_scheduler_speed.c - which backends a scheduler finds to be slower than the others of their type. */
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link_state.h"
#include "core/system/log.h"
#include "unit/test.h"

#define BACKENDS    4
#define PROFILED_NS (10 * NS_PER_MS)
#define LOOK_NS     (2 * NS_PER_S)

/* Backends 0 to 2 of type a, and one of type b. */
struct rig {
    struct wiring wiring;
    struct scheduler_link link;
    struct catalogue catalogue;
    struct member backends[BACKENDS];
    int64_t now_ns, until_ns;
};

static struct rig *rig_make(void) {
    struct rig *r = calloc(1, sizeof(*r));
    assert_non_null(r);
    r->link.wiring = &r->wiring;
    r->link.catalogue = &r->catalogue;
    atomic_store(&r->link.leads, true);
    list_init(&r->link.members);
    for (uint32_t i = 0; i < BACKENDS; i++) {
        struct member *m = &r->backends[i];
        uint32_t class = i / 3;
        m->known = m->told = true;
        m->hello.role = ROLE_BACKEND;
        m->class_count = 1;
        m->classes[0] = class;
        speed_init(&m->speed[0]);
        list_append(&r->link.members, &m->node);
        strcpy(r->catalogue.classes[class].type, class ? "b" : "a");
        r->catalogue.classes[class].backends++;
        r->catalogue.classes[class].factor = 1;
    }
    r->now_ns = NS_PER_S;
    return r;
}

/* A backend runs as many batches as are looked at, so many times as long as its profile says; then the link looks. */
static void runs(struct rig *r, uint32_t backend, double times) {
    for (uint32_t i = 0; i < SPEED_RUNS; i++)
        speed_run(&r->backends[backend].speed[0], (int64_t)(times * PROFILED_NS), PROFILED_NS, r->now_ns);
}

static void look(struct rig *r) {
    r->now_ns += LOOK_NS;
    r->until_ns = TIME_NEVER;
    scheduler_speed_look(&r->link, r->now_ns, &r->until_ns);
}

TEST(who_is_slower_than_its_type_is_to_change_its_class) {
    struct rig *r = rig_make();
    for (uint32_t i = 0; i < BACKENDS; i++)
        runs(r, i, i == 1 ? 3 : i == 3 ? 5 : 1); /* the last one has nobody to be compared with */
    look(r);
    for (uint32_t i = 0; i < BACKENDS; i++) {
        assert_int_equal(r->backends[i].models_changed, i == 1);
        assert_int_equal(r->backends[i].speed[0].slow, i == 1);
        assert_true(scheduler_speed_of(&r->backends[i]) == (i == 1 ? 3 : 1));
    }
    assert_true(r->backends[1].speed[0].factor == 3);
    assert_true(r->link.changing);
    r->backends[1].models_changed = false;
    runs(r, 1, 1);
    look(r);
    assert_true(r->backends[1].models_changed);
    assert_true(r->backends[1].speed[0].factor == 1);
    assert_true(scheduler_speed_of(&r->backends[1]) == 1);
    free(r);
}

/* Where classes cannot change, it is only said. So by one that does not lead, not even that. */
TEST(elsewhere_it_is_only_said) {
    for (int way = 0; way < 3; way++) {
        struct rig *r = rig_make();
        r->wiring.central = way == 0;
        r->link.config.backends = way == 1 ? BACKENDS : 0;
        atomic_store(&r->link.leads, way != 2);
        for (uint32_t i = 0; i < 3; i++)
            runs(r, i, i == 1 ? 3 : 1);
        look(r);
        assert_int_equal(r->backends[1].speed[0].slow, way != 2);
        assert_true(r->backends[1].speed[0].factor == 1);
        free(r);
    }
}

int main(void) {
    log_set_level(LOG_ERROR);
    return tests_run(NULL, NULL);
}
