/* visitor.c - asks a cluster's schedulers a question, until the one that leads has answered. */
#include "server/commands/visitor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/peer/hello.h"
#include "cluster/roles/uplink.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/time.h"
#include "front/net/auth.h"
#include "server/commands/cli.h"
#include "server/commands/cluster_tls.h"

#define JOIN_BYTES 4096
#define AGAIN_NS   (100 * NS_PER_MS) /* time until schedulers are asked again */

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

/* Asks the schedulers of a list, or the one that leads by the registry. As name_ask(). */
static int list_ask(const struct visitor_settings *settings, struct tls *tls, const char *token, enum frame_kind kind,
                    const char *text, json_t **answer, struct sy_error *err) {
    char join[JOIN_BYTES], leader[REGISTRY_ADDRESS_MAX + 1];
    struct registry_place place;
    int rc = 0;
    if (settings->registry) {
        rc = registry_option_read(settings->registry, &settings->registry_files, &place, err);
        rc = rc < 0 ? rc : visit_leader(&place, (int64_t)(settings->timeout_s * (double)NS_PER_S), leader, err);
        if (rc < 0)
            return rc;
    }
    snprintf(join, sizeof(join), "%s", settings->registry ? leader : settings->join);
    for (char *rest = join, *one; !leads(*answer) && (one = strsep(&rest, ","));)
        rc = name_ask(settings, one, tls, token, kind, text, answer, rc, err);
    return rc;
}

/* Why an order was not obeyed: no scheduler leads, or the one that leads does not know yet whom it is for. NULL: it
 * was, or no scheduler says why not. */
static const char *unanswered(const json_t *answer, enum frame_kind kind) {
    if (kind == FRAME_STATUS || !json_object_get(answer, "scheduler"))
        return NULL;
    return leads(answer) ? "this scheduler has just begun to lead: some members have yet to join it"
                         : "no scheduler leads: who was asked stands by";
}

int visitor_ask(const char *command, const struct visitor_settings *settings, enum frame_kind kind, const char *text,
                json_t **answer) {
    int64_t until_ns = clock_now_ns() + (int64_t)(settings->timeout_s * (double)NS_PER_S);
    char token[HELLO_TOKEN_MAX] = "";
    const char *why = NULL;
    struct auth *auth;
    struct tls *tls = NULL;
    uint32_t count = 1;
    struct sy_error err;
    int rc = 0;

    if (!settings->join == !settings->registry)
        return cli_usage_error(command, "give either --join HOST:PORT or --registry URL: which cluster to ask");
    if (settings->join && strlen(settings->join) >= JOIN_BYTES)
        return cli_usage_error(command, "--join: too long");
    for (const char *comma = settings->join; comma && (comma = strchr(comma, ',')); comma++)
        count++;
    if (count > UPLINK_ADDRESSES_MAX)
        return cli_usage_error(command, "--join: more than %d schedulers", UPLINK_ADDRESSES_MAX);
    *answer = NULL;
    /* what certificates are for is no news here; of the registry a single line, the one below, says what is wrong */
    log_set_level(settings->registry ? LOG_ERROR : LOG_WARN);
    if (settings->cluster_token_file && (rc = auth_create(&auth, settings->cluster_token_file, &err)) == 0) {
        auth_first(auth, token, sizeof(token));
        auth_destroy(auth);
    }
    rc = rc < 0 ? rc
                : cluster_tls_create(&tls, settings->cluster_cert, settings->cluster_key, settings->cluster_ca, &err);
    while (rc == 0) {
        rc = list_ask(settings, tls, token, kind, text, answer, &err);
        why = unanswered(*answer, kind);
        if (!why || rc == -EACCES || rc == -EINVAL || clock_now_ns() >= until_ns)
            break;
        json_decref(*answer);
        *answer = NULL;
        rc = 0;
        clock_sleep(AGAIN_NS);
    }
    tls_destroy(tls);
    if (*answer && !why)
        return CLI_OK;
    json_decref(*answer);
    *answer = NULL;
    if (command)
        fprintf(stderr, "symphony %s: %s\n", command, rc < 0 ? err.text : why ? why : "an answer that is no JSON");
    return rc == -EINVAL ? CLI_USAGE : CLI_FAILURE;
}
