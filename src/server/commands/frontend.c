/* frontend.c - `symphony frontend`: takes requests over HTTP and gRPC for a cluster. */
#include "server/commands/cli.h"
#include "server/commands/serving_rows.h"
#include "server/threads/model_control.h"

static const struct option_row rows[] = {
    OPTION_HEADING("The cluster (docs/cluster.md)"),
    SERVING_ROWS_JOIN,
    OPTION_TEXT(struct serve_settings, cluster_host, "cluster-host", "ADDR",
                "address that backends connect to; without it all of this machine"),
    OPTION_INT(struct serve_settings, cluster_port, "cluster-port", "PORT", 0, 65535, "and its port; 0: any free one"),
    OPTION_TEXT(struct serve_settings, advertise, "advertise", "HOST:PORT",
                "where backends find this frontend, if it is not where the scheduler sees it connect from"),
    SERVING_ROWS_MEMBER,
    OPTION_DOUBLE(struct serve_settings, link_wait_s, "link-wait", "S", 0, 86400,
                  "how long requests wait for a scheduler, or for any backend, to be connected; after that they are "
                  "answered 503 at once, and the frontend is not ready"),
    OPTION_TEXT(struct serve_settings, fabric, "fabric", "PROVIDER",
                "backends that have the same provider of libfabric read inputs by it, e.g. verbs"),
    OPTION_INT(struct serve_settings, max_models, "max-models", "N", 1, CONTROL_MODELS_MOST, "models of the cluster"),
    OPTION_HEADING("Listening"),
    SERVING_ROWS_LISTENING,
    SERVING_ROWS_PREPARE,
    SERVING_ROWS_METRICS,
    SERVING_ROWS_SECURITY,
    OPTION_HEADING("Limits"),
    SERVING_ROWS_CLIENTS,
    OPTION_INT(struct serve_settings, outputs_mib, "outputs-max-mib", "MIB", 0, 1073741824,
               "memory for outputs that backends send, until their answers are sent; requests beyond it are answered "
               "500; 0: half of the machine's"),
    OPTION_HEADING("Other"),
    SERVING_ROWS_LOG,
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
             "  symphony frontend --join scheduler.example:7700 --cluster-token-file token --http-port 8000",
    .rows = rows,
};

static int frontend_run(int argc, char **argv) {
    return serving_run(&options, LINK_FRONTEND, argc, argv);
}

const struct cli_command cli_frontend = {
    .name = "frontend",
    .summary = "takes requests over HTTP and gRPC for a cluster",
    .run = frontend_run,
};
