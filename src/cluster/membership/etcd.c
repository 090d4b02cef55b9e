/* etcd.c - writes requests to etcd's JSON gateway and reads its answers. */
#include "cluster/membership/etcd.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/system/files.h"
#include "core/util/container.h"
#include "core/util/utf8.h"

/* ---- addresses ---- */

int registry_place_parse(const char *url, struct registry_place *place, struct sy_error *err) {
    *place = (struct registry_place){0};
    place->tls = strncmp(url, "etcds://", 8) == 0;
    if (!place->tls && strncmp(url, "etcd://", 7) != 0)
        return error_set(err, -EINVAL, "'%.200s' is not etcd://HOST:PORT[,HOST:PORT]/NAME, or etcds://", url);
    const char *at = url + (place->tls ? 8 : 7), *name = strchr(at, '/');
    if (!name || !name[1] || strlen(name + 1) > REGISTRY_NAME_MAX)
        return error_set(err, -EINVAL, "'%.200s' needs a name of 1 to %d characters behind '/'", url,
                         REGISTRY_NAME_MAX);
    if (strspn(name + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != strlen(name + 1))
        return error_set(err, -EINVAL, "'%.200s': the name is of letters, digits, '.', '_' and '-'", url);
    strcpy(place->name, name + 1);
    for (;;) {
        size_t length = strcspn(at, ",/");
        const char *port = memrchr(at, ':', length);
        size_t digits = port ? strspn(port + 1, "0123456789") : 0;
        if (!port || port == at || digits == 0 || digits > 5 || port + 1 + digits != at + length ||
            atoi(port + 1) < 1 || atoi(port + 1) > 65535)
            return error_set(err, -EINVAL, "'%.*s' is not HOST:PORT", (int)length, at);
        if (length > REGISTRY_ADDRESS_MAX || strcspn(at, "@?#\"\\ \t\r\n") < length)
            return error_set(err, -EINVAL, "'%.100s' is not the name of a host", at);
        if (place->endpoint_count == REGISTRY_ENDPOINTS_MAX)
            return error_set(err, -EINVAL, "more than %d addresses of a registry", REGISTRY_ENDPOINTS_MAX);
        snprintf(place->endpoints[place->endpoint_count++], sizeof(place->endpoints[0]), "%.*s", (int)length, at);
        at += length;
        if (*at++ == '/')
            return 0;
    }
}

int registry_login_read(const char *path, struct registry_login *login, struct sy_error *err) {
    char line[REGISTRY_USER_MAX + REGISTRY_PASSWORD_MAX + 4] = "";
    if (file_is_pipe(path))
        return error_set(err, -EINVAL, "'%s': a pipe can be read once, and this is read for each login", path);
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set(err, -errno, "'%s': %s", path, strerror(errno));
    bool read = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    line[strcspn(line, "\r\n")] = '\0';
    char *colon = strchr(line, ':');
    bool fits = read && colon && colon > line && colon[1] && colon - line <= REGISTRY_USER_MAX &&
                strlen(colon + 1) <= REGISTRY_PASSWORD_MAX && utf8_is_valid(line);
    if (fits) {
        snprintf(login->user, sizeof(login->user), "%.*s", (int)(colon - line), line);
        snprintf(login->password, sizeof(login->password), "%s", colon + 1);
    }
    memset(line, 0, sizeof(line));
    return fits ? 0 : error_set(err, -EINVAL, "'%s': its first line is not USER:PASSWORD", path);
}

bool registry_certificate_over(const struct registry_place *place) {
    gnutls_datum_t file = {NULL, 0};
    gnutls_x509_crt_t certificate;
    if (!place->cert || gnutls_load_file(place->cert, &file) < 0)
        return false;
    if (gnutls_x509_crt_init(&certificate) < 0) {
        gnutls_free(file.data);
        return false;
    }
    bool over = gnutls_x509_crt_import(certificate, &file, GNUTLS_X509_FMT_PEM) == 0 &&
                gnutls_x509_crt_get_expiration_time(certificate) < time(NULL);
    gnutls_x509_crt_deinit(certificate);
    gnutls_free(file.data);
    return over;
}

/* ---- values ---- */

bool registry_address_valid(const char *address) {
    size_t length = strlen(address);
    for (const char *c = address; *c; c++)
        if (*c < 0x20 || *c > 0x7e || *c == '"' || *c == '\\')
            return false;
    return length <= REGISTRY_ADDRESS_MAX;
}

bool registry_member_valid(const struct registry_member *m) {
    size_t length = strlen(m->role);
    return m->incarnation && length && strspn(m->role, "abcdefghijklmnopqrstuvwxyz") == length &&
           registry_address_valid(m->addresses);
}

/* 16 hexadecimal digits; 0 if it is something else. */
static uint64_t incarnation_read(const char *text) {
    return text && strspn(text, "0123456789abcdef") == 16 && !text[16] ? strtoull(text, NULL, 16) : 0;
}

/* A string member of an object into `to`; false if there is none or it is too long. */
static bool string_read(const json_t *object, const char *name, char *to, size_t bytes) {
    const char *text = json_string_value(json_object_get(object, name));
    return text && snprintf(to, bytes, "%s", text) < (int)bytes;
}

int registry_member_read(const char *value, size_t bytes, struct registry_member *member) {
    json_t *root = json_loadb(value, bytes, 0, NULL);
    *member = (struct registry_member){.incarnation =
                                           incarnation_read(json_string_value(json_object_get(root, "incarnation")))};
    bool read = string_read(root, "role", member->role, sizeof(member->role)) &&
                string_read(root, "addresses", member->addresses, sizeof(member->addresses));
    json_decref(root);
    return read && registry_member_valid(member) ? 0 : -EBADMSG;
}

int registry_leader_read(const char *value, size_t bytes, struct registry_leader *leader) {
    json_t *root = json_loadb(value, bytes, 0, NULL);
    json_int_t term = json_integer_value(json_object_get(root, "term"));
    leader->key.term = term > 0 ? (uint64_t)term : 0;
    leader->key.incarnation = incarnation_read(json_string_value(json_object_get(root, "incarnation")));
    bool read = string_read(root, "address", leader->address, sizeof(leader->address)) && leader->key.term &&
                leader->key.incarnation && registry_address_valid(leader->address);
    json_decref(root);
    return read ? 0 : -EBADMSG;
}

void etcd_leader_key(char *key, const char *name) {
    snprintf(key, ETCD_KEY_MAX, "%.*s/leader", REGISTRY_NAME_MAX, name);
}

void etcd_rollouts_key(char *key, const char *name) {
    snprintf(key, ETCD_KEY_MAX, "%.*s/rollouts", REGISTRY_NAME_MAX, name);
}

void etcd_member_key(char *key, const char *name, uint64_t incarnation) {
    snprintf(key, ETCD_KEY_MAX, "%.*s/members/%016" PRIx64, REGISTRY_NAME_MAX, name, incarnation);
}

uint64_t etcd_member_key_read(const char *key, const char *name) {
    size_t length = strlen(name);
    return strncmp(key, name, length) == 0 && strncmp(key + length, "/members/", 9) == 0
               ? incarnation_read(key + length + 9)
               : 0;
}

/* ---- requests ---- */

static void base64_put(struct text *body, const char *name, const char *text) {
    gnutls_datum_t plain = {(unsigned char *)text, (unsigned)strlen(text)}, coded = {NULL, 0};
    if (gnutls_base64_encode2(&plain, &coded) != 0) {
        body->failed = true;
        return;
    }
    text_printf(body, "\"%s\":\"%.*s\"", name, (int)coded.size, coded.data);
    gnutls_free(coded.data);
}

/* The keys that begin with NAME/: '0' follows '/'. */
static void prefix_put(struct text *body, const char *name) {
    char key[ETCD_KEY_MAX];
    snprintf(key, sizeof(key), "%.*s/", REGISTRY_NAME_MAX, name);
    base64_put(body, "key", key);
    text_put(body, ",");
    snprintf(key, sizeof(key), "%.*s0", REGISTRY_NAME_MAX, name);
    base64_put(body, "range_end", key);
}

void etcd_range_write(struct text *body, const char *key) {
    text_put(body, "{");
    base64_put(body, "key", key);
    text_put(body, "}");
}

void etcd_list_write(struct text *body, const char *name) {
    text_put(body, "{");
    prefix_put(body, name);
    text_put(body, "}");
}

void etcd_login_write(struct text *body, const struct registry_login *login) {
    json_t *json = json_pack("{s:s,s:s}", "name", login->user, "password", login->password);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    if (text)
        text_put(body, text);
    else
        body->failed = true;
    free(text);
    json_decref(json);
}

void etcd_lease_write(struct text *body, int64_t ttl_s) {
    text_printf(body, "{\"TTL\":\"%" PRId64 "\"}", ttl_s);
}

void etcd_lease_id_write(struct text *body, int64_t lease) {
    text_printf(body, "{\"ID\":\"%" PRId64 "\"}", lease);
}

void etcd_member_write(struct text *body, const char *name, const struct registry_member *member, int64_t lease) {
    char key[ETCD_KEY_MAX], value[REGISTRY_ADDRESS_MAX + 128];
    etcd_member_key(key, name, member->incarnation);
    snprintf(value, sizeof(value), "{\"role\":\"%s\",\"incarnation\":\"%016" PRIx64 "\",\"addresses\":\"%s\"}",
             member->role, member->incarnation, member->addresses);
    text_put(body, "{");
    base64_put(body, "key", key);
    text_put(body, ",");
    base64_put(body, "value", value);
    text_printf(body, ",\"lease\":\"%" PRId64 "\"}", lease);
}

void etcd_watch_write(struct text *body, const char *name, int64_t revision) {
    text_put(body, "{\"create_request\":{");
    prefix_put(body, name);
    text_printf(body, ",\"start_revision\":\"%" PRId64 "\"}}", revision);
}

void etcd_swap_write(struct text *body, const char *name, int64_t revision, uint64_t term, uint64_t incarnation,
                     const char *address) {
    char key[ETCD_KEY_MAX], value[REGISTRY_ADDRESS_MAX + 128];
    etcd_leader_key(key, name);
    snprintf(value, sizeof(value), "{\"term\":%" PRIu64 ",\"incarnation\":\"%016" PRIx64 "\",\"address\":\"%s\"}", term,
             incarnation, address);
    text_put(body, "{\"compare\":[{");
    base64_put(body, "key", key);
    text_printf(body, ",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"%" PRId64 "\"}]", revision);
    text_put(body, ",\"success\":[{\"request_put\":{");
    base64_put(body, "key", key);
    text_put(body, ",");
    base64_put(body, "value", value);
    text_put(body, "}}],\"failure\":[{\"request_range\":{");
    base64_put(body, "key", key);
    text_put(body, "}}]}");
}

void etcd_rollouts_write(struct text *body, const char *name, int64_t leader_revision, const char *rollouts) {
    char key[ETCD_KEY_MAX];
    etcd_leader_key(key, name);
    text_put(body, "{\"compare\":[{");
    base64_put(body, "key", key);
    text_printf(body, ",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"%" PRId64 "\"}]", leader_revision);
    text_put(body, ",\"success\":[{\"request_put\":{");
    etcd_rollouts_key(key, name);
    base64_put(body, "key", key);
    text_put(body, ",");
    base64_put(body, "value", rollouts);
    text_put(body, "}}]}");
}

/* ---- answers ---- */

/* A number of 64 bits: etcd writes it as a string, and leaves it out if it is 0. */
static int64_t number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value)  ? (int64_t)json_integer_value(value)
           : json_is_string(value) ? strtoll(json_string_value(value), NULL, 10)
                                   : 0;
}

/* Decodes the base64 of a JSON member; a terminating zero follows. NULL: it is no base64. An absent member is empty. */
static char *bytes_read(const json_t *object, const char *name, size_t *length) {
    const json_t *value = json_object_get(object, name);
    gnutls_datum_t coded = {(unsigned char *)json_string_value(value), (unsigned)json_string_length(value)};
    gnutls_datum_t plain = {NULL, 0};
    *length = 0;
    if (value && !json_is_string(value))
        return NULL;
    if (coded.size && gnutls_base64_decode2(&coded, &plain) != 0)
        return NULL;
    char *copy = malloc(plain.size + 1);
    if (copy) {
        memcpy(copy, plain.data ? plain.data : (unsigned char *)"", plain.size);
        copy[plain.size] = '\0';
        *length = plain.size;
    }
    gnutls_free(plain.data);
    return copy;
}

static int pair_read(const json_t *kv, bool deleted, etcd_each *each, void *context, struct sy_error *err) {
    size_t key_bytes, value_bytes;
    char *key = bytes_read(kv, "key", &key_bytes), *value = bytes_read(kv, "value", &value_bytes);
    struct etcd_pair pair = {.key = key,
                             .value = value,
                             .value_bytes = value_bytes,
                             .revision = number(kv, "mod_revision"),
                             .deleted = deleted};
    bool good = key && value && key_bytes && strlen(key) == key_bytes && pair.revision > 0;
    if (good)
        each(context, &pair);
    free(key);
    free(value);
    return good ? 0 : error_set(err, -EBADMSG, "the registry answered with a key that is none");
}

static int pairs_read(const json_t *kvs, etcd_each *each, void *context, struct sy_error *err) {
    int rc = 0;
    for (size_t i = 0; !rc && i < json_array_size(kvs); i++)
        rc = pair_read(json_array_get(kvs, i), false, each, context, err);
    return rc;
}

static int events_read(const json_t *events, etcd_each *each, void *context, struct sy_error *err) {
    int rc = 0;
    for (size_t i = 0; !rc && i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const char *type = json_string_value(json_object_get(event, "type")); /* etcd leaves out the type of a put */
        rc = pair_read(json_object_get(event, "kv"), type && strcmp(type, "DELETE") == 0, each, context, err);
    }
    return rc;
}

/* An error of etcd's. */
static int error_read(const json_t *error, struct etcd_answer *a, struct sy_error *err) {
    static const char *const words[] = {"invalid auth token", "user name is empty", "revision of auth store is old"};
    const char *text = json_string_value(json_is_object(error) ? json_object_get(error, "message") : error);
    text = text ? text : "an error";
    for (size_t i = 0; i < ARRAY_COUNT(words); i++)
        a->wants_login |= strstr(text, words[i]) != NULL;
    if (a->kind == ETCD_LOGIN && strstr(text, "authentication is not enabled"))
        return 0;
    return error_set(err, -EREMOTEIO, "the registry says: %.200s", text);
}

/* An answer that is no error. */
static int result_read(const json_t *result, struct etcd_answer *a, etcd_each *each, void *context,
                       struct sy_error *err) {
    a->revision = number(json_object_get(result, "header"), "revision");
    a->lease = number(result, "ID");
    a->ttl_s = number(result, "TTL");
    a->succeeded = a->kind == ETCD_SWAP && json_is_true(json_object_get(result, "succeeded"));
    a->created = json_is_true(json_object_get(result, "created"));
    switch (a->kind) {
    case ETCD_RANGE:
    case ETCD_SWAP: {
        const json_t *response = json_array_get(json_object_get(result, "responses"), 0);
        const json_t *keys = a->kind == ETCD_RANGE ? result : json_object_get(response, "response_range");
        if (a->revision <= 0)
            return error_set(err, -EBADMSG, "the registry's answer has no revision: is that etcd 3?");
        return a->succeeded ? 0 : pairs_read(json_object_get(keys, "kvs"), each, context, err);
    }
    case ETCD_WATCH:
        return json_is_true(json_object_get(result, "canceled"))
                   ? error_set(err, -ECANCELED, "the registry has ended the watch")
                   : events_read(json_object_get(result, "events"), each, context, err);
    case ETCD_LEASE:
        return a->lease > 0 ? 0 : error_set(err, -EBADMSG, "the registry's answer has no lease");
    case ETCD_LOGIN:
        if (string_read(result, "token", a->token, sizeof(a->token)) && *a->token &&
            strcspn(a->token, "\r\n") == strlen(a->token))
            return 0;
        return error_set(err, -EBADMSG, "the registry's answer has no token");
    default:
        return 0;
    }
}

int etcd_answer_read(enum etcd_answer_kind kind, const char *body, size_t bytes, struct etcd_answer *answer,
                     etcd_each *each, void *context, struct sy_error *err) {
    json_error_t why;
    json_t *root = json_loadb(body, bytes, 0, &why);
    const json_t *error = json_object_get(root, "error"), *result = json_object_get(root, "result");
    *answer = (struct etcd_answer){.kind = kind};
    if (!error && json_integer_value(json_object_get(root, "code"))) /* from etcd 3.6 on, and Debian's 3.5.16 */
        error = root;
    int rc = !json_is_object(root) ? error_set(err, -EBADMSG, "the registry's answer is not JSON as etcd's: %.100s",
                                               root ? "no object" : why.text)
             : error               ? error_read(error, answer, err)
                                   : result_read(result ? result : root, answer, each, context, err);
    json_decref(root);
    return rc;
}
