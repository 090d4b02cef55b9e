/* status.c - `symphony status`: who belongs to a cluster, and what runs there; or what one server does. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/system/log.h"
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
    t->columns = t->column;
    t->column = 0;
}

static void headings(struct table *t, const char *const *names) {
    for (; *names; names++)
        cell(t, "%s", *names);
    row_end(t);
}

static void table_print(void (*write)(struct table *, const json_t *), const json_t *rows_of) {
    struct table table = {.shown = false};
    write(&table, rows_of);
    table.shown = true;
    write(&table, rows_of);
}

/* ---- values ---- */

static const char *text_of(const json_t *json, const char *name) {
    const char *text = json_string_value(json_object_get(json, name));
    return text ? text : "-";
}

static long long number_of(const json_t *json, const char *name) {
    return (long long)json_integer_value(json_object_get(json, name));
}

/* "-": there is no such number. */
static void number_cell(struct table *t, const json_t *value) {
    if (json_is_integer(value))
        cell(t, "%lld", (long long)json_integer_value(value));
    else if (json_is_number(value))
        cell(t, "%.6g", json_number_value(value));
    else
        cell(t, "-");
}

static void percent_cell(struct table *t, const json_t *share) {
    if (json_is_number(share))
        cell(t, "%.6g%%", 100 * json_number_value(share));
    else
        cell(t, "-");
}

/* "3d2h", "2h5m", "5m7s", "7s". */
static void duration_cell(struct table *t, double seconds) {
    static const struct {
        long long seconds;
        char unit;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    long long left = (long long)seconds;
    size_t i = 0;
    while (i < 3 && left < units[i].seconds)
        i++;
    if (i == 3)
        cell(t, "%llds", left);
    else
        cell(t, "%lld%c%lld%c", left / units[i].seconds, units[i].unit, left % units[i].seconds / units[i + 1].seconds,
             units[i + 1].unit);
}

static void micros_cell(struct table *t, const json_t *value) {
    double us = json_number_value(value);
    if (!value)
        cell(t, "-");
    else if (us < 1000)
        cell(t, "%.0fus", us);
    else
        cell(t, "%.4gms", us / 1000);
}

/* "cpu:2/2,gpu:3/4": in service, of all; "cpu:0/2,cordoned"; "cpu:2/2,2.1x slower". */
static void accelerators_cell(struct table *t, const json_t *list, bool cordoned) {
    char text[CELL_MAX] = "";
    size_t i, used = 0;
    json_t *one;
    json_array_foreach(list, i, one) {
        int wrote = snprintf(text + used, sizeof(text) - used, "%s%s:%lld/%lld", used ? "," : "", text_of(one, "type"),
                             number_of(one, "serving"), number_of(one, "count"));
        used += wrote > 0 && (size_t)wrote < sizeof(text) - used ? (size_t)wrote : 0;
        double slow = json_number_value(json_object_get(one, "slow"));
        wrote = slow > 1 ? snprintf(text + used, sizeof(text) - used, ",%.3gx slower", slow) : 0;
        used += wrote > 0 && (size_t)wrote < sizeof(text) - used ? (size_t)wrote : 0;
    }
    cell(t, "%s%s", used ? text : "-", cordoned ? ",cordoned" : "");
}

/* ---- the answer ---- */

static void write_scheduler(struct table *t, const json_t *scheduler) {
    static const char *const names[] = {"SCHEDULER",    "INCARNATION", "VERSION", "TERM",    "LEADS",
                                        "UP",           "REQUESTS",    "NOW",     "BATCHES", "LOST",
                                        "ACCELERATORS", "WANTED",      NULL};
    headings(t, names);
    cell(t, "%s", text_of(scheduler, "name"));
    cell(t, "%s", text_of(scheduler, "incarnation"));
    cell(t, "%s", text_of(scheduler, "version"));
    cell(t, "%lld", number_of(scheduler, "term"));
    cell(t, "%s", json_is_true(json_object_get(scheduler, "leads")) ? "yes" : "no");
    duration_cell(t, json_number_value(json_object_get(scheduler, "uptime_s")));
    cell(t, "%lld", number_of(scheduler, "requests"));
    cell(t, "%lld", number_of(scheduler, "requests_now"));
    cell(t, "%lld", number_of(scheduler, "batches"));
    cell(t, "%lld", number_of(scheduler, "lost"));
    cell(t, "%lld", number_of(scheduler, "accelerators"));
    number_cell(t, json_object_get(scheduler, "accelerators_wanted"));
    row_end(t);
}

static void write_members(struct table *t, const json_t *members) {
    static const char *const names[] = {"ROLE",        "NUMBER",  "NAME",         "VERSION",    "FORMAT",
                                        "INCARNATION", "ADDRESS", "UP",           "ROUND_TRIP", "CLOCK_ERROR",
                                        "LATE",        "LOST",    "ACCELERATORS", "MODELS",     NULL};
    size_t i;
    json_t *m;
    headings(t, names);
    json_array_foreach(members, i, m) {
        const json_t *models = json_object_get(m, "models");
        cell(t, "%s", text_of(m, "role"));
        cell(t, "%lld", number_of(m, "number"));
        cell(t, "%s", text_of(m, "name"));
        cell(t, "%s", text_of(m, "version"));
        cell(t, "%lld", number_of(m, "format"));
        cell(t, "%s", text_of(m, "incarnation"));
        cell(t, "%s", text_of(m, "address"));
        duration_cell(t, json_number_value(json_object_get(m, "joined_s")));
        micros_cell(t, json_object_get(m, "round_trip_us"));
        micros_cell(t, json_object_get(m, "clock_error_us"));
        cell(t, "%lld", number_of(m, "late"));
        cell(t, "%lld", number_of(m, "lost"));
        accelerators_cell(t, json_object_get(m, "accelerators"), json_is_true(json_object_get(m, "cordoned")));
        if (models)
            cell(t, "%zu", json_array_size(models));
        else
            cell(t, "-");
        row_end(t);
    }
}

static void write_models(struct table *t, const json_t *models) {
    static const char *const names[] = {"MODEL", "VERSION", "SLO_MS", "BACKENDS", "SHARE", "QUEUED", "BATCHES", NULL};
    size_t i;
    json_t *m;
    headings(t, names);
    json_array_foreach(models, i, m) {
        cell(t, "%s", text_of(m, "name"));
        cell(t, "%lld", number_of(m, "version"));
        number_cell(t, json_object_get(m, "slo_ms"));
        cell(t, "%lld", number_of(m, "backends"));
        percent_cell(t, json_object_get(m, "share"));
        number_cell(t, json_object_get(m, "queued"));
        number_cell(t, json_object_get(m, "batches"));
        row_end(t);
    }
}

/* Versions that somebody has stated, and whether they get their requests yet. */
static void write_rollouts(struct table *t, const json_t *rollouts) {
    static const char *const names[] = {"ROLLOUT", "VERSION", "SHARE", "BACKENDS", "BEFORE", "BACKENDS", "STATE", NULL};
    size_t i;
    json_t *r;
    headings(t, names);
    json_array_foreach(rollouts, i, r) {
        cell(t, "%s", text_of(r, "model"));
        cell(t, "%lld", number_of(r, "version"));
        percent_cell(t, json_object_get(r, "share"));
        cell(t, "%lld", number_of(r, "backends"));
        number_cell(t, json_object_get(r, "before"));
        cell(t, "%lld", number_of(r, "backends_before"));
        cell(t, json_is_true(json_object_get(r, "rolls")) ? "on" : "waits for backends");
        row_end(t);
    }
}

/* Models that backends have and that are not served. */
static void write_aside(struct table *t, const json_t *members) {
    static const char *const names[] = {"NOT_SERVED", "VERSION", "BACKEND", "REASON", NULL};
    size_t i, k;
    json_t *m, *one;
    headings(t, names);
    json_array_foreach(members, i, m) {
        json_array_foreach(json_object_get(m, "aside"), k, one) {
            cell(t, "%s", text_of(one, "name"));
            number_cell(t, json_object_get(one, "version"));
            cell(t, "%s", text_of(m, "name"));
            cell(t, "%s", text_of(one, "reason"));
            row_end(t);
        }
    }
}

/* ---- one server ---- */

static void share_cell(struct table *t, const json_t *part, const json_t *whole) {
    if (json_number_value(whole) > 0)
        cell(t, "%.1f%%", 100 * json_number_value(part) / json_number_value(whole));
    else
        cell(t, "-");
}

static void write_server(struct table *t, const json_t *state) {
    static const char *const names[] = {"SERVER",  "STATE",     "POLICY", "UP",      "MODELS", "REQUESTS",
                                        "IN_TIME", "IN_FLIGHT", "NEEDED", "SERVING", "WANTED", NULL};
    const json_t *advice = json_object_get(state, "advice");
    const json_t *totals = json_object_get(json_object_get(state, "all"), "totals");
    headings(t, names);
    cell(t, "%s", text_of(state, "version"));
    cell(t, "%s", text_of(state, "state"));
    cell(t, "%s", text_of(state, "policy"));
    duration_cell(t, json_number_value(json_object_get(state, "uptime_s")));
    cell(t, "%lld", number_of(state, "models_count"));
    cell(t, "%lld", number_of(totals, "requests"));
    share_cell(t, json_object_get(totals, "in_time"), json_object_get(totals, "requests"));
    number_cell(t, json_object_get(state, "in_flight"));
    number_cell(t, json_object_get(advice, "needed"));
    number_cell(t, json_object_get(advice, "serving"));
    number_cell(t, json_object_get(advice, "wanted"));
    row_end(t);
}

static void write_state_models(struct table *t, const json_t *state) {
    static const char *const names[] = {"MODEL", "VERSION", "STATE",  "SLO_MS", "REQUESTS", "IN_TIME",
                                        "LATE",  "REFUSED", "FAILED", "QUEUED", "REASON",   NULL};
    size_t i;
    json_t *m;
    headings(t, names);
    json_array_foreach(json_object_get(state, "models"), i, m) {
        const json_t *totals = json_object_get(m, "totals");
        cell(t, "%s", text_of(m, "name"));
        cell(t, "%s", text_of(m, "version"));
        cell(t, "%s", text_of(m, "state"));
        number_cell(t, json_object_get(m, "slo_ms"));
        cell(t, "%lld", number_of(totals, "requests"));
        share_cell(t, json_object_get(totals, "in_time"), json_object_get(totals, "requests"));
        cell(t, "%lld", number_of(totals, "late"));
        cell(t, "%lld", number_of(totals, "refused"));
        cell(t, "%lld", number_of(totals, "failed"));
        number_cell(t, json_object_get(m, "queued"));
        cell(t, "%s", text_of(m, "reason"));
        row_end(t);
    }
}

static void write_state_accelerators(struct table *t, const json_t *state) {
    static const char *const names[] = {"ACCELERATOR", "TYPE",   "STATE", "BUSY", "BATCHES",
                                        "RUNS",        "MODELS", "MIB",   NULL};
    size_t i;
    json_t *a;
    headings(t, names);
    json_array_foreach(json_object_get(state, "accelerators"), i, a) {
        cell(t, "%lld", number_of(a, "number"));
        cell(t, "%s", text_of(a, "type"));
        cell(t, "%s", text_of(a, "state"));
        cell(t, "%.0f%%", 100 * json_number_value(json_object_get(a, "busy")));
        cell(t, "%lld", number_of(a, "batches"));
        cell(t, "%s", text_of(json_object_get(a, "runs"), "model"));
        number_cell(t, json_object_get(a, "models"));
        number_cell(t, json_object_get(a, "memory_mib"));
        row_end(t);
    }
}

static void write_set_aside(struct table *t, const json_t *aside) {
    static const char *const names[] = {"NOT_SERVED", "REASON", NULL};
    size_t i;
    json_t *m;
    headings(t, names);
    json_array_foreach(aside, i, m) {
        cell(t, "%s", text_of(m, "name"));
        cell(t, "%s", text_of(m, "reason"));
        row_end(t);
    }
}

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
        json_dumpf(state, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else {
        table_print(write_server, state);
        putchar('\n');
        table_print(write_state_models, state);
        if (json_array_size(json_object_get(state, "accelerators")) > 0) {
            putchar('\n');
            table_print(write_state_accelerators, state);
        }
        if (json_object_get(state, "set_aside")) {
            putchar('\n');
            table_print(write_set_aside, json_object_get(state, "set_aside"));
        }
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
        json_dumpf(answer, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else {
        const json_t *members = json_object_get(answer, "members");
        size_t aside = 0;
        for (size_t i = 0; i < json_array_size(members); i++)
            aside += json_array_size(json_object_get(json_array_get(members, i), "aside"));
        const json_t *scheduler = json_object_get(answer, "scheduler");
        const char *leader = json_string_value(json_object_get(scheduler, "leader"));
        table_print(write_scheduler, scheduler);
        putchar('\n');
        if (!json_is_true(json_object_get(scheduler, "leads")))
            printf("This scheduler stands by, and knows of no frontends, backends and models: ask the one that "
                   "leads%s%s.\n\n",
                   leader ? ", " : "", leader ? leader : "");
        table_print(write_members, members);
        putchar('\n');
        table_print(write_models, json_object_get(answer, "models"));
        if (json_array_size(json_object_get(answer, "rollouts")) > 0) {
            putchar('\n');
            table_print(write_rollouts, json_object_get(answer, "rollouts"));
        }
        if (aside > 0) {
            putchar('\n');
            table_print(write_aside, members);
        }
    }
    json_decref(answer);
    return CLI_OK;
}

const struct cli_command cli_status = {
    .name = "status",
    .summary = "who belongs to a cluster, and what runs there; or what one server does",
    .run = status_run,
};
