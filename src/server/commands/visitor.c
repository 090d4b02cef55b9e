/* visitor.c - asks a cluster's schedulers a question, until the one that leads has answered. */
#include "server/commands/visitor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/peer/hello.h"
#include "cluster/roles/uplink.h"
#include "core/system/log.h"
#include "core/util/time.h"
#include "front/net/auth.h"
#include "server/commands/cli.h"
#include "server/commands/cluster_tls.h"

static int token_read(const char *path, char *token, size_t room, struct sy_error *err) {
    struct auth *auth;
    *token = '\0';
    int rc = path ? auth_create(&auth, path, err) : 0;
    if (rc < 0 || !path)
        return rc;
    auth_first(auth, token, room);
    auth_destroy(auth);
    return 0;
}

/* Whether no other scheduler needs to be asked: the answer is of the scheduler that leads, or about a member. */
static bool leads(const json_t *answer) {
    const json_t *scheduler = json_object_get(answer, "scheduler");
    return answer && (!scheduler || json_is_true(json_object_get(scheduler, "leads")));
}

/* Keeps an answer, unless there is one and the new one is no better. */
static void keep(json_t **answer, char *reply) {
    json_t *json = json_loads(reply, 0, NULL);
    free(reply);
    if (*answer && !leads(json)) {
        json_decref(json);
        return;
    }
    json_decref(*answer);
    *answer = json;
}

/* Asks all schedulers that a name stands for, until the one that leads has answered. Returns 0, or the -errno of the
 * last one with its sentence. */
static int name_ask(const struct visitor_settings *settings, const char *name, struct tls *tls, const char *token,
                    enum frame_kind kind, const char *text, json_t **answer, struct sy_error *err) {
    struct name_address found[NAME_ADDRESSES_MAX];
    char *reply;
    int rc = name_look_up(name, found, err), count = rc;
    for (int i = 0; i < count && !leads(*answer); i++) {
        struct visit visit = {.scheduler = name,
                              .at = &found[i],
                              .tls = tls,
                              .token = token,
                              .timeout_ns = (int64_t)(settings->timeout_s * (double)NS_PER_S)};
        rc = visit_ask(&visit, kind, text, &reply, err);
        if (rc == 0)
            keep(answer, reply);
    }
    return rc;
}

/* Asks the registry of --registry for the scheduler that leads. */
static int registry_ask(const struct visitor_settings *settings, char leader[REGISTRY_ADDRESS_MAX + 1],
                        struct sy_error *err) {
    struct registry_place place;
    struct sy_error why;
    log_set_level(LOG_ERROR); /* a single line, visitor_ask()'s, says what is wrong */
    int rc = registry_place_parse(settings->registry, &place, &why);
    return rc < 0 ? error_set(err, rc, "--registry: %s", why.text)
                  : visit_leader(&place, (int64_t)(settings->timeout_s * (double)NS_PER_S), leader, err);
}

int visitor_ask(const char *command, const struct visitor_settings *settings, enum frame_kind kind, const char *text,
                json_t **answer) {
    char join[4096], leader[REGISTRY_ADDRESS_MAX + 1], token[HELLO_TOKEN_MAX];
    const char *list = settings->registry ? leader : settings->join;
    struct tls *tls = NULL;
    uint32_t count = 0;
    struct sy_error err;

    if (!settings->join == !settings->registry)
        return cli_usage_error(command, "give either --join HOST:PORT or --registry URL: which cluster to ask");
    *answer = NULL;
    log_set_level(LOG_WARN); /* what certificates are for is no news here */
    int rc = settings->registry ? registry_ask(settings, leader, &err) : 0;
    if (rc == 0 && strlen(list) >= sizeof(join))
        return cli_usage_error(command, "--join: too long");
    rc = rc < 0 ? rc : token_read(settings->cluster_token_file, token, sizeof(token), &err);
    rc = rc < 0 ? rc
                : cluster_tls_create(&tls, settings->cluster_cert, settings->cluster_key, settings->cluster_ca, &err);
    snprintf(join, sizeof(join), "%s", rc < 0 ? "" : list);
    for (char *rest = join, *one; (rc == 0 || count > 0) && !leads(*answer) && (one = strsep(&rest, ","));) {
        if (count++ == UPLINK_ADDRESSES_MAX) {
            tls_destroy(tls);
            return cli_usage_error(command, "--join: more than %d schedulers", UPLINK_ADDRESSES_MAX);
        }
        rc = name_ask(settings, one, tls, token, kind, text, answer, &err);
    }
    tls_destroy(tls);
    if (*answer)
        return CLI_OK;
    if (command)
        fprintf(stderr, "symphony %s: %s\n", command, rc < 0 ? err.text : "an answer that is no JSON");
    return rc == -EINVAL ? CLI_USAGE : CLI_FAILURE;
}
