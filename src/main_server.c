/* main_server.c - the program `symphony-server`: the commands that serve, without the lab's. */
#include <stddef.h>

#include "commit.h"
#include "server/commands/cli.h"

static const struct cli_command *const commands[] = {
    &cli_backend, &cli_cordon, &cli_drain,    &cli_frontend, &cli_profile,  &cli_rollout, &cli_scheduler,
    &cli_serve,   &cli_status, &cli_timeline, &cli_top,      &cli_uncordon, NULL,
};

int main(int argc, char **argv) {
    return cli_main(argc, argv, commands, SYMPHONY_COMMIT);
}
