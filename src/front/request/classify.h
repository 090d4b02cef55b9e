/* classify.h - turns outputs into the classes with the highest scores, as Triton's classification extension does:
 * strings "score:index" or, where the model has labels, "score:index:label", highest first.
 *
 * The index is the element's within its item. Scores are written as C's %f and %d write them. Equal scores are in the
 * order of their indices, NaN is below all others. Pure but for memory. */
#pragma once

#include "core/util/text.h"
#include "front/request/infer_call.h"

/* Bounds, so that one answer cannot hold up all others: the elements of an item that are sorted (as in Triton), and the
 * classes of all items together (0.3 us each). */
#define CLASSIFY_ELEMENTS_MAX 1000000
#define CLASSIFY_CLASSES_MAX  262144

/* Writes into `text` the classes that the call asks for (infer_call_classify()), from the batch's outputs;
 * infer_output_slice() then answers with them. `labels`: the labels of each output of the signature. The text must stay
 * until the call is answered. 0; -EINVAL: the outputs are not what the signature says; -E2BIG: more elements or classes
 * than the bounds above; -ENOMEM. */
int classify_outputs(struct infer_call *call, const struct served_model *model, struct labels *const *labels,
                     const struct tensor_view *outputs, uint32_t output_count, uint32_t first_item, struct text *text,
                     struct sy_error *err);
