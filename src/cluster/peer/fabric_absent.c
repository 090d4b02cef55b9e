/* fabric_absent.c - a build without libfabric's headers: fabric_open() says so, and nothing else is ever called. */
#include <errno.h>

#include "cluster/peer/fabric.h"

int fabric_open(struct fabric **fabric, const char *provider, const struct fabric_events *events, void *owner,
                struct sy_error *err) {
    (void)fabric, (void)events, (void)owner;
    return error_set(err, -ENOSYS,
                     "'%s': this symphony was built without libfabric (its headers are in Debian's libfabric-dev)",
                     provider);
}

void fabric_close(struct fabric *fabric) {
    (void)fabric;
}

int fabric_listen(struct fabric *fabric, const char *host, struct sockaddr_storage *address, struct sy_error *err) {
    (void)fabric, (void)host, (void)address, (void)err;
    return -ENOSYS;
}

uint32_t fabric_fds(const struct fabric *fabric, int fds[FABRIC_FDS]) {
    (void)fabric, (void)fds;
    return 0;
}

bool fabric_may_sleep(struct fabric *fabric) {
    (void)fabric;
    return true;
}

void fabric_look(struct fabric *fabric) {
    (void)fabric;
}

int fabric_region(struct fabric *fabric, void *base, uintptr_t from, size_t bytes, bool remote,
                  struct fabric_region *region, struct sy_error *err) {
    (void)fabric, (void)base, (void)from, (void)bytes, (void)remote, (void)region, (void)err;
    return -ENOSYS;
}

int fabric_connect(struct fabric *fabric, const struct sockaddr *address, const uint64_t secret[2], void *of,
                   struct fabric_end **end, struct sy_error *err) {
    (void)fabric, (void)address, (void)secret, (void)of, (void)end, (void)err;
    return -ENOSYS;
}

void fabric_end_close(struct fabric_end *end) {
    (void)end;
}

int fabric_read(struct fabric_end *end, const struct fabric_region *region, void *to, size_t bytes, uint64_t remote,
                uint64_t key, uint64_t tag) {
    (void)end, (void)region, (void)to, (void)bytes, (void)remote, (void)key, (void)tag;
    return -ENOSYS;
}

void fabric_post(struct fabric_end *end) {
    (void)end;
}
