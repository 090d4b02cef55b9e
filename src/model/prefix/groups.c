/* groups.c - joins models two groups at a time. */
#include "model/prefix/groups.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Whether the prefix of a cut has at least `share` of the model's nodes, or of its weights. */
static bool group_large_enough(const struct cut *cut, const struct cut_model *model, double share) {
    return cut->node_count >= share * model->node_count ||
           (model->weights_bytes && (double)cut->weights_bytes >= share * (double)model->weights_bytes);
}

/* The number of nodes that need not run a second time. */
static uint64_t saved(const struct group *group) {
    return group->cut_count ? (uint64_t)(group->count - 1) * group->cuts[0].node_count : 0;
}

/* Computes the gain of joining two groups, in nodes; 0: none. `both` becomes the joined group. */
static int pair_gain(const struct cut_model *const *models, const struct group_rules *rules, const struct group *a,
                     const struct group *b, struct group *both, uint64_t *gain, struct sy_error *err) {
    const struct cut_model *members[GROUPS_MODELS_MAX];
    uint32_t i = 0, j = 0, found, kept = 0;
    both->count = 0;
    while (i < a->count || j < b->count)
        both->members[both->count++] =
            j == b->count || (i < a->count && a->members[i] < b->members[j]) ? a->members[i++] : b->members[j++];
    for (uint32_t m = 0; m < both->count; m++)
        members[m] = models[both->members[m]];
    int rc = cuts_find(members, both->count, rules->tensors_max, both->cuts, &found, err);
    for (uint32_t c = 0; !rc && c < found; c++) { /* those that keep to the rules stay */
        bool large = true;
        for (uint32_t m = 0; m < both->count; m++)
            large &= group_large_enough(&both->cuts[c], members[m], rules->share);
        if (large)
            both->cuts[kept++] = both->cuts[c];
    }
    both->cut_count = kept;
    uint64_t before = saved(a) + saved(b), after = saved(both);
    *gain = !rc && after > before ? after - before : 0;
    return rc;
}

/* Computes one row and column of the table of gains. */
static int row_fill(const struct cut_model *const *models, const struct group_rules *rules, const struct group *groups,
                    uint32_t left, uint32_t row, struct group *both, uint64_t *gains, struct sy_error *err) {
    int rc = 0;
    for (uint32_t other = 0; !rc && other < left; other++)
        if (other != row) {
            uint32_t low = other < row ? other : row, high = other < row ? row : other;
            rc = pair_gain(models, rules, &groups[low], &groups[high], both, &gains[low * GROUPS_MODELS_MAX + high],
                           err);
        }
    return rc;
}

static uint32_t best_pair(const uint64_t *gains, uint32_t left, uint32_t *with) {
    uint64_t most = 0;
    uint32_t best = 0;
    for (uint32_t a = 0; a < left; a++)
        for (uint32_t b = a + 1; b < left; b++)
            if (gains[a * GROUPS_MODELS_MAX + b] > most) {
                most = gains[a * GROUPS_MODELS_MAX + b];
                best = a;
                *with = b;
            }
    return most ? best : GROUPS_MODELS_MAX;
}

static int group_order(const void *a, const void *b) {
    const struct group *x = a, *y = b;
    if ((x->count > 1) != (y->count > 1))
        return x->count > 1 ? -1 : 1;
    return x->members[0] < y->members[0] ? -1 : 1;
}

int groups_find(const struct cut_model *const *models, uint32_t count, const struct group_rules *rules,
                struct group *groups, uint32_t *group_count, struct sy_error *err) {
    uint64_t *gains = calloc((size_t)GROUPS_MODELS_MAX * GROUPS_MODELS_MAX, sizeof(*gains));
    struct group *both = malloc(sizeof(*both));
    int rc = gains && both ? 0 : error_set(err, -ENOMEM, "out of memory");
    uint32_t left = count, with = 0;
    for (uint32_t m = 0; m < count; m++) {
        groups[m].count = 1;
        groups[m].members[0] = m;
        groups[m].cut_count = 0;
    }
    for (uint32_t row = 1; !rc && row < count; row++)
        rc = row_fill(models, rules, groups, row + 1, row, both, gains, err);
    while (!rc) {
        uint32_t a = best_pair(gains, left, &with);
        if (a == GROUPS_MODELS_MAX)
            break;
        uint64_t gain;
        rc = pair_gain(models, rules, &groups[a], &groups[with], both, &gain, err);
        groups[a] = *both;
        groups[with] = groups[--left]; /* the last group moves, with its row and column */
        for (uint32_t o = 0; o < left; o++)
            if (o != with) {
                uint32_t low = o < with ? o : with, high = o < with ? with : o;
                gains[low * GROUPS_MODELS_MAX + high] = gains[o * GROUPS_MODELS_MAX + left];
            }
        if (!rc)
            rc = row_fill(models, rules, groups, left, a, both, gains, err);
    }
    qsort(groups, left, sizeof(*groups), group_order);
    *group_count = 0;
    while (!rc && *group_count < left && groups[*group_count].count > 1)
        ++*group_count;
    free(gains);
    free(both);
    return rc;
}

void group_reason(const struct cut_model *const *models, const char *const *names, uint32_t count,
                  const struct group_rules *rules, uint32_t model, char *text, size_t size) {
    const struct cut_model *self = models[model];
    uint32_t most = 0, with = 0, found;
    struct cut cuts[CUTS_MAX];
    for (uint32_t m = 0; m < count; m++) {
        uint32_t common = m == model ? 0 : cut_common(self, models[m]);
        if (common > most) {
            most = common;
            with = m;
        }
    }
    if (!most) {
        snprintf(text, size, "no other model begins with the same nodes on inputs of the same types and shapes%s%s",
                 self->digests.unequal ? "; a node of it equals no other, since " : "",
                 self->digests.unequal ? self->digests.unequal : "");
        return;
    }
    const struct cut_model *const pair[] = {self, models[with]};
    if (cuts_find(pair, 2, rules->tensors_max, cuts, &found, NULL) || !found)
        snprintf(text, size, "%u of its nodes are the same in '%s', but more than %u tensors leave them", most,
                 names[with], rules->tensors_max);
    else if (group_large_enough(&cuts[0], self, rules->share) &&
             group_large_enough(&cuts[0], models[with], rules->share))
        snprintf(text, size, "it begins as '%s' does, which saves more with others", names[with]);
    else
        snprintf(text, size, "with '%s' it has only %u of its %u nodes in common, and %.1f %% of its weights",
                 names[with], cuts[0].node_count, self->node_count,
                 self->weights_bytes ? 100.0 * (double)cuts[0].weights_bytes / (double)self->weights_bytes : 0);
}
