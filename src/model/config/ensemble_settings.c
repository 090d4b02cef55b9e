/* ensemble_settings.c - adds to an ensemble what symphony.yaml says of its steps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/config/ensemble.h"
#include "model/config/symphony_yaml.h"

static int __attribute__((format(printf, 4, 5)))
setting_error(const struct symphony_yaml *yaml, const struct symphony_yaml_step *setting, struct sy_error *err,
              const char *fmt, ...) {
    char sentence[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    return error_set(err, -EINVAL, "%s:%u: steps.%u: %.400s", yaml->path, setting->line,
                     (unsigned)(setting - yaml->steps), sentence);
}

/* Finds the step of a number, or the only step that runs the model of a name. */
static int step_find(const struct ensemble *e, const struct symphony_yaml *yaml,
                     const struct symphony_yaml_step *setting, struct ensemble_step **step, struct sy_error *err) {
    bool number = strspn(setting->step, "0123456789") == strlen(setting->step);
    uint64_t written = number ? strtoull(setting->step, NULL, 10) : 0;
    *step = NULL;
    for (uint32_t s = 0; s < e->step_count; s++) {
        struct ensemble_step *one = &e->steps[s];
        if (number ? one->written != written : strcmp(one->model, setting->step) != 0)
            continue;
        if (*step)
            return setting_error(yaml, setting, err, "step: '%s' is the model of steps %u and %u; give a number",
                                 setting->step, (*step)->written < one->written ? (*step)->written : one->written,
                                 (*step)->written < one->written ? one->written : (*step)->written);
        *step = one;
    }
    if (*step)
        return 0;
    return setting_error(yaml, setting, err,
                         "step: the ensemble has no step '%s' (expected a model's name, or 1 to %u)", setting->step,
                         e->step_count);
}

bool ensemble_step_takes(const struct ensemble_step *step, uint32_t tensor) {
    for (uint32_t i = 0; i < step->input_count; i++)
        if (step->inputs[i].tensor == tensor)
            return true;
    return false;
}

void ensemble_when(const struct ensemble *e, struct ensemble_step *step, uint32_t tensor) {
    step->when = tensor;
    if (e->tensors[tensor].step != ENSEMBLE_NONE)
        step->after |= (uint64_t)1 << e->tensors[tensor].step;
}

int ensemble_finish(struct ensemble *e, struct sy_error *err) {
    /* A tensor that nobody takes, which Triton calls unused, is refused: most often its name is misspelt. */
    for (uint32_t t = 0; t < e->tensor_count; t++) {
        const struct ensemble_tensor *tensor = &e->tensors[t];
        bool taken = tensor->output != ENSEMBLE_NONE;
        for (uint32_t s = 0; s < e->step_count && !taken; s++)
            taken = e->steps[s].when == t || ensemble_step_takes(&e->steps[s], t);
        if (taken)
            continue;
        if (tensor->step == ENSEMBLE_NONE)
            return pbtxt_error(e->path, tensor, err, "input '%s': no step takes it", tensor->name);
        const struct ensemble_step *step = &e->steps[tensor->step];
        const struct ensemble_flow *flow = &step->outputs[tensor->place];
        return ensemble_step_error(e, step, flow->line, flow->column, err,
                                   "it gives '%s', which no step takes and which is no output of the ensemble",
                                   tensor->name);
    }
    return ensemble_sort(e, err);
}

int ensemble_settings(struct ensemble *e, const struct symphony_yaml *yaml, struct sy_error *err) {
    for (uint32_t i = 0; i < yaml->step_count; i++) {
        const struct symphony_yaml_step *setting = &yaml->steps[i];
        struct ensemble_step *step;
        int rc = step_find(e, yaml, setting, &step, err);
        if (rc)
            return rc;
        if (step->each != ENSEMBLE_NONE || step->when != ENSEMBLE_NONE)
            return setting_error(yaml, setting, err, "step %u (%s) is given twice", step->written, step->model);
        if (setting->for_each[0]) {
            uint32_t tensor = ensemble_tensor_find(e, setting->for_each);
            if (tensor == ENSEMBLE_NONE || !ensemble_step_takes(step, tensor))
                return setting_error(yaml, setting, err, "for_each: '%s' is no tensor that step %u (%s) takes",
                                     setting->for_each, step->written, step->model);
            step->each = tensor;
            step->each_most = setting->limit ? (uint32_t)setting->limit : ENSEMBLE_EACH;
            step->beyond = setting->beyond;
        }
        if (setting->when[0]) {
            uint32_t tensor = ensemble_tensor_find(e, setting->when);
            if (tensor == ENSEMBLE_NONE)
                return setting_error(yaml, setting, err, "when: the ensemble has no tensor '%s'", setting->when);
            ensemble_when(e, step, tensor);
        }
    }
    return ensemble_finish(e, err);
}
