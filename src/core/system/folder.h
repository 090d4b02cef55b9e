/* folder.h - removes a folder with all that lies in it; locks one. */
#pragma once

/* Links are removed, not followed. Stops at the first thing that cannot be removed. 0 or -errno. Any thread. */
int folder_remove(const char *path);
/* Locks a folder while its maker lives, so that others can tell what a dead one has left. Returns the lock's
 * descriptor, or -1: somebody else has the lock, or the folder is gone. Any thread. */
int folder_lock(const char *path);
