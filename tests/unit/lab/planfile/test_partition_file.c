/* test_partition_file.c - models and sub-clusters from YAML, and what mistakes say. */
#include <math.h>
#include <string.h>

#include "lab/planfile/partition_file.h"
#include "unit/test.h"

static int parse(const char *text, struct partition_file *file, struct sy_error *err) {
    struct conf_node *document;
    int rc = conf_read_text("f.yaml", text, strlen(text), &document, err);
    return rc ? rc : partition_file_read(document, file, err);
}

TEST(all_keys_are_read) {
    struct partition_file file;
    struct sy_error err;
    assert_int_equal(parse("subclusters: 3\n"
                           "max_rate_rps: 100.5\n"
                           "max_memory_mb: 2000\n"
                           "memory_weight: 0.5\n"
                           "max_move_cost: 7\n"
                           "models:\n"
                           "  - {name: A, rate_rps: 64, static_mb: 20, dynamic_mb: 3, current: 2, move_cost: 1.5}\n"
                           "  - {name: B, rate_rps: 0}\n",
                           &file, &err),
                     0);
    const struct partition_problem *p = &file.problem;
    assert_int_equal(p->subclusters, 3);
    assert_int_equal(p->models, 2);
    assert_true(p->max_rate == 100.5 && p->max_memory_mb == 2000 && p->memory_weight == 0.5 && p->max_move_cost == 7);
    assert_string_equal(file.names[1], "B");
    assert_true(p->model[0].rate == 64 && p->model[0].static_mb == 20 && p->model[0].dynamic_mb == 3 &&
                p->model[0].move_cost == 1.5 && p->model[0].current == 2);
    assert_true(p->model[1].rate == 0 && p->model[1].static_mb == 0 && p->model[1].move_cost == 1 &&
                p->model[1].current == PARTITION_NONE);
    partition_file_free(&file);
    assert_int_equal(parse("subclusters: 1\nmodels: [{name: A, rate_rps: 1}]\n", &file, &err), 0);
    assert_true(isinf(p->max_rate) && isinf(p->max_memory_mb) && isinf(p->max_move_cost) && p->memory_weight == 1);
    partition_file_free(&file);
}

TEST(mistakes_say_where) {
    static const struct {
        const char *text, *mistake;
    } cases[] = {
        {"models: [{name: A, rate_rps: 1}]\n", "f.yaml:1: 'subclusters' is missing"},
        {"subclusters: 2\n", "f.yaml:1: 'models' is missing"},
        {"subclusters: 2\nmodels: []\n", "f.yaml:2: models: expected a list of 1 to 100000 models"},
        {"subclusters: 2\nmodels:\n  - {name: A}\n", "f.yaml:3: models.0: 'rate_rps' is missing"},
        {"subclusters: 2\nmodels:\n  - {rate_rps: 1}\n", "f.yaml:3: models.0: 'name' is missing"},
        {"subclusters: 2\nmodels:\n  - {name: A, rate_rps: 1, current: 2}\n",
         "f.yaml:3: models.0.current: there are 2 sub-clusters, numbered from 0"},
        {"subclusters: 2\nmodels: [{name: A, rate_rps: 1}, {name: A, rate_rps: 2}]\n",
         "f.yaml:2: models: there are two models 'A'"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct partition_file file;
        struct sy_error err;
        assert_true(parse(cases[i].text, &file, &err) < 0);
        assert_string_equal(err.text, cases[i].mistake);
    }
}
