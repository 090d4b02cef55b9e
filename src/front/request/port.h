/* port.h - a frontend's end of the scheduler: submit requests, get them back. Each port belongs to one frontend thread.
 * Only that thread calls these functions, or a thread that takes its turn (port_lend()). */
#pragma once

#include "core/system/doorbell.h"
#include "front/request/request.h"

struct margin;
struct port;
struct wiring;

/* The port of frontend `index`, with a first guess of the reply margin. NULL without memory. At set-up. */
struct port *port_create(struct wiring *wiring, uint32_t index, int64_t reply_margin_ns);
/* Call it when nothing is outstanding, and no run reads any inputs. NULL is allowed. */
void port_destroy(struct port *port);
/* Sets where the inputs of the port's requests lie, if not in the bulk threads' memory. Before the first is submitted.
 */
void port_region(struct port *port, uintptr_t base, size_t bytes, int fd);
/* Whether other processes of this host may pull inputs, so that inputs should lie in memory that those can map. */
bool port_is_visible(const struct port *port);
/* Whether that memory should be one that a device may read in place, too (slab_create_visible()). */
bool port_is_pinned(const struct port *port);

/* Submits a request, a client's or a step of an ensemble's (its deadline then excludes the way back already, and its
 * inputs may lie anywhere in this process); its memory stays in place until it comes back. 0; -EAGAIN: too many are
 * outstanding; -EBUSY: too many best-effort ones are; -EFAULT: an input lies in no region. The scheduler sees it at
 * port_flush(). */
int port_submit(struct port *port, struct request *request);
/* The inputs of a request that was submitted with `preparing` are there, or (`ready` false) never will be: then it
 * comes back, refused with REFUSAL_UNPREPARED. Until it is called, request_is_read(). port_unready() is the card's
 * `unready`: the thread that prepares the inputs may clear it before this call. */
void port_prepared(struct port *port, struct request *request, bool ready);
_Atomic uint8_t *port_unready(const struct port *port, const struct request *request);
/* The request's time is over: if it waits here for port_prepared(), it comes back now, refused with REFUSAL_UNPREPARED.
 */
void port_give_up(struct port *port, struct request *request);
/* The time kept for the way back of a client's request. */
int64_t port_reply_margin_ns(const struct port *port, const struct request *request);
/* How many requests may be outstanding. */
uint32_t port_most(const struct port *port, bool best_effort);
/* How many requests one query may have outstanding at most, if it has several, and how many more can be submitted now:
 * the last eighth of the places is for others, so that no large query gets everybody's requests refused. */
uint32_t port_room_most(const struct port *port, bool best_effort);
uint32_t port_room(const struct port *port, bool best_effort);
/* The client left: takes the request out of its queue if it is still there. It comes back through port_next() all the
 * same, refused as cancelled or finished, whichever was first. */
void port_cancel(struct port *port, struct request *request);
/* Publishes what was submitted and cancelled since the last flush. Call once per loop turn. */
void port_flush(struct port *port);
/* The next finished request, or NULL: call it until then. Three kinds are not finished, and go to the scheduler once
 * more. One is a request whose accelerator failed, unless its client left, its deadline has passed, or
 * REQUEST_BREAKS_MAX accelerators failed while they ran it. The second has missed its deadline but may be late
 * (late_until_ns): it goes on as best effort. The third was in a batch before its inputs were there: it waits here for
 * port_prepared(). While request_is_read(), a request's inputs, its model and its own memory stay as they are. */
struct request *port_next(struct port *port);
/* An event of this descriptor (EPOLLIN | EPOLLET) says that finished requests may wait; it is never read. Call
 * port_arm() before sleeping: if it returns false, something has come already, so do not sleep. Say until when you
 * sleep at most (TIME_NEVER: no limit). Call port_disarm() after waking. */
int port_event_fd(const struct port *port);
bool port_arm(struct port *port, int64_t until_ns);
void port_disarm(struct port *port);
/* Between port_arm() and port_disarm(), a thread that brings finished requests may call `turn` instead of waking the
 * frontend's thread (core/system/doorbell.h); `turn` may then use all that this thread owns. Before the thread starts.
 */
void port_lend(struct port *port, doorbell_turn *turn, void *frontend);
/* Feeds the reply margin: took_ns is from run_end_ns until the reply was handed to the kernel. */
void port_replied(struct port *port, int64_t took_ns);

/* Any thread. */
const struct margin *port_reply_margin(const struct port *port);
