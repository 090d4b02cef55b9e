/* simulate_trace.c - a simulation as a timeline for Perfetto and chrome://tracing. */
#include "lab/report/simulate_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "front/net/metric_text.h"

#define FLUSH_BYTES   65536
#define REFUSED_GROUP 1000 /* group of the rows for refused requests, after those of the types of accelerators */

struct simulate_trace_batch {
    int64_t begin_ns;
    uint32_t model, items;
    bool row, loads_row; /* whether the file has the accelerator's row of batches, and that of loads */
};

/* Writes what is there to the file; all of it at the end. */
static void flush(struct simulate_trace *t, size_t least) {
    if (t->out.length < least)
        return;
    fwrite(t->out.data, 1, t->out.length, t->to);
    t->out.length = 0;
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
    *batch = (struct simulate_trace_batch){now_ns, model, items, true, batch->loads_row};
}

static void ended(void *context, int64_t now_ns, uint32_t accelerator) {
    struct simulate_trace *t = context;
    const struct simulate_trace_batch *batch = &t->running[accelerator];
    const struct trace_batch over = {.model = t->scenario->models[batch->model].name,
                                     .items = batch->items,
                                     .start_ns = batch->begin_ns,
                                     .took_ns = now_ns - batch->begin_ns};
    trace_batch(&t->trace, t->accelerator_type[accelerator] + 1u, accelerator, &over);
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
    trace_begin(&t->trace, &t->out);
    for (uint32_t type = 0; type < scenario->type_count; type++)
        trace_name_group(&t->trace, type + 1, scenario->types[type].name);
    trace_name_group(&t->trace, REFUSED_GROUP, "dropped requests");
    return 0;
}

int simulate_trace_close(struct simulate_trace *t, const char *path, struct sy_error *err) {
    int rc = 0;
    if (t->to) {
        trace_end(&t->trace);
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
