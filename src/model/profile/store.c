/* store.c - writes and reads profiles as JSON files. */
#include "model/profile/store.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/conf.h"
#include "core/util/time.h"
#include "model/engine/sidecar.h"

/* Tensors. */

static json_t *dims_pack(const int64_t *dims, uint32_t dim_count) {
    json_t *list = json_array();
    for (uint32_t d = 0; d < dim_count; d++)
        json_array_append_new(list, json_integer(dims[d]));
    return list;
}

/* `item_dims` is NULL for outputs. */
static json_t *specs_pack(const struct tensor_spec *specs, uint32_t count,
                          const int64_t (*item_dims)[TENSOR_DIMS_MAX]) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        json_t *spec = json_pack("{s:s, s:s, s:o}", "name", specs[i].name, "datatype", datatype_name(specs[i].type),
                                 "shape", dims_pack(specs[i].dims, specs[i].dim_count));
        if (item_dims) { /* an item has the dimensions of the file, or more, if the configuration reshapes the input */
            uint32_t dim_count = TENSOR_DIMS_MAX;
            while (dim_count > specs[i].dim_count && item_dims[i][dim_count - 1] == 0)
                dim_count--;
            json_object_set_new(spec, "item", dims_pack(item_dims[i], dim_count));
        }
        json_array_append_new(list, spec);
    }
    return list;
}

static int dims_unpack(const json_t *list, int64_t least, int64_t *dims, uint32_t *dim_count) {
    size_t d;
    json_t *dim;
    if (!json_is_array(list) || json_array_size(list) > TENSOR_DIMS_MAX)
        return -EINVAL;
    json_array_foreach(list, d, dim) {
        if (!json_is_integer(dim) || json_integer_value(dim) < least)
            return -EINVAL;
        dims[d] = json_integer_value(dim);
    }
    *dim_count = (uint32_t)json_array_size(list);
    return 0;
}

static int specs_unpack(const json_t *list, const char *origin, const char *what, struct tensor_spec *specs,
                        uint32_t *count, int64_t (*item_dims)[TENSOR_DIMS_MAX], struct sy_error *err) {
    size_t i;
    json_t *spec;
    if (json_array_size(list) > TENSORS_MAX)
        return error_set(err, -EINVAL, "%s: %s: more than %d", origin, what, TENSORS_MAX);
    json_array_foreach(list, i, spec) {
        const char *name = json_string_value(json_object_get(spec, "name"));
        const char *type = json_string_value(json_object_get(spec, "datatype"));
        uint32_t dim_count = 0;
        enum datatype datatype = type ? datatype_parse(type, strlen(type)) : DATATYPE_INVALID;
        int rc = name && datatype != DATATYPE_INVALID && strlen(name) < TENSOR_NAME_MAX ? 0 : -EINVAL;
        if (!rc)
            rc = dims_unpack(json_object_get(spec, "shape"), -1, specs[i].dims, &specs[i].dim_count);
        if (!rc && item_dims)
            rc = dims_unpack(json_object_get(spec, "item"), 0, item_dims[i], &dim_count);
        if (rc || (item_dims && dim_count < specs[i].dim_count))
            return error_set(err, -EINVAL, "%s: %s[%zu]: not a tensor's name, datatype and shape", origin, what, i);
        strcpy(specs[i].name, name);
        specs[i].type = datatype;
    }
    *count = (uint32_t)json_array_size(list);
    return 0;
}

/* Records. */

static json_t *points_pack(const struct profile_record *record) {
    json_t *points = json_array();
    for (uint32_t i = 0; i < record->point_count; i++)
        json_array_append_new(points, json_pack("{s:i, s:f}", "batch", (int)record->batch[i], "latency_ms",
                                                (double)record->latency_ns[i] / (double)NS_PER_MS));
    return points;
}

json_t *profile_record_pack(const struct profile_record *r) {
    const struct signature *s = &r->file.signature;
    return json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:o, s:i, s:o, s:b, s:b, s:b, s:s, s:i, s:i, s:s, s:o, s:I, s:I, s:f, s:s, s:s, "
        "s:i, s:b, s:s}",
        "symphony_profile", 1, "of", r->of, "fingerprint", r->fingerprint, "engine", r->engine, "accelerator",
        r->accelerator, "inputs", specs_pack(r->file.inputs, s->input_count, r->item_dims), "inputs_optional",
        (int)tensor_set_count(s->inputs_optional), "outputs", specs_pack(r->file.outputs, s->output_count, NULL),
        "batch_dimension", s->batched, "batched", r->batched, "told_to_batch", r->told, "mixes", r->mixes, "batch_max",
        (int)r->batch_max, "batch_asked", (int)r->batch_asked, "note", r->note, "points", points_pack(r),
        "weights_bytes", (json_int_t)r->weights_bytes, "batch_bytes", (json_int_t)r->batch_bytes, "load_ms",
        (double)r->load_ns / (double)NS_PER_MS, "cache", r->cache, "warmup", r->warmup, "values", (int)r->values,
        "values_given", r->values_given, "graph", r->graph);
}

static int points_unpack(const json_t *points, const char *origin, struct profile_record *record,
                         struct sy_error *err) {
    size_t i;
    json_t *point;
    json_int_t previous = 0;
    if (json_array_size(points) < 1 || json_array_size(points) > PROFILE_POINTS_MAX)
        return error_set(err, -EINVAL, "%s: points: 1 to %d are needed", origin, PROFILE_POINTS_MAX);
    json_array_foreach(points, i, point) {
        json_int_t batch = json_integer_value(json_object_get(point, "batch"));
        double latency_ms = json_number_value(json_object_get(point, "latency_ms"));
        if (batch <= previous || batch > PROFILE_BATCH_MAX)
            return error_set(err, -EINVAL, "%s: points[%zu].batch: must rise, from 1 to at most %d", origin, i,
                             PROFILE_BATCH_MAX);
        if (!(latency_ms > 0) || latency_ms > 3.6e6)
            return error_set(err, -EINVAL, "%s: points[%zu].latency_ms: must be over 0 and under an hour", origin, i);
        record->batch[i] = (uint32_t)(previous = batch);
        record->latency_ns[i] = llround(latency_ms * (double)NS_PER_MS);
    }
    record->point_count = (uint32_t)json_array_size(points);
    return 0;
}

int profile_record_unpack(const json_t *json, const char *origin, struct profile_record *r, struct sy_error *err) {
    const char *of = "", *fingerprint = "", *engine = "", *accelerator = "", *note = "", *cache = "none", *warmup = "",
               *mixes = NULL, *graph = "";
    json_t *inputs = NULL, *outputs = NULL, *points = NULL;
    int version = 0, optional = 0, batch_dimension = 1, batched = 1, told = 0, batch_max = 0, batch_asked = 0;
    int values = 0, values_given = 0;
    json_int_t weights_bytes = 0, batch_bytes = 0;
    double load_ms = 0;
    json_error_t where;
    memset(r, 0, sizeof(*r));
    /* A profile written by hand needs the version and the points alone. */
    if (json_unpack_ex((json_t *)json, &where, 0,
                       "{s:i, s?s, s?s, s?s, s?s, s?o, s?i, s?o, s?b, s?b, s?b, s?s, s?i, s?i, s?s, s:o, s?I, s?I, "
                       "s?F, s?s, s?s, s?i, s?b, s?s}",
                       "symphony_profile", &version, "of", &of, "fingerprint", &fingerprint, "engine", &engine,
                       "accelerator", &accelerator, "inputs", &inputs, "inputs_optional", &optional, "outputs",
                       &outputs, "batch_dimension", &batch_dimension, "batched", &batched, "told_to_batch", &told,
                       "mixes", &mixes, "batch_max", &batch_max, "batch_asked", &batch_asked, "note", &note, "points",
                       &points, "weights_bytes", &weights_bytes, "batch_bytes", &batch_bytes, "load_ms", &load_ms,
                       "cache", &cache, "warmup", &warmup, "values", &values, "values_given", &values_given, "graph",
                       &graph))
        return error_set(err, -EINVAL, "%s: not a profile: %s", origin, where.text);
    if (version != 1)
        return error_set(err, -EINVAL, "%s: symphony_profile: version %d is not known", origin, version);
    int rc = specs_unpack(inputs, origin, "inputs", r->file.inputs, &r->file.signature.input_count, r->item_dims, err);
    if (!rc)
        rc = specs_unpack(outputs, origin, "outputs", r->file.outputs, &r->file.signature.output_count, NULL, err);
    if (!rc)
        rc = points_unpack(points, origin, r, err);
    if (rc)
        return rc;
    if (batch_max == 0)
        batch_max = (int)r->batch[r->point_count - 1];
    if (batch_max < 1 || batch_max > PROFILE_BATCH_MAX)
        return error_set(err, -EINVAL, "%s: batch_max: %d is not in 1 to %d", origin, batch_max, PROFILE_BATCH_MAX);
    snprintf(r->of, sizeof(r->of), "%s", of);
    snprintf(r->fingerprint, sizeof(r->fingerprint), "%s", fingerprint);
    snprintf(r->graph, sizeof(r->graph), "%s", graph);
    snprintf(r->engine, sizeof(r->engine), "%s", engine);
    snprintf(r->accelerator, sizeof(r->accelerator), "%s", accelerator);
    snprintf(r->note, sizeof(r->note), "%s", note);
    snprintf(r->cache, sizeof(r->cache), "%s", cache);
    snprintf(r->warmup, sizeof(r->warmup), "%s", warmup);
    if (optional < 0 || (uint32_t)optional > r->file.signature.input_count)
        return error_set(err, -EINVAL, "%s: inputs_optional: %d of %u inputs", origin, optional,
                         r->file.signature.input_count);
    r->file.signature.inputs_optional = tensor_set_first(r->file.signature.input_count) &
                                        ~tensor_set_first(r->file.signature.input_count - (uint32_t)optional);
    r->file.signature.batched = batch_dimension;
    for (uint32_t i = 0; i + (uint32_t)optional < r->file.signature.input_count; i++)
        for (uint32_t d = r->file.signature.batched; d < r->file.inputs[i].dim_count; d++)
            r->file.signature.variable_shapes |= r->file.inputs[i].dims[d] < 0;
    r->batched = batched;
    r->told = told;
    r->judged = mixes != NULL;
    snprintf(r->mixes, sizeof(r->mixes), "%s", mixes ? mixes : "");
    r->values = values > 0 ? (uint32_t)values : 0;
    r->values_given = values_given;
    r->batch_max = (uint32_t)batch_max;
    r->batch_asked = batch_asked > 0 ? (uint32_t)batch_asked : r->batch_max;
    r->weights_bytes = (uint64_t)weights_bytes;
    r->batch_bytes = (uint64_t)batch_bytes;
    r->load_ns = llround(load_ms * (double)NS_PER_MS);
    return 0;
}

int profile_store_save(const char *path, const struct profile_record *record, struct sy_error *err) {
    json_t *json = profile_record_pack(record);
    char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
    int rc = text ? sidecar_write(path, text, err) : error_set(err, -ENOMEM, "%s: the profile cannot be written", path);
    free(text);
    json_decref(json);
    return rc;
}

int profile_store_load(const char *path, struct profile_record *record, struct sy_error *err) {
    json_error_t where;
    char *text;
    size_t bytes;
    int rc = conf_slurp(path, &text, &bytes, err);
    if (rc)
        return rc;
    json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (!json)
        return error_set(err, -EINVAL, "%s:%d:%d: %s", path, where.line, where.column, where.text);
    rc = profile_record_unpack(json, path, record, err);
    json_decref(json);
    return rc;
}

struct profile *profile_from_record(const struct profile_record *record, uint32_t batch_max) {
    uint32_t batch[PROFILE_POINTS_MAX + 1], count = record->point_count;
    int64_t latency_ns[PROFILE_POINTS_MAX + 1];
    struct profile *profile = malloc(profile_bytes(batch_max));
    if (!profile)
        return NULL;
    memcpy(batch, record->batch, count * sizeof(*batch));
    memcpy(latency_ns, record->latency_ns, count * sizeof(*latency_ns));
    uint32_t last = batch[count - 1];
    if (last < batch_max + 1) { /* the slope between two noisy points says little about a batch ten times as large */
        batch[count] = batch_max + 1;
        latency_ns[count] = (int64_t)((double)latency_ns[count - 1] / last * (batch_max + 1));
        count++;
    }
    if (profile_set_points(profile, batch_max, batch, latency_ns, count)) {
        free(profile);
        return NULL;
    }
    return profile;
}
