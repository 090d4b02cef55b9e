/* operators.c - a library with an operator of its own for ONNX Runtime: test::Times(x) is FACTOR * x, of floats.
 * test_operators.py compiles it; with BROKEN it has no entry, and with CRASHES the entry crashes. */
#include <onnxruntime_c_api.h>
#include <pthread.h>

static const OrtApi *api;

static void *ORT_API_CALL kernel_create(const OrtCustomOp *op, const OrtApi *given, const OrtKernelInfo *info) {
    (void)given;
    (void)info;
    return (void *)op;
}

static void ORT_API_CALL kernel_destroy(void *kernel) {
    (void)kernel;
}

static void ORT_API_CALL kernel_compute(void *kernel, OrtKernelContext *context) {
    const OrtValue *x = NULL;
    OrtTensorTypeAndShapeInfo *shape = NULL;
    OrtValue *y = NULL;
    int64_t dims[8];
    size_t dim_count = 0, count = 0;
    float *from = NULL, *to = NULL;
    (void)kernel;
    (void)!api->KernelContext_GetInput(context, 0, &x);
    (void)!api->GetTensorTypeAndShape(x, &shape);
    (void)!api->GetDimensionsCount(shape, &dim_count);
    (void)!api->GetDimensions(shape, dims, dim_count);
    (void)!api->GetTensorShapeElementCount(shape, &count);
    api->ReleaseTensorTypeAndShapeInfo(shape);
    (void)!api->KernelContext_GetOutput(context, 0, dims, dim_count, &y);
    (void)!api->GetTensorMutableData((OrtValue *)x, (void **)&from);
    (void)!api->GetTensorMutableData(y, (void **)&to);
    for (size_t i = 0; i < count; i++)
        to[i] = FACTOR * from[i];
}

static const char *ORT_API_CALL name(const OrtCustomOp *op) {
    (void)op;
    return "Times";
}

static const char *ORT_API_CALL provider(const OrtCustomOp *op) {
    (void)op;
    return NULL;
}

static ONNXTensorElementDataType ORT_API_CALL type(const OrtCustomOp *op, size_t index) {
    (void)op;
    (void)index;
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

static size_t ORT_API_CALL one(const OrtCustomOp *op) {
    (void)op;
    return 1;
}

static OrtCustomOpInputOutputCharacteristic ORT_API_CALL needed(const OrtCustomOp *op, size_t index) {
    (void)op;
    (void)index;
    return INPUT_OUTPUT_REQUIRED;
}

static OrtMemType ORT_API_CALL memory(const OrtCustomOp *op, size_t index) {
    (void)op;
    (void)index;
    return OrtMemTypeDefault;
}

static const OrtCustomOp times = {
    .version = 8, /* the first that has all that is here */
    .CreateKernel = kernel_create,
    .GetName = name,
    .GetExecutionProviderType = provider,
    .GetInputType = type,
    .GetInputTypeCount = one,
    .GetOutputType = type,
    .GetOutputTypeCount = one,
    .KernelCompute = kernel_compute,
    .KernelDestroy = kernel_destroy,
    .GetInputCharacteristic = needed,
    .GetOutputCharacteristic = needed,
    .GetInputMemoryType = memory,
};

#ifndef BROKEN
OrtStatus *ORT_API_CALL RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base);

static OrtCustomOpDomain *domain; /* of all sessions; it must outlive them */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

OrtStatus *ORT_API_CALL RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    OrtStatus *status = NULL;
#ifdef CRASHES
    *(volatile int *)0 = 0;
#endif
    pthread_mutex_lock(&lock);
    api = base->GetApi(ORT_API_VERSION);
    if (!domain) {
        status = api->CreateCustomOpDomain("test", &domain);
        if (!status)
            status = api->CustomOpDomain_Add(domain, &times);
    }
    pthread_mutex_unlock(&lock);
    return status ? status : api->AddCustomOpDomain(options, domain);
}

__attribute__((destructor)) static void release(void) {
    if (domain)
        api->ReleaseCustomOpDomain(domain);
}
#endif
