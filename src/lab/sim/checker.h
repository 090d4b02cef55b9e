/* checker.h - holds a simulated run to what must always be true; knows nothing of how the scheduler works.
 *
 * No request is lost, answered twice, refused after its deadline, or started when by the table in force it cannot
 * finish by its deadline. A request whose batch was lost may be sent again; it, too, gets exactly one answer. No batch
 * mixes models or is larger than allowed; no accelerator runs two batches at once. Of several sub-clusters, each model
 * is in one at a time and runs only there, and a move leaves it without a rank core for four messages at most. */
#pragma once

#include "lab/sim/sim.h"

struct checker;

/* Memory, aligned as malloc's, for runs of up to `requests_max` requests. */
size_t checker_bytes(const struct sim_config *config, uint64_t requests_max);
/* Starts a run of `config`; fills `observer`, to be given to it. */
void checker_init(struct checker *checker, const struct sim_config *config, uint64_t requests_max,
                  struct sim_observer *observer);
/* For policies that promise nothing about deadlines: requests may be started, and refused, too late. */
void checker_ignore_deadlines(struct checker *checker);
/* After the run: NULL, or a sentence on the first thing that was wrong (owned by the checker). */
const char *checker_verdict(struct checker *checker, const struct sim_result *result);
