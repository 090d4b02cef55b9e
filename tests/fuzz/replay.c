/* replay.c - gives a fuzz target every file of the directories named, once: what libFuzzer does with a kept corpus, for
 * builds without libFuzzer. A directory that is missing or empty counts as no inputs. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file_replay(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return -errno;
    int rc = -EIO;
    long size_bytes = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size_bytes < 0 || fseek(file, 0, SEEK_SET) != 0)
        goto out_close;
    /* Exactly as large as the input, so that AddressSanitizer sees a read past its end. */
    uint8_t *data = malloc(size_bytes ? (size_t)size_bytes : 1);
    if (!data)
        goto out_close;
    if (fread(data, 1, (size_t)size_bytes, file) == (size_t)size_bytes) {
        LLVMFuzzerTestOneInput(data, (size_t)size_bytes);
        rc = 0;
    }
    free(data);
out_close:
    fclose(file);
    return rc;
}

int main(int argc, char **argv) {
    unsigned replayed = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (!dir)
            continue;
        for (struct dirent *entry; (entry = readdir(dir));) {
            if (entry->d_name[0] == '.')
                continue;
            char path[4096];
            snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
            int rc = file_replay(path);
            if (rc) {
                fprintf(stderr, "%s: %s\n", path, strerror(-rc));
                return 1;
            }
            replayed++;
        }
        closedir(dir);
    }
    printf("%u inputs replayed\n", replayed);
    return 0;
}
