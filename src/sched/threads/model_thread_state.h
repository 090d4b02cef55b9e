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

#define ANSWERED_MAX 64 /* grants whose times are taken together */

/* Where a variant is on its way from one rank thread to another. Meanwhile it answers grants, and gets no new ones. */
enum moving {
    SETTLED,
    TO_LEAVE, /* its rank thread is to be told */
    LEAVING,  /* it was told; until GRANT_LEFT */
    TO_JOIN,  /* the next rank thread is to be told */
};

/* One core and what the thread keeps of it. */
struct variant {
    _Alignas(CACHE_LINE) struct model_core *core;
    uint64_t shape_key;
    int64_t used_ns;     /* last arrival: the least recently used idle variant is given to a new shape */
    uint32_t model;      /* within the thread */
    uint32_t rank_index; /* the rank core's number of it */
    uint32_t generation; /* counts the shapes and models that it was given to: a run of an earlier one may be reported
                          * late, and says nothing of this one */
    uint32_t queued;
    uint32_t part, part_next; /* the rank thread that it belongs to now, and the one that it will belong to */
    enum moving moving;
    bool serving; /* it has been given to a shape */
    bool rates_known;
    bool arriving;      /* on the list of variants whose arrivals of this turn are not settled */
    bool rates_changed; /* on the list of variants with rates to tell */
    int64_t origin_ns;  /* when the first of the arrivals that are not settled was handed over */
};
_Static_assert(sizeof(struct variant) <= CACHE_LINE, "a request needs one cache line of it");

/* The variants of a served model. */
struct variant_range {
    struct variant *first;
    uint32_t count;
};

/* The cores of a served model that comes while the thread runs. */
struct model_cores {
    struct thread_model model;
    struct model_core *cores[VARIANTS_MAX];
    int64_t ctrl_ns; /* that they were made with */
};

struct model_thread {
    struct thread_rings rings; /* "within the thread", a model's index is that in `rings` */
    struct decision_log *log;  /* NULL: decisions are not logged */
    uint32_t types;
    bool learn;
    const struct policy_ops *policy;
    const struct policy_options *policy_options;
    struct model_cores **prepared; /* [rings.model_count] of models that come: model_thread_prepare() writes one, and
                                    * the message that the model comes hands it over */
    struct variant *variants;      /* its own, then those for model numbers not in use */
    uint32_t variant_count;
    uint32_t active;              /* of these, the ones with a core */
    struct variant_range *ranges; /* [rings.model_count] */
    struct queue_levels *levels;  /* [rings.model_count] */
    struct shape_queue shapes;    /* requests whose shape has no variant */
    void *shapes_memory;
    bool emptied;                    /* a variant's queue became empty: what waits in `shapes` may get it */
    uint32_t *variant_of_rank_index; /* [wiring->models] */
    struct profile *scaled[ACCELERATOR_TYPES_MAX]; /* scratch for a new shape's tables */
    struct heap timers;                            /* variants by when their core wants to be stepped */
    struct heap_entry *timer_entries;
    uint32_t *timer_positions;
    uint32_t *arriving; /* [variant_count] */
    uint32_t arriving_count;
    struct model_rates *rates; /* [variant_count] the newest of those that changed */
    uint32_t *rates_changed;   /* [variant_count] */
    uint32_t rates_changed_count;
    uint32_t *movers; /* [variant_count] variants whose leaving or joining is to be told */
    uint32_t mover_count;
    uint64_t *news; /* [rank threads][words of the board] variants whose candidates changed in this turn and are not
                       announced yet */
    struct model_output out;
    bool rank_rung[RANK_THREADS_MAX]; /* who gets the bell at the end of the turn even if no accelerator is free */
    bool held_up[RANK_THREADS_MAX];   /* a grant of that rank thread waits for room in an executor's ring of plans */
    bool any_held_up;
    uint32_t delays_left; /* models, counted from the last one, that were not told the newest delays yet */
    /* of this turn, for the times */
    int64_t oldest_ns; /* when its oldest request was handed over */
    uint32_t requests, answered_count;
    struct {
        int64_t granted_ns, due_ns;
    } answered[ANSWERED_MAX];
    struct model_thread_times times;
    /* how much of its time is used up */
    int64_t turn_ns; /* when the last turn began, if it had something to do */
    int64_t busy_since_ns, busy_ns;
    double busy; /* share of its time, in the mean over some BUSY_EVERY_NS */
    pthread_t thread;
    bool started; /* the thread is */
    _Atomic bool stop;
};

static inline struct ring *thread_to_rank(const struct model_thread *t, uint32_t part) {
    return wiring_to_rank(t->rings.wiring, t->rings.index, part);
}

static inline struct ring *thread_grants(const struct model_thread *t, uint32_t part) {
    return wiring_grants(t->rings.wiring, t->rings.index, part);
}

/* The word of news that has a variant's bit. */
static inline uint64_t *thread_news(const struct model_thread *t, const struct variant *v) {
    return &t->news[(size_t)v->part * t->rings.wiring->candidates.words + v->rank_index / 64];
}

/* The variant that serves a shape now, or NULL. */
static inline struct variant *thread_variant_find(struct model_thread *t, uint32_t model, uint64_t shape_key) {
    struct variant_range range = t->ranges[model];

    for (struct variant *v = range.first; v < range.first + range.count; v++)
        if (v->serving && v->shape_key == shape_key)
            return v;
    return NULL;
}

/* ---- model_thread_variants.c ---- */

/* The variants of all models, with their cores. 0 or -ENOMEM; thread_variants_free() is due in either case. */
int thread_variants_allocate(struct model_thread *t);
void thread_variants_free(struct model_thread *t);
/* Sets the limits of a model's queue. Before its first request. */
void thread_levels_set(struct queue_levels *levels, const struct queue_rules *rules);
/* A variant for a new shape: an unused or the least recently used idle one, or NULL if all are busy. */
struct variant *thread_variant_take(struct model_thread *t, uint32_t model, uint64_t shape_key, float work);
/* Until when a new shape's request could be in time if it ran alone at once; TIME_NEVER: always. */
int64_t thread_latest_start(const struct model_thread *t, uint32_t model, const struct request_message *message);
/* The limits of a model's queue; NULL: it has none. */
const struct queue_levels *thread_levels(const struct model_thread *t, uint32_t model);

/* Logs that a core begins which was prepared by another thread. */
void thread_prepared_log(const struct model_thread *t, const struct variant *v, const struct model_cores *cores);

/* ---- model_thread_says.c ---- */

/* Writes the newest candidates, of the last step, at once; they are announced at the end of the turn, if they are not
 * part of an answer. */
void thread_tell_candidate(struct model_thread *t, const struct variant *v, int64_t origin_ns);
/* Tells other threads what load these rates make; NULL: no load. */
void thread_note_load(const struct model_thread *t, const struct variant *v, const struct model_rates *rates);
/* The variant has new rates: thread_tell_rates() tells them. */
void thread_note_rates(struct model_thread *t, struct variant *v);
/* Answers a grant by what the last step said. */
void thread_answer(struct model_thread *t, const struct variant *v, int64_t now, const struct grant_message *grant);
/* Whether a message that is no answer may be sent now: room is kept for answers. */
bool thread_may_say(const struct model_thread *t, const struct variant *v);
/* Sends a message without candidates. The caller fills in the rest before the message is published at the end of the
 * turn. */
struct rank_message *thread_say(const struct model_thread *t, const struct variant *v, enum rank_message_kind kind);
/* Sends the rates that changed, the newest only: what does not fit waits, and newer rates replace it. */
void thread_tell_rates(struct model_thread *t);
/* Announces this turn's candidates to the rank thread of a part. True if there were any. */
bool thread_announce(struct model_thread *t, uint32_t part);

/* ---- model_thread_moves.c ---- */

/* Does what wiring_move(), wiring_model_comes() or wiring_model_goes() asked for. */
void thread_take_move(struct model_thread *t, const struct model_move *move);
/* The old rank thread knows nothing of the variant any more. */
void thread_variant_left(struct model_thread *t, struct variant *v);
/* Tells rank threads of variants that leave or join, as far as there is room: the others wait. */
void thread_tell_moves(struct model_thread *t);
