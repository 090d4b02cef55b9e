/* squishy_file.h - the file of `symphony plan squishy`: sessions, and the GPUs for them. */
#pragma once

#include "base/error.h"
#include "plan/squishy.h"

#define SQUISHY_FILE_SESSIONS_MAX 10000
#define SQUISHY_FILE_GPUS_MAX     100000

struct squishy_file {
    uint32_t gpus;                    /* 0: not given */
    uint64_t memory_bytes;            /* of a GPU; 0: not given */
    uint32_t count;                   /* of sessions */
    struct squishy_session *sessions; /* [count] */
    char **names;                     /* [count] */
};

/* -errno, and a sentence that says where. Free with squishy_file_free() after success. */
int squishy_file_read(const char *path, struct squishy_file *file, struct sy_error *err);
/* The same from memory; mistakes call it `origin`. */
int squishy_file_parse(const char *origin, const char *text, size_t bytes, struct squishy_file *file,
                       struct sy_error *err);
void squishy_file_free(struct squishy_file *file);
