/* partition_file.h - the file of `symphony plan partition`: models, and the sub-clusters for them. */
#pragma once

#include "core/util/error.h"
#include "sched/plan/partition.h"

#define PARTITION_FILE_MODELS_MAX      100000
#define PARTITION_FILE_SUBCLUSTERS_MAX 10000

struct partition_file {
    struct partition_problem problem; /* its models are the file's */
    char **names;                     /* [problem.models] */
};

/* -errno, and a sentence that says where. Free with partition_file_free() after success. */
int partition_file_read(const char *path, struct partition_file *file, struct sy_error *err);
/* The same from memory; `origin` is what error messages call it. */
int partition_file_parse(const char *origin, const char *text, size_t bytes, struct partition_file *file,
                         struct sy_error *err);
void partition_file_free(struct partition_file *file);
