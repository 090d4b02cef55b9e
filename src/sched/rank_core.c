/* rank_core.c - matches model candidates to free accelerators.
 *
 * Each accelerator type has a lane: its free accelerators by number, so that load consolidates on the low ones, and the
 * candidates for it in a stage for each level of supply, since when a batch may start depends on how many are free. A
 * stage holds the candidates whose time has not come by that time, and the others in the order of their order_ns.
 * Candidates are only stored when they come; a stage is brought up to date when its level's accelerators can use it.
 *
 * An accelerator counts as free some time before it is: grants, answers and inputs take that long to it, and it should
 * not wait for them.
 *
 *     |<------------- l(b) -------------->|
 *     begin              offer <- ahead ->| free
 *
 * `ahead` is what the configuration says a batch takes on its way, and what grants were seen to take until they were
 * answered. It allows nothing for ends that come earlier than expected: what is sealed early is in the way of whom
 * comes in between, and an accelerator that is reported free before it was offered is granted then. A batch sealed
 * ahead waits at the accelerator, at most one. Where nothing takes any time (a simulation without delays) accelerators
 * are free when they say so.
 *
 * Best effort gets what is idle and not needed: batches cannot be interrupted, so some accelerators are kept from it
 * for who comes next, as many as it takes that it is in the way of one batch in ten, and those who wait for company
 * must find one when their time comes. To everybody else an accelerator that runs best effort counts as free, so that
 * they go on as if there were none of it. Models take turns by how long theirs has run. */
#include "sched/rank_core.h"

#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/bit_tree.h"
#include "base/fmath.h"
#include "base/heap.h"
#include "sched/load_classes.h"

#define PARAMETERS_EVERY_NS (10 * NS_PER_MS)
#define SLOW_NS             2e9 /* time constants of the models' rates */
#define FAST_NS             1e8
#define BATCHES_MOST        2 /* of an accelerator at once */
#define PACE_WEIGHT         (1.0 / 16)
#define PACE_FAR            2
#define HOP_WEIGHT          (1.0 / 64)
#define DEVIATIONS          2 /* from the mean, that an offer allows for */

#define WAITING_EACH 4 /* models that wait for company, for whose batches a free accelerator is enough */

/* Best effort. A batch runs for so long at most, and for this part of what the tightest SLO leaves beside one run. */
#define BEST_EFFORT_RUN_NS 1e9
#define BEST_EFFORT_PART   0.5
/* Models count as asked until not one item is to be expected in a hundred of the longest runs. A rate falls in silence
 * for 24 minutes until it is 0, and all the while best effort would make way for who does not come. */
#define SILENT_RATE (0.01 / (BEST_EFFORT_RUN_NS / (double)NS_PER_S))
/* Accelerators that are kept from it: more by a step after each batch that it was in the way of, fewer after others, so
 * that these are this share of all; at most this part of the accelerators. What was learned fades, every 10 ms. */
#define KEPT_STEP  0.5
#define KEPT_SHARE 0.1
#define KEPT_MOST  0.5
#define KEPT_FADE  0.995

/* A batch that was announced and has not ended. */
struct running {
    uint32_t model;
    bool best_effort;
    int64_t table_ns;   /* what it takes by the tables */
    int64_t arrives_ns; /* its inputs, if that is known to decide when it begins */
};

struct accelerator {
    uint8_t type;
    uint8_t batches;   /* one runs, another may be sealed */
    bool granted;      /* between a grant and its answer */
    bool down;         /* leaves as soon as it is not granted */
    bool ended_early;  /* granted, and its batch has ended before the answer came */
    bool ended_unlike; /* that batch */
    struct running running[BATCHES_MOST];
    int64_t begin_ns; /* of the batch that runs */
    int64_t free_ns;  /* when all will have ended, as far as can be expected */
    int64_t due_ns;   /* when what is granted could have been granted */
    int64_t ended_ns; /* of what ended early */
};

/* Mean and mean deviation of something, as TCP keeps them for its timeouts (RFC 6298, section 2). */
struct estimate {
    double mean, deviation;
};

/* Who is to be brought up to date: a stage of every lane, or the leftovers. */
#define LISTS          (SUPPLY_LEVELS + 1)
#define LIST_LEFTOVERS SUPPLY_LEVELS

struct model_slot {
    bool member;  /* else it belongs to another sub-cluster; it may still have a grant to answer */
    bool granted; /* between a grant and its answer; candidates are ignored */
    bool granted_leftovers, granted_best_effort;
    uint8_t dirty; /* a bit for every list in which it is */
    uint8_t class; /* of load_classes.h */
    double pace;   /* what its batches take over what the tables say: the mean */
    int64_t
        best_effort_ns; /* for how long best effort of it ran; of models that had none for a while, as the others' */
};

/* Candidates of one type at one level of supply, by model. */
struct stage {
    struct heap waiting; /* by the time from which they may start */
    struct heap open;    /* whose time has come, by their order */
};

struct lane {
    struct bit_tree free;               /* accelerators */
    struct stage stages[SUPPLY_LEVELS]; /* by level */
    struct heap leftovers;              /* models, by the latest start of their leftovers */
    struct heap best_effort;            /* models with best effort, by best_effort_ns */
    uint32_t best_effort_runs;          /* accelerators that run best effort, or are granted for it */
    uint32_t freed;                     /* accelerators that became free in this step, and were not granted yet */
};

/* Models whose candidates are not where they belong yet. */
struct dirty_list {
    uint32_t *models;
    uint32_t count;
};

struct rank_core {
    uint32_t models, types, accelerators;
    uint32_t free, busy, up; /* accelerators; busy: granted or running */
    uint32_t up_of_type[ACCELERATOR_TYPES_MAX];
    struct accelerator *accelerator; /* [accelerators] */
    struct model_slot *model;        /* [models] */
    struct candidate *candidates;    /* [models][types] */
    struct dirty_list dirty[LISTS];  /* of [models] */
    struct lane lanes[ACCELERATOR_TYPES_MAX];
    struct heap offers;        /* running accelerators, by when they are to be offered */
    uint32_t wanting;          /* models with a candidate */
    bool awaited;              /* somebody wanted the accelerators that are offered in this step when they were due */
    int64_t due_ns;            /* when they were */
    struct estimate hop;       /* ns, from when a grant was due to its answer */
    uint32_t best_effort_runs; /* of all lanes */
    int64_t best_effort_ended_ns; /* when best effort last ended */
    int64_t best_effort_turn_ns;  /* best_effort_ns of the model granted last */
    int64_t best_effort_run_ns;   /* for so long a batch of best effort may run */
    double kept;                  /* accelerators that are kept from it */
    double batch_mean;            /* items */
    int64_t ctrl_ns, data_ns, grace_ns;
    struct model_rates *rates;     /* [models] as reported */
    struct model_rates *rates_now; /* [models] scratch: as of now */
    double *admit_share;           /* [models] */
    struct load_classes classes;
    struct model_rates *class_rates; /* [models] scratch: of one class, where there are several */
    double *class_share;
    struct cluster_parameters parameters[ACCELERATOR_TYPES_MAX]; /* by class */
    double busy_part[ACCELERATOR_TYPES_MAX];                     /* of a type's accelerators' time, over 2 s */
    int64_t granted_ns[ACCELERATOR_TYPES_MAX];                   /* by type, since the parameters were derived, */
    int64_t parameters_ns;                                       /* and when they were */
    double needed, thread_busy;                                  /* of all */
    int64_t parameters_due_ns;
    const struct policy_ops *policy;
    struct policy_options options;
};

/* ---- set-up ---- */

static void rank_core_layout(struct rank_core *core, struct arena *arena, const struct rank_core_config *config) {
    core->accelerator = arena_take(arena, config->accelerators * sizeof(*core->accelerator));
    core->model = arena_take(arena, config->models * sizeof(*core->model));
    core->candidates = arena_take(arena, (size_t)config->models * config->types * sizeof(*core->candidates));
    for (uint32_t list = 0; list < LISTS; list++)
        core->dirty[list].models = arena_take(arena, config->models * sizeof(uint32_t));
    core->rates = arena_take(arena, config->models * sizeof(*core->rates));
    core->rates_now = arena_take(arena, config->models * sizeof(*core->rates_now));
    core->admit_share = arena_take(arena, config->models * sizeof(*core->admit_share));
    uint32_t divided = config->types > 1 ? config->models : 0;
    core->class_rates = arena_take(arena, divided * sizeof(*core->class_rates));
    core->class_share = arena_take(arena, divided * sizeof(*core->class_share));
    heap_take(arena, &core->offers, config->accelerators);
    for (uint32_t t = 0; t < config->types; t++) {
        struct lane *lane = &core->lanes[t];
        bit_tree_take(arena, &lane->free, config->accelerators);
        for (uint32_t level = 0; level < SUPPLY_LEVELS; level++) {
            heap_take(arena, &lane->stages[level].waiting, config->models);
            heap_take(arena, &lane->stages[level].open, config->models);
        }
        heap_take(arena, &lane->leftovers, config->models);
        heap_take(arena, &lane->best_effort, config->models);
    }
}

/* The model has nothing to run, and no load. */
static void model_forget(struct rank_core *core, uint32_t model) {
    core->rates[model] = (struct model_rates){.batch_best = 1};
    for (uint32_t t = 0; t < core->types; t++)
        core->candidates[model * core->types + t] = candidate_none();
}

size_t rank_core_bytes(const struct rank_core_config *config) {
    struct rank_core scratch;
    struct arena arena = {NULL, 0};
    arena_take(&arena, sizeof(struct rank_core));
    rank_core_layout(&scratch, &arena, config);
    return arena.used;
}

void rank_core_init(struct rank_core *core, const struct rank_core_config *config) {
    CHECK(config->types >= 1 && config->types <= ACCELERATOR_TYPES_MAX);
    struct arena arena = {(char *)core, 0};
    arena_take(&arena, sizeof(*core));
    memset(core, 0, sizeof(*core));
    rank_core_layout(core, &arena, config);
    core->models = config->models;
    core->types = config->types;
    core->accelerators = config->accelerators;
    core->ctrl_ns = config->ctrl_ns;
    core->data_ns = config->data_ns;
    core->grace_ns = config->grace_ns;
    core->policy = config->policy;
    if (config->policy_options)
        core->options = *config->policy_options;
    else
        policy_options_preset(config->policy, &core->options);
    for (uint32_t k = 0; k < config->types; k++)
        core->parameters[k] = cluster_parameters_none();
    core->best_effort_ended_ns = INT64_MIN;
    core->best_effort_run_ns = (int64_t)BEST_EFFORT_RUN_NS;
    for (uint32_t a = 0; a < config->accelerators; a++) {
        CHECK_LT(config->accelerator_type[a], config->types);
        bool own = !config->part_of_accelerator || config->part_of_accelerator[a] == config->part;
        core->accelerator[a] = (struct accelerator){.type = config->accelerator_type[a], .down = !own};
        if (!own)
            continue;
        bit_tree_add(&core->lanes[config->accelerator_type[a]].free, a);
        core->up_of_type[config->accelerator_type[a]]++;
        core->free++;
    }
    core->up = core->free;
    for (uint32_t m = 0; m < config->models; m++) {
        bool own = !config->part_of_model || config->part_of_model[m] == config->part;
        core->model[m] = (struct model_slot){.pace = 1, .member = own};
        core->admit_share[m] = 1;
        model_forget(core, m);
    }
}

/* ---- candidates ---- */

static struct candidate *candidate_of(const struct rank_core *core, uint32_t model, uint32_t type) {
    return &core->candidates[model * core->types + type];
}

static void stage_set(struct stage *stage, uint32_t model, int64_t from_ns) {
    heap_remove(&stage->open, model);
    if (from_ns == TIME_NEVER)
        heap_remove(&stage->waiting, model);
    else
        heap_set(&stage->waiting, model, from_ns);
}

/* The candidate of a stage to start first, or RANK_NOBODY. */
static uint32_t stage_best(struct rank_core *core, uint32_t type, struct stage *stage, int64_t now_ns) {
    while (!heap_empty(&stage->waiting) && heap_top(&stage->waiting).key <= now_ns) {
        uint32_t model = heap_top(&stage->waiting).item;
        heap_remove(&stage->waiting, model);
        heap_set(&stage->open, model, candidate_of(core, model, type)->order_ns);
    }
    while (!heap_empty(&stage->open)) {
        struct heap_entry top = heap_top(&stage->open);
        if (candidate_of(core, top.item, type)->invalid_after_ns >= now_ns - core->grace_ns)
            return top.item;
        heap_remove(&stage->open, top.item); /* too late; its model core is about to send another */
    }
    return RANK_NOBODY;
}

static uint32_t leftovers_best(const struct rank_core *core, struct lane *lane, int64_t now_ns) {
    while (!heap_empty(&lane->leftovers)) {
        struct heap_entry top = heap_top(&lane->leftovers);
        if (top.key >= now_ns - core->grace_ns)
            return top.item;
        heap_remove(&lane->leftovers, top.item);
    }
    return RANK_NOBODY;
}

static void model_dirty(struct rank_core *core, uint32_t model) {
    struct model_slot *slot = &core->model[model];
    for (uint32_t list = 0; list < LISTS; list++)
        if (!(slot->dirty & 1u << list))
            core->dirty[list].models[core->dirty[list].count++] = model;
    slot->dirty = (1u << LISTS) - 1;
}

static void leftovers_set(struct rank_core *core, uint32_t model, uint32_t type) {
    const struct candidate *c = candidate_of(core, model, type);
    struct model_slot *slot = &core->model[model];
    struct lane *lane = &core->lanes[type];
    if (slot->granted || !candidate_leftovers(c))
        heap_remove(&lane->leftovers, model);
    else
        heap_set(&lane->leftovers, model, c->leftovers_invalid_after_ns);
    if (slot->granted || !candidate_best_effort(c)) {
        if (!heap_empty(&lane->best_effort))
            heap_remove(&lane->best_effort, model);
        return;
    }
    if (slot->best_effort_ns < core->best_effort_turn_ns)
        slot->best_effort_ns = core->best_effort_turn_ns;
    heap_set(&lane->best_effort, model, slot->best_effort_ns);
}

/* Brings one level's stages, or the leftovers, up to date with the stored candidates. */
static void list_update(struct rank_core *core, uint32_t list) {
    struct dirty_list *dirty = &core->dirty[list];
    for (uint32_t i = 0; i < dirty->count; i++) {
        uint32_t model = dirty->models[i];
        core->model[model].dirty = (uint8_t)(core->model[model].dirty & ~(1u << list));
        for (uint32_t t = 0; t < core->types; t++) {
            if (list == LIST_LEFTOVERS)
                leftovers_set(core, model, t);
            else
                stage_set(&core->lanes[t].stages[list], model,
                          core->model[model].granted ? TIME_NEVER : candidate_of(core, model, t)->start_ns[list]);
        }
    }
    dirty->count = 0;
}

/* How scarce a type's free accelerators are, of which there is one at least. */
static uint32_t level_of(const struct rank_core *core, uint32_t type) {
    const struct lane *lane = &core->lanes[type];
    return supply_level(lane->free.count + lane->best_effort_runs, core->up_of_type[type]);
}

/* The stage for a type's free accelerators, up to date. */
static struct stage *stage_now(struct rank_core *core, uint32_t type) {
    uint32_t level = level_of(core, type);
    list_update(core, level);
    return &core->lanes[type].stages[level];
}

/* ---- matching ---- */

enum purpose { FOR_BATCH, FOR_LEFTOVERS, FOR_BEST_EFFORT };

static void grant(struct rank_core *core, int64_t now_ns, uint32_t model, uint32_t type, uint32_t a,
                  enum purpose purpose, struct rank_output *out) {
    struct lane *lane = &core->lanes[type];
    uint32_t level = level_of(core, type);
    bool freed = lane->freed > 0, leftovers = purpose == FOR_LEFTOVERS;
    /* when it could have been granted, had it been known; of one that was free before, the candidate decides */
    int64_t start_ns = purpose == FOR_BATCH ? candidate_of(core, model, type)->start_ns[level] : now_ns;
    bit_tree_remove(&lane->free, a);
    lane->freed -= freed;
    struct accelerator *accelerator = &core->accelerator[a];
    CHECK(!accelerator->granted && accelerator->batches < BATCHES_MOST);
    core->free--;
    core->busy += accelerator->batches == 0;
    accelerator->granted = true;
    accelerator->ended_early = false;
    accelerator->due_ns = freed ? core->due_ns : now_ns;
    CHECK(!core->model[model].granted);
    core->model[model].granted = true;
    core->model[model].granted_leftovers = leftovers;
    core->model[model].granted_best_effort = purpose == FOR_BEST_EFFORT;
    model_dirty(core, model);
    out->grants[out->grant_count++] = (struct grant_message){
        .kind = GRANT_ACCELERATOR,
        .model = model,
        .accelerator = a,
        .type = type,
        .supply = level,
        .leftovers = leftovers,
        .best_effort = purpose == FOR_BEST_EFFORT,
        .free_ns = accelerator->batches ? accelerator->free_ns : INT64_MIN,
        .granted_ns = now_ns,
        .due_ns = freed && core->due_ns > start_ns ? core->due_ns : start_ns,
    };
}

/* Which lane's free accelerator `model` gets, among those on which it may start: the lowest-numbered. */
static uint32_t lane_lowest(struct rank_core *core, uint32_t model, uint32_t type, int64_t now_ns) {
    for (uint32_t t = 0; t < core->types; t++) {
        const struct bit_tree *free = &core->lanes[t].free;
        const struct candidate *c = candidate_of(core, model, t);
        if (!bit_tree_empty(free) && c->start_ns[level_of(core, t)] <= now_ns &&
            c->invalid_after_ns >= now_ns - core->grace_ns &&
            bit_tree_first(free) < bit_tree_first(&core->lanes[type].free))
            type = t;
    }
    return type;
}

/* Whether a free accelerator of a type is to spare for a model's leftovers: they run without others, and models that
 * wait for company want accelerators soon. */
static bool leftovers_fit(struct rank_core *core, uint32_t type, uint32_t model) {
    const struct heap *waiting = &stage_now(core, type)->waiting;
    return waiting->count - heap_contains(waiting, model) <= WAITING_EACH * (core->lanes[type].free.count - 1);
}

/* Starts leftovers on accelerators that nobody else may start on now, nor needs soon: what was set aside while all were
 * busy, or by its share, must not wait for one to become free when enough are. */
static void leftovers_match(struct rank_core *core, int64_t now_ns, struct rank_output *out) {
    for (uint32_t t = 0; t < core->types; t++) {
        struct lane *lane = &core->lanes[t];
        while (!bit_tree_empty(&lane->free) && out->grant_count < RANK_GRANTS_MAX) {
            list_update(core, LIST_LEFTOVERS);
            uint32_t model = leftovers_best(core, lane, now_ns);
            if (model == RANK_NOBODY || !leftovers_fit(core, t, model))
                break;
            grant(core, now_ns, model, t, bit_tree_first(&lane->free), FOR_LEFTOVERS, out);
        }
    }
}

/* ---- best effort ---- */

/* How many accelerators of a type are kept from it. */
static uint32_t kept(const struct rank_core *core, uint32_t type) {
    double most = KEPT_MOST * core->up_of_type[type];
    return (uint32_t)(core->kept < most ? core->kept : most);
}

/* A batch got an accelerator: whether it had to wait for one that best effort was in the way of. */
static void kept_learn(struct rank_core *core, int64_t now_ns, bool waited) {
    waited = waited && (core->best_effort_runs || core->best_effort_ended_ns == now_ns);
    core->kept += KEPT_STEP * ((double)waited - KEPT_SHARE);
    double most = KEPT_MOST * core->up;
    core->kept = core->kept < 0 ? 0 : core->kept > most ? most : core->kept;
}

static void best_effort_count(struct rank_core *core, uint32_t type, int32_t change) {
    core->lanes[type].best_effort_runs += (uint32_t)change;
    core->best_effort_runs += (uint32_t)change;
}

/* The first idle accelerator of a type, or RANK_NOBODY; one that is offered ahead of time is not idle. */
static uint32_t idle_find(const struct rank_core *core, uint32_t type) {
    const struct bit_tree *free = &core->lanes[type].free;
    for (uint32_t a = bit_tree_first(free), left = free->count; left; a++) {
        if (!bit_tree_has(free, a))
            continue;
        if (core->accelerator[a].batches == 0)
            return a;
        left--;
    }
    return RANK_NOBODY;
}

/* For how long one more accelerator of a type is not needed: if those that are left are fewer than the models that wait
 * for company, until the first of these may start. */
static int64_t idle_span(struct rank_core *core, uint32_t type, int64_t now_ns) {
    const struct stage *stage = stage_now(core, type);
    uint32_t left = core->lanes[type].free.count - 1;
    if (left < kept(core, type))
        return 0;
    return stage->waiting.count > left ? heap_top(&stage->waiting).key - now_ns : TIME_NEVER;
}

static void best_effort_match(struct rank_core *core, int64_t now_ns, struct rank_output *out) {
    for (uint32_t t = 0; t < core->types; t++) {
        struct lane *lane = &core->lanes[t];
        while (!heap_empty(&lane->best_effort) && !bit_tree_empty(&lane->free) && out->grant_count < RANK_GRANTS_MAX) {
            struct heap_entry top = heap_top(&lane->best_effort);
            int64_t least_ns = candidate_of(core, top.item, t)->best_effort_run_ns;
            int64_t most_ns = core->best_effort_run_ns > least_ns ? core->best_effort_run_ns : least_ns;
            int64_t idle_ns = idle_span(core, t, now_ns);
            uint32_t a = idle_find(core, t);
            if (a == RANK_NOBODY || idle_ns < least_ns)
                break;
            core->best_effort_turn_ns = top.key;
            grant(core, now_ns, top.item, t, a, FOR_BEST_EFFORT, out);
            out->grants[out->grant_count - 1].run_ns = idle_ns < most_ns ? idle_ns : most_ns;
            best_effort_count(core, t, 1);
            list_update(core, LIST_LEFTOVERS);
        }
    }
}

/* Starts what may start, the first in order first. */
static void candidates_match(struct rank_core *core, int64_t now_ns, struct rank_output *out) {
    while (core->free && out->grant_count < RANK_GRANTS_MAX) {
        uint32_t best = RANK_NOBODY, best_type = 0;
        int64_t best_ns = TIME_NEVER;
        for (uint32_t t = 0; t < core->types; t++) {
            if (bit_tree_empty(&core->lanes[t].free))
                continue;
            uint32_t model = stage_best(core, t, stage_now(core, t), now_ns);
            if (model != RANK_NOBODY && candidate_of(core, model, t)->order_ns < best_ns) {
                best = model;
                best_type = t;
                best_ns = candidate_of(core, model, t)->order_ns;
            }
        }
        if (best == RANK_NOBODY)
            return;
        uint32_t type = lane_lowest(core, best, best_type, now_ns);
        if (core->best_effort_runs || core->kept > 0)
            kept_learn(core, now_ns, core->lanes[type].freed > 0);
        grant(core, now_ns, best, type, bit_tree_first(&core->lanes[type].free), FOR_BATCH, out);
    }
}

static void match(struct rank_core *core, int64_t now_ns, struct rank_output *out) {
    uint32_t before;
    do { /* fewer are free after leftovers, which may let a candidate start that had to wait */
        candidates_match(core, now_ns, out);
        before = out->grant_count;
        leftovers_match(core, now_ns, out);
    } while (out->grant_count > before && core->free && out->grant_count < RANK_GRANTS_MAX);
    if (core->free)
        best_effort_match(core, now_ns, out);
    for (uint32_t t = 0; t < core->types; t++)
        core->lanes[t].freed = 0;
}

/* When time alone lets a candidate start; TIME_NEVER: not on what is free now. */
static int64_t start_next(struct rank_core *core) {
    int64_t next_ns = TIME_NEVER;
    for (uint32_t t = 0; t < core->types; t++) {
        if (bit_tree_empty(&core->lanes[t].free))
            continue;
        const struct stage *stage = stage_now(core, t);
        if (!heap_empty(&stage->waiting) && heap_top(&stage->waiting).key < next_ns)
            next_ns = heap_top(&stage->waiting).key;
    }
    return next_ns;
}

/* ---- events ---- */

static void estimate_add(struct estimate *estimate, double value) {
    double error = value - estimate->mean;
    estimate->mean += HOP_WEIGHT * error;
    estimate->deviation += HOP_WEIGHT * ((error < 0 ? -error : error) - estimate->deviation);
}

/* What the last of an accelerator's batches can be expected to take. */
static double run_expected(const struct rank_core *core, const struct accelerator *a) {
    const struct running *last = &a->running[a->batches - 1];
    return (double)last->table_ns * core->model[last->model].pace;
}

/* How long before it is free an accelerator is offered; 0: not ahead of time. */
static int64_t ahead(const struct rank_core *core) {
    return core->ctrl_ns +
           (int64_t)((double)core->data_ns * core->batch_mean + core->hop.mean + DEVIATIONS * core->hop.deviation);
}

static void offer(struct rank_core *core, uint32_t a, bool awaited) {
    struct lane *lane = &core->lanes[core->accelerator[a].type];
    bit_tree_add(&lane->free, a);
    lane->freed += awaited;
    core->free++;
}

/* An accelerator's state changed: offers it as soon as it can be granted. */
static void accelerator_review(struct rank_core *core, int64_t now_ns, uint32_t a) {
    struct accelerator *accelerator = &core->accelerator[a];
    if (accelerator->granted || accelerator->down || accelerator->batches == BATCHES_MOST ||
        bit_tree_has(&core->lanes[accelerator->type].free, a)) {
        heap_remove(&core->offers, a);
        return;
    }
    int64_t ahead_ns = accelerator->batches ? ahead(core) : 0;
    if (accelerator->batches == 0 || (ahead_ns > 0 && accelerator->free_ns - ahead_ns <= now_ns)) {
        heap_remove(&core->offers, a);
        offer(core, a, true);
    } else if (ahead_ns > 0) {
        heap_set(&core->offers, a, accelerator->free_ns - ahead_ns);
    }
}

/* Offers the accelerators that are due. Nobody may have wanted them then; who comes later finds them free. */
static void offers_release(struct rank_core *core, int64_t now_ns) {
    core->due_ns = now_ns;
    while (!heap_empty(&core->offers) && heap_top(&core->offers).key <= now_ns) {
        struct heap_entry top = heap_top(&core->offers);
        heap_remove(&core->offers, top.item);
        offer(core, top.item, core->awaited);
        if (core->awaited)
            core->due_ns = top.key;
    }
}

/* A model's first run, or one that was held up, may take a hundred times what the next ones do: it counts as PACE_FAR
 * times what was expected. A model that became slow is followed by a sixteenth a batch all the same. */
static void pace_learn(double *pace, double took) {
    double most = PACE_FAR * *pace;
    *pace += PACE_WEIGHT * ((took < most ? took : most) - *pace);
}

/* The batch that ran has ended; the next one, if there is one, runs. `unlike`: it says nothing of its model's pace. */
static void batch_over(struct rank_core *core, struct accelerator *a, int64_t ended_ns, bool unlike) {
    struct running over = a->running[0];
    if (over.table_ns > 0 && ended_ns > a->begin_ns && !unlike)
        pace_learn(&core->model[over.model].pace, (double)(ended_ns - a->begin_ns) / (double)over.table_ns);
    if (over.best_effort) {
        best_effort_count(core, a->type, -1);
        core->best_effort_ended_ns = ended_ns;
    }
    a->running[0] = a->running[1];
    a->batches--;
    a->begin_ns = a->batches && a->running[0].arrives_ns > ended_ns ? a->running[0].arrives_ns : ended_ns;
    a->free_ns = a->begin_ns + (a->batches ? (int64_t)run_expected(core, a) : 0);
}

static void accelerator_ended(struct rank_core *core, int64_t now_ns, uint32_t a, int64_t ended_ns, bool unlike) {
    struct accelerator *accelerator = &core->accelerator[a];
    if (accelerator->batches) {
        batch_over(core, accelerator, ended_ns, unlike);
        core->busy -= accelerator->batches == 0 && !accelerator->granted;
    } else if (accelerator->granted) {
        accelerator->ended_early = true; /* a short batch: the executor was quicker than the model's answer */
        accelerator->ended_ns = ended_ns;
        accelerator->ended_unlike = unlike;
    }
    accelerator_review(core, now_ns, a);
}

static void accelerator_down(struct rank_core *core, uint32_t a) {
    struct accelerator *accelerator = &core->accelerator[a];
    if (accelerator->down)
        return;
    accelerator->down = true;
    core->up--;
    core->up_of_type[accelerator->type]--;
    core->parameters_due_ns = INT64_MIN; /* the models should know */
    core->free -= bit_tree_has(&core->lanes[accelerator->type].free, a);
    bit_tree_remove(&core->lanes[accelerator->type].free, a);
    heap_remove(&core->offers, a);
}

static void accelerator_up(struct rank_core *core, int64_t now_ns, uint32_t a) {
    struct accelerator *accelerator = &core->accelerator[a];
    if (!accelerator->down)
        return;
    accelerator->down = false;
    core->up++;
    core->up_of_type[accelerator->type]++;
    core->parameters_due_ns = INT64_MIN;
    accelerator_review(core, now_ns, a);
}

static bool wants(const struct rank_core *core, uint32_t model) {
    for (uint32_t t = 0; t < core->types; t++) {
        const struct candidate *c = &core->candidates[model * core->types + t];
        if (candidate_any(c) || candidate_leftovers(c))
            return true;
    }
    return false;
}

static void candidates_store(struct rank_core *core, uint32_t model, const struct candidate *candidates) {
    core->wanting -= wants(core, model);
    memcpy(candidate_of(core, model, 0), candidates, core->types * sizeof(struct candidate));
    core->wanting += wants(core, model);
    model_dirty(core, model);
}

/* Those that come with a message. */
static void candidates_take(struct rank_core *core, const struct rank_message *message) {
    CHECK_EQ(message->types, core->types);
    candidates_store(core, message->model, message->candidates);
}

/* An accelerator given back by a model that says it could use it must not go to and fro in one instant. */
static void candidates_hold(struct rank_core *core, uint32_t model, int64_t now_ns) {
    core->wanting -= wants(core, model);
    for (uint32_t t = 0; t < core->types; t++) {
        struct candidate *c = candidate_of(core, model, t);
        for (uint32_t level = 0; level < SUPPLY_LEVELS; level++)
            if (c->start_ns[level] <= now_ns)
                c->start_ns[level] = now_ns + 1;
        if (core->model[model].granted_leftovers)
            candidate_rest_clear(c);
    }
    core->wanting += wants(core, model);
}

static void batch_announced(struct rank_core *core, uint32_t m, const struct rank_answer *answer) {
    struct model_slot *model = &core->model[m];
    struct accelerator *a = &core->accelerator[answer->accelerator];
    if (model->granted_best_effort)
        model->best_effort_ns += answer->run_ns;
    if (answer->sealed_ns >= a->due_ns)
        estimate_add(&core->hop, (double)(answer->sealed_ns - a->due_ns));
    core->batch_mean += ((double)answer->items - core->batch_mean) * HOP_WEIGHT;
    int64_t begin_ns = answer->end_ns - answer->run_ns;
    a->running[a->batches++] = (struct running){
        .model = m,
        .best_effort = model->granted_best_effort,
        .table_ns = answer->run_ns,
        .arrives_ns = begin_ns > a->free_ns ? begin_ns : INT64_MIN,
    };
    if (a->batches == 1)
        a->begin_ns = begin_ns;
    a->free_ns = begin_ns + (int64_t)run_expected(core, a);
    if (!model->granted_best_effort)
        core->granted_ns[a->type] += a->free_ns - begin_ns;
    if (!a->ended_early)
        return;
    batch_over(core, a, a->ended_ns, a->ended_unlike);
    core->busy -= a->batches == 0;
}

/* The model may go, unless a grant is on its way to it: then with the answer. */
static void model_leaves(struct rank_core *core, uint32_t model, struct rank_output *out) {
    if (core->model[model].granted)
        return;
    out->left = model;
}

static void leave(struct rank_core *core, uint32_t model, struct rank_output *out) {
    CHECK(core->model[model].member);
    core->model[model].member = false;
    core->wanting -= wants(core, model);
    model_forget(core, model);
    model_dirty(core, model);
    model_leaves(core, model, out);
}

static void join(struct rank_core *core, const struct rank_message *message, struct rank_output *out) {
    struct model_slot *model = &core->model[message->model];
    CHECK(!model->member && !model->granted);
    model->member = true;
    model->pace = 1; /* whoever bore this number here before may have been another model */
    core->admit_share[message->model] = 1;
    candidates_take(core, message);
    out->joined = message->model;
}

static void answered(struct rank_core *core, int64_t now_ns, const struct rank_message *message,
                     struct rank_output *out) {
    const struct rank_answer *answer = &message->answer;
    CHECK_LT(answer->accelerator, core->accelerators);
    struct model_slot *model = &core->model[message->model];
    struct accelerator *accelerator = &core->accelerator[answer->accelerator];
    CHECK(model->granted);
    CHECK(accelerator->granted);
    model->granted = accelerator->granted = false;
    if (model->granted_best_effort && answer->items == 0)
        best_effort_count(core, accelerator->type, -1);
    if (model->member)
        candidates_take(core, message);
    else
        model_leaves(core, message->model, out);
    if (answer->items == 0) {
        candidates_hold(core, message->model, now_ns);
        core->busy -= accelerator->batches == 0;
        if (accelerator->batches && !accelerator->down) { /* too late for who was first: nobody gets it early, now */
            heap_set(&core->offers, answer->accelerator,
                     accelerator->free_ns > now_ns ? accelerator->free_ns : now_ns + 1);
            return;
        }
    } else {
        batch_announced(core, message->model, answer);
    }
    accelerator_review(core, now_ns, answer->accelerator);
}

static void message_handle(struct rank_core *core, int64_t now_ns, const struct rank_message *message,
                           struct rank_output *out) {
    CHECK_LT(message->model, core->models);
    switch (message->kind) {
    case RANK_ANSWER:
        answered(core, now_ns, message, out);
        break;
    case RANK_RATES:
        if (core->model[message->model].member)
            core->rates[message->model] = message->rates;
        break;
    case RANK_LEAVE:
        leave(core, message->model, out);
        break;
    case RANK_JOIN:
        join(core, message, out);
        break;
    }
}

static void candidates_told(struct rank_core *core, uint32_t model, const struct candidate *candidates) {
    CHECK_LT(model, core->models);
    /* while a grant is out they are older than the answer, which brings the newest */
    if (core->model[model].member && !core->model[model].granted)
        candidates_store(core, model, candidates);
}

static void event_handle(struct rank_core *core, int64_t now_ns, const struct rank_event *event,
                         struct rank_output *out) {
    switch (event->kind) {
    case RANK_MESSAGE:
        message_handle(core, now_ns, event->message, out);
        break;
    case RANK_CANDIDATES:
        candidates_told(core, event->model, event->candidates);
        break;
    case RANK_TIMER:
        break;
    case RANK_BATCH_ENDED:
        CHECK_LT(event->accelerator, core->accelerators);
        accelerator_ended(core, now_ns, event->accelerator, event->ended.at_ns, event->ended.unlike);
        break;
    case RANK_ACCELERATOR_UP:
        CHECK_LT(event->accelerator, core->accelerators);
        accelerator_up(core, now_ns, event->accelerator);
        break;
    case RANK_ACCELERATOR_DOWN:
        CHECK_LT(event->accelerator, core->accelerators);
        accelerator_down(core, event->accelerator);
        break;
    }
}

/* A model's rates as of now: it reports while requests come, and decays in silence. */
static struct model_rates rates_at(const struct model_rates *reported, int64_t now_ns) {
    struct model_rates rates = *reported;
    double silent_ns = (double)(now_ns - reported->at_ns);
    if (rates.rate <= 0 || silent_ns < 2 * (double)PARAMETERS_EVERY_NS)
        return rates;
    rates.rate *= fmath_exp(-silent_ns / SLOW_NS);
    double fast = fmath_exp(-silent_ns / FAST_NS);
    rates.rate_fast *= fast;
    rates.arrivals_fast *= fast;
    rates.at_ns = now_ns;
    return rates;
}

/* Best effort does not count. */
static void busy_update(struct rank_core *core, int64_t now_ns) {
    double passed_ns = (double)(now_ns - core->parameters_ns);
    for (uint32_t t = 0; t < core->types; t++) {
        if (core->up_of_type[t] > 0 && passed_ns > 0) {
            double part = (double)core->granted_ns[t] / (passed_ns * core->up_of_type[t]);
            core->busy_part[t] += (1 - fmath_exp(-passed_ns / SLOW_NS)) * (part - core->busy_part[t]);
        }
        core->granted_ns[t] = 0;
    }
    core->parameters_ns = now_ns;
}

/* Brings the models' rates up to date, sums up what they ask for, and divides them into classes. */
static void rates_update(struct rank_core *core, int64_t now_ns) {
    double run_ns = BEST_EFFORT_RUN_NS;
    core->needed = 0;
    core->thread_busy = 0;
    load_classes_begin(&core->classes, core->types);
    for (uint32_t m = 0; m < core->models; m++) {
        struct model_rates rates = rates_at(&core->rates[m], now_ns);
        rates.alpha_ns *= core->model[m].pace; /* the load is what batches take, not what tables allow them */
        rates.beta_ns *= core->model[m].pace;
        core->rates_now[m] = rates;
        if (now_ns - core->rates[m].at_ns < SLOW_NS && rates.thread_busy > core->thread_busy)
            core->thread_busy = rates.thread_busy;
        double left_ns = BEST_EFFORT_PART * (rates.slo_ns - rates.alpha_ns - rates.beta_ns);
        if (rates.rate > SILENT_RATE && left_ns < run_ns)
            run_ns = left_ns;
        double load = rates.rate / (double)NS_PER_S * (rates.alpha_ns + rates.beta_ns / rates.batch_best);
        core->needed += load;
        load_classes_add(&core->classes, rates.runs_on, load);
    }
    core->best_effort_run_ns = run_ns > 0 ? (int64_t)run_ns : 0;
    load_classes_divide(&core->classes, core->up_of_type);
    for (uint32_t m = 0; m < core->models; m++)
        core->model[m].class = (uint8_t)load_classes_find(&core->classes, core->rates_now[m].runs_on);
}

/* What the policy derives for a class. */
static void class_derive(struct rank_core *core, uint32_t class) {
    bool only = core->classes.count == 1;
    struct cluster_parameters *parameters = &core->parameters[class];
    struct cluster_view view = {.models = core->models, .rates = core->rates_now};
    uint32_t up = 0, count = 0;
    for (uint32_t t = 0; t < core->types; t++)
        up += core->classes.types_of[class] >> t & 1 ? core->up_of_type[t] : 0;
    view.accelerators = up;
    parameters->busy = 0;
    for (uint32_t t = 0; t < core->types; t++)
        if (core->classes.types_of[class] >> t & 1 && up)
            parameters->busy += core->busy_part[t] * ((double)core->up_of_type[t] / up);
    if (!core->policy->cluster_derive)
        return;
    if (only) {
        core->policy->cluster_derive(&view, &core->options, parameters, core->admit_share);
        return;
    }
    for (uint32_t m = 0; m < core->models; m++)
        if (core->model[m].class == class) {
            core->class_rates[count] = core->rates_now[m];
            core->class_share[count++] = core->admit_share[m];
        }
    view.models = count;
    view.rates = core->class_rates;
    core->policy->cluster_derive(&view, &core->options, parameters, core->class_share);
    for (uint32_t m = core->models; m-- > 0;)
        if (core->model[m].class == class)
            core->admit_share[m] = core->class_share[--count];
}

static void parameters_update(struct rank_core *core, int64_t now_ns, struct rank_output *out) {
    if (now_ns < core->parameters_due_ns)
        return;
    core->parameters_due_ns = now_ns + PARAMETERS_EVERY_NS;
    core->kept *= KEPT_FADE;
    rates_update(core, now_ns);
    busy_update(core, now_ns);
    for (uint32_t k = 0; k < core->classes.count; k++) {
        struct cluster_parameters *parameters = &core->parameters[k];
        class_derive(core, k);
        parameters->accelerators = core->up;
        parameters->hop_ns = core->hop.mean;
        parameters->thread_busy = core->thread_busy;
        for (uint32_t t = 0; t < core->types; t++)
            parameters->type_share[t] = core->up ? (float)core->up_of_type[t] / (float)core->up : 0;
    }
    out->parameters_changed = true;
}

void rank_core_take(struct rank_core *core, int64_t now_ns, const struct rank_event *event, struct rank_output *out) {
    out->joined = out->left = RANK_NOBODY;
    offers_release(core, now_ns);
    event_handle(core, now_ns, event, out);
}

void rank_core_step(struct rank_core *core, int64_t now_ns, const struct rank_event *event, struct rank_output *out) {
    out->grant_count = 0;
    out->parameters_changed = false;
    rank_core_take(core, now_ns, event, out);
    match(core, now_ns, out);
    parameters_update(core, now_ns, out);

    out->wake_ns = TIME_NEVER;
    core->awaited = core->wanting > 0;
    if (core->awaited && !heap_empty(&core->offers))
        out->wake_ns = heap_top(&core->offers).key;
    int64_t start_ns = out->grant_count == RANK_GRANTS_MAX ? now_ns : core->free ? start_next(core) : TIME_NEVER;
    if (start_ns < out->wake_ns)
        out->wake_ns = start_ns;
    /* Rates decay in silence, too: a batch that waits for company beside a free accelerator may have no reason to once
     * the parameters are derived anew. Without this, a client that sends its next request only after the answer to the
     * last one keeps the load just high enough to wait for, and waits out its whole SLO. */
    if (out->wake_ns != TIME_NEVER && core->policy->cluster_derive && core->parameters_due_ns < out->wake_ns)
        out->wake_ns = core->parameters_due_ns;
}

void rank_core_parameters(const struct rank_core *core, uint32_t model, struct grant_message *message) {
    *message = (struct grant_message){
        .kind = GRANT_PARAMETERS,
        .model = model,
        .admit_share = core->admit_share[model],
        .parameters = core->parameters[core->model[model].class],
    };
}

double rank_core_accelerators_needed(const struct rank_core *core) {
    return core->needed;
}

bool rank_core_member(const struct rank_core *core, uint32_t model) {
    return core->model[model].member;
}

bool rank_core_accelerator_idle(const struct rank_core *core, uint32_t accelerator) {
    return !core->accelerator[accelerator].granted && core->accelerator[accelerator].batches == 0;
}

uint32_t rank_core_accelerators_free(const struct rank_core *core) {
    return core->free;
}

uint32_t rank_core_accelerators_busy(const struct rank_core *core) {
    return core->busy;
}

int64_t rank_core_offer_ns(const struct rank_core *core) {
    return heap_empty(&core->offers) ? TIME_NEVER : heap_top(&core->offers).key;
}
