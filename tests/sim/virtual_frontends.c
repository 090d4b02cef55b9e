/* virtual_frontends.c - looks into the threads of frontends that speak with clients. */
#include "core/util/assert.h"
#include "front/bulk/bulk.h"
#include "front/net/frontend.h"
#include "sim/virtual_cluster.h"

/* Keeps a frontend's threads, to look into them. */
int __real_frontend_start(struct frontend **frontend, const struct protocol *protocol,
                          const struct frontend_config *config, struct sy_error *err);
int __wrap_frontend_start(struct frontend **frontend, const struct protocol *protocol,
                          const struct frontend_config *config, struct sy_error *err);
int __wrap_frontend_start(struct frontend **frontend, const struct protocol *protocol,
                          const struct frontend_config *config, struct sy_error *err) {
    struct virtual_role *r = virtual_self()->context;
    int rc = __real_frontend_start(frontend, protocol, config, err);
    CHECK_LT(r->frontend_count, CLUSTER_PROTOCOLS * CLUSTER_THREADS_MAX);
    if (rc == 0)
        r->frontends[r->frontend_count++] = *frontend;
    return rc;
}

void frontends_check(const struct virtual_role *r) {
    for (uint32_t i = 0; i < r->frontend_count; i++) {
        const struct frontend *f = r->frontends[i];
        size_t taken = slab_bytes_taken(f->inferences.slab) + slab_bytes_taken(bulk_slab(f->config.bulk));
        if (frontend_in_flight(f) > 0 || taken > 0)
            cluster_wrong("%s: %u requests are under way, and %zu bytes of memory taken, for nobody", r->name,
                          frontend_in_flight(f), taken);
    }
}
