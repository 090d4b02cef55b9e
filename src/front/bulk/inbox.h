/* inbox.h - where a frontend gets back what it handed to other threads: orders carried out (repository_order.h), jobs
 * done (bulk.h) and inputs prepared (preparer.h). */
#pragma once

#include "core/util/error.h"
#include "core/util/push_list.h"

/* Any thread pushes and wakes; only the frontend's thread takes. */
struct inbox {
    int wake_fd; /* readable: somebody has woken it */
    struct push_list orders, jobs, preparations;
};

/* 0 or -errno. */
int inbox_open(struct inbox *inbox);
void inbox_close(struct inbox *inbox);
/* Makes the frontend's thread take a turn soon. Any thread. */
void inbox_wake(struct inbox *inbox);
/* The frontend's thread calls it once it has been woken, before it looks for what is new. */
void inbox_woken(struct inbox *inbox);
