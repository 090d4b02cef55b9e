/* executor_shared.c - runs a batch to models that share a prefix: the prefix once for all its requests, then each
 * model's suffix for its own (Nexus, SOSP 2019, section 6.3).
 *
 *     handles, by suffix   | A A A A A | B B | C |
 *     prefix               |         8 items     |
 *     suffixes             | A, 5      | B,2 |C,1|   views of the prefix's outputs, which are not copied
 *
 * If a run hangs, its first request (batch.reading) stays with its frontend until the run is over. That keeps the
 * model's suffix and the prefix from being freed.
 *
 * Each run is watched by itself, as a run of a whole model is. If one run fails, the requests of all suffixes have
 * failed together, and are then run in sub-batches (executor_run.c). */
#include <errno.h>

#include "back/executor/executor_state.h"

/* A batch under way. It is on the thread's stack, since a thread that has lost the executor must not touch the
 * executor. */
struct shared {
    struct executor *x;
    const struct batch_plan *subbatch;
    const struct tensor_view *inputs; /* inputs of the whole models */
    const struct served_part *prefix;
    struct output_block *between; /* outputs of the prefix; NULL: none yet */
    uint32_t items;
    int64_t limit_ns; /* limit of each run */
    struct run_slice slices[PART_SUFFIXES_MAX];
    uint32_t slice_count;
};

/* The suffix that a request takes, by its number. */
static uint32_t request_suffix(const struct executor *x, uint64_t handle) {
    return wiring_card(x->wiring, handle)->suffix;
}

void suffixes_order(struct executor *x, uint32_t from, uint32_t to) {
    uint32_t at[PART_SUFFIXES_MAX + 1] = {0};
    uint64_t *handles = x->batch.handles, *sorted = x->batch.subbatch->handles; /* unused until a sub-batch is made */

    for (uint32_t k = from; k < to; k++)
        at[request_suffix(x, handles[k]) + 1]++;
    for (uint32_t s = 0; s < PART_SUFFIXES_MAX; s++)
        at[s + 1] += at[s];
    for (uint32_t k = from; k < to; k++)
        sorted[at[request_suffix(x, handles[k])]++] = handles[k];
    memcpy(handles + from, sorted, (to - from) * sizeof(*handles));
}

static void blocks_put(struct shared *s) {
    output_block_put(s->between);
    s->between = NULL;
    while (s->slice_count > 0)
        output_block_put(s->slices[--s->slice_count].block);
}

/* One run of the engine. With SHARED_LOST everything is freed, and the thread's watch is given back. */
static enum shared_end part_run(struct shared *s, struct engine_model *model, const struct tensor_view *inputs,
                                uint32_t items, struct output_block **block, struct sy_error *err) {
    const struct engine_ops *engine = s->x->config.engine; /* used when this thread may have lost the executor */

    *block = NULL;
    if (!model)
        return SHARED_ABSENT;
    struct run_watch *watch = run_begin(s->x, model, s->limit_ns);
    int rc = engine->run(model, inputs, items, block, err);
    enum run_end end = run_over(watch, engine, model);
    if (rc < 0)
        *block = NULL;
    if (end == RUN_LOST) {
        output_block_put(*block);
        blocks_put(s);
        if (engine->go_on)
            engine->go_on(model); /* the requests keep the models from being freed */
        run_back(watch);
        return SHARED_LOST;
    }
    if (end == RUN_STOPPED) {
        output_block_put(*block);
        *block = NULL;
        return SHARED_STOPPED;
    }
    for (uint32_t i = 0; rc == 0 && i < (*block)->output_count; i++) {
        int64_t rows = tensor_row_count(&(*block)->outputs[i]);
        if (rows != items)
            rc = error_set(err, -EIO, "an output has %lld rows for a batch of %u", (long long)rows, items);
    }
    if (rc < 0) {
        output_block_put(*block);
        *block = NULL;
    }
    return rc < 0 ? SHARED_FAILED : SHARED_DONE;
}

/* Runs the suffix of the requests from `first` on, whose items begin at `item`. Its slice is the next one. */
static enum shared_end suffix_run(struct shared *s, uint32_t first, uint32_t item, struct sy_error *err) {
    const struct executor *x = s->x;
    struct run_slice *slice = &s->slices[s->slice_count];
    uint32_t suffix = request_suffix(x, s->subbatch->handles[first]);
    uint32_t place = x->config.models[s->subbatch->place.n].suffixes[suffix];
    struct tensor_view views[TENSORS_MAX];

    *slice = (struct run_slice){.block = NULL};
    for (uint32_t k = first; k < s->subbatch->request_count && request_suffix(x, s->subbatch->handles[k]) == suffix;
         k++) {
        slice->requests++;
        slice->items += wiring_card(x->wiring, s->subbatch->handles[k])->items;
    }
    if (!x->models[place].model)
        return SHARED_ABSENT;
    const struct served_part *own = x->config.models[place].part;
    for (uint32_t i = 0; i < own->signature.input_count; i++) {
        const struct tensor_view *all =
            own->takes[i] == PART_OWN ? &s->inputs[own->own[i]] : &s->between->outputs[own->takes[i]];
        if (slice->items == s->items)
            views[i] = *all;
        else if (tensor_rows(all, item, slice->items, &views[i]) < 0) {
            error_set(err, -EIO, "'%s' has no %u rows", own->signature.inputs[i].name, item + slice->items);
            return SHARED_FAILED;
        }
    }
    s->x->batch.reading = first;
    enum shared_end end = part_run(s, x->models[place].model, views, slice->items, &slice->block, err);
    s->slice_count += end == SHARED_DONE;
    return end;
}

enum shared_end shared_run(struct executor *x, const struct batch_plan *subbatch, const struct tensor_view *inputs,
                           struct run_result *result) {
    uint32_t items = batch_items(x, subbatch), item = 0, first = 0;
    struct shared s;

    s.x = x;
    s.subbatch = subbatch;
    s.inputs = inputs;
    s.prefix = x->config.models[subbatch->place.n].part;
    s.between = NULL;
    s.items = items;
    s.limit_ns = run_limit(x, subbatch->place, items, wiring_card(x->wiring, subbatch->handles[0])->work);
    s.slice_count = 0;
    struct tensor_view views[TENSORS_MAX]; /* of the prefix's inputs */
    for (uint32_t i = 0; i < s.prefix->signature.input_count; i++)
        views[i] = inputs[s.prefix->takes[i]];
    enum shared_end end = part_run(&s, x->models[subbatch->place.n].model, views, items, &s.between, &result->error);
    while (end == SHARED_DONE && first < subbatch->request_count) {
        end = suffix_run(&s, first, item, &result->error);
        if (end == SHARED_DONE) {
            first += s.slices[s.slice_count - 1].requests;
            item += s.slices[s.slice_count - 1].items;
        }
    }
    if (end == SHARED_LOST)
        return end;
    if (end != SHARED_DONE) {
        blocks_put(&s);
        return end;
    }
    output_block_put(s.between);
    memcpy(x->batch.slices, s.slices, s.slice_count * sizeof(s.slices[0]));
    result->slices = x->batch.slices;
    result->slice_count = s.slice_count;
    return end;
}
