/* measured_profiles.c - Symphony, table 1: what batches and memory of models cost, by `symphony profile`. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "measured.h"

#define POINTS_MOST 64
#define FITS        0.98 /* R^2 of a line that fits */
#define MB          (1024.0 * 1024)

/* The line of least squares through l(b). */
struct line {
    double alpha, beta, r2, off; /* off: how far a point is from it at most, as a part of the point */
};

static struct line line_fit(const double (*points)[2], uint32_t count) {
    double x = 0, y = 0, xx = 0, xy = 0, rest = 0, all = 0;
    for (uint32_t i = 0; i < count; i++) {
        x += points[i][0] / count;
        y += points[i][1] / count;
    }
    for (uint32_t i = 0; i < count; i++) {
        xx += (points[i][0] - x) * (points[i][0] - x);
        xy += (points[i][0] - x) * (points[i][1] - y);
    }
    struct line line = {.alpha = xy / xx, .beta = y - xy / xx * x};
    for (uint32_t i = 0; i < count; i++) {
        double off = points[i][1] - line.alpha * points[i][0] - line.beta;
        rest += off * off;
        all += (points[i][1] - y) * (points[i][1] - y);
        line.off = fmax(line.off, fabs(off) / points[i][1]);
    }
    line.r2 = 1 - rest / all;
    return line;
}

static uint32_t points_read(const json_t *profile, double (*points)[2]) {
    const json_t *list = json_object_get(profile, "points");
    uint32_t count = (uint32_t)json_array_size(list);
    count = count < POINTS_MOST ? count : POINTS_MOST;
    for (uint32_t i = 0; i < count; i++) {
        const json_t *point = json_array_get(list, i);
        points[i][0] = json_number_value(json_object_get(point, "batch"));
        points[i][1] = json_number_value(json_object_get(point, "latency_ms"));
    }
    return count;
}

static void line_plot(struct plot *plot, const char *name, const struct line *line, const double (*points)[2],
                      uint32_t count) {
    char fitted[128];
    snprintf(fitted, sizeof(fitted), "%s, line", name);
    struct series *measured = plot_series(plot, PLOT_POINTS, name), *along = plot_series(plot, PLOT_CURVE, fitted);
    for (uint32_t i = 0; i < count; i++) {
        double on_line = line->alpha * points[i][0] + line->beta;
        plot_point(measured, points[i][0], points[i][1]);
        if (on_line > 0)
            plot_point(along, points[i][0], on_line);
    }
}

static double megabytes(const json_t *profile, const char *key) {
    return json_number_value(json_object_get(profile, key)) / MB;
}

static double file_megabytes(const json_t *profile) {
    struct stat file;
    const char *path = json_string_value(json_object_get(profile, "path"));
    return path && stat(path, &file) == 0 ? (double)file.st_size / MB : 0;
}

static void published_report(struct context *c, struct plot *plot) {
    for (const struct published_model *m = published_models; m < published_models + PUBLISHED_MODELS; m++) {
        struct series *series = plot_series(plot, PLOT_CURVE, m->name);
        for (int b = 1; b <= 16; b++)
            plot_point(series, b, m->alpha_ms * b + m->beta_ms);
        report_row(c, "published, 1080Ti: %s | %.2f | %.2f | %.2f | - | - | %.0f | %.0f | %.0f", m->name, m->alpha_ms,
                   m->beta_ms, m->ratio, m->file_mb, m->static_mb, m->dynamic_mb);
    }
}

/* Returns whether the line fits, if there is one. */
static bool profile_report(struct context *c, struct plot *plot, const json_t *profile) {
    const char *name = json_string_value(json_object_get(profile, "model"));
    double points[POINTS_MOST][2];
    uint32_t count = points_read(profile, points);
    if (count < 3) {
        report_row(c, "%s, %u batch sizes | - | - | - | - | - | %.1f | %.1f | %.1f", name, count,
                   file_megabytes(profile), megabytes(profile, "weights_bytes"), megabytes(profile, "batch_bytes"));
        return true;
    }
    struct line line = line_fit(points, count);
    line_plot(plot, name, &line, points, count);
    report_row(c, "%s, b = 1 to %.0f | %.2f | %.2f | %.2f | %.4f | %.0f | %.1f | %.1f | %.1f", name,
               points[count - 1][0], line.alpha, line.beta, line.beta / line.alpha, line.r2, 100 * line.off,
               file_megabytes(profile), megabytes(profile, "weights_bytes"), megabytes(profile, "batch_bytes"));
    return line.r2 >= FITS;
}

void profiles_run(struct context *c) {
    /* Shortly: one model, by its cached profile if there is one. */
    json_t *profiles = measured_json(figure_quick(c) ? "\"$SYMPHONY\" profile --json models/text-orientation"
                                                     : "\"$SYMPHONY\" profile --json --force models");
    uint32_t models = 0, fitting = 0;
    report_machine(c);
    report_table(
        c, "model | alpha, ms | beta, ms | beta/alpha | R^2 | furthest from the line, % | F: file, MB | S: static, MB "
           "| D: dynamic, MB");
    published_report(c, report_plot(c, "Published, 1080Ti", "b", "l(b), ms"));
    struct plot *plot = report_plot(c, "Ours, CPU", "b", "l(b), ms");
    plot_logarithmic(plot, true, true);
    for (size_t i = 0; i < json_array_size(profiles); i++) {
        const json_t *profile = json_array_get(profiles, i);
        if (json_object_get(profile, "error"))
            continue;
        models++;
        fitting += profile_report(c, plot, profile);
    }
    json_decref(profiles);
    report_check(c, models > 0, "models were measured (%u; `./run models` makes them)", models);
    report_check(c, fitting == models, "lines fit: R^2 is at least %.2f (for %u of %u models)", FITS, fitting, models);
}
