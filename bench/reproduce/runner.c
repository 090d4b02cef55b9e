/* runner.c - a figure's simulations, done by several threads. */
#include "runner.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "context.h"
#include "lab/report/workers.h"
#include "memory.h"

#define SETS_MAX        24
#define PRECISION       0.01
#define PRECISION_QUICK 0.1
#define RUN_SECTION     "run: {seconds: 30, warmup_seconds: 3, seed: 1}\n"
#define RUN_QUICK       "run.seconds=1; run.warmup_seconds=0.3"

struct piece {
    struct piece *next;
    const char *base;
    char *sets; /* "KEY=VALUE; KEY=VALUE", as given */
    bool search;
    const struct sim_observer *observer;
    void (*work)(void *argument); /* instead of all that */
    void *argument;
    struct outcome outcome;
    struct sy_error err;
};

static struct piece *piece_add(struct context *c) {
    struct piece *piece = memory_take(sizeof(*piece));
    *(c->last ? &c->last->next : &c->first) = piece;
    c->last = piece;
    if (!c->todo)
        c->todo = piece;
    return piece;
}

static struct outcome *simulation_add(struct context *c, const char *base, const char *sets, va_list arguments) {
    char text[4096];
    if ((size_t)vsnprintf(text, sizeof(text), sets, arguments) >= sizeof(text)) {
        fprintf(stderr, "reproduce: %s: changes of a scenario are too long\n", c->figure->id);
        exit(1);
    }
    struct piece *piece = piece_add(c);
    piece->base = base;
    piece->sets = memory_copy(text);
    return &piece->outcome;
}

const struct outcome *run_add(struct context *c, const char *base, const char *sets, ...) {
    va_list arguments;
    va_start(arguments, sets);
    const struct outcome *outcome = simulation_add(c, base, sets, arguments);
    va_end(arguments);
    c->runs++;
    return outcome;
}

const struct outcome *goodput_add(struct context *c, const char *base, const char *sets, ...) {
    va_list arguments;
    va_start(arguments, sets);
    const struct outcome *outcome = simulation_add(c, base, sets, arguments);
    va_end(arguments);
    c->last->search = true;
    c->searches++;
    return outcome;
}

const struct outcome *observed_add(struct context *c, const struct sim_observer *observer, const char *base,
                                   const char *sets, ...) {
    va_list arguments;
    va_start(arguments, sets);
    const struct outcome *outcome = simulation_add(c, base, sets, arguments);
    va_end(arguments);
    c->last->observer = observer;
    c->runs++;
    return outcome;
}

void work_add(struct context *c, void (*work)(void *argument), void *argument) {
    struct piece *piece = piece_add(c);
    piece->work = work;
    piece->argument = argument;
}

/* ---- the scenario of a piece ---- */

static bool is_path(const char *base) {
    size_t length = strlen(base);
    return !strchr(base, '\n') && length > 5 && strcmp(base + length - 5, ".yaml") == 0;
}

static bool has_run(const char *base) {
    return strncmp(base, "run:", 4) == 0 || strstr(base, "\nrun:");
}

/* The scenario's text; it is also written into a file. */
static void base_text(const char *base, struct text *to) {
    text_init(to, NULL, 0);
    text_put(to, base);
    if (to->length && base[to->length - 1] != '\n')
        text_put_char(to, '\n');
    if (!has_run(base))
        text_put(to, RUN_SECTION);
}

/* Cuts "A=1; B=2" into the list. */
static uint32_t sets_cut(char *text, const char **sets, uint32_t count) {
    for (char *rest = text, *set; (set = strsep(&rest, ";"));) {
        set += strspn(set, " ");
        size_t length = strlen(set);
        while (length && set[length - 1] == ' ')
            set[--length] = '\0';
        if (length && count < SETS_MAX)
            sets[count++] = set;
    }
    return count;
}

/* The changes of a scenario: a copy that is cut into pieces. */
struct changes {
    char *own, *quick;
    const char *sets[SETS_MAX];
    uint32_t count;
};

static void changes_make(struct changes *changes, const struct piece *piece, bool quick) {
    *changes = (struct changes){.own = memory_copy(piece->sets), .quick = memory_copy(RUN_QUICK)};
    if (quick && !strstr(piece->sets, "run."))
        changes->count = sets_cut(changes->quick, changes->sets, 0);
    changes->count = sets_cut(changes->own, changes->sets, changes->count);
}

static void changes_free(struct changes *changes) {
    free(changes->own);
    free(changes->quick);
}

static int scenario_make(const struct context *c, const struct piece *piece, struct simulation *s,
                         struct sy_error *err) {
    struct changes changes;
    changes_make(&changes, piece, c->quick);
    int rc;
    if (is_path(piece->base)) {
        rc = simulation_make(s, piece->base, changes.sets, changes.count, err);
    } else {
        struct text text;
        base_text(piece->base, &text);
        rc = simulation_make_text(s, c->figure->id, text_end(&text), changes.sets, changes.count, err);
        text_free(&text);
    }
    changes_free(&changes);
    return rc;
}

/* ---- doing a piece, on any thread ---- */

static double quantile_ms(const struct sim_times *times, double q) {
    return (double)sim_times_quantile_ns(times, q) / NS_PER_MS;
}

static struct model_outcome model_outcome_of(const struct simulation *s, uint32_t m) {
    const struct sim_model_result *r = &s->result.models[m];
    struct model_outcome model = {
        .offered = r->offered,
        .good = r->good,
        .dropped = r->dropped,
        .late = r->late,
        .cold = r->cold,
        .batches = r->batches,
        .batch_items = r->batch_items,
        .loads = r->loads,
        .latency_p50_ms = quantile_ms(&r->latency, 0.5),
        .latency_p99_ms = quantile_ms(&r->latency, 0.99),
        .latency_max_ms = (double)r->latency.max_ns / NS_PER_MS,
    };
    memcpy(model.name, s->cluster.models[m].name, sizeof(model.name));
    return model;
}

static void outcome_fill(struct outcome *outcome, const struct simulation *s) {
    const struct sim_result *r = &s->result;
    *outcome = (struct outcome){
        .all = simulate_summarize(s),
        .seconds = s->cluster.config.seconds,
        .offered = r->offered,
        .good = r->good,
        .dropped = r->dropped,
        .late = r->late,
        .cold = r->cold,
        .loads = r->loads,
        .worst_bad_rate = r->worst_bad_rate,
        .accelerators =
            s->cluster.config.autoscale ? s->cluster.config.accelerators_first[0] : s->cluster.config.accelerators,
        .accelerators_used = r->accelerators_used,
        .accelerators_mean = r->accelerators_mean,
        .advice = memory_take((r->advice_count + 1) * sizeof(*r->advice)),
        .advice_count = r->advice_count,
        .placement = r->placement,
        .model_count = s->cluster.config.model_count,
        .models = memory_take(s->cluster.config.model_count * sizeof(struct model_outcome)),
    };
    if (r->advice_count)
        memcpy(outcome->advice, r->advice, r->advice_count * sizeof(*r->advice));
    for (uint32_t m = 0; m < outcome->model_count; m++) {
        outcome->models[m] = model_outcome_of(s, m);
        sim_times_merge(&outcome->latency, &r->models[m].latency);
        sim_times_merge(&outcome->queueing, &r->models[m].queueing);
        for (uint32_t b = 0; b <= s->cluster.models[m].batch_max; b++)
            outcome->batch_sizes[b] += r->models[m].batch_sizes[b];
    }
}

static int piece_simulate(const struct context *c, struct piece *piece) {
    static const atomic_int stop; /* never: an interrupt ends the program */
    struct simulation_progress progress = {.stop = &stop};
    struct simulation *s = memory_take(sizeof(*s));
    int rc = scenario_make(c, piece, s, &piece->err);
    if (!rc && piece->search)
        rc = simulation_find(s, c->quick ? PRECISION_QUICK : PRECISION, &progress, NULL, &piece->err);
    else if (!rc && s->cluster.config.step_count)
        rc = simulation_run(s, &progress, piece->observer, &piece->err);
    else if (!rc)
        rc = error_set(&piece->err, -EINVAL, "a scenario to be run has no workload.rate_rps");
    if (!rc)
        outcome_fill(&piece->outcome, s);
    simulation_free(s);
    free(s);
    return rc;
}

struct job {
    struct context *c;
    struct piece **pieces;
    uint32_t count;
};

static int piece_work(void *context, uint32_t number) {
    struct job *job = context;
    struct piece *piece = job->pieces[number];
    if (!piece->work)
        return piece_simulate(job->c, piece);
    piece->work(piece->argument);
    return 0;
}

static void piece_take(void *context, uint32_t number, int rc) {
    struct job *job = context;
    if (rc)
        fprintf(stderr, "reproduce: %s: %s\n", job->c->figure->id, job->pieces[number]->err.text);
}

static void progress_show(void *context, uint32_t done) {
    const struct job *job = context;
    if (job->c->terminal)
        fprintf(stderr, "\r\033[K%s: %u of %u", job->c->figure->id, done, job->count);
}

void simulate(struct context *c) {
    struct job job = {.c = c};
    for (struct piece *piece = c->todo; piece; piece = piece->next)
        job.count++;
    if (!job.count)
        return;
    job.pieces = memory_take(job.count * sizeof(struct piece *));
    uint32_t at = 0;
    for (struct piece *piece = c->todo; piece; piece = piece->next)
        job.pieces[at++] = piece;
    struct workers_job work = {.count = job.count,
                               .threads = c->threads,
                               .work = piece_work,
                               .take = piece_take,
                               .tick = progress_show,
                               .context = &job};
    if (workers_run(&work)) {
        fprintf(stderr, "reproduce: %s could not be done\n", c->figure->id);
        exit(1);
    }
    if (c->terminal)
        fputs("\r\033[K", stderr);
    free(job.pieces);
    c->todo = NULL;
}

/* ---- the scenarios, for people to repeat single simulations ---- */

static bool base_is_new(const struct context *c, const struct piece *piece) {
    for (const struct piece *p = c->first; p != piece; p = p->next)
        if (p->base && strcmp(p->base, piece->base) == 0)
            return false;
    return true;
}

static int base_write(const char *path, const char *base, struct sy_error *err) {
    FILE *file = fopen(path, "w");
    if (!file)
        return error_set(err, -errno, "cannot write '%s': %s", path, strerror(errno));
    struct text text;
    base_text(base, &text);
    fputs(text_end(&text), file);
    text_free(&text);
    return fclose(file) ? error_set(err, -errno, "cannot write '%s': %s", path, strerror(errno)) : 0;
}

/* The path of the figure's text number `number`, from 1 on. */
static void base_path(const struct context *c, uint32_t number, char *path, size_t bytes) {
    char more[16] = "";
    if (number > 1)
        snprintf(more, sizeof(more), "-%u", number);
    snprintf(path, bytes, "%s/%s%s.yaml", c->folder, c->figure->id, more);
}

void runner_command(const struct context *c, struct text *to) {
    const struct piece *piece = c->first;
    while (piece && !piece->base)
        piece = piece->next;
    if (!piece)
        return;
    char path[4096];
    base_path(c, 1, path, sizeof(path));
    struct changes changes;
    changes_make(&changes, piece, c->quick);
    text_printf(to, "; one of its %u simulations: build/release/symphony simulate %s%s", c->runs + c->searches,
                is_path(piece->base) ? piece->base : path, piece->search ? " --find goodput" : "");
    for (uint32_t i = 0; i < changes.count; i++)
        text_printf(to, " --set '%s'", changes.sets[i]);
    changes_free(&changes);
}

int runner_scenarios(const struct context *c, struct sy_error *err) {
    uint32_t number = 0;
    int rc = 0;
    for (const struct piece *piece = c->first; piece && !rc; piece = piece->next) {
        if (!piece->base || !base_is_new(c, piece))
            continue;
        char path[4096];
        base_path(c, ++number, path, sizeof(path));
        if (!is_path(piece->base))
            rc = base_write(path, piece->base, err);
    }
    return rc;
}

void runner_free(struct context *c) {
    for (struct piece *piece = c->first, *next; piece; piece = next) {
        next = piece->next;
        free(piece->outcome.models);
        free(piece->outcome.advice);
        free(piece->sets);
        free(piece);
    }
    c->first = c->last = c->todo = NULL;
}
