/* port.h - a frontend's end of the scheduler: submit requests, get them back. Each port belongs to one frontend thread,
 * which alone calls these functions. */
#pragma once

#include "request/request.h"

struct margin;
struct port;
struct wiring;

/* The port of frontend `index`, with a first guess of the reply margin. NULL without memory. At set-up. */
struct port *port_create(struct wiring *wiring, uint32_t index, int64_t reply_margin_ns);
/* When nothing is outstanding, and no run reads anything any more. NULL is allowed. */
void port_destroy(struct port *port);
/* Where the inputs of its requests lie, unless they lie with the bulk threads. Before the first is submitted. */
void port_region(struct port *port, uintptr_t base, size_t bytes);

/* Submits a request, whose memory stays in place until it comes back. 0; -EAGAIN if too many are outstanding, -EBUSY if
 * too many of best effort are, -EFAULT: an input lies in no region. Visible to the scheduler at port_flush(). */
int port_submit(struct port *port, struct request *request);
/* How many may be outstanding. */
uint32_t port_most(const struct port *port, bool best_effort);
/* The client left: takes the request out of its queue if it is still there. It comes back through port_next() all the
 * same, refused as cancelled or finished, whichever was first. */
void port_cancel(struct port *port, struct request *request);
/* Publishes what was submitted and cancelled since the last flush. Call once per loop turn. */
void port_flush(struct port *port);
/* The next finished request, or NULL: call it until then. A request whose accelerator failed
 * is not finished: it goes to the scheduler once more, unless its client left, its deadline has passed, or
 * REQUEST_BREAKS_MAX accelerators failed while they ran it; nor is one that has missed a deadline while it may be late
 * (late_until_ns): it goes there once more, as best effort. While request_is_read() its inputs, its model and its own
 * memory stay as they are. */
struct request *port_next(struct port *port);
/* An event of it (EPOLLIN | EPOLLET) says that finished requests may wait; it is never read. Before sleeping:
 * port_arm(), and if it returns false something is there already: do not sleep. After waking: port_disarm(). */
int port_event_fd(const struct port *port);
bool port_arm(struct port *port);
void port_disarm(struct port *port);
/* Tells how long after run_end_ns the reply was handed to the kernel; feeds the reply margin. */
void port_replied(struct port *port, int64_t took_ns);

/* Any thread. */
const struct margin *port_reply_margin(const struct port *port);
