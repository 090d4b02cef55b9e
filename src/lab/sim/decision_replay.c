/* decision_replay.c - steps fresh cores, or a fresh advisor, as a log says, and compares their output with the log. */
#include "lab/sim/decision_replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/array.h"

#define SCRATCH_BYTES (1 << 20) /* bytes for the output of one step */

/* The core of a variant. */
struct core_place {
    struct model_core *core;
    size_t bytes;
};

struct replay {
    struct decision_replay *result;
    struct sy_error *err;
    const struct policy_ops *policy;
    struct policy_options options;
    uint32_t types;
    /* fields for the log of a model thread */
    struct request_pool pool;
    struct request_node *nodes;
    struct core_place *cores; /* [core_count] */
    uint32_t core_count;
    struct queue_levels **levels; /* [level_count] */
    uint32_t level_count;
    struct model_output model_out;
    /* fields for the log of a rank thread */
    struct rank_core *rank;
    struct rank_output rank_out;
    uint32_t subcluster;
    /* fields for the log of advice */
    bool advises;
    struct advisor advisor;
    int64_t looked_ns;
    double needed_ns[AUTOSCALE_SUBCLUSTERS_MAX];
    /* fields of the present entry */
    const char *at, *end;
    struct decision_log said; /* output of the fresh cores */
};

static int bad(struct replay *r) {
    return error_set(r->err, -EINVAL, "step %" PRIu64 ": the log is broken", r->result->steps);
}

/* Takes the next bytes of the entry; NULL: the entry has fewer. */
static const void *take(struct replay *r, size_t bytes) {
    const char *at = r->at;
    if ((size_t)(r->end - at) < bytes)
        return NULL;
    r->at += bytes;
    return at;
}

/* Whether the output of the fresh cores equals the rest of the entry, which is filled up to 8 bytes. */
static int said_compare(struct replay *r, const struct decision_step *step, const char *who) {
    size_t from = sizeof(struct decision_head), bytes = r->said.used - from, left = (size_t)(r->end - r->at);
    r->result->steps++;
    if (!r->said.full && left - bytes < 8 && bytes <= left && memcmp(r->at, r->said.memory + from, bytes) == 0)
        return 0;
    return error_set(r->err, -EBADMSG,
                     "step %" PRIu64 ", at %" PRId64 " ns: %s %u, told event %u, says something else than it did",
                     r->result->steps, step->now_ns, who, step->core, step->event);
}

static int policy_take(struct replay *r, const struct decision_thread *thread) {
    char name[sizeof(thread->policy)];
    memcpy(name, thread->policy, sizeof(name));
    name[sizeof(name) - 1] = '\0';
    r->policy = policy_find(name, r->err);
    r->options = thread->options;
    r->types = thread->types;
    if (!r->policy)
        return -EINVAL;
    return r->types >= 1 && r->types <= ACCELERATOR_TYPES_MAX ? 0 : bad(r);
}

/* Makes room for the number `wanted`; false: no memory. */
static bool grow(void **array, uint32_t *count, uint32_t wanted, size_t bytes) {
    if (wanted < *count)
        return true;
    uint64_t more = wanted + 1ull > 2ull * *count ? wanted + 1ull : 2ull * *count;
    char *grown = more <= UINT32_MAX ? realloc(*array, more * bytes) : NULL;
    if (!grown)
        return false;
    memset(grown + *count * bytes, 0, (more - *count) * bytes);
    *array = grown;
    *count = (uint32_t)more;
    return true;
}

/* ---- model cores ---- */

static int thread_begin(struct replay *r) {
    const struct decision_thread *thread = take(r, sizeof(*thread));
    if (!thread || r->nodes || thread->pool == 0)
        return bad(r);
    int rc = policy_take(r, thread);
    if (rc)
        return rc;
    r->nodes = calloc(thread->pool, sizeof(*r->nodes));
    if (!r->nodes)
        return error_set(r->err, -ENOMEM, "no memory for %u requests", thread->pool);
    request_pool_init(&r->pool, r->nodes, thread->pool);
    return 0;
}

static struct queue_levels *levels_take(struct replay *r, const struct decision_init *init) {
    if (!grow((void **)&r->levels, &r->level_count, init->levels, sizeof(*r->levels)))
        return NULL;
    struct queue_levels **levels = &r->levels[init->levels];
    if (!*levels)
        *levels = calloc(1, sizeof(**levels));
    for (uint32_t p = 0; *levels && p < PRIORITIES_MAX; p++)
        (*levels)->of[p].most = init->most[p];
    return *levels;
}

/* Takes a configuration from the entry, and the memory that it points to. False: the entry is too short. */
static bool config_take(struct replay *r, struct model_core_config *config) {
    const struct model_core_config *raw = take(r, sizeof(*raw));
    if (!raw)
        return false;
    *config = *raw;
    config->policy = r->policy;
    config->policy_options = &r->options;
    config->preferred = take(r, (config->preferred_count + config->preferred_count % 2) * sizeof(uint32_t));
    bool whole = config->preferred && config->types == r->types;
    for (uint32_t t = 0; t < config->types && whole; t++) {
        const struct profile *profile = (const struct profile *)(const void *)r->at;
        if (!config->profiles[t])
            continue;
        whole = (size_t)(r->end - r->at) >= sizeof(*profile) && profile->batch_max <= PROFILE_BATCH_MAX &&
                profile->batch_max >= config->batch_max && take(r, profile_bytes(profile->batch_max));
        config->profiles[t] = profile;
    }
    return whole;
}

static int core_begin(struct replay *r) {
    const struct decision_init *init = take(r, sizeof(*init));
    struct model_core_config config;
    if (!init || !r->nodes || !config_take(r, &config))
        return bad(r);
    config.levels = init->levels == UINT32_MAX ? NULL : levels_take(r, init);
    if ((init->levels != UINT32_MAX && !config.levels) ||
        !grow((void **)&r->cores, &r->core_count, init->core, sizeof(*r->cores)))
        return error_set(r->err, -ENOMEM, "no memory for core %u", init->core);
    struct core_place *place = &r->cores[init->core];
    size_t bytes = (model_core_bytes(&config) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    if (bytes > place->bytes) {
        free(place->core);
        place->core = aligned_alloc(CACHE_LINE, bytes);
        place->bytes = place->core ? bytes : 0;
        if (!place->core)
            return error_set(r->err, -ENOMEM, "no memory for core %u", init->core);
    }
    model_core_init(place->core, &config, &r->pool);
    return 0;
}

static uint64_t requests_put(struct replay *r, uint32_t node) {
    uint64_t count = 0;
    for (uint32_t next; node != REQUEST_NONE; node = next, count++) {
        next = r->pool.nodes[node].next;
        request_pool_put(&r->pool, node);
    }
    return count;
}

static int core_step(struct replay *r) {
    const struct decision_step *step = take(r, sizeof(*step));
    if (!step || step->core >= r->core_count || !r->cores[step->core].core || step->event > MODEL_HURRIED)
        return bad(r);
    struct model_event event = {.kind = step->event};
    const void *brought = take(r, decision_model_event_bytes(event.kind));
    if (!brought)
        return bad(r);
    if (event.kind == MODEL_DELAYS)
        memcpy(&event.delays, brought, sizeof(event.delays));
    else if (event.kind == MODEL_HURRIED)
        memcpy(&event.hurried_ns, brought, sizeof(event.hurried_ns));
    else
        event.request = brought; /* one pointer of several kinds */
    model_core_step(r->cores[step->core].core, step->now_ns, &event, &r->model_out);
    decision_put_model_output(&r->said, event.kind, r->types, &r->model_out, &r->pool);
    r->result->refused += requests_put(r, r->model_out.refused);
    requests_put(r, r->model_out.batch);
    r->result->grants += event.kind == MODEL_GRANTED;
    return said_compare(r, step, "model core");
}

/* ---- the rank core ---- */

static int rank_begin(struct replay *r) {
    const struct decision_thread *thread = take(r, sizeof(*thread));
    const struct rank_core_config *raw = thread ? take(r, sizeof(*raw)) : NULL;
    if (!raw || r->rank)
        return bad(r);
    int rc = policy_take(r, thread);
    if (rc)
        return rc;
    struct rank_core_config config = *raw;
    config.policy = r->policy;
    config.policy_options = &r->options;
    if (config.limited)
        config.weights = take(r, config.models * sizeof(*config.weights));
    config.accelerator_type = take(r, config.accelerators);
    if (config.subcluster_of_accelerator)
        config.subcluster_of_accelerator = take(r, config.accelerators);
    if (config.subcluster_of_model)
        config.subcluster_of_model = take(r, config.models);
    if (!config.accelerator_type || (config.limited && !config.weights) ||
        (raw->subcluster_of_accelerator && !config.subcluster_of_accelerator) ||
        (raw->subcluster_of_model && !config.subcluster_of_model) || config.types != r->types)
        return bad(r);
    r->rank = malloc(rank_core_bytes(&config));
    if (!r->rank)
        return error_set(r->err, -ENOMEM, "no memory for the rank core of %u accelerators", config.accelerators);
    rank_core_init(r->rank, &config);
    r->subcluster = config.subcluster;
    return 0;
}

static bool rank_event_take(struct replay *r, struct rank_event *event) {
    const struct rank_event *raw = take(r, sizeof(*raw));
    if (!raw)
        return false;
    *event = *raw;
    if (event->kind == RANK_CANDIDATES) {
        event->candidates = take(r, r->types * sizeof(*event->candidates));
        return event->candidates;
    }
    if (event->kind != RANK_MESSAGE)
        return true;
    const struct rank_message *message = (const struct rank_message *)(const void *)r->at;
    bool whole = (size_t)(r->end - r->at) >= sizeof(*message) && (message->types == 0 || message->types == r->types);
    event->message = whole ? take(r, rank_message_bytes(message->types)) : NULL;
    return event->message;
}

static int rank_step(struct replay *r, bool takes) {
    const struct decision_step *step = take(r, sizeof(*step));
    struct rank_event event;
    if (!step || !r->rank || !rank_event_take(r, &event))
        return bad(r);
    if (takes)
        rank_core_take(r->rank, step->now_ns, &event, &r->rank_out);
    else
        rank_core_step(r->rank, step->now_ns, &event, &r->rank_out);
    decision_put_rank_output(&r->said, takes, &r->rank_out);
    r->result->grants += takes ? 0 : r->rank_out.grant_count;
    return said_compare(r, step, "the rank core");
}

static int rank_parameters(struct replay *r) {
    const struct decision_step *step = take(r, sizeof(*step));
    struct grant_message message;
    if (!step || !r->rank)
        return bad(r);
    rank_core_parameters(r->rank, (struct variant_id){step->core}, &message);
    decision_put_grant(&r->said, &message);
    return said_compare(r, step, "the rank core, of model");
}

/* ---- loads ---- */

static int load_add(struct replay *r, uint32_t subcluster, double needed_ns) {
    struct decision_replay *result = r->result;
    struct decision_load *grown = array_room(result->loads, result->load_count, sizeof(*grown));
    if (!grown)
        return error_set(r->err, -ENOMEM, "no memory for %zu loads", (size_t)result->load_count + 1);
    result->loads = grown;
    result->loads[result->load_count++] = (struct decision_load){.needed_ns = needed_ns, .subcluster = subcluster};
    return 0;
}

static int rank_load(struct replay *r) {
    const struct decision_step *step = take(r, sizeof(*step));
    if (!step || !r->rank)
        return bad(r);
    double needed_ns = rank_core_needed_ns(r->rank);
    decision_put_double(&r->said, needed_ns);
    int rc = said_compare(r, step, "the load of rank core");
    return rc ? rc : load_add(r, r->subcluster, needed_ns);
}

int decision_loads_check(const struct decision_replay *advice, const struct decision_replay *ranks, size_t count,
                         struct sy_error *err) {
    for (uint32_t subcluster = 0; subcluster < AUTOSCALE_SUBCLUSTERS_MAX; subcluster++) {
        const struct decision_replay *rank = NULL;
        for (size_t i = 0; i < count; i++)
            if (ranks[i].looks == 0 && ranks[i].load_count && ranks[i].loads[0].subcluster == subcluster)
                rank = &ranks[i];
        size_t at = 0;
        for (size_t i = 0; i < advice->load_count; i++) {
            double seen = advice->loads[i].needed_ns;
            if (advice->loads[i].subcluster != subcluster || seen <= 0) /* before anything was said */
                continue;
            while (rank && at < rank->load_count && rank->loads[at].needed_ns < seen)
                at++;
            if (rank && at == rank->load_count && rank->missed) /* not logged any more */
                break;
            if (!rank || at == rank->load_count || rank->loads[at].needed_ns > seen)
                return error_set(err, -EBADMSG,
                                 "it looked at a load of rank core %u, %.17g ns, that the core did not say", subcluster,
                                 seen);
        }
    }
    return 0;
}

/* ---- advice ---- */

/* Takes the loads that the rank cores had put out, and computes the growth of each since the last look. */
static int needed_take(struct replay *r, uint32_t subclusters, double *grown_ns) {
    const double *said = take(r, subclusters * sizeof(*said));
    for (uint32_t k = 0; k < subclusters && said; k++) {
        grown_ns[k] = said[k] - r->needed_ns[k];
        r->needed_ns[k] = said[k];
        int rc = load_add(r, k, said[k]);
        if (rc)
            return rc;
    }
    return said ? 0 : bad(r);
}

static int advice_begin(struct replay *r) {
    double grown_ns[AUTOSCALE_SUBCLUSTERS_MAX];
    const struct decision_step *step = take(r, sizeof(*step));
    const struct decision_advisor *advisor = step ? take(r, sizeof(*advisor)) : NULL;
    if (!advisor || advisor->subclusters < 1 || advisor->subclusters > AUTOSCALE_SUBCLUSTERS_MAX ||
        advisor->config.every_ns < 1 || !(advisor->config.headroom >= 0 && advisor->config.headroom < 1))
        return bad(r);
    advisor_init(&r->advisor, &advisor->config, advisor->subclusters, step->now_ns);
    r->advises = true;
    r->looked_ns = step->now_ns;
    return needed_take(r, advisor->subclusters, grown_ns);
}

/* Whether the load that the look saw is that of the rank cores. */
static bool load_is_theirs(const struct replay *r, const struct advisor_load *load, const double *grown_ns,
                           int64_t passed_ns) {
    uint32_t subclusters = r->advisor.autoscale.count;
    double all_ns = 0;
    bool same = true;
    for (uint32_t k = 0; k < subclusters; k++) {
        all_ns += grown_ns[k];
        double needed = advisor_needed(grown_ns[k], passed_ns);
        same &= subclusters == 1 || memcmp(&load->subclusters[k].needed, &needed, sizeof(needed)) == 0;
    }
    double needed = advisor_needed(all_ns, passed_ns);
    return same && memcmp(&load->all.needed, &needed, sizeof(needed)) == 0;
}

static int advice_look(struct replay *r) {
    const struct decision_step *step = take(r, sizeof(*step));
    uint32_t subclusters = r->advisor.autoscale.count;
    struct advisor_load load = {.all = {0}};
    double grown_ns[AUTOSCALE_SUBCLUSTERS_MAX];
    const struct autoscale_seen *all = step && r->advises ? take(r, sizeof(*all)) : NULL;
    const struct autoscale_seen *each = all && subclusters > 1 ? take(r, subclusters * sizeof(*each)) : all;
    if (!each)
        return bad(r);
    load.all = *all;
    memcpy(load.subclusters, each, (subclusters > 1 ? subclusters : 0) * sizeof(*each));
    int rc = needed_take(r, subclusters, grown_ns);
    if (rc)
        return rc;
    bool theirs = load_is_theirs(r, &load, grown_ns, step->now_ns - r->looked_ns);
    r->looked_ns = step->now_ns;
    advisor_look(&r->advisor, step->now_ns, &load);
    decision_put_advice(&r->said, &r->advisor);
    r->result->looks++;
    rc = said_compare(r, step, "the advisor");
    return rc || theirs
               ? rc
               : error_set(r->err, -EBADMSG, "step %" PRIu64 ", at %" PRId64 " ns: a load that no rank core has",
                           r->result->steps, step->now_ns);
}

/* ---- the log ---- */

static int entry_replay(struct replay *r, uint32_t kind) {
    r->said.used = sizeof(struct decision_head);
    switch (kind) {
    case DECISION_MODEL_THREAD:
        return thread_begin(r);
    case DECISION_MODEL_INIT:
        return core_begin(r);
    case DECISION_MODEL_STEP:
        return core_step(r);
    case DECISION_RANK_INIT:
        return rank_begin(r);
    case DECISION_RANK_STEP:
    case DECISION_RANK_TAKE:
        return rank_step(r, kind == DECISION_RANK_TAKE);
    case DECISION_RANK_PARAMETERS:
        return rank_parameters(r);
    case DECISION_RANK_LOAD:
        return rank_load(r);
    case DECISION_ADVICE_INIT:
        return advice_begin(r);
    case DECISION_ADVICE_LOOK:
        return advice_look(r);
    default:
        return bad(r);
    }
}

static int log_replay(struct replay *r, const char *memory, size_t used) {
    int rc = 0;
    for (size_t at = sizeof(struct decision_head); at < used && !rc;) {
        const struct decision_entry *entry = (const struct decision_entry *)(const void *)(memory + at);
        if (used - at < sizeof(*entry) || entry->bytes < sizeof(*entry) || entry->bytes % 8 || entry->bytes > used - at)
            return bad(r);
        r->at = memory + at + sizeof(*entry);
        r->end = memory + at + entry->bytes;
        rc = entry_replay(r, entry->kind);
        at += entry->bytes;
    }
    return rc;
}

int decision_replay(const char *memory, size_t bytes, struct decision_replay *result, struct sy_error *err) {
    *result = (struct decision_replay){0};
    int rc;
    const struct decision_head *head = (const struct decision_head *)(const void *)memory;
    if (bytes < sizeof(*head) || memcmp(head->magic, DECISION_MAGIC, sizeof(head->magic)) != 0 || head->used > bytes ||
        head->used < sizeof(*head))
        return error_set(err, -EINVAL, "this is no log of decisions");
    if (strncmp(head->version, SYMPHONY_VERSION, sizeof(head->version)) != 0)
        return error_set(err, -EINVAL, "a log of Symphony %.31s, not %s", head->version, SYMPHONY_VERSION);
    struct replay *r = calloc(1, sizeof(*r));
    char *scratch = malloc(SCRATCH_BYTES);
    if (r && scratch) {
        r->result = result;
        r->err = err;
        result->missed = head->missed;
        decision_log_init(&r->said, scratch, SCRATCH_BYTES);
        rc = log_replay(r, memory, head->used);
        for (uint32_t c = 0; c < r->core_count; c++)
            free(r->cores[c].core);
        for (uint32_t l = 0; l < r->level_count; l++)
            free(r->levels[l]);
        free(r->cores);
        free(r->levels);
        free(r->nodes);
        free(r->rank);
    } else {
        rc = error_set(err, -ENOMEM, "out of memory");
    }
    free(scratch);
    free(r);
    return rc;
}
