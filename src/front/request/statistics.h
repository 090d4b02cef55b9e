/* statistics.h - what became of a model's requests since the server started, whichever frontend took them. */
#pragma once

#include <stdint.h>

/* Batches of one size. */
struct batch_statistics {
    uint64_t batches;
    uint64_t gather_ns, run_ns; /* the time to gather their inputs, and to run them */
};

struct model_statistics {
    uint64_t answered, refused, failed, cancelled; /* requests; the client's mistakes are none of these */
    uint64_t items;                                /* in those answered */
    uint64_t batches;                              /* run */
    uint32_t waiting;                              /* requests in the scheduler's queues now */
    /* sums over requests */
    uint64_t answered_ns;      /* from the first byte read to the answer */
    uint64_t unanswered_ns;    /* the same, of those refused and failed */
    uint64_t queue_ns;         /* of those answered: to the start of the run, gathering of inputs included */
    uint64_t run_ns, reply_ns; /* of those answered: the run, and from its end to the answer */
    uint64_t cpu_bytes;        /* of the machine's memory, as profiled; 0: not known */
    int64_t last_ms;           /* when the last was answered, since 1970; 0: none was */
};

/* Who reads the statistics. Any thread. */
struct statistics_source {
    void (*read)(const void *context, uint32_t model, struct model_statistics *statistics); /* NULL: nobody */
    /* Batches of 1, 2, ... items, up to the model's greatest batch. */
    void (*read_batches)(const void *context, uint32_t model, struct batch_statistics *by_size);
    const void *context;
};
