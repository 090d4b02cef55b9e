/* warmup.c - makes batches by model_warmup, straight from the tree of the configuration. */
#include "model/profile/warmup.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/data/strings.h"
#include "core/util/conf.h"
#include "core/util/container.h"
#include "core/util/rng.h"
#include "model/config/model_config.h"
#include "model/config/preparations.h"
#include "model/config/symphony_yaml.h"
#include "model/profile/measure.h"

/* What a sample is checked against. */
struct reader {
    const char *origin, *folder;
    const struct signature *signature;
    int64_t batch_given; /* max_batch_size of the configuration; -1: not given */
    uint32_t batch_max;
    uint64_t bytes_max;
    struct sy_error *err;
};

/* An input of a sample, before it has data. */
struct part {
    const struct pbtxt_node *source; /* zero_data, random_data or input_data_file; NULL: the input is left out */
    int64_t dims[TENSOR_DIMS_MAX];   /* dims of one request */
    size_t bytes;                    /* bytes of one request; for strings in a file, of the whole file */
};

#define SAY(r, node, ...) pbtxt_error((r)->origin, node, (r)->err, "model_warmup: " __VA_ARGS__)

static int number_read(const struct reader *r, const struct pbtxt_node *message, const char *field, int64_t most,
                       int64_t *value) {
    const struct pbtxt_node *node = pbtxt_find(message, field);
    return node ? pbtxt_get_int(r->origin, node, 0, most, value, r->err) : 0;
}

/* ---- what an input is ---- */

static int dims_read(const struct reader *r, const struct pbtxt_node *input, const struct tensor_spec *spec,
                     struct part *part) {
    const struct pbtxt_node *first = pbtxt_find(input, "dims"), *node = first;
    int64_t given[TENSOR_DIMS_MAX];
    uint32_t dim_count = 0;
    for (; node; node = pbtxt_next(node)) {
        if (dim_count == TENSOR_DIMS_MAX)
            return SAY(r, node, "more than %d dimensions", TENSOR_DIMS_MAX);
        int rc = pbtxt_get_int(r->origin, node, 0, INT32_MAX, &given[dim_count++], r->err);
        if (rc)
            return rc;
    }
    /* As in `input`: without the batch dimension if there are batches; if max_batch_size is not given, the number of
     * dims tells. */
    uint32_t skip = r->batch_given > 0 || (r->batch_given < 0 && dim_count + 1 == spec->dim_count);
    bool same = dim_count + skip == spec->dim_count;
    part->dims[0] = 1;
    if (same)
        memcpy(part->dims + skip, given, dim_count * sizeof(given[0]));
    for (uint32_t d = 0; same && d < spec->dim_count; d++)
        same = spec->dims[d] == -1 || spec->dims[d] == part->dims[d];
    if (same)
        return 0;
    char wanted[128], found[128];
    dims_format(given, 0, dim_count, wanted, sizeof(wanted));
    dims_format(spec->dims, skip, spec->dim_count, found, sizeof(found));
    return SAY(r, first ? first : input, "input '%.60s': dims are %s, but the model's are %s%s", spec->name, wanted,
               found, skip ? " behind the batch dimension" : "");
}

/* Whether a name leads to a file within the folder: relative, and without "..". */
static bool file_is_within(const struct pbtxt_node *file) {
    if (!file->text[0] || file->text[0] == '/' || memchr(file->text, '\0', file->length))
        return false;
    for (const char *at = file->text; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2]))
            return false;
    }
    return true;
}

static int file_path(const struct reader *r, const struct pbtxt_node *file, char path[PATH_MAX]) {
    if (!file_is_within(file))
        return SAY(r, file, "input_data_file '%.60s' is not within the model's folder " WARMUP_FOLDER, file->text);
    if (snprintf(path, PATH_MAX, "%s/" WARMUP_FOLDER "/%s", r->folder, file->text) >= PATH_MAX)
        return SAY(r, file, "input_data_file: %s", strerror(ENAMETOOLONG));
    return 0;
}

/* The bytes of a file that an input takes: as many as its dims say; for strings, the whole file. */
static int file_measure(const struct reader *r, const struct tensor_spec *spec, struct part *part) {
    char path[PATH_MAX];
    struct stat st;
    int rc = file_path(r, part->source, path);
    if (rc)
        return rc;
    if (stat(path, &st) != 0)
        return SAY(r, part->source, "%.200s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return SAY(r, part->source, "%.200s: not a file", path);
    if ((uint64_t)st.st_size < part->bytes)
        return SAY(r, part->source, "%.200s: input '%.60s' takes %zu bytes%s, but the file has %lld", path, spec->name,
                   part->bytes, spec->type == DATATYPE_BYTES ? " at least" : "", (long long)st.st_size);
    if (spec->type == DATATYPE_BYTES)
        part->bytes = (size_t)st.st_size;
    return 0;
}

static int too_large(const struct reader *r, const struct pbtxt_node *node) {
    return SAY(r, node, "the inputs of a sample are larger than %llu bytes", (unsigned long long)r->bytes_max);
}

static int part_read(const struct reader *r, const struct pbtxt_node *input, const struct tensor_spec *spec,
                     struct part *part) {
    static const char *const sources[] = {"zero_data", "random_data", "input_data_file"};
    const struct pbtxt_node *type = pbtxt_find(input, "data_type");
    if (!type)
        return SAY(r, input, "input '%.60s': data_type is missing", spec->name);
    if (model_config_datatype(type->text) != spec->type)
        return SAY(r, type, "input '%.60s': data_type is %s, but the model's is %s", spec->name,
                   datatype_name(model_config_datatype(type->text)), datatype_name(spec->type));
    for (size_t i = 0; i < ARRAY_COUNT(sources) && !part->source; i++)
        part->source = pbtxt_find(input, sources[i]);
    if (!part->source)
        return SAY(r, input, "input '%.60s': one of zero_data, random_data, input_data_file is missing", spec->name);
    int rc = dims_read(r, input, spec, part);
    if (rc)
        return rc;
    int64_t elements = dims_product(part->dims, 0, spec->dim_count);
    if (elements < 0 || (uint64_t)elements > r->bytes_max)
        return too_large(r, input);
    part->bytes = (size_t)elements * datatype_bytes_min(spec->type);
    return part->source->kind == PBTXT_STRING ? file_measure(r, spec, part) : 0;
}

/* ---- its data ---- */

static int file_load(const struct reader *r, const struct part *part, void *data) {
    char path[PATH_MAX];
    int rc = file_path(r, part->source, path);
    FILE *file = rc ? NULL : fopen(path, "re");
    if (rc)
        return rc;
    if (!file)
        return SAY(r, part->source, "%.200s: %s", path, strerror(errno));
    bool whole = fread(data, 1, part->bytes, file) == part->bytes;
    fclose(file);
    return whole ? 0 : SAY(r, part->source, "%.200s: it could not be read, or grew shorter meanwhile", path);
}

/* Fills the data of one request, and then those of all `copies` of it. */
static int view_fill(const struct reader *r, const struct tensor_spec *spec, const struct part *part, uint32_t copies,
                     struct tensor_view *view) {
    *view = (struct tensor_view){.dim_count = spec->dim_count, .bytes = part->bytes * copies};
    memcpy(view->dims, part->dims, sizeof(view->dims));
    view->dims[0] *= copies;
    view->data = calloc(1, view->bytes + 1); /* zeros; strings among them are empty */
    if (!view->data)
        return error_set(r->err, -ENOMEM, "no memory for the warm-up of a model: %zu bytes", view->bytes);
    int64_t elements = dims_product(part->dims, 0, spec->dim_count);
    int rc = 0;
    if (part->source->kind == PBTXT_STRING) {
        rc = file_load(r, part, view->data);
    } else if (strcmp(part->source->name, "random_data") == 0 && spec->type != DATATYPE_BYTES) {
        struct rng rng;
        rng_seed(&rng, 1);
        measure_fill(view->data, (size_t)elements, spec->type, &rng);
    }
    struct sy_error why;
    if (!rc && spec->type == DATATYPE_BYTES && strings_check(view->data, part->bytes, elements, &why) < 0)
        rc = SAY(r, part->source, "input '%.60s': %.200s", spec->name, why.text);
    for (uint32_t i = 1; i < copies && !rc; i++)
        memcpy((char *)view->data + i * part->bytes, view->data, part->bytes);
    return rc;
}

/* ---- a sample ---- */

static int parts_read(const struct reader *r, const struct pbtxt_node *sample, struct part *parts) {
    const struct signature *s = r->signature;
    for (const struct pbtxt_node *entry = pbtxt_find(sample, "inputs"); entry; entry = pbtxt_next(entry)) {
        const struct pbtxt_node *key = pbtxt_find(entry, "key"), *value = pbtxt_find(entry, "value");
        if (!key || !value)
            return SAY(r, entry, "inputs: %s is missing", key ? "value" : "key");
        int i = tensor_spec_find(s->inputs, s->input_count, key->text, strlen(key->text));
        if (i < 0)
            return SAY(r, key, "the model has no input '%.60s' (it has %u, the first is '%.60s')", key->text,
                       s->input_count, s->input_count ? s->inputs[0].name : "");
        if (parts[i].source)
            return SAY(r, key, "input '%.60s' is given twice", key->text);
        int rc = part_read(r, value, &s->inputs[i], &parts[i]);
        if (rc)
            return rc;
    }
    for (uint32_t i = 0; i < s->input_count; i++)
        if (!parts[i].source && !(s->inputs_optional >> i & 1))
            return SAY(r, sample, "input '%.60s' is missing", s->inputs[i].name);
    return 0;
}

/* Reads a sample. `runs` is 0 if its batch_size is 0 or not given: Triton does not run such a sample either. */
static int sample_read(const struct reader *r, const struct pbtxt_node *node, struct warmup_sample *sample) {
    const struct pbtxt_node *name = pbtxt_find(node, "name"), *size = pbtxt_find(node, "batch_size");
    const struct signature *s = r->signature;
    struct part parts[TENSORS_MAX] = {{.source = NULL}};
    int64_t copies = 0, runs = 0, most = r->batch_given > 0 ? r->batch_given : 1;
    uint64_t total = 0;
    uint32_t items = 0; /* number of items of one request of the sample */
    *sample = (struct warmup_sample){
        .name = name ? name->text : "", .origin = r->origin, .line = node->line, .column = node->column};
    int rc = number_read(r, node, "batch_size", UINT32_MAX, &copies);
    if (!rc)
        rc = number_read(r, node, "count", WARMUP_RUNS_MAX, &runs);
    if (rc || copies == 0)
        return rc;
    if (copies > most && r->batch_given >= 0)
        return SAY(r, size, "batch_size is %lld, but the model's batches are of at most %lld", (long long)copies,
                   (long long)most);
    rc = parts_read(r, node, parts);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < s->input_count && s->batched; i++) {
        if (!parts[i].source)
            continue;
        if (parts[i].dims[0] < 1 || parts[i].dims[0] > r->batch_max || (items && items != parts[i].dims[0]))
            return SAY(r, node, "input '%.60s' has %lld items; expected the same of every input, 1 to %u",
                       s->inputs[i].name, (long long)parts[i].dims[0], r->batch_max);
        items = (uint32_t)parts[i].dims[0];
    }
    items = items ? items : 1;
    if (copies > r->batch_max / items)
        copies = r->batch_max / items;
    for (uint32_t i = 0; i < s->input_count; i++)
        total += parts[i].bytes * (uint64_t)copies;
    if (total > r->bytes_max)
        return too_large(r, node);
    sample->runs = runs > 0 ? (uint32_t)runs : 1;
    sample->items = s->batched ? items * (uint32_t)copies : 1;
    for (uint32_t i = 0; i < s->input_count && !rc; i++) {
        sample->files |= parts[i].source && parts[i].source->kind == PBTXT_STRING ? tensor_bit(i) : 0;
        sample->zeros |= parts[i].source && strcmp(parts[i].source->name, "zero_data") == 0 ? tensor_bit(i) : 0;
        if (parts[i].source)
            rc = view_fill(r, &s->inputs[i], &parts[i], (uint32_t)copies, &sample->inputs[i]);
        else
            sample->inputs[i].dim_count = s->inputs[i].dim_count;
    }
    return rc;
}

int warmup_each_of(const char *origin, const struct pbtxt_node *root, const char *folder,
                   const struct signature *signature, uint32_t batch_max, uint64_t bytes_max, warmup_visit *each,
                   void *context, struct sy_error *err) {
    struct reader r = {origin, folder, signature, -1, batch_max, bytes_max, err};
    const struct pbtxt_node *node = pbtxt_find(root, "model_warmup");
    int rc = node ? number_read(&r, root, "max_batch_size", INT32_MAX, &r.batch_given) : 0;
    for (; node && !rc; node = pbtxt_next(node)) {
        struct warmup_sample sample;
        rc = sample_read(&r, node, &sample);
        if (!rc && sample.runs > 0)
            rc = each(context, &sample, err);
        for (uint32_t i = 0; i < TENSORS_MAX; i++)
            free(sample.inputs[i].data);
    }
    return rc;
}

int warmup_each(const struct served_model *model, warmup_visit *each, void *context, struct sy_error *err) {
    char path[PATH_MAX], *text;
    struct pbtxt_node *root;
    struct stat st;
    size_t bytes;
    if (!model->folder || snprintf(path, sizeof(path), "%s/" MODEL_CONFIG_FILE, model->folder) >= PATH_MAX ||
        lstat(path, &st) != 0)
        return 0;
    int rc = conf_slurp(path, &text, &bytes, err);
    if (rc)
        return rc;
    rc = pbtxt_read(path, text, bytes, &root, err);
    free(text);
    if (rc)
        return rc;
    rc = model_config_check(path, root, NULL, NULL, err);
    if (!rc)
        rc = warmup_each_of(path, root, model->folder, &model->signature, model->batch_max, WARMUP_BYTES_MAX, each,
                            context, err);
    pbtxt_free(root);
    return rc;
}

/* ---- what is done with them ---- */

int warmup_run(const struct engine_ops *ops, struct engine_model *model, const struct warmup_sample *sample,
               struct sy_error *err) {
    struct output_block *block = NULL;
    struct sy_error why = {""};
    int rc = ops->run(model, sample->inputs, sample->items, &block, &why);
    output_block_put(block);
    if (rc == 0)
        return 0;
    return error_set(err, rc, "%s:%u:%u: model_warmup: sample '%.60s' failed: %.300s", sample->origin, sample->line,
                     sample->column, sample->name, why.text);
}

struct mixing {
    uint32_t input_count;
    char *text;
};

static int sample_mix(void *context, const struct warmup_sample *sample, struct sy_error *err) {
    const struct mixing *mixing = context;
    struct {
        char before[FINGERPRINT_TEXT + 7];
        struct fingerprint data[TENSORS_MAX];
        int64_t dims[TENSORS_MAX][TENSOR_DIMS_MAX];
    } all;
    (void)err;
    memset(&all, 0, sizeof(all));
    strcpy(all.before, mixing->text);
    for (uint32_t i = 0; i < mixing->input_count; i++) {
        if (sample->inputs[i].data)
            all.data[i] = fingerprint_bytes(sample->inputs[i].data, sample->inputs[i].bytes);
        memcpy(all.dims[i], sample->inputs[i].dims, sizeof(all.dims[i]));
    }
    struct fingerprint mixed = fingerprint_bytes(&all, sizeof(all));
    fingerprint_format(&mixed, mixing->text);
    return 0;
}

/* Mixes in `sample` of symphony.yaml: the values with which the model was measured. */
static int yaml_sample_mix(const struct served_model *model, char text[FINGERPRINT_TEXT], struct sy_error *err) {
    struct symphony_yaml *settings = calloc(1, sizeof(*settings));
    struct {
        char before[FINGERPRINT_TEXT + 7];
        struct fingerprint samples;
    } all;
    bool found = false;
    int rc = settings ? 0 : error_set(err, -ENOMEM, "%s: out of memory", model->name);
    if (!rc && model->folder)
        rc = symphony_yaml_read_folder(model->folder, settings, &found, err);
    if (!rc && settings->sample_count) {
        memset(&all, 0, sizeof(all));
        strcpy(all.before, text);
        all.samples = fingerprint_bytes(settings->samples, sizeof(settings->samples));
        struct fingerprint mixed = fingerprint_bytes(&all, sizeof(all));
        fingerprint_format(&mixed, text);
    }
    free(settings);
    return rc;
}

/* Mixes in the model that prepares an input, since the child runs that, too, before a server opens it. */
static int preparation_mix(const struct served_model *model, uint32_t input, char text[FINGERPRINT_TEXT],
                           struct sy_error *err) {
    char path[PATH_MAX];
    struct {
        char before[FINGERPRINT_TEXT + 7];
        struct fingerprint file;
        uint64_t input;
    } all;
    memset(&all, 0, sizeof(all));
    strcpy(all.before, text);
    all.input = input;
    int rc = preparation_path(model, input, path, sizeof(path), err);
    if (!rc)
        rc = fingerprint_model(path, &all.file, err);
    struct fingerprint mixed = fingerprint_bytes(&all, sizeof(all));
    fingerprint_format(&mixed, text);
    return rc;
}

/* Mixes in a library with the model's own operators, which may crash: the child runs them first. */
static int library_mix(const char *path, char text[FINGERPRINT_TEXT], struct sy_error *err) {
    struct {
        char before[FINGERPRINT_TEXT + 7];
        struct fingerprint file;
    } all;
    memset(&all, 0, sizeof(all));
    strcpy(all.before, text);
    int rc = fingerprint_file(path, &all.file, err);
    struct fingerprint mixed = fingerprint_bytes(&all, sizeof(all));
    fingerprint_format(&mixed, text);
    return rc;
}

int warmup_fingerprint(const struct served_model *model, char text[FINGERPRINT_TEXT], struct sy_error *err) {
    struct mixing mixing = {model->signature.input_count, text};
    text[0] = '\0';
    int rc = warmup_each(model, sample_mix, &mixing, err);
    if (!rc)
        rc = yaml_sample_mix(model, text, err);
    for (uint32_t i = 0; i < model->signature.input_count && !rc; i++)
        if (model->prepared & tensor_bit(i) && model->preparations[i].file[0])
            rc = preparation_mix(model, i, text, err);
    for (uint32_t i = 0; model->op_libraries && i < OP_LIBRARIES_MAX && model->op_libraries->paths[i][0] && !rc; i++)
        rc = library_mix(model->op_libraries->paths[i], text, err);
    return rc;
}
