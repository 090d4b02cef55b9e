/* listen.h - listening sockets, which frontends of one protocol share. Set-up only. */
#pragma once

#include "core/util/error.h"

/* Listens on host ("0.0.0.0", a name, or "": all addresses, of IPv4 and IPv6) and port; 0: any free port. *bound_port
 * is the port. `what`: the use of the port, for errors: "metrics port 8002 is in use". A port that a killed server has
 * left is free at once; a port in use is -EADDRINUSE. The caller owns *fd, and may close it once the frontends have
 * started. */
int listen_open(const char *host, int tcp_port, const char *what, int *fd, int *bound_port, struct sy_error *err);
