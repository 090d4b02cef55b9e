/* speed.h - how fast a backend runs batches on accelerators of one type, against the other backends of that type. Pure.
 *
 * Each run counts as the ratio of the time that it took to the profile's. A backend of which three of four runs were
 * slower than the others' usual one by a half is slow. From then on its runs are planned with their own usual ratio. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/time.h"

/* Runs that are looked at. Fewer would be moved by one stall of the machine, which delays a few runs in a row; more
 * would take longer to see the change, which takes three quarters of them. */
#define SPEED_RUNS 32
/* Ratio to the others from which on a backend is slow. Tables follow measured runs up to this ratio of a type's median
 * (rolling.c), so less than that is planned for in any case. */
#define SPEED_SLOW 1.5
/* Ratio to the others below which a slow one is as they are. Between the two nothing changes: what is close to either
 * would come and go. */
#define SPEED_WELL 1.2
/* Shorter runs do not count: waking a thread takes a tenth of this on an idle machine, and that is no accelerator's. */
#define SPEED_LEAST_NS (500 * NS_PER_US)
/* A slow one gets few batches, since others are preferred. If it has not had SPEED_RUNS of them for so long, it is
 * tried as the others are; each further time in vain after twice as long. That costs SPEED_RUNS slow runs, so one of a
 * few thousand at most. */
#define SPEED_AGAIN_NS      (30 * NS_PER_S)
#define SPEED_AGAIN_MOST_NS (480 * NS_PER_S)
/* Others are compared with from so many runs on, the last of which is no older: at low load only the first accelerators
 * get batches, and what others showed in a busier minute still holds. */
#define SPEED_FEW    8
#define SPEED_OLD_NS (300 * NS_PER_S)

struct speed {
    float ratios[SPEED_RUNS];
    uint32_t count, next; /* number of ratios; place of the next one */
    int64_t last_ns;      /* time of the last run */
    bool slow;
    double factor; /* usual ratio when it was found to be slow, in quarters, rounded up: others may share it; else 1 */
    double than;   /* how many times as slow as the others, at that time */
    int64_t since_ns; /* while slow: time since which it has not had SPEED_RUNS runs */
    int64_t again_ns; /* time until it is tried again, as long as it is not well in between */
};

enum speed_change { SPEED_AS_BEFORE, SPEED_IS_SLOW, SPEED_IS_WELL, SPEED_IS_TRIED };

void speed_init(struct speed *speed);
/* Counts a run; `profiled_ns`: what the profile of its type says. */
void speed_run(struct speed *speed, int64_t run_ns, int64_t profiled_ns, int64_t now_ns);
/* The ratio that is usual, the median; 0: fewer than SPEED_FEW runs, or old ones. */
double speed_usual(const struct speed *speed, int64_t now_ns);
/* Of `count` usual ratios in ascending order, without one of the value `own`: the lower median; 0: there is no other.
 */
double speed_others(const double *sorted, uint32_t count, double own);
/* Looks at a backend; `others` is speed_others() of the backends of the type. */
enum speed_change speed_look(struct speed *speed, double others, int64_t now_ns);
