/* shared_rig.h - models of a few nodes in files, to be cut and shared. Their inputs have no types, so that the engine
 * opens none of them: every trial ends with a refusal, which is kept. */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/folder.h"
#include "core/util/time.h"
#include "model/prefix/groups.h"
#include "model/prefix/shared_groups.h"
#include "specs.h"
#include "unit/cmocka_all.h"
#include "unit/model/onnx/onnx_build.h"
#include "unit/temp_folder.h"

#define RIG_BATCH 16
#ifdef SYMPHONY_HAVE_ONNXRUNTIME
#define RIG_ENGINE &engine_onnxruntime
#else
#define RIG_ENGINE &engine_emulated /* it cannot try anything */
#endif

/* Two models that begin alike, and one that begins otherwise. */
static const struct build_node deep[] = {{"Neg", "x", "a"}, {"Abs", "a", "b"}, {"Exp", "b", "y"}, {NULL}};
static const struct build_node deep_too[] = {{"Neg", "x", "a"}, {"Abs", "a", "b"}, {"Log", "b", "y"}, {NULL}};
static const struct build_node strange[] = {{"Cos", "x", "a"}, {"Sin", "a", "b"}, {"Log", "b", "y"}, {NULL}};

struct shared_rig {
    char folder[64];
    struct served_model models[4];
    uint32_t count;
    struct profile_options how;
    struct shared_prefixes shared;
};

/* Writes a model with one input x and one output y. */
static inline struct served_model *rig_model(struct shared_rig *rig, const char *name, const struct build_node *nodes) {
    struct served_model *model = &rig->models[rig->count++];
    served_model_release(model);
    struct fingerprint fingerprint;
    struct text bytes;
    *model = (struct served_model){
        .version = 1,
        .batch_max = RIG_BATCH,
        .slo_ns = 50 * NS_PER_MS,
    };
    specs_set(model, (struct signature){
                         .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 4}}),
                         .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 4}}),
                         .input_count = 1,
                         .output_count = 1,
                         .batched = true});
    snprintf(model->name, sizeof(model->name), "%s", name);
    char path[128];
    snprintf(path, sizeof(path), "%s/%.20s.onnx", rig->folder, name);
    model->path = mem_pool_text(&model->memory, path);
    build_chain(&bytes, "x", nodes, "y");
    FILE *to = fopen(model->path, "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(bytes.data, bytes.length, 1, to), 1);
    fclose(to);
    text_free(&bytes);
    assert_int_equal(fingerprint_model(model->path, &fingerprint, NULL), 0);
    fingerprint_format(&fingerprint, model->contents);
    return model;
}

/* Whether a refusal of parts of that kind is kept for these models. */
static inline bool rig_refused(const struct shared_rig *rig, const char *kind, const struct part_owner *owners,
                               uint32_t count) {
    char folder[SIDECAR_PATH_MAX];
    struct sy_error err;
    assert_int_equal(part_folder_place(kind, owners, count, &rig->how, folder, &err), 0);
    json_t *note = part_note_read(folder, owners, count);
    bool refused = json_object_get(note, "refused");
    json_decref(note);
    return refused;
}

static inline int rig_make(void **state) {
    struct shared_rig *rig = *state = calloc(1, sizeof(*rig));
    assert_non_null(rig);
    temp_folder(rig->folder);
    rig->how.engine = RIG_ENGINE;
    return 0;
}

static inline int rig_free(void **state) {
    struct shared_rig *rig = *state;
    int rc = folder_remove(rig->folder);
    for (size_t i = 0; i < ARRAY_COUNT(rig->models); i++)
        served_model_release(&rig->models[i]);
    shared_prefixes_free(&rig->shared);
    free(rig);
    return rc;
}
