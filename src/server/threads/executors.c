/* executors.c - starts and watches executors, and sends them orders: from clients about accelerators, and from the
 * repository thread about models. */
#include "server/threads/executors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "back/executor/executor.h"
#include "core/data/residency.h"
#include "core/data/running.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/thread.h"
#include "server/threads/model_control.h"

#define EMULATED_PER_THREAD 64 /* emulated accelerators of a thread; more once every core has a thread */

void executors_cold_warn(const struct executors *e, const struct server_config *config) {
    const struct served_model *first = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < config->model_count && config->memory_bytes; i++) {
        const struct served_model *m = &config->models[i];
        const struct profile *profile = NULL; /* on the first type that runs it */
        for (uint32_t type = 0; type < e->type_count && !profile; type++)
            profile = e->types[type].profiles[i];
        if (served_model_state(m) != MODEL_READY || m->ensemble || !profile || m->pinned || m->best_effort ||
            m->slo_chosen || m->load_ns + profile->latency_ns[1] <= m->slo_ns)
            continue;
        first = first ? first : m;
        count++;
    }
    if (first)
        log_warn(COLD_REFUSED_WORDS, "models=%u first=%s load_ms=%.6g slo_ms=%.6g", count, first->name,
                 (double)first->load_ns / 1e6, (double)first->slo_ns / 1e6);
}

bool executors_cores_beside(const cpu_set_t *executor_cores, cpu_set_t *others) {
    thread_cores_allowed(others);
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, executor_cores))
            CPU_CLR(core, others);
    if (CPU_COUNT(others) > 0)
        return CPU_COUNT(executor_cores) > 0;
    thread_cores_allowed(others);
    return false;
}

/* The number of threads that drive the accelerators of a type: one for each; emulated accelerators share threads. */
static uint32_t executors_of(const struct server_accelerators *a) {
    cpu_set_t allowed;

    if (!a->engine->emulate)
        return a->count;
    thread_cores_allowed(&allowed);
    uint32_t threads = (a->count + EMULATED_PER_THREAD - 1) / EMULATED_PER_THREAD, most = (uint32_t)CPU_COUNT(&allowed);
    return threads < most ? threads : most;
}

/* The number of accelerators that the n-th thread of a type drives. */
static uint32_t accelerators_of(const struct server_accelerators *a, uint32_t n) {
    uint32_t threads = executors_of(a);
    return a->count / threads + (n < a->count % threads);
}

int executors_init(struct executors *e, struct wiring *w, const struct server_config *c) {
    *e = (struct executors){.wiring = w, .types = c->accelerators, .type_count = c->type_count};
    pthread_mutex_init(&e->lock, NULL);
    for (uint32_t type = 0; type < c->type_count && server_runs(c); type++) {
        w->accelerators += e->types[type].count;
        w->executors += executors_of(&e->types[type]);
    }
    e->type_of = calloc(w->accelerators, 1);
    e->list = calloc(w->executors, sizeof(*e->list));
    w->executor_of = calloc(w->accelerators, sizeof(uint32_t));
    w->subcluster_of_accelerator = calloc(w->accelerators, 1);
    if (!e->type_of || !e->list || !w->executor_of || !w->subcluster_of_accelerator)
        return -ENOMEM;
    struct running *const *running = c->cluster ? c->cluster->running : NULL;
    uint32_t timelines = server_runs(c) ? w->accelerators : running ? c->cluster->running_count : 0;
    int rc = timelines_init(&e->timelines, timelines, running ? 0 : c->timeline_bytes);
    if (rc < 0)
        return rc;
    for (uint32_t a = 0; running && a < timelines && c->timeline_bytes; a++)
        e->timelines.of[a] = running_timeline(running[a]);
    for (uint32_t a = 0; a < w->accelerators; a++) /* in a cluster's scheduler: all accelerators that may come */
        w->subcluster_of_accelerator[a] = (uint8_t)(a % w->rank_threads);
    for (uint32_t type = 0, at = 0, executor = 0; type < c->type_count && server_runs(c); type++) {
        const struct server_accelerators *a = &e->types[type];
        uint32_t of_type = 0;
        for (uint32_t i = 0, threads = executors_of(a); i < threads; i++, executor++)
            for (uint32_t n = accelerators_of(a, i); n > 0; n--, at++, of_type++) {
                e->type_of[at] = (uint8_t)type;
                w->executor_of[at] = executor;
                w->subcluster_of_accelerator[at] = (uint8_t)(of_type % w->rank_threads);
            }
    }
    return 0;
}

int executors_start(struct executors *e, const struct server_config *c, struct sy_error *err) {
    uint32_t started = 0, accelerator = 0;
    cpu_set_t others;
    bool apart = executors_cores_beside(&c->executor_cores, &others);

    for (uint32_t type = 0; type < e->type_count; type++) {
        const struct server_accelerators *a = &e->types[type];
        for (uint32_t i = 0, threads = executors_of(a); i < threads; i++, started++) {
            struct executor_config config = {
                .wiring = e->wiring,
                .index = started,
                .first_accelerator = accelerator,
                .accelerators = accelerators_of(a, i),
                .type = type,
                .engine = a->engine,
                .options = {.provider = a->provider,
                            .device = (int)i,
                            .busy_poll = c->busy_poll,
                            .cache_dir = a->cache_dir,
                            .pages_weights = c->memory_bytes > 0,
                            .private_weights = true},
                .models = c->models,
                .profiles = a->profiles,
                .model_count = c->model_count,
                .memory_bytes = c->memory_bytes,
                .page_bytes = c->page_bytes,
                .noise = c->noise,
                .run_limit_ns = c->run_limit_ns,
                .running = c->cluster && c->cluster->running ? c->cluster->running[0] : NULL,
                .timelines = &e->timelines.of[accelerator],
                .shared = !apart,
                .spin = apart && a->provider && strcmp(a->provider, "cpu") == 0 ? c->spin : 0,
                .pin = CPU_COUNT(&c->executor_cores) > 0,
            };
            if (config.pin)
                CPU_SET(thread_core_nth(&c->executor_cores, started), &config.cores);
            int rc = executor_start(&e->list[started], &config, err);
            if (rc < 0)
                return rc;
            accelerator += config.accelerators;
        }
    }
    /* All load at the same time. If an engine could not be opened, the start fails with the first such reason. */
    for (uint32_t n = 0; n < started; n++) {
        int rc = executor_wait_ready(e->list[n], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

void executors_watch(const struct executors *e, bool ending) {
    int64_t now_ns = clock_now_ns();

    for (uint32_t n = 0; e->list && n < e->wiring->executors; n++)
        if (e->list[n])
            executor_watch(e->list[n], now_ns, ending);
}

int executors_stop(struct executors *e) {
    int rc = 0;
    for (uint32_t n = 0; e->list && n < e->wiring->executors; n++)
        if (e->list[n] && executor_stop(e->list[n]) < 0)
            rc = -EINPROGRESS;
    return rc;
}

void executors_free(struct executors *e) {
    pthread_mutex_destroy(&e->lock);
    timelines_free(&e->timelines);
    free(e->type_of);
    free(e->list);
}

/* ---- orders ---- */

static enum accelerator_state state_read(const void *executors, uint32_t accelerator, const char **type) {
    const struct executors *e = executors;
    *type = e->types[e->type_of[accelerator]].type;
    return wiring_accelerator_state(e->wiring, accelerator);
}

static void order_log(uint32_t accelerator, enum accelerator_order order) {
    log_info(order == ACCELERATOR_DRAIN ? "a client drains an accelerator" : "a client has an accelerator join",
             "accelerator=%u", accelerator);
}

/* wiring_command(). Any thread, rarely; the lock is held for one message. */
static int order_send(struct executors *e, uint32_t accelerator, enum accelerator_order order) {
    pthread_mutex_lock(&e->lock);
    int rc = wiring_command(e->wiring, accelerator, order);
    pthread_mutex_unlock(&e->lock);
    return rc;
}

static int order_pass(void *executors, uint32_t accelerator, enum accelerator_order order, struct sy_error *err) {
    if (order_send(executors, accelerator, order) < 0)
        return error_set(err, 503, "accelerator %u has too many orders that it has not read yet", accelerator);
    order_log(accelerator, order);
    return 0;
}

int executors_model_command(struct executors *e, uint32_t executor, uint32_t model, uint32_t version, bool resident) {
    pthread_mutex_lock(&e->lock);
    int rc = wiring_model_command(e->wiring, executor, (struct place_id){model}, version, resident);
    pthread_mutex_unlock(&e->lock);
    return rc;
}

/* ---- accelerators of the processes of `serve --isolate` ---- */

enum accelerator_state isolated_state(const struct server_cluster *cluster, uint32_t accelerator) {
    const struct running *running = cluster->running[accelerator];
    uint8_t state = atomic_load_explicit(&running->state, memory_order_relaxed); /* a word on its own */
    return state < ACCELERATOR_GONE ? (enum accelerator_state)state
                                    : ACCELERATOR_GONE; /* a process may write anything */
}

static enum accelerator_state isolated_read(const void *cluster, uint32_t accelerator, const char **type) {
    const struct server_cluster *c = cluster;
    *type = c->running_types[accelerator];
    return isolated_state(c, accelerator);
}

static int isolated_pass(void *cluster, uint32_t accelerator, enum accelerator_order order, struct sy_error *err) {
    const struct server_cluster *c = cluster;
    (void)err;
    atomic_store_explicit(&c->running[accelerator]->drained, order == ACCELERATOR_DRAIN, memory_order_relaxed);
    c->running_ring(c->running_context);
    order_log(accelerator, order);
    return 0;
}

void executors_obey(struct executors *e, const struct server_cluster *c) {
    if (!c || !c->running || c->role != LINK_BACKEND)
        return;
    bool drained = atomic_load_explicit(&c->running[0]->drained, memory_order_relaxed); /* a lone flag */
    if (drained != e->drained && order_send(e, 0, drained ? ACCELERATOR_DRAIN : ACCELERATOR_JOIN) == 0)
        e->drained = drained;
}

struct accelerator_source executors_source(struct executors *e, const struct server_config *c) {
    bool orders = c->accelerator_control || c->desk || (c->control && c->control->mode == CONTROL_EXPLICIT);
    if (c->scheduler)
        return (struct accelerator_source){.count = c->cluster->running_count,
                                           .read = isolated_read,
                                           .order = orders ? isolated_pass : NULL,
                                           .context = (void *)c->cluster};
    return (struct accelerator_source){.count = server_runs(c) ? e->wiring->accelerators : 0,
                                       .read = state_read,
                                       .order = orders ? order_pass : NULL,
                                       .context = e};
}
