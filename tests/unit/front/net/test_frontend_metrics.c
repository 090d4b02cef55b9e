/* test_frontend_metrics.c - frontends' counters: summed over those of a protocol, one by one where each has its own. */
#include "unit/test.h"

#include <stdio.h>
#include <string.h>

#include "core/util/histogram.h"
#include "core/util/margin.h"
#include "core/util/time.h"
#include "front/net/frontend_metrics.h"

#define KINDS 3

static const char *letter_of(unsigned kind) {
    static const char *const letters[KINDS] = {"A", "B", "C"};
    return letters[kind];
}

static const struct protocol_metrics one = {.name = "one",
                                            .title = "One",
                                            .answers = "one_answers",
                                            .answers_help = "Answers.",
                                            .answer_label = "status",
                                            .answer_kinds = KINDS,
                                            .dismissed_help = "Dismissed."},
                                     two = {.name = "two",
                                            .title = "Two",
                                            .answers = "two_answers",
                                            .answers_help = "Answers.",
                                            .answer_label = "code",
                                            .answer_kinds = KINDS,
                                            .answer_name = letter_of,
                                            .dismissed_help = "Dismissed."};

/* Two frontends of one protocol, one of the other. */
static _Atomic uint64_t answers[3][KINDS] = {{0, 1, 2}, {0, 10, 20}, {5, 0, 6}};
static struct connection_counters counters[3] = {{.dismissed = 1}, {.dismissed = 2}, {.dismissed = 4}};
static _Atomic uint32_t connections[3] = {10, 20, 40};
static struct margin reply;
static struct frontend_counters frontends[3];

static int set_up(void **state) {
    for (uint32_t f = 0; f < 3; f++)
        frontends[f] = (struct frontend_counters){.protocol = f < 2 ? &one : &two,
                                                  .index = f % 2,
                                                  .reply = f == 1 ? NULL : &reply,
                                                  .answers = answers[f],
                                                  .counters = &counters[f],
                                                  .connections = &connections[f]};
    margin_init(&reply, 5 * NS_PER_US);
    return 0;
}

TEST(sums_of_a_protocol) {
    struct text page = {0};
    frontend_metrics_render_protocols(frontends, 3, &page);
    assert_string_equal(text_end(&page), "# HELP one_answers Answers.\n"
                                         "# TYPE one_answers counter\n"
                                         "one_answers{status=\"1\"} 11\n"
                                         "one_answers{status=\"2\"} 22\n"
                                         "# HELP symphony_one_connections Open One connections.\n"
                                         "# TYPE symphony_one_connections gauge\n"
                                         "symphony_one_connections 30\n"
                                         "# HELP symphony_one_dismissed_total Dismissed.\n"
                                         "# TYPE symphony_one_dismissed_total counter\n"
                                         "symphony_one_dismissed_total 3\n"
                                         "# HELP two_answers Answers.\n"
                                         "# TYPE two_answers counter\n"
                                         "two_answers{code=\"A\"} 5\n"
                                         "two_answers{code=\"C\"} 6\n"
                                         "# HELP symphony_two_connections Open Two connections.\n"
                                         "# TYPE symphony_two_connections gauge\n"
                                         "symphony_two_connections 40\n"
                                         "# HELP symphony_two_dismissed_total Dismissed.\n"
                                         "# TYPE symphony_two_dismissed_total counter\n"
                                         "symphony_two_dismissed_total 4\n");
    text_free(&page);
}

TEST(each_by_itself) {
    static const char margins[] = "symphony_margin_seconds{kind=\"reply\",thread=\"frontend-0\"} %.9g\n"
                                  "symphony_margin_seconds{kind=\"reply\",thread=\"frontend-2\"} %.9g\n";
    double seconds = (double)margin_ns(&reply) / 1e9;
    struct text page = {0};
    char expected[256];
    snprintf(expected, sizeof(expected), margins, seconds, seconds);
    frontend_metrics_render_margins(frontends, 3, &page);
    assert_string_equal(text_end(&page), expected);
    page.length = 0;
    histogram_add(&counters[1].waited_ns, 30 * NS_PER_US);
    frontend_metrics_render_waits(frontends, 3, &page);
    assert_non_null(
        strstr(text_end(&page), "symphony_frontend_wait_seconds_count{protocol=\"one\",frontend=\"0\"} 0\n"));
    assert_non_null(
        strstr(text_end(&page), "symphony_frontend_wait_seconds_count{protocol=\"one\",frontend=\"1\"} 1\n"));
    assert_non_null(
        strstr(text_end(&page), "symphony_frontend_wait_seconds_count{protocol=\"two\",frontend=\"0\"} 0\n"));
    text_free(&page);
}

int main(void) {
    return tests_run(set_up, NULL);
}
