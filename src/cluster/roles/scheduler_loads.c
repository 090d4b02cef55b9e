/* scheduler_loads.c - loads and unloads that a central policy orders (--resident demand): its plans of these kinds go to
 * backends as the orders of rank threads do (scheduler_memory.c), and their ends come back as those of batches.
 *
 *     central thread --plan: LOAD--> link --FRAME_MOVES--> backend
 *                    <----ran------       <--FRAME_MOVED--
 *
 * An accelerator's plans are kept in order until they have ended. EMPTY is sent once all before it have, and nothing is
 * sent before it has. An accelerator whose backend has all its models for good has done each at once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link_state.h"
#include "core/data/residency.h"
#include "core/util/assert.h"

#define TOOK_MOST_NS (3600 * NS_PER_S) /* longest load that is believed */

struct kept_move {
    struct batch_plan plan;
    uint32_t known; /* number of the model in the catalogue */
    struct remote_id remote;
};

struct accelerator_loads {
    bool limited;
    uint32_t session; /* if limited: as in struct wire_memory */
    uint64_t memory_bytes;
    uint32_t first, count; /* moves[first..], a circle: those that have not ended */
    uint32_t sent;         /* the first ones of these were sent */
    struct kept_move moves[MEMORY_ORDERS_MOST];
};

static struct kept_move *move_at(struct accelerator_loads *loads, uint32_t i) {
    return &loads->moves[(loads->first + i) % ARRAY_COUNT(loads->moves)];
}

int loads_begin(struct scheduler_link *l, uint32_t a) {
    struct accelerator_place *at = &l->accelerators[a];
    if (!l->config.central_loads)
        return 0;
    if (!at->loads && !(at->loads = malloc(sizeof(*at->loads))))
        return -ENOMEM;
    *at->loads = (struct accelerator_loads){.memory_bytes = UINT64_MAX};
    return 0;
}

void loads_free(struct scheduler_link *l) {
    for (uint32_t a = 0; l->accelerators && a < l->wiring->accelerators; a++)
        free(l->accelerators[a].loads);
}

uint64_t loads_memory_bytes(const struct scheduler_link *l, uint32_t a) {
    return l->accelerators[a].loads ? l->accelerators[a].loads->memory_bytes : 0;
}

int loads_described(struct scheduler_link *l, uint32_t a, const struct wire_memory *memory, struct sy_error *err) {
    struct accelerator_loads *loads = l->accelerators[a].loads;
    if (l->accelerators[a].joined)
        return error_set(err, -EPROTO, "the memory of an accelerator that has joined");
    loads->limited = true;
    loads->session = memory->session;
    loads->memory_bytes = (uint64_t)memory->pages * CPU_PAGE_BYTES;
    return 0;
}

/* The first move is over. */
static void first_ends(struct scheduler_link *l, uint32_t a, bool done, bool failed, int64_t took_ns) {
    struct accelerator_loads *loads = l->accelerators[a].loads;
    struct ran_message ran = batch_plan_ran(&move_at(loads, 0)->plan);
    took_ns = took_ns < TOOK_MOST_NS ? took_ns : TOOK_MOST_NS;
    ran.type = l->accelerators[a].class;
    ran.dispatch_ns = -1;
    ran.failed = failed;
    ran.run_ns = !done ? 0 : took_ns > 0 ? took_ns : 1;
    central_tell(l, &ran);
    loads->first = (loads->first + 1) % ARRAY_COUNT(loads->moves);
    loads->count--;
    loads->sent -= loads->sent > 0;
}

/* Sends what may be sent now. */
static void go_on(struct scheduler_link *l, uint32_t a) {
    struct accelerator_place *at = &l->accelerators[a];
    struct accelerator_loads *loads = at->loads;
    bool here = at->up && at->member && !at->member->peer.closed;
    while (loads->count > 0 && loads->sent == 0 && (!here || !loads->limited))
        first_ends(l, a, here, false, 0);
    while (here && loads->sent < loads->count) {
        const struct kept_move *move = move_at(loads, loads->sent);
        if (loads->sent > 0 && (move->plan.kind == CENTRAL_EMPTY || move_at(loads, 0)->plan.kind == CENTRAL_EMPTY))
            return;
        struct wire_move *out = peer_frame_more(&at->member->peer, FRAME_MOVES, sizeof(*out), WIRE_MANY);
        if (out) /* else the connection is about to be closed */
            *out = (struct wire_move){.accelerator = at->local,
                                      .session = loads->session,
                                      .model = move->remote.n,
                                      .kind = move->plan.kind,
                                      .latest_ns = move->plan.latest_ns};
        loads->sent++;
    }
}

void loads_take(struct scheduler_link *l, const struct batch_plan *plan) {
    const struct accelerator_place *at = &l->accelerators[plan->accelerator];
    struct accelerator_loads *loads = at->loads;
    CHECK_LT(loads->count, ARRAY_COUNT(loads->moves)); /* the central thread sends no more */
    struct kept_move *move = move_at(loads, loads->count++);
    *move = (struct kept_move){.known = CATALOGUE_NONE};
    memcpy(&move->plan, plan, sizeof(*plan));
    if (plan->kind != CENTRAL_EMPTY) {
        move->known = l->places[plan->place.n].known;
        move->remote = at->member ? at->member->remote_of_known[move->known] : (struct remote_id){0};
    }
    go_on(l, plan->accelerator);
}

int loads_moved(struct scheduler_link *l, uint32_t a, const struct wire_moved *moved, struct sy_error *err) {
    struct accelerator_loads *loads = l->accelerators[a].loads;
    const struct kept_move *first = loads->sent > 0 ? move_at(loads, 0) : NULL;
    if (!first || first->plan.kind != moved->kind || first->remote.n != moved->model)
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
            if (move_at(loads, k)->known == known || move_at(loads, k)->plan.kind == CENTRAL_EMPTY)
                return true;
    }
    return false;
}
