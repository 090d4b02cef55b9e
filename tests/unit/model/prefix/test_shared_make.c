/* test_shared_make.c - what becomes of a trial's outcome: a refusal is kept and found again, and what is no outcome
 * leaves nothing. */
#include "unit/test.h"

#include "model/prefix/shared_make.h"

#include "unit/model/prefix/shared_rig.h"

/* A trial with an outcome that the test says. */
struct outcome {
    int rc;
    uint32_t tried;
};

static int trial(struct shared_making *m, struct sy_error *err) {
    struct outcome *outcome = m->context;
    outcome->tried++;
    return outcome->rc ? error_set(err, outcome->rc, "stopped")
                       : part_refusal_write(m->made, m->owners, m->group->count, "they answer differently", err);
}

/* What is made of two models, "a" and "b", as main() of a server does it. */
struct making {
    struct shared_making making;
    struct cut_model cuts[2];
    struct group groups[2];
    struct outcome outcome;
};

static struct making *making_of(struct shared_rig *rig, const struct build_node *b) {
    static const struct group_rules rules = {GROUP_TENSORS, GROUP_SHARE};
    struct making *m = calloc(1, sizeof(*m));
    const struct cut_model *const both[] = {&m->cuts[0], &m->cuts[1]};
    struct sy_error err = {""};
    uint32_t count;
    assert_non_null(m);
    rig->count = 0;
    rig_model(rig, "a", deep);
    rig_model(rig, "b", b);
    m->making = (struct shared_making){.how = &rig->how, .group = m->groups, .trial = trial, .context = &m->outcome};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(cut_model_read(rig->models[i].path, &m->cuts[i], &err), 0);
        shared_making_add(&m->making, i, &rig->models[i], &m->cuts[i]);
    }
    assert_int_equal(groups_find(both, 2, &rules, m->groups, &count, &err), 0);
    assert_int_equal(count, 1);
    return m;
}

static void making_free(struct making *m) {
    for (uint32_t i = 0; i < 2; i++)
        cut_model_free(&m->cuts[i]);
    free(m);
}

TEST_WITH(a_refusal_is_kept_with_its_reason, rig_make, rig_free) {
    struct shared_rig *rig = *state;
    struct making *m = making_of(rig, deep_too);
    struct sy_error err;
    int rc = 0;
    for (int i = 0; i < 2; i++) {
        assert_null(shared_group_make(&m->making, &rc, &err));
        assert_int_equal(rc, -EINVAL);
        assert_string_equal(err.text, "they answer differently");
        assert_int_equal(m->outcome.tried, 1); /* the second time it is found */
    }
    assert_true(rig_refused(rig, SHARED_KIND, m->making.owners, 2));
    making_free(m);

    m = making_of(rig, deep); /* another file: it is tried again */
    assert_null(shared_group_make(&m->making, &rc, &err));
    assert_int_equal(m->outcome.tried, 1);
    making_free(m);
}

TEST_WITH(what_was_stopped_is_tried_again, rig_make, rig_free) {
    struct shared_rig *rig = *state;
    struct making *m = making_of(rig, deep_too);
    struct sy_error err;
    int rc = 0;
    m->outcome.rc = -EINTR;
    for (uint32_t i = 1; i <= 2; i++) {
        assert_null(shared_group_make(&m->making, &rc, &err));
        assert_int_equal(rc, -EINTR);
        assert_string_equal(err.text, "stopped");
        assert_int_equal(m->outcome.tried, i);
    }
    assert_false(rig_refused(rig, SHARED_KIND, m->making.owners, 2));
    making_free(m);
}

#ifdef SYMPHONY_HAVE_ONNXRUNTIME

/* Each cut in a child process: none of them will do, and the deepest one's reason is the note's. */
TEST_WITH(cuts_that_the_engine_cannot_run_are_refused, rig_make, rig_free) {
    struct shared_rig *rig = *state;
    struct making *m = making_of(rig, deep_too);
    struct sy_error err;
    int rc = 0;
    m->making.trial = shared_parts_try;
    assert_null(shared_group_make(&m->making, &rc, &err));
    assert_int_equal(rc, -EINVAL);
    assert_non_null(strstr(err.text, "ONNX Runtime"));
    assert_true(rig_refused(rig, SHARED_KIND, m->making.owners, 2));
    making_free(m);
}

#endif
