/* election.h - decides which of several schedulers leads, and which one members obey. A pure state machine.
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
 *   ranks      Without a registry, schedulers are ranked by their place in a list that all know. The best one that is
 *              alive leads when it has heard no leader for the time of silence (below); its term is one more than any
 *              that it was told of. A leader is not deposed by a better rank that comes back. In a partition both sides
 *              may lead, even in the same term: members obey the highest term, and of one term the best rank.
 *
 * A scheduler is silent 300 ms after its last heartbeat, or 150 ms (three heartbeats) if its link is down as well. A
 * process that was stopped waits another 300 ms when it goes on, since it has not read what is in its sockets.
 *
 * Two schedulers that do not hear each other, but both reach the registry (or a common member), depose each other. Each
 * then waits twice as long as before, up to 9.6 s, and 300 ms again once it has heard a leader.
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
#define ELECTION_DOWN_NS      (3 * ELECTION_HEARTBEAT_NS) /* of silence, if the link is down as well */
#define ELECTION_SILENCE_NS   (300 * NS_PER_MS)
#define ELECTION_APART_NS     (3 * ELECTION_HEARTBEAT_NS) /* steps that are further apart: the process was stopped */
#define ELECTION_RETRY_NS     (100 * NS_PER_MS)           /* after the registry has failed */
#define ELECTION_CHECK_NS     NS_PER_S         /* a leader reads the key this often, in case its watch is broken */
#define ELECTION_DOUBLINGS    5                /* of the silence, at most */
#define ELECTION_TERM_MAX     (UINT64_MAX / 2) /* higher terms are taken for errors and ignored */

struct election_config {
    uint64_t incarnation; /* of this process: random, not 0 */
    bool registry;        /* else by ranks */
    uint32_t rank;        /* ours in the list; with a registry it is not used */
    uint32_t peers;       /* by ranks: the list's length, ourselves included; with a registry: links there may be */
};

/* The registry's key. */
struct election_key {
    bool exists;
    int64_t revision; /* of its last change; if it does not exist, of the registry when that was seen */
    uint64_t term, incarnation;
};

enum election_event_kind {
    ELECTION_TIMER, /* also to be used once at start */
    ELECTION_HEARD, /* a heartbeat from a scheduler: peer, incarnation, term, leads */
    ELECTION_LINK,  /* the link to a scheduler came up, or went down or could not be made: peer, up */
    ELECTION_TOLD,  /* a member refuses a lower term, or says at joining which leader it obeyed last: its term, its
                     * incarnation (0: not known) and, without a registry, its rank in `peer` */
    ELECTION_KEY_CHANGED,     /* by the watch: key */
    ELECTION_KEY_ANSWER,      /* to a read or a swap, the key as it is now, whether the swap succeeded or not: key */
    ELECTION_REGISTRY_FAILED, /* no answer to a read or a swap; the swap may still take effect */
};

struct election_event {
    enum election_event_kind kind;
    uint32_t peer; /* a rank; with a registry the number of a link */
    bool up, leads;
    uint64_t term, incarnation;
    struct election_key key;
};

enum election_change {
    ELECTION_SAME,
    ELECTION_LEAD,       /* leads election_term() from now on */
    ELECTION_STAND_DOWN, /* leads no more: grants nothing from this moment on */
};

enum election_ask { ELECTION_ASK_NOTHING, ELECTION_READ, ELECTION_SWAP };

/* What is to be done, in this order. */
struct election_actions {
    enum election_change change;
    bool heartbeat;        /* send one to every scheduler: election_term(), election_leads() */
    enum election_ask ask; /* of the registry. Exactly one answer or failure must come back */
    int64_t swap_revision; /* the swap succeeds only if this is the key's revision; 0: only if there is no key */
    uint64_t swap_term;    /* with our incarnation */
    int64_t wake_ns;       /* step again by then */
};

struct election {
    struct election_config config;
    bool leads;
    uint64_t term;      /* the highest heard of */
    uint64_t term_led;  /* the highest led */
    uint64_t leader;    /* the incarnation of the leader of `term`; 0: not known */
    uint32_t leader_at; /* its rank or link; ELECTION_PEERS_MAX: not known */
    bool leader_heard;  /* a heartbeat of it as leader has come */
    int64_t leader_ns;  /* when its last heartbeat came, or when it became known as leader */
    uint32_t unheard;   /* times deposed since a leader was heard */
    struct own_pause pause;
    struct {
        uint64_t incarnation;
        int64_t heard_ns;
        bool up;
    } peers[ELECTION_PEERS_MAX];
    /* the registry */
    bool asked, key_known;
    struct election_key key;
    int64_t asked_revision; /* key.revision when the registry was asked */
    int64_t retry_ns, check_ns;
    int64_t beat_ns;
};

/* At most ELECTION_PEERS_MAX peers. Then call election_step() with ELECTION_TIMER. */
void election_init(struct election *election, const struct election_config *config, int64_t now_ns);
/* `now_ns` never decreases. */
void election_step(struct election *election, int64_t now_ns, const struct election_event *event,
                   struct election_actions *actions);

static inline bool election_leads(const struct election *election) {
    return election->leads;
}

static inline uint64_t election_term(const struct election *election) {
    return election->term;
}

/* The incarnation of that term's leader; 0: not known. */
static inline uint64_t election_leader(const struct election *election) {
    return election->leader;
}

/* ---- for members ---- */

/* The highest leader that a member has obeyed. All zeros: none yet. */
struct fence {
    uint64_t term, incarnation;
    uint32_t rank;
};

/* Whether to obey a message of that leader. If not, answer it with the contents of the fence: ELECTION_TOLD. With a
 * registry all ranks are 0. */
static inline bool fence_admit(struct fence *fence, uint64_t term, uint32_t rank, uint64_t incarnation) {
    bool higher = term > fence->term || (term == fence->term && rank < fence->rank);
    if (higher && term <= ELECTION_TERM_MAX)
        *fence = (struct fence){term, incarnation, rank};
    return term == fence->term && rank == fence->rank && incarnation == fence->incarnation;
}
