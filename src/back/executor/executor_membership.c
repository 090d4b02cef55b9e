/* executor_membership.c - accelerators that leave, fail and come back while the others go on.
 *
 * The state of an accelerator and the state that the scheduler knows are kept apart: the scheduler is told when the
 * ring has room, and only the newest state. The batches that a failed accelerator has, and those still sent to it, are
 * lost: they are reported as ended at once, and so before the accelerator joins again. The requests of lost batches are
 * handed back to their frontends, which send them once more. */
#include <stdlib.h>

#include "back/executor/executor_state.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/assert.h"
#include "model/profile/measure.h"

#define TRIED_FOR_NS NS_PER_S /* time after a trial run that worked in which no further one is made */

struct member *executor_member(struct executor *x, uint32_t accelerator) {
    CHECK_LT(accelerator - x->config.first_accelerator, x->config.accelerators);
    return &x->members[accelerator - x->config.first_accelerator];
}

void batch_lose(struct executor *x, uint32_t model_thread, const struct batch_plan *plan) {
    int64_t now_ns = clock_now_ns();
    struct run_result result = {.status = REQUEST_LOST, .start_ns = now_ns, .end_ns = now_ns};
    struct ran_message ran = batch_ran(x, plan, now_ns, INT64_MAX);

    batch_count(x, plan, &result);
    batch_report(x, model_thread, &ran, now_ns);
    batch_answer(x, plan, &result);
}

static void failed_set(struct executor *x, uint32_t accelerator, bool failed) {
    _Atomic uint64_t *said = &x->counters[accelerator - x->config.first_accelerator].failed;
    atomic_store_explicit(said, failed, memory_order_relaxed); /* statistics */
}

/* All batches that the accelerator has, or that are sent to it until it joins again, are lost. */
static void accelerator_fail(struct executor *x, uint32_t accelerator) {
    struct member *member = executor_member(x, accelerator);

    member->dead = member->out = true;
    failed_set(x, accelerator, true);
    if (x->emulation)
        emulation_lose(x, accelerator);
}

enum run_end engine_works(struct executor *x, bool *works) {
    bool any = false;

    *works = x->tried_ns && clock_now_ns() - x->tried_ns < TRIED_FOR_NS;
    for (uint32_t i = 0; i < x->config.model_count && !*works; i++) {
        int64_t(*dims)[TENSOR_DIMS_MAX];
        const struct signature *signature = served_model_loaded(&x->config.models[i], &dims);
        struct engine_model *loaded = x->models[i].model;
        const struct engine_ops *engine = x->config.engine;
        struct sy_error err;
        if (!x->models[i].tried)
            continue;
        struct run_watch *watch = run_begin(x, loaded, run_limit(x, (struct place_id){i}, 1, 1));
        int rc = measure_run(engine, loaded, signature, dims, 1, x->models[i].values, &err);
        if (run_over(watch, engine, loaded) == RUN_LOST) {
            run_back(watch);
            return RUN_LOST;
        }
        any = true;
        *works = rc == 0;
        if (*works)
            x->tried_ns = clock_now_ns();
    }
    *works |= !any;
    return RUN_ENDED;
}

void engine_lose(struct executor *x, uint32_t accelerator, const char *reason) {
    log_error("accelerator failed, and is out of service", "accelerator=%u reason=\"%s\"", accelerator, reason);
    x->engine_lost = x->news = true;
    accelerator_fail(x, accelerator);
}

bool engine_return(struct executor *x) {
    bool works;

    if (!x->lost || !run_is_back(x->lost) || (x->lost_reads && !request_release(x, x->lost_handle)))
        return true;
    x->lost_reads = false;
    pthread_join(x->lost_thread, NULL);
    free(x->lost);
    x->lost = NULL;
    if (engine_works(x, &works) == RUN_LOST)
        return false;
    if (!works)
        return true;
    struct member *member = executor_member(x, x->config.first_accelerator);
    log_info("accelerator is back in service", "accelerator=%u", x->config.first_accelerator);
    x->engine_lost = member->dead = member->out = false;
    failed_set(x, x->config.first_accelerator, false);
    x->news = true;
    return true;
}

static void obey(struct executor *x, const struct accelerator_command *command) {
    struct member *member = executor_member(x, command->accelerator);

    switch (command->order) {
    case ACCELERATOR_JOIN:
        if (!x->engine_lost)
            member->dead = member->out = false;
        failed_set(x, command->accelerator, false);
        break;
    case ACCELERATOR_DRAIN:
        member->out = true;
        break;
    case ACCELERATOR_FAIL:
        accelerator_fail(x, command->accelerator);
        break;
    case EXECUTOR_MODEL:
        executor_model_obey(x, command);
        break;
    }
}

/* Tells the scheduler that one accelerator leaves or joins. False: the ring has no room now. */
static bool tell(struct executor *x, uint32_t accelerator, bool out) {
    struct wiring *w = x->wiring;
    uint32_t subcluster = wiring_subcluster_of_accelerator(w, accelerator);
    struct ring *ring = w->central ? wiring_ran(w, x->config.index, 0) : wiring_freed(w, x->config.index, subcluster);
    uint32_t batches = x->config.accelerators * (w->central ? WIRING_PLANS_CENTRAL : 3);
    enum accelerator_news news = out ? NEWS_LEAVES : NEWS_JOINS;

    if (!ring_fits(ring, 1 + batches)) /* keeps room for the ends of batches */
        return false;
    if (w->central)
        *(struct ran_message *)ring_reserve(ring) = (struct ran_message){.news = news, .accelerator = accelerator};
    else
        *(struct freed_message *)ring_reserve(ring) = (struct freed_message){.news = news, .accelerator = accelerator};
    ring_push(ring);
    x->model_rung[0] |= w->central;
    return true;
}

bool membership_poll(struct executor *x) {
    struct ring *ring = &x->wiring->commands[x->config.index];
    const struct accelerator_command *command;
    bool any = false;

    for (; (command = ring_peek(ring)); ring_pop(ring)) {
        obey(x, command);
        any = true;
    }
    if (any) {
        ring_release(ring);
        x->news = true;
    }
    if (!x->news)
        return false;
    x->news = false;
    for (uint32_t i = 0; i < x->config.accelerators; i++) {
        struct member *member = &x->members[i];
        if (member->out == member->told_out)
            continue;
        if (tell(x, x->config.first_accelerator + i, member->out))
            member->told_out = member->out;
        else
            x->news = true;
    }
    executor_publish(x);
    return any;
}
