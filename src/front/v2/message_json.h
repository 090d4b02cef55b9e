/* message_json.h - a protobuf message as JSON, so that the answers of both protocols are put together once.
 *
 * Fields by their names in the .proto; messages and choices that are not set are left out, empty strings if `brief`;
 * 64-bit integers as numbers, enums by name, maps as objects: as Triton's HTTP answers look. Pure. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "core/util/text.h"

void message_json_put(struct text *text, const ProtobufCMessage *message, bool brief);
