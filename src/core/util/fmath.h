/* fmath.h - exp and log whose bits do not depend on the C library or the processor, for the pure code. Relative error
 * under 1e-12; IEEE doubles without contraction are assumed. */
#pragma once

double fmath_exp(double x);
/* The logarithm of x > 0. For x <= 0 the result is -745, not -infinity. */
double fmath_log(double x);
