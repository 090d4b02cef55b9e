/* test_simulate_plot.c - the pictures of a sweep: data, axis, panels, a line for each value of the second key. */
#include "lab/report/simulate_plot.h"

#include "unit/lab/report/gnuplot_keeper.h"

TEST(a_sweep_of_numbers_has_them_as_its_axis) {
    struct sweep sweep;
    struct sy_error err;
    const struct simulate_summary summaries[] = {
        {.offered_rps = 100, .good_rps = 99, .bad_rate = 0.01, .busy = 0.25},
        {.offered_rps = 200, .good_rps = 150, .bad_rate = 0.25, .busy = 1, .latency_p50_ms = 7.5},
    };
    keeper_put();
    assert_int_equal(sweep_parse("workload.rate_rps=100,200", &sweep, &err), 0);
    assert_int_equal(simulate_plot_sweep(&sweep, 1, summaries, false, "it's.yaml", "p.svg", &err), 0);
    const char *text = commands();
    assert_has(text, "set output 'p.svg'\n");
    assert_has(text, "set multiplot layout 2, 2 title 'it''s.yaml' noenhanced\n");
    assert_has(text, "$s0 << EOD\n100 0 100 99 0 1 0 0 0 75\n200 1 200 150 0 25 7.5 0 0 0\nEOD\n");
    assert_has(text, "set xlabel noenhanced 'workload.rate_rps'\n");
    assert_has(text, "set ylabel 'requests/s'\nplot $s0 using 1:3 ");
    assert_null(strstr(text, "goodput")); /* nothing was searched */
    assert_null(strstr(text, "xtics"));
    sweep_free(&sweep);
}

TEST(a_sweep_of_words_and_a_second_key_has_labels_and_lines) {
    struct sweep sweeps[2];
    struct sy_error err;
    struct simulate_summary summaries[4] = {
        {.goodput_rps = 1}, {.goodput_rps = 2}, {.goodput_rps = 3}, {.goodput_rps = 4}};
    keeper_put();
    assert_int_equal(sweep_parse("policy.name=deferred,eager", &sweeps[0], &err), 0);
    assert_int_equal(sweep_parse("run.seed=1,2", &sweeps[1], &err), 0);
    assert_int_equal(simulate_plot_sweep(sweeps, 2, summaries, true, "s.yaml", "p.svg", &err), 0);
    const char *text = commands();
    assert_has(text, "set xtics ('deferred' 0, 'eager' 1)\n");
    assert_has(text, "$s0 << EOD\n0 0 0 0 1 ");
    assert_has(text, "\n1 1 0 0 3 "); /* the second key turns faster */
    assert_has(text, "$s1 << EOD\n0 0 0 0 2 ");
    assert_has(text, "set ylabel 'goodput, requests/s'\nplot $s0 using 1:5 ");
    assert_has(text, "title '2'");
    assert_has(text, "title 'p99, 1'");
    assert_null(strstr(text, "'requests/s'"));
    sweep_free(&sweeps[0]);
    sweep_free(&sweeps[1]);
}

int main(void) {
    return tests_run(folder_make, folder_remove);
}
