/* transport_fabric.c - inputs by libfabric: the frontend names the place of a request's inputs, and keeps them until it
 * hears that they were read. The frontend sends small inputs, and those that another backend is reading, over the link
 * instead.
 *
 *     backend                    frontend
 *        | <--- FRAME_FABRIC ------- |   where it is, its memory, and a secret
 *        | --- connects, secret ---> |
 *        | ---- FRAME_WHERE -------> |
 *        | <--- FRAME_LIES --------- |
 *        | <=== RMA read =========== |
 *        | ---- FRAME_READ --------> |
 *
 * Connection and link end together: when either is lost, both are closed, and all reads between the two processes
 * end. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "cluster/roles/backend_link_state.h"
#include "core/data/visible.h"
#include "core/system/log.h"
#include "front/bulk/slab.h"

/* ---- the connection ---- */

/* The frontend's address: without a host it is that of the link's other end. */
static int address_complete(const struct peer *peer, struct sockaddr_storage *at, struct sy_error *err) {
    struct sockaddr_storage link;
    socklen_t bytes = sizeof(link);
    struct sockaddr_in *v4 = (struct sockaddr_in *)at;
    if (at->ss_family == AF_INET6)
        return 0;
    if (at->ss_family != AF_INET)
        return error_set(err, -EPROTO, "an address for libfabric of family %u", at->ss_family);
    if (v4->sin_addr.s_addr != htonl(INADDR_ANY))
        return 0;
    if (getpeername(peer->fd, (struct sockaddr *)&link, &bytes) < 0)
        return error_set(err, -errno, "%s", strerror(errno));
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&link;
    if (link.ss_family == AF_INET)
        v4->sin_addr = ((const struct sockaddr_in *)&link)->sin_addr;
    else if (link.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        memcpy(&v4->sin_addr, v6->sin6_addr.s6_addr + 12, sizeof(v4->sin_addr));
    else
        return error_set(err, -ENOTSUP, "the link is of IPv6, and libfabric of IPv4: give the frontend --cluster-host");
    return 0;
}

static int told(struct backend_link *l, struct frontend_peer *f, const struct wire_fabric *fabric,
                struct sy_error *err) {
    struct sockaddr_storage at;
    if (!l->fabric || f->fabric)
        return error_set(err, -EPROTO, "memory for libfabric that nobody asked for");
    memcpy(&at, fabric->address, sizeof(at));
    f->fabric_region_count = fabric->region_count;
    memcpy(f->fabric_regions, fabric + 1, fabric->region_count * sizeof(f->fabric_regions[0]));
    *f->fabric_reason = '\0';
    f->fabric_down = address_complete(&f->peer, &at, err) < 0 ||
                     fabric_connect(l->fabric, (struct sockaddr *)&at, fabric->secret, f, &f->fabric, err) < 0;
    if (f->fabric_down) /* handled in the next turn */
        snprintf(f->fabric_reason, sizeof(f->fabric_reason), "%s", err->text);
    return 0;
}

static void up(void *of) {
    struct frontend_peer *f = of;
    f->transport = &transport_fabric;
}

static void down(void *of, const char *reason) {
    struct frontend_peer *f = of;
    f->fabric_down = true;
    snprintf(f->fabric_reason, sizeof(f->fabric_reason), "%s", reason);
}

bool transport_fabric_look(struct backend_link *l, struct frontend_peer *f) {
    if (!f->fabric_down)
        return true;
    if (f->transport != &transport_tcp)
        return false;
    log_warn("inputs come by tcp", "frontend=%s reason=\"libfabric: %s\"", f->peer.name, f->fabric_reason);
    transport_fabric.end(l, f);
    return true;
}

static void fabric_end(struct backend_link *l, struct frontend_peer *f) {
    (void)l;
    fabric_end_close(f->fabric);
    f->fabric = NULL;
    f->fabric_down = false;
}

/* ---- requests ---- */

static enum pull_state fabric_pull(struct backend_link *l, struct frontend_peer *f, struct landed *landed) {
    (void)l;
    bool asked = peer_add(&f->peer, FRAME_WHERE, &landed->handle, sizeof(landed->handle));
    return asked ? PULL_UNDER_WAY : PULL_NONE;
}

/* Tells the frontend that it need not keep a request's inputs any more. */
static void tell_read(struct frontend_peer *f, uint64_t handle) {
    peer_add(&f->peer, FRAME_READ, &handle, sizeof(handle));
}

static bool inputs_lie(const struct frontend_peer *f, const struct wire_card *card) {
    const struct card_input *inputs = (const struct card_input *)(card + 1);
    for (uint32_t i = 0; i < card->input_count; i++) {
        if (inputs[i].bytes == 0)
            continue;
        if (inputs[i].region >= f->fabric_region_count)
            return false;
        uint64_t room = f->fabric_regions[inputs[i].region].bytes;
        if (inputs[i].offset > room || inputs[i].bytes > room - inputs[i].offset)
            return false;
    }
    return true;
}

static int take_lies(struct backend_link *l, struct frontend_peer *f, const struct wire_card *card,
                     struct sy_error *err) {
    const struct card_input *inputs = (const struct card_input *)(card + 1);
    struct iovec pieces[TENSORS_MAX];
    uint32_t count, piece = 0;

    if (!f->fabric || !inputs_lie(f, card))
        return error_set(err, -EPROTO, "inputs outside of the frontend's memory");
    struct landed *landed = backend_card_wanted(l, f, card->handle);
    if (!landed || !backend_card_take(l, f, landed, card, pieces, &count)) {
        tell_read(f, card->handle);
        return 0;
    }
    landed->reads = 0;
    for (uint32_t i = 0; i < count; i++)
        landed->reads += pieces[i].iov_len;
    for (uint32_t i = 0; i < card->input_count; i++) {
        if (inputs[i].bytes == 0)
            continue;
        const struct wire_fabric_region *region = &f->fabric_regions[inputs[i].region];
        if (fabric_read(f->fabric, &l->fabric_memory, pieces[piece].iov_base, pieces[piece].iov_len,
                        region->remote + inputs[i].offset, region->key, card->handle) < 0)
            return error_set(err, -ENOMEM, "no memory to read inputs");
        piece++;
    }
    l->fabric_due = true; /* the turn's reads begin together */
    if (count == 0) {
        tell_read(f, card->handle);
        backend_card_over(l, f, landed);
    }
    return 0;
}

static void part_read(void *of, uint64_t tag, size_t bytes) {
    struct frontend_peer *f = of;
    struct landed *landed = landing_place(&f->landing, tag);
    f->fabric_bytes += bytes;
    landed->reads -= bytes; /* its memory stays until all pieces have been read, or the connection is closed */
    if (landed->reads > 0)
        return;
    tell_read(f, tag);
    backend_card_over(f->peer.owner, f, landed);
}

static int fabric_frame(struct backend_link *l, struct frontend_peer *f, const struct frame *frame, const void *head,
                        struct sy_error *err) {
    return frame->kind == FRAME_FABRIC ? told(l, f, head, err) : take_lies(l, f, head, err);
}

const struct transport transport_fabric = {.pull = fabric_pull, .frame = fabric_frame, .end = fabric_end};

/* ---- start ---- */

static void ready(void *owner) {
    struct backend_link *l = owner;
    l->fabric_due = true;
}

int transport_fabric_open(struct backend_link *l, struct sy_error *err) {
    static const struct fabric_events events = {.up = up, .down = down, .read = part_read};
    int fds[FABRIC_FDS], rc = fabric_open(&l->fabric, l->config.fabric, &events, l, err);
    if (rc < 0)
        return rc;
    size_t bytes;
    uintptr_t base = slab_range(l->slab, &bytes);
    void *memory = visible_map(slab_fd(l->slab), bytes);
    if (!memory)
        return error_set(err, -ENOMEM, "no memory for inputs that are read by libfabric");
    l->fabric_map = memory;
    uint32_t count = fabric_fds(l->fabric, fds);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = link_loop_watch(&l->loop, fds[i], ready);
    if (rc < 0 || count < FABRIC_FDS)
        return error_set(err, -ENOTSUP, "libfabric's provider '%s' has no descriptors to wait for", l->config.fabric);
    return fabric_region(l->fabric, memory, base, bytes, false, &l->fabric_memory, err);
}
