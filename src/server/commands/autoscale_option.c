/* autoscale_option.c - reads the keys of --autoscale and their values. */
#include "server/commands/autoscale_option.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/util/container.h"
#include "core/util/time.h"
#include "server/commands/options.h"
#include "server/models/accelerators.h"

#define EVERY_S_LEAST 1 /* the main thread, which looks at the load, wakes once a second */

enum key { KEY_MIN, KEY_MAX, KEY_HEADROOM, KEY_EVERY, KEY_START_DELAY };

static const struct {
    const char *name;
    double least, most;
} keys[] = {
    [KEY_MIN] = {"min", 0, ACCELERATORS_MAX},        [KEY_MAX] = {"max", 1, ACCELERATORS_MAX},
    [KEY_HEADROOM] = {"headroom", 0, 0.9},           [KEY_EVERY] = {"every_s", EVERY_S_LEAST, 86400},
    [KEY_START_DELAY] = {"start_delay_s", 0, 86400},
};

int autoscale_option_read(const char *text, struct autoscale_config *config, struct sy_error *err) {
    char copy[512], *rest = copy;
    if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
        return error_set(err, -EINVAL, "the text is too long");
    while (rest) {
        char *name = strsep(&rest, ","), *equals = strchr(name, '=');
        struct sy_error why;
        double value = 0;
        int64_t whole = 0;
        unsigned key = 0;
        if (!equals)
            return error_set(err, -EINVAL, "'%s': expected KEY=VALUE", name);
        *equals = '\0';
        while (key < ARRAY_COUNT(keys) && strcmp(keys[key].name, name) != 0)
            key++;
        if (key == ARRAY_COUNT(keys))
            return error_set(err, -EINVAL, "unknown key '%s': expected min, max, headroom, every_s or start_delay_s",
                             name);
        double least = keys[key].least, most = keys[key].most;
        int rc = key == KEY_MIN || key == KEY_MAX
                     ? options_read_int(equals + 1, (int64_t)least, (int64_t)most, &whole, &why)
                     : options_read_double(equals + 1, least, most, &value, &why);
        if (rc < 0)
            return error_set(err, -EINVAL, "%s: %s", name, why.text);
        switch (key) {
        case KEY_MIN:
            config->min = (uint32_t)whole;
            break;
        case KEY_MAX:
            config->max = (uint32_t)whole;
            break;
        case KEY_HEADROOM:
            config->headroom = value;
            break;
        case KEY_EVERY:
            config->every_ns = (int64_t)(value * (double)NS_PER_S);
            break;
        case KEY_START_DELAY:
            config->start_delay_ns = (int64_t)(value * (double)NS_PER_S);
            break;
        }
    }
    if (config->min > config->max)
        return error_set(err, -EINVAL, "min %u is more than max %u", config->min, config->max);
    return 0;
}

struct autoscale_config autoscale_of_scenario(const struct scenario_autoscale *s) {
    struct autoscale_config config = scenario_autoscale_config(s);
    int64_t least_ns = EVERY_S_LEAST * NS_PER_S;
    config.every_ns = config.every_ns > least_ns ? config.every_ns : least_ns;
    return config;
}
