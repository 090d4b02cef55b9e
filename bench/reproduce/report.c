/* report.c - a figure's section of the document. */
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "context.h"
#include "memory.h"

#define COLUMNS     120
#define CELLS_SHOWN 12 /* larger tables are in their files only */

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

/* ---- files beside the document ---- */

/* "symphony-fig6.csv", "symphony-fig6-2.csv", ... "symphony-fig6-checks.csv". */
static const char *csv_name(const struct context *c, uint32_t number, char name[128]) {
    if (!number)
        snprintf(name, 128, "%s-checks.csv", c->figure->id);
    else if (number == 1)
        snprintf(name, 128, "%s.csv", c->figure->id);
    else
        snprintf(name, 128, "%s-%u.csv", c->figure->id, number);
    return name;
}

/* Number 0: the checks. A failure ends the program. */
static void csv_write(const struct context *c, uint32_t number, const char *text) {
    char name[128], path[4096];
    snprintf(path, sizeof(path), "%s/%s", c->folder, csv_name(c, number, name));
    FILE *file = fopen(path, "w");
    int failed = !file || fputs(text, file) < 0;
    if ((file && fclose(file)) || failed) {
        fprintf(stderr, "reproduce: cannot write '%s': %s\n", path, strerror(errno));
        exit(1);
    }
}

/* A cell of a CSV file: without blanks around it and backquotes, in quotes where it must be. */
static void cell_put(struct text *to, const char *cell, size_t length) {
    while (length && *cell == ' ')
        cell++, length--;
    while (length && cell[length - 1] == ' ')
        length--;
    bool quoted = memchr(cell, ',', length) || memchr(cell, '"', length);
    if (quoted)
        text_put_char(to, '"');
    for (size_t i = 0; i < length; i++) {
        if (cell[i] == '"')
            text_put_char(to, '"');
        if (cell[i] != '`')
            text_put_char(to, cell[i]);
    }
    if (quoted)
        text_put_char(to, '"');
}

/* A line of a CSV file, from cells with bars between them. Returns how many cells there are. */
static uint32_t csv_line(struct text *to, const char *row) {
    uint32_t cells = 0;
    for (bool more = true; more; cells++) {
        size_t length = strcspn(row, "|");
        if (cells)
            text_put_char(to, ',');
        cell_put(to, row, length);
        more = row[length] == '|';
        row += length + more;
    }
    text_put_char(to, '\n');
    return cells;
}

/* Ends the table that was begun, if any: it goes into a file, and into the document if it is small. */
static void table_end(struct context *c) {
    if (!c->table.length)
        return;
    struct text file;
    text_init(&file, NULL, 0);
    text_printf(&file, "# ./run reproduce %s%s", c->option, c->figure->id);
    runner_command(c, &file);
    text_put_char(&file, '\n');
    text_append(&file, c->csv.data, c->csv.length);
    csv_write(c, c->tables, text_end(&file));
    text_free(&file);
    if (c->rows * c->columns <= CELLS_SHOWN)
        text_append(&c->body, c->table.data, c->table.length);
    text_free(&c->table);
    text_free(&c->csv);
}

/* ---- what figures call ---- */

void report_text(struct context *c, const char *format, ...) {
    table_end(c);
    text_put_char(&c->body, '\n');
    PUT(&c->body, format);
    text_put_char(&c->body, '\n');
}

void report_table(struct context *c, const char *head) {
    table_end(c);
    c->tables++;
    c->rows = 0;
    c->columns = csv_line(&c->csv, head);
    text_printf(&c->table, "\n| %s |\n|", head);
    for (uint32_t i = 0; i < c->columns; i++)
        text_put(&c->table, "---|");
    text_put_char(&c->table, '\n');
}

void report_row(struct context *c, const char *format, ...) {
    size_t before = c->table.length;
    text_put(&c->table, "| ");
    PUT(&c->table, format);
    uint32_t cells = csv_line(&c->csv, text_end(&c->table) + before + 2);
    if (cells != c->columns) {
        fprintf(stderr, "reproduce: %s: a row of %u cells in a table of %u\n", c->figure->id, cells, c->columns);
        exit(1);
    }
    text_put(&c->table, " |\n");
    c->rows++;
}

/* A line of the checks; `published` NULL: a check of ours. */
static void check_put(struct context *c, const char *published, bool held, const char *format, va_list arguments) {
    char ours[1024];
    if ((size_t)vsnprintf(ours, sizeof(ours), format, arguments) >= sizeof(ours)) {
        fprintf(stderr, "reproduce: a check is too long: %.60s...\n", ours);
        exit(1);
    }
    cell_put(&c->checks, published ? published : "", published ? strlen(published) : 0);
    text_put_char(&c->checks, ',');
    cell_put(&c->checks, ours, strlen(ours));
    text_put(&c->checks, held ? ",yes\n" : ",no\n");
    if (!held && !published)
        text_printf(&c->missed, "- **Does not hold**: %s.\n", ours);
    *(published ? &c->sentences : &c->checks_count) += 1;
    *(published ? &c->sentences_held : &c->checks_held) += held;
}

#define CHECK_PUT(c, published, held, format)                                                                          \
    do {                                                                                                               \
        va_list arguments_;                                                                                            \
        va_start(arguments_, format);                                                                                  \
        check_put((c), (published), (held), (format), arguments_);                                                     \
        va_end(arguments_);                                                                                            \
    } while (0)

void report_check(struct context *c, bool held, const char *format, ...) {
    CHECK_PUT(c, NULL, held, format);
    c->must_missed += !held;
}

void report_sentence(struct context *c, const char *published, bool holds, const char *format, ...) {
    CHECK_PUT(c, published, holds, format);
}

void report_sentence_kept(struct context *c, const char *published, bool holds, const char *format, ...) {
    CHECK_PUT(c, published, holds, format);
    c->must_missed += !holds;
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
    table_end(c);
    if ((rc = runner_scenarios(c, err)))
        return rc;
    text_printf(to, FIGURE_HEADING "%s\n\n", f->id, f->title);
    wrapped_put(to, "**Published.** ", f->paper, "\n");
    text_append(to, c->body.data, c->body.length);
    text_printf(to, "\n![%.*s](%s/%s.svg)\n", figure_name_length(f), f->title, link_base(c), f->id);
    if (f->differs)
        wrapped_put(to, "\n**What differs.** ", f->differs, "\n");
    if (c->missed.length)
        text_printf(to, "\n%s", text_end(&c->missed));
    char name[128];
    text_put_char(to, '\n');
    if (c->checks.length) {
        struct text file;
        text_init(&file, NULL, 0);
        text_printf(&file, "published,ours,holds\n%s", text_end(&c->checks));
        csv_write(c, 0, text_end(&file));
        text_free(&file);
        text_put_char(to, '[');
        if (c->sentences)
            text_printf(to, HOLD_SENTENCES, c->sentences_held, c->sentences);
        if (c->checks_count)
            text_printf(to, "%s: %u/%u", c->sentences ? ", checks" : "Checks", c->checks_held, c->checks_count);
        text_printf(to, "](%s/%s). ", link_base(c), csv_name(c, 0, name));
    }
    text_put(to, "[Data]");
    for (uint32_t t = 1; t <= c->tables; t++) {
        if (t > 1)
            text_printf(to, ", [%u]", t);
        text_printf(to, "(%s/%s)", link_base(c), csv_name(c, t, name));
    }
    text_put(to, ".\n");
    return to->failed ? error_set(err, -ENOMEM, "out of memory") : 0;
}
