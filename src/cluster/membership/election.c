/* election.c - decides which scheduler leads. */
#include "cluster/membership/election.h"

#include "core/util/assert.h"

static uint64_t later_term(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* ---- silence ---- */

/* The link to the scheduler of that incarnation; ELECTION_PEERS_MAX: none. */
static uint32_t peer_find(const struct election *e, uint64_t incarnation) {
    for (uint32_t p = 0; p < e->config.peers; p++)
        if (incarnation && e->peers[p].incarnation == incarnation)
            return p;
    return ELECTION_PEERS_MAX;
}

/* The time from which a standby waits no longer for its leader. */
static int64_t leader_dead_ns(const struct election *e) {
    bool linked = e->leader && e->leader_at < ELECTION_PEERS_MAX;
    bool down = linked && !(e->peers[e->leader_at].up && e->peers[e->leader_at].incarnation == e->leader);
    int64_t silence_ns = down ? ELECTION_DOWN_NS : ELECTION_SILENCE_NS;
    return time_later(e->leader_ns + (e->leader_heard ? silence_ns : silence_ns << e->unheard), e->pause.judge_ns);
}

/* ---- changes ---- */

static void follow(struct election *e, int64_t now_ns, uint64_t leader, uint32_t at) {
    e->leader = leader;
    e->leader_at = at;
    e->leader_heard = false;
    e->leader_ns = now_ns;
}

static void lead(struct election *e, int64_t now_ns, uint64_t term, struct election_actions *out) {
    e->leads = true;
    e->term = e->term_led = term;
    follow(e, now_ns, e->config.incarnation, ELECTION_PEERS_MAX);
    e->beat_ns = now_ns;
    e->check_ns = now_ns + ELECTION_CHECK_NS;
    out->change = ELECTION_LEAD;
}

static void stand_down(struct election *e, int64_t now_ns, struct election_actions *out) {
    e->leads = false;
    follow(e, now_ns, 0, ELECTION_PEERS_MAX);
    e->unheard += e->unheard < ELECTION_DOUBLINGS;
    e->beat_ns = now_ns;
    out->change = ELECTION_STAND_DOWN;
}

/* Takes note of a term, whichever scheduler leads it. */
static void term_hear(struct election *e, int64_t now_ns, uint64_t term, struct election_actions *out) {
    if (term <= e->term)
        return;
    e->term = term;
    if (e->leads)
        stand_down(e, now_ns, out);
    else
        follow(e, now_ns, 0, ELECTION_PEERS_MAX);
}

/* ---- events ---- */

static void heard(struct election *e, int64_t now_ns, const struct election_event *event,
                  struct election_actions *out) {
    CHECK_LT(event->peer, e->config.peers);
    e->peers[event->peer].incarnation = event->incarnation;
    e->peers[event->peer].heard_ns = now_ns;
    e->peers[event->peer].up = true;
    bool all = !e->config.registry; /* the list's others are all heard: a leader would be, too */
    for (uint32_t p = 0; p < e->config.peers; p++)
        all = all && (p == e->config.seniority || now_ns - e->peers[p].heard_ns <= ELECTION_SILENCE_NS);
    if (all)
        e->unheard = 0;
    if (e->leader == event->incarnation)
        e->leader_at = event->peer;
    if (event->term > ELECTION_TERM_MAX)
        return;
    term_hear(e, now_ns, event->term, out);
    if (!event->leads || event->term < e->term)
        return;
    /* The sender leads the highest term. Without a registry another scheduler may lead the same term: then the better
     * seniority keeps it. */
    uint32_t seniority = e->leads ? e->config.seniority : e->leader ? e->leader_at : ELECTION_PEERS_MAX;
    if (e->leads && (e->config.registry || seniority < event->peer))
        return; /* the registry's key, or the next heartbeat, will correct one of the two */
    if (!e->config.registry && e->leader != event->incarnation && seniority < event->peer)
        return;
    if (e->leads)
        stand_down(e, now_ns, out);
    follow(e, now_ns, event->incarnation, event->peer);
    e->leader_heard = true;
    e->unheard = 0;
    if (event->resigns) /* as if it had been silent for long */
        e->leader_ns = e->peers[event->peer].heard_ns = now_ns - ELECTION_SILENCE_NS;
}

static void told(struct election *e, int64_t now_ns, const struct election_event *event, struct election_actions *out) {
    if (event->term > ELECTION_TERM_MAX)
        return;
    bool other = event->incarnation && event->incarnation != e->config.incarnation;
    if (!e->config.trusts && !e->config.registry) {
        uint64_t beyond = event->term + 1;
        if (!e->leads || beyond <= e->term + !other || beyond - e->term > ELECTION_NEAR || beyond > ELECTION_TERM_MAX)
            return;
        if (e->beyond <= e->term)
            e->beyond_ns = now_ns;
        e->beyond = later_term(e->beyond, beyond);
        return;
    }
    if (e->leads && e->config.registry && !event->incarnation)
        e->told = later_term(e->told, event->term); /* the registry decides: it is asked for a term beyond that */
    else if (!e->leads || !other || event->term < e->term)
        term_hear(e, now_ns, event->term, out);
    else if (!e->config.registry && event->peer == e->config.seniority && event->term < ELECTION_TERM_MAX)
        lead(e, now_ns, event->term + 1, out); /* an earlier incarnation of this process led the term, and no scheduler
                                                * leads it now */
    else if (event->term > e->term || e->config.registry || event->peer < e->config.seniority) {
        /* The same term, with a registry: the registry has lost the other leader, but the member remembers it. */
        stand_down(e, now_ns, out);
        e->term = event->term;
    }
}

/* Whether a received key is newer than the known one. A watch and an answer may overtake each other. But if the answer
 * to a later question shows an older revision, the registry has lost its data and started again. */
static bool key_is_news(const struct election *e, const struct election_event *event) {
    if (!e->key_known || event->key.revision >= e->key.revision)
        return true;
    return event->kind == ELECTION_KEY_ANSWER && event->key.revision < e->asked_revision;
}

static void key_seen(struct election *e, int64_t now_ns, const struct election_event *event,
                     struct election_actions *out) {
    if (!key_is_news(e, event) || event->key.term > ELECTION_TERM_MAX)
        return;
    e->key = event->key;
    e->key_known = true;
    if (!e->key.exists)
        return;
    if (e->key.incarnation == e->config.incarnation) {
        /* our own key: leads, unless this term was given up, or a higher one is known; or goes on in a higher term */
        if ((!e->leads || e->key.term > e->term) && e->key.term > e->term_led && e->key.term >= e->term)
            lead(e, now_ns, e->key.term, out);
        return;
    }
    if (e->leads)
        stand_down(e, now_ns, out);
    term_hear(e, now_ns, e->key.term, out);
    if (e->key.term == e->term && e->leader != e->key.incarnation)
        follow(e, now_ns, e->key.incarnation, peer_find(e, e->key.incarnation));
}

/* ---- what is due ---- */

static void ask(struct election *e, enum election_ask what, uint64_t term, struct election_actions *out) {
    e->asked = true;
    e->asked_revision = e->key_known ? e->key.revision : 0;
    out->ask = what;
    out->swap_revision = e->key_known && e->key.exists ? e->key.revision : 0;
    out->swap_term = term;
}

static uint64_t term_next(const struct election *e) {
    uint64_t known = e->key_known && e->key.exists && e->key.term > e->term ? e->key.term : e->term;
    return known < ELECTION_TERM_MAX ? known + 1 : known;
}

/* Asks the registry if that is due. Returns when it will be. */
static int64_t registry_ask(struct election *e, int64_t now_ns, struct election_actions *out) {
    int64_t due_ns = e->check_ns;
    bool missing = e->key_known && !e->key.exists;
    if (!e->leads)
        due_ns = !e->key_known || (missing && e->term == 0) ? now_ns : leader_dead_ns(e);
    else if (missing || (e->key_known && e->told > e->term))
        due_ns = now_ns;
    due_ns = time_later(due_ns, e->retry_ns);
    if (e->asked || (e->resigns && !e->leads))
        return TIME_NEVER;
    if (now_ns < due_ns)
        return due_ns;
    if (e->key_known && e->leads && e->told > e->term)
        ask(e, ELECTION_SWAP, e->told < ELECTION_TERM_MAX ? e->told + 1 : e->told, out);
    else if (!e->key_known || (e->leads && !missing))
        ask(e, ELECTION_READ, 0, out);
    else
        ask(e, ELECTION_SWAP, e->leads ? e->term : term_next(e), out);
    e->check_ns = now_ns + ELECTION_CHECK_NS;
    return TIME_NEVER;
}

/* Leads if neither a leader nor a more senior scheduler is alive; a leader that was told of a higher term, and hears
 * nobody lead it, goes on beyond that. Returns when either is due. */
static int64_t senior_lead(struct election *e, int64_t now_ns, struct election_actions *out) {
    if (e->leads && !e->resigns && e->beyond > e->term) {
        int64_t beyond_ns = e->beyond_ns + (ELECTION_SILENCE_NS << e->unheard);
        if (now_ns < beyond_ns)
            return beyond_ns;
        e->unheard += e->unheard < ELECTION_DOUBLINGS;
        lead(e, now_ns, e->beyond, out);
    }
    int64_t due_ns = e->config.peers == 1 && e->term_led == 0 ? now_ns : leader_dead_ns(e);
    for (uint32_t p = 0; p < e->config.seniority; p++)
        if (e->peers[p].incarnation)
            due_ns =
                time_later(due_ns, e->peers[p].heard_ns + (e->peers[p].up ? ELECTION_SILENCE_NS : ELECTION_DOWN_NS));
    if (e->leads || e->resigns)
        return TIME_NEVER;
    if (now_ns < due_ns)
        return due_ns;
    lead(e, now_ns, term_next(e), out);
    return TIME_NEVER;
}

void election_init(struct election *e, const struct election_config *config, int64_t now_ns) {
    CHECK_LE(config->peers, ELECTION_PEERS_MAX);
    CHECK(config->incarnation != 0);
    *e = (struct election){.config = *config,
                           .leader_at = ELECTION_PEERS_MAX,
                           .leader_ns = now_ns,
                           .pause = {.looked_ns = now_ns},
                           .beat_ns = now_ns};
    for (uint32_t p = 0; p < config->peers; p++)
        e->peers[p].heard_ns = now_ns;
}

void election_step(struct election *e, int64_t now_ns, const struct election_event *event,
                   struct election_actions *out) {
    *out = (struct election_actions){0};
    if (own_pause_look(&e->pause, now_ns, ELECTION_APART_NS, ELECTION_SILENCE_NS))
        e->check_ns = now_ns; /* the others may have elected a new leader meanwhile */
    switch (event->kind) {
    case ELECTION_TIMER:
        break;
    case ELECTION_HEARD:
        heard(e, now_ns, event, out);
        break;
    case ELECTION_LINK:
        CHECK_LT(event->peer, e->config.peers);
        e->peers[event->peer].up = event->up;
        break;
    case ELECTION_TOLD:
        told(e, now_ns, event, out);
        break;
    case ELECTION_KEY_ANSWER:
        e->asked = false;
        key_seen(e, now_ns, event, out);
        break;
    case ELECTION_KEY_CHANGED:
        key_seen(e, now_ns, event, out);
        break;
    case ELECTION_RESIGN:
        e->resigns = true;
        e->beat_ns = now_ns;
        break;
    case ELECTION_REGISTRY_FAILED:
        e->asked = false;
        e->retry_ns = now_ns + ELECTION_RETRY_NS;
        break;
    }
    int64_t due_ns = e->config.registry ? registry_ask(e, now_ns, out) : senior_lead(e, now_ns, out);
    if (now_ns >= e->beat_ns) {
        out->heartbeat = true;
        e->beat_ns = now_ns + ELECTION_HEARTBEAT_NS;
    }
    out->wake_ns = time_earlier(due_ns, e->beat_ns);
}
