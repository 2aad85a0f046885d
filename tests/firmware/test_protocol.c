// SPDX-License-Identifier: Apache-2.0
//
// The board's C, on the host and under sanitizers: `make -C firmware test`.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"

static int16_t temperature;
static status_t sensor;

static status_t measure(int16_t *centi_degrees)
{
    *centi_degrees = temperature;
    return sensor;
}

static const char *ask(const char *request)
{
    // Exact sizes on the heap, so that the address sanitizer sees one character too many.
    static char text[ANSWER_MAX_LENGTH + 1];
    line_t *line = calloc(1, sizeof *line);
    char *answer = malloc(ANSWER_MAX_LENGTH);
    while (!line_collect(line, *request))
        request++;
    uint8_t length = line_answer(line, measure, answer);
    memcpy(text, answer, length);
    text[length] = '\0';
    free(line);
    free(answer);
    return text;
}

static int failures;

static void expect(const char *request, const char *answer)
{
    const char *got = ask(request);
    if (strcmp(got, answer)) {
        fprintf(stderr, "%sgives %swant  %s\n", request, got, answer);
        failures++;
    }
}

int main(void)
{
    temperature = 2345;
    expect("?000140\n", "=0001+02345EE\n");
    expect("?FFFF82\n", "=FFFF+0234526\n");
    expect("\n", "");
    expect("?000141\n", "!----019B\n");            // checksum
    expect("?00FFf3\n", "!----0292\n");            // lower case
    expect("?00014\n", "!----0292\n");             // truncated
    expect("\r\n", "!----0292\n");
    expect("?000140?000249\n", "!----0395\n");     // merged

    sensor = STATUS_SENSOR_OPEN;
    expect("?000140\n", "!000104DB\n");
    sensor = STATUS_OK;

    // Every temperature, the smallest included, has the same width.
    for (int i = INT16_MIN; i <= INT16_MAX; i++) {
        temperature = (int16_t)i;
        if (strlen(ask("?000140\n")) != ANSWER_MAX_LENGTH)
            failures++;
    }

    // Warmer means fewer counts, without a gap, between the two sensor faults.
    int16_t warmer = INT16_MAX, centi;
    for (uint16_t adc = 0; adc <= ADC_MAX; adc++) {
        status_t status = thermistor_centi_degrees(adc, &centi);
        status_t want = adc < 10 ? STATUS_SENSOR_SHORT
            : adc > ADC_MAX - 10 ? STATUS_SENSOR_OPEN : STATUS_OK;
        if (status != want || (status == STATUS_OK && centi >= warmer)) {
            fprintf(stderr, "adc %u: status %d, %d after %d\n", adc, status, centi, warmer);
            failures++;
        }
        if (status == STATUS_OK)
            warmer = centi;
    }
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
