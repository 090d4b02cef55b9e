/* test_cluster_faults.c - the program's own roles as whole clusters in virtual time, under faults that are drawn.
 *
 * Each seed is a cluster, a load and a history of faults: processes are killed, stopped and started again, asked to
 * leave; links are cut one way and both, slow, lossy; connections break; hosts lose power; the registry is down. Half
 * of the clusters have backends with less memory than models, whose loads take a while, and fail; in half of these,
 * models are replaced, unloaded and loaded again; a few have two dozen backends of which no two have the same models.
 * In some others runs fail, or are slow, at some backends for a while, and a model has two versions, one of which is
 * rolled out, for a part of the requests and for all, and back. Some have an ensemble; in some people ask for the
 * status and drain backends; in some requests have priorities or are best effort, or their items several shapes, or
 * inputs are prepared; in some processes start again with other options, virtual machines freeze, runs hang, all of a
 * kind die at once, disks fail, there is little room, or clients hang up at any time. After the last fault all is well
 * again, and within 2 s requests have to be, too. What is held against them is in virtual_clients.c, virtual_engine.c
 * and virtual_cluster.c; a run that does not end is stopped.
 *
 * Which seeds, and how many: histories.h. SYMPHONY_CLUSTER_SEED=S runs one of them in this process, with a trace. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/roles/scheduler_link_state.h"
#include "core/util/assert.h"
#include "histories.h"
#include "sim/virtual_cluster.h"
#include "unit/test.h"

#define SEEDS            16
#define SEEDS_SETS       2
#define TAKEOVERS        4
#define CPU_MOST_S       60  /* a run of one seed; it takes a second or two, */
#define WALL_MOST_S      900 /* on a busy machine more */
#define BEGIN_NS         (1500 * NS_PER_MS)
#define FAULTS_NS        (4 * NS_PER_S)
#define BACK_NS          (2 * NS_PER_S)    /* after the last fault goodput is back */
#define WELL_NS          (1 * NS_PER_S)    /* and is looked at for so long */
#define UNCORDON_NS      (600 * NS_PER_MS) /* after the last fault a scheduler leads */
#define LATE_MOST_NS     (500 * NS_PER_MS) /* with heartbeats every */
#define BEAT_MS          100               /* so many ms */
#define REST_MOST_NS     (3 * NS_PER_S)
#define FAULTS_MOST      12
#define FAULTS_MANY      60
#define PARTIAL_FAULTS   6                 /* beside the others, in clusters that have such */
#define CHANGES_MOST     20                /* of models, the same */
#define MORE_FAULTS      3                 /* of each other kind that a cluster has */
#define HANGS_LATE_NS    (3 * NS_PER_S)    /* until a run that hangs is noticed */
#define FROZEN_LATE_NS   (300 * NS_PER_MS) /* until others notice that a scheduler is frozen */
#define DISKS_LATE_NS    (800 * NS_PER_MS) /* of a load from a slow disk, for which a batch waits */
#define RELIST_NS        (1 * NS_PER_S)    /* until all schedulers have another list */
#define LOOKS            8                 /* of visitors */
#define FAILED_MOST      10                /* seeds, then the others are left out */
#define GENTLE_NS        (1 * NS_PER_S)    /* from one that leaves to the next */
#define GENTLE_LOOK_NS   (20 * NS_PER_MS)
#define TURNS_MOST       30000 /* of one thread, a second */
#define TAKEOVER_LOOK_NS (5 * NS_PER_MS)
#define LONE_RATE_MOST   200
#define BATCH_ITEMS      128            /* of two plans */
#define PULL_MOST_NS     (1 * NS_PER_S) /* as cluster/roles/backend_plans.c has it */
#define SLOWS            1
#define SLOW_RATE        800
#define SLOW_TIMEOUT_NS  (20 * NS_PER_MS)
#define SLOW_GOOD_LEAST  0.985 /* if its runs were planned as the others' are: 0.96 to 0.98 */
#define GOOD_HURRIED     0.7
#define GOOD_LEAST       0.9 /* runs that take longer than their profile says make some late */

/* Seeds that have found something: */
static const struct {
    enum virtual_cluster_kind kind;
    uint64_t seed;
} kept[] = {
    {CLUSTER_USUAL, 31},      /* a connection broke with an answer in it, and nobody told its frontend */
    {CLUSTER_USUAL, 74},      /* a model came while the body of a refused request was read */
    {CLUSTER_USUAL, 153},     /* the scheduler changed when a backend had given a request up that its frontend had sent
                               * it */
    {CLUSTER_USUAL, 1041},    /* a frontend that was asked to end found nothing in flight, and then cancelled what came
                               * just afterwards */
    {CLUSTER_USUAL, 274},     /* a backend took the answer to a pull of an earlier scheduler's plan for that to a later
                               * pull, and left out a request that its frontend had sent it */
    {CLUSTER_USUAL, 76},      /* a frontend ended without an answer to a request that it had refused, and whose body was
                               * still coming */
    {CLUSTER_MEMORY, 421},    /* best effort was refused by a scheduler that did not know any accelerators yet */
    {CLUSTER_CHANGES, 30065}, /* a model came back when a frontend still had requests for its former place */
};

/* ---- faults ---- */

/* Schedulers as often as all others. */
static struct virtual_role *role_draw(void) {
    return &cluster.roles[virtual_below(virtual_chance(0.4) ? cluster.schedulers : cluster.role_count)];
}

static void start_again(void *role, uint64_t tag) {
    (void)tag;
    cluster_start(role);
}

static void go_on(void *process, uint64_t tag) {
    (void)tag;
    virtual_continue(process);
}

static void link_heal(void *link, uint64_t tag) {
    struct virtual_link *l = link;
    (void)tag;
    *l = (struct virtual_link){
        .delay_ns = 50 * NS_PER_US, .jitter_ns = 20 * NS_PER_US, .bytes_per_ns = 1.25, .behind_ns = l->behind_ns};
}

static void etcd_up(void *context, uint64_t tag) {
    (void)context, (void)tag;
    registry_serve(true);
}

/* The clients' has no faults, and the one that swallows all always does. */
static bool always_alike(uint32_t host) {
    return host == cluster.clients_host || (cluster.swallows && host == cluster.swallow_host);
}

static uint32_t host_draw(bool registry) {
    uint32_t host;
    do
        host = (uint32_t)virtual_below(virtual_world.host_count);
    while (always_alike(host) || (host == cluster.registry_host && !(registry && cluster.registry)));
    return host;
}

static void link_fault(uint32_t from, uint32_t to, int64_t until_ns, int kind) {
    struct virtual_link *link = virtual_link(from, to);
    const char *name = virtual_world.hosts[from].name, *other = virtual_world.hosts[to].name;
    if (from == to)
        return;
    if (kind == 0) {
        link->cut = true;
        virtual_trace("link %s > %s is cut", name, other);
    } else if (kind == 1) {
        link->delay_ns = virtual_between(NS_PER_MS, 150 * NS_PER_MS);
        link->jitter_ns = virtual_between(0, 50 * NS_PER_MS);
        virtual_trace("link %s > %s takes %.3f ms", name, other, (double)link->delay_ns / NS_PER_MS);
    } else if (kind == 2) {
        link->loss = 0.02 + 0.1 * rng_uniform(&virtual_world.rng);
        virtual_trace("link %s > %s loses %.3f", name, other, link->loss);
    } else {
        /* for small items 0.1 to 5 MB/s; answers that stand in a socket are late, and nobody promises otherwise */
        link->bytes_per_ns = 1e-4 * (1 + cluster.width / 1024) * (1 + rng_uniform(&virtual_world.rng) * 50);
        int64_t batch_ns = (int64_t)(BATCH_ITEMS * cluster.width * sizeof(uint32_t) / link->bytes_per_ns);
        batch_ns = batch_ns < PULL_MOST_NS ? batch_ns : PULL_MOST_NS;
        link->behind_ns = batch_ns > link->behind_ns ? batch_ns : link->behind_ns; /* pulled piece by piece */
        virtual_trace("link %s > %s has %.1f kB/s", name, other, link->bytes_per_ns * 1e6);
    }
    virtual_at(until_ns, link_heal, link, 0);
}

/* All links of a host. */
static void host_fault(uint32_t host, int64_t until_ns, int kind) {
    for (uint32_t other = 0; other < virtual_world.host_count; other++)
        if (other != host && !always_alike(other)) {
            link_fault(host, other, until_ns, kind);
            link_fault(other, host, until_ns, kind);
        }
}

/* A clock begins with its host. */
static void clock_begin(uint32_t host) {
    virtual_world.hosts[host].offset_ns = virtual_between(-900 * NS_PER_S, 0);
}

static void power_off(struct virtual_role *r, int64_t until_ns) {
    for (uint32_t i = 0; i < cluster.role_count; i++) {
        struct virtual_role *other = &cluster.roles[i];
        if (other->host != r->host || !cluster_lives(other))
            continue;
        virtual_trace("%s loses power", other->name);
        virtual_vanish(other->process);
        virtual_kill(other->process);
        virtual_at(until_ns, start_again, other, 0);
    }
    if (cluster.freezes)
        clock_begin(r->host);
    host_fault(r->host, until_ns - 1, 0);
}

static void runs_well(void *role, uint64_t tag) {
    struct virtual_role *r = role;
    (void)tag;
    virtual_trace("%s runs well again", r->name);
    r->fails = r->hangs = r->loads_fail = false;
    r->slow = r->loads_slow = 0;
}

static void cordon(void *role, uint64_t cordoned) {
    struct virtual_role *r = role;
    virtual_trace("%s is to take %s batches", r->name, cordoned ? "no" : "all");
    r->cordoned = cordoned;
}

static void look(void *context, uint64_t there) {
    (void)context;
    visitor_looks(there);
}

/* By a signal, or by a visitor. */
static void ask_to_leave(struct virtual_role *r) {
    r->asked = true;
    if (cluster.visited && r->kind != CLUSTER_SCHEDULER)
        visitor_drains(r);
    else
        virtual_signal(r->process, SIGTERM);
}

static struct virtual_role *backend_draw(void) {
    return &cluster.roles[cluster.schedulers + cluster.frontends + virtual_below(cluster.backends)];
}

/* A fault of a part: runs fail or are slow at a backend, or somebody cordons it, or rolls a version out. */
static void partial_fault(void *context, uint64_t last) {
    int64_t until_ns = virtual_world.now_ns + virtual_between(100 * NS_PER_MS, 3 * NS_PER_S);
    struct virtual_role *r = backend_draw();
    static const char *const orders[] = {
        "{\"wish\":\"to\",\"model\":\"m0\",\"version\":1,\"share\":10000}",
        "{\"wish\":\"to\",\"model\":\"m0\",\"version\":2,\"share\":10000}",
        "{\"wish\":\"to\",\"model\":\"m0\",\"version\":2,\"share\":2500}",
        "{\"wish\":\"back\",\"model\":\"m0\"}",
        "{\"wish\":\"newest\",\"model\":\"m0\"}",
    };
    static const char *const words[ARRAY_COUNT(orders)] = {"1", "2", "2", "--back", "--newest"};
    (void)context;
    until_ns = until_ns < (int64_t)last ? until_ns : (int64_t)last;
    switch (virtual_below(4)) {
    case 0:
        r->fails = true;
        virtual_trace("runs at %s fail", r->name);
        virtual_at(until_ns, runs_well, r, 0);
        break;
    case 1:
        r->slow = (double)virtual_between(2, 5);
        virtual_trace("runs at %s take %.0f times as long", r->name, r->slow);
        virtual_at((int64_t)last, runs_well, r, 0); /* for long enough to be noticed */
        break;
    case 2:
        cordon(r, true);
        virtual_at(until_ns, cordon, r, false);
        break;
    default: {
        uint64_t order = virtual_below(ARRAY_COUNT(orders));
        if (cluster.rolls)
            visitor_rolls(words[order], order == 2 ? "--share=25%" : NULL);
        else
            strcpy(cluster.order, orders[order]);
    }
    }
}

static int64_t end_draw(int64_t most_ns, int64_t last_ns) {
    int64_t until_ns = virtual_world.now_ns + virtual_between(NS_PER_MS, most_ns);
    return until_ns < last_ns ? until_ns : last_ns;
}

static void hang_fault(void *context, uint64_t last) {
    struct virtual_role *r = backend_draw();
    (void)context;
    r->hangs = true;
    virtual_trace("runs at %s hang", r->name);
    virtual_at(end_draw(3 * NS_PER_S, (int64_t)last), runs_well, r, 0);
}

static void disk_fault(void *context, uint64_t last) {
    struct virtual_role *r = backend_draw();
    (void)context;
    r->loads_fail = virtual_chance(0.5);
    r->loads_slow = r->loads_fail ? 0 : (double)virtual_between(2, 40);
    virtual_trace("loads at %s %s", r->name, r->loads_fail ? "fail" : "are slow");
    virtual_at(end_draw(2 * NS_PER_S, (int64_t)last), runs_well, r, 0);
}

static void freeze_fault(void *context, uint64_t last) {
    struct virtual_role *r = role_draw();
    int64_t until_ns = end_draw(virtual_chance(0.5) ? 250 * NS_PER_MS : 2 * NS_PER_S, (int64_t)last - 1);
    (void)context;
    if (virtual_world.now_ns < virtual_world.hosts[r->host].frozen_ns)
        return;
    host_fault(r->host, until_ns, 0);
    virtual_freeze(r->host, until_ns - virtual_world.now_ns, virtual_chance(0.5));
}

static void enough_again(void *process, uint64_t tag) {
    struct virtual_process *p = process;
    (void)tag;
    p->no_sockets = p->no_memory = false;
}

static void scarce_fault(void *context, uint64_t last) {
    struct virtual_role *r = role_draw();
    (void)context;
    if (!cluster_lives(r))
        return;
    bool memory = virtual_chance(0.5);
    virtual_trace("%s has no %s left", r->name, memory ? "memory" : "descriptors");
    r->process->no_memory |= memory;
    r->process->no_sockets |= !memory;
    virtual_at(end_draw(2 * NS_PER_S, (int64_t)last), enough_again, r->process, 0);
}

/* Somebody cordons a backend, and uncordons it. */
static void cordon_fault(void *context, uint64_t last) {
    struct virtual_role *r = backend_draw();
    (void)context, (void)last;
    visitor_cordons(r, virtual_chance(0.5), false);
}

/* All backends are to take batches again. */
static void uncordon(void *context, uint64_t tag) {
    (void)context, (void)tag;
    for (uint32_t i = 0; i < cluster.role_count; i++)
        if (cluster.roles[i].kind == CLUSTER_BACKEND)
            visitor_cordons(&cluster.roles[i], false, !cluster.swallows);
}

/* All of a kind, or all that there are. */
static void mass_fault(void *context, uint64_t last) {
    uint64_t how = virtual_below(3), kind = virtual_below(4);
    int64_t last_ns = (int64_t)last, most_ns = virtual_chance(0.5) ? 50 * NS_PER_MS : 2 * NS_PER_S;
    (void)context;
    for (uint32_t i = 0; i < cluster.role_count; i++) {
        struct virtual_role *r = &cluster.roles[i];
        if ((kind != 3 && r->kind != kind) || !cluster_lives(r))
            continue;
        if (how == 0)
            virtual_kill(r->process);
        else if (how == 1)
            virtual_stop(r->process);
        else
            virtual_signal(r->process, SIGTERM);
        virtual_at(how == 2 ? last_ns : end_draw(most_ns, last_ns), how == 1 ? go_on : start_again,
                   how == 1 ? (void *)r->process : r, 0);
    }
}

/* One fault, which is over at `last_ns` at the latest. */
static void fault(void *context, uint64_t last) {
    int64_t last_ns = (int64_t)last, now_ns = virtual_world.now_ns;
    int64_t for_ns =
        virtual_chance(0.5) ? virtual_between(NS_PER_MS, 400 * NS_PER_MS) : virtual_between(NS_PER_MS, 2 * NS_PER_S);
    int64_t until_ns = now_ns + for_ns < last_ns ? now_ns + for_ns : last_ns;
    struct virtual_role *r = role_draw();
    uint32_t host = host_draw(true), other = host_draw(true);
    int kind = (int)virtual_below(4);
    (void)context;
    switch (virtual_below(10)) {
    case 0:
    case 1:
        if (cluster_lives(r))
            virtual_kill(r->process);
        virtual_at(until_ns, start_again, r, 0);
        break;
    case 2:
        if (!cluster_lives(r))
            break;
        virtual_stop(r->process);
        virtual_at(until_ns, go_on, r->process, 0);
        break;
    case 3:
        if (!cluster_lives(r))
            break;
        ask_to_leave(r);
        virtual_at(last_ns, start_again, r, 0);
        break;
    case 4:
        link_fault(host, other, until_ns, kind);
        break;
    case 5:
        link_fault(host, other, until_ns, kind);
        link_fault(other, host, until_ns, kind);
        break;
    case 6:
        host_fault(host, until_ns, kind);
        break;
    case 7:
        virtual_trace("connections between %s and %s break: %u", virtual_world.hosts[host].name,
                      virtual_world.hosts[other].name, virtual_reset(host, other));
        break;
    case 8:
        power_off(r, until_ns);
        break;
    default:
        if (!cluster.registry)
            break;
        registry_serve(false);
        virtual_at(until_ns, etcd_up, NULL, 0);
    }
}

static void come_again(void *role, uint64_t tag) {
    struct virtual_role *r = role;
    (void)tag;
    if (cluster_lives(r))
        virtual_at(virtual_world.now_ns + GENTLE_LOOK_NS, come_again, r, 0);
    else
        cluster_start(r);
}

/* One leaves, and comes again. */
static void leave(void *context, uint64_t tag) {
    struct virtual_role *r = &cluster.roles[virtual_below(cluster.role_count)];
    (void)context, (void)tag;
    ask_to_leave(r);
    virtual_at(virtual_world.now_ns + virtual_between(0, GENTLE_NS / 4), come_again, r, 0);
}

/* A model of each name: those that have not been replaced, and the replacements of the others. */
static uint64_t models_of(void) {
    uint32_t names = cluster.models / 2;
    return (((1ULL << names) - 1) & ~cluster.replaced) | cluster.replaced << names;
}

/* The models that a backend offers, of each name one at most. */
static void offer(void *role, uint64_t models) {
    struct virtual_role *r = role;
    r->offered = cluster.well ? models_of() : models;
    virtual_trace("%s is to offer the models %#llx", r->name, (unsigned long long)r->offered);
}

/* A model is replaced at all backends one after the other, or all at once, or is unloaded at one or all for a while. */
static void change(void *context, uint64_t last) {
    int64_t now_ns = virtual_world.now_ns, last_ns = (int64_t)last;
    int64_t within_ns = virtual_chance(0.3) ? 0 : virtual_between(NS_PER_MS, 300 * NS_PER_MS);
    uint32_t names = cluster.models / 2, of = (uint32_t)virtual_below(names);
    uint64_t what = virtual_below(3);
    (void)context;
    if (what == 0)
        cluster.replaced ^= 1ULL << of;
    for (uint32_t i = 0; i < cluster.role_count; i++) {
        struct virtual_role *r = &cluster.roles[i];
        int64_t at_ns = now_ns + (within_ns ? virtual_between(0, within_ns) : 0);
        if (r->kind != CLUSTER_BACKEND || (what == 2 && virtual_chance(0.5)))
            continue;
        uint64_t models = models_of();
        if (what > 0) {
            virtual_at(at_ns < last_ns ? at_ns : last_ns, offer, r, models & ~(1ULL << of | 1ULL << (of + names)));
            at_ns += virtual_between(0, 500 * NS_PER_MS);
        }
        virtual_at(at_ns < last_ns ? at_ns : last_ns, offer, r, models);
    }
}

/* Whoever is asked to leave and has not ended is ended: it is started again right after that. */
static void all_well(void *context, uint64_t tag) {
    (void)context, (void)tag;
    cluster.well = true;
    virtual_trace("---- no more faults");
    visitors_leave(); /* nobody drains a member that was started for good */
    for (uint32_t i = 0; i < cluster.role_count; i++) {
        struct virtual_role *r = &cluster.roles[i];
        if (cluster.changes)
            offer(r, models_of());
        if (cluster_lives(r) && r->process->asked_ns == 0 && !r->asked && r->link)
            continue;
        if (cluster_lives(r))
            virtual_kill(r->process);
        cluster_start(r);
    }
}

static void leave_and_come(void *role, uint64_t tag) {
    struct virtual_role *r = role;
    (void)tag;
    if (cluster_lives(r) && virtual_chance(0.5))
        virtual_signal(r->process, SIGTERM);
    else if (cluster_lives(r))
        virtual_kill(r->process);
    come_again(r, 0);
}

/* Somebody gives the schedulers another list. */
static void relist(void *context, uint64_t last) {
    (void)context;
    int64_t within_ns = virtual_chance(0.3) ? 2 * NS_PER_MS : RELIST_NS;
    cluster.relisted = true;
    virtual_trace("schedulers have another list");
    for (uint32_t i = 0; i < cluster.schedulers; i++)
        virtual_at(end_draw(within_ns, (int64_t)last - 1), leave_and_come, &cluster.roles[i], 0);
}

static void begin(void *role, uint64_t tag) {
    (void)tag;
    cluster_start(role);
}

/* ---- a run ---- */

static void check_turns(void) {
    for (uint32_t i = 0; i < cluster.role_count; i++) {
        const char *name = "";
        uint32_t most = cluster.roles[i].process ? virtual_turns_most(cluster.roles[i].process, &name) : 0;
        if (most > TURNS_MOST)
            cluster_wrong("thread %s of %s took %u turns in a second", name, cluster.roles[i].name, most);
    }
}

static uint32_t run(uint64_t seed, const char *folder, enum virtual_cluster_kind kind, bool trace, uint64_t *digest) {
    uint32_t all, good, refused, broken;
    virtual_begin(seed, trace);
    virtual_net_begin();
    cluster_make(seed, folder, kind);
    int64_t begin_ns = virtual_world.now_ns, last_ns = begin_ns + BEGIN_NS + FAULTS_NS;
    for (uint32_t i = 0; i < cluster.role_count; i++) {
        cluster.roles[i].offered = models_of();
        virtual_at(begin_ns + virtual_between(0, 200 * NS_PER_MS), begin, &cluster.roles[i], 0);
    }
    double rate = 50 + (double)virtual_below(virtual_chance(0.2) ? 500 : 150);
    /* kairos runs a request alone, and others those of each shape: so they catch up with little */
    bool lone = strcmp(cluster.policy, "kairos") == 0 || cluster.shapes || cluster.renewed;
    const struct clients_config clients = {
        .rate = (lone && rate > LONE_RATE_MOST ? LONE_RATE_MOST : rate) / (1 + cluster.ensemble),
        .timeout_ns = cluster.gentle || cluster.prepared || kind != CLUSTER_USUAL || virtual_chance(0.5)
                          ? 0
                          : virtual_between(50, 1000) * NS_PER_MS,
        .late_most_ns = LATE_MOST_NS + (cluster.beat_ms > BEAT_MS ? 3 * (cluster.beat_ms - BEAT_MS) * NS_PER_MS : 0) +
                        (cluster.hangs     ? HANGS_LATE_NS
                         : cluster.freezes ? FROZEN_LATE_NS
                                           : 0) +
                        (cluster.disks ? DISKS_LATE_NS : 0),
        .leave = virtual_chance(0.5) ? 0 : 0.05,
        .items_most = 1 + (uint32_t)virtual_below(4),
    };
    uint64_t faults = 1 + virtual_below(virtual_chance(0.2) ? FAULTS_MANY : FAULTS_MOST);
    for (int64_t at_ns = begin_ns + BEGIN_NS; cluster.gentle && at_ns < last_ns; at_ns += GENTLE_NS)
        virtual_at(at_ns, leave, NULL, 0);
    for (uint64_t i = 0; i < faults && !cluster.gentle; i++)
        virtual_at(virtual_between(begin_ns + BEGIN_NS, last_ns), fault, NULL, (uint64_t)last_ns);
    for (uint64_t i = 0; i < PARTIAL_FAULTS && cluster.partial; i++)
        virtual_at(virtual_between(begin_ns + BEGIN_NS, last_ns), partial_fault, NULL, (uint64_t)last_ns);
    const struct {
        bool wanted;
        virtual_event *fault;
    } more[] = {
        {cluster.freezes, freeze_fault}, {cluster.hangs, hang_fault},
        {cluster.disks, disk_fault},     {cluster.mass, mass_fault},
        {cluster.scarce, scarce_fault},  {cluster.visited && !cluster.gentle && !cluster.partial, cordon_fault}};
    for (size_t i = 0; i < MORE_FAULTS * ARRAY_COUNT(more); i++)
        if (more[i / MORE_FAULTS].wanted)
            virtual_at(virtual_between(begin_ns + BEGIN_NS, last_ns), more[i / MORE_FAULTS].fault, NULL,
                       (uint64_t)last_ns);
    if (cluster.relists)
        virtual_at(virtual_between(begin_ns + BEGIN_NS, last_ns - 2 * RELIST_NS), relist, NULL, (uint64_t)last_ns);
    for (uint64_t i = 0; i < LOOKS && cluster.visited; i++)
        virtual_at(virtual_between(begin_ns, last_ns), look, NULL, false);
    if (cluster.visited)
        virtual_at(last_ns + BACK_NS, look, NULL, true);
    if (cluster.visited && !cluster.gentle)
        virtual_at(last_ns + UNCORDON_NS, uncordon, NULL, 0);
    for (uint64_t i = 0; i < CHANGES_MOST && cluster.changes; i++)
        virtual_at(virtual_between(begin_ns + BEGIN_NS, last_ns), change, NULL, (uint64_t)last_ns);
    virtual_at(last_ns + (cluster.gentle ? GENTLE_NS : 0), all_well, NULL, 0);
    clients_begin(&clients);
    virtual_run(last_ns + BACK_NS + WELL_NS);
    clients_end();
    int64_t until_ns = virtual_world.now_ns + REST_MOST_NS * (cluster.lines ? CLIENTS_BEHIND : 1);
    while (clients_waiting() > 0 && virtual_world.now_ns < until_ns)
        virtual_run(virtual_world.now_ns + 100 * NS_PER_MS);
    /* behind a request that a frontend has not read it does not see that the client has gone */
    virtual_run(virtual_world.now_ns + 500 * NS_PER_MS +
                (cluster.lines ? cluster.slo_ms * NS_PER_MS + clients.late_most_ns : 0));
    clients_count(last_ns + BACK_NS, last_ns + BACK_NS + WELL_NS, &all, &good);
    /* the plans of nexus leave out models that do not fit; symphony gives up first ones for later ones, and steps of an
     * ensemble have little time */
    bool all_placed = !cluster.memory || strcmp(cluster.policy, "nexus") != 0;
    bool hurried = (cluster.ensemble || cluster.shapes) && (strcmp(cluster.policy, "symphony") == 0 || cluster.renewed);
    if (all == 0 || good < (cluster.limited ? 0 : !all_placed ? 0.01 : hurried ? GOOD_HURRIED : GOOD_LEAST) * all)
        cluster_wrong("%.1f s after the last fault %u of %u requests are good", (double)BACK_NS / NS_PER_S, good, all);
    cluster_check_rest();
    check_turns();
    clients_sums(&all, &good, &refused, &broken);
    if (cluster.gentle && refused > 0)
        cluster_wrong("%u requests are refused, and nothing has failed", refused);
    virtual_trace("%u requests: %u good, %u refused, %u broken; %" PRIu64 " runs, %" PRIu64 " loads, %" PRIu64 " turns",
                  all, good, refused, broken, engine_runs(), engine_loads(), virtual_world.turns);
    *digest = virtual_world.digest;
    return cluster.wrongs;
}

/* ---- a change of schedulers ---- */

enum leader_fault { KILLED, STOPPED, CABLE_OUT };

/* Something happens to the scheduler that leads. By when another has let all members in has a limit, though the
 * addresses that they try first swallow what they are sent. */
static uint32_t run_takeover(uint64_t seed, const char *folder, enum leader_fault how) {
    static const char *const words[] = {"killed", "stopped", "cable out"};
    static const int64_t most_ns[] = {400 * NS_PER_MS, 600 * NS_PER_MS, 600 * NS_PER_MS};
    virtual_begin(seed, false);
    virtual_net_begin();
    cluster_make(seed, folder, CLUSTER_USUAL);
    for (uint32_t i = 0; i < cluster.role_count; i++)
        virtual_at(virtual_world.now_ns + virtual_between(0, 200 * NS_PER_MS), begin, &cluster.roles[i], 0);
    virtual_run(virtual_world.now_ns + BEGIN_NS);
    struct virtual_role *leader = cluster_leader(NULL), *other = NULL;
    if (!leader || !cluster_joined(leader)) {
        cluster_wrong("not all have joined a scheduler after %.1f s", (double)BEGIN_NS / NS_PER_S);
        return 1;
    }
    int64_t since_ns = virtual_world.now_ns, led_ns = 0;
    if (how == KILLED)
        virtual_kill(leader->process);
    else if (how == STOPPED)
        virtual_stop(leader->process);
    else
        host_fault(leader->host, INT64_MAX, 0);
    while (virtual_world.now_ns < since_ns + 5 * NS_PER_S && !(other && cluster_joined(other))) {
        virtual_run(virtual_world.now_ns + TAKEOVER_LOOK_NS);
        other = cluster_leader(leader);
        led_ns = other && !led_ns ? virtual_world.now_ns - since_ns : led_ns;
    }
    int64_t took_ns = virtual_world.now_ns - since_ns;
    if (getenv("SYMPHONY_CLUSTER_SHOW"))
        fprintf(stderr, "seed %" PRIu64 ", %u schedulers, %s: led after %.0f ms, all joined after %.0f ms\n", seed,
                cluster.schedulers, words[how], (double)led_ns / NS_PER_MS, (double)took_ns / NS_PER_MS);
    if (took_ns > most_ns[how])
        cluster_wrong("%s: another leads after %.0f ms, and all have joined it after %.0f ms", words[how],
                      (double)led_ns / NS_PER_MS, (double)took_ns / NS_PER_MS);
    return cluster.wrongs;
}

/* ---- a slow backend ---- */

/* The backend whose accelerators are asked first. */
static struct virtual_role *first_backend(const struct scheduler_link *l) {
    for (uint32_t i = 0; i < cluster.role_count; i++)
        if (l->accelerators[0].member && strcmp(cluster.roles[i].name, l->accelerators[0].member->hello.name) == 0)
            return &cluster.roles[i];
    return NULL;
}

/* Runs at one backend of three take three times as long: the leader notices, and requests whose deadlines leave no time
 * for more are in time again. */
static uint32_t run_slow(uint64_t seed, const char *folder) {
    uint32_t all, good;
    virtual_begin(seed, false);
    virtual_net_begin();
    cluster_make(seed, folder, CLUSTER_USUAL);
    for (uint32_t i = 0; i < cluster.role_count; i++)
        virtual_at(virtual_world.now_ns + virtual_between(0, 200 * NS_PER_MS), begin, &cluster.roles[i], 0);
    clients_begin(&(struct clients_config){
        .rate = SLOW_RATE, .timeout_ns = SLOW_TIMEOUT_NS, .late_most_ns = LATE_MOST_NS, .items_most = 4});
    virtual_run(virtual_world.now_ns + BEGIN_NS);
    struct virtual_role *leader = cluster_leader(NULL);
    struct virtual_role *slow = leader ? first_backend(leader->link) : NULL;
    if (!slow) {
        cluster_wrong("no backend is asked after %.1f s", (double)BEGIN_NS / NS_PER_S);
        return 1;
    }
    int64_t since_ns = virtual_world.now_ns;
    slow->slow = 3;
    virtual_run(since_ns + BACK_NS);
    const struct member *m = ((struct scheduler_link *)leader->link)->accelerators[0].member;
    virtual_run(since_ns + BACK_NS + WELL_NS);
    clients_end();
    virtual_run(virtual_world.now_ns + NS_PER_S);
    clients_count(since_ns + BACK_NS, since_ns + BACK_NS + WELL_NS, &all, &good);
    if (getenv("SYMPHONY_CLUSTER_SHOW"))
        fprintf(stderr, "seed %" PRIu64 ": factor %.2f, %u of %u good\n", seed, m ? m->speed[0].factor : 0, good, all);
    if (!m || !m->speed[0].slow || m->speed[0].factor < 2.5 || m->speed[0].factor > 4.5)
        cluster_wrong("%s is slow, and not taken for that", slow->name);
    if (all == 0 || good < SLOW_GOOD_LEAST * all)
        cluster_wrong("%u of %u requests are good beside a slow backend", good, all);
    return cluster.wrongs;
}

/* ---- many of them, each in a process of its own: what is killed leaves its memory behind ---- */

static char folder[] = "/tmp/symphony-clusters-XXXXXX";

static void limits_set(void) {
    const struct rlimit cpu = {CPU_MOST_S, CPU_MOST_S + 1};
    setrlimit(RLIMIT_CPU, &cpu);
    alarm(WALL_MOST_S);
}

/* What it found is on standard error. */
static bool run_apart(uint64_t seed, enum virtual_cluster_kind kind, uint64_t *digest) {
    int ends[2], status;
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        limits_set();
        CHECK(freopen("/dev/null", "w", stdout)); /* what visitors are told */
        uint32_t wrongs = run(seed, folder, kind, false, digest);
        ssize_t written = write(ends[1], digest, sizeof(*digest));
        _exit(wrongs > 0 || written < 0);
    }
    close(ends[1]);
    bool whole = read(ends[0], digest, sizeof(*digest)) == sizeof(*digest);
    close(ends[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fprintf(stderr, "seed %" PRIu64 ": %s\n", seed,
                WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGXCPU ? "it does not end"
                                                                           : strsignal(WTERMSIG(status)));
    return whole && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void seeds(enum virtual_cluster_kind kind, uint32_t usual) {
    uint64_t count = histories_count(usual), first = histories_first(), digest;
    uint32_t failed = 0;
    for (uint64_t seed = first; seed < first + count && failed < FAILED_MOST; seed++) {
        bool well = run_apart(seed, kind, &digest);
        if (!well)
            fprintf(stderr,
                    "seed %" PRIu64 " failed: SYMPHONY_CLUSTER_KIND=%d SYMPHONY_CLUSTER_SEED=%" PRIu64 " repeats it\n",
                    seed, kind, seed);
        failed += !well;
    }
    assert_int_equal(failed, 0);
}

TEST(test_seeds) {
    seeds(CLUSTER_USUAL, SEEDS);
}

TEST(test_seeds_with_memory) {
    seeds(CLUSTER_MEMORY, SEEDS);
}

TEST(test_seeds_with_changes) {
    seeds(CLUSTER_CHANGES, SEEDS);
}

TEST(test_seeds_with_many_sets) {
    seeds(CLUSTER_SETS_MANY, SEEDS_SETS);
}

TEST(test_kept) {
    uint64_t digest;
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (histories_have(i))
            assert_true(run_apart(kept[i].seed, kept[i].kind, &digest));
}

/* Clusters of several schedulers whose members join by a list that begins with addresses where nobody is. */
TEST(test_takeover) {
    uint64_t count = histories_count(TAKEOVERS);
    uint32_t failed = 0, tried = 0;
    for (uint64_t seed = 4; tried < count; seed += 4) {
        virtual_begin(seed, false);
        virtual_net_begin();
        cluster_make(seed, folder, CLUSTER_USUAL);
        if (!cluster.swallows || cluster.schedulers < 2 || !cluster.plain)
            continue;
        for (int how = KILLED; how <= CABLE_OUT; how++) {
            int status;
            pid_t child = fork();
            if (child == 0) {
                limits_set();
                _exit(run_takeover(seed, folder, how) > 0);
            }
            CHECK_EQ(waitpid(child, &status, 0), child);
            failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        }
        tried++;
    }
    assert_int_equal(failed, 0);
}

TEST(test_slow) {
    uint32_t failed = 0, tried = 0;
    for (uint64_t seed = 2; tried < SLOWS; seed += 5) {
        int status;
        virtual_begin(seed, false);
        virtual_net_begin();
        cluster_make(seed, folder, CLUSTER_USUAL);
        bool alike = !cluster.shapes && !cluster.prepared && !cluster.levels && !cluster.chosen && !cluster.ensemble;
        if (!cluster.partial || strcmp(cluster.policy, "deferred") != 0 || !cluster.plain || !alike)
            continue;
        pid_t child = fork();
        if (child == 0) {
            limits_set();
            _exit(run_slow(seed, folder) > 0);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        tried++;
    }
    assert_int_equal(failed, 0);
}

TEST(test_same) {
    uint64_t digest = 0, again = 1;
    run_apart(2, CLUSTER_USUAL, &digest);
    run_apart(2, CLUSTER_USUAL, &again);
    assert_int_equal(digest, again);
}

int main(void) {
    uint64_t digest, seed = histories_setting("SYMPHONY_CLUSTER_SEED", 0);
    CHECK(mkdtemp(folder));
    enum virtual_cluster_kind kind =
        (enum virtual_cluster_kind)histories_setting("SYMPHONY_CLUSTER_KIND", CLUSTER_USUAL);
    int failed = seed ? run(seed, folder, kind, true, &digest) > 0 : tests_run(NULL, NULL);
    char command[64];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command) || failed;
}
