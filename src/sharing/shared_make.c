/* shared_make.c - the parts of a group, their note, their profiles, and the table of its batches.
 *
 * What a trial gave is kept with the parts (part_folders.h), so a later start finds it. */
#include "sharing/shared_make.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "prefix/parts.h"

#define TRIAL_S 300 /* a child process that tries a cut may take so long */

void shared_making_add(struct shared_making *m, uint32_t member, const struct served_model *model,
                       struct cut_model *cuts) {
    m->models[member] = model;
    m->cuts[member] = cuts;
    m->owners[member] = (struct part_owner){model->name, model->path, model->contents};
}

/* ---- the parts ---- */

/* Writes the note of the parts, in the child process that has made them. */
static int note_write(void *context, const struct split *split, uint32_t cut, struct sy_error *err) {
    const struct shared_making *m = context;
    int rc = shared_parts_check(split, err);
    if (rc)
        return rc;
    json_t *note = part_note_new(m->made, m->owners, m->group->count), *members = json_object_get(note, "members");
    for (uint32_t i = 0; i < split->count; i++)
        shared_suffix_note(json_array_get(members, i), &split->members[i]);
    part_cut_pack(note, &m->group->cuts[cut]);
    json_object_set_new(note, "takes", part_numbers_pack(split->members[0].prefix_takes, split->prefix.input_count));
    json_object_set_new(note, "inputs", part_numbers_pack(split->prefix_inputs, split->prefix.input_count));
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

/* For part_folder_get(). */
static int parts_try(void *context, const char *made, struct sy_error *err) {
    struct shared_making *m = context;
    snprintf(m->made, sizeof(m->made), "%s", made);
    log_info("trying where models with the same first layers can be cut", "first=%s models=%u cuts=%u",
             m->owners[0].name, m->group->count, m->group->cut_count);
    return m->trial(m, err);
}

/* ---- a group ---- */

/* What the prefix's place becomes. */
static void host_fill(const struct shared_making *m, struct shared_group *g, uint32_t batch_max,
                      const struct profile_record *record) {
    struct served_model *host = g->host;
    const struct served_model *first = m->models[0];
    snprintf(host->name, sizeof(host->name), "%.100s.prefix", first->name);
    host->version = 1;
    snprintf(host->path, sizeof(host->path), "%s", g->prefix.path);
    snprintf(host->platform, sizeof(host->platform), "%s", first->platform);
    host->signature = host->offered = first->signature;
    host->batch_max = batch_max;
    host->queue = first->queue;
    host->instances = first->instances;
    memcpy(host->on, first->on, sizeof(host->on));
    host->weights_bytes = record->weights_bytes;
    host->batch_bytes = record->batch_bytes;
    host->weight = first->weight;
    host->best_effort = first->best_effort;
    host->item_elements = first->item_elements;
    memcpy(host->reference_dims, first->reference_dims, sizeof(host->reference_dims));
    host->shape_secret = first->shape_secret;
    host->slo_ns = INT64_MAX;
    for (uint32_t i = 0; i < m->group->count; i++)
        if (m->models[i]->slo_ns < host->slo_ns)
            host->slo_ns = m->models[i]->slo_ns;
    host->part = &g->prefix;
    host->suffixes = g->places;
}

/* Profiles the prefix, and takes over what the note says of it. */
static int prefix_fill(const struct shared_making *m, const char *folder, const json_t *note, struct shared_group *g,
                       uint32_t *batch_max, struct profile_record *record, struct sy_error *err) {
    const struct served_model *first = m->models[0];
    char name[MODEL_NAME_MAX];
    snprintf(name, sizeof(name), "%.100s.prefix", first->name);
    int rc = part_file(g->prefix.path, folder, "prefix.onnx", 0, err);
    if (!rc)
        rc = shared_part_profile(first, name, m->how, &g->prefix, batch_max, record, err);
    if (rc)
        return rc;
    uint32_t inputs = g->prefix.signature.input_count, whole_inputs = first->signature.input_count;
    if (part_cut_read(note, &g->cut) ||
        part_numbers_read(json_object_get(note, "takes"), inputs, whole_inputs, false, g->prefix.takes) ||
        part_numbers_read(json_object_get(note, "inputs"), inputs, TENSORS_MAX, false, g->prefix_inputs))
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
            rc ? NULL : shared_member_make(g, m->models[i], path, of, m->how, batch_max, &records[i], &rc, err);
        if (member)
            g->members[g->count++] = member;
    }
    return rc;
}

/* The tables of batches up to what all parts take. */
static int tables_fill(struct shared_group *g, uint32_t batch_max, const struct profile_record *prefix,
                       const struct profile_record *records, struct sy_error *err) {
    bool made = (g->prefix_profile = profile_from_record(prefix, batch_max)) != NULL;
    for (uint32_t i = 0; i < g->count; i++)
        made &= (g->members[i]->profile = profile_from_record(&records[i], batch_max)) != NULL;
    return made ? shared_table_make(g, batch_max, err) : error_set(err, -ENOMEM, "out of memory");
}

/* Reads what the note says, and profiles the parts. */
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
    if (!rc)
        rc = tables_fill(g, batch_max, prefix, records + 1, err);
    if (!rc)
        host_fill(m, g, batch_max, prefix);
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
