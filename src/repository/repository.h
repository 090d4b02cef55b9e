/* repository.h - finds the models of a directory and completes them from their files. Set-up only; one thread.
 *
 * Found are, as Triton lays them out, `<model>/<version>/model.onnx` (the highest version is served) with an optional
 * `<model>/config.pbtxt` and `<model>/symphony.yaml`; `<model>/model.onnx` (version 1); and a flat `<model>.onnx`. The
 * path may also be one such file, or one model's folder. Hidden entries are not looked at. See
 * docs/model-repository.md.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "engine/engine.h"
#include "repository/served_model.h"

/* Gives the models sorted by name, for the caller to free(): each MODEL_LOADING, to be completed, or MODEL_UNAVAILABLE
 * with a reason "PATH: why"; one that is broken does not stop the others. Two of one name become one that is
 * unavailable and names both. -ENOENT when there is no model at all. Until it is completed, batch_max is what
 * symphony.yaml says, or 0. */
int repository_scan(const char *path, struct served_model **models, uint32_t *count, struct sy_error *err);

/* Completes a model: its signature is read through `engine` (which a broken file may crash: call it in a child process,
 * the struct holds no pointers), then as served_model_apply(). */
int served_model_complete(struct served_model *model, const struct engine_ops *engine, struct sy_error *err);

/* The same with the signature that the file has, read before: holds the configuration against it and fills signature,
 * batch_max, reference_dims and item_elements. -EINVAL for a mismatch, with both values; `model` is then as it was. */
int served_model_apply(struct served_model *model, const struct signature *signature, struct sy_error *err);

/* Makes the model unavailable; the sentence is its reason. Before other threads see the model. */
void served_model_refuse(struct served_model *model, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
