/* executors.h - the executors of this process, the accelerators that they drive, and orders to them. */
#pragma once

#include <pthread.h>

#include "core/data/timeline.h"
#include "front/request/accelerators.h"
#include "server/threads/server_config.h"

/* Owned by the thread that starts and stops the server; constant in between, but for what is said. */
struct executors {
    struct wiring *wiring;
    const struct server_accelerators *types; /* [type_count] */
    uint32_t type_count;
    uint8_t *type_of;       /* [wiring.accelerators] indexes in `types` */
    struct executor **list; /* [wiring.executors] NULL: not in this process */
    struct timelines
        timelines;        /* of the accelerators of this process, or of those of the processes that it has started */
    pthread_mutex_t lock; /* held while an order is sent to an executor */
    bool drained;         /* whether executors_obey() has had the accelerator leave; its caller's */
    bool outage;          /* whether some accelerators were out of service at the last outages_look(); its caller's */
};

/* Divides the accelerators among executors and sub-clusters; the wiring has its rank threads. 0 or -ENOMEM; free them
 * in either case. */
int executors_init(struct executors *executors, struct wiring *wiring, const struct server_config *config);
/* Starts them; each loads the models. 0 or -errno with a sentence. */
int executors_start(struct executors *executors, const struct server_config *config, struct sy_error *err);
/* Where memory is limited, warns of models that serve, and whose requests can be in time only while they are there. */
void executors_cold_warn(const struct executors *executors, const struct server_config *config);
/* Finds the cores for threads other than executors: those that are left; all, if none is left. True: executors have
 * their cores to themselves. */
bool executors_cores_beside(const cpu_set_t *executor_cores, cpu_set_t *others);
/* Stops runs that hang, and takes accelerators out of service whose runs cannot be stopped; `ending` as in
 * executor_watch(). One thread at a time. */
void executors_watch(const struct executors *executors, bool ending);
/* 0, or -EINPROGRESS: a run that was given up has not ended. */
int executors_stop(struct executors *executors);
void executors_free(struct executors *executors);

/* Lets frontends read the state of accelerators, and pass orders to them. */
struct accelerator_source executors_source(struct executors *executors, const struct server_config *config);
/* The state of an accelerator of `serve --isolate`, in the frontend; GONE also while its process starts. */
enum accelerator_state isolated_state(const struct server_cluster *cluster, uint32_t accelerator);
/* In a process that `serve --isolate` has started: passes on the order to its accelerator (core/data/running.h), if it
 * has changed. One thread at a time. */
void executors_obey(struct executors *executors, const struct server_cluster *cluster);
/* wiring_model_command() under the lock, since orders to accelerators may come from any frontend. */
int executors_model_command(struct executors *executors, uint32_t executor, uint32_t model, uint32_t version,
                            bool resident);
