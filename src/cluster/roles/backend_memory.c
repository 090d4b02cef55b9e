/* backend_memory.c - what this backend's accelerators load and unload, where their memory is limited: orders from the
 * scheduler to the executors, and their ends back.
 *
 *     scheduler --FRAME_MOVES--> link (rank thread 0) --orders--> executor
 *               <--FRAME_MOVED--                      <--moved---
 *
 * An accelerator joins a scheduler once all orders of before are over, and tells which models it has. Each joining is
 * numbered: orders that were sent before it are refused. What an accelerator had when its executor took it out of
 * service is unloaded before it joins again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/backend_link_state.h"
#include "core/data/residency.h"
#include "core/util/assert.h"

#define TAKE_MOST 256 /* most messages of one ring in a turn */

int backend_memory_init(struct backend_link *l) {
    if (l->config.memory_bytes > 0 && !(l->loads = calloc(l->config.model_count + 1, sizeof(*l->loads))))
        return -ENOMEM;
    for (uint32_t a = 0; a < l->wiring->accelerators && l->config.memory_bytes > 0; a++)
        if (!(l->queues[a].resident = calloc(l->config.model_count + 1, sizeof(bool))) ||
            !(l->queues[a].orders_of = calloc(l->config.model_count + 1, sizeof(*l->queues[a].orders_of))))
            return -ENOMEM;
    return 0;
}

void backend_memory_free(struct backend_link *l) {
    for (uint32_t a = 0; l->queues && a < l->wiring->accelerators; a++) {
        free(l->queues[a].resident);
        free(l->queues[a].orders_of);
    }
    free(l->loads);
}

/* Hands an order to the accelerator's executor; the turn publishes it. False: there is no room. */
static bool order_push(struct backend_link *l, uint32_t accelerator, uint32_t kind, bool ahead, uint32_t model,
                       int64_t latest_ns) {
    struct wiring *w = l->wiring;
    uint32_t executor = w->executor_of[accelerator];
    struct move_order *order = ring_reserve(wiring_orders(w, 0, executor));
    if (!order)
        return false;
    *order = (struct move_order){
        .kind = (uint8_t)kind,
        .ahead = ahead,
        .accelerator = accelerator,
        .variant = {model}, /* only repeated */
        .place = {model},
        .latest_ns = latest_ns,
    };
    ring_push(wiring_orders(w, 0, executor));
    l->queues[accelerator].orders++;
    l->queues[accelerator].orders_of[model] += kind != CENTRAL_EMPTY;
    l->orders_rung = true;
    return true;
}

/* ---- orders ---- */

static void tell_moved(struct backend_link *l, const struct wire_moved *moved) {
    if (l->introduced)
        peer_add(&l->uplink.peer, FRAME_MOVED, moved, sizeof(*moved));
}

int backend_take_moves(struct backend_link *l, const struct wire_move *moves, uint32_t count, struct sy_error *err) {
    for (uint32_t i = 0; i < count; i++) {
        const struct wire_move *move = &moves[i];
        bool of_model = move->kind != CENTRAL_EMPTY;
        if (!l->config.memory_bytes || move->accelerator >= l->wiring->accelerators ||
            (of_model && move->model >= l->config.model_count))
            return error_set(err, -EPROTO, "a load or an unload for an accelerator or a model that is not here");
        struct accelerator_queue *q = &l->queues[move->accelerator];
        if (move->session != q->session) { /* it has left and joined since: no order of this session has come before */
            tell_moved(
                l, &(struct wire_moved){.accelerator = move->accelerator, .model = move->model, .kind = move->kind});
            continue;
        }
        if (of_model && l->config.told_of_models && !backend_model_runs(l, move->model))
            return error_set(err, -EPROTO, "a load or an unload of a model that is not here any more");
        int64_t latest_ns =
            move->latest_ns == TIME_NEVER ? TIME_NEVER : health_local(&l->uplink.health, move->latest_ns);
        if (!order_push(l, move->accelerator, move->kind, move->ahead, of_model ? move->model : 0, latest_ns))
            return error_set(err, -EPROTO, "more loads and unloads than an accelerator may have at a time");
    }
    return 0;
}

static void take_moved(struct backend_link *l, const struct memory_moved *moved) {
    struct accelerator_queue *q = &l->queues[moved->accelerator];
    uint32_t model = moved->variant.n;
    q->orders--;
    q->orders_of[model] -= moved->kind != CENTRAL_EMPTY;
    if (moved->done && moved->kind == CENTRAL_EMPTY)
        memset(q->resident, 0, l->config.model_count * sizeof(bool));
    else if (moved->done)
        q->resident[model] = moved->kind == CENTRAL_LOAD;
    double pace = 1; /* that of all models is the scheduler's to learn */
    if (moved->done && moved->kind == CENTRAL_LOAD)
        load_time_learn(&l->loads[model], &pace, moved->took_ns);
    if (q->told_memory)
        tell_moved(l, &(struct wire_moved){.accelerator = moved->accelerator,
                                           .model = model,
                                           .kind = moved->kind,
                                           .done = moved->done,
                                           .failed = moved->failed,
                                           .took_ns = moved->took_ns});
    backend_tell_joins(l, moved->accelerator);
}

void backend_memory_forget(struct backend_link *l, uint32_t model) {
    for (uint32_t a = 0; a < l->wiring->accelerators && l->config.memory_bytes > 0; a++)
        l->queues[a].resident[model] = false;
    if (l->loads)
        l->loads[model] = (struct load_time){.took_ns = 0};
}

bool backend_memory_look(struct backend_link *l) {
    bool more = false;
    for (uint32_t e = 0; l->config.memory_bytes > 0 && e < l->wiring->executors; e++) {
        struct ring *ring = wiring_moved(l->wiring, e, 0);
        const struct memory_moved *moved;
        uint32_t n = 0;
        for (; n < TAKE_MOST && (moved = ring_peek(ring)); ring_pop(ring), n++)
            take_moved(l, moved);
        if (n)
            ring_release(ring);
        more |= n == TAKE_MOST;
    }
    return more;
}

void backend_orders_publish(struct backend_link *l) {
    struct wiring *w = l->wiring;
    for (uint32_t e = 0; l->orders_rung && e < w->executors; e++)
        if (ring_publish(wiring_orders(w, 0, e)))
            doorbell_ring(&w->executor_bells[e]);
    l->orders_rung = false;
}

/* ---- joining ---- */

bool backend_memory_join(struct backend_link *l, uint32_t accelerator) {
    struct accelerator_queue *q = &l->queues[accelerator];
    if (!l->config.memory_bytes)
        return true;
    if (q->orders > 0)
        return false;
    if (q->lost) {
        q->lost = false;
        q->told_memory = false; /* the end of this order is nobody's news */
        CHECK(order_push(l, accelerator, CENTRAL_EMPTY, false, 0, TIME_NEVER));
        return false;
    }
    uint32_t grain = (uint32_t)(l->config.page_bytes / CPU_PAGE_BYTES), count = 0;
    for (uint32_t m = 0; m < l->config.model_count; m++)
        count += q->resident[m];
    struct wire_memory *memory =
        peer_frame(&l->uplink.peer, FRAME_MEMORY, 1, sizeof(*memory) + count * sizeof(uint32_t), 0);
    if (!memory) /* the connection is about to be closed */
        return false;
    *memory = (struct wire_memory){
        .accelerator = accelerator,
        .session = ++q->session,
        .pages = (uint32_t)(l->config.memory_bytes / l->config.page_bytes) * grain,
        .grain = grain,
        .cuts = residency_cuts(l->config.page_bytes),
        .count = count,
    };
    uint32_t *models = (uint32_t *)(memory + 1);
    for (uint32_t m = 0; m < l->config.model_count; m++)
        if (q->resident[m])
            *models++ = m;
    q->told_memory = true;
    return true;
}
