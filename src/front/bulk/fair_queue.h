/* fair_queue.h - whose slice of work is next: weighted fair queueing (Demers, Keshav and Shenker, "Analysis and
 * Simulation of a Fair Queueing Algorithm", 1989) of jobs that say afterwards what a slice has cost. Pure; the caller
 * has the lock.
 *
 * Clients share the work equally, however many jobs each has, and so do the jobs of a client. A client's virtual time
 * is what its jobs have cost; the queue's is what each of the clients that have jobs should have cost by now, and a
 * client that comes begins there. So whoever comes goes before all others that have had more than their part, and
 * nobody is passed over for ever. Jobs of a client are dealt with likewise.
 *
 * Clients are numbers below FAIR_CLIENTS, to which their addresses are hashed; those with the same number share one
 * part (stochastic fairness queueing, McKenney 1990). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/list.h"

#define FAIR_CLIENTS 256

struct fair_job {
    struct list_node link; /* in a list of its client's, while it waits */
    uint32_t client;
    bool begun;
    size_t bytes; /* of memory that it may take */
    int64_t time; /* virtual */
};

struct fair_client {
    struct list_node link;         /* in the queue's list, while it has jobs */
    struct list_node fresh, begun; /* that wait: those that never ran, in the order of arrival; others, by time */
    uint32_t jobs, begun_jobs;     /* that are here, waiting or not */
    int64_t time, jobs_time;       /* virtual: among the clients; of its jobs */
};

struct fair_queue {
    struct fair_client clients[FAIR_CLIENTS];
    struct list_node active;        /* clients with jobs, */
    uint32_t active_count;          /* and how many they are */
    uint32_t begun_jobs, begun_max; /* jobs that have begun, and how many may have */
    size_t begun_bytes, bytes_max;  /* of memory that these may take, and how much all may; one may take more */
    int64_t time;
};

void fair_queue_init(struct fair_queue *queue, uint32_t begun_max, size_t bytes_max);
/* A job comes, and waits. */
void fair_queue_add(struct fair_queue *queue, struct fair_job *job, uint32_t client, size_t bytes);
/* The job whose slice is next, which waits no more; NULL: there is none. `fresh`: one may begin. No client begins more
 * jobs than may still begin then, so that there is room for the others'. */
struct fair_job *fair_queue_next(struct fair_queue *queue, bool fresh);
/* A slice of a job that does not wait has cost so much. */
void fair_queue_charge(struct fair_queue *queue, struct fair_job *job, int64_t cost);
/* Whether a waiting job goes before this one, which does not wait. */
bool fair_queue_yields(const struct fair_queue *queue, const struct fair_job *job, bool fresh);
/* It waits for its next slice. */
void fair_queue_wait(struct fair_queue *queue, struct fair_job *job);
/* It is over. */
void fair_queue_end(struct fair_queue *queue, struct fair_job *job);
