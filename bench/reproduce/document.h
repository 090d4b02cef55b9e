/* document.h - a document of figures: Markdown that keeps each figure's section until it is done again. */
#pragma once

#include "core/util/text.h"
#include "figure.h"

struct paper {
    const char *name, *text;
    const struct figure *figures; /* ended by a NULL id */
};

struct document {
    const char *name;   /* of its file, without .md */
    const char *option; /* with which `reproduce` writes it, as "--measured "; or "" */
    const char *title, *head;
    const char *quick, *whole;  /* then one of these: it was written with --quick, or was not */
    const char *notes;          /* then this */
    const struct paper *papers; /* ended by a NULL name */
};

/* The figure of that id; or NULL. */
const struct figure *document_figure(const struct document *document, const char *id);
/* The document as its file has it, "" if there is none. Free it. */
char *document_read(const char *path);
/* Appends a figure's section of `text`, from its heading to the next one, if it is there. */
void document_section_keep(const char *text, const struct figure *figure, struct text *to);
/* Writes the document. sections[p][f]: of the papers' figures in their order; empty ones are left out. 0 or -EIO, which
 * is said. */
int document_write(const struct document *document, const char *path, struct text *const *sections, bool quick);
