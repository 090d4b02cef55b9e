/* symphony_yaml.c - reads a model folder's symphony.yaml. */
#include "model/config/symphony_yaml.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/data/messages.h"
#include "core/data/profile.h"
#include "core/util/conf.h"
#include "core/util/time.h"
#include "model/config/served_model.h"

static int shapes_read(const struct conf_node *node, void *into, struct sy_error *err) {
    struct symphony_yaml *yaml = into;
    if (node->kind != CONF_MAP || node->count > TENSORS_MAX)
        return conf_error(node, err, "expected a mapping of at most %d inputs to lists of dimensions", TENSORS_MAX);
    for (const struct conf_node *child = node->first; child; child = child->next) {
        struct symphony_yaml_shape *shape = &yaml->shapes[yaml->shape_count++];
        if (strlen(child->key) >= sizeof(shape->input))
            return conf_error(child, err, "an input's name of more than %zu bytes", sizeof(shape->input) - 1);
        strcpy(shape->input, child->key);
        if (child->kind != CONF_LIST || !child->count || child->count > TENSOR_DIMS_MAX)
            return conf_error(child, err, "expected a list of 1 to %d dimensions, without the batch dimension",
                              TENSOR_DIMS_MAX);
        for (const struct conf_node *dim = child->first; dim; dim = dim->next) {
            int rc = conf_get_int(dim, 1, INT32_MAX, "a dimension", &shape->dims[shape->dim_count++], err);
            if (rc)
                return rc;
        }
    }
    return 0;
}

static int samples_read(const struct conf_node *node, void *into, struct sy_error *err) {
    struct symphony_yaml *yaml = into;
    if (node->kind != CONF_MAP || node->count > TENSORS_MAX)
        return conf_error(node, err, "expected a mapping of at most %d inputs to lists of values", TENSORS_MAX);
    for (const struct conf_node *child = node->first; child; child = child->next) {
        /* Values are kept as text: the data type to read them as is the model's. */
        struct symphony_yaml_sample *sample = &yaml->samples[yaml->sample_count++];
        const struct conf_node *value = child->kind == CONF_LIST ? child->first : child;
        size_t used = 0;
        if (strlen(child->key) >= sizeof(sample->input))
            return conf_error(child, err, "an input's name of more than %zu bytes", sizeof(sample->input) - 1);
        strcpy(sample->input, child->key);
        sample->line = child->line;
        if (child->kind == CONF_MAP || !value)
            return conf_error(child, err, "expected a value, or a list of values, without brackets within");
        for (; value; value = child->kind == CONF_LIST ? value->next : NULL, sample->count++) {
            if (value->kind != CONF_SCALAR)
                return conf_error(value, err, "expected a value, or a list of values, without brackets within");
            size_t bytes = strlen(value->text) + 1;
            if (used + bytes > sizeof(sample->texts))
                return conf_error(child, err, "values of more than %zu characters; model_warmup takes a file",
                                  sizeof(sample->texts));
            memcpy(sample->texts + used, value->text, bytes);
            used += bytes;
        }
    }
    return 0;
}

static int slo_read(const struct conf_node *node, void *into, struct sy_error *err) {
    struct symphony_yaml *yaml = into;
    yaml->best_effort = node->kind == CONF_SCALAR && strcmp(node->text, "none") == 0;
    if (yaml->best_effort)
        return 0;
    return conf_get_time(node, NS_PER_MS, 0.001, 3.6e6, "a number of milliseconds, or none", &yaml->slo_ns, err);
}

static int batch_read(const struct conf_node *node, void *into, struct sy_error *err) {
    struct symphony_yaml *yaml = into;
    yaml->batch_given = true;
    return conf_get_bool(node, &yaml->batch, err);
}

/* Reads the path of a profile, which is relative to the file that names it. */
static int profile_read(const struct conf_node *node, void *into, struct sy_error *err) {
    struct symphony_yaml *yaml = into;
    char path[sizeof(yaml->profile_path)];
    int rc = conf_get_text(node, path, sizeof(path), "the path of a profile", err);
    if (rc)
        return rc;
    const char *slash = path[0] == '/' ? NULL : strrchr(node->origin, '/');
    int folder = slash ? (int)(slash + 1 - node->origin) : 0;
    int length = snprintf(yaml->profile_path, sizeof(yaml->profile_path), "%.*s%s", folder, node->origin, path);
    if ((size_t)length >= sizeof(yaml->profile_path))
        return conf_error(node, err, "the path is longer than %zu bytes", sizeof(yaml->profile_path) - 1);
    return 0;
}

static int beyond_read(const struct conf_node *node, void *into, struct sy_error *err) {
    struct symphony_yaml_step *step = into;
    bool refuse = node->kind == CONF_SCALAR && strcmp(node->text, "refuse") == 0;
    bool cut = node->kind == CONF_SCALAR && strcmp(node->text, "cut") == 0;
    if (!refuse && !cut)
        return conf_error(node, err, "expected refuse or cut");
    step->beyond_given = true;
    step->beyond = cut ? ENSEMBLE_CUT : ENSEMBLE_REFUSE;
    return 0;
}

static const struct conf_key step_keys[] = {
    CONF_KEY_TEXT(struct symphony_yaml_step, step, "step", "a step's model, or its number in config.pbtxt"),
    CONF_KEY_TEXT(struct symphony_yaml_step, for_each, "for_each", "the name of a tensor"),
    CONF_KEY_INT(struct symphony_yaml_step, limit, "limit", 1, ENSEMBLE_EACH_MAX, "a number of items"),
    CONF_KEY_PARSED("beyond", beyond_read),
    CONF_KEY_TEXT(struct symphony_yaml_step, when, "when", "the name of a tensor"),
    CONF_KEYS_END,
};

static int steps_read(const struct conf_node *node, void *into, struct sy_error *err) {
    struct symphony_yaml *yaml = into;
    if (node->kind != CONF_LIST || node->count > ENSEMBLE_STEPS_MAX)
        return conf_error(node, err, "expected a list of at most %d steps", ENSEMBLE_STEPS_MAX);
    for (const struct conf_node *child = node->first; child; child = child->next) {
        struct symphony_yaml_step *step = &yaml->steps[yaml->step_count++];
        if (child->kind != CONF_MAP)
            return conf_error(child, err, "expected a mapping, such as {step: 2, for_each: boxes}");
        step->line = child->line;
        int rc = conf_read_map(child, step_keys, step, err);
        if (!rc && !step->step[0])
            rc = conf_error(child, err, "step is missing");
        if (!rc && !step->for_each[0] && (step->limit || step->beyond_given))
            rc = conf_error(child, err, "%s is for steps with for_each", step->limit ? "limit" : "beyond");
        if (!rc && !step->for_each[0] && !step->when[0])
            rc = conf_error(child, err, "for_each or when is missing");
        if (rc)
            return rc;
    }
    return 0;
}

static const struct conf_key prepare_keys[] = {
    CONF_KEY_TEXT(struct symphony_yaml_prepare, input, "input", "the name of an input"),
    CONF_KEY_TEXT(struct symphony_yaml_prepare, step, "step", "what is done: " PREPARE_STEPS),
    CONF_KEY_INT(struct symphony_yaml_prepare, max_bytes, "max_bytes", 1, PREPARE_BYTES_MAX, "a number of bytes"),
    CONF_KEY_INT(struct symphony_yaml_prepare, max_pixels, "max_pixels", 1, PREPARE_PIXELS_MAX, "a number of pixels"),
    CONF_KEY_TEXT(struct symphony_yaml_prepare, model, "model", "the name of a file"),
    CONF_KEYS_END,
};

static int prepare_read(const struct conf_node *node, void *into, struct sy_error *err) {
    struct symphony_yaml *yaml = into;
    if (node->kind != CONF_LIST || node->count > PREPARE_STEPS_MAX)
        return conf_error(node, err, "expected a list of at most %d steps", PREPARE_STEPS_MAX);
    for (const struct conf_node *child = node->first; child; child = child->next) {
        struct symphony_yaml_prepare *prepare = &yaml->prepare[yaml->prepare_count++];
        if (child->kind != CONF_MAP)
            return conf_error(child, err, "expected a mapping, such as {input: image, step: " PREPARE_IMAGE_STEP "}");
        prepare->line = child->line;
        int rc = conf_read_map(child, prepare_keys, prepare, err);
        if (rc)
            return rc;
        bool image = strcmp(prepare->step, PREPARE_IMAGE_STEP) == 0,
             onnx = strcmp(prepare->step, PREPARE_ONNX_STEP) == 0;
        if (!prepare->step[0])
            return conf_error(child, err, "step is missing; there are " PREPARE_STEPS);
        if (!image && !onnx)
            return conf_error(child, err, "step: '%s' is not known; there are " PREPARE_STEPS, prepare->step);
        if (image && prepare->model[0])
            return conf_error(child, err, "model is for the step " PREPARE_ONNX_STEP);
        if (onnx && (prepare->max_bytes || prepare->max_pixels))
            return conf_error(child, err, "%s is for the step " PREPARE_IMAGE_STEP,
                              prepare->max_bytes ? "max_bytes" : "max_pixels");
        if (onnx && !prepare->model[0])
            return conf_error(child, err, "model is missing: the name of a file beside the model's own");
        if (strchr(prepare->model, '/') || prepare->model[0] == '.')
            return conf_error(child, err, "model: '%s' is not the name of a file beside the model's own",
                              prepare->model);
    }
    return 0;
}

static const struct conf_key keys[] = {
    CONF_KEY_PARSED("slo_ms", slo_read),
    CONF_KEY_INT(struct symphony_yaml, batch_max, "max_batch", 1, PROFILE_BATCH_MAX, "a number of items"),
    CONF_KEY_PARSED("batch", batch_read),
    CONF_KEY_DOUBLE(struct symphony_yaml, weight, "weight", MODEL_WEIGHT_LEAST, MODEL_WEIGHT_MOST,
                    "how much this model's share weighs beside the others'"),
    CONF_KEY_BOOL(struct symphony_yaml, pinned, "pinned"),
    CONF_KEY_PARSED("profile", profile_read),
    CONF_KEY_PARSED("shapes", shapes_read),
    CONF_KEY_PARSED("sample", samples_read),
    CONF_KEY_PARSED("steps", steps_read),
    CONF_KEY_PARSED("prepare", prepare_read),
    CONF_KEYS_END,
};

int symphony_yaml_read(const char *path, struct symphony_yaml *yaml, struct sy_error *err) {
    struct conf_node *root;
    memset(yaml, 0, sizeof(*yaml));
    snprintf(yaml->path, sizeof(yaml->path), "%s", path);
    char *text;
    size_t bytes;
    int rc = conf_slurp(path, &text, &bytes, err);
    if (rc)
        return rc;
    rc = conf_read_text(path, text, bytes, &root, err);
    free(text);
    if (rc)
        return rc;
    rc = conf_read_map(root, keys, yaml, err);
    conf_free(root);
    return rc;
}

int symphony_yaml_read_folder(const char *folder, struct symphony_yaml *yaml, bool *found, struct sy_error *err) {
    char path[PATH_MAX];
    struct stat st;
    if (snprintf(path, sizeof(path), "%s/" SYMPHONY_YAML_FILE, folder) >= (int)sizeof(path))
        return error_set(err, -ENAMETOOLONG, "%.400s: %s", folder, strerror(ENAMETOOLONG));
    *found = lstat(path, &st) == 0; /* a dangling link counts as a mistake, not as a missing file */
    return *found ? symphony_yaml_read(path, yaml, err) : 0;
}
