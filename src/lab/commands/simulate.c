/* simulate.c - `symphony simulate`: runs scenarios in virtual time with any policy; finds goodput, sweeps, plots,
 * traces. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "core/data/residency.h"
#include "core/system/clock.h"
#include "core/system/files.h"
#include "core/system/thread.h"
#include "lab/commands/scenario_sets.h"
#include "lab/report/gnuplot.h"
#include "lab/report/simulate_plot.h"
#include "lab/report/simulate_report.h"
#include "lab/report/simulate_trace.h"
#include "lab/report/workers.h"
#include "server/commands/cli.h"
#include "server/commands/options.h"

#define SHOW_AFTER_NS NS_PER_S /* time after which a command shows its progress */
#define SHOW_EVERY_NS (100 * NS_PER_MS)
#define BAR_WIDTH     32

struct settings {
    const char *plot, *trace;
    struct scenario_sets sets;
    char policy_set[SIMULATION_POLICY_BYTES];
    struct sweep sweeps[SWEEP_KEYS_MAX];
    uint32_t sweep_count;
    int64_t seed, threads;
    double precision;
    int find; /* word of --find; 0: goodput */
    bool json, csv;
};

static int set_option(const char *text, void *settings, struct sy_error *err) {
    return scenario_sets_add(&((struct settings *)settings)->sets, text, err);
}

static int sweep_option(const char *text, void *settings, struct sy_error *err) {
    struct settings *s = settings;
    if (s->sweep_count == SWEEP_KEYS_MAX)
        return error_set(err, -EINVAL, "given more than %d times", SWEEP_KEYS_MAX);
    return sweep_parse(text, &s->sweeps[s->sweep_count++], err);
}

static int policy_option(const char *text, void *settings, struct sy_error *err) {
    struct settings *s = settings;
    const struct policy_ops *policy;
    return simulation_policy_set(text, s->policy_set, &policy, err);
}

#define S struct settings
static const struct option_row rows[] = {
    OPTION_HEADING("What to simulate"),
    OPTION_PARSED("set", "KEY=VALUE", set_option, "change the scenario, e.g. workload.rate_rps=7000; may be repeated"),
    OPTION_PARSED(
        "policy", "NAME[:KEY=VALUE,...]", policy_option,
        "this policy instead of the scenario's, with its options (docs/scheduling.md), or a shared object with one "
        "(docs/policies.md)"),
    OPTION_INT(S, seed, "seed", "N", 0, 1LL << 53, "instead of run.seed"),
    OPTION_HEADING("How"),
    OPTION_CHOICE(S, find, "find", "goodput",
                  "search the highest rate at which every model has at least 99 % of its requests good, and every "
                  "pipeline of its queries; the scenario's rate is not used"),
    OPTION_DOUBLE(S, precision, "precision", "P", 0.0001, 0.5, "of --find: relative width at which it stops"),
    OPTION_PARSED("sweep", "KEY=FROM:TO:STEP", sweep_option,
                  "one simulation (or search) for each value; also KEY=a,b,c; may be repeated: all combinations"),
    OPTION_INT(S, threads, "threads", "N", 1, 1024, "that simulate at once (default: one a core)"),
    OPTION_HEADING("Output"),
    OPTION_FLAG(S, json, "json", "the result as JSON on standard output; of a sweep, an array"),
    OPTION_FLAG(S, csv, "csv", "the result as CSV on standard output: a line for all models, then one for each"),
    OPTION_TEXT(S, plot, "plot", "FILE.svg",
                "draw the distribution of latency, or what changes over the first key of a sweep, with a line for each "
                "value of the second (needs gnuplot)"),
    OPTION_TEXT(S, trace, "trace", "FILE",
                "write every batch and dropped request as a timeline for Perfetto (ui.perfetto.dev)"),
    OPTION_END,
};
#undef S

static const struct options options = {
    .command = "simulate",
    .usage = "SCENARIO.yaml [OPTION]...",
    .intro =
        "Simulates a scenario (docs/scenarios.md) in virtual time: the scheduler of the live server, with emulated\n"
        "accelerators. The result is a function of the scenario and the seed, the same on every machine.",
    .notes =
        "Examples:\n"
        "  symphony simulate scenarios/zoo-1080ti.yaml\n"
        "  symphony simulate scenarios/table4-resnet50.yaml --find goodput --json\n"
        "  symphony simulate scenarios/table4-resnet50.yaml --sweep workload.rate_rps=1000:9000:500 --plot rates.svg\n"
        "  symphony simulate scenarios/zoo-1080ti.yaml --find goodput --sweep cluster.accelerators=16,32,64,128",
    .rows = rows,
    .args_min = 1,
    .args_max = 1,
    .args_name = "SCENARIO.yaml",
};

/* The result of a point of the sweep; without a sweep there is one point. */
struct outcome {
    struct text text; /* result as JSON, as a table, or as a line of the sweep's table */
    struct simulate_summary summary;
    struct sy_error err;
    uint64_t requests;
    struct simulation_progress progress;
};

struct command {
    struct settings s;
    const char *path;
    uint32_t points;
    struct outcome *outcomes; /* [points] */
    bool terminal, line_shown;
    uint64_t requests;
    int64_t started_ns, shown_ns;
    int32_t taken;
    int write_error; /* errno of a result that could not be written; 0: none */
};

/* Set by SIGINT and SIGTERM; static, since a signal handler knows nothing else. */
static atomic_int stop_asked;

static void stop_ask(int signal) {
    (void)signal;
    atomic_store(&stop_asked, 1); /* lock-free, so allowed here */
}

/* ---- one point, on a worker's thread ---- */

/* The changes of the scenario for a point, in this order: policy, seed, each --set, the sweep. */
struct changes {
    char own[SWEEP_KEYS_MAX + 1][1024];
    const char *sets[SCENARIO_SETS_MAX + SWEEP_KEYS_MAX + 2];
    uint32_t count;
};

static int changes_make(const struct settings *s, uint32_t point, struct changes *c, struct sy_error *err) {
    c->count = 0;
    if (s->policy_set[0])
        c->sets[c->count++] = s->policy_set;
    snprintf(c->own[0], sizeof(c->own[0]), "run.seed=%lld", (long long)s->seed);
    if (s->seed >= 0)
        c->sets[c->count++] = c->own[0];
    memcpy(&c->sets[c->count], s->sets.sets, s->sets.count * sizeof(s->sets.sets[0]));
    c->count += s->sets.count;
    for (uint32_t i = 0; i < s->sweep_count; i++) {
        const char *value = sweep_value(s->sweeps, s->sweep_count, i, point);
        int length = snprintf(c->own[i + 1], sizeof(c->own[0]), "%s=%s", s->sweeps[i].key, value);
        if ((size_t)length >= sizeof(c->own[0]))
            return error_set(err, -EINVAL, "--sweep: %.40s: a value is too long", s->sweeps[i].key);
        c->sets[c->count++] = c->own[i + 1];
    }
    return 0;
}

static int point_make(const struct command *command, uint32_t point, struct simulation *simulation,
                      struct sy_error *err) {
    struct changes *changes = malloc(sizeof(*changes));
    *simulation = (struct simulation){.memory = NULL};
    if (!changes)
        return error_set(err, -ENOMEM, "out of memory");
    int rc = changes_make(&command->s, point, changes, err);
    rc = rc ? rc : simulation_make(simulation, command->path, changes->sets, changes->count, err);
    if (!rc && command->s.find < 0 && !simulation->cluster.config.step_count)
        rc = error_set(err, -EINVAL,
                       "%s: workload.rate_rps is missing (give a rate, by --set workload.rate_rps=R, or use --find "
                       "goodput)",
                       command->path);
    if (!rc && command->s.plot && !command->s.sweep_count && simulation->scenario.pipeline_count)
        rc = error_set(err, -EINVAL, "--plot of one simulation is of models' requests, and %s has pipelines",
                       command->path);
    free(changes);
    return rc;
}

static int point_report(struct command *command, uint32_t number, const struct simulation *simulation,
                        struct sy_error *err) {
    const struct settings *s = &command->s;
    struct outcome *outcome = &command->outcomes[number];
    struct simulate_point point = {s->sweeps, s->sweep_count, number};
    int rc = 0;
    outcome->summary = simulate_summarize(simulation);
    if (s->json)
        rc = simulate_json(simulation, &point, &outcome->text);
    else if (s->csv)
        rc = simulate_csv(simulation, &point, &outcome->text);
    else if (s->sweep_count)
        simulate_sweep_line(&point, &outcome->summary, s->find == 0, &outcome->text);
    else
        simulate_table(simulation, command->path, &outcome->text);
    if (rc || outcome->text.failed)
        return error_set(err, -ENOMEM, "out of memory for the result");
    return s->plot && !s->sweep_count ? simulate_plot_run(simulation, command->path, s->plot, err) : 0;
}

static int point_simulate(struct command *command, uint32_t number, struct simulation *simulation,
                          struct sy_error *err) {
    const struct settings *s = &command->s;
    struct simulation_progress *progress = &command->outcomes[number].progress;
    struct simulate_trace trace = {.to = NULL};
    progress->stop = &stop_asked;
    int rc =
        s->trace ? simulate_trace_open(&trace, s->trace, &simulation->scenario, &simulation->cluster.config, err) : 0;
    const struct sim_observer *observer = s->trace ? &trace.observer : NULL;
    if (!rc)
        rc = s->find == 0 ? simulation_find(simulation, s->precision, progress, observer, err)
                          : simulation_run(simulation, progress, observer, err);
    int closed = simulate_trace_close(&trace, s->trace, rc ? NULL : err);
    return rc ? rc : closed;
}

static int point_work(void *context, uint32_t number) {
    struct command *command = context;
    struct outcome *outcome = &command->outcomes[number];
    struct simulation *simulation = malloc(sizeof(*simulation));
    if (!simulation)
        return error_set(&outcome->err, -ENOMEM, "out of memory");
    int rc = point_make(command, number, simulation, &outcome->err);
    rc = rc ? rc : point_simulate(command, number, simulation, &outcome->err);
    rc = rc ? rc : point_report(command, number, simulation, &outcome->err);
    outcome->requests = simulation->requests;
    simulation_free(simulation);
    free(simulation);
    return rc;
}

/* ---- showing it, on the command's thread ---- */

static void line_end(struct command *command) {
    if (command->line_shown)
        fputs("\r\033[K", stderr);
    command->line_shown = false;
}

static void progress_show(void *context, uint32_t done) {
    struct command *command = context;
    int64_t now_ns = clock_now_ns();
    if (!command->terminal || now_ns - command->started_ns < SHOW_AFTER_NS ||
        now_ns - command->shown_ns < SHOW_EVERY_NS)
        return;
    const struct simulation_progress *p = &command->outcomes[0].progress;
    int filled = (int)((uint64_t)done * BAR_WIDTH / command->points);
    fputs("\r\033[K", stderr);
    if (command->s.sweep_count)
        fprintf(stderr, "[%.*s%*s] %u of %u", filled, "################################", BAR_WIDTH - filled, "", done,
                command->points);
    else if (command->s.find == 0)
        fprintf(stderr, "rate %u of the search: ", atomic_load_explicit(&p->trials, memory_order_relaxed));
    if (!command->s.sweep_count)
        fprintf(stderr, "second %.1f", (double)atomic_load_explicit(&p->now_ns, memory_order_relaxed) / NS_PER_S);
    fflush(stderr);
    command->line_shown = true;
    command->shown_ns = now_ns;
}

static void point_take(void *context, uint32_t number, int rc) {
    struct command *command = context;
    struct outcome *outcome = &command->outcomes[number];
    command->requests += outcome->requests;
    if (!rc) {
        line_end(command);
        if (command->s.json && command->s.sweep_count)
            fputs(number ? ",\n" : "[\n", stdout);
        fwrite(outcome->text.data, 1, outcome->text.length, stdout);
        if (command->s.json && !command->s.sweep_count)
            fputc('\n', stdout);
        if (fflush(stdout) && !command->write_error) { /* the reader is gone, or the disk is full */
            command->write_error = errno;
            atomic_store(&stop_asked, 1);
        }
        command->taken++;
    }
    text_free(&outcome->text);
}

/* ---- the command ---- */

static int settings_check(const struct settings *s, struct sy_error *err) {
    if (s->json && s->csv)
        return error_set(err, -EINVAL, "either --json or --csv");
    if (s->trace && s->sweep_count)
        return error_set(err, -EINVAL, "--trace is of one simulation, not of a sweep");
    if (s->plot && s->sweep_count > 2)
        return error_set(err, -EINVAL, "--plot draws sweeps of one or two keys");
    for (uint32_t i = 0; i < s->sweep_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(s->sweeps[i].key, s->sweeps[k].key) == 0)
                return error_set(err, -EINVAL, "--sweep: %s: given twice", s->sweeps[i].key);
    if (!sweep_points(s->sweeps, s->sweep_count))
        return error_set(err, -EINVAL, "--sweep: more than %d combinations", SWEEP_POINTS_MAX);
    int rc = s->trace ? files_writable("--trace", s->trace, err) : 0;
    return !rc && s->plot ? gnuplot_check(s->plot, err) : rc;
}

/* Where memory is limited, warns of models whose requests can be in time only while they are there. */
static void cold_warn(const struct simulation *simulation) {
    const struct sim_config *c = &simulation->cluster.config;
    const struct sim_model *first = NULL;
    uint32_t count = 0;
    for (uint32_t m = 0; m < c->model_count && c->memory_bytes; m++) {
        const struct sim_model *model = &c->models[m];
        int64_t least_ns = INT64_MAX / 2; /* of a lone item, on the fastest type */
        for (uint32_t t = 0; t < c->types; t++)
            if (model->profiles[t] && model->profiles[t]->latency_ns[1] < least_ns)
                least_ns = model->profiles[t]->latency_ns[1];
        if (model->pinned || model->best_effort || model->load_ns + least_ns <= model->slo_ns)
            continue;
        first = first ? first : model;
        count++;
    }
    if (first)
        fprintf(stderr,
                "symphony simulate: warning: " COLD_REFUSED_WORDS ": models=%u first=%s load_ms=%.6g slo_ms=%.6g\n",
                count, first->name, (double)first->load_ns / 1e6, (double)first->slo_ns / 1e6);
}

/* Reports mistakes in any point before the first is simulated. */
static int points_check(const struct command *command, struct sy_error *err) {
    int rc = 0;
    for (uint32_t i = 0; i < command->points && !rc && !stop_asked; i++) {
        struct simulation *simulation = malloc(sizeof(*simulation));
        if (!simulation)
            return error_set(err, -ENOMEM, "out of memory");
        rc = point_make(command, i, simulation, err);
        if (!rc && i == 0)
            cold_warn(simulation);
        simulation_free(simulation);
        free(simulation);
    }
    return rc;
}

static int sweep_plot(const struct command *command, struct sy_error *err) {
    const struct settings *s = &command->s;
    struct simulate_summary *summaries = calloc(command->points, sizeof(*summaries));
    if (!summaries)
        return error_set(err, -ENOMEM, "out of memory for the plot");
    for (uint32_t i = 0; i < command->points; i++)
        summaries[i] = command->outcomes[i].summary;
    int rc = simulate_plot_sweep(s->sweeps, s->sweep_count, summaries, s->find == 0, command->path, s->plot, err);
    free(summaries);
    return rc;
}

static int points_run(struct command *command, struct sy_error *err) {
    const struct settings *s = &command->s;
    command->outcomes = calloc(command->points, sizeof(*command->outcomes));
    if (!command->outcomes)
        return error_set(err, -ENOMEM, "out of memory for %u simulations", command->points);
    for (uint32_t i = 0; i < command->points; i++)
        text_init(&command->outcomes[i].text, NULL, 0);
    json_object_seed(1); /* before there are threads; keys keep the order in which they are set */
    if (!s->json && (s->csv || s->sweep_count)) {
        struct text head;
        text_init(&head, NULL, 0);
        if (s->csv)
            simulate_csv_head(s->sweeps, s->sweep_count, &head);
        else
            simulate_sweep_head(s->sweeps, s->sweep_count, s->find == 0, &head);
        fputs(text_end(&head), stdout);
        text_free(&head);
    }
    cpu_set_t cores;
    thread_cores_allowed(&cores);
    command->started_ns = clock_now_ns();
    int rc = workers_run(
        &(struct workers_job){.count = command->points,
                              .threads = s->threads > 0 ? (uint32_t)s->threads : (uint32_t)CPU_COUNT(&cores),
                              .work = point_work,
                              .take = point_take,
                              .tick = progress_show,
                              .context = command});
    line_end(command);
    if (s->json && s->sweep_count)
        fputs(command->taken ? "\n]\n" : "[]\n", stdout);
    if (!command->write_error && fflush(stdout))
        command->write_error = errno;
    if (command->write_error)
        return error_set(err, -EIO, "cannot write the result: %s", strerror(command->write_error));
    if (rc) {
        const struct sy_error *first = &command->outcomes[command->taken].err;
        return error_set(err, rc, "%s", first->text[0] ? first->text : strerror(-rc));
    }
    double seconds = (double)(clock_now_ns() - command->started_ns) / NS_PER_S;
    fprintf(stderr, "simulated %llu requests in %.2f s: %.2f million requests/s\n",
            (unsigned long long)command->requests, seconds, (double)command->requests / seconds / 1e6);
    return s->plot && s->sweep_count ? sweep_plot(command, err) : 0;
}

static int simulate(struct command *command) {
    struct sy_error err = {""};
    if (settings_check(&command->s, &err))
        return cli_usage_error("simulate", "%s", err.text);
    command->points = sweep_points(command->s.sweeps, command->s.sweep_count);
    int rc = points_check(command, &err), status = rc ? CLI_USAGE : CLI_OK;
    if (!rc && (rc = points_run(command, &err)))
        status = CLI_FAILURE;
    if (rc)
        fprintf(stderr, "symphony simulate: %s\n", err.text);
    return status;
}

static int simulate_main(int argc, char **argv) {
    struct command *command = calloc(1, sizeof(*command));
    if (!command) {
        fputs("symphony simulate: out of memory\n", stderr);
        return CLI_FAILURE;
    }
    command->s = (struct settings){.find = -1, .seed = -1, .precision = 0.01};
    command->terminal = isatty(STDERR_FILENO);
    int args_count, status = options_parse(&options, argc, argv, &command->s, &args_count);
    if (status == OPTIONS_GO_ON) {
        command->path = argv[1];
        struct sigaction action = {.sa_handler = stop_ask};
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        signal(SIGPIPE, SIG_IGN);
        status = simulate(command);
    }
    for (uint32_t i = 0; i < command->points && command->outcomes; i++)
        text_free(&command->outcomes[i].text);
    for (uint32_t i = 0; i < command->s.sweep_count; i++)
        sweep_free(&command->s.sweeps[i]);
    free(command->outcomes);
    free(command);
    return status;
}

const struct cli_command cli_simulate = {
    .name = "simulate", .summary = "runs a scenario in virtual time; goodput, sweeps, plots", .run = simulate_main};
