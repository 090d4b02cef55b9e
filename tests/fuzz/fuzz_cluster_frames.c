/* fuzz_cluster_frames.c - what a stranger, or a member that errs, may send over a link: any bytes. Frames that are
 * accepted are read to their last byte; a card and its inputs are landed as a backend does it. */
/* runs: 40000 */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/peer/hello.h"
#include "cluster/peer/peer.h"
#include "cluster/roles/landing.h"
#include "core/util/assert.h"
#include "front/bulk/slab.h"
#include "unit/cluster/roles/landing_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct wiring wiring = {.link = LINK_BACKEND};
static struct landing landing;
static struct landed *arriving;

static void set_up(void) {
    wiring.cards = calloc(wiring_numbers(&wiring), sizeof(*wiring.cards));
    wiring.regions = calloc(2, sizeof(*wiring.regions));
    struct slab *slab = slab_create(1 << 24);
    wiring.regions[0].base = slab_range(slab, &wiring.regions[0].bytes);
    landing_model.signature.variable_shapes = true;
    CHECK_EQ(landing_init(&landing, &wiring, slab, &landing_model, 1, 1, 4), 0);
}

/* All of a head is there to be read. */
static void touch(const void *head, size_t bytes) {
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)head)[i]);
}

static void landed_over(void) {
    struct landed *landed = arriving;
    arriving = NULL;
    if (!landed)
        return;
    if (landing_over(&landing, landed, NULL) == 0) {
        const struct request_card *card = landing_card(&landing, landed);
        for (uint32_t i = 0; i < card->input_count; i++)
            if (card->inputs[i].region != REGION_NONE)
                touch(region_at(wiring.regions, &card->inputs[i]), card->inputs[i].bytes);
    }
    landing_give(&landing, landed);
}

static void take_card(const struct frame *frame, const struct wire_card *card) {
    struct iovec pieces[TENSORS_MAX];
    uint32_t count;
    uint64_t handle = handle_of(HELLO_LANES_MAX, card->handle % 4, 1);
    struct wire_card *own = malloc(frame->head_bytes);
    memcpy(own, card, frame->head_bytes);
    own->handle = handle;
    arriving = landing_place(&landing, handle);
    *arriving = (struct landed){.handle = handle, .state = LANDED_PULLING};
    if (landing_take(&landing, arriving, own, 0, pieces, &count, NULL) < 0) {
        landing_give(&landing, arriving);
        arriving = NULL;
    } else if (frame->body_bytes == 0) {
        landed_over();
    }
    free(own);
}

static int on_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct hello hello;
    (void)peer;
    touch(head, frame->head_bytes);
    if (frame->kind == FRAME_HELLO)
        return hello_read(head, frame->head_bytes, &hello, err);
    if (frame->kind == FRAME_CARD)
        take_card(frame, head);
    return 0;
}

static uint32_t on_body(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]) {
    const struct request_card *card = arriving ? landing_card(&landing, arriving) : NULL;
    uint32_t count = 0;
    (void)peer, (void)frame;
    for (uint32_t i = 0; card && i < card->input_count; i++)
        if (card->inputs[i].bytes > 0)
            pieces[count++] = (struct iovec){region_at(wiring.regions, &card->inputs[i]), card->inputs[i].bytes};
    return count;
}

static void on_body_over(struct peer *peer) {
    (void)peer;
    landed_over();
}

static void on_closed(struct peer *peer, const char *reason) {
    (void)peer, (void)reason;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct peer_events events = {on_frame, on_body, on_body_over, on_closed};
    static int epoll_fd = -1;
    struct peer peer;
    int fds[2];

    if (epoll_fd < 0) {
        epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        set_up();
    }
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    CHECK_EQ(peer_init(&peer, fds[1], false, epoll_fd, &events, NULL), 0);
    while (size > 0 && !peer.closed) { /* in pieces of two sizes, as a network would */
        size_t part = size % 3 == 0 && size > 9 ? 9 : size < 4096 ? size : 4096;
        CHECK_EQ((size_t)send(fds[0], data, part, MSG_NOSIGNAL), part);
        peer_ready(&peer, EPOLLIN, 0);
        data += part;
        size -= part;
    }
    peer_close(&peer);
    peer_free(&peer);
    close(fds[0]);
    if (arriving)
        landing_give(&landing, arriving);
    arriving = NULL;
    return 0;
}
