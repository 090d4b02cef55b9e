/* rank_memory.c - which accelerators have which models, how much each copy is worth, and who may have a free
 * accelerator. */
#include "sched/core/rank_memory.h"

#include <string.h>

#include "core/util/assert.h"
#include "core/util/fmath.h"
#include "sched/core/rank_core_state.h"

#define TURNS_MOST 4   /* copies whose queues are looked at */
#define KEY_SCALE  1e6 /* a key tells counts apart that differ by a millionth */
/* What a load of a model takes that cannot be loaded: longer than any request waits. */
#define LOAD_NEVER_NS (3600 * NS_PER_S)

/* ---- set-up ---- */

/* A copy is kept no longer, since there is no room for it, or it is gone. */
static void kept_end(struct rank_memory *m, uint32_t a, uint32_t s) {
    struct memory_slot *slot = &m->accelerator[a].slots[s];
    slot->kept = m->model[slot->model].kept = false;
    m->accelerator[a].pages_kept -= rank_memory_pages(m, a, slot->model);
    memory_slot_place(m, a, s);
}

static void weights_set(struct rank_memory *m, uint32_t variant, const struct rank_weights *weights) {
    if (weights->count == 0)
        return;
    CHECK(weights->first <= variant && variant - weights->first < weights->count);
    m->variant[variant].of = weights->first;
    CHECK(m->model[weights->first].copies == 0 || m->model[weights->first].pages == weights->pages);
    m->model[weights->first].pages = weights->pages;
    m->model[weights->first].load = (struct load_time){.stated_ns = weights->load_ns}; /* perhaps another model */
    m->model[weights->first].types = weights->types;
    m->model[weights->first].pinned = weights->pinned;
    m->model[weights->first].variants = weights->count;
    if (weights->pages <= m->pages_largest)
        return;
    m->pages_largest = weights->pages;
    for (uint32_t a = 0; a < m->accelerators; a++) /* has it still room for what it keeps, and the largest model? */
        for (uint32_t s = 0; s < m->accelerator[a].touched && m->accelerator[a].pages_kept; s++)
            if (m->accelerator[a].slots[s].kept && !rank_memory_keeps(m, a, 0))
                kept_end(m, a, s);
}

static struct memory_model model_none(void) {
    return (struct memory_model){
        .asked = {FADING_NONE, FADING_NONE, FADING_NONE}, .pressed = FADING_NONE, .leaver = RANK_NOBODY};
}

struct rank_memory *rank_memory_take(struct arena *arena, const struct rank_core_config *config) {
    struct rank_memory *room = arena_take(arena, sizeof(*room)), scratch, *m = room ? room : &scratch;
    uint32_t pages = config->memory_pages, most = config->copies_most ? config->copies_most : config->models;
    *m = (struct rank_memory){
        .models = config->models,
        .accelerators = config->accelerators,
        .words = (config->accelerators + 63) / 64,
        .pages = pages,
        .slots = pages < most ? pages : most,
        .pace = 1,
        .told = config->told,
        .limited = config->told ? 0 : config->accelerators,
    };
    m->model = arena_take(arena, m->models * sizeof(*m->model));
    m->variant = arena_take(arena, m->models * sizeof(*m->variant));
    m->accelerator = arena_take(arena, m->accelerators * sizeof(*m->accelerator));
    m->there = arena_take(arena, (size_t)m->models * m->words * sizeof(*m->there));
    m->offered = arena_take(arena, config->told ? (size_t)m->models * m->words * sizeof(*m->offered) : 0);
    m->yields = arena_take(arena, (size_t)m->models * m->words * sizeof(*m->yields));
    m->gone = arena_take(arena, m->models * sizeof(*m->gone));
    m->news = arena_take(arena, m->models * sizeof(*m->news));
    m->passed = arena_take(arena, m->models * sizeof(*m->passed));
    m->scratch = arena_take(arena, m->models * sizeof(*m->scratch));
    bit_tree_take(arena, &m->freed, m->accelerators);
    bit_tree_take(arena, &m->idle, m->accelerators);
    bit_tree_take(arena, &m->loading, m->accelerators);
    bit_tree_take(arena, &m->emptied, m->accelerators);
    bit_tree_take(arena, &m->yielding, m->models);
    heap_take(arena, &m->wanting, m->models);
    heap_take(arena, &m->retries, m->accelerators);
    heap_take(arena, &m->broken, m->models);
    heap_take(arena, &m->wanted, m->models);
    heap_take(arena, &m->gains, m->models);
    for (uint32_t a = 0; a < m->accelerators; a++) {
        struct memory_accelerator none, *at = room ? &m->accelerator[a] : &none;
        *at = (struct memory_accelerator){.unused = SLOT_NONE,
                                          .loading = SLOT_NONE,
                                          .ahead = SLOT_NONE,
                                          .pages = pages,
                                          .pages_free = pages,
                                          .grain = 1,
                                          .cuts = config->cuts_loads,
                                          .unlimited = config->told};
        at->slots = arena_take(arena, m->slots * sizeof(*at->slots));
        at->buckets = arena_take(arena, m->slots * sizeof(*at->buckets));
        at->victims.entries = arena_take(arena, m->slots * sizeof(*at->victims.entries));
        at->victims.position = arena_take(arena, m->slots * sizeof(*at->victims.position));
    }
    if (!room)
        return NULL;
    memset(m->there, 0, (size_t)m->models * m->words * sizeof(*m->there));
    memset(m->yields, 0, (size_t)m->models * m->words * sizeof(*m->yields));
    if (m->told)
        memset(m->offered, 0, (size_t)m->models * m->words * sizeof(*m->offered));
    for (uint32_t i = 0; i < m->models; i++) {
        m->model[i] = model_none();
        m->variant[i] = (struct memory_variant){.of = i, .told = true};
    }
    for (uint32_t i = 0; i < m->models; i++) {
        weights_set(m, i, &config->weights[i]);
        bool own = !config->subcluster_of_model || config->subcluster_of_model[i] == config->subcluster;
        m->model[m->variant[i].of].members += own;
    }
    return room;
}

void rank_memory_begin(struct rank_memory *m, uint32_t accelerator) {
    bit_tree_add(&m->idle, accelerator);
}

/* ---- counts that fade ---- */

double fading_at(fading value, int64_t now_ns, double fade_ns) {
    return fmath_exp(value - (double)now_ns / fade_ns);
}

void fading_add(fading *value, int64_t now_ns, double fade_ns, double count) {
    *value = fmath_log(fading_at(*value, now_ns, fade_ns) + count) + (double)now_ns / fade_ns;
}

int64_t fading_key(fading value) {
    return (int64_t)(value * KEY_SCALE);
}

/* ---- copies ---- */

static bool bit_has(const struct rank_memory *m, const uint64_t *bits, uint32_t a, uint32_t model) {
    return bits[(size_t)model * m->words + a / 64] >> a % 64 & 1;
}

uint32_t memory_slot_find(const struct rank_memory *m, uint32_t a, uint32_t model) {
    const struct memory_accelerator *at = &m->accelerator[a];
    uint32_t s = at->touched ? at->buckets[model % m->slots] : SLOT_NONE;
    while (s != SLOT_NONE && at->slots[s].model != model)
        s = at->slots[s].next;
    return s;
}

fading memory_slot_worth(const struct rank_memory *m, const struct memory_slot *slot) {
    const struct memory_model *model = &m->model[slot->model];
    fading asked = model->asked[m->span];
    if (model->there <= 1)
        return asked > slot->used ? asked : slot->used;
    return slot->ran + m->several_log + (double)m->now_ns * (1 / memory_span_ns(m) - 1 / memory_spans_ns[0]);
}

void memory_slot_place(struct rank_memory *m, uint32_t a, uint32_t s) {
    struct memory_accelerator *at = &m->accelerator[a];
    if (at->slots[s].holds == 0 && !at->slots[s].kept)
        heap_set(&at->victims, s, fading_key(memory_slot_worth(m, &at->slots[s])));
}

static void news_of(struct rank_memory *m, uint32_t variant) {
    if (!m->variant[variant].told)
        return;
    m->variant[variant].told = false;
    m->news[(m->news_first + m->news_count++) % m->models] = variant;
}

void memory_news_add(struct rank_memory *m, uint32_t model) {
    for (uint32_t i = 0; i < m->model[model].variants; i++)
        news_of(m, model + i);
}

/* Keeps the copy, if the model is pinned, no other copy of it is kept, and there is room. */
static void copy_keep(struct rank_memory *m, uint32_t a, uint32_t s) {
    struct memory_accelerator *at = &m->accelerator[a];
    struct memory_model *model = &m->model[at->slots[s].model];
    uint32_t pages = rank_memory_pages(m, a, at->slots[s].model);
    if (!model->pinned || model->kept || model->members == 0 || !rank_memory_keeps(m, a, pages))
        return;
    at->slots[s].kept = model->kept = true;
    at->pages_kept += pages;
    heap_remove(&at->victims, s);
}

/* What a copy is worth until it has run something: its share of the model's requests over a span. If it were worth
 * nothing, the next load would take its place before a batch had come: the hottest of 400 models was loaded onto 21
 * accelerators 567 times in 6 s, where 2 times do. */
static fading copy_share(const struct rank_memory *m, int64_t now_ns, uint32_t model, uint32_t span) {
    double share = fading_at(m->model[model].asked[span], now_ns, memory_spans_ns[span]) / (m->model[model].copies + 1);
    fading count = FADING_NONE;
    fading_add(&count, now_ns, memory_spans_ns[span], share > 1 ? share : 1);
    return count;
}

uint32_t memory_slot_take(struct rank_memory *m, int64_t now_ns, uint32_t a, uint32_t model) {
    struct memory_accelerator *at = &m->accelerator[a];
    uint32_t s = at->unused, *bucket = &at->buckets[model % m->slots];
    if (at->touched == 0) { /* tables of accelerators that never come take no memory */
        memset(at->buckets, 0xff, m->slots * sizeof(*at->buckets)); /* SLOT_NONE */
        heap_init(&at->victims, at->victims.entries, at->victims.position, m->slots);
    }
    if (s == SLOT_NONE)
        s = at->touched++;
    else
        at->unused = at->slots[s].next;
    CHECK_LT(s, m->slots);
    CHECK_LE(rank_memory_pages(m, a, model), at->pages_free);
    at->slots[s] = (struct memory_slot){.model = model,
                                        .next = *bucket,
                                        .holds = 1,
                                        .state = COPY_LOADING,
                                        .used = copy_share(m, now_ns, model, m->span),
                                        .ran = copy_share(m, now_ns, model, 0)};
    copy_keep(m, a, s);
    *bucket = s;
    at->pages_free -= rank_memory_pages(m, a, model);
    m->model[model].copies++;
    return s;
}

/* No more batches of the model are to run on the accelerator, if it is there. */
static void copy_end(struct rank_core *core, uint32_t a, uint32_t model) {
    struct rank_memory *m = core->memory;
    m->model[model].there -= bit_has(m, m->there, a, model);
    m->there[(size_t)model * m->words + a / 64] &= ~(1ULL << a % 64);
    if (m->model[model].there == 0)
        memory_news_add(m, model);
}

/* An accelerator that has its models for good has this one no more, or is to have it no more. */
static void unlimited_give(struct rank_core *core, uint32_t a, uint32_t model) {
    struct rank_memory *m = core->memory;
    if (!m->accelerator[a].unlimited || !bit_has(m, m->there, a, model))
        return;
    m->model[model].copies--;
    copy_end(core, a, model);
    rank_loads_want(core, model);
}

void memory_slot_give(struct rank_core *core, uint32_t a, uint32_t s) {
    struct rank_memory *m = core->memory;
    struct memory_accelerator *at = &m->accelerator[a];
    uint32_t model = at->slots[s].model, *link = &at->buckets[model % m->slots];
    while (*link != s)
        link = &at->slots[*link].next;
    *link = at->slots[s].next;
    bool kept = at->slots[s].kept;
    if (kept)
        kept_end(m, a, s);
    heap_remove(&at->victims, s);
    at->pages_free += rank_memory_pages(m, a, model);
    m->model[model].copies--;
    at->slots[s] = (struct memory_slot){.next = at->unused, .state = COPY_NONE};
    at->unused = s;
    copy_end(core, a, model);
    for (uint32_t other = 0; kept && m->model[model].copies > 0 && other < m->accelerators; other++) {
        uint32_t copy = memory_slot_find(m, other, model);
        if (copy != SLOT_NONE)
            copy_keep(m, other, copy);
    }
    rank_loads_want(core, model);
}

/* ---- what happens ---- */

void rank_memory_join(struct rank_core *core, uint32_t variant, const struct rank_weights *weights) {
    struct rank_memory *m = core->memory;
    if (weights->count > 0 && m->model[weights->first].members == 0 && m->model[weights->first].copies == 0)
        m->model[weights->first] = model_none(); /* the number may have been another model's before */
    else if (weights->count > 0 && !m->told) {   /* it has come back, before all accelerators had given it up */
        memset(&m->yields[(size_t)weights->first * m->words], 0, m->words * sizeof(*m->yields));
        bit_tree_remove(&m->yielding, weights->first);
    }
    weights_set(m, variant, weights);
    m->model[m->variant[variant].of].members++;
    /* the first offer tells one that joins before it; until then what another sub-cluster told holds, or requests would
     * be refused that the model can run a moment later */
    if (!m->told || m->model[m->variant[variant].of].offers > 0)
        news_of(m, variant);
    rank_loads_want(core, m->variant[variant].of);
}

void memory_yield_add(struct rank_memory *m, uint32_t a, uint32_t model) {
    m->yields[(size_t)model * m->words + a / 64] |= 1ULL << a % 64;
    bit_tree_add(&m->yielding, model);
    m->look = true;
}

void memory_offer_end(struct rank_memory *m, uint32_t a, uint32_t model) {
    m->model[model].offers -= bit_has(m, m->offered, a, model);
    m->offered[(size_t)model * m->words + a / 64] &= ~(1ULL << a % 64);
}

void memory_yielded(struct rank_memory *m, uint32_t a, uint32_t model) {
    uint64_t *words = &m->yields[(size_t)model * m->words];
    words[a / 64] &= ~(1ULL << a % 64);
    for (uint32_t i = 0; i < m->words; i++)
        if (words[i])
            return;
    bit_tree_remove(&m->yielding, model);
    if (m->model[model].leaver == RANK_NOBODY)
        return;
    CHECK_EQ(m->model[model].copies, 0);
    m->gone[m->gone_count++] = m->model[model].leaver;
    m->model[model].leaver = RANK_NOBODY;
}

bool rank_memory_leave(struct rank_core *core, uint32_t variant, bool goes) {
    struct rank_memory *m = core->memory;
    uint32_t model = m->variant[variant].of;
    if (--m->model[model].members > 0)
        return true;
    heap_remove(&m->wanted, model);
    heap_remove(&m->gains, model);
    heap_remove(&m->broken, model);
    m->model[model].broken = false; /* it may come back while accelerators still have it, and be loaded later */
    for (uint32_t a = 0; a < m->accelerators; a++) {
        bool offered = m->told && bit_has(m, m->offered, a, model);
        if (offered)
            memory_offer_end(m, a, model);
        unlimited_give(core, a, model);
        if (offered || memory_slot_find(m, a, model) != SLOT_NONE)
            memory_yield_add(m, a, model);
    }
    bool waits = goes && bit_tree_has(&m->yielding, model);
    m->model[model].leaver = waits ? variant : RANK_NOBODY;
    return !waits;
}

/* The other copy of a model that now has two counts only by its own use. */
static void other_place(struct rank_memory *m, uint32_t a, uint32_t model) {
    for (uint32_t i = 0; i < m->words; i++)
        for (uint64_t there = m->there[(size_t)model * m->words + i]; there; there &= there - 1) {
            uint32_t other = i * 64 + (uint32_t)__builtin_ctzll(there);
            if (other != a && !m->accelerator[other].unlimited)
                memory_slot_place(m, other, memory_slot_find(m, other, model));
        }
}

/* Batches of the model may run on the accelerator. */
static void copy_ready(struct rank_memory *m, uint32_t a, uint32_t model) {
    m->there[(size_t)model * m->words + a / 64] |= 1ULL << a % 64;
    if (++m->model[model].there == 1)
        memory_news_add(m, model);
    else if (m->model[model].there == 2)
        other_place(m, a, model);
    bit_tree_add(&m->freed, a);
}

void memory_slot_ready(struct rank_memory *m, uint32_t a, uint32_t s) {
    struct memory_slot *slot = &m->accelerator[a].slots[s];
    slot->holds--;
    slot->state = COPY_THERE;
    if (!m->told || !bit_has(m, m->yields, a, slot->model)) /* else it was withdrawn meanwhile */
        copy_ready(m, a, slot->model);
    memory_slot_place(m, a, s);
}

void rank_memory_told(struct rank_core *core, int64_t now_ns, const struct memory_moved *told) {
    struct rank_memory *m = core->memory;
    uint32_t a = told->accelerator, model = m->variant[told->variant.n].of;
    struct memory_accelerator *at = &m->accelerator[a];
    if (told->epoch != at->epoch)
        return; /* it has left since */
    m->look = true;
    switch ((enum memory_telling)told->kind) {
    case MEMORY_SIZE:
        at->pages = at->pages_free = told->pages;
        at->grain = told->grain;
        at->cuts = told->cuts;
        m->limited += at->unlimited - told->done;
        at->unlimited = told->done;
        break;
    case MEMORY_OFFERED:
        if (m->model[model].members == 0) { /* it has just left */
            memory_yield_add(m, a, model);
            break;
        }
        m->model[model].offers += !bit_has(m, m->offered, a, model);
        m->offered[(size_t)model * m->words + a / 64] |= 1ULL << a % 64;
        if (at->unlimited && !bit_has(m, m->there, a, model)) {
            m->model[model].copies++;
            copy_ready(m, a, model);
        } else if (!at->unlimited && told->done && memory_slot_find(m, a, model) == SLOT_NONE) {
            memory_slot_ready(m, a, memory_slot_take(m, now_ns, a, model));
        } else if (m->model[model].offers == 1) {
            memory_news_add(m, model);
        }
        rank_loads_want(core, model);
        break;
    case MEMORY_WITHDRAWN:
        if (!bit_has(m, m->offered, a, model))
            break; /* it was given up meanwhile, since it has left or could not be loaded: once is enough */
        memory_offer_end(m, a, model);
        if (at->unlimited)
            unlimited_give(core, a, model);
        else
            copy_end(core, a, model);
        memory_yield_add(m, a, model);
        rank_loads_want(core, model);
        break;
    case MEMORY_BEGINS:
        at->begun = !at->unlimited;
        if (at->begun && !core->accelerator[a].down)
            bit_tree_add(&m->idle, a);
        break;
    case MEMORY_JOINED:
        break;
    }
}

void rank_memory_asked(struct rank_core *core, int64_t now_ns, uint32_t variant, const struct model_rates *rates) {
    struct rank_memory *m = core->memory;
    uint32_t model = m->variant[variant].of;
    rank_spans_count(m, now_ns, model, rates);
    if (m->model[model].copies == 0)
        rank_loads_gain(core, now_ns, model);
}

/* Whether some copy is expected to run the variant's batch in time, on accelerators of the type. With many copies the
 * first few that are looked at tell. */
static bool copy_in_time(const struct rank_core *core, int64_t now_ns, uint32_t variant, uint32_t type) {
    const struct rank_memory *m = core->memory;
    uint32_t looks = 0;
    for (uint32_t i = 0; i < m->words; i++)
        for (uint64_t there = rank_memory_there(m, variant)[i]; there && looks < TURNS_MOST; there &= there - 1) {
            uint32_t a = i * 64 + (uint32_t)__builtin_ctzll(there);
            if (core->accelerator[a].type != type)
                continue;
            looks++;
            if (rank_memory_turn(core, now_ns, variant, a) < TIME_NEVER)
                return true;
        }
    return false;
}

/* While all accelerators are busy no batch steps aside. So a model with one copy is looked at whenever its batch
 * changes. (4 accelerators, always busy, with room for 200 of 2,000 models each, Zipf 1.1: 0.9 % was lost, and 0.5 %
 * is. With more copies it does harm: those of hot models change places. 48 accelerators with room for 20 of 200 models
 * each, always busy, would lose 2 % instead of 0.5 %.) */
void rank_memory_wants(struct rank_core *core, uint32_t variant) {
    struct memory_variant *of = &core->memory->variant[variant];
    struct memory_model *to = &core->memory->model[of->of];
    bool wants = false;
    int64_t order_ns = TIME_NEVER;
    for (uint32_t t = 0; t < core->types; t++) {
        const struct candidate *c = rank_candidate(core, variant, t);
        wants |= candidate_any(c) || c->best_effort_run_ns;
        order_ns = candidate_any(c) && c->order_ns < order_ns ? c->order_ns : order_ns;
    }
    to->wanting += wants - of->wants;
    if (wants)
        heap_set(&core->memory->wanting, variant, order_ns);
    else
        heap_remove(&core->memory->wanting, variant);
    to->saves = false;
    of->wants = wants;
    core->memory->asides -= of->aside > 0;
    of->aside = 0; /* all lists are about to be brought up to date */
    rank_loads_want(core, of->of);
    bool late = order_ns < TIME_NEVER && to->there == 1 && core->up > 1;
    for (uint32_t t = 0; t < core->types && late; t++)
        if (candidate_any(rank_candidate(core, variant, t)))
            late = !copy_in_time(core, core->memory->now_ns, variant, t);
    if (late)
        rank_loads_save(core, core->memory->now_ns, of->of);
}

void rank_memory_hold(struct rank_core *core, uint32_t a, uint32_t variant) {
    struct rank_memory *m = core->memory;
    CHECK(rank_memory_has(m, variant, a));
    bit_tree_remove(&m->freed, a);
    if (m->accelerator[a].unlimited)
        return;
    uint32_t s = memory_slot_find(m, a, m->variant[variant].of);
    if (m->accelerator[a].slots[s].holds++ == 0)
        heap_remove(&m->accelerator[a].victims, s);
}

/* Copies are worth items, as models are worth requests: if each batch counted once, the hottest models would have the
 * largest batches and so the cheapest copies. They were given up for models that are hardly asked for and loaded again,
 * 624 times in 4 s where 90 do (21 accelerators with room for 8 models each, of 400 that are asked for as Zipf says).
 */
void rank_memory_runs(struct rank_core *core, int64_t now_ns, uint32_t a, uint32_t variant, uint32_t items,
                      int64_t run_ns) {
    struct memory_accelerator *at = &core->memory->accelerator[a];
    if (at->unlimited)
        return;
    uint32_t s = memory_slot_find(core->memory, a, core->memory->variant[variant].of);
    if (s != SLOT_NONE) { /* else the accelerator has left since the grant */
        fading_add(&at->slots[s].used, now_ns, memory_span_ns(core->memory), items);
        fading_add(&at->slots[s].ran, now_ns, memory_spans_ns[0], items);
    }
    at->busy_ns = at->busy_ns * fmath_exp((double)(at->busy_at_ns - now_ns) / MEMORY_BUSY_NS) + (double)run_ns;
    at->busy_at_ns = now_ns;
}

void rank_memory_release(struct rank_core *core, uint32_t a, uint32_t variant, uint16_t epoch) {
    struct rank_memory *m = core->memory;
    if (epoch != (uint16_t)m->accelerator[a].epoch) { /* the accelerator has lost its memory since */
        memory_empty_look(core, a);
        return;
    }
    m->look = true;
    if (m->accelerator[a].unlimited)
        return;
    uint32_t s = memory_slot_find(m, a, m->variant[variant].of);
    CHECK(s != SLOT_NONE && m->accelerator[a].slots[s].holds > 0);
    m->accelerator[a].slots[s].holds--;
    memory_slot_place(m, a, s);
}

void rank_memory_down(struct rank_core *core, uint32_t a) {
    struct rank_memory *m = core->memory;
    struct memory_accelerator *at = &m->accelerator[a];
    for (uint32_t s = 0; s < at->touched; s++)
        if (at->slots[s].state != COPY_NONE)
            memory_slot_give(core, a, s);
    for (uint32_t model = 0; model < m->models; model++) {
        if (m->told)
            memory_offer_end(m, a, model);
        unlimited_give(core, a, model);
        if (bit_has(m, m->yields, a, model))
            memory_yielded(m, a, model);
    }
    at->epoch++;
    at->to_empty = at->begun = false;
    at->loading = at->ahead = SLOT_NONE;
    m->limited -= m->told && !at->unlimited;
    at->unlimited = m->told;
    bit_tree_remove(&m->freed, a);
    bit_tree_remove(&m->idle, a);
    bit_tree_remove(&m->loading, a);
    bit_tree_remove(&m->emptied, a);
    heap_remove(&m->retries, a);
}

/* It may have loaded what was sent before it was known to have left; one that tells what it has says so later. */
void rank_memory_up(struct rank_core *core, uint32_t a) {
    struct memory_accelerator *at = &core->memory->accelerator[a];
    core->memory->look = true;
    if (core->memory->told && at->begun)
        bit_tree_add(&core->memory->idle, a);
    at->to_empty = !core->memory->told;
    memory_empty_look(core, a);
}

void memory_empty_look(struct rank_core *core, uint32_t a) {
    struct memory_accelerator *at = &core->memory->accelerator[a];
    if (!at->to_empty || at->moves > 0 || !rank_core_accelerator_idle(core, a))
        return;
    at->to_empty = false;
    bit_tree_add(&core->memory->emptied, a);
    core->memory->look = true;
}

/* ---- who may have a free accelerator ---- */

/* A look through the variants that have something to run and whose model an accelerator has, in no order. */
struct look {
    uint32_t slot;       /* next copy to be looked at, where these are fewer than the variants that want */
    uint32_t next, end;  /* variants of the copy before */
    struct heap_look in; /* else: in `wanting` */
};

/* The next variant; RANK_NOBODY: there is none. Those that go after most_ns may be left out. Goes through the
 * accelerator's models, or through the variants that have something to run, whichever are fewer: with 4,000 models on
 * one accelerator and few requests a batch cost 2.5 us more than without limited memory, instead of 18. */
static uint32_t look_next(const struct rank_memory *m, uint32_t a, struct look *look, int64_t most_ns) {
    const struct memory_accelerator *of = &m->accelerator[a];
    const struct heap_entry *entry;
    if (of->unlimited || of->touched > m->wanting.count) {
        while ((entry = heap_look_next(&m->wanting, &look->in, most_ns)))
            if (rank_memory_has(m, entry->item, a))
                return entry->item;
        return RANK_NOBODY;
    }
    for (;;) {
        while (look->next < look->end)
            if (m->variant[look->next++].wants)
                return look->next - 1;
        if (look->slot == of->touched)
            return RANK_NOBODY;
        const struct memory_slot *slot = &of->slots[look->slot++];
        if (slot->state == COPY_THERE && m->model[slot->model].wanting > 0 && bit_has(m, m->there, a, slot->model)) {
            look->next = slot->model;
            look->end = slot->model + m->model[slot->model].variants;
        }
    }
}

uint32_t rank_memory_free_find(const struct rank_core *core, uint32_t variant, uint32_t type) {
    const struct rank_memory *m = core->memory;
    const uint64_t *there = rank_memory_there(m, variant), *free = core->lanes[type].free.words[0];
    for (uint32_t i = 0; i < m->words; i++)
        if (there[i] & free[i])
            return i * 64 + (uint32_t)__builtin_ctzll(there[i] & free[i]);
    return RANK_NOBODY;
}

uint32_t rank_memory_freed(struct rank_core *core) {
    struct bit_tree *freed = &core->memory->freed;
    while (core->memory->asides > 0 && !bit_tree_empty(freed)) {
        uint32_t a = bit_tree_first(freed);
        if (bit_tree_has(&core->lanes[core->accelerator[a].type].free, a))
            return a;
        bit_tree_remove(freed, a);
    }
    return RANK_NOBODY;
}

/* Puts a variant back into the lists in which it had stepped aside. */
static void aside_back(struct rank_core *core, uint32_t variant) {
    uint32_t lists = core->memory->variant[variant].aside;
    core->memory->variant[variant].aside = 0;
    core->memory->asides--;
    for (; lists; lists &= lists - 1)
        rank_list_put(core, variant, (uint32_t)__builtin_ctz(lists));
}

/* Who goes after the first that is found stays aside where an accelerator has its models for good: it could run nothing
 * else, and might have thousands of them. Where there are loads, each that is passed over says so again. */
uint32_t rank_memory_first(struct rank_core *core, int64_t now_ns, uint32_t a) {
    struct rank_memory *m = core->memory;
    uint32_t type = core->accelerator[a].type, level = rank_supply_level(core, type), first = RANK_NOBODY;
    int64_t first_ns = TIME_NEVER;
    struct look look = {.in = heap_look_begin()};
    for (uint32_t v;
         (v = look_next(m, a, &look, m->accelerator[a].unlimited ? first_ns : TIME_NEVER)) != RANK_NOBODY;) {
        if (core->model[v].granted)
            continue;
        if (m->variant[v].aside)
            aside_back(core, v);
        const struct candidate *c = rank_candidate(core, v, type);
        if (c->start_ns[level] <= now_ns && c->invalid_after_ns >= now_ns - core->grace_ns &&
            (c->order_ns < first_ns || (c->order_ns == first_ns && v < first))) {
            first = v;
            first_ns = c->order_ns;
        }
    }
    if (first == RANK_NOBODY)
        bit_tree_remove(&m->freed, a);
    return first;
}

/* What waits counts as two items a batch: batches grow while they wait, and further ones come that go first, too. (As
 * one: 9 accelerators, 200 models of which each has 20, bursts, goodput 993 requests/s instead of 1,092.) */
int64_t rank_memory_turn(const struct rank_core *core, int64_t now_ns, uint32_t variant, uint32_t a) {
    const struct rank_memory *m = core->memory;
    uint32_t type = core->accelerator[a].type;
    int64_t by_ns = rank_candidate(core, variant, type)->invalid_after_ns;
    int64_t turn_ns = core->accelerator[a].free_ns > now_ns ? core->accelerator[a].free_ns : now_ns;
    int64_t order_ns = rank_candidate(core, variant, type)->order_ns;
    struct look look = {.in = heap_look_begin()};
    for (uint32_t v; turn_ns <= by_ns && (v = look_next(m, a, &look, order_ns)) != RANK_NOBODY;) {
        const struct candidate *c = rank_candidate(core, v, type);
        if (!core->model[v].granted && c->start_ns[SUPPLY_SCARCE] <= now_ns && c->order_ns < order_ns &&
            c->invalid_after_ns >= now_ns)
            turn_ns += (int64_t)(2 * core->rates[v].alpha_ns + core->rates[v].beta_ns);
    }
    return turn_ns <= by_ns ? turn_ns : TIME_NEVER;
}

/* A batch that will be lost unless there is another copy counts whole. One that only has to wait for a while counts a
 * tenth: waiting costs less than a load. */
void rank_memory_aside(struct rank_core *core, int64_t now_ns, uint32_t variant, uint32_t type, uint32_t list) {
    uint32_t model = core->memory->variant[variant].of;
    struct memory_model *from = &core->memory->model[model];
    core->memory->asides += core->memory->variant[variant].aside == 0;
    core->memory->variant[variant].aside |= (uint8_t)(1u << list);
    if (list == LIST_BEST_EFFORT || from->there == 0 || from->copies >= core->up)
        return;
    bool waits = copy_in_time(core, now_ns, variant, type);
    if (!waits)
        rank_loads_save(core, now_ns, model);
    fading_add(&from->pressed, now_ns, MEMORY_PRESS_NS, waits ? 0.1 : 1);
    rank_loads_gain(core, now_ns, model);
}

/* ---- what models are told ---- */

/* The next variant that is to be told, and is still of this sub-cluster; RANK_NOBODY: there is none. */
static uint32_t news_next(struct rank_core *core) {
    struct rank_memory *m = core->memory;
    while (m->news_count) {
        uint32_t variant = m->news[m->news_first];
        m->news_first = (m->news_first + 1) % m->models;
        m->news_count--;
        m->variant[variant].told = true;
        if (core->model[variant].member)
            return variant;
    }
    return RANK_NOBODY;
}

bool rank_core_memory_news(struct rank_core *core, struct grant_message *message) {
    const struct rank_memory *m = core->memory;
    uint32_t variant = m ? news_next(core) : RANK_NOBODY;
    if (variant == RANK_NOBODY)
        return false;
    const struct memory_model *from = &m->model[m->variant[variant].of];
    *message = (struct grant_message){
        .kind = GRANT_MEMORY,
        .variant = {variant},
        .there_ns = from->there    ? INT64_MIN
                    : from->copies ? from->arrives_ns
                                   : TIME_NEVER,
        .load_ns = from->broken ? LOAD_NEVER_NS : rank_loads_time(m, m->variant[variant].of),
    };
    return true;
}

uint32_t rank_core_memory_epoch(const struct rank_core *core, uint32_t accelerator) {
    return core->memory->accelerator[accelerator].epoch;
}

int64_t rank_core_load_expected_ns(const struct rank_core *core, const struct memory_moved *moved) {
    const struct rank_memory *m = core->memory;
    if (moved->kind != CENTRAL_LOAD || moved->epoch != m->accelerator[moved->accelerator].epoch)
        return 0;
    uint32_t s = memory_slot_find(m, moved->accelerator, m->variant[moved->variant.n].of);
    return s == SLOT_NONE ? 0 : m->accelerator[moved->accelerator].slots[s].expected_ns;
}
