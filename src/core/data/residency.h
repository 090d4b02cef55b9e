/* residency.h - which models' weights the memory of one emulated accelerator has, and the link over which they come.
 * The simulator's accelerators and those of executor_emulated.c are of this kind.
 *
 *     sent, in order          link: one move at a time          memory: pages of 16 MiB
 *     load d  unload b  load c -->  load a, 7 of 9 ms  -->  b: 4 pages  e: 7 pages, runs  free: 3
 *
 * Moves are loads and unloads. They are done in the order in which they were sent, beside the runs. A load takes its
 * pages when it begins. A model that runs is held: it cannot be unloaded. A move is refused if it could begin only
 * after its latest start, a load also if too few pages are free, an unload if its model runs.
 *
 * Loads are cut by page. Moves that go `ahead` come before loads that do not: one that is under way stops after its
 * next page, and goes on when they are over. Pure. */
#pragma once

#include "core/data/messages.h"
#include "core/data/pages.h"
#include "core/util/rng.h"

#define LINK_BYTES_PER_S 12e9 /* what PCIe 3 x16 copies: Clockwork's table 1 has 102.3 MB in 8.33 ms */

/* The time that weights take over a link. */
static inline int64_t residency_link_ns(uint64_t weights_bytes, double bytes_per_s) {
    return (int64_t)((double)weights_bytes / bytes_per_s * (double)NS_PER_S);
}

struct residency_move {
    struct residency_move *next;
    enum central_action_kind kind; /* LOAD, UNLOAD or EMPTY */
    uint32_t model;                /* LOAD, UNLOAD */
    uint32_t pages;                /* LOAD: pages that the weights take */
    int64_t link_ns;               /* LOAD: time that the weights take over the link, without noise */
    int64_t earliest_ns, latest_ns;
    bool ahead;
    /* what became of the move: */
    int64_t begin_ns, took_ns; /* took_ns: of a load, the time that the link was busy with it */
    int64_t stood_ns;          /* time for which it stood still for others */
    bool done;                 /* false: the move was refused or lost */
    bool changed;              /* done, and of a LOAD: the model was not there before; of an UNLOAD: it was */
};

struct residency {
    struct pages pages;
    uint32_t models;
    double noise; /* factor of rng_noisy() */
    struct rng *rng;
    struct residency_move *first, *last; /* moves that are not over */
    struct residency_move *moving;       /* the load that the link is busy with; NULL: none */
    struct residency_move *stopped;      /* the load that others went ahead of, and that will go on; NULL: none */
    int64_t from_ns, left_ns;            /* time since which the link is busy with `moving`; time that it then needed */
    int64_t stop_ns; /* end of the page after which `moving` stops, for a move that goes ahead; TIME_NEVER: it does not
                      */
    int64_t stopped_left_ns; /* time that `stopped` needs */
    int64_t stalled_ns;      /* time until which nothing begins */
};

/* The memory of a CPU has no pages that weights must take whole: it is counted in these. */
#define CPU_PAGE_BYTES (1ULL << 20)

/* What operators are told of models that take longer to load and run than their SLO allows. */
#define COLD_REFUSED_WORDS "cold requests are refused, since their models load too slowly"

/* Whether loads into pages of this size are cut by page. */
static inline bool residency_cuts(uint64_t page_bytes) {
    return page_bytes == PAGE_BYTES;
}

/* Starts empty. `entries`: [models] memory of the caller. `rng` outlives the residency. */
void residency_init(struct residency *r, struct pages_entry *entries, uint32_t models, uint64_t memory_bytes,
                    double noise, struct rng *rng);

/* Whether the model is there: a batch of it may run. */
static inline bool residency_has(const struct residency *r, uint32_t model) {
    bool comes = (r->moving && r->moving->model == model) || (r->stopped && r->stopped->model == model);
    return r->pages.entries[model].pages > 0 && !comes;
}

/* ---- moves ---- */

/* Appends a move, whose memory is the accelerator's until residency_step() gives it back. One load at a time may be
 * `ahead`. */
void residency_send(struct residency *r, struct residency_move *move);
/* Goes on to now_ns: ends the first move if it is due, begins the next one. Returns a move that is over; call it until
 * it returns NULL, and again at residency_due_ns(). `busy`: batches are queued or run, so that EMPTY has to wait. */
struct residency_move *residency_step(struct residency *r, int64_t now_ns, bool busy);
/* Time at which the first move begins or ends; TIME_NEVER: none does, or EMPTY waits for the end of the batches. */
int64_t residency_due_ns(const struct residency *r, bool busy);
/* The accelerator failed: its memory is empty, and residency_step() refuses all moves that were sent. No model is held
 * at this time. */
void residency_lose(struct residency *r);
/* The accelerator stands still for for_ns. */
void residency_stall(struct residency *r, int64_t now_ns, int64_t for_ns);

/* ---- runs ---- */

/* A batch of a model that is there begins, or is over. */
void residency_hold(struct residency *r, uint32_t model);
void residency_release(struct residency *r, uint32_t model);
