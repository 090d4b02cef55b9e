/* test_curl_line.c - the command that people may paste. */
#include <string.h>

#include "control/curl_line.h"
#include "unit/cmocka_all.h"

static void model_make(struct served_model *m, const char *name, uint32_t inputs, int64_t elements, int state) {
    memset(m, 0, sizeof(*m));
    strcpy(m->name, name);
    m->signature.input_count = inputs;
    for (uint32_t i = 0; i < inputs; i++) {
        m->signature.inputs[i] = (struct tensor_spec){.type = DATATYPE_FP32, .rank = 2, .dims = {-1, elements}};
        strcpy(m->signature.inputs[i].name, i ? "b" : "a");
        m->reference_dims[i][0] = 1;
        m->reference_dims[i][1] = elements;
    }
    atomic_init(&m->state, state);
}

static bool curl(struct served_model *models, uint32_t count, const char *server, char *line, size_t bytes) {
    struct model_index listed;
    assert_int_equal(model_index_init(&listed, models, count), 0);
    bool any = curl_line(&listed, server, line, bytes);
    model_index_destroy(&listed);
    return any;
}

static void test_takes_the_smallest_ready_model(void **state) {
    (void)state;
    struct served_model models[3];
    char line[1024];
    model_make(&models[0], "big", 1, 4096, MODEL_READY);
    model_make(&models[1], "small", 2, 2, MODEL_READY);
    model_make(&models[2], "broken", 1, 1, MODEL_UNAVAILABLE);
    assert_true(curl(models, 3, "http://localhost:8000", line, sizeof(line)));
    assert_string_equal(line, "curl -s http://localhost:8000/v2/models/small/infer -d '{\"inputs\":["
                              "{\"name\":\"a\",\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":[0,0]},"
                              "{\"name\":\"b\",\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":[0,0]}]}'");
}

static void test_large_inputs_go_as_bytes(void **state) {
    (void)state;
    struct served_model model;
    char line[1024];
    model_make(&model, "big", 1, 4096, MODEL_READY);
    assert_true(curl(&model, 1, "http://localhost:9000", line, sizeof(line)));
    assert_non_null(strstr(line, "head -c 16384 /dev/zero"));
    assert_non_null(strstr(line, "http://localhost:9000/v2/models/big/infer"));
}

static void test_says_so_when_there_is_none(void **state) {
    (void)state;
    struct served_model model;
    char line[1024], small[20];
    model_make(&model, "broken", 1, 1, MODEL_UNAVAILABLE);
    assert_false(curl(&model, 1, "http://localhost:8000", line, sizeof(line)));
    model_make(&model, "two-large", 2, 4096, MODEL_READY);
    assert_false(curl(&model, 1, "http://localhost:8000", line, sizeof(line)));
    model_make(&model, "fits-not", 1, 1, MODEL_READY);
    assert_false(curl(&model, 1, "http://localhost:8000", small, sizeof(small)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_the_smallest_ready_model),
        cmocka_unit_test(test_large_inputs_go_as_bytes),
        cmocka_unit_test(test_says_so_when_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
