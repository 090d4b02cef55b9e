/* isolated_orders.h - which models are loaded, where they are in the processes of `serve --isolate`: those that clients
 * load, or those that the repository holds. Each process gets each order to load or unload a model. A process that is
 * started again gets all orders in force. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "core/util/error.h"
#include "model/repository/repositories.h"

struct isolated_orders;
struct model_absent;
struct model_index;
struct repository_desk;

/* What clients are served, in the frontends of the parent. */
struct isolated_clients {
    /* The models that are listed, and those that are absent; unlock() follows. */
    const struct model_index *(*lock)(void *context);
    void (*unlock)(void *context);
    /* The hash of a listed model, as of backend_link_model_hash(). Call it between those two. */
    uint64_t (*hash)(void *context, uint32_t place);
    /* server_models_know() */
    void (*know)(void *context, const struct model_absent *known, uint32_t count, bool at_once);
};

/* The parent's end of the channel to a new process, on its way from the thread that starts processes to the thread that
 * has the orders; -1: there is none. */
typedef _Atomic int isolated_channel;

struct isolated_orders_config {
    struct repository_desk *desk;
    isolated_channel *channels; /* [count] by the number of the process */
    uint32_t count;
    struct repositories from; /* repositories whose models are listed; looked at every look_ns */
    int64_t look_ns;
    bool follows; /* the repositories' models are loaded, and unloaded when they have gone; else clients give orders */
    const char *const *names; /* [name_count] names of the models to load at the start; "*": all */
    uint32_t name_count;
    const struct isolated_clients *clients;
    void *context; /* of the functions of `clients` */
};

/* Starts the thread. From then on it serves new processes. 0 or -errno with a sentence. */
int isolated_orders_start(struct isolated_orders **orders, const struct isolated_orders_config *config,
                          struct sy_error *err);
/* Whether each process has been told of all models of the start, and those that it could load are served. */
bool isolated_orders_ready(const struct isolated_orders *orders);
/* Orders are answered 503 from now on; new processes still get the orders in force. When this returns, `clients`
 * is no longer asked. NULL is allowed here and below. */
void isolated_orders_close(struct isolated_orders *orders);
/* Ends the thread. Call it when the frontend has ended. */
void isolated_orders_stop(struct isolated_orders *orders);

/* ---- in a child ---- */

struct isolated_obedience;

/* Starts the thread that passes the parent's orders on. 0 or -errno with a sentence. */
int isolated_obey(struct isolated_obedience **obedience, struct repository_desk *desk, struct sy_error *err);
/* From this call on the thread takes no more orders. isolated_obedience_end() ends the thread; call that when the desk
 * is closed. */
void isolated_obedience_close(struct isolated_obedience *obedience);
void isolated_obedience_end(struct isolated_obedience *obedience);
