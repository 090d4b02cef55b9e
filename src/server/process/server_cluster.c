/* server_cluster.c - a server that is one role of a cluster: its link thread stands for the other roles. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cluster/roles/aside.h"
#include "cluster/roles/backend_link.h"
#include "cluster/roles/frontend_link.h"
#include "cluster/roles/scheduler_link.h"
#include "core/data/running.h"
#include "core/system/clock.h"
#include "core/system/files.h"
#include "core/system/log.h"
#include "core/system/machine.h"
#include "front/net/listen.h"
#include "server/models/cluster_models.h"
#include "server/process/server_state.h"
#include "server/threads/model_control.h"

#define LINK_REQUESTS 262144 /* most requests in the scheduler, of all frontends */
/* Messages that may wait for one model thread; a request beyond that is refused. At 3 M/s this number arrives in 22 ms.
 * The messages take 3 MB, which fit into the caches; with room for all possible requests, 25 MB, each message had to be
 * read from memory. */
#define LINK_REQUEST_SLOTS 65536
#define END_LOOK_NS        (5 * NS_PER_MS)
/* Bytes of the text about models that are not served; the last models are left out. */
#define ASIDE_BYTES_MAX ((size_t)512 << 10)

void server_cluster_plan(struct server *s) {
    struct wiring *w = &s->wiring;
    w->link = server_role(&s->config);
    switch (w->link) {
    case LINK_SCHEDULER:
        w->types = ACCELERATOR_TYPES_MAX;
        w->accelerators = s->config.cluster->accelerators_max;
        w->executors = w->frontends = 1;
        w->port_requests = LINK_REQUESTS;
        w->request_slots = LINK_REQUEST_SLOTS;
        break;
    case LINK_FRONTEND:
        w->pinned = s->config.cluster->fabric != NULL;
        w->types = w->accelerators = w->executors = 1;
        w->model_threads = w->rank_threads = 1;
        w->link_bell = s->config.scheduler ? wiring_link_bell(&s->config.scheduler->wiring) : NULL;
        break;
    case LINK_BACKEND:
        w->model_threads = w->rank_threads = w->frontends = 1;
        break;
    case LINK_NONE:
        break;
    }
}

/* Fills in the greeting by which this process introduces itself. */
static int introduce(const struct server *s, struct hello *self, struct sy_error *err) {
    const struct server_cluster *c = s->config.cluster;
    *self = (struct hello){.term = server_role(&s->config) == LINK_SCHEDULER};
    if (getrandom(&self->incarnation, sizeof(self->incarnation), 0) != sizeof(self->incarnation))
        return error_set(err, -EIO, "no random numbers");
    self->metrics = s->config.metrics_port > 0 ? (uint32_t)s->config.metrics_port : 0;
    snprintf(self->version, sizeof(self->version), "%s", SYMPHONY_VERSION);
    snprintf(self->name, sizeof(self->name), "%s", c->name);
    self->tokens = c->auth;
    if (c->address)
        snprintf(self->address, sizeof(self->address), "%s", c->address);
    else if (server_role(&s->config) == LINK_FRONTEND && listen_names_loopback(c->host))
        snprintf(self->address, sizeof(self->address), strchr(c->host, ':') ? "[%.64s]:%d" : "%.64s:%d", c->host,
                 s->cluster_port);
    else if (server_role(&s->config) == LINK_FRONTEND)
        snprintf(self->address, sizeof(self->address), ":%d", s->cluster_port);
    return 0;
}

static int start_frontend(struct server *s, const struct hello *self, int listen_fd, struct sy_error *err) {
    static const struct frontend_link_ops ops = {.serve = cluster_models_serve,
                                                 .gone = cluster_models_gone,
                                                 .outlasts = cluster_models_outlasts,
                                                 .told = cluster_models_told,
                                                 .look = cluster_models_look,
                                                 .room = cluster_models_room,
                                                 .linked = cluster_models_linked};
    const struct server_cluster *c = s->config.cluster;
    s->cluster_models = cluster_models_create(&s->config, &s->models, &s->readiness,
                                              s->config.scheduler ? s->config.scheduler->scheduling.link : NULL);
    if (!s->cluster_models)
        return error_set(err, -ENOMEM, "no memory for the places of %u models", s->config.model_count);
    const struct frontend_link_config config = {
        .wiring = &s->wiring,
        .schedulers = c->schedulers,
        .scheduler_count = c->scheduler_count,
        .registry = c->registry,
        .host = s->config.scheduler ? scheduler_link_loop(s->config.scheduler->scheduling.link) : NULL,
        .listen_fd = listen_fd,
        .self = *self,
        .fabric = c->fabric,
        .fabric_host = *c->host && strcmp(c->host, "0.0.0.0") != 0 && strcmp(c->host, "::") != 0 ? c->host : NULL,
        .auth = c->auth,
        .tls = c->tls,
        .beat_ns = c->beat_ns,
        .link_wait_ns = c->running_count ? TIME_NEVER : c->link_wait_ns, /* of `serve --isolate` both are here */
        .models = s->config.models,
        .models_max = s->config.model_count,
        .outputs_bytes_max = s->config.outputs_bytes_max ? s->config.outputs_bytes_max : machine_memory_bytes() / 2,
        .advice = &s->advice.wanted,
        .running = c->running,
        .running_count = c->running_count,
        .ops = &ops,
        .context = s->cluster_models,
    };
    return frontend_link_start(&s->frontend_link, &config, err);
}

static int start_backend(struct server *s, const struct hello *self, struct sy_error *err) {
    const struct server_cluster *c = s->config.cluster;
    struct running *running = c->running ? c->running[0] : NULL;
    if (running)
        atomic_store_explicit(&running->incarnation, self->incarnation, memory_order_relaxed); /* a word on its own */
    struct backend_link_config config = {
        .wiring = &s->wiring,
        .schedulers = c->schedulers,
        .scheduler_count = c->scheduler_count,
        .registry = c->registry,
        .self = *self,
        .fabric = c->fabric,
        .transports = c->transports,
        .tls = c->tls,
        .beat_ns = c->beat_ns,
        .models = s->config.models,
        .twins = running,
        .told_of_models = s->config.control,
        .model_count = s->config.model_count,
        .type_count = s->config.type_count,
        .accelerator_type = s->executors.type_of,
        .inputs_bytes_max = s->config.clients.inputs_bytes_max,
        .memory_bytes = s->config.memory_bytes,
        .page_bytes = s->config.page_bytes,
        .state = running ? &running->state : NULL,
    };
    for (uint32_t t = 0; t < s->config.type_count; t++) {
        config.types[t] = s->config.accelerators[t].type;
        config.profiles[t] = s->config.accelerators[t].profiles;
    }
    server_obey_parent(s); /* a drained accelerator whose process was started again does not join */
    return backend_link_start(&s->backend_link, &config, err);
}

static int start_scheduler(struct server *s, const struct hello *self, int listen_fd, struct sy_error *err) {
    const struct scheduler_link_config config = {
        .wiring = &s->wiring,
        .model_threads = s->scheduling.model_threads,
        .central_thread = s->scheduling.central_thread,
        .models_max = s->config.model_count,
        .models_served_max = s->config.model_count - CONTROL_SPARE,
        .listen_fd = listen_fd,
        .local = s->config.cluster->local,
        .self = *self,
        .auth = s->config.cluster->auth,
        .tls = s->config.cluster->tls,
        .peers = s->config.cluster->peers,
        .peer_count = s->config.cluster->peer_count,
        .seniority = s->config.cluster->seniority,
        .registry = s->config.cluster->registry,
        .beat_ns = s->config.cluster->beat_ns,
        .copy_ns_per_byte = s->calibration.copy_ns_per_byte,
        .advice = &s->advice.wanted,
        .orders_loads = s->config.orders_loads && !s->wiring.central,
        .central_loads = s->config.orders_loads && s->wiring.central,
        .backends = s->config.cluster->backends,
    };
    return scheduler_link_start(&s->scheduling.link, &config, err);
}

int server_cluster_start(struct server *s, struct sy_error *err) {
    const struct server_cluster *c = s->config.cluster;
    struct hello self;
    int listen_fd = -1;
    files_allow(files_allow(0) + HELLO_NUMBERS); /* a connection to each possible member */
    int rc = server_role(&s->config) == LINK_BACKEND || c->local
                 ? 0
                 : listen_open(c->host, c->port, "cluster", &listen_fd, &s->cluster_port, err);
    rc = rc < 0 ? rc : introduce(s, &self, err);
    if (rc < 0)
        return rc;
    return server_role(&s->config) == LINK_FRONTEND    ? start_frontend(s, &self, listen_fd, err)
           : server_role(&s->config) == LINK_SCHEDULER ? start_scheduler(s, &self, listen_fd, err)
                                                       : start_backend(s, &self, err);
}

/* Makes the text about the models that this backend has and does not serve (cluster/roles/aside.h). NULL: no memory. */
static char *aside_text(struct server *s) {
    json_t *list = json_array();
    const struct model_index *models = model_list_lock(&s->models);
    for (uint32_t i = 0; i < models->count; i++) {
        const struct served_model *model = &models->models[models->listed[i]];
        if (served_model_state(model) == MODEL_UNAVAILABLE)
            aside_add(list, model->name, model->version, model->reason);
    }
    for (uint32_t i = 0; i < models->absent_count; i++)
        if (models->absent[i].failed)
            aside_add(list, models->absent[i].name, models->absent[i].version, models->absent[i].reason);
    model_list_unlock(&s->models);
    char *text = aside_write(list, ASIDE_BYTES_MAX);
    json_decref(list);
    return text;
}

void server_cluster_look(struct server *s) {
    char *text = s->backend_link ? aside_text(s) : NULL, *copy = NULL;
    if (text && (!s->aside || strcmp(text, s->aside) != 0) && (copy = strdup(text))) {
        backend_link_aside(s->backend_link, copy);
        free(s->aside);
        s->aside = text;
        return;
    }
    free(text);
}

/* Hands a list of models over for the index, and waits until clients see it, a second at most, unless `at_once`. */
static void models_hand(struct server *s, enum models_handed kind, const struct model_absent *list, uint32_t count,
                        bool at_once) {
    int64_t until_ns = clock_now_ns() + NS_PER_S;
    int rc = cluster_models_hand(s->cluster_models, kind, list, count);
    if (rc < 0)
        log_error("models that are not served are not listed", "reason=\"out of memory\"");
    frontend_link_look(s->frontend_link);
    while (rc == 0 && !at_once && !cluster_models_shown(s->cluster_models, kind) && clock_now_ns() < until_ns)
        clock_sleep(END_LOOK_NS);
}

void server_models_know(struct server *s, const struct model_absent *known, uint32_t count, bool at_once) {
    models_hand(s, MODELS_KNOWN, known, count, at_once);
}

void server_models_aside(struct server *s, const struct model_absent *aside, uint32_t count) {
    models_hand(s, MODELS_ASIDE, aside, count, false);
}

uint64_t server_model_hash(const struct server *s, uint32_t model) {
    return cluster_models_hash(s->cluster_models, model);
}

bool server_cluster_drain(struct server *s, int64_t until_ns) {
    if (!s->backend_link)
        return true;
    backend_link_quiesce(s->backend_link);
    while (!backend_link_ended(s->backend_link)) {
        if (clock_now_ns() > until_ns)
            return false;
        clock_sleep(END_LOOK_NS);
        server_watch(s);
    }
    return true;
}

void server_cluster_stop(struct server *s) {
    frontend_link_stop(s->frontend_link);
    /* freed later: scheduling threads and executors still read their memory */
    scheduler_link_stop(s->scheduling.link);
    backend_link_stop(s->backend_link);
    s->frontend_link = NULL;
}

struct link_report *server_cluster_report(struct server *s) {
    return s->scheduling.link ? scheduler_link_report(s->scheduling.link)
           : s->frontend_link ? frontend_link_report(s->frontend_link)
                              : backend_link_report(s->backend_link);
}

void server_cluster_render(struct server *s, struct text *out) {
    link_report_render(server_cluster_report(s), out);
}

bool server_cluster_ready(void *server) {
    struct server *s = server;
    bool draining = atomic_load_explicit(&s->readiness.draining, memory_order_relaxed); /* a lone flag */
    bool prepared = !s->backend_link || server_is_ready(s); /* who replaces an older one waits for its models */
    bool serves = !s->backend_link;
    for (uint32_t a = 0; a < s->wiring.accelerators && !serves; a++)
        serves = wiring_accelerator_state(&s->wiring, a) == ACCELERATOR_SERVING;
    return !draining && prepared && serves && link_report_ready(server_cluster_report(s));
}

void server_cluster_free(struct server *s) {
    free(s->aside);
    s->aside = NULL;
    cluster_models_destroy(s->cluster_models); /* answers that were cut off held them until the frontends were freed */
    s->cluster_models = NULL;
    backend_link_free(s->backend_link);
    scheduler_link_free(s->scheduling.link);
    s->scheduling.link = NULL;
}
