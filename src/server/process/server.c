/* server.c - builds the threads of a serving process in order, and ends them in the reverse order. */
#include "server/process/server.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/thread.h"
#include "front/bulk/bulk.h"
#include "front/bulk/slab.h"
#include "front/grpc/grpc.h"
#include "front/http/http.h"
#include "front/net/listen.h"
#include "front/request/preparer.h"
#include "server/process/decision_files.h"
#include "server/process/recording.h"
#include "server/process/repository_control.h"
#include "server/process/server_state.h"
#include "server/process/server_statistics.h"

#define DRAIN_POLL_NS (2 * NS_PER_MS)
/* Least time for which connections are kept: a client that asks again in this time is answered, and told that its
 * connection ends, instead of finding it closed. */
#define DRAIN_OPEN_NS       (100 * NS_PER_MS)
#define ENDING_WATCH_NS     (20 * NS_PER_MS)
#define EMULATED_PER_THREAD 64 /* emulated accelerators of a thread; more once every core has a thread */

void server_model_host(struct server *s, uint32_t model) {
    const struct served_model *served = &s->config.models[model];
    bool suffix = served_model_is_suffix(served);
    s->wiring.host_of_served[model] = suffix ? served->host : model;
    s->wiring.suffix_of_served[model] = suffix ? served->suffix : 0;
}

/* Distributes models over model threads, and gives each its range of the rank core's indexes: one index, or several for
 * a model whose inputs may have different shapes, or none for a model that is set aside. */
static int place_models(struct server *s) {
    uint32_t threads = s->wiring.model_threads, count = s->config.model_count, variants = 0;
    uint32_t per_thread[threads];

    memset(per_thread, 0, sizeof(per_thread));
    s->placements = calloc(count + 1, sizeof(*s->placements));
    s->wiring.thread_of_served = calloc(count + 1, sizeof(uint32_t));
    s->wiring.host_of_served = calloc(count + 1, sizeof(uint32_t));
    s->wiring.suffix_of_served = calloc(count + 1, sizeof(uint8_t));
    if (!s->placements || !s->wiring.thread_of_served || !s->wiring.host_of_served || !s->wiring.suffix_of_served)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        struct server_placement *p = &s->placements[i];
        p->thread = i % threads;
        p->thread_model.n = per_thread[p->thread]++;
        p->first_variant.n = variants;
        server_model_host(s, i);
        if (served_model_state(&s->config.models[i]) == MODEL_READY && served_model_is_scheduled(&s->config.models[i]))
            p->variant_count = s->config.models[i].signature.variable_shapes ? VARIANTS_MAX : 1;
        variants += p->variant_count;
        s->wiring.thread_of_served[i] = p->thread;
        if (s->config.models[i].batch_max > s->wiring.batch_max)
            s->wiring.batch_max = s->config.models[i].batch_max;
    }
    if (server_has_places(s) && server_schedules(s)) {
        uint32_t most = s->config.control ? s->config.control->models_max : count;
        variants = count + (VARIANTS_MAX - 1) * (most < CONTROL_VARIABLE ? most : CONTROL_VARIABLE);
        s->wiring.models_unused = variants;
        s->wiring.batch_max = PROFILE_BATCH_MAX;
    }
    if (s->config.control)
        s->wiring.batch_max = PROFILE_BATCH_MAX;
    s->wiring.models = variants;
    s->wiring.thread_of_variant = calloc(variants + 1, sizeof(uint32_t));
    s->wiring.part_of_model = calloc(variants + 1, 1);
    if (!s->wiring.thread_of_variant || !s->wiring.part_of_model || server_balance_init(s) < 0)
        return -ENOMEM;
    memset(s->wiring.part_of_model, server_has_places(s) ? PART_NOBODY : 0, variants);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t v = 0; v < s->placements[i].variant_count; v++) {
            s->wiring.thread_of_variant[s->placements[i].first_variant.n + v] = s->placements[i].thread;
            s->wiring.part_of_model[s->placements[i].first_variant.n + v] = (uint8_t)(i % s->wiring.rank_threads);
        }
    return 0;
}

/* Finds the cores for threads other than executors: those that are left; all, if none is left. True: executors have
 * their cores to themselves. */
static bool cores_beside(const cpu_set_t *executor_cores, cpu_set_t *others) {
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

static int start_executors(struct server *s, struct sy_error *err) {
    uint32_t started = 0, accelerator = 0;
    cpu_set_t others;
    bool apart = cores_beside(&s->config.executor_cores, &others);

    for (uint32_t type = 0; type < s->config.type_count; type++) {
        const struct server_accelerators *a = &s->config.accelerators[type];
        for (uint32_t i = 0, threads = executors_of(a); i < threads; i++, started++) {
            struct executor_config config = {
                .wiring = &s->wiring,
                .index = started,
                .first_accelerator = accelerator,
                .accelerators = accelerators_of(a, i),
                .type = type,
                .engine = a->engine,
                .options = {.provider = a->provider,
                            .device = (int)i,
                            .busy_poll = s->config.busy_poll,
                            .cache_dir = a->cache_dir,
                            .private_weights = true},
                .models = s->config.models,
                .profiles = a->profiles,
                .model_count = s->config.model_count,
                .memory_bytes = s->config.memory_bytes,
                .noise = s->config.noise,
                .run_limit_ns = s->config.run_limit_ns,
                .running = s->config.cluster && s->config.cluster->running ? s->config.cluster->running[0] : NULL,
                .shared = !apart,
                .spin = apart && a->provider && strcmp(a->provider, "cpu") == 0 ? s->config.spin : 0,
                .pin = CPU_COUNT(&s->config.executor_cores) > 0,
            };
            if (config.pin)
                CPU_SET(thread_core_nth(&s->config.executor_cores, started), &config.cores);
            int rc = executor_start(&s->executors[started], &config, err);
            if (rc < 0)
                return rc;
            accelerator += config.accelerators;
        }
    }
    /* All load at the same time. If an engine could not be opened, the start fails with the first such reason. */
    for (uint32_t e = 0; e < started; e++) {
        int rc = executor_wait_ready(s->executors[e], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

struct thread_model server_thread_model(const struct server *s, uint32_t model) {
    struct thread_model m =
        thread_model_of(&s->config.models[model], (struct place_id){model}, s->calibration.copy_ns_per_byte);
    for (uint32_t type = 0; type < s->config.type_count; type++)
        m.profiles[type] = s->config.accelerators[type].profiles[model];
    return m;
}

/* The configuration of a scheduling thread; `models` has room for all models. */
static struct thread_rings_config rings_config(struct server *s, uint32_t index, struct thread_model *models) {
    struct thread_rings_config config = {
        .wiring = &s->wiring,
        .index = index,
        .models = models,
        .queue_max = s->config.queue_max,
        .ctrl_ns = s->calibration.dispatch_ns,
        .types = s->wiring.types,
        .record_bytes = s->config.record_bytes / s->wiring.model_threads,
    };

    for (uint32_t i = 0; i < s->config.model_count; i++) {
        if (s->placements[i].thread != index)
            continue;
        struct thread_model *m = &models[config.model_count++];
        *m = server_thread_model(s, i);
        m->first_variant = s->placements[i].first_variant;
        m->variant_count = s->placements[i].variant_count;
    }
    return config;
}

static int start_model_thread(struct server *s, uint32_t index, struct thread_model *models, struct sy_error *err) {
    struct model_thread_config config = {
        .rings = rings_config(s, index, models),
        .types = s->wiring.types,
        .learn = s->config.learn,
        .policy = s->config.policy,
        .policy_options = &s->config.policy_options,
    };
    return model_thread_start(&s->model_threads[index], &config, err);
}

static int start_rank_threads(struct server *s, struct sy_error *err) {
    struct rank_core_config config = {
        .models = s->wiring.models,
        .accelerators = s->wiring.accelerators,
        .accelerator_type = s->accelerator_type,
        .types = s->wiring.types,
        .absent = server_role(s) == LINK_SCHEDULER,
        .grace_ns = RANK_GRACE_NS,
        .policy = s->config.policy,
        .policy_options = &s->config.policy_options,
    };
    int rc = 0;

    for (uint32_t k = 0; k < s->wiring.rank_threads && rc == 0; k++)
        rc = rank_thread_start(&s->rank_threads[k], &s->wiring, k, &config, err);
    return rc;
}

static int start_central_thread(struct server *s, struct thread_model *models, struct sy_error *err) {
    struct central_thread_config config = {
        .rings = rings_config(s, 0, models),
        .accelerator_type = s->accelerator_type,
        .types = s->wiring.types,
        .absent = server_role(s) == LINK_SCHEDULER,
        .memory_bytes = s->config.memory_bytes,
        .policy = s->config.policy,
        .policy_options = &s->config.policy_options,
    };
    return central_thread_start(&s->central_thread, &config, err);
}

static int start_scheduler(struct server *s, struct sy_error *err) {
    struct thread_model *models = calloc(s->config.model_count + 1, sizeof(*models)); /* the threads copy it */
    int rc;

    if (!models)
        return error_set(err, -ENOMEM, "no memory for %u models", s->config.model_count);
    rc = s->wiring.central ? start_central_thread(s, models, err) : start_rank_threads(s, err);
    for (uint32_t t = 0; t < s->wiring.model_threads && !s->wiring.central && rc == 0; t++)
        rc = start_model_thread(s, t, models, err);
    free(models);
    return rc;
}

static int ports_create(struct server *s, struct sy_error *err) {
    for (uint32_t f = 0; f < s->wiring.frontends; f++) {
        s->ports[f] = port_create(&s->wiring, f, s->calibration.reply_ns);
        if (!s->ports[f])
            return error_set(err, -ENOMEM, "no memory for frontend %u", f);
    }
    return 0;
}

static uint64_t inputs_bytes_max(const struct server *s) {
    return s->config.inputs_bytes_max ? s->config.inputs_bytes_max : INPUTS_BYTES_MAX;
}

/* The most connections of each frontend. */
static uint32_t connections_max(const struct server *s) {
    return s->config.connections_max > 0 ? (s->config.connections_max + s->config.frontends - 1) / s->config.frontends
                                         : FRONTEND_CONNECTIONS_MAX;
}

/* The configuration of frontend `index` of the wiring. */
static struct frontend_config frontend_config(struct server *s, uint32_t index, int listen_fd) {
    return (struct frontend_config){
        .listen_fd = listen_fd,
        .index = index % s->config.frontends,
        .group = index < server_frontends(s) ? &s->groups[index / s->config.frontends] : NULL,
        .port = s->ports[index],
        .models = &s->models,
        .models_bell = &s->models_bell,
        .model_count = s->config.model_count,
        .bulk = s->bulk,
        .desk = s->config.control && s->config.control->mode == CONTROL_EXPLICIT ? s->desk : s->config.desk,
        .of_cluster = server_role(s) == LINK_FRONTEND && !s->config.scheduler,
        .ready = &s->serving,
        .draining = &s->draining,
        .statistics = {server_statistics, server_batch_statistics, s},
        .accelerators = server_accelerators(s),
        .advice = &s->advice,
        .shared = s->shared,
        .preparer = s->preparer,
        .tls = s->config.tls,
        .auth = s->config.auth,
        .auth_health = s->config.auth_health,
        .body_bytes_max = s->config.body_bytes_max,
        .inputs_bytes_max = inputs_bytes_max(s) / s->config.frontends,
        .answers_bytes_max = s->config.answers_bytes_max / s->config.frontends,
        .requests_max = PORT_REQUESTS_MAX,
        .frontends = server_frontends(s),
        .connections_max = connections_max(s),
        .connections_per_address = s->config.connections_per_address,
        .idle_timeout_s = s->config.idle_timeout_s,
        .head_timeout_s = s->config.head_timeout_s,
        .rate_min = s->config.rate_min,
        .name = s->config.name,
        .grpc_level = s->config.grpc_level,
        .busy_poll = s->config.busy_poll,
    };
}

struct inferences_config server_inside(struct server *s, uint32_t n, size_t slot_bytes) {
    struct frontend_config config = frontend_config(s, server_frontends(s) + n, -1);
    return frontend_inferences(&config, slot_bytes);
}

/* Publishes the models that are there from the start, but not the prefixes that some of them share. */
static int models_publish(struct server *s, struct sy_error *err) {
    struct model_index *models = calloc(1, sizeof(*models));
    uint32_t *listed = calloc(s->config.model_count + 1, sizeof(*listed)), count = 0;

    for (uint32_t i = 0; listed && i < s->config.model_count && !server_has_places(s); i++)
        if (!served_model_is_prefix(&s->config.models[i]))
            listed[count++] = i;
    int rc = models && listed ? model_index_init_listed(models, s->config.models, listed, count, NULL, 0) : -ENOMEM;
    free(listed);
    if (rc < 0) {
        if (models)
            model_index_destroy(models);
        free(models);
        return error_set(err, -ENOMEM, "no memory for the names of %u models", s->config.model_count);
    }
    models->partial = server_role(s) == LINK_FRONTEND;
    atomic_init(&s->models.now, models);
    return 0;
}

/* A model whose prefix no executor could load cannot be served either. */
static void suffixes_check(struct server *s) {
    for (uint32_t i = 0; i < s->config.model_count; i++) {
        struct served_model *model = &s->config.models[i];
        if (!served_model_is_suffix(model) || served_model_state(model) != MODEL_READY ||
            served_model_state(&s->config.models[model->host]) == MODEL_READY)
            continue;
        served_model_refuse(model, "the layers that it shares: %s", s->config.models[model->host].reason);
        log_error("model set aside", "model=%s reason=\"%s\"", model->name, model->reason);
    }
}

static void models_withdraw(struct server *s) {
    struct model_index *models = (struct model_index *)atomic_load_explicit(&s->models.now, memory_order_relaxed);

    if (models)
        model_index_destroy(models);
    free(models);
}

/* The protocols in the order of their frontends. */
static const struct protocol *const protocols[SERVER_PROTOCOLS] = {&http_protocol, &grpc_protocol};

/* Opens a protocol's port and starts its frontends. */
static int start_protocol(struct server *s, uint32_t protocol, int tcp_port, int *bound, struct sy_error *err) {
    int rc = acceptor_group_init(&s->groups[protocol], s->config.frontends * connections_max(s),
                                 s->config.connections_per_address);
    rc = rc < 0 ? error_set(err, rc, "no memory for a frontend")
                : listen_open(s->config.host, tcp_port, protocols[protocol]->metrics->title, &s->listen_fds[protocol],
                              bound, err);
    for (uint32_t n = 0; n < s->config.frontends && rc == 0; n++) {
        uint32_t index = protocol * s->config.frontends + n;
        struct frontend_config config = frontend_config(s, index, s->listen_fds[protocol]);
        rc = frontend_start(&s->frontends[index], protocols[protocol], &config, err);
    }
    return rc;
}

static int start_frontends(struct server *s, struct sy_error *err) {
    int rc = ports_create(s, err);
    /* one thread more than frontends: while one works at a very large body, the others still have one */
    rc = rc < 0 ? rc
                : bulk_create(&s->bulk, s->config.frontends + 1, inputs_bytes_max(s), server_role(s) == LINK_FRONTEND,
                              s->wiring.pinned, s->config.grpc_level, err);
    if (rc == 0) {
        struct region *region = &s->wiring.regions[s->wiring.frontends];
        region->base = slab_range(bulk_slab(s->bulk), &region->bytes);
        region->fd = slab_fd(bulk_slab(s->bulk));
    }
    if (rc == 0 && s->config.prepare_threads > 0)
        rc = preparer_create(&s->preparer, s->config.prepare_threads, err);
    for (uint32_t m = 0; m < s->config.model_count && s->preparer && rc == 0; m++)
        rc = s->config.models[m].prepared ? preparer_start(s->preparer, err) : 0;
    rc = rc < 0 ? rc : start_protocol(s, 0, s->config.http_port, &s->bound.http, err);
    return rc < 0 || s->config.grpc_port < 0 ? rc : start_protocol(s, 1, s->config.grpc_port, &s->bound.grpc, err);
}

static int start_metrics(struct server *s, struct sy_error *err) {
    if (s->config.metrics_port < 0)
        return 0;
    struct metrics_config config = {
        .host = s->config.host,
        .tcp_port = s->config.metrics_port,
        .tls = s->config.tls_metrics ? s->config.tls : NULL,
        .auth = s->config.auth_metrics ? s->config.auth : NULL,
        .render = server_render_metrics,
        .render_fine = server_render_fine_metrics,
        .recording = server_schedules(server_scheduling(s)) ? server_recording : NULL,
        .recording_seconds = RECORDING_SECONDS,
        .recording_seconds_max = RECORDING_SECONDS_MAX,
        .ready = s->config.cluster && !server_listens(s) ? server_cluster_ready : NULL,
        .orders = server_role(s) == LINK_BACKEND && s->config.control && s->config.control->mode == CONTROL_EXPLICIT
                      ? s->desk
                      : NULL,
        .orders_auth = s->config.auth,
        .context = s,
    };
    int rc = metrics_server_start(&s->metrics, &config, err);
    if (rc == 0)
        s->bound.metrics = metrics_server_port(s->metrics);
    return rc;
}

static int server_allocate(struct server *s) {
    for (uint32_t type = 0; type < s->config.type_count && server_runs(s); type++) {
        s->wiring.accelerators += s->config.accelerators[type].count;
        s->wiring.executors += executors_of(&s->config.accelerators[type]);
    }
    s->wiring.central = s->config.policy->central != NULL;
    s->wiring.types = s->config.type_count;
    s->wiring.model_threads = s->wiring.central ? 1 : s->config.model_threads;
    s->wiring.rank_threads = s->wiring.central ? 1 : s->config.rank_threads;
    s->wiring.frontends = server_frontends(s) + s->config.frontends_inside;
    if (s->config.cluster)
        server_cluster_plan(s);
    s->accelerator_type = calloc(s->wiring.accelerators, 1);
    s->wiring.executor_of = calloc(s->wiring.accelerators, sizeof(uint32_t));
    s->wiring.part_of_accelerator = calloc(s->wiring.accelerators, 1);
    s->executors = calloc(s->wiring.executors, sizeof(*s->executors));
    s->rank_threads = calloc(s->wiring.rank_threads, sizeof(*s->rank_threads));
    s->model_threads = calloc(s->wiring.model_threads, sizeof(*s->model_threads));
    s->ports = calloc(s->wiring.frontends, sizeof(*s->ports));
    s->frontends = calloc(server_frontends(s), sizeof(*s->frontends));
    if (!s->accelerator_type || !s->wiring.executor_of || !s->wiring.part_of_accelerator || !s->executors ||
        !s->rank_threads || !s->model_threads || !s->ports || !s->frontends ||
        (s->config.shared_memory && shared_memory_create(&s->shared, s->config.shared_memory_prefix) < 0) ||
        (s->config.control && !(s->desk = repository_desk_create())))
        return -ENOMEM;
    for (uint32_t a = 0; a < s->wiring.accelerators; a++) /* in a cluster's scheduler: all accelerators that may come */
        s->wiring.part_of_accelerator[a] = (uint8_t)(a % s->wiring.rank_threads);
    for (uint32_t type = 0, at = 0, executor = 0; type < s->config.type_count && server_runs(s); type++) {
        const struct server_accelerators *a = &s->config.accelerators[type];
        uint32_t of_type = 0;
        for (uint32_t i = 0, threads = executors_of(a); i < threads; i++, executor++)
            for (uint32_t n = accelerators_of(a, i); n > 0; n--, at++, of_type++) {
                s->accelerator_type[at] = (uint8_t)type;
                s->wiring.executor_of[at] = executor;
                s->wiring.part_of_accelerator[at] = (uint8_t)(of_type % s->wiring.rank_threads);
            }
    }
    int rc = place_models(s);
    if (rc == 0 && server_schedules(s) && s->config.record_bytes > 0)
        rc = server_history_init(s);
    return rc == 0 && server_schedules(s) && s->config.autoscale.every_ns > 0 ? server_advice_init(s) : rc;
}

static void calibrate_server(struct server *s) {
    calibrate(&s->calibration);
    log_info("timing margins measured", "wake_us=%lld dispatch_us=%lld reply_us=%lld copy_gb_per_s=%.1f",
             (long long)s->calibration.wake_ns / 1000, (long long)s->calibration.dispatch_ns / 1000,
             (long long)s->calibration.reply_ns / 1000, 1 / s->calibration.copy_ns_per_byte);
}

static void stop_listening(struct server *s) {
    for (int p = 0; p < SERVER_PROTOCOLS; p++) {
        if (s->listen_fds[p] >= 0)
            close(s->listen_fds[p]);
        s->listen_fds[p] = -1;
    }
}

static void sleep_ns(int64_t ns) {
    struct timespec ts = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    nanosleep(&ts, NULL);
}

/* Watches runs while the frontends end, since they wait for the executors' answers. */
static void *watch_main(void *server) {
    struct server *s = server;
    while (atomic_load_explicit(&s->watched, memory_order_relaxed)) { /* a lone flag */
        server_watch_executors(s, true);
        sleep_ns(ENDING_WATCH_NS);
    }
    return NULL;
}

/* Ends the threads that were started: first those that bring requests, while the others still give requests back. */
static int server_end(struct server *s) {
    pthread_t watcher;
    int rc = 0;

    atomic_store_explicit(&s->watched, true, memory_order_relaxed);
    bool watched = pthread_create(&watcher, NULL, watch_main, s) == 0;
    repository_thread_stop(s->repository);
    metrics_server_stop(s->metrics);
    server_rehearsal_stop(s);
    stop_listening(s);
    for (uint32_t f = 0; s->frontends && f < server_frontends(s); f++)
        if (s->frontends[f])
            frontend_tell_end(s->frontends[f]);
    for (uint32_t f = 0; s->frontends && f < server_frontends(s); f++)
        frontend_end(s->frontends[f]);
    server_cluster_stop(s); /* until now the link gave requests back, and might publish models */
    preparer_destroy(s->preparer);
    bulk_stop(s->bulk);
    for (uint32_t f = 0; s->frontends && f < server_frontends(s); f++)
        frontend_stop(s->frontends[f]);
    bulk_destroy(s->bulk);
    for (uint32_t t = 0; s->model_threads && t < s->wiring.model_threads; t++)
        if (s->model_threads[t])
            model_thread_stop(s->model_threads[t]);
    if (s->central_thread)
        central_thread_stop(s->central_thread);
    for (uint32_t k = 0; s->rank_threads && k < s->wiring.rank_threads; k++)
        if (s->rank_threads[k])
            rank_thread_stop(s->rank_threads[k]);
    decision_files_close(s->decisions);
    atomic_store_explicit(&s->watched, false, memory_order_relaxed);
    if (watched)
        pthread_join(watcher, NULL);
    for (uint32_t e = 0; s->executors && e < s->wiring.executors; e++)
        if (s->executors[e] && executor_stop(s->executors[e]) < 0)
            rc = -EINPROGRESS;
    if (rc == 0)
        server_cluster_free(s);
    for (uint32_t f = 0; s->ports && f < s->wiring.frontends; f++)
        port_destroy(s->ports[f]);
    for (int p = 0; p < SERVER_PROTOCOLS; p++)
        acceptor_group_destroy(&s->groups[p]);
    repository_thread_free(s->repository);
    free(s->desk);
    shared_memory_destroy(s->shared);
    models_withdraw(s);
    pthread_mutex_destroy(&s->commands_lock);
    pthread_mutex_destroy(&s->models_lock);
    pthread_mutex_destroy(&s->describe_lock);
    wiring_destroy(&s->wiring);
    free(s->wiring.thread_of_variant);
    free(s->wiring.thread_of_served);
    free(s->wiring.host_of_served);
    free(s->wiring.suffix_of_served);
    free(s->wiring.executor_of);
    free(s->wiring.part_of_model);
    free(s->wiring.part_of_accelerator);
    free(s->rank_threads);
    server_advice_free(s);
    server_history_free(s);
    server_balance_free(s);
    free(s->placements);
    free(s->accelerator_type);
    free(s->executors);
    free(s->model_threads);
    free(s->ports);
    free(s->frontends);
    free(s);
    return rc;
}

int server_start(struct server **server, const struct server_config *config, struct sy_error *err) {
    struct server *s = aligned_alloc(CACHE_LINE, (sizeof(*s) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    cpu_set_t others;
    int rc;

    if (!s)
        return error_set(err, -ENOMEM, "no memory for the server");
    memset(s, 0, sizeof(*s));
    s->config = *config;
    s->started_ns = clock_now_ns();
    for (int p = 0; p < SERVER_PROTOCOLS; p++)
        s->listen_fds[p] = -1;
    atomic_init(&s->able, server_role(s) != LINK_FRONTEND); /* a cluster's frontend is able once it has a model */
    s->bound = (struct server_ports){-1, -1, -1, -1};
    pthread_mutex_init(&s->commands_lock, NULL);
    pthread_mutex_init(&s->models_lock, NULL);
    pthread_mutex_init(&s->describe_lock, NULL);
    doorbell_init(&s->models_bell, false, false);
    rc = server_allocate(s);
    if (rc < 0) {
        error_set(err, rc, "no memory for the server's threads");
        goto err_end;
    }
    s->wiring.places_bell = s->desk ? &s->desk->bell : NULL;
    if ((rc = wiring_init(&s->wiring, config->busy_poll, err)) < 0 ||
        (server_runs(s) && (rc = start_executors(s, err)) < 0))
        goto err_end;
    suffixes_check(s);
    if (config->decisions && server_schedules(s) &&
        (rc = decision_files_create(&s->decisions, &s->wiring, config->decisions, config->decisions_bytes, err)) < 0)
        goto err_end;
    if (cores_beside(&config->executor_cores, &others))
        thread_pin(&others); /* threads started from now on inherit it */
    calibrate_server(s);
    malloc_trim(0); /* memory that only the loading needed */
    /* metrics last: a scrape may come at once, and reads all the others */
    if ((rc = models_publish(s, err)) < 0 || (server_schedules(s) && (rc = start_scheduler(s, err)) < 0) ||
        (server_listens(s) && (rc = start_frontends(s, err)) < 0) ||
        (s->config.cluster && (rc = server_cluster_start(s, err)) < 0) || (rc = server_rehearsal_start(s, err)) < 0 ||
        (rc = start_metrics(s, err)) < 0)
        goto err_end;
    if (config->control && (rc = repository_thread_start(&s->repository, s, err)) < 0)
        goto err_end;
    if (!config->control) {
        atomic_store_explicit(&s->ready, true, memory_order_release); /* with server_is_ready() */
        server_serving_update(s);
    }
    *server = s;
    return 0;

err_end:
    server_end(s);
    return rc;
}

struct server_ports server_ports(const struct server *s) {
    return s->bound;
}

struct server_scheduler server_scheduler(const struct server *s) {
    return (struct server_scheduler){&s->wiring, s->model_threads, s->rank_threads, s->scheduler_link};
}

struct repository_desk *server_desk(const struct server *s) {
    return s->desk;
}

bool server_is_ready(const struct server *s) {
    return atomic_load_explicit(&s->ready, memory_order_acquire); /* with the stores that set it */
}

const struct model_index *server_models_lock(struct server *s) {
    pthread_mutex_lock(&s->models_lock);
    return atomic_load_explicit(&s->models.now, memory_order_relaxed); /* under the lock */
}

void server_models_unlock(struct server *s) {
    pthread_mutex_unlock(&s->models_lock);
}

static uint32_t in_flight(const struct server *s) {
    uint32_t total = 0;
    for (uint32_t f = 0; f < server_frontends(s); f++)
        total += frontend_in_flight(s->frontends[f]);
    return total;
}

static uint32_t connections(const struct server *s) {
    uint32_t total = 0;
    for (uint32_t f = 0; f < server_frontends(s); f++)
        total += frontend_connections(s->frontends[f]);
    return total;
}

static bool is_drained(const struct server *s) {
    for (uint32_t f = 0; f < server_frontends(s); f++)
        if (!frontend_is_shut(s->frontends[f]))
            return false;
    return in_flight(s) == 0; /* looked at last: from now on no request begins */
}

/* Waits until nothing is in flight. A moment without requests is not the end yet: connections that are still open may
 * bring some until they are shut, and those are answered, too. */
static void drain(struct server *s, int64_t until_ns) {
    bool asked = false;
    int64_t open_until_ns = clock_now_ns() + DRAIN_OPEN_NS;
    while (!is_drained(s) && clock_now_ns() < until_ns) {
        sleep_ns(DRAIN_POLL_NS); /* first, so that frontends accept clients that have connected already */
        server_watch(s);
        if (!asked && in_flight(s) == 0 && (connections(s) == 0 || clock_now_ns() >= open_until_ns)) {
            asked = true;
            for (uint32_t f = 0; f < server_frontends(s); f++)
                frontend_shut(s->frontends[f]);
        }
    }
}

/* Waits until models neither come nor go any more. */
static void models_settle(struct server *s, int64_t until_ns) {
    repository_thread_quit(s->repository);
    while (!repository_thread_ended(s->repository) && clock_now_ns() < until_ns) {
        sleep_ns(DRAIN_POLL_NS);
        server_watch(s);
    }
}

int server_stop(struct server *s, int64_t grace_ns, int64_t timeout_ns) {
    atomic_store_explicit(&s->draining, true, memory_order_release); /* with the frontends' loads */
    models_settle(s, clock_now_ns() + timeout_ns);
    if (grace_ns > 0)
        sleep_ns(grace_ns);
    stop_listening(s);
    for (uint32_t f = 0; f < server_frontends(s); f++)
        frontend_quiesce(s->frontends[f]);
    int64_t until = clock_now_ns() + timeout_ns;
    drain(s, until);
    uint32_t cut_off = in_flight(s) + !server_cluster_drain(s, until);
    if (cut_off)
        log_warn("requests cut off", "requests=%u", cut_off);
    int rc = server_end(s);
    return rc < 0 ? rc : cut_off ? -ETIMEDOUT : 0;
}
