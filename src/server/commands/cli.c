/* cli.c - the program around its commands. */
#include "server/commands/cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/container.h"
#include "core/util/near.h"

/* For tests: a clock that differs from other processes' clocks, OFFSET_S,PPM. */
#define TEST_CLOCK "SYMPHONY_TEST_CLOCK"

static const char *cli_commit = ""; /* written once, before any thread starts */
static bool json_missing;           /* whether there was nothing to print; the command's thread */

void cli_print_version(void) {
    printf("symphony " SYMPHONY_VERSION "%s%s%s\n", *cli_commit ? " (commit " : "", cli_commit, *cli_commit ? ")" : "");
}

int cli_usage_error(const char *command, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "symphony %s: ", command);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, " (see 'symphony %s --help')\n", command);
    va_end(ap);
    return CLI_USAGE;
}

void cli_json_print(json_t *json, size_t flags) {
    json_missing |= !json;
    json_dumpf(json, stdout, JSON_INDENT(2) | flags);
    putchar('\n');
    json_decref(json);
}

void cli_duration_format(double seconds, char text[CLI_DURATION_BYTES]) {
    static const struct {
        long long seconds;
        char unit;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    long long left = seconds > 0 ? (long long)fmin(seconds, 1e12) : 0;
    size_t i = 0;
    while (i < ARRAY_COUNT(units) - 1 && left < units[i].seconds)
        i++;
    int length = snprintf(text, CLI_DURATION_BYTES, "%lld%c", left / units[i].seconds, units[i].unit);
    if (i < ARRAY_COUNT(units) - 1)
        snprintf(text + length, CLI_DURATION_BYTES - (size_t)length, "%lld%c",
                 left % units[i].seconds / units[i + 1].seconds, units[i + 1].unit);
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

int cli_main(int argc, char **argv, const struct cli_command *const *commands, const char *commit) {
    const struct cli_command *const *c = commands;
    const char *skew = getenv(TEST_CLOCK);
    double offset_s, ppm;
    int status = CLI_OK, length = 0;

    if (skew && (sscanf(skew, "%lf,%lf%n", &offset_s, &ppm, &length) < 2 || skew[length] || !(fabs(offset_s) < 1e9) ||
                 clock_skew_set((int64_t)(offset_s * 1e9), ppm) < 0)) {
        fputs("symphony: " TEST_CLOCK " is not an offset in seconds and a drift in ppm, such as 3600,200\n", stderr);
        return CLI_USAGE;
    }
    cli_commit = commit;
    while (argc > 1 && *c && strcmp((*c)->name, argv[1]) != 0)
        c++;
    if (argc < 2) {
        usage(stderr, commands);
        status = CLI_USAGE;
    } else if (*c) {
        status = (*c)->run(argc - 1, argv + 1);
    } else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        usage(stdout, commands);
    } else if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        cli_print_version();
    } else {
        for (c = commands; *c && near_distance(argv[1], strlen(argv[1]), (*c)->name) == NEAR_NOT;)
            c++;
        if (argv[1][0] == '-')
            fprintf(stderr, "symphony: options come after a command: symphony serve %.100s ...\n", argv[1]);
        else if (access(argv[1], F_OK) == 0)
            fprintf(stderr, "symphony: unknown command '%.100s'; did you mean 'symphony serve %.100s'?\n", argv[1],
                    argv[1]);
        else if (*c)
            fprintf(stderr, "symphony: unknown command '%.100s'; did you mean '%s'?\n", argv[1], (*c)->name);
        else
            fprintf(stderr, "symphony: unknown command '%.100s'; 'symphony --help' lists them\n", argv[1]);
        status = CLI_USAGE;
    }
    if (json_missing && status == CLI_OK) {
        fputs("symphony: there is no result: memory is out, or a figure is no number\n", stderr);
        status = CLI_FAILURE;
    }
    /* a result that could not be written (a full disk) is a failure, whatever the command */
    if ((fflush(stdout) || ferror(stdout)) && status == CLI_OK) {
        fprintf(stderr, "symphony: cannot write to standard output: %s\n", strerror(errno));
        status = CLI_FAILURE;
    }
    log_drain(LOG_DRAIN_MS);
    return status;
}
