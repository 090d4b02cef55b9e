/* test_inference.c - what a client is told of a request that was refused: each cause has a sentence of its own. */
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "request/inference.h"
#include "unit/cmocka_all.h"

struct fixture {
    struct served_model model;
    struct inference inference;
};

static struct fixture *fixture_new(void) {
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    strcpy(f->model.name, "m");
    f->model.queue.priorities = 3;
    f->model.queue.rules[1].queue_max = 5;
    f->inference.model = &f->model;
    f->inference.request = (struct request){
        .status = REQUEST_REFUSED, .priority = 1, .arrival_ns = NS_PER_S, .deadline_ns = NS_PER_S + 25 * NS_PER_MS};
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

static void each_cause_has_a_sentence_that_names_its_limit(void **state) {
    (void)state;
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
        {REFUSAL_SHAPES, true, "32 input shapes of model 'm'"},
        {REFUSAL_STRANDED, true, "no accelerator that runs model 'm' is in service"},
        {REFUSAL_UNSCHEDULED, true,
         "this frontend has no connection to a scheduler, and the deadline of this request for model 'm' passed"},
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

static void best_effort_says_that_there_was_no_gap(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    f->inference.request.priority = PRIORITY_BEST_EFFORT;
    struct told told = told_of(f, REFUSAL_DEADLINE);
    assert_string_equal(told.err.text, "model 'm' found no gap for this best-effort request within 25 ms");
    free(f);
}

static void a_chosen_slo_is_said_to_be_one(void **state) {
    (void)state;
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
static void what_comes_after_its_own_deadline_is_not_submitted(void **state) {
    (void)state;
    struct fixture *f = fixture_new();
    struct sy_error err;
    f->inference.state = INFERENCE_UPLOAD;
    assert_int_equal(inference_submit(&f->inference, 1, &err), 504);
    assert_string_equal(err.text, "the client's deadline passed before the request was there");
    assert_int_equal(f->inference.state, INFERENCE_UPLOAD);
    free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cause_has_a_sentence_that_names_its_limit),
        cmocka_unit_test(a_chosen_slo_is_said_to_be_one),
        cmocka_unit_test(what_comes_after_its_own_deadline_is_not_submitted),
        cmocka_unit_test(best_effort_says_that_there_was_no_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
