/* goodput.c - the goodput of the scheduling cores in virtual time, without delays, in the cells of Symphony's
 * evaluation.
 *
 * Table 4's two models on 8 accelerators, and the model zoo of appendix B on 64 (Symphony, arXiv 2308.07470). For each:
 * the highest Poisson rate at which every model answers 99 % in time, over 30 s after 3 s of warm-up; the same from an
 * independent simulator of the same policy; and a bound that no schedule can pass. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/data/zoo.h"
#include "core/util/container.h"
#include "lab/sim/goodput.h"
#include "server/commands/options.h"

#define MODELS_MAX 64

struct cell {
    const char *name;
    uint32_t accelerators;
    double alpha_ms, beta_ms, slo_ms; /* one model; or... */
    const char *type;                 /* ...a part of the zoo */
    enum zoo_set set;
    double reference_rps, bound_rps;
};

static const struct cell cells[] = {
    {"ResNet50, SLO 25 ms", 8, 1.053, 5.072, 25, NULL, ZOO_ALL, 5439, 5898},
    {"InceptionResNetV2, SLO 70 ms", 8, 5.090, 18.368, 70, NULL, ZOO_ALL, 975, 1109},
    {"GTX 1080Ti zoo, all", 64, 0, 0, 0, "gtx1080ti", ZOO_ALL, 7645, 8041},
    {"GTX 1080Ti zoo, beta/alpha > 2", 64, 0, 0, 0, "gtx1080ti", ZOO_GT2, 20119, 21196},
    {"GTX 1080Ti zoo, beta/alpha < 2", 64, 0, 0, 0, "gtx1080ti", ZOO_LT2, 3969, 4084},
    {"A100 zoo, all", 64, 0, 0, 0, "a100", ZOO_ALL, 18455, 19383},
    {"A100 zoo, beta/alpha > 2", 64, 0, 0, 0, "a100", ZOO_GT2, 58456, 61845},
    {"A100 zoo, beta/alpha < 2", 64, 0, 0, 0, "a100", ZOO_LT2, 6505, 6614},
};

struct settings {
    const struct policy_ops *policy;
    struct policy_options options;
    int64_t seed, only; /* -1: all cells */
    bool quick, flat;
    double ctrl_us, data_us, reply_us;
};

static void *memory_take(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) {
        fprintf(stderr, "goodput: out of memory\n");
        exit(1);
    }
    return memory;
}

static void model_add(struct sim_model *model, const char *name, double alpha_ms, double beta_ms, double slo_ms) {
    if (!sim_model_line(model, alpha_ms, beta_ms, slo_ms)) {
        fprintf(stderr, "goodput: out of memory\n");
        exit(1);
    }
    snprintf(model->name, sizeof(model->name), "%s", name);
}

static uint32_t models_add(struct sim_model *models, const struct cell *cell) {
    uint32_t count = 0;
    if (!cell->type) {
        model_add(&models[count++], cell->name, cell->alpha_ms, cell->beta_ms, cell->slo_ms);
        return count;
    }
    for (const struct zoo_entry *e = zoo_entries; e->model && count < MODELS_MAX; e++)
        if (zoo_entry_in(e, cell->type, cell->set))
            model_add(&models[count++], e->model, e->alpha_ms, e->beta_ms, e->slo_ms);
    return count;
}

static double cpu_s(void) {
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Good requests a second at an offered rate, and simulated requests per second of processor time. */
static double good_rps_at(struct sim_config *config, double rate_rps, void *memory, double *requests_per_s) {
    struct sim_rate_step step = {0, rate_rps};
    struct sim_result result;
    config->steps = &step;
    config->step_count = 1;
    double start_s = cpu_s();
    sim_run(config, memory, &result);
    *requests_per_s = (double)result.requests / (cpu_s() - start_s);
    return (double)result.good / config->seconds;
}

static bool cell_run(const struct cell *cell, const struct settings *settings) {
    struct sim_model models[MODELS_MAX];
    uint8_t types[64] = {0};
    struct sim_config config = {
        .models = models,
        .model_count = models_add(models, cell),
        .accelerator_type = types,
        .accelerators = cell->accelerators,
        .types = 1,
        .seconds = settings->quick ? 10 : 30,
        .warmup_s = 3,
        .seed = (uint64_t)settings->seed,
        .policy = settings->policy,
        .options = settings->options,
        .rates_known = true,
        .ctrl_ns = (int64_t)(settings->ctrl_us * NS_PER_US),
        .data_ns = (int64_t)(settings->data_us * NS_PER_US),
        .reply_margin_ns = (int64_t)(settings->reply_us * NS_PER_US),
    };
    void *memory = memory_take(goodput_bytes(&config, cell->reference_rps));
    double found = goodput_find(&config, cell->reference_rps, settings->quick ? 0.02 : 0.01, memory), speed;
    double good = good_rps_at(&config, found, memory, &speed);
    printf("%-32s %8.0f %10.0f %8.0f %7.3f", cell->name, found, cell->reference_rps, cell->bound_rps,
           found / cell->reference_rps);
    if (settings->flat) {
        double unused;
        printf(" %8.3f", good_rps_at(&config, 2 * found, memory, &unused) / good);
    }
    printf(" %9.2f\n", speed / 1e6);
    fflush(stdout);
    free(memory);
    for (uint32_t m = 0; m < config.model_count; m++)
        free((void *)models[m].profiles[0]);
    return found >= (settings->quick ? 0.93 : 0.97) * cell->reference_rps;
}

static int policy_option(const char *text, void *settings, struct sy_error *err) {
    struct settings *s = settings;
    return policy_read(text, &s->policy, &s->options, err);
}

#define S struct settings
static const struct option_row rows[] = {
    OPTION_FLAG(S, quick, "quick", "10 s to 2 % instead of 30 s to 1 %"),
    OPTION_FLAG(S, flat, "flat", "also goodput at twice the peak rate, over that at the peak"),
    OPTION_INT(S, only, "cell", "N", 0, ARRAY_COUNT(cells) - 1, "this cell alone"),
    OPTION_INT(S, seed, "seed", "N", 0, INT64_MAX / 2, "of the arrivals"),
    OPTION_PARSED("policy", "NAME[:KEY=VALUE,...]", policy_option, "this policy (default: deferred)"),
    OPTION_DOUBLE(S, ctrl_us, "ctrl-us", "N", 0, 1e6, "delay(b) = ctrl + data*b before a batch"),
    OPTION_DOUBLE(S, data_us, "data-us", "N", 0, 1e6, "the same"),
    OPTION_DOUBLE(S, reply_us, "reply-us", "N", 0, 1e6, "the way back of an answer"),
    OPTION_END,
};
#undef S

static const struct options options = {
    .command = "bench_goodput",
    .usage = "[OPTION]...",
    .intro = "Finds the goodput of the scheduling cores in the cells of Symphony's evaluation, in virtual time.",
    .rows = rows,
    .status = "0 every cell reaches 97 % of its reference (--quick: 93 %), 1 one does not, 2 bad usage",
};

int main(int argc, char **argv) {
    struct settings settings = {.policy = &policy_deferred, .seed = 1, .only = -1};
    policy_options_preset(settings.policy, &settings.options);
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);
    if (status != OPTIONS_GO_ON)
        return status;
    printf("%-32s %8s %10s %8s %7s%s %9s\n", "cell", "goodput", "reference", "bound", "of ref.",
           settings.flat ? " flat top" : "", "M req/s");
    bool reached = true;
    for (int i = 0; i < (int)ARRAY_COUNT(cells); i++)
        if (settings.only < 0 || settings.only == i)
            reached &= cell_run(&cells[i], &settings);
    return reached ? 0 : 1;
}
