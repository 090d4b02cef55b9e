/* grpc_message.h - takes one length-prefixed gRPC message apart while it arrives.
 *
 *     |compressed? 1 B|length 4 B, big-endian|message|
 *
 * The large parts of an infer request are its raw_input_contents (field 7). The bytes of each are written only once, as
 * they come, to an aligned place of its own, where they are then used. Everything else is the head: the message without
 * the bytes of those fields, whose tags and lengths stay in it. Other messages, and compressed ones, are all head.
 *
 * Memory is taken as the bytes come, 64 KiB at first: an announced length alone takes little. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/tensor.h"
#include "core/util/error.h"
#include "front/bulk/block_memory.h"

#define GRPC_PREFIX_BYTES      5
#define GRPC_RAW_INPUTS_NUMBER 7  /* number of raw_input_contents in ModelInferRequest */
#define GRPC_FEW_RAWS          16 /* raw inputs that may lie in the block of a small message */

struct grpc_raw {
    char *data; /* bytes of the raw input, aligned to 64 */
    size_t bytes;
};

enum grpc_message_state {
    GRPC_PREFIX,   /* the prefix is being read */
    GRPC_TAG,      /* a field's tag is being read */
    GRPC_LENGTH,   /* a field's length is being read */
    GRPC_VARINT,   /* a field's value, a varint, is being read */
    GRPC_COPY,     /* `left` bytes go into the head */
    GRPC_RAW,      /* `left` bytes go into the last raw input */
    GRPC_COMPLETE, /* the message is complete */
};

struct grpc_message {
    struct block_memory memory;
    size_t bytes_max; /* longest message */
    bool split;       /* raw inputs are put apart: the message is an infer request */
    bool compressed;  /* the prefix says that the message is compressed; nothing is split then */
    enum grpc_message_state state;
    uint8_t prefix[GRPC_PREFIX_BYTES];
    uint32_t prefix_bytes;
    size_t bytes, to_come; /* length of the message; of that, bytes not read yet */
    uint32_t field;        /* number of the field that is being read */
    uint64_t varint;
    unsigned varint_shift;
    size_t left; /* bytes of the present field to come */
    char *head;  /* [head_room] head of the message, of which `head_bytes` have come */
    size_t head_bytes, head_room;
    char *first, *first_end; /* block in which the message began, and its end; NULL: outgrown and given back */
    char *room;              /* place for the next raw input in that block; NULL: the block holds only the head */
    struct grpc_raw *raws;   /* [raw_count] raw inputs: `few_raws`, or a block of `memory` if there are more */
    struct grpc_raw few_raws[GRPC_FEW_RAWS];
    size_t raw_room; /* room for the last raw input */
    uint32_t raw_count;
};

/* At most 4 + TENSORS_MAX blocks of `memory` are in use together. */
void grpc_message_begin(struct grpc_message *message, bool split, size_t bytes_max, struct block_memory memory);
/* Takes the data up to the message's end; *taken is their length. 0, or a status with a sentence: 400 the message is no
 * protobuf, 413 it is too long, 503 no memory. */
int grpc_message_feed(struct grpc_message *message, const void *data, size_t bytes, size_t *taken,
                      struct sy_error *err);
