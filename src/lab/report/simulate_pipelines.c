/* simulate_pipelines.c - pipelines in the results of `symphony simulate`. */
#include "lab/report/simulate_pipelines.h"

#include <string.h>

/* Queries of a pipeline, or requests of a stage. */
struct row {
    const char *name;
    int64_t slo_ns; /* SLO of the pipeline, or the stage's part of the SLO */
    uint64_t count[SIM_OUTCOMES], offered;
    const struct sim_times *latency;
};

static struct row pipeline_row(const struct simulation *s, uint32_t p) {
    const struct sim_pipeline_result *r = &s->result.pipelines[p];
    return (struct row){
        .name = s->scenario.pipelines[p].name,
        .slo_ns = s->scenario.pipelines[p].graph.slo_ns,
        .count =
            {[SIM_GOOD] = r->good, [SIM_DROPPED] = r->dropped, [SIM_LATE] = r->late, [SIM_CANCELLED] = r->cancelled},
        .offered = r->offered,
        .latency = &r->latency,
    };
}

static struct row stage_row(const struct simulation *s, uint32_t p, uint32_t v) {
    const struct sim_stage_result *r = &s->result.pipelines[p].stages[v];
    struct row row = {
        .name = s->scenario.pipelines[p].stage_names[v],
        .slo_ns = s->scenario.pipelines[p].graph.stages[v].part_ns,
        .latency = &r->latency,
    };
    memcpy(row.count, r->count, sizeof(row.count));
    for (uint32_t i = 0; i < SIM_OUTCOMES; i++)
        row.offered += r->count[i];
    return row;
}

static double per_second(const struct simulation *s, uint64_t count) {
    return (double)count / s->cluster.config.seconds;
}

static double share(const struct row *row, enum sim_outcome outcome) {
    return row->offered ? (double)row->count[outcome] / (double)row->offered : 0;
}

static double quantile_ms(const struct row *row, double q) {
    return (double)sim_times_quantile_ns(row->latency, q) / NS_PER_MS;
}

static double max_ms(const struct row *row) {
    return (double)row->latency->max_ns / NS_PER_MS;
}

/* ---- table ---- */

static void row_put(struct text *to, const struct simulation *s, const struct row *row, const char *indent, int width) {
    text_printf(to, "%s%-*s %8.4g %9.1f %9.1f %7.2f %7.2f %7.2f %7.2f %8.3f %8.3f %8.3f %8.3f\n", indent,
                width - (int)strlen(indent), row->name, (double)row->slo_ns / NS_PER_MS, per_second(s, row->offered),
                per_second(s, row->count[SIM_GOOD]), 100 * share(row, SIM_GOOD), 100 * share(row, SIM_LATE),
                100 * share(row, SIM_DROPPED), 100 * share(row, SIM_CANCELLED), quantile_ms(row, 0.5),
                quantile_ms(row, 0.99), quantile_ms(row, 0.999), max_ms(row));
}

static int width_of(const struct scenario *s) {
    size_t width = strlen("pipeline");
    for (uint32_t p = 0; p < s->pipeline_count; p++) {
        width = strlen(s->pipelines[p].name) > width ? strlen(s->pipelines[p].name) : width;
        for (uint32_t v = 0; v < s->pipelines[p].graph.stage_count; v++)
            if (strlen(s->pipelines[p].stage_names[v]) + 2 > width)
                width = strlen(s->pipelines[p].stage_names[v]) + 2;
    }
    return (int)width;
}

void simulate_pipelines_table(const struct simulation *s, struct text *to) {
    int width = width_of(&s->scenario);
    if (!s->scenario.pipeline_count)
        return;
    text_printf(to, "\n%-*s %8s %9s %9s %7s %7s %7s %7s %8s %8s %8s %8s\n", width, "", "SLO", "offered", "good", "good",
                "late", "dropped", "taken", "p50", "p99", "p99.9", "max");
    text_printf(to, "%-*s %8s %9s %9s %7s %7s %7s %7s %8s %8s %8s %8s\n", width, "pipeline", "ms", "/s", "/s", "%", "%",
                "%", "back %", "ms", "ms", "ms", "ms");
    for (uint32_t p = 0; p < s->scenario.pipeline_count; p++) {
        struct row row = pipeline_row(s, p);
        row_put(to, s, &row, "", width);
        for (uint32_t v = 0; v < s->scenario.pipelines[p].graph.stage_count; v++) {
            row = stage_row(s, p, v);
            row_put(to, s, &row, "  ", width);
        }
    }
}

/* ---- JSON ---- */

static json_t *row_json(const struct simulation *s, const struct row *row) {
    double bad = share(row, SIM_DROPPED) + share(row, SIM_LATE);
    json_t *json = json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:{s:f,s:f,s:f,s:f}}", "name", row->name, "slo_ms",
                             (double)row->slo_ns / NS_PER_MS, "offered_rps", per_second(s, row->offered), "good_rps",
                             per_second(s, row->count[SIM_GOOD]), "bad_rate", bad, "dropped_rate",
                             share(row, SIM_DROPPED), "late_rate", share(row, SIM_LATE), "requests",
                             (json_int_t)row->offered, "latency_ms", "p50", quantile_ms(row, 0.5), "p99",
                             quantile_ms(row, 0.99), "p999", quantile_ms(row, 0.999), "max", max_ms(row));
    if (row->count[SIM_CANCELLED])
        json_object_set_new(json, "cancelled_rate", json_real(share(row, SIM_CANCELLED)));
    return json;
}

json_t *simulate_pipelines_json(const struct simulation *s) {
    json_t *list = json_array();
    for (uint32_t p = 0; p < s->scenario.pipeline_count; p++) {
        const struct scenario_pipeline *pipeline = &s->scenario.pipelines[p];
        struct row row = pipeline_row(s, p);
        json_t *json = row_json(s, &row), *stages = json_array();
        for (uint32_t v = 0; v < pipeline->graph.stage_count; v++) {
            row = stage_row(s, p, v);
            json_t *stage = row_json(s, &row);
            json_object_set_new(stage, "model", json_string(s->scenario.models[pipeline->graph.stages[v].model].name));
            json_array_append_new(stages, stage);
        }
        json_object_set_new(json, "stages", stages);
        json_array_append_new(list, json);
    }
    return list;
}
