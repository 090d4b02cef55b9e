/* sim_state.h - the parts of a run in virtual time. For the files of the simulator only.
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

#include "core/data/residency.h"
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
#include "sched/plan/autoscale_subclusters.h"

#define SIM_NOTHING UINT32_MAX
#define SIM_NOBODY  UINT64_MAX /* the handle of an unused node of the pool */

/* A batch on its way to an accelerator, waiting there, or under way; also what the scheduler is told of a load. */
struct sim_batch {
    uint32_t next; /* next batch in the lane, or in the list of unused batches; SIM_NOTHING: none */
    enum central_action_kind kind;
    uint32_t model, items, requests, accelerator;
    uint32_t first;              /* first request of the batch; the others follow by `next` */
    int64_t sent_ns, arrives_ns; /* time at which the batch was decided, and time at which its inputs are there */
    int64_t earliest_ns, latest_ns;
    bool ahead;               /* as in residency_move */
    int64_t expected_ns;      /* time that the batch takes by the table in force */
    int64_t ready_ns;         /* time since which the batch has waited for no company; INT64_MIN: it never did */
    uint32_t before;          /* batch_before(); set when the run begins */
    int64_t begin_ns, run_ns; /* start and length of the run; set when the run begins */
    int64_t answer_ns;        /* delay of the answers on their way; set when the run is over */
    uint32_t late;            /* number of late requests; set when the run is over */
    uint32_t term;            /* number of the scheduler that sent the batch (sim_links.c) */
    uint64_t tag;
};

/* Batches that an accelerator runs one after the other. */
struct sim_lane {
    uint32_t head, tail; /* first and last batch; the first is under way if `running` */
    bool running;
};

/* A load or unload that was sent to an accelerator. */
struct sim_load {
    struct residency_move move; /* the first member; of an unused one, move.next is the next unused one */
    uint32_t term;
    uint64_t tag;
};

struct sim_accelerator {
    struct sim_lane runs;
    struct residency residency; /* where memory is limited */
    int64_t free_ns;      /* time at which all batches sent so far will have ended by the tables in force, as far as is
                           * known */
    int64_t stalled_ns;   /* time until which the accelerator stands still */
    int64_t released_ns;  /* time at which autoscale released the accelerator, if it is not in service */
    struct sim_lane lost; /* batches that went down with the accelerator and are not reported yet */
    int64_t ended_ns;     /* end of the last run; INT64_MIN: there was none */
    uint32_t ended_model; /* model of that run */
    bool down, used;
    bool silent;    /* whether the accelerator sends no messages */
    bool unknown;   /* whether the scheduler does not count on the accelerator (sim_links.c) */
    uint32_t joins; /* messages under way that the accelerator has joined (sim_links.c) */
};

/* A message on its way between the scheduler and others, or a request that a frontend holds while there is no
 * scheduler. */
struct sim_packet {
    enum { SIM_REQUEST, SIM_HELD, SIM_ENDED, SIM_JOINED, SIM_LEFT } kind;
    bool done;
    uint32_t next; /* next packet in the list of unused packets */
    uint32_t accelerator;
    union {
        struct request_message request;
        struct sim_batch batch;
    };
};

struct sim_links {
    struct sim_packet *packets;
    uint32_t unused;     /* first packet of the list of unused packets */
    uint32_t used;       /* number of packets in use */
    uint32_t requests;   /* number of packets in use that are requests */
    struct heap due;     /* packets by their time of arrival */
    int64_t *told_ns;    /* [accelerators] arrival of the last packet about the accelerator */
    uint32_t term;       /* number of the present scheduler, from 0 on */
    bool scheduler_down; /* whether the scheduler is dead, and no other has taken over */
    int64_t ready_ns;    /* time from which a new scheduler, whose cores then know all accelerators, takes requests */
    struct rng rng;      /* random numbers for delays and losses */
    /* Random numbers for deaths of the scheduler, and for silent and killed backends, which happen at the same times
     * under all policies. */
    struct rng fault_rng;
};

struct sim_stream {
    struct workload_stream arrivals;
    struct workload_request next;
    struct request_message cancel; /* request of the one client that will leave, if `cancelling` */
    bool cancelling;
};

/* Sources of events, in the order in which equal times are handled. */
struct sim_sources {
    uint32_t runs, loads, arrivals, cancels, fault, looks, starts, packets, outage, rehearsal;
    uint32_t driver; /* number of the driver's first source */
    uint32_t count;  /* number of all sources */
};

struct sim;

/* A kind of scheduler between requests and accelerators: its functions. */
struct sim_driver {
    /* The number of sources of events of the driver. */
    uint32_t (*sources)(const struct sim_config *config);
    /* Takes the driver's memory; with arena->base, also sets the driver up. Called once, and again when another
     * scheduler takes over. */
    void (*layout)(struct sim *sim, struct arena *arena);
    void (*begin)(struct sim *sim); /* the run begins; NULL: nothing to do */
    void (*arrived)(struct sim *sim, const struct request_message *message);
    void (*cancelled)(struct sim *sim, const struct request_message *message);
    /* A batch or load is over; `batch` is not used afterwards. `done` false: the accelerator refused the batch, or lost
     * it. */
    void (*ended)(struct sim *sim, uint32_t accelerator, const struct sim_batch *batch, bool done);
    void (*joined)(struct sim *sim, uint32_t accelerator); /* the accelerator is up again */
    void (*left)(struct sim *sim, uint32_t accelerator);   /* the accelerator is down */
    /* The time of one of the driver's sources, counted from sources.driver, has come. */
    void (*due)(struct sim *sim, uint32_t source);
    /* After every event: delivers the messages of this instant. */
    void (*deliver)(struct sim *sim);
    /* At the end: the number of accelerators that the driver did not get back. */
    uint32_t (*stuck)(const struct sim *sim);
    /* Accelerator time that the load has needed so far, in nanoseconds: as the scheduler plans, or else the time that
     * accelerators were busy. */
    double (*needed_ns)(struct sim *sim, uint32_t subcluster);
    /* [types] How many accelerators of each type there should be, by a policy that chooses pools; the result NULL:
     * nothing has been chosen yet. NULL: policies of this driver choose no pools. */
    const uint16_t *(*pool)(const struct sim *sim);
    /* The number of sub-clusters whose loads are told apart; the sub-cluster of a model (SIM_NOTHING: none at present),
     * and of an accelerator. NULL: there is one sub-cluster. */
    uint32_t (*subclusters)(const struct sim_config *config);
    uint32_t (*subcluster_of_model)(const struct sim *sim, uint32_t model);
    uint32_t (*subcluster_of_accelerator)(const struct sim *sim, uint32_t accelerator);
    /* From now on the policy is to decide by this way. NULL: the policy has only one way. */
    void (*way_set)(struct sim *sim, uint32_t way);
    /* At the end: adds the counts to the result that only the scheduler has. NULL: it has none. */
    void (*sum)(const struct sim *sim, struct sim_result *result);
    bool loses_late; /* whether lost batches are reported only when the accelerator is back, as a monitor of the
                      * accelerator would */
};

/* Queries of pipelines that have not ended, or whose requests have not all come back. */
struct sim_queries {
    void *slots; /* [capacity] struct sim_query, of slot_bytes each */
    size_t slot_bytes;
    struct pipeline_times *times; /* [pipelines] */
    uint32_t capacity, touched, used;
    uint32_t unused;      /* first slot of the list of unused slots; SIM_NOTHING: the list is empty */
    uint32_t first, last; /* ends of the list of queries that have something to do */
    uint64_t next_number;
    uint64_t *again; /* [again_count] handles of requests that are to be sent again; room for each request of the
                      * pool */
    uint32_t again_count;
};

/* Accelerators of one type: those from `first` to first + present - 1 are in service. */
struct sim_scaling_type {
    uint32_t first, count; /* accelerators of the type, which are all that there may be */
    uint32_t present, starting;
    int64_t *start_ns; /* [count] circle from start_head on: times at which starting accelerators will be there */
    uint32_t start_head;
    int64_t since_ns;  /* time of the last change of `present` */
    double present_ns; /* accelerator time in service until since_ns, while requests count, and of released accelerators
                        * until their last batch has ended */
};

struct sim_scaling {
    struct autoscale_subclusters advice;
    uint32_t present; /* accelerators of all types in service */
    struct sim_scaling_type types[ACCELERATOR_TYPES_MAX];
    uint16_t chosen[ACCELERATOR_TYPES_MAX]; /* with several types: the pool that was chosen last; all 0: none yet */
    /* as of the last look: */
    uint64_t requests, bad;
    double *needed_ns; /* [subclusters] */
    /* with several sub-clusters: */
    struct autoscale_seen *seen; /* [subclusters] requests since the last look; at a look the other counts, too */
    uint32_t *wanted;            /* [subclusters] advised accelerators */
};

extern const struct sim_driver sim_driver_cores, sim_driver_central;

struct sim {
    const struct sim_config *config;
    const struct sim_driver *driver;
    struct sim_sources sources;
    struct sim_result *result;
    int64_t now_ns, count_from_ns, count_until_ns;
    struct tournament events; /* sources of events by their next time */
    uint32_t handled; /* source whose event is being handled, or SIM_NOTHING; `events` gets its next time once, at the
                       * end */
    int64_t handled_next_ns;    /* next time of the source `handled` */
    struct request_pool pool;   /* requests in the scheduler, and in batches that have not ended */
    uint32_t queued;            /* number of requests in the scheduler */
    struct sim_stream *streams; /* [models + pipelines] */
    struct sim_queries queries;
    struct sim_accelerator *accelerators;
    struct sim_batch *batches;
    uint32_t batch_count, batch_free;
    struct residency_move *loads_free; /* list of unused loads, where memory is limited */
    uint32_t *loaded_count;            /* [models] number of accelerators that have the model */
    uint32_t *variant_items;           /* [the most variants of a model] scratch memory, all 0 between uses */
    struct rng rng;                    /* random numbers for noise, faults, jitter, cancellations */
    uint64_t next_handle;
    uint32_t fault_accelerator; /* an accelerator of the backend that has the fault */
    enum { SIM_WELL, SIM_SILENT, SIM_DOWN } fault;
    int64_t fault_until_ns;
    struct sim_links links;
    struct arena driver_memory; /* arena as it is where the driver's memory begins */
    uint32_t down;              /* accelerators that are down */
    double busy_ns, ran_ns; /* time of runs while requests count, and in all; with many accelerators the sums outgrow 64
                             * bits */
    uint64_t ended, bad;    /* requests and queries that ended, and the bad ones, with the warm-up, without cancelled
                             * ones */
    struct sim_scaling scaling;
    struct rehearsal *rehearsal;   /* rehearsal of the policy's ways; NULL: the policy has only one */
    uint64_t ended_seen, bad_seen; /* `ended` and `bad` at the rehearsal's last look */
    uint32_t way;                  /* way that the rehearsal chose at its last look */
    int64_t way_ns;                /* time up to which result->way_share counts */
    uint64_t *bad_most; /* [models + pipelines] most bad requests; a run with more is given up; NULL: no run is */
    void *driver_state;
};

/* ---- sim.c ---- */

/* sim_begin() begins a run without traffic, at time 0, in memory of sim_bytes(); sim_until() runs it on to a later
 * time. Between two such calls the caller tells what happens at that time: by sim_tell_request(), or by a function of
 * sim_accelerator.c and then by sim_told(), which handles the consequences at the same instant. */
struct sim *sim_begin(const struct sim_config *config, void *memory, struct sim_result *result);
void sim_until(struct sim *sim, int64_t until_ns);
void sim_tell_request(struct sim *sim, const struct request_message *message);
void sim_told(struct sim *sim);

/* Sets the next time of a source; TIME_NEVER: none. */
void sim_source_set(struct sim *sim, uint32_t source, int64_t at_ns);
/* Whether a request that arrived at arrival_ns counts in the results. */
bool sim_counts(const struct sim *sim, int64_t arrival_ns);
/* The part of [from_ns, to_ns) in which requests count, in nanoseconds. */
int64_t sim_counted_ns(const struct sim *sim, int64_t from_ns, int64_t to_ns);
/* Counts a request that arrived at arrival_ns and has left. When there are too many bad requests, the run is given up.
 */
void sim_count(struct sim *sim, uint32_t model, uint8_t priority, int64_t arrival_ns, enum sim_outcome outcome);
/* Counts a request that the scheduler has no room for, or that has found no scheduler. */
void sim_dropped(struct sim *sim, const struct request_message *message, enum refusal refusal);
/* Counts why such a request was dropped or is late. The trail's times from the arrival to the deadline and to now are
 * set here. */
void sim_reason_count(struct sim *sim, uint8_t priority, int64_t arrival_ns, int64_t deadline_ns, struct trail trail);
/* The counters of a model's requests of one priority, or of those without an SLO; NULL: these are not counted apart. */
struct sim_class_result *sim_class_of(const struct sim *sim, uint32_t model, uint8_t priority);
/* Adds a request that has left to the load of its sub-cluster, if there are several sub-clusters. */
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
/* A stage's request comes back; sim_queries_go_on() handles the consequences. */
void sim_stage_refused(struct sim *sim, uint64_t handle, enum refusal reason);
void sim_stage_answered(struct sim *sim, const struct request_node *request, bool ran);
/* After every event: begins stages, and takes back the requests of queries that have ended. */
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
/* Whether nothing that was sent to an accelerator waits or is under way there. */
bool sim_accelerator_idle(const struct sim *sim, uint32_t accelerator);
void sim_accelerator_down(struct sim *sim, uint32_t accelerator);
/* No model is loaded on an accelerator any more, and the moves that it has not done are lost. */
void sim_accelerator_forget(struct sim *sim, uint32_t accelerator);
void sim_accelerator_up(struct sim *sim, uint32_t accelerator);
/* The accelerator stands still for for_ns. */
void sim_accelerator_stall(struct sim *sim, uint32_t accelerator, int64_t for_ns);

/* ---- sim_links.c ---- */

/* Whether sim_links.c simulates messages, the scheduler's death or lost requests. If not, messages arrive at once. */
bool sim_links_on(const struct sim_config *config);
/* Takes memory for links. Call it after sim_accelerators_layout(), before the driver's layout. */
void sim_links_layout(struct sim *sim, struct arena *arena);
void sim_links_begin(struct sim *sim);
/* Whether too many messages about accelerators are on their way for a further fault. */
bool sim_links_crowded(const struct sim *sim);
/* Draws the delay of a message that is sent now. */
int64_t sim_link_delay(struct sim *sim);
/* Sends a request to the scheduler. sim_request_again(): sends the request again, since its batch was lost; false if
 * its deadline has passed, there is no room, or the scenario does not send requests again. The node still belongs to
 * the caller. */
void sim_link_request(struct sim *sim, const struct request_message *message);
bool sim_request_again(struct sim *sim, const struct request_node *node);
/* Marks a list of requests as being in a batch. */
void sim_link_sealed(struct sim *sim, uint32_t first);
/* Send messages about an accelerator to the scheduler. `batch` is copied. */
void sim_tell_ended(struct sim *sim, uint32_t accelerator, const struct sim_batch *batch, bool done);
void sim_tell_joined(struct sim *sim, uint32_t accelerator);
void sim_tell_left(struct sim *sim, uint32_t accelerator);
/* The time of a packet's arrival has come; the time at which the scheduler dies, or another one takes over, has come.
 */
void sim_packets_due(struct sim *sim);
void sim_outage_due(struct sim *sim);

/* ---- sim_rehearsal.c ---- */

void sim_rehearsal_layout(struct sim *sim, struct arena *arena);
void sim_rehearsal_begin(struct sim *sim);
/* The time of the rehearsal's next look has come. */
void sim_rehearsal_look(struct sim *sim);
void sim_rehearsal_end(struct sim *sim);

/* ---- sim_autoscale.c ---- */

void sim_scaling_layout(struct sim *sim, struct arena *arena);
void sim_scaling_begin(struct sim *sim);
/* The time of a look at the load has come; the time at which an accelerator has started has come. */
void sim_scaling_look(struct sim *sim);
void sim_scaling_start(struct sim *sim);
/* A batch that began at begin_ns is over. */
void sim_scaling_ran(struct sim *sim, uint32_t accelerator, int64_t begin_ns);
void sim_scaling_end(struct sim *sim);
