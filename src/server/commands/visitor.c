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

/* Whether no other scheduler needs to be asked: the answer is of the scheduler that leads, or about a member. */
static bool leads(const json_t *answer) {
    const json_t *scheduler = json_object_get(answer, "scheduler");
    return answer && (!scheduler || json_is_true(json_object_get(scheduler, "leads")));
}

/* Asks all schedulers that a name stands for, until the one that leads has answered. `answer` becomes the first answer,
 * or that of the one that leads. Returns 0, or -errno with a sentence if one did not answer: of one that refuses
 * (-EACCES), which is kept from a call before (`failed`), or else of the last one. */
static int name_ask(const struct visitor_settings *settings, const char *name, struct tls *tls, const char *token,
                    enum frame_kind kind, const char *text, json_t **answer, int failed, struct sy_error *err) {
    struct name_address found[NAME_ADDRESSES_MAX];
    struct sy_error why;
    char *reply;
    int count = name_look_up(name, found, &why);
    if (count < 0 && failed != -EACCES)
        *err = why;
    failed = count < 0 && failed != -EACCES ? count : failed;
    for (int i = 0; i < count && !leads(*answer); i++) {
        struct visit visit = {.scheduler = name,
                              .at = &found[i],
                              .tls = tls,
                              .token = token,
                              .timeout_ns = (int64_t)(settings->timeout_s * (double)NS_PER_S)};
        int rc = visit_ask(&visit, kind, text, &reply, &why);
        if (rc < 0 && failed != -EACCES) {
            failed = rc;
            *err = why;
        }
        if (rc < 0)
            continue;
        json_t *json = json_loads(reply, 0, NULL);
        free(reply);
        if (*answer && !leads(json)) {
            json_decref(json);
        } else {
            json_decref(*answer);
            *answer = json;
        }
    }
    return failed;
}

int visitor_ask(const char *command, const struct visitor_settings *settings, enum frame_kind kind, const char *text,
                json_t **answer) {
    char join[4096], leader[REGISTRY_ADDRESS_MAX + 1], token[HELLO_TOKEN_MAX] = "";
    const char *list = settings->registry ? leader : settings->join;
    struct registry_place place;
    struct auth *auth;
    struct tls *tls = NULL;
    uint32_t count = 0;
    struct sy_error err;
    int rc = 0;

    if (!settings->join == !settings->registry)
        return cli_usage_error(command, "give either --join HOST:PORT or --registry URL: which cluster to ask");
    *answer = NULL;
    log_set_level(LOG_WARN);      /* what certificates are for is no news here */
    if (settings->registry) {     /* which knows the scheduler that leads */
        log_set_level(LOG_ERROR); /* a single line, the one below, says what is wrong */
        rc = registry_option_read(settings->registry, &settings->registry_files, &place, &err);
        rc = rc < 0 ? rc : visit_leader(&place, (int64_t)(settings->timeout_s * (double)NS_PER_S), leader, &err);
    }
    if (rc == 0 && strlen(list) >= sizeof(join))
        return cli_usage_error(command, "--join: too long");
    if (rc == 0 && settings->cluster_token_file && (rc = auth_create(&auth, settings->cluster_token_file, &err)) == 0) {
        auth_first(auth, token, sizeof(token));
        auth_destroy(auth);
    }
    rc = rc < 0 ? rc
                : cluster_tls_create(&tls, settings->cluster_cert, settings->cluster_key, settings->cluster_ca, &err);
    snprintf(join, sizeof(join), "%s", rc < 0 ? "" : list);
    for (char *rest = join, *one; (rc == 0 || count > 0) && !leads(*answer) && (one = strsep(&rest, ","));) {
        if (count++ == UPLINK_ADDRESSES_MAX) {
            tls_destroy(tls);
            return cli_usage_error(command, "--join: more than %d schedulers", UPLINK_ADDRESSES_MAX);
        }
        rc = name_ask(settings, one, tls, token, kind, text, answer, rc, &err);
    }
    tls_destroy(tls);
    if (leads(*answer) || (*answer && kind == FRAME_STATUS))
        return CLI_OK;
    bool stands_by = *answer; /* it cannot say anything of members */
    json_decref(*answer);
    *answer = NULL;
    if (command)
        fprintf(stderr, "symphony %s: %s\n", command,
                rc < 0      ? err.text
                : stands_by ? "no scheduler leads: who was asked stands by"
                            : "an answer that is no JSON");
    return rc == -EINVAL ? CLI_USAGE : CLI_FAILURE;
}
