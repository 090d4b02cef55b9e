/* options.c - command-line options from a table. */
#include "server/commands/options.h"

#include <errno.h>
#include <string.h>

#include "core/util/decimal.h"
#include "core/util/near.h"
#include "server/commands/cli.h"

#define HELP_INDENT 26
#define HELP_WIDTH  100

int options_read_int(const char *text, int64_t min, int64_t max, int64_t *value, struct sy_error *err) {
    int rc = decimal_int(text, min, max, value);
    if (rc == -ERANGE)
        return error_set(err, -EINVAL, "%s is not in %lld to %lld", text, (long long)min, (long long)max);
    return rc < 0 ? error_set(err, -EINVAL, "'%s' is not a whole number", text) : 0;
}

int options_read_double(const char *text, double min, double max, double *value, struct sy_error *err) {
    int rc = decimal_double(text, min, max, value);
    if (rc == -ERANGE)
        return error_set(err, -EINVAL, "%s is not in %.10g to %.10g", text, min, max);
    return rc < 0 ? error_set(err, -EINVAL, "'%s' is not a number", text) : 0;
}

/* The index of `text` among the words of "a|b|c", or -1. */
static int word_index(const char *words, const char *text) {
    size_t length = strlen(text);
    for (int i = 0; *words; i++) {
        size_t word = strcspn(words, "|");
        if (word == length && memcmp(words, text, length) == 0)
            return i;
        words += word + (words[word] == '|');
    }
    return -1;
}

static int value_read(const struct option_row *row, const char *text, void *settings, struct sy_error *err) {
    void *at = (char *)settings + row->offset;
    if (row->kind != OPTION_KIND_PARSED && !*text)
        return error_set(err, -EINVAL, "the value is empty");
    switch (row->kind) {
    case OPTION_KIND_INT:
        return options_read_int(text, (int64_t)row->min, (int64_t)row->max, at, err);
    case OPTION_KIND_DOUBLE:
        return options_read_double(text, row->min, row->max, at, err);
    case OPTION_KIND_TEXT:
        *(const char **)at = text;
        return 0;
    case OPTION_KIND_CHOICE: {
        int index = word_index(row->value, text);
        if (index < 0)
            return error_set(err, -EINVAL, "'%s' is not one of %s", text, row->value);
        *(int *)at = index;
        return 0;
    }
    default:
        return row->parse(text, settings, err);
    }
}

/* Says that there is no option `text`, what another program's option of that name is called here, or which one may be
 * meant. */
static int unknown_error(const struct options *options, const char *text, struct sy_error *err) {
    size_t length = strcspn(text, "=");
    const char *name = strncmp(text, "--", 2) == 0 ? text + 2 : text;
    size_t name_length = length - (size_t)(name - text);
    for (const struct option_foreign *f = options->foreign; f && f->names; f++) {
        size_t known;
        for (const char *one = f->names; *one; one += known + (one[known] == '|')) {
            known = strcspn(one, "|");
            bool family = one[known - 1] == '*';
            if (family ? name_length >= known - 1 && strncmp(name, one, known - 1) == 0
                       : name_length == known && strncmp(name, one, known) == 0)
                return error_set(err, -EINVAL, "unknown option '%.*s': %s", (int)length, text, f->here);
        }
    }
    unsigned least = NEAR_NOT;
    const char *meant = NULL;
    for (const struct option_row *row = options->rows; row->kind != OPTION_KIND_END; row++) {
        unsigned wrong = row->kind == OPTION_KIND_HEADING ? NEAR_NOT : near_distance(name, name_length, row->name);
        meant = wrong < least ? row->name : meant;
        least = wrong < least ? wrong : least;
    }
    if (meant)
        return error_set(err, -EINVAL, "unknown option '%.*s'; did you mean --%s?", (int)length, text, meant);
    return error_set(err, -EINVAL, "unknown option '%.*s'", (int)length, text);
}

int options_read(const struct options *options, int argc, char **argv, void *settings, int *args_count,
                 struct sy_error *err) {
    int count = 0;
    bool only_args = false;
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        if (only_args || text[0] != '-' || !text[1]) { /* a lone "-" is an argument: standard input, by custom */
            argv[++count] = argv[i];
            continue;
        }
        if (strcmp(text, "--") == 0) {
            only_args = true;
            continue;
        }
        const char *name = text + 2;
        size_t length = strcspn(name, "=");
        const struct option_row *row = options->rows;
        while (row->kind != OPTION_KIND_END && (row->kind == OPTION_KIND_HEADING || strlen(row->name) != length ||
                                                memcmp(row->name, name, length) != 0))
            row++;
        if (text[1] != '-' || row->kind == OPTION_KIND_END)
            return unknown_error(options, text, err);
        const char *value = name[length] == '=' ? name + length + 1 : NULL;
        if (row->kind == OPTION_KIND_FLAG) {
            if (value)
                return error_set(err, -EINVAL, "--%s takes no value", row->name);
            *(bool *)((char *)settings + row->offset) = true;
            continue;
        }
        if (!value) {
            if (i + 1 == argc)
                return error_set(err, -EINVAL, "--%s needs a value: %s", row->name, row->value);
            value = argv[++i];
        }
        struct sy_error why = {""};
        int rc = value_read(row, value, settings, &why);
        if (rc)
            return error_set(err, rc, "--%s: %.400s", row->name, why.text);
    }
    *args_count = count;
    if (count < options->args_min)
        return error_set(err, -EINVAL, "%s is missing", options->args_name ? options->args_name : "argument");
    if (options->args_max >= 0 && count > options->args_max)
        return error_set(err, -EINVAL, "unexpected argument '%s'", argv[options->args_max + 1]);
    return 0;
}

/* Composes "help (default: value)"; without a default only the help. */
static void help_compose(const struct option_row *row, const void *settings, char *text, size_t size) {
    const void *at = (const char *)settings + row->offset;
    int length = snprintf(text, size, "%s", row->help);
    char *end = text + length;
    size -= (size_t)length;
    switch (row->kind) {
    case OPTION_KIND_INT: {
        int64_t value = *(const int64_t *)at;
        if ((double)value >= row->min && (double)value <= row->max)
            snprintf(end, size, " (default: %lld)", (long long)value);
        break;
    }
    case OPTION_KIND_DOUBLE: {
        double value = *(const double *)at;
        if (value >= row->min && value <= row->max)
            snprintf(end, size, " (default: %.10g)", value);
        break;
    }
    case OPTION_KIND_TEXT:
        if (*(const char *const *)at)
            snprintf(end, size, " (default: %s)", *(const char *const *)at);
        break;
    case OPTION_KIND_CHOICE: {
        const char *word = row->value;
        int index = *(const int *)at;
        if (index < 0)
            break;
        for (; index > 0; index--)
            word += strcspn(word, "|") + 1;
        snprintf(end, size, " (default: %.*s)", (int)strcspn(word, "|"), word);
        break;
    }
    default:
        break;
    }
}

static void help_row(const struct option_row *row, const void *settings, FILE *to) {
    char text[2048];
    help_compose(row, settings, text, sizeof(text));
    int column = fprintf(to, row->value ? "  --%s %s" : "  --%s", row->name, row->value);
    if (column > HELP_INDENT - 2)
        column = fprintf(to, "\n") - 1;
    bool fresh = true; /* nothing on this line of the text yet */
    for (const char *at = text; *at;) {
        if (*at == ' ' || *at == '\n') {
            if (*at++ == '\n') {
                column = fprintf(to, "\n") - 1;
                fresh = true;
            }
            continue;
        }
        int word = (int)strcspn(at, " \n");
        if (!fresh && column + 1 + word > HELP_WIDTH) {
            column = fprintf(to, "\n") - 1;
            fresh = true;
        }
        column += fprintf(to, "%*s%.*s", fresh ? HELP_INDENT - column : 1, "", word, at);
        fresh = false;
        at += word;
    }
    fputc('\n', to);
}

void options_print_help(const struct options *options, const void *settings, FILE *to) {
    static const struct option_row help = {.kind = OPTION_KIND_PARSED, .name = "help", .help = "this text"},
                                   version = {.kind = OPTION_KIND_PARSED, .name = "version", .help = "the version"};
    fprintf(to, "Usage: %s %s %s\n", options->program ? options->program : "symphony", options->command,
            options->usage);
    if (options->intro)
        fprintf(to, "%s\n", options->intro);
    if (options->rows->kind != OPTION_KIND_HEADING)
        fputs("\nOptions:\n", to);
    for (const struct option_row *row = options->rows; row->kind != OPTION_KIND_END; row++) {
        if (row->kind == OPTION_KIND_HEADING)
            fprintf(to, "\n%s:\n", row->name);
        else
            help_row(row, settings, to);
    }
    help_row(&help, settings, to);
    help_row(&version, settings, to);
    if (options->notes)
        fprintf(to, "\n%s\n", options->notes);
    fprintf(to, "\nExit status: %s.\n",
            options->status ? options->status : "0 success, 2 bad usage or input, 1 failure");
}

int options_parse(const struct options *options, int argc, char **argv, void *settings, int *args_count) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) { /* first, so that the defaults are still there */
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            options_print_help(options, settings, stdout);
            return CLI_OK;
        }
        if (strcmp(argv[i], "--version") == 0) {
            cli_print_version();
            return CLI_OK;
        }
    }
    struct sy_error err;
    if (options_read(options, argc, argv, settings, args_count, &err))
        return cli_usage_error(options->command, "%s", err.text);
    return OPTIONS_GO_ON;
}
