/* test_mapped_weights.c - weights that are mapped from a file leave memory and come back; other memory is let alone. */
#include "back/engine/mapped_weights.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit/test.h"

#define PIECE (64 << 10)
#define ALL   (4 * PIECE)

/* A file of four pieces, each filled with its number. */
struct rig {
    char path[64];
    int fd;
};

static void rig_begin(struct rig *rig) {
    char piece[PIECE];
    snprintf(rig->path, sizeof(rig->path), "/tmp/mapped_weights.XXXXXX");
    rig->fd = mkstemp(rig->path);
    assert_true(rig->fd >= 0);
    for (int i = 0; i < 4; i++) {
        memset(piece, 'a' + i, sizeof(piece));
        assert_int_equal(write(rig->fd, piece, sizeof(piece)), sizeof(piece));
    }
}

static void rig_end(struct rig *rig) {
    unlink(rig->path);
    close(rig->fd);
}

/* What a session does. */
static char *map(const struct rig *rig, size_t offset, size_t bytes) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, rig->fd, (off_t)offset);
    assert_true(at != MAP_FAILED);
    return at;
}

static size_t resident_kb(const void *from) {
    FILE *smaps = fopen("/proc/self/smaps", "r");
    char line[512];
    size_t kb = 0;
    bool here = false;
    assert_non_null(smaps);
    while (fgets(line, sizeof(line), smaps)) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            here = begin <= (unsigned long)from && (unsigned long)from < end;
        else if (here)
            sscanf(line, "Rss: %zu kB", &kb);
    }
    fclose(smaps);
    return kb;
}

static void close_session(struct mapped_weights *weights, char *at, size_t bytes) {
    mapped_weights_close_begin(weights);
    munmap(at, bytes);
    mapped_weights_close_end(weights);
}

TEST(weights_leave_and_come_back) {
    struct rig rig;
    struct sy_error err;
    rig_begin(&rig);
    struct mapped_weights *weights = mapped_weights_begin(rig.path);
    char *at = map(&rig, 0, ALL);
    assert_ptr_equal(mapped_weights_end(weights), weights);
    assert_int_equal(at[0], 'a');
    assert_true(resident_kb(at) > 0);
    assert_int_equal(mapped_weights_out(weights), 0);
    assert_int_equal(resident_kb(at), 0);
    assert_int_equal(mapped_weights_in(weights, &err), 0);
    assert_int_equal(resident_kb(at), ALL >> 10);
    assert_int_equal(at[ALL - 1], 'd');
    close_session(weights, at, ALL);
    rig_end(&rig);
}

/* Of two sessions on one file each has its own mappings, whichever lie beside each other. */
TEST(sessions_have_their_own) {
    struct rig rig;
    struct sy_error err;
    rig_begin(&rig);
    struct mapped_weights *first = mapped_weights_begin(rig.path);
    char *a = mmap(NULL, 2 * PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *b = a + PIECE;
    assert_ptr_equal(mmap(a, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, rig.fd, 0), a);
    assert_non_null(mapped_weights_end(first));
    struct mapped_weights *second = mapped_weights_begin(rig.path);
    assert_ptr_equal(mmap(b, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, rig.fd, PIECE),
                     b); /* are joined */
    assert_non_null(mapped_weights_end(second));
    assert_int_equal(a[0] + b[0], 'a' + 'b');
    assert_int_equal(mapped_weights_out(first), 0);
    assert_int_equal(mapped_weights_in(first, &err), 0);
    b[0] = 'B'; /* a private page: it would be lost if it left */
    assert_int_equal(mapped_weights_out(first), 0);
    assert_int_equal(b[0], 'B');
    close_session(first, a, PIECE);
    assert_int_equal(b[0], 'B');
    close_session(second, b, PIECE);
    rig_end(&rig);
}

/* A range that is not the file's any more may be anybody's memory. */
TEST(what_is_not_mapped_any_more_stays) {
    struct rig rig;
    rig_begin(&rig);
    struct mapped_weights *weights = mapped_weights_begin(rig.path);
    char *at = map(&rig, 0, ALL);
    assert_non_null(mapped_weights_end(weights));
    char *other = mmap(at + PIECE, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(other, at + PIECE);
    other[7] = 'x';
    assert_int_equal(mapped_weights_out(weights), -ESTALE);
    assert_int_equal(other[7], 'x');
    close_session(weights, at, ALL);
    rig_end(&rig);
}

TEST(a_file_that_was_cut_is_an_error) {
    struct rig rig;
    struct sy_error err;
    rig_begin(&rig);
    struct mapped_weights *weights = mapped_weights_begin(rig.path);
    char *at = map(&rig, 0, ALL);
    assert_non_null(mapped_weights_end(weights));
    assert_int_equal(mapped_weights_out(weights), 0);
    assert_int_equal(ftruncate(rig.fd, PIECE), 0);
    assert_int_equal(mapped_weights_in(weights, &err), -EIO);
    assert_non_null(strstr(err.text, rig.path));
    close_session(weights, at, ALL);
    rig_end(&rig);
}

TEST(not_all_mappings_may_be_out) {
    enum { COUNT = MAPPED_OUT_MOST / 2 + 1 };
    struct rig rig;
    struct sy_error err;
    static char *at[2][COUNT];
    struct mapped_weights *weights[2];
    rig_begin(&rig);
    for (int k = 0; k < 2; k++) {
        weights[k] = mapped_weights_begin(rig.path);
        for (int i = 0; i < COUNT; i++)
            at[k][i] = map(&rig, 0, 4096); /* the same page: the system cannot join these */
        assert_non_null(mapped_weights_end(weights[k]));
    }
    assert_int_equal(mapped_weights_out(weights[0]), 0);
    assert_int_equal(mapped_weights_out(weights[1]), -ENOSPC);
    assert_int_equal(mapped_weights_in(weights[0], &err), 0);
    assert_int_equal(mapped_weights_out(weights[1]), 0);
    for (int k = 0; k < 2; k++) {
        mapped_weights_close_begin(weights[k]);
        for (int i = 0; i < COUNT; i++)
            munmap(at[k][i], 4096);
        mapped_weights_close_end(weights[k]);
    }
    weights[0] = mapped_weights_begin(rig.path); /* which was out when it was closed */
    char *all = map(&rig, 0, ALL);
    assert_non_null(mapped_weights_end(weights[0]));
    assert_int_equal(mapped_weights_out(weights[0]), 0);
    close_session(weights[0], all, ALL);
    rig_end(&rig);
}

TEST(what_maps_nothing_has_nothing) {
    struct rig rig;
    rig_begin(&rig);
    struct mapped_weights *weights = mapped_weights_begin(rig.path);
    assert_non_null(weights);
    assert_null(mapped_weights_end(weights));
    rig_end(&rig);
    assert_null(mapped_weights_begin(rig.path));
}
