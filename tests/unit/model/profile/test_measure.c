/* test_measure.c - measures engines that this file makes up: known latencies, rows that mix, failing batches. Time is
 * made up too: runs take what they should on any machine. */
#include "unit/test.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "core/util/time.h"
#include "model/profile/measure.h"
#include "specs.h"

static int64_t now_ns;
static struct core_use used;

static int64_t time_now(void) {
    return now_ns;
}

static struct core_use core_use_now(void) {
    return used;
}

static const struct measure_clock made_up_clock = {time_now, core_use_now};

/* An engine whose run() takes l(b) and whose outputs are the inputs, unless told otherwise. */
struct engine_model {
    int64_t alpha_ns, beta_ns;
    int disturbed_every; /* of so many runs, one loses its core for DISTURBANCE_NS; 0: none does */
    bool waits;          /* a run leaves its core, to wait for others */
    int runs;
    uint32_t items_run;   /* in all */
    uint32_t fails_from;  /* batches of this size and larger fail; 0: none do */
    float leak;           /* what each item's rows get of the others */
    bool outdone;         /* outputs say whether another item's number is greater */
    bool collapses;       /* one row for any batch */
    int whispers;         /* to the item so many places behind it, or before it, goes 10^-12 of it */
    uint32_t largest_run; /* batch */
};

#define DISTURBANCE_NS (50 * NS_PER_MS)

struct made_up_block {
    struct output_block block;
    float rows[64][2];
};

static void block_free(struct output_block *block) {
    free(container_of(block, struct made_up_block, block));
}

static int made_up_run(struct engine_model *model, const struct tensor_view *inputs, uint32_t items,
                       struct output_block **outputs, struct sy_error *err) {
    int64_t run_ns = model->alpha_ns * items + model->beta_ns;
    if (model->fails_from && items >= model->fails_from)
        return error_set(err, -EIO, "out of ink at %u items", items);
    struct made_up_block *made = calloc(1, sizeof(*made));
    model->items_run += items;
    model->largest_run = items > model->largest_run ? items : model->largest_run;
    memcpy(made->rows, inputs[0].data, inputs[0].bytes);
    for (uint32_t i = 0; i < items && items > 1; i++)
        made->rows[i][0] += model->leak;
    for (uint32_t i = 0; i < items && model->whispers; i++) {
        int64_t from = (int64_t)i - model->whispers;
        if (from >= 0 && from < items)
            made->rows[i][0] += 1e-12F * ((const float *)inputs[0].data)[2 * from];
    }
    for (uint32_t i = 0; i < items && model->outdone; i++) {
        made->rows[i][0] = 0;
        for (uint32_t k = 0; k < items; k++)
            made->rows[i][0] = fmaxf(made->rows[i][0], made->rows[k][1] > made->rows[i][1]);
    }
    made->block = (struct output_block){.references = 1, .output_count = 1, .release = block_free};
    uint32_t rows = model->collapses ? 1 : items;
    made->block.outputs[0] = (struct tensor_view){
        .data = made->rows, .bytes = rows * sizeof(made->rows[0]), .dim_count = 2, .dims = {rows, 2}};
    *outputs = &made->block;
    now_ns += run_ns;
    used.cpu_ns += run_ns;
    used.left += model->waits;
    if (model->disturbed_every && model->runs++ % model->disturbed_every == 0) {
        now_ns += DISTURBANCE_NS;
        used.lost++;
    }
    return 0;
}

static const struct engine_ops made_up = {.name = "made up", .run = made_up_run};

/* An engine that runs batches as the next larger power of two, and has memory for their inputs. */
struct engine {
    int held, given; /* pieces of memory */
};

static uint32_t up(uint32_t items) {
    uint32_t power = 1;
    while (power < items)
        power *= 2;
    return power;
}

static uint32_t padding_size(const struct engine_model *model, uint32_t items) {
    return up(items);
}

static int padding_run(struct engine_model *model, const struct tensor_view *inputs, uint32_t items,
                       struct output_block **outputs, struct sy_error *err) {
    int64_t run_ns = model->alpha_ns * (up(items) - items);
    now_ns += run_ns;
    used.cpu_ns += run_ns;
    return made_up_run(model, inputs, items, outputs, err);
}

static void *padding_memory(struct engine *engine, size_t bytes) {
    engine->held++;
    engine->given++;
    return malloc(bytes);
}

static void padding_memory_free(struct engine *engine, void *memory) {
    engine->held--;
    free(memory);
}

static const struct engine_ops padding = {.name = "padding",
                                          .run = padding_run,
                                          .padded = padding_size,
                                          .memory = padding_memory,
                                          .memory_free = padding_memory_free};

static const struct signature signature = {
    .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}}),
    .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}}),
    .input_count = 1,
    .output_count = 1,
    .batched = true,
};

static const uint32_t wanted[] = {5, 8, 20, 40, 100}; /* sizes in any case */
static uint32_t wanted_count;
static bool untried;

static int measure_on(const struct engine_ops *ops, struct engine *engine, struct engine_model *model,
                      const struct signature *s, uint32_t batch_max, int64_t latency_max_ns,
                      struct profile_record *record, struct sy_error *err) {
    int64_t item_dims[TENSORS_MAX][TENSOR_DIMS_MAX] = {{1, 2}};
    struct measure_options options = {.engine = engine,
                                      .batch_max = batch_max,
                                      .budget_ns = 5 * NS_PER_MS,
                                      .latency_max_ns = latency_max_ns,
                                      .seed = 1,
                                      .untried = untried,
                                      .sizes = wanted,
                                      .size_count = wanted_count,
                                      .clock = &made_up_clock};
    memset(record, 0, sizeof(*record));
    return measure_model(ops, model, s, item_dims, &options, record, err);
}

static int measure(struct engine_model *model, const struct signature *s, uint32_t batch_max, int64_t latency_max_ns,
                   struct profile_record *record, struct sy_error *err) {
    return measure_on(&made_up, NULL, model, s, batch_max, latency_max_ns, record, err);
}

TEST(batches_are_timed_up_to_the_last) {
    struct engine_model model = {.alpha_ns = 20 * NS_PER_US, .beta_ns = 2 * NS_PER_MS};
    struct profile_record record;
    assert_int_equal(measure(&model, &signature, 20, NS_PER_S, &record, NULL), 0);
    static const uint32_t want[] = {1, 2, 3, 4, 6, 8, 12, 16, 20};
    assert_int_equal(record.point_count, ARRAY_COUNT(want));
    assert_memory_equal(record.batch, want, sizeof(want));
    assert_true(record.batched);
    assert_int_equal(record.batch_max, 20);
    assert_int_equal(record.batch_asked, 20);
    assert_string_equal(record.note, "");
    for (uint32_t i = 0; i < record.point_count; i++)
        assert_int_equal(record.latency_ns[i], model.alpha_ns * record.batch[i] + model.beta_ns);
}

/* One of three runs loses the core to others for a while: what that takes is no part of what the model takes. */
TEST(disturbances_do_not_count) {
    for (int waits = 0; waits < 2; waits++) {
        struct engine_model model = {.alpha_ns = NS_PER_MS, .beta_ns = NS_PER_MS, .waits = waits, .disturbed_every = 3};
        struct profile_record record;
        assert_int_equal(measure(&model, &signature, 4, NS_PER_S, &record, NULL), 0);
        assert_int_equal(record.point_count, 4);
        for (uint32_t i = 0; i < record.point_count; i++)
            assert_int_equal(record.latency_ns[i], (1 + record.batch[i]) * NS_PER_MS);
    }
}

TEST(measuring_stops_where_batching_gains_nothing) {
    struct engine_model model = {.alpha_ns = 2 * NS_PER_MS, .beta_ns = 0};
    struct profile_record record;
    assert_int_equal(measure(&model, &signature, 64, NS_PER_S, &record, NULL), 0);
    assert_int_equal(record.batch[record.point_count - 1], 4); /* three sizes without gain */
    assert_int_equal(model.largest_run, 4);                    /* a larger one is too dear to be tried */
    assert_int_equal(record.batch_max, 64);                    /* larger batches stay possible */
}

TEST(sizes_that_are_wanted_are_measured_in_any_case) {
    struct engine_model model = {.alpha_ns = 100 * NS_PER_US, .beta_ns = 0};
    struct profile_record record;
    wanted_count = ARRAY_COUNT(wanted);
    assert_int_equal(measure(&model, &signature, 64, NS_PER_S, &record, NULL), 0);
    wanted_count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(wanted); i++) {
        bool found = false;
        for (uint32_t p = 0; p < record.point_count; p++)
            found |= record.batch[p] == wanted[i];
        assert_int_equal(found, wanted[i] <= 64);
    }
    assert_true(record.batch[record.point_count - 1] == 40); /* larger ones gain nothing */
    assert_int_equal(record.batch_max, 64);
    static const uint32_t sizes[] = {5, 8};
    static const uint32_t next[] = {1, 2, 3, 4, 5, 6, 8, 12, 14};
    for (size_t i = 1; i < ARRAY_COUNT(next); i++)
        assert_int_equal(measure_batch_next(next[i - 1], 14, sizes, 2), next[i]);
}

TEST(batches_that_take_too_long_are_not_wanted) {
    struct engine_model model = {.alpha_ns = NS_PER_MS / 4, .beta_ns = NS_PER_MS};
    struct profile_record record;
    assert_int_equal(measure(&model, &signature, 64, 4 * NS_PER_MS, &record, NULL), 0);
    assert_int_equal(record.batch_max, 8); /* by what an item takes in it, 12 would take 4.5 ms */
    assert_string_equal(record.note, "larger batches would take over 0.0 s");
}

TEST(a_batch_that_fails_is_the_limit) {
    struct engine_model model = {.alpha_ns = 1000, .beta_ns = NS_PER_MS, .fails_from = 7};
    struct profile_record record;
    assert_int_equal(measure(&model, &signature, 64, NS_PER_S, &record, NULL), 0);
    assert_int_equal(record.batch_max, 6);
    assert_string_equal(record.note, "out of ink at 8 items");
    model.fails_from = 3;
    assert_int_equal(measure(&model, &signature, 64, NS_PER_S, &record, NULL), 0);
    assert_true(record.batched);
    assert_int_equal(record.batch_max, 2);
    assert_string_equal(record.note, "out of ink at 3 items");
    struct sy_error err;
    model.fails_from = 1;
    assert_int_equal(measure(&model, &signature, 64, NS_PER_S, &record, &err), -EIO);
    assert_string_equal(err.text, "out of ink at 1 items");
}

TEST(rows_that_depend_on_others_are_not_batched) {
    static const struct {
        float leak;
        bool collapses;
        const char *note;
        bool outdone;
    } cases[] = {{0, false, "", false},
                 {1e-4f, false, "", false}, /* rounding: beside its own kind it differs as much */
                 {0.1f, false, "output 'y' of an item depends on what it is batched with", false},
                 {0, true, "output 'y' has 1 rows for a batch of 2", false},
                 {NAN, false, "output 'y' of an item depends on what it is batched with", false},
                 {0, false, "output 'y' of an item depends on what it is batched with", true}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct engine_model model = {
            .beta_ns = 1000, .leak = cases[i].leak, .collapses = cases[i].collapses, .outdone = cases[i].outdone};
        struct profile_record record;
        assert_int_equal(measure(&model, &signature, 4, NS_PER_S, &record, NULL), 0);
        assert_int_equal(record.batched, !*cases[i].note);
        assert_int_equal(record.batch_max, record.batched ? 4 : 1);
        assert_string_equal(record.note, cases[i].note);
    }
}

/* What is too weak to change an ordinary item is seen, forwards and backwards, by batches in one order. */
TEST(weak_ties_show_in_either_direction) {
    for (int whispers = -2; whispers <= 2; whispers++)
        for (uint32_t batch_max = 2; batch_max <= 12; batch_max++) {
            struct engine_model model = {.beta_ns = 1000, .whispers = whispers};
            struct profile_record record;
            assert_int_equal(measure(&model, &signature, batch_max, NS_PER_S, &record, NULL), 0);
            bool reaches = whispers != 0 && abs(whispers) < (int)batch_max;
            assert_int_equal(record.batched, !reaches);
        }
}

/* Unlike items run in place of the runs that make room for a size, which do not count; only each alone is added. */
TEST(trying_unlike_items_adds_few_runs) {
    uint32_t items_run[2];
    for (int without = 0; without < 2; without++) {
        struct engine_model model = {.alpha_ns = 20 * NS_PER_MS};
        struct profile_record record;
        untried = without;
        assert_int_equal(measure(&model, &signature, 64, NS_PER_S, &record, NULL), 0);
        assert_true(record.batched);
        assert_int_equal(record.batch[record.point_count - 1], 4);
        items_run[without] = model.items_run;
    }
    untried = false;
    assert_int_equal(items_run[0] - items_run[1], 8);
}

/* A model that takes so long that no two items run together is not tried. */
TEST(what_is_never_batched_is_not_tried) {
    struct engine_model model = {.alpha_ns = NS_PER_S};
    struct profile_record record;
    assert_int_equal(measure(&model, &signature, 64, NS_PER_S, &record, NULL), 0);
    assert_int_equal(record.batch_max, 1);
    assert_int_equal(model.items_run, 6);
}

TEST(a_model_without_batches_runs_one_item) {
    struct signature single = signature;
    single.batched = false;
    struct engine_model model = {.beta_ns = 1000};
    struct profile_record record;
    assert_int_equal(measure(&model, &single, 64, NS_PER_S, &record, NULL), 0);
    assert_int_equal(model.largest_run, 1);
    assert_int_equal(record.batch_max, 1);
    assert_int_equal(record.point_count, 1);
    assert_string_equal(record.note, "no batch dimension");
}

TEST(items_have_plausible_shapes) {
    static const struct {
        struct tensor_spec spec;
        bool batched;
        int64_t want[3][TENSOR_DIMS_MAX];
        uint32_t choices;
    } cases[] = {
        {{.dim_count = 2, .dims = {-1, 2048}}, true, {{1, 2048}}, 1},
        {{.dim_count = 4, .dims = {-1, 3, -1, -1}}, true, {{1, 3, 320, 320}, {1, 3, 48, 320}, {1, 3, 224, 224}}, 4},
        {{.dim_count = 4, .dims = {-1, 3, 48, -1}}, true, {{1, 3, 48, 320}, {1, 3, 48, 320}, {1, 3, 48, 224}}, 4},
        {{.dim_count = 4, .dims = {-1, -1, -1, 1}}, false, {{1, 320, 320, 1}, {1, 48, 320, 1}, {1, 224, 224, 1}}, 4},
        {{.dim_count = 2, .dims = {-1, -1}}, true, {{1, 128}, {1, 16}, {1, 1}}, 4},
        {{.dim_count = 2, .dims = {-1, 8}}, false, {{128, 8}, {16, 8}, {1, 8}}, 4},
        {{.dim_count = 0}, false, {{0}}, 1},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct signature s = {.inputs = SPECS(cases[i].spec), .input_count = 1, .batched = cases[i].batched};
        int64_t dims[TENSORS_MAX][TENSOR_DIMS_MAX];
        for (uint32_t choice = 0; choice < cases[i].choices; choice++) {
            assert_int_equal(measure_item_dims(&s, choice, dims), 0);
            if (choice < 3)
                assert_memory_equal(dims[0], cases[i].want[choice], cases[i].spec.dim_count * sizeof(int64_t));
        }
        assert_int_equal(measure_item_dims(&s, cases[i].choices, dims), -ENOENT);
    }
}

TEST(inputs_are_valid_and_repeatable) {
    struct signature s = {.input_count = 6, .batched = true, .inputs = (struct tensor_spec[6]){{.dim_count = 0}}};
    static const enum datatype types[] = {DATATYPE_FP16,  DATATYPE_FP32, DATATYPE_FP64,
                                          DATATYPE_INT64, DATATYPE_BOOL, DATATYPE_BF16};
    int64_t dims[TENSORS_MAX][TENSOR_DIMS_MAX];
    for (uint32_t i = 0; i < s.input_count; i++) {
        s.inputs[i] = (struct tensor_spec){.type = types[i], .dim_count = 2, .dims = {-1, 5}};
        dims[i][0] = 1;
        dims[i][1] = 5;
    }
    struct tensor_view a[TENSORS_MAX], b[TENSORS_MAX];
    assert_int_equal(measure_inputs(&s, dims, 7, NULL, 3, a), 0);
    assert_int_equal(measure_inputs(&s, dims, 7, NULL, 3, b), 0);
    for (uint32_t i = 0; i < s.input_count; i++) {
        assert_int_equal(a[i].bytes, 35 * datatype_bytes(types[i]));
        assert_int_equal(a[i].dims[0], 7);
        assert_memory_equal(a[i].data, b[i].data, a[i].bytes);
    }
    for (int k = 0; k < 35; k++) {
        float single = ((float *)a[1].data)[k];
        double twice = ((double *)a[2].data)[k];
        assert_true(single >= 0.5f && single < 1 && twice >= 0.5 && twice < 1);
        assert_in_range(((uint16_t *)a[0].data)[k], 0x3800, 0x3bff);
        assert_in_range(((int64_t *)a[3].data)[k], 0, 1);
        assert_in_range(((uint8_t *)a[4].data)[k], 0, 1);
    }
    free(a[0].data);
    free(b[0].data);
    dims[1][1] = 1LL << 41;
    assert_int_equal(measure_inputs(&s, dims, 7, NULL, 3, a), -ENOMEM);
}

TEST(there_may_be_nothing_to_fill) {
    struct signature s = {.input_count = 0};
    struct tensor_view inputs[TENSORS_MAX];
    int64_t dims[TENSORS_MAX][TENSOR_DIMS_MAX] = {{1}};
    memset(inputs, 0xff, sizeof(inputs));
    assert_int_equal(measure_inputs(&s, dims, 1, NULL, 3, inputs), 0);
    assert_null(inputs[0].data);
    s.inputs = SPECS({.type = DATATYPE_FP32, .dim_count = 1, .dims = {1}});
    s.input_count = s.inputs_optional = 1;
    memset(inputs, 0xff, sizeof(inputs));
    assert_int_equal(measure_inputs(&s, dims, 1, NULL, 3, inputs), 0);
    assert_null(inputs[0].data);
}

/* Larger batches are measured though they gain nothing: each may be the one that others become. A profile made of the
 * points says of each batch what the one takes that it becomes. */
TEST(padded_batches_take_what_they_become) {
    struct engine_model model = {.alpha_ns = 2 * NS_PER_MS};
    struct engine engine = {0};
    struct profile_record record;
    assert_int_equal(measure_on(&padding, &engine, &model, &signature, 64, NS_PER_S, &record, NULL), 0);
    assert_int_equal(model.largest_run, 64);
    struct profile *profile = malloc(profile_bytes(64));
    assert_int_equal(profile_set_points(profile, 64, record.batch, record.latency_ns, record.point_count), 0);
    for (uint32_t b = 1; b <= 64; b++)
        assert_int_equal(profile->latency_ns[b], up(b) * 2 * NS_PER_MS);
    free(profile);
    assert_true(engine.given >= 12); /* the runs that are timed are of its memory, and all of it is back */
    assert_int_equal(engine.held, 0);
}
