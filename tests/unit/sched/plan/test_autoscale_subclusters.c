/* test_autoscale_subclusters.c - advice for sub-clusters, and for all of them. */
#include "sched/plan/autoscale_subclusters.h"

#include "core/util/time.h"
#include "unit/test.h"

#define SUBCLUSTERS 4

static const struct autoscale_config config = {
    .min = 1, .max = 30, .headroom = 0.1, .every_ns = 10 * NS_PER_S, .start_delay_ns = 0};

struct looked {
    uint32_t all, of[SUBCLUSTERS];
};

/* `present` accelerators come to the sub-clusters by turns; `bad` of each sub-cluster's requests are. */
static struct looked look(struct autoscale_subclusters *subclusters, const double *needed, uint32_t present,
                          uint64_t bad) {
    struct autoscale_seen all = {.present = present, .requests = SUBCLUSTERS * 100000, .bad = SUBCLUSTERS * bad},
                          seen[SUBCLUSTERS];
    struct looked looked = {.all = 0};
    for (uint32_t k = 0; k < SUBCLUSTERS; k++) {
        seen[k] = (struct autoscale_seen){.present = (present + SUBCLUSTERS - 1 - k) / SUBCLUSTERS,
                                          .needed = needed[k],
                                          .requests = 100000,
                                          .bad = bad};
        all.needed += needed[k];
    }
    looked.all = autoscale_subclusters_look(subclusters, &all, seen, looked.of);
    return looked;
}

/* 9 accelerators' load takes ten of one cluster; but sub-clusters of 4.5 and 1.5 cannot share. */
TEST(each_subcluster_is_rounded_up) {
    static const double needed[SUBCLUSTERS] = {4.5, 1.5, 1.5, 1.5};
    struct autoscale_subclusters subclusters;
    struct autoscale of[SUBCLUSTERS];
    struct looked looked;
    autoscale_subclusters_init(&subclusters, &config, SUBCLUSTERS, of);
    for (int i = 0; i < 20; i++)
        looked = look(&subclusters, needed, 4, 0);
    assert_int_equal(looked.of[0], 5);
    for (uint32_t k = 1; k < SUBCLUSTERS; k++)
        assert_int_equal(looked.of[k], 2);
    assert_int_equal(looked.all, 11);
}

/* The one sub-cluster that lacks accelerators has not got them: in all there must be more and more. */
TEST(what_goes_badly_in_all_counts) {
    static const double needed[SUBCLUSTERS] = {4.5, 1.5, 1.5, 1.5};
    struct autoscale_subclusters subclusters;
    struct autoscale of[SUBCLUSTERS];
    struct looked looked = {.all = 8};
    autoscale_subclusters_init(&subclusters, &config, SUBCLUSTERS, of);
    for (int i = 0; i < 100 && looked.all < 4 * 5; i++)
        looked = look(&subclusters, needed, looked.all, looked.all < 4 * 4 + 1 ? 20000 : 0);
    assert_true(looked.all >= 4 * 4 + 1); /* the first sub-cluster has got five */
    for (int i = 0; i < 100; i++)
        looked = look(&subclusters, needed, looked.all, 50000);
    assert_int_equal(looked.all, config.max);
}

TEST(none_may_be_wanted) {
    static const double needed[SUBCLUSTERS] = {0};
    struct autoscale_config none = config;
    struct autoscale_subclusters subclusters;
    struct autoscale of[SUBCLUSTERS];
    none.min = 0;
    autoscale_subclusters_init(&subclusters, &none, SUBCLUSTERS, of);
    look(&subclusters, needed, 0, 0);
    assert_int_equal(look(&subclusters, needed, 0, 0).all, 0);
}

TEST(one_subcluster_is_all) {
    struct autoscale_subclusters subclusters;
    struct autoscale alone;
    uint32_t unused = 77;
    autoscale_subclusters_init(&subclusters, &config, 1, NULL);
    autoscale_init(&alone, &config);
    for (uint32_t i = 0; i < 50; i++) {
        struct autoscale_seen seen = {
            .present = 5, .needed = 1 + (double)(i * i % 17), .requests = 1000, .bad = i % 10 * 10};
        assert_int_equal(autoscale_subclusters_look(&subclusters, &seen, NULL, &unused), autoscale_look(&alone, &seen));
    }
    assert_int_equal(unused, 77);
}
