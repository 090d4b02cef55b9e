/* partition_names.h - numbers for the sub-clusters of a partition. Sub-clusters are alike, so a partition is equally
 * good under any numbers, but with the right ones more models stay where they are. Pure. */
#pragma once

#include "sched/plan/partition.h"

#define PARTITION_NAMES_MAX 512 /* sub-clusters up to which numbers are chosen; more keep their numbers */

/* Bytes of memory for partition_names_choose(). The memory is aligned as malloc's. */
size_t partition_names_bytes(const struct partition_problem *problem);
/* Renumbers subcluster[models] such that moves cost the least. */
void partition_names_choose(const struct partition_problem *problem, void *memory, uint32_t *subcluster);
