/* onnxruntime_cuda.h - runs of a model on a GPU that were recorded before, as CUDA graphs. For the files onnxruntime*.c
 * only; on the model's thread (cuda.h).
 *
 * ONNX Runtime plans a convolution anew whenever the shape of its input differs from that of the run before. On an
 * H100, planning takes 90 ms for ResNet-50 and 240 ms for DenseNet-121 at every change of the batch size, while running
 * a batch of eight takes 2 and 4 ms. So there are few sizes of batches, and each size has a session of its own. The
 * session's kernels are recorded once, when the model is loaded, and started by one call from then on. One session
 * cannot record several sizes: when it plans for the second size, the library frees the plans of the first one and the
 * kernels that were compiled for them.
 *
 * A batch between two sizes is padded to the larger one: behind its rows are rows of earlier batches, whose outputs are
 * dropped. The sizes are powers of two and the greatest batch. Each session has weights and working memory of its
 * own. */
#pragma once

#include <onnxruntime_c_api.h>

#include "back/engine/cuda.h"
#include "back/engine/onnxruntime_session.h"
#include "core/data/tensor.h"
#include "core/util/error.h"

struct cuda_graphs;

/* Whether a model's runs can be recorded, by its signature: all sizes but that of the batch are known, and
 * no tensor has strings. Whether its operators can be recorded is known when its first session is opened. */
bool cuda_graphs_suit(const struct signature *signature);
/* Records runs of all sizes up to `batch_max`, and at least of one item and of two, where the model has a batch
 * dimension. Each recording takes 0.2 to 1 s. The signature, the environment and the thread outlive the graphs. An
 * error if a size cannot be recorded: some operators do not run on the GPU, or its memory does not suffice. */
int cuda_graphs_open(struct cuda_graphs **graphs, const struct cuda_thread *thread, const OrtApi *api, OrtEnv *env,
                     const struct session_request *request, const struct signature *signature, uint32_t batch_max,
                     struct sy_error *err);
/* NULL is allowed. */
void cuda_graphs_close(struct cuda_graphs *graphs);
/* Runs a batch. The outputs are in host memory and belong to the caller, also after an error; NULL: no output. */
int cuda_graphs_run(struct cuda_graphs *graphs, const struct tensor_view *inputs, uint32_t items, OrtValue **outputs,
                    struct sy_error *err);
/* The size as which a batch of `items` is run; 0: the batch is too large for the graphs. Any thread. */
uint32_t cuda_graphs_size(const struct cuda_graphs *graphs, uint32_t items);
/* `wanted` true: runs that begin from now on fail; false: they work again. Any thread. */
void cuda_graphs_stop(struct cuda_graphs *graphs, bool wanted);
