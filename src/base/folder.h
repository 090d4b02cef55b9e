/* folder.h - removes a folder with all that lies in it. */
#pragma once

/* Links are removed, not followed. What cannot be removed stays, and the rest is tried no more. 0 or -errno. Any
 * thread. */
int folder_remove(const char *path);
