/* Runs a design over standard input and output: inputs from the file argv[1], results to the file argv[2]. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "registers.h"
#include "tg2hdl.h"

static int timeout;

static int send_bytes(void *context, const uint8_t *bytes, uint32_t count)
{
    (void)context;
    return write(1, bytes, count) == (ssize_t)count ? 0 : -1;
}

static int receive_byte(void *context)
{
    struct pollfd waiting = {0, POLLIN, 0};
    uint8_t byte;
    (void)context;
    if (poll(&waiting, 1, timeout) <= 0 || read(0, &byte, 1) != 1)
        return -1;
    return byte;
}

static void check(int code, const char *stage)
{
    if (code != 0) {
        fprintf(stderr, "%s: %d\n", stage, code);
        exit(1);
    }
}

static int run(int count, char **arguments)
{
    static uint8_t x[TG2HDL_BUFFER_X_BYTES], y[TG2HDL_BUFFER_OUTPUT_BYTES];
    static tg2hdl_packets packets;
    tg2hdl_bus bus = tg2hdl_over_packets(&packets);
    FILE *inputs = fopen(arguments[1], "rb"), *results = fopen(arguments[2], "wb");
    packets.send = send_bytes;
    packets.receive = receive_byte;
    timeout = count > 3 ? atoi(arguments[3]) : 30000;
    check(tg2hdl_open(&bus), "open");
    while (fread(x, sizeof x, 1, inputs) == 1) {
#ifdef TG2HDL_CALL_ADDRESS
        check(tg2hdl_call(&packets, x, y), "call");
#else
        check(tg2hdl_load(&bus, TG2HDL_BUFFER_X_ADDRESS, x, sizeof x), "load");
        check(tg2hdl_run(&bus, 100000), "run");
        check(tg2hdl_fetch(&bus, TG2HDL_BUFFER_OUTPUT_ADDRESS, y, sizeof y), "fetch");
#endif
        fwrite(y, sizeof y, 1, results);
    }
    return fclose(results);
}

/* Writes the contents of the memory image argv[2] to the file argv[3]; exits with what is wrong with it. */
static int check_image(char **arguments)
{
    static uint8_t file[1 << 12];
    FILE *from = fopen(arguments[2], "rb"), *to = fopen(arguments[3], "wb");
    const uint8_t *contents = file;
    uint32_t size = 0, bytes = (uint32_t)fread(file, 1, sizeof file, from);
    int code = tg2hdl_check_image(file, bytes, &contents, &size);
    fwrite(contents, 1, size, to);
    fclose(to);
    fclose(from);
    return -code;
}

int main(int count, char **arguments)
{
    return count == 4 && arguments[1][0] == '-' ? check_image(arguments) : run(count, arguments);
}
