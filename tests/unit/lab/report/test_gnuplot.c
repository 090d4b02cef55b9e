/* test_gnuplot.c - what gnuplot is given, and what is said when it cannot draw. */
#include "lab/report/gnuplot.h"

#include <errno.h>

#include "unit/lab/report/gnuplot_keeper.h"

TEST(text_is_quoted) {
    char *text;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    gnuplot_quote(to, "it's 'ours'");
    fclose(to);
    assert_string_equal(text, "'it''s ''ours'''");
    free(text);
}

static double quantile(const void *context, double q) {
    return *(const double *)context * q;
}

TEST(latencies_end_at_what_was_answered) {
    char *text;
    size_t length;
    double most = 20;
    const struct gnuplot_curve curves[] = {{.name = "a", .answered = 0.5, .slo_ms = 25, .times = &most},
                                           {.name = "b", .answered = 0, .slo_ms = 25, .times = &most},
                                           {.name = "all", .answered = 0.25, .times = &most, .all = true}};
    FILE *to = open_memstream(&text, &length);
    gnuplot_latencies(to, "it's", "ms", curves, 3, quantile);
    fclose(to);
    assert_memory_equal(text, "$m0 << EOD\n0 0\n0.02 0.0005\n", 27);
    assert_has(text, "\n10 0.25\n");
    assert_has(text, "\n20 0.5\nEOD\n$m1 << EOD\n1 0\nEOD\n");
    assert_has(text, "set title noenhanced 'it''s'\nset xlabel 'ms'\n");
    char *arrow = strstr(text, "set arrow from 25,");
    assert_non_null(arrow);
    assert_null(strstr(arrow + 1, "set arrow")); /* one for models of the same SLO */
    assert_has(text, "plot $m0 with steps linewidth 2 title 'a', $m1 with steps linewidth 2 title 'b', $m2 with steps "
                     "linewidth 3 linecolor 'black' title 'all'\n");
    free(text);
}

TEST(whether_it_can_be_drawn_is_known_before) {
    struct sy_error err;
    char picture[96], kept_text[8] = "";
    keeper_put();
    assert_int_equal(gnuplot_check("/nowhere/p.svg", &err), -ENOENT);
    assert_string_equal(err.text, "--plot: cannot write '/nowhere/p.svg': No such file or directory");
    snprintf(picture, sizeof(picture), "%s/p.svg", folder);
    assert_int_equal(gnuplot_check(picture, &err), 0);
    assert_int_equal(access(picture, F_OK), -1); /* nothing is left where nothing is drawn */
    FILE *file = fopen(picture, "w");
    fputs("before", file);
    fclose(file);
    assert_int_equal(gnuplot_check(picture, &err), 0); /* a picture stays until there is a new one */
    file = fopen(picture, "r");
    assert_int_equal(fread(kept_text, 1, 7, file), 6);
    fclose(file);
    assert_string_equal(kept_text, "before");
    assert_int_equal(unlink(picture), 0);
    assert_int_equal(chmod(program, 0600), 0);
    assert_int_equal(gnuplot_check(picture, &err), -ENOENT);
    assert_has(err.text, "--plot: plots need the program gnuplot, which is not on the PATH");
}

TEST(a_program_that_fails_is_an_error) {
    struct sy_error err;
    program_put("/bin/cat > /dev/null; exit 3");
    FILE *to = gnuplot_open("p.svg", 10, 20, &err);
    assert_non_null(to);
    assert_int_equal(gnuplot_close(to, "p.svg", &err), -EIO);
    assert_string_equal(err.text, "gnuplot could not draw 'p.svg'");
}

/* As on a disk that is full, of which gnuplot says nothing. */
TEST(a_picture_that_breaks_off_is_an_error) {
    struct sy_error err;
    program_put("/bin/cat > /dev/null; echo '<svg> <path' > p.svg");
    FILE *to = gnuplot_open("p.svg", 10, 20, &err);
    assert_int_equal(gnuplot_close(to, "p.svg", &err), -EIO);
    program_put("/bin/cat > /dev/null; echo '<svg> </svg>' > p.svg");
    to = gnuplot_open("p.svg", 10, 20, &err);
    assert_int_equal(gnuplot_close(to, "p.svg", &err), 0);
}

int main(void) {
    return tests_run(folder_make, folder_remove);
}
