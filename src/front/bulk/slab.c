/* slab.c - size classes over chunks aligned to 1 MiB.
 *
 * Every chunk begins with a header at a multiple of 1 MiB and every block begins within the first 1 MiB of its chunk,
 * so a block's header is found by masking its address:
 *
 *     |chunk header 64 B|block|block|block| ... |      1 MiB, one class      |
 *     |chunk header 64 B|one large block ................................... |      as long as it must be
 *
 * There are 4 classes to each power of two, so at most a fifth of a block is lost to rounding. The range of addresses
 * is a few times as long as the bound on the memory, so that large chunks find room between small ones. */
#include "front/bulk/slab.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/data/visible.h"
#include "core/util/assert.h"
#include "core/util/list.h"

#define CHUNK_BYTES  ((size_t)1 << 20)
#define HEADER_BYTES 64
#define PAGE_BYTES   ((size_t)4096)
#define CLASS_MIN    ((size_t)256) /* size of a block of class 0 */
#define CLASS_COUNT  (4 * 24)      /* number of classes, up to 4 GiB */
#define SMALL_MAX    (CHUNK_BYTES / 8)
#define PLENTY_PART  4
#define RANGE_TIMES  4 /* length of the range: so many times the bound on the memory, if the system allows it */

struct free_block {
    struct free_block *next;
};

/* The header at the start of each chunk. */
struct chunk {
    struct list_node link;   /* place in a list of the class: `partial` if a block is free, else `full` */
    struct free_block *free; /* blocks that were given back */
    struct slab *home;
    uint16_t size_class;
    uint16_t used;  /* number of blocks taken */
    uint16_t fresh; /* number of blocks that were never taken */
    uint32_t mapped_pages;
    size_t block_bytes;
};
_Static_assert(sizeof(struct chunk) <= HEADER_BYTES, "blocks begin behind the header");

struct size_class {
    struct list_node partial, full;
};

/* Owned by the frontend's thread, or by the thread that holds the lock. */
struct slab {
    bool shared;          /* any thread takes and gives, under `lock` */
    bool pinned;          /* pages once used keep their memory */
    int fd;               /* memory that other processes may map; -1: they may not */
    pthread_mutex_t lock; /* lock of a shared slab */
    size_t bytes_max, bytes_mapped, bytes_taken;
    char *range;    /* range of addresses, of `units` times CHUNK_BYTES, at a multiple of CHUNK_BYTES */
    size_t units;   /* units of the range; every chunk takes whole ones */
    size_t looked;  /* unit at which the next search for free ones begins */
    uint8_t *taken; /* [units] 1: the unit is part of a chunk */
    struct size_class classes[CLASS_COUNT];
};

/* The class of the smallest block that holds `bytes`, and that block's size. */
static uint32_t class_find(size_t bytes, size_t *block_bytes) {
    if (bytes <= CLASS_MIN) {
        *block_bytes = CLASS_MIN;
        return 0;
    }
    /* 2^power < bytes <= 2^(power+1), in quarters of 2^power */
    uint32_t power = 63 - (uint32_t)__builtin_clzl(bytes - 1);
    uint32_t quarter = (uint32_t)((bytes - 1) >> (power - 2)) & 3;
    *block_bytes = (size_t)(5 + quarter) << (power - 2);
    return 4 * (power - 8) + quarter + 1;
}

static struct chunk *chunk_of(const void *block) {
    return (struct chunk *)((uintptr_t)block & ~(uintptr_t)(CHUNK_BYTES - 1));
}

static void begin(struct slab *slab) {
    if (slab->shared)
        pthread_mutex_lock(&slab->lock);
}

static void end(struct slab *slab) {
    if (slab->shared)
        pthread_mutex_unlock(&slab->lock);
}

static size_t chunk_units(size_t bytes) {
    return (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
}

static struct slab *create(size_t bytes_max, bool shared, bool visible, bool pinned) {
    struct slab *slab = calloc(1, sizeof(*slab));
    if (!slab)
        return NULL;
    slab->fd = -1;
    slab->bytes_max = bytes_max;
    for (uint32_t i = 0; i < CLASS_COUNT; i++) {
        list_init(&slab->classes[i].partial);
        list_init(&slab->classes[i].full);
    }
    slab->shared = shared;
    slab->pinned = pinned;
    pthread_mutex_init(&slab->lock, NULL);
    /* addresses without memory, for chunks of at least bytes_max */
    size_t least = chunk_units(bytes_max) + 1;
    for (size_t times = slab->pinned ? 1 : RANGE_TIMES; times > 0 && !slab->range; times /= 2) {
        slab->units = times * least;
        char *base =
            mmap(NULL, (slab->units + 1) * CHUNK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED)
            continue;
        size_t before = -(uintptr_t)base & (CHUNK_BYTES - 1);
        if (before > 0)
            munmap(base, before);
        munmap(base + before + slab->units * CHUNK_BYTES, CHUNK_BYTES - before);
        slab->range = base + before;
    }
    slab->taken = calloc(slab->units, 1);
    if (!slab->range || !slab->taken || (visible && (slab->fd = visible_create(slab->units * CHUNK_BYTES)) < 0)) {
        slab_destroy(slab);
        return NULL;
    }
    return slab;
}

struct slab *slab_create(size_t bytes_max) {
    return create(bytes_max, false, false, false);
}

struct slab *slab_create_shared(size_t bytes_max) {
    return create(bytes_max, true, false, false);
}

struct slab *slab_create_visible(size_t bytes_max, bool shared, bool pinned) {
    return create(bytes_max, shared, true, pinned);
}

int slab_fd(const struct slab *slab) {
    return slab->fd;
}

static void chunk_unmap(struct slab *slab, struct chunk *chunk) {
    size_t bytes = (size_t)chunk->mapped_pages * PAGE_BYTES;
    list_remove(&chunk->link);
    slab->bytes_mapped -= bytes;
    memset(slab->taken + (size_t)((char *)chunk - slab->range) / CHUNK_BYTES, 0, chunk_units(bytes));
    /* the addresses are without memory again; if the system refuses that, they stay mapped, and are used as they are */
    if (mmap(chunk, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        madvise(chunk, bytes, MADV_DONTNEED);
    if (slab->fd >= 0 && !slab->pinned)
        fallocate(slab->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (char *)chunk - slab->range, (off_t)bytes);
}

void slab_destroy(struct slab *slab) {
    if (!slab)
        return;
    if (slab->range)
        munmap(slab->range, slab->units * CHUNK_BYTES);
    if (slab->fd >= 0)
        close(slab->fd);
    pthread_mutex_destroy(&slab->lock);
    free(slab->taken);
    free(slab);
}

uintptr_t slab_range(const struct slab *slab, size_t *bytes) {
    *bytes = slab->units * CHUNK_BYTES;
    return (uintptr_t)slab->range;
}

static void trim(struct slab *slab) {
    for (uint32_t i = 0; i < CLASS_COUNT; i++)
        list_for_each_safe (it, &slab->classes[i].partial) {
            struct chunk *chunk = list_entry(it, struct chunk, link);
            if (chunk->used == 0)
                chunk_unmap(slab, chunk);
        }
}

void slab_trim(struct slab *slab) {
    begin(slab);
    trim(slab);
    end(slab);
}

/* The first of so many free units in a row, from `from` on; the slab's `units`: there are none. */
static size_t units_find(const struct slab *slab, size_t from, size_t count) {
    size_t begin = from;
    for (size_t at = from; at < slab->units && at - begin < count; at++)
        if (slab->taken[at])
            begin = at + 1;
    return begin + count <= slab->units ? begin : slab->units;
}

/* Memory for a chunk, or NULL. */
static void *chunk_memory(struct slab *slab, size_t bytes) {
    size_t count = chunk_units(bytes), at = units_find(slab, slab->looked, count);
    if (at == slab->units && slab->looked > 0)
        at = units_find(slab, 0, count);
    if (at == slab->units)
        return NULL;
    char *memory = slab->range + at * CHUNK_BYTES;
    if (slab->fd < 0 ? mprotect(memory, bytes, PROT_READ | PROT_WRITE) < 0
                     : mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, slab->fd,
                            memory - slab->range) == MAP_FAILED)
        return NULL;
    memset(slab->taken + at, 1, count);
    slab->looked = at + count;
    return memory;
}

/* Bytes that are mapped for a chunk of blocks of this size. */
static size_t chunk_bytes(size_t block_bytes) {
    return block_bytes <= SMALL_MAX ? CHUNK_BYTES : (HEADER_BYTES + block_bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

static struct chunk *chunk_map(struct slab *slab, uint32_t size_class, size_t block_bytes) {
    bool small = block_bytes <= SMALL_MAX;
    size_t mapped_bytes = chunk_bytes(block_bytes);
    if (slab->bytes_mapped + mapped_bytes > slab->bytes_max)
        trim(slab);
    if (slab->bytes_mapped + mapped_bytes > slab->bytes_max)
        return NULL;
    struct chunk *chunk = chunk_memory(slab, mapped_bytes);
    if (!chunk) { /* free blocks of other sizes may have the addresses */
        trim(slab);
        chunk = chunk_memory(slab, mapped_bytes);
    }
    if (!chunk)
        return NULL;
    *chunk = (struct chunk){.home = slab};
    chunk->size_class = (uint16_t)size_class;
    chunk->mapped_pages = (uint32_t)(mapped_bytes / PAGE_BYTES);
    chunk->block_bytes = block_bytes;
    chunk->fresh = small ? (uint16_t)((CHUNK_BYTES - HEADER_BYTES) / block_bytes) : 1;
    list_init(&chunk->link);
    list_append(&slab->classes[size_class].partial, &chunk->link);
    slab->bytes_mapped += mapped_bytes;
    return chunk;
}

static void *take(struct slab *slab, size_t bytes) {
    size_t block_bytes;
    uint32_t size_class = class_find(bytes, &block_bytes);
    if (size_class >= CLASS_COUNT)
        return NULL;
    struct size_class *class = &slab->classes[size_class];
    struct chunk *chunk = list_empty(&class->partial) ? chunk_map(slab, size_class, block_bytes)
                                                      : list_entry(class->partial.next, struct chunk, link);
    if (!chunk)
        return NULL;
    void *block = chunk->free;
    if (block) {
        chunk->free = chunk->free->next;
    } else {
        chunk->fresh--;
        block = (char *)chunk + HEADER_BYTES + chunk->fresh * block_bytes;
    }
    chunk->used++;
    slab->bytes_taken += block_bytes;
    if (!chunk->free && chunk->fresh == 0) {
        list_remove(&chunk->link);
        list_append(&class->full, &chunk->link);
    }
    return block;
}

bool slab_bound_allows(const struct slab *slab, size_t bytes) {
    size_t block_bytes;
    return class_find(bytes, &block_bytes) < CLASS_COUNT && chunk_bytes(block_bytes) <= slab->bytes_max;
}

void *slab_take(struct slab *slab, size_t bytes) {
    begin(slab);
    void *block = take(slab, bytes);
    end(slab);
    return block;
}

void slab_give(void *block) {
    if (!block)
        return;
    struct chunk *chunk = chunk_of(block);
    struct slab *slab = chunk->home;
    begin(slab);
    CHECK_LT(0, chunk->used);
    bool was_full = !chunk->free && chunk->fresh == 0;
    struct free_block *free_block = block;
    free_block->next = chunk->free;
    chunk->free = free_block;
    chunk->used--;
    slab->bytes_taken -= chunk->block_bytes;
    if (was_full) {
        /* to the front: fuller chunks are filled first, so that others may become empty */
        list_remove(&chunk->link);
        list_insert_before(slab->classes[chunk->size_class].partial.next, &chunk->link);
    }
    end(slab);
}

size_t slab_block_bytes(const void *block) {
    return chunk_of(block)->block_bytes;
}

struct slab_use slab_use(struct slab *slab) {
    begin(slab);
    struct slab_use use = {slab->bytes_taken, slab->bytes_mapped};
    end(slab);
    return use;
}

size_t slab_bytes_mapped(struct slab *slab) {
    return slab_use(slab).mapped;
}

size_t slab_bytes_taken(struct slab *slab) {
    return slab_use(slab).taken;
}

bool slab_plenty(struct slab *slab) {
    return slab_bytes_taken(slab) < slab->bytes_max / PLENTY_PART;
}
