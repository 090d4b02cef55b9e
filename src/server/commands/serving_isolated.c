/* serving_isolated.c - `serve --isolate on`: the life of a server whose accelerators have a process each. */
#include "server/commands/serving_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/running.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/thread.h"
#include "model/repository/model_index.h"
#include "server/commands/cli.h"
#include "server/commands/isolated.h"
#include "server/threads/model_control.h"

/* Longer than in a cluster of machines: a process that dies is noticed by its connection, and a busy machine must not
 * count as dead. */
#define ISOLATED_BEAT_MS 1000
/* Once all backends have joined, a model that is not served after this time could not be loaded by any of them. In this
 * time models that prepare inputs are opened, and models get their places. */
#define OPENING_NS (2 * NS_PER_S)

/* The parts of `serve --isolate`. The frontend's and the scheduler's threads are in this process, as two servers that
 * are joined by a link. */
struct isolation {
    struct serve_settings settings[3]; /* settings of the backends, the scheduler, the frontend */
    struct serve_plan backend, scheduler, frontend;
    struct isolated *isolated;
    struct isolated_shared shared;
    struct repository_desk *desk; /* orders to load and unload models; NULL: models do not come and go */
    struct isolated_orders *orders;
    struct start_progress *progress; /* the frontend's */
    pthread_t profiler;              /* thread that measures the models of the start, while `profiling` */
    bool profiling;
    _Atomic bool stop, profiled; /* order to that thread to end; whether it has */
    int profiled_rc;             /* deployment_profile() */
    struct sy_error profiled_err;
};

static void isolation_free(struct isolation *i) {
    isolated_stop(i->isolated, 0);
    serve_plan_free(&i->frontend);
    serve_plan_free(&i->scheduler);
    serve_plan_free(&i->backend);
    free(i->desk);
    free(i);
}

/* Makes the plans of the backends and the scheduler, before any process starts. */
static int isolation_plan(struct isolation *i, const struct serve_settings *settings, struct sy_error *err) {
    struct serve_settings *backend = &i->settings[0], *scheduler = &i->settings[1];
    const char *with = settings->scenario ? "--scenario" : settings->share_prefixes ? "--share-prefixes on" : NULL;
    int rc;
    if (with)
        return error_set(err, -EINVAL, "--isolate on does not go with %s", with);
    *backend = *settings;
    backend->join = "@isolated"; /* the address is not known yet */
    backend->heartbeat_ms = ISOLATED_BEAT_MS;
    backend->tls_cert = backend->tls_key = backend->tls_client_ca = backend->token_file = NULL;
    backend->tls_metrics = backend->auth_health = backend->auth_metrics = false;
    if ((rc = serve_plan_make(backend, LINK_BACKEND, &i->backend, err)) < 0)
        return rc;
    const struct deployment *d = &i->backend.deployment;
    if (settings->control_mode == CONTROL_NONE && (uint32_t)backend->max_models < d->model_count)
        backend->max_models = d->model_count;
    const struct isolated_config config = {.settings = backend,
                                           .groups = i->backend.groups,
                                           .group_count = i->backend.group_count,
                                           .cores = i->backend.config.executor_cores};
    if ((rc = isolated_create(&i->isolated, &i->shared, &config, err)) < 0)
        return rc;
    if (i->backend.config.memory_bytes) { /* of each accelerator, which a child may not know */
        backend->memory_mib = (int64_t)(i->backend.config.memory_bytes >> 20);
        backend->resident = RESIDENT_DEMAND;
    }
    *scheduler = *backend;
    scheduler->join = NULL;
    scheduler->listen = i->shared.address;
    scheduler->name = "scheduler";
    scheduler->cluster_token_file = i->shared.token_file;
    scheduler->no_metrics = true;
    if ((rc = serve_plan_make(scheduler, LINK_SCHEDULER, &i->scheduler, err)) < 0)
        return rc;
    i->scheduler.config.orders_loads &= i->backend.config.memory_bytes > 0; /* else all have the same, for good */
    i->scheduler.config.executor_cores = i->backend.config.executor_cores; /* the scheduler's threads use other cores */
    i->scheduler.cluster.backends = i->shared.count;
    return 0;
}

static const struct model_index *clients_lock(void *frontend) {
    return server_models_lock(frontend);
}

static void clients_unlock(void *frontend) {
    server_models_unlock(frontend);
}

static uint64_t clients_hash(void *frontend, uint32_t model) {
    return server_model_hash(frontend, model);
}

static void clients_know(void *frontend, const struct model_absent *known, uint32_t count, bool at_once) {
    server_models_know(frontend, known, count, at_once);
}

/* Starts the thread for orders, which first loads the models of the start, and then all processes. */
static int isolation_start(struct isolation *i, const struct serve_settings *settings, struct server *frontend,
                           struct sy_error *err) {
    static const struct isolated_clients clients = {clients_lock, clients_unlock, clients_hash, clients_know};
    int rc = 0;
    if (i->desk) {
        const struct isolated_orders_config config = {
            .desk = i->desk,
            .channels = isolated_channels(i->isolated, i->desk),
            .count = i->shared.count,
            .follows = settings->control_mode == CONTROL_POLL,
            .names = settings->load_models,
            .name_count = settings->load_model_count,
            .from = {.paths = settings->repositories, .count = settings->repository_count},
            .look_ns = (int64_t)(settings->poll_secs * (double)NS_PER_S),
            .clients = &clients,
            .context = frontend};
        rc = isolated_orders_start(&i->orders, &config, err);
    }
    return rc < 0 ? rc : isolated_start(i->isolated, err);
}

/* Plans the frontend, once the scheduler listens. */
static int isolation_frontend(struct isolation *i, const struct serve_settings *settings, struct server *scheduler,
                              struct sy_error *err) {
    struct serve_settings *frontend = &i->settings[2];
    *frontend = *settings;
    frontend->join = i->shared.address;
    frontend->name = "frontend";
    frontend->cluster_token_file = i->settings[1].cluster_token_file;
    frontend->heartbeat_ms = ISOLATED_BEAT_MS;
    frontend->max_models = i->settings[0].max_models;
    frontend->control_mode = CONTROL_NONE; /* the children have the models */
    frontend->load_model_count = 0;
    if (settings->control_mode != CONTROL_NONE && !(i->desk = repository_desk_create()))
        return error_set(err, -ENOMEM, "out of memory");
    frontend->decisions = NULL;
    if (!frontend->frontends) /* with the cores that no other thread of this machine needs */
        frontend->frontends = serve_frontends_auto(settings, LINK_NONE, &i->backend);
    int rc = serve_plan_make(frontend, LINK_FRONTEND, &i->frontend, err);
    i->frontend.config.executor_cores = i->backend.config.executor_cores;
    i->frontend.config.scheduler = scheduler;
    i->frontend.config.desk = settings->control_mode == CONTROL_EXPLICIT ? i->desk : NULL;
    i->frontend.config.held = true;
    i->frontend.cluster.local = i->frontend.cluster.address = "local"; /* backends know it by its incarnation */
    i->frontend.cluster.running = i->shared.running;
    i->frontend.cluster.running_count = i->shared.count;
    i->frontend.cluster.running_types = i->shared.types;
    i->frontend.cluster.running_ring = isolated_ring;
    i->frontend.cluster.running_context = i->isolated;
    return rc;
}

/* Tells clients of the models of the start that are not served, as far as this process knows: those without a profile
 * are set aside; the others are LOADING, or with `last`, if they are not served now, no process could load them. */
static void isolation_tell(const struct isolation *i, struct server *frontend, bool last) {
    const struct deployment *d = &i->backend.deployment;
    uint32_t all = i->backend.control.start_count, count = 0;
    bool profiled = atomic_load_explicit(&i->profiled, memory_order_acquire); /* with profiler_main() */
    struct model_absent *aside = calloc(all + 1, sizeof(*aside));
    for (uint32_t m = 0; aside && m < all; m++) {
        const struct served_model *model = &d->models[m];
        bool failed = profiled && served_model_state(model) == MODEL_UNAVAILABLE;
        const struct model_index *models = server_models_lock(frontend);
        bool served = model_index_number(models, model->name, strlen(model->name), model->version) >= 0;
        server_models_unlock(frontend);
        if (served && last)
            continue;
        aside[count++] = model_absent_of(model, failed || last ? MODEL_UNAVAILABLE : MODEL_LOADING,
                                         failed ? model->reason
                                         : last ? "no process of the server could load it; the log says why"
                                                : "it waits until it is measured and loaded");
    }
    if (aside)
        server_models_aside(frontend, aside, count);
    free(aside);
}

/* Measures the models of the start, once for all processes, which serve meanwhile what has a profile. */
static void *profiler_main(void *isolation) {
    struct isolation *i = isolation;
    thread_begin("profiler", 0, THREAD_BACKGROUND);
    i->profiled_rc =
        deployment_profile(&i->backend.deployment, &i->backend.control, i->progress, &i->stop, &i->profiled_err);
    atomic_store_explicit(&i->profiled, true, memory_order_release); /* with wait_until_heard() */
    return NULL;
}

static void profiler_end(struct isolation *i) {
    atomic_store_explicit(&i->stop, true, memory_order_relaxed); /* a lone flag */
    if (i->profiling)
        pthread_join(i->profiler, NULL);
    i->profiling = false;
}

/* The profiler has ended: tells the processes and clients. -ENOENT: no model has a profile. */
static int profiler_take(struct isolation *i, struct server *frontend) {
    profiler_end(i);
    for (uint32_t m = 0; m < i->backend.control.start_count; m++) {
        const struct served_model *model = &i->backend.deployment.models[m];
        if (served_model_state(model) == MODEL_UNAVAILABLE)
            log_error("model set aside", "model=%s reason=\"%s\"", model->name, model->reason);
    }
    if (i->profiled_rc < 0)
        return -ENOENT;
    for (uint32_t n = 0; n < i->shared.count; n++)
        atomic_store_explicit(&i->shared.running[n]->profiled, true, memory_order_release); /* start_follow() */
    atomic_store_explicit(&i->progress->profiles, false, memory_order_relaxed);             /* start_progress_words() */
    isolation_tell(i, frontend, false);
    return 0;
}

static bool processes_prepared(const struct isolation *i) {
    bool all = true;
    for (uint32_t n = 0; n < i->shared.count; n++)
        all &= atomic_load_explicit(&i->shared.running[n]->prepared, memory_order_acquire); /* begin() */
    return all;
}

/* Sleeps until all backends have joined, and all models to serve from the start are served. 0; -EINTR: a signal asks
 * the server to end before; -ECHILD: a backend could not start; -ENOENT: no model can be served. */
static int wait_until_heard(struct isolation *i, struct server *frontend, const sigset_t *signals) {
    uint32_t wanted = i->backend.control.start_count;
    int64_t until_ns = TIME_NEVER, look_ns = clock_now_ns() + NS_PER_S;
    for (bool heard = false; !heard && clock_now_ns() < until_ns;) {
        int64_t now_ns = clock_now_ns();
        int signal_number = serving_signal_until(signals, now_ns + READY_EVERY_MS * NS_PER_MS);
        if (i->profiling && atomic_load_explicit(&i->profiled, memory_order_acquire)) { /* with profiler_main() */
            if (profiler_take(i, frontend) < 0)
                return -ENOENT;
            for (uint32_t m = 0; m < i->backend.control.start_count; m++)
                wanted -= served_model_state(&i->backend.deployment.models[m]) == MODEL_UNAVAILABLE;
        }
        const struct model_index *models = server_models_lock(frontend);
        bool told = !models->partial && !i->profiling && (i->orders || processes_prepared(i));
        if (told && until_ns == TIME_NEVER)
            until_ns = now_ns + OPENING_NS;
        heard = told && (i->orders ? isolated_orders_ready(i->orders) : models->count >= wanted);
        server_models_unlock(frontend);
        if (now_ns >= look_ns) {
            server_look(frontend);
            look_ns = now_ns + NS_PER_S;
        }
        if (isolated_failed(i->isolated))
            return -ECHILD;
        if (!serving_signal_take(frontend, &i->frontend, signal_number))
            return -EINTR;
    }
    if (!i->orders)
        isolation_tell(i, frontend, true);
    atomic_store_explicit(&i->progress->awaited, 0, memory_order_relaxed); /* start_progress_words() */
    server_begin(frontend);
    return 0;
}

int serve_isolated(const char *command, const struct serve_settings *settings) {
    struct isolation *i = calloc(1, sizeof(*i));
    struct server *scheduler = NULL, *frontend = NULL;
    struct sy_error err = {.text = "out of memory"};
    sigset_t signals;

    if (!i || isolation_plan(i, settings, &err) < 0) {
        fprintf(stderr, "symphony %s: %s\n", command, err.text);
        if (i)
            isolation_free(i);
        return CLI_USAGE;
    }
    serving_signals_block(&signals, false);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* the thread that watches them takes it */
    int rc = server_start(&scheduler, &i->scheduler.config, &err);
    bool wrong =
        rc == 0 && (rc = isolation_frontend(i, settings, scheduler, &err)) < 0; /* as a plan that fails above */
    rc = rc < 0 ? rc : server_start(&frontend, &i->frontend.config, &err);
    if (rc == 0) {
        struct server_ports ports = server_ports(frontend);
        i->progress = server_start_progress(frontend);
        atomic_store_explicit(&i->progress->all, i->backend.control.start_count, memory_order_relaxed); /* as below */
        atomic_store_explicit(&i->progress->awaited, i->backend.control.start_count, memory_order_relaxed); /* words */
        if (settings->control_mode == CONTROL_NONE)
            isolation_tell(i, frontend, false);
        log_info("listening", "http_port=%d grpc_port=%d metrics_port=%d", ports.http, ports.grpc, ports.metrics);
        rc = isolation_start(i, settings, frontend, &err);
    }
    if (rc == 0 && settings->control_mode == CONTROL_NONE) {
        rc = -pthread_create(&i->profiler, NULL, profiler_main, i);
        i->profiling = rc == 0;
        if (rc < 0)
            error_set(&err, rc, "no thread to measure models: %s", strerror(-rc));
    }
    if (rc < 0)
        fprintf(stderr, "symphony %s: %s\n", command, err.text);
    int heard = rc < 0 ? rc : wait_until_heard(i, frontend, &signals);
    profiler_end(i);
    if (heard == -ENOENT) {
        fprintf(stderr, "symphony %s: %s\n", command, i->profiled_err.text);
        wrong = true;
    } else if (heard == -ECHILD) { /* the process has printed why */
        rc = heard;
    } else if (heard == 0) {
        serving_say_ready(frontend, &i->frontend.config);
        serving_say_isolation(settings);
        serving_wait(frontend, &i->frontend, &signals, false);
    }
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    int64_t timeout_ns = (int64_t)(settings->drain_timeout_s * (double)NS_PER_S);
    isolated_orders_close(i->orders);
    int ended = frontend ? server_stop(frontend, (int64_t)(settings->drain_grace_s * (double)NS_PER_S), timeout_ns) : 0;
    isolated_orders_stop(i->orders);
    isolated_stop(i->isolated, timeout_ns);
    i->isolated = NULL;
    if (scheduler)
        server_stop(scheduler, 0, 0);
    isolation_free(i);
    log_info("stopped", "%s", ended < 0 ? "requests_cut_off=true" : "");
    return wrong ? CLI_USAGE : rc < 0 || ended < 0 ? CLI_FAILURE : CLI_OK;
}
