/* lines.c - text files read line by line in bounded memory. */
#include "core/util/lines.h"

#include <errno.h>
#include <string.h>

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* UTF-8 mark that spreadsheets write at the beginning of a file */

int lines_open(struct lines *lines, const char *path, struct sy_error *err) {
    lines->path = path;
    lines->number = 0;
    lines->file = fopen(path, "re");
    return lines->file ? 0 : error_set(err, -errno, "%s: %s", path, strerror(errno));
}

void lines_close(struct lines *lines) {
    if (lines->file)
        fclose(lines->file);
    lines->file = NULL;
}

int lines_error(const struct lines *lines, struct sy_error *err, const char *fmt, ...) {
    char sentence[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    return error_set(err, -EINVAL, "%.150s:%u: %.300s", lines->path, lines->number, sentence);
}

/* Reads the next line, blank or not. */
static int line_read(struct lines *lines, struct sy_error *err) {
    size_t length = 0;
    int c = getc_unlocked(lines->file);
    if (c == EOF && !ferror(lines->file))
        return 0;
    lines->number++;
    for (; c != EOF && c != '\n'; c = getc_unlocked(lines->file)) {
        if (c == '\0')
            return lines_error(lines, err, "a zero byte in a line of text");
        if (length == LINES_LENGTH_MAX)
            return lines_error(lines, err, "a line of more than %d characters", LINES_LENGTH_MAX);
        lines->text[length++] = (char)c;
    }
    if (ferror(lines->file))
        return error_set(err, -errno, "%s: %s", lines->path, strerror(errno));
    if (length && lines->text[length - 1] == '\r')
        length--;
    lines->text[length] = '\0';
    if (lines->number == 1 && strncmp(lines->text, BYTE_ORDER_MARK, 3) == 0)
        memmove(lines->text, lines->text + 3, length - 2);
    return 1;
}

int lines_next(struct lines *lines, struct sy_error *err) {
    for (;;) {
        int rc = line_read(lines, err);
        const char *first = lines->text + (rc > 0 ? strspn(lines->text, " \t") : 0);
        if (rc <= 0 || (*first && *first != '#'))
            return rc;
    }
}

char *lines_field(char **rest) {
    char *field = *rest;
    if (!field)
        return NULL;
    char *comma = strchr(field, ',');
    *rest = comma ? comma + 1 : NULL;
    char *end = comma ? comma : field + strlen(field);
    while (end > field && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';
    return field + strspn(field, " \t");
}
