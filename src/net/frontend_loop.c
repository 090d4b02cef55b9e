/* frontend_loop.c - descriptors and thread of a frontend. */
#include "net/frontend_loop.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static int watch(struct frontend_loop *loop, int fd, uint32_t events, void *mark) {
    struct epoll_event event = {.events = events, .data.ptr = mark};
    return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int frontend_loop_watch(struct frontend_loop *loop, int fd, void *mark) {
    return watch(loop, fd, EPOLLIN, mark);
}

int frontend_loop_open(struct frontend_loop *loop, const struct frontend_config *config, void *port_mark,
                       void *wake_mark, struct sy_error *err) {
    int rc = 0;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0)
        rc = -errno;
    if (rc < 0 || (rc = inbox_open(&loop->inbox)) < 0)
        return error_set(err, rc, "no descriptors for a frontend: %s", strerror(-rc));
    if ((config->port && (rc = watch(loop, port_event_fd(config->port), EPOLLIN | EPOLLET, port_mark)) < 0) ||
        (rc = frontend_loop_watch(loop, loop->inbox.wake_fd, wake_mark)) < 0)
        return error_set(err, rc, "cannot watch a frontend's descriptors: %s", strerror(-rc));
    return 0;
}

void frontend_loop_close(struct frontend_loop *loop) {
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    inbox_close(&loop->inbox);
}

int frontend_loop_start(struct frontend_loop *loop, void *(*run)(void *context), void *context, struct sy_error *err) {
    int rc = -pthread_create(&loop->thread, NULL, run, context);
    return rc < 0 ? error_set(err, rc, "cannot start a frontend's thread: %s", strerror(-rc)) : 0;
}

void frontend_loop_quiesce(struct frontend_loop *loop) {
    atomic_store_explicit(&loop->quiesce_wanted, true, memory_order_release); /* with the thread's load */
    inbox_wake(&loop->inbox);
}

void frontend_loop_stop(struct frontend_loop *loop) {
    atomic_store_explicit(&loop->stop_wanted, true, memory_order_release); /* with the thread's load */
    inbox_wake(&loop->inbox);
    pthread_join(loop->thread, NULL);
}
