/* test_describe.c - what is said of an ensemble's configuration. */
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "front/v2/describe.h"
#include "front/v2/message_json.h"
#include "model/config/model_config.h"
#include "model/config/served_model.h"

static const char written[] =
    "max_batch_size: 8\n"
    "input { name: 'x' data_type: TYPE_STRING dims: [ -1, 4 ] } output { name: 'y' data_type: TYPE_FP32 dims: 2 }\n"
    "ensemble_scheduling { step [ { model_name: 'b' model_version: 3 input_map { key: 'i' value: 't' }\n"
    "input_map { key: 'j' value: 'x' } output_map { key: 'o' value: 'y' } },\n"
    "{ model_name: 'a' input_map { key: 'i' value: 'x' } output_map { key: 'o' value: 't' } } ] }";

static void model_make(struct served_model *model) {
    static struct model_config config;
    assert_int_equal(model_config_read_text("c", written, strlen(written), true, &config, NULL), 0);
    strcpy(model->name, "pair");
    model->version = 1;
    assert_int_equal(served_model_make_ensemble(model, &config, NULL), 0);
}

/* The steps in the order of the file, though they run in another one. */
TEST(an_ensemble_is_described_as_configured) {
    struct served_model *model = calloc(1, sizeof(*model));
    struct model_index index;
    struct description d;
    struct text text;
    assert_non_null(model);
    model_make(model);
    assert_int_equal(model_index_init(&index, model, 1), 0);
    assert_int_equal(describe_begin(&d, &index, model), 0);
    text_init(&text, NULL, 0);
    message_json_put(&text, &describe_config(&d, model)->base, false);
    const char *json = text_end(&text);
    static const char *const parts[] = {
        "\"name\":\"pair\",\"platform\":\"ensemble\"",
        "\"backend\":\"\"",
        "\"max_batch_size\":8",
        "\"dims\":[-1,4]",
        "\"data_type\":\"TYPE_STRING\"",
        "\"ensemble_scheduling\":{\"step\":[{\"model_name\":\"b\",\"model_version\":3,"
        "\"input_map\":{\"i\":\"t\",\"j\":\"x\"},\"output_map\":{\"o\":\"y\"},\"model_namespace\":\"\"},"
        "{\"model_name\":\"a\",\"model_version\":-1,\"input_map\":{\"i\":\"x\"},\"output_map\":{\"o\":\"t\"},"
        "\"model_namespace\":\"\"}],\"max_inflight_requests\":0}",
        "\"instance_group\":[]",
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (!strstr(json, parts[i]))
            fail_msg("no %s in %s", parts[i], json);
    assert_null(strstr(json, "dynamic_batching"));
    text_free(&text);
    describe_end(&d);
    model_index_destroy(&index);
    served_models_free(model, 1);
}
