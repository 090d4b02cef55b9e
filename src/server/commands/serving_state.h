/* serving_state.h - the life of a server. For its own files only:
 *
 *     serving.c           settings, start, signals, drain, end
 *     serving_plan.c      the plan that is made from the settings
 *     serving_isolated.c  a server whose accelerators have a process each
 *
 * All of it is the main thread's. */
#pragma once

#include <signal.h>

#include "cluster/peer/hello.h"
#include "cluster/roles/uplink.h"
#include "server/commands/serving.h"
#include "server/commands/watched_files.h"
#include "server/models/accelerators.h"
#include "server/models/deployment.h"
#include "server/models/repository_control.h"
#include "server/process/server.h"

#define READY_EVERY_MS 20 /* time between two looks whether all models are loaded */

/* All that is decided from the settings before any thread starts. */
struct serve_plan {
    struct deployment deployment;
    struct server_config config;
    struct auth *auth; /* tokens of clients; NULL: no token is needed */
    struct repository_control control;
    struct accelerator_group groups[ACCELERATOR_TYPES_MAX];
    uint32_t group_count;
    struct server_cluster cluster;
    struct registry_place place;
    struct auth *cluster_auth;    /* tokens of members; NULL: no token is needed */
    struct tls *cluster_tls;      /* TLS of links; NULL: links are plain text */
    struct watched_files secrets; /* files of all of these */
    char name[HELLO_NAME_MAX], join[4096];
    const char *schedulers[UPLINK_ADDRESSES_MAX]; /* schedulers of --join, or of --peers */
};

/* ---- serving_plan.c ---- */

/* Makes the plan, which is all zeros before, of a process with that role. The settings must outlive it. 0, or -errno
 * with a sentence; the plan is to be freed in either case. */
int serve_plan_make(const struct serve_settings *s, enum wiring_link role, struct serve_plan *plan,
                    struct sy_error *err);
void serve_plan_free(struct serve_plan *plan);
/* The number of threads for each protocol, if the user gives none: as many as cores are left beside the scheduler's
 * threads and CPU accelerators, or beside the link's thread. */
uint32_t serve_frontends_auto(const struct serve_settings *s, enum wiring_link role, const struct serve_plan *plan);

/* ---- serving.c ---- */

/* Blocks the signals that end or change a server, before any thread starts: only serving_signal_until() gets them. */
void serving_signals_block(sigset_t *signals, bool isolated);
/* Waits for a signal until `until_ns`. A signal that has already come is returned at once. Negative: no signal came. */
int serving_signal_until(const sigset_t *signals, int64_t until_ns);
/* Does what a signal asks for; negative: none came. False: the server is to end. */
bool serving_signal_take(struct server *server, struct serve_plan *plan, int signal_number);
/* Sleeps until a signal asks the server to end (false); further ones then end the process as they usually do. With
 * `until_ready`, at most until the models of the start are served or set aside (true). */
bool serving_wait(struct server *server, struct serve_plan *plan, const sigset_t *signals, bool until_ready);
/* Logs which models are served, and where. */
void serving_say_ready(struct server *server, const struct server_config *config);
/* Logs whether accelerators have processes of their own, unless the user said so, and how to have it otherwise. */
void serving_say_isolation(const struct serve_settings *s);

/* ---- serving_isolated.c ---- */

/* Serves until a signal ends the server. Returns the exit status of the command of that name. */
int serve_isolated(const char *command, const struct serve_settings *settings);
