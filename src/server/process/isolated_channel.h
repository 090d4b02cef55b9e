/* isolated_channel.h - the channel by which a process of `serve --isolate` gets orders: a pair of Unix sockets of whole
 * messages. A channel carries one order at a time, and then its answer. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"
#include "front/request/repository_order.h"

struct channel_order {
    enum order_kind kind;
    enum order_form form;
    char name[MODEL_NAME_MAX];
    uint64_t body_bytes; /* bytes of the file that comes with the order; 0: no file */
};

/* An answer to an order. */
struct channel_answer {
    unsigned status;
    struct sy_error error;
    uint32_t version_count; /* as in struct repository_order */
    uint64_t versions[VERSIONS_MAX];
};

/* Sends an order, with the file of its body; `fd` -1: it has none. 0 or -EPIPE. */
int channel_order_send(int channel, const struct channel_order *order, int fd);
/* Waits for an order. Sets *fd to the file with the order's body, or to -1. False: the channel is closed. */
bool channel_order_receive(int channel, struct channel_order *order, int *fd);
/* Sends the answer to an order. 0 or -EPIPE. */
int channel_answer_send(int channel, const struct channel_answer *answer);
/* Waits for an answer. False: the channel is closed. */
bool channel_answer_receive(int channel, struct channel_answer *answer);
