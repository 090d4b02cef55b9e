/* links.c - starts a scheduler and the feeders around it, lets them run, and reports. */
#include "lab/stress/links.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link.h"
#include "core/system/clock.h"
#include "core/system/files.h"
#include "core/system/thread.h"
#include "core/util/counter.h"
#include "lab/scenario/scenario.h"
#include "lab/stress/feeder.h"
#include "model/repository/model_description.h"
#include "sched/threads/model_thread.h"
#include "sched/threads/rank_thread.h"
#include "server/models/scenario_served.h"
#include "server/process/server.h"
#include "server/threads/model_control.h"

#define BEAT_NS         (500 * NS_PER_MS) /* time between heartbeats */
#define POLL_NS         NS_PER_MS
#define JOIN_NS         (120 * NS_PER_S) /* time in which all members must have joined */
#define DRAIN_NS        (10 * NS_PER_S)  /* time without a request coming back after which none will */
#define FILES_OTHERWISE 256

struct links {
    const struct links_config *config;
    struct feeder_world world;
    struct served_model *models, *places; /* models of the scenario; empty places of the scheduler */
    struct profile **profiles;
    uint32_t place_count;
    struct server *server;
    struct server_cluster cluster;
    struct feeder **feeders; /* [config->feeders] */
    cpu_set_t before;
};

/* The counts and times up to a moment. */
struct links_moment {
    int64_t now_ns;
    uint64_t fed, unsent, refused, refusals[REFUSAL_COUNT], lost, planned, late, expired, batches;
    uint64_t turns, reads, sends, frames_in, frames_out, bytes_in, bytes_out;
    int64_t link_ns, model_ns, rank_ns, feeder_ns;
    struct histogram candidate, grant, plan, decision, way;
    uint64_t *model_fed, *model_bad; /* [model_count] */
};

/* ---- set-up ---- */

static int world_make(struct links *l, struct sy_error *err) {
    const struct links_config *c = l->config;
    struct feeder_world *w = &l->world;
    double shares = 0;

    int rc = scenario_served_models(c->scenario, &l->models, &l->profiles, &w->model_count, err);
    if (rc < 0)
        return rc;
    char **descriptions = calloc(w->model_count, sizeof(*descriptions));
    w->config = c;
    w->models = l->models;
    w->type = c->scenario->types[0].name;
    w->reply_margin_ns = c->scenario->reply_margin_ns;
    w->profiles = l->profiles;
    w->descriptions = descriptions;
    w->shares = calloc(w->model_count, sizeof(*w->shares));
    w->done = aligned_alloc(CACHE_LINE, (size_t)c->feeders * c->feeders * sizeof(*w->done));
    w->slots = calloc(HELLO_NUMBERS, sizeof(*w->slots));
    w->feeder_of = malloc(HELLO_NUMBERS);
    w->feeders = l->feeders = calloc(c->feeders, sizeof(struct feeder *));
    if (!descriptions || !w->shares || !w->done || !w->slots || !w->feeder_of || !w->feeders)
        return error_set(err, -ENOMEM, "no memory for %u models", w->model_count);
    memset(w->done, 0, (size_t)c->feeders * c->feeders * sizeof(*w->done));
    memset(w->feeder_of, 0xff, HELLO_NUMBERS);
    for (uint32_t i = 0; i < c->feeders * c->feeders; i++)
        if (ring_init(&w->done[i], LINKS_OUTSTANDING_MAX, sizeof(uint64_t)) < 0)
            return error_set(err, -ENOMEM, "no memory for %u feeders", c->feeders);
    for (uint32_t i = 0; i < w->model_count; i++) {
        struct described_profile profile = {.profile = l->profiles[i]};
        snprintf(profile.type, sizeof(profile.type), "%s", c->scenario->types[0].name);
        descriptions[i] = model_description_write(&l->models[i], &profile, 1, NULL, err);
        if (!descriptions[i])
            return -ENOMEM;
        shares += c->scenario->models[i].share;
    }
    for (uint32_t i = 0; i < w->model_count; i++)
        w->shares[i] = c->scenario->models[i].share / shares;
    return 0;
}

/* The cores of the scheduler, or of the feeders. */
static void pin_to(const struct links *l, bool feeders) {
    cpu_set_t all = l->config->cores, part;
    uint32_t count = (uint32_t)CPU_COUNT(&all);
    if (count == 0)
        return;
    CPU_ZERO(&part);
    int last = thread_core_nth(&all, count - 1);
    if (feeders || count == 1) {
        CPU_SET(last, &part);
    } else {
        part = all;
        CPU_CLR(last, &part);
    }
    thread_pin(&part);
}

static int scheduler_start(struct links *l, struct sy_error *err) {
    const struct links_config *c = l->config;
    l->place_count = l->world.model_count + CONTROL_SPARE;
    l->places = calloc(l->place_count, sizeof(*l->places));
    if (!l->places)
        return error_set(err, -ENOMEM, "no memory for the places of %u models", l->place_count);
    l->cluster = (struct server_cluster){
        .role = LINK_SCHEDULER,
        .name = "stress",
        .host = "127.0.0.1",
        .beat_ns = BEAT_NS,
        .accelerators_max = c->backends * c->accelerators,
    };
    struct server_config config = {
        .models = l->places,
        .model_count = l->place_count,
        .cluster = &l->cluster,
        .model_threads = c->model_threads,
        .rank_threads = c->rank_threads,
        .orders_loads = !c->scenario->policy->central, /* as a scheduler of the program */
        .policy = c->scenario->policy,
        .policy_options = c->scenario->policy_options,
        .host = "127.0.0.1",
        .grpc_port = -1,
        .metrics_port = -1,
        .queue_max = LINKS_OUTSTANDING_MAX,
        .record_bytes = c->record_bytes,
        .learn = true,
    };
    pin_to(l, false);
    int rc = server_start(&l->server, &config, err);
    if (rc < 0)
        return rc;
    l->world.scheduler =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)server_ports(l->server).cluster)};
    l->world.scheduler.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return 0;
}

static int feeders_start(struct links *l, struct sy_error *err) {
    int rc = 0;
    pin_to(l, true);
    for (uint32_t i = 0; i < l->config->feeders && rc == 0; i++)
        rc = feeder_make(&l->feeders[i], &l->world, i, err);
    for (uint32_t i = 0; i < l->config->feeders && rc == 0; i++)
        rc = feeder_start(l->feeders[i], err);
    return rc;
}

static void links_free(struct links *l) {
    struct feeder_world *w = &l->world;
    for (uint32_t i = 0; l->feeders && i < l->config->feeders; i++)
        feeder_end(l->feeders[i]);
    if (l->server)
        server_stop(l->server, 0, 0);
    for (uint32_t i = 0; l->feeders && i < l->config->feeders; i++)
        feeder_stop(l->feeders[i]);
    for (uint32_t i = 0; l->feeders && i < l->config->feeders; i++)
        feeder_free(l->feeders[i]);
    for (uint32_t i = 0; w->done && i < l->config->feeders * l->config->feeders; i++)
        ring_destroy(&w->done[i]);
    for (uint32_t i = 0; w->descriptions && i < w->model_count; i++)
        free(w->descriptions[i]);
    free((void *)(uintptr_t)w->descriptions);
    free(w->shares);
    free(w->done);
    free((void *)w->slots);
    free(w->feeder_of);
    free(l->feeders);
    free(l->places);
    scenario_models_free(l->config->scenario, l->models, l->profiles, w->model_count);
}

/* ---- running ---- */

static const char *failure_of(const struct links *l) {
    const char *failure = NULL;
    for (uint32_t i = 0; i < l->config->feeders && !failure; i++)
        failure = feeder_failure(l->feeders[i]);
    return failure;
}

static bool all_serve(const struct links *l) {
    const struct wiring *w = server_scheduler(l->server).wiring;
    for (uint32_t i = 0; i < l->config->feeders; i++)
        if (!feeder_joined(l->feeders[i]))
            return false;
    for (uint32_t a = 0; a < w->accelerators; a++)
        if (wiring_accelerator_state(w, a) != ACCELERATOR_SERVING)
            return false;
    return true;
}

static int join_wait(const struct links *l, struct links_result *r, struct sy_error *err) {
    int64_t begin_ns = clock_now_ns();
    while (!all_serve(l)) {
        const char *failure = failure_of(l);
        if (failure)
            return error_set(err, -EIO, "%s", failure);
        if (clock_now_ns() - begin_ns > JOIN_NS)
            return error_set(err, -ETIMEDOUT, "not all frontends and backends had joined after %lld s",
                             (long long)(JOIN_NS / NS_PER_S));
        clock_sleep(POLL_NS);
    }
    r->joined_s = (double)(clock_now_ns() - begin_ns) / 1e9;
    return 0;
}

static void feed(const struct links *l, bool feeds) {
    for (uint32_t i = 0; i < l->config->feeders; i++)
        feeder_feed(l->feeders[i], feeds);
}

static void pass(const struct links *l, double seconds) {
    int64_t until_ns = clock_now_ns() + (int64_t)(seconds * 1e9);
    for (int64_t left_ns; (left_ns = until_ns - clock_now_ns()) > 0 && !failure_of(l);)
        clock_sleep(left_ns < 100 * NS_PER_MS ? left_ns : 100 * NS_PER_MS);
}

/* Waits until all requests have come back, and reports the mistakes that the feeders found. */
static void verdict(const struct links *l, struct links_result *r) {
    uint64_t back_before = 0, fed = 0, back = 0;
    bool drained = false;
    feed(l, false);
    for (int64_t until_ns = clock_now_ns() + DRAIN_NS; !drained && clock_now_ns() < until_ns && !failure_of(l);) {
        drained = true;
        fed = back = 0;
        for (uint32_t i = 0; i < l->config->feeders; i++) {
            drained = feeder_drained(l->feeders[i]) && drained;
            fed += counter_get(&feeder_counts(l->feeders[i])->fed);
            back += counter_get(&feeder_counts(l->feeders[i])->back);
        }
        if (back > back_before)
            until_ns = clock_now_ns() + DRAIN_NS;
        back_before = back;
        if (!drained)
            clock_sleep(POLL_NS);
    }
    const char *failure = failure_of(l);
    r->wrong = failure || !drained;
    if (failure)
        snprintf(r->wrong_text, sizeof(r->wrong_text), "%s", failure);
    else if (!drained)
        snprintf(r->wrong_text, sizeof(r->wrong_text), "%llu of %llu requests never came back",
                 (unsigned long long)(fed - back), (unsigned long long)fed);
}

/* ---- figures ---- */

static void feeders_add(const struct links *l, struct links_moment *m) {
    for (uint32_t i = 0; i < l->config->feeders; i++) {
        const struct feeder_counts *c = feeder_counts(l->feeders[i]);
        m->fed += counter_get(&c->fed);
        m->unsent += counter_get(&c->unsent);
        for (uint32_t k = 0; k < REFUSAL_COUNT; k++) {
            m->refusals[k] += counter_get(&c->refused[k]);
            m->refused += counter_get(&c->refused[k]);
        }
        m->lost += counter_get(&c->lost);
        m->planned += counter_get(&c->planned);
        m->late += counter_get(&c->late);
        m->expired += counter_get(&c->expired);
        m->batches += counter_get(&c->batches);
        histogram_merge(&m->way, &c->way);
        m->feeder_ns += link_loop_cpu_ns(feeder_loop(l->feeders[i]));
        for (uint32_t k = 0; k < l->world.model_count; k++) {
            m->model_fed[k] += counter_get(&c->model_fed[k]);
            m->model_bad[k] += counter_get(&c->model_bad[k]);
        }
    }
}

static void scheduler_add(const struct links *l, struct links_moment *m) {
    struct server_scheduler s = server_scheduler(l->server);
    const struct link_loop *loop = scheduler_link_loop(s.link);
    for (uint32_t i = 0; i < s.wiring->model_threads; i++) {
        const struct model_thread_times *times = model_thread_times(s.model_threads[i]);
        histogram_merge(&m->candidate, &times->candidate);
        histogram_merge(&m->plan, &times->plan);
        histogram_merge(&m->decision, &times->decision);
        m->model_ns += model_thread_cpu_ns(s.model_threads[i]);
    }
    for (uint32_t k = 0; k < s.wiring->rank_threads; k++) {
        histogram_merge(&m->grant, rank_thread_grant_times(s.rank_threads[k]));
        m->rank_ns += rank_thread_cpu_ns(s.rank_threads[k]);
    }
    m->link_ns = link_loop_cpu_ns(loop);
    m->turns = counter_get(&loop->counts.turns);
    m->reads = counter_get(&loop->counts.reads);
    m->sends = counter_get(&loop->counts.sends);
    m->frames_in = counter_get(&loop->counts.frames_in);
    m->frames_out = counter_get(&loop->counts.frames_out);
    m->bytes_in = counter_get(&loop->counts.bytes_in);
    m->bytes_out = counter_get(&loop->counts.bytes_out);
}

static int moment_take(const struct links *l, struct links_moment *m) {
    m->model_fed = calloc(l->world.model_count, sizeof(*m->model_fed));
    m->model_bad = calloc(l->world.model_count, sizeof(*m->model_bad));
    if (!m->model_fed || !m->model_bad)
        return -ENOMEM;
    m->now_ns = clock_now_ns();
    feeders_add(l, m);
    scheduler_add(l, m);
    return 0;
}

static double over(double a, double b) {
    return b > 0 ? a / b : 0;
}

static struct links_kind kind_of(uint32_t threads, int64_t cpu_ns, double requests, double ns) {
    return (struct links_kind){
        .threads = threads, .cpu_ns = over((double)cpu_ns, requests), .ran = over((double)cpu_ns, ns * threads)};
}

static void figures_between(const struct links *l, const struct links_moment *from, struct links_moment *to,
                            struct links_result *r) {
    double ns = (double)(to->now_ns - from->now_ns), fed = (double)(to->fed - from->fed);
    double planned = (double)(to->planned - from->planned), refused = (double)(to->refused - from->refused);
    double lost = (double)(to->lost - from->lost), away = (double)(to->unsent - from->unsent);
    double late = (double)(to->late - from->late), expired = (double)(to->expired - from->expired);
    double finished = planned + refused + lost + away;

    r->seconds = ns / 1e9;
    r->requests = to->fed - from->fed;
    r->batches = to->batches - from->batches;
    r->requests_per_s = fed / r->seconds;
    r->offered_per_s = l->config->rate > 0 ? l->config->rate : r->requests_per_s;
    r->batches_per_s = (double)r->batches / r->seconds;
    r->batch_mean = over(planned, (double)r->batches);
    r->goodput_per_s = (planned - late - expired) / r->seconds;
    r->refused_rate = over(refused, finished);
    for (uint32_t k = 0; k < REFUSAL_COUNT; k++)
        r->refused_rates[k] = over((double)(to->refusals[k] - from->refusals[k]), finished);
    r->late_rate = over(late, finished);
    r->expired_rate = over(expired, finished);
    r->lost_rate = over(lost, finished);
    r->unsent_rate = over(away, finished);
    r->bad_rate = r->refused_rate + r->late_rate + r->expired_rate + r->lost_rate + r->unsent_rate;
    for (uint32_t i = 0; i < l->world.model_count; i++) {
        double bad =
            over((double)(to->model_bad[i] - from->model_bad[i]), (double)(to->model_fed[i] - from->model_fed[i]));
        if (i > 0 && bad <= r->worst_bad_rate)
            continue;
        r->worst_bad_rate = bad;
        snprintf(r->worst_model, sizeof(r->worst_model), "%s", l->models[i].name);
    }
    r->candidate = stress_times_between(&from->candidate, &to->candidate);
    r->grant = stress_times_between(&from->grant, &to->grant);
    r->plan = stress_times_between(&from->plan, &to->plan);
    r->decision = stress_times_between(&from->decision, &to->decision);
    r->way = stress_times_between(&from->way, &to->way);
    r->link = kind_of(1, to->link_ns - from->link_ns, fed, ns);
    r->model = kind_of(l->config->model_threads, to->model_ns - from->model_ns, fed, ns);
    r->rank = kind_of(l->config->rank_threads, to->rank_ns - from->rank_ns, fed, ns);
    r->feeder = kind_of(l->config->feeders, to->feeder_ns - from->feeder_ns, fed, ns);
    r->traffic = (struct links_traffic){
        .turns = (double)(to->turns - from->turns) / r->seconds,
        .reads = (double)(to->reads - from->reads) / r->seconds,
        .sends = (double)(to->sends - from->sends) / r->seconds,
        .frames_in = (double)(to->frames_in - from->frames_in) / r->seconds,
        .frames_out = (double)(to->frames_out - from->frames_out) / r->seconds,
        .bytes_in = (double)(to->bytes_in - from->bytes_in) / r->seconds,
        .bytes_out = (double)(to->bytes_out - from->bytes_out) / r->seconds,
    };
}

static int measure(const struct links *l, struct links_result *r, struct sy_error *err) {
    struct links_moment *moments = calloc(2, sizeof(*moments));
    int rc = moments ? 0 : -ENOMEM;

    feed(l, true);
    pass(l, l->config->warmup_s);
    rc = rc < 0 ? rc : moment_take(l, &moments[0]);
    if (rc == 0)
        pass(l, l->config->seconds);
    rc = rc < 0 ? rc : moment_take(l, &moments[1]);
    if (rc == 0)
        figures_between(l, &moments[0], &moments[1], r);
    for (int i = 0; moments && i < 2; i++) {
        struct links_moment *m = &moments[i];
        free(m->model_fed);
        free(m->model_bad);
    }
    free(moments);
    return rc < 0 ? error_set(err, rc, "no memory for what is measured") : 0;
}

int links_run(const struct links_config *config, struct links_result *result, struct sy_error *err) {
    struct links *l = calloc(1, sizeof(*l));
    int rc = -ENOMEM;

    memset(result, 0, sizeof(*result));
    if (!l)
        return error_set(err, rc, "no memory");
    l->config = config;
    thread_cores_allowed(&l->before);
    uint64_t files = 2 * ((uint64_t)config->frontends + config->backends) + FILES_OTHERWISE;
    if (files_allow(files) < files) {
        rc = error_set(err, -EMFILE, "%llu files at once are more than this process may open (ulimit -n)",
                       (unsigned long long)files);
        goto end;
    }
    if ((rc = world_make(l, err)) < 0 || (rc = scheduler_start(l, err)) < 0 || (rc = feeders_start(l, err)) < 0 ||
        (rc = join_wait(l, result, err)) < 0 || (rc = measure(l, result, err)) < 0)
        goto end;
    verdict(l, result);
end:
    links_free(l);
    thread_pin(&l->before);
    free(l);
    return rc;
}
