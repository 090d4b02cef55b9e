/* cli.c - what the commands share. */
#include "server/commands/cli.h"

#include <stdarg.h>
#include <stdio.h>

int cli_usage_error(const char *command, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "symphony %s: ", command);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, " (see 'symphony %s --help')\n", command);
    va_end(ap);
    return CLI_USAGE;
}
