/* squishy_file.h - the file of `symphony plan squishy`: sessions, and the GPUs for them.
 *
 * Sessions that begin with the same layers and have the same SLO are planned as one session, whose batches have items
 * of all of these (core/data/shared.h). */
#pragma once

#include "core/util/conf.h"
#include "sched/plan/squishy.h"

#define SQUISHY_FILE_SESSIONS_MAX 10000
#define SQUISHY_FILE_GPUS_MAX     100000

struct squishy_file {
    uint32_t gpus;                    /* number of GPUs; 0: not given */
    uint64_t memory_bytes;            /* memory of a GPU; 0: not given */
    uint32_t count;                   /* number of sessions */
    struct squishy_session *sessions; /* [count] */
    char **names; /* [count] names of sessions; for several planned as one: the first one's name, and the number of the
                   * others */
    struct squishy_members *members; /* [count] */
};

/* The file's sessions that are planned as one session; several only if they share a prefix. */
struct squishy_members {
    char **names; /* [count] */
    uint32_t count;
};

/* Reads a file's document, and frees it. `whole`: sessions that share a prefix are planned as if each had the prefix
 * for itself. 0, or -errno with a sentence that names the line. Free with squishy_file_free() after success. */
int squishy_file_read(struct conf_node *document, bool whole, struct squishy_file *file, struct sy_error *err);
void squishy_file_free(struct squishy_file *file);
