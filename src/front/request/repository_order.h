/* repository_order.h - orders of clients to load and unload models, and the desk where frontends hand them in.
 *
 *     frontend: order_submit() ----desk----> the repository's thread: desk_take(), order_read(), ..., order_return()
 *               order_returned() <---------- back to the frontend that it came from
 *
 * Nobody waits for a lock: both directions are lists, pushed to one by one and taken whole. Orders are rare, so each is
 * allocated. An order's body may be a whole model, so the repository's thread reads it. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/data/tensor.h"
#include "core/system/doorbell.h"
#include "core/util/error.h"
#include "core/util/push_list.h"
#include "model/config/model_override.h"

struct inbox;

enum order_kind {
    ORDER_LOAD,
    ORDER_UNLOAD,
    /* of a parent whose children have the models (server/process/isolated_orders.h): */
    ORDER_BEGIN,  /* all models of the start have been told: they are offered to the cluster */
    ORDER_SETTLE, /* answered once no plan comes any more for what was unloaded or replaced, or after a while */
};
enum order_form { ORDER_JSON, ORDER_PROTOBUF };

struct repository_order {
    struct push_node link;
    struct inbox *home; /* NULL: nobody waits for the answer */
    void *context;      /* the frontend's */
    enum order_kind kind;
    enum order_form form;
    char name[MODEL_NAME_MAX]; /* of the model; with protobuf it comes from the body */
    const char *body;          /* the frontend's memory; stays until the order is returned */
    size_t body_bytes;
    /* the answer */
    unsigned status; /* 200, or with a sentence */
    struct sy_error error;
};

/* Shared by all frontends and the thread that carries orders out; outlives both. */
struct repository_desk {
    struct push_list orders;
    _Atomic bool closed; /* for good: the server is shutting down */
    struct doorbell bell;
};

/* The order after this one in a list that was taken; NULL: it is the last. */
struct repository_order *order_next(const struct repository_order *order);

/* ---- for frontends ---- */

/* Hands an order in, copied; it comes back by order_returned() of `home`. 0, or 503 with a sentence. */
int order_submit(struct repository_desk *desk, const struct repository_order *order, struct sy_error *err);
/* Takes all orders that came back: the oldest, with the others behind it (order_next()). The caller frees each with
 * free(). NULL: none came. Once a turn. */
struct repository_order *orders_returned(struct inbox *home);

/* ---- for the thread that carries them out ---- */

/* Takes all orders that wait: the oldest, with the others behind it; NULL: none wait. */
struct repository_order *desk_take(struct repository_desk *desk);
bool desk_pending(const struct repository_desk *desk);
/* No order is carried out any more: those that wait and those that still come are answered 503. */
void desk_close(struct repository_desk *desk);
/* A model that is to be loaded cannot be found or read: puts Triton's sentence, for which clients look, before the
 * sentence in `err`. Returns the status to answer with: a model that is not there (404) is the server's failure (500),
 * as with Triton. */
int order_poll_failed(const char *name, int status, struct sy_error *err);
/* The order is carried out, its status and sentence are set: hands it back, so that its frontend owns it again. */
void order_return(struct repository_order *order);

/* Reads the body; from protobuf it also sets order->name. 0, or a status with a sentence. Call model_override_free() in
 * either case. */
int order_read(struct repository_order *order, struct model_override *override, struct sy_error *err);
