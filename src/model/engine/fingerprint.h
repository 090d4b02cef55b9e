/* fingerprint.h - 128-bit hashes that tell whether a file is still the one that other files were derived from. They do
 * not protect against forged collisions: the file's owner could as well write the derived files. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

#define FINGERPRINT_TEXT 33 /* 32 hexadecimal digits and the terminator */

struct fingerprint {
    uint64_t words[2];
};

/* MurmurHash3 x64 128 (Appleby, public domain), seed 0: 4 to 5 bytes a nanosecond, so 50 MB in about 12 ms. */
struct fingerprint fingerprint_bytes(const void *data, size_t bytes);
void fingerprint_format(const struct fingerprint *fingerprint, char text[FINGERPRINT_TEXT]);
/* The hash of a file's bytes. 0 or -errno with a sentence. */
int fingerprint_file(const char *path, struct fingerprint *fingerprint, struct sy_error *err);
/* Calls `each` for an ONNX model's file and for the files that it names for its weights. Stops at the first error of
 * `each` and returns it. A file of weights may be missing. */
int model_files_each(const char *path, int (*each)(void *context, const char *file, struct sy_error *err),
                     void *context, struct sy_error *err);
/* The hash of the bytes of all files of model_files_each(); a file of weights that cannot be read counts as empty. 0,
 * or -errno with a sentence. */
int fingerprint_model(const char *path, struct fingerprint *fingerprint, struct sy_error *err);
/* Whether a model still has the fingerprint `text` (fingerprint_format()): 1 or 0; -errno: the model cannot be read. */
int fingerprint_model_holds(const char *path, const char *text);
