/* sim_autoscale.c - accelerators that come and go with the load.
 *
 * Every few seconds there is a look at the load, and advice (sched/plan/autoscale_subclusters.h). An accelerator that
 * is asked for is there after its start delay; an accelerator that is released gets no new batches and ends those that
 * it has. The accelerators with the lowest numbers are in service. Where memory is limited, an accelerator that comes
 * has no model loaded.
 *
 * Where there are several types of accelerators, the policy chooses how many there should be of each
 * (central_ops.pool), and each type has its own numbers. What there should be more of is started first; what there
 * should be less of is released when that is there. */
#include "lab/sim/sim_state.h"

/* Delay of the start of an accelerator that still runs batches from before its release. */
#define BUSY_STILL_NS (10 * NS_PER_MS)

/* Number of looks in a run, and with that the most changes of advice. */
static uint32_t looks_most(const struct sim_config *c) {
    double looks = (c->warmup_s + c->seconds) * (double)NS_PER_S / (double)c->autoscale->every_ns;
    return looks < 1e8 ? (uint32_t)looks + 2 : 100000000;
}

/* Memory for the counts of sub-clusters. */
static void subclusters_layout(struct sim *sim, struct arena *arena) {
    uint32_t count = sim->driver->subclusters ? sim->driver->subclusters(sim->config) : 1,
             several = count > 1 ? count : 0;
    struct sim_scaling scratch, *s = arena->base ? &sim->scaling : &scratch;
    s->needed_ns = arena_take(arena, count * sizeof(*s->needed_ns));
    s->seen = arena_take(arena, several * sizeof(*s->seen));
    s->wanted = arena_take(arena, several * sizeof(*s->wanted));
    struct autoscale *of = arena_take(arena, several * sizeof(*of));
    if (!arena->base)
        return;
    autoscale_subclusters_init(&s->advice, sim->config->autoscale, count, of);
    memset(s->needed_ns, 0, count * sizeof(*s->needed_ns));
    if (several)
        memset(s->seen, 0, several * sizeof(*s->seen));
}

void sim_scaling_layout(struct sim *sim, struct arena *arena) {
    const struct sim_config *c = sim->config;
    for (uint32_t t = 0, first = 0; t < c->types; t++) {
        struct sim_scaling_type *type = &sim->scaling.types[t];
        uint32_t end = c->autoscale ? first : c->accelerators;
        while (end < c->accelerators && c->accelerator_type[end] == t)
            end++;
        *type = (struct sim_scaling_type){.first = first, .count = end - first};
        type->start_ns = arena_take(arena, c->autoscale ? type->count * sizeof(*type->start_ns) : 0);
        first = end;
    }
    memset(sim->scaling.chosen, 0, sizeof(sim->scaling.chosen));
    struct sim_advice *advice = arena_take(arena, c->autoscale ? looks_most(c) * sizeof(*advice) : 0);
    if (arena->base)
        sim->result->advice = advice;
    if (c->autoscale)
        subclusters_layout(sim, arena);
}

void sim_scaling_count(struct sim *sim, uint32_t model, bool bad) {
    struct sim_scaling *s = &sim->scaling;
    if (s->advice.count < 2)
        return;
    uint32_t subcluster = sim->driver->subcluster_of_model(sim, model);
    if (subcluster == SIM_NOTHING)
        return;
    s->seen[subcluster].requests++;
    s->seen[subcluster].bad += bad;
}

/* Counts the time in service until now; from now on `present` accelerators of the type are in service. */
static void present_set(struct sim *sim, struct sim_scaling_type *type, uint32_t present) {
    struct sim_scaling *s = &sim->scaling;
    type->present_ns += (double)type->present * (double)sim_counted_ns(sim, type->since_ns, sim->now_ns);
    type->since_ns = sim->now_ns;
    s->present += present - type->present;
    type->present = present;
    if (s->present > sim->result->accelerators_max)
        sim->result->accelerators_max = s->present;
}

void sim_scaling_begin(struct sim *sim) {
    const struct sim_config *c = sim->config;
    for (uint32_t t = 0; t < c->types; t++) {
        struct sim_scaling_type *type = &sim->scaling.types[t];
        present_set(sim, type, c->autoscale ? c->accelerators_first[t] : type->count);
        for (uint32_t a = type->first + type->present; a < type->first + type->count; a++) {
            sim->driver->left(sim, a);
            sim->driver->deliver(sim);
        }
    }
    if (c->autoscale)
        sim_source_set(sim, sim->sources.looks, c->autoscale->every_ns);
}

/* The load since the last look. */
static struct autoscale_seen seen_since(struct sim *sim) {
    struct sim_scaling *s = &sim->scaling;
    double every_ns = (double)sim->config->autoscale->every_ns, grown_ns = 0;
    for (uint32_t k = 0; k < s->advice.count; k++) {
        double needed_ns = sim->driver->needed_ns(sim, k), subcluster_ns = needed_ns - s->needed_ns[k];
        s->needed_ns[k] = needed_ns;
        grown_ns += subcluster_ns;
        if (s->advice.count > 1)
            s->seen[k].needed = subcluster_ns / every_ns;
    }
    for (uint32_t a = 0; a < s->present && s->advice.count > 1; a++)
        s->seen[sim->driver->subcluster_of_accelerator(sim, a)].present++;
    struct autoscale_seen seen = {
        .present = s->present,
        .needed = grown_ns / every_ns,
        .requests = sim->ended - s->requests,
        .bad = sim->bad - s->bad,
    };
    s->requests += seen.requests;
    s->bad += seen.bad;
    return seen;
}

/* The type of which an accelerator is there first; NULL: none is starting. */
static struct sim_scaling_type *first_starting(struct sim *sim) {
    struct sim_scaling_type *first = NULL;
    for (uint32_t t = 0; t < sim->config->types; t++) {
        struct sim_scaling_type *type = &sim->scaling.types[t];
        if (type->starting && (!first || type->start_ns[type->start_head] < first->start_ns[first->start_head]))
            first = type;
    }
    return first;
}

static void next_start_set(struct sim *sim) {
    const struct sim_scaling_type *type = first_starting(sim);
    int64_t at_ns = type ? type->start_ns[type->start_head] : TIME_NEVER;
    sim_source_set(sim, sim->sources.starts, at_ns > sim->now_ns ? at_ns : sim->now_ns); /* the one before was late */
}

/* Carries out the advice to have at least, or at most, `wanted` accelerators of a type. Accelerators that are still
 * starting are called off first, the last one asked for before the others. */
static void more_start(struct sim *sim, struct sim_scaling_type *type, uint32_t wanted) {
    while (type->present + type->starting < wanted) {
        uint32_t slot = (type->start_head + type->starting++) % type->count;
        type->start_ns[slot] = sim->now_ns + sim->config->autoscale->start_delay_ns;
    }
}

static void others_leave(struct sim *sim, struct sim_scaling_type *type, uint32_t wanted) {
    while (type->starting && type->present + type->starting > wanted)
        type->starting--;
    while (type->present > wanted) {
        present_set(sim, type, type->present - 1);
        uint32_t a = type->first + type->present;
        sim->accelerators[a].released_ns = sim->now_ns;
        sim->driver->left(sim, a);
        sim->result->departures++;
    }
}

/* Follows the pool that the policy has chosen, by now or at an earlier look. */
static void pool_follow(struct sim *sim) {
    struct sim_scaling *s = &sim->scaling;
    struct sim_result *r = sim->result;
    const uint16_t *chosen = sim->driver->pool(sim);
    uint32_t types = sim->config->types, starting = 0;
    if (!chosen)
        return;
    if (memcmp(s->chosen, chosen, types * sizeof(*chosen)) != 0) {
        struct sim_advice *advice = &r->advice[r->advice_count++];
        *advice = (struct sim_advice){.at_s = (double)sim->now_ns / (double)NS_PER_S};
        memcpy(s->chosen, chosen, types * sizeof(*chosen));
        memcpy(advice->of_type, chosen, types * sizeof(*chosen));
        for (uint32_t t = 0; t < types; t++)
            advice->accelerators += chosen[t];
    }
    for (uint32_t t = 0; t < types; t++) {
        struct sim_scaling_type *type = &s->types[t];
        more_start(sim, type, chosen[t] < type->count ? chosen[t] : type->count);
        starting += type->starting;
    }
    for (uint32_t t = 0; t < types && !starting; t++)
        others_leave(sim, &s->types[t], chosen[t]);
}

static void load_follow(struct sim *sim) {
    struct sim_scaling *s = &sim->scaling;
    struct sim_result *r = sim->result;
    struct sim_scaling_type *only = &s->types[0];
    struct autoscale_seen seen = seen_since(sim);
    uint32_t asked = only->present + only->starting,
             wanted = autoscale_subclusters_look(&s->advice, &seen, s->seen, s->wanted);
    if (s->advice.count > 1)
        memset(s->seen, 0, s->advice.count * sizeof(*s->seen));
    if (wanted == asked)
        return;
    r->advice[r->advice_count++] =
        (struct sim_advice){.at_s = (double)sim->now_ns / (double)NS_PER_S, .accelerators = wanted};
    more_start(sim, only, wanted);
    others_leave(sim, only, wanted);
}

void sim_scaling_look(struct sim *sim) {
    if (sim->config->types > 1)
        pool_follow(sim);
    else
        load_follow(sim);
    next_start_set(sim);
    int64_t next_ns = sim->now_ns + sim->config->autoscale->every_ns;
    sim_source_set(sim, sim->sources.looks, next_ns < sim->count_until_ns ? next_ns : TIME_NEVER);
}

void sim_scaling_ran(struct sim *sim, uint32_t a, int64_t begin_ns) {
    struct sim_scaling_type *type = &sim->scaling.types[sim->config->autoscale ? sim->config->accelerator_type[a] : 0];
    int64_t released_ns = sim->accelerators[a].released_ns;
    if (a >= type->first + type->present)
        type->present_ns += (double)sim_counted_ns(sim, begin_ns > released_ns ? begin_ns : released_ns, sim->now_ns);
}

void sim_scaling_start(struct sim *sim) {
    struct sim_scaling_type *type = first_starting(sim);
    uint32_t a = type->first + type->present;
    if (!sim_accelerator_idle(sim, a)) {
        type->start_ns[type->start_head] = sim->now_ns + BUSY_STILL_NS;
    } else {
        type->start_head = (type->start_head + 1) % type->count;
        type->starting--;
        sim_accelerator_forget(sim, a); /* now, since batches may have been on their way when it was released */
        present_set(sim, type, type->present + 1);
        sim->driver->joined(sim, a);
        sim->result->joins++;
    }
    next_start_set(sim);
}

void sim_scaling_end(struct sim *sim) {
    int64_t counted_ns = sim->count_until_ns - sim->count_from_ns;
    if (sim->now_ns < sim->count_until_ns && !sim->result->gave_up && !sim->result->stopped)
        sim->now_ns = sim->count_until_ns; /* nothing happened any more */
    for (uint32_t t = 0; t < sim->config->types; t++) {
        struct sim_scaling_type *type = &sim->scaling.types[t];
        present_set(sim, type, type->present);
        sim->result->accelerators_mean_of[t] = type->present_ns / (double)counted_ns;
        sim->result->accelerators_mean += sim->result->accelerators_mean_of[t];
    }
}
