/* hello.h - how processes introduce themselves: JSON, since it happens once and its fields may grow. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/peer/wire.h"
#include "core/util/error.h"

struct peer; /* cluster/peer/peer.h */

#define HELLO_NAME_MAX     128
#define HELLO_ADDRESS_MAX  128
#define HELLO_TOKEN_MAX    513
#define HELLO_FABRIC_MAX   32
#define HELLO_LANES_MAX    16 /* frontend threads of one process; its requests' numbers are number * this + thread */
#define HELLO_REQUESTS_MAX (1u << 20) /* of one process: lanes times slots; others keep memory for each */
#define HELLO_NUMBERS      ((1u << HANDLE_FRONTEND_BITS) / HELLO_LANES_MAX)

enum cluster_role {
    ROLE_SCHEDULER,
    ROLE_FRONTEND,
    ROLE_BACKEND,
    ROLE_VISITOR, /* asks the scheduler one question, and leaves; no member */
    ROLE_COUNT
};

/* Describes a process. In FRAME_HELLO it is the sender; in FRAME_WELCOME the answering process, where `number` is the
 * one given to the other; in FRAME_FRONTEND the announced frontend. */
struct hello {
    uint32_t format;        /* of frames: the oldest that it speaks, */
    uint32_t format_newest; /* and the newest */
    enum cluster_role role;
    uint64_t incarnation;            /* random, drawn at its start: distinguishes a process from its successor */
    uint64_t term;                   /* the highest that it has heard of; 0: none */
    uint32_t number;                 /* within the cluster, from 1; given by the scheduler, if possible the same as
                                      * before */
    uint32_t lanes;                  /* of a frontend: its threads, */
    uint32_t slots;                  /* and requests that each may have */
    uint32_t accelerators;           /* of a backend */
    bool promises;                   /* of a scheduler: it queues requests whose inputs are promised for later; without
                                      * the field it does not */
    uint32_t transports;             /* its transports for inputs: bits of enum transport_kind */
    char version[32];                /* of the program */
    char name[HELLO_NAME_MAX];       /* for people */
    char address[HELLO_ADDRESS_MAX]; /* where others reach it, HOST:PORT; of a frontend: the backends. "": nowhere.
                                      * An empty host means: where this connection comes from */
    char token[HELLO_TOKEN_MAX];     /* "": none */
    char fabric[HELLO_FABRIC_MAX];   /* libfabric's provider, if it has that transport; else "" */
};

/* The name of a process's Unix socket, for processes of its host. */
#define HELLO_LOCAL_MAX 64
void hello_local_name(uint64_t incarnation, char name[HELLO_LOCAL_MAX]);

/* Sets the formats that this process speaks. For tests, SYMPHONY_TEST_FORMATS=1,2 sets others. */
void hello_formats(struct hello *hello);
/* The newest format that both ends speak. 0, or -EPROTO with a sentence that names both versions. */
int hello_agree(const struct hello *ours, const struct hello *theirs, uint32_t *format, struct sy_error *err);

const char *cluster_role_name(enum cluster_role role);

/* Text to be freed; NULL without memory. */
char *hello_write(const struct hello *hello);
/* Sends it. Without memory nothing is sent, and the other end gives up waiting for it. */
void hello_send(struct peer *peer, enum frame_kind kind, const struct hello *hello);
/* 0, or -EPROTO with a sentence that names the field. The text need not be terminated. */
int hello_read(const char *text, size_t bytes, struct hello *hello, struct sy_error *err);
