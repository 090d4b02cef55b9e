/* simulate_trace.c - a simulation as a timeline for Perfetto and chrome://tracing. */
#include "lab/report/simulate_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/time.h"
#include "front/net/metric_text.h"
#include "front/v2/json_put.h"

#define REFUSED_GROUP 1000 /* group of the rows for refused requests, after those of the types of accelerators */

struct simulate_trace_batch {
    int64_t begin_ns;
    uint32_t model, items;
    bool row, loads_row; /* whether the file has the accelerator's row of batches, and that of loads */
};

/* Every event is an object on a line of its own. */
static void event_begin(struct simulate_trace *t) {
    fputs(t->wrote ? ",\n" : "\n", t->to);
    t->wrote = true;
}

/* Microseconds with three digits: the nanoseconds, exactly. */
#define US_FORMAT "%lld.%03lld"
#define US_OF(ns) (long long)((ns) / NS_PER_US), (long long)((ns) % NS_PER_US)

static void name_event(struct simulate_trace *t, const char *kind, uint32_t group, uint32_t row, const char *name) {
    char room[256];
    struct text quoted;
    text_init(&quoted, room, sizeof(room));
    json_put_string(&quoted, name);
    event_begin(t);
    fprintf(t->to, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":%s}}", kind, group, row,
            text_end(&quoted));
    text_free(&quoted);
}

static void began(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items, int64_t end_ns) {
    struct simulate_trace *t = context;
    struct simulate_trace_batch *batch = &t->running[accelerator];
    uint32_t type = t->accelerator_type[accelerator];
    (void)end_ns; /* a fault may end it earlier */
    if (!batch->row) {
        char name[96];
        snprintf(name, sizeof(name), "%s %u", t->scenario->types[type].name, accelerator);
        name_event(t, "thread_name", type + 1, accelerator, name);
    }
    *batch = (struct simulate_trace_batch){now_ns, model, items, true, batch->loads_row};
}

static void ended(void *context, int64_t now_ns, uint32_t accelerator) {
    struct simulate_trace *t = context;
    const struct simulate_trace_batch *batch = &t->running[accelerator];
    int64_t run_ns = now_ns - batch->begin_ns;
    event_begin(t);
    fprintf(t->to,
            "{\"ph\":\"X\",\"name\":\"%s (%u)\",\"cat\":\"batch\",\"pid\":%u,\"tid\":%u,\"ts\":" US_FORMAT
            ",\"dur\":" US_FORMAT ",\"args\":{\"model\":\"%s\",\"size\":%u}}",
            t->scenario->models[batch->model].name, batch->items, t->accelerator_type[accelerator] + 1u, accelerator,
            US_OF(batch->begin_ns), US_OF(run_ns), t->scenario->models[batch->model].name, batch->items);
}

/* On a row of its own, since loads run beside batches. */
static void loaded(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, bool in, int64_t begin_ns) {
    struct simulate_trace *t = context;
    struct simulate_trace_batch *batch = &t->running[accelerator];
    uint32_t group = t->accelerator_type[accelerator] + 1u, row = t->accelerators + accelerator;
    int64_t took_ns = now_ns - begin_ns;
    if (!batch->loads_row) {
        char name[96];
        snprintf(name, sizeof(name), "%s %u, loads", t->scenario->types[group - 1].name, accelerator);
        name_event(t, "thread_name", group, row, name);
        batch->loads_row = true;
    }
    event_begin(t);
    fprintf(t->to,
            "{\"ph\":\"%s\",\"name\":\"%s %s\",\"cat\":\"load\",\"pid\":%u,\"tid\":%u,\"ts\":" US_FORMAT
            ",\"dur\":" US_FORMAT ",\"args\":{\"model\":\"%s\"}}",
            in ? "X" : "i", in ? "load" : "unload", t->scenario->models[model].name, group, row, US_OF(begin_ns),
            US_OF(took_ns), t->scenario->models[model].name);
}

static void refused(void *context, int64_t now_ns, uint32_t model, uint64_t handle, enum refusal reason) {
    struct simulate_trace *t = context;
    char words[32]; /* the metrics' label, with spaces */
    snprintf(words, sizeof(words), "%s", metric_refusal(reason));
    for (char *at = words; (at = strchr(at, '_'));)
        *at = ' ';
    if (!t->refused[model]) {
        name_event(t, "thread_name", REFUSED_GROUP, model, t->scenario->models[model].name);
        t->refused[model] = true;
    }
    event_begin(t);
    fprintf(t->to,
            "{\"ph\":\"i\",\"s\":\"t\",\"name\":\"dropped\",\"cat\":\"drop\",\"pid\":%u,\"tid\":%u,\"ts\":" US_FORMAT
            ",\"args\":{\"request\":%" PRIu64 ",\"reason\":\"%s\"}}",
            REFUSED_GROUP, model, US_OF(now_ns), sim_request_number(handle), words);
}

int simulate_trace_open(struct simulate_trace *t, const char *path, const struct scenario *scenario,
                        const struct sim_config *config, struct sy_error *err) {
    uint32_t accelerators = config->accelerators; /* all that there may be */
    *t = (struct simulate_trace){
        .scenario = scenario, .accelerator_type = config->accelerator_type, .accelerators = accelerators};
    t->observer =
        (struct sim_observer){.context = t, .refused = refused, .began = began, .ended = ended, .loaded = loaded};
    t->running = calloc(accelerators, sizeof(*t->running));
    t->refused = calloc(scenario->model_count, sizeof(*t->refused));
    int rc = t->running && t->refused ? 0 : -ENOMEM;
    if (!rc && !(t->to = fopen(path, "w")))
        rc = -errno;
    if (rc) {
        simulate_trace_close(t, path, NULL);
        return error_set(err, rc, "--trace: cannot write '%s': %s", path, strerror(-rc));
    }
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", t->to);
    for (uint32_t type = 0; type < scenario->type_count; type++)
        name_event(t, "process_name", type + 1, 0, scenario->types[type].name);
    name_event(t, "process_name", REFUSED_GROUP, 0, "dropped requests");
    return 0;
}

int simulate_trace_close(struct simulate_trace *t, const char *path, struct sy_error *err) {
    int rc = 0;
    if (t->to) {
        fputs("\n]}\n", t->to);
        rc = ferror(t->to) ? -EIO : 0;
        if (fclose(t->to))
            rc = -errno;
    }
    free(t->running);
    free(t->refused);
    *t = (struct simulate_trace){.to = NULL};
    return rc ? error_set(err, rc, "--trace: cannot write '%s': %s", path, strerror(-rc)) : 0;
}
