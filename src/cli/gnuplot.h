/* gnuplot.h - drawing SVG files by the program gnuplot. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* Whether gnuplot is there: 0 or -ENOENT. */
int gnuplot_find(struct sy_error *err);
/* Whether gnuplot is there and the file can be written; the file is created. -ENOENT or -errno. */
int gnuplot_check(const char *path, struct sy_error *err);
/* Starts gnuplot with an SVG of the given size as its output; what is written to the stream are its commands. NULL
 * after an error. */
FILE *gnuplot_open(const char *path, int width, int height, struct sy_error *err);
/* Waits for the drawing. -EIO. */
int gnuplot_close(FILE *to, const char *path, struct sy_error *err);
/* A string in gnuplot's single quotes. */
void gnuplot_quote(FILE *to, const char *text);
/* A data block $NAMEnumber of a distribution: the time in ms at quantile q (0 to 1) by `quantile_ms`, against q * top:
 * requests that were never answered keep the curve from reaching 1. */
void gnuplot_distribution(FILE *to, const char *name, uint32_t number, double top,
                          double (*quantile_ms)(const void *context, double q), const void *context);
