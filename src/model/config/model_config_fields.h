/* model_config_fields.h - the fields and enums of Triton's ModelConfig, as data. */
#pragma once

#include <stdbool.h>

enum model_config_kind {
    MODEL_CONFIG_BOOL,
    MODEL_CONFIG_INT32,
    MODEL_CONFIG_INT64,
    MODEL_CONFIG_UINT32,
    MODEL_CONFIG_UINT64,
    MODEL_CONFIG_FLOAT,
    MODEL_CONFIG_STRING,
    MODEL_CONFIG_ENUM,
    MODEL_CONFIG_MESSAGE,
};

struct model_config_field {
    const char *message; /* message that has the field */
    const char *name;
    enum model_config_kind kind;
    bool repeated;
    const char *type;  /* name of the enum or message; NULL: another kind */
    const char *oneof; /* oneof that the field belongs to; NULL: none */
};

struct model_config_enum {
    const char *type, *word;
};

/* Both tables end with a row of NULL. */
extern const struct model_config_field model_config_fields[];
extern const struct model_config_enum model_config_enums[];
