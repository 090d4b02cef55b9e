/* plan_split.c - `symphony plan split`: a query's SLO, divided among its stages. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/time.h"
#include "lab/commands/plan.h"
#include "lab/planfile/split_file.h"
#include "server/commands/options.h"

struct settings {
    bool json;
};

static const struct option_row rows[] = {
    OPTION_FLAG(struct settings, json, "json", "machine-readable plan on standard output"),
    OPTION_END,
};

static const struct options options = {
    .command = "plan split",
    .usage = "FILE.yaml [OPTION]...",
    .intro = "Divides the SLO of a query of several models among its stages, so that they take the fewest GPUs\n"
             "(Nexus, SOSP 2019, section 6.2), says what even parts would take, and the parts for deadlines that\n"
             "float, in which a batch also has time to gather.",
    .notes =
        "A file:\n"
        "  slo_ms: 400\n"
        "  rate_rps: 100              # queries\n"
        "  turns: 1                   # times a batch's latency that an item may take; 2: it may just miss a batch\n"
        "  stages:                    # each behind those that it comes after\n"
        "    - {name: detect, alpha_ms: 20, beta_ms: 27}\n"
        "    - {name: car, after: [detect], items: 2.5, latency_ms: [[1, 4.2], [16, 20]]}\n"
        "    - {name: face, after: [detect], items: 0.4, zoo: gtx1080ti, model: VGG16}",
    .status = "0 there is a plan, 1 there is none, 2 bad usage or input",
    .rows = rows,
    .args_min = 1,
    .args_max = 1,
    .args_name = "FILE.yaml",
};

struct answer {
    const struct split_file *file;
    struct split_part best[SPLIT_STAGES_MAX], even[SPLIT_STAGES_MAX], gathering[SPLIT_STAGES_MAX];
    bool found; /* whether `best` and `gathering` have parts */
};

/* ---- JSON ---- */

static double batch_ms(const struct answer *a, uint32_t v, const struct split_part *part) {
    return part->batch ? (double)a->file->stages[v].profile->latency_ns[part->batch] / NS_PER_MS : 0;
}

static uint32_t batch_most(const struct answer *a, uint32_t v) {
    return split_batch_most(&a->file->stages[v], a->gathering[v].budget_ns);
}

/* null: there is no such number of GPUs. */
static json_t *gpus_json(double gpus) {
    return isinf(gpus) ? json_null() : json_real(gpus);
}

static json_t *parts_json(const struct answer *a, const struct split_part *parts) {
    json_t *list = json_array();
    for (uint32_t v = 0; v < a->file->count; v++)
        json_array_append_new(list,
                              json_pack("{s:s, s:f, s:f, s:i, s:f, s:o}", "stage", a->file->names[v], "rate_rps",
                                        a->file->stages[v].rate, "part_ms", (double)parts[v].budget_ns / NS_PER_MS,
                                        "batch", (int)parts[v].batch, "latency_ms", batch_ms(a, v, &parts[v]), "gpus",
                                        gpus_json(parts[v].gpus)));
    return json_pack("{s:o, s:o}", "gpus", gpus_json(split_gpus(parts, a->file->count)), "stages", list);
}

/* ---- table ---- */

static void part_print(const struct answer *a, uint32_t v, const struct split_part *part) {
    printf(" %9.3f", (double)part->budget_ns / NS_PER_MS);
    if (part->batch)
        printf(" %6u %11.3f %8.3f", part->batch, batch_ms(a, v, part), part->gpus);
    else
        printf(" %6s %11s %8s", "none", "-", "-");
}

static void answer_table(const struct answer *a) {
    int width = 9;
    for (uint32_t v = 0; v < a->file->count; v++)
        if ((int)strlen(a->file->names[v]) > width)
            width = (int)strlen(a->file->names[v]);
    printf("%-*s %10s %9s %6s %11s %8s   %9s %6s %11s %8s\n", width, "STAGE", "items/s", "part ms", "batch",
           "latency ms", "GPUs", "even ms", "batch", "latency ms", "GPUs");
    for (uint32_t v = 0; v < a->file->count; v++) {
        printf("%-*s %10.1f", width, a->file->names[v], a->file->stages[v].rate);
        part_print(a, v, a->found ? &a->best[v] : &(struct split_part){0});
        fputs("  ", stdout);
        part_print(a, v, &a->even[v]);
        putchar('\n');
    }
    double best = split_gpus(a->best, a->file->count), even = split_gpus(a->even, a->file->count);
    if (!a->found) {
        puts("\nthis is no plan: single items, one after the other, take longer than the SLO");
        return;
    }
    printf("\n%.3f GPUs", best);
    if (isinf(even))
        puts("; in even parts some stage cannot run a single item in time");
    else
        printf("; in even parts %.3f, %.1f %% more\n", even, best > 0 ? 100 * (even / best - 1) : 0);
    printf("\n%-*s %10s %9s %6s %11s %8s %8s\n", width, "GATHERING", "items/s", "part ms", "batch", "latency ms",
           "GPUs", "at most");
    for (uint32_t v = 0; v < a->file->count; v++) {
        printf("%-*s %10.1f", width, a->file->names[v], a->file->stages[v].rate);
        part_print(a, v, &a->gathering[v]);
        printf(" %8u\n", batch_most(a, v));
    }
    printf("\n%.3f GPUs with batches that gather\n", split_gpus(a->gathering, a->file->count));
}

static int split_run(int argc, char **argv) {
    struct settings s = {.json = false};
    struct sy_error err;
    struct split_file file;
    struct conf_node *document;
    int args_count, status = options_parse(&options, argc, argv, &s, &args_count);
    if (status != OPTIONS_GO_ON)
        return status;
    if (conf_read_file(argv[1], &document, &err) || split_file_read(document, &file, &err)) {
        fprintf(stderr, "symphony plan split: %s\n", err.text);
        return CLI_USAGE;
    }
    struct answer answer = {.file = &file};
    void *memory = malloc(split_bytes(file.count));
    if (!memory) {
        fprintf(stderr, "symphony plan split: %s: out of memory\n", argv[1]);
        split_file_free(&file);
        return CLI_FAILURE;
    }
    answer.found = split_best(file.stages, file.count, file.slo_ns, memory, answer.best);
    /* the same for batches that gather at the file's rate */
    struct split_stage stages[SPLIT_STAGES_MAX];
    int64_t least_ns[SPLIT_STAGES_MAX];
    for (uint32_t v = 0; v < file.count; v++) {
        stages[v] = file.stages[v];
        stages[v].gathers = stages[v].rate > 0;
        least_ns[v] = stages[v].profile->latency_ns[1];
    }
    split_best(stages, file.count, file.slo_ns, memory, answer.gathering);
    split_share(stages, file.count, file.slo_ns, least_ns, answer.gathering);
    split_even(file.stages, file.count, file.slo_ns, answer.even);
    if (s.json) {
        json_t *gathering = answer.found ? parts_json(&answer, answer.gathering) : json_null();
        for (uint32_t v = 0; answer.found && v < answer.file->count; v++)
            json_object_set_new(json_array_get(json_object_get(gathering, "stages"), v), "batch_most",
                                json_integer(batch_most(&answer, v)));
        json_t *all = json_pack("{s:b, s:f, s:f, s:o, s:o, s:o}", "feasible", answer.found, "slo_ms",
                                (double)answer.file->slo_ns / NS_PER_MS, "rate_rps", answer.file->rate_rps, "best",
                                answer.found ? parts_json(&answer, answer.best) : json_null(), "gathering", gathering,
                                "even", parts_json(&answer, answer.even));
        cli_json_print(all, JSON_REAL_PRECISION(12));
    } else {
        answer_table(&answer);
    }
    free(memory);
    split_file_free(&file);
    return answer.found ? CLI_OK : CLI_FAILURE;
}

const struct cli_command plan_split = {
    .name = "plan split",
    .summary = "a query's SLO among its stages (Nexus)",
    .run = split_run,
};
