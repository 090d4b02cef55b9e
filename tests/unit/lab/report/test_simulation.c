/* test_simulation.c - a scenario simulated: mistakes with their place, runs, searches, and being stopped. */
#include "lab/report/simulation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/test.h"

#define ONE_MODEL                                                                                                      \
    "cluster: {accelerators: 2}\n"                                                                                     \
    "models: [{name: m, alpha_ms: 1, beta_ms: 2, slo_ms: 20}]\n"                                                       \
    "run: {seconds: 2, warmup_seconds: 0}\n"

struct fixture {
    struct simulation *simulation;
    struct simulation_progress progress;
    atomic_int stop;
    struct sy_error err;
};

static int make(struct fixture *f, const char *text, const char *const *sets, uint32_t set_count) {
    *f = (struct fixture){.simulation = calloc(1, sizeof(*f->simulation))};
    f->progress.stop = &f->stop;
    assert_non_null(f->simulation);
    return simulation_make_text(f->simulation, "s.yaml", text, sets, set_count, &f->err);
}

static void end(struct fixture *f) {
    simulation_free(f->simulation);
    free(f->simulation);
}

TEST(mistakes_say_where) {
    static const struct {
        const char *text, *set, *want;
    } cases[] = {
        {"cluster: {accelerators: 2}\nmodels: [{name: m, alpha_ms: 1, beta_ms: 2}]\n", NULL,
         "s.yaml:2: models.0: 'slo_ms' is missing"},
        {ONE_MODEL, "run.seconds=long", "--set: run.seconds: 'long' is not a number (expected a number of seconds)"},
        {ONE_MODEL, "run.second=1", "--set: run.second: unknown key (expected seconds, warmup_seconds, seed)"},
        {ONE_MODEL, "models.1.slo_ms=1", "--set models.1.slo_ms=1: there is no '1'"},
        {"cluster: {accelerators: 2, faults: {every_s: 5, for_s: 1}}\nautoscale: {max: 4}\n"
         "models: [{name: m, alpha_ms: 1, beta_ms: 2, slo_ms: 20}]\n",
         NULL, "s.yaml: autoscale is not simulated together with cluster.faults"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture f;
        assert_true(make(&f, cases[i].text, &cases[i].set, cases[i].set ? 1 : 0) < 0);
        assert_string_equal(f.err.text, cases[i].want);
        end(&f);
    }
}

TEST(a_file_that_is_not_there_is_named) {
    struct simulation *s = calloc(1, sizeof(*s));
    struct sy_error err;
    assert_int_equal(simulation_make(s, "/nowhere/s.yaml", NULL, 0, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nowhere/s.yaml"));
    simulation_free(s);
    free(s);
}

TEST(later_changes_win) {
    struct fixture f;
    const char *const sets[] = {"workload.rate_rps=100", "workload.rate_rps=300", "models.0.slo_ms=30"};
    assert_int_equal(make(&f, ONE_MODEL, sets, 3), 0);
    assert_int_equal(simulation_run(f.simulation, &f.progress, NULL, &f.err), 0);
    assert_in_range(f.simulation->result.offered, 540, 660);
    assert_int_equal(f.simulation->requests, f.simulation->result.requests);
    assert_int_equal(f.simulation->scenario.models[0].slo_ns, 30000000);
    assert_false(f.simulation->searched);
    end(&f);
}

/* 18 items in 20 ms on each of two: at most 1800 requests/s. */
TEST(a_search_ends_between_what_held_and_what_failed) {
    struct fixture f;
    assert_int_equal(make(&f, ONE_MODEL, NULL, 0), 0);
    assert_int_equal(simulation_find(f.simulation, 0.02, &f.progress, NULL, &f.err), 0);
    const struct simulation *s = f.simulation;
    assert_true(s->searched && s->goodput_rps > 900 && s->goodput_rps < 1800);
    assert_int_equal(atomic_load(&f.progress.trials), s->trial_count);
    bool found = false, above = false;
    for (uint32_t i = 0; i < s->trial_count; i++) {
        assert_false(s->trials[i].held && s->trials[i].rate_rps > s->goodput_rps);
        found |= s->trials[i].held && s->trials[i].rate_rps == s->goodput_rps;
        above |= !s->trials[i].held && s->trials[i].rate_rps <= 1.021 * s->goodput_rps;
    }
    assert_true(found && above);
    assert_true(s->result.worst_bad_rate <= 0.01); /* the last run is at the goodput */
    assert_true(s->requests > s->result.requests);
    end(&f);
}

TEST(a_search_may_find_nothing) {
    struct fixture f;
    const char *set =
        "network.reply_margin_us=19900"; /* nothing can be in time, and at a rate so low that nobody comes nothing is */
    assert_int_equal(make(&f, ONE_MODEL, &set, 1), 0);
    assert_int_equal(simulation_find(f.simulation, 0.02, &f.progress, NULL, &f.err), 0);
    assert_true(f.simulation->searched && f.simulation->goodput_rps == 0);
    assert_int_equal(f.simulation->result.good, 0);
    end(&f);
}

TEST(whoever_stops_it_is_told) {
    struct fixture f;
    const char *const sets[] = {"workload.rate_rps=1000", "run.seconds=1000"};
    for (int search = 0; search < 2; search++) {
        assert_int_equal(make(&f, ONE_MODEL, sets, 2), 0);
        f.stop = 1;
        int rc = search ? simulation_find(f.simulation, 0.02, &f.progress, NULL, &f.err)
                        : simulation_run(f.simulation, &f.progress, NULL, &f.err);
        assert_int_equal(rc, -ECANCELED);
        assert_string_equal(f.err.text, "interrupted");
        assert_true(f.simulation->requests < 100000);
        end(&f);
    }
}
