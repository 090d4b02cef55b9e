/* scheduler_link_state.h - what a scheduler's link is made of; for its files only. */
#pragma once

#include "cluster/catalogue.h"
#include "cluster/health.h"
#include "cluster/link_loop.h"
#include "cluster/scheduler_link.h"
#include "cluster/standby.h"

/* A frontend or a backend; before it has introduced itself a stranger. */
struct member {
    struct peer peer;
    struct list_node node; /* of the members */
    struct member *next;   /* of the ghosts */
    struct hello hello;
    struct health health;
    bool known;
    bool visits;   /* not known: a visitor that has introduced itself */
    bool left;     /* it said so */
    bool told;     /* a frontend: of all models; a backend has told all */
    bool told_all; /* it knows that it has been told of all */
    int64_t since_ns;
    char from[96];
    /* of a frontend */
    struct request_message *last; /* [lanes * slots] the last request of each, by our clock */
    size_t cancelled;             /* once it is gone: so many of them are taken out of the queues */
    bool *owes;                   /* [models_max] it is to say that it sends no more for this place */
    /* of a backend */
    struct brought_model *brought; /* [brought_count] */
    uint32_t brought_count, brought_room;
    uint32_t *number_of_place; /* [models_max] its number of the model in a place */
    char (*types)[64];         /* [accelerator_count] */
    uint32_t *accelerators;    /* [accelerator_count] the scheduler's numbers, once all is told */
    uint32_t accelerator_count;
    uint32_t class_count, classes[ACCELERATOR_TYPES_MAX];
};

/* A batch that a backend has. */
struct sealed_plan {
    struct sealed_plan *next;
    uint32_t room, thread, place;
    struct batch_plan plan; /* handles follow */
};

/* A place for an accelerator: the scheduler's number. */
struct accelerator_place {
    struct member *member; /* NULL: nobody's, or its member is gone */
    uint32_t local;        /* the member's number */
    uint8_t class;
    bool taken; /* by a member, or not rid of one yet */
    bool up;    /* the scheduler was told that it joined */
    bool owes;  /* its member is to be told when no plan for it can come any more */
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
    struct thread_model model;
};

struct scheduler_link {
    struct scheduler_link_config config;
    struct wiring *wiring;
    struct link_loop loop;
    struct list_node members; /* connected, strangers included */
    struct standby *standby;  /* NULL: there is no other scheduler */
    _Atomic bool leads;
    int64_t settled_ns; /* then all members of the scheduler before have had the time to join */
    int64_t started_ns;
    struct link_report report;
    struct member **by_number; /* [HELLO_NUMBERS] */
    uint32_t number_next;
    struct member *ghosts; /* members that are gone, while something here speaks of them */
    struct catalogue *catalogue;
    struct served_place *places;            /* [models_max] */
    bool *variant_taken;                    /* [wiring->models] */
    struct accelerator_place *accelerators; /* [wiring->accelerators] */
    uint32_t accelerators_there;
    struct sealed_plan *free_plans;
    bool changed;          /* of models or classes: places_look() is to see what follows */
    uint32_t in_scheduler; /* requests */
    uint32_t pushed;       /* messages of this turn */
    bool *model_rung;      /* [model_threads] */
    bool report_rung;
    struct {
        uint64_t requests, batches, lost;
    } counters;
};

/* ---- scheduler_link.c ---- */

/* Tells a request's frontend that it is lost: it may send it again. */
void link_lost(struct scheduler_link *l, const struct wire_outcome *result);

/* ---- scheduler_places.c ---- */

int places_init(struct scheduler_link *l);
void places_free(struct scheduler_link *l);
/* Room for what is kept of a member that has introduced itself. */
bool member_room(struct scheduler_link *l, struct member *m);

/* A backend tells of a model, of all its accelerators, and that this is all. */
int member_model(struct scheduler_link *l, struct member *m, const char *head, uint32_t bytes, struct sy_error *err);
int member_accelerators(struct member *m, const struct wire_accelerator *accelerators, uint32_t count,
                        struct sy_error *err);
int member_told(struct scheduler_link *l, struct member *m, struct sy_error *err);
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
bool places_look(struct scheduler_link *l);
/* How many models are served. */
uint32_t places_served(const struct scheduler_link *l);

/* Notes a plan that goes to a backend. */
void plan_note(struct scheduler_link *l, struct accelerator_place *a, uint32_t thread, const struct batch_plan *plan);
/* The accelerator's oldest plan has ended. False: it has none. */
bool plan_ended(struct scheduler_link *l, uint32_t accelerator);
/* All plans of an accelerator are lost. */
void plans_lose(struct scheduler_link *l, uint32_t accelerator);
/* Tells the scheduler's threads. */
void accelerator_news(struct scheduler_link *l, uint32_t accelerator, enum accelerator_news news, int64_t ended_ns,
                      bool unlike);
void ran_tell(struct scheduler_link *l, const struct ran_message *ran);
void publish_reports(struct scheduler_link *l);

/* ---- scheduler_status.c ---- */

/* Sends a visitor what there is, or of one member only. */
void status_send(struct scheduler_link *l, struct member *visitor, const struct member *only);
/* The member of this number or name. NULL: there is none, or more than one, with a sentence. */
struct member *status_member(struct scheduler_link *l, const char *text, uint32_t bytes, struct sy_error *err);
