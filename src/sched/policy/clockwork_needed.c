/* clockwork_needed.c - how many accelerators the load of `clockwork` needs: those that the rates of the last seconds
 * would keep busy in batches as large as SLOs and rates allow. The time that accelerators are busy does not show this
 * number, because Clockwork lets free accelerators run small batches. */
#include "sched/policy/clockwork.h"

#include "core/util/time.h"

#define LOOK_NS NS_PER_S
#define WEIGHT  0.2  /* weight of the last second in a rate */
#define NOTHING 0.01 /* items a second of all models up to which there is no load: a rest of rates that decay */

/* Least accelerator time that an item of the model takes, over the types; 0: the model runs on no type. */
static double item_ns(const struct clockwork_model *model, uint32_t types) {
    double least_ns = 0;
    for (uint32_t t = 0; t < types; t++) {
        const struct profile *table = model->tables[t];
        double ns = table ? profile_item_ns(table, model->batch_max, model->slo_ns, model->rate) : 0;
        least_ns = ns > 0 && (least_ns <= 0 || ns < least_ns) ? ns : least_ns;
    }
    return least_ns;
}

void clockwork_needed_look(struct clockwork *c, int64_t now_ns) {
    if (!c->needed_at_ns)
        c->needed_at_ns = now_ns;
    int64_t passed_ns = now_ns - c->needed_at_ns;
    if (passed_ns < LOOK_NS)
        return;
    double seconds = (double)passed_ns / (double)NS_PER_S, weight = WEIGHT * seconds < 1 ? WEIGHT * seconds : 1;
    weight = c->needed_known ? weight : 1;
    double needed_ns = 0, rates = 0;
    for (uint32_t m = 0; m < c->model_count; m++) {
        struct clockwork_model *model = &c->models[m];
        model->rate += weight * ((double)model->items / seconds - model->rate);
        model->items = 0;
        rates += model->rate;
        if (model->rate > 0)
            needed_ns += model->rate * item_ns(model, c->types);
    }
    c->needed = rates > NOTHING ? needed_ns / (double)NS_PER_S : 0;
    c->needed_known |= rates > 0;
    c->needed_at_ns = now_ns;
}

int64_t clockwork_needed_due_ns(const struct clockwork *c) {
    return c->needed > 0 ? c->needed_at_ns + LOOK_NS : TIME_NEVER;
}
