"""`./dev python pytest tests/python` sets the paths; run from elsewhere, the checkout's own package and library are
used."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
