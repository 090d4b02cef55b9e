/* checker.c - checks the invariants of a run. */
#include "lab/sim/checker.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum request_state { UNKNOWN, WAITING, REFUSED, STARTED, ANSWERED };

struct checked_request {
    int64_t latest_ns; /* time by which the request must have left the scheduler */
    int64_t deadline_ns;
    uint32_t model, items;
    bool best_effort;
    enum request_state state;
};

struct checked_accelerator {
    bool running;
    uint32_t model;      /* the model that runs */
    uint64_t pages;      /* 16 MiB pages of the models that are loaded */
    uint32_t subcluster; /* sub-cluster of the accelerator */
};

/* A model; used only with several sub-clusters. */
struct checked_model {
    uint32_t subcluster; /* sub-cluster of the model; UINT32_MAX: none */
};

struct checker {
    const struct sim_config *config;
    uint64_t requests_max, requests_seen; /* those from the second on have not arrived, nor been written */
    struct checked_request *requests;     /* [requests_max] by handle */
    struct checked_accelerator *accelerators;
    struct checked_model *models;
    bool *loaded;         /* [accelerators][models], where memory is limited */
    int64_t wait_most_ns; /* longest time that a move may take; negative: any time */
    /* fields of the batch that is being started */
    int64_t now_ns, finish_ns;
    uint32_t model, accelerator, items, items_left, items_first;
    bool best_effort; /* whether the batch's first request is best effort */
    bool lateness_allowed;
    char wrong[256]; /* sentence about the first broken invariant; "": none */
};

static size_t align(size_t bytes) {
    return (bytes + 15) & ~(size_t)15;
}

static size_t loaded_bytes(const struct sim_config *config) {
    return config->memory_bytes ? (size_t)config->accelerators * config->model_count * sizeof(bool) : 0;
}

size_t checker_bytes(const struct sim_config *config, uint64_t requests_max) {
    return align(sizeof(struct checker)) + align(config->accelerators * sizeof(struct checked_accelerator)) +
           align(config->model_count * sizeof(struct checked_model)) + align(loaded_bytes(config)) +
           align(requests_max * sizeof(struct checked_request));
}

static void __attribute__((format(printf, 2, 3))) wrong(struct checker *checker, const char *format, ...) {
    if (checker->wrong[0])
        return; /* the first one explains the others */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(checker->wrong, sizeof(checker->wrong), format, arguments);
    va_end(arguments);
}

static const char *state_name(enum request_state state) {
    static const char *const names[] = {"unknown", "sent", "refused", "started", "answered"};
    return names[state];
}

/* The request of a handle if it waits; else NULL, after noting the mistake. */
static struct checked_request *waiting(struct checker *checker, uint64_t handle, const char *what) {
    handle = sim_request_number(handle);
    if (handle >= checker->requests_seen || checker->requests[handle].state == UNKNOWN) {
        wrong(checker, "request %" PRIu64 " is %s but never arrived", handle, what);
        return NULL;
    }
    struct checked_request *request = &checker->requests[handle];
    if (request->state != WAITING) {
        wrong(checker, "request %" PRIu64 " is %s after it was %s", handle, what, state_name(request->state));
        return NULL;
    }
    return request;
}

static void on_arrived(void *context, int64_t now_ns, uint64_t handle, uint32_t model, uint32_t items, uint8_t priority,
                       int64_t deadline_ns) {
    struct checker *checker = context;
    handle = sim_request_number(handle);
    if (handle >= checker->requests_max ||
        (handle < checker->requests_seen && checker->requests[handle].state != UNKNOWN)) {
        wrong(checker, "request %" PRIu64 " arrives twice or is one too many", handle);
        return;
    }
    while (checker->requests_seen <= handle)
        checker->requests[checker->requests_seen++].state = UNKNOWN;
    checker->requests[handle] = (struct checked_request){
        .latest_ns = deadline_ns > now_ns ? deadline_ns : now_ns, /* one that comes too late is refused at once */
        .deadline_ns = deadline_ns,
        .model = model,
        .items = items,
        .best_effort = priority == PRIORITY_BEST_EFFORT,
        .state = WAITING,
    };
}

static void on_refused(void *context, int64_t now_ns, uint32_t model, uint64_t handle, enum refusal reason) {
    struct checker *checker = context;
    struct checked_request *request = waiting(checker, handle, "refused");
    if (!request)
        return;
    if (request->model != model)
        wrong(checker, "request %" PRIu64 " is refused by another model", handle);
    if (reason == REFUSAL_NONE)
        wrong(checker, "request %" PRIu64 " is refused without a reason", handle);
    if (now_ns > request->latest_ns && !checker->lateness_allowed)
        wrong(checker, "request %" PRIu64 " is refused at %" PRId64 ", after its deadline %" PRId64, handle, now_ns,
              request->deadline_ns);
    request->state = REFUSED;
}

/* Best effort runs no longer than an ordinary batch, of which two fit into the SLO; but one request runs in any case.
 * Tables that are learned are not known here. */
static bool too_long(const struct checker *checker) {
    const struct sim_config *config = checker->config;
    const struct sim_model *model = &config->models[checker->model];
    if (!checker->best_effort || checker->items == checker->items_first || config->learn || model->slo_spread > 0)
        return false;
    return model->profiles[config->accelerator_type[checker->accelerator]]->latency_ns[checker->items] >
           model->slo_ns / 2;
}

static void batch_complete(struct checker *checker) {
    if (checker->items_left)
        wrong(checker, "a batch lacks %" PRIu32 " of its items", checker->items_left);
    if (too_long(checker))
        wrong(checker, "a batch of %" PRIu32 " items of best effort takes too long", checker->items);
    checker->items_left = 0;
    checker->best_effort = false;
}

static void on_sent(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items,
                    int64_t expected_end_ns) {
    struct checker *checker = context;
    const struct sim_config *config = checker->config;
    batch_complete(checker);
    checker->now_ns = now_ns;
    checker->finish_ns = expected_end_ns;
    checker->model = model;
    checker->items = checker->items_left = items;
    checker->items_first = 0;
    checker->accelerator = accelerator;
    if (accelerator >= config->accelerators) {
        wrong(checker, "there is no accelerator %" PRIu32, accelerator);
        return;
    }
    if (items < 1 || items > config->models[model].batch_max)
        wrong(checker, "a batch of %" PRIu32 " items, of at most %" PRIu32, items, config->models[model].batch_max);
    if (!config->models[model].profiles[config->accelerator_type[accelerator]])
        wrong(checker, "model %" PRIu32 " does not run on accelerator %" PRIu32, model, accelerator);
    if (config->subclusters > 1 && checker->models[model].subcluster != checker->accelerators[accelerator].subcluster)
        wrong(checker, "model %" PRIu32 " of sub-cluster %" PRIu32 " has accelerator %" PRIu32 " of %" PRIu32, model,
              checker->models[model].subcluster, accelerator, checker->accelerators[accelerator].subcluster);
}

static void on_joined(void *context, uint64_t handle) {
    struct checker *checker = context;
    struct checked_request *request = waiting(checker, handle, "started");
    if (!request)
        return;
    request->state = STARTED;
    if (checker->items_first == 0) {
        checker->items_first = request->items;
        checker->best_effort = request->best_effort;
    }
    if (request->best_effort != checker->best_effort)
        wrong(checker, "request %" PRIu64 " is in a batch of another class", handle);
    if (request->model != checker->model)
        wrong(checker, "request %" PRIu64 " is in a batch of another model", handle);
    if (checker->finish_ns > request->deadline_ns && !checker->lateness_allowed)
        wrong(checker,
              "request %" PRIu64 " is started at %" PRId64 " to end at %" PRId64 ", after its deadline %" PRId64,
              handle, checker->now_ns, checker->finish_ns, request->deadline_ns);
    if (request->items > checker->items_left)
        wrong(checker, "request %" PRIu64 " makes a batch larger than it says", handle);
    else
        checker->items_left -= request->items;
}

/* A request of a batch that is over gets its next state. */
static void started_to(struct checker *checker, uint64_t handle, enum request_state next, const char *what) {
    handle = sim_request_number(handle);
    enum request_state state = handle < checker->requests_seen ? checker->requests[handle].state : UNKNOWN;
    if (state != STARTED)
        wrong(checker, "request %" PRIu64 " is %s, but was %s", handle, what, state_name(state));
    else
        checker->requests[handle].state = next;
}

static void on_answered(void *context, int64_t now_ns, uint64_t handle, bool ran) {
    (void)now_ns, (void)ran;
    started_to(context, handle, ANSWERED, "answered");
}

static void on_sent_again(void *context, int64_t now_ns, uint64_t handle) {
    (void)now_ns;
    started_to(context, handle, WAITING, "sent again");
}

static bool *loaded_of(struct checker *checker, uint32_t accelerator, uint32_t model) {
    return &checker->loaded[(size_t)accelerator * checker->config->model_count + model];
}

static void on_loaded(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, bool in, int64_t begin_ns) {
    struct checker *checker = context;
    struct checked_accelerator *a = &checker->accelerators[accelerator];
    uint64_t page = 16 << 20, pages = (checker->config->models[model].weights_bytes + page - 1) / page;
    pages = pages ? pages : 1;
    if (begin_ns > now_ns || *loaded_of(checker, accelerator, model) == in)
        wrong(checker, "model %" PRIu32 " is %s accelerator %" PRIu32 " twice, until %" PRId64, model,
              in ? "loaded onto" : "unloaded from", accelerator, now_ns);
    if (!in && a->running && a->model == model)
        wrong(checker, "model %" PRIu32 " is unloaded at %" PRId64 " from accelerator %" PRIu32 " that runs it", model,
              now_ns, accelerator);
    *loaded_of(checker, accelerator, model) = in;
    a->pages += in ? pages : -pages;
    if (a->pages > checker->config->memory_bytes / page)
        wrong(checker, "accelerator %" PRIu32 " has %" PRIu64 " pages of weights at %" PRId64, accelerator, a->pages,
              now_ns);
}

static void on_began(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items,
                     int64_t end_ns) {
    struct checker *checker = context;
    (void)items, (void)end_ns;
    if (checker->config->memory_bytes && !*loaded_of(checker, accelerator, model))
        wrong(checker, "accelerator %" PRIu32 " runs model %" PRIu32 " at %" PRId64 " without its weights", accelerator,
              model, now_ns);
    checker->accelerators[accelerator].model = model;
    if (checker->accelerators[accelerator].running)
        wrong(checker, "accelerator %" PRIu32 " begins a second batch at %" PRId64, accelerator, now_ns);
    checker->accelerators[accelerator].running = true;
}

static void on_ended(void *context, int64_t now_ns, uint32_t accelerator) {
    struct checker *checker = context;
    if (!checker->accelerators[accelerator].running)
        wrong(checker, "accelerator %" PRIu32 " ends at %" PRId64 " what it does not run", accelerator, now_ns);
    checker->accelerators[accelerator].running = false;
}

/* A model may move only from one sub-cluster to none, and from none to one, so that it is in one at a time. */
static void on_assigned(void *context, int64_t now_ns, uint32_t model, uint32_t subcluster) {
    struct checker *checker = context;
    uint32_t before = checker->models[model].subcluster;
    if (subcluster != UINT32_MAX && subcluster >= checker->config->subclusters)
        wrong(checker, "there is no sub-cluster %" PRIu32, subcluster);
    if ((before == UINT32_MAX) == (subcluster == UINT32_MAX))
        wrong(checker, "model %" PRIu32 " goes from %" PRIu32 " to %" PRIu32 " at %" PRId64, model, before, subcluster,
              now_ns);
    checker->models[model].subcluster = subcluster;
}

static void on_moved(void *context, int64_t now_ns, uint32_t model, int64_t wait_ns) {
    struct checker *checker = context;
    if (wait_ns < 0 || (checker->wait_most_ns >= 0 && wait_ns > checker->wait_most_ns))
        wrong(checker, "model %" PRIu32 " was without a rank core for %" PRId64 " ns until %" PRId64 ", of %" PRId64,
              model, wait_ns, now_ns, checker->wait_most_ns);
}

void checker_init(struct checker *checker, const struct sim_config *config, uint64_t requests_max,
                  struct sim_observer *observer) {
    memset(checker, 0, checker_bytes(config, 0)); /* runs are many and short: most of the requests are never there */
    checker->config = config;
    checker->requests_max = requests_max;
    checker->requests = (struct checked_request *)((char *)checker + checker_bytes(config, 0));
    checker->accelerators = (struct checked_accelerator *)((char *)checker + align(sizeof(*checker)));
    checker->models = (struct checked_model *)((char *)checker->accelerators +
                                               align(config->accelerators * sizeof(*checker->accelerators)));
    checker->loaded = (bool *)((char *)checker->models + align(config->model_count * sizeof(*checker->models)));
    for (uint32_t a = 0; a < config->accelerators; a++) { /* those of a type are dealt to the sub-clusters in turn */
        uint32_t before = 0;
        for (uint32_t b = 0; b < a; b++)
            before += config->accelerator_type[b] == config->accelerator_type[a];
        checker->accelerators[a].subcluster = config->subclusters > 1 ? before % config->subclusters : 0;
    }
    for (uint32_t m = 0; m < config->model_count; m++)
        checker->models[m].subcluster = UINT32_MAX;
    /* the old rank core grants, is answered, lets go, and the new one hears: four messages at most */
    checker->wait_most_ns = config->forced_away > 0 ? -1 : 4 * (config->message_ns + config->message_jitter_ns);
    *observer = (struct sim_observer){
        .context = checker,
        .arrived = on_arrived,
        .refused = on_refused,
        .sent = on_sent,
        .joined = on_joined,
        .answered = on_answered,
        .sent_again = on_sent_again,
        .began = on_began,
        .ended = on_ended,
        .assigned = on_assigned,
        .moved = on_moved,
        .loaded = on_loaded,
    };
}

void checker_ignore_deadlines(struct checker *checker) {
    checker->lateness_allowed = true;
}

const char *checker_verdict(struct checker *checker, const struct sim_result *result) {
    batch_complete(checker);
    for (uint64_t handle = 0; handle < checker->requests_seen; handle++)
        if (checker->requests[handle].state == WAITING || checker->requests[handle].state == STARTED)
            wrong(checker, "request %" PRIu64 " of model %" PRIu32 " is lost: it was %s, and never answered", handle,
                  checker->requests[handle].model, state_name(checker->requests[handle].state));
    for (uint32_t a = 0; a < checker->config->accelerators; a++)
        if (checker->accelerators[a].running)
            wrong(checker, "accelerator %" PRIu32 " never ends its batch", a);
    for (uint32_t m = 0; m < checker->config->model_count && checker->config->subclusters > 1; m++)
        if (checker->models[m].subcluster == UINT32_MAX)
            wrong(checker, "model %" PRIu32 " is of no sub-cluster in the end", m);
    if (result->stuck)
        wrong(checker, "the rank core lost %" PRIu32 " accelerators", result->stuck);
    if (result->unanswered)
        wrong(checker, "%" PRIu32 " requests are left in the pool", result->unanswered);
    return checker->wrong[0] ? checker->wrong : NULL;
}
