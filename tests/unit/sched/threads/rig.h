/* rig.h - the live threads around the cores, without HTTP: two ports, two model threads and the rank thread, or the
 * central thread, and emulated accelerators in two executors; and crowds of requests for it. */
#pragma once

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "back/executor/executor.h"
#include "core/data/residency.h"
#include "core/system/clock.h"
#include "core/util/rng.h"
#include "front/request/port.h"
#include "lab/sim/decision_replay.h"
#include "sched/threads/central_thread.h"
#include "sched/threads/model_thread.h"
#include "sched/threads/rank_thread.h"
#include "specs.h"
#include "unit/test.h"

#define PORTS        2
#define THREADS      2
#define ACCELERATORS 4
#define EXECUTORS    2
#define MODELS       4 /* the last has variable shapes */
#define BATCH_MAX    16
#define RANKS_MAX    2
#define SHAPES       48         /* of the variable models' items, more than have a core at once */
#define LOG_BYTES    (32 << 20) /* of what each thread decides */

/* Two served models that the scheduler does not know at first, the second of variable shapes: rig_start_unused(). */
#define COMES_ONE     MODELS
#define COMES_SEVERAL (MODELS + 1)
#define SERVED        (MODELS + 2)
#define VARIANTS      (MODELS - 1 + VARIANTS_MAX)
#define UNUSED_MAX    (2 * VARIANTS_MAX)

static inline bool is_variable(uint32_t model) {
    return model == MODELS - 1 || model == COMES_SEVERAL;
}

struct rig {
    struct wiring wiring;
    struct served_model models[SERVED];
    struct profile *profiles[SERVED];
    struct executor *executors[EXECUTORS];
    uint32_t executor_of[ACCELERATORS];
    struct model_thread *model_threads[THREADS];
    struct rank_thread *rank_threads[RANKS_MAX];
    uint8_t subcluster_of_accelerator[ACCELERATORS], subcluster_of_model[VARIANTS + UNUSED_MAX];
    struct central_thread *central_thread;
    const struct policy_ops *policy;
    struct policy_options options;
    struct port *ports[PORTS];
    uint32_t thread_of_served[SERVED], thread_of_variant[VARIANTS + UNUSED_MAX];
    float input[3 * SHAPES];
    uint32_t room; /* models, of a page each, that an accelerator has room for; 0: for all, for good */
    struct place_id place_of_variant[VARIANTS + UNUSED_MAX];
    struct memory_counters memory_counters[SERVED];
    double fixed_ns; /* a batch of b takes fixed * (1 + b/5) */
    struct decision_log decisions[THREADS + RANKS_MAX];
    bool threads_ended;
};

static void model_make(struct rig *rig, uint32_t i, bool variable) {
    struct served_model *m = &rig->models[i];
    struct tensor_spec spec = {.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, variable ? -1 : 4}};

    snprintf(m->name, sizeof(m->name), "m%u", i);
    specs_set(m, (struct signature){.input_count = 1,
                                    .output_count = 1,
                                    .batched = true,
                                    .variable_shapes = variable,
                                    .inputs = &spec,
                                    .outputs = &spec});
    m->batch_max = BATCH_MAX;
    m->slo_ns = 50 * NS_PER_MS;
    m->weights_bytes = PAGE_BYTES;
    m->load_ns = 300 * NS_PER_US;
    atomic_init(&m->state, MODEL_READY);
    rig->profiles[i] = malloc(profile_bytes(BATCH_MAX));
    profile_set_line(rig->profiles[i], BATCH_MAX, rig->fixed_ns / 5, rig->fixed_ns);
}

static void start_executors(struct rig *rig) {
    struct sy_error err;
    for (uint32_t e = 0; e < rig->wiring.executors; e++) {
        uint32_t share = rig->wiring.accelerators / rig->wiring.executors;
        struct executor_config config = {.wiring = &rig->wiring,
                                         .index = e,
                                         .first_accelerator = e * share,
                                         .accelerators = share,
                                         .engine = &engine_emulated,
                                         .memory_bytes = rig->room * PAGE_BYTES,
                                         .models = rig->models,
                                         .profiles = (const struct profile *const *)rig->profiles,
                                         .model_count = SERVED};
        assert_int_equal(executor_start(&rig->executors[e], &config, &err), 0);
        assert_int_equal(executor_wait_ready(rig->executors[e], &err), 0);
    }
}

/* What thread t of the wiring's is told. */
static struct thread_rings_config rings_config(struct rig *rig, uint32_t t, struct thread_model *models) {
    struct thread_rings_config config = {
        .wiring = &rig->wiring, .index = t, .models = models, .queue_max = 300, .ctrl_ns = 100 * NS_PER_US};

    for (uint32_t i = t; i < (rig->wiring.models_unused ? SERVED : MODELS); i += rig->wiring.model_threads)
        models[config.model_count++] = (struct thread_model){.place = {i},
                                                             .first_variant = {i},
                                                             .variant_count = i >= MODELS      ? 0
                                                                              : is_variable(i) ? VARIANTS_MAX
                                                                                               : 1,
                                                             .profiles = {rig->profiles[i]},
                                                             .batch_max = BATCH_MAX,
                                                             .pages = 1,
                                                             .load_ns = rig->models[i].load_ns,
                                                             .slo_ns = rig->models[i].slo_ns};
    return config;
}

static void start_model_thread(struct rig *rig, uint32_t t) {
    struct thread_model models[SERVED];
    struct sy_error err;
    struct model_thread_config config = {.rings = rings_config(rig, t, models),
                                         .types = 1,
                                         .learn = true,
                                         .policy = rig->policy,
                                         .policy_options = &rig->options};
    assert_int_equal(model_thread_start(&rig->model_threads[t], &config, &err), 0);
}

/* What the threads decide is logged, in every test. */
static void log_decisions(struct rig *rig) {
    for (uint32_t t = 0; t < THREADS + RANKS_MAX && !rig->wiring.central; t++) {
        char *memory = malloc(LOG_BYTES);
        assert_non_null(memory);
        decision_log_init(&rig->decisions[t], memory, LOG_BYTES);
        rig->wiring.decisions = rig->decisions;
    }
}

/* Fresh cores, told the same, decide the same. When the threads have ended. */
static void decide_again(struct rig *rig) {
    for (uint32_t t = 0; t < rig->wiring.model_threads + rig->wiring.rank_threads && rig->wiring.decisions; t++) {
        struct decision_replay result;
        struct sy_error err = {""};
        if (decision_replay(rig->decisions[t].memory, LOG_BYTES, &result, &err) < 0)
            fail_msg("thread %u: %s", t, err.text);
        free(result.loads);
    }
    for (uint32_t t = 0; t < THREADS + RANKS_MAX; t++)
        free(rig->decisions[t].memory);
}

static void start_scheduler(struct rig *rig) {
    static const uint8_t types[ACCELERATORS] = {0};
    struct wiring *w = &rig->wiring;
    struct sy_error err;

    if (w->central) {
        struct thread_model models[SERVED];
        struct central_thread_config config = {.rings = rings_config(rig, 0, models),
                                               .accelerator_type = types,
                                               .types = 1,
                                               .policy = rig->policy,
                                               .policy_options = &rig->options};
        assert_int_equal(central_thread_start(&rig->central_thread, &config, &err), 0);
        return;
    }
    struct rank_weights weights[VARIANTS + UNUSED_MAX] = {{.count = 0}};
    for (uint32_t v = 0; v < VARIANTS; v++) {
        uint32_t m = w->place_of_variant ? w->place_of_variant[v].n : 0;
        weights[v] = (struct rank_weights){.first = m,
                                           .count = is_variable(m) ? VARIANTS_MAX : 1,
                                           .pages = 1,
                                           .types = 1,
                                           .load_ns = rig->models[m].load_ns};
    }
    struct rank_core_config rank = {.models = w->models,
                                    .limited = rig->room > 0,
                                    .memory_pages = rig->room,
                                    .weights = weights,
                                    .accelerators = w->accelerators,
                                    .accelerator_type = types,
                                    .types = 1,
                                    .policy = rig->policy,
                                    .policy_options = &rig->options};
    for (uint32_t k = 0; k < w->rank_threads; k++)
        assert_int_equal(rank_thread_start(&rig->rank_threads[k], w, k, &rank, &err), 0);
    for (uint32_t t = 0; t < w->model_threads; t++)
        start_model_thread(rig, t);
}

/* `unused`: variants for models that come; `room`: as in the rig. */
static struct rig *rig_start_all(const struct policy_ops *policy, uint32_t accelerators, double fixed_ns,
                                 uint32_t rank_threads, uint32_t unused, uint32_t room) {
    struct rig *rig = aligned_alloc(CACHE_LINE, (sizeof(*rig) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    struct sy_error err;

    memset(rig, 0, sizeof(*rig));
    struct wiring *w = &rig->wiring;
    rig->policy = policy;
    policy_options_preset(policy, &rig->options);
    w->frontends = PORTS;
    w->central = policy->central != NULL;
    w->model_threads = w->central ? 1 : THREADS;
    w->accelerators = accelerators;
    w->executors = accelerators < EXECUTORS ? accelerators : EXECUTORS;
    w->rank_threads = rank_threads;
    w->executor_of = rig->executor_of;
    w->subcluster_of_accelerator = rig->subcluster_of_accelerator;
    w->subcluster_of_model = rig->subcluster_of_model;
    for (uint32_t a = 0; a < accelerators; a++) {
        rig->executor_of[a] = a / (accelerators / w->executors);
        rig->subcluster_of_accelerator[a] = (uint8_t)(a % rank_threads);
    }
    rig->fixed_ns = fixed_ns;
    rig->room = room;
    if (room) {
        w->place_of_variant = rig->place_of_variant;
        w->memory_counters = rig->memory_counters;
        for (uint32_t v = 0; v < VARIANTS; v++)
            rig->place_of_variant[v].n = v < MODELS - 1 ? v : MODELS - 1;
    }
    w->models = VARIANTS + unused;
    w->models_unused = unused;
    w->batch_max = BATCH_MAX;
    w->thread_of_variant = rig->thread_of_variant;
    w->thread_of_served = rig->thread_of_served;
    for (uint32_t i = 0; i < SERVED; i++) {
        model_make(rig, i, is_variable(i));
        rig->thread_of_served[i] = i % w->model_threads;
    }
    for (uint32_t v = 0; v < w->models; v++) {
        rig->thread_of_variant[v] = (v < MODELS - 1 ? v : MODELS - 1) % w->model_threads;
        rig->subcluster_of_model[v] = v < VARIANTS ? (uint8_t)(v % rank_threads) : SUBCLUSTER_NONE;
    }
    assert_int_equal(wiring_init(w, false, &err), 0);
    start_executors(rig);
    log_decisions(rig);
    start_scheduler(rig);
    for (uint32_t f = 0; f < PORTS; f++) {
        rig->ports[f] = port_create(w, f, 100 * NS_PER_US);
        port_region(rig->ports[f], (uintptr_t)rig->input, sizeof(rig->input), -1);
    }
    return rig;
}

static inline struct rig *rig_start_unused(const struct policy_ops *policy, uint32_t accelerators, double fixed_ns,
                                           uint32_t rank_threads, uint32_t unused) {
    return rig_start_all(policy, accelerators, fixed_ns, rank_threads, unused, 0);
}

static inline struct rig *rig_start_subclusters(const struct policy_ops *policy, uint32_t accelerators, double fixed_ns,
                                                uint32_t rank_threads) {
    return rig_start_unused(policy, accelerators, fixed_ns, rank_threads, 0);
}

static inline struct rig *rig_start_with(const struct policy_ops *policy, uint32_t accelerators, double fixed_ns) {
    return rig_start_subclusters(policy, accelerators, fixed_ns, 1);
}

static inline struct rig *rig_start(uint32_t accelerators, double fixed_ns) {
    return rig_start_with(&policy_deferred, accelerators, fixed_ns);
}

/* Ends the scheduler's threads; the rest stays until rig_stop(). */
static void rig_threads_stop(struct rig *rig) {
    if (rig->threads_ended)
        return;
    rig->threads_ended = true;
    for (uint32_t t = 0; t < rig->wiring.model_threads && !rig->wiring.central; t++)
        model_thread_stop(rig->model_threads[t]);
    if (rig->wiring.central)
        central_thread_stop(rig->central_thread);
    for (uint32_t k = 0; k < rig->wiring.rank_threads && !rig->wiring.central; k++)
        rank_thread_stop(rig->rank_threads[k]);
}

static void rig_stop(struct rig *rig) {
    rig_threads_stop(rig);
    decide_again(rig);
    for (uint32_t e = 0; e < rig->wiring.executors; e++)
        executor_stop(rig->executors[e]);
    for (uint32_t f = 0; f < PORTS; f++)
        port_destroy(rig->ports[f]);
    wiring_destroy(&rig->wiring);
    for (uint32_t i = 0; i < SERVED; i++) {
        free(rig->profiles[i]);
        served_model_release(&rig->models[i]);
    }
    free(rig);
}

/* Requests of a test, and how often each came back. */
struct crowd {
    struct request *requests;
    struct tensor_view *inputs; /* of each */
    uint32_t *back, count, done, ran;
    struct rng rng;
};

static void crowd_init(struct crowd *c, uint32_t count) {
    *c = (struct crowd){.count = count};
    c->requests = calloc(count, sizeof(*c->requests));
    c->inputs = calloc(count, sizeof(*c->inputs));
    c->back = calloc(count, sizeof(*c->back));
    rng_seed(&c->rng, 17);
}

static void crowd_free(struct crowd *c) {
    free(c->requests);
    free(c->inputs);
    free(c->back);
}

static struct request *crowd_request(struct crowd *c, struct rig *rig, uint32_t i, uint32_t model, int64_t slo_ns) {
    uint32_t columns = is_variable(model) ? 1 + (uint32_t)rng_below(&c->rng, SHAPES) : 4;
    struct request *r = &c->requests[i];

    r->model = model;
    r->items = 1 + (uint32_t)rng_below(&c->rng, 3);
    r->arrival_ns = clock_now_ns();
    r->deadline_ns = r->arrival_ns + slo_ns;
    r->shape_key = is_variable(model) ? columns : 0;
    r->work = 1;
    c->inputs[i] = (struct tensor_view){
        .data = rig->input, .bytes = r->items * columns * sizeof(float), .dim_count = 2, .dims = {r->items, columns}};
    r->inputs = &c->inputs[i];
    r->input_count = 1;
    return r;
}

/* One request in four is best effort, and one of a lower priority. */
static inline void class_draw(struct crowd *c, struct request *r) {
    static const uint8_t classes[] = {0, 0, 1, PRIORITY_BEST_EFFORT};
    r->priority = classes[rng_below(&c->rng, 4)];
    if (r->priority == PRIORITY_BEST_EFFORT)
        r->deadline_ns += NS_PER_S;
}

/* Takes what a port has finished; checks each request. */
static void crowd_collect(struct crowd *c, struct rig *rig, uint32_t f) {
    struct request *r;

    while ((r = port_next(rig->ports[f]))) {
        assert_true(r >= c->requests && r < c->requests + c->count);
        assert_int_equal(c->back[r - c->requests]++, 0);
        c->done++;
        if (r->status == REQUEST_OK) {
            assert_non_null(r->block);
            assert_true(r->first_item + r->items <= r->batch_items);
            assert_int_equal(r->block->outputs[0].dims[0], r->batch_items);
            assert_true(r->run_start_ns <= r->run_end_ns);
            output_block_put(r->block);
            c->ran++;
        } else {
            assert_int_equal(r->status, REQUEST_REFUSED);
            assert_int_not_equal(r->refusal, REFUSAL_NONE);
        }
    }
}

static void pause_us(int64_t us) {
    struct timespec ts = {.tv_nsec = us * NS_PER_US};
    nanosleep(&ts, NULL);
}

static inline void crowd_wait(struct crowd *c, struct rig *rig, uint32_t f) {
    port_flush(rig->ports[f]);
    while (c->done < c->count) {
        crowd_collect(c, rig, f);
        pause_us(500);
    }
}

/* Sends up to `most` more over both ports, one in ten cancelled, and takes what is finished. */
static inline void crowd_send_some(struct crowd *c, struct rig *rig, uint32_t *sent, uint32_t most) {
    for (uint32_t n = (uint32_t)rng_below(&c->rng, most); n > 0 && *sent < c->count; n--, ++*sent) {
        struct port *port = rig->ports[*sent % PORTS];
        struct request *r = crowd_request(c, rig, *sent, (uint32_t)rng_below(&c->rng, MODELS),
                                          (int64_t)rng_below(&c->rng, 60) * NS_PER_MS);
        class_draw(c, r);
        assert_int_equal(port_submit(port, r), 0);
        if (rng_below(&c->rng, 10) == 0)
            port_cancel(port, r);
    }
    for (uint32_t f = 0; f < PORTS; f++) {
        port_flush(rig->ports[f]);
        crowd_collect(c, rig, f);
    }
}

/* Has all accelerators serve, or requests whose deadline is far would wait for ever; sends the rest, fewer than `each`
 * at a time; waits until each request has come back, once. */
static inline void crowd_finish(struct crowd *c, struct rig *rig, uint32_t *sent, uint32_t each) {
    for (uint32_t a = 0; a < rig->wiring.accelerators; a++)
        while (wiring_command(&rig->wiring, a, ACCELERATOR_JOIN) == -EAGAIN)
            pause_us(100);
    while (c->done < c->count) {
        crowd_send_some(c, rig, sent, each);
        pause_us(200);
    }
    for (uint32_t i = 0; i < c->count; i++)
        assert_int_equal(c->back[i], 1);
}
