"""One file a method: plain @1 code that knows no pressure, no model and no sharding."""
