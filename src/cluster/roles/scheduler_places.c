/* scheduler_places.c - places for models and accelerators: backends fill them and leave them.
 *
 * The cores of a place know the profiles of the classes that ran its model when the place was made. When other classes
 * run the model, the model gets a new place, frontends are told, and the old place goes once its last requests have
 * ended. The model's number in the catalogue is the key of its places (model/repository/model_life.h), whose only party
 * is the scheduling thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link_state.h"
#include "core/data/residency.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/array.h"
#include "core/util/assert.h"

#define BROUGHT_MOST 4 /* most models of one backend, in multiples of the places: some may wait for a place */

/* Reconciling takes the longer the more models there are, and of many that come one after the other each would be a
 * reason. So with more models than this it rests. */
#define RECONCILE_EACH_MOST 100
#define GONE_LINES_MOST     100 /* models without backends that are each logged */

int places_init(struct scheduler_link *l) {
    const struct wiring *w = l->wiring;
    l->catalogue = calloc(1, sizeof(*l->catalogue));
    l->places = calloc(l->config.models_max, sizeof(*l->places));
    l->life = calloc(1, model_life_bytes(l->config.models_max, 0));
    l->variant_taken = calloc(w->models, sizeof(bool));
    l->accelerators = calloc(w->accelerators, sizeof(*l->accelerators));
    l->leaving = calloc(w->accelerators, sizeof(*l->leaving));
    for (uint32_t a = 0; l->accelerators && a < w->accelerators; a++)
        list_init(&l->accelerators[a].plans);
    if (l->life)
        model_life_init(l->life, l->config.models_max, 0);
    if (l->catalogue) {
        l->catalogue->by_type = l->config.orders_loads;
        l->catalogue->many = w->central;
    }
    return l->catalogue && l->places && l->life && l->variant_taken && l->accelerators && l->leaving ? 0 : -ENOMEM;
}

void places_free(struct scheduler_link *l) {
    plans_free(l);
    memory_free(l);
    loads_free(l);
    if (l->catalogue)
        catalogue_free(l->catalogue);
    free(l->catalogue);
    free(l->places);
    free(l->life);
    free(l->variant_taken);
    free(l->accelerators);
    free(l->leaving);
}

bool member_room(struct scheduler_link *l, struct member *m) {
    if (m->hello.role == ROLE_FRONTEND) {
        m->last = calloc((size_t)m->hello.lanes * m->hello.slots, sizeof(*m->last)); /* pages are used only as slots
                                                                                      * are */
        m->owes = calloc(l->config.models_max, sizeof(bool));
        return m->last && m->owes;
    }
    m->remote_of_known = calloc(CATALOGUE_MODELS_MAX, sizeof(*m->remote_of_known));
    return m->remote_of_known;
}

/* ---- backends come ---- */

int member_model(struct scheduler_link *l, struct member *m, const char *head, uint32_t bytes, struct sy_error *err) {
    struct remote_id remote;
    if (m->brought_count + m->late_count >= BROUGHT_MOST * l->config.models_max)
        return error_set(err, -ENOSPC, "more models than the cluster has room for");
    memcpy(&remote, head, sizeof(remote));
    struct brought_model *brought = member_brings(m);
    struct sy_error why;
    if (!brought)
        return error_set(err, -ENOMEM, "no memory for a member's models");
    int rc = catalogue_bring(l->catalogue, head + sizeof(remote), bytes - sizeof(remote), brought, &why);
    if (rc == -ENOMEM) /* the backend brings it again with its next connection */
        return error_set(err, rc, "%s", why.text);
    bool again = rc == 0 && (rc = member_has_ended(l, m, brought, &why)) < 0;
    if (rc < 0) {
        /* the backend's other models may be accepted; with `serve --isolate` all replace a model, one by one */
        bool expected = again || (rc == -EEXIST && l->config.backends);
        if (!expected)
            log_error("model not taken", "backend=%s reason=\"%s\"", m->hello.name, why.text);
        return late_note(l, m, remote, head + sizeof(remote), bytes - (uint32_t)sizeof(remote), rc, &why, err);
    }
    member_brought(m, brought, remote);
    m->models_changed = m->told;
    l->changing |= m->told;
    return 0;
}

int member_has_ended(struct scheduler_link *l, const struct member *m, struct brought_model *brought,
                     struct sy_error *err) {
    bool loads = l->config.orders_loads || l->config.central_loads;
    for (uint32_t i = 0; loads && i < m->brought_count; i++)
        if (m->brought[i].known == brought->known && m->brought[i].ends) {
            catalogue_take(l->catalogue, brought);
            catalogue_put_down(l->catalogue, brought);
            return error_set(err, -EEXIST, "the same model as before has not been put down yet");
        }
    return 0;
}

struct brought_model *member_brings(struct member *m) {
    struct brought_model *grown = array_room(m->brought, m->brought_count, sizeof(*grown));
    if (!grown)
        return NULL;
    m->brought = grown;
    return &m->brought[m->brought_count];
}

void member_brought(struct member *m, struct brought_model *brought, struct remote_id remote) {
    brought->remote = m->remote_of_known[brought->known] = remote;
    m->brought_count++;
}

int member_accelerators(struct scheduler_link *l, struct member *m, const struct wire_accelerator *accelerators,
                        uint32_t count, struct sy_error *err) {
    if (m->told)
        return error_set(err, -EPROTO, "accelerators after all had been told");
    if (count > l->wiring->accelerators - m->accelerator_count)
        return error_set(err, -ENOSPC, "the scheduler has no room for more than %u accelerators (--accelerators-max)",
                         l->wiring->accelerators);
    char(*grown)[64] = realloc(m->types, (size_t)(m->accelerator_count + count + 1) * sizeof(*grown));
    if (!grown)
        return error_set(err, -ENOMEM, "no memory for a member's accelerators");
    m->types = grown;
    for (uint32_t i = 0; i < count; i++) {
        if (!memchr(accelerators[i].type, '\0', sizeof(accelerators[i].type)))
            return error_set(err, -EPROTO, "a type of accelerators that does not end");
        memcpy(m->types[m->accelerator_count++], accelerators[i].type, sizeof(*m->types));
    }
    return 0;
}

/* The classes that some place knows. */
uint64_t classes_used(const struct scheduler_link *l) {
    uint64_t used = 0;
    for (uint32_t p = 0; p < l->config.models_max; p++)
        used |= model_life_state(l->life, p) != LIFE_FREE ? l->places[p].runs_on : 0;
    return used;
}

uint64_t classes_closed(const struct scheduler_link *l) {
    uint64_t closed = 0;
    for (uint32_t p = 0; p < l->config.models_max; p++)
        for (uint32_t k = 0; k < catalogue_classes(l->catalogue) && model_life_state(l->life, p) != LIFE_FREE; k++) {
            uint32_t known = l->places[p].known;
            if (l->places[p].runs_on >> k & 1 && !(l->catalogue->classes[k].models[known / 64] >> known % 64 & 1))
                closed |= 1ULL << k;
        }
    return closed;
}

static uint32_t class_of(struct scheduler_link *l, struct member *m, const char *type) {
    for (uint32_t i = 0; i < m->class_count; i++)
        if (strcmp(l->catalogue->classes[m->classes[i]].type, type) == 0)
            return m->classes[i];
    if (m->class_count == ACCELERATOR_TYPES_MAX)
        return CATALOGUE_NONE;
    uint32_t class =
        catalogue_class(l->catalogue, type, 1, m->brought, m->brought_count, classes_used(l), classes_closed(l));
    if (class == CATALOGUE_NONE) {
        l->classes_short = l->changed = true;
        return class;
    }
    speed_init(&m->speed[m->class_count]);
    m->targets[m->class_count] = class;
    m->classes[m->class_count++] = class;
    return class;
}

int member_told(struct scheduler_link *l, struct member *m, struct sy_error *err) {
    if (m->told)
        return error_set(err, -EPROTO, "all was told twice");
    m->told = true;
    m->accelerators = malloc((m->accelerator_count + 1) * sizeof(*m->accelerators));
    if (!m->accelerators)
        return error_set(err, -ENOMEM, "no memory for a member's accelerators");
    uint32_t count = m->accelerator_count, at = 0;
    m->accelerator_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t class = class_of(l, m, m->types[i]);
        while (at < l->wiring->accelerators && l->accelerators[at].taken)
            at++;
        if (class == CATALOGUE_NONE)
            return error_set(err, -ENOSPC,
                             "the cluster has %u types of accelerators already, counting those apart whose backends "
                             "have different models",
                             catalogue_classes(l->catalogue));
        if (at == l->wiring->accelerators)
            return error_set(err, -ENOSPC,
                             "the scheduler has no room for more than %u accelerators (--accelerators-max)",
                             l->wiring->accelerators);
        l->accelerators[at].member = m;
        l->accelerators[at].local = i;
        l->accelerators[at].class = (uint8_t) class;
        if (memory_begin(l, at) < 0 || loads_begin(l, at) < 0)
            return error_set(err, -ENOMEM, "no memory for a member's accelerators");
        l->accelerators[at].taken = true;
        l->accelerators_most = at >= l->accelerators_most ? at + 1 : l->accelerators_most;
        l->accelerators[at].owes = l->accelerators[at].joined = l->accelerators[at].switches = false;
        m->accelerators[m->accelerator_count++] = at;
    }
    l->changed = true;
    log_info("backend brings", "backend=%s models=%u accelerators=%u", m->hello.name, m->brought_count,
             m->accelerator_count);
    return 0;
}

void backend_gone(struct scheduler_link *l, struct member *m) {
    for (uint32_t i = 0; m->accelerators && i < m->accelerator_count; i++) {
        struct accelerator_place *a = &l->accelerators[m->accelerators[i]];
        plans_lose(l, m->accelerators[i]);
        memory_lose(l, m->accelerators[i]);
        loads_lose(l, m->accelerators[i]);
        accelerator_news(l, m->accelerators[i], NEWS_LEAVES);
        a->member = NULL;
        accelerator_leaves(l, m->accelerators[i]); /* also if it never joined */
    }
    changes_forget(l, m);
    for (uint32_t i = 0; i < m->class_count; i++)
        catalogue_class_leave(l->catalogue, m->classes[i]);
    for (uint32_t i = 0; i < m->brought_count; i++) {
        if (!m->brought[i].ends)
            catalogue_take(l->catalogue, &m->brought[i]);
        catalogue_put_down(l->catalogue, &m->brought[i]);
    }
    m->brought_count = m->class_count = 0;
    l->changed = true;
}

void accelerator_leaves(struct scheduler_link *l, uint32_t accelerator) {
    struct accelerator_place *a = &l->accelerators[accelerator];
    if (a->leaves)
        return;
    a->leaves = true;
    l->leaving[l->leaving_count++] = accelerator;
}

/* Looks at accelerators that have left. Those that have joined again do so here once nothing of before is left: what
 * was granted before would run there unknown to the rank thread, which might unload it. True: the scheduler is not done
 * with some of them. */
static bool accelerators_look(struct scheduler_link *l) {
    uint32_t kept = 0;
    bool left = false;
    for (uint32_t i = 0; i < l->leaving_count; i++) {
        uint32_t accelerator = l->leaving[i];
        struct accelerator_place *a = &l->accelerators[accelerator];
        bool back = a->member && !a->owes;
        bool has = wiring_accelerator_state(l->wiring, accelerator) != ACCELERATOR_GONE || !list_empty(&a->plans);
        if (a->switches || (!a->up && (has || (back && !accelerator_may_join(l))))) {
            left |= !a->switches; /* one that changes its class joins again later, or is told then */
            l->leaving[kept++] = accelerator;
            continue;
        }
        a->leaves = false;
        if (back) {
            accelerator_news(l, accelerator, NEWS_JOINS);
        } else {
            /* nothing of the accelerator is left in the scheduler: its member is told; if the member is gone, the place
             * is free */
            a->owes = false;
            if (a->member)
                peer_send(&a->member->peer, FRAME_RESTS, 1, &a->local, sizeof(a->local));
            if (!a->member)
                a->taken = false;
        }
    }
    l->leaving_count = kept;
    return left;
}

/* ---- models: places ---- */

bool place_takes(const struct scheduler_link *l, const struct request_message *message) {
    enum life_state state = model_life_state(l->life, message->place.n);
    if (state != LIFE_SERVING && state != LIFE_LEAVING)
        return false;
    return l->places[message->place.n].model.variant_count > 1 || message->shape_key == 0;
}

/* `items_max`: what a request of it may have, if that is less than the description says; else 0. */
static void known_tell(struct member *m, const struct known_model *known, uint32_t number, uint32_t items_max) {
    char most[160] = "";
    const struct served_model *model = known->model;
    if (model->slo_chosen && *known->description == '{')
        snprintf(most, sizeof(most), MODEL_DESCRIPTION_SLO, (long long)model->slo_ns);
    if (items_max)
        snprintf(most + strlen(most), sizeof(most) - strlen(most), MODEL_DESCRIPTION_ITEMS_MAX, items_max);
    if (known->begins && *known->description == '{')
        strcat(most, MODEL_DESCRIPTION_BEGINS);
    if (known->share > 0 && *known->description == '{')
        snprintf(most + strlen(most), sizeof(most) - strlen(most), MODEL_DESCRIPTION_SHARE, known->share);
    size_t more = strlen(most), bytes = sizeof(number) + more + known->description_bytes;
    bool fits = bytes <= WIRE_MODEL_MAX;
    if (!fits)
        log_warn("model not told: its description is too long", "model=%s member=%s", known->model->name,
                 m->hello.name);
    char *head = fits ? peer_frame(&m->peer, FRAME_SERVE, 1, bytes, 0) : NULL;
    if (!head)
        return;
    memcpy(head, &number, sizeof(number));
    head += sizeof(number);
    *head = *known->description; /* the brace */
    memcpy(head + 1, most, more);
    memcpy(head + 1 + more, known->description + 1, known->description_bytes - 1);
}

static void serve_tell(const struct scheduler_link *l, struct member *m, uint32_t place) {
    const struct known_model *known = &l->catalogue->known[l->places[place].known];
    uint32_t most = l->places[place].model.batch_max;
    known_tell(m, known, place, most < known->model->batch_max && *known->description == '{' ? most : 0);
}

/* An ensemble's number for frontends: behind those of all places. */
static uint32_t ensemble_number(const struct scheduler_link *l, uint32_t known) {
    return l->config.models_max + known;
}

static void ensemble_tell(const struct scheduler_link *l, struct member *m, uint32_t known) {
    known_tell(m, &l->catalogue->known[known], ensemble_number(l, known), 0);
}

void places_tell(struct scheduler_link *l, struct member *m) {
    const struct catalogue *c = l->catalogue;
    for (uint32_t i = 0; i < c->known_count; i++) {
        const struct known_model *known = &c->known[i];
        uint32_t successor = known->model && known->backends == 0 ? catalogue_successor(c, i) : CATALOGUE_NONE;
        if (successor != CATALOGUE_NONE && (c->known[successor].place != CATALOGUE_NONE || c->known[successor].told))
            continue; /* told after its successor it would replace that one */
        if (known->place != CATALOGUE_NONE && known->model)
            serve_tell(l, m, known->place);
        else if (known->told)
            ensemble_tell(l, m, i);
    }
}

/* Whether any backend has accelerators that run a place's model. */
static bool is_run(const struct scheduler_link *l, const struct served_place *place) {
    if (l->config.orders_loads)
        return memory_offers(l, (uint32_t)(place - l->places));
    for (uint32_t k = 0; k < catalogue_classes(l->catalogue); k++)
        if (place->runs_on >> k & 1 && l->catalogue->classes[k].backends > 0)
            return true;
    return false;
}

/* A model has got or lost its place: the report at the end of this turn tells of it, so that who hears of the model
 * finds it there. */
static void place_moved(struct scheduler_link *l) {
    l->models_moved = true;
    l->report.due_ns = 0;
}

/* The key of the places of a model. */
static uint64_t key_of(uint32_t known) {
    return (uint64_t)known + 1;
}

/* The place whose requests a model takes over: its own, or that of the model whose successor it is. CATALOGUE_NONE:
 * there is none. */
static uint32_t place_before(const struct scheduler_link *l, uint32_t known) {
    const struct catalogue *c = l->catalogue;
    if (c->known[known].place != CATALOGUE_NONE)
        return c->known[known].place;
    for (uint32_t i = 0; i < c->known_count; i++)
        if (c->known[i].model && c->known[i].backends == 0 && c->known[i].place != CATALOGUE_NONE &&
            catalogue_successor(c, i) == known)
            return c->known[i].place;
    return CATALOGUE_NONE;
}

/* Begins to serve a model in a free place. False: there is none, or no room for its variants. */
static bool place_begin(struct scheduler_link *l, uint32_t known_index, uint64_t runs_on) {
    const struct known_model *known = &l->catalogue->known[known_index];
    const struct served_model *model = known->model;
    struct wiring *w = l->wiring;
    uint32_t count = model->signature.variable_shapes ? VARIANTS_MAX : 1, before = place_before(l, known_index);
    struct variant_id first = {VARIANTS_NONE};
    if (model_life_room(l->life))
        first = variants_take(l->variant_taken, w->models, count);
    if (first.n == VARIANTS_NONE)
        return false;
    uint32_t p = model_life_put(l->life, key_of(known_index));
    struct served_place *place = &l->places[p];
    *place = (struct served_place){
        .known = known_index,
        .runs_on = runs_on,
        .model = thread_model_of(model, (struct place_id){p}, l->config.copy_ns_per_byte),
    };
    place->model.first_variant = first;
    place->model.variant_count = count;
    place->model.heir_of = before == CATALOGUE_NONE ? 0 : before + 1;
    for (uint32_t k = 0; k < catalogue_classes(l->catalogue); k++) {
        if (!(runs_on >> k & 1))
            continue;
        const struct profile *profile = place->model.profiles[k] = known->profiles[k];
        if (place->model.batch_max > profile->batch_max)
            place->model.batch_max = profile->batch_max;
    }
    for (uint32_t v = 0; v < count; v++) {
        w->thread_of_variant[first.n + v] = w->thread_of_served[p];
        if (w->place_of_variant)
            w->place_of_variant[first.n + v].n = p;
    }
    if (l->config.orders_loads || l->config.central_loads) {
        place->model.weights_bytes = known->weights_bytes;
        uint32_t pages = pages_of(known->weights_bytes, CPU_PAGE_BYTES);
        place->model.pages = pages < MEMORY_PAGES_MOST ? pages : MEMORY_PAGES_MOST;
    }
    model_life_prepared(l->life, p, LIFE_ALL, 0);
    return true;
}

/* Tells a place's scheduling thread that the model comes or goes. -EAGAIN: its ring is full; -ENOMEM. */
static int thread_tell(struct scheduler_link *l, uint32_t p, bool comes) {
    struct wiring *w = l->wiring;
    struct model_thread *thread = l->config.central_thread ? NULL : l->config.model_threads[w->thread_of_served[p]];
    int rc = 0;
    if (!comes)
        return l->config.orders_loads && !memory_may_go(l, p) ? -EAGAIN : wiring_model_goes(w, (struct place_id){p});
    if (!thread)
        central_thread_prepare(l->config.central_thread, &l->places[p].model);
    else if ((rc = model_thread_prepare(thread, &l->places[p].model)) < 0)
        return rc;
    rc = wiring_model_comes(w, (struct place_id){p}, p % w->rank_threads);
    if (rc < 0 && thread)
        model_thread_forget(thread, (struct place_id){p});
    return rc;
}

void place_left(struct scheduler_link *l, struct member *m, uint32_t p) {
    if (p >= l->config.models_max || !m->owes[p])
        return;
    m->owes[p] = false;
    l->places[p].owed--;
}

void places_left_by(struct scheduler_link *l, struct member *m) {
    for (uint32_t p = 0; p < l->config.models_max; p++)
        place_left(l, m, p);
}

static void orders_carry_out(struct scheduler_link *l, int64_t now_ns) {
    struct life_order order;
    while (model_life_next(l->life, now_ns, &order)) {
        const struct thread_model *model = &l->places[order.place].model;
        switch (order.kind) {
        case LIFE_ENTER:
        case LIFE_TAKE:
            if (thread_tell(l, order.place, order.kind == LIFE_ENTER) < 0)
                model_life_again(l->life, &order, now_ns);
            break;
        case LIFE_SHOW: {
            l->memory_due = true;
            struct known_model *known = &l->catalogue->known[l->places[order.place].known];
            known->place = order.place;
            catalogue_versions(l->catalogue, l->places[order.place].known);
            known->begins_told = known->begins;
            known->slo_told_ns = known->model->slo_ns;
            known->share_told = known->share;
            l->changed = true; /* other classes may have got the model while its place was coming */
            place_moved(l);
            FOR_EACH_TOLD (l, m, ROLE_FRONTEND)
                serve_tell(l, m, order.place);
            log_info("model", "model=%s version=%u slo_ms=%.6g max_batch=%u backends=%u", known->model->name,
                     known->model->version, (double)known->model->slo_ns / 1e6, known->model->batch_max,
                     known->backends);
            break;
        }
        case LIFE_HIDE: {
            /* Frontends send no more requests for the place. It is held until all frontends have said so, and its
             * requests have ended. If no backend has the model any more, though accelerators of the place are left, a
             * backend unloads the model. */
            struct served_place *place = &l->places[order.place];
            bool ends = l->catalogue->known[place->known].backends == 0 && is_run(l, place);
            FOR_EACH_TOLD (l, m, ROLE_FRONTEND) {
                peer_send(&m->peer, ends ? FRAME_MODEL_ENDS : FRAME_MODEL_GONE, 1, &order.place, sizeof(order.place));
                m->owes[order.place] = true;
                place->owed++;
            }
            model_life_hold(l->life, order.place, 1);
            break;
        }
        case LIFE_FREED:
            if (!l->config.central_thread)
                model_thread_forget(l->config.model_threads[l->wiring->thread_of_served[order.place]],
                                    (struct place_id){order.place});
            memset(l->variant_taken + model->first_variant.n, false, model->variant_count);
            l->changed = l->memory_due = true;
            break;
        }
    }
}

/* Takes a place's requests out of its queue: their frontends are told that they are lost (take_refusals()), and
 * send them to the model's new place. False: the ring is full; more follow when the thread has read these. */
static bool place_recall(struct scheduler_link *l, uint32_t p) {
    list_for_each_entry (m, &l->members, const struct member, node) {
        size_t count = m->last ? (size_t)m->hello.lanes * m->hello.slots : 0;
        for (size_t i = 0; i < count; i++) {
            const struct queued_request *last = &m->last[i];
            if (last->handle && last->place.n == p && !request_cancel(l, last))
                return false;
        }
    }
    return true;
}

/* Whether a place's scheduling thread has answered. */
static bool thread_answered(const struct scheduler_link *l, uint32_t p) {
    const struct thread_model *model = &l->places[p].model;
    return model_life_awaits(l->life, p, 0) && wiring_model_is(l->wiring, model->first_variant, model->variant_count,
                                                               model_life_state(l->life, p) == LIFE_ENTERING);
}

bool places_pending(const struct scheduler_link *l) {
    MODEL_LIFE_EACH_MOVING (l->life, p)
        if (thread_answered(l, p))
            return true;
    return false;
}

/* Notes what has happened to places that come or go. True: something has. *again: there is more to do soon. */
static bool moving_look(struct scheduler_link *l, int64_t now_ns, bool *again) {
    bool any = false;
    MODEL_LIFE_EACH_MOVING (l->life, p) {
        struct served_place *place = &l->places[p];
        if (thread_answered(l, p)) {
            memory_take_orders(l); /* the last ones about a model that has gone were published before */
            model_life_answer(l->life, p, 0, model_life_state(l->life, p) == LIFE_ENTERING, now_ns);
            any = true;
        }
        if (!model_life_lingers(l->life, p) || place->owed > 0)
            continue;
        /* the requests of a place that no accelerator runs any more go to the model's other place */
        if (place->queued > 0 && !place->all_recalled && !is_run(l, place) &&
            l->catalogue->known[place->known].place != CATALOGUE_NONE) {
            place->recalled = true; /* before the first of them comes back */
            place->all_recalled = place_recall(l, p);
            *again |= !place->all_recalled;
        }
        if (place->queued == 0 && place->sent == 0) {
            model_life_release(l->life, p, 1);
            any = true;
        }
    }
    return any;
}

static bool is_coming(const struct scheduler_link *l, uint32_t known) {
    for (uint32_t p = LIFE_NONE; (p = model_life_of_key(l->life, key_of(known), p)) != LIFE_NONE;)
        if (model_life_state(l->life, p) == LIFE_ENTERING)
            return true;
    return false;
}

/* Tells frontends of an ensemble that some backend has, or that none has any more: nothing else is to be done for
 * it here. True: it waits until another one of its name has been told. */
static bool ensemble_reconcile(struct scheduler_link *l, uint32_t i) {
    struct known_model *known = &l->catalogue->known[i];
    uint32_t number = ensemble_number(l, i), successor = catalogue_successor(l->catalogue, i);
    if (known->backends == 0 && successor != CATALOGUE_NONE && !l->catalogue->known[successor].told)
        return known->told;
    if ((known->backends > 0) == known->told)
        return false;
    known->told = !known->told;
    FOR_EACH_TOLD (l, m, ROLE_FRONTEND) {
        if (known->told)
            ensemble_tell(l, m, i);
        else
            peer_send(&m->peer, known->unloaded ? FRAME_MODEL_ENDS : FRAME_MODEL_GONE, 1, &number, sizeof(number));
    }
    log_info(known->told ? "ensemble" : "ensemble has no backend any more", "model=%s version=%u", known->model->name,
             known->model->version);
    return false;
}

/* Whether a model is to have a new place: none knows it, or some class that runs it is new to its place. Classes
 * that no backend has any more stay in a place, since a backend that is started again has the same; but while some
 * backend finds no class free, they are given up, with the place. */
static bool is_to_move(const struct scheduler_link *l, const struct known_model *known, uint64_t runs_on) {
    if (known->place == CATALOGUE_NONE)
        return true;
    const struct served_place *place = &l->places[known->place];
    uint64_t knows = place->runs_on;
    if ((l->config.orders_loads || l->config.central_loads) &&
        place->model.pages < pages_of(known->weights_bytes, CPU_PAGE_BYTES))
        return true; /* a backend calls it larger than those before */
    return runs_on & ~knows || (l->classes_short && knows & ~runs_on);
}

/* Gives a model a new place. One that is not served yet gets none of the last places: without these, the others
 * could not move. True: it is to be tried again; false also if there is no room before other models go. */
static bool known_begin(struct scheduler_link *l, uint32_t i, uint64_t runs_on, uint32_t *held) {
    struct known_model *known = &l->catalogue->known[i];
    bool first = known->place == CATALOGUE_NONE, many = first && *held >= l->config.models_served_max;
    if (!many && place_begin(l, i, runs_on)) {
        *held += first;
        known->waits = NULL;
        return false;
    }
    bool full = many || list_empty(&l->life->moving);
    if (full && first && !known->waits) {
        known->waits = many ? "the scheduler serves as many models as it may (--max-models)"
                            : "the scheduler has no room for one more model beside those with variable shapes";
        log_warn("model waits", "model=%s version=%u reason=\"%s\"", known->model->name, known->model->version,
                 known->waits);
    }
    return !full;
}

/* Makes the places agree with the models of backends. True: some changes have to wait. */
static bool reconcile(struct scheduler_link *l) {
    struct catalogue *c = l->catalogue;
    bool left = false, coming = false;
    /* models that backends have and that are served, or soon will be */
    uint32_t held = 0, gone = 0;
    for (uint32_t i = 0; i < l->catalogue->known_count; i++) {
        const struct known_model *known = &l->catalogue->known[i];
        held += known->model && known->backends > 0 && (known->place != CATALOGUE_NONE || is_coming(l, i));
    }
    for (uint32_t i = 0; i < c->known_count; i++) {
        struct known_model *known = &c->known[i];
        coming |= known->model && is_coming(l, i);
        if (!known->model || is_coming(l, i))
            continue;
        uint64_t runs_on = known->backends > 0 ? catalogue_runs_on(c, i) : 0;
        bool served = known->place != CATALOGUE_NONE;
        uint32_t successor = !runs_on && served ? catalogue_successor(c, i) : CATALOGUE_NONE;
        if (known->model->ensemble)
            left |= ensemble_reconcile(l, i);
        if (runs_on && is_to_move(l, known, runs_on)) {
            left |= known_begin(l, i, runs_on, &held);
        } else if (successor != CATALOGUE_NONE && c->known[successor].place == CATALOGUE_NONE &&
                   !c->known[successor].told && !c->known[successor].waits) {
            left = true; /* frontends must be told of the successor first */
        } else if (!runs_on && served) {
            gone += !known->unloaded;
            if (!known->unloaded && gone <= GONE_LINES_MOST)
                log_warn("model has no backend any more", "model=%s version=%u", known->model->name,
                         known->model->version);
            model_life_end(l->life, known->place);
            known->place = CATALOGUE_NONE;
            known->counted = 0;
            catalogue_versions(c, i);
            place_moved(l);
        } else if (!runs_on && model_life_of_key(l->life, key_of(i), LIFE_NONE) == LIFE_NONE) {
            left |= catalogue_forget(c, i); /* another model may take its name */
        }
    }
    if (gone > GONE_LINES_MOST)
        log_warn("more models have no backend any more", "models=%u", gone - GONE_LINES_MOST);
    l->classes_short &= left || coming;
    return left;
}

/* Tells frontends of versions that now carry the requests which name none, or no longer do. */
static void versions_look(struct scheduler_link *l) {
    struct catalogue *c = l->catalogue;
    for (uint32_t i = 0; i < c->known_count; i++)
        if (c->known[i].model && c->known[i].place != CATALOGUE_NONE && c->known[i].backends != c->known[i].counted) {
            c->known[i].counted = c->known[i].backends;
            catalogue_versions(c, i);
        }
    for (uint32_t i = 0; i < c->known_count; i++) {
        struct known_model *known = &c->known[i];
        if (!known->model || known->place == CATALOGUE_NONE || known->slo_told_ns == known->model->slo_ns)
            continue;
        known->slo_told_ns = known->model->slo_ns;
        FOR_EACH_TOLD (l, m, ROLE_FRONTEND)
            serve_tell(l, m, known->place);
        log_info("SLO chosen anew", "model=%s version=%u slo_ms=%.6g", known->model->name, known->model->version,
                 (double)known->model->slo_ns / 1e6);
        place_moved(l);
    }
    for (int begins = 0; begins < 2;
         begins++) /* first those that do not: in between the old or the new one is chosen */
        for (uint32_t i = 0; i < c->known_count; i++) {
            struct known_model *known = &c->known[i];
            if (!known->model || known->place == CATALOGUE_NONE || known->begins != begins ||
                (known->begins == known->begins_told && known->share == known->share_told))
                continue;
            known->begins_told = known->begins;
            known->share_told = known->share;
            FOR_EACH_TOLD (l, m, ROLE_FRONTEND)
                serve_tell(l, m, known->place);
            if (known->share > 0)
                log_info("requests without a version go here, a part of them",
                         "model=%s version=%u backends=%u share=%.6g", known->model->name, known->model->version,
                         known->backends, (double)known->share / ROLLOUT_SHARE_ALL);
            else
                log_info(begins ? "requests without a version go to another one" : "requests without a version go here",
                         "model=%s version=%u backends=%u", known->model->name, known->model->version, known->backends);
        }
}

void versions_again(struct scheduler_link *l) {
    for (uint32_t i = 0; i < l->catalogue->known_count; i++)
        l->catalogue->known[i].counted = CATALOGUE_NONE;
    l->changed = true;
}

bool places_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns) {
    bool busy = accelerators_look(l);
    busy |= changes_look(l, now_ns);
    if (l->changed && now_ns >= l->reconcile_ns) {
        int64_t began_ns = clock_now_ns();
        l->changed = reconcile(l);
        l->memory_due = true;
        versions_look(l);
        busy = true;
        bool many = l->catalogue->known_count > RECONCILE_EACH_MOST;
        l->reconcile_ns = many ? time_rested(began_ns, clock_now_ns()) : 0;
    }
    do
        orders_carry_out(l, now_ns);
    while (moving_look(l, now_ns, &busy));
    int64_t wake_ns = model_life_wake(l->life);
    *until_ns = time_earlier(wake_ns, *until_ns);
    return busy || l->changed;
}
