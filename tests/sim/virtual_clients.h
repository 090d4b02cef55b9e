/* virtual_clients.h - requests as their clients know them; for the files of the clients only. */
#pragma once

#include "sim/virtual_cluster.h"

#define EVENTS_MAX 64

enum request_end { END_NONE, END_GOOD, END_REFUSED, END_BROKEN, END_LEFT };

struct request {
    int64_t sent_ns, deadline_ns, ended_ns;
    int64_t last_ns; /* the deadline, or later where it may be late */
    struct virtual_process *frontend;
    int64_t frontend_stopped_ns; /* what it had been stopped for, */
    bool frontend_stopped;       /* and whether it was just then */
    uint32_t items, width;
    uint32_t level;    /* of priority; 0: best effort, if there are levels */
    int64_t leaves_ns; /* its client does not wait for longer; TIME_NEVER: it does */
    bool slow; /* its client takes a part of its time: it sends in pieces, sends it behind others, does not read */
    enum request_end end;
    int status;
};

/* ---- virtual_clients.c ---- */

uint32_t request_number(const struct request *r);
bool request_is_best_effort(const struct request *r);
/* What it says of its time, in us; 0: nothing. */
int64_t request_timeout_us(const struct request *r);
/* Appends its elements. */
void request_elements(const struct request *r, char *to);
/* It counts from now on only, and not in clients_count(): it was sent in pieces, or waited behind others. */
void request_begins(struct request *r);
/* Its outputs have come. */
void request_check(const struct request *r, const char *outputs, size_t bytes);
/* It has been answered, with a status of HTTP. `answer`: what that says, if it is not 200. */
void request_answered(struct request *r, int status, const char *answer, size_t bytes);
void request_end(struct request *r, enum request_end end, int status);
/* Its connection has ended: `excused` if that is the frontend's right whatever it does. */
void request_broken(struct request *r, const char *frontend, bool excused, const char *how);
/* An answer has to come by then, whatever else dies. */
int64_t request_due_ns(const struct request *r);
/* That time is over. */
void request_unanswered(struct request *r, const char *frontend);

/* ---- virtual_grpc.c: clients that speak gRPC, several requests on a connection at once ---- */

void grpc_begin(int epoll_fd);
/* Sends a request. False: there are too many connections. */
bool grpc_send(struct virtual_role *frontend, struct request *r);
/* Whether an event of the epoll set is for a connection of these clients; then it is handled. */
bool grpc_event(void *connection, uint32_t events);
/* Clients that have no more patience leave. */
void grpc_look(void);
void grpc_end(void);
