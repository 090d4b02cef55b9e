/* test_watched_files.c - when files of certificates, keys and tokens are read again. */
#include "server/commands/watched_files.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/test.h"
#include "unit/text_file.h"

static char path[] = TEXT_FILE;

/* May be read by others than before; the file system's clock moves in steps. */
static void mode_change(mode_t mode) {
    struct stat before, now;
    assert_int_equal(stat(path, &before), 0);
    do {
        assert_int_equal(chmod(path, mode), 0);
        assert_int_equal(stat(path, &now), 0);
    } while (now.st_ctim.tv_sec == before.st_ctim.tv_sec && now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
}

TEST(a_file_that_has_changed_is_read_once_it_rests) {
    struct watched_files watched = {.count = 0};
    text_file(path, "one", 3);
    watched_files_add(&watched, path);
    assert_false(watched_files_look(&watched));
    FILE *file = fopen(path, "w");
    assert_int_equal(fputs("longer", file) < 0 || fclose(file), 0);
    assert_false(watched_files_look(&watched));
    assert_true(watched_files_look(&watched));
    watched_files_read(&watched);
    mode_change(0);
    assert_false(watched_files_look(&watched));
    assert_true(watched_files_look(&watched));
    watched_files_read(&watched);
    mode_change(0600);
    assert_false(watched_files_look(&watched));
    assert_true(watched_files_look(&watched));
    watched_files_read(&watched);
    assert_false(watched_files_look(&watched));
    unlink(path);
}

TEST(files_that_could_not_be_used_are_read_again) {
    struct watched_files watched = {.count = 0};
    text_file(path, "one", 3);
    watched_files_add(&watched, path);
    watched_files_read(&watched);
    watched_files_failed(&watched);
    for (int i = 1; i < WATCHED_FILES_AGAIN; i++)
        assert_false(watched_files_look(&watched));
    assert_true(watched_files_look(&watched));
    watched_files_read(&watched);
    for (int i = 0; i < 2 * WATCHED_FILES_AGAIN; i++)
        assert_false(watched_files_look(&watched));
    unlink(path);
}
