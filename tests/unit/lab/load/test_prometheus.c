/* test_prometheus.c - samples out of Prometheus' text format. */
#include "lab/load/prometheus.h"

#include <stdio.h>
#include <string.h>

#include "unit/test.h"

/* The label's value, and whether it is that text; NULL: there is no such label. */
static void assert_label(const struct prometheus_sample *sample, const char *label, const char *text) {
    size_t length = 0;
    const char *value = prometheus_label(sample, label, &length);
    assert_int_equal(value != NULL, text != NULL);
    if (text) {
        assert_int_equal(length, strlen(text));
        assert_memory_equal(value, text, length);
    }
}

TEST(samples_come_one_by_one) {
    const char *text = "# HELP a what it is\n"
                       "# TYPE a counter\n"
                       "\n"
                       "a 7\n"
                       "b_sum{model=\"m\",le=\"+Inf\"} 1.5e3 1700000000\n"
                       "b_count{} \t-2\n"
                       "c{model=\"m\"} NaN";
    struct prometheus_sample s;
    assert_true(prometheus_next(&text, &s));
    assert_true(prometheus_named(&s, "a", "") && s.value == 7);
    assert_label(&s, "model", NULL);
    assert_true(prometheus_next(&text, &s));
    assert_true(prometheus_named(&s, "b_sum", "") && prometheus_named(&s, "b", "_sum") && s.value == 1500);
    assert_false(prometheus_named(&s, "b", "") || prometheus_named(&s, "b_su", "") ||
                 prometheus_named(&s, "b", "_sums"));
    assert_label(&s, "model", "m");
    assert_label(&s, "le", "+Inf");
    assert_label(&s, "l", NULL);
    assert_label(&s, "m", NULL); /* a value */
    assert_true(prometheus_next(&text, &s));
    assert_true(prometheus_named(&s, "b_count", "") && s.value == -2);
    assert_true(prometheus_next(&text, &s));
    assert_true(prometheus_named(&s, "c", "") && s.value != s.value);
    assert_false(prometheus_next(&text, &s));
    assert_false(prometheus_next(&text, &s));
}

TEST(values_may_have_any_characters) {
    const char *text = "a{model=\"{x}, y\",trap=\"y=\",other=\"2\"} 3\n"
                       "a{path=\"C:\\\\\",quoted=\"say \\\"}\\\"\"} 4\n";
    struct prometheus_sample s;
    assert_true(prometheus_next(&text, &s));
    assert_true(s.value == 3);
    assert_label(&s, "model", "{x}, y");
    assert_label(&s, "other", "2");
    assert_label(&s, "y", NULL);
    assert_true(prometheus_next(&text, &s));
    assert_true(s.value == 4);
    assert_label(&s, "path", "C:\\\\"); /* as it is written */
}

TEST(other_lines_are_skipped) {
    static const char *const lines[] = {"",    "a",    "a{",  "a{model=\"m\"", "a{model=\"m\"}", "a{model=\"m} 5",
                                        "a x", " a 5", "{} 5"};
    for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char text[64];
        const char *at = text;
        struct prometheus_sample s;
        snprintf(text, sizeof(text), "%s\n 3\nlast 1\n", lines[i]);
        assert_true(prometheus_next(&at, &s));
        assert_true(prometheus_named(&s, "last", "") && s.value == 1);
    }
}

TEST(labels_are_found_among_names) {
    static const char *const names[] = {"m", "model", "mode"};
    const char *text = "a{x=\"1\",model=\"mode\"} 1\na{model=\"mod\"} 1\na{x=\"m\"} 1\n";
    struct prometheus_sample s;
    assert_true(prometheus_next(&text, &s));
    assert_int_equal(prometheus_label_among(&s, "model", names, 3), 2);
    assert_int_equal(prometheus_label_among(&s, "model", names, 2), 2); /* none */
    assert_true(prometheus_next(&text, &s));
    assert_int_equal(prometheus_label_among(&s, "model", names, 3), 3);
    assert_true(prometheus_next(&text, &s));
    assert_int_equal(prometheus_label_among(&s, "model", names, 3), 3);
}
