/* world.c - feeds requests, emulates accelerators, and checks the scheduler's decisions. */
#include "lab/stress/world.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/assert.h"
#include "core/util/counter.h"
#include "core/util/heap.h"
#include "core/util/rng.h"
#include "lab/stress/handle.h"
#include "lab/stress/sample.h"

#define FEED_NS_MIN  (10 * NS_PER_US) /* least time between hand-overs, since a sleep costs some microseconds */
#define FEED_NS_MAX  NS_PER_MS
#define CTRL_PART    8               /* divisor: d_ctrl is at most this part of an SLO, as in thread_rings.c */
#define BATCHES_MOST 2               /* batches of an accelerator: one runs, one is sealed */
#define DEAD_NS      (5 * NS_PER_MS) /* time after which an accelerator that died joins again */
/* The bounds of a turn, so that no thread waits long for it. */
/* Requests, in a turn, of batches that begin; the batch that exceeds this is the turn's last. */
#define PLANNED_MOST 256
#define REFUSED_MOST 256 /* refused requests, in a turn, of one model thread */
#define EVENTS_MOST  16  /* batches that end, accelerators that die, and accelerators that join, each in a turn */

/* A batch that an accelerator has. */
struct batch {
    uint32_t model_thread;
    uint32_t slice; /* slice of the batch's first request */
    int64_t end_ns;
    struct ran_message ran;
};

struct accelerator {
    uint32_t batches;
    bool dead;       /* whether the accelerator is dead: its batches, and those sent to it, are lost */
    int64_t free_ns; /* time at which all batches will have ended */
    struct batch batch[BATCHES_MOST];
};

struct world {
    struct world_config config;
    struct wiring *wiring;
    const struct profile *profile;
    int64_t slo_ns;
    /* feeding */
    struct rng rng;
    double gap_ns; /* mean gap between requests; 0: closed loop */
    uint64_t outstanding_max;
    double due_ns;         /* time at which the next request is due; 0: none was fed yet */
    int64_t arrival_ns;    /* arrival of the last request; no two handles of a world have the same */
    int64_t feed_ns;       /* time of the next hand-over */
    int64_t feed_every_ns; /* time between hand-overs */
    uint32_t *unpublished; /* [model_threads] */
    bool *model_rung;      /* [model_threads] */
    /* accelerators */
    struct accelerator *accelerators;
    struct heap ends; /* running accelerators, by the end of their first batch */
    struct heap_entry *end_entries;
    uint32_t *end_positions;
    bool *frontend_rung; /* [worlds] */
    double death_ns;     /* time at which an accelerator dies next; INT64_MAX: never */
    uint32_t *dead;   /* [config.accelerators] dead accelerators, a circle from dead_head on, in the order in which they
                       * join again */
    int64_t *join_ns; /* [config.accelerators] times at which the accelerators in `dead` join again */
    uint32_t dead_head, dead_count;
    /* checks */
    struct sample sample;
    char wrong[256];
    struct slice *slices;     /* [config.slicing.count] */
    uint32_t feed_slice;      /* slice of the last request that was offered */
    int64_t feed_slice_until; /* end of the slice feed_slice */
    _Alignas(CACHE_LINE) struct world_counts counts;
    _Atomic bool fed_enough, feeding_over;
};

static void __attribute__((format(printf, 2, 3))) wrong(struct world *w, const char *format, ...) {
    if (w->wrong[0])
        return; /* the first one explains the others */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->wrong, sizeof(w->wrong), format, arguments);
    va_end(arguments);
}

static uint32_t slice_of(const struct world *w, uint64_t handle) {
    return slice_at(&w->config.slicing, handle_arrival_ns(handle));
}

static int64_t deadline_of(const struct world *w, uint64_t handle) {
    return w->config.epoch_ns + handle_arrival_ns(handle) + w->slo_ns;
}

/* ---- feeding ---- */

static void feed_publish(struct world *w, uint32_t thread) {
    struct wiring *wiring = w->wiring;
    struct doorbell *bell = &wiring->model_bells[thread];

    w->unpublished[thread] = 0;
    ring_publish(wiring_requests(wiring, w->config.index, thread));
    if (wiring_accelerators_free(wiring))
        doorbell_ring(bell);
    else
        doorbell_ring_sleeper(bell, false);
}

/* Hands a request over. False if its model thread's ring is full. */
static bool feed_one(struct world *w, int64_t now_ns, int64_t arrival_ns, uint32_t model) {
    struct wiring *wiring = w->wiring;
    uint32_t thread = wiring->thread_of_served[model];
    struct ring *ring = wiring_requests(wiring, w->config.index, thread);
    struct request_message *message = ring_reserve(ring);

    if (!message)
        return false;
    uint64_t handle = handle_make(arrival_ns - w->config.epoch_ns, model, w->config.index);
    *message = (struct request_message){
        .handle = handle,
        .arrival_ns = now_ns,
        .deadline_ns = arrival_ns + w->slo_ns,
        .work = 1,
        .place = {model},
        .items = 1,
        .port = (uint16_t)w->config.index,
        .kind = REQUEST_ARRIVED,
    };
    ring_push(ring);
    if (sample_has(handle)) {
        sample_add(&w->sample, handle);
        counter_add(&w->counts.sampled, 1);
    }
    w->arrival_ns = arrival_ns;
    if (++w->unpublished[thread] == w->config.stress->feed_batch)
        feed_publish(w, thread);
    return true;
}

static uint32_t model_draw(struct world *w) {
    /* Of the model threads that this world feeds: thread t has the models t, t + T, ... */
    uint32_t models = w->config.stress->models, worlds = w->config.worlds;
    uint32_t mine = (models - w->config.index + worlds - 1) / worlds;
    return w->config.index + (uint32_t)rng_below(&w->rng, mine) * worlds;
}

/* The slice of a request that arrives now: a world's requests arrive in order. */
static struct slice *slice_fed(struct world *w, int64_t arrival_ns) {
    if (arrival_ns - w->config.epoch_ns >= w->feed_slice_until) {
        w->feed_slice = slice_at(&w->config.slicing, arrival_ns - w->config.epoch_ns);
        w->feed_slice_until = (w->feed_slice + 1) * w->config.slicing.slice_ns;
    }
    return &w->slices[w->feed_slice];
}

/* One hand-over. The next one is due at once if this one left requests that have arrived. */
static bool feed(struct world *w, int64_t now_ns) {
    uint64_t fed = counter_get(&w->counts.fed), before = fed, unsent = 0;
    uint64_t back = atomic_load_explicit(&w->config.finished[w->config.index].requests, memory_order_relaxed);
    uint32_t left = w->config.stress->feed_batch;

    if (now_ns < w->feed_ns)
        return false;
    w->feed_ns = now_ns + w->feed_every_ns;
    if (w->due_ns == 0)
        w->due_ns = (double)now_ns;
    for (;; left--) {
        int64_t arrival_ns = w->gap_ns > 0 ? (int64_t)w->due_ns : now_ns;
        if (arrival_ns > now_ns || (w->gap_ns <= 0 && fed - back >= w->outstanding_max))
            break;
        if (left == 0) {
            w->feed_ns = now_ns;
            break;
        }
        if (arrival_ns <= w->arrival_ns)
            arrival_ns = w->arrival_ns + 1;
        struct slice *slice = slice_fed(w, arrival_ns);
        slice->offered++;
        if (fed - back < w->outstanding_max && feed_one(w, now_ns, arrival_ns, model_draw(w))) {
            fed++;
        } else { /* as a frontend does: what queues up before the scheduler would come too late for it */
            unsent++;
            slice->bad++;
        }
        w->due_ns += w->gap_ns * rng_exponential(&w->rng);
    }
    for (uint32_t t = 0; t < w->wiring->model_threads; t++)
        if (w->unpublished[t])
            feed_publish(w, t);
    counter_add(&w->counts.fed, fed - before);
    counter_add(&w->counts.unsent, unsent);
    return fed + unsent > before;
}

/* ---- what comes back ---- */

static void finished_add(struct world *w, uint32_t world, uint64_t n) {
    atomic_fetch_add_explicit(&w->config.finished[world].requests, n, memory_order_relaxed); /* a number on its own */
}

/* Gives a request of the sample back to its world, which ticks it off. */
static void send_home(struct world *w, uint64_t handle) {
    uint32_t home = handle_world(handle);
    struct ring *ring = wiring_results(w->wiring, w->config.index, home);
    struct result_message *message = ring_reserve(ring);

    CHECK(message);           /* the ring is as large as what a world may have outstanding */
    message->handle = handle; /* that is all there is to say */
    ring_push(ring);
    w->frontend_rung[home] = true;
}

static void tick_off(struct world *w, uint64_t handle) {
    if (sample_remove(&w->sample, handle))
        counter_add(&w->counts.checked, 1);
    else
        wrong(w, "request %" PRIx64 " came back twice, or never was", handle);
}

static bool take_done(struct world *w) {
    bool any = false;

    for (uint32_t e = 0; e < w->wiring->executors; e++) {
        struct ring *ring = wiring_results(w->wiring, e, w->config.index);
        const struct result_message *message;
        for (; (message = ring_peek(ring)); ring_pop(ring), any = true)
            tick_off(w, message->handle);
        ring_release(ring);
    }
    return any;
}

static bool take_refusals(struct world *w, int64_t now_ns) {
    uint64_t refused = 0;

    for (uint32_t t = 0; t < w->wiring->model_threads; t++) {
        struct ring *ring = wiring_refusals(w->wiring, t, w->config.index);
        const struct refusal_message *message;
        for (uint32_t n = 0; n < REFUSED_MOST && (message = ring_peek(ring)); ring_pop(ring), n++, refused++) {
            uint64_t handle = message->handle;
            w->slices[slice_of(w, handle)].bad++;
            /* The window drop refuses what the largest batch would make late. */
            int64_t largest_ns = w->profile->latency_ns[w->profile->batch_max];
            int64_t hopeless_ns = deadline_of(w, handle) - largest_ns - w->slo_ns / CTRL_PART;
            if (message->reason == REFUSAL_DEADLINE && now_ns < hopeless_ns &&
                (now_ns = clock_now_ns()) < hopeless_ns) /* time has passed since the turn began */
                wrong(w, "request %" PRIx64 " is refused %" PRId64 " ns before that is needed", handle,
                      hopeless_ns - now_ns);
            if (handle_world(handle) != w->config.index)
                wrong(w, "request %" PRIx64 " is refused to world %u", handle, w->config.index);
            if (sample_has(handle))
                tick_off(w, handle);
        }
        ring_release(ring);
    }
    if (refused) {
        counter_add(&w->counts.refused, refused);
        finished_add(w, w->config.index, refused);
    }
    return refused > 0;
}

/* ---- accelerators ---- */

/* Checks every request of a batch: it is of the batch's model, comes in the order of deadlines, and by the table
 * ends by its deadline, unless the policy is blind to deadlines. Returns how many end late because their accelerator
 * is not free when it was expected to be. */
static uint32_t batch_check(struct world *w, const struct batch_plan *plan, int64_t end_ns) {
    int64_t table_end_ns = plan->sealed_ns + w->profile->latency_ns[plan->items], before_ns = -1;
    uint32_t late = 0;

    for (uint32_t i = 0; i < plan->request_count; i++) {
        uint64_t handle = plan->handles[i];
        int64_t arrival_ns = handle_arrival_ns(handle), deadline_ns = deadline_of(w, handle);
        if (handle_model(handle) != plan->place.n)
            wrong(w, "request %" PRIx64 " is in a batch of model %u", handle, plan->place.n);
        if (arrival_ns < before_ns)
            wrong(w, "request %" PRIx64 " is in a batch behind a later one", handle);
        if (table_end_ns > deadline_ns && !w->config.stress->policy->deadline_blind)
            wrong(w, "request %" PRIx64 " is started to end %" PRId64 " ns after its deadline", handle,
                  table_end_ns - deadline_ns);
        if (end_ns > deadline_ns) {
            late++;
            w->slices[slice_of(w, handle)].bad++;
        }
        before_ns = arrival_ns;
        if (sample_has(handle))
            send_home(w, handle);
    }
    counter_add(&w->counts.late, late);
    return late;
}

static void batch_end(struct world *w, uint32_t index, int64_t now_ns) {
    struct accelerator *a = &w->accelerators[index];
    const struct batch *batch = &a->batch[0];
    uint32_t subcluster = wiring_subcluster_of_accelerator(w->wiring, batch->ran.accelerator);
    struct ring *freed_ring = wiring_freed(w->wiring, w->config.index, subcluster);
    struct ring *ran_ring = wiring_ran(w->wiring, w->config.index, batch->model_thread);
    struct freed_message *freed = ring_reserve(freed_ring);
    struct ran_message *ran = ring_reserve(ran_ring);

    CHECK(freed); /* room for all batches of all accelerators */
    *freed = (struct freed_message){
        .accelerator = batch->ran.accelerator, .variant = batch->ran.variant, .ended_ns = now_ns};
    ring_push(freed_ring);
    if (ran) { /* else lost: it may be */
        *ran = batch->ran;
        ring_push(ran_ring);
        w->model_rung[batch->model_thread] = true;
    }
    a->batch[0] = a->batch[1];
    if (--a->batches)
        heap_set(&w->ends, index, a->batch[0].end_ns);
    else
        heap_remove(&w->ends, index);
}

static void lose_batches(struct world *w, uint32_t index, int64_t now_ns) {
    struct accelerator *a = &w->accelerators[index];

    while (a->batches) {
        struct ran_message *ran = &a->batch[0].ran;
        counter_add(&w->counts.lost, ran->items - ran->late);
        w->slices[a->batch[0].slice].bad += ran->items - ran->late;
        ran->run_ns = 0; /* it teaches nothing */
        ran->late = ran->items;
        batch_end(w, index, now_ns);
    }
    a->free_ns = now_ns;
}

static void take_plan(struct world *w, uint32_t model_thread, const struct batch_plan *plan, int64_t now_ns) {
    uint32_t index = plan->accelerator - w->config.first_accelerator;

    if (index >= w->config.accelerators || plan->request_count != plan->items || plan->items < 1 ||
        plan->items > w->profile->batch_max) {
        wrong(w, "a batch of %u requests and %u items for accelerator %u", plan->request_count, plan->items,
              plan->accelerator);
        return;
    }
    struct accelerator *a = &w->accelerators[index];
    if (a->batches == BATCHES_MOST) {
        wrong(w, "accelerator %u has a third batch", plan->accelerator);
        return;
    }
    int64_t begin_ns = plan->sealed_ns > a->free_ns ? plan->sealed_ns : a->free_ns;
    struct batch *batch = &a->batch[a->batches++];
    batch->model_thread = model_thread;
    batch->slice = slice_of(w, plan->handles[0]);
    batch->end_ns = a->free_ns = begin_ns + w->profile->latency_ns[plan->items];
    batch->ran = batch_plan_ran(plan);
    batch->ran.run_ns = w->profile->latency_ns[plan->items];
    batch->ran.dispatch_ns = a->batches > 1 ? -1 : now_ns - plan->sealed_ns;
    batch->ran.late = batch_check(w, plan, batch->end_ns);
    if (a->batches == 1)
        heap_set(&w->ends, index, batch->end_ns);
    counter_add(&w->counts.batches, 1);
    counter_add(&w->counts.planned, plan->request_count);
    finished_add(w, handle_world(plan->handles[0]), plan->request_count);
    if (a->dead)
        lose_batches(w, index, now_ns);
}

static bool take_plans(struct world *w, int64_t now_ns) {
    struct wiring *wiring = w->wiring;
    bool any = false;

    for (uint32_t t = 0; t < wiring->model_threads; t++) {
        struct ring *ring = wiring_plans(wiring, t, w->config.index);
        const struct batch_plan *plan;
        for (uint32_t taken = 0; taken < PLANNED_MOST && (plan = ring_peek(ring));) {
            uint32_t count = plan->request_count;
            take_plan(w, t, plan, now_ns);
            ring_pop_run(ring, batch_plan_slots(count));
            taken += count;
            any = true;
        }
        ring_release(ring);
    }
    return any;
}

/* Tells the rank thread that an accelerator joined or left. False: the ring has no room now beside the ends of batches.
 */
static bool tell(struct world *w, uint32_t index, enum accelerator_news news) {
    uint32_t accelerator = w->config.first_accelerator + index;
    uint32_t subcluster = wiring_subcluster_of_accelerator(w->wiring, accelerator);
    struct ring *ring = wiring_freed(w->wiring, w->config.index, subcluster);

    if (!ring_fits(ring, 1 + BATCHES_MOST * w->config.accelerators))
        return false;
    *(struct freed_message *)ring_reserve(ring) = (struct freed_message){.news = news, .accelerator = accelerator};
    ring_push(ring);
    return true;
}

static void some_die(struct world *w, int64_t now_ns) {
    double gap_ns = (double)NS_PER_S / w->config.stress->deaths_per_s * w->config.worlds;

    for (int n = 0; n < EVENTS_MOST && w->death_ns <= (double)now_ns;
         n++, w->death_ns += gap_ns * rng_exponential(&w->rng)) {
        uint32_t index = (uint32_t)rng_below(&w->rng, w->config.accelerators);
        if (w->accelerators[index].dead || !tell(w, index, NEWS_LEAVES))
            continue;
        w->accelerators[index].dead = true;
        lose_batches(w, index, now_ns);
        uint32_t last = (w->dead_head + w->dead_count++) % w->config.accelerators;
        w->dead[last] = index;
        w->join_ns[last] = now_ns + DEAD_NS;
        counter_add(&w->counts.deaths, 1);
    }
}

static void some_join(struct world *w, int64_t now_ns) {
    for (int n = 0; n < EVENTS_MOST && w->dead_count && w->join_ns[w->dead_head] <= now_ns &&
                    tell(w, w->dead[w->dead_head], NEWS_JOINS);
         n++) {
        w->accelerators[w->dead[w->dead_head]].dead = false;
        w->dead_head = (w->dead_head + 1) % w->config.accelerators;
        w->dead_count--;
    }
}

static bool end_batches(struct world *w, int64_t now_ns) {
    int ended = 0;

    for (; ended < EVENTS_MOST && !heap_empty(&w->ends) && heap_top(&w->ends).key <= now_ns; ended++)
        batch_end(w, heap_top(&w->ends).item, now_ns);
    return ended > 0;
}

/* ---- turns ---- */

/* Freed accelerators first, so that whoever gets the other messages may use them at once. */
static void publish(struct world *w) {
    struct wiring *wiring = w->wiring;

    for (uint32_t k = 0; k < wiring->rank_threads; k++)
        if (ring_publish(wiring_freed(wiring, w->config.index, k)))
            doorbell_ring(&wiring->rank_bells[k]);
    for (uint32_t t = 0; t < wiring->model_threads; t++)
        if (w->model_rung[t]) {
            w->model_rung[t] = false;
            ring_publish(wiring_ran(wiring, w->config.index, t));
            doorbell_ring_sleeper(&wiring->model_bells[t], false);
        }
    for (uint32_t f = 0; f < wiring->frontends; f++)
        if (w->frontend_rung[f]) {
            w->frontend_rung[f] = false;
            ring_publish(wiring_results(wiring, w->config.index, f)); /* worlds look by themselves */
        }
}

int64_t world_turn(void *world) {
    struct world *w = world;
    int64_t now_ns = clock_now_ns();

    bool any = take_plans(w, now_ns);
    any |= end_batches(w, now_ns);
    some_die(w, now_ns);
    some_join(w, now_ns);
    any |= take_refusals(w, now_ns);
    any |= take_done(w);
    publish(w);
    if (!atomic_load_explicit(&w->fed_enough, memory_order_relaxed)) { /* soon enough */
        any |= feed(w, now_ns);
    } else {
        w->feed_ns = now_ns + w->feed_every_ns;
        atomic_store_explicit(&w->feeding_over, true, memory_order_release); /* with world_drained() */
    }
    return any ? 0 : w->feed_ns;
}

static int world_allocate(struct world *w) {
    const struct world_config *c = &w->config;

    w->unpublished = calloc(w->wiring->model_threads, sizeof(*w->unpublished));
    w->model_rung = calloc(w->wiring->model_threads, sizeof(bool));
    w->frontend_rung = calloc(w->wiring->frontends, sizeof(bool));
    w->accelerators = calloc(c->accelerators, sizeof(*w->accelerators));
    w->end_entries = calloc(c->accelerators, sizeof(*w->end_entries));
    w->end_positions = calloc(c->accelerators, sizeof(*w->end_positions));
    w->dead = calloc(c->accelerators, sizeof(*w->dead));
    w->join_ns = calloc(c->accelerators, sizeof(*w->join_ns));
    w->slices = calloc(c->slicing.count, sizeof(*w->slices));
    if (!w->unpublished || !w->model_rung || !w->frontend_rung || !w->accelerators || !w->end_entries ||
        !w->end_positions || !w->dead || !w->join_ns || !w->slices ||
        sample_init(&w->sample, w->wiring->port_requests) < 0)
        return -ENOMEM;
    heap_init(&w->ends, w->end_entries, w->end_positions, c->accelerators);
    return 0;
}

int world_make(struct world **world, const struct world_config *config, struct sy_error *err) {
    const struct stress_config *s = config->stress;
    struct world *w = aligned_alloc(CACHE_LINE, (sizeof(*w) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);

    if (!w)
        return error_set(err, -ENOMEM, "no memory for a world");
    memset(w, 0, sizeof(*w));
    w->config = *config;
    w->wiring = config->wiring;
    w->profile = config->profile;
    w->slo_ns = s->slo_ns;
    w->gap_ns = s->rate > 0 ? (double)NS_PER_S / s->rate * config->worlds : 0;
    w->outstanding_max = w->wiring->port_requests;
    if (s->rate <= 0 && s->outstanding / config->worlds < w->outstanding_max)
        w->outstanding_max = s->outstanding / config->worlds + 1;
    double every_ns = w->gap_ns * s->feed_batch;
    w->feed_every_ns = every_ns < FEED_NS_MIN ? FEED_NS_MIN : every_ns > FEED_NS_MAX ? FEED_NS_MAX : (int64_t)every_ns;
    w->death_ns = s->deaths_per_s > 0 ? (double)config->epoch_ns : (double)INT64_MAX;
    rng_seed(&w->rng, s->seed * 1000003 + config->index);
    if (world_allocate(w) < 0) {
        world_free(w);
        return error_set(err, -ENOMEM, "no memory for a world");
    }
    *world = w;
    return 0;
}

void world_stop_feeding(struct world *w) {
    atomic_store_explicit(&w->fed_enough, true, memory_order_relaxed); /* a flag on its own */
}

bool world_drained(const struct world *w) {
    if (!atomic_load_explicit(&w->feeding_over, memory_order_acquire)) /* then the counts are of all that was fed */
        return false;
    return atomic_load_explicit(&w->config.finished[w->config.index].requests, memory_order_relaxed) ==
               counter_get(&w->counts.fed) &&
           counter_get(&w->counts.checked) == counter_get(&w->counts.sampled);
}

void world_free(struct world *w) {
    if (!w)
        return;
    sample_free(&w->sample);
    free(w->unpublished);
    free(w->model_rung);
    free(w->frontend_rung);
    free(w->accelerators);
    free(w->end_entries);
    free(w->end_positions);
    free(w->dead);
    free(w->join_ns);
    free(w->slices);
    free(w);
}

const struct world_counts *world_counts(const struct world *w) {
    return &w->counts;
}

const struct slice *world_slices(const struct world *w) {
    return w->slices;
}

const char *world_verdict(struct world *w) {
    if (w->sample.count)
        wrong(w, "%u requests of the sample never came back", w->sample.count);
    return w->wrong[0] ? w->wrong : NULL;
}
