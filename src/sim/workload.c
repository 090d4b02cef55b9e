/* workload.c - arrival streams. A gap of mean 1 is drawn and walked through the rate, which may change on the way. */
#include "sim/workload.h"

void workload_stream_init(struct workload_stream *stream, const struct sim_config *config, uint32_t model) {
    double total = 0;
    for (uint32_t m = 0; m < config->model_count; m++)
        total += config->models[m].share;
    *stream = (struct workload_stream){
        .config = config,
        .model = &config->models[model],
        .share = config->models[model].share / total,
        .phase_open = true,
    };
    rng_seed(&stream->rng, config->seed * 0x9e3779b97f4a7c15ULL + model + 1);
}

static double gap_draw(struct workload_stream *stream) {
    switch (stream->config->arrivals) {
    case SIM_UNIFORM:
        return stream->phase_open ? rng_uniform(&stream->rng) : 1;
    case SIM_GAMMA:
        return rng_gamma(&stream->rng, stream->config->gamma_shape);
    case SIM_POISSON:
        break;
    }
    return rng_exponential(&stream->rng);
}

/* The model's rate at `at_s`, and until when it holds. */
static double rate_at(const struct workload_stream *stream, double at_s, double *until_s) {
    const struct sim_config *config = stream->config;
    const struct sim_model *model = stream->model;
    double rate = config->steps[stream->step].rate_rps * stream->share;
    *until_s = stream->step + 1 < config->step_count ? config->steps[stream->step + 1].at_s : 1e18;
    if (model->surge_factor > 0) {
        if (at_s >= model->surge_at_s)
            rate *= model->surge_factor;
        else if (model->surge_at_s < *until_s)
            *until_s = model->surge_at_s;
    }
    return rate;
}

bool workload_stream_next(struct workload_stream *stream, struct workload_request *request) {
    const struct sim_config *config = stream->config;
    double end_s = config->warmup_s + config->seconds, gap = gap_draw(stream), until_s;
    stream->phase_open = false;
    for (;;) {
        double rate = rate_at(stream, stream->at_s, &until_s);
        if (rate > 0 && stream->at_s + gap / rate < until_s) {
            stream->at_s += gap / rate;
            break;
        }
        if (until_s >= end_s)
            return false;
        gap -= rate * (until_s - stream->at_s);
        stream->at_s = until_s;
        while (stream->step + 1 < config->step_count && config->steps[stream->step + 1].at_s <= until_s)
            stream->step++;
    }
    if (stream->at_s >= end_s)
        return false;
    const struct sim_model *model = stream->model;
    request->arrival_ns = (int64_t)(stream->at_s * (double)NS_PER_S);
    request->slo_ns = model->slo_ns;
    if (model->slo_spread > 0)
        request->slo_ns =
            (int64_t)((double)model->slo_ns * (1 + model->slo_spread * (2 * rng_uniform(&stream->rng) - 1)));
    request->items = config->query_sizes ? query_sizes_draw(config->query_sizes, &stream->rng) : model->items_least;
    if (!config->query_sizes && model->items_most > model->items_least)
        request->items += (uint32_t)rng_below(&stream->rng, model->items_most - model->items_least + 1);
    return true;
}
