/* link_report.h - the metrics of a process's link.
 *
 * The link thread copies the metrics into the report four times a second, and never waits for readers: if a thread is
 * reading the report, the copy is made a little later. */
#pragma once

#include <pthread.h>

#include "cluster/peer/hello.h"
#include "cluster/peer/link_tally.h"
#include "cluster/peer/lost.h"
#include "core/util/text.h"
#include "model/config/served_model.h"

struct health;
struct peer;

struct link_totals {
    enum cluster_role role; /* role of this process */
    bool ready;             /* member: the process has joined; scheduler: it leads */
    uint64_t term;          /* term of the leading scheduler, as far as known; 0: none yet */
    const uint64_t *lost; /* [LOST_REASONS] lost requests; of a backend: requests that were not delivered; NULL: none */
    uint64_t again;       /* frontend: requests sent to a scheduler again */
    uint64_t given_up;    /* backend: pulls given up */
    bool cordoned;        /* backend: it takes no batches, as somebody has asked for that */
    uint32_t faulty;      /* backend: models that are set aside since their runs fail there and not elsewhere */
    uint64_t requests, batches; /* scheduler: requests received, batches sealed */
    uint32_t requests_now, models,
        accelerators; /* scheduler: requests in the scheduler, models served, accelerators in service */
};

/* One connection. */
struct link_row {
    char name[HELLO_NAME_MAX];
    enum cluster_role role; /* role of the other end */
    uint32_t number;        /* number of the other end; 0: a scheduler */
    bool clock_known;
    int64_t round_trip_ns, clock_error_ns;
    int64_t ahead_ns;                /* peer's clock less ours */
    char metrics[HELLO_ADDRESS_MAX]; /* HOST:PORT of the peer's metrics; "": not known */
    double slow; /* at a scheduler, how many times as slow as others of its type a backend is; 0: not known */
    uint64_t bytes_in, bytes_out;
    uint64_t requests[LINK_COUNTS]; /* link_tally of the peer */
};

/* A model that the scheduler serves. */
struct link_model {
    uint32_t place; /* the model's number in the scheduler */
    uint32_t version;
    bool stranded;  /* no accelerator that runs the model is in service */
    int64_t slo_ns; /* 0: best effort */
    char name[MODEL_NAME_MAX];
};

struct link_report {
    pthread_mutex_t lock; /* lock of all other fields but due_ns and tallies, which are the link thread's */
    int64_t due_ns;       /* time of the next copy */
    struct link_totals totals;
    uint64_t lost[LOST_REASONS]; /* copy of totals.lost */
    struct link_row *rows;       /* [count] connections */
    uint32_t count, room;
    struct link_model *models; /* [model_count] by name, version and place */
    uint32_t model_count, model_room;
    struct link_tally *told; /* [told_count] copy of the peers' tallies; the last is that of all others */
    uint32_t told_count, told_room;
    struct link_tallies tallies; /* the link thread's, without the lock */
};

void link_report_init(struct link_report *report);
/* Call it when no thread reads the report any more. */
void link_report_free(struct link_report *report);

/* ---- the link thread ---- */

/* Counts requests that went over a connection, whose tally is peer->tally (link_tally_of()). */
static inline void link_report_count(struct link_report *report, uint32_t tally, enum link_count what,
                                     uint64_t requests) {
    link_tally_at(&report->tallies, tally)->counts[what] += requests;
}

/* Begin, add for each connection, models if they have changed, end. */

/* Whether it is time for a copy. Lowers *until_ns to when to call it again. True: link_report_end() must follow. */
bool link_report_begin(struct link_report *report, int64_t now_ns, int64_t *until_ns);
void link_report_add(struct link_report *report, const char *name, enum cluster_role role, uint32_t number,
                     const struct peer *peer, const struct health *health, int64_t now_ns);
/* More of the connection that was just added: where its peer tells what it does; how many times as slow as others of
 * its type it is. */
void link_report_add_peer(struct link_report *report, const char *metrics, double slow);
/* If models have changed since the last copy: begins with none, to add at most `most`; then adds each; then ends.
 * False: no memory, and nothing is to be added. */
bool link_report_models_begin(struct link_report *report, uint32_t most);
void link_report_add_model(struct link_report *report, uint32_t place, const struct served_model *model, bool stranded);
void link_report_models_end(struct link_report *report);
void link_report_end(struct link_report *report, const struct link_totals *totals);

/* ---- any thread ---- */

bool link_report_ready(struct link_report *report);
/* The totals of the last copy; `lost` is NULL. */
struct link_totals link_report_totals(struct link_report *report);
/* The place of a model in the scheduler, as last copied. False: it has none. */
bool link_report_place(struct link_report *report, const char *name, uint32_t version, uint32_t *place);
/* A copy of the models as last copied, which the caller frees; NULL: none, or no memory. */
struct link_model *link_report_models(struct link_report *report, uint32_t *count);
/* Calls `row` for each connection, as last copied; it must not ask the report. */
void link_report_rows(struct link_report *report, void (*row)(void *context, const struct link_row *row),
                      void *context);
void link_report_render(struct link_report *report, struct text *out);
