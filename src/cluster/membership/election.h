/* election.h - decides which of several schedulers leads. A pure state machine.
 *
 * Terms are numbered. The scheduler that leads a term may grant; a higher term ends all lower ones. Schedulers send
 * each other a heartbeat every 50 ms: the highest term they have heard of, and whether they lead it. There are two ways
 * to win:
 *
 *   registry   One key holds {term, incarnation}. It changes only by compare-and-swap on its revision, so a term is won
 *              once. Its leases are not used, since they last at least 2 s. A dead leader is noticed by its heartbeats:
 *
 *                       reads the key            the leader is silent: writes {term + 1, itself}
 *                start ---------------> standby ---------------------------------------------> leads
 *                                          ^  the key names another, or a higher term is heard   |
 *                                          '-----------------------------------------------------'
 *
 *              While the registry is down no scheduler is elected, and the leader goes on.
 *   seniority  Without a registry, schedulers are senior by their place in a list that all know. The most senior one
 * that is alive leads when it has heard no leader for the time of silence (below); its term is one more than any term
 * that it was told of. A leader is not deposed by a more senior one that comes back. In a partition both sides may
 * lead, even in the same term: members obey the highest term, and of one term the most senior.
 *
 * A scheduler is silent 300 ms after its last heartbeat, or 150 ms (three heartbeats) if its link is down as well. A
 * process that was stopped waits another 300 ms when it goes on, since it has not read what is in its sockets.
 *
 * Two schedulers that do not hear each other, but both reach the registry (or a common member), depose each other. A
 * deposed scheduler waits twice as long as before, up to 9.6 s, and 300 ms again once it has heard a leader or, without
 * a registry, all others of the list.
 *
 * A leader that is to end resigns: it says so in its heartbeats, and leads on until another one leads the next term,
 * which need not wait for silence then.
 *
 * A registry that has lost its data has also lost the terms. The leader then writes its term back. A new term is always
 * higher than all terms that its winner has heard of, and a leader that hears of a higher term from a member stands
 * down. So such a cluster comes to one leader again; but a term might be won twice after the registry has lost its
 * data.
 *
 * Reads no clock and allocates nothing. One thread. Times are of one monotonic clock of this process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/peer/own_pause.h"
#include "core/util/time.h"

#define ELECTION_PEERS_MAX    8
#define ELECTION_HEARTBEAT_NS (50 * NS_PER_MS)
#define ELECTION_DOWN_NS      (3 * ELECTION_HEARTBEAT_NS) /* time of silence, if the link is down as well */
#define ELECTION_SILENCE_NS   (300 * NS_PER_MS)           /* time of silence */
#define ELECTION_APART_NS     (3 * ELECTION_HEARTBEAT_NS) /* pause between steps: the process was stopped */
#define ELECTION_RETRY_NS     (100 * NS_PER_MS) /* time until the next question after the registry has failed */
#define ELECTION_CHECK_NS     NS_PER_S /* time between two reads of the key by a leader, in case its watch is broken */
#define ELECTION_DOUBLINGS    5        /* most doublings of the time of silence */
#define ELECTION_TERM_MAX     (UINT64_MAX / 2)    /* higher terms are taken for errors and ignored */
#define ELECTION_NEAR         ((uint64_t)1 << 20) /* without `trusts`, terms further ahead than this are ignored */

struct election_config {
    uint64_t incarnation; /* incarnation of this process: random, not 0 */
    bool registry;        /* there is a registry; else seniority decides */
    uint32_t seniority;   /* our place in the list, 0 the most senior; not used with a registry */
    uint32_t peers;       /* length of the list, ourselves included; with a registry: most links */
    bool trusts;          /* members have shown a token or a certificate: a term that one tells is believed */
};

/* The registry's key. */
struct election_key {
    bool exists;
    int64_t revision; /* revision of the key's last change; of a missing key: the registry's when it was read */
    uint64_t term, incarnation;
};

enum election_event_kind {
    ELECTION_TIMER, /* time has passed; also used once at the start */
    ELECTION_HEARD, /* a heartbeat from a scheduler; with peer, incarnation, term, leads */
    ELECTION_LINK,  /* the link to a scheduler came up, went down or could not be made; with peer, up */
    ELECTION_TOLD,  /* a member refuses a lower term, or names at joining the leader that it last obeyed; with that
                       leader's term, incarnation (0: not known) and, without a registry, seniority in `peer`. With a
                       registry, and without an incarnation, it deposes nobody: a leader asks the registry for a term
                       beyond that, and goes on if it gets it. With neither registry nor `trusts` it deposes nobody:
                       a leader goes on in a term beyond that, if it is near, after the time of silence without a
                       heartbeat of who leads it; others ignore it */
    ELECTION_KEY_CHANGED,     /* the watch reports the key; with key */
    ELECTION_KEY_ANSWER,      /* answer to a read or a swap; with the present key, whether or not a swap succeeded */
    ELECTION_RESIGN,          /* this scheduler is to end: it does not lead again */
    ELECTION_REGISTRY_FAILED, /* no answer to a read or a swap; the swap may still take effect */
};

struct election_event {
    enum election_event_kind kind;
    uint32_t peer; /* seniority of the scheduler; with a registry: number of the link */
    bool up, leads;
    bool resigns; /* HEARD: the sender leads, and another one is to take over */
    uint64_t term, incarnation;
    struct election_key key;
};

enum election_change {
    ELECTION_SAME,
    ELECTION_LEAD,       /* this scheduler leads election_term() from now on */
    ELECTION_STAND_DOWN, /* this scheduler leads no more, and grants nothing from now on */
};

enum election_ask { ELECTION_ASK_NOTHING, ELECTION_READ, ELECTION_SWAP };

/* The actions to be done, in this order. */
struct election_actions {
    enum election_change change;
    bool heartbeat;        /* send a heartbeat to every scheduler, with election_term() and election_leads() */
    enum election_ask ask; /* question to the registry; exactly one answer or failure must come back */
    int64_t swap_revision; /* revision that the key must have for the swap; 0: there must be no key */
    uint64_t swap_term;    /* term to be written, with our incarnation */
    int64_t wake_ns;       /* latest time of the next step */
};

struct election {
    struct election_config config;
    bool leads;         /* this scheduler leads `term` */
    bool resigns;       /* this scheduler is to end: once it leads no more, it does not lead again */
    uint64_t term;      /* highest term heard of */
    uint64_t term_led;  /* highest term that this scheduler has led */
    uint64_t told;      /* with a registry: highest term of which members told the leader */
    uint64_t beyond;    /* with neither registry nor `trusts`: a term beyond all that members told the leader */
    int64_t beyond_ns;  /* time at which that was first over `term` */
    uint64_t leader;    /* incarnation of the leader of `term`; 0: not known */
    uint32_t leader_at; /* seniority or link of that leader; ELECTION_PEERS_MAX: not known */
    bool leader_heard;  /* that leader has sent a heartbeat as leader */
    int64_t leader_ns;  /* time of that leader's last heartbeat, or at which it became known as leader */
    uint32_t unheard;   /* times that this scheduler was deposed, or told of a term beyond its own, since it last
                         * heard a leader, or all others */
    struct own_pause pause;
    struct {
        uint64_t incarnation; /* 0: never heard */
        int64_t heard_ns;     /* time of the last heartbeat; at first, of the start */
        bool up;              /* the link is up */
    } peers[ELECTION_PEERS_MAX];
    /* the registry */
    bool asked, key_known;      /* a question is under way; the key was read */
    struct election_key key;    /* the key, as last seen */
    int64_t asked_revision;     /* key.revision at the time of the last question */
    int64_t retry_ns, check_ns; /* time before which nothing is asked; time of the leader's next read of the key */
    int64_t beat_ns;            /* time of the next heartbeat */
};

/* At most ELECTION_PEERS_MAX peers. Then call election_step() with ELECTION_TIMER. */
void election_init(struct election *election, const struct election_config *config, int64_t now_ns);
/* `now_ns` never decreases. */
void election_step(struct election *election, int64_t now_ns, const struct election_event *event,
                   struct election_actions *actions);

static inline bool election_leads(const struct election *election) {
    return election->leads;
}

static inline bool election_resigns(const struct election *election) {
    return election->resigns;
}

static inline uint64_t election_term(const struct election *election) {
    return election->term;
}

/* The incarnation of that term's leader; 0: not known. */
static inline uint64_t election_leader(const struct election *election) {
    return election->leader;
}
