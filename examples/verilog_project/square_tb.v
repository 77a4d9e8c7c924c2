`timescale 1ns / 1ps
module square_tb;
  reg clk = 0, rst = 1;
  reg [15:0] x = 16'h3fc0;  // 1.5
  wire [15:0] y;
  integer cycle;
  square dut(.clk(clk), .rst(rst), .x(x), .y(y));
  always #5 clk = ~clk;
  initial begin
    repeat (2) @(posedge clk);
    rst <= 0;
    repeat (20) @(posedge clk);
    if (y !== 16'h4010) $display("FAIL: %h", y);  // 2.25
    x <= 16'hc040;  // -3
    repeat (20) @(posedge clk);
    if (y === 16'h4110) $display("PASS"); else $display("FAIL: %h", y);  // 9
    $finish;
  end
endmodule
