/* private_copy.c - folders with copies of models, by the fingerprint of what their files are. */
#include "back/engine/private_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/files.h"
#include "core/system/log.h"
#include "core/system/temporary_folder.h"
#include "core/util/list.h"
#include "model/engine/fingerprint.h"

struct private_copy {
    struct list_node node;    /* node in `copies` */
    struct fingerprint facts; /* fingerprint of the files' paths, inodes, sizes and times */
    uint32_t references;
    bool ready; /* the copy has been made, or could not be made; `rc` and `why` say which */
    int rc;
    struct sy_error why;
    struct temporary_folder folder;
    char model[2 * PATH_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* lock of `copies` and of all copies in it */
static pthread_cond_t made = PTHREAD_COND_INITIALIZER;   /* some copy is ready */
static struct list_node copies = {&copies, &copies};

/* ---- what is copied ---- */

struct facts {
    struct fingerprint sum;
    uint32_t files; /* number of files of weights */
};

static int facts_add(void *context, const char *file, struct sy_error *err) {
    struct facts *f = context;
    struct stat st;
    (void)err;
    if (stat(file, &st))
        return 0; /* the library will say so, if it is asked for */
    const uint64_t about[] = {st.st_dev,
                              st.st_ino,
                              (uint64_t)st.st_size,
                              (uint64_t)st.st_mtim.tv_sec,
                              (uint64_t)st.st_mtim.tv_nsec,
                              (uint64_t)st.st_ctim.tv_sec,
                              (uint64_t)st.st_ctim.tv_nsec};
    struct fingerprint parts[] = {f->sum, fingerprint_bytes(file, strlen(file)),
                                  fingerprint_bytes(about, sizeof(about))};
    f->sum = fingerprint_bytes(parts, sizeof(parts));
    f->files++;
    return 0;
}

struct copying {
    const char *folder;
    int from; /* bytes of the model's folder, with which the files' paths begin */
};

static int bytes_copy(int from, int to) {
    enum { BYTES = 1 << 20 };
    char *piece = malloc(BYTES);
    ssize_t got = piece ? 0 : -ENOMEM;
    while (piece && (got = files_read(from, piece, BYTES)) > 0)
        for (ssize_t at = 0; at < got;) {
            ssize_t wrote = write(to, piece + at, (size_t)(got - at));
            if (wrote < 0 && errno != EINTR) {
                got = -errno;
                goto out;
            }
            at += wrote > 0 ? wrote : 0;
        }
out:
    free(piece);
    return (int)got;
}

/* Copies a file of the model. Names that lead out of its folder, and files that are missing, the library refuses. */
static int file_copy(void *context, const char *file, struct sy_error *err) {
    const struct copying *c = context;
    char path[2 * PATH_MAX];
    struct stat st;
    int rc = 0;

    if (!file_name_inside(file + c->from, strlen(file + c->from)))
        return 0;
    int from = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (from < 0)
        return 0;
    snprintf(path, sizeof(path), "%s/%s", c->folder, file + c->from);
    for (char *slash = strchr(path + strlen(c->folder) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700); /* if it fails, so does what comes next */
        *slash = '/';
    }
    int to =
        fstat(from, &st) == 0 && S_ISREG(st.st_mode) ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (to >= 0) {
        rc = bytes_copy(from, to);
        close(to);
    } else if (S_ISREG(st.st_mode) && errno != EEXIST) { /* a model may name a file twice */
        rc = -errno;
    }
    close(from);
    return rc < 0 ? error_set(err, rc, "%s: %s", path, strerror(-rc)) : 0;
}

/* Copies the model into a new folder where there is room. */
static int copy_make(struct private_copy *copy, const char *model_path, struct sy_error *err) {
    const char *slash = strrchr(model_path, '/');
    struct copying copying = {.folder = copy->folder.path, .from = slash ? (int)(slash + 1 - model_path) : 0};
    int rc = -ENOENT;
    for (unsigned i = 0; rc && temporary_parent(i); i++) {
        rc = temporary_folder_make(&copy->folder, temporary_parent(i), err);
        if (rc)
            continue;
        snprintf(copy->model, sizeof(copy->model), "%s/%s", copy->folder.path, model_path + copying.from);
        rc = model_files_each(model_path, file_copy, &copying, err);
        if (rc)
            temporary_folder_remove(&copy->folder);
    }
    return rc;
}

/* ---- references ---- */

/* Returns a reference to the copy of files with these facts. The first caller makes the copy; callers for the same
 * files wait for it, and callers for other files do not. NULL: memory is out. */
static struct private_copy *copy_get(const char *model_path, const struct fingerprint *facts) {
    struct private_copy *copy = NULL;
    pthread_mutex_lock(&lock);
    list_for_each (at, &copies) {
        struct private_copy *one = list_entry(at, struct private_copy, node);
        if (memcmp(&one->facts, facts, sizeof(*facts)) == 0)
            copy = one;
    }
    if (copy) {
        copy->references++;
        while (!copy->ready)
            pthread_cond_wait(&made, &lock);
    } else if ((copy = calloc(1, sizeof(*copy)))) {
        copy->facts = *facts;
        copy->references = 1;
        list_append(&copies, &copy->node);
        pthread_mutex_unlock(&lock);
        int rc = copy_make(copy, model_path, &copy->why);
        pthread_mutex_lock(&lock);
        copy->rc = rc;
        copy->ready = true;
        pthread_cond_broadcast(&made);
    }
    pthread_mutex_unlock(&lock);
    return copy;
}

const char *private_copy_open(const char *model_path, struct private_copy **copy) {
    struct facts facts = {0};
    struct sy_error why = {""};
    *copy = NULL;
    int rc = model_files_each(model_path, facts_add, &facts, &why);
    if (rc || facts.files <= 1) /* it cannot be read, as the library will say; or is the only file */
        return model_path;
    struct private_copy *shared = copy_get(model_path, &facts.sum);
    if (shared && shared->rc == 0) {
        *copy = shared;
        return shared->model;
    }
    log_warn("weights stay where others may write them", "model=\"%s\" reason=\"no room for a copy: %s\"", model_path,
             shared ? shared->why.text : "no memory");
    private_copy_put(shared);
    return model_path;
}

void private_copy_put(struct private_copy *copy) {
    if (!copy)
        return;
    pthread_mutex_lock(&lock);
    bool last = --copy->references == 0;
    if (last)
        list_remove(&copy->node);
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    if (copy->rc == 0)
        temporary_folder_remove(&copy->folder);
    free(copy);
}
