/* test_external_scaler.c - what an autoscaler is answered. */
#include "externalscaler.pb-c.h"
#include "front/grpc/external_scaler.h"
#include "unit/test.h"

static struct sy_error err;

struct metadata {
    const char *key, *value; /* NULL: none */
};

/* Asks with at most two keys of metadata; `metric` only for GetMetrics. The answer goes to `out`. */
static unsigned ask(int64_t wanted, enum grpc_method method, const struct metadata metadata[2], const char *metric,
                    struct text *out) {
    Externalscaler__ScaledObjectRef object = EXTERNALSCALER__SCALED_OBJECT_REF__INIT;
    Externalscaler__ScaledObjectRef__ScalerMetadataEntry entries[2], *at[2];
    Externalscaler__GetMetricsRequest request = EXTERNALSCALER__GET_METRICS_REQUEST__INIT;
    struct advice advice = {0};
    uint8_t message[1024];
    if (wanted >= 0)
        advice_set(&advice, wanted);
    for (unsigned i = 0; metadata && i < 2 && metadata[i].key; i++) {
        externalscaler__scaled_object_ref__scaler_metadata_entry__init(&entries[i]);
        entries[i].key = (char *)metadata[i].key;
        entries[i].value = (char *)metadata[i].value;
        at[i] = &entries[i];
        object.n_scalermetadata = i + 1;
    }
    object.name = "backends";
    object.scalermetadata = at;
    request.scaledobjectref = &object;
    request.metricname = (char *)metric;
    size_t bytes = metric ? externalscaler__get_metrics_request__pack(&request, message)
                          : externalscaler__scaled_object_ref__pack(&object, message);
    text_init(out, NULL, 0);
    const struct frontend frontend = {.config.advice = &advice};
    return grpc_service_answer(&frontend, method, false, (const char *)message, bytes, out, &err);
}

TEST(a_spec_says_what_a_replica_has) {
    static const struct {
        const char *value; /* NULL: not given */
        double target;
        int64_t whole;
    } cases[] = {{NULL, 1, 1}, {"1", 1, 1}, {"8", 8, 8}, {"2.5", 2.5, 3}, {"0.25", 0.25, 1}, {"65536", 65536, 65536}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct metadata metadata[2] = {{"scalerAddress", "symphony:8001"},
                                             {cases[i].value ? "acceleratorsPerReplica" : NULL, cases[i].value}};
        struct text out;
        assert_int_equal(ask(-1, i % 2 ? GRPC_SCALER_SPEC : GRPC_SCALER_WATCH_SPEC, metadata, NULL, &out), 200);
        Externalscaler__GetMetricSpecResponse *response =
            externalscaler__get_metric_spec_response__unpack(NULL, out.length, (const uint8_t *)out.data);
        assert_non_null(response);
        assert_int_equal(response->n_metricspecs, 1);
        assert_string_equal(response->metricspecs[0]->metricname, "symphony_accelerators_wanted");
        assert_int_equal(response->metricspecs[0]->targetsize, cases[i].whole);
        assert_true(response->metricspecs[0]->targetsizefloat == cases[i].target);
        externalscaler__get_metric_spec_response__free_unpacked(response, NULL);
        text_free(&out);
    }
}

TEST(metadata_that_makes_no_sense_is_refused) {
    static const char *const values[] = {"", "0", "-1", "x", "1x", " 1", "nan", "inf", "0x10", "1e9", "0.0001", "+-1"};
    for (unsigned i = 0; i < sizeof(values) / sizeof(*values); i++) {
        const struct metadata metadata[2] = {{"acceleratorsPerReplica", values[i]}, {NULL, NULL}};
        struct text out;
        char says[128];
        snprintf(says, sizeof(says),
                 "the metadata's acceleratorsPerReplica is '%s': expected a number from 0.001 to 65536", values[i]);
        for (enum grpc_method method = GRPC_SCALER_ACTIVE; method <= GRPC_SCALER_METRICS; method++) {
            assert_int_equal(ask(3, method, metadata, method == GRPC_SCALER_METRICS ? SCALER_METRIC : NULL, &out), 400);
            assert_string_equal(err.text, says);
            text_free(&out);
        }
    }
}

TEST(the_value_is_the_advice) {
    struct text out;
    assert_int_equal(ask(7, GRPC_SCALER_METRICS, NULL, SCALER_METRIC, &out), 200);
    Externalscaler__GetMetricsResponse *response =
        externalscaler__get_metrics_response__unpack(NULL, out.length, (const uint8_t *)out.data);
    assert_non_null(response);
    assert_int_equal(response->n_metricvalues, 1);
    assert_string_equal(response->metricvalues[0]->metricname, "symphony_accelerators_wanted");
    assert_int_equal(response->metricvalues[0]->metricvalue, 7);
    assert_true(response->metricvalues[0]->metricvaluefloat == 7);
    externalscaler__get_metrics_response__free_unpacked(response, NULL);
    text_free(&out);
    assert_int_equal(ask(7, GRPC_SCALER_METRICS, NULL, "cpu", &out), 400);
    assert_string_equal(err.text, "there is no metric 'cpu': the only one is symphony_accelerators_wanted");
    text_free(&out);
}

TEST(active_is_who_wants_any) {
    struct advice advice = {0};
    struct text out;
    assert_int_equal(scaler_active(&advice), ADVICE_NONE);
    assert_int_equal(scaler_active(NULL), ADVICE_NONE);
    for (int wanted = 0; wanted < 3; wanted++) {
        assert_int_equal(ask(wanted, wanted % 2 ? GRPC_SCALER_ACTIVE : GRPC_SCALER_WATCH, NULL, NULL, &out), 200);
        assert_int_equal(out.length, wanted > 0 ? 2 : 0); /* false takes no bytes */
        text_free(&out);
        advice_set(&advice, wanted);
        assert_int_equal(scaler_active(&advice), wanted > 0);
    }
}

TEST(without_advice_it_is_not_available) {
    static const enum grpc_method methods[] = {GRPC_SCALER_ACTIVE, GRPC_SCALER_WATCH, GRPC_SCALER_METRICS};
    for (unsigned i = 0; i < 3; i++) {
        struct text out;
        const char *metric = methods[i] == GRPC_SCALER_METRICS ? SCALER_METRIC : NULL;
        assert_int_equal(ask(-1, methods[i], NULL, metric, &out), 503);
        assert_string_equal(err.text, "nobody has said yet how many accelerators there should be");
        text_free(&out);
    }
}

TEST(messages_may_be_anything) {
    static const struct frontend frontend;
    struct text out;
    text_init(&out, NULL, 0);
    for (enum grpc_method method = GRPC_SCALER_ACTIVE; method <= GRPC_SCALER_METRICS; method++) {
        assert_int_equal(grpc_service_answer(&frontend, method, false, "\xff\xff", 2, &out, &err), 400);
        assert_string_equal(err.text, "the message is not valid protobuf");
    }
    assert_int_equal(grpc_service_answer(&frontend, GRPC_SCALER_SPEC, false, "", 0, &out, &err), 200);
    text_free(&out);
}
