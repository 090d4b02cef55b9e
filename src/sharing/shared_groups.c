/* shared_groups.c - what a group and its members are made of, and which model is a member. */
#include "sharing/shared_groups.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/time.h"
#include "engine/fingerprint.h"
#include "prefix/split.h"
#include "profile/prepare.h"
#include "profile/warmup.h"
#include "table/shared.h"

#define SLOWER_SHARE 1.1              /* in parts something may take so many times as long, */
#define SLOWER_NS    (50 * NS_PER_US) /* and this longer, by which two measurements may differ, */
#define SLOWER_SLO   0.01             /* or this share of the SLO, if that is more: clients hardly notice it */

_Static_assert(PART_OWN == SPLIT_NONE, "notes have what a split says");

/* ---- which models may share ---- */

int shared_model_check(const struct served_model *model, struct sy_error *err) {
    const struct signature *s = &model->signature;
    char warmup[FINGERPRINT_TEXT];

    if (s->variable_shapes)
        return error_set(err, -ENOTSUP, "its inputs are of variable shapes");
    if (s->inputs_optional)
        return error_set(err, -ENOTSUP, "it has optional inputs");
    if (s->outputs_chosen)
        return error_set(err, -ENOTSUP, "its configuration leaves outputs out, or has them in another order");
    for (uint32_t i = 0; i < TENSORS_MAX; i++)
        if ((i < s->input_count && s->inputs[i].reshaped) || (i < s->output_count && s->outputs[i].reshaped))
            return error_set(err, -ENOTSUP, "it has tensors that are reshaped");
    if (model->prepared)
        return error_set(err, -ENOTSUP, "it prepares its inputs");
    if (op_libraries_any(&model->op_libraries))
        return error_set(err, -ENOTSUP, "it has operators of its own (model_operations)");
    if (*model->profile_path)
        return error_set(err, -ENOTSUP, "its profile is given by a file");
    int rc = warmup_fingerprint(model, warmup, err);
    return rc ? rc : *warmup ? error_set(err, -ENOTSUP, "it has model_warmup") : 0;
}

bool shared_models_alike(const struct served_model *a, const struct served_model *b) {
    return a->signature.batched == b->signature.batched && a->signature.input_count == b->signature.input_count &&
           a->weight == b->weight && a->best_effort == b->best_effort &&
           memcmp(&a->queue, &b->queue, sizeof(a->queue)) == 0;
}

int shared_parts_check(const struct split *split, struct sy_error *err) {
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

/* ---- what is logged ---- */

void shared_whole_log(const char *name, uint32_t version, const char *reason) {
    log_info("model is served whole", "model=%s version=%u reason=\"%s\"", name, version, reason);
}

void shared_member_log(const struct shared_group *group, const struct shared_member *member) {
    log_info("model shares its first layers", "model=%s prefix=%s models=%u nodes=%u prefix_mb=%.3f max_batch=%u",
             member->name, group->host->name, group->count, group->cut.node_count,
             (double)group->cut.weights_bytes / 1e6, group->host->batch_max);
}

/* ---- profiles ---- */

int shared_part_profile(const struct served_model *like, const char *name, const struct profile_options *how,
                        struct served_part *part, uint32_t *batch_max, struct profile_record *record,
                        struct sy_error *err) {
    struct served_model *model = calloc(1, sizeof(*model));
    struct profile_options options = *how;
    struct profile_progress progress = {.model = name, .count = 1};
    struct profile *profile = NULL;
    bool measured;
    if (!model)
        return error_set(err, -ENOMEM, "out of memory");
    snprintf(model->name, sizeof(model->name), "%s", name);
    snprintf(model->path, sizeof(model->path), "%s", part->path);
    memcpy(model->on, like->on, sizeof(model->on));
    model->version = 1;
    options.batch_max = *batch_max;
    int rc = profile_prepare(model, &options, &progress, record, &profile, &measured);
    if (rc)
        error_set(err, rc, "%.400s", rc == -EINTR ? "stopped" : model->reason);
    else if (like->signature.batched && !record->batched)
        rc = error_set(err, -EINVAL, "%s: its items cannot be run together: %s", name, record->note);
    if (!rc) {
        part->signature = model->signature;
        part->signature.batched = like->signature.batched;
        memcpy(part->dims, model->reference_dims, sizeof(part->dims));
        if (like->signature.batched && record->batch_max < *batch_max)
            *batch_max = record->batch_max;
    }
    free(profile);
    free(model);
    return rc;
}

int shared_table_make(struct shared_group *g, uint32_t batch_max, struct sy_error *err) {
    struct shared_suffixes suffixes[PART_SUFFIXES_MAX];
    struct profile *profile = malloc(profile_bytes(batch_max));
    if (!profile)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < g->count; i++)
        suffixes[i] = (struct shared_suffixes){.profile = g->members[i]->profile, .models = 1};
    shared_profile_set(profile, batch_max, g->prefix_profile, suffixes, g->count);
    free(g->profile);
    g->profile = profile;
    return 0;
}

static bool slower(int64_t parts_ns, int64_t ns, int64_t slo_ns) {
    return (double)parts_ns > SLOWER_SHARE * (double)ns + fmax(SLOWER_SLO * (double)slo_ns, SLOWER_NS);
}

int shared_lone_check(int64_t parts_ns, int64_t whole_ns, int64_t slo_ns, struct sy_error *err) {
    if (!slower(parts_ns, whole_ns, slo_ns))
        return 0;
    return error_set(err, -EINVAL, "a lone request would take %.3f ms in parts, and takes %.3f ms whole",
                     (double)parts_ns / 1e6, (double)whole_ns / 1e6);
}

int shared_times_check(const struct shared_group *g, const struct profile *suffix, int64_t slo_ns,
                       struct sy_error *err) {
    const struct profile *planned = g->planned ? g->planned : g->profile, *prefix = g->prefix_profile;
    if (g->host->slo_ns < slo_ns)
        slo_ns = g->host->slo_ns;
    for (uint32_t b = 1; b <= g->host->batch_max; b++) {
        int64_t ns = prefix->latency_ns[b] + suffix->latency_ns[b];
        if (slower(ns, planned->latency_ns[b], slo_ns))
            return error_set(err, -ETIME, "a batch of %u would take %.3f ms in parts, and those of '%s' take %.3f ms",
                             b, (double)ns / 1e6, g->host->name, (double)planned->latency_ns[b] / 1e6);
    }
    return 0;
}

struct profile *shared_profile_copy(const struct shared_group *group) {
    size_t bytes = profile_bytes(group->profile->batch_max);
    struct profile *copy = malloc(bytes);
    if (copy)
        memcpy(copy, group->profile, bytes);
    return copy;
}

/* ---- members ---- */

void shared_suffix_note(json_t *of, const struct split_member *member) {
    json_object_set_new(of, "takes", part_numbers_pack(member->suffix_takes, member->suffix.input_count));
    json_object_set_new(of, "own", part_numbers_pack(member->suffix_own, member->suffix.input_count));
    json_object_set_new(of, "lone_whole_ns", json_integer(member->whole_ns));
    json_object_set_new(of, "lone_parts_ns", json_integer(member->parts_ns));
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

struct shared_member *shared_member_make(const struct shared_group *g, const struct served_model *model,
                                         const char *path, const json_t *of, const struct profile_options *how,
                                         uint32_t *batch_max, struct profile_record *record, int *rc,
                                         struct sy_error *err) {
    struct shared_member *member = calloc(1, sizeof(*member));
    char name[MODEL_NAME_MAX];
    if (!member) {
        *rc = error_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    member->held = -1;
    snprintf(member->name, sizeof(member->name), "%s", model->name);
    snprintf(member->path, sizeof(member->path), "%s", model->path);
    snprintf(member->contents, sizeof(member->contents), "%s", model->contents);
    snprintf(member->part.path, sizeof(member->part.path), "%s", path);
    snprintf(name, sizeof(name), "%.100s.suffix", model->name);
    *rc = shared_lone_check(json_integer_value(json_object_get(of, "lone_parts_ns")),
                            json_integer_value(json_object_get(of, "lone_whole_ns")), model->slo_ns, err);
    if (!*rc)
        *rc = shared_part_profile(model, name, how, &member->part, batch_max, record, err);
    if (!*rc)
        *rc = member_read(g, member, of, model->signature.input_count, err);
    if (!*rc) {
        member->weights_bytes = record->weights_bytes;
        member->batch_bytes = record->batch_bytes;
        return member;
    }
    free(member);
    return NULL;
}

void shared_member_free(struct shared_member *member) {
    if (!member)
        return;
    part_folder_release(member->held);
    free(member->profile);
    free(member);
}

static void members_drop(struct shared_group *group, const struct shared_member *gone) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        struct shared_member *member = group->members[i];
        bool replaced = member == gone;
        for (uint32_t later = i + 1; later < group->count; later++)
            replaced |= strcmp(group->members[later]->path, member->path) == 0;
        if (replaced && !member->users)
            shared_member_free(member);
        else
            group->members[kept++] = member;
    }
    group->count = kept;
}

void shared_members_drop(struct shared_group *group) {
    members_drop(group, NULL);
}

/* Whether its file is another one now, or gone. */
static bool member_changed(const struct shared_member *member) {
    return fingerprint_model_holds(member->path, member->contents) != 1;
}

void shared_member_leave(struct shared_group *group, struct shared_member *member) {
    if (--member->users > 0)
        return;
    members_drop(group, member_changed(member) ? member : NULL);
}

struct shared_member *shared_member_find(struct shared_prefixes *shared, const struct served_model *model,
                                         struct shared_group **group, struct sy_error *why) {
    why->text[0] = '\0';
    for (uint32_t g = 0; g < shared->count; g++)
        for (uint32_t i = 0; i < shared->groups[g]->count; i++) {
            struct shared_member *member = shared->groups[g]->members[i];
            const struct served_model *host = shared->groups[g]->host;
            if (strcmp(member->path, model->path) != 0 || strcmp(member->contents, model->contents) != 0)
                continue;
            if (shared_model_check(model, why))
                return NULL;
            if (!shared_models_alike(host, model) || model->batch_max < host->batch_max) {
                error_set(why, -ESTALE, "its settings are not what they were when it was cut");
                return NULL;
            }
            *group = shared->groups[g];
            return member;
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

void shared_group_free(struct shared_group *g) {
    while (g->count > 0)
        shared_member_free(g->members[--g->count]);
    free(g->host);
    free(g->prefix_profile);
    free(g->profile);
    part_folder_release(g->held);
    free(g);
}

void shared_prefixes_free(struct shared_prefixes *shared) {
    for (uint32_t i = 0; i < shared->count; i++)
        shared_group_free(shared->groups[i]);
    free(shared->groups);
    free(shared->refusals);
    *shared = (struct shared_prefixes){.groups = NULL};
}
