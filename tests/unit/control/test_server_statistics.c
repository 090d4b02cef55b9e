/* test_server_statistics.c - a real server of an emulated model, idle: what its threads are made to have counted,
 * summed up, as the metrics page shows it under Triton's names. */
#include "unit/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "base/counter.h"
#include "base/log.h"
#include "control/deployment.h"
#include "control/server_state.h"
#include "request/infer_counters.h"

static const char cluster[] = "cluster: {accelerators: 1, type: test}\n"
                              "models:\n  - {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 50, copies: 2}\n"
                              "workload: {rate_rps: 10}\n";

struct world {
    struct deployment deployment;
    struct server *server;
};

static void world_begin(struct world *w) {
    struct scenario scenario;
    struct sy_error err = {""};
    memset(w, 0, sizeof(*w));
    assert_int_equal(scenario_read_text("cluster", cluster, sizeof(cluster) - 1, NULL, 0, &scenario, &err), 0);
    assert_int_equal(deployment_from_scenario(&w->deployment, &scenario, &err), 0);
    scenario_free(&scenario);
    struct server_config config = {
        .models = w->deployment.models,
        .model_count = w->deployment.model_count,
        .accelerators = w->deployment.accelerators,
        .type_count = w->deployment.type_count,
        .model_threads = 1,
        .rank_threads = 1,
        .frontends = 1,
        .policy = &policy_deferred,
        .host = "127.0.0.1",
        .metrics_port = -1,
        .queue_max = 16,
    };
    assert_int_equal(server_start(&w->server, &config, &err), 0);
}

static void world_end(struct world *w) {
    assert_int_equal(server_stop(w->server, 0, NS_PER_S), 0);
    deployment_free(&w->deployment);
}

/* What the page says under this name; fails if that is not there once. */
static unsigned long long value(struct world *w, const char *row) {
    struct text page = {0};
    server_render_metrics(w->server, &page);
    const char *text = text_end(&page), *at = strstr(text, row);
    if (!at || at[strlen(row)] != ' ' || strstr(at + 1, row))
        fail_msg("no single row %s in\n%s", row, text);
    unsigned long long found = strtoull(at + strlen(row), NULL, 10);
    text_free(&page);
    return found;
}

/* A frontend's counts of a model; nobody else writes them while no request comes. */
static struct model_infer_counters *counts_of(struct world *w, uint32_t frontend, uint32_t model) {
    return &server_infer_counters(w->server, frontend)->models[model];
}

static void both_protocols_add_up(void **state) {
    (void)state;
    struct world w;
    world_begin(&w);
    for (uint32_t f = 0; f < 2; f++) { /* HTTP, gRPC */
        struct model_infer_counters *c = counts_of(&w, f, 1);
        counter_add(&c->outcomes[OUTCOME_OK], 10);
        counter_add(&c->outcomes[OUTCOME_REFUSED], 3);
        counter_add(&c->outcomes[OUTCOME_FAILED], 2);
        counter_add(&c->outcomes[OUTCOME_CANCELLED], 1);
        counter_add(&c->outcomes[OUTCOME_CLIENT_ERROR], 100);
        counter_add(&c->items, 40);
        counter_add(&c->run_ns, 5999);
        counter_add(&c->reply_ns, 2500);
        fine_histogram_add(&c->latency_ns, 9000);
        histogram_add(&c->queue_ns, 1000);
    }
    assert_int_equal(value(&w, "nv_inference_request_success{model=\"m-2\",version=\"1\"}"), 20);
    assert_int_equal(value(&w, "nv_inference_count{model=\"m-2\",version=\"1\"}"), 80);
    assert_int_equal(value(&w, "nv_inference_exec_count{model=\"m-2\",version=\"1\"}"), 0);
    assert_int_equal(value(&w, "nv_inference_request_duration_us{model=\"m-2\",version=\"1\"}"), 18);
    assert_int_equal(value(&w, "nv_inference_queue_duration_us{model=\"m-2\",version=\"1\"}"), 2);
    assert_int_equal(value(&w, "nv_inference_compute_infer_duration_us{model=\"m-2\",version=\"1\"}"), 11);
    assert_int_equal(value(&w, "nv_inference_compute_output_duration_us{model=\"m-2\",version=\"1\"}"), 5);
    assert_int_equal(value(&w, "nv_inference_compute_input_duration_us{model=\"m-2\",version=\"1\"}"), 0);
    assert_int_equal(value(&w, "nv_inference_pending_request_count{model=\"m-2\",version=\"1\"}"), 0);
    /* a client's mistakes are no failures */
    assert_int_equal(value(&w, "nv_inference_request_failure{model=\"m-2\",version=\"1\",reason=\"REJECTED\"}"), 6);
    assert_int_equal(value(&w, "nv_inference_request_failure{model=\"m-2\",version=\"1\",reason=\"CANCELED\"}"), 2);
    assert_int_equal(value(&w, "nv_inference_request_failure{model=\"m-2\",version=\"1\",reason=\"BACKEND\"}"), 4);
    /* each model by itself */
    assert_int_equal(value(&w, "nv_inference_request_success{model=\"m-1\",version=\"1\"}"), 0);
    assert_int_equal(value(&w, "nv_inference_request_failure{model=\"m-1\",version=\"1\",reason=\"REJECTED\"}"), 0);
    world_end(&w);
}

static void nothing_is_told_before_it_is_ready(void **state) {
    (void)state;
    struct world w;
    world_begin(&w);
    counter_add(&counts_of(&w, 0, 0)->outcomes[OUTCOME_OK], 1);
    atomic_store(&w.server->ready, false);
    assert_int_equal(value(&w, "nv_inference_request_success{model=\"m-1\",version=\"1\"}"), 0);
    atomic_store(&w.server->ready, true);
    assert_int_equal(value(&w, "nv_inference_request_success{model=\"m-1\",version=\"1\"}"), 1);
    world_end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_protocols_add_up),
        cmocka_unit_test(nothing_is_told_before_it_is_ready),
    };
    log_set_level(LOG_WARN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
