/* repository_control.c - the thread that loads and unloads models: carries out orders, and checks the repository for
 * changes. */
#include "server/models/repository_control_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/backend_link.h"
#include "core/system/clock.h"
#include "core/system/thread.h"
#include "front/request/repository_order.h"
#include "model/config/model_override.h"
#include "server/models/deployment.h"

/* ---- orders ---- */

/* Makes the server ready: the models of the start are loaded, or could not be. */
static void begin(struct repository_thread *t) {
    pass_begin(t, PASS_NONE);
    progress_tell(t, 0, 0);
    if (t->control.start_count && !t->slots.life->serving) {
        deployment_nothing(&t->control, t->slots.list->models, &t->failure);
        atomic_store_explicit(&t->failed, true, memory_order_release); /* with repository_thread_failed() */
        return;
    }
    if (t->slots.backend && !t->joins_at_once)
        backend_link_begin(t->slots.backend);
    if (t->running)
        atomic_store_explicit(&t->running->prepared, true, memory_order_release); /* with wait_until_heard() */
    executors_cold_warn(t->slots.executors, t->slots.scheduling->config);
    readiness_begin(t->readiness);
    known_publish(t); /* wakes the frontends: clients may wait for this */
}

/* Tells how the versions of a model are known to the scheduler of a cluster and its frontends. */
static void versions_tell(struct repository_thread *t, const struct places *of, struct repository_order *order) {
    for (uint32_t i = 0; i < of->count && i < VERSIONS_MAX && t->slots.backend; i++)
        order->versions[order->version_count++] = backend_link_model_hash(t->slots.backend, of->slots[i]);
}

static void carry_out(struct repository_thread *t, struct repository_order *order) {
    bool prepare = order->kind == ORDER_PREPARE;
    struct model_override override;
    int status = 200;
    if (prepare || order->kind == ORDER_DISCARD)
        loading_discard(t, &t->prepared);
    if (order->kind == ORDER_COMMIT && t->prepared.loaded.count > 0)
        loading_commit(t, &t->prepared);
    if (order->kind == ORDER_BEGIN)
        begin(t);
    if (order->kind == ORDER_LOAD || order->kind == ORDER_UNLOAD || prepare) {
        status = order_read(order, &override, &order->error);
        if (status == 0 && order->kind != ORDER_UNLOAD) {
            known_order_look(t, order->name);
            status = known_load(t, order->name, &override, prepare ? &t->prepared : NULL, &order->error);
        } else if (status == 0) {
            if (override.unload_dependents)
                known_unload_dependents(t, order->name);
            else
                known_unload(t, order->name);
            status = 200;
        }
        model_override_free(&override);
    }
    const struct known_model *k = prepare && status == 200 ? known_find(t, order->name) : NULL;
    if (k)
        versions_tell(t, t->prepared.loaded.count > 0 ? &t->prepared.loaded : &k->serving, order);
    order->status = (unsigned)status;
    order_return(order);
}

static void *repository_main(void *argument) {
    struct repository_thread *t = argument;
    thread_begin("repository", 0, THREAD_BACKGROUND);
    pass_begin(t, PASS_CACHED);
    if (t->joins_at_once)
        backend_link_begin(t->slots.backend);
    start_serve(t);
    if (t->control.told)
        pass_begin(t, PASS_NONE);
    else if (!is_stopped(t))
        begin(t);
    while (!is_stopped(t)) {
        for (struct repository_order *order = desk_take(t->desk), *next; order; order = next) {
            next = order_next(order);
            carry_out(t, order);
            known_drain(t);
        }
        known_drain(t);
        if (clock_now_ns() >= t->look_ns) {
            if (t->control.mode == CONTROL_POLL) {
                known_follow(t);
            } else {
                known_look(t);
                known_publish(t);
            }
        }
        doorbell_arm(&t->desk->bell);
        bool busy = model_slots_look(&t->slots);
        int64_t until_ns = model_slots_wake(&t->slots);
        until_ns = t->look_ns < until_ns ? t->look_ns : until_ns;
        if (busy || desk_pending(t->desk) || is_stopped(t))
            doorbell_cancel(&t->desk->bell);
        else
            doorbell_sleep(&t->desk->bell, until_ns);
    }
    desk_close(t->desk);
    atomic_store_explicit(&t->ended, true, memory_order_release); /* with repository_thread_ended() */
    return NULL;
}

/* ---- start and end ---- */

struct repository_desk *repository_desk_create(void) {
    struct repository_desk *desk =
        aligned_alloc(CACHE_LINE, (sizeof(*desk) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!desk)
        return NULL;
    memset(desk, 0, sizeof(*desk));
    doorbell_init(&desk->bell, false, false);
    return desk;
}

int repository_thread_start(struct repository_thread **thread, const struct repository_thread_config *config,
                            struct sy_error *err) {
    struct repository_thread *t = calloc(1, sizeof(*t));
    if (!t)
        return error_set(err, -ENOMEM, "no memory for the repository's thread");
    t->control = *config->control;
    t->desk = config->desk;
    t->readiness = config->readiness;
    t->joins_at_once = config->joins_at_once;
    t->running = config->running;
    t->look_ns = TIME_NEVER;
    for (uint32_t type = 0; type < ACCELERATOR_TYPES_MAX; type++) {
        t->control.how[type].stop = &t->stop;
        t->control.how[type].twins = &t->twins[type];
        if (!t->control.how[type].progress) {
            t->control.how[type].progress = start_measures;
            t->control.how[type].context = t;
        }
    }
    t->slots = (struct model_slots){.control = &t->control,
                                    .list = config->list,
                                    .executors = config->executors,
                                    .scheduling = config->scheduling,
                                    .backend = config->backend};
    int rc = model_slots_init(&t->slots);
    if (rc < 0) {
        error_set(err, rc, "no memory for the places of %u models", config->list->count);
        goto err_free;
    }
    rc = -pthread_create(&t->thread, NULL, repository_main, t);
    if (rc < 0) {
        error_set(err, rc, "cannot start the repository's thread: %s", strerror(-rc));
        goto err_free;
    }
    *thread = t;
    return 0;

err_free:
    repository_thread_free(t);
    return rc;
}

bool repository_thread_failed(const struct repository_thread *t, struct sy_error *err) {
    if (!t || !atomic_load_explicit(&t->failed, memory_order_acquire)) /* with begin() */
        return false;
    *err = t->failure;
    return true;
}

void repository_thread_quit(struct repository_thread *t) {
    if (!t)
        return;
    atomic_store_explicit(&t->stop, true, memory_order_relaxed); /* a lone flag; ringing the bell orders it */
    doorbell_ring(&t->desk->bell);
}

bool repository_thread_ended(const struct repository_thread *t) {
    return !t || atomic_load_explicit(&t->ended, memory_order_acquire);
}

void repository_thread_stop(struct repository_thread *t) {
    if (!t)
        return;
    repository_thread_quit(t);
    pthread_join(t->thread, NULL);
}

void repository_thread_free(struct repository_thread *t) {
    if (!t)
        return;
    model_slots_free(&t->slots);
    for (uint32_t type = 0; type < ACCELERATOR_TYPES_MAX; type++)
        twins_free(&t->twins[type]);
    free(t->prepared.loaded.slots);
    for (uint32_t i = 0; i < t->known_count; i++) {
        free(t->known[i].serving.slots);
        free(t->known[i].draining.slots);
    }
    free(t->known);
    free(t);
}
