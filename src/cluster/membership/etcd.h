/* etcd.h - requests to etcd 3 and its answers, in the JSON of etcd's gateway, and the keys of a cluster.
 *
 *     NAME/leader                {"term":7,"incarnation":"00c0ffee...","address":"HOST:PORT"}
 *     NAME/rollouts              rollouts.h
 *     NAME/members/INCARNATION   {"role":"backend","incarnation":"00c0ffee...","addresses":"HOST:PORT,..."}
 *
 * Keys and values travel in base64, numbers of 64 bits as strings. Answers are not trusted: any content is read, or
 * refused with a sentence. Pure but for memory and the files of login and TLS; any thread. */
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

/* ---- the place of the registry ---- */

struct registry_place {
    char endpoints[REGISTRY_ENDPOINTS_MAX][REGISTRY_ADDRESS_MAX + 1]; /* HOST:PORT of each etcd */
    uint32_t endpoint_count;
    char name[REGISTRY_NAME_MAX + 1]; /* name of the cluster, with which all its keys begin */
    bool tls;                         /* etcd speaks TLS */
    /* paths of files, which stay in place; NULL: none. Whose certificates etcd's is signed with (NULL: those that the
     * system trusts), our certificate and its key, and "USER:PASSWORD". They are read again when they are used again */
    const char *ca, *cert, *key, *login;
};

/* "etcd://HOST:PORT[,HOST:PORT]/NAME", at most 8 of them, or "etcds://..." for TLS; NAME is of letters, digits, '.',
 * '_' and '-'. -EINVAL and a sentence otherwise. Sets no files. */
int registry_place_parse(const char *url, struct registry_place *place, struct sy_error *err);

#define REGISTRY_USER_MAX     128
#define REGISTRY_PASSWORD_MAX 512
#define REGISTRY_TOKEN_MAX    4096
struct registry_login {
    char user[REGISTRY_USER_MAX + 1], password[REGISTRY_PASSWORD_MAX + 1];
};

/* Reads "USER:PASSWORD", the first line of a file. 0, or -errno with a sentence that names the file, not what is in
 * it. */
int registry_login_read(const char *path, struct registry_login *login, struct sy_error *err);

/* Whether the first certificate in place->cert has expired: etcd then ends connections without saying why. */
bool registry_certificate_over(const struct registry_place *place);

/* ---- the values of keys ---- */

struct registry_member {
    uint64_t incarnation;
    char role[REGISTRY_ROLE_MAX + 1];         /* small letters */
    char addresses[REGISTRY_ADDRESS_MAX + 1]; /* printable, without '"' and '\' */
};

struct registry_leader {
    struct election_key key;
    char address[REGISTRY_ADDRESS_MAX + 1]; /* in the form of a member's addresses */
};

/* Whether a member, or an address, has the form above. */
bool registry_member_valid(const struct registry_member *member);
bool registry_address_valid(const char *address);

/* Read a key's value. 0; -EBADMSG: it has another form. registry_leader_read() sets term, incarnation, address. */
int registry_member_read(const char *value, size_t bytes, struct registry_member *member);
int registry_leader_read(const char *value, size_t bytes, struct registry_leader *leader);

/* ---- requests: each writes the body of a POST ---- */

void etcd_range_write(struct text *body, const char *key);  /* /v3/kv/range: reads one key */
void etcd_list_write(struct text *body, const char *name);  /* /v3/kv/range: reads all keys of NAME/ */
void etcd_lease_write(struct text *body, int64_t ttl_s);    /* /v3/lease/grant */
void etcd_lease_id_write(struct text *body, int64_t lease); /* /v3/lease/keepalive, /v3/lease/revoke */
/* /v3/auth/authenticate */
void etcd_login_write(struct text *body, const struct registry_login *login);
/* /v3/kv/put */
void etcd_member_write(struct text *body, const char *name, const struct registry_member *member, int64_t lease);
/* /v3/watch: all keys of NAME/, from that revision on */
void etcd_watch_write(struct text *body, const char *name, int64_t revision);
/* /v3/kv/txn: sets the leader key if its revision is `revision` (0: if there is no key); otherwise the answer has the
 * present key. */
void etcd_swap_write(struct text *body, const char *name, int64_t revision, uint64_t term, uint64_t incarnation,
                     const char *address);

/* /v3/kv/txn: sets the rollouts if the leader key still has that revision. */
void etcd_rollouts_write(struct text *body, const char *name, int64_t leader_revision, const char *rollouts);

/* ---- answers ---- */

struct etcd_pair {
    const char *key, *value; /* terminated texts; the value may hold further zero bytes */
    size_t value_bytes;
    int64_t revision; /* revision of the key's last change */
    bool deleted;     /* the key was deleted, and there is no value */
};
/* Called for every key of an answer; `pair` is valid until the function returns. */
typedef void etcd_each(void *context, const struct etcd_pair *pair);

enum etcd_answer_kind {
    ETCD_RANGE,
    ETCD_SWAP,  /* any transaction; with the present key, if it did not succeed */
    ETCD_WATCH, /* a line of a watch */
    ETCD_LEASE, /* a lease was granted, or kept alive */
    ETCD_LOGIN,
    ETCD_DONE, /* nothing of it is needed */
};

/* What an answer says; what it leaves out is 0, false, or "". */
struct etcd_answer {
    enum etcd_answer_kind kind;
    int64_t revision;                   /* RANGE, SWAP: the registry's revision; after a swap that of the new key */
    int64_t lease, ttl_s;               /* LEASE; ttl_s 0: there is no such lease any more */
    bool succeeded;                     /* SWAP */
    bool created;                       /* WATCH: the watch has begun */
    bool wants_login;                   /* an error: the token is no longer valid, or there has to be one */
    char token[REGISTRY_TOKEN_MAX + 1]; /* LOGIN; "": etcd asks nobody to log in */
};

/* Reads an answer, and calls `each` for its keys. 0, or -errno and a sentence: -EBADMSG if the text is no such answer,
 * -EREMOTEIO for an error of etcd, -ECANCELED if it has ended the watch, for example because the revision is compacted.
 */
int etcd_answer_read(enum etcd_answer_kind kind, const char *body, size_t bytes, struct etcd_answer *answer,
                     etcd_each *each, void *context, struct sy_error *err);

/* The keys of the leader, of the rollouts, and of a member. `key` has room for ETCD_KEY_MAX bytes. */
#define ETCD_KEY_MAX (REGISTRY_NAME_MAX + 32)
void etcd_leader_key(char *key, const char *name);
void etcd_rollouts_key(char *key, const char *name);
void etcd_member_key(char *key, const char *name, uint64_t incarnation);
/* The incarnation in the key of a member of the cluster `name`; 0: it is no such key. */
uint64_t etcd_member_key_read(const char *key, const char *name);
