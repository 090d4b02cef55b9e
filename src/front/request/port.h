/* port.h - a frontend's end of the scheduler: submits requests, and gets them back. Each port belongs to one frontend
 * thread. Only that thread calls these functions, or a thread that takes its turn (port_lend()). */
#pragma once

#include "core/system/doorbell.h"
#include "front/request/request.h"

/* A request whose runs have broken so many accelerators is not sent to another. */
#define REQUEST_BREAKS_MAX 2
/* A request that so many accelerators have given back, because its model was not resident, is not sent to another. */
#define REQUEST_ABSENT_MAX 3
/* A request whose inputs so many backends did not take is not sent to another. */
#define REQUEST_MISFIT_MAX 3
/* A request that so many backends had when they were lost is not sent to another: it may be the cause, and would end
 * all of them. */
#define REQUEST_GONE_MAX 3
/* A request that so many backends had when they were lost runs alone from then on. After one lost backend it does not:
 * if a backend ends for another reason, all its requests would run one by one. */
#define REQUEST_GONE_DOUBTFUL 2
/* A request that was lost so often, on its way or with its backend, is not sent again. */
#define REQUEST_LOSSES_MAX 200
/* A request whose run has failed at a backend, and that this backend has given back so often since, is not sent to
 * another. */
#define REQUEST_AVOIDS_MAX 200

struct margin;
struct port;
struct wiring;

/* Creates the port of frontend `index`, with a first guess of the reply margin. NULL: no memory. Set-up only. */
struct port *port_create(struct wiring *wiring, uint32_t index, int64_t reply_margin_ns);
/* Call it when nothing is outstanding, and no run reads any inputs. NULL is allowed. */
void port_destroy(struct port *port);
/* Sets the range of memory in which inputs of the port's requests lie, if they do not lie in the bulk threads' memory.
 * Call it before the first request is submitted. */
void port_region(struct port *port, uintptr_t base, size_t bytes, int fd);
/* Whether other processes of this host may pull inputs; inputs should then lie in memory that these can map. */
bool port_is_visible(const struct port *port);
/* Whether inputs should lie in memory that a device may read in place (`pinned` of slab_create_visible()). */
bool port_is_pinned(const struct port *port);

/* Submits a request, whose memory stays in place until it comes back. 0; -EAGAIN: too many requests are outstanding;
 * -EBUSY: too many best-effort ones are; -EFAULT: an input lies in no region. The scheduler sees the request at
 * port_flush(). */
int port_submit(struct port *port, struct request *request);
/* The inputs of a request that was submitted with `preparing` are there. `ready` false: they never will be, and the
 * request comes back, refused with REFUSAL_UNPREPARED. Until this call, request_is_read() is true. port_unready()
 * returns the card's `unready`, which the preparing thread may clear before this call. */
void port_prepared(struct port *port, struct request *request, bool ready);
_Atomic uint8_t *port_unready(const struct port *port, const struct request *request);
/* The request's time is over: if the port holds it until port_prepared(), it comes back now, refused with
 * REFUSAL_UNPREPARED. */
void port_give_up(struct port *port, struct request *request);
/* The time kept for the way back of a client's request. */
int64_t port_reply_margin_ns(const struct port *port, const struct request *request);
/* Most requests that may be outstanding. */
uint32_t port_most(const struct port *port, bool best_effort);
/* For a query with several requests: the most that it may have outstanding, and how many can be submitted now. The last
 * eighth of the port's slots is kept for others, so that no large query gets everybody's requests refused. */
uint32_t port_room_most(const struct port *port, bool best_effort);
uint32_t port_room(const struct port *port, bool best_effort);
/* The client left: takes the request out of its queue if it is still there. The request still comes back through
 * port_next(), refused as cancelled, or finished if that was first. */
void port_cancel(struct port *port, struct request *request);
/* Publishes the requests and cancellations since the last flush. Call it once a turn. */
void port_flush(struct port *port);
/* The next finished request; call it until it returns NULL: none is left. Three kinds of requests that come back are
 * not finished, and go to the scheduler once more. The first is a request whose accelerator failed, unless its client
 * left, its deadline has passed, or REQUEST_BREAKS_MAX accelerators failed while they ran it. The second has missed its
 * deadline but may be late (late_until_ns): it goes on as best effort. The third was in a batch before its inputs were
 * there: the port holds it until port_prepared(). While request_is_read(), the request's inputs, its model and its own
 * memory must stay as they are. */
struct request *port_next(struct port *port);
/* An event of this descriptor (EPOLLIN | EPOLLET) says that finished requests may wait; it is never read. Call
 * port_arm() before sleeping; false: something has come already, so do not sleep. `until_ns`: latest end of the sleep
 * (TIME_NEVER: no limit). Call port_disarm() after waking. */
int port_event_fd(const struct port *port);
bool port_arm(struct port *port, int64_t until_ns);
void port_disarm(struct port *port);
/* Lends the frontend's turns: between port_arm() and port_disarm(), a thread that brings finished requests may call
 * `turn` instead of waking the frontend's thread (core/system/doorbell.h). `turn` may use all that the frontend's
 * thread owns. Call it before that thread starts. */
void port_lend(struct port *port, doorbell_turn *turn, void *frontend);
/* Feeds the reply margin. `took_ns`: the time from run_end_ns until the kernel had the answer. */
void port_replied(struct port *port, int64_t took_ns);

/* The reply margin. Any thread. */
const struct margin *port_reply_margin(const struct port *port);
