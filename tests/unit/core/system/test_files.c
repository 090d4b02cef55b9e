/* test_files.c - the limit of open files is raised, and never lowered; a trial of writing leaves no trace. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/files.h"
#include "unit/test.h"

static rlim_t soft_limit(void) {
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    return files.rlim_cur;
}

/* Before the next test, which lowers the limit of this process. */
TEST(a_trial_of_writing_leaves_no_trace) {
    char folder[] = "/tmp/symphony-files-XXXXXX", path[64], text[8] = "";
    struct sy_error err = {""};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/new", folder);
    assert_int_equal(files_writable("--plot", path, &err), 0);
    assert_int_equal(access(path, F_OK), -1);

    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("old", file) >= 0 && fclose(file) == 0);
    assert_int_equal(files_writable("--plot", path, &err), 0);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof(text), file), 3);
    assert_string_equal(text, "old");
    fclose(file);
    unlink(path);

    assert_int_equal(mkfifo(path, 0600), 0); /* nobody reads it yet, and it is not waited for */
    assert_int_equal(files_writable("--plot", path, &err), 0);
    unlink(path);
    assert_int_equal(files_writable("--plot", folder, &err), -EISDIR);
    assert_non_null(strstr(err.text, "--plot: cannot write '/tmp/symphony-files-"));
    rmdir(folder);
}

TEST(test_raised_as_far_as_may_be) {
    struct rlimit files = {.rlim_cur = 40, .rlim_max = 60};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(files_allow(30), 40); /* as it is */
    assert_int_equal(soft_limit(), 40);
    assert_int_equal(files_allow(50), 50);
    assert_int_equal(soft_limit(), 50);
    assert_int_equal(files_allow(1000), 60);
    assert_int_equal(soft_limit(), 60);
}

TEST(names_lead_into_the_folder_or_not) {
    static const char *const inside[] = {"a", "a/b.so", "./a", "a..b", ".a"}, *const outside[] = {"",          "/a",
                                                                                                  "..",        "../a",
                                                                                                  "a/../../b", "a/.."};
    for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++)
        assert_true(file_name_inside(inside[i], strlen(inside[i])));
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++)
        assert_false(file_name_inside(outside[i], strlen(outside[i])));
    assert_false(file_name_inside("a\0b", 3));
}

TEST(what_others_may_write_is_not_private) {
    char folder[] = "/tmp/symphony-files-XXXXXX", path[64];
    struct sy_error err = {""};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/file", folder);
    assert_int_equal(files_private(path, &err), -ENOENT);
    fclose(fopen(path, "w"));
    static const struct {
        mode_t mode;
        int rc;
    } rows[] = {{0600, 0}, {0644, 0}, {0444, 0}, {0620, -EPERM}, {0602, -EPERM}, {0664, -EPERM}, {0666, -EPERM}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(chmod(path, rows[i].mode), 0);
        assert_int_equal(files_private(path, &err), rows[i].rc);
    }
    assert_non_null(strstr(err.text, path));
    assert_int_equal(files_private(folder, &err), 0);
    assert_int_equal(files_private("/tmp", &err), -EPERM); /* for all, though each file in it has its owner */
    assert_int_equal(files_private("/", &err), 0);         /* of root */
    chmod(path, 0600);
    if (chown(path, 1, (gid_t)-1) == 0) { /* who runs the test is root */
        assert_int_equal(files_private(path, &err), -EPERM);
        assert_non_null(strstr(err.text, "user 1"));
    }
    unlink(path);
    rmdir(folder);
}
