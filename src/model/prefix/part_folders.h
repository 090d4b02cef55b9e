/* part_folders.h - the folders in which parts of models stay between starts: "STEM-TAG.parts" where the first model's
 * profile lies, each with a note `split.json`: whose parts they are (the models' files and their fingerprints), how
 * they fit together, or why no cut will do.
 *
 * A process holds the folders whose parts it serves (flock), so that no other removes them. Set-up, and the
 * repository's thread; no state. */
#pragma once

#include <jansson.h>

#include "model/engine/fingerprint.h"
#include "model/engine/sidecar.h"
#include "model/prefix/cut.h"
#include "model/profile/child.h"

/* A model whose parts lie in a folder; the first one of them says where it is. */
struct part_owner {
    const char *name, *path, *contents; /* its file, and the fingerprint of that */
};

/* A fingerprint of all owners' files together. */
void part_owners_tag(const struct part_owner *owners, uint32_t count, char tag[FINGERPRINT_TEXT]);
/* Where parts of these models lie, or are to lie: another folder for other files, another engine, or another `kind` of
 * parts. -errno with a sentence. */
int part_folder_place(const char *kind, const struct part_owner *owners, uint32_t count,
                      const struct profile_options *how, char folder[SIDECAR_PATH_MAX], struct sy_error *err);
/* FOLDER/FILE, whose %u is the number. -ENAMETOOLONG with a sentence. */
int part_file(char path[SIDECAR_PATH_MAX], const char *folder, const char *file, uint32_t number, struct sy_error *err);

/* Marks the folder as used by this process until part_folder_release(), which is given the number returned here; -1:
 * there is no folder. */
int part_folder_hold(const char *folder);
void part_folder_release(int held);
/* Removes the folder unless a process holds it. */
void part_folder_remove(const char *folder);
/* Removes the folders of parts whose first owner is this model, where the file of one of the owners has changed since
 * it was cut, or is gone. Folders that a process holds stay, and so does everything else beside them. */
void part_folders_tidy(const char *model_path, const char *cache_dir);

/* A new note of these models' parts, to be completed: `members` has an object for each. The folder is where it will
 * lie. NULL without memory. */
json_t *part_note_new(const char *folder, const struct part_owner *owners, uint32_t count);
/* Writes a note, and frees it, errors or not. */
int part_note_write(const char *folder, json_t *note, struct sy_error *err);
/* The folder's note; NULL if there is none that may be believed (sidecar_believed()), or of other models or files. */
json_t *part_note_read(const char *folder, const struct part_owner *owners, uint32_t count);
/* Writes a note of why no cut will do. */
int part_refusal_write(const char *folder, const struct part_owner *owners, uint32_t count, const char *reason,
                       struct sy_error *err);
/* Lists of numbers; UINT32_MAX is written as -1. part_numbers_read() wants `count` numbers below `end`, or -1 where
 * `none` allows that: 0 or -EINVAL. */
json_t *part_numbers_pack(const uint32_t *numbers, uint32_t count);
int part_numbers_read(const json_t *list, uint32_t count, uint32_t end, bool none, uint32_t *numbers);
/* ---- finding or making parts ---- */

/* Whose parts are wanted, and how they are made if there are none. */
struct part_want {
    const struct part_owner *owners;
    uint32_t count;
    /* Makes them and their note, which may be a refusal, in the empty folder `made`. -errno with a sentence. */
    int (*make)(void *context, const char *made, struct sy_error *err);
    void *context;
};

/* Finds the folder's parts, or makes them in a folder beside it, which is then moved there; if another server has made
 * them meanwhile, those are kept. 0 with their note. -EINVAL: the note is a refusal, which is the sentence; or -errno
 * with one. This process holds the folder: *held is for part_folder_release(), errors or not. */
int part_folder_get(const char *folder, const struct part_want *want, int *held, json_t **note, struct sy_error *err);
