/* scheduler_link_state.h - the state of a scheduler's link; for its files only. */
#pragma once

#include <jansson.h>

#include "cluster/membership/catalogue.h"
#include "cluster/membership/standby.h"
#include "cluster/peer/health.h"
#include "cluster/peer/link_loop.h"
#include "cluster/peer/lost.h"
#include "cluster/roles/scheduler_link.h"

/* A frontend or a backend; a stranger before it has introduced itself. */
struct member {
    struct peer peer;
    struct list_node node;     /* of the members */
    struct list_node stranger; /* in the list of strangers, the oldest first */
    struct member *next;       /* in the list of ghosts */
    struct hello hello;
    struct health health;
    bool known;
    bool refused;  /* the stranger was refused, and told so */
    bool visits;   /* the stranger is a visitor that has introduced itself; no member */
    bool left;     /* the member has said good-bye */
    bool told;     /* the frontend was told of all models; the backend has told all about itself */
    bool told_all; /* the frontend was sent FRAME_TOLD */
    int64_t since_ns;
    char from[96];
    /* of a frontend */
    struct request_message *last; /* [lanes * slots] the last request of each, by our clock; its kind is CANCELLED once
                                   * the frontend has cancelled it */
    size_t cancelled;             /* slots of `last` that have been cancelled, once the frontend is gone */
    int64_t advised;              /* the advice that was last sent to the frontend, plus one; 0: none yet */
    bool *owes;                   /* [models_max] the frontend has yet to send FRAME_MODEL_LEFT for this place */
    /* of a backend */
    struct brought_model *brought; /* [brought_count] */
    uint32_t brought_count, brought_room;
    uint32_t *number_of_place; /* [models_max] the backend's number of the model in a place */
    char (*types)[64];         /* [accelerator_count] */
    uint32_t *accelerators;    /* [accelerator_count] the scheduler's numbers, once `told` */
    uint32_t accelerator_count;
    uint32_t class_count, classes[ACCELERATOR_TYPES_MAX];
    /* while its models change */
    uint32_t
        targets[ACCELERATOR_TYPES_MAX]; /* [class_count] the accelerators' next classes; `classes` if nothing changes */
    bool switching[ACCELERATOR_TYPES_MAX]; /* accelerators of this class are on the way to their target */
    bool models_changed;                   /* since the targets were chosen */
    int64_t choose_ns;                     /* when targets may be chosen again; 0: no class was missing */
    uint32_t late_count;
    struct late_model *late; /* models that were not taken */
    json_t *aside;           /* models that it does not offer (aside.h); NULL: none */
};

/* A model that was not taken. */
struct late_model {
    struct late_model *next;
    uint32_t number, bytes;
    bool waits; /* until another model of its name is gone; false: it is never taken */
    char name[MODEL_NAME_MAX];
    uint32_t version; /* 0, and the name empty: its description cannot be read */
    char reason[512];
    char text[];
};

/* A plan that was sent to a backend. It is kept until its batch has ended and was measured. */
struct sent_plan {
    struct sent_plan *next;
    uint32_t room, place;
    uint32_t number; /* the backend's, of the model */
    uint8_t class;   /* of the accelerator */
    uint64_t tag;    /* repeated by its measurement */
    bool ended, unlike, measured;
    int64_t ended_ns;
    struct ran_message ran; /* the measurement */
    struct batch_plan plan; /* handles follow */
};

/* A place for an accelerator: the scheduler's number. */
struct accelerator_place {
    struct member *member; /* NULL: none, or its member is gone */
    uint32_t local;        /* the member's number */
    uint8_t class;
    bool taken;    /* by a member, or by batches of one that is gone */
    bool up;       /* the scheduler was told that it joined */
    bool owes;     /* the member is to be sent FRAME_RESTS once nothing is left of the accelerator */
    bool joined;   /* the member says that the accelerator has joined; `up` follows, except during a switch */
    bool switches; /* the accelerator's class is changing */
    bool leaves;   /* the accelerator is in the list `leaving` */
    struct sent_plan *first, **last;
};

enum place_state {
    PLACE_FREE,
    PLACE_COMING,  /* the model's thread is adding it */
    PLACE_SERVING, /* frontends are told */
    PLACE_LEAVING, /* frontends are told that it goes: their last requests may be on the way, or queued */
    PLACE_GOING,   /* the model's thread is removing it */
};

/* A place for a model, which is the model's number in the scheduler. */
struct served_place {
    uint8_t state; /* enum place_state */
    uint32_t known;
    uint32_t runs_on;  /* classes whose profiles its cores have, a bit each */
    uint32_t owed;     /* frontends that have yet to send FRAME_MODEL_LEFT */
    uint32_t queued;   /* requests in the scheduler */
    uint32_t sent;     /* batches at backends */
    bool recalled;     /* requests go back to their frontends, which send them to another place of the model */
    bool all_recalled; /* the model's thread has a recall of every queued request */
    struct thread_model model;
};

struct scheduler_link {
    struct scheduler_link_config config;
    struct wiring *wiring;
    struct link_loop loop;
    struct list_node members;   /* connected, strangers included */
    struct list_node strangers; /* those of them that have not introduced themselves, and visitors */
    uint32_t stranger_count;
    struct standby *standby; /* NULL: this is the only scheduler */
    _Atomic bool leads;
    int64_t settled_ns; /* when all members of the previous scheduler have had time to join */
    uint32_t told;      /* backends that have told all their models */
    int64_t started_ns;
    int64_t look_ns; /* when to check members next */
    struct link_report report;
    _Atomic(struct link_description *) description; /* asked for by another thread, which waits for it; NULL: none */
    struct member **by_number;                      /* [HELLO_NUMBERS] */
    uint32_t number_next;
    struct member *ghosts; /* members that are gone, while something here still refers to them */
    struct catalogue *catalogue;
    struct served_place *places;            /* [models_max] */
    bool *variant_taken;                    /* [wiring->models] */
    struct accelerator_place *accelerators; /* [wiring->accelerators] */
    uint32_t *leaving; /* [leaving_count] accelerators that are out of service, or whose member is gone, while something
                          of them is left here */
    uint32_t leaving_count;
    uint32_t places_moving; /* places that are neither free nor serving */
    bool changing;          /* some backend's models or classes change: changes_look() */
    bool classes_short;     /* a backend found no free class: places drop those that nobody has any more */
    uint32_t accelerators_there;
    uint32_t accelerators_most; /* the first place that was never taken, nor any behind it */
    uint32_t news;              /* accelerators that joined or left, which the rank threads may not have read of yet */
    struct sent_plan *free_plans;
    uint64_t plan_tag;    /* of the next plan */
    uint32_t plans_ended; /* that have ended and are kept for their measurement */
    int64_t plans_look_ns;
    bool changed;          /* models or classes have changed: places_look() has work to do */
    uint32_t in_scheduler; /* requests */
    uint32_t pushed;       /* messages of this turn */
    bool *model_rung;      /* [model_threads] */
    bool report_rung;
    struct {
        uint64_t requests, batches, lost[LOST_REASONS];
    } counters;
};

/* ---- scheduler_link.c ---- */

/* Tells the frontend of a request that the request is lost, so that it may be sent again. */
void link_lost(struct scheduler_link *l, uint64_t handle, enum lost_reason reason);
/* Tells the model's thread that a request, the last one of its slot, is cancelled. False: there is no room now. */
bool request_cancel(struct scheduler_link *l, const struct request_message *last);

/* ---- scheduler_places.c ---- */

int places_init(struct scheduler_link *l);
void places_free(struct scheduler_link *l);
/* Allocates the memory for a member that has introduced itself. */
bool member_room(struct scheduler_link *l, struct member *m);

/* A backend announces a model, its accelerators, and that this was all. */
int member_model(struct scheduler_link *l, struct member *m, const char *head, uint32_t bytes, struct sy_error *err);
int member_accelerators(struct scheduler_link *l, struct member *m, const struct wire_accelerator *accelerators,
                        uint32_t count, struct sy_error *err);
int member_told(struct scheduler_link *l, struct member *m, struct sy_error *err);
/* The classes that some place uses. */
uint32_t classes_used(const struct scheduler_link *l);
/* Room for one more model of a backend. NULL without memory. */
struct brought_model *member_brings(struct member *m);
/* Notes a backend's numbers of its models, with the places whose plans carry them. */
void numbers_note(struct scheduler_link *l, struct member *m);
/* A backend is gone, with its models, accelerators and batches. */
void backend_gone(struct scheduler_link *l, struct member *m);

/* Whether a place accepts this request. */
bool place_takes(const struct served_place *place, const struct request_message *message);
/* Tells a frontend of all models that are served. */
void places_tell(struct scheduler_link *l, struct member *m);
/* A frontend confirms that it sends no more requests for a place; all that it sent have arrived. */
void place_left(struct scheduler_link *l, struct member *m, uint32_t place);
void places_left_by(struct scheduler_link *l, struct member *m);
/* Does the next steps of all changes of places. True: more steps follow. */
bool places_look(struct scheduler_link *l, int64_t now_ns);
/* Puts an accelerator into the list `leaving`, until nothing of it is left here. */
void accelerator_leaves(struct scheduler_link *l, uint32_t accelerator);
/* How many models are served. */
uint32_t places_served(const struct scheduler_link *l);

/* ---- scheduler_changes.c ---- */

/* Keeps a model that was not taken, for the reason `why`; rc -EEXIST: until another one of its name is gone. */
int late_note(struct scheduler_link *l, struct member *m, uint32_t number, const char *text, uint32_t bytes, int rc,
              const struct sy_error *why, struct sy_error *err);
/* A backend ends a model. 0 or -errno with a sentence. */
int member_model_ends(struct scheduler_link *l, struct member *m, uint32_t number, struct sy_error *err);
/* A member says that its accelerator joins or leaves. */
void member_accelerator_news(struct scheduler_link *l, uint32_t accelerator, enum accelerator_news news);
/* Does the next steps of all changes. True: more steps follow. */
bool changes_look(struct scheduler_link *l, int64_t now_ns);
/* Forgets the changes of a backend that is gone. */
void changes_forget(struct scheduler_link *l, struct member *m);
void late_free(struct member *m);

/* ---- scheduler_plans.c ---- */

void plans_free(struct scheduler_link *l);
/* Keeps a plan that goes to a backend. Returns the tag to send with it. */
uint64_t plan_note(struct scheduler_link *l, struct accelerator_place *a, const struct batch_plan *plan);
/* Whether a backend has a plan for the model of this number. */
bool plans_of(const struct scheduler_link *l, const struct member *m, uint32_t number);
/* The oldest plan of an accelerator has ended; `freed` has our numbers. False: there is none. */
bool plan_ended(struct scheduler_link *l, const struct freed_message *freed);
/* A backend's measurement of a run, in our numbers except for the tag. */
void plan_measured(struct scheduler_link *l, const struct ran_message *ran);
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

/* ---- scheduler_describe.c ---- */

/* Once a turn: describes the cluster, if another thread has asked for it. */
void description_look(struct scheduler_link *l);

/* ---- scheduler_status.c ---- */

/* Sends a visitor the status of the cluster, or of one member only. */
void status_send(struct scheduler_link *l, struct member *visitor, const struct member *only);
/* The member of this number or name. NULL, with a sentence: there is none, or more than one. */
struct member *status_member(struct scheduler_link *l, const char *text, uint32_t bytes, struct sy_error *err);
