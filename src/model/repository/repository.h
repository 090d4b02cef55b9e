/* repository.h - finds the models of directories. Set-up only; one thread.
 *
 * It finds, as Triton lays them out, `<model>/<version>/model.onnx` (of its versions those that its configuration
 * wants, else the highest) with an optional `<model>/config.pbtxt` and `<model>/symphony.yaml`; `<model>/model.onnx`
 * (version 1); and a flat `<model>.onnx`. An ensemble is a `<model>/config.pbtxt` and needs no file. A path may also be
 * one such file, or one model's folder. Hidden entries are not looked at. See docs/model-repository.md. */
#pragma once

#include <stdint.h>

#include "core/util/error.h"
#include "model/config/served_model.h"
#include "model/repository/repositories.h"

/* Gives the models sorted by name and version, each version a model of its own, for the caller to free(), after
 * served_model_ensembles_free() of those that it does not keep. Each is MODEL_LOADING, to be completed (an ensemble is
 * complete, but for its steps' models), or MODEL_UNAVAILABLE with a reason "PATH: why"; one that is broken does not
 * stop the others. Two of one name become one that is unavailable and names both. -ENOENT when there is no model at
 * all; -EINVAL when a name was given, and there is more than one. Until it is completed, batch_max is what
 * symphony.yaml says, or 0. */
int repository_scan(const struct repositories *from, struct served_model **models, uint32_t *count,
                    struct sy_error *err);
/* Whether the path is one model, its folder or its file, rather than a directory of models. */
bool repository_is_model(const char *path);
/* The same for one model in directories of models, found by its folder's or file's name, with all versions that are to
 * be served. -ENOENT: there is no model of this name. */
int repository_find(const struct repositories *from, const char *name, struct served_model **models, uint32_t *count,
                    struct sy_error *err);
