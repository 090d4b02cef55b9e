/* fair_queue.h - whose slice of work is next: weighted fair queueing (Demers, Keshav and Shenker, "Analysis and
 * Simulation of a Fair Queueing Algorithm", 1989) of jobs whose slices' costs are known afterwards. Pure; the caller
 * has the lock.
 *
 * Clients share the work equally, however many jobs each has; the jobs of one client share its part equally. A client's
 * virtual time is the cost of its jobs so far. The queue's virtual time is the cost that each client with jobs should
 * have had by now; a new client begins with that time. So a new client goes before all clients that have had more than
 * their part, and no client waits for ever. The jobs of a client are treated in the same way.
 *
 * Clients are numbers below FAIR_CLIENTS, hashes of their addresses. Clients with the same number share one part
 * (stochastic fairness queueing, McKenney 1990). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/list.h"

#define FAIR_CLIENTS 256

struct fair_job {
    struct list_node link; /* place in a list of the client, while the job waits */
    uint32_t client;
    bool begun;   /* the job has had a slice */
    size_t bytes; /* memory that the job may take */
    int64_t time; /* virtual time of the job */
};

struct fair_client {
    struct list_node link;         /* place in the queue's list, while the client has jobs */
    struct list_node fresh, begun; /* waiting jobs that never ran, by arrival; waiting jobs that ran, by virtual time */
    uint32_t jobs, begun_jobs;     /* all jobs, waiting or not; jobs that have begun */
    int64_t time, jobs_time;       /* virtual time of the client; virtual time with which new jobs begin */
};

struct fair_queue {
    struct fair_client clients[FAIR_CLIENTS];
    struct list_node active;        /* clients with jobs */
    uint32_t active_count;          /* number of clients with jobs */
    uint32_t begun_jobs, begun_max; /* jobs that have begun; most jobs that may have begun */
    size_t begun_bytes,
        bytes_max; /* memory that begun jobs may take; bound of that memory, which a single job may exceed */
    int64_t time;  /* virtual time of the queue */
};

void fair_queue_init(struct fair_queue *queue, uint32_t begun_max, size_t bytes_max);
/* A job comes, and waits. */
void fair_queue_add(struct fair_queue *queue, struct fair_job *job, uint32_t client, size_t bytes);
/* Takes the job whose slice is next; NULL: there is none. `fresh`: a job that has not begun may be taken. A client's
 * job does not begin if the client has as many begun jobs as may still begin, so that there is room for other clients'
 * jobs. */
struct fair_job *fair_queue_next(struct fair_queue *queue, bool fresh);
/* A slice of a job that does not wait has cost so much. */
void fair_queue_charge(struct fair_queue *queue, struct fair_job *job, int64_t cost);
/* Whether a waiting job goes before `job`, which does not wait. */
bool fair_queue_yields(const struct fair_queue *queue, const struct fair_job *job, bool fresh);
/* The job waits for its next slice. */
void fair_queue_wait(struct fair_queue *queue, struct fair_job *job);
/* The job is over. */
void fair_queue_end(struct fair_queue *queue, struct fair_job *job);
