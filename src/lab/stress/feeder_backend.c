/* feeder_backend.c - emulated backends: batches that end when the tables say. */
#include <errno.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/counter.h"
#include "lab/stress/feeder_state.h"

#define ENDS_MOST 256 /* most batches that end in a turn */

void feeder_backend_introduce(struct feeder_member *m) {
    const struct feeder_world *w = m->feeder->world;
    for (uint32_t i = 0; i < w->model_count; i++) {
        size_t bytes = strlen(w->descriptions[i]);
        char *head = peer_frame(&m->peer, FRAME_MODEL, 1, sizeof(i) + bytes, 0);
        if (!head)
            return;
        memcpy(head, &i, sizeof(i));
        memcpy(head + sizeof(i), w->descriptions[i], bytes);
    }
    for (uint32_t a = 0; a < w->config->accelerators; a++) {
        struct wire_accelerator *place = peer_frame_more(&m->peer, FRAME_ACCELERATORS, sizeof(*place));
        if (place)
            snprintf(place->type, sizeof(place->type), "%s", w->type);
    }
    peer_send(&m->peer, FRAME_TOLD, 0, NULL, 0);
    for (uint32_t a = 0; a < w->config->accelerators; a++)
        peer_add(&m->peer, FRAME_FREED, &(struct freed_message){.news = NEWS_JOINS, .accelerator = a},
                 sizeof(struct freed_message));
    feeder_member_joined(m);
}

/* Counts a batch's requests as late or in time, now that its end is known. Returns the number of late ones. */
static uint32_t requests_settle(struct feeder *f, const struct batch_plan *plan, const struct feeder_batch *batch) {
    uint32_t late = 0;
    for (uint32_t i = 0; i < plan->request_count; i++) {
        late += batch->ran_not || batch->end_ns > feeder_request_deadline(f, plan->handles[i]);
        feeder_request_back(f, plan->handles[i]);
    }
    counter_add(&f->counts.planned, plan->request_count);
    counter_add(batch->ran_not ? &f->counts.expired : &f->counts.late, late);
    counter_add(&f->counts.model_bad[plan->place.n], late);
    return late;
}

static void take_plan(struct feeder_member *m, const struct batch_plan *plan, int64_t now_ns) {
    struct feeder *f = m->feeder;
    const struct feeder_world *w = f->world;
    uint32_t index = m->first + plan->accelerator;

    if (plan->accelerator >= w->config->accelerators || plan->place.n >= w->model_count || plan->items < 1 ||
        plan->items != plan->request_count || plan->items > w->models[plan->place.n].batch_max) {
        feeder_wrong(f, "a batch of %u requests and %u items of model %u for accelerator %u of backend %u",
                     plan->request_count, plan->items, plan->place.n, plan->accelerator, m->index);
        return;
    }
    struct feeder_accelerator *a = &f->accelerators[index];
    if (a->count == BATCHES_MOST) {
        feeder_wrong(f, "accelerator %u of backend %u has more than %d batches", plan->accelerator, m->index,
                     BATCHES_MOST);
        return;
    }
    struct feeder_batch *batch = &a->batches[a->count++];
    int64_t sealed_ns = health_local(&m->health, plan->sealed_ns), begin_ns = now_ns;
    int64_t earliest_ns = health_local(&m->health, plan->earliest_ns);
    begin_ns = a->free_ns > begin_ns ? a->free_ns : begin_ns;
    begin_ns = earliest_ns > begin_ns ? earliest_ns : begin_ns;
    batch->ran_not = begin_ns > health_local(&m->health, plan->latest_ns);
    int64_t run_ns = batch->ran_not ? 0 : w->profiles[plan->place.n]->latency_ns[plan->items];
    batch->end_ns = begin_ns + run_ns;
    batch->ran = batch_plan_ran(plan);
    batch->ran.run_ns = run_ns;
    batch->ran.dispatch_ns = sealed_ns < a->free_ns ? -1 : now_ns - sealed_ns;
    a->free_ns = batch->end_ns;
    if (a->count == 1)
        heap_set(&f->ends, index, batch->end_ns);
    histogram_add(&f->counts.way, now_ns - sealed_ns);
    counter_add(&f->counts.batches, 1);
    batch->ran.late = requests_settle(f, plan, batch);
}

int feeder_backend_frame(struct feeder_member *m, const struct frame *frame, const void *head, struct sy_error *err) {
    int64_t now_ns = clock_now_ns();
    switch (frame->kind) {
    case FRAME_PLANS:
        for (uint32_t at = 0; at < frame->head_bytes;) {
            const struct batch_plan *plan = (const struct batch_plan *)((const char *)head + at);
            at += wire_plan_length(plan);
            take_plan(m, plan, now_ns);
        }
        return 0;
    case FRAME_FRONTEND:
    case FRAME_FRONTEND_GONE:
    case FRAME_TOLD:
    case FRAME_RESTS:
        return 0;
    default:
        return error_set(err, -EPROTO, "a scheduler does not send frames of kind %u to a backend", frame->kind);
    }
}

static struct feeder_member *backend_of(struct feeder *f, uint32_t index) {
    return &f->backends[index / f->world->config->accelerators];
}

/* Tells first that accelerators are free, then the measured runs, as a backend does. */
bool feeder_end_batches(struct feeder *f, int64_t now_ns) {
    struct {
        uint32_t index;
        struct ran_message ran;
    } ended[ENDS_MOST];
    uint32_t count = 0;

    for (; count < ENDS_MOST && !heap_empty(&f->ends) && heap_top(&f->ends).key <= now_ns; count++) {
        uint32_t index = heap_top(&f->ends).item;
        const struct feeder_batch *batch = &f->accelerators[index].batches[0];
        const struct freed_message freed = {.accelerator = batch->ran.accelerator,
                                            .variant = batch->ran.variant,
                                            .ended_ns = now_ns,
                                            .unlike = batch->ran_not};
        peer_add(&backend_of(f, index)->peer, FRAME_FREED, &freed, sizeof(freed));
        ended[count].index = index;
        ended[count].ran = batch->ran;
        /* The accelerator's first batch is over. */
        struct feeder_accelerator *a = &f->accelerators[index];
        a->count--;
        memmove(a->batches, a->batches + 1, a->count * sizeof(*a->batches));
        if (a->count)
            heap_set(&f->ends, index, a->batches[0].end_ns);
        else
            heap_remove(&f->ends, index);
    }
    for (uint32_t i = 0; i < count; i++)
        peer_add(&backend_of(f, ended[i].index)->peer, FRAME_RAN, &ended[i].ran, sizeof(ended[i].ran));
    return count == ENDS_MOST;
}
