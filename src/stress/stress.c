/* stress.c - builds the scheduler's threads and the worlds around them, and measures between two moments. */
#include "stress/stress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/counter.h"
#include "base/rng.h"
#include "base/thread.h"
#include "sched/model_thread.h"
#include "sched/rank_thread.h"
#include "stress/world.h"

#define THREADS_PER_WORLD 4          /* model threads that a world can feed */
#define OUTSTANDING_MAX   (1U << 18) /* requests of a world */
#define REQUEST_SLOTS_MIN 8192       /* twice the largest --feed-batch */
#define REQUEST_SLOTS_MAX 65536
#define LAG_PART          8 /* of an SLO: what waits longer between a world and a model thread is turned away */
#define CTRL_NS           (100 * NS_PER_US) /* first value of what dispatch takes */
#define DRAIN_NS          (10 * NS_PER_S)
#define POLL_NS           NS_PER_MS
#define MOVES_APART_NS    (50 * NS_PER_US) /* those that are due closer together are told together */

struct stress {
    const struct stress_config *config;
    struct wiring wiring;
    struct profile *profile;
    uint8_t *accelerator_type;
    struct model_thread **model_threads;
    struct rank_thread **rank_threads;
    uint32_t worlds, started_model_threads, started_rank_threads, started_worlds;
    struct rng rng; /* which models move */
    uint64_t moves;
    struct world **world;
    struct world_finished *finished; /* [worlds] */
    uint32_t next_core;
};

/* What has happened until a moment. */
struct moment {
    int64_t now_ns, model_cpu_ns, rank_cpu_ns, world_cpu_ns, model_work_ns, rank_work_ns;
    uint64_t fed, turned_away, planned, late, lost, deaths, refused, batches, grants;
    struct histogram candidate, grant, plan, decision;
};

static void sleep_ns(int64_t ns) {
    struct timespec ts = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    nanosleep(&ts, NULL);
}

/* ---- set-up ---- */

/* The thread that is started next inherits a core of its own; those that come too late for one share the last. */
static void next_core_take(struct stress *s) {
    uint32_t cores = (uint32_t)CPU_COUNT(&s->config->cores);
    cpu_set_t one;

    if (!cores)
        return;
    CPU_ZERO(&one);
    CPU_SET(thread_core_nth(&s->config->cores, s->next_core < cores ? s->next_core++ : cores - 1), &one);
    thread_pin(&one);
}

static uint32_t batch_max(const struct stress_config *c) {
    int64_t most = (c->slo_ns - c->beta_ns) / c->alpha_ns;
    return most < 1 ? 1 : most > PROFILE_BATCH_MAX ? PROFILE_BATCH_MAX : (uint32_t)most;
}

/* The greatest number of worlds that share the model threads evenly. */
static uint32_t world_count(const struct stress_config *c) {
    uint32_t worlds = (c->model_threads + THREADS_PER_WORLD - 1) / THREADS_PER_WORLD;
    while (c->model_threads % worlds || worlds > c->models || worlds > c->accelerators)
        worlds--;
    return worlds;
}

/* Slots of a ring of requests (rounded up to a power of two there). */
static uint32_t request_slots(const struct stress_config *c) {
    double slots = c->rate / c->model_threads * (double)c->slo_ns / 1e9 / LAG_PART;
    if (c->rate <= 0 || slots > REQUEST_SLOTS_MAX)
        return REQUEST_SLOTS_MAX;
    return slots < REQUEST_SLOTS_MIN ? REQUEST_SLOTS_MIN : (uint32_t)slots;
}

static int wiring_make(struct stress *s, struct sy_error *err) {
    const struct stress_config *c = s->config;
    struct wiring *w = &s->wiring;

    w->frontends = w->executors = s->worlds;
    w->model_threads = c->model_threads;
    w->rank_threads = c->rank_threads;
    w->accelerators = c->accelerators;
    w->models = c->models;
    w->batch_max = s->profile->batch_max;
    w->port_requests = OUTSTANDING_MAX;
    w->request_slots = request_slots(c);
    w->thread_of_model = calloc(c->models, sizeof(uint32_t));
    w->thread_of_served = calloc(c->models, sizeof(uint32_t));
    w->executor_of = calloc(c->accelerators, sizeof(uint32_t));
    w->part_of_accelerator = calloc(c->accelerators, 1);
    w->part_of_model = calloc(c->models, 1);
    if (!w->thread_of_model || !w->thread_of_served || !w->executor_of || !w->part_of_accelerator || !w->part_of_model)
        return error_set(err, -ENOMEM, "no memory for %u models and %u accelerators", c->models, c->accelerators);
    for (uint32_t m = 0; m < c->models; m++) {
        w->thread_of_model[m] = w->thread_of_served[m] = m % c->model_threads;
        w->part_of_model[m] = (uint8_t)(m % c->rank_threads);
    }
    for (uint32_t a = 0; a < c->accelerators; a++) {
        w->executor_of[a] = (uint32_t)((uint64_t)a * s->worlds / c->accelerators);
        w->part_of_accelerator[a] = (uint8_t)(a % c->rank_threads);
    }
    return wiring_init(w, !c->sleep, err);
}

static int model_thread_make(struct stress *s, uint32_t index, struct sy_error *err) {
    const struct stress_config *c = s->config;
    struct thread_model *models = calloc(c->models, sizeof(*models));
    struct model_thread_config config = {
        .rings =
            {.wiring = &s->wiring, .index = index, .models = models, .queue_max = OUTSTANDING_MAX, .ctrl_ns = CTRL_NS},
        .types = 1,
        .policy = c->policy,
        .policy_options = c->policy_options,
    };

    if (!models)
        return error_set(err, -ENOMEM, "no memory for %u models", c->models);
    for (uint32_t m = index; m < c->models; m += c->model_threads)
        models[config.rings.model_count++] = (struct thread_model){
            .served_model = m,
            .first_variant = m,
            .variant_count = 1,
            .profiles = {s->profile},
            .batch_max = s->profile->batch_max,
            .slo_ns = c->slo_ns,
        };
    next_core_take(s);
    int rc = model_thread_start(&s->model_threads[index], &config, err);
    free(models);
    return rc;
}

static int rank_thread_make(struct stress *s, uint32_t part, struct sy_error *err) {
    const struct stress_config *c = s->config;
    struct rank_core_config config = {
        .models = c->models,
        .accelerators = c->accelerators,
        .accelerator_type = s->accelerator_type,
        .types = 1,
        .grace_ns = RANK_GRACE_NS,
        .policy = c->policy,
        .policy_options = c->policy_options,
    };

    next_core_take(s);
    return rank_thread_start(&s->rank_threads[part], &s->wiring, part, &config, err);
}

static int worlds_make(struct stress *s, struct sy_error *err) {
    struct world_config config = {
        .stress = s->config,
        .wiring = &s->wiring,
        .profile = s->profile,
        .worlds = s->worlds,
        .epoch_ns = clock_now_ns(),
        .finished = s->finished,
    };

    for (; s->started_worlds < s->worlds; s->started_worlds++) {
        config.index = s->started_worlds;
        config.first_accelerator += config.accelerators;
        config.accelerators = 0;
        for (uint32_t a = 0; a < s->wiring.accelerators; a++)
            config.accelerators += s->wiring.executor_of[a] == config.index;
        next_core_take(s);
        int rc = world_start(&s->world[config.index], &config, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int stress_start(struct stress *s, struct sy_error *err) {
    const struct stress_config *c = s->config;
    int rc;

    s->worlds = world_count(c);
    s->profile = malloc(profile_bytes(batch_max(c)));
    s->accelerator_type = calloc(c->accelerators, 1);
    s->model_threads = calloc(c->model_threads, sizeof(*s->model_threads));
    s->rank_threads = calloc(c->rank_threads, sizeof(*s->rank_threads));
    s->world = calloc(s->worlds, sizeof(*s->world));
    rng_seed(&s->rng, c->seed);
    s->finished = aligned_alloc(CACHE_LINE, s->worlds * sizeof(*s->finished));
    if (!s->profile || !s->accelerator_type || !s->model_threads || !s->rank_threads || !s->world || !s->finished)
        return error_set(err, -ENOMEM, "no memory for %u accelerators", c->accelerators);
    memset(s->finished, 0, s->worlds * sizeof(*s->finished));
    profile_set_line(s->profile, batch_max(c), (double)c->alpha_ns, (double)c->beta_ns);
    if ((rc = wiring_make(s, err)) < 0)
        return rc;
    for (; s->started_model_threads < c->model_threads; s->started_model_threads++)
        if ((rc = model_thread_make(s, s->started_model_threads, err)) < 0)
            return rc;
    for (; s->started_rank_threads < c->rank_threads; s->started_rank_threads++)
        if ((rc = rank_thread_make(s, s->started_rank_threads, err)) < 0)
            return rc;
    return worlds_make(s, err);
}

static void stress_end(struct stress *s) {
    for (uint32_t i = 0; i < s->started_model_threads; i++)
        model_thread_stop(s->model_threads[i]);
    for (uint32_t k = 0; k < s->started_rank_threads; k++)
        rank_thread_stop(s->rank_threads[k]);
    for (uint32_t i = 0; i < s->started_worlds; i++)
        world_free(s->world[i]);
    wiring_destroy(&s->wiring);
    free(s->wiring.thread_of_model);
    free(s->wiring.thread_of_served);
    free(s->wiring.executor_of);
    free(s->wiring.part_of_accelerator);
    free(s->wiring.part_of_model);
    free(s->rank_threads);
    free(s->finished);
    free(s->world);
    free(s->model_threads);
    free(s->accelerator_type);
    free(s->profile);
    free(s);
}

/* Lets time pass, in which models move. */
static void pass(struct stress *s, int64_t ns) {
    const struct stress_config *c = s->config;
    int64_t until_ns = clock_now_ns() + ns, every_ns = (int64_t)(1e9 / c->moves_per_s);

    if (c->moves_per_s <= 0) {
        sleep_ns(ns);
        return;
    }
    for (int64_t due_ns = clock_now_ns() + every_ns; due_ns < until_ns; due_ns += every_ns) {
        int64_t left_ns = due_ns - clock_now_ns();
        if (left_ns > MOVES_APART_NS)
            sleep_ns(left_ns);
        uint32_t model = (uint32_t)rng_below(&s->rng, c->models), part = (uint32_t)rng_below(&s->rng, c->rank_threads);
        s->moves += wiring_move(&s->wiring, model, part) == 0; /* else its model thread is far behind */
    }
    if (until_ns > clock_now_ns())
        sleep_ns(until_ns - clock_now_ns());
}

/* ---- measuring ---- */

static void moment_take(const struct stress *s, struct moment *m) {
    memset(m, 0, sizeof(*m));
    m->now_ns = clock_now_ns();
    for (uint32_t i = 0; i < s->started_model_threads; i++) {
        const struct model_thread_times *times = model_thread_times(s->model_threads[i]);
        m->model_work_ns += (int64_t)counter_get(&times->work_ns);
        m->model_cpu_ns += model_thread_cpu_ns(s->model_threads[i]);
        histogram_merge(&m->candidate, &times->candidate);
        histogram_merge(&m->plan, &times->plan);
        histogram_merge(&m->decision, &times->decision);
    }
    for (uint32_t k = 0; k < s->started_rank_threads; k++) {
        m->rank_cpu_ns += rank_thread_cpu_ns(s->rank_threads[k]);
        m->rank_work_ns += rank_thread_work_ns(s->rank_threads[k]);
        m->grants += rank_thread_grants(s->rank_threads[k]);
        histogram_merge(&m->grant, rank_thread_grant_times(s->rank_threads[k]));
    }
    for (uint32_t i = 0; i < s->worlds; i++) {
        const struct world_counts *c = world_counts(s->world[i]);
        m->world_cpu_ns += world_cpu_ns(s->world[i]);
        m->fed += counter_get(&c->fed);
        m->planned += counter_get(&c->planned);
        m->late += counter_get(&c->late);
        m->lost += counter_get(&c->lost);
        m->deaths += counter_get(&c->deaths);
        m->refused += counter_get(&c->refused);
        m->turned_away += counter_get(&c->turned_away);
        m->batches += counter_get(&c->batches);
    }
}

static struct stress_times times_of(struct histogram *until, const struct histogram *from) {
    histogram_subtract(until, from);
    return (struct stress_times){
        .p50 = histogram_quantile(until, 0.5),
        .p99 = histogram_quantile(until, 0.99),
        .p999 = histogram_quantile(until, 0.999),
    };
}

static double over(double a, double b) {
    return b > 0 ? a / b : 0;
}

/* What one more accelerator costs the rank core. */
static uint64_t accelerator_bytes(const struct stress_config *c) {
    static const uint8_t type;
    struct rank_core_config config = {.models = 1, .accelerators = 0, .accelerator_type = &type, .types = 1};
    size_t none = rank_core_bytes(&config);

    config.accelerators = c->accelerators;
    return (rank_core_bytes(&config) - none) / c->accelerators;
}

static void result_fill(const struct stress *s, struct moment *from, struct moment *to, struct stress_result *r) {
    double ns = (double)(to->now_ns - from->now_ns), requests = (double)(to->fed - from->fed);
    double planned = (double)(to->planned - from->planned);
    double refused = (double)(to->refused - from->refused + to->turned_away - from->turned_away);
    double late = (double)(to->late - from->late), grants = (double)(to->grants - from->grants);
    uint32_t threads = s->config->model_threads;

    r->seconds = ns / 1e9;
    r->requests_per_s = requests / r->seconds;
    r->offered_per_s = s->config->rate > 0 ? s->config->rate : r->requests_per_s;
    r->grants_per_s = grants / r->seconds;
    r->requests = to->fed - from->fed;
    r->batches = to->batches - from->batches;
    r->batch_mean = over(planned, (double)r->batches);
    r->dropped_rate = over(refused, planned + refused);
    r->late_rate = over(late, planned + refused);
    r->lost_rate = over((double)(to->lost - from->lost), planned + refused);
    r->bad_rate = r->dropped_rate + r->late_rate + r->lost_rate;
    r->deaths = to->deaths - from->deaths;
    r->candidate = times_of(&to->candidate, &from->candidate);
    r->grant = times_of(&to->grant, &from->grant);
    r->plan = times_of(&to->plan, &from->plan);
    r->decision = times_of(&to->decision, &from->decision);
    double model_cpu_ns = (double)(to->model_cpu_ns - from->model_cpu_ns);
    double rank_cpu_ns = (double)(to->rank_cpu_ns - from->rank_cpu_ns);
    r->model_busy = r->rank_busy = 1;
    if (!s->config->sleep) {
        r->model_busy = (double)(to->model_work_ns - from->model_work_ns) / ns / threads;
        r->rank_busy = (double)(to->rank_work_ns - from->rank_work_ns) / ns / s->config->rank_threads;
    }
    r->model_ran = model_cpu_ns / ns / threads;
    r->rank_ran = rank_cpu_ns / ns / s->config->rank_threads;
    r->model_cpu_ns = over(model_cpu_ns * r->model_busy, requests);
    r->rank_cpu_ns = over(rank_cpu_ns * r->rank_busy, requests);
    r->world_cpu_ns = over((double)(to->world_cpu_ns - from->world_cpu_ns), requests);
    r->rank_cpu_ns_per_grant = over(rank_cpu_ns * r->rank_busy, grants);
    r->moves = s->moves;
    r->batch_max = s->profile->batch_max;
    r->request_bytes = sizeof(struct request_node);
    r->accelerator_bytes = accelerator_bytes(s->config);
}

/* Lets all requests come back, and asks the worlds what was wrong. */
static void verdict(struct stress *s, struct stress_result *r) {
    int64_t until_ns = clock_now_ns() + DRAIN_NS;

    for (uint32_t i = 0; i < s->worlds; i++)
        world_stop_feeding(s->world[i]);
    for (uint32_t i = 0; i < s->worlds; i++)
        while (!world_drained(s->world[i]) && clock_now_ns() < until_ns)
            sleep_ns(POLL_NS);
    for (uint32_t i = 0; i < s->worlds; i++) {
        bool drained = world_drained(s->world[i]);
        world_stop(s->world[i]);
        const char *wrong = world_verdict(s->world[i]);
        r->checked_requests += counter_get(&world_counts(s->world[i])->checked);
        if (r->wrong || (drained && !wrong))
            continue;
        if (wrong)
            snprintf(r->wrong_text, sizeof(r->wrong_text), "%s", wrong);
        else
            snprintf(r->wrong_text, sizeof(r->wrong_text), "%llu of %llu requests of world %u never came back",
                     (unsigned long long)(counter_get(&world_counts(s->world[i])->fed) -
                                          counter_get(&s->finished[i].requests)),
                     (unsigned long long)counter_get(&world_counts(s->world[i])->fed), i);
        r->wrong = true;
    }
}

int stress_run(const struct stress_config *config, struct stress_result *result, struct sy_error *err) {
    struct stress *s = aligned_alloc(CACHE_LINE, (sizeof(*s) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    struct moment *moments = calloc(2, sizeof(*moments));
    cpu_set_t before;
    int rc = -ENOMEM;

    memset(result, 0, sizeof(*result));
    thread_cores_allowed(&before);
    if (!s || !moments) {
        free(s);
        free(moments);
        return error_set(err, rc, "no memory");
    }
    memset(s, 0, sizeof(*s));
    s->config = config;
    rc = stress_start(s, err);
    thread_pin(&before);
    if (rc == 0) {
        pass(s, (int64_t)(config->warmup_s * 1e9));
        moment_take(s, &moments[0]);
        pass(s, (int64_t)(config->seconds * 1e9));
        moment_take(s, &moments[1]);
        result_fill(s, &moments[0], &moments[1], result);
        verdict(s, result);
    } else {
        for (uint32_t i = 0; i < s->started_worlds; i++)
            world_stop(s->world[i]);
    }
    stress_end(s);
    free(moments);
    return rc;
}
