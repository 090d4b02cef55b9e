/* health.c - sends pings, judges silence, and learns the other clock. */
#include "cluster/peer/health.h"

#include "core/system/clock.h"

void health_init(struct health *health, int64_t beat_ns, int64_t now_ns) {
    *health = (struct health){.beat_ns = beat_ns, .ping_ns = now_ns, .pause = {.looked_ns = now_ns}};
    clock_sync_init(&health->clock, now_ns);
}

bool health_hears(struct health *health, const struct peer *peer, int64_t now_ns, int64_t *until_ns) {
    /* Two looks are at most a beat apart, and a look may be late by half a beat. A live peer pings once a beat, so it
     * may seem silent for 2.5 beats, which is less than HEALTH_BEATS. */
    own_pause_look(&health->pause, now_ns, health->beat_ns * 3 / 2, health->beat_ns);
    int64_t silent_ns = peer->heard_ns + HEALTH_BEATS * health->beat_ns + 1, next_ns = now_ns + health->beat_ns;
    silent_ns = time_later(silent_ns, health->pause.judge_ns);
    next_ns = time_earlier(silent_ns, next_ns);
    *until_ns = time_earlier(next_ns, *until_ns);
    return now_ns < silent_ns;
}

bool health_look(struct health *health, struct peer *peer, int64_t now_ns, int64_t *until_ns) {
    if (!health_hears(health, peer, now_ns, until_ns))
        return false;
    health->error_ns = clock_sync_known(&health->clock) ? clock_sync_error_ns(&health->clock, now_ns) : 0;
    int64_t asks_ns = clock_sync_next_ns(&health->clock);
    bool asks = now_ns >= asks_ns;
    if (asks || now_ns >= health->ping_ns) {
        struct wire_ping ping = {.sent_ns = 0};
        if (asks) {
            ping.sent_ns = clock_now_ns();
            clock_sync_asked(&health->clock, ping.sent_ns);
            asks_ns = clock_sync_next_ns(&health->clock);
        }
        peer_send(peer, FRAME_PING, 1, &ping, sizeof(ping));
        health->ping_ns = now_ns + health->beat_ns;
    }
    int64_t next_ns = time_earlier(asks_ns, health->ping_ns);
    *until_ns = time_earlier(next_ns, *until_ns);
    return true;
}

bool health_frame(struct health *health, struct peer *peer, const struct frame *frame, const void *head) {
    const struct wire_ping *ping = head;
    if (frame->kind != FRAME_PING && frame->kind != FRAME_PONG)
        return false;
    if (frame->count != 1 || ping->sent_ns == 0)
        return true;
    int64_t now_ns = clock_now_ns();
    if (frame->kind == FRAME_PONG) {
        struct clock_exchange exchange = {ping->sent_ns, ping->came_ns, ping->went_ns, now_ns};
        clock_sync_answered(&health->clock, &exchange); /* impossible exchanges are ignored */
        return true;
    }
    struct wire_ping pong = {.sent_ns = ping->sent_ns, .came_ns = now_ns, .went_ns = clock_now_ns()};
    peer_send(peer, FRAME_PONG, 1, &pong, sizeof(pong));
    return true;
}
