/* measured_live.c - Clockwork's figures 5 to 11, live on emulated accelerators with memory: bench/clockwork_live.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "measured.h"

#define NEAR      0.05 /* of the requests: how far live losses may be from simulated ones in half of the cases */
#define CASES_MAX 64
#define LIVE      "PYTHONPATH=python python3 -B bench/clockwork_live.py"

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static const char *word(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void errors_report(struct context *c, const json_t *errors, double stretch) {
    static const char *const kinds[] = {"run", "load"};
    static const char *const published[] = {"144 over, 55 under", "431 over, 348 under"};
    report_table(
        c, "figure 10: predictions | published: 99 % within, us | ours: median within, ms | 99 % within | of what "
           "ResNet50 takes here, ms");
    for (int k = 0; k < 2; k++) {
        const json_t *error = json_object_get(errors, kinds[k]);
        if (error)
            report_row(c, "%ss | %s | %g | %g | %.0f", kinds[k], published[k], number(error, "p50_ms"),
                       number(error, "p99_ms"), stretch * (k ? 8.33 : 2.61));
    }
}

void live_run(struct context *c) {
    json_t *all = measured_json(figure_quick(c) ? LIVE " --quick" : LIVE);
    if (!all) {
        fprintf(stderr, "reproduce: bench/clockwork_live.py failed\n");
        exit(1);
    }
    const json_t *cases = json_object_get(all, "cases"), *controller = json_object_get(all, "controller");
    double stretch = number(all, "stretch"), off[CASES_MAX] = {0};
    struct plot *plot = report_plot(c, "failed requests, live and simulated", "", "%");
    struct series *before = plot_series(plot, PLOT_BARS, "simulated"), *after = plot_series(plot, PLOT_BARS, "live");
    report_machine(c);
    report_text(c, "All times are %g times the paper's, for %g s; latencies are given in its own. Load average: %.0f.",
                stretch, number(all, "seconds"), number(all, "load_average"));
    report_table(c,
                 "figure | case | failed, %: published | simulated | live | median, ms: simulated | live | 99 %, ms: "
                 "simulated | live | loads: simulated | live");
    size_t count = json_array_size(cases);
    count = count < CASES_MAX ? count : CASES_MAX;
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(cases, i);
        const json_t *simulated = json_object_get(one, "simulated"), *live = json_object_get(one, "live");
        double bad[2] = {number(simulated, "bad"), number(live, "bad")};
        report_row(c, "%s | %s | %s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.0f | %.0f", word(one, "figure"),
                   word(one, "name"), word(one, "published"), 100 * bad[0], 100 * bad[1],
                   number(simulated, "p50_ms") / stretch, number(live, "p50_ms") / stretch,
                   number(simulated, "p99_ms") / stretch, number(live, "p99_ms") / stretch, number(simulated, "loads"),
                   number(live, "loads"));
        plot_label(plot, (double)i, word(one, "figure"));
        plot_point(before, (double)i, 100 * bad[0]);
        plot_point(after, (double)i, 100 * bad[1]);
        off[i] = fabs(bad[1] - bad[0]);
    }
    errors_report(c, json_object_get(all, "errors"), stretch);
    report_table(
        c, "figure 11: workers, 500 requests/s each | processor time for a request simulated, us | so a controller "
           "does at least, requests/s (published: 103,387)");
    for (size_t i = 0; i < json_array_size(controller); i++) {
        const json_t *one = json_array_get(controller, i);
        report_row(c, "%.0f | %.1f | %.0f", number(one, "workers"), number(one, "us_per_request"),
                   1e6 / number(one, "us_per_request"));
    }
    qsort(off, count, sizeof(*off), by_size);
    report_check(c, count && off[count / 2] <= NEAR,
                 "live losses are within %.0f points of simulated ones in half of the cases (%.1f; at most %.1f)",
                 100 * NEAR, 100 * off[count / 2], 100 * off[count ? count - 1 : 0]);
    json_decref(all);
}
