/* test_election.c - who leads, event by event. */
#include "cluster/membership/election.h"

#include "unit/test.h"

#define MS NS_PER_MS
#define ME 100u

/* One scheduler, and what it last said. */
struct rig {
    struct election e;
    struct election_actions out;
    int64_t now_ns;
};

static void step(struct rig *r, int64_t now_ns, struct election_event event) {
    r->now_ns = now_ns;
    election_step(&r->e, now_ns, &event, &r->out);
    assert_true(r->out.wake_ns > now_ns);
}

static void timer(struct rig *r, int64_t now_ns) {
    step(r, now_ns, (struct election_event){.kind = ELECTION_TIMER});
}

/* Wakes it whenever it wants to be, until `until_ns` or until it does something but send heartbeats. */
static void wait_until(struct rig *r, int64_t until_ns) {
    while (r->out.wake_ns <= until_ns) {
        timer(r, r->out.wake_ns);
        if (r->out.change || r->out.ask)
            return;
    }
}

static void heartbeat(struct rig *r, int64_t now_ns, uint32_t peer, uint64_t incarnation, uint64_t term, bool leads) {
    step(r, now_ns,
         (struct election_event){
             .kind = ELECTION_HEARD, .peer = peer, .incarnation = incarnation, .term = term, .leads = leads});
}

static void link_is(struct rig *r, int64_t now_ns, uint32_t peer, bool up) {
    step(r, now_ns, (struct election_event){.kind = ELECTION_LINK, .peer = peer, .up = up});
}

static void told(struct rig *r, int64_t now_ns, uint64_t term, uint32_t seniority, uint64_t incarnation) {
    step(r, now_ns,
         (struct election_event){.kind = ELECTION_TOLD, .term = term, .peer = seniority, .incarnation = incarnation});
}

static void key(struct rig *r, int64_t now_ns, enum election_event_kind kind, int64_t revision, uint64_t term,
                uint64_t incarnation) {
    step(r, now_ns,
         (struct election_event){
             .kind = kind,
             .key = {.exists = incarnation != 0, .revision = revision, .term = term, .incarnation = incarnation}});
}

static void start(struct rig *r, bool registry, uint32_t seniority, uint32_t peers) {
    struct election_config config = {
        .incarnation = ME, .registry = registry, .seniority = seniority, .peers = peers, .trusts = true};
    election_init(&r->e, &config, 0);
    timer(r, 0);
}

/* A standby at 0 ms that hears incarnation 7 on link 0 lead term 5. */
static void start_standby(struct rig *r) {
    start(r, true, 0, 2);
    assert_int_equal(r->out.ask, ELECTION_READ);
    key(r, 0, ELECTION_KEY_ANSWER, 10, 5, 7);
    heartbeat(r, 0, 0, 7, 5, true);
}

/* A leader of term 6 at 0 ms, and another scheduler, incarnation 7, on link 0. */
static void start_leader(struct rig *r) {
    start(r, true, 0, 2);
    key(r, 0, ELECTION_KEY_ANSWER, 10, 6, ME);
    assert_int_equal(r->out.change, ELECTION_LEAD);
    assert_true(r->out.heartbeat);
    heartbeat(r, 0, 0, 7, 6, false);
}

TEST(first_scheduler_makes_the_key) {
    struct rig r;
    start(&r, true, 0, 2);
    assert_int_equal(r.out.ask, ELECTION_READ);
    key(&r, 1 * MS, ELECTION_KEY_ANSWER, 3, 0, 0);
    assert_int_equal(r.out.ask, ELECTION_SWAP);
    assert_int_equal(r.out.swap_revision, 0);
    assert_int_equal(r.out.swap_term, 1);
    assert_false(election_leads(&r.e));
    key(&r, 2 * MS, ELECTION_KEY_ANSWER, 4, 1, ME);
    assert_int_equal(r.out.change, ELECTION_LEAD);
    assert_true(r.out.heartbeat);
    assert_int_equal(election_term(&r.e), 1);
    assert_int_equal(election_leader(&r.e), ME);
}

TEST(silence_and_a_dead_link_are_told_apart) {
    static const struct {
        bool down, reborn;
        int64_t swap_ms;
    } cases[] = {{false, false, 300}, {true, false, 150}, {false, true, 150}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig r;
        start_standby(&r);
        if (cases[i].down)
            link_is(&r, 10 * MS, 0, false);
        if (cases[i].reborn) /* another process answers there */
            heartbeat(&r, 10 * MS, 0, 8, 0, false);
        wait_until(&r, NS_PER_S);
        assert_int_equal(r.now_ns, cases[i].swap_ms * MS);
        assert_int_equal(r.out.ask, ELECTION_SWAP);
        assert_int_equal(r.out.swap_revision, 10);
        assert_int_equal(r.out.swap_term, 6);
        /* one question at a time */
        wait_until(&r, 2 * NS_PER_S);
        assert_int_equal(r.out.ask, ELECTION_ASK_NOTHING);
    }
}

TEST(heartbeats_keep_a_standby_quiet) {
    struct rig r;
    start_standby(&r);
    for (int64_t t = 50 * MS; t < 2 * NS_PER_S; t += 50 * MS) {
        wait_until(&r, t - 1);
        assert_int_equal(r.out.ask, ELECTION_ASK_NOTHING);
        heartbeat(&r, t, 0, 7, 5, true);
    }
}

TEST(who_loses_the_swap_follows) {
    struct rig r;
    start_standby(&r);
    wait_until(&r, NS_PER_S);
    key(&r, 301 * MS, ELECTION_KEY_ANSWER, 11, 6, 9);
    assert_int_equal(r.out.change, ELECTION_SAME);
    assert_int_equal(r.out.ask, ELECTION_ASK_NOTHING);
    assert_int_equal(election_leader(&r.e), 9);
    assert_int_equal(election_term(&r.e), 6);
    wait_until(&r, NS_PER_S); /* the winner dies before it is heard */
    assert_int_equal(r.now_ns, 601 * MS);
    assert_int_equal(r.out.swap_term, 7);
}

TEST(unknown_outcome_of_a_swap_comes_true_later) {
    struct rig r;
    start_standby(&r);
    wait_until(&r, NS_PER_S);
    step(&r, 320 * MS, (struct election_event){.kind = ELECTION_REGISTRY_FAILED});
    assert_int_equal(r.out.ask, ELECTION_ASK_NOTHING);
    wait_until(&r, NS_PER_S);
    assert_int_equal(r.now_ns, 420 * MS); /* tries again, the same */
    assert_int_equal(r.out.swap_revision, 10);
    assert_int_equal(r.out.swap_term, 6);
    key(&r, 421 * MS, ELECTION_KEY_CHANGED, 11, 6, ME);
    assert_int_equal(r.out.change, ELECTION_LEAD);
    key(&r, 422 * MS, ELECTION_KEY_ANSWER, 11, 6, ME); /* the second was refused */
    assert_int_equal(r.out.change, ELECTION_SAME);
    assert_true(election_leads(&r.e));
}

TEST(leader_goes_on_without_the_registry) {
    struct rig r;
    start_leader(&r);
    wait_until(&r, 2 * NS_PER_S);
    assert_int_equal(r.now_ns, ELECTION_CHECK_NS);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(r.out.ask, ELECTION_READ);
        step(&r, r.now_ns + 30 * MS, (struct election_event){.kind = ELECTION_REGISTRY_FAILED});
        assert_true(election_leads(&r.e));
        wait_until(&r, r.now_ns + 2 * NS_PER_S);
    }
}

TEST(leader_stands_down) {
    for (int i = 0; i < 6; i++) {
        struct rig r;
        start_leader(&r);
        if (i == 0)
            key(&r, 20 * MS, ELECTION_KEY_CHANGED, 12, 7, 9);
        else if (i == 1)
            told(&r, 20 * MS, 7, 0, 9);
        else if (i == 2)
            heartbeat(&r, 20 * MS, 0, 7, 7, true);
        else if (i == 3)
            heartbeat(&r, 20 * MS, 0, 7, 7, false);
        else if (i == 4)
            key(&r, 20 * MS, ELECTION_KEY_CHANGED, 12, 2, 9); /* the registry was set back */
        else
            told(&r, 20 * MS, 6, 0, 9); /* so was it, but a member remembers */
        assert_int_equal(r.out.change, ELECTION_STAND_DOWN);
        assert_true(r.out.heartbeat);
        assert_false(election_leads(&r.e));
        /* what it led before is not led again, whatever an old answer says */
        key(&r, 21 * MS, ELECTION_KEY_ANSWER, 10, 6, ME);
        assert_int_equal(r.out.change, ELECTION_SAME);
        assert_int_equal(election_term(&r.e), i >= 4 ? 6 : 7);
    }
}

/* The registry decides who leads: a member that says that it knows a higher term deposes nobody. If the registry has
 * lost its data, and the member is right, the leader goes on in a higher term still. */
TEST(a_member_deposes_no_leader_of_the_registry) {
    for (int i = 0; i < 2; i++) {
        struct rig r;
        start_leader(&r);
        told(&r, 20 * MS, 7, 0, 0);
        assert_int_equal(r.out.change, ELECTION_SAME);
        assert_true(election_leads(&r.e));
        assert_int_equal(election_term(&r.e), 6);
        assert_int_equal(r.out.ask, ELECTION_SWAP);
        assert_int_equal(r.out.swap_term, 8);
        told(&r, 21 * MS, 7, 0, 0); /* again, before the registry's answer */
        assert_int_equal(r.out.ask, ELECTION_ASK_NOTHING);
        key(&r, 22 * MS, ELECTION_KEY_ANSWER, 12, i ? 9 : 8, i ? 9 : ME);
        assert_int_equal(r.out.change, i ? ELECTION_STAND_DOWN : ELECTION_LEAD);
        assert_int_equal(election_term(&r.e), i ? 9 : 8);
        told(&r, 23 * MS, 8, 0, 0); /* no news */
        assert_int_equal(r.out.change, ELECTION_SAME);
        assert_true(r.out.ask != ELECTION_SWAP);
    }
}

TEST(lower_and_impossible_terms_move_nobody) {
    struct rig r;
    start_leader(&r);
    heartbeat(&r, 1 * MS, 0, 7, 5, true);
    told(&r, 2 * MS, 6, 0, ME);
    told(&r, 3 * MS, UINT64_MAX, 0, 9);
    heartbeat(&r, 4 * MS, 0, 7, UINT64_MAX, true);
    key(&r, 5 * MS, ELECTION_KEY_CHANGED, 20, UINT64_MAX, 9);
    assert_true(election_leads(&r.e));
    assert_int_equal(election_term(&r.e), 6);
}

TEST(old_news_of_the_key_are_ignored) {
    struct rig r;
    start_standby(&r);
    wait_until(&r, NS_PER_S);
    key(&r, 310 * MS, ELECTION_KEY_CHANGED, 12, 7, ME); /* asked at revision 10 */
    assert_true(election_leads(&r.e));
    key(&r, 311 * MS, ELECTION_KEY_CHANGED, 11, 6, 9);
    assert_true(election_leads(&r.e));
    key(&r, 312 * MS, ELECTION_KEY_ANSWER, 11, 6, 9);
    assert_true(election_leads(&r.e));
    /* but what was asked later and answered with less: the registry began anew */
    wait_until(&r, 2 * NS_PER_S);
    assert_int_equal(r.out.ask, ELECTION_READ);
    key(&r, 1500 * MS, ELECTION_KEY_ANSWER, 2, 0, 0);
    assert_true(election_leads(&r.e));
    assert_int_equal(r.out.ask, ELECTION_SWAP); /* writes its term back */
    assert_int_equal(r.out.swap_revision, 0);
    assert_int_equal(r.out.swap_term, 7);
}

TEST(stopped_standby_does_not_campaign_at_once) {
    struct rig r;
    start_standby(&r);
    timer(&r, 5 * NS_PER_S);
    assert_int_equal(r.out.ask, ELECTION_ASK_NOTHING);
    heartbeat(&r, 5 * NS_PER_S + 1, 0, 7, 5, true);
    wait_until(&r, 6 * NS_PER_S);
    assert_int_equal(r.out.ask, ELECTION_SWAP);
    assert_int_equal(r.now_ns, 5 * NS_PER_S + 1 + ELECTION_SILENCE_NS);
}

/* It goes on just before the leader, or a more senior scheduler, would have counted as dead, and reads nothing. */
TEST(stopped_standby_restarts_the_silence) {
    for (int registry = 0; registry < 2; registry++) {
        struct rig r;
        start(&r, registry, 1, 2);
        if (registry)
            key(&r, 0, ELECTION_KEY_ANSWER, 10, 5, 7);
        heartbeat(&r, 0, 0, 7, 5, true);
        link_is(&r, 0, 0, registry);
        wait_until(&r, 100 * MS);
        timer(&r, 251 * MS);
        assert_int_equal(r.out.ask, ELECTION_ASK_NOTHING);
        assert_int_equal(r.out.change, ELECTION_SAME);
        wait_until(&r, 2 * NS_PER_S);
        assert_int_equal(r.now_ns, 251 * MS + ELECTION_SILENCE_NS);
        assert_int_equal(r.out.ask, registry ? ELECTION_SWAP : ELECTION_ASK_NOTHING);
        assert_int_equal(r.out.change, registry ? ELECTION_SAME : ELECTION_LEAD);
    }
}

/* Steps that are late, but not by much: then its time of silence is as it always is. */
TEST(busy_standby_forgives_nothing) {
    struct rig r;
    start_standby(&r);
    timer(&r, 150 * MS);
    assert_int_equal(r.out.ask, ELECTION_ASK_NOTHING);
    timer(&r, 300 * MS);
    assert_int_equal(r.out.ask, ELECTION_SWAP);
}

TEST(stopped_leader_asks_at_once) {
    struct rig r;
    start_leader(&r);
    timer(&r, 700 * MS);
    assert_int_equal(r.out.ask, ELECTION_READ);
}

TEST(who_is_deposed_unheard_waits_longer) {
    struct rig r;
    start_leader(&r);
    int64_t revision = 10, waited_ns = 0;
    for (int i = 1; i <= 8; i++) {
        int64_t at_ns = r.now_ns + MS, wanted_ns = ELECTION_SILENCE_NS << (i < 5 ? i : 5);
        key(&r, at_ns, ELECTION_KEY_CHANGED, ++revision, r.e.term + 1, 9);
        assert_int_equal(r.out.change, ELECTION_STAND_DOWN);
        do
            wait_until(&r, at_ns + 20 * NS_PER_S);
        while (r.out.ask != ELECTION_SWAP);
        waited_ns = r.now_ns - at_ns;
        assert_int_equal(waited_ns, wanted_ns);
        key(&r, r.now_ns, ELECTION_KEY_ANSWER, ++revision, r.out.swap_term, ME);
        assert_true(election_leads(&r.e));
    }
    /* a leader that is heard ends that */
    heartbeat(&r, r.now_ns, 0, 9, r.e.term + 1, true);
    assert_int_equal(r.out.change, ELECTION_STAND_DOWN);
    int64_t at_ns = r.now_ns;
    wait_until(&r, at_ns + NS_PER_S);
    assert_int_equal(r.now_ns - at_ns, ELECTION_SILENCE_NS);
}

/* Deposed three times by a member, it waits 2.4 s: another scheduler may lead that it does not hear. */
TEST(who_hears_all_others_of_the_list_waits_no_longer) {
    for (uint32_t heard = 1; heard <= 2; heard++) {
        struct rig r;
        start(&r, false, 0, 3);
        for (uint64_t i = 0; i < 3; i++) {
            wait_until(&r, r.now_ns + 20 * NS_PER_S);
            assert_int_equal(r.out.change, ELECTION_LEAD);
            told(&r, r.now_ns + MS, r.e.term + 1, 1, 55 + i);
            assert_int_equal(r.out.change, ELECTION_STAND_DOWN);
        }
        int64_t deposed_ns = r.now_ns;
        for (uint32_t peer = 1; peer <= heard; peer++)
            heartbeat(&r, deposed_ns + 10 * MS, peer, 90 + peer, r.e.term, false);
        wait_until(&r, deposed_ns + 20 * NS_PER_S);
        assert_int_equal(r.out.change, ELECTION_LEAD);
        assert_int_equal(r.now_ns - deposed_ns, heard == 2 ? ELECTION_SILENCE_NS : ELECTION_SILENCE_NS << 3);
    }
}

TEST(the_most_senior_leads) {
    /* of seniority 1: is seniority 0 alive, and when does seniority 1 lead? */
    static const struct {
        bool alive;
        int64_t lead_ms;
    } cases[] = {{false, 300}, {true, 500}};
    for (unsigned i = 0; i < 2; i++) {
        struct rig r;
        start(&r, false, 1, 3);
        heartbeat(&r, 0, 2, 8, 3, false);
        if (cases[i].alive)
            heartbeat(&r, 200 * MS, 0, 7, 2, false); /* there, but does not lead yet */
        wait_until(&r, NS_PER_S);
        assert_int_equal(r.out.change, ELECTION_LEAD);
        assert_int_equal(r.now_ns, cases[i].lead_ms * MS);
        assert_int_equal(election_term(&r.e), 4);
        assert_int_equal(r.out.ask, ELECTION_ASK_NOTHING);
        /* a more senior one that comes back does not depose it */
        heartbeat(&r, r.now_ns, 0, 7, 2, false);
        assert_true(election_leads(&r.e));
    }
}

TEST(the_next_takes_over_when_the_most_senior_dies) {
    for (int down = 0; down < 2; down++) {
        struct rig r;
        start(&r, false, 1, 2);
        heartbeat(&r, 10 * MS, 0, 7, 4, true);
        assert_int_equal(election_leader(&r.e), 7);
        told(&r, 11 * MS, 9, 0, 7); /* a member has heard of more */
        heartbeat(&r, 12 * MS, 0, 7, 10, true);
        if (down)
            link_is(&r, 13 * MS, 0, false);
        wait_until(&r, NS_PER_S);
        assert_int_equal(r.out.change, ELECTION_LEAD);
        assert_int_equal(r.now_ns, (down ? 162 : 312) * MS);
        assert_int_equal(election_term(&r.e), 11);
    }
}

/* A standby takes over at once; the next one leaves that to it. */
TEST(who_hears_a_leader_resign_takes_over) {
    struct election_event resigns = {
        .kind = ELECTION_HEARD, .peer = 0, .incarnation = 7, .term = 5, .leads = true, .resigns = true};
    struct rig r;
    start_standby(&r);
    step(&r, 20 * MS, resigns);
    assert_int_equal(r.out.ask, ELECTION_SWAP);
    assert_int_equal(r.out.swap_term, 6);
    start(&r, false, 1, 3);
    heartbeat(&r, 10 * MS, 0, 7, 5, true);
    step(&r, 20 * MS, resigns);
    assert_int_equal(r.out.change, ELECTION_LEAD);
    assert_int_equal(election_term(&r.e), 6);
    start(&r, false, 2, 3);
    heartbeat(&r, 10 * MS, 0, 7, 5, true);
    heartbeat(&r, 10 * MS, 1, 8, 5, false);
    link_is(&r, 10 * MS, 1, true);
    step(&r, 20 * MS, resigns);
    assert_int_equal(r.out.change, ELECTION_SAME);
    heartbeat(&r, 21 * MS, 1, 8, 6, true);
    assert_int_equal(election_leader(&r.e), 8);
}

/* It leads until another one does, and not again, whatever becomes of that one. */
TEST(who_resigns_leads_until_another_one_does) {
    for (int registry = 0; registry < 2; registry++) {
        struct rig r;
        if (registry) {
            start_leader(&r);
        } else {
            start(&r, false, 0, 2);
            wait_until(&r, NS_PER_S);
        }
        assert_true(election_leads(&r.e));
        uint64_t term = election_term(&r.e);
        int64_t now_ns = r.now_ns + 1 * MS;
        step(&r, now_ns, (struct election_event){.kind = ELECTION_RESIGN});
        assert_true(r.out.heartbeat && election_leads(&r.e) && election_resigns(&r.e));
        heartbeat(&r, now_ns + 1 * MS, registry ? 0 : 1, 7, term + 1, true);
        assert_int_equal(r.out.change, ELECTION_STAND_DOWN);
        wait_until(&r, now_ns + 20 * NS_PER_S);
        assert_false(election_leads(&r.e));
        assert_int_not_equal(r.out.ask, ELECTION_SWAP);
    }
}

TEST(of_one_term_the_most_senior_leads) {
    for (uint32_t seniority = 0; seniority < 2; seniority++) {
        struct rig r;
        start(&r, false, seniority, 2);
        wait_until(&r, NS_PER_S);
        assert_int_equal(r.out.change, ELECTION_LEAD);
        heartbeat(&r, r.now_ns + MS, !seniority, 7, 1, true); /* the partition ends */
        assert_int_equal(r.out.change, seniority ? ELECTION_STAND_DOWN : ELECTION_SAME);
        assert_int_equal(election_leader(&r.e), seniority ? 7 : ME);
        if (seniority) {
            wait_until(&r, r.now_ns + 299 * MS);
            assert_int_equal(r.out.change, ELECTION_SAME);
        }
    }
    struct rig r; /* a member knows of it before */
    start(&r, false, 1, 2);
    wait_until(&r, NS_PER_S);
    told(&r, r.now_ns, 1, 0, 7);
    assert_int_equal(r.out.change, ELECTION_STAND_DOWN);
}

TEST(restarted_scheduler_goes_beyond_its_former_life) {
    struct rig r;
    start(&r, false, 0, 1);
    assert_int_equal(r.out.change, ELECTION_LEAD);
    assert_int_equal(election_term(&r.e), 1);
    told(&r, 5 * MS, 7, 0, 55);
    assert_int_equal(r.out.change, ELECTION_LEAD);
    assert_int_equal(election_term(&r.e), 8);
    told(&r, 6 * MS, 8, 0, 54); /* even in the same term */
    assert_int_equal(election_term(&r.e), 9);
    told(&r, 7 * MS, 7, 0, 55); /* another member, late */
    assert_int_equal(r.out.change, ELECTION_SAME);
    assert_int_equal(election_term(&r.e), 9);
}

/* Who tells a term has shown neither a token nor a certificate: a leader that hears nobody lead that goes on beyond it,
 * and a standby ignores it. */
TEST(a_stranger_deposes_nobody) {
    struct rig r;
    start(&r, false, 0, 2);
    r.e.config.trusts = false;
    wait_until(&r, NS_PER_S);
    assert_int_equal(r.out.change, ELECTION_LEAD);
    told(&r, r.now_ns + MS, 7, ELECTION_PEERS_MAX, 0);
    assert_int_equal(r.out.change, ELECTION_SAME);
    int64_t told_ns = r.now_ns;
    wait_until(&r, told_ns + NS_PER_S);
    assert_int_equal(r.out.change, ELECTION_LEAD);
    assert_int_equal(r.now_ns - told_ns, ELECTION_SILENCE_NS);
    assert_int_equal(election_term(&r.e), 8);
    told(&r, r.now_ns + MS, 9, ELECTION_PEERS_MAX, 0);
    told(&r, r.now_ns + MS, 8 + ELECTION_NEAR + 1, ELECTION_PEERS_MAX, 0); /* terms are not to come to their end */
    assert_int_equal(r.out.change, ELECTION_SAME);
    assert_int_equal(election_term(&r.e), 8);
    heartbeat(&r, r.now_ns + MS, 1, 55, 9, true); /* from another scheduler it is true */
    assert_int_equal(r.out.change, ELECTION_STAND_DOWN);
    told(&r, r.now_ns + MS, 20, ELECTION_PEERS_MAX, 0);
    heartbeat(&r, r.now_ns + MS, 1, 55, 9, true);
    assert_int_equal(election_term(&r.e), 9);
    assert_int_equal(election_leader(&r.e), 55);
}
