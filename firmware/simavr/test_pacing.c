// SPDX-License-Identifier: GPL-3.0-or-later
//
// The simulation stops where it is told, wherever in the sketch's loop that is: else it runs ahead of the wall clock
// into the sketch's sleep, and what arrives meanwhile arrives up to a millisecond late. One stop at each phase of the
// timer whose overflow wakes the sketch.
#define main board_main
#include "board.c"
#undef main

enum {
    TIMER_PERIOD = 64 * 256,
    INSTRUCTION = 5, // cycles of the longest one, and of an interrupt
};

int main(int argc, char **argv)
{
    if (argc != 2)
        die("usage: test_pacing SKETCH");
    board_make(argv[1], 23.45);
    board.epoch_ns = monotonic_ns();
    avr_cycle_count_t target = CLOCK_HZ; // long after the sketch's first line
    simulate_until(target);
    for (unsigned phase = 0; phase < TIMER_PERIOD; phase++) {
        target += TIMER_PERIOD + 1;
        simulate_until(target);
        if (board.avr->cycle < target || board.avr->cycle > target + INSTRUCTION)
            die("told to stop at cycle %" PRIu64 ", it did at %+" PRId64, (uint64_t)target,
                (int64_t)(board.avr->cycle - target));
    }

    board.from_board.head = board.from_board.tail; // the sketch's first line
    if (!board_quiet())
        die("not quiet with nothing under way");
    // With a byte handed over but not yet announced, the board is not quiet: nobody would look at it for 10 ms.
    wire_put(&board.to_board, '?', board.avr->cycle, 0);
    byte_arrives(board.avr, board.avr->cycle, NULL);
    if (board_quiet())
        die("quiet with a byte on its way to the sketch");
    return 0;
}
