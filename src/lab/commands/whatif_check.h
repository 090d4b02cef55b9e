/* whatif_check.h - `symphony whatif --check`: makes the logged decisions of a server's threads again. */
#pragma once

/* Replays every log in a folder, and prints a line for each. Returns the exit status: 1 if a core decides otherwise
 * than the log. */
int whatif_check(const char *folder);
