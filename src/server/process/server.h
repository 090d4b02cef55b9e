/* server.h - one process that serves: builds the threads from a configuration, watches them, ends them in order. */
#pragma once

#include "server/threads/server_config.h"

struct inferences_config;
struct model_absent;
struct model_index;
struct repository_desk;
struct server;
struct start_progress;

/* Starts all threads, listens, and begins to load the models on every accelerator. 0 or -errno with a sentence. */
int server_start(struct server **server, const struct server_config *config, struct sy_error *err);
/* The ports that the server listens on; -1: none. */
struct server_ports {
    int http, grpc, metrics, cluster;
};
struct server_ports server_ports(const struct server *server);
/* The configuration of the n-th of `frontends_inside`, for requests from inside this process. One thread of the caller
 * drives a struct inferences (front/request/inference.h) with it, and destroys that before it stops the server. The
 * server's statistics do not count its requests. */
struct inferences_config server_inside(struct server *server, uint32_t n, size_t slot_bytes);
/* The scheduling threads of a server, for measurements (lab/stress/links.h); valid until the server is stopped. */
struct server_scheduler {
    const struct wiring *wiring;
    struct model_thread *const *model_threads; /* [wiring->model_threads] */
    struct rank_thread *const *rank_threads;   /* [wiring->rank_threads] */
    struct scheduler_link *link;               /* NULL: not a scheduler of a cluster */
};
struct server_scheduler server_scheduler(const struct server *server);
/* Tells a frontend of a cluster which models are known here, for its repository index: READY models are to be served,
 * the others are not. Waits until clients see the new index, a second at most, unless `at_once`. One thread at a time.
 */
void server_models_know(struct server *server, const struct model_absent *known, uint32_t count, bool at_once);
/* Tells such a frontend of models that are not served, MODEL_LOADING or set aside, by name and version; the list
 * replaces the one before. One that is served is not shown as absent. Waits until clients see it, a second at most. One
 * thread at a time. */
void server_models_aside(struct server *server, const struct model_absent *aside, uint32_t count);
/* In such a frontend: the hash of a model's description. Call it under server_models_lock(), for listed models. */
uint64_t server_model_hash(const struct server *server, uint32_t model);
/* The list that takes orders about models, with `control`. */
struct repository_desk *server_desk(const struct server *server);
/* Whether all models to load at start-up are served, or could not be loaded; without `control` always true. */
bool server_is_ready(const struct server *server);
/* With `held`: what readiness tells that the server waits for, which the caller writes; and the end of that: the models
 * of the start serve or are set aside. */
struct start_progress *server_start_progress(struct server *server);
void server_begin(struct server *server);
/* repository_thread_failed(): there is nothing to serve, and the server never becomes ready. */
bool server_failed(const struct server *server, struct sy_error *err);
/* The models as they are now. They stay unchanged until they are unlocked; no serving thread waits for the lock. Any
 * thread. */
const struct model_index *server_models_lock(struct server *server);
void server_models_unlock(struct server *server);
/* What is to be done every second, in a server and the one beside it: stops runs that hang; divides ensembles' SLOs
 * anew; looks for outages, at the load, for advice, and whether models should move; saves the counts for recordings.
 * The thread that started the server calls it. */
void server_look(struct server *server);
/* Stops runs that hang, and takes accelerators out of service whose runs cannot be stopped (back/executor/executor.h):
 * while server_look() is not called yet. The same thread. */
void server_watch(struct server *server);
/* Opens the access log anew, for who has renamed its file. The same thread. */
void server_reopen(struct server *server);
/* In a process that `serve --isolate` has started: passes on the order to its accelerator (running.h), if it has
 * changed. The same thread, at the start and whenever the parent asks for it. */
void server_obey_parent(struct server *server);
/* Drains: readiness fails; a model that is being handed over is waited for, at most `timeout_ns`; requests are served
 * for `grace_ns` more; then no new connections are taken, and requests in flight are waited for, again at most
 * `timeout_ns`. Then stops everything and frees it. 0, or -ETIMEDOUT if requests were cut off. -EINPROGRESS: a run that
 * was given up has not ended, and may still read the models and its inputs, so these are not freed: end the process by
 * _exit(). */
int server_stop(struct server *server, int64_t grace_ns, int64_t timeout_ns);
