/* test_repository_order.c - orders go to the desk and come back, and what is in them. */
/* Starts threads. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "front/bulk/inbox.h"
#include "front/request/repository_order.h"
#include "inference.pb-c.h"
#include "unit/test.h"

#define ORDERS 2000
#define HOMES  2

struct rig {
    struct repository_desk desk;
    struct inbox homes[HOMES];
};

static int setup(void **state) {
    struct rig *rig = aligned_alloc(CACHE_LINE, (sizeof(*rig) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    memset(rig, 0, sizeof(*rig));
    for (int i = 0; i < HOMES; i++)
        rig->homes[i].wake_fd = eventfd(0, EFD_NONBLOCK);
    *state = rig;
    return doorbell_init(&rig->desk.bell, false, false);
}

static int teardown(void **state) {
    struct rig *rig = *state;
    for (int i = 0; i < HOMES; i++)
        close(rig->homes[i].wake_fd);
    free(rig);
    return 0;
}

/* Carries orders out until the last one, which it closes the desk on. */
static void *clerk(void *context) {
    struct rig *rig = context;
    for (bool last = false; !last;) {
        for (struct repository_order *order = desk_take(&rig->desk), *next; order; order = next) {
            next = order_next(order);
            last |= strcmp(order->name, "last") == 0;
            order_return(order);
        }
        doorbell_arm(&rig->desk.bell);
        if (desk_pending(&rig->desk) || last)
            doorbell_cancel(&rig->desk.bell);
        else
            doorbell_sleep(&rig->desk.bell, INT64_MAX);
    }
    desk_close(&rig->desk);
    return NULL;
}

/* Every order comes back once to its home, those after the desk has closed with 503. */
TEST_WITH(orders_come_back, setup, teardown) {
    struct rig *rig = *state;
    uint32_t back[ORDERS] = {0}, done = 0, refused = 0;
    pthread_t thread;
    struct sy_error err;
    assert_int_equal(pthread_create(&thread, NULL, clerk, rig), 0);
    for (uint32_t i = 0; i < ORDERS; i++) {
        struct repository_order order = {.home = &rig->homes[i % HOMES], .context = &back[i]};
        strcpy(order.name, i == ORDERS / 2 ? "last" : "m");
        assert_int_equal(order_submit(&rig->desk, &order, &err), 0);
    }
    while (done < ORDERS)
        for (int h = 0; h < HOMES; h++)
            for (struct repository_order *order = orders_returned(&rig->homes[h]), *next; order; order = next) {
                next = order_next(order);
                assert_ptr_equal(order->home, &rig->homes[h]);
                assert_int_equal((*(uint32_t *)order->context)++, 0);
                assert_true(order->status == 200 ||
                            (order->status == 503 && strstr(order->error.text, "shutting down")));
                refused += order->status == 503;
                done++;
                free(order);
            }
    pthread_join(thread, NULL);
    assert_true(refused < ORDERS);
}

static int read_json(const char *body, struct model_override *override, struct sy_error *err) {
    struct repository_order order = {.form = ORDER_JSON, .name = "m", .body = body, .body_bytes = strlen(body)};
    return order_read(&order, override, err);
}

TEST(json_is_read) {
    struct model_override o;
    struct sy_error err;
    assert_int_equal(read_json("", &o, &err), 0);
    assert_int_equal(read_json("{}", &o, &err), 0);
    assert_true(!o.config && o.file_count == 0);
    assert_false(o.unload_dependents);
    assert_int_equal(read_json("{\"parameters\":{\"unload_dependents\":true}}", &o, &err), 0);
    assert_true(o.unload_dependents);
    assert_int_equal(
        read_json("{\"parameters\":{\"config\":\"{\\\"a\\\": 1}\",\"file:12/model.onnx\":\"YWJj\"}}", &o, &err), 0);
    assert_string_equal(o.config, "{\"a\": 1}");
    assert_string_equal(o.files[0].version, "12");
    assert_string_equal(o.files[0].name, "model.onnx");
    assert_true(o.files[0].bytes == 3 && memcmp(o.files[0].data, "abc", 3) == 0);
    model_override_free(&o);
    static const char *const wrong[] = {
        "[]",
        "{",
        "{\"parameters\":7}",
        "{\"parameters\":{\"speed\":1}}",
        "{\"parameters\":{\"unload_dependents\":1}}",
        "{\"parameters\":{\"file:1/model.onnx\":1}}",
        "{\"parameters\":{\"file:1/model.onnx\":\"*\"}}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        if (read_json(wrong[i], &o, &err) != 400)
            fail_msg("%s is taken", wrong[i]);
        model_override_free(&o);
    }
    /* as Triton says it, whose client's example insists */
    static const char *const files[] = {
        "{\"parameters\":{\"file:1/../x\":\"YWJj\"}}", "{\"parameters\":{\"file:1/.x\":\"YWJj\"}}",
        "{\"parameters\":{\"file:01/x\":\"YWJj\"}}",   "{\"parameters\":{\"file:x\":\"YWJj\"}}",
        "{\"parameters\":{\"file:1/\":\"YWJj\"}}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        if (read_json(files[i], &o, &err) != 500 ||
            !strstr(err.text, "failed to load 'm', failed to poll from model repository: 'file:"))
            fail_msg("%s: %s", files[i], err.text);
        model_override_free(&o);
    }
    assert_int_equal(read_json("{\"parameters\":{\"file:20240101123000/x\":\"YWJj\"}}", &o, &err), 500);
    assert_non_null(strstr(err.text, "'file:20240101123000/x': the number of a version is at most 4294967295"));
    model_override_free(&o);
}

/* Each value may take a hundred times its bytes once it is parsed. */
TEST(json_has_a_bounded_number_of_values) {
    static const char head[] = "{\"parameters\":{\"config\":[";
    size_t values = 100000, bytes = sizeof(head) + 2 * values + 3;
    char *body = malloc(bytes), *at = body + sprintf(body, "%s", head);
    struct model_override o;
    struct sy_error err;
    for (size_t i = 6; i < values; i++) /* six more: two objects, their keys, the array, the last */
        at += sprintf(at, "1,");
    strcpy(at, "1]}}");
    assert_int_equal(read_json(body, &o, &err), 0);
    model_override_free(&o);
    strcpy(at, "1,1]}}");
    assert_int_equal(read_json(body, &o, &err), 400);
    assert_string_equal(err.text, "the request's JSON has more than 100000 values");
    model_override_free(&o);
    free(body);
}

TEST(messages_are_read) {
    Inference__ModelRepositoryParameter config = INFERENCE__MODEL_REPOSITORY_PARAMETER__INIT, file = config;
    Inference__RepositoryModelLoadRequest__ParametersEntry entries[2] =
        {INFERENCE__REPOSITORY_MODEL_LOAD_REQUEST__PARAMETERS_ENTRY__INIT,
         INFERENCE__REPOSITORY_MODEL_LOAD_REQUEST__PARAMETERS_ENTRY__INIT},
                                                           *list[] = {&entries[0], &entries[1]};
    Inference__RepositoryModelLoadRequest request = INFERENCE__REPOSITORY_MODEL_LOAD_REQUEST__INIT;
    struct model_override o;
    struct sy_error err;
    char name[] = "m", text[] = "{}", bytes[] = "abc", config_key[] = "config", file_key[] = "file:3/x";
    uint8_t packed[256];
    config.parameter_choice_case = INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_STRING_PARAM;
    config.string_param = text;
    file.parameter_choice_case = INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BYTES_PARAM;
    file.bytes_param = (ProtobufCBinaryData){.len = 3, .data = (uint8_t *)bytes};
    entries[0].key = config_key;
    entries[0].value = &config;
    entries[1].key = file_key;
    entries[1].value = &file;
    request.model_name = name;
    request.n_parameters = 2;
    request.parameters = list;
    struct repository_order order = {.form = ORDER_PROTOBUF, .body = (char *)packed};
    order.body_bytes = inference__repository_model_load_request__pack(&request, packed);
    assert_int_equal(order_read(&order, &o, &err), 0);
    assert_string_equal(order.name, "m");
    assert_string_equal(o.config, "{}");
    assert_true(o.file_count == 1 && o.files[0].bytes == 3 && memcmp(o.files[0].data, "abc", 3) == 0);
    model_override_free(&o);
    entries[1].value = &config; /* a string is no content */
    order.body_bytes = inference__repository_model_load_request__pack(&request, packed);
    assert_int_equal(order_read(&order, &o, &err), 400);
    model_override_free(&o);
    order.body_bytes = 2;
    assert_int_equal(order_read(&order, &o, &err), 400);
    model_override_free(&o);
}

static int read_message(const char *body, size_t bytes, struct model_override *o, struct sy_error *err) {
    struct repository_order order = {.form = ORDER_PROTOBUF, .name = "before", .body = body, .body_bytes = bytes};
    int status = order_read(&order, o, err);
    assert_string_not_equal(order.name, "before"); /* it comes from the message */
    return status;
}

TEST(wrong_messages_are_refused) {
    static const struct {
        const char *body;
        size_t bytes;
        int status;
        const char *sentence;
    } cases[] = {
        {"", 0, 0, ""},
        {"\x7a\0\x7a\0", 4, 0, ""}, /* unknown fields */
        {"\x12\3m", 3, 400, "no"},  /* cut off */
        {"\x10\3", 2, 400, "not valid protobuf"},
        {"\x18\3", 2, 400, "not valid protobuf"},
        {"\x1a\1\xff", 3, 400, "not valid protobuf"},
        {"\x1a\0", 2, 400, "unknown parameter ''"},
        {"\x1a\7\n\5speed", 9, 400, "unknown parameter 'speed'"},
        {"\x1a\10\n\6config", 10, 400, "config: expected JSON as string_param"},
        {"\x1a\14\n\6config\x12\2\x18\1", 14, 400, "config: expected JSON as string_param"},
        {"\x1a\14\n\6config\x12\2\x1a\5", 14, 400, "not valid protobuf"},
        {"\x1a\14\n\6config\x12\2\x1a\0\x1a\14\n\6config\x12\2\x1a\0", 28, 400, "config is given twice"},
        {"\x1a\12\n\10file:1/x", 12, 400, "file:1/x: expected the file's content as bytes_param"},
        {"\x1a\10\n\6file:x", 10, 500, "expected file:<version>/<name>"},
        {"\x1a\10\n\6file:x\x12\1m", 13, 500, "failed to load 'm'"}, /* the name comes after it */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct model_override o;
        struct sy_error err = {""};
        int status = read_message(cases[i].body, cases[i].bytes, &o, &err);
        if (status != cases[i].status || !strstr(err.text, cases[i].sentence))
            fail_msg("case %zu: %d %s", i, status, err.text);
        model_override_free(&o);
    }
    char body[3 + 300] = "\x12\xac\2"; /* a name, and a key, of 300 and 291 bytes */
    struct model_override o;
    struct sy_error err;
    memset(body + 3, 'a', 300);
    assert_int_equal(read_message(body, sizeof(body), &o, &err), 404);
    body[0] = '\x1a';
    memcpy(body + 3, "\n\xa9\2file:1/", 10);
    assert_int_equal(read_message(body, sizeof(body), &o, &err), 500);
    model_override_free(&o);
}
