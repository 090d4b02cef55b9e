/* division.h - integer divisions at which x86-64 traps: by 0, and of the least number by -1.
 *
 * ONNX Runtime divides what clients send (Div, Mod, STFT, ...) without a look at it, and the trap, SIGFPE, would end
 * the process with all its models. So such a division in a library gives what it gives on 64-bit Arm, which does not
 * trap: by 0 the quotient is 0 and the remainder the dividend; of the least number by -1 they are that number and 0. A
 * trap costs its run some microseconds, and other runs nothing. The program's own code traps as before: there it is a
 * defect. Elsewhere than on x86-64 nothing is done. */
#pragma once

#include <stdbool.h>

/* From now on divisions in libraries do not trap. SYMPHONY_TEST_TRAPS in the environment, for tests: they do. Any
 * thread, more than once. */
void division_traps_mend(void);

#ifdef __x86_64__
/* Does the division at which a thread has trapped, and goes on behind it. `gregs`: its registers, as
 * ucontext_t.uc_mcontext has them. False: there is no such division; nothing has changed. Async-signal-safe. */
bool division_repair(long long *gregs);
#endif
