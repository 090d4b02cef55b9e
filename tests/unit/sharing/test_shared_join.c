/* test_shared_join.c - which group a model that is loaded may join, and why it may not. */
#include "sharing/shared_join.h"

#include "unit/sharing/shared_rig.h"

static const struct build_node deep_third[] = {{"Neg", "x", "a"}, {"Abs", "a", "b"}, {"Sin", "b", "y"}, {NULL}};
static const struct build_node crossing[] = {{"Neg", "x", "a"}, {"Abs", "a", "b"}, {"Add", "a b", "y"}, {NULL}};

/* A group of no members yet, cut as two models can be that share `nodes` nodes. */
static struct shared_group *group_add(struct shared_rig *rig, const char *name, uint32_t nodes) {
    struct shared_group **groups = realloc(rig->shared.groups, (rig->shared.count + 1) * sizeof(*groups));
    struct shared_group *g = calloc(1, sizeof(*g));
    struct cut_model models[2];
    struct cut cuts[CUTS_MAX];
    struct sy_error err = {""};
    uint32_t count, at = rig->count;
    assert_true(groups && g);
    rig->shared.groups = groups;
    groups[rig->shared.count++] = g;
    rig_model(rig, "first", deep);
    rig_model(rig, "second", deep_too);
    rig->count = at; /* only their cut is of interest */
    const struct cut_model *const both[] = {&models[0], &models[1]};
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(cut_model_read(rig->models[at + i].path, &models[i], &err), 0);
    assert_int_equal(cuts_find(both, 2, GROUP_TENSORS, cuts, &count, &err), 0);
    for (uint32_t i = 0; i < count; i++)
        if (cuts[i].node_count == nodes)
            g->cut = cuts[i];
    assert_int_equal(g->cut.node_count, nodes);
    for (uint32_t i = 0; i < 2; i++)
        cut_model_free(&models[i]);
    g->held = -1;
    g->host = calloc(1, sizeof(*g->host));
    assert_non_null(g->host);
    snprintf(g->host->name, sizeof(g->host->name), "%s", name);
    snprintf(g->tag, sizeof(g->tag), "%s", name);
    g->host->signature = (struct signature){.input_count = 1, .output_count = 1, .batched = true};
    g->host->batch_max = 8;
    return g;
}

/* Asks for a group for models[0]. */
static int join(struct shared_rig *rig, struct sy_error *why) {
    struct shared_group *group = NULL;
    struct shared_member *member = NULL;
    int rc = shared_prefixes_join(&rig->shared, &rig->models[0], &rig->how, &group, &member, why);
    assert_null(member);
    return rc;
}

static void who_cannot_be_cut_is_told_why(void **state) {
    struct shared_rig *rig = *state;
    struct sy_error why;
    struct served_model *model = rig_model(rig, "m", deep_third);
    assert_int_equal(join(rig, &why), -ENOENT);
    assert_string_equal(why.text, "no models shared their first layers when the server started");
    group_add(rig, "g", 2);
    model->signature.inputs_optional = 1;
    assert_true(join(rig, &why) < 0);
    assert_string_equal(why.text, "it has optional inputs");
    model->signature.inputs_optional = 0;
    strcpy(model->path, "/nowhere/model.onnx");
    assert_true(join(rig, &why) < 0);
    assert_non_null(strstr(why.text, "/nowhere/model.onnx"));
}

static void a_model_that_begins_like_no_group_is_told_so(void **state) {
    struct shared_rig *rig = *state;
    struct sy_error why;
    rig_model(rig, "m", strange);
    group_add(rig, "g", 2);
    assert_int_equal(join(rig, &why), -ENOENT);
    assert_string_equal(why.text, "it does not begin with the layers of 'g'");
    group_add(rig, "h", 1);
    assert_int_equal(join(rig, &why), -ENOENT);
    assert_string_equal(why.text, "it does not begin with the layers of 'g' nor of another group");
}

static void a_group_that_does_not_suit_says_why(void **state) {
    struct shared_rig *rig = *state;
    struct sy_error why;
    struct served_model *model = rig_model(rig, "m", deep_third);
    struct shared_group *g = group_add(rig, "g", 2);

    model->best_effort = true;
    assert_int_equal(join(rig, &why), -ENOENT);
    assert_string_equal(why.text, "its settings are not those of the models that share 'g'");
    model->best_effort = false;

    model->batch_max = 7;
    assert_int_equal(join(rig, &why), -ENOENT);
    assert_string_equal(why.text, "its batches have 7 items at most, and those of 'g' up to 8");
    model->batch_max = RIG_BATCH;

    g->count = PART_SUFFIXES_MAX;
    assert_int_equal(join(rig, &why), -ENOENT);
    g->count = 0;
    assert_non_null(strstr(why.text, " models share its first layers already"));

    rig->count = 0;
    rig_model(rig, "m", crossing);
    assert_int_equal(join(rig, &why), -ENOENT);
    assert_string_equal(why.text, "its other nodes take a tensor from within the layers that are shared");
}

static void few_nodes_are_not_worth_sharing(void **state) {
    struct shared_rig *rig = *state;
    struct sy_error why;
    struct build_node chain[32] = {{"Neg", "x", "t0"}};
    char names[31][4];
    for (uint32_t i = 0; i < 31; i++)
        snprintf(names[i], sizeof(names[i]), "t%u", i % 100);
    for (uint32_t i = 1; i < 31; i++)
        chain[i] = (struct build_node){"Sin", names[i - 1], i == 30 ? "y" : names[i]};
    rig_model(rig, "m", chain);
    group_add(rig, "g", 1);
    assert_int_equal(join(rig, &why), -ENOENT);
    assert_string_equal(why.text, "'g' has only 1 of its 31 nodes, and 0.0 % of its weights");
}

#ifdef SYMPHONY_HAVE_ONNXRUNTIME

static int refuse(void *context, const char *made, struct sy_error *err) {
    return part_refusal_write(made, context, 1, "it was tried before", err);
}

/* The deepest has refused it before; so the other one tries it, in a child process, and the reason is the first's. */
static void the_deepest_group_is_tried_first(void **state) {
    struct shared_rig *rig = *state;
    struct sy_error why;
    struct part_owner owner = rig_owner(rig_model(rig, "m", deep_third));
    const struct part_want want = {&owner, 1, refuse, &owner};
    char folder[SIDECAR_PATH_MAX];
    json_t *note;
    int held;
    group_add(rig, "shallow", 1);
    group_add(rig, "deep", 2);
    assert_int_equal(part_folder_place(SHARED_KIND " of deep", &owner, 1, &rig->how, folder, &why), 0);
    assert_int_equal(part_folder_get(folder, &want, &held, &note, &why), -EINVAL);
    part_folder_release(held);
    assert_false(rig_refused(rig, SHARED_KIND " of shallow", &owner, 1));
    assert_int_equal(join(rig, &why), -EINVAL);
    assert_string_equal(why.text, "it was tried before");
    assert_true(rig_refused(rig, SHARED_KIND " of shallow", &owner, 1));
}

#endif

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[3], SHARED_JOIN_ARGUMENT) == 0)
        return shared_join_main();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_cannot_be_cut_is_told_why, rig_make, rig_free),
        cmocka_unit_test_setup_teardown(a_model_that_begins_like_no_group_is_told_so, rig_make, rig_free),
        cmocka_unit_test_setup_teardown(a_group_that_does_not_suit_says_why, rig_make, rig_free),
        cmocka_unit_test_setup_teardown(few_nodes_are_not_worth_sharing, rig_make, rig_free),
#ifdef SYMPHONY_HAVE_ONNXRUNTIME
        cmocka_unit_test_setup_teardown(the_deepest_group_is_tried_first, rig_make, rig_free),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
