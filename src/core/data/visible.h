/* visible.h - memory that other processes of this host may map: a file without a name, whose descriptor is handed to
 * them over a Unix socket. The kernel keeps it from shrinking, so that no process that has mapped it is killed for
 * reading it. */
#pragma once

#include <stddef.h>

/* A file of so many bytes, of which only those that are written take memory. The descriptor, or -errno. */
int visible_create(size_t bytes);
/* Maps it, for reading and writing. NULL: the system refuses. */
void *visible_map(int fd, size_t bytes);
/* Maps what another process has made, for reading. NULL: it is no such file, or has fewer bytes. */
const void *visible_look(int fd, size_t bytes);
