/* model_thread_state.h - what a model thread consists of. For its own files only:
 *
 *     model_thread.c           the loop: takes from the rings, sleeps; start and stop
 *     model_thread_variants.c  variants: which core serves a request's shape, and how cores are made
 *     model_thread_says.c      what rank threads are told: candidates on the board, answers, rates
 *     model_thread_moves.c     variants that move to another rank thread, models that come and go
 */
#pragma once

#include "core/util/heap.h"
#include "sched/core/decision_log.h"
#include "sched/core/shape_queue.h"
#include "sched/threads/model_thread.h"

#define ANSWERED_MAX 64 /* grants whose times are counted together */

/* Steps of a variant's way from one rank thread to another. While LEAVING, the variant answers the grant that it may
 * have been given, and is given no more. */
enum moving {
    SETTLED,
    TO_LEAVE, /* the variant's rank thread is to be told */
    LEAVING,  /* the variant's rank thread was told, and GRANT_LEFT has not come */
    TO_JOIN,  /* the next rank thread is to be told */
};

/* One core and what the thread keeps with it. */
struct variant {
    _Alignas(CACHE_LINE) struct model_core *core;
    uint64_t shape_key;
    int64_t used_ns; /* time of the last arrival; the idle variant with the earliest is given to a new shape */
    struct thread_model_id model;
    struct variant_id id;
    uint32_t generation; /* number of shapes and models that the variant was given to: a run of an earlier one may be
                          * reported late, and says nothing of the present one */
    uint32_t queued;     /* requests in the core's queues */
    uint32_t subcluster,
        subcluster_next; /* rank thread to which the variant belongs; rank thread to which it will belong */
    enum moving moving;
    bool serving;       /* the variant has been given to a shape */
    bool rates_known;   /* model_thread.rates has rates of the variant */
    bool arriving;      /* the variant is on the list `arriving`: arrivals of this turn are not settled */
    bool rates_changed; /* the variant is on the list `rates_changed`: its rates are to be told */
    int64_t origin_ns;  /* time at which the first arrival that is not settled was handed over */
};
_Static_assert(sizeof(struct variant) <= CACHE_LINE, "a request needs one cache line of it");

/* GRANT_MEMORY, as told last. */
struct variant_memory {
    int64_t there_ns, load_ns;
};

/* The variants of a served model. */
struct variant_range {
    struct variant *first;
    uint32_t count;
};

/* The cores of a served model that comes while the thread runs. */
struct model_cores {
    struct thread_model model;
    struct model_core *cores[VARIANTS_MAX];
    int64_t ctrl_ns; /* ctrl_ns with which the cores were made */
};

struct model_thread {
    struct thread_rings rings;
    struct decision_log *log; /* NULL: decisions are not logged */
    uint32_t types;
    bool learn;
    const struct policy_ops *policy;
    const struct policy_options *policy_options;
    struct model_cores **prepared; /* [rings.model_count] cores of models that come: model_thread_prepare() writes them,
                                    * and MODEL_COMES hands them over to the thread */
    struct variant *variants;      /* variants of the thread's models at the start, then of model numbers not in use */
    uint32_t variant_count;
    uint32_t active;              /* variants that have a core */
    struct variant_range *ranges; /* [rings.model_count] variants of each model */
    struct queue_levels *levels;  /* [rings.model_count] limits of each model's queue */
    struct shape_queue shapes;    /* requests whose shape has no variant */
    void *shapes_memory;
    bool emptied;               /* a variant's queue became empty: requests in `shapes` may get the variant */
    uint32_t *index_of_variant; /* [wiring->models] index in `variants`; thread_variant_at() */
    struct profile *scaled[ACCELERATOR_TYPES_MAX]; /* scratch for a new shape's tables */
    struct heap timers;                            /* variants by the time at which their core wants to be stepped */
    struct heap_entry *timer_entries;
    uint32_t *timer_positions;
    uint32_t *arriving; /* [variant_count] variants whose arrivals of this turn are not settled */
    uint32_t arriving_count;
    struct model_rates *rates; /* [variant_count] newest rates of each variant */
    uint32_t *rates_changed;   /* [variant_count] variants with rates that are to be told */
    uint32_t rates_changed_count;
    uint32_t *movers; /* [variant_count] variants of which TO_LEAVE or TO_JOIN is to be told */
    uint32_t mover_count;
    struct variant_memory *memory; /* [variant_count] what variants were told last; NULL: memory is not limited */
    uint64_t *news; /* [rank threads][words of the board] variants, a bit each, whose candidates changed in this turn
                       and are not announced yet */
    struct model_output out;
    bool rank_rung[RANK_THREADS_MAX]; /* rank threads to wake at the end of the turn even if no accelerator is free */
    bool held_up[RANK_THREADS_MAX];   /* a grant of the rank thread waits for room in an executor's ring of plans */
    bool any_held_up;
    uint32_t delays_left; /* models, the last ones, that were not told the newest delays yet */
    /* decisions of this turn, for `times` */
    int64_t oldest_ns; /* time at which the oldest of the requests was handed over */
    uint32_t requests, answered_count;
    struct {
        int64_t granted_ns, due_ns;
    } answered[ANSWERED_MAX];
    struct model_thread_times times;
    /* how busy the thread is */
    int64_t turn_ns;                /* time at which the last turn began, if it had something to do; else 0 */
    int64_t busy_since_ns, busy_ns; /* beginning of the present BUSY_EVERY_NS; time of turns since then */
    double busy;                    /* share of time in turns that have something to do, over RATE_FAST_S */
    pthread_t thread;
    bool started; /* `thread` has been started */
    _Atomic bool stop;
};

static inline struct ring *thread_to_rank(const struct model_thread *t, uint32_t subcluster) {
    return wiring_to_rank(t->rings.wiring, t->rings.index, subcluster);
}

static inline struct ring *thread_grants(const struct model_thread *t, uint32_t subcluster) {
    return wiring_grants(t->rings.wiring, t->rings.index, subcluster);
}

/* The word of `news` that has a variant's bit. */
static inline uint64_t *thread_news(const struct model_thread *t, const struct variant *v) {
    return &t->news[(size_t)v->subcluster * t->rings.wiring->candidates.words + v->id.n / 64];
}

/* The variant of a number. */
static inline struct variant *thread_variant_at(const struct model_thread *t, struct variant_id id) {
    return &t->variants[t->index_of_variant[id.n]];
}

/* The variants of a model. */
static inline struct variant_range thread_variants(const struct model_thread *t, struct thread_model_id model) {
    return t->ranges[model.n];
}

/* The variant that serves a shape now, or NULL. */
static inline struct variant *thread_variant_find(struct model_thread *t, struct thread_model_id model,
                                                  uint64_t shape_key) {
    struct variant_range range = thread_variants(t, model);

    for (struct variant *v = range.first; v < range.first + range.count; v++)
        if (v->serving && v->shape_key == shape_key)
            return v;
    return NULL;
}

/* ---- model_thread_variants.c ---- */

/* Makes the variants of all models, with their cores. 0 or -ENOMEM; call thread_variants_free() in either case. */
int thread_variants_allocate(struct model_thread *t);
void thread_variants_free(struct model_thread *t);
/* Sets the limits of a model's queue. Called before the model's first request. */
void thread_levels_set(struct queue_levels *levels, const struct queue_rules *rules);
/* Gives a variant to a new shape: an unused variant, or the least recently used idle one; NULL: all are busy. */
struct variant *thread_variant_take(struct model_thread *t, struct thread_model_id model, uint64_t shape_key,
                                    float work);
/* Until when a request of a new shape could be in time if it ran alone at once; TIME_NEVER: always. */
int64_t thread_latest_start(const struct model_thread *t, struct thread_model_id model,
                            const struct request_message *message);
/* The limits of a model's queue; NULL: it has none. */
const struct queue_levels *thread_levels(const struct model_thread *t, struct thread_model_id model);

/* What is known of a model that no accelerator has. */
struct variant_memory thread_memory_none(const struct thread_model *model);

/* Logs the beginning of a core that another thread prepared. */
void thread_prepared_log(const struct model_thread *t, const struct variant *v, const struct model_cores *cores);

/* ---- model_thread_says.c ---- */

/* Writes the candidates of the last step on the board. They are announced at the end of the turn, if they are not
 * sub-cluster of an answer. */
void thread_tell_candidate(struct model_thread *t, const struct variant *v, int64_t origin_ns);
/* Sets wiring.loads of the variant to the load that `rates` make; NULL: no load. */
void thread_note_load(const struct model_thread *t, const struct variant *v, const struct model_rates *rates);
/* Notes that the variant has new rates, which thread_tell_rates() tells. */
void thread_note_rates(struct model_thread *t, struct variant *v);
/* Answers a grant with what the core said in the last step. */
void thread_answer(struct model_thread *t, const struct variant *v, int64_t now, const struct grant_message *grant);
/* Whether a message that is no answer may be sent now. Room in the ring is kept for answers. */
bool thread_may_say(const struct model_thread *t, const struct variant *v);
/* Puts a message into the ring to the variant's rank thread. The message has no candidates; the caller fills in the
 * rest before it is published at the end of the turn. */
struct rank_message *thread_say(const struct model_thread *t, const struct variant *v, enum rank_message_kind kind);
/* Sends the newest rates of variants whose rates changed. Rates that do not fit wait, and newer ones replace them. */
void thread_tell_rates(struct model_thread *t);
/* Announces this turn's candidates to the rank thread of a sub-cluster. True if there were any. */
bool thread_announce(struct model_thread *t, uint32_t subcluster);

/* ---- model_thread_moves.c ---- */

/* Does what wiring_move(), wiring_model_comes() or wiring_model_goes() asked for. */
void thread_take_move(struct model_thread *t, const struct model_move *move);
/* GRANT_LEFT has come: the old rank thread does not know the variant any more. */
void thread_variant_left(struct model_thread *t, struct variant *v);
/* Tells rank threads of variants that leave or join, as far as the rings have room. The other variants wait. */
void thread_tell_moves(struct model_thread *t);
