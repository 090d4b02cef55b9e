/* serve.c - `symphony serve`: frontends, scheduler and local accelerators in one process. */
#include "backend/executor.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/serving.h"
#include "control/repository_control.h"

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

static int serve_run(int argc, char **argv) {
    struct serve_settings settings = serve_defaults;
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);
    return status != OPTIONS_GO_ON ? status : serving_run("serve", LINK_NONE, &settings);
}

const struct cli_command cli_serve = {
    .name = "serve",
    .summary = "serves models under latency SLOs",
    .run = serve_run,
};
