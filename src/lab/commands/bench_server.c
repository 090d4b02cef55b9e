/* bench_server.c - reads the server's own figures, and compares them with the client's. */
#include "lab/commands/bench_server.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define WAIT "symphony_frontend_wait_seconds"
/* The client may have an answer before the server has counted it, and the server counts answers that came too late for
 * the client. */
#define COUNT_TOLERANCE       0.01
#define COUNT_TOLERANCE_LEAST 16

static void reading_clear(struct bench_server_reading *r, uint32_t models_count) {
    for (uint32_t i = 0; r->figures && i < models_count; i++)
        server_figures_clear(&r->figures[i]);
    server_figures_clear(&r->wait);
}

static void reading_free(struct bench_server_reading *r, uint32_t models_count) {
    reading_clear(r, models_count);
    free(r->figures);
}

int bench_server_init(struct bench_server *s, const struct server *server, const struct server *metrics,
                      const char *const *names, uint32_t models_count) {
    *s = (struct bench_server){.server = server, .metrics = metrics, .names = names, .models_count = models_count};
    s->before.figures = calloc(models_count, sizeof(*s->figures));
    s->after.figures = calloc(models_count, sizeof(*s->figures));
    s->figures = calloc(models_count + 1, sizeof(*s->figures));
    return s->before.figures && s->after.figures && s->figures ? 0 : -ENOMEM;
}

void bench_server_free(struct bench_server *s) {
    reading_free(&s->before, s->models_count);
    reading_free(&s->after, s->models_count);
    for (uint32_t i = 0; s->figures && i <= s->models_count; i++)
        server_figures_clear(&s->figures[i]);
    server_figures_clear(&s->wait);
    free(s->figures);
    *s = (struct bench_server){0};
}

/* The body of a 200, to be freed; NULL otherwise. */
static char *page_fetch(const struct server *server, const char *path, size_t *length) {
    struct answer answer;
    if (!server || fetch(server, "GET", path, BENCH_SERVER_TIMEOUT_NS, &answer, NULL))
        return NULL;
    *length = answer.length;
    if (answer.status == 200)
        return answer.body;
    free(answer.body);
    return NULL;
}

static void reading_take(struct bench_server *s, struct bench_server_reading *r) {
    size_t length;
    reading_clear(r, s->models_count);
    char *page = page_fetch(s->metrics, "", &length);
    char *fine = page && !s->lacks_fine ? page_fetch(s->metrics, "/fine", &length) : NULL;
    bool latency = fine && server_figures_latency(r->figures, fine, s->names, s->models_count);
    s->lacks_fine |= page && !latency;
    if (page) {
        server_figures_batches(r->figures, page, s->names, s->models_count);
        latency = latency || server_figures_latency(r->figures, page, s->names, s->models_count);
        server_figures_in_time(r->figures, page, s->names, s->models_count);
        server_figures_histogram(&r->wait, page, WAIT, "protocol", "http");
    }
    char *stats = latency || s->lacks_stats ? NULL : page_fetch(s->server, "/v2/models/stats", &length);
    if (!latency && !s->lacks_stats)
        s->lacks_stats = !stats || !server_figures_stats(r->figures, stats, length, s->names, s->models_count);
    free(page);
    free(fine);
    free(stats);
}

void bench_server_begin(struct bench_server *s) {
    reading_take(s, &s->before);
}

/* Moves the difference of both readings into `into`. */
static void difference_take(struct server_figures *into, struct server_figures *later,
                            const struct server_figures *earlier) {
    server_figures_clear(into);
    server_figures_subtract(later, earlier);
    *into = *later;
    *later = (struct server_figures){0};
}

void bench_server_end(struct bench_server *s) {
    struct server_figures *all = &s->figures[s->models_count];
    reading_take(s, &s->after);
    server_figures_clear(all);
    for (uint32_t i = 0; i < s->models_count; i++) {
        difference_take(&s->figures[i], &s->after.figures[i], &s->before.figures[i]);
        server_figures_add(all, &s->figures[i]);
    }
    difference_take(&s->wait, &s->after.wait, &s->before.wait);
}

struct bench_agreement bench_server_compare(const struct bench_server *s, uint32_t model,
                                            const struct load_model_stats *client, bool same_slo) {
    const struct server_figures *f = &s->figures[model];
    const struct latency *wire = &client->wire;
    struct bench_agreement a = {.told = f->answered > 0 && wire->count > 0};
    struct server_quantile p50, p99;
    if (!a.told)
        return a;
    double count = (double)wire->count;
    a.same_requests = fabs(f->answered - count) <= fmax(COUNT_TOLERANCE * count, COUNT_TOLERANCE_LEAST);
    a.server_mean_ms = f->sum_s / f->answered * 1e3;
    a.client_mean_ms = wire->sum_ns / count / 1e6;
    a.client_p50_ms = (double)latency_quantile_ns(wire, 0.5) / 1e6;
    a.client_p99_ms = (double)latency_quantile_ns(wire, 0.99) / 1e6;
    a.has_quantiles = server_figures_quantile(f, 0.5, &p50) && server_figures_quantile(f, 0.99, &p99);
    if (a.has_quantiles) {
        a.server_p50_ms = p50.at_s * 1e3;
        a.server_p99_ms = p99.at_s * 1e3;
        a.p99_differs = a.same_requests && (a.client_p99_ms > p99.high_s * 1e3 + BENCH_P99_TOLERANCE_MS ||
                                            a.client_p99_ms < p99.low_s * 1e3 - BENCH_P99_TOLERANCE_MS);
    }
    a.has_in_time = f->tells_in_time && same_slo;
    if (a.has_in_time) {
        a.server_in_time = fmin(f->in_time / f->answered, 1);
        a.client_in_time = (double)client->wire_in_time / count;
        a.unseen_late = a.same_requests ? fmax(a.server_in_time - a.client_in_time, 0) : 0;
    }
    return a;
}
