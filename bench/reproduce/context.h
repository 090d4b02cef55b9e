/* context.h - a figure being done: shared by runner.c, report.c and main.c, and hidden from figures. */
#pragma once

#include <stdint.h>

#include "core/util/text.h"
#include "figure.h"
#include "plot.h"

struct piece; /* runner.c */

struct context {
    const struct figure *figure;
    const char *option; /* with which it is repeated: "--measured ", or "" */
    bool quick, terminal;
    uint32_t threads;
    const char *folder; /* of its files; ends in no slash */
    struct piece *first, *last, *todo;
    uint32_t searches, runs; /* added so far */
    struct text body;        /* text and tables */
    struct text sentences, checks;
    uint32_t checks_missed;
    uint32_t columns; /* of the table that was begun; 0: none */
    struct plots plots;
};

/* runner.c: writes the scenarios that the figure's simulations have in common into the folder, and to `to` the command
 * of the first simulation by itself. */
int runner_scenarios(const struct context *c, struct text *to, struct sy_error *err);
void runner_free(struct context *c);
/* How the row of a sentence ends (report_sentence()). */
#define SENTENCE_HOLDS " | holds |\n"
#define SENTENCE_FAILS " | **does not hold** |\n"

/* report.c: the figure's section of the document. */
int report_section(struct context *c, struct text *to, struct sy_error *err);
