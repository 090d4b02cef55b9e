/* deferred.c - the default policy: batches start late enough to be large, early enough to find an accelerator.
 *
 *            window drop            lead                alpha
 *   |<- head is dropped if T  ->|  <------>  due  invalid_after   deadline of the head
 *   |   items no longer fit     |             |<--->|<---- l(b) ---->|
 *
 * Symphony (arXiv 2308.07470), section 4.3, waits until `due`, the last moment at which one more request could join.
 * This policy differs in four points.
 *
 * Lead. Between `due` and `invalid_after` there is only one alpha. If no accelerator becomes free in that time, the
 * head is lost. So while free accelerators are scarce, a batch may start as early as `lead` before `due`: in that time
 * some accelerator probably becomes free. The longer queues may grow, the longer is the lead.
 *
 * Company has a price. Company is the E items that are expected before `due` and could join the batch. A batch of b
 * that starts now without them costs an accelerator one more beta. Averaged over the number of items that really come,
 * that is this part of its run:
 *
 *     saved = E / (b + 1 + E) * beta / l(b)
 *
 * The batch waits only while `saved` is more than the worth of the free accelerators:
 *
 *     worth = rounds * free / accelerators        rounds = the square of how many runs the SLO has time for beside one
 *
 * `rounds` is the batch's own, and at most a mean over all models: a model that can wait would otherwise keep
 * accelerators busy with small batches that a model in a hurry needs. A model in a hurry has time for few of the
 * others' runs, however short its own are, and the more a model loses, the more it counts.
 *
 * So on an idle cluster the first request of a burst starts at once, the next ones start in twos and fours, and on the
 * last free accelerator only a large batch starts. E follows from the mean rate or, in bursts, is the number that
 * arrived lately, since about as many follow. Where small batches are enough for the load (`theta`), no batch waits,
 * unless requests are lost nevertheless.
 *
 * Turns are even. Among batches that compete for an accelerator the one that must start first goes first, as in the
 * paper; but a model that has lost more of its requests than the others goes a little earlier, so that all lose alike:
 * goodput is the rate at which even the worst model answers 99 % in time.
 *
 * The window drop keeps batches near b* above the peak, so that goodput stays flat; shares (shares.h) keep one model's
 * flood from the others.
 *
 * The numbers were found on clusters that `bench_grid --random` drew, and judged on others (docs/scheduling.md). */
#include "core/util/fmath.h"
#include "sched/core/model_view.h"
#include "sched/core/policy.h"
#include "sched/core/request_pool.h"
#include "sched/policy/shares.h"
#include "sched/policy/window.h"

/* 1. The window drop aims at this part of b* at most, except in the way `longest`. More would drop heads for items
 * that do not come. */
#define TARGET_MOST 0.7
/* 2. A model that loses LOSS (4) more of its requests than all models do in the mean goes before others as if its batch
 * had to start earlier by this part of its SLO, and one that loses less goes after them. */
#define TURN 0.01
/* 3. While requests are lost, the price of company is multiplied by this, if the SLO has time for two runs:
 * accelerators that are free now will be needed soon. */
#define PRICE_LOST 2
/* 4. At this share of lost requests PRICE_LOST applies fully. Between none and this share, the price rises and slack
 * counts less and less: the load is a mean, and bursts may find all accelerators busy with small batches. */
#define LOSS POLICY_LOSS
/* 5. "Lately" means within this part of the SLO. */
#define LATELY POLICY_LATELY
/* 6, 7. Grants cost the scheduler's threads time, too. Where a model thread is busy for more than THREAD_FINE of its
 * time, the price of company is multiplied by e^(3 * THREAD_STEEP * excess): twentyfold for a tenth. So a thread
 * settles at about 0.7, where decisions still wait for almost nothing. */
#define THREAD_FINE  0.6
#define THREAD_STEEP 10
/* 8. A model has one grant at a time, and from one grant to the next there are at most so many hops of messages. If its
 * batches are smaller than the number of arrivals in that time, the model never catches up. */
#define HOPS 4

#define NEVER      1e18 /* ns, between the items of a silent model; also rounds, if no models compete */
#define NS_PER_S_D 1e9

enum { CONSOLIDATE, WAITING };
/* How batches wait while accelerators are free: the ways, after the first word, which leaves the choice open. */
enum way { WAY_PRICED, WAY_NONE, WAY_LONGEST, WAYS };
static const char *const waiting_words[] = {"rehearsed", "priced", "none", "longest", NULL};
static const struct policy_option deferred_options[] = {
    {.key = "consolidate",
     .flag = true,
     .help = "never start early just because accelerators are free (the paper's flat idle share)"},
    {.key = "waiting",
     .words = waiting_words,
     .help = "how batches wait for company: priced, none, longest, or as a rehearsal shows is best"},
    {0},
};

static bool consolidates(const struct model_view *m) {
    return m->options->value[CONSOLIDATE] != 0;
}

static uint32_t deferred_ways(const struct policy_options *options) {
    return options->value[WAITING] == 0 && options->value[CONSOLIDATE] == 0 ? WAYS : 1;
}

static void deferred_way_fix(struct policy_options *options, uint32_t way) {
    options->value[WAITING] = 1 + way;
}

struct deferred_model {
    enum way way;
    int64_t lead_ns;     /* lead before `due` while accelerators are scarce */
    int64_t turn_ns;     /* time by which the model's turn is earlier; under 0: later */
    int64_t patience_ns; /* longest wait for company: the run time of the largest useful batch, or without end */
    double slack_items;  /* mean batch size that the load requires */
    double credit;       /* requests that the admitted share has left (share_admits()) */
    double ahead;        /* items that were admitted beyond it, since they can wait until it has run them */
    double recent;       /* items that came lately, as of recent_ns; an item of t ago counts 1 / (1 + t / burst) */
    int64_t recent_ns;
    double burst_ns, gap_ns;              /* time that counts as lately; mean time between items */
    double items_most;                    /* items of the largest batch that is in time and worth waiting for */
    double worth, worth_slack;            /* 1 / price of waiting: below slack_items, and from there on */
    double scarce[ACCELERATOR_TYPES_MAX]; /* share that one accelerator is of the accelerators of its type */
};

/* The square of how many runs of run_ns fit into the time that an SLO leaves; at least 1. */
static double rounds_of(double left_ns, double run_ns) {
    double again = left_ns / run_ns;
    return again > 1 ? again * again : 1;
}

/* The lead is the time after which the probability that no accelerator has become free is the model's own load, divided
 * by the plain mean of all models' rounds. A model that keeps many accelerators busy can afford to miss one. Where SLOs
 * have time for many runs, queues build up in bursts and keep all accelerators busy for longer than in the mean. A
 * model whose SLO leaves less time than the others' loses more when it misses an accelerator: its lead is longer by
 * that ratio. */
static int64_t lead_of(const struct model_view *m) {
    double load = m->beta_ns * m->rate_per_ns / m->batch_best, most = m->slo_ns, lead = most;
    double run_ns = m->alpha_ns + m->beta_ns, hurry = m->parameters.rounds / rounds_of(m->slo_ns - run_ns, run_ns);
    if (load > 0)
        lead = m->parameters.tau_ns * fmath_log(m->parameters.rounds_plain / load);
    return (int64_t)clip(hurry > 1 ? hurry * lead : lead, 0, most);
}

static void prices_update(const struct model_view *m, struct deferred_model *d) {
    double excess = clip(m->parameters.thread_busy, THREAD_FINE, 1) - THREAD_FINE;
    double crowd = excess > 0 ? fmath_exp(THREAD_STEEP * excess) : 1;
    double doubt = clip(m->parameters.loss / LOSS, 0, 1); /* 0: no requests are lost; 1: a share of LOSS or more */
    double price = (m->beta_ns > 1 ? m->beta_ns : 1) * crowd * crowd * crowd;
    if (m->slo_ns >= 2 * (m->alpha_ns + m->beta_ns)) /* else a request that waits and finds no accelerator is lost
                                                      * itself */
        price *= 1 + (PRICE_LOST - 1) * doubt;
    double slack = doubt + (1 - doubt) * (1 - 1 / crowd) + 1e-6; /* of the price; there is always some */
    d->worth = 1 / price;
    d->worth_slack = 1 / (price * slack);
    for (uint32_t t = 0; t < m->types; t++) {
        double up = m->parameters.accelerators * (double)m->parameters.type_share[t];
        d->scarce[t] = supply_share(SUPPLY_SCARCE, up > 1 ? up : 1);
    }
}

/* The window drop aims at the part of b* that is enough for the load. In the way `longest` that may be all of it: once
 * requests have queued there, batches stay small, and the queue never gets shorter, unless heads are dropped until so
 * much fits again. */
static void target_update(struct model_view *m, enum way way) {
    window_update(m, DROP_WINDOW, clip(m->parameters.gamma, 0, way == WAY_LONGEST ? 1 : TARGET_MOST));
    if (m->target_items > m->batch_best) /* rounded up */
        m->target_items = (uint32_t)m->batch_best;
    double meanwhile = clip(HOPS * m->parameters.hop_ns * m->rate_per_ns, 0, m->items_worth);
    if (m->target_items < meanwhile)
        m->target_items = (uint32_t)meanwhile;
}

static void deferred_update(struct model_view *m, void *own) {
    struct deferred_model *d = own;
    double fixed = m->options->value[WAITING];
    d->way = consolidates(m) ? WAY_PRICED : fixed > 0 ? (enum way)(fixed - 1) : (enum way)m->parameters.way;
    target_update(m, d->way);
    d->patience_ns = consolidates(m) ? INT64_MAX / 4 : (int64_t)(m->alpha_ns * m->items_worth + m->beta_ns);
    d->slack_items = 1 + m->parameters.theta * (m->batch_best - 1);
    d->burst_ns = LATELY * m->slo_ns;
    d->gap_ns = m->rate_per_ns > 1 / NEVER ? 1 / m->rate_per_ns : NEVER;
    d->lead_ns = lead_of(m);
    d->turn_ns = (int64_t)(TURN * m->slo_ns * clip((m->dropped_rate - m->parameters.loss) / LOSS, -1, 1));
    double slo_items = (m->slo_ns - m->beta_ns) / m->alpha_ns;
    d->items_most = slo_items < m->items_worth ? slo_items : m->items_worth;
    prices_update(m, d);
}

/* Whether a request is admitted beyond its model's share: the overload is measured over two seconds, and may be long
 * over when the request has to run. Shares take POLICY_FULL of the accelerators' time. So within the time of a request
 * the accelerators can run all shares and 1 / POLICY_FULL - 1 of them more. So much of its share a model may queue,
 * once in an overload, and after the overload one item more for each request: floods do not put the others back. What
 * one accelerator runs one by one in that part of the time is admitted, too: a few requests of a slow model are no
 * flood. */
static bool admitted_ahead(const struct model_view *m, struct deferred_model *d, const struct request_node *request) {
    double ahead_ns = (1 / POLICY_FULL - 1) * (double)(request->deadline_ns - request->arrival_ns);
    double share = m->admit_share * m->rate_per_ns, one_by_one = 1 / (m->alpha_ns + m->beta_ns);
    if (d->ahead + request->items > ahead_ns * (share > one_by_one ? share : one_by_one))
        return false;
    d->ahead += request->items;
    return true;
}

static bool deferred_admit(struct model_view *m, void *own, const struct request_node *request) {
    struct deferred_model *d = own;
    int64_t gap_ns = request->arrival_ns - d->recent_ns; /* arrivals of several frontends may be out of order */
    if (gap_ns > 0) {
        d->recent *= d->burst_ns / (d->burst_ns + (double)gap_ns);
        d->recent_ns = request->arrival_ns;
    }
    d->recent += request->items;
    if (m->admit_share >= 1 && d->ahead > 0)
        d->ahead -= 1;
    return share_admits(&d->credit, m->admit_share) || admitted_ahead(m, d, request);
}

/* The earliest time from which on the batch and the items still expected before due_ns are at most `together`; at the
 * latest due_ns. */
static int64_t company_ends(const struct deferred_model *d, const struct batch_view *batch, int64_t due_ns,
                            double together) {
    if (together >= d->items_most)
        return 0;
    double end_ns = (double)due_ns - (together - batch->items) * d->gap_ns;
    double burst_end_ns = (double)d->recent_ns + d->burst_ns * (d->recent / together - 1);
    if (burst_end_ns > end_ns)
        end_ns = burst_end_ns;
    return end_ns <= 0 ? 0 : end_ns < (double)due_ns ? (int64_t)end_ns : due_ns;
}

/* Where memory is limited, a free accelerator is of no use to a batch unless it has the model. When those that have it
 * are busy, another one may load it. So a batch waits for company only as long as there is time for one run before it,
 * and then a load. That does not hold where no request has so much time. */
static bool loads_elsewhere(const struct model_view *m, double run_ns) {
    return m->load_ns > 0 && m->parameters.accelerators > 1 && (double)m->load_ns + 2 * run_ns < m->slo_ns;
}

static struct batch_times deferred_times(const struct model_view *m, const void *own, uint32_t type,
                                         const struct batch_view *batch) {
    const struct deferred_model *d = own;
    int64_t order_ns = batch->invalid_after_ns - d->turn_ns;
    if (batch->full || batch->items >= batch->items_most)
        return batch_times_from(0, order_ns);
    int64_t due_ns = batch->due_ns, patient_ns = batch->head_arrival_ns + d->patience_ns;
    if (due_ns > patient_ns)
        due_ns = patient_ns;
    if (d->way != WAY_PRICED)
        return batch_times_from(d->way == WAY_NONE ? 0 : due_ns, order_ns);
    if (consolidates(m)) {
        struct batch_times late = batch_times_from(due_ns, order_ns);
        late.start_ns[SUPPLY_SCARCE] = due_ns - d->lead_ns;
        return late;
    }

    /* E / (b + 1 + E) * beta / l <= rounds * free, so together = b + E <= (b + part) / (1 - part) */
    double run_ns = (double)m->profiles[type]->latency_ns[batch->items];
    double rounds = rounds_of(m->slo_ns - run_ns, run_ns);
    if (rounds > m->parameters.rounds)
        rounds = m->parameters.rounds;
    double worth = rounds * run_ns * (batch->items >= d->slack_items ? d->worth_slack : d->worth);
    struct batch_times times = {.order_ns = order_ns};
    for (uint32_t level = 0; level < SUPPLY_LEVELS; level++) {
        double part = worth * (level == SUPPLY_SCARCE ? d->scarce[type] : supply_share(level, 1));
        times.start_ns[level] = part >= 1 ? 0 : company_ends(d, batch, due_ns, (batch->items + part) / (1 - part));
    }
    if (times.start_ns[SUPPLY_SCARCE] > due_ns - d->lead_ns)
        times.start_ns[SUPPLY_SCARCE] = due_ns - d->lead_ns;
    if (loads_elsewhere(m, run_ns)) {
        int64_t out_ns = batch->invalid_after_ns - m->load_ns - (int64_t)run_ns;
        for (uint32_t level = 0; level < SUPPLY_LEVELS; level++)
            times.start_ns[level] = times.start_ns[level] < out_ns ? times.start_ns[level] : out_ns;
    }
    return times;
}

/* Whether work arrives faster now than over 2 s, by more than chance. */
static double boost_derive(const struct cluster_view *c) {
    double slow = 0, fast = 0, arrivals = 0;
    for (uint32_t i = 0; i < c->models; i++) {
        const struct model_rates *r = &c->rates[i];
        if (r->batch_best < 1)
            continue;
        slow += rate_load(r, r->rate, r->batch_best);
        fast += rate_load(r, r->rate_fast, r->batch_best);
        arrivals += r->arrivals_fast;
    }
    double boost = slow > 0 ? fast / slow - rate_chance(arrivals) : 1;
    return boost > 1 ? boost : 1;
}

/* The least theta, at most 1, for which batches of 1 + theta * (b* - 1) need no more than the accelerators. By Newton's
 * method: the load is convex and falls as theta rises, so no step goes beyond that theta, and the last one is too small
 * to count. */
static double theta_derive(const struct cluster_view *c, double boost) {
    double theta = 0;
    for (double before = -1; theta > before && theta < 1;) {
        double over = -c->accelerators, slope = 0;
        for (uint32_t i = 0; i < c->models; i++) {
            const struct model_rates *r = &c->rates[i];
            if (!(r->rate > 0))
                continue;
            double grows = r->batch_best - 1, batch = 1 + theta * grows;
            over += rate_load(r, r->rate * boost, batch);
            slope += r->rate * boost / NS_PER_S_D * r->beta_ns * grows / (batch * batch);
        }
        before = theta;
        if (over > 0)
            theta = slope > 0 ? theta + over / slope : 1;
    }
    return clip(theta, 0, 1);
}

/* The mean of all models' rounds: of the square of how many runs fit into the time that an SLO leaves. The length of a
 * run is that of a lone request, in the mean over all models, weighted by the time that their runs take: such runs keep
 * accelerators busy when a request comes. There are two means: `rounds` is the harmonic one, in which models with tight
 * SLOs have more weight. Once a model loses LOSS (4) of its requests, it is that of the models that lose some: these
 * have not found accelerators in time. `rounds_plain`, weighted by load alone, says how long queues may grow. */
static void rounds_derive(const struct cluster_view *c, struct cluster_parameters *p) {
    double time = 0, squares = 0, weights = 0, sum = 0, load = 0, plain = 0, most_lost = 0;
    for (uint32_t i = 0; i < c->models; i++) {
        const struct model_rates *r = &c->rates[i];
        if (!(r->rate > 0))
            continue;
        double run_ns = r->alpha_ns + r->beta_ns, part = r->rate / r->batch_best * run_ns;
        time += part;
        squares += part * run_ns;
        most_lost = r->dropped_rate > most_lost ? r->dropped_rate : most_lost;
    }
    double doubt = clip(most_lost / LOSS, 0, 1);
    for (uint32_t i = 0; i < c->models; i++) {
        const struct model_rates *r = &c->rates[i];
        if (!(r->rate > 0))
            continue;
        double rounds = rounds_of(r->slo_ns - r->alpha_ns - r->beta_ns, squares / time);
        double own = rate_load(r, r->rate, r->batch_best),
               weight = own * (1 - doubt + r->dropped_rate / (most_lost > LOSS ? most_lost : LOSS));
        load += own;
        plain += own * rounds;
        weights += weight;
        sum += weight / rounds;
    }
    p->rounds = sum > 0 ? weights / sum : NEVER;
    p->rounds_plain = load > 0 ? plain / load : 1;
}

static void deferred_derive(const struct cluster_view *c, const struct policy_options *options,
                            struct cluster_parameters *p, double *admit_share) {
    (void)options;
    double boost = boost_derive(c), fixed = 0, variable = 0, batches = 0, squares = 0, offered = 0, lost = 0;
    for (uint32_t i = 0; i < c->models; i++) {
        const struct model_rates *r = &c->rates[i];
        if (!(r->rate > 0))
            continue;
        double rate = r->rate * boost / NS_PER_S_D;
        fixed += rate * r->beta_ns / r->batch_best;
        variable += rate * r->alpha_ns;
        batches += rate / r->batch_best;
        squares += rate / r->batch_best * (rate / r->batch_best);
        offered += r->rate;
        lost += r->rate * r->dropped_rate;
    }
    p->loss = offered > 0 ? lost / offered : 0;
    p->gamma = fixed < c->accelerators - variable ? fixed / (c->accelerators - variable) : 1;
    /* number of models of equal rates that would have this sum of squares */
    double models = squares > 0 ? batches * batches / squares : 0,
           turns = models / (c->accelerators > 1 ? c->accelerators : 1);
    p->tau_ns = batches > 0 ? (turns > 1 ? turns : 1) / batches : 0;
    rounds_derive(c, p);
    p->theta = theta_derive(c, boost);
    shares_derive(c, boost > 1, admit_share);
}

const struct policy_ops policy_deferred = {
    .name = "deferred",
    .summary = "batches wait as long as it pays and no longer, with window drop and shares (the default)",
    .options = deferred_options,
    .model_bytes = sizeof(struct deferred_model),
    .model_update = deferred_update,
    .model_admit = deferred_admit,
    .batch_times = deferred_times,
    .cluster_derive = deferred_derive,
    .ways = deferred_ways,
    .way_names = waiting_words + 1,
    .way_fix = deferred_way_fix,
};
