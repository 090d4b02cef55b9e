/* visitor.h - what the commands that ask a cluster have in common: the options that name the scheduler, token and TLS,
 * and the question. */
#pragma once

#include <jansson.h>

#include "cluster/roles/visit.h"
#include "server/commands/options.h"
#include "server/commands/registry_option.h"

struct visitor_settings {
    const char *join, *registry, *cluster_token_file, *cluster_cert, *cluster_key, *cluster_ca;
    struct registry_files registry_files;
    double timeout_s;
};

#define VISITOR_OPTIONS(type, member)                                                                                  \
    OPTION_TEXT(type, member.join, "join", "HOST:PORT[,...]", "the schedulers; the one that leads is asked"),          \
        OPTION_TEXT(type, member.registry, "registry", "etcd://HOST:PORT[,...]/NAME",                                  \
                    "etcd, which knows the cluster of that name and who leads it, instead of --join; etcds:// with "   \
                    "TLS"),                                                                                            \
        REGISTRY_OPTIONS(type, member.registry_files),                                                                 \
        OPTION_TEXT(type, member.cluster_token_file, "cluster-token-file", "FILE",                                     \
                    "show the first of the tokens in this file, as members do"),                                       \
        OPTION_TEXT(type, member.cluster_cert, "cluster-cert", "FILE",                                                 \
                    "speak TLS with this certificate, as members do (PEM)"),                                           \
        OPTION_TEXT(type, member.cluster_key, "cluster-key", "FILE", "its private key (PEM)"),                         \
        OPTION_TEXT(type, member.cluster_ca, "cluster-ca", "FILE",                                                     \
                    "the scheduler needs a certificate that one of these signed (PEM)"),                               \
        OPTION_DOUBLE(type, member.timeout_s, "timeout", "S", 0.01, 3600,                                              \
                      "how long each scheduler may take to answer, and how long an order is repeated while those "     \
                      "that answer do not lead, or one that has just begun to does not know yet whom it is for")

/* Asks the leading scheduler one question, or gives it an order. 0 with the answer, which the caller releases; else the
 * exit status. `command` begins the line on standard error that says why that failed; NULL: no line is written. */
int visitor_ask(const char *command, const struct visitor_settings *settings, enum frame_kind kind, const char *text,
                json_t **answer);
