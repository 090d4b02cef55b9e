/* test_sidecar.c - where derived files go. */
#include "unit/temp_folder.h"
#include "unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/folder.h"
#include "model/engine/sidecar.h"

struct place {
    char folder[64], model[128], cache[128];
};

static int set_up(void **state) {
    struct place *p = calloc(1, sizeof(*p));
    temp_folder(p->folder);
    snprintf(p->model, sizeof(p->model), "%s/net.onnx", p->folder);
    snprintf(p->cache, sizeof(p->cache), "%s/cache/deep", p->folder);
    fclose(fopen(p->model, "w"));
    *state = p;
    return 0;
}

static int tear_down(void **state) {
    struct place *p = *state;
    int rc = folder_remove(p->folder);
    free(p);
    return rc;
}

TEST_WITH(files_lie_beside_the_model, set_up, tear_down) {
    struct place *p = *state;
    char path[SIDECAR_PATH_MAX], other[SIDECAR_PATH_MAX], found[SIDECAR_PATH_MAX], text[16] = "";
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), -ENOENT);
    assert_int_equal(sidecar_path(p->model, p->cache, "key", ".x.json", path, NULL), 0);
    assert_int_equal(strncmp(path, p->folder, strlen(p->folder)), 0);
    assert_non_null(strstr(path, "/.symphony/net-"));
    assert_non_null(strstr(path, ".x.json"));
    assert_int_equal(sidecar_path(p->model, p->cache, "another key", ".x.json", other, NULL), 0);
    assert_string_not_equal(path, other);
    assert_int_equal(sidecar_write(path, "first", NULL), 0);
    assert_int_equal(sidecar_write(path, "second", NULL), 0);
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), 0);
    assert_string_equal(found, path);
    FILE *from = fopen(path, "r");
    assert_non_null(fgets(text, sizeof(text), from));
    fclose(from);
    assert_string_equal(text, "second");
}

TEST_WITH(a_folder_that_cannot_be_written_has_a_cache, set_up, tear_down) {
    struct place *p = *state;
    char path[SIDECAR_PATH_MAX], twin_path[SIDECAR_PATH_MAX], found[SIDECAR_PATH_MAX], in_the_way[128], twin[160];
    snprintf(in_the_way, sizeof(in_the_way), "%s/.symphony", p->folder);
    fclose(fopen(in_the_way, "w")); /* a file where the folder should be: works for root, too */
    assert_int_equal(sidecar_path(p->model, p->cache, "key", ".x.json", path, NULL), 0);
    assert_int_equal(strncmp(path, p->cache, strlen(p->cache)), 0);
    assert_int_equal(sidecar_write(path, "text", NULL), 0);
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), 0);
    assert_string_equal(found, path);
    /* models of one file name in different folders do not meet there */
    snprintf(twin, sizeof(twin), "%s/twin", p->folder);
    mkdir(twin, 0777);
    strcat(twin, "/net.onnx");
    fclose(fopen(twin, "w"));
    strcpy(strrchr(twin, '/'), "/.symphony");
    fclose(fopen(twin, "w"));
    strcpy(strrchr(twin, '/'), "/net.onnx");
    assert_int_equal(sidecar_path(twin, p->cache, "key", ".x.json", twin_path, NULL), 0);
    assert_string_not_equal(path, twin_path);
    /* and without either place it is an error that names the model, the places, and what would help */
    struct sy_error err = {""};
    char no_cache[160];
    snprintf(no_cache, sizeof(no_cache), "%s/below", p->model);
    assert_int_equal(sidecar_path(p->model, no_cache, "key", ".x.json", path, &err), -ENOTDIR);
    assert_non_null(strstr(err.text, p->model));
    assert_non_null(strstr(err.text, "/below (Not a directory) can be written; --cache-dir DIR names another"));
}

static mode_t mode_of(const char *path) {
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return about.st_mode & 07777;
}

/* Writes a derived file, and returns the folder that it lies in. */
static void derive(const struct place *p, char path[SIDECAR_PATH_MAX], char folder[SIDECAR_PATH_MAX]) {
    assert_int_equal(sidecar_path(p->model, p->cache, "key", ".x.json", path, NULL), 0);
    assert_int_equal(sidecar_write(path, "text", NULL), 0);
    snprintf(folder, SIDECAR_PATH_MAX, "%.*s", (int)(strrchr(path, '/') - path), path);
}

TEST_WITH(only_its_user_may_write_there, set_up, tear_down) {
    struct place *p = *state;
    char path[SIDECAR_PATH_MAX], folder[SIDECAR_PATH_MAX], found[SIDECAR_PATH_MAX];
    mode_t before = umask(0002);
    derive(p, path, folder);
    umask(before);
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(mode_of(folder), 0700);
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), 0);
    chmod(path, 0620);
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), -ENOENT);
    chmod(path, 0644);
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), 0);
    chmod(folder, 0777); /* whatever lies there, somebody else may have put it there */
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), -ENOENT);
    derive(p, path, folder); /* a folder of the server's own, as an earlier version made it, is taken back */
    assert_int_equal(mode_of(folder), 0755);
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), 0);
}

/* Whoever opens a FIFO waits for its writer. */
TEST_WITH(a_pipe_is_not_read, set_up, tear_down) {
    struct place *p = *state;
    char path[SIDECAR_PATH_MAX], folder[SIDECAR_PATH_MAX], found[SIDECAR_PATH_MAX];
    derive(p, path, folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), -ENOENT);
}

TEST_WITH(what_another_user_planted_is_not_read, set_up, tear_down) {
    struct place *p = *state;
    char path[SIDECAR_PATH_MAX], folder[SIDECAR_PATH_MAX], found[SIDECAR_PATH_MAX];
    derive(p, path, folder);
    if (chown(path, 1, (gid_t)-1))
        skip(); /* who runs the test is not root */
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), -ENOENT);
    assert_int_equal(chown(path, 0, (gid_t)-1), 0);
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), 0);
    assert_int_equal(chown(folder, 1, (gid_t)-1), 0);
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), -ENOENT);
    derive(p, path, folder); /* elsewhere */
    assert_int_equal(strncmp(path, p->cache, strlen(p->cache)), 0);
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), 0);
    assert_string_equal(found, path);
}

/* Somebody else may have put the link there. */
TEST_WITH(what_a_link_leads_to_keeps_its_mode, set_up, tear_down) {
    struct place *p = *state;
    char path[SIDECAR_PATH_MAX], folder[SIDECAR_PATH_MAX], link[128], all[128];
    snprintf(link, sizeof(link), "%s/.symphony", p->folder);
    snprintf(all, sizeof(all), "%s/all", p->folder);
    assert_int_equal(mkdir(all, 0700), 0);
    assert_int_equal(chmod(all, 01777), 0);
    assert_int_equal(symlink("all", link), 0);
    derive(p, path, folder);
    assert_string_equal(folder, p->cache);
    assert_int_equal(mode_of(all), 01777);
}

/* As a volume that a cluster's manager makes, or /tmp: its modes are not the server's to change. */
TEST_WITH(a_cache_folder_of_all_has_one_of_its_own, set_up, tear_down) {
    struct place *p = *state;
    char path[SIDECAR_PATH_MAX], folder[SIDECAR_PATH_MAX], found[SIDECAR_PATH_MAX], want[192], in_the_way[128];
    snprintf(in_the_way, sizeof(in_the_way), "%s/.symphony", p->folder);
    fclose(fopen(in_the_way, "w"));
    snprintf(p->cache, sizeof(p->cache), "%s/cache", p->folder);
    assert_int_equal(mkdir(p->cache, 0700), 0);
    assert_int_equal(chmod(p->cache, 02777), 0);
    derive(p, path, folder);
    snprintf(want, sizeof(want), "%s/symphony-%u", p->cache, (unsigned)geteuid());
    assert_string_equal(folder, want);
    assert_int_equal(mode_of(folder) & 0777, 0700);
    assert_int_equal(mode_of(p->cache), 02777);
    assert_int_equal(sidecar_find(p->model, p->cache, "key", ".x.json", found), 0);
    assert_string_equal(found, path);
}

TEST(the_accelerator_has_a_type) {
    char cpu[256], again[256], gpu[256];
    accelerator_type("cpu", 0, cpu, sizeof(cpu));
    accelerator_type("cpu", 0, again, sizeof(again));
    accelerator_type("cuda", 1000, gpu, sizeof(gpu));
    assert_string_equal(cpu, again);
    assert_int_equal(strncmp(cpu, "cpu ", 4), 0);
    assert_string_equal(gpu, "cuda device 1000");
}
