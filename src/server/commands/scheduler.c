/* scheduler.c - `symphony scheduler`: decides for a cluster which requests run together, when and where. */
#include "server/commands/cli.h"
#include "server/commands/serving_rows.h"
#include "server/threads/model_control.h"

static const struct option_row rows[] = {
    OPTION_HEADING("The cluster (docs/cluster.md)"),
    OPTION_TEXT(struct serve_settings, listen, "listen", "HOST:PORT", "where members join; port 0: any free one"),
    OPTION_TEXT(struct serve_settings, peers, "peers", "HOST:PORT,...",
                "all schedulers of the cluster, this one included, in the same order for each: the first that lives "
                "leads, the others stand by"),
    OPTION_TEXT(struct serve_settings, registry, "registry", "etcd://HOST:PORT[,...]/NAME",
                "etcd, which knows the cluster of that name and who leads it: instead of --peers; etcds:// with TLS"),
    REGISTRY_OPTIONS(struct serve_settings, registry_files),
    OPTION_TEXT(
        struct serve_settings, advertise, "advertise", "HOST:PORT",
        "where others reach this scheduler, if --listen does not say it: one of --peers, or what the registry is "
        "told"),
    SERVING_ROWS_MEMBER,
    OPTION_INT(struct serve_settings, accelerators_max, "accelerators-max", "N", 1, 65536,
               "accelerators of all backends together; those of a backend beyond that are refused"),
    OPTION_INT(struct serve_settings, max_models, "max-models", "N", 1, CONTROL_MODELS_MOST,
               "models of all backends together"),
    OPTION_HEADING("Scheduling"),
    SERVING_ROWS_SCHEDULER,
    OPTION_CHOICE(struct serve_settings, resident, "resident", "auto|all|demand",
                  "demand: clockwork and nexus, too, order what backends load whose accelerators have less memory than "
                  "models (--memory-mib); other policies do so by themselves"),
    SERVING_ROWS_AUTOSCALE,
    OPTION_HEADING("Metrics"),
    OPTION_TEXT(struct serve_settings, host, "host", "ADDR", "address of the metrics port"),
    SERVING_ROWS_METRICS,
    OPTION_HEADING("Other"),
    SERVING_ROWS_LOG,
    OPTION_END,
};

static const struct options options = {
    .command = "scheduler",
    .usage = "--listen HOST:PORT [OPTION]...",
    .intro =
        "Decides for the frontends and backends that join it; it never sees the data of a request. SIGTERM ends it.",
    .notes = "Example:\n"
             "  symphony scheduler --listen :7700 --cluster-token-file token --policy deferred",
    .rows = rows,
};

static int scheduler_run(int argc, char **argv) {
    return serving_run(&options, LINK_SCHEDULER, argc, argv);
}

const struct cli_command cli_scheduler = {
    .name = "scheduler",
    .summary = "decides for a cluster which requests run together, when and where",
    .run = scheduler_run,
};
