/* main.c - `./run reproduce`: repeats figures and tables of the papers, and compares them with what was published. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cli/gnuplot.h"
#include "cli/options.h"
#include "context.h"
#include "memory.h"

static const struct paper {
    const char *name, *text;
    const struct figure *figures;
} papers[] = {
    {"Symphony",
     "Chen et al., *Symphony: Optimized DNN Model Serving using Deferred Batch Scheduling*, arXiv 2308.07470",
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
};

#define PAPERS (sizeof(papers) / sizeof(papers[0]))

struct settings {
    const char *output;
    int64_t jobs;
    bool quick, list;
};

#define S struct settings
static const struct option_row rows[] = {
    OPTION_FLAG(S, quick, "quick", "short simulations and few points, into build/reproduction: shows that all works"),
    OPTION_TEXT(S, output, "output", "DIR", "where reproduction.md and the folder reproduction go (default: docs)"),
    OPTION_INT(S, jobs, "jobs", "N", 1, 1024, "threads that simulate at once (default: one a core)"),
    OPTION_FLAG(S, list, "list", "the figures that there are"),
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
        "others is kept. The same on every machine and whatever the number of threads.",
    .rows = rows,
    .args_min = 0,
    .args_max = -1,
    .args_name = "FIGURE",
};

static int list_put(void) {
    for (size_t p = 0; p < PAPERS; p++)
        for (const struct figure *f = papers[p].figures; f->id; f++)
            printf("%-24s %s: %s\n", f->id, papers[p].name, f->title);
    return 0;
}

static bool wanted(const struct figure *figure, char **names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], figure->id) == 0)
            return true;
    return count == 0;
}

static int names_check(char **names, int count) {
    for (int i = 0; i < count; i++) {
        bool found = false;
        for (size_t p = 0; p < PAPERS; p++)
            for (const struct figure *f = papers[p].figures; f->id; f++)
                found |= strcmp(names[i], f->id) == 0;
        if (!found) {
            fprintf(stderr, "reproduce: there is no figure '%s' (--list shows those that there are)\n", names[i]);
            return -EINVAL;
        }
    }
    return 0;
}

/* ---- one figure ---- */

#define BEGIN_MARK "<!-- begin %s -->\n"
#define END_MARK   "<!-- end %s -->\n"

/* Does one figure. Returns how many checks were missed, or a negative errno. */
static int figure_do(const struct figure *figure, const struct settings *s, const char *folder, struct text *to) {
    cpu_set_t cores;
    thread_cores_allowed(&cores);
    struct context c = {
        .figure = figure,
        .quick = s->quick,
        .terminal = isatty(2),
        .threads = s->jobs > 0 ? (uint32_t)s->jobs : (uint32_t)CPU_COUNT(&cores),
        .folder = folder,
    };
    struct sy_error err;
    int64_t began_ns = clock_now_ns();
    text_init(&c.body, NULL, 0);
    text_init(&c.checks, NULL, 0);
    figure->run(&c);
    text_printf(to, BEGIN_MARK, figure->id);
    int rc = report_section(&c, to, &err);
    text_printf(to, END_MARK, figure->id);
    if (rc)
        fprintf(stderr, "reproduce: %s\n", err.text);
    else
        fprintf(stderr, "%-24s %u simulations, %.1f s%s\n", figure->id, c.runs + c.searches,
                (double)(clock_now_ns() - began_ns) / NS_PER_S, c.checks_missed ? ", a check does not hold" : "");
    runner_free(&c);
    plots_free(&c.plots);
    text_free(&c.body);
    text_free(&c.checks);
    return rc ? rc : (int)c.checks_missed;
}

/* ---- the document ---- */

/* The file as a string, "" if there is none. */
static char *file_text(const char *path) {
    FILE *file = fopen(path, "r");
    struct text text;
    text_init(&text, NULL, 0);
    char piece[65536];
    for (size_t got; file && (got = fread(piece, 1, sizeof(piece), file)) > 0;)
        text_append(&text, piece, got);
    if (file)
        fclose(file);
    char *copy = memory_copy(text_end(&text));
    text_free(&text);
    return copy;
}

/* Keeps a figure's section of the earlier document, with its marks. */
static void section_keep(const char *document, const char *id, struct text *to) {
    char begin[128], end[128];
    snprintf(begin, sizeof(begin), BEGIN_MARK, id);
    snprintf(end, sizeof(end), END_MARK, id);
    const char *from = strstr(document, begin), *until = from ? strstr(from, end) : NULL;
    if (until)
        text_append(to, from, (size_t)(until - from) + strlen(end));
}

static void head_put(struct text *to, bool quick) {
    text_put(to, "# Reproduction\n\n"
                 "Figures and tables of the five papers, repeated in virtual time and beside what was published.\n");
    text_put(to, quick ? "**Written by `./run reproduce --quick`: simulations of a few seconds, which only show that "
                         "all works; what must hold\nmay fail to by chance.**\n"
                       : "Written by `./run reproduce`, which gives the same document on every machine; not to be "
                         "edited.\n");
    text_put(to,
             "\nGoodput is the highest offered rate at which every model answers 99 % of its requests in time, found "
             "to 1 %. Published\nnumbers are those in the papers' texts and tables; curves that a paper only draws "
             "are not repeated as numbers. In our\nsimulations nothing takes time but batches, and what a scenario "
             "says.\n");
}

static void contents_put(struct text *to, const struct text *sections, const struct paper *paper) {
    for (const struct figure *f = paper->figures; f->id; f++)
        if (sections[f - paper->figures].length)
            text_printf(to, "- [%s, %s](#%s)\n", paper->name, f->title, f->id);
}

static void paper_put(struct text *to, const struct text *sections, const struct paper *paper) {
    bool headed = false;
    for (const struct figure *f = paper->figures; f->id; f++) {
        const struct text *section = &sections[f - paper->figures];
        if (section->length && !headed)
            text_printf(to, "\n## %s\n\n%s.\n", paper->name, paper->text);
        headed |= section->length > 0;
        if (section->length)
            text_put(to, "\n");
        text_append(to, section->data, section->length);
    }
}

static uint32_t figures_of(const struct paper *paper) {
    uint32_t count = 0;
    while (paper->figures[count].id)
        count++;
    return count;
}

static int document_write(const char *path, struct text *const *sections, bool quick) {
    struct text to;
    text_init(&to, NULL, 0);
    head_put(&to, quick);
    text_put(&to, "\n");
    for (size_t p = 0; p < PAPERS; p++)
        contents_put(&to, sections[p], &papers[p]);
    for (size_t p = 0; p < PAPERS; p++)
        paper_put(&to, sections[p], &papers[p]);
    FILE *file = fopen(path, "w");
    int rc = file && fputs(text_end(&to), file) >= 0 ? 0 : -EIO;
    rc = (file && fclose(file)) || to.failed ? -EIO : rc;
    if (rc)
        fprintf(stderr, "reproduce: cannot write '%s': %s\n", path, strerror(errno));
    text_free(&to);
    return rc;
}

/* Does the figures asked for. 0, or 1 after a failure or a check that does not hold. */
static int reproduce(const struct settings *s, char **names, int count, const char *folder, const char *path) {
    struct text *sections[PAPERS];
    char *before = file_text(path);
    int missed = 0, rc = 0;
    for (size_t p = 0; p < PAPERS; p++) {
        sections[p] = memory_take((figures_of(&papers[p]) + 1) * sizeof(struct text));
        for (const struct figure *f = papers[p].figures; f->id && rc >= 0; f++) {
            struct text *section = &sections[p][f - papers[p].figures];
            text_init(section, NULL, 0);
            if (wanted(f, names, count))
                missed += rc = figure_do(f, s, folder, section);
            else
                section_keep(before, f->id, section);
        }
    }
    if (rc >= 0)
        rc = document_write(path, sections, s->quick);
    if (rc >= 0)
        printf("%s\n", path);
    for (size_t p = 0; p < PAPERS; p++) {
        for (uint32_t i = 0; i < figures_of(&papers[p]); i++)
            text_free(&sections[p][i]);
        free(sections[p]);
    }
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
    if (names_check(argv + 1, count))
        return 2;
    char folder[3000], path[3000];
    const char *output = s.output ? s.output : s.quick ? "build/reproduction" : "docs";
    snprintf(folder, sizeof(folder), "%s/reproduction", output);
    snprintf(path, sizeof(path), "%s/reproduction.md", output);
    struct sy_error err;
    if (folder_make(output) || folder_make(folder))
        return 2;
    if (gnuplot_find(&err)) {
        fprintf(stderr, "reproduce: %s\n", err.text);
        return 2;
    }
    return reproduce(&s, argv + 1, count, folder, path);
}
