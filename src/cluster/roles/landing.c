/* landing.c - takes cards and inputs that were pulled, and checks them against the model's signature. */
#include "cluster/roles/landing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "core/data/strings.h"
#include "front/bulk/slab.h"

/* Further inputs of a card lie in its request's block. */
static size_t all_bytes(const struct landing *l) {
    return (size_t)l->lanes * l->slots * sizeof(struct request_card);
}

int landing_init(struct landing *l, struct wiring *wiring, struct slab *slab, const struct served_model *models,
                 uint32_t number, uint32_t lanes, uint32_t slots) {
    *l = (struct landing){
        .number = number, .lanes = lanes, .slots = slots, .slab = slab, .wiring = wiring, .models = models};
    l->landed = calloc((size_t)lanes * slots, sizeof(*l->landed));
    void *cards = mmap(NULL, all_bytes(l), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!l->landed || cards == MAP_FAILED) {
        if (cards != MAP_FAILED)
            munmap(cards, all_bytes(l));
        free(l->landed);
        l->landed = NULL;
        return -ENOMEM;
    }
    l->cards = cards;
    for (uint32_t lane = 0; lane < lanes; lane++) /* published to an executor with the first plan that needs it */
        wiring->cards[number * HELLO_LANES_MAX + lane] = l->cards + (size_t)lane * slots;
    return 0;
}

void landing_destroy(struct landing *l) {
    for (size_t i = 0; l->landed && i < (size_t)l->lanes * l->slots; i++) {
        slab_give(l->landed[i].block);
        frontend_memory_put(l->landed[i].memory);
    }
    if (l->cards)
        munmap(l->cards, all_bytes(l));
    free(l->landed);
    *l = (struct landing){.number = l->number};
}

static size_t place_of(const struct landing *l, const struct landed *landed) {
    return (size_t)(landed - l->landed);
}

struct landed *landing_place(const struct landing *l, uint64_t handle) {
    size_t place = handle_place(handle, l->number, l->lanes, l->slots);
    return place == HANDLE_STRANGE ? NULL : &l->landed[place];
}

const struct request_card *landing_card(const struct landing *l, const struct landed *landed) {
    return &l->cards[place_of(l, landed)];
}

/* ---- what fits ---- */

/* Whether an input fits the model's signature; the executors and the engine do not check. */
static bool input_fits(const struct signature *signature, uint32_t i, const struct card_input *input, uint32_t items) {
    const struct tensor_spec *spec = &signature->inputs[i];
    if (input->region == REGION_NONE)
        return signature->inputs_optional >> i & 1;
    if (input->dim_count != spec->dim_count || (signature->batched && input->dims[0] != items))
        return false;
    for (uint32_t d = signature->batched; d < input->dim_count; d++)
        if (input->dims[d] < 0 || (spec->dims[d] >= 0 && input->dims[d] != spec->dims[d]))
            return false;
    return datatype_fits(spec->type, (uint64_t)dims_product(input->dims, 0, input->dim_count), input->bytes);
}

static bool card_fits(const struct served_model *model, const struct wire_card *card) {
    const struct card_input *inputs = (const struct card_input *)(card + 1);
    const struct signature *signature = &model->signature;
    if (card->input_count != signature->input_count || card->items > model->batch_max)
        return false;
    for (uint32_t i = 0; i < card->input_count; i++)
        if (!input_fits(signature, i, &inputs[i], card->items))
            return false;
    return true;
}

static int gone(struct landing *l, struct landed *landed, int rc) {
    slab_give(landed->block);
    landed->block = NULL;
    landed->arrives = false;
    landed->state = LANDED_GONE;
    l->cards[place_of(l, landed)].handle = 0;
    return rc;
}

static size_t aligned(uint64_t bytes) {
    return (size_t)(bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

/* Bytes in the request's block for the card's entries beyond CARD_INPUTS. */
static size_t more_bytes(const struct wire_card *card) {
    return card->input_count > CARD_INPUTS ? aligned((card->input_count - CARD_INPUTS) * sizeof(struct card_input)) : 0;
}

static int no_memory(struct landing *l, struct landed *landed, size_t bytes, struct sy_error *err) {
    bool ever = slab_bound_allows(l->slab, bytes);
    return gone(l, landed,
                ever ? error_set(err, -ENOMEM, "no memory now for inputs of %zu bytes (--inputs-max-mib)", bytes)
                     : error_set(err, -EFBIG, "inputs of %zu bytes, more than --inputs-max-mib allows", bytes));
}

/* Whether a card is the one that was taken while its inputs were being prepared: an executor may have it by now. */
static bool is_same(const struct request_card *own, const struct wire_card *card) {
    const struct card_input *inputs = (const struct card_input *)(card + 1);
    if (card->input_count != own->input_count || card->items != own->items)
        return false;
    for (uint32_t i = 0; i < card->input_count; i++) {
        const struct card_input *first = card_input_at(own, i);
        if ((inputs[i].region == REGION_NONE) != (first->region == REGION_NONE) || inputs[i].bytes != first->bytes ||
            inputs[i].dim_count != first->dim_count ||
            memcmp(inputs[i].dims, first->dims, inputs[i].dim_count * sizeof(inputs[i].dims[0])) != 0)
            return false;
    }
    return true;
}

/* Takes a card, but for its inputs. Only the fields that it uses are written: a whole card is as large as the inputs of
 * a small request. */
static void card_take(struct request_card *own, const struct wire_card *card, int64_t deadline_ns) {
    own->handle = card->handle;
    own->deadline_ns = deadline_ns;
    own->items = card->items;
    own->work = card->work;
    own->delay = card->delay != 0;
    own->alone = card->alone != 0;
    atomic_store_explicit(&own->unready, 0, memory_order_relaxed); /* published to the executor with the plan */
    own->suffix = 0;
    own->input_count = card->input_count;
}

static int unfit(struct landing *l, struct landed *landed, struct sy_error *err) {
    return gone(l, landed,
                error_set(err, -EINVAL, "inputs that model '%s' does not take", l->models[landed->model].name));
}

bool landing_in_place(const struct landing *l, uint32_t model) {
    const struct signature *signature = &l->models[model].signature;
    bool strings = false;
    for (uint32_t i = 0; i < signature->input_count; i++)
        strings |= signature->inputs[i].type == DATATYPE_BYTES;
    return !strings;
}

int landing_take_in_place(struct landing *l, struct landed *landed, const struct wire_card *card, int64_t deadline_ns,
                          const char *const *from, struct frontend_memory *memory, const struct request_card *theirs,
                          uint64_t handle, struct sy_error *err) {
    const struct card_input *inputs = (const struct card_input *)(card + 1);
    struct request_card *own = &l->cards[place_of(l, landed)];

    if (!card_fits(&l->models[landed->model], card))
        return unfit(l, landed, err);
    if (more_bytes(card) && !(own->more = landed->block = slab_take(l->slab, more_bytes(card))))
        return no_memory(l, landed, more_bytes(card), err);
    card_take(own, card, deadline_ns);
    for (uint32_t i = 0; i < card->input_count; i++) {
        struct card_input *taken = card_input_at(own, i);
        *taken = inputs[i];
        if (inputs[i].region == REGION_NONE)
            continue;
        taken->region = REGION_FRONTEND;
        taken->offset = (uintptr_t)(inputs[i].bytes > 0 ? *from++ : (const char *)theirs); /* given, so not NULL */
    }
    own->origin = &theirs->handle;
    own->origin_handle = handle;
    landed->memory = frontend_memory_get(memory);
    landed->state = LANDED_ALL;
    return 0;
}

int landing_take(struct landing *l, struct landed *landed, const struct wire_card *card, int64_t deadline_ns,
                 struct iovec pieces[TENSORS_MAX], uint32_t *count, struct sy_error *err) {
    const struct card_input *inputs = (const struct card_input *)(card + 1);
    struct request_card *own = &l->cards[place_of(l, landed)];
    size_t total = more_bytes(card), range_bytes;

    *count = 0;
    if (landed->state == LANDED_UNREADY) {
        if (!is_same(own, card))
            return error_set(err, -EINVAL, "other inputs than were announced");
        *count = landing_pieces(l, landed, l->wiring->regions, pieces);
        landed->arrives = *count > 0;
        return 0;
    }
    if (!card_fits(&l->models[landed->model], card))
        return unfit(l, landed, err);
    for (uint32_t i = 0; i < card->input_count; i++)
        total += aligned(inputs[i].bytes);
    landed->block = total ? slab_take(l->slab, total) : NULL;
    if (total && !landed->block)
        return no_memory(l, landed, total, err);
    card_take(own, card, deadline_ns);
    own->more = landed->block;
    size_t at = landed->block ? (size_t)((uintptr_t)landed->block - slab_range(l->slab, &range_bytes)) : 0;
    at += more_bytes(card);
    for (uint32_t i = 0; i < card->input_count; i++) {
        struct card_input *taken = card_input_at(own, i);
        *taken = inputs[i];
        if (inputs[i].region == REGION_NONE)
            continue;
        taken->region = 0;
        taken->offset = at;
        at += aligned(inputs[i].bytes);
    }
    *count = landing_pieces(l, landed, l->wiring->regions, pieces);
    landed->arrives = *count > 0;
    return 0;
}

int landing_take_unready(struct landing *l, struct landed *landed, const struct wire_card *card, int64_t deadline_ns,
                         struct sy_error *err) {
    struct iovec pieces[TENSORS_MAX];
    uint32_t count;
    int rc = landing_take(l, landed, card, deadline_ns, pieces, &count, err);
    if (rc < 0)
        return rc;
    landed->arrives = false;
    landed->state = LANDED_UNREADY;
    /* relaxed: published to the executor with the plan */
    atomic_store_explicit(&l->cards[place_of(l, landed)].unready, 1, memory_order_relaxed);
    return 0;
}

uint32_t landing_pieces(const struct landing *l, const struct landed *landed, const struct region *regions,
                        struct iovec pieces[TENSORS_MAX]) {
    const struct request_card *card = landing_card(l, landed);
    uint32_t count = 0;
    for (uint32_t i = 0; i < card->input_count; i++)
        if (card_input_at(card, i)->bytes > 0)
            pieces[count++] = (struct iovec){region_at(regions, card_input_at(card, i)), card_input_at(card, i)->bytes};
    return count;
}

int landing_over(struct landing *l, struct landed *landed, struct sy_error *err) {
    struct request_card *card = &l->cards[place_of(l, landed)];
    const struct signature *signature = &l->models[landed->model].signature;
    bool unready = landed->state == LANDED_UNREADY;

    landed->arrives = false;
    for (uint32_t i = 0; i < card->input_count; i++) {
        const struct card_input *input = card_input_at(card, i);
        if (signature->inputs[i].type != DATATYPE_BYTES || input->region == REGION_NONE)
            continue;
        int64_t elements = dims_product(input->dims, 0, input->dim_count);
        if (strings_check(region_at(l->wiring->regions, input), input->bytes, elements, err) < 0)
            return unready ? -EINVAL : gone(l, landed, -EINVAL);
    }
    landed->state = LANDED_ALL;
    if (unready)
        atomic_store_explicit(&card->unready, 0, memory_order_release); /* with request_unready() */
    return 0;
}

bool landing_holds(const struct landing *l, uint32_t model) {
    for (size_t i = 0; l->landed && i < (size_t)l->lanes * l->slots; i++)
        if (l->landed[i].handle && l->landed[i].model == model)
            return true;
    return false;
}

void landing_give(struct landing *l, struct landed *landed) {
    slab_give(landed->block);
    frontend_memory_put(landed->memory);
    l->cards[place_of(l, landed)].handle = 0;
    *landed = (struct landed){.handle = 0};
}
