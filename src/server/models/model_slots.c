/* model_slots.c - loads models into places, hands them to the serving threads, and frees them when no request holds
 * them. */
#include "server/models/model_slots.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "back/executor/executor.h"
#include "cluster/roles/backend_link.h"
#include "core/data/residency.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/assert.h"
#include "front/request/preparer.h"
#include "model/config/preparations.h"
#include "model/prefix/shared_prefixes.h"
#include "model/profile/prepare.h"
#include "server/models/ensembles.h"
#include "server/models/instances.h"

#define LOOK_NS (10 * NS_PER_MS) /* time between two looks whether frontends still hold places */

int model_slots_init(struct model_slots *slots) {
    const struct wiring *w = slots->scheduling->wiring;
    slots->count = slots->list->count;
    slots->told = calloc(slots->count + 1, sizeof(*slots->told));
    slots->variant_taken = calloc(w->models + 1, sizeof(bool));
    slots->life = calloc(1, model_life_bytes(slots->count, w->executors));
    if (!slots->told || !slots->variant_taken || !slots->life)
        return -ENOMEM;
    model_life_init(slots->life, slots->count, w->executors);
    for (uint32_t i = 0; i < slots->control->start_count; i++) {
        CHECK_EQ(model_life_put(slots->life, served_model_key(&slots->list->models[i])), i);
        if (served_model_state(&slots->list->models[i]) == MODEL_UNAVAILABLE)
            model_life_failed(slots->life, i);
    }
    return 0;
}

/* ---- loading ---- */

static struct served_model *served(const struct model_slots *slots, uint32_t slot) {
    return &slots->list->models[slot];
}

static void member_leave(struct model_slots *slots, uint32_t slot);

/* Takes a place's model from the executors and the scheduler, none of whose threads uses it. */
static void slot_put_down(struct model_slots *slots, uint32_t index) {
    const struct scheduling *s = slots->scheduling;
    const struct executors *e = slots->executors;
    struct thread_model *told = &slots->told[index];

    memset(slots->variant_taken + told->first_variant.n, false, told->variant_count);
    told->variant_count = 0;
    if (server_schedules(s->config) && !s->central_thread && !served(slots, index)->ensemble)
        model_thread_forget(s->model_threads[s->placements[index].thread], (struct place_id){index});
    for (uint32_t n = 0; n < s->wiring->executors && !served(slots, index)->ensemble; n++)
        executor_unload(e->list[n], (struct place_id){index});
    for (uint32_t type = 0; type < e->type_count; type++) {
        free((void *)e->types[type].profiles[index]);
        e->types[type].profiles[index] = NULL;
    }
    if (served_model_is_suffix(served(slots, index)))
        member_leave(slots, index);
}

/* Frees all that a place owns. No other thread uses the place any more. */
static void slot_free(struct model_slots *slots, uint32_t index) {
    slot_put_down(slots, index);
    ensemble_release(served(slots, index));
    served_model_release(served(slots, index));
    scheduling_host(slots->scheduling, index);
    atomic_store_explicit(&served(slots, index)->state, MODEL_LOADING, memory_order_relaxed); /* nobody sees it */
    malloc_trim(0);
}

static bool is_stopping(const struct model_slots *slots) {
    return atomic_load_explicit(slots->control->how[0].stop, memory_order_relaxed); /* a lone flag */
}

/* Measures or finds the model's profile on every type of accelerators, and completes the model from its file. */
static int slot_profile(struct model_slots *slots, uint32_t slot, struct sy_error *err) {
    const struct executors *e = slots->executors;
    struct served_model *model = served(slots, slot);
    const struct server_config *config = slots->scheduling->config;
    bool waits = false, emulated = true;

    for (uint32_t type = 0; type < e->type_count; type++) {
        struct profile_progress progress = {.model = model->name, .count = 1};
        struct profile *profile;
        bool measured;
        emulated &= e->types[type].engine->emulate != NULL;
        if (model->on[type].count == 0 || e->types[type].profiles[slot])
            continue;
        int rc = profile_prepare(model, &slots->control->how[type], &progress, NULL, &profile, &measured);
        if (rc == -EINTR)
            return error_set(err, rc, "the server is shutting down");
        if (rc && rc != -EAGAIN)
            return error_set(err, rc, "%s", model->reason);
        waits |= rc == -EAGAIN;
        e->types[type].profiles[slot] = profile; /* NULL with -EAGAIN */
    }
    if (waits)
        return error_set(err, -EAGAIN, "its profile is to be measured");
    if (emulated) /* else it is what loading took when the model was measured */
        model->load_ns = residency_link_ns(model->weights_bytes, LINK_BYTES_PER_S);
    uint64_t pages = config->memory_bytes ? pages_of(model->weights_bytes, config->page_bytes) : 0;
    if (pages * config->page_bytes <= config->memory_bytes)
        return 0;
    return error_set(err, -ENOMEM, "its weights take %llu pages of %llu MiB, and an accelerator's memory has %llu",
                     (unsigned long long)pages, (unsigned long long)(config->page_bytes >> 20),
                     (unsigned long long)(config->memory_bytes / config->page_bytes));
}

static int slot_cores(struct model_slots *slots, uint32_t slot, struct sy_error *err) {
    const struct scheduling *s = slots->scheduling;
    uint32_t count = served(slots, slot)->signature.variable_shapes ? VARIANTS_MAX : 1;
    uint32_t thread = s->placements[slot].thread;

    if (!server_schedules(s->config))
        return 0;
    struct variant_id first = variants_take(slots->variant_taken, s->wiring->models, count);
    if (first.n == VARIANTS_NONE)
        return error_set(err, -EBUSY, "the scheduler has no room for one more model %s inputs of variable shapes",
                         count > 1 ? "with" : "beside those with");
    struct thread_model model = scheduling_model(s, slot);
    model.first_variant = first;
    model.variant_count = count;
    if (s->central_thread)
        central_thread_prepare(s->central_thread, &model);
    else if (model_thread_prepare(s->model_threads[thread], &model) < 0) {
        memset(slots->variant_taken + first.n, false, count);
        return error_set(err, -ENOMEM, "no memory for the queues of the model");
    }
    slots->told[slot] = model;
    for (uint32_t v = 0; v < count; v++) {
        s->wiring->thread_of_variant[first.n + v] = thread;
        if (s->wiring->place_of_variant)
            s->wiring->place_of_variant[first.n + v].n = slot;
    }
    return 0;
}

/* ---- models that share their first layers ---- */

static int executors_load(struct model_slots *slots, uint32_t slot, struct sy_error *err) {
    int rc = 0;
    for (uint32_t e = 0; e < slots->scheduling->wiring->executors && rc == 0; e++)
        rc = is_stopping(slots)
                 ? error_set(err, -EINTR, "the server is shutting down")
                 : executor_load(slots->executors->list[e], (struct place_id){slot}, slots->control->how[0].stop, err);
    return rc;
}

/* Takes a free place for a model of this key. 0 or -EBUSY with a sentence. */
static int slot_put(struct model_slots *slots, uint64_t key, uint32_t *slot, struct sy_error *err) {
    *slot = model_life_put(slots->life, key);
    if (*slot == LIFE_NONE)
        return error_set(err, -EBUSY, "the last requests of too many other models are still being answered");
    return 0;
}

static void place_enter(struct model_slots *slots, uint32_t slot);

/* Loads the prefix of a group into a place of its own, and hands it to executors and scheduler. `member`: place of a
 * model of the group, which runs on the same accelerators. */
static int prefix_enter(struct model_slots *slots, struct shared_group *group, uint32_t member, struct sy_error *err) {
    int rc = slot_put(slots, 0, &group->place, err);
    if (rc)
        return rc;
    served_model_share(served(slots, group->place), group->host);
    memcpy(served(slots, group->place)->on, served(slots, member)->on, sizeof(group->host->on));
    scheduling_host(slots->scheduling, group->place);
    struct profile *profile = shared_profile_copy(group);
    slots->executors->types[0].profiles[group->place] = profile;
    rc = profile ? executors_load(slots, group->place, err) : error_set(err, -ENOMEM, "out of memory");
    if (!rc)
        rc = slot_cores(slots, group->place, err);
    if (rc) {
        model_slot_discard(slots, group->place);
        return rc;
    }
    place_enter(slots, group->place);
    atomic_store_explicit(&served(slots, group->place)->state, MODEL_READY, memory_order_release); /* as other places */
    return 0;
}

/* Makes a place's model a member of a group. Loads the group's prefix for the first member. */
static int member_enter(struct model_slots *slots, uint32_t slot, struct shared_group *group,
                        struct shared_member *member, struct sy_error *err) {
    const struct executors *e = slots->executors;
    uint32_t number = 0;
    while (number < PART_SUFFIXES_MAX && group->taken[number])
        number++;
    if (number == PART_SUFFIXES_MAX)
        return error_set(err, -EBUSY, "%d models share its first layers already", PART_SUFFIXES_MAX);
    struct profile *profile = shared_profile_copy(group);
    int rc = !profile       ? error_set(err, -ENOMEM, "out of memory")
             : group->users ? 0
                            : prefix_enter(slots, group, slot, err);
    if (rc) {
        free(profile);
        return rc;
    }
    free((void *)e->types[0].profiles[slot]);
    e->types[0].profiles[slot] = profile;
    shared_member_apply(served(slots, slot), group, member, group->place, (uint8_t)number);
    group->places[number] = slot;
    group->taken[number] = true;
    group->users++;
    model_life_hold(slots->life, group->place, 1);
    scheduling_host(slots->scheduling, slot);
    return 0;
}

/* A place that is freed leaves its group. With the last member the prefix ends, too. */
static void member_leave(struct model_slots *slots, uint32_t slot) {
    const struct served_model *model = served(slots, slot);
    struct shared_prefixes *shared = slots->control->shared;
    for (uint32_t g = 0; g < shared->count; g++) {
        struct shared_group *group = shared->groups[g];
        if (!group->users || group->place != model->host)
            continue;
        group->taken[model->suffix] = false;
        if (--group->users == 0)
            model_life_end(slots->life, group->place);
        model_life_release(slots->life, group->place, 1);
        return;
    }
}

/* The group whose first layers a place's model shares. NULL: the model is served whole, and the log says why, if other
 * models share their first layers. */
static struct shared_group *slot_group(struct model_slots *slots, uint32_t slot, struct shared_member **member) {
    struct shared_prefixes *shared = slots->control->shared;
    const struct served_model *model = served(slots, slot);
    const struct repositories *from = &slots->control->from;
    struct shared_group *group = NULL;
    struct sy_error why = {""};
    bool found = slots->control->start_count > 0; /* whether the model is from a repository, and not from a client */
    if (!shared || !shared->searched)
        return NULL;
    for (uint32_t i = 0; i < from->count; i++) {
        const char *path = from->paths[i];
        size_t length = strlen(path);
        found |= strncmp(model->path, path, length) == 0 && (model->path[length] == '/' || path[length - 1] == '/');
    }
    if (!found)
        error_set(&why, -ENOTSUP, "a client brought it");
    else if ((*member = shared_member_find(shared, model, &group, &why)) != NULL)
        return group;
    const char *reason = *why.text ? why.text : shared_refusal_find(shared, model);
    shared_whole_log(model->name, model->version,
                     reason ? reason : "groups are formed at the start, and it was not there, or had another file");
    return NULL;
}

static int slot_model(struct model_slots *slots, uint32_t slot, struct sy_error *err) {
    const struct executors *e = slots->executors;
    struct shared_group *group;
    struct shared_member *member;
    if (!served(slots, slot)->on[0].type) /* else it was tried before */
        instances_place(served(slots, slot), e->types, e->type_count);
    int rc = slot_profile(slots, slot, err);
    const struct transform_ops *transforms = slots->control->how[0].engine->transforms;
    if (rc == 0)
        rc = slots->backend ? preparations_pack(served(slots, slot), transforms, err) /* its frontends prepare */
                            : preparations_open(served(slots, slot), transforms, err);
    if (rc == 0 && !slots->backend && served(slots, slot)->prepared)
        rc = preparer_start(slots->list->frontends->config.preparer, err);
    if (rc == 0)
        rc = served_model_labels_read(served(slots, slot), err);
    if (rc)
        return rc;
    if ((group = slot_group(slots, slot, &member)) != NULL)
        rc = member_enter(slots, slot, group, member, err);
    if (rc == 0)
        rc = executors_load(slots, slot, err);
    return rc || group ? rc : slot_cores(slots, slot, err);
}

static bool is_listed(const struct served_model *models, const struct model_index *index, const char *name) {
    for (uint32_t i = 0; i < index->count; i++)
        if (strcmp(models[index->listed[i]].name, name) == 0)
            return true;
    return false;
}

/* The places of the models that are there for requests, published or not. NULL: no memory. The caller frees it. */
static uint32_t *listed_find(const struct model_slots *slots, uint32_t *count) {
    uint32_t *listed = calloc(slots->count + 1, sizeof(*listed));
    *count = 0;
    for (uint32_t i = 0; listed && i < slots->count; i++) {
        enum life_state state = model_life_state(slots->life, i);
        if ((state == LIFE_SERVING || state == LIFE_FAILED) && slots->life->places[i].key)
            listed[(*count)++] = i;
    }
    return listed;
}

static int ensemble_fill(const struct model_slots *slots, struct served_model *ensemble, struct sy_error *err) {
    /* this thread alone publishes models */
    const struct model_index *now = atomic_load_explicit(&slots->list->now.now, memory_order_relaxed);
    uint32_t start_count = slots->control->start_count, count; /* the models of the start are all there */
    uint32_t *listed = start_count ? NULL : listed_find(slots, &count);
    if (!start_count && !listed)
        return error_set(err, -ENOMEM, "out of memory");
    const struct ensemble_world world = {.models = slots->list->models,
                                         .listed = listed,
                                         .count = start_count ? start_count : count,
                                         .accelerators = slots->executors->types,
                                         .type_count = slots->executors->type_count};
    int rc = 0;
    if (!slots->backend) /* of a cluster's ensembles the frontends make plans */
        rc = ensemble_prepare(ensemble, &world, err);
    else if (slots->control->told && is_listed(world.models, now, ensemble->name)) /* it would let the present one go */
        rc = ensemble_fits(ensemble, &world, err);
    free(listed);
    return rc ? rc : served_model_labels_read(ensemble, err);
}

int model_slot_fill(struct model_slots *slots, uint32_t slot, struct sy_error *err) {
    struct served_model *model = served(slots, slot);
    if (!model->slo_ns)
        model->slo_ns = slots->control->slo_ns;
    /* an ensemble has neither a file nor a core: its steps' models do */
    return model->ensemble ? ensemble_fill(slots, model, err) : slot_model(slots, slot, err);
}

int model_slot_load(struct model_slots *slots, struct served_model *found, uint32_t *slot, struct sy_error *err) {
    uint32_t i;
    int rc = slot_put(slots, served_model_key(found), &i, err);
    if (rc)
        return rc;
    served_model_move(served(slots, i), found);
    rc = model_slot_fill(slots, i, err);
    if (rc) {
        model_slot_discard(slots, i);
        return rc;
    }
    malloc_trim(0); /* memory that only the loading needed */
    *slot = i;
    return 0;
}

void model_slot_set_aside(struct model_slots *slots, uint32_t slot, const char *reason) {
    struct served_model *model = served(slots, slot);
    char why[sizeof(model->reason)];
    snprintf(why, sizeof(why), "%s", reason); /* it may be the model's own */
    slot_put_down(slots, slot);
    model->part = NULL;
    scheduling_host(slots->scheduling, slot);
    model_life_failed(slots->life, slot);
    served_model_refuse(model, "%s", why);
    log_error("model set aside", "model=%s reason=\"%s\"", model->name, model->reason);
}

/* ---- handing over, and taking back ---- */

/* Tells the model's thread that the model comes or goes. Takes the lock because server_balancer_look() sends that
 * thread messages, too. 0 or -EAGAIN. */
static int scheduler_tell(struct model_slots *slots, uint32_t slot, bool comes) {
    const struct scheduling *s = slots->scheduling;
    const struct thread_model *model = &slots->told[slot];
    pthread_mutex_lock(&slots->list->lock);
    int rc = comes ? wiring_model_comes(s->wiring, (struct place_id){slot}, slot % s->wiring->rank_threads)
                   : wiring_model_goes(s->wiring, (struct place_id){slot});
    if (rc == 0) {
        s->placements[slot].first_variant = model->first_variant;
        s->placements[slot].variant_count = comes ? model->variant_count : 0;
    }
    pthread_mutex_unlock(&slots->list->lock);
    return rc;
}

/* Notes what has happened to places that come or go. True: something has. */
static bool moving_look(struct model_slots *slots) {
    struct wiring *w = slots->scheduling->wiring;
    struct model_life *life = slots->life;
    struct model_answer answer;
    int64_t now_ns = clock_now_ns();
    bool any = false;
    for (uint32_t e = 0; e < w->executors; e++)
        while (wiring_model_answer(w, e, &answer)) { /* an executor that does not run the model answers, too */
            bool comes = model_life_state(life, answer.place.n) == LIFE_ENTERING;
            model_life_answer(life, answer.place.n, e, comes, now_ns);
            any = true;
        }
    MODEL_LIFE_EACH_MOVING (life, i) {
        bool comes = model_life_state(life, i) == LIFE_ENTERING;
        if (model_life_awaits(life, i, w->executors) &&
            wiring_model_is(w, slots->told[i].first_variant, slots->told[i].variant_count, comes)) {
            model_life_answer(life, i, w->executors, comes, now_ns);
            any = true;
        } else if (model_life_lingers(life, i) && !slots->stale) {
            /* nobody holds it any more: no frontend has a request; in a backend, the scheduler has given it up */
            if (slots->backend)
                backend_link_model_goes(slots->backend, i);
            if (slots->backend ? !backend_link_model_gone(slots->backend, i)
                               : frontends_hold(slots->list->frontends, i))
                continue;
            model_life_release(life, i, 1);
            any = true;
        }
    }
    return any;
}

bool model_slots_look(struct model_slots *slots) {
    struct wiring *w = slots->scheduling->wiring;
    struct life_order order;
    int64_t now_ns = clock_now_ns();
    bool any = moving_look(slots);
    for (; model_life_next(slots->life, now_ns, &order); any = true) {
        bool comes = order.kind == LIFE_ENTER;
        int rc;
        switch (order.kind) {
        case LIFE_ENTER:
        case LIFE_TAKE:
            rc = order.party < w->executors ? executors_model_command(slots->executors, order.party, order.place,
                                                                      served(slots, order.place)->version, comes)
                                            : scheduler_tell(slots, order.place, comes);
            if (rc < 0)
                model_life_again(slots->life, &order, now_ns);
            break;
        case LIFE_SHOW:
            /* release: with every load of the state before the model is read, also before it is published */
            atomic_store_explicit(&served(slots, order.place)->state, MODEL_READY, memory_order_release);
            if (slots->backend)
                backend_link_model_comes(slots->backend, order.place);
            slots->stale = true;
            break;
        case LIFE_HIDE:
            model_life_hold(slots->life, order.place, 1); /* until moving_look() */
            slots->stale = true;
            break;
        case LIFE_FREED:
            slot_free(slots, order.place);
            break;
        }
    }
    return any;
}

int64_t model_slots_wake(const struct model_slots *slots) {
    int64_t wake_ns = model_life_wake(slots->life), look_ns = clock_now_ns() + LOOK_NS;
    bool looks = slots->stale;
    MODEL_LIFE_EACH_MOVING (slots->life, i)
        looks |= !slots->backend && model_life_lingers(slots->life, i); /* else its link rings */
    return looks && look_ns < wake_ns ? look_ns : wake_ns;
}

/* Hands a place to the executors and, if it has a queue, to the scheduler. Waits until they have it. */
static void place_enter(struct model_slots *slots, uint32_t slot) {
    const struct served_model *model = served(slots, slot);
    bool scheduled = server_schedules(slots->scheduling->config) && served_model_is_scheduled(model);
    enum life_reach reach = scheduled ? LIFE_ALL : LIFE_EXECUTORS;
    struct doorbell *bell = slots->scheduling->wiring->places_bell;
    model_life_prepared(slots->life, slot, model->ensemble ? LIFE_NOBODY : reach, clock_now_ns());
    do {
        doorbell_arm(bell);
        if (model_slots_look(slots))
            doorbell_cancel(bell);
        else
            doorbell_sleep(bell, model_slots_wake(slots));
    } while (model_life_state(slots->life, slot) == LIFE_ENTERING);
}

void model_slot_discard(struct model_slots *slots, uint32_t slot) {
    model_life_failed(slots->life, slot);
    model_life_end(slots->life, slot);
    model_slots_look(slots);
}

void model_slot_enter(struct model_slots *slots, uint32_t slot) {
    if (!slots->control->start_count) /* else the place is new */
        frontends_counters_clear(slots->list->frontends, slot);
    place_enter(slots, slot);
}

void model_slot_retire(struct model_slots *slots, uint32_t slot) {
    model_life_end(slots->life, slot);
    model_slots_look(slots);
}

/* ---- publishing ---- */

int model_slots_publish(struct model_slots *slots, struct model_absent *absent, uint32_t absent_count) {
    uint32_t count, *listed = listed_find(slots, &count);
    if (!listed) {
        free(absent);
        return -ENOMEM;
    }
    int rc = model_list_publish(slots->list, listed, count, absent, absent_count, false);
    free(listed);
    slots->stale = rc < 0;
    return rc;
}

void model_slots_free(struct model_slots *slots) {
    free(slots->told);
    free(slots->variant_taken);
    free(slots->life);
}
