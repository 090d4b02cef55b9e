/* prepare.h - gives served models their profiles: from the file in symphony.yaml, from the cache, or by measuring. */
#pragma once

#include "model/profile/child.h"

/* The SLO of a model whose settings give none: the greatest of 10 times the latency of a lone item (without batching
 * nine others may be ahead), twice the latency of the best batch (one batch runs while the next one waits), and 25 ms,
 * below which client and network matter more than the server. Rounded up to whole milliseconds. Pure. */
int64_t profile_default_slo_ns(const struct profile *profile);

/* Finds the cached record of a model, if it is still valid: it has the same file, engine version and accelerator type;
 * an item and a greatest batch that meet what is asked for now; and the same model_warmup samples, which ran then. 0;
 * -ENOENT: there is no record; -ESTALE: there is a record that is not valid, and a sentence says why. A file that is no
 * profile is logged, and -ENOENT. Another -errno with a sentence: the model could not be read. */
int profile_cached(const struct served_model *model, const struct profile_options *options,
                   struct profile_record *record, struct sy_error *err);

/* Completes a model that the repository found (MODEL_LOADING), and makes *profile, its allocated table for one
 * accelerator type. Fills contents, signature, reference_dims, item_elements, batch_max and, if it is 0, slo_ns, which
 * is slo_chosen then; the state stays MODEL_LOADING. On failure the model becomes MODEL_UNAVAILABLE with the reason,
 * but for -EINTR: stopped; and -EAGAIN: it is to be measured, and options->cached forbids that;
 * -EBUSY: the model's files kept changing while it was being measured. `record` may be NULL; *measured says whether the
 * model was measured now. For several accelerator types, make one call for each; batch_max becomes the least. */
int profile_prepare(struct served_model *model, const struct profile_options *options,
                    struct profile_progress *progress, struct profile_record *record, struct profile **profile,
                    bool *measured);

/* Calls profile_prepare() for every model that is MODEL_LOADING and runs on accelerators of this type (model->on), one
 * after the other. profiles[i] is NULL for other models and for those that failed. Returns the number of models that
 * have a profile; -EINTR: stopped. */
int profile_prepare_all(struct served_model *models, uint32_t count, uint32_t type,
                        const struct profile_options *options, struct profile **profiles);
