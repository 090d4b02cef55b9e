/* plan_pool.c - `symphony plan pool`: which instances to rent for one model's queries under a budget. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/util/time.h"
#include "lab/commands/plan.h"
#include "lab/commands/scenario_sets.h"
#include "lab/planfile/pool_input.h"
#include "lab/sim/goodput.h"
#include "server/commands/options.h"

#define ORACLE_QUERIES 5000
#define GUESS_OF_BOUND 0.7 /* share of its bound at which the search for a configuration's goodput begins */

struct settings {
    struct scenario_sets sets;
    const char *base;
    double budget, precision;
    int64_t top, evaluate;
    bool search, json;
};

static int set_option(const char *text, void *settings, struct sy_error *err) {
    return scenario_sets_add(&((struct settings *)settings)->sets, text, err);
}

#define S struct settings
static const struct option_row rows[] = {
    OPTION_DOUBLE(S, budget, "budget", "DOLLARS", 0.0001, 1e6, "an hour (default: what the scenario's pool costs)"),
    OPTION_TEXT(S, base, "base", "TYPE",
                "the base type (default: of those that serve every query in time, the one with the most queries per "
                "dollar)"),
    OPTION_PARSED("set", "KEY=VALUE", set_option, "change the scenario, e.g. models.slo_ms=420; may be repeated"),
    OPTION_INT(S, top, "top", "N", 1, 1000000, "how many configurations to show"),
    OPTION_INT(S, evaluate, "evaluate", "N", 0, 1000000,
               "simulate the goodput of the first N, and of the chosen one, under the scenario's policy"),
    OPTION_FLAG(S, search, "search", "find the best by simulating as few as Kairos+ needs"),
    OPTION_DOUBLE(S, precision, "precision", "P", 0.0001, 0.5, "relative width at which a search for goodput stops"),
    OPTION_FLAG(S, json, "json", "machine-readable result on standard output"),
    OPTION_END,
};
#undef S

static const struct options options = {
    .command = "plan pool",
    .usage = "SCENARIO.yaml [OPTION]...",
    .intro = "Ranks the pools of instances that a budget allows for one model's queries, by an upper bound of their\n"
             "throughput, and chooses one without trying any (Kairos, HPDC 2023, section 5.2). The scenario gives the\n"
             "types with their prices, the model with its SLO, and the sizes of queries; its counts only say what the\n"
             "budget is.",
    .notes = "Examples:\n"
             "  symphony plan pool scenarios/kairos/rm2.yaml --budget 2.5\n"
             "  symphony plan pool scenarios/kairos/rm2.yaml --budget 2.5 --evaluate 10 --json\n"
             "  symphony plan pool scenarios/kairos/rm2.yaml --budget 2.5 --search",
    .status = "0 a choice, 1 there is none, 2 bad usage or input",
    .rows = rows,
    .args_min = 1,
    .args_max = 1,
    .args_name = "SCENARIO.yaml",
};

/* The question and its answer. */
struct plan {
    struct scenario scenario;
    struct cluster cluster;
    struct pool_input input;
    struct pool_rates rates;
    struct pool_config *configs; /* [count] configurations, ranked */
    size_t count, chosen, best;  /* best: index of the configuration that the search found; `count`: none */
    size_t evaluations;
    double *simulated; /* [count] simulated goodput; negative: not simulated */
    uint32_t homogeneous;
    double homogeneous_bound, homogeneous_qps; /* homogeneous_qps negative: not simulated */
    double precision;
    bool memory_out;
};

/* ---- input ---- */

static int configs_make(struct plan *p, const char *path, const char *base_name, struct sy_error *err) {
    const char *name = base_name;
    uint32_t base = pool_base(&p->input);
    if (base == POOL_BASE_NONE)
        return error_set(err, -EINVAL, "%s: no type serves every query within the SLO", path);
    for (uint32_t t = 0; name && t < p->input.types; t++) {
        if (strcmp(p->scenario.types[t].name, name) != 0)
            continue;
        base = t;
        name = NULL;
    }
    if (name)
        return error_set(err, -EINVAL, "--base: %s has no type '%s'", path, name);
    pool_rates_derive(&p->input, base, &p->rates);
    if (p->rates.size[base] < p->input.items_max)
        return error_set(err, -EINVAL, "--base: %s serves no queries of over %u items within the SLO", base_name,
                         p->rates.size[base]);
    p->count = pool_count(&p->input, &p->rates);
    if (p->count == 0)
        return error_set(err, -ENOENT, "%s: %g dollars an hour do not pay for one %s", path, p->input.budget,
                         p->scenario.types[base].name);
    if (p->count > POOL_CONFIGS_MAX)
        return error_set(err, -ENOENT, "%s: the budget allows more than %d configurations", path, POOL_CONFIGS_MAX);
    p->configs = malloc(p->count * sizeof(*p->configs));
    p->simulated = malloc(p->count * sizeof(*p->simulated));
    if (!p->configs || !p->simulated)
        return error_set(err, -ENOMEM, "%s: out of memory", path);
    for (size_t i = 0; i < p->count; i++)
        p->simulated[i] = -1;
    pool_rank(&p->input, &p->rates, p->configs);
    p->chosen = pool_choose(&p->rates, p->configs, p->count);
    p->best = p->count;
    p->homogeneous = pool_homogeneous(&p->input, &p->rates, &p->homogeneous_bound);
    p->homogeneous_qps = -1;
    return 0;
}

/* ---- simulated throughput ---- */

/* The simulated goodput of a configuration of instances under the scenario's policy; negative without memory. */
static double simulate(struct plan *p, const uint16_t *count, double bound) {
    struct sim_config config = p->cluster.config;
    uint32_t n = 0;
    for (uint32_t t = 0; t < p->input.types; t++)
        n += count[t];
    uint8_t *types = malloc(n);
    config.accelerators = 0;
    for (uint32_t t = 0; types && t < p->input.types; t++)
        for (uint32_t i = 0; i < count[t]; i++)
            types[config.accelerators++] = (uint8_t)t;
    config.accelerator_type = types;
    void *memory = types ? malloc(goodput_bytes(&config, bound * GUESS_OF_BOUND)) : NULL;
    double qps = memory ? goodput_find(&config, bound * GUESS_OF_BOUND, p->precision, memory) : -1;
    p->memory_out |= !memory;
    free(memory);
    free(types);
    return qps;
}

static double evaluate(void *context, const struct pool_config *config) {
    struct plan *p = context;
    size_t i = (size_t)(config - p->configs);
    if (p->simulated[i] >= 0)
        return p->simulated[i];
    p->simulated[i] = simulate(p, config->count, config->bound);
    p->evaluations++;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%zu simulated ", p->evaluations);
    return p->simulated[i];
}

static double oracle(const struct plan *p, size_t config) {
    return pool_oracle(&p->input, &p->rates, p->configs[config].count, ORACLE_QUERIES);
}

/* The rate of all the base instances that the budget pays for, if one serves `qps`. As in the paper, a part of an
 * instance counts, too. */
static double homogeneous_scaled(const struct plan *p, double qps) {
    return qps * p->input.budget / p->input.type[p->rates.base].price;
}

/* ---- JSON ---- */

static json_t *config_json(const struct plan *p, size_t i) {
    json_t *count = json_object();
    for (uint32_t t = 0; t < p->input.types; t++)
        json_object_set_new(count, p->scenario.types[t].name, json_integer(p->configs[i].count[t]));
    json_t *json = json_pack("{s:i, s:o, s:f, s:f, s:f}", "rank", (int)i + 1, "count", count, "price",
                             p->configs[i].price, "bound_rps", p->configs[i].bound, "oracle_rps", oracle(p, i));
    if (p->simulated[i] >= 0)
        json_object_set_new(json, "goodput_rps", json_real(p->simulated[i]));
    return json;
}

static void plan_json(const struct plan *p, const struct settings *s) {
    json_t *types = json_array(), *top = json_array();
    for (uint32_t t = 0; t < p->input.types; t++)
        json_array_append_new(types, json_pack("{s:s, s:f, s:b, s:i, s:f, s:f}", "type", p->scenario.types[t].name,
                                               "price", p->input.type[t].price, "base", t == p->rates.base,
                                               "items_most", (int)p->rates.size[t], "share", p->rates.small[t],
                                               "alone_rps", p->rates.small_qps[t][t]));
    for (size_t i = 0; i < (size_t)s->top && i < p->count; i++)
        json_array_append_new(top, config_json(p, i));
    json_t *homogeneous = json_pack("{s:i, s:f, s:f}", "count", (int)p->homogeneous, "bound_rps", p->homogeneous_bound,
                                    "bound_scaled_rps", homogeneous_scaled(p, p->rates.base_qps));
    if (p->homogeneous_qps >= 0) {
        json_object_set_new(homogeneous, "goodput_rps", json_real(p->homogeneous_qps));
        json_object_set_new(homogeneous, "goodput_scaled_rps",
                            json_real(homogeneous_scaled(p, p->homogeneous_qps / p->homogeneous)));
    }
    json_t *all = json_pack("{s:s, s:f, s:f, s:s, s:o, s:i, s:o, s:o, s:o}", "model", p->scenario.models[0].name,
                            "slo_ms", (double)p->scenario.models[0].slo_ns / NS_PER_MS, "budget", p->input.budget,
                            "policy", p->scenario.policy->name, "types", types, "configurations", (int)p->count,
                            "choice", config_json(p, p->chosen), "homogeneous", homogeneous, "top", top);
    if (p->best < p->count)
        json_object_set_new(
            all, "search",
            json_pack("{s:i, s:o}", "evaluations", (int)p->evaluations, "best", config_json(p, p->best)));
    cli_json_print(all, JSON_REAL_PRECISION(12));
}

/* ---- table ---- */

static void plan_table(const struct plan *p, const struct settings *s) {
    printf("%s, SLO %g ms, %g dollars an hour: %zu configurations\n\n", p->scenario.models[0].name,
           (double)p->scenario.models[0].slo_ns / NS_PER_MS, p->input.budget, p->count);
    printf("%-20s %9s %11s %8s %9s\n", "type", "$/hour", "items up to", "share", "alone/s");
    for (uint32_t t = 0; t < p->input.types; t++)
        printf("%-20s %9.4f %11u %6.1f %% %9.2f%s\n", p->scenario.types[t].name, p->input.type[t].price,
               p->rates.size[t], 100 * p->rates.small[t], p->rates.small_qps[t][t], t == p->rates.base ? "  base" : "");
    printf("\n%-6s", "rank");
    for (uint32_t t = 0; t < p->input.types; t++)
        printf(" %s", p->scenario.types[t].name);
    printf(" %9s %9s %9s%s\n", "$/hour", "bound/s", "oracle/s", s->evaluate || s->search ? " goodput/s" : "");
    for (size_t i = 0; i < p->count; i++) {
        if (i >= (size_t)s->top && i != p->chosen && i != p->best)
            continue;
        printf("%-6zu", i + 1);
        for (uint32_t t = 0; t < p->input.types; t++)
            printf(" %*u", (int)strlen(p->scenario.types[t].name), p->configs[i].count[t]);
        printf(" %9.3f %9.2f %9.2f", p->configs[i].price, p->configs[i].bound, oracle(p, i));
        if (p->simulated[i] >= 0)
            printf(" %9.2f", p->simulated[i]);
        printf("%s\n", i == p->chosen ? "  <- chosen" : "");
    }
    printf("\nonly %s: %u, bound %.2f/s, %.2f/s with the rest of the budget", p->scenario.types[p->rates.base].name,
           p->homogeneous, p->homogeneous_bound, homogeneous_scaled(p, p->rates.base_qps));
    if (p->homogeneous_qps >= 0)
        printf("; goodput %.2f/s, %.2f/s", p->homogeneous_qps,
               homogeneous_scaled(p, p->homogeneous_qps / p->homogeneous));
    putchar('\n');
    if (p->best < p->count)
        printf("best found: rank %zu, %.2f/s, after simulating %zu\n", p->best + 1, p->simulated[p->best],
               p->evaluations);
}

/* ---- the command ---- */

/* Reads, ranks and evaluates. Returns the exit status, with a sentence unless it is 0. */
static int plan_make(struct plan *p, const char *path, const struct settings *s, struct sy_error *err) {
    if (scenario_read(path, s->sets.sets, s->sets.count, &p->scenario, err) ||
        cluster_make(&p->cluster, &p->scenario, err) ||
        pool_input_make(&p->scenario, &p->cluster, path, s->budget, &p->input, err))
        return CLI_USAGE;
    int rc = configs_make(p, path, s->base, err);
    if (rc)
        return rc == -EINVAL ? CLI_USAGE : CLI_FAILURE;
    p->precision = s->precision;
    for (size_t i = 0; i < (size_t)s->evaluate && i < p->count && !p->memory_out; i++)
        evaluate(p, &p->configs[i]);
    if (s->evaluate || s->search) {
        uint16_t count[POOL_TYPES_MAX] = {0};
        count[p->rates.base] = (uint16_t)p->homogeneous;
        if (p->homogeneous)
            p->homogeneous_qps = simulate(p, count, p->homogeneous_bound);
        evaluate(p, &p->configs[p->chosen]);
    }
    if (s->search)
        p->evaluations = pool_search(p->configs, p->count, p->input.types, evaluate, p, &p->best);
    if ((s->evaluate || s->search) && isatty(STDERR_FILENO))
        fputs("\r                    \r", stderr);
    if (p->memory_out)
        error_set(err, -ENOMEM, "%s: out of memory", path);
    return p->memory_out ? CLI_FAILURE : CLI_OK;
}

static int pool_run(int argc, char **argv) {
    struct settings s = {.top = 10, .precision = 0.01};
    struct sy_error err;
    struct plan plan = {.count = 0};
    int args_count, status = options_parse(&options, argc, argv, &s, &args_count);
    if (status != OPTIONS_GO_ON)
        return status;
    status = plan_make(&plan, argv[1], &s, &err);
    if (status != CLI_OK)
        fprintf(stderr, "symphony plan pool: %s\n", err.text);
    else if (s.json)
        plan_json(&plan, &s);
    else
        plan_table(&plan, &s);
    free(plan.configs);
    free(plan.simulated);
    cluster_free(&plan.cluster);
    scenario_free(&plan.scenario);
    return status;
}

const struct cli_command plan_pool = {
    .name = "plan pool",
    .summary = "which instances to rent for queries of different sizes under a budget (Kairos)",
    .run = pool_run,
};
