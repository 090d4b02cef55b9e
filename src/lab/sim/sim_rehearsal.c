/* sim_rehearsal.c - an emulated cluster whose policy has several ways rehearses them, as the live server does. */
#include "lab/sim/sim_state.h"

void sim_rehearsal_layout(struct sim *sim, struct arena *arena) {
    sim->rehearsal = NULL;
    if (!rehearsal_wanted(sim->config))
        return;
    void *memory = arena_take(arena, rehearsal_bytes(sim->config));
    if (arena->base)
        sim->rehearsal = rehearsal_init(memory, sim->config);
}

static void next_set(struct sim *sim) {
    int64_t next_ns = sim->now_ns + REHEARSAL_EVERY_NS;
    sim_source_set(sim, sim->sources.rehearsal, next_ns < sim->count_until_ns ? next_ns : TIME_NEVER);
}

void sim_rehearsal_begin(struct sim *sim) {
    if (sim->rehearsal)
        next_set(sim);
}

/* Adds the time since the last change of the way to its share. */
static void way_count(struct sim *sim, int64_t until_ns) {
    int64_t counted_ns = sim->count_until_ns - sim->count_from_ns;
    if (counted_ns > 0)
        sim->result->way_share[sim->way] += (double)sim_counted_ns(sim, sim->way_ns, until_ns) / (double)counted_ns;
    sim->way_ns = until_ns;
}

void sim_rehearsal_look(struct sim *sim) {
    for (uint32_t a = 0; a < sim->config->accelerators; a++)
        rehearsal_accelerator(sim->rehearsal, sim->now_ns, a, a < sim->scaling.present && !sim->accelerators[a].down);
    uint64_t ended = sim->ended - sim->ended_seen, bad = sim->bad - sim->bad_seen;
    uint32_t way = rehearsal_look(sim->rehearsal, sim->now_ns, ended, bad);
    sim->ended_seen = sim->ended;
    sim->bad_seen = sim->bad;
    if (way || sim->way) /* a scheduler that has taken over since knows no way */
        sim->driver->way_set(sim, way);
    if (way != sim->way)
        way_count(sim, sim->now_ns);
    sim->way = way;
    next_set(sim);
}

void sim_rehearsal_end(struct sim *sim) {
    bool whole = !sim->result->gave_up && !sim->result->stopped;
    way_count(sim, whole ? sim->count_until_ns : sim->now_ns);
}
