/* goodput.c - search by bisection over simulated runs. */
#include "sim/goodput.h"

#define GUESS_TIMES_MOST 16

static bool good_at(const struct sim_config *config, double rate_rps, void *memory) {
    struct sim_rate_step step = {0, rate_rps};
    struct sim_config run = *config;
    struct sim_result result;
    run.steps = &step;
    run.step_count = 1;
    sim_run(&run, memory, &result);
    return result.worst_bad_rate <= GOODPUT_BAD_MOST;
}

size_t goodput_bytes(const struct sim_config *config, double guess_rps) {
    struct sim_rate_step step = {0, guess_rps * GUESS_TIMES_MOST};
    struct sim_config run = *config;
    run.steps = &step;
    run.step_count = 1;
    return sim_bytes(&run);
}

double goodput_find(const struct sim_config *config, double guess_rps, double within, void *memory) {
    double low = guess_rps, high = guess_rps, factor = 1.05, most = guess_rps * GUESS_TIMES_MOST;
    if (good_at(config, guess_rps, memory)) {
        do {
            low = high;
            if (low >= most)
                return low;
            high = low * factor < most ? low * factor : most;
            factor *= factor;
        } while (good_at(config, high, memory));
    } else {
        do {
            high = low;
            low /= factor;
            factor *= factor;
            if (low < guess_rps / 1024)
                return 0;
        } while (!good_at(config, low, memory));
    }
    while (high > low * (1 + within)) {
        double middle = (low + high) / 2;
        if (good_at(config, middle, memory))
            low = middle;
        else
            high = middle;
    }
    return low;
}
