/* clock_sync.c - computes bounds of a peer's clock from exchanges. */
#include "core/data/clock_sync.h"

#include <errno.h>

/* The greatest drift of two clocks: quartzes stay within 100 ppm of the truth, and daemons that keep the time correct a
 * clock by up to 500 ppm. A daemon that is in a hurry may correct faster (chrony, 8 %): then every exchange is a new
 * start, and the stated error is too small by 2 ms at most, which is 8 % of the first gap between exchanges. */
#define DRIFT_MAX 1e-3
/* The most by which the drift changes in a nanosecond: 0.01 ppm a second. A degree changes a quartz by less than 0.1
 * ppm near room temperature, and a host takes minutes to become some degrees warmer or colder. */
#define WANDER 1e-17

#define TOOK_MAX_NS (3600 * NS_PER_S) /* longest wait for an answer; a later one says nothing */

#define GAP_MIN_NS (25 * NS_PER_MS)
#define GAP_MAX_NS NS_PER_S
/* The part of the time since the first exchange that a gap between exchanges takes, up to GAP_MAX_NS: a fourth. In such
 * a gap the error grows by about a fourth of a round trip, since the drift is known to one round trip in the whole
 * time. */
#define GAP_OF_KNOWN   4
#define CLOCK_GRAIN_NS 1 /* most that reading a clock, or a sum of fractions, rounds off */

void clock_sync_init(struct clock_sync *sync, int64_t now_ns) {
    *sync = (struct clock_sync){.round_trip_ns = TIME_NEVER, .next_ns = now_ns};
}

/* ---- what is known ---- */

static double at_most(double value, double most) {
    return value < most ? value : most;
}

static double at_least(double value, double least) {
    return value > least ? value : least;
}

/* The most by which the drift now differs from its mean over the last `span_ns`. */
static double wander_of(int64_t span_ns) {
    return at_most(WANDER / 2 * (double)span_ns, 2 * DRIFT_MAX);
}

/* Moves the known bounds to the time of a new exchange, and intersects them with the exchange's bounds. False: the two
 * contradict each other. */
static bool bounds_cut(struct clock_sync *sync, const struct clock_bounds *seen) {
    struct clock_bounds *known = &sync->bounds;
    int64_t span_ns = seen->at_ns - known->at_ns;
    if (span_ns < 0)
        return false;

    double was_min = sync->drift_min, was_max = sync->drift_max, changed = 2 * wander_of(span_ns);
    sync->drift_min = at_least(was_min - changed, -DRIFT_MAX);
    sync->drift_max = at_most(was_max + changed, DRIFT_MAX);
    for (uint32_t i = 0; i < sync->past_count; i++) {
        const struct clock_bounds *then = &sync->past[i];
        int64_t since_ns = seen->at_ns - then->at_ns;
        if (since_ns > 0) {
            double least = (double)(seen->offset_min_ns - then->offset_max_ns) / (double)since_ns;
            double most = (double)(seen->offset_max_ns - then->offset_min_ns) / (double)since_ns;
            sync->drift_min = at_least(sync->drift_min, least - wander_of(since_ns));
            sync->drift_max = at_most(sync->drift_max, most + wander_of(since_ns));
        }
        if (sync->drift_min > sync->drift_max)
            return false;
    }
    /* Of the bounds of the drift as known before and as known now, the tighter ones count. Those known before alone
     * would give the error that was stated until now. */
    double slowest = at_least(was_min, sync->drift_min) - wander_of(span_ns);
    double fastest = at_most(was_max, sync->drift_max) + wander_of(span_ns);
    known->offset_min_ns += (int64_t)(slowest * (double)span_ns) - CLOCK_GRAIN_NS;
    known->offset_max_ns += (int64_t)(fastest * (double)span_ns) + CLOCK_GRAIN_NS;
    known->at_ns = seen->at_ns;
    if (known->offset_min_ns < seen->offset_min_ns)
        known->offset_min_ns = seen->offset_min_ns;
    if (known->offset_max_ns > seen->offset_max_ns)
        known->offset_max_ns = seen->offset_max_ns;
    return known->offset_min_ns <= known->offset_max_ns;
}

static void begin_with(struct clock_sync *sync, const struct clock_bounds *seen) {
    sync->bounds = *seen;
    sync->drift_min = -DRIFT_MAX;
    sync->drift_max = DRIFT_MAX;
    sync->past_count = sync->past_next = 0;
    sync->begun_ns = seen->at_ns;
}

int64_t clock_sync_error_ns(const struct clock_sync *sync, int64_t now_ns) {
    if (!clock_sync_known(sync) || now_ns < CLOCK_SYNC_TIME_MIN || now_ns > CLOCK_SYNC_TIME_MAX)
        return TIME_NEVER;
    const struct clock_bounds *known = &sync->bounds;
    int64_t span_ns = now_ns < known->at_ns ? known->at_ns - now_ns : now_ns - known->at_ns;
    double drift_error = (sync->drift_max - sync->drift_min) / 2 + wander_of(span_ns);
    int64_t error_ns = (known->offset_max_ns - known->offset_min_ns + 1) / 2 + (int64_t)(drift_error * (double)span_ns);
    return error_ns + error_ns / 512 + 2 * CLOCK_GRAIN_NS; /* the peer's nanosecond is not quite one of ours */
}

/* ---- exchanges ---- */

int64_t clock_sync_next_ns(const struct clock_sync *sync) {
    return sync->asked ? TIME_NEVER : sync->next_ns;
}

void clock_sync_asked(struct clock_sync *sync, int64_t now_ns) {
    sync->asked = true;
    sync->asked_ns = now_ns;
}

static void next_plan(struct clock_sync *sync, int64_t now_ns) {
    int64_t gap_ns = clock_sync_known(sync) ? (now_ns - sync->begun_ns) / GAP_OF_KNOWN : 0;
    gap_ns = gap_ns < GAP_MIN_NS ? GAP_MIN_NS : gap_ns > GAP_MAX_NS ? GAP_MAX_NS : gap_ns;
    sync->next_ns = now_ns < sync->asked_ns + gap_ns ? sync->asked_ns + gap_ns : now_ns;
}

static bool time_possible(int64_t ns) {
    return ns >= CLOCK_SYNC_TIME_MIN && ns <= CLOCK_SYNC_TIME_MAX;
}

/* Computes the bounds of the offset at an exchange's end. False: the exchange is impossible. */
static bool bounds_of(const struct clock_exchange *x, struct clock_bounds *bounds) {
    if (!time_possible(x->sent_ns) || !time_possible(x->peer_received_ns) || !time_possible(x->peer_sent_ns) ||
        !time_possible(x->received_ns) || x->received_ns < x->sent_ns || x->received_ns - x->sent_ns > TOOK_MAX_NS ||
        x->peer_sent_ns < x->peer_received_ns)
        return false;
    /* The upper bound is for the time of sending; since then the offset may have grown. */
    int64_t since_ns = (int64_t)(DRIFT_MAX * (double)(x->received_ns - x->sent_ns));
    bounds->at_ns = x->received_ns;
    bounds->offset_min_ns = x->peer_sent_ns - x->received_ns - CLOCK_GRAIN_NS;
    bounds->offset_max_ns = x->peer_received_ns - x->sent_ns + since_ns + CLOCK_GRAIN_NS;
    return bounds->offset_min_ns <= bounds->offset_max_ns;
}

int clock_sync_answered(struct clock_sync *sync, const struct clock_exchange *exchange) {
    struct clock_bounds seen;
    bool expected = sync->asked && exchange->sent_ns == sync->asked_ns;
    if (!expected || !bounds_of(exchange, &seen)) {
        sync->nonsense++;
        if (expected) {
            sync->asked = false;
            next_plan(sync, sync->asked_ns);
        }
        return -EINVAL;
    }
    sync->asked = false;
    if (!clock_sync_known(sync)) {
        begin_with(sync, &seen);
    } else if (!bounds_cut(sync, &seen)) {
        begin_with(sync, &seen);
        sync->jumps++;
    }
    int64_t round_trip_ns =
        exchange->received_ns - exchange->sent_ns - (exchange->peer_sent_ns - exchange->peer_received_ns);
    sync->past[sync->past_next] = seen;
    sync->round_trips_ns[sync->past_next] = round_trip_ns > 0 ? round_trip_ns : 0;
    sync->past_next = (sync->past_next + 1) % CLOCK_SYNC_KEPT;
    if (sync->past_count < CLOCK_SYNC_KEPT)
        sync->past_count++;
    sync->round_trip_ns = TIME_NEVER;
    for (uint32_t i = 0; i < sync->past_count; i++)
        if (sync->round_trips_ns[i] < sync->round_trip_ns)
            sync->round_trip_ns = sync->round_trips_ns[i];
    const struct clock_bounds *known = &sync->bounds;
    sync->at_ns = known->at_ns;
    sync->peer_at_ns = known->at_ns + known->offset_min_ns + (known->offset_max_ns - known->offset_min_ns) / 2;
    sync->drift = (sync->drift_min + sync->drift_max) / 2;
    sync->peer_drift = -sync->drift / (1 + sync->drift);
    next_plan(sync, exchange->received_ns);
    return 0;
}
