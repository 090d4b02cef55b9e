/* accelerators.c - reads the option --accelerators. */
#include "server/models/accelerators.h"

#include <errno.h>
#include <string.h>

#include "core/util/container.h"
#include "core/util/decimal.h"

static const char *const kind_names[] = {"cpu", "cuda", "emulated"};

/* Reads one group: KIND[:COUNT[:TYPE]]. */
static int group_parse(const char *text, size_t length, struct accelerator_group *group, struct sy_error *err) {
    char word[128];
    char *count, *type = NULL;
    unsigned kind = 0;

    if (length == 0 || length >= sizeof(word))
        return error_set(err, -EINVAL, "'%.*s' is not KIND[:COUNT[:TYPE]]", (int)(length < 64 ? length : 64), text);
    memcpy(word, text, length);
    word[length] = '\0';
    if ((count = strchr(word, ':'))) {
        *count++ = '\0';
        if ((type = strchr(count, ':')))
            *type++ = '\0';
    }
    while (kind < ARRAY_COUNT(kind_names) && strcmp(word, kind_names[kind]) != 0)
        kind++;
    if (kind == ARRAY_COUNT(kind_names))
        return error_set(err, -EINVAL, "'%s' is not a kind of accelerator: cpu, cuda or emulated", word);
    *group = (struct accelerator_group){.kind = (enum accelerator_kind)kind, .count = 1};
    if (count) {
        int64_t n;
        int most = kind == ACCELERATOR_EMULATED ? ACCELERATORS_MAX : ACCELERATORS_REAL_MAX;
        if (decimal_int(count, 1, most, &n) < 0)
            return error_set(err, -EINVAL, "'%s' is not a number of accelerators from 1 to %d", count, most);
        group->count = (uint32_t)n;
    }
    if (type && (!*type || strlen(type) >= sizeof(group->type)))
        return error_set(err, -EINVAL, "'%s': expected a type of 1 to %zu bytes, as in cuda:1:a10", text,
                         sizeof(group->type) - 1);
    snprintf(group->type, sizeof(group->type), "%.63s", type ? type : word);
    return 0;
}

int accelerators_parse(const char *text, struct accelerator_group *groups, uint32_t max, struct sy_error *err) {
    uint32_t found = 0, total = 0;

    for (;;) {
        size_t length = strcspn(text, ",");
        if (found == max)
            return error_set(err, -EINVAL, "more than %u groups of accelerators", max);
        int rc = group_parse(text, length, &groups[found], err);
        if (rc < 0)
            return rc;
        for (uint32_t i = 0; i < found; i++) {
            if (strcmp(groups[i].type, groups[found].type) == 0)
                return error_set(err, -EINVAL, "accelerators of type '%s' are given twice", groups[i].type);
            if (groups[i].kind == groups[found].kind && groups[i].kind != ACCELERATOR_EMULATED)
                return error_set(err, -EINVAL, "%s is given twice: those of one machine are of one type",
                                 kind_names[groups[i].kind]);
        }
        total += groups[found++].count;
        if (total > ACCELERATORS_MAX)
            return error_set(err, -EINVAL, "%u accelerators are more than one process may have: %d", total,
                             ACCELERATORS_MAX);
        if (!text[length])
            return (int)found;
        text += length + 1;
    }
}
