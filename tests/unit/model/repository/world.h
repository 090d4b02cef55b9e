/* world.h - a temporary directory with models in it, for the tests of the repository. */
#pragma once

#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/folder.h"
#include "model/repository/repository.h"

struct world {
    char root[64]; /* the test's directory */
    struct served_model *models;
    uint32_t count;
    struct sy_error err;
};

static inline void in_root(const struct world *w, char path[256], const char *name) {
    snprintf(path, 256, "%s/%.180s", w->root, name);
}

/* Writes ROOT/name, with the folders on its way. */
static inline void put(const struct world *w, const char *name, const char *text) {
    char path[256];
    in_root(w, path, name);
    for (char *slash = path + strlen(w->root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static inline int scan(struct world *w, const char *name) {
    char path[256];
    in_root(w, path, name);
    served_models_free(w->models, w->count);
    w->models = NULL;
    w->count = 0;
    w->err.text[0] = '\0';
    return repository_scan(&(struct repositories){.paths = (const char *[]){path}, .count = 1}, &w->models, &w->count,
                           &w->err);
}

/* Does `text` equal `want`, whose "@" stands for the root? */
static inline void assert_text(const struct world *w, const char *text, const char *want) {
    char full[1024];
    size_t at = 0;
    for (; *want; want++) {
        if (*want == '@')
            at += (size_t)sprintf(full + at, "%s", w->root);
        else
            full[at++] = *want;
    }
    full[at] = '\0';
    assert_string_equal(text, full);
}

static inline struct served_model *find(const struct world *w, const char *name) {
    for (uint32_t i = 0; i < w->count; i++)
        if (strcmp(w->models[i].name, name) == 0)
            return &w->models[i];
    fail_msg("no model '%s'", name);
    return NULL;
}

static inline int world_make(void **state) {
    struct world *w = calloc(1, sizeof(*w));
    strcpy(w->root, "/tmp/symphony-test-XXXXXX");
    *state = w;
    return mkdtemp(w->root) ? 0 : -1;
}

static inline int world_remove(void **state) {
    struct world *w = *state;
    int rc = folder_remove(w->root);
    served_models_free(w->models, w->count);
    free(w);
    return rc;
}
