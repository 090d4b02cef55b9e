/* test_recording.c - a recording as a document: which requests and models it has, what the scenario says, and that the
 * simulator reads it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/advice.h"
#include "lab/scenario/scenario.h"
#include "server/load/recording.h"
#include "unit/server/load/recording_rig.h"
#include "unit/test.h"

struct made {
    struct recording r;
    struct text text;
};

/* Two types, one of which a model does not run on; three models, one twice; four requests that count. */
static void make(struct made *m) {
    struct recording *r = &m->r;
    *m = (struct made){.r = {.policy = &policy_deferred}};
    policy_options_preset(&policy_deferred, &r->options);
    r->start_ns = START;
    r->end_ns = START + 20 * NS_PER_S;
    r->types[0] = (struct recording_type){"fast", 2};
    r->types[1] = (struct recording_type){"slow", 3};
    r->types[2] = (struct recording_type){"gone", 0};
    r->type_count = 3;
    r->models = calloc(4, sizeof(*r->models));
    r->model_count = 4;
    r->models[0] = model("a b,c", 1, 50, 8);
    r->models[0].priorities = 2;
    r->models[0].weight = 2.5;
    r->models[1] = model("m", 1, 30, 16);
    r->models[2] = model("m", 3, 5, 4);
    r->models[3] = model("silent", 1, 30, 4);
    for (uint32_t i = 0; i < 4; i++)
        table_set(&r->models[i], 0, 1, 2);
    table_set(&r->models[1], 1, 4, 8);
    table_set(&r->models[2], 1, 4, 8);
    r->models[2].latency_ns[0][1] = 7 * NS_PER_MS; /* over its SLO */
    r->served = 6;
    r->model_of = malloc(r->served * sizeof(uint32_t));
    for (uint32_t i = 0; i < r->served; i++)
        r->model_of[i] = i > 0 && i < 5 ? i - 1 : UINT32_MAX;
    r->models[1].since_ns = START + 5 * NS_PER_S;
    r->reply_margin_ns = 2 * NS_PER_MS;
    r->ctrl_ns = 150 * NS_PER_US;
    const struct recorded_request requests[] = {
        request(-1, 1, 48000, 1, 0),                               /* before the time */
        request(0.5, 1, 48000, 3, 1),  request(1, 2, 28000, 1, 0), /* of another model that had the place */
        request(6, 2, 28001, 2000, 0), request(7, 5, 1000, 1, 0),  /* of a place without a model */
        request(8, 99, 1000, 1, 0),                                /* of none */
        request(9.25, 3, 3000, 1, 0),  request(19, 1, 60000000, 1, PRIORITY_BEST_EFFORT),
        request(21, 1, 48000, 1, 0), /* after it */
    };
    r->request_count = sizeof(requests) / sizeof(requests[0]);
    r->requests = malloc(sizeof(requests));
    memcpy(r->requests, requests, sizeof(requests));
    const struct recording_look looks[] = {
        {START - NS_PER_S, 10, 1, 0, ADVICE_NONE, 5},
        {START + 1 * NS_PER_S, 20, 1, 4e9, ADVICE_NONE, 5},
        {START + 3 * NS_PER_S, 120, 11, 10e9, 4, 5},
        {START + 19 * NS_PER_S, 130, 11, 10e9, 6, 4},
    };
    r->look_count = 4;
    r->looks = malloc(sizeof(looks));
    memcpy(r->looks, looks, sizeof(looks));
}

static void drop(struct made *m) {
    recording_free(&m->r);
    text_free(&m->text);
}

static const char *written(struct made *m) {
    struct sy_error err = {""};
    if (recording_head_write(&m->r, &m->text, &err))
        fail_msg("%s", err.text);
    for (uint64_t next = 0; next < m->r.request_count;) /* a line at a time */
        next = recording_trace_write(&m->r, next, m->text.length + 1, &m->text);
    return text_end(&m->text);
}

static void assert_has(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text);
}

TEST(requests_of_the_time_and_of_models_that_are_there) {
    struct made m;
    make(&m);
    const char *text = written(&m);
    assert_has(text, "\n--- trace\n"
                     "seconds,model,items,slo_ms,priority\n"
                     "0.500000000,a_b_c,3,50.000,1\n"
                     "6.000000000,m,1024,30.001,\n"
                     "9.250000000,m@3,1,5.000,\n"
                     "19.000000000,a_b_c,1,60002.000,best_effort\n");
    assert_null(strstr(text, "silent"));
    assert_has(text, "\"seconds\":20.000,\"requests\":4,\"overwritten\":0,\"unknown\":3,");
    drop(&m);
}

TEST(looks_say_what_was_counted_in_between) {
    struct made m;
    make(&m);
    assert_has(written(&m),
               "\"looks\":[[1.000,10,0,2,null,5],[3.000,100,10,3,4,5],[19.000,10,0,0,6,4]]}\n--- scenario\n");
    drop(&m);
}

TEST(the_scenario_can_be_read) {
    struct made m;
    struct scenario s;
    struct sy_error err = {""};
    make(&m);
    const char *text = written(&m), *from = strstr(text, "--- scenario\n") + 13, *to = strstr(from, "--- trace\n");
    if (scenario_read_text("scenario", from, (size_t)(to - from), NULL, 0, &s, &err))
        fail_msg("%s\n%s", err.text, text);
    assert_int_equal(s.type_count, 2);
    assert_int_equal(s.types[1].count, 3);
    assert_int_equal(s.model_count, 3);
    assert_string_equal(s.models[0].name, "a_b_c");
    assert_int_equal(s.models[0].priority_count, 2);
    assert_true(s.models[0].weight == 2.5 && s.models[1].weight == 1);
    assert_int_equal(s.models[0].batch_max, 8);
    assert_int_equal(s.models[1].slo_ns, 30 * NS_PER_MS);
    assert_true(s.models[2].slo_ns > 7 * NS_PER_MS && s.models[2].slo_ns < 71 * NS_PER_MS / 10);
    assert_int_equal(s.ctrl_ns, 150 * NS_PER_US);
    assert_int_equal(s.reply_margin_ns, 2 * NS_PER_MS);
    assert_int_equal(s.warmup_ns, 3 * NS_PER_S); /* a tenth is 2 s; the look after that */
    assert_int_equal(s.duration_ns, 16 * NS_PER_S);
    assert_int_equal(s.arrivals, ARRIVALS_TRACE);
    scenario_free(&s);
    drop(&m);
}

/* Then all of the time counts. */
TEST(requests_that_have_come_since_the_last_look) {
    struct made m;
    make(&m);
    m.r.look_count = 3;
    m.r.requests[1].arrival_ns = START + 4 * NS_PER_S;
    m.r.requests[2].arrival_ns = START + 4 * NS_PER_S;
    assert_has(written(&m), "\nrun: {seconds: 18.000000, warmup_seconds: 2.000000, seed: 1}\n");
    drop(&m);
}

/* Rows that lie on a line, nearly, are left out; what is read back is as near. */
TEST(tables_are_kept) {
    struct made m;
    struct scenario s;
    struct sy_error err = {""};
    struct profile *read = malloc(profile_bytes(1024));
    make(&m);
    struct recording_model *measured = &m.r.models[0];
    free(measured->latency_ns[0]);
    measured->batch_max = 1024;
    table_set(measured, 0, 0.05, 2);
    for (uint32_t b = 1; b <= 1024; b++) { /* steps, as of a GPU's tiles, and some noise under the tolerance */
        measured->latency_ns[0][b] += b / 64 * NS_PER_MS;
        measured->latency_ns[0][b] += b % 3 * 500;
    }
    const char *text = written(&m), *from = strstr(text, "--- scenario\n") + 13, *to = strstr(from, "--- trace\n");
    assert_int_equal(scenario_read_text("scenario", from, (size_t)(to - from), NULL, 0, &s, &err), 0);
    scenario_profile(&s.models[0], 0, 1024, read);
    for (uint32_t b = 1; b <= 1024; b++) {
        double wanted = (double)measured->latency_ns[0][b], got = (double)read->latency_ns[b];
        assert_true(got > wanted * 0.998 - 2000 && got < wanted * 1.002 + 2000);
    }
    assert_in_range(s.models[0].latency[0].points, 16, 200);
    assert_int_equal(s.models[1].latency[0].points, 2); /* a line */
    scenario_free(&s);
    free(read);
    drop(&m);
}

TEST(nothing_to_show_is_said) {
    struct made m;
    struct sy_error err;
    make(&m);
    m.r.request_count = 1;
    assert_int_equal(recording_head_write(&m.r, &m.text, &err), -ENOENT);
    assert_string_equal(err.text, "no request was recorded in the last 20 s");
    drop(&m);
    make(&m);
    m.r.types[0].count = m.r.types[1].count = 0;
    assert_int_equal(recording_head_write(&m.r, &m.text, &err), -ENOENT);
    assert_string_equal(err.text, "no accelerator is in service");
    drop(&m);
}
