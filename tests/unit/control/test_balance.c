/* test_balance.c - a model moves if that makes the fullest sub-cluster emptier by enough. */
#include "control/balance.h"
#include "unit/cmocka_all.h"

static void test_which_model_moves(void **state) {
    (void)state;
    static const struct {
        const char *what;
        double load[4];
        uint32_t part[4], capacity[3], parts;
        bool moves;
        uint32_t model, to;
    } cases[] = {
        {"all on one side", {1, 2, 3, 0}, {0, 0, 0, 0}, {4, 4}, 2, true, 2, 1},
        {"the one that fits best", {5, 3, 0, 1}, {0, 0, 0, 1}, {8, 8}, 2, true, 1, 1},
        {"nothing to gain by swapping sides", {4, 0, 0, 0}, {0, 1, 1, 1}, {4, 4}, 2, false, 0, 0},
        {"even", {1, 1, 1, 1}, {0, 0, 1, 1}, {4, 4}, 2, false, 0, 0},
        {"too little to gain", {1.05, 1, 0.05, 1}, {0, 0, 0, 1}, {40, 20}, 2, false, 0, 0},
        {"larger sub-clusters hold more", {2, 2, 2, 0}, {0, 0, 0, 1}, {6, 1}, 2, false, 0, 0},
        {"to the emptiest of three", {2, 2, 1, 0.5}, {0, 0, 1, 2}, {4, 4, 4}, 3, true, 0, 2},
        {"idle", {0, 0, 0, 0}, {0, 0, 0, 0}, {1, 1}, 2, false, 0, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct balance balance = {.load = cases[i].load,
                                  .part = cases[i].part,
                                  .capacity = cases[i].capacity,
                                  .models = 4,
                                  .parts = cases[i].parts};
        uint32_t model = 99, part = 99;
        bool moves = balance_choose(&balance, &model, &part);
        if (moves != cases[i].moves || (moves && (model != cases[i].model || part != cases[i].to)))
            fail_msg("%s: %d, model %u to %u", cases[i].what, moves, model, part);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_model_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
