/* listen.h - listening sockets, which frontends of one protocol share. Set-up only. */
#pragma once

#include <stdbool.h>

#include "core/util/error.h"

/* Listens on host ("0.0.0.0", a name, or "": all addresses, of IPv4 and IPv6) and port; 0: any free port. *bound_port
 * is the port. `what`: the use of the port, for errors: "metrics port 8002 is in use". A port that a killed server has
 * left is free at once; a port in use is -EADDRINUSE. The caller owns *fd, and may close it once the frontends have
 * started. */
int listen_open(const char *host, int tcp_port, const char *what, int *fd, int *bound_port, struct sy_error *err);
/* Whether only this machine reaches a port at that host: all its addresses are of the loopback interface. False for "",
 * and for a name without addresses. May ask a name server. */
bool listen_is_loopback(const char *host);
/* The same of a name as it is written: "localhost", 127.0.0.0/8 or ::1. Asks nobody. */
bool listen_names_loopback(const char *host);
