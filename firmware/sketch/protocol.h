// SPDX-License-Identifier: Apache-2.0
//
// The board's half of the serial protocol (../PROTOCOL.md) and its thermistor.
// Plain C without any Arduino header: the sketch runs it, and so do the tests on the host.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PROTOCOL_VERSION = 1,
    REQUEST_LENGTH = 7,     // characters of a request, without its newline
    ANSWER_MAX_LENGTH = 14, // characters of the longest answer, with its newline
    ADC_MAX = 1023,
};

// The numbers travel in error replies.
typedef enum {
    STATUS_OK = 0,
    STATUS_BAD_CHECKSUM = 1,
    STATUS_BAD_FRAME = 2,
    STATUS_TOO_LONG = 3,
    STATUS_SENSOR_OPEN = 4,
    STATUS_SENSOR_SHORT = 5,
} status_t;

// A line while it arrives. `length` stops at REQUEST_LENGTH + 1, which means "too long".
typedef struct {
    char text[REQUEST_LENGTH];
    uint8_t length;
} line_t;

// Reads the sensor into `centi_degrees` (hundredths of a degree Celsius).
typedef status_t (*measure_t)(int16_t *centi_degrees);

// Takes one received character; true when it ended a line.
bool line_collect(line_t *line, char received);

// Writes the answer to a complete line into `answer` (ANSWER_MAX_LENGTH characters, no
// terminating zero) and returns its length; 0 for an empty line, which asks nothing.
// Empties the line for the next one. Calls `measure` only for a sound request.
uint8_t line_answer(line_t *line, measure_t measure, char *answer);

// Temperature of a 10 kOhm NTC (B = 3380 K) between the pin and ground, with 10 kOhm to the
// reference voltage, from a 10-bit ADC reading.
status_t thermistor_centi_degrees(uint16_t adc, int16_t *centi_degrees);

#ifdef __cplusplus
}
#endif
