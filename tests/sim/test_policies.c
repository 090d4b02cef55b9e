/* test_policies.c - policies reach what an independent simulator of them reaches, and no more.
 *
 * sanitizers: no, it compares numbers, and runs no code that random_clusters does not run */
#include <stdlib.h>

#include "core/data/zoo.h"
#include "histories.h"
#include "lab/sim/sim.h"
#include "unit/test.h"

#define MODELS_MAX 64

/* The zoos of Symphony (arXiv 2308.07470, figure 6) on 64 accelerators, and ResNet50 of its table 4 on 8. */
static const struct {
    const char *type;
    enum zoo_set set;
} cells[] = {{NULL, ZOO_ALL},   {"gtx1080ti", ZOO_ALL}, {"gtx1080ti", ZOO_GT2}, {"gtx1080ti", ZOO_LT2},
             {"a100", ZOO_ALL}, {"a100", ZOO_GT2},      {"a100", ZOO_LT2}};

#define CELLS (sizeof(cells) / sizeof(cells[0]))

static const struct {
    const char *policy;
    double reference_rps[CELLS];
} rows[] = {
    {"symphony", {5439, 7008, 19259, 3734, 16792, 55974, 6160}},
    {"symphony:drop=timeout", {4800, 6983, 19051, 3747, 16669, 54940, 6137}},
    {"symphony:schedulable=beta_lambda,drop=timeout,order=exec_at", {4800, 5175, 18508, 3721, 11143, 47547, 6249}},
    {"eager", {4800, 7212, 19259, 3816, 16977, 55561, 6249}},
    {"clockwork", {4671, 7034, 17268, 3900, 15035, 40795, 6364}},
    {"clockwork:ahead_ms=0", {5281, 7374, 19259, 3929, 17410, 54367, 6458}},
};

static void model_add(struct sim_config *config, struct sim_model *models, double alpha_ms, double beta_ms,
                      double slo_ms) {
    assert_true(sim_model_line(&models[config->model_count++], alpha_ms, beta_ms, slo_ms));
}

/* The bad rate of the model that fares worst. */
static double worst_bad_rate(const char *policy, size_t cell, double rate_rps) {
    struct sim_model models[MODELS_MAX];
    uint8_t types[64] = {0};
    struct sim_rate_step step = {0, rate_rps};
    struct sim_config config = {
        .models = models,
        .accelerator_type = types,
        .accelerators = cells[cell].type ? 64 : 8,
        .types = 1,
        .steps = &step,
        .step_count = 1,
        .seconds = 20,
        .warmup_s = 3,
        .seed = 1,
    };
    struct sy_error err;
    assert_int_equal(policy_read(policy, &config.policy, &config.options, &err), 0);
    if (!cells[cell].type)
        model_add(&config, models, 1.053, 5.072, 25);
    for (const struct zoo_entry *e = zoo_entries; cells[cell].type && e->model; e++)
        if (zoo_entry_in(e, cells[cell].type, cells[cell].set))
            model_add(&config, models, e->alpha_ms, e->beta_ms, e->slo_ms);
    void *memory = malloc(sim_bytes(&config));
    assert_non_null(memory);
    struct sim_result result;
    sim_run(&config, memory, &result);
    free(memory);
    for (uint32_t m = 0; m < config.model_count; m++)
        free((void *)models[m].profiles[0]);
    return result.worst_bad_rate;
}

TEST(goodput_is_that_of_an_independent_simulator) {
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
        for (size_t c = 0; c < CELLS; c++) {
            if (!histories_have(r * CELLS + c))
                continue;
            double reference_rps = rows[r].reference_rps[c];
            double under = worst_bad_rate(rows[r].policy, c, 0.96 * reference_rps);
            if (under > 0.01)
                fail_msg("%s, cell %zu: some model loses %.4f at 0.96 of the reference", rows[r].policy, c, under);
            double over = worst_bad_rate(rows[r].policy, c, 1.06 * reference_rps);
            if (over <= 0.01)
                fail_msg("%s, cell %zu: holds at 1.06 of the reference (%.4f)", rows[r].policy, c, over);
        }
}
