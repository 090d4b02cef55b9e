/* scheduler_describe.c - describes the accelerators and models of a cluster to another thread. */
#include <errno.h>

#include "cluster/roles/scheduler_link_state.h"
#include "core/system/clock.h"

#define LOOK_EVERY_NS NS_PER_MS
#define WAIT_NS       (5 * NS_PER_S) /* longest wait; the link takes at least four turns a second, for its report */

/* A call of scheduler_link_describe(). Owned by the calling thread, which keeps it until `done`. */
struct link_description {
    const struct scheduler_link_describer *to;
    _Atomic bool done;
};

static void describe(struct scheduler_link *l, const struct scheduler_link_describer *to) {
    uint32_t serving[CENTRAL_TYPES_MAX] = {0};
    for (uint32_t a = 0; a < l->accelerators_most; a++)
        serving[l->accelerators[a].class] += l->accelerators[a].taken && l->accelerators[a].up;
    for (uint32_t c = 0; c < ACCELERATOR_TYPES_MAX; c++) /* who asks knows of no more: the others are left out */
        if (serving[c])
            to->type(to->context, c, l->catalogue->classes[c].type, serving[c]);
    for (uint32_t p = 0; p < l->config.models_max; p++) {
        const struct known_model *known = &l->catalogue->known[l->places[p].known];
        if (model_life_state(l->life, p) == LIFE_SERVING && known->model)
            to->model(to->context, p, known->model);
    }
}

void description_look(struct scheduler_link *l) {
    if (!atomic_load_explicit(&l->description, memory_order_relaxed)) /* taken below */
        return;
    struct link_description *d = atomic_exchange_explicit(&l->description, NULL, memory_order_acquire);
    if (!d)
        return;
    describe(l, d->to);
    atomic_store_explicit(&d->done, true, memory_order_release); /* with scheduler_link_describe() */
}

int scheduler_link_describe(struct scheduler_link *l, const struct scheduler_link_describer *to) {
    struct link_description d = {.to = to}, *posted = &d;
    int64_t until_ns = clock_now_ns() + WAIT_NS;
    atomic_store_explicit(&l->description, posted, memory_order_release); /* with description_look() */
    while (!atomic_load_explicit(&d.done, memory_order_acquire)) {
        clock_sleep(LOOK_EVERY_NS);
        if (clock_now_ns() > until_ns && atomic_exchange_explicit(&l->description, NULL, memory_order_relaxed))
            return -ETIMEDOUT; /* the link has not seen it, and no longer can */
    }
    return 0;
}
