/* backend.c - `symphony backend`: runs models on the accelerators of one machine for a cluster. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/serving.h"
#include "control/repository_control.h"

static const struct option_row rows[] = {
    OPTION_HEADING("The cluster (docs/cluster.md)"),
    OPTION_TEXT(struct serve_settings, join, "join", "HOST:PORT[,...]", "the schedulers; the one that leads is found"),
    OPTION_TEXT(struct serve_settings, registry, "registry", "etcd://HOST:PORT[,...]/NAME",
                "etcd, which knows the cluster of that name and who leads it, instead of --join"),
    OPTION_TEXT(struct serve_settings, cluster_token_file, "cluster-token-file", "FILE",
                "members show the first of the tokens in this file, one a line, and take any of them; SIGHUP reads it "
                "again; without it everybody may join"),
    OPTION_TEXT(struct serve_settings, name, "name", "NAME", "what people see of this process; without it HOST.PID"),
    OPTION_CHOICE(struct serve_settings, transport, "transport", "auto|tcp",
                  "how inputs come: auto reads those of frontends of this host from their memory; tcp: never"),
    OPTION_DOUBLE(struct serve_settings, heartbeat_ms, "heartbeat-ms", "MS", 1, 60000,
                  "who has been silent for three of these is taken for dead"),
    OPTION_HEADING("What to run (one of)"),
    OPTION_TEXT(struct serve_settings, repository, "repository", "DIR",
                "model repository as Triton lays it out, a folder of .onnx files, or one .onnx file"),
    OPTION_TEXT(struct serve_settings, scenario, "scenario", "FILE",
                "the emulated cluster and models of a scenario file, live"),
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
    OPTION_DOUBLE(struct serve_settings, slo_ms, "slo-ms", "MS", 0.01, 3.6e6,
                  "SLO of models that give none; without it chosen from the model's profile"),
    OPTION_HEADING("Metrics"),
    OPTION_TEXT(struct serve_settings, host, "host", "ADDR", "address of the metrics port"),
    OPTION_INT(struct serve_settings, metrics_port, "metrics-port", "PORT", 0, 65535,
               "Prometheus metrics; 0: any free port"),
    OPTION_FLAG(struct serve_settings, no_metrics, "no-metrics", "no metrics port"),
    OPTION_HEADING("Limits"),
    OPTION_INT(struct serve_settings, inputs_mib, "inputs-max-mib", "MIB", 1, 1048576,
               "memory for the inputs of all batches that are here; requests beyond it go elsewhere"),
    OPTION_DOUBLE(struct serve_settings, drain_timeout_s, "drain-timeout", "S", 0, 3600,
                  "after SIGTERM: how long requests in flight may take to finish"),
    OPTION_TEXT(struct serve_settings, cache_dir, "cache-dir", "DIR",
                "where profiles and optimised models go when a model's own folder cannot be written"),
    OPTION_HEADING("Other"),
    OPTION_TEXT(struct serve_settings, log_level, "log-level", "LEVEL", "debug, info, warn or error"),
    OPTION_END,
};

static const struct options options = {
    .command = "backend",
    .usage = "--join HOST:PORT[,HOST:PORT]... --repository DIR | --scenario FILE [OPTION]...",
    .intro = "Brings its models and accelerators to the cluster that it joins, and runs the batches that the scheduler "
             "sends.\n"
             "Models without a cached profile are profiled first. SIGTERM or SIGINT drains and ends; a second one ends "
             "at once.",
    .notes = "Example:\n"
             "  symphony backend --join scheduler.example:7700 --repository /srv/models --accelerators cpu:4",
    .rows = rows,
};

static int backend_run(int argc, char **argv) {
    struct serve_settings settings = serve_defaults;
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);
    return status != OPTIONS_GO_ON ? status : serving_run("backend", LINK_BACKEND, &settings);
}

const struct cli_command cli_backend = {
    .name = "backend",
    .summary = "runs models on the accelerators of one machine for a cluster",
    .run = backend_run,
};
