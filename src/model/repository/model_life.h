/* model_life.h - the life of a model in a place: prepared, handed over, shown to clients, replaced, taken back, freed.
 * A pure state machine for all places of a process.
 *
 * A place is a number with room for one model. One thread owns the machine. It tells the machine what has happened, and
 * carries out the orders that follow (model_life_next()).
 *
 *               put                prepared              all have it
 *     FREE -----------> PREPARING ----------> ENTERING ----------------> SERVING
 *      ^                 |     | failed          |                        |   ^
 *      |             end |     v                 | end            end, or |   | back
 *      |                 |   FAILED              | (once all      a newer |   |
 *      |                 |     | end             |  have it)      serves  v   |
 *      '---- GOING <-----'-----'-----------------'-------------------- LEAVING
 *  none has it any more                                    nothing holds it
 *
 *     order    in         the owner
 *     ENTER    ENTERING   tells one party that the model comes; the party answers that it has the model
 *     SHOW     SERVING    lets clients find the model
 *     HIDE     LEAVING    lets no new request have the place; what may still come, or is under way, holds the place
 *     TAKE     GOING      tells one party that the model goes; the party answers that it does not have it any more
 *     FREED    FREE       frees what belongs to the model
 *
 * The parties of a place are the process's executors, which run the model, and the thread that schedules it. Executors
 * get the model first, all at once, and give it up last, since the thread's batches run there. For each of them the
 * machine keeps whether it has the model: a bit that is set and cleared by the party's answers, which come in the order
 * of the orders. So a model is absent, coming, there or going on each executor (model_life_on()).
 *
 * Of the models with one key (a name and a version) at most one is SERVING. The newest one wins: it is shown first, and
 * then the other one leaves; an older one that is ready only then is never shown.
 *
 * What holds a place is the owner's business: requests, batches, frontends that may still send, a published list, the
 * places of models that share this one's layers. The owner counts it with model_life_hold() and model_life_release().
 * A place that is held is never taken from a party, nor freed.
 *
 * An order that cannot be carried out now (a ring is full) is given back with model_life_again(), and comes once more
 * after LIFE_AGAIN_NS. Nothing else waits for time: the machine has orders only after something has happened.
 *
 * Each event takes the same time however many places there are. Reads no clock and allocates nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/list.h"
#include "core/util/time.h"

#define LIFE_NONE     UINT32_MAX
#define LIFE_AGAIN_NS NS_PER_MS

enum life_state {
    LIFE_FREE,
    LIFE_PREPARING, /* the owner loads or opens what the model needs; no party has it */
    LIFE_FAILED,    /* the model could not be prepared; the place is kept, with the reason, until the model ends */
    LIFE_ENTERING,  /* parties are told that the model comes */
    LIFE_SERVING,   /* all parties have the model; clients find it */
    LIFE_LEAVING,   /* no client finds the model; something still holds the place */
    LIFE_GOING,     /* parties are told that the model goes */
};

/* The parties of a model. */
enum life_reach {
    LIFE_NOBODY,    /* none: an ensemble, or a process without executors and scheduling threads */
    LIFE_EXECUTORS, /* the executors: a model that is scheduled with others, or by another process */
    LIFE_ALL,       /* the executors and the scheduling thread */
};

enum life_order_kind { LIFE_ENTER, LIFE_SHOW, LIFE_HIDE, LIFE_TAKE, LIFE_FREED };

struct life_order {
    enum life_order_kind kind;
    uint32_t place;
    uint32_t party; /* ENTER, TAKE: number of the executor; life->executors: the scheduling thread */
};

/* Where a model is on one of its parties. */
enum life_on { LIFE_ON_ABSENT, LIFE_ON_COMING, LIFE_ON_THERE, LIFE_ON_GOING };

struct life_place {
    struct list_node node;   /* link in the list of free places, or of moving ones */
    struct list_node due;    /* link in the list of places with orders */
    struct list_node of_key; /* link in the bucket of the key */
    uint64_t key;            /* name and version; 0: the model is not shown, and replaces none */
    uint64_t born;           /* number of the model: later ones have higher numbers */
    int64_t replaced_ns;     /* time at which a newer model of the key took over; 0: none has */
    uint32_t holds;          /* things that hold the place */
    uint32_t parties;        /* parties that have, get or give up the model; 0 before ENTERING */
    uint32_t told, answered; /* ENTERING, GOING: parties that were told, and of these, that have answered */
    uint8_t state;           /* enum life_state */
    bool ends;               /* PREPARING, ENTERING: the model ends once it is prepared, or all have it */
    bool shown;              /* SHOW has been ordered, and not HIDE since */
};

struct model_life {
    uint32_t count, executors; /* number of places; number of executors */
    uint32_t serving;          /* places that are SERVING and have a key */
    uint64_t births;           /* number of the model that came last */
    int64_t again_ns;          /* time of the next try of the orders in `again`; TIME_NEVER: there are none */
    struct list_node free;     /* free places, by life_place.node */
    struct list_node moving;   /* PREPARING, ENTERING, LEAVING and GOING places, by life_place.node */
    struct list_node due;      /* places that may have an order, by life_place.due */
    struct list_node again;    /* places whose order could not be carried out, by life_place.due */
    struct list_node *buckets; /* [count rounded up to a power of two] places by key */
    uint32_t bucket_mask, words;
    uint64_t *has; /* [count][words] a bit for each party that has the model */
    struct life_place places[];
};

/* The memory that model_life_init() needs, zeroed, for so many places. It is not moved afterwards. */
size_t model_life_bytes(uint32_t places, uint32_t executors);
void model_life_init(struct model_life *life, uint32_t places, uint32_t executors);

/* ---- events ---- */

/* A model is to be served: takes a free place for it. LIFE_NONE: there is none. */
uint32_t model_life_put(struct model_life *life, uint64_t key);
/* The model is complete, and goes to its parties. */
void model_life_prepared(struct model_life *life, uint32_t place, enum life_reach reach, int64_t now_ns);
/* The model cannot be prepared. */
void model_life_failed(struct model_life *life, uint32_t place);
/* A party has answered: it has the model, or does not have it any more. An answer that is not due is ignored. */
void model_life_answer(struct model_life *life, uint32_t place, uint32_t party, bool has, int64_t now_ns);
/* The model is not to be served any more. */
void model_life_end(struct model_life *life, uint32_t place);
/* The model is to be served after all. False: it is too late, since the place is GOING or FREE. */
bool model_life_back(struct model_life *life, uint32_t place, int64_t now_ns);
/* `count` more things hold the place, which is not FREE; or no longer do. */
void model_life_hold(struct model_life *life, uint32_t place, uint32_t count);
void model_life_release(struct model_life *life, uint32_t place, uint32_t count);

/* ---- orders ---- */

/* The next order, which is carried out before the next event. False: there is none. */
bool model_life_next(struct model_life *life, int64_t now_ns, struct life_order *order);
/* The order that model_life_next() returned last, an ENTER or a TAKE, could not be carried out. */
void model_life_again(struct model_life *life, const struct life_order *order, int64_t now_ns);

/* The time from which model_life_next() may return an order if nothing happens before. 0: now. */
static inline int64_t model_life_wake(const struct model_life *life) {
    return list_empty(&life->due) ? life->again_ns : 0;
}

/* ---- questions ---- */

static inline enum life_state model_life_state(const struct model_life *life, uint32_t place) {
    return (enum life_state)life->places[place].state;
}

/* Whether the model is announced here: it is being prepared, has failed to be, or serves. */
static inline bool model_life_stays(const struct model_life *life, uint32_t place) {
    const struct life_place *p = &life->places[place];
    return p->state >= LIFE_PREPARING && p->state <= LIFE_SERVING && !p->ends;
}

/* Whether a place that clients do not find any more is held: the owner looks whether it still has to be. */
static inline bool model_life_lingers(const struct model_life *life, uint32_t place) {
    const struct life_place *p = &life->places[place];
    return p->state == LIFE_LEAVING && !p->shown && p->holds > 0;
}

static inline bool model_life_room(const struct model_life *life) {
    return !list_empty(&life->free);
}

/* The place of a key after `after` (LIFE_NONE: the first one), FREE ones left out. LIFE_NONE: there are no more. */
uint32_t model_life_of_key(const struct model_life *life, uint64_t key, uint32_t after);
/* The state of a model on an executor or in its scheduling thread. */
enum life_on model_life_on(const struct model_life *life, uint32_t place, uint32_t party);
/* Whether a party was told that the model comes or goes, and has not answered yet. */
bool model_life_awaits(const struct model_life *life, uint32_t place, uint32_t party);

/* All places that are PREPARING, ENTERING, LEAVING or GOING. The body may tell the machine of events of the place. */
#define MODEL_LIFE_EACH_MOVING(life, i)                                                                                \
    for (struct list_node *at_ = (life)->moving.next, *next_ = at_->next; at_ != &(life)->moving;                      \
         at_ = next_, next_ = at_->next)                                                                               \
        for (uint32_t i = (uint32_t)(list_entry(at_, struct life_place, node) - (life)->places), once_ = 1; once_;     \
             once_ = 0)
