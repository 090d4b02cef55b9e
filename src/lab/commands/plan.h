/* plan.h - the planners of `symphony plan`, each in a file of its name; plan.c holds the table. Their names begin with
 * "plan ", as error messages show them. */
#pragma once

#include "server/commands/cli.h"

extern const struct cli_command plan_partition;
extern const struct cli_command plan_pool;
extern const struct cli_command plan_prefixes;
extern const struct cli_command plan_squishy;
extern const struct cli_command plan_split;
