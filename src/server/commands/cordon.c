/* cordon.c - `symphony cordon` and `uncordon`: a backend gets no more batches, and stays; or gets some again. */
#include "server/commands/cli.h"
#include "server/commands/visitor.h"

struct cordon_settings {
    struct visitor_settings visitor;
};

static const struct option_row rows[] = {
    VISITOR_OPTIONS(struct cordon_settings, visitor),
    OPTION_END,
};

static const struct options cordon_options = {
    .command = "cordon",
    .usage = "--join HOST:PORT[,HOST:PORT]... | --registry URL [OPTION]... BACKEND",
    .intro = "Has a backend, named by its number or name as 'symphony status' shows them, get no more batches: it ends "
             "what it\n"
             "has, and stays in the cluster, with its models loaded, until 'symphony uncordon' or its process ends.",
    .notes = "Example:\n"
             "  symphony cordon --join scheduler.example:7700 backend-3",
    .rows = rows,
    .args_min = 1,
    .args_max = 1,
    .args_name = "BACKEND",
};

static const struct options uncordon_options = {
    .command = "uncordon",
    .usage = "--join HOST:PORT[,HOST:PORT]... | --registry URL [OPTION]... BACKEND",
    .intro = "Has a backend that 'symphony cordon' has named get batches again.",
    .notes = "Example:\n"
             "  symphony uncordon --join scheduler.example:7700 backend-3",
    .rows = rows,
    .args_min = 1,
    .args_max = 1,
    .args_name = "BACKEND",
};

static int ask(const struct options *options, enum frame_kind kind, int argc, char **argv) {
    struct cordon_settings settings = {.visitor = {.timeout_s = 5}};
    int arguments, status = options_parse(options, argc, argv, &settings, &arguments);
    json_t *member;
    if (status != OPTIONS_GO_ON)
        return status;
    status = visitor_ask(options->command, &settings.visitor, kind, argv[1], &member);
    if (status == CLI_OK)
        json_decref(member);
    return status;
}

static int cordon_run(int argc, char **argv) {
    return ask(&cordon_options, FRAME_CORDON, argc, argv);
}

static int uncordon_run(int argc, char **argv) {
    return ask(&uncordon_options, FRAME_UNCORDON, argc, argv);
}

const struct cli_command cli_cordon = {
    .name = "cordon",
    .summary = "has a backend of a cluster get no more batches, and stay",
    .run = cordon_run,
};

const struct cli_command cli_uncordon = {
    .name = "uncordon",
    .summary = "has a cordoned backend get batches again",
    .run = uncordon_run,
};
