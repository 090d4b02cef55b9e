/* options.h - command-line options from a table: typed values with ranges, one-line mistakes, and the text of --help.
 *
 * A command fills a struct with its defaults, and hands it over with a table whose rows say where in that struct each
 * value lies. The help shows the defaults from there, so that they are written once:
 *
 *     struct settings { double seconds; const char *host; bool json; };
 *     static const struct option_row rows[] = {
 *         OPTION_HEADING("Load"),
 *         OPTION_DOUBLE(struct settings, seconds, "seconds", "S", 0.1, 1e6, "how long to run"),
 *         OPTION_TEXT(struct settings, host, "host", "ADDR", "address to listen on"),
 *         OPTION_FLAG(struct settings, json, "json", "machine-readable result on standard output"),
 *         OPTION_END,
 *     };
 *     static const struct options options = {.command = "serve", .usage = "[OPTION]...", .rows = rows};
 *
 *     struct settings s = {.seconds = 10, .host = "127.0.0.1"};
 *     int args_count, status = options_parse(&options, argc, argv, &s, &args_count);
 *     if (status != OPTIONS_GO_ON)
 *         return status;
 *
 * Options are long ones, `--name VALUE` or `--name=VALUE`; `--` ends them. --help, -h and --version need no row.
 * Any thread; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

enum option_kind {
    OPTION_KIND_END,
    OPTION_KIND_HEADING,
    OPTION_KIND_FLAG,
    OPTION_KIND_INT,
    OPTION_KIND_DOUBLE,
    OPTION_KIND_TEXT,
    OPTION_KIND_CHOICE,
    OPTION_KIND_PARSED
};

struct option_row {
    enum option_kind kind;
    const char *name;  /* name of the option, without the dashes; in a heading, its text */
    const char *value; /* name of the value in the help, e.g. "S"; in a choice, the words: "json|binary" */
    const char *help;  /* text of the help, which is wrapped to 100 columns; no full stop; "\n" starts a new line */
    size_t offset;     /* offset of the value in the settings; not used in a parsed option */
    double min, max;   /* range of a number, both ends allowed; a default outside means "not given" and is not shown */
    /* Function of a parsed option, called at each use of the option. If the text is wrong, fills `err` (a sentence
     * without the option's name) and returns a negative errno. */
    int (*parse)(const char *text, void *settings, struct sy_error *err);
};

/* The member must have the type that the row's name says; the compiler checks. */
#define OPTION_AT_(type, member, wanted)                                                                               \
    (offsetof(type, member) + 0 * sizeof(char[_Generic(((type *)0)->member, wanted : 1, default : -1)]))

#define OPTION_END                                                                                                     \
    { .kind = OPTION_KIND_END }
#define OPTION_HEADING(text)                                                                                           \
    { .kind = OPTION_KIND_HEADING, .name = (text) }
/* bool: true when given. */
#define OPTION_FLAG(type, member, name_, help_)                                                                        \
    { .kind = OPTION_KIND_FLAG, .name = (name_), .help = (help_), .offset = OPTION_AT_(type, member, bool) }
/* int64_t in [min, max]. */
#define OPTION_INT(type, member, name_, value_, min_, max_, help_)                                                     \
    {                                                                                                                  \
        .kind = OPTION_KIND_INT, .name = (name_), .value = (value_), .help = (help_),                                  \
        .offset = OPTION_AT_(type, member, int64_t), .min = (double)(min_), .max = (double)(max_)                      \
    }
/* double in [min, max]; never NaN or infinite. */
#define OPTION_DOUBLE(type, member, name_, value_, min_, max_, help_)                                                  \
    {                                                                                                                  \
        .kind = OPTION_KIND_DOUBLE, .name = (name_), .value = (value_), .help = (help_),                               \
        .offset = OPTION_AT_(type, member, double), .min = (min_), .max = (max_)                                       \
    }
/* const char *: points into argv; never empty. */
#define OPTION_TEXT(type, member, name_, value_, help_)                                                                \
    {                                                                                                                  \
        .kind = OPTION_KIND_TEXT, .name = (name_), .value = (value_), .help = (help_),                                 \
        .offset = OPTION_AT_(type, member, const char *)                                                               \
    }
/* int: the index of the word given among `words_` ("json|binary"); a default of -1 is not shown. */
#define OPTION_CHOICE(type, member, name_, words_, help_)                                                              \
    {                                                                                                                  \
        .kind = OPTION_KIND_CHOICE, .name = (name_), .value = (words_), .help = (help_),                               \
        .offset = OPTION_AT_(type, member, int)                                                                        \
    }
/* Anything else: a function reads the text. */
#define OPTION_PARSED(name_, value_, parse_, help_)                                                                    \
    { .kind = OPTION_KIND_PARSED, .name = (name_), .value = (value_), .help = (help_), .parse = (parse_) }

/* What options of another program are called here, for who types one. */
struct option_foreign {
    const char *names; /* their names without the dashes: "one|other"; a '*' at the end of one is the rest of a name */
    const char *here;  /* end of the sentence "unknown option '--name': ..." */
};

struct options {
    const char *command;                  /* "bench" */
    const char *usage;                    /* text after the command's name: "URL [OPTION]..." */
    const char *intro;                    /* paragraph after the usage line, printed as it is; NULL: none */
    const char *notes;                    /* text after the options, such as examples, printed as it is; NULL: none */
    const struct option_row *rows;        /* rows, the last of which is OPTION_END */
    int args_min, args_max;               /* number of arguments that are not options; args_max < 0: any number */
    const char *args_name;                /* name of such arguments in error messages: "URL" */
    const char *program;                  /* text before the command's name in the usage line; NULL: "symphony" */
    const struct option_foreign *foreign; /* rows, the last of which has no name; NULL: none */
    const char *status; /* text about exit statuses; NULL: 0 success, 2 bad usage or input, 1 failure */
};

#define OPTIONS_GO_ON (-1)

/* Reads argv[1..] into `settings`, which holds the defaults. Returns OPTIONS_GO_ON, with the other arguments moved to
 * argv[1..*args_count], or the exit status to return: 0 after --help or --version (printed on standard output), 2 after
 * a mistake (one line on standard error that names the option). */
int options_parse(const struct options *options, int argc, char **argv, void *settings, int *args_count);

/* As options_parse(), but without printing, for tests and for options that do not come from a command line: -EINVAL and
 * `err` after a mistake;
 * --help and --version are mistakes here. */
int options_read(const struct options *options, int argc, char **argv, void *settings, int *args_count,
                 struct sy_error *err);

/* Writes the help to `to`, with the defaults found in `settings`. */
void options_print_help(const struct options *options, const void *settings, FILE *to);

/* Reads the whole text as a number in [min, max]. 0, or -EINVAL and a sentence ("'x' is not a whole number", "0 is not
 * in 1 to 10") without the option's name. For parse functions. */
int options_read_int(const char *text, int64_t min, int64_t max, int64_t *value, struct sy_error *err);
int options_read_double(const char *text, double min, double max, double *value, struct sy_error *err);
