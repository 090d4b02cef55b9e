/* server_metrics.c - the metrics page: passes the counters to the writers of its parts (stats/). Disturbs no thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link.h"
#include "core/data/running.h"
#include "core/system/clock.h"
#include "front/bulk/bulk.h"
#include "front/net/metric_text.h"
#include "server/process/server_state.h"
#include "server/process/server_statistics.h"
#include "server/stats/backend_metrics.h"
#include "server/stats/infer_metrics.h"
#include "server/stats/scheduler_metrics.h"
#include "server/stats/triton_metrics.h"

static void frontends_collect(const struct server *s, struct frontend_counters *frontends) {
    for (uint32_t f = 0; f < server_frontends(s); f++)
        frontends[f] = frontend_counters(s->frontends[f]);
}

static void render_server(const struct server *s, struct text *out) {
    metric_heading(out, "symphony_info", "gauge", "The program's version.");
    text_printf(out, "symphony_info{version=\"%s\",policy=\"%s\"} 1\n", SYMPHONY_VERSION, s->config.policy->name);
    metric_heading(out, "symphony_uptime_seconds", "gauge", "Since the server started.");
    text_printf(out, "symphony_uptime_seconds %.3f\n", (double)(clock_now_ns() - s->started_ns) / 1e9);
}

static void own_rows_fill(const struct server *s, struct accelerator_row *rows) {
    for (uint32_t a = 0; a < s->wiring.accelerators; a++) {
        rows[a] = (struct accelerator_row){
            .accelerator = a,
            .counters = executor_counters(s->executors[s->wiring.executor_of[a]], a),
            .state = wiring_accelerator_state(&s->wiring, a),
        };
        snprintf(rows[a].type, sizeof(rows[a].type), "%s", s->config.accelerators[s->accelerator_type[a]].type);
    }
}

/* Rows of the processes that this one has started (`serve --isolate`). */
static void isolated_rows_fill(const struct server *s, struct accelerator_row *rows) {
    const struct server_cluster *c = s->config.cluster;
    for (uint32_t a = 0; a < c->running_count; a++) {
        rows[a] = (struct accelerator_row){
            .accelerator = a,
            .counters = &c->running[a]->counters,
            .state = server_isolated_state(s, a),
        };
        snprintf(rows[a].type, sizeof(rows[a].type), "%s", c->running_types[a]);
    }
}

static void render_backend(struct server *s, struct text *out) {
    const struct server_cluster *c = s->config.cluster;
    bool own = server_runs(s);
    uint32_t count = own ? s->wiring.accelerators : c ? c->running_count : 0, serving = 0;
    struct accelerator_row *rows = count ? calloc(count, sizeof(*rows)) : NULL;
    if (!rows)
        return;
    if (own)
        own_rows_fill(s, rows);
    else
        isolated_rows_fill(s, rows);
    for (uint32_t a = 0; a < count; a++)
        serving += rows[a].state == ACCELERATOR_SERVING;
    backend_metrics_render(rows, count, serving, out);
    free(rows);
}

static void listed_models_fill(const struct model_index *listed, struct scheduled_model *models) {
    for (uint32_t i = 0; i < listed->count; i++) {
        const struct served_model *m = &listed->models[listed->listed[i]];
        models[i] = (struct scheduled_model){
            .place = listed->listed[i],
            .ready = served_model_state(m) == MODEL_READY,
            .slo_ns = m->best_effort ? 0 : m->slo_ns,
            .labels = metric_model(m),
        };
    }
}

static void linked_models_fill(const struct link_model *linked, uint32_t count, struct scheduled_model *models) {
    for (uint32_t i = 0; i < count; i++)
        models[i] = (struct scheduled_model){
            .place = linked[i].place,
            .ready = !linked[i].stranded,
            .slo_ns = linked[i].slo_ns,
            .labels = metric_model_of(linked[i].name, linked[i].version),
        };
}

/* The models that `s` schedules, which the caller frees; those of a cluster as the link has last told. NULL: no
 * memory. */
static struct scheduled_model *models_scheduled(struct server *s, const struct model_index *listed, uint32_t *count) {
    struct link_model *linked = NULL;
    *count = listed->count;
    if (s->scheduler_link)
        linked = link_report_models(scheduler_link_report(s->scheduler_link), count);
    struct scheduled_model *models = calloc(*count + 1, sizeof(*models));
    *count = models ? *count : 0;
    if (linked)
        linked_models_fill(linked, *count, models);
    else if (models)
        listed_models_fill(listed, models);
    free(linked);
    return models;
}

static void render_schedule(struct server *s, const struct scheduler_counters *scheduler, struct text *out) {
    scheduler_metrics_render_ranks(scheduler, out);
    scheduler_metrics_render_advice(advice_get(&s->advice), s->advice_of, server_parts(s),
                                    atomic_load_explicit(&s->bad_rate, memory_order_relaxed), out); /* a gauge */
    server_rehearsal_render(s, out);
}

void server_render_metrics(void *server, struct text *out) {
    struct server *s = server, *by = server_scheduling(s);
    bool schedules = server_schedules(by);
    const struct model_index *listed = server_models_lock(s);
    uint32_t frontend_count = server_frontends(s), threads = schedules ? by->wiring.model_threads : 0;
    struct frontend_counters frontends[frontend_count + 1];
    const struct thread_rings *rings[threads + 1];
    const struct model_thread_times *times[threads + 1];
    struct central_moves moves;
    bool binds = by->central_thread && central_thread_moves(by->central_thread, &moves);
    const struct scheduler_counters scheduler = {
        .thread = by->central_thread ? "central" : "model",
        .rings = rings,
        .times = by->central_thread ? NULL : times,
        .threads = threads,
        .thread_of_served = by->wiring.thread_of_served,
        .ranks = (const struct rank_thread *const *)by->rank_threads,
        .rank_threads = by->central_thread ? 0 : by->wiring.rank_threads,
        .wiring = &by->wiring,
        .errors = by->central_thread ? central_thread_errors(by->central_thread) : NULL,
        .moves = binds ? &moves : NULL,
        .needed = by->central_thread ? central_thread_accelerators_needed(by->central_thread) : 0,
    };
    const struct statistics_source statistics = {server_statistics, server_batch_statistics, s};

    frontends_collect(s, frontends);
    for (uint32_t t = 0; t < threads; t++) {
        rings[t] = server_rings(by, t);
        times[t] = by->central_thread ? NULL : model_thread_times(by->model_threads[t]);
    }
    render_server(s, out);
    bool whole = server_role(s) == LINK_NONE; /* a process of a cluster shows only its own part */
    if (schedules) {
        uint32_t count;
        struct scheduled_model *models = models_scheduled(by, listed, &count);
        scheduler_metrics_render_models(&scheduler, models, count, out);
        if (whole) /* in a cluster frontends show more reasons */
            scheduler_metrics_render_refused(&scheduler, models, count, out);
        free(models);
    }
    render_backend(s, out);
    if (schedules)
        render_schedule(by, &scheduler, out);
    metric_margin_heading(out);
    if (schedules)
        scheduler_metrics_render_margins(&scheduler, out);
    frontend_metrics_render_margins(frontends, frontend_count, out);
    if (schedules)
        scheduler_metrics_render_decisions(&scheduler, out);
    if (server_listens(s)) {
        infer_metrics_render(frontends, frontend_count, listed, slab_use(bulk_slab(s->bulk)), out);
        if (!whole)
            infer_metrics_render_refused(frontends, frontend_count, listed, out);
        frontend_metrics_render_waits(frontends, frontend_count, out);
    }
    if (server_listens(s))
        triton_metrics_render(&statistics, schedules, listed, out);
    server_models_unlock(s);
    frontend_metrics_render_protocols(frontends, frontend_count, out);
    if (s->config.cluster)
        server_cluster_render(s, out);
}

void server_render_fine_metrics(void *server, struct text *out) {
    struct server *s = server;
    const struct model_index *listed = server_models_lock(s);
    struct frontend_counters frontends[server_frontends(s) + 1];

    frontends_collect(s, frontends);
    infer_metrics_render_fine(frontends, server_frontends(s), listed, out);
    server_models_unlock(s);
}
