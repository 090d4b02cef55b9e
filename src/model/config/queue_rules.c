/* queue_rules.c - reads dynamic_batching, and says what follows for a request. */
#include "model/config/queue_rules.h"

#include <string.h>

#define TIMEOUT_US_MAX (24 * 3600 * 1000000LL) /* a day; a longer timeout counts as a day */

static int number_read(const char *origin, const struct pbtxt_node *message, const char *field, int64_t least,
                       int64_t most, int64_t *value, struct sy_error *err) {
    const struct pbtxt_node *node = pbtxt_find(message, field);
    return node ? pbtxt_get_int(origin, node, least, most, value, err) : 0;
}

/* Reads a ModelQueuePolicy into a rule. */
static int rule_read(const char *origin, const struct pbtxt_node *policy, struct queue_rule *rule,
                     struct sy_error *err) {
    const struct pbtxt_node *action = pbtxt_find(policy, "timeout_action");
    int64_t timeout_us = 0, queue_max = 0;
    int rc = number_read(origin, policy, "default_timeout_microseconds", 0, INT64_MAX, &timeout_us, err);
    if (!rc)
        rc = number_read(origin, policy, "max_queue_size", 0, UINT32_MAX, &queue_max, err);
    *rule = (struct queue_rule){
        .timeout_ns = (timeout_us < TIMEOUT_US_MAX ? timeout_us : TIMEOUT_US_MAX) * NS_PER_US,
        .may_shorten = pbtxt_flag(pbtxt_find(policy, "allow_timeout_override")),
        .delay = action && strcmp(action->text, "DELAY") == 0,
        .queue_max = (uint32_t)queue_max,
    };
    return rc;
}

static int priorities_read(const char *origin, const struct pbtxt_node *batching, struct queue_rules *rules,
                           struct sy_error *err) {
    int64_t levels = 0, usual = 0;
    const struct pbtxt_node *node = pbtxt_find(batching, "priority_levels");
    int rc = number_read(origin, batching, "priority_levels", 0, PRIORITIES_MAX, &levels, err);
    if (!rc)
        rc = number_read(origin, batching, "default_priority_level", 0, INT64_MAX, &usual, err);
    if (rc)
        return rc;
    if (levels && (usual < 1 || usual > levels)) {
        const struct pbtxt_node *at = pbtxt_find(batching, "default_priority_level");
        return pbtxt_error(origin, at ? at : node, err,
                           "default_priority_level: with %lld priority_levels it must be given, 1 to %lld",
                           (long long)levels, (long long)levels);
    }
    rules->priorities = (uint32_t)levels;
    rules->priority_default = (uint32_t)usual;
    return 0;
}

/* Reads the policies: the default policy is for all priorities; priority_queue_policy has other policies for some. */
static int policies_read(const char *origin, const struct pbtxt_node *batching, struct queue_rules *rules,
                         struct sy_error *err) {
    const struct pbtxt_node *usual = pbtxt_find(batching, "default_queue_policy");
    int rc = usual ? rule_read(origin, usual, &rules->rules[0], err) : 0;
    for (uint32_t i = 1; i < PRIORITIES_MAX; i++)
        rules->rules[i] = rules->rules[0];
    for (const struct pbtxt_node *entry = pbtxt_find(batching, "priority_queue_policy"); entry && !rc;
         entry = pbtxt_next(entry)) {
        const struct pbtxt_node *value = pbtxt_find(entry, "value");
        int64_t key = 0;
        rc = number_read(origin, entry, "key", 0, INT64_MAX, &key, err);
        if (!rc && (key < 1 || key > rules->priorities))
            rc =
                pbtxt_error(origin, entry, err, "priority_queue_policy: there is no priority level %lld (there are %u)",
                            (long long)key, rules->priorities);
        if (!rc && value)
            rc = rule_read(origin, value, &rules->rules[key - 1], err);
    }
    return rc;
}

static int sizes_read(const char *origin, const struct pbtxt_node *batching, int64_t batch_max,
                      struct queue_rules *rules, struct sy_error *err) {
    for (const struct pbtxt_node *node = pbtxt_find(batching, "preferred_batch_size"); node; node = pbtxt_next(node)) {
        int64_t size;
        int rc = pbtxt_get_int(origin, node, 1, INT32_MAX, &size, err);
        if (!rc && batch_max > 0 && size > batch_max)
            rc = pbtxt_error(origin, node, err, "preferred_batch_size: %lld is more than max_batch_size, %lld",
                             (long long)size, (long long)batch_max);
        if (rc)
            return rc;
        uint32_t at = 0;
        while (at < rules->preferred_count && rules->preferred[at] < size)
            at++;
        if (at < rules->preferred_count && rules->preferred[at] == size)
            continue;
        if (rules->preferred_count == PREFERRED_MAX)
            return pbtxt_error(origin, node, err, "preferred_batch_size: more than %d sizes", PREFERRED_MAX);
        memmove(&rules->preferred[at + 1], &rules->preferred[at], (rules->preferred_count++ - at) * sizeof(uint32_t));
        rules->preferred[at] = (uint32_t)size;
    }
    return 0;
}

int queue_rules_read(const char *origin, const struct pbtxt_node *batching, int64_t batch_max,
                     struct queue_rules *rules, struct sy_error *err) {
    int64_t wait_us = -1;
    *rules = (struct queue_rules){.priorities = 0};
    int rc = number_read(origin, batching, "max_queue_delay_microseconds", 0, INT64_MAX, &wait_us, err);
    if (!rc)
        rc = sizes_read(origin, batching, batch_max, rules, err);
    if (!rc)
        rc = priorities_read(origin, batching, rules, err);
    if (!rc)
        rc = policies_read(origin, batching, rules, err);
    rules->wait_none = wait_us == 0;
    rules->wait_ns = wait_us > 0 ? (wait_us < TIMEOUT_US_MAX ? wait_us : TIMEOUT_US_MAX) * NS_PER_US : 0;
    rules->preserve_ordering = pbtxt_flag(pbtxt_find(batching, "preserve_ordering"));
    return rc;
}

uint8_t queue_rules_priority(const struct queue_rules *rules, uint64_t asked) {
    if (rules->priorities == 0)
        return 0;
    return (uint8_t)((asked >= 1 && asked <= rules->priorities ? asked : rules->priority_default) - 1);
}

int64_t queue_rules_timeout(const struct queue_rules *rules, uint8_t priority, int64_t asked_ns, int64_t slo_ns) {
    const struct queue_rule *rule = &rules->rules[priority];
    if (rule->timeout_ns == 0)
        return asked_ns > 0 ? asked_ns : slo_ns;
    return rule->may_shorten && asked_ns > 0 && asked_ns < rule->timeout_ns ? asked_ns : rule->timeout_ns;
}

bool queue_rules_limited(const struct queue_rules *rules) {
    bool limited = false;
    for (uint32_t i = 0; i < PRIORITIES_MAX; i++)
        limited |= rules->rules[i].queue_max > 0;
    return limited;
}

uint32_t queue_rules_delays(const struct queue_rules *rules) {
    uint32_t delays = 0;
    for (uint32_t i = 0; i < PRIORITIES_MAX; i++)
        delays |= (uint32_t)rules->rules[i].delay << i;
    return delays;
}
