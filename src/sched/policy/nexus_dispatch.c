/* nexus_dispatch.c - the accelerators of `nexus`: models are loaded as planned, and batches run in turn.
 *
 * An accelerator goes round its places. Each runs what has gathered, as far as its first request has time for it; with
 * `batch: planned` no more than planned, so that a round takes at most the duty cycle. The accelerator does not wait
 * for a batch to fill or for a cycle to end. The next batch is sent so early that its inputs arrive when the
 * accelerator becomes free. */
#include "core/util/assert.h"
#include "sched/policy/nexus_state.h"

/* ---- dropping requests, forming batches (section 6.3) ---- */

/* When a batch of `items` would end at an accelerator. */
static int64_t end_of(const struct nexus *n, const struct nexus_place *place, int64_t now_ns, uint32_t items) {
    int64_t free_ns = n->accelerator[place->accelerator].free_ns;
    int64_t start_ns = now_ns + nexus_delay_ns(n, items);
    return (start_ns > free_ns ? start_ns : free_ns) + nexus_profile(n, place)->latency_ns[items];
}

/* `wanted`: items of the batch that it has no time for. */
static void head_drop(struct nexus *n, struct nexus_place *place, uint32_t wanted, struct central_output *out) {
    uint32_t node = deadline_queue_pop(&place->queue, n->pool->nodes);
    bool crowded = wanted > nexus_node(n, node)->items;
    central_give_up(out, n->pool, node,
                    &(struct central_why){.cause = crowded ? CAUSE_CROWDED : CAUSE_WAITED, .later = wanted});
}

/* The most items, from `least` on, that a place can run before its first request is late. */
static uint32_t items_gathered(const struct nexus *n, int64_t now_ns, const struct nexus_place *place, uint32_t least) {
    int64_t deadline_ns = nexus_node(n, deadline_queue_first(&place->queue))->deadline_ns;
    uint32_t most = n->model[place->model].batch_max, b = least;
    most = most < place->queue.items ? most : place->queue.items;
    while (b < most && end_of(n, place, now_ns, b + 1) <= deadline_ns)
        b++;
    return b;
}

/* Early drop: a window as long as the planned batch slides over the queue until its first request has enough time for a
 * batch of the whole window; the requests before are dropped. Returns the most items for the batch. */
static uint32_t window_slide(struct nexus *n, int64_t now_ns, struct nexus_place *place, struct central_output *out) {
    uint32_t window = 0;
    while (place->queue.count > 0) {
        const struct request_node *head = nexus_node(n, deadline_queue_first(&place->queue));
        window = place->batch < place->queue.items ? place->batch : place->queue.items;
        window = head->items > window ? head->items : window;
        if (end_of(n, place, now_ns, window) <= head->deadline_ns)
            return n->batch == NEXUS_GATHERED ? items_gathered(n, now_ns, place, window) : window;
        head_drop(n, place, window, out);
    }
    return 0;
}

/* Lazy drop: a request is dropped when it can no longer be in time itself; the batch is as large as the first one has
 * time for. */
static uint32_t late_drop(struct nexus *n, int64_t now_ns, struct nexus_place *place, struct central_output *out) {
    while (place->queue.count > 0) {
        const struct request_node *head = nexus_node(n, deadline_queue_first(&place->queue));
        if (end_of(n, place, now_ns, head->items) <= head->deadline_ns)
            return items_gathered(n, now_ns, place, head->items);
        head_drop(n, place, 0, out);
    }
    return 0;
}

/* Sends the first requests of a queue, `most` items at most, as one batch. */
static void batch_send(struct nexus *n, int64_t now_ns, struct nexus_place *place, uint32_t most,
                       struct central_output *out) {
    struct nexus_accelerator *accelerator = &n->accelerator[place->accelerator];
    struct central_action *action = &out->actions[out->action_count++];
    *action = (struct central_action){
        .kind = CENTRAL_RUN,
        .accelerator = place->accelerator,
        .model = place->model,
        .earliest_ns = INT64_MIN,
        .latest_ns = TIME_NEVER,
        .first = REQUEST_NONE,
    };
    uint32_t *link = &action->first;
    while (place->queue.count > 0) {
        uint32_t node = deadline_queue_first(&place->queue);
        struct request_node *request = nexus_node(n, node);
        if (action->items + request->items > most)
            break;
        deadline_queue_pop(&place->queue, n->pool->nodes);
        request->next = REQUEST_NONE;
        *link = node;
        link = &request->next;
        action->items += request->items;
        action->requests++;
    }
    CHECK(action->items > 0);
    int64_t run_ns = nexus_profile(n, place)->latency_ns[action->items];
    uint32_t slot = (accelerator->head + accelerator->in_flight++) % NEXUS_IN_FLIGHT;
    accelerator->in_flight_model[slot] = place->model;
    accelerator->in_flight_ns[slot] = run_ns;
    accelerator->arrives_ns[slot] = now_ns + nexus_delay_ns(n, action->items);
    accelerator->free_ns = end_of(n, place, now_ns, action->items);
}

/* ---- turns ---- */

static bool has_turn(const struct nexus_place *place) {
    return place->queue.count > 0 && (place->state == PLACE_READY || place->state == PLACE_RETIRING);
}

/* The next place in the cycle that has requests, from `turn` on; NONE: none has. */
static uint32_t turn_next(const struct nexus *n, const struct nexus_accelerator *accelerator) {
    for (uint32_t p = accelerator->turn; p != NEXUS_NONE; p = n->place[p].next_here)
        if (has_turn(&n->place[p]))
            return p;
    for (uint32_t p = accelerator->places; p != accelerator->turn; p = n->place[p].next_here)
        if (has_turn(&n->place[p]))
            return p;
    return NEXUS_NONE;
}

/* When the place whose turn it is may send: so early that its inputs are there when the accelerator becomes free. */
static int64_t send_time(const struct nexus *n, const struct nexus_accelerator *accelerator,
                         const struct nexus_place *place) {
    if (accelerator->in_flight == 0)
        return INT64_MIN;
    uint32_t items = place->batch < place->queue.items ? place->batch : place->queue.items;
    int64_t delay_ns = nexus_delay_ns(n, items);
    return accelerator->in_flight < NEXUS_IN_FLIGHT && delay_ns > 0 ? accelerator->free_ns - delay_ns : TIME_NEVER;
}

/* Sends batches in turn. Sets *next_ns to when to send the next one, or TIME_NEVER; false if the output is full. */
static bool batches_send(struct nexus *n, int64_t now_ns, uint32_t a, struct central_output *out, int64_t *next_ns) {
    struct nexus_accelerator *accelerator = &n->accelerator[a];
    *next_ns = TIME_NEVER;
    for (uint32_t p; (p = turn_next(n, accelerator)) != NEXUS_NONE;) {
        struct nexus_place *place = &n->place[p];
        *next_ns = send_time(n, accelerator, place);
        if (*next_ns > now_ns)
            return true;
        if (out->action_count == CENTRAL_ACTIONS_MAX)
            return false;
        uint32_t most = n->drop == NEXUS_EARLY ? window_slide(n, now_ns, place, out) : late_drop(n, now_ns, place, out);
        if (place->queue.count > 0) {
            batch_send(n, now_ns, place, most, out);
            accelerator->turn = place->next_here;
        }
        *next_ns = TIME_NEVER;
    }
    return true;
}

/* Drops requests that can no longer be in time, even if their turn came now. The accelerator is looked at again when
 * the first of the other requests may be late, even if no action has ended by then: runs and loads may take longer than
 * expected. */
static void late_refuse(struct nexus *n, int64_t now_ns, uint32_t a, int64_t next_ns, struct central_output *out) {
    for (uint32_t p = n->accelerator[a].places; p != NEXUS_NONE; p = n->place[p].next_here) {
        struct nexus_place *place = &n->place[p];
        while (place->queue.count > 0) {
            const struct request_node *head = nexus_node(n, deadline_queue_first(&place->queue));
            if (end_of(n, place, now_ns, head->items) <= head->deadline_ns) {
                int64_t latest_ns = head->deadline_ns - nexus_profile(n, place)->latency_ns[head->items] -
                                    nexus_delay_ns(n, head->items);
                next_ns = latest_ns + 1 < next_ns ? latest_ns + 1 : next_ns;
                break;
            }
            head_drop(n, place, 0, out);
        }
    }
    if (next_ns == TIME_NEVER)
        heap_remove(&n->wakes, a);
    else
        heap_set(&n->wakes, a, next_ns);
}

/* ---- loads, where memory is limited ---- */

static bool in_flight(const struct nexus_accelerator *accelerator, uint32_t model) {
    for (uint32_t i = 0; i < accelerator->in_flight; i++)
        if (accelerator->in_flight_model[(accelerator->head + i) % NEXUS_IN_FLIGHT] == model)
            return true;
    return false;
}

static void load_send(struct nexus *n, uint32_t a, uint32_t model, bool load, struct central_output *out) {
    struct nexus_accelerator *accelerator = &n->accelerator[a];
    out->actions[out->action_count++] = (struct central_action){
        .kind = load ? CENTRAL_LOAD : CENTRAL_UNLOAD,
        .accelerator = a,
        .model = model,
        .earliest_ns = INT64_MIN,
        .latest_ns = TIME_NEVER,
        .first = REQUEST_NONE,
    };
    n->loaded[(size_t)a * n->models + model] = load ? NEXUS_LOADS : NEXUS_NOT_LOADED;
    uint64_t bytes = nexus_weights_bytes(n, model, accelerator->page_bytes);
    accelerator->bytes_taken += load ? bytes : -bytes;
}

/* A model that is loaded on an accelerator, is not planned there and does not run; NONE: there is none. */
static uint32_t unwanted(const struct nexus *n, uint32_t a) {
    for (uint32_t m = 0; m < n->models; m++) {
        if (n->loaded[(size_t)a * n->models + m] != NEXUS_LOADED || in_flight(&n->accelerator[a], m))
            continue;
        uint32_t p = nexus_place_find(n, m, a);
        if (p == NEXUS_NONE || n->place[p].state == PLACE_RETIRING)
            return m;
    }
    return NEXUS_NONE;
}

/* Unloads models until a model fits; false if that has to wait. */
static bool room_make(struct nexus *n, int64_t now_ns, uint32_t a, uint32_t model, struct central_output *out) {
    struct nexus_accelerator *accelerator = &n->accelerator[a];
    uint64_t bytes = nexus_weights_bytes(n, model, accelerator->page_bytes);
    while (accelerator->bytes_taken + bytes > accelerator->memory_bytes) {
        uint32_t other = unwanted(n, a);
        if (other == NEXUS_NONE || out->action_count == CENTRAL_ACTIONS_MAX)
            return false;
        uint32_t p = nexus_place_find(n, other, a);
        if (p != NEXUS_NONE)
            nexus_place_end(n, now_ns, p, out);
        load_send(n, a, other, false, out);
    }
    return out->action_count < CENTRAL_ACTIONS_MAX;
}

/* Loads the models planned for an accelerator. A load that must wait for batches or other loads is tried again when
 * they end. */
static void loads_dispatch(struct nexus *n, int64_t now_ns, uint32_t a, struct central_output *out) {
    for (uint32_t p = n->accelerator[a].places, next; p != NEXUS_NONE; p = next) {
        struct nexus_place *place = &n->place[p];
        if (place->state == PLACE_WANTED) {
            if (!room_make(n, now_ns, a, place->model, out))
                return;
            load_send(n, a, place->model, true, out);
            place->state = PLACE_LOADING;
        }
        next = place->next_here;
    }
}

bool nexus_dispatch(struct nexus *n, int64_t now_ns, uint32_t a, struct central_output *out) {
    if (!n->accelerator[a].up)
        return true;
    if (n->limited)
        loads_dispatch(n, now_ns, a, out);
    int64_t next_ns;
    bool all = batches_send(n, now_ns, a, out, &next_ns);
    late_refuse(n, now_ns, a, next_ns, out);
    return all && out->action_count < CENTRAL_ACTIONS_MAX;
}

void nexus_has(struct nexus *n, uint32_t a, uint32_t model, bool comes) {
    n->loaded[(size_t)a * n->models + model] = comes ? NEXUS_LOADS : NEXUS_LOADED;
    n->accelerator[a].bytes_taken += nexus_weights_bytes(n, model, n->accelerator[a].page_bytes);
}

/* ---- the ends of batches and loads ---- */

static void run_ended(int64_t now_ns, struct nexus_accelerator *accelerator) {
    CHECK(accelerator->in_flight > 0);
    accelerator->head = (accelerator->head + 1) % NEXUS_IN_FLIGHT;
    accelerator->in_flight--;
    accelerator->free_ns = now_ns;
    if (accelerator->in_flight) {
        uint32_t slot = accelerator->head;
        int64_t begin_ns = accelerator->arrives_ns[slot] > now_ns ? accelerator->arrives_ns[slot] : now_ns;
        accelerator->free_ns = begin_ns + accelerator->in_flight_ns[slot];
    }
}

void nexus_ended(struct nexus *n, int64_t now_ns, const struct central_ended *ended) {
    struct nexus_accelerator *accelerator = &n->accelerator[ended->accelerator];
    if (ended->kind == CENTRAL_RUN) {
        run_ended(now_ns, accelerator);
    } else {
        uint8_t *loaded = &n->loaded[(size_t)ended->accelerator * n->models + ended->model];
        if (ended->kind == CENTRAL_LOAD && *loaded == NEXUS_LOADS) {
            *loaded = ended->done ? NEXUS_LOADED : NEXUS_NOT_LOADED;
            if (!ended->done)
                accelerator->bytes_taken -= nexus_weights_bytes(n, ended->model, accelerator->page_bytes);
            uint32_t p = nexus_place_find(n, ended->model, ended->accelerator);
            if (p != NEXUS_NONE && n->place[p].state == PLACE_LOADING && ended->done)
                nexus_place_ready(n, now_ns, p);
            else if (p != NEXUS_NONE && n->place[p].state == PLACE_LOADING)
                n->place[p].state = PLACE_FAILED;
        }
    }
    nexus_due(n, ended->accelerator);
}

void nexus_freed(struct nexus *n, int64_t now_ns, uint32_t a) {
    run_ended(now_ns, &n->accelerator[a]);
    nexus_due(n, a);
}
