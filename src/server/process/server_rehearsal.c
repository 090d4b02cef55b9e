/* server_rehearsal.c - a thread that rehearses the policy's ways on the requests that the server records, as long as
 * the server loses requests, and tells the rank threads which way is best (lab/sim/rehearsal.h).
 *
 * The thread has the lowest priority. It makes the emulated cluster from a recording of the server
 * (server/process/rehearsed.h). If models or accelerators change, it begins anew. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/thread.h"
#include "front/net/metric_text.h"
#include "server/process/rehearsed.h"
#include "server/process/server_state.h"

/* Most requests of a second that are rehearsed. With more, none are: rehearsing would take this thread too long. */
#define REQUESTS_MOST 200000
/* Requests that came so shortly before a look are left for the next one: others of that time may not be recorded yet.
 */
#define BEHIND_NS (50 * NS_PER_MS)

struct server_rehearsal {
    struct server_load load;
    struct rehearsed now;
    int64_t fed_ns; /* time up to which requests were told to the rehearsal */
    _Atomic uint32_t way;
    _Atomic uint64_t changes;
    _Atomic bool runs;
    pthread_mutex_t lock; /* lock of `stop` */
    bool stop;
    pthread_cond_t stopped;
    pthread_t thread;
};

static void way_set(struct server *s, uint32_t way) {
    struct server_rehearsal *r = s->rehearsal;
    if (way == atomic_load_explicit(&r->way, memory_order_relaxed)) /* own word */
        return;
    log_info("another way of the policy is better now", "policy=%s way=%s", s->config.policy->name,
             s->config.policy->way_names[way]);
    atomic_store_explicit(&r->way, way, memory_order_relaxed); /* these for metrics */
    atomic_fetch_add_explicit(&r->changes, 1, memory_order_relaxed);
    for (uint32_t k = 0; k < s->wiring.rank_threads; k++)
        rank_thread_way_set(s->scheduling.rank_threads[k], way);
}

static void end(struct server *s) {
    rehearsed_free(&s->rehearsal->now);
    atomic_store_explicit(&s->rehearsal->runs, false, memory_order_relaxed); /* for metrics */
    way_set(s, 0);
}

/* Looks with the recording from from_ns on. 0; otherwise the rehearsal has ended: -EFBIG: there were too many requests;
 * -ENOENT: there is nothing to emulate, or no need to go on; -ENOMEM. */
static int look_with(struct server *s, struct recording *of, int64_t from_ns, int64_t now_ns,
                     const struct autoscale_seen *seen) {
    struct server_rehearsal *r = s->rehearsal;
    if (of->start_ns > from_ns) /* the oldest requests were overwritten */
        return -EFBIG;
    if (!rehearsed_is(&r->now, of)) {
        int rc = rehearsed_make(&r->now, s->wiring.rank_threads, of);
        if (rc)
            return rc;
    } else {
        rehearsed_tell(&r->now, of, r->fed_ns, now_ns - BEHIND_NS);
    }
    r->fed_ns = now_ns - BEHIND_NS;
    uint32_t way = rehearsal_look(r->now.rehearsal, r->fed_ns, seen->requests, seen->bad);
    if (!rehearsal_runs(r->now.rehearsal))
        return -ENOENT;
    way_set(s, way);
    return 0;
}

static void look(struct server *s) {
    struct server_rehearsal *r = s->rehearsal;
    int64_t now_ns = clock_now_ns();
    struct advisor_load load;
    struct recording of;
    server_load_since(s, &r->load, now_ns, &load);
    bool leads = !s->scheduling.link || scheduler_link_leads(s->scheduling.link);
    if (!leads || (!r->now.rehearsal && !rehearsal_begins(load.all.requests, load.all.bad))) {
        end(s);
        return;
    }
    int64_t from_ns = r->now.rehearsal ? r->fed_ns : now_ns - REHEARSAL_EVERY_NS;
    from_ns = from_ns > s->started_ns ? from_ns : s->started_ns;
    int rc = server_recording_read(s, from_ns, REQUESTS_MOST, &of);
    rc = rc ? rc : look_with(s, &of, from_ns, now_ns, &load.all);
    recording_free(&of);
    if (rc)
        end(s);
    else
        atomic_store_explicit(&r->runs, true, memory_order_relaxed); /* for metrics */
}

/* Waits for a while; false: the thread is to end. */
static bool wait_until(struct server_rehearsal *r, int64_t until_ns) {
    const struct timespec until = clock_sleep_end(until_ns);
    pthread_mutex_lock(&r->lock);
    int rc = 0;
    while (!r->stop && rc == 0)
        rc = pthread_cond_timedwait(&r->stopped, &r->lock, &until);
    bool stop = r->stop;
    pthread_mutex_unlock(&r->lock);
    return !stop;
}

static void *rehearsal_main(void *server) {
    struct server *s = server;
    thread_begin("rehearsal", 0, THREAD_BACKGROUND);
    int64_t next_ns = clock_now_ns() + REHEARSAL_EVERY_NS;
    while (wait_until(s->rehearsal, next_ns)) {
        next_ns = time_due_again(next_ns, REHEARSAL_EVERY_NS, clock_now_ns());
        look(s);
    }
    return NULL;
}

static void rehearsal_free(struct server_rehearsal *r) {
    rehearsed_free(&r->now);
    server_load_free(&r->load);
    pthread_cond_destroy(&r->stopped);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

int server_rehearsal_start(struct server *s, struct sy_error *err) {
    if (s->scheduling.central_thread || !server_schedules(&s->config) || s->config.record_bytes == 0 ||
        policy_ways(s->config.policy, &s->config.policy_options) < 2)
        return 0;
    struct server_rehearsal *r = calloc(1, sizeof(*r));
    if (!r || server_load_init(s, &r->load) < 0) {
        free(r);
        return error_set(err, -ENOMEM, "no memory for rehearsals");
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->stopped, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&r->lock, NULL);
    s->rehearsal = r;
    int rc = -pthread_create(&r->thread, NULL, rehearsal_main, s);
    if (rc == 0)
        return 0;
    s->rehearsal = NULL;
    rehearsal_free(r);
    return error_set(err, rc, "cannot start the thread that rehearses: %s", strerror(-rc));
}

void server_rehearsal_stop(struct server *s) {
    struct server_rehearsal *r = s->rehearsal;
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->stopped);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    rehearsal_free(r);
    s->rehearsal = NULL;
}

void server_rehearsal_render(const struct server *s, struct text *out) {
    const struct server_rehearsal *r = s->rehearsal;
    if (!r)
        return;
    uint32_t way = atomic_load_explicit(&r->way, memory_order_relaxed); /* these for metrics */
    uint64_t changes = atomic_load_explicit(&r->changes, memory_order_relaxed);
    bool runs = atomic_load_explicit(&r->runs, memory_order_relaxed);
    metric_heading(out, "symphony_policy_way", "gauge", "1 for the way by which the policy decides now.");
    for (uint32_t w = 0; w < policy_ways(s->config.policy, &s->config.policy_options); w++)
        text_printf(out, "symphony_policy_way{way=\"%s\"} %d\n", s->config.policy->way_names[w], w == way);
    metric_heading(out, "symphony_policy_way_changes_total", "counter", "How often it has changed.");
    text_printf(out, "symphony_policy_way_changes_total %llu\n", (unsigned long long)changes);
    metric_heading(out, "symphony_rehearsal_running", "gauge",
                   "1 while the ways are rehearsed: requests were lost lately.");
    text_printf(out, "symphony_rehearsal_running %d\n", runs);
}
