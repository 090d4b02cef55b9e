/* drain.c - `symphony drain`: has a member of a cluster end what it has, and leave. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cli/visitor.h"

#define LOOK_NS (100 * NS_PER_MS)

struct drain_settings {
    struct visitor_settings visitor;
    bool wait;
};

static const struct option_row rows[] = {
    VISITOR_OPTIONS(struct drain_settings, visitor),
    OPTION_FLAG(struct drain_settings, wait, "wait", "return when it has left"),
    OPTION_END,
};

static const struct options options = {
    .command = "drain",
    .usage = "--join HOST:PORT[,HOST:PORT]... | --registry URL [OPTION]... MEMBER",
    .intro =
        "Asks a frontend or a backend, by its number or name as 'symphony status' shows them, to end as on SIGTERM:\n"
        "it takes nothing new, ends what it has, leaves the cluster, and its process ends.",
    .notes = "Example:\n"
             "  symphony drain --join scheduler.example:7700 --wait backend-3",
    .rows = rows,
    .args_min = 1,
    .args_max = 1,
    .args_name = "MEMBER",
};

/* Whether this incarnation belongs to the cluster still. The exit status. */
static int is_there(const struct drain_settings *settings, const char *incarnation, bool *there) {
    json_t *answer, *member;
    size_t i;
    int status = visitor_ask("drain", &settings->visitor, FRAME_STATUS, "", &answer);
    if (status != CLI_OK)
        return status;
    *there = false;
    json_array_foreach(json_object_get(answer, "members"), i, member) {
        const char *one = json_string_value(json_object_get(member, "incarnation"));
        *there |= one && strcmp(one, incarnation) == 0;
    }
    json_decref(answer);
    return CLI_OK;
}

static int drain_run(int argc, char **argv) {
    struct drain_settings settings = {.visitor = {.timeout_s = 5}};
    const struct timespec a_little = {.tv_nsec = LOOK_NS};
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);
    json_t *member;
    if (status != OPTIONS_GO_ON)
        return status;
    status = visitor_ask("drain", &settings.visitor, FRAME_DRAIN, argv[1], &member);
    if (status != CLI_OK)
        return status;
    const char *incarnation = json_string_value(json_object_get(member, "incarnation"));
    bool there = settings.wait && incarnation;
    while (there && (status = is_there(&settings, incarnation, &there)) == CLI_OK && there)
        nanosleep(&a_little, NULL);
    json_decref(member);
    return status;
}

const struct cli_command cli_drain = {
    .name = "drain",
    .summary = "has a member of a cluster end what it has, and leave",
    .run = drain_run,
};
