/* model_override.c - folders of models that clients bring along. */
#include "model/config/model_override.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/config/model_config.h"
#include "model/config/model_config_json.h"
#include "model/config/model_name.h"

void model_override_free(struct model_override *override) {
    for (uint32_t i = 0; i < override->file_count; i++)
        free(override->files[i].data);
    free(override->config);
}

/* Writes "FOLDER/NAME". 0 or -ENAMETOOLONG. */
static int join(char to[PATH_MAX], const char *folder, const char *name) {
    return snprintf(to, PATH_MAX, "%s/%s", folder, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int file_write(const char *folder, const char *name, const void *data, size_t bytes) {
    char path[PATH_MAX];
    int rc = join(path, folder, name), fd = rc ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (rc)
        return rc;
    if (fd < 0)
        return -errno;
    for (const char *at = data; rc == 0 && bytes > 0;) {
        ssize_t written = write(fd, at, bytes);
        if (written < 0 && errno != EINTR)
            rc = -errno;
        at += written > 0 ? written : 0;
        bytes -= written > 0 ? (size_t)written : 0;
    }
    return close(fd) < 0 && rc == 0 ? -errno : rc;
}

/* Makes links to all that the model's own folder holds, but not to its configuration if the override has one. */
static int own_link(const char *own, const char *folder, bool without_config) {
    DIR *dir = opendir(own);
    int rc = dir ? 0 : -errno;
    for (struct dirent *entry; rc == 0 && (errno = 0, entry = readdir(dir));) {
        char from[PATH_MAX], to[PATH_MAX];
        if (entry->d_name[0] == '.' || (without_config && strcmp(entry->d_name, MODEL_CONFIG_FILE) == 0))
            continue;
        rc = join(from, own, entry->d_name);
        rc = rc ? rc : join(to, folder, entry->d_name);
        rc = rc == 0 && symlink(from, to) < 0 ? -errno : rc;
    }
    rc = rc ? rc : -errno; /* of readdir() */
    if (dir)
        closedir(dir);
    return rc;
}

static int own_files(const struct model_override *override, const char *repository, const char *name,
                     const char *folder) {
    char own[PATH_MAX], real[PATH_MAX], version[PATH_MAX], to[PATH_MAX], flat[MODEL_NAME_MAX + 8];
    snprintf(flat, sizeof(flat), "%s.onnx", name);
    int rc = join(own, repository, name);
    if (rc == 0 && realpath(own, real))
        return own_link(real, folder, override->config != NULL);
    rc = rc ? rc : join(own, repository, flat);
    if (rc)
        return rc;
    if (!realpath(own, real))
        return -ENOENT;
    rc = join(version, folder, "1"); /* a flat file becomes version 1 */
    rc = rc ? rc : join(to, version, "model.onnx");
    return rc ? rc : mkdir(version, 0700) < 0 || symlink(real, to) < 0 ? -errno : 0;
}

static int given_files(const struct model_override *override, const char *folder) {
    int rc = 0;
    for (uint32_t i = 0; i < override->file_count && rc == 0; i++) {
        const struct override_file *file = &override->files[i];
        char version[PATH_MAX];
        rc = join(version, folder, file->version);
        rc = rc == 0 && mkdir(version, 0700) < 0 && errno != EEXIST ? -errno : rc;
        rc = rc ? rc : file_write(version, file->name, file->data, file->bytes);
    }
    return rc;
}

static int config_write(const struct model_override *override, const char *folder, struct sy_error *err) {
    struct text text;
    text_init(&text, NULL, 0);
    int rc = model_config_of_json(override->config, override->config_bytes, &text, err);
    if (rc == 0 && text.failed)
        rc = -ENOMEM;
    if (rc == 0)
        rc = file_write(folder, MODEL_CONFIG_FILE, text.data, text.length);
    text_free(&text);
    return rc;
}

int override_folder_make(const struct model_override *override, const char *repository, const char *name,
                         struct temporary_folder *folder, struct sy_error *err) {
    char model[PATH_MAX];
    struct sy_error why = {""};
    if (!model_name_is_valid(name) || name[0] == '.')
        return error_set(err, -EINVAL, "'%.100s' will not do as a model's name", name);
    if (override->file_count > 0 && !override->config)
        return error_set(err, -EINVAL, "a model of given files needs the parameter 'config' as well");
    int rc = temporary_folder_make(folder, NULL, err);
    if (rc)
        return rc;
    rc = join(model, folder->path, name);
    rc = rc == 0 && mkdir(model, 0700) < 0 ? -errno : rc;
    if (rc == 0)
        rc = override->file_count > 0 ? given_files(override, model) : own_files(override, repository, name, model);
    if (rc == 0 && override->config)
        rc = config_write(override, model, &why);
    if (rc) {
        temporary_folder_remove(folder);
        return rc == -ENOENT ? error_set(err, rc, "there is no model '%s' in the repository", name)
               : *why.text   ? error_set(err, rc, "%s", why.text)
                             : error_set(err, rc, "%s: %s", model, strerror(-rc));
    }
    return 0;
}
