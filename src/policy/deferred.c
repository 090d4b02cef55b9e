/* deferred.c - the default policy: batches start late enough to be large, early enough to find an accelerator.
 *
 *            window drop            lead                alpha
 *   |<- head is given up if T ->|  <------>  due  invalid_after   deadline of the head
 *   |   items no longer fit     |  wake_ns    |<--->|<---- l(b) ---->|
 *
 * Symphony (arXiv 2308.07470), section 4.3, waits until `due`, the last moment at which one more request could join.
 * That window is one alpha wide, and candidates die in it when accelerators are few; so a batch may start `lead`
 * earlier, the time in which some accelerator becomes free with good probability. A batch that is larger than the
 * accelerators need (slack) or that hardly anybody will join (hazard) does not wait at all. Above the peak the window
 * drop keeps batches near b*, so that goodput stays flat; shares keep one model's flood from the others. */
#include "base/fmath.h"
#include "policy/policy.h"
#include "policy/window.h"
#include "sched/model_view.h"

#define GAMMA_MOST  0.9 /* the window drop aims at this part of b* at most */
#define GAMMA_SCALE 0.95
/* A request waits at most so many times what its best batch takes, however long its SLO. The SLOs of the published zoos
 * are too short for it to matter; with an SLO of seconds, a rate that has just fallen would keep a lone request waiting
 * for company until the estimate has followed, two seconds later. */
#define PATIENCE_SPANS 4
#define LEAD_LOAD      2.5 /* lead is tau * ln(2.5 / (beta lambda / b*)) */
#define THETA_STEPS    20
#define THETA_LOAD     0.97 /* slack: the smallest batches that keep the load under this */
/* Slack is doubted, from so much loss on not believed at all, where the best batch at least halves an item's cost: the
 * load says what accelerators do in the mean, and bursts find them busy with small batches. */
#define DOUBT_LOSS 0.003
#define DOUBT_COST 0.5
/* The hazard rule: if this share of batches is launched by an accelerator becoming free, a batch may start when what is
 * still to come saves less than that part of l(b). */
#define HAZARD_LAUNCHES 0.02
#define HAZARD_GAIN     0.1
#define SHARE_LOAD      1.1  /* shares from this load on, */
#define SHARE_LOAD_BAD  0.9  /* or from this one */
#define SHARE_BAD       0.03 /* with this bad rate */
#define SHARE_LEVEL     0.92 /* the load that shares leave */
#define SHARE_OVER_MEAN 2.0  /* cut are models with over this many times the mean demand */
#define STANDARD_ERRORS 4.0
#define NS_PER_S_D      1e9

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
    int64_t lead_ns;
    int64_t patience_ns;  /* longest wait for company */
    uint32_t slack_items; /* a batch of so many need not wait; UINT32_MAX: it must */
    bool hazard;          /* the rule is on */
    int64_t hazard_tick_ns;
    double hazard_scale; /* 0.1 b* / beta: items still to come that are worth a nanosecond of running */
    double credit;       /* of the admitted share, in requests */
    /* items to be expected in silence: per nanosecond in a bin of the time since the last arrival, and until it begins
     */
    double per_ns[GAP_BINS], before[GAP_BINS];
};

/* The share of b* from which a batch of this model need not wait. */
static double theta_of(const struct model_view *m) {
    double theta = m->parameters.theta;
    if (m->alpha_ns + m->beta_ns / m->batch_best > DOUBT_COST * (m->alpha_ns + m->beta_ns))
        return theta;
    return theta + (1 - theta) * clip(m->parameters.loss / DOUBT_LOSS, 0, 1);
}

static void deferred_update(struct model_view *m, void *own) {
    struct deferred_model *d = own;
    const struct cluster_parameters *p = &m->parameters;
    window_update(m, DROP_WINDOW, p->gamma);
    double best = m->batch_best, load = m->beta_ns * m->rate_per_ns / best;

    double lead = 0, most = m->slo_ns / 2;
    if (load > 0 && load < LEAD_LOAD)
        lead = p->tau_ns * fmath_log(LEAD_LOAD / load);
    else if (load <= 0)
        lead = most;
    d->lead_ns = (int64_t)(lead < most ? lead : most);
    d->patience_ns =
        consolidates(m) ? INT64_MAX / 4 : (int64_t)(PATIENCE_SPANS * (m->alpha_ns * m->items_worth + m->beta_ns));

    double slack = 1 + theta_of(m) * (best - 1);
    d->slack_items = consolidates(m) ? UINT32_MAX : (uint32_t)slack + ((double)(uint32_t)slack < slack);

    d->hazard = p->free_launches > HAZARD_LAUNCHES && m->beta_ns > 0;
    if (!d->hazard)
        return;
    d->hazard_scale = HAZARD_GAIN * best / m->beta_ns;
    if (d->hazard_tick_ns == m->rates.tick_end_ns)
        return; /* only the parameters changed */
    d->hazard_tick_ns = m->rates.tick_end_ns;
    arrival_rates_hazard(&m->rates, d->per_ns);
    double before = 0;
    for (uint32_t bin = 0; bin < GAP_BINS; bin++) {
        d->before[bin] = before;
        before += d->per_ns[bin] * (double)(gap_bin_start(bin + 1) - gap_bin_start(bin));
    }
}

static bool deferred_admit(struct model_view *m, void *own, const struct request_node *request) {
    struct deferred_model *d = own;
    (void)request;
    if (m->admit_share >= 1)
        return true;
    d->credit += m->admit_share;
    if (d->credit < 1)
        return false;
    d->credit -= 1;
    return true;
}

/* Items to be expected from the last arrival until so much later, if silence lasts. */
static double expected_until(const struct deferred_model *d, int64_t silence_ns) {
    uint32_t bin = gap_bin_of(silence_ns);
    return d->before[bin] + d->per_ns[bin] * (double)(silence_ns - gap_bin_start(bin));
}

/* The first moment from now, latest_ns at the latest, at which the items still to be expected before `due` are worth
 * less than the wait: beta * (items) / b* < 0.1 * l(b). They are the hazard's integral, which falls as time passes: the
 * hazard of this moment times the time left would say of constant gaps that nobody comes until somebody has. */
static int64_t hazard_time(const struct model_view *m, const struct deferred_model *d, uint32_t type, int64_t now_ns,
                           int64_t latest_ns, const struct batch_view *batch) {
    int64_t last_ns = m->rates.last_arrival_ns;
    double worth = d->hazard_scale * (double)m->profiles[type]->latency_ns[batch->items];
    double enough = expected_until(d, batch->due_ns - last_ns) - worth;
    if (expected_until(d, now_ns - last_ns) >= enough)
        return now_ns;
    if (expected_until(d, latest_ns - last_ns) <= enough)
        return latest_ns;
    uint32_t bin = gap_bin_of(now_ns - last_ns);
    while (bin + 1 < GAP_BINS && d->before[bin + 1] < enough)
        bin++;
    int64_t at_ns = last_ns + gap_bin_start(bin) + (int64_t)((enough - d->before[bin]) / d->per_ns[bin]) + 1;
    return at_ns < latest_ns ? at_ns : latest_ns;
}

static struct batch_times deferred_times(const struct model_view *m, const void *own, uint32_t type, int64_t now_ns,
                                         const struct batch_view *batch) {
    const struct deferred_model *d = own;
    if (batch->sealed || batch->items >= batch->items_most || batch->items >= d->slack_items)
        return (struct batch_times){0, 0, batch->invalid_after_ns};
    int64_t wake_ns = batch->due_ns - d->lead_ns, patient_ns = batch->head_arrival_ns + d->patience_ns;
    if (wake_ns > patient_ns)
        wake_ns = patient_ns;
    if (!d->hazard || wake_ns <= now_ns)
        return (struct batch_times){wake_ns, wake_ns, batch->invalid_after_ns};
    return (struct batch_times){hazard_time(m, d, type, now_ns, wake_ns, batch), wake_ns, batch->invalid_after_ns};
}

/* Accelerators that a model keeps busy with batches of `batch`. */
static double demand(const struct model_rates *r, double rate, double batch) {
    return rate / NS_PER_S_D * (r->alpha_ns + r->beta_ns / batch);
}

/* Whether work arrives faster now than over 2 s, by more than chance. */
static double boost_derive(const struct cluster_view *c) {
    double slow = 0, fast = 0, arrivals = 0;
    for (uint32_t i = 0; i < c->models; i++) {
        const struct model_rates *r = &c->rates[i];
        if (r->batch_best < 1)
            continue;
        slow += demand(r, r->rate, r->batch_best);
        fast += demand(r, r->rate_fast, r->batch_best);
        arrivals += r->arrivals_fast;
    }
    double boost = slow > 0 ? fast / slow - STANDARD_ERRORS / __builtin_sqrt(2 * arrivals + 1) : 1;
    return boost > 1 ? boost : 1;
}

/* The load if every batch held the part theta of b*. */
static double theta_load(const struct cluster_view *c, double theta, double boost) {
    double load = 0;
    for (uint32_t i = 0; i < c->models; i++)
        if (c->rates[i].rate > 0)
            load += demand(&c->rates[i], c->rates[i].rate * boost, 1 + theta * (c->rates[i].batch_best - 1));
    return load;
}

/* The load falls as theta rises, so the smallest step is found by halving. */
static double theta_derive(const struct cluster_view *c, double boost) {
    uint32_t low = 0, high = THETA_STEPS; /* high is taken when none is enough */
    while (low < high) {
        uint32_t step = (low + high) / 2;
        if (theta_load(c, (double)step / THETA_STEPS, boost) <= THETA_LOAD * c->accelerators)
            high = step;
        else
            low = step + 1;
    }
    return (double)low / THETA_STEPS;
}

/* lambda': a flood counts as soon as it is no chance. */
static double share_demand(const struct model_rates *r) {
    if (r->batch_best < 1)
        return 0;
    double sure = r->rate_fast * (1 - STANDARD_ERRORS / __builtin_sqrt(2 * r->arrivals_fast + 1));
    return demand(r, sure > r->rate ? sure : r->rate, r->batch_best);
}

/* The level s with sum(min(demand, weight * s)) = total, for 0 < total < sum(demand): what the models under it leave is
 * shared by the others as they weigh; each round finds more models under the level, so it ends. */
static double level_derive(const struct cluster_view *c, double total) {
    double level = 0;
    uint32_t over = UINT32_MAX;
    for (;;) {
        double rest = total, weights = 0;
        uint32_t count = 0;
        for (uint32_t i = 0; i < c->models; i++) {
            double d = share_demand(&c->rates[i]), weight = c->rates[i].weight;
            if (d <= weight * level) {
                rest -= d;
            } else {
                weights += weight;
                count++;
            }
        }
        if (count == 0 || count == over)
            return level;
        over = count;
        level = rest / weights;
    }
}

/* Models of one weight were promised nothing in particular: cut are those that flood, so that the others keep all they
 * ask for. Where weights differ, each is held to what it was promised. */
static void shares_derive(const struct cluster_view *c, double *admit_share) {
    double sum = 0, offered = 0, bad = 0, lightest = 0, heaviest = 0;
    uint32_t active = 0;
    for (uint32_t i = 0; i < c->models; i++) {
        const struct model_rates *r = &c->rates[i];
        admit_share[i] = 1;
        double d = share_demand(r);
        sum += d;
        offered += r->rate;
        bad += r->rate * r->bad_rate;
        if (d <= 0)
            continue;
        lightest = active == 0 || r->weight < lightest ? r->weight : lightest;
        heaviest = r->weight > heaviest ? r->weight : heaviest;
        active++;
    }
    bool suffering = sum > SHARE_LOAD_BAD * c->accelerators && bad > SHARE_BAD * offered;
    if (active == 0 || !(sum > SHARE_LOAD * c->accelerators || suffering))
        return;
    double total = SHARE_LEVEL * c->accelerators;
    if (total >= sum)
        return;
    double level = level_derive(c, total), mean = sum / active;
    bool promised = heaviest > lightest, anyone_under = false;
    for (uint32_t i = 0; i < c->models; i++) {
        double d = share_demand(&c->rates[i]);
        anyone_under |= d > 0 && d < c->rates[i].weight * level;
    }
    for (uint32_t i = 0; (promised || anyone_under) && i < c->models; i++) {
        double d = share_demand(&c->rates[i]), most = c->rates[i].weight * level;
        if (d > most && (promised || d > SHARE_OVER_MEAN * mean))
            admit_share[i] = most / d;
    }
}

static void deferred_derive(const struct cluster_view *c, const struct policy_options *options,
                            struct cluster_parameters *p, double *admit_share) {
    (void)options;
    double boost = boost_derive(c), fixed = 0, variable = 0, batches = 0, offered = 0, lost = 0;
    for (uint32_t i = 0; i < c->models; i++) {
        const struct model_rates *r = &c->rates[i];
        if (!(r->rate > 0))
            continue;
        double rate = r->rate * boost / NS_PER_S_D;
        fixed += rate * r->beta_ns / r->batch_best;
        variable += rate * r->alpha_ns;
        batches += rate / r->batch_best;
        offered += r->rate;
        lost += r->rate * r->dropped_rate;
    }
    p->boost = boost;
    p->loss = offered > 0 ? lost / offered : 0;
    p->gamma = GAMMA_MOST;
    if (c->accelerators > variable && GAMMA_SCALE * fixed < GAMMA_MOST * (c->accelerators - variable))
        p->gamma = GAMMA_SCALE * fixed / (c->accelerators - variable);
    p->tau_ns = batches > 0 ? 1 / batches : 0;
    p->theta = theta_derive(c, boost);
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
