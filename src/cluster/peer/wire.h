/* wire.h - the messages between processes of a cluster: frames in a stream, little-endian.
 *
 *     struct frame | head: `head_bytes`, structs or JSON | body: `body_bytes`, the data of tensors
 *
 * The messages that threads of one process send through rings (core/data/messages.h) are sent as the same structs, many
 * in a frame. Times are of the sender's clock, unless a frame's comment says otherwise, and are converted by the
 * receiver. JSON is used for rare messages: joining, models. A frame of an unknown kind closes the connection;
 * wire_head_check() checks a head before it is used.
 *
 * Each process speaks all formats of frames from WIRE_FORMAT_OLDEST to WIRE_FORMAT_NEWEST, and names these two when it
 * introduces itself. A link uses the newest format that both ends speak (hello_agree(), struct peer's format). There is
 * one format so far. Once there is a release, any change or addition of a frame makes a new format, and a release also
 * speaks the format of the release before. Until then a format changes from commit to commit, so that members of
 * different builds refuse each other (struct hello's build). Introductions, refusals, pings and visitors' frames are
 * the same in all formats. A kind keeps its number for ever. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/data/card.h"
#include "core/data/messages.h"
#include "core/util/error.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structs go over the wire as they lie in memory");

#define WIRE_FORMAT_OLDEST   1
#define WIRE_FORMAT_NEWEST   1
#define WIRE_FORMAT_RELEASED 0 /* newest format that a release speaks: it does not change any more */

#define WIRE_HEAD_MAX  ((uint32_t)1 << 20) /* most bytes of a head */
#define WIRE_MODEL_MAX ((uint32_t)4 << 20) /* most bytes of a head with a model's description */
#define WIRE_BODY_MAX  ((uint64_t)5 << 30) /* most bytes of a body */
#define WIRE_TEXT_MAX  1024                /* most bytes of a sentence */
#define WIRE_MANY      512                 /* structs in a frame, after which its sender begins the next one */

/* Longest time from a request's arrival to its deadline. Frontends allow clients a day, and
 * models a year (model_description.c); best effort waits beyond that. */
#define WIRE_REQUEST_MOST_NS (20 * 365 * 24 * 3600 * NS_PER_S)
/* Whether a run, or what precedes it, can have taken so long, as another process measured it: not longer than since its
 * plan was sealed, but for what two clocks may disagree. */
static inline bool wire_run_possible(int64_t took_ns, int64_t since_ns) {
    return took_ns <= since_ns + since_ns / 16 + 10 * NS_PER_MS;
}

enum frame_kind {
    /* any link */
    FRAME_HELLO = 1, /* JSON (hello.h): introduction of the connecting process; the first frame */
    FRAME_WELCOME,   /* JSON (hello.h): introduction of the other process, which accepts the connection */
    FRAME_REFUSED,   /* sentence: the connection is refused, or a scheduler has no room for a member's models and
                        accelerators; the connection is closed */
    FRAME_PING,      /* struct wire_ping */
    FRAME_PONG,      /* struct wire_ping */
    FRAME_BYE,       /* empty: the sender leaves for good, and has no requests or batches any more */
    /* member -> scheduler */
    FRAME_MODEL = 16, /* backend: u32 the backend's number of the model, then a description (model_description.h); also
                         after FRAME_TOLD */
    FRAME_ACCELERATORS, /* backend: struct wire_accelerator[], after all models */
    FRAME_REQUESTS,     /* frontend: struct wire_request[] */
    FRAME_RAN,          /* backend: struct ran_message[] */
    FRAME_FREED,        /* backend: struct freed_message[] */
    FRAME_UNDELIVERED,  /* backend: struct wire_lost[] of requests that it was sent; the scheduler tells their frontends
                         */
    FRAME_MODEL_LEFT,   /* frontend: u32[] models of FRAME_MODEL_GONE or _ENDS, for which no more requests come */
    FRAME_MEMORY, /* backend: struct wire_memory, u32[] its numbers of the models that the accelerator has; before it
                     joins, if its memory is limited */
    FRAME_MOVED,  /* backend: struct wire_moved[], the ends of FRAME_MOVES, as they end */
    /* scheduler -> member */
    FRAME_SERVE = 32, /* frontend: u32 the scheduler's number of a model or ensemble, then a description; no model has
                         the number of an ensemble */
    FRAME_MODEL_GONE, /* frontend: u32[] the scheduler's numbers of models or ensembles that are gone */
    FRAME_REFUSALS,   /* frontend: struct refusal_message[] */
    FRAME_RESULTS,    /* frontend: struct wire_lost[] */
    FRAME_FRONTEND,   /* backend: JSON (hello.h), introduction of a frontend */
    FRAME_FRONTEND_GONE, /* backend: u32 number of the frontend that is gone */
    FRAME_TOLD,          /* empty: everything was announced (models, accelerators, frontends); anything else is gone */
    FRAME_PLANS, /* backend: struct batch_plan[], each followed by its handles, and by a struct wire_plan_pass for
                    each frontend that has requests in it */
    /* scheduler -> scheduler */
    FRAME_HEARTBEAT = 40, /* struct wire_heartbeat */
    /* between scheduler and member */
    FRAME_RESTS = 41,  /* to a backend: u32[] its accelerators that leave, for which no more plans come */
    FRAME_MODEL_ENDS,  /* from a backend: u32[] its numbers of models that it wants to run no more; to a frontend: as
                          FRAME_MODEL_GONE, but the requests in the scheduler still run */
    FRAME_MODEL_RESTS, /* to a backend: u32 its number of a model that no plan needs any more */
    FRAME_ADVICE,      /* to a frontend: u32 the advised number of accelerators */
    FRAME_ASIDE,       /* from a backend: JSON (aside.h), all models that it has and does not serve */
    FRAME_MOVES,       /* to a backend: struct wire_move[], what its accelerators are to load and unload */
    FRAME_ROLLOUTS,    /* to a member, which keeps it, and from it: JSON (rollouts.h), versions that were stated */
    /* backend -> frontend */
    FRAME_PULL = 48, /* u64 handles[] of requests whose cards and inputs are to be sent */
    FRAME_TAKEN,     /* u64 handles[] of requests whose cards, and perhaps inputs, were read in the frontend's memory */
    FRAME_RESULT, /* struct wire_result, struct wire_tensor[]; body: the tensors, or the sentence why there are none */
    FRAME_WHERE,  /* u64 handles[] of requests whose inputs' places are wanted; the inputs are kept until FRAME_READ */
    FRAME_READ,   /* u64 handles[] of FRAME_LIES, whose inputs were read, or will not be */
    FRAME_PASS, /* struct wire_pass[], each followed by its handles: the sender has a plan for these requests. Only then
                   may it name them in the other frames */
    /* frontend -> backend */
    FRAME_CARD = 64, /* struct wire_card, struct card_input[]; body: the inputs, one behind the other */
    FRAME_NO_CARD,   /* u64 handle of a request that is not here any more */
    FRAME_REGIONS,   /* struct wire_region[]: memory to be mapped, with a descriptor each; only over a Unix socket */
    FRAME_FABRIC,    /* struct wire_fabric, struct wire_fabric_region[]: memory to be read by libfabric */
    FRAME_LIES,      /* struct wire_card, struct card_input[]: the inputs' places in the regions of FRAME_FABRIC */
    FRAME_UNREADY,   /* struct wire_card, struct card_input[], without a body: the inputs are still being prepared */
    FRAME_READY,     /* u64 handles[] of FRAME_UNREADY, whose inputs are there now and can be pulled */
    FRAME_FAULTS,    /* u64 served_model_key()[] of models: a run failed at the receiver, and the same request ran at
                        another backend; one for each such request */
    /* visitor -> scheduler, which answers with FRAME_STATUS or FRAME_REFUSED */
    FRAME_STATUS = 80, /* empty: the question; body: the answer, JSON (scheduler_status.c) */
    FRAME_DRAIN,       /* number or name of a member that is to end; empty when passed on to that member */
    FRAME_CORDON,      /* number or name of a backend that is to get no more batches, and stay; empty when passed on to
                          that backend, and when it says that it does so */
    FRAME_UNCORDON,    /* the same, of a backend that is to get batches again */
    FRAME_ROLLOUT, /* JSON (rollouts.h), which version of a model is to get requests; answered when it is recorded */
};

struct frame {
    uint64_t body_bytes;
    uint32_t head_bytes;
    uint16_t kind;  /* enum frame_kind */
    uint16_t count; /* number of structs in the head; 1 for JSON */
};
_Static_assert(sizeof(struct frame) == 16, "as on the wire");

/* A ping has sent_ns, or 0: it is only a sign of life, without an answer. A pong repeats sent_ns, and adds the times at
 * which the ping came and the pong went, by the clock of the pong's sender. */
struct wire_ping {
    int64_t sent_ns, came_ns, went_ns;
};

#define WIRE_RESIGNS 2
struct wire_heartbeat {
    uint64_t term; /* highest term that the sender has heard of */
    uint64_t incarnation;
    uint32_t seniority;
    uint32_t leads; /* 1: the sender leads that term; WIRE_RESIGNS: it does, and another one is to lead the next */
};

struct wire_accelerator {
    char type[64];
};

/* The memory of an accelerator, as it joins. `count` numbers of models follow. */
struct wire_memory {
    uint32_t accelerator;
    uint32_t session; /* number of this joining, which comes back in struct wire_move */
    uint32_t pages;   /* memory for models, in MiB */
    uint32_t grain;   /* what a model takes is a multiple of so many */
    uint32_t cuts;    /* 1: a load may go ahead of another one that is under way */
    uint32_t count;
};

#define WIRE_GRAIN_MAX 128

struct wire_move {
    uint32_t accelerator, session;
    uint32_t model; /* the backend's number; EMPTY: none */
    uint8_t kind;   /* enum central_action_kind: LOAD, UNLOAD or EMPTY */
    uint8_t ahead;  /* as in struct move_order */
    uint8_t pad[2];
    int64_t latest_ns; /* latest begin; TIME_NEVER: none */
};

struct wire_moved {
    uint32_t accelerator, model;
    uint8_t kind, done, failed; /* as in struct memory_moved */
    uint8_t pad[5];
    int64_t took_ns;
};

/* struct request_message as it is sent. */
struct wire_request {
    uint64_t handle;
    int64_t arrival_ns, deadline_ns;
    uint64_t shape_key;
    float work;
    uint32_t model; /* the scheduler's number of the model */
    uint16_t items, batch_most;
    uint16_t port;
    uint8_t kind, priority;
    int64_t ready_ns;
};

static inline struct wire_request wire_request_of(const struct request_message *message) {
    return (struct wire_request){.handle = message->handle,
                                 .arrival_ns = message->arrival_ns,
                                 .deadline_ns = message->deadline_ns,
                                 .shape_key = message->shape_key,
                                 .work = message->work,
                                 .model = message->place.n,
                                 .items = (uint16_t)message->items,
                                 .batch_most = message->batch_most,
                                 .port = message->port,
                                 .kind = message->kind,
                                 .priority = message->priority,
                                 .ready_ns = message->ready_ns};
}

static inline struct request_message wire_request_message(const struct wire_request *request) {
    return (struct request_message){.handle = request->handle,
                                    .arrival_ns = request->arrival_ns,
                                    .deadline_ns = request->deadline_ns,
                                    .shape_key = request->shape_key,
                                    .work = request->work,
                                    .place = {request->model},
                                    .items = request->items,
                                    .batch_most = request->batch_most,
                                    .port = request->port,
                                    .kind = request->kind,
                                    .priority = request->priority,
                                    .ready_ns = request->ready_ns};
}

/* A card without its inputs. `input_count` struct card_input follow, with offsets from the body's begin. */
struct wire_card {
    uint64_t handle;
    int64_t deadline_ns;
    uint32_t items;
    float work;
    uint32_t input_count;
    uint8_t delay, alone;
    uint16_t avoid;
};

/* A card as it is sent, with the handle that the receiver knows. The card's values are not checked. The card may belong
 * to another process, which may write it at the same time, so each field is read only once. */
static inline struct wire_card wire_card_of(const struct request_card *card, uint64_t handle) {
    return (struct wire_card){.handle = handle,
                              .deadline_ns = card->deadline_ns,
                              .items = card->items,
                              .work = card->work,
                              .input_count = card->input_count,
                              .delay = card->delay,
                              .alone = card->alone,
                              .avoid = (uint16_t)card->avoid};
}

/* struct result_message without the fields that have a meaning only in the sender's process. */
struct wire_outcome {
    uint64_t handle;
    int64_t run_start_ns, run_end_ns; /* times of the run, if OK or FAILED; else 0 */
    uint32_t batch_items;
    uint8_t status, refusal; /* enum request_status, enum refusal */
    uint8_t suspect, broke, absent;
    uint8_t reason;  /* enum lost_reason (lost.h), if LOST */
    uint8_t unready; /* the inputs were not prepared when the batch began, if LOST */
    uint8_t pad;
    struct batch_past past; /* `accelerator` is the backend's number; `before` a model's key */
};

/* A request that is lost. */
struct wire_lost {
    uint64_t handle;
    uint32_t reason; /* enum lost_reason (lost.h) */
    uint32_t pad;
};

/* Cards of one of a frontend's threads (cards_bytes()), or a region that inputs lie in. */
struct wire_region {
    uint64_t bytes;
    uint32_t number; /* number of the thread, or of the region */
    uint32_t cards;  /* 1: the memory holds cards; 0: inputs */
};

/* The address at which the sender accepts a connection by libfabric, and the secret to be shown there. If the address
 * names no host (INADDR_ANY), the host is the one at the other end of the link. */
#define WIRE_FABRIC_ADDRESS 128
#define WIRE_REGIONS_MAX    64
struct wire_fabric {
    uint64_t secret[2];
    uint32_t region_count;
    uint32_t pad;
    char address[WIRE_FABRIC_ADDRESS]; /* struct sockaddr_storage */
};

/* A region that inputs lie in; its number is its place in the array. */
struct wire_fabric_region {
    uint64_t remote, bytes, key;
};

/* The pass of a plan for the requests of one frontend. */
struct wire_plan_pass {
    uint32_t frontend; /* number of the frontend */
    uint32_t requests; /* number of its requests */
    uint64_t pass[2];  /* pass.h */
};

struct wire_pass {
    uint64_t pass[2];
    uint32_t count; /* number of handles */
    uint32_t pad;
    uint64_t handles[];
};

struct wire_result {
    struct wire_outcome outcome;
    uint32_t tensor_count; /* number of tensors; 0 with a body: the body is a sentence */
    uint32_t pad;
};

struct wire_tensor {
    uint64_t bytes;
    uint32_t dim_count;
    uint32_t pad;
    int64_t dims[TENSOR_DIMS_MAX];
};

_Static_assert(offsetof(struct wire_request, ready_ns) == 48, "as on the wire");
_Static_assert(sizeof(struct wire_request) == 56, "as on the wire");
_Static_assert(sizeof(struct refusal_message) == 32, "as on the wire");
_Static_assert(sizeof(struct ran_message) == 64, "as on the wire");
_Static_assert(sizeof(struct freed_message) == 24, "as on the wire");
_Static_assert(sizeof(struct batch_plan) == 64, "as on the wire");
_Static_assert(sizeof(struct card_input) == 88, "as on the wire");
_Static_assert(sizeof(struct wire_move) == 24, "as on the wire");
_Static_assert(sizeof(struct wire_moved) == 24, "as on the wire");
_Static_assert(sizeof(struct wire_fabric) == 152, "as on the wire");
_Static_assert(sizeof(struct wire_result) == 64, "as on the wire");
_Static_assert(sizeof(struct wire_plan_pass) == 24, "as on the wire");
_Static_assert(sizeof(struct wire_pass) == 24, "as on the wire");

/* Bytes of a plan in a frame, whose requests are of so many frontends. */
static inline size_t wire_plan_bytes(uint32_t requests, uint32_t frontends) {
    return batch_plan_bytes(requests) + frontends * sizeof(struct wire_plan_pass);
}

/* The passes of a plan in a frame. */
static inline struct wire_plan_pass *wire_plan_passes(const struct batch_plan *plan) {
    return (struct wire_plan_pass *)(uintptr_t)&plan->handles[plan->request_count];
}

/* The number of passes of a plan: together they are for all its requests. UINT32_MAX: they are not, within `most`. */
static inline uint32_t wire_plan_frontends(const struct batch_plan *plan, uint64_t most) {
    const struct wire_plan_pass *passes = wire_plan_passes(plan);
    uint64_t requests = 0;
    uint32_t count = 0;
    for (; requests < plan->request_count && count < most && passes[count].requests > 0; count++)
        requests += passes[count].requests;
    return requests == plan->request_count ? count : UINT32_MAX;
}

/* Bytes of a received plan, which was checked. */
static inline uint32_t wire_plan_length(const struct batch_plan *plan) {
    return (uint32_t)wire_plan_bytes(plan->request_count, wire_plan_frontends(plan, UINT32_MAX));
}

/* Reads FRAME_REFUSED: returns -EACCES with the frame's sentence. */
int wire_refused(const struct frame *frame, const void *head, struct sy_error *err);
/* Checks a frame's kind and lengths, before its head is read. 0 or -EPROTO with a sentence. */
int wire_frame_check(const struct frame *frame, struct sy_error *err);
/* Checks that a head fits its frame, which was checked: lengths, counts, and numbers that have bounds. 0 or -EPROTO
 * with a sentence. */
int wire_head_check(const struct frame *frame, const void *head, struct sy_error *err);
