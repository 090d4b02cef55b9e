/* model_slots.c - loads models into places, hands them to the serving threads, and frees them when no request holds
 * them. */
#include "server/process/model_slots.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster/roles/backend_link.h"
#include "core/system/log.h"
#include "core/util/assert.h"
#include "core/util/container.h"
#include "core/util/counter.h"
#include "front/request/infer_counters.h"
#include "front/request/preparer.h"
#include "model/config/preparations.h"
#include "model/prefix/shared_prefixes.h"
#include "model/profile/prepare.h"
#include "server/process/ensembles.h"
#include "server/process/instances.h"

#define WAIT_NS (200 * NS_PER_US) /* time between two checks whether other threads are done */

static void wait_a_little(void) {
    const struct timespec ts = {.tv_nsec = WAIT_NS};
    nanosleep(&ts, NULL);
}

int model_slots_init(struct model_slots *slots, struct server *server, const struct repository_control *control) {
    *slots = (struct model_slots){.server = server, .control = control, .count = server->config.model_count};
    slots->slots = calloc(slots->count + 1, sizeof(*slots->slots));
    slots->variant_taken = calloc(server->wiring.models + 1, sizeof(bool));
    if (!slots->slots || !slots->variant_taken)
        return -ENOMEM;
    return 0;
}

/* ---- loading ---- */

static struct served_model *served(const struct model_slots *slots, uint32_t slot) {
    return &slots->server->config.models[slot];
}

static void member_leave(struct model_slots *slots, uint32_t slot);

/* Whether a place's model is from a repository, and not from a client. */
static bool is_in_repository(const struct model_slots *slots, uint32_t slot) {
    const struct repositories *from = &slots->control->from;
    const char *path = served(slots, slot)->path;
    for (uint32_t i = 0; i < from->count; i++) {
        size_t length = strlen(from->paths[i]);
        if (strncmp(path, from->paths[i], length) == 0 && (path[length] == '/' || from->paths[i][length - 1] == '/'))
            return true;
    }
    return false;
}

/* Frees all that a place owns. No other thread uses the place any more. */
static void slot_free(struct model_slots *slots, uint32_t index) {
    struct server *s = slots->server;
    struct model_slot *slot = &slots->slots[index];

    memset(slots->variant_taken + slot->model.first_variant, false, slot->model.variant_count);
    slot->model.variant_count = 0;
    if (server_schedules(s) && !s->central_thread && !served(slots, index)->ensemble)
        model_thread_forget(s->model_threads[s->placements[index].thread], index);
    for (uint32_t e = 0; e < s->wiring.executors && !served(slots, index)->ensemble; e++)
        executor_unload(s->executors[e], index);
    for (uint32_t type = 0; type < s->config.type_count; type++) {
        free((void *)s->config.accelerators[type].profiles[index]);
        s->config.accelerators[type].profiles[index] = NULL;
    }
    served_model_labels_free(served(slots, index));
    preparations_close(served(slots, index));
    ensemble_release(served(slots, index));
    if (served_model_is_suffix(served(slots, index)))
        member_leave(slots, index);
    served(slots, index)->part = NULL;
    served(slots, index)->suffixes = NULL;
    server_model_host(s, index);
    slot->use = SLOT_FREE;
    atomic_store_explicit(&served(slots, index)->state, MODEL_LOADING, memory_order_relaxed); /* nobody sees it */
    malloc_trim(0);
}

static bool is_stopping(const struct model_slots *slots) {
    return atomic_load_explicit(slots->control->how[0].stop, memory_order_relaxed); /* a lone flag */
}

/* Measures or finds the model's profile on every type of accelerators, and completes the model from its file. */
static int slot_profile(struct model_slots *slots, uint32_t slot, struct sy_error *err) {
    struct server *s = slots->server;
    struct served_model *model = served(slots, slot);

    for (uint32_t type = 0; type < s->config.type_count; type++) {
        struct profile_progress progress = {.model = model->name, .count = 1};
        struct profile *profile;
        bool measured;
        if (model->on[type].count == 0)
            continue;
        int rc = profile_prepare(model, &slots->control->how[type], &progress, NULL, &profile, &measured);
        if (rc == -EINTR)
            return error_set(err, rc, "the server is shutting down");
        if (rc)
            return error_set(err, rc, "%s", model->reason);
        s->config.accelerators[type].profiles[slot] = profile;
    }
    return 0;
}

static int slot_cores(struct model_slots *slots, uint32_t slot, struct sy_error *err) {
    struct server *s = slots->server;
    uint32_t count = served(slots, slot)->signature.variable_shapes ? VARIANTS_MAX : 1;
    uint32_t thread = s->placements[slot].thread;

    if (!server_schedules(s))
        return 0;
    uint32_t first = variants_take(slots->variant_taken, s->wiring.models, count);
    if (first == VARIANTS_NONE)
        return error_set(err, -EBUSY,
                         "the scheduler has no room for another model, or not for one with inputs of variable shapes "
                         "(--max-models %u)",
                         slots->control->models_max);
    struct thread_model model = server_thread_model(s, slot);
    model.first_variant = first;
    model.variant_count = count;
    if (s->central_thread)
        central_thread_prepare(s->central_thread, &model);
    else if (model_thread_prepare(s->model_threads[thread], &model) < 0) {
        memset(slots->variant_taken + first, false, count);
        return error_set(err, -ENOMEM, "no memory for the queues of the model");
    }
    slots->slots[slot].model = model;
    for (uint32_t v = 0; v < count; v++)
        s->wiring.thread_of_model[first + v] = thread;
    return 0;
}

/* An ensemble has neither a file nor a core: its steps' models do. */
static int slot_ensemble(struct model_slots *slots, uint32_t slot, struct sy_error *err) {
    struct server *s = slots->server;
    /* this thread alone publishes models */
    const struct model_index *now = atomic_load_explicit(&s->models.now, memory_order_relaxed);
    const struct ensemble_world world = {.models = s->config.models,
                                         .listed = now->listed,
                                         .count = now->count,
                                         .accelerators = s->config.accelerators,
                                         .type_count = s->config.type_count};
    int rc = s->backend_link ? 0 : ensemble_prepare(served(slots, slot), &world, err); /* a cluster's frontends do it */
    return rc ? rc : served_model_labels_read(served(slots, slot), err);
}

/* ---- models that share their first layers ---- */

static int executors_load(struct model_slots *slots, uint32_t slot, struct sy_error *err) {
    struct server *s = slots->server;
    int rc = 0;
    for (uint32_t e = 0; e < s->wiring.executors && rc == 0; e++)
        rc = is_stopping(slots) ? error_set(err, -EINTR, "the server is shutting down")
                                : executor_load(s->executors[e], slot, slots->control->how[0].stop, err);
    return rc;
}

static int slot_find(const struct model_slots *slots, uint32_t *slot, struct sy_error *err) {
    uint32_t i = 0;
    while (i < slots->count && slots->slots[i].use != SLOT_FREE)
        i++;
    *slot = i;
    if (i == slots->count)
        return error_set(err, -EBUSY, "the last requests of too many other models are still being answered");
    return 0;
}

static void place_enter(struct model_slots *slots, uint32_t slot);
static void place_leave(struct model_slots *slots, uint32_t slot);

/* Loads the prefix of a group into a place of its own, and hands it to executors and scheduler. */
static int prefix_enter(struct model_slots *slots, struct shared_group *group, struct sy_error *err) {
    struct server *s = slots->server;
    int rc = slot_find(slots, &group->place, err);
    if (rc)
        return rc;
    served_model_copy(served(slots, group->place), group->host);
    slots->slots[group->place].use = SLOT_PREFIX;
    server_model_host(s, group->place);
    struct profile *profile = shared_profile_copy(group);
    s->config.accelerators[0].profiles[group->place] = profile;
    rc = profile ? executors_load(slots, group->place, err) : error_set(err, -ENOMEM, "out of memory");
    if (!rc)
        rc = slot_cores(slots, group->place, err);
    if (rc) {
        slot_free(slots, group->place);
        return rc;
    }
    place_enter(slots, group->place);
    atomic_store_explicit(&served(slots, group->place)->state, MODEL_READY, memory_order_release); /* as other places */
    return 0;
}

/* Makes a place's model a member of a group. Loads the group's prefix for the first member. */
static int member_enter(struct model_slots *slots, uint32_t slot, struct shared_group *group,
                        struct shared_member *member, struct sy_error *err) {
    struct server *s = slots->server;
    uint32_t number = 0;
    while (number < PART_SUFFIXES_MAX && group->taken[number])
        number++;
    if (number == PART_SUFFIXES_MAX)
        return error_set(err, -EBUSY, "%d models share its first layers already", PART_SUFFIXES_MAX);
    struct profile *profile = shared_profile_copy(group);
    int rc = !profile ? error_set(err, -ENOMEM, "out of memory") : group->users ? 0 : prefix_enter(slots, group, err);
    if (rc) {
        free(profile);
        return rc;
    }
    free((void *)s->config.accelerators[0].profiles[slot]);
    s->config.accelerators[0].profiles[slot] = profile;
    shared_member_apply(served(slots, slot), group, member, group->place, (uint8_t)number);
    group->places[number] = slot;
    group->taken[number] = true;
    group->users++;
    server_model_host(s, slot);
    return 0;
}

/* A place that is freed leaves its group. The last member to leave frees the prefix, too. */
static void member_leave(struct model_slots *slots, uint32_t slot) {
    const struct served_model *model = served(slots, slot);
    struct shared_prefixes *shared = slots->control->shared;
    for (uint32_t g = 0; g < shared->count; g++) {
        struct shared_group *group = shared->groups[g];
        if (!group->users || group->place != model->host)
            continue;
        group->taken[model->suffix] = false;
        if (--group->users > 0)
            return;
        place_leave(slots, group->place);
        slot_free(slots, group->place);
        return;
    }
}

/* The group whose first layers a place's model shares. NULL: the model is served whole, and the log says why, if other
 * models share their first layers. */
static struct shared_group *slot_group(struct model_slots *slots, uint32_t slot, struct shared_member **member) {
    struct shared_prefixes *shared = slots->control->shared;
    const struct served_model *model = served(slots, slot);
    struct shared_group *group = NULL;
    struct sy_error why = {""};
    if (!shared || !shared->searched)
        return NULL;
    if (!is_in_repository(slots, slot))
        error_set(&why, -ENOTSUP, "a client brought it");
    else if ((*member = shared_member_find(shared, model, &group, &why)) != NULL)
        return group;
    const char *reason = *why.text ? why.text : shared_refusal_find(shared, model);
    shared_whole_log(model->name, model->version,
                     reason ? reason : "groups are formed at the start, and it was not there, or had another file");
    return NULL;
}

static int slot_model(struct model_slots *slots, uint32_t slot, struct sy_error *err) {
    struct server *s = slots->server;
    struct shared_group *group;
    struct shared_member *member;
    instances_place(served(slots, slot), s->config.accelerators, s->config.type_count);
    int rc = slot_profile(slots, slot, err);
    const struct transform_ops *transforms = slots->control->how[0].engine->transforms;
    if (rc == 0)
        rc = s->backend_link ? preparations_pack(served(slots, slot), transforms, err) /* its frontends prepare */
                             : preparations_open(served(slots, slot), transforms, err);
    if (rc == 0 && !s->backend_link && served(slots, slot)->prepared)
        rc = preparer_start(s->preparer, err);
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

int model_slot_load(struct model_slots *slots, struct served_model *found, uint32_t *slot, struct sy_error *err) {
    uint32_t i;
    int rc = slot_find(slots, &i, err);
    if (rc)
        return rc;
    struct served_model *model = served(slots, i);
    served_model_copy(model, found);
    found->ensemble = NULL; /* the place owns the ensemble from now on */
    if (!model->slo_ns)
        model->slo_ns = slots->control->slo_ns;
    slots->slots[i].use = SLOT_LOADED;
    rc = model->ensemble ? slot_ensemble(slots, i, err) : slot_model(slots, i, err);
    if (rc) {
        slot_free(slots, i);
        return rc;
    }
    malloc_trim(0); /* memory that only the loading needed */
    *slot = i;
    return 0;
}

/* ---- handing over, and taking back ---- */

/* Makes the model resident on every executor, or no longer resident, and waits until they have answered. */
static void executors_tell(struct model_slots *slots, uint32_t slot, bool resident) {
    struct server *s = slots->server;
    struct model_answer answer;

    for (uint32_t e = 0; e < s->wiring.executors; e++)
        while (server_model_command(s, e, slot, resident) == -EAGAIN)
            wait_a_little();
    for (uint32_t e = 0; e < s->wiring.executors; e++) {
        while (!wiring_model_answer(&s->wiring, e, &answer))
            wait_a_little();
        CHECK_EQ(answer.served_model, slot); /* only this thread gives such orders */
    }
}

/* Waits until the scheduler has all variants of a model (`there`), or none. */
static void scheduler_await(const struct model_slots *slots, const struct thread_model *model, bool there) {
    for (uint32_t v = 0; v < model->variant_count; v++)
        while ((wiring_part(&slots->server->wiring, model->first_variant + v) != PART_NOBODY) != there)
            wait_a_little();
}

/* Tells the model's thread that the model comes or goes, and waits until it has come or gone. Takes the lock because
 * server_balance() sends that thread messages, too. */
static void scheduler_tell(struct model_slots *slots, uint32_t slot, bool comes) {
    struct server *s = slots->server;
    const struct thread_model *model = &slots->slots[slot].model;
    int rc;

    do {
        pthread_mutex_lock(&s->models_lock);
        rc = comes ? wiring_model_comes(&s->wiring, slot, slot % s->wiring.rank_threads)
                   : wiring_model_goes(&s->wiring, slot);
        if (rc == 0) {
            s->placements[slot].first_variant = comes ? model->first_variant : 0;
            s->placements[slot].variant_count = comes ? model->variant_count : 0;
        }
        pthread_mutex_unlock(&s->models_lock);
        if (rc)
            wait_a_little();
    } while (rc);
    scheduler_await(slots, model, comes);
}

/* place_enter() hands a place to the executors and, if it has a queue, to the scheduler; place_leave() takes it back.
 */
static void place_enter(struct model_slots *slots, uint32_t slot) {
    if (served(slots, slot)->ensemble)
        return;
    executors_tell(slots, slot, true);
    if (server_schedules(slots->server) && served_model_is_scheduled(served(slots, slot)))
        scheduler_tell(slots, slot, true);
}

static void place_leave(struct model_slots *slots, uint32_t slot) {
    if (served(slots, slot)->ensemble)
        return;
    if (server_schedules(slots->server) && served_model_is_scheduled(served(slots, slot)))
        scheduler_tell(slots, slot, false);
    executors_tell(slots, slot, false);
}

void model_slot_discard(struct model_slots *slots, uint32_t slot) {
    CHECK_EQ(slots->slots[slot].use, SLOT_LOADED);
    slot_free(slots, slot);
}

void model_slot_enter(struct model_slots *slots, uint32_t slot) {
    struct server *s = slots->server;

    for (uint32_t f = 0; f < server_frontends(s); f++) { /* the counts are of the model that had the place before */
        const struct infer_counters *counters = server_infer_counters(s, f);
        struct step_counters *steps = infer_counters_steps_of(counters, slot);
        counters_clear(&counters->models[slot], sizeof(struct model_infer_counters));
        if (steps)
            counters_clear(steps, sizeof(*steps));
    }
    place_enter(slots, slot);
    slots->slots[slot].use = SLOT_SERVING;
    slots->serving++;
    /* release: with every load of the state before the model is read, also before it is published */
    atomic_store_explicit(&served(slots, slot)->state, MODEL_READY, memory_order_release);
    if (s->backend_link)
        backend_link_model_comes(s->backend_link, slot);
}

/* Whether no frontend holds a place's model any more; in a backend, whether the scheduler has given the model up. */
static bool is_left(struct server *s, uint32_t slot) {
    if (!s->backend_link)
        return !server_model_held(s, slot);
    backend_link_model_goes(s->backend_link, slot);
    return backend_link_model_gone(s->backend_link, slot);
}

void model_slot_retire(struct model_slots *slots, uint32_t slot) {
    CHECK_EQ(slots->slots[slot].use, SLOT_SERVING);
    slots->slots[slot].use = SLOT_RETIRED;
    slots->serving--;
    slots->retired++;
}

bool model_slots_drain(struct model_slots *slots) {
    bool left = false;

    for (uint32_t i = 0; i < slots->count; i++) {
        if (slots->slots[i].use != SLOT_DRAINING)
            continue;
        if (!is_left(slots->server, i)) {
            left = true;
            continue;
        }
        place_leave(slots, i);
        slot_free(slots, i);
    }
    return left;
}

/* ---- publishing ---- */

static int name_compare(const void *a, const void *b, void *context) {
    const struct served_model *models = context, *x = &models[*(const uint32_t *)a], *y = &models[*(const uint32_t *)b];
    int order = strcmp(x->name, y->name);
    return order ? order : (x->version > y->version) - (x->version < y->version);
}

static uint32_t serving_list(const struct model_slots *slots, uint32_t *listed) {
    uint32_t count = 0;

    for (uint32_t i = 0; i < slots->count; i++)
        if (slots->slots[i].use == SLOT_SERVING)
            listed[count++] = i;
    qsort_r(listed, count, sizeof(*listed), name_compare, slots->server->config.models);
    return count;
}

int model_slots_publish(struct model_slots *slots, const struct model_absent *absent, uint32_t absent_count) {
    uint32_t *listed = calloc(slots->count + 1, sizeof(*listed));
    if (!listed)
        return -ENOMEM;
    int rc = server_models_publish(slots->server, listed, serving_list(slots, listed), absent, absent_count, false);
    free(listed);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < slots->count; i++)
        if (slots->slots[i].use == SLOT_RETIRED)
            slots->slots[i].use = SLOT_DRAINING; /* it is no longer in the published list */
    slots->retired = 0;
    return 0;
}

void model_slots_free(struct model_slots *slots) {
    free(slots->slots);
    free(slots->variant_taken);
}
