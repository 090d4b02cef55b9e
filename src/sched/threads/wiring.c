/* wiring.c - builds the rings and doorbells between the threads. */
#include "sched/threads/wiring.h"

#include <errno.h>
#include <stdlib.h>

#include "core/data/output_block.h"

#define PLAN_SLOTS_MAX   65536 /* slots of a ring of plans from a model thread to an executor, at most: 4 MiB */
#define RESULT_SLOTS_MAX 65536 /* slots of a ring of results from an executor to a backend's link, at most: 4 MiB */
#define COMMANDS_MAX     256

static int rings_make_runs(struct ring **rings, uint32_t count, uint32_t capacity, size_t slot_bytes,
                           uint32_t run_max) {
    *rings = aligned_alloc(CACHE_LINE, count * sizeof(struct ring));
    if (!*rings)
        return -ENOMEM;
    memset(*rings, 0, count * sizeof(struct ring));
    for (uint32_t i = 0; i < count; i++)
        if (ring_init_runs(&(*rings)[i], capacity, slot_bytes, run_max) < 0)
            return -ENOMEM;
    return 0;
}

static int rings_make(struct ring **rings, uint32_t count, uint32_t capacity, size_t slot_bytes) {
    return rings_make_runs(rings, count, capacity, slot_bytes, 1);
}

/* Gives back the outputs of results that no frontend has taken, because their batches ended after the frontends had. */
static void results_drop(struct ring *results, uint32_t count) {
    for (uint32_t i = 0; results && i < count; i++) {
        const struct result_message *message;
        for (; (message = ring_peek(&results[i])); ring_pop(&results[i]))
            output_block_put(message->block);
    }
}

static void rings_free(struct ring *rings, uint32_t count) {
    for (uint32_t i = 0; rings && i < count; i++)
        ring_destroy(&rings[i]);
    free(rings);
}

static int bells_make(struct doorbell **bells, uint32_t count, bool event_fd, bool busy_poll) {
    *bells = aligned_alloc(CACHE_LINE, count * sizeof(struct doorbell));
    if (!*bells)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        (*bells)[i].event_fd = -1;
    for (uint32_t i = 0; i < count; i++) {
        int rc = doorbell_init(&(*bells)[i], event_fd, busy_poll);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void bells_free(struct doorbell *bells, uint32_t count) {
    for (uint32_t i = 0; bells && i < count; i++)
        doorbell_destroy(&bells[i]);
    free(bells);
}

/* Most accelerators of one executor. */
static uint32_t accelerators_most(const struct wiring *w) {
    uint32_t most = 1;

    for (uint32_t e = 0; e < w->executors; e++) {
        uint32_t count = 0;
        for (uint32_t a = 0; a < w->accelerators; a++)
            count += w->executor_of[a] == e;
        most = count > most ? count : most;
    }
    return most;
}

/* Slots for all plans that an executor may have at once. Rounding up to slots costs each plan less than two. */
static uint32_t plan_slots(const struct wiring *w, uint32_t plans) {
    uint64_t requests = (uint64_t)plans * w->batch_max, most = (uint64_t)w->frontends * w->port_requests;
    uint32_t one = batch_plan_slots(w->batch_max);

    requests = requests < most ? requests : most;
    uint64_t slots = 2 * (uint64_t)plans + requests * sizeof(uint64_t) / CACHE_LINE;
    slots = slots < PLAN_SLOTS_MAX ? slots : PLAN_SLOTS_MAX;
    return slots > one ? (uint32_t)slots : one;
}

/* Slots for the results that an executor may have for one frontend. In a backend process the link thread stands for the
 * frontends of the whole cluster, and hands an executor no plan whose results would not fit (backend_plans.c). There
 * the ring has slots for the results of all plans that the executor may have, up to RESULT_SLOTS_MAX, and for one
 * message more. */
static uint32_t result_slots(const struct wiring *w, uint32_t plans) {
    uint64_t requests = (uint64_t)plans * w->batch_max + 1;

    if (w->link != LINK_BACKEND || requests <= w->port_requests)
        return w->port_requests;
    return requests < RESULT_SLOTS_MAX ? (uint32_t)requests : RESULT_SLOTS_MAX;
}

/* Most accelerators of one sub-cluster. */
static uint32_t subcluster_accelerators(const struct wiring *w) {
    uint32_t count[RANK_THREADS_MAX] = {0}, most = 0;

    for (uint32_t a = 0; a < w->accelerators; a++)
        count[wiring_subcluster_of_accelerator(w, a)]++;
    for (uint32_t k = 0; k < w->rank_threads; k++)
        most = count[k] > most ? count[k] : most;
    return most;
}

/* Makes the words that one thread writes and any thread reads, and the arrays that are set before frontends begin. */
static int states_make(struct wiring *w) {
    w->states = calloc(w->accelerators, sizeof(*w->states)); /* all ACCELERATOR_SERVING */
    w->subclusters = calloc(w->models + 1, sizeof(*w->subclusters));
    w->loads = calloc(w->models + 1, sizeof(*w->loads));
    w->hints = aligned_alloc(CACHE_LINE, w->rank_threads * sizeof(*w->hints));
    w->cards = calloc(wiring_numbers(w), sizeof(*w->cards)); /* untouched pages cost nothing */
    w->regions = calloc(wiring_regions(w) + 1, sizeof(*w->regions));
    w->card_fds = malloc(w->frontends * sizeof(*w->card_fds));
    if (!w->states || !w->subclusters || !w->loads || !w->hints || !w->cards || !w->regions || !w->card_fds)
        return -ENOMEM;
    for (uint32_t f = 0; f < w->frontends; f++)
        w->card_fds[f] = -1;
    for (uint32_t r = 0; r < wiring_regions(w); r++)
        w->regions[r].fd = -1;
    w->regions[wiring_region_any(w)] = (struct region){.bytes = w->link == LINK_NONE ? SIZE_MAX : 0, .fd = -1};
    for (uint32_t a = 0; a < w->accelerators && w->link == LINK_SCHEDULER; a++)
        atomic_init(&w->states[a], ACCELERATOR_GONE); /* until one comes into its place */
    for (uint32_t m = 0; m < w->models && w->subcluster_of_model; m++)
        atomic_init(&w->subclusters[m], w->subcluster_of_model[m]);
    for (uint32_t k = 0; k < w->rank_threads; k++) {
        atomic_init(&w->hints[k].accelerators_free, true);
        atomic_init(&w->hints[k].offer_ns, TIME_NEVER);
    }
    return 0;
}

/* How much news of accelerators may wait to be read. A backend that comes or goes brings or takes all its accelerators
 * at once. */
static uint32_t news_most(const struct wiring *w) {
    return w->link == LINK_SCHEDULER ? WIRING_NEWS_MAX + 4 * w->accelerators : WIRING_NEWS_MAX;
}

/* Makes the bells of the roles in this process. The bells of all other roles are the one bell of the link thread. */
static int all_bells_make(struct wiring *w, bool busy_poll) {
    enum wiring_link link = w->link;
    bool frontends = link == LINK_NONE || link == LINK_FRONTEND, executors = link == LINK_NONE || link == LINK_BACKEND;
    bool scheduler = link == LINK_NONE || link == LINK_SCHEDULER;
    int rc = 0;

    if (link == LINK_FRONTEND && w->link_bell)
        w->model_bells = w->link_bell;
    else if (link == LINK_FRONTEND)
        rc = bells_make(&w->model_bells, 1, true, false);
    else if (link != LINK_NONE)
        rc = bells_make(&w->frontend_bells, 1, true, false);
    if (rc == 0 && frontends)
        rc = bells_make(&w->frontend_bells, w->frontends, true, busy_poll);
    if (rc == 0 && scheduler)
        rc = bells_make(&w->model_bells, w->model_threads, false, busy_poll);
    if (rc == 0 && scheduler)
        rc = bells_make(&w->rank_bells, w->rank_threads, false, busy_poll);
    if (rc == 0 && executors)
        rc = bells_make(&w->executor_bells, w->executors, false, busy_poll);
    if (rc < 0 || link == LINK_NONE)
        return rc;
    if (link == LINK_SCHEDULER)
        w->places_bell = wiring_link_bell(w);
    if (!executors)
        w->executor_bells = wiring_link_bell(w);
    if (!scheduler)
        w->model_bells = w->rank_bells = wiring_link_bell(w);
    return 0;
}

/* Frees each array once. */
static void all_bells_free(struct wiring *w) {
    if (w->link == LINK_NONE || w->link == LINK_BACKEND)
        bells_free(w->executor_bells, w->executors);
    if (w->link == LINK_NONE || w->link == LINK_SCHEDULER)
        bells_free(w->rank_bells, w->rank_threads);
    if (w->link != LINK_BACKEND && !w->link_bell)
        bells_free(w->model_bells, w->model_threads);
    bells_free(w->frontend_bells, w->frontends);
}

int wiring_init(struct wiring *w, bool busy_poll, struct sy_error *err) {
    uint32_t f = w->frontends, t = w->model_threads, e = w->executors;
    if (!w->rank_threads)
        w->rank_threads = 1;
    uint32_t k = w->rank_threads;
    w->subcluster_accelerators = subcluster_accelerators(w);
    if (!w->port_requests)
        w->port_requests = PORT_REQUESTS_MAX;
    if (!w->request_slots)
        w->request_slots = 3 * w->port_requests;
    if (!w->types)
        w->types = 1;
    w->candidates = (struct candidate_board){.types = w->types, .models = w->models, .lanes = t * k};
    uint32_t plans = accelerators_most(w) * (w->central ? WIRING_PLANS_CENTRAL : 3);
    uint32_t orders = w->memory_counters ? accelerators_most(w) * MEMORY_ORDERS_MOST : 1;
    uint32_t told = wiring_orders_loads(w) && w->link == LINK_SCHEDULER ? 2 * w->models : 0;
    int rc;

    /* A port has at most port_requests requests outstanding, each with one arrival and one cancellation under way,
     * and each comes back once. What is left of request_slots is for hints that inputs are ready. An accelerator has at
     * most one batch being answered, one running and one sealed, so three plans, and reports each once. With very many
     * accelerators an executor that lags may find its ring of plans full: then model threads leave grants where they
     * are for the moment, and a central policy's batches are refused. to_rank may fill up: then rates, and models that
     * leave or join, wait in the model thread; newer rates overwrite older ones. A rank core, as the central thread,
     * gives an accelerator no more than MEMORY_ORDERS_MOST orders that are not answered; it tells a scheduler's link of
     * each variant that joins, which may leave and join once more before the link has read of it, and that tells more
     * of memories as far as there is room (scheduler_memory.c). */
    if ((rc = rings_make(&w->requests, f * t, w->request_slots, sizeof(struct request_message))) < 0 ||
        (rc = rings_make(&w->refusals, t * f, w->port_requests, sizeof(struct refusal_message))) < 0 ||
        (rc = rings_make(&w->results, e * f, result_slots(w, plans), sizeof(struct result_message))) < 0 ||
        (rc = rings_make_runs(&w->plans, t * e, plan_slots(w, plans), CACHE_LINE, batch_plan_slots(w->batch_max))) <
            0 ||
        (rc = rings_make(&w->ran, e * t, plans + (w->central ? news_most(w) : WIRING_NEWS_MAX),
                         sizeof(struct ran_message))) < 0 ||
        (rc = rings_make(&w->freed, e * k, plans + news_most(w), sizeof(struct freed_message))) < 0 ||
        (rc = rings_make(&w->orders, k * e, orders + told, sizeof(struct move_order))) < 0 ||
        (rc = rings_make(&w->moved, e * k, orders + told, sizeof(struct memory_moved))) < 0 ||
        (rc = rings_make(&w->moves, t, COMMANDS_MAX, sizeof(struct model_move))) < 0 ||
        (rc = rings_make(&w->commands, e, COMMANDS_MAX, sizeof(struct accelerator_command))) < 0 ||
        (rc = rings_make(&w->answers, e, COMMANDS_MAX, sizeof(struct model_answer))) < 0 ||
        (rc = rings_make(&w->to_rank, t * k, 1024 + w->subcluster_accelerators + TO_RANK_RESERVED,
                         rank_message_bytes(w->types))) < 0 ||
        (rc = candidate_board_init(&w->candidates)) < 0 ||
        (rc = rings_make(&w->grants, t * k, 2 * w->models + w->subcluster_accelerators + 64,
                         sizeof(struct grant_message))) < 0 ||
        (rc = all_bells_make(w, busy_poll)) < 0 || (rc = states_make(w)) < 0)
        return error_set(err, rc, "cannot build the threads' rings: %s", strerror(-rc));
    return 0;
}

static int move_tell(struct wiring *w, uint32_t thread, struct model_move told) {
    struct model_move *move = ring_reserve(&w->moves[thread]);

    if (!move)
        return -EAGAIN;
    *move = told;
    ring_push(&w->moves[thread]);
    ring_publish(&w->moves[thread]);
    doorbell_ring(&w->model_bells[thread]);
    return 0;
}

int wiring_move(struct wiring *w, struct variant_id variant, uint32_t subcluster) {
    return move_tell(w, wiring_thread_of(w, variant),
                     (struct model_move){.kind = MODEL_MOVES, .variant = variant, .subcluster = subcluster});
}

int wiring_model_comes(struct wiring *w, struct place_id place, uint32_t subcluster) {
    return move_tell(w, w->thread_of_served[place.n],
                     (struct model_move){.kind = MODEL_COMES, .place = place, .subcluster = subcluster});
}

int wiring_model_goes(struct wiring *w, struct place_id place) {
    return move_tell(w, w->thread_of_served[place.n], (struct model_move){.kind = MODEL_GOES, .place = place});
}

static int command_tell(struct wiring *w, uint32_t executor, struct accelerator_command told) {
    struct accelerator_command *command = ring_reserve(&w->commands[executor]);

    if (!command)
        return -EAGAIN;
    *command = told;
    ring_push(&w->commands[executor]);
    ring_publish(&w->commands[executor]);
    doorbell_ring(&w->executor_bells[executor]);
    return 0;
}

int wiring_command(struct wiring *w, uint32_t accelerator, enum accelerator_order order) {
    return command_tell(w, w->executor_of[accelerator],
                        (struct accelerator_command){.accelerator = accelerator, .order = order});
}

int wiring_model_command(struct wiring *w, uint32_t executor, struct place_id place, uint32_t version, bool resident) {
    uint32_t accelerator = 0; /* any of its own */

    while (w->executor_of[accelerator] != executor)
        accelerator++;
    return command_tell(w, executor,
                        (struct accelerator_command){.accelerator = accelerator,
                                                     .order = EXECUTOR_MODEL,
                                                     .place = place,
                                                     .version = version,
                                                     .resident = resident});
}

bool wiring_model_answer(struct wiring *w, uint32_t executor, struct model_answer *answer) {
    const struct model_answer *message = ring_peek(&w->answers[executor]);

    if (!message)
        return false;
    *answer = *message;
    ring_pop(&w->answers[executor]);
    ring_release(&w->answers[executor]);
    return true;
}

void wiring_destroy(struct wiring *w) {
    uint32_t f = w->frontends, t = w->model_threads, e = w->executors, k = w->rank_threads;

    free(w->states);
    free(w->subclusters);
    free(w->loads);
    free(w->hints);
    all_bells_free(w);
    rings_free(w->answers, e);
    rings_free(w->commands, e);
    rings_free(w->moves, t);
    rings_free(w->grants, t * k);
    candidate_board_free(&w->candidates);
    rings_free(w->to_rank, t * k);
    rings_free(w->freed, e * k);
    rings_free(w->orders, k * e);
    rings_free(w->moved, e * k);
    rings_free(w->ran, e * t);
    rings_free(w->plans, t * e);
    results_drop(w->results, e * f);
    rings_free(w->results, e * f);
    free(w->card_fds);
    free(w->cards);
    free(w->regions);
    rings_free(w->refusals, t * f);
    rings_free(w->requests, f * t);
}
