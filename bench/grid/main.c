/* main.c - bench_grid: compares `deferred` with the other policies, in many clusters in virtual time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/util/container.h"
#include "grid.h"
#include "lab/report/workers.h"
#include "sched/core/central.h"
#include "sched/threads/policy_file.h"
#include "server/commands/options.h"

#define QUICK_EVERY    8 /* cells */
#define QUICK_REQUESTS 1e5
#define REQUESTS       4e5
#define CLUSTERS       48 /* drawn by default */

/* The default, then what runs beside it. Those with true are as their paper or program has them; `symphony` is the
 * preset, which has a drop of ours. */
static const struct {
    const char *text;
    bool published;
} candidates[] = {
    {"deferred", false},
    {"symphony", false},
    {"symphony:schedulable=beta_lambda,drop=timeout", true},
    {"symphony:drop=timeout", false},
    {"symphony:order=invalid_after", false},
    {"eager", false},
    {"eager:order=invalid_after", false},
    {"eager:order=invalid_after,drop=window", false},
    {"timeout", true},
    {"timeout:delay_share=0.2,batch_share=0.6", false},
    {"fifo", false},
    {"clockwork", true},
    {"clockwork:ahead_ms=0", false},
    {"nexus", true},
    {"nexus:batch=planned", false},
    {"nexus:drop=lazy", false},
    {"kairos:late=serve", true},
    {"kairos", false},
};

static const struct grid_mode *const modes[] = {&grid_goodput, &grid_losses, &grid_below, &grid_flash, &grid_flood};

void grid_cell(const struct grid *grid, uint32_t index, struct cell_cluster *cluster) {
    grid->set->make(cluster, grid->cells[index], grid->draw);
    cluster->config.seconds = grid->seconds;
    cluster->config.seed = grid->seed;
}

void grid_policy_set(const struct grid *grid, uint32_t policy, struct cell_cluster *cluster) {
    cluster->config.policy = grid->policies[policy].ops;
    cluster->config.options = grid->policies[policy].options;
}

uint32_t grid_policy_find(const struct grid *grid, const char *text) {
    for (uint32_t p = 0; p < grid->policy_count; p++)
        if (strcmp(grid->policies[p].text, text) == 0)
            return p;
    return 0;
}

/* ---- running ---- */

struct progress {
    struct grid *grid;
    const struct grid_mode *mode;
    char *results;
    struct timespec began;
    bool terminal;
};

static int piece_work(void *context, uint32_t piece) {
    struct progress *p = context;
    p->mode->work(p->grid, piece, p->results + piece * p->mode->result_bytes);
    return 0;
}

static void piece_take(void *context, uint32_t piece, int rc) {
    struct progress *p = context;
    (void)rc;
    if (p->terminal)
        fprintf(stderr, "\r\033[K");
    p->mode->show(p->grid, piece, p->results);
    fflush(stdout);
}

static void progress_tick(void *context, uint32_t done) {
    struct progress *p = context;
    struct timespec now;
    if (!p->terminal)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    fprintf(stderr, "\r\033[K%u of %u, %lld s ", done, p->mode->pieces(p->grid),
            (long long)(now.tv_sec - p->began.tv_sec));
}

/* Returns the exit status. With --json, what is shown goes to standard error. */
static int mode_run(struct grid *grid, const struct grid_mode *mode) {
    FILE *json_to = NULL;
    if (grid->json) {
        json_to = fdopen(dup(STDOUT_FILENO), "w");
        if (!json_to || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
            return 1;
    }
    struct progress progress = {.grid = grid, .mode = mode, .terminal = isatty(STDERR_FILENO)};
    uint32_t pieces = mode->pieces(grid);
    progress.results = calloc(pieces, mode->result_bytes);
    if (!progress.results) {
        fprintf(stderr, "grid: out of memory\n");
        return 1;
    }
    if (mode->begin && mode->begin(grid, progress.results) < 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &progress.began);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct workers_job job = {pieces,   cores > 0 ? (uint32_t)cores : 1, piece_work, piece_take, progress_tick,
                              &progress};
    if (workers_run(&job) != 0) {
        fprintf(stderr, "grid: no thread could be started\n");
        return 1;
    }
    if (progress.terminal)
        fprintf(stderr, "\r\033[K");
    json_t *json = json_pack("{s:s, s:s, s:I, s:I, s:f}", "mode", mode->name, "set", grid->set->name, "draw",
                             (json_int_t)grid->draw, "seed", (json_int_t)grid->seed, "seconds", grid->seconds);
    bool good = mode->summary(grid, progress.results, json);
    fflush(stdout);
    if (json_to) {
        json_dumpf(json, json_to, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        fprintf(json_to, "\n");
        fclose(json_to);
    }
    json_decref(json);
    free(progress.results);
    return good ? 0 : 1;
}

/* ---- options ---- */

struct settings {
    struct grid grid;
    const char *range;
    int64_t every, seed, random, sizes, clusters, runs; /* every, runs 0; random, sizes -1: not given */
    bool quick, family, table3;
};

static int policy_add(struct grid *grid, const char *text, struct sy_error *err) {
    if (grid->policy_count == GRID_POLICIES_MAX)
        return error_set(err, -EINVAL, "given more than %d times", GRID_POLICIES_MAX - 1);
    struct grid_policy *policy = &grid->policies[grid->policy_count];
    char named[GRID_LINE_MOST]; /* of a shared object: the policy's name in place of its path */
    int rc = policy_file_resolve(text, named, sizeof(named), err);
    rc = rc < 0 ? rc : policy_read(named, &policy->ops, &policy->options, err);
    if (rc < 0)
        return rc;
    policy->text = text;
    policy->published = false;
    for (size_t i = 0; i < ARRAY_COUNT(candidates); i++)
        policy->published |= candidates[i].published && strcmp(candidates[i].text, text) == 0;
    grid->policy_count++;
    return 0;
}

static int policy_option(const char *text, void *settings, struct sy_error *err) {
    return policy_add(&((struct settings *)settings)->grid, text, err);
}

#define S struct settings
static const struct option_row rows[] = {
    OPTION_HEADING("Clusters, instead of the grid"),
    OPTION_INT(
        S, random, "random", "SEED", 0, INT64_MAX / 2,
        "drawn: 1 to 30 models of either zoo, copies of one or mixed; 1 to 8 accelerators for every 2 models, or "
        "models for every 2 accelerators, 48 at most; SLOs of 1.8 to 7 times a lone request; Poisson, regular, or "
        "gamma 0.5, 0.3 or 0.1; equal or Zipf's popularity; drawn again unless they could answer 500 to 50,000 "
        "requests/s"),
    OPTION_INT(S, sizes, "sizes", "SEED", 0, INT64_MAX / 2,
               "drawn, too: requests of up to 1,000 items, accelerators of 1 to 4 types (cells.h)"),
    OPTION_INT(S, clusters, "clusters", "N", 1, 1000000, "how many are drawn"),
    OPTION_FLAG(S, family, "family", "those in which accelerators outnumber models"),
    OPTION_FLAG(S, table3, "table3",
                "those of the paper's table 3, so shuffled that the first of them are an even sample"),
    OPTION_TEXT(S, range, "cells", "A-B", "from cell number A to B; or one"),
    OPTION_INT(S, every, "every", "N", 1, 1000000, "every Nth of them"),
    OPTION_HEADING("Runs"),
    OPTION_FLAG(S, quick, "quick",
                "every 8th cell of the grid; 100,000 requests or 5 s to 2 % instead of 400,000 or 10 s to 1 %"),
    OPTION_PARSED("policy", "NAME[:KEY=VALUE,...]", policy_option,
                  "instead of all: these, beside deferred; a shared object's, too; may be repeated"),
    OPTION_DOUBLE(S, grid.seconds, "seconds", "S", 0.1, 1e5, "of a run, after 3 s of warm-up"),
    OPTION_DOUBLE(S, grid.requests, "requests", "N", 0, 1e9,
                  "about so many at one rate, of a search's runs together, or of each run of losses: runs then last "
                  "longer, up to 200 s; 0 if only --seconds is given"),
    OPTION_INT(
        S, runs, "runs", "N", 1, 1000,
        "at one rate, each with a seed of its own, counted together (default: 1; of losses 2): where arrivals are "
        "regular, one run says little, since it depends on how they fall together"),
    OPTION_DOUBLE(S, grid.within, "within", "X", 1e-4, 0.5, "of a search for goodput"),
    OPTION_INT(S, seed, "seed", "N", 0, INT64_MAX / 2, "of the arrivals"),
    OPTION_HEADING("Results"),
    OPTION_TEXT(
        S, grid.append, "append", "FILE.csv",
        "goodput only: every result becomes a line of FILE.csv as soon as it is there; what the file has already "
        "is taken from it, so that a run that was ended goes on"),
    OPTION_TEXT(S, grid.rates, "rates", "FILE.csv",
                "losses only: what a run of goodput appended for the same clusters"),
    OPTION_TEXT(S, grid.plot, "plot", "FILE.svg",
                "goodput only: the distribution of deferred over the others, drawn by gnuplot"),
    OPTION_FLAG(S, grid.json, "json", "the results as JSON on standard output, everything else on standard error"),
    OPTION_END,
};
#undef S

static const struct options options = {
    .command = "bench_grid",
    .usage = "[MODE] [OPTION]...",
    .intro = "Compares deferred with the other policies, in many clusters in virtual time.",
    .notes = "Modes:\n"
             "  goodput   the goodput of every policy in every cell (the default)\n"
             "  losses    bad requests at the goodput of the best other policy, from the file --rates: faster than a "
             "search\n"
             "  below     queueing and accelerator time at 10 to 70 % of each cell's peak, beside eager's\n"
             "  flash     bad requests in the 2 s after the rate steps from 10, 30, 50 to 95 % of each cell's peak, "
             "and back\n"
             "  flood     isolation: twenty models at half load, one of which rises to 25, 40, 100 times its rate",
    .status = "0 deferred is where it should be (docs/scheduling-results.md), 1 it is not, 2 bad usage",
    .rows = rows,
    .args_max = 1,
    .args_name = "MODE",
};

static int mistake(const char *what, const char *text) {
    fprintf(stderr, "grid: %s: %s\n", what, text);
    return 2;
}

/* Takes the candidates that make sense in the set. */
static void policies_all(struct grid *grid) {
    struct sy_error err;
    for (size_t i = 1; i < ARRAY_COUNT(candidates); i++) {
        policy_add(grid, candidates[i].text, &err);
        const struct central_ops *central = grid->policies[grid->policy_count - 1].ops->central;
        if (central && central->needs_types && !grid->set->several_types)
            grid->policy_count--;
    }
}

static int cells_choose(struct grid *grid, const char *range, uint32_t every, uint32_t drawn) {
    uint32_t count = grid->set->count ? grid->set->count() : drawn, first = 0, last = count - 1;
    char end;
    if (range && sscanf(range, "%u-%u%c", &first, &last, &end) != 2) {
        if (sscanf(range, "%u%c", &first, &end) != 1)
            return mistake("--cells", "expected A-B, or one number");
        last = first;
    }
    if (first > last || last >= count)
        return mistake("--cells", "there are no such cells");
    grid->cells = calloc(last - first + 1, sizeof(*grid->cells));
    if (!grid->cells)
        return mistake("--cells", "out of memory");
    for (uint32_t cell = first; cell <= last; cell += every)
        grid->cells[grid->cell_count++] = cell;
    return 0;
}

int main(int argc, char **argv) {
    struct settings s = {.grid.requests = -1, .seed = 1, .random = -1, .sizes = -1, .clusters = CLUSTERS};
    struct grid *grid = &s.grid;
    struct sy_error err;
    policy_add(grid, candidates[0].text, &err);
    int arguments, status = options_parse(&options, argc, argv, &s, &arguments);
    if (status != OPTIONS_GO_ON)
        return status;
    const struct grid_mode *mode = arguments ? NULL : &grid_goodput;
    for (size_t i = 0; arguments && i < ARRAY_COUNT(modes); i++)
        mode = strcmp(argv[1], modes[i]->name) == 0 ? modes[i] : mode;
    if (!mode)
        return mistake(argv[1], "there is no such mode");
    if ((s.random >= 0) + (s.sizes >= 0) + s.family + s.table3 > 1)
        return mistake("--random, --sizes, --family, --table3", "they exclude each other");
    if (mode != &grid_goodput && (grid->append || grid->plot))
        return mistake(mode->name, "--append and --plot are for goodput");
    if (mode != &grid_losses && grid->rates)
        return mistake(mode->name, "--rates is for losses");
    grid->set = s.random >= 0  ? &cells_random
                : s.sizes >= 0 ? &cells_sizes
                : s.family     ? &cells_family
                : s.table3     ? &cells_table3
                               : &cells_grid;
    grid->seed = (uint64_t)s.seed;
    grid->draw = (uint64_t)(s.random >= 0 ? s.random : s.sizes >= 0 ? s.sizes : 0);
    grid->runs = s.runs ? (uint32_t)s.runs : mode == &grid_losses ? 2 : 1;
    grid->requests = grid->requests >= 0 ? grid->requests : grid->seconds > 0 ? 0 : s.quick ? QUICK_REQUESTS : REQUESTS;
    grid->seconds = grid->seconds > 0 ? grid->seconds : s.quick ? 5 : 10;
    grid->within = grid->within > 0 ? grid->within : s.quick ? 0.02 : 0.01;
    if (grid->policy_count == 1)
        policies_all(grid);
    if (!s.every)
        s.every = s.quick && !s.range && grid->set == &cells_grid ? QUICK_EVERY : 1;
    status = cells_choose(grid, s.range, (uint32_t)s.every, (uint32_t)s.clusters);
    if (status)
        return status;
    if ((mode == &grid_below || mode == &grid_flash) && grid_policy_find(grid, "eager") == 0)
        policy_add(grid, "eager", &err);
    status = mode_run(grid, mode);
    free(grid->cells);
    return status;
}
