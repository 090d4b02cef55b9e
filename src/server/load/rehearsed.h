/* rehearsed.h - the emulated cluster that a rehearsal (lab/sim/rehearsal.h) runs on, made from a recording: the models
 * with their measured latencies, the accelerators in service, the margins. Reads no clock. One thread. */
#pragma once

#include "lab/sim/rehearsal.h"
#include "server/load/recording.h"

/* All zeros: nothing is emulated. Do not move the struct while it emulates: pointers lead into it. */
struct rehearsed {
    struct recording of; /* recording that the cluster was made from, without requests */
    struct sim_config config;
    struct sim_rate_step step;
    struct sim_model *models;
    struct profile **profiles; /* [models][types] */
    uint8_t *accelerator_type;
    void *memory; /* [memory_bytes] */
    size_t memory_bytes;
    struct rehearsal *rehearsal; /* rehearsal, which lies in `memory`; NULL: nothing is rehearsed */
};

/* Begins anew with a recording of about a second, which rehearsed_make() takes over, of a server with `subclusters`
 * sub-clusters. 0, -ENOMEM, or -ENOENT: there is nothing to emulate. Free `rehearsed` in any case. */
int rehearsed_make(struct rehearsed *rehearsed, uint32_t subclusters, struct recording *of);
/* Whether the emulated cluster is still like the server of this recording: the same models, and as many accelerators of
 * each type. Latencies and margins drift all the time, so they may differ. */
bool rehearsed_is(const struct rehearsed *rehearsed, const struct recording *of);
/* Tells the rehearsal the recorded requests that arrived from from_ns to just before until_ns, in the order of their
 * arrival. Sorts the recording's requests. Call it only if rehearsed_is(). */
void rehearsed_tell(struct rehearsed *rehearsed, struct recording *of, int64_t from_ns, int64_t until_ns);
void rehearsed_free(struct rehearsed *rehearsed);
