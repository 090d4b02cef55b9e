/* files.c - the soft limit of open files. */
#include "base/files.h"

#include <sys/resource.h>

uint64_t files_allow(uint64_t wanted) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return wanted; /* who opens too many is told so then */
    if (files.rlim_cur < wanted) {
        files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &files);
        getrlimit(RLIMIT_NOFILE, &files);
    }
    return files.rlim_cur;
}
