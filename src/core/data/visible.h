/* visible.h - memory that other processes of this host may map: a file without a name, whose descriptor is handed to
 * them over a Unix socket. The kernel keeps the file from shrinking: a process that reads a mapped file which has
 * shrunk would be killed. */
#pragma once

#include <stddef.h>

/* Makes a file of `bytes` bytes; only bytes that are written take memory. Returns the descriptor, or -errno. */
int visible_create(size_t bytes);
/* Maps a file of visible_create(), for reading and writing. NULL: the system refuses. */
void *visible_map(int fd, size_t bytes);
/* Maps, for reading, a file that another process has made by visible_create(). NULL: the descriptor is of another kind
 * of file, or the file has fewer bytes. */
const void *visible_look(int fd, size_t bytes);
