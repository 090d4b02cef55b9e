/* clockwork_load.c - which model is loaded where (Clockwork, OSDI 2020, section 5.3, "Scheduling LOAD").
 *
 * - d_m: the run time of the queued requests of model m.
 * - a_{m,g}: the part of d_m that accelerator g is expected to do, in inverse proportion to g's load; 0 where m is not
 *   loaded.
 * - l_g: the load of accelerator g, the sum of a_{m,g} over all models.
 * - p_m = d_m - sum of a_{m,g} * capacity / l_g: the work that will not be done in time. The model with the largest p_m
 *   is loaded next.
 *
 * A model whose load takes longer than its SLO can help none of its queued requests. It is loaded for later ones, as in
 * the authors' program: its requests count until they can no longer run in time even alone.
 *
 * All are computed for one model at a time, when its requests come or go and when it is loaded or unloaded. Only
 * requests that a load begun now would still help count in p_m. So p_m falls as time passes: the model on top is
 * computed again until it stays there. To make room, the models used longest ago are unloaded.
 *
 * Pinned models are not in the paper. One that is nowhere goes before all others. The accelerator that loads it keeps
 * it, if there is room beside for the largest model. */
#include "core/util/assert.h"
#include "sched/policy/clockwork.h"

/* Least load that an accelerator counts with, so that the weight of an idle accelerator is bounded. */
#define LOAD_LEAST_NS ((double)NS_PER_MS)
/* A model that an accelerator could not load is not loaded there for so long. */
#define FAILED_NS NS_PER_S
/* The priority of a pinned model that is nowhere. */
#define PINNED_NS 1e18
/* Dividing demand costs two divisions a place. A model with more than PLACES_FEW places needs no further one soon, so
 * its demand is divided only once a millisecond. With 4000 models on 110 accelerators, where the popular ones are
 * everywhere, that saves a fifth of a request's cost. */
#define PLACES_FEW     4
#define PLACES_MANY_NS NS_PER_MS

static uint8_t *place_of(struct clockwork *c, uint32_t m, uint32_t a) {
    return &c->places[(size_t)m * c->accelerator_count + a];
}

static bool *failed_of(struct clockwork *c, uint32_t m, uint32_t a) {
    return &c->failed[(size_t)m * c->accelerator_count + a];
}

static double *allocation_of(struct clockwork *c, uint32_t m, uint32_t a) {
    return &c->allocations[(size_t)m * c->accelerator_count + a];
}

/* The pages that a model takes on an accelerator. */
static uint32_t pages_on(const struct clockwork *c, uint32_t m, uint32_t a) {
    return pages_of(c->models[m].weights_bytes, c->memories[a].page_bytes);
}

void clockwork_load_layout(struct clockwork *c, struct arena *arena, const struct central_config *config) {
    uint32_t accelerators = config->accelerators, models = config->model_count;
    size_t pairs = (size_t)accelerators * models;
    c->memories = arena_take(arena, accelerators * sizeof(*c->memories));
    c->places = arena_take(arena, pairs * sizeof(*c->places));
    c->failed = arena_take(arena, pairs * sizeof(*c->failed));
    c->sites = arena_take(arena, pairs * sizeof(*c->sites));
    c->allocations = arena_take(arena, pairs * sizeof(*c->allocations));
    c->priorities = arena_take(arena, models * sizeof(*c->priorities));
    c->passed_over = arena_take(arena, models * sizeof(*c->passed_over));
    heap_take(arena, &c->wanted, models);
    heap_take(arena, &c->loaders, accelerators);
    for (uint32_t a = 0; a < accelerators; a++) {
        struct pages_entry *entries = arena_take(arena, models * sizeof(*entries));
        if (!arena->base)
            continue;
        c->memories[a].page_bytes = central_page_bytes(config, a);
        pages_init(&c->memories[a].pages, entries, models,
                   pages_in(config->memory_bytes[a], c->memories[a].page_bytes));
        heap_set(&c->loaders, a, 0);
    }
    c->load_due_ns = TIME_NEVER;
    c->load_pace = 1;
}

/* ---- demand ---- */

static double load_at_least(const struct clockwork_memory *memory) {
    return memory->load_ns > LOAD_LEAST_NS ? memory->load_ns : LOAD_LEAST_NS;
}

/* The run time of the requests that would still be in time if a load of the model began now. */
static double demand_helped(const struct clockwork *c, uint32_t m, int64_t now_ns, double unit_ns) {
    const struct clockwork_model *model = &c->models[m];
    int64_t done_ns = clockwork_load_earliest(c, m, now_ns) + clockwork_delay(c, 1) + (int64_t)unit_ns;
    uint32_t items = model->queue.items;
    for (uint32_t node = deadline_queue_first(&model->queue);
         node != REQUEST_NONE && c->pool->nodes[node].deadline_ns < done_ns;
         node = deadline_queue_next(c->pool->nodes, node))
        items -= c->pool->nodes[node].items;
    return items * unit_ns;
}

/* Divides the model's demand among the accelerators that have the model, and computes how much they will finish in
 * time. */
static void demand_allocate(struct clockwork *c, uint32_t m, int64_t now_ns, double demand_ns) {
    struct clockwork_model *model = &c->models[m];
    double weights = 0;
    if (model->places > PLACES_FEW && model->allocated_at_ns > now_ns - PLACES_MANY_NS)
        return;
    model->allocated_at_ns = now_ns;
    model->allocated_ns = 0;
    for (uint32_t i = 0; i < model->places; i++) {
        uint32_t a = clockwork_site(c, m, i);
        c->memories[a].load_ns -= *allocation_of(c, m, a);
        weights += 1 / load_at_least(&c->memories[a]);
    }
    for (uint32_t i = 0; i < model->places; i++) {
        uint32_t a = clockwork_site(c, m, i);
        double part_ns = demand_ns / (load_at_least(&c->memories[a]) * weights);
        *allocation_of(c, m, a) = part_ns;
        c->memories[a].load_ns += part_ns;
        model->allocated_ns += part_ns * c->capacity_ns / load_at_least(&c->memories[a]);
    }
}

void clockwork_load_update(struct clockwork *c, uint32_t m, int64_t now_ns) {
    const struct clockwork_model *model = &c->models[m];
    double unit_ns = (double)clockwork_alone_ns(c, m, 1);
    demand_allocate(c, m, now_ns, model->queue.items * unit_ns);
    c->priorities[m] = model->queue.items ? demand_helped(c, m, now_ns, unit_ns) - model->allocated_ns : 0;
    if (model->pinned && model->places == 0 && c->begun)
        c->priorities[m] = PINNED_NS;
    if (c->priorities[m] >= 1 && model->places < c->accelerator_count)
        heap_set(&c->wanted, m, -(int64_t)c->priorities[m]);
    else
        heap_remove(&c->wanted, m);
}

void clockwork_load_begin(struct clockwork *c, int64_t now_ns) {
    c->begun = true;
    for (uint32_t m = 0; m < c->model_count; m++)
        if (c->models[m].pinned)
            clockwork_load_update(c, m, now_ns);
}

/* ---- places ---- */

/* Whether the accelerator has room to keep the model, and beside it for the largest one. */
static bool room_to_keep(const struct clockwork *c, uint32_t m, uint32_t a) {
    const struct clockwork_memory *memory = &c->memories[a];
    return (uint64_t)memory->pages_kept + pages_on(c, m, a) + pages_of(c->weights_largest, memory->page_bytes) <=
           memory->pages.total;
}

/* Whether the accelerator keeps the model, which it has: it then stays held. */
static bool kept(struct clockwork *c, uint32_t m, uint32_t a) {
    struct clockwork_model *model = &c->models[m];
    if (!model->pinned || model->kept_by != NOBODY || !room_to_keep(c, m, a))
        return false;
    model->kept_by = a;
    c->memories[a].pages_kept += pages_on(c, m, a);
    return true;
}

static void place_set(struct clockwork *c, uint32_t m, uint32_t a, enum clockwork_place place, int64_t now_ns) {
    struct clockwork_model *model = &c->models[m];
    uint8_t *at = place_of(c, m, a);
    uint32_t *sites = &c->sites[(size_t)m * c->accelerator_count]; /* the accelerators that have the model */
    if (place == PLACE_NONE) {
        c->memories[a].load_ns -= *allocation_of(c, m, a);
        *allocation_of(c, m, a) = 0;
    }
    if (place != PLACE_NONE && *at == PLACE_NONE) {
        sites[model->places++] = a;
    } else if (place == PLACE_NONE && *at != PLACE_NONE) {
        uint32_t i = 0;
        while (sites[i] != a)
            i++;
        sites[i] = sites[--model->places];
    }
    *at = (uint8_t)place;
    model->allocated_at_ns = INT64_MIN;
    clockwork_load_update(c, m, now_ns);
    clockwork_placed(c, m, a);
}

void clockwork_load_reset(struct clockwork *c, int64_t now_ns, uint32_t a, bool up) {
    struct clockwork_memory *memory = &c->memories[a];
    struct pages *pages = &memory->pages;
    pages_init(pages, pages->entries, c->model_count, pages->total);
    memory->epoch++;
    memory->loads = 0;
    memory->pages_kept = 0;
    if (up)
        heap_set(&c->loaders, a, 0);
    else
        heap_remove(&c->loaders, a);
    for (uint32_t m = 0; m < c->model_count; m++) {
        *failed_of(c, m, a) = false;
        if (*place_of(c, m, a) == PLACE_NONE)
            continue;
        bool lost = c->models[m].kept_by == a;
        c->models[m].kept_by = lost ? NOBODY : c->models[m].kept_by;
        place_set(c, m, a, PLACE_NONE, now_ns);
        for (uint32_t i = 0; lost && i < c->models[m].places; i++) {
            uint32_t other = clockwork_site(c, m, i);
            if (clockwork_place(c, m, other) == PLACE_LOADED && kept(c, m, other))
                pages_hold(&c->memories[other].pages, m);
        }
    }
    memory->load_ns = 0;
}

/* A load that was sent, or that another core has sent. */
static void load_begins(struct clockwork *c, int64_t now_ns, uint32_t m, uint32_t a) {
    struct clockwork_memory *memory = &c->memories[a];
    memory->free_ns =
        time_later(memory->loads ? memory->free_ns : 0, now_ns) + load_time_expected(&c->models[m].load, c->load_pace);
    memory->loads++;
    heap_set(&c->loaders, a, memory->free_ns);
    place_set(c, m, a, PLACE_LOADING, now_ns);
}

void clockwork_load_has(struct clockwork *c, int64_t now_ns, uint32_t a, uint32_t m, bool comes) {
    struct pages *pages = &c->memories[a].pages;
    CHECK(pages_take(pages, m, pages_on(c, m, a))); /* the other core counted the same pages */
    if (comes) {
        load_begins(c, now_ns, m, a);
        return;
    }
    if (!kept(c, m, a))
        pages_release(pages, m);
    place_set(c, m, a, PLACE_LOADED, now_ns);
}

void clockwork_load_ended(struct clockwork *c, int64_t now_ns, const struct central_ended *ended,
                          struct central_output *out) {
    uint32_t a = ended->accelerator;
    struct clockwork_memory *memory = &c->memories[a];
    if (ended->kind != CENTRAL_LOAD || ended->tag != memory->epoch)
        return;
    CHECK(memory->loads > 0);
    memory->loads--;
    heap_set(&c->loaders, a, memory->loads ? memory->free_ns : 0);
    if (!ended->done || !kept(c, ended->model, a))
        pages_release(&memory->pages, ended->model);
    if (ended->done) {
        struct load_time *load = &c->models[ended->model].load;
        int64_t expected_ns = load_time_expected(load, c->load_pace), since_ns = now_ns - memory->ended_ns;
        /* A load that was sent ahead has waited for the one before; the end of that one may have been heard late. */
        if (since_ns < (expected_ns + 1) / 2)
            since_ns = (expected_ns + 1) / 2;
        if (c->learn)
            load_time_learn(load, &c->load_pace, ended->run_ns < since_ns ? ended->run_ns : since_ns);
        out->predicted_ns = expected_ns;
    } else {
        pages_give(&memory->pages, ended->model);
    }
    memory->ended_ns = now_ns;
    if (ended->failed) {
        c->models[ended->model].again_ns = now_ns + FAILED_NS;
        *failed_of(c, ended->model, a) = true;
    }
    place_set(c, ended->model, a, ended->done ? PLACE_LOADED : PLACE_NONE, now_ns);
}

int64_t clockwork_load_awaited(const struct clockwork *c, uint32_t m) {
    int64_t load_ns = load_time_expected(&c->models[m].load, c->load_pace);
    return load_ns + clockwork_delay(c, 1) + clockwork_alone_ns(c, m, 1) <= c->models[m].slo_ns ? load_ns : 0;
}

int64_t clockwork_load_earliest(const struct clockwork *c, uint32_t m, int64_t now_ns) {
    int64_t free_ns = heap_empty(&c->loaders) ? now_ns : heap_top(&c->loaders).key;
    int64_t load_ns = clockwork_load_awaited(c, m);
    return load_ns ? time_later(now_ns, free_ns) + load_ns : now_ns;
}

/* ---- loads ---- */

/* Whether `needed` pages are free or can be freed by unloading. */
static bool room_for(const struct pages *pages, uint32_t needed) {
    uint32_t free = pages->free;
    for (uint32_t m = pages->oldest; free < needed; m = pages->entries[m].newer) {
        if (m == PAGES_NONE)
            return false;
        free += pages->entries[m].pages;
    }
    return true;
}

/* The least loaded accelerator that may be given a load and that the model can go to; among equally loaded ones, the
 * one with the most free memory. NOBODY: none. */
static uint32_t accelerator_for(struct clockwork *c, uint32_t m, int64_t now_ns) {
    const struct clockwork_model *model = &c->models[m];
    bool to_keep = model->queue.items == 0; /* it is pinned, and not asked for */
    uint32_t best = NOBODY;
    for (uint32_t a = 0; a < c->accelerator_count; a++) {
        const struct clockwork_memory *memory = &c->memories[a];
        if (!heap_contains(&c->loaders, a) || (memory->loads && memory->free_ns > now_ns + c->ahead_ns) ||
            *place_of(c, m, a) != PLACE_NONE || *failed_of(c, m, a) || !model->tables[c->accelerators[a].type] ||
            !room_for(&memory->pages, pages_on(c, m, a)) || (to_keep && !room_to_keep(c, m, a)))
            continue;
        if (best != NOBODY) {
            const struct clockwork_memory *other = &c->memories[best];
            if (memory->load_ns > other->load_ns ||
                (memory->load_ns == other->load_ns &&
                 memory->pages.free * memory->page_bytes <= other->pages.free * other->page_bytes))
                continue;
        }
        best = a;
    }
    return best;
}

static void action_send(struct clockwork *c, enum central_action_kind kind, uint32_t m, uint32_t a,
                        struct central_output *out) {
    *clockwork_action(out) = (struct central_action){
        .kind = kind,
        .accelerator = a,
        .model = m,
        .tag = c->memories[a].epoch,
        .earliest_ns = INT64_MIN,
        .latest_ns = TIME_NEVER,
        .first = REQUEST_NONE,
    };
}

/* Unloads models to make room, and loads the model. False if the step can give no more actions. */
static bool load_send(struct clockwork *c, uint32_t m, uint32_t a, int64_t now_ns, struct central_output *out) {
    struct clockwork_memory *memory = &c->memories[a];
    uint32_t needed = pages_on(c, m, a);
    while (out->action_count < CENTRAL_ACTIONS_MAX && memory->pages.free < needed) {
        uint32_t victim = pages_oldest(&memory->pages);
        pages_give(&memory->pages, victim);
        place_set(c, victim, a, PLACE_NONE, now_ns);
        action_send(c, CENTRAL_UNLOAD, victim, a, out);
    }
    if (out->action_count == CENTRAL_ACTIONS_MAX)
        return false;
    CHECK(pages_take(&memory->pages, m, needed));
    action_send(c, CENTRAL_LOAD, m, a, out);
    load_begins(c, now_ns, m, a);
    return true;
}

/* Whether the loads of some accelerator take less than `ahead`. An accelerator with an overdue load gets nothing until
 * it reports. */
static bool loader_ready(struct clockwork *c, int64_t now_ns) {
    while (!heap_empty(&c->loaders) && heap_top(&c->loaders).key <= now_ns + c->ahead_ns) {
        struct heap_entry first = heap_top(&c->loaders);
        if (!c->memories[first.item].loads || first.key >= now_ns)
            return true;
        heap_remove(&c->loaders, first.item);
    }
    return false;
}

/* When the loads of a further accelerator will take less than `ahead`. */
static int64_t loader_next(const struct clockwork *c, int64_t now_ns) {
    int64_t next_ns = TIME_NEVER;
    for (uint32_t i = 0; i < c->loaders.count; i++) {
        int64_t key = c->loaders.entries[i].key;
        if (key > now_ns + c->ahead_ns && key < next_ns)
            next_ns = key;
    }
    return next_ns == TIME_NEVER ? next_ns : next_ns - c->ahead_ns;
}

void clockwork_load_schedule(struct clockwork *c, int64_t now_ns, struct central_output *out) {
    uint32_t passed_over = 0, looks = 2 * c->wanted.count; /* a limit: two models could overtake each other for ever */
    int64_t again_ns = TIME_NEVER;
    bool full = false;
    while (!heap_empty(&c->wanted) && !full && looks-- > 0 && loader_ready(c, now_ns)) {
        uint32_t m = heap_top(&c->wanted).item;
        clockwork_load_update(c, m, now_ns);
        if (heap_empty(&c->wanted) || heap_top(&c->wanted).item != m)
            continue;
        struct clockwork_model *model = &c->models[m];
        for (uint32_t a = 0; model->again_ns && now_ns >= model->again_ns && a < c->accelerator_count; a++)
            *failed_of(c, m, a) = false;
        model->again_ns = now_ns >= model->again_ns ? 0 : model->again_ns;
        uint32_t a = accelerator_for(c, m, now_ns);
        if (a == NOBODY) {
            again_ns = model->again_ns && model->again_ns < again_ns ? model->again_ns : again_ns;
            heap_remove(&c->wanted, m);
            c->passed_over[passed_over++] = m;
            continue;
        }
        full = !load_send(c, m, a, now_ns, out);
    }
    for (uint32_t i = 0; i < passed_over; i++)
        heap_set(&c->wanted, c->passed_over[i], -(int64_t)c->priorities[c->passed_over[i]]);
    c->load_due_ns = full ? now_ns : (heap_empty(&c->wanted) ? TIME_NEVER : loader_next(c, now_ns));
    c->load_due_ns = again_ns < c->load_due_ns ? again_ns : c->load_due_ns;
}
