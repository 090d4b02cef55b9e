/* split.c - writes both parts, and compares their outputs with those of the whole. */
#include "model/prefix/split.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/time.h"
#include "model/prefix/extract.h"
#include "model/profile/measure.h"

#define ITEMS_TRIED 3
#define SEED        7
#define TURNS_MIN   9 /* least number of turns, in each of which the whole and the parts take a lone request */
#define TURNS_MAX   201
#define TURNS_NS    (200 * NS_PER_MS) /* least time of all turns */

/* ---- files ---- */

static int part_write(struct onnx_graph *graph, const struct extract_part *part, const char *path,
                      struct sy_error *err) {
    struct text text;
    text_init(&text, NULL, 0);
    int rc = extract_write(graph, part, &text, err);
    if (!rc) {
        FILE *to = fopen(path, "we");
        bool wrote = to && fwrite(text.data, 1, text.length, to) == text.length;
        if (!to || fclose(to) || !wrote)
            rc = error_set(err, -EIO, "%s: cannot be written", path);
    }
    text_free(&text);
    return rc;
}

/* ---- the prefix ---- */

static int prefix_write(struct split *split, const struct cut *cut, const struct tensor_spec *specs,
                        struct sy_error *err) {
    struct extract_end ends[CUT_TENSORS_MAX];
    uint32_t tensors[CUT_TENSORS_MAX];
    cut_tensors(split->members[0].model, cut, tensors);
    for (uint32_t i = 0; i < cut->tensor_count; i++)
        ends[i] = (struct extract_end){tensors[i], specs ? &specs[i] : NULL};
    struct extract_part part = {.name = "prefix", .to = ends, .to_count = cut->tensor_count};
    int rc = part_write(&split->members[0].model->graph, &part, split->prefix_path, err);
    return rc ? rc : split->engine->signature(split->prefix_path, NULL, &split->prefix, err);
}

/* Writes the prefix twice: first without the types of its outputs, which the library that loads it then says, and again
 * with them, since users of the file need them. */
static int prefix_make(struct split *split, const struct cut *cut, struct sy_error *err) {
    const struct onnx_graph *first = &split->members[0].model->graph;
    int rc = prefix_write(split, cut, NULL, err);
    const struct signature_room found = split->prefix;
    if (!rc && found.signature.output_count != cut->tensor_count)
        rc = error_set(err, -EINVAL, "the prefix has %u outputs, not %u", found.signature.output_count,
                       cut->tensor_count);
    if (!rc)
        rc = prefix_write(split, cut, found.outputs, err);
    /* Each model has its own names of inputs; their numbers are the same in all. */
    for (uint32_t i = 0; !rc && i < split->prefix.signature.input_count; i++) {
        const char *name = split->prefix.inputs[i].name;
        uint32_t t = onnx_tensor_find(first, name, strlen(name));
        if (t == ONNX_NONE || first->tensors[t].input == ONNX_NONE)
            return error_set(err, -EINVAL, "'%s' is not served as an input", name);
        split->prefix_inputs[i] = first->tensors[t].input;
    }
    return rc;
}

static int prefix_inputs(const struct split *split, struct split_member *member, struct sy_error *err) {
    const struct onnx_graph *graph = &member->model->graph;
    if (member->whole.signature.batched && !split->prefix.signature.batched)
        return error_set(err, -EINVAL, "a tensor at the cut has no batch dimension");
    for (uint32_t i = 0; i < split->prefix.signature.input_count; i++) {
        uint32_t number = split->prefix_inputs[i];
        int found = -1;
        if (number < graph->input_count) {
            struct onnx_bytes name = graph->tensors[graph->inputs[number]].name;
            found = tensor_spec_find(member->whole.inputs, member->whole.signature.input_count, (const char *)name.data,
                                     name.length);
        }
        member->prefix_takes[i] = found < 0 ? SPLIT_NONE : (uint32_t)found;
        if (found < 0)
            return error_set(err, -EINVAL, "'%s' is not served as an input", split->prefix.inputs[i].name);
    }
    return 0;
}

/* ---- a suffix ---- */

/* The output of the prefix that a tensor of a member is. */
static uint32_t cut_place(const struct cut *cut, const struct cut_model *model, uint32_t tensor) {
    for (uint32_t i = 0; i < cut->tensor_count; i++)
        if (onnx_digest_equal(&model->digests.tensors[tensor], &cut->tensors[i]))
            return i;
    return SPLIT_NONE;
}

/* Notes which inputs of the suffix are outputs of the prefix. */
static int suffix_inputs(struct split_member *member, const struct extract_part *part, const uint32_t *places,
                         struct sy_error *err) {
    struct onnx_graph *graph = &member->model->graph;
    for (uint32_t i = 0; i < member->suffix.signature.input_count; i++) {
        const char *name = member->suffix.inputs[i].name;
        member->suffix_takes[i] = member->suffix_own[i] = SPLIT_NONE;
        for (uint32_t f = 0; f < part->from_count; f++) {
            char input[TENSOR_NAME_MAX];
            int rc = extract_input_name(graph, part, part->from[f].tensor, input, sizeof(input), err);
            if (rc)
                return rc;
            if (strcmp(input, name) == 0)
                member->suffix_takes[i] = places[f];
        }
        if (member->suffix_takes[i] != SPLIT_NONE)
            continue;
        int own = tensor_spec_find(member->whole.inputs, member->whole.signature.input_count, name, strlen(name));
        if (own < 0)
            return error_set(err, -EINVAL, "'%s' is no input of the whole", name);
        member->suffix_own[i] = (uint32_t)own;
    }
    return 0;
}

static bool needed_by(const struct onnx_graph *graph, const bool *nodes, uint32_t tensor) {
    bool needed = graph->tensors[tensor].output;
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t i = 0; nodes[n] && i < graph->nodes[n].input_count + graph->nodes[n].captured_count; i++)
            needed |= graph->uses[graph->nodes[n].uses_at + i] == tensor;
    return needed;
}

/* Finds the tensors at which a suffix begins: those of the cut, and tensors of the same value, that the suffix
 * takes. */
static int suffix_begins(const struct split *split, const struct split_member *member, const struct cut *cut,
                         struct extract_end *from, uint32_t *places, uint32_t *count, struct sy_error *err) {
    struct onnx_graph *graph = &member->model->graph;
    bool *stops = calloc(graph->tensor_count + 1, sizeof(*stops));
    bool *nodes = calloc(graph->node_count + 1, sizeof(*nodes));
    bool *tensors = calloc(graph->tensor_count + 1, sizeof(*tensors));
    int rc = stops && nodes && tensors ? 0 : error_set(err, -ENOMEM, "%s: out of memory", graph->path);
    *count = 0;
    for (uint32_t t = 0; !rc && t < graph->tensor_count; t++)
        stops[t] = cut_place(cut, member->model, t) != SPLIT_NONE;
    if (!rc)
        cut_needed(graph, graph->outputs, graph->output_count, stops, nodes, tensors);
    for (uint32_t t = 0; !rc && t < graph->tensor_count; t++) {
        if (!stops[t] || !needed_by(graph, nodes, t))
            continue;
        if (*count == TENSORS_MAX)
            rc = error_set(err, -ENOTSUP, "a suffix would have more than %d inputs", TENSORS_MAX);
        else {
            places[*count] = cut_place(cut, member->model, t);
            from[*count] = (struct extract_end){t, &split->prefix.outputs[places[*count]]};
            ++*count;
        }
    }
    free(stops);
    free(nodes);
    free(tensors);
    return rc;
}

static int suffix_make(const struct split *split, struct split_member *member, const struct cut *cut,
                       struct sy_error *err) {
    struct onnx_graph *graph = &member->model->graph;
    struct extract_end from[TENSORS_MAX], to[TENSORS_MAX];
    uint32_t places[TENSORS_MAX], count;
    if (graph->output_count > TENSORS_MAX)
        return error_set(err, -ENOTSUP, "it has more than %d outputs", TENSORS_MAX);
    int rc = suffix_begins(split, member, cut, from, places, &count, err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < graph->output_count; i++)
        to[i] = (struct extract_end){graph->outputs[i], NULL};
    struct extract_part part = {.name = "suffix",
                                .from = from,
                                .to = to,
                                .from_count = count,
                                .to_count = graph->output_count,
                                .own_outputs = true};
    rc = part_write(graph, &part, member->suffix_path, err);
    if (!rc)
        rc = split->engine->signature(member->suffix_path, NULL, &member->suffix, err);
    if (!rc && member->suffix.signature.output_count != member->whole.signature.output_count)
        rc = error_set(err, -EINVAL, "the suffix has %u outputs, not %u", member->suffix.signature.output_count,
                       member->whole.signature.output_count);
    if (!rc && member->whole.signature.batched && !member->suffix.signature.batched)
        rc = error_set(err, -EINVAL, "the suffix has no batch dimension");
    return rc ? rc : suffix_inputs(member, &part, places, err);
}

/* ---- the trial ---- */

/* A whole model and its two parts, on one accelerator. */
struct trial {
    const struct engine_ops *ops;
    struct engine *engine;
    struct engine_model *whole, *prefix, *suffix;
};

static int part_load(const struct trial *trial, const char *path, const struct signature *signature,
                     struct engine_model **model, struct sy_error *err) {
    struct engine_model_source source = {
        .name = path, .path = path, .signature = signature, .batch_max = ITEMS_TRIED, .original = true};
    return trial->ops->load(trial->engine, &source, model, err);
}

static int outputs_compare(const struct output_block *whole, const struct output_block *parts,
                           const struct signature *signature, uint32_t items, struct sy_error *err) {
    for (uint32_t o = 0; o < signature->output_count; o++) {
        const struct tensor_view *a = &whole->outputs[o], *b = &parts->outputs[o];
        if (a->dim_count != b->dim_count || memcmp(a->dims, b->dims, a->dim_count * sizeof(a->dims[0])) != 0 ||
            a->bytes != b->bytes || (a->bytes && memcmp(a->data, b->data, a->bytes) != 0))
            return error_set(err, -EINVAL, "output '%s' of %u item%s differs from the whole model's",
                             signature->outputs[o].name, items, items == 1 ? "" : "s");
    }
    return 0;
}

/* Runs the parts on the inputs of the whole. */
static int parts_run(const struct trial *trial, const struct split *split, const struct split_member *member,
                     const struct tensor_view *inputs, uint32_t items, struct output_block **out,
                     struct sy_error *err) {
    struct tensor_view views[TENSORS_MAX];
    struct output_block *between = NULL;
    for (uint32_t i = 0; i < split->prefix.signature.input_count; i++)
        views[i] = inputs[member->prefix_takes[i]];
    int rc = trial->ops->run(trial->prefix, views, items, &between, err);
    for (uint32_t i = 0; !rc && i < member->suffix.signature.input_count; i++)
        views[i] = member->suffix_takes[i] == SPLIT_NONE ? inputs[member->suffix_own[i]]
                                                         : between->outputs[member->suffix_takes[i]];
    if (!rc)
        rc = trial->ops->run(trial->suffix, views, items, out, err);
    output_block_put(between);
    return rc;
}

static int items_try(const struct trial *trial, const struct split *split, const struct split_member *member,
                     int64_t dims[][TENSOR_DIMS_MAX], uint32_t items, bool *ran, struct sy_error *err) {
    struct tensor_view inputs[TENSORS_MAX];
    struct output_block *whole = NULL, *parts = NULL;
    if (measure_inputs(&member->whole.signature, dims, items, NULL, SEED + items, inputs))
        return error_set(err, -ENOMEM, "out of memory");
    int rc = trial->ops->run(trial->whole, inputs, items, &whole, err);
    *ran = rc == 0;
    if (!rc)
        rc = parts_run(trial, split, member, inputs, items, &parts, err);
    if (!rc)
        rc = outputs_compare(whole, parts, &member->whole.signature, items, err);
    output_block_put(whole);
    output_block_put(parts);
    free(inputs[0].data);
    return rc;
}

/* Times a request to the whole, and one to the parts. */
static int turn_take(const struct trial *trial, const struct split *split, const struct split_member *member,
                     const struct tensor_view *inputs, int64_t *whole_ns, int64_t *parts_ns, struct sy_error *err) {
    struct output_block *whole = NULL, *parts = NULL;
    int64_t begin_ns = clock_now_ns();
    int rc = trial->ops->run(trial->whole, inputs, 1, &whole, err);
    int64_t between_ns = clock_now_ns();
    if (!rc)
        rc = parts_run(trial, split, member, inputs, 1, &parts, err);
    *whole_ns = between_ns - begin_ns;
    *parts_ns = clock_now_ns() - between_ns;
    output_block_put(whole);
    output_block_put(parts);
    return rc;
}

/* Times lone requests in turns, so that other work of this machine slows the whole and the parts alike. (The profiles
 * are measured minutes apart.) */
static int lone_time(const struct trial *trial, const struct split *split, struct split_member *member,
                     int64_t dims[][TENSOR_DIMS_MAX], struct sy_error *err) {
    struct tensor_view inputs[TENSORS_MAX];
    int64_t whole_ns[TURNS_MAX], parts_ns[TURNS_MAX], begin_ns = clock_now_ns();
    uint32_t turns = 0;
    if (measure_inputs(&member->whole.signature, dims, 1, NULL, SEED, inputs))
        return error_set(err, -ENOMEM, "out of memory");
    int rc = 0;
    while (!rc && turns < TURNS_MAX && (turns < TURNS_MIN || clock_now_ns() - begin_ns < TURNS_NS)) {
        rc = turn_take(trial, split, member, inputs, &whole_ns[turns], &parts_ns[turns], err);
        turns++;
    }
    measure_sort(whole_ns, turns);
    measure_sort(parts_ns, turns);
    member->whole_ns = whole_ns[turns / 2];
    member->parts_ns = parts_ns[turns / 2];
    free(inputs[0].data);
    return rc;
}

static int trial_member(struct trial *trial, const struct split *split, struct split_member *member,
                        struct sy_error *err) {
    int rc = part_load(trial, member->model->graph.path, &member->whole.signature, &trial->whole, err);
    if (rc)
        return rc;
    rc = part_load(trial, member->suffix_path, &member->suffix.signature, &trial->suffix, err);
    if (!rc) {
        int64_t dims[TENSORS_MAX][TENSOR_DIMS_MAX];
        bool ran = false;
        rc = -EINVAL;
        /* sizes of open dimensions are tried until the whole model runs */
        for (uint32_t choice = 0; !ran && measure_item_dims(&member->whole.signature, choice, dims) == 0; choice++)
            rc = items_try(trial, split, member, dims, 1, &ran, err);
        for (uint32_t items = 2; !rc && member->whole.signature.batched && items <= ITEMS_TRIED; items++)
            rc = items_try(trial, split, member, dims, items, &ran, err);
        rc = rc ? rc : lone_time(trial, split, member, dims, err);
        trial->ops->unload(trial->suffix);
    }
    trial->ops->unload(trial->whole);
    return rc;
}

static int trial_run(const struct split *split, struct sy_error *err) {
    struct engine_options options = {.provider = "cpu"};
    struct trial trial = {.ops = split->engine};
    int rc = trial.ops->open(&trial.engine, &options, err);
    if (rc)
        return rc;
    rc = part_load(&trial, split->prefix_path, &split->prefix.signature, &trial.prefix, err);
    if (!rc) {
        for (uint32_t m = 0; !rc && m < split->count; m++)
            rc = trial_member(&trial, split, &split->members[m], err);
        trial.ops->unload(trial.prefix);
    }
    trial.ops->close(trial.engine);
    return rc;
}

int split_make(struct split *split, const struct cut *cut, struct sy_error *err) {
    int rc = 0;
    for (uint32_t m = 0; !rc && m < split->count; m++)
        rc = split->engine->signature(split->members[m].model->graph.path, NULL, &split->members[m].whole, err);
    if (!rc)
        rc = prefix_make(split, cut, err);
    for (uint32_t m = 0; !rc && m < split->count; m++)
        rc = prefix_inputs(split, &split->members[m], err);
    for (uint32_t m = 0; !rc && m < split->count; m++)
        rc = suffix_make(split, &split->members[m], cut, err);
    return rc ? rc : trial_run(split, err);
}
