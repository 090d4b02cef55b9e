/* inbox.h - where a frontend gets back what it handed to other threads: orders that were carried out
 * (repository_order.h), jobs that are done (bulk.h). */
#pragma once

#include "base/error.h"
#include "base/push_list.h"

/* Any thread pushes and wakes; one, the frontend's, takes. */
struct inbox {
    int wake_fd; /* readable: somebody has woken it */
    struct push_list orders, jobs;
};

/* 0 or -errno. */
int inbox_open(struct inbox *inbox);
void inbox_close(struct inbox *inbox);
/* Makes its thread take a turn soon. Any thread. */
void inbox_wake(struct inbox *inbox);
/* Its thread has been woken. */
void inbox_woken(struct inbox *inbox);
