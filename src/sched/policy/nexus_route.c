/* nexus_route.c - the frontends of `nexus`: each frontend sends a model's requests to the accelerators that hold the
 * model, by a weighted round robin of its own. A frontend knows nothing of other frontends, or of the queues.
 *
 * The round robin is smooth: every place's credit grows by its weight; the place with most credit is taken, and its
 * credit falls by the sum of the weights. */
#include "core/util/assert.h"
#include "sched/policy/nexus_state.h"

uint32_t nexus_place_find(const struct nexus *n, uint32_t model, uint32_t accelerator) {
    uint32_t p = n->model[model].places;
    while (p != NEXUS_NONE && n->place[p].accelerator != accelerator)
        p = n->place[p].next_of_model;
    return p;
}

static enum nexus_place_state state_first(const struct nexus *n, uint32_t model, uint32_t accelerator) {
    if (!n->limited)
        return PLACE_READY;
    switch (n->loaded[(size_t)accelerator * n->models + model]) {
    case NEXUS_LOADED:
        return PLACE_READY;
    case NEXUS_LOADS:
        return PLACE_LOADING;
    default:
        return PLACE_WANTED;
    }
}

static void waited(struct nexus *n, int64_t now_ns, const struct nexus_place *place) {
    int64_t wait_ns = now_ns - place->since_ns;
    n->moves.wait_ns += wait_ns;
    n->moves.wait_max_ns = wait_ns > n->moves.wait_max_ns ? wait_ns : n->moves.wait_max_ns;
}

void nexus_place_ready(struct nexus *n, int64_t now_ns, uint32_t p) {
    if (n->place[p].counted)
        waited(n, now_ns, &n->place[p]);
    n->place[p].state = PLACE_READY;
}

uint32_t nexus_place_add(struct nexus *n, int64_t now_ns, uint32_t model, uint32_t accelerator) {
    uint32_t p = n->free_place;
    CHECK(p != NEXUS_NONE);
    struct nexus_place *place = &n->place[p];
    n->free_place = place->next_of_model;
    *place = (struct nexus_place){
        .state = state_first(n, model, accelerator),
        .model = model,
        .accelerator = accelerator,
        .next_of_model = n->model[model].places,
        .next_here = NEXUS_NONE,
        .since_ns = now_ns,
        .counted = n->counts && n->model[model].rate > 0,
    };
    deadline_queue_init(&place->queue);
    n->model[model].places = p;
    uint32_t *end = &n->accelerator[accelerator].places; /* of the accelerator's cycle */
    while (*end != NEXUS_NONE)
        end = &n->place[*end].next_here;
    *end = p;
    for (uint32_t f = 0; f < n->frontends; f++) /* each frontend begins at a random place */
        n->credit[f * n->places_max + p] = rng_uniform(&n->rng);
    return p;
}

void nexus_place_end(struct nexus *n, int64_t now_ns, uint32_t p, struct central_output *out) {
    struct nexus_place *place = &n->place[p];
    struct nexus_accelerator *accelerator = &n->accelerator[place->accelerator];
    uint32_t *link = &n->model[place->model].places;
    while (*link != p)
        link = &n->place[*link].next_of_model;
    *link = place->next_of_model;
    link = &accelerator->places;
    while (*link != p)
        link = &n->place[*link].next_here;
    *link = place->next_here;
    if (accelerator->turn == p)
        accelerator->turn = place->next_here;
    if (place->counted && (place->state == PLACE_WANTED || place->state == PLACE_LOADING))
        waited(n, now_ns, place); /* although it never became ready */
    n->moves.requests += place->queue.count;
    while (place->queue.count > 0)
        nexus_route(n, now_ns, place->model, deadline_queue_pop(&place->queue, n->pool->nodes), out);
    place->state = PLACE_FREE;
    place->next_of_model = n->free_place;
    n->free_place = p;
}

/* Requests go to the places that come first: those that are ready, else those that retire, else those that will be
 * ready. */
static int state_order(enum nexus_place_state state) {
    return state == PLACE_READY ? 0 : state == PLACE_RETIRING ? 1 : 2;
}

static uint32_t place_next(struct nexus *n, uint32_t model, uint16_t port) {
    double *credit = n->credit;
    if (n->frontends_real)
        credit += (size_t)(port % n->frontends) * n->places_max;
    else if (n->frontends > 1)
        credit += rng_below(&n->rng, n->frontends) * n->places_max;
    int order = 2;
    for (uint32_t p = n->model[model].places; p != NEXUS_NONE; p = n->place[p].next_of_model)
        order = state_order(n->place[p].state) < order ? state_order(n->place[p].state) : order;
    uint32_t best = NEXUS_NONE;
    double sum = 0;
    for (uint32_t p = n->model[model].places; p != NEXUS_NONE; p = n->place[p].next_of_model) {
        if (state_order(n->place[p].state) != order)
            continue;
        sum += n->place[p].weight;
        credit[p] += n->place[p].weight;
        if (best == NEXUS_NONE || credit[p] > credit[best])
            best = p;
    }
    if (best != NEXUS_NONE)
        credit[best] -= sum;
    return best;
}

void nexus_route(struct nexus *n, int64_t now_ns, uint32_t model, uint32_t node, struct central_output *out) {
    struct request_node *request = nexus_node(n, node);
    uint32_t p = request->items >= 1 && request->items <= n->model[model].batch_max
                     ? place_next(n, model, request->port)
                     : NEXUS_NONE;
    if (p == NEXUS_NONE ||
        now_ns + nexus_delay_ns(n, request->items) + nexus_profile(n, &n->place[p])->latency_ns[request->items] >
            request->deadline_ns) {
        central_give_up(out, n->pool, node, &(struct central_why){.cause = CAUSE_WAITED});
        return;
    }
    struct deadline_queue *queue = &n->place[p].queue;
    deadline_queue_insert(queue, n->pool->nodes, node);
    if (deadline_queue_first(queue) == node || nexus_delay_ns(n, 1) > 0) /* else it changes nothing yet */
        nexus_due(n, n->place[p].accelerator);
}
