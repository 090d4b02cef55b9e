/* triton_options.c - what somebody who knows Triton's options, or those of other model servers, is told. */
#include "server/commands/triton_options.h"

#include <stddef.h>

const struct option_foreign triton_options[] = {
    {"model-store", "here --repository DIR, or --model-repository DIR"},
    {"model_dir", "here --repository DIR, and --model-name NAME if it holds one model"},
    {"http-address|grpc-address|metrics-address", "here --host ADDR, for HTTP, gRPC and metrics"},
    {"allow-http", "here that is always so; leave it out"},
    {"allow-grpc", "here --no-grpc switches gRPC off"},
    {"allow-metrics", "here --no-metrics switches metrics off"},
    {"http-thread-count|grpc-infer-thread-count", "here --frontends N, for HTTP and gRPC"},
    {"grpc-use-ssl*|grpc-server-cert|grpc-server-key|grpc-root-cert",
     "here --tls-cert, --tls-key and --tls-client-ca, for HTTP and gRPC"},
    {"grpc-restricted-protocol|http-restricted-api", "here --auth-token-file FILE, for all but health"},
    {"grpc-max-connection-age", "--grpc-max-age S, in seconds"},
    {"grpc-keepalive-*|grpc-http2-*", "here these limits are fixed; docs/security.md lists them"},
    {"http-max-input-size", "here --body-max-mib MIB, for HTTP and gRPC"},
    {"grpc-infer-allocation-pool-size|grpc-max-response-pool-size|grpc-max-connection-age-grace|"
     "http-header-forward-pattern|grpc-header-forward-pattern|reuse-*|buffer-manager-thread-count|"
     "cuda-memory-pool-byte-size|cuda-virtual-address-size|min-supported-compute-capability|model-load-gpu-limit|"
     "model-load-retry-count|model-namespacing|enable-peer-access|repoagent-directory|allow-cpu-metrics|"
     "allow-gpu-metrics|metrics-config|trace-log-frequency|allow-sagemaker|sagemaker-*|allow-vertex-ai|vertex-ai-*",
     "there is nothing like it here; leave it out"},
    {"exit-timeout-secs", "here --drain-timeout S, and --drain-grace S before it"},
    {"exit-on-error", "here a model that cannot be loaded is set aside with its reason, and the others are served"},
    {"strict-readiness", "here the server is ready once all models that can be served are"},
    {"strict-model-config|disable-auto-complete-config",
     "here config.pbtxt may always be left out or leave out what the model says"},
    {"log-verbose", "here --log-level debug"},
    {"log-info", "here --log-level info"},
    {"log-warning", "here --log-level warn"},
    {"log-error", "here --log-level error"},
    {"log-file", "here the log goes to standard error"},
    {"trace-config|trace-level|trace-rate|trace-count",
     "here --trace-file FILE; clients say what is traced by /v2/trace/setting"},
    {"backend-*", "here ONNX Runtime is the only backend, and is a part of the program"},
    {"id", "here --server-name NAME"},
    {"cache-*", "answers are not cached here; leave it out (--cache-dir is for profiles of models)"},
    {"response-cache-byte-size", "answers are not cached here; leave it out"},
    {"pinned-memory-pool-byte-size", "here --inputs-max-mib MIB bounds the memory for inputs"},
    {"model-load-thread-count", "models are loaded one after the other here; leave it out"},
    {"host-policy", "here --pin CORES says which cores run models"},
    {"rate-limit*", "here each accelerator runs one batch at a time; leave it out"},
    {"metrics-interval-ms", "metrics are as they are when they are asked for; leave it out"},
    /* not Triton's */
    {"port", "here --http-port, --grpc-port and --metrics-port"},
    {"model-path|models", "here PATH without an option's name"},
    {"device", "here --accelerators cpu:N or cuda:N"},
    {"gpus", "here --accelerators cuda:N"},
    {"workers", "here --accelerators cpu:N for the cores that run models, --frontends N for clients"},
    {"batch-size|max-batch-size", "here max_batch in the model's symphony.yaml"},
    {NULL, NULL},
};
