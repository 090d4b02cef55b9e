/* engine.h - an engine runs batches: a table of functions for each engine (onnxruntime, emulated).
 *
 * One executor thread opens and closes an engine instance, and runs its models. Meanwhile one other thread at a time
 * may load a model, run it until that thread hands the model over to the executor thread, and unload a model that it
 * got back. signature() is for any thread, one at a time. A run is synchronous: it returns when the outputs are
 * there. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "core/data/output_block.h"
#include "core/data/profile.h"
#include "core/data/tensor.h"
#include "core/util/error.h"
#include "model/engine/op_libraries.h"
#include "model/engine/transform.h"

struct engine;       /* instance of an engine for one accelerator */
struct engine_model; /* model that is loaded in an instance */

struct engine_options {
    const char *provider;  /* execution provider: "cpu", "cuda"; the emulated engine ignores it */
    int device;            /* number of the GPU; 0 for cpu */
    bool busy_poll;        /* emulated engine: whether it spins instead of sleeping */
    const char *cache_dir; /* folder for optimised models where the model's own folder cannot be written; may be NULL */
    bool pages_weights;    /* whether models are to be paged out and in, where the engine can */
    bool private_weights;  /* whether files of weights that others may write are copied before they are loaded
                              (private_copy.h). Not set in child processes, who may die of such files */
};

struct engine_model_source {
    const char *name;
    const char *path;                  /* path of the model file; NULL for an emulated model */
    const struct signature *signature; /* completed signature; outlives the loaded model */
    const struct profile *profile;     /* latencies of runs, for the emulated engine; others ignore it */
    uint32_t batch_max;                /* greatest batch; larger ones may be refused */
    bool original;                     /* whether to load the model's own file even if there is an optimised one */
    /* libraries with the model's own operators; NULL: none. A model with libraries has no optimised copy, which could
     * hold what an earlier library computed */
    const struct op_libraries *libraries;
};

/* Inputs on which an optimised copy of a model is tried. */
struct engine_trial {
    struct tensor_view inputs[TENSORS_MAX];
    uint32_t items;
};

struct engine_ops {
    const char *name;
    /* Version of the engine, e.g. "1.31.1"; part of a profile's key. NULL for engines without files. */
    const char *(*version)(void);
    /* Opens an instance for one accelerator, on the executor's thread. The engine pins threads that it starts to that
     * thread's cores. */
    int (*open)(struct engine **engine, const struct engine_options *options, struct sy_error *err);
    void (*close)(struct engine *engine);
    int (*load)(struct engine *engine, const struct engine_model_source *source, struct engine_model **model,
                struct sy_error *err);
    void (*unload)(struct engine_model *model);
    /* Of a model that is to come back: page_out() gives the memory of its weights back, and the model stays open, but
     * must not run until page_in() has read them again, which takes a fraction of load(). -ENOSPC: too many models are
     * paged out, unload some of them; other errors, with a sentence of page_in(): it can only be unloaded. The thread
     * that loads. Both NULL: the engine cannot. */
    int (*page_out)(struct engine_model *model);
    int (*page_in)(struct engine_model *model, struct sy_error *err);
    /* Runs one batch. `inputs`, in the signature's order, are tensors of the whole batch with their real dims (dims[0]
     * = items when batched); optional inputs may have no data. On success *outputs holds one reference. An error is the
     * model's or the engine's: its sentence goes to the clients of this batch. The engine stays usable, unless no model
     * runs any more (back/executor/executor_membership.c). */
    int (*run)(struct engine_model *model, const struct tensor_view *inputs, uint32_t items,
               struct output_block **outputs, struct sy_error *err);
    /* For engines that emulate accelerators: as run(), but without waiting. The outputs are valid once run_ns have
     * passed; until then the caller keeps the accelerator occupied. So one thread can emulate many accelerators. NULL:
     * the engine really runs batches. */
    int (*emulate)(struct engine_model *model, uint32_t items, struct output_block **outputs, int64_t *run_ns,
                   struct sy_error *err);
    /* Reads inputs and outputs from the file, optional inputs behind the others; NULL for engines without files.
     * `libraries` as in engine_model_source. -EINVAL with the engine's reason. */
    int (*signature)(const char *path, const struct op_libraries *libraries, struct signature_room *room,
                     struct sy_error *err);
    /* Makes an optimised copy with which later loads of the model are faster, in the form `attempt` (0 is the best
     * one). Runs the copy and the model itself on the trials, and leaves a note for load() whether to use the copy. The
     * first trial must run; others that the model itself refuses are skipped. It may crash, so it is for child
     * processes; after a crash or an error, try the next attempt. *made names the form that was chosen. -ENOENT: there
     * is no such attempt (the last one notes that nothing is to be used). NULL for engines without files. */
    int (*cache)(struct engine *engine, const struct engine_model_source *source, const struct engine_trial *trials,
                 uint32_t trial_count, uint32_t attempt, const char **made, struct sy_error *err);
    /* Makes a run() in progress, and all later ones, fail soon, until go_on(), which is called while nothing runs. For
     * any thread that knows that the model stays loaded meanwhile. A run may not notice it in the middle of one
     * operator. An engine has both functions, or NULL for both: its runs cannot be stopped. */
    void (*stop)(struct engine_model *model);
    void (*go_on)(struct engine_model *model);
    /* The size to which a batch of `items` is padded, for models that run only at some sizes. The size stays the same
     * as long as the model is loaded. NULL: every batch is run as it is. The thread that loaded the model. */
    uint32_t (*padded)(const struct engine_model *model, uint32_t items);
    /* Allocates host memory for inputs, from which the accelerator takes them faster than from other memory. It returns
     * NULL if there is no such memory. Both functions are NULL for engines that never have any. The executor's thread
     * allocates; any thread may free, while the engine is open. */
    void *(*memory)(struct engine *engine, size_t bytes);
    void (*memory_free)(struct engine *engine, void *memory);
    /* Functions for models that prepare inputs; NULL for engines without files. */
    const struct transform_ops *transforms;
};

extern const struct engine_ops engine_emulated;
#ifdef SYMPHONY_HAVE_ONNXRUNTIME
extern const struct engine_ops engine_onnxruntime;
extern const struct transform_ops transform_onnxruntime;
#endif

/* Host memory that the runs of all models of the process may take together, in bytes: what their operators work in, and
 * their outputs until these are sent. A run that would need more fails. Weights do not count. 0, as at the beginning:
 * no limit. With a limit all models share an arena. Then the memory that a model's runs needed is given back only by a
 * later run of another model, once the first is unloaded; and executors on other NUMA nodes may get memory that is far
 * from them. Set it before an engine is opened. */
#define RUN_MEMORY_SHARED (UINT64_MAX / 2) /* all models share an arena, which has no limit */
void engine_run_memory_set(uint64_t bytes);
uint64_t engine_run_memory(void);

/* All engines of this build; NULL ends the list. */
extern const struct engine_ops *const engines[];
/* The engine `name`; NULL: this build has no such engine. */
const struct engine_ops *engine_find(const char *name);
