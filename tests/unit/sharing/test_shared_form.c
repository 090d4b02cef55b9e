/* test_shared_form.c - with whom a model that is loaded makes a group: the partner that shares most of its nodes. */
#include "sharing/shared_form.h"

#include "unit/sharing/shared_rig.h"

static const struct build_node shallow[] = {{"Neg", "x", "a"}, {"Sin", "a", "b"}, {"Log", "b", "y"}, {NULL}};

/* Asks for a group of models[0], with the others as partners. */
static int form(struct shared_rig *rig, struct sy_error *why) {
    const struct served_model *all[4];
    struct shared_group *group = NULL;
    struct shared_member *member = NULL;
    for (uint32_t i = 0; i < rig->count; i++)
        all[i] = &rig->models[i];
    int rc = shared_prefixes_form(&rig->shared, all[0], all + 1, rig->count - 1, &rig->how, &group, &member, why);
    assert_null(group);
    assert_null(member);
    assert_int_equal(rig->shared.count, 0);
    return rc;
}

static void nobody_is_a_partner(void **state) {
    struct shared_rig *rig = *state;
    struct sy_error why = {"x"};
    rig_model(rig, "self", deep);
    assert_int_equal(form(rig, &why), -ENOENT);
    assert_string_equal(why.text, "");
}

static void who_cannot_share_a_queue_is_no_partner(void **state) {
    struct shared_rig *rig = *state;
    struct sy_error why;
    rig_model(rig, "self", deep);
    struct served_model *other = rig_model(rig, "other", deep_too);
    const struct served_model as_it_was = *other;
    for (int change = 0; change < 6; change++) {
        *other = as_it_was;
        switch (change) {
        case 0:
            other->weight = 2;
            break;
        case 1:
            strcpy(other->name, "self"); /* another version of it */
            break;
        case 2:
            other->signature.inputs[0].dims[1] = 5;
            break;
        case 3:
            other->signature.inputs[0].type = DATATYPE_FP64;
            break;
        case 4:
            other->prepared = 1;
            break;
        case 5:
            strcpy(other->contents, "another"); /* its file is not the one that is served */
        }
        assert_int_equal(form(rig, &why), -ENOENT);
        assert_string_equal(why.text, "");
    }
}

static void a_model_that_nobody_begins_like_is_told_so(void **state) {
    struct shared_rig *rig = *state;
    struct sy_error why;
    rig_model(rig, "self", deep);
    rig_model(rig, "other", strange);
    assert_int_equal(form(rig, &why), -ENOENT);
    assert_string_equal(why.text, "no other model that is served begins with enough of the same nodes");
}

static void a_model_that_cannot_be_cut_is_told_so(void **state) {
    struct shared_rig *rig = *state;
    struct sy_error why;
    struct served_model *self = rig_model(rig, "self", deep);
    rig_model(rig, "other", deep_too);
    self->signature.variable_shapes = true;
    assert_true(form(rig, &why) < 0);
    assert_string_equal(why.text, "its inputs are of variable shapes");
    self->signature.variable_shapes = false;
    strcpy(self->path, "/nowhere/model.onnx");
    assert_true(form(rig, &why) < 0);
    assert_non_null(strstr(why.text, "/nowhere/model.onnx"));
}

static void no_more_than_so_many_groups_are_made(void **state) {
    struct shared_rig *rig = *state;
    struct sy_error why;
    rig_model(rig, "self", deep);
    rig_model(rig, "other", deep_too);
    rig->shared.formed = SHARED_FORMED_MAX;
    assert_int_equal(form(rig, &why), -EBUSY);
    assert_string_equal(why.text, "16 groups have been made since the server started, and no more will be");
}

#ifdef SYMPHONY_HAVE_ONNXRUNTIME

/* The trial, in a child process, refuses the pair; the note of it names both, in the order of their names. */
static void the_partner_that_shares_most_is_tried(void **state) {
    struct shared_rig *rig = *state;
    struct sy_error why;
    rig_model(rig, "m", deep);
    rig_model(rig, "b", shallow);
    rig_model(rig, "a", deep_too);
    rig_model(rig, "n", strange);
    assert_int_equal(form(rig, &why), -EINVAL);
    assert_non_null(strstr(why.text, "ONNX Runtime"));
    const struct part_owner pair[] = {rig_owner(&rig->models[2]), rig_owner(&rig->models[0])};
    assert_true(rig_refused(rig, SHARED_KIND, pair, 2));
    const struct part_owner other[] = {rig_owner(&rig->models[1]), rig_owner(&rig->models[0])};
    assert_false(rig_refused(rig, SHARED_KIND, other, 2));
}

#endif

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[3], SHARED_FORM_ARGUMENT) == 0)
        return shared_form_main();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_is_a_partner, rig_make, rig_free),
        cmocka_unit_test_setup_teardown(who_cannot_share_a_queue_is_no_partner, rig_make, rig_free),
        cmocka_unit_test_setup_teardown(a_model_that_nobody_begins_like_is_told_so, rig_make, rig_free),
        cmocka_unit_test_setup_teardown(a_model_that_cannot_be_cut_is_told_so, rig_make, rig_free),
        cmocka_unit_test_setup_teardown(no_more_than_so_many_groups_are_made, rig_make, rig_free),
#ifdef SYMPHONY_HAVE_ONNXRUNTIME
        cmocka_unit_test_setup_teardown(the_partner_that_shares_most_is_tried, rig_make, rig_free),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
