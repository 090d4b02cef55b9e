/* server_rehearsal.c - the thread that rehearses. It has the lowest priority. It makes the emulated cluster from a
 * recording of the server (server/load/rehearsed.h). If models or accelerators change, it begins anew. */
#include "server/load/server_rehearsal.h"

#include <errno.h>
#include <stdlib.h>

#include "cluster/roles/scheduler_link.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/ticker.h"
#include "front/net/metric_text.h"
#include "server/load/rehearsed.h"

/* Most requests of a second that are rehearsed. With more, none are: rehearsing would take this thread too long. */
#define REQUESTS_MOST 200000
/* Requests that came so shortly before a look are left for the next one: others of that time may not be recorded yet.
 */
#define BEHIND_NS (50 * NS_PER_MS)

struct server_rehearsal {
    struct server_recordings *recordings;
    struct server_load load;
    struct rehearsed now;
    int64_t fed_ns; /* time up to which requests were told to the rehearsal */
    _Atomic uint32_t way;
    _Atomic uint64_t changes;
    _Atomic bool runs;
    struct ticker ticker;
};

static void way_set(struct server_rehearsal *r, uint32_t way) {
    const struct scheduling *s = r->recordings->scheduling;
    if (way == atomic_load_explicit(&r->way, memory_order_relaxed)) /* own word */
        return;
    log_info("another way of the policy is better now", "policy=%s way=%s", s->config->policy->name,
             s->config->policy->way_names[way]);
    atomic_store_explicit(&r->way, way, memory_order_relaxed); /* these for metrics */
    atomic_fetch_add_explicit(&r->changes, 1, memory_order_relaxed);
    for (uint32_t k = 0; k < s->wiring->rank_threads; k++)
        rank_thread_way_set(s->rank_threads[k], way);
}

static void end(struct server_rehearsal *r) {
    rehearsed_free(&r->now);
    atomic_store_explicit(&r->runs, false, memory_order_relaxed); /* for metrics */
    way_set(r, 0);
}

/* Looks with the recording from from_ns on. 0; otherwise the rehearsal has ended: -EFBIG: there were too many requests;
 * -ENOENT: there is nothing to emulate, or no need to go on; -ENOMEM. */
static int look_with(struct server_rehearsal *r, struct recording *of, int64_t from_ns, int64_t now_ns,
                     const struct autoscale_seen *seen) {
    if (of->start_ns > from_ns) /* the oldest requests were overwritten */
        return -EFBIG;
    if (!rehearsed_is(&r->now, of)) {
        int rc = rehearsed_make(&r->now, r->recordings->scheduling->wiring->rank_threads, of);
        if (rc)
            return rc;
    } else {
        rehearsed_tell(&r->now, of, r->fed_ns, now_ns - BEHIND_NS);
    }
    r->fed_ns = now_ns - BEHIND_NS;
    uint32_t way = rehearsal_look(r->now.rehearsal, r->fed_ns, seen->requests, seen->bad);
    if (!rehearsal_runs(r->now.rehearsal))
        return -ENOENT;
    way_set(r, way);
    return 0;
}

static void look(struct server_rehearsal *r) {
    const struct scheduler_link *link = r->recordings->scheduling->link;
    int64_t now_ns = clock_now_ns(), started_ns = r->recordings->started_ns;
    struct advisor_load load;
    struct recording of;
    server_load_since(&r->load, now_ns, &load);
    bool leads = !link || scheduler_link_leads(link);
    if (!leads || (!r->now.rehearsal && !rehearsal_begins(load.all.requests, load.all.bad))) {
        end(r);
        return;
    }
    int64_t from_ns = r->now.rehearsal ? r->fed_ns : now_ns - REHEARSAL_EVERY_NS;
    from_ns = from_ns > started_ns ? from_ns : started_ns;
    int rc = server_recording_read(r->recordings, from_ns, REQUESTS_MOST, &of);
    rc = rc ? rc : look_with(r, &of, from_ns, now_ns, &load.all);
    recording_free(&of);
    if (rc)
        end(r);
    else
        atomic_store_explicit(&r->runs, true, memory_order_relaxed); /* for metrics */
}

static void tick(void *rehearsal, bool last) {
    if (!last)
        look(rehearsal);
}

static void rehearsal_free(struct server_rehearsal *r) {
    rehearsed_free(&r->now);
    server_load_free(&r->load);
    free(r);
}

int server_rehearsal_start(struct server_rehearsal **rehearsal, struct server_recordings *recordings,
                           struct sy_error *err) {
    const struct scheduling *s = recordings->scheduling;
    if (s->central_thread || !recordings->history || policy_ways(s->config->policy, &s->config->policy_options) < 2)
        return 0;
    struct server_rehearsal *r = calloc(1, sizeof(*r));
    if (!r || server_load_init(&r->load, s, recordings->models) < 0) {
        free(r);
        return error_set(err, -ENOMEM, "no memory for rehearsals");
    }
    r->recordings = recordings;
    *rehearsal = r;
    int rc = ticker_start(&r->ticker, "rehearsal", REHEARSAL_EVERY_NS, tick, r, err);
    if (rc == 0)
        return 0;
    *rehearsal = NULL;
    rehearsal_free(r);
    return rc;
}

void server_rehearsal_stop(struct server_rehearsal *r) {
    if (!r)
        return;
    ticker_stop(&r->ticker);
    rehearsal_free(r);
}

void server_rehearsal_render(const struct server_rehearsal *r, struct text *out) {
    if (!r)
        return;
    const struct server_config *c = r->recordings->scheduling->config;
    uint32_t way = atomic_load_explicit(&r->way, memory_order_relaxed); /* these for metrics */
    uint64_t changes = atomic_load_explicit(&r->changes, memory_order_relaxed);
    bool runs = atomic_load_explicit(&r->runs, memory_order_relaxed);
    metric_heading(out, "symphony_policy_way", "gauge", "1 for the way by which the policy decides now.");
    for (uint32_t w = 0; w < policy_ways(c->policy, &c->policy_options); w++)
        text_printf(out, "symphony_policy_way{way=\"%s\"} %d\n", c->policy->way_names[w], w == way);
    metric_number(out, "symphony_policy_way_changes_total", "counter", "How often it has changed.", (double)changes);
    metric_number(out, "symphony_rehearsal_running", "gauge",
                  "1 while the ways are rehearsed: requests were lost lately.", runs);
}
