/* server_balance.h - moves models between rank threads, every epoch, if that makes the load of their accelerators
 * sufficiently more even (sched/plan/balance.h). Not in a cluster. */
#pragma once

#include "server/threads/executors.h"
#include "server/threads/model_list.h"
#include "server/threads/scheduling.h"

struct server_balancer;

/* NULL in `balancer`: models do not move. 0 or -ENOMEM; free it in either case. */
int server_balancer_create(struct server_balancer **balancer, const struct executors *executors,
                           const struct scheduling *scheduling, struct model_list *models);
void server_balancer_free(struct server_balancer *balancer);
/* Always the same thread. NULL is allowed. */
void server_balancer_look(struct server_balancer *balancer);
