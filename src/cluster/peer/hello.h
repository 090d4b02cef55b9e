/* hello.h - how processes introduce themselves: JSON, since it happens once and its fields may grow. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/peer/wire.h"
#include "core/util/error.h"

struct auth; /* front/net/auth.h */
struct peer; /* cluster/peer/peer.h */

#define HELLO_NAME_MAX    128
#define HELLO_ADDRESS_MAX 128
#define HELLO_TOKEN_MAX   513
#define HELLO_FABRIC_MAX  32
/* Most frontend threads of one process. Handles number a thread as number of the process * HELLO_LANES_MAX + thread. */
#define HELLO_LANES_MAX    16
#define HELLO_REQUESTS_MAX (1u << 20) /* most requests of a process: lanes * slots; others keep memory for each */
#define HELLO_NUMBERS      ((1u << HANDLE_FRONTEND_BITS) / HELLO_LANES_MAX) /* bound of processes' numbers */

/* The number of the process whose request a handle names. */
static inline uint32_t handle_process(uint64_t handle) {
    return handle_frontend(handle) / HELLO_LANES_MAX;
}

/* The place of a handle's request among the lanes * slots requests of the process `number`. HANDLE_STRANGE: the process
 * has no such request. */
#define HANDLE_STRANGE SIZE_MAX
static inline size_t handle_place(uint64_t handle, uint32_t number, uint32_t lanes, uint32_t slots) {
    uint32_t lane = handle_frontend(handle) % HELLO_LANES_MAX, slot = handle_slot(handle);
    bool own = handle_process(handle) == number && lane < lanes && slot < slots;
    return own ? (size_t)lane * slots + slot : HANDLE_STRANGE;
}

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
    uint32_t format;        /* oldest format of frames that the process speaks */
    uint32_t format_newest; /* newest format of frames that the process speaks */
    enum cluster_role role;
    uint64_t incarnation; /* random number, drawn at the process's start: the process's successor has another one */
    uint64_t term;        /* highest term that the process has heard of; 0: none */
    /* From a frontend to its scheduler: its key. In FRAME_FRONTEND, and from a backend to a frontend: the backend's
     * pass (pass.h). Else 0, or no field */
    uint64_t secret[2];
    uint32_t number; /* number within the cluster, from 1 on; given by the scheduler, if possible the same as before */
    uint32_t lanes;  /* threads of a frontend */
    uint32_t slots;  /* requests that each thread of a frontend may have */
    uint32_t accelerators; /* accelerators of a backend */
    uint32_t metrics;      /* TCP port at which the process tells what it does; 0, or no field: not known */
    bool promises;       /* scheduler: requests whose inputs are promised for later may be queued; false if the field is
                            missing */
    uint32_t transports; /* transports for inputs: bits of enum transport_kind */
    char version[32];    /* version of the program */
    char build[16];      /* digest of the files that say what members send each other; "", or no field: not told */
    char name[HELLO_NAME_MAX];       /* name for people */
    char address[HELLO_ADDRESS_MAX]; /* HOST:PORT at which others (of a frontend: backends) reach the process; an empty
                                        host: the one that the connection comes from; "": nowhere */
    char token[HELLO_TOKEN_MAX];     /* token that lets the process in; "": none */
    const struct auth *tokens;       /* FRAME_HELLO has the first of these, as they are then; NULL: `token` */
    char fabric[HELLO_FABRIC_MAX];   /* libfabric's provider; "": no transport `fabric` */
};

/* The name of a process's Unix socket, for other processes of its host. */
#define HELLO_LOCAL_MAX 64
void hello_local_name(uint64_t incarnation, char name[HELLO_LOCAL_MAX]);

/* Sets the formats that this process speaks, and its build. For tests, SYMPHONY_TEST_FORMATS=1,2 sets other formats. */
void hello_formats(struct hello *hello);
/* The newest format that both ends speak. 0, or -EPROTO with a sentence that names both versions; also if no release
 * speaks that format, and members tell different builds. */
int hello_agree(const struct hello *ours, const struct hello *theirs, uint32_t *format, struct sy_error *err);

const char *cluster_role_name(enum cluster_role role);

/* The introduction as text, to be freed; NULL: no memory. */
char *hello_write(const struct hello *hello);
/* Sends the introduction. Without memory nothing is sent, and the other end gives up waiting. */
void hello_send(struct peer *peer, enum frame_kind kind, const struct hello *hello);
/* Reads an introduction; the text need not be terminated. 0, or -EPROTO with a sentence that names the field. */
int hello_read(const char *text, size_t bytes, struct hello *hello, struct sy_error *err);
