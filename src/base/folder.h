/* folder.h - removes a folder with all that lies in it. */
#pragma once

/* Links are removed, not followed. Stops at the first thing that cannot be removed. 0 or -errno. Any thread. */
int folder_remove(const char *path);
