#!/bin/sh
# `tilec`: the command that lies in the package. It is looked for where pip puts packages beside this script, which takes 1 ms; a Python, which knows
# for sure, takes 12 before it runs. Where there are none or several, as of several Pythons in one folder, that of this folder is asked.
self=$0
[ ! -L "$self" ] || self=$(readlink -f "$self")
folder=${self%/*}
found= several=
for command in "$folder"/../tilec/tilec "$folder"/../lib/python3*/site-packages/tilec/tilec "$folder"/../local/lib/python3*/dist-packages/tilec/tilec "$folder"/../lib/python3*/dist-packages/tilec/tilec; do
  [ -x "$command" ] || continue
  [ -z "$found" ] || several=yes
  found=$command
done
[ -n "$several" ] || [ -z "$found" ] || exec "$found" "$@"
python=$folder/python3
[ -x "$python" ] || python=python3
exec "$python" -c 'import importlib.util, os, sys
found = importlib.util.find_spec("tilec")
if found is None: sys.exit("tilec: the package `tilec` is not where this Python looks: %s" % sys.executable)
os.execv(os.path.join(found.submodule_search_locations[0], "tilec"), ["tilec", *sys.argv[1:]])' "$@"
