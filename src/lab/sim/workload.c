/* workload.c - draws the streams of arrivals. A gap with mean 1 is drawn, and ends where the rate, added up over time,
 * reaches it; the rate may change meanwhile. */
#include "lab/sim/workload.h"

double workload_shares(const struct sim_config *config) {
    double shares = 0;
    for (uint32_t m = 0; m < config->model_count; m++)
        shares += config->models[m].share;
    for (uint32_t p = 0; p < config->pipeline_count; p++)
        shares += config->pipelines[p].queries.share;
    return shares;
}

double workload_items(const struct sim_config *config, uint32_t model) {
    const struct sim_model *m = &config->models[model];
    const struct trace *trace = config->trace;
    double drawn = config->query_sizes               ? query_sizes_mean(config->query_sizes)
                   : m->items_most <= m->items_least ? m->items_least
                                                     : (m->items_least + m->items_most) / 2.0;
    if (!trace || !trace->requests || trace->first[model] == trace->first[model + 1])
        return drawn;
    double sum = 0;
    for (uint64_t i = trace->first[model]; i < trace->first[model + 1]; i++)
        sum += trace->requests[i].items ? trace->requests[i].items : drawn;
    return sum / (double)(trace->first[model + 1] - trace->first[model]);
}

const struct sim_model *workload_traffic(const struct sim_config *config, uint32_t number) {
    return number < config->model_count ? &config->models[number]
                                        : &config->pipelines[number - config->model_count].queries;
}

void workload_stream_init(struct workload_stream *stream, const struct sim_config *config, uint32_t number,
                          double shares) {
    const struct sim_model *m = workload_traffic(config, number);
    *stream = (struct workload_stream){
        .config = config,
        .model = m,
        .share = m->share / shares,
        .phase_open = true,
        .gaps_taken = GAPS_AHEAD,
        .gaps_only = config->arrivals == SIM_POISSON && !config->query_sizes && m->items_most <= m->items_least &&
                     m->slo_spread <= 0 && m->best_effort <= 0 && m->priority_count == 0,
    };
    if (config->arrivals == SIM_TRACE)
        stream->cursor = trace_cursor_at_start(config->trace, number);
    rng_seed(&stream->rng, config->seed * 0x9e3779b97f4a7c15ULL + number + 1);
}

/* Draws several at once, if nothing else is to be drawn in between: then the processor works on their logarithms at the
 * same time. */
static double exponential_draw(struct workload_stream *stream) {
    if (!stream->gaps_only)
        return rng_exponential(&stream->rng);
    if (stream->gaps_taken == GAPS_AHEAD) {
        for (uint32_t i = 0; i < GAPS_AHEAD; i++)
            stream->gaps[i] = rng_exponential(&stream->rng);
        stream->gaps_taken = 0;
    }
    return stream->gaps[stream->gaps_taken++];
}

static double gap_draw(struct workload_stream *stream) {
    switch (stream->config->arrivals) {
    case SIM_UNIFORM:
        return stream->phase_open ? rng_uniform(&stream->rng) : 1;
    case SIM_GAMMA:
        return rng_gamma(&stream->rng, stream->config->gamma_shape);
    case SIM_POISSON:
    case SIM_TRACE:
        break;
    }
    return exponential_draw(stream);
}

/* The stream's rate at `at_s`, and the time until which the rate holds. */
static double rate_at(struct workload_stream *stream, double at_s, double *until_s) {
    const struct sim_config *config = stream->config;
    const struct sim_model *model = stream->model;
    double rate = config->steps[stream->step].rate_rps, step_end_s = 1e18;
    if (stream->step + 1 < config->step_count)
        step_end_s = config->steps[stream->step + 1].at_s;
    *until_s = step_end_s;
    if (config->arrivals == SIM_TRACE)
        rate *= trace_rate(config->trace, &stream->cursor, at_s, until_s) / config->trace->mean_rps;
    else
        rate *= stream->share;
    if (step_end_s < *until_s)
        *until_s = step_end_s;
    if (model->surge_factor > 0) {
        if (at_s >= model->surge_at_s)
            rate *= model->surge_factor;
        else if (model->surge_at_s < *until_s)
            *until_s = model->surge_at_s;
    }
    return rate;
}

/* Moves at_s to the next arrival; false if there is none before the end of the run. */
static bool arrival_draw(struct workload_stream *stream, double end_s) {
    const struct sim_config *config = stream->config;
    double gap = gap_draw(stream);
    stream->phase_open = false;
    for (;;) {
        if (stream->at_s >= stream->rate_until_s)
            stream->rate = rate_at(stream, stream->at_s, &stream->rate_until_s);
        if (stream->rate > 0 && stream->at_s + gap / stream->rate < stream->rate_until_s) {
            stream->at_s += gap / stream->rate;
            return stream->at_s < end_s;
        }
        if (stream->rate_until_s >= end_s)
            return false;
        gap -= stream->rate * (stream->rate_until_s - stream->at_s);
        stream->at_s = stream->rate_until_s;
        while (stream->step + 1 < config->step_count && config->steps[stream->step + 1].at_s <= stream->at_s)
            stream->step++;
    }
}

/* Moves at_s to the next recorded arrival, which is replayed faster or slower; false if there is none. */
static bool arrival_replay(struct workload_stream *stream, double end_s) {
    const struct sim_config *config = stream->config;
    double at_s, speed = config->steps[0].rate_rps / config->trace->mean_rps;
    if (!(speed > 0) || !trace_arrival(config->trace, &stream->cursor, &at_s))
        return false;
    stream->at_s = at_s / speed;
    return stream->at_s < end_s;
}

static int64_t slo_draw(struct workload_stream *stream) {
    const struct sim_config *config = stream->config;
    const struct sim_model *model = stream->model;
    int64_t slo_ns = 0;
    if (config->arrivals == SIM_TRACE && config->trace->slo_ns)
        slo_ns = trace_slo_ns(config->trace, &stream->cursor, rng_uniform(&stream->rng));
    if (slo_ns == 0)
        slo_ns = model->slo_ns;
    if (model->slo_spread > 0)
        slo_ns = (int64_t)((double)slo_ns * (1 + model->slo_spread * (2 * rng_uniform(&stream->rng) - 1)));
    return slo_ns;
}

static uint8_t priority_draw(struct workload_stream *stream) {
    const struct sim_model *model = stream->model;
    if (model->best_effort > 0 && rng_uniform(&stream->rng) < model->best_effort)
        return PRIORITY_BEST_EFFORT;
    if (model->priority_count == 0)
        return 0;
    double x = rng_uniform(&stream->rng);
    uint8_t priority = 0;
    while (priority + 1u < model->priority_count && x >= model->priorities[priority])
        x -= model->priorities[priority++];
    return priority;
}

static uint32_t items_draw(struct workload_stream *stream) {
    const struct sim_model *model = stream->model;
    if (stream->config->query_sizes)
        return query_sizes_draw(stream->config->query_sizes, &stream->rng);
    if (model->items_most <= model->items_least)
        return model->items_least;
    return model->items_least + (uint32_t)rng_below(&stream->rng, model->items_most - model->items_least + 1);
}

bool workload_stream_next(struct workload_stream *stream, struct workload_request *request) {
    const struct sim_config *config = stream->config;
    double end_s = config->warmup_s + config->seconds;
    bool recorded = config->arrivals == SIM_TRACE && !config->trace->rate_sum;
    if (!(recorded ? arrival_replay(stream, end_s) : arrival_draw(stream, end_s)))
        return false;
    struct trace_request said = recorded ? trace_request_taken(config->trace, &stream->cursor)
                                         : (struct trace_request){.priority = TRACE_PRIORITY_ANY};
    request->arrival_ns = (int64_t)(stream->at_s * (double)NS_PER_S + (recorded ? 0.5 : 0));
    request->priority = said.priority;
    request->slo_ns = slo_draw(stream);
    if (said.priority == TRACE_PRIORITY_ANY)
        request->priority = priority_draw(stream);
    if (said.slo_us)
        request->slo_ns = (int64_t)said.slo_us * NS_PER_US;
    else if (request->priority == PRIORITY_BEST_EFFORT)
        request->slo_ns = BEST_EFFORT_WAIT_NS;
    request->items = said.items;
    if (!said.items)
        request->items = items_draw(stream);
    return true;
}
