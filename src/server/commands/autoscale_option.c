/* autoscale_option.c - reads the keys of --autoscale and their values. */
#include "server/commands/autoscale_option.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/util/container.h"
#include "core/util/time.h"
#include "server/commands/options.h"
#include "server/process/accelerators.h"

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

static void key_set(enum key key, double value, struct autoscale_config *config) {
    switch (key) {
    case KEY_MIN:
        config->min = (uint32_t)value;
        break;
    case KEY_MAX:
        config->max = (uint32_t)value;
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

static int value_read(enum key key, const char *text, double *value, struct sy_error *err) {
    int64_t whole;
    if (key != KEY_MIN && key != KEY_MAX)
        return options_read_double(text, keys[key].least, keys[key].most, value, err);
    int rc = options_read_int(text, (int64_t)keys[key].least, (int64_t)keys[key].most, &whole, err);
    *value = rc < 0 ? 0 : (double)whole;
    return rc;
}

int autoscale_option_read(const char *text, struct autoscale_config *config, struct sy_error *err) {
    char copy[512], *rest = copy;
    if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
        return error_set(err, -EINVAL, "the text is too long");
    while (rest) {
        char *name = strsep(&rest, ","), *equals = strchr(name, '=');
        struct sy_error why;
        double value;
        unsigned key = 0;
        if (!equals)
            return error_set(err, -EINVAL, "'%s': expected KEY=VALUE", name);
        *equals = '\0';
        while (key < ARRAY_COUNT(keys) && strcmp(keys[key].name, name) != 0)
            key++;
        if (key == ARRAY_COUNT(keys))
            return error_set(err, -EINVAL, "unknown key '%s': expected min, max, headroom, every_s or start_delay_s",
                             name);
        if (value_read((enum key)key, equals + 1, &value, &why) < 0)
            return error_set(err, -EINVAL, "%s: %s", name, why.text);
        key_set((enum key)key, value, config);
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
