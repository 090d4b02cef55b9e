/* clock_sync.h - what one end of a link knows of the clock of the host at the other end.
 *
 * Two hosts' clocks differ by an offset: theirs less ours, up to years, as a clock begins with its host. The offset
 * drifts by 10 to 100 parts in a million, because no two quartzes are alike. So each end asks the other for the time
 * now and then:
 *
 *     here   t0 ----.                      .---> t3        U = t1 - t0: the offset is at most U, since no question
 *                    \                    /                    arrives before it was sent
 *     there           '--> t1 ... t2 ----'                 L = t2 - t3: the offset is at least L, since no answer does
 *
 * An exchange thus gives an interval that the offset is in. It is as wide as the round trip, however much the way there
 * differs from the way back. Nothing is averaged: delays have no law, so a mean promises nothing, but bounds do. Two
 * exchanges bound the drift:
 *
 *     offset        U1                        the drift is at least that of the line from U1 to L2, and at most that
 *       ^            |`-.          U2         of the line from L1 to U2. The longer the time between them and the
 *       |            |    `-.    .-'|         faster both, the better it is known: round trips of 50 us that are
 *       |            |   .-' `-.    |         60 s apart give it to 1 part in a million.
 *       |           L1.-'       `- L2
 *       +-----------------------------> our time
 *
 * Each new exchange is compared in this way with the last 64. Then the known interval is moved to the time of the new
 * exchange, widened by what is not known of the drift, and intersected with the interval of the new exchange. Its
 * middle is the estimate and half its width the error: at most half the best round trip, and what the drift has added
 * since. As the new interval lies in the old one, an estimate never moves by more than the error that was stated
 * before.
 *
 * If the intersection is empty, a clock has jumped (a virtual machine was moved, a host slept). Then everything known
 * is forgotten, and the new exchange is the first of a new start. If a clock jumps during an exchange, that may be
 * noticed only at the next one.
 *
 * Over 3000 drawn links (10 us to 4 ms, drifts to 200 ppm, all kinds of jitter) the offset was always within the error,
 * which after five minutes was 1.03 times half the least round trip for half of them, and less than 1.15 for 9 in 10.
 *
 * Pure: it is handed the time. Owned by one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/time.h"

#define CLOCK_SYNC_KEPT 64 /* last exchanges that are kept */

/* Times that are converted: from 9 years before a clock's zero to 126 years after it. Other values, such as TIME_NEVER,
 * are no times of a clock, and mean the same on every host. */
#define CLOCK_SYNC_TIME_MIN (-(1LL << 58))
#define CLOCK_SYNC_TIME_MAX 4000000000000000000LL

/* The four times of an exchange, each by the clock of the host where it happens. */
struct clock_exchange {
    int64_t sent_ns, peer_received_ns, peer_sent_ns, received_ns;
};

/* Bounds of the offset at the time at_ns of our clock, by one exchange or by all of them. */
struct clock_bounds {
    int64_t at_ns, offset_min_ns, offset_max_ns;
};

struct clock_sync {
    /* values for conversions */
    int64_t at_ns, peer_at_ns; /* one moment, by our clock and by the peer's */
    double drift, peer_drift;  /* gain of the peer's clock in a nanosecond of ours; of ours in one of the peer's */
    /* knowledge as of the last exchange */
    struct clock_bounds bounds;
    double drift_min, drift_max;
    /* the last exchanges */
    struct clock_bounds past[CLOCK_SYNC_KEPT];
    int64_t round_trips_ns[CLOCK_SYNC_KEPT];
    uint32_t past_count, past_next;
    int64_t round_trip_ns; /* least of round_trips_ns */
    /* times of questions */
    bool asked; /* whether an exchange is under way */
    int64_t asked_ns, next_ns;
    int64_t begun_ns;         /* time of the first exchange since nothing was known */
    uint32_t jumps, nonsense; /* new starts after a clock jumped; answers that were refused */
};

/* Nothing is known; the first exchange is due at once. */
void clock_sync_init(struct clock_sync *sync, int64_t now_ns);

/* ---- exchanges ---- */

/* The time at which to send the next exchange: 8 in the first 200 ms, then ever rarer, from 4 s on one a second.
 * TIME_NEVER: an exchange is under way. So a suspended peer finds only one question when it goes on. */
int64_t clock_sync_next_ns(const struct clock_sync *sync);
/* Notes that an exchange was sent. `now_ns` is the exchange's sent_ns. */
void clock_sync_asked(struct clock_sync *sync, int64_t now_ns);
/* Takes the answer to the exchange under way. 0; -EINVAL: the answer is ignored, since it belongs to another exchange
 * or its times are impossible (a clock jumped meanwhile, or the peer is wrong). */
int clock_sync_answered(struct clock_sync *sync, const struct clock_exchange *exchange);

/* ---- what is known ---- */

static inline bool clock_sync_known(const struct clock_sync *sync) {
    return sync->past_count > 0;
}

/* The most by which a time near `now_ns` (our clock) may be wrong after conversion. TIME_NEVER: nothing is known. */
int64_t clock_sync_error_ns(const struct clock_sync *sync, int64_t now_ns);

/* The least round trip of the last 64 exchanges, without the time that the peer took. TIME_NEVER: nothing is known. */
static inline int64_t clock_sync_round_trip_ns(const struct clock_sync *sync) {
    return sync->round_trip_ns;
}

/* Converts `time_ns` from one clock to another. The second showed `to` when the first showed `from`, and gains `drift`
 * on it in each nanosecond. */
static inline int64_t clock_sync_convert(int64_t time_ns, int64_t from, int64_t to, double drift) {
    if (__builtin_expect(time_ns < CLOCK_SYNC_TIME_MIN || time_ns > CLOCK_SYNC_TIME_MAX, 0))
        return time_ns;
    return to + (time_ns - from) + (int64_t)(drift * (double)(time_ns - from));
}

/* Our time when the peer's clock shows `peer_ns`, and the other way round. Each takes 1 to 5 ns. As long as nothing is
 * known, they return the time unchanged. */
static inline int64_t clock_sync_local(const struct clock_sync *sync, int64_t peer_ns) {
    return clock_sync_convert(peer_ns, sync->peer_at_ns, sync->at_ns, sync->peer_drift);
}

static inline int64_t clock_sync_peer(const struct clock_sync *sync, int64_t local_ns) {
    return clock_sync_convert(local_ns, sync->at_ns, sync->peer_at_ns, sync->drift);
}
