/* stress_links.c - `symphony stress --links`: a cluster's scheduler alone, over sockets. */
#include "lab/commands/stress_links.h"

#include <stdio.h>

#include "core/system/log.h"
#include "core/system/thread.h"
#include "core/util/container.h"
#include "lab/scenario/scenario.h"
#include "server/commands/cli.h"

/* ---- what is run ---- */

/* Models that are all alike, as a scenario. */
static int scenario_of(const struct stress_settings *s, struct scenario *scenario, struct sy_error *err) {
    char text[512];
    int bytes = snprintf(text, sizeof(text),
                         "cluster: {accelerators: 1, type: emulated}\n"
                         "models: [{name: model, copies: %lld, alpha_ms: %.9g, beta_ms: %.9g, slo_ms: %.9g}]\n",
                         (long long)s->models, s->alpha_us / 1e3, s->beta_us / 1e3, s->slo_us / 1e3);
    return scenario_read_text("stress", text, (size_t)bytes, NULL, 0, scenario, err);
}

/* Refuses settings that do not go with --links, or with each other. CLI_OK or CLI_USAGE after a sentence. */
static int settings_check(const struct stress_settings *s) {
    if (s->find >= 0)
        return cli_usage_error("stress", "--find does not go with --links");
    if (s->deaths > 0 || s->moves > 0)
        return cli_usage_error("stress", "--deaths and --moves do not go with --links");
    if (s->frontends + s->backends > LINKS_MEMBERS_MAX)
        return cli_usage_error("stress", "--frontends and --backends: more than %d together", LINKS_MEMBERS_MAX);
    if (s->feeders > s->frontends + s->backends)
        return cli_usage_error("stress", "--feeders: %lld for %lld frontends and backends", (long long)s->feeders,
                               (long long)(s->frontends + s->backends));
    if (s->backends * s->accelerators > LINKS_ACCELERATORS_MAX)
        return cli_usage_error("stress", "--backends and --accelerators: more than %d in all", LINKS_ACCELERATORS_MAX);
    if (!s->scenario && s->alpha_us + s->beta_us >= s->slo_us)
        return cli_usage_error("stress", "--slo-us: %g is not enough for a batch of one, which takes %g", s->slo_us,
                               s->alpha_us + s->beta_us);
    return CLI_OK;
}

static int config_fill(const struct stress_settings *s, struct scenario *scenario, struct links_config *config) {
    struct sy_error err;
    if (s->policy && policy_read(s->policy, &scenario->policy, &scenario->policy_options, &err) < 0)
        return cli_usage_error("stress", "--policy: %s", err.text);
    if (scenario->policy->central)
        return cli_usage_error("stress", "--policy: %s is a scheduler of its own and has no model threads",
                               scenario->policy->name);
    if (scenario->pipeline_count)
        return cli_usage_error("stress", "--scenario: pipelines are only simulated");
    if (scenario_with_variants(scenario))
        return cli_usage_error("stress", "--scenario: variants of a model are only simulated");
    if (scenario->type_count != 1)
        return cli_usage_error("stress", "--scenario: %u types of accelerators; --links takes one",
                               scenario->type_count);
    if (scenario->model_count < (uint32_t)s->model_threads)
        return cli_usage_error("stress", "--model-threads: %lld for %u models", (long long)s->model_threads,
                               scenario->model_count);
    if (s->rank_threads > s->backends * s->accelerators)
        return cli_usage_error("stress", "--rank-threads: %lld for %lld accelerators", (long long)s->rank_threads,
                               (long long)(s->backends * s->accelerators));
    *config = (struct links_config){
        .scenario = scenario,
        .model_threads = (uint32_t)s->model_threads,
        .rank_threads = (uint32_t)s->rank_threads,
        .frontends = (uint32_t)s->frontends,
        .backends = (uint32_t)s->backends,
        .accelerators = (uint32_t)s->accelerators,
        .feeders = (uint32_t)s->feeders,
        .rate = s->closed ? 0 : s->rate,
        .outstanding = (uint32_t)s->closed,
        .feed_batch = (uint32_t)s->feed_batch,
        .record_bytes = (uint64_t)s->record_mib << 20,
        .warmup_s = s->warmup_s,
        .seconds = s->seconds,
        .seed = (uint64_t)s->seed,
    };
    CPU_ZERO(&config->cores);
    if (s->pin && thread_cores_parse(s->pin, &config->cores, &err) < 0)
        return cli_usage_error("stress", "--pin: %s", err.text);
    return CLI_OK;
}

/* ---- output ---- */

static json_t *kind_json(const struct links_kind *kind) {
    return json_pack("{s:i,s:f,s:f}", "threads", (int)kind->threads, "cpu_ns_per_request", kind->cpu_ns, "ran",
                     kind->ran);
}

/* The reasons for which requests of a stress run may be refused. */
static const struct {
    const char *name;
    enum refusal reason;
} refusals[] = {
    {"deadline", REFUSAL_DEADLINE},     {"scheduler_busy", REFUSAL_THREAD_BUSY}, {"scheduler_full", REFUSAL_POOL_FULL},
    {"queue_full", REFUSAL_QUEUE_FULL}, {"no_accelerator", REFUSAL_STRANDED},
};

static void print_json(const struct links_result *r) {
    json_t *root = json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "joined_s", r->joined_s, "seconds", r->seconds,
                             "offered_per_s", r->offered_per_s, "requests_per_s", r->requests_per_s, "goodput_per_s",
                             r->goodput_per_s, "batches_per_s", r->batches_per_s, "batch_mean", r->batch_mean);
    json_object_set_new(root, "bad_rate", json_real(r->bad_rate));
    json_object_set_new(root, "refused_rate", json_real(r->refused_rate));
    json_t *rates = json_object();
    for (size_t i = 0; i < ARRAY_COUNT(refusals); i++)
        json_object_set_new(rates, refusals[i].name, json_real(r->refused_rates[refusals[i].reason]));
    json_object_set_new(root, "refused_rates", rates);
    json_object_set_new(root, "late_rate", json_real(r->late_rate));
    json_object_set_new(root, "expired_rate", json_real(r->expired_rate));
    json_object_set_new(root, "lost_rate", json_real(r->lost_rate));
    json_object_set_new(root, "unsent_rate", json_real(r->unsent_rate));
    json_object_set_new(root, "worst_model",
                        json_pack("{s:s,s:f}", "model", r->worst_model, "bad_rate", r->worst_bad_rate));
    json_object_set_new(root, "decision_us", stress_times_json(&r->decision));
    json_object_set_new(root, "request_to_candidate_us", stress_times_json(&r->candidate));
    json_object_set_new(root, "due_to_grant_us", stress_times_json(&r->grant));
    json_object_set_new(root, "grant_to_plan_us", stress_times_json(&r->plan));
    json_object_set_new(root, "plan_to_backend_us", stress_times_json(&r->way));
    json_object_set_new(root, "threads",
                        json_pack("{s:o,s:o,s:o,s:o}", "link", kind_json(&r->link), "model", kind_json(&r->model),
                                  "rank", kind_json(&r->rank), "feeder", kind_json(&r->feeder)));
    const struct links_traffic *t = &r->traffic;
    json_object_set_new(root, "link_per_s",
                        json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "turns", t->turns, "reads", t->reads, "sends",
                                  t->sends, "frames_in", t->frames_in, "frames_out", t->frames_out, "bytes_in",
                                  t->bytes_in, "bytes_out", t->bytes_out));
    json_object_set_new(root, "requests", json_integer((json_int_t)r->requests));
    json_object_set_new(root, "batches", json_integer((json_int_t)r->batches));
    json_object_set_new(root, "wrong", r->wrong ? json_string(r->wrong_text) : json_null());
    cli_json_print(root, JSON_REAL_PRECISION(10));
}

static void print_kind(const char *name, const struct links_kind *kind) {
    printf("  %-8s %3u  %8.1f ns %8.1f %%\n", name, kind->threads, kind->cpu_ns, 100 * kind->ran);
}

static void print_text(const struct links_result *r) {
    const struct links_traffic *t = &r->traffic;
    printf("%.0f requests/s (offered %.0f), %.0f batches/s, mean batch %.2f; all had joined after %.2f s\n",
           r->requests_per_s, r->offered_per_s, r->batches_per_s, r->batch_mean, r->joined_s);
    printf("goodput %.0f/s; bad %.3f %%: refused %.3f %%, late %.3f %%, expired %.3f %%, lost %.3f %%, not sent "
           "%.3f %%; worst of a model %.3f %% (%s)\n",
           r->goodput_per_s, 100 * r->bad_rate, 100 * r->refused_rate, 100 * r->late_rate, 100 * r->expired_rate,
           100 * r->lost_rate, 100 * r->unsent_rate, 100 * r->worst_bad_rate, r->worst_model);
    for (size_t i = 0; i < ARRAY_COUNT(refusals); i++)
        if (r->refused_rates[refusals[i].reason] > 0)
            printf("refused for %s: %.3f %%\n", refusals[i].name, 100 * r->refused_rates[refusals[i].reason]);
    printf("%-24s %8s %8s %8s\n", "times", "p50", "p99", "p99.9");
    stress_times_print("request to candidate", &r->candidate);
    stress_times_print("due to grant", &r->grant);
    stress_times_print("grant to plan", &r->plan);
    stress_times_print("decision: due to plan", &r->decision);
    stress_times_print("plan to backend", &r->way);
    puts("threads         CPU a request      ran");
    print_kind("link", &r->link);
    print_kind("model", &r->model);
    print_kind("rank", &r->rank);
    print_kind("feeder", &r->feeder);
    printf(
        "link: %.0f turns/s, %.0f reads/s, %.0f sends/s, %.0f frames/s in, %.0f out; in and out %.1f and %.1f bytes a "
        "request; %.1f requests and %.2f sends a turn\n",
        t->turns, t->reads, t->sends, t->frames_in, t->frames_out, t->bytes_in / r->requests_per_s,
        t->bytes_out / r->requests_per_s, r->requests_per_s / t->turns, t->sends / t->turns);
    printf("checked %llu requests and %llu batches: %s\n", (unsigned long long)r->requests,
           (unsigned long long)r->batches, r->wrong ? r->wrong_text : "all right");
}

int stress_links_run(const struct stress_settings *given) {
    struct stress_settings s = *given;
    struct scenario scenario;
    struct links_config config;
    struct links_result result;
    struct sy_error err;

    if (s.accelerators < 0)
        s.accelerators = STRESS_ACCELERATORS;
    int status = settings_check(&s);
    if (status != CLI_OK)
        return status;
    int rc = s.scenario ? scenario_read(s.scenario, NULL, 0, &scenario, &err) : scenario_of(&s, &scenario, &err);
    if (rc < 0) {
        fprintf(stderr, "symphony stress: %s\n", err.text);
        return CLI_FAILURE;
    }
    status = config_fill(&s, &scenario, &config);
    if (status == CLI_OK) {
        log_set_level(LOG_WARN);
        rc = links_run(&config, &result, &err);
        if (rc < 0)
            fprintf(stderr, "symphony stress: %s\n", err.text);
        else if (s.json)
            print_json(&result);
        else
            print_text(&result);
        status = rc < 0 || result.wrong ? CLI_FAILURE : CLI_OK;
    }
    scenario_free(&scenario);
    return status;
}
