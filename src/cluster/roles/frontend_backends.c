/* frontend_backends.c - the backends that pull from a frontend: cards and inputs to them, results from them. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/peer/pass.h"
#include "cluster/roles/frontend_link_state.h"
#include "cluster/roles/transport.h"
#include "core/data/running.h"
#include "core/data/strings.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/assert.h"
#include "core/util/container.h"
#include "front/net/auth.h"

#define GREET_NS      (5 * NS_PER_S) /* time from a connection to the introduction */
#define STRANGERS_MAX 64             /* most connections without an introduction */
/* Inputs are sent together up to FLUSH_BYTES; then it is checked whether the socket takes more. Large ones are sent one
 * by one: the first arrive sooner, and the number of system calls does not matter. With inputs of 10 KB sent by 64 KiB
 * a request by TCP took 7.1 us of CPU, both ends together, by 256 KiB 5.1 us. */
#define FLUSH_BYTES ((uint64_t)256 * 1024)
#define FLUSH_LARGE ((uint64_t)64 * 1024)
#define GUESSED     "it names requests that it was not told of"
#define NO_OUTPUTS  "the backend sent no outputs that the model gives"

/* The outputs of one request, received over a link. */
struct received_block {
    size_t bytes; /* size of this struct with the data */
    char *data;   /* data of the outputs, behind `block` */
    struct output_block block;
};

/* Requests that a backend may name although they are not here any more (GUESSES_FIRST at first, one more for each
 * request that it rightly names, GUESSES_MOST at most): a frontend may have taken many back at once, when another
 * backend was lost. A wrong guess is unlikely to hit, since numbers of submissions are drawn out of 2^24. */
#define GUESSES_FIRST 1024
#define GUESSES_MOST  65536

/* ---- pulls of backends ---- */

struct away *away_named(const struct frontend_link *l, struct backend *b, uint64_t handle) {
    struct away *a = away_find(l, handle);
    if (a && a->shown == b->place && (a->taker == NO_TAKER || a->taker == b->place)) {
        b->guesses += b->guesses < GUESSES_MOST;
        return a;
    }
    b->guesses -= b->guesses > 0;
    return NULL;
}

/* A piece of a request's inputs was sent, or never will be. */
static void piece_sent(void *context, uint64_t tag) {
    struct frontend_link *l = context;
    away_unread(l, &l->away[tag]);
}

uint64_t away_bytes(const struct frontend_link *l, const struct away *a) {
    const struct request_card *card = away_card(l, a);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < card->input_count; i++)
        bytes += card_input_at(card, i)->bytes;
    return bytes;
}

bool away_card_send(const struct frontend_link *l, struct backend *b, enum frame_kind kind, const struct away *a,
                    uint64_t body_bytes) {
    const struct request_card *card = away_card(l, a);
    CHECK_EQ(card->handle, a->message.handle);
    size_t head_bytes = sizeof(struct wire_card) + card->input_count * sizeof(struct card_input);
    struct wire_card *out = peer_frame(&b->peer, kind, 1, head_bytes, body_bytes);
    if (!out)
        return false;
    *out = wire_card_of(card, away_handle(l, card->handle));
    struct card_input *inputs = (struct card_input *)(out + 1);
    uint64_t at = 0;
    for (uint32_t i = 0; i < card->input_count; i++) {
        inputs[i] = *card_input_at(card, i);
        if (kind != FRAME_LIES)
            inputs[i].offset = at;
        at += inputs[i].bytes;
    }
    return true;
}

/* Returns the bytes of its inputs. */
static uint64_t send_card(struct frontend_link *l, struct backend *b, struct away *a) {
    const struct request_card *card = away_card(l, a);
    uint64_t bytes = away_bytes(l, a);
    if (!away_card_send(l, b, FRAME_CARD, a, bytes))
        return 0;
    a->taker = b->place;
    link_report_count(&l->report, b->peer.tally, LINK_PULLED, 1);
    for (uint32_t i = 0; i < card->input_count; i++) {
        const struct card_input *input = card_input_at(card, i);
        if (input->bytes == 0)
            continue;
        a->readers++;
        peer_body(&b->peer, region_at(l->wiring->regions, input), input->bytes, piece_sent, l, (uint64_t)(a - l->away));
    }
    return bytes;
}

void frontend_inputs_ready(struct frontend_link *l, struct away *a) {
    if (!a->awaited)
        return;
    uint64_t handle = away_handle(l, a->message.handle);
    peer_add(&l->backends[a->taker]->peer, FRAME_READY, &handle, sizeof(handle));
    away_await_no_more(l, a);
}

/* Whether a request was held (away_hold()), and no backend has been shown it since: who pulls it now does so for a plan
 * of an earlier scheduler, and gives that up without an answer. It might take the answer for that to its next pull, for
 * a plan of the present scheduler, and leave out the request after we have sent it. */
static bool awaits_scheduler(const struct frontend_link *l, uint64_t handle) {
    const struct away *a = away_find(l, handle);
    return a && a->again && !a->over && a->shown == NO_TAKER && a->taker == NO_TAKER;
}

/* Sends the card and inputs, or that there are none, or not yet, or nothing. Returns the bytes of inputs. */
static uint64_t card_or_none(struct frontend_link *l, struct backend *b, uint64_t handle) {
    struct away *a = away_named(l, b, handle);
    if (a && !a->over && !away_unready(l, a))
        return send_card(l, b, a);
    if (a && !a->over) {
        /* the backend can begin the batch without the request, and pulls the inputs when told that they are there */
        if (away_card_send(l, b, FRAME_UNREADY, a, 0))
            away_await(l, a, b->place);
    } else if (!awaits_scheduler(l, handle)) {
        peer_send(&b->peer, FRAME_NO_CARD, 1, &handle, sizeof(handle));
    }
    return 0;
}

/* Sends the inputs that were asked for, as long as the socket takes them. So a pull that is given up before its turn
 * costs the link nothing, and its request need not wait until its inputs are sent. */
static void pulls_go_on(struct frontend_link *l, struct backend *b) {
    uint64_t bytes = 0, last;
    while (b->asked_count > 0 && b->guesses > 0 && !b->peer.closed && !b->peer.writable_wanted) {
        b->asked_count--;
        bytes += last = card_or_none(l, b, b->asked[b->asked_first++ & (b->asked_room - 1)]);
        if (b->asked_count > 0 && (bytes >= FLUSH_BYTES || last >= FLUSH_LARGE)) {
            peer_flush(&b->peer);
            bytes = 0;
        }
    }
}

/* Adds a request to those asked for. False: no memory. */
static bool pull_add(struct backend *b, uint64_t handle) {
    if (b->asked_count == b->asked_room) {
        uint32_t room = b->asked_room ? 2 * b->asked_room : 64;
        uint64_t *grown = malloc(room * sizeof(*grown));
        if (!grown)
            return false;
        for (uint32_t i = 0; i < b->asked_count; i++)
            grown[i] = b->asked[(b->asked_first + i) & (b->asked_room - 1)];
        free(b->asked);
        b->asked = grown;
        b->asked_room = room;
        b->asked_first = 0;
    }
    b->asked[(b->asked_first + b->asked_count++) & (b->asked_room - 1)] = handle;
    return true;
}

void away_pulled(struct frontend_link *l, struct backend *b, uint64_t handle) {
    if (!pull_add(b, handle))
        card_or_none(l, b, handle);
    pulls_go_on(l, b);
}

/* A backend shows passes for requests: from now on it may name these, until another backend shows one, or takes them.
 */
static int passes_shown(struct frontend_link *l, const struct backend *b, const struct frame *frame, const char *head,
                        struct sy_error *err) {
    for (uint32_t at = 0; at < frame->head_bytes;) {
        const struct wire_pass *shown = (const struct wire_pass *)(head + at);
        at += (uint32_t)(sizeof(*shown) + shown->count * sizeof(shown->handles[0]));
        if (!pass_equal(pass_of_requests(&l->key, b->hello.incarnation, shown->handles, shown->count),
                        (struct pass){{shown->pass[0], shown->pass[1]}}))
            return error_set(err, -EACCES, "it shows a pass that is not of a scheduler of this frontend");
        for (uint32_t i = 0; i < shown->count; i++) {
            struct away *a = away_find(l, shown->handles[i]);
            if (a && (a->taker == NO_TAKER || a->taker == b->place)) /* or known to run it already (untaken_again()) */
                a->shown = b->place;
        }
    }
    return 0;
}

/* A backend of this host has read requests in our memory. */
static void taken(struct frontend_link *l, struct backend *b, const uint64_t *handles, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct away *a = away_named(l, b, handles[i]);
        if (a && !a->over) {
            a->taker = b->place;
            link_report_count(&l->report, b->peer.tally, LINK_PULLED, 1);
        }
    }
}

/* ---- results ---- */

/* Memory of all received blocks, which may outlive the link. */
static _Atomic uint64_t received_bytes;

static void received_release(struct output_block *block) {
    struct received_block *r = container_of(block, struct received_block, block);
    atomic_fetch_sub_explicit(&received_bytes, r->bytes, memory_order_relaxed); /* a number by itself */
    free(r);
}

/* Allocates room for a result's outputs. NULL without memory, or beyond the limit. */
static struct received_block *received_new(const struct frontend_link *l, const struct frame *frame,
                                           const struct wire_result *result) {
    const struct wire_tensor *tensors = (const struct wire_tensor *)(result + 1);
    size_t bytes = (size_t)frame->body_bytes + (size_t)(result->tensor_count + 1) * CACHE_LINE;
    size_t head = offsetof(struct received_block, block.outputs) + result->tensor_count * sizeof(struct tensor_view);
    head = (head + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    size_t all = (head + bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    struct received_block *r;
    /* the link thread alone adds to it */
    uint64_t taken = atomic_load_explicit(&received_bytes, memory_order_relaxed), most = l->config.outputs_bytes_max;
    if (all > most || taken > most - all || !(r = aligned_alloc(CACHE_LINE, all)))
        return NULL;
    atomic_fetch_add_explicit(&received_bytes, all, memory_order_relaxed);
    r->bytes = all;
    r->data = (char *)r + head;
    r->block.failure = NULL;
    atomic_init(&r->block.references, 1);
    r->block.release = received_release;
    r->block.output_count = result->tensor_count;
    if (!result->tensor_count) {
        memset(r->data, 0, bytes);
        r->block.failure = r->data;
    }
    char *at = r->data;
    for (uint32_t i = 0; i < result->tensor_count; i++) {
        struct tensor_view *out = &r->block.outputs[i];
        *out = (struct tensor_view){.data = at, .bytes = tensors[i].bytes, .dim_count = tensors[i].dim_count};
        memcpy(out->dims, tensors[i].dims, sizeof(out->dims));
        at += (tensors[i].bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    }
    return r;
}

/* A result without its outputs, for which there was no memory. */
static struct output_block *outputs_missed(const struct frontend_link *l, uint64_t bytes) {
    struct sy_error why;
    error_set(&why, 0, "no memory now for its outputs of %llu bytes: answers may take %llu MiB (--outputs-max-mib)",
              (unsigned long long)bytes, (unsigned long long)(l->config.outputs_bytes_max >> 20));
    return output_block_failed(why.text);
}

/* Whether outputs fit the model's signature; the code that writes answers does not check. A request that ran alone may
 * have other rows than items (back/executor/executor_run.c). */
static bool outputs_fit(const struct frontend_link *l, const struct away *a, const struct output_block *block) {
    const struct signature *signature = &l->config.models[a->message.place.n].signature;
    if (block->output_count != signature->output_count)
        return false;
    for (uint32_t i = 0; i < block->output_count; i++) {
        const struct tensor_view *out = &block->outputs[i];
        int64_t elements = dims_product(out->dims, 0, out->dim_count);
        enum datatype type = signature->outputs[i].type;
        if ((signature->batched && out->dim_count == 0) || !datatype_fits(type, (uint64_t)elements, out->bytes) ||
            (type == DATATYPE_BYTES && strings_check(out->data, out->bytes, elements, NULL) < 0))
            return false;
    }
    return true;
}

/* Whether a request whose run has failed is tried at another backend. With `serve --isolate` it is not: there the same
 * files run on the same machine. */
static bool is_tried_elsewhere(struct frontend_link *l, const struct backend *b, const struct away *a) {
    struct frontend_model *m = &l->models[a->message.place.n];
    int64_t now_ns = clock_now_ns();
    bool other = false;
    if (a->over || a->cancelled || a->message.failed_at || l->config.running_count > 0 || l->backend_count < 2 ||
        m->retries < RETRY_COST || now_ns > a->message.deadline_ns)
        return false;
    for (uint32_t i = 0; i < ARRAY_COUNT(m->good); i++)
        other |= m->good[i].number && m->good[i].number != b->hello.number && now_ns - m->good[i].ns < GOOD_NS;
    if (!other && m->blind == 0)
        return false;
    m->blind -= !other;
    m->retries -= RETRY_COST;
    return true;
}

/* A request has run well. If its run has failed at another backend before, that one hears of it. */
static void ran_well(struct frontend_link *l, const struct backend *b, const struct away *a) {
    struct frontend_model *m = &l->models[a->message.place.n];
    uint32_t failed_at = a->message.failed_at;
    m->retries += m->retries < RETRIES_MOST;
    if (m->good[0].number != b->hello.number) {
        m->good[1] = m->good[0];
        m->good[0].number = b->hello.number;
    }
    m->good[0].ns = clock_now_ns();
    for (uint32_t i = 0; i < l->backend_room && failed_at && failed_at != b->hello.number; i++) {
        struct backend *other = l->backends[i];
        if (!other || !other->known || other->hello.number != failed_at || other->peer.closed)
            continue;
        uint64_t key = served_model_key(&l->config.models[a->message.place.n]);
        peer_add(&other->peer, FRAME_FAULTS, &key, sizeof(key));
    }
}

/* The number here of the model that a backend names by its key; MODEL_NONE: there is none. */
static uint32_t model_of_key(const struct frontend_link *l, uint32_t key) {
    uint32_t after = key == MODEL_NONE || key == 0 ? 0 : l->by_key[key % KEYS]; /* key 0: it ran nowhere */
    while (after && l->models[after - 1].key != key)
        after = l->models[after - 1].key_next;
    return after ? after - 1 : MODEL_NONE;
}

/* A run begins after its request's arrival and ends before now, whatever another clock, or a liar, says. */
static void run_times_bound(struct wire_outcome *result, int64_t arrival_ns) {
    int64_t now_ns = clock_now_ns();
    result->run_end_ns = time_earlier(result->run_end_ns, now_ns);
    result->run_end_ns = time_later(result->run_end_ns, arrival_ns);
    result->run_start_ns = time_earlier(result->run_start_ns, result->run_end_ns);
    result->run_start_ns = time_later(result->run_start_ns, arrival_ns);
}

static void result_over(struct frontend_link *l, struct backend *b) {
    struct away *a = away_named(l, b, b->result.outcome.handle);
    struct wire_outcome result = b->result.outcome;
    struct output_block *block = b->block ? &b->block->block : NULL;

    b->block = NULL;
    if (!a) {
        output_block_put(block);
        return;
    }
    if (result.status == REQUEST_OK || result.status == REQUEST_FAILED) { /* it ran */
        result.run_start_ns = health_local(&b->health, result.run_start_ns);
        result.run_end_ns = health_local(&b->health, result.run_end_ns);
        run_times_bound(&result, a->message.arrival_ns);
    }
    result.past.before = model_of_key(l, result.past.before);
    if (result.status == REQUEST_OK && (!block || !outputs_fit(l, a, block))) {
        output_block_put(block);
        block = b->missed_bytes ? outputs_missed(l, b->missed_bytes) : output_block_failed(NO_OUTPUTS);
        result = (struct wire_outcome){.status = REQUEST_FAILED, .past = {.before = MODEL_NONE}};
    }
    if (block && result.status != REQUEST_OK && result.status != REQUEST_FAILED) { /* such a result has no outputs */
        output_block_put(block);
        block = NULL;
    }
    if (result.status == REQUEST_FAILED && block && is_tried_elsewhere(l, b, a)) {
        a->failed_at = b->hello.number;
        l->lost[LOST_FAILED]++;
    }
    if (result.status == REQUEST_OK && !a->over)
        ran_well(l, b, a);
    if (result.status == REQUEST_LOST && !a->over && !result.unready) {
        l->lost[result.reason && result.reason < LOST_REASONS ? result.reason : LOST_ACCELERATOR]++;
        link_report_count(&l->report, b->peer.tally, LINK_LOST, 1);
    }
    if (result.status == REQUEST_OK && result.run_end_ns > a->message.deadline_ns)
        link_report_count(&l->report, b->peer.tally, LINK_LATE, 1);
    bool wanted_elsewhere = a->sent && l->uplink.up && a->taker == NO_TAKER && !a->over;
    if (wanted_elsewhere) /* the request was sent again, and its first run has answered */
        away_tell(l, a, REQUEST_CANCELLED);
    away_over(l, a, &result, block, false);
}

/* ---- backends ---- */

/* Whether a backend of this host may map the memory that cards and inputs lie in. */
static bool regions_visible(const struct wiring *w) {
    bool visible = w->frontends + wiring_regions(w) <= PEER_FDS_MAX;
    for (uint32_t f = 0; f < w->frontends; f++)
        visible &= w->card_fds[f] >= 0;
    for (uint32_t r = 0; r < wiring_regions(w); r++)
        visible &= w->regions[r].fd >= 0;
    return visible;
}

static int backend_hello(struct frontend_link *l, struct backend *b, const struct frame *frame, const char *head,
                         struct sy_error *err) {
    int rc = hello_read(head, frame->head_bytes, &b->hello, err);
    if (rc < 0)
        return rc;
    enum transport_kind kind = TRANSPORT_TCP;
    struct sy_error unlike;
    const char *why = NULL;
    if (hello_agree(&l->uplink.self, &b->hello, &b->peer.format, &unlike) < 0)
        why = unlike.text;
    else if (b->hello.role != ROLE_BACKEND)
        why = "only backends connect here";
    else if (b->hello.number == 0) /* else the scheduler, which tells backends of frontends, has given it one */
        why = "this is a frontend; a backend joins the scheduler";
    else if (l->config.auth && !auth_allows(l->config.auth, b->hello.token, strlen(b->hello.token)))
        why = "its token does not let it in";
    else if (!pass_equal(pass_of_backend(&l->key, b->hello.incarnation),
                         (struct pass){{b->hello.secret[0], b->hello.secret[1]}}))
        why = "it has no pass: no scheduler of this frontend has told it of the frontend";
    else if (transport_choose(&l->uplink.self, &b->hello, b->local && regions_visible(l->wiring), &kind, &unlike) < 0)
        why = unlike.text;
    if (why) {
        link_loop_stranger(&l->loop, b->peer.name, why);
        b->refused = true;
        peer_send(&b->peer, FRAME_REFUSED, 1, why, strlen(why));
        peer_flush(&b->peer);
        return error_set(err, -EACCES, "%s", why);
    }
    b->known = true;
    b->peer.tally = link_tally_of(&l->report.tallies, ROLE_BACKEND, b->hello.name);
    l->backends_known++;
    l->sweep_ns = 0; /* requests may wait for the first backend */
    b->guesses = GUESSES_FIRST;
    peer_welcome(&b->peer);
    snprintf(b->peer.name, sizeof(b->peer.name), "%s", b->hello.name);
    health_init(&b->health, l->uplink.beat_ns, clock_now_ns());
    struct hello answer = l->uplink.self;
    *answer.token = '\0';
    answer.secret[0] = answer.secret[1] = 0;
    hello_send(&b->peer, FRAME_WELCOME, &answer);
    b->shm = kind == TRANSPORT_SHM;
    if (b->shm) {
        const struct wiring *w = l->wiring;
        struct wire_region regions[PEER_FDS_MAX];
        int fds[PEER_FDS_MAX];
        uint32_t count = 0;

        for (uint32_t f = 0; f < w->frontends; f++) {
            fds[count] = w->card_fds[f];
            regions[count++] = (struct wire_region){.bytes = cards_bytes(w->port_requests), .number = f, .cards = 1};
        }
        for (uint32_t r = 0; r < wiring_regions(w); r++) {
            fds[count] = w->regions[r].fd;
            regions[count++] = (struct wire_region){.bytes = w->regions[r].bytes, .number = r};
        }
        peer_send_fds(&b->peer, FRAME_REGIONS, count, regions, count * sizeof(*regions), fds, count);
    } else if (kind == TRANSPORT_FABRIC)
        fabric_offer(l, b);
    log_info("backend connected", "backend=%s transport=%s", b->peer.name, transport_name(kind));
    return 0;
}

static int backend_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct backend *b = container_of(peer, struct backend, peer);
    struct frontend_link *l = peer->owner;

    if (!b->known)
        return frame->kind == FRAME_HELLO ? backend_hello(l, b, frame, head, err)
                                          : error_set(err, -EPROTO, "it did not introduce itself");
    if (health_frame(&b->health, peer, frame, head))
        return 0;
    if (b->guesses == 0)
        return error_set(err, -EPROTO, GUESSED);
    switch (frame->kind) {
    case FRAME_BYE: /* all that it had to say has come */
        b->left = true;
        return 0;
    case FRAME_PASS:
        return passes_shown(l, b, frame, head, err);
    case FRAME_PULL: {
        const uint64_t *handles = head;
        for (uint32_t i = 0; i < frame->count; i++)
            if (!pull_add(b, handles[i]))
                card_or_none(l, b, handles[i]);
        pulls_go_on(l, b);
        return 0;
    }
    case FRAME_TAKEN:
        taken(l, b, head, frame->count);
        return 0;
    case FRAME_WHERE:
        fabric_where(l, b, head, frame->count);
        return 0;
    case FRAME_READ:
        fabric_was_read(l, b, head, frame->count);
        return 0;
    case FRAME_RESULT:
        b->result = *(const struct wire_result *)head;
        b->block = frame->body_bytes || b->result.tensor_count ? received_new(l, frame, head) : NULL;
        b->missed_bytes = b->block ? 0 : frame->body_bytes;
        if (frame->body_bytes == 0)
            result_over(l, b);
        return 0;
    default:
        return error_set(err, -EPROTO, "a backend does not send frames of kind %u to a frontend", frame->kind);
    }
}

static uint32_t backend_body(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]) {
    struct backend *b = container_of(peer, struct backend, peer);
    uint32_t count = 0;
    if (!b->block)
        return 0;
    if (!b->block->block.output_count) {
        pieces[0] = (struct iovec){b->block->data, (size_t)frame->body_bytes};
        return 1;
    }
    for (uint32_t i = 0; i < b->block->block.output_count; i++)
        pieces[count++] = (struct iovec){b->block->block.outputs[i].data, b->block->block.outputs[i].bytes};
    return count;
}

static void backend_body_over(struct peer *peer) {
    result_over(peer->owner, container_of(peer, struct backend, peer));
}

/* A backend is lost: sends the requests that it has taken again. No other process may know that their answers did not
 * come, for their batches may have ended well. If the scheduler knows them, they are given back to their port, which
 * sends them with new handles, so that messages about the old handles are ignored; else they are sent to the scheduler
 * unchanged. So is a request that nobody has, later than any scheduler lets one wait: the backend may have told the
 * scheduler that the request's batch has ended, and us nothing. `ended`: it seems to have ended by itself. */
static void taken_again(struct frontend_link *l, uint32_t place, uint32_t tally, bool ended) {
    const struct wire_outcome lost = {.status = REQUEST_LOST, .reason = ended ? LOST_BACKEND : LOST_UNSAID};
    int64_t now_ns = clock_now_ns();
    AWAY_EACH (l, a) {
        a->shown = a->shown == place ? NO_TAKER : a->shown;
        bool late = a->taker == NO_TAKER && now_ns - BEST_EFFORT_WAIT_NS > a->message.deadline_ns;
        bool at_scheduler = a->sent == l->uplink.times && l->uplink.up;
        if (a->over || (a->taker != place && !(late && at_scheduler)))
            continue;
        if (late) {
            away_take_back(l, a);
            continue;
        }
        link_report_count(&l->report, tally, LINK_LOST, 1);
        if (at_scheduler) {
            l->lost[LOST_BACKEND]++;
            away_over(l, a, &lost, NULL, false);
            continue;
        }
        if (away_hold(l, a) && away_can_send(l, a))
            away_send(l, a);
    }
}

/* A backend that reads in our memory is lost. It may have read requests and have told the scheduler that their batches
 * have ended, while what it sent us about them still waited behind a large result: then nobody else reports them. So
 * all requests that no backend is known to have read are given back to their port, which sends them with new handles.
 * For those that wait in the scheduler this costs two messages; another backend that is about to read one runs its
 * batch without it. Without a scheduler they wait here already. What a living backend of `serve --isolate` runs just
 * now it has read, though it says so only with the result (backend_link.c): if it ends at that, too, its request has to
 * be known. */
static void untaken_again(struct frontend_link *l) {
    for (uint32_t n = 0; n < l->backend_room && l->config.running_count > 0; n++) {
        const struct backend *b = l->backends[n];
        const struct running *running = b && b->known ? backend_running(l, b) : NULL;
        uint32_t count =
            running ? atomic_load_explicit(&running->count, memory_order_acquire) : 0; /* with running_begin() */
        for (uint32_t k = 0; k < count && k < RUNNING_MAX; k++) {
            struct away *a = away_find(l, running->handles[k]);
            if (a && a->taker == NO_TAKER)
                a->taker = n;
        }
    }
    AWAY_EACH (l, a)
        if (l->uplink.up && !a->over && a->taker == NO_TAKER && a->sent == l->uplink.times)
            away_take_back(l, a);
}

static void backend_drop(struct frontend_link *l, struct backend *b, const char *reason) {
    bool ended = b->peer.closed; /* by its side */
    if (b->known) {
        /* marks the requests of the backend's run, if it was in one, and those that were there beside it */
        const struct running *running = backend_running(l, b);
        uint32_t count =
            running ? atomic_load_explicit(&running->count, memory_order_acquire) : 0; /* with running_begin() */
        AWAY_EACH (l, a)
            a->beside |= count > 0 && a->taker == b->place;
        for (uint32_t k = 0; k < count && k < RUNNING_MAX; k++) {
            struct away *a = away_find(l, running->handles[k]);
            if (a)
                a->ended_run = true;
        }
    }
    if (b->known)
        log_info("backend disconnected", "peer=%s reason=\"%s\"", b->peer.name, reason);
    else if (!b->refused)
        link_loop_stranger(&l->loop, b->peer.name, reason);
    output_block_put(b->block ? &b->block->block : NULL);
    b->block = NULL;
    b->asked_count = 0;
    link_loop_drop(&l->loop, &b->peer);
    fabric_drop(l, b);
    l->backends[b->place] = NULL;
    l->backend_count--;
    l->backends_known -= b->known;
    taken_again(l, b->place, b->peer.tally, ended);
    if (b->known && b->shm && !b->left)
        untaken_again(l);
}

static void backend_closed(struct peer *peer, const char *reason) {
    backend_drop(peer->owner, container_of(peer, struct backend, peer), reason);
}

static const struct peer_events backend_events = {backend_frame, backend_body, backend_body_over, backend_closed};

/* A new stranger has connected. If there are too many, closes the oldest that has sent nothing (a backend sends its
 * introduction immediately), or else the oldest, which has had more time than a backend needs. */
static void stranger_evict(struct frontend_link *l) {
    struct backend *oldest = NULL, *silent = NULL;
    uint32_t strangers = 0;
    for (uint32_t k = 0; k < l->backend_room; k++) {
        struct backend *b = l->backends[k];
        if (!b || b->known)
            continue;
        strangers++;
        if (!oldest || b->since_ns < oldest->since_ns)
            oldest = b;
        if (peer_is_silent(&b->peer) && (!silent || b->since_ns < silent->since_ns))
            silent = b;
    }
    if (strangers >= STRANGERS_MAX)
        backend_drop(l, silent ? silent : oldest, "others have come meanwhile");
}

static int place_find(struct frontend_link *l, uint32_t *place) {
    uint32_t i = 0;
    stranger_evict(l);
    while (i < l->backend_room && l->backends[i])
        i++;
    if (i == l->backend_room) {
        uint32_t room = l->backend_room ? 2 * l->backend_room : 16;
        struct backend **grown = realloc(l->backends, room * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        memset(grown + l->backend_room, 0, (room - l->backend_room) * sizeof(*grown));
        l->backends = grown;
        l->backend_room = room;
    }
    *place = i;
    return 0;
}

void frontend_accepted(void *owner, int fd, const char *from) {
    struct frontend_link *l = owner;
    struct backend *b = calloc(1, sizeof(*b));
    uint32_t place;

    if (!b || place_find(l, &place) < 0) {
        close(fd);
        free(b);
        return;
    }
    b->place = place;
    b->local = strcmp(from, "local") == 0;
    b->since_ns = clock_now_ns();
    if (link_loop_add(&l->loop, &b->peer, fd, false, &backend_events, l) < 0) {
        free(b);
        return;
    }
    snprintf(b->peer.name, sizeof(b->peer.name), "%s", from);
    l->backends[place] = b;
    l->backend_count++;
}

void frontend_backends_look(struct frontend_link *l, int64_t now_ns, int64_t *until_ns) {
    for (uint32_t i = 0; i < l->backend_room; i++) {
        struct backend *b = l->backends[i];
        if (!b)
            continue;
        int64_t over_ns = b->since_ns + GREET_NS;
        pulls_go_on(l, b);
        if (l->backends[i] != b)
            continue; /* the connection broke meanwhile */
        if (!b->known && now_ns > over_ns)
            backend_drop(l, b, "it did not introduce itself");
        else if (!b->known)
            *until_ns = time_earlier(over_ns, *until_ns);
        else if (b->guesses == 0)
            backend_drop(l, b, GUESSED);
        else if (b->fabric_down)
            backend_drop(l, b, "its connection by libfabric is lost");
        else if (!health_look(&b->health, &b->peer, now_ns, until_ns))
            backend_drop(l, b, "it has been silent for three heartbeats");
    }
}
