/* test_shared_prefixes.c - which models are members of a group that was found: those that are as they were then. */
#include "control/shared_prefixes.h"

#include <stdlib.h>
#include <string.h>

#include "unit/cmocka_all.h"

struct fixture {
    struct shared_prefixes shared;
    struct served_model model; /* as the repository finds it, and its profile completes it */
};

static int fixture_make(void **state) {
    struct fixture *f = *state = calloc(1, sizeof(*f));
    if (!f || !(f->shared.groups = calloc(1, sizeof(*f->shared.groups))))
        return -1;
    struct shared_group *g = f->shared.groups;
    f->shared.count = 1;
    f->model.signature = (struct signature){.input_count = 1, .output_count = 1, .batched = true};
    f->model.batch_max = 32;
    f->model.slo_ns = 7;
    strcpy(f->model.path, "/models/b/1/model.onnx");
    strcpy(f->model.contents, "2222");
    g->host = calloc(1, sizeof(*g->host));
    g->host->signature = f->model.signature;
    g->host->batch_max = 16;
    g->host->suffixes = g->places;
    g->profile = malloc(profile_bytes(16));
    profile_set_line(g->profile, 16, 1000, 1000);
    g->members = calloc(2, sizeof(*g->members));
    g->count = 2;
    strcpy(g->members[0].path, "/models/a/1/model.onnx");
    strcpy(g->members[1].path, f->model.path);
    strcpy(g->members[1].contents, "2222");
    g->members[1].weights_bytes = 55;
    return 0;
}

static int fixture_free(void **state) {
    struct fixture *f = *state;
    shared_prefixes_free(&f->shared);
    free(f);
    return 0;
}

static void a_model_that_is_as_it_was_is_a_member(void **state) {
    struct fixture *f = *state;
    struct shared_member *member = NULL;
    struct shared_group *group = shared_prefixes_group(&f->shared, &f->model, &member);

    assert_ptr_equal(group, f->shared.groups);
    assert_ptr_equal(member, &group->members[1]);
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

static void what_has_changed_is_served_whole(void **state) {
    struct fixture *f = *state;
    const struct served_model as_it_was = f->model;
    struct shared_member *member;

    for (int change = 0; change < 9; change++) {
        memcpy(&f->model, &as_it_was, sizeof(as_it_was));
        switch (change) {
        case 0:
            strcpy(f->model.path, "/models/c/1/model.onnx"); /* it was never there */
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
            strcpy(f->model.profile_path, "/models/b/profile.json");
        }
        assert_null(shared_prefixes_group(&f->shared, &f->model, &member));
    }
    memcpy(&f->model, &as_it_was, sizeof(as_it_was));
    assert_non_null(shared_prefixes_group(&f->shared, &f->model, &member));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_model_that_is_as_it_was_is_a_member, fixture_make, fixture_free),
        cmocka_unit_test_setup_teardown(what_has_changed_is_served_whole, fixture_make, fixture_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
