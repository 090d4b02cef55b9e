/* cluster_models.h - the models that a frontend of a cluster serves, as the scheduler announces them. Each is in a
 * place, whose index is the model's number in this process. Only the link thread calls these functions.
 *
 * An ensemble has a place, too. The ensemble is listed while the models of its steps are listed, and fit; else clients
 * are told what is missing, as of a model that is not served now.
 *
 * A model whose inputs are prepared is listed once this process can prepare them. Another model may prepare these
 * inputs. A thread of its own opens that model, since opening takes longer than the link thread may be away. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

#define CLUSTER_MODEL_GONE "no backend of the cluster serves it" /* reason why a model is not served */

struct cluster_models;
struct model_absent;
struct model_list;
struct readiness;
struct scheduler_link;
struct server_accelerators;
struct server_config;

/* Lists of models that other threads of this process have for the repository index. */
enum models_handed {
    MODELS_KNOWN, /* those that are known (server_models_know()) */
    MODELS_ASIDE, /* those of server_models_aside() */
    MODELS_HANDED
};

/* `beside`: link of the scheduler in this process, with `serve --isolate`; NULL: it is in another process. NULL without
 * memory. */
struct cluster_models *cluster_models_create(const struct server_config *config, struct model_list *list,
                                             struct readiness *readiness, struct scheduler_link *beside);
/* Call it when all frontends have ended. NULL is allowed. */
void cluster_models_destroy(struct cluster_models *models);
/* Serves a model, given its description: as soon as this returns, or, where there are many, as one of the next calls of
 * cluster_models_look() does. Its place, or -errno with a sentence. */
int cluster_models_serve(void *models, const char *description, size_t bytes, struct sy_error *err);
/* No backend has the model any more; clients are told so by the next cluster_models_look(). */
void cluster_models_gone(void *models, uint32_t place);
/* Whether the place's model has a successor that is being opened, or is gone while clients are not told so yet, or
 * requests still hold the place: some of them may not have come in whole. They have a second, but with
 * `serve --isolate` all the time that they need. */
bool cluster_models_outlasts(void *models, uint32_t place);
/* The scheduler has announced all models. From the first such call on, this process is ready while there is a model. */
void cluster_models_told(void *models);
/* Requests can be sent on from now on, or not: then this process is not ready. */
void cluster_models_linked(void *models, bool linked);
/* One type of accelerators that stands for all types: it has the profile of each place's model on the first type in the
 * model's description. The SLOs of ensembles are divided by these profiles. Read those of listed models only, under the
 * lock of the models. */
const struct server_accelerators *cluster_models_profiles(const struct cluster_models *models);
/* The hash of the description of a listed model. Call it under the lock of the models; any thread. */
uint64_t cluster_models_hash(const struct cluster_models *models, uint32_t place);
/* Hands over such a list, which is copied, and published with the next look. One thread for each kind. 0 or -ENOMEM. */
int cluster_models_hand(struct cluster_models *models, enum models_handed kind, const struct model_absent *list,
                        uint32_t count);
/* Whether the last list that this thread has handed over is published. */
bool cluster_models_shown(const struct cluster_models *models, enum models_handed kind);
/* Whether a place is free. */
bool cluster_models_room(void *models);
/* Publishes what is not published yet, and frees places whose last requests have been answered. True: it is to be
 * called again soon. */
bool cluster_models_look(void *models);
