/* split_file.h - the file of `symphony plan split`: a query's stages, its SLO and its rate. */
#pragma once

#include "core/util/error.h"
#include "sched/plan/split.h"

struct split_file {
    int64_t slo_ns;
    double rate_rps; /* queries per second */
    uint32_t count;  /* number of stages; each stage comes behind the stages in its `after` */
    struct split_stage stages[SPLIT_STAGES_MAX];
    char *names[SPLIT_STAGES_MAX];
};

/* Reads a file. 0, or -errno with a sentence that names the line. Free with split_file_free() after success. */
int split_file_read(const char *path, struct split_file *file, struct sy_error *err);
/* Reads a file's text from memory, as split_file_read(); `origin` is its name in error messages. */
int split_file_parse(const char *origin, const char *text, size_t bytes, struct split_file *file, struct sy_error *err);
void split_file_free(struct split_file *file);
