/* outages.h - models whose sub-cluster has lost all accelerators that run them. They move to another sub-cluster that
 * has some; if there is none, they are set aside with their reason until an accelerator is back. The server is not able
 * while no accelerator can run any model. */
#pragma once

#include "server/threads/executors.h"
#include "server/threads/model_list.h"
#include "server/threads/readiness.h"
#include "server/threads/scheduling.h"

/* Not in a cluster, whose scheduler knows what runs. Always the same thread. */
void outages_look(struct executors *executors, const struct scheduling *scheduling, struct model_list *list,
                  struct readiness *readiness);
/* Sets a model aside, or takes it back, because no accelerator that runs it is in service, or one is again. One thread
 * at a time. Whether its state has changed. */
bool model_strand(struct served_model *model, bool stranded);
