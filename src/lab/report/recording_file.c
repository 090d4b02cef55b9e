/* recording_file.c - takes a server's recording apart. */
#include "lab/report/recording_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD           "symphony recording 1\n"
#define LOOK_FIGURES   6
#define FIGURE_MOST    1e15 /* largest figure; JSON's numbers hold it exactly */
#define WRONG_DOCUMENT "this is no recording of a server's: expected "

/* ---- the sections ---- */

/* The beginning of the next section behind `at`, after its heading; *end: the end of the section before it. NULL: there
 * is none. */
static const char *section_find(const char *at, const char *text_end, const char *heading, const char **end) {
    const char *found = at < text_end ? memmem(at, (size_t)(text_end - at), heading, strlen(heading)) : NULL;
    *end = found ? found + 1 : NULL; /* the heading begins with the end of a line */
    return found ? found + strlen(heading) : NULL;
}

/* ---- the server ---- */

static double figure_of(const json_t *json) {
    double value = json_number_value(json);
    return value >= 0 && value <= FIGURE_MOST ? value : 0;
}

static bool look_read(const json_t *json, struct recording_counts *look) {
    if (json_array_size(json) != LOOK_FIGURES)
        return false;
    const json_t *wanted = json_array_get(json, 4);
    *look = (struct recording_counts){
        .at_s = figure_of(json_array_get(json, 0)),
        .requests = (uint64_t)figure_of(json_array_get(json, 1)),
        .bad = (uint64_t)figure_of(json_array_get(json, 2)),
        .needed = figure_of(json_array_get(json, 3)),
        .wanted = json_is_number(wanted) ? (int64_t)figure_of(wanted) : -1,
        .present = (uint32_t)(uint64_t)figure_of(json_array_get(json, 5)),
    };
    return true;
}

static int looks_read(const json_t *looks, struct recording_file *f, struct sy_error *err) {
    size_t count = json_array_size(looks);
    f->looks = calloc(count + 1, sizeof(*f->looks));
    if (!f->looks)
        return error_set(err, -ENOMEM, "no memory for the recording");
    for (size_t i = 0; i < count; i++)
        if (!look_read(json_array_get(looks, i), &f->looks[f->look_count++]))
            return error_set(err, -EINVAL, WRONG_DOCUMENT "%d figures in each of its server's looks", LOOK_FIGURES);
    return 0;
}

static int server_read(const char *text, size_t bytes, struct recording_file *f, struct sy_error *err) {
    json_error_t why;
    json_t *server = json_loadb(text, bytes, 0, &why);
    if (!json_is_object(server)) {
        json_decref(server);
        return error_set(err, -EINVAL, WRONG_DOCUMENT "an object behind '--- server' (%.100s)", why.text);
    }
    const char *version = json_string_value(json_object_get(server, "version"));
    snprintf(f->version, sizeof(f->version), "%s", version ? version : "");
    f->cluster = json_is_true(json_object_get(server, "cluster"));
    f->seconds = figure_of(json_object_get(server, "seconds"));
    f->requests = (uint64_t)figure_of(json_object_get(server, "requests"));
    f->overwritten = (uint64_t)figure_of(json_object_get(server, "overwritten"));
    f->unknown = (uint64_t)figure_of(json_object_get(server, "unknown"));
    int rc = looks_read(json_object_get(server, "looks"), f, err);
    json_decref(server);
    return rc;
}

int recording_file_read(const char *text, size_t bytes, struct recording_file *f, struct sy_error *err) {
    const char *text_end = text + bytes, *head_end, *server_end, *scenario_end;
    *f = (struct recording_file){.seconds = 0};
    if (bytes < strlen(HEAD) || memcmp(text, HEAD, strlen(HEAD)) != 0)
        return error_set(err, -EINVAL, WRONG_DOCUMENT "the first line 'symphony recording 1'");
    const char *server = section_find(text + strlen(HEAD) - 1, text_end, "\n--- server\n", &head_end);
    const char *scenario = server ? section_find(server, text_end, "\n--- scenario\n", &server_end) : NULL;
    const char *trace = scenario ? section_find(scenario, text_end, "\n--- trace\n", &scenario_end) : NULL;
    if (!trace)
        return error_set(err, -EINVAL, WRONG_DOCUMENT "a line '--- %s'",
                         !server     ? "server"
                         : !scenario ? "scenario"
                                     : "trace");
    f->scenario = scenario;
    f->scenario_bytes = (size_t)(scenario_end - scenario);
    f->trace = trace;
    f->trace_bytes = (size_t)(text_end - trace);
    int rc = server_read(server, (size_t)(server_end - server), f, err);
    if (rc)
        recording_file_free(f);
    return rc;
}

void recording_file_free(struct recording_file *f) {
    free(f->looks);
    *f = (struct recording_file){.seconds = 0};
}

/* ---- the trace ---- */

/* The field behind the next comma of a line; NULL if there is none. */
static const char *field_next(const char *at, const char *end) {
    const char *comma = memchr(at, ',', (size_t)(end - at));
    return comma ? comma + 1 : NULL;
}

static bool name_is(const char *name, const char *field, size_t length) {
    return strlen(name) == length && memcmp(name, field, length) == 0;
}

struct copying {
    const struct recording_slo *slos;
    uint32_t count;
    bool plain;
};

/* seconds,model,items,slo_ms,priority: other lines are copied as they are. */
static void line_copy(const char *line, const char *end, const struct copying *c, struct text *out) {
    const char *model = field_next(line, end), *items = model ? field_next(model, end) : NULL;
    const char *slo = items ? field_next(items, end) : NULL, *priority = slo ? field_next(slo, end) : NULL;
    if (priority && *line >= '0' && *line <= '9' && !name_is("best_effort", priority, (size_t)(end - priority))) {
        const struct recording_slo *chosen = NULL;
        for (uint32_t i = 0; i < c->count; i++)
            if (!c->slos[i].model || name_is(c->slos[i].model, model, (size_t)(items - 1 - model)))
                chosen = &c->slos[i];
        text_append(out, line, (size_t)((chosen ? slo : priority) - line));
        if (chosen)
            text_printf(out, "%.9g,", chosen->slo_ms);
        line = c->plain ? end : priority;
    }
    text_append(out, line, (size_t)(end - line));
    text_put_char(out, '\n');
}

void recording_trace_copy(const struct recording_file *f, const struct recording_slo *slos, uint32_t count, bool plain,
                          struct text *out) {
    const struct copying copying = {slos, count, plain};
    const char *at = f->trace, *text_end = f->trace + f->trace_bytes;
    while (at < text_end) {
        const char *end = memchr(at, '\n', (size_t)(text_end - at));
        end = end ? end : text_end;
        line_copy(at, end, &copying, out);
        at = end + 1;
    }
}

void recording_scenario_copy(const struct recording_file *f, bool plain, struct text *out) {
    static const char key[] = ", priorities: [";
    const char *at = f->scenario, *end = at + f->scenario_bytes, *found, *over;
    while (plain && (found = memmem(at, (size_t)(end - at), key, strlen(key))) &&
           (over = memchr(found, ']', (size_t)(end - found)))) {
        text_append(out, at, (size_t)(found - at));
        at = over + 1;
    }
    text_append(out, at, (size_t)(end - at));
}
