/* model_life.c - the states of a process's places, and the orders that follow from events. */
#include "model/repository/model_life.h"

#include "core/util/assert.h"

static uint32_t bucket_count(uint32_t places) {
    uint32_t count = 1;
    while (count < places)
        count *= 2;
    return count;
}

static uint32_t words_of(uint32_t executors) {
    return executors / 64 + 1; /* one bit more, for the scheduling thread */
}

size_t model_life_bytes(uint32_t places, uint32_t executors) {
    return sizeof(struct model_life) + places * sizeof(struct life_place) +
           bucket_count(places) * sizeof(struct list_node) + (size_t)places * words_of(executors) * sizeof(uint64_t);
}

void model_life_init(struct model_life *life, uint32_t places, uint32_t executors) {
    life->count = places;
    life->executors = executors;
    life->again_ns = TIME_NEVER;
    life->bucket_mask = bucket_count(places) - 1;
    life->words = words_of(executors);
    life->buckets = (struct list_node *)(life->places + places);
    life->has = (uint64_t *)(life->buckets + life->bucket_mask + 1);
    list_init(&life->free);
    list_init(&life->moving);
    list_init(&life->due);
    list_init(&life->again);
    for (uint32_t i = 0; i <= life->bucket_mask; i++)
        list_init(&life->buckets[i]);
    for (uint32_t i = 0; i < places; i++) {
        list_append(&life->free, &life->places[i].node);
        list_init(&life->places[i].due);
        list_init(&life->places[i].of_key);
    }
}

static uint32_t index_of(const struct model_life *life, const struct life_place *p) {
    return (uint32_t)(p - life->places);
}

static struct list_node *bucket_of(const struct model_life *life, uint64_t key) {
    return &life->buckets[key * 0x9e3779b97f4a7c15ULL >> 32 & life->bucket_mask];
}

static void set_due(struct model_life *life, struct life_place *p) {
    if (list_empty(&p->due)) /* in neither list: `due`, `again` */
        list_append(&life->due, &p->due);
}

/* ---- parties ---- */

static uint64_t *has_word(const struct model_life *life, const struct life_place *p, uint32_t party) {
    return &life->has[(size_t)index_of(life, p) * life->words + party / 64];
}

static bool has_party(const struct model_life *life, const struct life_place *p, uint32_t party) {
    return *has_word(life, p, party) >> party % 64 & 1;
}

/* The party that is told n-th: the scheduling thread is told last that a model comes, and first that it goes. */
static uint32_t party_at(const struct model_life *life, const struct life_place *p, uint32_t n) {
    bool first = p->state == LIFE_GOING && p->parties > life->executors;
    return !first ? n : n == 0 ? life->executors : n - 1;
}

/* Whether a party was told of what happens to the place now. */
static bool is_told(const struct model_life *life, const struct life_place *p, uint32_t party) {
    bool first = p->state == LIFE_GOING && p->parties > life->executors;
    return p->told > (!first ? party : party == life->executors ? 0 : party + 1); /* as party_at() */
}

/* Whether the next party may be told: the scheduling thread once all executors have the model, and they once it does
 * not have it any more. */
static bool may_tell(const struct model_life *life, const struct life_place *p) {
    if (p->told == p->parties)
        return false;
    if (p->parties <= life->executors)
        return true;
    return p->state == LIFE_ENTERING ? p->told < life->executors || p->answered == life->executors
                                     : p->told == 0 || p->answered > 0;
}

/* ---- states ---- */

static void set_moving(struct model_life *life, struct life_place *p, enum life_state state) {
    list_remove(&p->node);
    list_append(&life->moving, &p->node);
    p->state = (uint8_t)state;
    p->told = p->answered = 0;
    set_due(life, p);
}

static void leave(struct model_life *life, struct life_place *p) {
    life->serving -= p->key != 0;
    set_moving(life, p, LIFE_LEAVING);
}

/* The place that serves the model with p's key, other than p. NULL: there is none. */
static struct life_place *other_serving(struct model_life *life, const struct life_place *p) {
    for (uint32_t i = LIFE_NONE; p->key && (i = model_life_of_key(life, p->key, i)) != LIFE_NONE;)
        if (&life->places[i] != p && life->places[i].state == LIFE_SERVING)
            return &life->places[i];
    return NULL;
}

/* All parties have the model. */
static void serve(struct model_life *life, struct life_place *p, int64_t now_ns) {
    list_remove(&p->node);
    p->state = LIFE_SERVING;
    p->replaced_ns = 0;
    life->serving += p->key != 0;
    set_due(life, p);
    for (uint32_t i = LIFE_NONE; p->key && (i = model_life_of_key(life, p->key, i)) != LIFE_NONE;)
        if (life->places[i].state == LIFE_LEAVING && life->places[i].replaced_ns == 0) /* it had ended before */
            life->places[i].replaced_ns = now_ns;
    struct life_place *other = other_serving(life, p);
    if (!other)
        return;
    struct life_place *older = other->born < p->born ? other : p;
    older->replaced_ns = now_ns;
    leave(life, older);
}

uint32_t model_life_put(struct model_life *life, uint64_t key) {
    if (list_empty(&life->free))
        return LIFE_NONE;
    struct life_place *p = list_entry(life->free.next, struct life_place, node);
    p->key = key;
    p->born = ++life->births;
    p->replaced_ns = 0;
    p->parties = 0;
    p->ends = p->shown = false;
    list_append(bucket_of(life, key), &p->of_key);
    set_moving(life, p, LIFE_PREPARING);
    return index_of(life, p);
}

void model_life_prepared(struct model_life *life, uint32_t place, enum life_reach reach, int64_t now_ns) {
    struct life_place *p = &life->places[place];
    if (p->state != LIFE_PREPARING)
        return;
    if (p->ends) {
        set_moving(life, p, LIFE_GOING);
        return;
    }
    p->parties = reach == LIFE_NOBODY ? 0 : life->executors + (reach == LIFE_ALL);
    if (p->parties > 0)
        set_moving(life, p, LIFE_ENTERING);
    else
        serve(life, p, now_ns);
}

void model_life_failed(struct model_life *life, uint32_t place) {
    struct life_place *p = &life->places[place];
    if (p->state != LIFE_PREPARING)
        return;
    list_remove(&p->node);
    p->state = LIFE_FAILED;
    if (p->ends)
        model_life_end(life, place);
}

void model_life_answer(struct model_life *life, uint32_t place, uint32_t party, bool has, int64_t now_ns) {
    struct life_place *p = &life->places[place];
    if (p->state != (has ? LIFE_ENTERING : LIFE_GOING) || !model_life_awaits(life, place, party))
        return;
    *has_word(life, p, party) ^= 1ULL << party % 64;
    p->answered++;
    if (!has || p->answered < p->parties)
        set_due(life, p);
    else if (p->ends)
        set_moving(life, p, LIFE_GOING);
    else
        serve(life, p, now_ns);
}

void model_life_end(struct model_life *life, uint32_t place) {
    struct life_place *p = &life->places[place];
    if (p->state == LIFE_PREPARING || p->state == LIFE_ENTERING)
        p->ends = true;
    else if (p->state == LIFE_FAILED)
        set_moving(life, p, LIFE_GOING);
    else if (p->state == LIFE_SERVING)
        leave(life, p);
}

bool model_life_back(struct model_life *life, uint32_t place, int64_t now_ns) {
    struct life_place *p = &life->places[place];
    if (p->state == LIFE_FREE || p->state == LIFE_GOING)
        return false;
    if (model_life_stays(life, place))
        return true;
    p->born = ++life->births;
    p->ends = false;
    if (p->state == LIFE_LEAVING)
        serve(life, p, now_ns);
    return true;
}

void model_life_hold(struct model_life *life, uint32_t place, uint32_t count) {
    CHECK(life->places[place].state != LIFE_FREE);
    life->places[place].holds += count;
}

void model_life_release(struct model_life *life, uint32_t place, uint32_t count) {
    struct life_place *p = &life->places[place];
    CHECK_GE(p->holds, count);
    p->holds -= count;
    if (p->holds == 0 && (p->state == LIFE_LEAVING || p->state == LIFE_GOING))
        set_due(life, p);
}

/* ---- orders ---- */

static bool tell(const struct model_life *life, struct life_place *p, enum life_order_kind kind,
                 struct life_order *order) {
    if (!may_tell(life, p))
        return false;
    *order = (struct life_order){kind, index_of(life, p), party_at(life, p, p->told++)};
    return true;
}

static bool show(const struct model_life *life, struct life_place *p, bool shown, struct life_order *order) {
    if (p->shown == shown || p->key == 0)
        return false;
    p->shown = shown;
    *order = (struct life_order){shown ? LIFE_SHOW : LIFE_HIDE, index_of(life, p), 0};
    return true;
}

static void place_free(struct model_life *life, struct life_place *p) {
    list_remove(&p->due);
    list_remove(&p->of_key);
    list_remove(&p->node);
    list_insert_before(life->free.next, &p->node);
    p->state = LIFE_FREE;
    p->told = p->answered = 0;
}

/* The next order of a place. False: there is none before something happens. */
static bool place_next(struct model_life *life, struct life_place *p, struct life_order *order) {
    struct life_place *newer;
    switch (p->state) {
    case LIFE_ENTERING:
        return tell(life, p, LIFE_ENTER, order);
    case LIFE_SERVING:
        return show(life, p, true, order);
    case LIFE_LEAVING:
        newer = p->shown ? other_serving(life, p) : NULL;
        if ((newer && show(life, newer, true, order)) || show(life, p, false, order))
            return true;
        if (p->holds > 0)
            return false;
        set_moving(life, p, LIFE_GOING);
        return place_next(life, p, order);
    case LIFE_GOING:
        if (p->holds > 0) /* it has failed, or ended early */
            return false;
        if (p->answered < p->parties)
            return tell(life, p, LIFE_TAKE, order);
        *order = (struct life_order){LIFE_FREED, index_of(life, p), 0};
        place_free(life, p);
        return true;
    default:
        return false;
    }
}

bool model_life_next(struct model_life *life, int64_t now_ns, struct life_order *order) {
    if (now_ns >= life->again_ns) {
        life->again_ns = TIME_NEVER;
        while (!list_empty(&life->again)) {
            struct list_node *node = life->again.next;
            list_remove(node);
            list_append(&life->due, node);
        }
    }
    while (!list_empty(&life->due)) {
        struct life_place *p = list_entry(life->due.next, struct life_place, due);
        if (place_next(life, p, order))
            return true;
        list_remove(&p->due);
    }
    return false;
}

void model_life_again(struct model_life *life, const struct life_order *order, int64_t now_ns) {
    struct life_place *p = &life->places[order->place];
    CHECK(order->kind == LIFE_ENTER || order->kind == LIFE_TAKE);
    p->told--;
    list_remove(&p->due);
    list_append(&life->again, &p->due);
    int64_t again_ns = now_ns + LIFE_AGAIN_NS;
    life->again_ns = again_ns < life->again_ns ? again_ns : life->again_ns;
}

/* ---- questions ---- */

uint32_t model_life_of_key(const struct model_life *life, uint64_t key, uint32_t after) {
    const struct list_node *bucket = bucket_of(life, key);
    const struct list_node *at = after == LIFE_NONE ? bucket->next : life->places[after].of_key.next;
    for (; at != bucket; at = at->next) {
        const struct life_place *p = list_entry(at, struct life_place, of_key);
        if (p->key == key)
            return index_of(life, p);
    }
    return LIFE_NONE;
}

enum life_on model_life_on(const struct model_life *life, uint32_t place, uint32_t party) {
    const struct life_place *p = &life->places[place];
    bool has = has_party(life, p, party), told = is_told(life, p, party);
    if (p->state == LIFE_GOING)
        return !has ? LIFE_ON_ABSENT : told ? LIFE_ON_GOING : LIFE_ON_THERE;
    return has ? LIFE_ON_THERE : told ? LIFE_ON_COMING : LIFE_ON_ABSENT;
}

bool model_life_awaits(const struct model_life *life, uint32_t place, uint32_t party) {
    enum life_on on = model_life_on(life, place, party);
    return on == LIFE_ON_COMING || on == LIFE_ON_GOING;
}
