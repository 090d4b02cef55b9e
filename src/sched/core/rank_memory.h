/* rank_memory.h - which accelerators have which models, where an accelerator's memory is smaller than all of them. For
 * the files of the rank core only:
 *
 *     rank_memory.c  which accelerators have which models, how much each is used, and who may have a free accelerator
 *     rank_loads.c   what is loaded and unloaded next
 *     rank_spans.c   over which time requests are counted, and what second copies are worth
 *
 *     accelerator 3: pages                            link: one load at a time, beside the runs
 *     | a: runs | b | b's copy of c | d: a guest | free |     <--- e
 *
 * A batch runs only where its model is. How much a model is used is counted twice, and both counts fade: the requests
 * that came for it, and the items that each copy ran. The only copy of a model is worth its requests, one of several
 * is worth what it ran itself, times a factor, and a new one its share of the requests. What is worth least goes first.
 * So a model that is asked for once is the next to go: a thousand cold models, one after the other, take the place of
 * one, and none of those that are hot.
 *
 * A pinned model is loaded before it is asked for, and one copy of it is kept: it goes only with its accelerator, and
 * then another one is kept. On each accelerator room for the largest model is left beside the copies that are kept, so
 * that pinned models never shut another one out.
 *
 * Where accelerators are in other processes (`told`), each tells what memory it has, which models it may load, and
 * which it has when it joins: backends need not have the same models, nor the same memory.
 *
 * The variants of a served model have their weights in common: a copy is of the model, by the number of its first
 * variant, and any of the variants runs where it is. Times of all counts are handed in; nothing here reads a clock. */
#pragma once

#include "core/data/messages.h"
#include "core/util/arena.h"
#include "core/util/heap.h"
#include "sched/core/bit_tree.h"
#include "sched/core/load_time.h"

#define SLOT_NONE UINT32_MAX

struct rank_core;
struct rank_core_config;
struct rank_output;

#define MEMORY_SPANS 3 /* times over which requests are counted */

/* A count that fades, as its logarithm plus the time in units of its time constant: which of two is larger does not
 * change as time passes. */
typedef double fading;
#define FADING_NONE (-1e9)

enum copy_state { COPY_NONE, COPY_LOADING, COPY_THERE };

/* A model on an accelerator. */
struct memory_slot {
    uint32_t model;      /* first of its variants, as in all that is said of models below */
    uint32_t next;       /* next slot of the bucket, or of the list of unused slots */
    uint32_t holds;      /* grants and batches that are not over; a load that is not over holds it, too */
    uint8_t state;       /* enum copy_state */
    bool kept;           /* it is the copy of a pinned model that is never unloaded to make room */
    fading used, ran;    /* items of its batches, and its share of the model's requests when it came, over the span in
                          * force and over the longest */
    int64_t expected_ns; /* time that its load was expected to take */
    int64_t latest_ns;   /* latest begin of its load */
    int64_t ends_ns;     /* expected end of its load */
    int64_t slack_ns;    /* time by which the load may end later, for all that is known */
};

struct memory_accelerator {
    struct memory_slot *slots; /* [rank_memory.slots] */
    uint32_t *buckets;         /* [rank_memory.slots] first slot of the models with this remainder */
    struct heap victims;       /* slots that are not held, by a lower bound of what they are worth */
    double several_log;        /* rank_memory.several_log for which that is one */
    uint32_t unused;           /* first slot of the list of unused ones; SLOT_NONE: there is none */
    uint32_t touched;          /* slots that were ever used */
    uint32_t pages, pages_free;
    uint32_t pages_kept; /* pages of the copies that are kept */
    uint32_t grain;      /* weights take a multiple of so many pages */
    bool begun;          /* told: it has told all that it has since it joined */
    bool cuts;           /* a load may go ahead of another one that is under way */
    bool unlimited; /* told: it has its models for good, has no slots, and is never ordered anything; so also one that
                       has told nothing */
    uint32_t epoch; /* times that the accelerator has lost what it had */
    uint32_t loading, ahead; /* slots whose loads are under way: one that others may go ahead of, one that has gone
                              * ahead; SLOT_NONE: there is none */
    uint32_t moves;          /* moves that have not been reported, at most MEMORY_ORDERS_MOST */
    bool to_empty;  /* it has come back: it is to unload all that it may have, once all grants, batches and moves of
                     * before are over: what these run or load would stay there, and nobody would know of it */
    double busy_ns; /* time of its runs, fading, as of busy_at_ns */
    int64_t busy_at_ns;
};

struct memory_model {
    uint32_t pages;
    struct load_time load;
    uint32_t variants;          /* variants that have these weights; 0: the number is not that of a first variant */
    uint32_t copies;            /* accelerators that have the model or load it */
    uint32_t there;             /* accelerators that have it */
    uint32_t offers;            /* told: accelerators that may load it */
    uint32_t members;           /* variants of it that are of this sub-cluster */
    uint32_t leaver;            /* variant that leaves once no accelerator has the model; RANK_NOBODY: none */
    uint32_t types;             /* types of accelerators that run it, a bit each */
    uint32_t wanting;           /* variants of it that have something to run */
    bool saves;                 /* one more copy would save the batch that it has now */
    bool pinned, kept;          /* one copy of it is to be kept; one is */
    bool broken;                /* it could not be loaded, and is not tried again before its time in `broken` */
    fading asked[MEMORY_SPANS]; /* requests for it, over each span */
    fading pressed;             /* batches that found its copies busy and other accelerators free */
    int64_t arrives_ns;         /* expected end of its newest load */
};

/* A variant. */
struct memory_variant {
    uint32_t of;   /* its model */
    bool wants;    /* it has something to run */
    bool told;     /* it is not in the list of news */
    uint8_t aside; /* lists (LISTS) in which it has stepped aside, a bit each: no free accelerator has the model */
};

struct rank_memory {
    uint32_t models, accelerators;          /* variants, which are the numbers of models, too; accelerators */
    uint32_t words;                         /* of 64 accelerators each */
    uint32_t pages;                         /* pages of an accelerator */
    uint32_t pages_largest;                 /* pages of the largest model */
    uint32_t slots;                         /* most models on an accelerator */
    struct memory_model *model;             /* [models] */
    struct memory_variant *variant;         /* [models] */
    struct memory_accelerator *accelerator; /* [accelerators] */
    bool told;                              /* as in rank_core_config */
    uint64_t *there;                        /* [models][words] accelerators that have the model, a bit each */
    uint64_t *offered;                      /* [models][words] told: accelerators that may load the model */
    uint64_t *yields; /* [models][words] accelerators that are to give the model up once it does not run there */
    struct bit_tree yielding; /* models with a bit in `yields` */
    struct heap wanting;      /* variants that have something to run, by the least order_ns of their candidates */
    uint32_t *gone;           /* [models] variants that have left since: a stack */
    uint32_t gone_count;
    struct bit_tree freed; /* accelerators that became free, or got a model, and were not looked at since */
    uint32_t asides;       /* variants that have stepped aside */
    uint32_t limited;      /* accelerators that are not `unlimited` */
    /* for rank_loads.c: */
    struct bit_tree idle;    /* accelerators in service whose link is idle */
    struct bit_tree loading; /* those with a load of which another one may go ahead */
    struct bit_tree emptied; /* accelerators that are to unload all, now */
    struct heap retries;     /* accelerators that have refused a load, by when they may be given another */
    struct heap broken;      /* models that could not be loaded, by when they may be tried again */
    struct heap wanted;      /* models that are nowhere and have something to run or are pinned, by the latest begin of
                              * their load */
    struct heap gains;       /* models of which one more copy may pay, the most used or pressed first */
    uint32_t *passed;        /* [models] scratch */
    double pace;             /* as in load_time.h */
    int64_t now_ns;          /* time of the step */
    uint32_t span;           /* span in force */
    double several_log; /* logarithm of what a copy of several is worth, over the span in force, for an item that it ran
                         * over the longest */
    bool full;          /* a copy has made way for a load. From then on are counted: */
    double came[2], lost[2]; /* requests, lately, that found their model on an accelerator, and on none; those lost */
    int64_t span_look_ns;    /* time from which on the next request has the spans compared */
    double missed[MEMORY_SPANS]; /* requests, lately, for models that were not the most asked for over that span */
    double least[MEMORY_SPANS];  /* logarithm of the count that a model needs to be among them */
    double *scratch;             /* [models] */
    uint32_t from;               /* word of accelerators at which the next look for a place begins */
    bool look;                   /* something has changed that may make a load possible */
    bool more;                   /* the step had no room for all loads */
    /* variants that are to be told whether their model is there: a circle, each is in it once */
    uint32_t *news; /* [models] */
    uint32_t news_first, news_count;
};

/* Takes the memory. Returns NULL while the arena only counts. */
struct rank_memory *rank_memory_take(struct arena *arena, const struct rank_core_config *config);
/* The pages that the model's weights take on an accelerator. */
static inline uint32_t rank_memory_pages(const struct rank_memory *m, uint32_t accelerator, uint32_t model) {
    uint32_t grain = m->accelerator[accelerator].grain;
    return (m->model[model].pages + grain - 1) / grain * grain;
}

/* Whether the accelerator has room to keep so many pages more, and beside them for the largest model. */
static inline bool rank_memory_keeps(const struct rank_memory *m, uint32_t accelerator, uint32_t pages) {
    const struct memory_accelerator *at = &m->accelerator[accelerator];
    uint32_t largest = (m->pages_largest + at->grain - 1) / at->grain * at->grain;
    return (uint64_t)at->pages_kept + pages + largest <= at->pages;
}

/* The accelerator is in service from the start. */
void rank_memory_begin(struct rank_memory *m, uint32_t accelerator);

/* The accelerators that have a variant's model, a bit each. */
static inline uint64_t *rank_memory_there(const struct rank_memory *m, uint32_t variant) {
    return &m->there[(size_t)m->variant[variant].of * m->words];
}

static inline bool rank_memory_has(const struct rank_memory *m, uint32_t variant, uint32_t accelerator) {
    return rank_memory_there(m, variant)[accelerator / 64] >> accelerator % 64 & 1;
}

/* ---- rank_memory.c: what happens ---- */

/* A variant joins, which has these weights: before its candidates are stored. */
void rank_memory_join(struct rank_core *core, uint32_t variant, const struct rank_weights *weights);
/* A variant leaves. The accelerators give its model up, if it was the last of its variants. False: it goes for good,
 * and leaves once they have done so (rank_output.gone). */
bool rank_memory_leave(struct rank_core *core, uint32_t variant, bool goes);
/* Something of enum memory_telling is told. */
void rank_memory_told(struct rank_core *core, int64_t now_ns, const struct memory_moved *told);
/* Requests have come for a variant; what the variant has to run has changed. */
void rank_memory_asked(struct rank_core *core, int64_t now_ns, uint32_t variant, const struct model_rates *rates);
void rank_memory_wants(struct rank_core *core, uint32_t variant);
/* The accelerator is granted to a variant whose model it has; the batch of that grant will run `items` for run_ns;
 * grant or batch are over (`epoch`: the accelerator's at the grant). */
void rank_memory_hold(struct rank_core *core, uint32_t accelerator, uint32_t variant);
void rank_memory_runs(struct rank_core *core, int64_t now_ns, uint32_t accelerator, uint32_t variant, uint32_t items,
                      int64_t run_ns);
void rank_memory_release(struct rank_core *core, uint32_t accelerator, uint32_t variant, uint16_t epoch);
/* The accelerator leaves, with all that it has; it comes back. */
void rank_memory_down(struct rank_core *core, uint32_t accelerator);
void rank_memory_up(struct rank_core *core, uint32_t accelerator);

/* ---- rank_memory.c: who may have a free accelerator ---- */

/* The lowest-numbered free accelerator of a type that has the variant's model; RANK_NOBODY: none. */
uint32_t rank_memory_free_find(const struct rank_core *core, uint32_t variant, uint32_t type);
/* While variants have stepped aside: a free accelerator that became free, or got a model, since it was last looked at;
 * RANK_NOBODY: there is none. */
uint32_t rank_memory_freed(struct rank_core *core);
/* Of the variants that a free accelerator can run, the one whose batch goes first; RANK_NOBODY: none may start now, and
 * the accelerator has been looked at. The variants that had stepped aside are in their lists again. */
uint32_t rank_memory_first(struct rank_core *core, int64_t now_ns, uint32_t accelerator);
/* When an accelerator that has the variant's model, or gets it soon, is expected to get to the variant's batch: after
 * what runs, and after the batches of others there that wait and go first. TIME_NEVER: not in time. */
int64_t rank_memory_turn(const struct rank_core *core, int64_t now_ns, uint32_t variant, uint32_t accelerator);
/* A variant's batch or best effort could start, but no free accelerator of the type has its model: it is left out of
 * this list until one has. */
void rank_memory_aside(struct rank_core *core, int64_t now_ns, uint32_t variant, uint32_t type, uint32_t list);

/* ---- rank_memory.c: for rank_loads.c ---- */

/* The count as of now. */
double fading_at(fading value, int64_t now_ns, double fade_ns);
void fading_add(fading *value, int64_t now_ns, double fade_ns, double count);
/* A key for heaps. */
int64_t fading_key(fading value);
/* A batch, a grant or a move of an accelerator that has come back may have been its last one of before. */
void memory_empty_look(struct rank_core *core, uint32_t accelerator);
/* The copy of a model on an accelerator; SLOT_NONE: it has none. */
uint32_t memory_slot_find(const struct rank_memory *m, uint32_t accelerator, uint32_t model);
/* A copy that is being loaded takes its pages. */
uint32_t memory_slot_take(struct rank_memory *m, int64_t now_ns, uint32_t accelerator, uint32_t model);
/* A copy is gone. */
void memory_slot_give(struct rank_core *core, uint32_t accelerator, uint32_t slot);
/* A load is over, or an accelerator that joins had the model: its batches may run there. */
void memory_slot_ready(struct rank_memory *m, uint32_t accelerator, uint32_t slot);
/* An accelerator may not load a model any more, as far as is known. */
void memory_offer_end(struct rank_memory *m, uint32_t accelerator, uint32_t model);
/* An accelerator is to give a model up. */
void memory_yield_add(struct rank_memory *m, uint32_t accelerator, uint32_t model);
/* An accelerator has given a model up, for good. */
void memory_yielded(struct rank_memory *m, uint32_t accelerator, uint32_t model);
/* What a copy is worth. */
fading memory_slot_worth(const struct rank_memory *m, const struct memory_slot *slot);
/* Puts a copy that may have been changed among the victims, if it is not held. */
void memory_slot_place(struct rank_memory *m, uint32_t accelerator, uint32_t slot);
/* All variants of the model are to be told whether it is there. */
void memory_news_add(struct rank_memory *m, uint32_t model);

/* ---- rank_loads.c ---- */

/* How long a load of the model is expected to take. */
int64_t rank_loads_time(const struct rank_memory *m, uint32_t model);

#define MEMORY_PRESS_NS 2e9 /* time constant of `pressed` */
#define MEMORY_BUSY_NS  2e9 /* time constant of `busy_ns` */

/* Puts the model among those that are wanted, if it is. */
void rank_loads_want(struct rank_core *core, uint32_t model);
/* A copy more of the model may pay: requests came for it while it was nowhere, or batches while its copies were busy.
 */
void rank_loads_gain(struct rank_core *core, int64_t now_ns, uint32_t model);
/* The model's batch will be lost on the accelerators that have it: another copy may save it. */
void rank_loads_save(struct rank_core *core, int64_t now_ns, uint32_t model);
/* Gives loads, and unloads before them, to accelerators whose link is idle. */
void rank_loads_schedule(struct rank_core *core, int64_t now_ns, struct rank_output *out);
/* A load or an unload is over. */
void rank_loads_moved(struct rank_core *core, int64_t now_ns, const struct memory_moved *moved);
/* When to schedule again, if no event comes before; TIME_NEVER: not before. */
int64_t rank_loads_next(const struct rank_core *core, int64_t now_ns);

/* ---- rank_spans.c ---- */

extern const double memory_spans_ns[MEMORY_SPANS]; /* time constants of `asked` */
/* Counts requests for a model, and those that were lost. */
void rank_spans_count(struct rank_memory *m, int64_t now_ns, uint32_t model, const struct model_rates *rates);

/* The time constant in force, which is that of `used`, too. */
static inline double memory_span_ns(const struct rank_memory *m) {
    return memory_spans_ns[m->span];
}
