/* deferred.c - the default policy: batches start late enough to be large, early enough to find an accelerator.
 *
 *            window drop            lead                alpha
 *   |<- head is given up if T ->|  <------>  due  invalid_after   deadline of the head
 *   |   items no longer fit     |             |<--->|<---- l(b) ---->|
 *
 * Symphony (arXiv 2308.07470), section 4.3, waits until `due`, the last moment at which one more request could join.
 * That window is one alpha wide, and candidates die in it when accelerators are few; so while free ones are scarce, a
 * batch may start `lead` earlier, the time in which some accelerator becomes free with good probability. And it need
 * not wait at all for company that saves less than the accelerators are worth:
 *
 *     E              items still to come before `due`: by the mean rate or, if that is more, as many as came lately
 *                    or are wont to have come lately when one comes, which is how many are wont to come soon after
 *     E / (b + 1 + E) * beta / l(b)   the part of the batch's run that starting together with them would save, about
 *                    the mean over how many really come; were it always E, it would be E / (b + E)
 *     rounds * free / accelerators    what there is to spend: the more, the more often the SLO lets each of them run
 *
 * It starts when price * saved <= spare. So the first requests of a burst start at once on an idle cluster, the next
 * ones in twos and fours, and when few accelerators are left, only what is a batch. The price holds for batches that
 * are smaller than the load allows, and for all of them while requests are lost; else nobody waits for company that the
 * accelerators do not need. What is lost although accelerators idle is lost to bursts: then the price is up to twice as
 * high, and free accelerators are kept for the next one. Above the peak the window drop keeps batches near b*, so that
 * goodput stays flat; shares keep one model's flood from the others. */
#include "base/fmath.h"
#include "policy/shares.h"
#include "policy/window.h"
#include "sched/model_view.h"
#include "sched/policy.h"
#include "sched/request_pool.h"

/* The window drop aims at this part of b* at most; or, if that is more, at the second less a few items: what a large
 * batch lacks when its head is given up a little early is little of it. */
#define GAMMA_MOST   0.75
#define GAMMA_LARGE  0.95
#define LACKS        1   /* items; where all batches are other models', who waits for accelerators needs more time: */
#define LACKS_RIVALS 3   /* so many more */
#define GAMMA_TIGHT  0.7 /* and at least at this if the SLO is tight: it has no time for two runs */
#define GAMMA_SCALE  0.95
/* A request waits at most so many times what its best batch takes, however long its SLO. The SLOs of the published zoos
 * are too short for it to matter; with an SLO of seconds, a rate that has just fallen would keep a lone request waiting
 * for company until the estimate has followed, two seconds later. */
#define PATIENCE_SPANS 4
#define OWN_MOST       0.5 /* of all batches: where a model has more, nobody else makes up for batches that are too small */
#define ROUND_UP       0.4
#define LEAD_LOAD      2.5 /* lead is tau * ln(2.5 / (beta lambda / b*)), and up to four times as long */
#define LEAD_RIVALS    3   /* where all batches are other models' */
#define LEAD_THETA     0.5 /* from this theta on; below it by the square: accelerators are not scarce for long */
#define LEAD_BURSTS    1.5 /* and so many times longer still where requests come in bursts, if the SLO is not tight */
#define HOPS           4   /* of a grant, which pass from one of a model's to its next, at the worst */
#define THETA_STEPS    20
/* Slack: the smallest batches that keep the load under this. It is over 1, since batches grow while they queue: nobody
 * need wait for all that the load asks. */
#define THETA_LOAD 1.06
/* Slack is doubted, from so much loss on not believed at all: the load says what accelerators do in the mean, and
 * bursts find them busy with small batches. Larger batches are asked for, for a lower load, the best ones where they at
 * least halve an item's cost, and the price of company rises for all. */
#define DOUBT_LOSS   0.001
#define DOUBT_LOAD   0.9 /* instead of THETA_LOAD */
#define BATCHES_COST 0.5
#define DOUBT_NONE   1e-6 /* there is always some */
#define PRICE        2    /* of company, */
#define PRICE_TIGHT  0.8  /* of that if the SLO is tight: company that comes by chance, */
#define PRICE_BURSTS 2    /* and in bursts; */
/* of that so much until this part of all requests is lost, and all of it from the second on: where bursts always cost
 * some, what an SLO promises leaves room for it; */
#define PRICE_TIGHT_FINE  0.15
#define LOSS_TIGHT_FEARED 0.0035
#define LOSS_TIGHT_DEAR   0.0055
/* and twice it while requests are lost to bursts: they are if accelerators are busy for less than the first part of
 * the time, all of them if for less than the second. */
#define BURSTS_BUSY     0.8
#define BURSTS_BUSY_ALL 0.6
/* Grants cost the scheduler's threads time, too. Where a model thread is busy for more than THREAD_FINE of it, the
 * price rises by e^30 for the whole of its time, so twentyfold for a tenth: at 0.7 it has its effect, and decisions
 * still wait for next to nothing. */
#define THREAD_FINE  0.6
#define THREAD_STEEP 10 /* of the cube root */
/* What is free counts by the square of how many runs the SLO has time for beside one, one at least. At most as often as
 * in the mean of all models: where batches have the time to grow on a queue, whoever has less of it must not queue. */
#define ROUNDS     2
#define ROUNDS_ANY 1e9
#define BURST_SLO  0.25 /* what came within this part of the SLO came lately */
#define WONT_GAIN  (1.0 / 64)
#define GAP_NEVER  1e18 /* between the items of a silent model, ns */
#define NS_PER_S_D 1e9

enum { CONSOLIDATE };
static const struct policy_option deferred_options[] = {
    {.key = "consolidate",
     .flag = true,
     .help = "never start early just because accelerators are free (the paper's flat idle share)"},
    {0},
};

static bool consolidates(const struct model_view *m) {
    return m->options->value[CONSOLIDATE] != 0;
}

struct deferred_model {
    int64_t lead_ns;     /* while accelerators are scarce */
    int64_t patience_ns; /* longest wait for company */
    double slack_items;  /* the load allows batches of so many, in the mean */
    double credit;       /* of the admitted share, in requests */
    double recent;       /* items that came lately, as of recent_ns: 1 / (1 + t / burst) of those t ago */
    double wont;         /* of that, what an arrival finds, in the mean */
    int64_t recent_ns;
    double burst_ns, gap_ns;               /* gap: mean time between items */
    double items_most;                     /* more cannot be in time together, or are not worth waiting for */
    double worth, worth_edge, worth_slack; /* 1 / (price * beta), for a nanosecond of an accelerator; by slack_items */
    double scarce[ACCELERATOR_TYPES_MAX];  /* by type: the part of the accelerators that the last free one is */
};

static double doubt_of(const struct cluster_parameters *p) {
    return clip(p->loss / DOUBT_LOSS, 0, 1);
}

static bool tight(const struct model_view *m) {
    return m->slo_ns < 2 * (m->alpha_ns + m->beta_ns);
}

/* How far requests come in bursts: 0 if no more came lately than the mean rate says, when something comes, 1 if twice
 * as many. */
static double bursty_of(const struct deferred_model *d) {
    double usual = d->burst_ns / d->gap_ns + 1; /* that an arrival finds, and itself */
    return clip(d->wont / usual - 1, 0, 1);
}

/* How much of the loss is the bursts', of a model whose requests come in them so far. */
static double bursts_of(const struct model_view *m, double bursty) {
    double idle = clip((BURSTS_BUSY - m->parameters.busy) / (BURSTS_BUSY - BURSTS_BUSY_ALL), 0, 1);
    return doubt_of(&m->parameters) * idle * bursty;
}

/* Whether the best batch at least halves an item's cost. */
static bool batches_well(const struct model_view *m) {
    return m->alpha_ns + m->beta_ns / m->batch_best <= BATCHES_COST * (m->alpha_ns + m->beta_ns);
}

/* The share of b* from which a batch of this model need not wait. */
static double theta_of(const struct model_view *m) {
    double theta = m->parameters.theta;
    return batches_well(m) ? theta + (1 - theta) * doubt_of(&m->parameters) : theta;
}

/* The part of all batches that is this model's. */
static double own_of(const struct model_view *m) {
    return clip(m->parameters.tau_ns * m->rate_per_ns / m->batch_best, 0, 1);
}

/* What free accelerators are worth to runs of run_ns under an SLO, which may be shorter than a run. */
static double rounds_of(double slo_ns, double run_ns) {
    double again = run_ns < slo_ns ? (slo_ns - run_ns) / run_ns : 0, rounds = ROUNDS * again * again;
    return rounds > 1 ? rounds : 1;
}

/* A batch may start within an alpha of its last moment in any case; where that is much of the SLO, it is lead, too. */
static int64_t lead_of(const struct model_view *m, double bursty, double bursts) {
    double load = m->beta_ns * m->rate_per_ns / m->batch_best, most = m->slo_ns / 2, lead = 0;
    if (load <= 0)
        lead = most;
    else if (load < LEAD_LOAD)
        lead = m->parameters.tau_ns * fmath_log(LEAD_LOAD / load);
    double scarce = clip(m->parameters.theta / LEAD_THETA, 0, 1);
    lead = (1 - bursts) * (tight(m) ? 1 : 1 + LEAD_BURSTS * bursty) * scarce * scarce * clip(lead, 0, most);
    if (!consolidates(m))
        lead *= 1 + LEAD_RIVALS * (1 - own_of(m));
    return (int64_t)clip(tight(m) ? lead - m->alpha_ns : lead, 0, most);
}

/* The price of company under a tight SLO, against that of others. */
static double price_tight(const struct model_view *m, double bursty, double crowd) {
    double feared = (m->parameters.loss - LOSS_TIGHT_FEARED) / (LOSS_TIGHT_DEAR - LOSS_TIGHT_FEARED);
    double part = 1 - (1 - PRICE_TIGHT_FINE) * (1 - clip(feared, 0, 1)) / crowd;
    return part * (PRICE_TIGHT + (PRICE_BURSTS - PRICE_TIGHT) * bursty);
}

static void prices_update(const struct model_view *m, struct deferred_model *d, double bursty, double bursts) {
    double crowd = fmath_exp(THREAD_STEEP * (clip(m->parameters.thread_busy, THREAD_FINE, 1) - THREAD_FINE));
    double price = PRICE * (1 + bursts) * (m->beta_ns > 1 ? m->beta_ns : 1) * crowd * crowd * crowd;
    if (tight(m))
        price *= price_tight(m, bursty, crowd);
    double doubt = doubt_of(&m->parameters);
    double slack = doubt + (1 - doubt) * (1 - 1 / crowd) + DOUBT_NONE; /* of the price */
    double edge = d->slack_items - (double)(uint32_t)d->slack_items;
    d->worth = 1 / price;
    d->worth_edge = 1 / (price * (edge + (1 - edge) * slack));
    d->worth_slack = 1 / (price * slack);
    for (uint32_t t = 0; t < m->types; t++) {
        double up = m->parameters.accelerators * (double)m->parameters.type_share[t];
        d->scarce[t] = supply_share(SUPPLY_SCARCE, up > 1 ? up : 1);
    }
}

/* One batch of a model is granted at a time. With fewer items than come meanwhile it falls behind, and then its old
 * heads leave time for small batches only, so that it never catches up, however many accelerators are free. */
static void target_update(struct model_view *m) {
    m->batch_best = batch_best(m);
    double own = own_of(m), large = GAMMA_LARGE - (LACKS + LACKS_RIVALS * (1 - own)) / m->batch_best;
    double gamma = clip(m->parameters.gamma, 0, large > GAMMA_MOST ? large : GAMMA_MOST);
    if (tight(m) && gamma < GAMMA_TIGHT && batches_well(m))
        gamma = GAMMA_TIGHT;
    else if (own > OWN_MOST)
        gamma += ROUND_UP / m->batch_best;
    window_update(m, DROP_WINDOW, gamma);
    double meanwhile = clip(HOPS * m->parameters.hop_ns * m->rate_per_ns, 0, m->items_worth);
    if (m->target_items < meanwhile)
        m->target_items = (uint32_t)meanwhile;
}

static void deferred_update(struct model_view *m, void *own) {
    struct deferred_model *d = own;
    target_update(m);
    d->patience_ns =
        consolidates(m) ? INT64_MAX / 4 : (int64_t)(PATIENCE_SPANS * (m->alpha_ns * m->items_worth + m->beta_ns));
    d->slack_items = 1 + theta_of(m) * (m->batch_best - 1);
    d->burst_ns = BURST_SLO * m->slo_ns;
    d->gap_ns = m->rate_per_ns > 1 / GAP_NEVER ? 1 / m->rate_per_ns : GAP_NEVER;
    double bursty = bursty_of(d), bursts = bursts_of(m, bursty);
    d->lead_ns = lead_of(m, bursty, bursts);
    double slo_items = (m->slo_ns - m->beta_ns) / m->alpha_ns;
    d->items_most = slo_items < m->items_worth ? slo_items : m->items_worth;
    prices_update(m, d, bursty, bursts);
}

static void recent_count(struct deferred_model *d, const struct request_node *request) {
    int64_t gap_ns = request->arrival_ns - d->recent_ns; /* arrivals of several frontends may be out of order */
    if (gap_ns > 0) {
        d->recent *= d->burst_ns / (d->burst_ns + (double)gap_ns);
        d->recent_ns = request->arrival_ns;
    }
    d->wont += WONT_GAIN * (d->recent - d->wont);
    d->recent += request->items;
}

static bool deferred_admit(struct model_view *m, void *own, const struct request_node *request) {
    struct deferred_model *d = own;
    recent_count(d, request);
    return share_admits(&d->credit, m->admit_share);
}

/* Just below what the load allows a part of the price holds, since that is a mean of batches larger and smaller. */
static double worth_of(const struct deferred_model *d, double items) {
    return items >= d->slack_items ? d->worth_slack : items + 1 > d->slack_items ? d->worth_edge : d->worth;
}

/* From when on no more than `together` items will come before due_ns, with those of the batch; due_ns at the latest. */
static int64_t company_ends(const struct deferred_model *d, const struct batch_view *batch, int64_t due_ns,
                            double together) {
    if (together >= d->items_most)
        return 0;
    double end_ns = (double)due_ns - (together - batch->items) * d->gap_ns;
    double recent = d->recent > d->wont ? d->recent : d->wont;
    double burst_end_ns = (double)d->recent_ns + d->burst_ns * (recent / together - 1);
    if (burst_end_ns > end_ns)
        end_ns = burst_end_ns;
    return end_ns <= 0 ? 0 : end_ns < (double)due_ns ? (int64_t)end_ns : due_ns;
}

static struct batch_times deferred_times(const struct model_view *m, const void *own, uint32_t type,
                                         const struct batch_view *batch) {
    const struct deferred_model *d = own;
    if (batch->sealed || batch->items >= batch->items_most)
        return batch_times_from(0, batch->invalid_after_ns);
    int64_t due_ns = batch->due_ns, patient_ns = batch->head_arrival_ns + d->patience_ns;
    if (due_ns > patient_ns)
        due_ns = patient_ns;
    if (consolidates(m))
        return batch_times_from(due_ns - d->lead_ns, batch->invalid_after_ns);

    /* price * E / (b + 1 + E) * beta / l <= rounds * free, and so together = b + E <= (b + spare) / (1 - spare) */
    double run_ns = (double)m->profiles[type]->latency_ns[batch->items];
    double rounds = rounds_of(m->slo_ns, run_ns);
    if (rounds > m->parameters.rounds)
        rounds = m->parameters.rounds;
    double spare = rounds * run_ns * worth_of(d, batch->items);
    struct batch_times times = {.order_ns = batch->invalid_after_ns};
    for (uint32_t level = 0; level < SUPPLY_LEVELS; level++) {
        double part = spare * (level == SUPPLY_SCARCE ? d->scarce[type] : supply_share(level, 1));
        times.start_ns[level] = part >= 1 ? 0 : company_ends(d, batch, due_ns, (batch->items + part) / (1 - part));
    }
    if (times.start_ns[SUPPLY_SCARCE] > due_ns - d->lead_ns)
        times.start_ns[SUPPLY_SCARCE] = due_ns - d->lead_ns;
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

/* The load if every batch held the part theta of b*. */
static double theta_load(const struct cluster_view *c, double theta, double boost) {
    double load = 0;
    for (uint32_t i = 0; i < c->models; i++)
        if (c->rates[i].rate > 0)
            load += rate_load(&c->rates[i], c->rates[i].rate * boost, 1 + theta * (c->rates[i].batch_best - 1));
    return load;
}

/* The load falls as theta rises, so the smallest step is found by halving. */
static double theta_derive(const struct cluster_view *c, double boost, double doubt) {
    double most = (1 - doubt) * THETA_LOAD + doubt * DOUBT_LOAD;
    uint32_t low = 0, high = THETA_STEPS; /* high is taken when none is enough */
    while (low < high) {
        uint32_t step = (low + high) / 2;
        if (theta_load(c, (double)step / THETA_STEPS, boost) <= most * c->accelerators)
            high = step;
        else
            low = step + 1;
    }
    return (double)low / THETA_STEPS;
}

static void deferred_derive(const struct cluster_view *c, const struct policy_options *options,
                            struct cluster_parameters *p, double *admit_share) {
    (void)options;
    double boost = boost_derive(c), fixed = 0, variable = 0, batches = 0, offered = 0, lost = 0, hurried = 0;
    for (uint32_t i = 0; i < c->models; i++) {
        const struct model_rates *r = &c->rates[i];
        if (!(r->rate > 0))
            continue;
        double rate = r->rate * boost / NS_PER_S_D;
        fixed += rate * r->beta_ns / r->batch_best;
        variable += rate * r->alpha_ns;
        batches += rate / r->batch_best;
        hurried += rate_load(r, r->rate * boost, r->batch_best) / rounds_of(r->slo_ns, r->alpha_ns + r->beta_ns);
        offered += r->rate;
        lost += r->rate * r->dropped_rate;
    }
    p->loss = offered > 0 ? lost / offered : 0;
    p->gamma = GAMMA_LARGE;
    if (c->accelerators > variable && GAMMA_SCALE * fixed < GAMMA_LARGE * (c->accelerators - variable))
        p->gamma = GAMMA_SCALE * fixed / (c->accelerators - variable);
    p->tau_ns = batches > 0 ? 1 / batches : 0;
    p->rounds = hurried > 0 ? (fixed + variable) / hurried : ROUNDS_ANY;
    p->theta = theta_derive(c, boost, doubt_of(p));
    shares_derive(c, admit_share);
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
};
