/* residency.c - the moves of one accelerator's weights, one after the other. */
#include "core/data/residency.h"

#include "core/util/assert.h"

void residency_init(struct residency *r, struct pages_entry *entries, uint32_t models, uint64_t memory_bytes,
                    double noise, struct rng *rng) {
    *r = (struct residency){.models = models, .noise = noise, .rng = rng, .stalled_ns = INT64_MIN};
    pages_init(&r->pages, entries, models, pages_in(memory_bytes, PAGE_BYTES));
}

static void empty(struct residency *r) {
    for (uint32_t m = 0; m < r->models; m++)
        CHECK_EQ(r->pages.entries[m].holds, 0);
    pages_init(&r->pages, r->pages.entries, r->models, r->pages.total);
}

void residency_send(struct residency *r, struct residency_move *move) {
    move->next = NULL;
    move->took_ns = move->stood_ns = 0;
    move->done = move->changed = false;
    struct residency_move **at = &r->first;
    for (struct residency_move *sent = r->first; move->ahead && sent; sent = sent->next)
        at = sent->kind == CENTRAL_EMPTY ? &sent->next : at; /* what comes before it would be lost */
    while (*at && (!move->ahead || (*at)->ahead || (*at)->kind != CENTRAL_LOAD))
        at = &(*at)->next;
    move->next = *at;
    *at = move;
    if (!move->next)
        r->last = move;
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
    int64_t begin_ns = move->earliest_ns > r->stalled_ns ? move->earliest_ns : r->stalled_ns;
    if (!r->moving)
        return begin_ns;
    int64_t end_ns = r->from_ns + r->left_ns, stop_ns = r->stop_ns == TIME_NEVER ? begin_ns : r->stop_ns;
    return r->moving == move || end_ns < stop_ns ? end_ns : stop_ns;
}

/* The link is busy with a load, or goes on with it. */
static void link_take(struct residency *r, int64_t now_ns, struct residency_move *move, int64_t left_ns) {
    r->moving = move;
    r->from_ns = now_ns;
    r->left_ns = left_ns;
    r->stop_ns = TIME_NEVER;
}

/* A move goes ahead of the load that is under way: that stops after its next page. Returns the load if it ends before.
 */
static struct residency_move *stop(struct residency *r, int64_t now_ns) {
    struct residency_move *moving = r->moving, *before = r->first;
    int64_t page_ns = moving->took_ns / moving->pages + 1, end_ns = r->from_ns + r->left_ns;
    if (r->stop_ns == TIME_NEVER && r->first->earliest_ns <= now_ns)
        r->stop_ns = r->from_ns + (now_ns - r->from_ns + page_ns - 1) / page_ns * page_ns;
    if (end_ns <= now_ns) {
        while (before->next != moving)
            before = before->next;
        before->next = moving->next;
        r->last = moving->next ? r->last : before;
        pages_release(&r->pages, moving->model);
        r->moving = NULL;
        return moving;
    }
    if (r->stop_ns <= now_ns) {
        r->stopped = moving;
        r->stopped_left_ns = end_ns - r->stop_ns;
        moving->stood_ns -= r->stop_ns;
        r->moving = NULL;
    }
    return NULL;
}

struct residency_move *residency_step(struct residency *r, int64_t now_ns, bool busy) {
    struct residency_move *move = r->first;
    if (r->moving && r->moving != move) {
        struct residency_move *over = stop(r, now_ns);
        if (over || r->moving)
            return over;
    }
    if (!move)
        return NULL;
    if (!r->moving) {
        if (residency_due_ns(r, busy) > now_ns && (now_ns <= move->latest_ns || move == r->stopped))
            return NULL;
        uint32_t free = r->pages.free;
        if (move == r->stopped) {
            r->stopped = NULL;
            move->stood_ns += now_ns;
            link_take(r, now_ns, move, r->stopped_left_ns);
        } else {
            move->done = begin(r, now_ns);
            move->changed = r->pages.free != free;
            if (move->changed && move->kind == CENTRAL_LOAD)
                link_take(r, now_ns, move, move->took_ns);
        }
    }
    if (r->moving) {
        if (residency_due_ns(r, busy) > now_ns)
            return NULL;
        pages_release(&r->pages, move->model);
        r->moving = NULL;
    }
    r->first = move->next;
    return move;
}

void residency_lose(struct residency *r) {
    struct residency_move *begun[] = {r->moving, r->stopped};
    for (uint32_t i = 0; i < 2; i++)
        if (begun[i]) {
            pages_release(&r->pages, begun[i]->model);
            begun[i]->done = begun[i]->changed = false;
        }
    r->moving = r->stopped = NULL;
    empty(r);
    for (struct residency_move *move = r->first; move; move = move->next)
        move->latest_ns = INT64_MIN;
}

void residency_stall(struct residency *r, int64_t now_ns, int64_t for_ns) {
    r->stalled_ns = now_ns + for_ns;
    if (r->moving) {
        r->left_ns += for_ns;
        r->moving->took_ns += for_ns;
        r->stop_ns += r->stop_ns == TIME_NEVER ? 0 : for_ns;
    }
}

void residency_hold(struct residency *r, uint32_t model) {
    CHECK(residency_has(r, model));
    pages_hold(&r->pages, model);
}

void residency_release(struct residency *r, uint32_t model) {
    pages_release(&r->pages, model);
}
