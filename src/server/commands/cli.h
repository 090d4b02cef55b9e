/* cli.h - the program around its commands. One command a file; main.c and main_server.c hold the tables. */
#pragma once

#include <jansson.h>

#define CLI_OK      0
#define CLI_FAILURE 1
#define CLI_USAGE   2 /* bad usage or input: one line on standard error says what and where */

struct cli_command {
    const char *name;
    const char *summary;               /* line about the command in `symphony --help` */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
};

/* A program's main(): runs the command that argv[1] names, of `commands`, whose end is NULL. Prints the list of
 * commands after --help, or when argv[1] is missing. `commit` is that of the sources; "": unknown. */
int cli_main(int argc, char **argv, const struct cli_command *const *commands, const char *commit);
/* Prints what --version tells, on standard output. */
void cli_print_version(void);
/* "symphony NAME: sentence" on standard error; returns CLI_USAGE. */
int cli_usage_error(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prints what --json tells, with more flags of json_dumpf(), and releases it. NULL, since memory was out or a figure is
 * no number: the program fails. */
void cli_json_print(json_t *json, size_t flags);

#define CLI_DURATION_BYTES 24
/* "3d2h", "2h5m", "5m7s", "7s": the two largest units, cut off. */
void cli_duration_format(double seconds, char text[CLI_DURATION_BYTES]);

/* The commands, each in the file of its name. */
extern const struct cli_command cli_bench;
extern const struct cli_command cli_cordon;
extern const struct cli_command cli_uncordon;
extern const struct cli_command cli_drain;
extern const struct cli_command cli_plan;
extern const struct cli_command cli_profile;
extern const struct cli_command cli_backend;
extern const struct cli_command cli_frontend;
extern const struct cli_command cli_rollout;
extern const struct cli_command cli_scheduler;
extern const struct cli_command cli_serve;
extern const struct cli_command cli_simulate;
extern const struct cli_command cli_status;
extern const struct cli_command cli_stress;
extern const struct cli_command cli_timeline;
extern const struct cli_command cli_top;
extern const struct cli_command cli_whatif;
