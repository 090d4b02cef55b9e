/* transport_tcp.c - inputs over the link: the backend asks for the requests of a plan in one frame. For each request
 * the frontend sends a frame with card and inputs, which are received directly into their final memory. */
#include "cluster/roles/backend_link_state.h"

static enum pull_state tcp_pull(struct backend_link *l, struct frontend_peer *f, struct landed *landed) {
    (void)l;
    bool asked = peer_add(&f->peer, FRAME_PULL, &landed->handle, sizeof(landed->handle));
    return asked ? PULL_UNDER_WAY : PULL_NONE;
}

static void take_card(struct backend_link *l, struct frontend_peer *f, const struct frame *frame,
                      const struct wire_card *card) {
    struct landed *landed = backend_card_wanted(l, f, card->handle);
    struct iovec pieces[TENSORS_MAX];
    uint32_t count;

    f->arriving = NULL; /* inputs that were not asked for are discarded */
    if (!landed || !backend_card_take(l, f, landed, card, pieces, &count))
        return;
    if (frame->body_bytes > 0)
        f->arriving = landed;
    else
        backend_card_over(l, f, landed);
}

static int tcp_frame(struct backend_link *l, struct frontend_peer *f, const struct frame *frame, const void *head,
                     struct sy_error *err) {
    (void)err;
    if (frame->kind == FRAME_CARD)
        take_card(l, f, frame, head);
    else
        for (uint32_t i = 0; i < frame->count; i++) {
            struct landed *landed = backend_card_wanted(l, f, ((const uint64_t *)head)[i]);
            if (!landed || landed->state == LANDED_UNREADY) /* that one is left out of its batch */
                continue;
            landed->state = LANDED_GONE; /* its frontend knows */
            backend_landed_settle(l, landed);
        }
    return 0;
}

uint32_t transport_tcp_body(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]) {
    (void)frame;
    struct frontend_peer *f = container_of(peer, struct frontend_peer, peer);
    const struct backend_link *l = peer->owner;
    return f->arriving ? landing_pieces(&f->landing, f->arriving, l->wiring->regions, pieces) : 0;
}

void transport_tcp_body_over(struct peer *peer) {
    struct frontend_peer *f = container_of(peer, struct frontend_peer, peer);
    struct landed *landed = f->arriving;
    f->arriving = NULL;
    if (landed)
        backend_card_over(peer->owner, f, landed);
}

/* The link is closed: nothing more is received from it. */
static void tcp_end(struct backend_link *l, struct frontend_peer *f) {
    (void)l;
    f->arriving = NULL;
}

const struct transport transport_tcp = {.pull = tcp_pull, .frame = tcp_frame, .end = tcp_end};
