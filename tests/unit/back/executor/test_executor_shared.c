/* test_executor_shared.c - batches to models that share a prefix: each request gets what its own model makes of it. */
/* Starts threads. */
#include "unit/test.h"

#include <errno.h>
#include <sched.h>

#include "specs.h"
#include "unit/back/executor/executor_rig.h"

/* The prefix adds 1. Suffix A multiplies that by 10, B by 100, C takes the whole's input from it. Inputs of trials are
 * under 1. */
#define BAD      1000 /* the first float of an item: B's run fails */
#define HANGS    2000 /* B's run does not come back until it is let go */
#define PLACES   4    /* the prefix, A, B, C */
#define RUNS_MAX 64

enum { A, B, C };

struct engine {
    int unused;
};
struct engine_model {
    char kind;
};

static struct engine only;
static struct engine_model kinds[PLACES] = {{'p'}, {'A'}, {'B'}, {'C'}};
static struct {
    char kind[RUNS_MAX];
    uint32_t items[RUNS_MAX], count, blocks;
    _Atomic bool hanging, let_go;
} ran; /* written by the executor before it answers */

static const char *version(void) {
    return "1";
}

static int open_engine(struct engine **engine, const struct engine_options *options, struct sy_error *err) {
    *engine = &only;
    return 0;
}

static void close_engine(struct engine *engine) {}

static int load(struct engine *engine, const struct engine_model_source *source, struct engine_model **model,
                struct sy_error *err) {
    if (source->path[0] == 'x')
        return error_set(err, -EINVAL, "it does not load");
    for (uint32_t i = 0; i < PLACES; i++)
        if (kinds[i].kind == source->path[0])
            *model = &kinds[i];
    return 0;
}

static void unload(struct engine_model *model) {}

static void release(struct output_block *block) {
    ran.blocks--;
    free(block->outputs[0].data);
    free(block);
}

static float computed(char kind, float given, float own) {
    return kind == 'p' ? given + 1 : kind == 'A' ? 10 * given : kind == 'B' ? 100 * given : given - own;
}

static int run(struct engine_model *model, const struct tensor_view *inputs, uint32_t items,
               struct output_block **outputs, struct sy_error *err) {
    const float *x = inputs[0].data, *own = model->kind == 'C' ? inputs[1].data : x;
    if (x[0] >= 1 && ran.count < RUNS_MAX) {
        ran.kind[ran.count] = model->kind;
        ran.items[ran.count++] = items;
    }
    while (model->kind == 'B' && x[0] >= HANGS && !atomic_load(&ran.let_go)) {
        atomic_store(&ran.hanging, true);
        sched_yield();
    }
    for (uint32_t i = 0; i < items && model->kind == 'B'; i++)
        if (x[2 * i] >= BAD)
            return error_set(err, -EIO, "%g is out of range", (double)x[2 * i]);
    struct output_block *block = calloc(1, sizeof(*block));
    float *y = malloc(items * 2 * sizeof(float));
    for (uint32_t i = 0; i < items * 2; i++)
        y[i] = computed(model->kind, x[i], own[i]);
    *block = (struct output_block){.output_count = 1, .release = release};
    atomic_init(&block->references, 1);
    block->outputs[0] = (struct tensor_view){.data = y, .bytes = items * 8, .dim_count = 2, .dims = {items, 2}};
    *outputs = block;
    ran.blocks++;
    return 0;
}

static int signature(const char *path, const struct op_libraries *libraries, struct signature_room *found,
                     struct sy_error *err) {
    return error_set(err, -ENOTSUP, "not asked for");
}

static const struct engine_ops engine = {
    .name = "test",
    .version = version,
    .open = open_engine,
    .close = close_engine,
    .load = load,
    .unload = unload,
    .run = run,
    .signature = signature,
};

/* An executor of the four places, and what the rig for one model lacks. */
struct shared_rig {
    struct rig *rig;
    struct served_model models[PLACES];
    struct served_part parts[PLACES];
    uint32_t suffixes[PART_SUFFIXES_MAX], threads[PLACES];
    const struct profile *profiles[PLACES];
};

static void model_make(struct shared_rig *s, uint32_t place, const char *path) {
    struct served_model *m = &s->models[place];
    struct served_part *part = &s->parts[place];
    struct tensor_spec spec = {.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}};

    snprintf(m->name, sizeof(m->name), "model-%u", place);
    snprintf(part->path, sizeof(part->path), "%s", path);
    static const int64_t dims[2][TENSOR_DIMS_MAX] = {{1, 2}, {1, 2}};
    specs_set(m, (struct signature){.input_count = place == 3 ? 2 : 1,
                                    .output_count = 1,
                                    .batched = true,
                                    .inputs = SPECS(spec, spec),
                                    .outputs = &spec});
    part->signature = m->signature;
    part->dims = m->reference_dims;
    memcpy(part->dims, dims, part->signature.input_count * sizeof(dims[0]));
    if (place == 3)
        part->takes[1] = PART_OWN;
    m->signature.input_count = 1;
    m->batch_max = BATCH_MAX;
    m->part = part;
    m->suffixes = place == 0 ? s->suffixes : NULL;
    atomic_init(&m->state, MODEL_READY);
}

static struct shared_rig *shared_start(const char *path_of_b) {
    struct shared_rig *s = calloc(1, sizeof(*s));
    struct sy_error err;

    memset(&ran, 0, sizeof(ran));
    s->rig = aligned_alloc(CACHE_LINE, (sizeof(*s->rig) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    memset(s->rig, 0, sizeof(*s->rig));
    struct wiring *w = &s->rig->wiring;
    w->model_threads = w->frontends = w->executors = w->accelerators = w->models = 1;
    w->batch_max = BATCH_MAX;
    w->port_requests = RIG_SLOTS;
    w->thread_of_variant = w->executor_of = s->rig->zero;
    w->thread_of_served = s->threads;
    assert_int_equal(wiring_init(w, false, &err), 0);
    w->cards[0] = s->rig->cards;
    w->regions[0] = (struct region){0, SIZE_MAX, -1};
    model_make(s, 0, "p");
    model_make(s, 1, "A");
    model_make(s, 2, path_of_b);
    model_make(s, 3, "C");
    for (uint32_t i = 0; i < 3; i++)
        s->suffixes[i] = i + 1;
    s->rig->profile = malloc(profile_bytes(BATCH_MAX));
    profile_set_line(s->rig->profile, BATCH_MAX, NS_PER_S, NS_PER_S);
    for (uint32_t i = 0; i < PLACES; i++)
        s->profiles[i] = s->rig->profile;
    struct executor_config config = {.wiring = w,
                                     .accelerators = 1,
                                     .engine = &engine,
                                     .models = s->models,
                                     .profiles = s->profiles,
                                     .model_count = PLACES};
    assert_int_equal(executor_start(&s->rig->executor, &config, &err), 0);
    assert_int_equal(executor_wait_ready(s->rig->executor, &err), 0);
    ran.count = 0;
    return s;
}

static void shared_stop(struct shared_rig *s) {
    rig_stop(s->rig);
    assert_int_equal(ran.blocks, 0); /* none is kept */
    for (uint32_t place = 0; place < PLACES; place++)
        served_model_release(&s->models[place]);
    free(s);
}

/* Requests to these suffixes, of so many items; the n-th begins with 10 * n + 1. */
struct asked {
    struct rig_request requests[BATCH_MAX], *pointers[BATCH_MAX];
    float data[BATCH_MAX][2 * BATCH_MAX];
    uint32_t suffix[BATCH_MAX], items[BATCH_MAX], count;
};

static void ask(struct shared_rig *s, struct asked *a, const uint32_t *suffix, const uint32_t *items, uint32_t count) {
    a->count = count;
    for (uint32_t n = 0; n < count; n++) {
        for (uint32_t i = 0; i < 2 * items[n]; i++)
            a->data[n][i] = (float)(10 * n + 1 + i);
        a->suffix[n] = suffix[n];
        a->items[n] = items[n];
        request_make(&a->requests[n], a->data[n], items[n], clock_now_ns() + 600 * NS_PER_S);
        a->requests[n].card.suffix = (uint8_t)suffix[n];
        a->pointers[n] = &a->requests[n];
    }
}

static void expect_answered(const struct asked *a, uint32_t n) {
    static const char kind[] = "ABC";
    const struct result_message *r = &a->requests[n].result;
    assert_int_equal(r->status, REQUEST_OK);
    assert_true(r->first_item + a->items[n] <= r->batch_items);
    const float *y = (const float *)r->block->outputs[0].data + 2 * r->first_item;
    for (uint32_t i = 0; i < 2 * a->items[n]; i++) {
        float x = a->data[n][i];
        assert_true(y[i] == computed(kind[a->suffix[n]], x + 1, x));
    }
}

static void take_all(struct shared_rig *s, const struct asked *a) {
    for (uint32_t n = 0; n < a->count; n++)
        take_result(s->rig);
}

static void put_all(const struct asked *a) {
    for (uint32_t n = 0; n < a->count; n++)
        output_block_put(a->requests[n].result.block);
}

static void expect_run(uint32_t n, char kind, uint32_t items) {
    assert_true(n < ran.count);
    assert_int_equal(ran.kind[n], kind);
    assert_int_equal(ran.items[n], items);
}

TEST(a_mixed_batch_runs_the_prefix_once) {
    struct shared_rig *s = shared_start("B");
    struct asked a;
    struct ran_message report;

    ask(s, &a, (const uint32_t[]){B, A, C, A, B}, (const uint32_t[]){1, 2, 1, 1, 3}, 5);
    run_plan(s->rig, a.pointers, a.count);
    take_report(s->rig, &report);
    take_all(s, &a);
    for (uint32_t n = 0; n < a.count; n++)
        expect_answered(&a, n);
    expect_run(0, 'p', 8);
    expect_run(1, 'A', 3);
    expect_run(2, 'B', 4);
    expect_run(3, 'C', 1);
    assert_int_equal(ran.count, 4);
    assert_int_equal(report.items, 8);
    assert_true(report.run_ns > 0); /* it corrects the table */
    assert_int_equal(executor_counters(s->rig->executor, 0)->batches, 1);
    put_all(&a);
    shared_stop(s);
}

TEST(a_lone_request_and_a_batch_of_one_suffix) {
    struct shared_rig *s = shared_start("B");
    struct ran_message report;

    for (uint32_t count = 1; count <= 2; count++)
        for (uint32_t suffix = A; suffix <= C; suffix++) {
            struct asked a;
            ask(s, &a, (const uint32_t[]){suffix, suffix}, (const uint32_t[]){2, 3}, count);
            run_plan(s->rig, a.pointers, a.count);
            take_report(s->rig, &report);
            take_all(s, &a);
            for (uint32_t n = 0; n < a.count; n++)
                expect_answered(&a, n);
            put_all(&a);
        }
    assert_int_equal(ran.count, 2 * 2 * 3);
    shared_stop(s);
}

TEST(a_bad_request_fails_alone) {
    for (uint32_t at = 0; at < 4; at++) {
        struct shared_rig *s = shared_start("B");
        struct asked a;
        struct ran_message report;
        ask(s, &a, (const uint32_t[]){B, B, B, B, A, C}, (const uint32_t[]){1, 1, 1, 1, 1, 1}, 6);
        a.data[at][0] = BAD;
        run_plan(s->rig, a.pointers, a.count);
        take_report(s->rig, &report);
        assert_int_equal(report.run_ns, 0);
        take_all(s, &a);
        for (uint32_t n = 0; n < a.count; n++) {
            if (n != at) {
                expect_answered(&a, n);
                continue;
            }
            assert_int_equal(a.requests[n].result.status, REQUEST_FAILED);
            assert_string_equal(a.requests[n].result.block->failure, "1001 is out of range");
        }
        put_all(&a);
        shared_stop(s);
    }
}

TEST(requests_to_a_suffix_that_is_not_there_go_back) {
    struct shared_rig *s = shared_start("x");
    struct asked a;
    struct ran_message report;

    assert_int_equal(served_model_state(&s->models[2]), MODEL_UNAVAILABLE);
    ask(s, &a, (const uint32_t[]){B}, (const uint32_t[]){1}, 1);
    run_plan(s->rig, a.pointers, a.count);
    take_report(s->rig, &report);
    take_all(s, &a);
    assert_int_equal(a.requests[0].result.status, REQUEST_LOST);
    assert_true(a.requests[0].result.absent);
    ask(s, &a, (const uint32_t[]){C, A}, (const uint32_t[]){1, 1}, 2); /* the others go on */
    run_plan(s->rig, a.pointers, a.count);
    take_report(s->rig, &report);
    take_all(s, &a);
    expect_answered(&a, 0);
    expect_answered(&a, 1);
    put_all(&a);
    shared_stop(s);
}

TEST(late_requests_are_counted_wherever_they_stand) {
    struct shared_rig *s = shared_start("B");
    struct asked a;
    struct ran_message report;

    ask(s, &a, (const uint32_t[]){C, B, A}, (const uint32_t[]){1, 1, 1}, 3);
    a.requests[0].card.deadline_ns = 1; /* in the plan it comes first, in the run last */
    run_plan(s->rig, a.pointers, a.count);
    take_report(s->rig, &report);
    assert_int_equal(report.late, 1);
    take_all(s, &a);
    put_all(&a);
    shared_stop(s);
}

/* The request whose model the run may still use is kept, not the first of the batch. */
TEST(a_suffix_that_hangs_keeps_its_own_model) {
    struct shared_rig *s = shared_start("B");
    struct asked a;
    struct freed_message freed;
    struct ran_message report;
    int64_t now_ns = 1000 * NS_PER_S;

    ask(s, &a, (const uint32_t[]){B, A, C}, (const uint32_t[]){1, 1, 1}, 3);
    a.data[0][0] = HANGS;
    run_plan(s->rig, a.pointers, a.count);
    while (!atomic_load(&ran.hanging))
        sched_yield();
    for (uint32_t i = 0; i < 200; i++, now_ns += NS_PER_S) /* by the profile, 20 times 4 s are allowed */
        executor_watch(s->rig->executor, now_ns, false);
    take(&s->rig->wiring.freed[0], &freed);
    take(&s->rig->wiring.ran[0], &report);
    take_all(s, &a);
    take_news(s->rig, NEWS_LEAVES);
    for (uint32_t n = 0; n < a.count; n++) {
        assert_int_equal(a.requests[n].result.status, REQUEST_LOST);
        assert_int_equal(a.requests[n].result.read, n == 0);
    }
    atomic_store(&ran.let_go, true);
    take_done(s->rig, &a.requests[0]);
    assert_int_equal(a.requests[0].result.status, REQUEST_RELEASED);
    take_news(s->rig, NEWS_JOINS);
    shared_stop(s);
}
