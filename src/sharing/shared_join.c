/* shared_join.c - finds a group for one model, and makes its suffix. */
#include "sharing/shared_join.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child_call.h"
#include "base/clock.h"
#include "base/log.h"
#include "prefix/groups.h"

#define TRIAL_S 300             /* the child process may take so long */
#define SAY_NS  (10 * NS_PER_S) /* between lines in the log, while it does */

/* ---- the child process ---- */

/* What the child is told. */
struct join_request {
    char engine[32];
    char name[MODEL_NAME_MAX], path[4096], contents[40]; /* the model */
    char prefix[SIDECAR_PATH_MAX];                       /* the group's prefix, a file */
    char made[SIDECAR_PATH_MAX];                         /* the folder to make the suffix in, and its note */
    struct cut cut;
    uint32_t prefix_inputs[TENSORS_MAX], prefix_takes[TENSORS_MAX];
};
_Static_assert(sizeof(struct join_request) <= 65536, "a pipe's buffer");

static int suffix_note_write(const struct join_request *r, const struct split_member *member, struct sy_error *err) {
    const struct part_owner owner = {r->name, r->path, r->contents};
    json_t *note = part_note_new(r->made, &owner, 1);
    shared_suffix_note(json_array_get(json_object_get(note, "members"), 0), member);
    return part_note_write(r->made, note, err);
}

static int suffix_make(void *request, struct sy_error *err) {
    const struct join_request *r = request;
    struct cut_model model;
    char suffix[SIDECAR_PATH_MAX];
    struct split_member member = {.model = &model, .suffix_path = suffix};
    struct split split = {.engine = engine_find(r->engine), .prefix_path = r->prefix, .members = &member, .count = 1};
    alarm(TRIAL_S);
    if (!split.engine)
        return error_set(err, -ENOTSUP, "this build has no engine '%s'", r->engine);
    memcpy(split.prefix_inputs, r->prefix_inputs, sizeof(split.prefix_inputs));
    int rc = part_file(suffix, r->made, "suffix.onnx", 0, err);
    if (!rc)
        rc = cut_model_read(r->path, &model, err);
    if (!rc)
        rc = split_join(&split, &r->cut, err);
    if (!rc && memcmp(member.prefix_takes, r->prefix_takes, split.prefix.input_count * sizeof(uint32_t)) != 0)
        rc = error_set(err, -ENOTSUP, "its inputs are in another order than the group's");
    if (!rc)
        rc = shared_parts_check(&split, err);
    return rc ? rc : suffix_note_write(r, &member, err);
}

int shared_join_main(void) {
    struct join_request request;
    return child_answer(&request, sizeof(request), suffix_make);
}

/* ---- which group ---- */

struct joining {
    struct shared_group *group;
    const struct served_model *model;
    const struct profile_options *how;
    struct part_owner owner;
    int64_t said_ns; /* how long it had taken at the last line in the log */
    bool tried;      /* the model was tried just now: no earlier outcome was found */
};

/* Whether a model may be cut where the group is. -ENOENT: it does not begin so. */
static int group_suits(const struct shared_group *g, const struct served_model *model, const struct cut_model *cuts,
                       struct sy_error *why) {
    int rc = cut_holds(cuts, &g->cut, why);
    if (rc)
        return rc;
    if (!shared_models_alike(g->host, model))
        return error_set(why, -EINVAL, "its settings are not those of the models that share '%s'", g->host->name);
    if (model->batch_max < g->host->batch_max)
        return error_set(why, -EINVAL, "its batches have %u items at most, and those of '%s' up to %u",
                         model->batch_max, g->host->name, g->host->batch_max);
    if (!group_large_enough(&g->cut, cuts, GROUP_SHARE))
        return error_set(why, -EINVAL, "'%s' has only %u of its %u nodes, and %.1f %% of its weights", g->host->name,
                         g->cut.node_count, cuts->node_count,
                         cuts->weights_bytes ? 100.0 * (double)g->cut.weights_bytes / (double)cuts->weights_bytes : 0);
    if (g->count == PART_SUFFIXES_MAX)
        return error_set(why, -EBUSY, "%d models share its first layers already", PART_SUFFIXES_MAX);
    return 0;
}

/* Of the groups that suit the model and were not `tried`, the one with the most nodes, which is marked as tried. NULL:
 * there is none. If `why` is "", it becomes the reason why a group does not suit, if there is any. */
static struct shared_group *group_choose(struct shared_prefixes *shared, const struct served_model *model,
                                         const struct cut_model *cuts, bool *tried, struct sy_error *why) {
    struct shared_group *best = NULL;
    struct sy_error first = *why;
    uint32_t number = 0;
    for (uint32_t g = 0; g < shared->count; g++) {
        struct shared_group *group = shared->groups[g];
        struct sy_error reason;
        int rc = tried[g] ? -EALREADY : group_suits(group, model, cuts, &reason);
        if (!rc && (!best || group->cut.node_count > best->cut.node_count)) {
            best = group;
            number = g;
        }
        if (rc && rc != -EALREADY && rc != -ENOENT && !*first.text)
            first = reason;
    }
    if (!best && !*first.text)
        error_set(&first, -ENOENT, "it does not begin with the layers of '%s'%s", shared->groups[0]->host->name,
                  shared->count > 1 ? " nor of another group" : "");
    *why = first;
    if (best)
        tried[number] = true;
    return best;
}

/* ---- the suffix ---- */

static void trying_log(void *context, int64_t waited_ns) {
    struct joining *j = context;
    if (waited_ns - j->said_ns < SAY_NS)
        return;
    j->said_ns = waited_ns;
    log_info("model is still being tried with the first layers of others", "model=%s prefix=%s seconds=%.0f",
             j->model->name, j->group->host->name, (double)waited_ns / 1e9);
}

/* For part_folder_get(). */
static int suffix_try(void *context, const char *made, struct sy_error *err) {
    struct joining *j = context;
    char *argv[] = {"symphony", "plan", "prefixes", SHARED_JOIN_ARGUMENT, NULL};
    const struct child_program program = {.argv = argv, .stop = j->how->stop, .waits = trying_log, .context = j};
    const struct shared_group *g = j->group;
    int64_t start_ns = clock_now_ns();
    struct join_request *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, -ENOMEM, "out of memory");
    snprintf(r->engine, sizeof(r->engine), "%s", j->how->engine->name);
    snprintf(r->name, sizeof(r->name), "%s", j->model->name);
    snprintf(r->path, sizeof(r->path), "%s", j->model->path);
    snprintf(r->contents, sizeof(r->contents), "%s", j->model->contents);
    snprintf(r->prefix, sizeof(r->prefix), "%s", g->prefix.path);
    snprintf(r->made, sizeof(r->made), "%s", made);
    r->cut = g->cut;
    memcpy(r->prefix_inputs, g->prefix_inputs, sizeof(r->prefix_inputs));
    memcpy(r->prefix_takes, g->prefix.takes, sizeof(r->prefix_takes));
    log_info("model is being tried with the first layers of others", "model=%s version=%u prefix=%s", j->model->name,
             j->model->version, g->host->name);
    int rc = child_program_call(&program, r, sizeof(*r), err);
    free(r);
    j->tried = true;
    if (rc && rc != -EINTR)
        rc = part_refusal_write(made, &j->owner, 1, err->text, err);
    if (!rc)
        log_info("model was tried with the first layers of others", "model=%s version=%u prefix=%s seconds=%.3f",
                 j->model->name, j->model->version, g->host->name, (double)(clock_now_ns() - start_ns) / 1e9);
    return rc;
}

/* ---- the member ---- */

static struct shared_member *member_make(const struct joining *j, const char *folder, const json_t *note,
                                         const struct profile_options *how, int *rc, struct sy_error *err) {
    const struct shared_group *g = j->group;
    char path[SIDECAR_PATH_MAX];
    uint32_t batch_max = g->host->batch_max;
    struct profile_record record;
    const json_t *of = json_array_get(json_object_get(note, "members"), 0);
    if ((*rc = part_file(path, folder, "suffix.onnx", 0, err)) < 0)
        return NULL;
    struct shared_member *member = shared_member_make(g, j->model, path, of, how, &batch_max, &record, rc, err);
    if (!member)
        return NULL;
    if (batch_max < g->host->batch_max)
        *rc = error_set(err, -EINVAL, "its suffix takes %u items at most, and batches of '%s' have up to %u", batch_max,
                        g->host->name, g->host->batch_max);
    else if (!(member->profile = profile_from_record(&record, batch_max)))
        *rc = error_set(err, -ENOMEM, "out of memory");
    if (!*rc)
        *rc = shared_times_check(g, member->profile, j->model->slo_ns, err);
    if (!*rc)
        return member;
    shared_member_free(member);
    return NULL;
}

/* A member that was tried just now, and whose batches are too slow, is measured once more: something else may have kept
 * the processor. */
static struct shared_member *member_measure(const struct joining *j, const char *folder, const json_t *note, int *rc,
                                            struct sy_error *err) {
    struct profile_options again = *j->how;
    struct shared_member *member = member_make(j, folder, note, j->how, rc, err);
    if (*rc != -ETIME || !j->tried)
        return member;
    again.force = true;
    return member_make(j, folder, note, &again, rc, err);
}

static int group_join(struct joining *j, struct shared_member **joined, struct sy_error *err) {
    const struct part_want want = {&j->owner, 1, suffix_try, j};
    struct shared_group *g = j->group;
    char kind[128], folder[SIDECAR_PATH_MAX];
    json_t *note;
    int held;
    j->tried = false;
    snprintf(kind, sizeof(kind), "%s of %s", SHARED_KIND, g->tag);
    int rc = part_folder_place(kind, &j->owner, 1, j->how, folder, err);
    if (rc)
        return rc;
    rc = part_folder_get(folder, &want, &held, &note, err);
    bool made = !rc;
    struct shared_member *member = rc ? NULL : member_measure(j, folder, note, &rc, err);
    json_decref(note);
    if (!member) {
        part_folder_release(held);
        if (made && rc != -EINTR)
            part_folder_remove(folder); /* its times are those of a moment: the next load measures them again */
        return rc;
    }
    member->held = held;
    g->members[g->count++] = member;
    shared_members_drop(g); /* the member that the model was before, with another file */
    if (j->model->slo_ns < g->host->slo_ns)
        g->host->slo_ns = j->model->slo_ns;
    *joined = member;
    return shared_table_make(g, g->host->batch_max, err);
}

int shared_prefixes_join(struct shared_prefixes *shared, const struct served_model *model,
                         const struct profile_options *how, struct shared_group **group, struct shared_member **member,
                         struct sy_error *why) {
    struct joining joining = {.model = model, .how = how};
    struct cut_model cuts;
    if (!shared->count)
        return error_set(why, -ENOENT, "no models shared their first layers when the server started");
    int rc = shared_model_check(model, why);
    if (rc)
        return rc;
    bool *tried = calloc(shared->count, sizeof(*tried));
    rc = tried ? cut_model_read(model->path, &cuts, why) : error_set(why, -ENOMEM, "out of memory");
    if (rc) {
        free(tried);
        return rc;
    }
    joining.owner = (struct part_owner){model->name, model->path, model->contents};
    why->text[0] = '\0';
    rc = -ENOENT;
    while (rc && rc != -EINTR && rc != -ENOMEM &&
           (joining.group = group_choose(shared, model, &cuts, tried, why)) != NULL) {
        struct sy_error reason = {""};
        rc = group_join(&joining, member, &reason);
        if (rc && !*why->text)
            *why = reason;
    }
    *group = joining.group;
    if (!rc)
        why->text[0] = '\0'; /* it may hold why a deeper group refused the model */
    cut_model_free(&cuts);
    free(tried);
    return rc;
}
