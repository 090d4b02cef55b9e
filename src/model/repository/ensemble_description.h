/* ensemble_description.h - an ensemble's graph as JSON, the part of a model's description that only ensembles have; for
 * model_description.c only. A description has no file: sentences about it name "MODEL/config.pbtxt", with the lines of
 * the file from which the description was made. */
#pragma once

#include "model/config/served_model.h"
#include "model/repository/description_fields.h"

/* Writes a graph as JSON. NULL: out of memory. */
json_t *ensemble_description_pack(struct field_writer *w, const struct ensemble *ensemble);
/* Reads a graph into model->ensemble; the model's name and signature have been read before. -EINVAL with a sentence:
 * what ensemble_read() and ensemble_settings() refuse is refused here, too. */
int ensemble_description_read(struct field_reader *r, const json_t *object, struct served_model *model);
