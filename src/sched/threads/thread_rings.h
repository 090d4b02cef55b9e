/* thread_rings.h - how a scheduling thread (model_thread.c, central_thread.c) speaks with frontends and executors: the
 * queued requests, refusals, sealed batches, what is measured of them, and the statistics.
 *
 * Owned by its thread; margins, delays and counters are read by anyone. */
#pragma once

#include "core/data/profile.h"
#include "core/data/recorder.h"
#include "core/util/histogram.h"
#include "core/util/margin.h"
#include "model/config/served_model.h"
#include "sched/core/central.h"
#include "sched/core/request_pool.h"
#include "sched/threads/wiring.h"

#define RINGS_POLL_MAX 256 /* messages taken from one ring a turn, so that no ring starves another */
#define RINGS_GROUP    16  /* messages whose cache lines are prefetched together */

/* What a scheduling thread is told of a served model; constant. */
struct thread_model {
    struct place_id place;
    struct variant_id first_variant; /* the first of the model's variants, whose numbers are in a row */
    uint32_t variant_count;
    const struct profile *profiles[CENTRAL_TYPES_MAX];
    uint32_t batch_max;
    int64_t slo_ns;
    double weight;          /* weight of each variant's share under overload; 0: 1 */
    uint64_t weights_bytes; /* bytes of the weights on an accelerator whose memory is limited */
    uint32_t pages;         /* pages that they take there, by which rank threads count; 0 with a central thread */
    int64_t load_ns;        /* time to load them there */
    bool pinned;            /* they are loaded before the model is asked for, and one accelerator keeps them */
    const struct queue_rules *queue; /* rules of the queue, from config.pbtxt; outlive the model; NULL: none */
    int64_t data_ns;                 /* first value of the time to gather an item */
    uint32_t heir_of; /* place, plus 1, of the model whose requests come as this one's from now on; 0: none */
};

/* What a scheduling thread is told of `model`, which has this place; but for its profiles, and its variants.
 * `copy_ns_per_byte`: time to gather a byte of its inputs. */
struct thread_model thread_model_of(const struct served_model *model, struct place_id place, double copy_ns_per_byte);

/* The weights of a model that has its profiles and variants, for rank threads. */
struct rank_weights thread_weights(const struct thread_model *model);

/* Finds `count` variants in a row that are not taken, and marks them in `taken`. Returns the first, or one whose number
 * is VARIANTS_NONE. */
#define VARIANTS_NONE UINT32_MAX
struct variant_id variants_take(bool *taken, uint32_t models, uint32_t count);

struct thread_rings_config {
    struct wiring *wiring;
    uint32_t index;                    /* number of the thread */
    const struct thread_model *models; /* [model_count] models of the thread; copied */
    uint32_t model_count;
    uint32_t queue_max;    /* most requests queued, of all models of the thread */
    int64_t ctrl_ns;       /* first value of the time to dispatch a batch */
    uint32_t types;        /* types of accelerators */
    uint64_t record_bytes; /* bytes for recording the last requests; 0: requests are not recorded */
};

/* Statistics of one served model; written by the thread, read by anyone. */
struct model_counters {
    _Atomic uint64_t refused[REFUSAL_COUNT]; /* requests refused, by reason */
    _Atomic int64_t latency_one_ns;          /* of a run of one item, of the variant and type that ran last */
    struct histogram batch_items;            /* items of sealed batches */
    struct histogram run_ns;                 /* run times of batches */
    _Atomic uint64_t moves;                  /* moves of the model to another rank thread */
};

/* Batches of one size that a served model ran; written by the thread, read by anyone. */
struct batch_counters {
    _Atomic uint64_t batches, gather_ns, run_ns;
};

/* What the thread measures of one served model. */
struct measured_model {
    struct margin gather;    /* time to fetch and copy an item's inputs */
    bool any;                /* an item was measured since delay(b) was last brought up to date */
    _Atomic int64_t data_ns; /* data_ns that the cores use */
};

struct thread_rings {
    struct wiring *wiring;
    uint32_t index, model_count;
    struct thread_model *models;
    struct thread_model_id *model_of_place; /* [places up to the last of this thread] rings_model_of() */
    struct model_counters *counters;
    _Atomic uint32_t *queued; /* [model_count] requests in the queues of each model now; read by anyone. Every request
                               * changes this count, so it is not one of `counters`, which are many lines apart */
    struct batch_counters (*batches)[PROFILE_BATCH_MAX]; /* [model_count] counters of batches of 1, 2, ... items */
    uint32_t types;
    struct recorder recorder;  /* records of the requests handed to the thread */
    _Atomic int64_t *since_ns; /* [model_count] time at which the place got its model; older records are another's */
    struct request_pool pool;
    struct request_node *nodes;
    struct margin wake, dispatch;
    struct histogram errors[CENTRAL_LOAD + 1]; /* differences between the time that a run or a load was predicted to
                                                * take, and took, in ns, by enum central_action_kind; read by anyone */
    struct measured_model *measured;           /* [model_count] */
    _Atomic int64_t ctrl_ns;                   /* ctrl_ns that the cores use */
    bool dispatched;                           /* a dispatch was measured since delay(b) was last brought up to date */
    int64_t delays_next_ns;                    /* time to bring delay(b) up to date next */
    bool *executor_rung, *frontend_rung;       /* threads to wake at the end of the turn */
};

/* A batch to be sealed. */
struct sealed_batch {
    struct thread_model_id model;
    struct variant_id variant; /* batch_plan.variant and batch_plan.generation */
    uint32_t generation;
    uint32_t accelerator;
    uint32_t first, requests, items; /* first node of the list of requests, which go back to the pool; their counts */
    int64_t earliest_ns, latest_ns;  /* limits of the batch's start */
    uint64_t tag;
    int64_t ready_ns; /* time since which the batch has waited for no company; INT64_MIN: it never did */
    int64_t run_ns;   /* run time by the table in force; 0: not known */
};

/* `r` is zeroed. 0 or -ENOMEM with a sentence; call thread_rings_free() in either case. */
int thread_rings_init(struct thread_rings *r, const struct thread_rings_config *config, struct sy_error *err);
void thread_rings_free(struct thread_rings *r);
/* The model of a place. */
static inline struct thread_model_id rings_model_of(const struct thread_rings *r, struct place_id place) {
    return r->model_of_place[place.n];
}
/* What the thread was told of a model. */
static inline struct thread_model *rings_model(const struct thread_rings *r, struct thread_model_id model) {
    return &r->models[model.n];
}
/* Puts another model in the place of a model for which no requests come any more. Its counters become 0. */
void rings_model_set(struct thread_rings *r, struct thread_model_id id, const struct thread_model *model);

/* A request goes back to its frontend. */
void rings_refuse(struct thread_rings *r, struct thread_model_id model, uint32_t port, uint64_t handle,
                  enum refusal reason);
/* A list of requests goes back to the frontends, and their nodes to the pool. */
void rings_refuse_list(struct thread_rings *r, uint32_t first);
/* Seals a batch and sends it to its accelerator, whose ring of plans must have room. */
void rings_send(struct thread_rings *r, int64_t now_ns, const struct sealed_batch *batch);
/* Whether the ring of plans to an accelerator's executor has room for any batch. */
bool rings_fit(const struct thread_rings *r, uint32_t accelerator);
/* Prefetch the cache lines of the counters that rings_send() of `items` items, or rings_ran(), will write. Hints. */
void rings_prefetch_send(const struct thread_rings *r, struct thread_model_id model, uint32_t items);
void rings_prefetch_ran(const struct thread_rings *r, struct thread_model_id model, const struct ran_message *ran);
/* Notes the delays and times that a run measured. */
void rings_ran(struct thread_rings *r, struct thread_model_id model, const struct ran_message *ran);
/* Notes that an action took another time than was predicted; 0: no time was predicted. */
void rings_error_add(struct thread_rings *r, enum central_action_kind kind, int64_t predicted_ns, int64_t took_ns);
void rings_queued_add(struct thread_rings *r, struct thread_model_id model, int32_t change);
/* Brings the delays up to date with the measured ones, every 100 ms. True: they have changed. */
bool rings_follow_delays(struct thread_rings *r, int64_t now_ns);
/* Time to dispatch a batch, but at most the part of slo_ns that a model allows for dispatch. Any thread. */
int64_t rings_ctrl_ns(const struct thread_rings *r, int64_t slo_ns);
/* delay(b) = ctrl + data*b as the cores of a model use it now. Any thread. */
void rings_delays(const struct thread_rings *r, struct thread_model_id model, int64_t *ctrl_ns, int64_t *data_ns);

/* Publishes the turn's plans and refusals, and wakes the executors and frontends that get them. */
void rings_publish(struct thread_rings *r);
/* Whether requests or measured runs wait in the rings. */
bool rings_pending(struct thread_rings *r);

/* Calls take(context, now, message) for each message about a run, and soon(context, ring), if given, before each group
 * of RINGS_GROUP. True: there was a message. */
static inline __attribute__((always_inline)) bool rings_poll_ran(struct thread_rings *r, int64_t now_ns, void *context,
                                                                 void (*take)(void *context, int64_t now_ns,
                                                                              const struct ran_message *message),
                                                                 void (*soon)(void *context, struct ring *ring)) {
    struct wiring *w = r->wiring;
    bool any = false;

    for (uint32_t e = 0; e < w->executors; e++) {
        struct ring *ring = wiring_ran(w, e, r->index);
        const struct ran_message *message;
        for (uint32_t n = 0; n < RINGS_POLL_MAX && (message = ring_peek(ring)); ring_pop(ring), n++) {
            if (soon && n % RINGS_GROUP == 0)
                soon(context, ring);
            take(context, now_ns, message);
            any = true;
        }
        ring_release(ring);
    }
    return any;
}
