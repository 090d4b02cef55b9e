/* virtual_registry.c - etcd, and what cluster/membership/registry.h promises of it, without libcurl: one key that a
 * compare-and-swap changes, members under leases, questions that fail after a while. It is on a host of its own, whose
 * links may be cut; an answer that does not come may be to a swap that came true. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/membership/registry.h"
#include "core/util/assert.h"
#include "sim/virtual_cluster.h"

#define MEMBERS_MAX 256
#define ANSWER_NS   (400 * NS_PER_MS)
#define AGAIN_NS    (100 * NS_PER_MS) /* what was not told is tried again */
#define ORDERS_MAX  256
#define LINKS_MAX   256               /* processes that have ever opened it */
#define LATE_ONE_OF 5                 /* news, where they are late, */
#define LATE_NS     (400 * NS_PER_MS) /* by up to so much */

#define TEXT_MAX 4096

struct order {
    bool swaps;
    char *records; /* rollouts to write; NULL: none */
    int64_t revision;
    uint64_t term;
};

struct registry {
    struct registry_config config;
    struct virtual_process *process;
    pthread_t thread;
    bool closing;
    struct order orders[ORDERS_MAX];
    uint32_t order_count;
    struct registry_event *events[ORDERS_MAX]; /* taken in order */
    uint32_t event_count;
    int64_t leader_told; /* the revision that it knows */
    int64_t rollouts_told;
    bool member_told[MEMBERS_MAX], told;
};

static struct {
    bool serves;
    int64_t revision; /* of all */
    struct registry_leader leader;
    char rollouts[TEXT_MAX];
    int64_t rollouts_revision; /* 0: there are none */
    struct {
        bool there;
        struct registry_member member;
        struct virtual_process *process;
        int64_t over_ns; /* of its lease, once the process is gone */
    } members[MEMBERS_MAX];
    uint32_t member_count;
    struct registry *links[LINKS_MAX];
    uint32_t link_count;
} e;

void registry_begin(void) {
    memset(&e, 0, sizeof(e));
    e.serves = true;
    e.revision = 1;
}

static void all_look(void) {
    for (uint32_t i = 0; i < e.link_count; i++)
        if (e.links[i])
            virtual_wake(e.links[i], 1);
}

void registry_serve(bool serves) {
    virtual_trace("etcd is %s", serves ? "up" : "down");
    e.serves = serves;
}

static bool reaches(const struct registry *r, bool back) {
    uint32_t from = r->process->host, to = cluster.registry_host;
    return e.serves && !virtual_link(back ? to : from, back ? from : to)->cut;
}

static void tell(struct registry *r, struct registry_event event) {
    struct registry_event *kept = malloc(sizeof(*kept) + TEXT_MAX);
    CHECK(kept);
    *kept = event;
    if (event.text)
        kept->text = strcpy((char *)(kept + 1), event.text);
    CHECK_LT(r->event_count, ORDERS_MAX);
    r->events[r->event_count++] = kept;
    doorbell_ring(r->config.bell);
}

/* ---- questions ---- */

static void order_do(struct registry *r, const struct order *order) {
    int64_t until_ns = virtual_world.now_ns + ANSWER_NS;
    virtual_sleep(NULL, virtual_world.now_ns + virtual_between(NS_PER_MS / 5, 2 * NS_PER_MS));
    bool asked = reaches(r, false);
    if (asked && order->swaps && order->revision == (e.leader.key.exists ? e.leader.key.revision : 0)) {
        e.leader.key = (struct election_key){true, ++e.revision, order->term, r->config.self.incarnation};
        memcpy(e.leader.address, r->config.address, sizeof(e.leader.address));
        virtual_trace("term %llu is won", (unsigned long long)order->term);
        all_look();
    }
    bool leads = e.leader.key.exists && e.leader.key.incarnation == r->config.self.incarnation;
    if (asked && order->records && leads) {
        CHECK_LT(strlen(order->records), sizeof(e.rollouts));
        strcpy(e.rollouts, order->records);
        e.rollouts_revision = ++e.revision;
        all_look();
    }
    struct registry_event answer = {.kind = REGISTRY_ANSWER, .leader = e.leader};
    if (order->records)
        answer.kind = leads ? REGISTRY_RECORDED : REGISTRY_UNRECORDED;
    if (!answer.leader.key.exists)
        answer.leader.key.revision = e.revision;
    virtual_sleep(NULL, virtual_world.now_ns + virtual_between(NS_PER_MS / 5, 2 * NS_PER_MS));
    if (!asked || !reaches(r, true)) {
        virtual_sleep(NULL, until_ns);
        answer = (struct registry_event){.kind = order->records ? REGISTRY_UNRECORDED : REGISTRY_FAILED};
    }
    free(order->records);
    tell(r, answer);
}

/* ---- what is watched ---- */

static void leases_look(void) {
    for (uint32_t i = 0; i < e.member_count; i++) {
        if (!e.members[i].there || !e.members[i].process->over)
            continue;
        if (!e.members[i].over_ns)
            e.members[i].over_ns = e.members[i].process->over_ns + REGISTRY_LEASE_S * NS_PER_S;
        if (virtual_world.now_ns >= e.members[i].over_ns)
            e.members[i].there = false;
    }
}

/* Tells what it does not know yet. False: there may be some. */
static bool news_tell(struct registry *r) {
    if (!reaches(r, false) || !reaches(r, true))
        return false;
    if (!r->told)
        tell(r, (struct registry_event){.kind = REGISTRY_UP});
    leases_look();
    for (uint32_t i = 0; i < e.member_count; i++) {
        if (e.members[i].there == r->member_told[i])
            continue;
        r->member_told[i] = e.members[i].there;
        tell(r, (struct registry_event){.kind = e.members[i].there ? REGISTRY_MEMBER : REGISTRY_MEMBER_GONE,
                                        .member = e.members[i].member});
    }
    int64_t revision = e.leader.key.exists ? e.leader.key.revision : e.revision;
    if (!r->told || (e.leader.key.exists && r->leader_told != revision)) {
        struct registry_event event = {.kind = REGISTRY_LEADER, .leader = e.leader};
        event.leader.key.revision = revision;
        tell(r, event);
        r->leader_told = revision;
    }
    if (r->rollouts_told != e.rollouts_revision) {
        tell(r, (struct registry_event){.kind = REGISTRY_ROLLOUTS, .text = e.rollouts});
        r->rollouts_told = e.rollouts_revision;
    }
    r->told = true;
    return true;
}

static void *registry_main(void *registry) {
    struct registry *r = registry;
    uint32_t own = MEMBERS_MAX;
    while (!r->closing) {
        if (own == MEMBERS_MAX && *r->config.self.role && reaches(r, false)) {
            CHECK_LT(e.member_count, MEMBERS_MAX);
            own = e.member_count++;
            e.members[own].there = true;
            e.members[own].member = r->config.self;
            e.members[own].process = r->process;
            all_look();
        }
        if (cluster.lags && virtual_below(LATE_ONE_OF) == 0)
            virtual_sleep(NULL, virtual_world.now_ns + virtual_between(0, LATE_NS));
        news_tell(r);
        if (r->order_count > 0) {
            struct order first = r->orders[0];
            memmove(r->orders, r->orders + 1, --r->order_count * sizeof(first));
            order_do(r, &first);
            continue;
        }
        virtual_sleep(r, virtual_world.now_ns + AGAIN_NS);
        if (!r->closing) /* what the news take */
            virtual_sleep(NULL, virtual_world.now_ns + virtual_between(NS_PER_MS / 5, NS_PER_MS));
    }
    if (own < MEMBERS_MAX && reaches(r, false))
        e.members[own].there = false;
    all_look();
    return NULL;
}

/* ---- in place of registry.c ---- */

int __wrap_registry_open(const struct registry_config *config, struct registry **registry, struct sy_error *err);
int __wrap_registry_open(const struct registry_config *config, struct registry **registry, struct sy_error *err) {
    struct registry *r = calloc(1, sizeof(*r));
    if (!r || e.link_count == LINKS_MAX)
        return error_set(err, -ENOMEM, "no memory");
    r->config = *config;
    r->process = virtual_self();
    e.links[e.link_count++] = r;
    *registry = r;
    return -pthread_create(&r->thread, NULL, registry_main, r);
}

void __wrap_registry_close(struct registry *r);
void __wrap_registry_close(struct registry *r) {
    r->closing = true;
    virtual_wake(r, 1);
    pthread_join(r->thread, NULL);
    for (uint32_t i = 0; i < e.link_count; i++)
        if (e.links[i] == r)
            e.links[i] = NULL;
    for (uint32_t i = 0; i < r->event_count; i++)
        free(r->events[i]);
    free(r);
}

static void order_add(struct registry *r, struct order order) {
    CHECK_LT(r->order_count, ORDERS_MAX);
    r->orders[r->order_count++] = order;
    virtual_wake(r, 1);
}

void __wrap_registry_read(struct registry *r);
void __wrap_registry_read(struct registry *r) {
    order_add(r, (struct order){.swaps = false});
}

void __wrap_registry_swap(struct registry *r, int64_t revision, uint64_t term);
void __wrap_registry_swap(struct registry *r, int64_t revision, uint64_t term) {
    order_add(r, (struct order){.swaps = true, .revision = revision, .term = term});
}

void __wrap_registry_record(struct registry *r, const char *rollouts);
void __wrap_registry_record(struct registry *r, const char *rollouts) {
    char *copy = strdup(rollouts);
    CHECK(copy);
    order_add(r, (struct order){.records = copy});
}

bool __wrap_registry_pending(const struct registry *r);
bool __wrap_registry_pending(const struct registry *r) {
    return r->event_count > 0;
}

struct registry_event *__wrap_registry_event_next(struct registry *r);
struct registry_event *__wrap_registry_event_next(struct registry *r) {
    if (r->event_count == 0)
        return NULL;
    struct registry_event *first = r->events[0];
    memmove(r->events, r->events + 1, --r->event_count * sizeof(first));
    return first;
}
