/* test_decision_replay.c - what live threads decided is decided again from their logs; logs that are full, cut off or
 * changed. Every test of the threads (unit/sched/rig.h) replays what they decided, too. */
#include "sim/decision_replay.h"

#include "unit/sched/rig.h"

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
    return decision_replay(memory, bytes, result, err);
}

/* Keeps the log of a thread beyond the rig's end. */
static char *log_keep(const struct rig *rig, uint32_t thread, size_t *bytes) {
    const struct decision_head *head = (const struct decision_head *)(const void *)rig->decisions[thread].memory;
    *bytes = head->used;
    char *copy = malloc(*bytes);
    memcpy(copy, head, *bytes);
    return copy;
}

static void threads_under_load_decide_the_same_again(void **state) {
    (void)state;
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
    assert_int_equal(models.grants, rank.grants); /* each was answered */
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

static void other_words_are_noticed(void **state) {
    (void)state;
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

static void a_full_log_is_a_beginning(void **state) {
    (void)state;
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

static void what_is_no_log_is_refused(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_under_load_decide_the_same_again),
        cmocka_unit_test(other_words_are_noticed),
        cmocka_unit_test(a_full_log_is_a_beginning),
        cmocka_unit_test(what_is_no_log_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
