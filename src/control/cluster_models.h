/* cluster_models.h - the models that a frontend of a cluster serves, as the scheduler tells of them: in places, which
 * are their numbers in this process. The link thread alone calls these. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct cluster_models;
struct server;

/* NULL without memory. */
struct cluster_models *cluster_models_create(struct server *server);
/* When all frontends have ended. NULL is allowed. */
void cluster_models_destroy(struct cluster_models *models);
/* Serves a model by its description, from when this returns. Its place, or -errno with a sentence. */
int cluster_models_serve(void *models, const char *description, size_t bytes, struct sy_error *err);
/* No backend has it any more: clients are told so. */
void cluster_models_gone(void *models, uint32_t place);
/* All that there are have been told: from the first time on this process is ready while there is one. */
void cluster_models_told(void *models);
/* Frees places whose last requests have been answered. True: some have not. */
bool cluster_models_look(void *models);
