/* split_file.h - the file of `symphony plan split`: a query's stages, its SLO and its rate. */
#pragma once

#include "core/util/error.h"
#include "sched/plan/split.h"

struct split_file {
    int64_t slo_ns;
    double rate_rps; /* queries */
    uint32_t count;  /* of stages; each comes behind the stages that it is `after` */
    struct split_stage stages[SPLIT_STAGES_MAX];
    char *names[SPLIT_STAGES_MAX];
};

/* -errno, and a sentence that says where. Free with split_file_free() after success. */
int split_file_read(const char *path, struct split_file *file, struct sy_error *err);
/* The same from memory; `origin` is what error messages call it. */
int split_file_parse(const char *origin, const char *text, size_t bytes, struct split_file *file, struct sy_error *err);
void split_file_free(struct split_file *file);
