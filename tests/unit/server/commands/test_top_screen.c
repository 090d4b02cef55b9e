/* test_top_screen.c - a server's state as a screen: what fits, what is left out, what is said. */
#include "server/commands/top_screen.h"

#include <string.h>

#include "core/util/container.h"
#include "unit/test.h"

static const char text[] =
    "{\"version\":\"1\",\"policy\":\"deferred\",\"state\":\"ready\",\"uptime_s\":3700,\"in_flight\":3,"
    "\"connections\":2,\"advice\":{\"serving\":1,\"needed\":2.3,\"wanted\":3},"
    "\"all\":{\"rate\":100,\"good\":50,\"late\":10,\"refused\":40,\"failed\":0},"
    "\"models_count\":3,\"models_matching\":3,\"models\":["
    "{\"name\":\"a-model-with-a-name-that-is-much-too-long-to-be-shown\",\"state\":\"ready\",\"rate\":100,\"good\":50,"
    "\"late\":10,\"refused\":40,\"failed\":0,\"slo_ms\":50,\"queued\":7,\"batch\":3.5,\"run_ms\":12.5,\"busy\":0.357,"
    "\"queue_ms\":{\"p50\":1,\"p99\":30},\"latency_ms\":{\"p50\":20,\"p99\":49},"
    "\"refused_by\":{\"queue_full\":{\"per_s\":1,\"total\":3},\"deadline\":{\"per_s\":39,\"total\":90}}},"
    "{\"name\":\"b\",\"state\":\"ready\",\"rate\":123456,\"good\":123456,\"late\":0,\"refused\":0,\"failed\":0},"
    "{\"name\":\"c\",\"state\":\"unavailable\",\"reason\":\"no accelerator\",\"rate\":0,\"good\":0}],"
    "\"types\":[{\"type\":\"cpu\",\"count\":2,\"serving\":1,\"running\":1,\"busy\":0.5,\"batches_rate\":10}],"
    "\"accelerators\":[{\"number\":0,\"type\":\"cpu\",\"state\":\"serving\",\"busy\":1,"
    "\"runs\":{\"model\":\"b\",\"items\":4,\"for_ms\":2}},{\"number\":1,\"type\":\"cpu\",\"state\":\"gone\",\"busy\":0}"
    "],"
    "\"cluster\":{\"role\":\"scheduler\",\"leads\":true,\"links\":[{\"name\":\"back\",\"role\":\"backend\","
    "\"round_trip_us\":80,\"clock_error_us\":12,\"late\":3,\"lost\":0},"
    "{\"name\":\"1\"},{\"name\":\"2\"},{\"name\":\"3\"},{\"name\":\"4\"},{\"name\":\"5\"},{\"name\":\"6\"},"
    "{\"name\":\"far\",\"role\":\"backend\",\"late\":1,\"lost\":7}]}}";

static json_t *state_of(void) {
    json_t *now = json_loads(text, 0, NULL);
    assert_non_null(now);
    return now;
}

TEST(nothing_is_wider_or_longer_than_the_screen) {
    json_t *now = state_of();
    static const int widths[] = {20, 40, 80, 120, 200}, heights[] = {3, 8, 12, 40};
    for (unsigned w = 0; w < ARRAY_COUNT(widths); w++)
        for (unsigned h = 0; h < ARRAY_COUNT(heights); h++) {
            const struct top_view view = {
                .columns = widths[w], .rows = heights[h], .accelerators = true, .note = "a note"};
            struct text out = {0};
            top_screen_put(&out, now, &view);
            int rows = 0;
            for (const char *at = text_end(&out); at; rows++) {
                const char *end = strchr(at, '\n');
                assert_true((end ? end - at : (long)strlen(at)) <= widths[w]);
                at = end ? end + 1 : NULL;
            }
            assert_int_equal(rows, heights[h]);
            text_free(&out);
        }
    json_decref(now);
}

TEST(what_matters_is_said) {
    json_t *now = state_of();
    struct text out = {0};
    const struct top_view view = {.columns = 160, .accelerators = true};
    assert_int_equal(top_screen_put(&out, now, &view), 3);
    const char *screen = text_end(&out);
    static const char *const said[] = {
        "up 1h1m",
        "leads a cluster",
        "100 requests/s: 50 good (50.0%), 10 late, 40 refused, 0 failed",
        "accelerators: 2.3 needed by the load, 1 in service; there should be 3",
        "[||||||||||          ]  50%  1 of 2 in service, 1 run, 10 batches/s",
        "b (4) for 2 ms",
        "gone",
        "backend   back",
        "round trip 80 us, clock within 12 us; 3 requests late, 0 lost",
        "1 requests late, 7 lost\nbackend   back", /* the worst comes first */
        "... and 2 more links",
        "a-model-with-a-name-that-is-much-too ",
        "123k",
        "  deadline",
        "  no accelerator",
    };
    for (unsigned i = 0; i < ARRAY_COUNT(said); i++)
        if (!strstr(screen, said[i]))
            fail_msg("'%s' is not in:\n%s", said[i], screen);
    assert_null(strchr(screen, '\033'));
    text_free(&out);
    json_decref(now);
}

TEST(a_narrow_screen_keeps_what_is_most_important) {
    json_t *now = state_of();
    struct text out = {0};
    const struct top_view view = {.columns = 40, .rows = 30, .first = 1};
    assert_int_equal(top_screen_put(&out, now, &view), 2);
    assert_non_null(strstr(text_end(&out), " RATE/s GOOD% REFUS/s"));
    assert_null(strstr(text_end(&out), "QUEUED"));
    assert_null(strstr(text_end(&out), "a-model"));
    text_free(&out);
    json_decref(now);
}

TEST(many_accelerators_leave_room_for_models) {
    json_t *now = state_of();
    struct text out = {0};
    const struct top_view view = {.columns = 100, .rows = 17, .accelerators = true};
    json_t *one = json_incref(json_array_get(json_object_get(now, "accelerators"), 0));
    for (int i = 0; i < 10; i++)
        json_array_append(json_object_get(now, "accelerators"), one);
    json_object_set_new(now, "accelerators_count", json_integer(10000));
    assert_int_equal(top_screen_put(&out, now, &view), 2);
    assert_non_null(strstr(text_end(&out), "  ... and 9995 more\n"));
    json_decref(one);
    text_free(&out);
    json_decref(now);
}

TEST(colours_say_what_is_bad) {
    json_t *now = state_of();
    struct text out = {0};
    const struct top_view view = {.columns = 120, .rows = 30, .colours = true};
    top_screen_put(&out, now, &view);
    assert_non_null(strstr(text_end(&out), "\033[31ma-model"));
    assert_non_null(strstr(text_end(&out), "\033[31mc "));
    text_free(&out);
    json_decref(now);
}

TEST(lines_have_keys) {
    json_t *now = state_of();
    struct text out = {0};
    top_lines_put(&out, now, "NOW");
    assert_ptr_equal(strstr(text_end(&out),
                            "NOW all needed=2.3 serving=1 rate=100 good=50 late=10 refused=40 failed=0\n"
                            "NOW model=a-model"),
                     out.data);
    assert_non_null(strstr(text_end(&out), "queued=7 batch=3.5 busy=0.357 slo_ms=50 p50_ms=20 p99_ms=49\n"));
    text_free(&out);
    json_decref(now);
}
