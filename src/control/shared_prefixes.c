/* shared_prefixes.c - finds groups of models, has their parts made and tried once, and profiles them.
 *
 * What a trial gave is kept with the parts (part_folders.h), so a later start finds it. */
#include "control/shared_prefixes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "prefix/groups.h"
#include "prefix/parts.h"

#define TRIAL_S 300 /* a child process that tries a cut may take so long */

/* What a search works with. */
struct search {
    struct shared_prefixes *shared;
    struct served_model *const *models;
    const struct profile *const *profiles;
    const struct profile_options *how;
    struct cut_model *cuts; /* [count] by candidate */
    uint32_t *candidates;   /* [candidate_count] numbers of models */
    uint32_t candidate_count;
};

/* There is room for every model. */
static void refuse(struct search *s, const struct served_model *model, const char *reason) {
    struct shared_refusal *refusal = &s->shared->refusals[s->shared->refusal_count++];
    snprintf(refusal->name, sizeof(refusal->name), "%s", model->name);
    snprintf(refusal->path, sizeof(refusal->path), "%s", model->path);
    snprintf(refusal->contents, sizeof(refusal->contents), "%s", model->contents);
    snprintf(refusal->reason, sizeof(refusal->reason), "%s", reason);
    refusal->version = model->version;
}

const char *shared_refusal_take(struct shared_prefixes *shared, const struct served_model *model, char reason[512]) {
    for (uint32_t i = 0; i < shared->refusal_count; i++) {
        struct shared_refusal *refusal = &shared->refusals[i];
        if (strcmp(refusal->path, model->path) != 0 || strcmp(refusal->contents, model->contents) != 0)
            continue;
        memcpy(reason, refusal->reason, sizeof(refusal->reason));
        memmove(refusal, &shared->refusals[--shared->refusal_count], sizeof(*refusal));
        return reason;
    }
    return NULL;
}

/* ---- the parts ---- */

struct making {
    struct search *search;
    const struct group *group;
    const struct served_model *models[GROUPS_MODELS_MAX]; /* of its members, */
    struct cut_model *cuts[GROUPS_MODELS_MAX];
    struct part_owner owners[GROUPS_MODELS_MAX];
    int64_t whole_ns;            /* the most that one of them takes for a lone request */
    char made[SIDECAR_PATH_MAX]; /* the folder that parts are made in */
};

/* `class` has the candidates that the group's members are numbers of. */
static void making_begin(struct making *m, struct search *s, const struct group *group, const uint32_t *class) {
    m->search = s;
    m->group = group;
    m->whole_ns = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t candidate = class[group->members[i]], model = s->candidates[candidate];
        const struct served_model *served = s->models[model];
        m->models[i] = served;
        m->cuts[i] = &s->cuts[candidate];
        m->owners[i] = (struct part_owner){served->name, served->path, served->contents};
        if (s->profiles[model]->latency_ns[1] > m->whole_ns)
            m->whole_ns = s->profiles[model]->latency_ns[1];
    }
}

/* In the child process that has made the parts: their note. */
static int note_write(void *context, const struct split *split, uint32_t cut, struct sy_error *err) {
    const struct making *m = context;
    int rc = shared_parts_check(split, err);
    if (rc)
        return rc;
    json_t *note = part_note_new(m->made, m->owners, m->group->count), *members = json_object_get(note, "members");
    for (uint32_t i = 0; i < split->count; i++) {
        const struct split_member *of = &split->members[i];
        json_t *member = json_array_get(members, i);
        json_object_set_new(member, "takes", part_numbers_pack(of->suffix_takes, of->suffix.input_count));
        json_object_set_new(member, "own", part_numbers_pack(of->suffix_own, of->suffix.input_count));
    }
    part_cut_pack(note, &m->group->cuts[cut]);
    json_object_set_new(note, "takes", part_numbers_pack(split->members[0].prefix_takes, split->prefix.input_count));
    json_object_set_new(note, "inputs", part_numbers_pack(split->prefix_inputs, split->prefix.input_count));
    return part_note_write(m->made, note, err);
}

static int refusal_write(const struct making *m, const char *reason, struct sy_error *err) {
    json_t *note = part_note_new(m->made, m->owners, m->group->count);
    json_object_set_new(note, "refused", json_string(reason));
    return part_note_write(m->made, note, err);
}

/* Tries the cuts, the deepest first, and keeps the parts, or why there are none. */
static int parts_try(struct making *m, const char *folder, struct sy_error *err) {
    char prefix[SIDECAR_PATH_MAX], (*paths)[SIDECAR_PATH_MAX] = calloc(m->group->count, sizeof(*paths));
    const char *suffixes[GROUPS_MODELS_MAX];
    struct sy_error deepest;
    uint32_t cut;
    int rc = paths ? part_folder_begin(folder, m->made, err) : error_set(err, -ENOMEM, "out of memory");
    if (rc)
        goto out;
    log_info("trying where models with the same first layers can be cut", "first=%s models=%u cuts=%u",
             m->models[0]->name, m->group->count, m->group->cut_count);
    rc = part_file(prefix, m->made, "prefix.onnx", 0, err);
    for (uint32_t i = 0; i < m->group->count && !rc; i++) {
        rc = part_file(paths[i], m->made, "suffix-%u.onnx", i, err);
        suffixes[i] = paths[i];
    }
    if (!rc) {
        const struct parts_maker maker = {.engine = m->search->how->engine,
                                          .members = m->cuts,
                                          .group = m->group,
                                          .prefix_path = prefix,
                                          .suffix_paths = suffixes,
                                          .trial_s = TRIAL_S,
                                          .finish = note_write,
                                          .context = m};
        rc = parts_make(&maker, &cut, &deepest, err);
        if (rc)
            rc = refusal_write(m, deepest.text, err);
    }
    rc = part_folder_end(m->made, folder, rc, err);
out:
    free(paths);
    return rc;
}

/* ---- a group ---- */

/* What the prefix's place becomes. */
static void host_fill(const struct making *m, struct shared_group *g, uint32_t batch_max,
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
static int prefix_fill(const struct making *m, const char *folder, const json_t *note, struct shared_group *g,
                       uint32_t *batch_max, struct profile_record *record, struct sy_error *err) {
    const struct served_model *first = m->models[0];
    char name[MODEL_NAME_MAX];
    snprintf(name, sizeof(name), "%.100s.prefix", first->name);
    int rc = part_file(g->prefix.path, folder, "prefix.onnx", 0, err);
    if (!rc)
        rc = shared_part_profile(first, name, m->search->how, &g->prefix, batch_max, record, err);
    if (rc)
        return rc;
    uint32_t inputs = g->prefix.signature.input_count, whole_inputs = first->signature.input_count;
    if (part_cut_read(note, &g->cut) ||
        part_numbers_read(json_object_get(note, "takes"), inputs, whole_inputs, false, g->prefix.takes) ||
        part_numbers_read(json_object_get(note, "inputs"), inputs, TENSORS_MAX, false, g->prefix_inputs))
        return error_set(err, -EINVAL, "%.400s: the note beside it does not fit it", g->prefix.path);
    return 0;
}

static int members_fill(const struct making *m, const char *folder, const json_t *note, struct shared_group *g,
                        uint32_t *batch_max, struct profile_record *records, struct sy_error *err) {
    char path[SIDECAR_PATH_MAX];
    int rc = 0;
    for (uint32_t i = 0; i < m->group->count && !rc; i++) {
        const json_t *of = json_array_get(json_object_get(note, "members"), i);
        rc = part_file(path, folder, "suffix-%u.onnx", i, err);
        struct shared_member *member =
            rc ? NULL : shared_member_make(g, m->models[i], path, of, m->search->how, batch_max, &records[i], &rc, err);
        if (member)
            g->members[g->count++] = member;
    }
    return rc;
}

/* The tables of batches up to what all parts take, and whether they are worth having. */
static int tables_fill(const struct making *m, struct shared_group *g, uint32_t batch_max,
                       const struct profile_record *prefix, const struct profile_record *records,
                       struct sy_error *err) {
    bool made = (g->prefix_profile = profile_from_record(prefix, batch_max)) != NULL;
    for (uint32_t i = 0; i < g->count; i++)
        made &= (g->members[i]->profile = profile_from_record(&records[i], batch_max)) != NULL;
    int rc = made ? shared_table_make(g, batch_max, err) : error_set(err, -ENOMEM, "out of memory");
    return rc ? rc : shared_lone_check(g->profile->latency_ns[1], m->whole_ns, err);
}

/* Reads what the note says, and profiles the parts. */
static int group_fill(const struct making *m, const char *folder, const json_t *note, struct shared_group *g,
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
        rc = tables_fill(m, g, batch_max, prefix, records + 1, err);
    if (!rc)
        host_fill(m, g, batch_max, prefix);
    free(records);
    return rc;
}

/* The note of the parts in the folder, which this process holds then; they are made if there are none. */
static json_t *parts_get(struct making *m, const char *folder, int *held, int *rc, struct sy_error *err) {
    *held = part_folder_hold(folder);
    json_t *note = part_note_read(folder, m->owners, m->group->count);
    if (note)
        return note;
    part_folder_release(*held);
    *held = -1;
    part_folder_remove(folder); /* it is of other models, or broken */
    if ((*rc = parts_try(m, folder, err)) < 0)
        return NULL;
    *held = part_folder_hold(folder);
    note = part_note_read(folder, m->owners, m->group->count);
    if (!note)
        *rc = error_set(err, -EIO, "%.400s: the note of the parts cannot be read", folder);
    return note;
}

/* Makes a group that the graphs allow, or says why its models are served whole. */
static int group_make(struct search *s, const struct group *group, const uint32_t *class, struct sy_error *err) {
    struct making m;
    struct shared_prefixes *shared = s->shared;
    struct shared_group *g = &shared->groups[shared->count];
    char folder[SIDECAR_PATH_MAX];
    struct sy_error why = {""};
    making_begin(&m, s, group, class);
    *g = (struct shared_group){.held = -1};
    part_owners_tag(m.owners, group->count, g->tag);
    int rc = part_folder_place(SHARED_KIND, m.owners, group->count, s->how, folder, &why);
    json_t *note = rc ? NULL : parts_get(&m, folder, &g->held, &rc, &why);
    const char *refused = json_string_value(json_object_get(note, "refused"));
    if (!rc && refused)
        rc = error_set(&why, -EINVAL, "%.400s", refused);
    if (!rc)
        rc = group_fill(&m, folder, note, g, &why);
    json_decref(note);
    if (!rc) {
        shared->count++;
        for (uint32_t i = 0; i < g->count; i++)
            shared_member_log(g, g->members[i]);
        return 0;
    }
    shared_group_clear(g);
    for (uint32_t i = 0; i < group->count && rc != -EINTR; i++)
        refuse(s, m.models[i], why.text);
    return rc == -EINTR || rc == -ENOMEM ? error_set(err, rc, "%s", why.text) : 0;
}

/* ---- all groups ---- */

/* Groups among candidates of one kind: those that are alike with candidate `first`, which no class had before. */
static int class_search(struct search *s, uint32_t first, bool *had, struct sy_error *err) {
    static const struct group_rules rules = {.tensors_max = GROUP_TENSORS, .share = GROUP_SHARE};
    const struct cut_model *cuts[GROUPS_MODELS_MAX];
    const char *names[GROUPS_MODELS_MAX];
    uint32_t class[GROUPS_MODELS_MAX], count = 0, group_count = 0;
    for (uint32_t i = first; i < s->candidate_count && count < GROUPS_MODELS_MAX; i++) {
        if (had[i] || !shared_models_alike(s->models[s->candidates[first]], s->models[s->candidates[i]]))
            continue;
        had[i] = true;
        names[count] = s->models[s->candidates[i]]->name;
        cuts[count] = &s->cuts[i];
        class[count++] = i;
    }
    struct group *groups = calloc(count + 1, sizeof(*groups));
    bool *grouped = calloc(count + 1, sizeof(*grouped));
    int rc = groups && grouped ? groups_find(cuts, count, &rules, groups, &group_count, err)
                               : error_set(err, -ENOMEM, "out of memory");
    for (uint32_t g = 0; g < group_count && !rc; g++) {
        for (uint32_t i = 0; i < groups[g].count; i++)
            grouped[groups[g].members[i]] = true;
        rc = group_make(s, &groups[g], class, err);
    }
    for (uint32_t i = 0; i < count && !rc; i++) {
        char reason[512] = "no other model may share a queue with it";
        if (count > 1)
            group_reason(cuts, names, count, &rules, i, reason, sizeof(reason));
        if (!grouped[i])
            refuse(s, s->models[s->candidates[class[i]]], reason);
    }
    free(groups);
    free(grouped);
    return rc;
}

/* Reads the graphs of the models that may share. */
static void candidates_read(struct search *s, uint32_t count) {
    struct sy_error why;
    for (uint32_t i = 0; i < count; i++) {
        const struct served_model *model = s->models[i];
        if (!s->profiles[i] || model->ensemble || !*model->path)
            continue;
        if (s->candidate_count == GROUPS_MODELS_MAX) {
            refuse(s, model, "only 256 models are compared");
            continue;
        }
        if (shared_model_check(model, &why) || cut_model_read(model->path, &s->cuts[s->candidate_count], &why))
            refuse(s, model, why.text);
        else
            s->candidates[s->candidate_count++] = i;
    }
}

int shared_prefixes_find(struct shared_prefixes *shared, struct served_model *const *models,
                         const struct profile *const *profiles, uint32_t count, const struct profile_options *how,
                         struct sy_error *err) {
    struct search s = {.shared = shared, .models = models, .profiles = profiles, .how = how};
    bool *had = calloc(GROUPS_MODELS_MAX, sizeof(*had));
    *shared = (struct shared_prefixes){.groups = calloc(count + 1, sizeof(*shared->groups)),
                                       .refusals = calloc(count + 1, sizeof(*shared->refusals)),
                                       .searched = true};
    s.cuts = calloc(GROUPS_MODELS_MAX, sizeof(*s.cuts));
    s.candidates = calloc(GROUPS_MODELS_MAX, sizeof(*s.candidates));
    bool memory = had && shared->groups && shared->refusals && s.cuts && s.candidates;
    int rc = memory ? 0 : error_set(err, -ENOMEM, "out of memory");
    if (!rc)
        candidates_read(&s, count);
    for (uint32_t i = 0; i < s.candidate_count && !rc; i++)
        if (!had[i])
            rc = class_search(&s, i, had, err);
    for (uint32_t i = 0; i < count && !rc; i++)
        if (!models[i]->ensemble && *models[i]->path)
            part_folders_tidy(models[i]->path, how->cache_dir);
    for (uint32_t i = 0; i < s.candidate_count; i++)
        cut_model_free(&s.cuts[i]);
    free(s.cuts);
    free(s.candidates);
    free(had);
    return rc;
}
