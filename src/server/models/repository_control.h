/* repository_control.h - the thread that loads and unloads models, also those of the start where models neither come
 * nor go.
 *
 * Only this thread loads and unloads. It has models profiled in a child process, makes and warms up their sessions, and
 * hands them over when they are complete, so that no thread that serves waits for it. It carries out one order after
 * the other. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"

struct backend_link;
struct executors;
struct model_list;
struct readiness;
struct repository_control;
struct repository_desk;
struct repository_thread;
struct running;
struct scheduling;

/* What the thread works with. */
struct repository_thread_config {
    const struct repository_control *control;
    struct repository_desk *desk;
    struct model_list *list;
    struct executors *executors;
    const struct scheduling *scheduling;
    struct readiness *readiness;
    struct backend_link *backend; /* link of a cluster's backend; NULL: no cluster's */
    bool joins_at_once;           /* whether that backend joins before the models of the start are prepared */
    struct running *running; /* in a process of `serve --isolate`: its parent measures the models of the start; else
                              * NULL */
};

/* Makes the sentence that a version does not load, in Triton's words. Returns the status for the client, 400. */
int repository_version_failed(const char *name, uint32_t version, const char *reason, struct sy_error *err);
/* Starts the thread, once all others run. It loads the models to load at start-up, which serve one after the other, and
 * then makes the server ready. 0 or -errno with a sentence. */
int repository_thread_start(struct repository_thread **thread, const struct repository_thread_config *config,
                            struct sy_error *err);
/* Whether the models of the start are all that the server ever has (CONTROL_NONE), and none of them can be served: then
 * the server does not become ready, and the sentence says so. Any thread. */
bool repository_thread_failed(const struct repository_thread *thread, struct sy_error *err);
/* Makes the desk: the list to which frontends add orders, waking the thread. Call it before the frontends and the
 * thread start; free() the desk when all of them have ended. NULL without memory. */
struct repository_desk *repository_desk_create(void);
/* Tells the thread to end, once it has carried out the present order; orders are answered 503 from then on. Call it
 * while frontends, scheduler and executors run. NULL is allowed. */
void repository_thread_quit(struct repository_thread *thread);
/* Whether the thread has ended. While the thread hands a model over it waits for executors, which a run that hangs
 * holds up: until the thread has ended, the caller must watch runs. */
bool repository_thread_ended(const struct repository_thread *thread);
/* Tells the thread to end, and waits until it has. Call it once. NULL is allowed. */
void repository_thread_stop(struct repository_thread *thread);
/* Frees what is left. Call it when all other threads have ended. NULL is allowed. */
void repository_thread_free(struct repository_thread *thread);
