/* scheduler.c - `symphony scheduler`: decides for a cluster which requests run together, when and where. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/serving.h"
#include "control/repository_control.h"

static const struct option_row rows[] = {
    OPTION_HEADING("The cluster (docs/cluster.md)"),
    OPTION_TEXT(struct serve_settings, listen, "listen", "HOST:PORT", "where members join; port 0: any free one"),
    OPTION_TEXT(struct serve_settings, peers, "peers", "HOST:PORT,...",
                "all schedulers of the cluster, this one included, in the same order for each: the first that lives "
                "leads, the others stand by"),
    OPTION_TEXT(struct serve_settings, registry, "registry", "etcd://HOST:PORT[,...]/NAME",
                "etcd, which knows the cluster of that name and who leads it: instead of --peers"),
    OPTION_TEXT(
        struct serve_settings, advertise, "advertise", "HOST:PORT",
        "where others reach this scheduler, if --listen does not say it: one of --peers, or what the registry is "
        "told"),
    OPTION_TEXT(struct serve_settings, cluster_token_file, "cluster-token-file", "FILE",
                "members show the first of the tokens in this file, one a line, and take any of them; SIGHUP reads it "
                "again; without it everybody may join"),
    OPTION_TEXT(struct serve_settings, name, "name", "NAME", "what people see of this process; without it HOST.PID"),
    OPTION_DOUBLE(struct serve_settings, heartbeat_ms, "heartbeat-ms", "MS", 1, 60000,
                  "who has been silent for three of these is taken for dead"),
    OPTION_INT(struct serve_settings, accelerators_max, "accelerators-max", "N", 1, 65536,
               "accelerators of all backends together; those of a backend beyond that are refused"),
    OPTION_INT(struct serve_settings, max_models, "max-models", "N", 1, CONTROL_MODELS_MOST,
               "models of all backends together"),
    OPTION_HEADING("Scheduling"),
    OPTION_TEXT(struct serve_settings, policy, "policy", "NAME[:KEY=VALUE,...]",
                "scheduling policy and its options, as docs/scheduling.md lists them, e.g. deferred:consolidate=true"),
    OPTION_FLAG(struct serve_settings, no_learn, "no-learn",
                "keep profiles as measured; do not correct them while running"),
    OPTION_INT(struct serve_settings, model_threads, "model-threads", "N", 1, 64, "threads that hold the queues"),
    OPTION_INT(struct serve_settings, rank_threads, "rank-threads", "K", 1, RANK_THREADS_MAX,
               "threads that give accelerators to models, each those of its part of the cluster"),
    OPTION_INT(struct serve_settings, queue_max, "queue-max", "N", 1, 10000000,
               "requests queued per model thread; more are answered 503"),
    OPTION_HEADING("Metrics"),
    OPTION_TEXT(struct serve_settings, host, "host", "ADDR", "address of the metrics port"),
    OPTION_INT(struct serve_settings, metrics_port, "metrics-port", "PORT", 0, 65535,
               "Prometheus metrics; 0: any free port"),
    OPTION_FLAG(struct serve_settings, no_metrics, "no-metrics", "no metrics port"),
    OPTION_HEADING("Other"),
    OPTION_TEXT(struct serve_settings, log_level, "log-level", "LEVEL", "debug, info, warn or error"),
    OPTION_END,
};

static const struct options options = {
    .command = "scheduler",
    .usage = "--listen HOST:PORT [OPTION]...",
    .intro =
        "Decides for the frontends and backends that join it; it never sees the data of a request. SIGTERM ends it.",
    .notes = "Example:\n"
             "  symphony scheduler --listen :7700 --policy deferred",
    .rows = rows,
};

static int scheduler_run(int argc, char **argv) {
    struct serve_settings settings = serve_defaults;
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);
    return status != OPTIONS_GO_ON ? status : serving_run("scheduler", LINK_SCHEDULER, &settings);
}

const struct cli_command cli_scheduler = {
    .name = "scheduler",
    .summary = "decides for a cluster which requests run together, when and where",
    .run = scheduler_run,
};
