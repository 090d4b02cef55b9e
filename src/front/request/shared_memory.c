/* shared_memory.c - the registry, and the views of it. */
#include "front/request/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/util/utf8.h"

struct shared_memory {
    const char *prefix;   /* prefix that keys must have, without leading slashes; "": any key is allowed */
    pthread_mutex_t lock; /* lock of the fields below, except for `version` */
    uint32_t count;
    struct shared_region *regions[SHARED_REGIONS_MAX];
    _Atomic uint64_t version; /* count of changes of the regions, which views compare */
};

/* The name that shm_open() uses for a key. */
static const char *object_name(const char *key) {
    return key + strspn(key, "/");
}

int shared_memory_create(struct shared_memory **memory, const char *prefix) {
    *memory = calloc(1, sizeof(**memory));
    if (!*memory)
        return -ENOMEM;
    (*memory)->prefix = object_name(prefix ? prefix : "");
    pthread_mutex_init(&(*memory)->lock, NULL);
    atomic_store_explicit(&(*memory)->version, 1, memory_order_relaxed); /* set-up */
    return 0;
}

void shared_memory_destroy(struct shared_memory *memory) {
    if (!memory)
        return;
    shared_memory_unregister(memory, NULL);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

static struct shared_region *region_get(struct shared_region *region) {
    atomic_fetch_add_explicit(&region->references, 1,
                              memory_order_relaxed); /* the caller holds a reference already, or the lock */
    return region;
}

void shared_region_put(struct shared_region *region) {
    /* acq_rel: the thread that closes it does so after everybody's last use */
    if (region && atomic_fetch_sub_explicit(&region->references, 1, memory_order_acq_rel) == 1) {
        close(region->fd);
        free(region);
    }
}

/* ---- registering ---- */

static int region_open(struct shared_region *region, struct sy_error *err) {
    struct stat about;
    region->fd = shm_open(region->key, O_RDWR | O_CLOEXEC, 0);
    if (region->fd < 0)
        return error_set(err, 400, "Unable to open shared memory region: '%s': %s", region->key, strerror(errno));
    if (fstat(region->fd, &about) < 0 || !S_ISREG(about.st_mode))
        return error_set(err, 400, "'%s' is no shared memory", region->key);
    if (about.st_uid != geteuid())
        return error_set(err, 403, "the shared memory '%s' belongs to another user than the server", region->key);
    uint64_t end;
    if (__builtin_add_overflow(region->offset, region->bytes, &end) || end > (uint64_t)about.st_size)
        return error_set(err, 400, "the shared memory '%s' has %lld bytes, fewer than offset and byte_size",
                         region->key, (long long)about.st_size);
    return 0;
}

static int find(const struct shared_memory *memory, const char *name) {
    for (uint32_t i = 0; i < memory->count; i++)
        if (strcmp(memory->regions[i]->name, name) == 0)
            return (int)i;
    return -1;
}

/* The version changes after the regions have; with the views' acquire. */
static void changed(struct shared_memory *memory) {
    atomic_fetch_add_explicit(&memory->version, 1, memory_order_release);
}

static int add(struct shared_memory *memory, struct shared_region *region, struct sy_error *err) {
    int status = 0;
    pthread_mutex_lock(&memory->lock);
    if (find(memory, region->name) >= 0)
        status = error_set(err, 409, "shared memory region '%s' already in manager", region->name);
    else if (memory->count == SHARED_REGIONS_MAX)
        status = error_set(err, 503, "there are %d shared memory regions, as many as may be", SHARED_REGIONS_MAX);
    else
        memory->regions[memory->count++] = region_get(region);
    changed(memory);
    pthread_mutex_unlock(&memory->lock);
    return status;
}

int shared_memory_allows(const struct shared_memory *memory, bool local, struct sy_error *err) {
    if (!memory)
        return error_set(err, 501, "shared memory is off: it takes a server that was started with --shared-memory");
    return local ? 0
                 : error_set(err, 403,
                             "shared memory is for clients on the server's machine only, over the loopback interface");
}

int shared_memory_register(struct shared_memory *memory, const char *name, const char *key, uint64_t offset,
                           uint64_t bytes, struct sy_error *err) {
    if (name[0] == '\0' || key[0] == '\0' || strlen(name) >= SHARED_NAME_MAX || strlen(key) >= SHARED_NAME_MAX)
        return error_set(err, 400, "a region's name and key have 1 to %d bytes", SHARED_NAME_MAX - 1);
    if (!utf8_is_valid(name) || !utf8_is_valid(key)) /* a client that lists the regions could not read the answer */
        return error_set(err, 400, "a region's name and key are UTF-8");
    if (strncmp(object_name(key), memory->prefix, strlen(memory->prefix)) != 0)
        return error_set(err, 400, "expected a key that begins with '/%s' (--shared-memory-prefix)", memory->prefix);
    struct shared_region *region = calloc(1, sizeof(*region));
    if (!region)
        return error_set(err, 503, "out of memory for a region");
    region->offset = offset;
    region->bytes = bytes;
    strcpy(region->name, name);
    strcpy(region->key, key);
    atomic_store_explicit(&region->references, 1, memory_order_relaxed); /* nobody else's yet */
    int status = region_open(region, err);
    if (!status)
        status = add(memory, region, err);
    shared_region_put(region);
    return status;
}

void shared_memory_unregister(struct shared_memory *memory, const char *name) {
    bool all = !name || name[0] == '\0';
    pthread_mutex_lock(&memory->lock);
    for (uint32_t i = memory->count; i > 0; i--) {
        struct shared_region *region = memory->regions[i - 1];
        if (!all && strcmp(region->name, name) != 0)
            continue;
        memory->regions[i - 1] = memory->regions[--memory->count];
        shared_region_put(region);
    }
    changed(memory);
    pthread_mutex_unlock(&memory->lock);
}

uint32_t shared_memory_list(struct shared_memory *memory, const char *name, struct shared_region **regions) {
    uint32_t count = 0;
    pthread_mutex_lock(&memory->lock);
    for (uint32_t i = 0; i < memory->count; i++)
        if (name[0] == '\0' || strcmp(memory->regions[i]->name, name) == 0)
            regions[count++] = region_get(memory->regions[i]);
    pthread_mutex_unlock(&memory->lock);
    return count;
}

/* ---- views ---- */

void shared_view_end(struct shared_view *view) {
    while (view->count > 0)
        shared_region_put(view->regions[--view->count]);
    view->version = 0;
}

static uint64_t version_of(const struct shared_memory *memory) {
    return atomic_load_explicit(&memory->version, memory_order_acquire); /* with changed() */
}

void shared_view_look(struct shared_view *view) {
    if (view->count > 0 && version_of(view->memory) != view->version)
        shared_view_end(view); /* shared_view_find() makes it anew */
}

static void view_renew(struct shared_view *view) {
    uint64_t version = version_of(view->memory);
    if (version == view->version)
        return;
    shared_view_end(view);
    view->count = shared_memory_list(view->memory, "", view->regions);
    view->version = version;
}

struct shared_region *shared_view_find(struct shared_view *view, const struct infer_shared *place, bool local,
                                       int *status, struct sy_error *err) {
    int shown = place->region_length < 64 ? (int)place->region_length : 64;
    uint64_t end;
    *status = shared_memory_allows(view->memory, local, err);
    if (*status)
        return NULL;
    view_renew(view);
    for (uint32_t i = 0; i < view->count; i++) {
        struct shared_region *region = view->regions[i];
        /* over gRPC the name asked for may hold zeros */
        if (strlen(region->name) != place->region_length ||
            memcmp(region->name, place->region, place->region_length) != 0)
            continue;
        if (!__builtin_add_overflow(place->offset, place->bytes, &end) && end <= region->bytes)
            return region_get(region);
        *status = error_set(err, 400,
                            "Invalid offset + byte size for shared memory region: '%.*s': offset %" PRIu64
                            " and byte_size %" PRIu64 " reach beyond its %" PRIu64,
                            shown, place->region, place->offset, place->bytes, region->bytes);
        return NULL;
    }
    *status = error_set(err, 404, "Unable to find shared memory region: '%.*s'", shown, place->region);
    return NULL;
}

static int cut_short(const struct shared_region *region, struct sy_error *err) {
    return error_set(err, 400, "the shared memory region '%s' is shorter than it was", region->name);
}

/* Copies all of the bytes, in pieces if it must. `out`: into the region. */
static int transfer(const struct shared_region *region, const struct infer_shared *place, char *data, size_t bytes,
                    bool out, struct sy_error *err) {
    for (size_t done = 0; done < bytes;) {
        off_t at = (off_t)(region->offset + place->offset + done);
        ssize_t n =
            out ? pwrite(region->fd, data + done, bytes - done, at) : pread(region->fd, data + done, bytes - done, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, 503, "the shared memory region '%s' cannot be %s: %s", region->name,
                             out ? "written" : "read", strerror(errno));
        if (n == 0)
            return cut_short(region, err);
        done += (size_t)n;
    }
    return 0;
}

int shared_region_read(const struct shared_region *region, const struct infer_shared *place, void *data,
                       struct sy_error *err) {
    return transfer(region, place, data, place->bytes, false, err);
}

int shared_region_write(const struct shared_region *region, const struct infer_shared *place, const void *data,
                        size_t bytes, struct sy_error *err) {
    struct stat about;
    if (bytes > place->bytes)
        return error_set(err, 400, "an output of %zu bytes does not fit into %" PRIu64 " of the region '%s'", bytes,
                         place->bytes, region->name);
    if (fstat(region->fd, &about) < 0 || region->offset + place->offset + bytes > (uint64_t)about.st_size)
        return cut_short(region, err); /* writing would make it longer */
    return transfer(region, place, (char *)data, bytes, true, err);
}
