"""Cologne Chip GateMate for tg2hdl."""
