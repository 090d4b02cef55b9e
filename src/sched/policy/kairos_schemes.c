/* kairos_schemes.c - the distributions that Kairos was compared with (HPDC '23, section 7).
 *
 *   ribbon   first come, first served; of the idle instances the one of the best type
 *   drs      large queries to the base type, the others to auxiliary types, by a threshold of their size
 *   clkwrk   a queue at each instance; a query joins the one that will finish it first
 *   oracle   the base type takes the largest query, auxiliary types the smallest that their latency allows. The paper's
 *            oracle knows all queries from the start (sched/plan/pool.h computes it); this one knows those that have
 * come */
#include "sched/policy/kairos.h"

/* The idle instance on which the model's largest query runs fastest, of equal ones the first; or UINT32_MAX. */
static uint32_t best_idle(const struct kairos *k, const struct kairos_model *model) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < k->instance_count; i++) {
        const struct kairos_instance *instance = &k->instances[i];
        if (kairos_idle(instance) && model->runs_on[instance->type] &&
            (best == UINT32_MAX || model->coefficient[instance->type] > model->coefficient[k->instances[best].type]))
            best = i;
    }
    return best;
}

void kairos_round_ribbon(struct kairos *k, int64_t now_ns, struct central_output *out) {
    for (uint32_t node = k->queue.first, next; node != REQUEST_NONE && k->idle_count; node = next) {
        next = kairos_next(k, node);
        uint32_t instance = best_idle(k, &k->models[kairos_model_of(k, node)]);
        if (instance != UINT32_MAX && !kairos_run(k, now_ns, &k->queue, node, instance, out))
            return;
    }
}

/* ---- drs ---- */

/* Whether instances of both kinds are in service, so that the threshold divides queries between them. */
static bool divided(const struct kairos *k, const struct kairos_model *model) {
    for (uint32_t t = 0; t < k->types; t++)
        if (t != model->base && model->runs_on[t] && k->up_count[t])
            return k->up_count[model->base] > 0;
    return false;
}

void kairos_round_drs(struct kairos *k, int64_t now_ns, struct central_output *out) {
    for (uint32_t i = 0; i < k->instance_count && k->idle_count; i++) {
        struct kairos_instance *instance = &k->instances[i];
        for (uint32_t node = k->queue.first, next; node != REQUEST_NONE && kairos_idle(instance); node = next) {
            next = kairos_next(k, node);
            const struct kairos_model *model = &k->models[kairos_model_of(k, node)];
            bool large = kairos_node(k, node)->items > model->climb.threshold, base = instance->type == model->base;
            if (!model->runs_on[instance->type] || (divided(k, model) && large != base))
                continue;
            if (!kairos_run(k, now_ns, &k->queue, node, i, out))
                return;
        }
    }
}

#define CLIMB_STEPS 8 /* the first step is this part of the range of sizes */

void kairos_climb_init(struct kairos *k, uint32_t model) {
    struct kairos_climb *climb = &k->models[model].climb;
    uint32_t most = k->models[model].items_max;
    double fixed = k->options.value[KAIROS_THRESHOLD];
    *climb = (struct kairos_climb){.bad_before = -1};
    climb->threshold = fixed > 0 ? (uint32_t)fixed : most / 2;
    climb->step = fixed > 0 ? 0 : most / CLIMB_STEPS ? most / CLIMB_STEPS : 1;
}

void kairos_climb_count(struct kairos *k, uint32_t model, bool bad) {
    struct kairos_climb *climb = &k->models[model].climb;
    climb->queries++;
    climb->bad += bad;
    if (!climb->step || climb->queries < k->options.value[KAIROS_CLIMB])
        return;
    /* One step: further while it gets better; back by half a step if it gets worse; none while no query is bad. */
    uint32_t most = k->models[model].items_max;
    double bad_now = (double)climb->bad / climb->queries;
    climb->queries = climb->bad = 0;
    if (bad_now == 0) {
        climb->bad_before = -1;
        return;
    }
    if (climb->bad_before >= 0 && bad_now > climb->bad_before) {
        climb->down = !climb->down;
        climb->step = climb->step > 1 ? climb->step / 2 : 1;
    }
    climb->bad_before = bad_now;
    if (climb->down ? climb->threshold == 0 : climb->threshold == most)
        climb->down = !climb->down; /* it is at the end of the range */
    if (climb->down)
        climb->threshold = climb->threshold > climb->step ? climb->threshold - climb->step : 0;
    else
        climb->threshold = climb->threshold + climb->step < most ? climb->threshold + climb->step : most;
}

/* ---- clkwrk ---- */

/* The instance that is expected to finish a query first; UINT32_MAX: none that can run it is up. */
static uint32_t first_to_finish(const struct kairos *k, int64_t now_ns, uint32_t node) {
    const struct kairos_model *model = &k->models[kairos_model_of(k, node)];
    uint32_t first = UINT32_MAX;
    int64_t least_ns = INT64_MAX;
    for (uint32_t i = 0; i < k->instance_count; i++) {
        const struct kairos_instance *instance = &k->instances[i];
        if (!instance->up || !model->runs_on[instance->type])
            continue;
        int64_t begin_ns = instance->busy && instance->free_ns > now_ns ? instance->free_ns : now_ns;
        int64_t end_ns = begin_ns + instance->queue_us * NS_PER_US + kairos_predicted_ns(k, node, instance->type);
        if (end_ns < least_ns) {
            least_ns = end_ns;
            first = i;
        }
    }
    return first;
}

void kairos_round_clkwrk(struct kairos *k, int64_t now_ns, struct central_output *out) {
    for (uint32_t node = k->queue.first, next; node != REQUEST_NONE; node = next) {
        next = kairos_next(k, node);
        uint32_t instance = first_to_finish(k, now_ns, node);
        if (instance == UINT32_MAX)
            continue;
        kairos_queue_remove(k, &k->queue, node);
        kairos_instance_append(k, &k->instances[instance], node);
    }
    for (uint32_t i = 0; i < k->instance_count && k->idle_count; i++)
        while (kairos_idle(&k->instances[i]) && k->instances[i].queue.count)
            if (!kairos_run(k, now_ns, &k->instances[i].queue, k->instances[i].queue.first, i, out))
                return;
}

/* ---- oracle ---- */

/* The waiting query that an instance takes, of equal ones the oldest; or REQUEST_NONE. */
static uint32_t oracle_choice(const struct kairos *k, int64_t now_ns, const struct kairos_instance *instance) {
    uint32_t best = REQUEST_NONE;
    for (uint32_t node = k->queue.first; node != REQUEST_NONE; node = kairos_next(k, node)) {
        const struct kairos_model *model = &k->models[kairos_model_of(k, node)];
        const struct request_node *request = kairos_node(k, node);
        if (!model->runs_on[instance->type])
            continue;
        int64_t from_ns = k->late_refused ? now_ns : request->arrival_ns;
        bool base = instance->type == model->base || !k->up_count[model->base]; /* some type must take late queries */
        if (from_ns + kairos_span_ns(k, node, instance->type) > request->deadline_ns && !(base && !k->late_refused))
            continue;
        uint32_t items = request->items;
        if (best == REQUEST_NONE || (base ? items > kairos_node(k, best)->items : items < kairos_node(k, best)->items))
            best = node;
    }
    return best;
}

void kairos_round_oracle(struct kairos *k, int64_t now_ns, struct central_output *out) {
    for (uint32_t i = 0; i < k->instance_count && k->idle_count; i++) {
        if (!kairos_idle(&k->instances[i]))
            continue;
        uint32_t node = oracle_choice(k, now_ns, &k->instances[i]);
        if (node != REQUEST_NONE && !kairos_run(k, now_ns, &k->queue, node, i, out))
            return;
    }
}
