/* test_election.c - thousands of drawn histories of schedulers that elect a leader, and of members that obey one.
 *
 * Six seconds of faults: delays, partitions of one way and both, killed, restarted and stopped schedulers, a registry
 * that is down or loses its data, swaps whose answer is lost or that come true late; every clock runs at its own rate.
 * Then all is healed, and after two seconds everybody must follow one leader. That one is killed, stopped, or its cable
 * is cut, and another must lead in time.
 *
 * Which histories, and how many: histories.h. A failure prints its seed; SYMPHONY_RUNS=1 SYMPHONY_SEED=SEED repeats
 * it. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/membership/election.h"
#include "core/util/rng.h"
#include "histories.h"

#define RUNS           3000
#define SCHEDULERS_MAX 4
#define MEMBERS_MAX    4
#define NODES_MAX      (SCHEDULERS_MAX + MEMBERS_MAX + 1)
#define EVENTS_MAX     65536
#define TERMS_MAX      4096
#define CHAOS_NS       (6 * NS_PER_S)
#define HEAL_NS        (2 * NS_PER_S)
#define KILL_LIMIT_NS  (500 * NS_PER_MS)
#define QUIET_LIMIT_NS (1500 * NS_PER_MS)
#define CLIENT_WAIT_NS (200 * NS_PER_MS) /* of the registry's client, for an answer */
#define GRANT_NS       (10 * NS_PER_MS)

enum kind {
    TIMER,   /* of scheduler `to` */
    EVENT,   /* for scheduler `to` */
    REQUEST, /* of scheduler `from` to the registry */
    TIMEOUT, /* of that */
    GRANT,   /* scheduler `from` to member `to` */
    TICK,    /* all leaders send grants */
    FAULT,
    UNCUT,
    RESUME,
    RESTART,
    REGISTRY_UP,
};

struct happening {
    int64_t at_ns;
    uint64_t seq;
    enum kind kind;
    uint32_t from, to;
    uint64_t life;   /* of the scheduler that it concerns: it is void for a later one */
    uint64_t number; /* of a timer, or of a question to the registry */
    struct election_event event;
    enum election_ask ask;
    int64_t revision;
    uint64_t term;
};

struct scheduler {
    struct election e;
    uint64_t incarnation, timer, question;
    bool alive, stopped, asked;
    double rate;
    int64_t offset_ns;
};

/* The highest leader that a member has obeyed: by term, then by seniority. All zeros: none yet. It is stricter than the
 * program's members, which compare terms and obey the one scheduler that they have joined. */
struct fence {
    uint64_t term, incarnation;
    uint32_t seniority;
};

struct world {
    struct rng rng;
    bool registry, chaos, forgets, trusts;
    uint32_t schedulers, members;
    struct scheduler s[SCHEDULERS_MAX];
    struct fence fences[MEMBERS_MAX], obeyed[MEMBERS_MAX]; /* what members hold; the checker's own record */
    int64_t obeyed_ns[MEMBERS_MAX];
    uint32_t cut[NODES_MAX][NODES_MAX];
    int64_t arrived_ns[NODES_MAX][NODES_MAX]; /* links keep the order */
    struct election_key key;
    int64_t store_revision;
    uint32_t registry_down;
    uint64_t winner[TERMS_MAX]; /* of each term */
    uint64_t incarnations, seq, terms;
    int64_t now_ns;
    struct happening heap[EVENTS_MAX];
    struct happening parked[EVENTS_MAX]; /* what came for stopped schedulers */
    uint32_t count, parked_count;
    const char *wrong;
};

static bool chance(struct world *w, double p) {
    return rng_uniform(&w->rng) < p;
}

static int64_t between(struct world *w, int64_t low_ns, int64_t high_ns) {
    return low_ns + (int64_t)((double)(high_ns - low_ns) * rng_uniform(&w->rng));
}

static bool earlier(const struct happening *a, const struct happening *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

static void add(struct world *w, struct happening h) {
    if (w->count == EVENTS_MAX)
        abort();
    h.seq = ++w->seq;
    uint32_t at = w->count++;
    for (; at && earlier(&h, &w->heap[(at - 1) / 2]); at = (at - 1) / 2)
        w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = h;
}

static struct happening take(struct world *w) {
    struct happening top = w->heap[0], last = w->heap[--w->count];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < w->count; at = child) {
        child += child + 1 < w->count && earlier(&w->heap[child + 1], &w->heap[child]);
        if (!earlier(&w->heap[child], &last))
            break;
        w->heap[at] = w->heap[child];
    }
    w->heap[at] = last;
    return top;
}

static uint32_t registry_node(const struct world *w) {
    return w->schedulers + w->members;
}

/* Sends something from one node to another, if the way is not cut. */
static void post(struct world *w, uint32_t from, uint32_t to, struct happening h) {
    if (w->cut[from][to])
        return;
    int64_t delay_ns = between(w, 50 * NS_PER_US, 5 * NS_PER_MS);
    if (w->chaos && chance(w, 0.02)) /* a lost packet is sent again */
        delay_ns += between(w, 0, 400 * NS_PER_MS);
    h.at_ns = w->now_ns + delay_ns;
    if (h.at_ns <= w->arrived_ns[from][to])
        h.at_ns = w->arrived_ns[from][to] + 1;
    w->arrived_ns[from][to] = h.at_ns;
    add(w, h);
}

static void post_event(struct world *w, uint32_t from, uint32_t to, struct election_event event) {
    post(w, from, to, (struct happening){.kind = EVENT, .to = to, .life = w->s[to].incarnation, .event = event});
}

/* ---- schedulers ---- */

static void step(struct world *w, uint32_t i, struct election_event event);

static int64_t local_ns(const struct scheduler *s, int64_t true_ns) {
    return s->offset_ns + (int64_t)((double)true_ns * s->rate);
}

static void link_tell(struct world *w, uint32_t i, bool up) {
    for (uint32_t p = 0; p < w->schedulers; p++)
        if (p != i && w->s[p].alive)
            post_event(w, i, p, (struct election_event){.kind = ELECTION_LINK, .peer = i, .up = up});
}

static void scheduler_start(struct world *w, uint32_t i) {
    struct scheduler *s = &w->s[i];
    *s = (struct scheduler){.incarnation = ++w->incarnations,
                            .alive = true,
                            .rate = 1 + 1e-3 * (2 * rng_uniform(&w->rng) - 1),
                            .offset_ns = between(w, 0, 3600 * NS_PER_S)};
    struct election_config config = {.incarnation = s->incarnation,
                                     .registry = w->registry,
                                     .seniority = i,
                                     .peers = w->schedulers,
                                     .trusts = w->trusts};
    election_init(&s->e, &config, local_ns(s, w->now_ns));
    link_tell(w, i, true);
    for (uint32_t p = 0; p < w->schedulers; p++)
        if (p != i && w->s[p].alive && !w->cut[p][i])
            step(w, i, (struct election_event){.kind = ELECTION_LINK, .peer = p, .up = true});
    for (uint32_t m = 0; m < w->members; m++) {
        const struct fence *f = &w->fences[m];
        if (f->term)
            post_event(
                w, w->schedulers + m, i,
                (struct election_event){
                    .kind = ELECTION_TOLD, .term = f->term, .peer = f->seniority, .incarnation = f->incarnation});
    }
    step(w, i, (struct election_event){.kind = ELECTION_TIMER});
}

static void led(struct world *w, uint32_t i) {
    uint64_t term = election_term(&w->s[i].e);
    w->terms = term > w->terms ? term : w->terms;
    if (term >= TERMS_MAX) {
        w->wrong = "too many terms";
        return;
    }
    if (w->registry && !w->forgets && w->winner[term] && w->winner[term] != w->s[i].incarnation)
        w->wrong = "two have led one term";
    w->winner[term] = w->s[i].incarnation;
}

static void step(struct world *w, uint32_t i, struct election_event event) {
    struct scheduler *s = &w->s[i];
    struct election_actions out;
    bool leads = election_leads(&s->e);
    uint64_t term = election_term(&s->e);
    election_step(&s->e, local_ns(s, w->now_ns), &event, &out);
    if (election_term(&s->e) < term)
        w->wrong = "a scheduler's term went back";
    if (out.change == ELECTION_LEAD)
        led(w, i);
    else if (election_leads(&s->e) != (leads && out.change != ELECTION_STAND_DOWN))
        w->wrong = "a change that was not said";
    for (uint32_t p = 0; out.heartbeat && p < w->schedulers; p++)
        if (p != i && w->s[p].alive)
            post_event(w, i, p,
                       (struct election_event){.kind = ELECTION_HEARD,
                                               .peer = i,
                                               .incarnation = s->incarnation,
                                               .term = election_term(&s->e),
                                               .leads = election_leads(&s->e)});
    if (out.ask) {
        if (s->asked)
            w->wrong = "two questions at once";
        s->asked = true;
        struct happening h = {.from = i,
                              .to = i,
                              .life = s->incarnation,
                              .number = ++s->question,
                              .ask = out.ask,
                              .revision = out.swap_revision,
                              .term = out.swap_term};
        h.kind = REQUEST;
        post(w, i, registry_node(w), h);
        h.kind = TIMEOUT;
        h.at_ns = w->now_ns + CLIENT_WAIT_NS;
        add(w, h);
    }
    double wait = (double)(out.wake_ns - local_ns(s, w->now_ns)) / s->rate;
    add(w, (struct happening){.kind = TIMER,
                              .at_ns = w->now_ns + (int64_t)wait + 1,
                              .to = i,
                              .life = s->incarnation,
                              .number = ++s->timer});
}

/* ---- the registry ---- */

static void key_watch(struct world *w) {
    for (uint32_t i = 0; i < w->schedulers; i++)
        if (w->s[i].alive && !w->registry_down)
            post_event(w, registry_node(w), i, (struct election_event){.kind = ELECTION_KEY_CHANGED, .key = w->key});
}

static void registry_serve(struct world *w, const struct happening *h) {
    if (w->registry_down)
        return;
    bool swapped = h->ask == ELECTION_SWAP && h->revision == (w->key.exists ? w->key.revision : 0);
    w->key.revision = w->key.exists ? w->key.revision : w->store_revision;
    if (swapped)
        w->key = (struct election_key){true, ++w->store_revision, h->term, h->life};
    post(w, registry_node(w), h->from,
         (struct happening){.kind = EVENT,
                            .to = h->from,
                            .life = h->life,
                            .number = h->number,
                            .event = {.kind = ELECTION_KEY_ANSWER, .key = w->key}});
    if (swapped)
        key_watch(w);
}

/* ---- members ---- */

static void grants_send(struct world *w) {
    for (uint32_t i = 0; i < w->schedulers; i++)
        for (uint32_t m = 0; m < w->members; m++)
            if (w->s[i].alive && !w->s[i].stopped && election_leads(&w->s[i].e))
                post(w, i, w->schedulers + m,
                     (struct happening){.kind = GRANT,
                                        .from = i,
                                        .to = m,
                                        .life = w->s[i].incarnation,
                                        .term = election_term(&w->s[i].e)});
    add(w, (struct happening){.kind = TICK, .at_ns = w->now_ns + GRANT_NS});
}

/* Whether to obey a message of that leader. If not, tell it the contents of the fence, for ELECTION_TOLD. With a
 * registry the seniority is 0 for all. */
static bool fence_admit(struct fence *fence, uint64_t term, uint32_t seniority, uint64_t incarnation) {
    bool higher = term > fence->term || (term == fence->term && seniority < fence->seniority);
    if (higher && term <= ELECTION_TERM_MAX)
        *fence = (struct fence){term, incarnation, seniority};
    return term == fence->term && seniority == fence->seniority && incarnation == fence->incarnation;
}

static void grant_take(struct world *w, const struct happening *h) {
    struct fence *f = &w->fences[h->to], *o = &w->obeyed[h->to];
    uint32_t seniority = w->registry ? 0 : h->from;
    if (!fence_admit(f, h->term, seniority, h->life)) {
        if (w->s[h->from].alive && w->s[h->from].incarnation == h->life)
            post_event(
                w, w->schedulers + h->to, h->from,
                (struct election_event){
                    .kind = ELECTION_TOLD, .term = f->term, .peer = f->seniority, .incarnation = f->incarnation});
        return;
    }
    if (h->term < o->term || (h->term == o->term && seniority > o->seniority))
        w->wrong = "a member obeyed a lower term after a higher";
    if (h->term == o->term && seniority == o->seniority && h->life != o->incarnation)
        w->wrong = "a member obeyed two leaders of one term and seniority";
    *o = (struct fence){h->term, h->life, seniority};
    w->obeyed_ns[h->to] = w->now_ns;
}

/* ---- faults ---- */

static void kill_one(struct world *w, uint32_t i) {
    w->s[i].alive = w->s[i].stopped = false;
    link_tell(w, i, false);
}

/* What came for a stopped process is read when it goes on; its timer before or after. */
static void resume(struct world *w, uint32_t i) {
    if (!w->s[i].alive || !w->s[i].stopped)
        return;
    w->s[i].stopped = false;
    uint32_t kept = 0;
    for (uint32_t n = 0; n < w->parked_count; n++) {
        struct happening h = w->parked[n];
        h.at_ns = w->now_ns;
        if (h.to == i)
            add(w, h);
        else
            w->parked[kept++] = w->parked[n];
    }
    w->parked_count = kept;
    if (chance(w, 0.5))
        step(w, i, (struct election_event){.kind = ELECTION_TIMER});
}

static void cut_for(struct world *w, uint32_t a, uint32_t b, int64_t ns) {
    w->cut[a][b]++;
    add(w, (struct happening){.kind = UNCUT, .from = a, .to = b, .at_ns = w->now_ns + ns});
}

static void fault(struct world *w) {
    uint32_t i = (uint32_t)rng_below(&w->rng, w->schedulers);
    uint32_t nodes = registry_node(w) + 1, a = (uint32_t)rng_below(&w->rng, nodes), b;
    int64_t ns = between(w, NS_PER_MS, 2 * NS_PER_S);
    for (uint32_t s = 0; s < w->schedulers; s++) /* mostly who leads */
        if (w->s[s].alive && election_leads(&w->s[s].e) && chance(w, 0.5))
            i = s;
    switch (rng_below(&w->rng, 6)) {
    case 0:
        if (w->s[i].alive) {
            kill_one(w, i);
            add(w, (struct happening){.kind = RESTART, .to = i, .at_ns = w->now_ns + ns});
        }
        break;
    case 1:
        w->s[i].stopped = w->s[i].alive;
        add(w, (struct happening){.kind = RESUME, .to = i, .life = w->s[i].incarnation, .at_ns = w->now_ns + ns});
        break;
    case 2: /* two of them, one way or both */
        a = chance(w, 0.5) ? i : a;
        b = (uint32_t)rng_below(&w->rng, nodes);
        cut_for(w, a, b, ns);
        if (chance(w, 0.5))
            cut_for(w, b, a, ns);
        break;
    case 3: /* one from all others */
        a = chance(w, 0.5) ? i : a;
        for (b = 0; b < nodes; b++) {
            cut_for(w, a, b, ns);
            cut_for(w, b, a, ns);
        }
        break;
    case 4:
        w->registry_down++;
        add(w, (struct happening){.kind = REGISTRY_UP, .at_ns = w->now_ns + ns});
        break;
    case 5: /* the schedulers from each other */
        for (a = 0; a < w->schedulers; a++)
            for (b = 0; b < w->schedulers; b++)
                cut_for(w, a, b, ns);
        break;
    }
}

static void heal(struct world *w) {
    w->chaos = false;
    memset(w->cut, 0, sizeof(w->cut));
    w->registry_down = 0;
    for (uint32_t i = 0; i < w->schedulers; i++)
        if (w->s[i].alive)
            resume(w, i);
        else
            scheduler_start(w, i);
    for (uint32_t i = 0; i < w->schedulers; i++)
        link_tell(w, i, true);
    key_watch(w);
}

/* ---- time ---- */

static void happen(struct world *w, struct happening *h) {
    struct scheduler *s = &w->s[h->kind == TIMER || h->kind == EVENT || h->kind == TIMEOUT ? h->to : 0];
    if (h->kind == TIMER || h->kind == EVENT || h->kind == TIMEOUT) {
        if (!s->alive || s->incarnation != h->life)
            return;
        if (s->stopped) {
            if (w->parked_count == EVENTS_MAX)
                abort();
            w->parked[w->parked_count++] = *h;
            return;
        }
    }
    switch (h->kind) {
    case TIMER:
        if (h->number == s->timer)
            step(w, h->to, (struct election_event){.kind = ELECTION_TIMER});
        break;
    case EVENT:
        if (h->event.kind == ELECTION_KEY_ANSWER) {
            if (!s->asked || h->number != s->question) /* the client has given up */
                return;
            s->asked = false;
        }
        step(w, h->to, h->event);
        break;
    case TIMEOUT:
        if (!s->asked || h->number != s->question)
            return;
        s->asked = false;
        step(w, h->to, (struct election_event){.kind = ELECTION_REGISTRY_FAILED});
        break;
    case REQUEST:
        registry_serve(w, h);
        break;
    case GRANT:
        grant_take(w, h);
        break;
    case TICK:
        grants_send(w);
        break;
    case FAULT:
        if (w->chaos)
            fault(w);
        break;
    case UNCUT:
        if (w->cut[h->from][h->to] && --w->cut[h->from][h->to] == 0 && h->from == registry_node(w))
            key_watch(w);
        break;
    case RESUME:
        if (w->chaos && w->s[h->to].incarnation == h->life)
            resume(w, h->to);
        break;
    case RESTART:
        if (w->chaos && !w->s[h->to].alive)
            scheduler_start(w, h->to);
        break;
    case REGISTRY_UP:
        if (w->registry_down && --w->registry_down == 0) {
            if (w->forgets)
                w->key = (struct election_key){.revision = w->store_revision = 1};
            key_watch(w);
        }
        break;
    }
}

static void run_until(struct world *w, int64_t until_ns) {
    while (!w->wrong && w->count && w->heap[0].at_ns <= until_ns) {
        struct happening h = take(w);
        w->now_ns = h.at_ns;
        happen(w, &h);
    }
    w->now_ns = until_ns;
}

/* Who leads, if everybody who is alive and linked agrees; else SCHEDULERS_MAX. */
static uint32_t agreed(const struct world *w) {
    uint32_t leader = SCHEDULERS_MAX;
    for (uint32_t i = 0; i < w->schedulers; i++)
        if (w->s[i].alive && !w->s[i].stopped && !w->cut[i][i] && election_leads(&w->s[i].e)) {
            if (leader != SCHEDULERS_MAX)
                return SCHEDULERS_MAX;
            leader = i;
        }
    for (uint32_t i = 0; leader != SCHEDULERS_MAX && i < w->schedulers; i++)
        if (w->s[i].alive && !w->s[i].stopped && !w->cut[i][i] &&
            election_leader(&w->s[i].e) != w->s[leader].incarnation)
            return SCHEDULERS_MAX;
    for (uint32_t m = 0; leader != SCHEDULERS_MAX && m < w->members; m++)
        if (w->obeyed[m].incarnation != w->s[leader].incarnation || w->obeyed_ns[m] < w->now_ns - 2 * GRANT_NS)
            return SCHEDULERS_MAX;
    return leader;
}

/* The leader dies in one of three ways; another must lead in time. */
static void leader_lose(struct world *w, uint32_t leader, uint32_t way) {
    int64_t at_ns = w->now_ns, limit_ns = way == 0 ? KILL_LIMIT_NS : QUIET_LIMIT_NS;
    uint32_t nodes = registry_node(w) + 1, next = SCHEDULERS_MAX;
    if (way == 0)
        kill_one(w, leader);
    else if (way == 1)
        w->s[leader].stopped = true;
    for (uint32_t n = 0; way == 2 && n < nodes; n++)
        w->cut[leader][n] = w->cut[n][leader] = 1;
    while (!w->wrong && next == SCHEDULERS_MAX && w->now_ns < at_ns + limit_ns) {
        run_until(w, w->now_ns + NS_PER_MS);
        for (uint32_t i = 0; i < w->schedulers; i++)
            if (i != leader && election_leads(&w->s[i].e))
                next = i;
    }
    if (!w->wrong && next == SCHEDULERS_MAX)
        w->wrong = way == 0 ? "no leader 500 ms after a kill" : "no leader 1.5 s after silence";
    heal(w);
    run_until(w, w->now_ns + NS_PER_S);
    uint32_t now = agreed(w);
    if (!w->wrong && (w->forgets ? now == SCHEDULERS_MAX : now != next)) /* one that forgot may elect once more */
        w->wrong = "the old leader, back again, was not fenced";
}

static const char *history(struct world *w, uint64_t seed) {
    memset(w, 0, offsetof(struct world, heap));
    w->count = w->parked_count = 0;
    w->wrong = NULL;
    rng_seed(&w->rng, seed);
    w->registry = chance(w, 0.7);
    w->forgets = w->registry && chance(w, 0.1);
    w->trusts = chance(w, 0.5);
    w->schedulers = 2 + (uint32_t)rng_below(&w->rng, SCHEDULERS_MAX - 1);
    w->members = 1 + (uint32_t)rng_below(&w->rng, MEMBERS_MAX);
    w->chaos = true;
    w->store_revision = 1;
    for (uint32_t i = 0; i < w->schedulers; i++)
        if (chance(w, 0.8))
            scheduler_start(w, i);
    add(w, (struct happening){.kind = TICK});
    for (uint64_t n = rng_below(&w->rng, 16); n; n--)
        add(w, (struct happening){.kind = FAULT, .at_ns = between(w, 0, CHAOS_NS)});
    run_until(w, CHAOS_NS);
    heal(w);
    run_until(w, w->now_ns + HEAL_NS);
    uint32_t leader = agreed(w);
    if (!w->wrong && leader == SCHEDULERS_MAX)
        w->wrong = "no leader that all follow, two seconds after the last fault";
    if (!w->wrong)
        leader_lose(w, leader, (uint32_t)rng_below(&w->rng, 3));
    return w->wrong;
}

/* A minute in which the schedulers do not hear each other, with a registry, or with members that are not believed. */
static const char *long_partition(struct world *w, bool registry) {
    memset(w, 0, offsetof(struct world, heap));
    w->count = w->parked_count = 0;
    w->wrong = NULL;
    rng_seed(&w->rng, 1);
    w->registry = registry;
    w->schedulers = w->members = 2;
    w->store_revision = 1;
    w->cut[0][1] = w->cut[1][0] = 1;
    scheduler_start(w, 0);
    scheduler_start(w, 1);
    add(w, (struct happening){.kind = TICK});
    run_until(w, 60 * NS_PER_S);
    if (!w->wrong && w->terms > 20)
        w->wrong = "schedulers that do not hear each other depose each other without end";
    heal(w);
    run_until(w, w->now_ns + HEAL_NS);
    if (!w->wrong && agreed(w) == SCHEDULERS_MAX)
        w->wrong = "no leader after a partition";
    return w->wrong;
}

int main(void) {
    uint64_t runs = histories_count(RUNS), seed = histories_first();
    struct world *w = calloc(1, sizeof(*w));
    if (!w)
        abort();
    const char *wrong;
    uint64_t terms = 0, failed = 0;
    for (int registry = 0; registry < 2; registry++) {
        wrong = long_partition(w, registry);
        failed += wrong != NULL;
        printf("a minute's partition: %" PRIu64 " terms%s%s\n", w->terms, wrong ? ": " : "", wrong ? wrong : "");
    }
    for (uint64_t i = 0; i < runs; i++) {
        wrong = history(w, seed + i);
        terms += w->terms;
        if (wrong && failed++ < 10)
            printf("seed %" PRIu64 ": %s (%" PRIu32 " schedulers, %s, %s)\n", seed + i, wrong, w->schedulers,
                   w->forgets    ? "a registry that forgets"
                   : w->registry ? "a registry"
                                 : "seniority",
                   w->trusts ? "members are believed" : "members are not believed");
    }
    printf("%" PRIu64 " histories, %" PRIu64 " terms, %" PRIu64 " failed\n", runs, terms, failed);
    free(w);
    return failed != 0;
}
