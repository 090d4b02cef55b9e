/* partition.c - simulated annealing over assignments, in rounds.
 *
 * A step moves a model to another sub-cluster, or lets two models change places. The steps of a round are judged by the
 * sum of squared deviations: a step changes two sub-clusters only, and the sum tells of all of them, not just the
 * worst. A round cools down until only better steps are taken. Then what is worst is made better, by the real
 * objective, until no step does that any more. This is also done before the first round. The next round is twice as
 * long. Where models are few, every second round is by the real objective throughout, and where they are very few, all
 * assignments are looked at instead.
 *
 * Models that change places are often alike, since fine balance needs small steps: models lie on a curve that goes
 * through the plane of loads and sizes and keeps neighbours together (Morton's), and a partner is some places further
 * along it: one place is as likely as two or three, or as four to seven. */
#include "sched/plan/partition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/fmath.h"

#define STEPS_LEAST   2000 /* steps of the first round, at least */
#define STEPS_MODEL   20   /* steps of the first round for each model */
#define DOUBLINGS     8    /* doublings of a round's length, at most */
#define ALL_MOST      4e6  /* assignments up to which all are looked at, instead of annealing */
#define ROUNDS_IDLE   48   /* rounds without a better assignment after which the search is over */
#define COOLING       1e-7 /* last temperature of a round, divided by its first one */
#define COOLING_VALUE 1e-4
#define COOL_EVERY    64  /* steps between two temperatures */
#define MODELS_FEW    128 /* models up to which every second round is by the objective itself */
#define SHIFT_PART    0.2 /* share of the steps that move one model */
#define BROKEN        1e9 /* cost of exceeding rate or memory by a whole limit: more than any balance is worth */
#define BROKEN_MOVES  1e6 /* cost of exceeding max_move_cost by a whole limit: less than BROKEN */
#define BROKEN_WARM                                                                                                    \
    1e3 /* the same in a round, times its first temperature: where moves are few, the way to a better assignment       \
         * leads over one with too many */
#define ROUNDING     1e-9 /* share of a limit that is rounding: sums are made in different orders */
#define BETTER_LEAST 1e-12
#define WORST        3 /* sub-clusters with the greatest deviation that are kept: a step changes two */

struct subcluster {
    double rate, load, memory;
    double dynamic;  /* largest dynamic size of its models */
    uint32_t barred; /* models that must not be in the sub-cluster */
    double energy;
    uint32_t first; /* first of its models, linked by next_of */
};

/* The sub-clusters that deviate most. */
struct worst {
    uint32_t subcluster[WORST];
    double deviation[WORST];
};

struct weighed {
    double weight;
    uint32_t model;
};

struct partition {
    struct partition_problem problem;
    struct rng rng;
    double mean_load, mean_memory; /* mean load, and static size, of a capacity of 1 */
    double capacity;               /* capacity of all sub-clusters together */
    struct subcluster *subclusters;
    struct weighed *weighed;       /* [models] scratch */
    uint32_t *at, *best;           /* [models] sub-cluster of each model: now, in the best assignment */
    uint32_t *next_of, *before_of; /* [models] neighbours in the list of the same sub-cluster's models; NONE */
    uint32_t *curve, *place;       /* [models] model at each place of the curve; place of each model on the curve */
    double moved_cost;
    struct partition_answer found; /* answer for `best` */
    double found_value;
    uint32_t round, idle;
    double assignments; /* number of possible assignments */
    bool all;           /* all assignments have been looked at */
    uint64_t step, round_steps;
    double temperature;
    bool by_value; /* steps of this round are judged by the objective itself */
    /* while what is worst is made better: */
    bool polishing;
    uint32_t look;     /* model that is looked at next */
    uint32_t unmoved;  /* models that have been looked at since something became better */
    uint64_t polished; /* steps of polishing */
    struct worst worst_rate, worst_memory;
    double value, squares;
};

size_t partition_bytes(const struct partition_problem *problem) {
    return sizeof(struct partition) + problem->subclusters * sizeof(struct subcluster) +
           (size_t)problem->models * (6 * sizeof(uint32_t) + sizeof(struct weighed));
}

/* ---- what an assignment is worth ---- */

/* By how much a value is over a limit, as a part of the limit. */
static double part_over(double value, double limit) {
    return value > limit * (1 + ROUNDING) ? limit > 0 ? value / limit - 1 : value : 0;
}

/* By how much a value is over a limit, in the limit's unit. */
static double excess_of(double value, double limit) {
    return part_over(value, limit) > 0 ? value - limit : 0;
}

static double capacity_of(const struct partition *p, uint32_t j) {
    return p->problem.capacity ? p->problem.capacity[j] : 1;
}

static double load_deviation(const struct partition *p, uint32_t j, double load) {
    double mean = p->mean_load * capacity_of(p, j);
    return mean > 0 ? fabs(load / mean - 1) : 0;
}

/* What a sub-cluster adds to the mean square of deviations. */
static double square_of(const struct partition *p, uint32_t j, double load) {
    double deviation = load_deviation(p, j, load);
    return deviation * deviation * capacity_of(p, j) / p->capacity;
}

static bool is_barred(const struct partition *p, uint32_t model, uint32_t j) {
    return j < 64 && p->problem.model[model].barred >> j & 1;
}

static double memory_deviation(const struct partition *p, uint32_t j, double memory) {
    double mean = p->mean_memory * capacity_of(p, j);
    return mean > 0 ? fabs(memory / mean - 1) : 0;
}

/* The cost of a sub-cluster's excesses over its limits, and of models that are barred from it. */
static double broken_of(const struct partition *p, const struct subcluster *s) {
    return BROKEN * (part_over(s->rate, p->problem.max_rate) +
                     part_over(s->memory + s->dynamic, p->problem.max_memory_mb) + s->barred);
}

static double energy_of(const struct partition *p, uint32_t j, const struct subcluster *s) {
    double r = load_deviation(p, j, s->load), m = p->problem.memory_weight * memory_deviation(p, j, s->memory);
    return r * r + m * m + broken_of(p, s);
}

static double moves_broken(const struct partition *p, double cost) {
    return BROKEN_MOVES * part_over(cost, p->problem.max_move_cost);
}

static double moves_value(const struct partition *p, double cost) {
    return p->problem.moves_weight * cost + moves_broken(p, cost);
}

/* What the objective says of how even loads and sizes are. */
static double balance_value(const struct partition *p, double rate, double memory, double squares) {
    double spread = p->problem.spread_weight > 0 && squares > 0 ? p->problem.spread_weight * sqrt(squares) : 0;
    return rate + p->problem.memory_weight * memory + spread;
}

static double move_cost(const struct partition *p, uint32_t model, uint32_t subcluster) {
    const struct partition_model *m = &p->problem.model[model];
    return m->current != PARTITION_NONE && m->current != subcluster ? m->move_cost : 0;
}

/* The largest dynamic size of a sub-cluster's models but `without`. */
static double dynamic_without(const struct partition *p, uint32_t subcluster, uint32_t without) {
    const struct subcluster *s = &p->subclusters[subcluster];
    double most = 0;
    if (p->problem.model[without].dynamic_mb < s->dynamic)
        return s->dynamic;
    for (uint32_t i = s->first; i != PARTITION_NONE; i = p->next_of[i])
        if (i != without && p->problem.model[i].dynamic_mb > most)
            most = p->problem.model[i].dynamic_mb;
    return most;
}

/* ---- steps ---- */

/* A model moves to `to`; or, with `back`, that model comes in return. */
struct step {
    uint32_t model, back, from, to;
    struct subcluster of_from, of_to; /* `from` and `to` after the step, but for `first` */
    double moved_cost;
};

/* What `from` and `to` have once the model has gone from one to the other, except their largest dynamic size. */
static void sums_shift(const struct partition *p, uint32_t model, uint32_t from, uint32_t to,
                       struct subcluster *of_from, struct subcluster *of_to) {
    const struct partition_model *m = &p->problem.model[model];
    of_from->rate -= m->rate;
    of_from->load -= m->load;
    of_from->memory -= m->static_mb;
    of_from->barred -= is_barred(p, model, from);
    of_to->rate += m->rate;
    of_to->load += m->load;
    of_to->memory += m->static_mb;
    of_to->barred += is_barred(p, model, to);
}

static void step_look(const struct partition *p, struct step *step) {
    const struct partition_model *models = p->problem.model, *out = &models[step->model];
    struct subcluster *a = &step->of_from, *b = &step->of_to;
    *a = p->subclusters[step->from];
    *b = p->subclusters[step->to];
    sums_shift(p, step->model, step->from, step->to, a, b);
    a->dynamic = dynamic_without(p, step->from, step->model);
    step->moved_cost = p->moved_cost + move_cost(p, step->model, step->to) - move_cost(p, step->model, step->from);
    if (step->back != PARTITION_NONE) {
        const struct partition_model *in = &models[step->back];
        sums_shift(p, step->back, step->to, step->from, b, a);
        a->dynamic = in->dynamic_mb > a->dynamic ? in->dynamic_mb : a->dynamic;
        b->dynamic = dynamic_without(p, step->to, step->back);
        step->moved_cost += move_cost(p, step->back, step->from) - move_cost(p, step->back, step->to);
    }
    b->dynamic = out->dynamic_mb > b->dynamic ? out->dynamic_mb : b->dynamic;
    a->energy = energy_of(p, step->from, a);
    b->energy = energy_of(p, step->to, b);
}

static void model_put(struct partition *p, uint32_t model, uint32_t subcluster) {
    uint32_t first = p->subclusters[subcluster].first;
    p->next_of[model] = first;
    p->before_of[model] = PARTITION_NONE;
    if (first != PARTITION_NONE)
        p->before_of[first] = model;
    p->subclusters[subcluster].first = model;
    p->at[model] = subcluster;
}

static void model_take(struct partition *p, uint32_t model) {
    uint32_t next = p->next_of[model], before = p->before_of[model];
    if (next != PARTITION_NONE)
        p->before_of[next] = before;
    if (before != PARTITION_NONE)
        p->next_of[before] = next;
    else
        p->subclusters[p->at[model]].first = next;
}

static void subcluster_become(struct subcluster *s, const struct subcluster *will_be) {
    uint32_t first = s->first;
    *s = *will_be;
    s->first = first;
}

static void step_take(struct partition *p, const struct step *step) {
    model_take(p, step->model);
    model_put(p, step->model, step->to);
    if (step->back != PARTITION_NONE) {
        model_take(p, step->back);
        model_put(p, step->back, step->from);
    }
    subcluster_become(&p->subclusters[step->from], &step->of_from);
    subcluster_become(&p->subclusters[step->to], &step->of_to);
    p->moved_cost = step->moved_cost;
}

/* Adds one more model, which is assigned already. */
static void sum_add(const struct partition *p, struct subcluster *s, uint32_t model) {
    const struct partition_model *m = &p->problem.model[model];
    s->rate += m->rate;
    s->load += m->load;
    s->memory += m->static_mb;
    s->barred += is_barred(p, model, p->at[model]);
    s->dynamic = m->dynamic_mb > s->dynamic ? m->dynamic_mb : s->dynamic;
}

/* Makes the sums anew, since rounding errors add up. */
static void sums_make(struct partition *p) {
    for (uint32_t j = 0; j < p->problem.subclusters; j++)
        p->subclusters[j] = (struct subcluster){.first = PARTITION_NONE};
    p->moved_cost = 0;
    for (uint32_t i = p->problem.models; i-- > 0;) {
        sum_add(p, &p->subclusters[p->at[i]], i);
        p->moved_cost += move_cost(p, i, p->at[i]);
        model_put(p, i, p->at[i]);
    }
    for (uint32_t j = 0; j < p->problem.subclusters; j++) {
        struct subcluster *s = &p->subclusters[j];
        s->energy = energy_of(p, j, s);
    }
}

/* ---- the best ---- */

static void worst_add(struct worst *w, uint32_t subcluster, double deviation) {
    for (uint32_t k = 0; k < WORST; k++)
        if (w->subcluster[k] == PARTITION_NONE || deviation > w->deviation[k]) {
            memmove(&w->subcluster[k + 1], &w->subcluster[k], (WORST - 1 - k) * sizeof(*w->subcluster));
            memmove(&w->deviation[k + 1], &w->deviation[k], (WORST - 1 - k) * sizeof(*w->deviation));
            w->subcluster[k] = subcluster;
            w->deviation[k] = deviation;
            return;
        }
}

static double worst_but(const struct worst *w, uint32_t a, uint32_t b) {
    for (uint32_t k = 0; k < WORST && w->subcluster[k] != PARTITION_NONE; k++)
        if (w->subcluster[k] != a && w->subcluster[k] != b)
            return w->deviation[k];
    return 0;
}

/* The objective, with what is broken on top. */
static void value_make(struct partition *p) {
    memset(&p->worst_rate, 0xff, sizeof(p->worst_rate));
    memset(&p->worst_memory, 0xff, sizeof(p->worst_memory));
    p->squares = 0;
    p->value = moves_value(p, p->moved_cost);
    for (uint32_t j = 0; j < p->problem.subclusters; j++) {
        const struct subcluster *s = &p->subclusters[j];
        worst_add(&p->worst_rate, j, load_deviation(p, j, s->load));
        worst_add(&p->worst_memory, j, memory_deviation(p, j, s->memory));
        p->squares += square_of(p, j, s->load);
        p->value += broken_of(p, s);
    }
    p->value += balance_value(p, p->worst_rate.deviation[0], p->worst_memory.deviation[0], p->squares);
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* What `value` will be. */
static double step_value(const struct partition *p, const struct step *step) {
    const struct subcluster *a = &step->of_from, *b = &step->of_to, *a0 = &p->subclusters[step->from],
                            *b0 = &p->subclusters[step->to];
    double rate = larger(larger(load_deviation(p, step->from, a->load), load_deviation(p, step->to, b->load)),
                         worst_but(&p->worst_rate, step->from, step->to));
    double memory = larger(larger(memory_deviation(p, step->from, a->memory), memory_deviation(p, step->to, b->memory)),
                           worst_but(&p->worst_memory, step->from, step->to));
    double squares = p->squares + square_of(p, step->from, a->load) + square_of(p, step->to, b->load) -
                     square_of(p, step->from, a0->load) - square_of(p, step->to, b0->load);
    double before = balance_value(p, p->worst_rate.deviation[0], p->worst_memory.deviation[0], p->squares);
    double broken = broken_of(p, a) + broken_of(p, b) - broken_of(p, a0) - broken_of(p, b0) +
                    moves_value(p, step->moved_cost) - moves_value(p, p->moved_cost);
    return p->value - before + balance_value(p, rate, memory, squares) + broken;
}

void partition_moves(const struct partition_problem *problem, const uint32_t *subcluster,
                     struct partition_answer *answer) {
    answer->moved = 0;
    answer->moved_cost = 0;
    for (uint32_t i = 0; i < problem->models; i++) {
        const struct partition_model *m = &problem->model[i];
        if (m->current == PARTITION_NONE || m->current == subcluster[i])
            continue;
        answer->moved++;
        answer->moved_cost += m->move_cost;
    }
    answer->over_moves = excess_of(answer->moved_cost, problem->max_move_cost);
}

static void best_keep(struct partition *p) {
    sums_make(p);
    value_make(p);
    if (p->value >= p->found_value - BETTER_LEAST)
        return;
    struct partition_answer *f = &p->found;
    p->idle = 0;
    p->found_value = p->value;
    memcpy(p->best, p->at, p->problem.models * sizeof(*p->best));
    *f = (struct partition_answer){
        .subcluster = p->best,
        .delta_rate = p->worst_rate.deviation[0],
        .delta_memory = p->worst_memory.deviation[0],
    };
    f->objective =
        balance_value(p, f->delta_rate, f->delta_memory, p->squares) + p->problem.moves_weight * p->moved_cost;
    for (uint32_t j = 0; j < p->problem.subclusters; j++) {
        const struct subcluster *s = &p->subclusters[j];
        f->over_rate += excess_of(s->rate, p->problem.max_rate);
        f->over_memory_mb += excess_of(s->memory + s->dynamic, p->problem.max_memory_mb);
        f->barred += s->barred;
    }
    partition_moves(&p->problem, p->best, f);
}

/* ---- the first assignment ---- */

/* Where a model does the least harm. */
static uint32_t subcluster_for(const struct partition *p, uint32_t model) {
    const struct partition_model *m = &p->problem.model[model];
    uint32_t at = 0;
    double least = INFINITY;
    for (uint32_t j = 0; j < p->problem.subclusters; j++) {
        struct subcluster s = p->subclusters[j];
        double load = p->mean_load * capacity_of(p, j), memory = p->mean_memory * capacity_of(p, j);
        s.rate += m->rate;
        s.memory += m->static_mb;
        s.dynamic = larger(s.dynamic, m->dynamic_mb);
        s.barred += is_barred(p, model, j);
        double harm = larger(load > 0 ? (s.load + m->load) / load : 0,
                             memory > 0 && p->problem.memory_weight > 0 ? s.memory / memory : 0) +
                      broken_of(p, &s);
        if (harm < least) {
            least = harm;
            at = j;
        }
    }
    return at;
}

static int heavier_first(const void *a, const void *b) {
    const struct weighed *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->model < y->model ? -1 : x->model > y->model;
}

static void sort_models(struct partition *p, double (*weight)(const struct partition *p, uint32_t model)) {
    for (uint32_t i = 0; i < p->problem.models; i++)
        p->weighed[i] = (struct weighed){weight(p, i), i};
    qsort(p->weighed, p->problem.models, sizeof(*p->weighed), heavier_first);
}

static double size_of(const struct partition *p, uint32_t model) {
    const struct partition_model *m = &p->problem.model[model];
    return larger(p->mean_load > 0 ? m->load / p->mean_load : 0,
                  p->mean_memory > 0 ? m->static_mb / p->mean_memory : 0);
}

/* If moves are limited, models stay where they are. The other models are placed one by one, the largest first. */
static void place_all(struct partition *p) {
    bool stay = p->problem.max_move_cost < INFINITY;
    for (uint32_t j = 0; j < p->problem.subclusters; j++)
        p->subclusters[j] = (struct subcluster){.first = PARTITION_NONE};
    sort_models(p, size_of);
    for (int pass = stay ? 0 : 1; pass < 2; pass++)
        for (uint32_t k = 0; k < p->problem.models; k++) {
            uint32_t i = p->weighed[k].model;
            const struct partition_model *m = &p->problem.model[i];
            bool stays = stay && m->current != PARTITION_NONE;
            if (stays != (pass == 0))
                continue;
            p->at[i] = stays ? m->current : subcluster_for(p, i);
            sum_add(p, &p->subclusters[p->at[i]], i);
        }
}

/* ---- the curve ---- */

static double load_weight(const struct partition *p, uint32_t model) {
    return p->problem.model[model].load;
}

static double memory_weight(const struct partition *p, uint32_t model) {
    return p->problem.model[model].static_mb;
}

static double curve_weight(const struct partition *p, uint32_t model) {
    uint64_t along = 0;
    for (int bit = 0; bit < 20; bit++)
        along |= (uint64_t)(p->curve[model] >> bit & 1) << 2 * bit | (uint64_t)(p->place[model] >> bit & 1)
                                                                         << (2 * bit + 1);
    return (double)along;
}

/* The order of the models by one weight, in 20 bits; models of equal weight come together. */
static void order_make(struct partition *p, double (*weight)(const struct partition *p, uint32_t model),
                       uint32_t *order) {
    sort_models(p, weight);
    for (uint32_t k = 0; k < p->problem.models; k++) {
        bool same = k > 0 && p->weighed[k].weight == p->weighed[k - 1].weight;
        order[p->weighed[k].model] =
            same ? order[p->weighed[k - 1].model] : (uint32_t)(((uint64_t)k << 20) / p->problem.models);
    }
}

static void curve_make(struct partition *p) {
    order_make(p, load_weight, p->curve);
    order_make(p, memory_weight, p->place);
    sort_models(p, curve_weight);
    for (uint32_t k = 0; k < p->problem.models; k++) {
        p->curve[k] = p->weighed[k].model;
        p->place[p->weighed[k].model] = k;
    }
}

static uint32_t partner_of(struct partition *p, uint32_t model) {
    uint64_t bits = rng_next(&p->rng);
    uint32_t models = p->problem.models, scales = 32 - (uint32_t)__builtin_clz(models);
    uint32_t scale = (uint32_t)((bits >> 32) % scales),
             apart = (1u << scale | ((uint32_t)bits & ((1u << scale) - 1))) % models;
    uint32_t at = p->place[model] + (bits >> 63 ? apart : models - apart);
    return p->curve[at >= models ? at - models : at];
}

/* ---- rounds ---- */

/* After best_keep(), which has made the sums and the value. */
static void round_begin(struct partition *p) {
    uint64_t steps = (uint64_t)p->problem.models * STEPS_MODEL;
    p->round_steps = (steps > STEPS_LEAST ? steps : STEPS_LEAST) << (p->round < DOUBLINGS ? p->round : DOUBLINGS);
    p->step = 0;
    p->by_value = p->round % 2 > 0 && p->problem.models <= MODELS_FEW;
    p->round++;
}

/* The first temperature of a round: one model's share of its sub-cluster, squared. Then most steps are taken. */
static double first_temperature(const struct partition *p) {
    double part = (double)p->problem.subclusters / p->problem.models;
    return part < 1 ? part * part : 1;
}

static void cool(struct partition *p) {
    double first = p->by_value ? sqrt(first_temperature(p)) : first_temperature(p),
           cold = p->by_value ? COOLING_VALUE : COOLING;
    p->temperature = first * fmath_exp((double)p->step / (double)p->round_steps * fmath_log(cold));
}

static bool step_draw(struct partition *p, struct step *step) {
    step->model = (uint32_t)rng_below(&p->rng, p->problem.models);
    step->from = p->at[step->model];
    if (rng_uniform(&p->rng) < SHIFT_PART) {
        step->back = PARTITION_NONE;
        step->to = (uint32_t)rng_below(&p->rng, p->problem.subclusters);
    } else {
        step->back = partner_of(p, step->model);
        step->to = p->at[step->back];
    }
    return step->from != step->to;
}

/* How much an assignment costs more after a step: in squares of deviations, or in the objective itself. */
static double step_more(const struct partition *p, const struct step *step) {
    if (p->by_value)
        return step_value(p, step) - p->value;
    double over_now = part_over(p->moved_cost, p->problem.max_move_cost),
           over_then = part_over(step->moved_cost, p->problem.max_move_cost);
    return step->of_from.energy + step->of_to.energy - p->subclusters[step->from].energy -
           p->subclusters[step->to].energy + BROKEN_WARM * first_temperature(p) * (over_then - over_now);
}

static void anneal(struct partition *p) {
    struct step step;
    if (p->step % COOL_EVERY == 0)
        cool(p);
    p->step++;
    if (!step_draw(p, &step))
        return;
    step_look(p, &step);
    double more = step_more(p, &step);
    if (more > 0 && more >= -p->temperature * fmath_log(1 - rng_uniform(&p->rng)))
        return;
    step_take(p, &step);
    if (p->by_value)
        value_make(p);
}

/* ---- polishing: the worst sub-clusters are made better ---- */

static void polish_begin(struct partition *p) {
    best_keep(p);
    p->polishing = true;
    p->unmoved = 0;
    p->polished = 0;
}

/* Whether the value depends on a sub-cluster. Only a step that changes such a sub-cluster can help. */
static bool matters(const struct partition *p, uint32_t j) {
    const struct subcluster *s = &p->subclusters[j];
    bool full = p->problem.spread_weight > 0 && s->load > p->mean_load * capacity_of(p, j);
    return full || j == p->worst_rate.subcluster[0] || j == p->worst_memory.subcluster[0] || broken_of(p, s) > 0 ||
           moves_broken(p, p->moved_cost) > 0;
}

static void polish_try(struct partition *p, struct step *step, struct step *best, double *least) {
    if (step->to == step->from)
        return;
    step_look(p, step);
    double value = step_value(p, step);
    if (value < *least) {
        *least = value;
        *best = *step;
    }
}

/* Takes the best step of one model, if any makes the value better: the model moves, or, if no move helps, changes
 * places with another model. Returns how many steps were looked at. */
static uint32_t polish_model(struct partition *p, uint32_t model) {
    struct step step = {.model = model, .from = p->at[model]}, best;
    double least = p->value - BETTER_LEAST, before = least;
    uint32_t looked = p->problem.subclusters;
    step.back = PARTITION_NONE;
    for (step.to = 0; step.to < p->problem.subclusters; step.to++)
        polish_try(p, &step, &best, &least);
    if (!(least < before)) {
        looked += p->problem.models;
        for (step.back = 0; step.back < p->problem.models; step.back++) {
            step.to = p->at[step.back];
            polish_try(p, &step, &best, &least);
        }
    }
    if (least < before) {
        step_take(p, &best);
        value_make(p);
        p->unmoved = 0;
    }
    return looked;
}

/* Looks at one model. Returns how many steps that counts as. */
static uint32_t polish(struct partition *p) {
    if (p->unmoved == p->problem.models || p->polished > p->round_steps) {
        p->polishing = false;
        p->idle++;
        best_keep(p);
        round_begin(p);
        if (p->assignments <= ALL_MOST) { /* from now on all assignments are looked at */
            memset(p->at, 0, p->problem.models * sizeof(*p->at));
            sums_make(p);
        }
        return 1;
    }
    uint32_t model = p->look++;
    p->look = p->look < p->problem.models ? p->look : 0;
    p->unmoved++;
    if (!matters(p, p->at[model]))
        return 1;
    uint32_t looked = polish_model(p, model);
    p->polished += looked;
    return looked;
}

/* ---- all assignments, where there are few ---- */

static void try_all(struct partition *p) {
    value_make(p);
    if (p->value < p->found_value - BETTER_LEAST)
        best_keep(p);
    /* The next assignment, as in a number with a digit for each model; after the last comes the first. */
    for (uint32_t i = 0; i < p->problem.models; i++) {
        struct step step = {.model = i, .back = PARTITION_NONE, .from = p->at[i]};
        bool carry = step.from + 1 == p->problem.subclusters;
        step.to = carry ? 0 : step.from + 1;
        if (step.to != step.from) {
            step_look(p, &step);
            step_take(p, &step);
        }
        if (!carry)
            return;
    }
    p->all = true;
}

/* ---- public ---- */

struct partition *partition_begin(void *memory, const struct partition_problem *problem, uint64_t seed) {
    struct partition *p = memory;
    uint32_t models = problem->models;
    *p = (struct partition){.problem = *problem, .found_value = INFINITY};
    p->subclusters = (struct subcluster *)(p + 1);
    p->weighed = (struct weighed *)(p->subclusters + problem->subclusters);
    p->at = (uint32_t *)(p->weighed + models);
    p->best = p->at + models;
    p->next_of = p->best + models;
    p->before_of = p->next_of + models;
    p->curve = p->before_of + models;
    p->place = p->curve + models;
    p->assignments = pow(problem->subclusters, models);
    rng_seed(&p->rng, seed);
    double load = 0, size = 0;
    for (uint32_t i = 0; i < p->problem.models; i++) {
        load += p->problem.model[i].load;
        size += p->problem.model[i].static_mb;
    }
    for (uint32_t j = 0; j < p->problem.subclusters; j++)
        p->capacity += capacity_of(p, j);
    p->mean_load = load / p->capacity;
    p->mean_memory = size / p->capacity;
    place_all(p);
    curve_make(p);
    round_begin(p);
    polish_begin(p);
    return p;
}

bool partition_search(struct partition *p, uint32_t steps) {
    for (uint32_t done = 0; done < steps;) {
        if (p->all || p->idle == ROUNDS_IDLE || p->found_value < BETTER_LEAST)
            return false;
        if (p->polishing) {
            done += polish(p);
            continue;
        }
        if (p->assignments <= ALL_MOST) {
            try_all(p);
            done++;
            continue;
        }
        anneal(p);
        done++;
        if (p->step == p->round_steps)
            polish_begin(p);
    }
    return true;
}

struct partition_answer partition_best(const struct partition *p) {
    return p->found;
}
