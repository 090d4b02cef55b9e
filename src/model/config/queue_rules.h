/* queue_rules.h - how a model's requests wait: priorities, limits of time and number, from dynamic_batching of its
 * config.pbtxt. Any thread; no state. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/data/messages.h"
#include "core/util/error.h"
#include "model/config/pbtxt.h"

#define PREFERRED_MAX 16 /* values of preferred_batch_size; more are refused */

struct queue_rule {
    int64_t timeout_ns; /* 0: the model's SLO, or what the request asks for */
    bool may_shorten;   /* where there is a timeout: a request may ask for less, never for more */
    bool delay;         /* a late request is not refused: it is best effort from then on */
    uint32_t queue_max; /* requests of this priority that may wait; 0: as many as there is room for */
};

/* All zero: nothing is said. */
struct queue_rules {
    uint32_t priorities;                     /* levels; 0: all requests are alike */
    uint32_t priority_default;               /* one of these, from 1 on */
    struct queue_rule rules[PRIORITIES_MAX]; /* by priority; 0 is the highest */
    int64_t wait_ns;                         /* longest wait for other requests to join the batch; 0: not given */
    bool wait_none;                          /* no such wait: max_queue_delay_microseconds is 0 */
    uint32_t preferred[PREFERRED_MAX], preferred_count; /* batch sizes, ascending */
    bool preserve_ordering;
};

/* Reads dynamic_batching, whose fields have been checked for kind and range. -EINVAL with file, line and column. */
int queue_rules_read(const char *origin, const struct pbtxt_node *batching, struct queue_rules *rules,
                     struct sy_error *err);

/* The scheduler's priority of a request that asks for level `asked`; 0 or a level that does not exist: the default. */
uint8_t queue_rules_priority(const struct queue_rules *rules, uint64_t asked);
/* How long a request of this priority has, if it asks for `asked_ns` (0: for none), of a model with this SLO. */
int64_t queue_rules_timeout(const struct queue_rules *rules, uint8_t priority, int64_t asked_ns, int64_t slo_ns);
/* Whether the number of requests that may wait is limited for some priority. */
bool queue_rules_limited(const struct queue_rules *rules);
/* A bit for each priority whose late requests become best effort. */
uint32_t queue_rules_delays(const struct queue_rules *rules);
