/* isolated.h - the backends of `serve --isolate`: a process for each accelerator, which is started again when it ends.
 *
 * Each is `symphony backend` (server/commands/backend.c), and joins the scheduler of its parent as any backend of a
 * cluster does. A thread of the parent starts and watches them; they die with it. */
#pragma once

#include <sched.h>
#include <signal.h>

#include "core/util/error.h"
#include "server/commands/serving.h"
#include "server/models/accelerators.h"
#include "server/process/isolated_orders.h"

struct isolated;
struct running;

struct isolated_config {
    const struct serve_settings *settings; /* settings of every backend; outlive the struct isolated */
    const struct accelerator_group *groups;
    uint32_t group_count;
    cpu_set_t cores; /* cores for backends: backend n is pinned to the n-th; empty: no backend is pinned */
};

/* What the backends and their parent share. Constant; belongs to the struct isolated. */
struct isolated_shared {
    const char *address;    /* "@NAME", where the parent's scheduler is to listen (cluster/peer/names.h) */
    const char *token_file; /* file with the token that lets these backends, and no other process, join */
    uint32_t count;
    struct running *const *running; /* [count] memory in which each says what it runs */
    const char *const *types;       /* [count] types of their accelerators */
};

/* Prepares the memory and the token. 0 or -errno with a sentence. */
int isolated_create(struct isolated **isolated, struct isolated_shared *shared, const struct isolated_config *config,
                    struct sy_error *err);
/* The channels to new processes, for orders (server/process/isolated_orders.h). The bell of `desk` rings when there is
 * a new one. Call it before isolated_start(). */
isolated_channel *isolated_channels(struct isolated *isolated, struct repository_desk *desk);
/* `drained` of some struct running has changed: has the backends look. Any thread, until isolated_stop(). */
void isolated_ring(void *isolated);
/* Starts the thread, which starts the backends, once the scheduler listens. All threads of the process must block
 * SIGCHLD. 0 or -errno with a sentence. */
int isolated_start(struct isolated *isolated, struct sy_error *err);
/* Whether a backend has ended by itself, having said why, before any backend of its accelerator served: the server
 * cannot start. Any thread. */
bool isolated_failed(const struct isolated *isolated);
/* Ends the backends, each at the latest `timeout_ns` from now, and frees everything. NULL is allowed. */
void isolated_stop(struct isolated *isolated, int64_t timeout_ns);

#define ISOLATED_STOP SIGUSR1 /* ends a child, which ignores what a terminal or a service manager sends to all */
#define ISOLATED_LOOK                                                                                                  \
    SIGURG /* has a child look at its orders (running.h); does nothing before the child waits for it */

/* In a child, before it does anything else: hides all GPUs but its own, ignores SIGTERM, SIGINT and SIGHUP, and sets
 * the settings that only its parent tells. False: the process was not started by `serve --isolate`, or that parent has
 * ended. */
bool isolated_begin(struct serve_settings *settings);
