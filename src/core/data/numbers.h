/* numbers.h - the numberings of models that meet in the threads, each with a type of its own.
 *
 * A number of one numbering is as good an index as that of another, so a mix-up reads another model, and nobody
 * notices. Where numberings meet - in messages, in the wiring, in the shells of the cores - a number therefore has a
 * type with one member, which costs nothing, and the compiler refuses another one. Inside a core, and in a loop over an
 * array, an index is a plain uint32_t. */
#pragma once

#include <stdint.h>

/* A place for a served model in this process: the number by which all but the cores know the model. Models come and go
 * in places. */
struct place_id {
    uint32_t n;
};

/* A model at the other end of a link between two processes: its number there, which is sent. A backend has one for each
 * of its models, and the scheduler for each place; they are translated from and to places here by the scheduler's and
 * the frontend's link (src/cluster/roles). */
struct remote_id {
    uint32_t n;
};

/* A model among the models of its scheduling thread: an index in the arrays of struct thread_rings. Translated from a
 * place by rings_model_of(). */
struct thread_model_id {
    uint32_t n;
};

/* A variant: a model, or a model with inputs of one shape. Each has a model core, a slot of the board, and a number in
 * the rank cores. Given out by variants_take(), or in a row at the start. */
struct variant_id {
    uint32_t n;
};

/* The variant `i` places after another: a model's variants have numbers in a row. */
static inline struct variant_id variant_next(struct variant_id first, uint32_t i) {
    return (struct variant_id){first.n + i};
}
