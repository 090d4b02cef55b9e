/* backend_link.c - a backend's link: reports to the scheduler, results, turns, start and end. Plans are in
 * backend_plans.c, frontends in backend_frontends.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cluster/roles/backend_link_state.h"
#include "core/data/output_block.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/assert.h"
#include "front/bulk/slab.h"

#define TAKE_MOST   256             /* most messages of one ring in a turn */
#define END_LOOK_NS (1 * NS_PER_MS) /* time between looks while the link ends */

/* ---- what the scheduler is told ---- */

static void tell_freed(struct backend_link *l, const struct freed_message *freed) {
    if (l->introduced)
        peer_add(&l->uplink.peer, FRAME_FREED, freed, sizeof(*freed));
}

static void tell_ran(struct backend_link *l, const struct ran_message *ran) {
    if (l->introduced)
        peer_add(&l->uplink.peer, FRAME_RAN, ran, sizeof(*ran));
}

/* Tells both the frontend and the scheduler. A frontend that has sent the request's card waits for us, whatever happens
 * to the scheduler; one that has not may have closed the connection, and hears of it from the scheduler. The second
 * message to arrive has no effect. */
void backend_tell_undelivered(struct backend_link *l, uint64_t handle, enum lost_reason reason) {
    struct frontend_peer *f = backend_frontend_of(l, handle);
    l->lost[reason]++;
    if (f)
        link_report_count(&l->report, f->peer.tally, LINK_LOST, 1);
    struct wire_result *out =
        f && f->known && !f->peer.closed ? peer_frame(&f->peer, FRAME_RESULT, 1, sizeof(*out), 0) : NULL;
    if (out)
        *out = (struct wire_result){.outcome = {.handle = handle, .status = REQUEST_LOST, .reason = (uint8_t)reason}};
    if (l->uplink.up)
        lost_tell(&l->uplink.peer, FRAME_UNDELIVERED, handle, reason);
}

/* Tells the scheduler that an accelerator takes batches, once it has none of a previous scheduler. */
void backend_tell_joins(struct backend_link *l, uint32_t accelerator) {
    struct accelerator_queue *q = &l->queues[accelerator];
    bool quiesced = atomic_load_explicit(&l->quiesced, memory_order_relaxed); /* a lone flag */
    if (!l->introduced || q->told || q->leaves || !list_empty(&q->plans) || q->out || quiesced || l->cordoned ||
        !backend_memory_join(l, accelerator))
        return;
    q->told = q->ours = true;
    q->awaited = false;
    tell_freed(l, &(struct freed_message){.news = NEWS_JOINS, .accelerator = accelerator});
}

static void tell_leaves(struct backend_link *l, uint32_t accelerator) {
    struct accelerator_queue *q = &l->queues[accelerator];
    if (!q->told)
        return;
    tell_freed(l, &(struct freed_message){.news = NEWS_LEAVES, .accelerator = accelerator});
    q->told = false;
    q->awaited = true;
}

/* The end of a batch that never reached its executor. */
void backend_tell_not_run(struct backend_link *l, const struct batch_plan *plan, int64_t now_ns) {
    if (!l->queues[plan->accelerator].ours)
        return; /* the scheduler that sent it has forgotten it */
    tell_freed(l, &(struct freed_message){.news = NEWS_ENDED,
                                          .unlike = true,
                                          .accelerator = plan->accelerator,
                                          .variant = plan->variant,
                                          .ended_ns = now_ns});
    tell_ran(l, &(struct ran_message){.news = NEWS_ENDED,
                                      .variant = plan->variant,
                                      .generation = plan->generation,
                                      .type = 0,
                                      .items = 1,
                                      .accelerator = plan->accelerator,
                                      .tag = plan->tag,
                                      .dispatch_ns = -1});
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
        .unready = result->unready,
        .past = {.ready_us = result->past.ready_us,
                 .sealed_us = result->past.sealed_us,
                 .predicted_us = result->past.predicted_us,
                 .accelerator = result->past.accelerator,
                 .before = result->past.before},
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
        if (!signature->batched || result->first_item == ITEMS_WHOLE)
            parts[i] = block->outputs[i];
        else if (tensor_rows(&block->outputs[i], result->first_item, card->items, &parts[i]) < 0)
            parts[i] = (struct tensor_view){.dim_count = 0}; /* never: the executor has counted the rows */
        bytes += parts[i].bytes;
    }
    char *at =
        peer_frame(&f->peer, FRAME_RESULT, 1, sizeof(out) + block->output_count * sizeof(struct wire_tensor), bytes);
    if (!at)
        return;
    memcpy(at, &out, sizeof(out));
    struct wire_tensor *tensors = (struct wire_tensor *)(at + sizeof(out));
    for (uint32_t i = 0; i < block->output_count; i++) {
        tensors[i] = (struct wire_tensor){.bytes = parts[i].bytes, .dim_count = parts[i].dim_count};
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
        if (!f->heir.number) /* else the scheduler would tell the heir of a request that it never had */
            backend_tell_undelivered(l, result->handle, LOST_ANSWER);
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

static bool take_results(struct backend_link *l) {
    bool more = false;
    for (uint32_t e = 0; e < l->wiring->executors; e++) {
        struct ring *ring = wiring_results(l->wiring, e, 0);
        const struct result_message *message;
        uint32_t n = 0;
        for (; n < TAKE_MOST && (message = ring_peek(ring)); ring_pop(ring), n++) {
            struct frontend_peer *f = backend_frontend_of(l, message->handle);
            struct landed *landed = backend_landed_of(l, message->handle);

            CHECK(f && landed); /* it stays until its result */
            if (message->status == REQUEST_RELEASED) {
                landing_give(&f->landing, landed);
                continue;
            }
            l->running[e]--;
            if (message->status == REQUEST_OK || message->status == REQUEST_FAILED)
                backend_model_ran(l, landed->model,
                                  message->status == REQUEST_OK ? NULL
                                  : message->block              ? message->block->failure
                                                                : "");
            send_result(l, f, landed, message);
            output_block_put(message->block);
            if (!message->read) /* else a run that was given up may still read it */
                backend_landed_give(&f->landing, landed);
        }
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
        q->leaves = q->lost = true;
        tell_leaves(l, freed->accelerator);
    }
    if (freed->news == NEWS_JOINS)
        q->leaves = false;
    enum accelerator_news news = q->leaves ? NEWS_LEAVES : NEWS_JOINS;
    wiring_accelerator_news(l->wiring, freed->accelerator, news, q->out == 0);
    backend_tell_joins(l, freed->accelerator);
}

static bool take_reports(struct backend_link *l) {
    bool more = false;
    for (uint32_t e = 0; e < l->wiring->executors; e++) {
        struct ring *freed = wiring_freed(l->wiring, e, 0), *ran = wiring_ran(l->wiring, e, 0);
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

/* Tells the scheduler what we have: models, then accelerators, then which of these are idle. Only when its clock is
 * known, since plans may come from then on. */
static void introduce(struct backend_link *l) {
    const struct backend_link_config *c = &l->config;
    bool begun = atomic_load_explicit(&l->begun, memory_order_relaxed); /* a lone flag */
    if (!begun || !l->uplink.up || l->introduced || !clock_sync_known(&l->uplink.health.clock))
        return;
    backend_models_introduce(l);
    for (uint32_t a = 0; a < l->wiring->accelerators; a++) {
        struct wire_accelerator *place = peer_frame_more(&l->uplink.peer, FRAME_ACCELERATORS, sizeof(*place));
        if (place)
            snprintf(place->type, sizeof(place->type), "%s", c->types[c->accelerator_type[a]]);
    }
    peer_send(&l->uplink.peer, FRAME_TOLD, 0, NULL, 0);
    l->introduced = true;
    if (l->cordoned)
        peer_send(&l->uplink.peer, FRAME_CORDON, 0, NULL, 0);
    for (uint32_t a = 0; a < l->wiring->accelerators; a++)
        backend_tell_joins(l, a);
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
    backend_models_untold(l);
    for (uint32_t a = 0; a < l->wiring->accelerators; a++)
        l->queues[a].told = l->queues[a].ours = l->queues[a].awaited = l->queues[a].told_memory = false;
    for (struct frontend_peer *f = l->frontends; f; f = f->next) { /* no scheduler says that it is gone */
        f->leaving = false;
        f->heir.number = 0;
    }
}

static int from_scheduler(void *context, const struct frame *frame, const void *head, struct sy_error *err) {
    struct backend_link *l = context;
    switch (frame->kind) {
    case FRAME_PLANS:
        return backend_take_plans(l, frame, head, err);
    case FRAME_MOVES:
        return backend_take_moves(l, head, frame->count, err);
    case FRAME_RESTS:
        for (uint32_t i = 0; i < frame->count; i++) {
            uint32_t accelerator = ((const uint32_t *)head)[i];
            if (accelerator < l->wiring->accelerators)
                l->queues[accelerator].awaited = false;
        }
        return 0;
    case FRAME_CORDON:
    case FRAME_UNCORDON:
        l->cordoned = frame->kind == FRAME_CORDON;
        log_info(l->cordoned ? "takes no more batches" : "takes batches again", "scheduler=%s", l->uplink.peer.name);
        for (uint32_t a = 0; a < l->wiring->accelerators && l->introduced; a++)
            l->cordoned ? tell_leaves(l, a) : backend_tell_joins(l, a);
        peer_send(&l->uplink.peer, (enum frame_kind)frame->kind, 0, NULL, 0);
        return 0;
    case FRAME_MODEL_RESTS:
        for (uint32_t i = 0; i < frame->count; i++)
            backend_model_rests(l, ((const uint32_t *)head)[i]);
        return 0;
    case FRAME_FRONTEND:
        return backend_frontend_told(l, frame, head, err);
    case FRAME_FRONTEND_GONE:
        for (uint32_t i = 0; i < frame->count; i++)
            backend_frontend_gone(l, ((const uint32_t *)head)[i]);
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
                                                      .given_up = l->given_up,
                                                      .faulty = l->offers_faulty,
                                                      .cordoned = l->cordoned});
}

/* Whether no batch, request or result is left here. */
static bool all_gone(const struct backend_link *l) {
    if (l->pulling > 0)
        return false;
    for (uint32_t e = 0; e < l->wiring->executors; e++)
        if (l->running[e] > 0)
            return false;
    for (uint32_t a = 0; a < l->wiring->accelerators; a++)
        if (l->queues[a].told || l->queues[a].awaited || l->queues[a].out > 0)
            return false;
    for (const struct frontend_peer *f = l->frontends; f; f = f->next)
        if (f->open && !f->peer.closed && peer_unsent(&f->peer) > 0)
            return false;
    return true;
}

/* Leaves the scheduler step by step, after backend_link_quiesce(). */
static void end(struct backend_link *l, int64_t now_ns, int64_t *until_ns) {
    /* from now on no accelerator takes batches; those already sent still run */
    for (uint32_t a = 0; a < l->wiring->accelerators; a++)
        tell_leaves(l, a);
    if (!backend_link_ended(l) && all_gone(l)) {
        for (struct frontend_peer *f = l->frontends; f; f = f->next)
            if (f->open && !f->peer.closed)
                peer_send(&f->peer, FRAME_BYE, 0, NULL, 0);
        atomic_store_explicit(&l->ended, true, memory_order_relaxed); /* who waits looks again */
    }
    *until_ns = time_earlier(now_ns + END_LOOK_NS, *until_ns);
}

/* Shows others the state of accelerator 0 (backend_link_config.state), once it has joined for the first time. */
static void state_show(const struct backend_link *l) {
    const struct accelerator_queue *q = &l->queues[0];
    uint8_t state = q->told                            ? ACCELERATOR_SERVING
                    : !list_empty(&q->plans) || q->out ? ACCELERATOR_LEAVING
                                                       : ACCELERATOR_GONE;
    if (l->config.state && (q->told || q->leaves) &&
        atomic_load_explicit(l->config.state, memory_order_relaxed) != state)
        atomic_store_explicit(l->config.state, state, memory_order_relaxed); /* a word on its own */
}

static int64_t turn(void *owner, int64_t now_ns) {
    struct backend_link *l = owner;
    int64_t until_ns = TIME_NEVER;

    l->copied = 0;
    uplink_look(&l->uplink, now_ns, &until_ns);
    introduce(l);
    backend_models_look(l, now_ns, &until_ns);
    backend_aside_look(l);
    bool more = take_reports(l);
    more |= take_results(l);
    more |= backend_memory_look(l);
    if (l->fabric_due) {
        l->fabric_due = false;
        fabric_look(l->fabric);
    }
    backend_frontends_look(l, now_ns, &until_ns);
    backend_queues_look(l, now_ns, &until_ns);
    if (atomic_load_explicit(&l->quiesced, memory_order_relaxed)) /* a lone flag */
        end(l, now_ns, &until_ns);
    state_show(l);
    report(l, now_ns, &until_ns);
    backend_orders_publish(l);
    struct wiring *w = l->wiring;
    bool helps = l->plans_rung == 1 && l->plan_brief;
    for (uint32_t e = 0; e < w->executors && l->plans_rung > 0; e++)
        if (ring_publish(wiring_plans(w, 0, e)))
            doorbell_ring_or_help(&w->executor_bells[e], helps);
    if (helps) { /* its results go out with what else this turn sends */
        more |= take_reports(l);
        more |= take_results(l);
    }
    l->plans_rung = 0;
    return more ? 0 : until_ns;
}

static bool pending(void *owner) {
    struct backend_link *l = owner;
    l->fabric_due |= l->fabric && !fabric_may_sleep(l->fabric);
    if (l->fabric_due || uplink_pending(&l->uplink))
        return true;
    for (uint32_t e = 0; e < l->wiring->executors; e++)
        if (ring_pending(wiring_results(l->wiring, e, 0)) || ring_pending(wiring_ran(l->wiring, e, 0)) ||
            ring_pending(wiring_freed(l->wiring, e, 0)) || ring_pending(wiring_moved(l->wiring, e, 0)))
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
    size_t bytes;
    uplink_destroy(&l->uplink);
    fabric_close(l->fabric);
    if (l->fabric_map) {
        slab_range(l->slab, &bytes);
        munmap(l->fabric_map, bytes);
    }
    for (struct frontend_peer *f = l->frontends, *next; f; f = next) {
        next = f->next;
        landing_destroy(&f->landing);
        frontend_memory_put(f->memory);
        free(f);
    }
    for (uint32_t a = 0; l->queues && a < l->wiring->accelerators; a++)
        plan_memory_free(&l->queues[a].plans);
    plan_memory_free(&l->free_plans);
    if (l->slab)
        slab_destroy(l->slab);
    backend_memory_free(l);
    free(l->queues);
    free(l->running);
    for (uint32_t m = 0; l->offers && m < l->config.model_count; m++)
        free(l->offers[m].unoffered);
    free(l->offers);
    free(atomic_load_explicit(&l->aside_next, memory_order_relaxed)); /* nobody else is left */
    json_decref(l->aside);
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
    l->slab = config->fabric ? slab_create_visible(config->inputs_bytes_max, false, true)
                             : slab_create(config->inputs_bytes_max);
    l->by_number = calloc(HELLO_NUMBERS, sizeof(*l->by_number));
    l->queues = calloc(w->accelerators, sizeof(*l->queues));
    for (uint32_t a = 0; l->queues && a < w->accelerators; a++)
        list_init(&l->queues[a].plans);
    list_init(&l->free_plans);
    l->running = calloc(w->executors, sizeof(*l->running));
    l->offers = calloc(config->model_count + 1, sizeof(*l->offers));
    if (!l->slab || !l->by_number || !l->queues || !l->running || !l->offers || backend_memory_init(l) < 0) {
        error_set(err, rc, "no memory for the link to the cluster");
        goto err_free;
    }
    atomic_init(&l->begun, !config->told_of_models);
    for (uint32_t m = 0; m < config->model_count && !config->told_of_models; m++)
        atomic_init(&l->offers[m].state,
                    served_model_state(&config->models[m]) == MODEL_READY ? OFFER_COMES : OFFER_NONE);
    w->regions[0].base = slab_range(l->slab, &w->regions[0].bytes);
    hello_formats(&l->config.self);
    l->config.self.role = ROLE_BACKEND;
    l->config.self.accelerators = w->accelerators;
    transport_offer(&l->config.self, config->fabric);
    l->config.self.transports &= config->transports ? config->transports : UINT32_MAX;
    if ((rc = link_loop_init(&l->loop, &loop_ops, l, wiring_link_bell(w), -1, config->tls, err)) < 0 ||
        (rc = config->fabric ? transport_fabric_open(l, err) : 0) < 0)
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

void backend_link_quiesce(struct backend_link *l) {
    atomic_store_explicit(&l->quiesced, true, memory_order_relaxed); /* a lone flag */
    doorbell_ring(l->loop.bell);
}

bool backend_link_ended(const struct backend_link *l) {
    return atomic_load_explicit(&l->ended, memory_order_relaxed); /* who waits looks again */
}

void backend_link_stop(struct backend_link *l) {
    if (!l)
        return;
    if (backend_link_ended(l)) /* else batches are lost, and the scheduler has to report them */
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
