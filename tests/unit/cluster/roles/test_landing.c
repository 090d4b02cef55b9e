/* test_landing.c - cards that were pulled are held against their model, and their inputs get memory that executors
 * find.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cluster/roles/landing.h"
#include "core/data/visible.h"
#include "front/bulk/slab.h"
#include "specs.h"
#include "unit/cluster/roles/landing_model.h"
#include "unit/test.h"

#define NUMBER 3
#define LANES  2
#define SLOTS  4

/* Without strings. */
static struct served_model landing_model_plain = {
    .name = "plain",
    .batch_max = 8,
    .signature = {.input_count = 2,
                  .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 3}},
                                  {.name = "e", .type = DATATYPE_INT8, .dim_count = 2, .dims = {-1, -1}}),
                  .batched = true},
};

static struct served_model landing_model_open = {
    .name = "open",
    .batch_max = 8,
    .signature = {.input_count = 1,
                  .inputs = SPECS({.name = "x", .type = DATATYPE_FP64, .dim_count = 2, .dims = {-1, -1}}),
                  .batched = true},
};

struct card {
    struct wire_card card;
    struct card_input inputs[TENSORS_MAX];
};

struct ground {
    struct wiring wiring;
    struct slab *slab;
    struct landing landing;
};

static uint64_t handle_at(uint32_t lane, uint32_t slot) {
    return handle_of(NUMBER * HELLO_LANES_MAX + lane, slot, 1);
}

/* Two items; the optional input is not given. */
static struct card card_make(uint64_t handle) {
    return (struct card){.card = {.handle = handle, .items = 2, .work = 1, .input_count = 3},
                         .inputs = {{.bytes = 24, .dim_count = 2, .dims = {2, 3}},
                                    {.offset = 24, .bytes = 11, .dim_count = 2, .dims = {2, 1}},
                                    {.offset = 35, .region = REGION_NONE}}};
}

static int ground_make(void **state) {
    struct ground *g = calloc(1, sizeof(*g));
    g->wiring.link = LINK_BACKEND;
    g->wiring.cards = calloc(wiring_numbers(&g->wiring), sizeof(*g->wiring.cards));
    g->wiring.regions = calloc(2, sizeof(*g->wiring.regions));
    g->slab = slab_create((size_t)3 << 20);
    g->wiring.regions[0].base = slab_range(g->slab, &g->wiring.regions[0].bytes);
    *state = g;
    return landing_init(&g->landing, &g->wiring, g->slab, &landing_model, NUMBER, LANES, SLOTS);
}

static int ground_free(void **state) {
    struct ground *g = *state;
    landing_destroy(&g->landing);
    assert_int_equal(slab_bytes_taken(g->slab), 0);
    slab_destroy(g->slab);
    free(g->wiring.cards);
    free(g->wiring.regions);
    free(g);
    return 0;
}

static struct landed *pulling(struct ground *g, uint64_t handle) {
    struct landed *landed = landing_place(&g->landing, handle);
    *landed = (struct landed){.handle = handle, .state = LANDED_PULLING};
    return landed;
}

TEST_WITH(handles_of_others_have_no_place, ground_make, ground_free) {
    struct ground *g = *state;
    assert_non_null(landing_place(&g->landing, handle_at(LANES - 1, SLOTS - 1)));
    assert_null(landing_place(&g->landing, handle_at(LANES, 0)));
    assert_null(landing_place(&g->landing, handle_at(0, SLOTS)));
    assert_null(landing_place(&g->landing, handle_of((NUMBER + 1) * HELLO_LANES_MAX, 0, 1)));
    assert_null(landing_place(&g->landing, UINT64_MAX));
}

TEST_WITH(executors_find_what_landed, ground_make, ground_free) {
    struct ground *g = *state;
    uint64_t handle = handle_at(1, 2);
    struct landed *landed = pulling(g, handle);
    struct card card = card_make(handle);
    struct iovec pieces[TENSORS_MAX];
    struct sy_error err;
    uint32_t count;

    assert_int_equal(landing_take(&g->landing, landed, &card.card, 77, pieces, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_true(landed->arrives);
    assert_int_equal(pieces[0].iov_len, 24);
    assert_int_equal(pieces[1].iov_len, 11);
    memcpy(pieces[0].iov_base, "123456789012345678901234", 24);
    memcpy(pieces[1].iov_base, "\3\0\0\0abc\0\0\0\0", 11);
    assert_int_equal(landing_over(&g->landing, landed, &err), 0);
    assert_int_equal(landed->state, LANDED_ALL);
    assert_false(landed->arrives);

    const struct request_card *found = &g->wiring.cards[handle_frontend(handle)][handle_slot(handle)];
    assert_ptr_equal(found, landing_card(&g->landing, landed));
    assert_int_equal(found->handle, handle);
    assert_int_equal(found->deadline_ns, 77);
    struct tensor_view x = card_view(found, 0, g->wiring.regions), s = card_view(found, 1, g->wiring.regions);
    assert_memory_equal(x.data, "123456789012345678901234", 24);
    assert_memory_equal(s.data, "\3\0\0\0abc\0\0\0\0", 11);
    assert_int_equal((uintptr_t)s.data % CACHE_LINE, 0);
    assert_null(card_view(found, 2, g->wiring.regions).data);
    struct iovec again[TENSORS_MAX];
    assert_int_equal(landing_pieces(&g->landing, landed, g->wiring.regions, again), 2);
    assert_ptr_equal(again[1].iov_base, pieces[1].iov_base);
    landing_give(&g->landing, landed);
    assert_int_equal(found->handle, 0);
    assert_int_equal(landed->handle, 0);
}

/* A frontend's memory of one lane's cards and one region, mapped. The first user is the caller. */
static struct frontend_memory *memory_make(char **region, struct request_card **cards) {
    const size_t bytes = 4096, all_bytes = cards_bytes(SLOTS);
    int fds[] = {visible_create(all_bytes), visible_create(bytes)};
    const struct wire_region regions[] = {{.bytes = all_bytes, .cards = 1}, {.bytes = bytes, .number = 1}};
    struct frontend_memory *memory = frontend_memory_create(1, SLOTS);
    assert_non_null(*cards = visible_map(fds[0], all_bytes));
    assert_non_null(*region = visible_map(fds[1], bytes));
    for (int i = 0; i < 2; i++) {
        assert_true(frontend_memory_map(memory, &regions[i], fds[i]));
        close(fds[i]);
    }
    return memory;
}

/* Executors find them there, and it stays mapped for them when the connection that it came by is lost. */
TEST_WITH(inputs_may_stay_in_a_frontends_memory, ground_make, ground_free) {
    struct ground *g = *state;
    uint64_t handle = handle_at(0, 1);
    struct landed *landed = pulling(g, handle);
    struct card card = {.card = {.handle = handle, .items = 2, .work = 1, .input_count = 2},
                        .inputs = {{.bytes = 24, .dim_count = 2, .dims = {2, 3}}, {.dim_count = 2, .dims = {2, 0}}}};
    struct request_card *theirs;
    struct sy_error err;
    char *region;
    struct frontend_memory *memory = memory_make(&region, &theirs);

    g->landing.models = &landing_model_plain;
    memcpy(region + 64, "123456789012345678901234", 24);
    theirs[1].handle = 9;
    const char *from = frontend_memory_at(memory, 1, 64, 24);
    assert_int_equal(
        landing_take_in_place(&g->landing, landed, &card.card, 77, &from, memory, &memory->cards[0][1], 9, &err), 0);
    assert_int_equal(landed->state, LANDED_ALL);
    assert_int_equal(slab_bytes_taken(g->slab), 0);
    frontend_memory_put(memory); /* the connection's */
    const struct request_card *found = landing_card(&g->landing, landed);
    assert_int_equal(found->handle, handle);
    assert_int_equal(found->deadline_ns, 77);
    assert_true(card_is_elsewhere(found));
    assert_memory_equal(card_view(found, 0, g->wiring.regions).data, "123456789012345678901234", 24);
    assert_non_null(card_view(found, 1, g->wiring.regions).data); /* it is given, and empty */
    assert_false(card_has_ended(found));
    theirs[1].handle = 0;
    assert_true(card_has_ended(found));
    landing_give(&g->landing, landed);
    assert_null(landed->memory);
    munmap(region, 4096);
    munmap(theirs, cards_bytes(SLOTS));
}

TEST_WITH(inputs_in_place_are_checked_as_others_are, ground_make, ground_free) {
    struct ground *g = *state;
    struct card card = {.card = {.handle = handle_at(0, 1), .items = 2, .work = 1, .input_count = 2},
                        .inputs = {{.bytes = 24, .dim_count = 2, .dims = {2, 4}}, {.dim_count = 2, .dims = {2, 0}}}};
    struct landed *landed = pulling(g, card.card.handle);
    struct request_card *theirs;
    struct sy_error err = {.text = ""};
    char *region;
    struct frontend_memory *memory = memory_make(&region, &theirs);
    const char *from = frontend_memory_at(memory, 1, 0, 24);

    assert_false(landing_in_place(&g->landing, 0)); /* it takes strings */
    g->landing.models = &landing_model_plain;
    assert_true(landing_in_place(&g->landing, 0));
    assert_int_equal(
        landing_take_in_place(&g->landing, landed, &card.card, 0, &from, memory, &memory->cards[0][1], 9, &err),
        -EINVAL);
    assert_true(*err.text);
    assert_int_equal(landed->state, LANDED_GONE);
    assert_int_equal(memory->users, 1);
    landing_give(&g->landing, landed);
    frontend_memory_put(memory);
    munmap(region, 4096);
    munmap(theirs, cards_bytes(SLOTS));
}

/* Others have taken so many bytes. */
static void refused_beside(struct ground *g, struct card card, int wanted, size_t others) {
    struct landed *landed = pulling(g, card.card.handle);
    struct iovec pieces[TENSORS_MAX];
    struct sy_error err = {.text = ""};
    uint32_t count;
    assert_int_equal(landing_take(&g->landing, landed, &card.card, 0, pieces, &count, &err), wanted);
    assert_int_equal(count, 0);
    assert_true(*err.text);
    assert_int_equal(landed->state, LANDED_GONE);
    assert_null(landed->block);
    assert_false(landed->arrives);
    assert_int_equal(slab_bytes_taken(g->slab), others);
    landing_give(&g->landing, landed);
}

static void refused(struct ground *g, struct card card, int wanted) {
    refused_beside(g, card, wanted, 0);
}

TEST_WITH(what_the_model_does_not_take_is_refused, ground_make, ground_free) {
    struct ground *g = *state;
    const struct card whole = card_make(handle_at(0, 1));
    struct card card;
#define REFUSED(change)                                                                                                \
    do {                                                                                                               \
        card = whole;                                                                                                  \
        change;                                                                                                        \
        refused(g, card, -EINVAL);                                                                                     \
    } while (0)
    REFUSED(card.card.input_count = 2);
    REFUSED(card.card.items = 3);
    REFUSED(card.card.items = 9); /* more than a batch has */
    REFUSED(card.inputs[0].bytes = 20);
    REFUSED(card.inputs[0].dim_count = 1);
    REFUSED(card.inputs[0].dims[1] = 4);
    REFUSED(card.inputs[1].dims[1] = 4);          /* more strings than bytes could hold */
    REFUSED(card.inputs[0].region = REGION_NONE); /* which is not optional */
    g->landing.models = &landing_model_open;
    /* 2^61 + 2 elements of 8 bytes: in 64 bits, that is 16 */
    REFUSED((card.card.input_count = 1, card.inputs[0].bytes = 16, card.inputs[0].dims[1] = (1LL << 60) + 1));
}

TEST_WITH(inputs_that_there_is_no_memory_for_are_refused, ground_make, ground_free) {
    struct ground *g = *state;
    struct card card = card_make(handle_at(0, 0));
    card.inputs[1].bytes = (uint64_t)4 << 20;
    refused(g, card, -EFBIG);
    void *others = slab_take(g->slab, (size_t)2 << 20);
    card.inputs[1].bytes = (uint64_t)2 << 20; /* which fits when these are gone */
    refused_beside(g, card, -ENOMEM, slab_bytes_taken(g->slab));
    slab_give(others);
}

TEST_WITH(strings_that_are_none_are_refused, ground_make, ground_free) {
    struct ground *g = *state;
    uint64_t handle = handle_at(0, 3);
    struct landed *landed = pulling(g, handle);
    struct card card = card_make(handle);
    struct iovec pieces[TENSORS_MAX];
    struct sy_error err = {.text = ""};
    uint32_t count;
    assert_int_equal(landing_take(&g->landing, landed, &card.card, 0, pieces, &count, &err), 0);
    memset(pieces[1].iov_base, 0xff, pieces[1].iov_len);
    assert_int_equal(landing_over(&g->landing, landed, &err), -EINVAL);
    assert_true(*err.text);
    assert_int_equal(landed->state, LANDED_GONE);
    assert_int_equal(slab_bytes_taken(g->slab), 0);
    landing_give(&g->landing, landed);
}

/* Its card is there at once, its inputs come later, into the same memory, and only then does an executor read them. */
TEST_WITH(inputs_that_are_prepared_land_later, ground_make, ground_free) {
    struct ground *g = *state;
    uint64_t handle = handle_at(0, 2);
    struct landed *landed = pulling(g, handle);
    struct card card = card_make(handle);
    struct iovec pieces[TENSORS_MAX];
    struct sy_error err = {.text = ""};
    uint32_t count;

    assert_int_equal(landing_take_unready(&g->landing, landed, &card.card, 77, &err), 0);
    assert_int_equal(landed->state, LANDED_UNREADY);
    assert_false(landed->arrives);
    const struct request_card *found = landing_card(&g->landing, landed);
    assert_int_equal(found->handle, handle);
    assert_int_equal(found->items, 2);
    assert_int_equal(found->unready, 1);
    size_t taken = slab_bytes_taken(g->slab);
    assert_true(taken > 0);

    struct card other = card; /* not what was announced */
    other.inputs[0].bytes = 12;
    assert_int_equal(landing_take(&g->landing, landed, &other.card, 77, pieces, &count, &err), -EINVAL);
    other = card;
    other.inputs[1].dims[1] = 2;
    assert_int_equal(landing_take(&g->landing, landed, &other.card, 77, pieces, &count, &err), -EINVAL);
    other = card;
    other.card.items = 1;
    assert_int_equal(landing_take(&g->landing, landed, &other.card, 77, pieces, &count, &err), -EINVAL);
    assert_int_equal(landed->state, LANDED_UNREADY);

    assert_int_equal(landing_take(&g->landing, landed, &card.card, 78, pieces, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_true(landed->arrives);
    assert_int_equal(found->deadline_ns, 77); /* an executor may have it: nothing of it changes */
    assert_int_equal(slab_bytes_taken(g->slab), taken);
    memset(pieces[1].iov_base, 0xff, pieces[1].iov_len);
    assert_int_equal(landing_over(&g->landing, landed, &err), -EINVAL); /* no strings */
    assert_int_equal(landed->state, LANDED_UNREADY);
    assert_int_equal(found->unready, 1);
    assert_int_equal(landing_take(&g->landing, landed, &card.card, 78, pieces, &count, &err), 0);
    memcpy(pieces[0].iov_base, "123456789012345678901234", 24);
    memcpy(pieces[1].iov_base, "\3\0\0\0abc\0\0\0\0", 11);
    assert_int_equal(landing_over(&g->landing, landed, &err), 0);
    assert_int_equal(landed->state, LANDED_ALL);
    assert_int_equal(found->unready, 0);
    assert_memory_equal(card_view(found, 0, g->wiring.regions).data, "123456789012345678901234", 24);
    landing_give(&g->landing, landed);
}

TEST_WITH(what_is_prepared_for_no_such_model_is_refused, ground_make, ground_free) {
    struct ground *g = *state;
    struct card card = card_make(handle_at(0, 1));
    struct landed *landed = pulling(g, card.card.handle);
    struct sy_error err = {.text = ""};
    card.inputs[0].dims[1] = 4;
    assert_int_equal(landing_take_unready(&g->landing, landed, &card.card, 0, &err), -EINVAL);
    assert_int_equal(landed->state, LANDED_GONE);
    assert_int_equal(slab_bytes_taken(g->slab), 0);
    landing_give(&g->landing, landed);
}

/* ---- more inputs than a card holds ---- */

#define MANY (CARD_INPUTS + 4)

/* Of one float an item each, two items. */
static struct card many_make(struct ground *g, uint64_t handle) {
    static struct tensor_spec inputs[MANY];
    static struct served_model wide = {
        .name = "wide", .batch_max = 8, .signature = {.input_count = MANY, .batched = true, .inputs = inputs}};
    struct card card = {.card = {.handle = handle, .items = 2, .work = 1, .input_count = MANY}};
    for (uint32_t i = 0; i < MANY; i++) {
        inputs[i] = (struct tensor_spec){.type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 1}};
        card.inputs[i] = (struct card_input){.offset = 8 * i, .bytes = 8, .dim_count = 2, .dims = {2, 1}};
    }
    g->landing.models = &wide;
    return card;
}

static void many_check(const struct ground *g, const struct request_card *found) {
    for (uint32_t i = 0; i < MANY; i++) {
        struct tensor_view view = card_view(found, i, g->wiring.regions);
        assert_int_equal(view.bytes, 8);
        assert_int_equal(view.dims[0], 2);
        assert_int_equal(((const uint32_t *)view.data)[1], i);
    }
}

TEST_WITH(many_inputs_land_too, ground_make, ground_free) {
    struct ground *g = *state;
    uint64_t handle = handle_at(1, 2);
    struct landed *landed = pulling(g, handle);
    struct card card = many_make(g, handle), other = card;
    struct iovec pieces[TENSORS_MAX];
    struct sy_error err;
    uint32_t count;

    assert_int_equal(landing_take_unready(&g->landing, landed, &card.card, 77, &err), 0);
    other.inputs[MANY - 1].bytes = 4; /* not what was announced */
    assert_int_equal(landing_take(&g->landing, landed, &other.card, 77, pieces, &count, &err), -EINVAL);
    assert_int_equal(landing_take(&g->landing, landed, &card.card, 77, pieces, &count, &err), 0);
    assert_int_equal(count, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        ((uint32_t *)pieces[i].iov_base)[1] = i;
    assert_int_equal(landing_over(&g->landing, landed, &err), 0);
    many_check(g, landing_card(&g->landing, landed));
    landing_give(&g->landing, landed);
}

TEST_WITH(many_inputs_may_stay_where_they_are, ground_make, ground_free) {
    struct ground *g = *state;
    uint64_t handle = handle_at(0, 1);
    struct landed *landed = pulling(g, handle);
    struct card card = many_make(g, handle);
    struct request_card *theirs;
    struct sy_error err = {.text = ""};
    const char *from[MANY];
    char *region;
    struct frontend_memory *memory = memory_make(&region, &theirs);
    theirs[1].handle = 9;
    for (uint32_t i = 0; i < MANY; i++) {
        from[i] = frontend_memory_at(memory, 1, 8 * i, 8);
        ((uint32_t *)(region + 8 * i))[1] = i;
    }

    void *others = slab_take(g->slab, ((size_t)2 << 20) + 1); /* which leaves nothing for what the card has not */
    assert_int_equal(
        landing_take_in_place(&g->landing, landed, &card.card, 77, from, memory, &memory->cards[0][1], 9, &err),
        -ENOMEM);
    assert_true(*err.text);
    assert_int_equal(landed->state, LANDED_GONE);
    assert_int_equal(memory->users, 1);
    landing_give(&g->landing, landed);
    slab_give(others);

    landed = pulling(g, handle);
    assert_int_equal(
        landing_take_in_place(&g->landing, landed, &card.card, 77, from, memory, &memory->cards[0][1], 9, &err), 0);
    many_check(g, landing_card(&g->landing, landed));
    assert_true(card_is_elsewhere(landing_card(&g->landing, landed)));
    landing_give(&g->landing, landed);
    assert_int_equal(memory->users, 1);
    frontend_memory_put(memory);
    munmap(region, 4096);
    munmap(theirs, cards_bytes(SLOTS));
}
