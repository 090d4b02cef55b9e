/* lost_pages.h - pages of mapped files that can no longer be read.
 *
 * The library maps files of weights. If such a file is cut short, or its disk or file server fails, the access traps
 * (SIGBUS), which would end the process with all its models. So while a thread is between lost_pages_begin() and
 * lost_pages_end(), a page that cannot be read becomes a page of zeros. What was computed from it is wrong and must not
 * be used, and the mapping must not be used again. Elsewhere the trap still ends the process. A trap costs its thread
 * some microseconds for each page, and other threads nothing. */
#pragma once

#include <stdbool.h>

/* Handles the signal from now on. Any thread; may be called more than once. */
void lost_pages_mend(void);

/* From now on, pages that this thread cannot read become zeros. Not to be nested. */
void lost_pages_begin(void);
/* Ends that. True: there were such pages. */
bool lost_pages_end(void);
