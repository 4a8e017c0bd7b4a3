/* What isl and GMP inside a libtilec.so call stdin, stdout and stderr (runtime/meson.build). */
#include <stdio.h>

FILE *tilec_stdin, *tilec_stdout, *tilec_stderr;

__attribute__((constructor)) static void open_streams(void) {
  tilec_stdin = stdin;
  tilec_stdout = stdout;
  tilec_stderr = stderr;
}
