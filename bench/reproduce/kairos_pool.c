/* kairos_pool.c - pools of instances for Kairos's figures: ranked, simulated, searched. */
#include "kairos_pool.h"

#include <stdio.h>

#include "memory.h"
#include "lab/report/simulation.h"
#include "lab/sim/goodput.h"

#define BETTER_BY 1.01 /* a search takes a throughput for better if it is so many times the best */

const char *const scheme_names[SCHEMES] = {"kairos", "ribbon", "drs", "clkwrk"};

const struct kairos_model kairos_models[KAIROS_MODELS] = {
    {"NCF", "scenarios/kairos/ncf.yaml"},   {"RM2", "scenarios/kairos/rm2.yaml"},
    {"WND", "scenarios/kairos/wnd.yaml"},   {"MT-WND", "scenarios/kairos/mtwnd.yaml"},
    {"DIEN", "scenarios/kairos/dien.yaml"},
};

/* ---- pools ---- */

/* The paper's base type; with longer SLOs another type may serve every query, too. */
static uint32_t base_of(const struct kairos_pool *p) {
    for (uint32_t t = 0; t < p->input.types; t++)
        if (strcmp(p->scenario.types[t].name, "g4dn.xlarge") == 0)
            return t;
    return pool_base(&p->input);
}

/* Sets the length of a run by the bound. */
static void run_set(const struct context *c, struct kairos_pool *p, double budget) {
    double queries = figure_quick(c) ? RUN_QUICK : budget > KAIROS_BUDGET ? RUN_LARGE : RUN_QUERIES;
    double seconds = queries / p->configs[p->chosen].bound;
    snprintf(p->seconds, sizeof(p->seconds), "run.seconds=%.3g", seconds);
    snprintf(p->warmup, sizeof(p->warmup), "run.warmup_seconds=%.3g", seconds / 10);
}

struct kairos_pool *kairos_pool_make(const struct context *c, const struct kairos_model *model, double budget,
                                     const char *change) {
    struct kairos_pool *p = memory_take(sizeof(*p));
    struct sy_error err;
    p->model = model;
    p->change = change;
    if (scenario_read(model->path, &p->change, *change ? 1 : 0, &p->scenario, &err) ||
        cluster_make(&p->cluster, &p->scenario, &err) ||
        pool_input_make(&p->scenario, &p->cluster, model->path, budget, &p->input, &err)) {
        fprintf(stderr, "reproduce: %s\n", err.text);
        exit(1);
    }
    uint32_t base = base_of(p);
    pool_rates_derive(&p->input, base, &p->rates);
    p->count = pool_count(&p->input, &p->rates);
    p->configs = memory_take(p->count * sizeof(*p->configs));
    pool_rank(&p->input, &p->rates, p->configs);
    p->chosen = pool_choose(&p->rates, p->configs, p->count);
    run_set(c, p, budget);
    double bound;
    p->alike[base] = (uint16_t)pool_homogeneous(&p->input, &p->rates, &bound);
    p->alike_factor = budget / (p->alike[base] * p->input.type[base].price);
    return p;
}

void kairos_pool_free(struct kairos_pool *p) {
    free(p->configs);
    cluster_free(&p->cluster);
    scenario_free(&p->scenario);
    free(p);
}

const char *kairos_pool_text(const uint16_t *count, char text[64]) {
    snprintf(text, 64, "(%u, %u, %u, %u)", count[0], count[1], count[2], count[3]);
    return text;
}

/* ---- simulations ---- */

/* The changes of the scenario for a configuration and a scheme's n-th try. */
struct changes {
    char accelerators[512], policy[128];
};

static uint32_t tries_of(enum scheme scheme) {
    return scheme == SCHEME_DRS ? SCHEME_TRIES : 1;
}

/* The thresholds tried for DRS: the sizes that two auxiliary types can serve in time, and three quarters of the larger.
 */
static uint32_t threshold_of(const struct kairos_pool *p, uint32_t number) {
    uint32_t large = 0, small = UINT32_MAX;
    for (uint32_t t = 0; t < p->input.types; t++) {
        if (t == p->rates.base)
            continue;
        large = p->rates.size[t] > large ? p->rates.size[t] : large;
        small = p->rates.size[t] < small ? p->rates.size[t] : small;
    }
    return number == 0 ? large : number == 1 ? large * 3 / 4 : small;
}

static void changes_make(struct changes *changes, const struct kairos_pool *p, const uint16_t *count,
                         enum scheme scheme, uint32_t number, double noise) {
    size_t at = 0;
    for (uint32_t t = 0; t < p->input.types; t++)
        if (count[t])
            at += (size_t)snprintf(changes->accelerators + at, sizeof(changes->accelerators) - at,
                                   "%s{type: %s, count: %u}", at ? ", " : "cluster.accelerators=[",
                                   p->scenario.types[t].name, count[t]);
    snprintf(changes->accelerators + at, sizeof(changes->accelerators) - at, "]");
    snprintf(changes->policy, sizeof(changes->policy),
             "policy={name: kairos, late: serve, start: nothing, scheme: %s, threshold: %u, noise: %g}",
             scheme_names[scheme], scheme == SCHEME_DRS ? threshold_of(p, number) : 0, noise);
}

struct throughput throughput_add(struct context *c, const struct kairos_pool *p, const uint16_t *count,
                                 enum scheme scheme, double noise) {
    struct throughput throughput = {.count = tries_of(scheme)};
    for (uint32_t i = 0; i < throughput.count; i++) {
        struct changes changes;
        changes_make(&changes, p, count, scheme, i, noise);
        throughput.tries[i] = goodput_add(c, p->model->path, "%s; %s; %s; %s; %s", p->change, p->seconds, p->warmup,
                                          changes.accelerators, changes.policy);
    }
    return throughput;
}

double throughput_qps(const struct throughput *throughput) {
    double best = 0;
    for (uint32_t i = 0; i < throughput->count; i++)
        best = throughput->tries[i]->all.goodput_rps > best ? throughput->tries[i]->all.goodput_rps : best;
    return best;
}

/* ---- searches ---- */

#define SETS_MAX 8

static uint32_t sets_of(const struct kairos_search *search, const struct changes *changes, const char **sets) {
    uint32_t count = 0;
    sets[count++] = changes->accelerators;
    sets[count++] = changes->policy;
    if (*search->pool->change)
        sets[count++] = search->pool->change;
    sets[count++] = search->pool->seconds;
    sets[count++] = search->pool->warmup;
    return count;
}

/* The throughput of a run at rate_rps (0: the goodput); 0 if the rate does not hold. */
static double simulated(const char *path, const char **sets, uint32_t count, double rate_rps, double within) {
    static const atomic_int stop;
    struct simulation_progress progress = {.stop = &stop};
    struct simulation *s = memory_take(sizeof(*s));
    struct sy_error err;
    char rate[64];
    snprintf(rate, sizeof(rate), "workload.rate_rps=%.17g", rate_rps);
    if (rate_rps > 0)
        sets[count++] = rate;
    int rc = simulation_make(s, path, sets, count, &err);
    if (!rc)
        rc =
            rate_rps > 0 ? simulation_run(s, &progress, NULL, &err) : simulation_find(s, within, &progress, NULL, &err);
    if (rc) {
        fprintf(stderr, "reproduce: %s\n", err.text);
        exit(1);
    }
    double qps = rate_rps == 0 ? s->goodput_rps : s->result.worst_bad_rate <= GOODPUT_BAD_MOST ? rate_rps : 0;
    simulation_free(s);
    free(s);
    return qps;
}

static double search_evaluate(void *context, const struct pool_config *config) {
    struct kairos_search *search = context;
    if (search->most && search->evaluations >= search->most)
        return -1;
    double qps = 0, within = search->quick ? 0.05 : 0.01;
    for (uint32_t i = 0; i < tries_of(search->scheme); i++) {
        struct changes changes;
        const char *path = search->pool->model->path, *sets[SETS_MAX];
        changes_make(&changes, search->pool, config->count, search->scheme, i, 0);
        uint32_t count = sets_of(search, &changes, sets);
        if (!search->full && search->best_qps > 0 &&
            simulated(path, sets, count, search->best_qps * BETTER_BY, within) == 0)
            continue;
        double found = simulated(path, sets, count, 0, within);
        qps = found > qps ? found : qps;
    }
    if (search->full && search->evaluations < SEARCH_TRAIL)
        search->trail[search->evaluations] = qps;
    search->evaluations++;
    if (qps > search->best_qps) {
        search->best_qps = qps;
        search->found_at = search->evaluations;
        memcpy(search->best, config->count, sizeof(search->best));
    }
    return qps;
}

void kairos_search_do(void *argument) {
    struct kairos_search *search = argument;
    const struct kairos_pool *p = search->pool;
    struct pool_config *configs = memory_take(p->count * sizeof(*configs));
    size_t best;
    memcpy(configs, p->configs, p->count * sizeof(*configs));
    pool_search(configs, p->count, p->input.types, search_evaluate, search, &best);
    free(configs);
}
