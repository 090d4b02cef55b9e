/* serve.c - `symphony serve`: frontends, scheduler and local accelerators in one process. */
#include "server/commands/cli.h"
#include "server/commands/serving_rows.h"
#include "server/commands/triton_options.h"
#include "server/threads/model_control.h"

static const struct option_row rows[] = {
    OPTION_HEADING("What to serve (one of)"),
    SERVING_ROWS_SOURCE,
    SERVING_ROWS_CONTROL,
    OPTION_CHOICE(
        struct serve_settings, share_prefixes, "share-prefixes", "off|on",
        "whether models that begin with the same layers are looked for, when the server starts, and have these "
        "loaded and run once for all of them (docs/prefixes.md)"),
    OPTION_HEADING("On what"),
    SERVING_ROWS_ACCELERATORS,
    SERVING_ROWS_MEMORY,
    OPTION_FLAG(
        struct serve_settings, accelerator_control, "accelerator-control",
        "clients may drain accelerators and have them join; with --model-control-mode explicit they always may"),
    OPTION_CHOICE(
        struct serve_settings, isolate, "isolate", "auto|off|on",
        "whether each accelerator has a process of its own, so that a model that crashes ends only that, which "
        "is started again at once (docs/serve.md); auto: where clients may send models, with "
        "--model-control-mode explicit"),
    OPTION_HEADING("Scheduling"),
    SERVING_ROWS_SCHEDULER,
    OPTION_INT(struct serve_settings, epoch_s, "epoch", "SECONDS", 0, 86400,
               "how often models may move between rank threads; 0: they stay"),
    OPTION_DOUBLE(struct serve_settings, rank_rate_max, "rank-thread-rate", "R", 0, 1e9,
                  "items/s that a rank thread is to have at most; 0: any"),
    SERVING_ROWS_AUTOSCALE,
    OPTION_DOUBLE(struct serve_settings, slo_ms, "slo-ms", "MS", 0.001, 3.6e6,
                  "SLO of models that give none; without it chosen from the model's profile"),
    OPTION_HEADING("Listening"),
    SERVING_ROWS_LISTENING,
    SERVING_ROWS_PREPARE,
    SERVING_ROWS_METRICS,
    SERVING_ROWS_SECURITY,
    OPTION_HEADING("Limits"),
    SERVING_ROWS_CLIENTS,
    OPTION_HEADING("Other"),
    OPTION_TEXT(struct serve_settings, cache_dir, "cache-dir", "DIR",
                "where profiles and optimised models go when a model's own folder cannot be written"),
    SERVING_ROWS_LOG,
    OPTION_END,
};

static const struct options options = {
    .command = "serve",
    .usage = "PATH... | --scenario FILE [OPTION]...",
    .args_max = -1,
    .intro =
        "Serves models over the Open Inference Protocol (v2, HTTP/1.1 and gRPC) under latency SLOs. Listens at once, "
        "and\n"
        "serves each model as soon as it is prepared; those without a cached profile are profiled. SIGTERM or SIGINT\n"
        "drains and ends; a second one ends at once.",
    .notes = "Examples:\n"
             "  symphony serve model.onnx\n"
             "  symphony serve /srv/models --accelerators cpu:4 --pin 4-7\n"
             "  symphony serve --scenario scenarios/table4-resnet50.yaml --http-port 9000",
    .rows = rows,
    .foreign = triton_options,
};

static int serve_run(int argc, char **argv) {
    return serving_run(&options, LINK_NONE, argc, argv);
}

const struct cli_command cli_serve = {
    .name = "serve",
    .summary = "serves models under latency SLOs",
    .run = serve_run,
};
