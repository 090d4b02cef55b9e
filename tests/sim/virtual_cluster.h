/* virtual_cluster.h - the program's roles as virtual processes: `symphony scheduler`, `frontend` and `backend`, from
 * their command lines on, with an engine whose answers can be told right from wrong, and clients.
 *
 *     scheduler0 scheduler1 ...     each on a host of its own, led by --peers or the virtual registry
 *     frontend0 ...                 each on a host of its own
 *     backend0 ...                  on a host of its own, or on a frontend's, which it then reads without a network
 *     clients                       whose links have no faults: what they see is the cluster's doing
 *
 * Whatever is found wrong is said by cluster_wrong(), from checks that know nothing of how the roles work. */
#pragma once

#include "sim/virtual_net.h"

#define CLUSTER_ROLES_MAX   32
#define CLUSTER_HTTP_PORT   VIRTUAL_PORT_SPARED
#define CLUSTER_GRPC_PORT   (VIRTUAL_PORT_SPARED + 1)
#define CLUSTER_PORT        7700
#define CLUSTER_MODELS_MAX  3
#define CLUSTER_THREADS_MAX 2 /* of a frontend, for each of its */
#define CLUSTER_PROTOCOLS   2
#define CLUSTER_MANY_MAX    8        /* models, where memory is limited */
#define CLUSTER_SETS        24       /* backends, no two of which have the same models; and models */
#define CLUSTER_STEPS       3        /* of the ensemble */
#define CLUSTER_LATE_NS     NS_PER_S /* time that a request has whose SLO is `chosen` */
#define CLUSTER_CUT_S       0.1
#define CLUSTER_LEVELS      3                   /* of priority, if there are any */
#define CLUSTER_RUNS_MAX    (2 * CLUSTER_STEPS) /* that an item of a request takes, preparations included */

/* MEMORY: accelerators have limited memory; SETS: many backends have models of their own; CHANGES: models are replaced,
 * unloaded and loaded again at backends, and all policies that order loads do so. */
enum virtual_cluster_kind { CLUSTER_USUAL, CLUSTER_MEMORY, CLUSTER_SETS_MANY, CLUSTER_CHANGES };

struct engine_ops;
struct frontend;
struct transform_ops;

enum virtual_role_kind { CLUSTER_SCHEDULER, CLUSTER_FRONTEND, CLUSTER_BACKEND };

enum slot_state { SLOT_OFFERED, SLOT_GOES, SLOT_AWAY, SLOT_COMES };

/* A process that is started again and again. */
struct virtual_role {
    enum virtual_role_kind kind;
    uint32_t number; /* among its kind */
    uint32_t host;
    uint32_t host_other;             /* where it may be at its next start, if cluster.moves */
    struct virtual_process *process; /* the last one; NULL: none yet */
    void *link;                      /* its link thread's, while that runs; else NULL */
    struct frontend *frontends[CLUSTER_PROTOCOLS *
                               CLUSTER_THREADS_MAX]; /* [frontend_count] a frontend's threads, while its link runs */
    uint32_t frontend_count;
    uint32_t lives;
    bool wanted;                  /* it is to live once faults are over */
    uint32_t models, first_model; /* a backend's */
    uint32_t accelerators;
    uint32_t memory_mib; /* of each; 0: not limited */
    const char *policy;  /* a scheduler's */
    uint32_t model_threads, rank_threads, frontend_threads;
    /* if cluster.changes: models, a bit each, that a backend is to offer, and how far it is with each of its own */
    uint64_t offered;
    uint8_t slots[CLUSTER_MANY_MAX];       /* enum slot_state */
    uint32_t unanswered[CLUSTER_MANY_MAX]; /* executors that have not answered that the model comes or goes */
    bool asked;                            /* somebody has it leave */
    bool cordoned;                         /* a backend is to take no batches */
    int64_t cordon_ns;                     /* earliest time of the next order about that */
    bool fails;                            /* runs fail there now */
    double slow;                           /* how many times as long runs take there now; 0: once */
    bool hangs;                            /* some runs do not come back there now */
    bool loads_fail;                       /* loads fail there now */
    double loads_slow;                     /* how many times as long loads take there now; 0: once */
    bool tcp;
    char name[24], scenario[64], arguments[24][96];
    char *argv[25];
    int argc;
};

struct virtual_cluster {
    uint64_t seed;
    const char *folder; /* for scenario files */
    struct virtual_role roles[CLUSTER_ROLES_MAX];
    uint32_t role_count, schedulers, frontends, backends;
    uint32_t models;
    int64_t slo_ms;
    uint32_t width;    /* elements of an item */
    bool registry;     /* that knows the schedulers and who leads; else --peers */
    bool names;        /* members join by a name */
    bool swallows;     /* the first addresses that members join are of a host that swallows all that it is sent */
    bool memory;       /* backends have less memory than models */
    bool sets;         /* CLUSTER_SETS backends, each with two models of as many */
    bool changes;      /* model m + models / 2 replaces model m, and the other way round; backends unload models */
    uint64_t replaced; /* models below models / 2, a bit each, that have been replaced, if `changes` */
    bool well;         /* there are no faults any more */
    bool gentle;       /* members leave and come, but nothing fails: then no request is refused */
    bool partial;      /* runs fail and are slow at some backends, others are cordoned, versions are rolled out */
    bool versions;     /* the second model is version 2 of the first */
    bool levels;       /* requests have priorities, and some are best effort */
    bool chosen;       /* the SLO counts as one that nobody has set: late requests are answered, too */
    bool shapes;       /* items are of several sizes, `width` the largest */
    bool visited;      /* people ask for the status, drain members, and cordon backends */
    bool prepared;     /* inputs of every other model are prepared */
    bool ensemble;     /* there is an ensemble of CLUSTER_STEPS of the models behind each other */
    bool plain;        /* it has none of the following */
    bool renewed;      /* processes are started again with other options, schedulers with other policies */
    bool freezes;      /* virtual machines are frozen, and a host that was off begins with another time */
    bool hangs;        /* runs hang at some backends */
    bool limited;      /* queues and memory for inputs and outputs are small */
    bool hasty;        /* frontends do not wait for long for schedulers and backends */
    bool mass;         /* all of a kind are killed, stopped or asked to leave at once */
    bool rude;         /* clients send in pieces, and hang up at any time */
    bool disks;        /* loads fail and are slow at some backends for a while */
    bool lags;         /* news of the registry are late */
    bool grpc;         /* some clients speak gRPC */
    uint32_t beat_ms;  /* from one heartbeat to the next */
    bool streams;      /* some of these by streams of requests, and some take no answers for a while */
    bool lines;        /* clients ask before they have their answers, send their last, and do not read for a while */
    bool moves;        /* processes start again on other hosts */
    bool twins;        /* two backends and two frontends have the same name */
    bool tight;    /* schedulers and frontends have room for the models and accelerators that there are, and no more */
    bool old;      /* hosts have been on for years */
    bool altered;  /* backends start again with other profiles and batches */
    bool rolls;    /* versions are rolled out by visitors, of whom some may not reach a scheduler */
    bool relists;  /* schedulers start again, one by one, with a list in another order */
    bool relisted; /* from now on they do */
    bool many_shapes; /* `shapes`, and more of them than a model has queues */
    bool cuts;        /* members that are asked to leave wait for CLUSTER_CUT_S for what they have */
    bool scarce;      /* processes have no descriptors or no memory left for a while */
    char order[192];  /* for the scheduler that leads, as a visitor's (rollouts.h); "": none */
    uint64_t decided_term, decided_number; /* last decision on versions that counted */
    const char *policy;
    uint32_t clients_host, registry_host, swallow_host;
    struct virtual_process *clients;
    uint32_t wrongs; /* found */
};
extern struct virtual_cluster cluster;

/* Draws a cluster and its hosts from the world's seed. The world has begun. */
void cluster_make(uint64_t seed, const char *folder, enum virtual_cluster_kind kind);
/* What a model's weights take. */
uint32_t cluster_model_mib(uint32_t model);
/* Starts a role, if it does not live: a new process, which is another one to the others. */
void cluster_start(struct virtual_role *role);
bool cluster_lives(const struct virtual_role *role);
/* The scheduler that leads, not counting one; NULL: none. */
struct virtual_role *cluster_leader(const struct virtual_role *but);
/* Whether it has let all frontends and backends in. */
bool cluster_joined(const struct virtual_role *leader);
/* Writes the option by which members and visitors find the scheduler. */
void cluster_join(char *word, size_t bytes);
/* Writes the name of the model that a request is of. How many runs an item of it takes, preparations included. */
uint32_t cluster_model(uint32_t request, char name[static 16]);
/* Something that must not be. The first of a run are printed. */
void cluster_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Looks at what the roles have inside: one leader a term. After each turn of a scheduler, or now and then. */
void cluster_look(void);
/* At the end, with no requests left: that all has been given back. */
void cluster_check_rest(void);

/* ---- virtual_engine.c ---- */

extern const struct engine_ops engine_virtual;
extern const struct engine_ops engine_virtual_lasting; /* whose runs cannot be stopped */
/* Prepares an item: makes of it what a run of the engine would. */
extern const struct transform_ops transform_virtual;

/* The bits of element `i` of item `item` of a request, and what so many runs of the engine make of them. */
uint32_t engine_element(uint64_t request, uint32_t item, uint32_t i);
uint32_t engine_answer(uint32_t element, uint32_t runs);
/* Runs that have begun; models that were loaded. */
uint64_t engine_runs(void);
uint64_t engine_loads(void);
void engine_begin(void);

/* ---- virtual_clients.c ---- */

#define CLIENTS_BEHIND 4 /* requests that wait for answers on a connection, at most */

struct clients_config {
    double rate;          /* requests a second, of all */
    int64_t timeout_ns;   /* of each; 0: the model's SLO */
    int64_t late_most_ns; /* an answer may come so long after its deadline */
    double leave;         /* part of the clients that do not wait for their answer */
    uint32_t items_most;
};
/* Starts them. */
void clients_begin(const struct clients_config *config);
/* No more requests from now on. */
void clients_end(void);
/* Requests that no answer has come to. */
uint32_t clients_waiting(void);
/* Of the requests of that time: all, and those answered with what they asked for, in time. */
void clients_count(int64_t from_ns, int64_t to_ns, uint32_t *all, uint32_t *good);
/* All that there were, and how they ended: good, refused by a frontend that was ready, broken with their frontend. */
void clients_sums(uint32_t *all, uint32_t *good, uint32_t *refused, uint32_t *broken);

/* ---- virtual_frontends.c ---- */

/* At the end: that a frontend has no request under way, and no memory taken for one. */
void frontends_check(const struct virtual_role *role);

/* ---- virtual_visitors.c ---- */

void visitors_begin(void);
/* Somebody asks for the status. `there`: a scheduler leads, and must answer. */
void visitor_looks(bool there);
/* Somebody drains a member; a scheduler that has just begun to lead may not know it. */
void visitor_drains(const struct virtual_role *role);
/* The same of a backend that is to take no batches, or to take them again. `there`: it has to be obeyed. */
void visitor_cordons(const struct virtual_role *role, bool cordon, bool there);
/* Somebody rolls out a version of m0: by these words of the command line, of which the second may be NULL. */
void visitor_rolls(const char *what, const char *share);
/* They have no more patience. */
void visitors_leave(void);
/* At the end: that all have left, with an answer if there had to be one. */
void visitors_check(void);

/* ---- virtual_registry.c ---- */

void registry_begin(void);
/* Whether it answers. */
void registry_serve(bool serves);
