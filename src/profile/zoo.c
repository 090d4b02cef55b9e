/* zoo.c - reads tables of published profiles. */
#include "profile/zoo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LINE_BYTES  512
#define COLUMNS_MAX 16

enum column { COLUMN_MODEL, COLUMN_TYPE, COLUMN_ALPHA, COLUMN_BETA, COLUMN_SLO, COLUMN_COUNT };

static const char *const column_names[COLUMN_COUNT] = {"model", "gpu", "alpha_ms", "beta_ms", "slo_ms"};

/* Splits a line at its commas, in place; returns the number of fields. */
static uint32_t line_split(char *line, char *fields[COLUMNS_MAX]) {
    uint32_t count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    while (count < COLUMNS_MAX) {
        fields[count++] = line;
        line = strchr(line, ',');
        if (!line)
            break;
        *line++ = '\0';
    }
    return count;
}

/* Where each column is in this table. */
static int header_read(char *line, uint32_t at[COLUMN_COUNT], struct sy_error *err) {
    char *fields[COLUMNS_MAX];
    uint32_t count = line_split(line, fields);
    for (uint32_t column = 0; column < COLUMN_COUNT; column++) {
        at[column] = 0;
        while (at[column] < count && strcmp(fields[at[column]], column_names[column]) != 0)
            at[column]++;
        if (at[column] == count)
            return error_set(err, -EINVAL, "there is no column '%s'", column_names[column]);
    }
    return 0;
}

static int number_read(const char *text, enum column column, double least, double *value, struct sy_error *err) {
    char *end;
    *value = strtod(text, &end);
    if (end == text || *end != '\0' || !(*value >= least && *value < 1e9))
        return error_set(err, -EINVAL, "%s is '%s', which is not a time", column_names[column], text);
    return 0;
}

static int entry_read(struct zoo_entry *entry, char *line, const uint32_t at[COLUMN_COUNT], struct sy_error *err) {
    char *fields[COLUMNS_MAX];
    uint32_t count = line_split(line, fields);
    for (uint32_t column = 0; column < COLUMN_COUNT; column++)
        if (at[column] >= count)
            return error_set(err, -EINVAL, "'%s' is missing", column_names[column]);
    const char *model = fields[at[COLUMN_MODEL]], *type = fields[at[COLUMN_TYPE]];
    if (strlen(model) >= sizeof(entry->model) || strlen(type) >= sizeof(entry->type) || !*model || !*type)
        return error_set(err, -EINVAL, "a name is empty or longer than %d characters", ZOO_NAME_MAX - 1);
    strcpy(entry->model, model);
    strcpy(entry->type, type);
    int rc = number_read(fields[at[COLUMN_ALPHA]], COLUMN_ALPHA, 1e-6, &entry->alpha_ms, err);
    if (!rc)
        rc = number_read(fields[at[COLUMN_BETA]], COLUMN_BETA, 0, &entry->beta_ms, err);
    if (!rc)
        rc = number_read(fields[at[COLUMN_SLO]], COLUMN_SLO, 1e-6, &entry->slo_ms, err);
    return rc;
}

static int lines_read(struct zoo *zoo, FILE *file, uint32_t *line_number, struct sy_error *err) {
    char line[LINE_BYTES];
    uint32_t at[COLUMN_COUNT], capacity = 0;
    bool header = false;
    while (fgets(line, sizeof(line), file)) {
        ++*line_number;
        if (line[0] == '#' || line[strspn(line, " \r\n")] == '\0')
            continue;
        int rc;
        if (!header) {
            rc = header_read(line, at, err);
            if (rc)
                return rc;
            header = true;
            continue;
        }
        if (zoo->count == capacity) {
            capacity = capacity ? capacity * 2 : 64;
            struct zoo_entry *entries = realloc(zoo->entries, capacity * sizeof(*entries));
            if (!entries)
                return error_set(err, -ENOMEM, "out of memory");
            zoo->entries = entries;
        }
        rc = entry_read(&zoo->entries[zoo->count], line, at, err);
        if (rc)
            return rc;
        zoo->count++;
    }
    return zoo->count ? 0 : error_set(err, -EINVAL, "there is no model in it");
}

int zoo_read(struct zoo *zoo, const char *path, struct sy_error *err) {
    *zoo = (struct zoo){0};
    FILE *file = fopen(path, "re");
    if (!file) {
        int code = -errno;
        return error_set(err, code, "cannot read %s: %s", path, strerror(-code));
    }
    struct sy_error what;
    uint32_t line_number = 0;
    int rc = lines_read(zoo, file, &line_number, &what);
    fclose(file);
    if (rc) {
        zoo_free(zoo);
        return error_set(err, rc, "%s:%u: %s", path, line_number, what.text);
    }
    return 0;
}

void zoo_free(struct zoo *zoo) {
    free(zoo->entries);
    *zoo = (struct zoo){0};
}

bool zoo_entry_in(const struct zoo_entry *entry, const char *type, enum zoo_set set) {
    if (strcasecmp(entry->type, type) != 0)
        return false;
    double ratio = entry->beta_ms / entry->alpha_ms;
    return set == ZOO_ALL || (set == ZOO_GT2 ? ratio > 2 : ratio < 2);
}

const struct zoo_entry *zoo_find(const struct zoo *zoo, const char *model, const char *type) {
    for (uint32_t i = 0; i < zoo->count; i++)
        if (strcasecmp(zoo->entries[i].model, model) == 0 && strcasecmp(zoo->entries[i].type, type) == 0)
            return &zoo->entries[i];
    return NULL;
}

uint32_t zoo_batch_max(double alpha_ms, double beta_ms, double slo_ms) {
    double most = (slo_ms - beta_ms) / alpha_ms;
    if (most < 1)
        return 1;
    return most < PROFILE_BATCH_MAX ? (uint32_t)most : PROFILE_BATCH_MAX;
}
