/* test_etcd.c - addresses of registries, requests to etcd and its answers, as its gateway writes them. */
#include "cluster/membership/etcd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/test.h"

TEST(places) {
    static const struct {
        const char *url;
        uint32_t endpoints; /* 0: refused */
    } cases[] = {
        {"etcd://127.0.0.1:2379/prod", 1},
        {"etcd://a.example:1,b:65535,[::1]:2379/a.B_c-9", 3},
        {"etcds://a.example:1,b:65535/n", 2},
        {"etcds:/a:1/n", 0},
        {"etcdss://a:1/n", 0},
        {"etcd://a:1/", 0},
        {"etcd://a:1", 0},
        {"etcd:///n", 0},
        {"etcd://a/n", 0},
        {"etcd://:1/n", 0},
        {"etcd://a:0/n", 0},
        {"etcd://a:65536/n", 0},
        {"etcd://a:1,/n", 0},
        {"etcd://a:1/n/m", 0},
        {"etcd://u@a:1/n", 0},
        {"http://a:1/n", 0},
        {"etcd://a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1/n", 8},
        {"etcd://a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1/n", 0},
        {"etcd://a:1/12345678901234567890123456789012345678901234567890123456789012345", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct registry_place place;
        struct sy_error err = {""};
        int rc = registry_place_parse(cases[i].url, &place, &err);
        if (rc != (cases[i].endpoints ? 0 : -EINVAL))
            fail_msg("%s: %d %s", cases[i].url, rc, err.text);
        if (!rc)
            assert_int_equal(place.endpoint_count, cases[i].endpoints);
        if (!rc)
            assert_int_equal(place.tls, cases[i].url[4] == 's');
        else
            assert_true(strlen(err.text) > 10);
    }
}

TEST(requests) {
    struct text body;
    text_init(&body, NULL, 0);
    etcd_list_write(&body, "n"); /* "n/" to "n0" */
    assert_string_equal(text_end(&body), "{\"key\":\"bi8=\",\"range_end\":\"bjA=\"}");
    body.length = 0;
    etcd_watch_write(&body, "n", 7);
    assert_string_equal(text_end(&body),
                        "{\"create_request\":{\"key\":\"bi8=\",\"range_end\":\"bjA=\",\"start_revision\":\"7\"}}");
    body.length = 0;
    etcd_lease_id_write(&body, 9223372036854775807);
    assert_string_equal(text_end(&body), "{\"ID\":\"9223372036854775807\"}");
    body.length = 0;
    etcd_rollouts_write(&body, "n", 7, "{}"); /* n/leader, n/rollouts */
    assert_string_equal(text_end(&body),
                        "{\"compare\":[{\"key\":\"bi9sZWFkZXI=\",\"target\":\"MOD\",\"result\":\"EQUAL\","
                        "\"mod_revision\":\"7\"}],\"success\":[{\"request_put\":"
                        "{\"key\":\"bi9yb2xsb3V0cw==\",\"value\":\"e30=\"}}]}");
    text_free(&body);
}

struct seen {
    unsigned pairs, deleted;
    int64_t revision;
    char value[64];
};

static void pair_note(void *context, const struct etcd_pair *pair) {
    struct seen *seen = context;
    assert_string_equal(pair->key, "a");
    seen->pairs++;
    seen->deleted += pair->deleted;
    seen->revision = pair->revision;
    snprintf(seen->value, sizeof(seen->value), "%s", pair->value);
}

#define HEADER "\"header\":{\"cluster_id\":\"14841639068965178418\",\"revision\":\"5\",\"raft_term\":\"2\"}"

TEST(answers) {
    struct seen seen = {0};
    struct sy_error err;
    struct etcd_answer answer;
#define READ(kind, text) etcd_answer_read(kind, text, strlen(text), &answer, pair_note, &seen, &err)
    assert_int_equal(READ(ETCD_RANGE, "{" HEADER "}"), 0);
    assert_int_equal(answer.revision, 5);
    assert_int_equal(seen.pairs, 0);
    assert_int_equal(
        READ(ETCD_RANGE, "{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"mod_revision\":\"3\",\"value\":\"Yg==\"}]}"), 0);
    assert_int_equal(seen.pairs, 1);
    assert_int_equal(seen.revision, 3);
    assert_string_equal(seen.value, "b");
    assert_int_equal(READ(ETCD_SWAP, "{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_put\":{}}]}"), 0);
    assert_true(answer.succeeded);
    assert_int_equal(READ(ETCD_SWAP, "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"YQ==\","
                                     "\"mod_revision\":\"4\"}]}}]}"),
                     0);
    assert_false(answer.succeeded);
    assert_int_equal(seen.revision, 4);
    assert_string_equal(seen.value, "");
    assert_int_equal(READ(ETCD_LEASE, "{" HEADER ",\"ID\":\"75\",\"TTL\":\"2\"}"), 0);
    assert_int_equal(answer.lease, 75);
    assert_int_equal(answer.ttl_s, 2);
    assert_int_equal(READ(ETCD_LEASE, "{\"result\":{" HEADER ",\"ID\":\"75\"}}"), 0);
    assert_int_equal(answer.ttl_s, 0);
    assert_int_equal(READ(ETCD_WATCH, "{\"result\":{" HEADER ",\"created\":true}}"), 0);
    assert_true(answer.created);
    seen = (struct seen){0};
    assert_int_equal(READ(ETCD_WATCH,
                          "{\"result\":{" HEADER ",\"events\":[{\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"2\"}},"
                          "{\"type\":\"DELETE\",\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"3\"}}]}}"),
                     0);
    assert_int_equal(seen.pairs, 2);
    assert_int_equal(seen.deleted, 1);
    assert_int_equal(READ(ETCD_WATCH, "{\"result\":{" HEADER ",\"canceled\":true,\"compact_revision\":\"9\"}}"),
                     -ECANCELED);
}

TEST(other_answers_are_refused) {
    static const struct {
        const char *text;
        int rc;
    } cases[] = {
        {"", -EBADMSG},
        {"[]", -EBADMSG},
        {"{}", -EBADMSG},
        {"{\"error\":\"etcdserver: no space\",\"code\":8}", -EREMOTEIO},
        {"{\"error\":{\"grpc_code\":14,\"message\":\"unavailable\"}}", -EREMOTEIO},
        {"{\"code\":8,\"message\":\"etcdserver: no space\",\"details\":[]}", -EREMOTEIO},
        {"{" HEADER ",\"kvs\":[{\"key\":\"Y*==\",\"mod_revision\":\"3\"}]}", -EBADMSG},
        {"{" HEADER ",\"kvs\":[{\"key\":\"YQ==\"}]}", -EBADMSG},
        {"{" HEADER ",\"kvs\":[7]}", -EBADMSG},
        {"{" HEADER ",\"kvs\":[{\"key\":\"AGE=\",\"mod_revision\":\"3\"}]}", -EBADMSG},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct seen seen = {0};
        struct sy_error err = {""};
        struct etcd_answer answer;
        int rc = READ(ETCD_RANGE, cases[i].text);
        if (rc != cases[i].rc)
            fail_msg("%s: %d %s", cases[i].text, rc, err.text);
    }
}

TEST(values) {
    struct registry_member member;
    struct registry_leader leader = {0};
    static const char *const bad[] = {"",
                                      "{}",
                                      "[]",
                                      "{\"role\":\"backend\",\"incarnation\":\"7\",\"addresses\":\"a:1\"}",
                                      "{\"role\":\"\",\"incarnation\":\"00000000000000aa\",\"addresses\":\"a:1\"}",
                                      "{\"role\":\"x\",\"incarnation\":\"0000000000000000\",\"addresses\":\"a:1\"}",
                                      "{\"role\":\"x\",\"incarnation\":\"00000000000000aa\",\"addresses\":\"\\n\"}",
                                      "{\"term\":-1,\"incarnation\":\"00000000000000aa\",\"address\":\"a:1\"}",
                                      "{\"term\":3,\"incarnation\":\"00000000000000aa\"}"};
    const char *good = "{\"role\":\"backend\",\"incarnation\":\"f0000000000000aa\",\"addresses\":\"a:1,b:2\"}";
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(registry_member_read(bad[i], strlen(bad[i]), &member), -EBADMSG);
        assert_int_equal(registry_leader_read(bad[i], strlen(bad[i]), &leader), -EBADMSG);
    }
    assert_int_equal(registry_member_read(good, strlen(good), &member), 0);
    assert_true(member.incarnation == 0xf0000000000000aaull);
    assert_string_equal(member.addresses, "a:1,b:2");
    good = "{\"term\":3,\"incarnation\":\"00000000000000aa\",\"address\":\"a:1\"}";
    assert_int_equal(registry_leader_read(good, strlen(good), &leader), 0);
    assert_int_equal(leader.key.term, 3);
    assert_int_equal(leader.key.incarnation, 0xaa);
    char key[ETCD_KEY_MAX];
    etcd_member_key(key, "n", 0xaa);
    assert_int_equal(etcd_member_key_read(key, "n"), 0xaa);
    assert_int_equal(etcd_member_key_read(key, "m"), 0);
    assert_int_equal(etcd_member_key_read("n/members/00000000000000aa/b", "n"), 0);
}

TEST(logins) {
    static const struct {
        const char *line, *user, *password; /* user NULL: refused */
    } cases[] = {{"root:secret\n", "root", "secret"},
                 {"a:b:\"c\"\r\nmore", "a", "b:\"c\""},
                 {"", NULL, NULL},
                 {"root\n", NULL, NULL},
                 {":secret\n", NULL, NULL},
                 {"root:\n", NULL, NULL},
                 {"\nroot:secret\n", NULL, NULL}};
    char path[] = "/tmp/symphony-login-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct registry_login login;
        struct sy_error err = {""};
        size_t bytes = strlen(cases[i].line);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, cases[i].line, bytes, 0), bytes);
        int rc = registry_login_read(path, &login, &err);
        assert_int_equal(rc, cases[i].user ? 0 : -EINVAL);
        if (rc < 0)
            continue;
        assert_string_equal(login.user, cases[i].user);
        assert_string_equal(login.password, cases[i].password);
    }
    close(fd);
    unlink(path);
    struct sy_error err = {""};
    struct registry_login login = {.user = "a", .password = "\"b\""};
    assert_int_equal(registry_login_read(path, &login, &err), -ENOENT);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(registry_login_read(path, &login, &err), -EINVAL);
    unlink(path);
    struct text body;
    text_init(&body, NULL, 0);
    etcd_login_write(&body, &login);
    assert_string_equal(text_end(&body), "{\"name\":\"a\",\"password\":\"\\\"b\\\"\"}");
    text_free(&body);

    struct seen seen = {0};
    struct etcd_answer answer;
    static const char good[] = "{\"header\":{},\"token\":\"abc.7\"}", none[] = "{\"header\":{}}",
                      off[] = "{\"error\":\"etcdserver: authentication is not enabled\",\"code\":9}",
                      wrong[] = "{\"error\":\"etcdserver: authentication failed, invalid user ID or password\"}",
                      old[] = "{\"error\":\"etcdserver: invalid auth token\",\"code\":16}",
                      old_3_6[] = "{\"code\":16,\"message\":\"etcdserver: invalid auth token\",\"details\":[]}",
                      broken[] = "{\"token\":\"a\\nHost: b\"}";
    assert_int_equal(READ(ETCD_LOGIN, good), 0);
    assert_string_equal(answer.token, "abc.7");
    assert_int_equal(READ(ETCD_LOGIN, off), 0);
    assert_string_equal(answer.token, "");
    assert_int_equal(READ(ETCD_LOGIN, none), -EBADMSG);
    assert_int_equal(READ(ETCD_LOGIN, broken), -EBADMSG);
    assert_int_equal(READ(ETCD_LOGIN, wrong), -EREMOTEIO);
    assert_false(answer.wants_login);
    assert_int_equal(READ(ETCD_DONE, old), -EREMOTEIO);
    assert_true(answer.wants_login);
    assert_int_equal(READ(ETCD_DONE, old_3_6), -EREMOTEIO);
    assert_true(answer.wants_login);
    assert_int_equal(READ(ETCD_DONE, good), 0);
    assert_false(answer.wants_login);
}
