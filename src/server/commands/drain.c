/* drain.c - `symphony drain`: lets a member of a cluster finish its requests, and leave. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/time.h"
#include "server/commands/cli.h"
#include "server/commands/visitor.h"

#define LOOK_NS (100 * NS_PER_MS)
/* Time in addition to --timeout, in which another scheduler may take over and members join it. */
#define PATIENCE_NS (5 * NS_PER_S)

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

enum presence { GONE, THERE, UNKNOWN };

/* Whether this incarnation still belongs to the cluster. THERE also while the scheduler has just begun to lead, since
 * members may not have joined it yet. UNKNOWN: no scheduler leads now. */
static enum presence presence_of(const char *incarnation, const json_t *answer) {
    const json_t *scheduler = json_object_get(answer, "scheduler");
    json_t *member;
    size_t i;
    json_array_foreach(json_object_get(answer, "members"), i, member) {
        const char *one = json_string_value(json_object_get(member, "incarnation"));
        if (one && strcmp(one, incarnation) == 0)
            return THERE;
    }
    if (!json_is_true(json_object_get(scheduler, "leads")))
        return UNKNOWN;
    return json_is_false(json_object_get(scheduler, "settled")) ? THERE : GONE;
}

/* Waits until the member has left. Returns the exit status. */
static int wait_for(const struct drain_settings *settings, const char *incarnation) {
    int64_t patience_ns = (int64_t)(settings->visitor.timeout_s * (double)NS_PER_S) + PATIENCE_NS;
    for (int64_t known_ns = clock_now_ns();;) {
        bool late = clock_now_ns() > known_ns + patience_ns;
        json_t *answer;
        int status = visitor_ask(late ? "drain" : NULL, &settings->visitor, FRAME_STATUS, "", &answer);
        enum presence presence = status == CLI_OK ? presence_of(incarnation, answer) : UNKNOWN;
        if (status == CLI_OK)
            json_decref(answer);
        if (presence == GONE)
            return CLI_OK;
        if (presence == THERE)
            known_ns = clock_now_ns();
        else if (late && status == CLI_OK)
            fprintf(stderr, "symphony drain: no scheduler leads\n");
        if (presence == UNKNOWN && late)
            return status == CLI_OK ? CLI_FAILURE : status;
        clock_sleep(LOOK_NS);
    }
}

static int drain_run(int argc, char **argv) {
    struct drain_settings settings = {.visitor = {.timeout_s = 5}};
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);
    json_t *member;
    if (status != OPTIONS_GO_ON)
        return status;
    status = visitor_ask("drain", &settings.visitor, FRAME_DRAIN, argv[1], &member);
    if (status != CLI_OK)
        return status;
    const char *incarnation = json_string_value(json_object_get(member, "incarnation"));
    if (settings.wait && incarnation)
        status = wait_for(&settings, incarnation);
    json_decref(member);
    return status;
}

const struct cli_command cli_drain = {
    .name = "drain",
    .summary = "has a member of a cluster end what it has, and leave",
    .run = drain_run,
};
