/* transport_shm.c - inputs of a frontend on this host: it passes the memory of its cards and inputs, which the backend
 * reads in place. The frontend is not asked, so afterwards the card is checked once more: the request must still be the
 * same. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "cluster/backend_link_state.h"
#include "link/visible.h"

/* ---- the frontend's memory ---- */

static void unmap(struct frontend_peer *f) {
    for (uint32_t i = 0; i < HELLO_LANES_MAX; i++)
        if (f->cards[i])
            munmap((void *)(uintptr_t)f->cards[i], f->hello.slots * sizeof(struct request_card));
    for (uint32_t i = 0; i <= HELLO_LANES_MAX; i++)
        if (f->regions[i].base)
            munmap((void *)(uintptr_t)f->regions[i].base, f->regions[i].bytes);
    memset(f->cards, 0, sizeof(f->cards));
    memset(f->regions, 0, sizeof(f->regions));
}

/* Maps one region. */
static bool region_take(struct frontend_peer *f, const struct wire_region *r, int fd) {
    bool fits = r->cards ? r->number < f->hello.lanes && !f->cards[r->number] &&
                               r->bytes == f->hello.slots * sizeof(struct request_card)
                         : r->number <= HELLO_LANES_MAX && !f->regions[r->number].base;
    const void *base = fits ? visible_look(fd, r->bytes) : NULL;
    if (base && r->cards) {
        f->cards[r->number] = base;
    } else if (base) {
        f->regions[r->number].base = base;
        f->regions[r->number].bytes = r->bytes;
    }
    return base;
}

static int shm_frame(struct backend_link *l, struct frontend_peer *f, const struct frame *frame, const void *head,
                     struct sy_error *err) {
    (void)l;
    const struct wire_region *regions = head;
    uint32_t cards = 0;
    bool fits = frame->count == f->peer.fd_count && !f->cards[0]; /* once */
    for (uint32_t i = 0; i < frame->count && fits; i++) {
        fits = region_take(f, &regions[i], f->peer.fds[i]);
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

/* Copies a card as it would come over the link. Its contents are checked as over the link, since the frontend may write
 * it meanwhile. False: the request is gone. */
struct read_card {
    struct wire_card card;
    struct card_input inputs[TENSORS_MAX];
    const char *from[TENSORS_MAX]; /* [sources] */
    uint32_t sources;
};

static bool card_read(const struct frontend_peer *f, const struct request_card *theirs, uint64_t handle,
                      struct read_card *read, struct sy_error *err) {
    struct frame frame = {.kind = FRAME_CARD, .count = 1};
    read->card = wire_card_of(theirs, handle);
    read->sources = 0;
    if (read->card.input_count > TENSORS_MAX)
        return false;
    for (uint32_t i = 0; i < read->card.input_count; i++) {
        struct card_input *input = &read->inputs[i];
        *input = theirs->inputs[i];
        if (input->region != REGION_NONE && input->bytes > 0) {
            if (input->region > HELLO_LANES_MAX || input->offset > f->regions[input->region].bytes ||
                input->bytes > f->regions[input->region].bytes - input->offset)
                return false;
            read->from[read->sources++] = f->regions[input->region].base + input->offset;
        }
        input->offset = frame.body_bytes;
        frame.body_bytes += input->bytes;
    }
    frame.head_bytes = (uint32_t)(sizeof(struct wire_card) + read->card.input_count * sizeof(struct card_input));
    return wire_head_check(&frame, &read->card, err) == 0;
}

static const struct request_card *card_of(const struct frontend_peer *f, const struct landed *landed) {
    uint32_t lane = handle_frontend(landed->handle) % HELLO_LANES_MAX;
    return &f->cards[lane][handle_slot(landed->handle)];
}

/* Whether the request's inputs are still being prepared. */
static bool is_unready(const struct frontend_peer *f, const struct landed *landed) {
    return atomic_load_explicit(&card_of(f, landed)->unready, memory_order_acquire); /* with who has prepared them */
}

/* 0; -ENOENT: the request is gone; or what its inputs are refused for, with a sentence. */
static int request_read(struct frontend_peer *f, struct landed *landed, struct sy_error *err) {
    const struct request_card *theirs = card_of(f, landed);
    uint64_t handle = landed->handle - ((uint64_t)f->hello.number * HELLO_LANES_MAX << HANDLE_SLOT_BITS);
    struct iovec pieces[TENSORS_MAX];
    struct read_card read;
    uint32_t count;

    if (__atomic_load_n(&theirs->handle, __ATOMIC_ACQUIRE) != handle ||
        !card_read(f, theirs, landed->handle, &read, err))
        return -ENOENT;
    int rc = landing_take(&f->landing, landed, &read.card, health_local(&f->health, read.card.deadline_ns), pieces,
                          &count, err);
    if (rc < 0)
        return rc;
    CHECK_EQ(count, read.sources);
    for (uint32_t i = 0; i < count; i++)
        memcpy(pieces[i].iov_base, read.from[i], pieces[i].iov_len);
    atomic_thread_fence(memory_order_acquire); /* with slot_give() in request/port.c: all reads come before the check */
    bool whole = __atomic_load_n(&theirs->handle, __ATOMIC_RELAXED) == handle;
    return whole ? landing_over(&f->landing, landed, err) : -ENOENT;
}

static enum pull_state shm_pull(struct backend_link *l, struct frontend_peer *f, struct landed *landed) {
    struct sy_error err = {.text = ""};
    if (is_unready(f, landed)) /* then the frontend has to know that somebody waits */
        return transport_tcp.pull(l, f, landed);
    bool unready = landed->state == LANDED_UNREADY;
    int rc = request_read(f, landed, &err);
    if (rc == -ENOENT)
        return PULL_NONE;
    if (rc < 0) {
        enum lost_reason reason = backend_inputs_refused(f, landed, rc, &err);
        if (!unready) /* else its executor leaves it out */
            backend_tell_undelivered(l, landed->handle, reason);
        return PULL_REFUSED;
    }
    uint64_t *place = peer_frame_more(&f->peer, FRAME_TAKEN, sizeof(*place), WIRE_MANY);
    if (place)
        *place = landed->handle;
    return PULL_HERE;
}

static void shm_end(struct backend_link *l, struct frontend_peer *f) {
    (void)l;
    unmap(f);
}

const struct transport transport_shm = {.pull = shm_pull, .frame = shm_frame, .end = shm_end};
