/* shared_form.c - finds a partner for one model, and makes a group of both. */
#include "sharing/shared_form.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/child_call.h"
#include "base/log.h"
#include "base/time.h"
#include "sharing/shared_make.h"

#define SAY_NS (10 * NS_PER_S) /* between lines in the log, while a pair is tried */

/* Finds the group that two models make; *any: whether they make one. */
static int pair_group(const struct cut_model *first, const struct cut_model *second, struct group groups[2], bool *any,
                      struct sy_error *err) {
    static const struct group_rules rules = {.tensors_max = GROUP_TENSORS, .share = GROUP_SHARE};
    const struct cut_model *const pair[] = {first, second};
    uint32_t count = 0;
    int rc = groups_find(pair, 2, &rules, groups, &count, err);
    *any = count > 0;
    return rc;
}

/* ---- the child process ---- */

/* What the child is told of the two models. */
struct form_request {
    char engine[32];
    struct {
        char name[MODEL_NAME_MAX], path[4096], contents[40];
    } models[2];
    char made[SIDECAR_PATH_MAX]; /* the folder to make the parts in, and their note */
};
_Static_assert(sizeof(struct form_request) <= 65536, "a pipe's buffer");

/* Frees nothing, since the process ends after it. */
static int pair_try(void *request, struct sy_error *err) {
    const struct form_request *r = request;
    struct cut_model cuts[2];
    struct group *groups = calloc(2, sizeof(*groups));
    const struct profile_options how = {.engine = engine_find(r->engine)};
    struct shared_making m = {.how = &how, .group = groups};
    bool any = false;
    int rc = groups ? 0 : error_set(err, -ENOMEM, "out of memory");
    if (!rc && !how.engine)
        rc = error_set(err, -ENOTSUP, "this build has no engine '%s'", r->engine);
    for (int i = 0; i < 2 && !rc; i++) {
        rc = cut_model_read(r->models[i].path, &cuts[i], err);
        m.cuts[i] = &cuts[i];
        m.owners[i] = (struct part_owner){r->models[i].name, r->models[i].path, r->models[i].contents};
    }
    if (!rc)
        rc = pair_group(&cuts[0], &cuts[1], groups, &any, err);
    if (!rc && !any)
        rc = error_set(err, -ESTALE, "their files have changed");
    strcpy(m.made, r->made);
    return rc ? rc : shared_parts_try(&m, err);
}

int shared_form_main(void) {
    struct form_request request;
    return child_answer(&request, sizeof(request), pair_try);
}

/* ---- the pair ---- */

struct forming {
    const struct served_model *self;
    const struct profile_options *how;
    const struct served_model *best; /* the partner of the deepest cut; NULL: none */
    struct cut_model self_cuts, best_cuts;
    struct group *groups, *best_groups; /* [2] of a pair */
    int64_t said_ns;                    /* how long the trial had taken at the last line in the log */
};

/* Whether two models may begin alike at all: an input is the same. */
static bool inputs_meet(const struct signature *a, const struct signature *b) {
    for (uint32_t i = 0; i < a->input_count && i < b->input_count; i++)
        if (a->inputs[i].type == b->inputs[i].type && a->inputs[i].rank == b->inputs[i].rank &&
            memcmp(a->inputs[i].dims, b->inputs[i].dims, a->inputs[i].rank * sizeof(a->inputs[i].dims[0])) == 0)
            return true;
    return false;
}

static bool partner_possible(const struct forming *f, const struct served_model *model) {
    const struct served_model *self = f->self;
    return strcmp(model->name, self->name) != 0 && shared_models_alike(model, self) &&
           inputs_meet(&model->signature, &self->signature) && shared_model_check(model, NULL) == 0 &&
           fingerprint_model_holds(model->path, model->contents) == 1; /* the file is still the one that is served */
}

/* Looks whether a partner is better than the best so far. One that cannot be read is none. */
static int partner_look(struct forming *f, const struct served_model *partner, struct sy_error *err) {
    struct cut_model cuts;
    bool any = false;
    if (cut_model_read(partner->path, &cuts, NULL))
        return 0;
    int rc = pair_group(&f->self_cuts, &cuts, f->groups, &any, err);
    if (rc || !any || (f->best && f->best_groups[0].cuts[0].node_count >= f->groups[0].cuts[0].node_count)) {
        cut_model_free(&cuts);
        return rc;
    }
    if (f->best)
        cut_model_free(&f->best_cuts);
    struct group *groups = f->best_groups;
    f->best_groups = f->groups;
    f->groups = groups;
    f->best = partner;
    f->best_cuts = cuts;
    return 0;
}

/* ---- the group ---- */

static void trying_log(void *context, int64_t waited_ns) {
    struct forming *f = context;
    if (waited_ns - f->said_ns < SAY_NS)
        return;
    f->said_ns = waited_ns;
    log_info("models with the same first layers are still being tried", "model=%s with=%s seconds=%.0f", f->self->name,
             f->best->name, (double)waited_ns / 1e9);
}

static int trial_ask(struct shared_making *m, struct sy_error *err) {
    char *argv[] = {"symphony", "plan", "prefixes", SHARED_FORM_ARGUMENT, NULL};
    const struct child_program program = {
        .argv = argv, .stop = m->how->stop, .waits = trying_log, .context = m->context};
    struct form_request *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, -ENOMEM, "out of memory");
    snprintf(r->engine, sizeof(r->engine), "%s", m->how->engine->name);
    for (int i = 0; i < 2; i++) {
        snprintf(r->models[i].name, sizeof(r->models[i].name), "%s", m->owners[i].name);
        snprintf(r->models[i].path, sizeof(r->models[i].path), "%s", m->owners[i].path);
        snprintf(r->models[i].contents, sizeof(r->models[i].contents), "%s", m->owners[i].contents);
    }
    strcpy(r->made, m->made);
    int rc = child_program_call(&program, r, sizeof(*r), err);
    free(r);
    return rc;
}

/* A group of the model and the best partner, in the order of their names, as at the start. */
static struct shared_group *pair_make(struct forming *f, int *rc, struct sy_error *why) {
    struct shared_making m = {.how = f->how, .trial = trial_ask, .context = f};
    bool self_first = strcmp(f->self->name, f->best->name) < 0;
    bool any;
    shared_making_add(&m, !self_first, f->self, &f->self_cuts);
    shared_making_add(&m, self_first, f->best, &f->best_cuts);
    *rc = pair_group(m.cuts[0], m.cuts[1], f->groups, &any, why); /* in this order */
    m.group = f->groups;
    if (!*rc && !any)
        *rc = error_set(why, -EINVAL, "they cannot be cut");
    return *rc ? NULL : shared_group_make(&m, rc, why);
}

static int group_add(struct shared_prefixes *shared, struct shared_group *g, struct sy_error *why) {
    struct shared_group **groups = realloc(shared->groups, (shared->count + 1) * sizeof(struct shared_group *));
    if (!groups)
        return error_set(why, -ENOMEM, "out of memory");
    groups[shared->count++] = g;
    shared->groups = groups;
    shared->formed++;
    for (uint32_t i = 0; i < g->count; i++)
        shared_member_log(g, g->members[i]);
    return 0;
}

/* Makes a group with the best of the partners. */
static int partner_join(struct shared_prefixes *shared, struct forming *f, const struct served_model *const *partners,
                        uint32_t partner_count, struct shared_group **group, struct sy_error *why) {
    bool any = false;
    int rc = 0;
    for (uint32_t i = 0; i < partner_count && !rc; i++) {
        if (!partner_possible(f, partners[i]))
            continue;
        any = true;
        rc = partner_look(f, partners[i], why);
    }
    if (rc)
        return rc;
    if (!f->best && any)
        return error_set(why, -ENOENT, "no other model that is served begins with enough of the same nodes");
    if (!f->best)
        return -ENOENT;
    if (shared->formed == SHARED_FORMED_MAX)
        return error_set(why, -EBUSY, "%d groups have been made since the server started, and no more will be",
                         SHARED_FORMED_MAX);
    struct shared_group *g = pair_make(f, &rc, why);
    if (!g)
        return rc;
    rc = group_add(shared, g, why);
    if (rc)
        shared_group_free(g);
    else
        *group = g;
    return rc;
}

int shared_prefixes_form(struct shared_prefixes *shared, const struct served_model *self,
                         const struct served_model *const *partners, uint32_t partner_count,
                         const struct profile_options *how, struct shared_group **group, struct shared_member **member,
                         struct sy_error *why) {
    struct forming *f = calloc(1, sizeof(*f));
    why->text[0] = '\0';
    if (!f)
        return error_set(why, -ENOMEM, "out of memory");
    f->self = self;
    f->how = how;
    f->groups = calloc(2, sizeof(*f->groups));
    f->best_groups = calloc(2, sizeof(*f->best_groups));
    int rc = f->groups && f->best_groups ? 0 : error_set(why, -ENOMEM, "out of memory");
    if (!rc)
        rc = partner_count ? shared_model_check(self, why) : -ENOENT;
    if (!rc)
        rc = cut_model_read(self->path, &f->self_cuts, why);
    if (!rc) {
        rc = partner_join(shared, f, partners, partner_count, group, why);
        cut_model_free(&f->self_cuts);
    }
    for (uint32_t i = 0; !rc && i < (*group)->count; i++)
        if (strcmp((*group)->members[i]->path, self->path) == 0)
            *member = (*group)->members[i];
    if (f->best)
        cut_model_free(&f->best_cuts);
    free(f->groups);
    free(f->best_groups);
    free(f);
    return rc;
}
