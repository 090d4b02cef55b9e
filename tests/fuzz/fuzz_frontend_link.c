/* fuzz_frontend_link.c - a frontend with requests of its own, whose scheduler and backends lie. */
/* runs: 1400 */
#include "liar.h"
#include "unit/cluster/roles/members.h"

#define REQUEST_BYTES 100

static struct members_frontend frontend;
static struct served_model model;

static void turns(void) {
    members_take(&frontend);
}

static uint32_t submission(uint32_t lane, uint32_t slot) {
    const struct wiring *w = &frontend.wired.wiring;
    return lane < w->frontends ? (uint32_t)(w->cards[lane][slot].handle >> (HANDLE_SLOT_BITS + HANDLE_FRONTEND_BITS))
                               : 0;
}

static void frontend_begin(void) {
    static const struct frontend_link_ops ops = {
        .serve = members_serve, .gone = members_gone, .told = members_told, .look = members_look};
    static const char *const schedulers[] = {"scheduler:1"};
    struct members_frontend *f = &frontend;
    struct sy_error err = {.text = ""};
    size_t bytes;
    memset(f, 0, sizeof(*f));
    members_wire(&f->wired, LINK_FRONTEND);
    f->port = port_create(&f->wired.wiring, 0, 0);
    f->slab = slab_create_visible(1 << 20, false, false);
    CHECK(f->port && f->slab);
    uintptr_t base = slab_range(f->slab, &bytes);
    port_region(f->port, base, bytes, slab_fd(f->slab));
    f->wired.wiring.regions[1] = f->wired.wiring.regions[0];
    const struct frontend_link_config config = {
        .outputs_bytes_max = UINT64_MAX,
        .wiring = &f->wired.wiring,
        .schedulers = schedulers,
        .scheduler_count = 1,
        .listen_fd = -1,
        .self = {.incarnation = 1, .version = "x", .name = "real", .address = ":1"},
        .models = &model,
        .models_max = 1,
        .beat_ns = 60 * NS_PER_S,
        .link_wait_ns = TIME_NEVER,
        .ops = &ops,
        .context = f,
    };
    CHECK_EQ(frontend_link_start(&f->link, &config, &err), 0);
    liars_pump(turns); /* it connects to the scheduler */
}

static void frontend_end(void) {
    for (struct liar *l = liars; l < liars + LIARS; l++)
        liar_close(l);
    turns();
    members_frontend_close(&frontend);
}

/* The scheduler lets it in, and serves a model. */
static void serve(struct bytes *in) {
    struct liar *l = &liars[0];
    const uint32_t number = bytes_u8(in) % 2;
    struct hello hello = {.role = ROLE_SCHEDULER, .version = "x", .number = 1, .term = 9, .promises = true};
    hello_formats(&hello);
    hello_send(&l->peer, FRAME_WELCOME, &hello);
    hello_agree(&hello, &hello, &l->peer.format, NULL);
    liars_pump(turns);
    char *head = peer_frame(&l->peer, FRAME_SERVE, 1, sizeof(number) + liar_description_bytes, 0);
    if (!head)
        return;
    memcpy(head, &number, sizeof(number));
    memcpy(head + sizeof(number), liar_description, liar_description_bytes);
    peer_send(&l->peer, FRAME_TOLD, 0, NULL, 0);
    liars_pump(turns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes in = {data, size};
    if (!liar_description) {
        model = members_model;
        model.signature.output_count = 1;
        static struct tensor_spec output = {.name = "y", .type = DATATYPE_UINT8, .dim_count = 2, .dims = {-1, -1}};
        model.signature.outputs = &output;
        model.version = 1;
        model.slo_ns = NS_PER_S;
        model.weight = 1;
        strcpy(model.contents, "00");
        liar_set_up(&model);
        liar_submission = submission;
    }
    frontend_begin();
    while (in.left > 0) {
        uint8_t what = bytes_u8(&in);
        struct liar *l = &liars[(what >> 4) % LIARS];
        if (what % 16 == 0) {
            liars_pump(turns);
        } else if (what % 16 == 1) {
            liar_close(l);
        } else if (what % 16 == 2 && l != liars) {
            liar_connects(l, ROLE_BACKEND);
            liar_hello(l, FRAME_HELLO, &in);
            liars_pump(turns);
        } else if (what % 16 == 3 && liars[0].open) {
            serve(&in);
        } else if (what % 16 < 6) {
            members_prepare(&frontend, what % 16 == 5 ? what >> 6 : 0, what & 16);
            members_submit_as(&frontend, 1 + REQUEST_BYTES * (what >> 4), what % 16 == 5);
            port_flush(frontend.port);
        } else if (l->open) {
            liar_says(l, &in);
        }
    }
    liars_pump(turns);
    frontend_end();
    return 0;
}
