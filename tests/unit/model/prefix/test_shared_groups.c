/* test_shared_groups.c - which models are members of a group that was found: those that are as they were when they were
 * cut. */
#include "model/prefix/shared_groups.h"

#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "model/prefix/shared_prefixes.h"
#include "specs.h"
#include "unit/test.h"

struct fixture {
    struct shared_prefixes shared;
    struct served_model model; /* as the repository finds it, and its profile completes it */
};

static struct shared_member *member_add(struct shared_group *g, const char *path, const char *contents) {
    struct shared_member *member = g->members[g->count++] = calloc(1, sizeof(*member));
    assert_non_null(member);
    strcpy(member->path, path);
    strcpy(member->contents, contents);
    member->profile = malloc(profile_bytes(16));
    profile_set_line(member->profile, 16, 10, 10);
    return member;
}

static int fixture_make(void **state) {
    struct fixture *f = *state = calloc(1, sizeof(*f));
    struct shared_group *g = calloc(1, sizeof(*g));
    if (!f || !g || !(f->shared.groups = calloc(1, sizeof(*f->shared.groups))))
        return -1;
    f->shared.groups[0] = g;
    f->shared.count = 1;
    specs_set(&f->model, (struct signature){.input_count = 1,
                                            .output_count = 1,
                                            .batched = true,
                                            .inputs = SPECS({.dim_count = 2}),
                                            .outputs = SPECS({.dim_count = 2})});
    f->model.batch_max = 32;
    f->model.slo_ns = 7;
    f->model.path = "/models/b/1/model.onnx";
    strcpy(f->model.contents, "2222");
    g->held = -1;
    g->host = calloc(1, sizeof(*g->host));
    g->host->signature = f->model.signature;
    g->host->batch_max = 16;
    g->host->suffixes = g->places;
    g->prefix_profile = malloc(profile_bytes(16));
    profile_set_line(g->prefix_profile, 16, 1000, 1000);
    member_add(g, "/models/a/1/model.onnx", "1111");
    member_add(g, f->model.path, "2222")->weights_bytes = 55;
    assert_int_equal(shared_table_make(g, 16, NULL), 0);
    return 0;
}

static int fixture_free(void **state) {
    struct fixture *f = *state;
    shared_prefixes_free(&f->shared);
    served_model_release(&f->model);
    free(f);
    return 0;
}

TEST_WITH(a_model_that_is_as_it_was_is_a_member, fixture_make, fixture_free) {
    struct fixture *f = *state;
    struct shared_group *group = NULL;
    struct sy_error why;
    struct shared_member *member = shared_member_find(&f->shared, &f->model, &group, &why);

    assert_ptr_equal(group, f->shared.groups[0]);
    assert_ptr_equal(member, group->members[1]);
    assert_true(served_model_is_scheduled(&f->model));
    shared_member_apply(&f->model, group, member, 9, 4);
    assert_true(served_model_is_suffix(&f->model));
    assert_false(served_model_is_scheduled(&f->model));
    assert_false(served_model_is_prefix(&f->model));
    assert_true(served_model_is_prefix(group->host));
    assert_true(served_model_is_scheduled(group->host));
    assert_int_equal(f->model.host, 9);
    assert_int_equal(f->model.suffix, 4);
    assert_int_equal(f->model.batch_max, 16); /* no batch of the group is greater */
    assert_int_equal(f->model.weights_bytes, 55);
    assert_int_equal(f->model.slo_ns, 7); /* its own */
    struct profile *copy = shared_profile_copy(group);
    assert_memory_equal(copy, group->profile, profile_bytes(16));
    free(copy);
}

TEST_WITH(what_has_changed_is_none, fixture_make, fixture_free) {
    struct fixture *f = *state;
    const struct served_model as_it_was = f->model;
    struct shared_group *group;
    struct sy_error why;
    static const char settings[] = "its settings are not what they were when it was cut";
    static const char *const reasons[] = {"",
                                          "",
                                          settings,
                                          settings,
                                          settings,
                                          settings,
                                          "its inputs are of variable shapes",
                                          "it prepares its inputs",
                                          "its profile is given by a file",
                                          "its configuration leaves outputs out, or has them in another order",
                                          "it has tensors that are reshaped",
                                          "it has tensors that are reshaped"};

    for (size_t change = 0; change < ARRAY_COUNT(reasons); change++) {
        memcpy(&f->model, &as_it_was, sizeof(as_it_was));
        switch (change) {
        case 0:
            f->model.path = "/models/c/1/model.onnx"; /* it was never there */
            break;
        case 1:
            strcpy(f->model.contents, "3333");
            break;
        case 2:
            f->model.batch_max = 8; /* it takes no batch as great as the group's */
            break;
        case 3:
            f->model.queue.priorities = 2;
            break;
        case 4:
            f->model.weight = 2;
            break;
        case 5:
            f->model.best_effort = true;
            break;
        case 6:
            f->model.signature.variable_shapes = true;
            break;
        case 7:
            f->model.prepared = 1;
            break;
        case 8:
            f->model.profile_path = "/models/b/profile.json";
            break;
        case 9:
            f->model.signature.outputs_chosen = true;
            break;
        case 10:
            f->model.signature.inputs[0].reshaped = true;
            break;
        case 11:
            f->model.signature.outputs[0].reshaped = true;
        }
        assert_null(shared_member_find(&f->shared, &f->model, &group, &why));
        f->model.signature.inputs[0].reshaped = f->model.signature.outputs[0].reshaped = false;
        assert_string_equal(why.text, reasons[change]);
    }
    memcpy(&f->model, &as_it_was, sizeof(as_it_was));
    assert_non_null(shared_member_find(&f->shared, &f->model, &group, &why));
}

TEST_WITH(the_table_is_of_all_members, fixture_make, fixture_free) {
    struct fixture *f = *state;
    struct shared_group *g = f->shared.groups[0];
    /* a prefix of 1000 + 1000 b, and suffixes of 10 + 10 b each: two run in a batch of two */
    assert_int_equal(g->profile->latency_ns[1], 2000 + 20);
    assert_int_equal(g->profile->latency_ns[2], 3000 + 20 + 20);
    assert_int_equal(g->profile->latency_ns[3], 4000 + 20 + 30);
    member_add(g, "/models/c/1/model.onnx", "5555");
    assert_int_equal(shared_table_make(g, 16, NULL), 0);
    assert_int_equal(g->profile->latency_ns[3], 4000 + 30 + 30);
}

TEST(a_lone_request_may_not_take_much_longer) {
    struct sy_error err;
    const int64_t slo_ns = 5 * NS_PER_MS;
    assert_int_equal(shared_lone_check(1150000, 1000000, slo_ns, &err), 0); /* 10 % and 0.05 ms */
    assert_true(shared_lone_check(1150001, 1000000, slo_ns, &err) < 0);
    assert_string_equal(err.text, "a lone request would take 1.150 ms in parts, and takes 1.000 ms whole");
    assert_int_equal(shared_lone_check(1300000, 1000000, 4 * slo_ns, &err), 0); /* and 1 % of the SLO */
    assert_true(shared_lone_check(1300001, 1000000, 4 * slo_ns, &err) < 0);
}

TEST_WITH(why_a_model_was_refused_is_said, fixture_make, fixture_free) {
    struct fixture *f = *state;
    f->shared.refusals = calloc(2, sizeof(*f->shared.refusals));
    f->shared.refusal_count = 2;
    strcpy(f->shared.refusals[0].path, f->model.path);
    strcpy(f->shared.refusals[0].contents, "another");
    strcpy(f->shared.refusals[1].path, f->model.path);
    strcpy(f->shared.refusals[1].contents, f->model.contents);
    strcpy(f->shared.refusals[1].reason, "it has model_warmup");
    assert_string_equal(shared_refusal_find(&f->shared, &f->model), "it has model_warmup");
    strcpy(f->model.contents, "3333");
    assert_null(shared_refusal_find(&f->shared, &f->model));
}
