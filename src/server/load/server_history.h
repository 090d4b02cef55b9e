/* server_history.h - the server's counts of the last minutes, second by second, for comparison with replayed
 * recordings. */
#pragma once

#include "core/data/advice.h"
#include "server/load/recording.h"
#include "server/load/server_load.h"

struct server_history;

/* `wanted`: the advice, which looks note. 0 or -ENOMEM; free it in either case. */
int server_history_create(struct server_history **history, const struct scheduling *scheduling,
                          struct model_list *models, const struct advice *wanted);
void server_history_free(struct server_history *history);
/* Saves the counts. Always the same thread. NULL is allowed. */
void server_history_look(struct server_history *history);
/* Copies the counts at the last looks, the oldest first, and their number. NULL without memory. The caller frees it.
 * Any thread. */
struct recording_look *server_history_read(struct server_history *history, uint32_t *count);
