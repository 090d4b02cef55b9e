/* world.h - a real server of a scenario's emulated accelerators. For the tests of server/. */
#pragma once

#include <string.h>

#include "server/models/deployment.h"
#include "server/process/server_state.h"
#include "unit/cmocka_all.h"

struct world {
    struct deployment deployment;
    struct server *server;
};

/* What there is, which a test may change before it is served. */
static inline void world_plan(struct world *w, const char *scenario_text) {
    struct scenario scenario;
    struct sy_error err = {""};
    memset(w, 0, sizeof(*w));
    assert_int_equal(scenario_read_text("scenario", scenario_text, strlen(scenario_text), NULL, 0, &scenario, &err), 0);
    assert_int_equal(deployment_from_scenario(&w->deployment, &scenario, &err), 0);
    scenario_free(&scenario);
}

/* One thread of each kind, and no port for metrics. */
static inline struct server_config world_config(struct world *w, const struct policy_ops *policy) {
    struct server_config config = {
        .models = w->deployment.models,
        .model_count = w->deployment.model_count,
        .accelerators = w->deployment.accelerators,
        .type_count = w->deployment.type_count,
        .model_threads = 1,
        .rank_threads = 1,
        .frontends = 1,
        .policy = policy,
        .host = "127.0.0.1",
        .metrics_port = -1,
        .queue_max = 16,
    };
    policy_options_preset(policy, &config.policy_options);
    return config;
}

static inline void world_begin(struct world *w, const struct server_config *config) {
    struct sy_error err = {""};
    assert_int_equal(server_start(&w->server, config, &err), 0);
}

static inline void world_end(struct world *w) {
    assert_int_equal(server_stop(w->server, 0, NS_PER_S), 0);
    deployment_free(&w->deployment);
}
