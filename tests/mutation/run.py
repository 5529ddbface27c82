"""A module with the mutant that the environment names, if it names one: `MODULE ARGUMENTS`."""

import runpy
import sys

from hypothesis import Phase, settings

from tests.mutation.mutants import install

if __name__ == "__main__":
    if install():
        # That it fails is all there is to know, and not for the memory of the true tests.
        settings.register_profile("mutant", phases=[Phase.generate], database=None)
        settings.load_profile("mutant")
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
