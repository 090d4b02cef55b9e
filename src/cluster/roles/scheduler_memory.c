/* scheduler_memory.c - which models each of the backends' accelerators has, where rank threads order loads.
 *
 *     backend                        link                                 rank thread of the accelerator
 *       FRAME_MEMORY, JOINS -------->|
 *       |                            | SIZE, OFFERED m, OFFERED n (there), BEGINS ------------>|
 *       |<------------- FRAME_MOVES  |<------------------------------------------- LOAD, UNLOAD |
 *       | FRAME_MOVED -------------->| the end of it ---------------------------------------->|
 *       MODEL_ENDS m --------------->| WITHDRAWN m ------------------------------------------>|
 *       |<--- UNLOAD m, if it is there, then MODEL_RESTS m |<--------------- m is given up (yields) |
 *
 * A rank thread knows of an accelerator only what it is told here: so no two backends need to have the same models, nor
 * the same memory, and a scheduler that takes over hears from the backends what they have. A model of an accelerator
 * belongs to one place at a time: when the model gets another place, it is withdrawn from the one before, given up by
 * the rank thread, unloaded, and offered to the next. What is told follows from what should be so (wanted()), which is
 * looked at again whenever something has changed.
 *
 * With several rank threads a place is of one of them, and only that one's accelerators offer it their model.
 * Place p is of the first one, from p modulo their number on, that has at least half as many accelerators with the
 * model as any: so models are spread where all backends have the same ones, and where they have not, each is where it
 * can run. A place that changes its rank thread is given up by the accelerators of the old one as it leaves,
 * unasked.
 *
 * Accelerators whose memory is not limited have all their models, and are never ordered anything. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link_state.h"
#include "core/data/residency.h"
#include "core/system/log.h"
#include "core/util/assert.h"

#define LOOK_APART_NS   (2 * NS_PER_MS) /* time between two looks at all models of all accelerators */
#define FAILED_NS       NS_PER_S        /* a model that an accelerator cannot load is not offered for so long */
#define PAGES_UNLIMITED (MEMORY_PAGES_MOST - 1)
#define OWN_MOST        64 /* orders of an accelerator that are the link's own */

/* An order that the backend has not answered. */
struct sent_order {
    struct move_order order;
    uint32_t known; /* number of the model in the catalogue */
    struct remote_id remote;
    bool own; /* the link's own: no rank thread waits for its end */
};

struct accelerator_memory {
    bool limited;
    bool cuts;
    uint32_t session, pages, grain; /* if limited: these and `cuts` as in struct wire_memory */
    uint32_t epoch;                 /* times that the rank thread was told that it leaves */
    bool sized, begun;              /* in this epoch: SIZE was told; BEGINS was */
    uint32_t taken; /* pages of the models that were offered as being there: until BEGINS, or always if not limited */
    uint32_t owned; /* own orders that are not answered */
    uint16_t *place_of;    /* [CATALOGUE_MODELS_MAX] place to which the model is offered, plus one; 0: none */
    uint64_t *withdrawn;   /* [CATALOGUE_MODELS_MAX / 64] models that the rank thread is about to give up: since it was
                            * told so, could not load them, or their place moves to another rank thread */
    uint64_t *resident;    /* the same: models that the accelerator has */
    int64_t *again_ns;     /* [CATALOGUE_MODELS_MAX] when to offer a model again that could not be loaded; NULL: none
                            * has failed */
    uint32_t first, count; /* orders[first..], a circle: as they were sent */
    struct sent_order orders[MEMORY_ORDERS_MOST + OWN_MOST];
};

static bool bit(const uint64_t *bits, uint32_t i) {
    return bits[i / 64] >> i % 64 & 1;
}

static void bit_set(uint64_t *bits, uint32_t i, bool to) {
    bits[i / 64] = to ? bits[i / 64] | 1ULL << i % 64 : bits[i / 64] & ~(1ULL << i % 64);
}

static struct accelerator_memory *memory_of(const struct scheduler_link *l, uint32_t a) {
    return l->accelerators[a].memory;
}

static uint32_t pages_at(const struct accelerator_memory *mem, const struct thread_model *model) {
    return (model->pages + mem->grain - 1) / mem->grain * mem->grain;
}

/* ---- accelerators come and go ---- */

int memory_begin(struct scheduler_link *l, uint32_t a) {
    struct accelerator_memory *mem = memory_of(l, a);
    if (!l->config.orders_loads)
        return 0;
    if (l->wiring->rank_threads > 1 && !l->able &&
        !(l->able = calloc((size_t)l->wiring->rank_threads * CATALOGUE_MODELS_MAX, sizeof(*l->able))))
        return -ENOMEM;
    if (!mem) {
        mem = l->accelerators[a].memory = calloc(1, sizeof(*mem));
        if (!mem)
            return -ENOMEM;
        mem->place_of = calloc(CATALOGUE_MODELS_MAX, sizeof(*mem->place_of));
        mem->withdrawn = calloc(CATALOGUE_MODELS_MAX / 64, sizeof(*mem->withdrawn));
        mem->resident = calloc(CATALOGUE_MODELS_MAX / 64, sizeof(*mem->resident));
        if (!mem->place_of || !mem->withdrawn || !mem->resident)
            return -ENOMEM; /* freed at the end */
    }
    CHECK_EQ(mem->count, 0);
    mem->limited = mem->cuts = false;
    mem->pages = PAGES_UNLIMITED;
    mem->grain = 1;
    memset(mem->resident, 0, CATALOGUE_MODELS_MAX / 8);
    return 0;
}

void memory_free(struct scheduler_link *l) {
    for (uint32_t a = 0; l->accelerators && a < l->wiring->accelerators; a++) {
        struct accelerator_memory *mem = memory_of(l, a);
        if (!mem)
            continue;
        free(mem->place_of);
        free(mem->withdrawn);
        free(mem->resident);
        free(mem->again_ns);
        free(mem);
    }
    free(l->able);
}

/* Tells the accelerator's rank thread. False: there is no room now, beside the ends of all orders. */
static bool tell(struct scheduler_link *l, uint32_t a, const struct memory_moved *told) {
    struct wiring *w = l->wiring;
    struct ring *ring = wiring_moved(w, 0, wiring_subcluster_of_accelerator(w, a));
    if (!ring_fits(ring, 1 + w->accelerators * MEMORY_ORDERS_MOST))
        return false;
    struct memory_moved *message = ring_reserve(ring);
    *message = *told;
    message->accelerator = a;
    message->epoch = memory_of(l, a)->epoch;
    ring_push(ring);
    l->report_rung = true;
    return true;
}

/* Tells the rank thread how its order has ended. */
static void answer(struct scheduler_link *l, const struct move_order *order, const struct wire_moved *moved) {
    struct ring *ring = wiring_moved(l->wiring, 0, wiring_subcluster_of_accelerator(l->wiring, order->accelerator));
    struct memory_moved *message = ring_reserve(ring);
    CHECK(message); /* tell() keeps room */
    *message = (struct memory_moved){
        .kind = order->kind,
        .done = moved->done,
        .failed = moved->failed,
        .accelerator = order->accelerator,
        .epoch = order->epoch,
        .variant = order->variant,
        .took_ns = load_took_ns(moved->took_ns),
    };
    ring_push(ring);
    l->report_rung = true;
}

void memory_left(struct scheduler_link *l, uint32_t a) {
    struct accelerator_memory *mem = memory_of(l, a);
    if (!mem)
        return;
    mem->epoch++;
    mem->sized = mem->begun = false;
    mem->taken = 0;
    memset(mem->place_of, 0, CATALOGUE_MODELS_MAX * sizeof(*mem->place_of));
    memset(mem->withdrawn, 0, CATALOGUE_MODELS_MAX / 8);
    l->memory_due = true;
}

static struct sent_order *order_at(struct accelerator_memory *mem, uint32_t i) {
    return &mem->orders[(mem->first + i) % ARRAY_COUNT(mem->orders)];
}

static void order_drop(struct accelerator_memory *mem, uint32_t i) {
    mem->owned -= order_at(mem, i)->own;
    for (; i > 0; i--)
        *order_at(mem, i) = *order_at(mem, i - 1);
    mem->first = (mem->first + 1) % ARRAY_COUNT(mem->orders);
    mem->count--;
}

bool memory_moves(const struct scheduler_link *l, uint32_t a) {
    return memory_of(l, a) && memory_of(l, a)->count > 0;
}

void memory_lose(struct scheduler_link *l, uint32_t a) {
    struct accelerator_memory *mem = memory_of(l, a);
    const struct wire_moved lost = {.done = 0};
    for (; mem && mem->count > 0; order_drop(mem, 0))
        if (!order_at(mem, 0)->own)
            answer(l, &order_at(mem, 0)->order, &lost);
}

/* ---- orders ---- */

/* Sends an order to the accelerator's backend, and notes it until it is answered. */
static void order_send(struct scheduler_link *l, const struct move_order *order, uint32_t known,
                       struct remote_id remote, bool own) {
    struct accelerator_place *a = &l->accelerators[order->accelerator];
    struct accelerator_memory *mem = a->memory;
    CHECK_LT(mem->count, ARRAY_COUNT(mem->orders));
    *order_at(mem, mem->count++) = (struct sent_order){.order = *order, .known = known, .remote = remote, .own = own};
    mem->owned += own;
    const struct wire_move out = {.accelerator = a->local,
                                  .session = mem->session,
                                  .model = remote.n,
                                  .kind = order->kind,
                                  .ahead = order->ahead,
                                  .latest_ns = own ? TIME_NEVER : order->latest_ns};
    peer_add(&a->member->peer, FRAME_MOVES, &out, sizeof(out));
}

/* A rank thread has given a model up on an accelerator. */
static void given_up(struct scheduler_link *l, const struct move_order *order) {
    const struct served_place *place = &l->places[order->place.n];
    struct accelerator_memory *mem = memory_of(l, order->accelerator);
    if (mem->place_of[place->known] != order->place.n + 1)
        return;
    mem->place_of[place->known] = 0;
    mem->taken -= mem->limited ? 0 : pages_at(mem, &place->model);
    bit_set(mem->withdrawn, place->known, false);
    l->memory_due = true;
}

/* Takes an order of rank thread `k`. */
static void order_take(struct scheduler_link *l, const struct move_order *order, uint32_t k) {
    struct served_place *place = &l->places[order->place.n];
    if (order->kind == MEMORY_JOINED) {
        if (order->variant.n == place->model.first_variant.n)
            place->joined = 1 + k;
        l->memory_due = true;
        return;
    }
    const struct accelerator_place *a = &l->accelerators[order->accelerator];
    struct accelerator_memory *mem = a->memory;
    bool reached = order->epoch == mem->epoch && a->member && !a->member->peer.closed && mem->limited;
    if (order->epoch == mem->epoch && order->yields)
        given_up(l, order);
    if (reached && (!order->yields || bit(mem->resident, place->known))) {
        order_send(l, order, place->known, a->member->remote_of_known[place->known], false);
        if (order->yields)
            bit_set(mem->resident, place->known, false);
    } else {
        const struct wire_moved end = {.done = order->yields};
        answer(l, order, &end);
    }
}

bool memory_take_orders(struct scheduler_link *l) {
    bool any = false;
    if (!l->config.orders_loads)
        return false;
    for (uint32_t k = 0; k < l->wiring->rank_threads; k++) {
        struct ring *ring = wiring_orders(l->wiring, k, 0);
        const struct move_order *order;
        for (; (order = ring_peek(ring)); ring_pop(ring)) {
            order_take(l, order, k);
            any = true;
        }
        ring_release(ring);
    }
    return any;
}

bool memory_pending(const struct scheduler_link *l) {
    for (uint32_t k = 0; l->config.orders_loads && k < l->wiring->rank_threads; k++)
        if (ring_pending(wiring_orders(l->wiring, k, 0)))
            return true;
    return false;
}

int memory_moved(struct scheduler_link *l, struct member *m, const struct wire_moved *moved, int64_t now_ns,
                 struct sy_error *err) {
    bool there = m->told && moved->accelerator < m->accelerator_count;
    if (there && l->config.central_loads)
        return loads_moved(l, m->accelerators[moved->accelerator], moved, err);
    struct accelerator_memory *mem = there ? memory_of(l, m->accelerators[moved->accelerator]) : NULL;
    uint32_t i = 0;
    while (mem && i < mem->count &&
           (order_at(mem, i)->order.kind != moved->kind || order_at(mem, i)->remote.n != moved->model))
        i++;
    if (!mem || i == mem->count)
        return error_set(err, -EPROTO, "the end of a load or an unload that was not ordered");
    struct sent_order *sent = order_at(mem, i);
    uint32_t known = sent->known;
    if (moved->done && moved->kind == CENTRAL_EMPTY)
        memset(mem->resident, 0, CATALOGUE_MODELS_MAX / 8);
    else if (moved->done)
        bit_set(mem->resident, known, moved->kind == CENTRAL_LOAD);
    if (moved->failed && (mem->again_ns || (mem->again_ns = calloc(CATALOGUE_MODELS_MAX, sizeof(*mem->again_ns))))) {
        mem->again_ns[known] = now_ns + FAILED_NS;
        l->memory_due = true;
    }
    if (moved->failed && sent->order.epoch == mem->epoch && mem->place_of[known] == sent->order.place.n + 1)
        bit_set(mem->withdrawn, known, true); /* the rank thread gives it up by itself */
    if (!sent->own)
        answer(l, &sent->order, moved);
    else
        l->memory_due = true;
    order_drop(mem, i);
    return 0;
}

/* The catalogue's number of a backend's model; CATALOGUE_NONE: it is not taken. The search begins at *from, and leaves
 * there where the next one is to begin: backends tell of models in the order in which they have brought them. (Each
 * from the first one on, 4,000 models that are there took 96 ms instead of 0.02.) */
static uint32_t known_of(const struct member *m, struct remote_id remote, uint32_t *from) {
    for (uint32_t i = 0; i < m->brought_count; i++) {
        const struct brought_model *brought = &m->brought[(*from)++ % m->brought_count];
        if (brought->remote.n == remote.n)
            return brought->known;
    }
    return CATALOGUE_NONE;
}

int memory_described(struct scheduler_link *l, struct member *m, const struct wire_memory *memory,
                     struct sy_error *err) {
    const uint32_t *models = (const uint32_t *)(memory + 1);
    if (!l->config.orders_loads && !l->config.central_loads)
        return error_set(err, -EOPNOTSUPP,
                         "its accelerators have limited memory (--memory-mib), and this scheduler orders no loads: it "
                         "has the policy kairos, or clockwork or nexus without --resident demand");
    if (!m->told || memory->accelerator >= m->accelerator_count)
        return error_set(err, -EPROTO, "the memory of an accelerator that it has not");
    uint32_t a = m->accelerators[memory->accelerator];
    if (l->config.central_loads)
        return loads_described(l, a, memory, err);
    struct accelerator_memory *mem = memory_of(l, a);
    if (l->accelerators[a].joined || mem->owned > 0)
        return error_set(err, -EPROTO, "the memory of an accelerator that has joined, or has told it before");
    mem->limited = true;
    mem->session = memory->session;
    mem->pages = memory->pages / memory->grain * memory->grain;
    mem->grain = memory->grain;
    mem->cuts = memory->cuts;
    memset(mem->resident, 0, CATALOGUE_MODELS_MAX / 8);
    for (uint32_t i = 0, from = 0; i < memory->count; i++) {
        uint32_t known = known_of(m, (struct remote_id){models[i]}, &from);
        if (known == CATALOGUE_NONE) { /* nobody may ask for it: rare, and so all is loaded anew */
            memset(mem->resident, 0, CATALOGUE_MODELS_MAX / 8);
            order_send(l, &(struct move_order){.kind = CENTRAL_EMPTY, .accelerator = a}, 0, (struct remote_id){0},
                       true);
            break;
        }
        bit_set(mem->resident, known, true);
    }
    l->memory_due = true;
    return 0;
}

/* ---- what is offered ---- */

/* Whether an accelerator could be offered to a place for its model, which it has. */
static bool is_able(const struct scheduler_link *l, uint32_t a, const struct served_place *place) {
    const struct accelerator_memory *mem = memory_of(l, a);
    return place->runs_on >> l->accelerators[a].class & 1 && pages_at(mem, &place->model) <= mem->pages;
}

/* The place to which a model of an accelerator is to be offered, now; CATALOGUE_NONE: to none. */
static uint32_t wanted(const struct scheduler_link *l, uint32_t a, uint32_t i, bool has, int64_t now_ns) {
    const struct accelerator_memory *mem = memory_of(l, a);
    const struct known_model *known = &l->catalogue->known[i];
    uint32_t now = mem->place_of[i], next = known->place;
    if (!known->model || (mem->again_ns && mem->again_ns[i] > now_ns))
        return CATALOGUE_NONE;
    /* a place that leaves, or is to leave once frontends know its successor, keeps the model for its last requests */
    if (next == CATALOGUE_NONE || known->backends == 0)
        return now && l->places[now - 1].known == i ? now - 1 : CATALOGUE_NONE;
    const struct served_place *place = &l->places[next];
    bool runs = has && place->joined == 1 + wiring_subcluster_of_accelerator(l->wiring, a) && is_able(l, a, place);
    return runs ? next : CATALOGUE_NONE;
}

/* Whether a model that an accelerator has may still get a place, or its place has not come to the rank thread yet. */
static bool may_come(const struct scheduler_link *l, uint32_t i, bool has) {
    const struct known_model *known = &l->catalogue->known[i];
    if (!has || !known->model || known->waits)
        return false;
    return known->place == CATALOGUE_NONE ? l->changed || !list_empty(&l->life->moving)
                                          : l->places[known->place].joined == 0;
}

/* Tells what has changed of one accelerator. False: there is no room for more, or something is awaited. */
static bool accelerator_look(struct scheduler_link *l, uint32_t a, const uint64_t *has, int64_t now_ns) {
    struct accelerator_place *at = &l->accelerators[a];
    struct accelerator_memory *mem = at->memory;
    bool waits = false;
    if (!mem->sized && !tell(l, a,
                             &(struct memory_moved){.kind = MEMORY_SIZE,
                                                    .done = !mem->limited,
                                                    .cuts = mem->cuts,
                                                    .pages = mem->pages,
                                                    .grain = (uint8_t)mem->grain}))
        return false;
    mem->sized = true;
    for (uint32_t i = 0; i < l->catalogue->known_count; i++) {
        bool had = bit(has, i), there = !mem->limited ? had : !mem->begun && bit(mem->resident, i);
        uint32_t now = mem->place_of[i];
        if (!had && !now && !bit(mem->resident, i))
            continue;
        uint32_t next = wanted(l, a, i, had, now_ns);
        if (mem->again_ns && mem->again_ns[i] > now_ns && mem->again_ns[i] < l->memory_ns)
            l->memory_ns = mem->again_ns[i];
        if (now) {
            if (next != now - 1 && !bit(mem->withdrawn, i)) {
                if (!tell(l, a,
                          &(struct memory_moved){.kind = MEMORY_WITHDRAWN,
                                                 .variant = l->places[now - 1].model.first_variant}))
                    return false;
                bit_set(mem->withdrawn, i, true);
            }
            continue;
        }
        if (next != CATALOGUE_NONE) {
            /* what another backend calls larger may not fit any more */
            const struct thread_model *model = &l->places[next].model;
            uint32_t pages = there ? pages_at(mem, model) : 0;
            if (pages <= mem->pages - mem->taken) {
                if (!tell(
                        l, a,
                        &(struct memory_moved){.kind = MEMORY_OFFERED, .done = there, .variant = model->first_variant}))
                    return false;
                mem->place_of[i] = (uint16_t)(next + 1);
                mem->taken += pages;
                continue;
            }
        }
        if (!mem->limited || !bit(mem->resident, i))
            continue;
        if (!mem->begun && may_come(l, i, had)) {
            waits = true;
        } else if (mem->owned < OWN_MOST) { /* nothing needs it there */
            bit_set(mem->resident, i, false);
            struct remote_id remote = at->member->remote_of_known[i];
            order_send(l, &(struct move_order){.kind = CENTRAL_UNLOAD, .accelerator = a}, i, remote, true);
        } else {
            waits = true;
        }
    }
    if (mem->begun || waits || mem->owned > 0)
        return !waits;
    if (!tell(l, a, &(struct memory_moved){.kind = MEMORY_BEGINS}))
        return false;
    mem->begun = true;
    mem->taken = mem->limited ? 0 : mem->taken;
    return true;
}

/* ---- which rank thread decides for a model ---- */

/* Counts an accelerator for the models that it has. */
static void able_count(struct scheduler_link *l, uint32_t a, const uint64_t *has, int64_t now_ns) {
    const struct accelerator_memory *mem = memory_of(l, a);
    uint16_t *able = &l->able[(size_t)wiring_subcluster_of_accelerator(l->wiring, a) * CATALOGUE_MODELS_MAX];
    for (uint32_t w = 0; w < CATALOGUE_MODELS_MAX / 64; w++)
        for (uint64_t bits = has[w]; bits; bits &= bits - 1) {
            uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(bits), p = l->catalogue->known[i].place;
            able[i] +=
                p != CATALOGUE_NONE && !(mem->again_ns && mem->again_ns[i] > now_ns) && is_able(l, a, &l->places[p]);
        }
}

/* The rank thread that is to decide for a place's model; CATALOGUE_NONE: none has an accelerator for it. */
static uint32_t rank_thread_of(const struct scheduler_link *l, uint32_t p, uint32_t known) {
    uint32_t threads = l->wiring->rank_threads, most = 0;
    for (uint32_t k = 0; k < threads; k++)
        most = most > l->able[k * CATALOGUE_MODELS_MAX + known] ? most : l->able[k * CATALOGUE_MODELS_MAX + known];
    for (uint32_t k = p; most > 0 && k < p + threads; k++)
        if (2 * l->able[k % threads * CATALOGUE_MODELS_MAX + known] >= most)
            return k % threads;
    return CATALOGUE_NONE;
}

/* Notes that the accelerators of a place's rank thread will give its model up. False, and nothing is noted: some
 * accelerators are about to already, and have to end that first, since each tells its end only once. */
static bool offers_end(struct scheduler_link *l, uint32_t p) {
    uint32_t known = l->places[p].known;
    for (int noted = 0; noted < 2; noted++)
        for (uint32_t a = 0; a < l->accelerators_most; a++) {
            struct accelerator_memory *mem = memory_of(l, a);
            if (!mem || mem->place_of[known] != p + 1)
                continue;
            if (!noted && bit(mem->withdrawn, known))
                return false;
            bit_set(mem->withdrawn, known, noted);
        }
    return true;
}

/* Moves a place to the rank thread that is to decide for it, if it is the place of its model. */
static void place_look(struct scheduler_link *l, uint32_t p) {
    struct served_place *place = &l->places[p];
    bool may = place->joined && l->catalogue->known[place->known].place == p;
    uint32_t to = may ? rank_thread_of(l, p, place->known) : CATALOGUE_NONE;
    if (to != CATALOGUE_NONE && to != place->joined - 1 && offers_end(l, p)) {
        log_info("model moves to another rank thread", "model=%s rank_thread=%u",
                 l->catalogue->known[place->known].model->name, to);
        place->joined = place->moved = 0;
        place->moves_to = 1 + to;
    }
    while (place->moves_to &&
           wiring_move(l->wiring, variant_next(place->model.first_variant, place->moved), place->moves_to - 1) == 0)
        if (++place->moved == place->model.variant_count)
            place->moves_to = 0;
    l->memory_due |= place->moves_to > 0;
}

bool memory_may_go(const struct scheduler_link *l, uint32_t p) {
    const struct served_place *place = &l->places[p];
    for (uint32_t a = 0; a < l->accelerators_most; a++) {
        const struct accelerator_memory *mem = memory_of(l, a);
        if (mem && mem->place_of[place->known] == p + 1 &&
            place->joined != 1 + wiring_subcluster_of_accelerator(l->wiring, a))
            return false;
    }
    return place->joined > 0;
}

void memory_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns) {
    uint64_t has[CATALOGUE_MODELS_MAX / 64];
    const struct member *of = NULL;
    if (!l->config.orders_loads)
        return;
    bool due = (l->memory_due && now_ns >= l->memory_looked_ns + LOOK_APART_NS) || now_ns >= l->memory_ns;
    if (due) {
        l->memory_due = false;
        l->memory_looked_ns = now_ns;
        l->memory_ns = TIME_NEVER;
        if (l->able)
            memset(l->able, 0, (size_t)l->wiring->rank_threads * CATALOGUE_MODELS_MAX * sizeof(*l->able));
        for (uint32_t a = 0; a < l->accelerators_most; a++) {
            const struct accelerator_place *at = &l->accelerators[a];
            if (!at->member || !at->up || !at->memory)
                continue;
            for (uint32_t i = 0; of != at->member && i < ARRAY_COUNT(has); i++)
                has[i] = 0;
            for (uint32_t i = 0; of != at->member && i < at->member->brought_count; i++)
                if (!at->member->brought[i].ends)
                    bit_set(has, at->member->brought[i].known, true);
            of = at->member;
            if (l->able)
                able_count(l, a, has, now_ns);
            l->memory_due |= !accelerator_look(l, a, has, now_ns);
        }
        for (uint32_t p = 0; l->able && p < l->config.models_max; p++)
            place_look(l, p);
    }
    int64_t next_ns = l->memory_due ? l->memory_looked_ns + LOOK_APART_NS : l->memory_ns;
    *until_ns = time_earlier(next_ns, *until_ns);
}

bool memory_offers(const struct scheduler_link *l, uint32_t p) {
    for (uint32_t a = 0; a < l->accelerators_most; a++) {
        const struct accelerator_memory *mem = memory_of(l, a);
        if (l->accelerators[a].member && mem && mem->place_of[l->places[p].known] == p + 1)
            return true;
    }
    return false;
}

bool memory_holds(const struct scheduler_link *l, const struct member *m, uint32_t known) {
    for (uint32_t i = 0; l->config.orders_loads && i < m->accelerator_count; i++) {
        struct accelerator_memory *mem = memory_of(l, m->accelerators[i]);
        /* one out of service unloads it by itself */
        bool there = mem->limited && l->accelerators[m->accelerators[i]].joined && bit(mem->resident, known);
        if (mem->place_of[known] || there)
            return true;
        for (uint32_t o = 0; o < mem->count; o++)
            if (order_at(mem, o)->known == known)
                return true;
    }
    return false;
}
