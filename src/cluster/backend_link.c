/* backend_link.c - plans in, pulls, results out. */
#include "cluster/backend_link.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/margin.h"
#include "cluster/landing.h"
#include "cluster/uplink.h"
#include "engine/engine.h"
#include "link/visible.h"
#include "request/slab.h"

#define TAKE_MOST 256 /* messages from one ring a turn */
/* A pull that takes longer than PULL_TIMES what nineteen of twenty take, and than PULL_LEAST_NS, is given up: its
 * request is left out of its batch, which others wait for. */
#define PULL_TIMES    4
#define PULL_LEAST_NS (20 * NS_PER_MS)
#define PULL_GUESS_NS (1 * NS_PER_MS)
#define RETRY_NS      (200 * NS_PER_MS) /* to connect to a frontend */
#define GREET_NS      (5 * NS_PER_S)

/* A frontend process, as the scheduler told of it. */
struct frontend_peer {
    struct frontend_peer *next;
    struct hello hello;
    struct landing landing;
    struct peer peer;
    struct health health;
    struct margin pulls; /* how long they take */
    bool open, known;
    bool told;    /* the scheduler of now has told of it */
    bool leaving; /* the scheduler says that it is gone: forgotten once nothing of it runs here */
    bool complained;
    int64_t retry_ns;
    struct landed *arriving; /* whose body is under way */
    /* of one of this host: where its cards and inputs are mapped */
    bool local;
    const struct request_card *cards[HELLO_LANES_MAX]; /* [lanes][slots] */
    struct {
        const char *base;
        size_t bytes;
    } regions[HELLO_LANES_MAX + 1];
};

/* A plan whose requests are pulled. */
struct pulled_plan {
    struct pulled_plan *next; /* of its accelerator, or of those that are free */
    uint32_t missing;         /* requests that are neither here nor known to be gone */
    int64_t begun_ns, over_ns;
    uint32_t room; /* requests that fit */
    struct batch_plan plan;
};

struct accelerator_queue {
    struct pulled_plan *first, **last;
    uint32_t out; /* plans that the executor has */
    bool told;    /* the scheduler of now knows that it takes batches, */
    bool ours;    /* or knew it: all plans here are that one's */
    bool leaves;  /* its executor says that it does not */
};

struct backend_link {
    struct backend_link_config config;
    struct wiring *wiring;
    struct link_loop loop;
    struct uplink uplink;
    struct slab *slab;
    struct frontend_peer *frontends;
    struct frontend_peer **by_number; /* [HELLO_NUMBERS] */
    struct accelerator_queue *queues; /* [accelerators] */
    struct pulled_plan *free;
    uint32_t pulling; /* plans in queues */
    bool introduced;  /* the scheduler of now knows our models and accelerators */
    bool plan_rung;
    _Atomic bool quiesced;
    uint64_t lost, given_up;
    struct link_report report;
    _Atomic uint32_t busy; /* read by who drains */
};

/* ---- what the scheduler is told ---- */

static void tell_freed(struct backend_link *l, const struct freed_message *freed) {
    struct freed_message *place =
        l->introduced ? peer_frame_more(&l->uplink.peer, FRAME_FREED, sizeof(*place), WIRE_MANY) : NULL;
    if (place)
        *place = *freed;
}

static void tell_ran(struct backend_link *l, const struct ran_message *ran) {
    struct ran_message *place =
        l->introduced ? peer_frame_more(&l->uplink.peer, FRAME_RAN, sizeof(*place), WIRE_MANY) : NULL;
    if (place)
        *place = *ran;
}

/* For a frontend that is not reached. */
static void tell_undelivered(struct backend_link *l, uint64_t handle) {
    l->lost++;
    struct wire_outcome *place =
        l->uplink.up ? peer_frame_more(&l->uplink.peer, FRAME_UNDELIVERED, sizeof(*place), WIRE_MANY) : NULL;
    if (place)
        *place = (struct wire_outcome){.handle = handle, .status = REQUEST_LOST};
}

/* An accelerator takes batches from the scheduler of now once it has none of another's. */
static void tell_joins(struct backend_link *l, uint32_t accelerator) {
    struct accelerator_queue *q = &l->queues[accelerator];
    bool quiesced = atomic_load_explicit(&l->quiesced, memory_order_relaxed); /* a lone flag */
    if (!l->introduced || q->told || q->leaves || q->first || q->out || quiesced)
        return;
    q->told = q->ours = true;
    tell_freed(l, &(struct freed_message){.news = NEWS_JOINS, .accelerator = accelerator});
}

static void tell_leaves(struct backend_link *l, uint32_t accelerator) {
    struct accelerator_queue *q = &l->queues[accelerator];
    if (q->told)
        tell_freed(l, &(struct freed_message){.news = NEWS_LEAVES, .accelerator = accelerator});
    q->told = false;
}

/* No accelerator takes batches any more: those that have been sent still run. */
static void quiesce(struct backend_link *l) {
    for (uint32_t a = 0; a < l->wiring->accelerators; a++)
        tell_leaves(l, a);
}

/* The end of a batch that never reached its executor. */
static void tell_not_run(struct backend_link *l, const struct batch_plan *plan, int64_t now_ns) {
    if (!l->queues[plan->accelerator].ours)
        return; /* who sent it has forgotten it */
    tell_freed(l, &(struct freed_message){
                      .news = NEWS_ENDED, .unlike = true, .accelerator = plan->accelerator, .ended_ns = now_ns});
    tell_ran(l, &(struct ran_message){.news = NEWS_ENDED,
                                      .model = plan->model,
                                      .generation = plan->generation,
                                      .type = 0,
                                      .items = 1,
                                      .accelerator = plan->accelerator,
                                      .tag = plan->tag,
                                      .dispatch_ns = -1});
}

/* ---- plans ---- */

static struct frontend_peer *frontend_of(const struct backend_link *l, uint64_t handle) {
    return l->by_number[handle_frontend(handle) / HELLO_LANES_MAX];
}

static struct landed *landed_of(const struct backend_link *l, uint64_t handle) {
    struct frontend_peer *f = frontend_of(l, handle);
    struct landed *landed = f && f->landing.cards ? landing_place(&f->landing, handle) : NULL;
    return landed && landed->handle == handle ? landed : NULL;
}

static struct pulled_plan *plan_new(struct backend_link *l, const struct batch_plan *plan) {
    struct pulled_plan *p = l->free;
    if (p)
        l->free = p->next;
    if (p && p->room < plan->request_count) {
        free(p);
        p = NULL;
    }
    if (!p) {
        uint32_t room = plan->request_count < 64 ? 64 : plan->request_count;
        p = malloc(sizeof(*p) + room * sizeof(uint64_t));
        if (!p)
            return NULL;
        p->room = room;
    }
    p->next = NULL;
    p->missing = 0;
    memcpy(&p->plan, plan, batch_plan_bytes(plan->request_count));
    return p;
}

static void plan_free(struct backend_link *l, struct pulled_plan *p) {
    p->next = l->free;
    l->free = p;
}

/* Leaves out the requests that are not here. */
static void plan_tighten(struct backend_link *l, struct pulled_plan *p) {
    uint32_t kept = 0, items = 0;
    for (uint32_t i = 0; i < p->plan.request_count; i++) {
        uint64_t handle = p->plan.handles[i];
        struct landed *landed = landed_of(l, handle);
        if (landed && landed->state == LANDED_ALL) {
            items += landing_card(&frontend_of(l, handle)->landing, landed)->items;
            landed->plan = NULL;
            p->plan.handles[kept++] = handle;
        } else if (landed && !landed->arrives) {
            landing_give(&frontend_of(l, handle)->landing, landed);
        } else if (landed) {
            landed->plan = NULL; /* its memory stays until its body is over */
        }
    }
    if (kept < p->plan.request_count && p->plan.items != ITEMS_OF_REQUEST)
        p->plan.items = items;
    p->plan.request_count = kept;
}

/* Whether a plan may go to its executor: it fits what the executor takes. */
static bool plan_possible(const struct backend_link *l, const struct batch_plan *plan) {
    return plan->items <= l->config.models[plan->served_model].batch_max && plan->request_count <= l->wiring->batch_max;
}

/* Hands plans over that are complete, in order, as far as there is room. */
static void queue_go_on(struct backend_link *l, uint32_t accelerator, int64_t now_ns) {
    struct accelerator_queue *q = &l->queues[accelerator];
    struct wiring *w = l->wiring;
    struct ring *ring = &w->plans[w->executor_of[accelerator]];

    while (q->first && q->first->missing == 0) {
        struct pulled_plan *p = q->first;
        plan_tighten(l, p);
        uint32_t requests = p->plan.request_count, slots = batch_plan_slots(requests);
        bool runs = requests > 0 && plan_possible(l, &p->plan);
        struct batch_plan *plan = runs ? ring_reserve_run(ring, slots) : NULL;
        if (runs && !plan)
            return; /* the executor lags: in the next turn */
        q->first = p->next;
        if (!q->first)
            q->last = &q->first;
        if (plan) {
            memcpy(plan, &p->plan, batch_plan_bytes(requests));
            ring_push_run(ring, slots);
            q->out++;
            l->plan_rung = true;
        } else {
            for (uint32_t i = 0; i < requests; i++) {
                tell_undelivered(l, p->plan.handles[i]);
                landing_give(&frontend_of(l, p->plan.handles[i])->landing, landed_of(l, p->plan.handles[i]));
            }
            tell_not_run(l, &p->plan, now_ns);
        }
        l->pulling--;
        plan_free(l, p);
    }
    tell_joins(l, accelerator);
}

/* A request of a plan is here, or is known to be gone. */
static void landed_settle(struct backend_link *l, struct landed *landed) {
    struct pulled_plan *p = landed->plan;
    if (!p)
        return;
    if (--p->missing == 0)
        queue_go_on(l, p->plan.accelerator, clock_now_ns());
}

/* A request cannot be had: it is left out, and its frontend hears of it through the scheduler. */
static void landed_lose(struct backend_link *l, struct landed *landed) {
    landed->state = LANDED_GONE;
    tell_undelivered(l, landed->handle);
    landed_settle(l, landed);
}

/* Reads a request of a frontend of this host where it lies. The frontend is not asked, so it is looked at once more
 * afterwards whether the request was still there (request/port.c). False: it was not. */
static bool read_local(struct frontend_peer *f, struct landed *landed, struct sy_error *err) {
    uint32_t lane = handle_frontend(landed->handle) % HELLO_LANES_MAX;
    const struct request_card *theirs = &f->cards[lane][handle_slot(landed->handle)];
    uint64_t handle = landed->handle - ((uint64_t)f->hello.number * HELLO_LANES_MAX << HANDLE_SLOT_BITS);
    struct {
        struct wire_card card;
        struct card_input inputs[TENSORS_MAX];
    } read;
    struct frame frame = {.kind = FRAME_CARD, .count = 1};
    const char *from[TENSORS_MAX];
    struct iovec pieces[TENSORS_MAX];
    uint32_t count, sources = 0;

    *err = (struct sy_error){.text = ""};
    if (__atomic_load_n(&theirs->handle, __ATOMIC_ACQUIRE) != handle || theirs->input_count > TENSORS_MAX)
        return false;
    read.card = (struct wire_card){.handle = landed->handle,
                                   .deadline_ns = theirs->deadline_ns,
                                   .items = theirs->items,
                                   .work = theirs->work,
                                   .input_count = theirs->input_count,
                                   .delay = theirs->delay,
                                   .alone = theirs->alone};
    if (read.card.input_count > TENSORS_MAX)
        return false;
    for (uint32_t i = 0; i < read.card.input_count; i++) {
        struct card_input *input = &read.inputs[i];
        *input = theirs->inputs[i];
        if (input->region != REGION_NONE && input->bytes > 0) {
            if (input->region > HELLO_LANES_MAX || input->offset > f->regions[input->region].bytes ||
                input->bytes > f->regions[input->region].bytes - input->offset)
                return false;
            from[sources++] = f->regions[input->region].base + input->offset;
        }
        input->offset = frame.body_bytes;
        frame.body_bytes += input->bytes;
    }
    frame.head_bytes = (uint32_t)(sizeof(struct wire_card) + read.card.input_count * sizeof(struct card_input));
    if (wire_head_check(&frame, &read.card, err) < 0 ||
        landing_take(&f->landing, landed, &read.card, health_local(&f->health, read.card.deadline_ns), pieces, &count,
                     err) < 0)
        return false;
    CHECK_EQ(count, sources);
    for (uint32_t i = 0; i < count; i++)
        memcpy(pieces[i].iov_base, from[i], pieces[i].iov_len);
    atomic_thread_fence(memory_order_acquire); /* with slot_give() in request/port.c: all was read before */
    bool whole = __atomic_load_n(&theirs->handle, __ATOMIC_RELAXED) == handle;
    return whole && landing_over(&f->landing, landed, err) == 0;
}

/* Takes a request of a plan from a frontend of this host. */
static void pull_local(struct backend_link *l, struct frontend_peer *f, struct landed *landed) {
    struct sy_error err;
    uint64_t handle = landed->handle;
    if (!read_local(f, landed, &err)) {
        if (*err.text)
            log_warn("inputs refused", "frontend=%s reason=\"%s\"", f->peer.name, err.text);
        landing_give(&f->landing, landed);
        tell_undelivered(l, handle);
        return;
    }
    uint64_t *place = peer_frame_more(&f->peer, FRAME_TAKEN, sizeof(*place), WIRE_MANY);
    if (place)
        *place = handle;
}

/* Asks a frontend for the requests of a plan; of one that is not connected nothing can be had. */
static void plan_pull(struct backend_link *l, struct pulled_plan *p) {
    for (uint32_t i = 0; i < p->plan.request_count; i++) {
        uint64_t handle = p->plan.handles[i];
        struct frontend_peer *f = frontend_of(l, handle);
        struct landed *landed = f && f->landing.cards ? landing_place(&f->landing, handle) : NULL;
        if (!landed || landed->handle || !f->known || f->peer.closed) {
            tell_undelivered(l, handle);
            continue;
        }
        *landed = (struct landed){.handle = handle, .plan = p, .model = p->plan.served_model, .state = LANDED_PULLING};
        if (f->local) {
            pull_local(l, f, landed);
            continue;
        }
        uint64_t *place = peer_frame_more(&f->peer, FRAME_PULL, sizeof(*place), WIRE_MANY);
        if (!place) {
            landing_give(&f->landing, landed);
            tell_undelivered(l, handle);
            continue;
        }
        *place = handle;
        p->missing++;
    }
}

/* A plan from the scheduler, whose times are ours by now. */
static int take_plan(struct backend_link *l, const struct batch_plan *plan, int64_t now_ns, struct sy_error *err) {
    if (plan->accelerator >= l->wiring->accelerators || plan->served_model >= l->config.model_count ||
        plan->request_count > l->wiring->batch_max)
        return error_set(err, -EPROTO,
                         "a plan for an accelerator or a model that is not here, or for too many requests");
    struct accelerator_queue *q = &l->queues[plan->accelerator];
    struct pulled_plan *p = plan_new(l, plan);
    if (!p)
        return error_set(err, -ENOMEM, "no memory for a plan");
    *q->last = p;
    q->last = &p->next;
    l->pulling++;
    p->begun_ns = now_ns;
    plan_pull(l, p);
    int64_t most_ns = PULL_LEAST_NS;
    for (uint32_t i = 0; i < p->plan.request_count; i++) {
        const struct frontend_peer *f = frontend_of(l, p->plan.handles[i]);
        int64_t usual_ns = f ? PULL_TIMES * margin_ns(&f->pulls) : 0;
        most_ns = usual_ns > most_ns ? usual_ns : most_ns;
    }
    p->over_ns = now_ns + most_ns;
    queue_go_on(l, p->plan.accelerator, now_ns);
    return 0;
}

static int take_plans(struct backend_link *l, const struct frame *frame, const char *head, struct sy_error *err) {
    int64_t now_ns = clock_now_ns();
    int rc = 0;

    for (uint32_t at = 0; at < frame->head_bytes && rc == 0;) {
        struct batch_plan *plan = (struct batch_plan *)(uintptr_t)(head + at);
        at += wire_plan_bytes(plan->request_count);
        plan->sealed_ns = health_local(&l->uplink.health, plan->sealed_ns);
        plan->earliest_ns = health_local(&l->uplink.health, plan->earliest_ns);
        plan->latest_ns = health_local(&l->uplink.health, plan->latest_ns);
        rc = take_plan(l, plan, now_ns, err);
    }
    return rc;
}

/* Gives up pulls that take too long, and hands over what waited for room. Lowers *until_ns to when to look again. */
static void queues_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns) {
    for (uint32_t a = 0; l->pulling > 0 && a < l->wiring->accelerators; a++) {
        struct pulled_plan *p = l->queues[a].first;
        if (p && p->missing > 0 && now_ns > p->over_ns) {
            for (uint32_t i = 0; i < p->plan.request_count && p->missing > 0; i++) {
                struct landed *landed = landed_of(l, p->plan.handles[i]);
                if (landed && landed->state == LANDED_PULLING && landed->plan == p) {
                    l->given_up++;
                    log_warn("pull given up", "frontend=%s", frontend_of(l, landed->handle)->peer.name);
                    landed->plan = NULL;
                    landed->state = LANDED_GONE;
                    tell_undelivered(l, landed->handle);
                    p->missing--;
                }
            }
        }
        queue_go_on(l, a, now_ns);
        p = l->queues[a].first;
        int64_t at_ns = !p ? TIME_NEVER : p->missing ? p->over_ns : now_ns + NS_PER_MS / 10;
        *until_ns = at_ns < *until_ns ? at_ns : *until_ns;
    }
}

/* ---- frontends ---- */

static void card_end(struct backend_link *l, struct frontend_peer *f, struct landed *landed) {
    struct sy_error err;
    struct pulled_plan *p = landed->plan;
    if (landed->state == LANDED_GONE) { /* given up, or no memory: now nothing arrives any more */
        landing_give(&f->landing, landed);
        return;
    }
    if (landing_over(&f->landing, landed, &err) < 0) {
        log_warn("inputs refused", "frontend=%s reason=\"%s\"", f->peer.name, err.text);
        landed_lose(l, landed);
        return;
    }
    if (!p) { /* its plan went without it */
        landing_give(&f->landing, landed);
        return;
    }
    margin_add(&f->pulls, clock_now_ns() - p->begun_ns);
    landed_settle(l, landed);
}

static uint32_t frontend_body(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]) {
    (void)frame;
    struct frontend_peer *f = container_of(peer, struct frontend_peer, peer);
    const struct landed *landed = f->arriving;
    const struct request_card *card = landed ? landing_card(&f->landing, landed) : NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; card && i < card->input_count; i++)
        if (card->inputs[i].bytes > 0)
            pieces[count++] =
                (struct iovec){region_at(((struct backend_link *)peer->owner)->wiring->regions, &card->inputs[i]),
                               card->inputs[i].bytes};
    return count;
}

static void frontend_body_over(struct peer *peer) {
    struct frontend_peer *f = container_of(peer, struct frontend_peer, peer);
    struct landed *landed = f->arriving;
    f->arriving = NULL;
    if (landed)
        card_end(peer->owner, f, landed);
}

static void take_card(struct backend_link *l, struct frontend_peer *f, const struct frame *frame,
                      const struct wire_card *card) {
    struct landed *landed = landing_place(&f->landing, card->handle);
    struct iovec pieces[TENSORS_MAX];
    struct sy_error err;
    uint32_t count;

    f->arriving = NULL;
    if (!landed || landed->handle != card->handle || landed->block || landed->arrives)
        return;                         /* not asked for: thrown away */
    if (landed->state == LANDED_GONE) { /* given up */
        landing_give(&f->landing, landed);
        return;
    }
    if (landed->state != LANDED_PULLING)
        return;
    int64_t deadline_ns = health_local(&f->health, card->deadline_ns);
    if (landing_take(&f->landing, landed, card, deadline_ns, pieces, &count, &err) < 0) {
        log_warn("inputs refused", "frontend=%s reason=\"%s\"", f->peer.name, err.text);
        landed_lose(l, landed);
        return;
    }
    if (frame->body_bytes > 0)
        f->arriving = landed;
    else
        card_end(l, f, landed);
}

static void take_no_card(struct backend_link *l, struct frontend_peer *f, uint64_t handle) {
    struct landed *landed = landing_place(&f->landing, handle);
    if (!landed || landed->handle != handle || landed->arrives)
        return;
    if (landed->state == LANDED_GONE) {
        landing_give(&f->landing, landed);
    } else if (landed->state == LANDED_PULLING) {
        landed->state = LANDED_GONE; /* its frontend knows */
        landed_settle(l, landed);
    }
}

static void regions_unmap(struct frontend_peer *f) {
    for (uint32_t i = 0; i < HELLO_LANES_MAX; i++)
        if (f->cards[i])
            munmap((void *)(uintptr_t)f->cards[i], f->hello.slots * sizeof(struct request_card));
    for (uint32_t i = 0; i <= HELLO_LANES_MAX; i++)
        if (f->regions[i].base)
            munmap((void *)(uintptr_t)f->regions[i].base, f->regions[i].bytes);
    memset(f->cards, 0, sizeof(f->cards));
    memset(f->regions, 0, sizeof(f->regions));
    f->local = false;
}

/* One of them, mapped. */
static bool region_take(struct frontend_peer *f, const struct wire_region *r, int fd) {
    bool fits = r->cards ? r->number < f->hello.lanes && !f->cards[r->number] &&
                               r->bytes == f->hello.slots * sizeof(struct request_card)
                         : r->number <= HELLO_LANES_MAX && !f->regions[r->number].base;
    const void *base = fits ? visible_look(fd, r->bytes) : NULL;
    if (base && r->cards) {
        f->cards[r->number] = base;
    } else if (base) {
        f->regions[r->number].base = base;
        f->regions[r->number].bytes = r->bytes;
    }
    return base;
}

/* The frontend is of this host, and shows its memory. */
static int regions_take(struct frontend_peer *f, const struct wire_region *regions, uint32_t count,
                        struct sy_error *err) {
    uint32_t cards = 0;
    bool fits = count == f->peer.fd_count && !f->local;
    for (uint32_t i = 0; i < count && fits; i++) {
        fits = region_take(f, &regions[i], f->peer.fds[i]);
        cards += fits && regions[i].cards;
    }
    while (f->peer.fd_count > 0)
        close(f->peer.fds[--f->peer.fd_count]);
    if (!fits || cards != f->hello.lanes) {
        regions_unmap(f);
        return error_set(err, -EPROTO, "memory that cannot be mapped");
    }
    f->local = true;
    return 0;
}

static int frontend_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct frontend_peer *f = container_of(peer, struct frontend_peer, peer);
    struct backend_link *l = peer->owner;
    const uint64_t *handles = head;
    struct hello hello;

    if (health_frame(&f->health, peer, frame, head))
        return 0;
    switch (frame->kind) {
    case FRAME_WELCOME: {
        int rc = hello_read(head, frame->head_bytes, &hello, err);
        if (rc < 0)
            return rc;
        if (hello.incarnation != f->hello.incarnation)
            return error_set(err, -ESTALE, "another process is there now");
        f->known = true;
        f->complained = false;
        log_info("frontend connected", "frontend=%s number=%u", f->peer.name, f->hello.number);
        return 0;
    }
    case FRAME_REFUSED:
        return error_set(err, -EACCES, "%.*s", (int)(frame->head_bytes < 400 ? frame->head_bytes : 400),
                         (const char *)head);
    case FRAME_REGIONS:
        return regions_take(f, head, frame->count, err);
    case FRAME_CARD:
        take_card(l, f, frame, head);
        return 0;
    case FRAME_NO_CARD:
        for (uint32_t i = 0; i < frame->count; i++)
            take_no_card(l, f, handles[i]);
        return 0;
    default:
        return error_set(err, -EPROTO, "a frontend does not send frames of kind %u to a backend", frame->kind);
    }
}

/* Nothing more comes from it: what was pulled is lost. */
static void frontend_lost(struct backend_link *l, struct frontend_peer *f, const char *reason) {
    if (f->known || !f->complained)
        log_warn(f->known ? "frontend lost" : "frontend not reached", "frontend=%s reason=\"%s\"", f->peer.name,
                 reason);
    f->complained = true;
    f->known = false;
    f->arriving = NULL;
    regions_unmap(f);
    link_loop_drop(&l->loop, &f->peer);
    for (size_t i = 0; i < (size_t)f->landing.lanes * f->landing.slots; i++) {
        struct landed *landed = &f->landing.landed[i];
        if (!landed->handle || (landed->state == LANDED_ALL && !landed->arrives))
            continue;
        landed->arrives = false;
        if (landed->state == LANDED_PULLING && landed->plan)
            landed_lose(l, landed); /* its plan gives it back */
        else if (!landed->plan)
            landing_give(&f->landing, landed);
    }
}

static void frontend_closed(struct peer *peer, const char *reason) {
    frontend_lost(peer->owner, container_of(peer, struct frontend_peer, peer), reason);
}

static const struct peer_events frontend_events = {frontend_frame, frontend_body, frontend_body_over, frontend_closed};

static void frontend_connect(struct backend_link *l, struct frontend_peer *f, int64_t now_ns) {
    struct sockaddr_storage at;
    socklen_t bytes;
    struct sy_error err = {.text = ""};

    f->retry_ns = now_ns + RETRY_NS;
    char local[HELLO_LOCAL_MAX];
    hello_local_name(f->hello.incarnation, local);
    int fd = l->config.tcp ? -ENOTSUP : link_connect_local(local); /* fails at once if it is of another host */
    if (fd < 0 && uplink_address(f->hello.address, &at, &bytes, &err) == 0)
        fd = link_connect((struct sockaddr *)&at, bytes);
    if (fd < 0 || link_loop_add(&l->loop, &f->peer, fd, true, &frontend_events, l) < 0) {
        if (!f->complained)
            log_warn("frontend not reached", "address=%s reason=\"%s\"", f->hello.address, err.text);
        f->complained = true;
        return;
    }
    f->open = true;
    snprintf(f->peer.name, sizeof(f->peer.name), "%s", f->hello.name);
    health_init(&f->health, l->config.beat_ns, now_ns);
    struct hello self = l->uplink.self;
    char *text = hello_write(&self);
    if (text)
        peer_send(&f->peer, FRAME_HELLO, 1, text, strlen(text));
    free(text);
}

static int frontend_told(struct backend_link *l, const struct frame *frame, const char *head, struct sy_error *err) {
    struct hello hello;
    int rc = hello_read(head, frame->head_bytes, &hello, err);
    if (rc < 0)
        return rc;
    if (hello.role != ROLE_FRONTEND || !hello.number || !hello.lanes || !hello.slots)
        return error_set(err, -EPROTO, "an introduction of a frontend without number, lanes or slots");
    struct frontend_peer *f = l->by_number[hello.number];
    if (f && f->hello.incarnation == hello.incarnation) {
        f->told = true;
        f->leaving = false;
        return 0;
    }
    if (f) /* its number is given out again while something of it is still here: until that has ended */
        return error_set(err, -EAGAIN, "frontend number %u is still in use here", hello.number);
    f = calloc(1, sizeof(*f));
    if (!f ||
        landing_init(&f->landing, l->wiring, l->slab, l->config.models, hello.number, hello.lanes, hello.slots) < 0) {
        free(f);
        return error_set(err, -ENOMEM, "no memory for a frontend's requests");
    }
    f->hello = hello;
    f->told = true;
    margin_init(&f->pulls, PULL_GUESS_NS);
    f->next = l->frontends;
    l->frontends = f;
    l->by_number[hello.number] = f;
    frontend_connect(l, f, clock_now_ns());
    return 0;
}

static bool frontend_used(const struct frontend_peer *f) {
    for (size_t i = 0; i < (size_t)f->landing.lanes * f->landing.slots; i++)
        if (f->landing.landed[i].handle)
            return true;
    return false;
}

static void frontends_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns) {
    for (struct frontend_peer **at = &l->frontends, *f; (f = *at);) {
        if (f->leaving && f->open && !f->peer.closed)
            frontend_lost(l, f, "the scheduler says that it is gone");
        if (f->leaving && !f->open && !frontend_used(f)) {
            *at = f->next;
            l->by_number[f->hello.number] = NULL;
            landing_destroy(&f->landing);
            free(f);
            continue;
        }
        if (f->leaving) {
            *until_ns = now_ns + NS_PER_MS < *until_ns ? now_ns + NS_PER_MS : *until_ns;
        } else if (!f->open) {
            if (now_ns >= f->retry_ns)
                frontend_connect(l, f, now_ns);
            *until_ns = f->retry_ns < *until_ns ? f->retry_ns : *until_ns;
        } else if (f->peer.closed) {
            *until_ns = now_ns; /* buried at the end of this turn */
        } else if (!f->peer.closed && f->known && !health_look(&f->health, &f->peer, now_ns, until_ns)) {
            frontend_lost(l, f, "it has been silent for three heartbeats");
        } else if (!f->peer.closed && !f->known) {
            int64_t over_ns = f->peer.heard_ns + GREET_NS;
            if (now_ns > over_ns)
                frontend_lost(l, f, "it does not answer");
            else
                *until_ns = over_ns < *until_ns ? over_ns : *until_ns;
        }
        at = &f->next;
    }
}

/* ---- results ---- */

static void block_put(void *block, uint64_t tag) {
    (void)tag;
    output_block_put(block);
}

static struct wire_outcome outcome(const struct result_message *result) {
    return (struct wire_outcome){
        .handle = result->handle,
        .run_start_ns = result->run_start_ns,
        .run_end_ns = result->run_end_ns,
        .batch_items = result->batch_items,
        .status = result->status,
        .refusal = result->refusal,
        .suspect = result->suspect,
        .broke = result->broke,
        .absent = result->absent,
    };
}

static void send_outputs(struct frontend_peer *f, const struct landed *landed, const struct result_message *result) {
    const struct signature *signature = &f->landing.models[landed->model].signature;
    const struct request_card *card = landing_card(&f->landing, landed);
    struct output_block *block = result->block;
    struct tensor_view parts[TENSORS_MAX];
    struct wire_result out = {.outcome = outcome(result), .tensor_count = block->output_count};
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < block->output_count; i++) {
        if (!signature->batched || tensor_rows(&block->outputs[i], result->first_item, card->items, &parts[i]) < 0)
            parts[i] = block->outputs[i];
        bytes += parts[i].bytes;
    }
    char *at =
        peer_frame(&f->peer, FRAME_RESULT, 1, sizeof(out) + block->output_count * sizeof(struct wire_tensor), bytes);
    if (!at)
        return;
    memcpy(at, &out, sizeof(out));
    struct wire_tensor *tensors = (struct wire_tensor *)(at + sizeof(out));
    for (uint32_t i = 0; i < block->output_count; i++) {
        tensors[i] = (struct wire_tensor){.bytes = parts[i].bytes, .rank = parts[i].rank};
        memcpy(tensors[i].dims, parts[i].dims, sizeof(tensors[i].dims));
    }
    for (uint32_t i = 0; i < block->output_count; i++) {
        if (parts[i].bytes == 0)
            continue;
        atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed); /* we hold one */
        peer_body(&f->peer, parts[i].data, parts[i].bytes, block_put, block, 0);
    }
}

static void send_result(struct backend_link *l, struct frontend_peer *f, const struct landed *landed,
                        const struct result_message *result) {
    if (!f->known || f->peer.closed) {
        tell_undelivered(l, result->handle);
        return;
    }
    if (result->status == REQUEST_OK) {
        send_outputs(f, landed, result);
        return;
    }
    const char *sentence = result->block ? result->block->failure : NULL;
    size_t bytes = sentence ? strlen(sentence) + 1 : 0;
    bytes = bytes < WIRE_TEXT_MAX ? bytes : WIRE_TEXT_MAX;
    struct wire_result out = {.outcome = outcome(result)};
    struct wire_result *at = peer_frame(&f->peer, FRAME_RESULT, 1, sizeof(out), bytes);
    if (at)
        *at = out;
    if (at && bytes)
        peer_body(&f->peer, sentence, bytes, NULL, NULL, 0);
}

static void take_result(struct backend_link *l, const struct result_message *result) {
    struct frontend_peer *f = frontend_of(l, result->handle);
    struct landed *landed = landed_of(l, result->handle);

    CHECK(f && landed); /* it stays until its result */
    if (result->status == REQUEST_RELEASED) {
        landing_give(&f->landing, landed);
        return;
    }
    send_result(l, f, landed, result);
    output_block_put(result->block);
    if (result->read)
        landed->read = true;
    else
        landing_give(&f->landing, landed);
}

static bool take_results(struct backend_link *l) {
    bool more = false;
    for (uint32_t e = 0; e < l->wiring->executors; e++) {
        struct ring *ring = &l->wiring->results[e];
        const struct result_message *message;
        uint32_t n = 0;
        for (; n < TAKE_MOST && (message = ring_peek(ring)); ring_pop(ring), n++)
            take_result(l, message);
        if (n)
            ring_release(ring);
        more |= n == TAKE_MOST;
    }
    return more;
}

/* ---- runs and accelerators ---- */

static void take_freed(struct backend_link *l, const struct freed_message *freed) {
    struct accelerator_queue *q = &l->queues[freed->accelerator];
    if (freed->news == NEWS_ENDED)
        q->out--;
    if (freed->news == NEWS_ENDED && q->ours)
        tell_freed(l, freed);
    if (freed->news == NEWS_LEAVES) {
        q->leaves = true;
        tell_leaves(l, freed->accelerator);
    }
    if (freed->news == NEWS_JOINS)
        q->leaves = false;
    tell_joins(l, freed->accelerator);
}

static bool take_reports(struct backend_link *l) {
    bool more = false;
    for (uint32_t e = 0; e < l->wiring->executors; e++) {
        struct ring *freed = &l->wiring->freed[e], *ran = &l->wiring->ran[e];
        const void *message;
        uint32_t n = 0, m = 0;
        for (; n < TAKE_MOST && (message = ring_peek(freed)); ring_pop(freed), n++)
            take_freed(l, message);
        for (; m < TAKE_MOST && (message = ring_peek(ran)); ring_pop(ran), m++)
            tell_ran(l, message);
        if (n)
            ring_release(freed);
        if (m)
            ring_release(ran);
        more |= n == TAKE_MOST || m == TAKE_MOST;
    }
    return more;
}

/* ---- the scheduler ---- */

static struct described_profile described(const char *type, const struct profile *profile) {
    struct described_profile d = {.profile = (struct profile *)(uintptr_t)profile};
    snprintf(d.type, sizeof(d.type), "%s", type);
    return d;
}

/* What we have: models, then accelerators, then those of them that are idle. Once the scheduler's clock is known, since
 * plans may come from then on. */
static void introduce(struct backend_link *l) {
    const struct backend_link_config *c = &l->config;
    if (!l->uplink.up || l->introduced || !clock_sync_known(&l->uplink.health.clock))
        return;
    for (uint32_t m = 0; m < c->model_count; m++) {
        struct described_profile profiles[ACCELERATOR_TYPES_MAX];
        uint32_t count = 0;
        if (served_model_state(&c->models[m]) != MODEL_READY)
            continue;
        for (uint32_t t = 0; t < c->type_count; t++)
            if (c->profiles[t][m])
                profiles[count++] = described(c->types[t], c->profiles[t][m]);
        char *text = model_description_write(&c->models[m], profiles, count, NULL, NULL);
        size_t bytes = text ? strlen(text) : 0;
        char *head = text ? peer_frame(&l->uplink.peer, FRAME_MODEL, 1, sizeof(m) + bytes, 0) : NULL;
        if (head) {
            memcpy(head, &m, sizeof(m));
            memcpy(head + sizeof(m), text, bytes);
        }
        free(text);
    }
    for (uint32_t a = 0; a < l->wiring->accelerators; a++) {
        struct wire_accelerator *place =
            peer_frame_more(&l->uplink.peer, FRAME_ACCELERATORS, sizeof(*place), UINT16_MAX);
        if (place)
            snprintf(place->type, sizeof(place->type), "%s", c->types[c->accelerator_type[a]]);
    }
    peer_send(&l->uplink.peer, FRAME_TOLD, 0, NULL, 0);
    l->introduced = true;
    for (uint32_t a = 0; a < l->wiring->accelerators; a++)
        tell_joins(l, a);
}

static void uplink_up(void *context, const struct hello *welcome) {
    struct backend_link *l = context;
    (void)welcome;
    for (struct frontend_peer *f = l->frontends; f; f = f->next)
        f->told = false;
}

static void uplink_down(void *context) {
    struct backend_link *l = context;
    l->introduced = false;
    for (uint32_t a = 0; a < l->wiring->accelerators; a++)
        l->queues[a].told = l->queues[a].ours = false;
    for (struct frontend_peer *f = l->frontends; f; f = f->next)
        f->leaving = false; /* nobody knows */
}

static int from_scheduler(void *context, const struct frame *frame, const void *head, struct sy_error *err) {
    struct backend_link *l = context;
    switch (frame->kind) {
    case FRAME_PLANS:
        return take_plans(l, frame, head, err);
    case FRAME_FRONTEND:
        return frontend_told(l, frame, head, err);
    case FRAME_FRONTEND_GONE:
        for (uint32_t i = 0; i < frame->count; i++) {
            uint32_t number = ((const uint32_t *)head)[i];
            if (number < HELLO_NUMBERS && l->by_number[number])
                l->by_number[number]->leaving = true;
        }
        return 0;
    case FRAME_TOLD:
        for (struct frontend_peer *f = l->frontends; f; f = f->next)
            f->leaving |= !f->told;
        return 0;
    default:
        return error_set(err, -EPROTO, "a scheduler does not send frames of kind %u to a backend", frame->kind);
    }
}

static const struct uplink_ops uplink_ops = {uplink_up, from_scheduler, uplink_down};

/* ---- turns ---- */

static void publish(struct backend_link *l) {
    struct wiring *w = l->wiring;
    for (uint32_t e = 0; e < w->executors && l->plan_rung; e++)
        if (ring_publish(&w->plans[e]))
            doorbell_ring(&w->executor_bells[e]);
    l->plan_rung = false;
}

static void report(struct backend_link *l, int64_t now_ns, int64_t *until_ns) {
    if (!link_report_begin(&l->report, now_ns, until_ns))
        return;
    uplink_report(&l->uplink, &l->report, now_ns);
    for (const struct frontend_peer *f = l->frontends; f; f = f->next)
        if (f->known && !f->peer.closed)
            link_report_add(&l->report, f->hello.name, ROLE_FRONTEND, f->hello.number, &f->peer, &f->health, now_ns);
    link_report_end(&l->report, &(struct link_totals){.role = ROLE_BACKEND,
                                                      .ready = l->introduced,
                                                      .term = l->uplink.self.term,
                                                      .lost = l->lost,
                                                      .given_up = l->given_up});
}

static int64_t turn(void *owner, int64_t now_ns) {
    struct backend_link *l = owner;
    int64_t until_ns = TIME_NEVER;
    uint32_t out = 0;

    uplink_look(&l->uplink, now_ns, &until_ns);
    introduce(l);
    if (atomic_load_explicit(&l->quiesced, memory_order_relaxed)) /* a lone flag */
        quiesce(l);
    bool more = take_reports(l);
    more |= take_results(l);
    frontends_look(l, now_ns, &until_ns);
    queues_look(l, now_ns, &until_ns);
    for (uint32_t a = 0; a < l->wiring->accelerators; a++)
        out += l->queues[a].out;
    for (const struct frontend_peer *f = l->frontends; f; f = f->next)
        out += f->open && f->peer.out_count > 0;                             /* results that are not sent yet */
    atomic_store_explicit(&l->busy, out + l->pulling, memory_order_relaxed); /* who waits looks again */
    report(l, now_ns, &until_ns);
    publish(l);
    return more ? 0 : until_ns;
}

static bool pending(void *owner) {
    struct backend_link *l = owner;
    if (uplink_pending(&l->uplink))
        return true;
    for (uint32_t e = 0; e < l->wiring->executors; e++)
        if (ring_pending(&l->wiring->results[e]) || ring_pending(&l->wiring->ran[e]) ||
            ring_pending(&l->wiring->freed[e]))
            return true;
    return false;
}

static void bury(void *owner, struct peer *peer) {
    struct backend_link *l = owner;
    if (!uplink_buries(&l->uplink, peer))
        container_of(peer, struct frontend_peer, peer)->open = false;
}

static const struct link_loop_ops loop_ops = {turn, pending, NULL, bury};

/* ---- start and end ---- */

static void link_free(struct backend_link *l) {
    uplink_destroy(&l->uplink);
    for (struct frontend_peer *f = l->frontends, *next; f; f = next) {
        next = f->next;
        landing_destroy(&f->landing);
        free(f);
    }
    for (uint32_t a = 0; l->queues && a < l->wiring->accelerators; a++)
        for (struct pulled_plan *p = l->queues[a].first, *next; p; p = next) {
            next = p->next;
            free(p);
        }
    for (struct pulled_plan *p = l->free, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    if (l->slab)
        slab_destroy(l->slab);
    free(l->queues);
    free(l->by_number);
    link_report_free(&l->report);
    free(l);
}

int backend_link_start(struct backend_link **link, const struct backend_link_config *config, struct sy_error *err) {
    struct backend_link *l = calloc(1, sizeof(*l));
    struct wiring *w = config->wiring;
    int rc = -ENOMEM;

    if (!l)
        return error_set(err, rc, "no memory for the link to the cluster");
    l->config = *config;
    l->wiring = w;
    link_report_init(&l->report);
    l->slab = slab_create(config->inputs_bytes_max);
    l->by_number = calloc(HELLO_NUMBERS, sizeof(*l->by_number));
    l->queues = calloc(w->accelerators, sizeof(*l->queues));
    if (!l->slab || !l->by_number || !l->queues) {
        error_set(err, rc, "no memory for the link to the cluster");
        goto err_free;
    }
    for (uint32_t a = 0; a < w->accelerators; a++)
        l->queues[a].last = &l->queues[a].first;
    w->regions[0].base = slab_range(l->slab, &w->regions[0].bytes);
    l->config.self.format = WIRE_FORMAT;
    l->config.self.role = ROLE_BACKEND;
    l->config.self.accelerators = w->accelerators;
    if ((rc = uplink_init(&l->uplink, &l->loop, config->schedulers, config->scheduler_count, &l->config.self,
                          config->beat_ns, &uplink_ops, l, err)) < 0 ||
        (rc = link_loop_init(&l->loop, &loop_ops, l, wiring_link_bell(w), -1, err)) < 0 ||
        (rc = (config->registry ? uplink_registry(&l->uplink, config->registry, err) : 0)) < 0 ||
        (rc = link_loop_start(&l->loop, "link", err)) < 0)
        goto err_free;
    *link = l;
    return 0;

err_free:
    link_loop_stop(&l->loop);
    link_free(l);
    return rc;
}

void backend_link_quiesce(struct backend_link *l) {
    atomic_store_explicit(&l->quiesced, true, memory_order_relaxed); /* a lone flag */
    doorbell_ring(l->loop.bell);
}

bool backend_link_idle(const struct backend_link *l) {
    return atomic_load_explicit(&l->busy, memory_order_relaxed) == 0; /* who waits looks again */
}

void backend_link_stop(struct backend_link *l) {
    if (!l)
        return;
    if (backend_link_idle(l)) /* else what is here is lost, and the scheduler is to say so */
        uplink_leave(&l->uplink);
    link_loop_stop(&l->loop);
}

void backend_link_free(struct backend_link *l) {
    if (l)
        link_free(l);
}

struct link_report *backend_link_report(struct backend_link *l) {
    return &l->report;
}
