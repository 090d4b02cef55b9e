/* mapped_weights.c - finds and moves the weights that sessions map. */
#include "back/engine/mapped_weights.h"
#include "core/util/array.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

struct range {
    uintptr_t begin, end;
};

struct ranges {
    struct range *at;
    uint32_t count;
};

struct mapped_weights {
    struct mapped_weights *next;
    struct file *file;
    struct ranges own;
    bool out;
};

/* A file that sessions map. */
struct file {
    struct file *next;
    char path[PATH_MAX];
    uint32_t users;             /* under files_lock */
    pthread_mutex_t lock;       /* held while a session on the file is opened or closed */
    struct mapped_weights *all; /* under `lock` */
};

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *files;
static _Atomic uint32_t mappings_out;

static bool range_add(struct ranges *ranges, uintptr_t begin, uintptr_t end) {
    if (begin >= end)
        return true;
    struct range *at = array_room(ranges->at, ranges->count, sizeof(*at));
    if (!at)
        return false;
    ranges->at = at;
    ranges->at[ranges->count++] = (struct range){begin, end};
    return true;
}

/* Takes `taken` out of `from`. */
static bool ranges_without(struct ranges *from, const struct ranges *taken) {
    for (uint32_t t = 0; t < taken->count; t++)
        for (uint32_t i = 0, count = from->count; i < count; i++) {
            struct range was = from->at[i], gap = taken->at[t];
            if (gap.end <= was.begin || was.end <= gap.begin)
                continue;
            from->at[i].end = gap.begin > was.begin ? gap.begin : was.begin;
            if (!range_add(from, gap.end, was.end))
                return false;
        }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < from->count; i++)
        if (from->at[i].begin < from->at[i].end)
            from->at[kept++] = from->at[i];
    from->count = kept;
    return true;
}

/* Adds where the process maps the file now. */
static bool mappings_read(const char *path, struct ranges *ranges) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    bool whole = maps != NULL;
    while (whole && (length = getline(&line, &room, maps)) > 0) {
        uintptr_t begin, end;
        int name = 0;
        line[length - 1] = '\0';
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &begin, &end, &name) == 2 && name > 0 &&
            strcmp(line + name, path) == 0)
            whole = range_add(ranges, begin, end);
    }
    free(line);
    if (maps)
        fclose(maps);
    return whole;
}

/* The file, for one more user. */
static struct file *file_get(const char *path) {
    char whole[PATH_MAX];
    if (!realpath(path, whole))
        return NULL;
    pthread_mutex_lock(&files_lock);
    struct file *file = files;
    while (file && strcmp(file->path, whole) != 0)
        file = file->next;
    if (!file && (file = calloc(1, sizeof(*file)))) {
        strcpy(file->path, whole);
        pthread_mutex_init(&file->lock, NULL);
        file->next = files;
        files = file;
    }
    if (file)
        file->users++;
    pthread_mutex_unlock(&files_lock);
    return file;
}

static void file_put(struct file *file) {
    pthread_mutex_lock(&files_lock);
    bool last = --file->users == 0;
    struct file **link = &files;
    while (last && *link != file)
        link = &(*link)->next;
    if (last)
        *link = file->next;
    pthread_mutex_unlock(&files_lock);
    if (!last)
        return;
    pthread_mutex_destroy(&file->lock);
    free(file);
}

struct mapped_weights *mapped_weights_begin(const char *path) {
    struct file *file = file_get(path);
    struct mapped_weights *weights = file ? calloc(1, sizeof(*weights)) : NULL;
    if (!weights) {
        if (file)
            file_put(file);
        return NULL;
    }
    weights->file = file;
    pthread_mutex_lock(&file->lock);
    weights->next = file->all;
    file->all = weights;
    return weights;
}

struct mapped_weights *mapped_weights_end(struct mapped_weights *weights) {
    struct file *file = weights->file;
    bool whole = mappings_read(file->path, &weights->own);
    for (const struct mapped_weights *other = weights->next; whole && other; other = other->next)
        whole = ranges_without(&weights->own, &other->own);
    if (whole && weights->own.count > 0) {
        pthread_mutex_unlock(&file->lock);
        return weights;
    }
    mapped_weights_close_end(weights);
    return NULL;
}

static int range_advise(const struct range *range, int advice) {
    return madvise((void *)range->begin, range->end - range->begin, advice);
}

int mapped_weights_out(struct mapped_weights *weights) {
    struct ranges now = {0}, gone = {0};
    uint32_t count = weights->own.count;
    /* only what is still mapped from the file may lose its pages: other memory would lose what it holds */
    bool still = mappings_read(weights->file->path, &now);
    for (uint32_t i = 0; still && i < count; i++)
        still = range_add(&gone, weights->own.at[i].begin, weights->own.at[i].end);
    still = still && ranges_without(&gone, &now) && gone.count == 0;
    free(now.at);
    free(gone.at);
    if (!still)
        return -ESTALE;
    /* relaxed: a number by itself */
    if (atomic_fetch_add_explicit(&mappings_out, count, memory_order_relaxed) + count > MAPPED_OUT_MOST) {
        atomic_fetch_sub_explicit(&mappings_out, count, memory_order_relaxed);
        return -ENOSPC;
    }
    for (uint32_t i = 0; i < count; i++)
        range_advise(&weights->own.at[i], MADV_DONTNEED);
    weights->out = true;
    return 0;
}

int mapped_weights_in(struct mapped_weights *weights, struct sy_error *err) {
    int rc = 0;
    for (uint32_t i = 0; i < weights->own.count; i++) /* the disk reads on while pages are mapped */
        range_advise(&weights->own.at[i], MADV_WILLNEED);
    for (uint32_t i = 0; i < weights->own.count && !rc; i++)
        /* an older kernel (EINVAL) maps them in the first run */
        if (range_advise(&weights->own.at[i], MADV_POPULATE_READ) && errno != EINVAL)
            rc = error_set(err, -EIO, "%.300s has been cut short, or cannot be read", weights->file->path);
    atomic_fetch_sub_explicit(&mappings_out, weights->own.count, memory_order_relaxed);
    weights->out = false;
    return rc;
}

void mapped_weights_close_begin(struct mapped_weights *weights) {
    pthread_mutex_lock(&weights->file->lock);
}

void mapped_weights_close_end(struct mapped_weights *weights) {
    struct file *file = weights->file;
    struct mapped_weights **link = &file->all;
    while (*link != weights)
        link = &(*link)->next;
    *link = weights->next;
    if (weights->out)
        atomic_fetch_sub_explicit(&mappings_out, weights->own.count, memory_order_relaxed);
    pthread_mutex_unlock(&file->lock);
    file_put(file);
    free(weights->own.at);
    free(weights);
}
