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

int visitor_ask(const char *command, const struct visitor_settings *settings, enum frame_kind kind, const char *text,
                json_t **answer) {
    char join[4096], token[HELLO_TOKEN_MAX], *reply;
    const char *schedulers[UPLINK_ADDRESSES_MAX];
    struct visit visit = {
        .schedulers = schedulers, .token = token, .timeout_ns = (int64_t)(settings->timeout_s * (double)NS_PER_S)};
    struct sy_error err;

    if (!settings->join || strlen(settings->join) >= sizeof(join))
        return cli_usage_error(command, "--join HOST:PORT: which scheduler to ask");
    strcpy(join, settings->join);
    for (char *rest = join, *one; (one = strsep(&rest, ","));) {
        if (visit.scheduler_count == UPLINK_ADDRESSES_MAX)
            return cli_usage_error(command, "--join: more than %d schedulers", UPLINK_ADDRESSES_MAX);
        schedulers[visit.scheduler_count++] = one;
    }
    int rc = token_read(settings->cluster_token_file, token, sizeof(token), &err);
    if (rc == 0)
        rc = visit_ask(&visit, kind, text, &reply, &err);
    if (rc < 0) {
        fprintf(stderr, "symphony %s: %s\n", command, err.text);
        return rc == -EINVAL ? CLI_USAGE : CLI_FAILURE;
    }
    *answer = json_loads(reply, 0, NULL);
    free(reply);
    if (*answer)
        return CLI_OK;
    fprintf(stderr, "symphony %s: the scheduler's answer is no JSON\n", command);
    return CLI_FAILURE;
}
