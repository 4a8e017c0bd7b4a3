// What nearly every unit that has Programs includes: see lang/pch/lang.h.
#include "lang/diagnostic.h"
#include "lang/pch/lang.h"
#include "poly/program.h"
