/* fabric.c - libfabric with its interface of version 1.15, loaded at run time.
 *
 * There is one event queue and one completion queue for all connections. Pieces of reads wait in a list until
 * fabric_look() or fabric_post(), and while the provider, or the completion queue, has no room. A provider that allows
 * it ("tcp": four pieces) gets several pieces as one operation: one message to the other end, one completion.
 *
 * The provider "tcp" up to version 1.17, which Debian 12 has, needs a completion queue for each connection. The
 * provider keeps its records of reads in a pool of the queue. When a connection is closed while the answer to a read is
 * arriving, the provider puts that read's record into the pool twice; later reads by that queue then share records, and
 * get lost. With a queue for each connection the pool ends with the connection. Each queue costs system calls in every
 * turn, so later versions and other providers share one queue. */
#include "cluster/peer/fabric.h"

#include "core/util/container.h" /* libfabric defines its own macro of that name if there is none */

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/system/log.h"
#include "core/util/list.h"

#define INTERFACE   FI_VERSION(1, 15)
#define LIBRARY     "libfabric.so.1"
#define READS_MOST  1024                 /* most reads under way at once, of all connections */
#define READS_CHUNK 256                  /* pieces allocated at once */
#define LOOK_MOST   256                  /* most completions and events handled in one call */
#define LOOK_BYTES  ((size_t)512 * 1024) /* bytes read in one call; the pieces that have arrived are then reported */
/* Most pieces of one operation, and most bytes of them. No piece is reported before all of its operation have come. Two
 * pieces of full length do not go together, since that would gain nothing. */
#define GROUP_MOST  4
#define GROUP_BYTES (2 * FABRIC_PIECE_BYTES - 1)

/* A piece of a read. */
struct fabric_piece {
    struct fi_context2 context; /* memory for the provider, while it reads */
    struct list_node link;      /* place in the list of free, waiting, posted or done pieces */
    struct fabric_piece *more;  /* next piece of the same operation, which is in no list; NULL: none */
    struct fabric_end *end;     /* connection; NULL: it was closed while the provider had the piece */
    void *to, *desc;
    uint64_t remote, key, tag;
    size_t bytes;
    int error; /* libfabric's error of the operation; 0: the piece was read */
};

struct piece_chunk {
    struct piece_chunk *next;
    struct fabric_piece pieces[READS_CHUNK];
};

struct fabric_end {
    struct list_node link;
    struct fabric *fabric;
    struct fid_ep *ep;
    struct fid_cq *cq; /* completion queue: the connection's own, or the one of all connections */
    void *of;
    bool up, down;
    struct list_node waits;  /* pieces not yet given to the provider */
    struct list_node posted; /* pieces that the provider has */
    struct list_node done;   /* pieces that have ended, and were not reported yet */
};

struct region_open {
    struct region_open *next;
    struct fid_mr *mr;
};

struct fabric {
    const struct fabric_events *events;
    void *owner;
    void *library;
    __typeof__(fi_getinfo) *getinfo;
    __typeof__(fi_freeinfo) *freeinfo;
    __typeof__(fi_dupinfo) *dupinfo;
    __typeof__(fi_fabric) *open;
    __typeof__(fi_strerror) *error;
    __typeof__(fi_version) *version;
    char provider[32];
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_eq *eq;
    struct fid_domain *domain;
    struct fid_cq *cq; /* completion queue of all connections; NULL: each has its own */
    int queues_fd;     /* epoll set of the connections' own queues; -1: none */
    struct fid_pep *pep;
    struct list_node ends;
    struct list_node free; /* free pieces */
    struct piece_chunk *chunks;
    struct region_open *regions;
    uint32_t group_most; /* most pieces of one operation */
    uint32_t reads;      /* operations that providers have */
    uint32_t done;       /* operations to be reported */
    bool starved;        /* some pieces wait for room */
    bool fresh;          /* some pieces were never offered to the provider */
};

static int failed(const struct fabric *f, const char *what, int rc, struct sy_error *err) {
    return error_set(err, -EIO, "libfabric cannot %s with provider '%s': %s", what, f->provider, f->error(-rc));
}

/* ---- start and end ---- */

static int library_load(struct fabric *f, struct sy_error *err) {
    f->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!f->library)
        return error_set(err, -ENOENT, "%s cannot be loaded (Debian's package libfabric1 has it): %s", LIBRARY,
                         dlerror());
    *(void **)&f->getinfo = dlsym(f->library, "fi_getinfo");
    *(void **)&f->freeinfo = dlsym(f->library, "fi_freeinfo");
    *(void **)&f->dupinfo = dlsym(f->library, "fi_dupinfo");
    *(void **)&f->open = dlsym(f->library, "fi_fabric");
    *(void **)&f->error = dlsym(f->library, "fi_strerror");
    *(void **)&f->version = dlsym(f->library, "fi_version");
    if (!f->getinfo || !f->freeinfo || !f->dupinfo || !f->open || !f->error || !f->version)
        return error_set(err, -ENOENT, "%s is not the library that it should be", LIBRARY);
    return 0;
}

/* Asks a provider for an endpoint of the kind that we need; with an address to listen at, or none. */
static int info_get(struct fabric *f, const char *host, struct fi_info **info, struct sy_error *err) {
    struct fi_info *hints = f->dupinfo(NULL);
    if (!hints)
        return error_set(err, -ENOMEM, "no memory for libfabric");
    hints->caps = FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = strdup(f->provider);
    int rc = f->getinfo(INTERFACE, host, host ? "0" : NULL, host ? FI_SOURCE | FI_NUMERICHOST : 0, hints, info);
    f->freeinfo(hints);
    if (rc == -FI_ENODATA)
        return error_set(err, -ENOENT, "libfabric has no provider '%s' here that connects and reads%s%s", f->provider,
                         host ? " at " : "", host ? host : "");
    return rc < 0 ? failed(f, "be asked what it has", rc, err) : 0;
}

static int queue_open(struct fabric *f, struct fid_cq **cq) {
    struct fi_cq_attr attr = {.size = 2 * READS_MOST, .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD};
    return fi_cq_open(f->domain, &attr, cq, NULL);
}

static int objects_open(struct fabric *f, struct sy_error *err) {
    const struct fi_tx_attr *attr = f->info->tx_attr;
    size_t most = attr->iov_limit < attr->rma_iov_limit ? attr->iov_limit : attr->rma_iov_limit;
    struct fi_eq_attr eq = {.wait_obj = FI_WAIT_FD};
    int rc;
    f->group_most = most < 1 ? 1 : most < GROUP_MOST ? (uint32_t)most : GROUP_MOST;
    if ((rc = f->open(f->info->fabric_attr, &f->fabric, NULL)) < 0)
        return failed(f, "be opened", rc, err);
    if ((rc = fi_eq_open(f->fabric, &eq, &f->eq, NULL)) < 0)
        return failed(f, "wait for events", rc, err);
    if ((rc = fi_domain(f->fabric, f->info, &f->domain, NULL)) < 0)
        return failed(f, "open its device", rc, err);
    if (strcmp(f->provider, "tcp") == 0 && FI_VERSION_LT(f->version(), FI_VERSION(1, 18))) /* a queue for each */
        rc = (f->queues_fd = epoll_create1(EPOLL_CLOEXEC)) < 0 ? -errno : 0;
    else
        rc = queue_open(f, &f->cq);
    return rc < 0 ? failed(f, "wait for reads", rc, err) : 0;
}

int fabric_open(struct fabric **fabric, const char *provider, const struct fabric_events *events, void *owner,
                struct sy_error *err) {
    struct fabric *f = calloc(1, sizeof(*f));
    if (!f)
        return error_set(err, -ENOMEM, "no memory for libfabric");
    f->events = events;
    f->owner = owner;
    f->queues_fd = -1;
    list_init(&f->ends);
    list_init(&f->free);
    strncpy(f->provider, provider, sizeof(f->provider) - 1);
    int rc = library_load(f, err);
    rc = rc < 0 ? rc : info_get(f, NULL, &f->info, err);
    rc = rc < 0 ? rc : objects_open(f, err);
    if (rc < 0) {
        fabric_close(f);
        return rc;
    }
    *fabric = f;
    return 0;
}

static void fid_close(struct fid *fid) {
    int rc = fi_close(fid);
    if (rc < 0)
        log_warn("libfabric does not close what it opened", "error=%d", rc);
}

void fabric_close(struct fabric *f) {
    if (!f)
        return;
    list_for_each_safe (node, &f->ends) {
        fabric_end_close(list_entry(node, struct fabric_end, link));
    }
    for (struct region_open *r = f->regions, *next; r; r = next) {
        next = r->next;
        fid_close(&r->mr->fid);
        free(r);
    }
    if (f->pep)
        fid_close(&f->pep->fid);
    if (f->cq)
        fid_close(&f->cq->fid);
    if (f->queues_fd >= 0)
        close(f->queues_fd);
    if (f->domain)
        fid_close(&f->domain->fid);
    if (f->eq)
        fid_close(&f->eq->fid);
    if (f->fabric)
        fid_close(&f->fabric->fid);
    if (f->info)
        f->freeinfo(f->info);
    for (struct piece_chunk *c = f->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(f); /* the library stays: it may have threads and handlers of its own */
}

int fabric_listen(struct fabric *f, const char *host, struct sockaddr_storage *address, struct sy_error *err) {
    struct fi_info *info;
    size_t bytes = sizeof(*address);
    int rc = info_get(f, host ? host : "0.0.0.0", &info, err);
    if (rc < 0)
        return rc;
    rc = fi_passive_ep(f->fabric, info, &f->pep, NULL);
    if (rc == 0 && (rc = fi_pep_bind(f->pep, &f->eq->fid, 0)) == 0 && (rc = fi_listen(f->pep)) == 0)
        rc = fi_getname(&f->pep->fid, address, &bytes);
    f->freeinfo(info);
    return rc < 0 ? failed(f, "listen", rc, err) : 0;
}

uint32_t fabric_fds(const struct fabric *f, int fds[FABRIC_FDS]) {
    uint32_t count = 0;
    count += fi_control(&f->eq->fid, FI_GETWAIT, &fds[count]) == 0;
    if (f->cq)
        count += fi_control(&f->cq->fid, FI_GETWAIT, &fds[count]) == 0;
    else
        fds[count++] = f->queues_fd;
    return count;
}

static bool may_wait(struct fabric *f, struct fid *fid) {
    return fi_trywait(f->fabric, &fid, 1) == FI_SUCCESS;
}

bool fabric_may_sleep(struct fabric *f) {
    if (f->done > 0 || f->fresh || !may_wait(f, &f->eq->fid))
        return false;
    if (f->cq)
        return may_wait(f, &f->cq->fid);
    list_for_each_entry (e, &f->ends, struct fabric_end, link)
        if (!may_wait(f, &e->cq->fid))
            return false;
    return true;
}

/* ---- memory ---- */

int fabric_region(struct fabric *f, void *base, uintptr_t from, size_t bytes, bool remote, struct fabric_region *region,
                  struct sy_error *err) {
    struct region_open *open = malloc(sizeof(*open));
    uint64_t wanted = 0;
    if (!open || getrandom(&wanted, sizeof(wanted), 0) != sizeof(wanted)) { /* a key that cannot be guessed */
        free(open);
        return error_set(err, -ENOMEM, "no memory for libfabric, or no random numbers");
    }
    if (f->info->domain_attr->mr_key_size < sizeof(wanted))
        wanted &= ((uint64_t)1 << 8 * f->info->domain_attr->mr_key_size) - 1;
    int rc = fi_mr_reg(f->domain, base, bytes, remote ? FI_REMOTE_READ : FI_READ, 0, wanted, 0, &open->mr, NULL);
    if (rc < 0) {
        free(open);
        return failed(f, "register memory (it may have to be pinned: see RLIMIT_MEMLOCK)", rc, err);
    }
    open->next = f->regions;
    f->regions = open;
    *region = (struct fabric_region){
        .mr = open->mr,
        .base = (uintptr_t)base,
        .from = from,
        .bytes = bytes,
        .key = fi_mr_key(open->mr),
        .remote = f->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)base : 0,
    };
    return 0;
}

/* ---- connections ---- */

static bool event_take(struct fabric *f);

/* The completion queue of a new connection. */
static int end_queue(struct fabric_end *e) {
    struct fabric *f = e->fabric;
    struct epoll_event event = {.events = EPOLLIN};
    int fd, rc;
    if (f->cq) {
        e->cq = f->cq;
        return 0;
    }
    if ((rc = queue_open(f, &e->cq)) < 0 || (rc = fi_control(&e->cq->fid, FI_GETWAIT, &fd)) < 0)
        return rc;
    return epoll_ctl(f->queues_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int end_open(struct fabric *f, struct fi_info *info, void *of, struct fabric_end **end) {
    struct fabric_end *e = calloc(1, sizeof(*e));
    if (!e)
        return -FI_ENOMEM;
    *e = (struct fabric_end){.fabric = f, .of = of};
    list_init(&e->waits);
    list_init(&e->posted);
    list_init(&e->done);
    int rc = fi_endpoint(f->domain, info, &e->ep, NULL);
    if (rc < 0) {
        free(e);
        return rc;
    }
    e->ep->fid.context = e;
    list_append(&f->ends, &e->link);
    if ((rc = end_queue(e)) < 0 || (rc = fi_ep_bind(e->ep, &f->eq->fid, 0)) < 0 ||
        (rc = fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV)) < 0 || (rc = fi_enable(e->ep)) < 0) {
        fabric_end_close(e);
        return rc;
    }
    *end = e;
    return 0;
}

int fabric_connect(struct fabric *f, const struct sockaddr *address, const uint64_t secret[2], void *of,
                   struct fabric_end **end, struct sy_error *err) {
    size_t bytes = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    struct fi_info *info = f->dupinfo(f->info);
    int rc = -FI_ENOMEM;
    if (info) {
        free(info->src_addr); /* any */
        free(info->dest_addr);
        info->src_addr = NULL;
        info->src_addrlen = 0;
        info->addr_format = address->sa_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
        info->dest_addrlen = bytes;
        info->dest_addr = malloc(bytes);
        if (info->dest_addr) {
            memcpy(info->dest_addr, address, bytes);
            rc = end_open(f, info, of, end);
        }
        f->freeinfo(info);
    }
    if (rc == 0 && (rc = fi_connect((*end)->ep, address, secret, 2 * sizeof(*secret))) < 0)
        fabric_end_close(*end);
    return rc < 0 ? failed(f, "connect", rc, err) : 0;
}

/* Frees a piece, and the other pieces of its operation. */
static void piece_free(struct fabric *f, struct fabric_piece *piece) {
    for (struct fabric_piece *more; piece; piece = more) {
        more = piece->more;
        piece->more = NULL;
        list_append(&f->free, &piece->link);
    }
}

/* Takes completions, each of an operation that the provider has finished or has failed to finish: at most `most`, and
 * none after `bytes_most` bytes. */
static void completions_note(struct fabric *f, struct fid_cq *cq, uint32_t most, size_t bytes_most) {
    struct fi_cq_entry entry;
    size_t bytes = 0;
    ssize_t got;
    for (uint32_t i = 0; i < most && bytes < bytes_most && (got = fi_cq_read(cq, &entry, 1)) != -FI_EAGAIN; i++) {
        struct fi_cq_err_entry error = {.err_data = NULL};
        void *context = got == 1 ? entry.op_context : NULL;
        if (got == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) > 0)
            context = error.op_context;
        if (!context)
            continue;
        struct fabric_piece *piece = container_of(context, struct fabric_piece, context);
        if (!piece->end) { /* closed meanwhile */
            piece_free(f, piece);
            continue;
        }
        piece->error = error.err;
        for (const struct fabric_piece *p = piece; p; p = p->more)
            bytes += p->bytes;
        list_remove(&piece->link);
        list_append(&piece->end->done, &piece->link);
        f->reads--;
        f->done++;
    }
}

/* Frees a list of pieces or operations; returns its length. */
static uint32_t pieces_free(struct fabric *f, struct list_node *pieces) {
    uint32_t count = 0;
    list_for_each_safe (node, pieces) {
        list_remove(node);
        piece_free(f, list_entry(node, struct fabric_piece, link));
        count++;
    }
    return count;
}

static void end_down(struct fabric_end *e, const char *reason) {
    if (e->down)
        return;
    e->down = true;
    e->fabric->events->down(e->of, reason);
}

/* A connection request. */
static void asked(struct fabric *f, const struct fi_eq_cm_entry *entry, size_t bytes) {
    uint64_t secret[2];
    struct fabric_end *end;
    void *of = NULL;
    if (bytes >= sizeof(*entry) + sizeof(secret)) {
        memcpy(secret, entry->data, sizeof(secret));
        of = f->events->asked(f->owner, secret);
    }
    int rc = of ? end_open(f, entry->info, of, &end) : 0;
    if (!of || rc < 0)
        fi_reject(f->pep, entry->info->handle, NULL, 0);
    else if ((rc = fi_accept(end->ep, NULL, 0)) < 0)
        fabric_end_close(end);
    else
        f->events->accepted(of, end);
    if (rc < 0)
        log_warn("backend not connected", "by=fabric reason=\"%s\"", f->error(-rc));
    f->freeinfo(entry->info);
}

static struct fabric_end *end_find(const struct fabric *f, const struct fid *fid) {
    list_for_each_entry (e, &f->ends, struct fabric_end, link)
        if (&e->ep->fid == fid)
            return e;
    return NULL; /* closed meanwhile */
}

static bool event_take(struct fabric *f) {
    _Alignas(struct fi_eq_cm_entry) char buffer[sizeof(struct fi_eq_cm_entry) + 256];
    struct fi_eq_cm_entry *entry = (struct fi_eq_cm_entry *)buffer;
    struct fabric_end *end;
    uint32_t event;
    ssize_t got = fi_eq_read(f->eq, &event, buffer, sizeof(buffer), 0);
    if (got == -FI_EAVAIL) {
        struct fi_eq_err_entry error = {.err_data = NULL};
        if (fi_eq_readerr(f->eq, &error, 0) < 0)
            return false;
        if ((end = end_find(f, error.fid)))
            end_down(end, f->error(error.err));
        return true;
    }
    if (got < (ssize_t)sizeof(*entry))
        return false;
    if (event == FI_CONNREQ) {
        asked(f, entry, (size_t)got);
    } else if ((end = end_find(f, entry->fid))) {
        if (event == FI_CONNECTED && !end->down) {
            end->up = true;
            f->starved = true; /* pieces that waited for the provider can go on */
            f->events->up(end->of);
        } else if (event == FI_SHUTDOWN) {
            end_down(end, "the other end closed the connection");
        }
    }
    return true;
}

/* Takes back the provider's unfinished pieces, once the endpoint is closed. */
static void end_queue_close(struct fabric_end *e) {
    struct fabric *f = e->fabric;
    int fd;
    if (e->cq && e->cq == f->cq) {
        completions_note(f, f->cq, UINT32_MAX, SIZE_MAX);
        list_for_each_safe (node, &e->posted) { /* their completions may come later, or never */
            list_remove(node);
            list_entry(node, struct fabric_piece, link)->end = NULL;
            f->reads--;
        }
    } else if (e->cq) {
        if (fi_control(&e->cq->fid, FI_GETWAIT, &fd) == 0)
            epoll_ctl(f->queues_fd, EPOLL_CTL_DEL, fd, NULL);
        fid_close(&e->cq->fid);
        f->reads -= pieces_free(f, &e->posted);
    }
}

void fabric_end_close(struct fabric_end *e) {
    if (!e)
        return;
    struct fabric *f = e->fabric;
    pieces_free(f, &e->waits);
    /* First takes its events from the queue, so that none is left for the next endpoint, which may get the same
     * address. */
    e->down = true;
    for (int i = 0; i < LOOK_MOST && event_take(f); i++)
        ;
    fid_close(&e->ep->fid);
    end_queue_close(e);
    f->done -= pieces_free(f, &e->done);
    list_remove(&e->link);
    free(e);
}

/* ---- reads ---- */

static struct fabric_piece *piece_new(struct fabric *f) {
    if (list_empty(&f->free)) {
        struct piece_chunk *chunk = calloc(1, sizeof(*chunk));
        if (!chunk)
            return NULL;
        chunk->next = f->chunks;
        f->chunks = chunk;
        for (uint32_t i = 0; i < READS_CHUNK; i++)
            piece_free(f, &chunk->pieces[i]);
    }
    struct fabric_piece *piece = list_entry(f->free.next, struct fabric_piece, link);
    list_remove(&piece->link);
    return piece;
}

/* The next pieces for one operation: the first that waits, and as many after it as fit. */
static uint32_t group_find(const struct fabric_end *e, struct fabric_piece *group[GROUP_MOST]) {
    uint32_t count = 0;
    size_t bytes = 0;
    for (struct list_node *node = e->waits.next; node != &e->waits && count < e->fabric->group_most;
         node = node->next) {
        struct fabric_piece *piece = list_entry(node, struct fabric_piece, link);
        bytes += piece->bytes;
        if (count > 0 && bytes > GROUP_BYTES)
            break;
        group[count++] = piece;
    }
    return count;
}

static ssize_t group_read(struct fabric_end *e, struct fabric_piece *const *group, uint32_t count) {
    struct iovec to[GROUP_MOST];
    struct fi_rma_iov from[GROUP_MOST];
    void *desc[GROUP_MOST];
    for (uint32_t i = 0; i < count; i++) {
        to[i] = (struct iovec){group[i]->to, group[i]->bytes};
        from[i] = (struct fi_rma_iov){.addr = group[i]->remote, .len = group[i]->bytes, .key = group[i]->key};
        desc[i] = group[i]->desc;
    }
    struct fi_msg_rma message = {.msg_iov = to,
                                 .desc = desc,
                                 .iov_count = count,
                                 .rma_iov = from,
                                 .rma_iov_count = count,
                                 .context = &group[0]->context};
    return fi_readmsg(e->ep, &message, FI_COMPLETION);
}

/* Gives the provider waiting pieces, as many as it accepts. */
static void end_post(struct fabric_end *e) {
    struct fabric *f = e->fabric;
    struct fabric_piece *group[GROUP_MOST];
    while (!list_empty(&e->waits) && e->up && !e->down) {
        uint32_t count = group_find(e, group);
        ssize_t rc = f->reads < READS_MOST ? group_read(e, group, count) : -FI_EAGAIN;
        if (rc == -FI_EAGAIN) {
            f->starved = true;
            return;
        }
        if (rc < 0) {
            end_down(e, f->error((int)-rc));
            return;
        }
        f->reads++;
        for (uint32_t i = 0; i < count; i++) {
            list_remove(&group[i]->link);
            group[i]->more = i + 1 < count ? group[i + 1] : NULL;
        }
        list_append(&e->posted, &group[0]->link);
    }
}

void fabric_post(struct fabric_end *e) {
    end_post(e);
}

int fabric_read(struct fabric_end *e, const struct fabric_region *region, void *to, size_t bytes, uint64_t remote,
                uint64_t key, uint64_t tag) {
    struct fabric *f = e->fabric;
    struct list_node pieces;
    uint64_t at = (uintptr_t)to - region->from;
    list_init(&pieces);
    for (size_t done = 0; done < bytes;) {
        struct fabric_piece *piece = piece_new(f);
        if (!piece) {
            pieces_free(f, &pieces);
            return -ENOMEM;
        }
        piece->bytes = bytes - done < FABRIC_PIECE_BYTES ? bytes - done : FABRIC_PIECE_BYTES;
        piece->to = (void *)(region->base + at + done);
        piece->desc = fi_mr_desc(region->mr);
        piece->remote = remote + done;
        piece->key = key;
        piece->tag = tag;
        piece->end = e;
        piece->error = 0;
        done += piece->bytes;
        list_append(&pieces, &piece->link);
    }
    list_for_each_safe (node, &pieces) {
        list_remove(node);
        list_append(&e->waits, node);
    }
    f->fresh = true;
    return 0;
}

/* Reports the finished pieces of a connection. */
static void end_done(struct fabric_end *e) {
    struct fabric *f = e->fabric;
    list_for_each_safe (node, &e->done) {
        struct fabric_piece *piece = list_entry(node, struct fabric_piece, link);
        list_remove(node);
        f->done--;
        if (piece->error)
            end_down(e, f->error(piece->error));
        for (struct fabric_piece *p = piece; p && !e->down; p = p->more)
            f->events->read(e->of, p->tag, p->bytes);
        piece_free(f, piece);
    }
}

void fabric_look(struct fabric *f) {
    if (f->fresh) { /* first, so that the other end has work while this one handles what has come */
        f->fresh = false;
        list_for_each_entry (e, &f->ends, struct fabric_end, link)
            end_post(e);
    }
    for (int i = 0; i < LOOK_MOST && event_take(f); i++)
        ;
    if (f->cq)
        completions_note(f, f->cq, LOOK_MOST, LOOK_BYTES);
    list_for_each_entry (e, &f->ends, struct fabric_end, link)
        if (e->cq != f->cq)
            completions_note(f, e->cq, LOOK_MOST, LOOK_BYTES);
    bool starved = f->starved;
    f->starved = false;
    if (f->done == 0 && !starved)
        return;
    list_for_each_entry (e, &f->ends, struct fabric_end, link) {
        end_done(e);
        end_post(e);
    }
}
