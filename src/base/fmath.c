/* fmath.c - exp and log from basic operations only, which IEEE 754 rounds the same everywhere. */
#include "base/fmath.h"

#include <stdint.h>
#include <string.h>

static const double LN2_HI = 6.93147180369123816490e-01, LN2_LO = 1.90821492927058770002e-10;

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
    int64_t k = (int64_t)(bits >> 52) - 1023;
    bits = (bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL;
    double m;
    memcpy(&m, &bits, sizeof(m)); /* in [1, 2) */
    if (m > 1.41421356237309504880) {
        m *= 0.5;
        k++;
    }
    /* log m = 2 atanh((m-1)/(m+1)); |s| <= 0.1716, so s^25/25 < 1e-20 */
    double s = (m - 1.0) / (m + 1.0), s2 = s * s, s4 = s2 * s2;
    /* two chains that the processor works on at once: the even and the odd powers of s2 */
    double even = 1.0 / 25, odd = 1.0 / 23;
    static const double even_inverses[] = {1.0 / 21, 1.0 / 17, 1.0 / 13, 1.0 / 9, 1.0 / 5, 1.0};
    static const double odd_inverses[] = {1.0 / 19, 1.0 / 15, 1.0 / 11, 1.0 / 7, 1.0 / 3};
    for (int i = 0; i < 5; i++) {
        even = even * s4 + even_inverses[i];
        odd = odd * s4 + odd_inverses[i];
    }
    double sum = even * s4 + even_inverses[5] + s2 * odd;
    return (double)k * LN2_HI + (2.0 * s * sum + (double)k * LN2_LO);
}
