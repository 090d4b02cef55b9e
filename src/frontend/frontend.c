/* frontend.c - completes what frontends are told. */
#include "frontend/frontend.h"

#include <sys/resource.h>

#define BODY_BYTES_MAX   ((uint64_t)64 << 20)
#define INPUTS_BYTES_MAX ((uint64_t)1 << 30)
#define REQUESTS_MAX     8192
#define CONNECTIONS_MAX  10000
#define IDLE_TIMEOUT_S   300
#define HEAD_TIMEOUT_S   15

/* Connections that the limit of open files has room for, raised as far as it may be. */
static uint32_t connections_allowed(uint32_t wanted) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return wanted;
    rlim_t need = (rlim_t)wanted + 256;
    if (files.rlim_cur < need) {
        files.rlim_cur = files.rlim_max < need ? files.rlim_max : need;
        setrlimit(RLIMIT_NOFILE, &files);
        getrlimit(RLIMIT_NOFILE, &files);
    }
    return files.rlim_cur >= need ? wanted : (uint32_t)(files.rlim_cur > 320 ? files.rlim_cur - 256 : 64);
}

struct frontend_config frontend_config_completed(const struct frontend_config *config) {
    struct frontend_config c = *config;
    c.body_bytes_max = c.body_bytes_max ? c.body_bytes_max : BODY_BYTES_MAX;
    c.inputs_bytes_max = c.inputs_bytes_max ? c.inputs_bytes_max : INPUTS_BYTES_MAX;
    c.requests_max = c.requests_max ? c.requests_max : REQUESTS_MAX;
    c.idle_timeout_s = c.idle_timeout_s ? c.idle_timeout_s : IDLE_TIMEOUT_S;
    c.head_timeout_s = c.head_timeout_s ? c.head_timeout_s : HEAD_TIMEOUT_S;
    c.connections_max = connections_allowed(c.connections_max ? c.connections_max : CONNECTIONS_MAX);
    return c;
}
