/* backend_models.c - the models that a backend offers to the scheduler; they come and go while it serves.
 *
 *     the repository's thread: comes() ---> offers ---> the link's thread: FRAME_MODEL
 *                              goes()                                      FRAME_MODEL_ENDS
 *                              gone() <--- nothing is here <-------------- FRAME_MODEL_RESTS from the scheduler
 *
 * A model whose runs fail here and not elsewhere is set aside for a while: it ends for the scheduler, stays loaded, and
 * is offered again. Without that it would attract the load, since a run that fails takes no time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/aside.h"
#include "cluster/roles/backend_link_state.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "model/engine/fingerprint.h"
#include "model/repository/model_description.h"

#define LOOK_NS (5 * NS_PER_MS) /* time between looks while models go */
/* A model is set aside when FAULTS_MOST more of its requests have failed here, and run elsewhere, than have run well
 * here: for ASIDE_NS, and twice as long each further time without a good result in between, up to ASIDE_DOUBLINGS. */
#define FAULTS_MOST     3
#define ASIDE_NS        (10 * NS_PER_S)
#define ASIDE_DOUBLINGS 5
#define ASIDE_LOOK_NS   (500 * NS_PER_MS) /* time between looks while models are set aside */

/* ---- descriptions ---- */

/* Writes the description of a model. In a cluster, backends may run one model in batches of different sizes, on
 * accelerators of different kinds. Twins run it alike: there, a model that comes with another such configuration is
 * another model, which replaces the one before; so the fingerprint of its contents is made to tell. A load takes
 * load_ns. NULL with a sentence. */
static char *description_write(const struct backend_link *l, uint32_t m, const struct described_profile *profiles,
                               uint32_t count, int64_t load_ns, struct sy_error *err) {
    const struct served_model *model = &l->config.models[m];
    struct served_model told;
    char configured[128];
    memcpy(&told, model, sizeof(told)); /* only to be described here: it holds nothing */
    told.load_ns = load_ns;
    if (l->config.twins) {
        int length = snprintf(configured, sizeof(configured), "%s %u %d %llx", model->contents, model->batch_max,
                              (int)model->instances.kind, (unsigned long long)model->instances.gpus_named);
        struct fingerprint fingerprint = fingerprint_bytes(configured, (size_t)length);
        fingerprint_format(&fingerprint, told.contents);
    }
    return model_description_write(&told, profiles, count, NULL, err);
}

uint64_t backend_link_model_hash(const struct backend_link *l, uint32_t m) {
    struct described_profile profiles[ACCELERATOR_TYPES_MAX];
    struct served_model *read = calloc(1, sizeof(*read));
    struct sy_error err;
    uint32_t count = 0;
    uint64_t hash = 0;
    char *text = read ? description_write(l, m, NULL, 0, 0, &err) : NULL;
    if (text && model_description_read(text, strlen(text), read, profiles, &count, &err) == 0) {
        hash = model_description_hash(read);
        model_description_release(read, profiles, count);
    }
    free(text);
    free(read);
    return hash;
}

/* ---- for the thread that loads models ---- */

static void offer_set(struct backend_link *l, uint32_t model, enum offer_state state) {
    atomic_store_explicit(&l->offers[model].state, (uint8_t)state, memory_order_release); /* with offer_of() */
    atomic_store_explicit(&l->offers_changed, true, memory_order_release); /* with backend_models_look() */
    doorbell_ring(l->loop.bell);
}

static enum offer_state offer_of(const struct backend_link *l, uint32_t model) {
    return atomic_load_explicit(&l->offers[model].state, memory_order_acquire); /* with offer_set() */
}

void backend_link_begin(struct backend_link *l) {
    atomic_store_explicit(&l->begun, true, memory_order_relaxed); /* a lone flag */
    doorbell_ring(l->loop.bell);
}

void backend_link_aside(struct backend_link *l, char *text) {
    free(atomic_exchange_explicit(&l->aside_next, text, memory_order_acq_rel)); /* release: with backend_aside_look() */
    doorbell_ring(l->loop.bell);
}

void backend_link_model_comes(struct backend_link *l, uint32_t model) {
    offer_set(l, model, OFFER_COMES);
}

void backend_link_model_goes(struct backend_link *l, uint32_t model) {
    if (offer_of(l, model) == OFFER_COMES)
        offer_set(l, model, OFFER_GOES);
}

bool backend_link_model_gone(const struct backend_link *l, uint32_t model) {
    return offer_of(l, model) == OFFER_NONE;
}

/* ---- the link's thread ---- */

bool backend_model_runs(const struct backend_link *l, uint32_t model) {
    return l->offers[model].told == TOLD_MODEL || l->offers[model].told == TOLD_ENDS;
}

/* Notes why a model is not offered; NULL: it is offered, or there is no such model any more. */
static void unoffered_set(struct backend_link *l, uint32_t m, const char *why) {
    struct model_offer *offer = &l->offers[m];
    if (why)
        log_error("model not offered", "model=%s reason=\"%s\"", l->config.models[m].name, why);
    l->aside_told &= !why && !offer->unoffered;
    free(offer->unoffered);
    offer->unoffered = why ? strdup(why) : NULL;
}

static void model_tell(struct backend_link *l, uint32_t m) {
    const struct backend_link_config *c = &l->config;
    struct described_profile profiles[ACCELERATOR_TYPES_MAX];
    uint32_t count = 0;
    for (uint32_t t = 0; t < c->type_count; t++)
        if (c->profiles[t][m]) {
            profiles[count].profile = (struct profile *)(uintptr_t)c->profiles[t][m];
            snprintf(profiles[count++].type, sizeof(profiles->type), "%s", c->types[t]);
        }
    struct sy_error err = {""};
    l->offers[m].told = TOLD_MODEL;
    unoffered_set(l, m, NULL);
    bool learned = l->loads && l->loads[m].took_ns > 0;
    int64_t load_ns = learned ? l->loads[m].took_ns : c->models[m].load_ns;
    char *text = description_write(l, m, profiles, count, load_ns, &err);
    size_t bytes = text ? strlen(text) : 0;
    if (!text) {
        unoffered_set(l, m, err.text);
    } else if (sizeof(m) + bytes > WIRE_MODEL_MAX) {
        error_set(&err, -EFBIG, "its description takes %zu bytes, and %u may be sent", bytes, WIRE_MODEL_MAX);
        unoffered_set(l, m, err.text);
    } else {
        char *head = peer_frame(&l->uplink.peer, FRAME_MODEL, 1, sizeof(m) + bytes, 0);
        if (head) {
            memcpy(head, &m, sizeof(m));
            memcpy(head + sizeof(m), text, bytes);
        }
    }
    free(text);
}

static bool is_aside(const struct backend_link *l, uint32_t m) {
    return l->offers[m].until_ns != 0;
}

void backend_model_ran(struct backend_link *l, uint32_t model, const char *failure) {
    struct model_offer *offer = &l->offers[model];
    if (failure) {
        snprintf(offer->failure, sizeof(offer->failure), "%s", failure);
        return;
    }
    offer->faults -= offer->faults > 0;
    offer->times = 0;
}

void backend_model_fault(struct backend_link *l, uint64_t key) {
    char why[sizeof(l->offers->failure) + 96];
    uint32_t m = 0;
    while (m < l->config.model_count &&
           (l->offers[m].told != TOLD_MODEL || served_model_key(&l->config.models[m]) != key))
        m++;
    if (m == l->config.model_count || is_aside(l, m) || ++l->offers[m].faults < FAULTS_MOST)
        return;
    struct model_offer *offer = &l->offers[m];
    int64_t aside_ns = ASIDE_NS << offer->times;
    offer->times += offer->times < ASIDE_DOUBLINGS;
    offer->until_ns = clock_now_ns() + aside_ns;
    offer->faults = 0;
    l->offers_faulty++;
    l->offers_left = true;
    l->offers_look_ns = 0;
    snprintf(why, sizeof(why), "its runs fail here and not elsewhere; tried again after %d s: %s",
             (int)(aside_ns / NS_PER_S), offer->failure);
    log_error("model set aside", "model=%s reason=\"%s\"", l->config.models[m].name, why);
    l->aside_told = false;
    free(offer->unoffered);
    offer->unoffered = strdup(why);
}

/* A model that was set aside is offered again, or has gone meanwhile. */
static void aside_over(struct backend_link *l, uint32_t m) {
    struct model_offer *offer = &l->offers[m];
    offer->until_ns = 0;
    l->offers_faulty--;
    l->aside_told &= !offer->unoffered;
    free(offer->unoffered);
    offer->unoffered = NULL;
    log_info("model offered again", "model=%s", l->config.models[m].name);
}

void backend_models_introduce(struct backend_link *l) {
    for (uint32_t m = 0; m < l->config.model_count; m++)
        if (offer_of(l, m) == OFFER_COMES && !is_aside(l, m))
            model_tell(l, m);
}

void backend_model_rests(struct backend_link *l, uint32_t model) {
    if (model < l->config.model_count && l->offers[model].told == TOLD_ENDS)
        l->offers[model].told = TOLD_RESTS;
    l->offers_left = true;
    l->offers_look_ns = 0;
}

void backend_models_untold(struct backend_link *l) {
    for (uint32_t m = 0; m < l->config.model_count; m++)
        l->offers[m].told = TOLD_NOTHING;
    l->offers_left = true;
    l->aside_told = false;
}

void backend_aside_look(struct backend_link *l) {
    char *text = atomic_load_explicit(&l->aside_next, memory_order_relaxed)                 /* taken below */
                     ? atomic_exchange_explicit(&l->aside_next, NULL, memory_order_acquire) /* backend_link_aside() */
                     : NULL;
    if (text) {
        json_decref(l->aside);
        l->aside = json_loads(text, 0, NULL);
        l->aside_told = false;
        free(text);
    }
    if (l->aside_told || !l->introduced)
        return;
    l->aside_told = true;
    json_t *list = l->aside ? json_copy(l->aside) : json_array();
    for (uint32_t m = 0; m < l->config.model_count; m++)
        if (l->offers[m].unoffered)
            aside_add(list, l->config.models[m].name, l->config.models[m].version, l->offers[m].unoffered);
    text = aside_write(list, WIRE_HEAD_MAX);
    json_decref(list);
    if (text)
        peer_send(&l->uplink.peer, FRAME_ASIDE, 1, text, strlen(text));
    free(text);
}

/* Whether a plan or a request for the model is here, or an order to load it, perhaps of an earlier scheduler. */
static bool is_held(const struct backend_link *l, uint32_t model) {
    for (uint32_t a = 0; a < l->wiring->accelerators && l->config.memory_bytes > 0; a++)
        if (l->queues[a].orders_of[model] > 0)
            return true;
    for (uint32_t a = 0; a < l->wiring->accelerators; a++)
        list_for_each_entry (p, &l->queues[a].plans, struct pulled_plan, memory.node)
            if (p->plan.place.n == model)
                return true;
    for (const struct frontend_peer *f = l->frontends; f; f = f->next)
        if (landing_holds(&f->landing, model))
            return true;
    return false;
}

/* The next step of a model that goes. True: more steps follow. */
static bool model_look(struct backend_link *l, uint32_t m) {
    struct model_offer *offer = &l->offers[m];
    enum offer_state state = offer_of(l, m);
    bool ends = (state == OFFER_GOES || is_aside(l, m)) && offer->told == TOLD_MODEL;
    if (l->introduced && ends) {
        peer_send(&l->uplink.peer, FRAME_MODEL_ENDS, 1, &m, sizeof(m));
        offer->told = TOLD_ENDS;
    }
    if (state == OFFER_COMES && is_aside(l, m)) {
        offer->told = offer->told == TOLD_RESTS ? TOLD_NOTHING : offer->told;
        return offer->told != TOLD_NOTHING;
    }
    if (state != OFFER_GOES)
        return false;
    if (backend_model_runs(l, m) || is_held(l, m))
        return true;
    offer->told = TOLD_NOTHING;
    offer->faults = offer->times = 0;
    if (is_aside(l, m))
        aside_over(l, m);
    unoffered_set(l, m, NULL);
    backend_memory_forget(l, m);
    atomic_store_explicit(&offer->state, OFFER_NONE, memory_order_release); /* with backend_link_model_gone() */
    wiring_places_ring(l->wiring);
    return false;
}

void backend_models_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns) {
    bool changed = atomic_load_explicit(&l->offers_changed, memory_order_relaxed) &&
                   atomic_exchange_explicit(&l->offers_changed, false, memory_order_acquire); /* with offer_set() */
    if (!changed && !(l->offers_left && now_ns >= l->offers_look_ns)) {
        *until_ns = l->offers_left ? time_earlier(l->offers_look_ns, *until_ns) : *until_ns;
        return;
    }
    l->offers_left = false;
    for (uint32_t m = 0; m < l->config.model_count && l->offers_faulty; m++)
        if (is_aside(l, m) && now_ns >= l->offers[m].until_ns && l->offers[m].told == TOLD_NOTHING)
            aside_over(l, m);
    for (uint32_t m = 0; m < l->config.model_count && l->introduced; m++) /* before the models that they replace end */
        if (offer_of(l, m) == OFFER_COMES && l->offers[m].told == TOLD_NOTHING && !is_aside(l, m))
            model_tell(l, m);
    bool moving = false;
    for (uint32_t m = 0; m < l->config.model_count; m++)
        moving |= model_look(l, m);
    l->offers_left = moving || l->offers_faulty > 0;
    l->offers_look_ns = now_ns + (moving ? LOOK_NS : ASIDE_LOOK_NS);
    if (l->offers_left)
        *until_ns = time_earlier(l->offers_look_ns, *until_ns);
}
