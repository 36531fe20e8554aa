/*===- kiln.h - GPT-2, compiled and run, from C ------------------------------===
 *
 * libkiln exports one function, kilnGetApi, which returns a table of functions. docs/c-api.md has an introduction,
 * examples/c/generate.c a program.
 *
 * For all functions of the table:
 *
 * Errors. A function that can fail returns NULL for success, else an error, which the caller releases. It then has
 * changed nothing that its arguments point to, except that a handle that it was to return is NULL. No exception
 * leaves the library, and it prints nothing. Passing NULL where nothing allows it is an error, not a crash; passing a
 * handle that was released, or memory that is smaller than said, is undefined.
 *
 * Ownership. What a caller passes stays the caller's; the library copies what it keeps. A handle that a function
 * returns through a pointer is the caller's, who releases it by the function named like it, in any order: a handle
 * keeps alive what it needs of others. Releasing NULL does nothing. Every other pointer that the library returns is
 * borrowed: it is valid as long as its function says.
 *
 * Threads. Every function may be called from any thread. Models are immutable: several threads may use one at once. A
 * session does one thing at a time: a call during another call of the same session, also from its callback, is an
 * error (KilnErrorBusy). Different sessions are independent. A handle must not be released while a call uses it.
 *
 * Structures of options and results begin with their size, by which the library knows which fields the caller's
 * version of this header has; later versions only append fields. Use the initialisers of this header, whose values are
 * the defaults of `kiln run` and `kiln compile`; NULL for options means the same.
 *
 * Strings are UTF-8 and end with a zero byte, where no length goes with them. Text may contain any bytes.
 *
 *===----------------------------------------------------------------------===*/
#ifndef KILN_H
#define KILN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KILN_EXPORT __attribute__((visibility("default")))
#else
#define KILN_EXPORT
#endif

/* The version of the table that this header describes. */
#define KILN_API_VERSION 3

typedef struct KilnError KilnError;
typedef struct KilnModel KilnModel;
typedef struct KilnSession KilnSession;
typedef struct KilnGenerations KilnGenerations;
typedef struct KilnCancellation KilnCancellation;
typedef struct KilnText KilnText;

/* What kind of error it is; later versions may add some. */
typedef enum KilnErrorCode {
  KilnOk = 0,
  KilnErrorFailed = 1,      /* a diagnosed error of the input, the files or the machine */
  KilnErrorUsage = 2,       /* an option that the model or the device cannot honour */
  KilnErrorMisuse = 3,      /* a call that this header does not allow */
  KilnErrorBusy = 4,        /* another call of the session is running */
  KilnErrorOutOfMemory = 5, /* of the host; that of a device is KilnErrorFailed, with sizes */
  KilnErrorInternal = 6     /* a mistake in the library */
} KilnErrorCode;

/* Token ids. This structure never changes. */
typedef struct KilnTokens {
  const int32_t *ids;
  size_t count;
} KilnTokens;

/* Called while kernels are compiled: `done` of `all` are, the last one is `what`. Calls come one after the other, but
 * from any thread; they must not throw or leave by longjmp. */
typedef void (*KilnProgressCallback)(void *user, size_t done, size_t all, const char *what);

/* Called with a message about something that went on but could be better, on the calling thread. */
typedef void (*KilnNoteCallback)(void *user, const char *text);

/* How to compile a model into a plan. The texts are those of the options of `kiln compile`; NULL: the default. There is
 * no option for ranks: such plans are made by `kiln compile --ranks`, and run by `kiln run`. */
typedef struct KilnCompileOptions {
  size_t size;
  const char *const *targets; /* GPUs; tiles are chosen for the first; NULL: sm_90a */
  size_t targetCount;
  int64_t maxBatch; /* most sequences at once */
  const char *dtype;
  const char *matmul;
  const char *decode;
  const char *strategy;
  const char *tuning;
  const char *passes;    /* instead of the usual ones */
  int64_t draftTokens;   /* most guesses of a sequence that @verify checks; 0: no @verify */
  int32_t withoutCubins; /* not 0: CUDA only */
  int32_t withoutCache;  /* not 0: compile every kernel anew */
  KilnProgressCallback onProgress;
  KilnNoteCallback onNote;
  void *user;             /* for both callbacks */
  int64_t batchInvariant; /* 2 to 64: a row's bits do not depend on the rows beside it, as far as
                             docs/batch-invariance.md says; 1: they may; 0: the default, 8 */
} KilnCompileOptions;

#define KILN_COMPILE_OPTIONS                                                                                           \
  {sizeof(KilnCompileOptions), NULL, 0, 64, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, 0}

/* How to open a model. The texts are those of the options of `kiln run`; NULL: the default. */
typedef struct KilnModelOptions {
  size_t size;
  const char *device;            /* auto, cpu, emulate or cuda:N; NULL: auto */
  int64_t batch;                 /* most sequences at once */
  const char *weights;           /* where weights and vocabulary are; NULL: in the model, or where the plan remembers */
  const uint64_t *randomWeights; /* the seed of random weights; NULL: the model's own weights */
  const char *dtype;
  const char *matmul;
  const char *decode;
  const char *strategy;
  const char *tuning;
  int64_t batchInvariant; /* as in KilnCompileOptions */
} KilnModelOptions;

#define KILN_MODEL_OPTIONS {sizeof(KilnModelOptions), NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0}

/* What is known of a model. Pointers are borrowed until the model is released. */
typedef struct KilnModelInfo {
  size_t size;
  const char *name;
  const char *device;     /* on which its sessions run: cpu, emulate or cuda:N */
  int64_t vocabularySize; /* logits of a row, and the bound of token ids */
  int64_t contextLength;  /* most tokens of a sequence */
  int64_t layers;
  int64_t batch;            /* most sequences at once */
  int64_t tokenCount;       /* of the vocabulary, at most vocabularySize; 0: there is no vocabulary */
  const int32_t *eosTokens; /* that end a sequence */
  size_t eosTokenCount;
  int32_t beginToken; /* with which `kiln run` begins an empty prompt; -1: none */
  int32_t reserved;
} KilnModelInfo;

#define KILN_MODEL_INFO {sizeof(KilnModelInfo), NULL, NULL, 0, 0, 0, 0, 0, NULL, 0, 0, 0}

/* How to open a session. */
typedef struct KilnSessionOptions {
  size_t size;
  int32_t canScore; /* not 0: allocate memory for `score`, too */
  int32_t reserved;
  KilnProgressCallback onProgress; /* on the device emulate */
  KilnNoteCallback onNote;
  void *user; /* for both callbacks */
} KilnSessionOptions;

#define KILN_SESSION_OPTIONS {sizeof(KilnSessionOptions), 0, 0, NULL, NULL, NULL}

/* A token that was generated. */
typedef struct KilnToken {
  size_t size;
  size_t sequence; /* index of its prompt */
  int32_t id;
  int32_t reserved;
  const char *text; /* that has become certain: UTF-8, without stop strings; the texts of a sequence, one after the
                       other, are its text; empty without a vocabulary; borrowed until the callback returns */
  size_t textLength;
} KilnToken;

/* Called for each token as it comes, on the thread that called `generate`. It must not release the session, and must
 * not leave by longjmp. Returns 0 to go on, or another number to end all sequences, as `cancel` does. */
typedef int32_t (*KilnTokenCallback)(void *user, const KilnToken *token);

/* What to do about a sequence that does not fit in the model's context. */
typedef enum KilnOverflow {
  KilnOverflowError = 0, /* refuse prompts that with their new tokens may not fit, before anything runs */
  KilnOverflowStop = 1,  /* end the sequence when it fills the context */
  KilnOverflowSlide = 2  /* evaluate the last tokens again as if they were the first */
} KilnOverflow;

/* How to generate; as the options of `kiln run` that are called so. The library has no drafts, penalties and biases. */
typedef struct KilnGenerateOptions {
  size_t size;
  int64_t maxNewTokens; /* of each sequence */
  int32_t greedy;       /* not 0: the most probable token; temperature to seed are then not used */
  int32_t ignoreEos;    /* not 0: a sequence goes on behind an end-of-text token */
  double temperature;   /* above 0 */
  int64_t topK;         /* 0: off */
  double topP;          /* 1: off */
  double minP;          /* 0: off */
  uint64_t seed;
  const char *const *stopStrings; /* a sequence ends when its new text contains one of these */
  size_t stopStringCount;
  int32_t overflow;   /* a KilnOverflow */
  int32_t keepLogits; /* not 0: for generationLogits and generationLogProbabilities */
  int64_t slideKeep;  /* tokens to keep when the context slides; 0: half the context */
  KilnTokenCallback onToken;
  void *user; /* for onToken */
  KilnCancellation *cancellation;
} KilnGenerateOptions;

#define KILN_GENERATE_OPTIONS                                                                                          \
  {sizeof(KilnGenerateOptions), 128, 0, 0, 1.0, 50, 1.0, 0.0, 0, NULL, 0, KilnOverflowError, 0, 0, NULL, NULL, NULL}

/* Why a sequence ended. */
typedef enum KilnFinishReason {
  KilnFinishLength = 0,
  KilnFinishStop = 1,
  KilnFinishEos = 2,
  KilnFinishCancelled = 3
} KilnFinishReason;

/* A sequence that was generated. Pointers are borrowed until the KilnGenerations are released. */
typedef struct KilnGeneration {
  size_t size;
  const int32_t *tokens; /* the new ones, up to and including what ended the sequence */
  size_t tokenCount;
  const char *text; /* of the new tokens, without a final end-of-text token, up to a stop string; also ends with 0 */
  size_t textLength;
  int32_t finishReason; /* a KilnFinishReason */
  int32_t reserved;
  double promptMs;       /* time to evaluate the prompts of its batch */
  const double *tokenMs; /* time of the step that gave each token */
} KilnGeneration;

#define KILN_GENERATION {sizeof(KilnGeneration), NULL, 0, NULL, 0, 0, 0, 0.0, NULL}

/* For which calls a plan's costs are told; as the options of `kiln report`. Since version 2. */
typedef struct KilnPlanOptions {
  size_t size;
  int64_t batch;       /* sequences; 0: those of the profile, else 1 */
  int64_t length;      /* tokens of each; 0: those of the profile, else 64 or the most that the plan takes */
  const char *profile; /* measured times, of `kiln bench PLAN --what kernels -o json`; NULL: none */
} KilnPlanOptions;

#define KILN_PLAN_OPTIONS {sizeof(KilnPlanOptions), 0, 0, NULL}

/* For `decode`: this row takes no part in the step. */
#define KILN_IDLE_ROW (-1)

/* The functions. A table of a later version begins with that of an earlier one. */
typedef struct KilnApi {
  uint32_t version; /* KILN_API_VERSION of the library's own header */
  uint32_t reserved;
  size_t size; /* of the table, in bytes */

  /*---- Errors; any of them may be NULL, which is KilnOk with an empty message ----*/

  /* A KilnErrorCode. Does not fail. */
  int32_t (*errorCode)(const KilnError *error);
  /* Lines in the style `FILE:LINE:COLUMN: error: what: expected X, got Y`. Borrowed until the error is released. */
  const char *(*errorMessage)(const KilnError *error);
  void (*releaseError)(KilnError *error);

  /*---- Library ----*/

  /* The version of Kiln, like 0.1.0. Valid for ever; does not fail. */
  const char *(*libraryVersion)(void);

  /*---- Compiling ----*/

  /* Compiles `model` into a plan in `directory`, as `kiln compile MODEL -o PLAN` does. Needs no GPU. A directory that
   * is not a plan is not overwritten, and after an error nothing is written. */
  KilnError *(*compile)(const char *model, const char *directory, const KilnCompileOptions *options);

  /*---- Models ----*/

  /* Opens a model or a plan with its weights and vocabulary, which are found and checked as `kiln run` does it; `path`
   * is its MODEL. Compiles a model to IR; a session of it compiles kernels. */
  KilnError *(*openModel)(const char *path, const KilnModelOptions *options, KilnModel **model);
  void (*releaseModel)(KilnModel *model);
  /* Fills `info`, whose size the caller has set. */
  KilnError *(*modelInfo)(const KilnModel *model, KilnModelInfo *info);
  /* Turns `length` bytes of text into token ids: writes up to `capacity` of them and sets `count` to the number that
   * there are. `tokens` may be NULL if `capacity` is 0. With `special`, special tokens in the text become their ids.
   * Error: the model has no vocabulary. */
  KilnError *(*tokenize)(const KilnModel *model, const char *text, size_t length, int32_t special, int32_t *tokens,
                         size_t capacity, size_t *count);
  /* Turns token ids into the bytes that they stand for, which need not be valid UTF-8: writes up to `capacity` of them,
   * with no zero behind them, and sets `length` to the number that there are. Error: no vocabulary; an id that is no
   * token of it. */
  KilnError *(*detokenize)(const KilnModel *model, const int32_t *tokens, size_t count, char *text, size_t capacity,
                           size_t *length);

  /*---- Sessions: a model on its device, with memory for `batch` sequences ----*/

  /* Loads the model's plan and weights, of which each session has its own. Error: also those of opening the device and
   * of compiling kernels. */
  KilnError *(*openSession)(KilnModel *model, const KilnSessionOptions *options, KilnSession **session);
  void (*releaseSession)(KilnSession *session);

  /* Step by step: */

  /* Evaluates a prompt for each row, from 1 to the context's number of tokens; rows forget what they held. Fixes the
   * number of rows, up to the batch. A row's logits do not depend on the other rows. After an error of the device, the
   * session has no rows. */
  KilnError *(*prefill)(KilnSession *session, const KilnTokens *prompts, size_t rows);
  /* Appends a token to each row, or nothing where it is KILN_IDLE_ROW; `rows` is that of `prefill`. Error: also a row
   * that is full. Rows after an error as of prefill. */
  KilnError *(*decode)(KilnSession *session, const int32_t *tokens, size_t rows);
  /* The logits that follow a row's last token, vocabularySize of them. Borrowed until the next call of prefill, decode,
   * generate or releaseSession. */
  KilnError *(*logits)(KilnSession *session, size_t row, const float **logits);
  /* Writes the natural logarithms of the probabilities of each token to follow a row, vocabularySize of them, which is
   * the least `capacity`. */
  KilnError *(*logProbabilities)(KilnSession *session, size_t row, float *logProbabilities, size_t capacity);

  /* Whole texts: */

  /* Writes the log-probability of each token but the first, given those before it: `count` - 1 of them, at most the
   * context's number. Needs a session with canScore; leaves the rows as they are. */
  KilnError *(*score)(KilnSession *session, const int32_t *tokens, size_t count, double *logProbabilities);
  /* Generates a sequence for each prompt, in batches of the session's size, with the results of `kiln run`: each as if
   * it were alone. Prompts have at least one token. The session has no rows afterwards. Being cancelled is no error:
   * the sequences end as they are. */
  KilnError *(*generate)(KilnSession *session, const KilnTokens *prompts, size_t count,
                         const KilnGenerateOptions *options, KilnGenerations **generations);

  /*---- Results of generate; several threads may read them at once ----*/

  /* One for each prompt; 0 for NULL. Does not fail. */
  size_t (*generationCount)(const KilnGenerations *generations);
  /* Fills `generation`, whose size the caller has set. */
  KilnError *(*generation)(const KilnGenerations *generations, size_t index, KilnGeneration *generation);
  /* The logits from which a token was chosen, vocabularySize of them. Borrowed until the generations are released.
   * Error: they were not kept. */
  KilnError *(*generationLogits)(const KilnGenerations *generations, size_t index, size_t token, const float **logits);
  /* Writes the log-probabilities that these logits give the tokens that were chosen, tokenCount of them, which is the
   * least `capacity`: of the model itself, before temperature and the like. Error: logits were not kept. */
  KilnError *(*generationLogProbabilities)(const KilnGenerations *generations, size_t index, float *logProbabilities,
                                           size_t capacity);
  void (*releaseGenerations)(KilnGenerations *generations);

  /*---- Cancelling ----*/

  /* Makes a cancellation, for any number of calls of generate, at once or one after the other. */
  KilnError *(*createCancellation)(KilnCancellation **cancellation);
  /* Ends the calls that were given it, after the step that they are at, and later ones before they begin. May be called
   * from any thread at any time before its release, and from a signal handler. NULL: does nothing. */
  void (*cancel)(KilnCancellation *cancellation);
  void (*releaseCancellation)(KilnCancellation *cancellation);

  /*---- Plans and IR as data; since version 2 ----*/

  /* Reads the plan in `directory`: its model, kernels with their CUDA, functions with their steps, and what calls of
   * these cost. The text is JSON, as docs/c-api.md describes it. Error: as of `kiln report PLAN`. */
  KilnError *(*describePlan)(const char *directory, const KilnPlanOptions *options, KilnText **json);
  /* Parses and verifies the IR of one module, `length` bytes of text, like those of a plan's files ir/STAGE.kiln.
   * `name` stands for the text in locations and messages. The text is JSON, as docs/c-api.md describes it. */
  KilnError *(*describeIr)(const char *name, const char *text, size_t length, KilnText **json);
  /* The bytes of a text, UTF-8 with a zero behind them, and in `length`, unless it is NULL, their number. Borrowed
   * until the text is released. An empty one for NULL; does not fail. */
  const char *(*textData)(const KilnText *text, size_t *length);
  void (*releaseText)(KilnText *text);
} KilnApi;

/* The table for a caller that was compiled with a header of this version: pass KILN_API_VERSION. NULL if the library is
 * older. Valid for ever. */
KILN_EXPORT const KilnApi *kilnGetApi(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
