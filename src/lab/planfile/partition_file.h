/* partition_file.h - the file of `symphony plan partition`: models, and the sub-clusters for them. */
#pragma once

#include "core/util/conf.h"
#include "sched/plan/partition.h"

#define PARTITION_FILE_MODELS_MAX      100000
#define PARTITION_FILE_SUBCLUSTERS_MAX 10000

struct partition_file {
    struct partition_problem problem; /* models are in the order of the file */
    char **names;                     /* [problem.models] */
};

/* Reads a file's document, and frees it. 0, or -errno with a sentence that names the line. Free with
 * partition_file_free() after success. */
int partition_file_read(struct conf_node *document, struct partition_file *file, struct sy_error *err);
void partition_file_free(struct partition_file *file);
