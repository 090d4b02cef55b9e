/* registry_option.c - reads the options that name etcd. */
#include "server/commands/registry_option.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/util/container.h"

int registry_option_read(const char *url, const struct registry_files *files, struct registry_place *place,
                         struct sy_error *err) {
    const struct {
        const char *option, *path;
    } of_tls[] = {{"ca", files->ca}, {"cert", files->cert}, {"key", files->key}};
    struct registry_login login;
    struct stat about;
    struct sy_error why;
    int rc = registry_place_parse(url, place, &why);
    if (rc < 0)
        return error_set(err, rc, "--registry: %s", why.text);
    if (!files->cert != !files->key)
        return error_set(err, -EINVAL, "--registry-cert and --registry-key go together");
    for (size_t i = 0; i < ARRAY_COUNT(of_tls); i++) {
        if (of_tls[i].path && !place->tls)
            return error_set(err, -EINVAL, "--registry-%s is of TLS: --registry etcds://...", of_tls[i].option);
        if (of_tls[i].path && (access(of_tls[i].path, R_OK) < 0 || stat(of_tls[i].path, &about) < 0))
            return error_set(err, -errno, "--registry-%s: '%s': %s", of_tls[i].option, of_tls[i].path, strerror(errno));
        if (of_tls[i].path && !S_ISREG(about.st_mode))
            return error_set(err, -EINVAL, "--registry-%s: '%s': not a file, and it is read for each connection",
                             of_tls[i].option, of_tls[i].path);
    }
    if (files->login && (rc = registry_login_read(files->login, &login, &why)) < 0)
        return error_set(err, rc, "--registry-login: %s", why.text);
    memset(&login, 0, sizeof(login));
    place->ca = files->ca;
    place->cert = files->cert;
    place->key = files->key;
    place->login = files->login;
    return 0;
}
