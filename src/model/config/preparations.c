/* preparations.c - checks what symphony.yaml says of prepared inputs against the model, and opens the models that
 * prepare.
 *
 * How large a prepared input is must be known when its request is submitted, before anything has run: so the model's
 * input or the preparing model's output gives a number for every dimension behind the batch's. A preparing model runs
 * once for each item. If it has a batch dimension, that is 1. */
#include "model/config/preparations.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "model/config/symphony_yaml.h"

#define DIMS_BYTES  100
#define IMAGE_RANK  3u
#define IMAGE_DEPTH 3 /* size of an image's last dimension: red, green, blue */

#define MADE_MOST ((int64_t)1 << 40) /* most elements made of an item; products with sizes do not overflow */

/* Guess of the time of an element, until the time is measured. */
#define ELEMENT_GUESS_NS 5

static int step_error(const struct served_model *model, uint32_t line, uint32_t step, struct sy_error *err,
                      const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static int step_error(const struct served_model *model, uint32_t line, uint32_t step, struct sy_error *err,
                      const char *fmt, ...) {
    char sentence[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    return error_set(err, -EINVAL, "%.150s/" SYMPHONY_YAML_FILE ":%u: prepare.%u: %s",
                     model->folder ? model->folder : model->name, line, step, sentence);
}

/* Errors of an input whose image, or file, does not fit. */
#define IMAGE_ERROR(model, i, ...)                                                                                     \
    step_error(model, (model)->preparations[i].image_line, (model)->preparations[i].image_at, err, __VA_ARGS__)
#define FILE_ERROR(model, i, ...)                                                                                      \
    step_error(model, (model)->preparations[i].file_line, (model)->preparations[i].file_at, err, __VA_ARGS__)

/* ---- the settings ---- */

/* The number of the input that a step is for; negative with a sentence: the step is for no possible input. */
static int prepared_input(const struct served_model *model, const struct symphony_yaml_prepare *prepare, uint32_t step,
                          struct sy_error *err) {
    const struct signature *s = &model->signature;
    int i = prepare->input[0] ? tensor_spec_find(s->inputs, s->input_count, prepare->input, strlen(prepare->input))
                              : (int)(s->input_count - 1);
    if (!prepare->input[0] && s->input_count != 1)
        return step_error(model, prepare->line, step, err, "the model has %u inputs, so input has to say which",
                          s->input_count);
    if (i < 0)
        return step_error(model, prepare->line, step, err, "the model has no input '%s'", prepare->input);
    if (s->inputs_optional >> i & 1)
        return step_error(model, prepare->line, step, err, "the model's input '%.64s' is optional", s->inputs[i].name);
    return i;
}

static int step_take(struct served_model *model, const struct symphony_yaml_prepare *prepare, uint32_t step,
                     struct sy_error *err) {
    int i = prepared_input(model, prepare, step, err);
    if (i < 0)
        return i;
    struct served_preparation *p = &model->preparations[i];
    bool image = strcmp(prepare->step, PREPARE_IMAGE_STEP) == 0;
    if (image ? p->bytes_max > 0 : p->file[0])
        return step_error(model, prepare->line, step, err, "input '%.64s' is given twice",
                          model->signature.inputs[i].name);
    if (image && p->file[0])
        return step_error(model, prepare->line, step, err, PREPARE_IMAGE_STEP " comes before " PREPARE_ONNX_STEP);
    model->prepared |= tensor_bit(i);
    if (image) {
        p->bytes_max = (uint32_t)(prepare->max_bytes ? prepare->max_bytes : PREPARE_BYTES_DEFAULT);
        p->pixels_max = (uint32_t)(prepare->max_pixels ? prepare->max_pixels : PREPARE_PIXELS_DEFAULT);
        p->image_at = step;
        p->image_line = prepare->line;
    } else {
        memcpy(p->file, prepare->model, sizeof(p->file));
        p->file_at = step;
        p->file_line = prepare->line;
    }
    return 0;
}

int preparation_path(const struct served_model *model, uint32_t input, char *path, size_t bytes, struct sy_error *err) {
    const char *beside = model->path ? model->path : "", *slash = strrchr(beside, '/');
    int folder = slash ? (int)(slash + 1 - beside) : 0;
    if (snprintf(path, bytes, "%.*s%s", folder, beside, model->preparations[input].file) >= (int)bytes)
        return FILE_ERROR(model, input, "%s", strerror(ENAMETOOLONG));
    return 0;
}

static int file_check(const struct served_model *model, uint32_t i, struct sy_error *err) {
    char path[PATH_MAX];
    struct stat st;
    int rc = preparation_path(model, i, path, sizeof(path), err);
    if (rc)
        return rc;
    if (stat(path, &st) != 0 || access(path, R_OK) != 0)
        return FILE_ERROR(model, i, "%.200s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return FILE_ERROR(model, i, "%.200s: not a file", path);
    return 0;
}

/* ---- what fits ---- */

/* Checks that the model takes the tensor that an image becomes. */
static int image_check(const struct served_model *model, uint32_t i, struct sy_error *err) {
    const struct signature *s = &model->signature;
    const struct tensor_spec *spec = &s->inputs[i];
    uint32_t skip = s->batched ? 1 : 0;
    char found[DIMS_BYTES];
    if (spec->type == DATATYPE_UINT8 && spec->dim_count == skip + IMAGE_RANK &&
        spec->dims[spec->dim_count - 1] == IMAGE_DEPTH)
        return 0;
    dims_format(spec->dims, skip, spec->dim_count, found, sizeof(found));
    return IMAGE_ERROR(model, i,
                       PREPARE_IMAGE_STEP " makes UINT8 [height,width,3], but the model's input '%.64s' is %s %s%s",
                       spec->name, datatype_name(spec->type), found, skip ? " behind the batch dimension" : "");
}

static bool is_one(int64_t dim) {
    return dim == -1 || dim == 1;
}

/* Checks that the model takes what a preparing model gives, and fills `lead` and made_dims. */
static int output_check(const struct served_model *model, uint32_t i, struct served_preparation *p,
                        struct sy_error *err) {
    const struct tensor_spec *spec = &model->signature.inputs[i], *in = &p->transform->input,
                             *out = &p->transform->output;
    uint32_t skip = model->signature.batched ? 1 : 0;
    bool fits = out->type == spec->type;
    p->made_dim_count = spec->dim_count - skip;
    p->lead = out->dim_count == p->made_dim_count + 1;
    fits = fits && (out->dim_count == p->made_dim_count || p->lead);
    for (uint32_t d = 0; fits && d < p->made_dim_count; d++) {
        int64_t wanted = spec->dims[skip + d], given = out->dims[p->lead + d];
        fits = wanted == given || wanted == -1 || given == -1;
        p->made_dims[d] = wanted == -1 ? given : wanted;
    }
    if (!fits) {
        char wanted[DIMS_BYTES], given[DIMS_BYTES];
        dims_format(out->dims, 0, out->dim_count, given, sizeof(given));
        dims_format(spec->dims, skip, spec->dim_count, wanted, sizeof(wanted));
        return FILE_ERROR(model, i, "%.60s: its output '%.40s' is %s %s, but the model's input '%.40s' is %s %s%s",
                          p->file, out->name, datatype_name(out->type), given, spec->name, datatype_name(spec->type),
                          wanted, skip ? " behind the batch dimension" : "");
    }
    if (p->lead && (in->dim_count == 0 || !is_one(in->dims[0]) || !is_one(out->dims[0]))) {
        char dims[DIMS_BYTES];
        const struct tensor_spec *which = in->dim_count == 0 || !is_one(in->dims[0]) ? in : out;
        dims_format(which->dims, 0, which->dim_count, dims, sizeof(dims));
        return FILE_ERROR(model, i, "%.60s: '%.40s' is %s; its first dimension, the batch's, has to be open or 1",
                          p->file, which->name, dims);
    }
    for (uint32_t d = 0; d < p->made_dim_count; d++)
        if (p->made_dims[d] < 0)
            return FILE_ERROR(model, i,
                              "%.60s: the size of its output '%.40s' is not known before it runs: neither it nor the "
                              "model's input '%.40s' has a number for dimension %u",
                              p->file, out->name, spec->name, d + skip);
    int64_t elements = dims_product(p->made_dims, 0, p->made_dim_count);
    return elements >= 0 && elements <= MADE_MOST
               ? 0
               : FILE_ERROR(model, i, "%.60s: its output '%.40s' is too large", p->file, out->name);
}

/* Checks that a preparing model takes what clients send, or what an image becomes. */
static int input_check(const struct served_model *model, uint32_t i, const struct served_preparation *p,
                       struct sy_error *err) {
    const struct tensor_spec *in = &p->transform->input;
    char dims[DIMS_BYTES];
    if (in->type == DATATYPE_BYTES)
        return FILE_ERROR(model, i, "%.60s: its input '%.40s' is BYTES, which " PREPARE_ONNX_STEP " does not take",
                          p->file, in->name);
    if (in->dim_count - p->lead + 1 > TENSOR_DIMS_MAX)
        return FILE_ERROR(model, i, "%.60s: its input '%.40s' has %u dimensions, which are too many", p->file, in->name,
                          in->dim_count);
    if (!p->bytes_max || (in->type == DATATYPE_UINT8 && in->dim_count == p->lead + IMAGE_RANK &&
                          (in->dims[in->dim_count - 1] == IMAGE_DEPTH || in->dims[in->dim_count - 1] == -1)))
        return 0;
    dims_format(in->dims, p->lead, in->dim_count, dims, sizeof(dims));
    return FILE_ERROR(model, i,
                      "%.60s: " PREPARE_IMAGE_STEP " makes UINT8 [height,width,3], but its input '%.40s' is %s %s%s",
                      p->file, in->name, datatype_name(in->type), dims, p->lead ? " behind the batch dimension" : "");
}

/* ---- what clients see ---- */

static int offer(struct served_model *model, struct sy_error *err) {
    if (!model->prepared)
        return 0;
    struct tensor_spec *inputs = mem_pool_take(&model->memory, model->signature.input_count * sizeof(*inputs));
    if (!inputs)
        return error_set(err, -ENOMEM, "no memory for the prepared inputs of model '%s'", model->name);
    for (uint32_t i = 0; i < model->signature.input_count; i++) {
        const struct served_preparation *p = &model->preparations[i];
        struct tensor_spec *offered = &inputs[i];
        *offered = model->signature.inputs[i];
        if (!(model->prepared & tensor_bit(i)) || !(p->bytes_max || p->transform))
            continue;
        offered->dim_count = 0;
        offered->reshaped = false;
        if (model->signature.batched)
            offered->dims[offered->dim_count++] = -1;
        if (p->bytes_max) {
            offered->type = DATATYPE_BYTES;
            offered->dims[offered->dim_count++] = 1;
            continue;
        }
        const struct tensor_spec *in = &p->transform->input;
        offered->type = in->type;
        for (uint32_t d = p->lead; d < in->dim_count; d++)
            offered->dims[offered->dim_count++] = in->dims[d];
    }
    model->offered = model->signature;
    model->offered.inputs = inputs;
    return 0;
}

static void transform_close(struct served_preparation *p) {
    if (p->transform)
        p->transform->ops->close(p->transform);
    p->transform = NULL;
}

static void preparation_end(void *preparation) {
    struct served_preparation *p = preparation;
    transform_close(p);
    free(p->contents);
}

int preparations_room(struct served_model *model, struct sy_error *err) {
    uint32_t count = model->signature.input_count;
    int rc = 0;
    model->preparations = mem_pool_take(&model->memory, count * sizeof(*model->preparations));
    for (uint32_t i = 0; i < count && model->preparations && !rc; i++)
        rc = mem_pool_own(&model->memory, preparation_end, &model->preparations[i]);
    return model->preparations && !rc ? 0 : error_set(err, -ENOMEM, "no memory for what prepares inputs");
}

int preparations_fill(struct served_model *model, const struct symphony_yaml *settings, struct sy_error *err) {
    model->prepared = 0;
    model->preparations = NULL;
    if (!settings->prepare_count)
        return 0;
    int rc = preparations_room(model, err);
    for (uint32_t step = 0; step < settings->prepare_count && !rc; step++)
        rc = step_take(model, &settings->prepare[step], step, err);
    for (uint32_t i = 0; i < model->signature.input_count && !rc; i++) {
        if (model->preparations[i].file[0])
            rc = file_check(model, i, err);
        else if (model->prepared & tensor_bit(i))
            rc = image_check(model, i, err);
    }
    return rc ? rc : offer(model, err);
}

/* ---- the models that prepare ---- */

static bool view_make(const struct tensor_spec *spec, bool lead, const int64_t *item, struct tensor_view *view) {
    view->dim_count = spec->dim_count;
    if (lead)
        view->dims[0] = 1;
    memcpy(view->dims + lead, item, (spec->dim_count - lead) * sizeof(item[0]));
    int64_t elements = dims_product(view->dims, 0, view->dim_count);
    if (elements <= 0)
        return false;
    view->bytes = (size_t)elements * datatype_bytes(spec->type);
    view->data = calloc(1, view->bytes);
    return view->data;
}

/* Runs the preparing model on zeros, twice; the second run is measured. Does nothing where the model's input has no
 * fixed shape. */
static int trial(const struct served_model *model, uint32_t i, struct served_preparation *p, struct sy_error *err) {
    struct transform *t = p->transform;
    struct tensor_view in = {.data = NULL}, out = {.data = NULL};
    struct sy_error why = {""};
    int rc = 0;
    t->pace.mean_ns = ELEMENT_GUESS_NS;
    if (view_make(&t->input, p->lead, t->input.dims + p->lead, &in) &&
        view_make(&t->output, p->lead, p->made_dims, &out)) {
        rc = t->ops->run(t, NULL, &in, &out, &why);
        int64_t begun_ns = clock_now_ns();
        rc = rc ? rc : t->ops->run(t, NULL, &in, &out, &why);
        if (rc)
            rc = FILE_ERROR(model, i, "%.60s: it does not run: %.200s", p->file, why.text);
        else
            pace_add(&t->pace, (double)(clock_now_ns() - begun_ns) / transform_elements(&in), 1, clock_now_ns());
    }
    free(in.data);
    free(out.data);
    return rc;
}

static int file_open(struct served_model *model, uint32_t i, const struct transform_ops *ops, struct sy_error *err) {
    struct served_preparation *p = &model->preparations[i];
    char path[PATH_MAX];
    struct sy_error why = {""};
    int rc = preparation_path(model, i, path, sizeof(path), err);
    if (rc)
        return rc;
    if (!ops)
        return FILE_ERROR(model, i, "no engine here runs %.200s", path);
    rc = p->contents ? ops->open_bytes(p->contents->data, p->contents->bytes, &p->transform, &why)
                     : ops->open(path, &p->transform, &why);
    if (rc)
        return FILE_ERROR(model, i, "%.120s: %.150s", path, why.text);
    rc = output_check(model, i, p, err);
    if (!rc)
        rc = input_check(model, i, p, err);
    if (!rc)
        rc = trial(model, i, p, err);
    return rc;
}

int preparations_open(struct served_model *model, const struct transform_ops *ops, struct sy_error *err) {
    int rc = 0;
    for (uint32_t i = 0; i < model->signature.input_count && model->prepared && !rc; i++) {
        if (model->preparations[i].file[0])
            rc = file_open(model, i, ops, err);
        else if (model->prepared & tensor_bit(i)) /* once more: the profile may have found that there are no batches */
            rc = image_check(model, i, err);
    }
    rc = rc ? rc : offer(model, err);
    if (rc)
        preparations_close(model);
    return rc;
}

void preparations_close(struct served_model *model) {
    for (uint32_t i = 0; i < model->signature.input_count && model->preparations; i++)
        transform_close(&model->preparations[i]);
}

/* ---- for other processes ---- */

/* Reads the file that prepares an input; *room: the bytes that are left of PREPARE_CARRIED_MAX. */
static int contents_read(struct served_model *model, uint32_t i, uint32_t *room, struct sy_error *err) {
    char path[PATH_MAX];
    struct stat st;
    int rc = preparation_path(model, i, path, sizeof(path), err);
    if (rc)
        return rc;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a FIFO by now */
    bool opened = fd >= 0 && fstat(fd, &st) == 0, is_file = opened && S_ISREG(st.st_mode);
    FILE *file = is_file ? fdopen(fd, "rb") : NULL;
    if (!file) {
        rc = FILE_ERROR(model, i, "%.200s: %s", path, opened && !is_file ? "not a file" : strerror(errno));
        if (fd >= 0)
            close(fd);
        return rc;
    }
    struct prepared_file *contents = malloc(sizeof(*contents) + *room + 1);
    size_t bytes = contents ? fread(contents->data, 1, *room + 1, file) : 0;
    bool failed = ferror(file);
    fclose(file);
    if (!contents || failed || bytes > *room) {
        free(contents);
        if (contents && !failed) {
            FILE_ERROR(
                model, i,
                "%.60s: the files that prepare a model's inputs go to the frontends of a cluster if they have at "
                "most %u bytes together, and these have more",
                model->preparations[i].file, PREPARE_CARRIED_MAX);
            return -EFBIG;
        }
        return FILE_ERROR(model, i, "%.200s: %s", path, contents ? strerror(EIO) : "out of memory");
    }
    struct prepared_file *fitting = realloc(contents, sizeof(*contents) + bytes);
    free(model->preparations[i].contents);
    model->preparations[i].contents = fitting ? fitting : contents;
    model->preparations[i].contents->bytes = (uint32_t)bytes;
    *room -= (uint32_t)bytes;
    return 0;
}

int preparations_pack(struct served_model *model, const struct transform_ops *ops, struct sy_error *err) {
    uint32_t room = PREPARE_CARRIED_MAX;
    int rc = 0;
    for (uint32_t i = 0; i < model->signature.input_count && model->prepared && !rc; i++)
        if (model->preparations[i].file[0])
            rc = contents_read(model, i, &room, err);
    if (!rc)
        rc = preparations_open(model, ops, err);
    preparations_close(model);
    return rc;
}

int preparations_told(struct served_model *model, struct sy_error *err) {
    int rc = 0;
    for (uint32_t i = 0; i < model->signature.input_count && !rc; i++)
        if ((model->prepared & tensor_bit(i)) && !model->preparations[i].file[0])
            rc = image_check(model, i, err);
    return rc ? rc : offer(model, err);
}
