/* port.c - a frontend's end of the scheduler's rings. */
#include "front/request/port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/data/visible.h"
#include "core/system/clock.h"
#include "core/util/assert.h"
#include "core/util/container.h"
#include "core/util/margin.h"
#include "core/util/siphash.h"
#include "sched/threads/wiring.h"

#define BEST_EFFORT_PART   4 /* part of the outstanding requests that may be best effort, since these wait long */
#define OTHERS_PART        8 /* part of the outstanding requests that queries of several requests may not take */
#define MESSAGES_A_REQUEST 2 /* messages for which a ring always has room: an arrival and a cancellation */
#define REPLY_PART_MOST    4 /* part of a request's time that the reply margin takes at most */
/* With a reply margin that is too long every request is refused, so that no reply corrects the margin. So after
 * REFUSED_UNTIL_RELAX refusals in a row it relaxes every RELAX_EVERY_NS until a request is answered. Time counts, not
 * further refusals: requests that nothing could serve are refused as fast as they are sent, and say nothing about the
 * margin. */
#define REFUSED_UNTIL_RELAX 16
#define RELAX_EVERY_NS      (100 * NS_PER_MS)

/* A request from port_submit() until its slot is free again. */
struct port_request {
    struct request *request;
    int64_t deadline_ns;          /* deadline for the scheduler: the request's less the reply margin */
    struct port_request *next;    /* next one in the list of requests that ended while held */
    uint32_t submission;          /* number of the slot's last submission, also while the slot is free */
    uint8_t breaks;               /* accelerators that failed while they ran the request */
    uint8_t absent;               /* accelerators that gave the request back, since its model was not resident */
    uint8_t misfits;              /* backends that gave the request back, since they do not take its inputs */
    uint8_t gone;                 /* backends that were lost while they had the request */
    uint8_t losses;               /* times that the request was lost on its way, or with its backend */
    uint8_t avoids;               /* times that the backend of `failed_at` gave the request back */
    uint16_t failed_at;           /* number of the backend where the request's run has failed; 0: none */
    struct output_block *failure; /* sentence of that run; NULL: none */
    bool cancelled;               /* port_cancel() was called */
    bool alone;                   /* the request may have made a batch fail, so it shares no run any more */
    bool back;                    /* the request has come back; its inputs are still used */
    bool held;                    /* the request waits here for its inputs; the scheduler does not have it */
    bool unprepared;              /* the inputs will never be there */
};

struct port {
    struct wiring *wiring;
    uint32_t index;
    uint32_t outstanding;      /* requests that have not come back, or are still read (request_is_read()) */
    uint32_t best_effort;      /* best-effort requests that have not come back */
    bool *model_rung;          /* [model_threads] the thread has messages of this turn */
    uint32_t sent;             /* messages of this turn */
    uint32_t turn;             /* ring that port_next() looks at next */
    bool unflushed;            /* port_next() has sent something */
    struct port_request *over; /* requests that ended while they were held */
    struct margin reply;       /* reply margin */
    uint32_t refused_in_row;   /* refusals since the last reply that was measured */
    int64_t relaxed_ns;        /* time at which REFUSED_UNTIL_RELAX was reached, or the margin was last relaxed */
    /* arrays by slot, [wiring->port_requests] each */
    struct port_request *requests;
    struct request_card *cards;
    struct siphash_key secret; /* key by which submission numbers are drawn */
    uint64_t drawn;            /* count of the submission numbers drawn */
    uint64_t draw;             /* last hash drawn, whose two halves are a number each */
    uint32_t *free;            /* unused slots from index `outstanding` on; that one is taken next */
};

/* The cards' pages take memory only once a request needs them. Other processes of this host that pull inputs read the
 * cards. */
static struct request_card *cards_allocate(struct port *port) {
    size_t bytes = cards_bytes(port->wiring->port_requests);
    if (!port_is_visible(port))
        return aligned_alloc(CACHE_LINE, bytes);
    int fd = visible_create(bytes);
    port->wiring->card_fds[port->index] = fd < 0 ? -1 : fd;
    return fd < 0 ? NULL : visible_map(fd, bytes);
}

static void cards_free(struct port *port) {
    if (!port_is_visible(port)) {
        free(port->cards);
        return;
    }
    if (port->cards)
        munmap(port->cards, cards_bytes(port->wiring->port_requests));
    if (port->wiring->card_fds[port->index] >= 0)
        close(port->wiring->card_fds[port->index]);
    port->wiring->card_fds[port->index] = -1;
}

struct port *port_create(struct wiring *wiring, uint32_t index, int64_t reply_margin_ns) {
    uint32_t most = wiring->port_requests;
    struct port *port = calloc(1, sizeof(*port));
    if (!port)
        return NULL;
    port->wiring = wiring;
    port->index = index;
    port->model_rung = calloc(wiring->model_threads, sizeof(bool));
    port->requests = calloc(most, sizeof(*port->requests));
    port->free = calloc(most, sizeof(*port->free));
    port->cards = cards_allocate(port);
    if (!port->model_rung || !port->requests || !port->free || !port->cards || siphash_key_draw(&port->secret) < 0) {
        port_destroy(port);
        return NULL;
    }
    for (uint32_t i = 0; i < most; i++)
        port->free[i] = i;
    margin_init(&port->reply, reply_margin_ns);
    wiring->cards[index] = port->cards;
    return port;
}

void port_destroy(struct port *port) {
    if (!port)
        return;
    cards_free(port);
    free(port->free);
    free(port->requests);
    free(port->model_rung);
    free(port);
}

void port_region(struct port *port, uintptr_t base, size_t bytes, int fd) {
    port->wiring->regions[port->index] = (struct region){base, bytes, fd};
}

bool port_is_visible(const struct port *port) {
    return port->wiring->link == LINK_FRONTEND;
}

bool port_is_pinned(const struct port *port) {
    return port->wiring->pinned;
}

uint32_t port_most(const struct port *port, bool best_effort) {
    uint32_t most = port->wiring->port_requests;
    return best_effort ? most / BEST_EFFORT_PART : most;
}

static uint32_t left_of(uint32_t most, uint32_t taken) {
    return most > taken ? most - taken : 0;
}

uint32_t port_room_most(const struct port *port, bool best_effort) {
    return best_effort ? port_most(port, true) : port_most(port, false) - port_most(port, false) / OTHERS_PART;
}

uint32_t port_room(const struct port *port, bool best_effort) {
    uint32_t room = left_of(port_room_most(port, false), port->outstanding);
    uint32_t room_best_effort = left_of(port_room_most(port, true), port->best_effort);
    return best_effort && room_best_effort < room ? room_best_effort : room;
}

/* ---- cards ---- */

static bool region_has(const struct region *region, uintptr_t at, size_t bytes) {
    return at - region->base <= region->bytes && bytes <= region->bytes - (at - region->base);
}

/* Finds where an input lies: in the frontend's own region, in that of the bulk threads, or, an output of a step before,
 * anywhere in the process (`anywhere`). */
static int input_place(const struct port *port, struct card_input *place, const struct tensor_view *input,
                       bool anywhere) {
    const struct wiring *w = port->wiring;
    const uint32_t numbers[] = {port->index, w->frontends, wiring_region_any(w)};
    uintptr_t at = (uintptr_t)input->data;

    place->bytes = input->bytes;
    place->dim_count = input->dim_count;
    memcpy(place->dims, input->dims, sizeof(place->dims));
    place->region = REGION_NONE;
    if (!input->data)
        return 0;
    for (unsigned i = 0; i < ARRAY_COUNT(numbers) - !anywhere; i++) {
        const struct region *region = &w->regions[numbers[i]];
        if (input->bytes > 0 && !region_has(region, at, input->bytes))
            continue;
        place->region = numbers[i];
        place->offset = input->bytes > 0 ? at - region->base : 0;
        return 0;
    }
    return -EFAULT;
}

/* The number of the next submission to a slot whose last was this. Nobody guesses it: a backend that names a request's
 * handle was told of it. */
static uint32_t submission_draw(struct port *port, uint32_t last) {
    port->draw = port->drawn % 2 ? port->draw >> 32 : siphash_words(&port->secret, &port->drawn, 1);
    port->drawn++;
    uint32_t drawn = submission_next((uint32_t)port->draw);
    return drawn == last ? submission_next(drawn) : drawn;
}

static struct port_request *port_request_of(const struct port *port, const struct request *request) {
    return &port->requests[request->slot];
}

static int card_write(struct port *port, struct port_request *r) {
    const struct request *request = r->request;
    struct request_card *card = &port->cards[request->slot];
    int rc = 0;

    if (request->input_count > CARD_INPUTS)
        card->more = cards_more(port->cards, port->wiring->port_requests, request->slot);
    for (uint32_t i = 0; i < request->input_count && rc == 0; i++)
        rc = input_place(port, card_input_at(card, i), &request->inputs[i], request->step);
    r->submission = submission_draw(port, r->submission);
    card->handle = handle_of(port->index, request->slot, r->submission);
    card->deadline_ns = request->deadline_ns;
    card->items = request->items;
    card->work = request->work;
    card->delay = request->delay;
    card->alone = r->alone;
    /* published with the message. If the inputs are prepared meanwhile, port_prepared() clears it again */
    atomic_store_explicit(&card->unready, request->preparing, memory_order_relaxed);
    card->suffix = port->wiring->suffix_of_served ? port->wiring->suffix_of_served[request->model] : 0;
    card->input_count = request->input_count;
    card->avoid = r->failed_at;
    return rc;
}

/* Another process that reads the inputs without asking (cluster/roles/landing.h) looks at the card's handle afterwards:
 * the handle is cleared before the inputs' memory is used for anything else. */
static void slot_give(struct port *port, const struct port_request *r) {
    uint32_t slot = (uint32_t)(r - port->requests);
    if (port_is_visible(port)) {
        port->cards[slot].handle = 0;
        atomic_thread_fence(memory_order_release);
    }
    port->free[--port->outstanding] = slot;
}

/* ---- to the scheduler ---- */

static void port_send(struct port *port, const struct port_request *r, enum request_message_kind kind) {
    const struct request *request = r->request;
    struct wiring *w = port->wiring;
    uint32_t model = wiring_host(w, request->model), thread = w->thread_of_served[model];
    struct ring *ring = wiring_requests(w, port->index, thread);
    struct request_message *message = ring_reserve(ring);

    CHECK(message); /* two messages a request, and outstanding requests are bounded */
    *message = (struct request_message){
        .handle = port->cards[request->slot].handle,
        .arrival_ns = request->arrival_ns,
        .deadline_ns = r->deadline_ns,
        .shape_key = request->shape_key,
        .work = request->work,
        .place = {model},
        .items = request->items,
        .port = (uint16_t)port->index,
        .kind = (uint8_t)kind,
        .priority = request->priority,
        .ready_ns = request->preparing ? request->ready_ns : 0,
        .batch_most = request->batch_most,
        .doubtful = r->gone >= REQUEST_GONE_DOUBTFUL,
        .failed_at = r->failed_at,
        .losses = r->losses,
    };
    ring_push(ring);
    port->model_rung[thread] = true;
    port->sent++;
}

/* The time kept for the way back. Never more than a part of the request's time: it would be worse to refuse everything
 * because one answer in a hundred is slow. */
int64_t port_reply_margin_ns(const struct port *port, const struct request *request) {
    int64_t margin = margin_ns(&port->reply), most = (request->deadline_ns - request->arrival_ns) / REPLY_PART_MOST;
    return margin < most ? margin : most;
}

static int64_t scheduler_deadline(const struct port *port, const struct request *request) {
    return request->deadline_ns - (request->step ? 0 : port_reply_margin_ns(port, request));
}

/* Hands a request over to the scheduler, or holds it back until its inputs are there. The scheduler gets a request
 * before its inputs are there only the first time, and only where promises are known: not with central policies, nor as
 * best effort. */
static void hand_over(struct port *port, struct port_request *r, bool again) {
    const struct request *request = r->request;
    r->held = request->preparing && (again || port->wiring->central || request->priority == PRIORITY_BEST_EFFORT);
    if (!r->held)
        port_send(port, r, REQUEST_ARRIVED);
}

static void refuse(struct request *request, enum refusal refusal) {
    request->status = REQUEST_REFUSED;
    request->refusal = refusal;
    request->cause = CAUSE_NONE;
}

/* A request that was held has ended: port_next() gives it back. */
static void held_over(struct port *port, struct port_request *r, enum refusal refusal) {
    r->held = false;
    refuse(r->request, refusal);
    r->next = port->over;
    port->over = r;
}

int port_submit(struct port *port, struct request *request) {
    bool best_effort = request->priority == PRIORITY_BEST_EFFORT;
    if (port->outstanding == port_most(port, false))
        return -EAGAIN;
    if (best_effort && port->best_effort >= port_most(port, true))
        return -EBUSY;
    request->slot = port->free[port->outstanding];
    request->status = REQUEST_FAILED;
    request->block = NULL;
    request->readers = 0;
    request->left_out = 0;
    request->cause = CAUSE_NONE;
    request->run_start_ns = request->run_end_ns = 0;
    struct port_request *r = port_request_of(port, request);
    *r = (struct port_request){
        .request = request, .deadline_ns = scheduler_deadline(port, request), .submission = r->submission};
    int rc = card_write(port, r);
    if (rc < 0)
        return rc;
    request->readers = request->preparing;
    port->outstanding++;
    port->best_effort += best_effort;
    hand_over(port, r, false);
    return 0;
}

void port_cancel(struct port *port, struct request *request) {
    struct port_request *r = port_request_of(port, request);
    r->cancelled = true;
    if (r->held)
        held_over(port, r, REFUSAL_CANCELLED);
    else if (!r->unprepared) /* it is cancelled already */
        port_send(port, r, REQUEST_CANCELLED);
}

void port_give_up(struct port *port, struct request *request) {
    struct port_request *r = port_request_of(port, request);
    if (r->held)
        held_over(port, r, REFUSAL_UNPREPARED);
}

_Atomic uint8_t *port_unready(const struct port *port, const struct request *request) {
    return &port->cards[request->slot].unready;
}

void port_flush(struct port *port) {
    struct wiring *w = port->wiring;
    bool help = port->sent <= WIRING_HELP_MOST;

    for (uint32_t t = 0; t < w->model_threads; t++)
        if (port->model_rung[t]) {
            port->model_rung[t] = false;
            if (!ring_publish(wiring_requests(w, port->index, t)))
                continue;
            if (wiring_accelerators_free(w))
                doorbell_ring_or_help(&w->model_bells[t], help);
            else
                doorbell_ring_sleeper(&w->model_bells[t], help);
        }
    port->sent = 0;
    port->unflushed = false;
}

/* ---- and back ---- */

/* Sends a request once more that the scheduler has given back. The ring has room: the messages about this request have
 * been read, except perhaps a cancellation. */
static void send_again(struct port *port, struct port_request *r) {
    int rc = card_write(port, r);
    CHECK_EQ(rc, 0); /* the inputs have not moved */
    hand_over(port, r, true);
    port->unflushed = true;
}

/* A request that missed a deadline which nobody asked for goes on as best effort: it delays no request that is in time,
 * and no longer counts as in time. (Central policies know no best effort, and would plan for it again.) True if it was
 * sent. */
static bool waits_on(struct port *port, struct port_request *r) {
    struct request *request = r->request;
    if (request->late_until_ns == 0 || r->cancelled || r->unprepared || request->priority == PRIORITY_BEST_EFFORT ||
        port->wiring->central || port->best_effort >= port_most(port, true))
        return false;
    request->priority = PRIORITY_BEST_EFFORT;
    request->deadline_ns = request->late_until_ns;
    r->deadline_ns = scheduler_deadline(port, request);
    port->best_effort++;
    send_again(port, r);
    return true;
}

/* Whether a request that an accelerator gave back without a result was sent to the scheduler again; else it is refused,
 * or has failed. */
static bool sent_again(struct port *port, struct port_request *r, bool unready) {
    struct request *request = r->request;
    char sentence[96];

    if (r->cancelled) {
        refuse(request, REFUSAL_CANCELLED);
    } else if (r->unprepared) {
        refuse(request, REFUSAL_UNPREPARED);
    } else if (r->breaks >= REQUEST_BREAKS_MAX) {
        request->status = REQUEST_FAILED;
        snprintf(sentence, sizeof(sentence),
                 "%u accelerators failed while they ran this request; it is not sent to another", r->breaks);
        request->block = output_block_failed(sentence);
    } else if (r->misfits >= REQUEST_MISFIT_MAX) {
        request->status = REQUEST_FAILED;
        request->block = output_block_failed("backends do not take its inputs: they are larger than their batches "
                                             "(max_batch) or their memory (--inputs-max-mib)");
    } else if (r->gone >= REQUEST_GONE_MAX) {
        request->status = REQUEST_FAILED;
        snprintf(sentence, sizeof(sentence),
                 "%u backends were lost while they had this request; it is not sent to another", r->gone);
        request->block = output_block_failed(sentence);
    } else if (r->losses >= REQUEST_LOSSES_MAX) {
        refuse(request, REFUSAL_LOST);
    } else if (r->avoids >= REQUEST_AVOIDS_MAX) {
        refuse(request, REFUSAL_LOST); /* request_back() answers with the run that failed */
    } else if (r->absent >= REQUEST_ABSENT_MAX) {
        refuse(request, REFUSAL_STRANDED);
    } else if (clock_now_ns() <= r->deadline_ns) {
        send_again(port, r);
        return true;
    } else if (waits_on(port, r)) {
        return true;
    } else {
        refuse(request, unready                              ? REFUSAL_UNPREPARED
                        : r->alone && !r->breaks && !r->gone ? REFUSAL_DEADLINE
                                                             : REFUSAL_LOST);
    }
    return false;
}

/* Takes a result; whether the request is finished. */
static bool result_take(struct port *port, struct port_request *r, const struct result_message *message) {
    struct request *request = r->request;
    request->status = message->status;
    request->refusal = message->refusal;
    request->block = message->block;
    request->first_item = message->first_item;
    request->batch_items = message->batch_items;
    request->run_start_ns = message->run_start_ns;
    request->run_end_ns = message->run_end_ns;
    request->past = message->past;
    if (message->status == REQUEST_LOST) {
        r->gone = (uint8_t)(r->gone + message->gone);
        r->alone |= message->suspect || r->gone >= REQUEST_GONE_DOUBTFUL;
        r->breaks = (uint8_t)(r->breaks + message->broke);
        r->absent = (uint8_t)(r->absent + message->absent);
        r->misfits = (uint8_t)(r->misfits + message->misfit);
        request->readers += message->read;
        request->left_out += message->unready;
        r->losses =
            (uint8_t)(r->losses + !(message->suspect || message->absent || message->unready || message->failed));
        r->avoids = (uint8_t)(r->avoids + (message->failed && !message->block));
        if (message->failed && message->block) {
            r->failed_at = (uint16_t)message->failed_at;
            r->failure = message->block;
            request->block = NULL;
            request->first_item = ITEMS_WHOLE;
        }
        return !sent_again(port, r, message->unready);
    }
    bool late = message->status == REQUEST_REFUSED && message->refusal == REFUSAL_DEADLINE;
    return !late || !waits_on(port, r);
}

/* A hanging run or a preparation that used this request's inputs is over. After the last one the slot, which was kept
 * for it, is given back. */
static void released(struct port *port, struct port_request *r) {
    if (--r->request->readers == 0 && r->back)
        slot_give(port, r);
}

/* Tells the scheduler that the inputs are there; without this hint it goes by the promise. The hint is left out where
 * it could take the room of a message that must be sent. */
static void ready_tell(struct port *port, const struct port_request *r) {
    struct wiring *w = port->wiring;
    struct ring *ring = wiring_requests(w, port->index, w->thread_of_served[wiring_host(w, r->request->model)]);
    if (ring_fits(ring, MESSAGES_A_REQUEST * w->port_requests + 1)) {
        port_send(port, r, REQUEST_READY);
        port->unflushed = true;
    }
}

/* The inputs of a request that was held are there. */
static void held_ready(struct port *port, struct port_request *r) {
    if (clock_now_ns() <= r->deadline_ns)
        send_again(port, r);
    else if (!waits_on(port, r))
        held_over(port, r, REFUSAL_UNPREPARED);
}

void port_prepared(struct port *port, struct request *request, bool ready) {
    struct port_request *r = port_request_of(port, request);
    request->preparing = false;
    request->prepared_ns = ready ? clock_now_ns() : 0;
    r->unprepared = !ready;
    if (r->back) {
        released(port, r);
        return;
    }
    request->readers--;
    if (ready)
        atomic_store_explicit(port_unready(port, request), 0, memory_order_release); /* with request_unready() */
    if (r->held)
        ready ? held_ready(port, r) : held_over(port, r, REFUSAL_UNPREPARED);
    else if (ready)
        ready_tell(port, r);
    else if (!r->cancelled)
        port_send(port, r, REQUEST_CANCELLED);
}

static struct port_request *next_done(struct port *port, uint32_t executor) {
    struct ring *ring = wiring_results(port->wiring, executor, port->index);
    const struct result_message *next;

    while ((next = ring_peek(ring))) {
        struct result_message message = *next;
        uint32_t slot = handle_slot(message.handle);
        struct port_request *r = &port->requests[slot];
        ring_pop(ring);
        ring_release(ring);
        if (message.status == REQUEST_RELEASED) {
            released(port, r);
            continue;
        }
        CHECK_EQ(message.handle, port->cards[slot].handle);
        if (result_take(port, r, &message))
            return r;
    }
    return NULL;
}

static void count_refused(struct port *port) {
    if (++port->refused_in_row % REFUSED_UNTIL_RELAX != 0)
        return;
    int64_t now_ns = clock_now_ns();
    if (port->refused_in_row > REFUSED_UNTIL_RELAX && now_ns - port->relaxed_ns < RELAX_EVERY_NS)
        return;
    if (port->refused_in_row > REFUSED_UNTIL_RELAX)
        margin_relax(&port->reply);
    port->relaxed_ns = now_ns;
}

/* Refused at its deadline, while it waited for an accelerator, or in a cluster for a backend or a scheduler. Outside a
 * cluster no best effort waits for a model without accelerators. */
static bool ran_out_of_time(const struct port *port, enum refusal reason) {
    bool frontend = port->wiring->link == LINK_FRONTEND;
    return reason == REFUSAL_DEADLINE || reason == REFUSAL_UNSCHEDULED || (reason == REFUSAL_STRANDED && frontend);
}

static struct port_request *next_refused(struct port *port, uint32_t thread) {
    struct ring *ring = wiring_refusals(port->wiring, thread, port->index);
    const struct refusal_message *message;

    while ((message = ring_peek(ring))) {
        struct port_request *r = &port->requests[handle_slot(message->handle)];
        struct request *request = r->request;
        CHECK_EQ(message->handle, port->cards[request->slot].handle);
        refuse(request, r->unprepared ? REFUSAL_UNPREPARED : message->reason);
        if (request->refusal == REFUSAL_DEADLINE) {
            request->cause = message->cause;
            request->figures = message->figures;
        }
        count_refused(port);
        ring_pop(ring);
        ring_release(ring);
        if (ran_out_of_time(port, request->refusal) && waits_on(port, r))
            continue;
        if (request->refusal == REFUSAL_DEADLINE && request->preparing && clock_now_ns() >= request->ready_ns)
            refuse(request, REFUSAL_UNPREPARED); /* the promise was not kept */
        return r;
    }
    return NULL;
}

static struct request *request_back(struct port *port, struct port_request *r) {
    struct request *request = r->request;
    port->best_effort -= request->priority == PRIORITY_BEST_EFFORT;
    if (r->failure && request->status == REQUEST_REFUSED && request->refusal != REFUSAL_CANCELLED) {
        request->status = REQUEST_FAILED; /* nobody else has run it */
        request->block = r->failure;
    } else {
        output_block_put(r->failure);
    }
    r->failure = NULL;
    r->back = true;
    if (!request_is_read(request))
        slot_give(port, r);
    return request;
}

struct request *port_next(struct port *port) {
    uint32_t executors = port->wiring->executors, rings = executors + port->wiring->model_threads;

    for (uint32_t i = 0; i < rings; i++, port->turn = (port->turn + 1) % rings) {
        struct port_request *r =
            port->turn < executors ? next_done(port, port->turn) : next_refused(port, port->turn - executors);
        if (r) /* the same ring again next time: its line is in the cache */
            return request_back(port, r);
    }
    struct port_request *over = port->over;
    if (over) {
        port->over = over->next;
        return request_back(port, over);
    }
    if (port->unflushed)
        port_flush(port);
    return NULL;
}

int port_event_fd(const struct port *port) {
    return port->wiring->frontend_bells[port->index].event_fd;
}

bool port_arm(struct port *port, int64_t until_ns) {
    struct wiring *w = port->wiring;
    struct doorbell *bell = &w->frontend_bells[port->index];
    bool any = bell->busy_poll || port->over;

    doorbell_arm(bell);
    for (uint32_t e = 0; e < w->executors && !any; e++)
        any = ring_pending(wiring_results(w, e, port->index));
    for (uint32_t t = 0; t < w->model_threads && !any; t++)
        any = ring_pending(wiring_refusals(w, t, port->index));
    if (any)
        doorbell_cancel(bell);
    else if (bell->turn)
        doorbell_lend_out(bell, until_ns);
    return !any;
}

void port_disarm(struct port *port) {
    doorbell_take_back(&port->wiring->frontend_bells[port->index]);
}

void port_lend(struct port *port, doorbell_turn *turn, void *frontend) {
    doorbell_lend(&port->wiring->frontend_bells[port->index], turn, frontend);
}

void port_replied(struct port *port, int64_t took_ns) {
    port->refused_in_row = 0;
    margin_add(&port->reply, took_ns);
}

const struct margin *port_reply_margin(const struct port *port) {
    return &port->reply;
}
