/* checker.h - checks that a simulated run keeps the rules that must always hold; knows nothing of how the scheduler
 * works.
 *
 * No request is lost, answered twice, refused after its deadline, or started when by the table in force it cannot
 * finish by its deadline. A request whose batch was lost may be sent again, and still gets exactly one answer. No batch
 * mixes models or is larger than allowed; no accelerator runs two batches at once. Where memory is limited, no
 * accelerator has more than fits, in pages of 16 MiB, runs a model that it has not loaded, or unloads one that runs.
 * With several sub-clusters, each model is in one at a time and runs only there, and during a move the model is without
 * a rank core for the time of four messages at most. */
#pragma once

#include "lab/sim/sim.h"

struct checker;

/* Memory, aligned as malloc's, for runs of up to `requests_max` requests. */
size_t checker_bytes(const struct sim_config *config, uint64_t requests_max);
/* Prepares the checks of a run of `config`; fills `observer`, which the caller gives to the run. */
void checker_init(struct checker *checker, const struct sim_config *config, uint64_t requests_max,
                  struct sim_observer *observer);
/* For policies that promise nothing about deadlines: requests may be started, and refused, too late. */
void checker_ignore_deadlines(struct checker *checker);
/* After the run: NULL, or a sentence about the first rule that was broken (owned by the checker). */
const char *checker_verdict(struct checker *checker, const struct sim_result *result);
