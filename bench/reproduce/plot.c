/* plot.c - the plots of a figure, drawn by gnuplot. */
#include "plot.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "memory.h"
#include "lab/report/gnuplot.h"

#define PANEL_WIDTH  560
#define PANEL_HEIGHT 400

struct label {
    struct label *next;
    double x;
    char *text;
};

struct series {
    struct series *next;
    enum plot_style style;
    char *name;
    double (*points)[2]; /* [count], x and y */
    uint32_t count, room;
};

struct plot {
    struct plot *next;
    char *title, *x_title, *y_title;
    bool x_logarithmic, y_logarithmic;
    struct series *first, *last;
    struct label *labels, *last_label;
};

struct plot *plots_add(struct plots *plots, const char *title, const char *x_title, const char *y_title) {
    struct plot *plot = memory_take(sizeof(*plot));
    plot->title = memory_copy(title);
    plot->x_title = memory_copy(x_title);
    plot->y_title = memory_copy(y_title);
    *(plots->last ? &plots->last->next : &plots->first) = plot;
    plots->last = plot;
    return plot;
}

void plot_logarithmic(struct plot *plot, bool x, bool y) {
    plot->x_logarithmic = x;
    plot->y_logarithmic = y;
}

void plot_label(struct plot *plot, double x, const char *text) {
    struct label *label = memory_take(sizeof(*label));
    label->x = x;
    label->text = memory_copy(text);
    *(plot->last_label ? &plot->last_label->next : &plot->labels) = label;
    plot->last_label = label;
}

struct series *plot_series(struct plot *plot, enum plot_style style, const char *name) {
    struct series *series = memory_take(sizeof(*series));
    series->style = style;
    series->name = memory_copy(name);
    *(plot->last ? &plot->last->next : &plot->first) = series;
    plot->last = series;
    return series;
}

void plot_point(struct series *series, double x, double y) {
    if (series->count == series->room) {
        uint32_t room = series->room ? 2 * series->room : 16;
        double(*points)[2] = memory_take(room * sizeof(*points));
        if (series->count)
            memcpy(points, series->points, series->count * sizeof(*points));
        free(series->points);
        series->points = points;
        series->room = room;
    }
    series->points[series->count][0] = x;
    series->points[series->count++][1] = y;
}

static uint32_t bars_of(const struct plot *plot) {
    uint32_t bars = 0;
    for (const struct series *s = plot->first; s; s = s->next)
        bars += s->style == PLOT_BARS;
    return bars;
}

/* Bars stand side by side around their label, and take four fifths of the room. */
static void points_put(FILE *to, const struct plot *plot) {
    uint32_t number = 0, bars = bars_of(plot), bar = 0;
    for (const struct series *s = plot->first; s; s = s->next) {
        double aside = s->style == PLOT_BARS ? (bar++ + 0.5 - bars / 2.0) * 0.8 / bars : 0;
        fprintf(to, "$s%u << EOD\n", number++);
        for (uint32_t i = 0; i < s->count; i++)
            fprintf(to, "%.9g %.9g\n", s->points[i][0] + aside, s->points[i][1]);
        fputs(s->count ? "EOD\n" : "NaN NaN\nEOD\n", to);
    }
}

static void text_put_line(FILE *to, const char *what, const char *text) {
    fprintf(to, "set %s noenhanced ", what);
    gnuplot_quote(to, text);
    fputc('\n', to);
}

/* Writes a label; its words stand below each other. */
static void label_put(FILE *to, const struct label *label) {
    fputc('"', to);
    for (const char *at = label->text; *at; at++)
        fputs(*at == ' ' ? "\\n" : *at == '"' ? "\\\"" : *at == '\\' ? "\\\\" : (char[]){*at, '\0'}, to);
    fprintf(to, "\" %g%s", label->x, label->next ? ", " : ")\n");
}

static bool goes_below(const struct plot *plot) {
    for (const struct series *s = plot->first; s; s = s->next)
        for (uint32_t i = 0; i < s->count; i++)
            if (s->points[i][1] < 0)
                return true;
    return false;
}

/* Whether gnuplot can draw any point: a measurement on a machine that had no time for it may be no number. */
static bool any_shown(const struct plot *plot) {
    for (const struct series *s = plot->first; s; s = s->next)
        for (uint32_t i = 0; i < s->count; i++) {
            double x = s->points[i][0], y = s->points[i][1];
            if (isfinite(x) && isfinite(y) && (!plot->x_logarithmic || x > 0) && (!plot->y_logarithmic || y > 0))
                return true;
        }
    return false;
}

static void axes_put(FILE *to, const struct plot *plot) {
    text_put_line(to, "title", plot->title);
    text_put_line(to, "xlabel", plot->x_title);
    text_put_line(to, "ylabel", plot->y_title);
    fprintf(to, "unset logscale\n%s%s", plot->x_logarithmic ? "set logscale x\n" : "",
            plot->y_logarithmic ? "set logscale y\n" : "");
    fputs(plot->y_logarithmic || goes_below(plot) ? "set yrange [*:*]\n" : "set yrange [0:*]\n", to);
    fputs(any_shown(plot) ? "set xrange [*:*]\n" : "set xrange [1:10]\nset yrange [1:10]\n", to);
    fputs("set xtics auto font ''\nset bmargin\n", to);
    if (!plot->labels)
        return;
    fprintf(to, "set xrange [%g:%g]\nset bmargin 6\nset xtics noenhanced font ',9' (", plot->labels->x - 0.6,
            plot->last_label->x + 0.6);
    for (const struct label *label = plot->labels; label; label = label->next)
        label_put(to, label);
}

static void plot_put(FILE *to, const struct plot *plot) {
    static const char *const with[] = {
        [PLOT_LINES] = "linespoints linewidth 2 pointtype 7 pointsize 0.5",
        [PLOT_CURVE] = "lines linewidth 2",
        [PLOT_POINTS] = "points pointtype 6",
        [PLOT_DASHED] = "linespoints linewidth 2 dashtype 2 pointtype 6 pointsize 0.6",
        [PLOT_BARS] = "boxes fill solid 0.7",
        [PLOT_AREA] = "filledcurves x1",
        [PLOT_GREY] = "filledcurves x1 linecolor rgb 'gray'",
        [PLOT_IMPULSES] = "impulses linewidth 2",
    };
    uint32_t number = 0, bars = bars_of(plot);
    axes_put(to, plot);
    points_put(to, plot);
    if (bars)
        fprintf(to, "set boxwidth %g absolute\n", 0.8 / bars);
    for (const struct series *s = plot->first; s; s = s->next) {
        fprintf(to, "%s$s%u using 1:2 with %s title ", number ? ", " : "plot ", number, with[s->style]);
        gnuplot_quote(to, s->name);
        number++;
    }
    fputc('\n', to);
}

int plots_draw(const struct plots *plots, const char *title, const char *path, struct sy_error *err) {
    int count = 0;
    for (const struct plot *plot = plots->first; plot; plot = plot->next)
        count++;
    int columns = count > 1 ? 2 : 1, rows = (count + columns - 1) / columns;
    FILE *to = gnuplot_open(path, PANEL_WIDTH * columns + (columns == 1 ? 180 : 0), PANEL_HEIGHT * rows + 40, err);
    if (!to)
        return -EIO;
    fprintf(to, "set multiplot layout %d, %d title ", rows, columns);
    gnuplot_quote(to, title);
    fputs(" noenhanced\nset key outside below horizontal\n", to);
    for (const struct plot *plot = plots->first; plot; plot = plot->next)
        plot_put(to, plot);
    fputs("unset multiplot\n", to);
    return gnuplot_close(to, path, err);
}

static void series_free(struct series *series) {
    for (struct series *s = series, *next; s; s = next) {
        next = s->next;
        free(s->points);
        free(s->name);
        free(s);
    }
}

void plots_free(struct plots *plots) {
    for (struct plot *plot = plots->first, *next; plot; plot = next) {
        next = plot->next;
        for (struct label *label = plot->labels, *after; label; label = after) {
            after = label->next;
            free(label->text);
            free(label);
        }
        series_free(plot->first);
        free(plot->title);
        free(plot->x_title);
        free(plot->y_title);
        free(plot);
    }
    *plots = (struct plots){NULL, NULL};
}
