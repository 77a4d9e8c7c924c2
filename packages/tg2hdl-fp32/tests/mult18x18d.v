// Behaviour of the ECP5's MULT18X18D as its user guide (FPGA-TN-02205) describes it, for what the cores use:
// operands A and B from the fabric, registers by their clock parameters, one enable each, no reset.
module MULT18X18D #(
    parameter REG_INPUTA_CLK = "NONE", parameter REG_INPUTA_CE = "CE0", parameter REG_INPUTA_RST = "RST0",
    parameter REG_INPUTB_CLK = "NONE", parameter REG_INPUTB_CE = "CE0", parameter REG_INPUTB_RST = "RST0",
    parameter REG_PIPELINE_CLK = "NONE", parameter REG_PIPELINE_CE = "CE0", parameter REG_PIPELINE_RST = "RST0",
    parameter REG_OUTPUT_CLK = "NONE", parameter REG_OUTPUT_CE = "CE0", parameter REG_OUTPUT_RST = "RST0"
) (
    input A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15, A16, A17,
    input B0, B1, B2, B3, B4, B5, B6, B7, B8, B9, B10, B11, B12, B13, B14, B15, B16, B17,
    input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
    input CLK0, CLK1, CLK2, CLK3, CE0, CE1, CE2, CE3, RST0, RST1, RST2, RST3,
    output P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10, P11, P12, P13, P14, P15, P16, P17,
    output P18, P19, P20, P21, P22, P23, P24, P25, P26, P27, P28, P29, P30, P31, P32, P33, P34, P35
);
    wire [17:0] a = {A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
    wire [17:0] b = {B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};
    reg [18:0] held_a, held_b;
    reg [37:0] held_product, held_output;
    function registered(input [31:0] clock);
        begin
            registered = clock == "CLK0";
            if (clock != "CLK0" && clock != "NONE") $fatal(1, "only CLK0 is modelled");
        end
    endfunction
    wire [18:0] wide_a = registered(REG_INPUTA_CLK) ? held_a : {SIGNEDA & a[17], a};
    wire [18:0] wide_b = registered(REG_INPUTB_CLK) ? held_b : {SIGNEDB & b[17], b};
    wire [37:0] full = $signed(wide_a) * $signed(wide_b);
    wire [37:0] product = registered(REG_PIPELINE_CLK) ? held_product : full;
    wire [37:0] result = registered(REG_OUTPUT_CLK) ? held_output : product;
    always @(posedge CLK0) begin
        if (SOURCEA | SOURCEB | RST0) $fatal(1, "shifted operands and resets are not modelled");
        if (CE0) begin
            held_a <= {SIGNEDA & a[17], a};
            held_b <= {SIGNEDB & b[17], b};
            held_product <= full;
            held_output <= product;
        end
    end
    assign {P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
            P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0} = result[35:0];
endmodule
