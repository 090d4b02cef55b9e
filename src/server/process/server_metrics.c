/* server_metrics.c - the metrics page: passes the counters to the writers of its parts (stats/). Disturbs no thread. */
#include <stdio.h>
#include <stdlib.h>

#include "cluster/roles/scheduler_link.h"
#include "core/system/clock.h"
#include "front/bulk/bulk.h"
#include "front/net/metric_text.h"
#include "server/process/server_state.h"
#include "server/stats/backend_metrics.h"
#include "server/stats/infer_metrics.h"
#include "server/stats/scheduler_metrics.h"
#include "server/stats/triton_metrics.h"

static void frontends_collect(const struct server *s, struct frontend_counters *frontends) {
    for (uint32_t f = 0; f < s->frontends.count; f++)
        frontends[f] = frontend_counters(s->frontends.list[f]);
}

static void render_backend(const struct server *s, struct text *out) {
    uint32_t count = server_accelerator_count(s), serving = 0;
    struct accelerator_row *rows = count ? calloc(count, sizeof(*rows)) : NULL;
    out->failed |= count && !rows;
    if (!rows)
        return;
    for (uint32_t a = 0; a < count; a++) {
        struct server_accelerator of = server_accelerator(s, a);
        rows[a] = (struct accelerator_row){.accelerator = a,
                                           .counters = of.counters,
                                           .state = of.state,
                                           .memory = s->config.memory_bytes ? of.timeline->head : NULL};
        snprintf(rows[a].type, sizeof(rows[a].type), "%s", of.type);
        serving += rows[a].state == ACCELERATOR_SERVING;
    }
    backend_metrics_render(rows, count, serving, out);
    free(rows);
}

/* The models of a cluster's scheduler as the link has last told, which the caller frees. NULL: no memory. */
static struct shown_model *models_linked(const struct scheduling *s, uint32_t *count) {
    struct link_model *linked = link_report_models(scheduler_link_report(s->link), count);
    struct shown_model *models = linked ? malloc((*count + 1) * sizeof(*models)) : NULL;
    for (uint32_t i = 0; models && i < *count; i++)
        models[i] = (struct shown_model){
            .place = linked[i].place,
            .host = linked[i].place,
            .rank_thread = SUBCLUSTER_NONE,
            .ready = !linked[i].stranded,
            .slo_ns = linked[i].slo_ns,
            .labels = metric_model_of(linked[i].name, linked[i].version),
        };
    free(linked);
    return models;
}

/* What a page shows of models, copied so that it is written while models come and go. */
struct page_models {
    struct shown_model *listed;          /* [count] */
    struct model_statistics *statistics; /* [count] where there are frontends */
    struct shown_step *steps;            /* [step_count] those of ensembles, where there are frontends */
    struct shown_model *linked;          /* those of a cluster's scheduler; NULL: it schedules what is listed */
    struct shown_model *scheduled;       /* [scheduled_count] */
    uint32_t count, step_count, scheduled_count;
};

static void models_free(struct page_models *m) {
    free(m->listed);
    free(m->statistics);
    free(m->steps);
    free(m->linked);
}

/* False: no memory. `scheduler`: NULL if the process does not schedule. */
static bool models_copy(struct server *s, const struct scheduler_counters *scheduler,
                        const struct frontend_counters *frontends, struct page_models *to) {
    const struct scheduling *by = &server_scheduling(s)->scheduling;
    bool listens = server_listens(&s->config);
    *to = (struct page_models){0};
    const struct model_index *listed = model_list_lock(&s->models); /* whoever loads a model waits for it */
    to->count = to->scheduled_count = listed->count;
    to->scheduled = to->listed = shown_models_of(listed);
    if (scheduler && by->link)
        to->scheduled = to->linked = models_linked(by, &to->scheduled_count);
    if (scheduler && to->scheduled)
        scheduler_metrics_locate(scheduler, to->scheduled, to->scheduled_count);
    if (listens)
        to->statistics = malloc((to->count + 1) * sizeof(*to->statistics));
    for (uint32_t i = 0; to->statistics && i < to->count; i++)
        server_statistics_read(&s->statistics, listed->listed[i], &to->statistics[i]);
    if (listens)
        to->steps = infer_metrics_steps(frontends, s->frontends.count, listed, &to->step_count);
    model_list_unlock(&s->models);
    return to->listed && to->scheduled && ((to->statistics && to->steps) || !listens);
}

/* How many accelerators there should be of each type, where a central policy chooses pools. */
static void pool_render(const struct server *by, struct text *out) {
    bool any = false;
    for (uint32_t t = 0; by->scheduling.central_thread && t < by->config.type_count; t++) {
        int32_t wanted = central_thread_type_wanted(by->scheduling.central_thread, t);
        if (wanted < 0)
            continue;
        if (!any)
            metric_heading(out, "symphony_type_accelerators_wanted", "gauge",
                           "How many of each type there should be, by the sizes of the last queries.");
        any = true;
        text_printf(out, "symphony_type_accelerators_wanted{type=\"%s\"} %d\n", by->config.accelerators[t].type,
                    (int)wanted);
    }
}

void server_render_metrics(void *server, struct text *out) {
    struct server *s = server, *by = server_scheduling(s);
    bool schedules = server_schedules(&by->config);
    uint32_t frontend_count = s->frontends.count, threads = schedules ? by->wiring.model_threads : 0;
    struct frontend_counters frontends[frontend_count + 1];
    const struct thread_rings *rings[threads + 1];
    const struct model_thread_times *times[threads + 1];
    struct central_moves moves;
    bool binds = by->scheduling.central_thread && central_thread_moves(by->scheduling.central_thread, &moves);
    const struct scheduler_counters scheduler = {
        .thread = by->scheduling.central_thread ? "central" : "model",
        .rings = rings,
        .times = by->scheduling.central_thread ? NULL : times,
        .threads = threads,
        .thread_of_served = by->wiring.thread_of_served,
        .ranks = (const struct rank_thread *const *)by->scheduling.rank_threads,
        .rank_threads = by->scheduling.central_thread ? 0 : by->wiring.rank_threads,
        .wiring = &by->wiring,
        .loads = server_orders_loads(&by->config),
        .moves = binds ? &moves : NULL,
        .needed = by->scheduling.central_thread ? central_thread_accelerators_needed(by->scheduling.central_thread) : 0,
    };
    frontends_collect(s, frontends);
    for (uint32_t t = 0; t < threads; t++) {
        rings[t] = scheduling_rings(&by->scheduling, t);
        times[t] = by->scheduling.central_thread ? NULL : model_thread_times(by->scheduling.model_threads[t]);
    }
    struct page_models models;
    if (!models_copy(s, schedules ? &scheduler : NULL, frontends, &models)) {
        models_free(&models);
        out->failed = true;
        return;
    }
    metric_heading(out, "symphony_info", "gauge", "The program's version.");
    text_printf(out, "symphony_info{version=\"%s\",policy=\"%s\"} 1\n", SYMPHONY_VERSION, s->config.policy->name);
    metric_number(out, "symphony_uptime_seconds", "gauge", "Since the server started.",
                  (double)(clock_now_ns() - s->started_ns) / 1e9);
    otlp_render(s->otlp, out);
    metric_number(out, "symphony_ready", "gauge", "Whether the server is ready.",
                  atomic_load_explicit(&s->readiness.serving, memory_order_relaxed)); /* a lone flag */
    metric_number(out, "symphony_models_awaited", "gauge",
                  "Models of the start that are not prepared yet: the server is not ready before they are.",
                  atomic_load_explicit(&s->readiness.start.awaited, memory_order_relaxed)); /* gauges, also the next */
    metric_number(out, "symphony_models_awaited_seconds", "gauge",
                  "Time that this will take, by what others took; 0: not known.",
                  atomic_load_explicit(&s->readiness.start.left_s, memory_order_relaxed));
    if (schedules)
        scheduler_metrics_render_models(&scheduler, models.scheduled, models.scheduled_count, out);
    render_backend(s, out);
    if (schedules) {
        scheduler_metrics_render_ranks(&scheduler, out);
        scheduler_metrics_render_advice(
            advice_get(&by->advice.wanted), by->advice.wanted_of, scheduling_subclusters(&by->scheduling),
            atomic_load_explicit(&by->advice.bad_rate, memory_order_relaxed), out); /* a gauge */
        pool_render(by, out);
        server_rehearsal_render(by->rehearsal, out);
    }
    metric_margin_heading(out);
    if (schedules)
        scheduler_metrics_render_margins(&scheduler, out);
    frontend_metrics_render_margins(frontends, frontend_count, out);
    if (schedules)
        scheduler_metrics_render_decisions(&scheduler, out);
    if (server_listens(&s->config)) {
        infer_metrics_render(frontends, frontend_count, models.listed, models.count,
                             slab_use(bulk_slab(s->frontends.config.bulk)), out);
        infer_metrics_render_steps(models.steps, models.step_count, out);
        frontend_metrics_render_waits(frontends, frontend_count, out);
        triton_metrics_render(models.statistics, models.listed, models.count, schedules, out);
    }
    models_free(&models);
    frontend_metrics_render_protocols(frontends, frontend_count, out);
    if (s->config.cluster)
        server_cluster_render(s, out);
}

void server_render_fine_metrics(void *server, struct text *out) {
    struct server *s = server;
    struct frontend_counters frontends[s->frontends.count + 1];
    const struct model_index *listed = model_list_lock(&s->models);
    uint32_t count = listed->count;
    struct shown_model *models = shown_models_of(listed);
    model_list_unlock(&s->models);

    frontends_collect(s, frontends);
    if (models)
        infer_metrics_render_fine(frontends, s->frontends.count, models, count, out);
    out->failed |= !models;
    free(models);
}

struct http_source *server_render_recording(void *server, double seconds, int *rc, struct sy_error *err) {
    return server_recording_open(&server_scheduling(server)->recordings, seconds, rc, err);
}
