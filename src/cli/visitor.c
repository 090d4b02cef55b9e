/* visitor.c - a question to a cluster. */
#include "cli/visitor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cluster/hello.h"
#include "cluster/uplink.h"
#include "net/auth.h"

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

/* Whether nobody else needs to be asked: the answer is of the scheduler that leads, or about a member. */
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

int visitor_ask(const char *command, const struct visitor_settings *settings, enum frame_kind kind, const char *text,
                json_t **answer) {
    char join[4096], token[HELLO_TOKEN_MAX], *reply;
    const char *schedulers[UPLINK_ADDRESSES_MAX];
    int64_t timeout_ns = (int64_t)(settings->timeout_s * (double)NS_PER_S);
    uint32_t count = 0;
    int asked = 0;
    struct sy_error err, why;

    if (!settings->join || strlen(settings->join) >= sizeof(join))
        return cli_usage_error(command, "--join HOST:PORT: which scheduler to ask");
    strcpy(join, settings->join);
    for (char *rest = join, *one; (one = strsep(&rest, ","));) {
        if (count == UPLINK_ADDRESSES_MAX)
            return cli_usage_error(command, "--join: more than %d schedulers", UPLINK_ADDRESSES_MAX);
        schedulers[count++] = one;
    }
    int rc = token_read(settings->cluster_token_file, token, sizeof(token), &err);
    *answer = NULL;
    for (uint32_t i = 0; i < count && rc == 0 && !leads(*answer); i++) {
        struct visit visit = {.scheduler = schedulers[i], .token = token, .timeout_ns = timeout_ns};
        asked = visit_ask(&visit, kind, text, &reply, &why);
        if (asked == 0)
            keep(answer, reply);
    }
    if (*answer)
        return CLI_OK;
    fprintf(stderr, "symphony %s: %s\n", command,
            rc < 0      ? err.text
            : asked < 0 ? why.text
                        : "an answer that is no JSON");
    return rc == -EINVAL || asked == -EINVAL ? CLI_USAGE : CLI_FAILURE;
}
