/* decision_log.c - writes steps of cores as bytes. */
#include "sched/core/decision_log.h"

#include <string.h>

#include "core/util/assert.h"

/* ---- entries ---- */

static struct decision_head *head_of(struct decision_log *log) {
    return (struct decision_head *)log->memory;
}

void decision_log_init(struct decision_log *log, char *memory, size_t bytes) {
    CHECK(bytes >= sizeof(struct decision_head));
    *log = (struct decision_log){.memory = memory, .bytes = bytes, .used = sizeof(struct decision_head)};
    struct decision_head *head = head_of(log);
    memset(head, 0, sizeof(*head));
    memcpy(head->magic, DECISION_MAGIC, sizeof(head->magic));
    strncpy(head->version, SYMPHONY_VERSION, sizeof(head->version) - 1);
    head->used = log->used;
}

static void put(struct decision_log *log, const void *data, size_t bytes) {
    if (bytes == 0) /* `data` may then be NULL */
        return;
    if (log->full || log->bytes - log->used < bytes) {
        log->full = true;
        return;
    }
    memcpy(log->memory + log->used, data, bytes);
    log->used += bytes;
}

static void entry_begin(struct decision_log *log, enum decision_kind kind) {
    struct decision_entry entry = {.kind = kind};
    log->from = log->used;
    put(log, &entry, sizeof(entry));
}

/* An entry that does not fit is taken back. */
static void entry_end(struct decision_log *log) {
    static const char none[8];
    put(log, none, (size_t)-log->used % sizeof(none));
    if (log->full) {
        log->used = log->from;
        head_of(log)->missed++;
        return;
    }
    ((struct decision_entry *)(log->memory + log->from))->bytes = (uint32_t)(log->used - log->from);
    head_of(log)->used = log->used;
}

static void put_u32(struct decision_log *log, uint32_t value) {
    put(log, &value, sizeof(value));
}

/* ---- messages, without what lies between their fields ---- */

void decision_put_grant(struct decision_log *log, const struct grant_message *m) {
    put(log, m, offsetof(struct grant_message, best_effort));
    put_u32(log, m->best_effort);
    put(log, &m->run_ns, sizeof(*m) - offsetof(struct grant_message, run_ns));
}
_Static_assert(sizeof(struct grant_message) ==
                   offsetof(struct grant_message, parameters) + sizeof(struct cluster_parameters),
               "no fields between");

/* ---- model cores ---- */

void decision_model_thread(struct decision_log *log, const struct policy_ops *policy,
                           const struct policy_options *options, uint32_t types, uint32_t pool) {
    struct decision_thread thread = {.options = *options, .types = types, .pool = pool};
    strncpy(thread.policy, policy->name, sizeof(thread.policy) - 1);
    entry_begin(log, DECISION_MODEL_THREAD);
    put(log, &thread, sizeof(thread));
    entry_end(log);
}

void decision_model_init(struct decision_log *log, struct variant_id core, const struct model_core_config *config,
                         const struct queue_levels *levels) {
    struct decision_init init = {.core = core.n, .levels = UINT32_MAX};
    if (config->levels) {
        init.levels = (uint32_t)(config->levels - levels);
        for (uint32_t p = 0; p < PRIORITIES_MAX; p++)
            init.most[p] = config->levels->of[p].most;
    }
    entry_begin(log, DECISION_MODEL_INIT);
    put(log, &init, sizeof(init));
    put(log, config, sizeof(*config));
    put(log, config->preferred, config->preferred_count * sizeof(*config->preferred));
    put(log, "\0\0\0", config->preferred_count % 2 * sizeof(uint32_t));
    for (uint32_t t = 0; t < config->types; t++)
        if (config->profiles[t])
            put(log, config->profiles[t], profile_bytes(config->profiles[t]->batch_max));
    entry_end(log);
}

size_t decision_model_event_bytes(enum model_event_kind kind) {
    switch (kind) {
    case MODEL_ARRIVED:
    case MODEL_ARRIVING:
    case MODEL_CANCELLED:
    case MODEL_PREPARED:
        return sizeof(struct request_message);
    case MODEL_GRANTED:
    case MODEL_PARAMETERS:
    case MODEL_MEMORY:
        return sizeof(struct grant_message);
    case MODEL_RAN:
        return sizeof(struct ran_message);
    case MODEL_DELAYS:
        return sizeof(((struct model_event *)0)->delays);
    case MODEL_HURRIED:
        return sizeof(((struct model_event *)0)->hurried_ns);
    case MODEL_SETTLED:
    case MODEL_TIMER:
        break;
    }
    return 0;
}

static void put_requests(struct decision_log *log, uint32_t first, const struct request_pool *pool) {
    for (uint32_t node = first; node != REQUEST_NONE; node = pool->nodes[node].next) {
        put(log, &pool->nodes[node].handle, sizeof(pool->nodes[node].handle));
        put_u32(log, pool->nodes[node].refusal | (uint32_t)pool->nodes[node].port << 8);
    }
    put_u32(log, REQUEST_NONE);
}

void decision_put_model_output(struct decision_log *log, enum model_event_kind kind, uint32_t types,
                               const struct model_output *out, const struct request_pool *pool) {
    put_requests(log, out->refused, pool);
    put_requests(log, out->batch, pool);
    put_u32(log, out->rates_changed);
    if (out->rates_changed)
        put(log, &out->rates, offsetof(struct model_rates, runs_on) + sizeof(out->rates.runs_on));
    if (kind == MODEL_ARRIVING) /* the rest is told later */
        return;
    put_u32(log, out->batch_requests);
    put_u32(log, out->batch_items);
    if (out->batch != REQUEST_NONE) {
        put(log, &out->batch_finish_ns, sizeof(out->batch_finish_ns));
        put(log, &out->batch_run_ns, sizeof(out->batch_run_ns));
    }
    put_u32(log, out->candidate_changed);
    if (out->candidate_changed || kind == MODEL_GRANTED)
        put(log, out->candidates, types * sizeof(out->candidates[0]));
    put(log, &out->wake_ns, sizeof(out->wake_ns));
}

void decision_model_step(struct decision_log *log, struct variant_id core, uint32_t types, int64_t now_ns,
                         const struct model_event *event, const struct model_output *out,
                         const struct request_pool *pool) {
    const struct decision_step step = {.now_ns = now_ns, .core = core.n, .event = event->kind};
    const void *brings = event->kind == MODEL_DELAYS    ? (const void *)&event->delays
                         : event->kind == MODEL_HURRIED ? (const void *)&event->hurried_ns
                                                        : event->request;
    entry_begin(log, DECISION_MODEL_STEP);
    put(log, &step, sizeof(step));
    put(log, brings, decision_model_event_bytes(event->kind));
    decision_put_model_output(log, event->kind, types, out, pool);
    entry_end(log);
}

/* ---- the rank core ---- */

void decision_rank_init(struct decision_log *log, const struct rank_core_config *config) {
    struct decision_thread thread = {.options = *config->policy_options, .types = config->types};
    strncpy(thread.policy, config->policy->name, sizeof(thread.policy) - 1);
    entry_begin(log, DECISION_RANK_INIT);
    put(log, &thread, sizeof(thread));
    put(log, config, sizeof(*config));
    if (config->limited) /* before what is not a multiple of 8 bytes */
        put(log, config->weights, config->models * sizeof(*config->weights));
    put(log, config->accelerator_type, config->accelerators);
    if (config->subcluster_of_accelerator)
        put(log, config->subcluster_of_accelerator, config->accelerators);
    if (config->subcluster_of_model)
        put(log, config->subcluster_of_model, config->models);
    entry_end(log);
}

void decision_put_rank_output(struct decision_log *log, bool takes, const struct rank_output *out) {
    put_u32(log, out->joined.n);
    put_u32(log, out->left.n);
    if (takes)
        return;
    put_u32(log, out->grant_count);
    for (uint32_t i = 0; i < out->grant_count; i++)
        decision_put_grant(log, &out->grants[i]);
    put_u32(log, out->move_count);
    for (uint32_t i = 0; i < out->move_count; i++)
        put(log, &out->moves[i], sizeof(out->moves[i]));
    put_u32(log, out->gone_count);
    for (uint32_t i = 0; i < out->gone_count; i++)
        put_u32(log, out->gone[i].n);
    put_u32(log, out->parameters_changed);
    put(log, &out->wake_ns, sizeof(out->wake_ns));
}

void decision_rank_step(struct decision_log *log, uint32_t types, int64_t now_ns, const struct rank_event *event,
                        bool takes, const struct rank_output *out) {
    const struct decision_step step = {.now_ns = now_ns, .event = event->kind};
    entry_begin(log, takes ? DECISION_RANK_TAKE : DECISION_RANK_STEP);
    put(log, &step, sizeof(step));
    put(log, event, sizeof(*event));
    if (event->kind == RANK_CANDIDATES)
        put(log, event->candidates, types * sizeof(*event->candidates));
    if (event->kind == RANK_MESSAGE)
        put(log, event->message, rank_message_bytes(event->message->types));
    decision_put_rank_output(log, takes, out);
    entry_end(log);
}

void decision_rank_parameters(struct decision_log *log, const struct grant_message *message) {
    const struct decision_step step = {.core = message->variant.n};
    entry_begin(log, DECISION_RANK_PARAMETERS);
    put(log, &step, sizeof(step));
    decision_put_grant(log, message);
    entry_end(log);
}

void decision_put_double(struct decision_log *log, double value) {
    put(log, &value, sizeof(value));
}

void decision_rank_load(struct decision_log *log, int64_t now_ns, double needed_ns) {
    const struct decision_step step = {.now_ns = now_ns};
    entry_begin(log, DECISION_RANK_LOAD);
    put(log, &step, sizeof(step));
    decision_put_double(log, needed_ns);
    entry_end(log);
}

/* ---- advice ---- */

void decision_advice_init(struct decision_log *log, int64_t now_ns, const struct autoscale_config *config,
                          uint32_t subclusters, const double *needed_ns) {
    const struct decision_step step = {.now_ns = now_ns};
    const struct decision_advisor advisor = {.config = *config, .subclusters = subclusters};
    entry_begin(log, DECISION_ADVICE_INIT);
    put(log, &step, sizeof(step));
    put(log, &advisor, sizeof(advisor));
    put(log, needed_ns, subclusters * sizeof(*needed_ns));
    entry_end(log);
}

void decision_put_advice(struct decision_log *log, const struct advisor *advisor) {
    uint32_t subclusters = advisor->autoscale.count;
    put_u32(log, advisor->wanted);
    put(log, advisor->wanted_of, (subclusters > 1 ? subclusters : 0) * sizeof(*advisor->wanted_of));
    decision_put_double(log, advisor->bad_rate);
}

void decision_advice_look(struct decision_log *log, int64_t now_ns, const struct advisor_load *load,
                          const double *needed_ns, const struct advisor *advisor) {
    const struct decision_step step = {.now_ns = now_ns};
    uint32_t subclusters = advisor->autoscale.count;
    entry_begin(log, DECISION_ADVICE_LOOK);
    put(log, &step, sizeof(step));
    put(log, &load->all, sizeof(load->all));
    put(log, load->subclusters, (subclusters > 1 ? subclusters : 0) * sizeof(load->subclusters[0]));
    put(log, needed_ns, subclusters * sizeof(*needed_ns));
    decision_put_advice(log, advisor);
    entry_end(log);
}
