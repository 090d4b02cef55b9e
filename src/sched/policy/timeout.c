/* timeout.c - batches by size and age, without deadlines, as Triton's dynamic batcher does.
 *
 * A batch starts on a free accelerator as soon as it holds the preferred number of items, or its first request has
 * waited for the longest queue delay. Nothing is refused; late requests run all the same. Such a server is configured
 * model by model: a model's own configuration (preferred_batch_size and max_queue_delay_microseconds of config.pbtxt)
 * takes precedence over the options. The options that are shares of the SLO set this for all models at once.
 *
 * If there are several preferred sizes, the largest that is reached runs, and the rest waits for more. But once the
 * first request has waited long enough, all that fits into a batch runs with it. A request of another shape, which
 * cannot join the batch that waits, sends it off. */
#include "sched/core/model_view.h"
#include "sched/core/policy.h"
#include "sched/policy/window.h"

enum { MAX_QUEUE_DELAY_US, PREFERRED_BATCH_SIZE, MAX_BATCH_SIZE, DELAY_SHARE, BATCH_SHARE };

static const struct policy_option timeout_options[] = {
    {.key = "max_queue_delay_us", .most = 1e9, .help = "how long a request waits for company at most"},
    {.key = "preferred_batch_size",
     .whole = true,
     .most = PROFILE_BATCH_MAX,
     .help = "a batch of so many items does not wait; 0: only the largest"},
    {.key = "max_batch_size",
     .whole = true,
     .most = PROFILE_BATCH_MAX,
     .help = "items that a batch has at most; 0: as many as the model may have"},
    {.key = "delay_share", .most = 1, .help = "instead of max_queue_delay_us: a part of each model's SLO; 0: not"},
    {.key = "batch_share",
     .most = 1,
     .help = "instead of both sizes: a part of the largest batch that each model's SLO has time for; 0: not"},
    {0},
};

struct timeout_model {
    int64_t delay_ns;
    double enough_items; /* items from which on a batch does not wait; 0: only the largest batch does not */
};

static void timeout_update(struct model_view *m, void *own) {
    struct timeout_model *t = own;
    const double *option = m->options->value;
    m->batch_best = 1;
    m->target_items = 1;
    t->delay_ns = (int64_t)(option[MAX_QUEUE_DELAY_US] * NS_PER_US);
    if (option[DELAY_SHARE] > 0)
        t->delay_ns = (int64_t)(option[DELAY_SHARE] * m->slo_ns);
    t->enough_items = option[PREFERRED_BATCH_SIZE];
    m->items_cap = (uint32_t)option[MAX_BATCH_SIZE];
    if (option[BATCH_SHARE] > 0) {
        double largest = (m->slo_ns - m->beta_ns - (double)m->ctrl_ns) / (m->alpha_ns + (double)m->data_ns);
        m->items_cap = (uint32_t)clip(option[BATCH_SHARE] * largest, 1, PROFILE_BATCH_MAX);
        t->enough_items = m->items_cap;
    }
    if (m->wait_ns)
        t->delay_ns = m->wait_ns == WAIT_NONE_NS ? 0 : m->wait_ns;
    if (m->preferred_count) {
        m->items_cap = (uint32_t)option[MAX_BATCH_SIZE];
        t->enough_items = m->preferred[0];
    }
}

static struct batch_times timeout_times(const struct model_view *m, const void *own, uint32_t type,
                                        const struct batch_view *batch) {
    const struct timeout_model *t = own;
    (void)m, (void)type;
    bool large =
        batch->full || batch->items >= batch->items_most || (t->enough_items > 0 && batch->items >= t->enough_items);
    int64_t from_ns = large ? 0 : batch->head_arrival_ns + t->delay_ns;
    return batch_times_from(from_ns, batch->head_arrival_ns);
}

static uint32_t timeout_preferred(const struct model_view *m, const void *own, uint32_t items, int64_t head_arrival_ns,
                                  int64_t now_ns) {
    const struct timeout_model *t = own;
    uint32_t part = items;
    if (t->delay_ns > 0 && now_ns - head_arrival_ns >= t->delay_ns)
        return items;
    for (uint32_t i = 0; i < m->preferred_count && m->preferred[i] <= items; i++)
        part = m->preferred[i];
    return part;
}

const struct policy_ops policy_timeout = {
    .name = "timeout",
    .summary = "batches start when large or old enough, whatever the deadlines (Triton's dynamic batcher)",
    .options = timeout_options,
    .deadline_blind = true,
    .shapes_flush = true,
    .model_bytes = sizeof(struct timeout_model),
    .model_update = timeout_update,
    .batch_times = timeout_times,
    .batch_preferred = timeout_preferred,
};
