// What nearly every unit that has Plans includes: see lang/pch/lang.h.
#include "codegen/plan.h"
#include "codegen/rewrite/directive.h"
#include "poly/pch/poly.h"
