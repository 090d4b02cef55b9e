/* plan_squishy.c - `symphony plan squishy`: finds the number of GPUs that sessions need, and the sessions that share a
 * GPU. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "lab/commands/plan.h"
#include "lab/planfile/squishy_file.h"
#include "sched/plan/squishy_fit.h"
#include "server/commands/options.h"

struct settings {
    bool json, whole;
};

static const struct option_row rows[] = {
    OPTION_FLAG(struct settings, whole, "whole", "sessions with the same prefix do not share it"),
    OPTION_FLAG(struct settings, json, "json", "machine-readable plan on standard output"),
    OPTION_END,
};

static const struct options options = {
    .command = "plan squishy",
    .usage = "FILE.yaml [OPTION]...",
    .intro = "Packs sessions (a model, its SLO and its rate) onto as few GPUs as it can by squishy bin packing\n"
             "(Nexus, SOSP 2019, section 6.1): batch sizes, duty cycles, and which sessions share a GPU.",
    .notes = "A file:\n"
             "  gpus: 4                    # optional; spare ones become room to grow\n"
             "  sessions:\n"
             "    - {name: A, rate_rps: 64, slo_ms: 200, latency_ms: [[4, 50], [8, 75], [16, 100]]}\n"
             "    - {name: B, rate_rps: 500, slo_ms: 25, alpha_ms: 1.053, beta_ms: 5.072}\n"
             "    - {name: ResNet50, zoo: gtx1080ti, rate_rps: 300}\n"
             "    - {name: C, prefix: P, rate_rps: 9, slo_ms: 99, alpha_ms: 0.01, beta_ms: 0.1}   # behind P\n"
             "  prefixes:                  # optional; sessions that have one and the same SLO share batches\n"
             "    - {name: P, alpha_ms: 1, beta_ms: 5}",
    .status = "0 everything fits, 1 something does not, 2 bad usage or input",
    .rows = rows,
    .args_min = 1,
    .args_max = 1,
    .args_name = "FILE.yaml",
};

/* The question and its answer. */
struct answer {
    const struct squishy_file *input;
    struct squishy_fit fit;
    double scale; /* factor of the rates for which the plan is */
    bool all;     /* whether every session has its GPUs */
};

/* The multiple of the session's rate for which the GPUs have room; 1: the rate and no more. */
static double room(const struct answer *a) {
    return a->scale > 1 ? a->scale : 1;
}

/* The rate of a session that the GPUs do not serve. A plan for a part of the rates leaves out the rest of each rate. */
static double missing_rps(const struct answer *a, uint32_t session) {
    double left_out = a->scale > 0 && a->scale < 1 ? 1 - a->scale : 0;
    return left_out * a->input->sessions[session].rate +
           squishy_missing(&a->fit.plan, a->input->sessions, session) / room(a);
}

/* Items per second of a session that come to a GPU: with room to grow, without what may still come. */
static double rate_on(const struct answer *a, uint32_t gpu, uint32_t session) {
    return squishy_rate(&a->fit.plan, a->input->sessions, gpu, session) / room(a);
}

/* Why a session has no GPU, or too few; NULL: it has enough. */
static const char *reason(const struct answer *a, uint32_t session) {
    const struct squishy_session *s = &a->input->sessions[session];
    if (missing_rps(a, session) <= 0)
        return NULL;
    if (a->input->memory_bytes && s->weights_bytes > a->input->memory_bytes)
        return "its weights are larger than a GPU's memory";
    if (squishy_batch_full(s))
        return "there are not enough GPUs";
    return s->profile->latency_ns[1] > s->slo_ns ? "a single item takes longer than its SLO"
                                                 : "two runs of a single item take longer than its SLO";
}

/* ---- JSON ---- */

static json_t *gpu_json(const struct answer *a, uint32_t g) {
    const struct squishy_gpu *gpu = &a->fit.plan.gpus[g];
    json_t *sessions = json_array();
    for (uint32_t s = 0; s < a->input->count; s++) {
        if (!squishy_on(&a->fit.plan, g, s))
            continue;
        uint32_t b = squishy_batch(&a->fit.plan, g, s);
        json_array_append_new(sessions,
                              json_pack("{s:s, s:i, s:f, s:f}", "session", a->input->names[s], "batch", (int)b,
                                        "latency_ms", (double)a->input->sessions[s].profile->latency_ns[b] / 1e6,
                                        "rate_rps", rate_on(a, g, s)));
    }
    return json_pack("{s:i, s:f, s:f, s:b, s:o}", "gpu", (int)g, "duty_cycle_ms", (double)gpu->duty_ns / 1e6,
                     "occupancy", gpu->occupancy, "saturated", gpu->saturated != SQUISHY_NONE, "sessions", sessions);
}

/* Sessions that stand for several of the file's. */
static json_t *shared_json(const struct squishy_file *input) {
    json_t *shared = json_array();
    for (uint32_t s = 0; s < input->count; s++) {
        const struct squishy_members *members = &input->members[s];
        if (members->count == 1)
            continue;
        json_t *names = json_array();
        for (uint32_t m = 0; m < members->count; m++)
            json_array_append_new(names, json_string(members->names[m]));
        json_array_append_new(shared,
                              json_pack("{s:s, s:o, s:f}", "session", input->names[s], "sessions", names, "weights_mib",
                                        (double)input->sessions[s].weights_bytes / (1024.0 * 1024)));
    }
    return shared;
}

static void answer_json(const struct answer *a) {
    json_t *gpus = json_array(), *missing = json_array();
    for (uint32_t g = 0; g < a->fit.plan.gpus_max; g++)
        if (a->fit.plan.gpus[g].occupancy > 0)
            json_array_append_new(gpus, gpu_json(a, g));
    for (uint32_t s = 0; s < a->input->count; s++)
        if (reason(a, s))
            json_array_append_new(missing, json_pack("{s:s, s:f, s:s}", "session", a->input->names[s], "rate_rps",
                                                     missing_rps(a, s), "reason", reason(a, s)));
    json_t *all = json_pack("{s:i, s:f, s:o, s:o, s:o}", "gpus_used", (int)squishy_gpus_used(&a->fit.plan), "scale",
                            a->scale, "gpus", gpus, "missing", missing, "shared", shared_json(a->input));
    cli_json_print(all, JSON_REAL_PRECISION(12));
}

/* ---- table ---- */

/* Whether two GPUs have the same single session at its best batch: such GPUs share a row. */
static bool same_row(const struct answer *a, uint32_t g, uint32_t with) {
    const struct squishy_gpu *gpus = a->fit.plan.gpus;
    return with < a->fit.plan.gpus_max && gpus[g].saturated != SQUISHY_NONE &&
           gpus[with].saturated == gpus[g].saturated;
}

static void answer_table(const struct answer *a) {
    int width = 7;
    for (uint32_t s = 0; s < a->input->count; s++)
        if ((int)strlen(a->input->names[s]) > width)
            width = (int)strlen(a->input->names[s]);
    printf("%-9s %-*s %6s %11s %10s %13s %11s\n", "GPU", width, "session", "batch", "latency ms", "items/s",
           "duty cycle ms", "occupancy");
    for (uint32_t g = 0, last; g < a->fit.plan.gpus_max; g = last + 1) {
        for (last = g; same_row(a, g, last + 1); last++)
            ;
        if (a->fit.plan.gpus[g].occupancy > 0) {
            const struct squishy_gpu *gpu = &a->fit.plan.gpus[g];
            char number[32];
            snprintf(number, sizeof(number), g == last ? "%u" : "%u-%u", g, last);
            bool again = false;
            for (uint32_t s = 0; s < a->input->count; s++) {
                if (!squishy_on(&a->fit.plan, g, s))
                    continue;
                uint32_t b = squishy_batch(&a->fit.plan, g, s);
                printf("%-9s %-*s %6u %11.3f %10.1f", again ? "" : number, width, a->input->names[s], b,
                       (double)a->input->sessions[s].profile->latency_ns[b] / 1e6, rate_on(a, g, s));
                if (again)
                    putchar('\n');
                else
                    printf(" %13.3f %9.1f %%\n", (double)gpu->duty_ns / 1e6, 100 * gpu->occupancy);
                again = true;
            }
        }
    }
    uint32_t used = squishy_gpus_used(&a->fit.plan);
    printf("\n%u GPU%s", used, used == 1 ? "" : "s");
    if (a->input->gpus)
        printf(" of %u", a->input->gpus);
    if (a->input->gpus && a->scale > 0)
        printf("; planned for %.2f times the rates", a->scale);
    putchar('\n');
    for (uint32_t s = 0; s < a->input->count; s++)
        if (reason(a, s))
            printf("%s: no GPU for %.1f of its %.1f items/s: %s\n", a->input->names[s], missing_rps(a, s),
                   a->input->sessions[s].rate, reason(a, s));
}

/* ---- the plan ---- */

/* Without a number of GPUs the plan takes as few as Algorithm 1 does. With one it serves the largest multiple of the
 * rates. */
static void answer_find(struct answer *a, uint32_t gpus, void *memory) {
    bool any = false;
    for (uint32_t s = 0; s < a->input->count && !any; s++)
        any = a->input->sessions[s].rate > 0;
    squishy_fit_init(&a->fit, memory, gpus, a->input->count, a->input->memory_bytes);
    a->scale = 1;
    if (a->input->gpus && any) /* any multiple of nothing fits */
        a->scale = squishy_fit_update(&a->fit, a->input->sessions);
    else
        squishy_update(&a->fit.plan, a->input->sessions, 1);
    a->all = a->scale >= 1;
    for (uint32_t s = 0; s < a->input->count; s++)
        a->all &= !reason(a, s);
}

static int squishy_run(int argc, char **argv) {
    struct settings s = {.json = false, .whole = false};
    struct sy_error err;
    struct squishy_file input;
    struct conf_node *document;
    int args_count, status = options_parse(&options, argc, argv, &s, &args_count);
    if (status != OPTIONS_GO_ON)
        return status;
    if (conf_read_large_file(argv[1], &document, &err) || squishy_file_read(document, s.whole, &input, &err)) {
        fprintf(stderr, "symphony plan squishy: %s\n", err.text);
        return CLI_USAGE;
    }
    uint64_t most = squishy_gpus_most(input.sessions, input.count);
    if (!input.gpus && most > SQUISHY_FILE_GPUS_MAX) {
        fprintf(stderr, "symphony plan squishy: %s: the rates need more than %d GPUs\n", argv[1],
                SQUISHY_FILE_GPUS_MAX);
        squishy_file_free(&input);
        return CLI_FAILURE;
    }
    uint32_t gpus = input.gpus ? input.gpus : (uint32_t)most;
    struct answer answer = {.input = &input};
    void *memory = malloc(squishy_fit_bytes(gpus, input.count));
    if (!memory) {
        fprintf(stderr, "symphony plan squishy: %s: out of memory for %u GPUs\n", argv[1], gpus);
        squishy_file_free(&input);
        return CLI_FAILURE;
    }
    answer_find(&answer, gpus, memory);
    if (s.json)
        answer_json(&answer);
    else
        answer_table(&answer);
    free(memory);
    squishy_file_free(&input);
    return answer.all ? CLI_OK : CLI_FAILURE;
}

const struct cli_command plan_squishy = {
    .name = "plan squishy",
    .summary = "sessions onto GPUs: batch sizes, duty cycles, how many GPUs (Nexus)",
    .run = squishy_run,
};
