/* server_accelerators.c - sends orders to executors: from clients about accelerators, and from the repository thread
 * about models. */
#include <errno.h>

#include "core/data/running.h"
#include "core/system/log.h"
#include "server/process/repository_control.h"
#include "server/process/server_state.h"

static enum accelerator_state state_read(const void *server, uint32_t accelerator, const char **type) {
    const struct server *s = server;
    *type = s->config.accelerators[s->accelerator_type[accelerator]].type;
    return wiring_accelerator_state(&s->wiring, accelerator);
}

static void order_log(uint32_t accelerator, enum accelerator_order order) {
    log_info(order == ACCELERATOR_DRAIN ? "a client drains an accelerator" : "a client has an accelerator join",
             "accelerator=%u", accelerator);
}

/* Frontends call this rarely; the lock is held for one message. */
static int order_pass(void *server, uint32_t accelerator, enum accelerator_order order, struct sy_error *err) {
    struct server *s = server;
    pthread_mutex_lock(&s->commands_lock);
    int rc = wiring_command(&s->wiring, accelerator, order);
    pthread_mutex_unlock(&s->commands_lock);
    if (rc < 0)
        return error_set(err, 503, "accelerator %u has too many orders that it has not read yet", accelerator);
    order_log(accelerator, order);
    return 0;
}

/* ---- accelerators of the processes of `serve --isolate` ---- */

enum accelerator_state server_isolated_state(const struct server *s, uint32_t accelerator) {
    const struct running *running = s->config.cluster->running[accelerator];
    uint8_t state = atomic_load_explicit(&running->state, memory_order_relaxed); /* a word on its own */
    return state < ACCELERATOR_GONE ? (enum accelerator_state)state
                                    : ACCELERATOR_GONE; /* a process may write anything */
}

static enum accelerator_state isolated_read(const void *server, uint32_t accelerator, const char **type) {
    const struct server *s = server;
    *type = s->config.cluster->running_types[accelerator];
    return server_isolated_state(s, accelerator);
}

static int isolated_pass(void *server, uint32_t accelerator, enum accelerator_order order, struct sy_error *err) {
    const struct server_cluster *c = ((struct server *)server)->config.cluster;
    (void)err;
    atomic_store_explicit(&c->running[accelerator]->drained, order == ACCELERATOR_DRAIN, memory_order_relaxed);
    c->running_ring(c->running_context);
    order_log(accelerator, order);
    return 0;
}

void server_obey_parent(struct server *s) {
    const struct server_cluster *c = s->config.cluster;
    if (!c || !c->running || !server_runs(s))
        return;
    bool drained = atomic_load_explicit(&c->running[0]->drained, memory_order_relaxed); /* a lone flag */
    if (drained != s->drained && wiring_command(&s->wiring, 0, drained ? ACCELERATOR_DRAIN : ACCELERATOR_JOIN) == 0)
        s->drained = drained;
}

struct accelerator_source server_accelerators(struct server *s) {
    bool orders = s->config.accelerator_control || s->config.desk ||
                  (s->config.control && s->config.control->mode == CONTROL_EXPLICIT);
    if (s->config.scheduler)
        return (struct accelerator_source){.count = s->config.cluster->running_count,
                                           .read = isolated_read,
                                           .order = orders ? isolated_pass : NULL,
                                           .context = s};
    return (struct accelerator_source){.count = server_runs(s) ? s->wiring.accelerators : 0,
                                       .read = state_read,
                                       .order = orders ? order_pass : NULL,
                                       .context = s};
}

int server_model_command(struct server *s, uint32_t executor, uint32_t model, bool resident) {
    pthread_mutex_lock(&s->commands_lock);
    int rc =
        wiring_model_command(&s->wiring, executor, (struct place_id){model}, s->config.models[model].version, resident);
    pthread_mutex_unlock(&s->commands_lock);
    return rc;
}
