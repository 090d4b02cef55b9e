/* test_link_report.c - what a link shows on the metrics page, and when it is copied. */
#include "cluster/peer/link_report.h"

#include <stdlib.h>

#include "cluster/peer/health.h"
#include "core/util/time.h"
#include "unit/test.h"

static struct peer peer = {.bytes_in = 10, .bytes_out = 20};

static void fill(struct link_report *report, const struct link_totals *totals, int64_t now_ns) {
    struct health health;
    int64_t until_ns = TIME_NEVER;
    health_init(&health, NS_PER_S, now_ns);
    assert_true(link_report_begin(report, now_ns, &until_ns));
    link_report_add(report, "a \"b\"", ROLE_BACKEND, 7, &peer, &health, now_ns);
    link_report_end(report, totals);
}

TEST(test_page_of_a_frontend) {
    struct link_report report;
    struct text out = {0};
    const uint64_t lost[LOST_REASONS] = {[LOST_BACKEND] = 4};
    link_report_init(&report);
    peer.tally = link_tally_of(&report.tallies, ROLE_BACKEND, "a \"b\"");
    assert_int_equal(link_tally_of(&report.tallies, ROLE_FRONTEND, "a \"b\""), peer.tally + 1);
    assert_int_equal(link_tally_of(&report.tallies, ROLE_BACKEND, "a \"b\""), peer.tally);
    link_report_count(&report, peer.tally, LINK_LOST, 6);
    fill(&report, &(struct link_totals){.role = ROLE_FRONTEND, .ready = true, .term = 3, .lost = lost, .again = 5}, 0);
    peer.tally = 0;
    link_report_render(&report, &out);
    const char *page = text_end(&out);
    assert_non_null(strstr(page, "\nsymphony_cluster_connected 1\n"));
    assert_non_null(strstr(page, "\nsymphony_cluster_term 3\n"));
    assert_non_null(strstr(page, "\nsymphony_cluster_requests_lost_total{reason=\"backend\"} 4\n"));
    assert_non_null(strstr(page, "\nsymphony_cluster_requests_sent_again_total 5\n"));
    assert_non_null(strstr(page, "\nsymphony_cluster_peers{role=\"backend\"} 1\n"));
    assert_non_null(strstr(page, "\nsymphony_cluster_peers{role=\"scheduler\"} 0\n"));
    assert_non_null(strstr(page, "\nsymphony_cluster_link_sent_bytes_total{role=\"backend\",peer=\"a \\\"b\\\"\","
                                 "number=\"7\"} 20\n"));
    assert_non_null(
        strstr(page, "\nsymphony_cluster_link_lost_requests_total{role=\"backend\",peer=\"a \\\"b\\\"\"} 6\n"));
    assert_non_null(
        strstr(page, "\nsymphony_cluster_link_pulled_requests_total{role=\"backend\",peer=\"a \\\"b\\\"\"} 0\n"));
    assert_null(strstr(page, "peer=\"others\""));
    assert_null(strstr(page, "symphony_cluster_pulls_given_up_total"));
    assert_null(strstr(page, "round_trip_seconds{")); /* the clock is not known yet */
    text_free(&out);
    link_report_free(&report);
}

TEST(test_ready) {
    struct link_report report;
    link_report_init(&report);
    assert_false(link_report_ready(&report));
    struct text out = {0};
    link_report_render(&report, &out); /* nothing was ever copied */
    assert_false(out.failed);
    text_free(&out);
    fill(&report, &(struct link_totals){.role = ROLE_BACKEND, .ready = true}, 0);
    assert_true(link_report_ready(&report));
    fill(&report, &(struct link_totals){.role = ROLE_BACKEND}, NS_PER_S);
    assert_false(link_report_ready(&report));
    link_report_free(&report);
}

/* Copies are made four times a second, and later if somebody reads. */
TEST(test_when_it_is_copied) {
    struct link_report report;
    int64_t until_ns = TIME_NEVER;
    link_report_init(&report);
    fill(&report, &(struct link_totals){.role = ROLE_BACKEND}, NS_PER_S);
    assert_false(link_report_begin(&report, NS_PER_S + 1, &until_ns));
    assert_int_equal(until_ns, NS_PER_S + NS_PER_S / 4);
    pthread_mutex_lock(&report.lock);
    assert_false(link_report_begin(&report, until_ns, &until_ns));
    pthread_mutex_unlock(&report.lock);
    until_ns = TIME_NEVER;
    assert_true(link_report_begin(&report, 2 * NS_PER_S, &until_ns));
    assert_int_equal(until_ns, 2 * NS_PER_S + NS_PER_S / 4);
    link_report_end(&report, &(struct link_totals){.role = ROLE_BACKEND});
    link_report_free(&report);
}

TEST(test_models) {
    static struct served_model model = {.name = "a", .version = 2, .slo_ns = 5},
                               lax = {.name = "b", .version = 1, .slo_ns = 5, .best_effort = true};
    struct link_report report;
    int64_t until_ns = TIME_NEVER;
    uint32_t count = 7;
    link_report_init(&report);
    free(link_report_models(&report, &count));
    assert_int_equal(count, 0);
    for (int64_t at_ns = 0; at_ns <= NS_PER_S; at_ns += NS_PER_S) { /* the second copy takes the place of the first */
        assert_true(link_report_begin(&report, at_ns, &until_ns));
        assert_true(link_report_models_begin(&report, 2));
        link_report_add_model(&report, 4, &lax, true);
        link_report_add_model(&report, 9, &model, false);
        link_report_models_end(&report);
        link_report_end(&report, &(struct link_totals){.role = ROLE_SCHEDULER});
    }
    assert_true(link_report_begin(&report, 2 * NS_PER_S, &until_ns)); /* one without models changes none */
    link_report_end(&report, &(struct link_totals){.role = ROLE_SCHEDULER});
    struct link_model *models = link_report_models(&report, &count);
    assert_int_equal(count, 2);
    assert_int_equal(models[0].place, 9);
    assert_string_equal(models[0].name, "a");
    assert_int_equal(models[0].version, 2);
    assert_int_equal(models[0].slo_ns, 5);
    assert_int_equal(models[1].slo_ns, 0);
    assert_false(models[0].stranded);
    assert_true(models[1].stranded);
    free(models);
    link_report_free(&report);
}

TEST(test_places) {
    static struct served_model models[] = {{.name = "b", .version = 1},
                                           {.name = "a", .version = 2},
                                           {.name = "c", .version = 1},
                                           {.name = "a", .version = 1}};
    struct link_report report;
    int64_t until_ns = TIME_NEVER;
    uint32_t place = 77;
    link_report_init(&report);
    assert_false(link_report_place(&report, "a", 1, &place));
    for (uint32_t count = 1; count <= ARRAY_COUNT(models); count++) {
        assert_true(link_report_begin(&report, count * NS_PER_S, &until_ns));
        assert_true(link_report_models_begin(&report, count));
        for (uint32_t i = 0; i < count; i++)
            link_report_add_model(&report, i, &models[i], false);
        link_report_models_end(&report);
        link_report_end(&report, &(struct link_totals){.role = ROLE_SCHEDULER});
        for (uint32_t i = 0; i < ARRAY_COUNT(models); i++) {
            place = 77;
            assert_int_equal(link_report_place(&report, models[i].name, models[i].version, &place), i < count);
            assert_int_equal(place, i < count ? i : 77);
        }
        assert_false(link_report_place(&report, "c", 2, &place));
        assert_false(link_report_place(&report, "", 0, &place));
    }
    link_report_free(&report);
}
