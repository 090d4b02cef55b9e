/* whatif_check.h - `symphony whatif --check`: decides again what a server's threads have logged. */
#pragma once

/* Replays every log in a folder, and prints a line for each. The exit status: 1 if a core says something else. */
int whatif_check(const char *folder);
