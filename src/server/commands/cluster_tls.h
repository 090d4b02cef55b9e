/* cluster_tls.h - --cluster-cert, --cluster-key and --cluster-ca: TLS of a cluster's links. */
#pragma once

#include "front/net/tls.h"

/* Creates *tls from the three files. If all three are NULL, *tls is NULL. Some but not all of them are a mistake. 0, or
 * -EINVAL with a sentence that names the option or the file. */
int cluster_tls_create(struct tls **tls, const char *certificate, const char *key, const char *ca,
                       struct sy_error *err);
