/* status.c - `symphony status`: who belongs to a cluster, and what runs there; or what one server does. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/system/log.h"
#include "core/util/container.h"
#include "core/util/text.h"
#include "server/commands/cli.h"
#include "server/commands/metrics_visit.h"
#include "server/commands/visitor.h"

#define COLUMNS_MAX 14
#define CELL_MAX    600 /* bytes of a cell; a reason has 511 */

struct status_settings {
    struct visitor_settings visitor;
    struct metrics_visit_settings visit;
    bool json;
};

static const struct option_row rows[] = {
    VISITOR_OPTIONS(struct status_settings, visitor),
    METRICS_VISIT_OPTIONS(struct status_settings, visit),
    OPTION_FLAG(struct status_settings, json, "json", "all that the scheduler, or the server, says, as it says it"),
    OPTION_END,
};

static const struct options options = {
    .command = "status",
    .usage = "URL | --join HOST:PORT[,HOST:PORT]... | --registry URL [OPTION]...",
    .intro =
        "Asks a cluster's scheduler who belongs to the cluster, how good the links are, and what runs where; or a "
        "server\n"
        "which models and accelerators it has, and how they do (again and again: 'symphony top').\n" METRICS_VISIT_URL,
    .notes = "Examples:\n"
             "  symphony status --join scheduler.example:7700\n"
             "  symphony status localhost:8002",
    .rows = rows,
    .args_max = 1,
    .args_name = "URL",
};

/* ---- tables ---- */

/* A table, which is written twice: the first time finds the widths. */
struct table {
    int widths[COLUMNS_MAX], column, columns;
    bool shown;
};

/* A column: its heading, the place of its values in a row ("totals.requests"), and what writes such a value. */
struct column {
    const char *heading, *place;
    void (*put)(struct table *t, const json_t *value);
};

static void cell(struct table *t, const char *fmt, ...) {
    char text[CELL_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    int length = (int)strlen(text);
    if (t->shown)
        printf("%s%-*s", t->column ? "  " : "", t->column + 1 < t->columns ? t->widths[t->column] : 0,
               *text ? text : "-");
    else if (length > t->widths[t->column])
        t->widths[t->column] = length;
    t->column++;
}

static void row_end(struct table *t) {
    if (t->shown)
        putchar('\n');
    t->column = 0;
}

/* "": the row itself. */
static const json_t *value_at(const json_t *row, const char *place) {
    char name[32];
    while (*place) {
        size_t length = strcspn(place, ".");
        snprintf(name, sizeof(name), "%.*s", (int)length, place);
        row = json_object_get(row, name);
        place += length + (place[length] == '.');
    }
    return row;
}

/* `values`: an array of rows, or the only row. */
static void table_print(const struct column *columns, int count, const json_t *values) {
    struct table table = {.columns = count};
    bool one = !json_is_array(values);
    for (int pass = 0; pass < 2; pass++) {
        table.shown = pass > 0;
        for (int c = 0; c < count; c++)
            cell(&table, "%s", columns[c].heading);
        row_end(&table);
        for (size_t i = 0; i < (one ? 1 : json_array_size(values)); i++) {
            const json_t *row = one ? values : json_array_get(values, i);
            for (int c = 0; c < count; c++)
                columns[c].put(&table, value_at(row, columns[c].place));
            row_end(&table);
        }
    }
}
#define TABLE_PRINT(columns, rows) table_print(columns, (int)ARRAY_COUNT(columns), rows)

/* A further table, if it has rows. */
#define TABLE_PRINT_ANY(columns, rows)                                                                                 \
    do                                                                                                                 \
        if (json_array_size(rows) > 0) {                                                                               \
            putchar('\n');                                                                                             \
            TABLE_PRINT(columns, rows);                                                                                \
        }                                                                                                              \
    while (0)

/* ---- cells; "-": there is no such value ---- */

static void put_text(struct table *t, const json_t *value) {
    cell(t, "%s", json_is_string(value) ? json_string_value(value) : "-");
}

static void put_number(struct table *t, const json_t *value) {
    if (json_is_integer(value))
        cell(t, "%lld", (long long)json_integer_value(value));
    else if (json_is_number(value))
        cell(t, "%.6g", json_number_value(value));
    else
        cell(t, "-");
}

static void put_count(struct table *t, const json_t *value) {
    if (value)
        cell(t, "%zu", json_array_size(value));
    else
        cell(t, "-");
}

static void put_share(struct table *t, const json_t *value) {
    if (json_is_number(value))
        cell(t, "%.6g%%", 100 * json_number_value(value));
    else
        cell(t, "-");
}

static void put_busy(struct table *t, const json_t *value) {
    cell(t, "%.0f%%", 100 * json_number_value(value));
}

/* The part of the requests, which stand beside this value. */
static void put_in_time(struct table *t, const json_t *totals) {
    double requests = json_number_value(json_object_get(totals, "requests"));
    if (requests > 0)
        cell(t, "%.1f%%", 100 * json_number_value(json_object_get(totals, "in_time")) / requests);
    else
        cell(t, "-");
}

static void put_leads(struct table *t, const json_t *value) {
    cell(t, json_is_true(value) ? "yes" : "no");
}

static void put_rolls(struct table *t, const json_t *value) {
    cell(t, json_is_true(value) ? "on" : "waits for backends");
}

static void put_duration(struct table *t, const json_t *value) {
    char text[CLI_DURATION_BYTES];
    cli_duration_format(json_number_value(value), text);
    cell(t, "%s", text);
}

static void put_micros(struct table *t, const json_t *value) {
    double us = json_number_value(value);
    if (!value)
        cell(t, "-");
    else if (us < 1000)
        cell(t, "%.0fus", us);
    else
        cell(t, "%.4gms", us / 1000);
}

/* "cpu:2/2,gpu:3/4": in service, of all; "cpu:0/2,cordoned"; "cpu:2/2,2.1x slower". */
static void put_accelerators(struct table *t, const json_t *member) {
    struct text text = {0};
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(member, "accelerators"), i, one) {
        const char *type = json_string_value(json_object_get(one, "type"));
        double slow = json_number_value(json_object_get(one, "slow"));
        text_printf(&text, "%s%s:%lld/%lld", i ? "," : "", type ? type : "-",
                    (long long)json_integer_value(json_object_get(one, "serving")),
                    (long long)json_integer_value(json_object_get(one, "count")));
        if (slow > 1)
            text_printf(&text, ",%.3gx slower", slow);
    }
    cell(t, "%s%s", text.length ? text_end(&text) : "-",
         json_is_true(json_object_get(member, "cordoned")) ? ",cordoned" : "");
    text_free(&text);
}

/* ---- a cluster ---- */

static const struct column scheduler_columns[] = {
    {"SCHEDULER", "name", put_text},
    {"INCARNATION", "incarnation", put_text},
    {"VERSION", "version", put_text},
    {"TERM", "term", put_number},
    {"LEADS", "leads", put_leads},
    {"UP", "uptime_s", put_duration},
    {"REQUESTS", "requests", put_number},
    {"NOW", "requests_now", put_number},
    {"BATCHES", "batches", put_number},
    {"LOST", "lost", put_number},
    {"ACCELERATORS", "accelerators", put_number},
    {"WANTED", "accelerators_wanted", put_number},
};
static const struct column member_columns[] = {
    {"ROLE", "role", put_text},
    {"NUMBER", "number", put_number},
    {"NAME", "name", put_text},
    {"VERSION", "version", put_text},
    {"FORMAT", "format", put_number},
    {"INCARNATION", "incarnation", put_text},
    {"ADDRESS", "address", put_text},
    {"UP", "joined_s", put_duration},
    {"ROUND_TRIP", "round_trip_us", put_micros},
    {"CLOCK_ERROR", "clock_error_us", put_micros},
    {"LATE", "late", put_number},
    {"LOST", "lost", put_number},
    {"ACCELERATORS", "", put_accelerators},
    {"MODELS", "models", put_count},
};
_Static_assert(ARRAY_COUNT(member_columns) <= COLUMNS_MAX, "the widest table");
static const struct column model_columns[] = {
    {"MODEL", "name", put_text},          {"VERSION", "version", put_number}, {"SLO_MS", "slo_ms", put_number},
    {"BACKENDS", "backends", put_number}, {"SHARE", "share", put_share},      {"QUEUED", "queued", put_number},
    {"BATCHES", "batches", put_number},
};
/* Versions that somebody has stated, and whether they get their requests yet. */
static const struct column rollout_columns[] = {
    {"ROLLOUT", "model", put_text},   {"VERSION", "version", put_number},
    {"SHARE", "share", put_share},    {"BACKENDS", "backends", put_number},
    {"BEFORE", "before", put_number}, {"BACKENDS", "backends_before", put_number},
    {"STATE", "rolls", put_rolls},
};
/* Models that backends have and that are not served. */
static const struct column aside_columns[] = {
    {"NOT_SERVED", "name", put_text},
    {"VERSION", "version", put_number},
    {"BACKEND", "backend", put_text},
    {"REASON", "reason", put_text},
};

/* The models that members have set aside, each with the name of its backend. */
static json_t *aside_of(const json_t *members) {
    json_t *aside = json_array(), *member, *model;
    size_t i, k;
    json_array_foreach(members, i, member) {
        json_array_foreach(json_object_get(member, "aside"), k, model) {
            json_object_set(model, "backend", json_object_get(member, "name"));
            json_array_append(aside, model);
        }
    }
    return aside;
}

/* ---- one server ---- */

static const struct column server_columns[] = {
    {"SERVER", "version", put_text},         {"STATE", "state", put_text},
    {"POLICY", "policy", put_text},          {"UP", "uptime_s", put_duration},
    {"MODELS", "models_count", put_number},  {"REQUESTS", "all.totals.requests", put_number},
    {"IN_TIME", "all.totals", put_in_time},  {"IN_FLIGHT", "in_flight", put_number},
    {"NEEDED", "advice.needed", put_number}, {"SERVING", "advice.serving", put_number},
    {"WANTED", "advice.wanted", put_number},
};
static const struct column state_model_columns[] = {
    {"MODEL", "name", put_text},
    {"VERSION", "version", put_text},
    {"STATE", "state", put_text},
    {"SLO_MS", "slo_ms", put_number},
    {"REQUESTS", "totals.requests", put_number},
    {"IN_TIME", "totals", put_in_time},
    {"LATE", "totals.late", put_number},
    {"REFUSED", "totals.refused", put_number},
    {"FAILED", "totals.failed", put_number},
    {"QUEUED", "queued", put_number},
    {"REASON", "reason", put_text},
};
static const struct column state_accelerator_columns[] = {
    {"ACCELERATOR", "number", put_number}, {"TYPE", "type", put_text},
    {"STATE", "state", put_text},          {"BUSY", "busy", put_busy},
    {"BATCHES", "batches", put_number},    {"RUNS", "runs.model", put_text},
    {"MODELS", "models", put_number},      {"MIB", "memory_mib", put_number},
};
static const struct column set_aside_columns[] = {{"NOT_SERVED", "name", put_text}, {"REASON", "reason", put_text}};

static int server_ask(const struct status_settings *settings, const char *url) {
    struct metrics_visit_settings how = settings->visit;
    struct metrics_visit *visit;
    struct sy_error err;
    json_t *state = NULL;
    if (settings->visitor.join || settings->visitor.registry)
        return cli_usage_error("status", "give either a URL or --join or --registry: whom to ask");
    log_set_level(LOG_WARN);
    how.timeout_s = settings->visitor.timeout_s;
    int rc = metrics_visit_open(&visit, &how, url, &err);
    rc = rc < 0
             ? rc
             : metrics_visit_json(visit, "/v2/symphony/state?sort=name&limit=10000&accelerators=10000", &state, &err);
    metrics_visit_close(visit);
    if (rc < 0) {
        fprintf(stderr, "symphony status: %s\n", err.text);
        return rc == -EINVAL ? CLI_USAGE : CLI_FAILURE;
    }
    if (settings->json) {
        cli_json_print(json_incref(state), JSON_REAL_PRECISION(9));
    } else {
        TABLE_PRINT(server_columns, state);
        putchar('\n');
        TABLE_PRINT(state_model_columns, json_object_get(state, "models"));
        TABLE_PRINT_ANY(state_accelerator_columns, json_object_get(state, "accelerators"));
        TABLE_PRINT_ANY(set_aside_columns, json_object_get(state, "set_aside"));
    }
    json_decref(state);
    return CLI_OK;
}

static int status_run(int argc, char **argv) {
    struct status_settings settings = {.visitor = {.timeout_s = 5}};
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);
    json_t *answer;
    if (status != OPTIONS_GO_ON)
        return status;
    if (arguments > 0)
        return server_ask(&settings, argv[1]);
    if (!settings.visitor.join && !settings.visitor.registry)
        return cli_usage_error("status", "give a URL, --join HOST:PORT or --registry URL: whom to ask");
    status = visitor_ask("status", &settings.visitor, FRAME_STATUS, "", &answer);
    if (status != CLI_OK)
        return status;
    if (settings.json) {
        cli_json_print(json_incref(answer), JSON_REAL_PRECISION(9));
    } else {
        const json_t *members = json_object_get(answer, "members");
        const json_t *scheduler = json_object_get(answer, "scheduler");
        const char *leader = json_string_value(json_object_get(scheduler, "leader"));
        TABLE_PRINT(scheduler_columns, scheduler);
        putchar('\n');
        if (!json_is_true(json_object_get(scheduler, "leads")))
            printf("This scheduler stands by, and knows of no frontends, backends and models: ask the one that "
                   "leads%s%s.\n\n",
                   leader ? ", " : "", leader ? leader : "");
        json_t *aside = aside_of(members);
        TABLE_PRINT(member_columns, members);
        putchar('\n');
        TABLE_PRINT(model_columns, json_object_get(answer, "models"));
        TABLE_PRINT_ANY(rollout_columns, json_object_get(answer, "rollouts"));
        TABLE_PRINT_ANY(aside_columns, aside);
        json_decref(aside);
    }
    json_decref(answer);
    return CLI_OK;
}

const struct cli_command cli_status = {
    .name = "status",
    .summary = "who belongs to a cluster, and what runs there; or what one server does",
    .run = status_run,
};
