/* live.c - compares looks at counts. */
#include "server/stats/live.h"

#include <stdlib.h>
#include <string.h>

bool live_window_turn(struct live_window *w, int64_t now_ns, bool *both) {
    *both = now_ns - w->base_ns > LIVE_ALONE_NS;
    if (now_ns - w->base_ns < LIVE_TURN_NS)
        return false;
    w->before_ns = *both ? now_ns : w->base_ns;
    w->base_ns = now_ns;
    return true;
}

static double quantile(const uint32_t *now, const uint32_t *base, uint32_t buckets, int64_t (*edge)(uint32_t bucket),
                       uint64_t rank) {
    uint64_t seen = 0;
    uint32_t i = 0;
    while (i + 1 < buckets && (seen += now[i] - (base ? base[i] : 0)) < rank)
        i++;
    return (double)edge(i);
}

void live_histogram_look(struct live_histogram *h, const uint32_t *now, uint32_t buckets,
                         int64_t (*edge)(uint32_t bucket), int64_t now_ns) {
    uint64_t count = 0;
    bool less = false; /* another model has the place: its counts begin at 0 */
    for (uint32_t i = 0; i < buckets && h->base; i++)
        less |= (int32_t)(now[i] - h->base[i]) < 0;
    const uint32_t *base = less ? NULL : h->base;
    for (uint32_t i = 0; i < buckets; i++)
        count += now[i] - (base ? base[i] : 0);
    h->p50 = count ? quantile(now, base, buckets, edge, (count + 1) / 2) : -1;
    h->p99 = count ? quantile(now, base, buckets, edge, count - count / 100) : -1;
    h->at_ns = now_ns;
    if (!h->base)
        h->base = malloc(buckets * sizeof(*h->base));
    if (h->base) /* else the next look is compared with the start, too */
        memcpy(h->base, now, buckets * sizeof(*h->base));
}
