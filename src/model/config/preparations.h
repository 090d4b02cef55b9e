/* preparations.h - how a model's inputs are prepared: the steps of symphony.yaml checked against the model, and the
 * models that prepare.
 *
 *     apply (any process) -> preparations_fill() -> preparations_open() -> served
 *     a backend           -> preparations_fill() -> preparations_pack() -> described to others
 *     a frontend          -> preparations_told() -> preparations_open() -> served
 *
 * What was opened is closed when the served model is given back (served_model_release()).
 *
 * Mistakes are -EINVAL with "FILE:LINE: prepare.N: sentence". Set-up only. */
#pragma once

#include "core/util/error.h"
#include "model/config/served_model.h"
#include "model/engine/transform.h"

struct symphony_yaml;

/* Sets which inputs are prepared, and by what; for served_model_apply(). The files must exist; they are not read. */
int preparations_fill(struct served_model *model, const struct symphony_yaml *settings, struct sy_error *err);
/* Opens the models that prepare inputs, runs each once if its input has a fixed shape, and sets the signature that
 * clients see. The served model is complete, and its profile applied. After an error no model is open. `ops` may be
 * NULL where no input needs it. */
int preparations_open(struct served_model *model, const struct transform_ops *ops, struct sy_error *err);
/* For a process that does not prepare inputs, but describes the model to processes that do: reads the files that
 * prepare, tries them as preparations_open() does, and keeps their contents. -EFBIG with a sentence: the files have
 * more than PREPARE_CARRIED_MAX bytes. */
int preparations_pack(struct served_model *model, const struct transform_ops *ops, struct sy_error *err);
/* For a model that another process has described: checks what can be checked before its files are opened, and sets the
 * signature that clients see, as far as it is known. */
int preparations_told(struct served_model *model, struct sy_error *err);
/* Gives a model with prepared inputs an empty preparation for each input. */
int preparations_room(struct served_model *model, struct sy_error *err);
/* Closes the models that prepare before the served model is given back. */
void preparations_close(struct served_model *model);
/* The path of the file that prepares an input. */
int preparation_path(const struct served_model *model, uint32_t input, char *path, size_t bytes, struct sy_error *err);
