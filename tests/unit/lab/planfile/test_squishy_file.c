/* test_squishy_file.c - sessions from YAML, and what mistakes say. */
#include <string.h>

#include "core/util/time.h"
#include "lab/planfile/squishy_file.h"
#include "unit/test.h"

static int parse_as(const char *text, bool whole, struct squishy_file *file, struct sy_error *err) {
    struct conf_node *document;
    int rc = conf_read_text("f.yaml", text, strlen(text), &document, err);
    return rc ? rc : squishy_file_read(document, whole, file, err);
}

static int parse(const char *text, struct squishy_file *file, struct sy_error *err) {
    return parse_as(text, false, file, err);
}

TEST(sessions_of_all_kinds_are_read) {
    struct squishy_file file;
    struct sy_error err;
    assert_int_equal(parse("gpus: 4\n"
                           "memory_mib: 1000\n"
                           "sessions:\n"
                           "  - {name: A, rate_rps: 64, slo_ms: 200, latency_ms: [[4, 50], [8, 75]], weights_mib: 3}\n"
                           "  - {name: B, rate_rps: 5, slo_ms: 25, alpha_ms: 1, beta_ms: 5}\n"
                           "  - {name: ResNet50, zoo: gtx1080ti, rate_rps: 300}\n"
                           "  - {name: slow, zoo: a100, model: ResNet50, rate_rps: 1, slo_ms: 500}\n",
                           &file, &err),
                     0);
    assert_int_equal(file.gpus, 4);
    assert_int_equal(file.memory_bytes, 1000 << 20);
    assert_int_equal(file.count, 4);
    assert_string_equal(file.names[0], "A");
    assert_int_equal(file.sessions[0].batch_max, 8);
    assert_int_equal(file.sessions[0].profile->latency_ns[6], 62500000);
    assert_int_equal(file.sessions[0].weights_bytes, 3 << 20);
    assert_int_equal(file.sessions[1].batch_max, 20);
    assert_int_equal(file.sessions[1].slo_ns, 25 * NS_PER_MS);
    assert_int_equal(file.sessions[2].profile->latency_ns[1], 7428000); /* the zoo's 2.050 + 5.378 ms */
    assert_int_equal(file.sessions[3].slo_ns, 500 * NS_PER_MS);
    squishy_file_free(&file);
}

#define PREFIXES                                                                                                       \
    "prefixes:\n"                                                                                                      \
    "  - {name: P, alpha_ms: 1, beta_ms: 5, weights_mib: 90}\n"                                                        \
    "  - {name: Q, alpha_ms: 2, beta_ms: 5}\n"                                                                         \
    "sessions:\n"

/* Two with one SLO are one; the third has another SLO, the fourth another prefix, the fifth none. */
TEST(sessions_with_one_prefix_and_slo_are_one) {
    static const char text[] =
        PREFIXES "  - {name: A, prefix: P, rate_rps: 64, slo_ms: 50, alpha_ms: 0.1, beta_ms: 1, weights_mib: 3}\n"
                 "  - {name: B, prefix: P, rate_rps: 8, slo_ms: 40, alpha_ms: 0.1, beta_ms: 1}\n"
                 "  - {name: C, prefix: Q, rate_rps: 8, slo_ms: 50, alpha_ms: 0.1, beta_ms: 1}\n"
                 "  - {name: D, prefix: P, rate_rps: 16, slo_ms: 50, alpha_ms: 0.1, beta_ms: 2, weights_mib: 4}\n"
                 "  - {name: E, rate_rps: 8, slo_ms: 50, alpha_ms: 1, beta_ms: 5}\n";
    struct squishy_file file;
    struct sy_error err;
    assert_int_equal(parse(text, &file, &err), 0);
    assert_int_equal(file.count, 4);
    assert_string_equal(file.names[0], "A and 1 more");
    assert_int_equal(file.members[0].count, 2);
    assert_string_equal(file.members[0].names[1], "D");
    assert_true(file.sessions[0].rate == 80);
    assert_int_equal(file.sessions[0].weights_bytes, 97 << 20);
    assert_int_equal(file.sessions[0].profile->latency_ns[1], 8100000);  /* 6 + D's 2.1 */
    assert_int_equal(file.sessions[0].profile->latency_ns[2], 10200000); /* 7 + A's 1.1 + D's 2.1 */
    assert_string_equal(file.names[1], "B");
    assert_int_equal(file.sessions[1].profile->latency_ns[1], 7100000);
    assert_int_equal(file.members[1].count, 1);
    squishy_file_free(&file);
    assert_int_equal(parse_as(text, true, &file, &err), 0);
    assert_int_equal(file.count, 5);
    assert_string_equal(file.names[0], "A");
    assert_true(file.sessions[0].rate == 64);
    assert_int_equal(file.sessions[0].weights_bytes, 93 << 20);
    assert_int_equal(file.sessions[3].weights_bytes, 94 << 20);
    squishy_file_free(&file);
}

TEST(mistakes_say_where) {
    static const struct {
        const char *text, *mistake;
    } cases[] = {
        {"gpus: 1\n", "f.yaml:1: 'sessions' is missing"},
        {PREFIXES "  - {name: A, prefix: R, rate_rps: 1, slo_ms: 5, alpha_ms: 1, beta_ms: 1}\n",
         "f.yaml:5: sessions.0.prefix: there is no prefix 'R'"},
        {"prefixes:\n  - {name: P, alpha_ms: 1, beta_ms: 5}\n  - {name: P, alpha_ms: 1, beta_ms: 5}\nsessions: [{}]\n",
         "f.yaml:3: prefixes.1: there are two prefixes 'P'"},
        {"prefixes:\n  - {name: P, alpha_ms: 1, beta_ms: 5, slo_ms: 3}\nsessions: [{}]\n", "slo_ms"},
        {"sessions: []\n", "f.yaml:1: sessions: expected a list of 1 to 10000 sessions"},
        {"sessions:\n  - {name: A, slo_ms: 5, alpha_ms: 1, beta_ms: 1}\n",
         "f.yaml:2: sessions.0: 'rate_rps' is missing"},
        {"sessions:\n  - {rate_rps: 1, slo_ms: 5}\n", "f.yaml:2: sessions.0: 'name' is missing"},
        {"sessions:\n  - {name: A, rate_rps: 1, alpha_ms: 1}\n", "f.yaml:2: sessions.0: 'slo_ms' is missing"},
        {"sessions:\n  - {name: A, rate_rps: 1, slo_ms: 5}\n",
         "f.yaml:2: sessions.0: expected 'alpha_ms' and 'beta_ms', 'latency_ms' or 'zoo'"},
        {"sessions:\n  - {name: A, rate_rps: 1, slo_ms: 5, latency_ms: [[2, 5], [1, 6]]}\n", "f.yaml:2: sessions.0"},
        {"sessions:\n  - {name: A, rate_rps: 1, zoo: a100}\n", "the zoo has no 'A' on 'a100'"},
        {"sessions:\n  - {name: ResNet50, rate_rps: 1, zoo: tpu}\n", "there is no zoo 'tpu'"},
        {"sessions:\n  - {name: ResNet50, rate_rps: 1, zoo: a100, beta_ms: 1}\n", "has a latency already"},
        {"sessions:\n  - {name: ResNet50, rate_rps: 1, zoo: a100}\n  - {name: ResNet50, rate_rps: 1, zoo: a100}\n",
         "f.yaml:3: sessions.1: there are two sessions 'ResNet50'"},
        {"sessions:\n  - {name: A, rate_rps: fast, zoo: a100}\n", "'fast' is not a number"},
        {"sessions:\n  - {name: A, rate_rps: 1, slo_ms: 5, alpha_ms: 1}\n",
         "f.yaml:2: sessions.0: expected 'alpha_ms' and 'beta_ms', 'latency_ms' or 'zoo'"},
        {"sessions:\n  - {name: A, rate_rps: 1, slo_ms: 5, alpha_ms: 0, beta_ms: 0}\n",
         "f.yaml:2: sessions.0: alpha_ms and beta_ms are both 0"},
        {"sessions:\n  - {name: A, rate_rps: 1, slo_ms: 5, alpha_ms: 1, beta_ms: 1, latency_ms: [[1, 2]]}\n",
         "f.yaml:2: sessions.0.latency_ms: a table excludes alpha_ms and beta_ms"},
        {"sessions:\n  - {name: A, rate_rps: 1, slo_ms: 5, alpha_ms: 1, beta_ms: 1, model: ResNet50}\n",
         "f.yaml:2: sessions.0.model: goes with 'zoo'"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct squishy_file file;
        struct sy_error err;
        assert_true(parse(cases[i].text, &file, &err) < 0);
        if (!strstr(err.text, cases[i].mistake))
            fail_msg("'%s' does not say '%s'", err.text, cases[i].mistake);
    }
}
