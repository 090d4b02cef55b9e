/* repository_order.c - hands orders over, and reads their bodies. */
#include "front/request/repository_order.h"

#include <gnutls/gnutls.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/json_values.h"
#include "core/util/protobuf.h"
#include "front/bulk/inbox.h"
#include "model/config/version_choice.h"

/* Numbers of RepositoryModelLoadRequest, which RepositoryModelUnloadRequest shares, and of ModelRepositoryParameter. */
enum { REQUEST_MODEL = 2, REQUEST_PARAMETERS = 3 };
enum { PARAMETER_BOOL = 1, PARAMETER_STRING = 3, PARAMETER_BYTES = 4 };

#define KEY_BYTES 256 /* longest key; longer ones are cut, since no known key and no file name is that long */

/* ---- to the desk and back ---- */

static struct repository_order *orders_take(struct push_list *list) {
    return push_list_entry(push_list_take(list), struct repository_order, link);
}

struct repository_order *order_next(const struct repository_order *order) {
    return push_list_entry(order->link.next, struct repository_order, link);
}

static void refuse_all(struct repository_desk *desk) {
    for (struct repository_order *order = orders_take(&desk->orders), *next; order; order = next) {
        next = order_next(order);
        order->status = (unsigned)error_set(&order->error, 503, "the server is shutting down");
        order_return(order);
    }
}

int order_submit(struct repository_desk *desk, const struct repository_order *order, struct sy_error *err) {
    struct repository_order *copy = malloc(sizeof(*copy));
    if (!copy)
        return error_set(err, 503, "out of memory for the order");
    *copy = *order;
    copy->status = 200;
    push_list_push(&desk->orders, &copy->link);
    /* seq_cst: either this sees that the desk is closed, or desk_close() sees the order */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&desk->closed, memory_order_relaxed))
        refuse_all(desk);
    else
        doorbell_ring(&desk->bell);
    return 0;
}

void desk_close(struct repository_desk *desk) {
    atomic_store_explicit(&desk->closed, true, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* with order_submit() */
    refuse_all(desk);
}

struct repository_order *orders_returned(struct inbox *home) {
    return orders_take(&home->orders);
}

struct repository_order *desk_take(struct repository_desk *desk) {
    return orders_take(&desk->orders);
}

bool desk_pending(const struct repository_desk *desk) {
    return push_list_any(&desk->orders);
}

void order_return(struct repository_order *order) {
    struct inbox *home = order->home;
    if (!home) {
        free(order);
        return;
    }
    push_list_push(&home->orders, &order->link);
    inbox_wake(home);
}

/* ---- what an order asks for ---- */

/* The status for a file that has no place in a repository. Triton notices only when it reads the files that it has
 * written, so its answer is INTERNAL, which its example of model control insists on. */
#define FILE_UNUSABLE 500

int order_poll_failed(const char *name, int status, struct sy_error *err) {
    struct sy_error why = *err;
    return error_set(err, status == 404 ? 500 : status,
                     "failed to load '%.*s', failed to poll from model repository: %.300s", MODEL_NAME_MAX, name,
                     why.text);
}

/* Reads where a file goes from "file:<version>/<name>". */
static int file_place(struct override_file *file, const char *key, struct sy_error *err) {
    const char *version = key + strlen("file:"), *slash = strchr(version, '/');
    size_t digits = strspn(version, "0123456789");
    if (slash && version + digits == slash && strtoull(version, NULL, 10) > VERSION_MAX)
        return error_set(err, FILE_UNUSABLE, "'%.100s': the number of a version is at most %u", key, VERSION_MAX);
    if (!slash || digits == 0 || version + digits != slash || digits >= sizeof(file->version) || version[0] == '0' ||
        slash[1] == '\0' || slash[1] == '.' || strchr(slash + 1, '/') || strlen(slash + 1) >= sizeof(file->name))
        return error_set(err, FILE_UNUSABLE, "'%.100s': expected file:<version>/<name>, as in file:1/model.onnx", key);
    memcpy(file->version, version, digits);
    file->version[digits] = '\0';
    strcpy(file->name, slash + 1);
    return 0;
}

/* Makes room for one more file. */
static int file_add(struct model_override *override, const char *key, struct override_file **file,
                    struct sy_error *err) {
    if (override->file_count == OVERRIDE_FILES_MAX)
        return error_set(err, 400, "more than %d files", OVERRIDE_FILES_MAX);
    *file = &override->files[override->file_count];
    int status = file_place(*file, key, err);
    override->file_count += status == 0;
    return status;
}

static bool is_file(const char *key) {
    return strncmp(key, "file:", strlen("file:")) == 0;
}

static int unknown_parameter(const char *key, struct sy_error *err) {
    return error_set(err, 400, "unknown parameter '%.100s' (expected config, file:<version>/<name>, unload_dependents)",
                     key);
}

static int json_parameter(struct model_override *override, const char *key, const json_t *value, struct sy_error *err) {
    if (is_file(key)) {
        struct override_file *into = NULL;
        gnutls_datum_t decoded = {NULL, 0};
        gnutls_datum_t text = {(unsigned char *)json_string_value(value), (unsigned)json_string_length(value)};
        int status = file_add(override, key, &into, err);
        if (status)
            return status;
        if (!json_is_string(value) || gnutls_base64_decode2(&text, &decoded) < 0)
            return error_set(err, 400, "%.100s: expected the file's content in base64", key);
        into->data = decoded.data; /* gnutls_malloc() is malloc() */
        into->bytes = decoded.size;
        return 0;
    }
    if (strcmp(key, "unload_dependents") == 0) {
        override->unload_dependents = json_is_true(value);
        return json_is_boolean(value) ? 0 : error_set(err, 400, "unload_dependents: expected true or false");
    }
    if (strcmp(key, "config") != 0)
        return unknown_parameter(key, err);
    override->config = json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, JSON_ENCODE_ANY);
    override->config_bytes = override->config ? strlen(override->config) : 0;
    return override->config ? 0 : error_set(err, 503, "out of memory for the configuration");
}

static int json_read(const struct repository_order *order, struct model_override *override, struct sy_error *err) {
    json_error_t error;
    const char *key;
    if (json_values_most(order->body, order->body_bytes) > JSON_VALUES_MAX)
        return error_set(err, 400, "the request's JSON has more than %d values", JSON_VALUES_MAX);
    json_t *value,
        *request = order->body_bytes > 0 ? json_loadb(order->body, order->body_bytes, 0, &error) : json_object();
    json_t *parameters = json_object_get(request, "parameters");
    int status = 0;
    if (!request)
        status = error_set(err, 400, "the request's JSON is wrong: %s at byte %d", error.text, error.position);
    else if (!json_is_object(request) || (parameters && !json_is_null(parameters) && !json_is_object(parameters)))
        status = error_set(err, 400, "expected an object, and in it perhaps 'parameters', an object");
    else
        json_object_foreach(parameters, key, value) {
            status = json_parameter(override, key, value, err);
            if (status)
                break;
        }
    json_decref(request);
    return status;
}

static void *copy_of(const void *data, size_t bytes) {
    char *copy = malloc(bytes + 1);
    if (copy) {
        memcpy(copy, data, bytes);
        copy[bytes] = '\0';
    }
    return copy;
}

static bool holds_bytes(const struct protobuf_field *value, uint32_t number) {
    return value->number == number && value->wire == PROTOBUF_BYTES;
}

static int message_parameter(struct model_override *override, const struct protobuf_field *field,
                             struct sy_error *err) {
    struct protobuf_entry entry;
    char key[KEY_BYTES];
    struct override_file *file = NULL;
    if (field->wire != PROTOBUF_BYTES || !protobuf_entry_read(field, &entry))
        return protobuf_malformed(err);
    const struct protobuf_field *value = &entry.value;
    snprintf(key, sizeof(key), "%.*s", (int)(entry.key_length < KEY_BYTES ? entry.key_length : KEY_BYTES), entry.key);
    if (is_file(key)) {
        int status = file_add(override, key, &file, err);
        if (status)
            return status;
        if (!holds_bytes(value, PARAMETER_BYTES))
            return error_set(err, 400, "%.100s: expected the file's content as bytes_param", key);
        file->data = copy_of(value->data, value->value);
        file->bytes = value->value;
        return file->data ? 0 : error_set(err, 503, "out of memory for the files");
    }
    if (strcmp(key, "unload_dependents") == 0) {
        override->unload_dependents =
            value->number == PARAMETER_BOOL && value->wire == PROTOBUF_VARINT && value->value != 0;
        return 0;
    }
    if (strcmp(key, "config") != 0)
        return unknown_parameter(key, err);
    if (override->config)
        return error_set(err, 400, "config is given twice");
    if (!holds_bytes(value, PARAMETER_STRING))
        return error_set(err, 400, "config: expected JSON as string_param");
    override->config = copy_of(value->data, value->value);
    override->config_bytes = override->config ? strlen(override->config) : 0;
    return override->config ? 0 : error_set(err, 503, "out of memory for the configuration");
}

static int message_name(struct repository_order *order, const struct protobuf_field *field, struct sy_error *err) {
    if (field->wire != PROTOBUF_BYTES)
        return protobuf_malformed(err);
    if (field->value >= sizeof(order->name))
        return error_set(err, 404, "there is no model '%.*s'", MODEL_NAME_MAX, (const char *)field->data);
    memcpy(order->name, field->data, field->value);
    order->name[field->value] = '\0';
    return 0;
}

/* Reads the fields of one number. */
static int fields_read(struct repository_order *order, struct model_override *override, uint32_t number,
                       struct sy_error *err) {
    struct protobuf_in in = {(const uint8_t *)order->body, (const uint8_t *)order->body + order->body_bytes};
    struct protobuf_field field;
    int status = 0, rc = 1;
    while (status == 0 && (rc = protobuf_next(&in, &field)) > 0)
        if (field.number == number)
            status =
                number == REQUEST_MODEL ? message_name(order, &field, err) : message_parameter(override, &field, err);
    return status == 0 && rc < 0 ? protobuf_malformed(err) : status;
}

int order_read(struct repository_order *order, struct model_override *override, struct sy_error *err) {
    memset(override, 0, sizeof(*override));
    int status;
    if (order->form == ORDER_JSON) {
        status = json_read(order, override, err);
    } else {
        /* The message is read where it lies; unpacking it with protobuf-c would take 45 bytes of memory for each byte
         * of the smallest fields. The name is read first, wherever it stands, since what is wrong with a parameter is
         * said of that model. */
        order->name[0] = '\0';
        status = fields_read(order, override, REQUEST_MODEL, err);
        status = status ? status : fields_read(order, override, REQUEST_PARAMETERS, err);
    }
    return status == FILE_UNUSABLE ? order_poll_failed(order->name, status, err) : status;
}
