/* simulate_plot.c - the pictures of `symphony simulate`. */
#include "lab/report/simulate_plot.h"

#include <errno.h>
#include <float.h>
#include <stdlib.h>

#include "core/util/decimal.h"
#include "lab/report/gnuplot.h"

/* ---- one run ---- */

static double time_quantile_ms(const void *times, double q) {
    return (double)sim_times_quantile_ns(times, q) / NS_PER_MS;
}

static double answered(const struct sim_times *latency, uint64_t offered) {
    return offered ? (double)latency->count / (double)offered : 0;
}

int simulate_plot_run(const struct simulation *s, const char *scenario_path, const char *path, struct sy_error *err) {
    struct sim_times *all = calloc(1, sizeof(*all));
    if (!all)
        return error_set(err, -ENOMEM, "out of memory for the plot");
    FILE *to = gnuplot_open(path, 900, 560, err);
    if (!to) {
        free(all);
        return -EIO;
    }
    struct gnuplot_curve curves[GNUPLOT_MODELS_MAX + 1];
    uint32_t models = s->scenario.model_count, count = 0;
    char all_name[32];
    for (uint32_t m = 0; m < models; m++) {
        const struct sim_model_result *r = &s->result.models[m];
        if (count < GNUPLOT_MODELS_MAX)
            curves[count++] = (struct gnuplot_curve){.name = s->scenario.models[m].name,
                                                     .answered = answered(&r->latency, r->offered),
                                                     .slo_ms = (double)s->scenario.models[m].slo_ns / NS_PER_MS,
                                                     .times = &r->latency};
        sim_times_merge(all, &r->latency);
    }
    snprintf(all_name, sizeof(all_name), "all %u models", models);
    if (models > 1)
        curves[count++] = (struct gnuplot_curve){
            .name = all_name, .answered = answered(all, s->result.offered), .times = all, .all = true};
    gnuplot_latencies(to, scenario_path, "ms from arrival to answer", curves, count, time_quantile_ms);
    free(all);
    return gnuplot_close(to, path, err);
}

/* ---- a sweep ---- */

struct panel {
    const char *title;
    const char *curves[3]; /* text after "using X:" of each curve, with its title */
    bool searched;         /* whether the panel is for searches; else for runs */
    bool always;
};

/* Columns: x, label, offered, good, goodput, bad %, p50, p99, queueing p50, idle %. */
static const struct panel panels[] = {
    {"requests/s", {"3|offered", "4|good", NULL}, false, false},
    {"goodput, requests/s", {"5|", NULL}, true, false},
    {"bad, %", {"6|", NULL}, false, true},
    {"latency, ms", {"7|p50", "8|p99", "9|queueing p50"}, false, true},
    {"accelerators idle, %", {"10|", NULL}, false, true},
};

static bool all_numbers(const struct sweep *sweep) {
    bool all = true;
    double number;
    for (uint32_t i = 0; i < sweep->count; i++)
        all &= decimal_double(sweep->values[i], -DBL_MAX, DBL_MAX, &number) == 0;
    return all;
}

/* Writes a data block for each line: $s0, $s1, ... From point to point the second key changes fastest. */
static void series_put(FILE *to, const struct sweep *sweeps, uint32_t lines, bool numbers,
                       const struct simulate_summary *summaries, uint32_t line) {
    fprintf(to, "$s%u << EOD\n", line);
    for (uint32_t i = 0; i < sweeps[0].count; i++) {
        const struct simulate_summary *m = &summaries[i * lines + line];
        if (numbers)
            fprintf(to, "%s ", sweeps[0].values[i]);
        else
            fprintf(to, "%u ", i);
        fprintf(to, "%u %g %g %g %g %g %g %g %g\n", i, m->offered_rps, m->good_rps, m->goodput_rps, 100 * m->bad_rate,
                m->latency_p50_ms, m->latency_p99_ms, m->queue_p50_ms, 100 * (1 - m->busy));
    }
    fputs("EOD\n", to);
}

static void curve_title_put(FILE *to, const char *what, const struct sweep *lines, uint32_t line) {
    char title[256];
    snprintf(title, sizeof(title), "%s%s%s", what, *what && lines ? ", " : "", lines ? lines->values[line] : "");
    fputs(" title ", to);
    gnuplot_quote(to, title);
}

static void panel_put(FILE *to, const struct panel *panel, const struct sweep *lines, uint32_t line_count) {
    const char *before = "plot ";
    fputs("set ylabel ", to);
    gnuplot_quote(to, panel->title);
    fputc('\n', to);
    for (uint32_t line = 0; line < line_count; line++)
        for (int i = 0; i < 3 && panel->curves[i]; i++) {
            char *what;
            long column = strtol(panel->curves[i], &what, 10);
            fprintf(to, "%s$s%u using 1:%ld with linespoints linewidth 2 pointtype 7 pointsize 0.5", before, line,
                    column);
            curve_title_put(to, what + 1, lines, line);
            before = ", ";
        }
    fputc('\n', to);
}

int simulate_plot_sweep(const struct sweep *sweeps, uint32_t sweep_count, const struct simulate_summary *summaries,
                        bool searched, const char *scenario_path, const char *path, struct sy_error *err) {
    const struct sweep *lines = sweep_count > 1 ? &sweeps[1] : NULL;
    uint32_t line_count = lines ? lines->count : 1;
    bool numbers = all_numbers(&sweeps[0]);
    FILE *to = gnuplot_open(path, 1100, 800, err);
    if (!to)
        return -EIO;
    for (uint32_t line = 0; line < line_count; line++)
        series_put(to, sweeps, line_count, numbers, summaries, line);
    fputs("set multiplot layout 2, 2 title ", to);
    gnuplot_quote(to, scenario_path);
    fputs(" noenhanced\nset yrange [0:*]\nset key top left\nset xlabel noenhanced ", to);
    gnuplot_quote(to, sweeps[0].key);
    fputc('\n', to);
    if (!numbers) {
        const struct sweep *sweep = &sweeps[0];
        fprintf(to, "set xrange [-0.5:%g]\nset xtics (", sweep->count - 0.5);
        for (uint32_t i = 0; i < sweep->count; i++) {
            fputs(i ? ", " : "", to);
            gnuplot_quote(to, sweep->values[i]);
            fprintf(to, " %u", i);
        }
        fputs(")\nset xtics noenhanced\n", to);
    }
    for (size_t i = 0; i < sizeof(panels) / sizeof(panels[0]); i++)
        if (panels[i].always || panels[i].searched == searched)
            panel_put(to, &panels[i], lines, line_count);
    fputs("unset multiplot\n", to);
    return gnuplot_close(to, path, err);
}
