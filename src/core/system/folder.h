/* folder.h - removes folders with all that lies in them; locks folders. */
#pragma once

/* Removes a folder with all that lies in it. Links are removed, not followed. Stops at the first thing that cannot be
 * removed. 0 or -errno. Any thread. */
int folder_remove(const char *path);
/* Locks a folder for as long as the calling process lives, so that other processes can tell which folders dead
 * processes have left. Returns the lock's descriptor; -1: another process has the lock, or the folder is gone. Any
 * thread. */
int folder_lock(const char *path);
