/* report.h - reports a figure: text, tables, checks and a plot, in the order of the calls. */
#pragma once

#include <math.h>

#include "figure.h"

void report_text(struct context *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Begins a table: "what | published | ours". Then report_row() for rows with as many cells. Each goes into a CSV file;
 * the document shows those that are small. */
void report_table(struct context *c, const char *head);
void report_row(struct context *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A statement that must hold, with its numbers. If it does not, a full run exits with 1; a quick one only shows it. */
void report_check(struct context *c, bool held, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A sentence of the paper with a number, whether it holds here, and our number. The document counts them. A kept
 * one must hold, as with report_check(). */
void report_sentence(struct context *c, const char *published, bool holds, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void report_sentence_kept(struct context *c, const char *published, bool holds, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The least and the most of some numbers. */
struct range {
    double least, most;
};
#define RANGE_NONE ((struct range){HUGE_VAL, -HUGE_VAL})

static inline void range_take(struct range *range, double number) {
    range->least = fmin(range->least, number);
    range->most = fmax(range->most, number);
}

/* A plot. A figure has one picture, ID.svg; several plots become its panels. */
enum plot_style {
    PLOT_LINES,    /* with a mark at each point */
    PLOT_CURVE,    /* without */
    PLOT_POINTS,   /* marks only */
    PLOT_DASHED,   /* published numbers and bounds */
    PLOT_BARS,     /* side by side over the labels at x = 0, 1, 2, ... */
    PLOT_AREA,     /* down to the axis; what comes later covers it */
    PLOT_GREY,     /* the same, grey */
    PLOT_IMPULSES, /* from the axis */
};
struct plot *report_plot(struct context *c, const char *title, const char *x_title, const char *y_title);
/* Numbers on an axis go up by factors. */
void plot_logarithmic(struct plot *plot, bool x, bool y);
/* A name for a place on the x axis, instead of numbers. */
void plot_label(struct plot *plot, double x, const char *label);
struct series *plot_series(struct plot *plot, enum plot_style style, const char *name);
void plot_point(struct series *series, double x, double y);
