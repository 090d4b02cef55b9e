/* prepare.c - finds or makes the profiles of models before they are served. */
#include "model/profile/prepare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/log.h"
#include "core/util/time.h"
#include "model/engine/fingerprint.h"
#include "model/engine/sidecar.h"
#include "model/profile/twins.h"
#include "model/profile/warmup.h"

#define MEASURE_TRIES 2 /* most measurements of a model whose files change meanwhile */

int64_t profile_default_slo_ns(const struct profile *profile) {
    int64_t least_ns = 25 * NS_PER_MS;
    int64_t lone_ns = 10 * profile->latency_ns[1];
    int64_t batch_ns = 2 * profile->latency_ns[profile_batch_best(profile)];
    int64_t slo_ns = lone_ns > batch_ns ? lone_ns : batch_ns;
    slo_ns = slo_ns > least_ns ? slo_ns : least_ns;
    return (slo_ns + NS_PER_MS - 1) / NS_PER_MS * NS_PER_MS;
}

/* Names the engine that measures, and the accelerator. */
static void engine_describe(const struct profile_options *options, char *engine, size_t engine_size, char *accelerator,
                            size_t accelerator_size) {
    snprintf(engine, engine_size, "%s %s", options->engine->name, options->engine->version());
    accelerator_type(options->provider, options->device, accelerator, accelerator_size);
}

/* Makes the key under which profiles of this engine and accelerator are kept. */
static void key_compose(const struct profile_options *options, char *key, size_t size) {
    char engine[64], accelerator[256];
    engine_describe(options, engine, sizeof(engine), accelerator, sizeof(accelerator));
    snprintf(key, size, "profile %s %s", engine, accelerator);
}

/* Whether the record's item fits the model as it is configured now. */
static bool item_holds(const struct served_model *model, const struct profile_record *record) {
    for (uint32_t i = 0; i < model->signature.input_count; i++) {
        const struct tensor_spec *spec = &model->signature.inputs[i];
        for (uint32_t d = 0; d < TENSOR_DIMS_MAX && !(model->signature.inputs_optional & tensor_bit(i)); d++) {
            int64_t wanted = d < spec->dim_count ? model->reference_dims[i][d] : 0, dim = record->item_dims[i][d];
            bool open = d < spec->dim_count && spec->dims[d] == -1 && wanted == 0;
            if (open ? dim == 0 : dim != wanted)
                return false;
        }
    }
    return true;
}

/* Applies the record to the model: removes a batch dimension that does not hold, and takes over the profiled item. */
static int record_apply(struct served_model *model, const struct profile_record *record, const char *provider) {
    struct signature *s = &model->signature;
    if (s->batched && !record->batched)
        signature_unbatch(s);
    model->mixes = NULL;
    if (s->batched && *record->mixes && !(model->mixes = mem_pool_text(&model->memory, record->mixes)))
        return -ENOMEM;
    if (!s->batched)
        model->batch_max = 1;
    else if (model->batch_max > record->batch_max)
        model->batch_max = record->batch_max;
    snprintf(model->contents, sizeof(model->contents), "%s", record->fingerprint);
    if (strcmp(provider, "cpu") == 0) { /* the process that measured knows nothing of a GPU's memory */
        model->weights_bytes = record->weights_bytes;
        model->batch_bytes = record->batch_bytes;
        model->load_ns = record->load_ns;
        model->weights_shared = strcmp(record->cache, "prepacked") == 0;
    }
    model->values = record->values;
    model->item_elements = 0;
    for (uint32_t i = 0; i < s->input_count; i++) {
        if (s->inputs_optional & tensor_bit(i))
            continue; /* optional inputs are no part of the item */
        memcpy(model->reference_dims[i], record->item_dims[i], sizeof(model->reference_dims[i]));
        model->item_elements += dims_product(record->item_dims[i], 0, s->inputs[i].dim_count);
    }
    return 0;
}

/* Whether a record fits the model as it is configured now; `path` names the record in the sentence. 0, -ESTALE with a
 * sentence, or another -errno: the model could not be read. */
static int record_fits(const struct served_model *model, const struct profile_options *options,
                       const struct profile_record *record, const char *path, struct sy_error *err) {
    char warmup[FINGERPRINT_TEXT];
    struct served_model configured; /* the model with its configuration of now, to compare; the texts are the model's */
    memcpy(&configured, model, sizeof(configured));
    configured.memory = NULL;
    struct signature_room file = record->file;
    int rc = served_model_apply(&configured, signature_room_open(&file), err);
    uint32_t wanted = options->batch_max ? options->batch_max : configured.batch_max;
    if (!rc && !item_holds(&configured, record))
        rc = error_set(err, -ESTALE, "%s is of another item shape", path);
    if (!rc && configured.signature.batched && (!record->judged || record->told != configured.batch_told))
        rc = error_set(err, -ESTALE, "%s %s", path,
                       record->judged ? "is of a model whose configuration said otherwise whether it is batched"
                                      : "does not say whether the items of a batch stay apart");
    if (!rc && wanted > record->batch_asked)
        rc = error_set(err, -ESTALE, "%s reaches to batches of %u, wanted are %u", path, record->batch_asked, wanted);
    if (!rc)
        rc = warmup_fingerprint(&configured, warmup, err);
    if (!rc && (*warmup || record->values_given) && strcmp(record->warmup, warmup) != 0)
        rc = error_set(err, -ESTALE, "%s is of a model whose model_warmup, sample, prepare or operators were others",
                       path);
    mem_pool_release(configured.memory);
    return rc;
}

int profile_cached(const struct served_model *model, const struct profile_options *options,
                   struct profile_record *record, struct sy_error *err) {
    char key[512], path[SIDECAR_PATH_MAX], text[FINGERPRINT_TEXT], engine[64], accelerator[256];
    char owner[SIDECAR_PATH_MAX];
    struct fingerprint fingerprint;
    struct sy_error why;
    key_compose(options, key, sizeof(key));
    if (sidecar_find(model->path, options->cache_dir, key, ".profile.json", path))
        return -ENOENT;
    if (profile_store_load(path, record, &why)) {
        log_warn("cached profile not used", "model=%s reason=\"%s\"", model->name, why.text);
        return -ENOENT;
    }
    engine_describe(options, engine, sizeof(engine), accelerator, sizeof(accelerator));
    sidecar_owner(model->path, path, owner);
    if (strcmp(record->of, owner) != 0)
        return error_set(err, -ESTALE, "%s is of the model %s", path, *record->of ? record->of : "that it lay beside");
    if (strcmp(record->engine, engine) != 0 || strcmp(record->accelerator, accelerator) != 0)
        return error_set(err, -ESTALE, "%s is of %s on %s", path, record->engine, record->accelerator);
    int rc = fingerprint_model(model->path, &fingerprint, err);
    if (rc)
        return rc;
    fingerprint_format(&fingerprint, text);
    if (strcmp(record->fingerprint, text) != 0 || !profile_record_has_signature(record))
        return error_set(err, -ESTALE, "%s is of another version of the file", path);
    return record_fits(model, options, record, path, err);
}

/* The record of a model of the same graph, as if it were this model's. -ENOENT: there is none that fits. */
static int record_of_twin(const struct served_model *model, const struct profile_options *options,
                          struct profile_record *record) {
    char graph[sizeof(record->graph)];
    struct fingerprint fingerprint;
    struct sy_error err;
    twins_graph(model, graph);
    const struct profile_record *twin = twins_find(options->twins, graph);
    if (!twin || record_fits(model, options, twin, "", &err) || fingerprint_model(model->path, &fingerprint, &err))
        return -ENOENT;
    memcpy(record, twin, sizeof(*record));
    fingerprint_format(&fingerprint, record->fingerprint);
    strcpy(record->cache, "none");
    return 0;
}

/* Keeps a new record; where it cannot be written the model is measured again at the next start. */
static void record_keep(const struct served_model *model, const struct profile_options *options,
                        struct profile_record *record) {
    char key[512], path[SIDECAR_PATH_MAX];
    struct sy_error err;
    engine_describe(options, record->engine, sizeof(record->engine), record->accelerator, sizeof(record->accelerator));
    key_compose(options, key, sizeof(key));
    int rc = sidecar_path(model->path, options->cache_dir, key, ".profile.json", path, &err);
    if (!rc) {
        sidecar_owner(model->path, path, record->of);
        rc = profile_store_save(path, record, &err);
    }
    if (rc)
        log_warn("profile not kept", "model=%s reason=\"%s\"", model->name, err.text);
}

/* Measures a model now. The record has the fingerprint of the contents that were measured: they must be the same before
 * and after, since a record of old contents under the fingerprint of new ones would be taken for theirs at every start.
 * -EBUSY: they have changed meanwhile, each time. */
static int record_measure(const struct served_model *model, const struct profile_options *options,
                          struct profile_progress *progress, struct profile_record *record, struct sy_error *err) {
    for (int try = 1;; try++) {
        char before[FINGERPRINT_TEXT];
        struct fingerprint fingerprint;
        int rc = fingerprint_model(model->path, &fingerprint, err);
        if (rc)
            return rc;
        fingerprint_format(&fingerprint, before);
        rc = profile_in_child(model, options, progress, record, err);
        if (rc == -EINTR)
            return rc;
        if (fingerprint_model_holds(model->path, before) == 1) {
            memcpy(record->fingerprint, before, sizeof(before));
            return rc;
        }
        if (try == MEASURE_TRIES)
            return error_set(err, -EBUSY, "%.300s has changed while it was being measured, %d times", model->path, try);
        log_info("profile to be measured again", "model=%s reason=\"%s has changed while it was being measured\"",
                 model->name, model->path);
    }
}

/* The record of a model: from the cache, or else measured now and kept. If the model names a profile file
 * (profile_path), the record's latencies and greatest batch are that file's. */
static int record_get(const struct served_model *model, const struct profile_options *options,
                      struct profile_progress *progress, struct profile_record *record, bool *measured,
                      struct sy_error *err) {
    struct sy_error why = {""};
    struct profile_record given;
    *measured = false;
    if (model->profile_path) {
        int rc = profile_store_load(model->profile_path, &given, err);
        if (rc)
            return rc;
    }
    int rc = options->force || options->missed ? -ENOENT : profile_cached(model, options, record, &why);
    if (rc == -ESTALE && !options->follows)
        log_info("profile to be measured again", "model=%s reason=\"%s\"", model->name, why.text);
    if ((rc == -ESTALE || rc == -ENOENT) && options->cached)
        return -EAGAIN;
    if (rc && rc != -ENOENT && rc != -ESTALE)
        return error_set(err, rc, "%s", why.text);
    if (rc && options->twins && !options->force && record_of_twin(model, options, record) == 0) {
        rc = 0;
        record_keep(model, options, record);
    } else if (rc) {
        rc = record_measure(model, options, progress, record, err);
        if (rc)
            return rc;
        *measured = true;
        twins_graph(model, record->graph);
        record_keep(model, options, record);
    }
    if (options->twins)
        twins_add(options->twins, record);
    if (model->profile_path) { /* the file gives the times; the rest of the record was found above */
        record->point_count = given.point_count;
        memcpy(record->batch, given.batch, sizeof(given.batch));
        memcpy(record->latency_ns, given.latency_ns, sizeof(given.latency_ns));
        if (record->batched)
            record->batch_max = given.batch_max;
    }
    return 0;
}

int profile_prepare(struct served_model *model, const struct profile_options *options,
                    struct profile_progress *progress, struct profile_record *record, struct profile **profile,
                    bool *measured) {
    struct sy_error err = {""};
    struct profile_record *own = record ? NULL : malloc(sizeof(*own));
    uint32_t before = model->signature.input_count ? model->batch_max : UINT32_MAX; /* set for another type */
    *profile = NULL;
    if (!record && !(record = own)) {
        served_model_refuse(model, "%s: out of memory", model->path);
        return -ENOMEM;
    }
    int rc = record_get(model, options, progress, record, measured, &err);
    if (!rc)
        rc = served_model_apply(model, signature_room_open(&record->file), &err);
    if (!rc) {
        before = options->batch_max && options->batch_max < before ? options->batch_max : before;
        model->batch_max = model->batch_max < before ? model->batch_max : before;
        rc = record_apply(model, record, options->provider);
        *profile = rc ? NULL : profile_from_record(record, model->batch_max);
        rc = *profile ? 0 : error_set(&err, -ENOMEM, "no memory for its profile");
    }
    bool says_where = strstr(err.text, model->folder ? model->folder : model->path);
    if (rc && rc != -EINTR && rc != -EAGAIN)
        served_model_refuse(model, "%s%s%s", says_where ? "" : model->path, says_where ? "" : ": ", err.text);
    if (!rc && model->slo_ns == 0) {
        model->slo_ns = profile_default_slo_ns(*profile);
        model->slo_chosen = true;
    }
    if (!rc && *measured && *record->note)
        log_info("model profiled", "model=%s batch_max=%u note=\"%s\"", model->name, model->batch_max, record->note);
    if (!rc && model->mixes)
        log_warn("model is batched as its configuration says, though items of a batch change each other's outputs",
                 "model=%s reason=\"%s\"", model->name, model->mixes);
    free(own);
    return rc;
}

int profile_prepare_all(struct served_model *models, uint32_t count, uint32_t type,
                        const struct profile_options *options, struct profile **profiles) {
    int ready = 0;
    struct profile_progress progress = {.count = count};
    for (uint32_t i = 0; i < count; i++) {
        bool measured;
        profiles[i] = NULL;
        if (atomic_load_explicit(&models[i].state, memory_order_relaxed) != MODEL_LOADING || /* no threads yet */
            models[i].on[type].count == 0)
            continue;
        progress.model = models[i].name;
        progress.index = i;
        int rc = profile_prepare(&models[i], options, &progress, NULL, &profiles[i], &measured);
        if (rc == -EINTR)
            return rc;
        ready += rc == 0;
    }
    return ready;
}
