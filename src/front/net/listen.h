/* listen.h - listening sockets, which frontends of one protocol share. Set-up only. */
#pragma once

#include "core/util/error.h"

/* Listens on host ("0.0.0.0", a name, or "": all addresses, of IPv4 and IPv6) and port; 0: any free port, which
 * *bound_port tells. `what` it is for is said in errors: "metrics port 8002 is in use". A port that a killed server has
 * left is free at once; one that is in use is -EADDRINUSE. *fd is the caller's to close, any time after the frontends
 * have started. */
int listen_open(const char *host, int tcp_port, const char *what, int *fd, int *bound_port, struct sy_error *err);
