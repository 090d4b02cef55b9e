/* virtual_files.h - what virtual descriptors stand for; for the files of the virtual network only. */
#pragma once

#include "core/util/container.h"
#include "sim/virtual_net.h"

struct connection; /* virtual_net.c */
struct segment;

enum file_kind { FILE_SOCKET, FILE_EVENT, FILE_EPOLL };
enum socket_state { SOCKET_NEW, SOCKET_LISTENING, SOCKET_CONNECTING, SOCKET_OPEN, SOCKET_BROKEN };

/* An open socket, event descriptor or epoll set. */
struct file {
    struct list_node link; /* of all */
    enum file_kind kind;
    uint32_t references;
    struct virtual_process *process;
    struct list_node watches; /* struct watch.of_file */
    /* a socket */
    enum socket_state state;
    bool local;     /* of the Unix family */
    bool ended;     /* the other end has sent its last */
    bool shut;      /* it has sent its last, */
    bool shut_read; /* and reads no more */
    bool vanished;
    int error;
    int side; /* of its connection */
    struct connection *connection;
    uint16_t port;
    char name[108];
    int64_t patience_ns; /* TCP_USER_TIMEOUT; 0: none */
    struct segment *received, **received_last;
    size_t received_bytes;
    struct file *waiting, **waiting_last; /* to be accepted */
    struct file *waiting_next;            /* of those */
    uint32_t waiting_count;
    /* an event descriptor */
    uint64_t value;
    /* an epoll set */
    struct list_node watched; /* struct watch.of_epoll */
};

void files_begin(void);
/* With one reference, and no descriptor. */
struct file *file_new(enum file_kind kind, struct virtual_process *process);
/* The last one closes it. */
void file_put(struct file *file);
/* A descriptor of the running process, which has the reference from then on. */
int file_open(struct file *file);
/* NULL: the running process has none such. */
struct file *file_of(int fd);
/* Whoever waits for it is woken, if it is ready for that. */
void file_changed(struct file *file);
/* The socket that listens there, by its port, or its name if that is not NULL; NULL: none does. */
struct file *file_listening(uint32_t host, uint16_t port, const char *name);

/* virtual_net.c */
size_t socket_room(const struct file *file);
void socket_closed(struct file *file);
