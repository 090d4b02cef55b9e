/* test_cli.c - what commands say alike. */
#include "server/commands/cli.h"

#include <math.h>

#include "core/util/container.h"
#include "unit/test.h"

static double figure;

static int figure_print(int argc, char **argv) {
    cli_json_print(json_pack("{s:f}", "figure", figure), JSON_REAL_PRECISION(3));
    return CLI_OK;
}

/* jansson makes no object with it. */
TEST(a_figure_that_is_no_number_is_a_failure) {
    static const struct cli_command command = {"print", "prints", figure_print};
    static const struct cli_command *const commands[] = {&command, NULL};
    char *argv[] = {"symphony", "print", NULL};
    figure = 0.5;
    assert_int_equal(cli_main(2, argv, commands, ""), CLI_OK);
    figure = NAN;
    assert_int_equal(cli_main(2, argv, commands, ""), CLI_FAILURE);
}

TEST(durations_have_two_units) {
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {-1, "0s"},
        {NAN, "0s"},
        {59.9, "59s"},
        {60, "1m0s"},
        {3599, "59m59s"},
        {3600, "1h0m"},
        {86399.5, "23h59m"},
        {86400, "1d0h"},
        {3 * 86400, "3d0h"},
        {266400, "3d2h"},
        {1e300, "11574074d1h"},
        {INFINITY, "11574074d1h"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[CLI_DURATION_BYTES];
        cli_duration_format(cases[i].seconds, text);
        assert_string_equal(text, cases[i].text);
    }
}
