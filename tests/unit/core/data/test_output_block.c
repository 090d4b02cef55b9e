/* test_output_block.c - outputs live until the last reference to them is dropped. */
#include "core/data/output_block.h"
#include "core/util/container.h"
#include "unit/cmocka_all.h"

struct counted {
    struct output_block block;
    int released;
};

static void count(struct output_block *block) {
    container_of(block, struct counted, block)->released++;
}

static void the_last_reference_releases(void **state) {
    (void)state;
    struct counted outputs = {.block = {.references = 3, .release = count}};
    output_block_put(&outputs.block);
    output_block_put(&outputs.block);
    assert_int_equal(outputs.released, 0);
    output_block_put(&outputs.block);
    assert_int_equal(outputs.released, 1);
    output_block_put(NULL);
}

static void a_failure_keeps_its_own_copy_of_the_sentence(void **state) {
    (void)state;
    char sentence[] = "it broke";
    struct output_block *block = output_block_failed(sentence);
    assert_non_null(block);
    sentence[0] = 'I';
    assert_string_equal(block->failure, "it broke");
    assert_int_equal(block->output_count, 0);
    output_block_put(block); /* AddressSanitizer sees whether it frees everything */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_reference_releases),
        cmocka_unit_test(a_failure_keeps_its_own_copy_of_the_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
