/* twins.c - records of models by their graphs. */
#include "model/profile/twins.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model/engine/op_libraries.h"
#include "model/onnx/graph_fingerprint.h"

static int bytes_add(void *context, const char *file, struct sy_error *err) {
    struct stat st;
    (void)err;
    *(uint64_t *)context += stat(file, &st) == 0 ? (uint64_t)st.st_size : 0;
    return 0;
}

void twins_graph(const struct served_model *model, char graph[40]) {
    struct fingerprint fingerprint;
    struct sy_error err;
    uint64_t bytes = 0;
    graph[0] = '\0';
    if (!op_libraries_any(model->op_libraries) && model_files_each(model->path, bytes_add, &bytes, &err) == 0 &&
        bytes <= TWIN_BYTES_MAX && graph_fingerprint(model->path, &fingerprint, &err) == 0)
        fingerprint_format(&fingerprint, graph);
}

const struct profile_record *twins_find(const struct profile_twins *twins, const char *graph) {
    for (uint32_t i = 0; i < twins->count && *graph; i++)
        if (strcmp(twins->records[i]->graph, graph) == 0)
            return twins->records[i];
    return NULL;
}

void twins_add(struct profile_twins *twins, const struct profile_record *record) {
    if (!*record->graph || twins->count == TWINS_MAX || twins_find(twins, record->graph))
        return;
    struct profile_record *copy = malloc(sizeof(*copy));
    if (!copy)
        return;
    memcpy(copy, record, sizeof(*copy));
    twins->records[twins->count++] = copy;
}

void twins_free(struct profile_twins *twins) {
    for (uint32_t i = 0; i < twins->count; i++)
        free(twins->records[i]);
    twins->count = 0;
}
