/* shared_prefixes.c - finds groups of models, and notes why the other models are served whole. */
#include "model/prefix/shared_prefixes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/prefix/shared_make.h"

/* The state of a search. */
struct search {
    struct shared_prefixes *shared;
    struct served_model *const *models;
    const struct profile_options *how;
    struct cut_model *cuts; /* [candidate_count] graphs of the candidates */
    uint32_t *candidates;   /* [candidate_count] numbers of models */
    uint32_t candidate_count;
};

/* Notes why a model is served whole. There is room for every model. */
static void refuse(struct search *s, const struct served_model *model, const char *reason) {
    struct shared_refusal *refusal = &s->shared->refusals[s->shared->refusal_count++];
    snprintf(refusal->name, sizeof(refusal->name), "%s", model->name);
    snprintf(refusal->path, sizeof(refusal->path), "%s", model->path);
    snprintf(refusal->contents, sizeof(refusal->contents), "%s", model->contents);
    snprintf(refusal->reason, sizeof(refusal->reason), "%s", reason);
    refusal->version = model->version;
}

const char *shared_refusal_find(const struct shared_prefixes *shared, const struct served_model *model) {
    for (uint32_t i = 0; i < shared->refusal_count; i++) {
        const struct shared_refusal *refusal = &shared->refusals[i];
        if (strcmp(refusal->path, model->path) == 0 && strcmp(refusal->contents, model->contents) == 0)
            return refusal->reason;
    }
    return NULL;
}

/* ---- groups ---- */

/* Makes a group that the graphs allow, or notes why its models are served whole. class[m] is the candidate that the
 * group calls model m. */
static int group_make(struct search *s, const struct group *group, const uint32_t *class, struct sy_error *err) {
    struct shared_making m = {.how = s->how, .group = group, .trial = shared_parts_try};
    struct sy_error why = {""};
    int rc;
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t candidate = class[group->members[i]], model = s->candidates[candidate];
        shared_making_add(&m, i, s->models[model], &s->cuts[candidate]);
    }
    struct shared_group *g = shared_group_make(&m, &rc, &why);
    if (g) {
        s->shared->groups[s->shared->count++] = g;
        for (uint32_t i = 0; i < g->count; i++)
            shared_member_log(g, g->members[i]);
        return 0;
    }
    for (uint32_t i = 0; i < group->count && rc != -EINTR; i++)
        refuse(s, m.models[i], why.text);
    return rc == -EINTR || rc == -ENOMEM ? error_set(err, rc, "%s", why.text) : 0;
}

/* Finds groups among the candidates that are like candidate `first`, and that were in no earlier class. */
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

int shared_prefixes_find(struct shared_prefixes *shared, struct served_model *const *models,
                         const struct profile *const *profiles, uint32_t count, const struct profile_options *how,
                         struct sy_error *err) {
    struct search s = {.shared = shared, .models = models, .how = how};
    bool *had = calloc(GROUPS_MODELS_MAX, sizeof(*had));
    *shared = (struct shared_prefixes){.groups = calloc(count + 1, sizeof(*shared->groups)),
                                       .refusals = calloc(count + 1, sizeof(*shared->refusals)),
                                       .searched = true};
    s.cuts = calloc(GROUPS_MODELS_MAX, sizeof(*s.cuts));
    s.candidates = calloc(GROUPS_MODELS_MAX, sizeof(*s.candidates));
    bool memory = had && shared->groups && shared->refusals && s.cuts && s.candidates;
    int rc = memory ? 0 : error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < count && !rc; i++) {
        struct sy_error why;
        if (!profiles[i] || models[i]->ensemble || !models[i]->path)
            continue;
        if (s.candidate_count == GROUPS_MODELS_MAX)
            refuse(&s, models[i], "only 256 models are compared");
        else if (shared_model_check(models[i], &why) ||
                 cut_model_read(models[i]->path, &s.cuts[s.candidate_count], &why))
            refuse(&s, models[i], why.text);
        else
            s.candidates[s.candidate_count++] = i;
    }
    for (uint32_t i = 0; i < s.candidate_count && !rc; i++)
        if (!had[i])
            rc = class_search(&s, i, had, err);
    for (uint32_t i = 0; i < count && !rc; i++)
        if (models[i]->path)
            part_folders_tidy(models[i]->path, how->cache_dir);
    for (uint32_t i = 0; i < s.candidate_count; i++)
        cut_model_free(&s.cuts[i]);
    free(s.cuts);
    free(s.candidates);
    free(had);
    return rc;
}
