/* test_model_life.c - the life of models in places: event by event, and in drawn histories.
 *
 * In a history models come, end and come back at random; their preparation fails now and then; rings to parties have
 * room for two orders; parties answer late, and may say what they have said before; whoever holds a place lets go of it
 * late, or is lost and noticed to be gone later. What other threads have is counted apart from the machine, and
 * compared at each order. At last everything ends, and every place must be free. */
#include "model/repository/model_life.h"

#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "core/util/rng.h"
#include "histories.h"
#include "unit/test.h"

#define PLACES    6
#define EXECUTORS 3
#define PARTIES   (EXECUTORS + 1)
#define KEYS      3
#define RING      2
#define STEPS     400
#define HISTORIES 4000

static struct model_life *life_of(uint32_t places, uint32_t executors) {
    struct model_life *life = calloc(1, model_life_bytes(places, executors));
    assert_non_null(life);
    model_life_init(life, places, executors);
    return life;
}

static void expect(struct model_life *life, enum life_order_kind kind, uint32_t place, uint32_t party) {
    struct life_order order;
    assert_true(model_life_next(life, 0, &order));
    assert_int_equal(order.kind, kind);
    assert_int_equal(order.place, place);
    assert_int_equal(order.party, party);
}

static void expect_nothing(struct model_life *life) {
    struct life_order order;
    assert_false(model_life_next(life, 0, &order));
    assert_true(model_life_wake(life) > 0);
}

/* ---- event by event ---- */

TEST(a_model_goes_its_way) {
    struct model_life *life = life_of(2, 2);
    uint32_t p = model_life_put(life, 7);
    assert_int_equal(model_life_state(life, p), LIFE_PREPARING);
    expect_nothing(life);
    model_life_prepared(life, p, LIFE_ALL, 0);
    expect(life, LIFE_ENTER, p, 0);
    expect(life, LIFE_ENTER, p, 1);
    expect_nothing(life); /* the scheduling thread comes last */
    model_life_answer(life, p, 1, true, 0);
    assert_int_equal(model_life_on(life, p, 0), LIFE_ON_COMING);
    assert_int_equal(model_life_on(life, p, 1), LIFE_ON_THERE);
    assert_int_equal(model_life_on(life, p, 2), LIFE_ON_ABSENT);
    expect_nothing(life);
    model_life_answer(life, p, 0, true, 0);
    expect(life, LIFE_ENTER, p, 2);
    model_life_answer(life, p, 0, true, 0); /* once more: ignored */
    expect_nothing(life);
    model_life_answer(life, p, 2, true, 0);
    expect(life, LIFE_SHOW, p, 0);
    assert_int_equal(life->serving, 1);
    model_life_hold(life, p, 2);
    model_life_end(life, p);
    expect(life, LIFE_HIDE, p, 0);
    model_life_release(life, p, 1);
    expect_nothing(life);
    model_life_release(life, p, 1);
    expect(life, LIFE_TAKE, p, 2);
    expect_nothing(life);
    assert_false(model_life_back(life, p, 0)); /* too late */
    model_life_answer(life, p, 2, false, 0);
    expect(life, LIFE_TAKE, p, 0);
    expect(life, LIFE_TAKE, p, 1);
    assert_int_equal(model_life_on(life, p, 1), LIFE_ON_GOING);
    model_life_answer(life, p, 0, false, 0);
    model_life_answer(life, p, 1, false, 0);
    expect(life, LIFE_FREED, p, 0);
    expect_nothing(life);
    assert_int_equal(model_life_of_key(life, 7, LIFE_NONE), LIFE_NONE);
    free(life);
}

TEST(a_newer_one_is_shown_before_the_older_leaves) {
    struct model_life *life = life_of(4, 0);
    uint32_t older = model_life_put(life, 7), newer = model_life_put(life, 7);
    uint32_t other = model_life_put(life, 8);
    model_life_prepared(life, older, LIFE_NOBODY, 1);
    model_life_prepared(life, other, LIFE_NOBODY, 1);
    expect(life, LIFE_SHOW, older, 0);
    expect(life, LIFE_SHOW, other, 0);
    model_life_prepared(life, newer, LIFE_NOBODY, 5);
    expect(life, LIFE_SHOW, newer, 0);
    expect(life, LIFE_HIDE, older, 0);
    model_life_hold(life, older, 1);
    expect_nothing(life);
    assert_int_equal(life->places[older].replaced_ns, 5);
    assert_true(model_life_back(life, older, 9)); /* it is the newer one now */
    expect(life, LIFE_SHOW, older, 0);
    expect(life, LIFE_HIDE, newer, 0);
    expect(life, LIFE_FREED, newer, 0);
    model_life_release(life, older, 1);
    expect_nothing(life);
    assert_int_equal(life->serving, 2);
    free(life);
}

/* A place whose model had ended is replaced, too, while requests hold it. */
TEST(one_that_had_ended_is_replaced) {
    struct model_life *life = life_of(4, 0);
    uint32_t ended = model_life_put(life, 7);
    model_life_prepared(life, ended, LIFE_NOBODY, 1);
    expect(life, LIFE_SHOW, ended, 0);
    model_life_end(life, ended);
    expect(life, LIFE_HIDE, ended, 0);
    model_life_hold(life, ended, 1);
    assert_int_equal(life->places[ended].replaced_ns, 0);
    uint32_t newer = model_life_put(life, 7);
    model_life_prepared(life, newer, LIFE_NOBODY, 5);
    expect(life, LIFE_SHOW, newer, 0);
    assert_int_equal(life->places[ended].replaced_ns, 5);
    assert_int_equal(life->places[newer].replaced_ns, 0);
    free(life);
}

TEST(one_that_is_late_is_never_shown) {
    struct model_life *life = life_of(4, 1);
    uint32_t older = model_life_put(life, 7), newer = model_life_put(life, 7);
    model_life_prepared(life, newer, LIFE_NOBODY, 0);
    expect(life, LIFE_SHOW, newer, 0);
    model_life_prepared(life, older, LIFE_EXECUTORS, 0);
    expect(life, LIFE_ENTER, older, 0);
    model_life_answer(life, older, 0, true, 0);
    expect(life, LIFE_TAKE, older, 0);
    model_life_answer(life, older, 0, false, 0);
    expect(life, LIFE_FREED, older, 0);
    free(life);
}

TEST(what_fails_stays_until_it_ends) {
    struct model_life *life = life_of(1, 1);
    uint32_t p = model_life_put(life, 7);
    model_life_failed(life, p);
    expect_nothing(life);
    assert_true(model_life_stays(life, p));
    assert_int_equal(model_life_put(life, 8), LIFE_NONE);
    model_life_end(life, p);
    expect(life, LIFE_FREED, p, 0);
    assert_int_equal(model_life_put(life, 8), p);
    model_life_end(life, p); /* while it is being prepared */
    assert_false(model_life_stays(life, p));
    expect_nothing(life);
    model_life_failed(life, p);
    expect(life, LIFE_FREED, p, 0);
    free(life);
}

TEST(a_full_ring_is_tried_again) {
    struct model_life *life = life_of(1, 1);
    struct life_order order;
    uint32_t p = model_life_put(life, 7);
    model_life_prepared(life, p, LIFE_ALL, 0);
    expect(life, LIFE_ENTER, p, 0);
    model_life_again(life, &(struct life_order){LIFE_ENTER, p, 0}, 0);
    expect_nothing(life);
    assert_int_equal(model_life_wake(life), LIFE_AGAIN_NS);
    assert_true(model_life_next(life, LIFE_AGAIN_NS, &order));
    assert_int_equal(order.party, 0);
    assert_int_equal(model_life_wake(life), 0); /* there might be more for the place */
    expect_nothing(life);
    assert_true(model_life_wake(life) == TIME_NEVER);
    free(life);
}

/* ---- drawn histories ---- */

/* A party: what it was told and has not read, what it has said and nobody has read, and what it has. */
struct party {
    struct said {
        uint32_t place;
        bool has;
    } told[RING], said[4 * PLACES];
    uint32_t told_count, said_count;
    bool has[PLACES];
};

struct history {
    struct rng rng;
    struct model_life *life;
    int64_t now_ns;
    struct party parties[PARTIES];
    struct mine {
        bool used, prepared, failed, shown, ended; /* ended: or a newer one has taken over */
        uint64_t key, put;                         /* number of the put or the back */
        enum life_reach reach;
        uint32_t holds, lost; /* things that hold it; of these, lost ones that are noticed late */
    } mine[PLACES];
    uint64_t puts;
    uint32_t freed;
};

static uint32_t shown_of(const struct history *h, uint64_t key) {
    uint32_t count = 0;
    for (uint32_t p = 0; p < PLACES; p++)
        count += h->mine[p].shown && h->mine[p].key == key;
    return count;
}

static bool parties_have(const struct history *h, uint32_t place, uint32_t from, uint32_t to, bool has) {
    for (uint32_t i = from; i < to; i++)
        if (h->parties[i].has[place] != has)
            return false;
    return true;
}

static uint32_t reached(const struct mine *m) {
    return m->reach == LIFE_NOBODY ? 0 : m->reach == LIFE_EXECUTORS ? EXECUTORS : PARTIES;
}

/* Whether a model is to go: it has ended, or there is a newer one of its key that all parties have. */
static bool is_to_go(const struct history *h, const struct mine *m) {
    bool goes = m->ended;
    for (uint32_t p = 0; p < PLACES && m->key; p++) {
        const struct mine *other = &h->mine[p];
        goes |= other->used && other->key == m->key && other->put > m->put && other->prepared &&
                parties_have(h, p, 0, reached(other), true);
    }
    return goes;
}

/* An order must be right by what is known here; says whether it could be carried out. */
static bool carry_out(struct history *h, const struct life_order *order) {
    struct mine *m = &h->mine[order->place];
    struct party *party = &h->parties[order->party];
    assert_true(m->used);
    switch (order->kind) {
    case LIFE_ENTER:
        assert_true(m->prepared && !m->shown);
        assert_true(order->party < reached(m));
        if (order->party == EXECUTORS)
            assert_true(parties_have(h, order->place, 0, EXECUTORS, true));
        break;
    case LIFE_SHOW:
        assert_true(!m->shown && m->prepared && m->key);
        assert_true(parties_have(h, order->place, 0, reached(m), true));
        m->shown = true;
        assert_true(shown_of(h, m->key) <= 2); /* the other one is hidden next */
        return true;
    case LIFE_HIDE:
        assert_true(m->shown && is_to_go(h, m));
        assert_true(m->ended || shown_of(h, m->key) == 2); /* no moment without one */
        m->shown = false;
        m->ended = true;
        if (rng_below(&h->rng, 2)) { /* requests are under way, perhaps */
            m->holds++;
            model_life_hold(h->life, order->place, 1);
        }
        return true;
    case LIFE_TAKE:
        assert_true(!m->shown && m->holds == 0 && is_to_go(h, m));
        m->ended = true;
        if (order->party < EXECUTORS)
            assert_false(h->parties[EXECUTORS].has[order->place]);
        break;
    case LIFE_FREED:
        assert_true(!m->shown && m->holds == 0 && is_to_go(h, m));
        assert_true(parties_have(h, order->place, 0, PARTIES, false));
        *m = (struct mine){.used = false};
        h->freed++;
        return true;
    }
    if (party->told_count == RING)
        return false;
    party->told[party->told_count++] = (struct said){order->place, order->kind == LIFE_ENTER};
    return true;
}

static void orders(struct history *h) {
    struct life_order order;
    for (uint32_t n = 0; model_life_next(h->life, h->now_ns, &order); n++) {
        assert_true(n < 100);
        if (!carry_out(h, &order))
            model_life_again(h->life, &order, h->now_ns);
    }
    for (uint64_t key = 1; key <= KEYS; key++)
        assert_true(shown_of(h, key) <= 1);
    assert_true(model_life_wake(h->life) > h->now_ns); /* it asks for no turn in which there is nothing to do */
}

static void party_reads(struct party *party) {
    if (party->told_count == 0 || party->said_count + 2 > ARRAY_COUNT(party->said))
        return;
    struct said told = party->told[0];
    memmove(party->told, party->told + 1, --party->told_count * sizeof(told));
    assert_int_not_equal(party->has[told.place], told.has); /* nothing is said twice to it */
    party->has[told.place] = told.has;
    party->said[party->said_count++] = told;
}

static void party_is_heard(struct history *h, uint32_t i, bool twice) {
    struct party *party = &h->parties[i];
    if (party->said_count == 0)
        return;
    struct said said = party->said[0];
    model_life_answer(h->life, said.place, i, said.has, h->now_ns);
    if (!twice)
        memmove(party->said, party->said + 1, --party->said_count * sizeof(said));
}

static void put(struct history *h) {
    uint64_t key = rng_below(&h->rng, KEYS + 1);
    enum life_reach reach = (enum life_reach)rng_below(&h->rng, 3);
    uint32_t used = 0;
    for (uint32_t p = 0; p < PLACES; p++)
        used += h->mine[p].used;
    uint32_t p = model_life_put(h->life, key);
    assert_true((p == LIFE_NONE) == (used == PLACES));
    if (p == LIFE_NONE)
        return;
    assert_false(h->mine[p].used);
    h->mine[p] = (struct mine){.used = true, .key = key, .reach = reach, .put = ++h->puts};
}

static void something_happens(struct history *h) {
    uint32_t p = (uint32_t)rng_below(&h->rng, PLACES), i = (uint32_t)rng_below(&h->rng, PARTIES);
    struct mine *m = &h->mine[p];
    switch (rng_below(&h->rng, 10)) {
    case 0:
        put(h);
        break;
    case 1:
        if (m->used && !m->prepared && !m->failed) {
            m->prepared = rng_below(&h->rng, 4) > 0;
            m->failed = !m->prepared;
            if (m->prepared)
                model_life_prepared(h->life, p, m->reach, h->now_ns);
            else
                model_life_failed(h->life, p);
        }
        break;
    case 2:
        if (m->used && rng_below(&h->rng, 3) == 0) {
            m->ended = true;
            model_life_end(h->life, p);
        }
        break;
    case 3:
        if (m->used && model_life_back(h->life, p, h->now_ns)) {
            m->put = m->ended ? ++h->puts : m->put;
            m->ended = false;
        }
        break;
    case 4:
        if (m->shown || (m->used && !m->key)) { /* a request, or a model that shares its layers */
            m->holds++;
            model_life_hold(h->life, p, 1);
        }
        break;
    case 5:
        if (m->holds > m->lost && rng_below(&h->rng, 8) == 0) {
            m->lost++; /* nothing more is heard of it */
        } else if (m->holds > m->lost) {
            m->holds--;
            model_life_release(h->life, p, 1);
        }
        break;
    case 6:
        if (m->lost > 0 && rng_below(&h->rng, 8) == 0) { /* it is noticed */
            m->holds -= m->lost;
            model_life_release(h->life, p, m->lost);
            m->lost = 0;
        }
        break;
    case 7:
        party_reads(&h->parties[i]);
        break;
    case 8:
        party_is_heard(h, i, rng_below(&h->rng, 4) == 0);
        break;
    default:
        h->now_ns += (int64_t)rng_below(&h->rng, 2 * LIFE_AGAIN_NS);
    }
    orders(h);
}

/* All answers come, until there is nothing left to say. */
static void settle(struct history *h) {
    bool any = true;
    for (uint32_t n = 0; any; n++) {
        assert_true(n < 1000);
        any = h->life->again_ns != TIME_NEVER;
        h->now_ns += LIFE_AGAIN_NS;
        orders(h);
        for (uint32_t i = 0; i < PARTIES; i++) {
            any |= h->parties[i].told_count > 0 || h->parties[i].said_count > 0;
            party_reads(&h->parties[i]);
            party_is_heard(h, i, false);
        }
        orders(h);
    }
}

/* Of the models of a key that are prepared and have not ended, the newest one is shown. */
static void newest_are_shown(const struct history *h) {
    for (uint64_t key = 1; key <= KEYS; key++) {
        const struct mine *newest = NULL;
        for (uint32_t p = 0; p < PLACES; p++) {
            const struct mine *m = &h->mine[p];
            if (m->used && m->key == key && m->prepared && !m->ended && (!newest || m->put > newest->put))
                newest = m;
        }
        assert_true(!newest || newest->shown);
        assert_int_equal(shown_of(h, key), newest ? 1 : 0);
    }
}

static void all_ends(struct history *h) {
    for (uint32_t p = 0; p < PLACES; p++) {
        if (!h->mine[p].used)
            continue;
        h->mine[p].ended = true;
        model_life_end(h->life, p);
        if (!h->mine[p].prepared && !h->mine[p].failed)
            model_life_failed(h->life, p);
        uint32_t holds = h->mine[p].holds;
        h->mine[p].holds = h->mine[p].lost = 0;
        if (holds > 0)
            model_life_release(h->life, p, holds);
    }
    settle(h);
    for (uint32_t p = 0; p < PLACES; p++) { /* HIDE was held once more */
        if (h->mine[p].holds > 0) {
            uint32_t holds = h->mine[p].holds;
            h->mine[p].holds = 0;
            model_life_release(h->life, p, holds);
        }
    }
    settle(h);
    for (uint32_t p = 0; p < PLACES; p++) {
        assert_false(h->mine[p].used);
        assert_int_equal(model_life_state(h->life, p), LIFE_FREE);
        for (uint32_t i = 0; i < PARTIES; i++)
            assert_int_equal(model_life_on(h->life, p, i), LIFE_ON_ABSENT);
    }
    assert_int_equal(h->life->serving, 0);
    assert_true(list_empty(&h->life->moving));
}

TEST(histories_go_well) {
    uint64_t first = histories_first(), count = histories_count(HISTORIES), freed = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct history h = {.life = life_of(PLACES, EXECUTORS)};
        rng_seed(&h.rng, seed);
        for (uint32_t step = 0; step < STEPS; step++) {
            something_happens(&h);
            if (step % 100 == 99) {
                settle(&h);
                newest_are_shown(&h);
            }
        }
        all_ends(&h);
        freed += h.freed;
        free(h.life);
    }
    assert_true(freed > count); /* places are used again and again */
}
