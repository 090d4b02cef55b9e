/* rollout.c - `symphony rollout`: which version of a model gets the requests that name none. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/membership/rollouts.h"
#include "core/util/decimal.h"
#include "server/commands/cli.h"
#include "server/commands/visitor.h"

struct rollout_settings {
    struct visitor_settings visitor;
    const char *share;
    bool back, newest, json;
};

static const struct option_row rows[] = {
    VISITOR_OPTIONS(struct rollout_settings, visitor),
    OPTION_TEXT(struct rollout_settings, share, "share", "PERCENT",
                "only this part of the requests, such as 10%; the others go to the version that has them now"),
    OPTION_FLAG(struct rollout_settings, back, "back", "all go to the version before"),
    OPTION_FLAG(struct rollout_settings, newest, "newest",
                "nothing is stated any more: they go to the newest version that enough backends have"),
    OPTION_FLAG(struct rollout_settings, json, "json", "what the scheduler says, as it says it"),
    OPTION_END,
};

static const struct options options = {
    .command = "rollout",
    .usage = "--join HOST:PORT[,HOST:PORT]... | --registry URL [OPTION]... MODEL [VERSION]",
    .intro =
        "Says which version of a model gets the requests that name none: one decision for the whole cluster, which\n"
        "outlasts its schedulers. Backends have to have the version; it gets its requests once as many of them have\n"
        "it as have the version before, times the share, and loses them when that is over.",
    .notes = "Examples:\n"
             "  symphony rollout --join scheduler.example:7700 resnet50 2 --share 10%\n"
             "  symphony rollout --join scheduler.example:7700 resnet50 2\n"
             "  symphony rollout --join scheduler.example:7700 resnet50 --back",
    .rows = rows,
    .args_min = 1,
    .args_max = 2,
    .args_name = "MODEL",
};

/* Parts of ROLLOUT_SHARE_ALL, of "10%", "10" or "0.5%"; 0: the text is no such share. */
static uint32_t share_of(const char *text) {
    char *end;
    double percent = strtod(text, &end);
    end += *end == '%';
    return *text >= '0' && *text <= '9' && !*end && percent >= 0.01 && percent <= 100
               ? (uint32_t)lround(percent * ROLLOUT_SHARE_ALL / 100)
               : 0;
}

static int order_of(const struct rollout_settings *settings, int arguments, char **argv, struct rollout_order *order) {
    const char *name = argv[1];
    int64_t version;
    if (settings->back + settings->newest + (arguments > 1) != 1)
        return cli_usage_error("rollout", "give either a version, --back or --newest, for model '%s'", name);
    if (strlen(name) >= MODEL_NAME_MAX)
        return cli_usage_error("rollout", "a model's name has at most %d bytes", MODEL_NAME_MAX - 1);
    *order = (struct rollout_order){.wish = settings->back     ? ROLLOUT_BACK
                                            : settings->newest ? ROLLOUT_NEWEST
                                                               : ROLLOUT_TO,
                                    .share = ROLLOUT_SHARE_ALL};
    strcpy(order->model, name);
    if (arguments == 1)
        return settings->share ? cli_usage_error("rollout", "--share goes with a version") : CLI_OK;
    if (decimal_int(argv[2], 1, UINT32_MAX, &version) < 0)
        return cli_usage_error("rollout", "'%s' is no version: a number from 1 on", argv[2]);
    order->version = (uint32_t)version;
    if (settings->share && !(order->share = share_of(settings->share)))
        return cli_usage_error("rollout", "--share '%s': expected 0.01%% to 100%%", settings->share);
    return CLI_OK;
}

static long long number_of(const json_t *json, const char *name) {
    return (long long)json_integer_value(json_object_get(json, name));
}

static void print(const char *model, const json_t *r) {
    double share = json_number_value(json_object_get(r, "share"));
    long long version = number_of(r, "version"), before = number_of(r, "before");
    if (!json_is_object(r)) {
        printf("model '%s': requests without a version go to the newest one that enough backends have\n", model);
        return;
    }
    printf("model '%s': %.6g %% of the requests without a version go to version %lld", model, share * 100, version);
    if (share < 1 && before)
        printf(", the others to version %lld", before);
    if (!json_is_true(json_object_get(r, "rolls")))
        printf(", once enough backends have it: now %lld, and %lld have version %lld", number_of(r, "backends"),
               number_of(r, "backends_before"), before);
    putchar('\n');
}

static int rollout_run(int argc, char **argv) {
    struct rollout_settings settings = {.visitor = {.timeout_s = 5}};
    struct rollout_order order;
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);
    json_t *answer;
    if (status != OPTIONS_GO_ON)
        return status;
    status = order_of(&settings, arguments, argv, &order);
    if (status != CLI_OK)
        return status;
    char *text = rollout_order_write(&order);
    if (!text) {
        fputs("symphony rollout: out of memory\n", stderr);
        return CLI_FAILURE;
    }
    status = visitor_ask("rollout", &settings.visitor, FRAME_ROLLOUT, text, &answer);
    free(text);
    if (status != CLI_OK)
        return status;
    if (settings.json)
        cli_json_print(json_incref(answer), JSON_REAL_PRECISION(9));
    else
        print(order.model, json_object_get(answer, "rollout"));
    json_decref(answer);
    return CLI_OK;
}

const struct cli_command cli_rollout = {
    .name = "rollout",
    .summary = "which version of a model gets a cluster's requests",
    .run = rollout_run,
};
