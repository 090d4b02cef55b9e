/* frontend.c - `symphony frontend`: takes requests over HTTP and gRPC for a cluster. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/serving.h"
#include "control/repository_control.h"

static const struct option_row rows[] = {
    OPTION_HEADING("The cluster (docs/cluster.md)"),
    OPTION_TEXT(struct serve_settings, join, "join", "HOST:PORT[,...]", "the schedulers; the one that leads is found"),
    OPTION_TEXT(struct serve_settings, registry, "registry", "etcd://HOST:PORT[,...]/NAME",
                "etcd, which knows the cluster of that name and who leads it, instead of --join"),
    OPTION_TEXT(struct serve_settings, cluster_host, "cluster-host", "ADDR", "address that backends connect to"),
    OPTION_INT(struct serve_settings, cluster_port, "cluster-port", "PORT", 0, 65535, "and its port; 0: any free one"),
    OPTION_TEXT(struct serve_settings, advertise, "advertise", "HOST:PORT",
                "where backends find this frontend, if it is not where the scheduler sees it connect from"),
    OPTION_TEXT(struct serve_settings, cluster_token_file, "cluster-token-file", "FILE",
                "members show the first of the tokens in this file, one a line, and take any of them; SIGHUP reads it "
                "again; without it everybody may join"),
    OPTION_TEXT(struct serve_settings, name, "name", "NAME", "what people see of this process; without it HOST.PID"),
    OPTION_DOUBLE(struct serve_settings, heartbeat_ms, "heartbeat-ms", "MS", 1, 60000,
                  "who has been silent for three of these is taken for dead"),
    OPTION_INT(struct serve_settings, max_models, "max-models", "N", 1, CONTROL_MODELS_MOST, "models of the cluster"),
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
    OPTION_INT(struct serve_settings, frontends, "frontends", "N", 1, 64,
               "threads that speak HTTP, and as many that speak gRPC"),
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
    OPTION_TEXT(struct serve_settings, log_level, "log-level", "LEVEL", "debug, info, warn or error"),
    OPTION_END,
};

static const struct options options = {
    .command = "frontend",
    .usage = "--join HOST:PORT[,HOST:PORT]... [OPTION]...",
    .intro = "Takes requests over the Open Inference Protocol (v2, HTTP/1.1 and gRPC) for the models of the cluster "
             "that it joins,\n"
             "and answers them. It is ready once there is a model to serve. SIGTERM or SIGINT drains and ends; a "
             "second one\n"
             "ends at once.",
    .notes = "Example:\n"
             "  symphony frontend --join scheduler.example:7700 --http-port 8000",
    .rows = rows,
};

static int frontend_run(int argc, char **argv) {
    struct serve_settings settings = serve_defaults;
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);
    return status != OPTIONS_GO_ON ? status : serving_run("frontend", LINK_FRONTEND, &settings);
}

const struct cli_command cli_frontend = {
    .name = "frontend",
    .summary = "takes requests over HTTP and gRPC for a cluster",
    .run = frontend_run,
};
