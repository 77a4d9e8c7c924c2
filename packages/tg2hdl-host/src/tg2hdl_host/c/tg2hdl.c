/* See tg2hdl.h. */
#include "tg2hdl.h"

#include "registers.h"

#define HEADER 8u
#define CHECK 4u
#define PIECE 32u /* bytes that are sent at once */

enum { END = 0xC0, ESC = 0xDB, ESC_END = 0xDC, ESC_ESC = 0xDD };
enum { OP_WRITE = 1, OP_READ = 2, OP_SYNC = 3, OP_RUN = 4 };

static void put_word(uint8_t *bytes, uint32_t word)
{
    int n;
    for (n = 0; n < 4; n++)
        bytes[n] = (uint8_t)(word >> 8 * n);
}

static uint32_t get_word(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Memory-mapped registers */

static int mapped_code(volatile uint32_t *base)
{
    int code = (int)base[TG2HDL_ERROR / 4];
    if (code != 0)
        base[TG2HDL_ERROR / 4] = 0;
    return code;
}

static int mapped_write(void *context, uint32_t address, const uint8_t *bytes, uint32_t count)
{
    volatile uint32_t *base = (volatile uint32_t *)context;
    uint32_t n, k;
    for (n = 0; n < count; n += 4) {
        uint32_t word = 0;
        for (k = 0; k < 4 && n + k < count; k++)
            word |= (uint32_t)bytes[n + k] << 8 * k;
        base[(address + n) / 4] = word;
    }
    return mapped_code(base);
}

static int mapped_read(void *context, uint32_t address, uint8_t *bytes, uint32_t count)
{
    volatile uint32_t *base = (volatile uint32_t *)context;
    uint32_t n, k;
    for (n = 0; n < count; n += 4) {
        uint32_t word = base[(address + n) / 4];
        for (k = 0; k < 4 && n + k < count; k++)
            bytes[n + k] = (uint8_t)(word >> 8 * k);
    }
    return mapped_code(base);
}

tg2hdl_bus tg2hdl_mapped(volatile uint32_t *base)
{
    tg2hdl_bus bus = {mapped_write, mapped_read, (void *)base};
    return bus;
}

/* Packets */

static uint32_t crc32(const uint8_t *bytes, uint32_t count)
{
    uint32_t crc = 0xFFFFFFFFu, n;
    int bit;
    for (n = 0; n < count; n++) {
        crc ^= bytes[n];
        for (bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

static int send_packet(tg2hdl_packets *link, uint32_t size)
{
    uint8_t marked[PIECE];
    uint32_t n, used = 0;
    if (!link->is_synchronized) /* ends whatever came before */
        marked[used++] = END;
    put_word(link->packet + size, crc32(link->packet, size));
    for (n = 0; n <= size + CHECK; n++) {
        uint8_t byte = END;
        if (n < size + CHECK) {
            byte = link->packet[n];
            if (byte == END || byte == ESC) {
                marked[used++] = ESC;
                byte = byte == END ? ESC_END : ESC_ESC;
            }
        }
        marked[used++] = byte;
        if (used > PIECE - 2 || n == size + CHECK) {
            int code = link->send(link->context, marked, used);
            if (code < 0)
                return code;
            used = 0;
        }
    }
    return 0;
}

/* The next undamaged packet: the number of its bytes without the check, or a negative number. */
static int receive_packet(tg2hdl_packets *link)
{
    uint32_t size = 0, is_bad = 0, is_escaped = 0;
    for (;;) {
        int byte = link->receive(link->context);
        if (byte < 0)
            return -1;
        if (byte == END) {
            if (size > CHECK && !is_bad && !is_escaped
                && get_word(link->packet + size - CHECK) == crc32(link->packet, size - CHECK))
                return (int)(size - CHECK);
            if (size != 0)
                return -1;
            is_bad = is_escaped = 0;
            continue;
        }
        if (is_escaped)
            is_bad |= byte != ESC_END && byte != ESC_ESC;
        if (is_escaped || byte != ESC) {
            if (size == sizeof link->packet)
                is_bad = 1;
            else
                link->packet[size++] = (uint8_t)(!is_escaped ? byte : byte == ESC_END ? END : ESC);
        }
        is_escaped = !is_escaped && byte == ESC;
    }
}

/* Send a request with so many bytes, and receive as many as are wanted. */
static int ask(tg2hdl_packets *link, int operation, uint32_t address, const uint8_t *from, uint32_t sent, uint8_t *to,
               uint32_t received)
{
    uint32_t n, words = (sent + 3) / 4, answer = (received + 3) / 4;
    uint16_t sequence = link->sequence;
    uint8_t *body = link->packet;
    body[0] = (uint8_t)sequence;
    body[1] = (uint8_t)(sequence >> 8);
    body[2] = (uint8_t)operation;
    body[3] = (uint8_t)(operation == OP_READ ? answer : words);
    put_word(body + 4, address);
    for (n = 0; n < 4 * words; n++)
        body[HEADER + n] = n < sent ? from[n] : 0;
    link->sequence++;
    if (send_packet(link, HEADER + 4 * words) < 0)
        return TG2HDL_LINK_FAILED;
    for (;;) {
        int found = receive_packet(link);
        if (found < 4)
            return TG2HDL_LINK_FAILED;
        if ((body[0] | body[1] << 8) != sequence || body[2] != (operation | 0x80))
            continue; /* an answer to something before */
        if (body[found - 1] == 0x80 || (uint32_t)found != 4 + 4 * answer)
            return TG2HDL_LINK_FAILED;
        for (n = 0; n < received; n++)
            to[n] = body[3 + n];
        return body[found - 1];
    }
}

static int access_packets(tg2hdl_packets *link, int operation, uint32_t address, const uint8_t *from, uint32_t sent,
                          uint8_t *to, uint32_t received)
{
    int code;
    if (!link->is_synchronized) {
        link->sequence = (uint16_t)(link->sequence + 257); /* far from what may still be on its way */
        if (ask(link, OP_SYNC, 0, 0, 0, 0, 0) != 0)
            return TG2HDL_LINK_FAILED;
        link->is_synchronized = 1;
    }
    code = ask(link, operation, address, from, sent, to, received);
    if (code < 0)
        link->is_synchronized = 0;
    return code;
}

static int packets_write(void *context, uint32_t address, const uint8_t *bytes, uint32_t count)
{
    tg2hdl_packets *link = (tg2hdl_packets *)context;
    if (address == TG2HDL_START)
        link->knows_runs = 0;
    return access_packets(link, OP_WRITE, address, bytes, count, 0, 0);
}

static int packets_read(void *context, uint32_t address, uint8_t *bytes, uint32_t count)
{
    return access_packets((tg2hdl_packets *)context, OP_READ, address, 0, 0, bytes, count);
}

tg2hdl_bus tg2hdl_over_packets(tg2hdl_packets *packets)
{
    tg2hdl_bus bus = {packets_write, packets_read, packets};
    packets->is_synchronized = packets->knows_runs = 0;
    return bus;
}

/* Designs */

static int read_register(const tg2hdl_bus *bus, uint32_t address, uint32_t *value)
{
    uint8_t bytes[4] = {0, 0, 0, 0};
    int attempt, code = TG2HDL_LINK_FAILED;
    for (attempt = 0; attempt < TG2HDL_ATTEMPTS && code < 0; attempt++)
        code = bus->read(bus->context, address, bytes, 4);
    *value = get_word(bytes);
    return code;
}

int tg2hdl_open(const tg2hdl_bus *bus)
{
    static const uint32_t expected[] = {0x48324754u, 1, (uint32_t)TG2HDL_ID, (uint32_t)(TG2HDL_ID >> 32)};
    uint32_t n;
    for (n = 0; n < 4; n++) {
        uint32_t value;
        int code = read_register(bus, TG2HDL_MAGIC + 4 * n, &value);
        if (code != 0)
            return code;
        if (value != expected[n])
            return TG2HDL_WRONG_DESIGN;
    }
    return 0;
}

/* A buffer is accessed from its first word on, so that an attempt begins there. */
static int transfer(const tg2hdl_bus *bus, uint32_t address, const uint8_t *from, uint8_t *to, uint32_t bytes)
{
    uint32_t first = 0;
    while (first < bytes) {
        uint32_t most = 4 * TG2HDL_PACKET_WORDS, some = bytes - first < most ? bytes - first : most;
        int code = from ? bus->write(bus->context, address + first, from + first, some)
                        : bus->read(bus->context, address + first, to + first, some);
        if (code != 0)
            return code;
        first += some;
    }
    return 0;
}

static int repeated(const tg2hdl_bus *bus, uint32_t address, const void *from, void *to, uint32_t bytes)
{
    int attempt, code = TG2HDL_LINK_FAILED;
    for (attempt = 0; attempt < TG2HDL_ATTEMPTS && code < 0; attempt++)
        code = transfer(bus, address, (const uint8_t *)from, (uint8_t *)to, bytes);
    return code;
}

int tg2hdl_load(const tg2hdl_bus *bus, uint32_t address, const void *data, uint32_t bytes)
{
    return repeated(bus, address, data, 0, bytes);
}

int tg2hdl_fetch(const tg2hdl_bus *bus, uint32_t address, void *data, uint32_t bytes)
{
    return repeated(bus, address, 0, data, bytes);
}

int tg2hdl_set(const tg2hdl_bus *bus, uint32_t address, int32_t value)
{
    uint8_t bytes[4];
    put_word(bytes, (uint32_t)value);
    return repeated(bus, address, bytes, 0, 4);
}

/* The layout is in tg2hdl_host/image.py. */
int tg2hdl_check_image(const void *file, uint32_t bytes, const uint8_t **contents, uint32_t *size)
{
    static const char magic[] = "TG2HIMG1";
    const uint8_t *image = (const uint8_t *)file;
    uint32_t n;
    if (bytes < 64)
        return TG2HDL_DAMAGED_IMAGE;
    for (n = 0; n < 8; n++)
        if (image[n] != (uint8_t)magic[n])
            return TG2HDL_DAMAGED_IMAGE;
    if (get_word(image + 32) != crc32(image, 32) || get_word(image + 16) != bytes - 64 || get_word(image + 20) != 0)
        return TG2HDL_DAMAGED_IMAGE;
    if (get_word(image + 28) != crc32(image + 64, bytes - 64))
        return TG2HDL_DAMAGED_IMAGE;
    if (get_word(image + 8) != (uint32_t)TG2HDL_ID || get_word(image + 12) != (uint32_t)(TG2HDL_ID >> 32))
        return TG2HDL_WRONG_DESIGN;
    *contents = image + 64;
    *size = bytes - 64;
    return 0;
}

static int wait_for_result(const tg2hdl_bus *bus, uint32_t polls)
{
    uint32_t status;
    while (polls-- > 0) {
        int code = read_register(bus, TG2HDL_STATUS, &status);
        if (code != 0 || status & 2)
            return code;
    }
    return TG2HDL_NO_RESULT;
}

int tg2hdl_run(const tg2hdl_bus *bus, uint32_t polls)
{
    uint8_t number[4];
    uint32_t runs, now;
    int attempt, code = read_register(bus, TG2HDL_RUNS, &runs);
    if (code != 0)
        return code;
    put_word(number, runs);
    code = TG2HDL_LINK_FAILED;
    for (attempt = 0; attempt < TG2HDL_ATTEMPTS && code < 0; attempt++)
        code = bus->write(bus->context, TG2HDL_START, number, 4);
    if (code == TG2HDL_CODE_STALE && attempt > 1) { /* it may have begun before an answer was lost */
        code = read_register(bus, TG2HDL_RUNS, &now);
        if (code == 0 && now != runs + 1)
            code = TG2HDL_CODE_STALE;
    }
    return code != 0 ? code : wait_for_result(bus, polls);
}

#ifdef TG2HDL_CALL_ADDRESS
#if TG2HDL_CALL_INPUT_BYTES > 4 * TG2HDL_PACKET_WORDS || TG2HDL_CALL_OUTPUT_BYTES > 4 * TG2HDL_PACKET_WORDS
#error "TG2HDL_PACKET_WORDS is less than tg2hdl_call needs"
#endif
int tg2hdl_call(tg2hdl_packets *packets, const void *input, void *output)
{
    tg2hdl_bus bus = {packets_write, packets_read, packets};
    int attempt, code = 0;
    for (attempt = 0; attempt < TG2HDL_ATTEMPTS; attempt++) {
        uint32_t now;
        int is_assumed = packets->knows_runs;
        if (!is_assumed)
            code = read_register(&bus, TG2HDL_RUNS, &packets->runs);
        if (code != 0)
            return code;
        packets->knows_runs = 0;
        code = access_packets(packets, OP_RUN, packets->runs, (const uint8_t *)input, TG2HDL_CALL_INPUT_BYTES,
                              (uint8_t *)output, TG2HDL_CALL_OUTPUT_BYTES);
        if (code == TG2HDL_CODE_STALE && is_assumed) { /* nothing was started */
            code = 0;
            continue;
        }
        if (code > 0)
            return code;
        if (code < 0) {
            code = read_register(&bus, TG2HDL_RUNS, &now);
            if (code != 0)
                return code;
            if (now != packets->runs + 1)
                continue;
            code = wait_for_result(&bus, TG2HDL_MAX_CYCLES); /* it has begun, only its answer was lost */
            if (code == 0)
                code = tg2hdl_fetch(&bus, TG2HDL_CALL_ADDRESS, output, TG2HDL_CALL_OUTPUT_BYTES);
            if (code != 0)
                return code;
        }
        packets->runs++;
        packets->knows_runs = 1;
        return 0;
    }
    return TG2HDL_LINK_FAILED;
}
#endif
