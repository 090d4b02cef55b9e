/* bulk.h - threads for what is too long for a turn of a frontend: inflating and parsing large bodies, writing and
 * compressing large answers.
 *
 * A frontend's thread serves everybody; while it works for one client, others' bytes wait unread, and their answers
 * unsent. So it hands over what may take longer than some 0.1 ms, and goes on with it when it comes back. Shorter jobs
 * overtake longer ones that have waited for less than they will take. A hand-over takes a lock and wakes a thread: some
 * 20 us, which is why short ones stay where they are. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/push_list.h"
#include "request/deflate.h"
#include "request/inflate.h"

struct bulk;
struct bulk_job;
struct inbox;
struct slab;

/* What a thread works with. */
struct bulk_tools {
    struct inflater inflater;
    struct deflater http_deflater, grpc_deflater;
};

struct bulk_job {
    struct inbox *home; /* where it comes back */
    /* On a bulk thread, which owns all that the job is about until it comes back. */
    void (*run)(struct bulk_job *job, struct bulk_tools *tools);
    size_t bytes; /* of what is to be worked off: an estimate of how long it takes */
    /* bulk.c's */
    struct push_node back;
    struct list_node link;
    int64_t turn_ns;
};

/* More than so many bytes of JSON are bulk: reading takes about 5 ns a byte, writing 3. */
#define BULK_JSON_BYTES ((size_t)24 * 1024)
/* To be compressed: 8 to 25 ns a byte. */
#define BULK_DEFLATE_BYTES ((size_t)4 * 1024)
/* To be copied, or sorted for classes. */
#define BULK_COPY_BYTES ((size_t)1024 * 1024)

/* Starts so many threads. Their memory for inputs, `inputs_bytes_max` at most, is all their own. 0 or -errno with a
 * sentence. */
int bulk_create(struct bulk **bulk, uint32_t threads, uint64_t inputs_bytes_max, int grpc_level, struct sy_error *err);
/* When no job is out. NULL is allowed. */
void bulk_destroy(struct bulk *bulk);
/* Any thread. */
struct slab *bulk_slab(const struct bulk *bulk);
void bulk_submit(struct bulk *bulk, struct bulk_job *job);
/* Those that came back to this frontend: the oldest, and behind one the next, which is to be asked for before the job
 * goes on. NULL: there is none. The frontend's thread. */
struct bulk_job *bulk_returned(struct inbox *home);
struct bulk_job *bulk_job_next(const struct bulk_job *job);
