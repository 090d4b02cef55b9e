/* server_statistics.h - a model's statistics, put together from the frontends' counters and the scheduler's. Any
 * thread. */
#pragma once

#include "front/request/statistics.h"

/* `server` is a struct server. Until the server is ready all values are 0. */
void server_statistics(const void *server, uint32_t model, struct model_statistics *statistics);
/* Fills in the statistics of the model's batches of 1, 2, ... items, as in statistics_source. */
void server_batch_statistics(const void *server, uint32_t model, struct batch_statistics *by_size);
