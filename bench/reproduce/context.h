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
    struct text body;        /* text, and the tables that are small */
    struct text table, csv;  /* of the table that was begun, in both forms; empty: none */
    uint32_t columns, rows;  /* its */
    uint32_t tables;         /* begun so far */
    struct text checks;      /* the figure's sentences and checks, as CSV */
    struct text missed;      /* checks that do not hold, for the document */
    uint32_t sentences, sentences_held, checks_count, checks_held;
    uint32_t must_missed; /* sentences and checks that must hold, and do not */
    struct plots plots;
};

/* runner.c: writes the scenarios that the figure's simulations have in common into the folder. */
int runner_scenarios(const struct context *c, struct sy_error *err);
/* runner.c: appends how many simulations there are, and the command of the first by itself, if there is one. */
void runner_command(const struct context *c, struct text *to);
void runner_free(struct context *c);

/* report.c: the figure's section of the document, and its CSV files. */
int report_section(struct context *c, struct text *to, struct sy_error *err);
/* report.c: how a section begins; document.c finds it by that. */
#define FIGURE_HEADING "### <a id=\"%s\"></a>"
/* report.c: how a section says how many sentences hold; document.c adds them up. */
#define HOLD_MARK      "Sentences: "
#define HOLD_SENTENCES HOLD_MARK "%u/%u"
