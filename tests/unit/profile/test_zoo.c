/* test_zoo.c - the built-in table is the published one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "profile/zoo.h"

static void models_are_found(void **state) {
    (void)state;
    const struct zoo_entry *entry = zoo_find("ResNet50", "gtx1080ti");
    assert_non_null(entry);
    assert_true(entry->alpha_ms == 2.050 && entry->beta_ms == 5.378 && entry->slo_ms == 27);
    entry = zoo_find("BERT", "A100");
    assert_non_null(entry);
    assert_true(entry->alpha_ms == 7.353 && entry->beta_ms == 0.222 && entry->slo_ms == 59);
    assert_null(zoo_find("ResNet50", "v100"));
    assert_null(zoo_find("resnet50", "a100"));
    assert_true(zoo_has_type("GTX1080TI") && !zoo_has_type(""));
}

/* Every row of the file, read here once more. */
static void the_table_is_the_file(void **state) {
    (void)state;
    FILE *file = fopen(TESTS_DIR "/../data/symphony_model_zoo.csv", "r");
    assert_non_null(file);
    char line[256], model[64], gpu[64];
    double alpha, beta, ratio, slo;
    const struct zoo_entry *entry = zoo_entries;
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%63[^,],%63[^,],%lf,%lf,%lf,%lf", model, gpu, &alpha, &beta, &ratio, &slo) != 6)
            continue;
        assert_non_null(entry->model);
        assert_string_equal(entry->model, model);
        assert_string_equal(entry->type, gpu);
        assert_true(entry->alpha_ms == alpha && entry->beta_ms == beta && entry->slo_ms == slo);
        entry++;
    }
    fclose(file);
    assert_null(entry->model);
    assert_int_equal(entry - zoo_entries, 72);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_found),
        cmocka_unit_test(the_table_is_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
