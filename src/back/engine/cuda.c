/* cuda.c - CUDA's driver, loaded at run time: it is there only where a GPU is. */
#include "back/engine/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/thread.h"
#include "core/util/container.h"

/* ---- the driver ---- */

enum { HOST_PORTABLE = 1, STREAM_NON_BLOCKING = 1, CAPTURE_RELAXED = 2, OUT_OF_MEMORY = 2 };

/* As CUDA's driver API declares them; each returns 0 or an error's number. Written when the first device is opened, by
 * one thread. */
static struct {
    int (*init)(unsigned flags);
    int (*primary)(void **context, int device);
    int (*current)(void *context);
    int (*alloc)(cuda_address *at, size_t bytes);
    int (*release)(cuda_address at);
    int (*host_alloc)(void **at, size_t bytes, unsigned flags);
    int (*host_release)(void *at);
    int (*stream)(void **stream, unsigned flags);
    int (*stream_release)(void *stream);
    int (*wait)(void *stream);
    int (*to_device)(cuda_address to, const void *from, size_t bytes, void *stream);
    int (*to_host)(void *to, cuda_address from, size_t bytes, void *stream);
    int (*clear)(cuda_address at, unsigned char value, size_t bytes, void *stream);
    int (*capture_mode)(int *mode);
    int (*error)(int code, const char **sentence);
} cuda;

static const struct {
    const char *name;
    void *function;
} functions[] = {
    {"cuInit", &cuda.init},
    {"cuDevicePrimaryCtxRetain", &cuda.primary},
    {"cuCtxSetCurrent", &cuda.current},
    {"cuMemAlloc_v2", &cuda.alloc},
    {"cuMemFree_v2", &cuda.release},
    {"cuMemHostAlloc", &cuda.host_alloc},
    {"cuMemFreeHost", &cuda.host_release},
    {"cuStreamCreate", &cuda.stream},
    {"cuStreamDestroy_v2", &cuda.stream_release},
    {"cuStreamSynchronize", &cuda.wait},
    {"cuMemcpyHtoDAsync_v2", &cuda.to_device},
    {"cuMemcpyDtoHAsync_v2", &cuda.to_host},
    {"cuMemsetD8Async", &cuda.clear},
    {"cuThreadExchangeStreamCaptureMode", &cuda.capture_mode},
    {"cuGetErrorString", &cuda.error},
};

static pthread_once_t loaded = PTHREAD_ONCE_INIT;
static int load_rc;
static struct sy_error load_error;

static void driver_load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW); /* it stays until the process ends */
    if (!library) {
        load_rc = error_set(&load_error, -ENOTSUP, "there is no CUDA driver here: %s", dlerror());
        return;
    }
    for (size_t i = 0; i < ARRAY_COUNT(functions); i++) {
        void *found = dlsym(library, functions[i].name);
        if (!found) {
            load_rc = error_set(&load_error, -ENOTSUP, "this CUDA driver is too old: it lacks %s", functions[i].name);
            return;
        }
        memcpy(functions[i].function, &found, sizeof(found));
    }
}

static int check(int code, const char *what, struct sy_error *err) {
    const char *sentence = NULL;
    if (code == 0)
        return 0;
    cuda.error(code, &sentence);
    return error_set(err, code == OUT_OF_MEMORY ? -ENOMEM : -EIO, "%s: CUDA error %d: %s", what, code,
                     sentence ? sentence : "unknown");
}

/* ---- devices ---- */

struct cuda_device {
    int number;
    void *context; /* context that ONNX Runtime uses, too; it stays until the process ends */
};

int cuda_device_open(struct cuda_device **device, int number, struct sy_error *err) {
    pthread_once(&loaded, driver_load);
    if (load_rc < 0)
        return error_set(err, load_rc, "%s", load_error.text);
    struct cuda_device *d = malloc(sizeof(*d));
    if (!d)
        return error_set(err, -ENOMEM, "no memory for a GPU");
    d->number = number;
    int rc = check(cuda.init(0), "the CUDA driver", err);
    if (!rc && cuda.primary(&d->context, number))
        rc = error_set(err, -ENODEV, "there is no GPU of number %d that CUDA can use", number);
    if (rc)
        free(d);
    else
        *device = d;
    return rc;
}

void cuda_device_close(struct cuda_device *device) {
    free(device);
}

/* While some thread records a graph, CUDA lets other threads neither allocate nor free, unless they say that they know
 * what they do. These do: nothing here touches what another thread records. */
void cuda_relax(void) {
    static _Thread_local bool relaxed;
    int mode = CAPTURE_RELAXED;
    if (!relaxed)
        cuda.capture_mode(&mode);
    relaxed = true;
}

/* Lets the calling thread use a device. */
static void enter(const struct cuda_device *device) {
    cuda.current(device->context);
    cuda_relax();
}

void *cuda_pinned(const struct cuda_device *device, size_t bytes) {
    void *memory = NULL;
    enter(device);
    return cuda.host_alloc(&memory, bytes, HOST_PORTABLE) ? NULL : memory;
}

void cuda_pinned_free(const struct cuda_device *device, void *memory) {
    enter(device);
    cuda.host_release(memory);
}

/* ---- threads ---- */

struct cuda_thread {
    const struct cuda_device *device;
    void *stream; /* stream of copies; ONNX Runtime's runs have other streams */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t asked, done;
    void (*call)(void *argument); /* function to be called; NULL: none */
    void *argument;
    uint64_t turn; /* number of the call */
    bool ends;
};

static void *thread_main(void *context) {
    struct cuda_thread *t = context;
    thread_begin("cuda", (uint32_t)t->device->number, THREAD_COMPUTE);
    enter(t->device);
    pthread_mutex_lock(&t->lock);
    while (!t->ends) {
        if (!t->call) {
            pthread_cond_wait(&t->asked, &t->lock);
            continue;
        }
        pthread_mutex_unlock(&t->lock);
        t->call(t->argument); /* nobody else writes these meanwhile */
        pthread_mutex_lock(&t->lock);
        t->call = NULL;
        pthread_cond_broadcast(&t->done);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

int cuda_thread_start(struct cuda_thread **thread, const struct cuda_device *device, struct sy_error *err) {
    struct cuda_thread *t = calloc(1, sizeof(*t));
    if (!t)
        return error_set(err, -ENOMEM, "no memory for a GPU's thread");
    t->device = device;
    enter(device);
    int rc = check(cuda.stream(&t->stream, STREAM_NON_BLOCKING), "CUDA stream", err);
    if (rc)
        goto err_free;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->asked, NULL);
    pthread_cond_init(&t->done, NULL);
    rc = -pthread_create(&t->thread, NULL, thread_main, t);
    if (rc == 0) {
        *thread = t;
        return 0;
    }
    error_set(err, rc, "no thread for a GPU: %s", strerror(-rc));
    cuda.stream_release(t->stream);
err_free:
    free(t);
    return rc;
}

void cuda_thread_call(struct cuda_thread *thread, void (*call)(void *argument), void *argument) {
    pthread_mutex_lock(&thread->lock);
    while (thread->call) /* another one's */
        pthread_cond_wait(&thread->done, &thread->lock);
    uint64_t turn = ++thread->turn;
    thread->argument = argument;
    thread->call = call;
    pthread_cond_signal(&thread->asked);
    while (thread->call && thread->turn == turn)
        pthread_cond_wait(&thread->done, &thread->lock);
    pthread_mutex_unlock(&thread->lock);
}

void cuda_thread_end(struct cuda_thread *thread) {
    if (!thread)
        return;
    pthread_mutex_lock(&thread->lock);
    thread->ends = true;
    pthread_cond_signal(&thread->asked);
    pthread_mutex_unlock(&thread->lock);
    pthread_join(thread->thread, NULL);
    enter(thread->device);
    cuda.stream_release(thread->stream);
    pthread_cond_destroy(&thread->done);
    pthread_cond_destroy(&thread->asked);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
}

int cuda_thread_device(const struct cuda_thread *thread) {
    return thread->device->number;
}

int cuda_alloc(cuda_address *at, size_t bytes, const char *what, struct sy_error *err) {
    return check(cuda.alloc(at, bytes), what, err);
}

void cuda_free(cuda_address at) {
    if (at)
        cuda.release(at);
}

int cuda_clear(const struct cuda_thread *thread, cuda_address at, size_t bytes, const char *what,
               struct sy_error *err) {
    return check(cuda.clear(at, 0, bytes, thread->stream), what, err);
}

int cuda_copy_in(const struct cuda_thread *thread, cuda_address to, const void *from, size_t bytes, const char *what,
                 struct sy_error *err) {
    return check(cuda.to_device(to, from, bytes, thread->stream), what, err);
}

int cuda_copy_out(const struct cuda_thread *thread, void *to, cuda_address from, size_t bytes, const char *what,
                  struct sy_error *err) {
    return check(cuda.to_host(to, from, bytes, thread->stream), what, err);
}

int cuda_wait(const struct cuda_thread *thread, const char *what, struct sy_error *err) {
    return check(cuda.wait(thread->stream), what, err);
}
