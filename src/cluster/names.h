/* names.h - where HOST:PORT is: an address, or a name, which may have several addresses, and others later.
 *
 * To look a name up may take seconds. So a thread does that, and who wants to know asks as often as it tries to
 * connect: it gets what was found last, and if that is old the thread looks again meanwhile. The thread starts with the
 * first name that is no address. That a name is not found is logged once, and so is that it is found after all. */
#pragma once

#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

#define NAME_ADDRESSES_MAX 16 /* of one name; more are left out */

struct name_address {
    struct sockaddr_storage at;
    socklen_t bytes;
};

/* Whether it is HOST:PORT (or [HOST]:PORT). 0, or -EINVAL with a sentence. */
int name_check(const char *name, struct sy_error *err);
/* Looks it up, and waits for that. How many addresses, at least 1; or -EINVAL, -ENOENT with a sentence. */
int name_look_up(const char *name, struct name_address found[NAME_ADDRESSES_MAX], struct sy_error *err);

struct names;

/* NULL without memory. */
struct names *names_create(void);
/* Waits for nobody: what the thread is looking up it forgets. NULL is allowed. */
void names_destroy(struct names *names);
/* What is known of a name. How many addresses; 0: none yet. One thread at a time. */
uint32_t names_find(struct names *names, const char *name, int64_t now_ns,
                    struct name_address found[NAME_ADDRESSES_MAX]);
