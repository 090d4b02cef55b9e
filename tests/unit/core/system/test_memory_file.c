/* test_memory_file.c - what is read from the file is what was put in, by its descriptor and by its path. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "core/system/memory_file.h"
#include "unit/test.h"

TEST(it_is_read_from_the_beginning) {
    char got[16], path[64];
    int fd = memory_file("test", "0123456789", 10);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(read(fd, got, sizeof(got)), 10);
    assert_memory_equal(got, "0123456789", 10);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int again = open(path, O_RDONLY);
    assert_int_equal(read(again, got, sizeof(got)), 10);
    close(again);
    close(fd);
}

TEST(it_may_be_empty_but_needs_its_data) {
    char got;
    int fd = memory_file("test", NULL, 0);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, &got, 1), 0);
    close(fd);
    assert_int_equal(memory_file("test", NULL, 1), -EFAULT);
}
