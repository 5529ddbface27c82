"""What the tests of an application that uses Headgate import.

The fixtures come by themselves with the pytest plugin, `headgate.testing.plugin`.
"""
