/* goodput.c - search by bracketing and bisection over simulated runs. */
#include "lab/sim/goodput.h"

#include "lab/sim/workload.h"

#define GUESS_SHARE  0.8
#define GROWTH_FIRST 1.05 /* first factor of the search's steps: small, since most guesses are good */
#define GROWTH_MOST  1.3
#define DOUBTS       6 /* rates tried above the boundary: 2, 4, .. 64 times `within` over it */
#define DOUBT_ROUNDS 4

struct search {
    int (*holds)(void *context, double rate_rps);
    void *context;
    double low, high; /* highest rate known to hold, and lowest known to fail; 0: none */
    bool stopped;
};

static bool search_try(struct search *s, double rate_rps) {
    int held = s->stopped ? 0 : s->holds(s->context, rate_rps);
    s->stopped |= held < 0;
    if (held > 0)
        s->low = rate_rps;
    else if (!s->stopped)
        s->high = rate_rps;
    return held > 0;
}

/* Raises the rate from one that holds to one that fails; false: all rates up to `most` hold. */
static bool climb(struct search *s, double most_rps) {
    double factor = GROWTH_FIRST;
    while (s->low < most_rps && !s->stopped) {
        double next = s->low * factor < most_rps ? s->low * factor : most_rps;
        if (!search_try(s, next))
            return true;
        factor = factor * factor < GROWTH_MOST ? factor * factor : GROWTH_MOST;
    }
    return false;
}

static void descend(struct search *s, double least_rps) {
    double factor = GROWTH_FIRST, rate_rps = s->high / factor;
    while (rate_rps >= least_rps && !s->stopped && !search_try(s, rate_rps)) {
        factor = factor * factor < GROWTH_MOST ? factor * factor : GROWTH_MOST;
        rate_rps /= factor;
    }
}

static void bisect(struct search *s, double within) {
    while (!s->stopped && s->high > s->low * (1 + within))
        search_try(s, (s->low + s->high) / 2);
}

/* Tries higher rates; true if one holds, with low and high then around the highest boundary found. */
static bool doubt(struct search *s, double within, double most_rps) {
    double low = s->low, high = s->high, tried[DOUBTS + 1];
    int best = -1, count = 0;
    for (double times = 2; count < DOUBTS && !s->stopped; times *= 2) {
        double rate_rps = low * (1 + times * within);
        if (rate_rps > most_rps)
            break;
        tried[count] = rate_rps;
        if (search_try(s, rate_rps))
            best = count;
        count++;
    }
    s->low = best < 0 ? low : tried[best];
    s->high = best < 0 ? high : best + 1 < count ? tried[best + 1] : 0;
    return best >= 0;
}

double goodput_search(int (*holds)(void *context, double rate_rps), void *context, double guess_rps, double within,
                      double most_rps) {
    struct search s = {.holds = holds, .context = context};
    if (!search_try(&s, guess_rps))
        descend(&s, guess_rps / 1024);
    if (s.low <= 0)
        return 0;
    for (int round = 0; round <= DOUBT_ROUNDS && !s.stopped; round++) {
        if (s.high <= 0 && !climb(&s, most_rps))
            break;
        bisect(&s, within);
        if (round == DOUBT_ROUNDS || !doubt(&s, within, most_rps))
            break;
    }
    return s.low;
}

/* ---- by simulated runs ---- */

struct trials {
    const struct sim_config *config;
    void *memory;
};

int goodput_try(const struct sim_config *config, double rate_rps, void *memory, struct sim_result *result) {
    struct sim_rate_step step = {0, rate_rps};
    struct sim_config run = *config;
    run.steps = &step;
    run.step_count = 1;
    run.give_up_bad = GOODPUT_GIVE_UP_BAD;
    sim_run(&run, memory, result);
    return result->stopped ? -1 : !result->gave_up && result->good && result->worst_bad_rate <= GOODPUT_BAD_MOST;
}

static int trial_holds(void *context, double rate_rps) {
    const struct trials *trials = context;
    struct sim_result result;
    return goodput_try(trials->config, rate_rps, trials->memory, &result);
}

double goodput_find(const struct sim_config *config, double guess_rps, double within, void *memory) {
    struct trials trials = {config, memory};
    return goodput_search(trial_holds, &trials, guess_rps, within, guess_rps * GOODPUT_GUESS_TIMES_MOST);
}

size_t goodput_bytes(const struct sim_config *config, double guess_rps) {
    struct sim_rate_step step = {0, guess_rps * GOODPUT_GUESS_TIMES_MOST};
    struct sim_config run = *config;
    run.steps = &step;
    run.step_count = 1;
    run.give_up_bad = GOODPUT_GIVE_UP_BAD;
    return sim_bytes(&run);
}

/* The least accelerator time of an item, on the type that needs the least. */
static double item_ns(const struct sim_config *config, const struct sim_model *model) {
    double least_ns = 0;
    for (uint32_t t = 0; t < config->types; t++)
        for (uint32_t b = 1; model->profiles[t] && b <= model->batch_max; b++) {
            double each_ns = (double)model->profiles[t]->latency_ns[b] / b;
            if (model->profiles[t]->latency_ns[b] <= model->slo_ns && (least_ns <= 0 || each_ns < least_ns))
                least_ns = each_ns;
        }
    return least_ns;
}

static double query_ns(const struct sim_config *config, const struct pipeline *pipeline) {
    double items[PIPELINE_STAGES_MAX], sum_ns = 0;
    pipeline_items(pipeline, items);
    for (uint32_t v = 0; v < pipeline->stage_count; v++)
        sum_ns += items[v] * item_ns(config, &config->models[pipeline->stages[v].model]);
    return sum_ns;
}

double goodput_guess(const struct sim_config *config) {
    double shares = 0, work_ns = 0;
    for (uint32_t m = 0; m < config->model_count; m++) {
        shares += config->models[m].share;
        work_ns += config->models[m].share * (item_ns(config, &config->models[m]) * workload_items(config, m));
    }
    for (uint32_t p = 0; p < config->pipeline_count; p++) {
        shares += config->pipelines[p].queries.share;
        work_ns += config->pipelines[p].queries.share * query_ns(config, &config->pipelines[p].graph);
    }
    return work_ns > 0 ? GUESS_SHARE * config->accelerators * shares * (double)NS_PER_S / work_ns : 1;
}
