/* sidecar.c - finds places for files derived from models. */
#include "model/engine/sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/system/files.h"
#include "core/system/log.h"
#include "model/engine/fingerprint.h"

_Static_assert(SIDECAR_PATH_MAX == PATH_MAX, "paths are the system's");

/* Finds the value behind "key  : " in a file like /proc/cpuinfo. False: there is none. */
static bool proc_value(const char *file, const char *key, char *value, size_t size) {
    FILE *from = fopen(file, "re");
    if (!from)
        return false;
    char line[8192];
    bool found = false;
    while (!found && fgets(line, sizeof(line), from)) {
        size_t length = strlen(key);
        const char *colon = strchr(line, ':');
        found =
            colon && strncmp(line, key, length) == 0 && strspn(line + length, " \t") == (size_t)(colon - line) - length;
        if (found) {
            colon += 1 + strspn(colon + 1, " \t");
            snprintf(value, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        }
    }
    fclose(from);
    return found;
}

static bool word_in(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

/* The machine's processor, the same for the life of the process: the kernel takes long to describe many cores, and it
 * is asked for each of thousands of models. */
static char cpu[256];
static pthread_once_t cpu_once = PTHREAD_ONCE_INIT;

static void cpu_read(void) {
    static const char cpuinfo[] = "/proc/cpuinfo";
    /* Features by which the library chooses its kernels and how it packs weights. */
    static const char *const features[] = {"avx2",     "fma",   "avx512f", "avx512_vnni", "avx_vnni", "amx_int8",
                                           "amx_tile", "asimd", "asimddp", "i8mm",        "sve"};
    char name[128] = "", family[16] = "?", number[16] = "?", flags[8192] = "";
    struct utsname machine = {.machine = "unknown"};
    if (!proc_value(cpuinfo, "model name", name, sizeof(name)))
        uname(&machine);
    proc_value(cpuinfo, "cpu family", family, sizeof(family));
    proc_value(cpuinfo, "model", number, sizeof(number));
    if (!proc_value(cpuinfo, "flags", flags, sizeof(flags)))
        proc_value(cpuinfo, "Features", flags, sizeof(flags));
    int used = snprintf(cpu, sizeof(cpu), "cpu %s family %s model %s", *name ? name : machine.machine, family, number);
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++)
        if (word_in(flags, features[i]) && used > 0 && (size_t)used < sizeof(cpu))
            used += snprintf(cpu + used, sizeof(cpu) - (size_t)used, " %s", features[i]);
}

void accelerator_type(const char *provider, int device, char *text, size_t size) {
    if (strcmp(provider, "cpu") == 0) {
        pthread_once(&cpu_once, cpu_read);
        snprintf(text, size, "%s", cpu);
        return;
    }
    char model[128] = "";
    glob_t found;
    if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &found) == 0) {
        if ((size_t)device < found.gl_pathc)
            proc_value(found.gl_pathv[device], "Model", model, sizeof(model));
        globfree(&found);
    }
    if (*model)
        snprintf(text, size, "%s %s", provider, model);
    else
        snprintf(text, size, "%s device %d", provider, device);
}

/* Writes "FOLDER/STEM-TAG" + suffix. In a folder that many models share, the tag is also of the model's own folder. */
static int path_compose(const char *model_path, const char *folder, bool shared, const char *key, const char *suffix,
                        char *path, struct sy_error *err) {
    char absolute[PATH_MAX] = "";
    const char *slash = strrchr(model_path, '/'), *file = slash ? slash + 1 : model_path, *dot = strrchr(file, '.');
    if (shared && !realpath(model_path, absolute))
        return error_set(err, -errno, "%s: %s", model_path, strerror(errno));
    struct fingerprint parts[] = {fingerprint_bytes(key, strlen(key)), fingerprint_bytes(absolute, strlen(absolute))};
    struct fingerprint tag = fingerprint_bytes(parts, sizeof(parts));
    int length = snprintf(path, SIDECAR_PATH_MAX, "%s/%.*s-%08x%s", folder,
                          (int)(dot ? dot - file : (long)strlen(file)), file, (unsigned)tag.words[0], suffix);
    return length < SIDECAR_PATH_MAX ? 0 : error_set(err, -ENAMETOOLONG, "%s: the path is too long", model_path);
}

static int folder_beside(const char *model_path, char *folder) {
    const char *slash = strrchr(model_path, '/');
    int length = slash ? snprintf(folder, PATH_MAX, "%.*s/.symphony", (int)(slash - model_path), model_path)
                       : snprintf(folder, PATH_MAX, ".symphony");
    return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int folder_cache(const char *cache_dir, char *folder) {
    static const char own[] = "/symphony-%u";
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = cache_dir       ? snprintf(folder, PATH_MAX, "%s", cache_dir)
                 : xdg && *xdg   ? snprintf(folder, PATH_MAX, "%s/symphony", xdg)
                 : home && *home ? snprintf(folder, PATH_MAX, "%s/.cache/symphony", home)
                                 : -1;
    if (length < 0)
        return -ENOENT;
    if (length < PATH_MAX && files_private(folder, NULL) == -EPERM) /* others may write the folder, as /tmp */
        length += snprintf(folder + length, (size_t)(PATH_MAX - length), own, (unsigned)geteuid());
    return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Makes a folder, as mkdir -p. 0: this process can write the folder, and nobody else can. */
static int folder_make(char *folder) {
    struct stat about;
    int above = 0; /* why the folder above was not made: if that is missing, the last call only says so */
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0700) && errno != ENOENT && errno != EEXIST)
            above = errno;
        *slash = '/';
    }
    if (mkdir(folder, 0700) && errno != EEXIST)
        return errno == ENOENT && above ? -above : -errno;
    /* The folder may be an old one whose group may write it. A link may lead anywhere, even to /tmp. */
    if (lstat(folder, &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid() &&
        (about.st_mode & (S_IWGRP | S_IWOTH)))
        chmod(folder, about.st_mode & 07777 & ~(mode_t)(S_IWGRP | S_IWOTH));
    int rc = files_private(folder, NULL);
    return rc == 0 && access(folder, W_OK | X_OK) ? -errno : rc;
}

int sidecar_path(const char *model_path, const char *cache_dir, const char *key, const char *suffix,
                 char path[SIDECAR_PATH_MAX], struct sy_error *err) {
    char folder[PATH_MAX];
    int rc = folder_beside(model_path, folder), beside = rc ? rc : folder_make(folder);
    if (!beside)
        return path_compose(model_path, folder, false, key, suffix, path, err);
    folder[0] = '\0';
    rc = folder_cache(cache_dir, folder);
    if (!rc)
        rc = folder_make(folder);
    if (rc)
        return error_set(
            err, rc,
            "%.180s: neither .symphony beside it (%s) nor the cache folder %.120s (%s) can be written; --cache-dir DIR "
            "names another",
            model_path, strerror(-beside), *folder ? folder : "of HOME", strerror(-rc));
    return path_compose(model_path, folder, true, key, suffix, path, err);
}

bool sidecar_believed(const char *path) {
    char folder[SIDECAR_PATH_MAX];
    struct stat about;
    struct sy_error err;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    int rc = access(path, R_OK) || stat(path, &about) ? -errno : files_private(folder, &err);
    if (!rc)
        rc = files_private(path, &err);
    if (!rc && !S_ISREG(about.st_mode)) /* whoever opens a FIFO waits for its writer */
        rc = error_set(&err, -EPERM, "%s: not a file", path);
    if (rc == -EPERM)
        log_warn("cached file not used", "file=\"%s\" reason=\"%s\"", path, err.text);
    return rc == 0;
}

int sidecar_find(const char *model_path, const char *cache_dir, const char *key, const char *suffix,
                 char path[SIDECAR_PATH_MAX]) {
    char folder[PATH_MAX];
    if (folder_beside(model_path, folder) == 0 &&
        path_compose(model_path, folder, false, key, suffix, path, NULL) == 0 && sidecar_believed(path))
        return 0;
    if (folder_cache(cache_dir, folder) == 0 && path_compose(model_path, folder, true, key, suffix, path, NULL) == 0 &&
        sidecar_believed(path))
        return 0;
    return -ENOENT;
}

void sidecar_owner(const char *model_path, const char *path, char owner[SIDECAR_PATH_MAX]) {
    char beside[PATH_MAX];
    bool travels = folder_beside(model_path, beside) == 0 && strncmp(path, beside, strlen(beside)) == 0 &&
                   path[strlen(beside)] == '/';
    owner[0] = '\0';
    if (!travels && !realpath(model_path, owner))
        snprintf(owner, SIDECAR_PATH_MAX, "%s", model_path);
}

int sidecar_write(const char *path, const char *text, struct sy_error *err) {
    char temporary[SIDECAR_PATH_MAX + 16];
    uint32_t tag = 0; /* a process number is not unique: a process in another container may have the same one */
    if (getrandom(&tag, sizeof(tag), 0) != sizeof(tag))
        tag = (uint32_t)getpid();
    snprintf(temporary, sizeof(temporary), "%s.%08x", path, tag);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(err, -errno, "%s: %s", temporary, strerror(errno));
    size_t left = strlen(text);
    int rc = 0;
    while (left && !rc) {
        ssize_t wrote = write(fd, text, left);
        if (wrote >= 0) {
            text += wrote;
            left -= (size_t)wrote;
        } else if (errno != EINTR) {
            rc = -errno;
        }
    }
    if (close(fd) && !rc)
        rc = -errno;
    if (!rc && rename(temporary, path))
        rc = -errno;
    if (rc) {
        unlink(temporary);
        error_set(err, rc, "%s: %s", path, strerror(-rc));
    }
    return rc;
}
