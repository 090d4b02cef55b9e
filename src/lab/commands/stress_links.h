/* stress_links.h - the settings of `symphony stress`, and its runs over links. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cluster/peer/hello.h"
#include "lab/stress/links.h"

#define STRESS_ACCELERATORS    1000 /* accelerators, unless the user gives a number */
#define LINKS_FEEDERS_MAX      64
#define LINKS_ACCELERATORS_MAX 65536
#define LINKS_MEMBERS_MAX      (HELLO_NUMBERS - 1) /* frontends and backends together */

struct stress_settings {
    int64_t models, model_threads, rank_threads, accelerators, feed_batch, record_mib, closed, seed;
    int64_t frontends, backends, feeders;
    double deaths, moves, alpha_us, beta_us, slo_us, rate, seconds, warmup_s, precision;
    const char *policy, *pin, *scenario;
    int find;
    bool links, sleep, json;
};

/* Runs the stress over links and prints the results. Returns the exit status. */
int stress_links_run(const struct stress_settings *settings);

/* In stress.c. Quantiles in microseconds, as JSON and as a line. */
json_t *stress_times_json(const struct stress_times *times);
void stress_times_print(const char *name, const struct stress_times *times);
