/* virtual_cluster.c - draws clusters, starts roles, looks at what they have inside. */
#include "sim/virtual_cluster.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cluster/roles/backend_link_state.h"
#include "cluster/roles/frontend_link_state.h"
#include "cluster/roles/scheduler_link_state.h"
#include "core/util/assert.h"
#include "model/config/preparations.h"
#include "model/repository/repository.h"
#include "server/commands/cli.h"
#include "server/models/deployment.h"

#define WRONGS_SHOWN     5
#define TERMS_KEPT       256
#define OFFSET_MOST_NS   (3600 * NS_PER_S)
#define DRIFT_MOST_PPB   200000
#define OLD_NS           (20LL * 365 * 86400 * NS_PER_S)
#define BACKENDS_PARTIAL 3
#define INPUTS_MIB       256              /* for the largest items, at the highest rate, for an SLO */
#define CORDON_NS        (50 * NS_PER_MS) /* from one order to the next */
#define ENSEMBLE         "whole"
#define ENSEMBLE_BATCH   16

struct virtual_cluster cluster;

static struct { uint64_t term, incarnation; } terms[TERMS_KEPT];
static uint32_t term_count;

void cluster_wrong(const char *format, ...) {
    va_list arguments;
    if (cluster.wrongs++ >= WRONGS_SHOWN)
        return;
    fprintf(stderr, "seed %llu, %.6f s: ", (unsigned long long)cluster.seed,
            (double)(virtual_world.now_ns - VIRTUAL_BEGIN_NS) / NS_PER_S);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* ---- drawing ---- */

/* PLAIN is a number with which those that test_cluster_faults.c keeps are plain. */
enum {
    RENEWED,
    FREEZES,
    HANGS,
    LIMITED,
    HASTY,
    MASS,
    RUDE,
    DISKS,
    LAGS,
    SCARCE,
    GRPC,
    BEATS,
    CUTS,
    LINES,
    STREAMS,
    MOVES,
    TWINS,
    TIGHT,
    OLD,
    ALTERED,
    ROLLS,
    MANY_SHAPES,
    RELISTS,
    PLAIN = 148
};

/* Whether a cluster has what one in so many has; the world does not draw it, so that the others run as they did. */
static bool has(uint32_t what, uint64_t one_of) {
    struct rng rng;
    rng_seed(&rng, cluster.seed * 4096 + what);
    return rng_below(&rng, one_of) == 0;
}

/* What half of the clusters have some of. */
static void more_draw(void) {
    bool fails = !cluster.gentle;
    cluster.beat_ms = 100;
    cluster.plain = has(PLAIN, 2);
    if (cluster.plain)
        return;
    cluster.renewed = has(RENEWED, 4);
    cluster.freezes = has(FREEZES, 4) && fails;
    cluster.hangs = has(HANGS, 6) && fails && !cluster.sets;
    cluster.limited = has(LIMITED, 6) && fails;
    cluster.hasty = has(HASTY, 5) && fails;
    cluster.mass = has(MASS, 5) && fails;
    cluster.rude = has(RUDE, 4);
    cluster.disks = has(DISKS, 3) && fails && cluster.memory;
    cluster.lags = has(LAGS, 2) && cluster.registry;
    cluster.scarce = has(SCARCE, 5) && fails;
    cluster.grpc = has(GRPC, 3);
    cluster.cuts = has(CUTS, 4) && fails;
    cluster.lines = has(LINES, 4);
    cluster.streams = cluster.grpc && has(STREAMS, 2);
    cluster.moves = has(MOVES, 5) && !cluster.sets;
    cluster.twins = has(TWINS, 6) && !cluster.visited && !cluster.partial;
    cluster.tight = has(TIGHT, 4);
    cluster.old = has(OLD, 5);
    cluster.altered = has(ALTERED, 4) && fails;
    cluster.rolls = has(ROLLS, 2) && cluster.versions;
    cluster.relists = has(RELISTS, 4) && fails && cluster.schedulers > 1 && !cluster.registry;
    cluster.many_shapes = cluster.shapes && has(MANY_SHAPES, 2);
    if (has(BEATS, 5))
        cluster.beat_ms = virtual_chance(0.5) ? 200 : 30;
}

static uint32_t host_draw(const char *name, uint32_t number) {
    char full[24];
    bool exact = virtual_chance(0.3);
    snprintf(full, sizeof(full), "%.8s%u", name, number);
    return virtual_host_add(full,
                            cluster.old ? virtual_between(0, OLD_NS)
                            : exact     ? 0
                                        : virtual_between(-900 * NS_PER_S, OFFSET_MOST_NS),
                            exact ? 0 : virtual_between(-DRIFT_MOST_PPB, DRIFT_MOST_PPB));
}

static struct virtual_role *role_add(enum virtual_role_kind kind, uint32_t number, uint32_t host) {
    static const char *const names[] = {"scheduler", "frontend", "backend"};
    CHECK_LT(cluster.role_count, CLUSTER_ROLES_MAX);
    struct virtual_role *r = &cluster.roles[cluster.role_count++];
    r->kind = kind;
    r->number = number;
    r->host = r->host_other = host;
    r->wanted = true;
    snprintf(r->name, sizeof(r->name), "%s%u", names[kind],
             cluster.twins && kind != CLUSTER_SCHEDULER ? number / 2 : number);
    return r;
}

/* The models that a backend has, as a file. */
static void scenario_write(const struct virtual_role *r) {
    FILE *file = fopen(r->scenario, "w");
    CHECK(file);
    double times = cluster.altered ? 0.85 + 0.3 * rng_uniform(&virtual_world.rng) : 1;
    fprintf(file, "cluster: {accelerators: %u, type: t%u}\nmodels:\n", r->accelerators,
            cluster.partial ? 0 : r->number % 2); /* who is slow has others to be compared with */
    for (uint32_t m = 0; m < r->models; m++) {
        uint32_t model = (r->first_model + m) % cluster.models;
        fprintf(file, "  - {name: m%u, alpha_ms: %g, beta_ms: %g, slo_ms: %lld", model,
                times * (0.2 + 0.1 * (model % CLUSTER_MANY_MAX)),
                times * (1.0 + (cluster.memory || cluster.sets ? 0.2 : 1) * (model % CLUSTER_MANY_MAX)),
                (long long)cluster.slo_ms);
        if (cluster.levels)
            fprintf(file, ", priorities: [1, 1, 1]");
        if (cluster.altered && virtual_chance(0.5))
            fprintf(file, ", batch_max: %u", ENSEMBLE_BATCH + (uint32_t)virtual_below(48));
        if (cluster.memory)
            fprintf(file, ", weights_mb: %g, load_ms: 15", 1.048576 * cluster_model_mib(model));
        fprintf(file, "}\n");
    }
    fclose(file);
}

uint32_t cluster_model_mib(uint32_t model) {
    return 8 + 3 * (model % 4);
}

/* Room for two or more models; or for all. */
static uint32_t memory_draw(void) {
    return virtual_chance(0.2) ? 0 : 34 + (uint32_t)virtual_below(40);
}

/* Whether inputs of the model mN are prepared. */
static bool is_prepared(uint32_t n) {
    return cluster.prepared && n % 2 == 0;
}

/* How many names models have. */
static uint32_t names_count(void) {
    return cluster.changes ? cluster.models / 2 : cluster.versions ? 1 : cluster.models;
}

/* The model mN of a step: the first; the second if there is one; and the first again, but what is prepared can only be
 * the ensemble's own input. */
static uint32_t step_model(uint32_t step) {
    return names_count() > 1 && (step == 1 || (step > 1 && cluster.prepared));
}

static void ensemble_write(void) {
    static const char *const tensors[CLUSTER_STEPS + 1] = {"INPUT", "one", "two", "OUTPUT"};
    char path[100];
    snprintf(path, sizeof(path), "%s/" ENSEMBLE, cluster.folder);
    CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
    snprintf(path, sizeof(path), "%s/" ENSEMBLE "/config.pbtxt", cluster.folder);
    FILE *file = fopen(path, "w");
    CHECK(file);
    fprintf(file,
            "platform: \"ensemble\" max_batch_size: %d\n"
            "input { name: \"INPUT\" data_type: TYPE_FP32 dims: %d }\n"
            "output { name: \"OUTPUT\" data_type: TYPE_FP32 dims: %d }\n"
            "ensemble_scheduling {\n",
            ENSEMBLE_BATCH, cluster.shapes ? -1 : (int)cluster.width, cluster.shapes ? -1 : (int)cluster.width);
    for (uint32_t step = 0; step < CLUSTER_STEPS; step++)
        fprintf(file,
                "  step { model_name: \"m%u\" input_map { key: \"INPUT\" value: \"%s\" }\n"
                "         output_map { key: \"OUTPUT\" value: \"%s\" } }\n",
                step_model(step), tensors[step], tensors[step + 1]);
    fprintf(file, "}\n");
    fclose(file);
    snprintf(path, sizeof(path), "%s/" ENSEMBLE "/symphony.yaml", cluster.folder);
    file = fopen(path, "w");
    CHECK(file);
    fprintf(file, "slo_ms: %lld\n", (long long)cluster.slo_ms);
    fclose(file);
}

static void swallow_make(void) {
    cluster.swallow_host = virtual_host_add("swallow", 0, 0);
    for (uint32_t host = 0; host < cluster.swallow_host; host++)
        virtual_link(host, cluster.swallow_host)->cut = true;
}

static void has_trace(void) {
    const struct {
        bool has;
        const char *what;
    } all[] = {{cluster.gentle, "gentle"},     {cluster.partial, "partial"},
               {cluster.ensemble, "ensemble"}, {cluster.prepared, "prepared"},
               {cluster.shapes, "shapes"},     {cluster.levels, "levels"},
               {cluster.chosen, "chosen"},     {cluster.renewed, "renewed"},
               {cluster.freezes, "freezes"},   {cluster.hangs, "hangs"},
               {cluster.limited, "limited"},   {cluster.hasty, "hasty"},
               {cluster.mass, "mass"},         {cluster.rude, "rude"},
               {cluster.disks, "disks"},       {cluster.visited, "visited"},
               {cluster.lags, "lags"},         {cluster.scarce, "scarce"},
               {cluster.grpc, "grpc"},         {cluster.beat_ms != 100, "beats"},
               {cluster.cuts, "cuts"},         {cluster.lines, "lines"},
               {cluster.streams, "streams"},   {cluster.moves, "moves"},
               {cluster.twins, "twins"},       {cluster.tight, "tight"},
               {cluster.old, "old"},           {cluster.altered, "altered"},
               {cluster.rolls, "rolls"},       {cluster.many_shapes, "many-shapes"},
               {cluster.relists, "relists"}};
    char text[300] = "";
    for (size_t i = 0, used = 0; i < ARRAY_COUNT(all); i++)
        used += all[i].has ? (size_t)snprintf(text + used, sizeof(text) - used, " %s", all[i].what) : 0;
    virtual_trace("a cluster:%s", text);
}

void cluster_make(uint64_t seed, const char *folder, enum virtual_cluster_kind kind) {
    static const char *const names[] = {"symphony", "eager", "clockwork", "nexus", "kairos"};
    bool changes = kind == CLUSTER_CHANGES, memory = kind == CLUSTER_MEMORY || (changes && seed % 4 > 0);
    bool sets = kind == CLUSTER_SETS_MANY;
    cluster =
        (struct virtual_cluster){.seed = seed, .folder = folder, .memory = memory, .sets = sets, .changes = changes};
    term_count = 0;
    engine_begin();
    visitors_begin();
    registry_begin();
    cluster.schedulers = 1 + (uint32_t)virtual_below(3);
    cluster.frontends = 1 + (uint32_t)virtual_below(2);
    cluster.backends = 1 + (uint32_t)virtual_below(3);
    cluster.models = 1 + (uint32_t)virtual_below(CLUSTER_MODELS_MAX);
    cluster.slo_ms = 200 + 100 * (int64_t)virtual_below(9);
    cluster.width = virtual_chance(0.5) ? 16 : virtual_chance(0.7) ? 1024 : 16384;
    cluster.registry = cluster.schedulers > 1 && virtual_chance(0.5);
    cluster.names = !cluster.registry && virtual_chance(0.3);
    cluster.gentle = virtual_chance(0.15) && !sets;
    if (cluster.gentle) {
        cluster.backends = cluster.frontends = 2;
        cluster.schedulers += cluster.schedulers == 1;
        cluster.slo_ms = 1500;
    }
    cluster.partial = changes ? seed % 3 == 0 : (seed % 5 == 0 || seed % 5 == 2) && !cluster.gentle && !memory && !sets;
    cluster.versions = cluster.partial && cluster.models > 1 && !changes;
    cluster.backends = cluster.partial ? BACKENDS_PARTIAL : cluster.backends; /* what fails at one can run elsewhere */
    cluster.policy = cluster.gentle || virtual_chance(0.6) ? "deferred" : names[virtual_below(ARRAY_COUNT(names))];
    if (memory) {
        cluster.models = 3 + (uint32_t)virtual_below(CLUSTER_MANY_MAX - 2);
        cluster.slo_ms = 1000 + 100 * (int64_t)virtual_below(10);
        cluster.policy = cluster.gentle || virtual_chance(0.7) ? "deferred" : names[virtual_below(2)];
    }
    if (sets) {
        cluster.models = cluster.backends = CLUSTER_SETS;
        cluster.slo_ms = 1000;
        cluster.policy = virtual_chance(0.7) ? "deferred" : names[virtual_below(2)];
    }
    if (changes) {
        cluster.gentle = false;
        cluster.models = 2 * (1 + (uint32_t)virtual_below(CLUSTER_MANY_MAX / 2));
        cluster.policy = virtual_chance(0.4) ? "deferred" : names[1 + virtual_below(memory ? 3 : 4)];
    }
    cluster.levels = seed % 7 == 1; /* not drawn: older seeds run as they did */
    cluster.prepared = seed % 8 == 6;
    cluster.visited = seed % 11 == 5;
    cluster.shapes = seed % 9 == 8 && !cluster.prepared;
    cluster.chosen = seed % 10 == 9 && !memory && !sets;
    cluster.slo_ms = cluster.chosen ? 200 : cluster.slo_ms;
    cluster.ensemble = seed % 6 == 4 && !sets && !(cluster.prepared && names_count() == 1);
    if (cluster.ensemble)
        ensemble_write();
    more_draw();
    uint32_t model_threads = 1 + virtual_chance(0.3);
    uint32_t rank_threads = (memory || sets) && seed % 3 == 1 ? 2 : 1; /* nor is this */
    uint32_t frontend_threads = 1 + virtual_chance(0.3);
    for (uint32_t i = 0; i < cluster.schedulers; i++)
        role_add(CLUSTER_SCHEDULER, i, host_draw("sched", i));
    for (uint32_t i = 0; i < cluster.frontends; i++)
        role_add(CLUSTER_FRONTEND, i, host_draw("front", i));
    for (uint32_t i = 0; i < cluster.backends; i++) {
        bool beside = virtual_chance(0.25);
        uint32_t host = beside ? cluster.roles[cluster.schedulers + i % cluster.frontends].host : host_draw("back", i);
        struct virtual_role *r = role_add(CLUSTER_BACKEND, i, host);
        r->tcp = beside && virtual_chance(0.2);
        r->models =
            i == 0 || cluster.gentle || cluster.partial ? cluster.models : 1 + (uint32_t)virtual_below(cluster.models);
        r->first_model = i == 0 ? 0 : (uint32_t)virtual_below(cluster.models);
        if (sets) {
            r->models = 2;
            r->first_model = i;
        }
        r->accelerators = 1 + (uint32_t)virtual_below(2);
        r->memory_mib = memory ? memory_draw() : 0;
        snprintf(r->scenario, sizeof(r->scenario), "%.40s/backend%u.yaml", folder, i);
        scenario_write(r);
    }
    for (uint32_t i = 0; i < cluster.role_count; i++) {
        cluster.roles[i].policy = cluster.policy;
        cluster.roles[i].model_threads = model_threads;
        cluster.roles[i].rank_threads = rank_threads;
        cluster.roles[i].frontend_threads = frontend_threads;
    }
    for (uint32_t i = 0; cluster.moves && i < cluster.role_count; i++) {
        struct virtual_role *r = &cluster.roles[i];
        if (r->kind != CLUSTER_SCHEDULER || cluster.registry)
            r->host_other = host_draw("spare", i);
    }
    cluster.clients_host = virtual_host_add("clients", 0, 0);
    cluster.registry_host = virtual_host_add("etcd", 0, 0);
    cluster.swallows = seed % 4 == 0 && !cluster.registry && !cluster.names;
    if (cluster.swallows)
        swallow_make();
    has_trace();
}

/* ---- starting ---- */

/* One more word of the command line. */
static void word(struct virtual_role *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void word(struct virtual_role *r, const char *format, ...) {
    va_list arguments;
    CHECK_LT(r->argc, (int)ARRAY_COUNT(r->arguments));
    va_start(arguments, format);
    vsnprintf(r->arguments[r->argc], sizeof(r->arguments[0]), format, arguments);
    va_end(arguments);
    r->argv[r->argc] = r->arguments[r->argc];
    r->argv[++r->argc] = NULL;
}

/* HOST:PORT of all schedulers. */
static void schedulers_text(char *text, size_t bytes, bool backwards) {
    size_t used = 0;
    for (uint32_t i = 0; i < cluster.schedulers; i++) {
        const struct virtual_role *r = &cluster.roles[backwards ? cluster.schedulers - 1 - i : i];
        used += (size_t)snprintf(text + used, bytes - used, "%s10.0.0.%u:%d", i ? "," : "", r->host + 1, CLUSTER_PORT);
    }
}

void cluster_join(char *word, size_t bytes) {
    char schedulers[90];
    schedulers_text(schedulers, sizeof(schedulers), false);
    if (cluster.registry)
        snprintf(word, bytes, "--registry=etcd://10.0.0.%u:2379/c", cluster.registry_host + 1);
    else if (cluster.names)
        snprintf(word, bytes, "--join=sched:%d", CLUSTER_PORT);
    else if (cluster.swallows)
        snprintf(word, bytes, "--join=10.0.0.%u:1,10.0.0.%u:2,%s", cluster.swallow_host + 1, cluster.swallow_host + 1,
                 schedulers);
    else
        snprintf(word, bytes, "--join=%s", schedulers);
}

static int inputs_mib(void) {
    return cluster.limited && virtual_chance(0.7) ? 4 + (int)virtual_below(8) : INPUTS_MIB;
}

/* Another number or policy for a process that starts; those of memory and changes, and those that may lose nothing,
 * need a policy that does not. */
static void renew(struct virtual_role *r) {
    static const char *const names[] = {
        "deferred", "deferred:consolidate=true", "eager", "symphony", "timeout", "fifo", "clockwork", "nexus"};
    bool any = !cluster.gentle && !cluster.sets;
    if (r->kind == CLUSTER_SCHEDULER) {
        r->policy = cluster.gentle ? "deferred" : names[virtual_below(any ? ARRAY_COUNT(names) - cluster.memory : 6)];
        r->model_threads = 1 + (uint32_t)virtual_below(2);
        r->rank_threads = 1 + (uint32_t)virtual_below(2);
    }
    r->frontend_threads = 1 + (uint32_t)virtual_below(CLUSTER_THREADS_MAX);
    if (r->kind == CLUSTER_BACKEND && !cluster.gentle) {
        r->accelerators = 1 + (uint32_t)virtual_below(2);
        scenario_write(r);
    }
}

static uint32_t models_most(void) {
    uint32_t models = cluster.changes ? cluster.models / 2 : cluster.models;
    if (!cluster.tight)
        models = cluster.sets ? CLUSTER_SETS : CLUSTER_MANY_MAX;
    return models + cluster.ensemble;
}

static uint32_t accelerators_most(void) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < cluster.role_count; i++)
        count += cluster.renewed && cluster.roles[i].kind == CLUSTER_BACKEND ? 2 : cluster.roles[i].accelerators;
    return cluster.tight ? count : cluster.sets ? 2 * CLUSTER_SETS : 16;
}

static void command_line(struct virtual_role *r) {
    static const char *const commands[] = {"scheduler", "frontend", "backend"};
    char schedulers[90], join[128];
    if (cluster.renewed)
        renew(r);
    if (cluster.altered && r->kind == CLUSTER_BACKEND)
        scenario_write(r);
    bool central = strcmp(r->policy, "clockwork") == 0 || strcmp(r->policy, "nexus") == 0;
    r->argc = 0;
    schedulers_text(schedulers, sizeof(schedulers), cluster.relisted);
    word(r, "%s", commands[r->kind]);
    word(r, "--no-metrics");
    if (cluster.beat_ms != 100)
        word(r, "--heartbeat-ms=%u", cluster.beat_ms);
    word(r, "--log-level=info"); /* whether it is shown or not, so that the run is the same */
    word(r, "--name=%s", r->name);
    word(r, "--open-links");
    cluster_join(join, sizeof(join));
    if (cluster.registry || r->kind != CLUSTER_SCHEDULER)
        word(r, "%s", join);
    if (r->kind != CLUSTER_BACKEND)
        word(r, "--open-links");
    if (r->kind == CLUSTER_SCHEDULER) {
        word(r, "--listen=10.0.0.%u:%d", r->host + 1, CLUSTER_PORT);
        word(r, "--accelerators-max=%u", accelerators_most());
        word(r, "--policy=%s", r->policy);
        if (central && cluster.memory)
            word(r, "--resident=demand");
        word(r, "--model-threads=%u", r->model_threads);
        word(r, "--rank-threads=%u", r->rank_threads);
        if (cluster.limited)
            word(r, "--queue-max=%u", 1 + (uint32_t)virtual_below(16));
        word(r, "--max-models=%u", models_most());
        if (!cluster.registry && cluster.schedulers > 1)
            word(r, "--peers=%s", schedulers);
        return;
    }
    if (r->kind == CLUSTER_FRONTEND) {
        word(r, "--http-port=%d", CLUSTER_HTTP_PORT);
        if (cluster.grpc)
            word(r, "--grpc-port=%d", CLUSTER_GRPC_PORT);
        else
            word(r, "--no-grpc");
        word(r, "--frontends=%u", r->frontend_threads);
        word(r, "--max-models=%u", models_most());
        word(r, "--inputs-max-mib=%d", inputs_mib());
        word(r, "--drain-timeout=%g", cluster.cuts ? CLUSTER_CUT_S : 5);
        if (cluster.hasty)
            word(r, "--link-wait=%.3f", (double)virtual_below(300) / 1000);
        else
            word(r, "--link-wait=3600");
        if (cluster.limited && virtual_chance(0.5))
            word(r, "--outputs-max-mib=1");
        return;
    }
    word(r, "--scenario=%s", r->scenario);
    word(r, "--inputs-max-mib=%d", inputs_mib());
    word(r, "--drain-timeout=%g", cluster.cuts ? CLUSTER_CUT_S : 5);
    if (cluster.hangs)
        word(r, "--run-limit=0.1");
    if (r->memory_mib)
        word(r, "--memory-mib=%u", r->memory_mib);
    if (r->tcp)
        word(r, "--transport=tcp");
}

static int role_main(void *role) {
    static const struct cli_command *const commands[] = {&cli_scheduler, &cli_frontend, &cli_backend};
    struct virtual_role *r = role;
    return commands[r->kind]->run(r->argc, r->argv);
}

static void start_late(void *role, uint64_t tag) {
    (void)tag;
    cluster_start(role);
}

void cluster_start(struct virtual_role *r) {
    if (cluster_lives(r))
        return;
    if (cluster.moves && virtual_chance(0.5)) {
        uint32_t other = r->host_other;
        r->host_other = r->host;
        r->host = other;
    }
    int64_t frozen_ns = virtual_world.hosts[r->host].frozen_ns;
    if (virtual_world.now_ns < frozen_ns) {
        virtual_at(frozen_ns, start_late, r, 0);
        return;
    }
    r->link = NULL;
    r->asked = false;
    r->frontend_count = 0;
    memset(r->slots, SLOT_OFFERED, sizeof(r->slots));
    memset(r->unanswered, 0, sizeof(r->unanswered));
    command_line(r);
    virtual_trace("start %s:", r->name);
    for (int i = 1; i < r->argc; i++)
        virtual_trace("    %s", r->argv[i]);
    r->process = virtual_start(r->host, r->name, role_main, r);
    r->process->context = r;
    r->lives++;
}

bool cluster_lives(const struct virtual_role *r) {
    return r->process && !r->process->over;
}

/* Keeps a role's link while it runs, to look into it. */
#define LINK_KEPT(role)                                                                                                \
    int __real_##role##_start(struct role **link, const struct role##_config *config, struct sy_error *err);           \
    int __wrap_##role##_start(struct role **link, const struct role##_config *config, struct sy_error *err);           \
    void __real_##role##_stop(struct role *link);                                                                      \
    void __wrap_##role##_stop(struct role *link);                                                                      \
    int __wrap_##role##_start(struct role **link, const struct role##_config *config, struct sy_error *err) {          \
        int rc = __real_##role##_start(link, config, err);                                                             \
        ((struct virtual_role *)virtual_self()->context)->link = rc == 0 ? *link : NULL;                               \
        return rc;                                                                                                     \
    }                                                                                                                  \
    void __wrap_##role##_stop(struct role *link) {                                                                     \
        ((struct virtual_role *)virtual_self()->context)->link = NULL;                                                 \
        __real_##role##_stop(link);                                                                                    \
    }
LINK_KEPT(scheduler_link)
LINK_KEPT(frontend_link)
LINK_KEPT(backend_link)

const struct transform_ops *__wrap_deployment_transforms(void);
const struct transform_ops *__wrap_deployment_transforms(void) {
    return &transform_virtual;
}

/* Has a model's inputs prepared, as if its backend had read the file that prepares them. */
static int prepare(struct served_model *m, struct sy_error *err) {
    int rc = preparations_room(m, err);
    if (rc < 0)
        return rc;
    m->prepared = 1;
    strcpy(m->preparations[0].file, "made.onnx");
    m->preparations[0].contents = calloc(1, sizeof(struct prepared_file) + 1);
    CHECK(m->preparations[0].contents);
    m->preparations[0].contents->bytes = 1;
    rc = preparations_open(m, &transform_virtual, err);
    preparations_close(m);
    return rc;
}

/* Adds the ensemble to what a backend has. */
static int ensemble_add(struct deployment *d, struct sy_error *err) {
    char path[100];
    snprintf(path, sizeof(path), "%s/" ENSEMBLE, cluster.folder);
    const char *const paths[] = {path};
    struct served_model *found = NULL;
    uint32_t count, places = d->model_count + 1;
    int rc = repository_scan(&(struct repositories){.paths = paths, .count = 1}, &found, &count, err);
    if (rc < 0)
        return rc;
    CHECK_EQ(count, 1);
    d->models = realloc(d->models, places * sizeof(*d->models));
    struct profile **profiles = calloc((size_t)places * d->type_count, sizeof(*profiles));
    CHECK(d->models && profiles);
    memset(&d->models[places - 1], 0, sizeof(*d->models));
    served_model_move(&d->models[places - 1], found);
    served_models_free(found, count);
    atomic_init(&d->models[places - 1].state, MODEL_READY); /* the models of its steps are looked up by frontends */
    for (uint32_t t = 0; t < d->type_count; t++) {
        for (uint32_t m = 0; m < d->model_count; m++)
            profiles[t * places + m] = d->profiles[t * d->model_count + m];
        d->accelerators[t].profiles = (const struct profile **)&profiles[t * places];
    }
    free(d->profiles);
    d->profiles = profiles;
    d->profile_count = places * d->type_count;
    d->model_count = places;
    return 0;
}

/* Backends run the virtual engine, and items of so many elements as the cluster has drawn. */
int __real_deployment_from_scenario(struct deployment *d, const struct scenario *scenario, struct sy_error *err);
int __wrap_deployment_from_scenario(struct deployment *d, const struct scenario *scenario, struct sy_error *err);
int __wrap_deployment_from_scenario(struct deployment *d, const struct scenario *scenario, struct sy_error *err) {
    int rc = __real_deployment_from_scenario(d, scenario, err);
    for (uint32_t i = 0; rc == 0 && i < d->model_count; i++) {
        struct served_model *m = &d->models[i];
        m->signature.inputs[0].dims[1] = m->signature.outputs[0].dims[1] = cluster.shapes ? -1 : (int64_t)cluster.width;
        m->signature.variable_shapes = cluster.shapes;
        m->slo_chosen = cluster.chosen;
        m->item_elements = m->reference_dims[0][1] = cluster.width;
        if (cluster.versions && strcmp(m->name, "m1") == 0) {
            strcpy(m->name, "m0");
            m->version = 2;
        }
        if (cluster.changes) {
            uint32_t number = (uint32_t)atoi(m->name + 1); /* m5 */
            snprintf(m->contents, sizeof(m->contents), "%u", number);
            snprintf(m->name, sizeof(m->name), "m%u", number % (cluster.models / 2));
        }
        if (is_prepared((uint32_t)atoi(m->name + 1)))
            rc = prepare(m, err);
    }
    for (uint32_t i = 0; rc == 0 && i < d->type_count; i++)
        d->accelerators[i].engine = cluster.hangs && cluster.seed % 2 ? &engine_virtual_lasting : &engine_virtual;
    return rc == 0 && cluster.ensemble ? ensemble_add(d, err) : rc;
}

uint32_t cluster_model(uint32_t request, char name[static 16]) {
    uint32_t model = request % (cluster.changes ? cluster.models / 2 : cluster.models), runs = 0;
    if (cluster.ensemble && request % 3 == 2) {
        strcpy(name, ENSEMBLE);
        for (uint32_t step = 0; step < CLUSTER_STEPS; step++)
            runs += 1 + is_prepared(step_model(step));
        return runs;
    }
    model = cluster.versions && model == 1 ? 0 : model;
    snprintf(name, 16, "m%u", model);
    return 1 + is_prepared(model);
}

/* Asks backends to take no more batches, or to take them again, until they have said that they do. */
static void cordons_tell(struct scheduler_link *l) {
    list_for_each (node, &l->members) {
        struct member *m = list_entry(node, struct member, node);
        for (uint32_t i = 0; i < cluster.role_count; i++) {
            struct virtual_role *r = &cluster.roles[i];
            if (r->kind != CLUSTER_BACKEND || !m->known || strcmp(m->hello.name, r->name) != 0 ||
                m->cordoned == r->cordoned || virtual_world.now_ns < r->cordon_ns)
                continue;
            r->cordon_ns = virtual_world.now_ns + CORDON_NS;
            peer_send(&m->peer, r->cordoned ? FRAME_CORDON : FRAME_UNCORDON, 0, NULL, 0);
        }
    }
}

/* Visitors' orders come between two turns. */
void __real_scheduler_rollouts_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns);
void __wrap_scheduler_rollouts_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns);
void __wrap_scheduler_rollouts_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns) {
    static struct member visitor = {.peer = {.closed = true}}; /* who has gone before the answer */
    const struct rollouts *r = &l->catalogue->rollouts;
    if (*cluster.order && scheduler_link_leads(l)) {
        virtual_trace("order: %s", cluster.order);
        scheduler_rollouts_order(l, &visitor, cluster.order, strlen(cluster.order));
        *cluster.order = '\0';
    }
    if (cluster.partial && scheduler_link_leads(l))
        cordons_tell(l);
    __real_scheduler_rollouts_look(l, now_ns, until_ns);
    if (r->term > cluster.decided_term || (r->term == cluster.decided_term && r->number > cluster.decided_number)) {
        cluster.decided_term = r->term;
        cluster.decided_number = r->number;
        virtual_trace("decision %llu of term %llu", (unsigned long long)r->number, (unsigned long long)r->term);
    }
}

/* Tells all executors of a backend that a model comes or goes. */
static void executors_tell(struct virtual_role *r, struct backend_link *l, uint32_t m, bool comes) {
    for (uint32_t e = 0; e < l->wiring->executors; e++)
        CHECK_EQ(wiring_model_command(l->wiring, e, (struct place_id){m}, l->config.models[m].version, comes), 0);
    r->unanswered[m] = l->wiring->executors;
    r->slots[m] = comes ? SLOT_COMES : SLOT_GOES;
}

/* A backend's models come and go between two turns, as its thread that loads models has it (server/models/): one that
 * goes is offered until the scheduler has put it down, and then taken from the executors; one that comes is given to
 * them, and then offered. */
void __real_backend_models_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns);
void __wrap_backend_models_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns);
void __wrap_backend_models_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns) {
    struct virtual_role *r = virtual_self()->context;
    struct model_answer answer;
    for (uint32_t e = 0; cluster.changes && e < l->wiring->executors; e++)
        while (wiring_model_answer(l->wiring, e, &answer))
            r->unanswered[answer.place.n]--;
    for (uint32_t m = 0; cluster.changes && m < l->config.model_count; m++) {
        bool wanted = r->offered >> atoi(l->config.models[m].contents) & 1;
        if (l->config.models[m].ensemble || r->unanswered[m] > 0)
            continue;
        if (r->slots[m] == SLOT_GOES)
            r->slots[m] = SLOT_AWAY;
        if (r->slots[m] == SLOT_AWAY && wanted)
            executors_tell(r, l, m, true);
        else if (r->slots[m] == SLOT_COMES) {
            backend_link_model_comes(l, m);
            r->slots[m] = SLOT_OFFERED;
        } else if (r->slots[m] == SLOT_OFFERED && !wanted)
            backend_link_model_goes(l, m);
        if (r->slots[m] == SLOT_OFFERED && backend_link_model_gone(l, m))
            executors_tell(r, l, m, false);
    }
    __real_backend_models_look(l, now_ns, until_ns);
}

/* ---- looking ---- */

void cluster_look(void) {
    for (uint32_t i = 0; i < cluster.schedulers; i++) {
        const struct virtual_role *r = &cluster.roles[i];
        const struct scheduler_link *l = cluster_lives(r) && r->link ? r->link : NULL;
        uint32_t k = 0;
        if (!l || !scheduler_link_leads(l) || cluster.schedulers == 1)
            continue;
        while (k < term_count && terms[k].term != l->config.self.term)
            k++;
        if (k < term_count && terms[k].incarnation != l->config.self.incarnation && cluster.registry)
            cluster_wrong("two schedulers have led term %llu", (unsigned long long)terms[k].term);
        if (k < term_count || term_count == TERMS_KEPT)
            continue;
        terms[term_count].term = l->config.self.term;
        terms[term_count++].incarnation = l->config.self.incarnation;
        virtual_trace("%s leads term %llu", r->name, (unsigned long long)l->config.self.term);
    }
}

struct virtual_role *cluster_leader(const struct virtual_role *but) {
    for (uint32_t i = 0; i < cluster.schedulers; i++) {
        struct virtual_role *r = &cluster.roles[i];
        if (r != but && cluster_lives(r) && r->link && scheduler_link_leads(r->link))
            return r;
    }
    return NULL;
}

bool cluster_joined(const struct virtual_role *leader) {
    uint64_t term = ((const struct scheduler_link *)leader->link)->config.self.term;
    for (uint32_t i = cluster.schedulers; i < cluster.role_count; i++) {
        const struct virtual_role *r = &cluster.roles[i];
        const struct uplink *u = !r->link                      ? NULL
                                 : r->kind == CLUSTER_FRONTEND ? &((const struct frontend_link *)r->link)->uplink
                                                               : &((const struct backend_link *)r->link)->uplink;
        if (!u || !u->up || u->self.term != term)
            return false;
    }
    return true;
}

/* All members know what the leader has decided, and frontends send requests where it says. */
static void check_versions(const struct virtual_role *leader, const struct scheduler_link *l) {
    const struct rollouts *rollouts = &l->catalogue->rollouts;
    if (cluster.registry && (rollouts->term < cluster.decided_term ||
                             (rollouts->term == cluster.decided_term && rollouts->number < cluster.decided_number)))
        cluster_wrong("%s has missed decision %llu of term %llu", leader->name,
                      (unsigned long long)cluster.decided_number, (unsigned long long)cluster.decided_term);
    char *text = rollouts_write(rollouts);
    CHECK(text);
    for (uint32_t i = cluster.schedulers; i < cluster.role_count; i++) {
        const struct virtual_role *r = &cluster.roles[i];
        const struct frontend_link *f = r->kind == CLUSTER_FRONTEND ? r->link : NULL;
        const char *known = f         ? f->uplink.rollouts
                            : r->link ? ((const struct backend_link *)r->link)->uplink.rollouts
                                      : NULL;
        if (rollouts->number > 0 && (!known || strcmp(known, text) != 0))
            cluster_wrong("%s knows of %s, and %s has decided %s", r->name, known ? known : "nothing", leader->name,
                          text);
        for (uint32_t local = 0; f && local < f->config.models_max; local++) {
            uint32_t place = f->models[local].remote.n;
            if (place >= l->config.models_max)
                continue;
            const struct known_model *model = &l->catalogue->known[l->places[place].known];
            const struct served_model *served = &f->config.models[local];
            if (model->place == place &&
                (atomic_load(&served->begins) != model->begins || atomic_load(&served->share) != model->share))
                cluster_wrong("%s: version %u of %s begins %u, share %u, and should %u, %u", r->name, served->version,
                              served->name, atomic_load(&served->begins), atomic_load(&served->share), model->begins,
                              model->share);
        }
    }
    free(text);
}

static void check_scheduler(const struct virtual_role *r, const struct scheduler_link *l) {
    if (!scheduler_link_leads(l))
        return;
    uint32_t plans = 0;
    check_versions(r, l);
    if (l->in_scheduler > 0)
        cluster_wrong("%s holds %u requests that nobody waits for", r->name, l->in_scheduler);
    for (uint32_t a = 0; a < l->wiring->accelerators; a++)
        plans += !list_empty(&l->accelerators[a].plans);
    if (plans > 0)
        cluster_wrong("%s holds plans of %u accelerators that have ended", r->name, plans);
    for (uint32_t p = 0; p < l->config.models_max; p++)
        if (model_life_state(l->life, p) >= LIFE_LEAVING || l->places[p].queued || l->places[p].sent)
            cluster_wrong("%s: place %u is left behind: state %u, %u queued, %u sent, %u owed", r->name, p,
                          model_life_state(l->life, p), l->places[p].queued, l->places[p].sent, l->places[p].owed);
    if (l->ghosts)
        cluster_wrong("%s still knows a member that is gone", r->name);
}

static void check_frontend(const struct virtual_role *r, const struct frontend_link *l) {
    for (size_t i = 0; i < away_count(l); i++) {
        const struct away *a = &l->away[i];
        if (a->message.handle)
            cluster_wrong(
                "%s: request %llx is away, and nobody waits for it: sent %u of %u, again %u, taker %d, readers "
                "%u, over %u, cancelled %u",
                r->name, (unsigned long long)away_handle(l, a->message.handle), a->sent, l->uplink.times, a->again,
                (int)a->taker, a->readers, a->over, a->cancelled);
    }
    if (l->held > 0)
        cluster_wrong("%s: %u requests are held, and nobody waits for them", r->name, l->held);
    frontends_check(r);
}

static void check_backend(const struct virtual_role *r, const struct backend_link *l) {
    uint32_t landed = 0;
    for (const struct frontend_peer *f = l->frontends; f; f = f->next)
        for (size_t i = 0; i < (size_t)f->landing.lanes * f->landing.slots; i++)
            landed += f->landing.landed[i].handle != 0;
    if (landed > 0 || l->pulling > 0)
        cluster_wrong("%s: %u requests and %u plans are left behind", r->name, landed, l->pulling);
    for (uint32_t a = 0; a < l->wiring->accelerators; a++)
        if (l->queues[a].orders > 0)
            cluster_wrong("%s: accelerator %u has %u orders that are not over", r->name, a, l->queues[a].orders);
    for (uint32_t a = 0; a < l->wiring->accelerators; a++)
        if (l->queues[a].out > 0)
            cluster_wrong("%s: accelerator %u has %u plans that have ended", r->name, a, l->queues[a].out);
}

void cluster_check_rest(void) {
    for (uint32_t i = 0; i < cluster.role_count; i++) {
        const struct virtual_role *r = &cluster.roles[i];
        if (!cluster_lives(r) || !r->link)
            cluster_wrong("%s does not live", r->name);
        else if (r->kind == CLUSTER_SCHEDULER)
            check_scheduler(r, r->link);
        else if (r->kind == CLUSTER_FRONTEND)
            check_frontend(r, r->link);
        else
            check_backend(r, r->link);
    }
    visitors_check();
}
