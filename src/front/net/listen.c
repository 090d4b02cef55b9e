/* listen.c - opens listening sockets. */
#include "front/net/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 4096 /* connections that wait to be accepted; the kernel may allow fewer */

static int bind_and_listen(const struct sockaddr *address, socklen_t bytes) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1, zero = 0;
    if (fd < 0)
        return -errno;
    /* the connections of a killed server stay in TIME_WAIT for a while: the next server may still use their port */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (address->sa_family == AF_INET6) /* "::" is IPv4's addresses as well, whatever the machine's default is */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    if (bind(fd, address, bytes) < 0 || listen(fd, BACKLOG) < 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

/* Listens at all addresses of IPv6 and IPv4; of IPv4 alone if this machine has no IPv6. */
static int listen_everywhere(int tcp_port) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)tcp_port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)tcp_port)};
    int fd = bind_and_listen((struct sockaddr *)&six, sizeof(six));
    if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)
        fd = bind_and_listen((struct sockaddr *)&four, sizeof(four));
    return fd;
}

/* Listens at the first address of a name that allows it. */
static int listen_at(const char *host, int tcp_port, const char *what, struct sy_error *err) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *addresses;
    char port[16];
    int fd = -EADDRNOTAVAIL;
    snprintf(port, sizeof(port), "%d", tcp_port);
    int rc = getaddrinfo(host, port, &hints, &addresses);
    if (rc != 0)
        return error_set(err, -EINVAL, "cannot listen on '%s': %s", host, gai_strerror(rc));
    for (const struct addrinfo *a = addresses; a && fd < 0; a = a->ai_next)
        fd = bind_and_listen(a->ai_addr, a->ai_addrlen);
    freeaddrinfo(addresses);
    return fd < 0 ? error_set(err, fd, "cannot listen on '%s', %s port %d: %s", host, what, tcp_port, strerror(-fd))
                  : fd;
}

int listen_open(const char *host, int tcp_port, const char *what, int *fd, int *bound_port, struct sy_error *err) {
    *fd = *host ? listen_at(host, tcp_port, what, err) : listen_everywhere(tcp_port);
    if (*fd == -EADDRINUSE)
        return error_set(err, *fd, "%s port %d is in use", what, tcp_port);
    if (*fd < 0)
        return *host ? *fd : error_set(err, *fd, "cannot listen on %s port %d: %s", what, tcp_port, strerror(-*fd));
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {0};
    socklen_t length = sizeof(address);
    getsockname(*fd, &address.any, &length); /* if it fails, the port is 0 */
    *bound_port = ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
    return 0;
}

static bool four_is_loopback(struct in_addr address) {
    return ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool listen_is_loopback(const char *host) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *addresses = NULL;
    if (!*host || getaddrinfo(host, NULL, &hints, &addresses) != 0)
        return false;
    bool loopback = addresses != NULL;
    for (const struct addrinfo *a = addresses; a; a = a->ai_next)
        loopback &= a->ai_family == AF_INET
                        ? four_is_loopback(((const struct sockaddr_in *)a->ai_addr)->sin_addr)
                        : a->ai_family == AF_INET6 &&
                              IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a->ai_addr)->sin6_addr);
    freeaddrinfo(addresses);
    return loopback;
}

bool listen_names_loopback(const char *host) {
    struct in_addr four;
    struct in6_addr six;
    return strcmp(host, "localhost") == 0 || (inet_pton(AF_INET, host, &four) == 1 && four_is_loopback(four)) ||
           (inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six));
}
