/* test_model_config_json.c - ModelConfig as JSON into the text of a config.pbtxt. */
#include "unit/test.h"

#include <errno.h>
#include <string.h>

#include "core/util/container.h"
#include "model/config/model_config.h"
#include "model/config/model_config_json.h"

static int convert(const char *json, struct text *text, struct sy_error *err) {
    text_init(text, NULL, 0);
    return model_config_of_json(json, strlen(json), text, err);
}

/* What it writes is read as the file would be. */
TEST(fields_become_text) {
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{}", ""},
        {"{\"name\": \"a\\\"\\\\\\n\xc3\xa9\"}", "name: \"a\\042\\134\\012\xc3\xa9\"\n"},
        {"{\"max_batch_size\": 8}", "max_batch_size: 8\n"},
        {"{\"maxBatchSize\": \"8\"}", "max_batch_size: 8\n"},
        {"{\"max_batch_size\": null}", ""},
        {"{\"input\": [{\"name\": \"x\", \"data_type\": \"TYPE_FP32\", \"dims\": [\"3\", -1], \"optional\": true}]}",
         "input: {\nname: \"x\"\ndata_type: TYPE_FP32\ndims: 3\ndims: -1\noptional: true\n}\n\n"},
        {"{\"version_policy\": {\"all\": {}}}", "version_policy: {\nall: {\n}\n\n}\n\n"},
        {"{\"dynamic_batching\": {\"priority_levels\": 2, \"default_priority_level\": 1, \"priority_queue_policy\": "
         "{\"2\": {\"max_queue_size\": 7}}}}",
         "dynamic_batching: {\npriority_levels: 2\ndefault_priority_level: 1\npriority_queue_policy: { key: 2 value: "
         "{\n"
         "max_queue_size: 7\n}\n\n}\n}\n\n"},
        {"{\"parameters\": {\"k\": {\"string_value\": \"v\"}}}",
         "parameters: { key: \"k\" value: {\nstring_value: \"v\"\n}\n\n}\n"},
        {"{\"input\": [{\"name\": \"x\"}], \"output\": [{\"name\": \"y\"}], \"ensemble_scheduling\": {\"step\": [{"
         "\"model_name\": \"a\", \"model_version\": -1, \"input_map\": {\"i\": \"x\"}, \"output_map\": {\"o\": "
         "\"y\"}}]}}",
         "input: {\nname: \"x\"\n}\n\noutput: {\nname: \"y\"\n}\n\nensemble_scheduling: {\nstep: {\nmodel_name: \"a\"\n"
         "model_version: -1\ninput_map: { key: \"i\" value: \"x\"\n}\noutput_map: { key: \"o\" value: "
         "\"y\"\n}\n}\n\n}\n\n"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct model_config config;
        struct sy_error err = {""};
        struct text text;
        if (convert(cases[i].json, &text, &err) != 0 || strcmp(text_end(&text), cases[i].text) != 0)
            fail_msg("%s: %s\n%s", cases[i].json, err.text, text_end(&text));
        if (model_config_read_text("config", text_end(&text), text.length, true, &config, &err) != 0)
            fail_msg("%s: %s", cases[i].json, err.text);
        model_config_release(&config);
        text_free(&text);
    }
}

TEST(mistakes_are_named) {
    static const struct {
        const char *json, *want;
    } cases[] = {
        {"", "the JSON is wrong"},
        {"{", "the JSON is wrong"},
        {"[]", "expected an object"},
        {"{\"speed\": 1}", "ModelConfig has no field 'speed'"},
        {"{\"name\": 1}", "ModelConfig.name: expected a string"},
        {"{\"max_batch_size\": 1.5}", "ModelConfig.max_batch_size: expected a whole number"},
        {"{\"max_batch_size\": \"8 } name: 1\"}", "expected a whole number"},
        {"{\"input\": {}}", "ModelConfig.input: expected a list"},
        {"{\"input\": [7]}", "expected an object"},
        {"{\"input\": [{\"data_type\": \"TYPE_FP32 name: \\\"y\\\"\"}]}", "ModelInput.data_type: expected a word"},
        {"{\"dynamic_batching\": {\"priority_queue_policy\": {\"2 } x: 1\": {}}}}", "expected whole numbers as keys"},
        {"{\"parameters\": {\"k\": 1}}", "ModelConfig.parameters: expected an object"},
        {"{\"input\": [{\"name\": \"x\"}, 7]}", "ModelConfig.input: expected an object"},
        {"{\"input\": [{\"optional\": \"yes\"}]}", "expected true or false"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct sy_error err = {""};
        struct text text;
        if (convert(cases[i].json, &text, &err) != -EINVAL || !strstr(err.text, cases[i].want))
            fail_msg("%s: %s", cases[i].json, err.text);
        text_free(&text);
    }
}
