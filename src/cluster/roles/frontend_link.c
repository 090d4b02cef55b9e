/* frontend_link.c - a frontend's link: requests that are away (sent, or waiting to be sent), the scheduler, turns,
 * start and end. Backends are in frontend_backends.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/frontend_link_state.h"
#include "cluster/roles/transport.h"
#include "core/data/advice.h"
#include "core/data/running.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/assert.h"

#define TAKE_MOST 256               /* most messages of one ring in a turn */
#define SWEEP_NS  (10 * NS_PER_MS)  /* time between two searches for requests that are late or long cancelled */
#define LOOK_NS   (5 * NS_PER_MS)   /* time between two calls of the owner's look() while models go */
#define REST_NS   (100 * NS_PER_MS) /* time between two calls of the owner's look() otherwise */
/* A model that no backend has any more is kept for this time, with its requests: a backend, or another scheduler that
 * knows one, may be back soon. */
#define FORGET_NS          (2 * NS_PER_S)
#define FORGET_ISOLATED_NS (60 * NS_PER_S) /* with `serve --isolate`: the backend that ended starts again */
/* A cancelled request that a backend has taken is not stopped there. After this time it ends here nevertheless, however
 * long its batch runs, so that it occupies no slot, and the frontend can end. */
#define CANCELLED_NS (5 * NS_PER_S)
/* A request that was lost is sent again at once for so many times: a backend that is cut off from this frontend may
 * have several accelerators, each of which is busy with that for a while (UNREACHED_LEAST_NS), and then others are
 * asked. After that it waits AGAIN_NS, then twice as long each time. */
#define AGAIN_AT_ONCE   8
#define AGAIN_NS        (10 * NS_PER_MS)
#define AGAIN_DOUBLINGS 4

/* ---- handles: of ports in this process, and of the cluster ---- */

uint64_t away_handle(const struct frontend_link *l, uint64_t handle) {
    return handle + ((uint64_t)l->number * HELLO_LANES_MAX << HANDLE_SLOT_BITS);
}

/* The request of a cluster's handle, if it is away. */
struct away *away_find(const struct frontend_link *l, uint64_t handle) {
    size_t place = handle_place(handle, l->number, l->wiring->frontends, l->wiring->port_requests);
    struct away *a = place == HANDLE_STRANGE ? NULL : &l->away[place];
    return a && a->message.handle && away_handle(l, a->message.handle) == handle ? a : NULL;
}

uint32_t away_lane(const struct away *a) {
    return handle_frontend(a->message.handle);
}

const struct request_card *away_card(const struct frontend_link *l, const struct away *a) {
    return &l->wiring->cards[away_lane(a)][handle_slot(a->message.handle)];
}

/* ---- inputs that are prepared ---- */

bool away_unready(const struct frontend_link *l, const struct away *a) {
    return atomic_load_explicit(&away_card(l, a)->unready, memory_order_acquire); /* with who has prepared them */
}

void away_await(struct frontend_link *l, struct away *a, uint32_t taker) {
    l->awaited += !a->awaited;
    a->awaited = true;
    a->taker = taker;
}

void away_await_no_more(struct frontend_link *l, struct away *a) {
    l->awaited -= a->awaited;
    a->awaited = false;
}

/* ---- back to the port ---- */

const struct running *backend_running(const struct frontend_link *l, const struct backend *b) {
    for (uint32_t i = 0; i < l->config.running_count; i++)
        if (atomic_load_explicit(&l->config.running[i]->incarnation, memory_order_relaxed) == b->hello.incarnation)
            return l->config.running[i];
    return NULL;
}

/* Whether a lost backend, which had read the request, was running others. Either the scheduler or we (`beside`) hear
 * first that the backend is lost. */
static bool was_beside(const struct frontend_link *l, const struct away *a) {
    const struct backend *b = a->taker < l->backend_room ? l->backends[a->taker] : NULL;
    const struct running *running = b && b->known ? backend_running(l, b) : NULL;
    return a->beside || (running && atomic_load_explicit(&running->count, memory_order_acquire) > 0 &&
                         !running_has(running, away_handle(l, a->message.handle)));
}

/* Whether a backend that was running the request is gone; the scheduler or we (`ended_run`) hear of that first. */
static bool ended_its_run(const struct frontend_link *l, const struct away *a) {
    bool ended = a->ended_run;
    if (a->last.status != REQUEST_LOST)
        return false;
    for (uint32_t i = 0; i < l->config.running_count && a->last.reason == LOST_BACKEND && !ended; i++)
        ended = running_has(l->config.running[i], away_handle(l, a->message.handle));
    return ended;
}

/* Whether a backend is gone that had read the request, and it is not known to have ended because of others. A backend
 * that had not read it is not gone because of it: until the scheduler notices that a backend is gone, it goes on
 * sending requests there. */
static bool ended_its_backend(const struct frontend_link *l, const struct away *a) {
    return a->last.status == REQUEST_LOST && a->last.reason == LOST_BACKEND && a->taker != NO_TAKER &&
           !was_beside(l, a);
}

static void give_result(struct frontend_link *l, const struct away *a) {
    bool ended = ended_its_run(l, a);
    struct ring *ring = wiring_results(l->wiring, 0, away_lane(a));
    struct result_message *message = ring_reserve(ring);
    CHECK(message); /* a port has at most as many requests outstanding as the ring has slots */
    *message = (struct result_message){
        .handle = a->message.handle,
        .run_start_ns = a->last.run_start_ns,
        .run_end_ns = a->last.run_end_ns,
        .block = a->block,
        .first_item = a->failed_at ? a->failed_at : ITEMS_WHOLE,
        .batch_items = a->last.batch_items,
        .status = a->failed_at ? REQUEST_LOST : a->last.status,
        .refusal = a->last.refusal,
        .suspect = a->last.suspect | ended,
        .broke = a->last.broke | ended,
        .absent = a->last.absent,
        .unready = a->last.unready,
        .misfit = a->last.status == REQUEST_LOST && a->last.reason == LOST_MISFIT,
        .gone = !ended && ended_its_backend(l, a),
        .failed = a->failed_at || (a->last.status == REQUEST_LOST && a->last.reason == LOST_AVOIDED),
        .past = a->last.past,
    };
    ring_push(ring);
    l->results_rung++;
}

static void give_refusal(struct frontend_link *l, struct away *a, uint32_t reason) {
    struct ring *ring = wiring_refusals(l->wiring, 0, away_lane(a));
    struct refusal_message *message = ring_reserve(ring);
    CHECK(message); /* likewise */
    *message = (struct refusal_message){.handle = a->message.handle,
                                        .place = a->message.place,
                                        .reason = (uint8_t)reason,
                                        .cause = a->cause,
                                        .figures = a->figures};
    ring_push(ring);
    l->results_rung++;
}

void away_unread(struct frontend_link *l, struct away *a) {
    if (--a->readers == 0 && a->over)
        away_give_back(l, a);
}

void away_give_back(struct frontend_link *l, struct away *a) {
    l->held -= !a->sent;
    if (a->refused)
        give_refusal(l, a, a->last.refusal);
    else
        give_result(l, a);
    a->message.handle = 0;
}

/* Call it when the scheduler no longer has a request: if the request is in doubt, the next such one may go. */
static void doubtful_back(struct frontend_link *l, const struct away *a) {
    if (!a->sent || !a->message.doubtful)
        return;
    l->doubtful--;
    l->sweep_ns = 0; /* the next one may go */
}

/* A request has ended: its port is told once its inputs are no longer read. */
void away_over(struct frontend_link *l, struct away *a, const struct wire_outcome *last, struct output_block *block,
               bool refused) {
    if (a->over) { /* the first end counts */
        output_block_put(block);
        return;
    }
    doubtful_back(l, a);
    a->last = *last;
    a->block = block;
    a->refused = refused;
    a->over = true;
    away_await_no_more(l, a);
    if (a->readers == 0)
        away_give_back(l, a);
}

static void refuse(struct frontend_link *l, struct away *a, uint32_t reason) {
    away_over(l, a, &(struct wire_outcome){.status = REQUEST_REFUSED, .refusal = (uint8_t)reason}, NULL, true);
}

/* ---- to the scheduler ---- */

static struct frontend_model *away_model(const struct frontend_link *l, const struct away *a) {
    return &l->models[a->message.place.n];
}

/* Whether a scheduler has let this frontend in, and backends are connected: without these the scheduler would send the
 * same requests to backends that cannot get them, again and again. With `serve --isolate` the scheduler knows better,
 * since its processes come and go together with their connections. */
static bool is_linked(const struct frontend_link *l) {
    return l->uplink.up && (l->backends_known > 0 || l->config.running_count > 0);
}

/* Whether the scheduler is connected, and knows the model. A request with a promise goes only to a scheduler that knows
 * promises. Only one request in doubt is at the scheduler at a time: if a backend is lost again, the others were not
 * there, and are not to blame. */
bool away_can_send(const struct frontend_link *l, const struct away *a) {
    return is_linked(l) && (a->send_ns == 0 || clock_now_ns() >= a->send_ns) &&
           away_model(l, a)->remote.n != NO_MODEL && (l->promises || !away_unready(l, a)) &&
           !(a->message.doubtful && l->doubtful > 0);
}

/* Adds a request to the frame that is being filled. Without room the connection is about to be closed, and the request
 * is sent again then. */
void away_tell(struct frontend_link *l, const struct away *a, uint8_t kind) {
    struct wire_request message = wire_request_of(&a->message);
    message.handle = away_handle(l, a->message.handle);
    message.model = a->remote.n;
    message.port = 0;
    message.kind = kind;
    if (message.ready_ns > 0 && !away_unready(l, a))
        message.ready_ns = 0;
    peer_add(&l->uplink.peer, FRAME_REQUESTS, &message, sizeof(message));
}

void away_take_back(struct frontend_link *l, struct away *a) {
    if (!a->cancelled)
        away_tell(l, a, REQUEST_CANCELLED);
    away_over(l, a, &(struct wire_outcome){.status = REQUEST_LOST}, NULL, false);
}

void away_send(struct frontend_link *l, struct away *a) {
    a->remote = away_model(l, a)->remote;
    a->sent = l->uplink.times;
    l->held--;
    l->doubtful += a->message.doubtful;
    l->again += a->again;
    away_tell(l, a, REQUEST_ARRIVED);
}

bool away_hold(struct frontend_link *l, struct away *a) {
    if (a->cancelled) {
        refuse(l, a, REFUSAL_CANCELLED);
        return false;
    }
    away_await_no_more(l, a);
    a->shown = a->taker = NO_TAKER;
    if (!a->sent)
        return true;
    doubtful_back(l, a);
    a->sent = 0;
    a->again = true;
    l->held++;
    return true;
}

/* Whether a model is gone for good: its last requests here have been refused. */
static bool is_forgotten(const struct frontend_link *l, uint32_t local) {
    const struct frontend_model *m = &l->models[local];
    return l->uplink.up && !m->served && m->remote.n == NO_MODEL && m->forget_ns == TIME_NEVER;
}

/* Nobody waits for a request any more. */
static void cancel(struct frontend_link *l, struct away *a) {
    a->cancelled = true;
    if (!a->sent || !l->uplink.up) {
        refuse(l, a, REFUSAL_CANCELLED);
        return;
    }
    away_tell(l, a, REQUEST_CANCELLED);
    a->cut_ns = clock_now_ns() + l->config.cancelled_ns;
    l->cut_ns = time_earlier(a->cut_ns, l->cut_ns);
}

/* Ends cancelled requests that nobody has given back in time. Later messages about them are ignored. Their inputs are
 * kept where a backend is known to read them (away_over()); by shared memory it finds out that they may have changed
 * (front/request/port.c). */
static void cancelled_look(struct frontend_link *l, int64_t now_ns, int64_t *until_ns) {
    if (now_ns >= l->cut_ns) {
        l->cut_ns = TIME_NEVER;
        AWAY_EACH (l, a) {
            if (!a->cancelled || a->over)
                continue;
            if (now_ns >= a->cut_ns)
                refuse(l, a, REFUSAL_CANCELLED);
            else
                l->cut_ns = time_earlier(a->cut_ns, l->cut_ns);
        }
        l->cut_ns = l->cut_ns < now_ns + SWEEP_NS ? now_ns + SWEEP_NS : l->cut_ns;
    }
    *until_ns = time_earlier(l->cut_ns, *until_ns);
}

static enum refusal unlinked_reason(const struct frontend_link *l) {
    return l->uplink.up ? REFUSAL_STRANDED : REFUSAL_UNSCHEDULED;
}

static void take_request(struct frontend_link *l, const struct request_message *message) {
    struct away *a =
        &l->away[(size_t)handle_frontend(message->handle) * l->wiring->port_requests + handle_slot(message->handle)];
    if (message->kind == REQUEST_CANCELLED) {
        if (a->message.handle != message->handle || a->over)
            return;
        cancel(l, a);
        return;
    }
    if (message->kind == REQUEST_READY) { /* perhaps before the promised time */
        if (a->message.handle != message->handle || a->over)
            return;
        frontend_inputs_ready(l, a);
        if (a->sent && a->sent == l->uplink.times && l->uplink.up && l->promises)
            away_tell(l, a, REQUEST_READY);
        else if (!a->sent && away_can_send(l, a))
            away_send(l, a);
        return;
    }
    CHECK_EQ(a->message.handle, 0); /* a port reuses a slot only when its request has come back */
    *a = (struct away){.message = *message, .shown = NO_TAKER, .taker = NO_TAKER, .reader = NO_TAKER};
    if (message->losses > AGAIN_AT_ONCE) {
        uint32_t waited = message->losses - AGAIN_AT_ONCE - 1;
        uint32_t doublings = waited < AGAIN_DOUBLINGS ? waited : AGAIN_DOUBLINGS;
        a->send_ns = clock_now_ns() + (AGAIN_NS << doublings);
    }
    l->held++;
    if (l->unlinked)
        refuse(l, a, unlinked_reason(l));
    else if (away_can_send(l, a))
        away_send(l, a);
    else if (is_forgotten(l, a->message.place.n)) /* it was sent again, or late, and its model is gone */
        refuse(l, a, REFUSAL_STRANDED);
}

static bool take_requests(struct frontend_link *l) {
    bool more = false;
    for (uint32_t f = 0; f < l->wiring->frontends; f++) {
        struct ring *ring = wiring_requests(l->wiring, f, 0);
        const struct request_message *message;
        uint32_t n = 0;
        for (; n < TAKE_MOST && (message = ring_peek(ring)); ring_pop(ring), n++)
            take_request(l, message);
        if (n)
            ring_release(ring);
        more |= n == TAKE_MOST;
    }
    return more;
}

/* The next request that waits here, from *i on. `left` counts those not yet found, at first l->held. NULL: no more. */
static struct away *held_next(const struct frontend_link *l, size_t *i, uint32_t *left) {
    while (*left > 0 && *i < away_count(l)) {
        struct away *a = &l->away[(*i)++];
        if (!a->message.handle || a->sent)
            continue;
        --*left;
        if (!a->over)
            return a;
    }
    return NULL;
}

/* Why a request that waits here cannot be in time any more. */
static enum refusal held_too_long(const struct frontend_link *l, const struct away *a) {
    return away_unready(l, a)                             ? REFUSAL_DEADLINE
           : !l->uplink.up                                ? REFUSAL_UNSCHEDULED
           : a->message.doubtful || a->message.losses > 0 ? REFUSAL_LOST
                                                          : REFUSAL_STRANDED;
}

/* Refuses requests that wait here and can no longer be in time, and sends those that can be sent. */
static void sweep(struct frontend_link *l, int64_t now_ns) {
    uint32_t left = l->held;
    size_t i = 0;
    for (struct away *a; (a = held_next(l, &i, &left));) {
        if (now_ns > a->message.deadline_ns)
            refuse(l, a, held_too_long(l, a));
        else if (away_can_send(l, a))
            away_send(l, a);
    }
}

/* Notes since when there is no scheduler or no backend. Lowers *until_ns to when to call it again. */
static void linked_look(struct frontend_link *l, int64_t now_ns, int64_t *until_ns) {
    if (is_linked(l))
        l->unlinked_ns = TIME_NEVER;
    else if (l->unlinked_ns == TIME_NEVER)
        l->unlinked_ns = now_ns;
    bool waits = l->unlinked_ns == TIME_NEVER || now_ns - l->unlinked_ns < l->config.link_wait_ns;
    if (l->unlinked_ns != TIME_NEVER && waits && l->config.link_wait_ns != TIME_NEVER) {
        int64_t over_ns = l->unlinked_ns + l->config.link_wait_ns;
        *until_ns = time_earlier(over_ns, *until_ns);
    }
    if (l->unlinked != waits)
        return;
    l->unlinked = !waits;
    if (l->config.ops->linked)
        l->config.ops->linked(l->config.context, waits);
    if (waits) {
        log_info("requests are sent on again", "scheduler=%s", l->uplink.peer.name);
        return;
    }
    log_warn("requests are refused", "reason=\"no %s is connected\"", l->uplink.up ? "backend" : "scheduler");
    uint32_t left = l->held;
    size_t i = 0;
    for (struct away *a; (a = held_next(l, &i, &left));)
        refuse(l, a, unlinked_reason(l));
}

/* ---- from the scheduler ---- */

/* Keeps a model until there is room for it. 0 or -ENOMEM. */
static int waiting_add(struct frontend_link *l, struct remote_id remote, const char *description, uint32_t bytes) {
    struct waiting_model **at = &l->waiting, *w = malloc(sizeof(*w) + bytes);
    if (!w)
        return -ENOMEM;
    w->next = NULL;
    w->remote = remote;
    w->bytes = bytes;
    memcpy(w->description, description, bytes);
    while (*at)
        at = &(*at)->next;
    *at = w;
    return 0;
}

/* Takes the waiting model with this number of the scheduler out of the list; NO_MODEL: the first one. NULL: there is
 * none. */
static struct waiting_model *waiting_take(struct frontend_link *l, struct remote_id remote) {
    for (struct waiting_model **at = &l->waiting, *w; (w = *at); at = &w->next)
        if (remote.n == NO_MODEL || w->remote.n == remote.n) {
            *at = w->next;
            return w;
        }
    return NULL;
}

static void waiting_free(struct frontend_link *l) {
    for (struct waiting_model *w; (w = waiting_take(l, (struct remote_id){NO_MODEL}));)
        free(w);
}

/* A place gets a model with this key, by which backends name it. */
static void key_set(struct frontend_link *l, uint32_t local, uint32_t key) {
    struct frontend_model *m = &l->models[local];
    if (m->key == key)
        return;
    if (m->key) {
        uint32_t *link = &l->by_key[m->key % KEYS];
        while (*link != local + 1)
            link = &l->models[*link - 1].key_next;
        *link = m->key_next;
    }
    m->key = key;
    if (key) {
        m->key_next = l->by_key[key % KEYS];
        l->by_key[key % KEYS] = local + 1;
    }
}

/* No request is sent with this number of a model from now on. */
static void model_left(struct frontend_link *l, struct remote_id remote) {
    peer_send(&l->uplink.peer, FRAME_MODEL_LEFT, 1, &remote, sizeof(remote));
}

/* Serves a model that the scheduler knows by this number. 0, or -errno as serve() returns it. */
static int model_take(struct frontend_link *l, struct remote_id remote, const char *description, uint32_t bytes,
                      struct sy_error *err) {
    int local = l->config.ops->serve(l->config.context, description, bytes, err);
    if (local < 0)
        return local;
    struct frontend_model *m = &l->models[local];
    if (!m->served) {
        m->retries = RETRIES_FIRST;
        m->blind = BLIND_MOST;
        memset(m->good, 0, sizeof(m->good));
    }
    if (m->ends.n != NO_MODEL && m->ends.n != remote.n) { /* it came back before its requests of before had ended */
        model_left(l, m->ends);
        m->ends.n = NO_MODEL;
    }
    m->remote = remote;
    key_set(l, (uint32_t)local, (uint32_t)served_model_key(&l->config.models[local]));
    m->forget_ns = TIME_NEVER;
    m->told = m->served = true;
    l->look_ns = 0; /* the model may replace another one */
    if (l->held > 0)
        sweep(l, clock_now_ns());
    return 0;
}

static bool may_wait(int rc) {
    return rc == -ENOSPC || rc == -ENOMEM;
}

/* Serves a model, or keeps it until there is room. 0 or -ENOMEM with a sentence: the model is not kept, and announced
 * again by a new connection. */
static int model_serve(struct frontend_link *l, const struct frame *frame, const char *head, struct sy_error *err) {
    struct remote_id remote;
    struct sy_error why;
    const char *description = head + sizeof(remote);
    uint32_t bytes = frame->head_bytes - (uint32_t)sizeof(remote);
    memcpy(&remote, head, sizeof(remote));
    int rc = model_take(l, remote, description, bytes, &why);
    if (rc < 0)
        log_error("model not served here", "reason=\"%s\"", why.text);
    return may_wait(rc) && waiting_add(l, remote, description, bytes) < 0
               ? error_set(err, -ENOMEM, "no memory for a model that waits")
               : 0;
}

/* Serves models that waited, while there is room. */
static void waiting_look(struct frontend_link *l) {
    while (l->waiting && l->uplink.up && (!l->config.ops->room || l->config.ops->room(l->config.context))) {
        struct sy_error why;
        int rc = model_take(l, l->waiting->remote, l->waiting->description, l->waiting->bytes, &why);
        if (may_wait(rc))
            return;
        if (rc < 0)
            log_error("model not served here", "reason=\"%s\"", why.text);
        free(waiting_take(l, l->waiting->remote));
    }
}

/* The scheduler does not serve the model now. */
static void model_miss(struct frontend_link *l, struct frontend_model *m) {
    m->remote.n = NO_MODEL;
    m->served = false;
    m->forget_ns = clock_now_ns() + (l->config.running_count ? FORGET_ISOLATED_NS : FORGET_NS);
    l->look_ns = 0;
}

/* Forgets models after FORGET_NS. True: some are left. */
static bool models_forget(struct frontend_link *l, int64_t now_ns) {
    bool left = false;
    for (uint32_t local = 0; local < l->config.models_max && l->uplink.up; local++) {
        struct frontend_model *m = &l->models[local];
        if (now_ns > m->forget_ns) {
            m->forget_ns = TIME_NEVER;
            size_t i = 0;
            uint32_t held = l->held;
            for (struct away *a; (a = held_next(l, &i, &held));) /* they wait for a backend that has their model */
                if (a->message.place.n == local)
                    refuse(l, a, REFUSAL_STRANDED);
            l->config.ops->gone(l->config.context, local);
        }
        left |= m->forget_ns != TIME_NEVER;
    }
    return left;
}

/* From now on no request is sent with this number of a model: the scheduler has given the model another number before,
 * or the model is gone. */
static void model_gone(struct frontend_link *l, struct remote_id remote) {
    free(waiting_take(l, remote));
    for (struct frontend_model *m = l->models; m < l->models + l->config.models_max; m++) {
        if (m->ends.n == remote.n)
            m->ends.n = NO_MODEL;
        if (m->remote.n == remote.n) {
            model_miss(l, m);
            AWAY_EACH (l, a) { /* requests that no backend has wait here, and not in the scheduler's queue */
                if (a->over || a->cancelled || a->sent != l->uplink.times || a->taker != NO_TAKER ||
                    a->remote.n != remote.n)
                    continue;
                l->lost[LOST_BACKEND]++;
                away_take_back(l, a);
            }
        }
    }
    model_left(l, remote);
}

/* As model_gone(), for a model that its last backend unloads. That backend still runs the requests in the scheduler,
 * and those that ports handed over before they knew the model's successor. */
static void model_ends(struct frontend_link *l, struct remote_id remote) {
    free(waiting_take(l, remote));
    while (take_requests(l)) {
    }
    for (struct frontend_model *m = l->models; m < l->models + l->config.models_max; m++)
        if (m->remote.n == remote.n) {
            model_miss(l, m);
            m->forget_ns = clock_now_ns();
        }
    model_left(l, remote);
}

static bool outlasts(const struct frontend_link *l, uint32_t local) {
    return l->config.ops->outlasts && l->config.ops->outlasts(l->config.context, local);
}

/* A model whose successor is not ready here goes on until that is. Else no client can ask for it any more, and it goes
 * on until its last requests have come in whole. The scheduler and the backend wait for the answer. */
static void model_is_to_end(struct frontend_link *l, struct remote_id remote) {
    for (uint32_t local = 0; local < l->config.models_max; local++) {
        if (l->models[local].remote.n != remote.n)
            continue;
        if (!outlasts(l, local))
            l->config.ops->gone(l->config.context, local);
        if (outlasts(l, local)) {
            l->models[local].ends = remote;
            l->look_ns = 0;
            return;
        }
    }
    model_ends(l, remote);
}

/* Ends models that went on until now. True: some are left. */
static bool models_end(struct frontend_link *l) {
    bool left = false;
    for (uint32_t local = 0; local < l->config.models_max && l->uplink.up; local++) {
        struct remote_id remote = l->models[local].ends;
        if (remote.n != NO_MODEL && outlasts(l, local)) {
            left = true;
        } else if (remote.n != NO_MODEL) {
            l->models[local].ends.n = NO_MODEL;
            model_ends(l, remote);
        }
    }
    return left;
}

/* Sets the advice, or ADVICE_NONE: the advice of a scheduler that is gone is not shown. */
static void advise(const struct frontend_link *l, int64_t wanted) {
    if (l->config.advice)
        advice_set(l->config.advice, wanted);
}

/* The scheduler has refused a request. If it was cancelled although nobody here asked for that, a connection broke, and
 * the scheduler has cancelled what had come by it. If the request has been sent since, and no backend has it, it is
 * taken back, and its port sends it again; else nothing is lost. */
static void refused(struct frontend_link *l, struct away *a, const struct refusal_message *message) {
    uint32_t reason = message->reason;
    if (!a->over && message->cause < CAUSE_COUNT) {
        a->cause = message->cause;
        a->figures = message->figures;
    }
    if (reason != REFUSAL_CANCELLED || a->cancelled) {
        refuse(l, a, reason);
    } else if (!a->over && a->sent == l->uplink.times && a->taker == NO_TAKER) {
        l->lost[LOST_UNSAID]++;
        away_take_back(l, a); /* another copy of it may be queued */
    }
}

static int from_scheduler(void *context, const struct frame *frame, const void *head, struct sy_error *err) {
    struct frontend_link *l = context;
    const struct refusal_message *refusals = head;
    const struct wire_lost *lost = head;
    enum lost_reason reason;
    struct away *a;

    switch (frame->kind) {
    case FRAME_SERVE:
        return model_serve(l, frame, head, err);
    case FRAME_MODEL_GONE:
        for (uint32_t i = 0; i < frame->count; i++)
            model_gone(l, ((const struct remote_id *)head)[i]);
        return 0;
    case FRAME_MODEL_ENDS:
        for (uint32_t i = 0; i < frame->count; i++)
            model_is_to_end(l, ((const struct remote_id *)head)[i]);
        return 0;
    case FRAME_TOLD:
        for (struct frontend_model *m = l->models; m < l->models + l->config.models_max; m++)
            if (m->served && !m->told) /* all that are served have been announced */
                model_miss(l, m);
        l->config.ops->told(l->config.context);
        sweep(l, clock_now_ns());
        return 0;
    case FRAME_ADVICE:
        for (uint32_t i = 0; i < frame->count; i++)
            advise(l, ((const uint32_t *)head)[i]);
        return 0;
    case FRAME_REFUSALS:
        for (uint32_t i = 0; i < frame->count; i++)
            if (refusals[i].reason < REFUSAL_COUNT && (a = away_find(l, refusals[i].handle)))
                refused(l, a, &refusals[i]);
        return 0;
    case FRAME_RESULTS:
        for (uint32_t i = 0; i < frame->count; i++)
            if ((a = away_find(l, lost_read(&lost[i], &reason)))) {
                l->lost[reason] += !a->over;
                if (!a->over && a->taker != NO_TAKER && l->backends[a->taker])
                    link_report_count(&l->report, l->backends[a->taker]->peer.tally, LINK_LOST, 1);
                away_over(l, a, &(struct wire_outcome){.status = REQUEST_LOST, .reason = (uint8_t)reason}, NULL, false);
            }
        return 0;
    default:
        return error_set(err, -EPROTO, "a scheduler does not send frames of kind %u to a frontend", frame->kind);
    }
}

static void uplink_up(void *context, const struct hello *welcome) {
    struct frontend_link *l = context;
    if (l->number && l->number != welcome->number)
        AWAY_EACH (l, a) /* what backends have under the old number cannot be reported to us any more */
            if (!a->over && a->taker != NO_TAKER)
                away_hold(l, a);
    l->number = welcome->number;
    l->promises = welcome->promises;
    for (uint32_t local = 0; local < l->config.models_max; local++) { /* the new scheduler has other numbers */
        l->models[local].remote.n = l->models[local].ends.n = NO_MODEL;
        l->models[local].told = false;
    }
    waiting_free(l);
}

static void uplink_down(void *context) {
    struct frontend_link *l = context;
    advise(l, ADVICE_NONE);
    AWAY_EACH (l, a)
        if (a->sent && !a->over && a->taker == NO_TAKER)
            away_hold(l, a);
}

static const struct uplink_ops uplink_ops = {uplink_up, from_scheduler, uplink_down};

static void bury(void *owner, struct peer *peer) {
    struct frontend_link *l = owner;
    if (uplink_buries(&l->uplink, peer))
        return;
    struct backend *b = container_of(peer, struct backend, peer);
    free(b->asked);
    free(b);
}

/* ---- turns ---- */

static void report(struct frontend_link *l, int64_t now_ns, int64_t *until_ns) {
    if (!link_report_begin(&l->report, now_ns, until_ns))
        return;
    uplink_report(&l->uplink, &l->report, now_ns);
    for (uint32_t i = 0; i < l->backend_room; i++) {
        const struct backend *b = l->backends[i];
        if (b && b->known && !b->peer.closed)
            link_report_add(&l->report, b->hello.name, ROLE_BACKEND, b->hello.number, &b->peer, &b->health, now_ns);
    }
    link_report_end(&l->report, &(struct link_totals){.role = ROLE_FRONTEND,
                                                      .ready = l->uplink.up,
                                                      .term = l->uplink.self.term,
                                                      .lost = l->lost,
                                                      .again = l->again});
}

static void publish(struct frontend_link *l) {
    struct wiring *w = l->wiring;
    for (uint32_t f = 0; f < w->frontends && l->results_rung > 0; f++) {
        bool any = ring_publish(wiring_results(w, 0, f));
        any |= ring_publish(wiring_refusals(w, 0, f));
        if (any)
            doorbell_ring_or_help(&w->frontend_bells[f], l->results_rung <= WIRING_HELP_MOST);
    }
    l->results_rung = 0;
}

static int64_t turn(void *owner, int64_t now_ns) {
    struct frontend_link *l = owner;
    int64_t until_ns = TIME_NEVER;

    uplink_look(&l->uplink, now_ns, &until_ns);
    if (l->fabric_due) {
        l->fabric_due = false;
        fabric_look(l->fabric);
    }
    frontend_backends_look(l, now_ns, &until_ns);
    linked_look(l, now_ns, &until_ns);
    bool more = take_requests(l);
    if (l->held > 0 || l->awaited > 0) {
        if (now_ns >= l->sweep_ns) {
            sweep(l, now_ns);
            if (l->awaited > 0)
                AWAY_EACH (l, a) /* a port leaves out REQUEST_READY if its ring is nearly full */
                    if (a->awaited && !away_unready(l, a))
                        frontend_inputs_ready(l, a);
            l->sweep_ns = now_ns + SWEEP_NS;
        }
        until_ns = time_earlier(l->sweep_ns, until_ns);
    }
    bool due = atomic_load_explicit(&l->look_due, memory_order_relaxed) || now_ns >= l->look_ns; /* set below */
    if (due && !l->loop.lent) { /* look() waits for frontends: one may be taking this turn */
        atomic_exchange_explicit(&l->look_due, false, memory_order_acquire); /* with frontend_link_look() */
        bool forgets = models_forget(l, now_ns), soon = l->config.ops->look(l->config.context), ends = models_end(l);
        waiting_look(l);
        l->look_ns = now_ns + (forgets || soon || ends ? LOOK_NS : REST_NS);
    }
    until_ns = time_earlier(l->look_ns, until_ns);
    cancelled_look(l, now_ns, &until_ns);
    report(l, now_ns, &until_ns);
    publish(l);
    return more ? 0 : until_ns;
}

static bool pending(void *owner) {
    struct frontend_link *l = owner;
    l->fabric_due |= l->fabric && !fabric_may_sleep(l->fabric);
    if (l->fabric_due || uplink_pending(&l->uplink))
        return true;
    for (uint32_t f = 0; f < l->wiring->frontends; f++)
        if (ring_pending(wiring_requests(l->wiring, f, 0)))
            return true;
    return false;
}

static const struct link_loop_ops loop_ops = {turn, pending, frontend_accepted, bury};

/* ---- start and end ---- */

static void link_free(struct frontend_link *l) {
    uplink_destroy(&l->uplink);
    frontend_fabric_close(l);
    for (size_t i = 0; l->away && i < away_count(l); i++)
        if (l->away[i].message.handle && l->away[i].over)
            output_block_put(l->away[i].block);
    waiting_free(l);
    free(l->backends);
    free(l->models);
    free(l->away);
    link_report_free(&l->report);
    free(l);
}

int frontend_link_start(struct frontend_link **link, const struct frontend_link_config *config, struct sy_error *err) {
    struct frontend_link *l = calloc(1, sizeof(*l));
    struct wiring *w = config->wiring;
    int rc = -ENOMEM;

    if (!l)
        return error_set(err, rc, "no memory for the link to the cluster");
    l->config = *config;
    l->wiring = w;
    l->config.cancelled_ns = config->cancelled_ns ? config->cancelled_ns : CANCELLED_NS;
    l->cut_ns = TIME_NEVER;
    l->unlinked_ns = clock_now_ns();
    link_report_init(&l->report);
    l->away = calloc((size_t)w->frontends * w->port_requests, sizeof(*l->away)); /* pages are used only as slots are */
    l->models = calloc(config->models_max, sizeof(*l->models));
    if (!l->away || !l->models) {
        error_set(err, rc, "no memory for the link to the cluster");
        goto err_free;
    }
    if ((rc = siphash_key_draw(&l->key)) < 0) {
        error_set(err, rc, "no random numbers for the link to the cluster: %s", strerror(-rc));
        goto err_free;
    }
    memcpy(l->config.self.secret, l->key.words, sizeof(l->config.self.secret));
    for (uint32_t i = 0; i < config->models_max; i++)
        l->models[i] = (struct frontend_model){.remote = {NO_MODEL}, .ends = {NO_MODEL}, .forget_ns = TIME_NEVER};
    hello_formats(&l->config.self);
    l->config.self.role = ROLE_FRONTEND;
    l->config.self.lanes = w->frontends;
    l->config.self.slots = w->port_requests;
    transport_offer(&l->config.self, config->fabric);
    rc = config->host
             ? link_loop_init_guest(&l->loop, &loop_ops, l, config->host, err)
             : link_loop_init(&l->loop, &loop_ops, l, wiring_link_bell(w), config->listen_fd, config->tls, err);
    if (rc < 0)
        goto err_free;
    char name[HELLO_LOCAL_MAX];
    hello_local_name(config->self.incarnation, name);
    if (link_loop_listen_local(&l->loop, name) < 0)
        log_warn("backends of this host have to come by TCP", "reason=\"no Unix socket\"");
    if (config->fabric && (rc = frontend_fabric_open(l, err)) < 0)
        goto err_free;
    link_loop_lend(&l->loop);
    const struct uplink_config uplink = {config->schedulers, config->scheduler_count, config->registry, &l->config.self,
                                         config->beat_ns};
    if ((rc = uplink_init(&l->uplink, &l->loop, &uplink, &uplink_ops, l, err)) < 0 ||
        (rc = link_loop_start(&l->loop, "link", err)) < 0)
        goto err_free;
    *link = l;
    return 0;

err_free:
    link_loop_stop(&l->loop);
    link_free(l);
    return rc;
}

void frontend_link_stop(struct frontend_link *l) {
    if (!l)
        return;
    uplink_leave(&l->uplink);
    link_loop_stop(&l->loop);
    link_free(l);
}

void frontend_link_look(struct frontend_link *l) {
    atomic_store_explicit(&l->look_due, true, memory_order_release); /* with turn() */
    doorbell_ring(l->loop.bell);
}

struct link_report *frontend_link_report(struct frontend_link *l) {
    return &l->report;
}
