/* test_decision_replay.c - what live threads decided is decided again from their logs; logs that are full, cut off or
 * changed. Every test of the threads (unit/sched/threads/rig.h) replays what they decided, too. */
/* Starts threads. */
#include "lab/sim/decision_replay.h"

#include "unit/sched/threads/rig.h"

#define CROWD 4000

/* Threads that were under load, and have ended: several models, one of many shapes, priorities, best effort, requests
 * cancelled or too late. */
static struct rig *rig_loaded(void) {
    struct rig *rig = rig_start(ACCELERATORS, 400 * NS_PER_US);
    struct crowd crowd;
    uint32_t sent = 0;
    crowd_init(&crowd, CROWD);
    while (sent < CROWD) {
        crowd_send_some(&crowd, rig, &sent, 40);
        rank_thread_way_set(rig->rank_threads[0], 3 * sent / (CROWD + 1)); /* one after the other */
        pause_us(200);
    }
    while (crowd.done < CROWD) {
        for (uint32_t f = 0; f < PORTS; f++) {
            port_flush(rig->ports[f]);
            crowd_collect(&crowd, rig, f);
        }
        pause_us(500);
    }
    assert_true(crowd.ran > 0 && crowd.ran < CROWD);
    crowd_free(&crowd);
    rig_threads_stop(rig);
    return rig;
}

static int replay(const char *memory, size_t bytes, struct decision_replay *result, struct sy_error *err) {
    *err = (struct sy_error){""};
    int rc = decision_replay(memory, bytes, result, err);
    free(result->loads);
    result->loads = NULL;
    return rc;
}

/* Keeps the log of a thread beyond the rig's end. */
static char *log_keep(const struct rig *rig, uint32_t thread, size_t *bytes) {
    const struct decision_head *head = (const struct decision_head *)(const void *)rig->decisions[thread].memory;
    *bytes = head->used;
    char *copy = malloc(*bytes);
    memcpy(copy, head, *bytes);
    return copy;
}

TEST(threads_under_load_decide_the_same_again) {
    struct rig *rig = rig_loaded();
    struct decision_replay models = {0}, result, rank;
    struct sy_error err;
    for (uint32_t t = 0; t < THREADS; t++) {
        assert_int_equal(replay(rig->decisions[t].memory, LOG_BYTES, &result, &err), 0);
        models.steps += result.steps;
        models.grants += result.grants;
        models.refused += result.refused;
        assert_int_equal(result.missed, 0);
    }
    assert_int_equal(replay(rig->decisions[THREADS].memory, LOG_BYTES, &rank, &err), 0);
    assert_true(models.steps > 0 && models.refused > 0 && rank.steps > 0);
    /* Each was answered, but for those on their way when the threads ended: one of a model at most. */
    assert_in_range(rank.grants, models.grants, models.grants + MODELS);
    rig_stop(rig);
}

/* How many steps of this kind there are. */
static uint32_t steps_count(const char *memory, size_t bytes, enum decision_kind kind) {
    uint32_t count = 0;
    for (size_t at = sizeof(struct decision_head); at < bytes;) {
        const struct decision_entry *entry = (const struct decision_entry *)(const void *)(memory + at);
        count += entry->kind == kind;
        at += entry->bytes;
    }
    return count;
}

/* The last word of the nth of these steps. */
static size_t said_by(const char *memory, size_t bytes, enum decision_kind kind, uint32_t nth) {
    for (size_t at = sizeof(struct decision_head); at < bytes;) {
        const struct decision_entry *entry = (const struct decision_entry *)(const void *)(memory + at);
        if (entry->kind == kind && nth-- == 0)
            return at + entry->bytes - 8;
        at += entry->bytes;
    }
    fail_msg("no such step");
    return 0;
}

TEST(other_words_are_noticed) {
    static const struct {
        uint32_t thread;
        enum decision_kind kind;
        uint32_t percent; /* where in the log: how many steps there are depends on how fast the threads were */
    } cases[] = {{0, DECISION_MODEL_STEP, 0},       {0, DECISION_MODEL_STEP, 30},
                 {1, DECISION_MODEL_STEP, 60},      {THREADS, DECISION_RANK_STEP, 5},
                 {THREADS, DECISION_RANK_TAKE, 50}, {THREADS, DECISION_RANK_PARAMETERS, 20}};
    struct rig *rig = rig_loaded();
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct decision_replay result;
        struct sy_error err;
        size_t bytes;
        char *log = log_keep(rig, cases[i].thread, &bytes);
        uint32_t nth = steps_count(log, bytes, cases[i].kind) * cases[i].percent / 100;
        log[said_by(log, bytes, cases[i].kind, nth)] ^= 1;
        int rc = replay(log, bytes, &result, &err);
        if (rc != -EBADMSG || !strstr(err.text, "says something else than it did"))
            fail_msg("case %zu: %d %s", i, rc, err.text);
        free(log);
    }
    rig_stop(rig);
}

/* ---- advice ---- */

#define LOOKS 50

/* A log of looks at the load of some sub-clusters, and what their rank cores said of it before each: a third of it went
 * unseen. */
struct advice_log {
    _Alignas(8) char memory[1 << 16];
    struct decision_log log;
    struct decision_replay ranks[2];
    struct decision_load said[2][3 * LOOKS];
};

static void log_advice(struct advice_log *a, uint32_t subclusters) {
    const struct autoscale_config config = {.min = 1, .max = 90, .headroom = 0.1, .every_ns = NS_PER_S};
    struct advisor *advisor = malloc(sizeof(*advisor));
    double needed_ns[2] = {0}, all_before_ns = 0, before_ns[2] = {0};
    assert_non_null(advisor);
    *a = (struct advice_log){.memory = {0}};
    decision_log_init(&a->log, a->memory, sizeof(a->memory));
    advisor_init(advisor, &config, subclusters, 0);
    decision_advice_init(&a->log, 0, &config, subclusters, needed_ns);
    for (int64_t i = 1; i <= LOOKS; i++) {
        struct advisor_load load = {.all = {.present = 9, .requests = 1000, .bad = i % 3 * 15}};
        all_before_ns = 0;
        for (uint32_t k = 0; k < subclusters; k++) {
            struct decision_replay *rank = &a->ranks[k];
            rank->loads = a->said[k];
            before_ns[k] = needed_ns[k];
            for (int said = 0; said < 3; said++) {
                needed_ns[k] += (1 + (double)(i % 7)) * NS_PER_S * (1 + k);
                rank->loads[rank->load_count++] = (struct decision_load){needed_ns[k], k};
                if (said == 1 && i % 3 == 0)
                    break;
            }
            load.subclusters[k] = (struct autoscale_seen){.present = 4, .requests = 500};
            load.subclusters[k].needed = advisor_needed(needed_ns[k] - before_ns[k], NS_PER_S);
            all_before_ns += needed_ns[k] - before_ns[k];
        }
        load.all.needed = advisor_needed(all_before_ns, NS_PER_S);
        advisor_look(advisor, i * NS_PER_S, &load);
        decision_advice_look(&a->log, i * NS_PER_S, &load, needed_ns, advisor);
    }
    free(advisor);
}

TEST(advice_is_given_again) {
    for (uint32_t subclusters = 1; subclusters <= 2; subclusters++) {
        struct advice_log *a = malloc(sizeof(*a));
        struct decision_replay result;
        struct sy_error err = {""};
        log_advice(a, subclusters);
        assert_int_equal(decision_replay(a->memory, sizeof(a->memory), &result, &err), 0);
        assert_int_equal(result.steps, LOOKS);
        assert_int_equal(result.looks, LOOKS);
        assert_int_equal(decision_loads_check(&result, a->ranks, subclusters, &err), 0);
        free(result.loads);
        free(a);
    }
}

TEST(other_advice_and_other_loads_are_noticed) {
    struct advice_log *a = malloc(sizeof(*a));
    struct decision_replay result;
    struct sy_error err = {""};
    log_advice(a, 2);
    size_t look = said_by(a->memory, a->log.used, DECISION_ADVICE_LOOK, LOOKS / 2) + 8;
    /* from its end: up to 8 bytes filled up, the bad rate, three numbers; before these two counts of 8 bytes */
    size_t advice = look - 4 - 8 - 3 * sizeof(uint32_t), count = advice - 8;
    a->memory[advice] ^= 1;
    assert_int_equal(replay(a->memory, sizeof(a->memory), &result, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "the advisor 0, told event 0, says something else than it did"));
    a->memory[advice] ^= 1;
    a->memory[count + 5] ^= 1;
    assert_int_equal(replay(a->memory, sizeof(a->memory), &result, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "a load that no rank core has"));
    a->memory[count + 5] ^= 1;

    assert_int_equal(decision_replay(a->memory, sizeof(a->memory), &result, &err), 0);
    assert_int_equal(decision_loads_check(&result, a->ranks, 1, &err), -EBADMSG); /* one core's are missing */
    assert_non_null(strstr(err.text, "a load of rank core 1"));
    a->ranks[0].load_count = 40;
    assert_int_equal(decision_loads_check(&result, a->ranks, 2, &err), -EBADMSG);
    a->ranks[0].missed = 1; /* its log was full then */
    assert_int_equal(decision_loads_check(&result, a->ranks, 2, &err), 0);
    a->ranks[0].loads[2].needed_ns += 1;
    assert_int_equal(decision_loads_check(&result, a->ranks, 2, &err), -EBADMSG);
    free(result.loads);
    free(a);
}

TEST(a_full_log_is_a_beginning) {
    struct rig *rig = rig_loaded();
    struct decision_replay whole, part;
    struct sy_error err;
    size_t bytes;
    char *log = log_keep(rig, 0, &bytes);
    assert_int_equal(replay(log, bytes, &whole, &err), 0);
    struct decision_log small;
    char *memory = malloc(1000);
    decision_log_init(&small, memory, 1000);
    decision_model_thread(&small, rig->policy, &rig->options, 1, 10);
    for (int64_t n = 0; n < 100; n++)
        decision_rank_parameters(&small, &(struct grant_message){.kind = GRANT_PARAMETERS});
    const struct decision_head *head = (const struct decision_head *)(const void *)memory;
    assert_in_range(head->used, 300, 1000);
    assert_in_range(head->missed, 90, 99);
    memcpy(log + offsetof(struct decision_head, used), &(uint64_t){bytes / 2 / 8 * 8}, sizeof(uint64_t));
    int rc = replay(log, bytes, &part, &err); /* cut off anywhere: up to there it is whole */
    assert_true(rc == 0 || (rc == -EINVAL && strstr(err.text, "the log is broken")));
    assert_true(part.steps > 0 && part.steps < whole.steps);
    free(memory);
    free(log);
    rig_stop(rig);
}

TEST(what_is_no_log_is_refused) {
    static const char text[200] = "symphony steps 0";
    struct decision_replay result;
    struct sy_error err;
    _Alignas(8) char memory[200];
    struct decision_log log;
    assert_int_equal(replay(text, sizeof(text), &result, &err), -EINVAL);
    assert_string_equal(err.text, "this is no log of decisions");
    assert_int_equal(replay(text, 10, &result, &err), -EINVAL);
    decision_log_init(&log, memory, sizeof(memory));
    assert_int_equal(replay(memory, sizeof(memory), &result, &err), 0);
    assert_int_equal(result.steps, 0);
    memory[16] = 'x';
    assert_int_equal(replay(memory, sizeof(memory), &result, &err), -EINVAL);
    assert_non_null(strstr(err.text, "a log of Symphony x"));
}

/* Nor has a damaged one a core of the highest number that there is. */
TEST(a_number_beyond_all_cores_is_refused) {
    _Alignas(8) char memory[4096];
    struct decision_log log;
    struct decision_replay result;
    struct sy_error err;
    struct rig *rig = rig_loaded();
    struct profile *profile = malloc(profile_bytes(8));
    assert_non_null(profile);
    profile_set_line(profile, 8, 10, 20);
    decision_log_init(&log, memory, sizeof(memory));
    decision_model_thread(&log, rig->policy, &rig->options, 1, 10);
    decision_model_init(&log, (struct variant_id){UINT32_MAX},
                        &(struct model_core_config){
                            .types = 1, .batch_max = 8, .profiles = {profile}, .slo_ns = 1000, .policy = rig->policy},
                        NULL);
    assert_int_equal(replay(memory, sizeof(memory), &result, &err), -ENOMEM);
    assert_string_equal(err.text, "no memory for core 4294967295");
    free(profile);
    rig_stop(rig);
}
