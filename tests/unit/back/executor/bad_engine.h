/* bad_engine.h - an engine that some inputs make fail, hang or break. What is asked of it stands in the inputs. */
#pragma once

#include <errno.h>
#include <sched.h>

#include "unit/back/executor/executor_rig.h"

/* First float of an item: */
#define BAD      1000 /* and up: the run fails, and says the number */
#define HANGS    2000 /* it does not come back until it is stopped, or bad.let_go */
#define DEAF     3000 /* nor when it is stopped */
#define BREAKS   4000 /* it fails, and so does every run from then on */
#define BAD_ENDS 5000

static struct {
    _Atomic int runs, trials; /* of clients' inputs, and others; since the rig was started */
    _Atomic bool stopped, let_go, hanging, broken;
    _Atomic int64_t fails_at_ns, fails_after_ns; /* runs that fail do not before that time, or so long a run */
    uint32_t sizes[64];                          /* of the first runs */
} bad;

struct engine {
    int unused;
};
struct engine_model {
    int unused;
};
static struct engine bad_engine_only;
static struct engine_model bad_model_only;

static inline const char *bad_version(void) {
    return "1";
}

static inline int bad_open(struct engine **engine, const struct engine_options *options, struct sy_error *err) {
    *engine = &bad_engine_only;
    return 0;
}

static inline void bad_close(struct engine *engine) {}

static inline int bad_load(struct engine *engine, const struct engine_model_source *source, struct engine_model **model,
                           struct sy_error *err) {
    *model = &bad_model_only;
    return 0;
}

static inline void bad_unload(struct engine_model *model) {}

static inline void bad_release(struct output_block *block) {
    free(block->outputs[0].data);
    free(block);
}

static inline int bad_hang(bool deaf, struct sy_error *err) {
    atomic_store(&bad.hanging, true);
    while (!atomic_load(&bad.let_go) && (deaf || !atomic_load(&bad.stopped)))
        sched_yield();
    atomic_store(&bad.hanging, false);
    return error_set(err, -EIO, "it was terminated");
}

static inline int bad_item(float x, struct sy_error *err) {
    if (x < BAD || x >= BAD_ENDS)
        return 0;
    if (x >= HANGS && x < BREAKS)
        return bad_hang(x >= DEAF, err);
    int64_t until_ns = clock_now_ns() + atomic_load(&bad.fails_after_ns);
    while (clock_now_ns() < until_ns || clock_now_ns() < atomic_load(&bad.fails_at_ns))
        sched_yield();
    if (x >= BREAKS)
        atomic_store(&bad.broken, true);
    return error_set(err, -EIO, "%g is out of range", (double)x);
}

/* y = 2x */
static inline int bad_run(struct engine_model *model, const struct tensor_view *inputs, uint32_t items,
                          struct output_block **outputs, struct sy_error *err) {
    const float *x = inputs[0].data;
    int rc = 0;

    if (x[0] < 1) { /* inputs of trials are less */
        atomic_fetch_add(&bad.trials, 1);
    } else {
        int run = atomic_fetch_add(&bad.runs, 1);
        if (run < 64)
            bad.sizes[run] = items;
    }
    if (atomic_load(&bad.stopped))
        return error_set(err, -EIO, "it was told to stop");
    if (atomic_load(&bad.broken))
        return error_set(err, -EIO, "the device is gone");
    for (uint32_t i = 0; i < items && rc == 0; i++)
        rc = bad_item(x[2 * i], err);
    if (rc < 0)
        return rc;
    *outputs = block_doubled(x, items, bad_release);
    return 0;
}

static inline int bad_signature(const char *path, const struct op_libraries *libraries,
                                struct signature_room *signature, struct sy_error *err) {
    return error_set(err, -ENOTSUP, "it has no files");
}

static inline void bad_stop(struct engine_model *model) {
    atomic_store(&bad.stopped, true);
}

static inline void bad_go_on(struct engine_model *model) {
    atomic_store(&bad.stopped, false);
}

static const struct engine_ops bad_engine = {
    .name = "bad",
    .version = bad_version,
    .open = bad_open,
    .close = bad_close,
    .load = bad_load,
    .unload = bad_unload,
    .run = bad_run,
    .signature = bad_signature,
    .stop = bad_stop,
    .go_on = bad_go_on,
};

#define CROWD_MAX BATCH_MAX

/* Requests of one item each. */
struct crowd {
    struct rig_request requests[CROWD_MAX], *pointers[CROWD_MAX];
    float data[CROWD_MAX][2];
    uint32_t count;
};

static inline void crowd_make(struct crowd *c, const float *firsts, uint32_t count, int64_t deadline_ns) {
    c->count = count;
    for (uint32_t i = 0; i < count; i++) {
        c->data[i][0] = firsts[i];
        c->data[i][1] = (float)i;
        request_make(&c->requests[i], c->data[i], 1, deadline_ns);
        c->pointers[i] = &c->requests[i];
    }
}

/* As many answers as there are requests, in any order. */
static inline void crowd_take(struct rig *rig, const struct crowd *c) {
    for (uint32_t i = 0; i < c->count; i++)
        take_result(rig);
}

/* What the scheduler is told of a batch: that it is over, and nothing to learn from. */
static inline void take_unlike(struct rig *rig) {
    struct freed_message freed;
    struct ran_message ran;

    take(&rig->wiring.freed[0], &freed);
    assert_int_equal(freed.news, NEWS_ENDED);
    assert_true(freed.unlike);
    take(&rig->wiring.ran[0], &ran);
    assert_int_equal(ran.run_ns, 0);
    assert_int_equal(ran.gather_ns, 0);
    assert_int_equal(ran.dispatch_ns, -1);
    assert_int_equal(ran.late, 0);
}

static inline void expect_ok(struct rig_request *r) {
    assert_int_equal(r->result.status, REQUEST_OK);
    const float *y = (const float *)r->result.block->outputs[0].data + 2 * r->result.first_item;
    const float *x = request_data(r);
    assert_true(y[0] == 2 * x[0] && y[1] == 2 * x[1]);
    output_block_put(r->result.block);
}

static inline void expect_failed(const struct rig_request *r, const char *failure) {
    assert_int_equal(r->result.status, REQUEST_FAILED);
    assert_string_equal(r->result.block->failure, failure);
    output_block_put(r->result.block);
}

/* One good request on its own. */
static inline void expect_serving(struct rig *rig) {
    struct crowd c;
    struct ran_message ran;

    crowd_make(&c, (const float[]){1}, 1, later());
    run_plan(rig, c.pointers, 1);
    take_report(rig, &ran);
    crowd_take(rig, &c);
    expect_ok(&c.requests[0]);
}

static inline struct rig *bad_rig_start(const struct engine_ops *engine) {
    atomic_store(&bad.stopped, false);
    atomic_store(&bad.let_go, false);
    atomic_store(&bad.broken, false);
    atomic_store(&bad.fails_at_ns, 0);
    atomic_store(&bad.fails_after_ns, 0);
    struct rig *rig = rig_start_with(engine);
    atomic_store(&bad.runs, 0);
    atomic_store(&bad.trials, 0);
    return rig;
}
