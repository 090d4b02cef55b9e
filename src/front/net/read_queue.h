/* read_queue.h - which connection a frontend's thread reads next (pure).
 *
 * A thread that keeps up reads connections in the order in which they became readable, as epoll reports them, and puts
 * none into this queue. A thread that is behind would read everything too late in that order: each request would have
 * waited for all requests before it. So a thread that is behind first reads the connection that became readable last,
 * since its request can still be in time (adaptive LIFO). What has waited for long stays unread until there is time: it
 * costs nothing, and keeps its client from sending more. But one read in READ_QUEUE_OLDEST_EVERY is of the connection
 * that has waited longest, so that none waits for ever, not even behind clients that ask again as soon as they are
 * answered.
 *
 * There is time when the thread has slept for half of an interval. A moment in which nothing new waits is no such sign:
 * the threads that answer what was read before may want the core. */
#pragma once

#include "core/util/list.h"
#include "core/util/time.h"

/* A sixteenth of the reads is what the others lose at most; 2,000 connections that wait have all been read after 32,000
 * reads, about a second of a busy thread. */
#define READ_QUEUE_OLDEST_EVERY 16
/* Bytes that have waited for this part of the shortest SLO have waited for long; in the rest of the SLO a request can
 * still be answered in time. With a quarter, a server whose clients all ask again at once, and are answered in a third
 * of the SLO, would leave some of them unread for no reason. */
#define READ_QUEUE_LONG_PART 2
/* An interval, after which it is decided whether the thread is behind, as a part of a long wait. So whatever the
 * overload, bytes that are read before the thread is found to be behind have waited for three quarters of the SLO or
 * little more. */
#define READ_QUEUE_INTERVAL_PART 2

/* A connection's place in the queue, zero at first. */
struct read_place {
    struct list_node link;
    bool waits;       /* the connection is in the queue */
    uint32_t events;  /* events that epoll reported */
    int64_t since_ns; /* time at which epoll reported them */
};

struct read_queue {
    /* Connections that wait, both from the oldest to the newest: those that may be in time, and those that are left
     * until there is time. */
    struct list_node waiting, left;
    bool behind;     /* the thread is behind */
    bool has_time;   /* the thread, which is behind, has slept for half of an interval */
    uint32_t turn;   /* count of the reads of connections that waited */
    int64_t long_ns; /* shortest wait that counts as long */
    /* the interval for reads that is under way: its begin, its reads, and those of bytes that had waited for long */
    int64_t begun_ns;
    uint32_t reads, long_reads;
    /* the interval for sleep that is under way: its begin, and the time that the thread has slept in it */
    int64_t sleep_begun_ns, slept_ns;
};

void read_queue_init(struct read_queue *queue);
/* The shortest SLO of a model is now `slo_ns`; no wait shorter than `least_ns` is long. */
void read_queue_limit(struct read_queue *queue, int64_t slo_ns, int64_t least_ns);

/* Bytes were read now that had waited for so long. The thread is behind once more than half of what it reads in an
 * interval had waited for long, until nothing waits. A time in which the thread did not run is no interval: what came
 * meanwhile is read in order, and in time if there is not too much. */
void read_queue_note(struct read_queue *queue, int64_t waited_ns, int64_t now_ns);
/* The thread, which is behind, has slept for `slept_ns`, until now. */
void read_queue_slept(struct read_queue *queue, int64_t slept_ns, int64_t now_ns);

/* The connection has become readable, the last of all. */
void read_queue_add(struct read_queue *queue, struct read_place *place, uint32_t events, int64_t now_ns);
/* Takes the connection out of the queue: it is read now, or never again. */
void read_queue_remove(struct read_place *place);
/* The connection to be read next, which is removed; NULL: none is to be read now. If none waits at all, the thread is
 * no longer behind. `in_order`: takes the connection that has waited longest. */
struct read_place *read_queue_next(struct read_queue *queue, int64_t now_ns, bool in_order);

static inline bool read_queue_waits(const struct read_queue *queue) {
    return !list_empty(&queue->waiting) || !list_empty(&queue->left);
}
