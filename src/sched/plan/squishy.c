/* squishy.c - Nexus' Algorithm 1, made incremental. */
#include "sched/plan/squishy.h"

#include <string.h>

#include "core/util/assert.h"
#include "core/util/time.h"

/* Items that are left out of a batch: rate * duty is a little more than whole when the duty cycle was rounded. */
#define ITEMS_SLACK 1e-6
/* Part by which loads may be more than what the batches without these items take. */
#define LOADS_SLACK (10 * ITEMS_SLACK)
/* Factor within which the items of two batches cost the same: then the larger batch is taken. */
#define CHEAPEST_WITHIN 1.001
/* GPUs that are looked at together: if the emptiest is too full, so are the others. */
#define BLOCK 64

uint32_t squishy_batch_full(const struct squishy_session *session) {
    const struct profile *profile = session->profile;
    uint32_t most = 0, best = 0;
    double least_ns = 0; /* an item */
    for (uint32_t b = 1; profile && b <= session->batch_max && 2 * profile->latency_ns[b] <= session->slo_ns; b++) {
        double item_ns = (double)profile->latency_ns[b] / b;
        least_ns = b == 1 || item_ns < least_ns ? item_ns : least_ns;
        most = b;
    }
    for (uint32_t b = 1; b <= most; b++)
        if ((double)profile->latency_ns[b] / b <= least_ns * CHEAPEST_WITHIN)
            best = b;
    return best;
}

/* Items per second of a GPU that runs only batches of b. */
static double throughput(const struct squishy_session *session, uint32_t b) {
    return (double)b * (double)NS_PER_S / (double)session->profile->latency_ns[b];
}

/* GPUs that a rate saturates; a residue of less than a millionth of a GPU is none. */
static uint32_t gpus_saturated(const struct squishy_session *session, uint32_t batch_full, double rate) {
    double gpus = rate / throughput(session, batch_full) + ITEMS_SLACK;
    return gpus < (double)INT32_MAX ? (uint32_t)gpus : INT32_MAX;
}

uint64_t squishy_gpus_most(const struct squishy_session *sessions, uint32_t count) {
    uint64_t gpus = 0;
    for (uint32_t s = 0; s < count; s++) {
        uint32_t batch_full = squishy_batch_full(&sessions[s]);
        if (batch_full && sessions[s].rate > 0)
            gpus += gpus_saturated(&sessions[s], batch_full, sessions[s].rate) + 1ULL;
    }
    return gpus;
}

/* ---- memory ---- */

/* Lays out the arrays one after the other; with `memory` NULL only returns their size. */
static size_t layout(struct squishy *plan, char *memory) {
    uint32_t items = plan->gpus_max > plan->sessions ? plan->gpus_max : plan->sessions;
    size_t gpus = plan->gpus_max * sizeof(*plan->gpus), places = plan->sessions * sizeof(*plan->places);
    size_t entries = items * sizeof(struct heap_entry), positions = items * sizeof(uint32_t);
    size_t blocks = (plan->gpus_max + BLOCK - 1) / BLOCK * sizeof(double);
    if (memory) {
        char *order = memory + gpus + places + blocks;
        plan->gpus = (struct squishy_gpu *)memory;
        plan->places = (struct squishy_place *)(memory + gpus);
        plan->least_of_block = (double *)(memory + gpus + places);
        plan->moved = (uint32_t *)(order + entries + positions);
        heap_init(&plan->order, (struct heap_entry *)order, (uint32_t *)(order + entries), items);
    }
    return gpus + places + blocks + entries + positions + plan->sessions * sizeof(uint32_t);
}

size_t squishy_bytes(uint32_t gpus_max, uint32_t sessions) {
    struct squishy plan = {.gpus_max = gpus_max, .sessions = sessions};
    return layout(&plan, NULL);
}

void squishy_init(struct squishy *plan, void *memory, uint32_t gpus_max, uint32_t sessions, uint64_t memory_bytes) {
    *plan = (struct squishy){.gpus_max = gpus_max, .sessions = sessions, .memory_bytes = memory_bytes};
    layout(plan, memory);
    for (uint32_t g = 0; g < gpus_max; g++)
        plan->gpus[g].usable = true;
    squishy_clear(plan);
}

void squishy_copy(struct squishy *to, const struct squishy *from) {
    CHECK(to->gpus_max == from->gpus_max && to->sessions == from->sessions);
    memcpy(to->gpus, from->gpus, from->gpus_max * sizeof(*to->gpus));
    memcpy(to->places, from->places, from->sessions * sizeof(*to->places));
    to->free_from = from->free_from;
}

static void gpu_empty(struct squishy *plan, struct squishy_gpu *gpu) {
    uint32_t g = (uint32_t)(gpu - plan->gpus);
    *gpu = (struct squishy_gpu){
        .usable = gpu->usable, .saturated = SQUISHY_NONE, .first = SQUISHY_NONE, .load_least = __builtin_inf()};
    if (g < plan->free_from)
        plan->free_from = g;
}

void squishy_clear(struct squishy *plan) {
    for (uint32_t g = 0; g < plan->gpus_max; g++)
        gpu_empty(plan, &plan->gpus[g]);
    for (uint32_t s = 0; s < plan->sessions; s++)
        plan->places[s] = (struct squishy_place){.gpu = SQUISHY_NONE, .next = SQUISHY_NONE};
}

void squishy_usable_set(struct squishy *plan, uint32_t g, bool usable) {
    struct squishy_gpu *gpu = &plan->gpus[g];
    if (gpu->saturated != SQUISHY_NONE)
        plan->places[gpu->saturated].saturated--;
    for (uint32_t s = gpu->first, next; s != SQUISHY_NONE; s = next) {
        next = plan->places[s].next;
        plan->places[s].gpu = plan->places[s].next = SQUISHY_NONE;
    }
    gpu->usable = usable;
    gpu_empty(plan, gpu);
}

/* ---- a residue alone ---- */

/* Sets what the residue needs on any GPU, and the batch and the duty cycle that the residue would have on a GPU of its
 * own: lines 12 to 15.
 *
 * The paper leaves two cases open. If no batch gathers within the SLO (few requests), one item runs, at the latest
 * after slo - l(1). If a batch takes longer than it gathers (a residue just under a GPU's throughput), the next larger
 * batch runs, in a cycle of slo - l(b+1), which is no shorter than l(b+1) as b+1 <= B. */
static void residue_alone(const struct squishy_session *session, struct squishy_place *place) {
    const int64_t *latency_ns = session->profile->latency_ns;
    uint32_t b = place->batch_full; /* largest that gathers and runs within the SLO: l(b) + b/r <= slo (equation 2) */
    while (b > 0 && (double)latency_ns[b] + (double)b / place->residue * (double)NS_PER_S > (double)session->slo_ns)
        b--;
    int64_t duty_ns = (int64_t)((double)b / place->residue * (double)NS_PER_S);
    if (b == 0 || latency_ns[b] > duty_ns) {
        b += b < place->batch_full;
        duty_ns = session->slo_ns - latency_ns[b];
    }
    place->alone_batch = b;
    place->alone_duty_ns = duty_ns;
    place->alone_occupancy = (double)latency_ns[b] / (double)duty_ns;
    double item_ns = (double)latency_ns[1];
    for (uint32_t i = 2; i <= session->batch_max; i++)
        item_ns = (double)latency_ns[i] / i < item_ns ? (double)latency_ns[i] / i : item_ns;
    place->load_least = place->residue / (double)NS_PER_S * item_ns;
}

/* How a session's rate divides: lines 5 to 10. */
static void session_divide(struct squishy_place *place, const struct squishy_session *session, double scale) {
    double rate = session->rate * scale;
    place->batch_full = squishy_batch_full(session);
    place->saturated_due = 0;
    place->residue = 0;
    place->alone_batch = 0;
    if (rate <= 0)
        return;
    if (!place->batch_full) { /* squishy_missing() */
        place->residue = rate;
        return;
    }
    double full = throughput(session, place->batch_full);
    place->saturated_due = gpus_saturated(session, place->batch_full, rate);
    double residue = rate - (double)place->saturated_due * full;
    if (residue > full * ITEMS_SLACK) {
        place->residue = residue;
        residue_alone(session, place);
    }
}

/* ---- residues together ---- */

/* Items of a residue that come in a duty cycle. */
static uint32_t batch_in(const struct squishy_place *place, int64_t duty_ns) {
    double items = place->residue * (double)duty_ns / (double)NS_PER_S;
    uint32_t b = (uint32_t)(items + 1 - ITEMS_SLACK);
    return b > 1 ? b : 1;
}

/* Takes the time of a residue's batch from the rest of a duty cycle; false if it does not fit there, or not into the
 * SLO. */
static bool run_fits(const struct squishy_session *session, const struct squishy_place *place, int64_t duty_ns,
                     int64_t *left_ns) {
    uint32_t b = batch_in(place, duty_ns);
    if (b > session->batch_max || duty_ns + session->profile->latency_ns[b] > session->slo_ns)
        return false;
    *left_ns -= session->profile->latency_ns[b];
    return *left_ns >= 0;
}

/* MergeNodes (figure 7): whether one more residue may share a GPU that is up to date, in the smallest of their duty
 * cycles. Gives that cycle and the time of it spent running. On most GPUs that cycle is what it was, or the residues'
 * loads tell that they do not fit; only on the others their batches are looked at. */
static bool residue_joins(const struct squishy *plan, const struct squishy_session *sessions,
                          const struct squishy_gpu *gpu, uint32_t more, int64_t *duty_ns, int64_t *busy_ns) {
    const struct squishy_place *places = plan->places;
    int64_t duty = places[more].alone_duty_ns < gpu->duty_ns ? places[more].alone_duty_ns : gpu->duty_ns;
    int64_t left_ns = duty == gpu->duty_ns ? duty - gpu->busy_ns : duty;
    if (!run_fits(&sessions[more], &places[more], duty, &left_ns))
        return false;
    if (duty < gpu->duty_ns) {
        if ((double)left_ns < gpu->load_least * (double)duty * (1 - LOADS_SLACK))
            return false;
        for (uint32_t s = gpu->first; s != SQUISHY_NONE; s = places[s].next)
            if (!run_fits(&sessions[s], &places[s], duty, &left_ns))
                return false;
    }
    *duty_ns = duty;
    *busy_ns = duty - left_ns;
    return true;
}

static bool memory_fits(const struct squishy *plan, const struct squishy_gpu *gpu,
                        const struct squishy_session *session) {
    return !plan->memory_bytes || session->weights_bytes <= plan->memory_bytes - gpu->bytes_taken;
}

/* Brings the block of a GPU up to date. */
static void block_refresh(struct squishy *plan, uint32_t g) {
    uint32_t from = g / BLOCK * BLOCK;
    double least = __builtin_inf();
    for (uint32_t i = from; i < from + BLOCK && i < plan->gpus_max; i++)
        least = plan->gpus[i].load_least < least ? plan->gpus[i].load_least : least;
    plan->least_of_block[g / BLOCK] = least;
}

/* Brings a GPU's duty cycle and batches up to date. False: the GPU is overloaded, and nothing is changed. */
static bool gpu_refresh(struct squishy *plan, const struct squishy_session *sessions, struct squishy_gpu *gpu) {
    struct squishy_place *places = plan->places;
    int64_t duty_ns = TIME_NEVER;
    for (uint32_t s = gpu->first; s != SQUISHY_NONE; s = places[s].next)
        duty_ns = places[s].alone_duty_ns < duty_ns ? places[s].alone_duty_ns : duty_ns;
    int64_t left_ns = duty_ns;
    for (uint32_t s = gpu->first; s != SQUISHY_NONE; s = places[s].next)
        if (!run_fits(&sessions[s], &places[s], duty_ns, &left_ns))
            return false;
    gpu->duty_ns = duty_ns;
    gpu->busy_ns = duty_ns - left_ns;
    gpu->occupancy = (double)gpu->busy_ns / (double)duty_ns;
    gpu->load_least = 0;
    for (uint32_t s = gpu->first; s != SQUISHY_NONE; s = places[s].next) {
        places[s].batch = batch_in(&places[s], duty_ns);
        gpu->load_least += places[s].load_least;
    }
    block_refresh(plan, (uint32_t)(gpu - plan->gpus));
    return true;
}

static void residue_put(struct squishy *plan, const struct squishy_session *sessions, uint32_t session, uint32_t g) {
    struct squishy_gpu *gpu = &plan->gpus[g];
    struct squishy_place *place = &plan->places[session];
    place->gpu = g;
    place->next = gpu->first;
    gpu->first = session;
    gpu->bytes_taken += sessions[session].weights_bytes;
    CHECK(gpu_refresh(plan, sessions, gpu));
}

/* Takes a residue off its GPU, whose duty cycle is not brought up to date. */
static void residue_take(struct squishy *plan, const struct squishy_session *sessions, uint32_t session) {
    struct squishy_place *place = &plan->places[session];
    struct squishy_gpu *gpu = &plan->gpus[place->gpu];
    uint32_t *link = &gpu->first;
    while (*link != session)
        link = &plan->places[*link].next;
    *link = place->next;
    gpu->bytes_taken -= sessions[session].weights_bytes;
    if (gpu->first == SQUISHY_NONE) {
        gpu_empty(plan, gpu);
        block_refresh(plan, place->gpu);
    }
    place->gpu = place->next = SQUISHY_NONE;
}

static bool gpu_is_empty(const struct squishy_gpu *gpu) {
    return gpu->saturated == SQUISHY_NONE && gpu->first == SQUISHY_NONE;
}

/* The lowest-numbered GPU that has nothing on it; or NONE. */
static uint32_t gpu_free(struct squishy *plan) {
    for (; plan->free_from < plan->gpus_max; plan->free_from++) {
        const struct squishy_gpu *gpu = &plan->gpus[plan->free_from];
        if (gpu->usable && gpu_is_empty(gpu))
            return plan->free_from;
    }
    return SQUISHY_NONE;
}

/* Best fit: the GPU in use, but `except`, that the residue leaves the least idle; or NONE. Lines 19 to 25. */
static uint32_t gpu_best(const struct squishy *plan, const struct squishy_session *sessions, uint32_t session,
                         uint32_t except) {
    uint32_t best = SQUISHY_NONE;
    double best_occupancy = 0;
    int64_t duty_ns, busy_ns;
    double full = 1 + LOADS_SLACK - plan->places[session].load_least;
    for (uint32_t g = 0; g < plan->gpus_max; g++) {
        if (g % BLOCK == 0 && plan->least_of_block[g / BLOCK] > full) {
            g += BLOCK - 1;
            continue;
        }
        const struct squishy_gpu *gpu = &plan->gpus[g];
        if (gpu->load_least > full || g == except || !memory_fits(plan, gpu, &sessions[session]))
            continue;
        if (!residue_joins(plan, sessions, gpu, session, &duty_ns, &busy_ns))
            continue;
        double occupancy = (double)busy_ns / (double)duty_ns;
        if (occupancy > best_occupancy) {
            best = g;
            best_occupancy = occupancy;
        }
    }
    return best;
}

/* ---- saturated GPUs ---- */

/* Frees the GPUs that sessions no longer saturate, the last ones first; a residue without a place takes one that its
 * session gives up. */
static void saturated_release(struct squishy *plan, const struct squishy_session *sessions) {
    for (uint32_t g = plan->gpus_max; g-- > 0;) {
        struct squishy_gpu *gpu = &plan->gpus[g];
        uint32_t s = gpu->saturated;
        if (s == SQUISHY_NONE)
            continue;
        struct squishy_place *place = &plan->places[s];
        if (place->saturated <= place->saturated_due) {
            gpu->duty_ns = sessions[s].profile->latency_ns[place->batch_full];
            continue;
        }
        gpu_empty(plan, gpu);
        place->saturated--;
        if (place->alone_batch && place->gpu == SQUISHY_NONE)
            residue_put(plan, sessions, s, g);
    }
}

/* Gives a session the GPUs that it is to saturate and does not have yet: the one on which its residue is alone, and
 * free ones. False: there are too few. */
static bool saturated_add(struct squishy *plan, const struct squishy_session *sessions, uint32_t s) {
    struct squishy_place *place = &plan->places[s];
    while (place->saturated < place->saturated_due) {
        uint32_t g = place->gpu;
        if (g != SQUISHY_NONE && plan->gpus[g].first == s && place->next == SQUISHY_NONE)
            residue_take(plan, sessions, s);
        else
            g = gpu_free(plan);
        if (g == SQUISHY_NONE || !memory_fits(plan, &plan->gpus[g], &sessions[s]))
            return false;
        struct squishy_gpu *gpu = &plan->gpus[g];
        gpu->saturated = s;
        gpu->duty_ns = sessions[s].profile->latency_ns[place->batch_full];
        gpu->occupancy = 1;
        gpu->bytes_taken = sessions[s].weights_bytes;
        place->saturated++;
    }
    return true;
}

/* ---- the update ---- */

/* The residue of a GPU that would occupy a GPU of its own the least. */
static uint32_t residue_cheapest(const struct squishy *plan, const struct squishy_gpu *gpu) {
    uint32_t cheapest = gpu->first;
    for (uint32_t s = gpu->first; s != SQUISHY_NONE; s = plan->places[s].next)
        if (plan->places[s].alone_occupancy < plan->places[cheapest].alone_occupancy)
            cheapest = s;
    return cheapest;
}

static void overloaded_evict(struct squishy *plan, const struct squishy_session *sessions) {
    for (uint32_t g = 0; g < plan->gpus_max; g++) {
        struct squishy_gpu *gpu = &plan->gpus[g];
        while (gpu->first != SQUISHY_NONE && !gpu_refresh(plan, sessions, gpu))
            residue_take(plan, sessions, residue_cheapest(plan, gpu));
    }
}

static int64_t sort_key(double occupancy) {
    return (int64_t)(occupancy * 1e12);
}

static uint32_t order_pop(struct squishy *plan) {
    uint32_t item = heap_top(&plan->order).item;
    heap_remove(&plan->order, item);
    return item;
}

/* Places the residues that have no GPU: lines 16 to 30. */
static bool residues_place(struct squishy *plan, const struct squishy_session *sessions) {
    bool all = true;
    for (uint32_t s = 0; s < plan->sessions; s++)
        if (plan->places[s].alone_batch && plan->places[s].gpu == SQUISHY_NONE)
            heap_set(&plan->order, s, -sort_key(plan->places[s].alone_occupancy));
    while (!heap_empty(&plan->order)) {
        uint32_t s = order_pop(plan), g = gpu_best(plan, sessions, s, SQUISHY_NONE);
        if (g == SQUISHY_NONE)
            g = gpu_free(plan);
        if (g != SQUISHY_NONE && memory_fits(plan, &plan->gpus[g], &sessions[s]))
            residue_put(plan, sessions, s, g);
        else
            all = false;
    }
    return all;
}

/* Moves all residues of a GPU to others, or none. */
static void gpu_vacate(struct squishy *plan, const struct squishy_session *sessions, uint32_t g) {
    struct squishy_gpu *gpu = &plan->gpus[g];
    uint32_t *moved = plan->moved, count = 0;
    while (gpu->first != SQUISHY_NONE) {
        uint32_t s = gpu->first, to = gpu_best(plan, sessions, s, g);
        if (to == SQUISHY_NONE)
            break;
        residue_take(plan, sessions, s);
        residue_put(plan, sessions, s, to);
        moved[count++] = s;
    }
    if (gpu->first == SQUISHY_NONE)
        return;
    while (count-- > 0) {
        uint32_t from = plan->places[moved[count]].gpu;
        residue_take(plan, sessions, moved[count]);
        CHECK(gpu_refresh(plan, sessions, &plan->gpus[from]));
        residue_put(plan, sessions, moved[count], g);
    }
}

/* Frees GPUs whose residues fit elsewhere, the least busy first. */
static void consolidate(struct squishy *plan, const struct squishy_session *sessions) {
    for (uint32_t g = 0; g < plan->gpus_max; g++)
        if (plan->gpus[g].first != SQUISHY_NONE)
            heap_set(&plan->order, g, sort_key(plan->gpus[g].occupancy));
    while (!heap_empty(&plan->order))
        gpu_vacate(plan, sessions, order_pop(plan));
}

static bool everything_place(struct squishy *plan, const struct squishy_session *sessions) {
    bool all = true;
    for (uint32_t s = 0; s < plan->sessions; s++) {
        all &= plan->places[s].batch_full > 0 || plan->places[s].residue <= 0;
        all &= saturated_add(plan, sessions, s);
    }
    return residues_place(plan, sessions) && all;
}

bool squishy_update(struct squishy *plan, const struct squishy_session *sessions, double scale) {
    for (uint32_t s = 0; s < plan->sessions; s++)
        session_divide(&plan->places[s], &sessions[s], scale);
    for (uint32_t s = 0; s < plan->sessions; s++) /* a residue that is no more leaves its GPU */
        if (!plan->places[s].alone_batch && plan->places[s].gpu != SQUISHY_NONE)
            residue_take(plan, sessions, s);
    overloaded_evict(plan, sessions);
    for (uint32_t g = 0; g < plan->gpus_max; g += BLOCK)
        block_refresh(plan, g);
    saturated_release(plan, sessions);
    bool all = everything_place(plan, sessions);
    consolidate(plan, sessions);
    return all || everything_place(plan, sessions);
}

/* ---- what is where ---- */

double squishy_missing(const struct squishy *plan, const struct squishy_session *sessions, uint32_t session) {
    const struct squishy_place *place = &plan->places[session];
    double missing = place->gpu == SQUISHY_NONE ? place->residue : 0;
    if (place->saturated < place->saturated_due)
        missing += (place->saturated_due - place->saturated) * throughput(&sessions[session], place->batch_full);
    return missing;
}

uint32_t squishy_gpus_used(const struct squishy *plan) {
    uint32_t used = 0;
    for (uint32_t g = 0; g < plan->gpus_max; g++)
        used += !gpu_is_empty(&plan->gpus[g]);
    return used;
}

bool squishy_on(const struct squishy *plan, uint32_t gpu, uint32_t session) {
    return plan->gpus[gpu].saturated == session || plan->places[session].gpu == gpu;
}

uint32_t squishy_batch(const struct squishy *plan, uint32_t gpu, uint32_t session) {
    const struct squishy_place *place = &plan->places[session];
    return plan->gpus[gpu].saturated == session ? place->batch_full : place->batch;
}

double squishy_rate(const struct squishy *plan, const struct squishy_session *sessions, uint32_t gpu,
                    uint32_t session) {
    const struct squishy_place *place = &plan->places[session];
    return plan->gpus[gpu].saturated == session ? throughput(&sessions[session], place->batch_full) : place->residue;
}
