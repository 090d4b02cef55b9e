/* transport_shm.c - inputs of a frontend on this host: the frontend hands over the memory of its cards and inputs, and
 * the backend reads in that memory. The frontend is not asked, so the card is checked once more after a read: the
 * request must still be the same.
 *
 * The inputs of a batch of several requests stay where they are until the executor copies them into the batch, and
 * checks the cards (card_has_ended()); only strings, which must not change once they have been checked, and the
 * inputs of a request that runs alone, whose executor needs no copy, are copied here. With 8 inputs of 150 KB a batch
 * then took 15 us of CPU a request, in all processes and until its tensor was there, instead of 24.
 *
 * What is copied here keeps the link thread from its heartbeats: 400 MB took 0.1 to 0.4 s, and after 0.3 s the others
 * take this process for dead. So no more than COPY_MAX is copied in a turn; inputs beyond that are asked for over the
 * link (transport_tcp.c), which takes them in pieces. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cluster/roles/backend_link_state.h"
#include "core/util/assert.h"

#define COPY_MAX ((uint64_t)64 << 20) /* 15 to 60 ms */

/* ---- the frontend's memory ---- */

static void shm_end(struct backend_link *l, struct frontend_peer *f) {
    (void)l;
    frontend_memory_put(f->memory); /* executors may still read there */
    f->memory = NULL;
}

static int shm_frame(struct backend_link *l, struct frontend_peer *f, const struct frame *frame, const void *head,
                     struct sy_error *err) {
    (void)l;
    const struct wire_region *regions = head;
    uint32_t cards = 0;
    bool fits = frame->count == f->peer.fd_count && !f->memory; /* once */
    if (fits)
        f->memory = frontend_memory_create(f->hello.lanes, f->hello.slots);
    for (uint32_t i = 0; i < frame->count && fits; i++) {
        fits = f->memory && frontend_memory_map(f->memory, &regions[i], f->peer.fds[i]);
        cards += fits && regions[i].cards;
    }
    while (f->peer.fd_count > 0)
        close(f->peer.fds[--f->peer.fd_count]);
    if (!fits || cards != f->hello.lanes)
        return error_set(err, -EPROTO, "memory that cannot be mapped"); /* end() unmaps what was */
    f->transport = &transport_shm;
    return 0;
}

/* ---- requests ---- */

/* A card copied from the frontend's memory, in the form of the link, with the places of its inputs there. */
struct read_card {
    struct wire_card card;
    struct card_input inputs[TENSORS_MAX];
    const char *from[TENSORS_MAX]; /* [sources] addresses of the inputs that have bytes */
    uint32_t sources;
    uint64_t bytes; /* bytes of all inputs */
};

/* Copies a card as it would come over the link. Its contents are checked as over the link, since the frontend may write
 * it meanwhile. False: the request is gone. */
static bool card_read(const struct frontend_peer *f, const struct request_card *theirs, uint64_t handle,
                      struct read_card *read, struct sy_error *err) {
    struct frame frame = {.kind = FRAME_CARD, .count = 1};
    read->card = wire_card_of(theirs, handle);
    read->sources = 0;
    for (uint32_t i = 0; i < read->card.input_count; i++) {
        const struct card_input *given =
            frontend_memory_input(f->memory, handle_frontend(handle) % HELLO_LANES_MAX, handle_slot(handle), i);
        struct card_input *input = &read->inputs[i];
        if (!given)
            return false;
        *input = *given;
        if (input->region != REGION_NONE && input->bytes > 0) {
            const char *from = frontend_memory_at(f->memory, input->region, input->offset, input->bytes);
            if (!from)
                return false;
            read->from[read->sources++] = from;
        }
        input->offset = frame.body_bytes;
        frame.body_bytes += input->bytes;
    }
    read->bytes = frame.body_bytes;
    frame.head_bytes = (uint32_t)(sizeof(struct wire_card) + read->card.input_count * sizeof(struct card_input));
    return wire_head_check(&frame, &read->card, err) == 0;
}

static const struct request_card *card_of(const struct frontend_peer *f, const struct landed *landed) {
    uint32_t lane = handle_frontend(landed->handle) % HELLO_LANES_MAX;
    return &f->memory->cards[lane][handle_slot(landed->handle)];
}

/* Copies the inputs of a card. 0, or what they are refused for, with a sentence. */
static int inputs_read(struct frontend_peer *f, struct landed *landed, const struct read_card *read,
                       int64_t deadline_ns, struct sy_error *err) {
    struct iovec pieces[TENSORS_MAX];
    uint32_t count;
    int rc = landing_take(&f->landing, landed, &read->card, deadline_ns, pieces, &count, err);
    if (rc < 0)
        return rc;
    CHECK_EQ(count, read->sources);
    for (uint32_t i = 0; i < count; i++)
        memcpy(pieces[i].iov_base, read->from[i], pieces[i].iov_len);
    return 0;
}

/* 0; -ENOENT: the request is gone; -EAGAIN: its inputs are too large to be copied in this turn; or what they are
 * refused for, with a sentence. */
static int request_read(struct backend_link *l, struct frontend_peer *f, struct landed *landed, struct sy_error *err) {
    const struct request_card *theirs = card_of(f, landed);
    uint64_t handle = landed->handle - ((uint64_t)f->hello.number * HELLO_LANES_MAX << HANDLE_SLOT_BITS);
    struct read_card read;

    if (__atomic_load_n(&theirs->handle, __ATOMIC_ACQUIRE) != handle ||
        !card_read(f, theirs, landed->handle, &read, err))
        return -ENOENT;
    if (backend_is_avoided(l, landed, &read.card))
        return error_set(err, -ECONNREFUSED, "its run has failed here before");
    int64_t deadline_ns = health_local(&f->health, read.card.deadline_ns);
    /* inputs of a request that is not alone in its batch stay where they are until the batch is put together */
    const struct pulled_plan *p = landed->plan;
    bool in_place =
        landed->state == LANDED_PULLING && p->plan.request_count > 1 && landing_in_place(&f->landing, landed->model);
    if (!in_place && read.bytes > COPY_MAX - l->copied)
        return -EAGAIN;
    l->copied += in_place ? 0 : read.bytes;
    int rc = in_place ? landing_take_in_place(&f->landing, landed, &read.card, deadline_ns, read.from, f->memory,
                                              theirs, handle, err)
                      : inputs_read(f, landed, &read, deadline_ns, err);
    if (rc < 0)
        return rc;
    atomic_thread_fence(memory_order_acquire); /* with slot_give() in port.c: all reads come before the check */
    if (__atomic_load_n(&theirs->handle, __ATOMIC_RELAXED) != handle)
        return -ENOENT;
    return in_place ? 0 : landing_over(&f->landing, landed, err);
}

static enum pull_state shm_pull(struct backend_link *l, struct frontend_peer *f, struct landed *landed) {
    struct sy_error err = {.text = ""};
    /* acquire: with who has prepared the inputs; while they are being prepared, the frontend must know who waits */
    if (atomic_load_explicit(&card_of(f, landed)->unready, memory_order_acquire))
        return transport_tcp.pull(l, f, landed);
    bool unready = landed->state == LANDED_UNREADY;
    int rc = request_read(l, f, landed, &err);
    if (rc == -EAGAIN)
        return transport_tcp.pull(l, f, landed);
    if (rc == -ENOENT) {
        landed->arrives = false; /* its memory, if it has any already, may be freed */
        return PULL_NONE;
    }
    if (rc < 0) {
        enum lost_reason reason = rc == -ECONNREFUSED ? LOST_AVOIDED : backend_inputs_refused(f, landed, rc, &err);
        if (!unready) /* else its executor leaves it out */
            backend_tell_undelivered(l, landed->handle, reason);
        return PULL_REFUSED;
    }
    peer_add(&f->peer, FRAME_TAKEN, &landed->handle, sizeof(landed->handle));
    link_report_count(&l->report, f->peer.tally, LINK_PULLED, 1);
    return PULL_HERE;
}

const struct transport transport_shm = {.pull = shm_pull, .frame = shm_frame, .end = shm_end};
