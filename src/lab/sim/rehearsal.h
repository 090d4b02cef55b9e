/* rehearsal.h - which of a policy's ways loses the fewest requests, on the load that a cluster has now.
 *
 * No single rule is best for every cluster and load. So while a cluster loses requests, the ways of its policy are
 * rehearsed: each has a twin of the cluster in virtual time, with the same models and accelerators and the scheduler's
 * own cores. The twins are given the requests that the cluster itself is given. Once a second they are compared, and
 * the cluster goes by the way that has lost least. Since the twins have the same arrivals, far fewer requests are
 * needed to see which way is better than if the cluster tried one way after the other, and no request is lost by
 * trying.
 *
 * The simulator and the live server use the same code. Clients that leave, and requests with far less time than the
 * others of their model, are not rehearsed. Batches may take longer than their tables say, so what the way in force
 * really loses counts beside what its twin loses. Pure; one thread. */
#pragma once

#include "lab/sim/sim.h"

#define REHEARSAL_EVERY_NS NS_PER_S

struct rehearsal;

/* Whether the cluster's policy has several ways. */
bool rehearsal_wanted(const struct sim_config *cluster);
/* Whether a rehearsal begins when `bad` of `ended` requests are lost. */
bool rehearsal_begins(uint64_t ended, uint64_t bad);
/* Memory for a rehearsal of this cluster, aligned as malloc's. Most of it is not touched before requests are lost. */
size_t rehearsal_bytes(const struct sim_config *cluster);
/* Takes from `cluster` its models, accelerators, sub-clusters, margins, delays, noise and policy; the memory that these
 * point to must outlive the rehearsal. All accelerators are in service. */
struct rehearsal *rehearsal_init(void *memory, const struct sim_config *cluster);
/* Tells that a request has arrived at the cluster. now_ns never falls from call to call; the times in the messages may.
 */
void rehearsal_request(struct rehearsal *r, int64_t now_ns, const struct request_message *message);
/* Tells that an accelerator leaves or joins. */
void rehearsal_accelerator(struct rehearsal *r, int64_t now_ns, uint32_t accelerator, bool up);
/* Call it every REHEARSAL_EVERY_NS, with the requests that have ended in the cluster since the last call, and the
 * number of these that were refused or late. Returns the way that the cluster is to take until the next call. */
uint32_t rehearsal_look(struct rehearsal *r, int64_t now_ns, uint64_t ended, uint64_t bad);
/* Whether twins run, since the cluster has lost requests lately. */
bool rehearsal_runs(const struct rehearsal *r);
