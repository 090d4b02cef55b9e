/* bench.c - `symphony bench`: open-loop load on any Open Inference (v2) server, and the search for its goodput. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/util/text.h"
#include "lab/commands/bench_report.h"
#include "lab/commands/bench_workload.h"
#include "lab/commands/client_tls_options.h"
#include "lab/commands/scenario_sets.h"
#include "lab/load/client_tls.h"
#include "lab/load/goodput_search.h"
#include "lab/load/load.h"
#include "lab/load/target.h"
#include "lab/report/gnuplot.h"
#include "server/commands/bearer.h"
#include "server/commands/cli.h"
#include "server/commands/options.h"

#define HINTS_MAX          64
#define TRIALS_MAX         80
#define PAYLOAD_BYTES      (16u << 20) /* most bytes of one model's payloads, unless a single request is larger */
#define CONNECT_TIMEOUT_NS (5 * NS_PER_S)
/* Distance of the metrics port from that of HTTP: 8000 and 8002 for Symphony and Triton, 8080 and 8082 for MLServer. */
#define METRICS_PORT_STEP 2
#define SETTLE_NS         (30 * NS_PER_S)
#define SETTLE_PAUSE_NS   (100 * NS_PER_MS)
#define PROBE_OUTSTANDING 32
#define PROBE_SECONDS     2.0
#define PROBE_SHARE       0.7 /* share of the closed loop's rate at which a search starts */
#define SEND_LAG_WARN_NS  NS_PER_MS
#define HEADERS_BYTES_MAX 4096

enum { FORM_BINARY, FORM_JSON };

/* The words of the option, in the order of enum reuse. */
static const char *const reuse_names[] = {"newest", "oldest", "random"};

struct settings {
    const char *models, *metrics, *plot, *scenario;
    struct scenario_sets sets;
    double rate_rps, seconds, warmup_s, grace_s, slo_ms, precision;
    int64_t connections, connections_max, closed, items, seed;
    int find, outputs, reuse;
    const char *arrivals_text;
    struct arrivals_spec arrivals;
    double popularity;
    bool json, json_tensors, timeout_from_slo, spin;
    struct target_hint hints[HINTS_MAX];
    uint32_t hints_count;
    struct client_tls_files tls;
    struct text headers; /* header lines of every request */
};

static int arrivals_option(const char *text, void *settings, struct sy_error *err) {
    struct settings *s = settings;
    s->arrivals_text = text;
    return arrivals_parse(text, &s->arrivals, err);
}

static int popularity_option(const char *text, void *settings, struct sy_error *err) {
    return popularity_parse(text, &((struct settings *)settings)->popularity, err);
}

static int set_option(const char *text, void *settings, struct sy_error *err) {
    return scenario_sets_add(&((struct settings *)settings)->sets, text, err);
}

static int hint_add(struct settings *s, const char *text, bool declared, struct sy_error *err) {
    if (s->hints_count == HINTS_MAX)
        return error_set(err, -EINVAL, "given more than %d times", HINTS_MAX);
    s->hints[s->hints_count++] = (struct target_hint){.text = text, .declared = declared};
    return 0;
}

static int shape_option(const char *text, void *settings, struct sy_error *err) {
    return hint_add(settings, text, false, err);
}

static int input_option(const char *text, void *settings, struct sy_error *err) {
    return hint_add(settings, text, true, err);
}

static int header_add(struct settings *s, const char *line, struct sy_error *err) {
    for (const char *at = line; *at; at++)
        if (*at < ' ' || *at > '~')
            return error_set(err, -EINVAL, "'%s' is not printable ASCII", line);
    text_printf(&s->headers, "%s\r\n", line);
    return s->headers.failed || s->headers.length > HEADERS_BYTES_MAX
               ? error_set(err, -EINVAL, "all headers together are longer than %d bytes", HEADERS_BYTES_MAX)
               : 0;
}

static int header_option(const char *text, void *settings, struct sy_error *err) {
    size_t name = strcspn(text, ": \t");
    if (name == 0 || text[name] != ':')
        return error_set(err, -EINVAL, "'%s' is not of the form NAME: VALUE", text);
    return header_add(settings, text, err);
}

static int token_option(const char *text, void *settings, struct sy_error *err) {
    char header[BEARER_BYTES];
    int rc = bearer_read(text, header, err);
    return rc ? rc : header_add(settings, header, err);
}

#define S struct settings
static const struct option_row rows[] = {
    OPTION_HEADING("Load"),
    OPTION_DOUBLE(S, rate_rps, "rate", "R", 0.01, 1e7,
                  "requests per second over all models; with --find, where the search starts"),
    OPTION_CHOICE(S, find, "find", "goodput",
                  "search the highest rate at which every model has at least 99 % of its requests good: bracket, then "
                  "bisect; a rate that fails is tried once more"),
    OPTION_DOUBLE(S, precision, "precision", "P", 0.001, 0.5, "of --find: relative width at which it stops"),
    OPTION_INT(S, closed, "closed", "N", 1, 100000,
               "closed loop instead: N requests outstanding, for the throughput at saturation"),
    OPTION_TEXT(S, scenario, "scenario", "FILE.yaml",
                "the workload of a scenario instead (docs/scenarios.md): its models' requests, at the times at which a "
                "simulation of it has them, with its SLOs"),
    OPTION_PARSED("set", "KEY=VALUE", set_option, "change that scenario, e.g. workload.rate_rps=7000; may be repeated"),
    OPTION_DOUBLE(S, seconds, "seconds", "S", 0.1, 1e6,
                  "how long requests are counted (default: 10; with --find 5, for each trial; with --scenario its "
                  "run.seconds)"),
    OPTION_DOUBLE(S, warmup_s, "warmup", "S", 0, 1e5,
                  "seconds of the same load before, not counted (default: 1; with --scenario its "
                  "run.warmup_seconds)"),
    OPTION_DOUBLE(S, grace_s, "grace", "S", 0, 1e4,
                  "seconds that answers are waited for at the end; then they count as unanswered"),
    OPTION_PARSED(
        "arrivals", "KIND", arrivals_option,
        "gaps of each model's requests: poisson, uniform (constant) or gamma:K (shape K; below 1 burstier than "
        "poisson) (default: poisson)"),
    OPTION_INT(S, seed, "seed", "N", 0, INT64_MAX / 2,
               "of arrivals and inputs (default: 1; with --scenario its run.seed)"),
    OPTION_HEADING("Requests"),
    OPTION_TEXT(S, models, "models", "A,B", "models to ask (default: all that the server lists as ready)"),
    OPTION_PARSED("popularity", "KIND", popularity_option,
                  "share of each model: equal, or zipf:S in the order listed (default: equal)"),
    OPTION_DOUBLE(S, slo_ms, "slo-ms", "M", 0.001, 1e9,
                  "an answer 200 within M ms of when its request was due is good (default: each model's own "
                  "parameters.slo_ms, where the server's metadata tells it)"),
    OPTION_FLAG(S, timeout_from_slo, "timeout-from-slo", "send the SLO as each request's timeout parameter"),
    OPTION_INT(S, items, "items", "N", 1, 65536, "items in each request: the batch dimension, a first dimension of -1"),
    OPTION_FLAG(S, json_tensors, "json-tensors", "send inputs as JSON numbers instead of binary tensors"),
    OPTION_CHOICE(S, outputs, "outputs", "binary|json", "form in which outputs are asked for"),
    OPTION_PARSED(
        "shape", "[MODEL/]INPUT:D,D", shape_option,
        "dimensions of one item where the model leaves them open; may be repeated (default: what the server was "
        "measured with, parameters.item_shapes, where its metadata tells; else 320 for the height and width of an "
        "image, [-1,C,-1,-1] or [-1,-1,-1,C] with C 1, 3 or 4; else 1)"),
    OPTION_PARSED("input", "[MODEL/]INPUT:TYPE:D,D", input_option,
                  "declares an input, as of 'x:FP32:-1,4', where the server has no usable metadata; may be repeated"),
    OPTION_HEADING("Security"),
    CLIENT_TLS_OPTIONS(S, tls),
    OPTION_PARSED("token", "TOKEN", token_option,
                  "sent as `Authorization: Bearer TOKEN`; @FILE: the first one in that file, one a line"),
    OPTION_PARSED("header", "NAME: VALUE", header_option, "another header to send; may be repeated"),
    OPTION_HEADING("Client"),
    OPTION_INT(S, connections, "connections", "C", 1, 100000, "kept-alive connections opened at the start"),
    OPTION_INT(
        S, connections_max, "connections-max", "C", 1, 1000000,
        "more are opened while all are busy, up to here; then requests wait at the client, their latency running"),
    OPTION_CHOICE(S, reuse, "reuse", "newest|oldest|random",
                  "which idle connection takes the next request: the one used last, as the pools of Go, urllib3 and "
                  "nginx do, the one idle longest, or any"),
    OPTION_FLAG(S, spin, "spin", "never sleep: precise times for a client with a core of its own"),
    OPTION_HEADING("Output"),
    OPTION_TEXT(
        S, metrics, "metrics", "URL",
        "the server's Prometheus page, for batch sizes and its own view of latencies (default: /metrics two ports "
        "above the URL's, 8002 for 8000, if it is there)"),
    OPTION_TEXT(S, plot, "plot", "FILE.svg",
                "draw the distribution of latency, or with --find the good over the offered rate (needs gnuplot)"),
    OPTION_FLAG(S, json, "json", "the result as JSON on standard output"),
    OPTION_END,
};
#undef S

static const struct options options = {
    .command = "bench",
    .usage = "URL (--rate R | --find goodput | --closed N | --scenario FILE.yaml) [OPTION]...",
    .intro =
        "Puts a load on an Open Inference Protocol (v2) server over HTTP and tells how many requests it answers in\n"
        "time. Latency counts from when a request was due, so that a server that stalls cannot hide it.\n"
        "URL is http://HOST[:PORT][/PREFIX], https://... or HOST[:PORT] (port 8000).",
    .notes = "Examples:\n"
             "  symphony bench localhost:8000 --rate 100 --seconds 30\n"
             "  symphony bench localhost:8000 --find goodput --models filetype --slo-ms 38 --plot goodput.svg\n"
             "  symphony bench localhost:8000 --closed 64 --models tiny --json",
    .rows = rows,
    .args_min = 1,
    .args_max = 1,
    .args_name = "URL",
};

struct bench {
    struct settings s;
    const char *url;
    struct server server, metrics;
    struct client_tls *tls;
    bool has_metrics;
    struct target target;
    struct bench_workload workload; /* workload of --scenario */
    struct load_model *models;
    const char **names;       /* [models_count] names of models, for the metrics */
    struct bench_server side; /* the server's own figures */
    bool *same_slo;           /* [models_count] whether the server uses the same SLO */
    struct load *load;
    struct load_result result, spare;
    struct bench_trial trials[TRIALS_MAX];
    uint32_t models_count, trials_count;
    double goodput_rps;
    bool terminal, line_shown; /* whether a line of progress is wanted; whether there is one to overwrite */
};

/* Set by SIGINT and SIGTERM; static, since a signal handler knows nothing else. */
static volatile sig_atomic_t stop_asked;

static void stop_ask(int signal) {
    (void)signal;
    stop_asked = stop_asked + 1;
}

/* ---- set-up ---- */

/* Fewer connections than were asked for would be another load. */
static int connections_check(const char *option, int64_t asked, struct sy_error *err) {
    uint32_t allowed = load_connections_allowed((uint32_t)asked);
    if (allowed >= asked)
        return 0;
    return error_set(err, -EINVAL, "%s %lld: the limit of open files (ulimit -n) allows %u connections", option,
                     (long long)asked, allowed);
}

static int settings_check(const struct settings *s, struct sy_error *err) {
    if (s->find == 0 && s->closed)
        return error_set(err, -EINVAL, "--find and --closed exclude each other");
    if (s->rate_rps > 0 && s->closed)
        return error_set(err, -EINVAL, "--rate and --closed exclude each other");
    if (s->scenario && (s->find == 0 || s->closed || s->rate_rps > 0 || s->models))
        return error_set(err, -EINVAL, "--scenario excludes --rate, --find, --closed and --models");
    if (s->sets.count && !s->scenario)
        return error_set(err, -EINVAL, "--set goes with --scenario");
    if (!s->scenario && s->find < 0 && !s->closed && s->rate_rps <= 0)
        return error_set(err, -EINVAL, "one of --rate, --find, --closed and --scenario is needed");
    if (!s->tls.certificate != !s->tls.key)
        return error_set(err, -EINVAL, "--cert and --key go together");
    int rc = connections_check("--closed", s->closed, err);
    rc = rc ? rc : connections_check("--connections", s->connections, err);
    if (rc)
        return rc;
    return s->plot ? gnuplot_check(s->plot, err) : 0;
}

static int model_prepare(struct bench *b, uint32_t i, struct sy_error *err) {
    const struct target_model *target = &b->target.models[i];
    struct load_model *model = &b->models[i];
    const struct settings *s = &b->s;
    model->name = target->name;
    int64_t own_ns = s->scenario ? b->workload.cluster.models[i].slo_ns : target->slo_ns;
    model->slo_ns = s->slo_ms > 0 ? (int64_t)(s->slo_ms * 1e6) : own_ns;
    b->names[i] = target->name;
    b->same_slo[i] = model->slo_ns && (model->slo_ns == target->slo_ns || s->timeout_from_slo);
    if (!model->slo_ns && (!s->closed || s->timeout_from_slo))
        return error_set(err, -EINVAL, "the server does not tell the SLO of model '%s'; give --slo-ms", target->name);
    struct payload_options form = {.json_tensors = s->json_tensors,
                                   .binary_outputs = s->outputs == FORM_BINARY,
                                   .timeout_us = s->timeout_from_slo ? model->slo_ns / NS_PER_US : 0};
    size_t bytes = 0;
    do {
        struct payload *payload = &model->payloads[model->payloads_count];
        int rc = payload_build(payload, &b->server, target, &form,
                               (uint64_t)s->seed + i * LOAD_PAYLOADS_MAX + model->payloads_count, err);
        if (rc)
            return rc;
        bytes += payload->length;
        model->payloads_count++;
    } while (model->payloads_count < LOAD_PAYLOADS_MAX && bytes + bytes / model->payloads_count <= PAYLOAD_BYTES);
    return 0;
}

static int models_prepare(struct bench *b, struct sy_error *err) {
    uint32_t count = b->models_count = b->target.models_count;
    b->models = calloc(count, sizeof(*b->models));
    b->names = calloc(count, sizeof(*b->names));
    b->same_slo = calloc(count, sizeof(*b->same_slo));
    double *weights = calloc(count, sizeof(*weights));
    int rc = 0;
    if (!b->models || !b->names || !b->same_slo || !weights || load_result_init(&b->result, count) ||
        load_result_init(&b->spare, count))
        rc = error_set(err, -ENOMEM, "out of memory for %u models", count);
    if (!rc)
        popularity_weights(b->s.popularity, weights, count);
    for (uint32_t i = 0; !rc && i < count; i++) {
        b->models[i].weight = weights[i];
        rc = model_prepare(b, i, err);
    }
    free(weights);
    return rc;
}

/* Sets what requests to the server need: TLS, if its URL says so, and headers. */
static int server_equip(struct bench *b, struct server *server, struct sy_error *err) {
    int rc = server->secure && !b->tls ? client_tls_create(&b->tls, &b->s.tls, err) : 0;
    server->tls = server->secure ? b->tls : NULL;
    server->headers = text_end(&b->s.headers);
    return rc;
}

/* Finds the metrics page. Without a URL for it, TLS is tried if requests use it, then plain text; secrets are not sent
 * in plain text. */
static int metrics_prepare(struct bench *b, struct sy_error *err) {
    if (b->s.metrics) {
        int rc = server_parse(b->s.metrics, &b->metrics, err);
        rc = rc ? rc : server_equip(b, &b->metrics, err);
        rc = rc ? rc : server_resolve(&b->metrics, BENCH_SERVER_TIMEOUT_NS, err);
        b->has_metrics = !rc;
        return rc;
    }
    b->metrics = b->server;
    snprintf(b->metrics.port, sizeof(b->metrics.port), "%d", (atoi(b->server.port) + METRICS_PORT_STEP) & 0xffff);
    strcpy(b->metrics.path, "/metrics");
    b->has_metrics = server_resolve(&b->metrics, BENCH_SERVER_TIMEOUT_NS, NULL) == 0;
    if (!b->has_metrics && b->server.secure) {
        b->metrics.tls = NULL;
        b->metrics.headers = "";
        b->has_metrics = server_resolve(&b->metrics, BENCH_SERVER_TIMEOUT_NS, NULL) == 0;
    }
    return 0;
}

static void bench_free(struct bench *b) {
    load_free(b->load);
    for (uint32_t i = 0; b->models && i < b->models_count; i++)
        for (uint32_t j = 0; j < b->models[i].payloads_count; j++)
            free(b->models[i].payloads[j].bytes);
    free(b->models);
    free(b->names);
    free(b->same_slo);
    bench_server_free(&b->side);
    load_result_free(&b->result);
    load_result_free(&b->spare);
    target_free(&b->target);
    bench_workload_free(&b->workload);
    client_tls_destroy(b->tls);
    text_free(&b->s.headers);
}

/* ---- running ---- */

static void line_end(struct bench *b) {
    if (b->line_shown)
        fputs("\r\033[K", stderr);
    b->line_shown = false;
}

/* Called once a second. */
static void live_line(void *context, const struct load_progress *now) {
    struct bench *b = context;
    if (!b->terminal)
        return;
    uint64_t done = now->good + now->bad;
    fprintf(stderr,
            "\r\033[K%3.0f/%.0f s%s  offered %llu/s  good %.2f %%  refused %.2f %%  p99 %.3g ms  outstanding %u  "
            "connections %u",
            now->elapsed_s, now->total_s, now->warming ? " (warm-up)" : "", (unsigned long long)now->offered,
            done ? 100.0 * (double)now->good / (double)done : 0.0,
            done ? 100.0 * (double)now->refused / (double)done : 0.0, (double)now->p99_ns / 1e6, now->outstanding,
            now->connections);
    fflush(stderr);
    b->line_shown = true;
}

static struct load_trial trial_make(const struct bench *b, double rate_rps) {
    const struct settings *s = &b->s;
    return (struct load_trial){.arrivals = s->arrivals,
                               .rate_rps = rate_rps,
                               .workload = s->scenario ? &b->workload.cluster.config : NULL,
                               .closed = (uint32_t)s->closed,
                               .warmup_s = s->warmup_s,
                               .seconds = s->seconds,
                               .grace_s = s->grace_s,
                               .seed = (uint64_t)s->seed + b->trials_count,
                               .give_up = s->find == 0};
}

static int once_run(struct bench *b, struct sy_error *err) {
    struct load_trial trial = trial_make(b, b->s.rate_rps);
    bench_server_begin(&b->side);
    int rc = load_run(b->load, &trial, &b->result, live_line, b, err);
    line_end(b);
    if (!rc)
        bench_server_end(&b->side);
    return rc;
}

/* Waits until the server answers one request of each model in time again, so that the queues of one trial do not count
 * against the next. -ETIMEDOUT if it never does. */
static int server_settle(struct bench *b, struct sy_error *err) {
    int64_t deadline_ns = clock_now_ns() + SETTLE_NS;
    for (uint32_t i = 0; i < b->models_count && !stop_asked;) {
        const struct load_model *model = &b->models[i];
        struct sy_error why = {""};
        struct answer answer;
        int64_t start_ns = clock_now_ns();
        int rc = fetch_bytes(&b->server, model->payloads[0].bytes, model->payloads[0].length,
                             deadline_ns - start_ns > 0 ? deadline_ns - start_ns : 1, &answer, &why);
        int64_t took_ns = clock_now_ns() - start_ns;
        if (!rc && answer.status == 200 && took_ns <= model->slo_ns)
            i++;
        else if (!rc && answer.status == 200)
            error_set(&why, 0, "it took %.4g ms", (double)took_ns / 1e6);
        else if (!rc)
            error_set(&why, 0, "%d %.200s", answer.status, answer.body);
        free(answer.body);
        if (why.text[0] && clock_now_ns() > deadline_ns)
            return error_set(err, -ETIMEDOUT, "a lone request of model '%s' is not answered within its SLO: %.300s",
                             model->name, why.text);
        if (why.text[0])
            clock_sleep(SETTLE_PAUSE_NS);
    }
    return 0;
}

/* Measures the requests answered 200 per second with a few outstanding. The search starts from a share of this rate,
 * which is near the server's limit. */
static int capacity_probe(struct bench *b, double *rate_rps, struct sy_error *err) {
    struct load_trial trial = trial_make(b, 0);
    trial.closed = PROBE_OUTSTANDING;
    trial.warmup_s = 0.5;
    trial.seconds = PROBE_SECONDS;
    trial.give_up = false;
    int rc = load_run(b->load, &trial, &b->result, live_line, b, err);
    line_end(b);
    uint64_t answered = 0;
    for (uint32_t i = 0; i < b->models_count; i++)
        answered += b->result.models[i].good + b->result.models[i].late;
    *rate_rps = rc ? 0 : PROBE_SHARE * (double)answered / PROBE_SECONDS;
    return rc;
}

static void trial_note(struct bench *b, double rate_rps, const struct load_result *result, bool held) {
    struct bench_trial *t = &b->trials[b->trials_count++];
    struct load_model_stats *all = calloc(1, sizeof(*all));
    if (!all)
        return;
    bench_total(&(struct bench_report){.models_count = b->models_count, .result = result}, all);
    *t = (struct bench_trial){
        .rate_rps = rate_rps,
        .offered_rps = result->seconds > 0 ? (double)all->offered / result->seconds : 0,
        .good_rps = result->seconds > 0 ? (double)all->good / result->seconds : 0,
        .bad_rate = all->offered ? (double)(all->offered - all->good) / (double)all->offered : 0,
        .p99_ns = latency_quantile_ns(&all->latency, 0.99),
        .held = held,
        .gave_up = result->gave_up,
    };
    line_end(b);
    fprintf(stderr, "%10.1f requests/s: %-6s good %6.2f %%, late %.2f %%, refused %.2f %%, p99 %.4g ms%s\n", rate_rps,
            held ? "holds," : "fails,", all->offered ? 100.0 * (double)all->good / (double)all->offered : 0.0,
            all->offered ? 100.0 * (double)all->late / (double)all->offered : 0.0,
            all->offered ? 100.0 * (double)all->refused / (double)all->offered : 0.0, (double)t->p99_ns / 1e6,
            result->gave_up ? " (ended early)" : "");
    free(all);
}

/* Searches the goodput. b->result is then that of the highest rate that held, or of the last trial if no rate held. */
static int goodput_find(struct bench *b, struct sy_error *err) {
    double start_rps = b->s.rate_rps;
    int rc = server_settle(b, err);
    if (!rc && start_rps <= 0)
        rc = capacity_probe(b, &start_rps, err);
    if (rc)
        return rc;
    double least_rps = 1.0 / b->s.seconds; /* one request a trial */
    start_rps = fmax(start_rps, least_rps);
    struct goodput_search search;
    goodput_search_init(&search, start_rps, least_rps, 1e7, b->s.precision);
    bool best_kept = false;
    while (!search.done && !stop_asked && b->trials_count < TRIALS_MAX) {
        rc = server_settle(b, err);
        if (rc == -ETIMEDOUT && b->trials_count) { /* the search ends with the rate found so far */
            fprintf(stderr, "symphony bench: warning: the server did not recover from the last trial: %s\n", err->text);
            rc = 0;
            break;
        }
        if (rc || stop_asked)
            break;
        double rate_rps = search.rate_rps;
        struct load_trial trial = trial_make(b, rate_rps);
        bench_server_begin(&b->side);
        rc = load_run(b->load, &trial, &b->spare, live_line, b, err);
        if (rc || stop_asked)
            break;
        bool held = !b->spare.gave_up && load_result_held(&b->spare, b->models_count);
        trial_note(b, rate_rps, &b->spare, held);
        if (held || !best_kept) {
            bench_server_end(&b->side);
            struct load_result result = b->result;
            b->result = b->spare;
            b->spare = result;
        }
        best_kept |= held;
        goodput_search_report(&search, held);
    }
    line_end(b);
    b->goodput_rps = search.held_rps;
    if (stop_asked)
        b->result.interrupted = true;
    return rc;
}

static int report_write(struct bench *b, struct sy_error *err) {
    struct bench_report report = {.url = b->url,
                                  .arrivals = b->s.arrivals_text,
                                  .models = b->models,
                                  .models_count = b->models_count,
                                  .result = &b->result,
                                  .server = &b->side,
                                  .same_slo = b->same_slo,
                                  .trials = b->trials,
                                  .trials_count = b->trials_count,
                                  .searched = b->s.find == 0,
                                  .goodput_rps = b->goodput_rps,
                                  .seconds = b->s.seconds,
                                  .warmup_s = b->s.warmup_s,
                                  .closed = (uint32_t)b->s.closed,
                                  .reuse = reuse_names[b->s.reuse],
                                  .seed = (uint64_t)b->s.seed};
    int64_t lag_ns = latency_quantile_ns(&b->result.send_lag, 0.99);
    if (lag_ns > SEND_LAG_WARN_NS)
        fprintf(stderr,
                "symphony bench: warning: requests were sent late by the client (p99 %.3g ms), which the latencies "
                "include: %s\n",
                (double)lag_ns / 1e6,
                b->result.connections >= b->s.connections_max
                    ? "all connections were busy (--connections-max)"
                    : "connections were still opening (--connections), or the client had too little processor time");
    if (b->s.json) {
        int rc = bench_report_json(&report, stdout);
        if (rc)
            return error_set(err, rc, "cannot write the result: %s", strerror(-rc));
    } else {
        bench_report_table(&report, stdout);
    }
    return b->s.plot ? bench_plot(&report, b->s.plot, err) : 0;
}

static int fail(const struct sy_error *err, int status) {
    fprintf(stderr, "symphony bench: %s\n", err->text);
    return status;
}

/* Fills in the settings that were not given. */
static void settings_fill(struct settings *s) {
    if (s->connections_max < s->connections)
        s->connections_max = s->connections;
    if (s->connections_max < s->closed)
        s->connections_max = s->closed;
    if (s->scenario)
        return;
    if (s->seconds <= 0)
        s->seconds = s->find == 0 ? 5 : 10;
    s->warmup_s = s->warmup_s >= 0 ? s->warmup_s : 1;
    s->seed = s->seed >= 0 ? s->seed : 1;
}

/* Asks the server for its models and makes the requests. Mistakes here are bad input, unless the server is not there.
 */
static int bench_prepare(struct bench *b, struct sy_error *err) {
    struct settings *s = &b->s;
    int rc = 0;
    if (s->scenario) { /* it has the settings that the command line does not give, and takes those that this gives */
        struct sim_config *config = &b->workload.cluster.config;
        rc = bench_workload_read(&b->workload, s->scenario, s->sets.sets, s->sets.count, err);
        if (rc)
            return rc;
        config->seconds = s->seconds = s->seconds > 0 ? s->seconds : config->seconds;
        config->warmup_s = s->warmup_s = s->warmup_s >= 0 ? s->warmup_s : config->warmup_s;
        config->seed = s->seed >= 0 ? (uint64_t)s->seed : config->seed;
        s->seed = (int64_t)config->seed;
        s->rate_rps = config->steps[0].rate_rps;
        s->models = b->workload.names;
        s->arrivals_text = s->scenario;
    }
    rc = server_equip(b, &b->server, err);
    rc = rc ? rc : server_resolve(&b->server, CONNECT_TIMEOUT_NS, err);
    rc = rc ? rc : target_read(&b->target, &b->server, s->models, s->items, b->s.hints, s->hints_count, err);
    rc = rc ? rc : models_prepare(b, err);
    rc = rc ? rc : metrics_prepare(b, err);
    if (!rc && bench_server_init(&b->side, &b->server, b->has_metrics ? &b->metrics : NULL, b->names, b->models_count))
        rc = error_set(err, -ENOMEM, "out of memory for %u models", b->models_count);
    return rc;
}

static int bench_main(int argc, char **argv) {
    struct bench *b = calloc(1, sizeof(*b));
    if (!b) {
        fputs("symphony bench: out of memory\n", stderr);
        return CLI_FAILURE;
    }
    b->s = (struct settings){.warmup_s = -1,
                             .grace_s = 5,
                             .precision = 0.02,
                             .connections = 64,
                             .connections_max = 4096,
                             .items = 1,
                             .seed = -1,
                             .find = -1,
                             .outputs = FORM_BINARY,
                             .reuse = REUSE_NEWEST,
                             .arrivals_text = "poisson",
                             .slo_ms = 0};
    b->terminal = isatty(STDERR_FILENO);
    int args_count, status = options_parse(&options, argc, argv, &b->s, &args_count);
    if (status != OPTIONS_GO_ON) {
        text_free(&b->s.headers);
        free(b);
        return status;
    }
    struct sy_error err = {""};
    b->url = argv[1];
    settings_fill(&b->s);
    struct sigaction action = {.sa_handler = stop_ask}; /* no SA_RESTART: sleeps are to end */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    status = CLI_OK;
    if (server_parse(b->url, &b->server, &err) || settings_check(&b->s, &err)) {
        status = cli_usage_error("bench", "%s", err.text);
        goto out;
    }
    int rc = bench_prepare(b, &err);
    if (rc) {
        status = fail(&err, rc == -EINVAL || rc == -ENOENT ? CLI_USAGE : CLI_FAILURE);
        goto out;
    }
    b->load = load_create(&(struct load_config){.server = &b->server,
                                                .models = b->models,
                                                .models_count = b->models_count,
                                                .connections = (uint32_t)b->s.connections,
                                                .connections_max = (uint32_t)b->s.connections_max,
                                                .reuse = (enum reuse)b->s.reuse,
                                                .spin = b->s.spin,
                                                .stop = &stop_asked},
                          &err);
    rc = b->load ? b->s.find == 0 ? goodput_find(b, &err) : once_run(b, &err) : -ENOMEM;
    rc = rc ? rc : report_write(b, &err);
    if (rc)
        status = fail(&err, CLI_FAILURE);
out:
    bench_free(b);
    free(b);
    return status;
}

const struct cli_command cli_bench = {
    .name = "bench", .summary = "open-loop load on any v2 server; finds its goodput", .run = bench_main};
