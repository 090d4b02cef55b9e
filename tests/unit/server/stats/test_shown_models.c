/* test_shown_models.c - what metrics show of listed models is a copy. */
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "server/stats/shown_models.h"

TEST(listed_models_are_copied) {
    struct served_model models[] = {
        {.name = "unlisted", .version = 1},
        {.name = "best", .version = 1, .state = MODEL_READY, .best_effort = true, .slo_ns = 5},
        {.name = "aside", .version = 3, .state = MODEL_UNAVAILABLE, .slo_ns = 7, .prepared = (tensor_set)1 << 100},
    };
    uint32_t listed[] = {2, 1};
    struct shown_model *shown = shown_models_of(&(struct model_index){.models = models, .listed = listed, .count = 2});
    memset(models, 0, sizeof(models)); /* the places get other models */
    assert_int_equal(shown[0].place, 2);
    assert_int_equal(shown[0].slo_ns, 7);
    assert_true(shown[0].prepared && !shown[0].ready);
    assert_string_equal(shown[0].labels.text, "model=\"aside\",version=\"3\"");
    assert_int_equal(shown[1].place, 1);
    assert_int_equal(shown[1].slo_ns, 0);
    assert_true(shown[1].ready && !shown[1].prepared);
    assert_string_equal(shown[1].labels.text, "model=\"best\",version=\"1\"");
    free(shown);
}
