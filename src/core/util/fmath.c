/* fmath.c - exp and log from basic operations only, which IEEE 754 rounds the same everywhere. */
#include "core/util/fmath.h"

#include <stdint.h>
#include <string.h>

static const double LN2_HI = 6.93147180369123816490e-01, LN2_LO = 1.90821492927058770002e-10;

#define SQRT2_MANTISSA 0x6a09e667f3bcdULL

double fmath_exp(double x) {
    if (x < -708.0)
        return 0.0;
    if (x > 709.0)
        x = 709.0;
    double scaled = x * 1.44269504088896338700e+00;
    int64_t k = (int64_t)(scaled + (scaled < 0 ? -0.5 : 0.5));
    double r = (x - (double)k * LN2_HI) - (double)k * LN2_LO; /* |r| <= ln2/2 */
    double term = 1.0, sum = 1.0;
    for (int i = 1; i <= 14; i++) { /* r^14/14! < 1e-17 */
        term = term * r / i;
        sum += term;
    }
    uint64_t bits = (uint64_t)(k + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof(power));
    return sum * power;
}

double fmath_log(double x) {
    if (!(x > 2.3e-308)) /* zero, negative, subnormal, NaN */
        return -745.0;
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    uint64_t mantissa = bits & 0x000fffffffffffffULL;
    uint64_t over = mantissa > SQRT2_MANTISSA; /* then halve it; a branch would be predicted wrong every other time */
    int64_t k = (int64_t)(bits >> 52) - 1023 + (int64_t)over;
    bits = mantissa | (1023 - over) << 52;
    double m;
    memcpy(&m, &bits, sizeof(m)); /* in (0.7071, 1.4142] */
    /* log m = 2 atanh((m-1)/(m+1)); |s| <= 0.1716, so s^25/25 < 1e-20 */
    double s = (m - 1.0) / (m + 1.0), s2 = s * s, s4 = s2 * s2;
    /* two chains that the processor works on at once: the even and the odd powers of s2 */
    double even = 1.0 / 25 * s4 + 1.0 / 21, odd = 1.0 / 23 * s4 + 1.0 / 19;
    even = even * s4 + 1.0 / 17, odd = odd * s4 + 1.0 / 15;
    even = even * s4 + 1.0 / 13, odd = odd * s4 + 1.0 / 11;
    even = even * s4 + 1.0 / 9, odd = odd * s4 + 1.0 / 7;
    even = even * s4 + 1.0 / 5, odd = odd * s4 + 1.0 / 3;
    double sum = even * s4 + 1.0 + s2 * odd;
    return (double)k * LN2_HI + (2.0 * s * sum + (double)k * LN2_LO);
}
