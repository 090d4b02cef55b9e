/* gnuplot_keeper.h - in gnuplot's place, a program that keeps what it reads; its picture, p.svg, is empty. What gnuplot
 * draws of it is looked at by the end-to-end tests, where it is installed. */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/test.h"

static char folder[] = "/tmp/symphony-test-XXXXXX", program[64], kept[64];

/* Makes the program run a script. */
static inline void program_put(const char *script) {
    FILE *file = fopen(program, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fclose(file);
    assert_int_equal(chmod(program, 0700), 0);
}

/* What gnuplot was given. */
static inline const char *commands(void) {
    static char text[1 << 16];
    FILE *file = fopen(kept, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return text;
}

static inline void assert_has(const char *text, const char *piece) {
    if (!strstr(text, piece))
        fail_msg("no '%s' in:\n%s", piece, text);
}

static inline void keeper_put(void) {
    char script[128];
    snprintf(script, sizeof(script), "/bin/cat > '%s'; echo '<svg></svg>' > p.svg", kept);
    program_put(script);
}

/* Set-up and tear-down of a group. */
static inline int folder_make(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(program, sizeof(program), "%s/gnuplot", folder);
    snprintf(kept, sizeof(kept), "%s/commands", folder);
    return setenv("PATH", folder, 1) || chdir(folder);
}

static inline int folder_remove(void **state) {
    (void)state;
    unlink(kept);
    unlink("p.svg");
    return unlink(program) || rmdir(folder);
}
