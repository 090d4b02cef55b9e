/* plot.h - the plots of a figure (report.h), and drawing them by gnuplot. */
#pragma once

#include "core/util/error.h"
#include "report.h"

struct plots {
    struct plot *first, *last;
};

struct plot *plots_add(struct plots *plots, const char *title, const char *x_title, const char *y_title);
/* Draws them as the panels of one SVG. -EIO, or -errno if the file cannot be written. */
int plots_draw(const struct plots *plots, const char *title, const char *path, struct sy_error *err);
void plots_free(struct plots *plots);
