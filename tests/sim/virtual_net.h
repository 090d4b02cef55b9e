/* virtual_net.h - the network between virtual hosts: links with their faults, TCP over them as a program sees it, Unix
 * sockets within a host, epoll and event descriptors.
 *
 * A link leads from one host to another, one way. TCP's segments take its delay and its bandwidth; one that is lost, or
 * meets a link that is cut, is sent again after TCP's time-outs (200 ms, then doubling; 1 s for a connection's first),
 * and those behind it wait for it. Acknowledgements come back over the link in the other direction, so a link that is
 * cut one way also stops a sender once its socket is full. What comes to a closed socket is answered by a reset. */
#pragma once

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "sim/virtual_host.h"

#define VIRTUAL_FDS         100000 /* descriptors from here on are ours */
#define VIRTUAL_FDS_MAX     20000
#define VIRTUAL_BUFFER      ((size_t)256 * 1024) /* bytes that a socket takes, each way */
#define VIRTUAL_PORT_ANY    40000
#define VIRTUAL_PORT_SPARED 8000 /* connections to it and the next are taken whatever else lacks */

struct virtual_link {
    int64_t delay_ns, jitter_ns;
    double bytes_per_ns; /* 0: no bound */
    double loss;         /* part of the segments that are lost */
    bool cut;
    int64_t busy_ns;   /* until when it sends what it has */
    int64_t behind_ns; /* the longest that it was ever behind */
};

void virtual_net_begin(void);
/* From one host to another; to itself: what its processes say to each other over TCP. */
struct virtual_link *virtual_link(uint32_t from, uint32_t to);
/* How long what came from other hosts, and what went to them, has stood in front of slow links, at most. */
int64_t virtual_behind_ns(uint32_t host);
/* The address of a host. */
struct in_addr virtual_address(uint32_t host);
/* Resets all connections between two hosts, as something on the way may; how many. */
uint32_t virtual_reset(uint32_t host, uint32_t other);
/* From now on the process's sockets are gone without a word, as when its machine loses power. Then kill it. */
void virtual_vanish(struct virtual_process *process);
/* Open descriptors of a process. */
uint32_t virtual_fds_open(const struct virtual_process *process);

/* ---- the system calls: 0 or more, or -errno ---- */

static inline bool virtual_is_fd(int fd) {
    return fd >= VIRTUAL_FDS && fd < VIRTUAL_FDS + VIRTUAL_FDS_MAX;
}

int virtual_socket(int family);
int virtual_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int virtual_listen(int fd);
int virtual_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int virtual_accept(int fd, struct sockaddr *address, socklen_t *bytes);
int virtual_shutdown(int fd, int how); /* SHUT_WR or SHUT_RDWR */
int virtual_name(int fd, struct sockaddr *address, socklen_t *bytes);
ssize_t virtual_send(int fd, const struct msghdr *message);
ssize_t virtual_receive(int fd, struct msghdr *message);
int virtual_option(int fd, int level, int name, const void *value);
int virtual_error(int fd); /* SO_ERROR, which is forgotten by that */
size_t virtual_unsent(int fd);
int virtual_event_fd(void);
ssize_t virtual_event_write(int fd);
ssize_t virtual_event_read(int fd);
int virtual_dup(int fd);
int virtual_close(int fd);
int virtual_epoll(void);
int virtual_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
/* `until_ns` is the world's. */
int virtual_epoll_wait(int epoll_fd, struct epoll_event *events, int most, int64_t until_ns);
