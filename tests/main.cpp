// For the unit tests without a main of their own: an archive's member is linked where it is missing.
#include <doctest/doctest.h>

int main(int argc, char** argv) { return doctest::Context(argc, argv).run(); }
