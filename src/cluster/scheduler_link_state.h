/* scheduler_link_state.h - what a scheduler's link is made of; for its files only. */
#pragma once

#include "cluster/catalogue.h"
#include "cluster/health.h"
#include "cluster/link_loop.h"
#include "cluster/lost.h"
#include "cluster/scheduler_link.h"
#include "cluster/standby.h"

/* A frontend or a backend; before it has introduced itself a stranger. */
struct member {
    struct peer peer;
    struct list_node node;     /* of the members */
    struct list_node stranger; /* of those that are not known, the oldest first */
    struct member *next;       /* of the ghosts */
    struct hello hello;
    struct health health;
    bool known;
    bool refused;  /* not known: and told so */
    bool visits;   /* not known: a visitor that has introduced itself */
    bool left;     /* it said so */
    bool told;     /* a frontend: of all models; a backend has told all */
    bool told_all; /* it knows that it has been told of all */
    int64_t since_ns;
    char from[96];
    /* of a frontend */
    struct request_message *last; /* [lanes * slots] the last request of each, by our clock */
    size_t cancelled;             /* once it is gone: so many of them are taken out of the queues */
    int64_t advised;              /* and one: how many accelerators it was told there should be; 0: nothing yet */
    bool *owes;                   /* [models_max] it is to say that it sends no more for this place */
    /* of a backend */
    struct brought_model *brought; /* [brought_count] */
    uint32_t brought_count, brought_room;
    uint32_t *number_of_place; /* [models_max] its number of the model in a place */
    char (*types)[64];         /* [accelerator_count] */
    uint32_t *accelerators;    /* [accelerator_count] the scheduler's numbers, once all is told */
    uint32_t accelerator_count;
    uint32_t class_count, classes[ACCELERATOR_TYPES_MAX];
    /* while its models change */
    uint32_t targets[ACCELERATOR_TYPES_MAX]; /* [class_count] what its accelerators are to become; else as `classes` */
    bool switching[ACCELERATOR_TYPES_MAX];   /* they are on their way */
    bool models_changed;                     /* since the targets were chosen */
    int64_t choose_ns;                       /* not before then */
    uint32_t late_count;
    struct late_model *late; /* models that it has, and that others' stand in the way of */
};

/* The description of such a model. */
struct late_model {
    struct late_model *next;
    uint32_t number, bytes;
    char text[];
};

/* A batch that a backend has. */
struct sealed_plan {
    struct sealed_plan *next;
    uint32_t room, place;
    uint32_t number; /* the backend's, of the model */
    uint8_t class;   /* of the accelerator */
    uint64_t tag;    /* on its way */
    bool ended, unlike, measured;
    int64_t ended_ns;
    struct ran_message ran; /* what was measured */
    struct batch_plan plan; /* handles follow */
};

/* A place for an accelerator: the scheduler's number. */
struct accelerator_place {
    struct member *member; /* NULL: nobody's, or its member is gone */
    uint32_t local;        /* the member's number */
    uint8_t class;
    bool taken;    /* by a member, or not rid of one yet */
    bool up;       /* the scheduler was told that it joined */
    bool owes;     /* its member is to be told when no plan for it can come any more */
    bool joined;   /* its member says so; `up` follows, but while it */
    bool switches; /* changes its class */
    bool leaves;   /* it is one of `leaving` */
    struct sealed_plan *first, **last;
};

enum place_state {
    PLACE_FREE,
    PLACE_COMING,  /* the model's thread takes it up */
    PLACE_SERVING, /* frontends are told */
    PLACE_LEAVING, /* they were told that it goes: their last requests may be on the way, or queued */
    PLACE_GOING,   /* the model's thread puts it down */
};

/* A place for a model: the scheduler's number of it. */
struct served_place {
    uint8_t state; /* enum place_state */
    uint32_t known;
    uint32_t runs_on; /* classes whose profiles its cores have, a bit each */
    uint32_t owed;    /* frontends that are to say that they send no more */
    uint32_t queued;  /* requests that the scheduler has */
    uint32_t sealed;  /* batches that backends have */
    bool recalled;    /* its requests were taken back, for another place of its model */
    struct thread_model model;
};

struct scheduler_link {
    struct scheduler_link_config config;
    struct wiring *wiring;
    struct link_loop loop;
    struct list_node members;   /* connected, strangers included */
    struct list_node strangers; /* of them: those that have not introduced themselves, and visitors */
    uint32_t stranger_count;
    struct standby *standby; /* NULL: there is no other scheduler */
    _Atomic bool leads;
    int64_t settled_ns; /* then all members of the scheduler before have had the time to join */
    int64_t started_ns;
    int64_t look_ns; /* when to look at members next */
    struct link_report report;
    _Atomic(struct link_description *) description; /* that another thread waits for; NULL: none does */
    struct member **by_number;                      /* [HELLO_NUMBERS] */
    uint32_t number_next;
    struct member *ghosts; /* members that are gone, while something here speaks of them */
    struct catalogue *catalogue;
    struct served_place *places;            /* [models_max] */
    bool *variant_taken;                    /* [wiring->models] */
    struct accelerator_place *accelerators; /* [wiring->accelerators] */
    uint32_t *leaving;                      /* [leaving_count] those whose member is gone, or has put them out of */
    uint32_t leaving_count;                 /* service, until nothing is left of them here */
    uint32_t places_moving;                 /* places that are neither free nor serving */
    bool changing;                          /* some backend's models or classes change: changes_look() */
    uint32_t accelerators_there;
    uint32_t accelerators_most; /* no place from this one on has ever been taken */
    uint32_t news;              /* accelerators that joined or left since the rank threads had read all such news */
    struct sealed_plan *free_plans;
    uint64_t plan_tag;    /* of the next plan */
    uint32_t plans_ended; /* that have ended and are kept */
    int64_t plans_look_ns;
    bool changed;          /* of models or classes: places_look() is to see what follows */
    uint32_t in_scheduler; /* requests */
    uint32_t pushed;       /* messages of this turn */
    bool *model_rung;      /* [model_threads] */
    bool report_rung;
    struct {
        uint64_t requests, batches, lost[LOST_REASONS];
    } counters;
};

/* ---- scheduler_link.c ---- */

/* Tells a request's frontend that it is lost: it may send it again. */
void link_lost(struct scheduler_link *l, uint64_t handle, enum lost_reason reason);
/* Tells its model's thread that a request, the last of its slot, is cancelled. False: there is no room now. */
bool request_cancel(struct scheduler_link *l, const struct request_message *last);

/* ---- scheduler_places.c ---- */

int places_init(struct scheduler_link *l);
void places_free(struct scheduler_link *l);
/* Room for what is kept of a member that has introduced itself. */
bool member_room(struct scheduler_link *l, struct member *m);

/* A backend tells of a model, of all its accelerators, and that this is all. */
int member_model(struct scheduler_link *l, struct member *m, const char *head, uint32_t bytes, struct sy_error *err);
int member_accelerators(struct scheduler_link *l, struct member *m, const struct wire_accelerator *accelerators,
                        uint32_t count, struct sy_error *err);
int member_told(struct scheduler_link *l, struct member *m, struct sy_error *err);
/* The classes that some place knows. */
uint32_t classes_used(const struct scheduler_link *l);
/* Room for one more model of a backend. NULL without memory. */
struct brought_model *member_brings(struct member *m);
/* Tells which numbers a backend's models have, where plans for them come from. */
void numbers_note(struct scheduler_link *l, struct member *m);
/* It is gone, with all that it had. */
void backend_gone(struct scheduler_link *l, struct member *m);

/* Whether a place takes this request. */
bool place_takes(const struct served_place *place, const struct request_message *message);
/* Tells a frontend of all that is served. */
void places_tell(struct scheduler_link *l, struct member *m);
/* A frontend sends no more requests for a place; all that it sent have come. */
void place_left(struct scheduler_link *l, struct member *m, uint32_t place);
void places_left_by(struct scheduler_link *l, struct member *m);
/* Does the next steps of all that is under way. True: something is. */
bool places_look(struct scheduler_link *l, int64_t now_ns);
/* Looks after an accelerator until nothing is left of it here. */
void accelerator_leaves(struct scheduler_link *l, uint32_t accelerator);
/* How many models are served. */
uint32_t places_served(const struct scheduler_link *l);

/* ---- scheduler_changes.c ---- */

/* A model that another one stands in the way of, now. */
int late_note(struct scheduler_link *l, struct member *m, uint32_t number, const char *text, uint32_t bytes,
              struct sy_error *err);
/* A backend will not run a model any more. 0 or -errno with a sentence. */
int member_model_ends(struct scheduler_link *l, struct member *m, uint32_t number, struct sy_error *err);
/* An accelerator joins or leaves, says its member. */
void member_accelerator_news(struct scheduler_link *l, uint32_t accelerator, enum accelerator_news news);
/* Does the next steps of all changes. True: some are under way. */
bool changes_look(struct scheduler_link *l, int64_t now_ns);
/* Forgets what is under way of a backend that is gone. */
void changes_forget(struct scheduler_link *l, struct member *m);
void late_free(struct member *m);

/* ---- scheduler_plans.c ---- */

void plans_free(struct scheduler_link *l);
/* Notes a plan that goes to a backend. Returns the tag that it goes with. */
uint64_t plan_note(struct scheduler_link *l, struct accelerator_place *a, const struct batch_plan *plan);
/* Whether a backend has a plan of this number of a model. */
bool plans_of(const struct scheduler_link *l, const struct member *m, uint32_t number);
/* A backend says that the oldest plan of an accelerator has ended: in our numbers. False: it has none. */
bool plan_ended(struct scheduler_link *l, const struct freed_message *freed);
/* What it measured of a run, in our numbers but for the tag. */
void plan_measured(struct scheduler_link *l, const struct ran_message *ran);
/* Once a turn. Lowers *until_ns to when to look again. */
void plans_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns);
/* All plans of an accelerator are lost. */
void plans_lose(struct scheduler_link *l, uint32_t accelerator);
/* Whether the scheduler's threads have room for the news of one more accelerator that joins. */
bool accelerator_may_join(struct scheduler_link *l);
/* Tells the scheduler's threads that an accelerator joins or leaves, if they do not know it yet. */
void accelerator_news(struct scheduler_link *l, uint32_t accelerator, enum accelerator_news news);
/* Wakes them. */
void publish_reports(struct scheduler_link *l);

/* ---- scheduler_describe.c ---- */

/* Once a turn: describes what there is, if somebody has asked. */
void description_look(struct scheduler_link *l);

/* ---- scheduler_status.c ---- */

/* Sends a visitor what there is, or of one member only. */
void status_send(struct scheduler_link *l, struct member *visitor, const struct member *only);
/* The member of this number or name. NULL: there is none, or more than one, with a sentence. */
struct member *status_member(struct scheduler_link *l, const char *text, uint32_t bytes, struct sy_error *err);
