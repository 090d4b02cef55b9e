/* server_statistics.h - a model's statistics, put together from the frontends' counters and the scheduler's. Any
 * thread. */
#pragma once

#include "front/request/statistics.h"
#include "server/threads/executors.h"
#include "server/threads/model_list.h"
#include "server/threads/readiness.h"
#include "server/threads/scheduling.h"

/* Where the counters are. Constant. */
struct server_statistics {
    const struct model_list *list;
    const struct executors *executors;
    const struct readiness *readiness;
    const struct scheduling *by; /* scheduling of this process, here or beside it; NULL: it is in another process */
};

/* The functions of a statistics_source, whose context is a struct server_statistics. Until the server is ready all
 * values are 0. */
void server_statistics_read(const void *statistics, uint32_t model, struct model_statistics *to);
void server_statistics_read_batches(const void *statistics, uint32_t model, struct batch_statistics *by_size);

/* The rings of the thread that schedules a model, and the model's place there, which models that share their first
 * layers have in common. NULL: the scheduler is another process, or has no place for it. */
const struct thread_rings *server_statistics_rings(const struct server_statistics *statistics, uint32_t model,
                                                   struct thread_model_id *thread_model);
