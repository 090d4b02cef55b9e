/* registry_option.h - the options that name etcd and what is shown to it, for commands that serve and that ask. */
#pragma once

#include "cluster/membership/etcd.h"
#include "server/commands/options.h"

struct registry_files {
    const char *ca, *cert, *key, *login; /* as in struct registry_place */
};

#define REGISTRY_OPTIONS(type, files)                                                                                  \
    OPTION_TEXT(type, files.ca, "registry-ca", "FILE",                                                                 \
                "of --registry etcds://...: etcd needs a certificate that one of these signed (PEM); without it, one " \
                "that the system trusts"),                                                                             \
        OPTION_TEXT(type, files.cert, "registry-cert", "FILE", "and this certificate is shown to etcd (PEM)"),         \
        OPTION_TEXT(type, files.key, "registry-key", "FILE", "its private key (PEM)"),                                 \
        OPTION_TEXT(type, files.login, "registry-login", "FILE",                                                       \
                    "log in to etcd with the first line of this file, USER:PASSWORD")

/* Reads --registry and its files, which stay in place. 0, or -errno with a sentence that names the option. */
int registry_option_read(const char *url, const struct registry_files *files, struct registry_place *place,
                         struct sy_error *err);
