/* test_residency.c - loads and unloads of one accelerator, step by step, and drawn ones against a plain account of what
 * is where. How many are drawn: histories.h. */
#include "core/data/residency.h"

#include "histories.h"
#include "unit/test.h"

#define MODELS 6
#define MOVES  400
#define MS     NS_PER_MS

struct rig {
    struct residency residency;
    struct pages_entry entries[MODELS];
    struct rng rng;
    struct residency_move moves[MOVES];
    uint32_t sent;
};

static void rig_init(struct rig *rig, uint64_t pages, double noise) {
    *rig = (struct rig){.sent = 0};
    rng_seed(&rig->rng, 1);
    residency_init(&rig->residency, rig->entries, MODELS, pages * PAGE_BYTES, noise, &rig->rng);
}

static struct residency_move *send_between(struct rig *rig, enum central_action_kind kind, uint32_t model,
                                           int64_t earliest_ns, int64_t latest_ns, bool ahead) {
    struct residency_move *move = &rig->moves[rig->sent++];
    *move = (struct residency_move){.kind = kind,
                                    .model = model,
                                    .pages = 1 + model, /* model m has m + 1 pages */
                                    .link_ns = (1 + model) * MS,
                                    .earliest_ns = earliest_ns,
                                    .latest_ns = latest_ns,
                                    .ahead = ahead};
    residency_send(&rig->residency, move);
    return move;
}

static struct residency_move *send_ahead(struct rig *rig, enum central_action_kind kind, uint32_t model) {
    return send_between(rig, kind, model, INT64_MIN, TIME_NEVER, true);
}

static struct residency_move *send(struct rig *rig, enum central_action_kind kind, uint32_t model) {
    return send_between(rig, kind, model, INT64_MIN, TIME_NEVER, false);
}

/* The next move is over at once, done or refused. */
static void over(struct rig *rig, int64_t now_ns, const struct residency_move *move, bool done) {
    assert_ptr_equal(residency_step(&rig->residency, now_ns, false), move);
    assert_int_equal(move->done, done);
}

static void nothing_until(struct rig *rig, int64_t now_ns, int64_t due_ns) {
    assert_null(residency_step(&rig->residency, now_ns, false));
    assert_true(residency_due_ns(&rig->residency, false) == due_ns);
}

TEST(test_moves_are_done_one_after_the_other) {
    struct rig rig;
    rig_init(&rig, 5, 0);
    nothing_until(&rig, 0, TIME_NEVER);
    const struct residency_move *first = send(&rig, CENTRAL_LOAD, 1), *second = send(&rig, CENTRAL_LOAD, 2);
    const struct residency_move *third = send(&rig, CENTRAL_UNLOAD, 1), *fourth = send(&rig, CENTRAL_LOAD, 0);
    nothing_until(&rig, 10 * MS, 12 * MS);
    assert_false(residency_has(&rig.residency, 1)); /* it comes */
    nothing_until(&rig, 12 * MS - 1, 12 * MS);
    over(&rig, 12 * MS, first, true);
    assert_true(residency_has(&rig.residency, 1));
    assert_int_equal(first->begin_ns, 10 * MS);
    assert_int_equal(first->took_ns, 2 * MS);
    nothing_until(&rig, 12 * MS, 15 * MS);
    over(&rig, 15 * MS, second, true);
    over(&rig, 15 * MS, third, true);
    assert_false(residency_has(&rig.residency, 1));
    nothing_until(&rig, 15 * MS, 16 * MS);
    over(&rig, 16 * MS, fourth, true);
    assert_int_equal(rig.residency.pages.free, 1);
}

TEST(test_what_cannot_begin_in_its_window_is_refused) {
    struct rig rig;
    rig_init(&rig, 9, 0);
    const struct residency_move *waits = send_between(&rig, CENTRAL_LOAD, 4, 10 * MS, 11 * MS, false);
    const struct residency_move *late = send_between(&rig, CENTRAL_LOAD, 0, INT64_MIN, 14 * MS, false);
    const struct residency_move *just = send_between(&rig, CENTRAL_LOAD, 1, INT64_MIN, 15 * MS, false);
    nothing_until(&rig, 9 * MS, 10 * MS);
    nothing_until(&rig, 10 * MS, 15 * MS);
    over(&rig, 15 * MS, waits, true);
    over(&rig, 15 * MS, late, false);
    assert_false(residency_has(&rig.residency, 0));
    nothing_until(&rig, 15 * MS, 17 * MS);
    over(&rig, 17 * MS, just, true);
}

TEST(test_memory_is_never_over_its_budget) {
    struct rig rig;
    rig_init(&rig, 5, 0);
    const struct residency_move *first = send(&rig, CENTRAL_LOAD, 3), *more = send(&rig, CENTRAL_LOAD, 1);
    const struct residency_move *fits = send(&rig, CENTRAL_LOAD, 0), *again = send(&rig, CENTRAL_LOAD, 3);
    nothing_until(&rig, 0, 4 * MS);
    over(&rig, 4 * MS, first, true);
    over(&rig, 4 * MS, more, false); /* 4 pages of 5 are taken */
    nothing_until(&rig, 4 * MS, 5 * MS);
    over(&rig, 5 * MS, fits, true);
    over(&rig, 5 * MS, again, true); /* it is there */
    assert_int_equal(rig.residency.pages.free, 0);
}

TEST(test_a_model_that_runs_stays) {
    struct rig rig;
    rig_init(&rig, 5, 0);
    send(&rig, CENTRAL_LOAD, 0);
    nothing_until(&rig, 0, MS);
    assert_non_null(residency_step(&rig.residency, MS, false));
    residency_hold(&rig.residency, 0);
    over(&rig, MS, send(&rig, CENTRAL_UNLOAD, 0), false);
    assert_true(residency_has(&rig.residency, 0));
    const struct residency_move *empty = send(&rig, CENTRAL_EMPTY, 0);
    assert_null(residency_step(&rig.residency, MS, true));
    assert_true(residency_due_ns(&rig.residency, true) == TIME_NEVER);
    residency_release(&rig.residency, 0);
    over(&rig, 2 * MS, empty, true);
    assert_false(residency_has(&rig.residency, 0));
    assert_int_equal(rig.residency.pages.free, 5);
    over(&rig, 2 * MS, send(&rig, CENTRAL_UNLOAD, 0), true); /* nothing is left to do */
}

TEST(test_a_failure_loses_all) {
    struct rig rig;
    rig_init(&rig, 5, 0);
    send(&rig, CENTRAL_LOAD, 0);
    nothing_until(&rig, 0, MS);
    assert_non_null(residency_step(&rig.residency, MS, false));
    const struct residency_move *under_way = send(&rig, CENTRAL_LOAD, 1);
    const struct residency_move *later = send_between(&rig, CENTRAL_LOAD, 2, 50 * MS, TIME_NEVER, false);
    nothing_until(&rig, MS, 3 * MS);
    residency_lose(&rig.residency);
    over(&rig, 2 * MS, under_way, false);
    over(&rig, 2 * MS, later, false);
    assert_int_equal(rig.residency.pages.free, 5);
    const struct residency_move *after = send(&rig, CENTRAL_LOAD, 1);
    nothing_until(&rig, 2 * MS, 4 * MS);
    over(&rig, 4 * MS, after, true);
}

TEST(test_a_stall_makes_loads_longer) {
    struct rig rig;
    rig_init(&rig, 5, 0);
    const struct residency_move *first = send(&rig, CENTRAL_LOAD, 0), *second = send(&rig, CENTRAL_LOAD, 1);
    nothing_until(&rig, 0, MS);
    residency_stall(&rig.residency, 0, 10 * MS);
    nothing_until(&rig, MS, 11 * MS);
    over(&rig, 11 * MS, first, true);
    residency_stall(&rig.residency, 11 * MS, 5 * MS);
    nothing_until(&rig, 11 * MS, 16 * MS);
    nothing_until(&rig, 16 * MS, 18 * MS);
    over(&rig, 18 * MS, second, true);
}

TEST(test_noise_makes_loads_longer_by_a_share) {
    struct rig rig;
    double sum_ns = 0;
    rig_init(&rig, 5, 0.1);
    for (uint32_t i = 0; i < MOVES / 2; i++) {
        const struct residency_move *load = send(&rig, CENTRAL_LOAD, 0);
        assert_null(residency_step(&rig.residency, 0, false));
        assert_true(load->took_ns >= MS && load->took_ns <= MS + MS / 2); /* five times the share at most */
        over(&rig, load->took_ns, load, true);
        over(&rig, load->took_ns, send(&rig, CENTRAL_UNLOAD, 0), true);
        sum_ns += (double)load->took_ns;
    }
    assert_true(sum_ns / (MOVES / 2) > 1.07 * (double)MS && sum_ns / (MOVES / 2) < 1.13 * (double)MS);
}

/* A load of four pages stops after its second one for an unload and a load that go ahead, and goes on when they are
 * over. */
TEST(test_what_goes_ahead_waits_for_a_page) {
    struct rig rig;
    rig_init(&rig, 6, 0);
    send(&rig, CENTRAL_LOAD, 1);
    nothing_until(&rig, 0, 2 * MS);
    assert_non_null(residency_step(&rig.residency, 2 * MS, false));
    const struct residency_move *large = send(&rig, CENTRAL_LOAD, 3), *behind = send(&rig, CENTRAL_LOAD, 0);
    nothing_until(&rig, 10 * MS, 14 * MS);
    const struct residency_move *unload = send_ahead(&rig, CENTRAL_UNLOAD, 1),
                                *load = send_ahead(&rig, CENTRAL_LOAD, 1);
    nothing_until(&rig, 11 * MS + 2, 12 * MS + 2); /* a page takes a nanosecond more than a quarter */
    over(&rig, 12 * MS + 2, unload, true);
    nothing_until(&rig, 12 * MS + 2, 14 * MS + 2);
    assert_false(residency_has(&rig.residency, 3));
    assert_false(residency_has(&rig.residency, 1));
    over(&rig, 14 * MS + 2, load, true);
    assert_true(residency_has(&rig.residency, 1));
    nothing_until(&rig, 14 * MS + 2, 16 * MS);
    over(&rig, 16 * MS, large, true);
    assert_int_equal(large->took_ns, 4 * MS);
    assert_int_equal(large->stood_ns, 2 * MS);
    over(&rig, 16 * MS, behind, false); /* all pages are taken */
}

/* Nothing goes ahead of what empties the memory. */
TEST(test_nothing_goes_ahead_of_emptying) {
    struct rig rig;
    rig_init(&rig, 5, 0);
    const struct residency_move *empty = send(&rig, CENTRAL_EMPTY, 0), *behind = send(&rig, CENTRAL_LOAD, 1);
    const struct residency_move *ahead = send_ahead(&rig, CENTRAL_LOAD, 0);
    assert_null(residency_step(&rig.residency, 0, true)); /* batches run */
    over(&rig, MS, empty, true);
    nothing_until(&rig, MS, 2 * MS);
    over(&rig, 2 * MS, ahead, true);
    nothing_until(&rig, 2 * MS, 4 * MS);
    over(&rig, 4 * MS, behind, true);
    assert_true(residency_has(&rig.residency, 0));
}

/* A load that is over before the page ends is over first; a failure loses one that stands, too. */
TEST(test_what_goes_ahead_of_the_last_page) {
    struct rig rig;
    rig_init(&rig, 12, 0);
    const struct residency_move *first = send(&rig, CENTRAL_LOAD, 0), *large;
    nothing_until(&rig, 0, MS);
    const struct residency_move *ahead = send_ahead(&rig, CENTRAL_LOAD, 1);
    nothing_until(&rig, 1, MS);
    over(&rig, MS, first, true);
    nothing_until(&rig, MS, 3 * MS);
    over(&rig, 3 * MS, ahead, true);
    large = send(&rig, CENTRAL_LOAD, 4);
    nothing_until(&rig, 3 * MS, 8 * MS);
    ahead = send_ahead(&rig, CENTRAL_LOAD, 0);
    over(&rig, 3 * MS, ahead, true); /* it is there */
    ahead = send_ahead(&rig, CENTRAL_LOAD, 2);
    nothing_until(&rig, 3 * MS, 6 * MS);
    residency_lose(&rig.residency);
    over(&rig, 4 * MS, ahead, false);
    over(&rig, 4 * MS, large, false);
    assert_int_equal(rig.residency.pages.free, 12);
}

/* ---- drawn histories ---- */

/* What a plain account says of the accelerator. */
struct account {
    bool loaded[MODELS];
    uint32_t runs[MODELS];
    uint32_t next;                      /* the move that is to be over next */
    int64_t free_ns;                    /* end of the last load */
    bool cuts;                          /* moves go ahead: they are not over in order */
    const struct residency_move *ahead; /* load that goes ahead; NULL: none does */
    int64_t busy_ns;                    /* time of all loads */
};

static uint32_t pages_loaded(const struct account *account) {
    uint32_t pages = 0;
    for (uint32_t m = 0; m < MODELS; m++)
        pages += account->loaded[m] ? 1 + m : 0;
    return pages;
}

static void account_over(struct rig *rig, struct account *account, const struct residency_move *move, uint32_t total,
                         int64_t now_ns) {
    account->ahead = account->ahead == move ? NULL : account->ahead;
    account->next++;
    assert_true(account->cuts || move == &rig->moves[account->next - 1]); /* in order */
    if (!move->done)
        return;
    account->busy_ns += move->took_ns;
    assert_true(move->begin_ns >= move->earliest_ns && move->begin_ns <= move->latest_ns);
    assert_true(account->cuts ? account->busy_ns <= now_ns : move->begin_ns >= account->free_ns); /* one at a time */
    if (move->kind == CENTRAL_LOAD) {
        int64_t least_ns = account->loaded[move->model] ? 0 : move->link_ns;
        assert_true(move->took_ns >= least_ns && now_ns >= move->begin_ns + least_ns);
        account->loaded[move->model] = true;
    } else if (move->kind == CENTRAL_UNLOAD) {
        assert_int_equal(account->runs[move->model], 0);
        account->loaded[move->model] = false;
    }
    account->free_ns = move->begin_ns + move->took_ns;
    assert_true(pages_loaded(account) <= total);
}

static void history(uint64_t seed) {
    struct rig rig;
    struct rng rng;
    struct account account = {.next = 0};
    rng_seed(&rng, seed);
    uint32_t total = 1 + (uint32_t)rng_below(&rng, 12);
    int64_t now_ns = 0;
    rig_init(&rig, total, rng_below(&rng, 2) ? 0.2 : 0);
    account.cuts = seed % 2;
    while (rig.sent < MOVES) {
        uint32_t m = (uint32_t)rng_below(&rng, MODELS);
        bool has = residency_has(&rig.residency, m);
        now_ns += (int64_t)rng_below(&rng, 2 * MS);
        switch (rng_below(&rng, 4)) {
        case 0: {
            bool load = rng_below(&rng, 3), ahead = account.cuts && !account.ahead && m == 0;
            if (account.cuts && m == 0 && !ahead)
                break; /* what goes ahead is of a model of its own */
            int64_t earliest_ns = now_ns + (int64_t)rng_below(&rng, 4 * MS);
            struct residency_move *move = send_between(&rig, load ? CENTRAL_LOAD : CENTRAL_UNLOAD, m, earliest_ns,
                                                       now_ns + (int64_t)rng_below(&rng, 40 * MS), ahead);
            account.ahead = ahead && load ? move : account.ahead;
            break;
        }
        case 1:
            if (has && rng_below(&rng, 2)) {
                residency_hold(&rig.residency, m);
                account.runs[m]++;
            }
            break;
        default:
            if (account.runs[m] > 0) {
                residency_release(&rig.residency, m);
                account.runs[m]--;
            }
        }
        for (const struct residency_move *move; (move = residency_step(&rig.residency, now_ns, false));)
            account_over(&rig, &account, move, total, now_ns);
        for (m = 0; m < MODELS; m++)
            assert_int_equal(residency_has(&rig.residency, m), account.loaded[m]);
    }
}

TEST(test_histories) {
    for (uint64_t i = 0, seed = histories_first(); i < histories_count(400); i++, seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        history(seed);
    }
}
