/* rehearsal.c - runs the twins, and finds the way that has lost least. */
#include "lab/sim/rehearsal.h"

#include <string.h>

#include "lab/sim/sim_state.h"
#include "sched/core/arrival_rates.h"

/* The numbers are those of sched/policy/deferred.c and docs/scheduling.md. 4. Least loss, and least difference between
 * two losses, that matters: a tenth of the loss that goodput allows. With fewer lost requests there are no twins, and a
 * way that is not better by this difference does not replace another. */
#define LOSS POLICY_LOSS
/* 9. Time after which a lost request counts half: long enough to see through bursts, short enough to follow the load.
 * The twins end when the first way has lost nothing that matters at this number of looks in a row, and its loss exceeds
 * that of the best way by no difference that matters. They end at once when the first way's twin has just lost nothing
 * that matters, but the cluster has, in another way, and more than that way's twin. */
#define HALF_LIFE_S 10
#define FADE        __builtin_exp2(-1.0 / HALF_LIFE_S) /* what is left after a look; the compiler computes it */
/* Number of first looks at which a twin's losses do not count: its cores have to learn the rates. Those of a model do
 * not count either before its first requests must have ended: a way that waits seems to lose nothing until then.
 * (Twenty models with SLOs of 30 s, of which one rises to 100 times its rate: in some runs the way `longest` was taken
 * after two seconds, and the other models lost 75 %.) */
#define LOOKS_LEARNING ((uint32_t)RATE_SLOW_S)
/* Part of the mean time to the deadline of a model's requests: a request with less is left out of the twins. */
#define HURRIED 0.5

/* An emulated cluster that keeps to one way. */
struct twin {
    struct sim_config config;
    void *memory; /* of sim_bytes() */
    struct sim *sim;
    struct sim_result result;
    double *bad;    /* [models] requests refused or late; older ones count less */
    uint64_t *seen; /* [models] requests refused or late up to the last look */
};

struct rehearsal {
    uint32_t ways, models, accelerators;
    struct twin twins[POLICY_WAYS_MAX];
    bool *up;             /* [accelerators] whether the accelerator is in service */
    double *offered;      /* [models] requests offered; older ones count less */
    uint64_t *asked;      /* [models] requests offered up to the last look */
    double *count, *left; /* [models] requests told, and the sum of their times from arrival to deadline in ns, each
                           * at most the model's SLO; older ones count less */
    int64_t begun_ns;     /* time at which the twins began: their time 0 */
    uint32_t looks;       /* number of looks since the twins began */
    uint32_t quiet;       /* number of last looks in a row at which the first way had lost too few requests to matter */
    /* by way: the mean share of the cluster's requests that were lost beyond what the way's twin lost, while the way
     * was in force (it may be under 0; before it has been in force, that of the way that is), and the number of
     * requests in that mean. Older ones count less */
    double beyond[POLICY_WAYS_MAX], judged[POLICY_WAYS_MAX];
    /* since the last look: */
    uint64_t hurried;    /* requests of clients in a hurry, of which the twins were not told */
    uint64_t impossible; /* requests that no way could answer in time */
    uint32_t way;
    bool runs;
};

bool rehearsal_wanted(const struct sim_config *cluster) {
    return policy_ways(cluster->policy, &cluster->options) > 1;
}

bool rehearsal_begins(uint64_t ended, uint64_t bad) {
    return (double)bad > LOSS * (double)ended;
}

static void layout(struct rehearsal *r, struct arena *arena, const struct sim_config *cluster) {
    /* all twins: no traffic of their own, no faults, and all requests count */
    struct sim_config config = *cluster;
    config.pipelines = NULL; /* their stages' requests come one by one */
    config.pipeline_count = 0;
    config.autoscale = NULL;
    config.forced_moves_rate = 0;
    config.cancel_share = 0;
    config.fault_every_s = 0;
    config.fault_again = config.fault_silent = false;
    config.link_jitter_ns = 0;
    config.link_loss = 0;
    config.scheduler_every_s = 0;
    config.warmup_s = 0;
    config.seconds = cluster->warmup_s + cluster->seconds;
    config.observer = NULL;
    config.memory_bytes = 0; /* how batches wait does not depend on what has been loaded before */
    config.give_up_bad = 0;
    config.go_on = NULL;
    uint32_t models = config.model_count;
    *r = (struct rehearsal){.models = models, .accelerators = config.accelerators};
    r->ways = policy_ways(cluster->policy, &cluster->options);
    r->up = arena_take(arena, config.accelerators * sizeof(*r->up));
    r->offered = arena_take(arena, models * sizeof(*r->offered));
    r->asked = arena_take(arena, models * sizeof(*r->asked));
    r->count = arena_take(arena, models * sizeof(*r->count));
    r->left = arena_take(arena, models * sizeof(*r->left));
    for (uint32_t w = 0; w < r->ways; w++) {
        struct twin *twin = &r->twins[w];
        twin->config = config;
        config.policy->way_fix(&twin->config.options, w);
        twin->bad = arena_take(arena, models * sizeof(*twin->bad));
        twin->seen = arena_take(arena, models * sizeof(*twin->seen));
        twin->memory = arena_take(arena, sim_bytes(&twin->config));
    }
}

size_t rehearsal_bytes(const struct sim_config *cluster) {
    struct arena arena = {NULL, 0};
    struct rehearsal scratch;
    arena_take(&arena, sizeof(scratch));
    layout(&scratch, &arena, cluster);
    return arena.used;
}

struct rehearsal *rehearsal_init(void *memory, const struct sim_config *cluster) {
    struct arena arena = {memory, 0};
    struct rehearsal *r = arena_take(&arena, sizeof(*r));
    layout(r, &arena, cluster);
    for (uint32_t a = 0; a < r->accelerators; a++)
        r->up[a] = true;
    memset(r->count, 0, r->models * sizeof(*r->count));
    memset(r->left, 0, r->models * sizeof(*r->left));
    return r;
}

bool rehearsal_runs(const struct rehearsal *r) {
    return r->runs;
}

/* ---- what the cluster is told, the twins are ---- */

static void until(struct rehearsal *r, struct twin *twin, int64_t now_ns) {
    int64_t at_ns = now_ns - r->begun_ns;
    if (at_ns > twin->sim->now_ns)
        sim_until(twin->sim, at_ns);
}

/* Whether a request could be in time if it was the only one. If not, it is lost by every way. */
static bool possible(const struct rehearsal *r, const struct request_message *message) {
    const struct sim_config *c = &r->twins[0].config;
    const struct sim_model *model = &c->models[message->place.n];
    int64_t left_ns = message->deadline_ns - message->arrival_ns - c->ctrl_ns - c->data_ns * message->items;
    uint32_t items = message->items < model->batch_max ? message->items : model->batch_max;
    for (uint32_t t = 0; t < c->types; t++)
        if (model->profiles[t] && model->profiles[t]->latency_ns[items] <= left_ns)
            return true;
    return false;
}

/* Whether a request's client gives it far less time than the model's other requests have. Such a request is in time
 * where it finds an accelerator idle, so the best way for it is the one in which all others wait longest: the cluster
 * is not to change its way for it. */
static bool hurried(struct rehearsal *r, const struct request_message *message) {
    int64_t slo_ns = r->twins[0].config.models[message->place.n].slo_ns;
    int64_t left_ns = message->deadline_ns - message->arrival_ns;
    double *count = &r->count[message->place.n], *sum = &r->left[message->place.n];
    if (message->priority == PRIORITY_BEST_EFFORT)
        return false;
    *count += 1;
    *sum += (double)(slo_ns && slo_ns < left_ns ? slo_ns : left_ns); /* clients with much time hurry nobody */
    return (double)left_ns < HURRIED * *sum / *count;
}

void rehearsal_request(struct rehearsal *r, int64_t now_ns, const struct request_message *message) {
    struct request_message own = *message;
    if (!possible(r, message)) {
        r->impossible++;
        return;
    }
    if (hurried(r, message)) {
        r->hurried++;
        return;
    }
    if (!r->runs)
        return;
    own.arrival_ns -= r->begun_ns;
    own.deadline_ns -= r->begun_ns;
    for (uint32_t w = 0; w < r->ways; w++) {
        until(r, &r->twins[w], now_ns);
        sim_tell_request(r->twins[w].sim, &own);
    }
}

static void accelerator_tell(struct twin *twin, uint32_t accelerator, bool up) {
    if (up)
        sim_accelerator_up(twin->sim, accelerator);
    else
        sim_accelerator_down(twin->sim, accelerator);
    sim_told(twin->sim);
}

void rehearsal_accelerator(struct rehearsal *r, int64_t now_ns, uint32_t accelerator, bool up) {
    if (r->up[accelerator] == up)
        return;
    r->up[accelerator] = up;
    for (uint32_t w = 0; w < r->ways && r->runs; w++) {
        until(r, &r->twins[w], now_ns);
        accelerator_tell(&r->twins[w], accelerator, up);
    }
}

/* ---- looks ---- */

static void begin(struct rehearsal *r, int64_t now_ns) {
    r->runs = true;
    r->begun_ns = now_ns;
    r->looks = r->quiet = 0;
    memset(r->beyond, 0, sizeof(r->beyond));
    memset(r->judged, 0, sizeof(r->judged));
    memset(r->offered, 0, r->models * sizeof(*r->offered));
    memset(r->asked, 0, r->models * sizeof(*r->asked));
    for (uint32_t w = 0; w < r->ways; w++) {
        struct twin *twin = &r->twins[w];
        memset(twin->bad, 0, r->models * sizeof(*twin->bad));
        memset(twin->seen, 0, r->models * sizeof(*twin->seen));
        twin->sim = sim_begin(&twin->config, twin->memory, &twin->result);
        for (uint32_t a = 0; a < r->accelerators; a++)
            if (!r->up[a])
                accelerator_tell(twin, a, false);
    }
}

/* Returns the growth of a count since the last look, and adds it to the faded older growth in *faded; while the cores
 * learn, *faded stays 0. */
static uint64_t count(double *faded, uint64_t *seen, uint64_t now, bool learning) {
    uint64_t new = now - *seen;
    *faded = learning ? 0 : *faded * FADE + (double)new;
    *seen = now;
    return new;
}

/* Returns the number of requests that the twin of the way in force has lost since the last look. */
static uint64_t twins_count(struct rehearsal *r, int64_t now_ns) {
    uint64_t offered = 0, bad = 0; /* by the first way, since the last look */
    uint64_t foreseen = 0;
    for (uint32_t w = 0; w < r->ways; w++) {
        struct twin *twin = &r->twins[w];
        until(r, twin, now_ns);
        for (uint32_t m = 0; m < r->models; m++) {
            const struct sim_model_result *result = &twin->result.models[m];
            bool learning = r->looks <= LOOKS_LEARNING || (double)(now_ns - r->begun_ns) * r->count[m] < r->left[m];
            uint64_t lost = count(&twin->bad[m], &twin->seen[m], result->dropped + result->late, learning);
            bad += w == 0 ? lost : 0;
            foreseen += w == r->way ? lost : 0;
            offered += w == 0 ? count(&r->offered[m], &r->asked[m], result->offered, learning) : 0;
        }
    }
    r->quiet = rehearsal_begins(offered, bad) ? 0 : r->quiet + 1;
    return foreseen;
}

/* The loss of a way: the root mean square of the models' shares of lost requests, since one model that loses a tenth is
 * worse than ten that lose a hundredth. */
static double loss_of(const struct rehearsal *r, uint32_t way) {
    double sum = 0;
    for (uint32_t m = 0; m < r->models; m++) {
        double share = r->twins[way].bad[m] / (r->offered[m] > 1 ? r->offered[m] : 1);
        sum += share * share;
    }
    return __builtin_sqrt(sum / r->models);
}

/* Twins take the time that the tables say. Where runs take longer, a way that waits to the last moment loses what its
 * twin does not. Of the way in force that is measured; what was measured of another one approaches that again. */
static void judge(struct rehearsal *r, uint64_t ended, double beyond) {
    double *judged = &r->judged[r->way], *mean = &r->beyond[r->way];
    if (ended == 0)
        return;
    *judged = *judged * FADE + (double)ended;
    *mean += (beyond - *mean * (double)ended) / *judged;
    for (uint32_t w = 0; w < r->ways; w++)
        if (w != r->way)
            r->beyond[w] += (*mean - r->beyond[w]) * (r->judged[w] > 0 ? 1 - FADE : 1);
}

uint32_t rehearsal_look(struct rehearsal *r, int64_t now_ns, uint64_t ended, uint64_t bad) {
    uint64_t impossible = r->impossible < bad ? r->impossible : bad; /* they were refused at once */
    ended -= impossible;
    bad -= impossible;
    uint64_t explained = r->hurried < bad ? r->hurried : bad;
    r->impossible = r->hurried = 0;
    for (uint32_t m = 0; m < r->models; m++) {
        r->count[m] *= FADE;
        r->left[m] *= FADE;
    }
    if (!r->runs) {
        if (rehearsal_begins(ended, bad))
            begin(r, now_ns);
        return r->way = 0;
    }
    r->looks++;
    explained += twins_count(r, now_ns);
    if (r->looks <= LOOKS_LEARNING)
        return r->way;
    judge(r, ended, (double)bad - (double)explained);
    double loss[POLICY_WAYS_MAX];
    uint32_t best = 0;
    for (uint32_t w = 0; w < r->ways; w++) {
        loss[w] = loss_of(r, w) + (r->beyond[w] > 0 ? r->beyond[w] : 0);
        best = loss[w] < loss[best] ? w : best;
    }
    if (loss[best] + LOSS < loss[r->way])
        r->way = best;
    bool over = r->quiet >= HALF_LIFE_S && loss[0] <= loss[best] + LOSS;
    bool refuted = r->way != 0 && r->quiet > 0 && bad > explained && rehearsal_begins(ended, bad - explained);
    if (over || refuted) {
        r->runs = false;
        r->way = 0;
    }
    return r->way;
}
