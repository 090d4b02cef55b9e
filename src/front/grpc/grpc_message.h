/* grpc_message.h - takes one length-prefixed gRPC message apart while it arrives.
 *
 *     |compressed? 1 B|length 4 B, big-endian|message|
 *
 * The large parts of an infer request are its raw_input_contents (field 7): each is put at an aligned place of its own
 * as its bytes come, once, so that it can be used there. Everything else is the head: the message without the bytes of
 * those fields, whose tags and lengths stay in it. Other messages, and compressed ones, are all head.
 *
 * Memory is taken as the bytes come, from 64 KiB on: an announcement alone takes little. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/tensor.h"
#include "core/util/error.h"
#include "front/bulk/block_memory.h"

#define GRPC_PREFIX_BYTES      5
#define GRPC_RAW_INPUTS_NUMBER 7  /* field of ModelInferRequest */
#define GRPC_FEW_RAWS          16 /* raw inputs that all fit into the block with a small message */

struct grpc_raw {
    char *data; /* aligned to 64 */
    size_t bytes;
};

enum grpc_message_state {
    GRPC_PREFIX,   /* reading the prefix */
    GRPC_TAG,      /* reading a field's tag */
    GRPC_LENGTH,   /* of a field */
    GRPC_VARINT,   /* a field's value */
    GRPC_COPY,     /* `left` bytes that go into the head */
    GRPC_RAW,      /* `left` bytes that go into the last raw */
    GRPC_COMPLETE, /* all of it is there */
};

struct grpc_message {
    struct block_memory memory;
    size_t bytes_max;
    bool split;      /* an infer request: raw contents apart */
    bool compressed; /* as the prefix says; then nothing is split */
    enum grpc_message_state state;
    uint8_t prefix[GRPC_PREFIX_BYTES];
    uint32_t prefix_bytes;
    size_t bytes, to_come; /* of the message: in all, not read yet */
    uint32_t field;        /* being read */
    uint64_t varint;
    unsigned varint_shift;
    size_t left; /* of the field being read */
    char *head;
    size_t head_bytes, head_room;
    char *first, *first_end; /* the block it began in; NULL: outgrown and given back */
    char *room;              /* in that block, where the next raw input may lie; NULL: it holds the head only */
    struct grpc_raw *raws;   /* [raw_count] in `few_raws`, or, if they are more, in a block of `memory` */
    struct grpc_raw few_raws[GRPC_FEW_RAWS];
    size_t raw_room; /* of the last one */
    uint32_t raw_count;
};

/* At most 4 + TENSORS_MAX blocks of `memory` are in use together. */
void grpc_message_begin(struct grpc_message *message, bool split, size_t bytes_max, struct block_memory memory);
/* Takes what it can of the data; *taken tells how much: less than all only if the message is complete. 0, or a status
 * with a sentence: 400 it is no protobuf, 413 too long, 503 no memory. */
int grpc_message_feed(struct grpc_message *message, const void *data, size_t bytes, size_t *taken,
                      struct sy_error *err);
