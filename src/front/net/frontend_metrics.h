/* frontend_metrics.h - what frontends count beside infer requests, as Prometheus' text: answers by status, connections,
 * how long bytes wait, the reply margin. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "core/util/histogram.h"
#include "core/util/text.h"
#include "front/request/infer_counters.h"

struct margin;

/* The names of a protocol's own metrics; constant. */
struct protocol_metrics {
    const char *name;                          /* name in metrics and of the protocol's threads: "http" */
    const char *title;                         /* name in the metrics' help: "HTTP" */
    const char *answers, *answers_help;        /* metric of the answers by status, and its help */
    const char *answer_label;                  /* label of the status */
    unsigned answer_kinds;                     /* statuses that are told apart */
    const char *(*answer_name)(unsigned kind); /* value of the status's label; NULL: the number */
    const char *dismissed_help;                /* help of the metric of dismissed connections */
};

/* What a frontend counts of its connections. Its thread writes it, any thread reads it. */
struct connection_counters {
    struct histogram waited_ns; /* waits of bytes, from their arrival until they were read */
    _Atomic uint64_t dismissed; /* connections ended for being slow or idle, or for flooding */
};

/* The counters of one frontend. Its thread writes them, any thread reads them. */
struct frontend_counters {
    const struct protocol_metrics *protocol;
    uint32_t index; /* number among the frontends of its protocol */
    const struct infer_counters *requests;
    const struct connection_counters *counters;
    const struct margin *reply;          /* reply margin; NULL: the frontend has no port */
    const _Atomic uint64_t *answers;     /* [protocol->answer_kinds] answers by status */
    const _Atomic uint32_t *connections; /* open connections */
};

/* `frontends`: all frontends of the process, those of one protocol next to each other. */

/* The rows of the frontends' reply margins in symphony_margin_seconds. */
void frontend_metrics_render_margins(const struct frontend_counters *frontends, uint32_t count, struct text *out);
/* How long bytes wait, for each frontend. */
void frontend_metrics_render_waits(const struct frontend_counters *frontends, uint32_t count, struct text *out);
/* Answers and connections, summed over the frontends of each protocol. */
void frontend_metrics_render_protocols(const struct frontend_counters *frontends, uint32_t count, struct text *out);
