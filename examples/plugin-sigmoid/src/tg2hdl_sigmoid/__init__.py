"""A sigmoid operation for tg2hdl."""
