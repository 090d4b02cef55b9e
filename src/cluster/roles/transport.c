/* transport.c - chooses the transport that two processes use. */
#include "cluster/roles/transport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const names[TRANSPORTS] = {"shm", "fabric", "tcp"};

const char *transport_name(enum transport_kind kind) {
    return names[kind];
}

void transport_offer(struct hello *self, const char *fabric) {
    self->transports = TRANSPORTS_PLAIN | (fabric ? TRANSPORT_BIT(TRANSPORT_FABRIC) : 0);
    snprintf(self->fabric, sizeof(self->fabric), "%s", fabric ? fabric : "");
}

/* "shm, fabric (verbs), tcp" */
static void describe(const struct hello *hello, char text[128]) {
    size_t at = 0;
    *text = '\0';
    for (int k = 0; k < TRANSPORTS; k++)
        if (hello->transports & TRANSPORT_BIT(k))
            at += (size_t)snprintf(text + at, 128 - at, "%s%s%s%s%s", at ? ", " : "", names[k],
                                   k == TRANSPORT_FABRIC ? " (" : "", k == TRANSPORT_FABRIC ? hello->fabric : "",
                                   k == TRANSPORT_FABRIC ? ")" : "");
}

int transport_choose(const struct hello *frontend, const struct hello *backend, bool local, enum transport_kind *kind,
                     struct sy_error *err) {
    char theirs[128], ours[128];
    uint32_t both = frontend->transports & backend->transports;
    if (!local)
        both &= ~TRANSPORT_BIT(TRANSPORT_SHM);
    if (!*frontend->fabric || strcmp(frontend->fabric, backend->fabric) != 0)
        both &= ~TRANSPORT_BIT(TRANSPORT_FABRIC);
    for (int k = 0; k < TRANSPORTS; k++)
        if (both & TRANSPORT_BIT(k)) {
            *kind = (enum transport_kind)k;
            return 0;
        }
    describe(frontend, theirs);
    describe(backend, ours);
    return error_set(err, -ENOTSUP, "no way for inputs: the frontend has %s; the backend takes %s%s", theirs, ours,
                     local ? "" : "; they share no host");
}
