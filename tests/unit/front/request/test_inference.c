/* test_inference.c - what a client is told of a request that was refused: each cause has a sentence of its own. */
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "front/request/inference.h"
#include "unit/test.h"

struct fixture {
    struct served_model model;
    struct inferences home;
    struct inference inference;
};

static struct fixture *fixture_new(void) {
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    strcpy(f->model.name, "m");
    f->model.queue.priorities = 3;
    f->model.queue.rules[1].queue_max = 5;
    f->inference.model = &f->model;
    f->inference.home = &f->home;
    f->inference.request = (struct request){.kind = &request_plain,
                                            .status = REQUEST_REFUSED,
                                            .priority = 1,
                                            .arrival_ns = NS_PER_S,
                                            .deadline_ns = NS_PER_S + 25 * NS_PER_MS};
    return f;
}

struct told {
    unsigned status;
    bool retry;
    struct sy_error err;
};

static struct told told_of(struct fixture *f, enum refusal refusal) {
    struct told told;
    f->inference.request.refusal = refusal;
    told.status = inference_result(&f->inference, &told.retry, &told.err);
    return told;
}

TEST(each_cause_has_a_sentence_that_names_its_limit) {
    static const struct {
        enum refusal refusal;
        bool retry;
        const char *says;
    } cases[] = {
        {REFUSAL_DEADLINE, false, "model 'm' cannot finish this request within its deadline of 25 ms"},
        {REFUSAL_QUEUE_FULL, true,
         "Exceeds maximum queue size: 5 requests of priority 2 wait for model 'm', as many as its max_queue_size lets"},
        {REFUSAL_BEST_EFFORT_FULL, true, "1024 best-effort or late requests of model 'm' wait already"},
        {REFUSAL_POOL_FULL, true, "--queue-max"},
        {REFUSAL_THREAD_BUSY, true, "a quarter of this request's time, 6.25 ms,"},
        {REFUSAL_PLANS_FULL, true, "64 batches"},
        {REFUSAL_STRANDED, true, "no accelerator that runs model 'm' is in service"},
        {REFUSAL_UNSCHEDULED, true,
         "this frontend has no connection to a scheduler, and this request for model 'm' can no longer wait for one"},
        {REFUSAL_LOST, true, "the accelerator that had this request failed"},
        {REFUSAL_UNPREPARED, true,
         "the inputs of this request for model 'm' were not prepared in time for its deadline of 25 ms"},
        {REFUSAL_CANCELLED, false, "the request was cancelled"},
    };
    struct fixture *f = fixture_new();
    assert_int_equal(ARRAY_COUNT(cases), REFUSAL_COUNT - 1);
    struct told told[ARRAY_COUNT(cases)];
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        told[i] = told_of(f, cases[i].refusal);
        assert_int_equal(told[i].status, 503);
        assert_int_equal(told[i].retry, cases[i].retry);
        if (!strstr(told[i].err.text, cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", told[i].err.text, cases[i].says);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(told[i].err.text, told[k].err.text);
    }
    f->inference.limited = true; /* the client's own deadline */
    assert_int_equal(told_of(f, REFUSAL_DEADLINE).status, 504);
    assert_int_equal(told_of(f, REFUSAL_UNPREPARED).status, 504);
    free(f);
}

TEST(a_missed_deadline_says_why_and_what_would_help) {
    struct fixture *f = fixture_new();
    f->inference.request.cause = CAUSE_CROWDED;
    f->inference.request.figures =
        (struct refusal_figures){.run_us = 5200, .measured_us = 5200, .needed = 1.3F, .serving = 1, .later = 9};
    struct told told = told_of(f, REFUSAL_DEADLINE);
    assert_true(told.retry);
    assert_string_equal(told.err.text,
                        "model 'm' cannot finish this request within its deadline of 25 ms: given up: 9 later ones fit "
                        "instead while the load is 1.3 times the capacity; 1.3 accelerators are needed, 1 is there");
    f->inference.request.cause = CAUSE_SHORT;
    f->inference.request.due_ns = f->inference.request.arrival_ns + 4 * NS_PER_MS;
    told = told_of(f, REFUSAL_DEADLINE);
    assert_false(told.retry);
    free(f);
}

TEST(best_effort_says_that_there_was_no_gap) {
    struct fixture *f = fixture_new();
    f->inference.request.priority = PRIORITY_BEST_EFFORT;
    struct told told = told_of(f, REFUSAL_DEADLINE);
    assert_string_equal(told.err.text, "model 'm' found no gap for this best-effort request within 25 ms");
    free(f);
}

TEST(a_chosen_slo_is_said_to_be_one) {
    struct fixture *f = fixture_new();
    struct request *request = &f->inference.request;
    request->due_ns = request->deadline_ns;
    request->late_until_ns = request->arrival_ns + NS_PER_S;
    struct told told = told_of(f, REFUSAL_DEADLINE); /* too many wait on already */
    assert_non_null(strstr(told.err.text, "the SLO of 25 ms that the server has chosen"));
    assert_non_null(strstr(told.err.text, "slo_ms in its symphony.yaml, --slo-ms or the request's timeout"));
    request->priority = PRIORITY_BEST_EFFORT; /* as port_next() leaves it */
    request->deadline_ns = request->late_until_ns;
    told = told_of(f, REFUSAL_DEADLINE);
    assert_int_equal(told.status, 503);
    assert_non_null(strstr(told.err.text, "found no time for this request within 1000 ms (the server has chosen an SLO "
                                          "of 25 ms for it: slo_ms"));
    free(f);
}

/* As the message of a stream whose call has a deadline: the scheduler would take it for an SLO below nothing. */
TEST(what_comes_after_its_own_deadline_is_not_submitted) {
    struct fixture *f = fixture_new();
    struct sy_error err;
    f->inference.state = INFERENCE_UPLOAD;
    assert_int_equal(inference_submit(&f->inference, 1, &err), 504);
    assert_string_equal(err.text, "the client's deadline passed before the request was there");
    assert_int_equal(f->inference.state, INFERENCE_UPLOAD);
    free(f);
}

static void model_chooses(struct served_model *model) {
    model->slo_chosen = true;
}

static void model_has_no_slo(struct served_model *model) {
    model->slo_ns = 0;
}

static void model_delays(struct served_model *model) {
    model->queue.rules[0] = (struct queue_rule){.timeout_ns = NS_PER_MS, .delay = true};
}

static void model_is_best_effort(struct served_model *model) {
    model->best_effort = true;
}

static void model_has_a_timeout(struct served_model *model) {
    model->queue.rules[0].timeout_ns = 100 * NS_PER_MS;
}

/* What is late before it is parsed, of a request that arrived at 1 s and may take 25 ms. */
TEST(late_is_refused_before_it_is_parsed) {
    const int64_t after_ns = NS_PER_S + 25 * NS_PER_MS;
    const struct {
        const char *words;
        int64_t limit_ns, now_ns;
        bool behind;
        void (*change)(struct served_model *model);
        unsigned status;
    } rows[] = {
        {"{\"inputs\":[]}", 0, after_ns, false, NULL, 0},
        {"{\"inputs\":[]}", 0, after_ns + 1, false, NULL, 503},
        {"", 0, after_ns + 1, false, NULL, 503},
        {"{\"parameters\":{\"timeout\":1000000}}", 0, after_ns + 1, false, NULL, 0},
        {"{\"parameters\":{\"priority\":3}}", 0, after_ns + 1, false, NULL, 0},
        {"{\"parameters\":{\"best_effort\":true}}", 0, after_ns + 1, false, NULL, 0},
        {"", NS_PER_S + 20 * NS_PER_MS, NS_PER_S + 20 * NS_PER_MS, false, NULL, 0},
        {"", NS_PER_S + 20 * NS_PER_MS, NS_PER_S + 20 * NS_PER_MS + 1, false, NULL,
         504}, /* the client's own deadline */
        {"", 0, NS_PER_S + 12500 * NS_PER_US, true, NULL, 0},
        {"", 0, NS_PER_S + 12500 * NS_PER_US + 1, true, NULL, 503}, /* half of it is over */
        {"timeout", 0, NS_PER_S + 12500 * NS_PER_US + 1, true, NULL, 0},
        {"", NS_PER_S + 20 * NS_PER_MS, NS_PER_S + 12500 * NS_PER_US + 1, true, NULL, 503},
        {"", 2 * NS_PER_S, after_ns + 1, false, NULL, 503},
        {"", 0, after_ns + 1, false, model_chooses, 0}, /* it is answered late */
        {"", 0, after_ns + 1, false, model_has_no_slo, 0},
        {"", 0, after_ns + 1, false, model_delays, 0},
        {"", 0, after_ns + 1, false, model_is_best_effort, 0},
        {"", 0, after_ns + 1, false, model_has_a_timeout, 0},
        {"", 0, NS_PER_S + 100 * NS_PER_MS + 1, false, model_has_a_timeout, 503},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
        struct fixture *f = fixture_new();
        struct sy_error err = {.text = ""};
        f->model.slo_ns = 25 * NS_PER_MS;
        f->model.queue.priorities = 0;
        f->inference.request = (struct request){.arrival_ns = NS_PER_S};
        if (rows[i].change)
            rows[i].change(&f->model);
        assert_int_equal(inference_late(&f->inference, rows[i].words, strlen(rows[i].words), rows[i].limit_ns,
                                        rows[i].behind, rows[i].now_ns, &err),
                         rows[i].status);
        assert_int_equal(f->inference.request.status, rows[i].status ? REQUEST_REFUSED : REQUEST_OK);
        assert_int_equal(f->inference.request.refusal, rows[i].status ? REFUSAL_DEADLINE : REFUSAL_NONE);
        if (rows[i].status == 503 && rows[i].behind && !rows[i].limit_ns)
            assert_string_equal(err.text,
                                "this frontend is behind: half of this request's time, 12.5 ms, was over before it "
                                "was read");
        else if (rows[i].status == 503 && !rows[i].behind && !rows[i].change)
            assert_string_equal(err.text, "model 'm' cannot finish this request within its deadline of 25 ms: 25 ms "
                                          "passed before it was looked at");
        free(f);
    }
}

/* Reasons add up to the requests that ended refused, whatever the scheduler said of others. */
TEST(refused_requests_count_by_their_reasons) {
    const struct {
        enum outcome outcome;
        enum request_status status;
        enum refusal refusal;
        int counted; /* the reason; -1: none */
    } rows[] = {
        {OUTCOME_REFUSED, REQUEST_REFUSED, REFUSAL_DEADLINE, REFUSAL_DEADLINE},
        {OUTCOME_REFUSED, REQUEST_REFUSED, REFUSAL_QUEUE_FULL, REFUSAL_QUEUE_FULL},
        {OUTCOME_REFUSED, REQUEST_FAILED, REFUSAL_NONE, REFUSAL_NONE},     /* there was no memory */
        {OUTCOME_REFUSED, REQUEST_FAILED, REFUSAL_DEADLINE, REFUSAL_NONE}, /* what an earlier request has left */
        {OUTCOME_CANCELLED, REQUEST_REFUSED, REFUSAL_DEADLINE, -1},        /* its client left meanwhile */
        {OUTCOME_CLIENT_ERROR, REQUEST_REFUSED, REFUSAL_NONE, -1},         /* an ensemble's */
        {OUTCOME_OK, REQUEST_OK, REFUSAL_DEADLINE, -1},                    /* sent again */
    };
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
        struct inferences home = {.slots = NULL};
        const struct request request = {.status = rows[i].status, .refusal = rows[i].refusal};
        assert_int_equal(infer_counters_init(&home.counters, 1), 0);
        inferences_count(&home, &request, rows[i].outcome, NS_PER_S);
        const struct model_infer_counters *counters = &home.counters.models[0];
        assert_int_equal(counter_get(&counters->outcomes[rows[i].outcome]), 1);
        for (int reason = 0; reason < REFUSAL_COUNT; reason++)
            assert_int_equal(counter_get(&counters->refused[reason]), reason == rows[i].counted);
        infer_counters_destroy(&home.counters);
    }
}
