/* test_zoo.c - the built-in table is the published one. */
#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/zoo.h"

TEST(models_are_found) {
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
TEST(the_table_is_the_file) {
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
    assert_int_equal(entry - zoo_entries, 72);
    assert_string_not_equal(entry->source, "symphony");
}

/* Every row of a file with a row a batch. `format` reads model, type, batch and latency, in `unit` milliseconds. */
static void rows_are_points(const char *name, const char *format, bool type_first, double unit, int count) {
    char path[256], line[256], first[64], second[64];
    snprintf(path, sizeof(path), TESTS_DIR "/../data/%s", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    unsigned batch;
    double latency;
    int rows = 0;
    while (fgets(line, sizeof(line), file)) {
        if (line[0] == '#' || sscanf(line, format, first, second, &batch, &latency) != 4)
            continue;
        const struct zoo_entry *entry = type_first ? zoo_find(second, first) : zoo_find(first, second);
        assert_non_null(entry);
        uint32_t i = 0;
        while (i < entry->points && entry->batch[i] != batch)
            i++;
        assert_int_not_equal(i, entry->points);
        assert_true(llabs(entry->latency_ns[i] - (int64_t)(latency * unit * 1e6)) <= 1);
        rows++;
    }
    fclose(file);
    assert_int_equal(rows, count);
}

TEST(the_points_are_the_files) {
    rows_are_points("kairos_latency_profiles.csv", "%63[^,],%63[^,],%u,%*[^,],%*[^,],%*[^,],%*[^,],%lf", true, 1, 2000);
    rows_are_points("nexus_test_profiles_titanx.csv", "%63[^,],%63[^,],%u,%lf", false, 1e-3, 883);
}

TEST(every_entry_belongs_to_a_zoo) {
    int zoos[5] = {0};
    static const char *const sources[] = {"symphony", "clockwork", "kairos", "nexus", "nexus-example"};
    for (const struct zoo_entry *entry = zoo_entries; entry->model; entry++) {
        assert_ptr_equal(zoo_find(entry->model, entry->type), entry);
        assert_string_equal(zoo_type_source(entry->type), entry->source);
        assert_true(entry->points || entry->alpha_ms > 0);
        for (uint32_t i = 1; i < entry->points; i++)
            assert_true(entry->batch[i] > entry->batch[i - 1] && entry->latency_ns[i] > 0);
        for (int i = 0; i < 5; i++)
            zoos[i] += strcmp(entry->source, sources[i]) == 0;
    }
    static const int counts[] = {72, 6, 20, 4, 3};
    assert_memory_equal(zoos, counts, sizeof(counts));
    assert_string_equal(zoo_named("Kairos")->type, "g4dn.xlarge");
    assert_null(zoo_named("h100"));
    assert_false(zoo_entry_in(zoo_find("rm2", "t3.xlarge"), "t3.xlarge", ZOO_GT2));
    assert_true(zoo_price("r5n.large") == 0.149 && zoo_price("a100") == 0);
}
