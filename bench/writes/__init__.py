"""What a write costs: beside a bare insert, without counters, and beside an open transaction."""
