/* figure.h - a figure or table of a paper that `reproduce` repeats: what the paper says, and the function that does it.
 *
 * One file a paper ends in a const table of figures. A figure's function adds simulations (runner.h), lets them run,
 * and reports tables, plots and checks (report.h); mistakes end the program, so that there is nothing to check for:
 *
 *     static void figure9_run(struct context *c) {
 *         const struct outcome *ours = goodput_add(c, zoo_yaml, "policy.name=deferred; cluster.accelerators=%d", 64);
 *         simulate(c);
 *         report_table(c, "policy | published, requests/s | ours");
 *         report_row(c, "deferred | 7645 | %.0f", ours->all.goodput_rps);
 *     }
 *
 * The report depends only on the figure and on --quick: no wall times, whatever the number of threads. Only the
 * measured figures (--measured) are about the machine, and say which. */
#pragma once

#include <stdbool.h>
#include <string.h>

struct context; /* of the figure that is being done */

/* Texts are Markdown, without line breaks. */
struct figure {
    const char *id;      /* "symphony-table4": names its files, and the figure on the command line */
    const char *title;   /* "Table 4: ..." */
    const char *paper;   /* what the paper did and found */
    const char *differs; /* what differs here, and why; NULL: nothing */
    void (*run)(struct context *c);
};

/* How long the name is that begins its title: "Table 4". */
static inline int figure_name_length(const struct figure *figure) {
    return (int)strcspn(figure->title, ":");
}

/* Each ended by a NULL id. */
extern const struct figure symphony_figures[], clockwork_figures[], nexus_figures[], blox_figures[], kairos_figures[],
    measured_figures[], measured_clockwork_figures[];

/* Whether the figure is to be quick (--quick): fewer points, less virtual time. */
bool figure_quick(const struct context *c);
