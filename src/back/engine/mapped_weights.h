/* mapped_weights.h - weights that a session maps from a file: they leave memory and come back while it stays open.
 *
 * To open a session on prepacked weights takes some 70 ms of a processor for 60 MB; to map their pages again takes 1
 * to 5. An open session without its weights keeps some hundred KB. The library does not tell where it maps a file, so
 * the process's list of mappings does (/proc/self/maps): what was added for the file while the session was opened. So
 * sessions on one file are opened and closed one at a time. Any thread; one thread at a time for each object. */
#pragma once

#include "core/util/error.h"

/* Mappings of sessions whose weights are out, in all of the process. A process may have 65,530 (vm.max_map_count). */
#define MAPPED_OUT_MOST 16384

struct mapped_weights;

/* Before a session is opened that maps the file. NULL: there is no such file, or no memory; then nothing is to be
 * ended. */
struct mapped_weights *mapped_weights_begin(const char *path);
/* After it was opened, or not. Returns `weights`, or NULL if nothing is mapped: it is freed. */
struct mapped_weights *mapped_weights_end(struct mapped_weights *weights);

/* Gives back the memory of the weights. The session must not run until they are in again. They stay if too many
 * mappings are out (-ENOSPC), or the file has been replaced (-ESTALE). */
int mapped_weights_out(struct mapped_weights *weights);
/* Reads the weights again, from the page cache or the disk. -errno with a sentence: the file is not what it was; the
 * session can only be closed. */
int mapped_weights_in(struct mapped_weights *weights, struct sy_error *err);

/* Before the session is closed, and after that. */
void mapped_weights_close_begin(struct mapped_weights *weights);
void mapped_weights_close_end(struct mapped_weights *weights);
