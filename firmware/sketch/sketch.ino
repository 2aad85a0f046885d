// SPDX-License-Identifier: Apache-2.0
//
// Answers each request on the USB serial port with the temperature of the NTC on A0
// (Me Auriga, an ATmega2560 at 16 MHz). The protocol is in protocol.c and ../PROTOCOL.md.
#include <avr/sleep.h>

#include "protocol.h"

static line_t line;

static status_t measure(int16_t *centi_degrees)
{
    return thermistor_centi_degrees(analogRead(A0), centi_degrees);
}

// Idle mode stops only the CPU; the UART and the millisecond timer go on and wake it.
static void sleep_until_interrupt()
{
    noInterrupts();
    // The instruction after sei() still runs before any interrupt, so a byte that arrives
    // between the question and the sleep wakes the CPU instead of being slept over.
    if (!Serial.available()) {
        sleep_enable();
        interrupts();
        sleep_cpu();
        sleep_disable();
    }
    interrupts();
}

void setup()
{
    set_sleep_mode(SLEEP_MODE_IDLE);
    Serial.begin(57600);
    Serial.print(F("# testbed-board "));
    Serial.print(PROTOCOL_VERSION);
    Serial.print('\n');
}

void loop()
{
    while (Serial.available()) {
        if (line_collect(&line, Serial.read())) {
            char answer[ANSWER_MAX_LENGTH];
            Serial.write(answer, line_answer(&line, measure, answer));
        }
    }
    sleep_until_interrupt();
}
