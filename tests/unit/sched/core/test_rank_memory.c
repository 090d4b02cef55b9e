/* test_rank_memory.c - which models are loaded and unloaded where, and who may run, where memory is limited. */
#include "unit/sched/core/rank_rig.h"

#define LOAD_NS (10 * NS_PER_MS)
#define SLO_NS  (100 * NS_PER_MS)

static struct rank_weights weights_of(uint32_t first, uint32_t count, uint32_t pages, bool pinned) {
    return (struct rank_weights){
        .first = first, .count = count, .pages = pages, .types = 1, .pinned = pinned, .load_ns = pages * LOAD_NS};
}

/* Accelerators with room for so many pages each, and models of one page but for the last one, which takes three. The
 * first `pinned` ones are pinned. */
static struct fixture fixture_of_memory(uint32_t accelerators, uint32_t pages, bool told, uint32_t pinned, bool cuts) {
    static const uint8_t types[16];
    struct rank_weights weights[MODELS];
    for (uint32_t m = 0; m < MODELS; m++)
        weights[m] = weights_of(m, 1, m == 3 ? 3 : 1, m < pinned);
    struct rank_core_config config = {.models = MODELS,
                                      .accelerators = accelerators,
                                      .accelerator_type = types,
                                      .types = 1,
                                      .absent = told,
                                      .limited = true,
                                      .told = told,
                                      .cuts_loads = cuts,
                                      .memory_pages = pages,
                                      .weights = weights,
                                      .policy = &policy_plain};
    struct fixture f = {.core = malloc(rank_core_bytes(&config)), .types = 1};
    assert_non_null(f.core);
    memset(f.core, 0xff, rank_core_bytes(&config));
    rank_core_init(f.core, &config);
    return f;
}

static struct fixture fixture_limited(uint32_t accelerators, uint32_t pages) {
    return fixture_of_memory(accelerators, pages, false, 0, false);
}

#define assert_move(f, i, kind_, accelerator_, model_)                                                                 \
    do {                                                                                                               \
        assert_true((f)->out.move_count > (i));                                                                        \
        assert_int_equal((f)->out.moves[i].kind, kind_);                                                               \
        assert_int_equal((f)->out.moves[i].accelerator, accelerator_);                                                 \
        assert_int_equal((f)->out.moves[i].variant.n, model_);                                                         \
    } while (0)
#define assert_no_move(f) assert_int_equal((f)->out.move_count, 0)

static void moved(struct fixture *f, int64_t now_ns, struct memory_moved moved) {
    rank_core_step(f->core, now_ns, &(struct rank_event){.kind = RANK_MOVED, .moved = moved}, &f->out);
}

static void moved_of(struct fixture *f, int64_t now_ns, uint32_t accelerator, uint32_t model, uint32_t epoch,
                     bool done) {
    moved(f, now_ns,
          (struct memory_moved){.kind = CENTRAL_LOAD,
                                .accelerator = accelerator,
                                .variant = {model},
                                .epoch = epoch,
                                .done = done,
                                .took_ns = done ? LOAD_NS : 0});
}

/* An unload, or emptying, that was given earlier is done. */
static void unloaded(struct fixture *f, int64_t now_ns, enum central_action_kind kind, uint32_t model, uint32_t epoch) {
    moved(f, now_ns, (struct memory_moved){.kind = (uint8_t)kind, .variant = {model}, .epoch = epoch, .done = true});
}

/* A request comes for a model that is nowhere: it is loaded onto the accelerator, and runs there. */
static void load_and_run(struct fixture *f, int64_t now_ns, uint32_t model, uint32_t accelerator) {
    candidate(f, now_ns, model, candidate_at(0, now_ns + SLO_NS));
    assert_nothing(f);
    assert_move(f, f->out.move_count - 1, CENTRAL_LOAD, accelerator, model);
    moved_of(f, now_ns + LOAD_NS, accelerator, model, 0, true);
    assert_granted(f, model, accelerator);
    answer(f, now_ns + LOAD_NS, model, accelerator, 1, none);
    ended(f, now_ns + LOAD_NS + 1, accelerator);
}

/* A batch of the model begins on the accelerator. */
static void run_until(struct fixture *f, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items,
                      int64_t end_ns) {
    candidate(f, now_ns, model, candidate_at(0, now_ns + SLO_NS));
    assert_granted(f, model, accelerator);
    rank_told_answer(
        f->core, now_ns, model,
        (struct rank_answer){.accelerator = accelerator, .items = items, .end_ns = end_ns, .run_ns = end_ns - now_ns},
        none, 1, &f->out);
}

/* Requests come for a model. */
static void asked(struct fixture *f, int64_t now_ns, uint32_t model, uint32_t requests) {
    send(f, now_ns,
         (struct rank_message){
             .kind = RANK_RATES, .variant = {model}, .rates = {.at_ns = now_ns, .arrived = requests, .runs_on = 1}});
}

TEST(a_model_is_loaded_before_it_runs) {
    struct fixture f = fixture_limited(2, 2);
    candidate(&f, 0, 1, candidate_at(0, SLO_NS));
    assert_nothing(&f);
    assert_int_equal(f.out.move_count, 1);
    assert_move(&f, 0, CENTRAL_LOAD, 0, 1);
    moved_of(&f, LOAD_NS, 0, 1, 0, true);
    assert_granted(&f, 1, 0);
    assert_no_move(&f);
    free(f.core);
}

/* A model core is told when its model will be there, when it is, and when it is not any more. */
TEST(models_are_told) {
    struct fixture f = fixture_limited(1, 1);
    struct grant_message news;
    assert_false(rank_core_memory_news(f.core, &news));
    candidate(&f, 5, 1, candidate_at(0, SLO_NS));
    assert_true(rank_core_memory_news(f.core, &news));
    assert_int_equal(news.kind, GRANT_MEMORY);
    assert_int_equal(news.variant.n, 1);
    assert_int_equal(news.there_ns, 5 + LOAD_NS);
    assert_false(rank_core_memory_news(f.core, &news));
    moved_of(&f, LOAD_NS, 0, 1, 0, true);
    assert_true(rank_core_memory_news(f.core, &news));
    assert_true(news.there_ns == INT64_MIN);
    answer(&f, LOAD_NS, 1, 0, 1, none);
    ended(&f, LOAD_NS + 1, 0);
    candidate(&f, LOAD_NS + 2, 2, candidate_at(0, 2 * SLO_NS));
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 1);
    assert_move(&f, 1, CENTRAL_LOAD, 0, 2);
    assert_true(rank_core_memory_news(f.core, &news));
    assert_int_equal(news.variant.n, 1);
    assert_int_equal(news.there_ns, TIME_NEVER);
    assert_int_equal(news.load_ns, LOAD_NS);
    free(f.core);
}

/* What runs is not unloaded, nor is what has something to run and is nowhere else. */
TEST(what_is_needed_stays) {
    struct fixture f = fixture_limited(1, 2);
    load_and_run(&f, 0, 0, 0);
    load_and_run(&f, LOAD_NS + 2, 1, 0);
    int64_t now_ns = 2 * LOAD_NS + 10;
    candidate(&f, now_ns, 0, candidate_at(0, now_ns + SLO_NS));
    assert_granted(&f, 0, 0);
    answer(&f, now_ns, 0, 0, 1, none);                              /* it runs */
    candidate(&f, now_ns + 1, 1, candidate_at(0, now_ns + SLO_NS)); /* it waits for the end of that */
    candidate(&f, now_ns + 2, 2, candidate_at(0, now_ns + SLO_NS));
    assert_no_move(&f);
    ended(&f, now_ns + 3, 0);
    assert_granted(&f, 1, 0);
    assert_int_equal(f.out.move_count, 2); /* model 0 has nothing to run any more */
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 0);
    assert_move(&f, 1, CENTRAL_LOAD, 0, 2);
    free(f.core);
}

/* A thousand models asked once take one place; the one that is asked often stays, though it was used before them. */
TEST(guests_take_the_place_of_guests) {
    struct fixture f = fixture_limited(1, 2);
    load_and_run(&f, 0, 0, 0);
    asked(&f, LOAD_NS, 0, 100);
    load_and_run(&f, LOAD_NS + 2, 1, 0);
    int64_t now_ns = 3 * LOAD_NS;
    for (uint32_t turn = 0; turn < 1000; turn++, now_ns += 2 * LOAD_NS) {
        uint32_t guest = 2 - turn % 2, before = 3 - guest;
        candidate(&f, now_ns, guest, candidate_at(0, now_ns + SLO_NS));
        assert_move(&f, 0, CENTRAL_UNLOAD, 0, before);
        assert_move(&f, 1, CENTRAL_LOAD, 0, guest);
        unloaded(&f, now_ns, CENTRAL_UNLOAD, before, 0);
        moved_of(&f, now_ns + LOAD_NS, 0, guest, 0, true);
        answer(&f, now_ns + LOAD_NS, guest, 0, 1, none);
        ended(&f, now_ns + LOAD_NS + 1, 0);
        if (turn % 100 == 0)
            asked(&f, now_ns + LOAD_NS + 1, 0, 100);
    }
    free(f.core);
}

/* For half a minute models 0, 1 and 3 are asked for, 0 most, for the last second only 1. Returns which of 0 and 1 then
 * makes way. Model 3 is larger than the memory. */
static uint32_t who_makes_way(bool bursts) {
    struct fixture f = fixture_limited(1, 2);
    load_and_run(&f, 0, 0, 0);
    load_and_run(&f, 2 * LOAD_NS, 1, 0);
    int64_t now_ns = NS_PER_S;
    for (uint32_t second = 0; second < 30; second++)
        for (uint32_t i = 0; i < 100; i++, now_ns += 10 * NS_PER_MS) {
            uint32_t turn = second % 3; /* 0, 3, 1 */
            if (bursts ? turn == 0 : second < 29)
                asked(&f, now_ns, 0, 2);
            if (bursts ? turn == 1 : i % 10 == 0)
                asked(&f, now_ns, 3, 1);
            if (!bursts || turn == 2)
                asked(&f, now_ns, 1, 1);
        }
    candidate(&f, now_ns, 2, candidate_at(0, now_ns + SLO_NS));
    assert_int_equal(f.out.move_count, 2);
    assert_int_equal(f.out.moves[0].kind, CENTRAL_UNLOAD);
    uint32_t model = f.out.moves[0].variant.n;
    free(f.core);
    return model;
}

/* Where requests come evenly, that is who was asked for least; where they come in bursts, who was not asked for lately.
 */
TEST(bursts_are_remembered_for_less_long) {
    assert_int_equal(who_makes_way(false), 1);
    assert_int_equal(who_makes_way(true), 0);
}

/* A large model takes the place of several; nobody has it, if it is larger than the memory. */
TEST(room_is_made_page_by_page) {
    struct fixture f = fixture_limited(1, 3);
    for (uint32_t m = 0; m < 3; m++)
        load_and_run(&f, 2 * m * LOAD_NS, m, 0);
    candidate(&f, 6 * LOAD_NS, 3, candidate_at(0, 10 * SLO_NS));
    assert_int_equal(f.out.move_count, 4);
    for (uint32_t m = 0; m < 3; m++)
        assert_move(&f, m, CENTRAL_UNLOAD, 0, m); /* the one that was used longest ago first */
    assert_move(&f, 3, CENTRAL_LOAD, 0, 3);
    free(f.core);
    f = fixture_limited(1, 2);
    candidate(&f, 0, 3, candidate_at(0, SLO_NS));
    assert_no_move(&f);
    free(f.core);
}

/* A load that could not end in time is not begun; that of the model whose time is over first is begun first. */
TEST(loads_go_by_when_they_must_begin) {
    struct fixture f = fixture_limited(1, 3);
    candidate(&f, 0, 0, candidate_at(0, SLO_NS));
    assert_move(&f, 0, CENTRAL_LOAD, 0, 0);
    candidate(&f, 1, 1, candidate_at(0, SLO_NS));
    candidate(&f, 1, 2, candidate_at(0, SLO_NS / 2));
    assert_no_move(&f); /* the link is busy */
    moved_of(&f, LOAD_NS, 0, 0, 0, true);
    assert_move(&f, 0, CENTRAL_LOAD, 0, 2);
    moved_of(&f, SLO_NS - LOAD_NS + 1, 0, 2, 0, true);
    assert_no_move(&f); /* too late for model 1 */
    free(f.core);
}

/* Batches of model 0 find its only copy, on accelerator 0, busy while accelerator 1 is free, until it has a second one
 * there. Ends before 3 * LOAD_NS. */
static void second_copy_load(struct fixture *f) {
    load_and_run(f, 0, 0, 0);
    asked(f, LOAD_NS, 0, 1);
    int64_t now_ns = 2 * LOAD_NS;
    candidate(f, now_ns, 0, candidate_at(0, now_ns + 1));
    assert_granted(f, 0, 0);
    rank_told_answer(f->core, now_ns, 0, (struct rank_answer){.items = 1, .end_ns = now_ns + 50, .run_ns = 50}, none, 1,
                     &f->out);
    for (uint32_t i = 1; i <= 3; i++) { /* would be lost before the run ends */
        assert_no_move(f);
        candidate(f, now_ns + i, 0, candidate_at(0, now_ns + 10 + i));
    }
    assert_int_equal(f->out.move_count, 1);
    assert_move(f, 0, CENTRAL_LOAD, 1, 0);
    moved_of(f, now_ns + 5, 1, 0, 0, true);
    assert_granted(f, 0, 1);
    answer(f, now_ns + 5, 0, 1, 1, none);
    ended(f, now_ns + 50, 0);
    ended(f, now_ns + 60, 1);
}

/* When room is needed, it goes before a model that nobody else has. */
TEST(a_copy_more_is_loaded_where_batches_wait) {
    struct fixture f = fixture_limited(2, 1);
    second_copy_load(&f);
    int64_t now_ns = 3 * LOAD_NS;
    candidate(&f, now_ns, 2, candidate_at(0, now_ns + SLO_NS));
    assert_move(&f, 0, CENTRAL_UNLOAD, 1, 0); /* it has run less */
    assert_move(&f, 1, CENTRAL_LOAD, 1, 2);
    free(f.core);
}

/* Of 1,000 requests of model 3 100 are lost, that found it `cold` or not. */
static void lose(struct fixture *f, int64_t now_ns, bool cold) {
    send(f, now_ns,
         (struct rank_message){.kind = RANK_RATES,
                               .variant = {3},
                               .rates = {.at_ns = now_ns,
                                         .arrived = 1000,
                                         .cold = cold ? 1000 : 0,
                                         .lost = 100,
                                         .lost_cold = cold ? 100 : 0,
                                         .runs_on = 1}});
}

/* Model 0 gets two copies, on accelerators 0 and 1, of which each has run over ten requests by 4 * LOAD_NS. */
static void copies_run(struct fixture *f) {
    second_copy_load(f);
    for (uint32_t a = 0; a < 2; a++)
        run_until(f, 3 * LOAD_NS, 0, a, 10, 4 * LOAD_NS);
    for (uint32_t a = 0; a < 2; a++)
        ended(f, 4 * LOAD_NS, a);
}

/* Model 1 has one copy, is asked for less than those of model 0 ran, and has taken the place of model 2. Requests of
 * another model are lost. Returns which of 0 and 1 then makes way. */
static uint32_t who_makes_way_for_losses(bool cold) {
    struct fixture f = fixture_limited(3, 1);
    copies_run(&f);
    load_and_run(&f, 4 * LOAD_NS, 2, 2);
    load_and_run(&f, 6 * LOAD_NS, 1, 2);
    asked(&f, 8 * LOAD_NS, 1, 5);
    lose(&f, 9 * LOAD_NS, cold);
    asked(&f, 2 * NS_PER_S, 3, 1);
    candidate(&f, 2 * NS_PER_S, 2, candidate_at(0, 2 * NS_PER_S + SLO_NS));
    assert_int_equal(f.out.move_count, 2);
    assert_int_equal(f.out.moves[0].kind, CENTRAL_UNLOAD);
    uint32_t model = f.out.moves[0].variant.n;
    free(f.core);
    return model;
}

/* Second copies stay where requests that found their model are lost: its accelerator was busy. */
TEST(second_copies_stay_where_copies_are_busy) {
    assert_int_equal(who_makes_way_for_losses(true), 0);
    assert_int_equal(who_makes_way_for_losses(false), 1);
}

/* Model 1 is on accelerator 1, beside a copy of model 0 that has run more. Model 2 is loaded onto accelerator 0 and, if
 * memory is to be `full`, another one that takes its place. Requests are lost that found their model nowhere. Returns
 * which of 0 and 1 then makes way. */
static uint32_t who_makes_way_on_one_accelerator(bool full) {
    struct fixture f = fixture_limited(2, 2);
    struct rank_message joins = {.kind = RANK_JOIN, .variant = {3}, .types = 1, .weights = weights_of(3, 1, 1, false)};
    send(&f, 0, (struct rank_message){.kind = RANK_GOES, .variant = {3}});
    rank_told(f.core, 0, joins, &none, 1, &f.out);
    copies_run(&f);
    load_and_run(&f, 4 * LOAD_NS, 1, 1);
    asked(&f, 6 * LOAD_NS, 1, 5);
    load_and_run(&f, 6 * LOAD_NS, full ? 2 : 3, 0);
    if (full)
        load_and_run(&f, 8 * LOAD_NS, 3, 0);
    run_until(&f, 10 * LOAD_NS, 0, 0, 1, 10 * NS_PER_S); /* accelerator 0 will not be free in time */
    lose(&f, 11 * LOAD_NS, true);
    asked(&f, 2 * NS_PER_S, 3, 1);
    candidate(&f, 2 * NS_PER_S, 2, candidate_at(0, 2 * NS_PER_S + SLO_NS));
    assert_int_equal(f.out.move_count, 2);
    assert_move(&f, 1, CENTRAL_LOAD, 1, 2);
    uint32_t model = f.out.moves[0].variant.n;
    free(f.core);
    return model;
}

/* Where requests are lost that found their model nowhere, second copies go, though they have not run since. */
TEST(second_copies_go_that_have_not_run_since) {
    assert_int_equal(who_makes_way_on_one_accelerator(true), 0);
}

/* What is lost before any copy has made way says nothing of copies. */
TEST(losses_do_not_count_while_memory_fills) {
    assert_int_equal(who_makes_way_on_one_accelerator(false), 1);
}

/* While all accelerators are busy, a second copy is loaded for a batch that the first one would run too late; not a
 * third one. */
TEST(an_only_copy_is_not_waited_for_in_vain) {
    struct fixture f = fixture_limited(3, 2);
    for (uint32_t i = 0; i < 3; i++) { /* the others are not free in time */
        int64_t now_ns = (3 * i + 1) * LOAD_NS;
        load_and_run(&f, now_ns, i, i);
        run_until(&f, now_ns + 2 * LOAD_NS, i, i, 1, i < 2 ? 10 * SLO_NS : 10 * LOAD_NS);
    }
    candidate(&f, 9 * LOAD_NS, 0, candidate_at(0, 9 * LOAD_NS + SLO_NS));
    assert_int_equal(f.out.move_count, 1);
    assert_move(&f, 0, CENTRAL_LOAD, 2, 0);
    ended(&f, 10 * LOAD_NS, 2);
    moved_of(&f, 11 * LOAD_NS, 2, 0, 0, true);
    assert_granted(&f, 0, 2);
    rank_told_answer(f.core, 11 * LOAD_NS, 0,
                     (struct rank_answer){.accelerator = 2, .items = 1, .end_ns = 10 * SLO_NS, .run_ns = SLO_NS}, none,
                     1, &f.out);
    ended(&f, 11 * LOAD_NS, 1);
    run_until(&f, 12 * LOAD_NS, 1, 1, 1, 13 * LOAD_NS);
    candidate(&f, 12 * LOAD_NS, 0, candidate_at(0, 12 * LOAD_NS + SLO_NS));
    assert_no_move(&f);
    free(f.core);
}

/* A second copy that is to save a batch goes where that can start soonest, even if another place costs less, and
 * nowhere if the batch would be late. */
TEST(a_second_copy_goes_where_it_runs_soonest) {
    struct fixture f = fixture_limited(3, 2);
    const int64_t free_ns[] = {10 * SLO_NS, 12 * LOAD_NS, 13 * LOAD_NS};
    for (uint32_t i = 0; i < 3; i++) {
        int64_t now_ns = (3 * i + 1) * LOAD_NS;
        load_and_run(&f, now_ns, i, i);
        run_until(&f, now_ns + 2 * LOAD_NS, i, i, 1, free_ns[i]); /* accelerator 1 is busy for longer than 2 */
    }
    candidate(&f, 9 * LOAD_NS, 0, candidate_at(0, 11 * LOAD_NS));
    assert_no_move(&f);
    candidate(&f, 9 * LOAD_NS, 0, candidate_at(0, 9 * LOAD_NS + SLO_NS));
    assert_int_equal(f.out.move_count, 1);
    assert_move(&f, 0, CENTRAL_LOAD, 1, 0);
    free(f.core);
}

/* A load goes where the model can then run in time, even if another place costs less. */
TEST(a_load_goes_where_it_can_run_in_time) {
    struct fixture f = fixture_limited(2, 2);
    load_and_run(&f, 0, 0, 0);
    int64_t now_ns = 2 * LOAD_NS;
    run_until(&f, now_ns, 0, 0, 1, now_ns + 50);
    ended(&f, now_ns + 50, 0);
    load_and_run(&f, now_ns + 60, 1, 1);
    now_ns += 2 * LOAD_NS;
    candidate(&f, now_ns, 1, candidate_at(0, now_ns + SLO_NS));
    assert_granted(&f, 1, 1);
    rank_told_answer(f.core, now_ns, 1,
                     (struct rank_answer){.accelerator = 1, .items = 1, .end_ns = now_ns + 2 * SLO_NS, .run_ns = 1},
                     none, 1, &f.out); /* it has run less than the other one, but is not free in time */
    candidate(&f, now_ns + 1, 2, candidate_at(0, now_ns + SLO_NS));
    assert_move(&f, 0, CENTRAL_LOAD, 0, 2);
    free(f.core);
}

/* A model whose requests can never wait for a load is loaded once it is asked for often enough. */
TEST(a_model_may_be_loaded_for_later_requests) {
    struct fixture f = fixture_limited(1, 1);
    asked(&f, 0, 1, 1);
    timer(&f, 1);
    assert_no_move(&f);
    asked(&f, 2, 1, 2);
    assert_move(&f, 0, CENTRAL_LOAD, 0, 1);
    moved_of(&f, LOAD_NS, 0, 1, 0, true);
    asked(&f, LOAD_NS + 1, 2, 4);
    assert_no_move(&f); /* not twice as often as the other */
    asked(&f, LOAD_NS + 2, 2, 4);
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 1);
    assert_move(&f, 1, CENTRAL_LOAD, 0, 2);
    free(f.core);
}

/* An accelerator that leaves loses what it had, and is emptied when it comes back: it may have loaded more. */
TEST(an_accelerator_comes_back_empty) {
    struct fixture f = fixture_limited(1, 1);
    candidate(&f, 0, 1, candidate_at(0, SLO_NS));
    assert_move(&f, 0, CENTRAL_LOAD, 0, 1);
    event(&f, 1, RANK_ACCELERATOR_DOWN, 0);
    assert_no_move(&f);
    event(&f, 2, RANK_ACCELERATOR_UP, 0);
    assert_no_move(&f); /* it has not answered what it was told before */
    moved_of(&f, 3, 0, 1, 0, true);
    assert_nothing(&f);
    assert_int_equal(f.out.move_count, 2);
    assert_move(&f, 0, CENTRAL_EMPTY, 0, 0);
    assert_move(&f, 1, CENTRAL_LOAD, 0, 1);
    assert_int_equal(f.out.moves[1].epoch, 1);
    unloaded(&f, 4, CENTRAL_EMPTY, 0, 1);
    assert_nothing(&f);
    moved_of(&f, LOAD_NS, 0, 1, 1, true);
    assert_granted(&f, 1, 0);
    event(&f, LOAD_NS + 1, RANK_ACCELERATOR_DOWN, 0); /* with the grant */
    event(&f, LOAD_NS + 2, RANK_ACCELERATOR_UP, 0);
    answer(&f, LOAD_NS + 3, 1, 0, 0, none); /* is given back */
    assert_true(rank_core_accelerator_idle(f.core, 0));
    free(f.core);
}

/* A refused load is not sent again at once. */
TEST(a_refused_load_is_tried_again_later) {
    struct fixture f = fixture_limited(1, 1);
    candidate(&f, 0, 1, candidate_at(0, SLO_NS));
    moved_of(&f, 1, 0, 1, 0, false);
    assert_no_move(&f);
    assert_true(f.out.wake_ns > 1 && f.out.wake_ns < SLO_NS - LOAD_NS);
    timer(&f, f.out.wake_ns);
    assert_move(&f, 0, CENTRAL_LOAD, 0, 1);
    free(f.core);
}

/* A model that cannot be loaded costs nobody else a load, and is tried again a second later. */
/* A load that is for a batch has to begin in time. One that was refused since it could not has cost the link nothing.
 */
TEST(a_load_that_comes_too_late_is_given_up) {
    struct fixture f = fixture_limited(1, 2);
    candidate(&f, 0, 1, candidate_at(0, SLO_NS));
    assert_move(&f, 0, CENTRAL_LOAD, 0, 1);
    int64_t latest_ns = SLO_NS - LOAD_NS + LOAD_NS / 4;
    assert_int_equal(f.out.moves[0].latest_ns, latest_ns);
    candidate(&f, latest_ns, 2, candidate_at(0, 3 * SLO_NS));
    assert_no_move(&f);
    moved_of(&f, latest_ns + 1, 0, 1, 0, false);
    assert_move(&f, 0, CENTRAL_LOAD, 0, 2);
    assert_int_equal(f.out.moves[0].latest_ns, 3 * SLO_NS - LOAD_NS + LOAD_NS / 4);
    free(f.core);
}

TEST(a_model_that_cannot_be_loaded_waits) {
    struct fixture f = fixture_limited(1, 1);
    struct grant_message news = {.there_ns = 0};
    candidate(&f, 0, 1, candidate_at(0, 10 * NS_PER_S));
    assert_move(&f, 0, CENTRAL_LOAD, 0, 1);
    candidate(&f, 1, 2, candidate_at(0, 10 * NS_PER_S));
    while (rank_core_memory_news(f.core, &news))
        ;
    moved(&f, 2, (struct memory_moved){.kind = CENTRAL_LOAD, .variant = {1}, .failed = true});
    assert_int_equal(f.out.move_count, 1);
    assert_move(&f, 0, CENTRAL_LOAD, 0, 2); /* at once */
    assert_true(rank_core_memory_news(f.core, &news));
    assert_int_equal(news.variant.n, 1);
    assert_true(news.there_ns == TIME_NEVER && news.load_ns > 1000 * NS_PER_S);
    while (rank_core_memory_news(f.core, &news))
        ;
    moved_of(&f, LOAD_NS, 0, 2, 0, true);
    answer(&f, LOAD_NS, 2, 0, 1, none);
    ended(&f, LOAD_NS + 1, 0);
    assert_no_move(&f);
    assert_true(f.out.wake_ns > NS_PER_MS * 900 && f.out.wake_ns <= 2 + NS_PER_S);
    timer(&f, f.out.wake_ns);
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 2);
    assert_move(&f, 1, CENTRAL_LOAD, 0, 1);
    free(f.core);
}

/* A model whose second copy could not be loaded, and that leaves and comes back, may be loaded again. */
TEST(who_comes_back_is_loaded_again) {
    struct fixture f = fixture_limited(2, 1);
    load_and_run(&f, 0, 0, 0);
    asked(&f, LOAD_NS, 0, 1);
    int64_t now_ns = 2 * LOAD_NS;
    candidate(&f, now_ns, 0, candidate_at(0, now_ns + 1));
    assert_granted(&f, 0, 0);
    rank_told_answer(f.core, now_ns, 0, (struct rank_answer){.items = 1, .end_ns = now_ns + 50, .run_ns = 50}, none, 1,
                     &f.out);
    for (uint32_t i = 1; i <= 3; i++)
        candidate(&f, now_ns + i, 0, candidate_at(0, now_ns + 10 + i));
    assert_move(&f, 0, CENTRAL_LOAD, 1, 0);
    moved(&f, now_ns + 5, (struct memory_moved){.kind = CENTRAL_LOAD, .accelerator = 1, .failed = true});
    send(&f, now_ns + 6, (struct rank_message){.kind = RANK_LEAVE, .variant = {0}});
    struct rank_message joins = {.kind = RANK_JOIN, .variant = {0}, .types = 1, .weights = weights_of(0, 1, 1, false)};
    rank_told(f.core, now_ns + 7, joins, &none, 1, &f.out);
    event(&f, now_ns + 8, RANK_ACCELERATOR_DOWN, 0);
    now_ns += 2 * NS_PER_S;
    candidate(&f, now_ns, 0, candidate_at(0, now_ns + SLO_NS));
    assert_move(&f, 0, CENTRAL_LOAD, 1, 0);
    free(f.core);
}

/* Ten models of a type that is away wait for it, and block no other one. */
TEST(who_waits_for_a_type_blocks_no_other) {
    static const uint8_t types[2] = {0, 1};
    enum { WAIT = 10 };
    struct rank_weights weights[WAIT + 1];
    for (uint32_t m = 0; m <= WAIT; m++) {
        weights[m] = weights_of(m, 1, 1, false);
        weights[m].types = m == WAIT ? 2 : 1;
    }
    struct policy_options options = {{0}};
    struct rank_core_config config = {.models = WAIT + 1,
                                      .accelerators = 2,
                                      .accelerator_type = types,
                                      .types = 2,
                                      .limited = true,
                                      .memory_pages = 1,
                                      .weights = weights,
                                      .policy = &policy_plain,
                                      .policy_options = &options};
    struct fixture f = {.core = malloc(rank_core_bytes(&config)), .types = 2};
    assert_non_null(f.core);
    memset(f.core, 0xff, rank_core_bytes(&config));
    rank_core_init(f.core, &config);
    event(&f, 0, RANK_ACCELERATOR_DOWN, 0);
    for (uint32_t m = 0; m < WAIT; m++) {
        candidate(&f, 0, m, candidate_at(0, SLO_NS));
        assert_no_move(&f);
    }
    struct candidate candidates[2] = {none, candidate_at(0, 2 * SLO_NS)};
    rank_core_step(f.core, 0,
                   &(struct rank_event){.kind = RANK_CANDIDATES, .variant = {WAIT}, .candidates = candidates}, &f.out);
    assert_move(&f, 0, CENTRAL_LOAD, 1, WAIT);
    free(f.core);
}

/* A model whose batch waits for company makes room for one that has to be loaded before it would be again. */
TEST(who_can_wait_makes_room) {
    struct fixture f = fixture_limited(1, 1);
    load_and_run(&f, 0, 0, 0);
    int64_t now_ns = 2 * LOAD_NS;
    candidate(&f, now_ns, 0, candidate_at(now_ns + SLO_NS, now_ns + 2 * SLO_NS));
    candidate(&f, now_ns, 1, candidate_at(now_ns, now_ns + 3 * SLO_NS));
    assert_no_move(&f);
    candidate(&f, now_ns, 2, candidate_at(now_ns, now_ns + SLO_NS));
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 0);
    assert_move(&f, 1, CENTRAL_LOAD, 0, 2);
    free(f.core);
}

/* Where accelerators are never free, models may have something ready at all times. One that can wait for long makes way
 * for one whose load must begin now. */
TEST(who_can_wait_for_long_makes_room_though_it_is_ready) {
    for (int64_t loads = 5; loads <= 15; loads += 10) {
        struct fixture f = fixture_limited(1, 2);
        load_and_run(&f, 0, 0, 0);
        load_and_run(&f, 2 * LOAD_NS, 1, 0);
        int64_t now_ns = 4 * LOAD_NS;
        candidate(&f, now_ns, 1, candidate_at(0, now_ns + SLO_NS));
        assert_granted(&f, 1, 0);
        answer(&f, now_ns, 1, 0, 1, none);
        candidate(&f, now_ns, 0, candidate_at(0, now_ns + (loads + 1) * LOAD_NS));
        candidate(&f, now_ns, 2, candidate_at(0, now_ns + LOAD_NS + 1));
        assert_nothing(&f);
        if (loads > 10) {
            assert_move(&f, 0, CENTRAL_UNLOAD, 0, 0);
            assert_move(&f, 1, CENTRAL_LOAD, 0, 2);
        } else {
            assert_no_move(&f);
        }
        free(f.core);
    }
}

/* The variants of a model have one copy in common: each runs where it is, and each is told. */
TEST(variants_have_their_weights_in_common) {
    static const uint8_t types[1];
    const struct rank_weights weights[MODELS] = {weights_of(0, 3, 2, false), weights_of(0, 3, 2, false),
                                                 weights_of(0, 3, 2, false), weights_of(3, 1, 1, false)};
    struct rank_core_config config = {.models = MODELS,
                                      .accelerators = 1,
                                      .accelerator_type = types,
                                      .types = 1,
                                      .limited = true,
                                      .memory_pages = 2,
                                      .weights = weights,
                                      .policy = &policy_plain};
    struct fixture f = {.core = malloc(rank_core_bytes(&config)), .types = 1};
    struct grant_message news;
    uint32_t told = 0;
    assert_non_null(f.core);
    memset(f.core, 0xff, rank_core_bytes(&config));
    rank_core_init(f.core, &config);
    candidate(&f, 0, 1, candidate_at(0, SLO_NS));
    candidate(&f, 1, 2, candidate_at(0, SLO_NS));
    assert_no_move(&f); /* it is being loaded */
    moved_of(&f, LOAD_NS, 0, 0, 0, true);
    assert_granted(&f, 1, 0);
    for (; rank_core_memory_news(f.core, &news); told |= 1u << news.variant.n)
        assert_true(news.there_ns == INT64_MIN);
    assert_int_equal(told, 7);
    candidate(&f, LOAD_NS, 3, candidate_at(0, SLO_NS));
    answer(&f, LOAD_NS, 1, 0, 1, none);
    assert_no_move(&f); /* one variant runs, and another waits */
    ended(&f, LOAD_NS + 1, 0);
    assert_granted(&f, 2, 0);
    assert_no_move(&f);
    answer(&f, LOAD_NS + 1, 2, 0, 1, none);
    ended(&f, LOAD_NS + 2, 0);
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 0);
    assert_move(&f, 1, CENTRAL_LOAD, 0, 3);
    free(f.core);
}

/* ---- loads that go ahead of another one ---- */

/* A load of 30 ms is under way, page by page, for a request that must start by `by_ms`; one of 10 ms is wanted. */
static struct fixture fixture_cut(int64_t by_ms) {
    struct fixture f = fixture_of_memory(1, 10, false, 0, true);
    candidate(&f, 0, 3, candidate_at(0, by_ms * NS_PER_MS));
    assert_move(&f, 0, CENTRAL_LOAD, 0, 3);
    assert_int_equal(f.out.moves[0].ahead, 0);
    return f;
}

TEST(what_would_be_late_behind_a_load_goes_ahead) {
    struct fixture f = fixture_cut(200);
    candidate(&f, 5 * NS_PER_MS, 1, candidate_at(0, 25 * NS_PER_MS)); /* after a page it just begins in time, at 15 */
    assert_int_equal(f.out.move_count, 1);
    assert_move(&f, 0, CENTRAL_LOAD, 0, 1);
    assert_int_equal(f.out.moves[0].ahead, 1);
    candidate(&f, 6 * NS_PER_MS, 2, candidate_at(0, 27 * NS_PER_MS));
    assert_no_move(&f); /* one at a time */
    struct grant_message news;
    bool told = false;
    while (rank_core_memory_news(f.core, &news))
        told |= news.variant.n == 3 && news.there_ns == 40 * NS_PER_MS; /* it comes that much later */
    assert_true(told);
    moved_of(&f, 20 * NS_PER_MS, 0, 1, 0, true);
    assert_granted(&f, 1, 0);
    assert_no_move(&f); /* nothing begins while the first one goes on, but for what goes ahead */
    candidate(&f, 21 * NS_PER_MS, 2, candidate_at(0, 45 * NS_PER_MS));
    assert_move(&f, 0, CENTRAL_LOAD, 0, 2);
    assert_int_equal(f.out.moves[0].ahead, 1);
    moved_of(&f, 50 * NS_PER_MS, 0, 3, 0, true); /* whichever ends first */
    candidate(&f, 51 * NS_PER_MS, 0, candidate_at(0, SLO_NS));
    assert_no_move(&f);
    moved_of(&f, 52 * NS_PER_MS, 0, 2, 0, true);
    assert_move(&f, 0, CENTRAL_LOAD, 0, 0);
    assert_int_equal(f.out.moves[0].ahead, 0);
    free(f.core);
}

TEST(what_can_wait_or_makes_others_late_does_not) {
    struct fixture f = fixture_cut(200);
    candidate(&f, 5 * NS_PER_MS, 1, candidate_at(0, 40 * NS_PER_MS)); /* it can begin at 30, when the link is idle */
    assert_no_move(&f);
    free(f.core);
    f = fixture_cut(200);
    candidate(&f, 5 * NS_PER_MS, 1, candidate_at(0, 24 * NS_PER_MS)); /* the page ends too late */
    assert_no_move(&f);
    free(f.core);
    f = fixture_cut(39); /* could wait for 9 ms */
    candidate(&f, 5 * NS_PER_MS, 1, candidate_at(0, 25 * NS_PER_MS));
    assert_no_move(&f);
    free(f.core);
}

/* An accelerator that refuses what goes ahead is not asked again at once, though its first load goes on. */
TEST(a_refused_load_goes_ahead_later) {
    struct fixture f = fixture_cut(200);
    candidate(&f, 5 * NS_PER_MS, 1, candidate_at(0, 39 * NS_PER_MS));
    assert_move(&f, 0, CENTRAL_LOAD, 0, 1);
    moved_of(&f, 6 * NS_PER_MS, 0, 1, 0, false);
    assert_no_move(&f);
    assert_int_equal(f.out.wake_ns, 16 * NS_PER_MS);
    timer(&f, f.out.wake_ns);
    assert_move(&f, 0, CENTRAL_LOAD, 0, 1);
    assert_int_equal(f.out.moves[0].ahead, 1);
    free(f.core);
}

/* A model that leaves while a load is under way is unloaded ahead of it: it may come back, and be loaded ahead of it.
 */
TEST(who_goes_is_unloaded_ahead_of_a_load) {
    struct fixture f = fixture_of_memory(1, 10, false, 0, true);
    load_and_run(&f, 0, 1, 0);
    candidate(&f, LOAD_NS + 2, 3, candidate_at(0, 3 * SLO_NS));
    assert_move(&f, 0, CENTRAL_LOAD, 0, 3);
    send(&f, LOAD_NS + 3, (struct rank_message){.kind = RANK_GOES, .variant = {1}});
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 1);
    assert_int_equal(f.out.moves[0].ahead, 1);
    free(f.core);
}

/* ---- pinned models ---- */

TEST(a_pinned_model_is_loaded_unasked_and_stays) {
    struct fixture f = fixture_of_memory(1, 5, false, 1, false);
    assert_int_equal(rank_core_first_ns(f.core), 0);
    timer(&f, 0);
    assert_int_equal(f.out.move_count, 1);
    assert_move(&f, 0, CENTRAL_LOAD, 0, 0);
    moved_of(&f, LOAD_NS, 0, 0, 0, true);
    load_and_run(&f, LOAD_NS + 1, 1, 0);
    load_and_run(&f, 3 * LOAD_NS, 2, 0);
    candidate(&f, 5 * LOAD_NS, 3, candidate_at(0, 20 * LOAD_NS));
    assert_int_equal(f.out.move_count, 2); /* the only one that nobody has asked for is pinned */
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 1);
    assert_move(&f, 1, CENTRAL_LOAD, 0, 3);
    free(f.core);
    f = fixture_limited(1, 5);
    assert_int_equal(rank_core_first_ns(f.core), TIME_NEVER);
    free(f.core);
}

/* When the accelerator that keeps it leaves, another one does: that which has a copy, else one that loads it. */
TEST(a_pinned_model_is_kept_elsewhere) {
    struct fixture f = fixture_of_memory(1, 4, false, 2, false);
    timer(&f, 0);
    assert_int_equal(f.out.move_count, 1); /* there is room for one, beside the largest model */
    timer(&f, 1);
    assert_no_move(&f);
    free(f.core);
    f = fixture_of_memory(2, 5, false, 2, false);
    timer(&f, 0);
    assert_int_equal(f.out.move_count, 2);
    assert_move(&f, 0, CENTRAL_LOAD, 0, 0);
    assert_move(&f, 1, CENTRAL_LOAD, 1, 1);
    moved_of(&f, LOAD_NS, 0, 0, 0, true);
    moved_of(&f, LOAD_NS, 1, 1, 0, true);
    event(&f, LOAD_NS + 1, RANK_ACCELERATOR_DOWN, 0);
    assert_move(&f, 0, CENTRAL_LOAD, 1, 0);
    moved_of(&f, 2 * LOAD_NS, 1, 0, 0, true);
    candidate(&f, 2 * LOAD_NS, 3, candidate_at(0, 2 * SLO_NS));
    assert_int_equal(f.out.move_count, 1); /* it has room beside */
    assert_move(&f, 0, CENTRAL_LOAD, 1, 3);
    free(f.core);
}

/* Room for the largest model is left: pinned models shut none out, also one that comes later. */
TEST(pinned_models_leave_room_for_the_largest) {
    struct fixture f = fixture_of_memory(1, 3, false, 1, false);
    timer(&f, 0);
    assert_no_move(&f); /* beside it the last model would have no room: it is loaded when it is asked for */
    load_and_run(&f, 1, 0, 0);
    candidate(&f, 2 * LOAD_NS, 3, candidate_at(0, 2 * SLO_NS));
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 0);
    free(f.core);
    f = fixture_of_memory(1, 5, false, 1, false);
    timer(&f, 0);
    moved_of(&f, LOAD_NS, 0, 0, 0, true);
    send(&f, LOAD_NS, (struct rank_message){.kind = RANK_GOES, .variant = {3}});
    struct rank_message joins = {.kind = RANK_JOIN, .variant = {3}, .types = 1, .weights = weights_of(3, 1, 5, false)};
    struct candidate brings = candidate_at(0, 2 * SLO_NS);
    rank_told(f.core, LOAD_NS + 1, joins, &brings, 1, &f.out);
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 0);
    assert_move(&f, 1, CENTRAL_LOAD, 0, 3);
    free(f.core);
}

/* One that goes is kept no longer, and one that comes is loaded unasked. */
TEST(pinned_models_come_and_go) {
    struct fixture f = fixture_of_memory(1, 5, false, 1, false);
    timer(&f, 0);
    moved_of(&f, LOAD_NS, 0, 0, 0, true);
    send(&f, LOAD_NS, (struct rank_message){.kind = RANK_GOES, .variant = {0}});
    assert_int_equal(f.out.move_count, 1);
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 0);
    unloaded(&f, LOAD_NS + 1, CENTRAL_UNLOAD, 0, 0);
    assert_no_move(&f);
    struct rank_message joins = {.kind = RANK_JOIN, .variant = {0}, .types = 1, .weights = weights_of(0, 1, 2, true)};
    rank_told(f.core, LOAD_NS + 2, joins, &none, 1, &f.out);
    assert_int_equal(f.out.move_count, 1);
    assert_move(&f, 0, CENTRAL_LOAD, 0, 0);
    free(f.core);
}

/* ---- accelerators that tell what they have ---- */

static void tell(struct fixture *f, int64_t now_ns, uint32_t accelerator, enum memory_telling kind, uint32_t model,
                 bool there) {
    moved(f, now_ns,
          (struct memory_moved){.kind = (uint8_t)kind, .done = there, .accelerator = accelerator, .variant = {model}});
}

static void tell_size(struct fixture *f, uint32_t accelerator, uint32_t pages, uint8_t grain) {
    moved(f, 0, (struct memory_moved){.kind = MEMORY_SIZE, .accelerator = accelerator, .pages = pages, .grain = grain});
}

/* Of two accelerators in other processes one cuts its loads, by the pages that it takes: a load goes ahead only there,
 * after its next page of two. */
TEST(accelerators_tell_whether_they_cut_loads) {
    for (int cuts = 0; cuts < 2; cuts++) {
        struct fixture f = fixture_of_memory(1, 1000, true, 0, false);
        event(&f, 0, RANK_ACCELERATOR_UP, 0);
        moved(&f, 0, (struct memory_moved){.kind = MEMORY_SIZE, .cuts = cuts > 0, .pages = 10, .grain = 2});
        tell(&f, 0, 0, MEMORY_OFFERED, 1, false);
        tell(&f, 0, 0, MEMORY_OFFERED, 3, false);
        tell(&f, 0, 0, MEMORY_BEGINS, 0, false);
        candidate(&f, 0, 3, candidate_at(0, 200 * NS_PER_MS));
        assert_move(&f, 0, CENTRAL_LOAD, 0, 3);
        candidate(&f, 1, 1, candidate_at(0, 1 + 25 * NS_PER_MS)); /* the page of 15 ms ends just in time */
        assert_int_equal(f.out.move_count, cuts);
        if (cuts) {
            assert_move(&f, 0, CENTRAL_LOAD, 0, 1);
            assert_int_equal(f.out.moves[0].ahead, 1);
        }
        free(f.core);
    }
}

/* Each has room and models of its own, and nothing is loaded before all is told that it has. */
TEST(accelerators_tell_what_they_have) {
    struct fixture f = fixture_of_memory(2, 1000, true, 0, false);
    candidate(&f, 0, 1, candidate_at(0, SLO_NS));
    event(&f, 0, RANK_ACCELERATOR_UP, 0);
    event(&f, 0, RANK_ACCELERATOR_UP, 1);
    tell_size(&f, 0, 3, 1);
    tell(&f, 0, 0, MEMORY_OFFERED, 2, true);
    tell(&f, 0, 0, MEMORY_OFFERED, 3, false);
    assert_no_move(&f);
    tell(&f, 0, 0, MEMORY_BEGINS, 0, false);
    assert_no_move(&f); /* model 1 is not offered there */
    tell_size(&f, 1, 4, 4);
    tell(&f, 0, 1, MEMORY_OFFERED, 1, false);
    tell(&f, 0, 1, MEMORY_OFFERED, 0, false);
    assert_no_move(&f);
    tell(&f, 0, 1, MEMORY_BEGINS, 0, false);
    assert_move(&f, 0, CENTRAL_LOAD, 1, 1);
    moved_of(&f, LOAD_NS, 1, 1, 0, true);
    assert_granted(&f, 1, 1);
    answer(&f, LOAD_NS, 1, 1, 1, none);
    ended(&f, LOAD_NS + 1, 1);
    candidate(&f, LOAD_NS + 2, 2, candidate_at(0, 2 * SLO_NS));
    assert_granted(&f, 2, 0);
    assert_no_move(&f);
    answer(&f, LOAD_NS + 2, 2, 0, 1, none);
    ended(&f, LOAD_NS + 3, 0);
    candidate(&f, LOAD_NS + 4, 0, candidate_at(0, 2 * SLO_NS)); /* what takes one page takes four there */
    assert_move(&f, 0, CENTRAL_UNLOAD, 1, 1);
    assert_move(&f, 1, CENTRAL_LOAD, 1, 0);
    candidate(&f, LOAD_NS + 5, 3, candidate_at(0, 2 * SLO_NS));
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 2);
    assert_move(&f, 1, CENTRAL_LOAD, 0, 3);
    free(f.core);
}

/* Accelerators that keep their models are asked as if all had all, but for models that they have not. */
TEST(who_keeps_its_models_runs_these) {
    struct fixture f = fixture_of_memory(2, 1000, true, 0, false);
    for (uint32_t a = 0; a < 2; a++) {
        event(&f, 0, RANK_ACCELERATOR_UP, a);
        moved(&f, 0,
              (struct memory_moved){.kind = MEMORY_SIZE, .done = true, .accelerator = a, .pages = 1000, .grain = 1});
        tell(&f, 0, a, MEMORY_OFFERED, 0, true);
        tell(&f, 0, a, MEMORY_BEGINS, 0, false);
    }
    tell(&f, 0, 1, MEMORY_OFFERED, 1, true);
    candidate(&f, 1, 1, candidate_at(0, SLO_NS));
    assert_granted(&f, 1, 1); /* though the other one is the first that is free */
    answer(&f, 1, 1, 1, 1, candidate_at(0, SLO_NS));
    assert_nothing(&f);
    candidate(&f, 2, 0, candidate_at(0, SLO_NS));
    assert_granted(&f, 0, 0);
    answer(&f, 2, 0, 0, 1, candidate_at(0, SLO_NS / 2));
    ended(&f, 3, 0);
    assert_granted(&f, 0, 0); /* model 1 stands aside */
    answer(&f, 3, 0, 0, 1, candidate_at(0, SLO_NS / 2));
    ended(&f, 4, 1);
    assert_granted(&f, 0, 1); /* it is more urgent */
    answer(&f, 4, 0, 1, 1, none);
    ended(&f, 5, 1);
    assert_granted(&f, 1, 1);
    tell(&f, 6, 1, MEMORY_WITHDRAWN, 1, false);
    assert_no_move(&f);
    answer(&f, 7, 1, 1, 1, candidate_at(0, SLO_NS));
    assert_no_move(&f); /* it runs */
    ended(&f, 8, 1);
    assert_nothing(&f);
    assert_move(&f, 0, CENTRAL_UNLOAD, 1, 1);
    assert_true(f.out.moves[0].yields);
    event(&f, 9, RANK_ACCELERATOR_DOWN, 0);
    event(&f, 9, RANK_ACCELERATOR_UP, 0);
    candidate(&f, 10, 0, candidate_at(0, SLO_NS));
    assert_granted(&f, 0, 1); /* the other one has come back, and has told nothing */
    assert_no_move(&f);
    free(f.core);
}

/* What is withdrawn runs to its end, and is then given up; what is told of before an accelerator left is no news. */
TEST(what_is_withdrawn_is_given_up) {
    struct fixture f = fixture_of_memory(1, 1000, true, 0, false);
    event(&f, 0, RANK_ACCELERATOR_UP, 0);
    tell_size(&f, 0, 3, 1);
    tell(&f, 0, 0, MEMORY_OFFERED, 1, true);
    tell(&f, 0, 0, MEMORY_OFFERED, 2, false);
    tell(&f, 0, 0, MEMORY_BEGINS, 0, false);
    candidate(&f, 0, 1, candidate_at(0, SLO_NS));
    assert_granted(&f, 1, 0);
    answer(&f, 1, 1, 0, 1, none);
    tell(&f, 2, 0, MEMORY_WITHDRAWN, 1, false);
    assert_no_move(&f);
    ended(&f, 3, 0);
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 1);
    assert_true(f.out.moves[0].yields);
    tell(&f, 4, 0, MEMORY_WITHDRAWN, 2, false);
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 2); /* it is not there, and is given up all the same */
    assert_true(f.out.moves[0].yields);
    candidate(&f, 5, 2, candidate_at(0, SLO_NS));
    assert_no_move(&f);
    tell(&f, 5, 0, MEMORY_WITHDRAWN, 2, false); /* which was on its way: that is told once */
    assert_no_move(&f);
    event(&f, 6, RANK_ACCELERATOR_DOWN, 0);
    event(&f, 7, RANK_ACCELERATOR_UP, 0);
    tell(&f, 7, 0, MEMORY_OFFERED, 2, true);
    tell(&f, 7, 0, MEMORY_BEGINS, 0, false);
    assert_nothing(&f);
    assert_int_equal(rank_core_memory_epoch(f.core, 0), 1);
    free(f.core);
}

/* A model that cannot be loaded is given up by the accelerator, and one that moves to another sub-cluster by all: each
 * tells it once, as what is withdrawn. Until it is offered where it joins, a model believes what it was told before. */
TEST(what_fails_or_moves_is_given_up) {
    struct fixture f = fixture_of_memory(2, 1000, true, 0, false);
    struct grant_message news;
    for (uint32_t a = 0; a < 2; a++) {
        event(&f, 0, RANK_ACCELERATOR_UP, a);
        tell_size(&f, a, 3, 1);
        tell(&f, 0, a, MEMORY_OFFERED, 1, a == 1);
        tell(&f, 0, a, MEMORY_OFFERED, 2, false);
        tell(&f, 0, a, MEMORY_BEGINS, 0, false);
    }
    candidate(&f, 0, 2, candidate_at(0, SLO_NS));
    assert_move(&f, 0, CENTRAL_LOAD, 0, 2);
    moved(&f, 1, (struct memory_moved){.kind = CENTRAL_LOAD, .variant = {2}, .failed = true});
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 2);
    assert_true(f.out.moves[0].yields);
    assert_move(&f, 1, CENTRAL_LOAD, 1, 2);
    candidate(&f, 2, 1, candidate_at(0, SLO_NS));
    assert_granted(&f, 1, 1);
    answer(&f, 3, 1, 1, 1, none);
    while (rank_core_memory_news(f.core, &news))
        ;
    send(&f, 4, (struct rank_message){.kind = RANK_LEAVE, .variant = {1}});
    assert_int_equal(f.out.left.n, 1);
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 1); /* where it was not loaded */
    assert_true(f.out.moves[0].yields);
    assert_int_equal(f.out.move_count, 1);
    ended(&f, 5, 1);
    assert_move(&f, 0, CENTRAL_UNLOAD, 1, 1);
    assert_true(f.out.moves[0].yields);
    assert_false(rank_core_memory_news(f.core, &news)); /* it is not of this sub-cluster */
    struct rank_message joins = {.kind = RANK_JOIN, .variant = {1}, .types = 1, .weights = weights_of(1, 1, 1, false)};
    rank_told(f.core, 6, joins, &none, 1, &f.out);
    assert_false(rank_core_memory_news(f.core, &news));
    tell(&f, 7, 0, MEMORY_OFFERED, 1, false);
    assert_true(rank_core_memory_news(f.core, &news));
    assert_int_equal(news.variant.n, 1);
    assert_true(news.there_ns == TIME_NEVER);
    free(f.core);
}

/* A model that is withdrawn where it is asked for all the time is granted that accelerator no more. */
TEST(what_is_withdrawn_is_not_run_again) {
    for (int unlimited = 0; unlimited < 2; unlimited++) {
        struct fixture f = fixture_of_memory(2, 1000, true, 0, false);
        for (uint32_t a = 0; a < 2; a++) {
            event(&f, 0, RANK_ACCELERATOR_UP, a);
            moved(&f, 0,
                  (struct memory_moved){
                      .kind = MEMORY_SIZE, .done = unlimited > 0, .accelerator = a, .pages = 10, .grain = 1});
            tell(&f, 0, a, MEMORY_OFFERED, 1, true);
            tell(&f, 0, a, MEMORY_BEGINS, 0, false);
        }
        candidate(&f, 0, 1, candidate_at(0, SLO_NS));
        assert_granted(&f, 1, 0);
        tell(&f, 1, 0, MEMORY_WITHDRAWN, 1, false);
        answer(&f, 1, 1, 0, 1, candidate_at(0, SLO_NS));
        assert_granted(&f, 1, 1);
        answer(&f, 2, 1, 1, 1, candidate_at(0, SLO_NS));
        assert_no_move(&f);
        ended(&f, 3, 0);
        assert_nothing(&f);
        assert_move(&f, 0, CENTRAL_UNLOAD, 0, 1);
        assert_true(f.out.moves[0].yields);
        ended(&f, 4, 1);
        assert_granted(&f, 1, 1);
        free(f.core);
    }
}

/* A model that goes for good has gone once no accelerator has it, nor loads it; its number is then another model's. */
TEST(who_goes_is_unloaded_first) {
    struct fixture f = fixture_limited(2, 2);
    load_and_run(&f, 0, 1, 0);
    candidate(&f, LOAD_NS + 2, 2, candidate_at(0, 2 * SLO_NS));
    assert_move(&f, 0, CENTRAL_LOAD, 0, 2);
    send(&f, LOAD_NS + 3, (struct rank_message){.kind = RANK_GOES, .variant = {1}});
    assert_int_equal(f.out.left.n, RANK_NOBODY);
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 1);
    assert_int_equal(f.out.gone_count, 1);
    assert_int_equal(f.out.gone[0].n, 1);
    send(&f, LOAD_NS + 4, (struct rank_message){.kind = RANK_GOES, .variant = {2}});
    assert_no_move(&f);
    assert_int_equal(f.out.gone_count, 0);
    moved_of(&f, 2 * LOAD_NS + 2, 0, 2, 0, true);
    assert_move(&f, 0, CENTRAL_UNLOAD, 0, 2);
    assert_int_equal(f.out.gone_count, 1);
    send(&f, 2 * LOAD_NS + 3, (struct rank_message){.kind = RANK_GOES, .variant = {3}});
    assert_int_equal(f.out.left.n, 3);
    assert_int_equal(f.out.gone_count, 0);
    struct rank_message joins = {.kind = RANK_JOIN, .variant = {1}, .types = 1, .weights = weights_of(1, 1, 2, false)};
    struct candidate brings = candidate_at(0, 3 * SLO_NS);
    rank_told(f.core, 3 * LOAD_NS, joins, &brings, 1, &f.out);
    assert_move(&f, 0, CENTRAL_LOAD, 0, 1);
    free(f.core);
}
