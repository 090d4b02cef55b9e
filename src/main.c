/* main.c - the program `symphony`: all commands. */
#include <stddef.h>

#include "commit.h"
#include "server/commands/cli.h"

static const struct cli_command *const commands[] = {
    &cli_backend, &cli_bench,    &cli_cordon,    &cli_drain,    &cli_frontend, &cli_plan,
    &cli_profile, &cli_rollout,  &cli_scheduler, &cli_serve,    &cli_simulate, &cli_status,
    &cli_stress,  &cli_timeline, &cli_top,       &cli_uncordon, &cli_whatif,   NULL,
};

int main(int argc, char **argv) {
    return cli_main(argc, argv, commands, SYMPHONY_COMMIT);
}
