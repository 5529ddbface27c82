"""What the console asks of a browser, and how long a person waits for it."""
