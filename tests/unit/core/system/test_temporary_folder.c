/* test_temporary_folder.c - what a process that was killed has left goes; what is in use, or somebody else's, stays. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/system/temporary_folder.h"
#include "unit/temp_folder.h"
#include "unit/test.h"

static void put(const char *folder, const char *name) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
}

/* Makes one in a process that is killed. */
static void killed_with_one(struct temporary_folder *left) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct temporary_folder made;
        if (temporary_folder_make(&made, NULL, NULL) || write(ends[1], &made, sizeof(made)) != sizeof(made))
            _exit(1);
        pause();
    }
    assert_int_equal(read(ends[0], left, sizeof(*left)), sizeof(*left));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(ends[0]);
    close(ends[1]);
    put(left->path, "file");
}

static int setup(void **state) {
    static char root[64];
    temp_folder(root);
    *state = root;
    return setenv("TMPDIR", root, 1);
}

static int teardown(void **state) {
    unsetenv("TMPDIR");
    return folder_remove(*state);
}

TEST_WITH(what_killed_processes_left_is_removed, setup, teardown) {
    struct temporary_folder used, left, next;
    char other[128];
    assert_int_equal(temporary_folder_make(&used, NULL, NULL), 0);
    put(used.path, "file");
    snprintf(other, sizeof(other), "%s/.symphony-other", (const char *)*state);
    assert_int_equal(mkdir(other, 0700), 0);
    killed_with_one(&left);
    assert_int_equal(access(left.path, F_OK), 0);
    temporary_folders_sweep();
    assert_int_equal(access(left.path, F_OK), -1);
    killed_with_one(&left);
    assert_int_equal(temporary_folder_make(&next, NULL, NULL), 0);
    assert_int_equal(access(left.path, F_OK), -1);
    struct stat st;
    assert_int_equal(stat(used.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(access(other, F_OK), 0);
    temporary_folder_remove(&used);
    temporary_folder_remove(&next);
    assert_int_equal(access(used.path, F_OK), -1);
}

/* Only a folder's maker and its user remove it. */
TEST_WITH(what_belongs_to_others_stays, setup, teardown) {
    char others[128];
    if (geteuid() != 0)
        skip();
    snprintf(others, sizeof(others), "%s/.symphony-temporary-others", (const char *)*state);
    assert_int_equal(mkdir(others, 0700), 0);
    assert_int_equal(chown(others, 1234, 1234), 0);
    temporary_folders_sweep();
    assert_int_equal(access(others, F_OK), 0);
}

TEST(one_without_a_place_is_not_made) {
    struct temporary_folder none;
    struct sy_error err;
    assert_true(temporary_folder_make(&none, "/dev/null", &err) < 0);
    assert_non_null(strstr(err.text, "/dev/null: no folder for temporary files"));
}
