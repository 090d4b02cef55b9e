/* shared_make.c - the parts of a group, their note, their profiles, and the table of its batches.
 *
 * What a trial gave is kept with the parts (part_folders.h), so a later start finds it. */
#include "model/prefix/shared_make.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/log.h"
#include "model/prefix/parts.h"
#include "model/prefix/split.h"
#include "model/profile/prepare.h"

#define TRIAL_S 300 /* most seconds of a child process that tries a cut */

void shared_making_add(struct shared_making *m, uint32_t member, const struct served_model *model,
                       struct cut_model *cuts) {
    m->models[member] = model;
    m->cuts[member] = cuts;
    m->owners[member] = (struct part_owner){model->name, model->path, model->contents};
}

_Static_assert(PART_OWN == SPLIT_NONE, "notes have what a split says");

/* ---- the parts ---- */

/* Checks what parts must fulfil besides giving the same answers as the whole. 0, or -ENOTSUP with a sentence. */
static int parts_check(const struct split *split, struct sy_error *err) {
    for (uint32_t o = 0; o < split->prefix.signature.output_count; o++)
        if (split->prefix.outputs[o].type == DATATYPE_BYTES)
            return error_set(err, -ENOTSUP, "strings cross the cut");
    for (uint32_t m = 0; m < split->count; m++) {
        const struct split_member *member = &split->members[m];
        if (memcmp(member->prefix_takes, split->members[0].prefix_takes,
                   split->prefix.signature.input_count * sizeof(member->prefix_takes[0])) != 0)
            return error_set(err, -ENOTSUP, "their inputs are in another order");
        for (uint32_t i = 0; i < member->suffix.signature.input_count; i++)
            if (member->suffix_takes[i] == SPLIT_NONE && member->suffix.inputs[i].type == DATATYPE_BYTES)
                return error_set(err, -ENOTSUP, "a suffix takes strings of its own");
    }
    return 0;
}

/* Writes the note of the parts, in the child process that has made them. */
static int note_write(void *context, const struct split *split, uint32_t cut, struct sy_error *err) {
    const struct shared_making *m = context;
    int rc = parts_check(split, err);
    if (rc)
        return rc;
    json_t *note = part_note_new(m->made, m->owners, m->group->count), *members = json_object_get(note, "members");
    for (uint32_t i = 0; i < split->count; i++) { /* what member_make() reads */
        const struct split_member *member = &split->members[i];
        json_t *of = json_array_get(members, i);
        json_object_set_new(of, "takes", part_numbers_pack(member->suffix_takes, member->suffix.signature.input_count));
        json_object_set_new(of, "own", part_numbers_pack(member->suffix_own, member->suffix.signature.input_count));
        json_object_set_new(of, "lone_whole_ns", json_integer(member->whole_ns));
        json_object_set_new(of, "lone_parts_ns", json_integer(member->parts_ns));
    }
    json_object_set_new(note, "nodes", json_integer(m->group->cuts[cut].node_count));
    json_object_set_new(note, "weights_bytes", json_integer((json_int_t)m->group->cuts[cut].weights_bytes));
    json_object_set_new(note, "takes",
                        part_numbers_pack(split->members[0].prefix_takes, split->prefix.signature.input_count));
    return part_note_write(m->made, note, err);
}

int shared_parts_try(struct shared_making *m, struct sy_error *err) {
    char prefix[SIDECAR_PATH_MAX], (*paths)[SIDECAR_PATH_MAX] = calloc(m->group->count, sizeof(*paths));
    const char *suffixes[GROUPS_MODELS_MAX];
    struct sy_error deepest;
    uint32_t cut;
    if (!paths)
        return error_set(err, -ENOMEM, "out of memory");
    int rc = part_file(prefix, m->made, "prefix.onnx", 0, err);
    for (uint32_t i = 0; i < m->group->count && !rc; i++) {
        rc = part_file(paths[i], m->made, "suffix-%u.onnx", i, err);
        suffixes[i] = paths[i];
    }
    if (!rc) {
        const struct parts_maker maker = {.engine = m->how->engine,
                                          .members = m->cuts,
                                          .group = m->group,
                                          .prefix_path = prefix,
                                          .suffix_paths = suffixes,
                                          .trial_s = TRIAL_S,
                                          .finish = note_write,
                                          .context = m};
        rc = parts_make(&maker, &cut, &deepest, err);
        if (rc)
            rc = part_refusal_write(m->made, m->owners, m->group->count, deepest.text, err);
    }
    free(paths);
    return rc;
}

/* Makes the parts, for part_folder_get(). */
static int parts_try(void *context, const char *made, struct sy_error *err) {
    struct shared_making *m = context;
    snprintf(m->made, sizeof(m->made), "%s", made);
    log_info("trying where models with the same first layers can be cut", "first=%s models=%u cuts=%u",
             m->owners[0].name, m->group->count, m->group->cut_count);
    return m->trial(m, err);
}

/* ---- a group ---- */

/* Makes the model that the prefix's place gets. */
static int host_fill(const struct shared_making *m, struct shared_group *g, uint32_t batch_max,
                     const struct profile_record *record, struct sy_error *err) {
    struct served_model *host = g->host;
    const struct served_model *first = m->models[0];
    snprintf(host->name, sizeof(host->name), "%.100s.prefix", first->name);
    host->version = 1;
    host->path = g->prefix.path;
    memcpy(host->platform, first->platform, sizeof(host->platform));
    int rc = served_model_tensors_set(host, &first->signature, err);
    if (rc)
        return rc;
    memcpy(host->reference_dims, first->reference_dims,
           first->signature.input_count * sizeof(first->reference_dims[0]));
    host->batch_max = batch_max;
    host->queue = first->queue;
    host->instances = first->instances;
    host->weights_bytes = record->weights_bytes;
    host->batch_bytes = record->batch_bytes;
    host->weight = first->weight;
    host->best_effort = first->best_effort;
    host->item_elements = first->item_elements;
    host->shape_secret = first->shape_secret;
    host->slo_ns = INT64_MAX;
    for (uint32_t i = 0; i < m->group->count; i++)
        if (m->models[i]->slo_ns < host->slo_ns)
            host->slo_ns = m->models[i]->slo_ns;
    host->part = &g->prefix;
    host->suffixes = g->places;
    return 0;
}

/* Profiles a part by itself, for batches up to *batch_max, which becomes less if the part takes fewer items; and fills
 * the part's signature. `like` is a model of the group. -errno with a sentence. */
static int part_profile(const struct served_model *like, const char *name, const struct profile_options *how,
                        struct served_part *part, uint32_t *batch_max, struct profile_record *record,
                        struct sy_error *err) {
    struct served_model model = {.version = 1, .path = part->path};
    struct profile_options options = *how;
    struct profile_progress progress = {.model = name, .count = 1};
    struct profile *profile = NULL;
    bool measured;
    snprintf(model.name, sizeof(model.name), "%s", name);
    memcpy(model.on, like->on, sizeof(model.on));
    options.batch_max = *batch_max;
    int rc = profile_prepare(&model, &options, &progress, record, &profile, &measured);
    if (rc)
        error_set(err, rc, "%.400s", rc == -EINTR ? "stopped" : model.reason);
    else if (like->signature.batched && !record->batched)
        rc = error_set(err, -EINVAL, "%s: its items cannot be run together: %s", name, record->note);
    if (!rc) {
        part->memory = mem_pool_hold(model.memory);
        part->signature = model.signature;
        part->signature.batched = like->signature.batched;
        part->dims = model.reference_dims;
        if (like->signature.batched && record->batch_max < *batch_max)
            *batch_max = record->batch_max;
    }
    free(profile);
    served_model_release(&model);
    return rc;
}

/* Reads what a note says of a suffix, and checks it against the inputs of the suffix's file. */
static int member_read(const struct shared_group *g, struct shared_member *member, const json_t *of,
                       uint32_t whole_inputs, struct sy_error *err) {
    struct served_part *part = &member->part;
    uint32_t inputs = part->signature.input_count;
    bool fits = part_numbers_read(json_object_get(of, "takes"), inputs, g->prefix.signature.output_count, true,
                                  part->takes) == 0 &&
                part_numbers_read(json_object_get(of, "own"), inputs, whole_inputs, true, part->own) == 0;
    for (uint32_t k = 0; fits && k < inputs; k++)
        fits = part->takes[k] != PART_OWN || part->own[k] != PART_OWN;
    return fits ? 0 : error_set(err, -EINVAL, "%.400s: the note beside it does not fit it", part->path);
}

/* Makes a member of the group, whose prefix is there. The member's suffix is the file `path`; `of` is what the note
 * says of the suffix. NULL with *rc, -errno, and a sentence: for example, a lone request takes too long in parts. */
static struct shared_member *member_make(const struct shared_group *g, const struct served_model *model,
                                         const char *path, const json_t *of, const struct profile_options *how,
                                         uint32_t *batch_max, struct profile_record *record, int *rc,
                                         struct sy_error *err) {
    struct shared_member *member = calloc(1, sizeof(*member));
    char name[MODEL_NAME_MAX];
    if (!member) {
        *rc = error_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    snprintf(member->name, sizeof(member->name), "%s", model->name);
    snprintf(member->path, sizeof(member->path), "%s", model->path);
    snprintf(member->contents, sizeof(member->contents), "%s", model->contents);
    snprintf(member->part.path, sizeof(member->part.path), "%s", path);
    snprintf(name, sizeof(name), "%.100s.suffix", model->name);
    *rc = shared_lone_check(json_integer_value(json_object_get(of, "lone_parts_ns")),
                            json_integer_value(json_object_get(of, "lone_whole_ns")), model->slo_ns, err);
    if (!*rc)
        *rc = part_profile(model, name, how, &member->part, batch_max, record, err);
    if (!*rc)
        *rc = member_read(g, member, of, model->signature.input_count, err);
    if (!*rc) {
        member->weights_bytes = record->weights_bytes;
        member->batch_bytes = record->batch_bytes;
        return member;
    }
    mem_pool_release(member->part.memory);
    free(member);
    return NULL;
}

/* Profiles the prefix, and takes over what the note says of the prefix. */
static int prefix_fill(const struct shared_making *m, const char *folder, const json_t *note, struct shared_group *g,
                       uint32_t *batch_max, struct profile_record *record, struct sy_error *err) {
    const struct served_model *first = m->models[0];
    char name[MODEL_NAME_MAX];
    snprintf(name, sizeof(name), "%.100s.prefix", first->name);
    int rc = part_file(g->prefix.path, folder, "prefix.onnx", 0, err);
    if (!rc)
        rc = part_profile(first, name, m->how, &g->prefix, batch_max, record, err);
    if (rc)
        return rc;
    uint32_t inputs = g->prefix.signature.input_count, whole_inputs = first->signature.input_count;
    g->node_count = (uint32_t)json_integer_value(json_object_get(note, "nodes"));
    g->weights_bytes = (uint64_t)json_integer_value(json_object_get(note, "weights_bytes"));
    if (part_numbers_read(json_object_get(note, "takes"), inputs, whole_inputs, false, g->prefix.takes))
        return error_set(err, -EINVAL, "%.400s: the note beside it does not fit it", g->prefix.path);
    return 0;
}

static int members_fill(const struct shared_making *m, const char *folder, const json_t *note, struct shared_group *g,
                        uint32_t *batch_max, struct profile_record *records, struct sy_error *err) {
    char path[SIDECAR_PATH_MAX];
    int rc = 0;
    for (uint32_t i = 0; i < m->group->count && !rc; i++) {
        const json_t *of = json_array_get(json_object_get(note, "members"), i);
        rc = part_file(path, folder, "suffix-%u.onnx", i, err);
        struct shared_member *member =
            rc ? NULL : member_make(g, m->models[i], path, of, m->how, batch_max, &records[i], &rc, err);
        if (member)
            g->members[g->count++] = member;
    }
    return rc;
}

/* Reads the note, and profiles the parts. */
static int group_fill(const struct shared_making *m, const char *folder, const json_t *note, struct shared_group *g,
                      struct sy_error *err) {
    uint32_t batch_max = UINT32_MAX;
    struct profile_record *records = calloc(m->group->count + 1, sizeof(*records)), *prefix = records;
    g->host = calloc(1, sizeof(*g->host));
    int rc = records && g->host ? 0 : error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < m->group->count; i++)
        batch_max = m->models[i]->batch_max < batch_max ? m->models[i]->batch_max : batch_max;
    if (!rc)
        rc = prefix_fill(m, folder, note, g, &batch_max, prefix, err);
    if (!rc)
        rc = members_fill(m, folder, note, g, &batch_max, records + 1, err);
    if (!rc) { /* the tables, for batches up to the greatest that all parts take */
        bool made = (g->prefix_profile = profile_from_record(prefix, batch_max)) != NULL;
        for (uint32_t i = 0; i < g->count; i++)
            made &= (g->members[i]->profile = profile_from_record(&records[1 + i], batch_max)) != NULL;
        rc = made ? shared_table_make(g, batch_max, err) : error_set(err, -ENOMEM, "out of memory");
    }
    if (!rc)
        rc = host_fill(m, g, batch_max, prefix, err);
    free(records);
    return rc;
}

struct shared_group *shared_group_make(struct shared_making *m, int *rc, struct sy_error *err) {
    const struct part_want want = {m->owners, m->group->count, parts_try, m};
    struct shared_group *g = malloc(sizeof(*g));
    char folder[SIDECAR_PATH_MAX];
    json_t *note = NULL;
    if (!g) {
        *rc = error_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    *g = (struct shared_group){.held = -1};
    part_owners_tag(m->owners, m->group->count, g->tag);
    *rc = part_folder_place(SHARED_KIND, m->owners, m->group->count, m->how, folder, err);
    if (!*rc)
        *rc = part_folder_get(folder, &want, &g->held, &note, err);
    if (!*rc)
        *rc = group_fill(m, folder, note, g, err);
    json_decref(note);
    if (!*rc)
        return g;
    shared_group_free(g);
    return NULL;
}
