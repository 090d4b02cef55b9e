/* isolated_channel.c - orders and files through a pair of Unix sockets. */
#include "server/process/isolated_channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

int channel_order_send(int channel, const struct channel_order *order, int fd) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {(void *)(uintptr_t)order, sizeof(*order)};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd >= 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = &control;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    }
    ssize_t sent;
    do
        sent = sendmsg(channel, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -EPIPE : 0;
}

int channel_answer_send(int channel, const struct channel_answer *answer) {
    ssize_t sent;
    do
        sent = send(channel, answer, sizeof(*answer), MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -EPIPE : 0;
}

bool channel_answer_receive(int channel, struct channel_answer *answer) {
    ssize_t got;
    do
        got = recv(channel, answer, sizeof(*answer), 0);
    while (got < 0 && errno == EINTR);
    return got == sizeof(*answer);
}

bool channel_order_receive(int channel, struct channel_order *order, int *fd) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {order, sizeof(*order)};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.bytes)};
    ssize_t got;
    do
        got = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    *fd = -1;
    struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head && head->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(head), sizeof(*fd));
    return got == sizeof(*order);
}
