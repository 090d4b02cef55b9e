/* simulation.c - simulates one scenario. */
#include "lab/report/simulation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/sim/goodput.h"
#include "sched/threads/policy_file.h"

int simulation_policy_set(const char *text, char set[SIMULATION_POLICY_BYTES], const struct policy_ops **policy,
                          struct sy_error *err) {
    struct policy_options unused;
    char named[SIMULATION_POLICY_BYTES];
    int rc = policy_file_resolve(text, named, sizeof(named), err);
    rc = rc ? rc : policy_read(named, policy, &unused, err);
    if (rc)
        return rc;
    text = named;
    size_t at = (size_t)snprintf(set, SIMULATION_POLICY_BYTES, "policy={name: ");
    for (; *text && at + 4 < SIMULATION_POLICY_BYTES; text++) {
        const char *piece = *text == ':' || *text == ',' ? ", " : *text == '=' ? ": " : (char[]){*text, '\0'};
        at += (size_t)snprintf(set + at, SIMULATION_POLICY_BYTES - at, "%s", piece);
    }
    if (*text)
        return error_set(err, -EINVAL, "the text is too long");
    strcat(set, "}");
    return 0;
}

/* Makes the cluster once the scenario has been read; `rc` says whether that worked. */
static int cluster_add(struct simulation *s, int rc, const char *origin, struct sy_error *err) {
    struct sy_error why;
    if (!rc && (rc = cluster_make(&s->cluster, &s->scenario, &why)))
        error_set(err, rc, "%s: %s", origin, why.text);
    return rc;
}

int simulation_make(struct simulation *s, const char *path, const char *const *sets, uint32_t set_count,
                    struct sy_error *err) {
    *s = (struct simulation){.memory = NULL};
    return cluster_add(s, scenario_read(path, sets, set_count, &s->scenario, err), path, err);
}

int simulation_make_text(struct simulation *s, const char *origin, const char *text, const char *const *sets,
                         uint32_t set_count, struct sy_error *err) {
    *s = (struct simulation){.memory = NULL};
    int rc = scenario_read_text(origin, text, strlen(text), sets, set_count, &s->scenario, err);
    return cluster_add(s, rc, origin, err);
}

void simulation_free(struct simulation *s) {
    free(s->memory);
    cluster_free(&s->cluster);
    scenario_free(&s->scenario);
    *s = (struct simulation){.memory = NULL};
}

/* The numbers are only shown: no order is needed. */
static bool go_on(void *context, int64_t now_ns) {
    struct simulation_progress *progress = context;
    atomic_store_explicit(&progress->now_ns, now_ns, memory_order_relaxed);
    return !atomic_load_explicit(progress->stop, memory_order_relaxed);
}

static struct sim_config config_of(const struct simulation *s, struct simulation_progress *progress) {
    struct sim_config config = s->cluster.config;
    config.go_on = go_on;
    config.go_on_context = progress;
    return config;
}

static int memory_take(struct simulation *s, size_t bytes, struct sy_error *err) {
    s->memory = malloc(bytes);
    return s->memory ? 0 : error_set(err, -ENOMEM, "out of memory: the simulation takes %zu MiB", bytes >> 20);
}

static int run(struct simulation *s, const struct sim_config *config, struct sy_error *err) {
    sim_run(config, s->memory, &s->result);
    s->requests += s->result.requests;
    return s->result.stopped ? error_set(err, -ECANCELED, "interrupted") : 0;
}

int simulation_run(struct simulation *s, struct simulation_progress *progress, const struct sim_observer *observer,
                   struct sy_error *err) {
    struct sim_config config = config_of(s, progress);
    config.observer = observer;
    int rc = memory_take(s, sim_bytes(&config), err);
    return rc ? rc : run(s, &config, err);
}

struct finder {
    struct simulation *simulation;
    struct simulation_progress *progress;
    struct sim_config config;
};

static int trial_holds(void *context, double rate_rps) {
    struct finder *finder = context;
    struct simulation *s = finder->simulation;
    atomic_store_explicit(&finder->progress->trials, s->trial_count + 1, memory_order_relaxed);
    int held = goodput_try(&finder->config, rate_rps, s->memory, &s->result);
    s->requests += s->result.requests;
    if (held >= 0 && s->trial_count < SIMULATION_TRIALS_MAX)
        s->trials[s->trial_count++] = (struct simulation_trial){rate_rps, held};
    return held;
}

int simulation_find(struct simulation *s, double within, struct simulation_progress *progress,
                    const struct sim_observer *observer, struct sy_error *err) {
    struct finder finder = {s, progress, config_of(s, progress)};
    double guess_rps = goodput_guess(&finder.config);
    int rc = memory_take(s, goodput_bytes(&finder.config, guess_rps), err);
    if (rc)
        return rc;
    s->searched = true;
    s->goodput_rps = goodput_search(trial_holds, &finder, guess_rps, within, guess_rps * GOODPUT_GUESS_TIMES_MOST);
    if (s->result.stopped)
        return error_set(err, -ECANCELED, "interrupted");
    double last_rps = s->trial_count ? s->trials[s->trial_count - 1].rate_rps : guess_rps;
    struct sim_rate_step step = {0, s->goodput_rps > 0 ? s->goodput_rps : last_rps};
    finder.config.steps = &step;
    finder.config.step_count = 1;
    finder.config.observer = observer;
    return run(s, &finder.config, err);
}
