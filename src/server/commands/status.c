/* status.c - `symphony status`: who belongs to a cluster, and what runs there. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/commands/cli.h"
#include "server/commands/visitor.h"

#define COLUMNS_MAX 12
#define CELL_MAX    600 /* bytes of a cell; a reason has 511 */

struct status_settings {
    struct visitor_settings visitor;
    bool json;
};

static const struct option_row rows[] = {
    VISITOR_OPTIONS(struct status_settings, visitor),
    OPTION_FLAG(struct status_settings, json, "json", "all that the scheduler says, as it says it"),
    OPTION_END,
};

static const struct options options = {
    .command = "status",
    .usage = "--join HOST:PORT[,HOST:PORT]... | --registry URL [OPTION]...",
    .intro = "Asks a cluster's scheduler who belongs to the cluster, how good the links are, and what runs where.",
    .notes = "Example:\n"
             "  symphony status --join scheduler.example:7700",
    .rows = rows,
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

/* "cpu:2/2,gpu:3/4": in service, of all. */
static void accelerators_cell(struct table *t, const json_t *list) {
    char text[CELL_MAX] = "";
    size_t i, used = 0;
    json_t *one;
    json_array_foreach(list, i, one) {
        int wrote = snprintf(text + used, sizeof(text) - used, "%s%s:%lld/%lld", used ? "," : "", text_of(one, "type"),
                             number_of(one, "serving"), number_of(one, "count"));
        used += wrote > 0 && (size_t)wrote < sizeof(text) - used ? (size_t)wrote : 0;
    }
    cell(t, "%s", used ? text : "-");
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
    static const char *const names[] = {"ROLE",         "NUMBER",  "NAME", "VERSION",    "FORMAT",
                                        "INCARNATION",  "ADDRESS", "UP",   "ROUND_TRIP", "CLOCK_ERROR",
                                        "ACCELERATORS", "MODELS",  NULL};
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
        accelerators_cell(t, json_object_get(m, "accelerators"));
        if (models)
            cell(t, "%zu", json_array_size(models));
        else
            cell(t, "-");
        row_end(t);
    }
}

static void write_models(struct table *t, const json_t *models) {
    static const char *const names[] = {"MODEL", "VERSION", "SLO_MS", "BACKENDS", "QUEUED", "BATCHES", NULL};
    size_t i;
    json_t *m;
    headings(t, names);
    json_array_foreach(models, i, m) {
        cell(t, "%s", text_of(m, "name"));
        cell(t, "%lld", number_of(m, "version"));
        number_cell(t, json_object_get(m, "slo_ms"));
        cell(t, "%lld", number_of(m, "backends"));
        number_cell(t, json_object_get(m, "queued"));
        number_cell(t, json_object_get(m, "batches"));
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

static int status_run(int argc, char **argv) {
    struct status_settings settings = {.visitor = {.timeout_s = 5}};
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);
    json_t *answer;
    if (status != OPTIONS_GO_ON)
        return status;
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
        table_print(write_scheduler, json_object_get(answer, "scheduler"));
        putchar('\n');
        table_print(write_members, members);
        putchar('\n');
        table_print(write_models, json_object_get(answer, "models"));
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
    .summary = "who belongs to a cluster, and what runs there",
    .run = status_run,
};
