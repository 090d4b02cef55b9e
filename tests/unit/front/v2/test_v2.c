/* test_v2.c - paths to routes, and the answers of everything but infer. */
#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "front/v2/v2.h"
#include "model/repository/start_progress.h"
#include "specs.h"

static struct served_model models[] = {
    {.name = "a", .version = 1, .platform = "onnxruntime_onnx", .state = MODEL_READY},
    {.name = "b", .version = 2, .platform = "emulated", .state = MODEL_LOADING},
    {.name = "a",
     .version = 3,
     .platform = "onnxruntime_onnx",
     .batch_max = 8,
     .slo_ns = 25000000,
     .queue = {.priorities = 2,
               .priority_default = 2,
               .wait_ns = 300000,
               .rules = {{.delay = true}, {.timeout_ns = 2000000, .may_shorten = true, .queue_max = 16}},
               .preferred = {4, 8},
               .preferred_count = 2},
     .state = MODEL_READY,
     .formats = (uint8_t[1]){0},
     .label_files = (const char *[1]){NULL},
     .signature = {.input_count = 1,
                   .output_count = 1,
                   .batched = true,
                   .inputs = SPECS({.name = "x \"quoted\"", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 4}}),
                   .outputs = SPECS({.name = "y\xff", .type = DATATYPE_BYTES, .dim_count = 2, .dims = {-1, -1}})}},
    {.name = "gone", .version = 1, .state = MODEL_UNAVAILABLE, .reason = "it is \"broken\""},
};

static int setup(void **state) {
    struct model_index *index = malloc(sizeof(*index));
    *state = index;
    return model_index_init(index, models, ARRAY_COUNT(models));
}

static int teardown(void **state) {
    model_index_destroy(*state);
    free(*state);
    return 0;
}

TEST(paths_become_routes) {
    static const struct {
        const char *method, *path;
        enum v2_kind kind;
        int model;
    } cases[] = {
        {"GET", "/v2", V2_SERVER, -1},
        {"GET", "/v2/", V2_SERVER, -1},
        {"HEAD", "/v2", V2_SERVER, -1},
        {"POST", "/v2", V2_WRONG_VERB, -1},
        {"GET", "/v2x", V2_NOT_FOUND, -1},
        {"GET", "/", V2_ROOT, -1},
        {"HEAD", "http://server/", V2_ROOT, -1},
        {"POST", "/", V2_NOT_FOUND, -1},
        {"POST", "/v1/models/a:predict", V2_VERSION_1, -1},
        {"GET", "/v1", V2_NOT_FOUND, -1},
        {"GET", "", V2_NOT_FOUND, -1},
        {"GET", "/v2/health/live", V2_LIVE, -1},
        {"GET", "/v2/health/ready", V2_READY, -1},
        {"GET", "/v2/health", V2_NOT_FOUND, -1},
        {"GET", "/v2/health/ready/", V2_NOT_FOUND, -1},
        {"GET", "/v2/models", V2_MODELS, -1},
        {"GET", "/v2/models/", V2_MODELS, -1},
        {"POST", "/v2/models", V2_WRONG_VERB, -1},
        {"POST", "/v2/models/a/generate", V2_GENERATE, -1},
        {"POST", "/v2/models/a/versions/1/generate_stream", V2_GENERATE, -1},
        {"GET", "/v2/models/a", V2_MODEL, 2},
        {"GET", "/v2/models/a/versions/1", V2_MODEL, 0},
        {"GET", "/v2/models/a/versions/2", V2_MODEL, -1},
        {"GET", "/v2/models/a/versions/0", V2_MODEL, -1},
        {"GET", "/v2/models/a/versions/4294967297", V2_MODEL, -1},
        {"GET", "/v2/models/a/versions/99999999999999999999999999", V2_MODEL, -1},
        {"GET", "/v2/models/a/versions/1x", V2_NOT_FOUND, -1},
        {"GET", "/v2/models/a/versions/", V2_NOT_FOUND, -1},
        {"GET", "/v2/models/a/versions", V2_NOT_FOUND, -1},
        {"GET", "/v2/models/ab", V2_MODEL, -1},
        {"GET", "/v2/models/a/ready", V2_MODEL_READY, 2},
        {"GET", "/v2/models/b/config", V2_MODEL_CONFIG, 1},
        {"POST", "/v2/models/a/infer", V2_INFER, 2},
        {"POST", "/v2/models/a/versions/1/infer", V2_INFER, 0},
        {"GET", "/v2/models/a/infer", V2_WRONG_VERB, 2},
        {"POST", "/v2/models/a/infer/", V2_NOT_FOUND, -1},
        {"POST", "/v2/models/a/other", V2_NOT_FOUND, -1},
        {"GET", "/v2/models/stats", V2_STATISTICS_ALL, -1},
        {"GET", "/v2/models/a/stats", V2_STATISTICS, 2},
        {"GET", "/v2/models/a/versions/1/stats", V2_STATISTICS, 0},
        {"POST", "/v2/models/a/trace/setting", V2_MODEL_TRACE, 2},
        {"POST", "/v2/trace/setting", V2_TRACE, -1},
        {"PUT", "/v2/logging", V2_WRONG_VERB, -1},
        {"POST", "/v2/repository/models/a/load", V2_LOAD, -1},
        {"POST", "/v2/repository/main/models/a/unload", V2_UNLOAD, -1},
        {"POST", "/v2/cudasharedmemory/unregister", V2_CUDA_UNREGISTER, -1},
        {"GET", "/v2/cudasharedmemory/region/r/status", V2_CUDA_REGION, -1},
        {"POST", "/v2/repository/index", V2_INDEX, -1},
        {"POST", "/v2/repository/main/index", V2_INDEX, -1},
        {"POST", "/v2/repository/index/x/y", V2_NOT_FOUND, -1},
        {"GET", "/v2/repository/index", V2_WRONG_VERB, -1},
        {"GET", "http://server:8000/v2/health/live", V2_LIVE, -1},
        {"POST", "HTTPS://server/v2/models/a/infer", V2_INFER, 2},
        {"GET", "http://server", V2_NOT_FOUND, -1},
        {"GET", "http:///v2", V2_SERVER, -1},
        {"GET", "ftp://server/v2", V2_NOT_FOUND, -1},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct v2_route route;
        v2_route(&route, *state, cases[i].method, cases[i].path);
        if (route.kind != cases[i].kind || route.model != cases[i].model)
            fail_msg("%s %s: kind %d of model %d", cases[i].method, cases[i].path, (int)route.kind, route.model);
    }
}

TEST(many_models_are_found) {
    enum { COUNT = 500 };
    struct served_model *many = calloc(COUNT, sizeof(*many));
    struct model_index index;
    for (int i = 0; i < COUNT; i++) {
        snprintf(many[i].name, sizeof(many[i].name), "model-%d", i);
        many[i].version = 1;
    }
    strcpy(many[7].name, many[400].name); /* two versions of one name */
    many[7].version = 2;
    assert_int_equal(model_index_init(&index, many, COUNT), 0);
    for (int i = 0; i < COUNT; i++) {
        struct model_versions versions = model_index_versions(&index, many[i].name, strlen(many[i].name));
        bool two = i == 7 || i == 400;
        assert_int_equal(model_index_number(&index, many[i].name, strlen(many[i].name), many[i].version), i);
        assert_int_equal(model_index_number(&index, many[i].name, strlen(many[i].name), 0), two ? 7 : i);
        assert_int_equal(model_versions_next(&versions), two ? 7 : i);
        assert_int_equal(model_versions_next(&versions), two ? 400 : -1);
        assert_int_equal(model_versions_next(&versions), -1);
    }
    assert_int_equal(model_index_number(&index, "model-", 6, 0), -1);
    assert_int_equal(model_index_number(&index, "model-7", 7, 0), -1);
    model_index_destroy(&index);
    free(many);
}

static void check_answer(const struct model_index *index, const char *method, const char *path, const char *body,
                         const struct v2_server *server, unsigned status, const char *want) {
    struct v2_answer answer = {0};
    struct v2_route route;
    v2_route(&route, index, method, path);
    v2_answer(&answer, &route, server, body, strlen(body));
    const char *text = text_end(&answer.text);
    if (answer.status != status || !strstr(text, want))
        fail_msg("%s %s: %u %s", method, path, answer.status, text);
    if (route.kind == V2_WRONG_VERB)
        assert_non_null(answer.allow);
    text_free(&answer.text);
}

/* Of two versions that share requests each gets its part, evenly spread. */
TEST(versions_take_turns) {
    struct served_model *versions = calloc(4, sizeof(*versions));
    struct model_index index;
    uint32_t to_two = 0;
    assert_non_null(versions);
    for (uint32_t v = 0; v < 4; v++) {
        strcpy(versions[v].name, v < 3 ? "m" : "other");
        versions[v].version = v + 1;
        atomic_init(&versions[v].state, MODEL_READY);
        atomic_init(&versions[v].begins, v == 1 || v == 2);
    }
    assert_int_equal(model_index_init(&index, versions, 4), 0);
    assert_int_equal(model_index_number(&index, "m", 1, 0), 0);
    assert_int_equal(model_index_turn(&index, 0), 0);
    atomic_store(&versions[0].share, 7500);
    assert_int_equal(model_index_turn(&index, 0), 0); /* nobody has the rest yet */
    atomic_store(&versions[1].share, 2500);
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t place = model_index_turn(&index, 0);
        assert_int_equal(place, i % 4 == 3);
        to_two += place;
    }
    assert_int_equal(to_two, 10);
    assert_int_equal(model_index_turn(&index, 3), 3);
    atomic_store(&versions[1].state, MODEL_LOADING);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(model_index_turn(&index, 0), 0);
    model_index_destroy(&index);
    free(versions);
}

/* Some are listed, others known and not there. */
TEST(those_listed_and_those_absent) {
    static const uint32_t listed[] = {2, 3};
    static const struct model_absent absent[] = {
        {.name = "soon", .state = MODEL_LOADING},
        {.name = "measured", .version = 2, .state = MODEL_LOADING, .reason = "its profile is being measured"},
        {.name = "was", .version = 4, .state = MODEL_UNLOADING},
        {.name = "wrong", .version = 5, .state = MODEL_UNAVAILABLE, .failed = true, .reason = "no such operator"},
        {.name = "idle", .state = MODEL_UNAVAILABLE, .reason = "unloaded"},
    };
    struct model_index index;
    const struct v2_server up = {.models = &index, .ready = true};
    struct model_absent *own = malloc(sizeof(absent));
    memcpy(own, absent, sizeof(absent));
    assert_int_equal(model_index_init_listed(&index, models, listed, ARRAY_COUNT(listed), own, ARRAY_COUNT(absent)), 0);
    assert_int_equal(model_index_number(&index, "a", 1, 0), 2);
    assert_int_equal(model_index_number(&index, "b", 1, 0), -1);
    check_answer(&index, "GET", "/v2/models/a", "", &up, 200, "\"versions\":[\"3\"]");
    check_answer(&index, "GET", "/v2/models/soon", "", &up, 503,
                 "Request for unknown model: 'soon' has no available versions: it is still loading");
    check_answer(&index, "GET", "/v2/models/measured/versions/2/ready", "", &up, 503,
                 "it is still loading: its profile is being measured");
    check_answer(&index, "GET", "/v2/models/measured/versions/1", "", &up, 404, "version 1 is not found");
    check_answer(&index, "GET", "/v2/models/was", "", &up, 404, "not loaded");
    check_answer(&index, "GET", "/v2/models/wrong", "", &up, 503, "no such operator");
    check_answer(&index, "GET", "/v2/models/idle", "", &up, 404, "not loaded");
    check_answer(&index, "GET", "/v2/models/none", "", &up, 404, "Request for unknown model: 'none' is not found");
    check_answer(
        &index, "POST", "/v2/repository/index", "", &up, 200,
        "{\"name\":\"soon\",\"state\":\"LOADING\"},"
        "{\"name\":\"measured\",\"version\":\"2\",\"state\":\"LOADING\",\"reason\":\"its profile is being measured\"},"
        "{\"name\":\"was\",\"version\":\"4\",\"state\":\"UNLOADING\"},"
        "{\"name\":\"wrong\",\"version\":\"5\",\"state\":\"UNAVAILABLE\",\"reason\":\"no such operator\"}");
    check_answer(&index, "POST", "/v2/repository/index", "{\"ready\":true}", &up, 200,
                 "[{\"name\":\"a\",\"version\":\"3\",\"state\":\"READY\"}]");
    check_answer(&index, "GET", "/v2/models", "", &up, 200,
                 "[\"a\",\"gone\",\"soon\",\"measured\",\"was\",\"wrong\",\"idle\"],\"not_ready\":[");
    model_index_destroy(&index);
}

TEST(answers) {
    static const struct start_progress start = {.all = 100, .awaited = 98, .profiles = true, .left_s = 40}, not_begun,
                                       over = {.over = true};
    const struct v2_server up = {.models = *state, .ready = true, .start = &over},
                           unable = {.models = *state, .start = &over},
                           starting = {.models = *state, .start = &not_begun},
                           profiling = {.models = *state, .start = &start},
                           draining = {.models = *state, .ready = true, .draining = true},
                           clustered = {.models = *state, .ready = true, .of_cluster = true};
    const struct {
        const char *method, *path, *body;
        const struct v2_server *server;
        unsigned status;
        const char *want;
    } cases[] = {
        {"GET", "/v2", "", &up, 200, "{\"name\":\"symphony\",\"version\":"},
        {"GET", "/v2/health/live", "", &starting, 200, "{\"live\":true}"},
        {"GET", "/v2/health/ready", "", &starting, 503, "{\"ready\":false}"},
        {"GET", "/v2/health/ready", "", &unable, 400, "{\"ready\":false}"},
        {"GET", "/v2/health/ready", "", &profiling, 503,
         "{\"ready\":false,\"waits_for\":\"profiling 3 of 100, 40 s left\"}"},
        {"GET", "/v2/health/ready", "", &up, 200, "{\"ready\":true}"},
        {"GET", "/v2/health/ready", "", &draining, 503, "{\"ready\":false}"},
        {"GET", "/v2/models/a", "", &up, 200, "\"versions\":[\"1\",\"3\"]"},
        {"GET", "/v2/models/a/versions/3", "", &up, 200, "\"versions\":[\"3\"]"},
        {"GET", "/v2/models/a", "", &up, 200, "{\"name\":\"x \\\"quoted\\\"\",\"datatype\":\"FP32\",\"shape\":[-1,4]"},
        {"GET", "/v2/models/a", "", &up, 200, "\"slo_ms\":25.0,\"max_batch_size\":8"},
        {"GET", "/v2/models/a/config", "", &up, 200,
         "\"data_type\":\"TYPE_FP32\",\"format\":\"FORMAT_NONE\",\"dims\":[4]"},
        {"GET", "/v2/models/a/config", "", &up, 200, "\"platform\":\"onnxruntime_onnx\",\"max_batch_size\":8"},
        {"GET", "/v2/models/a/config", "", &up, 200, "\"data_type\":\"TYPE_STRING\",\"dims\":[-1]"},
        {"GET", "/v2/models/a/config", "", &up, 200,
         "\"dynamic_batching\":{\"preferred_batch_size\":[4,8],\"max_queue_delay_microseconds\":300,\"preserve_"
         "ordering\":false,\"priority_levels\":2,"
         "\"default_priority_level\":2,\"default_queue_policy\":{\"timeout_action\":\"REJECT\","
         "\"default_timeout_microseconds\":2000,\"allow_timeout_override\":true,\"max_queue_size\":16},"
         "\"priority_queue_policy\":{\"1\":{\"timeout_action\":\"DELAY\",\"default_timeout_microseconds\":0"},
        {"GET", "/v2/models/a/ready", "", &up, 200, "{\"name\":\"a\",\"ready\":true}"},
        {"GET", "/v2/models/b/ready", "", &up, 400, "still loading"},
        {"GET", "/v2/models/gone/ready", "", &up, 400, "it is \\\"broken\\\""},
        {"GET", "/v2/models/gone", "", &up, 503,
         "Request for unknown model: 'gone' has no available versions: it is \\\"broken\\\""},
        {"GET", "/v2/models/c", "", &up, 404, "Request for unknown model: 'c' is not found"},
        {"GET", "/v2/models/a/versions/7", "", &up, 404, "Request for unknown model: 'a' version 7 is not found"},
        {"POST", "/v2/repository/index", "", &up, 200,
         "{\"name\":\"gone\",\"version\":\"1\",\"state\":\"UNAVAILABLE\","
         "\"reason\":\"it is \\\"broken\\\"\"}"},
        {"POST", "/v2/repository/index", "{\"ready\":true}", &up, 200,
         "[{\"name\":\"a\",\"version\":\"1\",\"state\":"
         "\"READY\"},{\"name\":\"a\",\"version\":\"3\","
         "\"state\":\"READY\"}]"},
        {"POST", "/v2/repository/index", "{\"ready\":", &up, 400, "JSON is wrong"},
        {"POST", "/v2/repository/index", "[]", &up, 400, "expected an object"},
        {"POST", "/v2/repository/index", "{\"ready\":1}", &up, 400, "true or false"},
        {"GET", "/v2/models/stats", "", &up, 200,
         "{\"model_stats\":[{\"name\":\"a\",\"version\":\"1\",\"last_inference\":0,"},
        {"GET", "/v2/models/a/versions/1/stats", "", &up, 200,
         "{\"model_stats\":[{\"name\":\"a\",\"version\":\"1\",\"last_inference\":0,"},
        {"GET", "/v2/models/a/versions/3/stats", "", &up, 200,
         "{\"model_stats\":[{\"name\":\"a\",\"version\":\"3\",\"last_inference\":0,"},
        {"GET", "/v2/models/a/stats", "", &up, 200, "{\"model_stats\":[{\"name\":\"a\",\"version\":\"1\","},
        {"GET", "/v2/models/a/stats", "", &up, 200, "}},{\"name\":\"a\",\"version\":\"3\",\"last_inference\":0,"},
        {"GET", "/v2/models/gone/stats", "", &up, 200, "\"inference_stats\":{\"success\":{\"count\":0,\"ns\":0},"},
        {"GET", "/v2/models/c/stats", "", &up, 404, "Request for unknown model: 'c' is not found"},
        {"GET", "/v2/trace/setting", "", &up, 200,
         "{\"trace_level\":[\"OFF\"],\"trace_rate\":\"1000\",\"trace_count\":\"-1\",\"log_frequency\":\"0\",\"trace_"
         "file\":\"\","
         "\"trace_mode\":\"triton\"}"},
        {"POST", "/v2/trace/setting", "{\"trace_level\":[\"OFF\"]}", &up, 200, "OFF"},
        {"POST", "/v2/trace/setting", "{\"trace_level\":[\"TIMESTAMPS\"]}", &up, 501, "without --trace-file"},
        {"POST", "/v2/trace/setting", "{\"trace_level\":7}", &up, 400, "expected OFF or TIMESTAMPS, and not '7'"},
        {"POST", "/v2/trace/setting", "{\"trace_rate\":{}}", &up, 400, "neither a string nor a number nor null"},
        {"POST", "/v2/trace/setting", "{\"trace_level\":null}", &up, 200, "OFF"},
        {"POST", "/v2/models/a/trace/setting", "{\"trace_rate\":\"1\"}", &up, 501, "without --trace-file"},
        {"GET", "/v2/models/c/trace/setting", "", &up, 404, "Request for unknown model: 'c' is not found"},
        {"GET", "/v2/logging", "", &up, 200, "\"log_info\":true,\"log_warning\":true,\"log_error\":true,"},
        {"POST", "/v2/logging", "{\"log_verbose_level\":3}", &up, 200, "\"log_verbose_level\":1"},
        {"POST", "/v2/logging", "{\"log_info\":false}", &up, 200, "\"log_info\":false,\"log_warning\":true"},
        {"POST", "/v2/logging", "{\"log_info\":true,\"log_file\":\"\"}", &up, 200, "\"log_verbose_level\":0"},
        {"POST", "/v2/logging", "{\"log_file\":\"/x\"}", &up, 501, "cannot be changed"},
        {"POST", "/v2/logging", "{\"log_error\":false}", &up, 501, "cannot be changed"},
        {"POST", "/v2/logging", "{\"log_info\":1}", &up, 400, "is true or false"},
        {"POST", "/v2/logging", "{\"log_info\":[]}", &up, 400, "neither"},
        {"POST", "/v2/logging", "{\"nope\":true}", &up, 400, "no log setting 'nope'"},
        {"POST", "/v2/repository/models/a/load", "", &up, 503,
         "explicit model load / unload is not allowed if polling is enabled: models are loaded and unloaded by "
         "clients"},
        {"POST", "/v2/repository/models/a/unload", "", &clustered, 503, "at its backends"},
        {"GET", "/v2/cudasharedmemory/status", "", &up, 200, "[]"},
        {"POST", "/v2/cudasharedmemory/unregister", "", &up, 200, ""},
        {"POST", "/v2/cudasharedmemory/region/r/register", "{}", &up, 501, "CUDA"},
        {"PUT", "/v2", "", &up, 405, "takes GET, HEAD only"},
        {"GET", "/v2/models/a/infer", "", &up, 405, "takes POST only"},
        {"GET", "/nothing", "", &up, 404, "there is no such path"},
        {"GET", "/", "", &up, 200, "{\"name\":\"symphony\",\"version\":"},
        {"POST", "/v1/chat/completions", "{}", &up, 404, "neither version 1 nor OpenAI's"},
        {"POST", "/v2/models/a/generate", "{}", &up, 501, "ask /v2/models/a/infer"},
        {"GET", "/v2/models", "", &up, 200, "{\"models\":[\"b\",\"a\",\"gone\"],\"not_ready\":["},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        check_answer(*state, cases[i].method, cases[i].path, cases[i].body, cases[i].server, cases[i].status,
                     cases[i].want);
}

TEST(only_ready_models_are_admitted) {
    static const struct {
        const char *path;
        bool admitted;
        unsigned status;
        bool retry;
    } cases[] = {{"/v2/models/a/infer", true, 0, false},
                 {"/v2/models/b/infer", false, 503, true},
                 {"/v2/models/gone/infer", false, 503, false},
                 {"/v2/models/c/infer", false, 404, false}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct v2_answer answer = {0};
        struct v2_route route;
        v2_route(&route, *state, "POST", cases[i].path);
        assert_int_equal(v2_infer_admit(&answer, &route, *state), cases[i].admitted);
        assert_int_equal(answer.status, cases[i].status);
        assert_int_equal(answer.retry, cases[i].retry);
        text_free(&answer.text);
    }
}

int main(void) {
    return tests_run(setup, teardown);
}
