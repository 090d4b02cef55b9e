/* server_load.h - the load since the last look: what the scheduling threads and the frontends have counted. */
#pragma once

#include "sched/plan/advisor.h"
#include "server/threads/model_list.h"
#include "server/threads/scheduling.h"

/* The counts at the last look. Owned by the thread that looks. */
struct server_load {
    const struct scheduling *scheduling;
    struct model_list *models;
    struct model_counted *counted;      /* [models.count] */
    uint64_t requests;                  /* requests that a cluster's scheduler link has received, in all */
    double needed_ns[RANK_THREADS_MAX]; /* accelerator time that the load has needed in all, by rank thread */
    int64_t looked_ns;                  /* time of the last look; 0: none yet */
};

/* 0 or -ENOMEM; free it in either case. */
int server_load_init(struct server_load *load, const struct scheduling *scheduling, struct model_list *models);
void server_load_free(struct server_load *load);
/* Sets `seen` to the counts since the last look. */
void server_load_since(struct server_load *load, int64_t now_ns, struct advisor_load *seen);
