/* listen.c - opens listening sockets. */
#include "net/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 4096 /* connections that wait to be accepted; the kernel may allow fewer */

static int bind_and_listen(const struct addrinfo *address) {
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0)
        return -errno;
    /* connections of a killed server stay in TIME_WAIT for a while; the next server may use its port all the same */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, address->ai_addr, address->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

static int port_of(int fd) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {0};
    socklen_t length = sizeof(address);
    if (getsockname(fd, &address.any, &length) < 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

int listen_open(const char *host, int tcp_port, const char *what, int *fd, int *bound_port, struct sy_error *err) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *addresses;
    char port[16];
    snprintf(port, sizeof(port), "%d", tcp_port);
    int rc = getaddrinfo(host, port, &hints, &addresses);
    if (rc != 0)
        return error_set(err, -EINVAL, "cannot listen on '%s': %s", host, gai_strerror(rc));
    *fd = -EADDRNOTAVAIL;
    for (const struct addrinfo *a = addresses; a && *fd < 0; a = a->ai_next)
        *fd = bind_and_listen(a);
    freeaddrinfo(addresses);
    if (*fd == -EADDRINUSE)
        return error_set(err, *fd, "%s port %d is in use", what, tcp_port);
    if (*fd < 0)
        return error_set(err, *fd, "cannot listen on '%s', %s port %d: %s", host, what, tcp_port, strerror(-*fd));
    *bound_port = port_of(*fd);
    return 0;
}
