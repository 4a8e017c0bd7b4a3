/* The command. What it does is in main.cpp, which is in libtilec.so where that is a Python package's. */
int tilec_main(int argc, char** argv);

int main(int argc, char** argv) { return tilec_main(argc, argv); }
