/* split_file.h - the file of `symphony plan split`: a query's stages, its SLO and its rate. */
#pragma once

#include "core/util/conf.h"
#include "sched/plan/split.h"

struct split_file {
    int64_t slo_ns;
    double rate_rps; /* queries per second */
    uint32_t count;  /* number of stages; each stage comes behind the stages in its `after` */
    struct split_stage stages[SPLIT_STAGES_MAX];
    char *names[SPLIT_STAGES_MAX];
};

/* Reads a file's document, and frees it. 0, or -errno with a sentence that names the line. Free with split_file_free()
 * after success. */
int split_file_read(struct conf_node *document, struct split_file *file, struct sy_error *err);
void split_file_free(struct split_file *file);
