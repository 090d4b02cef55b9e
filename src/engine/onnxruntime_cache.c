/* onnxruntime_cache.c - keeps and checks the files of optimised models. */
#include "engine/onnxruntime_cache.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "engine/fingerprint.h"

static const char *const format_names[CACHE_FORMATS] = {"prepacked", "ort", "none"};

const char *cache_format_name(enum cache_format format) {
    return format_names[format];
}

/* Who made it and on what: another version of the engine or another processor has a cache of its own. */
static void key_compose(const struct engine_options *options, char *key, size_t size) {
    char accelerator[256];
    accelerator_type(options->provider, options->device, accelerator, sizeof(accelerator));
    snprintf(key, size, "onnxruntime %s %s", OrtGetApiBase()->GetVersionString(), accelerator);
}

/* Files as the verdict remembers them. */

/* Bytes of a path up to its last slash, that included. */
static int folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash + 1 - path) : 0;
}

/* Adds a file to a list; its name is remembered from byte `folder` of its path. */
static int stamp_append(json_t *list, const char *path, int folder, struct sy_error *err) {
    char text[FINGERPRINT_TEXT];
    struct stat st;
    struct fingerprint fingerprint;
    int rc = fingerprint_file(path, &fingerprint, err);
    if (rc)
        return rc;
    if (stat(path, &st))
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    fingerprint_format(&fingerprint, text);
    json_t *stamp =
        json_pack("{s:s, s:I, s:I, s:s}", "name", path + folder, "bytes", (json_int_t)st.st_size, "modified_ns",
                  (json_int_t)(st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec), "fingerprint", text);
    return json_array_append_new(list, stamp) ? error_set(err, -ENOMEM, "no memory for the verdict") : 0;
}

/* Whether the file is still the one of the stamp. Same size and time of change: it is believed to be; the same size at
 * another time (a copy): its fingerprint decides. */
static bool stamp_holds(const json_t *stamp, const char *path) {
    json_int_t bytes, modified_ns;
    const char *want;
    char text[FINGERPRINT_TEXT];
    struct stat st;
    struct fingerprint fingerprint;
    if (json_unpack((json_t *)stamp, "{s:I, s:I, s:s}", "bytes", &bytes, "modified_ns", &modified_ns, "fingerprint",
                    &want) ||
        stat(path, &st) || st.st_size != bytes)
        return false;
    if (st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec == modified_ns)
        return true;
    if (fingerprint_file(path, &fingerprint, NULL))
        return false;
    fingerprint_format(&fingerprint, text);
    return strcmp(text, want) == 0;
}

/* Whether all files of a list, in the folder of `beside`, are what they were. `path` becomes the last one's. */
static bool stamps_hold(const json_t *list, const char *beside, char path[SIDECAR_PATH_MAX]) {
    size_t i;
    json_t *stamp;
    json_array_foreach(list, i, stamp) {
        const char *name = json_string_value(json_object_get(stamp, "name"));
        if (!name ||
            snprintf(path, SIDECAR_PATH_MAX, "%.*s%s", folder_length(beside), beside, name) >= SIDECAR_PATH_MAX ||
            !stamp_holds(stamp, path))
            return false;
    }
    return i > 0;
}

/* Drafts. */

static void folder_remove(const char *folder) {
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(folder);
}

/* Removes drafts of this verdict whose maker died, as makers do: that is why they are child processes. */
static void drafts_sweep(const char *verdict) {
    char folder[SIDECAR_PATH_MAX], path[2 * SIDECAR_PATH_MAX];
    const char *name = strrchr(verdict, '/') + 1;
    snprintf(folder, sizeof(folder), "%.*s", (int)(name - verdict), verdict);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strncmp(entry->d_name, name, strlen(name)) != 0 || strncmp(entry->d_name + strlen(name), ".draft-", 7) != 0)
            continue;
        pid_t maker = (pid_t)atoi(entry->d_name + strlen(name) + 7);
        snprintf(path, sizeof(path), "%s%s", folder, entry->d_name);
        if (maker <= 0 || maker == getpid() || (kill(maker, 0) && errno == ESRCH))
            folder_remove(path);
    }
    if (dir)
        closedir(dir);
}

int cache_draft_open(struct cache_draft *draft, const char *model_path, const struct engine_options *options,
                     enum cache_format format, struct sy_error *err) {
    char key[512], stem[256];
    memset(draft, 0, sizeof(*draft));
    draft->format = format;
    key_compose(options, key, sizeof(key));
    int rc = sidecar_path(model_path, options->cache_dir, key, ".cache.json", draft->verdict, err);
    if (rc)
        return rc;
    drafts_sweep(draft->verdict);
    const char *name = strrchr(draft->verdict, '/') + 1;
    snprintf(stem, sizeof(stem), "%.*s", (int)(strlen(name) - strlen(".json")), name);
    snprintf(draft->folder, sizeof(draft->folder), "%s.draft-%d", draft->verdict, (int)getpid());
    snprintf(draft->model, sizeof(draft->model), "%s/%s.%s", draft->folder, stem, format == CACHE_ORT ? "ort" : "onnx");
    if (format == CACHE_PREPACKED)
        snprintf(draft->weights, sizeof(draft->weights), "%.240s.weights", stem);
    if (mkdir(draft->folder, 0777))
        return error_set(err, -errno, "%s: %s", draft->folder, strerror(errno));
    return 0;
}

/* Moves one file of the draft beside the verdict and adds it to the list. */
static int file_commit(const struct cache_draft *draft, const char *from, json_t *files, struct sy_error *err) {
    char to[2 * SIDECAR_PATH_MAX];
    int folder = folder_length(draft->verdict);
    snprintf(to, sizeof(to), "%.*s%s", folder, draft->verdict, from + folder_length(from));
    if (rename(from, to))
        return error_set(err, -errno, "%s: %s", to, strerror(errno));
    return stamp_append(files, to, folder, err);
}

struct stamp_list {
    json_t *list;
    int folder;
};

static int model_stamp(void *context, const char *file, struct sy_error *err) {
    const struct stamp_list *to = context;
    if (access(file, F_OK)) /* the engine loaded the model without it, so it is none of its files */
        return 0;
    return stamp_append(to->list, file, to->folder, err);
}

int cache_draft_commit(struct cache_draft *draft, const char *model_path, const struct engine_options *options,
                       const char *reason, struct sy_error *err) {
    char key[512], weights[2 * SIDECAR_PATH_MAX];
    json_t *files = json_array();
    struct stamp_list model = {.list = json_array(), .folder = folder_length(model_path)};
    key_compose(options, key, sizeof(key));
    int rc = model_files_each(model_path, model_stamp, &model, err);
    snprintf(weights, sizeof(weights), "%s/%s", draft->folder, draft->weights);
    if (!rc && *draft->weights && access(weights, F_OK) == 0) /* a tiny model may have none */
        rc = file_commit(draft, weights, files, err);
    if (!rc && draft->format != CACHE_NONE)
        rc = file_commit(draft, draft->model, files, err);
    json_t *verdict =
        json_pack("{s:i, s:s, s:s, s:s, s:o, s:o}", "symphony_cache", 1, "made_by", key, "format",
                  cache_format_name(draft->format), "reason", reason, "model", model.list, "files", files);
    char *text = verdict ? json_dumps(verdict, JSON_INDENT(2)) : NULL;
    if (!rc)
        rc = text ? sidecar_write(draft->verdict, text, err) : error_set(err, -ENOMEM, "no memory for the verdict");
    free(text);
    json_decref(verdict);
    return rc;
}

void cache_draft_close(struct cache_draft *draft) {
    folder_remove(draft->folder);
}

/* Use. */

/* The format a verdict allows, or CACHE_NONE; *why says what is wrong with the cache, NULL if nothing. */
static enum cache_format verdict_read(const json_t *verdict, const char *verdict_path, const char *model_path,
                                      const char *key, char *path, const char **why) {
    const char *made_by, *format;
    json_t *model, *files;
    *why = "the verdict cannot be read";
    if (json_unpack((json_t *)verdict, "{s:s, s:s, s:o, s:o}", "made_by", &made_by, "format", &format, "model", &model,
                    "files", &files) ||
        strcmp(made_by, key) != 0)
        return CACHE_NONE;
    *why = "the model has changed since";
    if (!stamps_hold(model, model_path, path))
        return CACHE_NONE;
    for (int f = 0; f < CACHE_FORMATS; f++)
        if (strcmp(format, format_names[f]) == 0) {
            *why =
                f == CACHE_NONE || stamps_hold(files, verdict_path, path) ? NULL : "its files are missing or damaged";
            return *why ? CACHE_NONE : f; /* path is the last file's, the model */
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
