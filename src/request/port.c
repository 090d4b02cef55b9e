/* port.c - a frontend's end of the scheduler's rings. */
#include "request/port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/margin.h"
#include "link/transport.h"
#include "sched/wiring.h"

#define BEST_EFFORT_PART 4 /* this part of the requests outstanding may be best effort: it may wait for long */
#define REPLY_PART_MOST  4 /* the reply margin takes this part of a request's time at most */
/* A reply margin that is too long has everything refused, so that no reply tells. Then it relaxes: after so many
 * refusals in a row, and every so often while nothing is answered. By time, since requests that nothing could serve are
 * refused as fast as they are sent, and say nothing of it. */
#define REFUSED_UNTIL_RELAX 16
#define RELAX_EVERY_NS      (100 * NS_PER_MS)

struct port {
    struct wiring *wiring;
    uint32_t index, outstanding;
    uint32_t best_effort; /* of those outstanding */
    bool *model_rung;     /* [model_threads] */
    uint32_t sent;        /* messages of this turn */
    uint32_t turn;        /* which ring port_next() looks at next */
    bool unflushed;       /* port_next() has sent something */
    struct margin reply;
    uint32_t refused_in_row; /* since the last reply that was measured */
    int64_t relaxed_ns;      /* when there were enough of them first, or the margin relaxed last */
};

struct port *port_create(struct wiring *wiring, uint32_t index, int64_t reply_margin_ns) {
    struct port *port = calloc(1, sizeof(*port));
    if (!port)
        return NULL;
    port->model_rung = calloc(wiring->model_threads, sizeof(bool));
    if (!port->model_rung) {
        free(port);
        return NULL;
    }
    port->wiring = wiring;
    port->index = index;
    margin_init(&port->reply, reply_margin_ns);
    return port;
}

void port_destroy(struct port *port) {
    if (!port)
        return;
    free(port->model_rung);
    free(port);
}

uint32_t port_most(bool best_effort) {
    return best_effort ? PORT_REQUESTS_MAX / BEST_EFFORT_PART : PORT_REQUESTS_MAX;
}

static void port_send(struct port *port, const struct request *request, enum request_message_kind kind) {
    struct wiring *w = port->wiring;
    uint32_t thread = w->thread_of_served[request->model];
    struct ring *ring = &w->requests[port->index * w->model_threads + thread];
    struct request_message *message = ring_reserve(ring);

    CHECK(message); /* two messages a request, and outstanding requests are bounded */
    *message = (struct request_message){
        .handle = (uintptr_t)request,
        .arrival_ns = request->arrival_ns,
        .deadline_ns = request->deadline_sched_ns,
        .shape_key = request->shape_key,
        .work = request->work,
        .model = request->model,
        .items = request->items,
        .port = (uint16_t)port->index,
        .kind = (uint8_t)kind,
        .priority = request->priority,
    };
    ring_push(ring);
    port->model_rung[thread] = true;
    port->sent++;
}

/* What is kept for the way back: never more than a part of the time there is, for refusing everything because one
 * answer in a hundred is slow would be worse. */
static int64_t reply_margin(const struct port *port, const struct request *request) {
    int64_t margin = margin_ns(&port->reply), most = (request->deadline_ns - request->arrival_ns) / REPLY_PART_MOST;
    return margin < most ? margin : most;
}

int port_submit(struct port *port, struct request *request) {
    bool best_effort = request->priority == PRIORITY_BEST_EFFORT;
    if (port->outstanding == PORT_REQUESTS_MAX)
        return -EAGAIN;
    if (best_effort && port->best_effort == port_most(true))
        return -EBUSY;
    port->outstanding++;
    port->best_effort += best_effort;
    request->port = port->index;
    request->status = REQUEST_FAILED;
    request->block = NULL;
    request->cancelled = request->alone = false;
    request->breaks = 0;
    request->deadline_sched_ns = request->deadline_ns - reply_margin(port, request);
    port_send(port, request, REQUEST_ARRIVED);
    return 0;
}

void port_cancel(struct port *port, struct request *request) {
    request->cancelled = true;
    port_send(port, request, REQUEST_CANCELLED);
}

void port_flush(struct port *port) {
    struct wiring *w = port->wiring;
    bool help = port->sent <= WIRING_HELP_MOST;

    for (uint32_t t = 0; t < w->model_threads; t++)
        if (port->model_rung[t]) {
            port->model_rung[t] = false;
            if (!ring_publish(&w->requests[port->index * w->model_threads + t]))
                continue;
            if (wiring_accelerators_free(w))
                doorbell_ring_or_help(&w->model_bells[t], help);
            else
                doorbell_ring_sleeper(&w->model_bells[t], help);
        }
    port->sent = 0;
    port->unflushed = false;
}

/* A request that missed a deadline which nobody asked for goes on as best effort: it hinders none that are in time, and
 * does not count as one any more. (Central policies know no best effort, and would plan for it again.) True if it was
 * sent; the ring has room, as in sent_again(). */
static bool waits_on(struct port *port, struct request *request) {
    if (request->late_until_ns == 0 || request->cancelled || request->priority == PRIORITY_BEST_EFFORT ||
        port->wiring->central || port->best_effort == port_most(true))
        return false;
    request->priority = PRIORITY_BEST_EFFORT;
    request->deadline_ns = request->late_until_ns;
    request->deadline_sched_ns = request->deadline_ns - reply_margin(port, request);
    port->best_effort++;
    port_send(port, request, REQUEST_ARRIVED);
    port->unflushed = true;
    return true;
}

/* Whether a request whose accelerator failed was sent to the scheduler again; else it is refused, or has failed. The
 * ring has room: what it carried of this request has been read, or is a cancellation. */
static bool sent_again(struct port *port, struct request *request) {
    if (request->cancelled) {
        request->status = REQUEST_REFUSED;
        request->refusal = REFUSAL_CANCELLED;
        return false;
    }
    if (request->breaks >= REQUEST_BREAKS_MAX) {
        request->status = REQUEST_FAILED;
        snprintf(request->failure, sizeof(request->failure),
                 "%u accelerators failed while they ran this request; it is not sent to another", request->breaks);
        return false;
    }
    if (clock_now_ns() > request->deadline_sched_ns) {
        if (waits_on(port, request))
            return true;
        request->status = REQUEST_REFUSED;
        request->refusal = request->alone && !request->breaks ? REFUSAL_DEADLINE : REFUSAL_LOST;
        return false;
    }
    port_send(port, request, REQUEST_ARRIVED);
    port_flush(port);
    return true;
}

static struct request *next_done(struct port *port, uint32_t executor) {
    struct ring *ring = &port->wiring->done[executor * port->wiring->frontends + port->index];
    const struct done_message *message;

    while ((message = ring_peek(ring))) {
        struct request *request = transport_local.request(message->handle);
        ring_pop(ring);
        ring_release(ring);
        bool late = request->status == REQUEST_REFUSED && request->refusal == REFUSAL_DEADLINE;
        if (request->status == REQUEST_LOST ? !sent_again(port, request) : !late || !waits_on(port, request))
            return request;
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

static struct request *next_refused(struct port *port, uint32_t thread) {
    struct ring *ring = &port->wiring->refusals[thread * port->wiring->frontends + port->index];
    const struct refusal_message *message;

    while ((message = ring_peek(ring))) {
        struct request *request = transport_local.request(message->handle);
        request->status = REQUEST_REFUSED;
        request->refusal = message->reason;
        count_refused(port);
        ring_pop(ring);
        ring_release(ring);
        if (request->refusal != REFUSAL_DEADLINE || !waits_on(port, request))
            return request;
    }
    return NULL;
}

struct request *port_next(struct port *port) {
    uint32_t executors = port->wiring->executors, rings = executors + port->wiring->model_threads;

    for (uint32_t i = 0; i < rings; i++, port->turn = (port->turn + 1) % rings) {
        struct request *request =
            port->turn < executors ? next_done(port, port->turn) : next_refused(port, port->turn - executors);
        if (request) { /* the same ring again next time: its line is in the cache */
            port->outstanding--;
            port->best_effort -= request->priority == PRIORITY_BEST_EFFORT;
            return request;
        }
    }
    if (port->unflushed)
        port_flush(port);
    return NULL;
}

int port_event_fd(const struct port *port) {
    return port->wiring->frontend_bells[port->index].event_fd;
}

bool port_arm(struct port *port) {
    struct wiring *w = port->wiring;
    struct doorbell *bell = &w->frontend_bells[port->index];
    bool any = bell->busy_poll;

    doorbell_arm(bell);
    for (uint32_t e = 0; e < w->executors && !any; e++)
        any = ring_pending(&w->done[e * w->frontends + port->index]);
    for (uint32_t t = 0; t < w->model_threads && !any; t++)
        any = ring_pending(&w->refusals[t * w->frontends + port->index]);
    if (any)
        doorbell_cancel(bell);
    return !any;
}

void port_disarm(struct port *port) {
    doorbell_cancel(&port->wiring->frontend_bells[port->index]);
}

void port_replied(struct port *port, int64_t took_ns) {
    port->refused_in_row = 0;
    margin_add(&port->reply, took_ns);
}

const struct margin *port_reply_margin(const struct port *port) {
    return &port->reply;
}
