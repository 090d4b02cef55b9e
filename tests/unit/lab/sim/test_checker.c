/* test_checker.c - the checker notices each thing it is there for: a run is played to it by hand. */
#include <stdlib.h>
#include <string.h>

#include "lab/sim/checker.h"
#include "unit/test.h"

struct fixture {
    struct sim_config config;
    struct sim_model models[2];
    uint8_t types[2];
    struct profile *profile;
    struct checker *checker;
    struct sim_observer on;
    struct sim_result result;
};

static struct fixture *fixture_new(void) {
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->profile = malloc(profile_bytes(4));
    profile_set_line(f->profile, 4, 10, 10);
    f->models[0] = (struct sim_model){.profiles = {f->profile}, .batch_max = 4};
    f->models[1] = (struct sim_model){.profiles = {NULL, f->profile}, .batch_max = 4};
    f->types[1] = 1;
    f->config = (struct sim_config){
        .models = f->models, .model_count = 2, .accelerator_type = f->types, .accelerators = 2, .types = 2};
    f->checker = malloc(checker_bytes(&f->config, 8));
    assert_non_null(f->checker);
    checker_init(f->checker, &f->config, 8, &f->on);
    return f;
}

static void arrive(struct fixture *f, uint64_t handle, int64_t deadline_ns, uint32_t items) {
    f->on.arrived(f->on.context, 0, handle, 0, items, 0, deadline_ns);
}

static void start(struct fixture *f, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items) {
    f->on.sent(f->on.context, now_ns, model, accelerator, items, now_ns + 10 + 10 * items);
    if (accelerator < 2)
        f->on.began(f->on.context, now_ns, model, accelerator, items, 0);
}

static void join(struct fixture *f, uint64_t handle) {
    f->on.joined(f->on.context, handle);
}

/* The batch is over, and so are its requests. */
static void end(struct fixture *f, int64_t now_ns, uint32_t accelerator, uint64_t first, uint64_t count) {
    f->on.ended(f->on.context, now_ns, accelerator);
    for (uint64_t handle = first; handle < first + count; handle++)
        f->on.answered(f->on.context, now_ns, handle, true);
}

/* The verdict must contain `words`; NULL: it must be good. */
static void expect(struct fixture *f, const char *words) {
    const char *wrong = checker_verdict(f->checker, &f->result);
    if (words && (!wrong || !strstr(wrong, words)))
        fail_msg("the verdict is '%s' and should speak of '%s'", wrong ? wrong : "good", words);
    if (!words && wrong)
        fail_msg("the verdict is '%s'", wrong);
    free(f->profile);
    free(f->checker);
    free(f);
}

TEST(a_good_run_is_good) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 100, 1);
    arrive(f, 1, 100, 2);
    arrive(f, 2, 100, 1);
    f->on.refused(f->on.context, 100, 0, 2, REFUSAL_DEADLINE);
    start(f, 60, 0, 0, 3);
    join(f, 0);
    join(f, 1);
    end(f, 100, 0, 0, 2);
    expect(f, NULL);
}

static void arrive_best_effort(struct fixture *f, uint64_t handle) {
    f->on.arrived(f->on.context, 0, handle, 0, 1, PRIORITY_BEST_EFFORT, 1000);
}

TEST(best_effort_beside_others_in_a_batch) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 100, 1);
    arrive_best_effort(f, 1);
    start(f, 0, 0, 0, 2);
    join(f, 0);
    join(f, 1);
    f->on.ended(f->on.context, 30, 0);
    expect(f, "of another class");
}

TEST(best_effort_that_takes_longer_than_an_ordinary_batch) {
    for (uint32_t items = 2; items <= 3; items++) { /* half of the SLO is 30, two items' time */
        struct fixture *f = fixture_new();
        f->models[0].slo_ns = 60;
        for (uint32_t i = 0; i < items; i++)
            arrive_best_effort(f, i);
        start(f, 0, 0, 0, items);
        for (uint32_t i = 0; i < items; i++)
            join(f, i);
        end(f, 50, 0, 0, items);
        expect(f, items == 2 ? NULL : "takes too long");
    }
}

TEST(a_lost_request) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 100, 1);
    expect(f, "lost: it was sent");
    f = fixture_new();
    arrive(f, 0, 100, 1);
    start(f, 0, 0, 0, 1);
    join(f, 0);
    f->on.ended(f->on.context, 20, 0);
    expect(f, "lost: it was started");
}

TEST(a_request_sent_again) {
    for (int answers = 0; answers < 3; answers++) {
        struct fixture *f = fixture_new();
        arrive(f, 0, 100, 1);
        start(f, 0, 0, 0, 1);
        join(f, 0);
        f->on.ended(f->on.context, 5, 0);
        f->on.sent_again(f->on.context, 5, 0);
        if (answers) {
            start(f, 10, 0, 0, 1);
            join(f, 0);
            end(f, 30, 0, 0, 1);
        }
        if (answers == 2)
            f->on.sent_again(f->on.context, 30, 0);
        expect(f, answers == 0 ? "lost: it was sent" : answers == 1 ? NULL : "sent again, but was answered");
    }
}

TEST(a_request_answered_twice) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 100, 1);
    start(f, 0, 0, 0, 1);
    join(f, 0);
    f->on.ended(f->on.context, 20, 0);
    f->on.refused(f->on.context, 30, 0, 0, REFUSAL_DEADLINE);
    expect(f, "refused after it was started");
    f = fixture_new();
    arrive(f, 0, 100, 1);
    start(f, 0, 0, 0, 1);
    join(f, 0);
    end(f, 20, 0, 0, 1);
    f->on.answered(f->on.context, 30, 0, true);
    expect(f, "answered, but was answered");
}

TEST(a_request_nobody_sent) {
    struct fixture *f = fixture_new();
    f->on.refused(f->on.context, 0, 0, 5, REFUSAL_DEADLINE);
    expect(f, "never arrived");
}

TEST(a_start_too_late) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 100, 1);
    start(f, 81, 0, 0, 1);
    join(f, 0);
    f->on.ended(f->on.context, 101, 0);
    expect(f, "after its deadline");
}

TEST(a_refusal_too_late_or_without_a_reason) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 100, 1);
    f->on.refused(f->on.context, 101, 0, 0, REFUSAL_DEADLINE);
    expect(f, "after its deadline");
    f = fixture_new();
    arrive(f, 0, 100, 1);
    f->on.refused(f->on.context, 99, 0, 0, REFUSAL_NONE);
    expect(f, "without a reason");
}

TEST(an_accelerator_with_two_batches) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 100, 1);
    arrive(f, 1, 100, 1);
    start(f, 0, 0, 0, 1);
    join(f, 0);
    start(f, 5, 0, 0, 1);
    join(f, 1);
    f->on.ended(f->on.context, 20, 0);
    expect(f, "second batch");
}

TEST(an_accelerator_that_never_ends) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 100, 1);
    start(f, 0, 0, 0, 1);
    join(f, 0);
    f->on.answered(f->on.context, 20, 0, true);
    expect(f, "never ends");
}

TEST(a_batch_of_the_wrong_size_or_model_or_type) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 100, 1);
    start(f, 0, 0, 0, 2);
    join(f, 0);
    f->on.ended(f->on.context, 20, 0);
    expect(f, "lacks");
    f = fixture_new();
    start(f, 0, 0, 0, 5);
    expect(f, "of at most 4");
    f = fixture_new();
    arrive(f, 0, 100, 1);
    start(f, 0, 1, 1, 1);
    join(f, 0);
    expect(f, "another model");
    f = fixture_new();
    start(f, 0, 1, 0, 1);
    expect(f, "does not run on");
}

TEST(what_the_run_itself_lost) {
    struct fixture *f = fixture_new();
    f->result.stuck = 1;
    expect(f, "lost 1 accelerators");
    f = fixture_new();
    f->result.unanswered = 2;
    expect(f, "2 requests are left");
}

TEST(lateness_may_be_allowed) {
    struct fixture *f = fixture_new();
    checker_ignore_deadlines(f->checker);
    arrive(f, 0, 15, 1);
    arrive(f, 1, 15, 1);
    f->on.refused(f->on.context, 20, 0, 1, REFUSAL_DEADLINE);
    start(f, 0, 0, 0, 1);
    join(f, 0);
    end(f, 20, 0, 0, 1);
    expect(f, NULL);
}
