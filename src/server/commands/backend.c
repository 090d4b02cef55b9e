/* backend.c - `symphony backend`: runs models on the accelerators of one machine for a cluster. */
#include "server/commands/cli.h"
#include "server/commands/serving_rows.h"
#include "server/threads/model_control.h"

static const struct option_row rows[] = {
    OPTION_HEADING("The cluster (docs/cluster.md)"),
    SERVING_ROWS_JOIN,
    SERVING_ROWS_MEMBER,
    OPTION_CHOICE(struct serve_settings, transport, "transport", "auto|shm|fabric|tcp",
                  "how inputs come; auto: by the first of the others that the frontend has, too"),
    OPTION_TEXT(struct serve_settings, fabric, "fabric", "PROVIDER",
                "inputs may be read by libfabric, of frontends that have the same provider, e.g. verbs"),
    OPTION_HEADING("What to run (one of)"),
    SERVING_ROWS_SOURCE,
    SERVING_ROWS_CONTROL,
    OPTION_HEADING("On what"),
    SERVING_ROWS_ACCELERATORS,
    SERVING_ROWS_MEMORY,
    OPTION_DOUBLE(struct serve_settings, slo_ms, "slo-ms", "MS", 0.001, 3.6e6,
                  "SLO of models that give none; without it chosen from the model's profile"),
    OPTION_HEADING("Metrics"),
    OPTION_TEXT(struct serve_settings, host, "host", "ADDR", "address of the metrics port"),
    SERVING_ROWS_METRICS,
    OPTION_TEXT(
        struct serve_settings, token_file, "auth-token-file", "FILE",
        "orders to load and unload models, which the metrics port takes with --model-control-mode explicit, need "
        "one of the tokens in this file, one a line; SIGHUP reads it again"),
    OPTION_FLAG(struct serve_settings, auth_metrics, "auth-metrics", "so do the metrics"),
    OPTION_HEADING("Limits"),
    OPTION_INT(struct serve_settings, inputs_mib, "inputs-max-mib", "MIB", 1, 1048576,
               "memory for the inputs of all batches that are here; requests beyond it go elsewhere"),
    OPTION_DOUBLE(struct serve_settings, drain_timeout_s, "drain-timeout", "S", 0, 3600,
                  "after SIGTERM: how long requests in flight may take to finish"),
    OPTION_TEXT(struct serve_settings, cache_dir, "cache-dir", "DIR",
                "where profiles and optimised models go when a model's own folder cannot be written"),
    OPTION_HEADING("Other"),
    OPTION_INT(struct serve_settings, isolated, "isolated", "N", 0, 65535,
               "given by 'symphony serve --isolate' to the backends that it starts: the number of this one"),
    OPTION_INT(struct serve_settings, isolated_device, "isolated-device", "N", 0, 65535, "likewise: its GPU"),
    SERVING_ROWS_LOG,
    OPTION_END,
};

static const struct options options = {
    .command = "backend",
    .usage = "--join HOST:PORT[,HOST:PORT]... --repository DIR | --scenario FILE [OPTION]...",
    .intro = "Brings its models and accelerators to the cluster that it joins, and runs the batches that the scheduler "
             "sends.\n"
             "Joins at once, and announces each model as soon as it is prepared; those without a cached profile are\n"
             "profiled. SIGTERM or SIGINT drains and ends; a second one ends at once.",
    .notes = "Example:\n"
             "  symphony backend --join scheduler.example:7700 --repository /srv/models --accelerators cpu:4",
    .rows = rows,
};

static int backend_run(int argc, char **argv) {
    return serving_run(&options, LINK_BACKEND, argc, argv);
}

const struct cli_command cli_backend = {
    .name = "backend",
    .summary = "runs models on the accelerators of one machine for a cluster",
    .run = backend_run,
};
