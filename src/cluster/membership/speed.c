/* speed.c - finds backends that have become slow. */
#include "cluster/membership/speed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS       4 /* steps of `factor` in 1 */
#define FACTOR_MOST 100

void speed_init(struct speed *speed) {
    *speed = (struct speed){.factor = 1, .than = 1, .again_ns = SPEED_AGAIN_NS};
}

void speed_run(struct speed *speed, int64_t run_ns, int64_t profiled_ns, int64_t now_ns) {
    if (run_ns <= 0 || profiled_ns < SPEED_LEAST_NS)
        return;
    speed->ratios[speed->next] = (float)((double)run_ns / (double)profiled_ns);
    speed->next = (speed->next + 1) % SPEED_RUNS;
    speed->count += speed->count < SPEED_RUNS;
    speed->last_ns = now_ns;
}

static int compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The ratio that a part of the runs are below. */
static double rank(const struct speed *speed, double part) {
    float sorted[SPEED_RUNS];
    memcpy(sorted, speed->ratios, speed->count * sizeof(*sorted));
    qsort(sorted, speed->count, sizeof(*sorted), compare);
    return sorted[(uint32_t)(part * speed->count)];
}

double speed_usual(const struct speed *speed, int64_t now_ns) {
    return speed->count < SPEED_FEW || now_ns - speed->last_ns > SPEED_OLD_NS ? 0 : rank(speed, 0.5);
}

double speed_others(const double *sorted, uint32_t count, double own) {
    uint32_t at = 0;
    while (at < count && sorted[at] < own)
        at++;
    bool among = at < count && sorted[at] == own;
    uint32_t others = count - among, middle = (others - 1) / 2;
    return others == 0 ? 0 : sorted[among && middle >= at ? middle + 1 : middle];
}

enum speed_change speed_look(struct speed *speed, double others, int64_t now_ns) {
    double usual = speed->count < SPEED_RUNS ? 0 : speed_usual(speed, now_ns);
    if (!speed->slow) {
        if (usual == 0 || others == 0 || rank(speed, 0.25) <= SPEED_SLOW * others)
            return SPEED_AS_BEFORE;
        double factor = ceil(usual * STEPS) / STEPS;
        speed->slow = true;
        speed->factor = factor < FACTOR_MOST ? factor : FACTOR_MOST;
        speed->than = usual / others;
        speed->since_ns = now_ns;
        speed->count = 0;
        return SPEED_IS_SLOW;
    }
    bool well = usual > 0 && others > 0 && usual < SPEED_WELL * others;
    bool tried = !well && usual == 0 && now_ns - speed->since_ns > speed->again_ns;
    if (usual > 0) {
        speed->since_ns = now_ns;
        speed->count = 0;
    }
    if (!well && !tried)
        return SPEED_AS_BEFORE;
    int64_t again_ns = well                                        ? SPEED_AGAIN_NS
                       : 2 * speed->again_ns < SPEED_AGAIN_MOST_NS ? 2 * speed->again_ns
                                                                   : SPEED_AGAIN_MOST_NS;
    speed_init(speed);
    speed->again_ns = again_ns;
    return well ? SPEED_IS_WELL : SPEED_IS_TRIED;
}
