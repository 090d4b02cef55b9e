/* access_log.h - writes the trails of requests (core/data/trail.h) into a file, a JSON object a line, as they are
 * noted.
 *
 * A thread of its own reads the frontends' rings, so no request waits for the file. Trails that are overwritten before
 * they are read, and lines that the file does not take, are counted and said in the log. */
#pragma once

#include "server/threads/model_list.h"

struct access_log;

/* `path`: file to append to, created if need be; "-": standard output. The list outlives the log. 0 or -errno with a
 * sentence. */
int access_log_start(struct access_log **log, struct model_list *models, const char *path, struct sy_error *err);
/* Opens the path anew, for who has renamed the file. Any thread. NULL is allowed. */
void access_log_reopen(struct access_log *log);
/* Writes what was noted, and ends; call it when no frontend notes any more. NULL is allowed. */
void access_log_stop(struct access_log *log);
