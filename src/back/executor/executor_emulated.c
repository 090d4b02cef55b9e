/* executor_emulated.c - many emulated accelerators in one thread.
 *
 * A ring holds the plans of all accelerators, so a plan leaves the ring at once and waits in a list of its accelerator.
 * The first plan of a list runs, or waits for its earliest start. A heap holds the accelerators by the time at which
 * this run or wait ends.
 *
 * Where memory is limited, models are loaded and unloaded beside the runs, as the scheduler orders
 * (core/data/residency.h). Nothing runs on an accelerator that does not have its weights. */
#include <stdlib.h>
#include <string.h>

#include "back/executor/executor_state.h"
#include "core/data/profile.h"
#include "core/data/residency.h"
#include "core/system/clock.h"
#include "core/util/assert.h"
#include "core/util/heap.h"

#define SIZES 9 /* sizes of held plans: powers of two, in cache lines */

/* A plan in the list of its accelerator. */
struct held_plan {
    struct held_plan *next;
    uint32_t model_thread, size;
    struct output_block *block; /* outputs of the run */
    int64_t start_ns;
    uint32_t before; /* batch_before() */
    struct ran_message ran;
    struct batch_plan plan;
};
_Static_assert(sizeof(struct held_plan) + PROFILE_BATCH_MAX * sizeof(uint64_t) <= CACHE_LINE << (SIZES - 1),
               "the largest plan fits the largest size");

/* A load or an unload that an accelerator has. */
struct held_move {
    struct residency_move move; /* of an unused one, move.next is the next unused one */
    bool own;                   /* nobody waits for it: the model goes */
    struct move_order order;
};

struct emulated_accelerator {
    struct held_plan *first, *last;
    bool running;               /* the first plan runs */
    int64_t ended_ns;           /* end of the last batch; 0: there was none */
    uint32_t ended_model;       /* served model of that batch */
    struct residency residency; /* where memory is limited */
    uint32_t resident;          /* models that it holds */
};

struct emulation {
    struct emulated_accelerator *accelerators; /* [config.accelerators] */
    struct held_plan *free[SIZES]; /* free lists by size; they grow to the largest number of plans ever held, which the
                                    * rings of plans bound */
    struct residency_move *free_moves; /* list of unused held_move */
    struct pages_entry *entries;       /* [config.accelerators][config.model_count], where memory is limited */
    struct rng rng;                    /* random numbers for noise */
    uint32_t count;                    /* config.accelerators */
    struct heap due;                   /* accelerators by the time at which their first plan starts or ends; count +
                                        * accelerator: by that of their first move */
    struct heap_entry *due_entries;
    uint32_t *due_positions;
};

/* ---- held plans ---- */

static struct held_plan *held_new(struct emulation *e, const struct batch_plan *plan) {
    size_t lines = (sizeof(struct held_plan) + plan->request_count * sizeof(uint64_t) - 1) / CACHE_LINE; /* less 1 */
    uint32_t size = lines ? 32 - (uint32_t)__builtin_clz((uint32_t)lines) : 0;
    CHECK_LT(size, SIZES);
    struct held_plan *held = e->free[size];
    if (held)
        e->free[size] = held->next;
    else if (!(held = malloc((size_t)CACHE_LINE << size)))
        return NULL;
    held->next = NULL;
    held->size = size;
    memcpy(&held->plan, plan, batch_plan_bytes(plan->request_count));
    return held;
}

static void held_put(struct emulation *e, struct held_plan *held) {
    held->next = e->free[held->size];
    e->free[held->size] = held;
}

struct emulation *emulation_new(const struct executor_config *config) {
    struct emulation *e = calloc(1, sizeof(*e));
    uint32_t count = config->accelerators;

    if (!e)
        return NULL;
    size_t models = config->memory_bytes ? config->model_count : 0;
    e->count = count;
    e->accelerators = calloc(count, sizeof(*e->accelerators));
    e->entries = calloc(count * models + 1, sizeof(*e->entries));
    e->due_entries = calloc(2 * (size_t)count, sizeof(*e->due_entries));
    e->due_positions = calloc(2 * (size_t)count, sizeof(*e->due_positions));
    if (!e->accelerators || !e->entries || !e->due_entries || !e->due_positions) {
        emulation_free(e);
        return NULL;
    }
    heap_init(&e->due, e->due_entries, e->due_positions, 2 * count);
    rng_seed(&e->rng, 1 + config->index);
    for (uint32_t a = 0; a < count && models > 0; a++)
        residency_init(&e->accelerators[a].residency, e->entries + a * models, config->model_count,
                       config->memory_bytes, config->noise, &e->rng);
    return e;
}

static void list_free(struct held_plan *held) {
    while (held) {
        struct held_plan *next = held->next;
        free(held);
        held = next;
    }
}

static void moves_free(struct residency_move *move) {
    while (move) {
        struct residency_move *next = move->next;
        free(container_of(move, struct held_move, move));
        move = next;
    }
}

void emulation_free(struct emulation *e) {
    if (!e)
        return;
    for (uint32_t a = 0; e->accelerators && a < e->count; a++) {
        struct held_plan *first = e->accelerators[a].first;
        moves_free(e->accelerators[a].residency.first);
        if (first && e->accelerators[a].running)
            output_block_put(first->block);
        list_free(first);
    }
    for (uint32_t size = 0; size < SIZES; size++)
        list_free(e->free[size]);
    moves_free(e->free_moves);
    free(e->entries);
    free(e->due_positions);
    free(e->due_entries);
    free(e->accelerators);
    free(e);
}

/* ---- loads ---- */

/* Notes a move that has changed what the accelerator's memory holds. */
static void move_note(struct executor *x, uint32_t index, const struct residency_move *move) {
    struct timeline *timeline = executor_timeline(x, x->config.first_accelerator + index);
    struct emulated_accelerator *a = &x->emulation->accelerators[index];
    const struct pages *pages = &a->residency.pages;
    if (move->kind == CENTRAL_LOAD)
        a->resident++;
    else
        a->resident = pages->free == pages->total ? 0 : a->resident - 1;
    const struct timeline_entry entry = {
        .start_ns = move->begin_ns,
        .took_us = time_us_between(0, move->took_ns),
        .model_key = move->kind == CENTRAL_EMPTY ? 0 : x->models[move->model].key,
        .kind = move->kind == CENTRAL_LOAD ? TIMELINE_LOAD : TIMELINE_UNLOAD,
    };
    timeline_note(timeline, &entry);
    timeline_memory(timeline, a->resident, (uint64_t)(pages->total - pages->free) * PAGE_BYTES);
}

/* Ends and begins an accelerator's moves, and sets the time of the next look. */
static void moves_go_on(struct executor *x, uint32_t index) {
    struct emulation *e = x->emulation;
    struct emulated_accelerator *a = &e->accelerators[index];
    struct residency *r = &a->residency;
    struct residency_move *move;
    while ((move = residency_step(r, clock_now_ns(), a->first != NULL))) {
        struct held_move *held = container_of(move, struct held_move, move);
        if (move->done && move->kind == CENTRAL_LOAD)
            move->took_ns = clock_now_ns() - move->begin_ns - move->stood_ns;
        if (move->done && move->changed)
            move_note(x, index, move);
        if (!held->own)
            order_answer(x, &held->order, move->done, false, move->took_ns);
        move->next = e->free_moves;
        e->free_moves = move;
    }
    int64_t due_ns = residency_due_ns(r, a->first != NULL);
    if (due_ns != TIME_NEVER)
        heap_set(&e->due, e->count + index, due_ns);
    else
        heap_remove(&e->due, e->count + index);
}

/* Gives an accelerator a move by an order, or one of the executor's own. */
static void move_send(struct executor *x, uint32_t index, const struct move_order *order, bool own) {
    struct emulation *e = x->emulation;
    const struct served_model *model = order->kind == CENTRAL_EMPTY ? NULL : &x->config.models[order->place.n];
    struct residency_move *move = e->free_moves;
    struct held_move *held = move ? container_of(move, struct held_move, move) : malloc(sizeof(*held));
    CHECK_MEMORY(held);
    if (move)
        e->free_moves = move->next;
    *held = (struct held_move){
        .move = {.kind = (enum central_action_kind)order->kind,
                 .model = order->place.n,
                 .pages = model ? pages_of(model->weights_bytes, PAGE_BYTES) : 0,
                 .link_ns = model ? model->load_ns : 0,
                 .earliest_ns = INT64_MIN,
                 .latest_ns = x->members[index].dead && !own ? INT64_MIN : order->latest_ns, /* a dead one refuses it */
                 .ahead = order->ahead},
        .own = own,
        .order = *order,
    };
    residency_send(&e->accelerators[index].residency, &held->move);
    moves_go_on(x, index);
}

/* An order_take. */
static void take_order(struct executor *x, const struct move_order *order) {
    uint32_t index = order->accelerator - x->config.first_accelerator;
    CHECK_LT(index, x->config.accelerators);
    move_send(x, index, order, false);
}

bool emulation_holds(struct executor *x, struct place_id place) {
    bool holds = false;
    for (uint32_t index = 0; index < x->emulation->count; index++) {
        const struct residency *r = &x->emulation->accelerators[index].residency;
        bool moves = false;
        for (const struct residency_move *move = r->first; move; move = move->next)
            moves |= move->kind == CENTRAL_EMPTY || move->model == place.n;
        if (!moves && r->pages.entries[place.n].pages > 0) { /* it was out of service when it was to unload it */
            const struct move_order order = {.kind = CENTRAL_UNLOAD, .place = place, .latest_ns = TIME_NEVER};
            move_send(x, index, &order, true);
        }
        holds |= moves || r->pages.entries[place.n].pages > 0;
    }
    return holds;
}

/* ---- runs ---- */

/* The accelerator's first plan is over: reports it, answers, and frees it. */
static void first_over(struct executor *x, struct emulated_accelerator *a, const struct run_result *result) {
    struct held_plan *held = a->first;

    if (a->running && x->config.memory_bytes)
        residency_release(&a->residency, held->plan.place.n);
    a->first = held->next;
    a->running = false;
    a->ended_ns = result->end_ns;
    a->ended_model = held->plan.place.n;
    held->ran.late = batch_late(x, &held->plan, result);
    batch_count(x, &held->plan, result);
    batch_report(x, held->model_thread, &held->ran, result->end_ns);
    batch_answer(x, &held->plan, result);
    held_put(x->emulation, held);
}

/* Begins the accelerator's first plan. False if it was over at once: it failed or was too late. */
static bool first_begin(struct executor *x, struct emulated_accelerator *a, uint32_t index) {
    struct held_plan *held = a->first;
    struct tensor_view inputs[TENSORS_MAX];
    struct run_result result = {.status = REQUEST_REFUSED, .start_ns = clock_now_ns()};
    struct engine_model *model = x->models[held->plan.place.n].model;
    int64_t run_ns;

    if (x->config.memory_bytes && !residency_has(&a->residency, held->plan.place.n))
        model = NULL;

    if (held->plan.earliest_ns > result.start_ns) {
        heap_set(&x->emulation->due, index, held->plan.earliest_ns);
        return true;
    }
    held->ran = batch_ran(x, &held->plan, result.start_ns, a->ended_ns);
    held->before = result.before = batch_before(held->plan.sealed_ns, held->plan.ready_us, a->ended_ns, a->ended_model);
    batch_unready_give(x, &held->plan);
    if (!held->plan.request_count) {
        result.status = REQUEST_LOST;
        result.unready = true;
    } else if (!batch_expired(x, &held->plan, result.start_ns)) {
        held->ran.items = batch_items(x, &held->plan);
        result.status = model ? REQUEST_FAILED : REQUEST_LOST;
        result.absent = !model;
        if (model && batch_gather(x, &held->plan, inputs, &result.error) == 0) {
            held->start_ns = clock_now_ns();
            held->ran.gather_ns = held->start_ns - result.start_ns;
            int rc = x->config.engine->emulate(model, held->ran.items, &held->block, &run_ns, &result.error);
            if (rc == 0) {
                a->running = true;
                timeline_begin(executor_timeline(x, held->plan.accelerator), x->models[held->plan.place.n].key,
                               held->ran.items, held->start_ns);
                if (x->config.memory_bytes)
                    residency_hold(&a->residency, held->plan.place.n);
                run_ns = rng_noisy(&x->emulation->rng, run_ns, x->config.noise);
                heap_set(&x->emulation->due, index, held->start_ns + run_ns);
                return true;
            }
        }
    }
    result.end_ns = clock_now_ns();
    first_over(x, a, &result);
    return false;
}

static void accelerator_go_on(struct executor *x, uint32_t index) {
    struct emulated_accelerator *a = &x->emulation->accelerators[index];

    while (a->first && !first_begin(x, a, index)) {
    }
    if (!a->first && a->residency.first) /* a move may have waited for the end of the batches */
        moves_go_on(x, index);
}

void emulation_lose(struct executor *x, uint32_t accelerator) {
    uint32_t index = accelerator - x->config.first_accelerator;
    struct emulated_accelerator *a = &x->emulation->accelerators[index];

    heap_remove(&x->emulation->due, index);
    if (a->running)
        output_block_put(a->first->block);
    if (a->running && x->config.memory_bytes)
        residency_release(&a->residency, a->first->plan.place.n);
    a->running = false;
    while (a->first) {
        struct held_plan *held = a->first;
        a->first = held->next;
        batch_lose(x, held->model_thread, &held->plan);
        held_put(x->emulation, held);
    }
    if (x->config.memory_bytes) {
        residency_lose(&a->residency);
        a->resident = 0;
        timeline_memory(executor_timeline(x, accelerator), 0, 0);
        moves_go_on(x, index);
    }
}

static void take_plan(struct executor *x, uint32_t model_thread, const struct batch_plan *plan) {
    uint32_t index = plan->accelerator - x->config.first_accelerator;
    CHECK_LT(index, x->config.accelerators);
    if (x->members[index].dead) {
        batch_lose(x, model_thread, plan);
        return;
    }
    struct emulated_accelerator *a = &x->emulation->accelerators[index];
    struct held_plan *held = held_new(x->emulation, plan);

    CHECK(held); /* out of memory: there is nothing sensible to do */
    held->model_thread = model_thread;
    if (a->first) {
        a->last = a->last->next = held;
        return;
    }
    a->first = a->last = held;
    accelerator_go_on(x, index);
}

bool emulation_poll(struct executor *x) {
    struct wiring *w = x->wiring;
    struct heap *due = &x->emulation->due;
    int64_t now_ns = clock_now_ns();
    bool any = false;

    while (!heap_empty(due) && heap_top(due).key <= now_ns) { /* ends of runs first: clients wait */
        uint32_t index = heap_top(due).item;
        any = true;
        if (index >= x->emulation->count) {
            moves_go_on(x, index - x->emulation->count);
            continue;
        }
        struct emulated_accelerator *a = &x->emulation->accelerators[index];
        heap_remove(due, index);
        if (a->running) {
            struct run_result result = {.status = REQUEST_OK,
                                        .block = a->first->block,
                                        .start_ns = a->first->start_ns,
                                        .end_ns = now_ns,
                                        .before = a->first->before};
            a->first->ran.run_ns = now_ns - a->first->start_ns;
            first_over(x, a, &result);
        }
        accelerator_go_on(x, index);
    }
    executor_publish(x);
    for (uint32_t t = 0; t < w->model_threads; t++) {
        struct ring *ring = wiring_plans(w, t, x->config.index);
        const struct batch_plan *plan;
        for (; (plan = ring_peek(ring)); ring_pop_run(ring, batch_plan_slots(plan->request_count))) {
            take_plan(x, t, plan);
            any = true;
        }
        ring_release(ring);
    }
    any |= x->config.memory_bytes && orders_poll(x, take_order); /* EMPTY is to find the batches sent before it */
    executor_publish(x);
    x->wake_ns = heap_empty(due) ? TIME_NEVER : heap_top(due).key;
    return any;
}
