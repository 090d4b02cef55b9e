/* top_screen.c - lays a server's state out as lines of a terminal. */
#include "server/commands/top_screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/util/container.h"
#include "server/commands/cli.h"

#define NAME_LEAST 12 /* columns of the models' names */
#define NAME_MOST  36
#define LINE_MOST  512
#define BAR        20
#define LINKS_MOST 6 /* links that are shown, at most, where there is room */

#define BOLD    "\033[1m"
#define DIM     "\033[2m"
#define REVERSE "\033[7m"
#define RED     "\033[31m"
#define YELLOW  "\033[33m"
#define PLAIN   "\033[0m"

struct screen {
    struct text *out;
    const struct top_view *view;
    int row; /* rows that were written */
};

static bool full(const struct screen *s) {
    return s->view->rows > 0 && s->row >= s->view->rows - (s->view->note ? 1 : 0);
}

/* Writes a row, cut off at the screen's width. */
static void __attribute__((format(printf, 3, 4))) line(struct screen *s, const char *style, const char *fmt, ...) {
    char text[LINE_MOST];
    va_list ap;
    if (full(s))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    int columns = s->view->columns < LINE_MOST ? s->view->columns : LINE_MOST - 1, length = (int)strlen(text);
    text_put(s->out, s->row ? "\n" : "");
    text_put(s->out, s->view->colours ? style : "");
    text_append(s->out, text, (size_t)(length < columns ? length : columns));
    if (s->view->colours)
        text_printf(s->out, "%*s%s\033[K",
                    *style && strcmp(style, REVERSE) == 0 && length < columns ? columns - length : 0, "", PLAIN);
    s->row++;
}

/* ---- values ---- */

static double number(const json_t *json, const char *name) {
    return json_number_value(json_object_get(json, name));
}

static const char *word(const json_t *json, const char *name) {
    const char *text = json_string_value(json_object_get(json, name));
    return text ? text : "";
}

/* A number in at most seven characters. */
struct shown {
    char text[16];
};

static struct shown shown(double value) {
    struct shown s;
    if (value >= 9999500)
        snprintf(s.text, sizeof(s.text), "%.3gM", value / 1e6);
    else if (value >= 99995)
        snprintf(s.text, sizeof(s.text), "%.0fk", value / 1e3);
    else if (value >= 100)
        snprintf(s.text, sizeof(s.text), "%.0f", value);
    else
        snprintf(s.text, sizeof(s.text), "%.3g", value);
    return s;
}

/* "-": the state has no such number. */
static struct shown shown_of(const json_t *json, const char *name) {
    const json_t *value = json_object_get(json, name);
    return json_is_number(value) ? shown(json_number_value(value)) : (struct shown){"-"};
}

static double good_share(const json_t *of) {
    double rate = number(of, "rate");
    return rate > 0 ? 100 * number(of, "good") / rate : 100;
}

/* ---- models ---- */

static struct shown good_cell(const json_t *m) {
    struct shown s;
    snprintf(s.text, sizeof(s.text), number(m, "rate") > 0 ? "%.1f" : "-", good_share(m));
    return s;
}

static struct shown state_cell(const json_t *m) {
    struct shown s;
    snprintf(s.text, sizeof(s.text), "%s", word(m, "state"));
    return s;
}

/* The columns behind the name; those with the lowest numbers stay where there is little room. */
static const struct model_column {
    const char *heading, *of, *in; /* heading; name of the number; name of the object that it is in, NULL: the model */
    struct shown (*cell)(const json_t *model);
    int width, rank;
} model_columns[] = {
    {"STATE", NULL, NULL, state_cell, 11, 13},   {"RATE/s", "rate", NULL, NULL, 7, 1},
    {"GOOD%", NULL, NULL, good_cell, 5, 2},      {"LATE/s", "late", NULL, NULL, 6, 4},
    {"REFUS/s", "refused", NULL, NULL, 7, 3},    {"FAIL/s", "failed", NULL, NULL, 6, 12},
    {"QUEUED", "queued", NULL, NULL, 6, 6},      {"BATCH", "batch", NULL, NULL, 5, 8},
    {"RUN ms", "run_ms", NULL, NULL, 6, 9},      {"BUSY", "busy", NULL, NULL, 6, 6},
    {"Q50", "p50", "queue_ms", NULL, 5, 11},     {"Q99", "p99", "queue_ms", NULL, 5, 10},
    {"p50 ms", "p50", "latency_ms", NULL, 6, 7}, {"p99 ms", "p99", "latency_ms", NULL, 6, 5},
    {"SLO ms", "slo_ms", NULL, NULL, 6, 5},
};

/* The columns that fit beside the name, a bit each; *used: what they take. */
static unsigned columns_fit(int columns, int *used) {
    unsigned fit = 0;
    *used = 0;
    for (int rank = 1; rank <= 13; rank++)
        for (unsigned c = 0; c < ARRAY_COUNT(model_columns); c++)
            if (model_columns[c].rank == rank && *used + 1 + model_columns[c].width + NAME_LEAST <= columns) {
                fit |= 1u << c;
                *used += 1 + model_columns[c].width;
            }
    return fit;
}

/* The reason for which most requests are refused now; "": none are. */
static const char *worst_reason(const json_t *model) {
    const char *name, *worst = "";
    double most = 0;
    json_t *one;
    json_object_foreach(json_object_get(model, "refused_by"), name, one) {
        if (number(one, "per_s") > most) {
            most = number(one, "per_s");
            worst = name;
        }
    }
    return worst;
}

static const char *model_style(const json_t *m) {
    double p99 = number(json_object_get(m, "latency_ms"), "p99"), slo = number(m, "slo_ms");
    if (strcmp(word(m, "state"), "ready") != 0 || good_share(m) < 99)
        return RED;
    if (number(m, "rate") == 0)
        return DIM;
    return slo > 0 && p99 > 0.9 * slo ? YELLOW : "";
}

static int models_put(struct screen *s, const json_t *state) {
    int used, count = 0;
    unsigned fit = columns_fit(s->view->columns, &used);
    int name = s->view->columns - used < NAME_MOST ? s->view->columns - used : NAME_MOST;
    bool why = s->view->columns - used - name > 14;
    char text[LINE_MOST];
    int at = snprintf(text, sizeof(text), "%-*.*s", name, name, "MODEL");
    for (unsigned c = 0; c < ARRAY_COUNT(model_columns); c++)
        if (fit >> c & 1)
            at += snprintf(text + at, sizeof(text) - (size_t)at, " %*s", model_columns[c].width,
                           model_columns[c].heading);
    line(s, REVERSE, "%s%s", text, why ? "  REFUSED FOR" : "");
    const json_t *models = json_object_get(state, "models");
    for (size_t i = (size_t)s->view->first; i < json_array_size(models) && !full(s); i++, count++) {
        const json_t *m = json_array_get(models, i);
        at = snprintf(text, sizeof(text), "%-*.*s", name, name, word(m, "name"));
        for (unsigned c = 0; c < ARRAY_COUNT(model_columns); c++) {
            const struct model_column *column = &model_columns[c];
            const json_t *in = column->in ? json_object_get(m, column->in) : m;
            if (fit >> c & 1)
                at += snprintf(text + at, sizeof(text) - (size_t)at, " %*.*s", column->width, column->width,
                               (column->cell ? column->cell(m) : shown_of(in, column->of)).text);
        }
        line(s, model_style(m), "%s%s%s", text, why ? "  " : "",
             !why                 ? ""
             : *word(m, "reason") ? word(m, "reason")
                                  : worst_reason(m));
    }
    return count;
}

/* ---- accelerators ---- */

static void bar(char out[BAR + 1], double share) {
    int full_until = (int)(share * BAR + 0.5);
    for (int i = 0; i < BAR; i++)
        out[i] = i < full_until ? '|' : ' ';
    out[BAR] = '\0';
}

static void accelerators_put(struct screen *s, const json_t *state) {
    char busy[BAR + 1];
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(state, "types"), i, one) {
        bar(busy, number(one, "busy"));
        line(s, number(one, "serving") < number(one, "count") ? YELLOW : "",
             "%-16.16s [%s] %3.0f%%  %.0f of %.0f in service, %.0f run, %s batches/s", word(one, "type"), busy,
             100 * number(one, "busy"), number(one, "serving"), number(one, "count"), number(one, "running"),
             shown_of(one, "batches_rate").text);
    }
    if (!s->view->accelerators)
        return;
    size_t count = json_array_size(json_object_get(state, "accelerators"));
    size_t most = s->view->rows > 0 ? (size_t)s->view->rows / 3 : count; /* the models have the rest */
    json_array_foreach(json_object_get(state, "accelerators"), i, one) {
        if (i == most)
            break;
        const json_t *runs = json_object_get(one, "runs");
        char what[128] = "-", memory[80] = "";
        bar(busy, number(one, "busy"));
        if (runs)
            snprintf(what, sizeof(what), "%.64s (%.0f) for %s ms", word(runs, "model"), number(runs, "items"),
                     shown_of(runs, "for_ms").text);
        if (json_object_get(one, "memory_mib"))
            snprintf(memory, sizeof(memory), "  %.0f models, %.0f of %.0f MiB", number(one, "models"),
                     number(one, "memory_mib"), number(one, "memory_max_mib"));
        bool serves = strcmp(word(one, "state"), "serving") == 0;
        line(s, serves ? "" : YELLOW, "  %-5.0f%-9.9s [%s] %3.0f%%  %s%s", number(one, "number"),
             serves ? "" : word(one, "state"), busy, 100 * number(one, "busy"), what, memory);
    }
    count = (size_t)number(state, "accelerators_count");
    if (count > most)
        line(s, DIM, "  ... and %zu more", count - most);
}

/* Requests that were late or lost over a link. */
static double bad_over(const json_t *link) {
    return number(link, "late") + number(link, "lost");
}

/* The links with most bad requests first. */
static void cluster_put(struct screen *s, const json_t *cluster) {
    const json_t *links = json_object_get(cluster, "links"), *worst[LINKS_MOST];
    int rows = s->view->rows / 6; /* the models have most of the screen */
    size_t most = s->view->rows > 0 && rows < LINKS_MOST ? (size_t)rows : LINKS_MOST, count = 0, i;
    json_t *one;
    json_array_foreach(links, i, one) {
        size_t at = count < most ? count++ : most;
        for (; at > 0 && bad_over(worst[at - 1]) < bad_over(one); at--)
            if (at < most)
                worst[at] = worst[at - 1];
        if (at < most)
            worst[at] = one;
    }
    for (i = 0; i < count; i++) {
        const json_t *link = worst[i];
        line(s, number(link, "lost") > 0 ? YELLOW : "",
             "%-9s %-24.24s round trip %s us, clock within %s us; %s requests late, %s lost", word(link, "role"),
             word(link, "name"), shown_of(link, "round_trip_us").text, shown_of(link, "clock_error_us").text,
             shown_of(link, "late").text, shown_of(link, "lost").text);
    }
    if (json_array_size(links) > count)
        line(s, DIM, "... and %zu more links", json_array_size(links) - count);
}

/* ---- all ---- */

int top_screen_put(struct text *out, const json_t *state, const struct top_view *view) {
    struct screen s = {.out = out, .view = view};
    const json_t *all = json_object_get(state, "all"), *advice = json_object_get(state, "advice");
    const json_t *cluster = json_object_get(state, "cluster");
    bool bad = good_share(all) < 99;
    char up[CLI_DURATION_BYTES];
    cli_duration_format(number(state, "uptime_s"), up);
    line(&s, BOLD, "symphony %s  %s  %s%s  up %s  %s models  %s connections, %s requests in flight",
         word(state, "version"), word(state, "policy"), word(state, "state"),
         !cluster                                           ? ""
         : json_is_true(json_object_get(cluster, "leads"))  ? ", leads a cluster"
         : json_is_false(json_object_get(cluster, "leads")) ? ", stands by"
                                                            : "",
         up, shown_of(state, "models_count").text, shown_of(state, "connections").text,
         shown_of(state, "in_flight").text);
    line(&s, bad ? RED : "", "%s requests/s: %s good (%.1f%%), %s late, %s refused, %s failed",
         shown_of(all, "rate").text, shown_of(all, "good").text, good_share(all), shown_of(all, "late").text,
         shown_of(all, "refused").text, shown_of(all, "failed").text);
    if (advice) {
        const json_t *wanted = json_object_get(advice, "wanted");
        char want[64] = "";
        if (wanted)
            snprintf(want, sizeof(want), "; there should be %.0f", json_number_value(wanted));
        line(&s, number(advice, "needed") > number(advice, "serving") ? RED : "",
             "accelerators: %s needed by the load, %s in service%s", shown_of(advice, "needed").text,
             shown_of(advice, "serving").text, want);
    }
    accelerators_put(&s, state);
    cluster_put(&s, cluster);
    line(&s, "", "%s", "");
    int count = models_put(&s, state);
    if (view->note) {
        while (view->rows > 0 && !full(&s))
            line(&s, "", "%s", "");
        struct top_view last = *view;
        last.note = NULL;
        s.view = &last;
        line(&s, DIM, "%s", view->note);
    }
    return count;
}

static void lines_of(struct text *out, const json_t *of) {
    static const char *const names[] = {"rate",   "good",  "late", "refused", "failed",
                                        "queued", "batch", "busy", "slo_ms"};
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        const json_t *value = json_object_get(of, names[i]);
        if (json_is_number(value))
            text_printf(out, " %s=%.6g", names[i], json_number_value(value));
    }
    const json_t *latency = json_object_get(of, "latency_ms");
    if (latency)
        text_printf(out, " p50_ms=%.4g p99_ms=%.4g", number(latency, "p50"), number(latency, "p99"));
    text_put_char(out, '\n');
}

void top_lines_put(struct text *out, const json_t *state, const char *time) {
    const json_t *advice = json_object_get(state, "advice"), *models = json_object_get(state, "models");
    text_printf(out, "%s all", time);
    if (json_object_get(advice, "needed"))
        text_printf(out, " needed=%.3g", number(advice, "needed"));
    if (advice)
        text_printf(out, " serving=%.0f", number(advice, "serving"));
    lines_of(out, json_object_get(state, "all"));
    for (size_t i = 0; i < json_array_size(models); i++) {
        text_printf(out, "%s model=%s", time, word(json_array_get(models, i), "name"));
        lines_of(out, json_array_get(models, i));
    }
}
