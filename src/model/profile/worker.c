/* worker.c - the child process that profiles one model: loads it, tries to make an optimised copy, measures.
 *
 * Whatever the engine does to this process, the parent lives: the parent kills a child that is silent for too long, and
 * learns from the child's last message what the child died of. */
#include "model/profile/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/system/child_call.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "model/config/preparations.h"
#include "model/engine/engine.h"
#include "model/onnx/items.h"
#include "model/profile/measure.h"
#include "model/profile/warmup.h"

#define VALUES_ITEMS 8 /* items that should run together with the chosen values of inputs */

struct worker {
    struct worker_request request;
    struct served_model served; /* model of the request */
    const struct engine_ops *ops;
    struct engine *engine;
    struct engine_model_source source;
    struct engine_model *model; /* loaded model, while it is measured */
    uint32_t attempt;
    bool blame_cache, blame_values;
    struct input_values values;
    struct sy_error unbatched; /* reason why items are not run together; "": none */
    struct profile_record record;
};

int worker_read(int fd, void *data, size_t bytes) {
    for (char *at = data; bytes > 0;) {
        ssize_t got = read(fd, at, bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -EPIPE;
        at += got;
        bytes -= (size_t)got;
    }
    return 0;
}

int worker_write(int fd, const void *data, size_t bytes) {
    for (const char *at = data; bytes > 0;) {
        ssize_t put = write(fd, at, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        at += put;
        bytes -= (size_t)put;
    }
    return 0;
}

/* The child dies with its parent (PR_SET_PDEATHSIG), so failures to write are ignored. */
static void tell(const struct worker *w, enum worker_kind kind, const char *phase, uint32_t batch, const char *text) {
    struct worker_message message;
    memset(&message, 0, sizeof(message));
    message.kind = kind;
    message.batch = batch;
    message.attempt = w->attempt;
    message.blame_cache = w->blame_cache;
    message.values = w->values.step;
    message.blame_values = w->blame_values;
    snprintf(message.phase, sizeof(message.phase), "%s", phase);
    snprintf(message.text, sizeof(message.text), "%s", text);
    if (kind == WORKER_RESULT)
        message.record = w->record;
    (void)worker_write(WORKER_FD, &message, sizeof(message));
}

static void measuring(void *context, const char *phase, uint32_t batch) {
    tell(context, WORKER_PROGRESS, phase, batch, "");
}

static uint32_t batch_wanted(const struct worker *w) {
    return w->request.batch_max ? w->request.batch_max : w->served.batch_max;
}

/* Runs an item with the first choice of dims that works: the repository's, and one for those that it leaves open. The
 * first failure of all is the one reported, with the item, which the engine's sentence does not name. */
static int dims_find(struct worker *w, struct engine_model *model, struct sy_error *err) {
    const struct signature *signature = w->source.signature;
    struct sy_error why;
    int rc = -ENOENT;
    for (uint32_t choice = 0; rc; choice++) {
        if (measure_item_dims(signature, choice, w->record.item_dims))
            break;
        values_item_dims(&w->values, signature, w->served.reference_dims, w->record.item_dims);
        for (uint32_t i = 0; i < signature->input_count; i++)
            for (uint32_t d = 0; d < signature->inputs[i].dim_count; d++)
                if (w->served.reference_dims[i][d] > 0)
                    w->record.item_dims[i][d] = w->served.reference_dims[i][d];
        why.text[0] = '\0';
        rc = measure_run(w->ops, model, signature, w->record.item_dims, 1, &w->values, &why);
        if (!rc || err->text[0])
            continue;
        char items[160] = "", dims[80];
        for (size_t i = 0, at = 0; i < signature->input_count && at < sizeof(items); i++) {
            dims_format(w->record.item_dims[i], signature->batched, signature->inputs[i].dim_count, dims, sizeof(dims));
            at += (size_t)snprintf(items + at, sizeof(items) - at, "%s%s: %s", i ? ", " : "", signature->inputs[i].name,
                                   dims);
        }
        error_set(err, rc, "%.250s (measured with %s; if it needs others, give 'shapes' or 'sample' in symphony.yaml)",
                  why.text, items);
    }
    return rc;
}

/* Whether several items run, too. Where values of small inputs matter, VALUES_ITEMS items run, so that random integers
 * probably include a 0. */
static bool items_run(struct worker *w, struct engine_model *model) {
    uint32_t items = values_step_differs(&w->values, w->source.signature, w->record.item_dims, 3) ? VALUES_ITEMS : 2;
    struct sy_error why;
    items = items < batch_wanted(w) ? items : batch_wanted(w);
    return !w->source.signature->batched ||
           measure_run(w->ops, model, w->source.signature, w->record.item_dims, items, &w->values, &why) == 0;
}

/* Whether there are other values than random ones to try. */
static bool values_differ(const struct worker *w, int64_t item_dims[][TENSOR_DIMS_MAX]) {
    bool differ = false;
    for (uint32_t step = 1; step < VALUES_STEPS; step++)
        differ |= values_step_differs(&w->values, w->source.signature, item_dims, step);
    return differ;
}

/* Finds dims and values with which an item runs, if possible several together, and keeps them. */
static int item_find(struct worker *w, struct sy_error *err) {
    const struct signature *signature = w->source.signature;
    int64_t dims[TENSORS_MAX][TENSOR_DIMS_MAX];
    uint32_t found = VALUES_STEPS; /* first step with which an item runs */
    bool several = false, differ = values_differ(w, NULL);
    struct engine_model *model;
    struct engine_model_source single = w->source;
    single.original = true;
    single.batch_max = differ ? VALUES_ITEMS : 1;
    int rc = w->ops->load(w->engine, &single, &model, err);
    if (rc)
        return rc;
    for (uint32_t step = w->request.values; step < VALUES_STEPS && !several; step++) {
        if (!values_step_differs(&w->values, signature, NULL, step))
            continue;
        w->values.step = step;
        w->blame_values = differ;
        tell(w, WORKER_PROGRESS, step ? "trying values" : "loading", step, "");
        if (dims_find(w, model, err))
            continue;
        several = !values_differ(w, w->record.item_dims) || items_run(w, model);
        if (several || found == VALUES_STEPS) {
            found = step;
            memcpy(dims, w->record.item_dims, sizeof(dims));
        }
    }
    w->ops->unload(model);
    if (found == VALUES_STEPS)
        return err->text[0] ? -EINVAL : error_set(err, -EINVAL, "no values of its inputs with which it runs");
    err->text[0] = '\0';
    memcpy(w->record.item_dims, dims, sizeof(dims));
    w->values.step = w->record.values = found;
    w->record.values_given = values_any_given(&w->values);
    w->blame_values = found < 2 && values_differ(w, dims); /* other batches have other random numbers */
    char text[512];
    values_format(&w->values, signature, text, sizeof(text));
    if (*text)
        log_info("values of inputs", "model=%s values=\"%s\"", w->source.name, text);
    return 0;
}

/* Trials of an optimised copy: the item itself, two of them, and other sizes of every dimension that may have any size.
 * A copy may crash in one size and not in another, and the server is to run them all. */
enum { TRIAL_ITEM, TRIAL_TWO, TRIAL_DOUBLE, TRIAL_HALF, TRIAL_WIDE, TRIALS };

static int trial_fill(const struct worker *w, int kind, struct engine_trial *trial) {
    const struct signature *signature = w->source.signature;
    int64_t dims[TENSORS_MAX][TENSOR_DIMS_MAX];
    memcpy(dims, w->record.item_dims, sizeof(dims));
    for (uint32_t i = 0; i < signature->input_count; i++)
        for (uint32_t d = signature->batched; d < signature->inputs[i].dim_count; d++) {
            if (signature->inputs[i].dims[d] >= 0)
                continue;
            if (kind == TRIAL_DOUBLE || (kind == TRIAL_WIDE && d == signature->inputs[i].dim_count - 1))
                dims[i][d] *= 2;
            else if (kind == TRIAL_HALF)
                dims[i][d] = (dims[i][d] + 1) / 2;
        }
    trial->items = kind == TRIAL_TWO ? 2 : 1;
    return measure_inputs(signature, dims, trial->items, &w->values, 1 + (uint64_t)kind, trial->inputs);
}

/* Fills in the trials that make sense for the model. The caller frees the data of trial i, trials[i].inputs[0].data. */
static uint32_t trials_fill(const struct worker *w, struct engine_trial trials[TRIALS]) {
    uint32_t count = 0;
    for (int kind = TRIAL_ITEM; kind < TRIALS; kind++) {
        bool makes_sense = kind == TRIAL_ITEM ||
                           (kind == TRIAL_TWO ? w->source.signature->batched : w->source.signature->variable_shapes);
        if (makes_sense && trial_fill(w, kind, &trials[count]) == 0)
            count++;
    }
    return count;
}

/* Makes an optimised copy in the first form that works, starting with the one asked for. */
static void cache_make(struct worker *w) {
    struct engine_trial trials[TRIALS];
    strcpy(w->record.cache, "none");
    w->attempt = w->request.attempt;
    uint32_t count = w->ops->cache && !op_libraries_any(w->source.libraries) ? trials_fill(w, trials) : 0;
    for (int rc = -EAGAIN; count && rc && rc != -ENOENT; w->attempt += rc != 0) {
        struct sy_error why = {""};
        const char *made = "none";
        w->blame_cache = true;
        tell(w, WORKER_PROGRESS, "optimising", 1, "");
        rc = w->ops->cache(w->engine, &w->source, trials, count, w->attempt, &made, &why);
        if (!rc)
            snprintf(w->record.cache, sizeof(w->record.cache), "%s", made);
        else if (rc != -ENOENT)
            log_warn("optimised model not made", "model=%s form=%s reason=\"%s\"", w->source.name, made, why.text);
    }
    while (count)
        free(trials[--count].inputs[0].data);
    w->blame_cache = strcmp(w->record.cache, "none") != 0;
}

/* Tries a sample of model_warmup once here, before it runs where a crash would take the server down. */
static int sample_try(void *context, const struct warmup_sample *sample, struct sy_error *err) {
    struct worker *w = context;
    tell(w, WORKER_PROGRESS, "warming up", sample->items, sample->name);
    return warmup_run(w->ops, w->model, sample, err);
}

/* Decides whether items of the model may be run together, before they are tried: the configuration has said so, or the
 * graph shows that they stay apart. */
static void items_judge(struct worker *w) {
    struct served_model *model = &w->served;
    struct sy_error *why = &w->unbatched;
    struct onnx_graph graph;
    struct sy_error what = {""};
    why->text[0] = w->record.mixes[0] = '\0';
    w->record.judged = true;
    w->record.told = model->batch_told;
    if (!model->signature.batched)
        return;
    int rc = onnx_graph_read(model->path, &graph, &what);
    enum items_verdict verdict = rc ? ITEMS_UNKNOWN : items_walk(&graph, &what);
    if (!rc)
        onnx_graph_free(&graph);
    if (model->batch_told)
        snprintf(w->record.mixes, sizeof(w->record.mixes), "%.250s", verdict == ITEMS_JOINED ? what.text : "");
    else if (verdict != ITEMS_APART)
        error_set(why, -EXDEV, "items are not run together, since nobody has said 'batch: true': %.180s", what.text);
    else if (w->request.untried)
        error_set(why, -EXDEV, "it died or hung while unlike items were run together");
    if (!why->text[0])
        return;
    signature_unbatch(&model->signature);
    for (uint32_t i = 0; i < model->signature.input_count; i++) /* the item has one row, or as many as are configured */
        if (model->reference_dims[i][0] <= 0)
            model->reference_dims[i][0] = 1;
}

static int model_measure(struct worker *w, struct sy_error *err) {
    malloc_trim(0); /* memory that the trials left would hide the model's growth */
    uint64_t before_bytes = measure_resident_bytes();
    int64_t start_ns = clock_now_ns();
    tell(w, WORKER_PROGRESS, "loading", 0, "");
    int rc = w->ops->load(w->engine, &w->source, &w->model, err);
    if (rc)
        return rc;
    w->record.load_ns = clock_now_ns() - start_ns;
    rc = measure_run(w->ops, w->model, w->source.signature, w->record.item_dims, 1, &w->values, err);
    uint64_t after_bytes = measure_resident_bytes();
    w->record.weights_bytes = after_bytes > before_bytes ? after_bytes - before_bytes : 0;
    struct measure_options options = {
        .engine = w->engine,
        .batch_max = batch_wanted(w),
        .budget_ns = MEASURE_BUDGET_NS,
        .latency_max_ns = MEASURE_LATENCY_MAX_NS,
        .seed = 1,
        .unbatched = w->unbatched.text,
        .told = w->served.batch_told,
        .untried = w->request.untried,
        .values = &w->values,
        .sizes = w->served.queue.preferred,
        .size_count = w->served.queue.preferred_count,
        .progress = measuring,
        .context = w,
    };
    if (!rc)
        rc = measure_model(w->ops, w->model, w->source.signature, w->record.item_dims, &options, &w->record, err);
    if (!rc)
        rc = warmup_fingerprint(&w->served, w->record.warmup, err);
    if (w->served.batch_max > w->record.batch_max)
        w->served.batch_max = w->record.batch_max;
    w->blame_values = false;
    if (!rc)
        rc = warmup_each(&w->served, sample_try, w, err);
    w->ops->unload(w->model);
    return rc;
}

static int profile(struct worker *w, struct sy_error *err) {
    struct served_model *model = &w->served;
    struct engine_options options = {.provider = w->request.provider,
                                     .device = w->request.device,
                                     .cache_dir = w->request.has_cache_dir ? w->request.cache_dir : NULL};
    w->ops = engine_find(w->request.engine);
    if (!w->ops || !w->ops->signature)
        return error_set(err, -ENOTSUP, "this program has no engine '%s' for model files", w->request.engine);
    tell(w, WORKER_PROGRESS, "loading", 0, "");
    int rc = w->ops->signature(model->path, model->op_libraries, &w->record.file, err);
    if (!rc)
        rc = served_model_apply(model, signature_room_open(&w->record.file), err);
    if (!rc) { /* models that prepare inputs are tried here, before they run where a crash would end the server */
        if (model->prepared)
            tell(w, WORKER_PROGRESS, "preparing", 0, "");
        rc = preparations_open(model, w->ops->transforms, err);
        preparations_close(model);
    }
    if (!rc)
        rc = w->ops->open(&w->engine, &options, err);
    if (rc)
        return rc;
    items_judge(w);
    w->source = (struct engine_model_source){.name = model->name,
                                             .path = model->path,
                                             .signature = &model->signature,
                                             .batch_max = batch_wanted(w),
                                             .libraries = model->op_libraries};
    rc = values_read(model, &w->values, err);
    if (!rc)
        rc = item_find(w, err);
    if (!rc) {
        cache_make(w);
        rc = model_measure(w, err);
    }
    w->ops->close(w->engine);
    return rc;
}

int worker_main(void) {
    struct worker *w = calloc(1, sizeof(*w));
    struct sy_error err = {""};
    if (!w || worker_read(STDIN_FILENO, &w->request, sizeof(w->request)))
        return 2;                     /* the process was not started by a profiling parent */
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it dies with its parent */
    child_limit(strcmp(w->request.provider, "cuda") == 0);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); /* to be killed first when memory runs out */
    if (fd >= 0) {
        if (write(fd, "1000", 4) < 0)
            log_debug("oom_score_adj", "errno=%d", errno);
        close(fd);
    }
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (w->request.core >= 0 && w->request.core < CPU_SETSIZE) { /* the accelerator's core */
        CPU_SET(w->request.core, &cores);
        sched_setaffinity(0, sizeof(cores), &cores);
    }
    memcpy(w->served.name, w->request.name, sizeof(w->served.name));
    w->served.path = w->request.path;
    w->served.folder = *w->request.folder ? w->request.folder : NULL;
    w->served.op_libraries = op_libraries_any(&w->request.op_libraries) ? &w->request.op_libraries : NULL;
    int rc = profile(w, &err);
    tell(w, rc ? WORKER_FAILED : WORKER_RESULT, "", 0, err.text);
    values_free(&w->values);
    served_model_release(&w->served);
    free(w);
    return 0;
}
