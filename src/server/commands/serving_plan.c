/* serving_plan.c - the plan that is made from a server's settings. */
#include "server/commands/serving_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cluster/membership/election.h"
#include "cluster/peer/names.h"
#include "cluster/roles/transport.h"
#include "core/data/residency.h"
#include "core/system/log.h"
#include "core/system/machine.h"
#include "core/system/thread.h"
#include "core/util/container.h"
#include "core/util/utf8.h"
#include "front/net/auth.h"
#include "front/net/frontend_config.h"
#include "front/net/listen.h"
#include "model/config/model_name.h"
#include "sched/threads/policy_file.h"
#include "server/commands/autoscale_option.h"
#include "server/commands/cluster_tls.h"
#include "server/threads/model_control.h"

/* zlib's levels, by the words of --grpc-infer-response-compression-level. */
static const int zlib_levels[] = {0, 1, 6, 9};

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

void serve_plan_free(struct serve_plan *plan) {
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

uint32_t serve_frontends_auto(const struct serve_settings *s, enum wiring_link role, const struct serve_plan *plan) {
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

int serve_plan_make(const struct serve_settings *s, enum wiring_link role, struct serve_plan *plan,
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
    c->frontends = s->frontends ? (uint32_t)s->frontends : listens ? serve_frontends_auto(s, role, plan) : 1;
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
