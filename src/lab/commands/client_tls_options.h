/* client_tls_options.h - the options about certificates of commands that ask a server over https. */
#pragma once

#include "lab/load/client_tls.h"
#include "server/commands/options.h"

/* Rows for a table of struct S's, which has a struct client_tls_files as `tls`. */
#define CLIENT_TLS_OPTIONS(S, tls)                                                                                     \
    OPTION_TEXT(S, tls.authorities, "cacert", "FILE",                                                                  \
                "https: who may have signed the server's certificate (PEM) (default: whom the system trusts)"),        \
        OPTION_FLAG(S, tls.insecure, "insecure", "https: any certificate will do"),                                    \
        OPTION_TEXT(S, tls.certificate, "cert", "FILE", "https: the client's own certificate (PEM)"),                  \
        OPTION_TEXT(S, tls.key, "key", "FILE", "https: its private key (PEM)")
