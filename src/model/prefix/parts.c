/* parts.c - tries cuts, each in a child process. */
#include "model/prefix/parts.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/system/child_call.h"

struct trial {
    const struct parts_maker *maker;
    uint32_t cut;
};

/* Runs in the child, which ends afterwards, so nothing is freed. */
static int cut_try(void *context, struct sy_error *err) {
    const struct trial *trial = context;
    const struct parts_maker *maker = trial->maker;
    struct split split = {.engine = maker->engine, .prefix_path = maker->prefix_path, .count = maker->group->count};
    split.members = calloc(split.count, sizeof(*split.members));
    if (!split.members)
        return error_set(err, -ENOMEM, "out of memory");
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the child ends with the process that waits for it */
    alarm(maker->trial_s);
    for (uint32_t m = 0; m < split.count; m++)
        split.members[m] = (struct split_member){.model = maker->members[m], .suffix_path = maker->suffix_paths[m]};
    int rc = split_make(&split, &maker->group->cuts[trial->cut], err);
    return rc ? rc : maker->finish(maker->context, &split, trial->cut, err);
}

int parts_make(const struct parts_maker *maker, uint32_t *cut, struct sy_error *deepest, struct sy_error *err) {
    struct trial trial = {.maker = maker};
    int rc = error_set(err, -EINVAL, "they have no cut");
    deepest->text[0] = '\0';
    for (; rc && trial.cut < maker->group->cut_count; trial.cut++) {
        rc = child_call(cut_try, &trial, err);
        *cut = trial.cut;
        if (rc && trial.cut == 0)
            *deepest = *err;
    }
    return rc;
}
