/* gnuplot.c - draws SVG files with the program gnuplot. */
#include "lab/report/gnuplot.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/files.h"

int gnuplot_find(struct sy_error *err) {
    const char *at = getenv("PATH");
    while (at && *at) {
        char file[4096];
        size_t length = strcspn(at, ":");
        snprintf(file, sizeof(file), "%.*s/gnuplot", (int)length, at);
        if (access(file, X_OK) == 0)
            return 0;
        at += length + (at[length] == ':');
    }
    return error_set(err, -ENOENT,
                     "plots need the program gnuplot, which is not on the PATH "
                     "(on Debian: apt-get install gnuplot-nox)");
}

int gnuplot_check(const char *path, struct sy_error *err) {
    struct sy_error why;
    int rc = gnuplot_find(&why);
    if (rc)
        return error_set(err, rc, "--plot: %s", why.text);
    return files_writable("--plot", path, err);
}

void gnuplot_quote(FILE *to, const char *text) {
    fputc('\'', to);
    for (; *text; text++) {
        if (*text == '\'') /* '' stands for one quote */
            fputc('\'', to);
        fputc(*text, to);
    }
    fputc('\'', to);
}

FILE *gnuplot_open(const char *path, int width, int height, struct sy_error *err) {
    FILE *to = popen("gnuplot", "w");
    if (!to) {
        error_set(err, -errno, "cannot start gnuplot: %s", strerror(errno));
        return NULL;
    }
    fprintf(to, "set terminal svg size %d, %d dynamic enhanced background rgb 'white'\nset output ", width, height);
    gnuplot_quote(to, path);
    fputs("\nset grid\nset key noenhanced\n", to);
    return to;
}

/* gnuplot does not report a full disk, so this checks that the end of the file is there. */
static bool is_whole(const char *path) {
    struct stat about;
    char end[32]; /* some versions end it with blank lines */
    size_t length = 0;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return true; /* a pipe cannot be checked */
    FILE *file = fopen(path, "r");
    if (file) {
        if (fseek(file, -(long)sizeof(end), SEEK_END))
            rewind(file); /* the file is shorter */
        length = fread(end, 1, sizeof(end), file);
        fclose(file);
    }
    return length && memmem(end, length, "</svg>", 6);
}

int gnuplot_close(FILE *to, const char *path, struct sy_error *err) {
    int rc = pclose(to);
    return rc || !is_whole(path) ? error_set(err, -EIO, "gnuplot could not draw '%s'", path) : 0;
}

void gnuplot_distribution(FILE *to, const char *name, uint32_t number, double top,
                          double (*quantile_ms)(const void *context, double q), const void *context) {
    fprintf(to, "$%s%u << EOD\n", name, number);
    for (int i = 0; i <= 1000 && top > 0; i++)
        fprintf(to, "%.6g %.6g\n", quantile_ms(context, i / 1000.0), i / 1000.0 * top);
    fputs(top > 0 ? "EOD\n" : "1 0\nEOD\n", to);
}
