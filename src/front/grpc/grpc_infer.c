/* grpc_infer.c - two passes over a request's head: first the model's name, then the tensors. */
#include "front/grpc/grpc_infer.h"

#include <errno.h>
#include <inttypes.h>

#include "core/data/strings.h"
#include "core/system/yield.h"
#include "core/util/protobuf.h"
#include "core/util/utf8.h"

enum { REQUEST_MODEL = 1, REQUEST_VERSION = 2, REQUEST_ID = 3, REQUEST_PARAMETERS = 4, REQUEST_INPUTS = 5 };
enum { REQUEST_OUTPUTS = 6, REQUEST_RAW = GRPC_RAW_INPUTS_NUMBER };
enum { INPUT_NAME = 1, INPUT_DATATYPE = 2, INPUT_SHAPE = 3, INPUT_PARAMETERS = 4, INPUT_CONTENTS = 5 };
enum { OUTPUT_NAME = 1, OUTPUT_PARAMETERS = 2 };
enum { PARAMETER_BOOL = 1, PARAMETER_INT64 = 2, PARAMETER_STRING = 3, PARAMETER_DOUBLE = 4, PARAMETER_UINT64 = 5 };
enum { RESPONSE_MODEL = 1, RESPONSE_VERSION = 2, RESPONSE_ID = 3, RESPONSE_PARAMETERS = 4, RESPONSE_OUTPUTS = 5 };
enum { RESPONSE_RAW = 6 };
enum { STREAM_ERROR = 1, STREAM_RESPONSE = 2 };
enum { TENSOR_NAME = 1, TENSOR_DATATYPE = 2, TENSOR_SHAPE = 3, TENSOR_PARAMETERS = 4 };

/* The next field of a message's head, in which raw contents have a length but no bytes. */
static int head_next(struct protobuf_in *in, struct protobuf_field *field) {
    if (in->at == in->end)
        return 0;
    if (!protobuf_tag(in, field))
        return -1;
    if (field->number == REQUEST_RAW && field->wire == PROTOBUF_BYTES)
        return 1;
    return protobuf_value(in, field) ? 1 : -1;
}

static struct protobuf_in head_of(const struct grpc_message *m) {
    const uint8_t *head = (const uint8_t *)m->head;
    return (struct protobuf_in){head, head + m->head_bytes};
}

int grpc_infer_words(const struct grpc_message *message, struct grpc_words *words, struct sy_error *err) {
    struct protobuf_in in = head_of(message);
    struct protobuf_field field;
    int rc;
    *words = (struct grpc_words){.model = "", .version = "", .id = ""};
    while ((rc = head_next(&in, &field)) > 0) {
        if (field.wire != PROTOBUF_BYTES)
            continue;
        if (field.number == REQUEST_MODEL) {
            words->model = (const char *)field.data;
            words->model_length = field.value;
        } else if (field.number == REQUEST_VERSION) {
            words->version = (const char *)field.data;
            words->version_length = field.value;
        } else if (field.number == REQUEST_ID) {
            words->id = (const char *)field.data;
            words->id_length = field.value;
        }
    }
    return rc < 0 ? protobuf_malformed(err) : 0;
}

/* ---- parameters ---- */

static bool key_is(const struct protobuf_entry *p, const char *literal) {
    return strlen(literal) == p->key_length && memcmp(p->key, literal, p->key_length) == 0;
}

static bool whole_number(const struct protobuf_entry *p) {
    return p->value.wire == PROTOBUF_VARINT &&
           (p->value.number == PARAMETER_INT64 || p->value.number == PARAMETER_UINT64);
}

/* More than an int64 holds counts as the most that it holds. */
static int64_t number_of(const struct protobuf_entry *p) {
    return p->value.number == PARAMETER_UINT64 && p->value.value > INT64_MAX ? INT64_MAX : (int64_t)p->value.value;
}

static int parameter_read(const struct protobuf_field *field, struct protobuf_entry *p, struct sy_error *err) {
    return protobuf_entry_read(field, p) ? 0 : protobuf_malformed(err);
}

/* Reads a parameter that names a tensor's place in shared memory. */
static int shared_parameter_read(const struct protobuf_entry *p, struct infer_shared *shared, struct sy_error *err) {
    bool offset = key_is(p, "shared_memory_offset"), bytes = key_is(p, "shared_memory_byte_size");
    if (key_is(p, "shared_memory_region")) {
        if (p->value.number != PARAMETER_STRING || p->value.wire != PROTOBUF_BYTES)
            return error_set(err, 400, "parameter 'shared_memory_region' is not a string_param");
        shared->region = (const char *)p->value.data;
        shared->region_length = p->value.value;
    } else if (offset || bytes) {
        if (!whole_number(p) || (int64_t)p->value.value < 0)
            return error_set(err, 400, "parameter '%.*s' is not an int64_param of 0 or more", (int)p->key_length,
                             p->key);
        *(offset ? &shared->offset : &shared->bytes) = p->value.value;
    }
    return 0;
}

/* ---- inputs ---- */

struct reader {
    const struct grpc_message *message;
    const struct served_model *model;
    struct infer_memory memory;
    struct infer_call *call;
    struct sy_error *err;
    const char *typed; /* name of an input that has typed contents; NULL: none has */
    uint32_t order_count;
    uint32_t order[TENSORS_MAX]; /* [order_count] inputs without typed contents, in the request's order, which is that
                                    of the raw inputs */
};

/* An input as the message describes it. */
struct input_given {
    const char *name, *datatype;
    size_t name_length, datatype_length;
    uint32_t dim_count;
    int64_t dims[TENSOR_DIMS_MAX];
    bool has_contents;
    struct protobuf_field contents;
    struct infer_shared shared;
};

static int dim_add(struct input_given *given, uint64_t dim, struct sy_error *err) {
    if (given->dim_count == TENSOR_DIMS_MAX)
        return error_set(err, 400, "a shape has more than %d dimensions", TENSOR_DIMS_MAX);
    if ((int64_t)dim < 0)
        return error_set(err, 400, "a shape has the negative dimension %" PRId64, (int64_t)dim);
    given->dims[given->dim_count++] = (int64_t)dim;
    return 0;
}

/* Packed or one by one. */
static int shape_read(struct input_given *given, const struct protobuf_field *field, struct sy_error *err) {
    if (field->wire == PROTOBUF_VARINT)
        return dim_add(given, field->value, err);
    if (field->wire != PROTOBUF_BYTES)
        return protobuf_malformed(err);
    struct protobuf_in in = protobuf_inside(field);
    while (in.at < in.end) {
        uint64_t dim;
        int status = protobuf_varint(&in, &dim) ? dim_add(given, dim, err) : protobuf_malformed(err);
        if (status)
            return status;
    }
    return 0;
}

static int input_fields_read(struct reader *r, const struct protobuf_field *message, struct input_given *given) {
    struct protobuf_in in = protobuf_inside(message);
    struct protobuf_field field;
    int rc, status = 0;
    *given = (struct input_given){.name = "", .datatype = ""};
    while (status == 0 && (rc = protobuf_next(&in, &field)) > 0) {
        bool bytes = field.wire == PROTOBUF_BYTES;
        if (field.number == INPUT_NAME && bytes) {
            given->name = (const char *)field.data;
            given->name_length = field.value;
        } else if (field.number == INPUT_DATATYPE && bytes) {
            given->datatype = (const char *)field.data;
            given->datatype_length = field.value;
        } else if (field.number == INPUT_SHAPE) {
            status = shape_read(given, &field, r->err);
        } else if (field.number == INPUT_PARAMETERS && bytes) {
            struct protobuf_entry p;
            status = parameter_read(&field, &p, r->err);
            status = status ? status : shared_parameter_read(&p, &given->shared, r->err);
        } else if (field.number == INPUT_CONTENTS && bytes) {
            if (given->has_contents)
                return error_set(r->err, 400, "an input has its contents twice");
            given->contents = field;
            given->has_contents = true;
        }
    }
    return status ? status : rc < 0 ? protobuf_malformed(r->err) : 0;
}

/* ---- typed contents ---- */

#define SLICE_ELEMENTS 4096 /* elements between yield points: some 20 us */

struct contents {
    uint32_t field;          /* number in InferTensorContents; 0: the type is sent raw only */
    enum protobuf_wire wire; /* wire format of an element */
    int64_t min, max;        /* range of the type, for integers sent with 32 bits; `max` 0: not checked */
};

static const struct contents contents_of[DATATYPE_COUNT] = {
    [DATATYPE_BOOL] = {1, PROTOBUF_VARINT, 0, 0},
    [DATATYPE_INT8] = {2, PROTOBUF_VARINT, INT8_MIN, INT8_MAX},
    [DATATYPE_INT16] = {2, PROTOBUF_VARINT, INT16_MIN, INT16_MAX},
    [DATATYPE_INT32] = {2, PROTOBUF_VARINT, INT32_MIN, INT32_MAX},
    [DATATYPE_INT64] = {3, PROTOBUF_VARINT, 0, 0},
    [DATATYPE_UINT8] = {4, PROTOBUF_VARINT, 0, UINT8_MAX},
    [DATATYPE_UINT16] = {4, PROTOBUF_VARINT, 0, UINT16_MAX},
    [DATATYPE_UINT32] = {4, PROTOBUF_VARINT, 0, UINT32_MAX},
    [DATATYPE_UINT64] = {5, PROTOBUF_VARINT, 0, 0},
    [DATATYPE_FP32] = {6, PROTOBUF_32BIT, 0, 0},
    [DATATYPE_FP64] = {7, PROTOBUF_64BIT, 0, 0},
    [DATATYPE_BYTES] = {8, PROTOBUF_BYTES, 0, 0},
};

struct filling {
    const struct contents *contents;
    enum datatype type;
    size_t element_bytes;
    char *at, *end;
};

static int element_put(struct filling *f, uint64_t value, struct sy_error *err) {
    uint32_t field = f->contents->field;
    if (f->at == f->end)
        return error_set(err, 400, "the contents have more values than the shape");
    /* as the field's type in the message has it: int32, uint32, bool */
    int64_t integer = field == 2   ? (int32_t)(uint32_t)value
                      : field == 4 ? (int64_t)(uint32_t)value
                      : field == 1 ? value != 0
                                   : (int64_t)value;
    if (f->contents->max > 0 && (integer < f->contents->min || integer > f->contents->max))
        return error_set(err, 400, "%" PRId64 " is out of the range of %s", integer, datatype_name(f->type));
    memcpy(f->at, &integer, f->element_bytes); /* little-endian: the low bytes come first */
    f->at += f->element_bytes;
    return 0;
}

/* Elements side by side. Numbers of fixed size lie as the tensor wants them. */
static int packed_read(struct filling *f, const struct protobuf_field *field, struct sy_error *err) {
    struct protobuf_in in = protobuf_inside(field);
    if (f->contents->wire != PROTOBUF_VARINT) {
        if (field->value % f->element_bytes != 0)
            return protobuf_malformed(err);
        if (field->value > (size_t)(f->end - f->at))
            return error_set(err, 400, "the contents have more values than the shape");
        memcpy(f->at, field->data, field->value);
        f->at += field->value;
        return 0;
    }
    for (uint32_t steps = 1; in.at < in.end; steps++) {
        uint64_t value;
        if (steps % SLICE_ELEMENTS == 0)
            yield_point();
        int status = protobuf_varint(&in, &value) ? element_put(f, value, err) : protobuf_malformed(err);
        if (status)
            return status;
    }
    return 0;
}

static int contents_fill(struct filling *f, const struct protobuf_field *message, struct sy_error *err) {
    struct protobuf_in in = protobuf_inside(message);
    struct protobuf_field field;
    int rc, status = 0;
    for (uint32_t steps = 1; status == 0 && (rc = protobuf_next(&in, &field)) > 0; steps++) {
        if (steps % SLICE_ELEMENTS == 0)
            yield_point();
        if (field.number != f->contents->field)
            return error_set(err, 400, "the contents are of another type than %s", datatype_name(f->type));
        status = field.wire == PROTOBUF_BYTES      ? packed_read(f, &field, err)
                 : field.wire == f->contents->wire ? element_put(f, field.value, err)
                                                   : protobuf_malformed(err);
    }
    if (status == 0 && rc < 0)
        return protobuf_malformed(err);
    if (status == 0 && f->at < f->end)
        return error_set(err, 400, "the contents have fewer values than the shape");
    return status;
}

/* Strings: each is a field. */
static int strings_read(struct reader *r, const struct input_given *given, uint32_t index) {
    struct protobuf_in in = protobuf_inside(&given->contents);
    struct protobuf_field field;
    size_t bytes = 0;
    int rc;
    for (uint32_t steps = 1; (rc = protobuf_next(&in, &field)) > 0; steps++) {
        if (steps % SLICE_ELEMENTS == 0)
            yield_point();
        if (field.number != contents_of[DATATYPE_BYTES].field || field.wire != PROTOBUF_BYTES)
            return error_set(r->err, 400, "input '%.64s': the contents are of another type than BYTES",
                             served_model_offered(r->model)->inputs[index].name);
        bytes += STRING_LEAD_BYTES + field.value;
    }
    if (rc < 0)
        return protobuf_malformed(r->err);
    char *data = r->memory.take(r->memory.context, bytes), *at = data;
    if (!data)
        return error_set(r->err, 503, "the memory for inputs is exhausted");
    in = protobuf_inside(&given->contents);
    for (uint32_t steps = 1; protobuf_next(&in, &field) > 0; steps++, at += field.value) {
        if (steps % SLICE_ELEMENTS == 0)
            yield_point();
        at = strings_lead(at, field.value);
        memcpy(at, field.data, field.value);
    }
    return infer_call_data(r->call, r->model, index, data, bytes, r->err);
}

static int contents_read(struct reader *r, const struct input_given *given, enum datatype type, uint32_t index) {
    struct tensor_view *view = &r->call->inputs[index];
    const char *name = served_model_offered(r->model)->inputs[index].name;
    if (type == DATATYPE_BYTES)
        return strings_read(r, given, index);
    struct filling filling = {.contents = &contents_of[type], .type = type, .element_bytes = datatype_bytes(type)};
    if (filling.contents->field == 0)
        return error_set(r->err, 400, "input '%.64s': %s is sent in raw_input_contents only", name,
                         datatype_name(type));
    /* an element takes a byte at least: do not take memory for what the message cannot hold */
    if (view->bytes / filling.element_bytes > given->contents.value)
        return error_set(r->err, 400, "input '%.64s': the contents have fewer values than the shape", name);
    view->data = filling.at = r->memory.take(r->memory.context, view->bytes);
    if (!view->data)
        return error_set(r->err, 503, "the memory for inputs is exhausted");
    filling.end = filling.at + view->bytes;
    struct sy_error why;
    int status = contents_fill(&filling, &given->contents, &why);
    return status ? error_set(r->err, status, "input '%.64s': %.400s", name, why.text) : 0;
}

static int input_read(struct reader *r, const struct protobuf_field *field) {
    struct input_given given;
    enum datatype type = DATATYPE_INVALID;
    uint32_t index = 0;
    int status = input_fields_read(r, field, &given);
    if (!status)
        status = infer_call_input(r->call, r->model, given.name, given.name_length, &index, r->err);
    if (!status)
        status = infer_call_datatype(given.datatype, given.datatype_length, &type, r->err);
    if (!status)
        status = infer_call_shape(r->call, r->model, index, type, given.dims, given.dim_count, r->err);
    if (status)
        return status;
    if (given.shared.region) {
        if (given.has_contents)
            return error_set(r->err, 400, "input '%.64s' has contents and a shared_memory_region",
                             served_model_offered(r->model)->inputs[index].name);
        return infer_call_shared(r->call, r->model, index, &given.shared, r->err);
    }
    if (given.has_contents) {
        r->typed = served_model_offered(r->model)->inputs[index].name;
        return r->message->raw_count > 0 ? 0 : contents_read(r, &given, type, index);
    }
    r->order[r->order_count++] = index;
    return 0;
}

/* ---- outputs, parameters ---- */

static int output_parameter_read(const struct protobuf_field *field, struct infer_shared *shared, int64_t *classes,
                                 struct sy_error *err) {
    struct protobuf_entry p;
    int status = parameter_read(field, &p, err);
    if (status)
        return status;
    if (key_is(&p, "classification") && !whole_number(&p))
        return error_set(err, 400, "parameter 'classification' is not a whole number");
    if (key_is(&p, "classification"))
        *classes = number_of(&p);
    return shared_parameter_read(&p, shared, err);
}

static int output_read(struct reader *r, const struct protobuf_field *message) {
    struct protobuf_in in = protobuf_inside(message);
    struct protobuf_field field;
    struct infer_output *output;
    struct infer_shared shared = {0};
    const char *name = "";
    size_t name_length = 0;
    int64_t classes = 0;
    int rc, status = 0;
    while (status == 0 && (rc = protobuf_next(&in, &field)) > 0) {
        if (field.wire != PROTOBUF_BYTES)
            continue;
        if (field.number == OUTPUT_NAME) {
            name = (const char *)field.data;
            name_length = field.value;
        } else if (field.number == OUTPUT_PARAMETERS) {
            status = output_parameter_read(&field, &shared, &classes, r->err);
        }
    }
    if (status == 0 && rc < 0)
        return protobuf_malformed(r->err);
    status = status ? status : infer_call_output(r->call, r->model, name, name_length, &output, r->err);
    if (status)
        return status;
    output->shared = shared;
    return infer_call_classify(r->call, r->model, output, classes, r->err);
}

static int request_parameter_read(struct reader *r, const struct protobuf_field *field) {
    struct protobuf_entry p;
    int status = parameter_read(field, &p, r->err);
    bool timeout = key_is(&p, "timeout");
    bool best_effort = key_is(&p, "best_effort");
    if (status == 0 && (best_effort || key_is(&p, "trail"))) {
        if (p.value.number != PARAMETER_BOOL || p.value.wire != PROTOBUF_VARINT)
            return error_set(r->err, 400, "parameter '%.*s' is not a bool_param", (int)p.key_length, p.key);
        *(best_effort ? &r->call->best_effort : &r->call->trail) = p.value.value != 0;
        return 0;
    }
    if (status || (!timeout && !key_is(&p, "priority")))
        return status;
    if (!whole_number(&p))
        return error_set(r->err, 400, "invalid value type for '%s' parameter, expected int64_param of 0 or more",
                         timeout ? "timeout" : "priority");
    return timeout ? infer_call_timeout(r->call, number_of(&p), r->err)
                   : infer_call_priority(r->call, number_of(&p), r->err);
}

/* Places inputs without contents of a request without raw contents: they are tensors without elements. */
static int empties_place(struct reader *r) {
    for (uint32_t i = 0; i < r->order_count; i++) {
        uint32_t index = r->order[i];
        if (r->call->inputs[index].bytes > 0)
            return error_set(r->err, 400, "input '%.64s' has neither contents nor raw_input_contents",
                             served_model_offered(r->model)->inputs[index].name);
        void *data = r->memory.take(r->memory.context, 0); /* not NULL, which means that an input is not given */
        if (!data)
            return error_set(r->err, 503, "the memory for inputs is exhausted");
        int status = infer_call_data(r->call, r->model, index, data, 0, r->err);
        if (status)
            return status;
    }
    return 0;
}

/* Raw contents are of the inputs in the order given. */
static int raws_place(struct reader *r) {
    const struct grpc_message *m = r->message;
    if (m->raw_count == 0)
        return empties_place(r);
    if (r->typed)
        return error_set(r->err, 400,
                         "contents field must not be specified when using raw_input_contents for '%.64s' for model "
                         "'%.64s'",
                         r->typed, r->model->name);
    if (m->raw_count != r->order_count)
        return error_set(r->err, 400, "the request has %u raw_input_contents for %u inputs", m->raw_count,
                         r->order_count);
    for (uint32_t i = 0; i < r->order_count; i++) {
        const struct grpc_raw *raw = &m->raws[i];
        int status = infer_call_data(r->call, r->model, r->order[i], raw->data, raw->bytes, r->err);
        if (status)
            return status;
    }
    return 0;
}

int grpc_infer_parse(const struct grpc_message *message, const struct served_model *model, struct infer_memory memory,
                     struct infer_call *call, struct sy_error *err) {
    struct reader r; /* whose long array is not cleared */
    r.message = message;
    r.model = model;
    r.memory = memory;
    r.call = call;
    r.err = err;
    r.typed = NULL;
    r.order_count = 0;
    struct protobuf_in in = head_of(message);
    struct protobuf_field field;
    int rc = 0, status = infer_call_begin(call, model, memory, err);
    while (status == 0 && (rc = head_next(&in, &field)) > 0) {
        if (field.wire != PROTOBUF_BYTES)
            continue;
        if (field.number == REQUEST_INPUTS) {
            status = input_read(&r, &field);
        } else if (field.number == REQUEST_OUTPUTS) {
            status = output_read(&r, &field);
        } else if (field.number == REQUEST_PARAMETERS) {
            status = request_parameter_read(&r, &field);
        } else if (field.number == REQUEST_ID) {
            call->id = (const char *)field.data;
            call->id_length = field.value;
        }
    }
    if (status == 0 && rc < 0)
        status = protobuf_malformed(err);
    status = status ? status : raws_place(&r);
    return status ? status : infer_call_finish(call, model, err);
}

/* ---- answers ---- */

/* An entry of a map of parameters; its number is that of the map's field. */
static void parameter_put(struct text *text, uint32_t number, const char *key, const struct text *value) {
    size_t key_bytes = strlen(key);
    protobuf_put_head(text, number,
                      1 + protobuf_varint_bytes(key_bytes) + key_bytes + 1 + protobuf_varint_bytes(value->length) +
                          value->length);
    protobuf_put_bytes(text, PROTOBUF_ENTRY_KEY, key, key_bytes);
    protobuf_put_bytes(text, PROTOBUF_ENTRY_VALUE, value->data, value->length);
}

static void number_parameter_put(struct text *text, uint32_t number, const char *key, uint64_t value) {
    char memory[1 + PROTOBUF_VARINT_MAX];
    struct text packed;
    text_init(&packed, memory, sizeof(memory));
    protobuf_put_tag(&packed, PARAMETER_INT64, PROTOBUF_VARINT);
    protobuf_put_varint(&packed, value);
    parameter_put(text, number, key, &packed);
}

/* Writes the parameters that name an output's place in shared memory. */
static void shared_put(struct text *text, const struct infer_shared *shared, size_t bytes) {
    char memory[512];
    struct text name;
    text_init(&name, memory, sizeof(memory));
    protobuf_put_bytes(&name, PARAMETER_STRING, shared->region, shared->region_length);
    parameter_put(text, TENSOR_PARAMETERS, "shared_memory_region", &name);
    number_parameter_put(text, TENSOR_PARAMETERS, "shared_memory_byte_size", bytes);
    if (shared->offset > 0)
        number_parameter_put(text, TENSOR_PARAMETERS, "shared_memory_offset", shared->offset);
    text_free(&name);
}

static void output_put(struct text *text, const char *name, enum datatype type, const struct tensor_view *part,
                       const struct infer_shared *shared) {
    const char *datatype = datatype_name(type);
    char memory[512];
    struct text parameters;
    size_t dims_bytes = 0, name_bytes = strlen(name), type_bytes = strlen(datatype);
    text_init(&parameters, memory, sizeof(memory));
    if (shared->region)
        shared_put(&parameters, shared, part->bytes);
    for (uint32_t d = 0; d < part->dim_count; d++)
        dims_bytes += protobuf_varint_bytes((uint64_t)part->dims[d]);
    protobuf_put_head(text, RESPONSE_OUTPUTS,
                      3 + protobuf_varint_bytes(name_bytes) + name_bytes + protobuf_varint_bytes(type_bytes) +
                          type_bytes + protobuf_varint_bytes(dims_bytes) + dims_bytes + parameters.length);
    protobuf_put_bytes(text, TENSOR_NAME, name, name_bytes);
    protobuf_put_bytes(text, TENSOR_DATATYPE, datatype, type_bytes);
    protobuf_put_head(text, TENSOR_SHAPE, dims_bytes);
    for (uint32_t d = 0; d < part->dim_count; d++)
        protobuf_put_varint(text, (uint64_t)part->dims[d]);
    text_append(text, parameters.data, parameters.length);
    text->failed |= parameters.failed;
    text_free(&parameters);
}

static void room_put(struct text *text) {
    static const char nothing[GRPC_ANSWER_ROOM];
    text_clear(text);
    text_append(text, nothing, GRPC_ANSWER_ROOM);
}

/* Writes what goes before the message: its length prefix, and what wraps it in a stream's message. */
static void prefix_put(struct infer_answer *answer, struct text *text, size_t message_bytes, bool wrapped) {
    char before[GRPC_ANSWER_ROOM];
    struct text wrap;
    text_init(&wrap, before + GRPC_PREFIX_BYTES, sizeof(before) - GRPC_PREFIX_BYTES);
    if (wrapped)
        protobuf_put_head(&wrap, STREAM_RESPONSE, message_bytes);
    uint32_t length = __builtin_bswap32((uint32_t)(message_bytes + wrap.length));
    size_t bytes = GRPC_PREFIX_BYTES + wrap.length;
    before[0] = 0;
    memcpy(before + 1, &length, sizeof(length));
    memcpy(text->data + GRPC_ANSWER_ROOM - bytes, before, bytes);
    answer->pieces[0].iov_base = text->data + GRPC_ANSWER_ROOM - bytes;
    answer->bytes = bytes + message_bytes;
}
_Static_assert(GRPC_ANSWER_ROOM >= GRPC_PREFIX_BYTES + 1 + PROTOBUF_VARINT_MAX, "the prefix and the wrap fit");

int grpc_answer_build(struct infer_answer *answer, struct text *text, const struct served_model *model,
                      const struct infer_call *call, const struct tensor_view *outputs, uint32_t output_count,
                      uint32_t first_item, bool streamed, struct sy_error *err) {
    struct tensor_view parts[TENSORS_MAX];
    size_t tags_at[TENSORS_MAX + 1], raw_bytes = 0;
    char version[24];
    uint32_t count = call->output_count;
    *answer = (struct infer_answer){0};
    room_put(text);
    protobuf_put_bytes(text, RESPONSE_MODEL, model->name, strlen(model->name));
    protobuf_put_bytes(text, RESPONSE_VERSION, version,
                       (size_t)snprintf(version, sizeof(version), "%" PRIu32, model->version));
    if (call->id_length > 0)
        protobuf_put_bytes(text, RESPONSE_ID, call->id, call->id_length);
    if (streamed) { /* parameters["triton_final_response"] = true: clients of decoupled models look for it */
        char memory[2] = {PARAMETER_BOOL << 3 | PROTOBUF_VARINT, 1};
        struct text yes = {.data = memory, .length = sizeof(memory)};
        parameter_put(text, RESPONSE_PARAMETERS, "triton_final_response", &yes);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor_spec *spec = &model->signature.outputs[call->outputs[i].index];
        int rc = infer_output_slice(&parts[i], model, call, &call->outputs[i], outputs, output_count, first_item, err);
        if (rc)
            return rc;
        output_put(text, spec->name, infer_output_type(model, &call->outputs[i]), &parts[i], &call->outputs[i].shared);
        if (call->outputs[i].shared.region)
            parts[i].bytes = 0; /* an empty raw content stands for it, so that the others keep their places */
        raw_bytes += parts[i].bytes;
    }
    bool copied = raw_bytes <= INFER_ANSWER_COPY_MAX || count > INFER_ANSWER_OUTPUTS;
    for (uint32_t i = 0; i < count; i++) {
        protobuf_put_head(text, RESPONSE_RAW, parts[i].bytes);
        tags_at[i] = text->length;
        if (copied)
            text_append(text, parts[i].data, parts[i].bytes);
    }
    if (text->failed)
        return error_set(err, -ENOMEM, "out of memory for the answer");
    size_t message_bytes = text->length - GRPC_ANSWER_ROOM + (copied ? 0 : raw_bytes);
    if (message_bytes > INT32_MAX) /* protobuf's limit; gRPC's own is twice that */
        return error_set(err, -EINVAL, "the answer is longer than a gRPC message can be: %zu bytes, at most 2 GiB",
                         message_bytes);
    prefix_put(answer, text, message_bytes, streamed);
    if (copied)
        tags_at[count = 0] = text->length;
    /* text, output, text, output ... ; or all text */
    char *begin = answer->pieces[0].iov_base;
    for (uint32_t i = 0; i < count; i++) {
        answer->pieces[2 * i] = (struct iovec){begin, (size_t)(text->data + tags_at[i] - begin)};
        answer->pieces[2 * i + 1] = (struct iovec){parts[i].data, parts[i].bytes};
        begin = text->data + tags_at[i];
    }
    answer->piece_count = 2 * (int)count;
    if (copied)
        answer->pieces[answer->piece_count++] = (struct iovec){begin, (size_t)(text->data + text->length - begin)};
    return 0;
}

void grpc_answer_text(struct infer_answer *answer, struct text *text) {
    *answer = (struct infer_answer){.piece_count = 1};
    prefix_put(answer, text, text->length - GRPC_ANSWER_ROOM, false);
    answer->pieces[0].iov_len = answer->bytes;
}

void grpc_answer_error(struct infer_answer *answer, struct text *text, const char *sentence, const char *id,
                       size_t id_length) {
    size_t bytes = strlen(sentence);
    room_put(text);
    protobuf_put_bytes(text, STREAM_ERROR, sentence, bytes);
    if (!text->failed) /* it may quote the client, and end in the middle of a character */
        utf8_clean(text->data + text->length - bytes, bytes);
    if (id_length > 0 && text_reserve(text, id_length + 3 * PROTOBUF_VARINT_MAX)) {
        protobuf_put_head(text, STREAM_RESPONSE, 1 + protobuf_varint_bytes(id_length) + id_length);
        protobuf_put_bytes(text, RESPONSE_ID, id, id_length);
    }
    grpc_answer_text(answer, text);
}
