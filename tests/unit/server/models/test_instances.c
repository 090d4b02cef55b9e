/* test_instances.c - where a model runs, by what it wants and what there is. */
#include <stdlib.h>

#include "server/models/instances.h"
#include "unit/test.h"

/* The types that run a model that wants `kind`, a bit each. */
static uint32_t placed(enum instance_kind kind, const struct server_accelerators *accelerators, uint32_t types) {
    struct served_model *model = calloc(1, sizeof(*model));
    uint32_t on = 0;
    assert_non_null(model);
    model->instances.kind = kind;
    model->on[ACCELERATOR_TYPES_MAX - 1].count = 9; /* of what was here before */
    instances_place(model, accelerators, types);
    for (uint32_t t = 0; t < ACCELERATOR_TYPES_MAX; t++) {
        assert_true(model->on[t].count == 0 || model->on[t].count == accelerators[t].count);
        on |= model->on[t].count ? 1u << t : 0;
    }
    free(model);
    return on;
}

TEST(a_model_runs_on_the_kind_that_it_wants_if_there_is_any) {
    static const struct engine_ops computing;
    static const struct server_accelerators all[] = {
        {.type = "cpu", .engine = &computing, .provider = "cpu", .count = 4},
        {.type = "cuda", .engine = &computing, .provider = "cuda", .count = 2},
        {.type = "t4", .engine = &engine_emulated, .provider = "cpu", .count = 3}};
    assert_int_equal(placed(INSTANCES_ANYWHERE, all, 3), 7);
    assert_int_equal(placed(INSTANCES_ON_CPUS, all, 3), 1);
    assert_int_equal(placed(INSTANCES_ON_GPUS, all, 3), 6);
    assert_int_equal(placed(INSTANCES_ON_GPUS, all, 1), 1); /* CPUs only */
    assert_int_equal(placed(INSTANCES_ON_CPUS, all + 1, 2), 3);
    assert_int_equal(placed(INSTANCES_ON_GPUS, all + 1, 1), 1);
}
