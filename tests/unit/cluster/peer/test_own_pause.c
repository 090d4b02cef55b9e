/* test_own_pause.c - a process that did not look for a while judges nobody until it has been back for a while. */
#include "cluster/peer/own_pause.h"

#include "unit/test.h"

#define APART_NS ((int64_t)150)
#define WAIT_NS  ((int64_t)100)

TEST(test_only_looks_that_are_too_far_apart_are_a_pause) {
    static const struct {
        int64_t now_ns, judge_ns;
        bool away;
    } looks[] = {
        {1000, 0, false},    /* at once */
        {1150, 0, false},    /* as far apart as they may be */
        {1301, 1401, true},  /* further */
        {1399, 1401, false}, /* back: what it waits for stays */
        {1500, 1401, false}, /* and stays when it is over */
        {9000, 9100, true},  /* away again */
        {9151, 9251, true},  /* and again, before it judged anybody */
    };
    struct own_pause pause = {.looked_ns = 1000};
    for (unsigned i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
        assert_int_equal(own_pause_look(&pause, looks[i].now_ns, APART_NS, WAIT_NS), looks[i].away);
        assert_int_equal(pause.judge_ns, looks[i].judge_ns);
        assert_int_equal(pause.looked_ns, looks[i].now_ns);
    }
}
