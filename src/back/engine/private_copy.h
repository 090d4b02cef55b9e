/* private_copy.h - models with weights in files of their own, as nobody else can change them.
 *
 * ONNX Runtime maps such files for as long as a session lives. Overwritten in place they would change answers, and cut
 * short they would end the process (SIGBUS). So sessions are opened on a copy, in a folder that only this user can
 * enter. All sessions of this process on the same files share one copy, on disk: its pages are in memory once, and the
 * system can take them back. Any thread. */
#pragma once

struct private_copy;

/* The path to open a model at: of its copy, which is made if there is none of its files as they are now, and of which
 * *copy is a reference. Or model_path itself, with *copy NULL: the model names no other files, and the library reads
 * its own at once; or they cannot be copied, which is logged. */
const char *private_copy_open(const char *model_path, struct private_copy **copy);
/* Gives a reference back; the last one removes the copy. NULL is allowed. */
void private_copy_put(struct private_copy *copy);
