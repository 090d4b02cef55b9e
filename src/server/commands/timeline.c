/* timeline.c - `symphony timeline`: what the accelerators of a server did lately, as a file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/system/log.h"
#include "server/commands/cli.h"
#include "server/commands/metrics_visit.h"

struct timeline_settings {
    struct metrics_visit_settings visit;
    int64_t seconds;
    const char *out;
};

static const struct option_row rows[] = {
    OPTION_INT(struct timeline_settings, seconds, "seconds", "S", 1, 3600, "how much of the past"),
    OPTION_TEXT(struct timeline_settings, out, "out", "FILE", "write there (or -o FILE), not to standard output"),
    METRICS_VISIT_OPTIONS(struct timeline_settings, visit),
    METRICS_VISIT_TIMEOUT(struct timeline_settings, visit),
    OPTION_END,
};

static const struct options options = {
    .command = "timeline",
    .usage = "URL [OPTION]...",
    .intro =
        "Writes what each accelerator of a server did in the last seconds: its batches (model, size, predicted and "
        "taken\n"
        "time), loads, and why it was idle. The file is for https://ui.perfetto.dev or chrome://tracing, as that of\n"
        "'symphony simulate --trace'. Of a scheduler: those of all its backends in one file, by the scheduler's "
        "clock.\n" METRICS_VISIT_URL,
    .notes = "Example:\n"
             "  symphony timeline localhost --seconds 5 --out now.json",
    .rows = rows,
    .args_min = 1,
    .args_max = 1,
    .args_name = "URL",
};

static void write_out(void *context, const char *data, size_t bytes) {
    fwrite(data, 1, bytes, context);
}

/* ---- several processes of a cluster, as one file ---- */

#define GROUPS_EACH 1000 /* numbers of a process's groups of rows */

/* A file that is written from the answers of several. */
struct merged {
    FILE *to;
    const struct timeline_settings *settings;
    int answers, events;
    double zero_us; /* time of the scheduler's clock that is 0 in the file */
};

/* Adds the events of a backend. */
static void events_put(struct merged *m, const json_t *answer, const char *name, double ahead_us) {
    double zero_us = json_number_value(json_object_get(json_object_get(answer, "otherData"), "zero_us")) - ahead_us;
    size_t i;
    json_t *event;
    if (m->answers++ == 0)
        m->zero_us = zero_us;
    json_array_foreach(json_object_get(answer, "traceEvents"), i, event) {
        const json_t *at = json_object_get(event, "ts");
        json_int_t group = json_integer_value(json_object_get(event, "pid"));
        json_object_set_new(event, "pid", json_integer(m->answers * GROUPS_EACH + group));
        if (at)
            json_object_set_new(event, "ts", json_real(json_number_value(at) + zero_us - m->zero_us));
        else if (strcmp(json_string_value(json_object_get(event, "name")) ?: "", "process_name") == 0) {
            json_t *args = json_object_get(event, "args");
            json_object_set_new(args, "name",
                                json_sprintf("%s: %s", name, json_string_value(json_object_get(args, "name")) ?: ""));
        }
        fputs(m->events++ ? ",\n" : "\n", m->to);
        json_dumpf(event, m->to, JSON_COMPACT | JSON_REAL_PRECISION(15));
    }
}

/* Asks each backend of the scheduler whose `links` these are, over the scheme of its URL. Those that do not answer are
 * left out, which is said. */
static int links_put(struct merged *m, const char *path, const char *url, const json_t *links, struct sy_error *err) {
    const char *scheme = strncmp(url, "https://", 8) == 0 ? "https://" : "http://";
    size_t i;
    json_t *link;
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", m->to);
    error_set(err, -ENOENT, "no backend has told this scheduler where its metrics are");
    json_array_foreach(links, i, link) {
        const char *at = json_string_value(json_object_get(link, "metrics"));
        const char *name = json_string_value(json_object_get(link, "name"));
        char backend[256];
        struct metrics_visit *visit = NULL;
        json_t *answer = NULL;
        if (!at || strcmp(json_string_value(json_object_get(link, "role")) ?: "", "backend") != 0)
            continue;
        snprintf(backend, sizeof(backend), "%s%s", scheme, at);
        int rc = metrics_visit_open(&visit, &m->settings->visit, backend, err);
        rc = rc < 0 ? rc : metrics_visit_json(visit, path, &answer, err);
        metrics_visit_close(visit);
        if (rc < 0)
            fprintf(stderr, "symphony timeline: without %s: %s\n", name, err->text);
        else
            events_put(m, answer, name, 1e6 * json_number_value(json_object_get(link, "clock_ahead_s")));
        json_decref(answer);
    }
    fputs("\n]}\n", m->to);
    return m->answers > 0 ? 0 : -ENOENT;
}

static int timeline_run(int argc, char **argv) {
    struct timeline_settings settings = {.visit = {.timeout_s = 10}, .seconds = 5};
    struct metrics_visit *visit = NULL;
    json_t *state = NULL;
    struct sy_error err;
    char path[64];
    for (int i = 1; i < argc; i++) /* as other programs call it */
        if (strcmp(argv[i], "-o") == 0)
            argv[i] = "--out";
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);
    if (status != OPTIONS_GO_ON)
        return status;
    FILE *to = settings.out ? fopen(settings.out, "w") : stdout;
    if (!to)
        return cli_usage_error("timeline", "cannot write '%s': %s", settings.out, strerror(errno));
    log_set_level(LOG_WARN);
    snprintf(path, sizeof(path), "/v2/symphony/timeline?seconds=%lld", (long long)settings.seconds);
    int rc = metrics_visit_open(&visit, &settings.visit, argv[1], &err);
    rc = rc < 0 ? rc : metrics_visit_json(visit, "/v2/symphony/state?limit=0&accelerators=0", &state, &err);
    const json_t *cluster = json_object_get(state, "cluster");
    if (rc == 0 && strcmp(json_string_value(json_object_get(cluster, "role")) ?: "", "scheduler") == 0) {
        struct merged merged = {.to = to, .settings = &settings};
        rc = links_put(&merged, path, argv[1], json_object_get(cluster, "links"), &err);
    } else if (rc == 0) {
        rc = metrics_visit_ask(visit, path, write_out, to, &err);
        for (bool goes_on = rc == 0; goes_on; goes_on = rc > 0)
            rc = metrics_visit_wait(visit, -1, 1000, &err);
    }
    json_decref(state);
    metrics_visit_close(visit);
    bool wrote = !ferror(to);
    if (settings.out && fclose(to))
        wrote = false;
    if (rc == 0 && !wrote)
        rc = error_set(&err, -EIO, "cannot write '%s'", settings.out ? settings.out : "to standard output");
    if (rc < 0)
        fprintf(stderr, "symphony timeline: %s\n", err.text);
    return rc == 0 ? CLI_OK : rc == -EINVAL ? CLI_USAGE : CLI_FAILURE;
}

const struct cli_command cli_timeline = {
    .name = "timeline",
    .summary = "what the accelerators of a server did lately, as a file for Perfetto",
    .run = timeline_run,
};
