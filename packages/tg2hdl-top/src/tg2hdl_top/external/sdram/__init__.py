"""SDR SDRAM outside the chip: a controller that streams an image, its times, and a chip to simulate."""
