/* fuzz_backend_link.c - a backend whose scheduler and frontends lie. Its executor looks at each input of its batches.
 */
/* runs: 1250 */
#include "liar.h"
#include "unit/cluster/roles/members.h"

static struct members_wiring wired;
static struct backend_link *link_of_backend;
static struct served_model model;
static bool busy; /* the executor has a batch of before, so that what is prepared may come in time */

/* The executor. */
static void turns(void) {
    struct wiring *w = &wired.wiring;
    const struct batch_plan *plan;
    while (!busy && (plan = ring_peek(&w->plans[0]))) {
        for (uint32_t i = 0; i < plan->request_count; i++) {
            const struct request_card *card = wiring_card(w, plan->handles[i]);
            volatile uint8_t sum = 0;
            for (uint32_t k = 0; k < card->input_count; k++)
                for (uint64_t b = 0; b < card->inputs[k].bytes && card->inputs[k].region != REGION_NONE; b++)
                    sum = (uint8_t)(sum + ((const uint8_t *)region_at(w->regions, &card->inputs[k]))[b]);
        }
        members_ran(w, plan);
        ring_pop_run(&w->plans[0], batch_plan_slots(plan->request_count));
        ring_release(&w->plans[0]);
    }
}

static void backend_begin(void) {
    static const char *const schedulers[] = {"scheduler:1"};
    static const struct profile *const no_profiles[] = {NULL};
    static const uint8_t type_of;
    struct sy_error err = {.text = ""};
    members_wire(&wired, LINK_BACKEND);
    const struct backend_link_config config = {
        .wiring = &wired.wiring,
        .schedulers = schedulers,
        .scheduler_count = 1,
        .self = {.incarnation = 1, .version = "x", .name = "real"},
        .beat_ns = 60 * NS_PER_S,
        .models = &model,
        .model_count = 1,
        .types = {"t"},
        .profiles = {no_profiles},
        .type_count = 1,
        .accelerator_type = &type_of,
        .inputs_bytes_max = 1 << 20,
    };
    CHECK_EQ(backend_link_start(&link_of_backend, &config, &err), 0);
    liars_pump(turns); /* it connects to the scheduler */
}

static void backend_end(void) {
    for (struct liar *l = liars; l < liars + LIARS; l++)
        liar_close(l);
    liars_pump(turns);
    backend_link_stop(link_of_backend);
    backend_link_free(link_of_backend);
    wiring_destroy(&wired.wiring);
}

/* The scheduler lets it in, and tells of a frontend, which lets it in, too. */
static void meet(struct bytes *in) {
    struct hello hello = {.role = ROLE_SCHEDULER, .version = "x", .number = 1, .term = 9};
    hello_formats(&hello);
    if (liars[0].open && !liars[0].peer.closed) {
        hello_send(&liars[0].peer, FRAME_WELCOME, &hello);
        hello_agree(&hello, &hello, &liars[0].peer.format, NULL);
        liars_pump(turns);
        hello.role = ROLE_FRONTEND;
        hello.number = 1;
        hello.incarnation = 7 + bytes_u8(in) % 2;
        hello.lanes = 2;
        hello.slots = LIAR_SLOTS;
        strcpy(hello.address, "127.0.0.1:1");
        hello_send(&liars[0].peer, FRAME_FRONTEND, &hello);
        liars_pump(turns);
    }
    for (struct liar *l = liars + 1; l < liars + LIARS; l++)
        if (l->open && !l->peer.closed) {
            hello_send(&l->peer, FRAME_WELCOME, &hello);
            hello_agree(&hello, &hello, &l->peer.format, NULL);
        }
    liars_pump(turns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes in = {data, size};
    if (!liar_description) {
        model = members_model;
        model.version = 1;
        model.slo_ns = NS_PER_S;
        model.weight = 1;
        strcpy(model.contents, "00");
        model.signature.output_count = 1;
        static struct tensor_spec output = {.name = "y", .type = DATATYPE_UINT8, .dim_count = 2, .dims = {-1, -1}};
        model.signature.outputs = &output;
        liar_set_up(&model);
    }
    backend_begin();
    while (in.left > 0) {
        uint8_t what = bytes_u8(&in);
        struct liar *l = &liars[(what >> 4) % LIARS];
        if (what % 16 == 0)
            liars_pump(turns);
        else if (what % 16 == 1)
            liar_close(l);
        else if (what % 16 == 2)
            meet(&in);
        else if (what == 255)
            busy = !busy;
        else if (l->open)
            liar_says(l, &in);
    }
    busy = false;
    liars_pump(turns);
    backend_end();
    return 0;
}
