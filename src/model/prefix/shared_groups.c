/* shared_groups.c - tells which models may share layers, makes a group's table, and finds the member that a model
 * is. */
#include "model/prefix/shared_groups.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/shared.h"
#include "core/system/log.h"
#include "core/util/time.h"
#include "model/engine/fingerprint.h"
#include "model/profile/warmup.h"

/* A lone request may take SLOWER_SHARE times as long in parts as in the whole model, and SLOWER_NS longer, by which two
 * measurements may differ. If SLOWER_SLO, a share of the SLO, is more than SLOWER_NS, it counts in its place: clients
 * hardly notice it. */
#define SLOWER_SHARE 1.1
#define SLOWER_NS    (50 * NS_PER_US)
#define SLOWER_SLO   0.01

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
    if (op_libraries_any(model->op_libraries))
        return error_set(err, -ENOTSUP, "it has operators of its own (model_operations)");
    if (model->profile_path)
        return error_set(err, -ENOTSUP, "its profile is given by a file");
    int rc = warmup_fingerprint(model, warmup, err);
    return rc ? rc : *warmup ? error_set(err, -ENOTSUP, "it has model_warmup") : 0;
}

bool shared_models_alike(const struct served_model *a, const struct served_model *b) {
    return a->signature.batched == b->signature.batched && a->signature.input_count == b->signature.input_count &&
           a->weight == b->weight && a->best_effort == b->best_effort &&
           memcmp(&a->queue, &b->queue, sizeof(a->queue)) == 0;
}

/* ---- what is logged ---- */

void shared_whole_log(const char *name, uint32_t version, const char *reason) {
    log_info("model is served whole", "model=%s version=%u reason=\"%s\"", name, version, reason);
}

void shared_member_log(const struct shared_group *group, const struct shared_member *member) {
    log_info("model shares its first layers", "model=%s prefix=%s models=%u nodes=%u prefix_mb=%.3f max_batch=%u",
             member->name, group->host->name, group->count, group->node_count, (double)group->weights_bytes / 1e6,
             group->host->batch_max);
}

/* ---- profiles ---- */

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

int shared_lone_check(int64_t parts_ns, int64_t whole_ns, int64_t slo_ns, struct sy_error *err) {
    if ((double)parts_ns <= SLOWER_SHARE * (double)whole_ns + fmax(SLOWER_SLO * (double)slo_ns, SLOWER_NS))
        return 0;
    return error_set(err, -EINVAL, "a lone request would take %.3f ms in parts, and takes %.3f ms whole",
                     (double)parts_ns / 1e6, (double)whole_ns / 1e6);
}

struct profile *shared_profile_copy(const struct shared_group *group) {
    size_t bytes = profile_bytes(group->profile->batch_max);
    struct profile *copy = malloc(bytes);
    if (copy)
        memcpy(copy, group->profile, bytes);
    return copy;
}

/* ---- members ---- */

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
    for (uint32_t i = 0; i < g->count; i++) {
        free(g->members[i]->profile);
        mem_pool_release(g->members[i]->part.memory);
        free(g->members[i]);
    }
    served_models_free(g->host, g->host != NULL);
    mem_pool_release(g->prefix.memory);
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
