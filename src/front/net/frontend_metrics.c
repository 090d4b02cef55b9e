/* frontend_metrics.c - writes frontends' counters, one by one or summed over a protocol's frontends. */
#include "front/net/frontend_metrics.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/util/container.h"
#include "core/util/counter.h"
#include "core/util/time.h"
#include "front/net/metric_text.h"

void frontend_metrics_render_margins(const struct frontend_counters *frontends, uint32_t count, struct text *out) {
    for (uint32_t f = 0; f < count; f++)
        if (frontends[f].reply)
            metric_margin(out, "reply", "frontend", f, frontends[f].reply);
}

void frontend_metrics_render_waits(const struct frontend_counters *frontends, uint32_t count, struct text *out) {
    static const char name[] = "symphony_frontend_wait_seconds";
    static const int64_t edges_us[] = {20,   50,   100,   200,   300,   500,    1000,   1500,  2000,
                                       3000, 5000, 10000, 20000, 50000, 100000, 200000, 500000};
    char labels[64];

    metric_heading(
        out, name, "histogram",
        "How long bytes wait for the frontend's thread: from their arrival in the kernel until they are read.");
    for (uint32_t f = 0; f < count; f++) {
        snprintf(labels, sizeof(labels), "protocol=\"%s\",frontend=\"%u\"", frontends[f].protocol->name,
                 frontends[f].index);
        metric_histogram(out, name, labels, &frontends[f].counters->waited_ns, edges_us, ARRAY_COUNT(edges_us),
                         NS_PER_US, 1e9);
    }
}

/* `frontends`: those of one protocol. */
static void render_protocol(const struct frontend_counters *frontends, uint32_t count, struct text *out) {
    const struct protocol_metrics *p = frontends->protocol;
    uint64_t connections = 0, dismissed = 0;
    char name[64], help[64];

    metric_heading(out, p->answers, "counter", p->answers_help);
    for (unsigned kind = 0; kind < p->answer_kinds; kind++) {
        uint64_t sum = 0;
        for (uint32_t f = 0; f < count; f++)
            sum += counter_get(&frontends[f].answers[kind]);
        if (sum == 0)
            continue;
        if (p->answer_name)
            text_printf(out, "%s{%s=\"%s\"} %" PRIu64 "\n", p->answers, p->answer_label, p->answer_name(kind), sum);
        else
            text_printf(out, "%s{%s=\"%u\"} %" PRIu64 "\n", p->answers, p->answer_label, kind, sum);
    }
    for (uint32_t f = 0; f < count; f++) {
        connections += atomic_load_explicit(frontends[f].connections, memory_order_relaxed); /* a gauge */
        dismissed += counter_get(&frontends[f].counters->dismissed);
    }
    snprintf(name, sizeof(name), "symphony_%s_connections", p->name);
    snprintf(help, sizeof(help), "Open %s connections.", p->title);
    metric_number(out, name, "gauge", help, (double)connections);
    snprintf(name, sizeof(name), "symphony_%s_dismissed_total", p->name);
    metric_number(out, name, "counter", p->dismissed_help, (double)dismissed);
}

void frontend_metrics_render_protocols(const struct frontend_counters *frontends, uint32_t count, struct text *out) {
    for (uint32_t first = 0, n; first < count; first += n) {
        for (n = 1; first + n < count && frontends[first + n].protocol == frontends[first].protocol; n++) {
        }
        render_protocol(frontends + first, n, out);
    }
}
