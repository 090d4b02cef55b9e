/* etcd.h - requests to etcd 3 and its answers, in the JSON of its gateway; and the keys that we keep there.
 *
 *     NAME/leader                {"term":7,"incarnation":"00c0ffee...","address":"HOST:PORT"}
 *     NAME/members/INCARNATION   {"role":"backend","incarnation":"00c0ffee...","addresses":"HOST:PORT,..."}
 *
 * Keys and values travel in base64, numbers of 64 bits as strings. Answers are not trusted: whatever they contain is
 * read or refused with a sentence. Pure but for memory; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/membership/election.h"
#include "core/util/error.h"
#include "core/util/text.h"

#define REGISTRY_ENDPOINTS_MAX 8
#define REGISTRY_NAME_MAX      64
#define REGISTRY_ROLE_MAX      16
#define REGISTRY_ADDRESS_MAX   255

/* ---- where it is ---- */

struct registry_place {
    char endpoints[REGISTRY_ENDPOINTS_MAX][REGISTRY_ADDRESS_MAX + 1]; /* HOST:PORT */
    uint32_t endpoint_count;
    char name[REGISTRY_NAME_MAX + 1];
};

/* "etcd://HOST:PORT[,HOST:PORT]/NAME", at most 8 of them; NAME is of letters, digits, '.', '_' and '-'. -EINVAL and a
 * sentence otherwise. */
int registry_place_parse(const char *url, struct registry_place *place, struct sy_error *err);

/* ---- what is kept there ---- */

struct registry_member {
    uint64_t incarnation;
    char role[REGISTRY_ROLE_MAX + 1];         /* small letters */
    char addresses[REGISTRY_ADDRESS_MAX + 1]; /* printable, without '"' and '\' */
};

struct registry_leader {
    struct election_key key;
    char address[REGISTRY_ADDRESS_MAX + 1]; /* as a member's */
};

/* Whether a member to be written there has the form above. */
bool registry_member_valid(const struct registry_member *member);
bool registry_address_valid(const char *address);

/* Values read; -EBADMSG if they are something else. registry_leader_read() sets term, incarnation and address. */
int registry_member_read(const char *value, size_t bytes, struct registry_member *member);
int registry_leader_read(const char *value, size_t bytes, struct registry_leader *leader);

/* ---- requests: each writes the body of a POST ---- */

void etcd_range_write(struct text *body, const char *key);  /* /v3/kv/range: one key */
void etcd_list_write(struct text *body, const char *name);  /* the same: all of NAME/ */
void etcd_lease_write(struct text *body, int64_t ttl_s);    /* /v3/lease/grant */
void etcd_lease_id_write(struct text *body, int64_t lease); /* /v3/lease/keepalive, /v3/lease/revoke */
/* /v3/kv/put */
void etcd_member_write(struct text *body, const char *name, const struct registry_member *member, int64_t lease);
/* /v3/watch: all of NAME/ from that revision on */
void etcd_watch_write(struct text *body, const char *name, int64_t revision);
/* /v3/kv/txn: sets the leader key if its revision is `revision` (0: if there is no key); otherwise the answer has the
 * present key. */
void etcd_swap_write(struct text *body, const char *name, int64_t revision, uint64_t term, uint64_t incarnation,
                     const char *address);

/* ---- answers ---- */

struct etcd_pair {
    const char *key, *value; /* terminated; the value may hold more zero bytes */
    size_t value_bytes;
    int64_t revision; /* of its last change */
    bool deleted;     /* no value then */
};
/* Called for every key of an answer; its argument is valid until it returns. */
typedef void etcd_each(void *context, const struct etcd_pair *pair);

/* 0, or -errno and a sentence: -EBADMSG if it is not such an answer, -EREMOTEIO for an error of etcd. */
int etcd_range_read(const char *body, size_t bytes, int64_t *revision, etcd_each *each, void *context,
                    struct sy_error *err);
/* If the swap succeeded, the header's revision is that of the new key; else `each` is called with the present key. */
int etcd_swap_read(const char *body, size_t bytes, bool *succeeded, int64_t *revision, etcd_each *each, void *context,
                   struct sy_error *err);
/* Of a lease granted or kept alive. Time 0: there is no such lease any more. */
int etcd_lease_read(const char *body, size_t bytes, int64_t *lease, int64_t *ttl_s, struct sy_error *err);
/* One line of a watch. -ECANCELED if etcd has ended it, for example because the revision is compacted. */
int etcd_watch_read(const char *line, size_t bytes, bool *created, etcd_each *each, void *context,
                    struct sy_error *err);
/* For answers whose contents are not needed. */
int etcd_done_read(const char *body, size_t bytes, struct sy_error *err);

/* The key of the leader, and of a member. `key` has room for ETCD_KEY_MAX bytes. */
#define ETCD_KEY_MAX (REGISTRY_NAME_MAX + 32)
void etcd_leader_key(char *key, const char *name);
void etcd_member_key(char *key, const char *name, uint64_t incarnation);
/* The incarnation in a member's key of that name; 0: it is none. */
uint64_t etcd_member_key_read(const char *key, const char *name);
