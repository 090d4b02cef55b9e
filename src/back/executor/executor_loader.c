/* executor_loader.c - loads and unloads the models of a real accelerator whose memory is limited, beside its runs.
 *
 *     rank or central thread --order--> executor --job--> loader: one after the other
 *                           <--answer--         <--job--
 *
 * The executor takes orders between runs. It puts a model that is to be unloaded into `beside` before the loader hears
 * of it, and takes a model that has been loaded from there. So the loader never touches what may run. It alone counts
 * pages: weights are loaded only into pages that unloaded ones have left.
 *
 * Where the engine can, a model that is unloaded stays open without its weights, since to load it again then takes a
 * fraction of the time: the last OPEN_MOST of an accelerator. One that goes for good is closed. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "back/executor/executor_state.h"
#include "core/data/residency.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/thread.h"
#include "core/util/assert.h"

#define OWN_MOST  32  /* unloads of models that go, at a time */
#define OPEN_MOST 256 /* each keeps some hundred KB */

struct loader_job {
    struct move_order order;
    bool refused; /* it is not to be done */
    bool own;     /* nobody waits for it: the model goes */
    bool done, failed;
    int64_t begin_ns, end_ns;
};

struct loader {
    struct executor *executor;
    struct ring jobs, ended; /* struct loader_job: to the loader, and back */
    struct doorbell bell;    /* of the loader */
    pthread_t thread;
    _Atomic bool stop;
    /* owned by the loader */
    uint32_t pages_free;
    struct executor_model *open; /* [model_count] models that are open without their weights */
    uint32_t opened[OPEN_MOST];  /* places of these, the one that has been so for the longest first */
    uint32_t open_count;
    /* owned by the executor */
    uint32_t jobs_out;           /* jobs that have not come back */
    uint32_t own_out, empty_out; /* of these, own ones; those that empty the memory */
    uint32_t void_out;           /* of these, the first ones: before the newest that empties the memory */
    uint8_t *out_of;             /* [model_count] jobs about the model that have not come back */
    bool *maybe_open;            /* [model_count] whether the model may be open without its weights */
    uint32_t resident;           /* models that are resident */
    uint64_t resident_pages;
};

/* ---- the loader ---- */

static uint32_t pages_at(const struct executor *x, uint32_t place) {
    return pages_of(x->config.models[place].weights_bytes, x->config.page_bytes);
}

/* A model that is open without its weights is so no longer: it becomes beside[place]. */
static void open_end(struct loader *l, uint32_t place) {
    uint32_t i = 0;
    while (l->opened[i] != place)
        i++;
    memmove(&l->opened[i], &l->opened[i + 1], (--l->open_count - i) * sizeof(*l->opened));
    l->executor->beside[place] = l->open[place];
    l->open[place] = (struct executor_model){.model = NULL};
}

/* Closes a model that is open without its weights. */
static void open_close(struct loader *l, uint32_t place) {
    open_end(l, place);
    executor_unload_beside(l->executor, (struct place_id){place});
}

/* Brings back the weights of a model that is open. False: it is not, or is no longer. */
static bool model_page_in(struct loader *l, uint32_t place) {
    const struct executor *x = l->executor;
    struct sy_error err = {.text = ""};

    if (!l->open[place].model)
        return false;
    int rc = x->config.engine->page_in(l->open[place].model, &err);
    if (rc < 0) {
        log_warn("weights do not come back: the model is loaded anew", "model=%s accelerator=%u reason=\"%s\"",
                 x->config.models[place].name, x->config.first_accelerator, err.text);
        open_close(l, place);
        return false;
    }
    open_end(l, place);
    log_debug("weights are back", "model=%s accelerator=%u", x->config.models[place].name, x->config.first_accelerator);
    return true;
}

/* Leaves the model of beside[place] open without its weights. False: it cannot be. */
static bool model_page_out(struct loader *l, uint32_t place) {
    struct executor *x = l->executor;
    const struct engine_ops *engine = x->config.engine;

    int rc = engine->page_out ? engine->page_out(x->beside[place].model) : -ENOTSUP;
    while (rc == -ENOSPC && l->open_count > 0) {
        open_close(l, l->opened[0]);
        rc = engine->page_out(x->beside[place].model);
    }
    if (rc < 0)
        return false;
    if (l->open_count == OPEN_MOST)
        open_close(l, l->opened[0]);
    l->opened[l->open_count++] = place;
    l->open[place] = x->beside[place];
    x->beside[place] = (struct executor_model){.model = NULL};
    return true;
}

static void model_load(struct loader *l, struct loader_job *job) {
    struct executor *x = l->executor;
    uint32_t place = job->order.place.n;
    struct sy_error err = {.text = ""};

    if (pages_at(x, place) > l->pages_free || x->beside[place].model)
        return;
    int rc = model_page_in(l, place) ? 0 : executor_load_beside(x, job->order.place, &l->stop, &err);
    if (rc < 0) {
        job->failed = rc != -EINTR;
        log_error("model cannot be loaded", "model=%s accelerator=%u reason=\"%s\"", x->config.models[place].name,
                  x->config.first_accelerator, err.text);
        return;
    }
    job->done = x->beside[place].model != NULL; /* else it does not run on accelerators of this type */
    if (job->done)
        l->pages_free -= pages_at(x, place);
}

/* `goes`: the model does not come back. True: it was closed. */
static bool model_unload(struct loader *l, uint32_t place, bool goes) {
    bool loaded = l->executor->beside[place].model != NULL, closed = goes;
    if (goes && l->open[place].model)
        open_close(l, place);
    if (loaded && (goes || !model_page_out(l, place))) {
        executor_unload_beside(l->executor, (struct place_id){place});
        closed = true;
    }
    l->pages_free += loaded ? pages_at(l->executor, place) : 0;
    return closed;
}

static void job_do(struct loader *l, struct loader_job *job) {
    job->begin_ns = clock_now_ns();
    job->refused |= job->begin_ns > job->order.latest_ns;
    if (job->refused)
        return;
    bool closed = false;
    switch ((enum central_action_kind)job->order.kind) {
    case CENTRAL_LOAD:
        model_load(l, job);
        break;
    case CENTRAL_UNLOAD:
        closed = model_unload(l, job->order.place.n, job->own);
        job->done = true;
        break;
    case CENTRAL_EMPTY:
        for (uint32_t place = 0; place < l->executor->config.model_count; place++)
            closed |= model_unload(l, place, false);
        job->done = true;
        break;
    case CENTRAL_RUN:
        break;
    }
    if (closed)
        malloc_trim(0);
}

static bool stops(const struct loader *l) {
    return atomic_load_explicit(&l->stop, memory_order_acquire); /* with loader_stop() */
}

static void *loader_main(void *argument) {
    struct loader *l = argument;
    const struct executor *x = l->executor;

    thread_begin("loader", x->config.index, THREAD_SHARED);
    while (!stops(l)) {
        const struct loader_job *next = ring_peek(&l->jobs);
        if (!next) {
            doorbell_arm(&l->bell);
            if (ring_pending(&l->jobs) || stops(l))
                doorbell_cancel(&l->bell);
            else
                doorbell_sleep(&l->bell, TIME_NEVER);
            continue;
        }
        struct loader_job job = *next, *back = ring_reserve(&l->ended);
        ring_pop(&l->jobs);
        ring_release(&l->jobs);
        job_do(l, &job);
        job.end_ns = clock_now_ns();
        CHECK(back); /* both rings have room for all orders that an accelerator may have */
        *back = job;
        ring_push(&l->ended);
        ring_publish(&l->ended);
        doorbell_ring(&x->wiring->executor_bells[x->config.index]);
    }
    return NULL;
}

int loader_start(struct executor *x) {
    struct loader *l = aligned_alloc(CACHE_LINE, (sizeof(*l) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);

    if (!l)
        return -ENOMEM;
    memset(l, 0, sizeof(*l));
    l->executor = x;
    l->pages_free = (uint32_t)(x->config.memory_bytes / x->config.page_bytes);
    doorbell_init(&l->bell, false, false);
    l->out_of = calloc(x->config.model_count + 1, 1);
    l->maybe_open = calloc(x->config.model_count + 1, sizeof(*l->maybe_open));
    l->open = calloc(x->config.model_count + 1, sizeof(*l->open));
    int rc = l->out_of && l->maybe_open && l->open
                 ? ring_init(&l->jobs, MEMORY_ORDERS_MOST + OWN_MOST, sizeof(struct loader_job))
                 : -ENOMEM;
    if (rc == 0)
        rc = ring_init(&l->ended, MEMORY_ORDERS_MOST + OWN_MOST, sizeof(struct loader_job));
    if (rc == 0)
        rc = -pthread_create(&l->thread, NULL, loader_main, l);
    if (rc < 0) {
        ring_destroy(&l->jobs);
        ring_destroy(&l->ended);
        free(l->out_of);
        free(l->maybe_open);
        free(l->open);
        free(l);
        return rc;
    }
    x->loader = l;
    return 0;
}

void loader_stop(struct executor *x) {
    struct loader *l = x->loader;

    if (!l)
        return;
    atomic_store_explicit(&l->stop, true, memory_order_release); /* with stops() */
    doorbell_ring(&l->bell);
    pthread_join(l->thread, NULL);
    ring_destroy(&l->jobs);
    ring_destroy(&l->ended);
    doorbell_destroy(&l->bell);
    while (l->open_count > 0)
        open_close(l, l->opened[0]);
    free(l->open);
    free(l->maybe_open);
    free(l->out_of);
    free(l);
    x->loader = NULL;
}

/* ---- the executor ---- */

/* Hands a resident model back to the loader. */
static void put_beside(struct executor *x, uint32_t place) {
    if (!x->models[place].model || x->beside[place].model)
        return;
    x->beside[place] = x->models[place];
    x->models[place] = (struct executor_model){.model = NULL};
    x->loader->maybe_open[place] = x->config.engine->page_out != NULL;
    x->loader->resident--;
    x->loader->resident_pages -= pages_at(x, place);
}

/* Hands the job that was reserved to the loader. */
static void job_push(struct loader *l, const struct loader_job *job) {
    l->jobs_out++;
    l->own_out += job->own;
    l->empty_out += job->order.kind == CENTRAL_EMPTY;
    l->out_of[job->order.place.n] += job->order.kind != CENTRAL_EMPTY;
    ring_push(&l->jobs);
}

/* Makes an order a job of the loader's; for orders_poll(). */
static void take_order(struct executor *x, const struct move_order *order) {
    struct loader *l = x->loader;
    struct loader_job *job = ring_reserve(&l->jobs);

    CHECK(job); /* beside own ones, an accelerator has no more orders at a time than the ring has slots */
    *job = (struct loader_job){.order = *order, .refused = executor_member(x, order->accelerator)->dead};
    if (order->kind == CENTRAL_EMPTY && !job->refused) {
        for (uint32_t place = 0; place < x->config.model_count; place++)
            put_beside(x, place);
        l->void_out = l->jobs_out; /* what these load is unloaded with the rest */
    }
    if (order->kind == CENTRAL_UNLOAD && !job->refused)
        put_beside(x, order->place.n);
    job_push(l, job);
}

bool loader_holds(struct executor *x, struct place_id place) {
    struct loader *l = x->loader;
    bool moves = l->out_of[place.n] > 0 || l->empty_out > 0;
    bool open = x->models[place.n].model || l->maybe_open[place.n];
    struct loader_job *job = open && !moves && l->own_out < OWN_MOST ? ring_reserve(&l->jobs) : NULL;

    if (job) { /* it is open, or its accelerator was out of service when the rank thread gave it up */
        *job = (struct loader_job){.order = {.kind = CENTRAL_UNLOAD, .place = place, .latest_ns = TIME_NEVER},
                                   .own = true};
        put_beside(x, place.n);
        job_push(l, job);
        if (ring_publish(&l->jobs))
            doorbell_ring(&l->bell);
    }
    return moves || open;
}

static void job_ended(struct executor *x, const struct loader_job *job) {
    struct loader *l = x->loader;
    uint32_t place = job->order.place.n, a = x->config.first_accelerator;
    bool loads = job->order.kind == CENTRAL_LOAD, done = job->done && !(loads && l->void_out > 0);

    l->jobs_out--;
    l->void_out -= l->void_out > 0;
    l->own_out -= job->own;
    l->empty_out -= job->order.kind == CENTRAL_EMPTY;
    l->out_of[place] -= job->order.kind != CENTRAL_EMPTY;
    if (job->own)
        l->maybe_open[place] = false;
    if (done && loads) {
        x->models[place] = x->beside[place];
        x->beside[place] = (struct executor_model){.model = NULL};
        l->resident++;
        l->resident_pages += pages_at(x, place);
    }
    if (done) {
        const struct timeline_entry entry = {
            .start_ns = job->begin_ns,
            .took_us = time_us_between(job->begin_ns, job->end_ns),
            .model_key = job->order.kind == CENTRAL_EMPTY ? 0 : (uint32_t)served_model_key(&x->config.models[place]),
            .kind = loads ? TIMELINE_LOAD : TIMELINE_UNLOAD,
        };
        timeline_note(executor_timeline(x, a), &entry);
        timeline_memory(executor_timeline(x, a), l->resident, l->resident_pages * x->config.page_bytes);
    }
    if (!job->own)
        order_answer(x, &job->order, done, job->failed, job->end_ns - job->begin_ns);
}

bool loader_poll(struct executor *x) {
    struct loader *l = x->loader;
    const struct loader_job *job;
    bool any = false;

    for (; (job = ring_peek(&l->ended)); ring_pop(&l->ended)) {
        job_ended(x, job);
        any = true;
    }
    ring_release(&l->ended);
    any |= orders_poll(x, take_order);
    if (ring_publish(&l->jobs))
        doorbell_ring(&l->bell);
    if (any)
        executor_publish(x);
    return any;
}

bool loader_pending(struct executor *x) {
    return ring_pending(&x->loader->ended);
}
