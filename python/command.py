#!python
"""`tilec`: the command that lies in the package. The package is not imported, which would wait for NumPy."""
import importlib.util
import os
import sys

here = importlib.util.find_spec("tilec").submodule_search_locations[0]
os.execv(os.path.join(here, "tilec"), ["tilec", *sys.argv[1:]])
