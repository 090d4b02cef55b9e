/* main.c - bench_grid: compares `deferred` with the other policies, in many clusters in virtual time. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "grid.h"
#include "lab/report/workers.h"
#include "sched/core/central.h"
#include "sched/threads/policy_file.h"

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

static int usage(FILE *to, int code) {
    fprintf(to, "usage: bench_grid [MODE] [--random SEED | --sizes SEED [--clusters N] | --family | --table3] [--quick] [--cells A-B] "
                "[--every N]\n"
                "                  [--policy NAME[:KEY=VALUE,...]]... [--requests N] [--runs N] [--seconds S] "
                "[--within X] [--seed N]\n"
                "                  [--json] [--append FILE.csv] [--plot FILE.svg] [--rates FILE.csv]\n");
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        fprintf(to, "  %-10s %s%s\n", modes[i]->name, modes[i]->help, i ? "" : " (the default)");
    fprintf(to,
            "Clusters:\n"
            "  without one of these, the grid: %u cells\n"
            "  --random   clusters drawn from SEED, --clusters of them (%u): 1 to 30 models of either zoo, copies of "
            "one\n"
            "             or mixed; 1 to 8 accelerators for every 2 models, or models for every 2 accelerators, 48 at "
            "most;\n"
            "             SLOs of 1.8 to 7 times a lone request; Poisson, regular, or gamma 0.5, 0.3 or 0.1; equal or "
            "Zipf's\n"
            "             popularity; drawn again unless they could answer 500 to 50,000 requests/s\n"
            "  --sizes    drawn from SEED, too: requests of up to 1,000 items, accelerators of 1 to 4 types (cells.h)\n"
            "  --family   %u clusters in which accelerators outnumber models\n"
            "  --table3   the %u of the paper's table 3, so shuffled that the first of them are an even sample\n"
            "  --cells    from cell number A to B; --every: every Nth of them\n"
            "Runs:\n"
            "  --quick    every %dth cell of the grid; %g requests or 5 s to 2 %% instead of %g or 10 s to 1 %%\n"
            "  --policy   instead of all: these, beside deferred; a shared object's, too; may be repeated\n"
            "  --seconds  of a run, after 3 s of warm-up\n"
            "  --requests about so many at one rate, of a search's runs together, or of each run of losses: runs then "
            "last\n"
            "             longer, up to 200 s; 0 if only --seconds is given\n"
            "  --runs     at one rate, each with a seed of its own, counted together (1; of losses 2): where arrivals are\n"
            "             regular, one run says little, since it depends on how they fall together\n"
            "  --within   of a search for goodput\n"
            "Results:\n"
            "  --append   goodput only: every result becomes a line of FILE.csv as soon as it is there; what the file "
            "has\n"
            "             already is taken from it, so that a run that was ended goes on\n"
            "  --rates    losses only: what a run of goodput appended for the same clusters\n"
            "  --plot     goodput only: the distribution of deferred over the others, drawn by gnuplot\n"
            "  --json     the results as JSON on standard output, everything else on standard error\n"
            "Exits 1 if deferred is not where it should be: see docs/scheduling-results.md.\n",
            cells_grid.count(), CLUSTERS, cells_family.count(), cells_table3.count(), QUICK_EVERY, QUICK_REQUESTS,
            REQUESTS);
    return code;
}

static int mistake(const char *what, const char *text) {
    fprintf(stderr, "grid: %s: %s\n", what, text);
    return 2;
}

static int policy_add(struct grid *grid, const char *text) {
    struct sy_error err;
    if (grid->policy_count == GRID_POLICIES_MAX)
        return mistake("--policy", "too many");
    struct grid_policy *policy = &grid->policies[grid->policy_count];
    char named[GRID_LINE_MOST]; /* of a shared object: the policy's name in place of its path */
    if (policy_file_resolve(text, named, sizeof(named), &err) < 0 ||
        policy_read(named, &policy->ops, &policy->options, &err) < 0)
        return mistake("--policy", err.text);
    policy->text = text;
    policy->published = false;
    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++)
        policy->published |= candidates[i].published && strcmp(candidates[i].text, text) == 0;
    grid->policy_count++;
    return 0;
}

/* Takes the candidates that make sense in the set. */
static int policies_all(struct grid *grid) {
    int rc = 0;
    for (size_t i = 1; i < sizeof(candidates) / sizeof(candidates[0]) && !rc; i++) {
        rc = policy_add(grid, candidates[i].text);
        const struct central_ops *central = rc ? NULL : grid->policies[grid->policy_count - 1].ops->central;
        if (central && central->needs_types && !grid->set->several_types)
            grid->policy_count--;
    }
    return rc;
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

static int number_read(const char *name, const char *text, double least, double most, double *value) {
    char *end;
    *value = strtod(text, &end);
    if (end != text && !*end && *value >= least && *value <= most)
        return 0;
    return mistake(name, "not a number that makes sense");
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"quick", no_argument, NULL, 'q'},
        {"cells", required_argument, NULL, 'c'},
        {"every", required_argument, NULL, 'e'},
        {"policy", required_argument, NULL, 'p'},
        {"seed", required_argument, NULL, 's'},
        {"seconds", required_argument, NULL, 't'},
        {"within", required_argument, NULL, 'w'},
        {"json", no_argument, NULL, 'j'},
        {"requests", required_argument, NULL, 'r'},
        {"runs", required_argument, NULL, 'n'},
        {"random", required_argument, NULL, 'R'},
        {"sizes", required_argument, NULL, 'S'},
        {"clusters", required_argument, NULL, 'C'},
        {"family", no_argument, NULL, 'F'},
        {"table3", no_argument, NULL, 'T'},
        {"append", required_argument, NULL, 'a'},
        {"plot", required_argument, NULL, 'P'},
        {"rates", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct grid grid = {.requests = -1, .set = &cells_grid};
    const struct grid_mode *mode = &grid_goodput;
    const char *range = NULL;
    bool quick = false;
    double every = 0, seed = 1, draw = 0, clusters = CLUSTERS, runs = 0;
    int rc = policy_add(&grid, candidates[0].text);
    for (int option; !rc && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'q':
            quick = true;
            break;
        case 'c':
            range = optarg;
            break;
        case 'e':
            rc = number_read("--every", optarg, 1, 1e6, &every);
            break;
        case 'p':
            rc = policy_add(&grid, optarg);
            break;
        case 's':
            rc = number_read("--seed", optarg, 0, 9e15, &seed);
            break;
        case 't':
            rc = number_read("--seconds", optarg, 0.1, 1e5, &grid.seconds);
            break;
        case 'r':
            rc = number_read("--requests", optarg, 0, 1e9, &grid.requests);
            break;
        case 'n':
            rc = number_read("--runs", optarg, 1, 1000, &runs);
            break;
        case 'w':
            rc = number_read("--within", optarg, 1e-4, 0.5, &grid.within);
            break;
        case 'R':
            grid.set = &cells_random;
            rc = number_read("--random", optarg, 0, 9e15, &draw);
            break;
        case 'S':
            grid.set = &cells_sizes;
            rc = number_read("--sizes", optarg, 0, 9e15, &draw);
            break;
        case 'C':
            rc = number_read("--clusters", optarg, 1, 1e6, &clusters);
            break;
        case 'F':
            grid.set = &cells_family;
            break;
        case 'T':
            grid.set = &cells_table3;
            break;
        case 'a':
            grid.append = optarg;
            break;
        case 'P':
            grid.plot = optarg;
            break;
        case 'f':
            grid.rates = optarg;
            break;
        case 'j':
            grid.json = true;
            break;
        case 'h':
            return usage(stdout, 0);
        default:
            return usage(stderr, 2);
        }
    }
    if (!rc && optind < argc) {
        mode = NULL;
        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
            mode = strcmp(argv[optind], modes[i]->name) == 0 ? modes[i] : mode;
        if (!mode || optind + 1 < argc)
            return usage(stderr, 2);
    }
    grid.seed = (uint64_t)seed;
    grid.draw = (uint64_t)draw;
    grid.runs = runs > 0 ? (uint32_t)runs : mode == &grid_losses ? 2 : 1;
    grid.requests = grid.requests >= 0 ? grid.requests : grid.seconds > 0 ? 0 : quick ? QUICK_REQUESTS : REQUESTS;
    grid.seconds = grid.seconds > 0 ? grid.seconds : quick ? 5 : 10;
    grid.within = grid.within > 0 ? grid.within : quick ? 0.02 : 0.01;
    if (!rc && grid.policy_count == 1)
        rc = policies_all(&grid);
    if (!rc)
        rc = cells_choose(&grid, range,
                          every > 0                                    ? (uint32_t)every
                          : quick && !range && grid.set == &cells_grid ? QUICK_EVERY
                                                                       : 1,
                          (uint32_t)clusters);
    if (!rc && mode != &grid_goodput && (grid.append || grid.plot))
        rc = mistake(mode->name, "--append and --plot are for goodput");
    if (!rc && mode != &grid_losses && grid.rates)
        rc = mistake(mode->name, "--rates is for losses");
    if (!rc && (mode == &grid_below || mode == &grid_flash) && grid_policy_find(&grid, "eager") == 0)
        rc = policy_add(&grid, "eager");
    if (!rc)
        rc = mode_run(&grid, mode);
    free(grid.cells);
    return rc;
}
