/* test_model_config.c - config.pbtxt: the check against ModelConfig, what is honoured, and its fit to the model. */
#include "unit/test.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/util/container.h"
#include "model/config/model_config.h"
#include "specs.h"

static int config_read(const char *text, struct model_config *config, struct sy_error *err) {
    return model_config_read_text("c", text, strlen(text), true, config, err);
}

/* A file as Triton's own examples write it, with much that has no effect here. */
static const char typical[] = "name: \"resnet\"\n"
                              "platform: \"onnxruntime_onnx\"\n"
                              "backend: \"onnxruntime\"\n"
                              "max_batch_size: 8\n"
                              "input [\n"
                              "  { name: \"x\" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 224, 224 ] }\n"
                              "]\n"
                              "output [ { name: \"y\" data_type: TYPE_FP32 dims: [ 10 ] label_filename: \"l.txt\" } ]\n"
                              "dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 }\n"
                              "instance_group [ { kind: KIND_CPU count: 2 } ]\n"
                              "version_policy: { latest { num_versions: 1 } }\n"
                              "parameters { key: \"k\" value: { string_value: \"v\" } }\n"
                              "optimization { execution_accelerators { gpu_execution_accelerator : [ { name : \"t\"\n"
                              "  parameters { key: \"precision_mode\" value: \"FP16\" } } ] } }\n"
                              "model_warmup [ { name: \"w\" batch_size: 1 inputs { key: \"x\" value { data_type: "
                              "TYPE_FP32 dims: 3 dims: 224 dims: 224 zero_data: true } } } ]\n"
                              "a_newer_field { some: 1 }\n";

TEST(typical_files_are_read) {
    struct model_config c;
    struct sy_error err = {""};
    assert_int_equal(config_read(typical, &c, &err), 0);
    assert_string_equal(c.name, "resnet");
    assert_int_equal(c.max_batch_size, 8);
    assert_int_equal(c.max_batch_size_line, 4);
    assert_int_equal(c.input_count, 1);
    assert_string_equal(c.inputs[0].name, "x");
    assert_int_equal(c.inputs[0].type, DATATYPE_FP32);
    assert_int_equal(c.inputs[0].format, IMAGE_NCHW);
    assert_int_equal(c.inputs[0].dim_count, 3);
    assert_int_equal(c.inputs[0].dims[2], 224);
    assert_int_equal(c.output_count, 1);
    assert_int_equal(c.outputs[0].dims[0], 10);
    assert_string_equal(c.outputs[0].label_file, "l.txt");
    assert_int_equal(config_read("", &c, &err), 0);
    assert_int_equal(c.max_batch_size_line, 0);
}

static void unknown_places(void *context, const struct pbtxt_node *node, const char *place) {
    char *text = context;
    sprintf(text + strlen(text), "%s@%u ", place, node->line);
}

TEST(unknown_fields_are_reported_not_refused) {
    static const char text[] = "new: 1\ninput { name: 'x'\n fancy: 2 }\ninstance_group { rate_limiter { odd { } } }";
    struct pbtxt_node *root;
    char places[256] = "";
    assert_int_equal(pbtxt_read("c", text, strlen(text), &root, NULL), 0);
    assert_int_equal(model_config_check("c", root, unknown_places, places, NULL), 0);
    assert_string_equal(places, "new@1 input.fancy@3 instance_group.rate_limiter.odd@4 ");
    pbtxt_free(root);
}

/* What the log, which is standard error, gets while a file is read. */
static void read_log(const char *text, char *log, size_t bytes) {
    struct model_config c;
    int pipe_fds[2], saved = dup(STDERR_FILENO);
    assert_int_equal(pipe(pipe_fds), 0);
    dup2(pipe_fds[1], STDERR_FILENO);
    int rc = model_config_read_text("c", text, strlen(text), false, &c, NULL);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(pipe_fds[1]);
    ssize_t length = read(pipe_fds[0], log, bytes - 1);
    close(pipe_fds[0]);
    model_config_release(&c);
    log[length > 0 ? length : 0] = '\0';
    assert_int_equal(rc, 0);
}

TEST(fields_without_effect_are_warned_of_once) {
    char log[4096];
    read_log(typical, log, sizeof(log));
    assert_non_null(
        strstr(log, "level=warn msg=\"config fields unknown, ignored\" file=\"c\" fields=\"a_newer_field\""));
    assert_non_null(strstr(log, "level=warn msg=\"config fields have no effect yet\" file=\"c\" "
                                "fields=\"parameters, optimization\""));
    read_log("instance_group { kind: KIND_CPU passive: true profile: 'p' }", log, sizeof(log));
    assert_non_null(strstr(log, "fields=\"instance_group.passive, instance_group.profile\""));
    read_log("model_warmup { name: 'w' }", log, sizeof(log));
    assert_non_null(strstr(log, "fields=\"model_warmup of batch_size 0\""));
    read_log("max_batch_size: 4 input { name: 'x' dims: 1 data_type: TYPE_FP32 reshape { } }", log, sizeof(log));
    assert_string_equal(log, "");
    read_log("input { name: 'x' } output { name: 'y' label_filename: 'l' } instance_group { count: 2 } parameters { }\n"
             "model_warmup { batch_size: 1 } ensemble_scheduling { max_inflight_requests: 2 step { model_name: 'a'\n"
             "model_namespace: 'n' input_map { key: 'i' value: 'x' } output_map { key: 'o' value: 'y' } } }",
             log, sizeof(log));
    assert_non_null(strstr(log,
                           "fields=\"ensemble_scheduling.max_inflight_requests, "
                           "ensemble_scheduling.step.model_namespace, instance_group, parameters, model_warmup\""));
}

TEST(version_policies_are_read) {
    struct model_config c;
    assert_int_equal(config_read("", &c, NULL), 0);
    assert_int_equal(c.versions.choice, VERSIONS_LATEST);
    assert_int_equal(config_read("version_policy { latest { num_versions: 3 } }", &c, NULL), 0);
    assert_int_equal(c.versions.choice, VERSIONS_LATEST);
    assert_int_equal(c.versions.latest, 3);
    assert_int_equal(config_read("version_policy: { all { } }", &c, NULL), 0);
    assert_int_equal(c.versions.choice, VERSIONS_ALL);
    assert_int_equal(config_read("version_policy { specific { versions: [ 1, 4 ] } }", &c, NULL), 0);
    assert_int_equal(c.versions.choice, VERSIONS_SPECIFIC);
    assert_int_equal(c.versions.specific_count, 2);
    assert_int_equal(c.versions.specific[1], 4);
}

static struct instance_groups groups_of(const char *text) {
    static struct model_config c;
    assert_int_equal(model_config_read_text("c", text, strlen(text), true, &c, NULL), 0);
    return c.instances;
}

TEST(instance_groups_say_where_a_model_runs) {
    static const struct {
        const char *text;
        struct instance_groups groups;
    } cases[] = {
        {"", {INSTANCES_ANYWHERE, 0, 0}},
        {"instance_group { count: 2 }", {INSTANCES_ANYWHERE, 0, 0}},
        {"instance_group { kind: KIND_AUTO }", {INSTANCES_ANYWHERE, 0, 0}},
        {"instance_group { kind: KIND_MODEL gpus: 1 }", {INSTANCES_ANYWHERE, 2, 2}},
        {"instance_group { kind: KIND_CPU count: 2 }", {INSTANCES_ON_CPUS, 0, 0}},
        {"instance_group [ { kind: KIND_CPU }, { kind: KIND_CPU } ]", {INSTANCES_ON_CPUS, 0, 0}},
        {"instance_group { kind: KIND_GPU }", {INSTANCES_ON_GPUS, 0, 0}},
        {"instance_group { kind: KIND_AUTO gpus: 0 }", {INSTANCES_ON_GPUS, 1, 1}},
        {"instance_group [ { gpus: [ 0, 5, 2 ] }, { kind: KIND_GPU } ]", {INSTANCES_ON_GPUS, 6, 0x25}},
        {"instance_group { gpus: [ 63, 64 ] }", {INSTANCES_ON_GPUS, 65, (uint64_t)1 << 63}},
        {"instance_group { gpus: 2147483647 }", {INSTANCES_ON_GPUS, 2147483648, 0}},
        {"instance_group [ { kind: KIND_CPU }, { kind: KIND_GPU } ]", {INSTANCES_ANYWHERE, 0, 0}},
        {"instance_group [ { kind: KIND_CPU }, { gpus: 0 }, { kind: KIND_CPU } ]", {INSTANCES_ANYWHERE, 1, 1}},
        {"instance_group [ { }, { kind: KIND_GPU } ]", {INSTANCES_ANYWHERE, 0, 0}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct instance_groups groups = groups_of(cases[i].text);
        if (groups.kind != cases[i].groups.kind || groups.gpus != cases[i].groups.gpus ||
            groups.gpus_named != cases[i].groups.gpus_named)
            fail_msg("%s: kind %d, %u GPUs, %llx", cases[i].text, (int)groups.kind, groups.gpus,
                     (unsigned long long)groups.gpus_named);
    }
}

TEST(wrong_files_are_refused) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"name: resnet", "c:1:1: name: expected a string in quotes, found a word resnet"},
        {"max_batch_size: '8'", "c:1:1: max_batch_size: expected a whole number, found '8'"},
        {"max_batch_size: 1.5", "c:1:1: max_batch_size: expected a whole number, found '1.5'"},
        {"max_batch_size: -1", "c:1:1: max_batch_size: -1 is not in 0 to 2147483647"},
        {"max_batch_size: 2147483648", "c:1:1: max_batch_size: 2147483648 is not in -2147483648 to 2147483647"},
        {"max_batch_size: 1\nmax_batch_size: 2", "c:2:1: max_batch_size is given twice"},
        {"max_batch_size { }", "c:1:1: max_batch_size: expected a whole number"},
        {"input: 1", "c:1:1: input: expected a message in { }, found a number 1"},
        {"input { data_type: TYPE_FP32 }", "c:1:1: input: name is missing"},
        {"input { name: 'x' } input { name: 'x' }", "c:1:21: input 'x' is given twice"},
        {"input { name: 'x' dims: [3, 0] }", "c:1:29: input 'x': a dimension is -1 (any size) or positive, not 0"},
        {"input { name: 'x' dims: -2 }", "c:1:19: dims: -2 is not in -1 to 2147483647"},
        {"input { name: 'x' dims: [1,1,1,1,1,1,1,1,1] }", "c:1:42: input 'x': more than 8 dimensions"},
        {"input { name: 'x' reshape { shape: 1 } }", "c:1:19: input 'x': reshape without dims"},
        {"input { name: 'x' dims: 1 reshape { shape: 0 } }",
         "c:1:37: input 'x': a dimension is -1 (any size) or positive, not 0"},
        {"input { name: 'x' dims: 1 reshape { shape: [1,1,1,1,1,1,1,1,1] } }",
         "c:1:61: input 'x': more than 8 dimensions"},
        {"output { name: 'y' dims: [ 2, 3 ] reshape { shape: 5 } }",
         "c:1:35: 'y': reshape is [5], which has other numbers of elements, or of dimensions of any size, than dims, "
         "[2,3]"},
        {"output { name: 'y' dims: 2 reshape { } }",
         "c:1:28: 'y': reshape is [], which has other numbers of elements, or of dimensions of any size, than dims, "
         "[2]"},
        {"output { name: 'y' dims: [ -1, 4, -1 ] reshape { shape: [ -1, 4 ] } }",
         "c:1:40: 'y': reshape is [-1,4], which has other numbers of elements, or of dimensions of any size, than "
         "dims, "
         "[-1,4,-1]"},
        {"output { name: 'y' dims: [ 2, -1, 3 ] reshape { shape: [ 3, -1, 2 ] } }",
         "c:1:39: 'y': reshape is [3,-1,2], which has other numbers of elements, or of dimensions of any size, than "
         "dims, "
         "[2,-1,3]"},
        {"input { name: 'x' format: NCHW }",
         "c:1:19: format: expected FORMAT_NONE, FORMAT_NHWC, FORMAT_NCHW, found a word NCHW"},
        {"input { name: 'x' optional: maybe }", "c:1:19: optional: expected true or false, found a word maybe"},
        {"platform: 'tensorrt_plan'",
         "c:1:1: platform is 'tensorrt_plan', but this server runs 'onnxruntime_onnx' only"},
        {"backend: 'python'", "c:1:1: backend is 'python', but this server runs 'onnxruntime' only"},
        {"default_model_filename: '../x'", "c:1:1: default_model_filename: '../x' is not a plain file name"},
        {"output { name: 'y' label_filename: '/etc/passwd' }",
         "c:1:20: label_filename: '/etc/passwd' is not within the model's folder"},
        {"output { name: 'y' label_filename: 'a/../../b' }",
         "c:1:20: label_filename: 'a/../../b' is not within the model's folder"},
        {"input { name: 'x' allow_ragged_batch: true }",
         "c:1:19: allow_ragged_batch: this server batches only inputs of the same shape"},
        {"batch_input { kind: BATCH_ELEMENT_COUNT target_name: 'n' data_type: TYPE_FP32 source_input: 'x' }",
         "c:1:1: batch_input: this server makes no such tensors of a batch"},
        {"batch_output { target_name: 'n' kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: 'x' }",
         "c:1:1: batch_output: this server makes no such tensors of a batch"},
        {"sequence_batching { state { input_name: 's' output_name: 't' data_type: TYPE_FP32 dims: 1 } }",
         "c:1:21: sequence_batching: state: this server keeps no state of sequences"},
        {"sequence_batching { control_input { name: 's' control { kind: CONTROL_SEQUENCE_START } } }",
         "c:1:21: sequence_batching: control_input: this server keeps no state of sequences"},
        {"model_transaction_policy { decoupled: true }",
         "c:1:28: decoupled: this server gives each request one answer"},
        {"dynamic_batching { }\nsequence_batching { }",
         "c:2:1: sequence_batching and dynamic_batching exclude each other"},
        {"name: 'e'\nplatform: 'ensemble'", "c:2:1: platform: an ensemble needs ensemble_scheduling"},
        {"ensemble_scheduling { }\nplatform: 'onnxruntime_onnx'",
         "c:2:1: platform is 'onnxruntime_onnx', but with ensemble_scheduling it is 'ensemble'"},
        {"ensemble_scheduling { }\nbackend: 'python'", "c:2:1: backend is 'python', but an ensemble has none"},
        {"ensemble_scheduling { }\ndynamic_batching { }",
         "c:2:1: dynamic_batching and ensemble_scheduling exclude each other"},
        {"ensemble_scheduling { step { } }", "c:1:1: ensemble_scheduling: the ensemble has no input"},
        {"version_policy { latest { num_versions: 0 } }", "c:1:27: num_versions: 0 is not in 1 to 4294967295"},
        {"version_policy { specific { } }", "c:1:18: specific: versions is missing"},
        {"version_policy { specific { versions: [1, 0] } }", "c:1:43: versions: 0 is not in 1 to 4294967295"},
        {"version_policy { all { } latest { } }", "c:1:26: latest and all exclude each other"},
        {"instance_group { count: -1 }", "c:1:18: count: -1 is not in 0 to 2147483647"},
        {"instance_group { gpus: [0, -1] }", "c:1:28: gpus: -1 is not in 0 to 2147483647"},
        {"instance_group { kind: KIND_CPU gpus: 0 }", "c:1:33: gpus: an instance_group of kind KIND_CPU has none"},
        {"instance_group { kind: KIND_TPU }",
         "c:1:18: kind: expected KIND_AUTO, KIND_GPU, KIND_CPU, KIND_MODEL, found a word KIND_TPU"},
        {"instance_group { count: two }", "c:1:18: count: expected a whole number, found 'two'"},
        {"name: 'a\\000b'", "c:1:1: name: a zero byte in a text"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct model_config c;
        struct sy_error err = {""};
        assert_int_equal(config_read(cases[i].text, &c, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].want);
    }
}

/* x: FP32 [-1,3,-1], mask: INT64 [-1]; y: FP32 [-1,10] */
static const struct signature model = {
    .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 3, .dims = {-1, 3, -1}},
                    {.name = "mask", .type = DATATYPE_INT64, .dim_count = 1, .dims = {-1}}),
    .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 10}}),
    .input_count = 2,
    .output_count = 1,
    .batched = true,
    .variable_shapes = true,
};

static struct signature_room room; /* the one signature that is narrowed */

static int config_apply(const char *text, struct signature *s, struct sy_error *err) {
    struct model_config c;
    int rc = config_read(text, &c, err);
    return rc ? rc : model_config_apply(&c, s, err);
}

TEST(fitting_files_narrow_the_signature) {
    static const struct {
        const char *text;
        bool batched, variable;
        int64_t dims[3]; /* of x */
    } cases[] = {
        {"", true, true, {-1, 3, -1}},
        {"max_batch_size: 4", true, true, {-1, 3, -1}},
        {"max_batch_size: 0", false, true, {-1, 3, -1}},
        {"max_batch_size: 4 input { name: 'x' dims: [3, 7] } input { name: 'mask' }", true, false, {-1, 3, 7}},
        {"max_batch_size: 4 input { name: 'x' dims: [3, -1] } input { name: 'mask' }", true, true, {-1, 3, -1}},
        {"input { name: 'x' dims: [3, 7] } input { name: 'mask' }", true, false, {-1, 3, 7}},
        {"input { name: 'x' dims: [-1, 3, 7] } input { name: 'mask' dims: -1 }", true, false, {-1, 3, 7}},
        {"input { name: 'x' dims: [1, 3, 7] } input { name: 'mask' dims: 1 }", false, false, {1, 3, 7}},
        {"max_batch_size: 0 input { name: 'x' dims: [2, 3, 7] } input { name: 'mask' dims: 2 }",
         false,
         false,
         {2, 3, 7}},
        {"output { name: 'y' data_type: TYPE_FP32 dims: 10 }", true, true, {-1, 3, -1}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct signature s = *signature_room_fill(&room, &model);
        struct sy_error err = {""};
        assert_int_equal(config_apply(cases[i].text, &s, &err), 0);
        assert_int_equal(s.batched, cases[i].batched);
        assert_int_equal(s.variable_shapes, cases[i].variable);
        assert_memory_equal(s.inputs[0].dims, cases[i].dims, sizeof(cases[i].dims));
    }
}

/* x, and two inputs that the model has values for. */
static const struct signature affine = {
    .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}},
                    {.name = "scale", .type = DATATYPE_FP32, .dim_count = 1, .dims = {1}},
                    {.name = "offset", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}}),
    .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}}),
    .input_count = 3,
    .output_count = 1,
    .inputs_optional = 6,
    .batched = true,
};

TEST(optional_inputs_are_those_that_the_file_names) {
    static const struct {
        const char *text;
        uint32_t count, optional;
        bool batched, variable;
    } cases[] = {
        {"", 1, 0, true, false},
        {"input { name: 'x' }", 1, 0, true, false},
        {"input { name: 'x' } input { name: 'offset' optional: true }", 2, 2, true, true},
        {"input { name: 'x' } input { name: 'scale' optional: true }", 2, 2, false, true},
        {"input { name: 'scale' optional: true } input { name: 'x' } input { name: 'offset' }", 3, 2, false, true},
        {"input { name: 'x' optional: false } input { name: 'offset' optional: false }", 2, 0, true, false},
    };
    struct sy_error err = {""};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct signature s = *signature_room_fill(&room, &affine);
        assert_int_equal(config_apply(cases[i].text, &s, &err), 0);
        assert_int_equal(s.input_count, cases[i].count);
        assert_int_equal(s.inputs_optional, cases[i].optional);
        assert_int_equal(s.batched, cases[i].batched);
        assert_int_equal(s.variable_shapes, cases[i].variable || !cases[i].batched);
    }
    struct signature s = *signature_room_fill(&room, &affine);
    assert_int_equal(config_apply("input { name: 'x' optional: true }", &s, &err), -EINVAL);
    assert_string_equal(err.text, "c:1:1: input 'x' is optional, but the model has no value of its own for it");
    s = *signature_room_fill(&room, &affine);
    assert_int_equal(
        config_apply("max_batch_size: 4 input { name: 'x' } input { name: 'scale' optional: true }", &s, &err),
        -EINVAL);
    assert_string_equal(err.text, "c:1:1: max_batch_size is 4, but an optional input has no batch dimension");
}

/* What clients see of an input and an output, and the model file's shape of it. */
TEST(reshaped_tensors_have_two_shapes) {
    const struct signature files[] = {
        {.inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 0, .dims = {0}}),
         .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}}),
         .input_count = 1,
         .output_count = 1},
        {.inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 4, .dims = {1, 3, 8, 8}}),
         .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 4, .dims = {1, 3, 1, 1}}),
         .input_count = 1,
         .output_count = 1},
        {.inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 1, .dims = {-1}}),
         .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 3, .dims = {-1, -1, 4}}),
         .input_count = 1,
         .output_count = 1,
         .batched = true},
    };
    static const struct {
        uint32_t file;
        const char *text;
        bool reshaped, batched;
        uint32_t dim_count, y_dim_count;
        int64_t dims[4], y_dims[4], y_file_dims[4];
    } cases[] = {
        {0, "input { name: 'x' dims: 1 }", true, false, 1, 2, {1}, {-1, 2}, {0}},
        {0, "input { name: 'x' dims: 1 reshape { shape: [] } }", true, false, 1, 2, {1}, {-1, 2}, {0}},
        {0, "input { name: 'x' }", false, false, 0, 2, {0}, {-1, 2}, {0}},
        {1,
         "max_batch_size: 0 input { name: 'x' dims: [ 3, 8, 8 ] reshape { shape: [ 1, 3, 8, 8 ] } }"
         "output { name: 'y' dims: 3 reshape { shape: [ 1, 3, 1, 1 ] } }",
         true,
         false,
         3,
         1,
         {3, 8, 8},
         {3},
         {1, 3, 1, 1}},
        {2,
         "max_batch_size: 4 input { name: 'x' dims: 1 reshape { } }"
         "output { name: 'y' dims: [ 1, -1, 2, 2 ] reshape { shape: [ -1, 4 ] } }",
         true,
         true,
         2,
         5,
         {-1, 1},
         {-1, 1, -1, 2},
         {-1, -1, 4}},
        {2,
         "input { name: 'x' dims: 1 reshape { } } output { name: 'y' dims: 12 reshape { shape: [ 3, 4 ] } }",
         true,
         true,
         2,
         2,
         {-1, 1},
         {-1, 12},
         {-1, 3, 4}},
        {2,
         "max_batch_size: 0 input { name: 'x' dims: [ 5, 1 ] reshape { shape: 5 } }",
         true,
         false,
         2,
         3,
         {5, 1},
         {-1, -1, 4},
         {0}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct signature s = *signature_room_fill(&room, &files[cases[i].file]);
        struct sy_error err = {""};
        if (config_apply(cases[i].text, &s, &err))
            fail_msg("%s: %s", cases[i].text, err.text);
        const struct tensor_spec *x = &s.inputs[0], *y = &s.outputs[0];
        assert_int_equal(s.batched, cases[i].batched);
        assert_int_equal(x->reshaped, cases[i].reshaped);
        assert_int_equal(x->dim_count, cases[i].dim_count);
        assert_memory_equal(x->dims, cases[i].dims, cases[i].dim_count * sizeof(x->dims[0]));
        assert_int_equal(x->file_dim_count, x->reshaped ? files[cases[i].file].inputs[0].dim_count : 0);
        assert_int_equal(y->reshaped, cases[i].y_file_dims[0] != 0);
        assert_int_equal(y->dim_count, cases[i].y_dim_count);
        assert_memory_equal(y->dims, cases[i].y_dims, (y->dim_count < 4 ? y->dim_count : 4) * sizeof(y->dims[0]));
        assert_memory_equal(y->file_dims, cases[i].y_file_dims, y->file_dim_count * sizeof(y->dims[0]));
    }
}

/* a, b, and a number that has no batch dimension */
static const struct signature three = {
    .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}}),
    .outputs = SPECS({.name = "a", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}},
                     {.name = "b", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 3}},
                     {.name = "t", .type = DATATYPE_FP32, .dim_count = 0, .dims = {0}}),
    .input_count = 1,
    .output_count = 3,
};

TEST(outputs_are_those_of_the_file_in_its_order) {
    static const struct {
        const char *text, *names;
        bool chosen, batched;
    } cases[] = {
        {"", "abt", false, false},
        {"output { name: 'a' } output { name: 'b' } output { name: 't' }", "abt", false, false},
        {"output { name: 'a' }", "a", true, true},
        {"max_batch_size: 4 output { name: 'b' dims: 3 } output { name: 'a' dims: 2 }", "ba", true, true},
        {"max_batch_size: 0 output { name: 'b' dims: [ -1, 3 ] }", "b", true, false},
        {"output { name: 't' dims: 1 } output { name: 'a' } output { name: 'b' }", "tab", true, false},
    };
    struct sy_error err = {""};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct signature s = *signature_room_fill(&room, &three);
        if (config_apply(cases[i].text, &s, &err))
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_int_equal(s.output_count, strlen(cases[i].names));
        for (uint32_t k = 0; k < s.output_count; k++)
            assert_int_equal(s.outputs[k].name[0], cases[i].names[k]);
        assert_int_equal(s.outputs_chosen, cases[i].chosen);
        assert_int_equal(s.batched, cases[i].batched);
    }
    struct signature s = *signature_room_fill(&room, &three);
    assert_int_equal(config_apply("max_batch_size: 4 output { name: 'a' } output { name: 't' }", &s, &err), -EINVAL);
    assert_non_null(strstr(err.text, "no common batch dimension"));
}

/* Without an input that a request must have, nobody can say how many items it has. */
TEST(models_without_inputs_are_not_batched) {
    const struct signature of_weights = {
        .inputs = SPECS({.name = "w", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}}),
        .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}}),
        .input_count = 1,
        .output_count = 1,
        .inputs_optional = 1};
    static const struct {
        const char *text;
        uint32_t count;
        bool batched;
    } cases[] = {
        {"", 0, false},
        {"input { name: 'w' optional: true }", 1, false},
        {"max_batch_size: 8 input { name: 'w' dims: 2 }", 1, true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct signature s = *signature_room_fill(&room, &of_weights);
        struct sy_error err = {""};
        if (config_apply(cases[i].text, &s, &err))
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_int_equal(s.input_count, cases[i].count);
        assert_int_equal(s.batched, cases[i].batched);
    }
}

TEST(mismatches_name_both_values) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"input { name: 'z' }", "c:1:1: the model has no input 'z' (it has 2, the first is 'x')"},
        {"output { name: 'x' }", "c:1:1: the model has no output 'x' (it has 1, the first is 'y')"},
        {"input { name: 'x' data_type: TYPE_UINT8 }", "c:1:1: input 'x': data_type is UINT8, but the model's is FP32"},
        {"input { name: 'x' data_type: TYPE_STRING }", "c:1:1: input 'x': data_type is BYTES, but the model's is FP32"},
        {"\n input { name: 'x' }", "c:2:2: 1 inputs are given, but the model has 2"},
        {"max_batch_size: 4 input { name: 'x' dims: [4, 7] }",
         "c:1:19: input 'x': dims are [4,7], but the model's are [3,-1] behind the batch dimension"},
        {"max_batch_size: 4 input { name: 'x' dims: [-1, 3, 7] }",
         "c:1:19: input 'x': dims are [-1,3,7], but the model's are [3,-1] behind the batch dimension"},
        {"max_batch_size: 0 input { name: 'x' dims: [3, 7] }",
         "c:1:19: input 'x': dims are [3,7], but the model's are [-1,3,-1]"},
        {"input { name: 'x' dims: [-1, 7] }",
         "c:1:1: input 'x': dims are [-1,7], but the model's are [3,-1] behind the batch dimension"},
        {"max_batch_size: 4 input { name: 'x' dims: [ 6, -1 ] reshape { shape: [ 2, 3, -1 ] } }",
         "c:1:19: input 'x': the dims of reshape are [2,3,-1], but the model's are [3,-1] behind the batch dimension"},
        {"max_batch_size: 4 input { name: 'x' dims: [1,1,1,1,1,1,3,-1] reshape { shape: [ 3, -1 ] } }",
         "c:1:19: input 'x': more than 8 dimensions with the batch's"},
        {"output { name: 'y' dims: [-1, -1] }", "c:1:1: output 'y': dims are [-1,-1], but the model's are [-1,10]"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct signature s = *signature_room_fill(&room, &model);
        struct sy_error err = {""};
        assert_int_equal(config_apply(cases[i].text, &s, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].want);
    }
    struct signature unbatched = *signature_room_fill(&room, &model);
    struct sy_error err = {""};
    unbatched.batched = false;
    unbatched.outputs[0].dims[0] = 5;
    assert_int_equal(config_apply("max_batch_size: 4", &unbatched, &err), -EINVAL);
    assert_string_equal(err.text, "c:1:1: max_batch_size is 4, but the model's inputs and outputs have no common batch "
                                  "dimension; without one it must be 0");
}
