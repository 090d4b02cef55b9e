/* figures.c - sums over threads, worlds and slices. */
#include "lab/stress/figures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/counter.h"
#include "sched/core/request_pool.h"

void moment_take(const struct stress *s, struct moment *m) {
    memset(m, 0, sizeof(*m));
    m->now_ns = clock_now_ns();
    for (uint32_t i = 0; i < s->model_threads; i++) {
        const struct model_thread_times *times = model_thread_times(s->model_thread[i]);
        histogram_merge(&m->candidate, &times->candidate);
        histogram_merge(&m->plan, &times->plan);
        histogram_merge(&m->decision, &times->decision);
        if (s->config->sleep)
            m->cpu_ns[ROLE_MODEL] += model_thread_cpu_ns(s->model_thread[i]);
    }
    for (uint32_t k = 0; k < s->rank_threads; k++) {
        m->grants += rank_thread_grants(s->rank_thread[k]);
        histogram_merge(&m->grant, rank_thread_grant_times(s->rank_thread[k]));
        if (s->config->sleep)
            m->cpu_ns[ROLE_RANK] += rank_thread_cpu_ns(s->rank_thread[k]);
    }
    for (uint32_t i = 0; i < s->seat_count; i++) {
        m->work_ns[s->seats[i].role] += (int64_t)counter_get(&s->seats[i].work_ns);
        m->cpu_ns[s->seats[i].role] += driver_cpu_ns(s->drivers[s->driver_of_seat[i]]);
    }
    for (uint32_t i = 0; i < s->worlds; i++) {
        const struct world_counts *c = world_counts(s->world[i]);
        m->fed += counter_get(&c->fed);
        m->planned += counter_get(&c->planned);
        m->late += counter_get(&c->late);
        m->lost += counter_get(&c->lost);
        m->deaths += counter_get(&c->deaths);
        m->refused += counter_get(&c->refused);
        m->unsent += counter_get(&c->unsent);
        m->batches += counter_get(&c->batches);
    }
}

static double over(double a, double b) {
    return b > 0 ? a / b : 0;
}

struct stress_times stress_times_between(const struct histogram *from, struct histogram *until) {
    histogram_subtract(until, from);
    return (struct stress_times){
        .p50 = histogram_quantile(until, 0.5),
        .p99 = histogram_quantile(until, 0.99),
        .p999 = histogram_quantile(until, 0.999),
    };
}

/* The memory that one more accelerator takes in the rank core. */
static uint64_t accelerator_bytes(const struct stress_config *c) {
    static const uint8_t type;
    struct rank_core_config config = {.models = 1, .accelerators = 0, .accelerator_type = &type, .types = 1};
    size_t none = rank_core_bytes(&config);

    config.accelerators = c->accelerators;
    return (rank_core_bytes(&config) - none) / c->accelerators;
}

/* The work of threads that sleep is the CPU time that they took; that of others, the time of turns that had something
 * to do. */
static void kind_fill(const struct stress *s, enum driver_role role, uint32_t count, const struct moment *from,
                      const struct moment *to, struct stress_kind *kind) {
    double ns = (double)(to->now_ns - from->now_ns) * count;
    double ran_ns = (double)(to->cpu_ns[role] - from->cpu_ns[role]);
    double work_ns = s->config->sleep ? ran_ns : (double)(to->work_ns[role] - from->work_ns[role]);

    kind->ran = over(ran_ns, ns);
    kind->busy = s->config->sleep ? 1 : over(work_ns, ns);
    kind->work_ns = over(work_ns, (double)(to->fed - from->fed));
}

void figures_between(const struct stress *s, const struct moment *from, struct moment *to, struct stress_result *r) {
    double ns = (double)(to->now_ns - from->now_ns), requests = (double)(to->fed - from->fed);
    double planned = (double)(to->planned - from->planned);
    double refused = (double)(to->refused - from->refused + to->unsent - from->unsent);
    double late = (double)(to->late - from->late), grants = (double)(to->grants - from->grants);

    r->seconds = ns / 1e9;
    r->requests_per_s = requests / r->seconds;
    r->offered_per_s = s->config->rate > 0 ? s->config->rate : r->requests_per_s;
    r->grants_per_s = grants / r->seconds;
    r->requests = to->fed - from->fed;
    r->batches = to->batches - from->batches;
    r->batch_mean = over(planned, (double)r->batches);
    r->dropped_rate = over(refused, planned + refused);
    r->late_rate = over(late, planned + refused);
    r->lost_rate = over((double)(to->lost - from->lost), planned + refused);
    r->bad_rate = r->dropped_rate + r->late_rate + r->lost_rate;
    r->deaths = to->deaths - from->deaths;
    r->candidate = stress_times_between(&from->candidate, &to->candidate);
    r->grant = stress_times_between(&from->grant, &to->grant);
    r->plan = stress_times_between(&from->plan, &to->plan);
    r->decision = stress_times_between(&from->decision, &to->decision);
    kind_fill(s, ROLE_MODEL, s->model_threads, from, to, &r->model);
    kind_fill(s, ROLE_RANK, s->rank_threads, from, to, &r->rank);
    kind_fill(s, ROLE_WORLD, s->worlds, from, to, &r->feeder);
    r->rank_ns_per_grant = over(r->rank.work_ns * requests, grants);
    r->threads = s->config->sleep ? s->model_threads + s->rank_threads + s->worlds : s->driver_count;
    r->moves = s->moves;
    r->batch_max = s->profile->batch_max;
    r->request_bytes = sizeof(struct request_node);
    r->accelerator_bytes = accelerator_bytes(s->config);
}

/* ---- pauses and slices ---- */

static bool drives(const struct stress *s, uint32_t driver, enum driver_role role) {
    for (uint32_t i = 0; i < s->seat_count; i++)
        if (s->driver_of_seat[i] == driver && s->seats[i].role == role)
            return true;
    return false;
}

/* Adds up the pauses of a driver between two times, and marks the slices that any of its pauses disturbs. */
static struct stress_pauses pauses_take(const struct stress *s, uint32_t driver, int64_t from_ns, int64_t to_ns,
                                        bool *disturbed) {
    struct stress_pauses sum = {.count = 0};
    uint32_t count;
    const struct pause *pauses = driver_pauses(s->drivers[driver], &count);

    for (uint32_t i = 0; i < count; i++) {
        int64_t ns = pauses[i].to_ns - pauses[i].from_ns;
        slices_disturb(&s->slicing, &pauses[i], disturbed);
        if (pauses[i].to_ns < from_ns || pauses[i].from_ns > to_ns)
            continue;
        sum.count++;
        sum.total_ns += ns;
        sum.longest_ns = ns > sum.longest_ns ? ns : sum.longest_ns;
    }
    return sum;
}

static void pauses_add(struct stress_pauses *to, const struct stress_pauses *from) {
    to->count += from->count;
    to->total_ns += from->total_ns;
    to->longest_ns = from->longest_ns > to->longest_ns ? from->longest_ns : to->longest_ns;
}

/* Sums the whole slices between two times. */
static void slices_fill(const struct stress *s, int64_t from_ns, int64_t to_ns, const bool *disturbed,
                        struct histogram times[2], struct stress_undisturbed *u) {
    double offered = 0, all = 0, bad = 0;
    uint32_t first = slice_at(&s->slicing, from_ns) + 1, until = slice_at(&s->slicing, to_ns);

    for (uint32_t i = first; i < until; i++) {
        struct slice slice = {.offered = 0};

        for (uint32_t w = 0; w < s->worlds; w++) {
            slice.offered += world_slices(s->world[w])[i].offered;
            slice.bad += world_slices(s->world[w])[i].bad;
        }
        all += slice.offered;
        if (disturbed[i])
            continue;
        offered += slice.offered;
        bad += slice.bad;
        u->seconds += (double)s->slicing.slice_ns / 1e9;
        /* times until the end of the slice, and until the end of the one before */
        for (uint32_t k = 0; k < s->seat_count; k++)
            if (s->seats[k].times) {
                histogram_merge(&times[0], &s->seats[k].times_until[i]);
                histogram_merge(&times[1], &s->seats[k].times_until[i - 1]);
            }
    }
    u->share = over(offered, all);
    u->bad_rate = over(bad, offered);
    u->offered_per_s = over(offered, u->seconds);
    u->decision = stress_times_between(&times[1], &times[0]);
}

int figures_undisturbed(const struct stress *s, int64_t from_ns, int64_t to_ns, struct stress_result *r) {
    bool *disturbed = calloc(s->slicing.count, sizeof(*disturbed));
    struct histogram *times = calloc(2, sizeof(*times));
    int rc = disturbed && times ? 0 : -ENOMEM;

    from_ns -= s->epoch_ns;
    to_ns -= s->epoch_ns;
    for (uint32_t d = 0; rc == 0 && d < s->driver_count; d++) {
        struct stress_pauses pauses = pauses_take(s, d, from_ns, to_ns, disturbed);
        if (drives(s, d, ROLE_MODEL))
            pauses_add(&r->model.pauses, &pauses);
        if (drives(s, d, ROLE_RANK))
            pauses_add(&r->rank.pauses, &pauses);
        if (drives(s, d, ROLE_WORLD))
            pauses_add(&r->feeder.pauses, &pauses);
    }
    if (rc == 0)
        slices_fill(s, from_ns, to_ns, disturbed, times, &r->undisturbed);
    free(disturbed);
    free(times);
    return rc;
}
