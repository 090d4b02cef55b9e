/* test_nexus.c - the policy `nexus` by events worked by hand: who runs where, in what turn, what is dropped, what is
 * loaded, and when plans change. */
#include <stdlib.h>
#include <string.h>

#include "sched/core/central.h"
#include "unit/test.h"

#define MODELS_MAX       3
#define ACCELERATORS_MAX 4
#define REQUESTS_MAX     4096
#define BATCH_MAX        32

struct fixture {
    struct profile *profile;
    struct central_model models[MODELS_MAX];
    uint8_t types[ACCELERATORS_MAX];
    struct central_config config;
    struct policy_options options;
    struct request_node nodes[REQUESTS_MAX];
    struct request_pool pool;
    void *core;
    struct central_output out;
    uint64_t handle;
    uint32_t refused; /* in all */
    uint8_t cause;    /* of the last of them */
    uint32_t sent[ACCELERATORS_MAX], items_sent[ACCELERATORS_MAX];
    struct central_action last[ACCELERATORS_MAX]; /* the last batch sent to each */
    bool running[ACCELERATORS_MAX];
};

/* Models of 1 ms an item and 5 ms a batch, with SLOs of 40 ms: B = 15 in 20 ms, 750 items/s. */
static struct fixture *fixture_new(const char *text, uint32_t models, uint32_t accelerators) {
    struct fixture *f = calloc(1, sizeof(*f));
    const struct policy_ops *policy;
    assert_non_null(f);
    assert_int_equal(policy_read(text, &policy, &f->options, NULL), 0);
    f->profile = malloc(profile_bytes(BATCH_MAX));
    assert_non_null(f->profile);
    profile_set_line(f->profile, BATCH_MAX, 1 * NS_PER_MS, 5 * NS_PER_MS);
    for (uint32_t m = 0; m < models; m++)
        f->models[m] =
            (struct central_model){.profiles = {f->profile}, .batch_max = BATCH_MAX, .slo_ns = 40 * NS_PER_MS};
    f->config = (struct central_config){
        .models = f->models,
        .model_count = models,
        .accelerator_type = f->types,
        .accelerators = accelerators,
        .types = 1,
        .seed = 1,
        .options = &f->options,
    };
    request_pool_init(&f->pool, f->nodes, REQUESTS_MAX);
    return f;
}

static void begin(struct fixture *f) {
    f->core = calloc(1, policy_nexus.central->bytes(&f->config));
    assert_non_null(f->core);
    policy_nexus.central->init(f->core, &f->config, &f->pool);
}

static void fixture_free(struct fixture *f) {
    free(f->core);
    free(f->profile);
    free(f);
}

static void list_return(struct fixture *f, uint32_t node) {
    for (uint32_t next; node != REQUEST_NONE; node = next) {
        next = f->nodes[node].next;
        request_pool_put(&f->pool, node);
    }
}

static void step(struct fixture *f, int64_t now_ns, const struct central_event *event) {
    policy_nexus.central->step(f->core, now_ns, event, &f->out);
    for (uint32_t node = f->out.refused; node != REQUEST_NONE; node = f->nodes[node].next) {
        f->refused++;
        f->cause = f->nodes[node].cause;
    }
    list_return(f, f->out.refused);
    for (uint32_t i = 0; i < f->out.action_count; i++) {
        const struct central_action *action = &f->out.actions[i];
        if (action->kind != CENTRAL_RUN)
            continue;
        f->last[action->accelerator] = *action;
        f->sent[action->accelerator]++;
        f->items_sent[action->accelerator] += action->items;
        f->running[action->accelerator] = true;
        list_return(f, action->first);
    }
}

static uint64_t arrive_at(struct fixture *f, double now_ms, uint32_t model, double slo_ms, uint16_t port) {
    struct request_message message = {
        .port = port,
        .handle = ++f->handle,
        .arrival_ns = (int64_t)(now_ms * NS_PER_MS),
        .deadline_ns = (int64_t)((now_ms + slo_ms) * NS_PER_MS),
        .place = {model},
        .items = 1,
    };
    step(f, message.arrival_ns,
         &(struct central_event){.kind = CENTRAL_ARRIVED, .model = message.place.n, .request = &message});
    return message.handle;
}

static uint64_t arrive(struct fixture *f, double now_ms, uint32_t model, double slo_ms) {
    return arrive_at(f, now_ms, model, slo_ms, 0);
}

static void end(struct fixture *f, double now_ms, uint32_t accelerator, enum central_action_kind kind, uint32_t model) {
    struct central_ended ended = {.kind = kind, .accelerator = accelerator, .model = model, .done = true};
    f->running[accelerator] &= kind != CENTRAL_RUN;
    step(f, (int64_t)(now_ms * NS_PER_MS), &(struct central_event){.kind = CENTRAL_ENDED, .ended = &ended});
}

static void timer(struct fixture *f, double now_ms) {
    step(f, (int64_t)(now_ms * NS_PER_MS), &(struct central_event){.kind = CENTRAL_TIMER});
}

TEST(sessions_take_turns) {
    struct fixture *f = fixture_new("nexus", 2, 1);
    f->models[0].rate_hint = f->models[1].rate_hint = 100;
    begin(f);
    arrive(f, 0, 0, 40); /* idle: it does not wait */
    assert_int_equal(f->last[0].items, 1);
    for (int i = 0; i < 3; i++)
        arrive(f, 1, 0, 40);
    for (int i = 0; i < 2; i++)
        arrive(f, 2, 1, 40);
    assert_int_equal(f->sent[0], 1);
    end(f, 6, 0, CENTRAL_RUN, 0); /* the other's turn, though it came later */
    assert_int_equal(f->last[0].model, 1);
    assert_int_equal(f->last[0].items, 2);
    end(f, 13, 0, CENTRAL_RUN, 1);
    assert_int_equal(f->last[0].model, 0);
    assert_int_equal(f->last[0].items, 3);
    end(f, 21, 0, CENTRAL_RUN, 0);
    assert_int_equal(f->sent[0], 3);
    assert_int_equal(f->out.wake_ns, 31 * NS_PER_S); /* nothing to do until the next plan */
    fixture_free(f);
}

/* Forty requests with deadlines at `deadline_ms`, for a plan of batches of 15. */
static void assert_batch_of(const char *policy, double deadline_ms, uint32_t items) {
    struct fixture *f = fixture_new(policy, 1, 1);
    f->models[0].rate_hint = 700;
    begin(f);
    for (int i = 0; i < 40; i++)
        arrive(f, 0, 0, deadline_ms);
    end(f, 6, 0, CENTRAL_RUN, 0);
    assert_int_equal(f->last[0].items, items);
    fixture_free(f);
}

TEST(a_batch_has_what_gathered_or_what_is_planned) {
    assert_batch_of("nexus", 31, 20); /* 6 + 5 + 20 */
    assert_batch_of("nexus", 200, BATCH_MAX);
    assert_batch_of("nexus:batch=planned", 31, 15);
    assert_batch_of("nexus:batch=planned", 200, 15);
}

/* Sessions of 100 items/s, one of which runs one item at a time: two such runs take 12 of its 13 ms, and nobody fits
 * between them. Its accelerator does 166 items/s, so that the plan is for 1.66 times the rates, at which the other
 * gathers 4 items in 24 ms, but 5 in 30, after which 10 to run are left. */
TEST(a_session_alone_on_an_accelerator_runs_what_is_planned) {
    struct fixture *f = fixture_new("nexus:batch=planned", 2, 2);
    f->models[0].rate_hint = f->models[1].rate_hint = 100;
    f->models[1].slo_ns = 13 * NS_PER_MS;
    begin(f);
    for (int i = 0; i < 40; i++)
        arrive(f, 0, 0, 200);
    uint32_t a = f->running[0] ? 0 : 1;
    assert_int_equal(f->sent[1 - a], 0);
    end(f, 6, a, CENTRAL_RUN, 0);
    assert_int_equal(f->last[a].items, 4);
    fixture_free(f);
}

TEST(early_drop_slides_a_window) {
    struct fixture *f = fixture_new("nexus:drop=early", 1, 1);
    f->models[0].rate_hint = 700;
    begin(f);
    arrive(f, 0, 0, 40);
    for (int i = 0; i < 20; i++) /* deadlines 20, 21, .. 39 */
        arrive(f, 0, 0, 20 + i);
    end(f, 6, 0, CENTRAL_RUN, 0);
    /* 15 end at 26: the 6 that are due before have to go */
    assert_int_equal(f->refused, 6);
    assert_int_equal(f->cause, CAUSE_CROWDED);
    assert_int_equal(f->last[0].items, 14);
    fixture_free(f);
}

TEST(lazy_drop_makes_do_with_a_small_batch) {
    struct fixture *f = fixture_new("nexus:drop=lazy", 1, 1);
    f->models[0].rate_hint = 700;
    begin(f);
    arrive(f, 0, 0, 40);
    arrive(f, 0, 0, 11); /* 6 + 6 > 11: no longer */
    for (int i = 0; i < 20; i++)
        arrive(f, 0, 0, 20 + i);
    end(f, 6, 0, CENTRAL_RUN, 0);
    assert_int_equal(f->refused, 1);
    assert_int_equal(f->cause, CAUSE_WAITED);
    assert_int_equal(f->last[0].items, 9); /* 6 + 5 + 9 = 20 */
    fixture_free(f);
}

TEST(what_can_no_longer_be_in_time_is_refused_before_its_turn) {
    struct fixture *f = fixture_new("nexus", 1, 1);
    f->models[0].rate_hint = 100;
    begin(f);
    arrive(f, 0, 0, 40);
    arrive(f, 0, 0, 5); /* shorter than a run */
    assert_int_equal(f->refused, 1);
    arrive(f, 0, 0, 11); /* 6 + 6 */
    assert_int_equal(f->refused, 2);
    arrive(f, 0, 0, 13);
    assert_int_equal(f->refused, 2);
    assert_int_equal(f->out.wake_ns, 7 * NS_PER_MS + 1); /* the run takes longer than it should */
    timer(f, 7.000001);
    assert_int_equal(f->refused, 3);
    fixture_free(f);
}

TEST(one_frontend_deals_evenly) {
    struct fixture *f = fixture_new("nexus:frontends=1", 1, 4);
    f->models[0].rate_hint = 1000;
    begin(f);
    for (int i = 0; i < 40; i++) {
        arrive(f, i, 0, 40);
        for (uint32_t a = 0; a < 4; a++)
            if (f->running[a])
                end(f, i, a, CENTRAL_RUN, 0);
    }
    for (uint32_t a = 0; a < 4; a++)
        assert_int_equal(f->items_sent[a], 10);
    fixture_free(f);
}

TEST(several_frontends_deal_evenly_each) {
    struct fixture *f = fixture_new("nexus:frontends=8", 1, 4);
    bool uneven = false;
    f->models[0].rate_hint = 1000;
    begin(f);
    for (int i = 0; i < 4000; i++) {
        arrive(f, i * 0.1, 0, 40);
        for (uint32_t a = 0; a < 4; a++) {
            uneven |= f->items_sent[a] > (uint32_t)i / 4 + 2;
            if (f->running[a])
                end(f, i * 0.1, a, CENTRAL_RUN, 0);
        }
    }
    assert_true(uneven); /* for a while, as nobody knows of the others */
    for (uint32_t a = 0; a < 4; a++)
        assert_in_range(f->items_sent[a], 1000 - 8, 1000 + 8); /* each frontend is off by one at most */
    fixture_free(f);
}

/* Each frontend that requests come through has its own turns: what one sends, another does not count. */
TEST(the_frontend_of_a_request_deals_it) {
    struct fixture *f = fixture_new("nexus:frontends=0", 1, 4);
    uint32_t of[2][4] = {{0}};
    f->models[0].rate_hint = 1000;
    begin(f);
    for (int i = 0; i < 400; i++) {
        uint16_t port = i % 3 == 0; /* one in three comes through the second */
        uint32_t before[4];
        memcpy(before, f->items_sent, sizeof(before));
        arrive_at(f, i * 0.1, 0, 40, port);
        for (uint32_t a = 0; a < 4; a++) {
            of[port][a] += f->items_sent[a] - before[a];
            if (f->running[a])
                end(f, i * 0.1, a, CENTRAL_RUN, 0);
        }
    }
    for (uint32_t a = 0; a < 4; a++) {
        assert_in_range(of[0][a], 66, 67); /* 266 and 134 */
        assert_in_range(of[1][a], 33, 34);
    }
    fixture_free(f);
}

TEST(inputs_travel_while_the_batch_before_runs) {
    struct fixture *f = fixture_new("nexus", 1, 1);
    f->models[0].rate_hint = 100;
    f->config.ctrl_ns = NS_PER_MS;
    begin(f);
    arrive(f, 0, 0, 40); /* runs from 1 to 7 */
    arrive(f, 1, 0, 40);
    assert_int_equal(f->sent[0], 1);
    assert_int_equal(f->out.wake_ns, 6 * NS_PER_MS);
    timer(f, 6);
    assert_int_equal(f->sent[0], 2);
    arrive(f, 6.5, 0, 40);
    end(f, 7, 0, CENTRAL_RUN, 0); /* runs from 7 to 13 */
    assert_int_equal(f->sent[0], 2);
    assert_int_equal(f->out.wake_ns, 12 * NS_PER_MS);
    fixture_free(f);
}

TEST(a_cancelled_request_comes_back) {
    struct fixture *f = fixture_new("nexus", 1, 1);
    f->models[0].rate_hint = 100;
    begin(f);
    arrive(f, 0, 0, 40);
    struct request_message message = {.handle = arrive(f, 1, 0, 40), .deadline_ns = 41 * NS_PER_MS};
    step(f, 2 * NS_PER_MS,
         &(struct central_event){.kind = CENTRAL_CANCELLED, .model = message.place.n, .request = &message});
    assert_int_equal(f->refused, 1);
    assert_int_equal(f->pool.used, 0);
    step(f, 2 * NS_PER_MS,
         &(struct central_event){.kind = CENTRAL_CANCELLED, .model = message.place.n, .request = &message});
    assert_int_equal(f->refused, 1);
    fixture_free(f);
}

TEST(a_lost_accelerator_s_requests_go_elsewhere) {
    struct fixture *f = fixture_new("nexus", 1, 2);
    f->models[0].rate_hint = 1000;
    begin(f);
    for (int i = 0; i < 6; i++)
        arrive(f, 0, 0, 40);
    assert_true(f->running[0] && f->running[1]);
    step(f, NS_PER_MS, &(struct central_event){.kind = CENTRAL_DOWN, .accelerator = 0});
    end(f, 1, 0, CENTRAL_RUN, 0);
    assert_int_equal(f->sent[0], 1);
    end(f, 6, 1, CENTRAL_RUN, 0);
    assert_int_equal(f->last[1].items, 4);
    step(f, 7 * NS_PER_MS, &(struct central_event){.kind = CENTRAL_UP, .accelerator = 0});
    arrive(f, 8, 0, 40);
    arrive(f, 8, 0, 40);
    assert_int_equal(f->sent[0], 2);
    fixture_free(f);
}

TEST(models_are_loaded_before_they_run) {
    struct fixture *f = fixture_new("nexus", 2, 2);
    f->config.memory_bytes = (const uint64_t[]){100, 100};
    f->config.page_bytes = (const uint64_t[]){20, 20};
    for (int m = 0; m < 2; m++) {
        f->models[m].rate_hint = 300; /* either would fit beside the other, but for its weights */
        f->models[m].weights_bytes = 60;
        f->models[m].load_ns = 10 * NS_PER_MS;
    }
    begin(f);
    arrive(f, 0, 0, 400);
    assert_int_equal(f->out.action_count, 2);
    uint32_t at = f->out.actions[0].model == 0 ? f->out.actions[0].accelerator : f->out.actions[1].accelerator;
    for (int i = 0; i < 2; i++)
        assert_int_equal(f->out.actions[i].kind, CENTRAL_LOAD);
    assert_int_not_equal(f->out.actions[0].accelerator, f->out.actions[1].accelerator);
    end(f, 10, at, CENTRAL_LOAD, 0);
    assert_int_equal(f->sent[at], 1);
    assert_int_equal(f->sent[1 - at], 0);
    arrive(f, 10, 1, 8); /* loading, and this one cannot wait */
    assert_int_equal(f->refused, 0);
    timer(f, 12.1);
    assert_int_equal(f->refused, 1);
    fixture_free(f);
}

/* A session comes to another accelerator 7 ms after a plan says so: it has to be loaded there. */
TEST(a_move_waits_for_its_load) {
    struct fixture *f = fixture_new("nexus", 1, 2);
    const struct central_moves *moves;
    f->config.memory_bytes = (const uint64_t[]){100, 100};
    f->config.page_bytes = (const uint64_t[]){20, 20};
    f->models[0].rate_hint = 100;
    f->models[0].weights_bytes = 60;
    f->models[0].load_ns = 7 * NS_PER_MS;
    begin(f);
    moves = policy_nexus.central->moves(f->core);
    arrive(f, 0, 0, 400);
    step(f, 0, &(struct central_event){.kind = CENTRAL_DOWN, .accelerator = 1});
    end(f, 5, 0, CENTRAL_LOAD, 0);
    assert_int_equal(moves->plans, 1);
    assert_int_equal(moves->places, moves->kept); /* it stays on the other */
    step(f, 10 * NS_PER_MS, &(struct central_event){.kind = CENTRAL_UP, .accelerator = 1});
    assert_int_equal(f->out.action_count, 1);
    assert_int_equal(f->out.actions[0].kind, CENTRAL_LOAD);
    assert_int_equal(moves->places - moves->kept, 1);
    assert_int_equal(moves->wait_ns, 0);
    end(f, 17, 1, CENTRAL_LOAD, 0);
    assert_int_equal(moves->wait_ns, 7 * NS_PER_MS);
    assert_int_equal(moves->wait_max_ns, 7 * NS_PER_MS);
    fixture_free(f);
}

/* Three models, and room for two on each of two accelerators. Only the third is asked for, and is on both; each of the
 * others is beside it on one, and stays there, whichever of the accelerators has less to do. */
TEST(who_is_not_asked_for_stays) {
    struct fixture *f = fixture_new("nexus:epoch_s=1,epoch_min_s=1", 3, 2);
    f->config.memory_bytes = (const uint64_t[]){130, 130};
    f->config.page_bytes = (const uint64_t[]){20, 20};
    for (int m = 0; m < 3; m++) {
        f->models[m].rate_hint = m == 2 ? 100 : 0;
        f->models[m].weights_bytes = 60;
        f->models[m].load_ns = 1 * NS_PER_MS;
    }
    begin(f);
    uint32_t loads = 0, unloads = 0;
    for (int ms = 0; ms < 6000; ms++) {
        arrive(f, ms, 2, 40);
        struct central_action actions[CENTRAL_ACTIONS_MAX];
        uint32_t count = f->out.action_count;
        memcpy(actions, f->out.actions, sizeof(actions));
        for (uint32_t i = 0; i < count; i++) {
            loads += actions[i].kind == CENTRAL_LOAD;
            unloads += actions[i].kind == CENTRAL_UNLOAD;
            if (actions[i].kind != CENTRAL_RUN)
                end(f, ms, actions[i].accelerator, actions[i].kind, actions[i].model);
        }
        for (uint32_t a = 0; a < 2; a++)
            if (f->running[a])
                end(f, ms, a, CENTRAL_RUN, 2);
    }
    assert_true(policy_nexus.central->moves(f->core)->plans >= 4);
    assert_int_equal(loads, 4); /* the third on both, each of the others beside it on one */
    assert_int_equal(unloads, 0);
    fixture_free(f);
}

/* Two sessions on two accelerators. One falls silent and the other grows to more than one accelerator takes: within
 * epoch_min_s, it has both. */
TEST(a_change_of_rates_changes_the_plan) {
    struct fixture *f = fixture_new("nexus:epoch_s=1000,epoch_min_s=5", 2, 2);
    f->models[0].rate_hint = f->models[1].rate_hint = 600;
    begin(f);
    for (int ms = 0; ms < 8000; ms++) {
        arrive(f, ms, 0, 40);
        if (ms == 4000) /* a session an accelerator, so far */
            assert_true(f->items_sent[0] == 0 || f->items_sent[1] == 0);
        for (uint32_t a = 0; a < 2; a++)
            if (f->running[a])
                end(f, ms, a, CENTRAL_RUN, 0);
    }
    assert_true(f->items_sent[0] > 1000 && f->items_sent[1] > 1000);
    const struct central_moves *moves = policy_nexus.central->moves(f->core);
    assert_int_equal(moves->plans, 1);
    assert_int_equal(moves->places, 2); /* of the one that is asked for, */
    assert_int_equal(moves->kept, 1);   /* which has one accelerator more */
    assert_int_equal(moves->wait_ns, 0);
    fixture_free(f);
}

TEST(the_oblivious_plan_divides_by_rate) {
    struct fixture *f = fixture_new("nexus:plan=oblivious", 2, 4);
    f->models[0].rate_hint = 300;
    f->models[1].rate_hint = 500; /* an accelerator and a half, two and a half */
    begin(f);
    for (int i = 0; i < 900; i++) {
        uint32_t model = i % 3 == 0; /* of the first 600, of the second 300 */
        arrive(f, i, model, 40);
        for (uint32_t a = 0; a < 4; a++) {
            if (!f->running[a])
                continue;
            assert_int_equal(f->last[a].model, model);
            assert_true(model == 0 ? a <= 1 : a >= 1);
            end(f, i, a, CENTRAL_RUN, model);
        }
    }
    assert_in_range(f->items_sent[0], 398, 402);           /* two thirds of the first */
    assert_in_range(f->items_sent[1], 200 + 58, 200 + 62); /* the rest, and a fifth of the second */
    assert_in_range(f->items_sent[2], 118, 122);
    assert_in_range(f->items_sent[3], 118, 122);
    fixture_free(f);
}

static double needed(const struct fixture *f) {
    return policy_nexus.central->needed(f->core);
}

TEST(it_says_how_many_accelerators_its_rates_need) {
    struct fixture *f = fixture_new("nexus", 2, 4);
    f->models[0].rate_hint = f->models[1].rate_hint = 600; /* more than half of an accelerator each */
    begin(f);
    timer(f, 0);
    assert_true(needed(f) == 2);
    step(f, 0, &(struct central_event){.kind = CENTRAL_DOWN, .accelerator = 1});
    assert_true(needed(f) == 2);
    step(f, 0, &(struct central_event){.kind = CENTRAL_DOWN, .accelerator = 2});
    step(f, 0, &(struct central_event){.kind = CENTRAL_DOWN, .accelerator = 3}); /* one is left, for two that fill it */
    assert_true(needed(f) > 1.2 && needed(f) < 4);
    fixture_free(f);
}

TEST(a_plan_without_rates_needs_what_there_is) {
    struct fixture *f = fixture_new("nexus", 2, 4);
    begin(f);
    timer(f, 0);
    assert_true(needed(f) == 4);
    fixture_free(f);
}

TEST(when_requests_stop_coming_nothing_is_needed) {
    struct fixture *f = fixture_new("nexus:epoch_s=30", 1, 1);
    f->models[0].rate_hint = 100;
    begin(f);
    timer(f, 0);
    assert_true(needed(f) == 1);
    assert_int_equal(f->out.wake_ns, 31 * NS_PER_S); /* a second for an arrival to begin the epoch */
    timer(f, 30999);
    assert_true(needed(f) == 1);
    timer(f, 31000);
    assert_true(needed(f) == 0);
    assert_int_equal(f->out.wake_ns, TIME_NEVER);
    fixture_free(f);
}
