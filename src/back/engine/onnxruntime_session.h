/* onnxruntime_session.h - sessions of ONNX Runtime: environment, options, execution providers, errors. For the files
 * onnxruntime*.c only. */
#pragma once

#include <onnxruntime_c_api.h>

#include "core/util/error.h"
#include "model/engine/engine.h"

/* The library's table of functions, or NULL with a sentence if it is older than the header this was built with. */
const OrtApi *onnxruntime_api(struct sy_error *err);
/* A reference to the process's environment (the library has one). Its log lines go to ours, and if
 * engine_run_memory() is a limit, all sessions have one arena in it for what runs need. Any thread. */
int onnxruntime_env(const OrtApi *api, OrtEnv **env, struct sy_error *err);
/* Gives a reference back. NULL is allowed. */
void onnxruntime_env_put(const OrtApi *api, OrtEnv *env);
/* Consumes a status: 0 for NULL, else a negative errno and "WHAT: the library's sentence". */
int onnxruntime_check(const OrtApi *api, OrtStatus *status, struct sy_error *err, const char *what);

/* 0 if the library has the execution provider; -ENOTSUP. */
int onnxruntime_provider(const OrtApi *api, const char *name, struct sy_error *err);

struct session_request {
    const char *path;
    const void *contents; /* the file's contents, instead of `path`; NULL: the file is at `path` */
    size_t contents_bytes;
    const struct op_libraries *libraries; /* with operators of the model's own; NULL: none */
    const char *provider;                 /* "cpu", "cuda" */
    int device;
    bool optimise;         /* run the graph optimisers; false for a file that is optimised already or only looked at */
    const char *save_path; /* write the optimised model there (ends in .onnx or .ort); NULL: do not */
    const char *save_weights; /* with save_path: the name of a file beside it for pre-packed weights; NULL: inside */
    bool prepacked;           /* the file was saved with save_weights */
    bool graphs;              /* of cuda: runs are to be recorded; an error if they cannot be (onnxruntime_cuda.h) */
};

/* Opens a session with one thread, the caller's. -EINVAL, -ENOENT, -ENOTSUP (no such provider), -EIO. */
int onnxruntime_session(const OrtApi *api, OrtEnv *env, const struct session_request *request, OrtSession **session,
                        struct sy_error *err);
/* Reads what a session takes and gives. -ENOTSUP for what cannot be served, naming the tensor. */
int onnxruntime_session_signature(const OrtApi *api, const OrtSession *session, struct signature *signature,
                                  struct sy_error *err);
/* ONNX's number of a data type; UNDEFINED for what it lacks. */
ONNXTensorElementDataType onnxruntime_type(enum datatype type);
