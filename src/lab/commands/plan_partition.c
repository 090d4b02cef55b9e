/* plan_partition.c - `symphony plan partition`: which models share a sub-cluster. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/time.h"
#include "lab/commands/plan.h"
#include "lab/planfile/partition_file.h"
#include "sched/plan/partition_bound.h"
#include "sched/plan/partition_names.h"
#include "server/commands/options.h"

#define CHUNK      2000 /* steps between two looks at the clock: some 0.1 ms */
#define PROVEN_S   0.1  /* time, where there is provably no plan, to find the plan that exceeds the limits least */
#define REASON_MAX 512

struct settings {
    double time_limit;
    int64_t seed;
    bool json;
};

static const struct option_row rows[] = {
    OPTION_DOUBLE(struct settings, time_limit, "time-limit", "S", 0, 86400,
                  "seconds that may be spent; the search ends sooner when nothing gets better any more"),
    OPTION_INT(struct settings, seed, "seed", "N", 0, INT64_MAX / 2, "of the search: the same seed takes the same way"),
    OPTION_FLAG(struct settings, json, "json", "machine-readable plan on standard output"),
    OPTION_END,
};

static const struct options options = {
    .command = "plan partition",
    .usage = "FILE.yaml [OPTION]...",
    .intro = "Assigns each model to one sub-cluster, such that request rates and static memory are spread evenly and\n"
             "limits are kept (Symphony, arXiv 2308.07470, appendix A). The search is good after milliseconds and\n"
             "better after more.",
    .notes = "A file:\n"
             "  subclusters: 20\n"
             "  max_rate_rps: 50000        # of a sub-cluster; optional, as all limits\n"
             "  max_memory_mb: 16000       # static memory of all its models, and dynamic memory of the largest\n"
             "  memory_weight: 1           # minimized is delta_rate + memory_weight * delta_memory\n"
             "  max_move_cost: 10          # of all models that are moved together\n"
             "  models:\n"
             "    - {name: a, rate_rps: 120, static_mb: 98, dynamic_mb: 40, current: 3, move_cost: 1}\n"
             "    - {name: b, rate_rps: 7, static_mb: 420}",
    .status = "0 there is a plan, 1 none was found, 2 bad usage or input",
    .rows = rows,
    .args_min = 1,
    .args_max = 1,
    .args_name = "FILE.yaml",
};

/* ---- why there is none ---- */

static const char *limit_name(enum partition_limit limit) {
    return limit == PARTITION_RATE ? "max_rate_rps" : "max_memory_mb";
}

static void bound_say(const struct partition_file *file, const struct partition_bound *b, char *to) {
    const char *unit = b->limit == PARTITION_RATE ? "requests/s" : "MB", *name = limit_name(b->limit);
    double over = b->need - b->have;
    if (b->proof == PARTITION_MODEL)
        snprintf(to, REASON_MAX, "%s: model '%s' alone takes %.10g %s of %.10g: %.6g too many", name,
                 file->names[b->model], b->need, unit, b->have, over);
    else if (b->proof == PARTITION_SUM && b->limit == PARTITION_MEMORY)
        snprintf(to, REASON_MAX,
                 "%s: the %u models with the most dynamic memory take %.10g MB with it, of %.10g: %.6g too many", name,
                 b->count, b->need, b->have, over);
    else if (b->proof == PARTITION_SUM)
        snprintf(to, REASON_MAX, "%s: all models together take %.10g %s of %.10g: %.6g too many", name, b->need, unit,
                 b->have, over);
    else
        snprintf(to, REASON_MAX,
                 "%s: of the %u largest models %u must share a sub-cluster, and take %.10g %s of %.10g: %.6g too many",
                 name, b->count, b->together, b->need, unit, b->have, over);
}

static void found_say(const struct partition_file *file, const struct partition_answer *a, char *to) {
    if (a->over_rate > 0 || a->over_memory_mb > 0) {
        bool rate = a->over_rate > 0;
        int length =
            snprintf(to, REASON_MAX, "%s: no assignment was found that keeps it; the best has %.6g %s too many in all",
                     limit_name(rate ? PARTITION_RATE : PARTITION_MEMORY), rate ? a->over_rate : a->over_memory_mb,
                     rate ? "requests/s" : "MB");
        if (rate && a->over_memory_mb > 0)
            snprintf(to + length, REASON_MAX - (size_t)length, ", and %.6g MB of max_memory_mb", a->over_memory_mb);
    } else {
        snprintf(to, REASON_MAX,
                 "max_move_cost: the cheapest assignment found that keeps the other limits costs %.10g of %.10g: %.6g "
                 "too many",
                 a->moved_cost, file->problem.max_move_cost, a->over_moves);
    }
}

/* ---- the answer ---- */

struct plan {
    const struct partition_file *file;
    struct partition_answer answer;
    double seconds;
    char reason[REASON_MAX]; /* why the plan is not feasible; empty: it is */
};

static void plan_json(const struct plan *plan) {
    const struct partition_answer *a = &plan->answer;
    json_t *assignment = json_object();
    for (uint32_t i = 0; i < plan->file->problem.models; i++)
        json_object_set_new(assignment, plan->file->names[i], json_integer(a->subcluster[i]));
    json_t *all = json_pack("{s:b, s:o, s:f, s:f, s:f, s:f, s:i, s:f, s:o}", "feasible", !plan->reason[0], "reason",
                            plan->reason[0] ? json_string(plan->reason) : json_null(), "objective", a->objective,
                            "delta_rate", a->delta_rate, "delta_memory", a->delta_memory, "moved_cost", a->moved_cost,
                            "moved", (int)a->moved, "seconds", plan->seconds, "assignment", assignment);
    cli_json_print(all, JSON_REAL_PRECISION(12));
}

static void plan_table(const struct plan *plan) {
    const struct partition_problem *p = &plan->file->problem;
    const struct partition_answer *a = &plan->answer;
    printf("%-11s %7s %14s %12s %12s\n", "SUB-CLUSTER", "models", "requests/s", "static MB", "dynamic MB");
    for (uint32_t j = 0; j < p->subclusters; j++) {
        uint32_t count = 0;
        double rate = 0, memory = 0, dynamic = 0;
        for (uint32_t i = 0; i < p->models; i++) {
            if (a->subcluster[i] != j)
                continue;
            count++;
            rate += p->model[i].rate;
            memory += p->model[i].static_mb;
            dynamic = fmax(dynamic, p->model[i].dynamic_mb);
        }
        printf("%-11u %7u %14.2f %12.2f %12.2f\n", j, count, rate, memory, dynamic);
    }
    printf("\nobjective %.6g: rates differ from their mean by %.4g %% at most, static memory by %.4g %%; %.3f s\n",
           a->objective, 100 * a->delta_rate, 100 * a->delta_memory, plan->seconds);
    printf("%u model%s, at a cost of %.6g (--json says which model is where)\n", a->moved,
           a->moved == 1 ? " moves" : "s move", a->moved_cost);
    if (plan->reason[0])
        printf("this is no plan: %s\n", plan->reason);
}

struct memory {
    double *bound;
    void *search, *names;
    uint32_t *subcluster;
};

static void plan_make(struct plan *plan, const struct settings *s, const struct memory *memory) {
    const struct partition_problem *p = &plan->file->problem;
    int64_t begun_ns = clock_now_ns(), until_ns = begun_ns + (int64_t)(s->time_limit * NS_PER_S),
            proven_ns = begun_ns + (int64_t)(PROVEN_S * NS_PER_S);
    struct partition_bound bound = partition_bound(p, memory->bound);
    if (bound.limit != PARTITION_NO_LIMIT && proven_ns < until_ns)
        until_ns = proven_ns;
    struct partition *search = partition_begin(memory->search, p, (uint64_t)s->seed);
    while (clock_now_ns() < until_ns && partition_search(search, CHUNK))
        ;
    plan->answer = partition_best(search);
    /* numbers sub-clusters such that few models move */
    uint32_t *subcluster = memory->subcluster;
    struct partition_answer *a = &plan->answer;
    memcpy(subcluster, a->subcluster, p->models * sizeof(*subcluster));
    partition_names_choose(p, memory->names, subcluster);
    a->subcluster = subcluster;
    partition_moves(p, subcluster, a);
    plan->seconds = (double)(clock_now_ns() - begun_ns) / NS_PER_S;
    if (bound.limit != PARTITION_NO_LIMIT)
        bound_say(plan->file, &bound, plan->reason);
    else if (a->over_rate > 0 || a->over_memory_mb > 0 || a->over_moves > 0)
        found_say(plan->file, a, plan->reason);
}

static int partition_run(int argc, char **argv) {
    struct settings s = {.time_limit = 1, .seed = 1};
    struct sy_error err;
    struct partition_file file;
    struct conf_node *document;
    int args_count, status = options_parse(&options, argc, argv, &s, &args_count);
    if (status != OPTIONS_GO_ON)
        return status;
    if (conf_read_large_file(argv[1], &document, &err) || partition_file_read(document, &file, &err)) {
        fprintf(stderr, "symphony plan partition: %s\n", err.text);
        return CLI_USAGE;
    }
    const struct partition_problem *p = &file.problem;
    struct plan plan = {.file = &file};
    struct memory memory = {
        .bound = malloc((2 * (size_t)p->models + 1) * sizeof(*memory.bound)),
        .search = malloc(partition_bytes(p)),
        .names = malloc(partition_names_bytes(p)),
        .subcluster = malloc(p->models * sizeof(*memory.subcluster)),
    };
    bool enough = memory.bound && memory.search && memory.names && memory.subcluster;
    if (enough) {
        plan_make(&plan, &s, &memory);
        if (s.json)
            plan_json(&plan);
        else
            plan_table(&plan);
    } else {
        fprintf(stderr, "symphony plan partition: %s: out of memory\n", argv[1]);
    }
    free(memory.bound);
    free(memory.search);
    free(memory.names);
    free(memory.subcluster);
    partition_file_free(&file);
    return enough && !plan.reason[0] ? CLI_OK : CLI_FAILURE;
}

const struct cli_command plan_partition = {
    .name = "plan partition",
    .summary = "models onto sub-clusters, evenly and within limits (Symphony)",
    .run = partition_run,
};
