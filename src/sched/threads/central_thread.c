/* central_thread.c - polls its rings, tells its core, and sends the batches that it decides on. */
#include "sched/threads/central_thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/residency.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/thread.h"
#include "core/util/assert.h"
#include "core/util/counter.h"
#include "sched/core/central_thread_core.h"

#define DELAYS_EVERY_NS (10 * NS_PER_S) /* time between two cores made because the dispatch time changed */
#define DELAYS_TIMES    2               /* factor by which the dispatch time has changed, at least */
#define DELAYS_LEAST_NS (100 * NS_PER_US)
#define NO_MEMORY_NS    (100 * NS_PER_MS) /* time until a new core is tried again after memory was out */

struct waiting_move {
    struct waiting_move *next;
    struct central_action action;
};

/* The loads and unloads of an accelerator: at most MEMORY_ORDERS_MOST are sent and have not ended, others wait. */
struct accelerator_moves {
    struct waiting_move *first, *last;
    uint32_t sent, oldest;
    uint64_t tags[MEMORY_ORDERS_MOST]; /* of those sent, a circle from `oldest` */
};

struct central_thread {
    struct thread_rings rings; /* rings for all places of served models; a model's index is its place's number */
    struct central_thread_core core;
    void *memory; /* memory of the core */
    uint32_t types;
    int64_t delays_ns; /* time at which the policy's core was last made */
    /* Ends of actions that were not sent to an executor, of which the core was not told yet: a queue in a circle. */
    struct central_ended *ended;
    uint32_t ended_head, ended_count, ended_most;
    struct accelerator_moves *moving; /* [wiring->accelerators], where memory is limited */
    struct thread_model *prepared; /* [models] descriptions of models that come; central_thread_prepare() writes them */
    uint32_t *going;               /* [models] models that go, but still have a batch under way */
    uint32_t going_count;
    uint32_t *model_of_variant; /* [wiring->models] */
    pthread_t thread;
    bool started; /* `thread` has been started */
    _Atomic bool stop;
    _Atomic double needed;                          /* central_needed(), for other threads */
    _Atomic int32_t type_wanted[CENTRAL_TYPES_MAX]; /* central_pool(), for other threads; -1: none */
    struct {
        _Atomic uint64_t plans, places, kept, requests;
    } moves; /* central_moves(), for other threads */
};

/* The model of a number in the core, which is its place's. */
static struct thread_model_id model_of(uint32_t number) {
    return (struct thread_model_id){number};
}

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

/* Whether the accelerator has as much to do as it can hold. */
static void batch_refuse(struct central_thread *t, const struct central_action *action) {
    for (uint32_t node = action->first; node != REQUEST_NONE; node = t->rings.pool.nodes[node].next)
        t->rings.pool.nodes[node].refusal = REFUSAL_PLANS_FULL;
    rings_refuse_list(&t->rings, action->first);
    end_note(t, action, false);
}

static void batch_send(struct central_thread *t, int64_t now, const struct central_action *action) {
    struct sealed_batch batch = {
        .model = model_of(action->model),
        .variant = t->rings.models[action->model].first_variant,
        .accelerator = action->accelerator,
        .first = action->first,
        .requests = action->requests,
        .items = action->items,
        .earliest_ns = action->earliest_ns,
        .latest_ns = action->latest_ns,
        .tag = action->tag,
        .ready_ns = INT64_MIN,
        .run_ns = central_run_ns(&t->core, action->accelerator, action->model, action->items),
    };
    if (alone(t, action->model))
        batch.items = ITEMS_OF_REQUEST;
    rings_send(&t->rings, now, &batch);
}

/* Orders a load or an unload. */
static void move_send(struct central_thread *t, const struct central_action *action) {
    struct wiring *w = t->rings.wiring;
    struct accelerator_moves *moves = &t->moving[action->accelerator];
    uint32_t executor = w->executor_of[action->accelerator];
    struct ring *ring = wiring_orders(w, 0, executor);
    struct move_order *order = ring_reserve(ring);
    CHECK(order); /* it has room for MEMORY_ORDERS_MOST of each accelerator */
    moves->tags[(moves->oldest + moves->sent++) % MEMORY_ORDERS_MOST] = action->tag;
    *order = (struct move_order){
        .kind = (uint8_t)action->kind,
        .accelerator = action->accelerator,
        .variant =
            action->kind == CENTRAL_EMPTY ? (struct variant_id){0} : t->rings.models[action->model].first_variant,
        .place = {action->model},
        .latest_ns = action->latest_ns,
    };
    ring_push(ring);
}

/* Keeps a load or an unload until one before it has ended: a policy counts on its being done. A batch may overtake it,
 * which is of a model whose load has ended, and that is not to be unloaded. */
static void move_keep(struct central_thread *t, const struct central_action *action) {
    struct accelerator_moves *moves = &t->moving[action->accelerator];
    struct waiting_move *move = malloc(sizeof(*move));

    CHECK(move); /* out of memory: there is nothing sensible to do */
    *move = (struct waiting_move){.action = *action};
    if (moves->first)
        moves->last->next = move;
    else
        moves->first = move;
    moves->last = move;
}

static void action_do(struct central_thread *t, int64_t now, const struct central_action *action) {
    if (action->kind != CENTRAL_RUN) {
        if (t->moving[action->accelerator].sent == MEMORY_ORDERS_MOST)
            move_keep(t, action);
        else
            move_send(t, action);
        return;
    }
    rings_queued_add(&t->rings, model_of(action->model), -(int32_t)action->requests);
    if (t->core.accelerators[action->accelerator].outstanding > WIRING_PLANS_CENTRAL ||
        !rings_fit(&t->rings, action->accelerator)) {
        batch_refuse(t, action);
        return;
    }
    batch_send(t, now, action);
}

/* central_take */
static void take(void *thread, int64_t now, const struct central_output *out) {
    struct central_thread *t = thread;
    for (uint32_t node = out->refused; node != REQUEST_NONE; node = t->rings.pool.nodes[node].next)
        rings_queued_add(&t->rings, model_of(t->rings.pool.nodes[node].model), -1);
    rings_refuse_list(&t->rings, out->refused);
    for (uint32_t i = 0; i < out->action_count; i++)
        action_do(t, now, &out->actions[i]);
}

static void take_request(struct central_thread *t, int64_t now, const struct request_message *message) {
    struct request_message own = *message;

    if (message->kind == REQUEST_ARRIVED)
        recorder_note(&t->rings.recorder, message);
    if (alone(t, message->place.n))
        own.items = 1;
    if (message->kind == REQUEST_ARRIVED && t->rings.pool.used == t->rings.pool.capacity) {
        rings_refuse(&t->rings, model_of(message->place.n), message->port, message->handle, REFUSAL_POOL_FULL);
        return;
    }
    if (message->kind == REQUEST_ARRIVED)
        rings_queued_add(&t->rings, model_of(message->place.n), 1);
    if (message->kind == REQUEST_ARRIVED && t->core.config.limited && t->core.models[message->place.n].places == 0)
        memory_counter_add(&t->rings.wiring->memory_counters[message->place.n].cold);
    central_request(&t->core, now, &own);
}

/* An accelerator leaves or comes. Where accelerators are in other processes, the message says of what type it is. */
static void take_news(struct central_thread *t, int64_t now, const struct ran_message *ran) {
    const struct set_accelerator *a = &t->core.accelerators[ran->accelerator];
    bool told = t->rings.wiring->link == LINK_SCHEDULER;

    if (ran->news == NEWS_JOINS)
        central_accelerator_comes(&t->core, now, ran->accelerator, told ? (uint8_t)ran->type : a->type,
                                  told ? ran->tag : a->memory_bytes, told ? ran->items : a->page_bytes);
    else
        central_accelerator_leaves(&t->core, now, ran->accelerator);
    wiring_accelerator_news(t->rings.wiring, ran->accelerator, ran->news, a->outstanding == 0);
}

static void take_ran(void *thread, int64_t now, const struct ran_message *ran) {
    struct central_thread *t = thread;
    if (ran->news != NEWS_ENDED) {
        take_news(t, now, ran);
        return;
    }
    uint32_t model = t->model_of_variant[ran->variant.n];
    struct central_ended ended = {
        .kind = CENTRAL_RUN,
        .accelerator = ran->accelerator,
        .model = model,
        .items = alone(t, model) ? 1 : ran->items,
        .done = ran->run_ns > 0,
        .run_ns = ran->run_ns,
        .tag = ran->tag,
    };

    rings_ran(&t->rings, model_of(model), ran);
    int64_t predicted_ns = central_action_ended(&t->core, now, &ended, true);
    if (ended.done && predicted_ns > 0)
        rings_error_add(&t->rings, CENTRAL_RUN, predicted_ns, ended.run_ns);
    else if (ended.done)
        rings_error_add(&t->rings, CENTRAL_RUN, central_run_ns(&t->core, ended.accelerator, model, ended.items),
                        ended.run_ns);
    wiring_accelerator_news(t->rings.wiring, ran->accelerator, NEWS_ENDED,
                            t->core.accelerators[ran->accelerator].outstanding == 0);
}

/* A load or an unload is over. */
static void take_moved(struct central_thread *t, int64_t now, const struct memory_moved *moved) {
    struct accelerator_moves *moves = &t->moving[moved->accelerator];
    uint32_t model = moved->kind == CENTRAL_EMPTY ? 0 : t->model_of_variant[moved->variant.n];
    struct memory_counters *counters = &t->rings.wiring->memory_counters[model];
    struct central_ended ended = {
        .kind = (enum central_action_kind)moved->kind,
        .accelerator = moved->accelerator,
        .model = model,
        .done = moved->done,
        .failed = moved->failed,
        .run_ns = moved->took_ns,
        .tag = moves->tags[moves->oldest],
    };
    const struct set_accelerator *a = &t->core.accelerators[moved->accelerator];
    CHECK(moves->sent > 0);
    if (!moved->done) /* perhaps it had left: the link told that before */
        rings_poll_ran(&t->rings, now, t, take_ran, NULL);
    moves->oldest = (moves->oldest + 1) % MEMORY_ORDERS_MOST;
    moves->sent--;
    if (ended.kind == CENTRAL_LOAD && ended.done)
        memory_counter_add(&counters->loads);
    else if (ended.kind == CENTRAL_LOAD && (ended.failed || (a->up && a->void_moves == 0)))
        memory_counter_add(&counters->failures);
    else if (ended.kind == CENTRAL_UNLOAD && ended.done)
        memory_counter_add(&counters->unloads);
    int64_t predicted_ns = central_action_ended(&t->core, now, &ended, true);
    if (ended.done && predicted_ns > 0)
        rings_error_add(&t->rings, ended.kind, predicted_ns, ended.run_ns);
    struct waiting_move *first = moves->first;
    if (!first || moves->sent == MEMORY_ORDERS_MOST)
        return;
    moves->first = first->next;
    move_send(t, &first->action);
    free(first);
}

static bool poll_moved(struct central_thread *t, int64_t now) {
    bool any = false;

    for (uint32_t e = 0; t->moving && e < t->rings.wiring->executors; e++) {
        struct ring *ring = wiring_moved(t->rings.wiring, e, 0);
        const struct memory_moved *moved;
        for (int n = 0; n < RINGS_POLL_MAX && (moved = ring_peek(ring)); n++, ring_pop(ring)) {
            take_moved(t, now, moved);
            any = true;
        }
        ring_release(ring);
    }
    return any;
}

static void tell_ended(struct central_thread *t, int64_t now) {
    while (t->ended_count) {
        struct central_ended ended = t->ended[t->ended_head];
        t->ended_head = (t->ended_head + 1) % t->ended_most;
        t->ended_count--;
        central_action_ended(&t->core, now, &ended, false);
    }
}

/* ---- models come and go ---- */

/* The description of a model that the policy is told. */
static struct central_model told_of(const struct central_thread *t, const struct thread_model *from) {
    struct central_model model = {
        .batch_max = from->variant_count == 1 ? from->batch_max : 1,
        .slo_ns = from->slo_ns,
        .weights_bytes = from->weights_bytes,
        .load_ns = from->load_ns,
        .pinned = from->pinned,
    };
    memcpy(model.profiles, from->profiles, t->types * sizeof(model.profiles[0]));
    return model;
}

static void set_subclusters(struct central_thread *t, uint32_t m, uint8_t subcluster) {
    const struct thread_model *model = &t->rings.models[m];
    for (uint32_t v = 0; v < model->variant_count; v++) /* release: with wiring_subcluster() */
        atomic_store_explicit(&t->rings.wiring->subclusters[model->first_variant.n + v], subcluster,
                              memory_order_release);
    wiring_places_ring(t->rings.wiring);
}

static void model_comes(struct central_thread *t, int64_t now, uint32_t m) {
    struct central_model told = told_of(t, &t->prepared[m]);

    rings_model_set(&t->rings, model_of(m), &t->prepared[m]);
    for (uint32_t v = 0; v < t->prepared[m].variant_count; v++)
        t->model_of_variant[t->prepared[m].first_variant.n + v] = m;
    uint32_t heir_of = t->prepared[m].heir_of;
    central_model_comes(&t->core, now, m, &told, heir_of ? heir_of - 1 : CENTRAL_NONE);
    set_subclusters(t, m, 0);
}

static bool poll_moves(struct central_thread *t, int64_t now) {
    struct ring *ring = &t->rings.wiring->moves[t->rings.index];
    const struct model_move *move;
    bool any = false;

    for (; (move = ring_peek(ring)); ring_pop(ring)) {
        if (move->kind == MODEL_COMES)
            model_comes(t, now, move->place.n);
        else if (move->kind == MODEL_GOES)
            t->going[t->going_count++] = move->place.n;
        any = true; /* there is one sub-cluster: nothing moves */
    }
    if (any)
        ring_release(ring);
    for (uint32_t i = 0; i < t->going_count; i++) {
        if (!central_model_goes(&t->core, now, t->going[i]))
            continue;
        set_subclusters(t, t->going[i], SUBCLUSTER_NONE);
        t->going[i--] = t->going[--t->going_count];
    }
    return any;
}

/* ---- another core for the policy ---- */

/* Whether the policy plans with a delay that is far from what is measured. This can be so only between the processes of
 * a cluster, where the delay is not known beforehand. */
static bool delay_differs(const struct central_thread *t, int64_t now) {
    int64_t is_ns = atomic_load_explicit(&t->rings.ctrl_ns, memory_order_relaxed), was_ns = t->core.told_ctrl_ns;
    int64_t less_ns = is_ns < was_ns ? is_ns : was_ns, more_ns = is_ns < was_ns ? was_ns : is_ns;
    return t->rings.wiring->link == LINK_SCHEDULER && now > t->delays_ns + DELAYS_EVERY_NS &&
           more_ns > DELAYS_LEAST_NS && more_ns > DELAYS_TIMES * less_ns;
}

/* Makes another core for the policy, if the set has changed. -ENOMEM: it is tried again in a while. */
static int renew(struct central_thread *t, int64_t now) {
    if (!central_renews(&t->core, now))
        return 0;
    int64_t ctrl_ns = atomic_load_explicit(&t->rings.ctrl_ns, memory_order_relaxed); /* a number on its own */
    size_t bytes = central_renew_bytes(&t->core, now, ctrl_ns);
    void *memory = bytes ? calloc(1, bytes) : NULL;
    if (bytes && !memory) {
        log_error("models and accelerators not planned for", "reason=\"out of memory\"");
        central_renew_at(&t->core, now + NO_MEMORY_NS);
        return -ENOMEM;
    }
    free(central_renew(&t->core, now, memory));
    t->delays_ns = now;
    return 0;
}

static bool anything_pending(struct central_thread *t) {
    for (uint32_t e = 0; t->moving && e < t->rings.wiring->executors; e++)
        if (ring_pending(wiring_moved(t->rings.wiring, e, 0)))
            return true;
    return rings_pending(&t->rings) || ring_pending(&t->rings.wiring->moves[t->rings.index]) ||
           atomic_load_explicit(&t->stop, memory_order_acquire); /* with central_thread_stop() */
}

static void sleep_until_needed(struct central_thread *t) {
    struct doorbell *bell = &t->rings.wiring->model_bells[t->rings.index];

    doorbell_arm(bell);
    if (anything_pending(t)) {
        doorbell_cancel(bell);
        return;
    }
    doorbell_sleep_timed(bell, central_wake_ns(&t->core), &t->rings.wake);
}

static bool poll_requests(struct central_thread *t, int64_t now_ns) {
    struct wiring *w = t->rings.wiring;
    bool any = false;

    for (uint32_t f = 0; f < w->frontends; f++) {
        struct ring *ring = wiring_requests(w, f, t->rings.index);
        const struct request_message *message;
        for (int n = 0; n < RINGS_POLL_MAX && (message = ring_peek(ring)); n++, ring_pop(ring)) {
            take_request(t, now_ns, message);
            any = true;
        }
        ring_release(ring);
    }
    return any;
}

static void moves_tell(struct central_thread *t) {
    const struct central_moves moves = central_moves(&t->core);
    atomic_store_explicit(&t->moves.plans, moves.plans, memory_order_relaxed); /* statistics, as the others */
    atomic_store_explicit(&t->moves.places, moves.places, memory_order_relaxed);
    atomic_store_explicit(&t->moves.kept, moves.kept, memory_order_relaxed);
    atomic_store_explicit(&t->moves.requests, moves.requests, memory_order_relaxed);
}

static void pool_tell(struct central_thread *t) {
    const uint16_t *pool = central_pool(&t->core);
    for (uint32_t type = 0; pool && type < t->types; type++)
        atomic_store_explicit(&t->type_wanted[type], pool[type], memory_order_relaxed); /* lone numbers */
}

bool central_thread_turn(struct central_thread *t) {
    int64_t now = clock_now_ns();
    bool any = poll_requests(t, now);

    any |= rings_poll_ran(&t->rings, now, t, take_ran, NULL);
    any |= poll_moved(t, now);
    any |= poll_moves(t, now);
    any |= central_wake_ns(&t->core) <= now;
    central_look(&t->core, now);
    tell_ended(t, now);
    renew(t, now);
    atomic_store_explicit(&t->needed, central_needed(&t->core), memory_order_relaxed); /* statistics */
    moves_tell(t);
    pool_tell(t);
    if (any && rings_follow_delays(&t->rings, now) && delay_differs(t, now))
        central_renew_at(&t->core, now);
    rings_publish(&t->rings);
    for (uint32_t e = 0; t->moving && e < t->rings.wiring->executors; e++)
        if (ring_publish(wiring_orders(t->rings.wiring, 0, e))) /* after batches: EMPTY waits for those before it */
            doorbell_ring(&t->rings.wiring->executor_bells[e]);
    return any;
}

static void *central_thread_main(void *argument) {
    struct central_thread *t = argument;

    thread_begin("central", t->rings.index, THREAD_PROMPT);
    while (!atomic_load_explicit(&t->stop, memory_order_acquire)) /* with central_thread_stop() */
        if (!central_thread_turn(t))
            sleep_until_needed(t);
    return NULL;
}

/* ---- start and end ---- */

/* Tells the core the models and accelerators that are there from the start. */
static int core_make(struct central_thread *t, const struct central_thread_config *config) {
    int64_t now = clock_now_ns();
    struct central_thread_core_config core = {
        .ops = config->policy->central,
        .options = config->policy_options,
        .pool = &t->rings.pool,
        .models_max = t->rings.model_count,
        .accelerators_max = t->rings.wiring->accelerators,
        .types = config->types,
        .limited = config->limited,
        .take = take,
        .context = t,
    };
    memcpy(core.price, config->price, sizeof(core.price));

    t->memory = calloc(1, central_thread_core_bytes(&core));
    if (!t->memory)
        return -ENOMEM;
    central_thread_core_init(&t->core, t->memory, &core);
    for (uint32_t m = 0; m < t->rings.model_count; m++) {
        const struct thread_model *model = &t->rings.models[m];
        CHECK_EQ(model->place.n, m); /* model_of() relies on it */
        struct central_model told = told_of(t, model);
        for (uint32_t v = 0; v < model->variant_count; v++)
            t->model_of_variant[model->first_variant.n + v] = m;
        if (model->variant_count > 0) /* else it was set aside, or is a place for one that comes */
            central_model_comes(&t->core, now, m, &told, CENTRAL_NONE);
    }
    for (uint32_t a = 0; a < t->rings.wiring->accelerators && !config->absent; a++)
        central_accelerator_comes(&t->core, now, a, config->accelerator_type[a], config->memory_bytes,
                                  config->page_bytes);
    return renew(t, now);
}

static void central_thread_free(struct central_thread *t) {
    free(t->core.memory);
    free(t->memory);
    free(t->ended);
    for (uint32_t a = 0; t->moving && a < t->rings.wiring->accelerators; a++)
        for (struct waiting_move *first; (first = t->moving[a].first);) {
            t->moving[a].first = first->next;
            free(first);
        }
    free(t->moving);
    free(t->prepared);
    free(t->going);
    free(t->model_of_variant);
    thread_rings_free(&t->rings);
    free(t);
}

int central_thread_make(struct central_thread **thread, const struct central_thread_config *config,
                        struct sy_error *err) {
    struct central_thread *t = calloc(1, sizeof(*t));
    int rc;

    if (!t)
        return error_set(err, -ENOMEM, "no memory for the central thread");
    t->types = config->types;
    atomic_init(&t->needed, -1);
    for (uint32_t type = 0; type < CENTRAL_TYPES_MAX; type++)
        atomic_init(&t->type_wanted[type], -1);
    rc = thread_rings_init(&t->rings, &config->rings, err);
    if (rc < 0)
        goto err_free;
    t->ended_most = config->rings.queue_max + CENTRAL_ACTIONS_MAX; /* every batch has a request */
    t->ended = calloc(t->ended_most, sizeof(*t->ended));
    t->prepared = calloc(t->rings.model_count + 1, sizeof(*t->prepared));
    t->going = calloc(t->rings.model_count + 1, sizeof(*t->going));
    t->model_of_variant = calloc(t->rings.wiring->models + 1, sizeof(*t->model_of_variant));
    if (config->limited)
        t->moving = calloc(t->rings.wiring->accelerators + 1, sizeof(*t->moving));
    rc = (t->moving || !config->limited) && t->ended && t->prepared && t->going && t->model_of_variant
             ? core_make(t, config)
             : -ENOMEM;
    if (rc < 0) {
        error_set(err, rc, "no memory for the policy %s", config->policy->name);
        goto err_free;
    }
    *thread = t;
    return 0;

err_free:
    central_thread_free(t);
    return rc;
}

int central_thread_start(struct central_thread **thread, const struct central_thread_config *config,
                         struct sy_error *err) {
    struct central_thread *t;
    int rc = central_thread_make(&t, config, err);

    if (rc < 0)
        return rc;
    rc = -pthread_create(&t->thread, NULL, central_thread_main, t);
    if (rc < 0) {
        central_thread_free(t);
        return error_set(err, rc, "cannot start the central thread: %s", strerror(-rc));
    }
    t->started = true;
    *thread = t;
    return 0;
}

void central_thread_stop(struct central_thread *t) {
    if (t->started) {
        atomic_store_explicit(&t->stop, true,
                              memory_order_release); /* with the loop's and anything_pending()'s loads */
        doorbell_ring(&t->rings.wiring->model_bells[t->rings.index]);
        pthread_join(t->thread, NULL);
    }
    central_thread_free(t);
}

void central_thread_prepare(struct central_thread *t, const struct thread_model *model) {
    t->prepared[model->place.n] = *model;
}

const struct thread_rings *central_thread_rings(const struct central_thread *t) {
    return &t->rings;
}

double central_thread_accelerators_needed(const struct central_thread *t) {
    return atomic_load_explicit(&t->needed, memory_order_relaxed); /* statistics */
}

int32_t central_thread_type_wanted(const struct central_thread *t, uint32_t type) {
    return atomic_load_explicit(&t->type_wanted[type], memory_order_relaxed); /* a lone number */
}

bool central_thread_moves(const struct central_thread *t, struct central_moves *moves) {
    *moves = (struct central_moves){
        .plans = atomic_load_explicit(&t->moves.plans, memory_order_relaxed), /* statistics */
        .places = atomic_load_explicit(&t->moves.places, memory_order_relaxed),
        .kept = atomic_load_explicit(&t->moves.kept, memory_order_relaxed),
        .requests = atomic_load_explicit(&t->moves.requests, memory_order_relaxed),
    };
    return t->core.config.ops->moves;
}
