/* test_accelerators.c - what --accelerators takes and refuses. */
#include <string.h>

#include "server/models/accelerators.h"
#include "unit/test.h"

TEST(test_good) {
    struct accelerator_group g[4];
    struct sy_error err;
    assert_int_equal(accelerators_parse("cpu", g, 4, &err), 1);
    assert_int_equal(g[0].kind, ACCELERATOR_CPU);
    assert_int_equal(g[0].count, 1);
    assert_string_equal(g[0].type, "cpu");
    assert_int_equal(accelerators_parse("cuda:2,cpu:3,emulated:8:gtx1080ti,emulated", g, 4, &err), 4);
    assert_int_equal(g[0].kind, ACCELERATOR_CUDA);
    assert_int_equal(g[0].count, 2);
    assert_int_equal(g[1].count, 3);
    assert_int_equal(g[2].count, 8);
    assert_string_equal(g[2].type, "gtx1080ti");
    assert_string_equal(g[3].type, "emulated");
    assert_int_equal(accelerators_parse("cuda:1:a10,cpu:2:epyc", g, 4, &err), 2);
    assert_int_equal(g[0].kind, ACCELERATOR_CUDA);
    assert_string_equal(g[0].type, "a10");
    assert_int_equal(g[1].kind, ACCELERATOR_CPU);
    assert_int_equal(g[1].count, 2);
    assert_string_equal(g[1].type, "epyc");
}

TEST(test_bad) {
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "KIND"},
        {"tpu:1", "tpu"},
        {"cpu:0", "'0'"},
        {"cpu:x", "'x'"},
        {"cpu:-1", "-1"},
        {"cpu:1,", "KIND"},
        {"cpu:1,cpu:2", "twice"},
        {"cpu:2000", "2000"},
        {"cpu:1:", "a type of"},
        {"emulated:1:", "a type of"},
        {"cpu:1x", "1x"},
        {"cpu,cuda,emulated", "more than 2"},
        {"cpu:1:a,cpu:1:b", "cpu is given twice"},
        {"cpu:1:a,cuda:1:a", "'a' are given twice"},
    };
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct accelerator_group g[2];
        struct sy_error err = {.text = ""};
        assert_true(accelerators_parse(rows[i].text, g, 2, &err) < 0);
        if (!strstr(err.text, rows[i].says))
            fail_msg("'%s' gave \"%s\"", rows[i].text, err.text);
    }
}
