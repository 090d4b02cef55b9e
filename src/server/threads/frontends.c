/* frontends.c - opens the ports for clients, and starts the frontends behind them. */
#include "server/threads/frontends.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/util/counter.h"
#include "front/bulk/bulk.h"
#include "front/grpc/grpc.h"
#include "front/http/http.h"
#include "front/net/listen.h"
#include "front/request/infer_counters.h"
#include "front/request/preparer.h"
#include "front/request/shared_memory.h"

/* The protocols in the order of their frontends. */
static const struct protocol *const protocols[SERVER_PROTOCOLS] = {&http_protocol, &grpc_protocol};

static uint64_t inputs_bytes_max(const struct server_config *c) {
    return c->clients.inputs_bytes_max ? c->clients.inputs_bytes_max : INPUTS_BYTES_MAX;
}

int frontends_init(struct frontends *fs, const struct server_config *c) {
    *fs = (struct frontends){.listen_fds = {-1, -1}, .bound = {-1, -1}};
    if (!server_listens(c))
        return 0;
    fs->each = c->frontends;
    fs->inside = c->frontends_inside;
    fs->count = c->grpc_port < 0 ? fs->each : 2 * fs->each;
    fs->config = c->clients;
    fs->config.model_count = c->model_count;
    fs->config.of_cluster = server_role(c) == LINK_FRONTEND && !c->scheduler;
    fs->config.inputs_bytes_max = inputs_bytes_max(c) / fs->each;
    fs->config.answers_bytes_max /= fs->each;
    fs->config.requests_max = PORT_REQUESTS_MAX;
    fs->config.frontends = fs->count;
    fs->config.connections_max = c->clients.connections_max > 0 ? (c->clients.connections_max + fs->each - 1) / fs->each
                                                                : FRONTEND_CONNECTIONS_MAX;
    fs->config.busy_poll = c->busy_poll;
    fs->ports = calloc(fs->count + fs->inside, sizeof(*fs->ports));
    fs->list = calloc(fs->count, sizeof(*fs->list));
    if (!fs->ports || !fs->list)
        return -ENOMEM;
    return c->shared_memory ? shared_memory_create(&fs->config.shared, c->shared_memory_prefix) : 0;
}

/* Opens a protocol's port and starts its frontends. */
static int start_protocol(struct frontends *fs, uint32_t p, const char *host, int tcp_port, struct sy_error *err) {
    int rc =
        acceptor_group_init(&fs->groups[p], fs->each * fs->config.connections_max, fs->config.connections_per_address);
    rc = rc < 0 ? error_set(err, rc, "no memory for a frontend")
                : listen_open(host, tcp_port, protocols[p]->metrics->title, &fs->listen_fds[p], &fs->bound[p], err);
    for (uint32_t index = p * fs->each; index < (p + 1) * fs->each && rc == 0; index++) {
        struct frontend_config config = fs->config;
        config.listen_fd = fs->listen_fds[p];
        config.index = index % fs->each;
        config.group = &fs->groups[p];
        config.port = fs->ports[index];
        rc = frontend_start(&fs->list[index], protocols[p], &config, err);
    }
    return rc;
}

int frontends_start(struct frontends *fs, const struct server_config *c, struct wiring *w, int64_t reply_ns,
                    struct sy_error *err) {
    for (uint32_t f = 0; f < fs->count + fs->inside; f++)
        if (!(fs->ports[f] = port_create(w, f, reply_ns)))
            return error_set(err, -ENOMEM, "no memory for frontend %u", f);
    /* one thread more than frontends: while one works at a very large body, the others still have one */
    int rc = bulk_create(&fs->config.bulk, fs->each + 1, inputs_bytes_max(c), server_role(c) == LINK_FRONTEND,
                         w->pinned, fs->config.grpc_level, err);
    if (rc == 0) {
        struct region *region = &w->regions[w->frontends];
        region->base = slab_range(bulk_slab(fs->config.bulk), &region->bytes);
        region->fd = slab_fd(bulk_slab(fs->config.bulk));
    }
    if (rc == 0 && c->prepare_threads > 0)
        rc = preparer_create(&fs->config.preparer, c->prepare_threads, err);
    for (uint32_t m = 0; m < c->model_count && fs->config.preparer && rc == 0; m++)
        rc = c->models[m].prepared ? preparer_start(fs->config.preparer, err) : 0;
    rc = rc < 0 ? rc : start_protocol(fs, 0, c->host, c->http_port, err);
    return rc < 0 || c->grpc_port < 0 ? rc : start_protocol(fs, 1, c->host, c->grpc_port, err);
}

void frontends_unlisten(struct frontends *fs) {
    for (int p = 0; p < SERVER_PROTOCOLS; p++) {
        if (fs->listen_fds[p] >= 0)
            close(fs->listen_fds[p]);
        fs->listen_fds[p] = -1;
    }
}

void frontends_free(struct frontends *fs) {
    for (uint32_t f = 0; fs->ports && f < fs->count + fs->inside; f++)
        port_destroy(fs->ports[f]);
    for (int p = 0; p < SERVER_PROTOCOLS; p++)
        acceptor_group_destroy(&fs->groups[p]);
    shared_memory_destroy(fs->config.shared);
    free(fs->ports);
    free(fs->list);
}

void frontends_counters_clear(const struct frontends *fs, uint32_t place) {
    tracing_forget(fs->config.tracing, place);
    for (uint32_t f = 0; f < fs->count; f++) {
        const struct infer_counters *counters = frontends_counters(fs, f);
        struct step_counters *steps = infer_counters_steps_of(counters, place);
        counters_clear(&counters->models[place], sizeof(struct model_infer_counters));
        if (steps)
            counters_clear(steps, sizeof(*steps));
    }
}

bool frontends_hold(const struct frontends *fs, uint32_t model) {
    for (uint32_t f = 0; f < fs->count; f++) /* acquire: with inferences_hold() */
        if (atomic_load_explicit(&frontends_counters(fs, f)->models[model].held, memory_order_acquire) > 0)
            return true;
    return false;
}
