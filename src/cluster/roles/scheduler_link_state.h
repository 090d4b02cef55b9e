/* scheduler_link_state.h - the state of a scheduler's link; for its files only. */
#pragma once

#include <jansson.h>

#include "cluster/membership/catalogue.h"
#include "cluster/membership/speed.h"
#include "cluster/membership/standby.h"
#include "cluster/peer/health.h"
#include "cluster/peer/link_loop.h"
#include "cluster/peer/lost.h"
#include "cluster/peer/pass.h"
#include "cluster/roles/plan_memory.h"
#include "cluster/roles/scheduler_link.h"
#include "model/repository/model_life.h"

/* The last request of a frontend's slot: what its model's core finds it by, should there be more to tell, and which
 * backend may say that it is lost. */
struct queued_request {
    uint64_t handle;     /* handle of the request; 0: there is none, or it was refused or lost */
    int64_t deadline_ns; /* deadline by our clock, as the core was told: the estimate of the frontend's clock changes */
    uint64_t shape_key;
    struct place_id place;
    uint8_t priority;
    bool promised : 1;  /* the core was told that the inputs are promised */
    bool cancelled : 1; /* the frontend has cancelled the request */
    uint16_t backend;   /* number of the backend to which it was sent; 0: none */
};
_Static_assert(HELLO_NUMBERS <= UINT16_MAX, "numbers of members");
_Static_assert(sizeof(struct queued_request) == 32, "two in a cache line");

/* A frontend or a backend; a stranger before it has introduced itself. */
struct member {
    struct peer peer;
    struct list_node node;     /* place in the list of members */
    struct list_node stranger; /* place in the list of strangers */
    struct member *next;       /* next one in the list of ghosts */
    struct hello hello;
    struct health health;
    bool known;                      /* the member has introduced itself */
    bool refused;                    /* the stranger was refused, and told so */
    bool visits;                     /* the stranger is a visitor that has introduced itself; no member */
    bool left;                       /* the member has said good-bye */
    bool told;                       /* the frontend was told of all models; the backend has told all about itself */
    bool told_all;                   /* the frontend was sent FRAME_TOLD */
    int64_t since_ns;                /* time of the connection */
    char from[96];                   /* address of the other end, for the log */
    char metrics[HELLO_ADDRESS_MAX]; /* HOST:PORT of its metrics; "": not known */
    /* of a frontend */
    struct queued_request *last; /* [lanes * slots] */
    size_t cancelled;            /* first slots of `last` whose requests were cancelled since the frontend is gone */
    int64_t advised;             /* advice that was last sent to the frontend, plus one; 0: none yet */
    bool *owes;                  /* [models_max] the frontend has yet to send FRAME_MODEL_LEFT for this place */
    /* of a backend */
    struct brought_model *brought; /* [brought_count] */
    uint32_t brought_count;
    struct remote_id *remote_of_known; /* [CATALOGUE_MODELS_MAX] backend's number of each model of the catalogue */
    char (*types)[64];                 /* [accelerator_count] type of each accelerator */
    uint32_t *accelerators;            /* [accelerator_count] scheduler's numbers of the accelerators, once `told` */
    uint32_t accelerator_count;
    uint32_t class_count, classes[ACCELERATOR_TYPES_MAX]; /* [class_count] classes of the accelerators */
    /* while the backend's models change */
    uint32_t targets[ACCELERATOR_TYPES_MAX];   /* [class_count] next classes; as `classes` if nothing changes */
    bool switching[ACCELERATOR_TYPES_MAX];     /* accelerators of this class are on the way to their target */
    bool models_changed;                       /* models have come or ended, or the speed has changed, since the targets
                                                * were chosen */
    struct speed speed[ACCELERATOR_TYPES_MAX]; /* [class_count] speed of its runs; the factors are those of its classes,
                                                * unless none is free */
    int64_t choose_ns;                         /* earliest time to choose targets again; 0: no class was missing */
    uint32_t late_count;
    struct late_model *late; /* models that were not taken */
    bool cordoned;           /* the backend takes no batches until it is asked to */
    json_t *aside;           /* models that the backend does not offer (aside.h); NULL: none */
};

/* A model that was not taken. */
struct late_model {
    struct late_model *next;
    struct remote_id remote; /* backend's number of the model */
    uint32_t bytes;          /* length of `text` */
    bool waits;              /* the model is taken once another model of the same name is gone; false: never */
    char name[MODEL_NAME_MAX];
    uint32_t version; /* version; 0, with an empty name: the description cannot be read */
    char reason[512]; /* why the model was not taken */
    char text[];      /* description, if `waits` */
};

/* A plan that was sent to a backend. It is kept until its batch has ended and was measured. */
struct sent_plan {
    struct plan_memory memory;
    uint32_t place;               /* place of the model */
    struct remote_id remote;      /* backend's number of the model */
    uint8_t class;                /* class of the accelerator */
    uint64_t tag;                 /* tag that the measurement repeats */
    bool ended, unlike, measured; /* the batch has ended; did not run as one; was measured */
    int64_t ended_ns;             /* end of the batch, if `ended` */
    struct ran_message ran;       /* the measurement */
    struct batch_plan plan;       /* handles follow */
};

/* A place for an accelerator: the scheduler's number. */
struct accelerator_place {
    struct member *member; /* member that has the accelerator; NULL: no member, or the member is gone */
    uint32_t local;        /* member's number of the accelerator */
    uint8_t class;         /* class of the accelerator */
    bool taken;            /* a member, or batches of a member that is gone, occupy the place */
    bool up;               /* the scheduling threads were told that the accelerator has joined */
    bool owes;             /* the member is to be sent FRAME_RESTS once nothing is left of the accelerator */
    bool joined;           /* the member says that the accelerator has joined; `up` follows, once all that was granted
                            * before it left is over, and except during a switch */
    bool switches;         /* the accelerator's class is changing */
    bool leaves;           /* the accelerator is in the list `leaving` */
    struct accelerator_memory *memory; /* if rank threads order loads, once the place was taken; else NULL */
    struct accelerator_loads *loads;   /* the same, if the central thread does */
    struct list_node plans;            /* plans that were sent, the oldest first */
};

/* A place for a model, which is the model's number in the scheduler. */
struct served_place {
    uint32_t known;   /* number of the model in the catalogue */
    uint64_t runs_on; /* classes whose profiles the place's cores have, a bit each */
    uint32_t owed;    /* frontends that have yet to send FRAME_MODEL_LEFT */
    uint32_t queued;  /* requests that the scheduler has for the place */
    uint32_t sent;    /* batches of the place at backends */
    uint32_t joined;  /* if rank threads order loads: number of the rank thread that knows the model, plus one; 0: the
                       * model comes, or moves */
    uint32_t moves_to, moved; /* while it is sent to another rank thread: that one's number, plus one, else 0; variants
                               * that were told */
    bool recalled;            /* requests go back to their frontends, which send them to another place of the model */
    bool all_recalled;        /* recalls of all queued requests were sent to the model's thread */
    struct thread_model model;
};

struct scheduler_link {
    struct scheduler_link_config config;
    struct wiring *wiring;
    struct link_loop loop;
    struct list_node members;   /* connected members, strangers included */
    struct list_node strangers; /* members that have not introduced themselves, and visitors, the oldest first */
    uint32_t stranger_count;
    struct standby *standby; /* election among schedulers; NULL: this is the only one */
    _Atomic bool leads;      /* this scheduler leads */
    _Atomic bool resigns;    /* scheduler_link_stop(): another one is to take over */
    _Atomic bool resigned;   /* another one has taken over, or none is there */
    bool resigning;          /* the others were told */
    int64_t settled_ns;      /* time at which all members of the previous scheduler have had time to join */
    uint32_t told;           /* backends that have told all their models */
    int64_t started_ns;
    int64_t look_ns; /* time of the next check of members */
    struct link_report report;
    _Atomic(struct link_description *) description; /* description for another thread, which waits; NULL: none */
    struct pass_maker *passes;                      /* passes of the plans that are sent */
    struct member **by_number;                      /* [HELLO_NUMBERS] members by number */
    uint32_t number_next;                           /* number that was last given to a new member */
    struct member *ghosts; /* members that are gone, as long as requests or plans here refer to them */
    struct catalogue *catalogue;
    struct rollouts *proposed;              /* rollouts that the registry is to record, which count afterwards */
    bool recording;                         /* it has been asked to */
    bool ordered;                           /* because of an order, which is answered then */
    bool recorded;                          /* it has those that count now, as far as is known */
    int64_t record_began_ns, ordered_ns;    /* times at which it was asked to, and first asked because of the order */
    int64_t record_ns;                      /* earliest time to ask it again */
    struct member *asker;                   /* visitor that waits for the record; NULL: none */
    char asked[MODEL_NAME_MAX];             /* model of that visitor's order */
    struct served_place *places;            /* [models_max] */
    struct model_life *life;                /* states of the places */
    bool *variant_taken;                    /* [wiring->models] the model core is in use by a place */
    struct accelerator_place *accelerators; /* [wiring->accelerators] places for accelerators */
    uint32_t *leaving; /* [leaving_count] accelerators out of service, or whose member is gone, until the threads and
                          plans here are done with them */
    uint32_t leaving_count;
    bool changing;               /* some backend's models or classes change: changes_look() */
    bool classes_short;          /* a backend found no free class: places drop classes that no backend has any more */
    uint32_t accelerators_there; /* accelerators in service */
    uint32_t accelerators_most;  /* places for accelerators that were ever taken: all lie below this number */
    uint32_t news;               /* accelerators that joined or left, which the rank threads may not have read of yet */
    struct list_node free_plans; /* structs for further plans */
    uint64_t plan_tag;           /* tag of the next plan */
    uint32_t plans_ended;        /* plans that have ended and are kept for their measurement */
    int64_t plans_look_ns;       /* time of the next plans_look() with work to do */
    int64_t speed_ns;            /* time of the next speed_look() of all backends */
    bool changed;                /* models or classes have changed: places_look() has work to do */
    int64_t reconcile_ns;        /* until then it leaves that */
    bool models_moved;           /* models have got or lost places since the report copied them */
    uint64_t serving_told;       /* classes that served when models were last reported, a bit each */
    bool memory_due;             /* what accelerators offer may have changed: memory_look() */
    int64_t memory_looked_ns;    /* time of the last look */
    int64_t memory_ns;           /* time at which a model may be offered again that could not be loaded */
    uint16_t *able;        /* [rank_threads][CATALOGUE_MODELS_MAX] accelerators that have a model, by rank thread, while
                            * memory_look() counts; NULL: there is one rank thread */
    uint32_t in_scheduler; /* requests that the scheduler has */
    uint32_t pushed;       /* messages of this turn to model threads */
    bool *model_rung;      /* [model_threads] the thread has messages of this turn */
    bool report_rung;      /* scheduling threads have reports of this turn */
    struct {
        uint64_t requests, batches, lost[LOST_REASONS]; /* requests received, batches sealed, requests lost */
    } counters;
};

/* Runs over the members of a role that have told all that they have. */
#define FOR_EACH_TOLD(l, m, of_role)                                                                                   \
    list_for_each_entry (m, &(l)->members, struct member, node)                                                        \
        if (m->known && m->told && m->hello.role == (of_role))

/* ---- scheduler_link.c ---- */

/* Tells the frontend of a request that the request is lost, so that it may be sent again. */
void link_lost(struct scheduler_link *l, uint64_t handle, enum lost_reason reason);
/* Tells the model's thread that a request is cancelled. False: there is no room now. */
bool request_cancel(struct scheduler_link *l, const struct queued_request *last);
/* Takes a frame of a frontend or a backend. 0 or -errno with a sentence. */
int frontend_frame(struct scheduler_link *l, struct member *m, const struct frame *frame, const void *head,
                   struct sy_error *err);
int backend_frame(struct scheduler_link *l, struct member *m, const struct frame *frame, const void *head,
                  struct sy_error *err);
/* A member has obeyed a leader of this term. If this is the only scheduler, and the term is higher than ours, a new
 * term begins: members never join a term lower than one that they know. */
void link_term_told(struct scheduler_link *l, uint64_t term);

/* ---- scheduler_members.c ---- */

#define SCHEDULER_LOOK_NS (1 * NS_PER_MS) /* time between two checks of members, and of models that change */

/* Somebody has connected: a stranger, until the introduction. */
void members_accept(void *owner, int fd, const char *from);
/* Closes a connection, for this reason; what the member had is lost. */
void member_drop(struct scheduler_link *l, struct member *m, const char *reason);
/* A member's socket is closed; its number is free once nothing here refers to the member any more. */
void members_bury(void *owner, struct peer *peer);
/* Frees the numbers of members to which nothing here refers any more. */
void ghosts_look(struct scheduler_link *l);
void member_free(struct member *m);
/* Checks all members when one is due; seldom enough that thousands of members cost little. Lowers *until_ns to when to
 * call it again. */
void members_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns);

/* ---- scheduler_places.c ---- */

int places_init(struct scheduler_link *l);
void places_free(struct scheduler_link *l);
/* Allocates the memory for a member that has introduced itself. */
bool member_room(struct scheduler_link *l, struct member *m);

/* A backend announces a model. 0 or -errno with a sentence. */
int member_model(struct scheduler_link *l, struct member *m, const char *head, uint32_t bytes, struct sy_error *err);
/* A backend announces accelerators. 0 or -errno with a sentence. */
int member_accelerators(struct scheduler_link *l, struct member *m, const struct wire_accelerator *accelerators,
                        uint32_t count, struct sy_error *err);
/* A backend has announced all its models and accelerators. 0 or -errno with a sentence. */
int member_told(struct scheduler_link *l, struct member *m, struct sy_error *err);
/* The classes that some place uses. */
uint64_t classes_used(const struct scheduler_link *l);
/* The classes whose accelerators are still to run the last requests of a model that the class has no more: a backend
 * that joins does not have it. */
uint64_t classes_closed(const struct scheduler_link *l);
/* Whether a model that a backend brings (catalogue_bring()) may be taken, where the scheduler orders loads: -EEXIST,
 * with a sentence, while the backend has not put down the same model of before, which has another number. Then it is as
 * if it had not been brought. */
int member_has_ended(struct scheduler_link *l, const struct member *m, struct brought_model *brought,
                     struct sy_error *err);
/* The struct for one more model of a backend. NULL: no memory. */
struct brought_model *member_brings(struct member *m);
/* Keeps that struct, which catalogue_bring() has filled, with the backend's number of the model. */
void member_brought(struct member *m, struct brought_model *brought, struct remote_id remote);
/* A backend is gone, with its models, accelerators and batches. */
void backend_gone(struct scheduler_link *l, struct member *m);

/* Whether its place accepts this request. */
bool place_takes(const struct scheduler_link *l, const struct request_message *message);
/* Tells a frontend of all models that are served. */
void places_tell(struct scheduler_link *l, struct member *m);
/* A frontend sends no more requests for a place; all that it sent have arrived. */
void place_left(struct scheduler_link *l, struct member *m, uint32_t place);
/* A frontend that is gone sends no more requests for any place. */
void places_left_by(struct scheduler_link *l, struct member *m);
/* Does the next steps of all changes of places. True: more steps follow soon. Lowers *until_ns to when others do. */
bool places_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns);
/* Whether a scheduling thread has answered that a model has come or gone, which places_look() has not seen. */
bool places_pending(const struct scheduler_link *l);
/* Puts an accelerator into the list `leaving`, until the scheduling threads and the plans here are done with it. */
void accelerator_leaves(struct scheduler_link *l, uint32_t accelerator);

/* Has the next places_look() choose again which versions get requests without a version. */
void versions_again(struct scheduler_link *l);

/* ---- scheduler_rollouts.c ---- */

int scheduler_rollouts_init(struct scheduler_link *l);
void scheduler_rollouts_free(struct scheduler_link *l);
/* Rollouts that a member or the registry knows: they count if they are of a later decision. */
void scheduler_rollouts_heard(struct scheduler_link *l, const char *text, size_t bytes, bool recorded);
/* Tells a member that has joined. */
void scheduler_rollouts_tell(struct scheduler_link *l, struct member *m);
/* A visitor's order. It is answered when it is carried out, or refused. */
void scheduler_rollouts_order(struct scheduler_link *l, struct member *visitor, const char *text, size_t bytes);
/* The registry has recorded `proposed`, or perhaps not. */
void scheduler_rollouts_recorded(struct scheduler_link *l, bool done);
/* Once a turn. Lowers *until_ns to when to call it again. */
void scheduler_rollouts_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns);

/* ---- scheduler_changes.c ---- */

/* Notes a model that was not taken, with the reason `why`; rc -EEXIST: the model is taken once another one of its name
 * is gone. 0 or -errno with a sentence. */
int late_note(struct scheduler_link *l, struct member *m, struct remote_id remote, const char *text, uint32_t bytes,
              int rc, const struct sy_error *why, struct sy_error *err);
/* A backend ends a model. 0 or -errno with a sentence. */
int member_model_ends(struct scheduler_link *l, struct member *m, struct remote_id remote, struct sy_error *err);
/* A member says that its accelerator joins or leaves. */
void member_accelerator_news(struct scheduler_link *l, uint32_t accelerator, enum accelerator_news news);
/* Does the next steps of all changes. True: more steps follow. */
bool changes_look(struct scheduler_link *l, int64_t now_ns);
/* Forgets the changes of a backend that is gone. */
void changes_forget(struct scheduler_link *l, struct member *m);
void late_free(struct member *m);

/* ---- scheduler_plans.c ---- */

void plans_free(struct scheduler_link *l);
/* Keeps a plan that goes to a backend, in memory of plan_memory_take(). Returns the tag to send with it. */
uint64_t plan_note(struct scheduler_link *l, struct accelerator_place *a, const struct batch_plan *plan,
                   struct sent_plan *p);
/* Whether a backend has a plan for a model. */
bool plans_of(const struct scheduler_link *l, const struct member *m, struct remote_id remote);
/* The oldest plan of an accelerator with that variant has ended; `freed` has our numbers. False: there is none. */
bool plan_ended(struct scheduler_link *l, const struct freed_message *freed);
/* Takes a backend's measurement of a run, in our numbers except for the tag. 0, or -EPROTO with a sentence: it is
 * impossible. */
int plan_measured(struct scheduler_link *l, const struct ran_message *ran, struct sy_error *err);
/* Once a turn. Lowers *until_ns to when to call it again. */
void plans_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns);
/* All plans of an accelerator are lost. */
void plans_lose(struct scheduler_link *l, uint32_t accelerator);
/* Whether the rings to the scheduling threads have room for one more accelerator to join. */
bool accelerator_may_join(struct scheduler_link *l);
/* Tells the scheduling threads that an accelerator joins or leaves, if they do not know it yet. */
void accelerator_news(struct scheduler_link *l, uint32_t accelerator, enum accelerator_news news);
/* Wakes the scheduling threads. */
void publish_reports(struct scheduler_link *l);

/* The time that a backend says a load took, as far as it is believed: an hour at most. */
static inline int64_t load_took_ns(int64_t told_ns) {
    return told_ns < 3600 * NS_PER_S ? told_ns : 3600 * NS_PER_S;
}

/* ---- scheduler_loads.c: all of it only if the central thread orders loads ---- */

/* An accelerator's place is taken. 0 or -ENOMEM. */
int loads_begin(struct scheduler_link *l, uint32_t accelerator);
/* A backend tells what memory its accelerator has; it is emptied before loads. 0 or -errno with a sentence. */
int loads_described(struct scheduler_link *l, uint32_t accelerator, const struct wire_memory *memory,
                    struct sy_error *err);
/* The accelerator's memory for weights, and its pages. */
uint64_t loads_memory_bytes(const struct scheduler_link *l, uint32_t accelerator);
uint32_t loads_page_bytes(const struct scheduler_link *l, uint32_t accelerator);
/* Passes on the central thread's orders. True: there were some. */
bool loads_take_orders(struct scheduler_link *l);
bool loads_pending(const struct scheduler_link *l);
/* A backend tells the end of its accelerator's oldest one. 0 or -errno with a sentence. */
int loads_moved(struct scheduler_link *l, uint32_t accelerator, const struct wire_moved *moved, struct sy_error *err);
/* The accelerator's backend is gone, with all orders. */
void loads_lose(struct scheduler_link *l, uint32_t accelerator);
/* Whether an accelerator of a backend has an order about a model. */
bool loads_hold(const struct scheduler_link *l, const struct member *m, uint32_t known);
void loads_free(struct scheduler_link *l);

/* ---- scheduler_memory.c: all of it only if rank threads order loads ---- */

/* An accelerator's place is taken. 0 or -ENOMEM. */
int memory_begin(struct scheduler_link *l, uint32_t accelerator);
/* A backend tells what memory its accelerator has, and which models are there. 0 or -errno with a sentence. */
int memory_described(struct scheduler_link *l, struct member *m, const struct wire_memory *memory,
                     struct sy_error *err);
/* The rank thread was told that the accelerator leaves. */
void memory_left(struct scheduler_link *l, uint32_t accelerator);
/* Whether the accelerator has orders that are not answered. */
bool memory_moves(const struct scheduler_link *l, uint32_t accelerator);
/* The accelerator's backend is gone, with all orders. */
void memory_lose(struct scheduler_link *l, uint32_t accelerator);
/* Passes on the orders of the rank threads. True: there were some. */
bool memory_take_orders(struct scheduler_link *l);
bool memory_pending(const struct scheduler_link *l);
/* A backend tells the end of its accelerator's oldest order. 0 or -errno with a sentence. */
int memory_moved(struct scheduler_link *l, struct member *m, const struct wire_moved *moved, int64_t now_ns,
                 struct sy_error *err);
/* Once a turn: tells the rank threads what accelerators have and may load. Lowers *until_ns to when to call it again.
 */
void memory_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns);
/* Whether a place's model may go: one rank thread knows it, and no other one has accelerators to give up. */
bool memory_may_go(const struct scheduler_link *l, uint32_t place);
/* Whether some accelerator offers its model to a place. */
bool memory_offers(const struct scheduler_link *l, uint32_t place);
/* Whether an accelerator of a backend has a model, offers it, or has an order about it. */
bool memory_holds(const struct scheduler_link *l, const struct member *m, uint32_t known);
void memory_free(struct scheduler_link *l);

/* ---- scheduler_speed.c ---- */

/* Counts a measured run of a member's accelerator, in our numbers. */
void scheduler_speed_run(struct scheduler_link *l, const struct accelerator_place *a, const struct sent_plan *p);
/* Once a turn: finds backends that have become slow, or have recovered. Lowers *until_ns to when to call it again. */
void scheduler_speed_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns);
/* How many times as slow as others of its type a backend is, of the worst of its types; 1: it is not. */
double scheduler_speed_of(const struct member *m);

/* ---- scheduler_describe.c ---- */

/* Once a turn: describes the cluster, if another thread has asked for it. */
void description_look(struct scheduler_link *l);

/* ---- scheduler_status.c ---- */

/* Sends a visitor the status of the cluster, or of one member only. */
void status_send(struct scheduler_link *l, struct member *visitor, const struct member *only);
/* Sends a visitor an answer, which is released. */
void answer_send(struct member *visitor, json_t *json);
/* What is stated of a model, or null. */
json_t *rollout_status(const struct scheduler_link *l, const char *model);
/* The member of this number or name. NULL, with a sentence: there is none, or more than one. */
struct member *status_member(struct scheduler_link *l, const char *text, uint32_t bytes, struct sy_error *err);
