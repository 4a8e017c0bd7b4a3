/* tilec: tensor programs, their gradients, and the kernels that run them. This header is the manual of the C API.
 * tilec/tilec.hpp wraps it for C++; samples/embed_c and samples/embed_cpp are whole programs.
 *
 *     DLTensor a = tilec_tensor(data_a, TILEC_F32, 2, (int64_t[]){2, 3}, NULL);  // and b
 *     tilec_program* program;
 *     tilec_kernel* kernel;
 *     const char* text = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";
 *     if (tilec_compile(text, strlen(text), NULL, &program) != TILEC_OK) { fputs(tilec_last_error(), stderr); ... }
 *     tilec_argument arguments[2] = {{.tensor = &a}, {.tensor = &b}};        // shapes, types, strides
 *     tilec_specialize(program, arguments, 2, NULL, 0, &kernel);             // compiles, or finds it compiled
 *     const void* in[2] = {a.data, b.data};  void* out[1] = {c};             // element 0 of each
 *     tilec_kernel_run(kernel, in, out);
 *     tilec_kernel_destroy(kernel);
 *     tilec_program_destroy(program);
 *
 * Rules that hold everywhere:
 *  - A function that can fail returns a tilec_status; TILEC_OK is 0. What went wrong is kept per thread until that
 *    thread's next call: tilec_last_error(), tilec_last_diagnostic(). Result pointers are written only on success.
 *  - Handles come from a create function and go to the destroy function of the same name; destroying NULL does nothing.
 *    A file, program or kernel may be used from several threads at once. A program outlives its file, a kernel its
 *    program.
 *  - Strings given to tilec are copied; strings it returns live as long as the handle they came from, or (errors) until
 *    the thread's next call. All are UTF-8 and end with a zero byte.
 *  - Option structs start with their own size, so that old callers work with a newer library. A size of 0,
 *    one that ends within a field, and fields that this library does not know yet are TILEC_ARGUMENT_ERROR.
 *  - NULL is allowed for options (all defaults), for a list of which 0 are counted, for a text of length 0, and where a
 *    comment here says so. A pointer that is NULL elsewhere, a count whose list is NULL, a name that is NULL, unknown
 *    or given twice, a value that an enum does not have: each is TILEC_ARGUMENT_ERROR or TILEC_TYPE_ERROR with a
 *    message that names it (E0554, E0555, E0559), and nothing was done. A question about a NULL handle that has no
 *    status answers 0 or NULL. Pointers that are neither NULL nor right cannot be told.
 *  - tilec never prints, never exits, installs no signal handlers, and lets no C++ exception out.
 *  - Tensors are borrowed: tilec reads and writes caller's memory during a call and keeps no pointer to it afterwards.
 *  - fork() waits for a compilation that is under way in another thread; the child may compile and run. Devices
 *    (opencl, cuda) that were opened before fork() are the parent's: in the child they are TILEC_DEVICE_ERROR.
 */
#ifndef TILEC_TILEC_H
#define TILEC_TILEC_H

#include <stddef.h>
#include <stdint.h>

#include "tilec/dlpack.h"

#if defined(__GNUC__)
#define TILEC_API __attribute__((visibility("default")))
#else
#define TILEC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TILEC_VERSION_MAJOR 1
#define TILEC_VERSION_MINOR 0
#define TILEC_VERSION_PATCH 0

/* The version of the library that is loaded: major * 10000 + minor * 100 + patch. A program runs with the library of
 * its header's major version and of the same minor version or a later one, which has all that the earlier ones had. */
TILEC_API int tilec_version(void);

typedef enum tilec_status {
  TILEC_OK = 0,
  TILEC_PROGRAM_ERROR = 1,  /* the text is at fault: tilec_last_diagnostic says where */
  TILEC_ARGUMENT_ERROR = 2, /* an argument's shape or value does not fit */
  TILEC_DEVICE_ERROR = 3,   /* the machine: no such device, no memory, no compiler for it */
  TILEC_TYPE_ERROR = 4,     /* an argument is missing, unknown, or of another element type than the program takes */
  TILEC_INTERNAL_ERROR = 70 /* our bug */
} tilec_status;

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

/* The last failed call of this thread, rendered as text with source lines and carets; "" after a call that succeeded.
 */
TILEC_API const char* tilec_last_error(void);

typedef enum tilec_severity { TILEC_ERROR = 0, TILEC_WARNING = 1, TILEC_REMARK = 2 } tilec_severity;

typedef struct tilec_diagnostic {
  tilec_severity severity;
  const char* code;    /* "E0201"; `tilec explain E0201` prints its page */
  const char* message; /* one line, without the code */
  const char* file;
  int line, column, end_line, end_column; /* from 1; all 0 when there is no place in the text */
  const char* hint;                       /* something that can be typed in; "" if none */
} tilec_diagnostic;

/* What this thread's last call had to say, warnings and remarks of a successful call included (tilec_kernel_run, when
 * it succeeds, leaves them as they are). What a program is warned of is said by tilec_compile where the text alone
 * tells, else by tilec_specialize or tilec_run, again by each call that finds the kernel compiled. */
TILEC_API size_t tilec_last_diagnostic_count(void);
TILEC_API tilec_status tilec_last_diagnostic(size_t position, tilec_diagnostic* diagnostic);
/* The same as text, with source lines and carets; NULL past the end. */
TILEC_API const char* tilec_last_diagnostic_text(size_t position);

/* ---- The host's own ---------------------------------------------------------------------------------------------- */

/* What a process has already may be used instead of tilec's own: memory, threads, a log. Each is set for the whole
 * process, at any time and from any thread; NULL gives back tilec's own. The functions may be called from every thread
 * that calls tilec, several at once, and return: no exception, no longjmp. `user` is passed on as it is, NULL too. It
 * and the functions stay usable as long as what may call them: calls that were under way when another was set, and what
 * each comment says. A child of fork() has what its parent set. */

/* Memory of data: workspaces of runs, copies of inputs that lie under outputs, what outputs held that are added to,
 * packed copies for devices. Not that of a device, of the interpreter (target reference) or of programs and kernels.
 * `bytes` is 1 and more, `alignment` 64. NULL, or an address that is not aligned, makes the call that asked
 * TILEC_DEVICE_ERROR (E0512), which says for what and how many bytes. A workspace is kept for the kernel's next runs
 * (tilec_kernel_run_in takes none) until the kernel and the program it came from are destroyed. What came from
 * `allocate` goes to the `release` that was set with it, with the same `bytes` and `alignment`. One of both NULL is
 * TILEC_ARGUMENT_ERROR. */
typedef void* (*tilec_allocate_function)(void* user, size_t bytes, size_t alignment);
typedef void (*tilec_free_function)(void* user, void* memory, size_t bytes, size_t alignment);
TILEC_API tilec_status tilec_set_allocator(tilec_allocate_function allocate, tilec_free_function release, void* user);

/* Threads of the cpu target: calls turn(arguments, i, worker) once for every 0 <= i < count, on any threads and in any
 * order, and returns 0 when all are done. Turns that run at one time have different workers, 0 <= worker < workers; the
 * second `workers` is that of tilec_set_parallel_for, or count where that is less. An object file of `tilec build` asks
 * for the same (tilec_parallel_for of its header). A turn takes no lock and has no parallel loop of its own. Another
 * answer than 0, a turn left out or run twice, and an `i` or `worker` out of range are TILEC_DEVICE_ERROR (E0554) of
 * the run, whose outputs then hold anything. Kernels have the threads that were set when they were specialised or
 * loaded, as long as they live: set it first. `workers`: 1 to 65536; some kernels have memory for each in their
 * workspace. Nobody is asked by a program of options.threads 1, which has none. */
typedef void (*tilec_turn)(void* arguments, int64_t i, int64_t worker);
typedef int (*tilec_parallel_for_function)(
    void* user, int64_t count, int64_t workers, tilec_turn turn, void* arguments);
TILEC_API tilec_status tilec_set_parallel_for(tilec_parallel_for_function run, int64_t workers, void* user);

/* Hears what tilec_last_diagnostic would tell, of each call that has something to say, on its thread and before it
 * returns: errors, warnings and remarks in order, with the text of tilec_last_diagnostic_text. Both arguments live
 * until it returns. It may call tilec: what those calls say it is not told, and tilec_last_error() behind the first
 * call is the first call's. */
typedef void (*tilec_diagnostic_function)(void* user, const tilec_diagnostic* diagnostic, const char* text);
TILEC_API tilec_status tilec_set_diagnostic_callback(tilec_diagnostic_function hear, void* user);

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

typedef struct tilec_program tilec_program;

typedef struct tilec_define {
  const char* name;
  double value;
  const char* text;       /* the name of a function or an aggregation, instead of the value; NULL: the value */
} tilec_define;

typedef struct tilec_size {
  const char* name;
  int64_t value;
} tilec_size;

typedef struct tilec_options {
  size_t size;            /* sizeof(tilec_options) */
  const char* function;   /* which function, where the text has several; NULL: the unnamed one, else the only one */
  /* cpu (default), cpu:x86-64-v3, opencl, opencl:1 (the second device), cuda, cuda:1, cuda:sm_90a, cuda:math=tf32 or
   * cuda:math=bf16 (f32 may be rounded for tensor cores), reference (the interpreter); docs/errors/E0514.md says which
   * words go together */
  const char* target;
  const char* file_name;  /* shown in diagnostics; NULL: <text> */
  const tilec_define* defines; /* compile-time parameters */
  size_t define_count;
  const tilec_size* sizes; /* sizes that no input's shape shows */
  size_t size_count;
  /* of the cpu target: 1, else the pool of the process (TILEC_THREADS, else all cores); none is below 0 */
  int threads;
  /* folders in which imports are looked for, after the folder of file_name and before std/ */
  const char* const* include;
  size_t include_count;
  /* 1: an index of gather or scatter that is out of range is TILEC_ARGUMENT_ERROR (E0540) once the call has run, naming
   * tensor, position, value and bound; 0: it is clamped */
  int checked;
  /* how many specialisations the program keeps: of more, the one that was not used for longest goes. 0: the
   * environment's TILEC_KERNELS, else 128. Programs made from this one keep as many each */
  size_t kernels;
  const char* plan;        /* how the program is compiled, as tilec_with_plan takes it; NULL: all is chosen */
  /* bytes that forward of tilec_vjp and tilec_save_vjp may keep for backward, which makes the rest again; 0: what costs
   * more to make again than to keep is kept; negative: nothing. E0331 where more is needed */
  int64_t room;
  /* the folder in which compiled programs are kept, for this process and later ones; "": nowhere. NULL: the
   * environment's TILEC_CACHE (`off`: nowhere), else tilec in XDG_CACHE_HOME, else .cache/tilec in HOME, where there is
   * one. Entries that cannot be trusted are warned of once (W0565) and compiled anew; what cannot be written is not
   * kept. Of more than TILEC_CACHE_LIMIT bytes (1 GiB) those that were not used for longest go */
  const char* cache;
  /* how many dimensions a pack `B...` of the heading stands for, where no argument of a call tells */
  const tilec_size* ranks;
  size_t rank_count;
} tilec_options;

/* Parses and checks a text. TILEC_PROGRAM_ERROR when it is at fault. */
TILEC_API tilec_status tilec_compile(
    const char* text, size_t length, const tilec_options* options, tilec_program** program);

/* A text with everything it imports, read, parsed and checked once for all its functions: what a text with many is
 * compiled from. It is one snapshot: a file that changes later changes nothing in it. file_name (NULL: <text>) and
 * include are as in tilec_options. What the text is warned of is said here; tilec_file_compile says what its function
 * adds. TILEC_PROGRAM_ERROR when the text is at fault.
 *
 *     tilec_parse(text, strlen(text), "ops.tile", NULL, 0, &file);
 *     tilec_options options = {.size = sizeof options, .function = "relu"};
 *     tilec_file_compile(file, &options, &relu);                             // no parsing: microseconds for a small
 *                                                                            function */
typedef struct tilec_file tilec_file;

TILEC_API tilec_status tilec_parse(const char* text, size_t length, const char* file_name, const char* const* include,
    size_t include_count, tilec_file** file);
TILEC_API void tilec_file_destroy(tilec_file* file);

/* The program of one function of a file, as tilec_compile makes it; options->file_name and options->include are NULL,
 * as the file has been read. A program outlives its file, and a file may be used from several threads at once. */
TILEC_API tilec_status tilec_file_compile(
    const tilec_file* file, const tilec_options* options, tilec_program** program);

/* The functions of a file, without those it imports, in order; "" is the name of an unnamed one. NULL past the end. */
TILEC_API size_t tilec_file_function_count(const tilec_file* file);
TILEC_API const char* tilec_file_function_name(const tilec_file* file, size_t position);

/* The files of std/ that the library brings along, in the order of their names: "norm" of `import "std/norm.tile";`,
 * and its text. NULL past the end. */
TILEC_API const char* tilec_standard_file_name(size_t position);
TILEC_API const char* tilec_standard_file_text(size_t position);

/* A text with everything it imports, as it was read, as bytes: what a program or a file is made of. tilec_parse_saved
 * makes an equal file of them in any process, and looks into no folder. TILEC_ARGUMENT_ERROR: bytes that are none, of
 * another version, cut off or changed (E0554). */
typedef struct tilec_buffer tilec_buffer;

TILEC_API tilec_status tilec_file_texts(const tilec_file* file, tilec_buffer** buffer);
TILEC_API tilec_status tilec_program_texts(const tilec_program* program, tilec_buffer** buffer);
TILEC_API tilec_status tilec_parse_saved(const char* bytes, size_t size, tilec_file** file);

/* The functions of a text, in order: how many (0 when it does not parse), and their names ("" for an unnamed one, which
 * is what tilec_compile takes when none is asked for). The name lives until the thread's next call. */
TILEC_API size_t tilec_function_count(const char* text, size_t length);
TILEC_API const char* tilec_function_name(const char* text, size_t length, size_t position);

/* The gradient of a program (reverse mode): a program whose inputs are the program's inputs and then the cotangent `dO`
 * of each output O of `of`, and whose outputs are `dX` for each input X of `wrt`. No names (count 0): all float
 * outputs, all float inputs. What it gives is a program like any other: its gradient is the second derivative, and so
 * on to any order. `of` and `wrt` are names of the program it is given: of a gradient's input `dO` the cotangent is
 * `ddO`; a name that an input has already gets `_1`. */
TILEC_API tilec_status tilec_gradient(const tilec_program* program, const char* const* of, size_t of_count,
    const char* const* wrt, size_t wrt_count, tilec_program** gradient);

/* The forward derivative (a Jacobian times a vector): a program whose inputs are the program's inputs and then the
 * tangent `tX` of each input X of `wrt`, and whose outputs are `tO` for each output O of `of`. Of a gradient it is a
 * Hessian-vector product:
 *
 *     tilec_gradient(program, NULL, 0, wrt, 1, &gradient);                   // (X, dL) -> (dX)
 *     tilec_jvp(gradient, NULL, 0, wrt, 1, &product);                        // (X, dL, tX) -> (tdX) */
TILEC_API tilec_status tilec_jvp(const tilec_program* program, const char* const* of, size_t of_count,
    const char* const* wrt, size_t wrt_count, tilec_program** tangent);

/* Values and gradients in one: a program whose inputs are those of tilec_gradient, and whose outputs are the program's
 * outputs and then the gradient's. What both need is computed once. It is not differentiated further. */
TILEC_API tilec_status tilec_value_and_gradient(const tilec_program* program, const char* const* of, size_t of_count,
    const char* const* wrt, size_t wrt_count, tilec_program** both);

/* The program for a batch: each input that `inputs` names (count 0: all) has one dimension more, in front, and so has
 * every output. Element b along it of an output is what the program makes of element b of each of these inputs, and of
 * the others as they are:
 *
 *     tilec_vmap(program, inputs, 1, &batched);                              // (A[M, K], B[K, N]) -> (C[M, N]), of "A"
 *                                                                            // (A[Bt, M, K], B[K, N]) -> (C[Bt, M, N])
 *
 * It is one program, compiled as if its text had the index: no loop over calls. Names stay, in any order with
 * derivatives and other batches: the batch of a gradient gives a gradient for each element, the gradient of a batch one
 * for all of it (an input that is not of the batch has the sum). What depends on no input of the batch is computed
 * once; an output of that kind is repeated, so that every output has the dimension. With count 0, an argument without
 * dimensions (a number, a scalar) is the same for the whole batch. Arguments whose first dimensions differ are
 * TILEC_ARGUMENT_ERROR (E0341), as is one that lacks the dimension (E0340). A size has one value in a batch: E0342,
 * when the program is specialised at the latest. The next vmap's dimension stands in front of this one's. */
TILEC_API tilec_status tilec_vmap(
    const tilec_program* program, const char* const* inputs, size_t count, tilec_program** batched);

/* The same program, compiled as a plan says: text that tilec_emit(…, "plan", …) gave for it, whole, edited or in part.
 * What it does not say is chosen. Behind lines `forward` and `backward` stands how the pair of tilec_vjp and
 * tilec_save_vjp is compiled: the stage `pair-plan` prints both. It belongs to this program, not to its derivatives,
 * and to the shapes and the target it was printed for: a line that cannot be read or does not apply is
 * TILEC_PROGRAM_ERROR with its place when the program is specialised (E0560 to E0564). */
TILEC_API tilec_status tilec_with_plan(
    const tilec_program* program, const char* plan, size_t length, tilec_program** planned);

TILEC_API void tilec_program_destroy(tilec_program* program);

/* Names in order: of inputs (a gradient's cotangents last) and of outputs. No two are the same: `C` and `C_1` for
 * `-> (C, C)`, `A_1` for `(A) -> (A)`. NULL past the end. */
TILEC_API const char* tilec_program_name(const tilec_program* program);
/* as it was asked for: "cpu", "cuda:sm_90a" */
TILEC_API const char* tilec_program_target(const tilec_program* program);
TILEC_API size_t tilec_input_count(const tilec_program* program);
TILEC_API const char* tilec_input_name(const tilec_program* program, size_t position);
/* 1: a call may leave this input out, as the text has a default for it (`G[N] = 1`). No derivative is taken by what is
 * left out. */
TILEC_API int tilec_input_is_optional(const tilec_program* program, size_t position);
/* The input that argument `position` of `count` arguments without names is: `position` itself, but of a derivative the
 * cotangents or tangents are the last ones. What they are then short of are inputs with a default, from the last one
 * on: of the gradient (X, G, dY) of f(X, G = 1), two arguments are X and dY. Past the end the number of inputs. */
TILEC_API size_t tilec_input_at(const tilec_program* program, size_t count, size_t position);
TILEC_API size_t tilec_output_count(const tilec_program* program);
TILEC_API const char* tilec_output_name(const tilec_program* program, size_t position);
/* The first output that is the same tensor: `position` itself, but 0 for the second of `-> (C, C)`, which is called
 * `C_1`. */
TILEC_API size_t tilec_output_first(const tilec_program* program, size_t position);

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

/* The element types of Tile, as DLPack codes and bits. */
typedef enum tilec_dtype {
  TILEC_I8 = kDLInt * 256 + 8,
  TILEC_I16 = kDLInt * 256 + 16,
  TILEC_I32 = kDLInt * 256 + 32,
  TILEC_I64 = kDLInt * 256 + 64,
  TILEC_U8 = kDLUInt * 256 + 8,
  TILEC_U16 = kDLUInt * 256 + 16,
  TILEC_U32 = kDLUInt * 256 + 32,
  TILEC_U64 = kDLUInt * 256 + 64,
  TILEC_F16 = kDLFloat * 256 + 16,
  TILEC_F32 = kDLFloat * 256 + 32,
  TILEC_F64 = kDLFloat * 256 + 64,
  TILEC_BF16 = kDLBfloat * 256 + 16,
  TILEC_BOOL = kDLBool * 256 + 8
} tilec_dtype;

/* A tensor of the host's memory, all of it borrowed: `data` is element 0 (NULL where there are none, or where only
 * shapes matter, as for tilec_infer); `shape` has `ndim` sizes (NULL where ndim is 0); `strides` are in elements, of
 * any sign, or NULL: row-major.
 *
 *     DLTensor x = tilec_tensor(data, TILEC_F32, 2, (int64_t[]){2, 3}, NULL);  // C; in C++ tilec::tensor of tilec.hpp
 */
static inline DLTensor tilec_tensor(void* data, tilec_dtype dtype, int32_t ndim, int64_t* shape, int64_t* strides) {
  const unsigned number = dtype;
  DLTensor tensor;
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.device.device_id = 0;
  tensor.ndim = ndim;
  tensor.dtype.code = (number >> 8) & 255U;
  tensor.dtype.bits = number & 255U;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  tensor.strides = strides;
  tensor.byte_offset = 0;
  return tensor;
}

typedef enum tilec_argument_kind {
  /* `tensor`: its shape, element type and strides; its data is read only for integer scalars used as sizes */
  TILEC_TENSOR = 0,
  /* a plain number, weakly typed: it takes the type of what it meets, and is refused where that does not have it
   * (E0215); in a derivative it is a real */
  TILEC_INTEGER = 1,
  TILEC_REAL = 2,
  TILEC_ADD = 3,     /* of a result: `tensor`, and the call adds to what it holds instead of writing it */
  TILEC_UNSIGNED = 4, /* a plain number from 0 to 2^64 - 1: `integer` holds its bits */
  /* of a result: nobody wants it. It is not computed, nor what only it needs, and an input that only it reads may be
   * missing */
  TILEC_NONE = 5
  /* a result is TILEC_TENSOR, TILEC_ADD or TILEC_NONE */
} tilec_argument_kind;

typedef struct tilec_argument {
  const char* name; /* NULL: by position, which is that in the list (see tilec_input_at) */
  tilec_argument_kind kind;
  const DLTensor* tensor; /* of TILEC_TENSOR and TILEC_ADD; NULL there is TILEC_ARGUMENT_ERROR. Else not looked at */
  int64_t integer;
  double real;
} tilec_argument;

/* One input or output of a specialised program, in the order run() takes them. */
typedef struct tilec_port {
  const char* name;
  DLDataType dtype;
  int32_t ndim;
  const int64_t* shape;
  const int64_t* strides; /* in elements */
} tilec_port;

/* ---- Kernels: a program compiled for the shapes, types and strides of its arguments ------------------------------ */

typedef struct tilec_kernel tilec_kernel;

/* Compiles, or finds what an equal call compiled. `results` are outputs whose memory the caller chose, for their
 * strides; others are row-major. A result of kind TILEC_ADD is added to by every run (O = O + what the program
 * computes, rounded once to O's type), as when gradients are accumulated; one of kind TILEC_NONE is no output of the
 * kernel. All of them TILEC_NONE is TILEC_ARGUMENT_ERROR. The tensors are looked at during the call only, and the
 * `data` of results not at all. */
TILEC_API tilec_status tilec_specialize(const tilec_program* program, const tilec_argument* arguments,
    size_t argument_count, const tilec_argument* results, size_t result_count, tilec_kernel** kernel);
TILEC_API void tilec_kernel_destroy(tilec_kernel* kernel);

/* Inputs that are sizes do not appear: ask for names, not only for counts. TILEC_ARGUMENT_ERROR past the end. */
TILEC_API size_t tilec_kernel_input_count(const tilec_kernel* kernel);
TILEC_API tilec_status tilec_kernel_input(const tilec_kernel* kernel, size_t position, tilec_port* port);
TILEC_API size_t tilec_kernel_output_count(const tilec_kernel* kernel);
TILEC_API tilec_status tilec_kernel_output(const tilec_kernel* kernel, size_t position, tilec_port* port);

/* 1: a run adds to output `position`, which it was specialised or saved for. 0 past the end. */
TILEC_API int tilec_kernel_adds(const tilec_kernel* kernel, size_t position);

/* Forward and backward as two kernels, for when cotangents come later. `forward` takes the program's inputs and gives
 * its outputs, then what backward needs of the values in between; `backward` takes, by name, some of the inputs,
 * outputs and kept values, then the cotangents (row-major), and gives the gradients. What is kept and what is computed
 * again is decided from exact counts ([[save]] and [[recompute]] in the text decide for their tensor). Ports tell
 * names, types and shapes; memory that goes from one to the other must not change in between. `results` are gradients,
 * by name or in the order of the outputs of tilec_gradient, as tilec_specialize takes them: TILEC_ADD where backward
 * adds to what dX holds, TILEC_NONE where dX is not wanted, as if `wrt` did not name it. Forward mode has no pair: what
 * a tangent needs is computed where it is needed, so tilec_jvp is one kernel; for many tangents at one point tilec_vmap
 * of it, by the inputs `tX`, computes what does not depend on them once. */
TILEC_API tilec_status tilec_vjp(const tilec_program* program, const char* const* of, size_t of_count,
    const char* const* wrt, size_t wrt_count, const tilec_argument* arguments, size_t argument_count,
    const tilec_argument* results, size_t result_count, tilec_kernel** forward, tilec_kernel** backward);

/* Bytes of memory that a run needs beside its ports. */
TILEC_API size_t tilec_kernel_workspace(const tilec_kernel* kernel);

/* Runs on host memory and waits: inputs[k] and outputs[k] point at element 0 of the tensor of port k, aligned to its
 * element (E0556); one is NULL only where the tensor has no elements (E0559). An input that shares memory with an
 * output is copied first, so the call means what it means with memory apart. Outputs that share memory are refused
 * (E0552), and at tilec_specialize an output whose strides make elements meet (E0553). */
TILEC_API tilec_status tilec_kernel_run(const tilec_kernel* kernel, const void* const* inputs, void* const* outputs);

/* The same with `workspace`: tilec_kernel_workspace(kernel) bytes of the caller's, aligned to 64 (E0556), one block for
 * each call that runs at one time. The kernel then allocates no memory for its data. NULL where it needs none, or as
 * tilec_kernel_run. Devices have their own. */
TILEC_API tilec_status tilec_kernel_run_in(
    const tilec_kernel* kernel, const void* const* inputs, void* const* outputs, void* workspace);

/* What a run consists of: its launches in order, each by the name of its kernel in the code (`k0_C` makes the tensor C;
 * NULL past the end), and the bytes of that code, machine code or a device's text. None where the interpreter runs. */
TILEC_API size_t tilec_kernel_launch_count(const tilec_kernel* kernel);
TILEC_API const char* tilec_kernel_launch_name(const tilec_kernel* kernel, size_t position);
TILEC_API size_t tilec_kernel_code_size(const tilec_kernel* kernel);

/* As tilec_kernel_run, and leaves in milliseconds[k] how long launch k took (tilec_kernel_launch_count of them). A
 * device waits after each. */
TILEC_API tilec_status tilec_kernel_run_timed(
    const tilec_kernel* kernel, const void* const* inputs, void* const* outputs, double* milliseconds);

/* Runs a kernel of target "cuda…" where its tensors are and returns at once: inputs[k] and outputs[k] are addresses of
 * tensors in the GPU's memory (CUdeviceptr, in its primary context, aligned to 16): of the GPU that the target names,
 * else of the one that the tensors lay on that the program was specialised for (kDLCUDA; tensors of the CPU say none:
 * the first). They have the strides of those tensors, and are row-major where it was specialised for the CPU's. What is
 * current in the calling thread is as before afterwards. The work starts behind what `stream` has to do (a CUstream or
 * cudaStream_t; NULL: the default stream); what is behind it on that stream finds the results. `workspace`:
 * tilec_kernel_device_workspace(kernel) bytes of the GPU's, aligned to 64, for one run at a time; NULL where that is 0.
 * Nothing is copied but what TILEC_ADD adds to, which is row-major: an input that shares memory with an output is
 * refused, as are strides of the CPU's tensors (E0559), and kernels of target opencl. An address that is none of the
 * GPU's is found by the driver, later.
 *
 * A kernel of the CPU (cpu, reference) has no streams: `stream` is NULL, and the call is tilec_kernel_run_in, which is
 * done when it returns. */
TILEC_API size_t tilec_kernel_device_workspace(const tilec_kernel* kernel);
TILEC_API tilec_status tilec_kernel_run_on(
    const tilec_kernel* kernel, const void* const* inputs, void* const* outputs, void* workspace, void* stream);

/* Runs a kernel on tensors, in the order of its ports, after a look at each: it has its port's type, shape and strides
 * (those of a dimension of one element are free; NULL: row-major). With all tensors on the CPU it is
 * tilec_kernel_run_in, and `stream` is NULL; with all on one GPU, tilec_kernel_run_on. What differs is named:
 * TILEC_TYPE_ERROR for the type (E0205, E0557), TILEC_ARGUMENT_ERROR for the rest (E0517, E0518, E0559, E0554 for the
 * number of tensors). */
TILEC_API tilec_status tilec_call(const tilec_kernel* kernel, const DLTensor* const* inputs, size_t input_count,
    const DLTensor* const* outputs, size_t output_count, void* workspace, void* stream);

/* Specialises and runs in one call, and waits. Every output is in `results`: memory to write, to add to, or TILEC_NONE;
 * one that is not is TILEC_ARGUMENT_ERROR (E0558). */
TILEC_API tilec_status tilec_run(const tilec_program* program, const tilec_argument* arguments, size_t argument_count,
    const tilec_argument* results, size_t result_count);

/* Element types and shapes of the outputs, without compiling: a kernel that can only be asked for its ports. */
TILEC_API tilec_status tilec_infer(
    const tilec_program* program, const tilec_argument* arguments, size_t argument_count, tilec_kernel** ports);

/* What a call takes, counted before anything is compiled. */
typedef struct tilec_cost {
  size_t size;                        /* sizeof(tilec_cost), set by the caller */
  /* of all points of all statements: a fold is one a point, a function one, fma two, a cast none */
  int64_t operations;
  int exact;                          /* 0: points were too many to count, and there are at most so many operations */
  /* of the tensors that each statement reads and writes, whole; what is fused moves less */
  int64_t bytes_read, bytes_written;
  /* on one core, as the model of the machine says; 0 where it knows none of the target */
  double milliseconds;
  double memory_bytes;                /* from and to memory, as the model says; 0 where the interpreter runs */
} tilec_cost;
TILEC_API tilec_status tilec_estimate(
    const tilec_program* program, const tilec_argument* arguments, size_t argument_count, tilec_cost* cost);

/* What a search for a faster plan has come to. */
typedef struct tilec_tune_progress {
  double elapsed, seconds;  /* seconds since it began, and how many it may take */
  size_t measured;          /* plans, by now */
  double first, best;       /* seconds of a call: as it was compiled before, and with the fastest plan so far */
} tilec_tune_progress;

typedef struct tilec_tune_options {
  size_t size;              /* sizeof(tilec_tune_options) */
  double seconds;           /* how long the search may take; 0: 60 */
  /* called between candidates, on the thread of the call; 0 ends the search, which keeps what is best by then. It must
   * not call tilec with this program. NULL: it goes on until the time is up */
  int (*goes_on)(const tilec_tune_progress* now, void* user);
  void* user;               /* given to goes_on */
} tilec_tune_options;

/* Searches for a faster plan by running the program on these arguments: legal plans near the one that is chosen, as
 * long as one of them is faster. A candidate's results must be those of the plan that was chosen (integers the same,
 * floats within 1e-9, 1e-4, 2e-2 or 1e-1 of the largest value for f64, f32, f16 and bf16). `tuned` is the program with
 * the fastest plan (tilec_with_plan), for these shapes, types and strides; where none is faster, with the plan that was
 * chosen: tilec_emit(tuned, "plan", …) shows it. It is kept in the disk cache too (tilec_options.cache): later
 * compilations of the same program for the same shapes, types, target, number of threads and version of tilec follow
 * it. Arguments are those of tilec_specialize, with values; options may be NULL. The interpreter has no plans:
 * TILEC_ARGUMENT_ERROR (E0564). */
TILEC_API tilec_status tilec_tune(const tilec_program* program, const tilec_argument* arguments, size_t argument_count,
    const tilec_tune_options* options, tilec_program** tuned);

/* ---- Packages: kernels that were saved --------------------------------------------------------------------------- */

/* Writes a package for the shapes, types and strides of these arguments to a file, whole or not at all, as
 * `tilec build` does. */
TILEC_API tilec_status tilec_save(
    const tilec_program* program, const char* path, const tilec_argument* arguments, size_t argument_count);

/* The same for a call as tilec_specialize takes it: its results of kind TILEC_ADD are added to by each run of the
 * package. */
TILEC_API tilec_status tilec_save_call(const tilec_program* program, const char* path, const tilec_argument* arguments,
    size_t argument_count, const tilec_argument* results, size_t result_count);

/* A package is what tilec_save writes and tilec_emit(program, "package", …) gives for the shapes, types and strides of
 * its arguments: machine code, or text of a device, with all that running it takes. Loading and running need no
 * compiler, and a tilec that was built without one has it too. The same program, options and version give the same
 * bytes. TILEC_DEVICE_ERROR: bytes that are no package, of another version, cut off or changed (E0534), or made for a
 * CPU or device that is not here (E0520). `threads` as in tilec_options. */
TILEC_API tilec_status tilec_load(const char* bytes, size_t size, int threads, tilec_kernel** kernel);

/* The same for a pair (tilec_vjp): one package with what runs forward and what runs backward, as `tilec build --vjp`
 * writes it. tilec_load of it gives the function alone. tilec_load_vjp refuses a package that is no pair (E0539). */
TILEC_API tilec_status tilec_save_vjp(const tilec_program* program, const char* const* of, size_t of_count,
    const char* const* wrt, size_t wrt_count, const char* path, const tilec_argument* arguments, size_t argument_count);
TILEC_API tilec_status tilec_load_vjp(
    const char* bytes, size_t size, int threads, tilec_kernel** forward, tilec_kernel** backward);

/* ---- Looking inside ---------------------------------------------------------------------------------------------- */

/* A stage of the compiler: `is_text` is 0 where it is bytes; `target` is the one that has it, or null: every target. */
typedef struct tilec_stage {
  const char* name;
  const char* description;
  const char* target;
  int is_text;
} tilec_stage;

/* All stages, in the order of work; they live as long as the library. `count` may be NULL: it is the same in every
 * call. */
TILEC_API const tilec_stage* tilec_stages(size_t* count);

/* A stage as text or bytes, by its name. Arguments may be left out as long as the stage needs no numbers. */
TILEC_API tilec_status tilec_emit(const tilec_program* program, const char* stage, const tilec_argument* arguments,
    size_t argument_count, tilec_buffer** buffer);
TILEC_API const char* tilec_buffer_data(const tilec_buffer* buffer);
TILEC_API size_t tilec_buffer_size(const tilec_buffer* buffer);
TILEC_API void tilec_buffer_destroy(tilec_buffer* buffer);

/* ---- XLA, as JAX calls it ---------------------------------------------------------------------------------------- */

/* The text by which XLA calls a kernel: the attribute `kernel`, a string of any bytes, of a call of the handlers below.
 * It is the kernel's package and may go to disk and to other processes, wherever the package runs; of a kernel that no
 * package says (target "reference", options.checked) it is a name that means something in this process, as long as the
 * kernel, another handle of it or an executable lives. Destroy it with tilec_buffer_destroy. TILEC_ARGUMENT_ERROR:
 * `kernel` is ports only. */
TILEC_API tilec_status tilec_xla_text(const tilec_kernel* kernel, tilec_buffer** text);

/* Handlers of XLA's typed FFI (version 0.3 of its C API): they take an XLA_FFI_CallFrame*, and give an XLA_FFI_Error*
 * or NULL. `tilec_xla_instantiate` is for stage `instantiate`: the executable holds the kernel from then on. The others
 * are for stage `execute`: `tilec_xla_call` on the platform "Host"; `tilec_xla_call_on` on "CUDA", where it starts the
 * kernel, one of target "cuda…", on XLA's stream. A call's operands and results are the kernel's inputs and outputs in
 * their order, row-major. They may be called from several threads at once. Only XLA calls them:
 *
 *     handlers = {"instantiate": jax.ffi.pycapsule(library.tilec_xla_instantiate), "execute":
 *     jax.ffi.pycapsule(library.tilec_xla_call)} jax.ffi.register_ffi_target("tilec_call", handlers, platform="cpu") */
TILEC_API void* tilec_xla_instantiate(void* call_frame);
TILEC_API void* tilec_xla_call(void* call_frame);
TILEC_API void* tilec_xla_call_on(void* call_frame);

/* ---- CPython, as tilec's package for Python calls it by ctypes --------------------------------------------------- */

/* What is known of the interpreter. Whoever tells it has tried that an array's data, number of dimensions, shape,
 * strides, base, element type and flags lie behind its header in NumPy's order. The functions are those of Python's
 * stable ABI. */
typedef struct tilec_python {
  /* bytes of an object that has nothing else: object.__basicsize__ */
  size_t header;
  /* of NumPy's arrays, and of floats: compared, not looked into */
  const void* array_type;
  const void* float_type;
  void* none;
  void (*increase)(void* object);                        /* Py_IncRef, Py_DecRef */
  void (*decrease)(void* object);
  void* (*call)(void* function, void* arguments);        /* PyObject_CallObject */
  void* (*new_tuple)(ptrdiff_t count);                   /* PyTuple_New, PyTuple_SetItem */
  int (*set_item)(void* tuple, ptrdiff_t position, void* item);
  void* (*error)(void);                                  /* PyErr_Occurred */
  void* (*save_thread)(void);                            /* PyEval_SaveThread, PyEval_RestoreThread */
  void (*restore_thread)(void* state);
} tilec_python;

/* Once, before anything else here. */
TILEC_API void tilec_python_begin(const tilec_python* interpreter);
/* The DLPackExchangeAPI of a type of tensors, each type once. Of more than 16, and of one that gives no DLTensor,
 * nothing is kept. */
TILEC_API void tilec_python_exchange(const void* type, const void* api);

/* The calls of a program that were prepared. Whoever asks holds the GIL; `arguments` and `outputs` are tuples, the
 * second one empty where the call makes its results. NULL: out of memory, and no call is ever known. */
typedef struct tilec_python_calls tilec_python_calls;
TILEC_API tilec_python_calls* tilec_python_calls_create(void);
TILEC_API void tilec_python_calls_destroy(tilec_python_calls* calls);

/* A call that `kernel` runs: sources[k] is the position of the argument that is its input k. `makers` is a tuple of a
 * callable and a tuple of its arguments for each result that the call makes. The caller keeps the kernel and the makers
 * alive as long as `calls`. Of tensors in a GPU's memory, all of one library: `workspace` is what tilec_kernel_run_on
 * takes, that of the stream that the library is at, and so is the call; NULL: the kernel needs none, and the call is of
 * every stream. Gives the number of the call, or -1 where an argument is no array, no float and no tensor of a type
 * that was told, or an output cannot be written. */
TILEC_API int tilec_python_calls_add(tilec_python_calls* calls, const tilec_kernel* kernel, void* arguments,
    void* outputs, void* makers, const int32_t* sources, void* workspace);

/* Greater for a call that was used later. */
TILEC_API uint64_t tilec_python_calls_used(tilec_python_calls* calls, int number);

/* Finds the call that has the types, shapes and strides of these, and runs it, without the GIL; on a GPU it starts it
 * on the stream that the library is at, and waits for nothing. Gives a new reference: the result, or the tuple of
 * results; None where no call is known or it failed (what is wrong will be said when it is prepared again); NULL where
 * Python has an exception. */
TILEC_API void* tilec_python_call(tilec_python_calls* calls, void* arguments, void* outputs);

#ifdef __cplusplus
}
#endif

#endif
