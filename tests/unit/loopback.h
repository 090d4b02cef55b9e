/* loopback.h - clients of a port of this host. */
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include "core/util/assert.h"

static inline int loopback_connect(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}
