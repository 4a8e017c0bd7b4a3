// doctest itself, compiled once for all unit tests: half of what each of them cost.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
