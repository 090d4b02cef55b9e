/* server.c - builds the parts of a serving process in order, and ends them in the reverse order. */
#include "server/process/server.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/running.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/thread.h"
#include "front/bulk/bulk.h"
#include "front/request/preparer.h"
#include "server/models/cluster_models.h"
#include "server/models/ensembles.h"
#include "server/models/outages.h"
#include "server/models/repository_control.h"
#include "server/process/server_state.h"
#include "server/threads/model_control.h"

#define DRAIN_POLL_NS (2 * NS_PER_MS)
/* Least time for which connections are kept: a client that asks again in this time is answered, and told that its
 * connection ends, instead of finding it closed. */
#define DRAIN_OPEN_NS   (100 * NS_PER_MS)
#define ENDING_WATCH_NS (20 * NS_PER_MS)

/* Tells the frontends where to read what belongs to other parts, and starts them. */
static int start_frontends(struct server *s, struct sy_error *err) {
    struct frontend_config *f = &s->frontends.config;
    f->models = &s->models.now;
    f->models_bell = &s->models.bell;
    f->desk = s->config.control && s->config.control->mode == CONTROL_EXPLICIT ? s->desk : s->config.desk;
    f->ready = &s->readiness.serving;
    f->draining = &s->readiness.draining;
    f->failed = &s->readiness.failed;
    f->start = &s->readiness.start;
    f->statistics = (struct statistics_source){server_statistics_read, server_statistics_read_batches, &s->statistics};
    f->accelerators = executors_source(&s->executors, &s->config);
    f->advice = &s->advice.wanted;
    f->tracing = s->config.trace_file ? &s->tracing : NULL;
    return frontends_start(&s->frontends, &s->config, &s->wiring, s->calibration.reply_ns, err);
}

/* Whether a process with frontends is ready, as these tell clients. */
static bool serves_clients(void *server) {
    const struct readiness *r = &((const struct server *)server)->readiness;
    return atomic_load_explicit(&r->serving, memory_order_relaxed) && /* lone flags */
           !atomic_load_explicit(&r->draining, memory_order_relaxed);
}

static int start_metrics(struct server *s, struct sy_error *err) {
    struct metrics_config config = {
        .host = s->config.host,
        .tcp_port = s->config.metrics_port,
        .tls = s->config.tls_metrics ? s->config.clients.tls : NULL,
        .auth = s->config.auth_metrics ? s->config.clients.auth : NULL,
        .render = server_render_metrics,
        .render_fine = server_render_fine_metrics,
        .recording = server_schedules(&server_scheduling(s)->config) ? server_render_recording : NULL,
        .requests = s->frontends.count > 0 && s->config.clients.trails_keep > 0 ? server_requests : NULL,
        .state = server_live,
        .timeline = server_accelerator_count(s) > 0 && s->executors.timelines.of[0].head ? server_timeline : NULL,
        .recording_seconds = RECORDING_SECONDS,
        .recording_seconds_max = RECORDING_SECONDS_MAX,
        .ready = !server_listens(&s->config)     ? server_cluster_ready
                 : s->config.clients.auth_health ? NULL
                                                 : serves_clients,
        .failed = &s->readiness.failed,
        .takes_orders = s->config.cluster && !server_listens(&s->config),
        .orders =
            server_role(&s->config) == LINK_BACKEND && s->config.control && s->config.control->mode == CONTROL_EXPLICIT
                ? s->desk
                : NULL,
        .orders_auth = s->config.clients.auth,
        .context = s,
    };
    config.files = server_page(&config.file_count);
    return metrics_server_start(&s->metrics, &config, err);
}

/* Makes the parts, which start nothing yet. */
static int server_allocate(struct server *s) {
    struct wiring *w = &s->wiring;
    bool schedules = server_schedules(&s->config);
    int rc = frontends_init(&s->frontends, &s->config);
    model_list_init(&s->models, &s->config, &s->frontends);
    s->readiness.frontends = &s->frontends;
    atomic_init(&s->readiness.able, server_role(&s->config) != LINK_FRONTEND); /* that one is once it has a model */
    w->central = s->config.policy->central != NULL;
    w->types = s->config.type_count;
    w->model_threads = w->central ? 1 : s->config.model_threads;
    w->rank_threads = w->central ? 1 : s->config.rank_threads;
    w->frontends = s->frontends.count + s->frontends.inside;
    if (s->config.cluster)
        server_cluster_plan(s);
    if (rc < 0 || (rc = executors_init(&s->executors, w, &s->config)) < 0 ||
        (rc = scheduling_init(&s->scheduling, w, &s->config, &s->calibration)) < 0 ||
        (rc = server_balancer_create(&s->balancer, &s->executors, &s->scheduling, &s->models)) < 0)
        return rc;
    if (s->config.control && !(s->desk = repository_desk_create()))
        return -ENOMEM;
    w->places_bell = s->desk ? &s->desk->bell : NULL;
    if (schedules && s->config.record_bytes > 0)
        rc = server_history_create(&s->history, &s->scheduling, &s->models, &s->advice.wanted);
    if (rc == 0 && schedules && s->config.autoscale.every_ns > 0)
        rc = server_advice_init(&s->advice, &s->config.autoscale, &s->scheduling, &s->models);
    if (rc == 0 && s->config.trace_file)
        rc = tracing_init(&s->tracing, s->config.trace_file, s->models.count);
    if (rc == 0 && s->frontends.count > 0)
        rc = server_alarm_create(&s->alarm, &s->models, s->config.clients.trails_keep);
    s->statistics = (struct server_statistics){.list = &s->models,
                                               .executors = &s->executors,
                                               .readiness = &s->readiness,
                                               .by = schedules             ? &s->scheduling
                                                     : s->config.scheduler ? &s->config.scheduler->scheduling
                                                                           : NULL};
    s->recordings.executors = &s->executors;
    s->recordings.scheduling = &s->scheduling;
    s->recordings.models = &s->models;
    s->recordings.history = s->history;
    s->recordings.started_ns = s->started_ns;
    return rc;
}

/* Watches runs while the frontends end, since they wait for the executors' answers. */
static void *watch_main(void *server) {
    struct server *s = server;
    while (atomic_load_explicit(&s->watched, memory_order_relaxed)) { /* a lone flag */
        executors_watch(&s->executors, true);
        clock_sleep(ENDING_WATCH_NS);
    }
    return NULL;
}

/* Ends the threads that were started: first those that bring requests, while the others still give requests back. */
static int server_end(struct server *s) {
    const struct frontends *fs = &s->frontends;
    pthread_t watcher;

    atomic_store_explicit(&s->watched, true, memory_order_relaxed);
    bool watched = pthread_create(&watcher, NULL, watch_main, s) == 0;
    repository_thread_stop(s->repository);
    metrics_server_stop(s->metrics);
    server_live_free(s->live);
    server_rehearsal_stop(s->rehearsal);
    frontends_unlisten(&s->frontends);
    for (uint32_t f = 0; fs->list && f < fs->count; f++)
        if (fs->list[f])
            frontend_tell_end(fs->list[f]);
    for (uint32_t f = 0; fs->list && f < fs->count; f++)
        frontend_end(fs->list[f]);
    access_log_stop(s->access_log);
    otlp_stop(s->otlp);
    trace_file_stop(s->trace_file);
    server_cluster_stop(s); /* until now the link gave requests back, and might publish models */
    preparer_destroy(fs->config.preparer);
    bulk_stop(fs->config.bulk);
    for (uint32_t f = 0; fs->list && f < fs->count; f++)
        frontend_stop(fs->list[f]);
    bulk_destroy(fs->config.bulk);
    scheduling_stop(&s->scheduling);
    atomic_store_explicit(&s->watched, false, memory_order_relaxed);
    if (watched)
        pthread_join(watcher, NULL);
    int rc = executors_stop(&s->executors);
    if (rc == 0)
        server_cluster_free(s);
    frontends_free(&s->frontends);
    repository_thread_free(s->repository);
    free(s->desk);
    model_list_free(&s->models);
    pthread_mutex_destroy(&s->recordings.describe_lock);
    wiring_destroy(&s->wiring);
    free(s->wiring.thread_of_variant);
    free(s->wiring.place_of_variant);
    free(s->wiring.memory_counters);
    free(s->wiring.thread_of_served);
    free(s->wiring.host_of_served);
    free(s->wiring.suffix_of_served);
    free(s->wiring.executor_of);
    free(s->wiring.subcluster_of_model);
    free(s->wiring.subcluster_of_accelerator);
    server_advice_free(&s->advice);
    server_history_free(s->history);
    server_alarm_free(s->alarm);
    if (s->config.trace_file)
        tracing_free(&s->tracing);
    server_balancer_free(s->balancer);
    scheduling_free(&s->scheduling);
    executors_free(&s->executors);
    free(s);
    return rc;
}

int server_start(struct server **server, const struct server_config *config, struct sy_error *err) {
    struct server *s = aligned_alloc(CACHE_LINE, (sizeof(*s) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    const struct calibration *measured;
    cpu_set_t others;
    int rc;

    if (!s)
        return error_set(err, -ENOMEM, "no memory for the server");
    memset(s, 0, sizeof(*s));
    s->config = *config;
    s->started_ns = clock_now_ns();
    s->cluster_port = -1;
    pthread_mutex_init(&s->recordings.describe_lock, NULL);
    rc = server_allocate(s);
    if (rc < 0) {
        error_set(err, rc, "no memory for the server's threads");
        goto err_end;
    }
    if ((rc = wiring_init(&s->wiring, config->busy_poll, err)) < 0 ||
        (server_runs(config) && (rc = executors_start(&s->executors, config, err)) < 0))
        goto err_end;
    if (executors_cores_beside(&config->executor_cores, &others))
        thread_pin(&others); /* threads started from now on inherit it */
    measured = &s->calibration;
    calibrate(&s->calibration);
    log_info("timing margins measured", "wake_us=%lld dispatch_us=%lld reply_us=%lld copy_gb_per_s=%.1f",
             (long long)measured->wake_ns / 1000, (long long)measured->dispatch_ns / 1000,
             (long long)measured->reply_ns / 1000, 1 / measured->copy_ns_per_byte);
    malloc_trim(0); /* memory that only the loading needed */
    if ((rc = model_list_begin(&s->models, config)) < 0) {
        error_set(err, rc, "no memory for the names of %u models", config->model_count);
        goto err_end;
    }
    /* metrics last: a scrape may come at once, and reads all the others */
    if ((server_schedules(config) && (rc = scheduling_start(&s->scheduling, s->executors.type_of, err)) < 0) ||
        (server_listens(config) && (rc = start_frontends(s, err)) < 0) ||
        (config->access_log && (rc = access_log_start(&s->access_log, &s->models, config->access_log, err)) < 0) ||
        (config->trace_file && (rc = trace_file_start(&s->trace_file, &s->models, &s->tracing, err)) < 0) ||
        (config->otlp && (rc = otlp_start(&s->otlp, &s->models, config->otlp, getenv("OTEL_EXPORTER_OTLP_HEADERS"),
                                          getenv("OTEL_SERVICE_NAME") ?: "symphony", err)) < 0) ||
        (config->cluster && (rc = server_cluster_start(s, err)) < 0) ||
        (server_schedules(config) && (rc = server_rehearsal_start(&s->rehearsal, &s->recordings, err)) < 0) ||
        (config->metrics_port >= 0 && (rc = start_metrics(s, err)) < 0))
        goto err_end;
    if (config->control) {
        struct running *running = s->backend_link && config->cluster->running ? config->cluster->running[0] : NULL;
        const struct repository_thread_config repository = {
            .control = config->control,
            .desk = s->desk,
            .list = &s->models,
            .executors = &s->executors,
            .scheduling = &s->scheduling,
            .readiness = &s->readiness,
            .backend = s->backend_link,
            /* a process of `serve --isolate` that is started again joins with its models: their requests wait for it */
            .joins_at_once = s->backend_link && !config->control->told &&
                             !(running && atomic_load_explicit(&running->prepared, memory_order_acquire)), /* begin() */
            .running = config->control->mode == CONTROL_NONE ? running : NULL,
        };
        if ((rc = repository_thread_start(&s->repository, &repository, err)) < 0)
            goto err_end;
    } else if (!config->held) {
        executors_cold_warn(&s->executors, config);
        readiness_begin(&s->readiness);
    }
    *server = s;
    return 0;

err_end:
    server_end(s);
    return rc;
}

struct server_ports server_ports(const struct server *s) {
    return (struct server_ports){.http = s->frontends.bound[0],
                                 .grpc = s->frontends.bound[1],
                                 .metrics = s->metrics ? metrics_server_port(s->metrics) : -1,
                                 .cluster = s->cluster_port};
}

struct inferences_config server_inside(struct server *s, uint32_t n, size_t slot_bytes) {
    struct frontend_config config = s->frontends.config;
    config.listen_fd = -1;
    config.port = s->frontends.ports[s->frontends.count + n];
    return frontend_inferences(&config, slot_bytes);
}

struct server_scheduler server_scheduler(const struct server *s) {
    const struct scheduling *scheduling = &s->scheduling;
    return (struct server_scheduler){&s->wiring, scheduling->model_threads, scheduling->rank_threads, scheduling->link};
}

struct repository_desk *server_desk(const struct server *s) {
    return s->desk;
}

bool server_is_ready(const struct server *s) {
    return atomic_load_explicit(&s->readiness.start.over, memory_order_acquire); /* with the stores that set it */
}

struct start_progress *server_start_progress(struct server *s) {
    return &s->readiness.start;
}

void server_begin(struct server *s) {
    readiness_begin(&s->readiness);
}

bool server_failed(const struct server *s, struct sy_error *err) {
    return repository_thread_failed(s->repository, err);
}

const struct model_index *server_models_lock(struct server *s) {
    return model_list_lock(&s->models);
}

void server_models_unlock(struct server *s) {
    model_list_unlock(&s->models);
}

void server_watch(struct server *s) {
    executors_watch(&s->executors, false);
}

void server_look(struct server *s) {
    const struct server_accelerators *of_cluster =
        s->cluster_models ? cluster_models_profiles(s->cluster_models) : NULL;
    server_watch(s);
    atomic_store_explicit(&s->readiness.failed, server_accelerators_failed(s), memory_order_relaxed); /* a lone flag */
    ensembles_look(&s->models, of_cluster ? of_cluster : s->executors.types, of_cluster ? 1 : s->executors.type_count,
                   of_cluster);
    if (!s->config.cluster) /* the scheduler knows what runs */
        outages_look(&s->executors, &s->scheduling, &s->models, &s->readiness);
    server_advice_look(&s->advice);
    server_balancer_look(s->balancer);
    server_history_look(s->history);
    server_alarm_look(s->alarm);
    server_cluster_look(s);
    if (s->config.scheduler)
        server_look(s->config.scheduler);
}

void server_reopen(struct server *s) {
    access_log_reopen(s->access_log);
}

void server_obey_parent(struct server *s) {
    executors_obey(&s->executors, s->config.cluster);
}

static uint32_t in_flight(const struct frontends *fs) {
    uint32_t total = 0;
    for (uint32_t f = 0; f < fs->count; f++)
        total += frontend_in_flight(fs->list[f]);
    return total;
}

static bool is_drained(const struct frontends *fs) {
    for (uint32_t f = 0; f < fs->count; f++)
        if (!frontend_is_shut(fs->list[f]))
            return false;
    return in_flight(fs) == 0; /* looked at last: from now on no request begins */
}

/* Waits until nothing is in flight. A moment without requests is not the end yet: connections that are still open may
 * bring some until they are shut, and those are answered, too. */
static void drain(struct server *s, int64_t until_ns) {
    const struct frontends *fs = &s->frontends;
    bool asked = false;
    int64_t open_until_ns = clock_now_ns() + DRAIN_OPEN_NS;
    while (!is_drained(fs) && clock_now_ns() < until_ns) {
        uint32_t connections = 0;
        clock_sleep(DRAIN_POLL_NS); /* first, so that frontends accept clients that have connected already */
        server_watch(s);
        if (asked || in_flight(fs) > 0)
            continue;
        for (uint32_t f = 0; f < fs->count; f++)
            connections += frontend_connections(fs->list[f]);
        if (connections > 0 && clock_now_ns() < open_until_ns)
            continue;
        asked = true;
        for (uint32_t f = 0; f < fs->count; f++)
            frontend_shut(fs->list[f]);
    }
}

int server_stop(struct server *s, int64_t grace_ns, int64_t timeout_ns) {
    atomic_store_explicit(&s->readiness.draining, true, memory_order_release); /* with the frontends' loads */
    int64_t until_ns = clock_now_ns() + timeout_ns;
    repository_thread_quit(s->repository); /* until models neither come nor go any more */
    while (!repository_thread_ended(s->repository) && clock_now_ns() < until_ns) {
        clock_sleep(DRAIN_POLL_NS);
        server_watch(s);
    }
    if (grace_ns > 0)
        clock_sleep(grace_ns);
    frontends_unlisten(&s->frontends);
    for (uint32_t f = 0; f < s->frontends.count; f++)
        frontend_quiesce(s->frontends.list[f]);
    until_ns = clock_now_ns() + timeout_ns;
    drain(s, until_ns);
    uint32_t cut_off = in_flight(&s->frontends) + !server_cluster_drain(s, until_ns);
    if (cut_off)
        log_warn("requests cut off", "requests=%u", cut_off);
    int rc = server_end(s);
    return rc < 0 ? rc : cut_off ? -ETIMEDOUT : 0;
}
