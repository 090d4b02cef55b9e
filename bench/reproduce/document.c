/* document.c - a document of figures. */
#include "document.h"

#include <errno.h>
#include <stdio.h>

#include "context.h"
#include "memory.h"

const struct figure *document_figure(const struct document *document, const char *id) {
    for (const struct paper *paper = document->papers; paper->name; paper++)
        for (const struct figure *f = paper->figures; f->id; f++)
            if (strcmp(f->id, id) == 0)
                return f;
    return NULL;
}

char *document_read(const char *path) {
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

void document_section_keep(const char *text, const struct figure *figure, struct text *to) {
    char heading[128];
    snprintf(heading, sizeof(heading), "\n" FIGURE_HEADING, figure->id);
    const char *from = strstr(text, heading), *until = from ? strstr(from + 1, "\n\n##") : NULL;
    if (from)
        text_append(to, from + 1, until ? (size_t)(until + 1 - (from + 1)) : strlen(from + 1));
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

/* How many of the papers' sentences hold; nothing where there are none. */
static void sentences_put(struct text *to, const struct document *document, struct text *const *sections) {
    uint32_t hold = 0, all = 0;
    for (const struct paper *p = document->papers; p->name; p++)
        for (const struct figure *f = p->figures; f->id; f++) {
            struct text *section = &sections[p - document->papers][f - p->figures];
            const char *at = section->length ? strstr(text_end(section), HOLD_MARK) : NULL;
            unsigned section_hold, section_all;
            if (at && sscanf(at, HOLD_SENTENCES, &section_hold, &section_all) == 2) {
                hold += section_hold;
                all += section_all;
            }
        }
    if (all)
        text_printf(to,
                    "\nOf %u sentences with a number that the papers say of these figures, %u hold here (\"about\": "
                    "within 10 %%). Why the\n"
                    "others do not: [reproduction-sentences.md](reproduction-sentences.md).\n",
                    all, hold);
}

int document_write(const struct document *document, const char *path, struct text *const *sections, bool quick) {
    struct text to;
    text_init(&to, NULL, 0);
    text_printf(&to, "# %s\n\n%s\n%s\n\n%s\n", document->title, document->head,
                quick ? document->quick : document->whole, document->notes);
    sentences_put(&to, document, sections);
    for (const struct paper *p = document->papers; p->name; p++)
        paper_put(&to, sections[p - document->papers], p);
    FILE *file = fopen(path, "w");
    int rc = file && fputs(text_end(&to), file) >= 0 ? 0 : -EIO;
    rc = (file && fclose(file)) || to.failed ? -EIO : rc;
    if (rc)
        fprintf(stderr, "reproduce: cannot write '%s': %s\n", path, strerror(errno));
    text_free(&to);
    return rc;
}
