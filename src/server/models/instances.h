/* instances.h - decides which of the server's accelerators run a model. */
#pragma once

#include "server/threads/server_config.h"

/* Fills model->on as its instance_group wants, or with all types if the server has none of the wanted kind. Logs a
 * warning for wishes of instance_group that the server cannot fulfil. Call it before the model is profiled, at set-up
 * or in the repository's thread. */
void instances_place(struct served_model *model, const struct server_accelerators *accelerators, uint32_t type_count);
