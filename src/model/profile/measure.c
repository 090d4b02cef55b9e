/* measure.c - runs batches of growing size and times them.
 *
 * Points are 1, 2, 3, 4, 6, 8, 12, ... A point is the 95th percentile of its runs (at least 20 unless they are slow):
 * slow runs decide whether deadlines are kept, and the 99th percentile of real runs corrects the table later. If the
 * kernel gave the core to somebody else during a run, the run's time says more about the machine at that moment than
 * about the model. If such a run only computes, its processor time is taken; others are left out. Measuring stops where
 * larger batches no longer pay, judged by the medians, which are steadier: convolutions on a CPU cost the same per item
 * in any batch, and 64 images would take a second a run to show that. */
#include "model/profile/measure.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/util/container.h"
#include "core/util/rng.h"
#include "model/profile/separable.h"

#define RUNS_MIN    5   /* least runs of a batch size, however slow they are */
#define RUNS_ENOUGH 20  /* runs after which half of the budget is enough */
#define RUNS_MAX    200 /* most runs of a batch size, however fast they are */
/* Batching pays while an item costs at most this share of what it cost before. */
#define PAYS 0.98

/* Inputs. */

void measure_fill(void *data, size_t count, enum datatype type, struct rng *rng) {
    size_t bytes = type == DATATYPE_BYTES ? STRING_LEAD_BYTES + 1 : datatype_bytes(type);
    uint8_t *at = data;
    for (size_t i = 0; i < count; i++, at += bytes) {
        uint64_t random = rng_next(rng);
        switch (type) { /* floats: the exponent of [0.5, 1) and a random mantissa */
        case DATATYPE_FP16:
            random = 0x3800 | (random & 0x3ff);
            break;
        case DATATYPE_BF16:
            random = 0x3f00 | (random & 0x7f);
            break;
        case DATATYPE_FP32:
            random = 0x3f000000 | (random & 0x7fffff);
            break;
        case DATATYPE_FP64:
            random = 0x3fe0000000000000 | (random & 0xfffffffffffff);
            break;
        case DATATYPE_BYTES: /* one character */
            random = 1 | ('0' + (random & 1)) << 8 * STRING_LEAD_BYTES;
            break;
        default:
            random &= 1;
        }
        memcpy(at, &random, bytes); /* little-endian, as every platform served is */
    }
}

/* Bytes of an input, rounded up so that further inputs may follow. */
static size_t aligned(size_t bytes) {
    return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

int measure_inputs(const struct signature *signature, int64_t item_dims[][TENSOR_DIMS_MAX], uint32_t items,
                   const struct input_values *values, uint64_t seed, struct tensor_view *inputs) {
    size_t total = 0;
    bool any = false;
    inputs[0].data = NULL;
    for (uint32_t i = 0; i < signature->input_count; i++) {
        struct tensor_view *view = &inputs[i];
        *view = (struct tensor_view){.dim_count = signature->inputs[i].dim_count};
        memcpy(view->dims, item_dims[i], sizeof(view->dims));
        if (signature->batched)
            view->dims[0] = items;
        int64_t elements = dims_product(view->dims, 0, view->dim_count);
        if (elements < 0 || elements > (1LL << 40))
            return -ENOMEM;
        bool given = !(signature->inputs_optional & tensor_bit(i));
        view->bytes = given ? values_bytes(values, i, signature->inputs[i].type, elements) : 0;
        total += aligned(view->bytes);
        any |= given;
    }
    if (!any)
        return 0;
    uint8_t *data = aligned_alloc(CACHE_LINE, total ? total : CACHE_LINE);
    if (!data)
        return -ENOMEM;
    struct rng rng;
    rng_seed(&rng, seed);
    for (uint32_t i = 0; i < signature->input_count; i++) {
        if (signature->inputs_optional & tensor_bit(i))
            continue;
        inputs[i].data = data;
        values_fill(values, i, signature->inputs[i].type, dims_product(inputs[i].dims, 0, inputs[i].dim_count), items,
                    &rng, data);
        data += aligned(inputs[i].bytes);
    }
    return 0;
}

int measure_run(const struct engine_ops *ops, struct engine_model *model, const struct signature *signature,
                int64_t item_dims[][TENSOR_DIMS_MAX], uint32_t items, const struct input_values *values,
                struct sy_error *err) {
    struct tensor_view inputs[TENSORS_MAX];
    struct output_block *block = NULL;
    int rc = measure_inputs(signature, item_dims, items, values, 1, inputs);
    if (rc)
        return error_set(err, rc, "no memory for the inputs of %u items", items);
    rc = ops->run(model, inputs, items, &block, err);
    output_block_put(block);
    free(inputs[0].data);
    return rc;
}

static const struct {
    int64_t height, width, other;
} item_choices[] = {{320, 320, 128}, {48, 320, 16}, {224, 224, 1}, {48, 192, 128}};

static bool channels(int64_t dim) {
    return dim == 1 || dim == 3 || dim == 4;
}

int measure_item_dims(const struct signature *signature, uint32_t choice, int64_t item_dims[][TENSOR_DIMS_MAX]) {
    bool open = false;
    for (uint32_t i = 0; i < signature->input_count; i++) {
        const struct tensor_spec *spec = &signature->inputs[i];
        int height = TENSOR_DIMS_MAX; /* dimension of the height; the width is the next one */
        if (spec->dim_count == 4 && (channels(spec->dims[1]) || channels(spec->dims[3])))
            height = channels(spec->dims[1]) ? 2 : 1;
        for (int d = 0; d < (int)spec->dim_count; d++) {
            item_dims[i][d] = spec->dims[d];
            if (spec->dims[d] >= 0)
                continue;
            bool batch = d == 0 && (signature->batched || height < TENSOR_DIMS_MAX); /* images have a batch dimension */
            open |= !batch;
            if (choice < ARRAY_COUNT(item_choices))
                item_dims[i][d] = batch             ? 1
                                  : d == height     ? item_choices[choice].height
                                  : d == height + 1 ? item_choices[choice].width
                                                    : item_choices[choice].other;
        }
    }
    return choice < (open ? ARRAY_COUNT(item_choices) : 1) ? 0 : -ENOENT;
}

/* Timing. */

uint64_t measure_resident_bytes(void) {
    unsigned long total, resident = 0;
    FILE *from = fopen("/proc/self/statm", "re");
    if (from && fscanf(from, "%lu %lu", &total, &resident) != 2)
        resident = 0;
    if (from)
        fclose(from);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t memory_available_bytes(void) {
    unsigned long kib = 0;
    char line[128];
    FILE *from = fopen("/proc/meminfo", "re");
    while (from && fgets(line, sizeof(line), from))
        if (sscanf(line, "MemAvailable: %lu", &kib) == 1)
            break;
    if (from)
        fclose(from);
    return kib ? (uint64_t)kib * 1024 : UINT64_MAX;
}

static int compare_ns(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void measure_sort(int64_t *took_ns, size_t count) {
    qsort(took_ns, count, sizeof(*took_ns), compare_ns);
}

struct timing {
    int64_t median_ns, high_ns; /* median, and 95th percentile, of the runs */
};

/* Times of runs: undisturbed runs from the front of the array, disturbed ones from the back. */
struct runs {
    int64_t took_ns[RUNS_MAX];
    int calm, disturbed;
};

/* With too few calm runs, the median of all replaces the high percentile, which would show the disturbance. */
static struct timing runs_timing(struct runs *runs) {
    bool calm = runs->calm >= RUNS_MIN;
    int count = calm ? runs->calm : runs->calm + runs->disturbed;
    if (!calm) /* close the gap between the two parts */
        memmove(runs->took_ns + runs->calm, runs->took_ns + RUNS_MAX - runs->disturbed,
                (size_t)runs->disturbed * sizeof(runs->took_ns[0]));
    measure_sort(runs->took_ns, (size_t)count);
    int64_t median_ns = runs->took_ns[count / 2];
    return (struct timing){median_ns, calm ? runs->took_ns[(count * 95 + 99) / 100 - 1] : median_ns};
}

static struct core_use core_use_now(void) {
    struct timespec cpu = {0};
    struct rusage usage = {.ru_nivcsw = 0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    getrusage(RUSAGE_THREAD, &usage);
    return (struct core_use){cpu.tv_sec * NS_PER_S + cpu.tv_nsec, usage.ru_nivcsw, usage.ru_nvcsw};
}

static const struct measure_clock kernel_clock = {clock_now_ns, core_use_now};

/* Moves inputs to memory of the engine, where the executor gathers them. Returns that memory, to be given back to the
 * engine; NULL: the inputs stayed where they were. */
static void *inputs_move(const struct engine_ops *ops, struct engine *engine, struct tensor_view *inputs,
                         uint32_t input_count) {
    size_t total = 0;
    for (uint32_t i = 0; i < input_count; i++)
        total += aligned(inputs[i].bytes);
    char *memory = ops->memory && total ? ops->memory(engine, total) : NULL, *at = memory;
    for (uint32_t i = 0; memory && i < input_count; i++) {
        if (!inputs[i].data)
            continue;
        inputs[i].data = memcpy(at, inputs[i].data, inputs[i].bytes);
        at += aligned(inputs[i].bytes);
    }
    return memory;
}

/* Runs a batch of `items` until its time is known well enough. `first`: no batch of this size has run yet; then the
 * first run makes the arena grow, and does not count. */
static int batch_time(const struct engine_ops *ops, struct engine_model *model, const struct signature *signature,
                      int64_t item_dims[][TENSOR_DIMS_MAX], uint32_t items, bool first,
                      const struct measure_options *options, struct timing *timing, struct sy_error *err) {
    struct tensor_view inputs[TENSORS_MAX];
    struct runs runs = {.calm = 0};
    const struct measure_clock *clock = options->clock ? options->clock : &kernel_clock;
    int64_t begin_ns = clock->now_ns();
    int rc = measure_inputs(signature, item_dims, items, options->values, options->seed, inputs);
    if (rc)
        return error_set(err, rc, "no memory for the inputs of %u items", items);
    void *data = inputs[0].data, *moved = inputs_move(ops, options->engine, inputs, signature->input_count);
    for (bool enough = false; !enough && !rc; first = false) {
        struct output_block *block = NULL;
        struct core_use before = clock->core_use();
        int64_t start_ns = clock->now_ns();
        rc = ops->run(model, inputs, items, &block, err);
        int64_t end_ns = clock->now_ns(), spent_ns = end_ns - begin_ns;
        struct core_use after = clock->core_use();
        output_block_put(block);
        bool lost = after.lost != before.lost, waited = after.left != before.left;
        /* a run that only computed, but was interrupted, counts with its processor time */
        int64_t took_ns = lost && !waited ? after.cpu_ns - before.cpu_ns : end_ns - start_ns;
        if (!first && (!lost || !waited))
            runs.took_ns[runs.calm++] = took_ns;
        else if (!first)
            runs.took_ns[RUNS_MAX - ++runs.disturbed] = took_ns;
        int count = runs.calm + runs.disturbed;
        enough = count == RUNS_MAX || (runs.calm >= RUNS_ENOUGH && spent_ns >= options->budget_ns / 2) ||
                 (count >= RUNS_MIN && spent_ns >= options->budget_ns);
    }
    if (moved)
        ops->memory_free(options->engine, moved);
    free(data);
    if (!rc)
        *timing = runs_timing(&runs);
    return rc;
}

/* As batch_time(), and once more if the runs were unsteady; the times with the lower 95th percentile count. */
static int point_time(const struct engine_ops *ops, struct engine_model *model, const struct signature *signature,
                      int64_t item_dims[][TENSOR_DIMS_MAX], uint32_t items, bool first,
                      const struct measure_options *options, struct timing *timing, struct sy_error *err) {
    struct timing again = {0};
    int rc = batch_time(ops, model, signature, item_dims, items, first, options, timing, err);
    if (rc || timing->high_ns < timing->median_ns + timing->median_ns / 4)
        return rc;
    rc = batch_time(ops, model, signature, item_dims, items, true, options, &again, err);
    if (!rc && again.high_ns < timing->high_ns)
        *timing = again;
    return rc;
}

/* The least of the sizes that is larger than `b`, or `otherwise`. */
static uint32_t size_after(uint32_t b, const uint32_t *sizes, uint32_t size_count, uint32_t otherwise) {
    for (uint32_t i = 0; i < size_count; i++)
        if (sizes[i] > b)
            return sizes[i] < otherwise ? sizes[i] : otherwise;
    return otherwise;
}

uint32_t measure_batch_next(uint32_t b, uint32_t last, const uint32_t *sizes, uint32_t size_count) {
    uint32_t power = 1;
    while (2 * power <= b)
        power *= 2;
    uint32_t next = b < 4 ? b + 1 : b < power + power / 2 ? power + power / 2 : 2 * power;
    next = b < last && next > last ? last : next;
    return size_after(b, sizes, size_count, next);
}

static void note(struct profile_record *record, const char *text) {
    snprintf(record->note, sizeof(record->note), "%s", text);
}

/* Whether a batch of `items` would take too long or too much memory, as judged by a single item; notes why. */
static bool batch_too_large(struct profile_record *record, const struct measure_options *options, uint32_t items,
                            double item_ns) {
    double times = (double)items / record->batch[record->point_count - 1];
    if (item_ns * items > (double)options->latency_max_ns)
        snprintf(record->note, sizeof(record->note), "larger batches would take over %.1f s",
                 (double)options->latency_max_ns / (double)NS_PER_S);
    else if ((double)record->batch_bytes * times > 0.5 * (double)memory_available_bytes())
        note(record, "larger batches would take over half of the memory that is left");
    else
        return false;
    return true;
}

/* Whether the engine runs some batches as larger ones. */
static bool is_padded(const struct engine_ops *ops, const struct engine_model *model, uint32_t batch_max) {
    bool padded = false;
    for (uint32_t b = 1; ops->padded && b <= batch_max; b++)
        padded |= ops->padded(model, b) != b;
    return padded;
}

/* A batch that is padded takes as long as the one that it becomes: adds points, so that nothing is interpolated between
 * a size and the one before. */
static void steps_add(const struct engine_ops *ops, const struct engine_model *model, struct profile_record *record) {
    const struct profile_record measured = *record;
    uint32_t n = 0;
    for (uint32_t i = 0; i < measured.point_count; i++) {
        uint32_t after = i > 0 ? measured.batch[i - 1] + 1 : measured.batch[i], left = measured.point_count - i;
        if (after < measured.batch[i] && ops->padded(model, after) == ops->padded(model, measured.batch[i]) &&
            n + left < PROFILE_POINTS_MAX) {
            record->batch[n] = after;
            record->latency_ns[n++] = measured.latency_ns[i];
        }
        record->batch[n] = measured.batch[i];
        record->latency_ns[n++] = measured.latency_ns[i];
    }
    record->point_count = n;
}

/* Trying a size takes at most about TRIES_MOST runs of it. The greatest size is tried, or a smaller one, but none below
 * the greatest that was measured, so that these runs take at most TRIES_SHARE of the time that measuring has taken. */
#define TRIES_MOST  6
#define TRIES_SHARE 0.1

/* Notes what a trial has found. If items change each other's outputs and the configuration says to batch them, they are
 * batched all the same. */
static void tried(struct profile_record *record, int rc, bool told, const struct sy_error *why) {
    if (rc == -EXDEV && told) {
        if (!record->mixes[0])
            snprintf(record->mixes, sizeof(record->mixes), "%.255s", why->text);
    } else if (rc) {
        record->batched = false;
        note(record, why->text);
    }
}

int measure_model(const struct engine_ops *ops, struct engine_model *model, const struct signature *signature,
                  int64_t item_dims[][TENSOR_DIMS_MAX], const struct measure_options *options,
                  struct profile_record *record, struct sy_error *err) {
    struct sy_error why = {""}, trial_why = {""};
    struct timing timing = {0};
    int rc = 0;
    record->batch_asked = options->batch_max;
    record->batch_max = options->batch_max < PROFILE_BATCH_MAX ? options->batch_max : PROFILE_BATCH_MAX;
    record->point_count = 0;
    record->batch_bytes = 0;
    note(record, "");
    const struct separable_trial trial = {.ops = ops,
                                          .model = model,
                                          .signature = signature,
                                          .item_dims = item_dims,
                                          .values = options->values,
                                          .seed = options->seed,
                                          .progress = options->progress,
                                          .context = options->context};
    struct separable *separable = NULL;
    record->batched = signature->batched;
    if (!signature->batched) {
        note(record, options->unbatched && *options->unbatched ? options->unbatched : "no batch dimension");
        record->batch_max = 1;
    }
    uint64_t single_bytes = measure_resident_bytes(); /* an item has been run already */

    bool padded = is_padded(ops, model, record->batch_max);
    double best_ns = INFINITY; /* an item's median in the best batch so far */
    int without_gain = 0;
    const struct measure_clock *clock = options->clock ? options->clock : &kernel_clock;
    int64_t begin_ns = clock->now_ns();
    for (uint32_t b = 1, next; b <= record->batch_max && record->point_count < PROFILE_POINTS_MAX; b = next) {
        if (b > 1 && batch_too_large(record, options, b, best_ns)) {
            record->batch_max = record->batch[record->point_count - 1];
            break;
        }
        if (b == 2 && !options->untried) {
            tried(record, separable_begin(&trial, &separable, &trial_why), options->told, &trial_why);
            single_bytes = measure_resident_bytes(); /* with the items, which stay */
        }
        bool tries = separable && b > 1 && b <= SEPARABLE_KINDS;
        int trial_rc = tries ? separable_try(separable, b, &trial_why) : 0;
        bool failed = trial_rc && trial_rc != -EXDEV && trial_rc != -EMSGSIZE;
        if (!failed)
            tried(record, trial_rc, options->told, &trial_why);
        if (b > 1 && !record->batched)
            break;
        if (options->progress)
            options->progress(options->context, "measuring", b);
        rc = point_time(ops, model, signature, item_dims, b, !tries || failed, options, &timing, &why);
        if (rc && b == 1) {
            separable_end(separable);
            return error_set(err, rc, "%s", why.text);
        }
        if (rc) {
            record->batch_max = record->batch[record->point_count - 1];
            note(record, why.text);
            break;
        }
        if (failed) { /* the trial failed, but not for the batch's size, as the batch has run */
            tried(record, trial_rc, options->told, &trial_why);
            break;
        }
        uint64_t resident = measure_resident_bytes();
        record->batch_bytes = resident > single_bytes ? resident - single_bytes : 0;
        record->batch[record->point_count] = b;
        record->latency_ns[record->point_count++] = timing.high_ns > 0 ? timing.high_ns : 1;
        double item_ns = (double)timing.median_ns / b;
        without_gain = item_ns > PAYS * best_ns || without_gain >= 3 ? without_gain + 1 : 0;
        best_ns = fmin(best_ns, item_ns);
        without_gain = padded ? 0 : without_gain; /* where batches are padded, all sizes are measured */
        if (without_gain == 3)                    /* larger batches are allowed, but gain nothing */
            while (record->batch_max > b && batch_too_large(record, options, record->batch_max, best_ns))
                record->batch_max--;
        next = without_gain >= 3 ? size_after(b, options->sizes, options->size_count, UINT32_MAX)
                                 : measure_batch_next(b, record->batch_max, options->sizes, options->size_count);
    }
    uint32_t last = record->batch[record->point_count - 1], greatest = record->batch_max;
    while (greatest > last && best_ns * greatest * TRIES_MOST > TRIES_SHARE * (double)(clock->now_ns() - begin_ns))
        greatest = greatest / 2 > last ? greatest / 2 : last;
    if (separable && record->batched && (greatest > last || greatest > SEPARABLE_KINDS))
        tried(record, separable_try(separable, greatest, &trial_why), options->told, &trial_why);
    while (separable && record->batched && greatest > 1 && !separable_all_tried(separable))
        tried(record, separable_try(separable, greatest, &trial_why), options->told, &trial_why);
    separable_end(separable);
    if (!record->batched)
        record->batch_max = record->point_count = 1;
    else if (padded)
        steps_add(ops, model, record);
    return 0;
}
