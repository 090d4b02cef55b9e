/* virtual_files.c - descriptors, event descriptors, epoll sets. */
#include "sim/virtual_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/assert.h"

/* A descriptor in an epoll set. */
struct watch {
    struct list_node of_file, of_epoll;
    struct file *file, *epoll;
    int fd;
    struct epoll_event event;
    bool edge; /* EPOLLET: something has happened since it was told */
};

/* An open descriptor. */
struct entry {
    struct file *file;
    struct virtual_process *process;
};

static struct {
    struct entry entries[VIRTUAL_FDS_MAX];
    uint32_t used; /* none beyond was ever open */
    struct list_node files;
} t;

void files_begin(void) {
    memset(t.entries, 0, sizeof(t.entries));
    t.used = 0;
    list_init(&t.files);
}

/* ---- files ---- */

struct file *file_new(enum file_kind kind, struct virtual_process *process) {
    struct file *f = calloc(1, sizeof(*f));
    CHECK(f);
    f->kind = kind;
    f->process = process;
    f->references = 1;
    f->received_last = &f->received;
    f->waiting_last = &f->waiting;
    list_init(&f->watches);
    list_init(&f->watched);
    list_append(&t.files, &f->link);
    return f;
}

static void watch_free(struct watch *w) {
    list_remove(&w->of_file);
    list_remove(&w->of_epoll);
    free(w);
}

void file_put(struct file *f) {
    if (--f->references > 0)
        return;
    list_for_each_safe (node, &f->watches)
        watch_free(list_entry(node, struct watch, of_file));
    list_for_each_safe (node, &f->watched)
        watch_free(list_entry(node, struct watch, of_epoll));
    if (f->kind == FILE_SOCKET)
        socket_closed(f);
    list_remove(&f->link);
    free(f);
}

struct file *file_listening(uint32_t host, uint16_t port, const char *name) {
    list_for_each (node, &t.files) {
        struct file *f = list_entry(node, struct file, link);
        if (f->kind != FILE_SOCKET || f->state != SOCKET_LISTENING || f->process->host != host || f->vanished)
            continue;
        if (name ? f->local && strcmp(f->name, name) == 0 : !f->local && f->port == port)
            return f;
    }
    return NULL;
}

/* ---- descriptors ---- */

int file_open(struct file *f) {
    uint32_t i = 0;
    while (i < VIRTUAL_FDS_MAX && t.entries[i].file)
        i++;
    CHECK_LT(i, VIRTUAL_FDS_MAX);
    t.entries[i] = (struct entry){f, virtual_self()};
    t.used = i < t.used ? t.used : i + 1;
    return VIRTUAL_FDS + (int)i;
}

static struct entry *entry_of(int fd) {
    struct entry *e = virtual_is_fd(fd) ? &t.entries[fd - VIRTUAL_FDS] : NULL;
    if (!e || !e->file)
        return NULL;
    CHECK(e->process == virtual_self()); /* a descriptor of another process, or one that was closed and is another's */
    return e;
}

struct file *file_of(int fd) {
    struct entry *e = entry_of(fd);
    return e ? e->file : NULL;
}

int virtual_dup(int fd) {
    struct file *f = file_of(fd);
    if (!f)
        return -EBADF;
    f->references++;
    return file_open(f);
}

static void entry_close(uint32_t i) {
    struct file *f = t.entries[i].file;
    list_for_each_safe (node, &f->watches) {
        struct watch *w = list_entry(node, struct watch, of_file);
        if (w->fd == VIRTUAL_FDS + (int)i)
            watch_free(w);
    }
    t.entries[i].file = NULL;
    file_put(f);
}

int virtual_close(int fd) {
    if (!entry_of(fd))
        return -EBADF;
    entry_close((uint32_t)(fd - VIRTUAL_FDS));
    return 0;
}

void virtual_process_over(struct virtual_process *process) {
    for (uint32_t i = 0; i < t.used; i++)
        if (t.entries[i].file && t.entries[i].process == process)
            entry_close(i);
}

void virtual_vanish(struct virtual_process *process) {
    for (uint32_t i = 0; i < t.used; i++)
        if (t.entries[i].file && t.entries[i].process == process)
            t.entries[i].file->vanished = true;
}

uint32_t virtual_fds_open(const struct virtual_process *process) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < t.used; i++)
        count += t.entries[i].file && t.entries[i].process == process;
    return count;
}

/* ---- event descriptors ---- */

int virtual_event_fd(void) {
    return file_open(file_new(FILE_EVENT, virtual_self()));
}

ssize_t virtual_event_write(int fd) {
    struct file *f = file_of(fd);
    if (!f || f->kind != FILE_EVENT)
        return -EBADF;
    f->value++;
    file_changed(f);
    return sizeof(f->value);
}

ssize_t virtual_event_read(int fd) {
    struct file *f = file_of(fd);
    if (!f || f->kind != FILE_EVENT)
        return -EBADF;
    if (f->value == 0)
        return -EAGAIN;
    f->value = 0;
    return sizeof(f->value);
}

/* ---- epoll ---- */

static uint32_t socket_events(const struct file *f) {
    switch (f->state) {
    case SOCKET_NEW:
        return EPOLLOUT | EPOLLHUP;
    case SOCKET_LISTENING:
        return f->waiting_count > 0 ? EPOLLIN : 0;
    case SOCKET_CONNECTING:
        return 0;
    case SOCKET_OPEN: {
        uint32_t events = f->received || f->ended || f->shut_read ? EPOLLIN : 0;
        events |= f->ended ? EPOLLRDHUP : 0;
        events |= f->ended && f->shut ? EPOLLHUP : 0;
        return events | (socket_room(f) >= VIRTUAL_BUFFER / 3 || f->shut ? EPOLLOUT : 0);
    }
    default:
        return EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP | (f->error ? EPOLLERR : 0);
    }
}

static uint32_t watch_ready(const struct watch *w) {
    const struct file *f = w->file;
    uint32_t events = f->kind == FILE_EVENT ? (f->value > 0 ? EPOLLIN : 0) | EPOLLOUT : socket_events(f);
    if (w->event.events & EPOLLET && !w->edge)
        return 0;
    return events & (w->event.events | EPOLLERR | EPOLLHUP);
}

static void watch_changed(struct watch *w) {
    w->edge = true;
    if (watch_ready(w))
        virtual_wake(w->epoll, 1);
}

void file_changed(struct file *f) {
    list_for_each (node, &f->watches)
        watch_changed(list_entry(node, struct watch, of_file));
}

int virtual_epoll(void) {
    return file_open(file_new(FILE_EPOLL, virtual_self()));
}

static struct watch *watch_find(const struct file *epoll, int fd) {
    list_for_each (node, &epoll->watched) {
        struct watch *w = list_entry(node, struct watch, of_epoll);
        if (w->fd == fd)
            return w;
    }
    return NULL;
}

int virtual_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event) {
    struct file *epoll = file_of(epoll_fd), *f = file_of(fd);
    if (!epoll || epoll->kind != FILE_EPOLL || !f)
        return -EBADF;
    struct watch *w = watch_find(epoll, fd);
    if (operation == EPOLL_CTL_ADD ? w != NULL : !w)
        return w ? -EEXIST : -ENOENT;
    if (operation == EPOLL_CTL_DEL) {
        watch_free(w);
        return 0;
    }
    if (!w) {
        w = calloc(1, sizeof(*w));
        CHECK(w);
        *w = (struct watch){.file = f, .epoll = epoll, .fd = fd};
        list_append(&f->watches, &w->of_file);
        list_append(&epoll->watched, &w->of_epoll);
    }
    w->event = *event;
    watch_changed(w);
    return 0;
}

/* Those that were told go behind the others. */
static int take_ready(struct file *epoll, struct epoll_event *events, int most) {
    struct list_node told;
    int count = 0;
    list_init(&told);
    list_for_each_safe (node, &epoll->watched) {
        struct watch *w = list_entry(node, struct watch, of_epoll);
        uint32_t ready = count < most ? watch_ready(w) : 0;
        if (!ready)
            continue;
        events[count++] = (struct epoll_event){.events = ready, .data = w->event.data};
        w->edge = false;
        list_remove(node);
        list_append(&told, node);
    }
    while (!list_empty(&told)) {
        struct list_node *node = told.next;
        list_remove(node);
        list_append(&epoll->watched, node);
    }
    return count;
}

int virtual_epoll_wait(int epoll_fd, struct epoll_event *events, int most, int64_t until_ns) {
    struct file *epoll = file_of(epoll_fd);
    if (!epoll || epoll->kind != FILE_EPOLL)
        return -EBADF;
    for (;;) {
        int count = take_ready(epoll, events, most);
        if (count > 0 || virtual_world.now_ns >= until_ns) {
            virtual_sleep(NULL, virtual_world.now_ns + virtual_between(1, 5) * NS_PER_US); /* what the call takes */
            return count;
        }
        int rc = virtual_wait(epoll, until_ns);
        if (rc <= 0)
            return rc < 0 ? rc : take_ready(epoll, events, most);
    }
}
