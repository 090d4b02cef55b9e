/* test_folder.c - a folder goes with what lies in it, and nothing else does. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/folder.h"
#include "unit/temp_folder.h"
#include "unit/test.h"

static void make_file(const char *path) {
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
}

TEST(all_of_it_goes_and_links_are_not_followed) {
    char root[64], path[64], kept[64], link[64];
    temp_folder(root);
    snprintf(kept, sizeof(kept), "%s/kept", root);
    make_file(kept);
    snprintf(path, sizeof(path), "%s/a", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/a/b", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(link, sizeof(link), "%s/a/b/link", root);
    assert_int_equal(symlink(kept, link), 0);
    snprintf(path, sizeof(path), "%s/a/b/file", root);
    make_file(path);
    snprintf(path, sizeof(path), "%s/a", root);
    assert_int_equal(folder_remove(path), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(kept, F_OK), 0);
    assert_int_equal(folder_remove(path), -ENOENT);
    assert_int_equal(folder_remove(root), 0);
}
