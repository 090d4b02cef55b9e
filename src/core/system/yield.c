/* yield.c - the function of each thread for yield points. */
#include "core/system/yield.h"

#include <stddef.h>

_Thread_local void (*yield_here)(void) = NULL;
