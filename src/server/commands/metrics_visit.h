/* metrics_visit.h - asks the metrics port of a server, for the commands that show what it does: the options that they
 * have in common, and the question. One thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "core/util/error.h"
#include "core/util/text.h"
#include "server/commands/options.h"

struct metrics_visit_settings {
    const char *token, *ca, *cert, *key;
    double timeout_s;
};

#define METRICS_VISIT_OPTIONS(type, member)                                                                            \
    OPTION_TEXT(type, member.token, "token", "TOKEN",                                                                  \
                "show the server this token, or with @FILE the first one in that file (--auth-metrics)"),              \
        OPTION_TEXT(type, member.ca, "cacert", "FILE",                                                                 \
                    "over https, trust certificates that one of these signed (PEM), not the system's"),                \
        OPTION_TEXT(type, member.cert, "cert", "FILE", "over https, show this certificate (PEM)"),                     \
        OPTION_TEXT(type, member.key, "key", "FILE", "its private key (PEM)")
#define METRICS_VISIT_TIMEOUT(type, member)                                                                            \
    OPTION_DOUBLE(type, member.timeout_s, "timeout", "S", 0.01, 3600,                                                  \
                  "how long the server may take to be reached, and to say something")

#define METRICS_VISIT_URL                                                                                              \
    "URL is that of the metrics port: http://HOST[:PORT], https://HOST[:PORT] or HOST[:PORT] (port 8002)."

struct metrics_visit;

/* Called with each piece of an answer. */
typedef void metrics_take(void *context, const char *data, size_t bytes);

/* 0 or -errno with a sentence; close it in either case. Nothing is asked yet. */
int metrics_visit_open(struct metrics_visit **visit, const struct metrics_visit_settings *settings, const char *url,
                       struct sy_error *err);
/* NULL is allowed. */
void metrics_visit_close(struct metrics_visit *visit);
/* Asks for a path, with its query, instead of what was asked before. Returns at once. 0 or -errno with a sentence. */
int metrics_visit_ask(struct metrics_visit *visit, const char *path, metrics_take *take, void *context,
                      struct sy_error *err);
/* Goes on with the question until something has come, `fd` (-1: none) may be read, or `ms` have passed. 1: the answer
 * goes on; 0: it is complete, or nothing was asked; -errno with a sentence: it failed. */
int metrics_visit_wait(struct metrics_visit *visit, int fd, int ms, struct sy_error *err);
/* Asks for a path, and reads its answer as JSON, which the caller releases. 0 or -errno with a sentence. */
int metrics_visit_json(struct metrics_visit *visit, const char *path, json_t **json, struct sy_error *err);
