/* visit.h - asks the scheduler of a cluster one question, and leaves. Blocks, up to its timeout. Any thread. */
#pragma once

#include "cluster/membership/etcd.h"
#include "cluster/peer/names.h"
#include "cluster/peer/wire.h"

struct tls; /* front/net/tls.h */

struct visit {
    const char *scheduler;         /* HOST:PORT of the scheduler, for people */
    const struct name_address *at; /* address of the scheduler */
    struct tls *tls;               /* TLS of the connection; NULL: plain text */
    const char *token;             /* token that lets the visitor in; "": none */
    int64_t timeout_ns;
};

/* Sends a frame of `kind` (FRAME_STATUS, FRAME_DRAIN) with `text` as its head. 0 and *answer, the JSON of the answer,
 * terminated, to be freed; or -errno with a sentence: -EACCES if the scheduler refused. */
int visit_ask(const struct visit *visit, enum frame_kind kind, const char *text, char **answer, struct sy_error *err);
/* Asks a registry for the leader: HOST:PORT. 0, or -errno with a sentence: -ENOENT if there is none. */
int visit_leader(const struct registry_place *place, int64_t timeout_ns, char leader[REGISTRY_ADDRESS_MAX + 1],
                 struct sy_error *err);
