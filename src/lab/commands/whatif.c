/* whatif.c - `symphony whatif`: replays a server's recording through the same cores in virtual time, under other
 * settings. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/memory_file.h"
#include "lab/commands/client_tls_options.h"
#include "lab/commands/scenario_sets.h"
#include "lab/commands/whatif_check.h"
#include "lab/load/client_tls.h"
#include "lab/load/fetch.h"
#include "lab/report/whatif_report.h"
#include "sched/plan/autoscale.h"
#include "server/commands/bearer.h"
#include "server/commands/cli.h"
#include "server/commands/options.h"

#define SLOS_MAX          64
#define METRICS_PORT      "8002"
#define RECORDING_PATH    "/v2/symphony/recording"
#define FETCH_NS          (60 * NS_PER_S)
#define FILE_BYTES_MAX    (256 << 20)
#define ACCELERATORS_MOST 1000000 /* most accelerators, as in a scenario */

struct settings {
    const char *accelerators, *save, *check;
    struct client_tls_files tls;
    char header[BEARER_BYTES + 3]; /* header line with the token, and its line end; "": no token */
    char policy_set[SIMULATION_POLICY_BYTES];
    struct scenario_sets sets;
    struct recording_slo slos[SLOS_MAX];
    char slo_models[SLOS_MAX][128];
    uint32_t slo_count;
    double seconds;
    bool least, json;
    bool plain; /* whether the policy has no priorities */
};

static int policy_option(const char *text, void *settings, struct sy_error *err) {
    struct settings *s = settings;
    const struct policy_ops *policy;
    int rc = simulation_policy_set(text, s->policy_set, &policy, err);
    s->plain = !rc && policy->central;
    return rc;
}

/* Reads MS, or MODEL=MS. */
static int slo_option(const char *text, void *settings, struct sy_error *err) {
    struct settings *s = settings;
    const char *equals = strrchr(text, '=');
    struct recording_slo *slo = &s->slos[s->slo_count];
    if (s->slo_count == SLOS_MAX)
        return error_set(err, -EINVAL, "given more than %d times", SLOS_MAX);
    char *name = s->slo_models[s->slo_count];
    if (equals && (equals == text || (size_t)(equals - text) >= sizeof(s->slo_models[0])))
        return error_set(err, -EINVAL, "'%s': expected MS or MODEL=MS", text);
    if (equals) {
        snprintf(name, sizeof(s->slo_models[0]), "%.*s", (int)(equals - text), text);
        slo->model = name;
    }
    s->slo_count++;
    return options_read_double(equals ? equals + 1 : text, 0.001, 3.6e6, &slo->slo_ms, err);
}

static int set_option(const char *text, void *settings, struct sy_error *err) {
    return scenario_sets_add(&((struct settings *)settings)->sets, text, err);
}

static int token_option(const char *text, void *settings, struct sy_error *err) {
    struct settings *s = settings;
    int rc = bearer_read(text, s->header, err);
    if (!rc)
        strcat(s->header, "\r\n");
    return rc;
}

#define S struct settings
static const struct option_row rows[] = {
    OPTION_HEADING("What to change"),
    OPTION_TEXT(S, accelerators, "accelerators", "[TYPE=]N|+N|-N[,...]",
                "so many accelerators, or so many more or fewer; with several types, by TYPE"),
    OPTION_PARSED("slo", "[MODEL=]MS", slo_option,
                  "this SLO for all requests that have one, or for those of a model; may be repeated"),
    OPTION_PARSED("policy", "NAME[:KEY=VALUE,...]", policy_option,
                  "this policy instead of the server's, with its options (docs/scheduling.md)"),
    OPTION_PARSED("set", "KEY=VALUE", set_option,
                  "change anything else of the scenario (docs/scenarios.md), e.g. cluster.noise=0.1; may be repeated"),
    OPTION_FLAG(S, least, "least",
                "search the least accelerators with which at most 1 % of the requests are bad, and hold the server's "
                "advice for autoscalers against it"),
    OPTION_HEADING("The recording"),
    OPTION_DOUBLE(S, seconds, "seconds", "S", 1, 86400, "the last seconds, as far as they are recorded"),
    OPTION_TEXT(S, save, "save", "DIR",
                "write the recording as DIR/scenario.yaml and DIR/trace.csv, for 'symphony simulate "
                "DIR/scenario.yaml'; DIR is made if need be"),
    OPTION_HEADING("Decisions"),
    OPTION_TEXT(S, check, "check", "DIR",
                "instead of all this: decide again what a server has logged with --record-decisions DIR; exit status 1 "
                "if a core says something else than it did"),
    OPTION_HEADING("Security"),
    CLIENT_TLS_OPTIONS(S, tls),
    OPTION_PARSED("token", "TOKEN", token_option,
                  "sent as `Authorization: Bearer TOKEN`; @FILE: the first one in that file, one a line"),
    OPTION_HEADING("Output"),
    OPTION_FLAG(S, json, "json", "the result as JSON on standard output"),
    OPTION_END,
};
#undef S

static const struct options options = {
    .command = "whatif",
    .usage = "URL|FILE [OPTION]... | --check DIR",
    .intro = "Replays the requests of the last minutes, which every server records, in virtual time through the "
             "scheduler's\n"
             "own cores: with the settings that the server has, and with others. URL is the metrics port of 'symphony "
             "serve'\n"
             "or 'symphony scheduler': http://HOST:PORT, https://... or HOST[:PORT] (port 8002). FILE is a recording:\n"
             "  curl -o FILE http://HOST:8002/v2/symphony/recording",
    .notes = "Examples:\n"
             "  symphony whatif localhost\n"
             "  symphony whatif localhost --accelerators -1\n"
             "  symphony whatif localhost --least --json\n"
             "  symphony whatif localhost --slo resnet50=20 --policy clockwork --seconds 60",
    .rows = rows,
    .args_min = 0,
    .args_max = 1,
    .args_name = "URL or FILE",
};

struct whatif {
    struct settings s;
    const char *source;
    char *text; /* document of the recording */
    size_t bytes;
    struct recording_file file;
    char *scenario, *scenario_changed;
    int trace_fd, changed_fd;
    struct whatif_run recorded, changed;
    bool is_changed;
    struct whatif_least least;
    double warmup_s;
    uint32_t type_count;
    char types[ACCELERATOR_TYPES_MAX][64];
    uint32_t counts[ACCELERATOR_TYPES_MAX], counts_changed[ACCELERATOR_TYPES_MAX];
};

/* ---- the recording ---- */

static int file_read(struct whatif *w, struct sy_error *err) {
    FILE *file = fopen(w->source, "re");
    struct stat about;
    if (!file || fstat(fileno(file), &about) < 0) {
        int rc = error_set(err, -errno, "%s: %s", w->source, strerror(errno));
        if (file)
            fclose(file);
        return rc;
    }
    int rc = 0;
    if (about.st_size > FILE_BYTES_MAX)
        rc = error_set(err, -EFBIG, "%s: larger than %d bytes", w->source, FILE_BYTES_MAX);
    w->text = rc ? NULL : malloc((size_t)about.st_size + 1);
    if (!rc && !w->text)
        rc = error_set(err, -ENOMEM, "out of memory for %s", w->source);
    if (!rc)
        w->bytes = fread(w->text, 1, (size_t)about.st_size, file);
    fclose(file);
    return rc;
}

static int server_ask(struct whatif *w, struct sy_error *err) {
    struct server server;
    struct client_tls *tls = NULL;
    struct answer answer = {0};
    char path[64];
    int rc = server_parse(w->source, &server, err);
    if (rc)
        return rc;
    if (!strstr(w->source, "://") && !strchr(server.authority + strcspn(server.authority, "]"), ':') &&
        strcspn(server.authority, ":") == strlen(server.authority))
        strcpy(server.port, METRICS_PORT);
    if (server.secure)
        rc = client_tls_create(&tls, &w->s.tls, err);
    server.tls = tls;
    server.headers = w->s.header;
    snprintf(path, sizeof(path), RECORDING_PATH "/%.17g", w->s.seconds);
    rc = rc ? rc : server_resolve(&server, FETCH_NS, err);
    rc = rc ? rc : fetch(&server, "GET", path, FETCH_NS, &answer, err);
    client_tls_destroy(tls);
    if (rc)
        return rc;
    w->text = answer.body;
    w->bytes = answer.length;
    if (answer.status == 200)
        return 0;
    json_t *said = json_loadb(answer.body, answer.length, 0, NULL);
    const char *why = json_string_value(json_object_get(said, "error"));
    if (answer.status == 404)
        why = "it has no " RECORDING_PATH "; is it the metrics port of a server that schedules?";
    rc = error_set(err, -EPROTO, "%s answers %d: %s", w->source, answer.status, why ? why : "no reason is given");
    json_decref(said);
    return rc;
}

/* Makes the scenarios as recorded, and with the changes: for policies that have no priorities, without priorities. */
static int inputs_make(struct whatif *w, struct sy_error *err) {
    struct text trace = {0}, scenario = {0};
    w->scenario = strndup(w->file.scenario, w->file.scenario_bytes);
    recording_scenario_copy(&w->file, w->s.plain, &scenario);
    w->scenario_changed = strdup(text_end(&scenario));
    recording_trace_copy(&w->file, w->s.slos, w->s.slo_count, w->s.plain, &trace);
    int rc = 0;
    if (!w->scenario || !w->scenario_changed || scenario.failed || trace.failed)
        rc = error_set(err, -ENOMEM, "out of memory");
    if (!rc && ((rc = w->trace_fd = memory_file("trace", w->file.trace, w->file.trace_bytes)) < 0 ||
                (rc = w->changed_fd = memory_file("trace", trace.data, trace.length)) < 0))
        error_set(err, rc, "no memory for the trace: %s", strerror(-rc));
    text_free(&trace);
    text_free(&scenario);
    return rc < 0 ? rc : 0;
}

/* Reads the recording from the file of this name, or else from the server. */
static int document_get(struct whatif *w, struct sy_error *err) {
    struct stat about;
    bool exists = stat(w->source, &about) == 0;
    if (exists && S_ISREG(about.st_mode))
        return file_read(w, err);
    bool path = w->source[0] == '/' || strncmp(w->source, "./", 2) == 0 || strncmp(w->source, "../", 3) == 0;
    if (!path) { /* it may be the address of a server */
        int rc = server_ask(w, err);
        struct sy_error why = *err;
        return rc == -EHOSTUNREACH && !exists && !strstr(w->source, "://")
                   ? error_set(err, rc, "%.300s; nor is there a file '%s'", why.text, w->source)
                   : rc;
    }
    return exists ? error_set(err, -EINVAL, "%s: this is no regular file", w->source)
                  : error_set(err, -errno, "%s: %s", w->source, strerror(errno));
}

static int recording_get(struct whatif *w, struct sy_error *err) {
    int rc = document_get(w, err);
    if (rc)
        return rc;
    struct sy_error why;
    rc = recording_file_read(w->text, w->bytes, &w->file, &why);
    if (rc)
        return error_set(err, rc, "%s: %s", w->source, why.text);
    return inputs_make(w, err);
}

/* ---- settings ---- */

/* The changes of one simulation, in the form of `symphony simulate --set`. */
struct changes {
    const char **sets;
    char (*own)[64];
    uint32_t count, own_count;
};

static void __attribute__((format(printf, 2, 3))) change_add(struct changes *c, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->own[c->own_count], sizeof(c->own[0]), fmt, ap);
    va_end(ap);
    c->sets[c->count++] = c->own[c->own_count++];
}

/* Simulates, and takes the figures. `counts`: numbers of accelerators by type. */
static int run(struct whatif *w, bool changed, const uint32_t *counts, struct whatif_run *to, struct sy_error *err) {
    static const atomic_int never;
    /* the possible changes: an SLO for each model, a number for each type of accelerators, the trace */
    uint32_t own = w->recorded.model_count + ACCELERATOR_TYPES_MAX + 1;
    struct changes changes = {.sets = calloc(own + SCENARIO_SETS_MAX + 1, sizeof(char *)),
                              .own = calloc(own, sizeof(*changes.own))},
                   *c = &changes;
    struct simulation *simulation = malloc(sizeof(*simulation));
    struct simulation_progress progress = {.stop = &never};
    int rc = c->sets && c->own && simulation ? 0 : error_set(err, -ENOMEM, "out of memory");
    if (rc)
        goto out;
    change_add(c, "workload.arrivals.trace=/proc/self/fd/%d", changed ? w->changed_fd : w->trace_fd);
    if (changed && w->s.policy_set[0])
        c->sets[c->count++] = w->s.policy_set;
    for (uint32_t t = 0; t < w->type_count; t++)
        if (counts[t] != w->counts[t])
            change_add(c, "cluster.accelerators.%u.count=%u", t, counts[t]);
    /* the models' SLOs, which tell policies what to expect, become the new SLOs of their requests */
    for (uint32_t m = 0; changed && m < w->recorded.model_count; m++) {
        const struct recording_slo *slo = NULL;
        for (uint32_t i = 0; i < w->s.slo_count; i++)
            if (!w->s.slos[i].model || strcmp(w->s.slos[i].model, w->recorded.models[m].name) == 0)
                slo = &w->s.slos[i];
        if (slo)
            change_add(c, "models.%u.slo_ms=%.9g", m, slo->slo_ms);
    }
    for (uint32_t i = 0; changed && i < w->s.sets.count; i++)
        c->sets[c->count++] = w->s.sets.sets[i];
    rc = simulation_make_text(simulation, w->source, changed ? w->scenario_changed : w->scenario, c->sets, c->count,
                              err);
    if (!rc)
        rc = simulation_run(simulation, &progress, NULL, err);
    if (!rc && !changed)
        w->warmup_s = simulation->cluster.config.warmup_s;
    if (!rc && whatif_run_take(to, simulation, w->s.json))
        rc = error_set(err, -ENOMEM, "out of memory");
    simulation_free(simulation);
out:
    free(simulation);
    free(c->sets);
    free(c->own);
    return rc;
}

/* Reads the types of accelerators, and their numbers. */
static int types_read(struct whatif *w, struct sy_error *err) {
    struct scenario scenario;
    int rc = scenario_read_text(w->source, w->scenario, strlen(w->scenario), NULL, 0, &scenario, err);
    if (rc)
        return rc;
    w->type_count = scenario.type_count;
    for (uint32_t t = 0; t < w->type_count; t++) {
        snprintf(w->types[t], sizeof(w->types[t]), "%s", scenario.types[t].name);
        w->counts[t] = w->counts_changed[t] = scenario.types[t].count;
    }
    bool known = true;
    for (uint32_t i = 0; i < w->s.slo_count && known; i++) {
        known = !w->s.slos[i].model;
        for (uint32_t m = 0; m < scenario.model_count && !known; m++)
            known = strcmp(scenario.models[m].name, w->s.slos[i].model) == 0;
        if (!known)
            rc = error_set(err, -EINVAL, "--slo: no request of a model '%s' was recorded", w->s.slos[i].model);
    }
    scenario_free(&scenario);
    return rc;
}

/* Reads a list of [TYPE=]N|+N|-N. */
static int counts_read(struct whatif *w, struct sy_error *err) {
    char list[512], *rest = list;
    if (!w->s.accelerators)
        return 0;
    if ((size_t)snprintf(list, sizeof(list), "%s", w->s.accelerators) >= sizeof(list))
        return error_set(err, -EINVAL, "--accelerators: too long");
    for (char *item; (item = strsep(&rest, ","));) {
        const char *equals = strrchr(item, '='), *number = equals ? equals + 1 : item;
        uint32_t t = 0;
        if (!equals && w->type_count > 1)
            return error_set(err, -EINVAL, "--accelerators: '%s': there are several types; say which: %s=N", item,
                             w->types[0]);
        size_t length = equals ? (size_t)(equals - item) : 0;
        while (equals && t < w->type_count &&
               (strlen(w->types[t]) != length || strncmp(w->types[t], item, length) != 0))
            t++;
        if (t == w->type_count)
            return error_set(err, -EINVAL, "--accelerators: there are none of the type '%.*s'", (int)length, item);
        bool relative = *number == '+' || *number == '-';
        int64_t value, count;
        struct sy_error why;
        if (options_read_int(number + (*number == '+'), relative ? -ACCELERATORS_MOST : 0, ACCELERATORS_MOST, &value,
                             &why))
            return error_set(err, -EINVAL, "--accelerators: %s", why.text);
        count = relative ? w->counts[t] + value : value;
        if (count < 1 || count > ACCELERATORS_MOST)
            return error_set(err, -EINVAL, "--accelerators: %lld of %s (expected at least 1; there are %u)",
                             (long long)count, w->types[t], w->counts[t]);
        w->counts_changed[t] = (uint32_t)count;
    }
    return 0;
}

/* ---- --least ---- */

static int bad_rate_with(struct whatif *w, uint32_t count, double *bad_rate, struct sy_error *err) {
    uint32_t counts[ACCELERATOR_TYPES_MAX] = {count};
    struct whatif_run with = {0};
    int rc = run(w, true, counts, &with, err);
    *bad_rate = with.all.bad_rate;
    whatif_run_free(&with);
    return rc;
}

/* Searches the least number of accelerators, on the assumption that more accelerators are never worse. */
static int least_find(struct whatif *w, struct sy_error *err) {
    uint32_t fails = 0, holds = w->counts_changed[0];
    double bad_rate, fails_rate = -1, holds_rate = -1;
    int rc;
    if (w->type_count > 1)
        return error_set(err, -EINVAL, "--least: there are several types of accelerators");
    while (!(rc = bad_rate_with(w, holds, &bad_rate, err)) && bad_rate > AUTOSCALE_BAD_MOST) {
        fails = holds;
        fails_rate = bad_rate;
        if (holds == ACCELERATORS_MOST)
            return error_set(err, -ERANGE, "--least: even with %d accelerators %.2f %% are bad", ACCELERATORS_MOST,
                             100 * bad_rate);
        holds = holds < ACCELERATORS_MOST / 2 ? 2 * holds : ACCELERATORS_MOST;
    }
    holds_rate = bad_rate;
    while (!rc && holds - fails > 1) {
        uint32_t middle = fails + (holds - fails) / 2;
        rc = bad_rate_with(w, middle, &bad_rate, err);
        if (bad_rate <= AUTOSCALE_BAD_MOST) {
            holds = middle;
            holds_rate = bad_rate;
        } else {
            fails = middle;
            fails_rate = bad_rate;
        }
    }
    w->least = (struct whatif_least){.accelerators = holds, .bad_rate = holds_rate, .bad_rate_below = fails_rate};
    return rc;
}

/* ---- --save ---- */

static int file_write(const char *folder, const char *name, const char *data, size_t bytes, struct sy_error *err) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    bool whole = file && fwrite(data, 1, bytes, file) == bytes;
    if (file && fclose(file) != 0)
        whole = false;
    return whole ? 0 : error_set(err, -errno, "%s: %s", path, strerror(errno));
}

static int save(const struct whatif *w, struct sy_error *err) {
    if (mkdir(w->s.save, 0777) < 0 && errno != EEXIST)
        return error_set(err, -errno, "--save: %s: %s", w->s.save, strerror(errno));
    int rc = file_write(w->s.save, "scenario.yaml", w->file.scenario, w->file.scenario_bytes, err);
    return rc ? rc : file_write(w->s.save, "trace.csv", w->file.trace, w->file.trace_bytes, err);
}

/* ---- the command ---- */

static int whatif(struct whatif *w, struct sy_error *err) {
    int rc = types_read(w, err);
    rc = rc ? rc : counts_read(w, err);
    if (!rc && w->s.save)
        rc = save(w, err);
    rc = rc ? rc : run(w, false, w->counts, &w->recorded, err);
    w->is_changed = w->s.policy_set[0] || w->s.slo_count || w->s.sets.count ||
                    memcmp(w->counts, w->counts_changed, sizeof(w->counts)) != 0;
    if (!rc && w->is_changed)
        rc = run(w, true, w->counts_changed, &w->changed, err);
    return rc || !w->s.least ? rc : least_find(w, err);
}

static void report(const struct whatif *w) {
    struct whatif_report report = {
        .source = w->source,
        .file = &w->file,
        .warmup_s = w->warmup_s,
        .recorded = &w->recorded,
        .changed = w->is_changed ? &w->changed : NULL,
        .least = w->least.accelerators > 0 ? &w->least : NULL,
    };
    if (w->s.json)
        whatif_print_json(&report);
    else
        whatif_print(&report);
}

static void whatif_free(struct whatif *w) {
    whatif_run_free(&w->recorded);
    whatif_run_free(&w->changed);
    recording_file_free(&w->file);
    if (w->trace_fd >= 0)
        close(w->trace_fd);
    if (w->changed_fd >= 0)
        close(w->changed_fd);
    free(w->scenario);
    free(w->scenario_changed);
    free(w->text);
    free(w);
}

static int whatif_command(int argc, char **argv) {
    struct whatif *w = calloc(1, sizeof(*w));
    struct sy_error err;
    int arguments;
    if (!w) {
        fputs("symphony whatif: out of memory\n", stderr);
        return CLI_FAILURE;
    }
    w->trace_fd = w->changed_fd = -1;
    w->s.seconds = 300;
    int status = options_parse(&options, argc, argv, &w->s, &arguments);
    if (status != OPTIONS_GO_ON) {
        whatif_free(w);
        return status;
    }
    if (w->s.check || arguments != 1) {
        const char *folder = w->s.check;
        whatif_free(w);
        return folder && arguments == 0 ? whatif_check(folder)
                                        : cli_usage_error("whatif", "expected URL or FILE, or --check DIR");
    }
    w->source = argv[1];
    int rc = recording_get(w, &err);
    bool got = !rc;
    rc = rc ? rc : whatif(w, &err);
    if (!rc || rc == -ERANGE) /* also where no number of accelerators is enough: the figures may say why */
        report(w);
    if (rc)
        fprintf(stderr, "symphony whatif: %s\n", err.text);
    whatif_free(w);
    return !rc ? CLI_OK : rc == -EINVAL || (rc == -ENOENT && !got) ? CLI_USAGE : CLI_FAILURE;
}

const struct cli_command cli_whatif = {
    .name = "whatif",
    .summary = "replays a server's last minutes in virtual time, under other settings",
    .run = whatif_command,
};
