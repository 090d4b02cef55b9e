/* serving_rows.h - rows of options that several commands have in their tables of options (serving.h). */
#pragma once

#include "server/commands/options.h"
#include "server/commands/serving.h"

#define SERVING_ROWS_SOURCE                                                                                            \
    OPTION_PARSED("repository", "DIR", repository_read,                                                                \
                  "model repository as Triton lays it out, a folder of .onnx files, or one .onnx file; may be given "  \
                  "several times, and without the option's name"),                                                     \
        OPTION_PARSED("model-repository", "DIR", repository_read, "the same, by Triton's name"),                       \
        OPTION_TEXT(struct serve_settings, model_name, "model-name", "NAME",                                           \
                    "the name of the model, where --repository is or has one model only"),                             \
        OPTION_TEXT(struct serve_settings, op_library_dir, "op-library-dir", "DIR",                                    \
                    "where libraries with models' own operators may lie, beside the models' folders"),                 \
        OPTION_TEXT(struct serve_settings, scenario, "scenario", "FILE",                                               \
                    "the emulated cluster and models of a scenario file, live")

#define SERVING_ROWS_CONTROL                                                                                           \
    OPTION_CHOICE(                                                                                                     \
        struct serve_settings, control_mode, "model-control-mode", "none|poll|explicit",                               \
        "none: the models that are there at the start; poll: those that the repository holds, which is looked "        \
        "at again and again; explicit: those that clients load"),                                                      \
        OPTION_PARSED("load-model", "NAME", load_model_read,                                                           \
                      "with explicit: a model to load at the start, or * for all; may be given several times"),        \
        OPTION_DOUBLE(struct serve_settings, poll_secs, "repository-poll-secs", "S", 0.1, 86400,                       \
                      "with poll or explicit: how often to look at the repository"),                                   \
        OPTION_INT(struct serve_settings, max_models, "max-models", "N", 1, CONTROL_MODELS_MOST,                       \
                   "with poll or explicit: models loaded at once; a load beyond that is refused")

#define SERVING_ROWS_ACCELERATORS                                                                                      \
    OPTION_TEXT(                                                                                                       \
        struct serve_settings, accelerators, "accelerators", "LIST",                                                   \
        "cpu:N | cuda:N | emulated:N, each with :TYPE, a name for its type, if it is to have another than its kind, "  \
        "separated by commas; without it cpu, one less than the cores, at least 1"),                                   \
        OPTION_TEXT(                                                                                                   \
            struct serve_settings, pin, "pin", "CORES",                                                                \
            "cores for the executors, e.g. 1-3: the n-th executor is pinned to the n-th (CPU executors are pinned "    \
            "to the last cores without it); 'none' pins nothing"),                                                     \
        OPTION_DOUBLE(                                                                                                 \
            struct serve_settings, spin, "spin", "X", 0, 1000,                                                         \
            "CPU executors with a core of their own look for the next batch for X times what the last one took "       \
            "before they sleep: a core that halts runs slower when it wakes"),                                         \
        OPTION_DOUBLE(                                                                                                 \
            struct serve_settings, run_limit_s, "run-limit", "S", 0.1, 86400,                                          \
            "a batch that runs for longer than this, and than 20 times what its profile says, is stopped; one "        \
            "that does not stop within 5 s more takes its accelerator out of service"),                                \
        OPTION_INT(struct serve_settings, timeline_mib, "timeline-mib", "MIB", 0, 65536,                               \
                   "memory for what accelerators did lately, 32 bytes a batch (docs/observe.md); 0: none"),            \
        OPTION_INT(struct serve_settings, run_memory_mib, "run-memory-max-mib", "MIB", 0, 1073741824,                  \
                   "host memory that runs may take, all together, until their outputs are sent; a run that needs "     \
                   "more fails; 0: any"),                                                                              \
        OPTION_FLAG(struct serve_settings, busy_poll, "busy-poll", "threads spin instead of sleeping")

#define SERVING_ROWS_MEMORY                                                                                            \
    OPTION_INT(                                                                                                        \
        struct serve_settings, memory_mib, "memory-mib", "MIB", 0, 1073741824,                                         \
        "memory for models of each CPU or emulated accelerator: models are loaded and unloaded as they are asked "     \
        "for; 0: what the scenario says, or else enough for all models"),                                              \
        OPTION_CHOICE(struct serve_settings, resident, "resident", "auto|all|demand",                                  \
                      "whether every model is loaded at the start, for good, or when it is asked for, as far as "      \
                      "--memory-mib allows, or three quarters of the machine's memory; auto: all, or demand with "     \
                      "--memory-mib")

#define SERVING_ROWS_SCHEDULER                                                                                         \
    OPTION_TEXT(                                                                                                       \
        struct serve_settings, policy, "policy", "NAME[:KEY=VALUE,...]",                                               \
        "scheduling policy and its options, as docs/scheduling.md lists them, e.g. deferred:consolidate=true"),        \
        OPTION_FLAG(struct serve_settings, no_learn, "no-learn",                                                       \
                    "keep profiles as measured; do not correct them while running"),                                   \
        OPTION_INT(struct serve_settings, model_threads, "model-threads", "N", 1, 64, "threads that hold the queues"), \
        OPTION_INT(struct serve_settings, rank_threads, "rank-threads", "K", 1, RANK_THREADS_MAX,                      \
                   "threads that give accelerators to models, each those of its sub-cluster"),                         \
        OPTION_INT(struct serve_settings, queue_max, "queue-max", "N", 1, 10000000,                                    \
                   "requests queued per model thread; more are answered 503"),                                         \
        OPTION_INT(struct serve_settings, record_mib, "record-mib", "MIB", 0, 65536,                                   \
                   "memory for the last requests' arrivals, 16 bytes each, for 'symphony whatif'; 0: none"),           \
        OPTION_TEXT(struct serve_settings, decisions, "record-decisions", "DIR",                                       \
                    "log every step of the scheduler's cores into files there, for 'symphony whatif --check DIR'"),    \
        OPTION_INT(struct serve_settings, decisions_mib, "record-decisions-mib", "MIB", 1, 65536,                      \
                   "size of each of these files, one a thread; when it is full no more is logged")

#define SERVING_ROWS_AUTOSCALE                                                                                         \
    OPTION_TEXT(                                                                                                       \
        struct serve_settings, autoscale, "autoscale", "KEY=VALUE,...",                                                \
        "how advice for autoscalers is made (docs/serve.md): min, max, headroom, every_s, start_delay_s, e.g. "        \
        "min=1,max=8")

#define SERVING_ROWS_PREPARE                                                                                           \
    OPTION_INT(struct serve_settings, prepare_threads, "prepare-threads", "N", 1, 256,                                 \
               "threads that prepare inputs while their requests wait, for models that ask for it "                    \
               "(docs/model-repository.md)")

#define SERVING_ROWS_METRICS                                                                                           \
    OPTION_INT(struct serve_settings, metrics_port, "metrics-port", "PORT", 0, 65535,                                  \
               "Prometheus metrics; 0: any free port"),                                                                \
        OPTION_FLAG(struct serve_settings, no_metrics, "no-metrics", "no metrics port")

#define SERVING_ROWS_LISTENING                                                                                         \
    OPTION_TEXT(struct serve_settings, host, "host", "ADDR", "address to listen on"),                                  \
        OPTION_INT(struct serve_settings, http_port, "http-port", "PORT", 0, 65535, "HTTP; 0: any free port"),         \
        OPTION_INT(struct serve_settings, grpc_port, "grpc-port", "PORT", 0, 65535, "gRPC; 0: any free port"),         \
        OPTION_FLAG(struct serve_settings, no_grpc, "no-grpc", "no gRPC port"),                                        \
        OPTION_FLAG(struct serve_settings, shared_memory, "shared-memory",                                             \
                    "clients over loopback may name shared memory of the server's user as the place of tensors"),      \
        OPTION_TEXT(struct serve_settings, shared_memory_prefix, "shared-memory-prefix", "PREFIX",                     \
                    "the same, but only where the key (the object's name) begins so"),                                 \
        OPTION_TEXT(struct serve_settings, server_name, "server-name", "NAME",                                         \
                    "the name in the server's metadata; clients that insist on Triton want triton"),                   \
        OPTION_INT(struct serve_settings, trails, "trails", "N", 0, 1000000,                                           \
                   "trails of requests that each frontend keeps of those refused, failed, late and in time, 152 "      \
                   "bytes each (docs/observe.md); 0: none"),                                                           \
        OPTION_INT(struct serve_settings, trails_every, "trails-every", "N", 0, 1000000,                               \
                   "one in N requests in time leaves a trail; 0: none"),                                               \
        OPTION_TEXT(struct serve_settings, access_log, "access-log", "FILE|-",                                         \
                    "append each trail to this file, or write it to standard output: a JSON object a line; SIGHUP "    \
                    "opens the file anew"),                                                                            \
        OPTION_TEXT(struct serve_settings, otlp, "otlp", "URL",                                                        \
                    "send the trails as spans to an OpenTelemetry collector: OTLP over HTTP at http://HOST:4318"),     \
        OPTION_TEXT(struct serve_settings, trace_file, "trace-file", "FILE",                                           \
                    "let clients have traces of requests written to this file, by Triton's trace settings"),           \
        OPTION_CHOICE(struct serve_settings, grpc_compression, "grpc-infer-response-compression-level",                \
                      "none|low|medium|high",                                                                          \
                      "how much gRPC's inference answers are compressed, for clients that take gzip or deflate"),      \
        OPTION_PARSED("frontends", "auto|N", frontends_read,                                                           \
                      "threads that speak HTTP, and as many that speak gRPC: auto, or 1 to 64. auto: the cores that "  \
                      "the scheduler's threads and CPU accelerators leave, at least 1, and no more than leave each "   \
                      "room for four of the largest bodies (default: auto)")

#define SERVING_ROWS_SECURITY                                                                                          \
    OPTION_HEADING("Security (docs/security.md)"),                                                                     \
        OPTION_TEXT(                                                                                                   \
            struct serve_settings, tls_cert, "tls-cert", "FILE",                                                       \
            "HTTP and gRPC speak TLS with this certificate (PEM; the server's first, then those that signed it); "     \
            "SIGHUP reads it again"),                                                                                  \
        OPTION_TEXT(struct serve_settings, tls_key, "tls-key", "FILE", "its private key (PEM)"),                       \
        OPTION_TEXT(struct serve_settings, tls_client_ca, "tls-client-ca", "FILE",                                     \
                    "clients need a certificate that one of these signed (PEM)"),                                      \
        OPTION_FLAG(struct serve_settings, tls_metrics, "tls-metrics", "the metrics port speaks TLS, too"),            \
        OPTION_TEXT(                                                                                                   \
            struct serve_settings, token_file, "auth-token-file", "FILE",                                              \
            "every request needs one of the tokens in this file, one a line, but those for whether the server lives "  \
            "and is ready; SIGHUP reads it again"),                                                                    \
        OPTION_FLAG(struct serve_settings, auth_health, "auth-health", "those need one, too"),                         \
        OPTION_FLAG(struct serve_settings, auth_metrics, "auth-metrics", "so does the metrics port")

#define SERVING_ROWS_CLIENTS                                                                                           \
    OPTION_INT(struct serve_settings, body_mib, "body-max-mib", "MIB", 1, 4096,                                        \
               "largest request body; larger ones are answered 413"),                                                  \
        OPTION_INT(                                                                                                    \
            struct serve_settings, inputs_mib, "inputs-max-mib", "MIB", 1, 1048576,                                    \
            "memory for the inputs of all requests under way, of each protocol; beyond it requests are answered "      \
            "503"),                                                                                                    \
        OPTION_INT(struct serve_settings, answers_mib, "answers-max-mib", "MIB", 1, 1048576,                           \
                   "memory for answers that clients have not taken, of each protocol; beyond it connections end, the " \
                   "slowest first"),                                                                                   \
        OPTION_INT(                                                                                                    \
            struct serve_settings, connections, "connections-max", "N", 1, 1000000,                                    \
            "connections of each port, as far as the limit of open files allows; for more, idle ones are closed"),     \
        OPTION_INT(struct serve_settings, per_address, "connections-per-address", "N", 0, 1000000,                     \
                   "of these from one address; more are closed at once; 0: any"),                                      \
        OPTION_INT(struct serve_settings, idle_s, "idle-timeout", "S", 1, 86400,                                       \
                   "a connection on which nothing happens for so long is closed"),                                     \
        OPTION_INT(struct serve_settings, grpc_age_s, "grpc-max-age", "S", 0, 8640000,                                 \
                   "a gRPC connection this old takes no more calls, so that its client connects again, perhaps to "    \
                   "another frontend; a tenth more or less, by chance; 0: never"),                                     \
        OPTION_INT(struct serve_settings, head_s, "head-timeout", "S", 1, 3600,                                        \
                   "what TLS and the head of a request may take; for how long a body or an answer may be slow"),       \
        OPTION_INT(struct serve_settings, rate_kib, "min-rate-kib", "KIB", 0, 1048576,                                 \
                   "bodies and answers that are slower than so many KiB a second for --head-timeout are given up; "    \
                   "0: any rate will do"),                                                                             \
        OPTION_DOUBLE(struct serve_settings, drain_grace_s, "drain-grace", "S", 0, 3600,                               \
                      "after SIGTERM: how long requests are still taken while readiness fails"),                       \
        OPTION_DOUBLE(struct serve_settings, drain_timeout_s, "drain-timeout", "S", 0, 3600,                           \
                      "after SIGTERM: how long requests in flight may take to finish")

#define SERVING_ROWS_MEMBER                                                                                            \
    OPTION_TEXT(                                                                                                       \
        struct serve_settings, cluster_token_file, "cluster-token-file", "FILE",                                       \
        "members show the first of the tokens in this file, one a line, and take any of them; SIGHUP reads it "        \
        "again; without it everybody may join"),                                                                       \
        OPTION_TEXT(                                                                                                   \
            struct serve_settings, cluster_cert, "cluster-cert", "FILE",                                               \
            "links speak TLS 1.3, and this process shows this certificate (PEM; its own first, then those that "       \
            "signed it); SIGHUP reads it again"),                                                                      \
        OPTION_TEXT(struct serve_settings, cluster_key, "cluster-key", "FILE", "its private key (PEM)"),               \
        OPTION_TEXT(struct serve_settings, cluster_ca, "cluster-ca", "FILE",                                           \
                    "whoever is at the other end of a link needs a certificate that one of these signed (PEM)"),       \
        OPTION_FLAG(struct serve_settings, open_links, "open-links",                                                   \
                    "other machines may connect although there is neither a token nor TLS: whoever reaches the port "  \
                    "may join, "                                                                                       \
                    "and drain"),                                                                                      \
        OPTION_TEXT(struct serve_settings, name, "name", "NAME",                                                       \
                    "what people see of this process; without it HOST.PID"),                                           \
        OPTION_DOUBLE(struct serve_settings, heartbeat_ms, "heartbeat-ms", "MS", 1, 60000,                             \
                      "who has been silent for three of these is taken for dead")

#define SERVING_ROWS_JOIN                                                                                              \
    OPTION_TEXT(struct serve_settings, join, "join", "HOST:PORT[,...]",                                                \
                "the schedulers; the one that leads is found"),                                                        \
        OPTION_TEXT(struct serve_settings, registry, "registry", "etcd://HOST:PORT[,...]/NAME",                        \
                    "etcd, which knows the cluster of that name and who leads it, instead of --join; etcds:// with "   \
                    "TLS"),                                                                                            \
        REGISTRY_OPTIONS(struct serve_settings, registry_files)

#define SERVING_ROWS_LOG                                                                                               \
    OPTION_TEXT(struct serve_settings, log_level, "log-level", "LEVEL", "debug, info, warn or error"),                 \
        OPTION_TEXT(struct serve_settings, log_format, "log-format", "FORMAT", "logfmt, or json: an object a line")
