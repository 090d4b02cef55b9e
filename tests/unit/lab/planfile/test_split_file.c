/* test_split_file.c - a query's stages from YAML, and what mistakes say. */
#include <string.h>

#include "core/util/time.h"
#include "lab/planfile/split_file.h"
#include "unit/test.h"

static int parse(const char *text, struct split_file *file, struct sy_error *err) {
    struct conf_node *document;
    int rc = conf_read_text("f.yaml", text, strlen(text), &document, err);
    return rc ? rc : split_file_read(document, file, err);
}

TEST(a_query_is_read) {
    struct split_file file;
    struct sy_error err;
    assert_int_equal(parse("slo_ms: 400\n"
                           "rate_rps: 10\n"
                           "turns: 2\n"
                           "stages:\n"
                           "  - {name: detect, alpha_ms: 20, beta_ms: 27}\n"
                           "  - {name: car, after: [detect], items: 2.5, latency_ms: [[1, 4.2], [16, 20]]}\n"
                           "  - {name: face, after: [detect], zoo: gtx1080ti, model: VGG16, max_batch: 3}\n"
                           "  - {name: both, after: [car, face], items: 0, alpha_ms: 1, beta_ms: 1}\n",
                           &file, &err),
                     0);
    assert_int_equal(file.slo_ns, 400 * NS_PER_MS);
    assert_int_equal(file.count, 4);
    assert_string_equal(file.names[1], "car");
    assert_true(file.rate_rps == 10 && file.stages[0].rate == 10 && file.stages[1].rate == 25);
    assert_true(file.stages[3].rate == 0 && file.stages[3].turns == 2);
    assert_int_equal(file.stages[0].batch_max, 18); /* 387 ms */
    assert_int_equal(file.stages[1].batch_max, 16);
    assert_int_equal(file.stages[2].batch_max, 3);
    assert_int_equal(file.stages[0].after, 0);
    assert_int_equal(file.stages[2].after, 1);
    assert_int_equal(file.stages[3].after, 6);
    split_file_free(&file);
}

#define HEAD "slo_ms: 50\nrate_rps: 1\nstages:\n"
#define A    "  - {name: A, alpha_ms: 1, beta_ms: 1}\n"

TEST(mistakes_say_where) {
    static const struct {
        const char *text, *mistake;
    } cases[] = {
        {"slo_ms: 1\nrate_rps: 1\n", "f.yaml:1: 'stages' is missing"},
        {"rate_rps: 1\nstages:\n" A, "f.yaml:1: 'slo_ms' is missing"},
        {"slo_ms: 1\nstages:\n" A, "f.yaml:1: 'rate_rps' is missing"},
        {"slo_ms: 50\nrate_rps: 1\nturns: 0.5\nstages:\n" A, "f.yaml:3: turns"},
        {"slo_ms: 50\nrate_rps: 1\nstages: []\n", "f.yaml:3: stages: expected a list of 1 to 64 stages"},
        {HEAD "  - {alpha_ms: 1, beta_ms: 1}\n", "f.yaml:4: stages.0: 'name' is missing"},
        {HEAD "  - {name: A}\n", "f.yaml:4: stages.0: expected 'alpha_ms' and 'beta_ms', 'latency_ms' or 'zoo'"},
        {HEAD "  - {name: A, alpha_ms: 1, beta_ms: 1, slo_ms: 5}\n", "f.yaml:4: stages.0"},
        {HEAD A A, "f.yaml:5: stages.1: there are two stages 'A'"},
        {HEAD A "  - {name: B, alpha_ms: 1, beta_ms: 1, after: A}\n",
         "f.yaml:5: stages.1.after: expected a list of the names of stages"},
        {HEAD A "  - {name: B, alpha_ms: 1, beta_ms: 1, after: [B]}\n",
         "f.yaml:5: stages.1.after.0: there is no stage 'B' before this one"},
        {HEAD A "  - {name: B, alpha_ms: 1, beta_ms: 1, after: [[A]]}\n", "f.yaml:5: stages.1.after.0: expected"},
        {HEAD A "  - {name: B, alpha_ms: 1, beta_ms: 1, items: -1}\n", "f.yaml:5: stages.1.items"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct split_file file;
        struct sy_error err = {""};
        assert_int_not_equal(parse(cases[i].text, &file, &err), 0);
        if (!strstr(err.text, cases[i].mistake))
            fail_msg("'%s', not '%s'", err.text, cases[i].mistake);
    }
}
