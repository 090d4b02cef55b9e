/* cuda_stub.c - stands for CUDA's driver where there is no GPU, so that what calls it can be tested: the "GPU's memory"
 * is memory of the process, and copies on a stream happen when somebody waits for it. The library libcuda.so.1 of
 * test_cuda.c alone. */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;

struct copy {
    void *to;
    const void *from; /* NULL: zeros */
    size_t bytes;
};

struct stub {
    int devices;
    int fails_alloc; /* the error of the next allocation on the GPU */
    int held;        /* allocations on the GPU, of pinned memory, and streams */
    int relaxed;     /* threads that may allocate while others record */
};

struct stub stub = {.devices = 2};
static struct copy copies[16];
static int copy_count;
static _Thread_local bool has_context;

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(address *at, size_t bytes);
int cuMemFree_v2(address at);
int cuMemHostAlloc(void **at, size_t bytes, unsigned flags);
int cuMemFreeHost(void *at);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamDestroy_v2(void *stream);
int cuStreamSynchronize(void *stream);
int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream);
int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, void *stream);
int cuMemsetD8Async(address at, unsigned char value, size_t bytes, void *stream);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cuGetErrorString(int code, const char **sentence);

int cuInit(unsigned flags) {
    return (int)flags;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &stub;
    return device < stub.devices ? 0 : 101;
}

int cuCtxSetCurrent(void *context) {
    has_context = context == &stub;
    return 0;
}

int cuMemAlloc_v2(address *at, size_t bytes) {
    int rc = has_context ? stub.fails_alloc : 201;
    stub.fails_alloc = 0;
    if (rc)
        return rc;
    void *memory = malloc(bytes);
    memset(memory, 0x55, bytes);
    *at = (address)(size_t)memory;
    stub.held++;
    return 0;
}

int cuMemFree_v2(address at) {
    free((void *)(size_t)at);
    stub.held--;
    return 0;
}

int cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
    if (!has_context || flags != 1)
        return 201;
    *at = malloc(bytes);
    stub.held++;
    return 0;
}

int cuMemFreeHost(void *at) {
    free(at);
    stub.held--;
    return 0;
}

int cuStreamCreate(void **stream, unsigned flags) {
    if (!has_context || flags != 1)
        return 201;
    *stream = malloc(1);
    stub.held++;
    return 0;
}

int cuStreamDestroy_v2(void *stream) {
    free(stream);
    stub.held--;
    return 0;
}

int cuStreamSynchronize(void *stream) {
    for (int i = 0; i < copy_count && stream; i++)
        copies[i].from ? memcpy(copies[i].to, copies[i].from, copies[i].bytes)
                       : memset(copies[i].to, 0, copies[i].bytes);
    copy_count = 0;
    return 0;
}

int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream) {
    (void)stream;
    copies[copy_count++] = (struct copy){(void *)(size_t)to, from, bytes};
    return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, void *stream) {
    (void)stream;
    copies[copy_count++] = (struct copy){to, (const void *)(size_t)from, bytes};
    return 0;
}

int cuMemsetD8Async(address at, unsigned char value, size_t bytes, void *stream) {
    (void)value;
    (void)stream;
    copies[copy_count++] = (struct copy){(void *)(size_t)at, NULL, bytes};
    return 0;
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
    stub.relaxed += *mode == 2;
    return 0;
}

int cuGetErrorString(int code, const char **sentence) {
    *sentence = code == 2 ? "out of memory" : NULL;
    return 0;
}
