/* cluster_tls.c - reads the files that the options of a cluster's TLS name. */
#include "server/commands/cluster_tls.h"

#include <errno.h>

int cluster_tls_create(struct tls **tls, const char *certificate, const char *key, const char *ca,
                       struct sy_error *err) {
    const struct tls_files files = {.certificate = certificate, .key = key, .ca = ca, .cluster = true};
    *tls = NULL;
    if (!certificate && !key && !ca)
        return 0;
    if (!certificate || !key || !ca)
        return error_set(err, -EINVAL,
                         "--cluster-cert, --cluster-key and --cluster-ca go together; --cluster-%s is missing",
                         !certificate ? "cert"
                         : !key       ? "key"
                                      : "ca");
    return tls_create(tls, &files, err) < 0 ? -EINVAL : 0; /* whatever is wrong, the user has to give other files */
}
