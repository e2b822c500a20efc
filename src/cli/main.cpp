// lra: the Long Range Arena as one program. Verbs are in files of their own (cli/verb.h).
#include "cli/program.h"

int main(int argc, char** argv) { return lra::run_program(argc, argv); }
