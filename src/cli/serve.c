/* serve.c - `symphony serve`: frontends, scheduler and local accelerators in one process. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/executor.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "control/curl_line.h"
#include "control/deployment.h"
#include "control/repository_control.h"
#include "net/auth.h"
#include "net/tls.h"
#include "sched/wiring.h"

#define OUTAGES_EVERY_S 1
#define BALANCE_EVERY   5  /* so many looks for outages */
#define READY_EVERY_MS  20 /* between looks whether all models are loaded */

#define LOAD_MODELS_MAX 1024

struct serve_settings {
    const char *repository, *scenario, *accelerators, *policy, *host, *pin, *log_level, *cache_dir, *tls_cert, *tls_key,
        *tls_client_ca, *token_file, *server_name;
    int64_t http_port, grpc_port, metrics_port, model_threads, rank_threads, frontends, queue_max, body_mib, inputs_mib,
        connections, per_address, idle_s, head_s, rate_kib;
    int control_mode; /* enum control_mode */
    const char *load_models[LOAD_MODELS_MAX];
    uint32_t load_model_count;
    int64_t max_models;
    double poll_secs;
    double slo_ms, run_limit_s, spin, drain_grace_s, drain_timeout_s;
    int grpc_compression;
    bool busy_poll, no_learn, no_grpc, no_metrics, no_shared_memory, auth_health, auth_metrics, tls_metrics;
};

static int load_model_read(const char *text, void *settings, struct sy_error *err) {
    struct serve_settings *s = settings;
    if (s->load_model_count == LOAD_MODELS_MAX)
        return error_set(err, -EINVAL, "given more than %d times", LOAD_MODELS_MAX);
    s->load_models[s->load_model_count++] = text;
    return 0;
}

static const struct option_row rows[] = {
    OPTION_HEADING("What to serve (one of)"),
    OPTION_TEXT(struct serve_settings, repository, "repository", "DIR",
                "model repository as Triton lays it out, a folder of .onnx files, or one .onnx file"),
    OPTION_TEXT(struct serve_settings, scenario, "scenario", "FILE",
                "the emulated cluster and models of a scenario file, live"),
    OPTION_CHOICE(
        struct serve_settings, control_mode, "model-control-mode", "none|poll|explicit",
        "none: the models that are there at the start; poll: those that the repository holds, which is looked "
        "at again and again; explicit: those that clients load"),
    OPTION_PARSED("load-model", "NAME", load_model_read,
                  "with explicit: a model to load at the start, or * for all; may be given several times"),
    OPTION_DOUBLE(struct serve_settings, poll_secs, "repository-poll-secs", "S", 0.1, 86400,
                  "with poll or explicit: how often to look at the repository"),
    OPTION_INT(struct serve_settings, max_models, "max-models", "N", 1, CONTROL_MODELS_MOST,
               "with poll or explicit: models loaded at once; more are answered 503"),
    OPTION_HEADING("On what"),
    OPTION_TEXT(struct serve_settings, accelerators, "accelerators", "LIST",
                "cpu:N | cuda:N | emulated:N[:TYPE], separated by commas; without it cpu, one less than the cores, at "
                "least 1"),
    OPTION_TEXT(struct serve_settings, pin, "pin", "CORES",
                "cores for the executors, e.g. 1-3: the n-th executor is pinned to the n-th (CPU executors are pinned "
                "to the last cores without it); 'none' pins nothing"),
    OPTION_DOUBLE(struct serve_settings, spin, "spin", "X", 0, 1000,
                  "CPU executors with a core of their own look for the next batch for X times what the last one took "
                  "before they sleep: a core that halts runs slower when it wakes"),
    OPTION_DOUBLE(struct serve_settings, run_limit_s, "run-limit", "S", 0.1, 86400,
                  "a batch that runs for longer than this, and than 20 times what its profile says, is stopped; one "
                  "that does not stop within 5 s more takes its accelerator out of service"),
    OPTION_FLAG(struct serve_settings, busy_poll, "busy-poll", "threads spin instead of sleeping"),
    OPTION_INT(struct serve_settings, frontends, "frontends", "N", 1, 64,
               "threads that speak HTTP, and as many that speak gRPC"),
    OPTION_INT(struct serve_settings, model_threads, "model-threads", "N", 1, 64, "threads that hold the queues"),
    OPTION_INT(struct serve_settings, rank_threads, "rank-threads", "K", 1, RANK_THREADS_MAX,
               "threads that give accelerators to models, each those of its part of the cluster"),
    OPTION_HEADING("Scheduling"),
    OPTION_TEXT(struct serve_settings, policy, "policy", "NAME[:KEY=VALUE,...]",
                "scheduling policy and its options, as docs/scheduling.md lists them, e.g. deferred:consolidate=true"),
    OPTION_DOUBLE(struct serve_settings, slo_ms, "slo-ms", "MS", 0.01, 3.6e6,
                  "SLO of models that give none; without it chosen from the model's profile"),
    OPTION_FLAG(struct serve_settings, no_learn, "no-learn",
                "keep profiles as measured; do not correct them while running"),
    OPTION_HEADING("Listening"),
    OPTION_TEXT(struct serve_settings, host, "host", "ADDR", "address to listen on"),
    OPTION_INT(struct serve_settings, http_port, "http-port", "PORT", 0, 65535, "HTTP; 0: any free port"),
    OPTION_INT(struct serve_settings, grpc_port, "grpc-port", "PORT", 0, 65535, "gRPC; 0: any free port"),
    OPTION_FLAG(struct serve_settings, no_grpc, "no-grpc", "no gRPC port"),
    OPTION_INT(struct serve_settings, metrics_port, "metrics-port", "PORT", 0, 65535,
               "Prometheus metrics; 0: any free port"),
    OPTION_FLAG(struct serve_settings, no_metrics, "no-metrics", "no metrics port"),
    OPTION_FLAG(struct serve_settings, no_shared_memory, "no-shared-memory",
                "clients may not name shared memory of this machine as the place of tensors"),
    OPTION_TEXT(struct serve_settings, server_name, "server-name", "NAME",
                "the name in the server's metadata; clients that insist on Triton want triton"),
    OPTION_CHOICE(struct serve_settings, grpc_compression, "grpc-infer-response-compression-level",
                  "none|low|medium|high",
                  "how much gRPC's inference answers are compressed, for clients that take gzip or deflate"),
    OPTION_HEADING("Security (docs/security.md)"),
    OPTION_TEXT(struct serve_settings, tls_cert, "tls-cert", "FILE",
                "HTTP and gRPC speak TLS with this certificate (PEM; the server's first, then those that signed it); "
                "SIGHUP reads it again"),
    OPTION_TEXT(struct serve_settings, tls_key, "tls-key", "FILE", "its private key (PEM)"),
    OPTION_TEXT(struct serve_settings, tls_client_ca, "tls-client-ca", "FILE",
                "clients need a certificate that one of these signed (PEM)"),
    OPTION_FLAG(struct serve_settings, tls_metrics, "tls-metrics", "the metrics port speaks TLS, too"),
    OPTION_TEXT(
        struct serve_settings, token_file, "auth-token-file", "FILE",
        "every request needs one of the tokens in this file, one a line, but those for whether the server lives "
        "and is ready; SIGHUP reads it again"),
    OPTION_FLAG(struct serve_settings, auth_health, "auth-health", "those need one, too"),
    OPTION_FLAG(struct serve_settings, auth_metrics, "auth-metrics", "so does the metrics port"),
    OPTION_HEADING("Limits"),
    OPTION_INT(struct serve_settings, queue_max, "queue-max", "N", 1, 10000000,
               "requests queued per model thread; more are answered 503"),
    OPTION_INT(struct serve_settings, body_mib, "body-max-mib", "MIB", 1, 4096,
               "largest request body; larger ones are answered 413"),
    OPTION_INT(struct serve_settings, inputs_mib, "inputs-max-mib", "MIB", 1, 1048576,
               "memory for the inputs of all requests under way, of each protocol; beyond it requests are answered "
               "503"),
    OPTION_INT(struct serve_settings, connections, "connections-max", "N", 1, 1000000,
               "connections of each port, as far as the limit of open files allows; more wait"),
    OPTION_INT(struct serve_settings, per_address, "connections-per-address", "N", 0, 1000000,
               "of these from one address; more are closed at once; 0: any"),
    OPTION_INT(struct serve_settings, idle_s, "idle-timeout", "S", 1, 86400,
               "a connection on which nothing happens for so long is closed"),
    OPTION_INT(
        struct serve_settings, head_s, "head-timeout", "S", 1, 3600,
        "what TLS and the head of a request may take, and a body or an answer beside what --min-rate-kib allows"),
    OPTION_INT(struct serve_settings, rate_kib, "min-rate-kib", "KIB", 0, 1048576,
               "bodies and answers that are slower than so many KiB a second are given up; 0: any rate will do"),
    OPTION_DOUBLE(struct serve_settings, drain_grace_s, "drain-grace", "S", 0, 3600,
                  "after SIGTERM: how long requests are still taken while readiness fails"),
    OPTION_DOUBLE(struct serve_settings, drain_timeout_s, "drain-timeout", "S", 0, 3600,
                  "after SIGTERM: how long requests in flight may take to finish"),
    OPTION_HEADING("Other"),
    OPTION_TEXT(struct serve_settings, cache_dir, "cache-dir", "DIR",
                "where profiles and optimised models go when a model's own folder cannot be written"),
    OPTION_TEXT(struct serve_settings, log_level, "log-level", "LEVEL", "debug, info, warn or error"),
    OPTION_END,
};

static const struct options options = {
    .command = "serve",
    .usage = "--repository DIR | --scenario FILE [OPTION]...",
    .intro =
        "Serves models over the Open Inference Protocol (v2, HTTP/1.1 and gRPC) under latency SLOs. Models without a\n"
        "cached profile are profiled first. SIGTERM or SIGINT drains and ends; a second one ends at once.",
    .notes = "Examples:\n"
             "  symphony serve --repository model.onnx\n"
             "  symphony serve --repository /srv/models --accelerators cpu:4 --pin 4-7\n"
             "  symphony serve --scenario scenarios/table4-resnet50.yaml --http-port 9000",
    .rows = rows,
};

static const int zlib_levels[] = {0, 1, 6, 9}; /* by the words of --grpc-infer-response-compression-level */

/* Everything decided from the settings before anything starts. */
struct serve_plan {
    struct deployment deployment;
    struct server_config config;
    struct auth *auth; /* NULL: none is needed */
    struct repository_control control;
    struct accelerator_group groups[ACCELERATOR_TYPES_MAX];
    uint32_t group_count;
};

static int default_accelerators(struct serve_plan *plan) {
    cpu_set_t allowed;
    thread_cores_allowed(&allowed);
    int cores = CPU_COUNT(&allowed);
    plan->groups[0] = (struct accelerator_group){
        .kind = ACCELERATOR_CPU, .count = cores > 1 ? (uint32_t)cores - 1 : 1, .type = "cpu"};
    return 1;
}

/* Chooses the cores that executors are pinned to: the given ones; else, if there are CPU accelerators, the last of
 * those allowed. */
static int choose_cores(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    cpu_set_t *cores = &plan->config.executor_cores, allowed;
    uint32_t cpus = 0;

    CPU_ZERO(cores);
    if (s->pin && strcmp(s->pin, "none") == 0)
        return 0;
    if (s->pin)
        return thread_cores_parse(s->pin, cores, err);
    for (uint32_t i = 0; i < plan->group_count; i++)
        cpus += plan->groups[i].kind == ACCELERATOR_CPU ? plan->groups[i].count : 0;
    thread_cores_allowed(&allowed);
    int count = CPU_COUNT(&allowed);
    for (int i = count - 1; i >= 0 && cpus > 0; i--, cpus--)
        CPU_SET(thread_core_nth(&allowed, (unsigned)i), cores);
    return 0;
}

static int plan_repository(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    int found = s->accelerators ? accelerators_parse(s->accelerators, plan->groups, ACCELERATOR_TYPES_MAX, err)
                                : default_accelerators(plan);
    if (found < 0)
        return found;
    plan->group_count = (uint32_t)found;
    int rc = choose_cores(s, plan, err);
    if (rc < 0)
        return rc;
    struct deployment_options how = {
        .groups = plan->groups,
        .group_count = plan->group_count,
        .slo_ns = (int64_t)(s->slo_ms * (double)NS_PER_MS),
        .cores = plan->config.executor_cores,
        .cache_dir = s->cache_dir,
    };
    if (s->control_mode == CONTROL_NONE)
        return deployment_from_repository(&plan->deployment, s->repository, &how, err);
    plan->control = (struct repository_control){
        .mode = (enum control_mode)s->control_mode,
        .path = s->repository,
        .names = s->load_models,
        .name_count = s->load_model_count,
        .look_every_ns = (int64_t)(s->poll_secs * (double)NS_PER_S),
        .models_max = (uint32_t)s->max_models,
    };
    plan->config.control = &plan->control;
    return deployment_for_control(&plan->deployment, &plan->control, &how, err);
}

static int plan_scenario(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    struct scenario scenario;
    int rc = scenario_read(s->scenario, NULL, 0, &scenario, err);
    if (rc < 0)
        return rc;
    if (!s->policy) {
        plan->config.policy = scenario.policy;
        plan->config.policy_options = scenario.policy_options;
    }
    rc = deployment_from_scenario(&plan->deployment, &scenario, err);
    scenario_free(&scenario);
    return rc < 0 ? rc : choose_cores(s, plan, err);
}

static int plan_name(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    plan->config.name = s->server_name;
    if (!s->server_name || (*s->server_name && utf8_is_valid(s->server_name)))
        return 0;
    return error_set(err, -EINVAL, "--server-name: expected a name, in UTF-8");
}

static int plan_security(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    if (!s->tls_cert != !s->tls_key)
        return error_set(err, -EINVAL, "--tls-cert and --tls-key go together");
    if ((s->tls_client_ca || s->tls_metrics) && !s->tls_cert)
        return error_set(err, -EINVAL, "--tls-%s needs --tls-cert and --tls-key",
                         s->tls_metrics ? "metrics" : "client-ca");
    if ((s->auth_health || s->auth_metrics) && !s->token_file)
        return error_set(err, -EINVAL, "--auth-%s needs --auth-token-file", s->auth_health ? "health" : "metrics");
    int rc = s->token_file ? auth_create(&plan->auth, s->token_file, err) : 0;
    if (rc < 0)
        return rc;
    struct tls_files files = {.certificate = s->tls_cert, .key = s->tls_key, .client_ca = s->tls_client_ca};
    return s->tls_cert ? tls_create(&plan->config.tls, &files, err) : 0;
}

static void plan_free(struct serve_plan *plan) {
    deployment_free(&plan->deployment);
    tls_destroy(plan->config.tls);
    auth_destroy(plan->auth);
}

static int make_plan(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    if (!s->repository == !s->scenario)
        return error_set(err, -EINVAL, "give either --repository or --scenario");
    if (s->scenario && s->accelerators)
        return error_set(err, -EINVAL, "--accelerators does not go with --scenario, whose file says them");
    if (s->scenario && s->control_mode != CONTROL_NONE)
        return error_set(err, -EINVAL, "--model-control-mode goes with --repository only");
    if (s->load_model_count > 0 && s->control_mode != CONTROL_EXPLICIT)
        return error_set(err, -EINVAL, "--load-model goes with --model-control-mode explicit only");
    struct sy_error why;
    int rc = policy_read(s->policy ? s->policy : policy_deferred.name, &plan->config.policy,
                         &plan->config.policy_options, &why);
    if (rc < 0)
        return error_set(err, rc, "--policy: %s", why.text);
    if (plan->config.policy->central && s->control_mode != CONTROL_NONE)
        return error_set(err, -EINVAL,
                         "--policy %s plans for the models of the start; it goes with --model-control-mode none only",
                         plan->config.policy->name);
    if ((rc = plan_name(s, plan, err)) < 0 || (rc = plan_security(s, plan, err)) < 0)
        return rc;
    rc = s->repository ? plan_repository(s, plan, err) : plan_scenario(s, plan, err);
    if (rc < 0)
        return rc;
    struct server_config *c = &plan->config;
    c->auth = plan->auth;
    c->auth_health = s->auth_health;
    c->auth_metrics = s->auth_metrics;
    c->tls_metrics = s->tls_metrics;
    c->models = plan->deployment.models;
    c->model_count = plan->deployment.model_count;
    c->accelerators = plan->deployment.accelerators;
    c->type_count = plan->deployment.type_count;
    c->model_threads = (uint32_t)s->model_threads;
    c->rank_threads = (uint32_t)s->rank_threads;
    for (uint32_t type = 0; type < c->type_count; type++)
        if (c->rank_threads > c->accelerators[type].count)
            return error_set(err, -EINVAL, "--rank-threads: %u for %u accelerators of type %s", c->rank_threads,
                             c->accelerators[type].count, c->accelerators[type].type);
    c->frontends = (uint32_t)s->frontends;
    c->host = s->host;
    c->http_port = (int)s->http_port;
    c->grpc_port = s->no_grpc ? -1 : (int)s->grpc_port;
    c->metrics_port = s->no_metrics ? -1 : (int)s->metrics_port;
    c->busy_poll = s->busy_poll;
    c->shared_memory = !s->no_shared_memory;
    c->spin = s->spin;
    c->run_ns_most = (int64_t)(s->run_limit_s * (double)NS_PER_S);
    c->learn = !s->no_learn;
    c->queue_max = (uint32_t)s->queue_max;
    c->body_bytes_max = (uint64_t)s->body_mib << 20;
    c->connections_max = (uint32_t)s->connections;
    c->connections_per_address = (uint32_t)s->per_address;
    c->idle_timeout_s = (uint32_t)s->idle_s;
    c->head_timeout_s = (uint32_t)s->head_s;
    c->rate_min = (uint32_t)s->rate_kib << 10;
    c->inputs_bytes_max = (uint64_t)s->inputs_mib << 20;
    c->grpc_level = zlib_levels[s->grpc_compression];
    return 0;
}

/* Prints what is served and how to send a request: the last line can be pasted into a shell. */
static void say_ready(struct server *server, const struct server_config *config) {
    struct server_ports ports = server_ports(server);
    int ready = 0, set_aside = 0;
    char line[4096], url[64];

    const struct model_index *models = server_models_lock(server);
    for (uint32_t i = 0; i < models->count; i++) {
        bool is_ready = served_model_state(&models->models[models->listed[i]]) == MODEL_READY;
        ready += is_ready;
        set_aside += !is_ready;
    }
    for (uint32_t i = 0; i < models->absent_count; i++)
        set_aside += models->absent[i].failed;
    log_info("ready", "http_port=%d grpc_port=%d metrics_port=%d models=%d set_aside=%d policy=%s", ports.http,
             ports.grpc, ports.metrics, ready, set_aside, config->policy->name);
    snprintf(url, sizeof(url), "%s://localhost:%d", config->tls ? "https" : "http", ports.http);
    if (curl_line(models, url, line, sizeof(line)))
        fprintf(stderr, "\nTry:\n  %s\n\n", line);
    server_models_unlock(server);
}

/* Reads the files again that may change while the server runs. If a new one is wrong, the old content stays. */
static void reload(const struct serve_plan *plan) {
    struct sy_error err;
    if (plan->config.tls && tls_reload(plan->config.tls, &err) < 0)
        log_error("certificates stay as they were", "reason=\"%s\"", err.text);
    if (plan->auth && auth_reload(plan->auth, &err) < 0)
        log_error("tokens stay as they were", "reason=\"%s\"", err.text);
}

static void say_stopping(int signal_number) {
    log_info("stopping", "signal=%s", signal_number == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* Sleeps until all models of the start are loaded. False: a signal asks the server to end before that. */
static bool wait_until_ready(struct server *server, const sigset_t *signals) {
    const struct timespec every = {.tv_nsec = READY_EVERY_MS * NS_PER_MS};
    while (!server_is_ready(server)) {
        int signal_number = sigtimedwait(signals, NULL, &every);
        server_watch(server);
        if (signal_number < 0 || signal_number == SIGHUP)
            continue;
        say_stopping(signal_number);
        return false;
    }
    return true;
}

/* Sleeps until a signal asks the server to end. A further signal then ends the process at once. */
static void wait_for_signal(struct server *server, const struct serve_plan *plan, const sigset_t *signals) {
    const struct timespec every = {.tv_sec = OUTAGES_EVERY_S};
    unsigned looks = 0;
    int signal_number;

    while ((signal_number = sigtimedwait(signals, NULL, &every)) < 0 || signal_number == SIGHUP) {
        if (signal_number == SIGHUP)
            reload(plan);
        server_watch(server);
        server_outages(server);
        if (++looks % BALANCE_EVERY == 0)
            server_balance(server);
    }
    say_stopping(signal_number);
}

static int serve(const struct serve_settings *settings) {
    struct serve_plan plan;
    struct server *server;
    struct sy_error err = {.text = ""};
    sigset_t signals;

    memset(&plan, 0, sizeof(plan));
    int rc = make_plan(settings, &plan, &err);
    if (rc < 0) {
        plan_free(&plan);
        fprintf(stderr, "symphony serve: %s\n", err.text);
        return CLI_USAGE;
    }
    /* Signals are blocked before any thread starts, so that only the wait below gets them. */
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    rc = server_start(&server, &plan.config, &err);
    if (rc < 0) {
        plan_free(&plan);
        fprintf(stderr, "symphony serve: %s\n", err.text);
        return CLI_FAILURE;
    }
    if (wait_until_ready(server, &signals)) {
        say_ready(server, &plan.config);
        wait_for_signal(server, &plan, &signals);
    }
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    rc = server_stop(server, (int64_t)(settings->drain_grace_s * (double)NS_PER_S),
                     (int64_t)(settings->drain_timeout_s * (double)NS_PER_S));
    if (rc == -EINPROGRESS) { /* a hanging run may still read what would be freed now */
        log_info("stopped", "run_under_way=true");
        fflush(NULL);
        _exit(CLI_FAILURE);
    }
    plan_free(&plan);
    log_info("stopped", "%s", rc < 0 ? "requests_cut_off=true" : "");
    return rc < 0 ? CLI_FAILURE : CLI_OK;
}

static int serve_run(int argc, char **argv) {
    struct serve_settings settings = {
        .host = "0.0.0.0",
        .http_port = 8000,
        .grpc_port = 8001,
        .metrics_port = 8002,
        .control_mode = CONTROL_NONE,
        .poll_secs = 15,
        .max_models = CONTROL_MODELS_DEFAULT,
        .model_threads = 1,
        .rank_threads = 1,
        .frontends = 1,
        .queue_max = 65536,
        .spin = 2,
        .run_limit_s = (double)RUN_NS_MOST / NS_PER_S,
        .body_mib = 64,
        .inputs_mib = 1024,
        .connections = 10000,
        .idle_s = 300,
        .head_s = 15,
        .rate_kib = 1,
        .drain_timeout_s = 30,
        .log_level = "info",
    };
    enum log_level level;
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);

    if (status != OPTIONS_GO_ON)
        return status;
    if (log_level_parse(settings.log_level, &level) < 0)
        return cli_usage_error("serve", "--log-level: '%s' is not debug, info, warn or error", settings.log_level);
    log_set_level(level);
    return serve(&settings);
}

const struct cli_command cli_serve = {
    .name = "serve",
    .summary = "serves models under latency SLOs",
    .run = serve_run,
};
