/* fuzz_scheduler_link.c - a scheduler, its cores included, whose frontends, backends, visitors and fellow schedulers
 * lie. */
/* runs: 400 */
#include "cluster/roles/scheduler_link.h"
#include "core/data/residency.h"
#include "liar.h"
#include "sched/core/policy.h"
#include "sched/threads/rank_thread.h"
#include "specs.h"

#define MODELS       2
#define VARIANTS     (MODELS + VARIANTS_MAX)
#define ACCELERATORS 4
#define REQUESTS     32
#define RANKS        2

/* What the scheduler is, by an input's first byte; any other byte: one alone, which orders no loads. */
enum kind {
    SEVERAL = 0xff, /* the first of two */
    ORDERS = 0xfe,  /* it orders loads */
    RANKED = 0xfd,  /* the same, with several rank threads */
    CENTRAL = 0xfc, /* a central policy orders loads */
};

static struct wiring wiring;
static struct model_thread *model_thread;
static struct rank_thread *rank_threads[RANKS];
static struct central_thread *central_thread; /* instead of these; NULL: it has no central policy */
static struct scheduler_link *link_of_scheduler;
static bool link_orders;
static struct served_model model = {
    .name = "m",
    .version = 1,
    .batch_max = 8,
    .slo_ns = NS_PER_S,
    .weight = 1,
    .contents = "00",
    .signature = {.input_count = 1,
                  .inputs = SPECS({.name = "x", .type = DATATYPE_UINT8, .dim_count = 2, .dims = {-1, -1}}),
                  .output_count = 1,
                  .outputs = SPECS({.name = "y", .type = DATATYPE_UINT8, .dim_count = 2, .dims = {-1, -1}}),
                  .batched = true,
                  .variable_shapes = true},
};

static void turns(void) {
    for (int i = 0; i < 3; i++) {
        if (central_thread) {
            central_thread_turn(central_thread);
            continue;
        }
        model_thread_turn(model_thread);
        for (uint32_t k = 0; k < wiring.rank_threads; k++)
            rank_thread_turn(rank_threads[k]);
    }
}

static void scheduler_begin(enum kind kind) {
    static struct place_id places_of[VARIANTS];
    static struct memory_counters counters[MODELS];
    static const struct rank_weights weights[VARIANTS];
    static const char *const peers[] = {"real:1", "liar:1"};
    static uint32_t zeros[VARIANTS];
    static uint8_t types[ACCELERATORS], ranks[ACCELERATORS], nobody[VARIANTS];
    struct sy_error err = {.text = ""};
    bool orders = kind == ORDERS || kind == RANKED, central = kind == CENTRAL;
    for (uint32_t a = 0; a < ACCELERATORS; a++)
        ranks[a] = (uint8_t)(kind == RANKED ? a % RANKS : 0);
    memset(nobody, SUBCLUSTER_NONE, sizeof(nobody));
    wiring = (struct wiring){
        .frontends = 1,
        .model_threads = 1,
        .rank_threads = kind == RANKED ? RANKS : 1,
        .central = central,
        .executors = 1,
        .accelerators = ACCELERATORS,
        .link = LINK_SCHEDULER,
        .models = VARIANTS,
        .models_unused = VARIANTS,
        .types = ACCELERATOR_TYPES_MAX,
        .batch_max = 8,
        .port_requests = REQUESTS,
        .thread_of_variant = zeros,
        .thread_of_served = zeros,
        .executor_of = zeros,
        .subcluster_of_accelerator = ranks,
        .subcluster_of_model = nobody,
        .place_of_variant = orders ? places_of : NULL,
        .memory_counters = orders || central ? counters : NULL,
    };
    link_orders = orders || central;
    CHECK_EQ(wiring_init(&wiring, true, &err), 0);
    struct thread_model places[MODELS] = {{.place = {0}}, {.place = {1}}};
    static struct policy_options options;
    const struct policy_ops *policy = policy_find(central ? "clockwork" : "deferred", &err);
    CHECK(policy);
    policy_options_preset(policy, &options);
    const struct thread_rings_config rings = {
        .wiring = &wiring, .models = places, .model_count = MODELS, .queue_max = REQUESTS, .ctrl_ns = 1000};
    const struct central_thread_config centrals = {
        .rings = rings,
        .accelerator_type = types,
        .types = CENTRAL_TYPES_MAX,
        .absent = true,
        .limited = true,
        .page_bytes = CPU_PAGE_BYTES,
        .policy = policy,
        .policy_options = &options,
    };
    struct model_thread_config models = {
        .rings = rings, .types = ACCELERATOR_TYPES_MAX, .policy = policy, .policy_options = &options};
    if (central)
        CHECK_EQ(central_thread_make(&central_thread, &centrals, &err), 0);
    else
        CHECK_EQ(model_thread_make(&model_thread, &models, &err), 0);
    struct rank_core_config cores = {.models = VARIANTS,
                                     .accelerators = ACCELERATORS,
                                     .accelerator_type = types,
                                     .types = ACCELERATOR_TYPES_MAX,
                                     .absent = true,
                                     .grace_ns = RANK_GRACE_NS,
                                     .limited = orders,
                                     .told = orders,
                                     .memory_pages = MEMORY_PAGES_MOST,
                                     .weights = weights,
                                     .policy = policy,
                                     .policy_options = &options};
    for (uint32_t k = 0; k < wiring.rank_threads && !central; k++)
        CHECK_EQ(rank_thread_make(&rank_threads[k], &wiring, k, &cores, &err), 0);
    const struct scheduler_link_config config = {
        .wiring = &wiring,
        .model_threads = &model_thread,
        .central_thread = central_thread,
        .models_max = MODELS,
        .models_served_max = MODELS,
        .listen_fd = -1,
        .self = {.incarnation = 1, .version = "x", .name = "real"},
        .beat_ns = 60 * NS_PER_S,
        .peers = peers,
        .orders_loads = orders,
        .central_loads = central,
        .peer_count = kind == SEVERAL ? ARRAY_COUNT(peers) : 0,
    };
    CHECK_EQ(scheduler_link_start(&link_of_scheduler, &config, &err), 0);
}

static void scheduler_end(void) {
    for (struct liar *l = liars; l < liars + LIARS; l++)
        liar_close(l);
    liars_pump(turns);
    scheduler_link_stop(link_of_scheduler);
    scheduler_link_free(link_of_scheduler);
    if (central_thread)
        central_thread_stop(central_thread);
    else
        model_thread_stop(model_thread);
    for (uint32_t k = 0; k < wiring.rank_threads && !central_thread; k++)
        rank_thread_stop(rank_threads[k]);
    central_thread = NULL;
    wiring_destroy(&wiring);
}

/* A backend that has told all, and a frontend. */
static void join(struct liar *l, enum cluster_role role, struct bytes *in) {
    const uint32_t zero = 0;
    liar_connects(l, role);
    liar_hello(l, FRAME_HELLO, in);
    if (role == ROLE_BACKEND) {
        struct wire_accelerator types[2] = {{"t"}, {"t"}};
        struct freed_message joins[2] = {{.news = NEWS_JOINS}, {.news = NEWS_JOINS, .accelerator = 1}};
        char *head = peer_frame(&l->peer, FRAME_MODEL, 1, sizeof(zero) + liar_description_bytes, 0);
        memcpy(head, &zero, sizeof(zero));
        memcpy(head + sizeof(zero), liar_description, liar_description_bytes);
        peer_send(&l->peer, FRAME_ACCELERATORS, 2, types, sizeof(types));
        peer_send(&l->peer, FRAME_TOLD, 0, NULL, 0);
        if (link_orders) {
            const struct wire_memory memory = {.session = 1, .pages = 1 + bytes_u8(in) % 4, .grain = 1};
            peer_send(&l->peer, FRAME_MEMORY, 1, &memory, sizeof(memory));
        }
        peer_send(&l->peer, FRAME_FREED, 2, joins, sizeof(joins));
    }
    liars_pump(turns);
}

/* Tells the end of an order to load or unload, the oldest one if there is one. */
static void move_ends(struct liar *l, struct bytes *in) {
    struct wire_moved moved;
    liar_struct(l, FRAME_MOVED, &moved, in);
    peer_send(&l->peer, FRAME_MOVED, 1, &moved, sizeof(moved));
    liars_pump(turns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes in = {data, size};
    if (!liar_description)
        liar_set_up(&model);
    scheduler_begin(size > 0 ? *data : 0);
    while (in.left > 0) {
        uint8_t what = bytes_u8(&in);
        struct liar *l = &liars[(what >> 3) % LIARS];
        enum cluster_role role = (what >> 5) % ROLE_COUNT;
        if (what % 8 == 0)
            liars_pump(turns);
        else if (what % 8 == 1)
            liar_close(l);
        else if (what % 8 == 2)
            liar_connects(l, role);
        else if (what % 8 == 3)
            join(l, role, &in);
        else if (what % 8 == 7 && l->open && !l->peer.closed)
            move_ends(l, &in);
        else if (l->open)
            liar_says(l, &in);
    }
    liars_pump(turns);
    scheduler_end();
    return 0;
}
