/* simulate_trace.c - a simulation as a timeline for Perfetto and chrome://tracing. */
#include "lab/report/simulate_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/timeline.h"
#include "front/net/metric_text.h"

#define FLUSH_BYTES   65536
#define REFUSED_GROUP 1000 /* group of the rows for refused requests, after those of the types of accelerators */

/* An accelerator, with its running or last batch. */
struct simulate_trace_batch {
    int64_t begin_ns, came_ns, ready_ns, expected_ns; /* as sim_observer.waited says */
    int64_t over_ns;                                  /* end of the batch before; IDLE_SINCE: not known */
    uint32_t model, items;
    bool row, loads_row; /* whether the file has the accelerator's row of batches, and that of loads */
    struct timeline_loads loads;
};
#define IDLE_SINCE (-1)

/* Writes what is there to the file; all of it at the end. */
static void flush(struct simulate_trace *t, size_t least) {
    if (t->out.length < least)
        return;
    fwrite(t->out.data, 1, t->out.length, t->to);
    t->out.length = 0;
}

static void waited(void *context, uint32_t accelerator, int64_t came_ns, int64_t ready_ns, int64_t expected_ns) {
    struct simulate_trace_batch *batch = &((struct simulate_trace *)context)->running[accelerator];
    batch->came_ns = came_ns;
    batch->ready_ns = ready_ns;
    batch->expected_ns = expected_ns;
}

/* Why the accelerator was idle until now, in the words of a server's timeline. */
static void idle_put(struct simulate_trace *t, int64_t now_ns, uint32_t accelerator) {
    const struct simulate_trace_batch *batch = &t->running[accelerator];
    uint32_t came_us = time_us_between(batch->came_ns, now_ns);
    const struct timeline_entry entry = {.start_ns = now_ns,
                                         .model_key = batch->model,
                                         .came_us = came_us ? came_us : 1, /* 0: not known */
                                         .ready_us = time_us_between(batch->ready_ns, now_ns)};
    struct idle_part parts[IDLE_WHYS];
    uint32_t count = timeline_idle(batch->over_ns, &entry, timeline_loads_find(&batch->loads, batch->model), parts);
    for (uint32_t i = 0; i < count && batch->over_ns != IDLE_SINCE; i++)
        if (parts[i].until_ns - parts[i].from_ns >= IDLE_LEAST_NS)
            trace_idle(&t->trace, t->accelerator_type[accelerator] + 1u, accelerator, idle_why_name(parts[i].why),
                       parts[i].from_ns, parts[i].until_ns - parts[i].from_ns);
}

static void began(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items, int64_t end_ns) {
    struct simulate_trace *t = context;
    struct simulate_trace_batch *batch = &t->running[accelerator];
    uint32_t type = t->accelerator_type[accelerator];
    (void)end_ns; /* a fault may end it earlier */
    if (!batch->row) {
        char name[96];
        snprintf(name, sizeof(name), "%s %u", t->scenario->types[type].name, accelerator);
        trace_name_row(&t->trace, type + 1, accelerator, name);
    }
    batch->row = true;
    batch->begin_ns = now_ns;
    batch->model = model;
    batch->items = items;
    idle_put(t, now_ns, accelerator);
}

static void ended(void *context, int64_t now_ns, uint32_t accelerator) {
    struct simulate_trace *t = context;
    struct simulate_trace_batch *batch = &t->running[accelerator];
    const struct trace_batch over = {.model = t->scenario->models[batch->model].name,
                                     .items = batch->items,
                                     .start_ns = batch->begin_ns,
                                     .took_ns = now_ns - batch->begin_ns,
                                     .predicted_ns = batch->expected_ns};
    trace_batch(&t->trace, t->accelerator_type[accelerator] + 1u, accelerator, &over);
    batch->over_ns = now_ns;
    flush(t, FLUSH_BYTES);
}

/* On a row of its own, since loads run beside batches. */
static void loaded(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, bool in, int64_t begin_ns) {
    struct simulate_trace *t = context;
    struct simulate_trace_batch *batch = &t->running[accelerator];
    uint32_t group = t->accelerator_type[accelerator] + 1u, row = t->accelerators + accelerator;
    if (!batch->loads_row) {
        char name[96];
        snprintf(name, sizeof(name), "%s %u, loads", t->scenario->types[group - 1].name, accelerator);
        trace_name_row(&t->trace, group, row, name);
        batch->loads_row = true;
    }
    if (in)
        timeline_loads_note(&batch->loads, &(struct timeline_entry){.start_ns = begin_ns,
                                                                    .took_us = time_us_between(begin_ns, now_ns),
                                                                    .model_key = model,
                                                                    .kind = TIMELINE_LOAD});
    trace_load(&t->trace, group, row, t->scenario->models[model].name, in, begin_ns, now_ns - begin_ns);
    flush(t, FLUSH_BYTES);
}

static void refused(void *context, int64_t now_ns, uint32_t model, uint64_t handle, enum refusal reason) {
    struct simulate_trace *t = context;
    char words[32]; /* the metrics' label, with spaces */
    snprintf(words, sizeof(words), "%s", metric_refusal(reason));
    for (char *at = words; (at = strchr(at, '_'));)
        *at = ' ';
    if (!t->refused[model]) {
        trace_name_row(&t->trace, REFUSED_GROUP, model, t->scenario->models[model].name);
        t->refused[model] = true;
    }
    trace_refused(&t->trace, REFUSED_GROUP, model, now_ns, sim_request_number(handle), words);
    flush(t, FLUSH_BYTES);
}

int simulate_trace_open(struct simulate_trace *t, const char *path, const struct scenario *scenario,
                        const struct sim_config *config, struct sy_error *err) {
    uint32_t accelerators = config->accelerators; /* all that there may be */
    *t = (struct simulate_trace){
        .scenario = scenario, .accelerator_type = config->accelerator_type, .accelerators = accelerators};
    t->observer = (struct sim_observer){
        .context = t, .refused = refused, .waited = waited, .began = began, .ended = ended, .loaded = loaded};
    t->running = calloc(accelerators, sizeof(*t->running));
    t->refused = calloc(scenario->model_count, sizeof(*t->refused));
    int rc = t->running && t->refused ? 0 : -ENOMEM;
    if (!rc && !(t->to = fopen(path, "w")))
        rc = -errno;
    if (rc) {
        simulate_trace_close(t, path, NULL);
        return error_set(err, rc, "--trace: cannot write '%s': %s", path, strerror(-rc));
    }
    uint32_t left[ACCELERATOR_TYPES_MAX];
    memcpy(left, config->accelerators_first, sizeof(left));
    for (uint32_t a = 0; config->autoscale && a < accelerators; a++) {
        if (left[config->accelerator_type[a]])
            left[config->accelerator_type[a]]--;
        else
            t->running[a].over_ns = IDLE_SINCE; /* it is not there at the start */
    }
    trace_begin(&t->trace, &t->out);
    for (uint32_t type = 0; type < scenario->type_count; type++)
        trace_name_group(&t->trace, type + 1, scenario->types[type].name);
    trace_name_group(&t->trace, REFUSED_GROUP, "dropped requests");
    return 0;
}

int simulate_trace_close(struct simulate_trace *t, const char *path, struct sy_error *err) {
    int rc = 0;
    if (t->to) {
        trace_end(&t->trace, TIME_NEVER);
        flush(t, 0);
        rc = t->out.failed ? -ENOMEM : ferror(t->to) ? -EIO : 0;
        if (fclose(t->to))
            rc = -errno;
    }
    text_free(&t->out);
    free(t->running);
    free(t->refused);
    *t = (struct simulate_trace){.to = NULL};
    return rc ? error_set(err, rc, "--trace: cannot write '%s': %s", path, strerror(-rc)) : 0;
}
