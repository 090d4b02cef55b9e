/* sim_state.h - what a run in virtual time is made of. For the files of the simulator only.
 *
 *     sim.c              the event loop: requests come, clients leave, faults; results
 *     sim_accelerator.c  accelerators: they run the batches sent to them one after the other
 *     sim_cores.c        the driver of model cores and rank cores, joined by messages that may take time
 *     sim_moves.c        models that move between rank cores
 *     sim_central.c      the driver of a central policy
 *     sim_queries.c      queries of pipelines, made of requests
 *     sim_autoscale.c    accelerators that come and go with the load
 *     sim_links.c        messages that are late or lost, a scheduler that dies
 *
 * Every source of events (an accelerator's batches, a model's arrivals, a model core's timer, ...) has its next time;
 * equal times are handled in the order of the sources. */
#pragma once

#include <string.h>

#include "core/util/arena.h"
#include "core/util/assert.h"
#include "core/util/heap.h"
#include "lab/sim/rehearsal.h"
#include "lab/sim/sim.h"
#include "lab/sim/tournament.h"
#include "lab/sim/workload.h"
#include "sched/core/central.h"
#include "sched/core/model_core.h"
#include "sched/core/rank_core.h"
#include "sched/plan/autoscale_parts.h"

#define SIM_NOTHING UINT32_MAX
#define SIM_NOBODY  UINT64_MAX /* the handle of an unused node of the pool */

/* A batch, or a load or unload, on its way to an accelerator, waiting there, or under way. */
struct sim_batch {
    uint32_t next; /* in the lane, or in the list of unused ones; SIM_NOTHING: none */
    enum central_action_kind kind;
    uint32_t model, items, requests;
    uint32_t first;              /* of its requests, linked by `next` */
    int64_t sent_ns, arrives_ns; /* when it was decided, and when its inputs are there */
    int64_t earliest_ns, latest_ns;
    int64_t expected_ns;      /* what it takes by the table in force */
    int64_t begin_ns, run_ns; /* once begun */
    int64_t answer_ns;        /* once over: delay of its answers on their way */
    uint32_t late;            /* once over: requests */
    uint32_t term;            /* the scheduler that sent it (sim_links.c) */
    uint64_t tag;
};

/* Batches, or loads, that an accelerator does one after the other. */
struct sim_lane {
    uint32_t head, tail; /* batches; the head is under way if `running` */
    bool running;
};

struct sim_accelerator {
    struct sim_lane runs, loads;
    int64_t free_ns;     /* when all batches sent so far will have ended by the tables in force, as far as is known */
    int64_t stalled_ns;  /* nothing goes on before */
    int64_t released_ns; /* by autoscale, if it is not in service */
    uint32_t lost;       /* batches that went down with it and are not reported yet */
    bool down, used;
    bool silent;  /* it sends nothing */
    bool unknown; /* the scheduler does not count on it (sim_links.c) */
};

/* A message on its way between the scheduler and others, or a request that a frontend holds while there is none. */
struct sim_packet {
    enum { SIM_REQUEST, SIM_HELD, SIM_ENDED, SIM_JOINED, SIM_LEFT } kind;
    bool done;
    uint32_t next; /* in the list of unused ones */
    uint32_t accelerator;
    union {
        struct request_message request;
        struct sim_batch batch;
    };
};

struct sim_links {
    struct sim_packet *packets;
    uint32_t unused;     /* the first unused packet */
    uint32_t used;       /* packets */
    uint32_t requests;   /* those of them that are requests */
    struct heap due;     /* packets by when they arrive */
    int64_t *told_ns;    /* [accelerators] when the last packet about each arrives */
    uint32_t term;       /* the number of the scheduler, from 0 on */
    bool scheduler_down; /* it is dead, and no other has taken over */
    int64_t ready_ns;    /* before, a new scheduler takes no requests: its cores do not know all accelerators yet */
    struct rng rng;      /* for delays and losses */
    /* For deaths of the scheduler, and silent and killed backends: these happen at the same times under all policies.
     */
    struct rng fault_rng;
};

struct sim_stream {
    struct workload_stream arrivals;
    struct workload_request next;
    struct request_message cancel; /* the one client that will leave */
    bool cancelling;
};

/* Sources of events, in the order in which equal times are handled. */
struct sim_sources {
    uint32_t runs, loads, arrivals, cancels, fault, looks, starts, packets, outage, rehearsal;
    uint32_t driver; /* the driver's, from here on */
    uint32_t count;
};

struct sim;

/* A kind of scheduler: what stands between requests and accelerators. */
struct sim_driver {
    /* How many sources of events it has. */
    uint32_t (*sources)(const struct sim_config *config);
    /* Takes its memory; with arena->base, also sets it up: once, and again when another scheduler takes over. */
    void (*layout)(struct sim *sim, struct arena *arena);
    void (*begin)(struct sim *sim); /* the run begins; or NULL */
    void (*arrived)(struct sim *sim, const struct request_message *message);
    void (*cancelled)(struct sim *sim, const struct request_message *message);
    /* A batch or load is over; `batch` is unused afterwards. Not done: refused by the accelerator, or lost. */
    void (*ended)(struct sim *sim, uint32_t accelerator, const struct sim_batch *batch, bool done);
    void (*joined)(struct sim *sim, uint32_t accelerator); /* it is up again */
    void (*left)(struct sim *sim, uint32_t accelerator);   /* it is down */
    /* The time of one of its sources, counted from sources.driver, has come. */
    void (*due)(struct sim *sim, uint32_t source);
    /* After every event: delivers the messages of this instant. */
    void (*deliver)(struct sim *sim);
    /* At the end: accelerators that it did not get back. */
    uint32_t (*stuck)(const struct sim *sim);
    /* Time of accelerators that the load has needed so far, in nanoseconds: as the scheduler plans, or else as they
     * were busy. */
    double (*needed_ns)(struct sim *sim, uint32_t part);
    /* Sub-clusters, whose loads are told apart; a model's (SIM_NOTHING: none at the moment), and an accelerator's.
     * NULL: there is one. */
    uint32_t (*parts)(const struct sim_config *config);
    uint32_t (*part_of_model)(const struct sim *sim, uint32_t model);
    uint32_t (*part_of_accelerator)(const struct sim *sim, uint32_t accelerator);
    /* From now on the policy is to decide by this way. NULL: it has only one. */
    void (*way_set)(struct sim *sim, uint32_t way);
    /* At the end: adds what only the scheduler knows to the result; or NULL. */
    void (*sum)(const struct sim *sim, struct sim_result *result);
    bool loses_late; /* reports lost batches only when the accelerator is back, as a monitor of it would */
};

/* Queries of pipelines that have not ended, or whose requests have not all come back. */
struct sim_queries {
    void *slots; /* [capacity], of slot_bytes each: struct sim_query */
    size_t slot_bytes;
    struct pipeline_times *times; /* [pipelines] */
    uint32_t capacity, touched, used;
    uint32_t unused;      /* a list; SIM_NOTHING: empty */
    uint32_t first, last; /* those with something to do, a list */
    uint64_t next_number;
    uint64_t *again; /* [again_count] handles of requests that are to be sent once more; one for each in the pool */
    uint32_t again_count;
};

/* Accelerators 0 to present - 1 are in service. */
struct sim_scaling {
    struct autoscale_parts advice;
    uint32_t present, starting;
    int64_t *start_ns; /* [accelerators] a circle from start_head on: when those that are starting will be there */
    uint32_t start_head;
    int64_t since_ns;  /* the last change */
    double present_ns; /* accelerator time in service until then, while requests count, and of those that were
                          released until they have ended what they had */
    /* as of the last look: */
    uint64_t requests, bad;
    double *needed_ns; /* [parts] */
    /* with several sub-clusters: */
    struct autoscale_seen *seen; /* [parts] the requests since the last look; at a look the rest, too */
    uint32_t *wanted;            /* [parts] */
};

extern const struct sim_driver sim_driver_cores, sim_driver_central;

struct sim {
    const struct sim_config *config;
    const struct sim_driver *driver;
    struct sim_sources sources;
    struct sim_result *result;
    int64_t now_ns, count_from_ns, count_until_ns;
    struct tournament events; /* sources by their next time */
    uint32_t handled; /* the source whose time it is, or SIM_NOTHING; it is given its next time once, in the end */
    int64_t handled_next_ns;
    struct request_pool pool;   /* requests in the scheduler, and in batches that have not ended */
    uint32_t queued;            /* in the scheduler */
    struct sim_stream *streams; /* [models + pipelines] */
    struct sim_queries queries;
    struct sim_accelerator *accelerators;
    struct sim_batch *batches;
    uint32_t batch_count, batch_free;
    uint8_t *loaded;         /* [accelerators][models], where memory is limited */
    uint32_t *loaded_count;  /* [models] accelerators that have it */
    uint32_t *variant_items; /* [the most variants of a model] scratch, all 0 */
    struct rng rng;          /* noise, faults, jitter, cancellations */
    uint64_t next_handle;
    uint32_t fault_accelerator; /* the backend of this one has the fault */
    enum { SIM_WELL, SIM_SILENT, SIM_DOWN } fault;
    int64_t fault_until_ns;
    struct sim_links links;
    struct arena driver_memory; /* where the driver's memory begins */
    double busy_ns, ran_ns;     /* while requests count; always. Of many accelerators they outgrow 64 bits */
    uint64_t ended, bad;        /* requests and queries, warm-up included, cancelled ones not */
    struct sim_scaling scaling;
    struct rehearsal *rehearsal;   /* of the policy's ways; NULL: it has only one */
    uint64_t ended_seen, bad_seen; /* at its last look, */
    uint32_t way;                  /* and what that said, */
    int64_t way_ns;                /* since when */
    uint64_t *bad_most;            /* [models + pipelines] a run with more is given up; or NULL */
    void *driver_state;
};

/* ---- sim.c ---- */

/* sim_begin() begins a run without traffic, at time 0, in memory of sim_bytes(); sim_until() runs it on to a later
 * time. Between two such calls the caller tells what happens at that time: by sim_tell_request(), or by a function of
 * sim_accelerator.c and then sim_told(), which does what follows at the same instant. */
struct sim *sim_begin(const struct sim_config *config, void *memory, struct sim_result *result);
void sim_until(struct sim *sim, int64_t until_ns);
void sim_tell_request(struct sim *sim, const struct request_message *message);
void sim_told(struct sim *sim);

/* Puts a source at its next time; TIME_NEVER: none. */
void sim_source_set(struct sim *sim, uint32_t source, int64_t at_ns);
/* Whether what arrived then counts in the results. */
bool sim_counts(const struct sim *sim, int64_t arrival_ns);
/* How much of [from_ns, to_ns) lies where requests count. */
int64_t sim_counted_ns(const struct sim *sim, int64_t from_ns, int64_t to_ns);
/* One more request that arrived then has left. If that makes too many bad ones, the run is given up. */
void sim_count(struct sim *sim, uint32_t model, uint8_t priority, int64_t arrival_ns, enum sim_outcome outcome);
/* The counters of a model's requests of one priority, or of its best effort; NULL: they are not counted apart. */
struct sim_class_result *sim_class_of(const struct sim *sim, uint32_t model, uint8_t priority);
/* Counts a request that has left for its sub-cluster's load, if there are several sub-clusters. */
void sim_scaling_count(struct sim *sim, uint32_t model, bool bad);
/* Gives back a node of the pool. */
void sim_pool_put(struct sim *sim, uint32_t node);
/* The scheduler refuses a list of requests. */
void sim_refuse(struct sim *sim, uint32_t first);
/* A client sends a request. False: there is no room for it. */
bool sim_admit(struct sim *sim, const struct request_message *message);

/* ---- sim_queries.c ---- */

/* Whether a request is of a stage. */
static inline bool sim_is_stage(uint64_t handle) {
    return handle >> SIM_NUMBER_BITS;
}
void sim_queries_layout(struct sim *sim, struct arena *arena);
void sim_query_arrives(struct sim *sim, uint32_t pipeline, int64_t slo_ns);
/* The client whose leaving is due leaves. */
void sim_query_cancels(struct sim *sim, uint32_t pipeline);
/* A stage's request comes back; what follows from it is done by sim_queries_go_on(). */
void sim_stage_refused(struct sim *sim, uint64_t handle, enum refusal reason);
void sim_stage_answered(struct sim *sim, const struct request_node *request, bool ran);
/* After every event: begins stages, takes back what is left of dead queries. */
void sim_queries_go_on(struct sim *sim);

/* ---- sim_accelerator.c ---- */

/* Memory for the accelerators and the batches sent to them. */
void sim_accelerators_layout(struct sim *sim, struct arena *arena);
/* Sends a batch, load or unload to an accelerator: the caller sets the members of `batch` before begin_ns, except next,
 * sent_ns and arrives_ns. The requests go with it. */
void sim_send(struct sim *sim, uint32_t accelerator, const struct sim_batch *batch);
/* The time of an accelerator's lane has come. */
void sim_runs_due(struct sim *sim, uint32_t accelerator);
void sim_loads_due(struct sim *sim, uint32_t accelerator);
void sim_accelerator_down(struct sim *sim, uint32_t accelerator);
/* No model is loaded on an accelerator any more. */
void sim_accelerator_forget(struct sim *sim, uint32_t accelerator);
void sim_accelerator_up(struct sim *sim, uint32_t accelerator);
/* Nothing goes on at an accelerator for so long. */
void sim_accelerator_stall(struct sim *sim, uint32_t accelerator, int64_t for_ns);

/* ---- sim_links.c ---- */

/* Whether messages, the scheduler or lost requests are simulated there. If not, messages arrive at once. */
bool sim_links_on(const struct sim_config *config);
/* After the accelerators', before the driver's. */
void sim_links_layout(struct sim *sim, struct arena *arena);
void sim_links_begin(struct sim *sim);
/* Whether so many messages about accelerators are on their way that there should be no further fault. */
bool sim_links_crowded(const struct sim *sim);
/* Draws by how much a message that is sent now is late. */
int64_t sim_link_delay(struct sim *sim);
/* Sends a request to the scheduler. sim_request_again(): once more, since its batch was lost; false if its deadline has
 * passed, there is no room, or the scenario does not send requests again. The node still belongs to the caller. */
void sim_link_request(struct sim *sim, const struct request_message *message);
bool sim_request_again(struct sim *sim, const struct request_node *node);
/* Marks a list of requests as being in a batch. */
void sim_link_sealed(struct sim *sim, uint32_t first);
/* Messages about an accelerator to the scheduler. `batch` is copied. */
void sim_tell_ended(struct sim *sim, uint32_t accelerator, const struct sim_batch *batch, bool done);
void sim_tell_joined(struct sim *sim, uint32_t accelerator);
void sim_tell_left(struct sim *sim, uint32_t accelerator);
/* A packet arrives; the scheduler dies, or another one takes over. */
void sim_packets_due(struct sim *sim);
void sim_outage_due(struct sim *sim);

/* ---- sim_rehearsal.c ---- */

void sim_rehearsal_layout(struct sim *sim, struct arena *arena);
void sim_rehearsal_begin(struct sim *sim);
/* The time has come to see which way is best. */
void sim_rehearsal_look(struct sim *sim);
void sim_rehearsal_end(struct sim *sim);

/* ---- sim_autoscale.c ---- */

void sim_scaling_layout(struct sim *sim, struct arena *arena);
void sim_scaling_begin(struct sim *sim);
/* The time of a look at the load, or of an accelerator that has started. */
void sim_scaling_look(struct sim *sim);
void sim_scaling_start(struct sim *sim);
/* A batch that began then is over. */
void sim_scaling_ran(struct sim *sim, uint32_t accelerator, int64_t begin_ns);
/* Something on an accelerator is over. If it was released and has nothing more to do, it is gone. */
void sim_scaling_drained(struct sim *sim, uint32_t accelerator);
void sim_scaling_end(struct sim *sim);
