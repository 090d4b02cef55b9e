/* report.c - a figure's section of the document. */
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "context.h"
#include "memory.h"

#define COLUMNS 120

bool figure_quick(const struct context *c) {
    return c->quick;
}

static void put(struct text *to, const char *format, va_list arguments) {
    char line[4096];
    if ((size_t)vsnprintf(line, sizeof(line), format, arguments) >= sizeof(line)) {
        fprintf(stderr, "reproduce: a text is too long: %.60s...\n", line);
        exit(1);
    }
    text_put(to, line);
}

/* Writes a paragraph with lines broken at blanks, between `before` and `after`. */
static void wrapped_put(struct text *to, const char *before, const char *paragraph, const char *after) {
    size_t column = strlen(before);
    text_put(to, before);
    for (const char *word = paragraph; *word;) {
        size_t length = strcspn(word, " ");
        if (word != paragraph && column + 1 + length > COLUMNS) {
            text_put_char(to, '\n');
            column = 0;
        } else if (word != paragraph) {
            text_put_char(to, ' ');
            column++;
        }
        text_append(to, word, length);
        column += length;
        word += length + strspn(word + length, " ");
    }
    text_put(to, after);
}

#define PUT(to, format)                                                                                                \
    do {                                                                                                               \
        va_list arguments_;                                                                                            \
        va_start(arguments_, format);                                                                                  \
        put((to), (format), arguments_);                                                                               \
        va_end(arguments_);                                                                                            \
    } while (0)

void report_text(struct context *c, const char *format, ...) {
    text_put_char(&c->body, '\n');
    PUT(&c->body, format);
    text_put_char(&c->body, '\n');
}

static uint32_t cells_of(const char *row) {
    uint32_t cells = 1;
    for (; *row; row++)
        cells += *row == '|';
    return cells;
}

void report_table(struct context *c, const char *head) {
    c->columns = cells_of(head);
    text_printf(&c->body, "\n| %s |\n|", head);
    for (uint32_t i = 0; i < c->columns; i++)
        text_put(&c->body, "---|");
    text_put_char(&c->body, '\n');
}

void report_row(struct context *c, const char *format, ...) {
    size_t before = c->body.length;
    text_put(&c->body, "| ");
    PUT(&c->body, format);
    uint32_t cells = cells_of(text_end(&c->body) + before + 2);
    if (cells != c->columns) {
        fprintf(stderr, "reproduce: %s: a row of %u cells in a table of %u\n", c->figure->id, cells, c->columns);
        exit(1);
    }
    text_put(&c->body, " |\n");
}

void report_check(struct context *c, bool held, const char *format, ...) {
    text_put(&c->checks, held ? "- holds: " : "- **does not hold**: ");
    PUT(&c->checks, format);
    text_put_char(&c->checks, '\n');
    c->checks_missed += !held;
}

static void sentence_put(struct text *to, const char *published, bool holds, const char *format, va_list arguments) {
    text_printf(to, "| %s | ", published);
    put(to, format, arguments);
    text_put(to, holds ? SENTENCE_HOLDS : SENTENCE_FAILS);
}

void report_sentence(struct context *c, const char *published, bool holds, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    sentence_put(&c->sentences, published, holds, format, arguments);
    va_end(arguments);
}

void report_sentence_kept(struct context *c, const char *published, bool holds, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    sentence_put(&c->sentences, published, holds, format, arguments);
    va_end(arguments);
    c->checks_missed += !holds;
}

struct plot *report_plot(struct context *c, const char *title, const char *x_title, const char *y_title) {
    return plots_add(&c->plots, title, x_title, y_title);
}

/* The base of links: the last part of the folder's path, since the document lies beside that folder. */
static const char *link_base(const struct context *c) {
    const char *slash = strrchr(c->folder, '/');
    return slash ? slash + 1 : c->folder;
}

int report_section(struct context *c, struct text *to, struct sy_error *err) {
    const struct figure *f = c->figure;
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s.svg", c->folder, f->id);
    int rc = c->plots.first ? plots_draw(&c->plots, f->title, path, err)
                            : error_set(err, -EINVAL, "figure %s has no plot", f->id);
    if (rc)
        return rc;
    text_printf(to, "### <a id=\"%s\"></a>%s\n\n", f->id, f->title);
    wrapped_put(to, "**Published.** ", f->paper, "\n\n");
    text_printf(to, "**Repeated by** `./run reproduce %s%s`", c->option, f->id);
    if ((rc = runner_scenarios(c, to, err)))
        return rc;
    text_append(to, c->body.data, c->body.length);
    text_printf(to, "\n![%s](%s/%s.svg)\n", f->title, link_base(c), f->id);
    if (f->differs)
        wrapped_put(to, "\n**What differs.** ", f->differs, "\n");
    if (c->sentences.length)
        text_printf(to, "\n| published | ours | |\n|---|---|---|\n%s", text_end(&c->sentences));
    if (c->checks.length)
        text_printf(to, "\n%s", text_end(&c->checks));
    return to->failed ? error_set(err, -ENOMEM, "out of memory") : 0;
}
