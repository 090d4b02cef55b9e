/* cli.c - the program around its commands. */
#include "server/commands/cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/system/log.h"

#define TEST_CLOCK "SYMPHONY_TEST_CLOCK" /* for tests: OFFSET_S,PPM */

int cli_usage_error(const char *command, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "symphony %s: ", command);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, " (see 'symphony %s --help')\n", command);
    va_end(ap);
    return CLI_USAGE;
}

static void usage(FILE *to, const struct cli_command *const *commands) {
    fputs("Usage: symphony COMMAND [OPTION]...\n"
          "Serves many DNN models from one shared pool of accelerators under latency SLOs.\n\n"
          "Commands:\n",
          to);
    for (const struct cli_command *const *c = commands; *c; c++)
        fprintf(to, "  %-10s %s\n", (*c)->name, (*c)->summary);
    fputs("\n'symphony COMMAND --help' says more of each. Exit status: 0 success, 2 bad usage or input, 1 failure.\n",
          to);
}

static int command_run(int argc, char **argv, const struct cli_command *const *commands) {
    if (argc < 2) {
        usage(stderr, commands);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage(stdout, commands);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("symphony " SYMPHONY_VERSION);
        return 0;
    }
    for (const struct cli_command *const *c = commands; *c; c++)
        if (strcmp((*c)->name, argv[1]) == 0)
            return (*c)->run(argc - 1, argv + 1);
    fprintf(stderr, "symphony: unknown command '%s'; 'symphony --help' lists them\n", argv[1]);
    return CLI_USAGE;
}

/* Makes the process's clock differ from other processes' clocks, if the environment says so. False: the environment's
 * text is wrong. */
static bool test_clock_set(void) {
    const char *text = getenv(TEST_CLOCK);
    if (!text)
        return true;
    char *end;
    double offset_s = strtod(text, &end);
    if (end == text || *end != ',' || !(fabs(offset_s) < 1e9))
        return false;
    const char *second = end + 1;
    double ppm = strtod(second, &end);
    return end != second && !*end && clock_skew_set((int64_t)(offset_s * 1e9), ppm) == 0;
}

int cli_main(int argc, char **argv, const struct cli_command *const *commands) {
    if (!test_clock_set()) {
        fputs("symphony: " TEST_CLOCK " is not an offset in seconds and a drift in ppm, such as 3600,200\n", stderr);
        return CLI_USAGE;
    }
    int status = command_run(argc, argv, commands);
    /* a result that could not be written (a full disk) is a failure, whatever the command */
    if ((fflush(stdout) || ferror(stdout)) && status == CLI_OK) {
        fprintf(stderr, "symphony: cannot write to standard output: %s\n", strerror(errno));
        status = CLI_FAILURE;
    }
    log_drain(LOG_DRAIN_MS);
    return status;
}
