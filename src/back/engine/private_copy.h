/* private_copy.h - copies of models with separate files of weights, which no other user can change.
 *
 * ONNX Runtime maps files of weights for as long as a session lives. If such a file were overwritten in place, answers
 * would change; if it were cut short, the model would have to be loaded anew (lost_pages.h), from files that are not
 * there any more. So sessions are opened on a copy, in a folder that only this user can enter. All sessions of this
 * process on the same files share one copy, on disk: its pages are in memory once, and the system can take them back.
 * Any thread. */
#pragma once

struct private_copy;

/* Returns the path at which to open a model: the path of a copy, with a reference to the copy in *copy. The copy is
 * made if there is none of the files as they are now. Or returns model_path, with *copy NULL, in two cases. The model
 * names no other files, and the library reads the model's own file at once. Or the files cannot be copied, which is
 * logged. */
const char *private_copy_open(const char *model_path, struct private_copy **copy);
/* Gives a reference back; the last one removes the copy. NULL is allowed. */
void private_copy_put(struct private_copy *copy);
