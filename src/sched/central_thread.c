/* central_thread.c - polls its rings, steps its central policy, and sends the batches that it decides on. */
#include "sched/central_thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/thread.h"

struct central_thread {
    struct thread_rings rings; /* of all served models: the thread's index is theirs, and the policy's */
    const struct central_ops *ops;
    void *core;
    struct central_output out;
    int64_t wake_ns;
    uint32_t *outstanding; /* [accelerators] batches sent and not told to have ended */
    /* What ended before it began, and has not been told: a queue in a circle. */
    struct central_ended *ended;
    uint32_t ended_head, ended_count, ended_most;
    pthread_t thread;
    _Atomic bool stop;
};

/* Whether requests of a model run one by one, each counting as one item, because their shapes may differ. */
static bool alone(const struct central_thread *t, uint32_t model) {
    return t->rings.models[model].variant_count > 1;
}

static void end_note(struct central_thread *t, const struct central_action *action, bool done) {
    CHECK_LT(t->ended_count, t->ended_most);
    t->ended[(t->ended_head + t->ended_count++) % t->ended_most] = (struct central_ended){
        .kind = action->kind,
        .accelerator = action->accelerator,
        .model = action->model,
        .items = action->items,
        .done = done,
        .tag = action->tag,
    };
}

/* The accelerator has as much to do as it can hold. */
static void batch_refuse(struct central_thread *t, const struct central_action *action) {
    for (uint32_t node = action->first; node != REQUEST_NONE; node = t->rings.pool.nodes[node].next)
        t->rings.pool.nodes[node].refusal = REFUSAL_PLANS_FULL;
    rings_refuse_list(&t->rings, action->first);
    end_note(t, action, false);
}

static void action_do(struct central_thread *t, int64_t now, const struct central_action *action) {
    struct sealed_batch batch = {
        .model = action->model,
        .plan_model = action->model,
        .accelerator = action->accelerator,
        .first = action->first,
        .requests = action->requests,
        .items = action->items,
        .earliest_ns = action->earliest_ns,
        .latest_ns = action->latest_ns,
        .tag = action->tag,
    };
    if (action->kind != CENTRAL_RUN) { /* everything is loaded, for good */
        end_note(t, action, true);
        return;
    }
    if (alone(t, action->model))
        batch.items = ITEMS_OF_REQUEST;
    rings_queued_add(&t->rings, action->model, -(int32_t)action->requests);
    if (t->outstanding[action->accelerator] == WIRING_PLANS_CENTRAL || !rings_fit(&t->rings, action->accelerator)) {
        batch_refuse(t, action);
        return;
    }
    t->outstanding[action->accelerator]++;
    rings_send(&t->rings, now, &batch);
}

static void step(struct central_thread *t, int64_t now, const struct central_event *event) {
    t->ops->step(t->core, now, event, &t->out);
    for (uint32_t node = t->out.refused; node != REQUEST_NONE; node = t->rings.pool.nodes[node].next)
        rings_queued_add(&t->rings, t->rings.pool.nodes[node].model, -1);
    rings_refuse_list(&t->rings, t->out.refused);
    for (uint32_t i = 0; i < t->out.action_count; i++)
        action_do(t, now, &t->out.actions[i]);
    t->wake_ns = t->out.wake_ns;
}

static void take_request(struct central_thread *t, int64_t now, const struct request_message *message) {
    struct request_message own = *message;

    if (alone(t, message->model))
        own.items = 1;
    if (message->kind == REQUEST_CANCELLED) {
        step(t, now, &(struct central_event){.kind = CENTRAL_CANCELLED, .request = &own});
        return;
    }
    if (t->rings.pool.used == t->rings.pool.capacity) {
        rings_refuse(&t->rings, message->model, message->port, message->handle, REFUSAL_POOL_FULL);
        return;
    }
    rings_queued_add(&t->rings, message->model, 1);
    step(t, now, &(struct central_event){.kind = CENTRAL_ARRIVED, .request = &own});
}

/* An accelerator leaves or comes back. */
static void take_news(struct central_thread *t, int64_t now, const struct ran_message *ran) {
    enum central_event_kind kind = ran->news == NEWS_JOINS ? CENTRAL_UP : CENTRAL_DOWN;

    step(t, now, &(struct central_event){.kind = kind, .accelerator = ran->accelerator});
    wiring_accelerator_news(t->rings.wiring, ran->accelerator, ran->news, t->outstanding[ran->accelerator] == 0);
}

static void take_ran(void *thread, int64_t now, const struct ran_message *ran) {
    struct central_thread *t = thread;
    if (ran->news != NEWS_ENDED) {
        take_news(t, now, ran);
        return;
    }
    struct central_ended ended = {
        .kind = CENTRAL_RUN,
        .accelerator = ran->accelerator,
        .model = ran->model,
        .items = alone(t, ran->model) ? 1 : ran->items,
        .done = ran->run_ns > 0,
        .run_ns = ran->run_ns,
        .tag = ran->tag,
    };

    t->outstanding[ran->accelerator]--;
    wiring_accelerator_news(t->rings.wiring, ran->accelerator, NEWS_ENDED, t->outstanding[ran->accelerator] == 0);
    rings_ran(&t->rings, ran->model, ran);
    step(t, now, &(struct central_event){.kind = CENTRAL_ENDED, .accelerator = ran->accelerator, .ended = &ended});
}

static void tell_ended(struct central_thread *t, int64_t now) {
    while (t->ended_count) {
        struct central_ended ended = t->ended[t->ended_head];
        t->ended_head = (t->ended_head + 1) % t->ended_most;
        t->ended_count--;
        step(t, now, &(struct central_event){.kind = CENTRAL_ENDED, .accelerator = ended.accelerator, .ended = &ended});
    }
}

static bool poll_timer(struct central_thread *t, int64_t now) {
    bool any = t->wake_ns <= now;

    while (t->wake_ns <= now)
        step(t, now, &(struct central_event){.kind = CENTRAL_TIMER});
    return any;
}

static bool anything_pending(struct central_thread *t) {
    return rings_pending(&t->rings) ||
           atomic_load_explicit(&t->stop, memory_order_acquire); /* with central_thread_stop() */
}

static void sleep_until_needed(struct central_thread *t) {
    struct doorbell *bell = &t->rings.wiring->model_bells[t->rings.index];

    doorbell_arm(bell);
    if (anything_pending(t)) {
        doorbell_cancel(bell);
        return;
    }
    doorbell_sleep_timed(bell, t->wake_ns, &t->rings.wake);
}

static bool poll_requests(struct central_thread *t, int64_t now_ns) {
    struct wiring *w = t->rings.wiring;
    bool any = false;

    for (uint32_t f = 0; f < w->frontends; f++) {
        struct ring *ring = &w->requests[f * w->model_threads + t->rings.index];
        const struct request_message *message;
        for (int n = 0; n < RINGS_POLL_MAX && (message = ring_peek(ring)); n++, ring_pop(ring)) {
            take_request(t, now_ns, message);
            any = true;
        }
        ring_release(ring);
    }
    return any;
}

static void *central_thread_main(void *argument) {
    struct central_thread *t = argument;

    thread_begin("central", t->rings.index, THREAD_PROMPT);
    while (!atomic_load_explicit(&t->stop, memory_order_acquire)) { /* with central_thread_stop() */
        int64_t now = clock_now_ns();
        bool any = poll_requests(t, now);
        any |= rings_poll_ran(&t->rings, now, t, take_ran, NULL);
        any |= poll_timer(t, now);
        tell_ended(t, now);
        if (any)
            rings_follow_delays(&t->rings, now); /* for the metrics: the policy keeps those it began with */
        rings_publish(&t->rings);
        if (!any)
            sleep_until_needed(t);
    }
    return NULL;
}

/* What the policy is told of the models. One that was set aside never gets a request; `anything` stands for its
 * profile. */
static void models_set(const struct thread_rings *r, uint32_t types, const struct profile *anything,
                       struct central_model *models) {
    for (uint32_t m = 0; m < r->model_count; m++) {
        const struct thread_model *from = &r->models[m];
        models[m] = (struct central_model){
            .batch_max = from->variant_count == 1 ? from->batch_max : 1,
            .slo_ns = from->slo_ns,
        };
        for (uint32_t type = 0; type < types; type++)
            models[m].profiles[type] = from->variant_count ? from->profiles[type] : anything;
    }
}

static int core_make(struct central_thread *t, const struct central_thread_config *config) {
    struct central_model *models = calloc(t->rings.model_count + 1, sizeof(*models));
    struct profile *anything = malloc(profile_bytes(1));
    struct central_config core = {
        .models = models,
        .model_count = t->rings.model_count,
        .accelerator_type = config->accelerator_type,
        .accelerators = t->rings.wiring->accelerators,
        .types = config->types,
        .ctrl_ns = config->rings.ctrl_ns,
        .seed = 1,
        .options = config->policy_options,
    };

    if (models && anything) {
        profile_set_line(anything, 1, NS_PER_MS, 0);
        models_set(&t->rings, config->types, anything, models);
        t->core = calloc(1, t->ops->bytes(&core));
    }
    if (t->core)
        t->ops->init(t->core, &core, &t->rings.pool); /* copies what it needs of the models */
    free(anything);
    free(models);
    return t->core ? 0 : -ENOMEM;
}

static void central_thread_free(struct central_thread *t) {
    free(t->core);
    free(t->ended);
    free(t->outstanding);
    thread_rings_free(&t->rings);
    free(t);
}

int central_thread_start(struct central_thread **thread, const struct central_thread_config *config,
                         struct sy_error *err) {
    struct central_thread *t = calloc(1, sizeof(*t));
    int rc;

    if (!t)
        return error_set(err, -ENOMEM, "no memory for the central thread");
    t->ops = config->policy->central;
    t->wake_ns = TIME_NEVER;
    rc = thread_rings_init(&t->rings, &config->rings, err);
    if (rc < 0)
        goto err_free;
    t->ended_most = config->rings.queue_max + CENTRAL_ACTIONS_MAX; /* every batch has a request */
    t->ended = calloc(t->ended_most, sizeof(*t->ended));
    t->outstanding = calloc(t->rings.wiring->accelerators, sizeof(*t->outstanding));
    rc = t->ended && t->outstanding ? core_make(t, config) : -ENOMEM;
    if (rc < 0) {
        error_set(err, rc, "no memory for the policy %s", config->policy->name);
        goto err_free;
    }
    rc = -pthread_create(&t->thread, NULL, central_thread_main, t);
    if (rc < 0) {
        error_set(err, rc, "cannot start the central thread: %s", strerror(-rc));
        goto err_free;
    }
    *thread = t;
    return 0;

err_free:
    central_thread_free(t);
    return rc;
}

void central_thread_stop(struct central_thread *t) {
    atomic_store_explicit(&t->stop, true, memory_order_release); /* with the loop's and anything_pending()'s loads */
    doorbell_ring(&t->rings.wiring->model_bells[t->rings.index]);
    pthread_join(t->thread, NULL);
    central_thread_free(t);
}

const struct thread_rings *central_thread_rings(const struct central_thread *t) {
    return &t->rings;
}
