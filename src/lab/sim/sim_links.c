/* sim_links.c - faults of the network and of the scheduler: messages that are late or lost, a scheduler that dies, and
 * requests that are sent again. Without such faults all messages arrive at once, and this file does nothing.
 *
 * A message is a packet that waits in a heap until it arrives. A lost packet is sent again, as TCP does, so that it
 * only arrives later. Messages about the same accelerator arrive in the order in which they were sent; no other message
 * waits for another.
 *
 * When the scheduler dies, its state is lost. Accelerators finish the batches that they have, and their answers need no
 * scheduler. Frontends hold the requests that are in no batch, and refuse those whose deadline passes. The next
 * scheduler first hears which accelerators are idle, then gets the requests that are left. It hears of each other
 * accelerator as soon as that is idle, too. */
#include "lab/sim/sim_state.h"

/* Value of request_node.port for a request in a batch; the simulator does not use ports otherwise. */
#define SEALED      1
#define RESENDS_MAX 10 /* times that one message is sent again */

/* Seeds, so that messages and faults have random numbers of their own. */
#define LINKS_SEED  0x6c696e6b73ULL
#define FAULTS_SEED 0x6661756c7473ULL

bool sim_links_on(const struct sim_config *c) {
    return c->link_jitter_ns > 0 || c->link_loss > 0 || c->scheduler_every_s > 0 || c->fault_again;
}

/* The most messages about accelerators that may be on their way. */
static uint32_t news_most(const struct sim *sim) {
    return 4 * sim->batch_count + 4 * sim->config->accelerators;
}

bool sim_links_crowded(const struct sim *sim) {
    return sim_links_on(sim->config) && sim->links.used - sim->links.requests > news_most(sim) / 2;
}

void sim_links_layout(struct sim *sim, struct arena *arena) {
    struct sim_links *l = &sim->links;
    bool on = sim_links_on(sim->config);
    uint32_t count = on ? sim->pool.capacity + news_most(sim) : 0;
    l->packets = arena_take(arena, count * sizeof(*l->packets));
    l->told_ns = arena_take(arena, on ? sim->config->accelerators * sizeof(*l->told_ns) : 0);
    heap_take(arena, &l->due, count);
    if (!arena->base)
        return;
    rng_seed(&l->rng, sim->config->seed ^ LINKS_SEED);
    rng_seed(&l->fault_rng, sim->config->seed ^ FAULTS_SEED);
    l->unused = count ? 0 : SIM_NOTHING;
    for (uint32_t i = 0; i < count; i++)
        l->packets[i].next = i + 1 < count ? i + 1 : SIM_NOTHING;
    for (uint32_t a = 0; on && a < sim->config->accelerators; a++)
        l->told_ns[a] = INT64_MIN;
    for (uint32_t node = 0; on && node < sim->pool.capacity; node++)
        sim->pool.nodes[node].handle = SIM_NOBODY;
}

/* Draws the time at which the scheduler dies next. */
static void outage_next(struct sim *sim) {
    double wait_s = sim->config->scheduler_every_s * rng_exponential(&sim->links.fault_rng);
    int64_t at_ns = sim->now_ns + (int64_t)(wait_s * (double)NS_PER_S) + 1;
    bool over = at_ns > sim->count_until_ns - sim->count_until_ns / 10;
    sim_source_set(sim, sim->sources.outage, over ? TIME_NEVER : at_ns);
}

void sim_links_begin(struct sim *sim) {
    if (sim->config->scheduler_every_s > 0)
        outage_next(sim);
}

/* ---- packets ---- */

int64_t sim_link_delay(struct sim *sim) {
    const struct sim_config *c = sim->config;
    int64_t delay_ns = c->link_jitter_ns > 0 ? (int64_t)rng_below(&sim->links.rng, (uint64_t)c->link_jitter_ns + 1) : 0;
    int64_t resend_ns = c->link_resend_ns;
    for (int i = 0; c->link_loss > 0 && i < RESENDS_MAX && rng_uniform(&sim->links.rng) < c->link_loss; i++) {
        delay_ns += resend_ns;
        resend_ns *= 2;
    }
    return delay_ns;
}

static void due_set(struct sim *sim) {
    struct heap *due = &sim->links.due;
    sim_source_set(sim, sim->sources.packets, heap_empty(due) ? TIME_NEVER : heap_top(due).key);
}

static void packet_deliver(struct sim *sim, const struct sim_packet *packet);

/* If there is no memory for one more packet, it is delivered at once. */
static void packet_send(struct sim *sim, const struct sim_packet *packet, int64_t at_ns) {
    struct sim_links *l = &sim->links;
    uint32_t slot = l->unused;
    if (slot == SIM_NOTHING) {
        packet_deliver(sim, packet);
        return;
    }
    l->unused = l->packets[slot].next;
    l->packets[slot] = *packet;
    l->used++;
    l->requests += packet->kind <= SIM_HELD;
    heap_set(&l->due, slot, at_ns);
    due_set(sim);
}

static struct sim_packet packet_take(struct sim *sim, uint32_t slot) {
    struct sim_links *l = &sim->links;
    struct sim_packet packet = l->packets[slot];
    CHECK(heap_contains(&l->due, slot));
    heap_remove(&l->due, slot);
    l->used--;
    l->requests -= packet.kind <= SIM_HELD;
    l->packets[slot].next = l->unused;
    l->unused = slot;
    return packet;
}

/* ---- requests ---- */

void sim_link_request(struct sim *sim, const struct request_message *message) {
    if (!sim_links_on(sim->config))
        sim->driver->arrived(sim, message);
    else
        packet_send(sim, &(struct sim_packet){.kind = SIM_REQUEST, .request = *message},
                    sim->now_ns + sim_link_delay(sim));
}

/* The frontend keeps a request, since there is no scheduler. */
static void hold(struct sim *sim, const struct request_message *message) {
    int64_t until_ns = message->deadline_ns > sim->now_ns ? message->deadline_ns : sim->now_ns;
    packet_send(sim, &(struct sim_packet){.kind = SIM_HELD, .request = *message}, until_ns);
}

/* The deadline of a held request has passed. */
static void held_refuse(struct sim *sim, const struct request_message *m) {
    const struct sim_observer *observer = sim->config->observer;
    sim->queued--;
    sim_dropped(sim, m, REFUSAL_UNSCHEDULED);
    if (observer && observer->refused)
        observer->refused(observer->context, sim->now_ns, m->place.n, m->handle, REFUSAL_DEADLINE);
}

static struct request_message message_of(const struct request_node *node) {
    return (struct request_message){
        .kind = REQUEST_ARRIVED,
        .handle = node->handle,
        .arrival_ns = node->arrival_ns,
        .deadline_ns = node->deadline_ns,
        .items = node->items,
        .place = {node->model},
        .priority = node->priority,
    };
}

bool sim_request_again(struct sim *sim, const struct request_node *node) {
    const struct sim_observer *observer = sim->config->observer;
    struct request_message message = message_of(node);
    bool full = sim->config->queue_capacity && sim->queued >= sim->config->queue_capacity;
    if (!sim->config->fault_again || node->deadline_ns <= sim->now_ns || full || sim->links.unused == SIM_NOTHING)
        return false;
    sim->queued++;
    sim->result->sent_again++;
    if (observer && observer->sent_again)
        observer->sent_again(observer->context, sim->now_ns, node->handle);
    /* 1 ns later, so that it does not arrive in the middle of the event that is being handled. */
    packet_send(sim, &(struct sim_packet){.kind = SIM_REQUEST, .request = message},
                sim->now_ns + 1 + sim_link_delay(sim));
    return true;
}

void sim_link_sealed(struct sim *sim, uint32_t first) {
    for (uint32_t node = first; sim_links_on(sim->config) && node != REQUEST_NONE; node = sim->pool.nodes[node].next)
        sim->pool.nodes[node].port = SEALED;
}

/* ---- messages about accelerators ---- */

static void news_send(struct sim *sim, uint32_t a, struct sim_packet *packet) {
    int64_t *told_ns = &sim->links.told_ns[a], at_ns = sim->now_ns + sim_link_delay(sim);
    packet->accelerator = a;
    *told_ns = at_ns > *told_ns ? at_ns : *told_ns + 1;
    packet_send(sim, packet, *told_ns);
}

/* Tells the scheduler about an accelerator that it does not count on, if the accelerator works and is idle. */
static void join_if_idle(struct sim *sim, uint32_t a) {
    struct sim_accelerator *accelerator = &sim->accelerators[a];
    if (sim->links.scheduler_down || !accelerator->unknown || accelerator->down || accelerator->silent ||
        !sim_accelerator_idle(sim, a))
        return;
    accelerator->unknown = false;
    accelerator->joins++;
    news_send(sim, a, &(struct sim_packet){.kind = SIM_JOINED});
}

void sim_tell_ended(struct sim *sim, uint32_t a, const struct sim_batch *batch, bool done) {
    if (!sim_links_on(sim->config))
        sim->driver->ended(sim, a, batch, done);
    else if (batch->term != sim->links.term)
        join_if_idle(sim, a); /* an earlier scheduler sent the batch */
    else if (!sim->links.scheduler_down)
        news_send(sim, a, &(struct sim_packet){.kind = SIM_ENDED, .batch = *batch, .done = done});
}

void sim_tell_joined(struct sim *sim, uint32_t a) {
    if (sim_links_on(sim->config))
        join_if_idle(sim, a);
    else
        sim->driver->joined(sim, a);
}

void sim_tell_left(struct sim *sim, uint32_t a) {
    struct sim_accelerator *accelerator = &sim->accelerators[a];
    if (!sim_links_on(sim->config)) {
        sim->driver->left(sim, a);
    } else if (!accelerator->unknown) {
        accelerator->unknown = true;
        if (!sim->links.scheduler_down)
            news_send(sim, a, &(struct sim_packet){.kind = SIM_LEFT});
    }
}

/* ---- arrival ---- */

static void packet_deliver(struct sim *sim, const struct sim_packet *packet) {
    if (packet->kind == SIM_HELD || (packet->kind == SIM_REQUEST && sim->links.scheduler_down))
        held_refuse(sim, &packet->request);
    else if (packet->kind == SIM_REQUEST)
        sim->driver->arrived(sim, &packet->request);
    else if (packet->kind == SIM_ENDED)
        sim->driver->ended(sim, packet->accelerator, &packet->batch, packet->done);
    else if (packet->kind == SIM_LEFT)
        sim->driver->left(sim, packet->accelerator);
    else {
        sim->accelerators[packet->accelerator].joins--;
        sim->driver->joined(sim, packet->accelerator);
    }
}

void sim_packets_due(struct sim *sim) {
    struct sim_packet packet = packet_take(sim, heap_top(&sim->links.due).item);
    const struct sim_links *l = &sim->links;
    bool early = packet.kind == SIM_REQUEST && (l->scheduler_down || sim->now_ns < l->ready_ns);
    if (early && (l->scheduler_down || packet.request.deadline_ns < l->ready_ns))
        hold(sim, &packet.request);
    else if (early)
        packet_send(sim, &packet, l->ready_ns);
    else
        packet_deliver(sim, &packet);
    due_set(sim);
}

/* ---- the scheduler ---- */

/* The scheduler dies. Frontends hold the requests that it had queued; messages about accelerators are lost. */
static void scheduler_dies(struct sim *sim) {
    struct sim_links *l = &sim->links;
    l->scheduler_down = true;
    sim->result->takeovers++;
    for (uint32_t slot = 0; slot < l->due.capacity; slot++)
        if (heap_contains(&l->due, slot) && l->packets[slot].kind > SIM_HELD)
            packet_take(sim, slot);
    for (uint32_t source = sim->sources.driver; source < sim->sources.count; source++)
        sim_source_set(sim, source, TIME_NEVER);
    for (uint32_t node = 0; node < sim->pool.capacity; node++) {
        struct request_node *request = &sim->pool.nodes[node];
        if (request->handle == SIM_NOBODY || request->port == SEALED)
            continue;
        struct request_message message = message_of(request);
        sim_pool_put(sim, node);
        hold(sim, &message);
    }
    due_set(sim);
}

/* Another scheduler takes over. It begins as at the start of the run. */
static void scheduler_takes_over(struct sim *sim) {
    struct sim_links *l = &sim->links;
    struct arena arena = sim->driver_memory;
    l->scheduler_down = false;
    l->term++;
    l->ready_ns = sim->now_ns + sim->config->message_ns + sim->config->message_jitter_ns + 1;
    sim->driver->layout(sim, &arena);
    for (uint32_t a = 0; a < sim->config->accelerators; a++) {
        struct sim_accelerator *accelerator = &sim->accelerators[a];
        accelerator->unknown = accelerator->down || accelerator->silent || !sim_accelerator_idle(sim, a);
        if (accelerator->unknown)
            sim->driver->left(sim, a);
    }
    /* frontends send the requests that they hold */
    for (uint32_t slot = 0; slot < l->due.capacity; slot++) {
        struct sim_packet *packet = &l->packets[slot];
        bool held = heap_contains(&l->due, slot) && packet->kind == SIM_HELD;
        if (!held || packet->request.deadline_ns < l->ready_ns)
            continue;
        packet->kind = SIM_REQUEST;
        heap_set(&l->due, slot, l->ready_ns + sim_link_delay(sim));
    }
    due_set(sim);
}

void sim_outage_due(struct sim *sim) {
    if (sim->links.scheduler_down) {
        scheduler_takes_over(sim);
        outage_next(sim);
        return;
    }
    scheduler_dies(sim);
    double for_s = sim->config->scheduler_down_s * rng_exponential(&sim->links.fault_rng);
    sim_source_set(sim, sim->sources.outage, sim->now_ns + (int64_t)(for_s * (double)NS_PER_S) + 1);
}
