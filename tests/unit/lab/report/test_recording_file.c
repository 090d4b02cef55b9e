/* test_recording_file.c - recordings taken apart, and documents that are none. */
#include "lab/report/recording_file.h"

#include <errno.h>
#include <string.h>

#include "core/util/container.h"
#include "unit/test.h"

static const char document[] =
    "symphony recording 1\n"
    "--- server\n"
    "{\"version\":\"1.2\",\"cluster\":true,\"seconds\":12.5,\"requests\":3,\"overwritten\":7,"
    "\"unknown\":1,\"looks\":[[1,10,2,0.5,null,4],[2,20,0,1.5,6,5]]}\n"
    "--- scenario\n"
    "cluster: {}\n"
    "--- trace\n"
    "seconds,model,items,slo_ms,priority\n"
    "0.5,a,1,25,\n"
    "1,b,2,30.5,1\n"
    "1.5,a,1,60000,best_effort\n";

TEST(sections_are_found) {
    struct recording_file f;
    struct sy_error err = {""};
    assert_int_equal(recording_file_read(document, strlen(document), &f, &err), 0);
    assert_string_equal(f.version, "1.2");
    assert_true(f.cluster && f.seconds == 12.5);
    assert_int_equal(f.requests, 3);
    assert_int_equal(f.overwritten, 7);
    assert_int_equal(f.unknown, 1);
    assert_int_equal(f.look_count, 2);
    assert_int_equal(f.looks[0].wanted, -1);
    assert_int_equal(f.looks[1].wanted, 6);
    assert_int_equal(f.looks[1].requests, 20);
    assert_int_equal(f.looks[1].present, 5);
    assert_true(f.looks[0].bad == 2 && f.looks[0].needed == 0.5);
    assert_int_equal(f.scenario_bytes, strlen("cluster: {}\n"));
    assert_memory_equal(f.scenario, "cluster: {}\n", f.scenario_bytes);
    assert_memory_equal(f.trace, "seconds,model", 13);
    assert_int_equal(f.trace + f.trace_bytes - document, strlen(document));
    recording_file_free(&f);
}

static const char *copied(const struct recording_slo *slos, uint32_t count, bool plain, struct text *text) {
    struct recording_file f;
    struct sy_error err;
    assert_int_equal(recording_file_read(document, strlen(document), &f, &err), 0);
    recording_trace_copy(&f, slos, count, plain, text);
    recording_file_free(&f);
    return text_end(text);
}

TEST(slos_are_replaced) {
    static const struct recording_slo slos[] = {{NULL, 12.5}, {"b", 99}};
    struct text text = {0};
    assert_string_equal(copied(NULL, 0, false, &text), strstr(document, "seconds,model"));
    text_free(&text);
    assert_string_equal(copied(slos, 2, false, &text), "seconds,model,items,slo_ms,priority\n"
                                                       "0.5,a,1,12.5,\n"
                                                       "1,b,2,99,1\n"
                                                       "1.5,a,1,60000,best_effort\n");
    text_free(&text);
    assert_string_equal(copied(&slos[1], 1, true, &text), "seconds,model,items,slo_ms,priority\n"
                                                          "0.5,a,1,25,\n"
                                                          "1,b,2,99,\n"
                                                          "1.5,a,1,60000,best_effort\n");
    text_free(&text);
}

TEST(a_scenario_may_be_copied_without_priorities) {
    static const char text[] = "{a: 1, priorities: [1, 1], types: {}}\n{b: 2, priorities: [1]}\n{c: 3, priorities: [";
    struct recording_file f = {.scenario = text, .scenario_bytes = strlen(text)};
    struct text copy = {0};
    recording_scenario_copy(&f, false, &copy);
    assert_string_equal(text_end(&copy), text);
    text_free(&copy);
    recording_scenario_copy(&f, true, &copy);
    assert_string_equal(text_end(&copy), "{a: 1, types: {}}\n{b: 2}\n{c: 3, priorities: [");
    text_free(&copy);
}

TEST(what_is_no_recording_is_refused) {
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"", "expected the first line 'symphony recording 1'"},
        {"symphony recording 2\n--- server\n{}\n--- scenario\n--- trace\n", "expected the first line"},
        {"symphony recording 1\n", "expected a line '--- server'"},
        {"symphony recording 1\n--- server\n{}\n--- trace\n", "expected a line '--- scenario'"},
        {"symphony recording 1\n--- server\n{}\n--- scenario\nx\n", "expected a line '--- trace'"},
        {"symphony recording 1\n--- server\n[1]\n--- scenario\nx\n--- trace\n", "expected an object"},
        {"symphony recording 1\n--- server\n{\"a\":}\n--- scenario\nx\n--- trace\n", "expected an object"},
        {"symphony recording 1\n--- server\n{\"looks\":[[1,2]]}\n--- scenario\nx\n--- trace\n", "expected 6 figures"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct recording_file f;
        struct sy_error err = {""};
        int rc = recording_file_read(cases[i].text, strlen(cases[i].text), &f, &err);
        if (rc != -EINVAL || !strstr(err.text, cases[i].wanted))
            fail_msg("%s: %d %s", cases[i].text, rc, err.text);
        assert_null(f.looks);
    }
}

TEST(extreme_figures_become_none) {
    static const char text[] = "symphony recording 1\n--- server\n"
                               "{\"seconds\":-1,\"requests\":1e300,\"looks\":[[\"x\",-5,1e99,null,-7,1e15]]}\n"
                               "--- scenario\nx\n--- trace\n";
    struct recording_file f;
    struct sy_error err;
    assert_int_equal(recording_file_read(text, strlen(text), &f, &err), 0);
    assert_true(f.seconds == 0 && f.requests == 0 && f.looks[0].requests == 0 && f.looks[0].wanted == 0);
    recording_file_free(&f);
}
