/* frontend_metrics.h - what frontends count beside infer requests, as Prometheus' text: answers by status, connections,
 * how long bytes wait, the reply margin. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "core/util/text.h"
#include "front/request/infer_counters.h"

struct histogram;
struct margin;

/* The names of a protocol's own metrics; constant. */
struct protocol_metrics {
    const char *name;                          /* "http": in the metrics' names, and of the protocol's threads */
    const char *title;                         /* "HTTP": in their help */
    const char *answers, *answers_help;        /* the metric of answers by status, its help */
    const char *answer_label;                  /* what the label of a status is called */
    unsigned answer_kinds;                     /* statuses that are told apart */
    const char *(*answer_name)(unsigned kind); /* NULL: a status is shown as its number */
    const char *dismissed_help;
};

/* Where a frontend counts. Written by its thread, read by any. */
struct frontend_counters {
    const struct protocol_metrics *protocol;
    uint32_t index; /* among the frontends of its protocol */
    const struct infer_counters *requests;
    const struct margin *reply;        /* NULL: it has no port */
    const struct histogram *waited_ns; /* bytes, from their arrival until they were read */
    const _Atomic uint64_t *answers;   /* [protocol->answer_kinds] */
    const _Atomic uint64_t *dismissed; /* connections */
    const _Atomic uint32_t *connections;
};

/* All of these are given the frontends of the process, those of one protocol next to each other. */

/* Their rows of symphony_margin_seconds. */
void frontend_metrics_render_margins(const struct frontend_counters *frontends, uint32_t count, struct text *out);
/* How long bytes wait for each of them. */
void frontend_metrics_render_waits(const struct frontend_counters *frontends, uint32_t count, struct text *out);
/* Answers and connections, summed over the frontends of each protocol. */
void frontend_metrics_render_protocols(const struct frontend_counters *frontends, uint32_t count, struct text *out);
