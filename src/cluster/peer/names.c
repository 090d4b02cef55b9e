/* names.c - the names that callers ask for, and the thread that looks them up. */
#include "cluster/peer/names.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/thread.h"

#define NAME_MAX_BYTES 256
#define AGAIN_NS       (1 * NS_PER_S)  /* age of a result after which the name is looked up again */
#define FORGET_NS      (60 * NS_PER_S) /* time after which a name that nobody asks for is forgotten */

enum name_state {
    NAME_IDLE,
    NAME_WANTED, /* the thread is to look the name up */
    NAME_ASKED,  /* the thread looks the name up now */
};

struct name {
    struct name *next;
    char text[NAME_MAX_BYTES];
    enum name_state state;
    int64_t asked_ns, used_ns; /* last look-up, last call for the name */
    bool missed;               /* the name was not found the last time, which was logged */
    uint32_t count;
    struct name_address found[NAME_ADDRESSES_MAX];
};

struct names {
    pthread_mutex_t lock; /* lock of all names */
    pthread_cond_t news;  /* signalled when the thread has work */
    struct name *first;
    bool started;
    bool closing; /* the thread frees everything */
};

/* ---- one name ---- */

void name_host(const char *name, const char *colon, char *host, size_t room) {
    bool bracket = name[0] == '[' && colon[-1] == ']';
    snprintf(host, room, "%.*s", (int)(colon - name) - 2 * bracket, name + bracket);
}

/* Splits HOST:PORT. */
static int name_split(const char *name, char host[NAME_MAX_BYTES], const char **port, struct sy_error *err) {
    const char *colon = strrchr(name, ':');
    char *end;
    long number = colon ? strtol(colon + 1, &end, 10) : 0;
    if (!colon || colon == name || colon[1] < '0' || colon[1] > '9' || *end || number < 1 || number > 65535 ||
        strlen(name) >= NAME_MAX_BYTES)
        return error_set(err, -EINVAL, "'%.200s' is not HOST:PORT", name);
    name_host(name, colon, host, NAME_MAX_BYTES);
    *port = colon + 1;
    return 0;
}

void name_local(const char *name, struct name_address *address) {
    struct sockaddr_un *local = (struct sockaddr_un *)&address->at;
    *local = (struct sockaddr_un){.sun_family = AF_UNIX}; /* an address that begins with a zero byte is not in the file
                                                           * system */
    int length = snprintf(local->sun_path + 1, sizeof(local->sun_path) - 1, "%s", name);
    address->bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool is_local(const char *name) {
    return name[0] == '@' && name[1] && strlen(name) < sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
}

int name_check(const char *name, struct sy_error *err) {
    char host[NAME_MAX_BYTES];
    const char *port;
    return is_local(name) ? 0 : name_split(name, host, &port, err);
}

static int look_up(const char *name, int flags, struct name_address found[NAME_ADDRESSES_MAX], struct sy_error *err) {
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    char host[NAME_MAX_BYTES];
    const char *port;
    struct addrinfo *all;
    if (is_local(name)) {
        name_local(name + 1, &found[0]);
        return 1;
    }
    int rc = name_split(name, host, &port, err), count = 0;
    if (rc < 0)
        return rc;
    rc = getaddrinfo(host, port, &hints, &all);
    if (rc != 0)
        return error_set(err, -ENOENT, "'%s': %s", name, gai_strerror(rc));
    for (const struct addrinfo *one = all; one && count < NAME_ADDRESSES_MAX; one = one->ai_next) {
        memcpy(&found[count].at, one->ai_addr, one->ai_addrlen);
        found[count++].bytes = one->ai_addrlen;
    }
    freeaddrinfo(all);
    return count;
}

int name_look_up(const char *name, struct name_address found[NAME_ADDRESSES_MAX], struct sy_error *err) {
    return look_up(name, 0, found, err);
}

/* ---- the thread ---- */

static void names_free(struct names *names) {
    for (struct name *n = names->first, *next; n; n = next) {
        next = n->next;
        free(n);
    }
    pthread_cond_destroy(&names->news);
    pthread_mutex_destroy(&names->lock);
    free(names);
}

static void *names_main(void *context) {
    struct names *names = context;
    struct name_address found[NAME_ADDRESSES_MAX];
    struct sy_error err;
    thread_begin("names", 0, THREAD_BACKGROUND);
    pthread_mutex_lock(&names->lock);
    while (!names->closing) {
        struct name *n = names->first;
        while (n && n->state != NAME_WANTED)
            n = n->next;
        if (!n) {
            pthread_cond_wait(&names->news, &names->lock);
            continue;
        }
        n->state = NAME_ASKED; /* in this state it is not freed */
        pthread_mutex_unlock(&names->lock);
        int count = look_up(n->text, 0, found, &err);
        pthread_mutex_lock(&names->lock);
        if (names->closing)
            break;
        n->state = NAME_IDLE;
        if (count < 0) { /* the addresses found before stay */
            if (!n->missed)
                log_warn("name not found; trying again", "name=%s reason=\"%s\"", n->text, err.text);
        } else {
            if (n->missed)
                log_info("name found", "name=%s addresses=%d", n->text, count);
            n->count = (uint32_t)count;
            memcpy(n->found, found, (size_t)count * sizeof(*found));
        }
        n->missed = count < 0;
    }
    pthread_mutex_unlock(&names->lock);
    names_free(names);
    return NULL;
}

/* ---- the callers' side ---- */

struct names *names_create(void) {
    struct names *names = calloc(1, sizeof(*names));
    if (!names)
        return NULL;
    pthread_mutex_init(&names->lock, NULL);
    pthread_cond_init(&names->news, NULL);
    return names;
}

void names_destroy(struct names *names) {
    if (!names)
        return;
    pthread_mutex_lock(&names->lock);
    bool started = names->started;
    names->closing = true;
    pthread_cond_signal(&names->news);
    pthread_mutex_unlock(&names->lock);
    if (!started)
        names_free(names);
}

/* The entry of a name; adds one if there is none, and frees entries that are no longer wanted. NULL without memory. */
static struct name *name_of(struct names *names, const char *text, int64_t now_ns) {
    for (struct name *n = names->first; n; n = n->next)
        if (strcmp(n->text, text) == 0)
            return n;
    for (struct name **at = &names->first, *n; (n = *at);) {
        if (n->state != NAME_IDLE || now_ns - n->used_ns < FORGET_NS) {
            at = &n->next;
            continue;
        }
        *at = n->next;
        free(n);
    }
    struct name *n = calloc(1, sizeof(*n));
    if (!n)
        return NULL;
    snprintf(n->text, sizeof(n->text), "%s", text);
    n->asked_ns = now_ns - AGAIN_NS;
    n->next = names->first;
    names->first = n;
    return n;
}

uint32_t names_find(struct names *names, const char *text, int64_t now_ns,
                    struct name_address found[NAME_ADDRESSES_MAX]) {
    struct sy_error err;
    int count = look_up(text, AI_NUMERICHOST, found, &err);
    if (count != -ENOENT)
        return count > 0 ? (uint32_t)count : 0;
    pthread_mutex_lock(&names->lock);
    struct name *n = name_of(names, text, now_ns);
    if (n && n->state == NAME_IDLE && now_ns - n->asked_ns >= AGAIN_NS) {
        n->asked_ns = now_ns;
        n->state = NAME_WANTED;
    }
    if (n && n->state == NAME_WANTED && !names->started) {
        pthread_t thread;
        int rc = pthread_create(&thread, NULL, names_main, names);
        names->started = rc == 0;
        if (names->started)
            pthread_detach(thread);
        else /* the next caller tries again */
            log_error("names cannot be looked up", "reason=\"%s\"", strerror(rc));
    }
    pthread_cond_signal(&names->news);
    count = n ? (int)n->count : 0;
    if (n) {
        n->used_ns = now_ns;
        memcpy(found, n->found, n->count * sizeof(*found));
    }
    pthread_mutex_unlock(&names->lock);
    return (uint32_t)count;
}
