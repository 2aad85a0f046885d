// SPDX-License-Identifier: Apache-2.0
#include "protocol.h"

#include <math.h>
#include <string.h>

static const char HEX_DIGITS[] = "0123456789ABCDEF";
static const char UNKNOWN_ID[] = "----";

// CRC-8, polynomial x^8 + x^2 + x + 1: notices every error within eight neighbouring bits,
// hence every damaged character.
static uint8_t crc8(const char *text, uint8_t length)
{
    uint8_t crc = 0;
    for (uint8_t i = 0; i < length; i++) {
        crc ^= (uint8_t)text[i];
        for (uint8_t bit = 0; bit < 8; bit++)
            crc = (uint8_t)(crc & 0x80 ? crc << 1 ^ 0x07 : crc << 1);
    }
    return crc;
}

// Only upper case counts: one value has one spelling, so a flipped case bit is an error.
static bool parse_hex(const char *text, uint8_t digits, uint16_t *value)
{
    *value = 0;
    while (digits--) {
        char c = *text++;
        if (c >= '0' && c <= '9')
            *value = (uint16_t)(*value << 4 | (c - '0'));
        else if (c >= 'A' && c <= 'F')
            *value = (uint16_t)(*value << 4 | (c - 'A' + 10));
        else
            return false;
    }
    return true;
}

static char *put_hex(char *at, uint16_t value, uint8_t digits)
{
    for (uint8_t i = digits; i--; value >>= 4)
        at[i] = HEX_DIGITS[value & 0xF];
    return at + digits;
}

static char *put_decimal(char *at, uint16_t value, uint8_t digits)
{
    for (uint8_t i = digits; i--; value /= 10)
        at[i] = (char)('0' + value % 10);
    return at + digits;
}

static uint8_t seal(char *answer, char *end)
{
    end = put_hex(end, crc8(answer, (uint8_t)(end - answer)), 2);
    *end++ = '\n';
    return (uint8_t)(end - answer);
}

static uint8_t put_reply(char *answer, uint16_t id, int16_t centi_degrees)
{
    char *end = answer;
    *end++ = '=';
    end = put_hex(end, id, 4);
    *end++ = centi_degrees < 0 ? '-' : '+';
    // Negated as unsigned, where even the smallest int16_t has its magnitude.
    uint16_t magnitude = (uint16_t)centi_degrees;
    end = put_decimal(end, centi_degrees < 0 ? (uint16_t)-magnitude : magnitude, 5);
    return seal(answer, end);
}

static uint8_t put_error(char *answer, const uint16_t *id, status_t status)
{
    char *end = answer;
    *end++ = '!';
    if (id)
        end = put_hex(end, *id, 4);
    else
        end = (char *)memcpy(end, UNKNOWN_ID, 4) + 4;
    end = put_decimal(end, status, 2);
    return seal(answer, end);
}

static status_t parse_request(const line_t *line, uint16_t *id)
{
    uint16_t checksum;
    if (line->length > REQUEST_LENGTH)
        return STATUS_TOO_LONG;
    if (line->length < REQUEST_LENGTH || line->text[0] != '?'
        || !parse_hex(line->text + 1, 4, id) || !parse_hex(line->text + 5, 2, &checksum))
        return STATUS_BAD_FRAME;
    return crc8(line->text, 5) == checksum ? STATUS_OK : STATUS_BAD_CHECKSUM;
}

bool line_collect(line_t *line, char received)
{
    if (received == '\n')
        return true;
    if (line->length < REQUEST_LENGTH)
        line->text[line->length] = received;
    if (line->length <= REQUEST_LENGTH)
        line->length++;
    return false;
}

uint8_t line_answer(line_t *line, measure_t measure, char *answer)
{
    if (line->length == 0)
        return 0;
    uint16_t id;
    status_t status = parse_request(line, &id);
    line->length = 0;
    if (status != STATUS_OK)
        return put_error(answer, NULL, status); // no checksum vouches for an id

    int16_t centi_degrees;
    status = measure(&centi_degrees);
    return status == STATUS_OK ? put_reply(answer, id, centi_degrees)
                               : put_error(answer, &id, status);
}

status_t thermistor_centi_degrees(uint16_t adc, int16_t *centi_degrees)
{
    // Ten counts from either end is -61 or +230 degrees: no weather, a broken wire.
    if (adc < 10)
        return STATUS_SENSOR_SHORT;
    if (adc > ADC_MAX - 10)
        return STATUS_SENSOR_OPEN;

    // Beta equation, https://en.wikipedia.org/wiki/Thermistor#B_or_%CE%B2_parameter_equation.
    // Series resistor and NTC at 25 degrees are both 10 kOhm, so they cancel.
    float resistance_ratio = (float)adc / (float)(ADC_MAX - adc);
    float kelvin = 1.0f / (1.0f / 298.15f + logf(resistance_ratio) / 3380.0f);
    *centi_degrees = (int16_t)floorf((kelvin - 273.15f) * 100.0f + 0.5f);
    return STATUS_OK;
}
