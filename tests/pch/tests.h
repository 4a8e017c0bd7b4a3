// What nearly every unit test includes: see lang/pch/lang.h.
#include "codegen/pch/codegen.h"
#include <doctest/doctest.h>
