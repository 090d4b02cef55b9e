/* serving.c - a server's life: its settings, start, signals, drain, end. */
#include "server/commands/serving_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "back/executor/executor.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/temporary_folder.h"
#include "core/util/decimal.h"
#include "front/net/auth.h"
#include "front/net/frontend_config.h"
#include "front/net/tls.h"
#include "model/repository/model_index.h"
#include "server/commands/cli.h"
#include "server/commands/isolated.h"
#include "server/threads/model_control.h"

#define OUTAGES_EVERY_S 1

int repository_read(const char *text, void *settings, struct sy_error *err) {
    struct serve_settings *s = settings;
    if (!*text)
        return error_set(err, -EINVAL, "the value is empty");
    if (s->repository_count == REPOSITORIES_MAX)
        return error_set(err, -EINVAL, "given more than %d times", REPOSITORIES_MAX);
    s->repositories[s->repository_count++] = text;
    return 0;
}

int load_model_read(const char *text, void *settings, struct sy_error *err) {
    struct serve_settings *s = settings;
    if (s->load_model_count == LOAD_MODELS_MAX)
        return error_set(err, -EINVAL, "given more than %d times", LOAD_MODELS_MAX);
    s->load_models[s->load_model_count++] = text;
    return 0;
}

int frontends_read(const char *text, void *settings, struct sy_error *err) {
    struct serve_settings *s = settings;
    s->frontends = 0;
    return strcmp(text, "auto") != 0 && decimal_int(text, 1, FRONTENDS_MAX, &s->frontends) < 0
               ? error_set(err, -EINVAL, "'%s' is neither auto nor a number from 1 to %d", text, FRONTENDS_MAX)
               : 0;
}

/* A cluster's frontends come and go behind a name or a load balancer: clients find new ones when they connect again. */
#define CLUSTER_GRPC_AGE_S 1800

static const struct serve_settings serve_defaults = {
    .host = "0.0.0.0",
    .http_port = 8000,
    .grpc_port = 8001,
    .metrics_port = 8002,
    .control_mode = CONTROL_NONE,
    .poll_secs = 15,
    .max_models = CONTROL_MODELS_DEFAULT,
    .model_threads = 1,
    .rank_threads = 1,
    .epoch_s = 5,
    .prepare_threads = 2,
    .queue_max = 65536,
    .record_mib = 32,
    .trails = 1024,
    .trails_every = 100,
    .timeline_mib = 64,
    .decisions_mib = 256,
    .spin = 2,
    .run_limit_s = (double)RUN_LIMIT_NS / NS_PER_S,
    .body_mib = 64,
    .inputs_mib = 1024,
    .answers_mib = 512,
    .connections = 10000,
    .idle_s = 300,
    .head_s = 15,
    .rate_kib = 1,
    .drain_timeout_s = 30,
    .log_level = "info",
    .log_format = "logfmt",
    .cluster_port = 0,
    .accelerators_max = 4096,
    .heartbeat_ms = 100,
    .link_wait_s = 2,
    .isolated = -1,
};

void serving_say_ready(struct server *server, const struct server_config *config) {
    struct server_ports ports = server_ports(server);
    int ready = 0, set_aside = 0;

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
    server_models_unlock(server);
}

int serving_signal_until(const sigset_t *signals, int64_t until_ns) {
    int64_t left_ns = until_ns - clock_now_ns();
    left_ns = left_ns > 0 ? left_ns : 0;
    const struct timespec left = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
    return sigtimedwait(signals, NULL, &left);
}

/* Files of certificates, keys or tokens may have changed; those that cannot be used change nothing. */
static void secrets_again(struct serve_plan *plan) {
    const struct {
        const char *what;
        struct tls *tls;
        struct auth *auth;
    } rows[] = {{"certificates stay as they were", plan->config.clients.tls, NULL},
                {"the cluster's certificates stay as they were", plan->cluster_tls, NULL},
                {"the cluster's tokens stay as they were", NULL, plan->cluster_auth},
                {"tokens stay as they were", NULL, plan->auth}};
    struct sy_error err;
    watched_files_read(&plan->secrets);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if ((!rows[i].tls || tls_reload(rows[i].tls, &err) == 0) &&
            (!rows[i].auth || auth_reload(rows[i].auth, &err) == 0))
            continue;
        log_error(rows[i].what, "reason=\"%s\"", err.text);
        watched_files_failed(&plan->secrets);
    }
}

bool serving_signal_take(struct server *server, struct serve_plan *plan, int signal_number) {
    if (signal_number < 0 || signal_number == ISOLATED_LOOK)
        return true;
    if (signal_number == SIGHUP) {
        server_reopen(server);
        secrets_again(plan);
        return true;
    }
    log_info("stopping", "signal=%s",
             signal_number == SIGTERM  ? "SIGTERM"
             : signal_number == SIGINT ? "SIGINT"
                                       : "SIGUSR1");
    return false;
}

/* Looks that are due once a second happen on the second, so that looks at the load are as far apart as in
 * simulations. */
bool serving_wait(struct server *server, struct serve_plan *plan, const sigset_t *signals, bool until_ready) {
    const int64_t every_ns = OUTAGES_EVERY_S * NS_PER_S;
    int64_t next_ns = clock_now_ns() + every_ns;
    struct sy_error err;

    while (!until_ready || !(server_is_ready(server) || server_failed(server, &err))) {
        int64_t soon_ns = clock_now_ns() + READY_EVERY_MS * NS_PER_MS;
        int signal_number = serving_signal_until(signals, until_ready && soon_ns < next_ns ? soon_ns : next_ns);
        if (!serving_signal_take(server, plan, signal_number))
            return false;
        server_obey_parent(server);
        server_watch(server);
        if (clock_now_ns() < next_ns && signal_number < 0)
            continue;
        next_ns = time_due_again(next_ns, every_ns, clock_now_ns());
        server_look(server);
        if (watched_files_look(&plan->secrets))
            secrets_again(plan);
        log_drain(0);
    }
    return true;
}

void serving_signals_block(sigset_t *signals, bool isolated) {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error (EFBIG), as a full disk is */
    sigemptyset(signals);
    if (isolated) {
        sigaddset(signals, ISOLATED_STOP);
        sigaddset(signals, ISOLATED_LOOK);
    } else {
        sigaddset(signals, SIGTERM);
        sigaddset(signals, SIGINT);
        sigaddset(signals, SIGHUP);
    }
    pthread_sigmask(SIG_BLOCK, signals, NULL);
}

/* Decides on processes for the accelerators of `symphony serve`, if the user does not: they are the default where
 * clients may send models. */
static void isolate_choose(struct serve_settings *s) {
    struct accelerator_group groups[ACCELERATOR_TYPES_MAX];
    struct sy_error err;
    int types = s->accelerators ? accelerators_parse(s->accelerators, groups, ACCELERATOR_TYPES_MAX, &err) : 1;
    bool emulated = s->scenario || (s->accelerators && types == 1 && groups[0].kind == ACCELERATOR_EMULATED);
    if (s->isolate != ISOLATE_AUTO)
        return;
    s->isolate = ISOLATE_OFF;
    s->isolate_said = !emulated; /* else nothing runs that could crash */
    if (s->control_mode != CONTROL_EXPLICIT || emulated)
        return;
    /* a process that has one type of accelerators does not know which others an instance_group could mean */
    s->isolate_not = types > 1 ? "accelerators of several types" : s->share_prefixes ? "--share-prefixes on" : NULL;
    s->isolate = types < 0 || s->isolate_not ? ISOLATE_OFF : ISOLATE_ON;
}

void serving_say_isolation(const struct serve_settings *s) {
    if (!s->isolate_said)
        return;
    if (s->isolate == ISOLATE_ON)
        log_info("clients may send models: each accelerator has a process of its own", "instead=\"--isolate off\"");
    else if (s->isolate_not)
        log_warn("clients may send models, and one that crashes ends the server", "reason=\"%s\"", s->isolate_not);
    else
        log_info("a model that crashes ends the server", "instead=\"--isolate on\"");
}

static int serve(const char *command, enum wiring_link role, const struct serve_settings *settings) {
    struct serve_plan plan;
    struct server *server;
    struct isolated_obedience *obedience = NULL;
    struct sy_error err = {.text = ""};
    sigset_t signals;

    memset(&plan, 0, sizeof(plan));
    int rc = serve_plan_make(settings, role, &plan, &err);
    plan.cluster.running = settings->running ? &settings->running : NULL;
    plan.control.told = settings->running && settings->control_mode == CONTROL_EXPLICIT;
    if (rc < 0) {
        serve_plan_free(&plan);
        fprintf(stderr, "symphony %s: %s\n", command, err.text);
        return CLI_USAGE;
    }
    serving_signals_block(&signals, settings->isolated >= 0);
    rc = server_start(&server, &plan.config, &err);
    if (rc == 0 && settings->running && settings->control_mode == CONTROL_EXPLICIT) {
        rc = isolated_obey(&obedience, server_desk(server), &err);
        if (rc < 0)
            server_stop(server, 0, 0);
    }
    if (rc < 0) {
        serve_plan_free(&plan);
        fprintf(stderr, "symphony %s: %s\n", command, err.text);
        return CLI_FAILURE;
    }
    if (plan.config.control) { /* its models are prepared from now on */
        struct server_ports ports = server_ports(server);
        if (role == LINK_NONE)
            log_info("listening", "http_port=%d grpc_port=%d metrics_port=%d", ports.http, ports.grpc, ports.metrics);
        else
            log_info("listening", "metrics_port=%d", ports.metrics);
    }
    bool goes_on = serving_wait(server, &plan, &signals, true), failed = server_failed(server, &err);
    if (failed)
        fprintf(stderr, "symphony %s: %s\n", command, err.text);
    if (goes_on && !failed) {
        if (role == LINK_NONE) {
            serving_say_ready(server, &plan.config);
            serving_say_isolation(settings);
        } else {
            struct server_ports ports = server_ports(server);
            if (role == LINK_SCHEDULER)
                log_info("ready", "port=%d metrics_port=%d", ports.cluster, ports.metrics);
            else if (role == LINK_FRONTEND)
                log_info("ready", "http_port=%d grpc_port=%d metrics_port=%d cluster_port=%d", ports.http, ports.grpc,
                         ports.metrics, ports.cluster);
            else
                log_info("ready", "metrics_port=%d", ports.metrics);
        }
        serving_wait(server, &plan, &signals, false);
    }
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    if (obedience)
        isolated_obedience_close(obedience);
    rc = server_stop(server, (int64_t)(settings->drain_grace_s * (double)NS_PER_S),
                     (int64_t)(settings->drain_timeout_s * (double)NS_PER_S));
    if (obedience)
        isolated_obedience_end(obedience);
    if (rc == -EINPROGRESS) { /* a run still reads what would be freed now */
        log_info("stopped", "run_under_way=true");
        fflush(NULL);
        log_drain(LOG_DRAIN_MS);
        _exit(CLI_FAILURE);
    }
    serve_plan_free(&plan);
    log_info("stopped", "%s", rc < 0 ? "requests_cut_off=true" : "");
    return failed ? CLI_USAGE : rc < 0 ? CLI_FAILURE : CLI_OK;
}

int serving_run(const struct options *options, enum wiring_link role, int argc, char **argv) {
    struct serve_settings settings = serve_defaults;
    enum log_level level;
    enum log_format format;
    settings.grpc_age_s = role == LINK_FRONTEND ? CLUSTER_GRPC_AGE_S : 0;
    int arguments, status = options_parse(options, argc, argv, &settings, &arguments);
    if (status != OPTIONS_GO_ON)
        return status;
    if (log_level_parse(settings.log_level, &level) < 0)
        return cli_usage_error(options->command, "--log-level: '%s' is not debug, info, warn or error",
                               settings.log_level);
    if (log_format_parse(settings.log_format, &format) < 0)
        return cli_usage_error(options->command, "--log-format: '%s' is not logfmt or json", settings.log_format);
    for (int i = 1; i <= arguments; i++) {
        struct sy_error err;
        if (repository_read(argv[i], &settings, &err) < 0)
            return cli_usage_error(options->command, "%.100s: %.300s", argv[i], err.text);
    }
    log_set_level(level);
    log_set_format(format);
    struct rlimit space;
    if (settings.isolated < 0 && getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        log_warn("the address space is limited, and counts whole, however little of it is used",
                 "mib=%llu instead=\"ulimit -v unlimited\"", (unsigned long long)(space.rlim_cur >> 20));
    temporary_folders_sweep();
    if (settings.isolated >= 0 && !isolated_begin(&settings))
        return cli_usage_error(options->command, "--isolated: it was not started by 'symphony serve --isolate'");
    if (role == LINK_NONE)
        isolate_choose(&settings);
    return settings.isolate == ISOLATE_ON ? serve_isolated(options->command, &settings)
                                          : serve(options->command, role, &settings);
}
