/* cluster.c - makes the arguments of sim_run() from a scenario. */
#include "lab/sim/cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lab/scenario/scenario.h"
#include "sched/core/central.h"

/* Whether two models have the same tables: copies do, and there may be 100,000 of them. */
static bool tables_same(const struct scenario *s, const struct scenario_model *a, const struct scenario_model *b) {
    for (uint32_t t = 0; t < s->type_count; t++) {
        const struct scenario_latency *l = &a->latency[t], *k = &b->latency[t];
        if (l->alpha_ns != k->alpha_ns || l->beta_ns != k->beta_ns || l->latency_ns != k->latency_ns)
            return false;
        l = &a->suffix[t], k = &b->suffix[t];
        if (l->alpha_ns != k->alpha_ns || l->beta_ns != k->beta_ns || l->latency_ns != k->latency_ns)
            return false;
    }
    return a->batch_max == b->batch_max && a->variants == b->variants;
}

/* A table that the cluster frees; NULL without memory. */
static struct profile *table_new(struct cluster *c, uint32_t batch_max) {
    struct profile *profile = malloc(profile_bytes(batch_max));
    if (profile)
        c->profiles[c->profile_count++] = profile;
    return profile;
}

static int tables_make(struct cluster *c, const struct scenario *s, uint32_t m) {
    const struct scenario_model *from = &s->models[m];
    struct sim_model *to = &c->models[m];
    if (m && tables_same(s, from, from - 1)) {
        memcpy(to->profiles, to[-1].profiles, sizeof(to->profiles));
        memcpy(to->prefixes, to[-1].prefixes, sizeof(to->prefixes));
        memcpy(to->suffixes, to[-1].suffixes, sizeof(to->suffixes));
        return 0;
    }
    for (uint32_t t = 0; t < s->type_count; t++) {
        struct profile *profile = table_new(c, to->batch_max);
        if (!profile)
            return -ENOMEM;
        scenario_profile(from, t, to->batch_max, profile);
        to->profiles[t] = profile;
        if (!from->variants)
            continue;
        struct profile *prefix = table_new(c, to->batch_max), *suffix = table_new(c, to->batch_max);
        if (!prefix || !suffix)
            return -ENOMEM;
        scenario_variants(from, t, to->batch_max, prefix, suffix);
        to->prefixes[t] = prefix;
        to->suffixes[t] = suffix;
    }
    return 0;
}

static int models_make(struct cluster *c, const struct scenario *s) {
    c->models = calloc(s->model_count, sizeof(*c->models));
    c->profiles = calloc(3 * (size_t)s->model_count * s->type_count, sizeof(*c->profiles)); /* with variants' parts */
    int rc = c->models && c->profiles ? 0 : -ENOMEM;
    for (uint32_t m = 0; !rc && m < s->model_count; m++) {
        const struct scenario_model *from = &s->models[m];
        struct sim_model *to = &c->models[m];
        *to = (struct sim_model){
            .batch_max = from->batch_max,
            .slo_ns = from->slo_ns,
            .weight = from->weight,
            .share = from->share,
            .items_least = 1,
            .items_most = 1,
            .weights_bytes = from->weights_bytes,
            .load_ns = from->load_ns,
            .pinned = from->pinned,
            .variants = from->variants,
            .best_effort = from->best_effort,
            .priority_count = from->priority_count,
            .surge_at_s = from->surge_at_s,
            .surge_factor = from->surge_factor,
        };
        memcpy(to->priorities, from->priorities, sizeof(to->priorities));
        snprintf(to->name, sizeof(to->name), "%.*s", SIM_NAME_MAX - 1, from->name);
        rc = tables_make(c, s, m);
    }
    return rc;
}

static int pipelines_make(struct cluster *c, const struct scenario *s) {
    c->pipelines = calloc(s->pipeline_count + 1, sizeof(*c->pipelines));
    if (!c->pipelines)
        return -ENOMEM;
    for (uint32_t p = 0; p < s->pipeline_count; p++) {
        const struct scenario_pipeline *from = &s->pipelines[p];
        struct sim_pipeline *to = &c->pipelines[p];
        to->graph = from->graph;
        to->queries =
            (struct sim_model){.slo_ns = from->graph.slo_ns, .share = from->share, .items_least = 1, .items_most = 1};
        snprintf(to->queries.name, sizeof(to->queries.name), "%.*s", SIM_NAME_MAX - 1, from->name);
    }
    return 0;
}

static int accelerators_make(struct cluster *c, const struct scenario *s) {
    uint32_t most = s->autoscale.enabled ? (uint32_t)s->autoscale.max : s->accelerator_count;
    uint8_t *next = c->accelerator_type = calloc(most, 1);
    if (!next)
        return -ENOMEM;
    for (uint32_t t = 0; t < s->type_count; t++) {
        uint32_t count = s->autoscale.enabled ? s->types[t].most : s->types[t].count;
        memset(next, (int)t, count);
        next += count;
        c->price[t] = s->types[t].price;
    }
    return 0;
}

static int steps_make(struct cluster *c, const struct scenario *s) {
    c->steps = calloc(s->step_count + 1, sizeof(*c->steps));
    if (!c->steps)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->step_count; i++)
        c->steps[i] = (struct sim_rate_step){(double)s->steps[i].start_ns / (double)NS_PER_S, s->steps[i].rate_rps};
    return 0;
}

/* Requests of one item need no table, and no random number each. */
static int query_sizes_make(struct cluster *c, const struct scenario *s, struct sy_error *err) {
    if (s->query_size.kind == QUERY_CONSTANT && s->query_size.a == 1)
        return 0;
    c->query_sizes = malloc(sizeof(*c->query_sizes));
    if (!c->query_sizes)
        return error_set(err, -ENOMEM, "out of memory for the sizes of requests");
    return query_sizes_fill(&s->query_size, c->query_sizes, err);
}

/* A trace's models share the rate as they do in the file, and the rate is the trace's unless the scenario gives one. */
static int trace_make(struct cluster *c, const struct scenario *s, struct sy_error *err) {
    if (s->arrivals != ARRIVALS_TRACE)
        return 0;
    struct trace_model *models = calloc(s->model_count, sizeof(*models));
    c->trace = calloc(1, sizeof(*c->trace));
    if (!models || !c->trace) {
        free(models);
        return error_set(err, -ENOMEM, "out of memory for the trace of %u models", s->model_count);
    }
    for (uint32_t m = 0; m < s->model_count; m++)
        models[m] = (struct trace_model){s->models[m].name, s->models[m].share, s->models[m].priority_count};
    double run_s = (double)(s->warmup_ns + s->duration_ns) / (double)NS_PER_S;
    int rc = trace_read(&s->trace, models, s->model_count, run_s, (uint64_t)s->seed, c->trace, err);
    free(models);
    if (rc)
        return rc;
    for (uint32_t m = 0; m < s->model_count; m++)
        c->models[m].share = c->trace->model_rps[m] / c->trace->mean_rps;
    if (!s->step_count)
        c->steps[0] = (struct sim_rate_step){0, c->trace->mean_rps * s->trace.scale};
    return 0;
}

static enum sim_arrivals arrivals_of(const struct scenario *s) {
    static const enum sim_arrivals kinds[] = {
        [ARRIVALS_POISSON] = SIM_POISSON,
        [ARRIVALS_UNIFORM] = SIM_UNIFORM,
        [ARRIVALS_GAMMA] = SIM_GAMMA,
        [ARRIVALS_TRACE] = SIM_TRACE,
    };
    return kinds[s->arrivals];
}

/* Policies that do not load models have all models on all accelerators. */
static uint64_t memory_of(const struct scenario *s) {
    const struct central_ops *central = s->policy->central;
    return !central || central->uses_memory ? s->memory_bytes : 0;
}

static void config_make(struct cluster *c, const struct scenario *s) {
    c->config = (struct sim_config){
        .models = c->models,
        .model_count = s->model_count,
        .pipelines = c->pipelines,
        .pipeline_count = s->pipeline_count,
        .accelerator_type = c->accelerator_type,
        .accelerators = s->accelerator_count,
        .types = s->type_count,
        .price = c->price,
        .subclusters = s->subclusters,
        .epoch_s = s->epoch_s,
        .subcluster_rate_max = s->max_rate_rps,
        .arrivals = arrivals_of(s),
        .gamma_shape = s->gamma_shape,
        .trace = c->trace,
        .steps = c->steps,
        .step_count = s->arrivals == ARRIVALS_TRACE ? 1 : s->step_count,
        .query_sizes = c->query_sizes,
        .ctrl_ns = s->ctrl_ns,
        .data_ns = s->data_ns,
        .reply_margin_ns = s->reply_margin_ns,
        .message_ns = s->message_ns,
        .seconds = (double)s->duration_ns / (double)NS_PER_S,
        .warmup_s = (double)s->warmup_ns / (double)NS_PER_S,
        .seed = (uint64_t)s->seed,
        .memory_bytes = memory_of(s),
        .noise = s->noise,
        .fault_every_s = s->fault_every_s,
        .fault_s = s->fault_s,
        .fault_stalls = s->fault_stalls,
        .backends = (uint32_t)s->fault_backends,
        .fault_again = s->fault_again,
        .fault_silent = s->fault_silent,
        .fault_noticed_ns = s->fault_noticed_ns,
        .link_jitter_ns = s->link_jitter_ns,
        .link_margin_ns = s->link_margin_ns,
        .link_loss = s->link_loss,
        .link_resend_ns = s->link_resend_ns,
        .scheduler_every_s = s->scheduler_every_s,
        .scheduler_down_s = s->scheduler_down_s,
        .rates_known = true, /* as somebody who plans a cluster does */
        .policy = s->policy,
        .options = s->policy_options,
    };
    if (s->autoscale.enabled) {
        c->autoscale = scenario_autoscale_config(&s->autoscale);
        c->config.autoscale = &c->autoscale;
        for (uint32_t t = 0; t < s->type_count; t++)
            c->config.accelerators_first[t] = s->types[t].count;
        c->config.accelerators = c->autoscale.max; /* all that there may be */
    }
}

/* Refuses faults together with what they are not simulated with. */
static int faults_check(const struct scenario *s, struct sy_error *err) {
    bool scheduler = s->scheduler_every_s > 0;
    bool network = s->link_jitter_ns > 0 || s->link_loss > 0 || s->link_margin_ns > 0;
    bool any = scheduler || network || s->fault_again;
    const char *other = any && s->pipeline_count          ? "pipelines"
                        : any && s->autoscale.enabled     ? "autoscale"
                        : scheduler && s->subclusters > 1 ? "cluster.subclusters"
                        : scheduler && memory_of(s)       ? "cluster.memory_gib"
                                                          : NULL;
    if (other)
        return error_set(err, -ENOTSUP, "%s: not with %s",
                         scheduler ? "cluster.scheduler_faults"
                         : network ? "network.jitter_us, loss and margin_us"
                                   : "cluster.faults of the kinds kill and silent",
                         other);
    if (s->autoscale.enabled && s->fault_every_s > 0)
        return error_set(err, -ENOTSUP, "autoscale is not simulated together with cluster.faults");
    return 0;
}

int cluster_make(struct cluster *cluster, const struct scenario *scenario, struct sy_error *err) {
    *cluster = (struct cluster){.models = NULL};
    int checked = faults_check(scenario, err);
    if (checked)
        return checked;
    if (scenario->subclusters > 1 && scenario->policy->central)
        return error_set(err, -ENOTSUP, "cluster.subclusters: not with the central policy %s", scenario->policy->name);
    if (scenario->autoscale.enabled && scenario->autoscale.min < scenario->subclusters)
        return error_set(err, -EINVAL, "autoscale.min: %u sub-clusters need at least as many accelerators",
                         scenario->subclusters);
    if (scenario->subclusters > 1 && scenario->pipeline_count)
        return error_set(err, -ENOTSUP, "cluster.subclusters: not with pipelines");
    for (uint32_t m = 0; m < scenario->model_count && scenario->policy->central; m++)
        if (scenario->models[m].best_effort > 0 || scenario->models[m].priority_count)
            return error_set(err, -ENOTSUP, "the policy %s knows neither priorities nor best effort",
                             scenario->policy->name);
    int rc = models_make(cluster, scenario);
    rc = rc ? rc : pipelines_make(cluster, scenario);
    rc = rc ? rc : accelerators_make(cluster, scenario);
    rc = rc ? rc : steps_make(cluster, scenario);
    rc = rc ? error_set(err, rc, "out of memory for %u models on %u accelerators", scenario->model_count,
                        scenario->accelerator_count)
            : query_sizes_make(cluster, scenario, err);
    rc = rc ? rc : trace_make(cluster, scenario, err);
    if (rc)
        cluster_free(cluster);
    else
        config_make(cluster, scenario);
    return rc;
}

void cluster_free(struct cluster *cluster) {
    for (uint32_t i = 0; i < cluster->profile_count; i++)
        free(cluster->profiles[i]);
    free(cluster->profiles);
    free(cluster->models);
    free(cluster->pipelines);
    free(cluster->accelerator_type);
    free(cluster->steps);
    free(cluster->query_sizes);
    if (cluster->trace)
        trace_free(cluster->trace);
    free(cluster->trace);
    *cluster = (struct cluster){.models = NULL};
}
