/* main.c - `./run reproduce`: repeats figures and tables of the papers, and compares them with what was published. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/thread.h"
#include "server/commands/options.h"
#include "context.h"
#include "document.h"
#include "memory.h"
#include "lab/report/gnuplot.h"

static const struct paper virtual_papers[] = {
    {"Symphony",
     "Chen et al., *Symphony: Optimized Model Serving using Centralized Orchestration*, arXiv 2308.07470",
     symphony_figures},
    {"Clockwork",
     "Gujarati et al., *Serving DNNs like Clockwork: Performance Predictability from the Bottom Up*, OSDI 2020",
     clockwork_figures},
    {"Nexus", "Shen et al., *Nexus: A GPU Cluster Engine for Accelerating DNN-Based Video Analysis*, SOSP 2019",
     nexus_figures},
    {"Nexus on Blox", "Jonnavithula, Rallabandi, Reddy, *Implementing Inference scheduler in Blox*", blox_figures},
    {"Kairos",
     "Li et al., *Kairos: Building Cost-Efficient Machine Learning Inference Systems with Heterogeneous Cloud "
     "Resources*, HPDC 2023",
     kairos_figures},
    {.name = NULL},
};

static const struct paper measured_papers[] = {
    {"Symphony",
     "Chen et al., *Symphony: Optimized Model Serving using Centralized Orchestration*, arXiv 2308.07470",
     measured_figures},
    {"Clockwork",
     "Gujarati et al., *Serving DNNs like Clockwork: Performance Predictability from the Bottom Up*, OSDI 2020",
     measured_clockwork_figures},
    {.name = NULL},
};

static const struct document documents[] = {
    {
        .name = "reproduction",
        .option = "",
        .title = "Reproduction",
        .head = "The figures and tables of five papers, repeated in virtual time. What depends on the machine is "
                "in\n[reproduction-measured.md](reproduction-measured.md).",
        .quick =
            "**Written by `./run reproduce --quick`: simulations of a few seconds, which only show that all works; "
            "what must hold\nmay fail to by chance.**",
        .whole = "Written by `./run reproduce`, the same on every machine; not to be edited.",
        .notes = "- Goodput: the highest offered rate at which every model answers 99 % of its requests in time, found "
                 "to 1 %.\n- Only batches take time, and what a scenario says.\n- Published numbers are those of texts "
                 "and tables, not of drawn curves.\n- \"Sentences\" are the paper's, \"checks\" are ours.\n- A table "
                 "of over 12 cells is in its data file only. The file's first line repeats one of its simulations.\n- "
                 "`./run reproduce NAME` makes a section again; its picture has the name.",
        .papers = virtual_papers,
    },
    {
        .name = "reproduction-measured",
        .option = "--measured ",
        .title = "Reproduction, measured",
        .head = "The figures and tables whose numbers depend on the machine. Others are in "
                "[reproduction.md](reproduction.md).",
        .quick = "**Written by `./run reproduce --quick --measured`: short and small, which only shows that all works; "
                 "what must hold may\nfail to by chance.**",
        .whole = "Written by `./run reproduce --measured`; not to be edited.",
        .notes = "`./run reproduce --measured NAME` makes a section again; its picture has the name.",
        .papers = measured_papers,
    },
};

#define VIRTUAL  (&documents[0])
#define MEASURED (&documents[1])

struct settings {
    const char *output;
    int64_t jobs;
    bool quick, measured, list;
};

#define S struct settings
static const struct option_row rows[] = {
    OPTION_FLAG(S, quick, "quick", "short simulations and few points, into build/reproduction: shows that all works"),
    OPTION_FLAG(S, measured, "measured",
                "what depends on the machine, instead: it should have nothing else to do. Writes "
                "reproduction-measured.md"),
    OPTION_TEXT(S, output, "output", "DIR", "where reproduction.md and the folder reproduction go (default: docs)"),
    OPTION_INT(S, jobs, "jobs", "N", 1, 1024, "threads that simulate at once (default: one a core)"),
    OPTION_FLAG(S, list, "list", "the figures that there are, of both kinds"),
    OPTION_END,
};
#undef S

static const struct options options = {
    .program = "./run",
    .command = "reproduce",
    .usage = "[OPTION]... [FIGURE]...",
    .intro =
        "Repeats figures and tables of the five papers in virtual time and writes each beside what was published:\n"
        "a document, reproduction.md, with tables and plots. With FIGUREs, only those; what the document has of\n"
        "others is kept. The same on every machine and whatever the number of threads, but with --measured.",
    .rows = rows,
    .args_min = 0,
    .args_max = -1,
    .args_name = "FIGURE",
};

static int list_put(void) {
    for (const struct document *d = VIRTUAL; d <= MEASURED; d++)
        for (const struct paper *p = d->papers; p->name; p++)
            for (const struct figure *f = p->figures; f->id; f++)
                printf("%-24s %s: %s%s\n", f->id, p->name, f->title, d == MEASURED ? " (--measured)" : "");
    return 0;
}

static bool wanted(const struct figure *figure, char **names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], figure->id) == 0)
            return true;
    return count == 0;
}

static int names_check(const struct document *document, char **names, int count) {
    const struct document *other = document == MEASURED ? VIRTUAL : MEASURED;
    for (int i = 0; i < count; i++) {
        if (document_figure(document, names[i]))
            continue;
        if (document_figure(other, names[i]))
            fprintf(stderr, "reproduce: figure '%s' is one of those %s --measured\n", names[i],
                    other == MEASURED ? "with" : "without");
        else
            fprintf(stderr, "reproduce: there is no figure '%s' (--list shows those that there are)\n", names[i]);
        return -EINVAL;
    }
    return 0;
}

/* ---- one figure ---- */

/* Does one figure. Returns how many checks were missed, or a negative errno. */
static int figure_do(const struct figure *figure, const struct settings *s, const struct document *document,
                     const char *folder, struct text *to) {
    cpu_set_t cores;
    thread_cores_allowed(&cores);
    struct context c = {
        .figure = figure,
        .option = document->option,
        .quick = s->quick,
        .terminal = isatty(2),
        .threads = s->jobs > 0 ? (uint32_t)s->jobs : (uint32_t)CPU_COUNT(&cores),
        .folder = folder,
    };
    struct sy_error err;
    int64_t began_ns = clock_now_ns();
    struct text *texts[] = {&c.body, &c.table, &c.csv, &c.checks, &c.missed};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        text_init(texts[i], NULL, 0);
    figure->run(&c);
    int rc = report_section(&c, to, &err);
    if (rc)
        fprintf(stderr, "reproduce: %s\n", err.text);
    else
        fprintf(stderr, "%-24s %u simulations, %.1f s%s\n", figure->id, c.runs + c.searches,
                (double)(clock_now_ns() - began_ns) / NS_PER_S, c.must_missed ? ", a check does not hold" : "");
    runner_free(&c);
    plots_free(&c.plots);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        text_free(texts[i]);
    return rc ? rc : (int)c.must_missed;
}

/* ---- the document ---- */

static uint32_t papers_of(const struct document *document) {
    uint32_t count = 0;
    while (document->papers[count].name)
        count++;
    return count;
}

static uint32_t figures_of(const struct paper *paper) {
    uint32_t count = 0;
    while (paper->figures[count].id)
        count++;
    return count;
}

/* Does the figures asked for. 0, or 1 after a failure or a check that does not hold. */
static int reproduce(const struct settings *s, const struct document *document, char **names, int count,
                     const char *folder, const char *path) {
    const struct paper *papers = document->papers;
    uint32_t paper_count = papers_of(document);
    struct text **sections = memory_take(paper_count * sizeof(*sections));
    char *before = document_read(path);
    int missed = 0, rc = 0;
    for (uint32_t p = 0; p < paper_count; p++) {
        sections[p] = memory_take((figures_of(&papers[p]) + 1) * sizeof(struct text));
        for (const struct figure *f = papers[p].figures; f->id && rc >= 0; f++) {
            struct text *section = &sections[p][f - papers[p].figures];
            text_init(section, NULL, 0);
            if (wanted(f, names, count))
                missed += rc = figure_do(f, s, document, folder, section);
            else
                document_section_keep(before, f, section);
        }
    }
    if (rc >= 0)
        rc = document_write(document, path, sections, s->quick);
    if (rc >= 0)
        printf("%s\n", path);
    for (uint32_t p = 0; p < paper_count; p++) {
        for (uint32_t i = 0; i < figures_of(&papers[p]); i++)
            text_free(&sections[p][i]);
        free(sections[p]);
    }
    free(sections);
    free(before);
    return rc < 0 || (missed && !s->quick);
}

static int folder_make(const char *path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return 0;
    fprintf(stderr, "reproduce: cannot make the folder '%s': %s\n", path, strerror(errno));
    return -errno;
}

int main(int argc, char **argv) {
    struct settings s = {.jobs = -1};
    int count, status = options_parse(&options, argc, argv, &s, &count);
    if (status != OPTIONS_GO_ON)
        return status;
    if (s.list)
        return list_put();
    const struct document *document = s.measured ? MEASURED : VIRTUAL;
    if (names_check(document, argv + 1, count))
        return 2;
    char folder[3000], path[3000];
    const char *output = s.output ? s.output : s.quick ? "build/reproduction" : "docs";
    snprintf(folder, sizeof(folder), "%s/reproduction", output);
    snprintf(path, sizeof(path), "%s/%s.md", output, document->name);
    struct sy_error err;
    if (folder_make(output) || folder_make(folder))
        return 2;
    if (gnuplot_find(&err)) {
        fprintf(stderr, "reproduce: %s\n", err.text);
        return 2;
    }
    return reproduce(&s, document, argv + 1, count, folder, path);
}
