/* fuzz_accepted.c - lists of Accept-Encoding from anywhere: some encoding comes of each, the one of the greatest weight
 * whatever stands behind it with a weight of nothing. */
/* runs: 150000 */
#include <stdlib.h>
#include <string.h>

#include "core/util/assert.h"
#include "front/bulk/deflate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char none[] = ",br;q=0,gzip;q=0.000";
    char *list = malloc(size ? size : 1), *longer = malloc(size + sizeof(none));
    memcpy(list, data, size); /* as long as the list: a step beyond is seen */
    memcpy(longer, data, size);
    memcpy(longer + size, none, sizeof(none) - 1);
    enum body_encoding encoding = accepted_encoding(list, size);
    CHECK_LT(encoding, BODY_UNKNOWN);
    CHECK_EQ(accepted_encoding(longer, size + sizeof(none) - 1), encoding);
    free(list);
    free(longer);
    return 0;
}
