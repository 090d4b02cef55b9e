/* files.h - how many files the process may have open at once. */
#pragma once

#include <stdint.h>

/* Raises the limit to `wanted`, or as far as the process may; a higher limit stays. Returns the limit then. Any thread,
 * at set-up. */
uint64_t files_allow(uint64_t wanted);
