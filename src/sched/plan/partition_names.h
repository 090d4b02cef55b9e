/* partition_names.h - which sub-cluster of a partition is which. Sub-clusters are alike, so a partition is as good
 * under any numbers; but with the right ones more models stay where they are. Pure. */
#pragma once

#include "sched/plan/partition.h"

#define PARTITION_NAMES_MAX 512 /* sub-clusters; with more, numbers stay as they are */

/* Memory for it, aligned as malloc's. */
size_t partition_names_bytes(const struct partition_problem *problem);
/* Renumbers subcluster[models] such that moves cost the least. */
void partition_names_choose(const struct partition_problem *problem, void *memory, uint32_t *subcluster);
