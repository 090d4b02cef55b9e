/* test_server_statistics.c - a real server of an emulated model, idle: what its threads are made to have counted,
 * summed up, as the metrics page shows it under Triton's names. */
/* Starts threads. */
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "core/system/log.h"
#include "core/util/counter.h"
#include "front/request/infer_counters.h"
#include "unit/server/world.h"

static const char cluster[] = "cluster: {accelerators: 1, type: test}\n"
                              "models:\n  - {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 50, copies: 2}\n"
                              "workload: {rate_rps: 10}\n";

static void begin(struct world *w) {
    world_plan(w, cluster);
    struct server_config config = world_config(w, &policy_deferred);
    world_begin(w, &config);
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
    return &frontends_counters(&w->server->frontends, frontend)->models[model];
}

TEST(both_protocols_add_up) {
    struct world w;
    begin(&w);
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

TEST(nothing_is_told_before_it_is_ready) {
    struct world w;
    begin(&w);
    counter_add(&counts_of(&w, 0, 0)->outcomes[OUTCOME_OK], 1);
    atomic_store(&w.server->readiness.start.over, false);
    assert_int_equal(value(&w, "nv_inference_request_success{model=\"m-1\",version=\"1\"}"), 0);
    atomic_store(&w.server->readiness.start.over, true);
    assert_int_equal(value(&w, "nv_inference_request_success{model=\"m-1\",version=\"1\"}"), 1);
    world_end(&w);
}

int main(void) {
    log_set_level(LOG_WARN);
    return tests_run(NULL, NULL);
}
