// Product of LUTs and carry chains of an ECP5.
//
// Two rows of partial products make one carry chain, whose LUTs gate the first factor with two bits of the second; the
// sums of the pairs are added in a tree.  The last row of a signed factor counts negative.  The first stage of registers
// is behind the rows, the second one in front of the last sum.
module tg2hdl_soft_mul (CLK, A, B, Y);
parameter STAGES = 0;
parameter A_SIGNED = 0;
parameter B_SIGNED = 0;
parameter A_WIDTH = 1;
parameter B_WIDTH = 1;
parameter Y_WIDTH = 1;
input CLK;
input [A_WIDTH-1:0] A;
input [B_WIDTH-1:0] B;
output [Y_WIDTH-1:0] Y;

localparam SIGNED = A_SIGNED && B_SIGNED;
localparam PAIRS = (B_WIDTH + 1) / 2;
localparam WIDTH = (A_WIDTH + 3) / 2 * 2;
localparam LEAVES = PAIRS > 8 ? 16 : PAIRS > 4 ? 8 : PAIRS > 2 ? 4 : PAIRS > 1 ? 2 : 1;

wire [2*PAIRS-1:0] b;
wire [WIDTH:0] a;
wire [Y_WIDTH*2*LEAVES-1:0] sums;
wire [Y_WIDTH*2*LEAVES-1:0] found;

assign b = {{2*PAIRS{SIGNED ? B[B_WIDTH-1] : 1'b0}}, B};
assign a = {{WIDTH+1{SIGNED ? A[A_WIDTH-1] : 1'b0}}, A};

genvar k, j;
generate
    for (k = 0; k < LEAVES; k = k + 1) begin: pair
        wire [Y_WIDTH-1:0] result;
        if (k < PAIRS) begin
            localparam NEGATIVE = SIGNED && k == PAIRS - 1;
            wire [WIDTH-1:0] row;
            wire [WIDTH:0] carry;
            wire [WIDTH:0] shifted;
            wire [Y_WIDTH+WIDTH+2*PAIRS-1:0] extended;
            assign shifted = {a[WIDTH-1:0], 1'b0};
            assign carry[0] = NEGATIVE ? b[2*k+1] : 1'b0;
            for (j = 0; j < WIDTH; j = j + 2) begin: slice
                // S = A & B ^ C & D ^ CIN, with C inverted in a negative row.
                CCU2C #(
                    .INIT0(NEGATIVE ? 16'h8788 : 16'h7888),
                    .INIT1(NEGATIVE ? 16'h8788 : 16'h7888),
                    .INJECT1_0("NO"),
                    .INJECT1_1("NO")
                ) adder (
                    .CIN(carry[j]),
                    .A0(a[j]), .B0(b[2*k]), .C0(shifted[j]), .D0(b[2*k+1]),
                    .A1(a[j+1]), .B1(b[2*k]), .C1(shifted[j+1]), .D1(b[2*k+1]),
                    .S0(row[j]), .S1(row[j+1]), .COUT(carry[j+2])
                );
            end
            assign extended = {{Y_WIDTH+2*PAIRS{SIGNED ? row[WIDTH-1] : 1'b0}}, row} << 2*k;
            assign result = extended[Y_WIDTH-1:0];
        end else begin
            assign result = {Y_WIDTH{1'b0}};
        end
        assign found[Y_WIDTH*(LEAVES+k) +: Y_WIDTH] = result;
    end
    for (k = 1; k < LEAVES; k = k + 1) begin: tree
        localparam DEPTH = $clog2(k + 1) - 1;
        localparam SPAN = LEAVES >> DEPTH;
        localparam FIRST = 2 * SPAN * (k - (1 << DEPTH));
        // Below LOW is only the left sum; above HIGH, only its sign.
        localparam LOW = FIRST + SPAN;
        localparam HIGH = FIRST + A_WIDTH + 2 * SPAN + 1 < Y_WIDTH ? FIRST + A_WIDTH + 2 * SPAN + 1 : Y_WIDTH;
        if (LOW < HIGH) begin
            wire [HIGH-LOW-1:0] upper, propagate, carries;
            \$alu #(
                .A_SIGNED(0), .B_SIGNED(0), .A_WIDTH(HIGH-LOW), .B_WIDTH(HIGH-LOW), .Y_WIDTH(HIGH-LOW)
            ) adder (
                .A(sums[Y_WIDTH*2*k+LOW +: HIGH-LOW]), .B(sums[Y_WIDTH*(2*k+1)+LOW +: HIGH-LOW]),
                .CI(1'b0), .BI(1'b0), .Y(upper), .X(propagate), .CO(carries)
            );
            assign found[Y_WIDTH*k +: LOW] = sums[Y_WIDTH*2*k +: LOW];
            assign found[Y_WIDTH*k+LOW +: Y_WIDTH-LOW] = {{Y_WIDTH{SIGNED ? upper[HIGH-LOW-1] : 1'b0}}, upper};
        end else begin
            assign found[Y_WIDTH*k +: Y_WIDTH] = sums[Y_WIDTH*2*k +: Y_WIDTH];
        end
    end
    for (k = 1; k < 2 * LEAVES; k = k + 1) begin: node
        localparam ROW = STAGES > 0 && k >= LEAVES ? 1 : 0;
        localparam SUMMAND = STAGES > 1 && (k == 2 || k == 3 || LEAVES == 1) ? 1 : 0;
        localparam REGISTERS = ROW + SUMMAND;
        wire [Y_WIDTH*(REGISTERS+1)-1:0] line;
        assign line[0 +: Y_WIDTH] = found[Y_WIDTH*k +: Y_WIDTH];
        for (j = 0; j < REGISTERS; j = j + 1) begin: stage
            \$dff #(.WIDTH(Y_WIDTH), .CLK_POLARITY(1)) register (
                .CLK(CLK), .D(line[Y_WIDTH*j +: Y_WIDTH]), .Q(line[Y_WIDTH*(j+1) +: Y_WIDTH])
            );
        end
        assign sums[Y_WIDTH*k +: Y_WIDTH] = line[Y_WIDTH*REGISTERS +: Y_WIDTH];
    end
endgenerate
assign Y = sums[Y_WIDTH +: Y_WIDTH];
endmodule
