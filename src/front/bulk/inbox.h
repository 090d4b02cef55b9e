/* inbox.h - in which a frontend gets back its orders carried out (repository_order.h), jobs done (bulk.h) and inputs
 * prepared (preparer.h) from other threads. */
#pragma once

#include "core/util/error.h"
#include "core/util/push_list.h"

/* Any thread pushes and wakes; only the frontend's thread takes. */
struct inbox {
    int wake_fd; /* eventfd, readable when the frontend's thread was woken */
    struct push_list orders, jobs, preparations;
};

/* 0 or -errno. */
int inbox_open(struct inbox *inbox);
void inbox_close(struct inbox *inbox);
/* Makes the frontend's thread take a turn soon. Any thread. */
void inbox_wake(struct inbox *inbox);
/* The frontend's thread calls it once it has been woken, before it takes from the lists. */
void inbox_woken(struct inbox *inbox);
