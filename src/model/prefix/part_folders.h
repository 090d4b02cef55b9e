/* part_folders.h - the folders in which parts of models stay between starts: "STEM-TAG.parts" beside the first model's
 * profile. In each folder a note, `split.json`, says which models the parts belong to (files and fingerprints) and how
 * they fit together, or why no cut will do.
 *
 * A process holds the folders whose parts it serves (flock), so that no other process removes them. For set-up and the
 * repository's thread; no state. */
#pragma once

#include <jansson.h>

#include "model/engine/fingerprint.h"
#include "model/engine/sidecar.h"
#include "model/prefix/cut.h"
#include "model/profile/child.h"

/* A model whose parts lie in a folder. The first of these models decides where the folder is. */
struct part_owner {
    const char *name, *path, *contents; /* name, path of the file, and fingerprint of the file */
};

/* Makes a fingerprint of all owners' files together. */
void part_owners_tag(const struct part_owner *owners, uint32_t count, char tag[FINGERPRINT_TEXT]);
/* Finds the folder in which parts of these models lie, or are to lie. Other files, another engine, or another `kind` of
 * parts have another folder. 0, or -errno with a sentence. */
int part_folder_place(const char *kind, const struct part_owner *owners, uint32_t count,
                      const struct profile_options *how, char folder[SIDECAR_PATH_MAX], struct sy_error *err);
/* Writes the path FOLDER/FILE; a %u in `file` becomes `number`. 0, or -ENAMETOOLONG with a sentence. */
int part_file(char path[SIDECAR_PATH_MAX], const char *folder, const char *file, uint32_t number, struct sy_error *err);

/* Marks the folder as used by this process until part_folder_release(). Returns a number for part_folder_release(); -1:
 * there is no folder. */
int part_folder_hold(const char *folder);
void part_folder_release(int held);
/* Removes the folder unless a process holds it. */
void part_folder_remove(const char *folder);
/* Removes those folders of parts whose first owner is this model and of which some owner's file is gone or has changed
 * since it was cut. Folders that a process holds stay, and so does everything else beside them. */
void part_folders_tidy(const char *model_path, const char *cache_dir);

/* Makes a note of these models' parts, for the caller to complete: `members` has an object for each model. `folder`:
 * where the note will lie. NULL: out of memory. */
json_t *part_note_new(const char *folder, const struct part_owner *owners, uint32_t count);
/* Writes a note into the folder, and frees the note, errors or not. */
int part_note_write(const char *folder, json_t *note, struct sy_error *err);
/* Reads the folder's note. NULL: there is no note that may be believed (sidecar_believed()), or it is of other models
 * or files. */
json_t *part_note_read(const char *folder, const struct part_owner *owners, uint32_t count);
/* Writes a note that says why no cut will do. */
int part_refusal_write(const char *folder, const struct part_owner *owners, uint32_t count, const char *reason,
                       struct sy_error *err);
/* Write and read lists of numbers in notes; UINT32_MAX is written as -1. part_numbers_read() wants `count` numbers
 * below `end`, or -1 where `none` allows that. 0 or -EINVAL. */
json_t *part_numbers_pack(const uint32_t *numbers, uint32_t count);
int part_numbers_read(const json_t *list, uint32_t count, uint32_t end, bool none, uint32_t *numbers);
/* ---- finding or making parts ---- */

/* The models whose parts are wanted, and the way to make the parts if there are none. */
struct part_want {
    const struct part_owner *owners;
    uint32_t count;
    /* Makes the parts and their note, which may be a refusal, in the empty folder `made`. -errno with a sentence. */
    int (*make)(void *context, const char *made, struct sy_error *err);
    void *context;
};

/* Finds the folder's parts, or makes them in another folder beside it, which is then renamed to `folder`; if another
 * server has made parts there meanwhile, those are kept. 0 with the note of the parts; -EINVAL: the note is a refusal,
 * which is the sentence; or -errno with a sentence. This process holds the folder: part_folder_release() takes *held,
 * errors or not. */
int part_folder_get(const char *folder, const struct part_want *want, int *held, json_t **note, struct sy_error *err);
