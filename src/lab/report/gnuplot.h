/* gnuplot.h - draws SVG files with the program gnuplot. */
#pragma once

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
/* Writes a distribution as data block $NAMEnumber: for quantiles q (0 to 1) the time in ms that `quantile_ms` gives,
 * against q * top. With top < 1, for requests that were never answered, the curve does not reach 1. */
void gnuplot_distribution(FILE *to, const char *name, uint32_t number, double top,
                          double (*quantile_ms)(const void *context, double q), const void *context);
