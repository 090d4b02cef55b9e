/* stress.c - builds the scheduler's threads and the worlds around them, lets them run, and reports mistakes. */
#include "lab/stress/stress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/system/thread.h"
#include "core/util/counter.h"
#include "lab/stress/figures.h"

#define THREADS_PER_WORLD 4          /* model threads that a world can feed */
#define OUTSTANDING_MAX   (1U << 18) /* most requests that a world has outstanding */
#define REQUEST_SLOTS_MIN 8192       /* least slots of a ring of requests: twice the largest --feed-batch */
#define REQUEST_SLOTS_MAX 65536
/* Divisor: requests that would wait longer than this part of an SLO between world and model thread are not sent. */
#define LAG_PART       8
#define CTRL_NS        (100 * NS_PER_US) /* first estimate of the time of a dispatch */
#define OVERRUN_S      1 /* seconds for which slices are kept in addition; the last slice gets all later requests */
#define DRAIN_NS       (10 * NS_PER_S) /* time without a request coming back after which none will */
#define POLL_NS        NS_PER_MS
#define MOVES_APART_NS (50 * NS_PER_US) /* moves of models that are due closer together are told together */

/* ---- set-up ---- */

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

    w->frontends = w->executors = world_count(c);
    w->model_threads = c->model_threads;
    w->rank_threads = c->rank_threads;
    w->accelerators = c->accelerators;
    w->models = c->models;
    w->batch_max = s->profile->batch_max;
    w->port_requests = OUTSTANDING_MAX;
    w->request_slots = request_slots(c);
    w->thread_of_variant = calloc(c->models, sizeof(uint32_t));
    w->thread_of_served = calloc(c->models, sizeof(uint32_t));
    w->executor_of = calloc(c->accelerators, sizeof(uint32_t));
    w->subcluster_of_accelerator = calloc(c->accelerators, 1);
    w->subcluster_of_model = calloc(c->models, 1);
    if (!w->thread_of_variant || !w->thread_of_served || !w->executor_of || !w->subcluster_of_accelerator ||
        !w->subcluster_of_model)
        return error_set(err, -ENOMEM, "no memory for %u models and %u accelerators", c->models, c->accelerators);
    for (uint32_t m = 0; m < c->models; m++) {
        w->thread_of_variant[m] = w->thread_of_served[m] = m % c->model_threads;
        w->subcluster_of_model[m] = (uint8_t)(m % c->rank_threads);
    }
    for (uint32_t a = 0; a < c->accelerators; a++) {
        w->executor_of[a] = (uint32_t)((uint64_t)a * w->executors / c->accelerators);
        w->subcluster_of_accelerator[a] = (uint8_t)(a % c->rank_threads);
    }
    return wiring_init(w, !c->sleep, err);
}

static int model_thread_make_one(struct stress *s, uint32_t index, struct sy_error *err) {
    const struct stress_config *c = s->config;
    struct thread_model *models = calloc(c->models, sizeof(*models));
    struct model_thread_config config = {
        .rings = {.wiring = &s->wiring,
                  .index = index,
                  .models = models,
                  .queue_max = OUTSTANDING_MAX,
                  .ctrl_ns = CTRL_NS,
                  .types = 1,
                  .record_bytes = c->record_bytes},
        .types = 1,
        .policy = c->policy,
        .policy_options = c->policy_options,
    };

    if (!models)
        return error_set(err, -ENOMEM, "no memory for %u models", c->models);
    for (uint32_t m = index; m < c->models; m += c->model_threads)
        models[config.rings.model_count++] = (struct thread_model){
            .place = {m},
            .first_variant = {m},
            .variant_count = 1,
            .profiles = {s->profile},
            .batch_max = s->profile->batch_max,
            .slo_ns = c->slo_ns,
        };
    int rc = c->sleep ? model_thread_start(&s->model_thread[index], &config, err)
                      : model_thread_make(&s->model_thread[index], &config, err);
    free(models);
    return rc;
}

static int rank_thread_make_one(struct stress *s, uint32_t subcluster, struct sy_error *err) {
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

    return c->sleep ? rank_thread_start(&s->rank_thread[subcluster], &s->wiring, subcluster, &config, err)
                    : rank_thread_make(&s->rank_thread[subcluster], &s->wiring, subcluster, &config, err);
}

static int worlds_make(struct stress *s, struct sy_error *err) {
    struct world_config config = {
        .stress = s->config,
        .wiring = &s->wiring,
        .profile = s->profile,
        .worlds = s->wiring.frontends,
        .epoch_ns = s->epoch_ns,
        .slicing = s->slicing,
        .finished = s->finished,
    };

    for (; s->worlds < config.worlds; s->worlds++) {
        config.index = s->worlds;
        config.first_accelerator += config.accelerators;
        config.accelerators = 0;
        for (uint32_t a = 0; a < s->wiring.accelerators; a++)
            config.accelerators += s->wiring.executor_of[a] == config.index;
        int rc = world_make(&s->world[config.index], &config, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- who drives whom ---- */

/* The core of the n-th of all threads, in the order in which they get cores; the last core if there are fewer. An empty
 * set: any core. */
static void core_of(const struct stress_config *c, uint32_t n, cpu_set_t *core) {
    uint32_t cores = (uint32_t)CPU_COUNT(&c->cores);

    CPU_ZERO(core);
    if (cores)
        CPU_SET(thread_core_nth(&c->cores, n < cores ? n : cores - 1), core);
}

/* Threads that sleep inherit their core from the thread that starts them. */
static void next_core_take(const struct stress *s) {
    cpu_set_t core;

    core_of(s->config, s->model_threads + s->rank_threads, &core);
    if (s->config->sleep && CPU_COUNT(&core))
        thread_pin(&core);
}

static void seat_take(struct stress *s, doorbell_turn *turn, void *passenger, enum driver_role role) {
    s->seats[s->seat_count++] = (struct driver_seat){.turn = turn, .passenger = passenger, .role = role};
}

static int seats_take(struct stress *s) {
    const struct stress_config *c = s->config;

    s->seats = aligned_alloc(CACHE_LINE, (c->model_threads + c->rank_threads + s->worlds) * sizeof(*s->seats));
    if (!s->seats)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->model_threads && !c->sleep; i++) {
        seat_take(s, model_thread_turn, s->model_thread[i], ROLE_MODEL);
        s->seats[i].times = &model_thread_times(s->model_thread[i])->decision;
        s->seats[i].times_until = calloc(s->slicing.count, sizeof(struct histogram));
        if (!s->seats[i].times_until)
            return -ENOMEM;
    }
    for (uint32_t k = 0; k < s->rank_threads && !c->sleep; k++)
        seat_take(s, rank_thread_turn, s->rank_thread[k], ROLE_RANK);
    for (uint32_t w = 0; w < s->worlds; w++)
        seat_take(s, world_turn, s->world[w], ROLE_WORLD);
    s->driver_of_seat = calloc(s->seat_count, sizeof(*s->driver_of_seat));
    s->drivers = calloc(s->seat_count, sizeof(*s->drivers));
    return s->driver_of_seat && s->drivers ? 0 : -ENOMEM;
}

/* A core for each seat; seats for which none is left share the last one. Threads that sleep leave that to the
 * kernel. */
static int drivers_start(struct stress *s, struct sy_error *err) {
    uint32_t first = s->config->sleep ? s->model_threads + s->rank_threads : 0;
    cpu_set_t cores = s->config->cores;

    if (!CPU_COUNT(&cores))
        thread_cores_allowed(&cores);
    uint32_t drivers =
        s->config->sleep || s->seat_count < (uint32_t)CPU_COUNT(&cores) ? s->seat_count : (uint32_t)CPU_COUNT(&cores);
    for (uint32_t i = 0; i < s->seat_count; i++)
        s->driver_of_seat[i] = i < drivers ? i : drivers - 1;
    for (; s->driver_count < drivers; s->driver_count++) {
        uint32_t d = s->driver_count;
        struct driver_config config = {
            .index = d,
            .sleeps = s->config->sleep,
            .epoch_ns = s->epoch_ns,
            .slicing = s->slicing,
            .seats = &s->seats[d],
            .seat_count = d + 1 < drivers ? 1 : s->seat_count - d,
        };
        core_of(s->config, first + d, &config.cores);
        int rc = driver_start(&s->drivers[d], &config, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int stress_start(struct stress *s, struct sy_error *err) {
    const struct stress_config *c = s->config;
    uint32_t worlds = world_count(c);
    int rc;

    s->profile = malloc(profile_bytes(batch_max(c)));
    s->accelerator_type = calloc(c->accelerators, 1);
    s->model_thread = calloc(c->model_threads, sizeof(*s->model_thread));
    s->rank_thread = calloc(c->rank_threads, sizeof(*s->rank_thread));
    s->world = calloc(worlds, sizeof(*s->world));
    rng_seed(&s->rng, c->seed);
    s->finished = aligned_alloc(CACHE_LINE, worlds * sizeof(*s->finished));
    if (!s->profile || !s->accelerator_type || !s->model_thread || !s->rank_thread || !s->world || !s->finished)
        return error_set(err, -ENOMEM, "no memory for %u accelerators", c->accelerators);
    memset(s->finished, 0, worlds * sizeof(*s->finished));
    profile_set_line(s->profile, batch_max(c), (double)c->alpha_ns, (double)c->beta_ns);
    if ((rc = wiring_make(s, err)) < 0)
        return rc;
    for (; s->model_threads < c->model_threads; s->model_threads++) {
        next_core_take(s);
        if ((rc = model_thread_make_one(s, s->model_threads, err)) < 0)
            return rc;
    }
    for (; s->rank_threads < c->rank_threads; s->rank_threads++) {
        next_core_take(s);
        if ((rc = rank_thread_make_one(s, s->rank_threads, err)) < 0)
            return rc;
    }
    s->slicing = slicing_of(c->slo_ns, (int64_t)((c->warmup_s + c->seconds + OVERRUN_S) * 1e9));
    s->epoch_ns = clock_now_ns();
    if ((rc = worlds_make(s, err)) < 0)
        return rc;
    if (seats_take(s) < 0)
        return error_set(err, -ENOMEM, "no memory for %u slices of time", s->slicing.count);
    return drivers_start(s, err);
}

static void drivers_stop(struct stress *s) {
    for (uint32_t d = 0; d < s->driver_count; d++)
        driver_stop(s->drivers[d]);
}

/* After drivers_stop(). */
static void stress_end(struct stress *s) {
    for (uint32_t i = 0; i < s->model_threads; i++)
        model_thread_stop(s->model_thread[i]);
    for (uint32_t k = 0; k < s->rank_threads; k++)
        rank_thread_stop(s->rank_thread[k]);
    for (uint32_t d = 0; d < s->driver_count; d++)
        driver_free(s->drivers[d]);
    for (uint32_t i = 0; i < s->seat_count; i++)
        free(s->seats[i].times_until);
    for (uint32_t i = 0; i < s->worlds; i++)
        world_free(s->world[i]);
    wiring_destroy(&s->wiring);
    free(s->wiring.thread_of_variant);
    free(s->wiring.thread_of_served);
    free(s->wiring.executor_of);
    free(s->wiring.subcluster_of_accelerator);
    free(s->wiring.subcluster_of_model);
    free(s->drivers);
    free(s->driver_of_seat);
    free(s->seats);
    free(s->finished);
    free(s->world);
    free(s->rank_thread);
    free(s->model_thread);
    free(s->accelerator_type);
    free(s->profile);
    free(s);
}

/* ---- running ---- */

/* Lets time pass, in which models move. */
static void pass(struct stress *s, int64_t ns) {
    const struct stress_config *c = s->config;
    if (c->moves_per_s <= 0) {
        clock_sleep(ns);
        return;
    }
    int64_t until_ns = clock_now_ns() + ns, every_ns = (int64_t)(1e9 / c->moves_per_s);
    for (int64_t due_ns = clock_now_ns() + every_ns; due_ns < until_ns; due_ns += every_ns) {
        int64_t left_ns = due_ns - clock_now_ns();
        if (left_ns > MOVES_APART_NS)
            clock_sleep(left_ns);
        struct variant_id variant = {(uint32_t)rng_below(&s->rng, c->models)};
        uint32_t subcluster = (uint32_t)rng_below(&s->rng, c->rank_threads);
        s->moves += wiring_move(&s->wiring, variant, subcluster) == 0; /* else its model thread is far behind */
    }
    if (until_ns > clock_now_ns())
        clock_sleep(until_ns - clock_now_ns());
}

static bool all_drained(const struct stress *s) {
    for (uint32_t i = 0; i < s->worlds; i++)
        if (!world_drained(s->world[i]))
            return false;
    return true;
}

/* Waits until all requests have come back, ends all turns, and collects the mistakes that the worlds found. */
static void verdict(struct stress *s, struct stress_result *r) {
    for (uint32_t i = 0; i < s->worlds; i++)
        world_stop_feeding(s->world[i]);
    int64_t now_ns = clock_now_ns(), until_ns = now_ns + DRAIN_NS;
    for (uint64_t back = 0; !all_drained(s) && now_ns < until_ns; now_ns = clock_now_ns()) {
        uint64_t now_back = 0;

        for (uint32_t i = 0; i < s->worlds; i++)
            now_back += counter_get(&s->finished[i].requests);
        if (now_back > back)
            until_ns = now_ns + DRAIN_NS;
        back = now_back;
        clock_sleep(POLL_NS);
    }
    drivers_stop(s);
    for (uint32_t i = 0; i < s->worlds; i++) {
        bool drained = world_drained(s->world[i]);
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
        figures_between(s, &moments[0], &moments[1], result);
        verdict(s, result);
        result->pauses_known = !config->sleep;
        if (result->pauses_known && (rc = figures_undisturbed(s, moments[0].now_ns, moments[1].now_ns, result)) < 0)
            error_set(err, rc, "no memory");
    } else {
        drivers_stop(s);
    }
    stress_end(s);
    free(moments);
    return rc;
}

static bool meets(const struct stress_goal *goal, double bad_rate, const struct stress_times *decision, double rate) {
    return bad_rate <= goal->bad_most && decision->p99 < goal->decision_ns && rate >= (1 - goal->bad_most) * goal->rate;
}

enum stress_held stress_held(const struct stress_goal *goal, const struct stress_result *r) {
    const struct stress_undisturbed *u = &r->undisturbed;

    if (!r->pauses_known || r->wrong)
        return stress_held_anyway(goal, r);
    if (u->share < goal->undisturbed_least)
        return STRESS_DISTURBED;
    return meets(goal, u->bad_rate, &u->decision, u->offered_per_s) ? STRESS_HELD : STRESS_FAILED;
}

enum stress_held stress_held_anyway(const struct stress_goal *goal, const struct stress_result *r) {
    return !r->wrong && meets(goal, r->bad_rate, &r->decision, r->requests_per_s) ? STRESS_HELD : STRESS_FAILED;
}
