/* bench_report.c - how `symphony bench` shows its results: table, JSON, plot. */
#include "lab/commands/bench_report.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "lab/report/gnuplot.h"

#define DISAGREEMENTS_MAX 5 /* most models that are shown whose figures differ */

void bench_total(const struct bench_report *report, struct load_model_stats *all) {
    for (uint32_t i = 0; i < report->models_count; i++) {
        const struct load_model_stats *m = &report->result->models[i];
        all->offered += m->offered;
        all->good += m->good;
        all->late += m->late;
        all->refused += m->refused;
        all->errors += m->errors;
        all->unanswered += m->unanswered;
        latency_merge(&all->latency, &m->latency);
        latency_merge(&all->wire, &m->wire);
        all->wire_in_time += m->wire_in_time;
        histogram_merge(&all->refusal, &m->refusal);
    }
}

/* The total, on the heap since it is too large for a stack. NULL without memory. */
static struct load_model_stats *total_make(const struct bench_report *report) {
    struct load_model_stats *all = calloc(1, sizeof(*all));
    if (all)
        bench_total(report, all);
    return all;
}

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0.0;
}

static double rate(uint64_t count, const struct load_result *result) {
    return result->seconds > 0 ? (double)count / result->seconds : 0.0;
}

static double quantile_ms(const struct load_model_stats *m, double q) {
    return (double)latency_quantile_ns(&m->latency, q) / 1e6;
}

/* ---- table ---- */

static void table_row(FILE *to, const struct load_result *result, const char *name, int width, int64_t slo_ns,
                      const struct load_model_stats *m, const struct server_figures *server) {
    fprintf(to, "%-*s ", width, name);
    if (slo_ns)
        fprintf(to, "%8.4g", (double)slo_ns / 1e6);
    else
        fprintf(to, "%8s", "");
    fprintf(to, " %9.1f %9.1f %7.2f %6.2f %7.2f %6.2f %8.3f %8.3f %8.3f %8.3f", rate(m->offered, result),
            rate(m->good, result), 100 * share(m->good, m->offered), 100 * share(m->late, m->offered),
            100 * share(m->refused, m->offered), 100 * share(m->errors + m->unanswered, m->offered),
            quantile_ms(m, 0.5), quantile_ms(m, 0.99), quantile_ms(m, 0.999), (double)m->latency.max_ns / 1e6);
    if (server->batches > 0)
        fprintf(to, " %6.2f", server->items / server->batches);
    fputc('\n', to);
}

/* The agreement of one model, or of all: index models_count. */
static struct bench_agreement agreement_of(const struct bench_report *report, uint32_t model,
                                           const struct load_model_stats *client) {
    bool same_slo = true;
    for (uint32_t i = 0; i < report->models_count; i++)
        same_slo &= (model != i && model != report->models_count) || report->same_slo[i];
    return bench_server_compare(report->server, model, client, same_slo);
}

static void table_side(FILE *to, const char *who, double mean_ms, double p50_ms, double p99_ms, double in_time,
                       const struct bench_agreement *a) {
    fprintf(to, "%s", who);
    if (a->has_quantiles)
        fprintf(to, "p50 %.3f, p99 %.3f", p50_ms, p99_ms);
    else
        fprintf(to, "mean %.3f", mean_ms);
    fputs(" ms", to);
    if (a->has_in_time)
        fprintf(to, ", %.2f %% in time", 100 * in_time);
}

/* Prints where the server's figures and the client's differ; nothing if they agree. */
static void table_disagreement(FILE *to, const char *name, const struct bench_agreement *a) {
    if (a->p99_differs)
        fprintf(to, "%s: the 99th percentiles of client and server DIFFER by %.3f ms\n", name,
                a->client_p99_ms - a->server_p99_ms);
    if (a->unseen_late > 0)
        fprintf(to, "%s: %.2f %% of the answers were in time to the server and LATE here\n", name,
                100 * a->unseen_late);
}

static void table_server(const struct bench_report *report, const struct load_model_stats *all, FILE *to) {
    const struct bench_server *server = report->server;
    struct bench_agreement a = agreement_of(report, report->models_count, all);
    struct server_quantile wait;
    if (a.told) {
        table_side(to, "the server's own figures, warm-up included: ", a.server_mean_ms, a.server_p50_ms,
                   a.server_p99_ms, a.server_in_time, &a);
        table_side(to, "; the client's from sent to answered: ", a.client_mean_ms, a.client_p50_ms, a.client_p99_ms,
                   a.client_in_time, &a);
        fputc('\n', to);
        double answered = server->figures[report->models_count].answered;
        if (!a.same_requests)
            fprintf(to, "the server answered %.0f requests and the client got %llu: %s\n", answered,
                    (unsigned long long)all->wire.count,
                    answered > (double)all->wire.count
                        ? "others use it, too"
                        : "its counts began anew, since a model was loaded again, or not it alone answered");
        table_disagreement(to, report->models_count > 1 ? "all" : report->models[0].name, &a);
        if (report->models_count > 1) {
            uint32_t count = 0;
            for (uint32_t i = 0; i < report->models_count; i++) {
                struct bench_agreement m = agreement_of(report, i, &report->result->models[i]);
                count += m.p99_differs || m.unseen_late > 0;
                if (count <= DISAGREEMENTS_MAX)
                    table_disagreement(to, report->models[i].name, &m);
            }
            if (count > DISAGREEMENTS_MAX)
                fprintf(to, "and %u models more\n", count - DISAGREEMENTS_MAX);
        }
    }
    if (server_figures_quantile(&server->wait, 0.99, &wait))
        fprintf(to, "99 times in 100 what the client sent was read within %.3f ms of its arrival\n", wait.at_s * 1e3);
}

void bench_report_table(const struct bench_report *report, FILE *to) {
    const struct load_result *r = report->result;
    struct load_model_stats *all = total_make(report);
    if (!all)
        return;
    int width = 5;
    for (uint32_t i = 0; i < report->models_count; i++)
        if ((int)strlen(report->models[i].name) > width)
            width = (int)strlen(report->models[i].name);
    if (report->closed)
        fprintf(to, "%s: %u requests outstanding", report->url, report->closed);
    else
        fprintf(to, "%s: %s arrivals", report->url, report->arrivals);
    fprintf(to, ", %.4g s after %.4g s of warm-up, seed %llu, %s idle connection first%s\n\n", r->seconds,
            report->warmup_s, (unsigned long long)report->seed, report->reuse, r->interrupted ? ", interrupted" : "");
    fprintf(to, "%-*s %8s %9s %9s %7s %6s %7s %6s %8s %8s %8s %8s %6s\n", width, "", "SLO", "offered", "good", "good",
            "late", "refused", "error", "p50", "p99", "p99.9", "max", "batch");
    fprintf(to, "%-*s %8s %9s %9s %7s %6s %7s %6s %8s %8s %8s %8s %6s\n", width, "model", "ms", "/s", "/s", "%", "%",
            "%", "%", "ms", "ms", "ms", "ms", "mean");
    for (uint32_t i = 0; i < report->models_count; i++)
        table_row(to, r, report->models[i].name, width, report->models[i].slo_ns, &r->models[i],
                  &report->server->figures[i]);
    if (report->models_count > 1)
        table_row(to, r, "all", width, 0, all, &report->server->figures[report->models_count]);
    fputc('\n', to);
    for (uint32_t i = 0; i < report->models_count; i++) {
        if (r->models[i].first_error[0])
            fprintf(to, "first error of %s: %s\n", report->models[i].name, r->models[i].first_error);
        if (r->models[i].first_refusal[0])
            fprintf(to, "first refusal of %s: %s\n", report->models[i].name, r->models[i].first_refusal);
    }
    if (all->refused)
        fprintf(to, "refusals came after p50 %.3f, p99 %.3f ms\n", (double)histogram_quantile(&all->refusal, 0.5) / 1e6,
                (double)histogram_quantile(&all->refusal, 0.99) / 1e6);
    fprintf(to,
            "sent p50 %.3f, p99 %.3f, max %.3f ms after due; at most %u connections, %.2f %% of the requests waited "
            "for one\n",
            (double)latency_quantile_ns(&r->send_lag, 0.5) / 1e6, (double)latency_quantile_ns(&r->send_lag, 0.99) / 1e6,
            (double)r->send_lag.max_ns / 1e6, r->connections, 100 * share(r->waited, all->offered));
    table_server(report, all, to);
    if (report->searched)
        fprintf(to, "goodput: %.6g requests/s, with at least 99 %% of every model's good\n", report->goodput_rps);
    free(all);
}

/* ---- JSON ---- */

static json_t *stats_json(const struct load_result *result, const struct load_model_stats *m,
                          const struct server_figures *server) {
    json_t *json = json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:o}", "offered_rps", rate(m->offered, result),
                             "good_rps", rate(m->good, result), "bad_rate", share(m->offered - m->good, m->offered),
                             "late_rate", share(m->late, m->offered), "refused_rate", share(m->refused, m->offered),
                             "error_rate", share(m->errors, m->offered), "unanswered_rate",
                             share(m->unanswered, m->offered), "requests", (json_int_t)m->offered, "latency_ms",
                             json_pack("{s:f,s:f,s:f,s:f}", "p50", quantile_ms(m, 0.5), "p99", quantile_ms(m, 0.99),
                                       "p999", quantile_ms(m, 0.999), "max", (double)m->latency.max_ns / 1e6));
    if (m->refused)
        json_object_set_new(json, "refusal_ms",
                            json_pack("{s:f,s:f}", "p50", (double)histogram_quantile(&m->refusal, 0.5) / 1e6, "p99",
                                      (double)histogram_quantile(&m->refusal, 0.99) / 1e6));
    if (server->batches > 0)
        json_object_set_new(json, "batch_mean", json_real(server->items / server->batches));
    if (m->first_error[0]) /* not UTF-8: left out */
        json_object_set_new(json, "first_error", json_string(m->first_error));
    return json;
}

/* Adds member "server", if the server told anything. */
static void agreement_set(json_t *json, const struct bench_report *report, uint32_t model,
                          const struct load_model_stats *client) {
    struct bench_agreement a = agreement_of(report, model, client);
    if (!a.told)
        return;
    json_t *server = json_pack("{s:I,s:f,s:{s:I,s:f,s:f,s:f},s:b}", "answered",
                               (json_int_t)report->server->figures[model].answered, "mean_ms", a.server_mean_ms,
                               "client", "answered", (json_int_t)client->wire.count, "mean_ms", a.client_mean_ms,
                               "p50_ms", a.client_p50_ms, "p99_ms", a.client_p99_ms, "same_requests", a.same_requests);
    if (a.has_quantiles) {
        json_object_set_new(server, "p50_ms", json_real(a.server_p50_ms));
        json_object_set_new(server, "p99_ms", json_real(a.server_p99_ms));
        json_object_set_new(server, "p99_differs", json_boolean(a.p99_differs));
    }
    if (a.has_in_time) {
        json_object_set_new(server, "in_time_rate", json_real(a.server_in_time));
        json_object_set_new(json_object_get(server, "client"), "in_time_rate", json_real(a.client_in_time));
        json_object_set_new(server, "unseen_late_rate", json_real(a.unseen_late));
    }
    json_object_set_new(json, "server", server);
}

int bench_report_json(const struct bench_report *report, FILE *to) {
    const struct load_result *r = report->result;
    struct load_model_stats *all = total_make(report);
    if (!all)
        return -ENOMEM;
    json_t *json = stats_json(r, all, &report->server->figures[report->models_count]);
    agreement_set(json, report, report->models_count, all);
    free(all);
    struct server_quantile wait;
    if (server_figures_quantile(&report->server->wait, 0.99, &wait))
        json_object_set_new(json, "server_wait_p99_ms", json_real(wait.at_s * 1e3));
    json_object_set_new(json, "goodput_rps", report->searched ? json_real(report->goodput_rps) : json_null());
    json_t *models = json_array();
    for (uint32_t i = 0; i < report->models_count; i++) {
        json_t *model = stats_json(report->result, &report->result->models[i], &report->server->figures[i]);
        agreement_set(model, report, i, &report->result->models[i]);
        json_object_set_new(model, "name", json_string(report->models[i].name));
        json_object_set_new(model, "slo_ms",
                            report->models[i].slo_ns ? json_real((double)report->models[i].slo_ns / 1e6) : json_null());
        json_array_append_new(models, model);
    }
    json_object_set_new(json, "models", models);
    json_t *trials = report->searched ? json_array() : NULL;
    for (uint32_t i = 0; trials && i < report->trials_count; i++) {
        const struct bench_trial *t = &report->trials[i];
        json_array_append_new(trials,
                              json_pack("{s:f,s:f,s:f,s:f,s:f,s:b,s:b}", "rate_rps", t->rate_rps, "offered_rps",
                                        t->offered_rps, "good_rps", t->good_rps, "bad_rate", t->bad_rate, "p99_ms",
                                        (double)t->p99_ns / 1e6, "held", t->held, "gave_up", t->gave_up));
    }
    if (trials)
        json_object_set_new(json, "trials", trials);
    json_object_set_new(json, "url", json_string(report->url));
    if (report->closed)
        json_object_set_new(json, "closed", json_integer(report->closed));
    else
        json_object_set_new(json, "arrivals", json_string(report->arrivals));
    json_object_set_new(json, "seconds", json_real(r->seconds));
    json_object_set_new(json, "warmup_seconds", json_real(report->warmup_s));
    json_object_set_new(json, "seed", json_integer((json_int_t)report->seed));
    json_object_set_new(json, "interrupted", json_boolean(r->interrupted));
    json_object_set_new(json, "reuse", json_string(report->reuse));
    json_object_set_new(json, "connections", json_integer(r->connections));
    json_object_set_new(json, "send_lag_ms",
                        json_pack("{s:f,s:f,s:f}", "p50", (double)latency_quantile_ns(&r->send_lag, 0.5) / 1e6, "p99",
                                  (double)latency_quantile_ns(&r->send_lag, 0.99) / 1e6, "max",
                                  (double)r->send_lag.max_ns / 1e6));
    int rc = json ? json_dumpf(json, to, JSON_INDENT(2) | JSON_REAL_PRECISION(10)) : -1;
    json_decref(json);
    fputc('\n', to);
    return rc || fflush(to) ? -EIO : 0;
}

/* ---- plot ---- */

static double plot_quantile_ms(const void *model, double q) {
    return quantile_ms(model, q);
}

static void plot_latency(const struct bench_report *report, FILE *to) {
    struct gnuplot_curve curves[GNUPLOT_MODELS_MAX + 1];
    struct load_model_stats *all = report->models_count > 1 ? total_make(report) : NULL;
    uint32_t count = 0;
    for (; count < report->models_count && count < GNUPLOT_MODELS_MAX; count++) {
        const struct load_model_stats *m = &report->result->models[count];
        curves[count] = (struct gnuplot_curve){.name = report->models[count].name,
                                               .answered = share(m->latency.count, m->offered),
                                               .slo_ms = (double)report->models[count].slo_ns / 1e6,
                                               .times = m};
    }
    if (all)
        curves[count++] = (struct gnuplot_curve){
            .name = "all models", .answered = share(all->latency.count, all->offered), .times = all, .all = true};
    gnuplot_latencies(to, report->url, "ms from due to answered", curves, count, plot_quantile_ms);
    free(all);
}

static int trial_order(const void *a, const void *b) {
    double x = ((const struct bench_trial *)a)->offered_rps, y = ((const struct bench_trial *)b)->offered_rps;
    return x < y ? -1 : x > y;
}

static void plot_search(const struct bench_report *report, FILE *to) {
    struct bench_trial *sorted = calloc(report->trials_count + 1, sizeof(*sorted));
    if (!sorted)
        return;
    memcpy(sorted, report->trials, report->trials_count * sizeof(*sorted));
    qsort(sorted, report->trials_count, sizeof(*sorted), trial_order);
    fputs("set title noenhanced ", to);
    gnuplot_quote(to, report->url);
    fputs("\n$trials << EOD\n", to);
    for (uint32_t i = 0; i < report->trials_count; i++)
        fprintf(to, "%g %g %g\n", sorted[i].offered_rps, sorted[i].good_rps, 100 * sorted[i].bad_rate);
    fputs("EOD\n", to);
    free(sorted);
    fputs("set xlabel 'offered requests/s'\nset ylabel 'good requests/s'\nset y2label 'bad, %'\nset y2tics\n"
          "set ytics nomirror\nset yrange [0:*]\nset y2range [0:*]\nset key top left\n",
          to);
    fprintf(to, "set arrow from %g, graph 0 to %g, graph 1 nohead dashtype 2 linecolor rgb '#999999'\n",
            report->goodput_rps, report->goodput_rps);
    fputs("plot $trials using 1:1 with lines linecolor rgb '#bbbbbb' title 'all good', "
          "$trials using 1:2 with linespoints linewidth 2 pointtype 7 title 'good', "
          "$trials using 1:3 axes x1y2 with points pointtype 2 title 'bad, % (right)'\n",
          to);
}

int bench_plot(const struct bench_report *report, const char *path, struct sy_error *err) {
    FILE *to = gnuplot_open(path, 900, 560, err);
    if (!to)
        return -EIO;
    if (report->searched)
        plot_search(report, to);
    else
        plot_latency(report, to);
    return gnuplot_close(to, path, err);
}
