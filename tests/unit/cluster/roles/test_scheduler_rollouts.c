/* test_scheduler_rollouts.c - orders of which version gets the requests that name none, and what other schedulers have
 * decided. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link_state.h"
#include "heard.h"
#include "model/config/ensemble.h"
#include "unit/test.h"

#define TERM 7

/* A leading scheduler of a model with versions 1 and 2, which two backends have, and of an ensemble; with a frontend
 * and a visitor. */
struct rig {
    struct scheduler_link link;
    struct wiring wiring;
    struct catalogue catalogue;
    struct served_model models[3];
    struct ensemble ensemble;
    struct member frontend, visitor;
    struct heard of_frontend, of_visitor;
};

static struct rig *rig_make(void) {
    struct rig *r = calloc(1, sizeof(*r));
    assert_non_null(r);
    struct scheduler_link *l = &r->link;
    l->wiring = &r->wiring;
    l->catalogue = &r->catalogue;
    l->config.self.term = TERM;
    atomic_store(&l->leads, true);
    list_init(&l->members);
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(r->models[i].name, sizeof(r->models[i].name), "%s", i < 2 ? "m" : "both");
        r->models[i].version = i < 2 ? 1 + i : 1;
        r->models[i].ensemble = i < 2 ? NULL : &r->ensemble;
        r->catalogue.known[i] = (struct known_model){
            .model = &r->models[i], .backends = 2, .place = i < 2 ? i : CATALOGUE_NONE, .profiles = {NULL}};
    }
    r->catalogue.known_count = 3;
    heard_begin(&r->of_frontend, &r->frontend.peer);
    heard_begin(&r->of_visitor, &r->visitor.peer);
    r->frontend.known = true;
    r->frontend.hello.role = ROLE_FRONTEND;
    list_append(&l->members, &r->frontend.node);
    assert_int_equal(scheduler_rollouts_init(l), 0);
    return r;
}

static void rig_free(struct rig *r) {
    scheduler_rollouts_free(&r->link);
    heard_end(&r->of_frontend);
    heard_end(&r->of_visitor);
    free(r);
}

static void orders(struct rig *r, enum rollout_wish wish, const char *model, uint32_t version) {
    struct rollout_order order = {.wish = wish, .version = version, .share = ROLLOUT_SHARE_ALL};
    snprintf(order.model, sizeof(order.model), "%s", model);
    char *text = rollout_order_write(&order);
    assert_non_null(text);
    scheduler_rollouts_order(&r->link, &r->visitor, text, strlen(text));
    free(text);
}

/* All members, or the visitor, are sent a frame whose text, or body, has this in it. */
static void assert_hears(struct heard *heard, enum frame_kind kind, const char *what) {
    struct frame frame;
    const char *text = heard_next(heard, kind, &frame);
    assert_non_null(text);
    assert_non_null(memmem(text, frame.head_bytes + frame.body_bytes, what, strlen(what)));
}

static void assert_hears_nothing(struct heard *heard) {
    struct frame frame;
    assert_null(heard_next(heard, FRAME_STATUS, &frame));
}

static const struct rollout *stated(struct rig *r) {
    return rollouts_find(&r->catalogue.rollouts, "m");
}

/* Without a registry an order counts at once. */
TEST(an_order_is_carried_out_and_told) {
    struct rig *r = rig_make();
    r->link.changed = false;
    orders(r, ROLLOUT_TO, "m", 2);
    assert_int_equal(stated(r)->version, 2);
    assert_true(r->link.changed); /* versions are chosen again */
    assert_hears(&r->of_frontend, FRAME_ROLLOUTS, "\"version\":2");
    assert_hears(&r->of_visitor, FRAME_STATUS, "\"version\":2");
    scheduler_rollouts_tell(&r->link, &r->visitor); /* only frontends and backends are told */
    assert_hears_nothing(&r->of_visitor);
    orders(r, ROLLOUT_NEWEST, "m", 0);
    assert_null(stated(r));
    assert_hears(&r->of_frontend, FRAME_ROLLOUTS, "\"rollouts\":[]");
    assert_hears(&r->of_visitor, FRAME_STATUS, "\"rollout\":null");
    rig_free(r);
}

TEST(mistakes_are_named) {
    struct rig *r = rig_make();
    const struct {
        enum rollout_wish wish;
        const char *model;
        uint32_t version;
        const char *says;
    } cases[] = {
        {ROLLOUT_TO, "m", 3, "no backend has version 3 of model 'm'; they have 1, 2"},
        {ROLLOUT_TO, "n", 1, "no backend has a model 'n'"},
        {ROLLOUT_TO, "both", 1, "'both' is an ensemble"},
        {ROLLOUT_BACK, "m", 0, "m"}, /* nothing is stated */
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        orders(r, cases[i].wish, cases[i].model, cases[i].version);
        assert_hears(&r->of_visitor, FRAME_REFUSED, cases[i].says);
    }
    scheduler_rollouts_order(&r->link, &r->visitor, "{", 1);
    assert_hears(&r->of_visitor, FRAME_REFUSED, "");
    r->catalogue.known[1].place = CATALOGUE_NONE; /* it is not served yet */
    orders(r, ROLLOUT_TO, "m", 2);
    assert_hears(&r->of_visitor, FRAME_REFUSED, "no backend has version 2");
    r->link.settled_ns = TIME_NEVER;
    orders(r, ROLLOUT_TO, "m", 2);
    assert_hears(&r->of_visitor, FRAME_STATUS, ""); /* it asks again: some backends have yet to join */
    r->link.settled_ns = 0;
    r->link.recording = true;
    orders(r, ROLLOUT_TO, "m", 1);
    assert_hears(&r->of_visitor, FRAME_REFUSED, "another rollout is being recorded");
    assert_hears_nothing(&r->of_frontend);
    assert_null(stated(r));
    rig_free(r);
}

static void hears(struct rig *r, uint64_t term, uint64_t number, uint32_t version, bool recorded) {
    struct rollouts told = {.term = term, .number = number, .count = 1};
    told.of[0] = (struct rollout){.model = "m", .version = version, .share = ROLLOUT_SHARE_ALL, .before = 1};
    char *text = rollouts_write(&told);
    assert_non_null(text);
    scheduler_rollouts_heard(&r->link, text, strlen(text), recorded);
    free(text);
}

/* A later decision counts, and is to be recorded if the registry does not have it. */
TEST(what_others_have_decided_counts) {
    struct rig *r = rig_make();
    hears(r, TERM - 1, 2, 2, true);
    assert_int_equal(stated(r)->version, 2);
    assert_true(r->link.recorded);
    assert_hears(&r->of_frontend, FRAME_ROLLOUTS, "\"version\":2");
    hears(r, TERM - 1, 1, 1, false); /* an earlier one */
    assert_int_equal(stated(r)->version, 2);
    assert_true(r->link.recorded);
    hears(r, TERM + 1, 1, 1, false); /* of a term that is yet to come: the member lies */
    assert_int_equal(stated(r)->version, 2);
    scheduler_rollouts_heard(&r->link, "[]", 2, true);
    assert_hears_nothing(&r->of_frontend);
    hears(r, TERM - 1, 3, 1, false);
    assert_int_equal(stated(r)->version, 1);
    assert_false(r->link.recorded);
    assert_hears(&r->of_frontend, FRAME_ROLLOUTS, "\"version\":1");
    hears(r, TERM - 1, 2, 2, true); /* the registry has less */
    assert_false(r->link.recorded);
    hears(r, TERM - 1, 3, 1, true);
    assert_true(r->link.recorded);
    rig_free(r);
}

/* An order that the registry is to record counts once it has; its visitor hears of either end. */
TEST(an_order_counts_once_it_is_recorded) {
    for (int done = 0; done < 2; done++) {
        struct rig *r = rig_make();
        struct scheduler_link *l = &r->link;
        struct sy_error err;
        const struct rollout_order order = {.wish = ROLLOUT_TO, .model = "m", .version = 2, .share = ROLLOUT_SHARE_ALL};
        *l->proposed = r->catalogue.rollouts;
        assert_int_equal(rollouts_order(l->proposed, &order, 1, TERM, &err), 0);
        l->asker = &r->visitor;
        strcpy(l->asked, "m");
        l->recording = l->ordered = true; /* long ago */
        scheduler_rollouts_recorded(l, done);
        assert_false(l->recording || l->ordered || l->asker);
        if (done) {
            assert_int_equal(stated(r)->version, 2);
            assert_hears(&r->of_frontend, FRAME_ROLLOUTS, "\"version\":2");
            assert_hears(&r->of_visitor, FRAME_STATUS, "\"version\":2");
        } else {
            assert_null(stated(r));
            assert_hears(&r->of_visitor, FRAME_REFUSED, "the registry has not recorded it");
        }
        rig_free(r);
    }
}

/* Without a registry, nobody is asked to record. */
TEST(there_is_nothing_to_look_at) {
    struct rig *r = rig_make();
    int64_t until_ns = TIME_NEVER;
    hears(r, TERM - 1, 2, 2, false);
    assert_false(r->link.recorded);
    scheduler_rollouts_look(&r->link, 5, &until_ns);
    assert_true(until_ns == TIME_NEVER);
    assert_false(r->link.recording);
    rig_free(r);
}
