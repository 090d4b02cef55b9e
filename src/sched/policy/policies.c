/* policies.c - the table of policies; reads their options. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/util/decimal.h"
#include "sched/core/policy.h"

#define POLICY_LISTED(name) &policy_##name,
const struct policy_ops *policies[POLICIES_MAX + 1] = {POLICIES(POLICY_LISTED)};

int policies_add(const struct policy_ops *policy, struct sy_error *err) {
    for (uint32_t i = 0; i < POLICIES_MAX; i++) {
        if (policies[i] == policy)
            return 0;
        if (policies[i] && strcmp(policies[i]->name, policy->name) == 0)
            return error_set(err, -EINVAL, "there is a policy '%s' already", policy->name);
        if (!policies[i]) {
            policies[i] = policy;
            return 0;
        }
    }
    return error_set(err, -EINVAL, "there are %d policies already", POLICIES_MAX);
}

const struct policy_ops *policy_find(const char *name, struct sy_error *err) {
    char known[256] = "";
    size_t at = 0;
    for (const struct policy_ops **policy = policies; *policy; policy++) {
        if (strcmp((*policy)->name, name) == 0)
            return *policy;
        if (at < sizeof(known))
            at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s", at ? ", " : "", (*policy)->name);
    }
    error_set(err, -EINVAL, "there is no policy '%s' (expected %s)", name, known);
    return NULL;
}

void policy_options_preset(const struct policy_ops *policy, struct policy_options *options) {
    memset(options, 0, sizeof(*options));
    for (uint32_t i = 0; policy->options && policy->options[i].key; i++)
        options->value[i] = policy->options[i].preset;
}

static int flag_read(const char *text, double *value, struct sy_error *err) {
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return error_set(err, -EINVAL, "expected true or false");
    *value = strcmp(text, "true") == 0;
    return 0;
}

static int word_read(const char *const *words, const char *text, double *value, struct sy_error *err) {
    char known[256] = "";
    size_t at = 0;
    for (uint32_t i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0) {
            *value = i;
            return 0;
        }
        if (at < sizeof(known))
            at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s", at ? ", " : "", words[i]);
    }
    return error_set(err, -EINVAL, "expected one of %s", known);
}

static int number_read(const struct policy_option *option, const char *text, double *value, struct sy_error *err) {
    double number;
    if (decimal_double(text, option->least, option->most, &number) < 0 || (option->whole && number != floor(number)))
        return error_set(err, -EINVAL, "expected a %snumber in %g to %g", option->whole ? "whole " : "", option->least,
                         option->most);
    *value = number;
    return 0;
}

int policy_option_read(const struct policy_ops *policy, const char *key, const char *value,
                       struct policy_options *options, struct sy_error *err) {
    char known[512] = "";
    size_t at = 0;
    for (uint32_t i = 0; policy->options && policy->options[i].key; i++) {
        const struct policy_option *option = &policy->options[i];
        if (strcmp(option->key, key) == 0)
            return option->flag    ? flag_read(value, &options->value[i], err)
                   : option->words ? word_read(option->words, value, &options->value[i], err)
                                   : number_read(option, value, &options->value[i], err);
        if (at < sizeof(known))
            at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s", at ? ", " : "", option->key);
    }
    return error_set(err, -EINVAL, "policy %s has no such option (it has %s)", policy->name, at ? known : "none");
}

int policy_read(const char *text, const struct policy_ops **policy, struct policy_options *options,
                struct sy_error *err) {
    char copy[512], *rest = copy;
    if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
        return error_set(err, -EINVAL, "the text is too long");
    char *name = strsep(&rest, ":");
    *policy = policy_find(name, err);
    if (!*policy)
        return -EINVAL;
    policy_options_preset(*policy, options);
    while (rest) {
        char *key = strsep(&rest, ","), *value = strchr(key, '=');
        struct sy_error why;
        if (!value)
            return error_set(err, -EINVAL, "'%s': expected KEY=VALUE", key);
        *value++ = '\0';
        if (policy_option_read(*policy, key, value, options, &why) < 0)
            return error_set(err, -EINVAL, "%s: %s", key, why.text);
    }
    return 0;
}
