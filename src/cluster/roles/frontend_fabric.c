/* frontend_fabric.c - serves backends that read inputs by libfabric: tells them the inputs' places, where the inputs
 * stay until the backend has read them or its connection is closed (transport_fabric.c is the other end). */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "cluster/roles/frontend_link_state.h"
#include "core/data/visible.h"
#include "core/system/log.h"
#include "core/util/assert.h"

/* A request's inputs go over the link if all together they are no longer than this: that saves a round trip. On one
 * host both ways take equally long at this size. */
#define SEND_MOST ((uint64_t)16 * 1024)

/* ---- connections ---- */

void fabric_offer(struct frontend_link *l, struct backend *b) {
    const struct wiring *w = l->wiring;
    struct {
        struct wire_fabric fabric;
        struct wire_fabric_region regions[WIRE_REGIONS_MAX];
    } offer = {.fabric = {.region_count = wiring_regions(w)}};
    if (getrandom(b->secret, sizeof(b->secret), 0) != sizeof(b->secret))
        return; /* then inputs go by tcp */
    b->secret_told = true;
    memcpy(offer.fabric.secret, b->secret, sizeof(b->secret));
    memcpy(offer.fabric.address, &l->fabric_address, sizeof(l->fabric_address));
    for (uint32_t r = 0; r < wiring_regions(w); r++)
        offer.regions[r] = (struct wire_fabric_region){.remote = l->fabric_regions[r].remote,
                                                       .bytes = l->fabric_regions[r].bytes,
                                                       .key = l->fabric_regions[r].key};
    peer_send(&b->peer, FRAME_FABRIC, 1, &offer,
              sizeof(offer.fabric) + wiring_regions(w) * sizeof(struct wire_fabric_region));
}

static void *asked(void *owner, const uint64_t secret[2]) {
    struct frontend_link *l = owner;
    for (uint32_t i = 0; i < l->backend_room; i++) {
        struct backend *b = l->backends[i];
        if (b && b->secret_told && b->secret[0] == secret[0] && b->secret[1] == secret[1]) {
            b->secret_told = false; /* the secret is good for one connection */
            return b;
        }
    }
    link_loop_stranger(&l->loop, "libfabric", "its secret is not known");
    return NULL;
}

static void accepted(void *of, struct fabric_end *end) {
    struct backend *b = of;
    b->fabric = end;
}

static void up(void *of) {
    (void)of;
}

static void down(void *of, const char *reason) {
    struct backend *b = of;
    b->fabric_down = true;
    log_info("backend lost by libfabric", "backend=%s reason=\"%s\"", b->peer.name, reason);
}

/* ---- requests ---- */

void fabric_where(struct frontend_link *l, struct backend *b, const uint64_t *handles, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct away *a = away_named(l, b, handles[i]);
        if (!a || a->over || away_unready(l, a) || !b->fabric || a->reader != NO_TAKER ||
            away_bytes(l, a) <= SEND_MOST) {
            away_pulled(l, b, handles[i]);
        } else if (away_card_send(l, b, FRAME_LIES, a, 0)) {
            a->taker = b->place;
            a->reader = b->place;
            a->readers++;
            link_report_count(&l->report, b->peer.tally, LINK_PULLED, 1);
        }
    }
}

static void reader_gone(struct frontend_link *l, struct away *a) {
    a->reader = NO_TAKER;
    away_unread(l, a);
}

void fabric_was_read(struct frontend_link *l, const struct backend *b, const uint64_t *handles, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct away *a = away_find(l, handles[i]);
        if (a && a->reader == b->place)
            reader_gone(l, a);
    }
}

void fabric_drop(struct frontend_link *l, struct backend *b) {
    b->secret_told = false;
    if (!b->fabric)
        return;
    fabric_end_close(b->fabric);
    b->fabric = NULL;
    AWAY_EACH (l, a)
        if (a->reader == b->place)
            reader_gone(l, a);
}

/* ---- start and end ---- */

static void ready(void *owner) {
    struct frontend_link *l = owner;
    l->fabric_due = true;
}

int frontend_fabric_open(struct frontend_link *l, struct sy_error *err) {
    static const struct fabric_events events = {.asked = asked, .accepted = accepted, .up = up, .down = down};
    const struct wiring *w = l->wiring;
    const char *host = l->config.fabric_host;
    int fds[FABRIC_FDS], rc = fabric_open(&l->fabric, l->config.fabric, &events, l, err);
    rc = rc < 0 ? rc : fabric_listen(l->fabric, host, &l->fabric_address, err);
    if (rc < 0)
        return rc;
    CHECK_LE(wiring_regions(w), WIRE_REGIONS_MAX);
    for (uint32_t r = 0; r < wiring_regions(w) && rc == 0; r++) {
        void *memory = w->regions[r].fd < 0 ? NULL : visible_map(w->regions[r].fd, w->regions[r].bytes);
        if (!memory)
            return error_set(err, -ENOMEM, "inputs lie where libfabric cannot read them");
        l->fabric_maps[r] = memory;
        rc = fabric_region(l->fabric, memory, (uintptr_t)memory, w->regions[r].bytes, true, &l->fabric_regions[r], err);
    }
    if (rc < 0)
        return rc;
    uint32_t count = fabric_fds(l->fabric, fds);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = link_loop_watch(&l->loop, fds[i], ready);
    if (rc < 0 || count < FABRIC_FDS)
        return error_set(err, -ENOTSUP, "libfabric's provider '%s' has no descriptors to wait for", l->config.fabric);
    return 0;
}

void frontend_fabric_close(struct frontend_link *l) {
    fabric_close(l->fabric);
    for (uint32_t r = 0; r < WIRE_REGIONS_MAX; r++)
        if (l->fabric_maps[r])
            munmap(l->fabric_maps[r], l->wiring->regions[r].bytes);
}
