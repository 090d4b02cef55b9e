/* test_memory.c - what a rank core knows of accelerators' memory, and what they have: drawn histories.
 *
 * Every message between the core, models, the link of a cluster's scheduler and accelerators takes its time, so that
 * all orders come up: models join and leave, accelerators fail, are drained and come back, loads fail and are refused,
 * connections break, backends bring and end models. An accelerator is a `struct residency`. Checked is that
 *
 * - a batch finds its model there, unless its accelerator has left since the grant;
 * - no load finds too few pages, and no unload a model that runs, unless the accelerator has left since;
 * - orders end: with nothing more to come, all is at rest after a while;
 * - then all that was asked for has run, the core's books are as the accelerators, and who goes has gone. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/data/residency.h"
#include "core/util/assert.h"
#include "core/util/rng.h"
#include "histories.h"
#include "sched/core/rank_core_state.h"

#define HISTORIES    20000
#define VARIANTS     14
#define ACCELERATORS 4
#define PAGES_MOST   12
#define STEPS_MOST   400
#define NOTES_MOST   512    /* messages under way in one channel */
#define SETTLE_MOST  100000 /* messages until all is at rest; some hundred are usual */
#define FAR_NS       (1000 * NS_PER_S)

enum note_kind { ORDER, PLAN, MOVED, ENDED, LEAVES, JOINS, MESSAGE, GRANT, LEFT, NEWLY_JOINED };

struct note {
    enum note_kind kind;
    uint32_t accelerator, variant, session;
    uint32_t epoch;  /* PLAN: of the accelerator at the grant */
    bool own;        /* ORDER, MOVED: the link's */
    uint64_t models; /* JOINS, told: which the accelerator has */
    int64_t run_ns;
    struct rank_move move;
    struct memory_moved moved;
    enum rank_message_kind message;
    struct rank_answer answer;
    struct candidate candidate;
};

struct channel {
    struct note notes[NOTES_MOST];
    uint32_t first, count;
};

enum variant_state { AWAY, HERE, LEAVING };

struct variant {
    enum variant_state state;
    bool goes, runs; /* it has run since it was asked to */
};

/* A move that an accelerator has. */
struct held {
    struct residency_move move;
    struct note note;
    bool used;
};

struct accelerator_played {
    struct residency residency;
    struct pages_entry entries[VARIANTS];
    struct held held[2 * MEMORY_ORDERS_MOST + VARIANTS];
    struct note runs[NOTES_MOST];
    uint32_t run_count;
    bool running, down, dead;
    int64_t ends_ns;
    uint32_t leaves; /* times that it has left */
    uint32_t moves;  /* moves that are not over */
    uint32_t session;
    bool lost; /* told: it empties its memory before it joins */
};

/* What the link of a cluster's scheduler knows of an accelerator; scheduler_memory.c. */
struct link_played {
    bool joins; /* it has joined again, and its rank thread is not told yet */
    bool up, sized, begun;
    uint32_t epoch, session;
    uint64_t offered, withdrawn, resident, has; /* models, a bit each */
    uint32_t taken, owned;
    struct note sent[NOTES_MOST]; /* orders that are not answered */
    uint32_t sent_count;
    uint32_t plans[NOTES_MOST], plan_count; /* batches that have not ended, by their variant */
};

struct world {
    struct rng rng;
    bool told, faults;
    double fail_share;
    int64_t now_ns, wake_ns;
    uint32_t variants, accelerators, types;
    uint32_t first_of[VARIANTS], pages_of[ACCELERATORS], grain_of[ACCELERATORS];
    bool cuts_of[ACCELERATORS]; /* whether loads may go ahead of another one */
    struct rank_weights weights[VARIANTS];
    uint8_t type_of[ACCELERATORS];
    struct variant variant[VARIANTS];
    struct accelerator_played accelerator[ACCELERATORS];
    struct link_played link[ACCELERATORS];
    uint64_t joined, joining, going; /* told: models, as the link knows them */
    struct channel orders[ACCELERATORS], moved[ACCELERATORS], freed[ACCELERATORS];
    struct channel down[ACCELERATORS], up[ACCELERATORS]; /* told: to a backend, and back */
    struct channel plans[ACCELERATORS]; /* of each model in order; models' threads have rings of their own */
    struct channel to_rank[VARIANTS], grants[VARIANTS];
    struct rank_core *core;
    struct rank_output out;
    uint64_t loads, grants_given, batches;
};

static uint64_t seed_now;

static void wrong(const char *what, uint32_t accelerator, uint32_t model) {
    fprintf(stderr, "seed %" PRIu64 ": %s (accelerator %u, model %u)\n", seed_now, what, accelerator, model);
    fprintf(stderr, "repeat: SYMPHONY_RUNS=1 SYMPHONY_SEED=%" PRIu64 " sim_memory\n", seed_now);
    exit(1);
}

static void on_abort(int signal) {
    char text[96];
    (void)signal;
    int length = snprintf(text, sizeof(text), "memory: seed %" PRIu64 " aborts\n", seed_now);
    ssize_t written = write(STDERR_FILENO, text, (size_t)length);
    (void)written;
}

static bool chance(struct world *w, double p) {
    return rng_uniform(&w->rng) < p;
}

static int64_t drawn_ns(struct world *w, int64_t most) {
    return (int64_t)rng_below(&w->rng, (uint64_t)most + 1);
}

static void put(struct channel *c, struct note note) {
    CHECK_LT(c->count, NOTES_MOST);
    c->notes[(c->first + c->count++) % NOTES_MOST] = note;
}

static struct note *note_at(struct channel *c, uint32_t i) {
    return &c->notes[(c->first + i) % NOTES_MOST];
}

static struct note take(struct channel *c) {
    struct note note = *note_at(c, 0);
    c->first = (c->first + 1) % NOTES_MOST;
    c->count--;
    return note;
}

static uint64_t bit(uint32_t i) {
    return 1ULL << i;
}

/* The pages that a model takes on an accelerator. */
static uint32_t pages_at(const struct world *w, uint32_t a, uint32_t model) {
    uint32_t grain = w->grain_of[a];
    return (w->weights[model].pages + grain - 1) / grain * grain;
}

static struct channel *orders_of(struct world *w, uint32_t a) {
    return &w->orders[w->told ? 0 : a];
}

/* ---- the core ---- */

static void left_tell(struct world *w, uint32_t v) {
    put(&w->grants[w->first_of[v]], (struct note){.kind = LEFT, .variant = v});
}

static void joined_tell(struct world *w) {
    if (w->told && w->out.joined.n != RANK_NOBODY)
        put(&w->orders[0], (struct note){.kind = NEWLY_JOINED, .variant = w->out.joined.n});
    if (w->out.left.n != RANK_NOBODY)
        left_tell(w, w->out.left.n);
}

/* The core's counts agree with each other. */
static void books_check(const struct world *w) {
    const struct rank_memory *m = w->core->memory;
    uint32_t copies[VARIANTS] = {0}, there[VARIANTS] = {0};
    for (uint32_t a = 0; a < w->accelerators; a++) {
        const struct memory_accelerator *at = &m->accelerator[a];
        uint32_t pages = 0;
        for (uint32_t s = 0; s < at->touched; s++)
            if (at->slots[s].state != COPY_NONE) {
                copies[at->slots[s].model]++;
                pages += rank_memory_pages(m, a, at->slots[s].model);
            }
        if (!at->unlimited && pages + at->pages_free != at->pages)
            wrong("pages do not add up", a, 0);
        for (uint32_t v = 0; v < w->variants; v++)
            there[v] += w->first_of[v] == v && rank_memory_has(m, v, a);
        for (uint32_t v = 0; at->unlimited && v < w->variants; v++)
            copies[v] += w->first_of[v] == v && rank_memory_has(m, v, a);
    }
    for (uint32_t v = 0; v < w->variants; v++)
        if (m->model[v].copies != copies[v] || m->model[v].there != there[v])
            wrong("copies do not add up", 0, v);
}

static void core_event(struct world *w, const struct rank_event *event) {
    if (chance(w, 0.2)) {
        rank_core_take(w->core, w->now_ns, event, &w->out);
        joined_tell(w);
        w->wake_ns = w->now_ns;
        return;
    }
    rank_core_step(w->core, w->now_ns, event, &w->out);
    joined_tell(w);
    for (uint32_t i = 0; i < w->out.grant_count; i++) {
        const struct grant_message *grant = &w->out.grants[i];
        put(&w->grants[w->first_of[grant->variant.n]],
            (struct note){.kind = GRANT,
                          .variant = grant->variant.n,
                          .accelerator = grant->accelerator,
                          .epoch = rank_core_memory_epoch(w->core, grant->accelerator)});
        w->grants_given++;
    }
    for (uint32_t i = 0; i < w->out.move_count; i++) {
        uint32_t a = w->out.moves[i].accelerator;
        w->loads += w->out.moves[i].kind == CENTRAL_LOAD;
        put(orders_of(w, a),
            (struct note){
                .kind = ORDER, .accelerator = a, .variant = w->out.moves[i].variant.n, .move = w->out.moves[i]});
    }
    for (uint32_t i = 0; i < w->out.gone_count; i++)
        left_tell(w, w->out.gone[i].n);
    w->wake_ns = w->out.wake_ns;
    struct grant_message news;
    while (rank_core_memory_news(w->core, &news)) {
    }
    books_check(w);
}

static void core_message(struct world *w, const struct note *note) {
    union {
        struct rank_message message;
        char bytes[sizeof(struct rank_message) + ACCELERATOR_TYPES_MAX * sizeof(struct candidate)];
    } room;
    room.message = (struct rank_message){.kind = note->message, .variant = {note->variant}};
    if (note->message == RANK_ANSWER)
        room.message.answer = note->answer;
    else if (note->message == RANK_JOIN)
        room.message.weights = w->weights[note->variant];
    else if (note->message == RANK_RATES)
        room.message.rates = (struct model_rates){.at_ns = w->now_ns, .arrived = 1 + (uint32_t)note->run_ns};
    if (note->message == RANK_ANSWER || note->message == RANK_JOIN) {
        room.message.types = w->types;
        for (uint32_t t = 0; t < w->types; t++)
            room.message.candidates[t] = w->weights[note->variant].types >> t & 1 ? note->candidate : candidate_none();
    }
    core_event(w, &(struct rank_event){.kind = RANK_MESSAGE, .message = &room.message});
}

/* ---- models ---- */

static struct candidate candidate_drawn(struct world *w) {
    if (chance(w, 0.3))
        return candidate_none();
    if (chance(w, 0.1)) {
        struct candidate best_effort = candidate_none();
        best_effort.best_effort_run_ns = 1 + drawn_ns(w, NS_PER_MS);
        return best_effort;
    }
    int64_t start_ns = w->now_ns + (chance(w, 0.5) ? 0 : drawn_ns(w, 2 * NS_PER_MS));
    int64_t latest_ns = start_ns + drawn_ns(w, chance(w, 0.5) ? 5 * NS_PER_MS : 100 * NS_PER_MS);
    return (struct candidate){{start_ns, start_ns, start_ns}, latest_ns, latest_ns, 0};
}

static void variant_asks(struct world *w, uint32_t v, struct candidate candidate) {
    struct candidate candidates[ACCELERATOR_TYPES_MAX];
    for (uint32_t t = 0; t < w->types; t++)
        candidates[t] = w->weights[v].types >> t & 1 ? candidate : candidate_none();
    core_event(w, &(struct rank_event){.kind = RANK_CANDIDATES, .variant = {v}, .candidates = candidates});
}

static void granted(struct world *w, uint32_t v, const struct note *grant) {
    struct note answer = {.kind = MESSAGE, .variant = v, .message = RANK_ANSWER, .candidate = candidate_none()};
    bool uses = !w->faults || chance(w, 0.85);
    int64_t run_ns = 1 + drawn_ns(w, 3 * NS_PER_MS);
    answer.answer = (struct rank_answer){.accelerator = grant->accelerator,
                                         .items = uses,
                                         .sealed_ns = w->now_ns,
                                         .end_ns = w->now_ns + run_ns,
                                         .run_ns = run_ns};
    if (w->faults)
        answer.candidate = candidate_drawn(w);
    put(&w->to_rank[w->first_of[v]], answer);
    if (uses)
        put(&w->plans[grant->accelerator], (struct note){.kind = PLAN,
                                                         .accelerator = grant->accelerator,
                                                         .variant = v,
                                                         .epoch = grant->epoch,
                                                         .run_ns = run_ns});
    w->variant[v].runs |= uses;
}

static bool model_is(const struct world *w, uint32_t first, enum variant_state state) {
    for (uint32_t v = first; v < first + w->weights[first].count; v++)
        if (w->variant[v].state != state)
            return false;
    return true;
}

static void weights_draw(struct world *w, uint32_t first) {
    struct rank_weights weights = w->weights[first];
    weights.pages = 1 + (uint32_t)rng_below(&w->rng, chance(w, 0.7) ? 3 : PAGES_MOST);
    weights.load_ns = weights.pages * (1 + drawn_ns(w, 2 * NS_PER_MS));
    weights.pinned = chance(w, 0.15);
    weights.types = 1 + (uint32_t)rng_below(&w->rng, (1u << w->types) - 1);
    for (uint32_t v = first; v < first + weights.count; v++)
        w->weights[v] = weights;
}

static void orders_take(struct world *w);

static void model_joins(struct world *w, uint32_t first) {
    if (!model_is(w, first, AWAY))
        return;
    for (uint32_t a = 0; w->told && !w->variant[first].goes && a < w->accelerators; a++)
        if (w->link[a].offered & bit(first))
            return; /* these have to end that first */
    if (w->variant[first].goes) {
        while (w->told && w->orders[0].count > 0)
            orders_take(w); /* who hears that a model has left finds the last orders about it */
        if (!w->told)       /* there another model has another number */
            weights_draw(w, first);
        w->going &= ~bit(first);
    }
    w->joined &= ~bit(first);
    w->joining |= bit(first);
    for (uint32_t v = first; v < first + w->weights[first].count; v++) {
        w->variant[v].state = HERE;
        w->variant[v].goes = false;
        put(&w->to_rank[w->first_of[v]], (struct note){.kind = MESSAGE,
                                                       .variant = v,
                                                       .message = RANK_JOIN,
                                                       .candidate = w->faults ? candidate_drawn(w) : candidate_none()});
    }
}

static void model_leaves(struct world *w, uint32_t first, bool goes) {
    if (!model_is(w, first, HERE) || (w->told && !(w->joined & bit(first))))
        return;
    for (uint32_t a = 0; w->told && !goes && a < w->accelerators; a++)
        if (w->link[a].offered & w->link[a].withdrawn & bit(first))
            return; /* each tells its end only once */
    for (uint32_t a = 0; w->told && !goes && a < w->accelerators; a++)
        w->link[a].withdrawn |= w->link[a].offered & bit(first);
    if (goes)
        w->going |= bit(first);
    else
        w->joined &= ~bit(first);
    for (uint32_t v = first; v < first + w->weights[first].count; v++) {
        w->variant[v].state = LEAVING;
        w->variant[v].goes = goes;
        put(&w->to_rank[w->first_of[v]],
            (struct note){.kind = MESSAGE, .variant = v, .message = goes ? RANK_GOES : RANK_LEAVE});
    }
}

/* ---- accelerators ---- */

static void report(struct world *w, uint32_t a, struct note note) {
    note.accelerator = a;
    put(w->told ? &w->up[a] : note.kind == MOVED ? &w->moved[a] : &w->freed[a], note);
}

static void runs_lose(struct world *w, uint32_t a) {
    struct accelerator_played *at = &w->accelerator[a];
    if (at->running)
        residency_release(&at->residency, w->first_of[at->runs[0].variant]);
    at->running = false;
    for (uint32_t i = 0; i < at->run_count; i++)
        report(w, a, (struct note){.kind = ENDED, .variant = at->runs[i].variant});
    at->run_count = 0;
}

static void run_drop_first(struct accelerator_played *at) {
    memmove(at->runs, at->runs + 1, --at->run_count * sizeof(*at->runs));
}

/* Ends and begins what is due. */
static void accelerator_go_on(struct world *w, uint32_t a) {
    struct accelerator_played *at = &w->accelerator[a];
    if (at->running && at->ends_ns <= w->now_ns) {
        residency_release(&at->residency, w->first_of[at->runs[0].variant]);
        at->running = false;
        report(w, a, (struct note){.kind = ENDED, .variant = at->runs[0].variant});
        run_drop_first(at);
        w->batches++;
    }
    struct residency_move *move;
    while ((move = residency_step(&at->residency, w->now_ns, at->run_count > 0))) {
        struct held *held = container_of(move, struct held, move);
        struct note note = held->note;
        uint32_t model = w->first_of[note.variant];
        bool same = !at->dead && note.move.epoch == at->leaves && w->now_ns <= note.move.latest_ns;
        if (!move->done && same && (!w->told || note.session == at->session) && !(w->told && at->down))
            wrong(move->kind == CENTRAL_LOAD ? "a load finds too few pages" : "an unload finds its model in use", a,
                  model);
        note.kind = MOVED;
        note.moved = (struct memory_moved){.kind = (uint8_t)move->kind,
                                           .done = move->done,
                                           .accelerator = a,
                                           .epoch = note.move.epoch,
                                           .variant = note.move.variant,
                                           .took_ns = move->done ? move->took_ns + 1 : 0};
        if (move->changed && move->kind == CENTRAL_LOAD && w->faults && chance(w, w->fail_share)) {
            pages_give(&at->residency.pages, model);
            note.moved.done = false;
            note.moved.failed = true;
        }
        held->used = false;
        at->moves--;
        if (!(note.own && note.session == UINT32_MAX)) /* else nobody waits for it */
            report(w, a, note);
    }
    while (!at->running && at->run_count > 0) {
        uint32_t model = w->first_of[at->runs[0].variant];
        if (residency_has(&at->residency, model)) {
            residency_hold(&at->residency, model);
            at->running = true;
            at->ends_ns = w->now_ns + at->runs[0].run_ns;
            break;
        }
        if (at->runs[0].epoch == at->leaves)
            wrong("a batch does not find its model", a, model);
        report(w, a, (struct note){.kind = ENDED, .variant = at->runs[0].variant});
        run_drop_first(at);
    }
}

static void accelerator_order(struct world *w, uint32_t a, const struct note *note) {
    struct accelerator_played *at = &w->accelerator[a];
    uint32_t model = w->first_of[note->variant], i = 0;
    while (at->held[i].used)
        CHECK_LT(++i, sizeof(at->held) / sizeof(at->held[0]));
    at->held[i] = (struct held){
        .move = {.kind = note->move.kind,
                 .model = model,
                 .pages = pages_at(w, a, model),
                 .link_ns = w->weights[model].load_ns,
                 .earliest_ns = INT64_MIN,
                 .latest_ns = at->dead && note->session != UINT32_MAX ? INT64_MIN : note->move.latest_ns,
                 .ahead = note->move.ahead && w->cuts_of[a]},
        .note = *note,
        .used = true,
    };
    at->moves++;
    residency_send(&at->residency, &at->held[i].move);
    accelerator_go_on(w, a);
}

static void accelerator_plan(struct world *w, uint32_t a, const struct note *plan) {
    struct accelerator_played *at = &w->accelerator[a];
    if (at->dead) {
        report(w, a, (struct note){.kind = ENDED, .variant = plan->variant});
        return;
    }
    CHECK_LT(at->run_count, NOTES_MOST);
    at->runs[at->run_count++] = *plan;
    accelerator_go_on(w, a);
}

/* It fails, or is drained. */
static void accelerator_leaves(struct world *w, uint32_t a, bool dies) {
    struct accelerator_played *at = &w->accelerator[a];
    if (at->dead || (at->down && !dies))
        return;
    if (dies) {
        runs_lose(w, a);
        residency_lose(&at->residency);
        at->dead = true;
        at->lost = true;
    }
    if (!at->down) {
        at->leaves++;
        report(w, a, (struct note){.kind = LEAVES});
    }
    at->down = true;
    accelerator_go_on(w, a);
}

/* It may come back while grants of before are on their way, if it was drained and is to join at once. A backend waits
 * for what it has itself (backend_tell_joins()). */
static void accelerator_joins(struct world *w, uint32_t a) {
    struct accelerator_played *at = &w->accelerator[a];
    struct note note = {.kind = JOINS};
    if (!at->down || (w->told && (at->run_count > 0 || at->moves > 0)))
        return;
    if (w->told && at->lost) {
        at->lost = false;
        at->dead = false;
        struct note empties = {.kind = ORDER, .own = true, .session = UINT32_MAX};
        empties.move = (struct rank_move){.kind = CENTRAL_EMPTY, .latest_ns = TIME_NEVER};
        accelerator_order(w, a, &empties);
        return;
    }
    at->down = at->dead = false;
    note.session = ++at->session;
    for (uint32_t v = 0; v < w->variants; v++)
        note.models |= residency_has(&at->residency, v) ? bit(v) : 0;
    report(w, a, note);
}

/* ---- the link ---- */

static void tell(struct world *w, uint32_t a, struct memory_moved told) {
    told.accelerator = a;
    told.epoch = w->link[a].epoch;
    put(&w->moved[0], (struct note){.kind = MOVED, .accelerator = a, .moved = told});
}

static void link_answer(struct world *w, const struct note *order, bool done, bool failed, int64_t took_ns) {
    put(&w->moved[0], (struct note){.kind = MOVED,
                                    .accelerator = order->accelerator,
                                    .moved = {.kind = (uint8_t)order->move.kind,
                                              .done = done,
                                              .failed = failed,
                                              .accelerator = order->accelerator,
                                              .epoch = order->move.epoch,
                                              .variant = order->move.variant,
                                              .took_ns = took_ns}});
}

static void link_send(struct world *w, struct note order) {
    struct link_played *l = &w->link[order.accelerator];
    order.session = l->session;
    CHECK_LT(l->sent_count, NOTES_MOST);
    l->sent[l->sent_count++] = order;
    l->owned += order.own;
    put(&w->down[order.accelerator], order);
}

static void orders_take(struct world *w) {
    struct note order = take(&w->orders[0]);
    uint32_t model = w->first_of[order.variant], a = order.accelerator;
    if (order.kind == NEWLY_JOINED) {
        if (order.variant == model) {
            w->joined |= bit(model);
            w->joining &= ~bit(model);
        }
        return;
    }
    struct link_played *l = &w->link[a];
    bool reached = order.move.epoch == l->epoch && l->up;
    if (order.move.epoch == l->epoch && order.move.yields && l->offered & bit(model)) {
        l->offered &= ~bit(model);
        l->withdrawn &= ~bit(model);
    }
    if (reached && (!order.move.yields || l->resident & bit(model))) {
        link_send(w, order);
        if (order.move.yields)
            l->resident &= ~bit(model);
    } else {
        link_answer(w, &order, order.move.yields, false, 0);
    }
}

static bool link_wants(const struct world *w, uint32_t a, uint32_t model) {
    const struct link_played *l = &w->link[a];
    if (w->going & bit(model))
        return l->offered & bit(model);
    return l->has & w->joined & bit(model) && w->weights[model].types >> w->type_of[a] & 1 &&
           pages_at(w, a, model) <= w->pages_of[a];
}

/* accelerators_look(): all that was granted before it left is over. */
static void link_joins(struct world *w, uint32_t a) {
    struct link_played *l = &w->link[a];
    if (!l->joins || !w->core->accelerator[a].down || !rank_core_accelerator_idle(w->core, a))
        return;
    l->joins = false;
    l->up = true;
    put(&w->freed[a], (struct note){.kind = JOINS, .accelerator = a});
}

/* accelerator_look() */
static void link_look(struct world *w, uint32_t a) {
    struct link_played *l = &w->link[a];
    bool waits = false;
    link_joins(w, a);
    if (!l->up)
        return;
    if (!l->sized)
        tell(
            w, a,
            (struct memory_moved){
                .kind = MEMORY_SIZE, .cuts = w->cuts_of[a], .pages = w->pages_of[a], .grain = (uint8_t)w->grain_of[a]});
    l->sized = true;
    for (uint32_t v = 0; v < w->variants; v++) {
        if (w->first_of[v] != v)
            continue;
        bool there = !l->begun && l->resident & bit(v), wants = link_wants(w, a, v);
        if (l->offered & bit(v)) {
            if (!wants && !(l->withdrawn & bit(v))) {
                tell(w, a, (struct memory_moved){.kind = MEMORY_WITHDRAWN, .variant = {v}});
                l->withdrawn |= bit(v);
            }
            continue;
        }
        uint32_t pages = there ? pages_at(w, a, v) : 0;
        if (wants && pages <= w->pages_of[a] - l->taken) {
            tell(w, a, (struct memory_moved){.kind = MEMORY_OFFERED, .done = there, .variant = {v}});
            l->offered |= bit(v);
            l->taken += pages;
            continue;
        }
        if (!(l->resident & bit(v)))
            continue;
        if (!l->begun && l->has & w->joining & bit(v)) {
            waits = true;
        } else {
            l->resident &= ~bit(v);
            struct note order = {.kind = ORDER, .accelerator = a, .variant = v, .own = true};
            order.move = (struct rank_move){.kind = CENTRAL_UNLOAD, .accelerator = a, .variant = {v}};
            order.move.latest_ns = TIME_NEVER;
            link_send(w, order);
        }
    }
    if (l->begun || waits || l->owned > 0)
        return;
    tell(w, a, (struct memory_moved){.kind = MEMORY_BEGINS});
    l->begun = true;
    l->taken = 0;
}

static void link_left(struct world *w, uint32_t a) {
    struct link_played *l = &w->link[a];
    l->joins = false;
    if (!l->up)
        return;
    l->up = l->sized = l->begun = false;
    l->epoch++;
    l->taken = 0;
    l->offered = l->withdrawn = 0;
    put(&w->freed[a], (struct note){.kind = LEAVES, .accelerator = a});
}

/* As there. */
static void plan_ended(struct link_played *l, uint32_t variant) {
    uint32_t i = 0;
    while (i < l->plan_count && l->plans[i] != variant)
        i++;
    CHECK_LT(i, l->plan_count);
    memmove(l->plans + i, l->plans + i + 1, (--l->plan_count - i) * sizeof(*l->plans));
}

static void link_hears(struct world *w, uint32_t a) {
    struct link_played *l = &w->link[a];
    struct note note = take(&w->up[a]);
    switch (note.kind) {
    case ENDED:
        plan_ended(l, note.variant);
        put(&w->freed[a], note);
        break;
    case LEAVES:
        link_left(w, a);
        break;
    case JOINS:
        l->joins = true;
        l->session = note.session;
        l->resident = note.models;
        link_joins(w, a);
        break;
    default: {
        uint32_t i = 0;
        while (l->sent[i].move.kind != (enum central_action_kind)note.moved.kind || l->sent[i].variant != note.variant)
            CHECK_LT(++i, l->sent_count);
        struct note order = l->sent[i];
        uint32_t model = w->first_of[order.variant];
        memmove(l->sent + i, l->sent + i + 1, (--l->sent_count - i) * sizeof(*l->sent));
        if (note.moved.done && note.moved.kind == CENTRAL_LOAD)
            l->resident |= bit(model);
        else if (note.moved.done)
            l->resident &= ~bit(model);
        if (note.moved.failed && order.move.epoch == l->epoch)
            l->withdrawn |= l->offered & bit(model);
        l->owned -= order.own;
        if (!order.own)
            link_answer(w, &order, note.moved.done, note.moved.failed, note.moved.took_ns);
    }
    }
}

/* What comes to a backend. */
static void backend_hears(struct world *w, uint32_t a) {
    struct accelerator_played *at = &w->accelerator[a];
    struct note note = take(&w->down[a]);
    if (note.kind == PLAN && w->faults && chance(w, 0.05)) { /* no request of it has come */
        report(w, a, (struct note){.kind = ENDED, .variant = note.variant});
    } else if (note.kind == PLAN) {
        accelerator_plan(w, a, &note);
    } else if (note.session != at->session) {
        note.kind = MOVED;
        note.moved = (struct memory_moved){.kind = (uint8_t)note.move.kind};
        put(&w->up[a], note);
    } else {
        accelerator_order(w, a, &note);
    }
}

/* A connection breaks: the backend goes on with what it has, and joins again. */
static void link_breaks(struct world *w, uint32_t a) {
    struct link_played *l = &w->link[a];
    struct accelerator_played *at = &w->accelerator[a];
    if (at->moves > 0 || at->run_count > 0)
        return;
    at->leaves += l->up && !at->down;
    at->down = true;
    w->down[a].count = w->up[a].count = 0;
    for (; l->plan_count > 0; l->plan_count--)
        put(&w->freed[a], (struct note){.kind = ENDED, .accelerator = a, .variant = l->plans[l->plan_count - 1]});
    link_left(w, a);
    for (uint32_t i = 0; i < l->sent_count; i++)
        if (!l->sent[i].own)
            link_answer(w, &l->sent[i], false, false, 0);
    l->sent_count = l->owned = 0;
    l->resident = 0;
}

/* ---- messages arrive ---- */

/* The first plan of a model that is drawn. */
static struct note plan_take(struct world *w, struct channel *c) {
    uint32_t model = w->first_of[note_at(c, (uint32_t)rng_below(&w->rng, c->count))->variant], i = 0;
    while (w->first_of[note_at(c, i)->variant] != model)
        i++;
    struct note plan = *note_at(c, i);
    for (; i > 0; i--)
        *note_at(c, i) = *note_at(c, i - 1);
    take(c);
    return plan;
}

static void plan_arrives(struct world *w, uint32_t a) {
    struct note plan = plan_take(w, &w->plans[a]);
    if (!w->told) {
        accelerator_plan(w, a, &plan);
    } else if (w->link[a].up || w->link[a].plan_count > 0) {
        w->link[a].plans[w->link[a].plan_count++] = plan.variant;
        put(&w->down[a], plan);
    } else {
        put(&w->freed[a], (struct note){.kind = ENDED, .accelerator = a, .variant = plan.variant});
    }
}

static void freed_arrives(struct world *w, uint32_t a) {
    struct note note = take(&w->freed[a]);
    enum rank_event_kind kind = note.kind == ENDED    ? RANK_BATCH_ENDED
                                : note.kind == LEAVES ? RANK_ACCELERATOR_DOWN
                                                      : RANK_ACCELERATOR_UP;
    struct rank_event event = {.kind = kind, .accelerator = a};
    if (kind == RANK_BATCH_ENDED) {
        event.variant.n = note.variant;
        event.ended.at_ns = w->now_ns;
    } else
        event.type = w->type_of[a];
    core_event(w, &event);
}

static bool moved_arrives(struct world *w, struct channel *c) {
    const struct memory_moved *moved = &note_at(c, 0)->moved;
    if ((int32_t)(moved->epoch - rank_core_memory_epoch(w->core, moved->accelerator)) > 0)
        return false;
    struct note note = take(c);
    core_event(w, &(struct rank_event){.kind = RANK_MOVED, .moved = note.moved});
    return true;
}

static void granted_arrives(struct world *w, uint32_t model) {
    struct note note = take(&w->grants[model]);
    if (note.kind == LEFT)
        w->variant[note.variant].state = AWAY;
    else
        granted(w, note.variant, &note);
}

static void order_arrives(struct world *w, uint32_t a) {
    if (w->told) {
        orders_take(w);
        return;
    }
    struct note note = take(&w->orders[a]);
    accelerator_order(w, a, &note);
}

/* Lets one message arrive that is drawn. False: none is under way. */
static bool message_arrives(struct world *w) {
    struct {
        struct channel *channel;
        uint32_t group, i;
    } under_way[6 * ACCELERATORS + 2 * VARIANTS];
    uint32_t count = 0;
    struct channel *groups[] = {w->orders, w->moved, w->freed, w->down, w->up, w->plans, w->to_rank, w->grants};
    for (uint32_t g = 0; g < 8; g++)
        for (uint32_t i = 0; i < (g < 6 ? w->accelerators : w->variants); i++)
            if (groups[g][i].count > 0) {
                under_way[count].channel = &groups[g][i];
                under_way[count].group = g;
                under_way[count++].i = i;
            }
    if (count == 0)
        return false;
    uint32_t n = (uint32_t)rng_below(&w->rng, count), i = under_way[n].i;
    switch (under_way[n].group) {
    case 0:
        order_arrives(w, i);
        break;
    case 1:
        moved_arrives(w, under_way[n].channel);
        break;
    case 2:
        freed_arrives(w, i);
        break;
    case 3:
        backend_hears(w, i);
        break;
    case 4:
        link_hears(w, i);
        break;
    case 5:
        plan_arrives(w, i);
        break;
    case 6: {
        struct note note = take(&w->to_rank[i]);
        core_message(w, &note);
        break;
    }
    default:
        granted_arrives(w, i);
    }
    return true;
}

/* ---- time ---- */

static int64_t due_ns(const struct world *w) {
    int64_t due = w->wake_ns;
    for (uint32_t a = 0; a < w->accelerators; a++) {
        const struct accelerator_played *at = &w->accelerator[a];
        int64_t moves_ns = residency_due_ns(&at->residency, at->run_count > 0);
        due = moves_ns < due ? moves_ns : due;
        due = at->running && at->ends_ns < due ? at->ends_ns : due;
    }
    return due;
}

static void time_comes(struct world *w, int64_t now_ns) {
    w->now_ns = now_ns > w->now_ns ? now_ns : w->now_ns;
    for (uint32_t a = 0; a < w->accelerators; a++)
        accelerator_go_on(w, a);
    if (w->wake_ns <= w->now_ns)
        core_event(w, &(struct rank_event){.kind = RANK_TIMER});
}

/* Until nothing is under way, nor due. */
static void settle(struct world *w) {
    for (uint32_t n = 0; n < SETTLE_MOST; n++) {
        if (message_arrives(w))
            continue;
        for (uint32_t a = 0; a < w->accelerators; a++) {
            accelerator_joins(w, a);
            if (w->told)
                link_look(w, a);
        }
        if (message_arrives(w))
            continue;
        int64_t due = due_ns(w);
        if (due == TIME_NEVER)
            return;
        time_comes(w, due);
    }
    wrong("it does not come to rest", 0, 0);
}

/* ---- a history ---- */

static void world_draw(struct world *w, uint64_t seed) {
    memset(w, 0, sizeof(*w));
    rng_seed(&w->rng, seed);
    w->told = chance(w, 0.5);
    w->faults = true;
    w->fail_share = chance(w, 0.5) ? 0 : rng_uniform(&w->rng) * 0.3;
    w->types = 1 + (uint32_t)rng_below(&w->rng, 2);
    w->accelerators = 1 + (uint32_t)rng_below(&w->rng, ACCELERATORS);
    w->variants = 1 + (uint32_t)rng_below(&w->rng, VARIANTS);
    w->wake_ns = 0;
    uint32_t pages = 1 + (uint32_t)rng_below(&w->rng, PAGES_MOST);
    for (uint32_t v = 0; v < w->variants;) {
        uint32_t count = chance(w, 0.2) && v + 1 < w->variants ? 2 : 1;
        w->weights[v] = (struct rank_weights){.first = v, .count = count};
        weights_draw(w, v);
        for (uint32_t end = v + count, first = v; v < end; v++) {
            w->first_of[v] = first;
            w->variant[v].state = HERE;
        }
    }
    bool grained = w->told && chance(w, 0.3), cuts = chance(w, 0.7);
    for (uint32_t a = 0; a < w->accelerators; a++) {
        w->type_of[a] = (uint8_t)rng_below(&w->rng, w->types);
        w->cuts_of[a] = cuts && (!w->told || chance(w, 0.7));
        w->pages_of[a] = w->told ? 1 + (uint32_t)rng_below(&w->rng, pages) : pages;
        w->grain_of[a] = grained ? 1 + (uint32_t)rng_below(&w->rng, 2) : 1;
        w->pages_of[a] = w->pages_of[a] / w->grain_of[a] * w->grain_of[a];
        w->pages_of[a] = w->pages_of[a] ? w->pages_of[a] : w->grain_of[a];
        struct accelerator_played *at = &w->accelerator[a];
        residency_init(&at->residency, at->entries, w->variants, w->pages_of[a] * PAGE_BYTES, chance(w, 0.5) ? 0.2 : 0,
                       &w->rng);
        at->down = w->told;
        w->link[a].has = w->told ? rng_below(&w->rng, bit(w->variants)) : 0;
    }
    static const struct policy_ops policy_plain = {.name = "plain"};
    static const struct policy_options options;
    struct rank_core_config config = {.models = w->variants,
                                      .accelerators = w->accelerators,
                                      .accelerator_type = w->type_of,
                                      .types = w->types,
                                      .absent = w->told,
                                      .ctrl_ns = chance(w, 0.5) ? 0 : drawn_ns(w, NS_PER_MS / 10),
                                      .grace_ns = chance(w, 0.5) ? 0 : drawn_ns(w, NS_PER_MS / 10),
                                      .policy = &policy_plain,
                                      .policy_options = &options,
                                      .limited = true,
                                      .told = w->told,
                                      .cuts_loads = !w->told && cuts,
                                      .memory_pages = w->told ? 2 * PAGES_MOST : pages,
                                      .weights = w->weights};
    w->core = malloc(rank_core_bytes(&config));
    if (!w->core)
        exit(1);
    memset(w->core, 0xff, rank_core_bytes(&config)); /* what is read and was never written shows */
    rank_core_init(w->core, &config);
    for (uint32_t v = 0; v < w->variants; v++)
        w->joined |= w->first_of[v] == v ? bit(v) : 0;
}

/* Something happens that is drawn. */
static void something(struct world *w) {
    uint32_t a = (uint32_t)rng_below(&w->rng, w->accelerators), v = (uint32_t)rng_below(&w->rng, w->variants);
    switch (rng_below(&w->rng, 16)) {
    case 0:
        if (chance(w, 0.5))
            accelerator_leaves(w, a, chance(w, 0.7));
        break;
    case 1:
    case 2:
        accelerator_joins(w, a);
        break;
    case 3:
        model_leaves(w, w->first_of[v], chance(w, 0.5));
        break;
    case 4:
    case 5:
        model_joins(w, w->first_of[v]);
        break;
    case 6:
        if (w->variant[v].state == HERE)
            put(&w->to_rank[w->first_of[v]],
                (struct note){.kind = MESSAGE, .variant = v, .message = RANK_RATES, .run_ns = drawn_ns(w, 20)});
        break;
    case 7:
        if (w->told && chance(w, 0.3))
            w->link[a].has ^= bit(w->first_of[v]);
        break;
    case 8:
        if (w->told && chance(w, 0.3))
            link_breaks(w, a);
        break;
    case 9:
    case 10:
        if (w->told)
            link_look(w, a);
        break;
    default:
        if (w->variant[v].state == HERE && w->to_rank[w->first_of[v]].count == 0)
            variant_asks(w, v, candidate_drawn(w));
    }
}

static bool fits(const struct world *w, uint32_t model) {
    for (uint32_t a = 0; a < w->accelerators; a++)
        if (w->weights[model].types >> w->type_of[a] & 1 && pages_at(w, a, model) <= w->pages_of[a])
            return true;
    return false;
}

static void books_compare(struct world *w) {
    const struct rank_memory *m = w->core->memory;
    for (uint32_t a = 0; a < w->accelerators; a++) {
        const struct residency *r = &w->accelerator[a].residency;
        if (m->accelerator[a].moves || m->accelerator[a].pages_free != r->pages.free)
            wrong("the core counts other pages", a, m->accelerator[a].moves);
        for (uint32_t v = 0; v < w->variants; v++)
            if (w->first_of[v] == v && rank_memory_has(m, v, a) != residency_has(r, v))
                wrong("a model is not where the core has it", a, v);
    }
}

static void history(struct world *w, uint64_t seed) {
    world_draw(w, seed);
    for (uint64_t steps = rng_below(&w->rng, STEPS_MOST); steps > 0; steps--) {
        something(w);
        for (uint64_t n = rng_below(&w->rng, 4); n > 0; n--)
            message_arrives(w);
        if (chance(w, 0.3)) {
            int64_t due = due_ns(w);
            time_comes(w, due != TIME_NEVER && chance(w, 0.7) ? due : w->now_ns + drawn_ns(w, 2 * NS_PER_MS));
        }
    }
    w->faults = false;
    for (uint32_t a = 0; a < w->accelerators; a++)
        w->link[a].has = UINT64_MAX;
    settle(w);
    for (uint32_t v = 0; v < w->variants; v++)
        if (w->first_of[v] == v)
            model_joins(w, v);
    settle(w);
    books_compare(w);
    for (uint32_t v = 0; v < w->variants; v++) {
        if (w->variant[v].state != HERE)
            wrong("a model has not left", 0, v);
        w->variant[v].runs = false;
        int64_t far_ns = w->now_ns + FAR_NS;
        variant_asks(w, v, (struct candidate){{w->now_ns, w->now_ns, w->now_ns}, far_ns, far_ns, 0});
    }
    settle(w);
    books_compare(w);
    for (uint32_t v = 0; v < w->variants; v++)
        if (!w->variant[v].runs && fits(w, w->first_of[v]))
            wrong("a model was never loaded", 0, v);
    for (uint32_t v = 0; v < w->variants; v++)
        if (w->first_of[v] == v)
            model_leaves(w, v, true);
    settle(w);
    books_compare(w);
    for (uint32_t v = 0; v < w->variants; v++)
        if (w->variant[v].state != AWAY)
            wrong("a model has not gone", 0, v);
    for (uint32_t a = 0; a < w->accelerators; a++)
        if (w->accelerator[a].residency.pages.free != w->pages_of[a])
            wrong("a model that has gone is still there", a, 0);
    free(w->core);
}

int main(void) {
    static struct world w;
    uint64_t loads = 0, grants = 0, batches = 0, first = histories_first(), count = histories_count(HISTORIES);
    signal(SIGABRT, on_abort);
    for (seed_now = first; seed_now < first + count; seed_now++) {
        history(&w, seed_now);
        loads += w.loads;
        grants += w.grants_given;
        batches += w.batches;
    }
    printf("%" PRIu64 " histories, %" PRIu64 " loads, %" PRIu64 " grants, %" PRIu64 " batches\n", count, loads, grants,
           batches);
    return 0;
}
