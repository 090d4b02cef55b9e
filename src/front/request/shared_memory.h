/* shared_memory.h - regions of POSIX shared memory that clients on this machine register, so that tensors need not go
 * through a socket.
 *
 * A client that may register a region can read and write whatever the server can. So there is a registry only if the
 * operator asks for one. It serves only clients that reach the server over loopback or a Unix socket, and opens only
 * objects of the server's own user; the operator may demand a prefix of their names.
 *
 * A server has one registry. Clients change it seldom, under a lock. Requests use their frontend's view of the
 * registry. The view is renewed under the lock, and only after the registry has changed.
 *
 * Regions are read and written through their descriptor, never mapped: a client that cuts its region short gets an
 * error, where a mapping would end the server with SIGBUS. A read or write costs one copy and one system call for each
 * tensor. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"
#include "front/request/infer_call.h"

#define SHARED_REGIONS_MAX 1024
#define SHARED_NAME_MAX    256 /* bytes of a region's name, and of its key, terminators included */

/* The registry, views, and requests under way hold references to a region; the last one closes it. */
struct shared_region {
    _Atomic uint32_t references;
    int fd;
    uint64_t offset, bytes; /* part of the object that the key names */
    char name[SHARED_NAME_MAX], key[SHARED_NAME_MAX];
};

struct shared_memory;

/* Keys must begin with the prefix, which stays the caller's; NULL: any key is allowed. Leading slashes of both do not
 * count, as for shm_open(). 0 or -ENOMEM. */
int shared_memory_create(struct shared_memory **memory, const char *prefix);
/* Call it when no view and no request is left. NULL is allowed. */
void shared_memory_destroy(struct shared_memory *memory);

/* Any thread. */

/* Whether a client may name shared memory. 0: it may; 501: there is no registry (`memory` is NULL); 403: the client is
 * not on this machine. */
int shared_memory_allows(const struct shared_memory *memory, bool local, struct sy_error *err);
/* Registers [offset, offset + bytes) of the object that shm_open() knows by the key. 0; 400: there is no such object,
 * it is shorter, or the key lacks the prefix; 403: the object is another user's; 409: the name is taken; 503: there are
 * too many regions. */
int shared_memory_register(struct shared_memory *memory, const char *name, const char *key, uint64_t offset,
                           uint64_t bytes, struct sy_error *err);
/* Unregisters the region of that name; NULL or "": all. A name that is not registered is no mistake. */
void shared_memory_unregister(struct shared_memory *memory, const char *name);
/* The region of that name, or all with "", up to SHARED_REGIONS_MAX, each with a reference. */
uint32_t shared_memory_list(struct shared_memory *memory, const char *name, struct shared_region **regions);
void shared_region_put(struct shared_region *region);

/* A frontend's view of the registry. The frontend's thread only. */
struct shared_view {
    struct shared_memory *memory; /* NULL: shared memory is not served */
    uint64_t version;             /* state of the registry that the view shows */
    uint32_t count;
    struct shared_region *regions[SHARED_REGIONS_MAX];
};

void shared_view_end(struct shared_view *view);
/* Drops regions that are no longer registered. Without this call their memory would stay until the next request that
 * names a region. Call it now and then; it costs nothing unless the registry has changed. */
void shared_view_look(struct shared_view *view);
/* The region that a tensor of a client lies in, with a reference. NULL with a sentence and *status: 404 there is no
 * such region, 400 the tensor reaches beyond it, or a status of shared_memory_allows(). */
struct shared_region *shared_view_find(struct shared_view *view, const struct infer_shared *place, bool local,
                                       int *status, struct sy_error *err);
/* Copy a tensor out of a region, or into it. 0, or 400 with a sentence: the region has become shorter. */
int shared_region_read(const struct shared_region *region, const struct infer_shared *place, void *data,
                       struct sy_error *err);
int shared_region_write(const struct shared_region *region, const struct infer_shared *place, const void *data,
                        size_t bytes, struct sy_error *err);
