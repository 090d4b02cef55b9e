/* server_recording.h - makes recordings (server/load/recording.h) of what this process schedules, or its cluster. */
#pragma once

#include "server/load/recording.h"
#include "server/load/server_history.h"
#include "server/threads/executors.h"
#include "server/threads/model_list.h"
#include "server/threads/scheduling.h"

struct http_source;

/* Constant, of a process that schedules. */
struct server_recordings {
    const struct executors *executors;
    const struct scheduling *scheduling;
    struct model_list *models;
    struct server_history *history; /* NULL: requests are not recorded */
    int64_t started_ns;
    pthread_mutex_t describe_lock; /* held by the caller of scheduler_link_describe() */
};

/* The recording of the last `seconds`, as metrics_config.recording. The metrics thread. */
struct http_source *server_recording_open(struct server_recordings *recordings, double seconds, int *rc,
                                          struct sy_error *err);
/* Collects what was recorded since from_ns, at most `requests_most` requests: all of one scheduling thread, then all of
 * the next. Some of them may have come before the recording's start_ns. 0, -ENOMEM or, from a cluster's link,
 * -ETIMEDOUT; free it in any case. Any thread. */
int server_recording_read(struct server_recordings *recordings, int64_t from_ns, uint64_t requests_most,
                          struct recording *recording);
