/* isolated.h - the backends of `serve --isolate`: a process for each accelerator, which is started again when it ends.
 *
 * Each is `symphony backend` (server/commands/backend.c), and joins the scheduler of its parent as any backend of a
 * cluster does. A thread of the parent starts and watches them; they die with it. */
#pragma once

#include <sched.h>
#include <signal.h>

#include "core/util/error.h"
#include "server/commands/serving.h"
#include "server/process/accelerators.h"
#include "server/process/isolated_orders.h"

struct isolated;
struct running;

struct isolated_config {
    const struct serve_settings *settings; /* what all have in common; outlives them */
    const struct accelerator_group *groups;
    uint32_t group_count;
    cpu_set_t cores; /* the n-th is pinned to the n-th; empty: none is */
};

/* Prepares what they share with their parent. 0 or -errno with a sentence. */
int isolated_create(struct isolated **isolated, const struct isolated_config *config, struct sy_error *err);
/* A file with the token that lets them, and nobody else, join. */
const char *isolated_token_file(const struct isolated *isolated);
/* How many there are, and where each says what it runs. */
uint32_t isolated_count(const struct isolated *isolated);
struct running *const *isolated_running(const struct isolated *isolated);
/* Where channels to new processes are found (server/process/isolated_orders.h), and whose bell rings then; for orders
 * only. Before they start. */
isolated_channel *isolated_channels(struct isolated *isolated, struct repository_desk *desk);
/* Starts them, and the thread. All threads of the process block SIGCHLD. 0 or -errno with a sentence. */
int isolated_start(struct isolated *isolated, int scheduler_port, struct sy_error *err);
/* Ends them, each at the latest `timeout_ns` from now, and frees everything. NULL is allowed. */
void isolated_stop(struct isolated *isolated, int64_t timeout_ns);

#define ISOLATED_STOP SIGUSR1 /* ends a child, which ignores what a terminal or a service manager sends to all */

/* In a child, before it does anything else: gives up what it does not need, and of several GPUs all but its own; sets
 * what only its parent tells. False: it was not started by a parent that isolates, or that has ended. */
bool isolated_begin(struct serve_settings *settings);
