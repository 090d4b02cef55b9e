/* test_grants.c - every order in which candidates, grants, answers, ends and faults can meet, with the real cores.
 *
 * Model cores, a rank core and accelerators exchange the messages of core/data/messages.h over one channel for each
 * pair, in order within a channel and however late between channels, as threads over rings may. The explorer
 * (explore.h) delivers them, lets timers fire late and batches end early or late, accelerators die, drain and join, and
 * clients leave, in every order. Times are a few nanoseconds, so that what is derived every 10 ms stays as it is.
 *
 *     clients --arrive, cancel--> model m --messages, board--> rank core r
 *                                         <--messages--
 *                                 model m --plans--> accelerator a --notices--> its rank core
 *
 * Candidates are overwritten in place and announced, as on the board of the live threads
 * (sched/threads/candidate_board.h), and cores may take several requests or messages before anything follows from them.
 *
 * With several rank cores each has some of the accelerators, and a model belongs to one at a time: it moves by
 * RANK_LEAVE, GRANT_LEFT, RANK_JOIN.
 *
 * Whatever the order: a model has one grant at most, an accelerator one grant, one batch that runs and one that is
 * sealed; a request ends once, by a run or a refusal; nothing that may start stays beside a free accelerator; and when
 * all is quiet, all that is in service is free and nothing is queued.
 *
 * usage: sim_grants [SECTION]; how many random orders of the large sections: histories.h.
 *
 * sanitizers: no, it explores millions of orders; what cores do with memory, random_clusters shows */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/profile.h"
#include "core/util/arena.h"
#include "core/util/assert.h"
#include "histories.h"
#include "sched/core/model_core.h"
#include "sched/core/rank_core.h"
#include "sim/explore.h"

#define MODELS_MAX       3
#define ACCELERATORS_MAX 3
#define TYPES_MAX        2
#define SUBCLUSTERS_MAX  2
#define REQUESTS_MAX     8
#define CHANNEL_MAX      6
#define CHANNEL_LONG     4 /* from so many on, newer parameters replace the last */
#define NOTICES_MAX      12
#define BATCHES_MOST     2 /* of an accelerator at once: one runs, one is sealed */
#define BATCH_MAX        3
#define RUNS             25000 /* random orders of a section that is too large for all */

/* ---- what is explored ---- */

struct script_request {
    uint32_t model, items;
    int64_t arrival_ns, slo_ns;
};

struct section {
    const char *name;
    const struct policy_ops *policy;
    uint32_t models, accelerators, types;
    uint8_t accelerator_type[ACCELERATORS_MAX];
    int64_t alpha_ns, beta_ns; /* of every model on type 0; type t takes t+1 times as long */
    int64_t ctrl_ns, data_ns, grace_ns;
    uint32_t request_count;
    struct script_request requests[REQUESTS_MAX]; /* of one model: by arrival */
    uint32_t cancels, deaths, drains, moves;      /* at most so many, at any time */
    uint32_t subclusters; /* rank cores, model and accelerator i at i modulo sub-clusters; 0: one */
    uint32_t lags;        /* time goes on so often while something is still to be done */
    bool lazy;   /* model cores may take several requests, and rank cores several messages, before anything follows */
    bool stale;  /* threads may go on with the time at which their turn began */
    bool random; /* too large for every order */
};

enum action {
    ARRIVE,
    SETTLE,
    CANCEL,
    TO_MODEL,
    MODEL_TIME,
    TO_RANK,
    BOARD,
    NOTICE,
    DECIDE,
    END,
    DIE,
    DRAIN,
    JOIN,
    MOVE,
    CLOCK,
    ACTIONS
};
#define STALE 0x80 /* added to an action: by the time of the thread's last turn */

/* ---- the state ---- */

struct to_rank {
    uint64_t kind;
    struct rank_answer answer;
};
_Static_assert(sizeof(struct to_rank) == 40, "no padding");

struct to_rank_channel {
    uint64_t count;
    struct to_rank slots[CHANNEL_MAX];
};

struct to_model_channel {
    uint64_t count;
    struct grant_message slots[CHANNEL_MAX];
};

struct notice_channel {
    uint64_t count;
    struct {
        int64_t kind, said_ns, model;
    } slots[NOTICES_MAX];
};

enum request_state { UNSENT, QUEUED, BATCHED, RAN, REFUSED };

struct plan {
    uint32_t model, requests; /* a bit each */
    int64_t free_ns;
};

struct executor {
    struct plan plans[BATCHES_MOST];
    uint32_t count;
    bool dead, drained; /* nothing runs there any more; no more is to be sent there */
};

struct model_state {
    struct model_core *core;
    int64_t wake_ns, turn_ns;
    struct candidate told[TYPES_MAX]; /* the board's */
    uint64_t granted;                 /* an accelerator + 1, from the rank core's grant to its reading the answer */
    uint32_t subcluster, leaving;     /* which rank core it belongs to, and whether it is about to leave it */
    uint64_t unsettled;               /* requests have come of which it has not told anything */
};

struct rank_state {
    struct rank_core *core;
    int64_t wake_ns, turn_ns;
    uint32_t announced; /* models whose candidates have changed, a bit each */
    uint32_t undecided; /* something was taken since the last decision */
    struct to_rank_channel from_models[MODELS_MAX];
    struct to_model_channel to_models[MODELS_MAX];
};

struct world {
    const struct section *section;
    int64_t now_ns;
    struct request_pool pool;
    struct request_node nodes[REQUESTS_MAX];
    struct model_state models[MODELS_MAX];
    struct rank_state ranks[SUBCLUSTERS_MAX];
    struct notice_channel notices[ACCELERATORS_MAX];
    struct executor executors[ACCELERATORS_MAX];
    struct {
        uint32_t granted;  /* a model + 1 */
        uint32_t batches;  /* announced to the rank core less what it knows to have ended; < 0 as unsigned: overtaken */
        uint32_t out, pad; /* the rank core knows that it is out of service */
    } known[ACCELERATORS_MAX];
    uint8_t request_state[REQUESTS_MAX], cancelled[REQUESTS_MAX];
    uint32_t cancels, deaths, drains, moves, lags, pad;
    const char *wrong;
};

static void wrong(struct world *w, const char *what) {
    if (!w->wrong)
        w->wrong = what;
}

/* Room for one more message. */
static struct to_rank *to_rank_push(struct world *w, uint32_t m, enum rank_message_kind kind) {
    struct to_rank_channel *channel = &w->ranks[w->models[m].subcluster].from_models[m];
    CHECK_LT(channel->count, CHANNEL_MAX);
    struct to_rank *message = &channel->slots[channel->count++];
    message->kind = kind;
    return message;
}

static struct grant_message *to_model_push(struct rank_state *rank, uint32_t m, enum grant_message_kind kind) {
    struct to_model_channel *channel = &rank->to_models[m];
    bool replaces = kind == GRANT_PARAMETERS && channel->count >= CHANNEL_LONG &&
                    channel->slots[channel->count - 1].kind == GRANT_PARAMETERS;
    channel->count += !replaces;
    CHECK_LE(channel->count, CHANNEL_MAX);
    struct grant_message *message = &channel->slots[channel->count - 1];
    message->kind = kind;
    message->variant = (struct variant_id){m};
    return message;
}

/* What is not in use is zero, so that equal states have equal bytes. */
static void channel_pop(uint64_t *count, void *slots, size_t slot_bytes) {
    char *first = slots;
    (*count)--;
    memmove(first, first + slot_bytes, slot_bytes * *count);
    memset(first + slot_bytes * *count, 0, slot_bytes);
}

#define POP(channel) channel_pop(&(channel)->count, (channel)->slots, sizeof((channel)->slots[0]))

/* ---- set-up ---- */

static uint32_t subclusters_of(const struct section *s) {
    return s->subclusters ? s->subclusters : 1;
}

/* Takes the cores' memory behind the world's; with arena->base, also sets all up. */
static void world_layout(struct world *w, const struct section *s, struct arena *arena,
                         struct profile *const *profiles) {
    arena_take(arena, sizeof(*w));
    w->section = s;
    request_pool_init(&w->pool, w->nodes, REQUESTS_MAX);
    uint8_t subcluster_of[MODELS_MAX + ACCELERATORS_MAX];
    for (uint32_t i = 0; i < sizeof(subcluster_of); i++)
        subcluster_of[i] = (uint8_t)(i % subclusters_of(s));
    struct rank_core_config rank = {.models = s->models,
                                    .accelerators = s->accelerators,
                                    .accelerator_type = s->accelerator_type,
                                    .types = s->types,
                                    .ctrl_ns = s->ctrl_ns,
                                    .data_ns = s->data_ns,
                                    .grace_ns = s->grace_ns,
                                    .policy = s->policy,
                                    .subcluster_of_accelerator = subcluster_of,
                                    .subcluster_of_model = subcluster_of};
    for (uint32_t r = 0; r < subclusters_of(s); r++) {
        rank.subcluster = r;
        w->ranks[r].core = arena_take(arena, rank_core_bytes(&rank));
        w->ranks[r].wake_ns = TIME_NEVER;
        if (arena->base)
            rank_core_init(w->ranks[r].core, &rank);
    }
    for (uint32_t m = 0; m < s->models; m++) {
        struct model_core_config config = {.types = s->types,
                                           .batch_max = BATCH_MAX,
                                           .slo_ns = s->requests[0].slo_ns,
                                           .ctrl_ns = s->ctrl_ns,
                                           .data_ns = s->data_ns,
                                           .fetch_ahead = true,
                                           .policy = s->policy};
        memcpy(config.profiles, profiles, s->types * sizeof(config.profiles[0]));
        struct model_state *model = &w->models[m];
        model->core = arena_take(arena, model_core_bytes(&config));
        model->wake_ns = TIME_NEVER;
        model->subcluster = m % subclusters_of(s);
        for (uint32_t t = 0; t < TYPES_MAX; t++)
            model->told[t] = candidate_none();
        if (model->core)
            model_core_init(model->core, &config, &w->pool);
    }
}

static struct world *world_new(const struct section *s, size_t *bytes) {
    struct profile *profiles[TYPES_MAX];
    for (uint32_t t = 0; t < s->types; t++) {
        profiles[t] = explore_allocate(profile_bytes(BATCH_MAX));
        profile_set_line(profiles[t], BATCH_MAX, (double)s->alpha_ns * (t + 1), (double)s->beta_ns * (t + 1));
    }
    struct arena arena = {NULL, 0};
    struct world scratch;
    world_layout(&scratch, s, &arena, profiles);
    struct world *w = explore_allocate(arena.used);
    arena = (struct arena){(char *)w, 0};
    world_layout(w, s, &arena, profiles);
    *bytes = arena.used;
    for (uint32_t t = 0; t < s->types; t++)
        free(profiles[t]);
    return w;
}

/* ---- requests ---- */

static void request_moves(struct world *w, uint64_t handle, enum request_state from, enum request_state to) {
    if (w->request_state[handle] != from)
        wrong(w, to == REFUSED ? "a request is refused that is not queued"
                 : to == RAN   ? "a request ran that is in no batch"
                               : "a request joined a batch without being queued");
    w->request_state[handle] = (uint8_t)to;
}

/* ---- model cores ---- */

static void model_answers(struct world *w, uint32_t m, int64_t now_ns, const struct grant_message *grant,
                          const struct model_output *out) {
    struct to_rank *answer = to_rank_push(w, m, RANK_ANSWER);
    bool used = out->batch != REQUEST_NONE;
    answer->answer = (struct rank_answer){
        .accelerator = grant->accelerator,
        .items = used ? out->batch_items : 0,
        .sealed_ns = now_ns,
        .end_ns = used ? out->batch_finish_ns : now_ns,
        .run_ns = used ? out->batch_run_ns : 0,
    };
    if (!used)
        return;
    struct executor *executor = &w->executors[grant->accelerator];
    if (executor->count == BATCHES_MOST) {
        wrong(w, "an accelerator is sent a third batch");
        return;
    }
    struct plan *plan = &executor->plans[executor->count++];
    *plan = (struct plan){.model = m, .free_ns = out->batch_finish_ns};
    for (uint32_t node = out->batch; node != REQUEST_NONE;) {
        uint32_t next = w->nodes[node].next;
        if (w->nodes[node].model != m)
            wrong(w, "a batch holds another model's request");
        plan->requests |= 1U << w->nodes[node].handle;
        request_moves(w, w->nodes[node].handle, QUEUED, BATCHED);
        request_pool_put(&w->pool, node);
        node = next;
    }
}

static void model_step(struct world *w, uint32_t m, int64_t now_ns, const struct model_event *event) {
    static struct model_output out;
    struct model_state *model = &w->models[m];
    model_core_step(model->core, now_ns, event, &out);
    CHECK(!out.rates_changed);
    for (uint32_t node = out.refused; node != REQUEST_NONE;) {
        uint32_t next = w->nodes[node].next;
        request_moves(w, w->nodes[node].handle, QUEUED, REFUSED);
        request_pool_put(&w->pool, node);
        node = next;
    }
    model->unsettled = event->kind == MODEL_ARRIVING;
    if (model->unsettled)
        return;
    model->wake_ns = out.wake_ns;
    if (out.candidate_changed)
        memcpy(model->told, out.candidates, w->section->types * sizeof(model->told[0]));
    if (event->kind == MODEL_GRANTED)
        model_answers(w, m, now_ns, event->grant, &out);
    else if (out.candidate_changed)
        w->ranks[model->subcluster].announced |= 1U << m;
}

static struct request_message request_message(const struct world *w, uint32_t r) {
    const struct script_request *request = &w->section->requests[r];
    return (struct request_message){.handle = r,
                                    .place = {request->model},
                                    .items = request->items,
                                    .arrival_ns = request->arrival_ns,
                                    .deadline_ns = request->arrival_ns + request->slo_ns,
                                    .work = 1};
}

static void request_arrives(struct world *w, uint32_t r, int64_t now_ns) {
    struct request_message message = request_message(w, r);
    w->request_state[r] = QUEUED;
    enum model_event_kind kind = w->section->lazy ? MODEL_ARRIVING : MODEL_ARRIVED;
    model_step(w, message.place.n, now_ns, &(struct model_event){.kind = kind, .request = &message});
}

static void request_cancelled(struct world *w, uint32_t r, int64_t now_ns) {
    struct request_message message = request_message(w, r);
    message.kind = REQUEST_CANCELLED;
    w->cancels++;
    w->cancelled[r] = 1;
    model_step(w, message.place.n, now_ns, &(struct model_event){.kind = MODEL_CANCELLED, .request = &message});
}

/* Nothing is to come from the old rank core any more: the next one is told all. */
static void model_has_left(struct world *w, uint32_t m) {
    struct model_state *model = &w->models[m];
    if (!model->leaving || model->granted)
        wrong(w, "a model has left that did not want to, or has a grant to answer");
    model->leaving = 0;
    model->subcluster = (model->subcluster + 1) % subclusters_of(w->section);
    to_rank_push(w, m, RANK_JOIN);
}

static void model_moves(struct world *w, uint32_t m) {
    w->moves++;
    w->models[m].leaving = 1;
    to_rank_push(w, m, RANK_LEAVE);
}

static void model_takes(struct world *w, uint32_t m, uint32_t r, int64_t now_ns) {
    struct grant_message grant = w->ranks[r].to_models[m].slots[0];
    POP(&w->ranks[r].to_models[m]);
    if (r != w->models[m].subcluster)
        wrong(w, "a model is told something by a rank core that it has left");
    if (grant.kind == GRANT_LEFT) {
        model_has_left(w, m);
        return;
    }
    model_step(w, m, now_ns,
               &(struct model_event){.kind = grant.kind == GRANT_ACCELERATOR ? MODEL_GRANTED : MODEL_PARAMETERS,
                                     .grant = &grant});
}

/* ---- the rank core ---- */

static void rank_grants(struct world *w, uint32_t r, const struct grant_message *grant) {
    if (grant->accelerator % subclusters_of(w->section) != r)
        wrong(w, "another rank core's accelerator is granted");
    if (w->models[grant->variant.n].granted)
        wrong(w, "a model is granted two accelerators at once");
    if (w->known[grant->accelerator].granted)
        wrong(w, "an accelerator is granted twice");
    if (w->known[grant->accelerator].out)
        wrong(w, "an accelerator out of service is granted");
    if ((int32_t)w->known[grant->accelerator].batches >= BATCHES_MOST)
        wrong(w, "an accelerator is granted that has two batches");
    w->models[grant->variant.n].granted = grant->accelerator + 1;
    w->known[grant->accelerator].granted = grant->variant.n + 1;
}

static void rank_tells(struct rank_state *rank, uint32_t m) {
    struct grant_message parameters, *message = to_model_push(rank, m, GRANT_PARAMETERS);
    rank_core_parameters(rank->core, (struct variant_id){m}, &parameters);
    message->admit_share = parameters.admit_share;
    message->parameters = parameters.parameters;
}

/* Whoever moves is told at once. */
static void rank_moves(struct world *w, uint32_t r, const struct rank_output *out) {
    if (out->left.n != RANK_NOBODY)
        to_model_push(&w->ranks[r], out->left.n, GRANT_LEFT);
    if (out->joined.n != RANK_NOBODY)
        rank_tells(&w->ranks[r], out->joined.n);
}

static void rank_step(struct world *w, uint32_t r, int64_t now_ns, const struct rank_event *event) {
    static struct rank_output out;
    struct rank_state *rank = &w->ranks[r];
    rank_core_step(rank->core, now_ns, event, &out);
    rank->wake_ns = out.wake_ns;
    rank->undecided = 0;
    for (uint32_t i = 0; i < out.grant_count; i++) {
        const struct grant_message *grant = &out.grants[i];
        rank_grants(w, r, grant);
        struct grant_message *message =
            to_model_push(rank, grant->variant.n, GRANT_ACCELERATOR); /* padding stays zero */
        message->accelerator = grant->accelerator;
        message->type = grant->type;
        message->free_ns = grant->free_ns;
    }
    rank_moves(w, r, &out);
    for (uint32_t m = 0; out.parameters_changed && m < w->section->models; m++)
        if (rank_core_member(rank->core, (struct variant_id){m}))
            rank_tells(rank, m);
}

/* Decides at once, as in the simulator, or when more has been taken, as in the live threads. */
static void rank_take(struct world *w, uint32_t r, int64_t now_ns, const struct rank_event *event) {
    static struct rank_output out;
    if (!w->section->lazy) {
        rank_step(w, r, now_ns, event);
        return;
    }
    rank_core_take(w->ranks[r].core, now_ns, event, &out);
    w->ranks[r].undecided = 1;
    rank_moves(w, r, &out);
}

static void rank_takes_candidate(struct world *w, uint32_t m, uint32_t r, int64_t now_ns) {
    w->ranks[r].announced &= ~(1U << m);
    rank_take(w, r, now_ns,
              &(struct rank_event){.kind = RANK_CANDIDATES, .variant = {m}, .candidates = w->models[m].told});
}

static void rank_takes(struct world *w, uint32_t m, uint32_t r, int64_t now_ns) {
    struct to_rank said = w->ranks[r].from_models[m].slots[0];
    POP(&w->ranks[r].from_models[m]);
    union {
        struct rank_message message;
        char bytes[sizeof(struct rank_message) + TYPES_MAX * sizeof(struct candidate)];
    } room;
    room.message = (struct rank_message){
        .kind = (enum rank_message_kind)said.kind, .variant = {m}, .types = w->section->types, .answer = said.answer};
    memcpy(room.message.candidates, w->models[m].told, sizeof(w->models[m].told));
    if (said.kind == RANK_ANSWER) {
        uint32_t a = said.answer.accelerator;
        if (w->models[m].granted != a + 1)
            wrong(w, "an answer to no grant");
        w->models[m].granted = w->known[a].granted = 0;
        w->known[a].batches += said.answer.items > 0;
    }
    rank_take(w, r, now_ns, &(struct rank_event){.kind = RANK_MESSAGE, .message = &room.message});
}

static void rank_notices(struct world *w, uint32_t a, int64_t now_ns) {
    int64_t kind = w->notices[a].slots[0].kind, said_ns = w->notices[a].slots[0].said_ns;
    uint32_t m = (uint32_t)w->notices[a].slots[0].model;
    uint32_t r = a % subclusters_of(w->section);
    POP(&w->notices[a]);
    if (kind == NEWS_ENDED) {
        w->known[a].batches--;
        rank_take(w, r, now_ns,
                  &(struct rank_event){
                      .kind = RANK_BATCH_ENDED, .accelerator = a, .variant = {m}, .ended = {.at_ns = said_ns}});
        return;
    }
    w->known[a].out = kind == NEWS_LEAVES;
    rank_step(w, r, now_ns,
              &(struct rank_event){.kind = kind == NEWS_LEAVES ? RANK_ACCELERATOR_DOWN : RANK_ACCELERATOR_UP,
                                   .accelerator = a});
}

/* ---- accelerators ---- */

static void notice(struct world *w, uint32_t a, enum accelerator_news kind, uint32_t model) {
    CHECK_LT(w->notices[a].count, NOTICES_MAX);
    uint64_t i = w->notices[a].count++;
    w->notices[a].slots[i].kind = kind;
    w->notices[a].slots[i].said_ns = w->now_ns;
    w->notices[a].slots[i].model = model;
}

/* A lost batch's requests are sent again by their frontends, if their clients are still there and there is time. */
static void request_lost(struct world *w, uint32_t r) {
    struct request_message message = request_message(w, r);
    request_moves(w, r, BATCHED, RAN);
    if (w->cancelled[r] || w->now_ns > message.deadline_ns)
        return;
    request_arrives(w, r, w->now_ns);
}

static void batch_ends(struct world *w, uint32_t a, uint32_t i) {
    struct executor *executor = &w->executors[a];
    struct plan plan = executor->plans[i];
    executor->count--;
    executor->plans[i] = i < executor->count ? executor->plans[executor->count] : (struct plan){0};
    executor->plans[executor->count] = (struct plan){0};
    notice(w, a, NEWS_ENDED, plan.model);
    for (uint32_t r = 0; r < w->section->request_count; r++) {
        if (!(plan.requests & 1U << r))
            continue;
        if (executor->dead)
            request_lost(w, r);
        else
            request_moves(w, r, BATCHED, RAN);
    }
}

/* ---- actions ---- */

static int64_t clock_next(const struct world *w) {
    const struct section *s = w->section;
    int64_t next_ns = TIME_NEVER;
#define CONSIDER(at_ns) next_ns = (at_ns) > w->now_ns && (at_ns) < next_ns ? (at_ns) : next_ns
    for (uint32_t m = 0; m < s->models; m++)
        CONSIDER(w->models[m].wake_ns);
    for (uint32_t r = 0; r < subclusters_of(s); r++)
        CONSIDER(w->ranks[r].wake_ns);
    for (uint32_t r = 0; r < s->request_count; r++)
        if (w->request_state[r] == UNSENT)
            CONSIDER(s->requests[r].arrival_ns);
    for (uint32_t a = 0; a < s->accelerators; a++)
        for (uint32_t i = 0; i < w->executors[a].count; i++)
            CONSIDER(w->executors[a].plans[i].free_ns);
#undef CONSIDER
    return next_ns;
}

struct offers {
    struct explore_action *actions;
    uint32_t count;
};

static void offer(struct offers *o, enum action kind, uint32_t x, uint32_t y, bool optional) {
    CHECK_LT(o->count, EXPLORE_ACTIONS_MAX);
    o->actions[o->count++] = (struct explore_action){(uint8_t)kind, (uint8_t)x, (uint8_t)y, optional};
}

/* A step of a thread: by the time that it is, or by that of its last turn, in which messages may have come since. */
static void offer_turn(const struct world *w, struct offers *o, enum action kind, uint32_t x, uint32_t y,
                       int64_t turn_ns) {
    offer(o, kind, x, y, false);
    if (w->section->stale && turn_ns < w->now_ns)
        offer(o, kind | STALE, x, y, true);
}

static void offer_requests(const struct world *w, struct offers *o) {
    const struct section *s = w->section;
    bool unsent[MODELS_MAX] = {false};
    for (uint32_t r = 0; r < s->request_count; r++) {
        uint32_t m = s->requests[r].model;
        if (w->request_state[r] != UNSENT) {
            if (!w->cancelled[r] && w->cancels < s->cancels)
                offer(o, CANCEL, r, 0, true);
            continue;
        }
        if (!unsent[m] && s->requests[r].arrival_ns <= w->now_ns)
            offer(o, ARRIVE, r, 0, false);
        unsent[m] = true;
    }
}

static void offer_accelerator(const struct world *w, struct offers *o, uint32_t a) {
    const struct section *s = w->section;
    const struct executor *executor = &w->executors[a];
    if (w->notices[a].count)
        offer_turn(w, o, NOTICE, a, 0, w->ranks[a % subclusters_of(s)].turn_ns);
    for (uint32_t i = 0; i < executor->count; i++) /* of one model they are in one ring, in order */
        if (i == 0 || executor->plans[i].model != executor->plans[0].model)
            offer(o, END, a, i, false);
    if (!executor->dead && !executor->drained && w->deaths < s->deaths)
        offer(o, DIE, a, 0, true);
    if (!executor->dead && !executor->drained && w->drains < s->drains)
        offer(o, DRAIN, a, 0, true);
    if (executor->drained || (executor->dead && executor->count == 0)) /* what was lost is reported before */
        offer(o, JOIN, a, 0, true);
}

/* A batch that has not run for as long as expected is not. */
static bool something_is_due(const struct world *w, const struct offers *o) {
    for (uint32_t i = 0; i < o->count; i++) {
        const struct explore_action *action = &o->actions[i];
        if (!action->optional && (action->kind != END || w->executors[action->x].plans[action->y].free_ns <= w->now_ns))
            return true;
    }
    return false;
}

static void offer_model(const struct world *w, struct offers *o, uint32_t m) {
    const struct model_state *model = &w->models[m];
    for (uint32_t r = 0; r < subclusters_of(w->section); r++) {
        if (w->ranks[r].to_models[m].count && !model->unsettled)
            offer_turn(w, o, TO_MODEL, m, r, model->turn_ns);
        if (w->ranks[r].from_models[m].count)
            offer_turn(w, o, TO_RANK, m, r, w->ranks[r].turn_ns);
        if (w->ranks[r].announced & 1U << m)
            offer_turn(w, o, BOARD, m, r, w->ranks[r].turn_ns);
    }
    if (model->unsettled)
        offer(o, SETTLE, m, 0, false);
    else if (model->wake_ns <= w->now_ns)
        offer(o, MODEL_TIME, m, 0, false);
    if (!model->leaving && w->moves < w->section->moves)
        offer(o, MOVE, m, 0, true);
}

static uint32_t world_enabled(const void *state, struct explore_action *actions) {
    const struct world *w = state;
    struct offers o = {actions, 0};
    offer_requests(w, &o);
    for (uint32_t m = 0; m < w->section->models; m++)
        offer_model(w, &o, m);
    for (uint32_t r = 0; r < subclusters_of(w->section); r++)
        if (w->ranks[r].undecided)
            offer_turn(w, &o, DECIDE, r, 0, w->ranks[r].turn_ns);
        else if (w->ranks[r].wake_ns <= w->now_ns)
            offer(&o, DECIDE, r, 0, false);
    for (uint32_t a = 0; a < w->section->accelerators; a++)
        offer_accelerator(w, &o, a);
    bool late = something_is_due(w, &o), within_turn = false;
    for (uint32_t m = 0; m < w->section->models; m++)
        within_turn |= w->models[m].unsettled;
    if (!within_turn && clock_next(w) != TIME_NEVER && !(late && w->lags == w->section->lags))
        offer(&o, CLOCK, late, 0, false);
    return o.count;
}

/* The time by which a thread takes its next step. */
static int64_t turn(struct world *w, int64_t *turn_ns, bool stale) {
    if (!w->section->stale)
        return w->now_ns;
    if (!stale)
        *turn_ns = w->now_ns;
    return *turn_ns;
}

static int64_t model_turn(struct world *w, uint32_t m, bool stale) {
    return turn(w, &w->models[m].turn_ns, stale);
}

static int64_t rank_turn(struct world *w, uint32_t r, bool stale) {
    return turn(w, &w->ranks[r].turn_ns, stale);
}

/* Nothing is on its way, and no timer is due. */
static bool is_quiet(const struct world *w) {
    const struct section *s = w->section;
    for (uint32_t r = 0; r < subclusters_of(s); r++) {
        if (w->ranks[r].wake_ns <= w->now_ns + 1) /* what was given back is held for a nanosecond */
            return false;
        if (w->ranks[r].undecided || w->ranks[r].announced)
            return false;
        for (uint32_t m = 0; m < s->models; m++)
            if (w->ranks[r].to_models[m].count || w->ranks[r].from_models[m].count)
                return false;
    }
    for (uint32_t m = 0; m < s->models; m++)
        if (w->models[m].wake_ns <= w->now_ns || w->models[m].unsettled)
            return false;
    for (uint32_t a = 0; a < s->accelerators; a++)
        if (w->notices[a].count)
            return false;
    return true;
}

/* What may start has not been left beside a free accelerator. */
static void check_nothing_forgotten(struct world *w) {
    const struct section *s = w->section;
    if (!is_quiet(w))
        return;
    for (uint32_t a = 0; a < s->accelerators; a++) {
        if (w->known[a].out || w->executors[a].count)
            continue;
        for (uint32_t m = 0; m < s->models; m++) {
            const struct candidate *c = &w->models[m].told[s->accelerator_type[a]];
            int64_t start_ns = c->start_ns[SUPPLY_SCARCE]; /* the latest, however many are free */
            for (uint32_t level = 1; level < SUPPLY_LEVELS; level++)
                start_ns = c->start_ns[level] > start_ns ? c->start_ns[level] : start_ns;
            if (w->models[m].subcluster == a % subclusters_of(s) && start_ns < w->now_ns &&
                w->now_ns <= c->invalid_after_ns)
                wrong(w, "a batch that may start is left beside a free accelerator");
        }
    }
}

static const char *world_apply(void *state, struct explore_action action) {
    struct world *w = state;
    uint32_t x = action.x;
    bool stale = action.kind & STALE;
    switch ((enum action)(action.kind & ~STALE)) {
    case ARRIVE:
        request_arrives(w, x, model_turn(w, w->section->requests[x].model, stale));
        break;
    case SETTLE:
        model_step(w, x, model_turn(w, x, false), &(struct model_event){.kind = MODEL_SETTLED});
        break;
    case CANCEL:
        request_cancelled(w, x, model_turn(w, w->section->requests[x].model, stale));
        break;
    case TO_MODEL:
        model_takes(w, x, action.y, model_turn(w, x, stale));
        break;
    case MODEL_TIME:
        model_step(w, x, model_turn(w, x, stale), &(struct model_event){.kind = MODEL_TIMER});
        break;
    case TO_RANK:
        rank_takes(w, x, action.y, rank_turn(w, action.y, stale));
        break;
    case BOARD:
        rank_takes_candidate(w, x, action.y, rank_turn(w, action.y, stale));
        break;
    case NOTICE:
        rank_notices(w, x, rank_turn(w, x % subclusters_of(w->section), stale));
        break;
    case DECIDE:
        rank_step(w, x, rank_turn(w, x, stale), &(struct rank_event){.kind = RANK_TIMER});
        break;
    case END:
        batch_ends(w, x, action.y);
        break;
    case DIE:
        w->deaths++;
        w->executors[x].dead = true;
        notice(w, x, NEWS_LEAVES, 0);
        break;
    case DRAIN:
        w->drains++;
        w->executors[x].drained = true;
        notice(w, x, NEWS_LEAVES, 0);
        break;
    case JOIN:
        w->executors[x].dead = w->executors[x].drained = false;
        notice(w, x, NEWS_JOINS, 0);
        break;
    case MOVE:
        model_moves(w, x);
        break;
    case CLOCK:
        w->lags += x;
        w->now_ns = clock_next(w);
        break;
    case ACTIONS:
        break;
    }
    check_nothing_forgotten(w);
    return w->wrong;
}

static const char *world_rest(void *state) {
    struct world *w = state;
    uint32_t up[SUBCLUSTERS_MAX] = {0};
    for (uint32_t r = 0; r < w->section->request_count; r++)
        if (w->request_state[r] != RAN && w->request_state[r] != REFUSED)
            wrong(w, "a request has not ended");
    for (uint32_t m = 0; m < w->section->models; m++) {
        if (w->models[m].granted)
            wrong(w, "a grant is not answered");
        if (w->models[m].leaving)
            wrong(w, "a model never arrives where it is to move");
        if (!model_core_idle(w->models[m].core))
            wrong(w, "a model core holds requests that have ended");
    }
    for (uint32_t a = 0; a < w->section->accelerators; a++) {
        up[a % subclusters_of(w->section)] += !w->known[a].out;
        if (w->known[a].batches)
            wrong(w, "the rank core has miscounted an accelerator's batches");
    }
    if (w->pool.used)
        wrong(w, "the pool has not got its nodes back");
    for (uint32_t r = 0; r < subclusters_of(w->section); r++) {
        if (rank_core_accelerators_busy(w->ranks[r].core))
            wrong(w, "an accelerator is busy for ever");
        if (rank_core_accelerators_free(w->ranks[r].core) != up[r])
            wrong(w, "an accelerator in service is not free");
    }
    return w->wrong;
}

static void world_print(struct explore_action action) {
    static const char *const names[ACTIONS] = {
        [ARRIVE] = "request %u arrives at its model",
        [SETTLE] = "model %u tells what follows",
        [CANCEL] = "client of request %u leaves",
        [TO_MODEL] = "model %u takes a message of rank core %u",
        [MODEL_TIME] = "model %u's timer",
        [TO_RANK] = "model %u's message is taken by rank core %u",
        [NOTICE] = "accelerator %u's news are taken by its rank core",
        [BOARD] = "model %u's candidate is taken by rank core %u",
        [DECIDE] = "rank core %u decides",
        [END] = "accelerator %u ends a batch, number %u",
        [DIE] = "accelerator %u dies",
        [DRAIN] = "accelerator %u is to drain",
        [JOIN] = "accelerator %u joins",
        [MOVE] = "model %u is to move",
        [CLOCK] = "time goes on (%u: things are late)",
    };
    enum action kind = action.kind & ~STALE;
    char text[128];
    snprintf(text, sizeof(text), names[kind], action.x, action.y);
    printf("%s%s\n", text, action.kind & STALE ? ", by its last turn's time" : "");
}

/* ---- sections ---- */

#define MODELS(p, m, a) .policy = &policy_##p, .models = m, .accelerators = a, .types = 1
#define TIMES           .alpha_ns = 2, .beta_ns = 8

static const struct section sections[] = {
    {
        .name = "one model, late messages",
        MODELS(eager, 1, 1),
        TIMES,
        .request_count = 3,
        .requests = {{0, 1, 0, 40}, {0, 1, 5, 40}, {0, 2, 6, 40}},
        .lazy = true,
        .lags = 2,
    },
    {
        .name = "two models for one accelerator",
        MODELS(deferred, 2, 1),
        TIMES,
        .request_count = 3,
        .requests = {{0, 1, 0, 40}, {1, 1, 0, 30}, {0, 1, 5, 40}},
        .lazy = true,
    },
    {
        .name = "two accelerators for two models",
        MODELS(eager, 2, 2),
        TIMES,
        .request_count = 3,
        .requests = {{0, 1, 0, 40}, {1, 1, 0, 40}, {0, 1, 5, 40}},
        .lazy = true,
    },
    {
        .name = "two accelerators for two models, deferred",
        MODELS(deferred, 2, 2),
        TIMES,
        .request_count = 4,
        .requests = {{0, 1, 0, 40}, {1, 1, 0, 40}, {0, 1, 5, 40}, {1, 1, 6, 40}},
    },
    {
        .name = "sealed ahead of time",
        MODELS(eager, 2, 1),
        TIMES,
        .ctrl_ns = 2,
        .data_ns = 1,
        .request_count = 4,
        .requests = {{0, 1, 0, 60}, {1, 1, 0, 60}, {0, 1, 5, 60}, {1, 1, 6, 60}},
        .lazy = true,
    },
    {
        .name = "sealed ahead of time, late messages",
        MODELS(eager, 1, 1),
        TIMES,
        .ctrl_ns = 2,
        .data_ns = 1,
        .request_count = 4,
        .requests = {{0, 1, 0, 60}, {0, 1, 5, 60}, {0, 1, 6, 60}, {0, 1, 20, 60}},
        .lags = 1,
        .lazy = true,
    },
    {
        .name = "refusals",
        MODELS(deferred, 1, 1),
        TIMES,
        .request_count = 4,
        .requests = {{0, 1, 0, 14}, {0, 1, 0, 14}, {0, 1, 1, 16}, {0, 3, 2, 18}},
        .lags = 1,
        .lazy = true,
    },
    {
        .name = "clients leave",
        MODELS(eager, 2, 1),
        TIMES,
        .request_count = 3,
        .requests = {{0, 1, 0, 40}, {1, 1, 0, 40}, {0, 1, 5, 40}},
        .cancels = 2,
    },
    {
        .name = "an accelerator dies",
        MODELS(eager, 1, 1),
        TIMES,
        .request_count = 2,
        .requests = {{0, 1, 0, 40}, {0, 1, 5, 40}},
        .deaths = 1,
        .lazy = true,
    },
    {
        .name = "one of two accelerators dies",
        MODELS(eager, 2, 2),
        TIMES,
        .request_count = 2,
        .requests = {{0, 1, 0, 40}, {1, 1, 5, 40}},
        .deaths = 1,
    },
    {
        .name = "it dies twice, with batches sealed ahead",
        MODELS(eager, 1, 1),
        TIMES,
        .ctrl_ns = 2,
        .data_ns = 1,
        .request_count = 2,
        .requests = {{0, 1, 0, 60}, {0, 1, 5, 60}},
        .deaths = 2,
    },
    {
        .name = "it drains, with batches sealed ahead",
        MODELS(eager, 1, 1),
        TIMES,
        .ctrl_ns = 2,
        .data_ns = 1,
        .request_count = 3,
        .requests = {{0, 1, 0, 60}, {0, 1, 5, 30}, {0, 1, 5, 60}},
        .drains = 1,
        .cancels = 1,
    },
    {
        .name = "an accelerator drains and joins",
        MODELS(deferred, 2, 1),
        TIMES,
        .request_count = 2,
        .requests = {{0, 1, 0, 40}, {1, 1, 0, 40}},
        .drains = 1,
    },
    {
        .name = "two types of accelerators",
        .policy = &policy_deferred,
        .models = 1,
        .accelerators = 2,
        .types = 2,
        .accelerator_type = {0, 1},
        TIMES,
        .request_count = 3,
        .requests = {{0, 1, 0, 40}, {0, 1, 5, 40}, {0, 1, 6, 30}},
        .lags = 1,
        .lazy = true,
    },
    {
        .name = "threads whose turns began long ago",
        MODELS(eager, 2, 1),
        TIMES,
        .ctrl_ns = 2,
        .request_count = 2,
        .requests = {{0, 1, 0, 60}, {1, 1, 5, 60}},
        .lags = 1,
        .stale = true,
        .lazy = true,
        .grace_ns = 3,
    },
    {
        .name = "a model moves",
        MODELS(eager, 1, 2),
        TIMES,
        .request_count = 2,
        .requests = {{0, 1, 0, 40}, {0, 1, 5, 40}},
        .moves = 2,
        .subclusters = 2,
        .lazy = true,
    },
    {
        .name = "two models move",
        MODELS(eager, 2, 2),
        TIMES,
        .request_count = 2,
        .requests = {{0, 1, 0, 40}, {1, 1, 0, 40}},
        .moves = 2,
        .subclusters = 2,
    },
    {
        .name = "a model moves while accelerators die",
        MODELS(eager, 1, 2),
        TIMES,
        .ctrl_ns = 2,
        .request_count = 2,
        .requests = {{0, 1, 0, 40}, {0, 1, 5, 40}},
        .moves = 1,
        .deaths = 1,
        .subclusters = 2,
    },
    {
        .name = "all at once, several rank cores, some orders",
        .policy = &policy_deferred,
        .models = 3,
        .accelerators = 3,
        .types = 1,
        TIMES,
        .ctrl_ns = 2,
        .data_ns = 1,
        .request_count = 8,
        .requests = {{0, 1, 0, 60},
                     {1, 1, 0, 40},
                     {2, 1, 0, 80},
                     {0, 2, 5, 60},
                     {1, 1, 9, 60},
                     {2, 3, 10, 60},
                     {0, 1, 12, 20},
                     {1, 1, 30, 70}},
        .cancels = 2,
        .deaths = 1,
        .drains = 1,
        .moves = 6,
        .subclusters = 2,
        .lags = 100,
        .stale = true,
        .random = true,
        .lazy = true,
    },
    {
        .name = "all at once, some orders",
        .policy = &policy_deferred,
        .models = 3,
        .accelerators = 3,
        .types = 2,
        .accelerator_type = {0, 1, 0},
        TIMES,
        .ctrl_ns = 2,
        .data_ns = 1,
        .request_count = 8,
        .requests = {{0, 1, 0, 60},
                     {1, 1, 0, 40},
                     {2, 1, 0, 80},
                     {0, 2, 5, 60},
                     {1, 1, 9, 60},
                     {2, 3, 10, 60},
                     {0, 1, 12, 20},
                     {1, 1, 30, 70}},
        .cancels = 2,
        .deaths = 2,
        .drains = 2,
        .lags = 100,
        .stale = true,
        .random = true,
        .lazy = true,
        .grace_ns = 3,
    },
};

static bool section_run(const struct section *s, uint64_t runs) {
    struct explore_totals totals;
    size_t bytes;
    struct world *w = world_new(s, &bytes);
    struct explore_system system = {.name = s->name,
                                    .state = w,
                                    .bytes = bytes,
                                    .enabled = world_enabled,
                                    .apply = world_apply,
                                    .rest = world_rest,
                                    .print = world_print};
    bool well = s->random ? explore_some(&system, runs, histories_first(), &totals) : explore_all(&system, &totals);
    printf("%-48s %9" PRIu64 " states %10" PRIu64 " actions %8" PRIu64 " ends, %u deep, %zu bytes\n", s->name,
           totals.states, totals.actions, totals.rests, totals.depth_most, bytes);
    free(w);
    return well;
}

int main(int argc, char **argv) {
    uint64_t runs = histories_count(RUNS);
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
        if ((argc < 2 || strcmp(argv[1], sections[i].name) == 0) && !section_run(&sections[i], runs))
            return 1;
    return 0;
}
