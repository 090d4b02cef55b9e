/* server_advice.h - how many accelerators there should be, for metrics and for KEDA (front/grpc/external_scaler.h). */
#pragma once

#include "core/data/advice.h"
#include "server/load/server_load.h"

/* Owned by the thread that looks, but for the advice, which any thread reads. */
struct server_advice {
    const struct autoscale_config *config; /* NULL: no advice is given here */
    struct advisor advisor;
    struct server_load load;                   /* counts up to the last look */
    bool leads;                                /* whether this process leads, and has led since the advisor was reset */
    struct advice wanted;                      /* the advice; in a frontend of a cluster: the scheduler's */
    struct advice wanted_of[RANK_THREADS_MAX]; /* advice for each sub-cluster, if there are several */
    _Atomic double bad_rate;                   /* share of bad requests at the last look */
};

/* For a process that schedules. 0 or -ENOMEM; free it in either case. */
int server_advice_init(struct server_advice *advice, const struct autoscale_config *config,
                       const struct scheduling *scheduling, struct model_list *models);
void server_advice_free(struct server_advice *advice);
/* Computes the advice, every `every_ns` of the configuration. There is none before the first time, nor while another
 * scheduler leads. */
void server_advice_look(struct server_advice *advice);
