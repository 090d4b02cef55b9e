/* repository_order.h - orders of clients to load and unload models, and the desk where frontends hand them in.
 *
 *     frontend: order_submit() ----desk----> the repository's thread: desk_take(), order_read(), ..., order_return()
 *               orders_returned() <--------- back to the frontend that it came from
 *
 * Nobody waits for a lock: each direction is a list, to which orders are pushed one by one, and which is taken whole.
 * Orders are rare, so each one is allocated. The repository's thread parses the body, which may be a whole model. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/data/tensor.h"
#include "core/system/doorbell.h"
#include "core/util/error.h"
#include "core/util/push_list.h"
#include "model/config/model_override.h"
#include "model/config/version_choice.h"

struct inbox;

enum order_kind {
    ORDER_LOAD,
    ORDER_UNLOAD,
    /* orders of a parent whose children have the models (server/process/isolated_orders.h): */
    ORDER_BEGIN,   /* the parent has named all models of the start: they are offered to the cluster */
    ORDER_PREPARE, /* loads a model, which is not served before ORDER_COMMIT */
    ORDER_COMMIT,  /* serves the model that was prepared last, instead of its former versions */
    ORDER_DISCARD, /* frees the model that was prepared last */
};
enum order_form { ORDER_JSON, ORDER_PROTOBUF };

struct repository_order {
    struct push_node link;
    struct inbox *home; /* inbox of the frontend; NULL: nobody waits for the answer */
    void *context;      /* context for the frontend */
    enum order_kind kind;
    enum order_form form;
    char name[MODEL_NAME_MAX]; /* name of the model; with protobuf it is read from the body */
    const char *body;          /* body in the frontend's memory, which stays until the order is returned */
    size_t body_bytes;
    /* the answer */
    unsigned status; /* 200, or another status with the sentence `error` */
    struct sy_error error;
    uint32_t version_count;          /* ORDER_PREPARE: versions that were loaded */
    uint64_t versions[VERSIONS_MAX]; /* [version_count] their hashes, as of backend_link_model_hash() */
};

/* Shared by all frontends and the thread that carries out orders; outlives both. */
struct repository_desk {
    struct push_list orders; /* orders that wait */
    _Atomic bool closed;     /* the server is shutting down: no order is taken any more */
    struct doorbell bell;
};

/* The order after this one in a list that was taken; NULL: this is the last one. */
struct repository_order *order_next(const struct repository_order *order);

/* ---- for frontends ---- */

/* Hands in a copy of the order, which comes back by orders_returned() of its `home`. 0, or 503 with a sentence. */
int order_submit(struct repository_desk *desk, const struct repository_order *order, struct sy_error *err);
/* Takes all orders that came back: the oldest, with the others behind it (order_next()). The caller frees each with
 * free(). NULL: none came. Once a turn. */
struct repository_order *orders_returned(struct inbox *home);

/* ---- for the thread that carries out orders ---- */

/* Takes all orders that wait: the oldest, with the others behind it; NULL: none wait. */
struct repository_order *desk_take(struct repository_desk *desk);
bool desk_pending(const struct repository_desk *desk);
/* No order is carried out any more: those that wait and those that still come are answered 503. */
void desk_close(struct repository_desk *desk);
/* For a model to be loaded that cannot be found or read: puts Triton's sentence, for which clients look, before the
 * sentence in `err`. Returns the status for the client: 500 instead of 404 for a model that is not there, as Triton
 * does. */
int order_poll_failed(const char *name, int status, struct sy_error *err);
/* Hands back an order that is carried out, with its status and sentence set: its frontend owns it again. */
void order_return(struct repository_order *order);

/* Reads the body; from protobuf it also sets order->name. 0, or a status with a sentence. Call model_override_free() in
 * either case. */
int order_read(struct repository_order *order, struct model_override *override, struct sy_error *err);
