/* model_thread_says.c - what a model thread tells rank threads: candidates on the board, answers to grants, rates. */
#include <string.h>

#include "core/util/assert.h"
#include "sched/threads/model_thread_state.h"

void thread_tell_candidate(struct model_thread *t, const struct variant *v, int64_t origin_ns) {
    candidate_board_write(&t->rings.wiring->candidates, v->id, t->out.candidates, origin_ns);
    *thread_news(t, v) |= 1ULL << v->id.n % 64;
}

void thread_note_load(const struct model_thread *t, const struct variant *v, const struct model_rates *rates) {
    struct model_load *load = &t->rings.wiring->loads[v->id.n];
    double accelerators = rates ? model_rates_load(rates) : 0;

    atomic_store_explicit(&load->rate, rates ? rates->rate : 0, memory_order_relaxed); /* statistics, all three */
    atomic_store_explicit(&load->accelerators, accelerators, memory_order_relaxed);
    atomic_store_explicit(&load->at_ns, rates ? rates->at_ns : 0, memory_order_relaxed);
}

void thread_note_rates(struct model_thread *t, struct variant *v) {
    if (!v->rates_changed)
        t->rates_changed[t->rates_changed_count++] = (uint32_t)(v - t->variants);
    v->rates_changed = true;
}

void thread_answer(struct model_thread *t, const struct variant *v, int64_t now, const struct grant_message *grant) {
    struct ring *ring = thread_to_rank(t, v->subcluster);
    struct rank_message *answer = ring_reserve(ring);
    CHECK(answer); /* thread_may_say() keeps room for one answer an accelerator */
    bool used = t->out.batch != REQUEST_NONE;
    answer->kind = RANK_ANSWER;
    answer->variant = v->id;
    answer->types = t->types;
    answer->answer = (struct rank_answer){
        .accelerator = grant->accelerator,
        .items = used ? t->out.batch_items : 0,
        .sealed_ns = now,
        .end_ns = used ? t->out.batch_finish_ns : now,
        .run_ns = used ? t->out.batch_run_ns : 0,
    };
    answer->origin_ns = now;
    memcpy(answer->candidates, t->out.candidates, t->types * sizeof(answer->candidates[0]));
    ring_push(ring);
    t->rank_rung[v->subcluster] |= !used;
    *thread_news(t, v) &= ~(1ULL << v->id.n % 64); /* the answer brings them */
}

bool thread_may_say(const struct model_thread *t, const struct variant *v) {
    return ring_fits(thread_to_rank(t, v->subcluster), 1 + t->rings.wiring->subcluster_accelerators);
}

struct rank_message *thread_say(const struct model_thread *t, const struct variant *v, enum rank_message_kind kind) {
    struct rank_message *message = ring_reserve(thread_to_rank(t, v->subcluster));

    CHECK(message); /* the caller asked thread_may_say() */
    message->kind = kind;
    message->variant = v->id;
    message->types = 0;
    ring_push(thread_to_rank(t, v->subcluster));
    return message;
}

void thread_tell_rates(struct model_thread *t) {
    uint32_t waiting = 0;

    for (uint32_t i = 0; i < t->rates_changed_count; i++) {
        struct variant *v = &t->variants[t->rates_changed[i]];
        if (!v->core) {
            v->rates_changed = false;
            continue;
        }
        if (!thread_may_say(t, v)) {
            t->rates_changed[waiting++] = t->rates_changed[i];
            continue;
        }
        struct rank_message *message = thread_say(t, v, RANK_RATES);
        message->rates = t->rates[v - t->variants];
        message->rates.thread_busy = t->busy;
        v->rates_changed = false;
    }
    t->rates_changed_count = waiting;
}

bool thread_announce(struct model_thread *t, uint32_t subcluster) {
    struct candidate_board *board = &t->rings.wiring->candidates;
    uint64_t *news = &t->news[(size_t)subcluster * board->words];
    bool any = false;

    for (uint32_t word = 0; word < board->words; word++)
        if (news[word]) {
            candidate_board_announce(board, t->rings.index * t->rings.wiring->rank_threads + subcluster, word,
                                     news[word]);
            news[word] = 0;
            any = true;
        }
    return any;
}
