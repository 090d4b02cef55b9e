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
    const char *message; /* that the field is of */
    const char *name;
    enum model_config_kind kind;
    bool repeated;
    const char *type;  /* of an enum or a message: its name */
    const char *oneof; /* the choice it is one of, or NULL */
};

struct model_config_enum {
    const char *type, *word;
};

/* Both end with a row of NULL. */
extern const struct model_config_field model_config_fields[];
extern const struct model_config_enum model_config_enums[];
