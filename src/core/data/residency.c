/* residency.c - the moves of one accelerator's weights, one after the other. */
#include "core/data/residency.h"

#include "core/util/assert.h"

void residency_init(struct residency *r, struct pages_entry *entries, uint32_t models, uint64_t memory_bytes,
                    double noise, struct rng *rng) {
    *r = (struct residency){.models = models, .noise = noise, .rng = rng, .stalled_ns = INT64_MIN};
    pages_init(&r->pages, entries, models, memory_bytes);
}

static void empty(struct residency *r) {
    for (uint32_t m = 0; m < r->models; m++)
        CHECK_EQ(r->pages.entries[m].holds, 0);
    pages_init(&r->pages, r->pages.entries, r->models, (uint64_t)r->pages.total * PAGE_BYTES);
}

void residency_send(struct residency *r, struct residency_move *move) {
    move->next = NULL;
    move->took_ns = 0;
    move->done = move->changed = false;
    if (r->first)
        r->last = r->last->next = move;
    else
        r->first = r->last = move;
}

/* Begins the first move. False: it is refused. */
static bool begin(struct residency *r, int64_t now_ns) {
    struct residency_move *move = r->first;
    const struct pages_entry *entry = &r->pages.entries[move->model];
    move->begin_ns = now_ns;
    if (now_ns > move->latest_ns)
        return false;
    switch (move->kind) {
    case CENTRAL_RUN:
        return false;
    case CENTRAL_LOAD:
        if (entry->pages > 0) /* it is there */
            return true;
        move->took_ns = rng_noisy(r->rng, move->link_ns, r->noise);
        return pages_take(&r->pages, move->model, move->pages); /* held until it is loaded */
    case CENTRAL_UNLOAD:
        if (entry->holds > 0)
            return false;
        if (entry->pages > 0)
            pages_give(&r->pages, move->model);
        return true;
    case CENTRAL_EMPTY:
        empty(r);
        return true;
    }
    return false;
}

int64_t residency_due_ns(const struct residency *r, bool busy) {
    const struct residency_move *move = r->first;
    if (!move || (move->kind == CENTRAL_EMPTY && busy))
        return TIME_NEVER;
    if (r->moving)
        return move->begin_ns + move->took_ns;
    return move->earliest_ns > r->stalled_ns ? move->earliest_ns : r->stalled_ns;
}

struct residency_move *residency_step(struct residency *r, int64_t now_ns, bool busy) {
    struct residency_move *move = r->first;
    if (!move)
        return NULL;
    if (!r->moving) {
        if (residency_due_ns(r, busy) > now_ns && now_ns <= move->latest_ns)
            return NULL;
        uint32_t free = r->pages.free;
        move->done = begin(r, now_ns);
        move->changed = r->pages.free != free;
        r->moving = move->changed && move->kind == CENTRAL_LOAD;
    }
    if (r->moving) {
        if (residency_due_ns(r, busy) > now_ns)
            return NULL;
        pages_release(&r->pages, move->model);
        r->moving = false;
    }
    r->first = move->next;
    return move;
}

void residency_lose(struct residency *r) {
    if (r->moving) {
        pages_release(&r->pages, r->first->model);
        r->first->done = r->first->changed = r->moving = false;
    }
    empty(r);
    for (struct residency_move *move = r->first; move; move = move->next)
        move->latest_ns = INT64_MIN;
}

void residency_stall(struct residency *r, int64_t now_ns, int64_t for_ns) {
    r->stalled_ns = now_ns + for_ns;
    if (r->moving)
        r->first->took_ns += for_ns;
}

void residency_hold(struct residency *r, uint32_t model) {
    CHECK(residency_has(r, model));
    pages_hold(&r->pages, model);
}

void residency_release(struct residency *r, uint32_t model) {
    pages_release(&r->pages, model);
}
