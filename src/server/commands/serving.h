/* serving.h - what the commands that serve have in common: the settings, and the life of a server from its settings to
 * its end. */
#pragma once

#include "model/repository/repositories.h"
#include "sched/threads/wiring.h"
#include "server/commands/options.h"
#include "server/commands/registry_option.h"

#define LOAD_MODELS_MAX 1024

struct running;

enum resident { RESIDENT_AUTO, RESIDENT_ALL, RESIDENT_DEMAND };
enum isolate { ISOLATE_AUTO, ISOLATE_OFF, ISOLATE_ON };

struct serve_settings {
    const char *repositories[REPOSITORIES_MAX];
    uint32_t repository_count;
    const char *model_name;     /* name of the one model that is served; NULL: all of the repositories */
    const char *op_library_dir; /* folder with libraries of operators, for all models; NULL: none */
    const char *scenario, *accelerators, *policy, *host, *pin, *log_level, *log_format, *access_log, *otlp, *trace_file,
        *cache_dir, *tls_cert, *tls_key, *tls_client_ca, *token_file, *server_name, *autoscale, *decisions,
        *shared_memory_prefix;
    int64_t frontends; /* frontend threads of each protocol; 0: as many as the cores allow */
    int64_t http_port, grpc_port, metrics_port, model_threads, rank_threads, epoch_s, prepare_threads, queue_max,
        record_mib, decisions_mib, body_mib, inputs_mib, answers_mib, outputs_mib, run_memory_mib, memory_mib,
        connections, per_address, idle_s, grpc_age_s, head_s, rate_kib, trails, trails_every, timeline_mib;
    int control_mode;   /* enum control_mode */
    int resident;       /* enum resident */
    int share_prefixes; /* 1: models may share their first layers; 0: not */
    bool accelerator_control;
    const char *load_models[LOAD_MODELS_MAX];
    uint32_t load_model_count;
    int64_t max_models;
    double poll_secs;
    double slo_ms, rank_rate_max, run_limit_s, spin, drain_grace_s, drain_timeout_s;
    int grpc_compression;
    /* settings of a process that is one role of a cluster */
    const char *join, *peers, *registry, *listen, *advertise, *cluster_host, *cluster_token_file, *cluster_cert,
        *cluster_key, *cluster_ca, *name, *fabric;
    struct registry_files registry_files;
    int64_t cluster_port, accelerators_max;
    int isolate;             /* enum isolate; ISOLATE_AUTO until serving_run() has decided */
    bool isolate_said;       /* whether the log says what serving_run() has decided */
    const char *isolate_not; /* reason why it is off although clients may send models; NULL: none */
    int transport;           /* transport of inputs: 1 + enum transport_kind; 0: the best there is */
    double heartbeat_ms, link_wait_s;
    int64_t isolated, isolated_device; /* number and device of a child of `serve --isolate`; -1: not a child */
    struct running *running;           /* memory in which a child of `serve --isolate` says what it runs; else NULL */
    bool busy_poll, no_learn, no_grpc, no_metrics, shared_memory, auth_health, auth_metrics, tls_metrics, open_links;
};

/* Reads an option --repository: one more repository. */
int repository_read(const char *text, void *settings, struct sy_error *err);
/* Reads an option --load-model: one more model. */
int load_model_read(const char *text, void *settings, struct sy_error *err);
/* Reads the option --frontends. */
int frontends_read(const char *text, void *settings, struct sy_error *err);
/* Reads the options, whose rows set serve_settings, and serves until a signal ends the server. Returns the exit status.
 */
int serving_run(const struct options *options, enum wiring_link role, int argc, char **argv);
