/* inbox.c - the eventfd that wakes the frontend's thread. */
#include "front/bulk/inbox.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int inbox_open(struct inbox *inbox) {
    *inbox = (struct inbox){.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    return inbox->wake_fd < 0 ? -errno : 0;
}

void inbox_close(struct inbox *inbox) {
    if (inbox->wake_fd >= 0)
        close(inbox->wake_fd);
    inbox->wake_fd = -1;
}

void inbox_wake(struct inbox *inbox) {
    uint64_t one = 1;
    while (write(inbox->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

void inbox_woken(struct inbox *inbox) {
    uint64_t count;
    while (read(inbox->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
}
