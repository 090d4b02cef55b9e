/* sim_autoscale.c - accelerators that come and go with the load.
 *
 * Every few seconds there is a look at the load, and advice (sched/plan/autoscale_subclusters.h). An accelerator that
 * is asked for is there after its start delay; an accelerator that is released gets no new batches and ends those that
 * it has. The accelerators with the lowest numbers are in service. Where memory is limited, an accelerator that comes
 * has no model loaded. */
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
    sim->scaling.start_ns = arena_take(arena, c->autoscale ? c->accelerators * sizeof(int64_t) : 0);
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

/* Counts the time in service until now; from now on `present` accelerators are in service. */
static void present_set(struct sim *sim, uint32_t present) {
    struct sim_scaling *s = &sim->scaling;
    s->present_ns += (double)s->present * (double)sim_counted_ns(sim, s->since_ns, sim->now_ns);
    s->since_ns = sim->now_ns;
    s->present = present;
    if (present > sim->result->accelerators_max)
        sim->result->accelerators_max = present;
}

void sim_scaling_begin(struct sim *sim) {
    const struct sim_config *c = sim->config;
    if (!c->autoscale) {
        present_set(sim, c->accelerators);
        return;
    }
    present_set(sim, c->accelerators_first);
    for (uint32_t a = c->accelerators_first; a < c->accelerators; a++) {
        sim->driver->left(sim, a);
        sim->driver->deliver(sim);
    }
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

static void next_start_set(struct sim *sim) {
    struct sim_scaling *s = &sim->scaling;
    int64_t at_ns = s->starting ? s->start_ns[s->start_head] : TIME_NEVER;
    sim_source_set(sim, sim->sources.starts, at_ns > sim->now_ns ? at_ns : sim->now_ns); /* the one before was late */
}

/* Carries out the advice to have `wanted` accelerators. Accelerators that are still starting are called off first, the
 * last one asked for before the others. */
static void follow(struct sim *sim, uint32_t wanted) {
    struct sim_scaling *s = &sim->scaling;
    const struct sim_config *c = sim->config;
    while (s->present + s->starting < wanted) {
        uint32_t slot = (s->start_head + s->starting++) % c->accelerators;
        s->start_ns[slot] = sim->now_ns + c->autoscale->start_delay_ns;
    }
    while (s->starting && s->present + s->starting > wanted)
        s->starting--;
    while (s->present > wanted) {
        present_set(sim, s->present - 1);
        sim->accelerators[s->present].released_ns = sim->now_ns;
        sim->driver->left(sim, s->present);
        sim->result->departures++;
    }
    next_start_set(sim);
}

void sim_scaling_look(struct sim *sim) {
    struct sim_scaling *s = &sim->scaling;
    struct sim_result *r = sim->result;
    struct autoscale_seen seen = seen_since(sim);
    uint32_t asked = s->present + s->starting,
             wanted = autoscale_subclusters_look(&s->advice, &seen, s->seen, s->wanted);
    if (s->advice.count > 1)
        memset(s->seen, 0, s->advice.count * sizeof(*s->seen));
    if (wanted != asked) {
        r->advice[r->advice_count++] = (struct sim_advice){(double)sim->now_ns / (double)NS_PER_S, wanted};
        follow(sim, wanted);
    }
    int64_t next_ns = sim->now_ns + sim->config->autoscale->every_ns;
    sim_source_set(sim, sim->sources.looks, next_ns < sim->count_until_ns ? next_ns : TIME_NEVER);
}

void sim_scaling_ran(struct sim *sim, uint32_t a, int64_t begin_ns) {
    struct sim_scaling *s = &sim->scaling;
    int64_t released_ns = sim->accelerators[a].released_ns;
    if (a >= s->present)
        s->present_ns += (double)sim_counted_ns(sim, begin_ns > released_ns ? begin_ns : released_ns, sim->now_ns);
}

void sim_scaling_start(struct sim *sim) {
    struct sim_scaling *s = &sim->scaling;
    if (!sim_accelerator_idle(sim, s->present)) {
        s->start_ns[s->start_head] = sim->now_ns + BUSY_STILL_NS;
    } else {
        s->start_head = (s->start_head + 1) % sim->config->accelerators;
        s->starting--;
        sim_accelerator_forget(sim, s->present); /* now, since batches may have been on their way when it was released */
        present_set(sim, s->present + 1);
        sim->driver->joined(sim, s->present - 1);
        sim->result->joins++;
    }
    next_start_set(sim);
}

void sim_scaling_end(struct sim *sim) {
    int64_t counted_ns = sim->count_until_ns - sim->count_from_ns;
    if (sim->now_ns < sim->count_until_ns && !sim->result->gave_up && !sim->result->stopped)
        sim->now_ns = sim->count_until_ns; /* nothing happened any more */
    present_set(sim, sim->scaling.present);
    sim->result->accelerators_mean = sim->scaling.present_ns / (double)counted_ns;
}
