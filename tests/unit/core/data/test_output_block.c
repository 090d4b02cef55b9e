/* test_output_block.c - outputs live until the last reference to them is dropped. */
#include "core/data/output_block.h"
#include "core/util/container.h"
#include "unit/test.h"

struct counted {
    struct output_block block;
    int released;
};

static void count(struct output_block *block) {
    container_of(block, struct counted, block)->released++;
}

TEST(the_last_reference_releases) {
    struct counted outputs = {.block = {.references = 3, .release = count}};
    output_block_put(&outputs.block);
    output_block_put(&outputs.block);
    assert_int_equal(outputs.released, 0);
    output_block_put(&outputs.block);
    assert_int_equal(outputs.released, 1);
    output_block_put(NULL);
}

TEST(a_failure_keeps_its_own_copy_of_the_sentence) {
    char sentence[] = "it broke";
    struct output_block *block = output_block_failed(sentence);
    assert_non_null(block);
    sentence[0] = 'I';
    assert_string_equal(block->failure, "it broke");
    assert_int_equal(block->output_count, 0);
    output_block_put(block); /* AddressSanitizer sees whether it frees everything */
}
