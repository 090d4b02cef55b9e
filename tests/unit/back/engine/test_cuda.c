/* test_cuda.c - a GPU's threads, memory and copies, on a driver that stands for CUDA's (cuda_stub.c). */
/* Starts threads. */
#include "back/engine/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "unit/test.h"

struct stub { /* as in cuda_stub.c */
    int devices, fails_alloc, held, relaxed;
};

static struct stub *stub(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(library);
    return dlsym(library, "stub");
}

static struct cuda_device *device_open(void) {
    struct cuda_device *device;
    assert_int_equal(cuda_device_open(&device, 1, NULL), 0);
    return device;
}

TEST(a_gpu_that_is_not_there_is_named) {
    struct cuda_device *device;
    struct sy_error err;
    assert_int_equal(cuda_device_open(&device, 7, &err), -ENODEV);
    assert_string_equal(err.text, "there is no GPU of number 7 that CUDA can use");
}

struct called {
    pthread_t by;
    int times;
};

static void note_call(void *argument) {
    struct called *called = argument;
    called->by = pthread_self();
    called->times++;
}

/* What is called one after the other is called by the same thread, which is not the caller's, and has ended then. */
TEST(a_thread_makes_all_calls) {
    struct cuda_device *device = device_open();
    struct cuda_thread *thread;
    struct called first = {0}, second = {0};
    int relaxed = stub()->relaxed;
    assert_int_equal(cuda_thread_start(&thread, device, NULL), 0);
    assert_int_equal(cuda_thread_device(thread), 1);
    cuda_thread_call(thread, note_call, &first);
    assert_int_equal(first.times, 1);
    for (int i = 0; i < 1000; i++) {
        cuda_thread_call(thread, note_call, &second);
        assert_int_equal(second.times, i + 1);
    }
    assert_true(pthread_equal(first.by, second.by));
    assert_false(pthread_equal(first.by, pthread_self()));
    assert_true(stub()->relaxed > relaxed);
    cuda_thread_end(thread);
    cuda_thread_end(NULL);
    cuda_device_close(device);
    assert_int_equal(stub()->held, 0);
}

TEST(a_thread_that_is_never_called_ends) {
    struct cuda_device *device = device_open();
    struct cuda_thread *thread;
    assert_int_equal(cuda_thread_start(&thread, device, NULL), 0);
    cuda_thread_end(thread);
    cuda_device_close(device);
    assert_int_equal(stub()->held, 0);
}

struct caller {
    struct cuda_thread *thread;
    struct called *called;
};

static void *call_often(void *context) {
    const struct caller *caller = context;
    for (int i = 0; i < 1000; i++)
        cuda_thread_call(caller->thread, note_call, caller->called);
    return NULL;
}

TEST(callers_wait_for_each_other) {
    struct cuda_device *device = device_open();
    struct called called = {0};
    struct caller caller = {.called = &called};
    pthread_t others[3];
    assert_int_equal(cuda_thread_start(&caller.thread, device, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&others[i], NULL, call_often, &caller), 0);
    call_often(&caller);
    for (int i = 0; i < 3; i++)
        pthread_join(others[i], NULL);
    assert_int_equal(called.times, 4000);
    cuda_thread_end(caller.thread);
    cuda_device_close(device);
}

struct copying {
    struct cuda_thread *thread;
    char in[8], out[8], cleared[8];
    cuda_address at;
    int rc;
    struct sy_error err;
};

static void copy_call(void *argument) {
    struct copying *c = argument;
    assert_int_equal(cuda_alloc(&c->at, sizeof(c->in), "x", NULL), 0);
    assert_int_equal(cuda_clear(c->thread, c->at, sizeof(c->in), "x", NULL), 0);
    assert_int_equal(cuda_copy_out(c->thread, c->cleared, c->at, sizeof(c->cleared), "x", NULL), 0);
    assert_int_equal(cuda_copy_in(c->thread, c->at, c->in, sizeof(c->in), "x", NULL), 0);
    assert_int_equal(cuda_copy_out(c->thread, c->out, c->at, sizeof(c->out), "x", NULL), 0);
    c->rc = cuda_wait(c->thread, "x", NULL);
    cuda_free(c->at);
    cuda_free(0);
}

TEST(copies_are_done_once_they_have_been_waited_for) {
    struct cuda_device *device = device_open();
    struct copying c = {.in = "1234567", .cleared = "abcdefg"};
    assert_int_equal(cuda_thread_start(&c.thread, device, NULL), 0);
    cuda_thread_call(c.thread, copy_call, &c);
    assert_int_equal(c.rc, 0);
    assert_string_equal(c.out, "1234567");
    assert_memory_equal(c.cleared, (char[8]){0}, 8);
    cuda_thread_end(c.thread);
    cuda_device_close(device);
    assert_int_equal(stub()->held, 0);
}

static void alloc_call(void *argument) {
    struct copying *c = argument;
    c->rc = cuda_alloc(&c->at, 8, "input 'x'", &c->err);
}

TEST(errors_say_what_failed_and_why) {
    struct cuda_device *device = device_open();
    struct copying c = {0};
    assert_int_equal(cuda_thread_start(&c.thread, device, NULL), 0);
    stub()->fails_alloc = 2;
    cuda_thread_call(c.thread, alloc_call, &c);
    assert_int_equal(c.rc, -ENOMEM);
    assert_string_equal(c.err.text, "input 'x': CUDA error 2: out of memory");
    stub()->fails_alloc = 999;
    cuda_thread_call(c.thread, alloc_call, &c);
    assert_int_equal(c.rc, -EIO);
    assert_string_equal(c.err.text, "input 'x': CUDA error 999: unknown");
    cuda_thread_end(c.thread);
    cuda_device_close(device);
}

TEST(pinned_memory_is_for_any_thread) {
    struct cuda_device *device = device_open();
    char *memory = cuda_pinned(device, 100);
    assert_non_null(memory);
    memset(memory, 1, 100);
    assert_int_equal(stub()->held, 1);
    cuda_pinned_free(device, memory);
    assert_int_equal(stub()->held, 0);
    cuda_device_close(device);
    cuda_device_close(NULL);
}
