/* executor.c - the thread of an executor: polls for sealed batches, sleeps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "back/executor/executor_state.h"
#include "core/system/clock.h"
#include "core/system/thread.h"
#include "core/util/assert.h"

#define NEWS_AGAIN_NS  (50 * NS_PER_US)  /* time until news that found no room are told again */
#define LOST_AGAIN_NS  (100 * NS_PER_MS) /* time between two looks whether a lost thread is back */
#define ENDING_LOOK_NS (50 * NS_PER_MS)  /* time between two looks at a run while the executor ends */

/* Runs the oldest plan of each ring. False: the thread has lost the executor. */
static bool poll_plans(struct executor *x, bool *any) {
    struct wiring *w = x->wiring;

    x->wake_ns = TIME_NEVER;
    for (uint32_t t = 0; t < w->model_threads; t++) {
        struct ring *ring = wiring_plans(w, t, x->config.index);
        const struct batch_plan *plan = ring_peek(ring);
        x->plan_waits[t] = false;
        if (!plan)
            continue;
        bool dead = executor_member(x, plan->accelerator)->dead;
        if (plan->earliest_ns > clock_now_ns() && !dead) {
            x->wake_ns = plan->earliest_ns < x->wake_ns ? plan->earliest_ns : x->wake_ns;
            x->plan_waits[t] = true;
            continue;
        }
        if (dead) {
            batch_lose(x, t, plan);
            executor_publish(x);
        } else if (!batch_run(x, t, plan)) {
            return false;
        }
        ring_pop_run(ring, batch_plan_slots(plan->request_count));
        ring_release(ring);
        *any = true;
    }
    return true;
}

/* Whether there is work now, besides the plans that wait until wake_ns. */
static bool anything_pending(struct executor *x) {
    for (uint32_t t = 0; t < x->wiring->model_threads; t++)
        if (!x->plan_waits[t] && ring_pending(wiring_plans(x->wiring, t, x->config.index)))
            return true;
    if (x->loader && loader_pending(x))
        return true;
    for (uint32_t k = 0; k < x->wiring->rank_threads && x->config.memory_bytes; k++)
        if (ring_pending(wiring_orders(x->wiring, k, x->config.index)))
            return true;
    return ring_pending(&x->wiring->commands[x->config.index]) ||
           atomic_load_explicit(&x->stop, memory_order_acquire); /* with executor_stop() */
}

/* One turn; afterwards x->wake_ns says until when to sleep, if there was nothing to do. False: the thread has lost the
 * executor. */
static bool turn(struct executor *x, bool *any) {
    *any = membership_poll(x);
    if (x->loader)
        *any |= loader_poll(x);
    if (x->emulation)
        *any |= emulation_poll(x);
    else if (!poll_plans(x, any) || !engine_return(x))
        return false;
    if (x->take_count > 0)
        executor_takes_look(x);
    if (x->news && x->wake_ns > clock_now_ns() + NEWS_AGAIN_NS) /* a ring was full, and its consumer does not ring when
                                                                 * it has room again */
        x->wake_ns = clock_now_ns() + NEWS_AGAIN_NS;
    if (x->lost && x->wake_ns > clock_now_ns() + LOST_AGAIN_NS) /* no bell rings when the lost thread comes back */
        x->wake_ns = clock_now_ns() + LOST_AGAIN_NS;
    return true;
}

/* A turn that the link's thread takes, for a run that is too short to wake this thread for (backend_plans.c). */
static int64_t lent_turn(void *executor) {
    struct executor *x = executor;
    bool any;
    atomic_store_explicit(&x->lent, true,
                          memory_order_relaxed); /* a flag, which the watching thread reads much later */
    CHECK(turn(x, &any));                        /* else the process has ended (take_over()) */
    atomic_store_explicit(&x->lent, false, memory_order_relaxed);
    bool stops = atomic_load_explicit(&x->stop, memory_order_acquire); /* with executor_stop() */
    return stops ? INT64_MIN : any ? 0 : x->wake_ns;
}

void executor_serve(struct executor *x) {
    while (!atomic_load_explicit(&x->stop, memory_order_acquire)) { /* with executor_stop() */
        bool any;
        if (!turn(x, &any))
            return;
        if (any || clock_now_ns() < x->spin_until_ns)
            continue;
        struct doorbell *bell = &x->wiring->executor_bells[x->config.index];
        doorbell_arm(bell);
        if (anything_pending(x))
            doorbell_cancel(bell);
        else
            doorbell_sleep(bell, x->wake_ns);
    }
    if (!x->lost) /* else the run that was given up may use it */
        executor_unload_all(x);
    atomic_store_explicit(&x->over, true, memory_order_release); /* with executor_stop() */
    doorbell_ring(&x->told);
}

static void *executor_main(void *argument) {
    struct executor *x = argument;

    if (x->config.pin)
        thread_pin(&x->config.cores);
    thread_begin("executor", x->config.index, x->config.shared ? THREAD_SHARED : THREAD_COMPUTE);
    int rc = executor_load_all(x);
    atomic_store_explicit(&x->load_status, rc, memory_order_release); /* with executor_wait_ready() */
    doorbell_ring(&x->told);
    executor_serve(x);
    return NULL;
}

static void executor_free(struct executor *x) {
    loader_stop(x);
    doorbell_destroy(&x->told);
    emulation_free(x->emulation);
    batch_under_way_destroy(x);
    run_watch_destroy(x);
    free(x->models);
    free(x->beside);
    if (!x->gather_pinned) /* else it stays with the engine, in which a run hangs */
        free(x->gather);
    if (!x->config.running)
        free(x->counters);
    free(x->takes);
    free(x->members);
    free(x->frontend_rung);
    free(x->model_rung);
    free(x->plan_waits);
    free(x);
}

int executor_start(struct executor **executor, const struct executor_config *config, struct sy_error *err) {
    struct executor *x = aligned_alloc(CACHE_LINE, (sizeof(*x) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    int rc = -ENOMEM;

    if (!x)
        return error_set(err, rc, "no memory for accelerator %u", config->first_accelerator);
    memset(x, 0, sizeof(*x));
    x->config = *config;
    x->wiring = config->wiring;
    atomic_init(&x->load_status, 1);
    doorbell_init(&x->told, false, false);
    x->models = calloc(config->model_count + 1, sizeof(*x->models));
    x->beside = calloc(config->model_count + 1, sizeof(*x->beside));
    CHECK(!config->running || config->accelerators == 1);
    x->counters = config->running ? &config->running->counters : calloc(config->accelerators, sizeof(*x->counters));
    x->members = calloc(config->accelerators, sizeof(*x->members));
    x->takes = calloc(config->memory_bytes ? config->model_count + 1 : 1, sizeof(*x->takes));
    x->frontend_rung = calloc(x->wiring->frontends, sizeof(bool));
    x->model_rung = calloc(x->wiring->model_threads, sizeof(bool));
    x->plan_waits = calloc(x->wiring->model_threads, sizeof(bool));
    if (config->engine->emulate)
        x->emulation = emulation_new(config);
    if (!x->models || !x->beside || !x->counters || !x->members || !x->takes || !x->frontend_rung || !x->model_rung ||
        !x->plan_waits || !x->emulation != !config->engine->emulate ||
        (!x->emulation && (batch_under_way_init(x) < 0 || run_watch_init(x) < 0))) {
        error_set(err, rc, "no memory for accelerator %u", config->first_accelerator);
        goto err_free;
    }
    if (config->memory_bytes && !x->emulation && (rc = loader_start(x)) < 0) {
        error_set(err, rc, "cannot start the thread that loads models for accelerator %u", config->first_accelerator);
        goto err_free;
    }
    if (config->running && !x->emulation)
        doorbell_lend(&x->wiring->executor_bells[config->index], lent_turn, x);
    rc = -pthread_create(&x->thread, NULL, executor_main, x);
    if (rc < 0) {
        error_set(err, rc, "cannot start the thread of accelerator %u: %s", config->first_accelerator, strerror(-rc));
        goto err_free;
    }
    *executor = x;
    return 0;

err_free:
    executor_free(x);
    return rc;
}

int executor_wait_ready(struct executor *x, struct sy_error *err) {
    int status;

    for (;;) {
        doorbell_arm(&x->told);
        status = atomic_load_explicit(&x->load_status, memory_order_acquire); /* with executor_main() */
        if (status <= 0)
            break;
        doorbell_sleep(&x->told, TIME_NEVER);
    }
    doorbell_cancel(&x->told);
    if (status < 0)
        return error_set(err, status, "accelerator %u: %s", x->config.first_accelerator, x->load_error.text);
    return 0;
}

int executor_stop(struct executor *x) {
    atomic_store_explicit(&x->stop, true, memory_order_release); /* with the loop's and anything_pending()'s loads */
    doorbell_ring(&x->wiring->executor_bells[x->config.index]);
    while (!x->watching.vacant) { /* until its thread has ended; its runs are watched meanwhile */
        doorbell_arm(&x->told);
        if (!atomic_load_explicit(&x->over, memory_order_acquire)) { /* with executor_serve() */
            doorbell_sleep(&x->told, clock_now_ns() + ENDING_LOOK_NS);
            executor_watch(x, clock_now_ns(), true);
            continue;
        }
        pthread_join(x->thread, NULL);
        x->watching.vacant = true;
    }
    if (x->lost && !run_is_back(x->lost))
        return -EBUSY;
    if (x->lost) {
        if (x->lost_reads)
            request_release(x, x->lost_handle);
        pthread_join(x->lost_thread, NULL);
        executor_unload_all(x);
    }
    executor_free(x);
    return 0;
}

const struct executor_counters *executor_counters(const struct executor *x, uint32_t accelerator) {
    return &x->counters[accelerator - x->config.first_accelerator];
}
