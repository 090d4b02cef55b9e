/* onnxruntime_session.h - sessions of ONNX Runtime: environment, options, execution providers, errors. For the files
 * onnxruntime*.c only. */
#pragma once

#include <onnxruntime_c_api.h>

#include "core/util/error.h"
#include "model/engine/engine.h"

/* The library's table of functions; NULL with a sentence: the library is older than the header of our build. */
const OrtApi *onnxruntime_api(struct sy_error *err);
/* Gets a reference to the process's environment (the library has one). The library's log lines go to our log. If
 * engine_run_memory() is a limit, the environment has one arena for the memory of all sessions' runs. Any thread. */
int onnxruntime_env(const OrtApi *api, OrtEnv **env, struct sy_error *err);
/* Gives a reference back. NULL is allowed. */
void onnxruntime_env_put(const OrtApi *api, OrtEnv *env);
/* Frees a status. Returns 0 if it is NULL, else a negative errno, with the sentence "WHAT: the library's sentence". */
int onnxruntime_check(const OrtApi *api, OrtStatus *status, struct sy_error *err, const char *what);

/* 0, or -ENOTSUP with a sentence: the library does not have the execution provider. */
int onnxruntime_provider(const OrtApi *api, const char *name, struct sy_error *err);

struct session_request {
    const char *path;
    const void *contents; /* contents of the file, instead of `path`; NULL: the file is at `path` */
    size_t contents_bytes;
    const struct op_libraries *libraries; /* libraries of the model's own operators; NULL: none */
    const char *provider;                 /* execution provider: "cpu", "cuda" */
    int device;                           /* number of the provider's device */
    bool optimise;            /* run the graph optimisers; false: the file is optimised already, or only looked at */
    const char *save_path;    /* file for the optimised model, *.onnx or *.ort; NULL: it is not saved */
    const char *save_weights; /* name of a file beside save_path for pre-packed weights; NULL: they are in save_path */
    bool prepacked;           /* the file was saved with save_weights */
    bool graphs;              /* cuda: runs are to be recorded; an error if they cannot be (onnxruntime_cuda.h) */
};

/* Opens a session with one thread, the caller's. -EINVAL, -ENOENT, -ENOTSUP (no such provider), -EIO. */
int onnxruntime_session(const OrtApi *api, OrtEnv *env, const struct session_request *request, OrtSession **session,
                        struct sy_error *err);
/* Reads the inputs and outputs of a session. -ENOTSUP: an input or output cannot be served; the sentence names it. */
int onnxruntime_session_signature(const OrtApi *api, const OrtSession *session, struct signature_room *room,
                                  struct sy_error *err);
/* ONNX's number of a data type; UNDEFINED: ONNX lacks the type. */
ONNXTensorElementDataType onnxruntime_type(enum datatype type);
