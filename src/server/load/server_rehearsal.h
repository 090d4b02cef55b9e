/* server_rehearsal.h - a thread that rehearses the policy's ways on the requests that the server records, as long as
 * the server loses requests, and tells the rank threads which way is best (lab/sim/rehearsal.h). */
#pragma once

#include "core/util/text.h"
#include "server/load/server_recording.h"

struct server_rehearsal;

/* Starts the thread, if the policy has several ways, and requests are recorded; else `rehearsal` stays NULL. The rank
 * threads run. 0 or -errno with a sentence. */
int server_rehearsal_start(struct server_rehearsal **rehearsal, struct server_recordings *recordings,
                           struct sy_error *err);
/* NULL is allowed. */
void server_rehearsal_stop(struct server_rehearsal *rehearsal);
/* Writes the rehearsal's metrics. Any thread. NULL is allowed. */
void server_rehearsal_render(const struct server_rehearsal *rehearsal, struct text *out);
