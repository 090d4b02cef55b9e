/* serving.c - a server's life: the plan that is made from the settings, start, signals, drain, end. */
#include "server/commands/serving.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "back/executor/executor.h"
#include "cluster/membership/election.h"
#include "cluster/peer/hello.h"
#include "cluster/peer/names.h"
#include "cluster/roles/transport.h"
#include "cluster/roles/uplink.h"
#include "core/data/residency.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/machine.h"
#include "core/system/temporary_folder.h"
#include "core/system/thread.h"
#include "core/util/container.h"
#include "core/util/lines.h"
#include "core/util/utf8.h"
#include "front/net/auth.h"
#include "front/net/frontend_config.h"
#include "front/net/listen.h"
#include "model/config/model_name.h"
#include "model/repository/model_index.h"
#include "sched/threads/policy_file.h"
#include "server/commands/autoscale_option.h"
#include "server/commands/cli.h"
#include "server/commands/cluster_tls.h"
#include "server/commands/isolated.h"
#include "server/commands/watched_files.h"
#include "server/models/deployment.h"
#include "server/models/repository_control.h"
#include "server/process/server.h"
#include "server/threads/model_control.h"

#define OUTAGES_EVERY_S 1
#define READY_EVERY_MS  20 /* time between two looks whether all models are loaded */

int repository_read(const char *text, void *settings, struct sy_error *err) {
    struct serve_settings *s = settings;
    if (!*text)
        return error_set(err, -EINVAL, "the value is empty");
    if (s->repository_count == REPOSITORIES_MAX)
        return error_set(err, -EINVAL, "given more than %d times", REPOSITORIES_MAX);
    s->repositories[s->repository_count++] = text;
    return 0;
}

int load_model_read(const char *text, void *settings, struct sy_error *err) {
    struct serve_settings *s = settings;
    if (s->load_model_count == LOAD_MODELS_MAX)
        return error_set(err, -EINVAL, "given more than %d times", LOAD_MODELS_MAX);
    s->load_models[s->load_model_count++] = text;
    return 0;
}

int frontends_read(const char *text, void *settings, struct sy_error *err) {
    struct serve_settings *s = settings;
    char *end;
    s->frontends = 0;
    if (strcmp(text, "auto") == 0)
        return 0;
    s->frontends = strtol(text, &end, 10);
    return end == text || *end || s->frontends < 1 || s->frontends > FRONTENDS_MAX
               ? error_set(err, -EINVAL, "'%s' is neither auto nor a number from 1 to %d", text, FRONTENDS_MAX)
               : 0;
}

/* A cluster's frontends come and go behind a name or a load balancer: clients find new ones when they connect again. */
#define CLUSTER_GRPC_AGE_S 1800

static const struct serve_settings serve_defaults = {
    .host = "0.0.0.0",
    .http_port = 8000,
    .grpc_port = 8001,
    .metrics_port = 8002,
    .control_mode = CONTROL_NONE,
    .poll_secs = 15,
    .max_models = CONTROL_MODELS_DEFAULT,
    .model_threads = 1,
    .rank_threads = 1,
    .epoch_s = 5,
    .prepare_threads = 2,
    .queue_max = 65536,
    .record_mib = 32,
    .trails = 1024,
    .trails_every = 100,
    .timeline_mib = 64,
    .decisions_mib = 256,
    .spin = 2,
    .run_limit_s = (double)RUN_LIMIT_NS / NS_PER_S,
    .body_mib = 64,
    .inputs_mib = 1024,
    .answers_mib = 512,
    .connections = 10000,
    .idle_s = 300,
    .head_s = 15,
    .rate_kib = 1,
    .drain_timeout_s = 30,
    .log_level = "info",
    .log_format = "logfmt",
    .cluster_port = 0,
    .accelerators_max = 4096,
    .heartbeat_ms = 100,
    .link_wait_s = 2,
    .isolated = -1,
};

/* zlib's levels, by the words of --grpc-infer-response-compression-level. */
static const int zlib_levels[] = {0, 1, 6, 9};

/* The plan of a server: all that is decided from the settings before any thread starts. */
struct serve_plan {
    struct deployment deployment;
    struct server_config config;
    struct auth *auth; /* tokens of clients; NULL: no token is needed */
    struct repository_control control;
    struct accelerator_group groups[ACCELERATOR_TYPES_MAX];
    uint32_t group_count;
    struct server_cluster cluster;
    struct registry_place place;
    struct auth *cluster_auth;    /* tokens of members; NULL: no token is needed */
    struct tls *cluster_tls;      /* TLS of links; NULL: links are plain text */
    struct watched_files secrets; /* files of all of these */
    char name[HELLO_NAME_MAX], join[4096];
    const char *schedulers[UPLINK_ADDRESSES_MAX]; /* schedulers of --join, or of --peers */
};

/* Chooses the cores that executors are pinned to: the given ones or, if there are CPU accelerators, the last ones that
 * the process may use. */
static int choose_cores(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    cpu_set_t *cores = &plan->config.executor_cores, allowed;
    uint32_t cpus = 0;

    CPU_ZERO(cores);
    if (s->pin && strcmp(s->pin, "none") == 0)
        return 0;
    if (s->pin) {
        struct sy_error why;
        int rc = thread_cores_parse(s->pin, cores, &why);
        return rc < 0 ? error_set(err, rc, "--pin: %s", why.text) : 0;
    }
    for (uint32_t i = 0; i < plan->group_count; i++)
        cpus += plan->groups[i].kind == ACCELERATOR_CPU ? plan->groups[i].count : 0;
    thread_cores_allowed(&allowed);
    int count = CPU_COUNT(&allowed);
    for (int i = count - 1; i >= 0 && cpus > 0; i--, cpus--)
        CPU_SET(thread_core_nth(&allowed, (unsigned)i), cores);
    return 0;
}

/* Each sub-cluster has accelerators of each type. */
static int check_subclusters(const struct serve_settings *s, uint32_t accelerators, const char *type,
                             struct sy_error *err) {
    if (s->rank_threads <= accelerators)
        return 0;
    return error_set(err, -EINVAL, "--rank-threads: %d for %u accelerators of type %s", (int)s->rank_threads,
                     accelerators, type);
}

static bool loads_models(const struct policy_ops *policy) {
    return !policy->central || policy->central->uses_memory;
}

/* Whether --memory-mib and --resident go with the other settings. */
static int check_memory(const struct serve_settings *s, const struct serve_plan *plan, struct sy_error *err) {
    const struct policy_ops *policy = plan->config.policy;
    const char *option = s->memory_mib ? "--memory-mib" : "--resident demand";
    bool backend = plan->config.cluster != NULL; /* whose scheduler has the policy */
    if (s->memory_mib && s->resident == RESIDENT_ALL)
        return error_set(err, -EINVAL, "--resident all does not go with --memory-mib");
    if (!s->memory_mib && s->resident != RESIDENT_DEMAND)
        return 0;
    if (!backend && !loads_models(policy))
        return error_set(err, -EINVAL, "%s: the policy %s keeps every model loaded", option, policy->name);
    if (s->share_prefixes)
        return error_set(err, -EINVAL, "%s does not go with --share-prefixes on", option);
    for (uint32_t i = 0; i < plan->group_count; i++) {
        if (plan->groups[i].kind == ACCELERATOR_CUDA)
            return error_set(err, -EINVAL, "%s goes with CPU and emulated accelerators only", option);
        if (plan->groups[i].kind != plan->groups[0].kind)
            return error_set(err, -EINVAL, "%s does not go with both CPU and emulated accelerators", option);
    }
    return 0;
}

/* Plans the models. Options are checked first, since models may have to be profiled. */
static int plan_repositories(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    struct sy_error why;
    uint32_t cores = machine_cores();
    plan->groups[0] = /* by default */
        (struct accelerator_group){.kind = ACCELERATOR_CPU, .count = cores > 1 ? cores - 1 : 1, .type = "cpu"};
    int found = s->accelerators ? accelerators_parse(s->accelerators, plan->groups, ACCELERATOR_TYPES_MAX, &why) : 1;
    if (found < 0)
        return error_set(err, found, "--accelerators: %s", why.text);
    plan->group_count = (uint32_t)found;
    int rc = choose_cores(s, plan, err);
    for (uint32_t i = 0; rc == 0 && i < plan->group_count; i++)
        rc = check_subclusters(s, plan->groups[i].count, plan->groups[i].type, err);
    if (rc < 0 || (rc = check_memory(s, plan, err)) < 0)
        return rc;
    struct deployment_options how = {
        .groups = plan->groups,
        .group_count = plan->group_count,
        .slo_ns = (int64_t)(s->slo_ms * (double)NS_PER_MS),
        .cores = plan->config.executor_cores,
        .cache_dir = s->cache_dir,
        .backend = plan->config.cluster != NULL,
        .share_prefixes = s->share_prefixes,
    };
    const struct repositories from = {.paths = s->repositories,
                                      .count = s->repository_count,
                                      .name = s->model_name,
                                      .op_library_dir = s->op_library_dir};
    plan->control = (struct repository_control){
        .mode = (enum control_mode)s->control_mode,
        .from = from,
        .names = s->load_models,
        .name_count = s->load_model_count,
        .look_every_ns = (int64_t)(s->poll_secs * (double)NS_PER_S),
        .models_max = (uint32_t)s->max_models,
    };
    plan->config.control = &plan->control;
    return deployment_from_repositories(&plan->deployment, &plan->control, &how, err);
}

static int plan_scenario(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    struct scenario scenario;
    int rc = scenario_read(s->scenario, NULL, 0, &scenario, err);
    if (rc < 0)
        return rc;
    if (scenario.pipeline_count) {
        scenario_free(&scenario);
        return error_set(err, -ENOTSUP, "%s: pipelines are only simulated, not served", s->scenario);
    }
    if (scenario_with_variants(&scenario)) {
        rc = error_set(err, -ENOTSUP, "%s: the model '%s' has variants, which are only simulated, not served",
                       s->scenario, scenario_with_variants(&scenario)->name);
        scenario_free(&scenario);
        return rc;
    }
    if (!s->policy) {
        plan->config.policy = scenario.policy;
        plan->config.policy_options = scenario.policy_options;
    }
    plan->config.memory_bytes = scenario.memory_bytes;
    plan->config.noise = scenario.noise;
    if (scenario.autoscale.enabled)
        plan->config.autoscale = autoscale_of_scenario(&scenario.autoscale);
    rc = check_memory(s, plan, err);
    rc = rc < 0 ? rc : deployment_from_scenario(&plan->deployment, &scenario, err);
    scenario_free(&scenario);
    return rc < 0 ? rc : choose_cores(s, plan, err);
}

/* Plans whether a scheduler orders loads. Rank threads are told all that backends have, so that these may be of any
 * memory and any models; a central policy counts on limited memory, or not. */
static int plan_orders(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    bool demand = s->resident == RESIDENT_DEMAND;
    plan->config.orders_loads = demand || !plan->config.policy->central;
    if (demand && !loads_models(plan->config.policy))
        return error_set(err, -EINVAL, "--resident demand: the policy %s keeps every model loaded",
                         plan->config.policy->name);
    return 0;
}

/* Plans the accelerators' memory for weights: the scenario's, or that of the options. It has no effect with a policy
 * that keeps every model loaded, as in the simulator, nor, unless options ask for it, in a cluster's backend. A
 * scenario's model that fits nowhere is set aside; those of repositories are loaded later. */
static void plan_memory(const struct serve_settings *s, enum wiring_link role, struct serve_plan *plan) {
    struct server_config *c = &plan->config;
    const struct deployment *d = &plan->deployment;
    uint32_t accelerators = 0;
    c->page_bytes = PAGE_BYTES;
    for (uint32_t type = 0; type < d->type_count; type++) {
        accelerators += d->accelerators[type].count;
        if (!d->accelerators[type].engine->emulate)
            c->page_bytes = CPU_PAGE_BYTES;
    }
    if (s->memory_mib)
        c->memory_bytes = (uint64_t)s->memory_mib << 20;
    else if (s->resident == RESIDENT_DEMAND && !c->memory_bytes && accelerators)
        c->memory_bytes = machine_memory_bytes() / 4 * 3 / accelerators;
    bool asked = s->memory_mib || s->resident == RESIDENT_DEMAND;
    if (role == LINK_NONE ? !loads_models(c->policy) || s->resident == RESIDENT_ALL : role != LINK_BACKEND || !asked)
        c->memory_bytes = 0;
    if (c->memory_bytes && !s->run_memory_mib) /* what is kept open without its weights keeps no memory of its runs */
        engine_run_memory_set(RUN_MEMORY_SHARED);
    for (uint32_t m = 0; m < d->model_count && c->memory_bytes; m++) {
        struct served_model *model = &d->models[m];
        uint32_t pages = pages_of(model->weights_bytes, PAGE_BYTES);
        if (served_model_state(model) != MODEL_READY || model->ensemble || pages <= c->memory_bytes / PAGE_BYTES)
            continue;
        served_model_refuse(model, "its weights take %u pages of 16 MiB, and an accelerator's memory has %llu", pages,
                            (unsigned long long)(c->memory_bytes / PAGE_BYTES));
        log_error("model set aside", "model=%s reason=\"%s\"", model->name, model->reason);
    }
}

/* Plans autoscaling: takes the scenario's settings, if there are any, and changes them by the keys of the option. */
static int plan_autoscale(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    struct autoscale_config *c = &plan->config.autoscale;
    struct sy_error why;
    if (c->every_ns == 0)
        *c = autoscale_usual(ACCELERATORS_MAX);
    int rc = s->autoscale ? autoscale_option_read(s->autoscale, c, &why) : 0;
    return rc < 0 ? error_set(err, rc, "--autoscale: %s", why.text) : 0;
}

static int plan_security(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    if (!s->tls_cert != !s->tls_key)
        return error_set(err, -EINVAL, "--tls-cert and --tls-key go together");
    if ((s->tls_client_ca || s->tls_metrics) && !s->tls_cert)
        return error_set(err, -EINVAL, "--tls-%s needs --tls-cert and --tls-key",
                         s->tls_metrics ? "metrics" : "client-ca");
    if ((s->auth_health || s->auth_metrics) && !s->token_file)
        return error_set(err, -EINVAL, "--auth-%s needs --auth-token-file", s->auth_health ? "health" : "metrics");
    const char *const paths[] = {s->token_file, s->tls_cert, s->tls_key, s->tls_client_ca};
    for (uint32_t i = 0; i < ARRAY_COUNT(paths); i++)
        watched_files_add(&plan->secrets, paths[i]);
    struct sy_error why;
    int rc = s->token_file ? auth_create(&plan->auth, s->token_file, &why) : 0;
    if (rc < 0)
        return error_set(err, rc, "--auth-token-file: %s", why.text);
    struct tls_files files = {.certificate = s->tls_cert, .key = s->tls_key, .ca = s->tls_client_ca};
    return s->tls_cert ? tls_create(&plan->config.clients.tls, &files, err) : 0;
}

static void plan_free(struct serve_plan *plan) {
    auth_destroy(plan->cluster_auth);
    tls_destroy(plan->cluster_tls);
    deployment_free(&plan->deployment);
    tls_destroy(plan->config.clients.tls);
    auth_destroy(plan->auth);
}

/* Whether the settings of what is served go together. */
static int check_source(const struct serve_settings *s, struct sy_error *err) {
    if (!s->repository_count && !s->scenario)
        return error_set(err, -EINVAL, "what is to be served? PATH (--repository) or --scenario is missing");
    if (s->repository_count && s->scenario)
        return error_set(err, -EINVAL, "either --repository or --scenario, not both");
    if (s->model_name && (s->scenario || s->control_mode != CONTROL_NONE))
        return error_set(err, -EINVAL, "--model-name does not go with --%s",
                         s->scenario ? "scenario" : "model-control-mode poll or explicit");
    if (s->model_name && !model_name_is_valid(s->model_name))
        return error_set(err, -EINVAL,
                         "--model-name: '%.100s' will not do as a model's name: expected " MODEL_NAME_EXPECTED,
                         s->model_name);
    if (s->scenario && s->accelerators)
        return error_set(err, -EINVAL, "--accelerators does not go with --scenario, whose file says them");
    if (s->scenario && s->control_mode != CONTROL_NONE)
        return error_set(err, -EINVAL, "--model-control-mode goes with --repository only");
    if (s->scenario && s->share_prefixes)
        return error_set(err, -EINVAL, "--share-prefixes goes with --repository only");
    if (s->load_model_count > 0 && s->control_mode != CONTROL_EXPLICIT)
        return error_set(err, -EINVAL, "--load-model goes with --model-control-mode explicit only");
    if (s->max_models != CONTROL_MODELS_DEFAULT && s->control_mode == CONTROL_NONE)
        return error_set(err, -EINVAL, "--max-models goes with --model-control-mode poll or explicit only");
    return 0;
}

static int check_decisions(const struct serve_settings *s, const struct serve_plan *plan, struct sy_error *err) {
    const struct policy_ops *policy = plan->config.policy;
    return !s->decisions || !policy->central
               ? 0
               : error_set(err, -EINVAL, "--record-decisions: %s is a scheduler of its own, which is not logged",
                           policy->name);
}

/* Reads HOST:PORT of --listen; "@NAME", a Unix socket, with --isolate (cluster/peer/names.h). */
static int plan_listen(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    static char host[256];
    if (!s->listen)
        return error_set(err, -EINVAL, "--listen HOST:PORT: where members join");
    if (*s->listen == '@') {
        plan->cluster.local = s->listen + 1;
        return 0;
    }
    const char *colon = strrchr(s->listen, ':');
    char *end;
    long port = colon ? strtol(colon + 1, &end, 10) : -1;
    if (!colon || !colon[1] || *end || port < 0 || port > 65535 || (size_t)(colon - s->listen) >= sizeof(host))
        return error_set(err, -EINVAL, "--listen: '%s' is not HOST:PORT", s->listen);
    name_host(s->listen, colon, host, sizeof(host));
    plan->cluster.host = host;
    plan->cluster.port = (int)port;
    return 0;
}

/* Refuses a port for members that others than this machine could reach, and where nobody has to show anything. */
static int check_open(const struct serve_settings *s, const struct serve_plan *plan, const char *option,
                      struct sy_error *err) {
    if (plan->cluster_auth || plan->cluster_tls || s->open_links || listen_is_loopback(plan->cluster.host))
        return 0;
    return error_set(
        err, -EINVAL,
        "%s: whoever reaches this port could join the cluster, and drain it: give --cluster-token-file FILE "
        "(or --cluster-cert, --cluster-key and --cluster-ca), or --open-links if only your machines reach "
        "it, or 127.0.0.1 as its host",
        option);
}

/* Plans where backends connect to a frontend. If the user does not say it: at all addresses, or, where nobody has to
 * show anything and all that the frontend joins is on this machine, at the loopback interface. */
static int plan_frontend_host(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    uint32_t count = plan->cluster.registry ? plan->place.endpoint_count : plan->cluster.scheduler_count;
    bool alone = !s->cluster_host && !s->advertise && !s->open_links && !plan->cluster_auth && !plan->cluster_tls,
         six = false;
    for (uint32_t i = 0; i < count && alone; i++) {
        const char *at = plan->cluster.registry ? plan->place.endpoints[i] : plan->schedulers[i];
        const char *colon = strrchr(at, ':');
        char host[256] = "localhost"; /* of a Unix socket */
        if (colon)
            name_host(at, colon, host, sizeof(host));
        alone = listen_names_loopback(host);
        six |= strchr(host, ':') != NULL;
    }
    if (alone)
        plan->cluster.host = six ? "::1" : "127.0.0.1";
    return check_open(s, plan, s->cluster_host ? "--cluster-host" : "--cluster-port", err);
}

/* Takes a list of schedulers apart. */
static int plan_list(const char *list, const char *option, struct serve_plan *plan, uint32_t *count,
                     struct sy_error *err) {
    struct sy_error why;
    *count = 0;
    if (strlen(list) >= sizeof(plan->join))
        return error_set(err, -EINVAL, "--%s: too long", option);
    strcpy(plan->join, list);
    for (char *rest = plan->join, *one; (one = strsep(&rest, ","));) {
        if (*count == UPLINK_ADDRESSES_MAX)
            return error_set(err, -EINVAL, "--%s: more than %d schedulers", option, UPLINK_ADDRESSES_MAX);
        if (name_check(one, &why) < 0)
            return error_set(err, -EINVAL, "--%s: %s", option, why.text);
        plan->schedulers[(*count)++] = one;
    }
    return 0;
}

/* Reads the schedulers of --peers, and finds this one among them. */
static int plan_peers(const struct serve_settings *s, struct serve_plan *plan, struct sy_error *err) {
    const char *own = s->advertise ? s->advertise : s->listen;
    int rc = s->peers ? plan_list(s->peers, "peers", plan, &plan->cluster.peer_count, err) : 0;
    if (rc < 0 || !s->peers)
        return rc;
    if (plan->cluster.peer_count > ELECTION_PEERS_MAX)
        return error_set(err, -EINVAL, "--peers: more than %d schedulers", ELECTION_PEERS_MAX);
    for (uint32_t i = 0; i < plan->cluster.peer_count; i++) /* a scheduler listed twice would stand by for itself */
        for (uint32_t k = 0; k < i; k++)
            if (strcasecmp(plan->schedulers[i], plan->schedulers[k]) == 0)
                return error_set(err, -EINVAL, "--peers: '%s' is listed twice", plan->schedulers[i]);
    plan->cluster.peers = plan->schedulers;
    while (plan->cluster.seniority < plan->cluster.peer_count &&
           strcmp(plan->schedulers[plan->cluster.seniority], own) != 0)
        plan->cluster.seniority++;
    if (plan->cluster.seniority == plan->cluster.peer_count)
        return error_set(err, -EINVAL,
                         "--peers: '%s' is not among them; say with --advertise HOST:PORT which one this is", own);
    return 0;
}

/* The most threads that speak a protocol in a frontend of a cluster. */
static uint32_t frontends_most(const struct serve_settings *s) {
    return s->no_grpc ? HELLO_LANES_MAX : HELLO_LANES_MAX / 2;
}

/* The number of threads for each protocol, if the user gives none: as many as cores are left beside the scheduler's
 * threads and CPU accelerators, or beside the link's thread. */
static uint32_t frontends_auto(const struct serve_settings *s, enum wiring_link role, const struct serve_plan *plan) {
    uint32_t others = role != LINK_NONE              ? 1
                      : plan->config.policy->central ? 1
                                                     : (uint32_t)(s->model_threads + s->rank_threads);
    for (uint32_t i = 0; i < plan->group_count; i++)
        others += plan->groups[i].kind == ACCELERATOR_CPU ? plan->groups[i].count : 0;
    uint32_t count = frontends_for(machine_cores(), others, (uint64_t)s->inputs_mib, (uint64_t)s->body_mib,
                                   (uint32_t)s->connections);
    bool of_cluster = role == LINK_FRONTEND || s->isolate == ISOLATE_ON;
    return of_cluster && count > frontends_most(s) ? frontends_most(s) : count;
}

/* Plans the role of this process in the cluster. */
static int plan_cluster(const struct serve_settings *s, enum wiring_link role, struct serve_plan *plan,
                        struct sy_error *err) {
    char host[64] = "?";
    const char *const paths[] = {s->cluster_token_file, s->cluster_cert, s->cluster_key, s->cluster_ca};
    for (uint32_t i = 0; i < ARRAY_COUNT(paths); i++)
        watched_files_add(&plan->secrets, paths[i]);
    struct sy_error why;
    int rc = s->cluster_token_file ? auth_create(&plan->cluster_auth, s->cluster_token_file, &why) : 0;
    if (rc < 0)
        return error_set(err, rc, "--cluster-token-file: %s", why.text);
    rc = cluster_tls_create(&plan->cluster_tls, s->cluster_cert, s->cluster_key, s->cluster_ca, err);
    if (rc < 0)
        return rc;
    gethostname(host, sizeof(host) - 1);
    snprintf(plan->name, sizeof(plan->name), "%s.%d", host, (int)getpid());
    plan->cluster = (struct server_cluster){
        .role = role,
        .name = s->name ? s->name : plan->name,
        .host = s->cluster_host ? s->cluster_host : "",
        .port = (int)s->cluster_port,
        .address = s->advertise,
        .auth = plan->cluster_auth,
        .fabric = s->fabric,
        .transports = s->transport ? TRANSPORT_BIT(s->transport - 1) : 0,
        .tls = plan->cluster_tls,
        .beat_ns = (int64_t)(s->heartbeat_ms * (double)NS_PER_MS),
        .link_wait_ns = (int64_t)(s->link_wait_s * (double)NS_PER_S),
        .accelerators_max = (uint32_t)s->accelerators_max,
    };
    if (s->name && (!*s->name || strlen(s->name) >= HELLO_NAME_MAX || !utf8_is_valid(s->name)))
        return error_set(err, -EINVAL, "--name: expected a name of at most %d bytes, in UTF-8", HELLO_NAME_MAX - 1);
    if (s->fabric && strlen(s->fabric) >= HELLO_FABRIC_MAX)
        return error_set(err, -EINVAL, "--fabric: expected the name of a provider, of at most %d bytes",
                         HELLO_FABRIC_MAX - 1);
    if (plan->cluster.transports == TRANSPORT_BIT(TRANSPORT_FABRIC) && !s->fabric)
        return error_set(err, -EINVAL, "--transport fabric needs --fabric PROVIDER");
    if (s->fabric && s->cluster_cert)
        return error_set(err, -EINVAL,
                         "--fabric does not go with --cluster-cert: what libfabric reads is not encrypted");
    if (role == LINK_FRONTEND && s->frontends > frontends_most(s))
        return error_set(err, -EINVAL, "--frontends: at most %d in a cluster, or %d with --no-grpc",
                         HELLO_LANES_MAX / 2, HELLO_LANES_MAX);
    bool anywhere = role == LINK_FRONTEND && s->advertise && *s->advertise == ':'; /* where it connects from */
    if (s->advertise && !anywhere && name_check(s->advertise, &why) < 0)
        return error_set(err, -EINVAL, "--advertise: %s", why.text);
    plan->config.cluster = &plan->cluster;
    if (s->registry) {
        rc = registry_option_read(s->registry, &s->registry_files, &plan->place, err);
        if (rc < 0)
            return rc;
        plan->cluster.registry = &plan->place;
    }
    if (role != LINK_SCHEDULER) {
        if (!s->join == !s->registry)
            return error_set(err, -EINVAL, "give either --join HOST:PORT or --registry URL: which cluster to join");
        plan->cluster.schedulers = plan->schedulers;
        rc = s->registry ? 0 : plan_list(s->join, "join", plan, &plan->cluster.scheduler_count, err);
        return rc < 0 || role != LINK_FRONTEND ? rc : plan_frontend_host(s, plan, err);
    }
    if (s->registry && s->peers)
        return error_set(err, -EINVAL, "--peers does not go with --registry, which knows them");
    rc = plan_listen(s, plan, err);
    rc = rc < 0 || plan->cluster.local ? rc : check_open(s, plan, "--listen", err);
    if (s->registry && rc == 0) {
        plan->cluster.address = s->advertise ? s->advertise : s->listen;
        if (name_check(plan->cluster.address, &why) < 0)
            return error_set(err, -EINVAL, "--listen: %s; say with --advertise where others reach this scheduler",
                             why.text);
    }
    return rc < 0 ? rc : plan_peers(s, plan, err);
}

static int make_plan(const struct serve_settings *s, enum wiring_link role, struct serve_plan *plan,
                     struct sy_error *err) {
    struct server_config *c = &plan->config;
    struct sy_error why;
    bool runs = role == LINK_NONE || role == LINK_BACKEND;
    int rc = runs ? check_source(s, err) : 0;
    engine_run_memory_set((uint64_t)s->run_memory_mib << 20);
    if (rc < 0)
        return rc;
    char policy[600];
    rc = policy_file_resolve(s->policy ? s->policy : policy_deferred.name, policy, sizeof(policy), &why);
    rc = rc ? rc : policy_read(policy, &c->policy, &c->policy_options, &why);
    if (rc < 0)
        return error_set(err, rc, "--policy: %s", why.text);
    if (s->server_name && !(*s->server_name && utf8_is_valid(s->server_name)))
        return error_set(err, -EINVAL, "--server-name: expected a name, in UTF-8");
    if ((s->access_log || s->otlp || s->trace_file) && s->trails == 0)
        return error_set(err, -EINVAL,
                         "--access-log, --otlp and --trace-file tell of trails, of which --trails 0 keeps none");
    if ((rc = plan_security(s, plan, err)) < 0 || (rc = plan_autoscale(s, plan, err)) < 0 ||
        (rc = check_decisions(s, plan, err)) < 0 || (role != LINK_NONE && (rc = plan_cluster(s, role, plan, err)) < 0))
        return rc;
    if (runs) {
        rc = s->scenario ? plan_scenario(s, plan, err) : plan_repositories(s, plan, err);
    } else { /* empty places for models that the cluster brings */
        uint32_t places = (uint32_t)s->max_models + CONTROL_SPARE;
        plan->deployment.models = calloc(places, sizeof(*plan->deployment.models));
        if (!plan->deployment.models)
            return error_set(err, -ENOMEM, "no memory for the places of the models");
        plan->deployment.model_count = places;
    }
    /* Plans autoscaling and checks options again, since the scenario may have a policy and autoscale settings. */
    if (rc < 0 || (rc = plan_autoscale(s, plan, err)) < 0 || (rc = check_decisions(s, plan, err)) < 0)
        return rc;
    if (role == LINK_SCHEDULER && (rc = plan_orders(s, plan, err)) < 0)
        return rc;
    plan_memory(s, role, plan);
    c->auth_metrics = s->auth_metrics;
    c->tls_metrics = s->tls_metrics;
    c->models = plan->deployment.models;
    c->model_count = plan->deployment.model_count;
    c->accelerators = plan->deployment.accelerators;
    c->type_count = plan->deployment.type_count;
    c->model_threads = (uint32_t)s->model_threads;
    c->rank_threads = (uint32_t)s->rank_threads;
    c->epoch_ns = s->epoch_s * NS_PER_S;
    c->rank_rate_max = s->rank_rate_max;
    for (uint32_t type = 0; type < c->type_count; type++)
        if ((rc = check_subclusters(s, c->accelerators[type].count, c->accelerators[type].type, err)) < 0)
            return rc;
    bool listens = role == LINK_NONE || role == LINK_FRONTEND;
    c->frontends = s->frontends ? (uint32_t)s->frontends : listens ? frontends_auto(s, role, plan) : 1;
    if (s->inputs_mib < c->frontends)
        return error_set(err, -EINVAL,
                         "--inputs-max-mib: %d, and each of %u threads of a protocol (--frontends) takes 1",
                         (int)s->inputs_mib, c->frontends);
    c->prepare_threads = (uint32_t)s->prepare_threads;
    c->host = s->host;
    c->http_port = (int)s->http_port;
    c->grpc_port = s->no_grpc ? -1 : (int)s->grpc_port;
    c->metrics_port = s->no_metrics ? -1 : (int)s->metrics_port;
    c->busy_poll = s->busy_poll;
    c->accelerator_control = s->accelerator_control;
    c->shared_memory = s->shared_memory || s->shared_memory_prefix;
    c->shared_memory_prefix = s->shared_memory_prefix;
    c->spin = s->spin;
    c->run_limit_ns = (int64_t)(s->run_limit_s * (double)NS_PER_S);
    c->learn = !s->no_learn;
    c->queue_max = (uint32_t)s->queue_max;
    c->record_bytes = (uint64_t)s->record_mib << 20;
    c->access_log = s->access_log;
    c->otlp = s->otlp;
    c->trace_file = s->trace_file;
    c->timeline_bytes = (uint64_t)s->timeline_mib << 20;
    c->decisions = s->decisions;
    c->decisions_bytes = (uint64_t)s->decisions_mib << 20;
    c->outputs_bytes_max = (uint64_t)s->outputs_mib << 20;
    c->clients = (struct frontend_config){
        .name = s->server_name,
        .tls = c->clients.tls,
        .auth = plan->auth,
        .auth_health = s->auth_health,
        .body_bytes_max = (uint64_t)s->body_mib << 20,
        .inputs_bytes_max = (uint64_t)s->inputs_mib << 20,
        .answers_bytes_max = (uint64_t)s->answers_mib << 20,
        .connections_max = (uint32_t)s->connections,
        .connections_per_address = (uint32_t)s->per_address,
        .idle_timeout_s = (uint32_t)s->idle_s,
        .age_s = (uint32_t)s->grpc_age_s,
        .head_timeout_s = (uint32_t)s->head_s,
        .rate_min = (uint32_t)s->rate_kib << 10,
        .grpc_level = zlib_levels[s->grpc_compression],
        .trails_keep = (uint32_t)s->trails,
        .trails_every = (uint32_t)s->trails_every,
    };
    return 0;
}

/* Logs which models are served, and where. */
static void say_ready(struct server *server, const struct server_config *config) {
    struct server_ports ports = server_ports(server);
    int ready = 0, set_aside = 0;

    const struct model_index *models = server_models_lock(server);
    for (uint32_t i = 0; i < models->count; i++) {
        bool is_ready = served_model_state(&models->models[models->listed[i]]) == MODEL_READY;
        ready += is_ready;
        set_aside += !is_ready;
    }
    for (uint32_t i = 0; i < models->absent_count; i++)
        set_aside += models->absent[i].failed;
    log_info("ready", "http_port=%d grpc_port=%d metrics_port=%d models=%d set_aside=%d policy=%s", ports.http,
             ports.grpc, ports.metrics, ready, set_aside, config->policy->name);
    server_models_unlock(server);
}

/* Waits for a signal until `until_ns`. A signal that has already come is returned at once. Negative: no signal came. */
static int signal_until(const sigset_t *signals, int64_t until_ns) {
    int64_t left_ns = until_ns - clock_now_ns();
    left_ns = left_ns > 0 ? left_ns : 0;
    const struct timespec left = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
    return sigtimedwait(signals, NULL, &left);
}

/* Files of certificates, keys or tokens may have changed; those that cannot be used change nothing. */
static void secrets_again(struct serve_plan *plan) {
    struct sy_error err;
    watched_files_read(&plan->secrets);
    if (plan->config.clients.tls && tls_reload(plan->config.clients.tls, &err) < 0)
        log_error("certificates stay as they were", "reason=\"%s\"", err.text);
    if (plan->cluster_tls && tls_reload(plan->cluster_tls, &err) < 0)
        log_error("the cluster's certificates stay as they were", "reason=\"%s\"", err.text);
    if (plan->cluster_auth && auth_reload(plan->cluster_auth, &err) < 0)
        log_error("the cluster's tokens stay as they were", "reason=\"%s\"", err.text);
    if (plan->auth && auth_reload(plan->auth, &err) < 0)
        log_error("tokens stay as they were", "reason=\"%s\"", err.text);
}

/* Does what a signal asks for; negative: none came. False: the server is to end. */
static bool signal_take(struct server *server, struct serve_plan *plan, int signal_number) {
    if (signal_number < 0 || signal_number == ISOLATED_LOOK)
        return true;
    if (signal_number == SIGHUP) {
        server_reopen(server);
        secrets_again(plan);
        return true;
    }
    log_info("stopping", "signal=%s",
             signal_number == SIGTERM  ? "SIGTERM"
             : signal_number == SIGINT ? "SIGINT"
                                       : "SIGUSR1");
    return false;
}

/* Sleeps until a signal asks the server to end (false); further ones then end the process as they usually do. With
 * `until_ready`, at most until the models of the start are served or set aside (true). Looks that are due once a second
 * happen on the second, so that looks at the load are as far apart as in simulations. */
static bool wait_for_signal(struct server *server, struct serve_plan *plan, const sigset_t *signals, bool until_ready) {
    const int64_t every_ns = OUTAGES_EVERY_S * NS_PER_S;
    int64_t next_ns = clock_now_ns() + every_ns;
    struct sy_error err;

    while (!until_ready || !(server_is_ready(server) || server_failed(server, &err))) {
        int64_t soon_ns = clock_now_ns() + READY_EVERY_MS * NS_PER_MS;
        int signal_number = signal_until(signals, until_ready && soon_ns < next_ns ? soon_ns : next_ns);
        if (!signal_take(server, plan, signal_number))
            return false;
        server_obey_parent(server);
        server_watch(server);
        if (clock_now_ns() < next_ns && signal_number < 0)
            continue;
        next_ns = time_due_again(next_ns, every_ns, clock_now_ns());
        server_look(server);
        if (watched_files_look(&plan->secrets))
            secrets_again(plan);
        log_drain(0);
    }
    return true;
}

/* Blocks the signals that end or change a server, before any thread starts: only sigtimedwait() above gets them. */
static void signals_block(sigset_t *signals, bool isolated) {
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(signals);
    if (isolated) {
        sigaddset(signals, ISOLATED_STOP);
        sigaddset(signals, ISOLATED_LOOK);
    } else {
        sigaddset(signals, SIGTERM);
        sigaddset(signals, SIGINT);
        sigaddset(signals, SIGHUP);
    }
    pthread_sigmask(SIG_BLOCK, signals, NULL);
}

/* Decides on processes for the accelerators of `symphony serve`, if the user does not: they are the default where
 * clients may send models. */
static void isolate_choose(struct serve_settings *s) {
    struct accelerator_group groups[ACCELERATOR_TYPES_MAX];
    struct sy_error err;
    int types = s->accelerators ? accelerators_parse(s->accelerators, groups, ACCELERATOR_TYPES_MAX, &err) : 1;
    bool emulated = s->scenario || (s->accelerators && types == 1 && groups[0].kind == ACCELERATOR_EMULATED);
    if (s->isolate != ISOLATE_AUTO)
        return;
    s->isolate = ISOLATE_OFF;
    s->isolate_said = !emulated; /* else nothing runs that could crash */
    if (s->control_mode != CONTROL_EXPLICIT || emulated)
        return;
    /* a process that has one type of accelerators does not know which others an instance_group could mean */
    s->isolate_not = types > 1 ? "accelerators of several types" : s->share_prefixes ? "--share-prefixes on" : NULL;
    s->isolate = types < 0 || s->isolate_not ? ISOLATE_OFF : ISOLATE_ON;
}

/* Logs what isolate_choose() has chosen, and how to have it otherwise. */
static void say_isolation(const struct serve_settings *s) {
    if (!s->isolate_said)
        return;
    if (s->isolate == ISOLATE_ON)
        log_info("clients may send models: each accelerator has a process of its own", "instead=\"--isolate off\"");
    else if (s->isolate_not)
        log_warn("clients may send models, and one that crashes ends the server", "reason=\"%s\"", s->isolate_not);
    else
        log_info("a model that crashes ends the server", "instead=\"--isolate on\"");
}

static int serve(const char *command, enum wiring_link role, const struct serve_settings *settings) {
    struct serve_plan plan;
    struct server *server;
    struct isolated_obedience *obedience = NULL;
    struct sy_error err = {.text = ""};
    sigset_t signals;

    memset(&plan, 0, sizeof(plan));
    int rc = make_plan(settings, role, &plan, &err);
    plan.cluster.running = settings->running ? &settings->running : NULL;
    plan.control.told = settings->running && settings->control_mode == CONTROL_EXPLICIT;
    if (rc < 0) {
        plan_free(&plan);
        fprintf(stderr, "symphony %s: %s\n", command, err.text);
        return CLI_USAGE;
    }
    signals_block(&signals, settings->isolated >= 0);
    rc = server_start(&server, &plan.config, &err);
    if (rc == 0 && settings->running && settings->control_mode == CONTROL_EXPLICIT) {
        rc = isolated_obey(&obedience, server_desk(server), &err);
        if (rc < 0)
            server_stop(server, 0, 0);
    }
    if (rc < 0) {
        plan_free(&plan);
        fprintf(stderr, "symphony %s: %s\n", command, err.text);
        return CLI_FAILURE;
    }
    if (plan.config.control) { /* its models are prepared from now on */
        struct server_ports ports = server_ports(server);
        log_info("listening", "http_port=%d grpc_port=%d metrics_port=%d", ports.http, ports.grpc, ports.metrics);
    }
    bool goes_on = wait_for_signal(server, &plan, &signals, true), failed = server_failed(server, &err);
    if (failed)
        fprintf(stderr, "symphony %s: %s\n", command, err.text);
    if (goes_on && !failed) {
        if (role == LINK_NONE) {
            say_ready(server, &plan.config);
            say_isolation(settings);
        } else {
            struct server_ports ports = server_ports(server);
            if (role == LINK_SCHEDULER)
                log_info("ready", "port=%d metrics_port=%d", ports.cluster, ports.metrics);
            else if (role == LINK_FRONTEND)
                log_info("ready", "http_port=%d grpc_port=%d metrics_port=%d cluster_port=%d", ports.http, ports.grpc,
                         ports.metrics, ports.cluster);
            else
                log_info("ready", "metrics_port=%d", ports.metrics);
        }
        wait_for_signal(server, &plan, &signals, false);
    }
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    if (obedience)
        isolated_obedience_close(obedience);
    rc = server_stop(server, (int64_t)(settings->drain_grace_s * (double)NS_PER_S),
                     (int64_t)(settings->drain_timeout_s * (double)NS_PER_S));
    if (obedience)
        isolated_obedience_end(obedience);
    if (rc == -EINPROGRESS) { /* a run still reads what would be freed now */
        log_info("stopped", "run_under_way=true");
        fflush(NULL);
        log_drain(LOG_DRAIN_MS);
        _exit(CLI_FAILURE);
    }
    plan_free(&plan);
    log_info("stopped", "%s", rc < 0 ? "requests_cut_off=true" : "");
    return failed ? CLI_USAGE : rc < 0 ? CLI_FAILURE : CLI_OK;
}

/* ---- serve --isolate ---- */

/* Longer than in a cluster of machines: a process that dies is noticed by its connection, and a busy machine must not
 * count as dead. */
#define ISOLATED_BEAT_MS 1000
/* Once all backends have joined, a model that is not served after this time could not be loaded by any of them. In this
 * time models that prepare inputs are opened, and models get their places. */
#define OPENING_NS (2 * NS_PER_S)

/* The parts of `serve --isolate`. The frontend's and the scheduler's threads are in this process, as two servers that
 * are joined by a link. */
struct isolation {
    struct serve_settings settings[3]; /* settings of the backends, the scheduler, the frontend */
    struct serve_plan backend, scheduler, frontend;
    struct isolated *isolated;
    struct isolated_shared shared;
    struct repository_desk *desk; /* orders to load and unload models; NULL: models do not come and go */
    struct isolated_orders *orders;
    struct start_progress *progress; /* the frontend's */
    pthread_t profiler;              /* thread that measures the models of the start, while `profiling` */
    bool profiling;
    _Atomic bool stop, profiled; /* order to that thread to end; whether it has */
    int profiled_rc;             /* deployment_profile() */
    struct sy_error profiled_err;
};

static void isolation_free(struct isolation *i) {
    isolated_stop(i->isolated, 0);
    plan_free(&i->frontend);
    plan_free(&i->scheduler);
    plan_free(&i->backend);
    free(i->desk);
    free(i);
}

/* Makes the plans of the backends and the scheduler, before any process starts. */
static int isolation_plan(struct isolation *i, const struct serve_settings *settings, struct sy_error *err) {
    struct serve_settings *backend = &i->settings[0], *scheduler = &i->settings[1];
    const char *with = settings->scenario ? "--scenario" : settings->share_prefixes ? "--share-prefixes on" : NULL;
    int rc;
    if (with)
        return error_set(err, -EINVAL, "--isolate on does not go with %s", with);
    *backend = *settings;
    backend->join = "@isolated"; /* the address is not known yet */
    backend->heartbeat_ms = ISOLATED_BEAT_MS;
    backend->tls_cert = backend->tls_key = backend->tls_client_ca = backend->token_file = NULL;
    backend->tls_metrics = backend->auth_health = backend->auth_metrics = false;
    if ((rc = make_plan(backend, LINK_BACKEND, &i->backend, err)) < 0)
        return rc;
    const struct deployment *d = &i->backend.deployment;
    if (settings->control_mode == CONTROL_NONE && (uint32_t)backend->max_models < d->model_count)
        backend->max_models = d->model_count;
    const struct isolated_config config = {.settings = backend,
                                           .groups = i->backend.groups,
                                           .group_count = i->backend.group_count,
                                           .cores = i->backend.config.executor_cores};
    if ((rc = isolated_create(&i->isolated, &i->shared, &config, err)) < 0)
        return rc;
    if (i->backend.config.memory_bytes) { /* of each accelerator, which a child may not know */
        backend->memory_mib = (int64_t)(i->backend.config.memory_bytes >> 20);
        backend->resident = RESIDENT_DEMAND;
    }
    *scheduler = *backend;
    scheduler->join = NULL;
    scheduler->listen = i->shared.address;
    scheduler->name = "scheduler";
    scheduler->cluster_token_file = i->shared.token_file;
    scheduler->no_metrics = true;
    if ((rc = make_plan(scheduler, LINK_SCHEDULER, &i->scheduler, err)) < 0)
        return rc;
    i->scheduler.config.orders_loads &= i->backend.config.memory_bytes > 0; /* else all have the same, for good */
    i->scheduler.config.executor_cores = i->backend.config.executor_cores; /* the scheduler's threads use other cores */
    i->scheduler.cluster.backends = i->shared.count;
    return 0;
}

static const struct model_index *clients_lock(void *frontend) {
    return server_models_lock(frontend);
}

static void clients_unlock(void *frontend) {
    server_models_unlock(frontend);
}

static uint64_t clients_hash(void *frontend, uint32_t model) {
    return server_model_hash(frontend, model);
}

static void clients_know(void *frontend, const struct model_absent *known, uint32_t count, bool at_once) {
    server_models_know(frontend, known, count, at_once);
}

/* Starts the thread for orders, which first loads the models of the start, and then all processes. */
static int isolation_start(struct isolation *i, const struct serve_settings *settings, struct server *frontend,
                           struct sy_error *err) {
    static const struct isolated_clients clients = {clients_lock, clients_unlock, clients_hash, clients_know};
    int rc = 0;
    if (i->desk) {
        const struct isolated_orders_config config = {
            .desk = i->desk,
            .channels = isolated_channels(i->isolated, i->desk),
            .count = i->shared.count,
            .follows = settings->control_mode == CONTROL_POLL,
            .names = settings->load_models,
            .name_count = settings->load_model_count,
            .from = {.paths = settings->repositories, .count = settings->repository_count},
            .look_ns = (int64_t)(settings->poll_secs * (double)NS_PER_S),
            .clients = &clients,
            .context = frontend};
        rc = isolated_orders_start(&i->orders, &config, err);
    }
    return rc < 0 ? rc : isolated_start(i->isolated, err);
}

/* Plans the frontend, once the scheduler listens. */
static int isolation_frontend(struct isolation *i, const struct serve_settings *settings, struct server *scheduler,
                              struct sy_error *err) {
    struct serve_settings *frontend = &i->settings[2];
    *frontend = *settings;
    frontend->join = i->shared.address;
    frontend->name = "frontend";
    frontend->cluster_token_file = i->settings[1].cluster_token_file;
    frontend->heartbeat_ms = ISOLATED_BEAT_MS;
    frontend->max_models = i->settings[0].max_models;
    frontend->control_mode = CONTROL_NONE; /* the children have the models */
    frontend->load_model_count = 0;
    if (settings->control_mode != CONTROL_NONE && !(i->desk = repository_desk_create()))
        return error_set(err, -ENOMEM, "out of memory");
    frontend->decisions = NULL;
    if (!frontend->frontends) /* with the cores that no other thread of this machine needs */
        frontend->frontends = frontends_auto(settings, LINK_NONE, &i->backend);
    int rc = make_plan(frontend, LINK_FRONTEND, &i->frontend, err);
    i->frontend.config.executor_cores = i->backend.config.executor_cores;
    i->frontend.config.scheduler = scheduler;
    i->frontend.config.desk = settings->control_mode == CONTROL_EXPLICIT ? i->desk : NULL;
    i->frontend.config.held = true;
    i->frontend.cluster.local = i->frontend.cluster.address = "local"; /* backends know it by its incarnation */
    i->frontend.cluster.running = i->shared.running;
    i->frontend.cluster.running_count = i->shared.count;
    i->frontend.cluster.running_types = i->shared.types;
    i->frontend.cluster.running_ring = isolated_ring;
    i->frontend.cluster.running_context = i->isolated;
    return rc;
}

/* Tells clients of the models of the start that are not served, as far as this process knows: those without a profile
 * are set aside; the others are LOADING, or with `last`, if they are not served now, no process could load them. */
static void isolation_tell(const struct isolation *i, struct server *frontend, bool last) {
    const struct deployment *d = &i->backend.deployment;
    uint32_t all = i->backend.control.start_count, count = 0;
    bool profiled = atomic_load_explicit(&i->profiled, memory_order_acquire); /* with profiler_main() */
    struct model_absent *aside = calloc(all + 1, sizeof(*aside));
    for (uint32_t m = 0; aside && m < all; m++) {
        const struct served_model *model = &d->models[m];
        bool failed = profiled && served_model_state(model) == MODEL_UNAVAILABLE;
        const struct model_index *models = server_models_lock(frontend);
        bool served = model_index_number(models, model->name, strlen(model->name), model->version) >= 0;
        server_models_unlock(frontend);
        if (served && last)
            continue;
        aside[count++] = model_absent_of(model, failed || last ? MODEL_UNAVAILABLE : MODEL_LOADING,
                                         failed ? model->reason
                                         : last ? "no process of the server could load it; the log says why"
                                                : "it waits until it is measured and loaded");
    }
    if (aside)
        server_models_aside(frontend, aside, count);
    free(aside);
}

/* Measures the models of the start, once for all processes, which serve meanwhile what has a profile. */
static void *profiler_main(void *isolation) {
    struct isolation *i = isolation;
    thread_begin("profiler", 0, THREAD_BACKGROUND);
    i->profiled_rc =
        deployment_profile(&i->backend.deployment, &i->backend.control, i->progress, &i->stop, &i->profiled_err);
    atomic_store_explicit(&i->profiled, true, memory_order_release); /* with wait_until_heard() */
    return NULL;
}

static void profiler_end(struct isolation *i) {
    atomic_store_explicit(&i->stop, true, memory_order_relaxed); /* a lone flag */
    if (i->profiling)
        pthread_join(i->profiler, NULL);
    i->profiling = false;
}

/* The profiler has ended: tells the processes and clients. -ENOENT: no model has a profile. */
static int profiler_take(struct isolation *i, struct server *frontend) {
    profiler_end(i);
    for (uint32_t m = 0; m < i->backend.control.start_count; m++) {
        const struct served_model *model = &i->backend.deployment.models[m];
        if (served_model_state(model) == MODEL_UNAVAILABLE)
            log_error("model set aside", "model=%s reason=\"%s\"", model->name, model->reason);
    }
    if (i->profiled_rc < 0)
        return -ENOENT;
    for (uint32_t n = 0; n < i->shared.count; n++)
        atomic_store_explicit(&i->shared.running[n]->profiled, true, memory_order_release); /* start_follow() */
    atomic_store_explicit(&i->progress->profiles, false, memory_order_relaxed);             /* start_progress_words() */
    isolation_tell(i, frontend, false);
    return 0;
}

static bool processes_prepared(const struct isolation *i) {
    bool all = true;
    for (uint32_t n = 0; n < i->shared.count; n++)
        all &= atomic_load_explicit(&i->shared.running[n]->prepared, memory_order_acquire); /* begin() */
    return all;
}

/* Sleeps until all backends have joined, and all models to serve from the start are served. 0; -EINTR: a signal asks
 * the server to end before; -ECHILD: a backend could not start; -ENOENT: no model can be served. */
static int wait_until_heard(struct isolation *i, struct server *frontend, const sigset_t *signals) {
    uint32_t wanted = i->backend.control.start_count;
    int64_t until_ns = TIME_NEVER, look_ns = clock_now_ns() + NS_PER_S;
    for (bool heard = false; !heard && clock_now_ns() < until_ns;) {
        int64_t now_ns = clock_now_ns();
        int signal_number = signal_until(signals, now_ns + READY_EVERY_MS * NS_PER_MS);
        if (i->profiling && atomic_load_explicit(&i->profiled, memory_order_acquire)) { /* with profiler_main() */
            if (profiler_take(i, frontend) < 0)
                return -ENOENT;
            for (uint32_t m = 0; m < i->backend.control.start_count; m++)
                wanted -= served_model_state(&i->backend.deployment.models[m]) == MODEL_UNAVAILABLE;
        }
        const struct model_index *models = server_models_lock(frontend);
        bool told = !models->partial && !i->profiling && (i->orders || processes_prepared(i));
        if (told && until_ns == TIME_NEVER)
            until_ns = now_ns + OPENING_NS;
        heard = told && (i->orders ? isolated_orders_ready(i->orders) : models->count >= wanted);
        server_models_unlock(frontend);
        if (now_ns >= look_ns) {
            server_look(frontend);
            look_ns = now_ns + NS_PER_S;
        }
        if (isolated_failed(i->isolated))
            return -ECHILD;
        if (!signal_take(frontend, &i->frontend, signal_number))
            return -EINTR;
    }
    if (!i->orders)
        isolation_tell(i, frontend, true);
    atomic_store_explicit(&i->progress->awaited, 0, memory_order_relaxed); /* start_progress_words() */
    server_begin(frontend);
    return 0;
}

static int serve_isolated(const char *command, const struct serve_settings *settings) {
    struct isolation *i = calloc(1, sizeof(*i));
    struct server *scheduler = NULL, *frontend = NULL;
    struct sy_error err = {.text = "out of memory"};
    sigset_t signals;

    if (!i || isolation_plan(i, settings, &err) < 0) {
        fprintf(stderr, "symphony %s: %s\n", command, err.text);
        if (i)
            isolation_free(i);
        return CLI_USAGE;
    }
    signals_block(&signals, false);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* the thread that watches them takes it */
    int rc = server_start(&scheduler, &i->scheduler.config, &err);
    bool wrong =
        rc == 0 && (rc = isolation_frontend(i, settings, scheduler, &err)) < 0; /* as a plan that fails above */
    rc = rc < 0 ? rc : server_start(&frontend, &i->frontend.config, &err);
    if (rc == 0) {
        struct server_ports ports = server_ports(frontend);
        i->progress = server_start_progress(frontend);
        atomic_store_explicit(&i->progress->all, i->backend.control.start_count, memory_order_relaxed); /* as below */
        atomic_store_explicit(&i->progress->awaited, i->backend.control.start_count, memory_order_relaxed); /* words */
        if (settings->control_mode == CONTROL_NONE)
            isolation_tell(i, frontend, false);
        log_info("listening", "http_port=%d grpc_port=%d metrics_port=%d", ports.http, ports.grpc, ports.metrics);
        rc = isolation_start(i, settings, frontend, &err);
    }
    if (rc == 0 && settings->control_mode == CONTROL_NONE) {
        rc = -pthread_create(&i->profiler, NULL, profiler_main, i);
        i->profiling = rc == 0;
        if (rc < 0)
            error_set(&err, rc, "no thread to measure models: %s", strerror(-rc));
    }
    if (rc < 0)
        fprintf(stderr, "symphony %s: %s\n", command, err.text);
    int heard = rc < 0 ? rc : wait_until_heard(i, frontend, &signals);
    profiler_end(i);
    if (heard == -ENOENT) {
        fprintf(stderr, "symphony %s: %s\n", command, i->profiled_err.text);
        wrong = true;
    } else if (heard == -ECHILD) { /* the process has printed why */
        rc = heard;
    } else if (heard == 0) {
        say_ready(frontend, &i->frontend.config);
        say_isolation(settings);
        wait_for_signal(frontend, &i->frontend, &signals, false);
    }
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    int64_t timeout_ns = (int64_t)(settings->drain_timeout_s * (double)NS_PER_S);
    isolated_orders_close(i->orders);
    int ended = frontend ? server_stop(frontend, (int64_t)(settings->drain_grace_s * (double)NS_PER_S), timeout_ns) : 0;
    isolated_orders_stop(i->orders);
    isolated_stop(i->isolated, timeout_ns);
    i->isolated = NULL;
    if (scheduler)
        server_stop(scheduler, 0, 0);
    isolation_free(i);
    log_info("stopped", "%s", ended < 0 ? "requests_cut_off=true" : "");
    return wrong ? CLI_USAGE : rc < 0 || ended < 0 ? CLI_FAILURE : CLI_OK;
}

int serving_run(const struct options *options, enum wiring_link role, int argc, char **argv) {
    struct serve_settings settings = serve_defaults;
    enum log_level level;
    enum log_format format;
    settings.grpc_age_s = role == LINK_FRONTEND ? CLUSTER_GRPC_AGE_S : 0;
    int arguments, status = options_parse(options, argc, argv, &settings, &arguments);
    if (status != OPTIONS_GO_ON)
        return status;
    if (log_level_parse(settings.log_level, &level) < 0)
        return cli_usage_error(options->command, "--log-level: '%s' is not debug, info, warn or error",
                               settings.log_level);
    if (log_format_parse(settings.log_format, &format) < 0)
        return cli_usage_error(options->command, "--log-format: '%s' is not logfmt or json", settings.log_format);
    for (int i = 1; i <= arguments; i++) {
        struct sy_error err;
        if (repository_read(argv[i], &settings, &err) < 0)
            return cli_usage_error(options->command, "%.100s: %.300s", argv[i], err.text);
    }
    log_set_level(level);
    log_set_format(format);
    temporary_folders_sweep();
    if (settings.isolated >= 0 && !isolated_begin(&settings))
        return cli_usage_error(options->command, "--isolated: it was not started by 'symphony serve --isolate'");
    if (role == LINK_NONE)
        isolate_choose(&settings);
    return settings.isolate == ISOLATE_ON ? serve_isolated(options->command, &settings)
                                          : serve(options->command, role, &settings);
}
