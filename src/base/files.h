/* files.h - how many files the process may have open at once. */
#pragma once

#include <stdint.h>

/* Raises the limit to `wanted`, as far as the process may. How many it is then; the limit as it is, if that is more.
 * Any thread, at set-up. */
uint64_t files_allow(uint64_t wanted);
