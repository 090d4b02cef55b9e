/* nexus_plan.c - epochs of `nexus`: measures rates; squishy bin packing then says which accelerators hold a session,
 * and its batch sizes (section 5, section 6.1).
 *
 * All accelerators are used: the plan is for the largest multiple of the rates that fits (sched/plan/squishy_fit.h).
 * Each type of accelerators has a plan of its own; a session's rate is divided among the types in proportion to their
 * throughput for it. */
#include "sched/policy/nexus_state.h"

#define CHANGE_SHARE   0.3  /* share by which a changed rate differs from the planned one, at least; and */
#define CHANGE_ERRORS  4    /* standard errors of a second's count by which a changed rate differs, at least */
#define RECENT_WEIGHT  0.5  /* weight of the last look in nexus_model.recent */
#define STAYS_WORTH    1e6  /* worth of staying in place, in accelerators: more than any occupancy */
#define PACKING_WEIGHT 0.1  /* weight of the newest plan in nexus.packing */
#define STEADY_SHARE   0.05 /* share by which a load that is taken to be the same may change from plan to plan */
#define IDLE_LOAD      1e-3 /* occupancy by a session without requests, so that such sessions spread */

/* ---- rates ---- */

static bool rate_changed(const struct nexus_model *model) {
    double away = model->recent - model->rate, most = model->recent > model->rate ? model->recent : model->rate;
    if (model->rate <= 0)
        return model->recent > 0;
    return away * away > CHANGE_SHARE * CHANGE_SHARE * model->rate * model->rate &&
           away * away > CHANGE_ERRORS * CHANGE_ERRORS * most * RECENT_WEIGHT;
}

/* Updates the recent rates. Returns whether any of them is far from the planned rate. */
static bool rates_look(struct nexus *n, int64_t now_ns) {
    double seconds = (double)(now_ns - n->looked_ns) / (double)NS_PER_S;
    double weight = n->looked_ns > n->planned_ns ? RECENT_WEIGHT : 1;
    bool changed = false;
    for (uint32_t m = 0; m < n->models; m++) {
        struct nexus_model *model = &n->model[m];
        model->recent += weight * (model->look_items / seconds - model->recent);
        model->look_items = 0;
        changed |= rate_changed(model);
    }
    n->looked_ns = now_ns;
    return changed;
}

/* Sets the rates for the next plan: the mean since the last plan; the recent rate where a change is the reason for the
 * new plan. */
static void rates_take(struct nexus *n, int64_t now_ns, bool changed) {
    double seconds = (double)(now_ns - n->planned_ns) / (double)NS_PER_S;
    for (uint32_t m = 0; m < n->models; m++) {
        struct nexus_model *model = &n->model[m];
        model->rate = changed && rate_changed(model) ? model->recent : model->epoch_items / seconds;
    }
}

void nexus_plan_arrival(struct nexus *n, int64_t now_ns, uint32_t m, uint32_t items, struct central_output *out) {
    n->model[m].epoch_items += items;
    n->model[m].look_items += items;
    n->counts = true;
    if (now_ns - n->looked_ns < NEXUS_LOOK_NS)
        return;
    bool changed = rates_look(n, now_ns);
    int64_t since_ns = now_ns - n->planned_ns;
    if (since_ns < n->epoch_ns && n->rates_known && !(changed && since_ns >= n->epoch_min_ns))
        return;
    rates_take(n, now_ns, changed);
    n->rates_known = true;
    nexus_plan_epoch(n, now_ns, out);
}

int64_t nexus_plan_wake_ns(const struct nexus *n) {
    return n->rates_known && !n->silent ? n->planned_ns + n->epoch_ns + NEXUS_LOOK_NS : TIME_NEVER;
}

void nexus_plan_look(struct nexus *n, int64_t now_ns, struct central_output *out) {
    if (now_ns < nexus_plan_wake_ns(n))
        return;
    rates_look(n, now_ns);
    rates_take(n, now_ns, false);
    nexus_plan_epoch(n, now_ns, out);
}

/* ---- the sessions of a type ---- */

/* A model as a session on a type, with all of its rate. The SLO is less by the time that inputs travel. If it is
 * shorter than two runs of one item, it counts as two runs: the model is planned with batches of one. */
static struct squishy_session session_of(const struct nexus *n, const struct nexus_model *model, uint32_t type) {
    struct squishy_session session = {
        .profile = model->profiles[type],
        .batch_max = model->batch_max,
        .slo_ns = model->slo_ns - nexus_delay_ns(n, 1),
        .rate = model->rate,
        .weights_bytes = nexus_weights_bytes(n, (uint32_t)(model - n->model), n->page_bytes[type]),
    };
    if (!session.profile)
        return session;
    session.slo_ns = model->slo_ns - nexus_delay_ns(n, squishy_batch_full(&session));
    if (session.slo_ns < 2 * session.profile->latency_ns[1])
        session.slo_ns = 2 * session.profile->latency_ns[1];
    return session;
}

/* Items per second of a session that has an accelerator to itself; 0: the session is not planned for. */
static double throughput_of(const struct squishy_session *session) {
    uint32_t b = session->profile && session->rate > 0 ? squishy_batch_full(session) : 0;
    return b ? (double)b / (double)session->profile->latency_ns[b] * 1e9 : 0;
}

/* Sets the sessions of a type, with their parts of the rates. */
static void sessions_set(struct nexus *n, uint32_t type) {
    uint32_t up[CENTRAL_TYPES_MAX] = {0};
    for (uint32_t a = 0; a < n->accelerators; a++)
        up[n->accelerator[a].type] += n->accelerator[a].up;
    for (uint32_t m = 0; m < n->models; m++) {
        double mine = 0, all = 0;
        for (uint32_t t = 0; t < n->types; t++) {
            struct squishy_session session = session_of(n, &n->model[m], t);
            double throughput = up[t] * throughput_of(&session);
            all += throughput;
            if (t == type) {
                mine = throughput;
                n->sessions[m] = session;
            }
        }
        n->sessions[m].rate *= all > 0 ? mine / all : 0;
    }
}

/* ---- places ---- */

static void place_plan(struct nexus *n, int64_t now_ns, uint32_t model, uint32_t a, uint32_t batch, double weight) {
    uint32_t p = nexus_place_find(n, model, a);
    if (n->counts && n->model[model].rate > 0) {
        n->moves.places++;
        n->moves.kept += p != NEXUS_NONE;
    }
    if (p == NEXUS_NONE)
        p = nexus_place_add(n, now_ns, model, a);
    struct nexus_place *place = &n->place[p];
    if (place->state == PLACE_RETIRING)
        place->state = PLACE_READY;
    place->batch = batch;
    place->weight = weight;
    place->planned = true;
}

/* Makes places as a type's plan says. */
static void places_take(struct nexus *n, int64_t now_ns, uint32_t type) {
    const struct squishy *plan = &n->fit[type].plan;
    for (uint32_t a = 0; a < n->accelerators; a++) {
        const struct squishy_gpu *gpu = &plan->gpus[a];
        uint32_t alone = gpu->saturated;
        n->accelerator[a].occupancy += gpu->occupancy;
        n->accelerator[a].bytes_planned += gpu->bytes_taken;
        if (alone != SQUISHY_NONE)
            place_plan(n, now_ns, alone, a, plan->places[alone].batch_full, throughput_of(&n->sessions[alone]));
        for (uint32_t s = gpu->first; s != SQUISHY_NONE; s = plan->places[s].next)
            place_plan(n, now_ns, s, a, plan->places[s].batch, plan->places[s].residue);
    }
}

/* How many of a type's accelerators its sessions would keep busy, each in full batches. */
static double oblivious_needed(const struct nexus *n) {
    double needed = 0;
    for (uint32_t m = 0; m < n->models; m++) {
        double throughput = throughput_of(&n->sessions[m]);
        needed += throughput > 0 ? n->sessions[m].rate / throughput : 0;
    }
    return needed;
}

/* The scheme that Nexus is compared with (section 7.2): each session has a share of the accelerators in proportion to
 * rate / throughput, one session after the other, and batches as if it were alone. */
static void places_oblivious(struct nexus *n, int64_t now_ns, uint32_t type) {
    double all = oblivious_needed(n), from = 0;
    uint32_t a = 0, up = 0, before = 0; /* a: the accelerator being filled; before: how many are full */
    for (uint32_t i = 0; i < n->accelerators; i++)
        up += n->accelerator[i].up && n->accelerator[i].type == type;
    for (uint32_t m = 0; m < n->models && up > 0; m++) {
        double throughput = throughput_of(&n->sessions[m]);
        double to = throughput > 0 ? from + n->sessions[m].rate / throughput / all * up : from;
        while (to - from > 1e-9) {
            while (!n->accelerator[a].up || n->accelerator[a].type != type)
                a++;
            double end = to < before + 1 ? to : before + 1;
            place_plan(n, now_ns, m, a, squishy_batch_full(&n->sessions[m]), end - from);
            n->accelerator[a].occupancy += end - from;
            from = end;
            if (before + 1 - from < 1e-9 && before + 1 < up) {
                before++;
                a++;
            }
        }
        from = to;
    }
}

static bool planned_somewhere(const struct nexus *n, uint32_t model) {
    for (uint32_t p = n->model[model].places; p != NEXUS_NONE; p = n->place[p].next_of_model)
        if (n->place[p].planned)
            return true;
    return false;
}

/* The accelerator for a model without a place in the plan. A model without requests stays where it is loaded. Any other
 * model goes to the least occupied accelerator that runs it; NONE: there is none. */
static uint32_t place_left(const struct nexus *n, uint32_t model) {
    uint32_t best = NEXUS_NONE;
    double best_worth = 0;
    for (uint32_t a = 0; a < n->accelerators; a++) {
        const struct nexus_accelerator *accelerator = &n->accelerator[a];
        bool fits =
            !n->limited || accelerator->bytes_planned + nexus_weights_bytes(n, model, accelerator->page_bytes) <=
                               accelerator->memory_bytes;
        if (!accelerator->up || !fits || !n->model[model].profiles[accelerator->type])
            continue;
        bool stays =
            n->limited && n->model[model].rate <= 0 && n->loaded[(size_t)a * n->models + model] != NEXUS_NOT_LOADED;
        double worth = (stays ? STAYS_WORTH : 0) - accelerator->occupancy;
        if (best == NEXUS_NONE || worth > best_worth) {
            best = a;
            best_worth = worth;
        }
    }
    return best;
}

/* Sessions for which the plan has no accelerator, and those without requests, go to the least occupied accelerators. */
static void places_force(struct nexus *n, int64_t now_ns) {
    for (uint32_t m = 0; m < n->models; m++) {
        uint32_t a = planned_somewhere(n, m) ? NEXUS_NONE : place_left(n, m);
        if (a == NEXUS_NONE)
            continue;
        struct squishy_session session = session_of(n, &n->model[m], n->accelerator[a].type);
        uint32_t b = squishy_batch_full(&session);
        place_plan(n, now_ns, m, a, b, 1);
        n->accelerator[a].bytes_planned += session.weights_bytes;
        n->accelerator[a].occupancy += IDLE_LOAD + session.rate * (double)session.profile->latency_ns[b] / b / 1e9;
    }
}

/* Ends places that are no longer planned. If models have to be loaded, such places stay for a while. */
static void places_end(struct nexus *n, int64_t now_ns, struct central_output *out) {
    for (uint32_t p = 0; p < n->places_max; p++) {
        struct nexus_place *place = &n->place[p];
        if (place->state == PLACE_FREE || place->planned)
            continue;
        if (n->limited && place->state == PLACE_READY)
            place->state = PLACE_RETIRING;
        else
            nexus_place_end(n, now_ns, p, out);
    }
}

void nexus_plan_epoch(struct nexus *n, int64_t now_ns, struct central_output *out) {
    for (uint32_t p = 0; p < n->places_max; p++) {
        n->place[p].planned = false;
        n->place[p].state = n->place[p].state == PLACE_FAILED ? PLACE_WANTED : n->place[p].state;
    }
    double up = 0;
    for (uint32_t a = 0; a < n->accelerators; a++) {
        n->accelerator[a].occupancy = 0;
        n->accelerator[a].bytes_planned = 0;
        up += n->accelerator[a].up;
    }
    double full = 0, packed = 0;
    for (uint32_t t = 0; t < n->types; t++) {
        sessions_set(n, t);
        full += oblivious_needed(n);
        if (n->plan == NEXUS_OBLIVIOUS) {
            places_oblivious(n, now_ns, t);
            continue;
        }
        double scale = squishy_fit_update(&n->fit[t], n->sessions);
        places_take(n, now_ns, t);
        packed += squishy_fit_needed(&n->fit[t], n->sessions, scale);
    }
    /* The load needs the accelerators that it would keep busy in full batches, and those that packing takes on top of
     * them. The latter jump by whole accelerators; so, while the load hardly changes, the mean of the last plans is
     * used. */
    double more = n->plan == NEXUS_OBLIVIOUS ? 0 : packed - full, change = full - n->full;
    bool steady = n->rates_known && change < STEADY_SHARE * n->full && -change < STEADY_SHARE * n->full;
    n->packing = steady ? n->packing + PACKING_WEIGHT * (more - n->packing) : more;
    n->full = n->rates_known ? full : 0;
    n->needed = n->rates_known ? full + n->packing : up;
    places_force(n, now_ns);
    places_end(n, now_ns, out);
    for (uint32_t a = 0; a < n->accelerators; a++)
        nexus_due(n, a);
    n->silent = true;
    for (uint32_t m = 0; m < n->models; m++) {
        n->silent &= n->model[m].rate <= 0;
        n->model[m].epoch_items = n->model[m].look_items = 0;
    }
    n->planned_ns = n->looked_ns = now_ns;
    n->moves.plans += n->counts;
}
