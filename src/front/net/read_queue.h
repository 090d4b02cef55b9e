/* read_queue.h - which connection a frontend's thread reads next (pure).
 *
 * A thread that keeps up reads connections in the order in which they became readable, as epoll tells of them, and puts
 * none here. One that is behind would read everything in that order, too late: each request would have waited for as
 * long as all that are before it take. So it reads first what became readable last, which it still can answer in time
 * (adaptive LIFO). What has waited for long stays unread until there is time: it costs nothing, and keeps its client
 * from sending more. But one read in READ_QUEUE_OLDEST_EVERY is of the connection that has waited longest, so that none
 * waits for ever, not even behind clients that ask again as soon as they are answered.
 *
 * There is time when the thread has slept for half of an interval. That nothing new waits at one moment does not mean
 * so: the threads that answer what was read before may want the core. */
#pragma once

#include "core/util/list.h"
#include "core/util/time.h"

/* A sixteenth of the reads is what the others lose at most; 2,000 connections that wait have all been read after 32,000
 * reads, about a second of a busy thread. */
#define READ_QUEUE_OLDEST_EVERY 16
/* Bytes that have waited for this part of the shortest SLO have waited for long: with what is left of it, a request
 * still is in time. With a quarter, a server whose clients all ask again at once, and are answered in a third of the
 * SLO, would leave some of them unread for no reason. */
#define READ_QUEUE_LONG_PART 2
/* An interval in which the thread is looked at, as a part of a long wait: so what was read before it was found to be
 * behind had waited for three quarters of the SLO or little more, however great the overload. */
#define READ_QUEUE_INTERVAL_PART 2

/* A connection's, zero at first. */
struct read_place {
    struct list_node link;
    bool waits;
    uint32_t events;  /* that epoll told of */
    int64_t since_ns; /* when */
};

struct read_queue {
    /* Connections that wait, both from the oldest to the newest: those that may be in time, and those that are left
     * until there is time. */
    struct list_node waiting, left;
    bool behind;
    bool has_time;   /* while behind */
    uint32_t turn;   /* counts the reads of those that waited */
    int64_t long_ns; /* a wait that is long */
    /* the interval under way: when it began, what was read in it, and what of that had waited for long */
    int64_t begun_ns;
    uint32_t reads, long_reads;
    /* the one for sleep, and how long the thread has slept in it */
    int64_t sleep_begun_ns, slept_ns;
};

void read_queue_init(struct read_queue *queue);
/* The shortest SLO of a model is now `slo_ns`; no wait shorter than `least_ns` is long. */
void read_queue_limit(struct read_queue *queue, int64_t slo_ns, int64_t least_ns);

/* Something was read now that had waited for so long. The thread is behind once more than half of what it reads in an
 * interval had waited for long, until nothing waits. A moment in which it did not run is no interval: what came
 * meanwhile is read in order, and in time if there is not too much. */
void read_queue_note(struct read_queue *queue, int64_t waited_ns, int64_t now_ns);
/* The thread, which is behind, has slept until now for so long. */
void read_queue_slept(struct read_queue *queue, int64_t slept_ns, int64_t now_ns);

/* The connection has become readable, the last of all. */
void read_queue_add(struct read_queue *queue, struct read_place *place, uint32_t events, int64_t now_ns);
/* The connection is read now, or no more. */
void read_queue_remove(struct read_place *place);
/* The connection to be read next, which is removed; NULL: none is to be read now. If none waits at all, the thread is
 * no longer behind. With `in_order` it is the oldest. */
struct read_place *read_queue_next(struct read_queue *queue, int64_t now_ns, bool in_order);

static inline bool read_queue_waits(const struct read_queue *queue) {
    return !list_empty(&queue->waiting) || !list_empty(&queue->left);
}
