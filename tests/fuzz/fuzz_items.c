/* fuzz_items.c - an ONNX model from anywhere: whether its items stay apart, for which its graph is walked. */
/* runs: 500000 */
#include <stdint.h>
#include <string.h>

#include "core/util/assert.h"
#include "model/onnx/items.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PATH "/nonexistent/model.onnx" /* so that no file of weights is found */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct onnx_graph graph;
    struct sy_error why = {""};
    if (onnx_graph_parse(PATH, data, size, &graph, &why))
        return 0;
    why.text[0] = '\0';
    enum items_verdict verdict = items_walk(&graph, &why);
    CHECK(verdict == ITEMS_APART || strlen(why.text) > 0); /* it says why */
    onnx_graph_free(&graph);
    return 0;
}
