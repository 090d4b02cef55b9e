/* bulk.h - threads for work that is too long for a frontend's turn: inflating and parsing large bodies, writing and
 * compressing large answers.
 *
 * While a frontend's thread works for one client, the bytes of others wait unread, and their answers unsent. So that
 * thread hands over jobs that may take longer than some 0.1 ms, and goes on with a request when its job comes back. The
 * jobs run in slices of four milliseconds, by what they cost, shared fairly between clients (fair_queue.h). A hand-over
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

/* The tools of one bulk thread. */
struct bulk_tools {
    struct inflater inflater;
    struct deflater http_deflater, grpc_deflater;
};

struct bulk_job {
    struct inbox *home; /* inbox in which the job comes back */
    /* Does the work, on a bulk thread, which owns the job and its data until the job comes back. */
    void (*run)(struct bulk_job *job, struct bulk_tools *tools);
    uint32_t client; /* number of the client, by bulk_client() */
    size_t bytes;    /* bytes to be worked on, from which the job's memory is estimated */
    /* for bulk.c */
    struct push_node back;
    struct fair_job fair;
    struct worker *worker; /* thread that runs the job; NULL: the job has not begun */
};

/* Work on more bytes than this goes to a bulk thread. JSON: reading takes about 5 ns a byte, writing 3. */
#define BULK_JSON_BYTES ((size_t)24 * 1024)
/* Compression of more bytes than this goes to a bulk thread: 8 to 25 ns a byte. */
#define BULK_DEFLATE_BYTES ((size_t)4 * 1024)
/* Copying, or sorting for classes, of more bytes than this goes to a bulk thread. */
#define BULK_COPY_BYTES ((size_t)1024 * 1024)

/* `threads`: the threads that run at a time. More are started while begun jobs wait, and end after 10 s without a job.
 * All share one slab for inputs, of at most `inputs_bytes_max`; `pinned` is as for slab_create_visible(), which makes
 * the slab if `visible`. `grpc_level`: zlib's level for gRPC's answers. 0 or -errno with a sentence. */
int bulk_create(struct bulk **bulk, uint32_t threads, uint64_t inputs_bytes_max, bool visible, bool pinned,
                int grpc_level, struct sy_error *err);
/* Ends the threads; their slab stays. Call it when no job is under way, and before the frontends are freed: a thread
 * that has handed back the last job may still be about to wake its frontend. NULL is allowed. */
void bulk_stop(struct bulk *bulk);
/* Call it when no block of the slab is in use any more. NULL is allowed. */
void bulk_destroy(struct bulk *bulk);
/* The slab of the threads. Any thread. */
struct slab *bulk_slab(const struct bulk *bulk);
/* The number of the client with this address: IPv6, or IPv4 mapped into IPv6. */
uint32_t bulk_client(const struct bulk *bulk, const uint8_t address[16]);
void bulk_submit(struct bulk *bulk, struct bulk_job *job);
/* bulk_returned() takes all jobs that came back to this frontend and returns the oldest. bulk_job_next() returns the
 * one after a job: call it before you handle that job. NULL: there is none. The frontend's thread. */
struct bulk_job *bulk_returned(struct inbox *home);
struct bulk_job *bulk_job_next(const struct bulk_job *job);
