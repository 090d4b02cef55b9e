/* part_folders.c - folders of parts: their names, their notes, the processes that hold them, and those that are of no
 * use any more. */
#include "model/prefix/part_folders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/folder.h"
#include "core/system/log.h"
#include "core/system/temporary_folder.h"
#include "model/engine/fingerprint.h"

#define NOTE_FORMAT 1
#define NOTE        "split.json"
#define SUFFIX      ".parts"
#define TAG_DIGITS  8

/* ---- places ---- */

void part_owners_tag(const struct part_owner *owners, uint32_t count, char tag[FINGERPRINT_TEXT]) {
    struct fingerprint all = {{0, 0}};
    for (uint32_t i = 0; i < count; i++) {
        const struct fingerprint pair[] = {all, fingerprint_bytes(owners[i].contents, strlen(owners[i].contents))};
        all = fingerprint_bytes(pair, sizeof(pair));
    }
    fingerprint_format(&all, tag);
}

int part_folder_place(const char *kind, const struct part_owner *owners, uint32_t count,
                      const struct profile_options *how, char folder[SIDECAR_PATH_MAX], struct sy_error *err) {
    char key[512], tag[FINGERPRINT_TEXT];
    part_owners_tag(owners, count, tag);
    snprintf(key, sizeof(key), "%s %s %s %s", kind, how->engine->name, how->engine->version(), tag);
    return sidecar_path(owners[0].path, how->cache_dir, key, SUFFIX, folder, err);
}

int part_file(char path[SIDECAR_PATH_MAX], const char *folder, const char *file, uint32_t number,
              struct sy_error *err) {
    char name[64];
    snprintf(name, sizeof(name), file, number);
    return snprintf(path, SIDECAR_PATH_MAX, "%s/%s", folder, name) < SIDECAR_PATH_MAX
               ? 0
               : error_set(err, -ENAMETOOLONG, "%s: the path is too long", folder);
}

/* ---- who holds them ---- */

int part_folder_hold(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        flock(fd, LOCK_SH | LOCK_NB); /* where there are no locks, part_folder_remove() gets no lock, either */
    return fd;
}

void part_folder_release(int held) {
    if (held >= 0)
        close(held);
}

void part_folder_remove(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        folder_remove(folder);
    close(fd);
}

/* ---- notes ---- */

/* Makes the path of a file relative to a folder, so that both may be moved together. Links to folders are followed; a
 * link to the file is not, since files of weights lie beside the link. */
static int path_relative(const char *folder, const char *file, char path[SIDECAR_PATH_MAX]) {
    char from[PATH_MAX], to[2 * PATH_MAX], directory[SIDECAR_PATH_MAX];
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    size_t same = 0, used = 0;
    snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(name - file) : 1, slash ? file : ".");
    if (!realpath(folder, from) || !realpath(directory, to))
        return -errno;
    strcat(strcat(to, to[1] ? "/" : ""), name);
    for (size_t i = 0; from[i] == to[i] && from[i]; i++)
        if (from[i] == '/')
            same = i + 1;
    for (const char *c = from + same - 1; (c = strchr(c + 1, '/')) && used + 3 < SIDECAR_PATH_MAX; used += 3)
        memcpy(path + used, "../", 3);
    int length = snprintf(path + used, SIDECAR_PATH_MAX - used, "../%s", to + same);
    return length < (int)(SIDECAR_PATH_MAX - used) ? 0 : -ENAMETOOLONG;
}

json_t *part_note_new(const char *folder, const struct part_owner *owners, uint32_t count) {
    json_t *members = json_array();
    for (uint32_t i = 0; i < count; i++) {
        char path[SIDECAR_PATH_MAX];
        if (path_relative(folder, owners[i].path, path))
            snprintf(path, sizeof(path), "%s", owners[i].path);
        json_array_append_new(members, json_pack("{s:s, s:s, s:s}", "model", owners[i].name, "path", path, "contents",
                                                 owners[i].contents));
    }
    return json_pack("{s:i, s:o}", "format", NOTE_FORMAT, "members", members);
}

int part_note_write(const char *folder, json_t *note, struct sy_error *err) {
    char path[SIDECAR_PATH_MAX];
    char *text = note ? json_dumps(note, JSON_INDENT(2)) : NULL;
    json_decref(note);
    int rc = text ? part_file(path, folder, NOTE, 0, err) : error_set(err, -ENOMEM, "%s: no note can be made", folder);
    if (!rc)
        rc = sidecar_write(path, text, err);
    free(text);
    return rc;
}

/* NULL: there is no note that may be believed. */
static json_t *note_load(const char *folder) {
    char path[SIDECAR_PATH_MAX];
    bool believed = part_file(path, folder, NOTE, 0, NULL) == 0 && sidecar_believed(path);
    return believed ? json_load_file(path, 0, NULL) : NULL;
}

json_t *part_note_read(const char *folder, const struct part_owner *owners, uint32_t count) {
    json_t *note = note_load(folder), *members = json_object_get(note, "members");
    bool good = json_integer_value(json_object_get(note, "format")) == NOTE_FORMAT && json_array_size(members) == count;
    for (uint32_t i = 0; good && i < count; i++) {
        const char *contents = json_string_value(json_object_get(json_array_get(members, i), "contents"));
        good = contents && strcmp(contents, owners[i].contents) == 0;
    }
    if (!good)
        json_decref(note);
    return good ? note : NULL;
}

int part_refusal_write(const char *folder, const struct part_owner *owners, uint32_t count, const char *reason,
                       struct sy_error *err) {
    json_t *note = part_note_new(folder, owners, count);
    json_object_set_new(note, "refused", json_string(reason));
    return part_note_write(folder, note, err);
}

json_t *part_numbers_pack(const uint32_t *numbers, uint32_t count) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(numbers[i] == UINT32_MAX ? -1 : (json_int_t)numbers[i]));
    return list;
}

int part_numbers_read(const json_t *list, uint32_t count, uint32_t end, bool none, uint32_t *numbers) {
    if (!json_is_array(list) || json_array_size(list) != count)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        json_int_t n = json_integer_value(json_array_get(list, i));
        if (!json_is_integer(json_array_get(list, i)) || n >= (json_int_t)end || n < (none ? -1 : 0))
            return -EINVAL;
        numbers[i] = n < 0 ? UINT32_MAX : (uint32_t)n;
    }
    return 0;
}

/* ---- which are of no use any more ---- */

/* Finds the file of a member of a note. 0 with the path, or -errno. */
static int member_file(const char *folder, const json_t *member, char path[2 * SIDECAR_PATH_MAX], struct stat *st) {
    const char *said = json_string_value(json_object_get(member, "path"));
    if (!said)
        return -EINVAL;
    snprintf(path, 2 * SIDECAR_PATH_MAX, "%s%s%s", *said == '/' ? "" : folder, *said == '/' ? "" : "/", said);
    return stat(path, st) ? -errno : 0;
}

/* Whether the file of a member of a note has changed since it was cut, or is gone. */
static bool member_changed(const char *folder, const json_t *member) {
    const char *contents = json_string_value(json_object_get(member, "contents"));
    char path[2 * SIDECAR_PATH_MAX];
    struct stat st;
    int rc = contents ? member_file(folder, member, path, &st) : -EINVAL;
    if (rc)
        return rc == -ENOENT;
    return fingerprint_model_holds(path, contents) == 0; /* a file that cannot be read just now counts as the same */
}

/* Whether this model is the first owner of a folder's parts, and nobody can use them any more. */
static bool folder_stale(const char *folder, const char *model_path) {
    char first[2 * SIDECAR_PATH_MAX];
    struct stat of, model;
    json_t *note = note_load(folder), *members = json_object_get(note, "members");
    json_int_t format = json_integer_value(json_object_get(note, "format"));
    bool stale = false;
    size_t i;
    const json_t *member;
    if (format == NOTE_FORMAT && stat(model_path, &model) == 0 &&
        member_file(folder, json_array_get(members, 0), first, &of) == 0 && of.st_dev == model.st_dev &&
        of.st_ino == model.st_ino) {
        json_array_foreach(members, i, member) {
            stale |= member_changed(folder, member);
        }
    }
    json_decref(note);
    return stale;
}

/* Whether a file's name is STEM-TAG.parts. */
static bool is_named(const char *name, const char *stem, size_t length) {
    return strlen(name) == length + 1 + TAG_DIGITS + strlen(SUFFIX) && strncmp(name, stem, length) == 0 &&
           name[length] == '-' && strspn(name + length + 1, "0123456789abcdef") == TAG_DIGITS &&
           strcmp(name + length + 1 + TAG_DIGITS, SUFFIX) == 0;
}

void part_folders_tidy(const char *model_path, const char *cache_dir) {
    char any[SIDECAR_PATH_MAX], folder[2 * SIDECAR_PATH_MAX];
    if (access(model_path, F_OK) || sidecar_path(model_path, cache_dir, "", SUFFIX, any, NULL))
        return;
    char *stem = strrchr(any, '/');
    *stem++ = '\0';
    size_t length = strlen(stem) - strlen(SUFFIX) - TAG_DIGITS - 1;
    DIR *dir = opendir(any);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        snprintf(folder, sizeof(folder), "%s/%s", any, entry->d_name);
        if (!is_named(entry->d_name, stem, length) || !folder_stale(folder, model_path))
            continue;
        part_folder_remove(folder);
        if (access(folder, F_OK))
            log_info("parts of a model that has changed are removed", "folder=\"%s\"", folder);
    }
    if (dir)
        closedir(dir);
}

/* ---- finding or making parts ---- */

static int parts_make(const char *folder, const struct part_want *want, struct sy_error *err) {
    struct temporary_folder made;
    char prefix[SIDECAR_PATH_MAX + 8];
    snprintf(prefix, sizeof(prefix), "%s.making-", folder);
    int rc = temporary_folder_begin(&made, prefix, err);
    if (rc)
        return rc;
    rc = want->make(want->context, made.path, err);
    bool moved = !rc && rename(made.path, folder) == 0;
    if (!rc && !moved && errno != ENOTEMPTY && errno != EEXIST) /* else another server has just made them */
        rc = error_set(err, -errno, "%s: %s", folder, strerror(errno));
    if (moved)
        close(made.lock);
    else
        temporary_folder_remove(&made);
    return rc;
}

int part_folder_get(const char *folder, const struct part_want *want, int *held, json_t **note, struct sy_error *err) {
    *held = part_folder_hold(folder);
    *note = part_note_read(folder, want->owners, want->count);
    if (!*note) {
        part_folder_release(*held);
        *held = -1;
        part_folder_remove(folder); /* the folder is of other models, or broken */
        int rc = parts_make(folder, want, err);
        if (rc)
            return rc;
        *held = part_folder_hold(folder);
        *note = part_note_read(folder, want->owners, want->count);
        if (!*note)
            return error_set(err, -EIO, "%.400s: the note of the parts cannot be read", folder);
    }
    const char *refused = json_string_value(json_object_get(*note, "refused"));
    if (!refused)
        return 0;
    error_set(err, -EINVAL, "%.400s", refused);
    json_decref(*note);
    *note = NULL;
    return -EINVAL;
}
