/* model_list.h - the models of this process, and the list of those that clients may ask for, which is published and
 * replaced as a whole. */
#pragma once

#include <pthread.h>

#include "core/system/doorbell.h"
#include "model/repository/model_index.h"
#include "server/threads/frontends.h"

/* A model that clients may no longer ask for. */
struct model_gone {
    char name[MODEL_NAME_MAX];
    uint32_t version;
    uint64_t key; /* served_model_key(); 0: there is none */
};

struct model_list {
    struct served_model *models; /* [count] models by place */
    uint32_t count;
    const struct frontends *frontends; /* frontends that use the list */
    struct model_publication now;      /* the list, for frontends and metrics */
    struct model_gone *gone; /* [count] the last model that left a place, for what is told later of its requests; under
                              * the lock */
    struct doorbell bell;    /* rung by frontends that have come to use another list, or have ended */
    _Atomic uint64_t published; /* number of lists, since the start, that every frontend has come to use */
    pthread_mutex_t lock; /* held to read the list (metrics), to move models (server_balancer_look()), and to change
                           * them (repository thread) */
};

void model_list_init(struct model_list *list, const struct server_config *config, const struct frontends *frontends);
/* Publishes the models that are there from the start, but not the prefixes that some of them share. Before the
 * frontends start. 0 or -ENOMEM. */
int model_list_begin(struct model_list *list, const struct server_config *config);
void model_list_free(struct model_list *list);

/* The list as it is now, which stays unchanged until it is unlocked; no serving thread waits for the lock. Any
 * thread. */
static inline const struct model_index *model_list_lock(struct model_list *list) {
    pthread_mutex_lock(&list->lock);
    return atomic_load_explicit(&list->now.now, memory_order_relaxed); /* under the lock */
}
static inline void model_list_unlock(struct model_list *list) {
    pthread_mutex_unlock(&list->lock);
}
/* Publishes the places in `listed`, which are put into the order of names and versions, with models absent, which are
 * the list's in either case; `partial`: more may come that are not known yet. When this returns no frontend uses an
 * earlier list. 0 or -ENOMEM: everything stays as it was. One thread at a time. */
int model_list_publish(struct model_list *list, uint32_t *listed, uint32_t count, struct model_absent *absent,
                       uint32_t absent_count, bool partial);
