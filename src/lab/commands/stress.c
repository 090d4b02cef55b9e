/* stress.c - `symphony stress`: the live scheduler threads alone, at full speed. */
#include <jansson.h>
#include <unistd.h>

#include "core/system/thread.h"
#include "core/util/time.h"
#include "lab/commands/stress_links.h"
#include "lab/load/goodput_search.h"
#include "lab/stress/handle.h"
#include "lab/stress/stress.h"
#include "sched/threads/wiring.h"
#include "server/commands/cli.h"
#include "server/commands/options.h"

#define BAD_MOST      0.01              /* --find max: a rate holds up to this bad rate */
#define DECISION_MOST (100 * NS_PER_US) /* --find max: a rate holds up to this 99th percentile of decisions */
#define UNDISTURBED   0.5 /* share of requests in undisturbed slices from which on only these requests decide */
/* Most trials at a rate while they are disturbed more than UNDISTURBED allows; the last one then counts with its
 * pauses. */
#define TRIALS_MOST  3
#define RATE_LEAST   1e3
#define RATE_MOST    1e9
#define SECONDS_MOST 1000 /* longest run, warm-up included, for HANDLE_ARRIVAL_BITS of nanoseconds */

_Static_assert((1ULL << HANDLE_ARRIVAL_BITS) > (SECONDS_MOST + 60ULL) * NS_PER_S, "a run's times fit into handles");

#define S struct stress_settings
static const struct option_row rows[] = {
    OPTION_HEADING("Scheduler"),
    OPTION_INT(S, models, "models", "M", 1, 1 << HANDLE_MODEL_BITS, "models, all alike"),
    OPTION_INT(S, model_threads, "model-threads", "T", 1, 64, "threads that hold their queues"),
    OPTION_INT(S, rank_threads, "rank-threads", "K", 1, RANK_THREADS_MAX,
               "threads that match batches to accelerators, each for a sub-cluster"),
    OPTION_DOUBLE(S, deaths, "deaths", "R", 0, 1e5,
                  "accelerators that die, a second; each joins again after 5 ms, and what it had is lost"),
    OPTION_DOUBLE(S, moves, "moves", "R", 0, 1e5, "models that move to another rank thread, a second"),
    OPTION_INT(S, accelerators, "accelerators", "N", 1, 1000000,
               "accelerators, all alike; with --links, of each backend"),
    OPTION_TEXT(S, policy, "policy", "NAME[:KEY=VALUE,...]",
                "a policy with model threads and rank threads, as docs/scheduling.md lists them"),
    OPTION_HEADING("Over links"),
    OPTION_FLAG(
        S, links, "links",
        "a cluster's scheduler, link thread included, joined through sockets by emulated frontends and backends"),
    OPTION_INT(S, frontends, "frontends", "N", 1, LINKS_MEMBERS_MAX, "frontends"),
    OPTION_INT(S, backends, "backends", "N", 1, LINKS_MEMBERS_MAX, "backends"),
    OPTION_INT(S, feeders, "feeders", "N", 1, LINKS_FEEDERS_MAX, "threads that stand for them"),
    OPTION_TEXT(S, scenario, "scenario", "FILE",
                "models, their shares, policy and reply margin from a scenario (docs/scenarios.md) of one type of "
                "accelerators"),
    OPTION_HEADING("Models"),
    OPTION_DOUBLE(S, alpha_us, "alpha-us", "A", 0.001, 1e7, "a batch of b takes A*b + B microseconds"),
    OPTION_DOUBLE(S, beta_us, "beta-us", "B", 0, 1e7, "its fixed part"),
    OPTION_DOUBLE(S, slo_us, "slo-us", "S", 1, 1e8, "time from a request's arrival to its deadline"),
    OPTION_HEADING("Load"),
    OPTION_DOUBLE(S, rate, "rate", "R", RATE_LEAST, RATE_MOST,
                  "requests per second over all models, Poisson; with --find, where the search starts"),
    OPTION_CHOICE(S, find, "find", "max",
                  "search the highest rate with at most 1 % bad and a 99th percentile of decisions under 100 us, over "
                  "the slices of time that no pause of a thread touched, if they have half of the requests"),
    OPTION_DOUBLE(S, precision, "precision", "P", 0.005, 0.5, "of --find: relative width at which it stops"),
    OPTION_INT(S, closed, "closed", "N", 1, LINKS_OUTSTANDING_MAX, "closed loop instead: N requests outstanding"),
    OPTION_INT(S, feed_batch, "feed-batch", "F", 1, 4096, "requests handed over at once"),
    OPTION_INT(S, record_mib, "record-mib", "MIB", 0, 65536,
               "memory of each model thread for the last requests' arrivals, as a server's --record-mib; 0: none"),
    OPTION_DOUBLE(S, seconds, "seconds", "S", 0.05, SECONDS_MOST / 2, "how long is measured; with --find, each trial"),
    OPTION_DOUBLE(S, warmup_s, "warmup", "S", 0, SECONDS_MOST / 2, "seconds of the same load before"),
    OPTION_INT(S, seed, "seed", "N", 0, INT64_MAX / 2, "of the arrivals"),
    OPTION_TEXT(S, pin, "pin", "CORES",
                "cores, e.g. 0-3: one for each model thread, then the rank threads, then those that feed; those for "
                "whom none is left take turns on the last core, as they do without --pin where cores are few"),
    OPTION_FLAG(S, sleep, "sleep",
                "threads sleep when they have nothing to do, as those of a server do without --busy-poll"),
    OPTION_HEADING("Output"),
    OPTION_FLAG(S, json, "json", "machine-readable result on standard output"),
    OPTION_END,
};

static const struct options options = {
    .command = "stress",
    .usage = "[OPTION]...",
    .intro =
        "Runs the live scheduler threads on requests and accelerators that are objects of this process, without any\n"
        "network or inputs; or with --links a whole scheduler over sockets. Says how many requests they take, how\n"
        "long decisions last and what each costs, and checks the decisions meanwhile; exit status 1 if one was wrong.",
    .notes = "Examples:\n"
             "  symphony stress --accelerators 1000 --rate 2e6\n"
             "  symphony stress --models 24 --accelerators 1000 --find max --pin 0-1 --json\n"
             "  symphony stress --closed 10000\n"
             "  symphony stress --links --closed 20000\n"
             "  symphony stress --links --backends 1000 --accelerators 20 --scenario scenarios/zoo-1080ti.yaml "
             "--rate 100000",
    .rows = rows,
};

/* ---- output ---- */

json_t *stress_times_json(const struct stress_times *t) {
    return json_pack("{s:f,s:f,s:f}", "p50", (double)t->p50 / 1e3, "p99", (double)t->p99 / 1e3, "p999",
                     (double)t->p999 / 1e3);
}

static json_t *kinds_json(const struct stress_result *r, json_t *(*of)(const struct stress_kind *kind)) {
    return json_pack("{s:o,s:o,s:o}", "model_thread", of(&r->model), "rank_thread", of(&r->rank), "feeder",
                     of(&r->feeder));
}

static json_t *work_json(const struct stress_kind *kind) {
    return json_real(kind->work_ns);
}

static json_t *busy_json(const struct stress_kind *kind) {
    return json_real(kind->busy);
}

static json_t *ran_json(const struct stress_kind *kind) {
    return json_real(kind->ran);
}

static json_t *pauses_json(const struct stress_kind *kind) {
    return json_pack("{s:I,s:f,s:f}", "count", (json_int_t)kind->pauses.count, "total_ms",
                     (double)kind->pauses.total_ns / 1e6, "longest_ms", (double)kind->pauses.longest_ns / 1e6);
}

static void print_json(const struct stress_result *r, double max_rate) {
    json_t *root =
        json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "seconds", r->seconds, "offered_per_s", r->offered_per_s,
                  "requests_per_s", r->requests_per_s, "grants_per_s", r->grants_per_s, "bad_rate", r->bad_rate,
                  "dropped_rate", r->dropped_rate, "late_rate", r->late_rate, "batch_mean", r->batch_mean);

    json_object_set_new(root, "max_rate_per_s", max_rate > 0 ? json_real(max_rate) : json_null());
    json_object_set_new(root, "undisturbed",
                        r->pauses_known
                            ? json_pack("{s:f,s:f,s:f,s:o}", "seconds", r->undisturbed.seconds, "requests_share",
                                        r->undisturbed.share, "bad_rate", r->undisturbed.bad_rate, "decision_us",
                                        stress_times_json(&r->undisturbed.decision))
                            : json_null());
    json_object_set_new(root, "pauses", r->pauses_known ? kinds_json(r, pauses_json) : json_null());
    json_object_set_new(root, "decision_us", stress_times_json(&r->decision));
    json_object_set_new(root, "request_to_candidate_us", stress_times_json(&r->candidate));
    json_object_set_new(root, "due_to_grant_us", stress_times_json(&r->grant));
    json_object_set_new(root, "grant_to_plan_us", stress_times_json(&r->plan));
    json_object_set_new(root, "cpu_ns_per_request", kinds_json(r, work_json));
    json_object_set_new(root, "cpu_ns_per_grant", json_pack("{s:f}", "rank_thread", r->rank_ns_per_grant));
    json_object_set_new(root, "threads", json_integer(r->threads));
    json_object_set_new(root, "busy", kinds_json(r, busy_json));
    json_object_set_new(root, "ran", kinds_json(r, ran_json));
    json_object_set_new(root, "memory_bytes",
                        json_pack("{s:I,s:I}", "queued_request", (json_int_t)r->request_bytes, "accelerator",
                                  (json_int_t)r->accelerator_bytes));
    json_object_set_new(root, "requests", json_integer((json_int_t)r->requests));
    json_object_set_new(root, "batches", json_integer((json_int_t)r->batches));
    json_object_set_new(root, "lost_rate", json_real(r->lost_rate));
    json_object_set_new(root, "deaths", json_integer((json_int_t)r->deaths));
    json_object_set_new(root, "moves", json_integer((json_int_t)r->moves));
    json_object_set_new(root, "checked_requests", json_integer((json_int_t)r->checked_requests));
    json_object_set_new(root, "wrong", r->wrong ? json_string(r->wrong_text) : json_null());
    cli_json_print(root, JSON_REAL_PRECISION(10));
}

void stress_times_print(const char *name, const struct stress_times *t) {
    printf("  %-22s %8.1f %8.1f %8.1f us\n", name, (double)t->p50 / 1e3, (double)t->p99 / 1e3, (double)t->p999 / 1e3);
}

static void print_text(const struct stress_result *r, double max_rate) {
    if (max_rate > 0)
        printf("highest rate that holds: %.0f requests/s\n", max_rate);
    else if (max_rate == 0)
        puts("no rate holds; the last that was tried:");
    printf("%.0f requests/s (offered %.0f), %.0f grants/s, mean batch %.2f of at most %u\n", r->requests_per_s,
           r->offered_per_s, r->grants_per_s, r->batch_mean, r->batch_max);
    printf("bad %.3f %%: dropped %.3f %%, late %.3f %%, lost %.3f %%\n", 100 * r->bad_rate, 100 * r->dropped_rate,
           100 * r->late_rate, 100 * r->lost_rate);
    if (r->pauses_known) {
        const struct stress_undisturbed *u = &r->undisturbed;
        const struct stress_kind *kinds[] = {&r->model, &r->rank, &r->feeder};
        static const char *const names[] = {"model thread", "rank thread", "feeder"};

        printf("in undisturbed slices (%.1f %% of the requests) bad %.3f %%\n", 100 * u->share, 100 * u->bad_rate);
        printf("pauses over 1 ms:");
        for (int i = 0; i < 3; i++)
            printf("%s %s %u, %.1f ms, longest %.1f ms", i ? ";" : "", names[i], kinds[i]->pauses.count,
                   (double)kinds[i]->pauses.total_ns / 1e6, (double)kinds[i]->pauses.longest_ns / 1e6);
        putchar('\n');
    }
    if (r->deaths || r->moves)
        printf("%llu accelerators died, %llu models moved\n", (unsigned long long)r->deaths,
               (unsigned long long)r->moves);
    printf("%-24s %8s %8s %8s\n", "times", "p50", "p99", "p99.9");
    stress_times_print("request to candidate", &r->candidate);
    stress_times_print("due to grant", &r->grant);
    stress_times_print("grant to plan", &r->plan);
    stress_times_print("decision: due to plan", &r->decision);
    if (r->pauses_known)
        stress_times_print("in undisturbed slices", &r->undisturbed.decision);
    printf("CPU a request: model thread %.1f ns, rank thread %.1f ns (%.0f ns a grant), feeder %.1f ns\n",
           r->model.work_ns, r->rank.work_ns, r->rank_ns_per_grant, r->feeder.work_ns);
    printf("had something to do: model threads %.1f %% of the time, rank threads %.1f %%, feeder %.1f %%; %u threads\n",
           100 * r->model.busy, 100 * r->rank.busy, 100 * r->feeder.busy, r->threads);
    printf("the kernel let them run: %.1f %%, %.1f %%, %.1f %%\n", 100 * r->model.ran, 100 * r->rank.ran,
           100 * r->feeder.ran);
    printf("memory: %llu bytes a queued request, %llu an accelerator\n", (unsigned long long)r->request_bytes,
           (unsigned long long)r->accelerator_bytes);
    printf("checked %llu of %llu requests and %llu batches: %s\n", (unsigned long long)r->checked_requests,
           (unsigned long long)r->requests, (unsigned long long)r->batches, r->wrong ? r->wrong_text : "all right");
}

/* ---- running ---- */

/* Runs one rate, and again if pauses disturbed it too much. 1 if it held, 0 if not, or -errno with a sentence. */
static int trial_run(const struct stress_config *config, struct stress_result *trial, struct sy_error *err) {
    struct stress_goal goal = {
        .rate = config->rate, .bad_most = BAD_MOST, .decision_ns = DECISION_MOST, .undisturbed_least = UNDISTURBED};
    enum stress_held held = STRESS_DISTURBED;

    for (int n = 0; n < TRIALS_MOST && held == STRESS_DISTURBED; n++) {
        int rc = stress_run(config, trial, err);
        if (rc < 0)
            return rc;
        held = stress_held(&goal, trial);
    }
    return (held == STRESS_DISTURBED ? stress_held_anyway(&goal, trial) : held) == STRESS_HELD;
}

/* Searches the highest rate that holds. `result` is then of that rate, or of the last one tried if none held. */
static int find_max(struct stress_config *config, double precision, struct stress_result *result, double *max_rate,
                    struct sy_error *err) {
    struct goodput_search search;
    struct stress_result trial;
    bool terminal = isatty(STDERR_FILENO);

    goodput_search_init(&search, config->rate, RATE_LEAST, RATE_MOST, precision);
    while (!search.done) {
        config->rate = search.rate_rps;
        if (terminal)
            fprintf(stderr, "\r\033[Ktrying %.0f requests/s", config->rate);
        int held = trial_run(config, &trial, err);
        if (held < 0)
            return held;
        if (held || trial.wrong || search.held_rps <= 0)
            *result = trial;
        if (trial.wrong) /* nothing else matters */
            break;
        goodput_search_report(&search, held);
    }
    if (terminal)
        fputs("\r\033[K", stderr);
    *max_rate = search.held_rps;
    return 0;
}

static int config_fill(const struct stress_settings *s, struct stress_config *config,
                       struct policy_options *policy_options) {
    struct sy_error err;

    if (policy_read(s->policy ? s->policy : policy_deferred.name, &config->policy, policy_options, &err) < 0)
        return cli_usage_error("stress", "--policy: %s", err.text);
    if (config->policy->central)
        return cli_usage_error("stress", "--policy: %s is a scheduler of its own and has no model threads",
                               config->policy->name);
    if (s->models < s->model_threads)
        return cli_usage_error("stress", "--model-threads: %lld for %lld models", (long long)s->model_threads,
                               (long long)s->models);
    if (s->alpha_us + s->beta_us >= s->slo_us)
        return cli_usage_error("stress", "--slo-us: %g is not enough for a batch of one, which takes %g", s->slo_us,
                               s->alpha_us + s->beta_us);
    if (s->rank_threads > s->accelerators)
        return cli_usage_error("stress", "--rank-threads: %lld for %lld accelerators", (long long)s->rank_threads,
                               (long long)s->accelerators);
    if (s->closed && s->find >= 0)
        return cli_usage_error("stress", "--closed does not go with --find");
    if (s->seconds + s->warmup_s > SECONDS_MOST)
        return cli_usage_error("stress", "--seconds and --warmup: more than %d together", SECONDS_MOST);
    config->models = (uint32_t)s->models;
    config->model_threads = (uint32_t)s->model_threads;
    config->accelerators = (uint32_t)s->accelerators;
    config->rank_threads = (uint32_t)s->rank_threads;
    config->deaths_per_s = s->deaths;
    config->moves_per_s = s->rank_threads > 1 ? s->moves : 0;
    config->alpha_ns = (int64_t)(s->alpha_us * 1e3);
    config->beta_ns = (int64_t)(s->beta_us * 1e3);
    config->slo_ns = (int64_t)(s->slo_us * 1e3);
    config->rate = s->closed ? 0 : s->rate;
    config->outstanding = (uint32_t)s->closed;
    config->sleep = s->sleep;
    config->feed_batch = (uint32_t)s->feed_batch;
    config->record_bytes = (uint64_t)s->record_mib << 20;
    config->warmup_s = s->warmup_s;
    config->seconds = s->seconds;
    config->seed = (uint64_t)s->seed;
    config->policy_options = policy_options;
    CPU_ZERO(&config->cores);
    if (s->pin && thread_cores_parse(s->pin, &config->cores, &err) < 0)
        return cli_usage_error("stress", "--pin: %s", err.text);
    return CLI_OK;
}

static int stress_command_run(int argc, char **argv) {
    struct stress_settings settings = {
        .models = 1,
        .model_threads = 1,
        .rank_threads = 1,
        .accelerators = -1,
        .frontends = 1,
        .backends = 1,
        .feeders = 1,
        .alpha_us = 50,
        .beta_us = 1000,
        .slo_us = 20000,
        .rate = 1e6,
        .find = -1,
        .precision = 0.03,
        .feed_batch = 32,
        .record_mib = 32,
        .seconds = 3,
        .warmup_s = 1,
        .seed = 1,
    };
    struct policy_options policy_options;
    struct stress_config config;
    struct stress_result result = {.seconds = 0};
    struct sy_error err;
    double max_rate = -1; /* not asked for; 0: none holds */
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);

    if (status != OPTIONS_GO_ON)
        return status;
    if (settings.links)
        return stress_links_run(&settings);
    if (settings.scenario || settings.backends > 1 || settings.frontends > 1 || settings.feeders > 1)
        return cli_usage_error("stress", "--scenario, --frontends, --backends and --feeders go with --links");
    if (settings.accelerators < 0)
        settings.accelerators = STRESS_ACCELERATORS;
    status = config_fill(&settings, &config, &policy_options);
    if (status != CLI_OK)
        return status;
    int rc = settings.find >= 0 ? find_max(&config, settings.precision, &result, &max_rate, &err)
                                : stress_run(&config, &result, &err);
    if (rc < 0) {
        fprintf(stderr, "symphony stress: %s\n", err.text);
        return CLI_FAILURE;
    }
    if (settings.json)
        print_json(&result, max_rate);
    else
        print_text(&result, max_rate);
    return result.wrong ? CLI_FAILURE : CLI_OK;
}

const struct cli_command cli_stress = {
    .name = "stress",
    .summary = "runs the scheduler's threads alone, at full speed",
    .run = stress_command_run,
};
