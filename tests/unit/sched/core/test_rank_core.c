/* test_rank_core.c - who gets which accelerator, and when. */
#include "unit/sched/core/rank_rig.h"

TEST(an_accelerator_waits_until_a_candidate_may_start) {
    struct fixture f = fixture_new(1);
    candidate(&f, 0, 2, candidate_at(50, 90));
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 50);
    timer(&f, 49);
    assert_nothing(&f);
    timer(&f, 50);
    assert_granted(&f, 2, 0);
    free(f.core);
}

/* Of sixteen accelerators, half are ample, and two are scarce. */
TEST(when_a_candidate_may_start_depends_on_how_many_are_free) {
    struct fixture f = fixture_new(16);
    struct candidate c = candidate_at(0, 90);
    c.start_ns[SUPPLY_SCARCE] = 50;
    c.start_ns[SUPPLY_SCARCE + 1] = 30;
    make_busy(&f, 8);
    candidate(&f, 1, 2, c); /* eight are free */
    assert_granted(&f, 2, 8);
    assert_int_equal(f.out.grants[0].supply, SUPPLY_AMPLE);
    answer(&f, 1, 2, 8, 1, c); /* seven are */
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 30);
    ended(&f, 2, 3); /* and eight again */
    assert_granted(&f, 2, 3);
    answer(&f, 2, 2, 3, 1, c);
    timer(&f, 30);
    assert_granted(&f, 2, 9);
    assert_int_equal(f.out.grants[0].supply, SUPPLY_SCARCE + 1);
    answer(&f, 30, 2, 9, 1, none);
    for (uint32_t a = 10; a < 14; a++) {
        candidate(&f, 31, 1, candidate_at(0, 90));
        assert_granted(&f, 1, a);
        answer(&f, 31, 1, a, 1, none);
    }
    candidate(&f, 32, 2, c); /* two are left */
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 50);
    timer(&f, 50);
    assert_granted(&f, 2, 14);
    assert_int_equal(f.out.grants[0].supply, SUPPLY_SCARCE);
    free(f.core);
}

TEST(levels_of_supply_go_by_subclusters) {
    static const struct {
        uint32_t free, up, level;
    } cases[] = {
        {1, 1, 0}, {1, 2, 0}, {2, 2, 2}, {2, 4, 2}, {2, 5, 1}, {2, 16, 0}, {3, 16, 1}, {8, 16, 2}, {125, 1000, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(supply_level(cases[i].free, cases[i].up), cases[i].level);
        double free = cases[i].free, counted = supply_share(cases[i].level, cases[i].up) * cases[i].up;
        assert_true(counted <= (cases[i].level == SUPPLY_SCARCE + 1 ? 2 : 1) * free); /* what a policy counts on */
    }
}

/* Trap: past-due times must fire at once, not be lost. */
TEST(a_candidate_whose_time_is_past_starts_at_once) {
    struct fixture f = fixture_new(1);
    candidate(&f, 70, 1, candidate_at(20, 90));
    assert_granted(&f, 1, 0);
    free(f.core);
}

/* Trap: ordering by the time a candidate became ready, which for a late one is its last update. */
TEST(the_candidate_with_the_earliest_latest_start_is_first) {
    struct fixture f = fixture_new(1);
    make_busy(&f, 1);
    candidate(&f, 1, 1, candidate_at(2, 90));
    candidate(&f, 2, 2, candidate_at(3, 80));
    candidate(&f, 3, 3, candidate_at(3, 85));
    ended(&f, 10, 0);
    assert_granted(&f, 2, 0);
    answer(&f, 10, 2, 0, 1, none);
    ended(&f, 11, 0);
    assert_granted(&f, 3, 0);
    answer(&f, 11, 3, 0, 1, none);
    ended(&f, 12, 0);
    assert_granted(&f, 1, 0);
    free(f.core);
}

TEST(of_several_due_at_once_the_earliest_latest_start_is_first) {
    struct fixture f = fixture_new(1);
    candidate(&f, 0, 1, candidate_at(20, 90));
    candidate(&f, 0, 2, candidate_at(20, 80));
    timer(&f, 20);
    assert_granted(&f, 2, 0);
    free(f.core);
}

/* Trap: the earliest-free accelerator is the longest idle one; load would never consolidate. */
TEST(the_lowest_numbered_free_accelerator_is_taken) {
    struct fixture f = fixture_new(3);
    make_busy(&f, 3);
    ended(&f, 5, 2);
    ended(&f, 6, 0);
    ended(&f, 7, 1);
    candidate(&f, 8, 1, candidate_at(8, 90));
    assert_granted(&f, 1, 0);
    free(f.core);
}

TEST(a_candidate_past_its_latest_start_is_not_granted) {
    struct fixture f = fixture_new(1);
    make_busy(&f, 1);
    candidate(&f, 1, 1, candidate_at(1, 30));
    candidate(&f, 1, 2, candidate_at(1, 60));
    ended(&f, 31, 0);
    assert_granted(&f, 2, 0);
    /* and it is not thrown away for good: its model core sends the next one */
    answer(&f, 31, 2, 0, 1, none);
    candidate(&f, 32, 1, candidate_at(1, 70));
    ended(&f, 33, 0);
    assert_granted(&f, 1, 0);
    free(f.core);
}

/* Trap: a granted accelerator was still in the map, and was granted again or emptied the candidates. */
TEST(an_accelerator_is_granted_once_until_it_is_free_again) {
    struct fixture f = fixture_new(1);
    candidate(&f, 0, 1, candidate_at(0, 90));
    assert_granted(&f, 1, 0);
    candidate(&f, 1, 2, candidate_at(0, 90));
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, TIME_NEVER); /* nothing to wake for: no accelerator */
    timer(&f, 5);
    assert_nothing(&f);
    answer(&f, 6, 1, 0, 3, none);
    assert_nothing(&f);
    assert_int_equal(rank_core_accelerators_busy(f.core), 1);
    ended(&f, 20, 0);
    assert_granted(&f, 2, 0); /* the candidate is still there */
    free(f.core);
}

/* Trap: between a grant and its answer candidates are stale; acting on one would give the model two accelerators. */
TEST(candidates_between_grant_and_answer_are_ignored) {
    struct fixture f = fixture_new(2);
    candidate(&f, 0, 1, candidate_at(0, 90));
    assert_granted(&f, 1, 0);
    candidate(&f, 1, 1, candidate_at(0, 95));
    assert_nothing(&f);
    answer(&f, 2, 1, 0, 4, candidate_at(40, 99)); /* the newest comes with the answer */
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 40);
    timer(&f, 40);
    assert_granted(&f, 1, 1);
    free(f.core);
}

TEST(an_answer_may_bring_a_candidate_that_starts_at_once) {
    struct fixture f = fixture_new(2);
    candidate(&f, 0, 1, candidate_at(0, 90));
    answer(&f, 1, 1, 0, 4, candidate_at(0, 99));
    assert_granted(&f, 1, 1);
    free(f.core);
}

/* Trap: a batch that would start in the future idles its accelerator; its model gives the accelerator back. */
TEST(an_accelerator_given_back_goes_to_the_next) {
    struct fixture f = fixture_new(1);
    make_busy(&f, 1);
    candidate(&f, 0, 1, candidate_at(0, 80));
    candidate(&f, 0, 2, candidate_at(5, 90));
    ended(&f, 10, 0);
    assert_granted(&f, 1, 0);
    answer(&f, 11, 1, 0, 0, candidate_at(70, 95));
    assert_granted(&f, 2, 0);
    answer(&f, 12, 2, 0, 0, none);
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 70);
    assert_int_equal(rank_core_accelerators_busy(f.core), 0);
    free(f.core);
}

TEST(giving_back_does_not_go_round_in_one_instant) {
    struct fixture f = fixture_new(1);
    struct candidate stubborn = candidate_at(0, 90); /* says it is ready, and gives the accelerator back all the same */
    candidate(&f, 10, 1, stubborn);
    for (int i = 0; i < 3; i++) {
        assert_granted(&f, 1, 0);
        answer(&f, 10 + i, 1, 0, 0, stubborn);
        assert_nothing(&f);
        assert_int_equal(f.out.wake_ns, 11 + i); /* not this instant, but not forgotten */
        timer(&f, 11 + i);
    }
    answer(&f, 13, 1, 0, 1, none);
    free(f.core);
}

/* Executor and model thread write to different rings: a short batch may end before the answer is read. */
TEST(an_end_that_overtakes_its_answer_is_not_lost) {
    struct fixture f = fixture_new(1);
    candidate(&f, 0, 1, candidate_at(0, 90));
    candidate(&f, 0, 2, candidate_at(0, 95));
    assert_int_equal(f.out.grant_count, 0);
    ended(&f, 3, 0);
    assert_nothing(&f); /* not before the answer: the model may have given it back */
    answer(&f, 4, 1, 0, 1, none);
    assert_granted(&f, 2, 0);
    free(f.core);
}

TEST(down_and_up) {
    struct fixture f = fixture_new(2);
    event(&f, 0, RANK_ACCELERATOR_DOWN, 0); /* while free */
    candidate(&f, 1, 1, candidate_at(0, 90));
    assert_granted(&f, 1, 1);
    candidate(&f, 1, 2, candidate_at(0, 90));
    event(&f, 2, RANK_ACCELERATOR_DOWN, 1); /* while granted: the grant stands */
    answer(&f, 3, 1, 1, 1, none);
    assert_nothing(&f);
    ended(&f, 10, 1); /* its batch may still end, but it gets no other */
    assert_nothing(&f);
    assert_int_equal(rank_core_accelerators_busy(f.core), 0);
    event(&f, 20, RANK_ACCELERATOR_UP, 1);
    assert_granted(&f, 2, 1);
    answer(&f, 20, 2, 1, 1, none);
    candidate(&f, 20, 3, candidate_at(0, 90));
    event(&f, 21, RANK_ACCELERATOR_DOWN, 1); /* while busy */
    event(&f, 22, RANK_ACCELERATOR_UP, 1);   /* back, but its batch has not ended */
    assert_nothing(&f);
    ended(&f, 30, 1);
    assert_granted(&f, 3, 1);
    event(&f, 31, RANK_ACCELERATOR_UP, 1); /* twice is once */
    assert_nothing(&f);
    free(f.core);
}

TEST(a_model_gets_the_type_it_asks_for) {
    static const uint8_t types[] = {0, 1, 1};
    struct fixture f = fixture_of(3, types, 2, &policy_plain);
    struct candidate candidates[] = {none, candidate_at(0, 90)};
    struct rank_event told = {.kind = RANK_CANDIDATES, .variant = {1}, .candidates = candidates};
    rank_core_step(f.core, 0, &told, &f.out);
    assert_granted(&f, 1, 1);
    assert_int_equal(f.out.grants[0].type, 1);
    /* due on both types: the one on which the batch may start last, since it runs fastest there */
    told.variant.n = 2;
    candidates[0] = candidate_at(0, 95);
    rank_core_step(f.core, 1, &told, &f.out);
    assert_granted(&f, 2, 0);
    assert_int_equal(f.out.grants[0].type, 0);
    /* one grant a model, though an accelerator of the other type is free */
    told.variant.n = 1;
    rank_core_step(f.core, 2, &told, &f.out);
    assert_nothing(&f);
    free(f.core);
    f = fixture_of(3, types, 2, &policy_plain);
    candidates[0] = candidate_at(0, 85); /* slower, though its accelerator has the lowest number */
    rank_core_step(f.core, 0, &told, &f.out);
    assert_granted(&f, 1, 1);
    free(f.core);
}

TEST(more_grants_than_one_step_may_give_follow_at_once) {
    uint32_t models = RANK_GRANTS_MAX + 6;
    uint8_t *types = calloc(models, 1);
    struct rank_core_config config = {
        .models = models, .accelerators = models, .accelerator_type = types, .types = 1, .policy = &policy_plain};
    struct fixture f = {.core = malloc(rank_core_bytes(&config)), .types = 1};
    memset(f.core, 0xff, rank_core_bytes(&config));
    rank_core_init(f.core, &config);
    for (uint32_t m = 0; m < models; m++)
        candidate(&f, 0, m, candidate_at(10, 90));
    timer(&f, 10);
    assert_int_equal(f.out.grant_count, RANK_GRANTS_MAX);
    assert_int_equal(f.out.wake_ns, 10);
    timer(&f, 10);
    assert_int_equal(f.out.grant_count, 6);
    assert_true(f.out.wake_ns > 10);
    free(f.core);
    free(types);
}

/* ---- several sub-clusters ---- */

#define assert_left(f, model_) assert_int_equal((f)->out.left.n, model_)

TEST(a_model_leaves_at_once_or_with_its_answer) {
    struct fixture f = fixture_new(1);
    candidate(&f, 0, 1, candidate_at(50, 90));
    send(&f, 1, (struct rank_message){.kind = RANK_LEAVE, .variant = {1}});
    assert_left(&f, 1);
    assert_false(rank_core_member(f.core, (struct variant_id){1}));
    timer(&f, 50);
    assert_nothing(&f); /* its candidate went with it */

    candidate(&f, 51, 2, candidate_at(0, 90));
    assert_granted(&f, 2, 0);
    send(&f, 52, (struct rank_message){.kind = RANK_LEAVE, .variant = {2}});
    assert_left(&f, RANK_NOBODY);
    answer(&f, 53, 2, 0, 1, candidate_at(0, 90));
    assert_left(&f, 2);
    ended(&f, 60, 0);
    assert_nothing(&f); /* the candidate that the answer brought is for the next rank core */

    struct candidate brought = candidate_at(0, 90);
    rank_told(f.core, 61, (struct rank_message){.kind = RANK_JOIN, .variant = {2}}, &brought, 1, &f.out);
    assert_int_equal(f.out.joined.n, 2); /* it should know what holds here */
    assert_granted(&f, 2, 0);
    free(f.core);
}

TEST(a_sub_cluster_has_its_own_accelerators_and_models) {
    static const uint8_t types[3], subcluster_of_accelerator[3] = {0, 1, 0}, subcluster_of_model[MODELS] = {0, 1};
    struct rank_core_config config = {.models = MODELS,
                                      .accelerators = 3,
                                      .accelerator_type = types,
                                      .types = 1,
                                      .policy = &policy_plain,
                                      .subcluster = 1,
                                      .subcluster_of_accelerator = subcluster_of_accelerator,
                                      .subcluster_of_model = subcluster_of_model};
    struct fixture f = {.core = malloc(rank_core_bytes(&config)), .types = 1};
    assert_non_null(f.core);
    memset(f.core, 0xff, rank_core_bytes(&config));
    rank_core_init(f.core, &config);
    assert_int_equal(rank_core_accelerators_free(f.core), 1);
    candidate(&f, 0, 0, candidate_at(0, 90)); /* another's */
    assert_nothing(&f);
    candidate(&f, 1, 1, candidate_at(0, 90));
    assert_granted(&f, 1, 1);
    free(f.core);
}
