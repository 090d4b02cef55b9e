/* test_rehearsed.c - the cluster that is emulated for a recording, when it has to be made anew, and which requests it
 * is told. */
#include "server/load/rehearsed.h"

#include <errno.h>

#include "unit/server/load/recording_rig.h"
#include "unit/test.h"

#define REQUESTS 100

/* Gives the recording so many requests, all from the begin of its period on. */
static void requests_give(struct recording *r, uint64_t count) {
    free(r->requests);
    r->requests = calloc(count, sizeof(*r->requests));
    r->request_count = count;
    for (uint64_t i = 0; i < count; i++)
        r->requests[i].arrival_ns = r->start_ns;
}

/* Two types, of which model "b" runs on the second only; "b" is served at place 3. */
static struct recording recorded(void) {
    struct recording r = {.policy = &policy_deferred, .start_ns = START, .end_ns = START + NS_PER_S};
    policy_options_preset(&policy_deferred, &r.options);
    r.types[0] = (struct recording_type){"fast", 1};
    r.types[1] = (struct recording_type){"slow", 2};
    r.type_count = 2;
    r.models = calloc(2, sizeof(*r.models));
    r.model_count = 2;
    r.models[0] = model("a", 1, 50, 8);
    r.models[1] = model("b", 2, 80, 4);
    r.models[1].weight = 3;
    table_set(&r.models[0], 0, 1, 2);
    table_set(&r.models[0], 1, 2, 4);
    table_set(&r.models[1], 1, 5, 10);
    r.served = 4;
    r.model_of = malloc(r.served * sizeof(*r.model_of));
    for (uint32_t i = 0; i < r.served; i++)
        r.model_of[i] = i == 0 ? 0 : i == 3 ? 1 : UINT32_MAX;
    r.ctrl_ns = 150 * NS_PER_US;
    r.reply_margin_ns = 2 * NS_PER_MS;
    requests_give(&r, REQUESTS);
    return r;
}

static void make(struct rehearsed *n) {
    struct recording r = recorded();
    *n = (struct rehearsed){.memory = NULL};
    assert_int_equal(rehearsed_make(n, 1, &r), 0);
    assert_null(r.models); /* taken over */
    recording_free(&r);
}

TEST(what_was_measured_is_emulated) {
    struct rehearsed n;
    make(&n);
    const struct sim_config *c = &n.config;
    const uint8_t types[] = {0, 1, 1};
    assert_int_equal(c->accelerators, 3);
    assert_memory_equal(c->accelerator_type, types, sizeof(types));
    assert_int_equal(c->types, 2);
    assert_int_equal(c->subclusters, 1);
    assert_int_equal(c->model_count, 2);
    assert_int_equal(c->models[0].batch_max, 8);
    assert_int_equal(c->models[0].slo_ns, 50 * NS_PER_MS);
    assert_int_equal(c->models[0].profiles[0]->latency_ns[8], 10 * NS_PER_MS);
    assert_int_equal(c->models[0].profiles[1]->latency_ns[1], 6 * NS_PER_MS);
    assert_null(c->models[1].profiles[0]); /* it does not run there */
    assert_int_equal(c->models[1].profiles[1]->latency_ns[4], 30 * NS_PER_MS);
    assert_true(c->models[1].weight == 3);
    assert_int_equal(c->ctrl_ns, 150 * NS_PER_US);
    assert_int_equal(c->reply_margin_ns, 2 * NS_PER_MS);
    assert_ptr_equal(c->policy, &policy_deferred);
    assert_null(n.of.requests);
    rehearsed_free(&n);
    assert_null(n.rehearsal);
}

/* Memory is for a load twice as high, but not for more than a million requests at once. */
TEST(memory_is_bounded) {
    struct rehearsed n;
    make(&n);
    assert_true(n.step.rate_rps == 2 * REQUESTS);
    struct recording r = recorded();
    r.models[0].slo_ns = 3600 * NS_PER_S;
    requests_give(&r, 100000);
    assert_int_equal(rehearsed_make(&n, 1, &r), 0);
    assert_true(n.step.rate_rps * 3600 > 499999 && n.step.rate_rps * 3600 < 500001);
    rehearsed_free(&n);
}

/* Rings hold requests from long before the period. */
TEST(memory_is_for_the_requests_of_the_period) {
    struct rehearsed n = {.memory = NULL};
    struct recording r = recorded();
    for (uint64_t i = 0; i < REQUESTS - 3; i++)
        r.requests[i].arrival_ns = START - 1;
    assert_int_equal(rehearsed_make(&n, 1, &r), 0);
    assert_true(n.step.rate_rps == 2 * 3);
    rehearsed_free(&n);
}

TEST(nothing_to_emulate_is_said) {
    for (int models = 0; models < 2; models++) {
        struct rehearsed n;
        make(&n);
        struct recording r = recorded();
        if (models) {
            r.types[0].count = r.types[1].count = 0;
        } else {
            recording_free(&r);
            r = (struct recording){.policy = &policy_deferred, .types = {{"fast", 1}}, .type_count = 1};
        }
        assert_int_equal(rehearsed_make(&n, 1, &r), -ENOENT);
        assert_null(n.rehearsal);
        struct recording again = recorded();
        assert_false(rehearsed_is(&n, &again));
        rehearsed_free(&n);
        recording_free(&again);
    }
}

/* A model's only accelerators may have gone. */
TEST(a_model_that_runs_nowhere_is_not_emulated) {
    struct rehearsed n = {.memory = NULL};
    struct recording r = recorded();
    r.type_count = 1;
    assert_int_equal(rehearsed_make(&n, 1, &r), -ENOENT);
    assert_null(n.rehearsal);
    rehearsed_free(&n);
    r = recorded();
    r.types[1].count = 0; /* they may come back */
    assert_int_equal(rehearsed_make(&n, 1, &r), 0);
    assert_int_equal(n.config.accelerators, 1);
    rehearsed_free(&n);
}

TEST(other_models_or_accelerators_are_made_anew) {
    struct rehearsed n;
    make(&n);
    for (int i = 0;; i++) {
        struct recording r = recorded();
        bool same = false;
        switch (i) {
        case 0:
            r.request_count = 1;
            r.models[0].latency_ns[0][1]++; /* they drift */
            r.ctrl_ns++;
            same = true;
            break;
        case 1:
            r.types[1].count--;
            break;
        case 2:
            r.type_count--;
            break;
        case 3:
            strcpy(r.models[1].name, "c");
            break;
        case 4:
            r.models[1].version++;
            break;
        case 5:
            r.models[0].since_ns = START; /* it was unloaded, and loaded again */
            break;
        case 6:
            r.models[0].slo_ns++;
            break;
        case 7:
            r.models[1].batch_max--;
            break;
        default:
            recording_free(&r);
            rehearsed_free(&n);
            return;
        }
        assert_int_equal(rehearsed_is(&n, &r), same);
        recording_free(&r);
    }
}

/* Tells requests that nothing could answer in time. As many of the lost ones are not counted against the policy, which
 * shows how many were told: with one more that is lost than these, it rehearses. */
TEST(requests_of_the_time_are_told) {
    for (uint64_t lost = 3; lost <= 4; lost++) {
        struct rehearsed n;
        make(&n);
        struct recording r = recorded();
        const struct recorded_request requests[] = {
            request(0.9, 3, 10000, 1, 0), /* the last one that is told; possible for "a" only */
            request(0.09, 0, 1000, 1, 0), /* before the time, */
            request(0.91, 0, 1000, 1, 0), /* and after it */
            request(0.1, 0, 1000, 1, 0),  /* the first one that is told */
            request(0.5, 1, 1000, 1, 0),  request(0.5, 9, 1000, 1, 0),  /* of models that are gone */
            request(0.5, 0, 50000, 1, 0), request(0.5, 0, 9500, 8, 0),  /* possible; not possible, as it has 8 items */
            request(0.5, 0, 12500, 8, 0), request(0.5, 3, 20000, 1, 0), /* possible */
            request(0.5, 0, 1000, 1, 0),                                /* its time goes by preparing inputs */
        };
        r.request_count = sizeof(requests) / sizeof(requests[0]);
        memcpy(r.requests, requests, sizeof(requests));
        r.requests[r.request_count - 1].hurried = true;
        rehearsed_tell(&n, &r, START + NS_PER_S / 10, START + NS_PER_S / 10 * 9 + 1);
        assert_int_equal(r.requests[0].arrival_ns, START + NS_PER_S * 9 / 100); /* sorted */
        rehearsal_look(n.rehearsal, START + NS_PER_S, 900, lost);
        assert_int_equal(rehearsal_runs(n.rehearsal), lost > 3);
        recording_free(&r);
        rehearsed_free(&n);
    }
}
