"""The gate beside a plain dequeue with SKIP LOCKED, and its cost at small and at large scale."""
