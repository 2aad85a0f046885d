// SPDX-License-Identifier: GPL-3.0-or-later
//
// Runs the sketch's real ELF on a simulated ATmega2560, in step with CLOCK_MONOTONIC, and
// joins its USB serial port to a pseudo-terminal. GPL, unlike the rest of this repository,
// because it links libsimavr.
//
// How time works. The UART makes the simulation predictable: a byte that reaches the pty now
// is complete on the wire one byte time later, and a byte the sketch writes leaves one byte
// time later. So the simulation may run one byte time (LOOKAHEAD) ahead of the wall clock
// without missing any input, and every output byte is known before it is due. The process
// sleeps from one due time to the next; while the sketch itself sleeps, it wakes rarely.
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <simavr/avr_adc.h>
#include <simavr/avr_timer.h>
#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>

enum {
    CLOCK_HZ = 16000000,
    CYCLES_PER_US = CLOCK_HZ / 1000000,
    SUPPLY_MV = 5000,
    BITS_PER_BYTE = 10,                                 // start, 8 data, stop
    HOST_BYTE = (CLOCK_HZ * BITS_PER_BYTE + 28800) / 57600, // cycles a byte takes to the board
    LOOKAHEAD = 2700,                                   // cycles; less than one byte either way
    IDLE_BATCH = 10000 * CYCLES_PER_US,                 // wall clock between looks at a sleeper
    BOOTLOADER = 2 * CLOCK_HZ,                          // a Mega's bootloader waits for an upload
    WIRE_SLOTS = 4096,
    READ_BYTES = 256,
};

// ---------------------------------------------------------------------------- small things

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("board: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Bytes under way on a wire, each with the cycle at which its stop bit is over.
typedef struct {
    avr_cycle_count_t due;
    uint8_t byte;
} travelling_t;

typedef struct {
    travelling_t slot[WIRE_SLOTS];
    unsigned head, tail;       // count up for ever; the slot is the remainder
    avr_cycle_count_t free_at; // when the wire has carried all of them
} wire_t;

static unsigned wire_room(const wire_t *wire) { return WIRE_SLOTS - (wire->tail - wire->head); }
static bool wire_empty(const wire_t *wire) { return wire->tail == wire->head; }
static travelling_t wire_first(const wire_t *wire) { return wire->slot[wire->head % WIRE_SLOTS]; }

static travelling_t wire_take(wire_t *wire) { return wire->slot[wire->head++ % WIRE_SLOTS]; }

static void wire_put(wire_t *wire, uint8_t byte, avr_cycle_count_t now, avr_cycle_count_t duration)
{
    wire->free_at = (wire->free_at > now ? wire->free_at : now) + duration;
    wire->slot[wire->tail++ % WIRE_SLOTS] = (travelling_t){wire->free_at, byte};
}

// ------------------------------------------------------------------------------- the board

static struct {
    avr_t *avr;
    avr_uart_t *uart;
    avr_cycle_count_t byte_cycles; // one byte from the board, as the sketch set its speed
    avr_cycle_count_t boot_end;    // the bootloader runs until then
    avr_cycle_count_t target;      // no sleep lasts longer
    uint64_t epoch_ns;             // wall clock at cycle 0
    wire_t to_board, from_board;
    FILE *trace;
} board;

static avr_cycle_count_t wall_cycle(void)
{
    return (monotonic_ns() - board.epoch_ns) * CYCLES_PER_US / 1000;
}

static void trace(const char *direction, avr_cycle_count_t cycle, uint8_t byte)
{
    if (board.trace)
        fprintf(board.trace, "{\"cycle\": %" PRIu64 ", \"%s\": %u}\n", cycle, direction, byte);
}

static void log_errors(avr_t *avr, const int level, const char *format, va_list arguments)
{
    (void)avr;
    if (level == LOG_ERROR)
        vfprintf(stderr, format, arguments);
}

// run() paces; simavr would sleep on its own clock. It adds these cycles and one, which leads past the target where the
// sketch falls asleep in the very step in which the target's timer fires.
static void sleep_until_target(avr_t *avr, avr_cycle_count_t cycles)
{
    avr_cycle_count_t wakes = avr->cycle + cycles + 1;
    avr_cycle_count_t latest = board.target > avr->cycle ? board.target : avr->cycle;
    if (wakes > latest)
        avr->cycle -= wakes - latest;
}

static avr_cycle_count_t do_nothing(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)avr, (void)when, (void)param;
    return 0;
}

// simavr 1.6 counts a parity bit that is not there: 11 bits where the wire has 10.
static void baud_written(avr_t *avr, avr_io_addr_t addr, uint8_t value, void *param)
{
    (void)avr, (void)addr, (void)value, (void)param;
    board.byte_cycles = board.uart->cycles_per_byte * BITS_PER_BYTE / (BITS_PER_BYTE + 1);
    board.uart->cycles_per_byte = board.byte_cycles;
}

// simavr reports a byte when the sketch writes it, that is, at its start bit.
static void byte_written(avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq, (void)param;
    if (wire_room(&board.from_board))
        wire_put(&board.from_board, (uint8_t)value, board.avr->cycle, board.byte_cycles);
}

// A byte's stop bit is over: hand it to the UART, then schedule the next.
static avr_cycle_count_t byte_arrives(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)avr, (void)param;
    uint8_t byte = wire_take(&board.to_board).byte;
    trace("in", when, byte);
    // simavr would now wait one byte time before it tells the sketch; that time has passed.
    avr_cycle_count_t byte_cycles = board.uart->cycles_per_byte;
    board.uart->cycles_per_byte = 1;
    avr_raise_irq(board.uart->io.irq + UART_IRQ_INPUT, byte);
    board.uart->cycles_per_byte = byte_cycles;
    return wire_empty(&board.to_board) ? 0 : wire_first(&board.to_board).due;
}

static void host_sends(const uint8_t *bytes, size_t count)
{
    avr_cycle_count_t now = wall_cycle();
    if (now < board.boot_end)
        return; // the bootloader swallows it
    bool idle = wire_empty(&board.to_board);
    for (size_t i = 0; i < count; i++)
        wire_put(&board.to_board, bytes[i], now, HOST_BYTE);
    if (idle)
        avr_cycle_timer_register(board.avr, wire_first(&board.to_board).due - board.avr->cycle,
                                 byte_arrives, NULL);
}

static void board_reset(void)
{
    avr_reset(board.avr);
    board.to_board.head = board.to_board.tail;
    board.from_board.head = board.from_board.tail;
    board.boot_end = wall_cycle() + BOOTLOADER;
}

static void simulate_until(avr_cycle_count_t target)
{
    avr_t *avr = board.avr;
    if (avr->cycle < board.boot_end)
        avr->cycle = target < board.boot_end ? target : board.boot_end;
    if (avr->cycle >= target)
        return;
    board.target = target;
    // simavr runs up to its next timer: this one makes it stop at the target.
    avr_cycle_timer_register(avr, target - avr->cycle, do_nothing, NULL);
    avr->run_cycle_limit = LOOKAHEAD;
    while (avr->cycle < target) {
        int state = avr_run(avr);
        if (state == cpu_Done || state == cpu_Crashed)
            die("the sketch crashed at pc 0x%x", avr->pc);
    }
}

// What nobody asked for: damaged lines, and half a one that spoils the reply that comes next.
static void babble(void)
{
    static const uint8_t line[] = "=00Z7-0234\xff\x01\n";
    avr_cycle_count_t now = wall_cycle();
    for (unsigned i = 0; i < 8 * (sizeof line - 1) + 3 && wire_room(&board.from_board); i++)
        wire_put(&board.from_board, line[i % (sizeof line - 1)], now, board.byte_cycles);
}

// Asleep with nothing under way: only the host can make something happen.
static bool board_quiet(void)
{
    return board.avr->state == cpu_Sleeping && board.uart->tx_cnt == 0
        && wire_empty(&board.to_board) && wire_empty(&board.from_board)
        && board.uart->input.read == board.uart->input.write;
}

// Millivolts on A0: the NTC (10 kOhm at 25 degrees, B = 3380 K) to ground, 10 kOhm to 5 V.
static uint32_t thermistor_mv(double celsius)
{
    double ratio = exp(3380.0 * (1.0 / (celsius + 273.15) - 1.0 / 298.15));
    return (uint32_t)lround(SUPPLY_MV * ratio / (1.0 + ratio));
}

// Copies the ELF's loadable segments into flash. Initialised data has a load address in
// flash too, from which the sketch's start-up code copies it.
static void load_elf(const char *path)
{
    FILE *file = fopen(path, "rb");
    Elf32_Ehdr header;
    if (!file || fread(&header, sizeof header, 1, file) != 1
        || memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_machine != EM_AVR)
        die("%s is not an AVR program: build it with `make -C firmware`", path);
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf32_Phdr segment;
        if (fseek(file, (long)(header.e_phoff + i * sizeof segment), SEEK_SET)
            || fread(&segment, sizeof segment, 1, file) != 1)
            die("%s is damaged", path);
        if (segment.p_type != PT_LOAD || segment.p_filesz == 0
            || segment.p_paddr + segment.p_filesz > board.avr->flashend + 1)
            continue; // EEPROM and fuses have load addresses beyond the flash
        if (fseek(file, (long)segment.p_offset, SEEK_SET)
            || fread(board.avr->flash + segment.p_paddr, segment.p_filesz, 1, file) != 1)
            die("%s is damaged", path);
    }
    fclose(file);
}

static void board_make(const char *elf, double celsius)
{
    avr_global_logger_set(log_errors);
    avr_t *avr = board.avr = avr_make_mcu_by_name("atmega2560");
    if (!avr || avr_init(avr))
        die("libsimavr has no atmega2560");
    avr->frequency = CLOCK_HZ;
    avr->vcc = avr->avcc = avr->aref = SUPPLY_MV;
    avr->sleep = sleep_until_target;
    load_elf(elf);

    for (avr_io_t *io = avr->io_port; io; io = io->next) {
        if (!strcmp(io->kind, "uart") && ((avr_uart_t *)io)->name == '0')
            board.uart = (avr_uart_t *)io;
        // simavr 1.6 lacks phase-correct PWM, which Arduino selects on timers 1-5, and floods
        // itself with overflows of a timer with no top. Nobody looks at those pins: count
        // slowly instead.
        if (!strcmp(io->kind, "timer"))
            for (int mode = 0; mode < 16; mode++)
                if (((avr_timer_t *)io)->wgm_op[mode].kind == avr_timer_wgm_none)
                    ((avr_timer_t *)io)->wgm_op[mode] =
                        (avr_timer_wgm_t)AVR_TIMER_WGM_NORMAL16();
    }
    board.uart->flags = 0; // no echo on stdout, no usleep() of its own
    avr_register_io_write(avr, board.uart->ubrrl.reg, baud_written, NULL);
    avr_irq_register_notify(board.uart->io.irq + UART_IRQ_OUTPUT, byte_written, NULL);
    avr_irq_t *pins = avr_io_getirq(avr, AVR_IOCTL_ADC_GETIRQ, ADC_IRQ_ADC0);
    avr_raise_irq(pins, thermistor_mv(celsius));
}

// --------------------------------------------------------------------- the pseudo-terminal

static struct {
    int master, slave;   // the slave stays open here, so that the host may close and reopen it
    int watch;           // inotify: who opens and closes the slave
    int openers;
    char path[PATH_MAX]; // of the slave
} port;

// The multiplexer of a private devpts instance lies in it, beside its slaves; /dev/ptmx
// stands beside the folder instead. (ptsname() knows only the latter.)
static void port_open(const char *ptmx)
{
    int unlock = 0;
    unsigned number;
    port.master = open(ptmx, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (port.master < 0)
        die("cannot open %s: %s", ptmx, strerror(errno));
    if (ioctl(port.master, TIOCSPTLCK, &unlock) || ioctl(port.master, TIOCGPTN, &number))
        die("%s is not a pty multiplexer: %s", ptmx, strerror(errno));

    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", ptmx);
    snprintf(port.path, sizeof port.path, "%s%s/%u", dirname(folder),
             strcmp(ptmx, "/dev/ptmx") ? "" : "/pts", number);
    port.slave = open(port.path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (port.slave < 0)
        die("cannot open %s: %s", port.path, strerror(errno));
    struct termios raw;
    tcgetattr(port.slave, &raw);
    cfmakeraw(&raw); // else the terminal would echo our answers back to us
    tcsetattr(port.slave, TCSANOW, &raw);
    fchmod(port.slave, 0666); // the host may be another user

    port.watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (inotify_add_watch(port.watch, port.path, IN_OPEN | IN_CLOSE) < 0)
        die("cannot watch %s: %s", port.path, strerror(errno));
}

// True when the port went from closed to open.
static bool port_opened(void)
{
    bool opened = false;
    char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t length = read(port.watch, events, sizeof events);
    for (ssize_t at = 0; at < length;) {
        const struct inotify_event *event = (struct inotify_event *)(events + at);
        if (event->mask & IN_OPEN && port.openers++ == 0)
            opened = true;
        // What a closed port's host did not read must not greet the next one.
        if (event->mask & IN_CLOSE && --port.openers == 0)
            tcflush(port.slave, TCIFLUSH);
        at += (ssize_t)(sizeof *event + event->len);
    }
    return opened;
}

// -------------------------------------------------------------------------------- the stats

// Lateness of each byte that left for the host, one bucket a microsecond. When the process
// got no CPU in time, it shows here.
static struct {
    uint32_t histogram[1 << 16]; // the last bucket also holds all that is later
    uint64_t max_us, bytes_in, bytes_out;
} stats;

static void record_lateness(uint64_t late_us)
{
    const uint64_t last = sizeof stats.histogram / sizeof *stats.histogram - 1;
    stats.histogram[late_us < last ? late_us : last]++;
    if (late_us > stats.max_us)
        stats.max_us = late_us;
    stats.bytes_out++;
}

static uint64_t lateness_us(double quantile)
{
    uint64_t rank = (uint64_t)ceil(quantile * (double)stats.bytes_out), seen = 0;
    uint64_t bucket = 0;
    while (rank && (seen += stats.histogram[bucket]) < rank)
        bucket++;
    return bucket;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
         + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void print_stats(void)
{
    fprintf(stderr,
            "{\"board\": \"simavr\", \"lateness_us\": {\"p50\": %" PRIu64 ", \"p99\": %" PRIu64
            ", \"max\": %" PRIu64 "}, \"cpu_s\": %.3f, \"wall_s\": %.3f, \"bytes_in\": %" PRIu64
            ", \"bytes_out\": %" PRIu64 "}\n",
            lateness_us(0.5), lateness_us(0.99), stats.max_us, cpu_seconds(),
            (double)(monotonic_ns() - board.epoch_ns) / 1e9, stats.bytes_in, stats.bytes_out);
}

// ------------------------------------------------------------------------------------- main

static volatile sig_atomic_t stop_wanted, stats_wanted, reset_wanted, garbage_wanted;

static void on_signal(int number)
{
    switch (number) {
    case SIGUSR1: stats_wanted = 1; break;
    case SIGUSR2: garbage_wanted = 1; break;
    case SIGHUP: reset_wanted = 1; break;
    default: stop_wanted = 1;
    }
}

// Signals come only while we wait, so none is missed. Returns the mask to wait with.
static sigset_t catch_signals(void)
{
    sigset_t ours, waiting;
    sigemptyset(&ours);
    const int numbers[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaction(numbers[i], &(struct sigaction){.sa_handler = on_signal}, NULL);
        sigaddset(&ours, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &ours, &waiting);
    return waiting;
}

// Hands over what is due. A closed port, like a closed USB serial port, loses it.
static void release_due_bytes(void)
{
    wire_t *wire = &board.from_board;
    avr_cycle_count_t now = wall_cycle();
    while (!wire_empty(wire) && wire_first(wire).due <= now) {
        travelling_t out = wire_take(wire);
        trace("out", out.due, out.byte);
        // A host that does not read loses bytes too: the wire has no flow control.
        if (port.openers > 0 && write(port.master, &out.byte, 1) == 1)
            record_lateness((now - out.due) / CYCLES_PER_US);
    }
}

static void run(bool reset_on_open)
{
    bool ready = false;
    const sigset_t waiting = catch_signals();
    board.epoch_ns = monotonic_ns();
    while (!stop_wanted) {
        simulate_until(wall_cycle() + LOOKAHEAD);
        release_due_bytes();
        bool quiet = board_quiet();
        if (quiet && !ready) {
            ready = true;
            printf("ready %s\n", port.path);
            fflush(stdout);
        }
        if (stats_wanted) {
            stats_wanted = 0;
            print_stats();
        }
        if (reset_wanted) {
            reset_wanted = 0;
            board_reset();
        }
        if (garbage_wanted) {
            garbage_wanted = 0;
            babble();
        }

        avr_cycle_count_t deadline = !wire_empty(&board.from_board)
            ? wire_first(&board.from_board).due
            : board.avr->cycle + (quiet ? IDLE_BATCH : 0);
        uint64_t deadline_ns = board.epoch_ns + deadline * 1000 / CYCLES_PER_US;
        uint64_t now_ns = monotonic_ns();
        uint64_t wait_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        struct pollfd ready_for[] = {
            {.fd = port.watch, .events = POLLIN},
            {.fd = port.master, .events = wire_room(&board.to_board) >= READ_BYTES ? POLLIN : 0},
        };
        struct timespec timeout = {(time_t)(wait_ns / 1000000000), (long)(wait_ns % 1000000000)};
        if (ppoll(ready_for, 2, &timeout, &waiting) <= 0)
            continue;

        if (ready_for[0].revents && port_opened() && reset_on_open)
            board_reset();
        uint8_t bytes[READ_BYTES];
        ssize_t count = ready_for[1].revents & POLLIN ? read(port.master, bytes, sizeof bytes) : 0;
        if (count > 0) {
            stats.bytes_in += (uint64_t)count;
            // The sketch may have idled for a while; bring it to the present first.
            simulate_until(wall_cycle());
            host_sends(bytes, (size_t)count);
        }
    }
    print_stats();
}

static const char USAGE[] =
    "usage: board [options]\n"
    "Runs the sketch on a simulated ATmega2560 whose serial port is a pseudo-terminal.\n"
    "Prints `ready PATH` when that is open; on SIGTERM (or SIGUSR1) one line of JSON.\n"
    "SIGHUP resets the board, SIGUSR2 makes it send damaged lines.\n"
    "\n"
    "  --elf PATH          the sketch (default: sketch.elf beside this program)\n"
    "  --ptmx PATH         pty multiplexer to open (default: /dev/ptmx)\n"
    "  --temperature C     what the thermistor feels, in degrees Celsius (default: 23.45)\n"
    "  --reset-on-open     reset the board, 2 s of silence, whenever the port is opened\n"
    "  --fifo PRIORITY     run under SCHED_FIFO, so that the simulation keeps its time\n"
    "  --trace PATH        write each byte with its simulated cycle, one JSON object a line\n";

static double number_or_die(const char *option, const char *text, double low, double high)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= low && value <= high))
        die("--%s %s: want a number from %g to %g", option, text, low, high);
    return value;
}

int main(int argc, char **argv)
{
    const struct option options[] = {
        {"elf", required_argument, NULL, 'e'},
        {"ptmx", required_argument, NULL, 'p'},
        {"temperature", required_argument, NULL, 't'},
        {"reset-on-open", no_argument, NULL, 'r'},
        {"fifo", required_argument, NULL, 'f'},
        {"trace", required_argument, NULL, 'T'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    const char *ptmx = "/dev/ptmx", *trace_path = NULL;
    double celsius = 23.45;
    int fifo = 0;
    bool reset_on_open = false;

    char elf_default[PATH_MAX] = "";
    if (readlink("/proc/self/exe", elf_default, sizeof elf_default - sizeof "/sketch.elf") > 0)
        strcat(dirname(elf_default), "/sketch.elf");
    const char *elf = elf_default;

    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'e': elf = optarg; break;
        case 'p': ptmx = optarg; break;
        case 't': celsius = number_or_die("temperature", optarg, -60, 225); break;
        case 'r': reset_on_open = true; break;
        case 'f': fifo = (int)number_or_die("fifo", optarg, 1, 99); break;
        case 'T': trace_path = optarg; break;
        case 'h': fputs(USAGE, stdout); return 0;
        default: fputs(USAGE, stderr); return 2;
        }
    if (optind < argc)
        die("unexpected argument %s", argv[optind]);

    if (trace_path && !(board.trace = fopen(trace_path, "we")))
        die("cannot write %s: %s", trace_path, strerror(errno));
    if (board.trace)
        setlinebuf(board.trace);
    if (fifo && sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = fifo}))
        die("SCHED_FIFO %d refused (%s): it needs CAP_SYS_NICE and, with real-time group "
            "scheduling, a real-time budget in its cgroup", fifo, strerror(errno));
    prctl(PR_SET_TIMERSLACK, 1); // else every wait lasts up to 50 us longer

    board_make(elf, celsius);
    port_open(ptmx);
    run(reset_on_open);
    return 0;
}
