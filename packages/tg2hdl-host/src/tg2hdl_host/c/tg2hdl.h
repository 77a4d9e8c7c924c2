/* Driver for a design that tg2hdl made: C99 or C++, no allocation, no other library, at most 300 bytes of stack.
 *
 * registers.h, which `tg2hdl build` writes beside this file, has the addresses of the buffers:
 *
 *     tg2hdl_bus bus = tg2hdl_mapped((volatile uint32_t *)0x40000000);     AXI4-Lite or Wishbone
 *     tg2hdl_bus bus = tg2hdl_over_packets(&packets);                      UART or SPI
 *
 *     tg2hdl_open(&bus);
 *     tg2hdl_load(&bus, TG2HDL_BUFFER_X_ADDRESS, x, sizeof x);
 *     tg2hdl_run(&bus, 1000);
 *     tg2hdl_fetch(&bus, TG2HDL_BUFFER_OUTPUT_ADDRESS, y, sizeof y);
 *
 * or, over packets, tg2hdl_call(&packets, x, y) instead of the last three.
 *
 * Buffers have the elements of the model in its order, little-endian.  All functions return 0, a positive tg2hdl_code of
 * registers.h for what the design refuses, or a negative tg2hdl_failure.  A device has one host, whose calls follow one
 * another; several devices may be used at the same time.
 */
#ifndef TG2HDL_H
#define TG2HDL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tg2hdl_failure {
    TG2HDL_LINK_FAILED = -1,  /* no undamaged answer, after TG2HDL_ATTEMPTS attempts */
    TG2HDL_WRONG_DESIGN = -2, /* the device holds another design than registers.h describes */
    TG2HDL_NO_RESULT = -3,    /* the run has not ended after the given number of polls */
    TG2HDL_DAMAGED_IMAGE = -4 /* no memory image, or one that is cut or damaged */
};

#ifndef TG2HDL_ATTEMPTS
#define TG2HDL_ATTEMPTS 20
#endif

/* Words of a packet: 1 to 255.  Fewer make `tg2hdl_packets` smaller, and loads of large buffers slower. */
#ifndef TG2HDL_PACKET_WORDS
#define TG2HDL_PACKET_WORDS 255
#endif

/* Access of consecutive bytes, at most those of a packet, from a word on; zeros fill the last word.  Both return what the
 * functions below return. */
typedef struct {
    int (*write)(void *context, uint32_t address, const uint8_t *bytes, uint32_t count);
    int (*read)(void *context, uint32_t address, uint8_t *bytes, uint32_t count);
    void *context;
} tg2hdl_bus;

/* A link of bytes, in static memory: set the first three members, the others to zero.  `send` returns 0, or a negative
 * number.  `receive` returns a byte, or a negative number when none has come in time; over SPI it sends 0xC0 and returns
 * what it receives. */
typedef struct {
    int (*send)(void *context, const uint8_t *bytes, uint32_t count);
    int (*receive)(void *context);
    void *context;
    uint16_t sequence; /* of the next request */
    uint8_t is_synchronized;
    uint8_t knows_runs; /* whether the next run has the number `runs` */
    uint32_t runs;
    uint8_t packet[12 + 4 * TG2HDL_PACKET_WORDS];
} tg2hdl_packets;

tg2hdl_bus tg2hdl_mapped(volatile uint32_t *base);
tg2hdl_bus tg2hdl_over_packets(tg2hdl_packets *packets);

/* Check that the device holds the design of registers.h. */
int tg2hdl_open(const tg2hdl_bus *bus);

/* Write a whole buffer. */
int tg2hdl_load(const tg2hdl_bus *bus, uint32_t address, const void *data, uint32_t bytes);

/* Set a run-time variable by its register, such as TG2HDL_VARIABLE_POS; TG2HDL_CODE_RANGE for a value out of its range.
 * Set all of them before the first run. */
int tg2hdl_set(const tg2hdl_bus *bus, uint32_t address, int32_t value);

/* Start once, also where an answer is lost, and wait for the result. */
int tg2hdl_run(const tg2hdl_bus *bus, uint32_t polls);

/* Read a whole buffer. */
int tg2hdl_fetch(const tg2hdl_bus *bus, uint32_t address, void *data, uint32_t bytes);

/* Write the only input, run once and read the only output in one packet, which is one round trip; where registers.h
 * has TG2HDL_CALL_ADDRESS.  The input has TG2HDL_CALL_INPUT_BYTES, the output TG2HDL_CALL_OUTPUT_BYTES. */
int tg2hdl_call(tg2hdl_packets *packets, const void *input, void *output);

/* Check the file of a memory outside the chip (NAME.weights.img), and that it belongs to the design of registers.h; its
 * contents are `*size` bytes from `*contents` on, for the address `memory_base` of the memory. */
int tg2hdl_check_image(const void *file, uint32_t bytes, const uint8_t **contents, uint32_t *size);

#ifdef __cplusplus
}
#endif
#endif
