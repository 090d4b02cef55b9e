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
    int64_t timeout_ns; /* time that a request has; 0: what it asks for, else the model's SLO */
    bool may_shorten;   /* whether a request may ask for less time than timeout_ns (never for more) */
    bool delay;         /* whether a late request becomes best effort, and is not refused */
    uint32_t queue_max; /* requests of this priority that may wait; 0: as many as there is room for */
};

static inline bool queue_rule_equals(const struct queue_rule *a, const struct queue_rule *b) {
    return a->timeout_ns == b->timeout_ns && a->may_shorten == b->may_shorten && a->delay == b->delay &&
           a->queue_max == b->queue_max;
}

/* All zeros: config.pbtxt has no dynamic_batching. */
struct queue_rules {
    uint32_t priorities;                     /* number of levels; 0: all requests are alike */
    uint32_t priority_default;               /* level of requests that ask for none, from 1 on */
    struct queue_rule rules[PRIORITIES_MAX]; /* rules by priority; 0 is the highest */
    int64_t wait_ns;                         /* longest wait for other requests to join the batch; 0: not given */
    bool wait_none; /* whether requests never wait for others: max_queue_delay_microseconds is 0 */
    uint32_t preferred[PREFERRED_MAX], preferred_count; /* preferred batch sizes, ascending */
    bool preserve_ordering;
};

/* Reads dynamic_batching, whose fields have been checked for kind and range, of a model with this max_batch_size; 0: it
 * is not given. -EINVAL with file, line and column. */
int queue_rules_read(const char *origin, const struct pbtxt_node *batching, int64_t batch_max,
                     struct queue_rules *rules, struct sy_error *err);

/* The scheduler's priority of a request that asks for level `asked`; if that is 0 or does not exist, of the default
 * level. */
uint8_t queue_rules_priority(const struct queue_rules *rules, uint64_t asked);
/* The time that a request of this priority has. `asked_ns`: the time that it asks for, 0: none; `slo_ns`: the model's
 * SLO. */
int64_t queue_rules_timeout(const struct queue_rules *rules, uint8_t priority, int64_t asked_ns, int64_t slo_ns);
/* Whether the number of requests that may wait is limited for some priority. */
bool queue_rules_limited(const struct queue_rules *rules);
/* A bit for each priority whose late requests become best effort. */
uint32_t queue_rules_delays(const struct queue_rules *rules);
