/* lines.h - text files read line by line in bounded memory, with mistakes that say where. For set-up; one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/util/error.h"

#define LINES_LENGTH_MAX 65535 /* characters of a line */

struct lines {
    FILE *file;
    const char *path;
    uint32_t number; /* number of the line in `text`, from 1 */
    char text[LINES_LENGTH_MAX + 1];
};

/* Opens a file; `path` must outlive the reading. 0, or -errno with a sentence. */
int lines_open(struct lines *lines, const char *path, struct sy_error *err);
void lines_close(struct lines *lines);
/* Reads the next line that is neither blank nor a comment (#...) into `text`, without its line end. 1; 0 at the end of
 * the file; -errno with a sentence, -EINVAL for a line that is too long or has a zero byte. */
int lines_next(struct lines *lines, struct sy_error *err);
/* -EINVAL with "PATH:LINE: sentence". */
int lines_error(const struct lines *lines, struct sy_error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Cuts the next field off *rest, without the blanks around the field. A field ends at a comma or at the end of the
 * line. NULL: no field is left. */
char *lines_field(char **rest);
