/* test_symphony_yaml.c - a model folder's symphony.yaml. */
#include "unit/test.h"

#include "model/config/symphony_yaml.h"

#include <errno.h>

#include "core/util/container.h"
#include "unit/text_file.h"

static char path[sizeof(TEXT_FILE)]; /* of the file that was read last */

static int settings_read(const char *text, struct symphony_yaml *yaml, struct sy_error *err) {
    text_file(path, text, strlen(text));
    int rc = symphony_yaml_read(path, yaml, err);
    unlink(path);
    return rc;
}

TEST(settings_are_read) {
    struct symphony_yaml yaml;
    struct sy_error err = {""};
    assert_int_equal(
        settings_read(
            "slo_ms: 12.5\nmax_batch: 16\nweight: 2.5\npinned: true\nprofile: p/x.json\nshapes: {x: [3, 224]}\n", &yaml,
            &err),
        0);
    assert_int_equal(yaml.slo_ns, 12500000);
    assert_int_equal(yaml.batch_max, 16);
    assert_true(yaml.weight == 2.5 && yaml.pinned);
    assert_string_equal(yaml.profile_path, "/tmp/p/x.json"); /* beside the file */
    assert_int_equal(yaml.shape_count, 1);
    assert_string_equal(yaml.shapes[0].input, "x");
    assert_int_equal(yaml.shapes[0].dim_count, 2);
    assert_int_equal(yaml.shapes[0].dims[1], 224);
    assert_int_equal(settings_read("profile: /abs", &yaml, &err), 0);
    assert_string_equal(yaml.profile_path, "/abs");
    assert_false(yaml.best_effort);
    assert_int_equal(settings_read("slo_ms: none", &yaml, &err), 0);
    assert_true(yaml.best_effort);
    assert_int_equal(settings_read("", &yaml, &err), 0);
    assert_int_equal(yaml.slo_ns, 0);
    assert_false(yaml.best_effort);
    assert_int_equal(yaml.batch_max, 0);
    assert_true(yaml.weight == 0 && !yaml.pinned);
}

TEST(steps_are_read) {
    struct symphony_yaml yaml;
    struct sy_error err = {""};
    assert_int_equal(settings_read("steps:\n"
                                   "- {step: crop, for_each: boxes}\n"
                                   "- {step: 3, for_each: boxes, limit: 1024, beyond: cut, when: any}\n"
                                   "- {step: 4, when: any}\n",
                                   &yaml, &err),
                     0);
    assert_string_equal(yaml.path, path);
    assert_int_equal(yaml.step_count, 3);
    assert_string_equal(yaml.steps[0].step, "crop");
    assert_string_equal(yaml.steps[0].for_each, "boxes");
    assert_string_equal(yaml.steps[0].when, "");
    assert_int_equal(yaml.steps[0].limit, 0);
    assert_int_equal(yaml.steps[0].line, 2);
    assert_string_equal(yaml.steps[1].step, "3");
    assert_int_equal(yaml.steps[1].limit, 1024);
    assert_int_equal(yaml.steps[1].beyond, ENSEMBLE_CUT);
    assert_string_equal(yaml.steps[2].when, "any");
}

TEST(preparations_are_read) {
    struct symphony_yaml yaml;
    struct sy_error err;
    assert_int_equal(settings_read("prepare:\n  - {step: decode_image, max_pixels: 5}\n"
                                   "  - {input: x, step: decode_image, max_bytes: 7}\n",
                                   &yaml, &err),
                     0);
    assert_int_equal(yaml.prepare_count, 2);
    assert_string_equal(yaml.prepare[0].input, "");
    assert_int_equal(yaml.prepare[0].max_pixels, 5);
    assert_int_equal(yaml.prepare[0].max_bytes, 0);
    assert_string_equal(yaml.prepare[1].input, "x");
    assert_int_equal(yaml.prepare[1].max_bytes, 7);
    assert_int_equal(yaml.prepare[1].line, 3);
}

TEST(mistakes_name_the_line) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"slo_ms: fast", ":1: slo_ms: 'fast' is not a number (expected a number of milliseconds, or none)"},
        {"slo_ms: 0", ":1: slo_ms: 0 is not in 0.001 to 3600000 (expected a number of milliseconds, or none)"},
        {"\nmax_batch: 1025", ":2: max_batch: 1025 is not in 1 to 1024 (expected a number of items)"},
        {"weight: 0",
         ":1: weight: 0 is not in 0.001 to 1000 (expected how much this model's share weighs beside the others')"},
        {"profile: [x]", ":1: profile: found a list (expected the path of a profile)"},
        {"slo: 5", ":1: slo: unknown key (expected slo_ms, max_batch, batch, weight, pinned, profile, shapes, sample, "
                   "steps, prepare)"},
        {"steps: 3", ":1: steps: expected a list of at most 64 steps"},
        {"steps: [2]", ":1: steps.0: expected a mapping, such as {step: 2, for_each: boxes}"},
        {"steps: [{for_each: x}]", ":1: steps.0: step is missing"},
        {"steps: [{step: a}]", ":1: steps.0: for_each or when is missing"},
        {"steps: [{step: a, each: x}]", ":1: steps.0.each: unknown key (expected step, for_each, limit, beyond, when)"},
        {"steps: [{step: a, for_each: x, limit: 1025}]",
         ":1: steps.0.limit: 1025 is not in 1 to 1024 (expected a number of items)"},
        {"steps: [{step: a, for_each: x, limit: 0}]",
         ":1: steps.0.limit: 0 is not in 1 to 1024 (expected a number of items)"},
        {"steps: [{step: a, for_each: x, beyond: drop}]", ":1: steps.0.beyond: expected refuse or cut"},
        {"steps: [{step: a, when: x, limit: 3}]", ":1: steps.0: limit is for steps with for_each"},
        {"steps: [{step: a, when: x, beyond: cut}]", ":1: steps.0: beyond is for steps with for_each"},
        {"prepare: 3", ":1: prepare: expected a list of at most 256 steps"},
        {"prepare: [x]", ":1: prepare.0: expected a mapping, such as {input: image, step: decode_image}"},
        {"prepare:\n  - {input: x}", ":2: prepare.0: step is missing; there are decode_image and onnx"},
        {"prepare: [{step: resize}]", ":1: prepare.0: step: 'resize' is not known; there are decode_image and onnx"},
        {"prepare: [{step: onnx}]", ":1: prepare.0: model is missing: the name of a file beside the model's own"},
        {"prepare: [{step: onnx, model: ../a.onnx}]",
         ":1: prepare.0: model: '../a.onnx' is not the name of a file beside the model's own"},
        {"prepare: [{step: onnx, model: a.onnx, max_pixels: 4}]",
         ":1: prepare.0: max_pixels is for the step decode_image"},
        {"prepare: [{step: decode_image, model: a.onnx}]", ":1: prepare.0: model is for the step onnx"},
        {"prepare: [{step: decode_image, max_pixels: 268435457}]",
         ":1: prepare.0.max_pixels: 268435457 is not in 1 to 268435456 (expected a number of pixels)"},
        {"shapes: [1]", ":1: shapes: expected a mapping of at most 128 inputs to lists of dimensions"},
        {"shapes:\n  x: 3", ":2: shapes.x: expected a list of 1 to 8 dimensions, without the batch dimension"},
        {"shapes:\n  x: [3, -1]", ":2: shapes.x.1: -1 is not in 1 to 2147483647 (expected a dimension)"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct symphony_yaml yaml;
        struct sy_error err = {""};
        assert_int_equal(settings_read(cases[i].text, &yaml, &err), -EINVAL);
        assert_memory_equal(err.text, path, strlen(path));
        assert_string_equal(err.text + strlen(path), cases[i].want);
    }
}
