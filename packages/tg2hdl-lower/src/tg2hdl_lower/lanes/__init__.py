"""How many iterations of each loop run at once, and what a step of them asks of the memories."""
