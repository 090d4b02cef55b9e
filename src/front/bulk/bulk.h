/* bulk.h - threads for work that is too long for a frontend's turn: inflating and parsing large bodies, writing and
 * compressing large answers.
 *
 * While a frontend's thread works for one client, the bytes of others wait unread, and their answers unsent. So it
 * hands over jobs that may take longer than some 0.1 ms, and goes on with a request when its job comes back. The jobs
 * run in slices of four milliseconds, by what they cost, shared fairly between clients (fair_queue.h). A hand-over
 * takes a lock and wakes a thread, some 20 us, so short work stays with the frontend. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/util/list.h"
#include "core/util/push_list.h"
#include "front/bulk/deflate.h"
#include "front/bulk/fair_queue.h"
#include "front/bulk/inflate.h"

struct bulk;
struct bulk_job;
struct worker;
struct inbox;
struct slab;

/* What a thread works with. */
struct bulk_tools {
    struct inflater inflater;
    struct deflater http_deflater, grpc_deflater;
};

struct bulk_job {
    struct inbox *home; /* where it comes back */
    /* Called on a bulk thread, which owns all that the job is about until the job comes back. */
    void (*run)(struct bulk_job *job, struct bulk_tools *tools);
    uint32_t client; /* whose it is: bulk_client() */
    size_t bytes;    /* to be worked on: an estimate of the memory that it takes */
    /* for bulk.c */
    struct push_node back;
    struct fair_job fair;
    struct worker *worker; /* NULL: it has not begun */
};

/* Work on more than so many bytes is bulk. JSON: reading takes about 5 ns a byte, writing 3. */
#define BULK_JSON_BYTES ((size_t)24 * 1024)
/* Bytes to be compressed: 8 to 25 ns a byte. */
#define BULK_DEFLATE_BYTES ((size_t)4 * 1024)
/* Bytes to be copied, or sorted for classes. */
#define BULK_COPY_BYTES ((size_t)1024 * 1024)

/* Starts so many threads, which run at a time; more come while jobs that have begun wait, and end after 10 s without
 * one. They share one slab for inputs, of `inputs_bytes_max` at most; `visible` and `pinned` as for
 * slab_create_visible(). `grpc_level`: zlib's level for gRPC's answers. 0 or -errno with a sentence. */
int bulk_create(struct bulk **bulk, uint32_t threads, uint64_t inputs_bytes_max, bool visible, bool pinned,
                int grpc_level, struct sy_error *err);
/* Ends the threads; their memory stays. Call it when no job is under way, and before the frontends are freed: a thread
 * that has handed back the last job may still be about to wake its frontend. NULL is allowed. */
void bulk_stop(struct bulk *bulk);
/* Call it when nothing lies in its memory any more. NULL is allowed. */
void bulk_destroy(struct bulk *bulk);
/* Any thread. */
struct slab *bulk_slab(const struct bulk *bulk);
/* The client with this address: IPv6, or IPv4 mapped into it. */
uint32_t bulk_client(const struct bulk *bulk, const uint8_t address[16]);
void bulk_submit(struct bulk *bulk, struct bulk_job *job);
/* bulk_returned() takes all jobs that came back to this frontend and returns the oldest; bulk_job_next() returns the
 * one after a job: ask for it before you go on with the job. NULL: there is none. The frontend's thread. */
struct bulk_job *bulk_returned(struct inbox *home);
struct bulk_job *bulk_job_next(const struct bulk_job *job);
