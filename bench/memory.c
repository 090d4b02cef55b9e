/* memory.c - bench_memory: many models on accelerators that have room for few of them, in virtual time. Compares the
 * goodput of policies in drawn settings: the highest rate at which 99 % of all requests are answered in time.
 *
 * A setting has 2,000 models of one to six of the kinds of Clockwork's table 1 and 1 to 50 accelerators, each with room
 * for 200 models or all together with room for 200; the popularity is equal, Zipf's, or as in the Azure trace (a few
 * models with most of the requests, in bursts); the SLOs are 1.2 to 8 times what a cold request takes alone. The first
 * policy is compared with the best of the others. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/pages.h"
#include "core/util/rng.h"
#include "lab/sim/sim.h"
#include "server/commands/options.h"

#define MODELS_MOST       2000
#define ROOM_PART         10 /* models of which one has room */
#define ACCELERATORS_MOST 50
#define ROOM_LEAST        8 /* models on each accelerator, where only all together have room for a tenth */
#define BAD_MOST          0.01
#define REQUESTS_LEAST    10000 /* of a run, so that chance decides little: a hundred of them may be bad */
#define STEP              1.4
#define POLICIES_MOST     16

/* Clockwork (OSDI 2020), table 1: megabytes, and milliseconds of a load; the line through batches of 1 and 16. */
static const struct kind {
    const char *name;
    double weights_mb, load_ms, alpha_ms, beta_ms;
} kinds[] = {
    {"densenet169", 56.5, 4.50, 1.111, 4.07},
    {"inceptionv3", 95.3, 7.77, 1.447, 3.01},
    {"mobile_pose_mobilenetv3", 19.0, 1.55, 0.689, 0.60},
    {"resnet18", 46.7, 3.81, 0.383, 0.89},
    {"resnet50", 102.3, 8.33, 0.871, 1.74},
    {"resnet152", 240.9, 19.58, 2.460, 5.25},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct setting {
    struct sim_config config;
    struct sim_model models[MODELS_MOST];
    uint8_t types[ACCELERATORS_MOST];
    char text[160];
    double guess_rps;
};

static double between(struct rng *rng, double low, double high) {
    return low + (high - low) * rng_uniform(rng);
}

static double normal(struct rng *rng) {
    return sqrt(-2 * log(1 - rng_uniform(rng))) * cos(6.283185307179586 * rng_uniform(rng));
}

static void setting_draw(struct setting *s, uint64_t draw, uint64_t number, uint32_t models, double seconds,
                         double warmup_s) {
    struct rng rng;
    rng_seed(&rng, draw * 0x9e3779b97f4a7c15ULL + number);
    memset(s, 0, sizeof(*s));
    uint32_t accelerators = (uint32_t)(exp(between(&rng, 0, log(ACCELERATORS_MOST + 0.99))));
    uint32_t first = (uint32_t)rng_below(&rng, KINDS),
             several = rng_below(&rng, 2) ? 1 : 3 + 3 * (uint32_t)rng_below(&rng, 2);
    double tight = exp(between(&rng, log(1.2), log(8))), skew = between(&rng, 0.6, 1.3);
    uint32_t popularity = (uint32_t)rng_below(&rng, 3);
    bool each = rng_below(&rng, 2);
    double pages = 0, unit_ms = 0, shares = 0;
    const struct profile *profiles[KINDS] = {NULL};
    for (uint32_t m = 0; m < models; m++) {
        uint32_t k = (first + (uint32_t)rng_below(&rng, several)) % KINDS;
        struct sim_model *model = &s->models[m];
        double slo_ms = tight * (kinds[k].alpha_ms + kinds[k].beta_ms + kinds[k].load_ms);
        if (!sim_model_line(model, kinds[k].alpha_ms, kinds[k].beta_ms, slo_ms))
            exit(1);
        if (profiles[k]) {
            free((void *)(uintptr_t)model->profiles[0]);
            model->profiles[0] = profiles[k];
        }
        profiles[k] = model->profiles[0];
        model->weights_bytes = (uint64_t)(kinds[k].weights_mb * 1e6);
        model->load_ns = (int64_t)(kinds[k].load_ms * (double)NS_PER_MS);
        model->share = popularity == 0 ? 1 : popularity == 1 ? pow(m + 1, -skew) : exp(2.2 * normal(&rng));
        shares += model->share;
        unit_ms += model->share * (kinds[k].alpha_ms + kinds[k].beta_ms / 2);
        pages += pages_of(model->weights_bytes, PAGE_BYTES);
    }
    pages /= models;
    double room = (double)models / ROOM_PART / (each ? 1 : accelerators);
    room = room > ROOM_LEAST ? room : ROOM_LEAST;
    bool bursts = popularity == 2 || rng_below(&rng, 4) == 0;
    s->guess_rps = 0.5 * accelerators * 1000 * shares / unit_ms;
    s->config = (struct sim_config){
        .models = s->models,
        .model_count = models,
        .accelerator_type = s->types,
        .accelerators = accelerators,
        .types = 1,
        .arrivals = bursts ? SIM_GAMMA : SIM_POISSON,
        .gamma_shape = 0.2,
        .seconds = seconds,
        .warmup_s = warmup_s,
        .seed = number,
        .memory_bytes = (uint64_t)ceil(room * pages) * PAGE_BYTES,
        .rates_known = true,
    };
    snprintf(s->text, sizeof(s->text), "%u x %s%s, room %.0f each, %s%.1f%s, SLO x%.1f", accelerators,
             kinds[first].name, several > 1 ? (several > 3 ? " and all" : " and 2") : "", room,
             popularity == 0   ? "equal "
             : popularity == 1 ? "Zipf "
                               : "Azure ",
             popularity == 1 ? skew : 0, bursts ? " bursts" : "", tight);
}

static void setting_free(struct setting *s) {
    for (uint32_t m = 0; m < s->config.model_count; m++) {
        const struct profile *profile = s->models[m].profiles[0];
        for (uint32_t n = m + 1; n < s->config.model_count && profile; n++)
            if (s->models[n].profiles[0] == profile)
                s->models[n].profiles[0] = NULL;
        free((void *)(uintptr_t)profile);
    }
}

struct trial {
    struct sim_config config;
    struct sim_observer observer;
    void *memory;
    size_t bytes;
    uint64_t bad;
    double bad_most;
    struct sim_result result;
    double loads, hit;
};

static void on_refused(void *context, int64_t now_ns, uint32_t model, uint64_t handle, enum refusal reason) {
    struct trial *t = context;
    (void)model, (void)handle, (void)reason;
    t->bad += (double)now_ns > t->config.warmup_s * 1e9;
}

static bool go_on(void *context, int64_t now_ns) {
    struct trial *t = context;
    (void)now_ns;
    return (double)t->bad <= t->bad_most;
}

static int holds(void *context, double rate_rps) {
    struct trial *t = context;
    struct sim_rate_step step = {0, rate_rps};
    struct sim_config run = t->config;
    run.steps = &step;
    run.step_count = 1;
    if (run.seconds * rate_rps < REQUESTS_LEAST)
        run.seconds = REQUESTS_LEAST / rate_rps;
    run.observer = &t->observer;
    run.go_on = go_on;
    run.go_on_context = t;
    t->bad = 0;
    t->bad_most = 1.2 * BAD_MOST * rate_rps * run.seconds + 10;
    size_t bytes = sim_bytes(&run);
    if (bytes > t->bytes) {
        free(t->memory);
        t->memory = malloc(t->bytes = bytes);
        if (!t->memory)
            exit(1);
    }
    sim_run(&run, t->memory, &t->result);
    bool good = !t->result.stopped && (double)t->result.good >= (1 - BAD_MOST) * (double)t->result.offered;
    if (good) {
        t->loads = (double)t->result.loads / run.seconds / run.accelerators;
        t->hit = 1 - (double)t->result.cold / (double)t->result.offered;
    }
    return good;
}

/* The highest rate that holds. The guess is doubled or halved until it does not, and then halved between. */
static double goodput(struct trial *t, double guess_rps, double within) {
    double low = 0, high = 0;
    for (double rate = guess_rps;
         (low <= 0 || high <= 0) && rate > guess_rps / 1024 && rate<64 * guess_rps; rate = low> 0 ? rate * STEP
                                                                                                  : rate / STEP)
        *(holds(t, rate) ? &low : &high) = rate;
    while (low > 0 && high > low * (1 + within)) {
        double rate = sqrt(low * high);
        *(holds(t, rate) ? &low : &high) = rate;
    }
    return low;
}

struct settings {
    int64_t draw, first, count, models, seed;
    double seconds, warmup_s, within;
    const char *policies[POLICIES_MOST];
    uint32_t policy_count;
};

static int policy_option(const char *text, void *settings, struct sy_error *err) {
    struct settings *s = settings;
    const struct policy_ops *policy;
    struct policy_options options;
    if (s->policy_count == POLICIES_MOST)
        return error_set(err, -EINVAL, "given more than %d times", POLICIES_MOST);
    s->policies[s->policy_count++] = text;
    return policy_read(text, &policy, &options, err);
}

#define S struct settings
static const struct option_row rows[] = {
    OPTION_INT(S, draw, "draw", "SEED", 0, INT64_MAX / 2, "that the settings are drawn from"),
    OPTION_INT(S, first, "first", "N", 0, INT64_MAX / 2, "the first setting"),
    OPTION_INT(S, count, "count", "N", 1, 1000000, "settings"),
    OPTION_INT(S, models, "models", "N", 1, MODELS_MOST, "of a setting"),
    OPTION_DOUBLE(S, seconds, "seconds", "S", 0.1, 1e5, "of a run, which lasts longer for 10,000 requests"),
    OPTION_DOUBLE(S, warmup_s, "warmup", "S", 0, 1e5, "seconds before, not counted: rates are not known at first"),
    OPTION_INT(S, seed, "seed", "N", 0, 1000000, "other arrivals for each number"),
    OPTION_DOUBLE(S, within, "within", "SHARE", 1e-4, 1, "of the rate, to which it is searched"),
    OPTION_PARSED("policy", "NAME[:KEY=VALUE,...]", policy_option,
                  "a policy; may be repeated (default: deferred:waiting=priced and clockwork:ahead_ms=5)"),
    OPTION_END,
};
#undef S

static const struct options options = {
    .command = "bench_memory",
    .usage = "[OPTION]...",
    .intro =
        "Compares the goodput of the first policy with the best of the others, where there is room for few models.",
    .rows = rows,
};

int main(int argc, char **argv) {
    struct settings settings = {
        .draw = 1, .count = 10, .models = MODELS_MOST, .seconds = 6, .warmup_s = 30, .within = 0.02};
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);
    if (status != OPTIONS_GO_ON)
        return status;
    if (!settings.policy_count) {
        settings.policies[settings.policy_count++] = "deferred:waiting=priced";
        settings.policies[settings.policy_count++] = "clockwork:ahead_ms=5";
    }
    static struct setting s;
    uint32_t under = 0, behind = 0;
    double logs = 0;
    for (int64_t i = settings.first; i < settings.first + settings.count; i++) {
        setting_draw(&s, (uint64_t)settings.draw, (uint64_t)i, (uint32_t)settings.models, settings.seconds,
                     settings.warmup_s);
        s.config.seed += (uint64_t)settings.seed * 1000003;
        printf("%3lld %-70s", (long long)i, s.text);
        double first = 0, best = 0;
        for (uint32_t p = 0; p < settings.policy_count; p++) {
            struct sy_error err;
            struct trial t = {.config = s.config};
            policy_read(settings.policies[p], &t.config.policy, &t.config.options, &err); /* checked above */
            t.observer = (struct sim_observer){.context = &t, .refused = on_refused};
            double rps = goodput(&t, s.guess_rps, settings.within);
            free(t.memory);
            printf(" %8.1f (%5.1f %.3f)", rps, t.loads, t.hit);
            fflush(stdout);
            first = p == 0 ? rps : first;
            best = p > 0 && rps > best ? rps : best;
        }
        double ratio = best > 0 ? first / best : 1;
        under += ratio < 0.98;
        behind += ratio < 1;
        logs += log(ratio > 0 ? ratio : 1e-3);
        printf("  %.3f\n", ratio);
        fflush(stdout);
        setting_free(&s);
    }
    printf("%lld settings: under 0.98 in %u, under 1 in %u, geometric mean %.3f\n", (long long)settings.count, under,
           behind, exp(logs / (double)settings.count));
    return 0;
}
