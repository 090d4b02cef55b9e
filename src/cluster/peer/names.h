/* names.h - the addresses of HOST:PORT. A host name may have several, and they may change. "@NAME" is the address of a
 * process of this host that listens at a Unix socket of that name, which is not in the file system.
 *
 * Looking up a name may take seconds, so a thread of its own does it. A caller asks each time that it tries to connect,
 * and gets the last result; if that is old, the thread looks the name up again meanwhile. The thread starts with the
 * first name that is no address. A name that is not found is logged once, and once more when it is found. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/util/error.h"

#define NAME_ADDRESSES_MAX 16 /* most addresses of one name; further ones are left out */

struct name_address {
    struct sockaddr_storage at;
    socklen_t bytes;
};

/* Whether a name is HOST:PORT, [HOST]:PORT or "@NAME". 0, or -EINVAL with a sentence. */
int name_check(const char *name, struct sy_error *err);
/* Copies the host of HOST:PORT, without the brackets of an address of IPv6; `colon` is the last colon of the name. */
void name_host(const char *name, const char *colon, char *host, size_t room);
/* The address of "@NAME", without the '@'. */
void name_local(const char *name, struct name_address *address);
/* Looks a name up; blocks. Returns the number of addresses, at least 1; or -EINVAL, -ENOENT with a sentence. */
int name_look_up(const char *name, struct name_address found[NAME_ADDRESSES_MAX], struct sy_error *err);

struct names;

/* NULL: no memory. */
struct names *names_create(void);
/* Does not wait: the thread frees everything when its look-up is over. NULL is allowed. */
void names_destroy(struct names *names);
/* Copies the known addresses of a name, and returns their number; 0: none yet. One thread at a time. */
uint32_t names_find(struct names *names, const char *name, int64_t now_ns,
                    struct name_address found[NAME_ADDRESSES_MAX]);
