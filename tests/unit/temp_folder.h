/* temp_folder.h - a new folder for the files of a test, which folder_remove() takes away. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "core/system/folder.h"
#include "unit/cmocka_all.h"

static inline void temp_folder(char path[64]) {
    strcpy(path, "/tmp/symphony-test-XXXXXX");
    assert_non_null(mkdtemp(path));
}
