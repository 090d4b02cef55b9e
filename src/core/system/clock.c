/* clock.c - sleeps; lets a process's clock differ from other processes', for tests. */
#include "core/system/clock.h"

#include <errno.h>
#include <math.h>

#define YEAR_NS       (365 * 86400 * NS_PER_S)
#define OFFSET_MAX_NS (30 * YEAR_NS)
#define PPM_MAX       1e5
#define TIME_MAX_NS   (100 * YEAR_NS) /* last time to convert; later ones, and those not above 0, are only marks */

struct clock_skew clock_skew;

int clock_skew_set(int64_t offset_ns, double ppm) {
    clock_skew = (struct clock_skew){0};
    int64_t now_ns = clock_now_ns();
    if (offset_ns > OFFSET_MAX_NS || offset_ns <= -now_ns || !(fabs(ppm) <= PPM_MAX))
        return -EINVAL;
    clock_skew = (struct clock_skew){true, now_ns, offset_ns, ppm * 1e-6};
    return 0;
}

void clock_sleep(int64_t ns) {
    const struct timespec ts = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    nanosleep(&ts, NULL);
}

int64_t clock_skewed_ns(int64_t kernel_ns) {
    const struct clock_skew *s = &clock_skew;
    return kernel_ns + s->offset_ns + (int64_t)(s->rate * (double)(kernel_ns - s->start_ns));
}

int64_t clock_kernel_ns(int64_t time_ns) {
    const struct clock_skew *s = &clock_skew;
    if (time_ns <= 0 || time_ns > TIME_MAX_NS)
        return time_ns;
    int64_t span_ns = time_ns - s->offset_ns - s->start_ns;
    int64_t kernel_ns = s->start_ns + (int64_t)((double)span_ns / (1 + s->rate)) - 1;
    while (clock_skewed_ns(kernel_ns) < time_ns) /* rounding needs a step or two */
        kernel_ns++;
    return kernel_ns > 0 ? kernel_ns : 0;
}
