/* infer_parse.c - one pass over the JSON, then the binary tensors behind it. */
#include "front/v2/infer_parse.h"

#include <inttypes.h>
#include <string.h>

#include "core/data/strings.h"
#include "front/v2/json_scan.h"
#include "front/v2/tensor_json.h"

/* An input as the JSON describes it. */
struct input_given {
    bool named, shaped, has_data, has_binary;
    enum datatype type; /* datatype; INVALID: not given yet */
    uint32_t dim_count;
    int64_t dims[TENSOR_DIMS_MAX];
    int64_t binary_bytes;
    struct infer_shared shared;
    const char *data_at; /* place of `data` that came before the shape or the type, to be read again; NULL: none */
};

struct parser {
    const struct infer_body *body;
    const struct signature *signature;
    struct infer_call *call;
    struct sy_error *err;
    struct json_scan scan;
    size_t binary_at;    /* begin of the next binary tensor in the body */
    bool binary_default; /* outputs are binary unless their own parameter says otherwise */
    uint32_t input_count;
    uint32_t input_order[TENSORS_MAX]; /* [input_count] inputs in the order of the JSON, which is that of the binary
                                          tensors */
    bool output_explicit[TENSORS_MAX]; /* by the call's outputs: the request says whether the output is binary */
    struct input_given inputs[TENSORS_MAX]; /* by the signature's index */
};

#define FAIL(p, status, ...) error_set((p)->err, (status), __VA_ARGS__)

/* Puts "what: " before the scanner's sentence. */
static int fail_in(struct parser *p, const char *kind, const char *name) {
    struct sy_error scanned = *p->err;
    return FAIL(p, 400, "%s '%.64s': %.400s", kind, name, scanned.text);
}

static int fail_json(struct parser *p) {
    struct sy_error scanned = *p->err;
    return FAIL(p, 400, "the request's JSON is wrong: %.400s", scanned.text);
}

/* Reads a string of at most `bytes` - 1 into `out`. */
static int name_read(struct parser *p, char *out, size_t bytes) {
    struct json_string string;
    if (json_read_string(&p->scan, &string))
        return fail_json(p);
    if (json_decode(&string, out, bytes) < 0)
        return FAIL(p, 400, "a name of %zu bytes is too long: it may have %zu", string.length, bytes - 1);
    return 0;
}

static int shape_read(struct parser *p, struct input_given *given) {
    struct json_members members;
    int rc = json_open(&p->scan, &members, '[', "the shape, an array");
    given->dim_count = 0;
    while (rc == 0 && (rc = json_next(&p->scan, &members)) > 0) {
        int64_t dim;
        rc = json_read_int(&p->scan, &dim);
        if (rc)
            break;
        if (dim < 0)
            return FAIL(p, 400, "a shape has the negative dimension %" PRId64, dim);
        if (given->dim_count == TENSOR_DIMS_MAX)
            return FAIL(p, 400, "a shape has more than %d dimensions", TENSOR_DIMS_MAX);
        given->dims[given->dim_count++] = dim;
    }
    given->shaped = true;
    return rc ? fail_json(p) : 0;
}

static int input_check(struct parser *p, uint32_t index) {
    const struct input_given *given = &p->inputs[index];
    return infer_call_shape(p->call, p->body->model, index, given->type, given->dims, given->dim_count, p->err);
}

/* Optional members may be null: some clients write that instead of leaving them out. Anything else that begins with `n`
 * is a mistake, which skipping it finds. */
static bool is_null(struct parser *p) {
    return json_peek(&p->scan) == 'n';
}

static void *memory_take(struct parser *p, size_t bytes) {
    return p->body->memory.take(p->body->memory.context, bytes);
}

/* Most bytes of the strings at the cursor, decoded: in JSON each has two quotes and a comma or a bracket, and decoding
 * makes no string longer. */
static int strings_room(struct parser *p, int64_t elements, size_t *bytes) {
    struct json_scan ahead = p->scan;
    if (json_skip(&ahead))
        return fail_json(p);
    *bytes = (size_t)(ahead.at - p->scan.at) + (size_t)elements * (STRING_LEAD_BYTES - 3);
    return 0;
}

/* `data` at the cursor; the input has been checked. */
static int data_read(struct parser *p, uint32_t index) {
    const struct tensor_spec *spec = &p->signature->inputs[index];
    struct tensor_view *view = &p->call->inputs[index];
    int64_t elements = (int64_t)(view->bytes / datatype_bytes_min(spec->type));
    /* a value takes a character and a comma at least: no memory is taken for more than the text can hold */
    if (elements > (p->scan.end - p->scan.at) / 2)
        return FAIL(p, 400, "input '%.64s': expected %" PRId64 " values, but the body is shorter", spec->name,
                    elements);
    int rc = 0;
    if (spec->type == DATATYPE_BYTES)
        rc = strings_room(p, elements, &view->bytes);
    if (rc)
        return rc;
    view->data = memory_take(p, view->bytes);
    if (!view->data)
        return FAIL(p, 503, "the memory for inputs is exhausted");
    rc = spec->type == DATATYPE_BYTES
             ? tensor_json_read_strings(&p->scan, view->dims, view->dim_count, view->data, &view->bytes)
             : tensor_json_read(&p->scan, spec->type, view->dims, view->dim_count, view->data);
    return rc ? fail_in(p, "input", spec->name) : 0;
}

static int binary_size_read(struct parser *p, struct input_given *given) {
    int rc = json_read_int(&p->scan, &given->binary_bytes);
    if (rc)
        return fail_json(p);
    if (given->binary_bytes < 0)
        return FAIL(p, 400, "binary_data_size is %" PRId64 ", which is negative", given->binary_bytes);
    given->has_binary = true;
    return 0;
}

/* Reads a parameter if it names a tensor's place in shared memory; *known: it does. */
static int shared_parameter_read(struct parser *p, const struct json_string *key, struct infer_shared *shared,
                                 bool *known) {
    struct json_string name;
    int64_t number;
    *known = true;
    if (json_is(key, "shared_memory_region")) {
        if (json_read_string(&p->scan, &name))
            return fail_json(p);
        if (memchr(name.data, '\\', name.length))
            return FAIL(p, 400, "a region's name has a backslash");
        shared->region = name.data;
        shared->region_length = name.length;
        return 0;
    }
    bool offset = json_is(key, "shared_memory_offset");
    *known = offset || json_is(key, "shared_memory_byte_size");
    if (!*known)
        return 0;
    if (json_read_int(&p->scan, &number))
        return fail_json(p);
    if (number < 0)
        return FAIL(p, 400, "%.*s is %" PRId64 ", which is negative", (int)key->length, key->data, number);
    *(offset ? &shared->offset : &shared->bytes) = (uint64_t)number;
    return 0;
}

static int input_parameters_read(struct parser *p, struct input_given *given) {
    struct json_members members;
    struct json_string key;
    bool known;
    int rc = json_open(&p->scan, &members, '{', "parameters, an object");
    while (rc == 0 && (rc = json_next_key(&p->scan, &members, &key)) > 0) {
        rc = shared_parameter_read(p, &key, &given->shared, &known);
        if (rc)
            return rc;
        if (json_is(&key, "binary_data_size")) {
            rc = binary_size_read(p, given);
            if (rc)
                return rc;
        } else if (!known) {
            rc = json_skip(&p->scan);
        }
    }
    return rc ? fail_json(p) : 0;
}

/* The name tells which input this is. What was read before the name is moved to that input's place. */
static int input_name(struct parser *p, struct input_given **given, uint32_t *index) {
    char name[TENSOR_NAME_MAX];
    int status = name_read(p, name, sizeof(name));
    if (!status)
        status = infer_call_input(p->call, p->body->model, name, strlen(name), index, p->err);
    if (status)
        return status;
    struct input_given *place = &p->inputs[*index];
    *place = **given;
    *given = place;
    place->named = true;
    p->input_order[p->input_count++] = *index;
    return 0;
}

static int input_datatype(struct parser *p, struct input_given *given) {
    char name[32];
    struct json_string string;
    if (json_read_string(&p->scan, &string))
        return fail_json(p);
    if (json_decode(&string, name, sizeof(name)) < 0)
        return infer_call_datatype(string.data, string.length, &given->type, p->err);
    return infer_call_datatype(name, strlen(name), &given->type, p->err);
}

/* `data`: read at once if shape and type are known, else skipped, and its place remembered. */
static int input_data(struct parser *p, struct input_given *given, uint32_t index) {
    if (given->has_data)
        return FAIL(p, 400, "'data' is given twice for an input");
    given->has_data = true;
    if (given->named && given->shaped && given->type != DATATYPE_INVALID) {
        int rc = input_check(p, index);
        return rc ? rc : data_read(p, index);
    }
    json_space(&p->scan);
    given->data_at = p->scan.at;
    return json_skip(&p->scan) ? fail_json(p) : 0;
}

/* The input is complete: are all its fields there, and do they fit the model and each other? */
static int input_finish(struct parser *p, const struct input_given *given, uint32_t index) {
    if (!given->named)
        return FAIL(p, 400, "an input has no 'name'");
    const char *name = p->signature->inputs[index].name;
    if (!given->shaped)
        return FAIL(p, 400, "input '%.64s' has no 'shape'", name);
    if (given->type == DATATYPE_INVALID)
        return FAIL(p, 400, "input '%.64s' has no 'datatype'", name);
    int sources = given->has_data + given->has_binary + (given->shared.region != NULL);
    if (sources != 1)
        return FAIL(p, 400,
                    sources > 0
                        ? "input '%.64s' has more than one of 'data', 'binary_data_size', 'shared_memory_region'"
                        : "input '%.64s' has none of 'data', 'binary_data_size', 'shared_memory_region'",
                    name);
    if (given->has_data && !given->data_at)
        return 0; /* checked and read */
    int rc = input_check(p, index);
    if (rc == 0 && given->shared.region)
        return infer_call_shared(p->call, p->body->model, index, &given->shared, p->err);
    if (rc || !given->has_data)
        return rc;
    struct json_scan behind = p->scan;
    p->scan.at = given->data_at;
    rc = data_read(p, index);
    p->scan = behind;
    return rc;
}

static int input_read(struct parser *p) {
    struct json_members members;
    struct json_string key;
    struct input_given first = {0}, *given = &first;
    uint32_t index = 0;
    int rc = json_open(&p->scan, &members, '{', "an input, an object");
    while (rc == 0 && (rc = json_next_key(&p->scan, &members, &key)) > 0) {
        int status = 0;
        rc = 0;
        if (json_is(&key, "name")) {
            status = given->named ? FAIL(p, 400, "'name' is given twice for an input") : input_name(p, &given, &index);
        } else if (json_is(&key, "shape")) {
            status = given->shaped ? FAIL(p, 400, "'shape' is given twice for an input") : shape_read(p, given);
        } else if (json_is(&key, "datatype")) {
            status = given->type ? FAIL(p, 400, "'datatype' is given twice for an input") : input_datatype(p, given);
        } else if (json_is(&key, "data")) {
            status = input_data(p, given, index);
        } else if (json_is(&key, "parameters") && !is_null(p)) {
            status = input_parameters_read(p, given);
        } else {
            rc = json_skip(&p->scan);
        }
        if (status)
            return status;
    }
    return rc ? fail_json(p) : input_finish(p, given, index);
}

static int output_parameters_read(struct parser *p, struct infer_output *output, int64_t *classes, bool *explicit) {
    struct json_members members;
    struct json_string key;
    int rc = json_open(&p->scan, &members, '{', "parameters, an object");
    while (rc == 0 && (rc = json_next_key(&p->scan, &members, &key)) > 0) {
        bool known;
        rc = shared_parameter_read(p, &key, &output->shared, &known);
        if (rc)
            return rc;
        if (json_is(&key, "binary_data")) {
            rc = json_read_bool(&p->scan, &output->binary);
            *explicit = true;
        } else if (json_is(&key, "classification")) {
            rc = json_read_int(&p->scan, classes);
        } else if (!known) {
            rc = json_skip(&p->scan);
        }
    }
    return rc ? fail_json(p) : 0;
}

static int output_read(struct parser *p) {
    struct json_members members;
    struct json_string key;
    char name[TENSOR_NAME_MAX];
    struct infer_output given = {0};
    int64_t classes = 0;
    bool named = false, explicit = false;
    int rc = json_open(&p->scan, &members, '{', "an output, an object");
    while (rc == 0 && (rc = json_next_key(&p->scan, &members, &key)) > 0) {
        int status = 0;
        rc = 0;
        if (json_is(&key, "name")) {
            status = name_read(p, name, sizeof(name));
            named = true;
        } else if (json_is(&key, "parameters") && !is_null(p)) {
            status = output_parameters_read(p, &given, &classes, &explicit);
        } else {
            rc = json_skip(&p->scan);
        }
        if (status)
            return status;
    }
    if (rc)
        return fail_json(p);
    if (!named)
        return FAIL(p, 400, "an output has no 'name'");
    struct infer_output *output;
    int status = infer_call_output(p->call, p->body->model, name, strlen(name), &output, p->err);
    if (status)
        return status;
    output->binary = given.binary;
    output->shared = given.shared;
    p->output_explicit[output - p->call->outputs] = explicit;
    return infer_call_classify(p->call, p->body->model, output, classes, p->err);
}

static int tensors_read(struct parser *p, const char *what, int (*one_read)(struct parser *p)) {
    struct json_members members;
    int rc = json_open(&p->scan, &members, '[', what);
    while (rc == 0 && (rc = json_next(&p->scan, &members)) > 0) {
        rc = one_read(p);
        if (rc)
            return rc;
    }
    return rc ? fail_json(p) : 0;
}

/* A whole number, or -1 if it is none. */
static int64_t number_read(struct parser *p) {
    int64_t number;
    char c = json_peek(&p->scan);
    return (c != '-' && (c < '0' || c > '9')) || json_read_int(&p->scan, &number) ? -1 : number;
}

static int parameters_read(struct parser *p) {
    struct json_members members;
    struct json_string key;
    int rc = json_open(&p->scan, &members, '{', "parameters, an object");
    while (rc == 0 && (rc = json_next_key(&p->scan, &members, &key)) > 0) {
        if (json_is(&key, "timeout")) {
            rc = infer_call_timeout(p->call, number_read(p), p->err);
            if (rc)
                return rc;
        } else if (json_is(&key, "priority")) {
            rc = infer_call_priority(p->call, number_read(p), p->err);
            if (rc)
                return rc;
        } else if (json_is(&key, "best_effort")) {
            rc = json_read_bool(&p->scan, &p->call->best_effort);
        } else if (json_is(&key, "trail")) {
            rc = json_read_bool(&p->scan, &p->call->trail);
        } else if (json_is(&key, "binary_data_output")) {
            rc = json_read_bool(&p->scan, &p->binary_default);
        } else {
            rc = json_skip(&p->scan);
        }
    }
    return rc ? fail_json(p) : 0;
}

static int id_read(struct parser *p) {
    struct json_string string;
    if (json_read_string(&p->scan, &string))
        return fail_json(p);
    p->call->id = string.data;
    p->call->id_length = string.length;
    return 0;
}

enum top { TOP_ID = 1, TOP_PARAMETERS = 2, TOP_INPUTS = 4, TOP_OUTPUTS = 8 };

static int document_read(struct parser *p) {
    struct json_members members;
    struct json_string key;
    int seen = 0;
    int rc = json_open(&p->scan, &members, '{', "an object");
    while (rc == 0 && (rc = json_next_key(&p->scan, &members, &key)) > 0) {
        int which = json_is(&key, "inputs")       ? TOP_INPUTS
                    : json_is(&key, "outputs")    ? TOP_OUTPUTS
                    : json_is(&key, "parameters") ? TOP_PARAMETERS
                    : json_is(&key, "id")         ? TOP_ID
                                                  : 0;
        if (which & seen)
            return FAIL(p, 400, "'%.*s' is given twice in the request", (int)key.length, key.data);
        seen |= which;
        if (which != TOP_INPUTS && is_null(p))
            which = 0;
        int status = which == TOP_INPUTS       ? tensors_read(p, "inputs, an array", input_read)
                     : which == TOP_OUTPUTS    ? tensors_read(p, "outputs, an array", output_read)
                     : which == TOP_PARAMETERS ? parameters_read(p)
                     : which == TOP_ID         ? id_read(p)
                                               : 0;
        if (status)
            return status;
        rc = which ? 0 : json_skip(&p->scan);
    }
    if (rc)
        return fail_json(p);
    json_space(&p->scan);
    if (p->scan.at < p->scan.end) {
        json_expected(&p->scan, "the end of the JSON");
        return fail_json(p);
    }
    if (!(seen & TOP_INPUTS))
        return FAIL(p, 400, "the request has no 'inputs'");
    return 0;
}

/* An input's bytes in the body: in place if they are aligned for the type, else copied. Strings need not be. */
static int binary_place(struct parser *p, uint32_t index, size_t bytes) {
    enum datatype type = p->signature->inputs[index].type;
    char *data = (char *)p->body->data + p->binary_at;
    p->binary_at += bytes;
    if (type != DATATYPE_BYTES && (uintptr_t)data % datatype_bytes(type) != 0) {
        void *copy = memory_take(p, bytes);
        if (!copy)
            return FAIL(p, 503, "the memory for inputs is exhausted");
        data = memcpy(copy, data, bytes);
    }
    return infer_call_data(p->call, p->body->model, index, data, bytes, p->err);
}

/* The tensors behind the JSON, in the order of the inputs. */
static int binaries_read(struct parser *p) {
    for (uint32_t i = 0; i < p->input_count; i++) {
        uint32_t index = p->input_order[i];
        const struct input_given *given = &p->inputs[index];
        if (!given->has_binary)
            continue;
        const char *name = p->signature->inputs[index].name;
        const struct tensor_view *view = &p->call->inputs[index];
        size_t bytes = (size_t)given->binary_bytes, left = p->body->bytes - p->binary_at;
        if (bytes != view->bytes && p->signature->inputs[index].type != DATATYPE_BYTES)
            return FAIL(p, 400, INFER_MISMATCH " %zu, got %zu, the binary_data_size", name, p->body->model->name,
                        view->bytes, bytes);
        if (left < bytes)
            return FAIL(p, 400,
                        "unexpected size for input '%.64s', expecting %zu additional bytes for model '%.64s': the body "
                        "has %zu left behind the JSON",
                        name, bytes - left, p->body->model->name, left);
        int rc = binary_place(p, index, bytes);
        if (rc)
            return rc;
    }
    if (p->binary_at < p->body->bytes)
        return FAIL(p, 400, "the body has %zu bytes more than the JSON and the binary inputs take",
                    p->body->bytes - p->binary_at);
    return 0;
}

/* The whole body is the one element of the one input, which is of strings. */
static int raw_string_place(struct parser *p) {
    struct tensor_view *view = &p->call->inputs[0];
    size_t bytes = STRING_LEAD_BYTES + p->body->bytes;
    if (dims_product(view->dims, 0, view->dim_count) != 1 || p->body->bytes > UINT32_MAX)
        return FAIL(p, 400, "a raw binary request is one string, but the input has %" PRId64 " elements",
                    dims_product(view->dims, 0, view->dim_count));
    char *lead = memory_take(p, bytes);
    if (!lead)
        return FAIL(p, 503, "the memory for inputs is exhausted");
    memcpy(strings_lead(lead, p->body->bytes), p->body->data, p->body->bytes);
    return infer_call_data(p->call, p->body->model, 0, lead, bytes, p->err);
}

/* The whole body is the one input, of batch 1. */
static int raw_read(struct parser *p) {
    if (p->signature->input_count != 1)
        return FAIL(p, 400, "a raw binary request needs a model with one input, '%.64s' has %u", p->body->model->name,
                    p->signature->input_count);
    const struct tensor_spec *spec = &p->signature->inputs[0];
    struct input_given *given = &p->inputs[0];
    bool string = spec->type == DATATYPE_BYTES;
    int64_t known = (int64_t)datatype_bytes(spec->type);
    int unknown = -1;
    *given = (struct input_given){.named = true, .type = spec->type, .dim_count = spec->dim_count, .has_binary = true};
    for (uint32_t i = 0; i < spec->dim_count; i++) {
        given->dims[i] = (i == 0 && p->signature->batched) || (string && spec->dims[i] < 0) ? 1 : spec->dims[i];
        if (given->dims[i] < 0 && unknown >= 0)
            return FAIL(p, 400, "a raw binary request needs a shape with at most one dimension of any size");
        if (given->dims[i] < 0)
            unknown = (int)i;
        else
            known *= given->dims[i];
    }
    if (unknown >= 0 && known > 0)
        given->dims[unknown] = (int64_t)p->body->bytes / known;
    int rc = input_check(p, 0);
    if (rc)
        return rc;
    p->call->inputs_named = 1;
    p->binary_default = true;
    if (string)
        return raw_string_place(p);
    given->binary_bytes = (int64_t)p->call->inputs[0].bytes;
    if ((size_t)given->binary_bytes != p->body->bytes)
        return FAIL(p, 400, "input '%.64s': expected %" PRId64 " bytes, got %zu", spec->name, given->binary_bytes,
                    p->body->bytes);
    p->input_order[p->input_count++] = 0;
    return binaries_read(p);
}

static void outputs_finish(struct parser *p) {
    for (uint32_t i = 0; i < p->call->output_count; i++)
        if (!p->output_explicit[i])
            p->call->outputs[i].binary = p->binary_default;
}

int infer_parse(const struct infer_body *body, struct infer_call *call, struct sy_error *err) {
    struct sy_error unused;
    struct parser parser, *p = &parser; /* whose long arrays are not cleared */
    p->body = body;
    p->signature = served_model_offered(body->model);
    p->call = call;
    p->err = err ? err : &unused;
    p->scan = (struct json_scan){0};
    p->binary_at = p->input_count = 0;
    p->binary_default = false;
    memset(p->output_explicit, 0, sizeof(p->output_explicit));
    int rc = infer_call_begin(call, body->model, body->memory, p->err);
    if (rc)
        return rc;
    if (body->json_bytes == 0) {
        rc = raw_read(p);
    } else {
        if (body->bytes == 0)
            return FAIL(p, 400, "the request has no body");
        if (body->json_bytes != INFER_NO_HEADER && (body->json_bytes < 0 || (size_t)body->json_bytes > body->bytes))
            return FAIL(p, 400, "Inference-Header-Content-Length is %" PRId64 ", but the body has %zu bytes",
                        body->json_bytes, body->bytes);
        p->binary_at = body->json_bytes == INFER_NO_HEADER ? body->bytes : (size_t)body->json_bytes;
        p->scan.begin = p->scan.at = body->data;
        p->scan.end = p->scan.begin + p->binary_at;
        p->scan.err = p->err;
        rc = document_read(p);
        rc = rc ? rc : binaries_read(p);
    }
    rc = rc ? rc : infer_call_finish(call, body->model, p->err);
    if (rc)
        return rc;
    outputs_finish(p);
    return 0;
}
