/* model_thread_moves.c - variants that move to another rank thread, and models that come and go.
 *
 * A variant moves by leaving one rank thread and joining another, and keeps its requests meanwhile. The variants of a
 * model that comes join from SUBCLUSTER_NONE, and those of a model that goes leave for SUBCLUSTER_NONE. */
#include "core/util/assert.h"
#include "core/util/counter.h"
#include "sched/threads/model_thread_state.h"

/* Puts the variant on the list for thread_tell_moves(). */
static void set_moving(struct model_thread *t, struct variant *v, enum moving moving) {
    v->moving = moving;
    t->movers[t->mover_count++] = (uint32_t)(v - t->variants);
}

static void set_subcluster(struct model_thread *t, struct variant *v) {
    v->subcluster = v->subcluster_next;
    /* release: with wiring_subcluster(); who sees SUBCLUSTER_NONE may free the core */
    atomic_store_explicit(&t->rings.wiring->subclusters[v->id.n], (uint8_t)v->subcluster, memory_order_release);
}

static void variant_move(struct model_thread *t, struct variant *v, uint32_t subcluster) {
    v->subcluster_next = subcluster;
    if (v->moving == TO_JOIN &&
        subcluster != SUBCLUSTER_NONE) /* the rank thread that it was to join does not know of it yet */
        set_subcluster(t, v);
    else if (v->moving == SETTLED && v->subcluster != v->subcluster_next)
        set_moving(t, v, TO_LEAVE);
    /* else it is leaving, and joins the newest subcluster_next */
}

/* No rank thread knows the variant any more, and no request is for it. */
static void variant_end(struct model_thread *t, struct variant *v) {
    CHECK(model_core_idle(v->core));
    heap_remove(&t->timers, (uint32_t)(v - t->variants));
    v->core = NULL;
    v->serving = false;
    v->moving = SETTLED;
    t->active--;
    set_subcluster(t, v);
    wiring_places_ring(t->rings.wiring);
}

void thread_variant_left(struct model_thread *t, struct variant *v) {
    CHECK_EQ(v->moving, LEAVING);
    if (v->subcluster_next == SUBCLUSTER_NONE) {
        variant_end(t, v);
        return;
    }
    set_subcluster(t, v);
    set_moving(t, v, TO_JOIN);
    if (v == thread_variants(t, v->model).first) /* its other shapes come along */
        counter_add(&t->rings.counters[v->model.n].moves, 1);
}

static void model_comes(struct model_thread *t, struct place_id place, uint32_t subcluster) {
    struct thread_model_id id = rings_model_of(&t->rings, place);
    struct variant_range *range = &t->ranges[id.n];
    const struct model_cores *cores = t->prepared[id.n];
    const struct thread_model *model = &cores->model;
    struct candidate none[ACCELERATOR_TYPES_MAX];

    CHECK_EQ(range->count, 0);
    rings_model_set(&t->rings, id, model);
    thread_levels_set(&t->levels[id.n], model->queue);
    for (uint32_t type = 0; type < t->types; type++)
        none[type] = candidate_none();
    *range = (struct variant_range){thread_variant_at(t, model->first_variant), model->variant_count};
    for (uint32_t i = 0; i < model->variant_count; i++) {
        struct variant *v = range->first + i;
        CHECK(!v->core);
        v->core = cores->cores[i];
        thread_prepared_log(t, v, cores);
        if (t->memory)
            t->memory[v - t->variants] = thread_memory_none(model);
        v->model = id;
        v->shape_key = 0;
        v->generation++;
        v->serving = model->variant_count == 1; /* as in thread_variants_allocate() */
        v->queued = 0;
        v->rates_known = false;
        thread_note_load(t, v, NULL);
        v->subcluster_next = subcluster;
        candidate_board_write(&t->rings.wiring->candidates, v->id, none, 0);
        t->active++;
        set_subcluster(t, v);
        set_moving(t, v, TO_JOIN);
    }
    wiring_places_ring(t->rings.wiring);
}

void thread_take_move(struct model_thread *t, const struct model_move *move) {
    switch (move->kind) {
    case MODEL_MOVES:
        CHECK_LT(move->subcluster, t->rings.wiring->rank_threads);
        variant_move(t, thread_variant_at(t, move->variant), move->subcluster);
        break;
    case MODEL_COMES:
        CHECK_LT(move->subcluster, t->rings.wiring->rank_threads);
        model_comes(t, move->place, move->subcluster);
        break;
    case MODEL_GOES: {
        struct variant_range *range = &t->ranges[rings_model_of(&t->rings, move->place).n];

        for (struct variant *v = range->first; v < range->first + range->count; v++)
            variant_move(t, v, SUBCLUSTER_NONE);
        range->count = 0;
        break;
    }
    }
}

void thread_tell_moves(struct model_thread *t) {
    uint32_t count = t->mover_count;

    t->mover_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct variant *v = &t->variants[t->movers[i]];
        if (v->moving == TO_JOIN && v->subcluster_next == SUBCLUSTER_NONE) {
            variant_end(t, v);
        } else if (!thread_may_say(t, v)) {
            t->movers[t->mover_count++] = t->movers[i];
        } else if (v->moving == TO_LEAVE) {
            thread_say(t, v, v->subcluster_next == SUBCLUSTER_NONE ? RANK_GOES : RANK_LEAVE);
            v->moving = LEAVING;
            t->rank_rung[v->subcluster] = true; /* leaving does not wait for a free accelerator */
        } else {
            /* the message brings the candidates: those on the board may have been announced before the rank thread knew
             * the variant, which it ignored */
            struct rank_message *message = thread_say(t, v, RANK_JOIN);

            message->types = t->types;
            if (t->memory)
                message->weights = thread_weights(rings_model(&t->rings, v->model));
            CHECK(candidate_board_read(&t->rings.wiring->candidates, v->id, message->candidates, &message->origin_ns));
            v->moving = SETTLED;
            t->rank_rung[v->subcluster] = true; /* a cluster's link waits to hear of it, also from a rank thread that
                                                 * has no accelerators (scheduler_memory.c) */
            if (v->rates_known)
                thread_note_rates(t, v);
        }
    }
}
