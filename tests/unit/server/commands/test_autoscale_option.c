/* test_autoscale_option.c - keys that are read, and mistakes that are named. */
#include "core/util/time.h"
#include "server/commands/autoscale_option.h"
#include "server/models/accelerators.h"
#include "unit/test.h"

TEST(keys_are_read) {
    struct autoscale_config config = autoscale_usual(ACCELERATORS_MAX);
    struct sy_error err;
    assert_int_equal(autoscale_option_read("max=8,headroom=0.25", &config, &err), 0);
    assert_int_equal(config.min, 1);
    assert_int_equal(config.max, 8);
    assert_true(config.headroom == 0.25);
    assert_int_equal(config.every_ns, 10 * NS_PER_S);
    assert_int_equal(config.start_delay_ns, 60 * NS_PER_S);
    assert_int_equal(autoscale_option_read("min=0,every_s=1.5,start_delay_s=0", &config, &err), 0);
    assert_int_equal(config.min, 0);
    assert_int_equal(config.max, 8);
    assert_int_equal(config.every_ns, 3 * NS_PER_S / 2);
    assert_int_equal(config.start_delay_ns, 0);
}

TEST(mistakes_are_named) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "'': expected KEY=VALUE"},
        {"min", "'min': expected KEY=VALUE"},
        {"min=1,", "'': expected KEY=VALUE"},
        {"most=1", "unknown key 'most': expected min, max, headroom, every_s or start_delay_s"},
        {"min=-1", "min: -1 is not in 0 to 65536"},
        {"max=0", "max: 0 is not in 1 to 65536"},
        {"max=1.5", "max: '1.5' is not a whole number"},
        {"headroom=1", "headroom: 1 is not in 0 to 0.9"},
        {"every_s=0.5", "every_s: 0.5 is not in 1 to 86400"},
        {"start_delay_s=nan", "start_delay_s: 'nan' is not a number"},
        {"min=9,max=8", "min 9 is more than max 8"},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct autoscale_config config = autoscale_usual(ACCELERATORS_MAX);
        struct sy_error err;
        assert_true(autoscale_option_read(cases[i].text, &config, &err) < 0);
        assert_string_equal(err.text, cases[i].says);
    }
}

TEST(a_scenario_says_it_too) {
    const struct scenario_autoscale scenario = {
        .enabled = true, .min = 2, .max = 4, .headroom = 0.5, .every_ns = NS_PER_S / 4, .start_delay_ns = 7};
    struct autoscale_config config = autoscale_of_scenario(&scenario);
    assert_int_equal(config.min, 2);
    assert_int_equal(config.max, 4);
    assert_true(config.headroom == 0.5);
    assert_int_equal(config.every_ns, NS_PER_S);
    assert_int_equal(config.start_delay_ns, 7);
}
