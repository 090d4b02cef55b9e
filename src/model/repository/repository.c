/* repository.c - finds the models of directories. */
#include "model/repository/repository.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/files.h"
#include "core/system/log.h"
#include "core/util/array.h"
#include "core/util/utf8.h"
#include "model/config/model_config.h"
#include "model/config/model_name.h"
#include "model/config/symphony_yaml.h"
#include "model/config/version_choice.h"

#define MODEL_FILE       "model.onnx"
#define ONNX_SUFFIX      ".onnx"
#define GIT_POINTER_MOST 1024 /* no pointer of Git LFS has as many bytes */

struct model_list {
    const struct repositories *from;
    struct served_model *models;
    uint32_t count;
    struct sy_error *err;
};

/* ---- paths ---- */

/* Joins two paths. False: the result does not fit. */
static bool path_join(char to[PATH_MAX], const char *folder, const char *name) {
    return snprintf(to, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

static bool path_is(const char *path, mode_t kind) {
    struct stat st;
    return stat(path, &st) == 0 && (st.st_mode & S_IFMT) == kind;
}

static bool folder_has(const char *folder, const char *name) {
    char path[PATH_MAX];
    return path_join(path, folder, name) && path_is(path, S_IFREG);
}

static bool ends_with(const char *text, const char *suffix) {
    size_t length = strlen(text), tail = strlen(suffix);
    return length > tail && strcmp(text + length - tail, suffix) == 0;
}

/* The number of a version folder's name. UINT64_MAX: the number is larger; 0: the name is no number, or has leading
 * zeros: Triton ignores such names. */
static uint64_t version_parse(const char *name) {
    uint64_t version = 0;
    if (*name == '0')
        return 0;
    for (; isdigit((unsigned char)*name); name++)
        version = version > UINT64_MAX / 10 - 1 ? UINT64_MAX : 10 * version + (uint64_t)(*name - '0');
    return *name ? 0 : version;
}

/* ---- what a folder holds ---- */

struct folder {
    uint32_t versions[VERSIONS_MAX];      /* numbers of the version folders */
    uint32_t version_count;               /* number of all version folders; above VERSIONS_MAX `versions` lacks some */
    char version_too_large[NAME_MAX + 1]; /* version folder whose number is above VERSION_MAX; "": none */
    char version_zeros[NAME_MAX + 1];     /* folder with a model.onnx, no version for leading zeros alone; "": none */
    uint32_t onnx_count;                  /* number of *.onnx files directly in the folder */
    char onnx[NAME_MAX + 1];              /* name of one of these files */
    bool config, settings, direct;        /* whether the folder has config.pbtxt, symphony.yaml, model.onnx */
    bool versions_hold_models;            /* whether some version folder has a model.onnx */
};

static int folder_look(const char *path, struct folder *f, struct sy_error *err) {
    memset(f, 0, sizeof(*f));
    DIR *dir = opendir(path);
    if (!dir)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    for (struct dirent *entry; (errno = 0, entry = readdir(dir));) {
        char inner[PATH_MAX];
        if (!path_join(inner, path, entry->d_name))
            continue;
        uint64_t version = version_parse(entry->d_name);
        size_t zeros = strspn(entry->d_name, "0");
        if (zeros && version_parse(entry->d_name + zeros) && folder_has(inner, MODEL_FILE))
            strcpy(f->version_zeros, entry->d_name);
        if (version && path_is(inner, S_IFDIR)) {
            if (version > VERSION_MAX) {
                size_t digits = strlen(entry->d_name), most = strlen(f->version_too_large); /* no leading zeros */
                if (digits != most ? digits > most : strcmp(entry->d_name, f->version_too_large) > 0)
                    strcpy(f->version_too_large, entry->d_name);
            } else {
                if (f->version_count < VERSIONS_MAX)
                    f->versions[f->version_count] = (uint32_t)version;
                f->version_count++;
            }
            f->versions_hold_models |= folder_has(inner, MODEL_FILE);
        } else if (ends_with(entry->d_name, ONNX_SUFFIX) && entry->d_name[0] != '.' && path_is(inner, S_IFREG)) {
            f->onnx_count++;
            snprintf(f->onnx, sizeof(f->onnx), "%s", entry->d_name);
        }
    }
    int rc = -errno; /* of readdir() */
    closedir(dir);
    if (rc)
        return error_set(err, rc, "%s: %s", path, strerror(-rc));
    f->config = folder_has(path, MODEL_CONFIG_FILE);
    f->settings = folder_has(path, SYMPHONY_YAML_FILE);
    f->direct = folder_has(path, MODEL_FILE);
    return 0;
}

/* Whether a folder in a repository is a model, even a wrong one. */
static bool folder_is_entry(const struct folder *f) {
    return f->version_count || f->version_too_large[0] || f->version_zeros[0] || f->config || f->settings ||
           f->onnx_count;
}

/* Whether a folder that was named as a repository is one model's. */
static bool folder_is_model(const struct folder *f) {
    return f->config || f->settings || f->versions_hold_models || (f->direct && f->onnx_count == 1);
}

/* ---- models ---- */

static struct served_model *model_add(struct model_list *list, const char *name, const char *path) {
    struct served_model *grown = array_room(list->models, list->count, sizeof(*grown));
    if (!grown) {
        error_set(list->err, -ENOMEM, "%s: out of memory", path);
        return NULL;
    }
    list->models = grown;
    struct served_model *model = &list->models[list->count++];
    memset(model, 0, sizeof(*model));
    name = list->from->name ? list->from->name : name;
    model->version = 1;
    strcpy(model->platform, "onnxruntime_onnx");
    snprintf(model->name, sizeof(model->name), "%s", name);
    utf8_clean(model->name, strlen(model->name)); /* the name is listed, even if it is refused */
    served_model_draw_secret(model);
    if (!model_name_is_valid(name))
        served_model_refuse(model, "%s: '%.100s' will not do as a model's name: expected " MODEL_NAME_EXPECTED, path,
                            name);
    return model;
}

static bool is_broken(const struct served_model *model) {
    return atomic_load_explicit(&model->state, memory_order_relaxed) == MODEL_UNAVAILABLE;
}

/* Whether a file is what Git keeps instead of a large one, until `git lfs pull` fetches that. */
static bool is_git_pointer(const char *path, const struct stat *st) {
    static const char begin[] = "version https://git-lfs";
    char head[sizeof(begin) - 1];
    FILE *file = st->st_size < GIT_POINTER_MOST ? fopen(path, "re") : NULL;
    bool pointer = file && fread(head, 1, sizeof(head), file) == sizeof(head) && !memcmp(head, begin, sizeof(head));
    if (file)
        fclose(file);
    return pointer;
}

/* Sets the path of a file that must be there, or refuses the model. */
static void model_file_set(struct served_model *model, const char *path) {
    struct stat st;
    if (stat(path, &st) != 0 || access(path, R_OK) != 0)
        served_model_refuse(model, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        served_model_refuse(model, "%s: not a file", path);
    else if (st.st_size == 0)
        served_model_refuse(model, "%s: the file is empty", path);
    else if (is_git_pointer(path, &st))
        served_model_refuse(model, "%s: a pointer of Git LFS, and not the model, which 'git lfs pull' fetches", path);
    else if (!(model->path = mem_pool_text(&model->memory, path)))
        served_model_refuse(model, "%s: out of memory", path);
}

static void flat_add(struct model_list *list, const char *path) {
    char name[NAME_MAX + 1];
    const char *slash = strrchr(path, '/');
    snprintf(name, sizeof(name), "%s", slash ? slash + 1 : path);
    name[strlen(name) - strlen(ONNX_SUFFIX)] = '\0';
    struct served_model *model = model_add(list, name, path);
    if (model && !is_broken(model))
        model_file_set(model, path);
}

static int settings_apply(struct served_model *model, bool ensemble, struct sy_error *err) {
    struct symphony_yaml settings;
    bool found;
    int rc = symphony_yaml_read_folder(model->folder, &settings, &found, err);
    if (rc || !found)
        return rc;
    if (settings.profile_path[0] && access(settings.profile_path, R_OK) != 0)
        return error_set(err, -errno, "%s/" SYMPHONY_YAML_FILE ": profile: %s: %s", model->folder,
                         settings.profile_path, strerror(errno));
    if (settings.step_count && !ensemble)
        return error_set(err, -EINVAL, "%s:%u: steps: the model is no ensemble", settings.path, settings.steps[0].line);
    model->slo_ns = settings.slo_ns;
    model->best_effort = settings.best_effort;
    model->weight = settings.weight;
    model->pinned = settings.pinned;
    model->batch_max = (uint32_t)settings.batch_max;
    if (settings.profile_path[0] && !(model->profile_path = mem_pool_text(&model->memory, settings.profile_path)))
        return error_set(err, -ENOMEM, "%s: out of memory", model->folder);
    return 0;
}

/* Sets a model's path to its version's file, or with 0 to the file right in its folder. */
static void version_set(struct served_model *model, uint32_t version, const char *model_file) {
    char path[PATH_MAX];
    int length = version ? snprintf(path, sizeof(path), "%s/%u/%s", model->folder, version, model_file)
                         : snprintf(path, sizeof(path), "%s/%s", model->folder, model_file);
    model->version = version ? version : 1;
    if (length >= (int)sizeof(path))
        served_model_refuse(model, "%.400s: %s", model->folder, strerror(ENAMETOOLONG));
    else
        model_file_set(model, path);
}

/* Adds a model that is like the last one, whose version is not chosen yet. NULL: out of memory. */
static struct served_model *model_repeat(struct model_list *list) {
    char name[MODEL_NAME_MAX];
    strcpy(name, list->models[list->count - 1].name); /* the list may move */
    struct served_model *model = model_add(list, name, name);
    if (model)
        served_model_share(model, model - 1);
    return model;
}

/* Refuses the model of a folder with a version whose number is too large: a lower version in its place would be another
 * model than the one that was put there. False: there is none. */
static bool too_large_refuse(struct served_model *model, const struct folder *f) {
    if (f->version_too_large[0])
        served_model_refuse(model, "%.400s/%.60s: the number of a version is at most %u", model->folder,
                            f->version_too_large, VERSION_MAX);
    return f->version_too_large[0];
}

/* Chooses among the folder's versions, and logs those that version_policy names and the folder lacks. 0: there is none
 * that is wanted, and the model is refused. */
static uint32_t versions_find(struct served_model *model, struct folder *f, const struct version_policy *policy,
                              uint32_t chosen[VERSIONS_MAX]) {
    uint32_t wanted = versions_choose(policy, f->versions, f->version_count, chosen), count = 0;
    char absent[200] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < wanted; i++) {
        bool found = false;
        for (uint32_t k = 0; k < f->version_count && !found; k++)
            found = f->versions[k] == chosen[i];
        if (found)
            chosen[count++] = chosen[i];
        else if (at < sizeof(absent))
            at += (size_t)snprintf(absent + at, sizeof(absent) - at, "%s%u", at ? "," : "", chosen[i]);
    }
    if (!count)
        served_model_refuse(model, "%s: none of the versions that version_policy names is there: %s", model->folder,
                            absent);
    else if (absent[0])
        log_warn("versions that version_policy names are not there", "model=%s folder=\"%s\" versions=%s", model->name,
                 model->folder, absent);
    return count;
}

/* Finds the model files of a folder, whose model is the last of the list. Each version that is wanted becomes a model
 * of its own; a file right in the folder is the one model. */
static void folder_files_set(struct model_list *list, struct folder *f, const struct model_config *config) {
    const char *model_file = config->model_file[0] ? config->model_file : MODEL_FILE;
    struct served_model *model = &list->models[list->count - 1];
    uint32_t chosen[VERSIONS_MAX];
    bool named = config->versions.choice == VERSIONS_SPECIFIC && f->version_count > 0; /* others are not wanted */
    if (!named && too_large_refuse(model, f))
        return;
    if (f->version_count > VERSIONS_MAX) {
        served_model_refuse(model, "%s: %u versions are more than %d", model->folder, f->version_count, VERSIONS_MAX);
    } else if (f->version_count == 0 && folder_has(model->folder, model_file)) {
        version_set(model, 0, model_file);
    } else if (f->version_count == 0 && f->version_zeros[0]) {
        served_model_refuse(model,
                            "%.200s: no version folder with a %.60s in it: '%.60s' is none, since it has leading zeros",
                            model->folder, model_file, f->version_zeros);
    } else if (f->version_count == 0) {
        served_model_refuse(model, "%s: no version folder with a %s in it%s%.200s%s%s", model->folder, model_file,
                            f->onnx_count ? " (put " : "", f->onnx_count ? f->onnx : "", f->onnx_count ? " at 1/" : "",
                            f->onnx_count ? MODEL_FILE ")" : "");
    } else {
        uint32_t count = versions_find(model, f, &config->versions, chosen);
        for (uint32_t i = 1; i < count; i++) /* before any of them is refused, so that all begin alike */
            if (!model_repeat(list))
                count = i;
        for (uint32_t i = 0; i < count; i++)
            version_set(&list->models[list->count - count + i], chosen[i], model_file);
    }
}

/* An ensemble, the last of the list, needs no files: its version folders, if there are any, say only which versions it
 * has. Each has the same steps. */
static void ensemble_set(struct model_list *list, struct folder *f, struct model_config *config) {
    struct served_model *model = &list->models[list->count - 1];
    struct sy_error err;
    uint32_t chosen[VERSIONS_MAX] = {1}, count = 1;
    bool named = config->versions.choice == VERSIONS_SPECIFIC && f->version_count > 0; /* others are not wanted */
    if (!named && too_large_refuse(model, f))
        return;
    if (f->version_count > VERSIONS_MAX) {
        served_model_refuse(model, "%s: %u versions are more than %d", model->folder, f->version_count, VERSIONS_MAX);
        return;
    }
    if (f->version_count > 0)
        count = versions_find(model, f, &config->versions, chosen);
    for (uint32_t i = 1; i < count; i++) /* before any of them has its steps, so that all begin alike */
        if (!model_repeat(list))
            count = i;
    for (uint32_t i = 0; i < count; i++) {
        bool found;
        int rc = 0;
        model = &list->models[list->count - count + i];
        model->version = chosen[i];
        if (i > 0) { /* the version before it has taken the steps */
            model_config_release(config);
            rc = model_config_read_folder(model->folder, true, config, &found, &err);
        }
        if (!rc && !config->ensemble)
            rc = error_set(&err, -EAGAIN, "%s: " MODEL_CONFIG_FILE " has changed while it was being read",
                           model->folder);
        if (!rc)
            rc = served_model_make_ensemble(model, config, &err);
        if (rc)
            served_model_refuse(model, "%s", err.text);
    }
}

/* Finds a library: in the model's folder, or in the folder for all models. */
static int op_library_find(const struct model_list *list, const struct model_config *config, const char *folder,
                           const char *name, char path[OP_LIBRARY_PATH_MAX], struct sy_error *err) {
    const char *shared = list->from->op_library_dir, *within = name;
    size_t length = shared ? strlen(shared) : 0;
    bool absolute = length && strncmp(name, shared, length) == 0 && (name[length] == '/' || name[length - 1] == '/');
    if (absolute)
        within += length + strspn(name + length, "/");
    if (!file_name_inside(within, strlen(within)))
        return place_error(config->path, config->op_libraries_line, config->op_libraries_column, err,
                           "op_library_filename: '%.200s' is not within the model's folder, nor within that of "
                           "--op-library-dir",
                           name);
    bool own = !absolute && !list->from->brought;
    int room = own ? snprintf(path, OP_LIBRARY_PATH_MAX, "%s/%s", folder, within) : 0;
    if (!own && !shared)
        return place_error(config->path, config->op_libraries_line, config->op_libraries_column, err,
                           "op_library_filename: '%.200s': a client's files bring no operators; libraries are "
                           "the repository's, or those of --op-library-dir",
                           name);
    if (shared && (!own || (room < OP_LIBRARY_PATH_MAX && access(path, F_OK) != 0)))
        room = snprintf(path, OP_LIBRARY_PATH_MAX, "%s/%s", shared, within);
    if (room >= OP_LIBRARY_PATH_MAX || access(path, R_OK) != 0)
        return place_error(config->path, config->op_libraries_line, config->op_libraries_column, err,
                           "op_library_filename: %.200s: %s", path,
                           strerror(room >= OP_LIBRARY_PATH_MAX ? ENAMETOOLONG : errno));
    if (!path_is(path, S_IFREG))
        return place_error(config->path, config->op_libraries_line, config->op_libraries_column, err,
                           "op_library_filename: %.200s: not a file", path);
    return 0;
}

static int op_libraries_find(const struct model_list *list, const struct model_config *config,
                             struct served_model *model, struct sy_error *err) {
    struct op_libraries *libraries = mem_pool_take(&model->memory, sizeof(*libraries));
    int rc = libraries ? 0 : error_set(err, -ENOMEM, "%s: out of memory", model->folder);
    for (uint32_t i = 0; !rc && i < OP_LIBRARIES_MAX && config->op_libraries.paths[i][0]; i++)
        rc = op_library_find(list, config, model->folder, config->op_libraries.paths[i], libraries->paths[i], err);
    model->op_libraries = libraries;
    return rc;
}

/* `alone`: the folder was given as the repository, so that config.pbtxt may name the model as it likes. */
static void folder_add(struct model_list *list, const char *path, const char *name, struct folder *f, bool alone) {
    struct served_model *model = model_add(list, name, path);
    if (!model || is_broken(model))
        return;
    if (!(model->folder = mem_pool_text(&model->memory, path))) {
        served_model_refuse(model, "%s: out of memory", path);
        return;
    }
    struct model_config *config = calloc(1, sizeof(*config));
    struct sy_error err = {""};
    bool found = false;
    int rc = config ? model_config_read_folder(path, false, config, &found, &err)
                    : error_set(&err, -ENOMEM, "%s: out of memory", path);
    if (!rc && found && config->name[0] && strcmp(config->name, name) != 0) {
        if (!alone)
            rc = error_set(&err, -EINVAL, "%s: the name is '%.128s', but the folder's is '%s'; they must be the same",
                           config->path, config->name, name);
        else if (!model_name_is_valid(config->name))
            rc = error_set(&err, -EINVAL, "%s: '%.128s' will not do as a model's name", config->path, config->name);
        else if (!list->from->name)
            memcpy(model->name, config->name, sizeof(model->name));
    }
    if (!rc)
        rc = settings_apply(model, config->ensemble != NULL, &err);
    if (!rc && op_libraries_any(&config->op_libraries))
        rc = op_libraries_find(list, config, model, &err);
    if (rc) {
        served_model_refuse(model, "%s", err.text);
    } else if (config->ensemble) {
        ensemble_set(list, f, config);
    } else {
        model->instances = config->instances;
        folder_files_set(list, f, config);
    }
    if (config)
        model_config_release(config);
    free(config);
}

/* Adds one entry of a repository, if it is a model. */
static void entry_add(struct model_list *list, const char *repository, const char *name) {
    char path[PATH_MAX];
    struct folder f;
    struct sy_error err;
    struct stat st;
    if (!path_join(path, repository, name)) {
        log_warn("repository entry ignored", "path=\"%s/%s\" reason=\"path too long\"", repository, name);
    } else if (ends_with(name, ONNX_SUFFIX) && !path_is(path, S_IFDIR)) {
        flat_add(list, path);
    } else if (stat(path, &st) != 0) {
        log_warn("repository entry ignored", "path=\"%s\" reason=\"%s\"", path, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        if (folder_look(path, &f, &err) != 0) {
            struct served_model *model = model_add(list, name, path);
            if (model)
                served_model_refuse(model, "%s", err.text);
        } else if (folder_is_entry(&f)) {
            folder_add(list, path, name, &f, false);
        } else {
            log_warn("repository entry ignored",
                     "path=\"%s\" reason=\"no version folder, config.pbtxt, symphony.yaml or model in it\"", path);
        }
    }
}

static int not_hidden(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static int name_compare(const void *a, const void *b) {
    const struct served_model *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->version > y->version) - (x->version < y->version);
}

static const char *place(const struct served_model *model) {
    return model->folder ? model->folder : model->path ? model->path : model->reason;
}

/* The list is sorted by name and version. Models of one name are either all versions of one folder, or they become one,
 * which is refused. A repository that is given twice has each of its versions twice. */
static void duplicates_refuse(struct model_list *list) {
    uint32_t kept = 0, next;
    for (uint32_t i = 0; i < list->count; i = next) {
        struct served_model *first = &list->models[i], *other = NULL;
        for (next = i + 1; next < list->count && strcmp(list->models[next].name, first->name) == 0; next++)
            if (strcmp(place(&list->models[next]), place(first)) != 0 ||
                list->models[next].version == list->models[next - 1].version)
                other = &list->models[next];
        if (other) {
            char one[256];
            snprintf(one, sizeof(one), "%.180s", place(first));
            served_model_refuse(first, "%.180s: a second model of the name '%.100s'; the first is %s", place(other),
                                first->name, one);
            first->ensemble = NULL;
            for (uint32_t k = i + 1; k < next; k++)
                served_model_release(&list->models[k]);
        }
        uint32_t count = other ? 1 : next - i;
        memmove(&list->models[kept], first, count * sizeof(*first));
        kept += count;
    }
    list->count = kept;
}

/* Adds what a path holds: a directory's models, or the one model that it is. */
static int path_add(struct model_list *list, const char *path) {
    struct stat st;
    struct folder f;
    char root[PATH_MAX], real[PATH_MAX];
    if (stat(path, &st) != 0 || !realpath(path, real))
        return error_set(list->err, -errno, "%s: %s", path, strerror(errno));
    snprintf(root, sizeof(root), "%s", path); /* mistakes name it as the user did, without the slashes at its end */
    for (size_t length = strlen(root); length > 1 && root[length - 1] == '/'; length--)
        root[length - 1] = '\0';
    if (!S_ISDIR(st.st_mode)) {
        if (!ends_with(root, ONNX_SUFFIX))
            return error_set(list->err, -EINVAL, "%s: neither a directory nor an " ONNX_SUFFIX " file", path);
        flat_add(list, root);
        return 0;
    }
    int rc = folder_look(root, &f, list->err);
    if (rc)
        return rc;
    if (folder_is_model(&f)) {
        folder_add(list, root, strrchr(real, '/') + 1, &f, true);
        return 0;
    }
    struct dirent **entries;
    int count = scandir(root, &entries, not_hidden, alphasort);
    if (count < 0)
        return error_set(list->err, -errno, "%s: %s", root, strerror(errno));
    for (int i = 0; i < count; i++) {
        entry_add(list, root, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

/* Hands the list's models over, sorted, unless `rc` says that a look-up failed; frees them after an error. */
static int list_end(struct model_list *list, int rc, struct served_model **models, uint32_t *count) {
    if (rc) {
        served_models_free(list->models, list->count);
        return rc;
    }
    qsort(list->models, list->count, sizeof(*list->models), name_compare);
    duplicates_refuse(list);
    *models = list->models;
    *count = list->count;
    return 0;
}

int repository_scan(const struct repositories *from, struct served_model **models, uint32_t *count,
                    struct sy_error *err) {
    struct model_list list = {.from = from, .err = err};
    char paths[400];
    int rc = 0;
    for (uint32_t i = 0; i < from->count && !rc; i++)
        rc = path_add(&list, from->paths[i]);
    for (uint32_t i = 1; from->name && i < list.count && !rc; i++) /* the name is for one model */
        if (strcmp(place(&list.models[i]), place(&list.models[0])) != 0)
            rc = error_set(err, -EINVAL, "the name '%.128s' was given for one model, but there are %.150s and %.150s",
                           from->name, place(&list.models[0]), place(&list.models[i]));
    if (!rc && !list.count) {
        size_t at = 0;
        for (uint32_t i = 0; i < from->count && at < sizeof(paths); i++)
            at += (size_t)snprintf(paths + at, sizeof(paths) - at, "%s%s", i ? ", " : "", from->paths[i]);
        rc = error_set(err, -ENOENT,
                       "%s: no model in it; expected <model>/<version>/" MODEL_FILE " or <model>" ONNX_SUFFIX, paths);
    }
    return list_end(&list, rc, models, count);
}

bool repository_is_model(const char *path) {
    struct folder f;
    return path_is(path, S_IFREG) || (folder_look(path, &f, NULL) == 0 && folder_is_model(&f));
}

bool repository_holds(const struct repositories *from, const char *name) {
    char file[PATH_MAX], flat[NAME_MAX + 1];
    struct folder f;
    bool holds = false;
    snprintf(flat, sizeof(flat), "%.*s" ONNX_SUFFIX, MODEL_NAME_MAX, name);
    for (uint32_t i = 0; i < from->count && !holds; i++) {
        holds = path_join(file, from->paths[i], flat) && path_is(file, S_IFREG);
        if (!holds && path_join(file, from->paths[i], name) && path_is(file, S_IFDIR))
            holds = folder_look(file, &f, NULL) != 0 || folder_is_entry(&f);
    }
    return holds;
}

int repository_find(const struct repositories *from, const char *name, struct served_model **models, uint32_t *count,
                    struct sy_error *err) {
    struct model_list list = {.from = from, .err = err};
    char file[PATH_MAX], flat[NAME_MAX + 1];
    bool valid = model_name_is_valid(name) && name[0] != '.';
    snprintf(flat, sizeof(flat), "%.*s" ONNX_SUFFIX, MODEL_NAME_MAX, name);
    for (uint32_t i = 0; i < from->count && valid; i++) {
        if (path_join(file, from->paths[i], name) && path_is(file, S_IFDIR))
            entry_add(&list, from->paths[i], name);
        if (path_join(file, from->paths[i], flat) && path_is(file, S_IFREG))
            entry_add(&list, from->paths[i], flat);
    }
    int rc =
        list.count ? 0 : error_set(err, -ENOENT, "there is no model '%.*s' in the repository", MODEL_NAME_MAX, name);
    return list_end(&list, rc, models, count);
}
