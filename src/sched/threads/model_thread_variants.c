/* model_thread_variants.c - the variants of a model thread: which core serves a request's shape, and how cores are
 * made.
 *
 * A served model of one shape has one variant. One whose inputs may have several shapes has VARIANTS_MAX, each given to
 * one shape at a time. Model numbers not in use have variants without a core, for models that come
 * (model_thread_moves.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/assert.h"
#include "sched/threads/model_thread_state.h"

/* ---- what cores are told ---- */

struct variant_memory thread_memory_none(const struct thread_model *model) {
    return (struct variant_memory){.there_ns = TIME_NEVER, .load_ns = model->load_ns > 0 ? model->load_ns : 1};
}

/* The configuration of a model's core, where an item costs as much as the profiled one. */
static struct model_core_config core_config(const struct model_thread *t, const struct thread_model *m) {
    struct model_core_config config = {
        .types = t->types,
        .batch_max = m->batch_max,
        .slo_ns = m->slo_ns,
        .weight = m->weight,
        .learn = t->learn,
        .accelerators = t->rings.wiring->accelerators,
        .policy = t->policy,
        .policy_options = t->policy_options,
    };

    if (t->memory) {
        config.there_ns = thread_memory_none(m).there_ns;
        config.load_ns = thread_memory_none(m).load_ns;
    }
    memcpy(config.profiles, m->profiles, sizeof(config.profiles));
    if (m->queue) {
        config.delays = queue_rules_delays(m->queue);
        config.wait_ns = m->queue->wait_none ? WAIT_NONE_NS : m->queue->wait_ns;
        config.preferred = m->queue->preferred;
        config.preferred_count = m->queue->preferred_count;
        if (queue_rules_limited(m->queue))
            config.levels = &t->levels[rings_model_of(&t->rings, m->place).n];
    }
    return config;
}

void thread_levels_set(struct queue_levels *levels, const struct queue_rules *rules) {
    uint32_t used = rules && rules->priorities ? rules->priorities : 1;
    for (uint32_t i = 0; rules && i < PRIORITIES_MAX; i++)
        levels->of[i].most = i >= used ? 0 : rules->rules[i].queue_max ? rules->rules[i].queue_max : UINT32_MAX;
    for (uint32_t i = 0; i < PRIORITIES_MAX; i++)
        CHECK_EQ(levels->of[i].waiting, 0);
}

/* The configuration of a variant's core, where an item costs `work` times the profiled one. Tables may lie in
 * t->scaled. */
static struct model_core_config variant_config(struct model_thread *t, const struct variant *v, float work) {
    const struct thread_model *m = rings_model(&t->rings, v->model);
    struct model_core_config config = core_config(t, m);

    rings_delays(&t->rings, v->model, &config.ctrl_ns, &config.data_ns);
    if (t->memory) {
        config.there_ns = t->memory[v - t->variants].there_ns;
        config.load_ns = t->memory[v - t->variants].load_ns;
    }
    for (uint32_t type = 0; type < t->types; type++) {
        if (m->profiles[type] && work != 1.0f) {
            profile_scale(t->scaled[type], m->profiles[type], work);
            config.profiles[type] = t->scaled[type];
        }
    }
    return config;
}

void thread_prepared_log(const struct model_thread *t, const struct variant *v, const struct model_cores *cores) {
    if (!t->log)
        return;
    struct model_core_config config = core_config(t, &cores->model);
    config.ctrl_ns = cores->ctrl_ns;
    config.data_ns = cores->model.data_ns;
    decision_model_init(t->log, v->id, &config, t->levels);
}

/* ---- shapes ---- */

/* Gives a variant to a shape. */
static void variant_reset(struct model_thread *t, struct variant *v, uint64_t shape_key, float work) {
    struct model_core_config config = variant_config(t, v, work);

    model_core_init(v->core, &config, &t->rings.pool);
    if (t->log)
        decision_model_init(t->log, v->id, &config, t->levels);
    v->shape_key = shape_key;
    v->generation++;
    v->serving = true;
}

struct variant *thread_variant_take(struct model_thread *t, struct thread_model_id model, uint64_t shape_key,
                                    float work) {
    struct variant_range range = thread_variants(t, model);
    struct variant *oldest = NULL;

    for (struct variant *v = range.first; v < range.first + range.count; v++)
        if (model_core_idle(v->core) && (!oldest || v->used_ns < oldest->used_ns))
            oldest = v;
    if (oldest)
        variant_reset(t, oldest, shape_key, work);
    return oldest;
}

int64_t thread_latest_start(const struct model_thread *t, struct thread_model_id model,
                            const struct request_message *message) {
    const struct thread_model *m = rings_model(&t->rings, model);
    int64_t ctrl_ns, data_ns, latest_ns = INT64_MIN;

    if (t->policy->deadline_blind && message->priority != PRIORITY_BEST_EFFORT)
        return TIME_NEVER;
    if (message->items < 1 || message->items > m->batch_max)
        return INT64_MIN;
    rings_delays(&t->rings, model, &ctrl_ns, &data_ns);
    for (uint32_t type = 0; type < t->types; type++) {
        if (!m->profiles[type])
            continue;
        int64_t run_ns = profile_scaled_ns(m->profiles[type], message->items, message->work);
        int64_t start_ns = message->deadline_ns - ctrl_ns - data_ns * message->items - run_ns;
        latest_ns = start_ns > latest_ns ? start_ns : latest_ns;
    }
    return latest_ns;
}

const struct queue_levels *thread_levels(const struct model_thread *t, struct thread_model_id model) {
    const struct queue_rules *rules = rings_model(&t->rings, model)->queue;
    return rules && queue_rules_limited(rules) ? &t->levels[model.n] : NULL;
}

/* ---- set-up ---- */

static size_t core_room(const struct model_core_config *config) {
    return (model_core_bytes(config) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

int thread_variants_allocate(struct model_thread *t) {
    uint32_t variants = 0, batch_max = 1;

    for (uint32_t m = 0; m < t->rings.model_count; m++) {
        const struct thread_model *model = &t->rings.models[m];
        variants += model->variant_count;
        batch_max = model->batch_max > batch_max ? model->batch_max : batch_max;
    }
    variants += t->rings.wiring->models_unused;
    t->variant_count = variants;
    variants = variants ? variants : 1;
    if (t->rings.wiring->models_unused)
        batch_max = PROFILE_BATCH_MAX;
    t->variants = aligned_alloc(CACHE_LINE, variants * sizeof(*t->variants));
    t->ranges = calloc(t->rings.model_count + 1, sizeof(*t->ranges));
    t->levels = calloc(t->rings.model_count + 1, sizeof(*t->levels));
    t->prepared = calloc(t->rings.model_count + 1, sizeof(*t->prepared));
    t->index_of_variant = calloc(t->rings.wiring->models + 1, sizeof(uint32_t));
    t->timer_entries = calloc(variants, sizeof(*t->timer_entries));
    t->timer_positions = calloc(variants, sizeof(*t->timer_positions));
    t->arriving = calloc(variants, sizeof(*t->arriving));
    t->rates = calloc(variants, sizeof(*t->rates));
    t->rates_changed = calloc(variants, sizeof(*t->rates_changed));
    t->movers = calloc(variants, sizeof(*t->movers));
    bool limited = wiring_orders_loads(t->rings.wiring);
    t->memory = limited ? calloc(variants, sizeof(*t->memory)) : NULL;
    t->news = calloc((size_t)t->rings.wiring->rank_threads * t->rings.wiring->candidates.words, sizeof(*t->news));
    if (t->variants)
        memset(t->variants, 0, variants * sizeof(*t->variants));
    if (!t->variants || !t->ranges || !t->levels || !t->prepared || !t->index_of_variant || !t->timer_entries ||
        !t->timer_positions || !t->arriving || !t->rates || !t->rates_changed || !t->movers || !t->news ||
        (limited && !t->memory))
        return -ENOMEM;
    for (uint32_t type = 0; type < t->types; type++)
        if (!(t->scaled[type] = malloc(profile_bytes(batch_max))))
            return -ENOMEM;
    heap_init(&t->timers, t->timer_entries, t->timer_positions, variants);
    size_t bytes = shape_queue_bytes(t->rings.model_count, &t->rings.pool); /* a multiple of CACHE_LINE */
    t->shapes_memory = aligned_alloc(CACHE_LINE, bytes);
    if (!t->shapes_memory)
        return -ENOMEM;
    shape_queue_init(&t->shapes, t->shapes_memory, t->rings.model_count, &t->rings.pool);
    const struct wiring *w = t->rings.wiring;
    uint32_t at = 0;

    for (uint32_t m = 0; m < t->rings.model_count; m++) {
        const struct thread_model *model = &t->rings.models[m];
        t->ranges[m] = (struct variant_range){&t->variants[at], model->variant_count};
        thread_levels_set(&t->levels[m], model->queue);
        for (uint32_t i = 0; i < model->variant_count; i++, at++) {
            struct variant *v = &t->variants[at];
            *v = (struct variant){.model = {m}, .id = variant_next(model->first_variant, i)};
            v->subcluster = v->subcluster_next = wiring_subcluster(t->rings.wiring, v->id);
            t->index_of_variant[v->id.n] = at;
            if (t->memory)
                t->memory[at] = thread_memory_none(model);
            struct model_core_config config = variant_config(t, v, 1.0f);
            v->core = aligned_alloc(CACHE_LINE, core_room(&config));
            if (!v->core)
                return -ENOMEM;
            variant_reset(t, v, 0, 1.0f);
            v->serving = model->variant_count == 1; /* a model of one shape keeps its core for key 0 */
        }
    }
    t->active = at;
    for (uint32_t r = w->models - w->models_unused; r < w->models; r++, at++) {
        t->variants[at] =
            (struct variant){.id = {r}, .subcluster = SUBCLUSTER_NONE, .subcluster_next = SUBCLUSTER_NONE};
        t->index_of_variant[r] = at;
    }
    return 0;
}

static void cores_free(struct model_cores *cores) {
    for (uint32_t i = 0; cores && i < VARIANTS_MAX; i++)
        free(cores->cores[i]);
    free(cores);
}

void thread_variants_free(struct model_thread *t) {
    uint32_t own = t->variant_count - t->rings.wiring->models_unused; /* the others were prepared */

    for (uint32_t i = 0; t->variants && i < own; i++)
        free(t->variants[i].core);
    for (uint32_t m = 0; t->prepared && m < t->rings.model_count; m++)
        cores_free(t->prepared[m]);
    free(t->prepared);
    for (uint32_t type = 0; type < ACCELERATOR_TYPES_MAX; type++)
        free(t->scaled[type]);
    free(t->variants);
    free(t->ranges);
    free(t->levels);
    free(t->shapes_memory);
    free(t->index_of_variant);
    free(t->timer_entries);
    free(t->timer_positions);
    free(t->arriving);
    free(t->rates);
    free(t->rates_changed);
    free(t->movers);
    free(t->memory);
    free(t->news);
}

static struct model_cores *cores_make(struct model_thread *t, const struct thread_model *model) {
    struct model_cores *cores = calloc(1, sizeof(*cores));

    if (!cores)
        return NULL;
    cores->model = *model;
    for (uint32_t i = 0; i < model->variant_count; i++) {
        struct model_core_config config = core_config(t, model);
        config.ctrl_ns = cores->ctrl_ns = rings_ctrl_ns(&t->rings, model->slo_ns);
        config.data_ns = model->data_ns;
        cores->cores[i] = aligned_alloc(CACHE_LINE, core_room(&config));
        if (!cores->cores[i]) {
            cores_free(cores);
            return NULL;
        }
        model_core_init(cores->cores[i], &config, &t->rings.pool);
    }
    return cores;
}

int model_thread_prepare(struct model_thread *t, const struct thread_model *model) {
    struct model_cores **cores = &t->prepared[rings_model_of(&t->rings, model->place).n];

    CHECK(!*cores);
    *cores = cores_make(t, model);
    return *cores ? 0 : -ENOMEM;
}

void model_thread_forget(struct model_thread *t, struct place_id place) {
    struct model_cores **cores = &t->prepared[rings_model_of(&t->rings, place).n];

    cores_free(*cores);
    *cores = NULL;
}
