/* shared_prefixes.c - finds groups of models, has their parts made and tried once, and profiles them.
 *
 * The parts of a group lie in a folder "STEM-TAG.parts" where the first model's profile lies, with a note `split.json`:
 * whose parts they are (fingerprints), how they fit together, or why no cut will do. So a later start finds them. */
#include "control/shared_prefixes.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child_call.h"
#include "base/folder.h"
#include "base/log.h"
#include "base/time.h"
#include "engine/fingerprint.h"
#include "engine/sidecar.h"
#include "prefix/groups.h"
#include "prefix/split.h"
#include "profile/prepare.h"
#include "profile/warmup.h"
#include "table/shared.h"

#define NOTE_FORMAT  1
#define TRIAL_S      300 /* a child process that tries a cut may take so long */
#define SLOWER_SHARE 1.1 /* a lone request to a group may take so much longer than to the dearest whole model, */
#define SLOWER_NS    (50 * NS_PER_US) /* and this, which is within what two measurements differ by */
#define PATH_ROOM    4096

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

static void served_whole(const struct served_model *model, const char *reason) {
    log_info("model is served whole", "model=%s version=%u reason=\"%s\"", model->name, model->version, reason);
}

/* ---- which models may share at all ---- */

/* -ENOTSUP with a sentence for a model that is served whole whatever its layers are. */
static int model_check(const struct served_model *model, struct sy_error *err) {
    const struct signature *s = &model->signature;
    char warmup[FINGERPRINT_TEXT];

    if (s->variable_shapes)
        return error_set(err, -ENOTSUP, "its inputs are of variable shapes");
    if (s->inputs_optional)
        return error_set(err, -ENOTSUP, "it has optional inputs");
    if (model->prepared)
        return error_set(err, -ENOTSUP, "it prepares its inputs");
    if (*model->profile_path)
        return error_set(err, -ENOTSUP, "its profile is given by a file");
    int rc = warmup_fingerprint(model, warmup, err);
    return rc ? rc : *warmup ? error_set(err, -ENOTSUP, "it has model_warmup") : 0;
}

/* Whether two models may have one queue: what their settings say of it is the same. */
static bool models_alike(const struct served_model *a, const struct served_model *b) {
    return a->signature.batched == b->signature.batched && a->signature.input_count == b->signature.input_count &&
           a->weight == b->weight && a->best_effort == b->best_effort &&
           memcmp(&a->queue, &b->queue, sizeof(a->queue)) == 0;
}

/* ---- the parts: made, tried and noted by a child process ---- */

struct making {
    struct search *search;
    const struct group *group;
    const uint32_t *class; /* candidates that the group's members are numbers of */
    char folder[PATH_ROOM];
    uint32_t cut;
};

static struct served_model *member_model(const struct making *m, uint32_t i) {
    return m->search->models[m->search->candidates[m->class[m->group->members[i]]]];
}

static struct cut_model *member_cut(const struct making *m, uint32_t i) {
    return &m->search->cuts[m->class[m->group->members[i]]];
}

static int path_make(char path[PATH_ROOM], const char *folder, const char *file, uint32_t number) {
    int length = snprintf(path, PATH_ROOM, file, folder, number);
    return length < PATH_ROOM ? 0 : -ENAMETOOLONG;
}

static json_t *numbers_pack(const uint32_t *numbers, uint32_t count) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(numbers[i] == SPLIT_NONE ? -1 : (json_int_t)numbers[i]));
    return list;
}

/* The note of parts; without `split`: of their refusal. */
static int note_write(const struct making *m, const struct split *split, const char *refused, struct sy_error *err) {
    char path[PATH_ROOM];
    json_t *members = json_array();
    for (uint32_t i = 0; i < m->group->count; i++) {
        json_t *member =
            json_pack("{s:s, s:s}", "model", member_model(m, i)->name, "contents", member_model(m, i)->contents);
        if (split) {
            const struct split_member *of = &split->members[i];
            json_object_set_new(member, "takes", numbers_pack(of->suffix_takes, of->suffix.input_count));
            json_object_set_new(member, "own", numbers_pack(of->suffix_own, of->suffix.input_count));
        }
        json_array_append_new(members, member);
    }
    json_t *note = json_pack("{s:i, s:o}", "format", NOTE_FORMAT, "members", members);
    if (refused)
        json_object_set_new(note, "refused", json_string(refused));
    if (split) {
        const struct cut *cut = &m->group->cuts[m->cut];
        json_object_set_new(note, "nodes", json_integer(cut->node_count));
        json_object_set_new(note, "weights_bytes", json_integer((json_int_t)cut->weights_bytes));
        json_object_set_new(note, "takes", numbers_pack(split->members[0].prefix_takes, split->prefix.input_count));
    }
    char *text = json_dumps(note, JSON_INDENT(2));
    json_decref(note);
    int rc = text ? path_make(path, m->folder, "%s/split.json", 0) : -ENOMEM;
    rc = rc ? error_set(err, rc, "%s: no note of the parts can be made", m->folder) : sidecar_write(path, text, err);
    free(text);
    return rc;
}

/* What is asked of parts beside their answers. */
static int parts_check(const struct split *split, struct sy_error *err) {
    for (uint32_t o = 0; o < split->prefix.output_count; o++)
        if (split->prefix.outputs[o].type == DATATYPE_BYTES)
            return error_set(err, -ENOTSUP, "strings cross the cut");
    for (uint32_t m = 0; m < split->count; m++) {
        const struct split_member *member = &split->members[m];
        if (memcmp(member->prefix_takes, split->members[0].prefix_takes,
                   split->prefix.input_count * sizeof(member->prefix_takes[0])) != 0)
            return error_set(err, -ENOTSUP, "their inputs are in another order");
        for (uint32_t i = 0; i < member->suffix.input_count; i++)
            if (member->suffix_takes[i] == SPLIT_NONE && member->suffix.inputs[i].type == DATATYPE_BYTES)
                return error_set(err, -ENOTSUP, "a suffix takes strings of its own");
    }
    return 0;
}

/* In the child. */
static int parts_make(void *context, struct sy_error *err) {
    struct making *m = context;
    char prefix[PATH_ROOM];
    struct split split = {.engine = m->search->how->engine, .prefix_path = prefix, .count = m->group->count};
    char(*paths)[PATH_ROOM] = calloc(m->group->count, sizeof(*paths));
    split.members = calloc(m->group->count, sizeof(*split.members));
    int rc = paths && split.members ? path_make(prefix, m->folder, "%s/prefix.onnx", 0) : -ENOMEM;
    alarm(TRIAL_S);
    for (uint32_t i = 0; i < m->group->count && !rc; i++) {
        rc = path_make(paths[i], m->folder, "%s/suffix-%u.onnx", i);
        split.members[i] = (struct split_member){.model = member_cut(m, i), .suffix_path = paths[i]};
    }
    rc = rc ? error_set(err, rc, "%s: no parts can be made", m->folder)
            : split_make(&split, &m->group->cuts[m->cut], err);
    if (!rc)
        rc = parts_check(&split, err);
    if (!rc)
        rc = note_write(m, &split, NULL, err);
    return rc; /* the process ends, and its memory with it */
}

/* Tries the cuts, the deepest first, in a folder beside the one that the parts are to have, and moves it there. */
static int parts_try(struct making *m, const char *folder, struct sy_error *err) {
    struct sy_error deepest = {""};
    int rc = -EINVAL;
    if (snprintf(m->folder, sizeof(m->folder), "%s.XXXXXX", folder) >= (int)sizeof(m->folder) || !mkdtemp(m->folder))
        return error_set(err, -errno, "%s: %s", m->folder, strerror(errno));
    log_info("trying where models with the same first layers can be cut", "first=%s models=%u cuts=%u",
             member_model(m, 0)->name, m->group->count, m->group->cut_count);
    for (m->cut = 0; rc && m->cut < m->group->cut_count; m->cut++) {
        rc = child_call(parts_make, m, err);
        if (rc && m->cut == 0)
            deepest = *err;
    }
    if (rc)
        rc = note_write(m, NULL, deepest.text, err);
    bool moved = !rc && rename(m->folder, folder) == 0;
    if (!rc && !moved && errno != ENOTEMPTY && errno != EEXIST) /* else another server has just made them */
        rc = error_set(err, -errno, "%s: %s", folder, strerror(errno));
    if (!moved)
        folder_remove(m->folder);
    return rc;
}

/* Where the parts of these models lie: another folder for other files, or another engine. */
static int parts_place(const struct making *m, char folder[SIDECAR_PATH_MAX], struct sy_error *err) {
    char key[256];
    uint64_t all[2 * GROUPS_MODELS_MAX];
    for (uint32_t i = 0; i < m->group->count; i++) {
        struct fingerprint f = fingerprint_bytes(member_model(m, i)->contents, strlen(member_model(m, i)->contents));
        memcpy(&all[2 * i], f.words, sizeof(f.words));
    }
    struct fingerprint f = fingerprint_bytes(all, 2 * m->group->count * sizeof(all[0]));
    char text[FINGERPRINT_TEXT];
    fingerprint_format(&f, text);
    snprintf(key, sizeof(key), "parts %d %s %s %s", NOTE_FORMAT, m->search->how->engine->name,
             m->search->how->engine->version(), text);
    return sidecar_path(member_model(m, 0)->path, m->search->how->cache_dir, key, ".parts", folder, err);
}

/* ---- the note, read ---- */

/* Numbers below `end`, or where `none` allows it -1. */
static int numbers_read(const json_t *list, uint32_t count, uint32_t end, bool none, uint32_t *numbers) {
    if (!json_is_array(list) || json_array_size(list) != count)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        json_int_t n = json_integer_value(json_array_get(list, i));
        if (!json_is_integer(json_array_get(list, i)) || n >= (json_int_t)end || n < (none ? -1 : 0))
            return -EINVAL;
        numbers[i] = n < 0 ? PART_OWN : (uint32_t)n;
    }
    return 0;
}

static json_t *note_read(const struct making *m, const char *folder) {
    char path[PATH_ROOM];
    if (path_make(path, folder, "%s/split.json", 0))
        return NULL;
    json_t *note = json_load_file(path, 0, NULL), *members = json_object_get(note, "members");
    bool good = json_integer_value(json_object_get(note, "format")) == NOTE_FORMAT &&
                json_array_size(members) == m->group->count;
    for (uint32_t i = 0; good && i < m->group->count; i++) {
        const char *contents = json_string_value(json_object_get(json_array_get(members, i), "contents"));
        good = contents && strcmp(contents, member_model(m, i)->contents) == 0;
    }
    if (!good)
        json_decref(note);
    return good ? note : NULL;
}

/* ---- profiles ---- */

/* Profiles a part by itself, up to the group's greatest batch, and learns what it takes and gives. */
static int part_profile(const struct search *search, const struct served_model *first, const char *name,
                        struct served_part *part, uint32_t *batch_max, struct profile_record *record,
                        struct sy_error *err) {
    struct served_model *model = calloc(1, sizeof(*model));
    struct profile_options how = *search->how;
    struct profile_progress progress = {.model = name, .count = 1};
    struct profile *profile = NULL;
    bool measured;
    if (!model)
        return error_set(err, -ENOMEM, "out of memory");
    snprintf(model->name, sizeof(model->name), "%s", name);
    snprintf(model->path, sizeof(model->path), "%s", part->path);
    memcpy(model->on, first->on, sizeof(model->on));
    model->version = 1;
    how.batch_max = *batch_max;
    int rc = profile_prepare(model, &how, &progress, record, &profile, &measured);
    if (rc)
        error_set(err, rc, "%.400s", rc == -EINTR ? "stopped" : model->reason);
    else if (first->signature.batched && !record->batched)
        rc = error_set(err, -EINVAL, "%s: its items cannot be run together: %s", name, record->note);
    if (!rc) {
        part->signature = model->signature;
        part->signature.batched = first->signature.batched;
        memcpy(part->dims, model->reference_dims, sizeof(part->dims));
        if (first->signature.batched && record->batch_max < *batch_max)
            *batch_max = record->batch_max;
    }
    free(profile);
    free(model);
    return rc;
}

/* The table of batches to all, and whether it is worth having. */
static int table_make(const struct making *m, struct shared_group *g, uint32_t batch_max,
                      const struct profile_record *records, struct sy_error *err) {
    struct shared_suffixes suffixes[GROUPS_MODELS_MAX];
    struct profile *tables[GROUPS_MODELS_MAX + 1] = {NULL};
    int64_t whole_ns = 0;
    int rc = 0;
    g->profile = malloc(profile_bytes(batch_max));
    for (uint32_t i = 0; i <= g->count && !rc; i++)
        rc = (tables[i] = profile_from_record(&records[i], batch_max)) ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < g->count && !rc; i++) {
        int64_t lone_ns = m->search->profiles[m->search->candidates[m->class[m->group->members[i]]]]->latency_ns[1];
        whole_ns = lone_ns > whole_ns ? lone_ns : whole_ns;
        suffixes[i] = (struct shared_suffixes){.profile = tables[i + 1], .models = 1};
    }
    if (!rc && g->profile)
        shared_profile_set(g->profile, batch_max, tables[0], suffixes, g->count);
    for (uint32_t i = 0; i <= g->count; i++)
        free(tables[i]);
    if (rc || !g->profile)
        return error_set(err, -ENOMEM, "out of memory");
    if ((double)g->profile->latency_ns[1] > SLOWER_SHARE * (double)whole_ns + SLOWER_NS)
        return error_set(err, -EINVAL, "a lone request would take %.3f ms in parts, and takes %.3f ms whole",
                         (double)g->profile->latency_ns[1] / 1e6, (double)whole_ns / 1e6);
    return 0;
}

/* ---- a group ---- */

/* What the prefix's place becomes. */
static void host_fill(const struct making *m, struct shared_group *g, uint32_t batch_max,
                      const struct profile_record *record) {
    struct served_model *host = g->host;
    const struct served_model *first = member_model(m, 0);
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
    for (uint32_t i = 0; i < g->count; i++)
        if (member_model(m, i)->slo_ns < host->slo_ns)
            host->slo_ns = member_model(m, i)->slo_ns;
    host->part = &g->prefix;
    host->suffixes = g->places;
}

/* Reads what the note says, and profiles the parts. */
static int group_fill(const struct making *m, const char *folder, const json_t *note, struct shared_group *g,
                      struct sy_error *err) {
    const struct served_model *first = member_model(m, 0);
    uint32_t batch_max = UINT32_MAX, whole_inputs = first->signature.input_count;
    struct profile_record *records = calloc(m->group->count + 1, sizeof(*records));
    char name[MODEL_NAME_MAX];
    g->host = calloc(1, sizeof(*g->host));
    g->members = calloc(m->group->count, sizeof(*g->members));
    int rc = records && g->host && g->members ? 0 : error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < m->group->count; i++)
        batch_max = member_model(m, i)->batch_max < batch_max ? member_model(m, i)->batch_max : batch_max;
    if (!rc) {
        snprintf(name, sizeof(name), "%.100s.prefix", first->name);
        rc = path_make(g->prefix.path, folder, "%s/prefix.onnx", 0)
                 ? error_set(err, -ENAMETOOLONG, "%s: the path is too long", folder)
                 : part_profile(m->search, first, name, &g->prefix, &batch_max, &records[0], err);
    }
    if (!rc && numbers_read(json_object_get(note, "takes"), g->prefix.signature.input_count, whole_inputs, false,
                            g->prefix.takes))
        rc = error_set(err, -EINVAL, "%s/split.json does not fit the prefix", folder);
    for (uint32_t i = 0; i < m->group->count && !rc; i++) {
        const struct served_model *model = member_model(m, i);
        const json_t *of = json_array_get(json_object_get(note, "members"), i);
        struct shared_member *member = &g->members[g->count++];
        struct served_part *part = &member->part;
        snprintf(member->path, sizeof(member->path), "%s", model->path);
        snprintf(member->contents, sizeof(member->contents), "%s", model->contents);
        snprintf(name, sizeof(name), "%.100s.suffix", model->name);
        if (path_make(part->path, folder, "%s/suffix-%u.onnx", i))
            rc = error_set(err, -ENAMETOOLONG, "%s: the path is too long", folder);
        if (!rc)
            rc = part_profile(m->search, first, name, part, &batch_max, &records[i + 1], err);
        uint32_t inputs = part->signature.input_count;
        if (!rc &&
            numbers_read(json_object_get(of, "takes"), inputs, g->prefix.signature.output_count, true, part->takes))
            rc = error_set(err, -EINVAL, "%s/split.json does not fit suffix %u", folder, i);
        if (!rc && numbers_read(json_object_get(of, "own"), inputs, whole_inputs, true, part->own))
            rc = error_set(err, -EINVAL, "%s/split.json does not fit suffix %u", folder, i);
        for (uint32_t k = 0; k < inputs && !rc; k++)
            if (part->takes[k] == PART_OWN && part->own[k] == PART_OWN)
                rc = error_set(err, -EINVAL, "%s/split.json does not fit suffix %u", folder, i);
        member->weights_bytes = records[i + 1].weights_bytes;
        member->batch_bytes = records[i + 1].batch_bytes;
    }
    if (!rc)
        rc = table_make(m, g, batch_max, records, err);
    if (!rc)
        host_fill(m, g, batch_max, &records[0]);
    free(records);
    return rc;
}

static void group_free(struct shared_group *g) {
    free(g->host);
    free(g->profile);
    free(g->members);
    *g = (struct shared_group){.host = NULL};
}

static void group_log(const struct making *m, const struct shared_group *g, const json_t *note) {
    for (uint32_t i = 0; i < g->count; i++)
        log_info("model shares its first layers", "model=%s prefix=%s models=%u nodes=%lld prefix_mb=%.3f max_batch=%u",
                 member_model(m, i)->name, g->host->name, g->count,
                 (long long)json_integer_value(json_object_get(note, "nodes")),
                 json_number_value(json_object_get(note, "weights_bytes")) / 1e6, g->host->batch_max);
}

/* Makes a group that the graphs allow, or says why its models are served whole. */
static int group_make(struct search *s, const struct group *group, const uint32_t *class, struct sy_error *err) {
    struct making m = {.search = s, .group = group, .class = class};
    struct shared_group *g = &s->shared->groups[s->shared->count];
    char folder[SIDECAR_PATH_MAX];
    struct sy_error why = {""};
    int rc = parts_place(&m, folder, &why);
    json_t *note = rc ? NULL : note_read(&m, folder);
    if (!rc && !note) {
        folder_remove(folder); /* it is of other models, or broken */
        rc = parts_try(&m, folder, &why);
        note = rc ? NULL : note_read(&m, folder);
    }
    const char *refused = json_string_value(json_object_get(note, "refused"));
    if (!rc && !note)
        rc = error_set(&why, -EIO, "%s: the note of the parts cannot be read", folder);
    if (!rc && refused)
        rc = error_set(&why, -EINVAL, "%.400s", refused);
    if (!rc)
        rc = group_fill(&m, folder, note, g, &why);
    for (uint32_t i = 0; i < group->count && rc && rc != -EINTR; i++)
        served_whole(member_model(&m, i), why.text);
    if (rc) {
        group_free(g);
    } else {
        group_log(&m, g, note);
        s->shared->count++;
    }
    json_decref(note);
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
        if (had[i] || !models_alike(s->models[s->candidates[first]], s->models[s->candidates[i]]))
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
            served_whole(s->models[s->candidates[class[i]]], reason);
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
            served_whole(model, "only 256 models are compared");
            continue;
        }
        if (model_check(model, &why) || cut_model_read(model->path, &s->cuts[s->candidate_count], &why))
            served_whole(model, why.text);
        else
            s->candidates[s->candidate_count++] = i;
    }
}

int shared_prefixes_find(struct shared_prefixes *shared, struct served_model *const *models,
                         const struct profile *const *profiles, uint32_t count, const struct profile_options *how,
                         struct sy_error *err) {
    struct search s = {.shared = shared, .models = models, .profiles = profiles, .how = how};
    bool *had = calloc(GROUPS_MODELS_MAX, sizeof(*had));
    *shared = (struct shared_prefixes){.groups = calloc(count + 1, sizeof(*shared->groups)), .searched = true};
    s.cuts = calloc(GROUPS_MODELS_MAX, sizeof(*s.cuts));
    s.candidates = calloc(GROUPS_MODELS_MAX, sizeof(*s.candidates));
    int rc = had && shared->groups && s.cuts && s.candidates ? 0 : error_set(err, -ENOMEM, "out of memory");
    if (!rc)
        candidates_read(&s, count);
    for (uint32_t i = 0; i < s.candidate_count && !rc; i++)
        if (!had[i])
            rc = class_search(&s, i, had, err);
    for (uint32_t i = 0; i < s.candidate_count; i++)
        cut_model_free(&s.cuts[i]);
    free(s.cuts);
    free(s.candidates);
    free(had);
    return rc;
}

void shared_prefixes_free(struct shared_prefixes *shared) {
    for (uint32_t i = 0; i < shared->count; i++)
        group_free(&shared->groups[i]);
    free(shared->groups);
    *shared = (struct shared_prefixes){.groups = NULL};
}

/* ---- members ---- */

struct shared_group *shared_prefixes_group(struct shared_prefixes *shared, const struct served_model *model,
                                           struct shared_member **member) {
    for (uint32_t g = 0; g < shared->count; g++)
        for (uint32_t i = 0; i < shared->groups[g].count; i++) {
            struct shared_group *group = &shared->groups[g];
            struct sy_error why = {""};
            *member = &group->members[i];
            if (strcmp((*member)->path, model->path) != 0)
                continue;
            if (strcmp((*member)->contents, model->contents) != 0)
                error_set(&why, -ESTALE, "its file is not the one that was cut when the server started");
            else if (!model_check(model, &why) &&
                     (!models_alike(group->host, model) || model->batch_max < group->host->batch_max))
                error_set(&why, -ESTALE, "its settings are not what they were when the server started");
            if (!*why.text)
                return group;
            served_whole(model, why.text);
            return NULL;
        }
    return NULL;
}

void shared_member_apply(struct served_model *model, const struct shared_group *group, struct shared_member *member,
                         uint32_t host_place, uint8_t number) {
    model->part = &member->part;
    model->host = host_place;
    model->suffix = number;
    model->batch_max = group->host->batch_max;
    model->weights_bytes = member->weights_bytes;
    model->batch_bytes = member->batch_bytes;
}

struct profile *shared_profile_copy(const struct shared_group *group) {
    size_t bytes = profile_bytes(group->profile->batch_max);
    struct profile *copy = malloc(bytes);
    if (copy)
        memcpy(copy, group->profile, bytes);
    return copy;
}
