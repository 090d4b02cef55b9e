/* thread_rings.c - a scheduling thread's side of the rings to frontends and executors. */
#include "sched/threads/thread_rings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/timeline.h"
#include "core/system/clock.h"
#include "core/util/assert.h"
#include "core/util/counter.h"

#define DELAYS_EVERY_NS   (100 * NS_PER_MS) /* time between two updates of delay(b) from measurements */
#define DELAYS_CHANGE_MIN 0.1               /* relative change that is worth telling the cores */
#define DELAYS_PART_MOST  8 /* divisor of an SLO: d_ctrl is at most that part, as port_reply_margin_ns() says why */

struct variant_id variants_take(bool *taken, uint32_t models, uint32_t count) {
    uint32_t run = 0;
    for (uint32_t v = 0; v < models; v++) {
        run = taken[v] ? 0 : run + 1;
        if (run == count) {
            memset(taken + v + 1 - count, true, count);
            return (struct variant_id){v + 1 - count};
        }
    }
    return (struct variant_id){VARIANTS_NONE};
}

struct thread_model thread_model_of(const struct served_model *model, struct place_id place, double copy_ns_per_byte) {
    return (struct thread_model){
        .place = place,
        .batch_max = model->batch_max,
        .slo_ns = model->slo_ns,
        .weight = model->weight,
        .weights_bytes = model->weights_bytes,
        .load_ns = model->load_ns,
        .pinned = model->pinned,
        .queue = &model->queue,
        .data_ns = (int64_t)(copy_ns_per_byte * served_model_item_bytes(model)),
    };
}

struct rank_weights thread_weights(const struct thread_model *model) {
    struct rank_weights weights = {
        .first = model->first_variant.n,
        .count = model->variant_count,
        .pages = model->pages,
        .pinned = model->pinned,
        .load_ns = model->load_ns > 0 ? model->load_ns : 1,
    };
    for (uint32_t type = 0; type < ACCELERATOR_TYPES_MAX; type++)
        weights.types |= model->profiles[type] ? 1u << type : 0;
    return weights;
}

int thread_rings_init(struct thread_rings *r, const struct thread_rings_config *config, struct sy_error *err) {
    uint32_t count = config->model_count ? config->model_count : 1, served = 0;

    r->wiring = config->wiring;
    r->index = config->index;
    r->model_count = config->model_count;
    for (uint32_t m = 0; m < config->model_count; m++)
        served = config->models[m].place.n + 1 > served ? config->models[m].place.n + 1 : served;
    r->models = calloc(count, sizeof(*r->models));
    r->counters = calloc(count, sizeof(*r->counters));
    r->queued = calloc(count, sizeof(*r->queued));
    r->batches = calloc(count, sizeof(*r->batches)); /* untouched pages cost nothing */
    r->measured = calloc(count, sizeof(*r->measured));
    r->model_of_place = calloc(served + 1, sizeof(*r->model_of_place));
    r->nodes = calloc(config->queue_max, sizeof(*r->nodes));
    r->types = config->types ? config->types : 1;
    r->since_ns = calloc(count, sizeof(*r->since_ns));
    r->executor_rung = calloc(r->wiring->executors, sizeof(bool));
    r->frontend_rung = calloc(r->wiring->frontends, sizeof(bool));
    if (!r->models || !r->counters || !r->queued || !r->batches || !r->measured || !r->model_of_place || !r->nodes ||
        !r->executor_rung || !r->frontend_rung || !r->since_ns || recorder_init(&r->recorder, config->record_bytes) < 0)
        return error_set(err, -ENOMEM, "no memory for the queues of %u models", config->model_count);
    for (uint32_t m = 0; m < config->model_count; m++) {
        r->model_of_place[config->models[m].place.n] = (struct thread_model_id){m};
        rings_model_set(r, (struct thread_model_id){m}, &config->models[m]);
    }
    atomic_init(&r->ctrl_ns, config->ctrl_ns);
    margin_init(&r->dispatch, config->ctrl_ns);
    request_pool_init(&r->pool, r->nodes, config->queue_max);
    return 0;
}

void rings_model_set(struct thread_rings *r, struct thread_model_id id, const struct thread_model *model) {
    uint32_t m = id.n;

    r->models[m] = *model;
    counters_clear(&r->counters[m], sizeof(r->counters[m]));
    atomic_store_explicit(&r->queued[m], 0, memory_order_relaxed); /* nobody asks yet */
    for (uint32_t type = 0; type < CENTRAL_TYPES_MAX && !r->counters[m].latency_one_ns; type++)
        if (model->profiles[type])
            atomic_store_explicit(&r->counters[m].latency_one_ns, model->profiles[type]->latency_ns[1],
                                  memory_order_relaxed); /* a gauge */
    for (uint32_t b = 0; b < PROFILE_BATCH_MAX; b++)
        if (counter_get(&r->batches[m][b].batches) > 0)
            counters_clear(&r->batches[m][b], sizeof(r->batches[m][b]));
    atomic_store_explicit(&r->since_ns[m], clock_now_ns(), memory_order_relaxed); /* a number on its own */
    margin_init(&r->measured[m].gather, model->data_ns);
    atomic_store_explicit(&r->measured[m].data_ns, model->data_ns, memory_order_relaxed); /* nobody asks yet */
}

void thread_rings_free(struct thread_rings *r) {
    free(r->models);
    free(r->counters);
    free((void *)r->queued);
    free(r->batches);
    free(r->measured);
    free(r->model_of_place);
    free(r->nodes);
    free((void *)r->since_ns);
    recorder_free(&r->recorder);
    free(r->executor_rung);
    free(r->frontend_rung);
}

/* ---- what goes out ---- */

/* `figures`: what is known of a refusal with a cause. */
static void refuse(struct thread_rings *r, struct thread_model_id model, uint32_t port, uint64_t handle,
                   enum refusal reason, enum refusal_cause cause, const struct refusal_figures *figures) {
    struct wiring *w = r->wiring;
    struct ring *ring = wiring_refusals(w, r->index, port);
    struct refusal_message *message = ring_reserve(ring);

    CHECK(message); /* a port has at most as many requests outstanding as the ring has slots */
    *message = (struct refusal_message){
        .handle = handle, .place = rings_model(r, model)->place, .reason = (uint8_t)reason, .cause = (uint8_t)cause};
    if (cause != CAUSE_NONE)
        message->figures = *figures;
    ring_push(ring);
    r->frontend_rung[port] = true;
    counter_add(&r->counters[model.n].refused[reason], 1);
}

void rings_refuse(struct thread_rings *r, struct thread_model_id model, uint32_t port, uint64_t handle,
                  enum refusal reason) {
    refuse(r, model, port, handle, reason, CAUSE_NONE, NULL);
}

void rings_refuse_list(struct thread_rings *r, uint32_t node) {
    while (node != REQUEST_NONE) {
        const struct request_node *request = &r->pool.nodes[node];
        uint32_t next = request->next;
        refuse(r, rings_model_of(r, (struct place_id){request->model}), request->port, request->handle,
               request->refusal, request->cause, &request->figures);
        request_pool_put(&r->pool, node);
        node = next;
    }
}

void rings_send(struct thread_rings *r, int64_t now_ns, const struct sealed_batch *batch) {
    struct wiring *w = r->wiring;
    uint32_t executor = w->executor_of[batch->accelerator], slots = batch_plan_slots(batch->requests);
    struct ring *ring = wiring_plans(w, r->index, executor);
    CHECK_LE(batch->requests, w->batch_max);
    struct batch_plan *plan = ring_reserve_run(ring, slots);

    CHECK(plan); /* the caller's duty */
    plan->accelerator = batch->accelerator;
    plan->variant = batch->variant;
    plan->generation = batch->generation;
    plan->place = rings_model(r, batch->model)->place;
    plan->request_count = batch->requests;
    plan->items = (uint16_t)batch->items;
    plan->zero = 0;
    plan->waited = wait_code(time_us_between(r->pool.nodes[batch->first].arrival_ns, now_ns));
    plan->sealed_ns = now_ns;
    plan->earliest_ns = batch->earliest_ns;
    plan->latest_ns = batch->latest_ns;
    plan->tag = batch->tag;
    plan->ready_us = time_us_between(batch->ready_ns, now_ns);
    plan->predicted_us = time_us_between(0, batch->run_ns);
    uint32_t i = 0;
    for (uint32_t node = batch->first; node != REQUEST_NONE;) {
        uint32_t next = r->pool.nodes[node].next;
        plan->handles[i++] = r->pool.nodes[node].handle;
        request_pool_put(&r->pool, node);
        node = next;
    }
    CHECK_EQ(i, plan->request_count);
    ring_push_run(ring, slots);
    r->executor_rung[executor] = true;
    histogram_add(&r->counters[batch->model.n].batch_items, batch->items);
}

bool rings_fit(const struct thread_rings *r, uint32_t accelerator) {
    struct wiring *w = r->wiring;
    return ring_fits(wiring_plans(w, r->index, w->executor_of[accelerator]), batch_plan_slots(w->batch_max));
}

void rings_publish(struct thread_rings *r) {
    struct wiring *w = r->wiring;

    for (uint32_t e = 0; e < w->executors; e++)
        if (r->executor_rung[e] && ring_publish(wiring_plans(w, r->index, e)))
            doorbell_ring(&w->executor_bells[e]);
    for (uint32_t f = 0; f < w->frontends; f++)
        if (r->frontend_rung[f] && ring_publish(wiring_refusals(w, r->index, f)))
            doorbell_ring(&w->frontend_bells[f]);
    memset(r->executor_rung, 0, w->executors);
    memset(r->frontend_rung, 0, w->frontends);
}

bool rings_pending(struct thread_rings *r) {
    struct wiring *w = r->wiring;

    for (uint32_t f = 0; f < w->frontends; f++)
        if (ring_pending(wiring_requests(w, f, r->index)))
            return true;
    for (uint32_t e = 0; e < w->executors; e++)
        if (ring_pending(wiring_ran(w, e, r->index)))
            return true;
    return false;
}

/* ---- what is measured ---- */

void rings_queued_add(struct thread_rings *r, struct thread_model_id model, int32_t change) {
    gauge_add(&r->queued[model.n], change);
}

void rings_prefetch_send(const struct thread_rings *r, struct thread_model_id model, uint32_t items) {
    histogram_prefetch(&r->counters[model.n].batch_items, items);
}

void rings_prefetch_ran(const struct thread_rings *r, struct thread_model_id model, const struct ran_message *ran) {
    histogram_prefetch(&r->counters[model.n].run_ns, ran->run_ns);
    __builtin_prefetch(&r->batches[model.n][ran->items - 1], 1);
}

void rings_ran(struct thread_rings *r, struct thread_model_id model, const struct ran_message *ran) {
    if (ran->dispatch_ns >= 0) {
        margin_add(&r->dispatch, ran->dispatch_ns);
        r->dispatched = true;
    }
    if (ran->gather_ns) {
        margin_add(&r->measured[model.n].gather, ran->gather_ns / ran->items);
        r->measured[model.n].any = true;
    }
    if (ran->run_ns) {
        struct batch_counters *batch = &r->batches[model.n][ran->items - 1];
        histogram_add(&r->counters[model.n].run_ns, ran->run_ns);
        counter_add(&batch->batches, 1);
        counter_add(&batch->gather_ns, (uint64_t)ran->gather_ns);
        counter_add(&batch->run_ns, (uint64_t)ran->run_ns);
    }
}

void rings_error_add(struct thread_rings *r, enum central_action_kind kind, int64_t predicted_ns, int64_t took_ns) {
    if (predicted_ns > 0)
        histogram_add(&r->errors[kind], llabs(took_ns - predicted_ns));
}

static bool differs(int64_t a, int64_t b) {
    int64_t most = a > b ? a : b, least = a > b ? b : a;
    return (double)(most - least) > DELAYS_CHANGE_MIN * (double)most && most - least > NS_PER_US;
}

/* Sets a delay to its margin, which relaxes while nothing is measured. True: the change is worth telling the cores. */
static bool follow(struct margin *margin, bool *measured, _Atomic int64_t *delay_ns) {
    if (!*measured)
        margin_relax(margin);
    *measured = false;
    if (!differs(margin_ns(margin), atomic_load_explicit(delay_ns, memory_order_relaxed))) /* own word */
        return false;
    atomic_store_explicit(delay_ns, margin_ns(margin), memory_order_relaxed); /* a number on its own */
    return true;
}

bool rings_follow_delays(struct thread_rings *r, int64_t now_ns) {
    if (now_ns < r->delays_next_ns)
        return false;
    r->delays_next_ns = now_ns + DELAYS_EVERY_NS;
    bool changed = follow(&r->dispatch, &r->dispatched, &r->ctrl_ns);
    for (uint32_t m = 0; m < r->model_count; m++)
        changed |= follow(&r->measured[m].gather, &r->measured[m].any, &r->measured[m].data_ns);
    return changed;
}

int64_t rings_ctrl_ns(const struct thread_rings *r, int64_t slo_ns) {
    int64_t ctrl_ns = atomic_load_explicit(&r->ctrl_ns, memory_order_relaxed); /* a number on its own */
    return ctrl_ns < slo_ns / DELAYS_PART_MOST ? ctrl_ns : slo_ns / DELAYS_PART_MOST;
}

void rings_delays(const struct thread_rings *r, struct thread_model_id model, int64_t *ctrl_ns, int64_t *data_ns) {
    *ctrl_ns = rings_ctrl_ns(r, rings_model(r, model)->slo_ns);
    *data_ns = atomic_load_explicit(&r->measured[model.n].data_ns, memory_order_relaxed);
}
