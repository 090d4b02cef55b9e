/* gnuplot.h - draws SVG files with the program gnuplot. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/util/error.h"

/* Whether gnuplot is there: 0 or -ENOENT. */
int gnuplot_find(struct sy_error *err);
/* Whether gnuplot is there and the file can be written (files_writable()). -ENOENT or -errno. */
int gnuplot_check(const char *path, struct sy_error *err);
/* Starts gnuplot with an SVG of the given size as its output. Write its commands to the stream. NULL after an error. */
FILE *gnuplot_open(const char *path, int width, int height, struct sy_error *err);
/* Waits until gnuplot has drawn. 0 or -EIO. */
int gnuplot_close(FILE *to, const char *path, struct sy_error *err);
/* Writes a string in gnuplot's single quotes. */
void gnuplot_quote(FILE *to, const char *text);
/* The latencies of a model, or of all together. */
struct gnuplot_curve {
    const char *name;
    double answered;   /* share of the requests that were answered, to which the curve rises */
    double slo_ms;     /* SLO; 0: none */
    const void *times; /* the latencies, for `quantile_ms` */
    bool all;          /* whether the curve is of all models together */
};

#define GNUPLOT_MODELS_MAX 10 /* models of a picture, which has no more colours */

/* Draws the share of the requests that were answered within each time. `quantile_ms`: the time at quantile q, 0 to 1.
 */
void gnuplot_latencies(FILE *to, const char *title, const char *axis, const struct gnuplot_curve *curves,
                       uint32_t count, double (*quantile_ms)(const void *times, double q));
