/* scenario.c - reads scenario files. */
#include "lab/scenario/scenario.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/time.h"
#include "lab/scenario/scenario_sections.h"
#include "sched/core/central.h"

#define SEED_MAX 9007199254740992.0

/* The sections of a file. They are read in an order of their own, since models depend on the cluster, and pipelines and
 * popularity on the models. */
struct sections {
    const struct conf_node *cluster, *models, *pipelines, *workload, *policy, *network, *autoscale, *run;
};

static const struct conf_key section_keys[] = {
    CONF_KEY_NODE(struct sections, cluster, "cluster"),
    CONF_KEY_NODE(struct sections, models, "models"),
    CONF_KEY_NODE(struct sections, pipelines, "pipelines"),
    CONF_KEY_NODE(struct sections, workload, "workload"),
    CONF_KEY_NODE(struct sections, policy, "policy"),
    CONF_KEY_NODE(struct sections, network, "network"),
    CONF_KEY_NODE(struct sections, autoscale, "autoscale"),
    CONF_KEY_NODE(struct sections, run, "run"),
    CONF_KEYS_END,
};

static int policy_section_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    const struct conf_node *named = conf_find(node, "name");
    char text[64];
    struct sy_error why;
    if (node->kind != CONF_MAP)
        return conf_error(node, err, "expected {name: POLICY, OPTION: VALUE, ...}");
    int rc = named ? conf_get_text(named, text, sizeof(text), "a policy's name", err) : 0;
    if (rc)
        return rc;
    if (named && !(s->policy = policy_find(text, &why)))
        return conf_error(named, err, "%s", why.text);
    policy_options_preset(s->policy, &s->policy_options);
    for (const struct conf_node *option = node->first; option && !rc; option = option->next) {
        if (option == named)
            continue;
        rc = conf_get_text(option, text, sizeof(text), "a value", err);
        if (!rc && policy_option_read(s->policy, option->key, text, &s->policy_options, &why) < 0)
            rc = conf_error(option, err, "%s", why.text);
    }
    return rc;
}

#define US_EXPECTED "a number of microseconds"
static const struct conf_key network_keys[] = {
    CONF_KEY_TIME(struct scenario, ctrl_ns, "ctrl_us", NS_PER_US, 0, 6e7, US_EXPECTED),
    CONF_KEY_TIME(struct scenario, data_ns, "data_us_per_request", NS_PER_US, 0, 6e7, US_EXPECTED),
    CONF_KEY_TIME(struct scenario, reply_margin_ns, "reply_margin_us", NS_PER_US, 0, 6e7, US_EXPECTED),
    CONF_KEY_TIME(struct scenario, message_ns, "message_us", NS_PER_US, 0, 6e7, US_EXPECTED),
    CONF_KEY_TIME(struct scenario, link_jitter_ns, "jitter_us", NS_PER_US, 0, 6e7, US_EXPECTED),
    CONF_KEY_TIME(struct scenario, link_margin_ns, "margin_us", NS_PER_US, 0, 6e7, US_EXPECTED),
    CONF_KEY_DOUBLE(struct scenario, link_loss, "loss", 0, 0.5, "a share of the messages"),
    CONF_KEY_TIME(struct scenario, link_resend_ns, "resend_ms", NS_PER_MS, 0, 6e4, "a number of milliseconds"),
    CONF_KEYS_END,
};

#define SECONDS_EXPECTED "a number of seconds"
static const struct conf_key autoscale_keys[] = {
    CONF_KEY_INT(struct scenario_autoscale, min, "min", 1, ACCELERATORS_MAX, "a number of accelerators"),
    CONF_KEY_INT(struct scenario_autoscale, max, "max", 1, ACCELERATORS_MAX, "a number of accelerators"),
    CONF_KEY_TIME(struct scenario_autoscale, start_delay_ns, "start_delay_s", NS_PER_S, 0, SECONDS_MAX,
                  SECONDS_EXPECTED),
    CONF_KEY_DOUBLE(struct scenario_autoscale, headroom, "headroom", 0, 0.9, "a share of the accelerators"),
    CONF_KEY_TIME(struct scenario_autoscale, every_ns, "every_s", NS_PER_S, 0.001, SECONDS_MAX, SECONDS_EXPECTED),
    CONF_KEYS_END,
};

static const struct conf_key run_keys[] = {
    CONF_KEY_TIME(struct scenario, duration_ns, "seconds", NS_PER_S, 0.001, SECONDS_MAX, SECONDS_EXPECTED),
    CONF_KEY_TIME(struct scenario, warmup_ns, "warmup_seconds", NS_PER_S, 0, SECONDS_MAX, SECONDS_EXPECTED),
    CONF_KEY_INT(struct scenario, seed, "seed", 0, SEED_MAX, "a whole number"),
    CONF_KEYS_END,
};

/* Dollars an hour for which the scenario's policy chooses pools; 0: it chooses none. */
static double pool_budget(const struct scenario *s) {
    const struct central_ops *central = s->policy->central;
    return central && central->pool_budget ? central->pool_budget(&s->policy_options) : 0;
}

/* With several types the policy says how many accelerators there are of each. All that there may be of a type are those
 * at the start, or as many as the budget pays for. */
static int pool_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    double budget = pool_budget(s), most = 0;
    if (budget <= 0 || s->model_count != 1 || s->pipeline_count)
        return conf_error(node, err,
                          "works with one accelerator type, or with one model and a policy that chooses pools (kairos "
                          "with a budget); the cluster has %u types",
                          s->type_count);
    for (uint32_t t = 0; t < s->type_count; t++) {
        struct scenario_type *type = &s->types[t];
        if (type->price <= 0)
            return conf_error(node, err, "the price of '%s' is not known", type->name);
        double paid = floor(budget * (1 + 1e-9) / type->price);
        most += paid > type->count ? paid : type->count;
        if (most > ACCELERATORS_MAX)
            return conf_error(node, err, "%g dollars an hour pay for too many of '%s'", budget, type->name);
        type->most = paid > type->count ? (uint32_t)paid : type->count;
    }
    s->autoscale.max = (int64_t)most;
    return 0;
}

static int autoscale_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    const struct autoscale_config usual = autoscale_usual(0); /* `max` must be there */
    s->autoscale = (struct scenario_autoscale){.enabled = true,
                                               .min = usual.min,
                                               .headroom = usual.headroom,
                                               .start_delay_ns = usual.start_delay_ns,
                                               .every_ns = usual.every_ns};
    int rc = conf_read_map(node, autoscale_keys, &s->autoscale, err);
    if (rc)
        return rc;
    if (s->type_count > 1)
        return pool_read(node, s, err);
    if (!s->autoscale.max)
        return conf_error(node, err, "'max' is missing");
    if (s->autoscale.min > s->accelerator_count || s->accelerator_count > s->autoscale.max)
        return conf_error(node, err, "it begins with the cluster's %u accelerators, which are not in %lld to %lld",
                          s->accelerator_count, (long long)s->autoscale.min, (long long)s->autoscale.max);
    s->types[0].most = (uint32_t)s->autoscale.max;
    return 0;
}

struct autoscale_config scenario_autoscale_config(const struct scenario_autoscale *s) {
    return (struct autoscale_config){.min = (uint32_t)s->min,
                                     .max = (uint32_t)s->max,
                                     .headroom = s->headroom,
                                     .every_ns = s->every_ns,
                                     .start_delay_ns = s->start_delay_ns};
}

static int root_read(const struct conf_node *root, struct scenario *s, struct sy_error *err) {
    struct sections sections = {0};
    int rc = conf_read_map(root, section_keys, &sections, err);
    if (rc)
        return rc;
    if (!sections.cluster || !sections.models)
        return conf_error(root, err, "'%s' is missing", sections.cluster ? "models" : "cluster");
    rc = scenario_read_cluster(sections.cluster, sections.models, s, err);
    if (!rc && sections.pipelines)
        rc = scenario_take_pipelines(sections.pipelines, s, err);
    if (!rc)
        rc = scenario_read_models(sections.models, s, err);
    if (!rc && sections.pipelines)
        rc = scenario_read_pipelines(sections.pipelines, sections.models, s, err);
    if (!rc)
        rc = scenario_read_workload(sections.workload, s, err);
    if (!rc && sections.pipelines)
        rc = scenario_split_pipelines(sections.pipelines, s, err);
    if (!rc && sections.policy)
        rc = policy_section_read(sections.policy, s, err);
    if (!rc && sections.network)
        rc = conf_read_map(sections.network, network_keys, s, err);
    if (!rc && sections.autoscale)
        rc = autoscale_read(sections.autoscale, s, err);
    if (!rc && sections.run)
        rc = conf_read_map(sections.run, run_keys, s, err);
    return rc;
}

/* Reads a scenario from the tree, which it frees. */
static int tree_read(struct conf_node *root, const char *const *sets, uint32_t set_count, struct scenario *s,
                     struct sy_error *err) {
    *s = (struct scenario){.query_size = {.kind = QUERY_CONSTANT, .a = 1},
                           .trace = {.scale = 1, .job_s = 60},
                           .fault_noticed_ns = 300 * NS_PER_MS, /* three heartbeats of a cluster */
                           .link_resend_ns = 200 * NS_PER_MS,   /* the least that TCP waits, on Linux */
                           .policy = &policy_deferred,
                           .duration_ns = 30 * NS_PER_S,
                           .warmup_ns = 3 * NS_PER_S,
                           .seed = 1};
    policy_options_preset(s->policy, &s->policy_options);
    int rc = 0;
    for (uint32_t i = 0; i < set_count && !rc; i++)
        rc = conf_set(root, sets[i], err);
    if (!rc)
        rc = root_read(root, s, err);
    conf_free(root);
    if (rc)
        scenario_free(s);
    return rc;
}

int scenario_read(const char *path, const char *const *sets, uint32_t set_count, struct scenario *scenario,
                  struct sy_error *err) {
    struct conf_node *root;
    memset(scenario, 0, sizeof(*scenario));
    int rc = conf_read_file(path, &root, err);
    return rc ? rc : tree_read(root, sets, set_count, scenario, err);
}

int scenario_read_text(const char *origin, const char *text, size_t bytes, const char *const *sets, uint32_t set_count,
                       struct scenario *scenario, struct sy_error *err) {
    struct conf_node *root;
    memset(scenario, 0, sizeof(*scenario));
    int rc = conf_read_text(origin, text, bytes, &root, err);
    return rc ? rc : tree_read(root, sets, set_count, scenario, err);
}

void scenario_free(struct scenario *scenario) {
    for (struct scenario_points *points = scenario->points, *next; points; points = next) {
        next = points->next;
        free(points);
    }
    free(scenario->models);
    free(scenario->pipelines);
    free(scenario->steps);
    memset(scenario, 0, sizeof(*scenario));
}
