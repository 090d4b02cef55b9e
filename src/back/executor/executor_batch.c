/* executor_batch.c - gathers a batch's inputs, reports and answers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "back/executor/executor_state.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/assert.h"
#include "core/util/counter.h"

#define INPUT_ALIGN 64 /* alignment of each input within the gather buffer */

void gather_release(struct executor *x) {
    if (x->gather_pinned)
        x->config.engine->memory_free(x->engine, x->gather);
    else
        free(x->gather);
    x->gather = NULL;
    x->gather_bytes = 0;
    x->gather_pinned = false;
}

/* Makes room for a batch's inputs. The buffer grows only for a batch that is larger than all before, so seldom. */
static int gather_reserve(struct executor *x, size_t bytes, struct sy_error *err) {
    if (bytes <= x->gather_bytes)
        return 0;
    const struct engine_ops *engine = x->config.engine;
    size_t rounded = (bytes + 4095) / 4096 * 4096;
    char *memory = engine->memory ? engine->memory(x->engine, rounded) : NULL;
    bool pinned = memory != NULL;
    if (!memory)
        memory = aligned_alloc(4096, rounded);
    if (!memory)
        return error_set(err, -ENOMEM, "no memory for the inputs of a batch: %zu bytes", bytes);
    gather_release(x);
    x->gather = memory;
    x->gather_bytes = rounded;
    x->gather_pinned = pinned;
    return 0;
}

static size_t aligned(size_t bytes) {
    return (bytes + INPUT_ALIGN - 1) / INPUT_ALIGN * INPUT_ALIGN;
}

uint32_t batch_items(const struct executor *x, const struct batch_plan *plan) {
    return plan->items == ITEMS_OF_REQUEST ? wiring_card(x->wiring, plan->handles[0])->items : plan->items;
}

/* Sets the rows of one request to zeros, in all inputs of its batch. */
static void rows_clear(const struct executor *x, const struct batch_plan *plan, const struct tensor_view *inputs,
                       uint32_t request) {
    const struct signature *signature = &x->config.models[plan->place.n].signature;
    for (uint32_t i = 0; i < signature->input_count; i++) {
        size_t at = 0;
        for (uint32_t k = 0; k < request; k++)
            at += card_input_at(wiring_card(x->wiring, plan->handles[k]), i)->bytes;
        if (inputs[i].data)
            memset((char *)inputs[i].data + at, 0,
                   card_input_at(wiring_card(x->wiring, plan->handles[request]), i)->bytes);
    }
}

int batch_gather(struct executor *x, const struct batch_plan *plan, struct tensor_view *inputs, struct sy_error *err) {
    const struct signature *signature = &x->config.models[plan->place.n].signature;
    const struct wiring *w = x->wiring;
    const struct request_card *first = wiring_card(w, plan->handles[0]);
    size_t total = INPUT_ALIGN; /* a tensor without bytes needs an address, too */

    for (uint32_t i = 0; i < signature->input_count; i++)
        inputs[i] = card_view(first, i, w->regions);
    if (plan->request_count == 1 && !card_is_elsewhere(first))
        return 0;
    for (uint32_t i = 0; i < signature->input_count; i++) {
        inputs[i].bytes = 0; /* strings have any length, so ask each request */
        for (uint32_t k = 0; k < plan->request_count; k++)
            inputs[i].bytes += card_input_at(wiring_card(w, plan->handles[k]), i)->bytes;
        total += aligned(inputs[i].bytes);
    }
    int rc = gather_reserve(x, total, err);
    if (rc < 0)
        return rc;
    char *at = x->gather;
    for (uint32_t i = 0; i < signature->input_count; i++) {
        if (!inputs[i].data) /* no request has this input, since all have the same ones */
            continue;
        inputs[i].data = at;
        if (plan->request_count > 1)
            inputs[i].dims[0] = plan->items;
        for (uint32_t k = 0; k < plan->request_count; k++) {
            const struct card_input *input = card_input_at(wiring_card(w, plan->handles[k]), i);
            memcpy(at, region_at(w->regions, input), input->bytes);
            at += input->bytes;
        }
        at = (char *)inputs[i].data + aligned(inputs[i].bytes);
    }
    /* A frontend in another process may have ended some requests meanwhile. The copies of their inputs may then be half
     * another request's, which might make the run fail. So their rows become zeros, as in trial runs; the frontend no
     * longer knows these requests, and ignores their results. */
    for (uint32_t k = 0; k < plan->request_count; k++)
        if (card_has_ended(wiring_card(x->wiring, plan->handles[k])))
            rows_clear(x, plan, inputs, k);
    return 0;
}

/* Whether an input of two requests can be rows of one tensor: both have it, or none; and all dimensions but the rows'
 * are the same. */
static bool input_alike(const struct card_input *a, const struct card_input *b, uint32_t from) {
    return (a->region == REGION_NONE) == (b->region == REGION_NONE) && a->dim_count == b->dim_count &&
           (a->dim_count <= from ||
            memcmp(a->dims + from, b->dims + from, (a->dim_count - from) * sizeof(*a->dims)) == 0);
}

/* Marks the requests whose shapes differ from the first one's. The scheduler batches by a hash of the shapes. Two
 * shapes may have the same hash, by chance or because a client knows the secret; such requests must not read or change
 * the results of others. A model of one shape needs no check: requests of other shapes were refused. */
void batch_split(const struct executor *x, const struct batch_plan *plan, bool *alone) {
    const struct served_model *model = &x->config.models[plan->place.n];
    const struct signature *signature = &model->signature;
    bool parted = false;
    if (!signature->variable_shapes || plan->request_count == 1)
        return;
    const struct request_card *first = wiring_card(x->wiring, plan->handles[0]);
    for (uint32_t k = 1; k < plan->request_count; k++) {
        const struct request_card *card = wiring_card(x->wiring, plan->handles[k]);
        bool alike = true;
        for (uint32_t i = 0; i < signature->input_count; i++)
            alike = alike && input_alike(card_input_at(first, i), card_input_at(card, i), signature->batched);
        alone[k] = alone[k] || !alike;
        parted = parted || !alike;
    }
    if (parted)
        log_warn("requests of different shapes came as one batch, and are run apart", "model=%s requests=%u",
                 model->name, plan->request_count);
}

bool batch_expired(const struct executor *x, const struct batch_plan *plan, int64_t now_ns) {
    if (now_ns > plan->latest_ns)
        return true;
    for (uint32_t k = 0; k < plan->request_count; k++) {
        const struct request_card *card = wiring_card(x->wiring, plan->handles[k]);
        if (card->deadline_ns > now_ns || card->delay)
            return false;
    }
    return true;
}

struct ran_message batch_ran(const struct executor *x, const struct batch_plan *plan, int64_t now_ns,
                             int64_t ended_ns) {
    struct ran_message ran = batch_plan_ran(plan);
    ran.type = x->config.type;
    ran.items = batch_items(x, plan);
    ran.dispatch_ns = plan->sealed_ns < ended_ns ? -1 : now_ns - plan->sealed_ns;
    return ran;
}

void batch_count(struct executor *x, const struct batch_plan *plan, const struct run_result *result) {
    struct executor_counters *counters = &x->counters[plan->accelerator - x->config.first_accelerator];

    if (result->status == REQUEST_REFUSED)
        counter_add(&counters->expired_batches, 1);
    else if (result->status == REQUEST_FAILED)
        counter_add(&counters->failed_batches, 1);
    else if (result->absent)
        counter_add(&counters->absent_batches, 1);
    else if (result->status == REQUEST_LOST && !result->unready)
        counter_add(&counters->lost_batches, 1);
    counter_add(&counters->busy_ns, (uint64_t)(result->end_ns - result->start_ns));
    counter_add(&counters->batches, 1);
    counter_add(&counters->items, batch_items(x, plan));
    counter_add(&counters->requests, plan->request_count);
    if (!x->config.timelines)
        return;
    uint32_t sealed_us = time_us_between(plan->sealed_ns, result->start_ns);
    const struct timeline_entry entry = {
        .start_ns = result->start_ns,
        .took_us = time_us_between(result->start_ns, result->end_ns),
        .predicted_us = plan->predicted_us,
        .model_key = x->models[plan->place.n].key,
        .items = (uint16_t)batch_items(x, plan),
        .kind = TIMELINE_RUN,
        .end = result->status == REQUEST_OK        ? TIMELINE_RAN
               : result->status == REQUEST_REFUSED ? TIMELINE_EXPIRED
               : result->status == REQUEST_FAILED  ? TIMELINE_FAILED
               : result->absent                    ? TIMELINE_ABSENT
                                                   : TIMELINE_LOST,
        .came_us = plan->waited ? wait_of(plan->waited) + sealed_us : 0,
        .ready_us = plan->ready_us < UINT32_MAX - sealed_us ? plan->ready_us + sealed_us : UINT32_MAX,
    };
    timeline_note(executor_timeline(x, plan->accelerator), &entry);
}

uint32_t batch_late(const struct executor *x, const struct batch_plan *plan, const struct run_result *result) {
    uint32_t late = 0;

    if (result->status == REQUEST_REFUSED)
        return plan->request_count;
    if (result->slice_count > 0) { /* the requests are ordered by suffix, not by deadline */
        for (uint32_t k = 0; k < plan->request_count; k++)
            late += wiring_card(x->wiring, plan->handles[k])->deadline_ns < result->end_ns;
        return late;
    }
    while (result->status == REQUEST_OK && late < plan->request_count &&
           wiring_card(x->wiring, plan->handles[late])->deadline_ns < result->end_ns)
        late++;
    return late;
}

void batch_report(struct executor *x, uint32_t model_thread, const struct ran_message *ran, int64_t ended_ns) {
    struct wiring *w = x->wiring;

    if (!w->central) {
        uint32_t subcluster = wiring_subcluster_of_accelerator(w, ran->accelerator);
        struct ring *ring = wiring_freed(w, x->config.index, subcluster);
        struct freed_message *freed = ring_reserve(ring);
        CHECK(freed); /* the ring has room for all batches that the accelerators may have under way */
        freed->news = NEWS_ENDED;
        freed->unlike = ran->run_ns == 0;
        freed->accelerator = ran->accelerator;
        freed->variant = ran->variant;
        freed->ended_ns = ended_ns;
        ring_push(ring);
    }
    struct ring *ring = wiring_ran(w, x->config.index, model_thread);
    struct ran_message *message = ring_reserve(ring);
    CHECK(message || !w->central); /* it has room for all that a central policy may have under way */
    if (message) {                 /* else the model thread is far behind; the measurement is dropped */
        *message = *ran;
        ring_push(ring);
    }
    x->model_rung[model_thread] = true;
    x->reports++;
}

/* Wakes a scheduling thread, or does its work itself if that is little and this thread has a core of its own. In a
 * backend process the link thread stands for all of these: it is rung once, when all messages are published. */
static void ring_or_help(struct executor *x, struct doorbell *bell) {
    if (x->wiring->link == LINK_BACKEND)
        x->link_rung = true;
    else
        doorbell_ring_or_help(bell, !x->config.shared && x->reports <= WIRING_HELP_MOST);
}

void executor_publish_freed(struct executor *x) {
    struct wiring *w = x->wiring;

    for (uint32_t k = 0; k < w->rank_threads && !w->central; k++) {
        bool news = ring_publish(wiring_freed(w, x->config.index, k));
        news |= x->config.memory_bytes && ring_publish(wiring_moved(w, x->config.index, k));
        if (news)
            ring_or_help(x, &w->rank_bells[k]);
    }
}

/* The link thread's turn is short, and taking it here saves a wake-up between a result and its frontend; but the next
 * batch comes first: when pulls of 10 KB, 64 a batch, waited for such turns, the median one took 160 us instead of
 * 100. */
void executor_publish(struct executor *x) {
    struct wiring *w = x->wiring;

    executor_publish_freed(x);
    for (uint32_t f = 0; f < w->frontends; f++) {
        if (!x->frontend_rung[f])
            continue;
        x->frontend_rung[f] = false;
        ring_publish(wiring_results(w, x->config.index, f));
        if (w->link == LINK_BACKEND)
            x->link_rung = true;
        else
            doorbell_ring(&w->frontend_bells[f]);
    }
    for (uint32_t t = 0; t < w->model_threads; t++) {
        bool news = w->central && x->config.memory_bytes && ring_publish(wiring_moved(w, x->config.index, 0));
        news |= x->model_rung[t] && ring_publish(wiring_ran(w, x->config.index, t));
        x->model_rung[t] = false;
        if (news)
            ring_or_help(x, &w->model_bells[t]);
    }
    if (x->link_rung) {
        struct ring *ring = wiring_plans(w, 0, x->config.index); /* of the link, the only model thread */
        bool another = !x->emulation && ring_ready(ring, x->batch.slots + 1) > x->batch.slots;
        doorbell_ring_or_help(wiring_link_bell(w), x->reports <= WIRING_HELP_MOST && !another);
    }
    x->link_rung = false;
    x->reports = 0;
}

/* The slot of the next message to a request's frontend. NULL: the ring is full. */
static struct result_message *result_reserve(struct executor *x, uint64_t handle, struct ring **ring) {
    uint32_t frontend = wiring_frontend_of(x->wiring, handle);
    *ring = wiring_results(x->wiring, x->config.index, frontend);
    x->frontend_rung[frontend] = true;
    return ring_reserve(*ring);
}

/* Notes how many requests will hold a reference to a block. Called before other threads see the block; they see the
 * number by the release of the rings. */
static void block_share(struct output_block *block, uint32_t requests) {
    if (block)
        atomic_store_explicit(&block->references, requests, memory_order_relaxed);
}

void batch_answer(struct executor *x, const struct batch_plan *plan, const struct run_result *result) {
    struct output_block *block = result->status == REQUEST_FAILED ? output_block_failed(result->error.text)
                                 : result->status == REQUEST_OK   ? result->block
                                                                  : NULL;
    uint32_t item = 0, items = batch_items(x, plan), slices = 0, slice_ends = 0;
    struct batch_past past = {
        .ready_us = plan->ready_us,
        .sealed_us = time_us_between(plan->sealed_ns, result->start_ns),
        .predicted_us = plan->predicted_us,
        .accelerator = plan->accelerator,
        .before = result->before,
    };

    if (past.ready_us < UINT32_MAX - past.sealed_us)
        past.ready_us += past.sealed_us;
    else
        past.ready_us = UINT32_MAX;
    if (x->wiring->link == LINK_BACKEND && past.before != MODEL_NONE) /* other processes have other numbers */
        past.before = x->models[past.before].key;
    if (result->slice_count == 0)
        block_share(block, plan->request_count);
    for (uint32_t k = 0; k < plan->request_count; k++) {
        uint64_t handle = plan->handles[k];
        struct ring *ring;
        if (slices < result->slice_count && k == slice_ends) {
            const struct run_slice *slice = &result->slices[slices++];
            block = slice->block;
            block_share(block, slice->requests);
            item = 0;
            items = slice->items;
            slice_ends += slice->requests;
        }
        struct result_message *message = result_reserve(x, handle, &ring);
        CHECK(message); /* no more requests are outstanding than the ring has slots: see result_slots() in wiring.c */
        *message = (struct result_message){
            .handle = handle,
            .run_start_ns = result->start_ns,
            .run_end_ns = result->end_ns,
            .block = block,
            .first_item = result->whole ? ITEMS_WHOLE : item,
            .batch_items = items,
            .status = (uint8_t)result->status,
            .refusal = REFUSAL_DEADLINE,
            .suspect = result->suspect,
            .broke = result->broke,
            .absent = result->absent,
            .read = result->read && handle == x->lost_handle,
            .unready = result->unready,
            .past = past,
        };
        item += wiring_card(x->wiring, handle)->items;
        ring_push(ring);
    }
}

bool request_unready(const struct executor *x, uint64_t handle) {
    /* acquire: with the thread that has prepared the inputs, and clears it */
    return atomic_load_explicit(&wiring_card(x->wiring, handle)->unready, memory_order_acquire);
}

void batch_unready_give(struct executor *x, struct batch_plan *plan) {
    uint32_t kept = 0, count = plan->request_count, items = batch_items(x, plan), left = items;
    int64_t now_ns = 0;
    for (uint32_t k = 0; k < count; k++) {
        uint64_t handle = plan->handles[k];
        struct ring *ring;
        if (!request_unready(x, handle)) {
            plan->handles[kept++] = handle;
            continue;
        }
        now_ns = now_ns ? now_ns : clock_now_ns();
        left -= wiring_card(x->wiring, handle)->items;
        struct result_message *message = result_reserve(x, handle, &ring);
        CHECK(message); /* as in batch_answer() */
        *message = (struct result_message){
            .handle = handle, .run_start_ns = now_ns, .run_end_ns = now_ns, .status = REQUEST_LOST, .unready = true};
        ring_push(ring);
    }
    if (kept == count)
        return;
    plan->request_count = kept;
    plan->items = kept ? left : items; /* an empty plan is reported with the items that it had */
}

bool request_release(struct executor *x, uint64_t handle) {
    struct ring *ring;
    struct result_message *message = result_reserve(x, handle, &ring);

    if (!message)
        return false;
    *message = (struct result_message){.handle = handle, .status = REQUEST_RELEASED};
    ring_push(ring);
    executor_publish(x);
    return true;
}
