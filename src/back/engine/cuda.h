/* cuda.h - the few functions of CUDA's driver that are used directly, and threads that work with a GPU.
 *
 * ONNX Runtime keeps its handles of CUDA's libraries and its recorded graphs apart for each thread that calls it. If
 * one thread loaded and tried a model, the first run by another thread would be slow again, by tenths of a second. So
 * each model on a GPU has a thread that loads and runs the model, and callers wait for that thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

struct cuda_device; /* a GPU */
struct cuda_thread; /* a thread that works with a GPU */

typedef unsigned long long cuda_address; /* address in the GPU's memory; 0: none */

/* Opens a GPU by its number. The driver's library is loaded when the first GPU is opened. 0 or -errno with a sentence:
 * -ENOTSUP: there is no driver, or it is too old; -ENODEV: there is no such GPU. */
int cuda_device_open(struct cuda_device **device, int number, struct sy_error *err);
/* NULL is allowed. */
void cuda_device_close(struct cuda_device *device);
/* Allocates host memory that the GPU reads without a copy in between, at several times the rate of other memory. NULL:
 * memory is out. Any thread. */
void *cuda_pinned(const struct cuda_device *device, size_t bytes);
void cuda_pinned_free(const struct cuda_device *device, void *memory);

/* Called in a thread before the thread frees memory that another thread had on a GPU. Otherwise the freeing would end a
 * recording of a graph that some thread has under way. */
void cuda_relax(void);

/* Starts a thread with the cores and the nice value of the caller. The device outlives the thread. 0, or -ENOMEM,
 * -EAGAIN or -EIO with a sentence. */
int cuda_thread_start(struct cuda_thread **thread, const struct cuda_device *device, struct sy_error *err);
/* Has a thread call a function, and returns when the function has returned. Any thread; callers wait for each other. */
void cuda_thread_call(struct cuda_thread *thread, void (*call)(void *argument), void *argument);
/* NULL is allowed. */
void cuda_thread_end(struct cuda_thread *thread);
/* The number of its device. */
int cuda_thread_device(const struct cuda_thread *thread);

/* The following are only for functions that the thread calls. They return 0, or -errno with a sentence that begins with
 * `what`. Copies and cuda_clear() may still be under way when they return, until cuda_wait() has returned. */
int cuda_alloc(cuda_address *at, size_t bytes, const char *what, struct sy_error *err);
void cuda_free(cuda_address at);
int cuda_clear(const struct cuda_thread *thread, cuda_address at, size_t bytes, const char *what, struct sy_error *err);
int cuda_copy_in(const struct cuda_thread *thread, cuda_address to, const void *from, size_t bytes, const char *what,
                 struct sy_error *err);
int cuda_copy_out(const struct cuda_thread *thread, void *to, cuda_address from, size_t bytes, const char *what,
                  struct sy_error *err);
int cuda_wait(const struct cuda_thread *thread, const char *what, struct sy_error *err);
