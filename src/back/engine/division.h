/* division.h - integer divisions at which x86-64 traps: by 0, and of the least number by -1.
 *
 * ONNX Runtime divides numbers that clients send (Div, Mod, STFT, ...) without checking them, and the trap, SIGFPE,
 * would end the process with all its models. So such a division in a library has the result that it has on 64-bit Arm,
 * which does not trap. By 0, the quotient is 0 and the remainder is the dividend. Of the least number by -1, the
 * quotient is the least number and the remainder is 0. A trap costs its run some microseconds, and other runs nothing.
 * In the program's own code such a division still traps, since there it is a defect. On processors other than x86-64
 * nothing is done. */
#pragma once

#include <stdbool.h>

/* From now on, divisions in libraries do not end the process. With SYMPHONY_TEST_TRAPS in the environment, for tests,
 * they still do. Any thread; may be called more than once. */
void division_traps_mend(void);

#ifdef __x86_64__
/* Does the division at which a thread has trapped, and lets the thread go on behind the division. `gregs`: registers of
 * the thread, as ucontext_t.uc_mcontext has them. False: there is no such division; nothing has changed.
 * Async-signal-safe. */
bool division_repair(long long *gregs);
#endif
