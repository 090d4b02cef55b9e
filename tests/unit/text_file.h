/* text_file.h - a temporary file of a test, with a text in it. */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/cmocka_all.h"

#define TEXT_FILE "/tmp/symphony_test_XXXXXX"

/* Makes the file; `path` has room for TEXT_FILE and becomes its name. The caller unlinks it. */
static inline void text_file(char *path, const void *text, size_t bytes) {
    int fd = mkstemp(strcpy(path, TEXT_FILE));
    assert_true(fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes);
    close(fd);
}
