/* feeder_frontend.c - emulated frontends: requests in their slots, sent when they are due. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/peer/lost.h"
#include "core/data/card.h"
#include "core/system/clock.h"
#include "core/util/counter.h"
#include "lab/stress/feeder_state.h"
#include "model/repository/model_description.h"

int feeder_frontend_make(struct feeder_member *m) {
    const struct feeder_world *w = m->feeder->world;
    struct feeder_slots *s = &m->slots;
    s->count = s->free_count = LINKS_OUTSTANDING_MAX / w->config->frontends;
    s->free = malloc(s->count * sizeof(*s->free));
    s->submission = calloc(s->count, sizeof(*s->submission));
    s->used = calloc(s->count, sizeof(bool));
    s->deadline_ns = calloc(s->count, sizeof(*s->deadline_ns));
    m->place = malloc(w->model_count * sizeof(*m->place));
    if (!s->free || !s->submission || !s->used || !s->deadline_ns || !m->place)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->count; i++)
        s->free[i] = s->count - 1 - i;
    memset(m->place, 0xff, w->model_count * sizeof(*m->place));
    return 0;
}

void feeder_frontend_free(struct feeder_member *m) {
    free(m->slots.free);
    free(m->slots.submission);
    free(m->slots.used);
    free((void *)m->slots.deadline_ns);
    free(m->place);
}

/* ---- what comes back ---- */

static struct feeder_slots *slots_of(const struct feeder_world *w, uint64_t handle) {
    /* with the store in member_welcome() (feeder.c) */
    return atomic_load_explicit(&w->slots[handle_process(handle)], memory_order_acquire);
}

int64_t feeder_request_deadline(const struct feeder *f, uint64_t handle) {
    struct feeder_slots *s = slots_of(f->world, handle);
    if (!s || handle_slot(handle) >= s->count)
        return INT64_MIN;
    /* written before the request was sent; slot_give() checks later whether it is this request's */
    return atomic_load_explicit(&s->deadline_ns[handle_slot(handle)], memory_order_relaxed);
}

static void slot_give(struct feeder *f, uint64_t handle) {
    struct feeder_slots *s = slots_of(f->world, handle);
    uint32_t slot = handle_slot(handle);
    if (!s || slot >= s->count || !s->used[slot] ||
        handle != handle_of(handle_frontend(handle), slot, s->submission[slot])) {
        feeder_wrong(f, "request %" PRIx64 " came back twice, or never was", handle);
        return;
    }
    s->used[slot] = false;
    s->free[s->free_count++] = slot;
    counter_add(&f->counts.back, 1);
}

void feeder_request_back(struct feeder *f, uint64_t handle) {
    const struct feeder_world *w = f->world;
    uint32_t to = w->feeder_of[handle_process(handle)];
    if (to == f->index || to >= w->config->feeders) {
        slot_give(f, handle);
        return;
    }
    uint64_t *place = ring_reserve(&w->done[to * w->config->feeders + f->index]);
    if (!place) { /* the ring is as large as what all frontends may have outstanding */
        feeder_wrong(f, "more requests have come back than were sent");
        return;
    }
    *place = handle;
    ring_push(&w->done[to * w->config->feeders + f->index]);
    f->done_rung[to] = true;
}

void feeder_take_done(struct feeder *f) {
    for (uint32_t from = 0; from < f->world->config->feeders; from++) {
        struct ring *ring = &f->world->done[f->index * f->world->config->feeders + from];
        const uint64_t *handle;
        for (; (handle = ring_peek(ring)); ring_pop(ring))
            slot_give(f, *handle);
        ring_release(ring);
    }
}

static void take_refusal(struct feeder_member *m, const struct refusal_message *refusal) {
    struct feeder *f = m->feeder;
    for (uint32_t i = 0; i < f->world->model_count; i++)
        if (m->place[i] == refusal->place.n) {
            counter_add(&f->counts.model_bad[i], 1);
            break;
        }
    counter_add(&f->counts.refused[refusal->reason < REFUSAL_COUNT ? refusal->reason : REFUSAL_NONE], 1);
    slot_give(f, refusal->handle);
}

/* ---- models ---- */

static int take_model(struct feeder_member *m, const char *head, uint32_t bytes, struct sy_error *err) {
    struct served_model model = {.memory = NULL};
    struct described_profile profiles[ACCELERATOR_TYPES_MAX];
    uint32_t place, count = ACCELERATOR_TYPES_MAX;
    const struct feeder_world *w = m->feeder->world;

    memcpy(&place, head, sizeof(place));
    int rc = model_description_read(head + sizeof(place), bytes - sizeof(place), &model, profiles, &count, err);
    if (rc == 0) {
        for (uint32_t i = 0; i < w->model_count; i++)
            if (strcmp(w->models[i].name, model.name) == 0) {
                m->served += m->place[i] == PLACE_NONE;
                m->place[i] = place;
            }
        model_description_release(&model, profiles, count);
    }
    if (rc == 0 && m->served == w->model_count)
        feeder_member_joined(m);
    return rc;
}

int feeder_frontend_frame(struct feeder_member *m, const struct frame *frame, const void *head, struct sy_error *err) {
    enum lost_reason reason;
    switch (frame->kind) {
    case FRAME_SERVE:
        return take_model(m, head, frame->head_bytes, err);
    case FRAME_MODEL_GONE: /* another place has taken over, which all further requests of this turn use */
        peer_send(&m->peer, FRAME_MODEL_LEFT, 1, head, sizeof(uint32_t));
        return 0;
    case FRAME_REFUSALS:
        for (uint32_t i = 0; i < frame->count; i++)
            take_refusal(m, &((const struct refusal_message *)head)[i]);
        return 0;
    case FRAME_RESULTS:
        for (uint32_t i = 0; i < frame->count; i++) {
            slot_give(m->feeder, lost_read(&((const struct wire_lost *)head)[i], &reason));
            counter_add(&m->feeder->counts.lost, 1);
        }
        return 0;
    case FRAME_TOLD:
        return 0;
    default:
        return error_set(err, -EPROTO, "a scheduler does not send frames of kind %u to a frontend", frame->kind);
    }
}

/* ---- feeding ---- */

/* Sends a request. False: the frontend, or its connection, has no room. */
static bool feed_one(struct feeder_member *m, int64_t now_ns, int64_t due_ns, uint32_t model) {
    struct feeder *f = m->feeder;
    const struct feeder_world *w = f->world;
    struct feeder_slots *s = &m->slots;
    struct wire_request *message = s->free_count ? peer_frame_more(&m->peer, FRAME_REQUESTS, sizeof(*message)) : NULL;
    if (!message)
        return false;
    uint32_t slot = s->free[--s->free_count];
    int64_t deadline_ns = due_ns + w->models[model].slo_ns - w->reply_margin_ns;
    s->used[slot] = true;
    s->submission[slot] = submission_next(s->submission[slot]);
    atomic_store_explicit(&s->deadline_ns[slot], deadline_ns, memory_order_relaxed); /* feeder_request_deadline() */
    *message = (struct wire_request){
        .handle = handle_of(m->number * HELLO_LANES_MAX, slot, s->submission[slot]),
        .arrival_ns = now_ns,
        .deadline_ns = deadline_ns,
        .work = 1,
        .model = m->place[model],
        .items = 1,
        .kind = REQUEST_ARRIVED,
    };
    return true;
}

/* The model and time of the next request; false: it is not due yet, or too many are outstanding. */
static bool next_due(struct feeder *f, int64_t now_ns, uint64_t outstanding, struct arrival *due) {
    if (f->outstanding_max) {
        *due = (struct arrival){.due_ns = now_ns, .model = (uint32_t)rng_below(&f->rng, f->world->model_count)};
        return outstanding < f->outstanding_max;
    }
    *due = f->next;
    if (f->next.due_ns > now_ns)
        return false;
    f->next = arrivals_next(&f->arrivals);
    return true;
}

/* Begins to feed: from now on requests are due. */
static bool feed_begin(struct feeder *f, int64_t now_ns) {
    const struct feeder_world *w = f->world;
    const struct links_config *c = w->config;
    const struct arrivals_spec poisson = {.kind = ARRIVALS_POISSON};
    f->fed_before = true;
    if (f->outstanding_max)
        return true;
    double rate = c->rate * f->frontend_count / c->frontends;
    if (arrivals_init(&f->arrivals, &poisson, rate, w->shares, w->model_count, c->seed * 1000003 + f->index, now_ns) <
        0) {
        feeder_wrong(f, "no memory for the arrivals of %u models", w->model_count);
        return false;
    }
    f->next = arrivals_next(&f->arrivals);
    return true;
}

void feeder_feed_due(struct feeder *f, int64_t now_ns) {
    uint64_t fed = 0, away = 0, out = counter_get(&f->counts.fed) - counter_get(&f->counts.back);
    struct arrival due;

    if (!atomic_load_explicit(&f->feeds, memory_order_relaxed)) { /* soon enough */
        if (f->fed_before)
            atomic_store_explicit(&f->fed_all, true, memory_order_release); /* with feeder_drained() */
        return;
    }
    bool waits = now_ns < f->feed_ns && !f->outstanding_max; /* a closed loop follows what comes back */
    if (waits || f->frontend_count == 0 || (!f->fed_before && !feed_begin(f, now_ns)))
        return;
    f->feed_ns = f->outstanding_max ? TIME_NEVER : now_ns + f->feed_every_ns;
    struct feeder_member *m = &f->frontends[f->turn++ % f->frontend_count];
    while (next_due(f, now_ns, out + fed, &due)) {
        if (feed_one(m, now_ns, due.due_ns, due.model)) {
            fed++;
        } else {
            away++;
            counter_add(&f->counts.model_bad[due.model], 1);
        }
        counter_add(&f->counts.model_fed[due.model], 1);
        if (fed + away == f->world->config->feed_batch) {
            f->feed_ns = now_ns;
            break;
        }
    }
    counter_add(&f->counts.fed, fed);
    counter_add(&f->counts.unsent, away);
}
