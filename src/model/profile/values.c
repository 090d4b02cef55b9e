/* values.c - fills inputs with values that the model's folder gives, with random ones, or with one small number. */
#include "model/profile/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/floats.h"
#include "core/data/strings.h"
#include "model/config/symphony_yaml.h"
#include "model/profile/measure.h"
#include "model/profile/warmup.h"

static bool integer(enum datatype type) {
    return type >= DATATYPE_UINT8 && type <= DATATYPE_INT64;
}

/* ---- numbers as elements ---- */

/* Writes a text as an element of a type other than BYTES. False: the text is no such element. */
static bool element_put(enum datatype type, const char *text, void *at) {
    static const int64_t least[DATATYPE_COUNT] = {[DATATYPE_INT8] = INT8_MIN,
                                                  [DATATYPE_INT16] = INT16_MIN,
                                                  [DATATYPE_INT32] = INT32_MIN,
                                                  [DATATYPE_INT64] = INT64_MIN};
    static const uint64_t most[DATATYPE_COUNT] = {
        [DATATYPE_INT8] = INT8_MAX,     [DATATYPE_INT16] = INT16_MAX,   [DATATYPE_INT32] = INT32_MAX,
        [DATATYPE_INT64] = INT64_MAX,   [DATATYPE_UINT8] = UINT8_MAX,   [DATATYPE_UINT16] = UINT16_MAX,
        [DATATYPE_UINT32] = UINT32_MAX, [DATATYPE_UINT64] = UINT64_MAX, [DATATYPE_BOOL] = 1};
    char *end;
    if (type == DATATYPE_BOOL && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0))
        return *(uint8_t *)at = text[0] == 't', true;
    errno = 0;
    if (datatype_is_float(type)) {
        double value = strtod(text, &end);
        if (end == text || *end)
            return false;
        return float_put(type, value, at), true;
    }
    bool negative = text[0] == '-';
    if (!negative && (text[0] < '0' || text[0] > '9'))
        return false;
    int64_t below = negative ? strtoll(text, &end, 10) : 0;
    uint64_t value = negative ? (uint64_t)below : strtoull(text, &end, 10);
    if (errno || end == text || *end || (negative ? below < least[type] : value > most[type]))
        return false;
    memcpy(at, &value, datatype_bytes(type)); /* little-endian, as every platform served is */
    return true;
}

/* ---- what the folder gives ---- */

static int view_take(struct tensor_view *view, size_t bytes, struct sy_error *err) {
    view->bytes = bytes;
    view->data = calloc(1, bytes + 1);
    return view->data ? 0 : error_set(err, -ENOMEM, "no memory for the values of an input: %zu bytes", bytes);
}

/* Whether `count` values fill the input evenly, as far as its dimensions are known. */
static bool count_fits(const struct served_model *model, uint32_t input, uint32_t count) {
    int64_t known = 1;
    for (uint32_t d = model->signature.batched; d < model->signature.inputs[input].dim_count; d++) {
        if (model->reference_dims[input][d] == 0)
            return true;
        known *= model->reference_dims[input][d];
    }
    return known % count == 0;
}

static int yaml_sample_take(const struct served_model *model, const struct symphony_yaml *settings,
                            const struct symphony_yaml_sample *sample, struct input_values *values,
                            struct sy_error *err) {
    const struct signature *s = &model->signature;
    int i = tensor_spec_find(s->inputs, s->input_count, sample->input, strlen(sample->input));
    if (i < 0)
        return error_set(err, -EINVAL, "%.200s:%u: sample: the model has no input '%s'", settings->path, sample->line,
                         sample->input);
    const struct tensor_spec *spec = &s->inputs[i];
    bool strings = spec->type == DATATYPE_BYTES;
    const char *text = sample->texts;
    if (!count_fits(model, (uint32_t)i, sample->count))
        return error_set(err, -EINVAL,
                         "%.200s:%u: sample.%s: an item of the input cannot be filled with %u values evenly",
                         settings->path, sample->line, sample->input, sample->count);
    int rc = view_take(&values->given[i],
                       strings ? sizeof(sample->texts) + sample->count * STRING_LEAD_BYTES
                               : sample->count * datatype_bytes(spec->type),
                       err);
    char *at = values->given[i].data;
    for (uint32_t n = 0; n < sample->count && !rc; n++, text += strlen(text) + 1) {
        if (strings) {
            at = strings_lead(at, strlen(text));
            at = (char *)memcpy(at, text, strlen(text)) + strlen(text);
        } else if (element_put(spec->type, text, at)) {
            at += datatype_bytes(spec->type);
        } else {
            rc = error_set(err, -EINVAL, "%.200s:%u: sample.%s: '%.60s' is not a value of type %s", settings->path,
                           sample->line, sample->input, text, datatype_name(spec->type));
        }
    }
    values->given[i].bytes = rc ? 0 : (size_t)(at - (char *)values->given[i].data);
    return rc;
}

static int yaml_samples_take(const struct served_model *model, struct input_values *values, struct sy_error *err) {
    struct symphony_yaml *settings = calloc(1, sizeof(*settings));
    bool found;
    int rc = settings ? symphony_yaml_read_folder(model->folder, settings, &found, err)
                      : error_set(err, -ENOMEM, "%s: out of memory", model->folder);
    for (uint32_t k = 0; !rc && k < settings->sample_count; k++)
        rc = yaml_sample_take(model, settings, &settings->samples[k], values, err);
    free(settings);
    return rc;
}

struct taking {
    const struct signature *signature;
    struct input_values *values;
};

/* Takes the data of a sample's files, of the first item, for the inputs that have no values yet. */
static int warmup_take(void *context, const struct warmup_sample *sample, struct sy_error *err) {
    const struct taking *taking = context;
    struct input_values *values = taking->values;
    values->zeros |= sample->zeros;
    for (uint32_t i = 0; i < taking->signature->input_count; i++) {
        struct tensor_view item = sample->inputs[i], *given = &values->given[i];
        if (!(sample->files & tensor_bit(i)) || given->data || item.bytes == 0)
            continue;
        if (taking->signature->batched && taking->signature->inputs[i].type != DATATYPE_BYTES &&
            tensor_rows(&sample->inputs[i], 0, 1, &item))
            continue;
        *given = item;
        given->data = NULL;
        if (taking->signature->batched)
            given->dims[0] = 1;
        int rc = view_take(given, item.bytes, err);
        if (rc)
            return rc;
        memcpy(given->data, item.data, item.bytes);
    }
    return 0;
}

int values_read(const struct served_model *model, struct input_values *values, struct sy_error *err) {
    *values = (struct input_values){.step = model->values};
    int rc = model->folder ? yaml_samples_take(model, values, err) : 0;
    if (!rc)
        rc = warmup_each(model, warmup_take, &(struct taking){&model->signature, values}, err);
    if (rc)
        values_free(values);
    return rc;
}

void values_free(struct input_values *values) {
    for (uint32_t i = 0; i < TENSORS_MAX; i++)
        free(values->given[i].data);
    *values = (struct input_values){.step = 0};
}

/* The given values of an input in this step; NULL: none. */
static const struct tensor_view *given_find(const struct input_values *values, uint32_t input) {
    bool given = values && values->step != VALUES_UNGIVEN && values->given[input].data;
    return given ? &values->given[input] : NULL;
}

bool values_any_given(const struct input_values *values) {
    bool any = values->zeros && values->step == 1;
    for (uint32_t i = 0; i < TENSORS_MAX; i++)
        any |= values->given[i].data != NULL;
    return any;
}

void values_item_dims(const struct input_values *values, const struct signature *signature,
                      int64_t fixed[][TENSOR_DIMS_MAX], int64_t item_dims[][TENSOR_DIMS_MAX]) {
    for (uint32_t i = 0; i < signature->input_count; i++) {
        const struct tensor_view *given = given_find(values, i);
        const struct tensor_spec *spec = &signature->inputs[i];
        uint32_t open = 0, which = 0;
        int64_t others = 1;
        if (!given)
            continue;
        for (uint32_t d = signature->batched; d < spec->dim_count; d++) {
            bool is_open = spec->dims[d] < 0 && fixed[i][d] == 0;
            if (is_open && given->dim_count == spec->dim_count)
                item_dims[i][d] = given->dims[d];
            open += is_open;
            which = is_open ? d : which;
            others *= is_open ? 1 : item_dims[i][d];
        }
        int64_t count = spec->type == DATATYPE_BYTES ? 0 : (int64_t)(given->bytes / datatype_bytes(spec->type));
        if (given->dim_count == 0 && open == 1 && count && others > 0 && count % others == 0)
            item_dims[i][which] = count / others;
    }
}

/* ---- filling ---- */

/* The number with which a step fills inputs; 0: random values. */
static uint32_t number_of(const struct input_values *values, enum datatype type, bool small) {
    if (!values || values->step < 2 || values->step == VALUES_UNGIVEN ||
        !(integer(type) || (datatype_is_float(type) && small)))
        return 0;
    return small ? values->step - 1 : 1;
}

static bool is_zero(const struct input_values *values, uint32_t input) {
    return values && values->step == 1 && values->zeros & tensor_bit(input);
}

bool values_step_differs(const struct input_values *values, const struct signature *signature,
                         int64_t item_dims[][TENSOR_DIMS_MAX], uint32_t step) {
    bool differs = step == 0 || (step == 1 && values->zeros);
    for (uint32_t i = 0; step == VALUES_UNGIVEN && i < signature->input_count; i++)
        differs |= values->given[i].data != NULL;
    for (uint32_t i = 0; step >= 2 && step != VALUES_UNGIVEN && i < signature->input_count; i++) {
        const struct tensor_spec *spec = &signature->inputs[i];
        const int64_t *dims = item_dims ? item_dims[i] : spec->dims;
        int64_t least = 1;
        for (uint32_t d = signature->batched; d < spec->dim_count; d++)
            least *= dims[d] > 0 && least <= VALUES_SMALL ? dims[d] : 1;
        bool small = least <= VALUES_SMALL, given = values->given[i].data || signature->inputs_optional & tensor_bit(i);
        differs |=
            !given && ((integer(spec->type) && (small || step == 2)) || (datatype_is_float(spec->type) && small));
    }
    return differs;
}

/* Repeats the given strings until there are enough. Returns their bytes. `data` NULL: only counts the bytes. */
static size_t strings_repeat(const struct tensor_view *given, int64_t elements, char *data) {
    const char *at = given->data, *end = at + given->bytes;
    struct string element;
    size_t bytes = 0;
    for (int64_t i = 0; i < elements; i++) {
        at = at == end ? given->data : at;
        if (strings_next(&at, end, &element) != 1)
            return 0; /* the strings were checked before */
        if (data)
            memcpy(strings_lead(data + bytes, element.length), element.data, element.length);
        bytes += STRING_LEAD_BYTES + element.length;
    }
    return bytes;
}

size_t values_bytes(const struct input_values *values, uint32_t input, enum datatype type, int64_t elements) {
    if (type != DATATYPE_BYTES)
        return (size_t)elements * datatype_bytes(type);
    if (given_find(values, input))
        return strings_repeat(given_find(values, input), elements, NULL);
    return (size_t)elements * (STRING_LEAD_BYTES + (is_zero(values, input) ? 0 : 1));
}

/* Makes all items but the first differ from the first one. */
static void items_vary(enum datatype type, size_t of_item, uint32_t items, struct rng *rng, void *data) {
    for (uint32_t n = 1; n < items; n++) {
        double factor = 0.5 + rng_uniform(rng) / 2;
        for (size_t i = n * of_item; datatype_is_float(type) && i < (n + 1) * of_item; i++) {
            char *at = (char *)data + i * datatype_bytes(type);
            float_put(type, factor * float_get(type, at), at);
        }
    }
}

void values_fill(const struct input_values *values, uint32_t input, enum datatype type, int64_t elements,
                 uint32_t items, struct rng *rng, void *data) {
    const struct tensor_view *given = given_find(values, input);
    size_t bytes = values_bytes(values, input, type, elements), of_item = (size_t)elements / (items ? items : 1);
    uint32_t number = number_of(values, type, of_item <= VALUES_SMALL);
    if (given && type == DATATYPE_BYTES) {
        strings_repeat(given, elements, data);
    } else if (given) {
        for (size_t at = 0, part; at < bytes; at += part) { /* again and again, until the input is full */
            part = bytes - at < given->bytes ? bytes - at : given->bytes;
            memcpy((char *)data + at, given->data, part);
        }
        if (of_item > VALUES_SMALL)
            items_vary(type, of_item, items, rng, data);
    } else if (is_zero(values, input)) {
        memset(data, 0, bytes);
    } else if (number) {
        uint64_t whole = number;
        for (int64_t i = 0; i < elements; i++) {
            char *at = (char *)data + (size_t)i * datatype_bytes(type);
            if (integer(type))
                memcpy(at, &whole, datatype_bytes(type));
            else
                float_put(type, number, at);
        }
    } else {
        measure_fill(data, (size_t)elements, type, rng);
    }
}

void values_format(const struct input_values *values, const struct signature *signature, char *text, size_t bytes) {
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < signature->input_count && at < bytes; i++) {
        const struct tensor_spec *spec = &signature->inputs[i];
        char how[48] = "";
        int64_t least = 1;
        for (uint32_t d = signature->batched; d < spec->dim_count; d++)
            least *= spec->dims[d] > 0 && least <= VALUES_SMALL ? spec->dims[d] : 1;
        uint32_t number = number_of(values, spec->type, least <= VALUES_SMALL);
        if (values->given[i].data)
            strcpy(how, values->step == VALUES_UNGIVEN ? "random, since it fails as given" : "given");
        else if (is_zero(values, i))
            strcpy(how, "zeros");
        else if (number && !(signature->inputs_optional & tensor_bit(i)))
            snprintf(how, sizeof(how), "%u", number);
        if (*how)
            at += (size_t)snprintf(text + at, bytes - at, "%s%s: %s", at ? ", " : "", spec->name, how);
    }
}
