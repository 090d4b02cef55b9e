/* repository_order.h - orders of clients to load and unload models, and the desk where frontends hand them in.
 *
 *     frontend: order_submit() ----desk----> the repository's thread: desk_take(), order_read(), ..., order_return()
 *               order_returned() <---------- back to the frontend that it came from
 *
 * Nobody waits for a lock: both ways are lists that are pushed to and taken whole. Orders are rare, so each is
 * allocated. What is in an order's body is read by the repository's thread, since it may be a whole model. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/doorbell.h"
#include "base/error.h"
#include "base/push_list.h"
#include "repository/model_override.h"
#include "tensor/tensor.h"

struct inbox;

enum order_kind { ORDER_LOAD, ORDER_UNLOAD };
enum order_form { ORDER_JSON, ORDER_PROTOBUF };

struct repository_order {
    struct push_node link;
    struct inbox *home;
    void *context; /* the frontend's */
    enum order_kind kind;
    enum order_form form;
    char name[MODEL_NAME_MAX]; /* of the model; a protobuf body names it */
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

/* The order behind this one in what was taken; NULL: it is the last. */
struct repository_order *order_next(const struct repository_order *order);

/* ---- for frontends ---- */

/* Hands an order in, copied; it comes back by order_returned() of `home`. 0, or 503 with a sentence. */
int order_submit(struct repository_desk *desk, const struct repository_order *order, struct sy_error *err);
/* The oldest of the orders that came back, for the caller to free() like those behind it (order_next()); NULL: none
 * did. Once a turn. */
struct repository_order *orders_returned(struct inbox *home);

/* ---- for the thread that carries them out ---- */

/* The oldest of the orders that wait, and behind it the others; NULL: none do. */
struct repository_order *desk_take(struct repository_desk *desk);
bool desk_pending(const struct repository_desk *desk);
/* Nobody carries orders out any more: those that wait and those that still come are answered 503. */
void desk_close(struct repository_desk *desk);
/* What is to be loaded cannot even be found, or read: puts the sentence behind Triton's, whose clients look for that.
 * Returns the status to answer with: a model that is not there (404) is as with Triton the server's failure (500). */
int order_poll_failed(const char *name, int status, struct sy_error *err);
/* Carried out: order->status and the sentence are set. The order is the frontend's again. */
void order_return(struct repository_order *order);

/* Reads the body: a protobuf one also gives order->name. 0, or a status with a sentence. model_override_free() is due
 * in either case. */
int order_read(struct repository_order *order, struct model_override *override, struct sy_error *err);
