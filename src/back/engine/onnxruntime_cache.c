/* onnxruntime_cache.c - keeps and checks the files of optimised models. */
#include "back/engine/onnxruntime_cache.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/files.h"
#include "core/system/log.h"
#include "core/util/time.h"
#include "model/engine/fingerprint.h"

static const char *const format_names[CACHE_FORMATS] = {"prepacked", "ort", "none"};

const char *cache_format_name(enum cache_format format) {
    return format_names[format];
}

/* The maker of a cache and its processor: another version of the engine or another processor has a cache of its own. */
static void key_compose(const struct engine_options *options, char *key, size_t size) {
    char accelerator[256];
    accelerator_type(options->provider, options->device, accelerator, sizeof(accelerator));
    snprintf(key, size, "onnxruntime %s %s", OrtGetApiBase()->GetVersionString(), accelerator);
}

/* Files as the verdict remembers them. */

/* Bytes of a path up to and including its last slash. */
static int folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash + 1 - path) : 0;
}

static json_int_t nanoseconds(const struct timespec *time) {
    return (json_int_t)(time->tv_sec * NS_PER_S + time->tv_nsec);
}

/* Adds a file to a list, by its name from byte `folder` of its path on. */
static int stamp_append(json_t *list, const char *path, int folder, struct sy_error *err) {
    char text[FINGERPRINT_TEXT];
    struct stat st;
    struct fingerprint fingerprint;
    if (stat(path, &st)) /* before reading it, so that a change meanwhile shows as another time */
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    int rc = fingerprint_file(path, &fingerprint, err);
    if (rc)
        return rc;
    fingerprint_format(&fingerprint, text);
    json_t *stamp = json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "name", path + folder, "bytes", (json_int_t)st.st_size,
                              "modified_ns", nanoseconds(&st.st_mtim), "changed_ns", nanoseconds(&st.st_ctim), "inode",
                              (json_int_t)st.st_ino, "fingerprint", text);
    return json_array_append_new(list, stamp) ? error_set(err, -ENOMEM, "no memory for the verdict") : 0;
}

/* Whether the file is still the one of the stamp. It is if its size, both times and inode are the same. If only its
 * size is the same, its fingerprint decides. The time of modification alone is not enough: whoever writes a file can
 * set it (cp -p, rsync -t, images whose times are all set to one), and a model that was trained again has the same
 * size. Only the system sets the time of change. */
static bool stamp_holds(const json_t *stamp, const char *path) {
    json_int_t bytes, modified_ns, changed_ns = 0, inode = 0; /* older verdicts lack some of these */
    const char *want;
    char text[FINGERPRINT_TEXT];
    struct stat st;
    struct fingerprint fingerprint;
    if (json_unpack((json_t *)stamp, "{s:I, s:I, s?I, s?I, s:s}", "bytes", &bytes, "modified_ns", &modified_ns,
                    "changed_ns", &changed_ns, "inode", &inode, "fingerprint", &want) ||
        stat(path, &st) || st.st_size != bytes)
        return false;
    if (nanoseconds(&st.st_mtim) == modified_ns && nanoseconds(&st.st_ctim) == changed_ns &&
        (json_int_t)st.st_ino == inode)
        return true;
    if (fingerprint_file(path, &fingerprint, NULL))
        return false;
    fingerprint_format(&fingerprint, text);
    return strcmp(text, want) == 0;
}

/* Whether all files of a list, in the folder of `beside`, are unchanged; with `derived`, also whether no other user may
 * write them. `path` becomes the path of the last file that was looked at. */
static bool stamps_hold(const json_t *list, const char *beside, bool derived, char path[SIDECAR_PATH_MAX]) {
    size_t i;
    json_t *stamp;
    json_array_foreach(list, i, stamp) {
        const char *name = json_string_value(json_object_get(stamp, "name"));
        if (!name ||
            snprintf(path, SIDECAR_PATH_MAX, "%.*s%s", folder_length(beside), beside, name) >= SIDECAR_PATH_MAX ||
            (derived && files_private(path, NULL)) || !stamp_holds(stamp, path))
            return false;
    }
    return i > 0;
}

/* Drafts. */

struct stamp_list {
    json_t *list;
    int folder;
};

static int model_stamp(void *context, const char *file, struct sy_error *err) {
    const struct stamp_list *to = context;
    if (access(file, F_OK)) /* the engine loads the model without this file, so it does not belong to the model */
        return 0;
    return stamp_append(to->list, file, to->folder, err);
}

int cache_draft_open(struct cache_draft *draft, const char *model_path, const struct engine_options *options,
                     enum cache_format format, struct sy_error *err) {
    char key[512], stem[256], prefix[SIDECAR_PATH_MAX + 8];
    memset(draft, 0, sizeof(*draft));
    draft->format = format;
    key_compose(options, key, sizeof(key));
    int rc = sidecar_path(model_path, options->cache_dir, key, ".cache.json", draft->verdict, err);
    if (rc)
        return rc;
    const char *name = strrchr(draft->verdict, '/') + 1;
    snprintf(stem, sizeof(stem), "%.*s", (int)(strlen(name) - strlen(".json")), name);
    draft->contents = json_array();
    rc = model_files_each(model_path, model_stamp,
                          &(struct stamp_list){.list = draft->contents, .folder = folder_length(model_path)}, err);
    snprintf(prefix, sizeof(prefix), "%s.draft-", draft->verdict);
    if (!rc)
        rc = temporary_folder_begin(&draft->folder, prefix, err);
    if (rc) {
        json_decref(draft->contents);
        return rc;
    }
    snprintf(draft->model, sizeof(draft->model), "%s/%s.%s", draft->folder.path, stem,
             format == CACHE_ORT ? "ort" : "onnx");
    if (format == CACHE_PREPACKED)
        snprintf(draft->weights, sizeof(draft->weights), "%.240s.weights", stem);
    return 0;
}

/* Moves one file of the draft beside the verdict and adds it to the list. */
static int file_commit(const struct cache_draft *draft, const char *from, json_t *files, struct sy_error *err) {
    char to[2 * SIDECAR_PATH_MAX];
    int folder = folder_length(draft->verdict);
    snprintf(to, sizeof(to), "%.*s%s", folder, draft->verdict, from + folder_length(from));
    if (chmod(from, 0600) || rename(from, to))
        return error_set(err, -errno, "%s: %s", to, strerror(errno));
    return stamp_append(files, to, folder, err);
}

int cache_draft_commit(struct cache_draft *draft, const char *model_path, const struct engine_options *options,
                       const char *reason, struct sy_error *err) {
    char key[512], weights[2 * SIDECAR_PATH_MAX], owner[SIDECAR_PATH_MAX], path[SIDECAR_PATH_MAX];
    json_t *files = json_array();
    int rc = 0;
    key_compose(options, key, sizeof(key));
    sidecar_owner(model_path, draft->verdict, owner);
    if (!stamps_hold(draft->contents, model_path, false, path))
        rc = error_set(err, -EBUSY, "%s has changed while a copy of it was being made", model_path);
    snprintf(weights, sizeof(weights), "%s/%s", draft->folder.path, draft->weights);
    if (!rc && *draft->weights && access(weights, F_OK) == 0) /* a tiny model may have none */
        rc = file_commit(draft, weights, files, err);
    if (!rc && draft->format != CACHE_NONE)
        rc = file_commit(draft, draft->model, files, err);
    json_t *verdict =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:O, s:o}", "symphony_cache", 1, "made_by", key, "of", owner, "format",
                  cache_format_name(draft->format), "reason", reason, "model", draft->contents, "files", files);
    char *text = verdict ? json_dumps(verdict, JSON_INDENT(2)) : NULL;
    if (!rc)
        rc = text ? sidecar_write(draft->verdict, text, err) : error_set(err, -ENOMEM, "no memory for the verdict");
    free(text);
    json_decref(verdict);
    return rc;
}

void cache_draft_close(struct cache_draft *draft) {
    temporary_folder_remove(&draft->folder);
    json_decref(draft->contents);
}

/* Use. */

/* The format a verdict allows, or CACHE_NONE; *why says what is wrong with the cache, NULL if nothing. */
static enum cache_format verdict_read(const json_t *verdict, const char *verdict_path, const char *model_path,
                                      const char *key, char *path, const char **why) {
    const char *made_by, *of = "", *format;
    char owner[SIDECAR_PATH_MAX];
    json_t *model, *files;
    *why = "the verdict cannot be read";
    if (json_unpack((json_t *)verdict, "{s:s, s?s, s:s, s:o, s:o}", "made_by", &made_by, "of", &of, "format", &format,
                    "model", &model, "files", &files) ||
        strcmp(made_by, key) != 0)
        return CACHE_NONE;
    *why = "it is of another model";
    sidecar_owner(model_path, verdict_path, owner);
    if (strcmp(of, owner) != 0)
        return CACHE_NONE;
    *why = "the model has changed since";
    if (!stamps_hold(model, model_path, false, path))
        return CACHE_NONE;
    for (int f = 0; f < CACHE_FORMATS; f++)
        if (strcmp(format, format_names[f]) == 0) {
            *why = f == CACHE_NONE || stamps_hold(files, verdict_path, true, path)
                       ? NULL
                       : "its files are missing or damaged, or others may write them";
            return *why ? CACHE_NONE : f; /* path is that of the last file, the model */
        }
    *why = "the verdict names a format that is not known";
    return CACHE_NONE;
}

enum cache_format cache_find(const char *model_path, const struct engine_options *options,
                             char path[SIDECAR_PATH_MAX]) {
    char key[512], verdict_path[SIDECAR_PATH_MAX];
    key_compose(options, key, sizeof(key));
    if (sidecar_find(model_path, options->cache_dir, key, ".cache.json", verdict_path))
        return CACHE_NONE;
    const char *why;
    json_t *verdict = json_load_file(verdict_path, 0, NULL);
    enum cache_format format = verdict_read(verdict, verdict_path, model_path, key, path, &why);
    json_decref(verdict);
    if (why)
        log_warn("optimised model not used", "model=\"%s\" verdict=\"%s\" reason=\"%s\"", model_path, verdict_path,
                 why);
    return format;
}
