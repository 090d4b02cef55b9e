/* server_accelerators.c - sends orders to executors: from clients about accelerators, and from the repository thread
 * about models. */
#include <errno.h>

#include "core/system/log.h"
#include "server/process/repository_control.h"
#include "server/process/server_state.h"

static enum accelerator_state state_read(const void *server, uint32_t accelerator, const char **type) {
    const struct server *s = server;
    *type = s->config.accelerators[s->accelerator_type[accelerator]].type;
    return wiring_accelerator_state(&s->wiring, accelerator);
}

/* Frontends call this rarely; the lock is held for one message. */
static int order_pass(void *server, uint32_t accelerator, enum accelerator_order order, struct sy_error *err) {
    struct server *s = server;
    pthread_mutex_lock(&s->commands_lock);
    int rc = wiring_command(&s->wiring, accelerator, order);
    pthread_mutex_unlock(&s->commands_lock);
    if (rc < 0)
        return error_set(err, 503, "accelerator %u has too many orders that it has not read yet", accelerator);
    log_info(order == ACCELERATOR_DRAIN ? "a client drains an accelerator" : "a client has an accelerator join",
             "accelerator=%u", accelerator);
    return 0;
}

struct accelerator_source server_accelerators(struct server *s) {
    bool orders = s->config.accelerator_control || (s->config.control && s->config.control->mode == CONTROL_EXPLICIT);
    return (struct accelerator_source){.count = server_runs(s) ? s->wiring.accelerators : 0,
                                       .read = state_read,
                                       .order = orders ? order_pass : NULL,
                                       .context = s};
}

int server_model_command(struct server *s, uint32_t executor, uint32_t model, bool resident) {
    pthread_mutex_lock(&s->commands_lock);
    int rc = wiring_model_command(&s->wiring, executor, model, s->config.models[model].version, resident);
    pthread_mutex_unlock(&s->commands_lock);
    return rc;
}
