/* statistics.h - counts of a model's requests since the server started, over all frontends. */
#pragma once

#include <stdint.h>

/* Batches of one size. */
struct batch_statistics {
    uint64_t batches;
    uint64_t gather_ns, run_ns; /* sums of the batches' times for gathering inputs, and for runs */
};

struct model_statistics {
    uint64_t answered, refused, failed, cancelled; /* requests by their end; clients' mistakes do not count */
    uint64_t items;                                /* items of answered requests */
    uint64_t batches;                              /* batches that ran; of an ensemble, answered requests */
    uint32_t waiting;                              /* requests in the scheduler's queues now */
    /* sums over requests */
    uint64_t answered_ns;      /* answered requests: from the first byte read to the answer */
    uint64_t unanswered_ns;    /* refused and failed requests: from the first byte read to the answer */
    uint64_t queue_ns;         /* answered requests: from the first byte to the start of the run, gathering included */
    uint64_t run_ns, reply_ns; /* answered requests: the run, and from its end to the answer */
    uint64_t cpu_bytes;        /* bytes of the machine's memory, as profiled; 0: not known */
    int64_t last_ms;           /* time of the last answer, in milliseconds since 1970; 0: none */
};

/* Functions to read the statistics. Any thread. */
struct statistics_source {
    /* Reads a model's statistics; NULL: there are none. */
    void (*read)(const void *context, uint32_t model, struct model_statistics *statistics);
    /* Reads the statistics of batches of 1, 2, ... items, up to the model's greatest batch. */
    void (*read_batches)(const void *context, uint32_t model, struct batch_statistics *by_size);
    const void *context;
};
