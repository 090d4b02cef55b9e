/* labels.c - keeps a file of labels in memory, and the places where its lines begin. */
#include "model/config/labels.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/conf.h"

struct labels {
    _Atomic uint32_t references;
    char *text;
    size_t count;
    size_t line_at[]; /* [count + 1] places at which the lines begin, then the end of the last line, plus 1 */
};

int labels_take(char *text, size_t bytes, struct labels **labels, struct sy_error *err) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += text[i] == '\n' || i + 1 == bytes;
    struct labels *made = malloc(sizeof(*made) + (count + 1) * sizeof(made->line_at[0]));
    if (!made) {
        free(text);
        return error_set(err, -ENOMEM, "no memory for %zu labels", count);
    }
    *made = (struct labels){.references = 1, .text = text};
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        made->line_at[made->count++] = at;
        at = end ? (size_t)(end - text) + 1 : bytes + 1; /* the last line counts as ended, too */
        made->line_at[made->count] = at;
    }
    *labels = made;
    return 0;
}

int labels_read(const char *path, struct labels **labels, struct sy_error *err) {
    char *text;
    size_t bytes;
    int rc = conf_slurp(path, &text, &bytes, err);
    return rc ? rc : labels_take(text, bytes, labels, err);
}

struct labels *labels_hold(struct labels *labels) {
    if (labels)
        atomic_fetch_add_explicit(&labels->references, 1, memory_order_relaxed); /* the caller has a reference */
    return labels;
}

void labels_free(struct labels *labels) {
    /* acq_rel: whoever frees does so after all others have given their references back */
    if (!labels || atomic_fetch_sub_explicit(&labels->references, 1, memory_order_acq_rel) > 1)
        return;
    free(labels->text);
    free(labels);
}

const char *labels_get(const struct labels *labels, uint64_t index, size_t *length) {
    if (!labels || index >= labels->count)
        return NULL;
    const char *line = labels->text + labels->line_at[index];
    *length = labels->line_at[index + 1] - labels->line_at[index] - 1;
    if (*length > 0 && line[*length - 1] == '\r')
        --*length;
    return line;
}
