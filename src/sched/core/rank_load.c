/* rank_load.c - the sub-cluster's load, and the parameters that the policy derives from it.
 *
 * Models report their rates while requests come, and the rates of silent models decay here. Every 10 ms while events
 * come, models and types of accelerators are divided into classes that have their load in common (load_classes.h), and
 * the policy derives each class's parameters. */
#include <string.h>

#include "core/util/fmath.h"
#include "sched/core/arrival_rates.h"
#include "sched/core/rank_core_state.h"

#define PARAMETERS_EVERY_NS (10 * NS_PER_MS)
#define SLOW_NS             (RATE_SLOW_S * NS_PER_S) /* time constants of the models' rates */
#define FAST_NS             (RATE_FAST_S * NS_PER_S)

/* A model's rates as of now: the model reports while requests come, and its rates decay in silence. */
static struct model_rates rates_at(const struct model_rates *reported, int64_t now_ns) {
    struct model_rates rates = *reported;
    double silent_ns = (double)(now_ns - reported->at_ns);
    if (rates.rate <= 0 || silent_ns < 2 * (double)PARAMETERS_EVERY_NS)
        return rates;
    rates.rate *= fmath_exp(-silent_ns / SLOW_NS);
    double fast = fmath_exp(-silent_ns / FAST_NS);
    rates.rate_fast *= fast;
    rates.arrivals_fast *= fast;
    rates.at_ns = now_ns;
    return rates;
}

void rank_rates_store(struct rank_core *core, uint32_t model, const struct model_rates *rates) {
    core->rates[model] = *rates;
    if (core->model[model].reports)
        return;
    core->model[model].reports = true;
    core->model[model].class = core->class_silent;
    uint32_t i = core->reporting_count++;
    for (; i > 0 && core->reporting[i - 1] > model; i--)
        core->reporting[i] = core->reporting[i - 1];
    core->reporting[i] = model;
}

void rank_rates_forget(struct rank_core *core, uint32_t model) {
    core->admit_share[model] = 1;
    if (!core->model[model].reports)
        return;
    core->model[model].reports = false;
    core->rates[model] = (struct model_rates){.rate = 0};
    uint32_t i = 0;
    while (core->reporting[i] != model)
        i++;
    memmove(core->reporting + i, core->reporting + i + 1, (--core->reporting_count - i) * sizeof(*core->reporting));
}

/* Brings the models' rates up to date, sums up the models' loads, and divides the models into classes. */
static void rates_update(struct rank_core *core, int64_t now_ns) {
    double run_ns = (double)(TIME_NEVER / 2);
    core->needed = 0;
    core->thread_busy = 0;
    load_classes_begin(&core->classes, core->types);
    for (uint32_t i = 0; i < core->reporting_count; i++) {
        const struct model_rates *reported = &core->rates[core->reporting[i]];
        struct model_rates rates = rates_at(reported, now_ns);
        double pace = core->model[core->reporting[i]].pace;
        rates.alpha_ns *= pace; /* the load is what batches take, not what tables allow them */
        rates.beta_ns *= pace;
        core->rates_now[i] = rates;
        if (now_ns - reported->at_ns < SLOW_NS && rates.thread_busy > core->thread_busy)
            core->thread_busy = rates.thread_busy;
        run_ns = rank_best_effort_run_most(&rates, run_ns);
        double load = model_rates_load(&rates);
        core->needed += load;
        load_classes_add(&core->classes, rates.runs_on, load);
    }
    double since_ns = (double)(now_ns - core->needed_at_ns);
    core->needed_ns +=
        core->needed * (since_ns < SLOW_NS ? since_ns : SLOW_NS); /* rates say nothing of an earlier time */
    core->needed_at_ns = now_ns;
    core->best_effort_run_ns = run_ns > 0 ? (int64_t)run_ns : 0;
    load_classes_divide(&core->classes, core->up_of_type);
    for (uint32_t i = 0; i < core->reporting_count; i++)
        core->model[core->reporting[i]].class = (uint8_t)load_classes_find(&core->classes, core->rates_now[i].runs_on);
    core->class_silent = (uint8_t)load_classes_find(&core->classes, 0);
}

/* Has the policy derive a class's parameters from its models that report; the other models are silent. */
static void class_derive(struct rank_core *core, uint32_t class) {
    bool only = core->classes.count == 1;
    struct cluster_parameters *parameters = &core->parameters[class];
    struct cluster_view view;
    uint32_t up = 0, count = 0;
    for (uint32_t t = 0; t < core->types; t++)
        up += core->classes.types_of[class] >> t & 1 ? core->up_of_type[t] : 0;
    view.accelerators = up;
    parameters->busy = 0;
    for (uint32_t t = 0; t < core->types; t++)
        if (core->classes.types_of[class] >> t & 1 && up)
            parameters->busy += core->busy_part[t] * ((double)core->up_of_type[t] / up);
    view.busy = parameters->busy;
    view.limited = core->memory && core->memory->limited > 0;
    parameters->serving = up;
    parameters->needed = 0;
    for (uint32_t i = 0; i < core->reporting_count; i++)
        if (only || core->model[core->reporting[i]].class == class)
            parameters->needed += model_rates_load(&core->rates_now[i]);
    if (!core->policy->cluster_derive)
        return;
    for (uint32_t i = 0; i < core->reporting_count; i++) {
        if (!only && core->model[core->reporting[i]].class != class)
            continue;
        if (!only)
            core->class_rates[count] = core->rates_now[i];
        core->class_share[count++] = core->admit_share[core->reporting[i]];
    }
    view.models = count;
    view.rates = only ? core->rates_now : core->class_rates;
    core->policy->cluster_derive(&view, &core->options, parameters, core->class_share);
    count = 0;
    for (uint32_t i = 0; i < core->reporting_count; i++)
        if (only || core->model[core->reporting[i]].class == class)
            core->admit_share[core->reporting[i]] = core->class_share[count++];
}

void rank_load_update(struct rank_core *core, int64_t now_ns, struct rank_output *out) {
    core->parameters_due_ns = now_ns + PARAMETERS_EVERY_NS;
    rates_update(core, now_ns);
    /* The share of their time that accelerators are busy, by type; best effort does not count. */
    double passed_ns = (double)(now_ns - core->parameters_ns);
    for (uint32_t t = 0; t < core->types; t++) {
        if (core->up_of_type[t] > 0 && passed_ns > 0) {
            double part = (double)core->granted_ns[t] / (passed_ns * core->up_of_type[t]);
            core->busy_part[t] += (1 - fmath_exp(-passed_ns / SLOW_NS)) * (part - core->busy_part[t]);
        }
        core->granted_ns[t] = 0;
    }
    core->parameters_ns = now_ns;
    for (uint32_t k = 0; k < core->classes.count; k++) {
        struct cluster_parameters *parameters = &core->parameters[k];
        class_derive(core, k);
        parameters->accelerators = core->up;
        parameters->hop_ns = core->hop_ns;
        parameters->thread_busy = core->thread_busy;
        parameters->way = core->way;
        for (uint32_t t = 0; t < core->types; t++)
            parameters->type_share[t] = core->up ? (float)core->up_of_type[t] / (float)core->up : 0;
    }
    out->parameters_changed = true;
}
