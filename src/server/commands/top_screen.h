/* top_screen.h - what `symphony top` shows, made of a server's state (/v2/symphony/state). Pure. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "core/util/text.h"

struct top_view {
    int columns, rows; /* size of the screen; rows 0: as many as there are */
    bool colours;      /* escape sequences of ANSI terminals; they leave the background, and say what is bad by its
                          colour and by figures */
    bool accelerators; /* each accelerator has a row, not only each type */
    int first;         /* first model to show */
    const char *note;  /* last row; NULL: none */
};

/* Appends the screen, a line a row, without a line feed behind the last one if there are `rows`. Returns how many
 * models there was room for. */
int top_screen_put(struct text *out, const json_t *state, const struct top_view *view);
/* Appends a line about all models, and one about each, in the form key=value. */
void top_lines_put(struct text *out, const json_t *state, const char *time);
