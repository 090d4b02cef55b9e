/* rank_loads.c - what is loaded and unloaded next, where memory is limited.
 *
 * There are two reasons for a load:
 *
 * - A model that is nowhere has something to run, or is pinned (`wanted`). The one whose load must begin first to be in
 *   time goes first, and a pinned one that has nothing to run last. It is always loaded, if a link is idle in time: it
 *   takes the place of what is worth least, and is then worth least itself.
 * - A copy more pays (`gains`): of a model that is nowhere and would take longer to load than its requests may wait, or
 *   of one whose batches find its copies busy while other accelerators are free, or its only copy while none is. Such a
 *   load must be worth GAIN_TIMES what it takes the place of, or models would take turns; but not if it saves the batch
 *   that waits, where that can start soonest. Where each model has one copy, a batch is often lost because that
 *   accelerator is busy, and links have time.
 *
 * A link that is idle has one load at a time, so that what comes next can still be chosen by what is then known. Where
 * loads are cut by page, one more may go ahead of it: a load that would be late behind it, if it stays in time itself.
 * So the load of a small model, which is over in 2 ms, does not wait 20 ms for that of a large one. A copy
 * that runs, is granted or is kept is never unloaded, nor is the only one of a model with something to run, unless that
 * can wait. */
#include "core/util/assert.h"
#include "core/util/fmath.h"
#include "sched/core/rank_core_state.h"

#define GAIN_TIMES 2
/* Loads that make a wait long. Without it, where SLOs leave time for one to three loads, what just waits for its turn
 * is unloaded, and goodput is 4 to 7 % lower in two of ten settings of bench_memory. */
#define LONG_LOADS 8
#define GAIN_LEAST 2 /* batches that must have found all copies busy, lately; requests for a model that is nowhere */
/* Accelerators, of those whose link is idle, among which the one is chosen where a load costs least. Two would be
 * nearly as good as all. */
#define LOOKS_MOST 64
/* Victims that are passed over since they have something to run. */
#define PASSED_MOST 8
/* Models for which there is no place now: links of some accelerators may be idle while many wait for others, which have
 * other models, or another type. */
#define WANTED_PASSED_MOST 64
/* An accelerator that has refused a load has not what is thought that it has, or cannot be reached. */
#define RETRY_NS (10 * NS_PER_MS)
/* A model that could not be loaded is not tried again for so long; until then its requests are refused at once. */
#define BROKEN_NS NS_PER_S
/* A load may begin later than planned by this part of the time that it is expected to take, which is uncertain itself.
 */
#define LATE_PART 4

/* ---- which models ---- */

int64_t rank_loads_time(const struct rank_memory *m, uint32_t model) {
    return load_time_expected(&m->model[model].load, m->pace);
}

/* Whether the model can be loaded now, as far as is known. */
static bool loadable(const struct rank_memory *m, uint32_t model) {
    const struct memory_model *of = &m->model[model];
    return of->pages <= m->pages && !of->broken && of->leaver == RANK_NOBODY && (!m->told || of->offers > 0);
}

/* Until when a load of the model must begin so that what it has to run now is in time; TIME_NEVER: any time will do. */
static int64_t latest_begin(const struct rank_core *core, uint32_t model) {
    const struct rank_memory *m = core->memory;
    int64_t latest_ns = TIME_NEVER;
    for (uint32_t v = model; v < model + m->model[model].variants; v++)
        for (uint32_t t = 0; t < core->types && m->variant[v].wants; t++) {
            const struct candidate *c = rank_candidate(core, v, t);
            if (candidate_any(c) && c->invalid_after_ns < latest_ns)
                latest_ns = c->invalid_after_ns;
        }
    return latest_ns == TIME_NEVER ? latest_ns : latest_ns - rank_loads_time(m, model);
}

void rank_loads_want(struct rank_core *core, uint32_t model) {
    struct rank_memory *m = core->memory;
    const struct memory_model *to = &m->model[model];
    bool pinned = to->pinned && to->members > 0;
    if ((to->wanting > 0 || pinned) && to->copies == 0 && loadable(m, model))
        heap_set(&m->wanted, model, latest_begin(core, model));
    else
        heap_remove(&m->wanted, model);
    m->look = true;
}

/* How many requests or batches a second another copy of the model would help. */
static double gain_of(const struct rank_memory *m, uint32_t model, int64_t now_ns) {
    const struct memory_model *from = &m->model[model];
    return from->copies == 0 ? fading_at(from->asked[m->span], now_ns, memory_span_ns(m)) / memory_span_ns(m)
                             : fading_at(from->pressed, now_ns, MEMORY_PRESS_NS) / MEMORY_PRESS_NS;
}

void rank_loads_gain(struct rank_core *core, int64_t now_ns, uint32_t model) {
    struct rank_memory *m = core->memory;
    double gain = gain_of(m, model, now_ns), fade_ns = m->model[model].copies ? MEMORY_PRESS_NS : memory_span_ns(m);
    if (gain * fade_ns < GAIN_LEAST || !loadable(m, model) || m->model[model].saves)
        return;
    heap_set(&m->gains, model, -(int64_t)(gain * 1e18));
    m->look = true;
}

void rank_loads_save(struct rank_core *core, int64_t now_ns, uint32_t model) {
    struct rank_memory *m = core->memory;
    int64_t latest_ns = latest_begin(core, model);
    if (m->model[model].copies > m->model[model].there || !m->model[model].wanting || latest_ns < now_ns ||
        !loadable(m, model))
        return;
    m->model[model].saves = true;
    heap_set(&m->gains, model, INT64_MIN / 2 + latest_ns); /* before all others */
    m->look = true;
}

/* ---- which accelerators ---- */

/* Victims that are passed over for the moment. */
struct passed {
    uint32_t slots[PASSED_MOST], count;
};

/* Whether a model that has something to run, and one copy, may be unloaded for another one that is nowhere: it may
 * begin to be loaded again later than the other one, and its batches still wait for company. (Models whose batches
 * always waited for the end of a long SLO shut all others out: of 8 models with 1.7 s on an accelerator that has room
 * for half of them, 692 requests were good instead of 1,172.) Or the other one's load must begin soon, and it may begin
 * to be loaded again by LONG_LOADS loads later. (Where an accelerator was busy for 80 % of its time, models always had
 * some batch ready: of five with 1 s and room for four all requests of one were refused, for seconds.) */
static bool can_wait(const struct rank_core *core, uint32_t model, int64_t now_ns, uint32_t other) {
    const struct rank_memory *m = core->memory;
    int64_t latest_ns = latest_begin(core, model), other_ns = latest_begin(core, other);
    bool long_enough = other_ns <= now_ns + rank_loads_time(m, other) &&
                       latest_ns - LONG_LOADS * rank_loads_time(m, model) >= other_ns;
    for (uint32_t v = model; v < model + m->model[model].variants && !long_enough; v++)
        for (uint32_t t = 0; t < core->types && m->variant[v].wants; t++)
            if (rank_candidate(core, v, t)->start_ns[SUPPLY_AMPLE] <= now_ns)
                return false;
    return m->model[other].copies == 0 && latest_ns > other_ns;
}

/* The copy that is worth least of those that an accelerator may unload for a model; SLOT_NONE: there is none. */
static uint32_t victim_find(const struct rank_core *core, uint32_t a, uint32_t model, int64_t now_ns,
                            struct passed *passed) {
    struct rank_memory *m = core->memory;
    struct memory_accelerator *at = &m->accelerator[a];
    for (uint32_t s = 0; at->several_log != m->several_log && s < at->touched; s++)
        if (at->slots[s].state == COPY_THERE && m->model[at->slots[s].model].there > 1)
            memory_slot_place(m, a, s); /* it may be worth less by now than its key says */
    at->several_log = m->several_log;
    while (!heap_empty(&at->victims)) {
        uint32_t s = heap_top(&at->victims).item;
        const struct memory_slot *slot = &at->slots[s];
        int64_t key = fading_key(memory_slot_worth(m, slot));
        if (key > heap_top(&at->victims).key) { /* the key is a lower bound: it is asked for more by now */
            heap_set(&at->victims, s, key);
            continue;
        }
        if (m->model[slot->model].there > 1 || !m->model[slot->model].wanting ||
            can_wait(core, slot->model, now_ns, model))
            return s;
        if (passed->count == PASSED_MOST)
            return SLOT_NONE;
        heap_remove(&at->victims, s);
        passed->slots[passed->count++] = s;
    }
    return SLOT_NONE;
}

static void passed_back(struct rank_memory *m, uint32_t a, const struct passed *passed) {
    for (uint32_t i = 0; i < passed->count; i++)
        memory_slot_place(m, a, passed->slots[i]);
}

/* What a load costs on an accelerator: requests for what it takes the place of, as they are counted; and, to decide
 * between places that cost the same, the share of its time that the accelerator is busy. Negative: it has no room. */
static double place_cost(const struct rank_core *core, uint32_t a, uint32_t model, int64_t now_ns) {
    struct rank_memory *m = core->memory;
    struct memory_accelerator *at = &m->accelerator[a];
    double busy = at->busy_ns * fmath_exp((double)(at->busy_at_ns - now_ns) / MEMORY_BUSY_NS) / MEMORY_BUSY_NS;
    uint32_t pages = rank_memory_pages(m, a, model);
    if (at->pages_free >= pages)
        return busy;
    struct passed passed = {.count = 0};
    uint32_t s = victim_find(core, a, model, now_ns, &passed);
    passed_back(m, a, &passed);
    if (s == SLOT_NONE)
        return -1;
    uint32_t each = rank_memory_pages(m, a, at->slots[s].model);
    double victims = (pages - at->pages_free + each - 1) / each; /* as if they were all like the first */
    return busy + victims * fading_at(memory_slot_worth(m, &at->slots[s]), now_ns, memory_span_ns(m));
}

/* Time until a load can go ahead of the one that is under way on the accelerator: that of a page. */
static int64_t page_time(const struct rank_memory *m, uint32_t a) {
    const struct memory_slot *under_way = &m->accelerator[a].slots[m->accelerator[a].loading];
    return under_way->expected_ns * m->accelerator[a].grain / rank_memory_pages(m, a, under_way->model);
}

/* Whether a load that is to begin by latest_ns may go ahead of the one that is under way on the accelerator: it is in
 * time so, and would not be behind that one, which stays in time. */
static bool may_go_ahead(const struct rank_memory *m, int64_t now_ns, uint32_t a, uint32_t model, int64_t latest_ns) {
    const struct memory_slot *under_way = &m->accelerator[a].slots[m->accelerator[a].loading];
    return now_ns + page_time(m, a) <= latest_ns && latest_ns < under_way->ends_ns &&
           rank_loads_time(m, model) <= under_way->slack_ns;
}

/* When an accelerator to which a load of the model is given now is expected to start what the model has to run;
 * TIME_NEVER: not in time. */
static int64_t start_of(const struct rank_core *core, uint32_t model, int64_t now_ns, uint32_t a) {
    const struct rank_memory *m = core->memory;
    int64_t start_ns = now_ns + rank_loads_time(m, model);
    for (uint32_t v = model; v < model + m->model[model].variants; v++) {
        int64_t turn_ns = m->variant[v].wants ? rank_memory_turn(core, now_ns, v, a) : start_ns;
        start_ns = turn_ns > start_ns ? turn_ns : start_ns;
    }
    return start_ns;
}

/* The accelerator that a load of the model goes to. One that is to save a batch goes where that can start soonest, and
 * nowhere if it would not be in time; others go where the model is in time and, of several or if there is none, where
 * they cost least. (Where a load costs least is often where most waits: with 8 accelerators, 200 models of six sizes of
 * which each has 8, and an SLO of 1.2 times a cold request, goodput was 90 requests/s instead of 275.) The accelerators
 * have an idle link (ahead_ns TIME_NEVER), or a load that one which must begin by ahead_ns may go ahead of; and, if
 * they are to `keep` the model, have room for that. RANK_NOBODY: there is none. */
static uint32_t place_find(struct rank_core *core, uint32_t model, int64_t now_ns, bool saves, bool keep,
                           int64_t ahead_ns, double *least) {
    struct rank_memory *m = core->memory;
    const struct memory_model *to = &m->model[model];
    uint32_t best = RANK_NOBODY, looks = 0;
    int64_t best_ns = TIME_NEVER;
    m->from = (m->from + 1) % m->words;
    for (uint32_t i = 0; i < m->words && looks < LOOKS_MOST; i++) {
        uint32_t word = (m->from + i) % m->words;
        uint64_t offered = m->told ? m->offered[(size_t)model * m->words + word] : UINT64_MAX;
        uint64_t links = (ahead_ns == TIME_NEVER ? &m->idle : &m->loading)->words[0][word] & offered;
        for (; links; links &= links - 1) {
            uint32_t a = word * 64 + (uint32_t)__builtin_ctzll(links);
            uint32_t pages = rank_memory_pages(m, a, model);
            if (!(to->types >> core->accelerator[a].type & 1) || memory_slot_find(m, a, model) != SLOT_NONE ||
                pages > m->accelerator[a].pages - m->accelerator[a].pages_kept ||
                (keep && !rank_memory_keeps(m, a, pages)) ||
                (ahead_ns != TIME_NEVER && !may_go_ahead(m, now_ns, a, model, ahead_ns)))
                continue;
            double cost = place_cost(core, a, model, now_ns);
            bool dearer = best != RANK_NOBODY && cost >= *least;
            looks++;
            if (cost < 0 || (dearer && !saves && best_ns < TIME_NEVER))
                continue;
            int64_t start_ns = start_of(core, model, now_ns, a);
            if (start_ns < TIME_NEVER && !saves)
                start_ns = 0; /* all that are in time are alike */
            if ((start_ns == TIME_NEVER && saves) || start_ns > best_ns || (start_ns == best_ns && dearer))
                continue;
            best = a;
            best_ns = start_ns;
            *least = cost;
        }
    }
    return best;
}

/* ---- loads ---- */

static void move_add(struct rank_core *core, enum central_action_kind kind, uint32_t a, uint32_t model,
                     struct rank_output *out) {
    out->moves[out->move_count++] = (struct rank_move){
        .kind = kind,
        .accelerator = a,
        .variant = {model},
        .epoch = core->memory->accelerator[a].epoch,
        .latest_ns = TIME_NEVER,
    };
    core->memory->accelerator[a].moves++;
}

/* A load goes ahead of the one that is under way, which ends that much later. */
static void put_back(struct rank_memory *m, uint32_t a, uint32_t s) {
    struct memory_accelerator *at = &m->accelerator[a];
    struct memory_slot *under_way = &at->slots[at->loading];
    struct memory_model *of = &m->model[under_way->model];
    at->ahead = s;
    bit_tree_remove(&m->loading, a);
    under_way->ends_ns += at->slots[s].expected_ns;
    under_way->slack_ns -= at->slots[s].expected_ns;
    if (of->there > 0)
        return;
    of->arrives_ns = under_way->ends_ns;
    memory_news_add(m, under_way->model);
}

/* Unloads what is worth least until there is room, and loads the model: for requests that are in time if the load
 * begins by latest_ns, or for later ones (TIME_NEVER). False: there is no room, or the step can give no more moves
 * (`more`), or the accelerator has not done enough of its moves to take so many more. */
static bool load_begin(struct rank_core *core, int64_t now_ns, uint32_t a, uint32_t model, int64_t latest_ns,
                       struct rank_output *out) {
    struct rank_memory *m = core->memory;
    struct memory_accelerator *at = &m->accelerator[a];
    struct passed passed = {.count = 0};
    uint32_t s = 0, pages = rank_memory_pages(m, a, model), ahead = at->loading != SLOT_NONE;
    while (at->pages_free < pages && out->move_count < RANK_MOVES_MAX && at->moves + 1 < MEMORY_ORDERS_MOST &&
           (s = victim_find(core, a, model, now_ns, &passed)) != SLOT_NONE) {
        move_add(core, CENTRAL_UNLOAD, a, at->slots[s].model, out);
        out->moves[out->move_count - 1].ahead = ahead;
        m->full = true;
        memory_slot_give(core, a, s);
    }
    passed_back(m, a, &passed);
    m->more = out->move_count == RANK_MOVES_MAX;
    if (m->more || at->pages_free < pages || at->moves == MEMORY_ORDERS_MOST)
        return false;
    s = memory_slot_take(m, now_ns, a, model);
    struct memory_slot *slot = &at->slots[s];
    slot->expected_ns = rank_loads_time(m, model);
    slot->ends_ns = now_ns + core->ctrl_ns + slot->expected_ns + (ahead ? page_time(m, a) : 0);
    slot->slack_ns = latest_ns < TIME_NEVER / 2 ? latest_ns - now_ns : TIME_NEVER / 2;
    slot->latest_ns = TIME_NEVER;
    if (latest_ns < TIME_NEVER / 2)
        slot->latest_ns =
            (latest_ns > now_ns ? latest_ns : now_ns) + core->ctrl_ns + core->grace_ns + slot->expected_ns / LATE_PART;
    m->model[model].arrives_ns = slot->ends_ns;
    m->model[model].pressed = FADING_NONE;
    move_add(core, CENTRAL_LOAD, a, model, out);
    out->moves[out->move_count - 1].latest_ns = slot->latest_ns;
    out->moves[out->move_count - 1].ahead = ahead;
    bit_tree_remove(&m->idle, a);
    if (ahead) {
        put_back(m, a, s);
    } else {
        at->loading = s;
        if (at->cuts)
            bit_tree_add(&m->loading, a);
    }
    heap_remove(&m->wanted, model);
    heap_remove(&m->gains, model);
    if (m->model[model].there == 0)
        memory_news_add(m, model);
    return true;
}

/* Whether an accelerator runs the model, or is granted to it. */
static bool runs(const struct rank_core *core, uint32_t accelerator, uint32_t model) {
    const struct accelerator *a = &core->accelerator[accelerator];
    bool any = a->granted && core->memory->variant[a->granted_to].of == model;
    for (uint32_t i = 0; i < a->batches; i++)
        any |= core->memory->variant[a->running[i].model].of == model;
    return any;
}

/* Accelerators give up models that have left, or that they may not have any more. Those that run, or are being loaded,
 * follow. */
static void yields_review(struct rank_core *core, struct rank_output *out) {
    struct rank_memory *m = core->memory;
    for (uint32_t w = 0; w < (m->models + 63) / 64 && !bit_tree_empty(&m->yielding); w++)
        for (uint64_t models = m->yielding.words[0][w]; models; models &= models - 1) {
            uint32_t model = w * 64 + (uint32_t)__builtin_ctzll(models);
            for (uint32_t i = 0; i < m->words; i++)
                for (uint64_t yields = m->yields[(size_t)model * m->words + i]; yields; yields &= yields - 1) {
                    uint32_t a = i * 64 + (uint32_t)__builtin_ctzll(yields), s = memory_slot_find(m, a, model);
                    if ((s != SLOT_NONE && m->accelerator[a].slots[s].holds > 0) ||
                        (m->accelerator[a].unlimited && runs(core, a, model)) ||
                        m->accelerator[a].moves == MEMORY_ORDERS_MOST)
                        continue; /* its end sets `look` */
                    if (out->move_count == RANK_MOVES_MAX) {
                        m->more = true;
                        return;
                    }
                    if (s != SLOT_NONE)
                        memory_slot_give(core, a, s);
                    if (s != SLOT_NONE || m->told) {
                        move_add(core, CENTRAL_UNLOAD, a, model, out);
                        out->moves[out->move_count - 1].yields = 1;
                        /* The unload goes ahead where a load may: a load of the same model that went ahead of it would
                         * find the model there, and then lose it. */
                        out->moves[out->move_count - 1].ahead = m->accelerator[a].loading != SLOT_NONE;
                    }
                    memory_yielded(m, a, model);
                }
        }
}

/* A load is over, or may be tried again: the link is idle or, while a load is under way, lets one go ahead. */
static void link_idle(struct rank_memory *m, uint32_t a) {
    const struct memory_accelerator *at = &m->accelerator[a];
    if (at->ahead != SLOT_NONE)
        return;
    if (at->loading == SLOT_NONE)
        bit_tree_add(&m->idle, a);
    else if (at->cuts)
        bit_tree_add(&m->loading, a);
}

/* Accelerators that have come back unload all, and those that have refused a load are asked again. */
static void links_review(struct rank_core *core, int64_t now_ns, struct rank_output *out) {
    struct rank_memory *m = core->memory;
    while (!bit_tree_empty(&m->emptied) && out->move_count < RANK_MOVES_MAX) {
        uint32_t a = bit_tree_first(&m->emptied);
        bit_tree_remove(&m->emptied, a);
        move_add(core, CENTRAL_EMPTY, a, 0, out);
        bit_tree_add(&m->idle, a);
    }
    m->more = !bit_tree_empty(&m->emptied);
    if (m->look)
        yields_review(core, out);
    while (!heap_empty(&m->broken) && heap_top(&m->broken).key <= now_ns) {
        uint32_t model = heap_top(&m->broken).item;
        heap_remove(&m->broken, model);
        m->model[model].broken = false;
        memory_news_add(m, model);
        rank_loads_want(core, model);
    }
    while (!heap_empty(&m->retries) && heap_top(&m->retries).key <= now_ns) {
        uint32_t a = heap_top(&m->retries).item;
        heap_remove(&m->retries, a);
        link_idle(m, a);
        m->look = true;
    }
}

static void wanted_load(struct rank_core *core, int64_t now_ns, struct rank_output *out) {
    struct rank_memory *m = core->memory;
    uint32_t passed = 0;
    while (!heap_empty(&m->wanted) && (!bit_tree_empty(&m->idle) || !bit_tree_empty(&m->loading)) && !m->more &&
           passed < WANTED_PASSED_MOST) {
        uint32_t model = heap_top(&m->wanted).item;
        int64_t latest_ns = heap_top(&m->wanted).key;
        double cost;
        if (latest_ns < now_ns - core->grace_ns) {
            heap_remove(&m->wanted, model); /* its model core is about to give the requests up */
            continue;
        }
        bool keep = m->model[model].wanting == 0;
        uint32_t a = place_find(core, model, now_ns, false, keep, TIME_NEVER, &cost);
        if (a == RANK_NOBODY && latest_ns != TIME_NEVER)
            a = place_find(core, model, now_ns, false, false, latest_ns, &cost);
        if (a != RANK_NOBODY && load_begin(core, now_ns, a, model, latest_ns, out))
            continue;
        heap_remove(&m->wanted, model);
        m->passed[passed++] = model;
    }
    while (passed)
        rank_loads_want(core, m->passed[--passed]);
}

/* Whether a variant of the model has something to run, and no grant. */
static bool batch_waits(const struct rank_core *core, uint32_t model) {
    const struct rank_memory *m = core->memory;
    uint32_t v = model, end = model + m->model[model].variants;
    while (v < end && (!m->variant[v].wants || core->model[v].granted))
        v++;
    return v < end;
}

static void gains_load(struct rank_core *core, int64_t now_ns, struct rank_output *out) {
    struct rank_memory *m = core->memory;
    while (!heap_empty(&m->gains) && !bit_tree_empty(&m->idle) && !m->more) {
        uint32_t model = heap_top(&m->gains).item;
        bool saves = m->model[model].saves;
        double cost;
        heap_remove(&m->gains, model); /* the next request, or batch that finds no copy free, puts it there again */
        m->model[model].saves = false;
        if (saves && (!batch_waits(core, model) || latest_begin(core, model) < now_ns))
            continue;
        uint32_t a = place_find(core, model, now_ns, saves, false, TIME_NEVER, &cost);
        if (a != RANK_NOBODY && (saves || gain_of(m, model, now_ns) > GAIN_TIMES * cost / memory_span_ns(m)))
            load_begin(core, now_ns, a, model, saves ? latest_begin(core, model) : TIME_NEVER, out);
    }
}

void rank_loads_schedule(struct rank_core *core, int64_t now_ns, struct rank_output *out) {
    struct rank_memory *m = core->memory;
    m->more = false;
    links_review(core, now_ns, out);
    if (m->look && !m->more) {
        wanted_load(core, now_ns, out);
        if (!m->more)
            gains_load(core, now_ns, out);
        m->look = m->more;
    }
    while (m->gone_count > 0 && out->gone_count < RANK_GONE_MAX)
        out->gone[out->gone_count++].n = m->gone[--m->gone_count];
    m->more |= m->gone_count > 0;
}

int64_t rank_loads_next(const struct rank_core *core, int64_t now_ns) {
    const struct rank_memory *m = core->memory;
    if (m->more)
        return now_ns;
    bool waits = !heap_empty(&m->retries) && (!heap_empty(&m->wanted) || !heap_empty(&m->gains));
    int64_t next_ns = waits ? heap_top(&m->retries).key : TIME_NEVER;
    return !heap_empty(&m->broken) && heap_top(&m->broken).key < next_ns ? heap_top(&m->broken).key : next_ns;
}

void rank_loads_moved(struct rank_core *core, int64_t now_ns, const struct memory_moved *moved) {
    struct rank_memory *m = core->memory;
    uint32_t a = moved->accelerator, model = m->variant[moved->variant.n].of;
    struct memory_accelerator *at = &m->accelerator[a];
    if (moved->kind >= MEMORY_SIZE) {
        rank_memory_told(core, now_ns, moved);
        return;
    }
    CHECK(at->moves > 0);
    at->moves--;
    memory_empty_look(core, a);
    m->look = true;
    if (moved->kind != CENTRAL_LOAD || moved->epoch != at->epoch)
        return;
    uint32_t s = memory_slot_find(m, a, model);
    CHECK(s != SLOT_NONE && at->slots[s].state == COPY_LOADING);
    *(at->ahead == s ? &at->ahead : &at->loading) = SLOT_NONE;
    bit_tree_remove(&m->loading, a);
    if (moved->failed) {
        link_idle(m, a);
        memory_slot_give(core, a, s);
        if (m->told) { /* it is given up; its link offers it again after a while */
            memory_offer_end(m, a, model);
            memory_yield_add(m, a, model);
        }
        if (m->told && m->model[model].offers > 0)
            return; /* others may be able to load it */
        m->model[model].broken = true;
        heap_set(&m->broken, model, now_ns + BROKEN_NS);
        heap_remove(&m->gains, model);
        heap_remove(&m->wanted, model);
        return;
    }
    if (!moved->done) {
        if (now_ns > at->slots[s].latest_ns) /* it could not begin in time: others may */
            link_idle(m, a);
        else
            heap_set(&m->retries, a, now_ns + RETRY_NS);
        memory_slot_give(core, a, s);
        return;
    }
    link_idle(m, a);
    load_time_learn(&m->model[model].load, &m->pace, moved->took_ns);
    memory_slot_ready(m, a, s);
}
