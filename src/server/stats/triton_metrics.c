/* triton_metrics.c - the statistics of models under the names and labels that Triton gives them (Triton's
 * docs/user_guide/metrics.md), for dashboards and autoscalers made for Triton. docs/compatibility.md lists the
 * differences in meaning. */
#include "server/stats/triton_metrics.h"

#include <stddef.h>

#include "core/util/container.h"
#include "core/util/time.h"

static void row(struct text *out, const char *name, const struct shown_model *model, const char *more, uint64_t value) {
    text_printf(out, "%s{%s%s} %llu\n", name, model->labels.text, more, (unsigned long long)value);
}

/* `batches`: whether this process counts batches. */
static void render_sums(const struct model_statistics *statistics, const struct shown_model *models, uint32_t count,
                        bool batches, struct text *out) {
    static const struct {
        const char *name, *help;
        size_t offset;
        uint64_t unit;
    } sums[] = {
        {"nv_inference_request_success", "Requests answered.", offsetof(struct model_statistics, answered), 1},
        {"nv_inference_count", "Items in the requests answered.", offsetof(struct model_statistics, items), 1},
        {"nv_inference_exec_count", "Batches run; of an ensemble, requests answered.",
         offsetof(struct model_statistics, batches), 1},
        {"nv_inference_request_duration_us", "From the first byte of a request to its answer, of those answered.",
         offsetof(struct model_statistics, answered_ns), NS_PER_US},
        {"nv_inference_queue_duration_us", "From the first byte of a request to the start of its run.",
         offsetof(struct model_statistics, queue_ns), NS_PER_US},
        {"nv_inference_compute_infer_duration_us", "What the batches of the requests ran.",
         offsetof(struct model_statistics, run_ns), NS_PER_US},
        {"nv_inference_compute_output_duration_us", "From the end of a run to the answer.",
         offsetof(struct model_statistics, reply_ns), NS_PER_US},
    };

    for (unsigned k = 0; k < ARRAY_COUNT(sums); k++) {
        if (!batches && sums[k].offset == offsetof(struct model_statistics, batches))
            continue;
        metric_heading(out, sums[k].name, "counter", sums[k].help);
        for (uint32_t i = 0; i < count; i++) {
            const uint64_t *sum = (const void *)((const char *)&statistics[i] + sums[k].offset);
            row(out, sums[k].name, &models[i], "", *sum / sums[k].unit);
        }
    }
}

void triton_metrics_render(const struct model_statistics *statistics, const struct shown_model *models, uint32_t count,
                           bool scheduled, struct text *out) {
    static const char failed[] = "nv_inference_request_failure", input[] = "nv_inference_compute_input_duration_us",
                      pending[] = "nv_inference_pending_request_count";

    render_sums(statistics, models, count, scheduled, out);
    /* Triton's fourth reason, OTHER, has no row, since there is no other failure. Mistakes of clients do not count, as
     * with Triton 2.51. */
    metric_heading(out, failed, "counter", "Requests refused, cancelled or failed.");
    for (uint32_t i = 0; i < count; i++) {
        row(out, failed, &models[i], ",reason=\"REJECTED\"", statistics[i].refused);
        row(out, failed, &models[i], ",reason=\"CANCELED\"", statistics[i].cancelled);
        row(out, failed, &models[i], ",reason=\"BACKEND\"", statistics[i].failed);
    }
    metric_heading(out, input, "counter", "0: inputs are gathered before the run, which counts as queueing.");
    for (uint32_t i = 0; i < count; i++)
        row(out, input, &models[i], "", 0);
    if (scheduled)
        metric_heading(out, pending, "gauge", "Requests that wait in the scheduler.");
    for (uint32_t i = 0; scheduled && i < count; i++)
        row(out, pending, &models[i], "", statistics[i].waiting);
}
