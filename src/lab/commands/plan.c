/* plan.c - `symphony plan`: a table of planners, each of which answers one question about a cluster from a YAML file.
 */
#include <stdio.h>
#include <string.h>

#include "lab/commands/plan.h"
#include "server/commands/cli.h"

static const struct cli_command *const planners[] = {
    &plan_partition, &plan_pool, &plan_prefixes, &plan_squishy, &plan_split, NULL,
};

static void usage(FILE *to) {
    fputs("Usage: symphony plan WHAT FILE... [OPTION]...\n"
          "Plans a cluster from expected rates; finds models that share their first layers.\n\n"
          "What:\n",
          to);
    for (const struct cli_command *const *p = planners; *p; p++)
        fprintf(to, "  %-10s %s\n", (*p)->name + strlen("plan "), (*p)->summary);
    fputs("\n'symphony plan WHAT --help' says more of each. Exit status: 0 a plan, 2 bad usage or input, 1 there is "
          "none.\n",
          to);
}

static int plan_run(int argc, char **argv) {
    if (argc < 2) {
        usage(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage(stdout);
        return CLI_OK;
    }
    for (const struct cli_command *const *p = planners; *p; p++)
        if (strcmp((*p)->name + strlen("plan "), argv[1]) == 0)
            return (*p)->run(argc - 1, argv + 1);
    return cli_usage_error("plan", "there is no planner '%s'", argv[1]);
}

const struct cli_command cli_plan = {
    .name = "plan",
    .summary = "plans a cluster from expected rates",
    .run = plan_run,
};
