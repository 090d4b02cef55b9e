/* test_lost_pages.c - pages of a file that was cut short read as zeros where that is asked for, and trap elsewhere. */
#include "back/engine/lost_pages.h"
#include "unit/test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 4 };

static size_t page_bytes;

/* Maps a file of four pages of ones, of which the first alone is left. */
static volatile char *map_cut(void) {
    char path[] = "/tmp/lost_pages.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *ones = malloc(PAGES * page_bytes);
    assert_non_null(ones);
    memset(ones, 1, PAGES * page_bytes);
    assert_int_equal(write(fd, ones, PAGES * page_bytes), PAGES * page_bytes);
    free(ones);
    char *at = mmap(NULL, PAGES * page_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(at != MAP_FAILED);
    assert_int_equal(ftruncate(fd, (off_t)page_bytes), 0);
    close(fd);
    return at;
}

TEST(lost_pages_become_zeros) {
    volatile char *at = map_cut();
    lost_pages_mend();
    lost_pages_mend();
    lost_pages_begin();
    assert_int_equal(at[0], 1);
    assert_false(lost_pages_end());
    lost_pages_begin();
    assert_int_equal(at[2 * page_bytes + 5], 0);
    assert_true(lost_pages_end());
    lost_pages_begin(); /* the page is there now */
    assert_int_equal(at[2 * page_bytes], 0);
    assert_false(lost_pages_end());
    lost_pages_begin();
    assert_int_equal(at[page_bytes], 0);
    assert_int_equal(at[3 * page_bytes], 0);
    assert_int_equal(at[0], 1);
    assert_true(lost_pages_end());
    munmap((void *)at, PAGES * page_bytes);
}

/* Where nobody looks whether pages were lost, what is computed from them would be believed. */
TEST(elsewhere_they_end_the_process) {
    volatile char *at = map_cut();
    pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, SIG_DFL);
        lost_pages_mend();
        lost_pages_begin();
        lost_pages_end();
        _exit(at[page_bytes]);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    munmap((void *)at, PAGES * page_bytes);
}
