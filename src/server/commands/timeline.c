/* timeline.c - `symphony timeline`: what the accelerators of a server did lately, as a file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/system/log.h"
#include "server/commands/cli.h"
#include "server/commands/metrics_visit.h"

struct timeline_settings {
    struct metrics_visit_settings visit;
    int64_t seconds;
    const char *out;
};

static const struct option_row rows[] = {
    OPTION_INT(struct timeline_settings, seconds, "seconds", "S", 1, 3600, "how much of the past"),
    OPTION_TEXT(struct timeline_settings, out, "out", "FILE", "write there (or -o FILE), not to standard output"),
    METRICS_VISIT_OPTIONS(struct timeline_settings, visit),
    METRICS_VISIT_TIMEOUT(struct timeline_settings, visit),
    OPTION_END,
};

static const struct options options = {
    .command = "timeline",
    .usage = "URL [OPTION]...",
    .intro =
        "Writes what each accelerator of a server did in the last seconds: its batches (model, size, predicted and "
        "taken\n"
        "time), loads, and why it was idle. The file is for https://ui.perfetto.dev or chrome://tracing, as that of\n"
        "'symphony simulate --trace'. In a cluster ask a backend.\n" METRICS_VISIT_URL,
    .notes = "Example:\n"
             "  symphony timeline localhost --seconds 5 --out now.json",
    .rows = rows,
    .args_min = 1,
    .args_max = 1,
    .args_name = "URL",
};

static void write_out(void *context, const char *data, size_t bytes) {
    fwrite(data, 1, bytes, context);
}

static int timeline_run(int argc, char **argv) {
    struct timeline_settings settings = {.visit = {.timeout_s = 10}, .seconds = 5};
    struct metrics_visit *visit = NULL;
    struct sy_error err;
    char path[64];
    for (int i = 1; i < argc; i++) /* as other programs call it */
        if (strcmp(argv[i], "-o") == 0)
            argv[i] = "--out";
    int arguments, status = options_parse(&options, argc, argv, &settings, &arguments);
    if (status != OPTIONS_GO_ON)
        return status;
    FILE *to = settings.out ? fopen(settings.out, "w") : stdout;
    if (!to)
        return cli_usage_error("timeline", "cannot write '%s': %s", settings.out, strerror(errno));
    log_set_level(LOG_WARN);
    snprintf(path, sizeof(path), "/v2/symphony/timeline?seconds=%lld", (long long)settings.seconds);
    int rc = metrics_visit_open(&visit, &settings.visit, argv[1], &err);
    rc = rc < 0 ? rc : metrics_visit_ask(visit, path, write_out, to, &err);
    for (bool goes_on = rc == 0; goes_on; goes_on = rc > 0)
        rc = metrics_visit_wait(visit, -1, 1000, &err);
    metrics_visit_close(visit);
    bool wrote = !ferror(to);
    if (settings.out && fclose(to))
        wrote = false;
    if (rc == 0 && !wrote)
        rc = error_set(&err, -EIO, "cannot write '%s'", settings.out ? settings.out : "to standard output");
    if (rc < 0)
        fprintf(stderr, "symphony timeline: %s\n", err.text);
    return rc == 0 ? CLI_OK : rc == -EINVAL ? CLI_USAGE : CLI_FAILURE;
}

const struct cli_command cli_timeline = {
    .name = "timeline",
    .summary = "what the accelerators of a server did lately, as a file for Perfetto",
    .run = timeline_run,
};
