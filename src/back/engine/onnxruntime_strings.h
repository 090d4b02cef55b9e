/* onnxruntime_strings.h - converts tensors of strings between our form (core/data/strings.h) and ONNX Runtime's, which
 * keeps every element in an object of its own. Both directions copy. For the files onnxruntime*.c only. */
#pragma once

#include <onnxruntime_c_api.h>

#include "core/data/tensor.h"
#include "core/util/error.h"

/* Makes a string tensor of the view's elements. The view has as many elements as its dims say. */
int onnxruntime_strings_make(const OrtApi *api, const struct tensor_view *view, OrtValue **value, struct sy_error *err);
/* Replaces a string tensor by one that holds its elements in our form. The view's dims are the tensor's; sets the
 * view's data, bytes and row_at. On failure the value is unchanged and still the caller's. */
int onnxruntime_strings_take(const OrtApi *api, OrtValue **value, struct tensor_view *view, struct sy_error *err);
