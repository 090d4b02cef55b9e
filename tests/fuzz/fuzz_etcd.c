/* fuzz_etcd.c - answers of a registry, values in it, and addresses of one. The first byte says which. */
/* runs: 75000 */
#include <stdlib.h>
#include <string.h>

#include "cluster/membership/etcd.h"
#include "core/util/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void pair_check(void *context, const struct etcd_pair *pair) {
    struct registry_member member;
    struct registry_leader leader = {0};
    unsigned *pairs = context;
    ++*pairs;
    CHECK(pair->key[0] && pair->revision > 0 && pair->value[pair->value_bytes] == '\0');
    etcd_member_key_read(pair->key, "NAME");
    if (registry_member_read(pair->value, pair->value_bytes, &member) == 0)
        CHECK(registry_member_valid(&member));
    if (registry_leader_read(pair->value, pair->value_bytes, &leader) == 0)
        CHECK(leader.key.term && leader.key.incarnation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct registry_place place;
    struct sy_error err;
    struct etcd_answer answer;
    unsigned pairs = 0;
    if (size == 0)
        return 0;
    char *body = malloc(size); /* of its own, so that reading beyond it is noticed */
    memcpy(body, data + 1, size - 1);
    switch (data[0]) {
    case 'r':
        if (etcd_answer_read(ETCD_RANGE, body, size - 1, &answer, pair_check, &pairs, &err) == 0)
            CHECK(answer.revision > 0);
        break;
    case 's':
        if (etcd_answer_read(ETCD_SWAP, body, size - 1, &answer, pair_check, &pairs, &err) == 0)
            CHECK(answer.revision > 0 && !(answer.succeeded && pairs));
        break;
    case 'l':
        if (etcd_answer_read(ETCD_LEASE, body, size - 1, &answer, pair_check, &pairs, &err) == 0)
            CHECK(answer.lease > 0);
        break;
    case 'w':
        etcd_answer_read(ETCD_WATCH, body, size - 1, &answer, pair_check, &pairs, &err);
        break;
    case 'd':
        etcd_answer_read(ETCD_DONE, body, size - 1, &answer, pair_check, &pairs, &err);
        break;
    case 'v':
        body[size - 1] = '\0';
        pair_check(&pairs, &(struct etcd_pair){.key = "k", .value = body, .value_bytes = size - 1, .revision = 1});
        break;
    default:
        body[size - 1] = '\0';
        if (registry_place_parse(body, &place, &err) == 0)
            CHECK(place.endpoint_count && place.name[0]);
        break;
    }
    free(body);
    return 0;
}
