/* scheduler_loads.c - the memory of backends' accelerators, where a central policy orders loads (--resident demand).
 *
 *     central thread --orders--> link --FRAME_MOVES--> backend
 *                    <--moved---      <--FRAME_MOVED--
 *
 * As a class of accelerators has the same models here, the policy knows which it may load where, and the link need not
 * tell it, as it does rank threads (scheduler_memory.c). An accelerator's orders are kept until they have ended. EMPTY
 * is sent once all before it have, and nothing is sent before it has. An accelerator whose backend has all its models
 * for good has done each at once.
 *
 * A model that gets a new place has two for a while, which are two models to the policy. An accelerator has it once,
 * however many of its places are to have it there: it is loaded for the first of them, and unloaded for the last. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link_state.h"
#include "core/data/residency.h"
#include "core/util/assert.h"

struct kept_order {
    struct move_order order;
    uint32_t known; /* number of the model in the catalogue */
    struct remote_id remote;
    bool done; /* it has not been sent: another place of the model has it there */
};

struct accelerator_loads {
    bool limited;
    uint32_t session; /* if limited: as in struct wire_memory */
    uint64_t memory_bytes;
    uint32_t page_bytes;
    uint16_t *places;      /* [CATALOGUE_MODELS_MAX] places of the model that have it there */
    uint32_t first, count; /* orders[first..], a circle: those that have not ended */
    uint32_t sent;         /* the first ones of these were sent, or need not be */
    struct kept_order orders[MEMORY_ORDERS_MOST];
};

static struct kept_order *order_at(struct accelerator_loads *loads, uint32_t i) {
    return &loads->orders[(loads->first + i) % ARRAY_COUNT(loads->orders)];
}

int loads_begin(struct scheduler_link *l, uint32_t a) {
    struct accelerator_place *at = &l->accelerators[a];
    if (!l->config.central_loads)
        return 0;
    if (!at->loads && !(at->loads = calloc(1, sizeof(*at->loads))))
        return -ENOMEM;
    uint16_t *places = at->loads->places ? at->loads->places : calloc(CATALOGUE_MODELS_MAX, sizeof(*places));
    *at->loads = (struct accelerator_loads){.memory_bytes = UINT64_MAX, .page_bytes = CPU_PAGE_BYTES, .places = places};
    return places ? 0 : -ENOMEM;
}

void loads_free(struct scheduler_link *l) {
    for (uint32_t a = 0; l->accelerators && a < l->wiring->accelerators; a++) {
        if (l->accelerators[a].loads)
            free(l->accelerators[a].loads->places);
        free(l->accelerators[a].loads);
    }
}

uint64_t loads_memory_bytes(const struct scheduler_link *l, uint32_t a) {
    return l->accelerators[a].loads ? l->accelerators[a].loads->memory_bytes : 0;
}

uint32_t loads_page_bytes(const struct scheduler_link *l, uint32_t a) {
    return l->accelerators[a].loads ? l->accelerators[a].loads->page_bytes : 0;
}

int loads_described(struct scheduler_link *l, uint32_t a, const struct wire_memory *memory, struct sy_error *err) {
    struct accelerator_loads *loads = l->accelerators[a].loads;
    if (l->accelerators[a].joined)
        return error_set(err, -EPROTO, "the memory of an accelerator that has joined");
    loads->limited = true;
    loads->session = memory->session;
    loads->memory_bytes = (uint64_t)memory->pages * CPU_PAGE_BYTES;
    loads->page_bytes = memory->grain * (uint32_t)CPU_PAGE_BYTES;
    return 0;
}

/* The first order is over. */
static void first_ends(struct scheduler_link *l, uint32_t a, bool done, bool failed, int64_t took_ns) {
    struct accelerator_loads *loads = l->accelerators[a].loads;
    const struct move_order *order = &order_at(loads, 0)->order;
    if (done && order->kind == CENTRAL_EMPTY)
        memset(loads->places, 0, CATALOGUE_MODELS_MAX * sizeof(*loads->places));
    else if (done && loads->limited) {
        uint16_t *places = &loads->places[order_at(loads, 0)->known];
        if (order->kind == CENTRAL_LOAD)
            ++*places;
        else if (*places > 0)
            --*places;
    }
    struct memory_moved *message = ring_reserve(wiring_moved(l->wiring, 0, 0));
    CHECK(message); /* it has room for all orders */
    *message = (struct memory_moved){
        .kind = order->kind,
        .done = done,
        .failed = failed,
        .accelerator = a,
        .variant = order->variant,
        .took_ns = load_took_ns(took_ns),
    };
    ring_push(wiring_moved(l->wiring, 0, 0));
    l->report_rung = true;
    loads->first = (loads->first + 1) % ARRAY_COUNT(loads->orders);
    loads->count--;
    loads->sent -= loads->sent > 0;
}

/* Whether an order has to wait for what was sent before: EMPTY, and others about the same model. */
static bool must_wait(struct accelerator_loads *loads, const struct kept_order *next) {
    for (uint32_t i = 0; i < loads->sent; i++)
        if (next->order.kind == CENTRAL_EMPTY || order_at(loads, i)->order.kind == CENTRAL_EMPTY ||
            order_at(loads, i)->known == next->known)
            return true;
    return false;
}

/* Ends the first orders that need not be sent, or cannot be, and sends what may be sent now. */
static void go_on(struct scheduler_link *l, uint32_t a) {
    struct accelerator_place *at = &l->accelerators[a];
    struct accelerator_loads *loads = at->loads;
    bool here = at->up && at->member && !at->member->peer.closed;
    for (;;) {
        while (loads->count > 0 && (loads->sent > 0 ? order_at(loads, 0)->done : !here || !loads->limited))
            first_ends(l, a, here, false, 0);
        if (!here || loads->sent == loads->count)
            return;
        struct kept_order *next = order_at(loads, loads->sent);
        if (must_wait(loads, next))
            return;
        bool empty = next->order.kind == CENTRAL_EMPTY, load = next->order.kind == CENTRAL_LOAD;
        next->done = !empty && (load ? loads->places[next->known] > 0 : loads->places[next->known] > 1);
        loads->sent++;
        if (next->done)
            continue;
        const struct wire_move out = {.accelerator = at->local,
                                      .session = loads->session,
                                      .model = next->remote.n,
                                      .kind = next->order.kind,
                                      .latest_ns = next->order.latest_ns};
        peer_add(&at->member->peer, FRAME_MOVES, &out, sizeof(out));
    }
}

bool loads_take_orders(struct scheduler_link *l) {
    struct ring *ring = wiring_orders(l->wiring, 0, 0);
    const struct move_order *order;
    bool any = false;
    for (; l->config.central_loads && (order = ring_peek(ring)); ring_pop(ring)) {
        const struct accelerator_place *at = &l->accelerators[order->accelerator];
        struct accelerator_loads *loads = at->loads;
        CHECK_LT(loads->count, ARRAY_COUNT(loads->orders)); /* the central thread gives no more */
        struct kept_order *kept = order_at(loads, loads->count++);
        *kept = (struct kept_order){.order = *order, .known = CATALOGUE_NONE};
        if (order->kind != CENTRAL_EMPTY) {
            kept->known = l->places[order->place.n].known;
            kept->remote = at->member ? at->member->remote_of_known[kept->known] : (struct remote_id){0};
        }
        go_on(l, order->accelerator);
        any = true;
    }
    if (any)
        ring_release(ring);
    return any;
}

bool loads_pending(const struct scheduler_link *l) {
    return l->config.central_loads && ring_pending(wiring_orders(l->wiring, 0, 0));
}

int loads_moved(struct scheduler_link *l, uint32_t a, const struct wire_moved *moved, struct sy_error *err) {
    struct accelerator_loads *loads = l->accelerators[a].loads;
    const struct kept_order *first = loads->sent > 0 ? order_at(loads, 0) : NULL;
    if (!first || first->order.kind != moved->kind || first->remote.n != moved->model)
        return error_set(err, -EPROTO, "the end of a load or an unload that was not ordered");
    if (moved->kind == CENTRAL_EMPTY && !moved->done && l->accelerators[a].joined)
        loads->sent = 0; /* it was busy with a model that goes: again */
    else
        first_ends(l, a, moved->done, moved->failed, moved->took_ns);
    go_on(l, a);
    return 0;
}

void loads_lose(struct scheduler_link *l, uint32_t a) {
    while (l->accelerators[a].loads && l->accelerators[a].loads->count > 0)
        first_ends(l, a, false, false, 0);
}

bool loads_hold(const struct scheduler_link *l, const struct member *m, uint32_t known) {
    for (uint32_t i = 0; l->config.central_loads && i < m->accelerator_count; i++) {
        struct accelerator_loads *loads = l->accelerators[m->accelerators[i]].loads;
        for (uint32_t k = 0; k < loads->count; k++)
            if (order_at(loads, k)->known == known || order_at(loads, k)->order.kind == CENTRAL_EMPTY)
                return true;
    }
    return false;
}
