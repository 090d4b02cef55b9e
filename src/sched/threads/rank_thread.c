/* rank_thread.c - polls its rings, steps the rank core, and passes its grants on. */
#include "sched/threads/rank_thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/system/thread.h"
#include "core/util/assert.h"
#include "core/util/counter.h"
#include "sched/core/decision_log.h"

#define POLL_MAX 256 /* messages taken from one ring a turn */
/* Parameters are new every 10 ms, and each model composes its batch anew with them. A turn tells them to TELL_MOST
 * models at most, and the next turn that does comes TELL_APART_NS later, so that grants do not wait behind a
 * thousand models. */
#define TELL_MOST     16
#define TELL_APART_NS (200 * NS_PER_US)
/* While no events come, the number of accelerators that the load needs is brought up to date every NEEDED_EVERY_NS,
 * until it is as low as NEEDED_LEAST: 15 s after a load of one accelerator has ended. */
#define NEEDED_EVERY_NS NS_PER_S
#define NEEDED_LEAST    0.0005

struct rank_thread {
    struct wiring *wiring;
    struct decision_log *log; /* NULL: decisions are not logged */
    uint32_t types;
    uint32_t subcluster;
    struct rank_core *core;
    uint8_t *accelerator_type; /* [wiring->accelerators] */
    int64_t *origin_ns; /* [wiring->models] time at which the message that led to its candidate was handed over */
    int64_t wake_ns;
    struct variant_id tell_next; /* next variant to be told the parameters */
    uint32_t tell_left;          /* variants from tell_next on that were not told the newest parameters */
    int64_t tell_ns;             /* time to tell tell_next and some more variants */
    bool *model_rung;            /* [model_threads] threads to wake at the end of the turn */
    bool *executor_rung;         /* [executors] executors to wake at the end of the turn: they have new orders */
    bool told;                   /* rank_core_config.told */
    bool news_wait;              /* some models were not told what became of their memory: a ring had no room */
    struct rank_output out;
    struct margin wake;
    struct histogram grant_times, load_errors;
    _Atomic uint64_t grants;
    uint32_t granted; /* grants of this turn */
    _Atomic double needed, needed_ns;
    _Atomic uint32_t way; /* way by which the policy is to decide; written by rank_thread_way_set() */
    uint32_t way_told;    /* way that the core was told last */
    pthread_t thread;
    bool started; /* `thread` has been started */
    _Atomic bool stop;
};

/* When the message that led to a variant's candidate was handed over. */
static int64_t *origin_of(struct rank_thread *r, struct variant_id variant) {
    return &r->origin_ns[variant.n];
}

/* The ring of grants to a model thread. */
static struct ring *grants_to(struct rank_thread *r, uint32_t thread) {
    return wiring_grants(r->wiring, thread, r->subcluster);
}

static struct ring *grants_ring(struct rank_thread *r, struct variant_id variant) {
    uint32_t thread = wiring_thread_of(r->wiring, variant);
    r->model_rung[thread] = true;
    return grants_to(r, thread);
}

/* This is the last message for the variant: all others are in the ring before it. */
static void tell_left(struct rank_thread *r, struct variant_id variant) {
    struct ring *ring = grants_ring(r, variant);
    struct grant_message *message = ring_reserve(ring);
    CHECK(message); /* told_fits() keeps room */
    message->kind = GRANT_LEFT;
    message->variant = variant;
    ring_push(ring);
}

/* Whether a ring has room for a message that is no grant: room for grants, and for models that leave, stays free. */
static bool told_fits(const struct rank_thread *r, struct ring *ring) {
    return ring_fits(ring, 1 + r->wiring->models + r->wiring->subcluster_accelerators);
}

/* Tells a variant the parameters in force. False if its ring has no room, for the moment. */
static bool tell_parameters_to(struct rank_thread *r, struct variant_id variant) {
    struct ring *ring = grants_ring(r, variant);

    if (!told_fits(r, ring))
        return false;
    struct grant_message *message = ring_reserve(ring);
    rank_core_parameters(r->core, variant, message);
    if (r->log)
        decision_rank_parameters(r->log, message);
    ring_push(ring);
    return true;
}

/* Passes on what accelerators are to load and unload. */
static void orders_send(struct rank_thread *r) {
    struct wiring *w = r->wiring;

    for (uint32_t i = 0; i < r->out.move_count; i++) {
        const struct rank_move *move = &r->out.moves[i];
        uint32_t executor = w->executor_of[move->accelerator];
        struct move_order *order = ring_reserve(wiring_orders(w, r->subcluster, executor));
        CHECK(order); /* the core gives no more than MEMORY_ORDERS_MOST */
        *order = (struct move_order){
            .kind = (uint8_t)move->kind,
            .accelerator = move->accelerator,
            .epoch = move->epoch,
            .variant = move->variant,
            .place = w->place_of_variant[move->variant.n],
            .ahead = move->ahead,
            .yields = move->yields,
            .latest_ns = move->latest_ns,
        };
        ring_push(wiring_orders(w, r->subcluster, executor));
        r->executor_rung[executor] = true;
    }
}

/* Tells the link of a cluster's scheduler that the core knows a variant. */
static void joined_tell(struct rank_thread *r, struct variant_id variant) {
    struct ring *ring = wiring_orders(r->wiring, r->subcluster, 0);
    struct move_order *order = ring_reserve(ring);
    CHECK(order); /* it has room for one of each variant, which the link reads before the variant leaves */
    *order =
        (struct move_order){.kind = MEMORY_JOINED, .variant = variant, .place = r->wiring->place_of_variant[variant.n]};
    ring_push(ring);
    r->executor_rung[0] = true;
}

/* Tells models whether an accelerator has them, or when one will, as far as the rings have room. */
static void tell_memory(struct rank_thread *r) {
    struct grant_message news;

    for (;;) {
        r->news_wait = false;
        for (uint32_t t = 0; t < r->wiring->model_threads; t++)
            r->news_wait |= !told_fits(r, grants_to(r, t));
        if (r->news_wait || !rank_core_memory_news(r->core, &news))
            return;
        struct ring *ring = grants_ring(r, news.variant);
        *(struct grant_message *)ring_reserve(ring) = news;
        ring_push(ring);
    }
}

static void rank_step(struct rank_thread *r, int64_t now, const struct rank_event *event) {
    struct rank_output *out = &r->out;

    rank_core_step(r->core, now, event, out);
    if (__builtin_expect(r->log != NULL, 0))
        decision_rank_step(r->log, r->types, now, event, false, out);
    for (uint32_t i = 0; i < out->grant_count; i++) {
        struct ring *ring = grants_ring(r, out->grants[i].variant);
        struct grant_message *message = ring_reserve(ring);
        CHECK(message); /* told_fits() keeps room for one grant an accelerator */
        *message = out->grants[i];
        if (*origin_of(r, message->variant) > message->due_ns)
            message->due_ns = *origin_of(r, message->variant);
        histogram_add(&r->grant_times, message->granted_ns - message->due_ns);
        ring_push(ring);
    }
    orders_send(r);
    for (uint32_t i = 0; i < out->gone_count; i++)
        tell_left(r, out->gone[i]);
    r->granted += out->grant_count;
    if (out->grant_count)
        counter_add(&r->grants, out->grant_count);
    if (out->parameters_changed) {
        r->tell_left = r->wiring->models;
        if (__builtin_expect(r->log != NULL, 0))
            decision_rank_load(r->log, now, rank_core_needed_ns(r->core));
        atomic_store_explicit(&r->needed, rank_core_accelerators_needed(r->core), memory_order_relaxed);
        atomic_store_explicit(&r->needed_ns, rank_core_needed_ns(r->core), memory_order_relaxed);
    }
    r->wake_ns = out->wake_ns;
    /* Rates decay in silence, and so does what is needed: whoever looks at that is told. */
    if (rank_core_accelerators_needed(r->core) > NEEDED_LEAST && now + NEEDED_EVERY_NS < r->wake_ns)
        r->wake_ns = now + NEEDED_EVERY_NS;
}

/* Tells some models the newest parameters, as far as the rings have room. */
static void tell_parameters(struct rank_thread *r, int64_t now) {
    if (!r->tell_left || now < r->tell_ns)
        return;
    r->tell_ns = now + TELL_APART_NS;
    for (uint32_t told = 0; r->tell_left && told < TELL_MOST; r->tell_left--) {
        if (rank_core_member(r->core, r->tell_next)) {
            if (!tell_parameters_to(r, r->tell_next))
                return;
            told++;
        }
        r->tell_next.n = (r->tell_next.n + 1) % r->wiring->models;
    }
}

/* Tells the core an event. The core is stepped when it has been told all events of this turn. */
static void rank_take(struct rank_thread *r, int64_t now, const struct rank_event *event) {
    rank_core_take(r->core, now, event, &r->out);
    if (__builtin_expect(r->log != NULL, 0))
        decision_rank_step(r->log, r->types, now, event, true, &r->out);
    if (r->out.left.n != RANK_NOBODY)
        tell_left(r, r->out.left);
    if (r->out.joined.n != RANK_NOBODY && !tell_parameters_to(r, r->out.joined))
        r->tell_left = r->wiring->models;
    if (r->out.joined.n != RANK_NOBODY && r->told)
        joined_tell(r, r->out.joined);
}

static bool poll_candidates(struct rank_thread *r, int64_t now) {
    struct candidate_board *board = &r->wiring->candidates;
    struct candidate candidates[ACCELERATOR_TYPES_MAX];
    struct rank_event event = {.kind = RANK_CANDIDATES, .candidates = candidates};
    bool any = false;

    for (uint32_t lane = r->subcluster; lane < board->lanes; lane += r->wiring->rank_threads)
        for (uint32_t word = 0; word * 64 < board->models; word++)
            for (uint64_t news = candidate_board_take(board, lane, word); news; news &= news - 1) {
                event.variant.n = word * 64 + (uint32_t)__builtin_ctzll(news);
                if (candidate_board_read(board, event.variant, candidates, origin_of(r, event.variant)))
                    rank_take(r, now, &event);
                any = true;
            }
    return any;
}

/* Notes the state of an accelerator that leaves or comes back. */
static void note_state(struct rank_thread *r, uint32_t accelerator, enum accelerator_news news) {
    if (news == NEWS_LEAVES || news == NEWS_JOINS ||
        wiring_accelerator_state(r->wiring, accelerator) == ACCELERATOR_LEAVING)
        wiring_accelerator_news(r->wiring, accelerator, news, rank_core_accelerator_idle(r->core, accelerator));
}

static bool poll_freed(struct rank_thread *r, int64_t now) {
    bool any = false;

    for (uint32_t e = 0; e < r->wiring->executors; e++) {
        struct ring *ring = wiring_freed(r->wiring, e, r->subcluster);
        const struct freed_message *freed;
        for (int n = 0; n < POLL_MAX && (freed = ring_peek(ring)); n++, ring_pop(ring)) {
            if (freed->news == NEWS_ENDED)
                rank_take(r, now,
                          &(struct rank_event){.kind = RANK_BATCH_ENDED,
                                               .accelerator = freed->accelerator,
                                               .variant = freed->variant,
                                               .ended = {.at_ns = freed->ended_ns, .unlike = freed->unlike}});
            else
                rank_step(r, now,
                          &(struct rank_event){.kind = freed->news == NEWS_LEAVES ? RANK_ACCELERATOR_DOWN
                                                                                  : RANK_ACCELERATOR_UP,
                                               .accelerator = freed->accelerator,
                                               .type = freed->type});
            note_state(r, freed->accelerator, freed->news);
            any = true;
        }
        ring_release(ring);
    }
    return any;
}

/* Counts the end of a load or an unload. */
static void moved_count(struct rank_thread *r, const struct memory_moved *moved) {
    struct memory_counters *counters = &r->wiring->memory_counters[r->wiring->place_of_variant[moved->variant.n].n];
    int64_t expected_ns = rank_core_load_expected_ns(r->core, moved);

    if (moved->kind == CENTRAL_LOAD)
        memory_counter_add(moved->done ? &counters->loads : &counters->failures);
    if (moved->kind == CENTRAL_UNLOAD && moved->done)
        memory_counter_add(&counters->unloads);
    if (moved->done && expected_ns > 0)
        histogram_add(&r->load_errors, llabs(moved->took_ns - expected_ns));
}

static bool poll_moved(struct rank_thread *r, int64_t now) {
    bool any = false;

    for (uint32_t e = 0; e < r->wiring->executors; e++) {
        struct ring *ring = wiring_moved(r->wiring, e, r->subcluster);
        const struct memory_moved *moved;
        for (int n = 0; n < POLL_MAX && (moved = ring_peek(ring)); n++, ring_pop(ring)) {
            /* what is told of an accelerator that has left and come back waits until the core has heard that it left */
            if ((int32_t)(moved->epoch - rank_core_memory_epoch(r->core, moved->accelerator)) > 0)
                break;
            if (moved->kind < MEMORY_SIZE)
                moved_count(r, moved);
            rank_take(r, now, &(struct rank_event){.kind = RANK_MOVED, .moved = *moved});
            any = true;
        }
        ring_release(ring);
    }
    return any;
}

static bool poll_messages(struct rank_thread *r, int64_t now) {
    bool any = false;

    for (uint32_t t = 0; t < r->wiring->model_threads; t++) {
        struct ring *ring = wiring_to_rank(r->wiring, t, r->subcluster);
        struct rank_message *message;
        for (int n = 0; n < POLL_MAX && (message = ring_peek(ring)); n++, ring_pop(ring)) {
            if (message->types) {
                /* the board may be newer than the message: announcements were ignored while the message was under way
                 */
                candidate_board_read(&r->wiring->candidates, message->variant, message->candidates,
                                     &message->origin_ns);
                *origin_of(r, message->variant) = message->origin_ns;
            }
            rank_take(r, now, &(struct rank_event){.kind = RANK_MESSAGE, .message = message});
            if (message->kind == RANK_ANSWER)
                note_state(r, message->answer.accelerator, NEWS_ENDED);
            any = true;
        }
        ring_release(ring);
    }
    return any;
}

static bool poll_way(struct rank_thread *r, int64_t now) {
    uint32_t way = atomic_load_explicit(&r->way, memory_order_relaxed); /* a number by itself */
    if (__builtin_expect(way == r->way_told, 1))
        return false;
    r->way_told = way;
    rank_take(r, now, &(struct rank_event){.kind = RANK_WAY, .way = way});
    return true;
}

/* Steps the core, if there are news or its wake_ns has come. */
static bool decide(struct rank_thread *r, int64_t now, bool news) {
    bool any = news;

    if (news)
        rank_step(r, now, &(struct rank_event){.kind = RANK_TIMER});
    for (; r->wake_ns <= now; any = true)
        rank_step(r, now, &(struct rank_event){.kind = RANK_TIMER});
    return any;
}

/* Writes the hints for wiring_accelerators_free() and naps. Other threads read the hints often, so a hint is written
 * only when it changes. */
static void tell_naps(struct rank_thread *r) {
    struct rank_hints *hints = &r->wiring->hints[r->subcluster];
    bool free = rank_core_accelerators_free(r->core) > 0;
    int64_t offer_ns = free ? TIME_NEVER : rank_core_offer_ns(r->core);

    if (atomic_load_explicit(&hints->accelerators_free, memory_order_relaxed) != free) /* own word */
        atomic_store_explicit(&hints->accelerators_free, free,
                              memory_order_relaxed); /* with wiring_accelerators_free() */
    if (atomic_load_explicit(&hints->offer_ns, memory_order_relaxed) != offer_ns)
        atomic_store_explicit(&hints->offer_ns, offer_ns, memory_order_relaxed); /* a hint */
}

/* Orders first: who hears that a model has left finds the last orders about it. */
static void ring_bells(struct rank_thread *r) {
    for (uint32_t e = 0; e < r->wiring->executors; e++)
        if (r->executor_rung[e]) {
            r->executor_rung[e] = false;
            if (ring_publish(wiring_orders(r->wiring, r->subcluster, e)))
                doorbell_ring(&r->wiring->executor_bells[e]);
        }
    for (uint32_t t = 0; t < r->wiring->model_threads; t++)
        if (r->model_rung[t]) {
            r->model_rung[t] = false;
            if (ring_publish(grants_to(r, t)))
                doorbell_ring_or_help(&r->wiring->model_bells[t], r->granted <= WIRING_HELP_MOST);
        }
}

static bool anything_pending(struct rank_thread *r) {
    struct wiring *w = r->wiring;

    for (uint32_t lane = r->subcluster; lane < w->candidates.lanes; lane += w->rank_threads) /* one a model thread */
        if (candidate_board_pending(&w->candidates, lane))
            return true;
    for (uint32_t t = 0; t < w->model_threads; t++)
        if (ring_pending(wiring_to_rank(w, t, r->subcluster)))
            return true;
    for (uint32_t e = 0; e < w->executors; e++)
        if (ring_pending(wiring_freed(w, e, r->subcluster)) || ring_pending(wiring_moved(w, e, r->subcluster)))
            return true;
    return false;
}

static bool stops(const struct rank_thread *r) {
    return atomic_load_explicit(&r->stop, memory_order_acquire); /* with rank_thread_stop() */
}

int64_t rank_thread_turn(void *thread) {
    struct rank_thread *r = thread;
    int64_t now = clock_now_ns();

    r->granted = 0;
    bool any = poll_candidates(r, now);
    any |= poll_messages(r, now);
    any |= poll_freed(r, now);
    any |= wiring_orders_loads(r->wiring) && poll_moved(r, now);
    any |= poll_way(r, now);
    any = decide(r, now, any);
    if (wiring_orders_loads(r->wiring))
        tell_memory(r);
    tell_parameters(r, now);
    tell_naps(r);
    ring_bells(r);
    if (any)
        return 0;
    if (stops(r))
        return INT64_MIN;
    int64_t again_ns = r->news_wait ? now + TELL_APART_NS : r->tell_left ? r->tell_ns : TIME_NEVER;
    return again_ns < r->wake_ns ? again_ns : r->wake_ns;
}

static void sleep_until(struct rank_thread *r, int64_t until_ns) {
    struct doorbell *bell = &r->wiring->rank_bells[r->subcluster];

    if (doorbell_keeps_awake(bell))
        return;
    doorbell_arm(bell);
    if (anything_pending(r) || stops(r))
        doorbell_cancel(bell);
    else
        doorbell_sleep_timed(bell, until_ns, &r->wake);
}

static void *rank_thread_main(void *argument) {
    struct rank_thread *r = argument;

    thread_begin("rank", r->subcluster, THREAD_PROMPT);
    while (!stops(r)) {
        int64_t until_ns = rank_thread_turn(r);
        if (until_ns)
            sleep_until(r, until_ns);
    }
    return NULL;
}

static void rank_thread_free(struct rank_thread *r) {
    free(r->core);
    free(r->accelerator_type);
    free(r->origin_ns);
    free(r->model_rung);
    free(r->executor_rung);
    free(r);
}

int rank_thread_make(struct rank_thread **thread, struct wiring *wiring, uint32_t subcluster,
                     const struct rank_core_config *config, struct sy_error *err) {
    struct rank_thread *r = calloc(1, sizeof(*r));
    struct rank_core_config own = *config;
    int rc = -ENOMEM;

    if (!r)
        return error_set(err, rc, "no memory for a rank thread");
    r->wiring = wiring;
    r->subcluster = subcluster;
    r->core = malloc(rank_core_bytes(config));
    r->accelerator_type = malloc(config->accelerators);
    r->origin_ns = calloc(config->models + 1, sizeof(int64_t));
    r->model_rung = calloc(wiring->model_threads, sizeof(bool));
    r->executor_rung = calloc(wiring->executors + 1, sizeof(bool));
    if (!r->core || !r->accelerator_type || !r->origin_ns || !r->model_rung || !r->executor_rung) {
        rank_thread_free(r);
        return error_set(err, rc, "no memory for the rank core of %u accelerators", config->accelerators);
    }
    memcpy(r->accelerator_type, config->accelerator_type, config->accelerators);
    own.accelerator_type = r->accelerator_type;
    r->told = config->told;
    own.subcluster = subcluster;
    own.subcluster_of_accelerator = wiring->subcluster_of_accelerator;
    own.subcluster_of_model = wiring->subcluster_of_model;
    rank_core_init(r->core, &own);
    r->wake_ns = rank_core_first_ns(r->core);
    r->types = config->types;
    if (wiring->decisions) {
        r->log = &wiring->decisions[wiring->model_threads + subcluster];
        decision_rank_init(r->log, &own);
    }
    *thread = r;
    return 0;
}

int rank_thread_start(struct rank_thread **thread, struct wiring *wiring, uint32_t subcluster,
                      const struct rank_core_config *config, struct sy_error *err) {
    struct rank_thread *r;
    int rc = rank_thread_make(&r, wiring, subcluster, config, err);

    if (rc < 0)
        return rc;
    doorbell_lend(&wiring->rank_bells[subcluster], rank_thread_turn, r);
    rc = -pthread_create(&r->thread, NULL, rank_thread_main, r);
    if (rc < 0) {
        rank_thread_free(r);
        return error_set(err, rc, "cannot start a rank thread: %s", strerror(-rc));
    }
    r->started = true;
    *thread = r;
    return 0;
}

void rank_thread_stop(struct rank_thread *r) {
    if (r->started) {
        atomic_store_explicit(&r->stop, true,
                              memory_order_release); /* with the loop's and anything_pending()'s loads */
        doorbell_ring(&r->wiring->rank_bells[r->subcluster]);
        pthread_join(r->thread, NULL);
    }
    rank_thread_free(r);
}

void rank_thread_way_set(struct rank_thread *r, uint32_t way) {
    atomic_store_explicit(&r->way, way, memory_order_relaxed); /* read in the next turn, whenever that is */
}

const struct margin *rank_thread_wake_margin(const struct rank_thread *r) {
    return &r->wake;
}

uint64_t rank_thread_grants(const struct rank_thread *r) {
    return counter_get(&r->grants);
}

double rank_thread_accelerators_needed(const struct rank_thread *r) {
    return atomic_load_explicit(&r->needed, memory_order_relaxed); /* statistics */
}

double rank_thread_needed_ns(const struct rank_thread *r) {
    return atomic_load_explicit(&r->needed_ns, memory_order_relaxed); /* statistics */
}

const struct histogram *rank_thread_load_errors(const struct rank_thread *r) {
    return &r->load_errors;
}

const struct histogram *rank_thread_grant_times(const struct rank_thread *r) {
    return &r->grant_times;
}

int64_t rank_thread_cpu_ns(const struct rank_thread *r) {
    return thread_cpu_ns(r->thread);
}
