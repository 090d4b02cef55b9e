/* repository.h - finds the models of directories. Set-up only; one thread.
 *
 * Models are laid out as Triton does: `<model>/<version>/model.onnx` (of the versions those that the model's
 * configuration wants, else the highest) with an optional `<model>/config.pbtxt` and `<model>/symphony.yaml`;
 * `<model>/model.onnx` (version 1); and a flat `<model>.onnx`. An ensemble is a `<model>/config.pbtxt` and needs no
 * file. A path may also be one such file, or one model's folder. Hidden entries are not looked at. See
 * docs/model-repository.md. */
#pragma once

#include <stdint.h>

#include "core/util/error.h"
#include "model/config/served_model.h"
#include "model/repository/repositories.h"

/* Finds all models. *models: the models, sorted by name and version, each version a model of its own. The caller
 * moves the models that it keeps, and frees the array by served_models_free(). Each model is
 * MODEL_LOADING, to be completed (an ensemble is complete, but for its steps' models), or MODEL_UNAVAILABLE with a
 * reason "PATH: why"; a broken model does not stop the others. Two models of one name become one that is unavailable
 * and names both. -ENOENT: there is no model at all; -EINVAL: a name was given, and there is more than one model. Until
 * a model is completed, its batch_max is what symphony.yaml says, or 0. */
int repository_scan(const struct repositories *from, struct served_model **models, uint32_t *count,
                    struct sy_error *err);
/* Whether the path is one model, its folder or its file, rather than a directory of models. */
bool repository_is_model(const char *path);
/* Whether directories of models have a model of this name, even a wrong one: repository_find() is not -ENOENT. */
bool repository_holds(const struct repositories *from, const char *name);
/* As repository_scan(), for one model in directories of models, found by its folder's or file's name, with all versions
 * that are to be served. -ENOENT: there is no model of this name. */
int repository_find(const struct repositories *from, const char *name, struct served_model **models, uint32_t *count,
                    struct sy_error *err);
