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

void gnuplot_latencies(FILE *to, const char *title, const char *axis, const struct gnuplot_curve *curves,
                       uint32_t count, double (*quantile_ms)(const void *times, double q)) {
    for (uint32_t c = 0; c < count; c++) {
        double top = curves[c].answered;
        fprintf(to, "$m%u << EOD\n", c);
        for (int i = 0; i <= 1000 && top > 0; i++)
            fprintf(to, "%.6g %.6g\n", quantile_ms(curves[c].times, i / 1000.0), i / 1000.0 * top);
        fputs(top > 0 ? "EOD\n" : "1 0\nEOD\n", to);
    }
    fputs("set title noenhanced ", to);
    gnuplot_quote(to, title);
    fputs("\nset xlabel ", to);
    gnuplot_quote(to, axis);
    fputs("\nset logscale x\nset ylabel 'share of the requests'\nset yrange [0:1]\nset key bottom right\n", to);
    for (uint32_t c = 0; c < count; c++)
        if (curves[c].slo_ms > 0 && (c == 0 || curves[c].slo_ms != curves[c - 1].slo_ms))
            fprintf(to, "set arrow from %g, graph 0 to %g, graph 1 nohead dashtype 2 linecolor rgb '#999999'\n",
                    curves[c].slo_ms, curves[c].slo_ms);
    for (uint32_t c = 0; c < count; c++) {
        fprintf(to, "%s$m%u with steps linewidth %s title ", c ? ", " : "plot ", c,
                curves[c].all ? "3 linecolor 'black'" : "2");
        gnuplot_quote(to, curves[c].name);
    }
    fputc('\n', to);
}
