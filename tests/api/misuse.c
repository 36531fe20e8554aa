/* Calls that kiln.h does not allow, and calls after errors: misuse MODEL TEMPORARY-FOLDER. */
#include "support.h"

static void checkVersions(void) {
  EXPECT(kilnGetApi(0) == NULL);
  EXPECT(kilnGetApi(KILN_API_VERSION + 1) == NULL);
  EXPECT(kilnGetApi(1) == kiln);
  EXPECT(kiln->version == KILN_API_VERSION && kiln->size == sizeof(KilnApi));
  EXPECT(kiln->libraryVersion()[0] != 0);
}

static void checkNothing(void) {
  size_t count = 7;
  const float *row;
  float probability;
  EXPECT(kiln->errorCode(NULL) == KilnOk && kiln->errorMessage(NULL)[0] == 0);
  kiln->releaseError(NULL);
  kiln->releaseModel(NULL);
  kiln->releaseSession(NULL);
  kiln->releaseGenerations(NULL);
  kiln->releaseCancellation(NULL);
  kiln->cancel(NULL);
  EXPECT(kiln->generationCount(NULL) == 0);
  FAILS(KilnErrorMisuse, "model: expected a pointer", kiln->compile(NULL, "x", NULL));
  FAILS(KilnErrorMisuse, "directory: expected a pointer", kiln->compile("x", NULL, NULL));
  FAILS(KilnErrorMisuse, "model: expected a pointer", kiln->openModel("x", NULL, NULL));
  FAILS(KilnErrorMisuse, "model: expected a pointer", kiln->modelInfo(NULL, NULL));
  FAILS(KilnErrorMisuse, "model: expected a pointer", kiln->tokenize(NULL, "x", 1, 0, NULL, 0, &count));
  FAILS(KilnErrorMisuse, "model: expected a pointer", kiln->detokenize(NULL, NULL, 0, NULL, 0, &count));
  FAILS(KilnErrorMisuse, "session: expected a pointer", kiln->openSession(NULL, NULL, NULL));
  FAILS(KilnErrorMisuse, "session: expected a pointer", kiln->prefill(NULL, NULL, 0));
  FAILS(KilnErrorMisuse, "session: expected a pointer", kiln->decode(NULL, NULL, 0));
  FAILS(KilnErrorMisuse, "session: expected a pointer", kiln->logits(NULL, 0, &row));
  FAILS(KilnErrorMisuse, "session: expected a pointer", kiln->logProbabilities(NULL, 0, &probability, 1));
  FAILS(KilnErrorMisuse, "session: expected a pointer", kiln->score(NULL, NULL, 0, NULL));
  FAILS(KilnErrorMisuse, "session: expected a pointer", kiln->generate(NULL, NULL, 0, NULL, NULL));
  FAILS(KilnErrorMisuse, "generations: expected a pointer", kiln->generation(NULL, 0, NULL));
  FAILS(KilnErrorMisuse, "generations: expected a pointer", kiln->generationLogits(NULL, 0, 0, &row));
  FAILS(KilnErrorMisuse, "cancellation: expected a pointer", kiln->createCancellation(NULL));
  EXPECT(count == 7);
}

static void checkDescribing(const char *path) {
  static const char ir[] = "module @m {\n  dim B : 1..4\n}\n";
  KilnText *json = (KilnText *)path; /* not a text: an error makes it NULL */
  KilnPlanOptions options = KILN_PLAN_OPTIONS;
  size_t length = 7;
  EXPECT(kiln->textData(NULL, &length)[0] == 0 && length == 0);
  kiln->releaseText(NULL);
  FAILS(KilnErrorMisuse, "json: expected a pointer", kiln->describePlan(path, NULL, NULL));
  FAILS(KilnErrorMisuse, "directory: expected a pointer", kiln->describePlan(NULL, NULL, &json));
  EXPECT(json == NULL);
  options.batch = -1;
  FAILS(KilnErrorMisuse, "batch: expected 1 or more", kiln->describePlan(path, &options, &json));
  options.batch = 0;
  options.length = -1;
  FAILS(KilnErrorMisuse, "length: expected 1 or more", kiln->describePlan(path, &options, &json));
  FAILS(KilnErrorFailed, "plan.toml", kiln->describePlan(path, NULL, &json)); /* a model, but no plan */
  FAILS(KilnErrorMisuse, "json: expected a pointer", kiln->describeIr("x", ir, sizeof ir - 1, NULL));
  FAILS(KilnErrorMisuse, "name: expected a pointer", kiln->describeIr(NULL, ir, sizeof ir - 1, &json));
  FAILS(KilnErrorMisuse, "text: expected a pointer", kiln->describeIr("x", NULL, 1, &json));
  FAILS(KilnErrorFailed, "x:1:10: error: expected", kiln->describeIr("x", ir, 9, &json));
  EXPECT(json == NULL);
  CHECK(kiln->describeIr("x", ir, sizeof ir - 1, &json));
  EXPECT(strlen(kiln->textData(json, &length)) == length && kiln->textData(json, NULL)[0] == '{');
  EXPECT(strstr(kiln->textData(json, NULL), "\"dims\":[{\"name\":\"B\",\"min\":1,\"max\":4}]") != NULL);
  kiln->releaseText(json);
}

static void checkOpening(const char *path, const char *folder) {
  KilnModel *model = (KilnModel *)folder; /* not a model: an error makes it NULL */
  KilnModelOptions options = KILN_MODEL_OPTIONS;
  uint64_t seed = 1;
  FAILS(KilnErrorMisuse, "path: expected a pointer", kiln->openModel(NULL, NULL, &model));
  EXPECT(model == NULL);
  FAILS(KilnErrorFailed, "no/such.toml", kiln->openModel("no/such.toml", NULL, &model));
  options.size = 0;
  FAILS(KilnErrorMisuse, "initialise the structure with KILN_MODEL_OPTIONS", kiln->openModel(path, &options, &model));
  options.size = sizeof options + 8;
  FAILS(KilnErrorMisuse, "size: expected from 8 to", kiln->openModel(path, &options, &model));
  options.size = sizeof options;
  options.device = "gpu";
  FAILS(KilnErrorUsage, "device: expected auto", kiln->openModel(path, &options, &model));
  options.device = "cpu";
  options.batch = 0;
  FAILS(KilnErrorMisuse, "batch: expected 1 to", kiln->openModel(path, &options, &model));
  options.batch = 1;
  options.dtype = "f31";
  FAILS(KilnErrorUsage, "--dtype: expected one of", kiln->openModel(path, &options, &model));
  options.dtype = "bf16";
  FAILS(KilnErrorUsage, "the reference executor", kiln->openModel(path, &options, &model));
  options.dtype = NULL;
  options.weights = path;
  options.randomWeights = &seed;
  FAILS(KilnErrorMisuse, "randomWeights: expected", kiln->openModel(path, &options, &model));
  EXPECT(model == NULL);
}

static void checkCompiling(const char *path, const char *folder) {
  const char *missing[] = {"sm_90a", NULL}, *unknown[] = {"sm_1"};
  const char *twice[] = {"sm_90a", "sm_90a"}, *two[] = {"sm_80", "sm_90a"};
  KilnCompileOptions options = KILN_COMPILE_OPTIONS;
  options.targets = missing;
  options.targetCount = 2;
  FAILS(KilnErrorMisuse, "targets: expected a pointer", kiln->compile(path, folder, &options));
  options.targets = unknown;
  options.targetCount = 1;
  FAILS(KilnErrorFailed, "sm_1", kiln->compile(path, folder, &options));
  options.targets = twice;
  options.targetCount = 2;
  FAILS(KilnErrorUsage, "--target: expected each target once, got sm_90a,sm_90a",
        kiln->compile(path, folder, &options));
  options.targets = two;
  options.withoutCubins = 1;
  FAILS(KilnErrorUsage, "--target: expected one target where no cubins are made",
        kiln->compile(path, folder, &options));
  options.targetCount = 1;
  options.passes = "canonicalize";
  FAILS(KilnErrorUsage, "--target: --passes chooses the target", kiln->compile(path, folder, &options));
  options.targetCount = 0;
  options.dtype = "bf16";
  FAILS(KilnErrorUsage, "--dtype excludes --passes", kiln->compile(path, folder, &options));
  options.dtype = NULL;
  options.batchInvariant = 8;
  FAILS(KilnErrorUsage, "--batch-invariant excludes --passes", kiln->compile(path, folder, &options));
  options.batchInvariant = 0;
  options.passes = NULL;
  options.withoutCubins = 0;
  options.decode = "fast";
  FAILS(KilnErrorUsage, "--decode: expected one of auto, graph, persistent", kiln->compile(path, folder, &options));
  options.decode = NULL;
  options.maxBatch = -1;
  FAILS(KilnErrorMisuse, "maxBatch: expected 1 to", kiln->compile(path, folder, &options));
  options.maxBatch = 1;
  options.draftTokens = 64;
  FAILS(KilnErrorMisuse, "draftTokens: expected 0 to 63", kiln->compile(path, folder, &options));
  options.draftTokens = 0;
  options.batchInvariant = 65;
  FAILS(KilnErrorMisuse, "batchInvariant: expected 0 to 64, got 65", kiln->compile(path, folder, &options));
}

static void checkText(const KilnModel *model) {
  int32_t ids[8], unknown = 1 << 30;
  char text[4] = "...";
  size_t count;
  FAILS(KilnErrorMisuse, "text: expected a pointer", kiln->tokenize(model, NULL, 1, 0, ids, 8, &count));
  FAILS(KilnErrorMisuse, "tokens: expected a pointer", kiln->tokenize(model, "x", 1, 0, NULL, 8, &count));
  FAILS(KilnErrorMisuse, "expected a pointer", kiln->tokenize(model, "x", 1, 0, ids, 8, NULL));
  FAILS(KilnErrorFailed, "1073741824", kiln->detokenize(model, &unknown, 1, text, 4, &count));
  CHECK(kiln->tokenize(model, NULL, 0, 0, NULL, 0, &count));
  EXPECT(count == 0);
  CHECK(kiln->tokenize(model, "ROMEO:", 6, 0, ids, 8, &count));
  EXPECT(count > 1 && count < 8);
  size_t all = count;
  CHECK(kiln->detokenize(model, ids, all, text, 2, &count)); /* writes no more than there is room for */
  EXPECT(count == 6 && strcmp(text, "RO.") == 0);
}

static void checkRows(KilnSession *session, const KilnModelInfo *info) {
  int32_t id = 1, unknown = (int32_t)info->vocabularySize;
  KilnTokens good = {&id, 1}, empty = {NULL, 0}, missing = {NULL, 3}, wrong = {&unknown, 1}, two[2];
  const float *row = NULL;
  float *probabilities = malloc((size_t)info->vocabularySize * sizeof(float));
  two[0] = two[1] = good;
  FAILS(KilnErrorMisuse, "rows of prefill, got none", kiln->decode(session, &id, 1));
  FAILS(KilnErrorMisuse, "one of the 0 rows", kiln->logits(session, 0, &row));
  FAILS(KilnErrorMisuse, "rows: expected 1 to the batch of 1, got 2", kiln->prefill(session, two, 2));
  FAILS(KilnErrorMisuse, "rows: expected 1 to the batch of 1, got 0", kiln->prefill(session, two, 0));
  FAILS(KilnErrorMisuse, "prompts: expected a pointer", kiln->prefill(session, NULL, 1));
  FAILS(KilnErrorMisuse, "prompt 1: expected a pointer", kiln->prefill(session, &missing, 1));
  FAILS(KilnErrorFailed, "at least one token, got none", kiln->prefill(session, &empty, 1));
  FAILS(KilnErrorFailed, "expected token ids in 0..", kiln->prefill(session, &wrong, 1));
  CHECK(kiln->prefill(session, &good, 1)); /* the session is as good as before the errors */
  FAILS(KilnErrorMisuse, "rows: expected the 1 of prefill, got 2", kiln->decode(session, &id, 2));
  FAILS(KilnErrorFailed, "expected a token id in 0..", kiln->decode(session, &unknown, 1));
  FAILS(KilnErrorMisuse, "logits: expected a pointer", kiln->logits(session, 0, NULL));
  FAILS(KilnErrorMisuse, "capacity: expected at least", kiln->logProbabilities(session, 0, probabilities, 1));
  CHECK(kiln->logits(session, 0, &row));
  CHECK(kiln->logProbabilities(session, 0, probabilities, (size_t)info->vocabularySize));
  for (int64_t length = 1; length < info->contextLength; ++length)
    CHECK(kiln->decode(session, &id, 1));
  FAILS(KilnErrorFailed, "no token fits behind", kiln->decode(session, &id, 1));
  FAILS(KilnErrorMisuse, "opened with canScore", kiln->score(session, &id, 1, NULL));
  free(probabilities);
}

static int32_t callBack(void *session, const KilnToken *token) {
  KilnGenerations *generations;
  KilnTokens prompt = {&token->id, 1};
  FAILS(KilnErrorBusy, "one that still runs", kiln->prefill(session, &prompt, 1));
  FAILS(KilnErrorBusy, "one that still runs", kiln->generate(session, &prompt, 1, NULL, &generations));
  EXPECT(generations == NULL);
  return 1;
}

static void checkGenerating(KilnSession *session) {
  int32_t id = 1;
  KilnTokens prompt = {&id, 1};
  KilnGenerateOptions options = KILN_GENERATE_OPTIONS;
  KilnGenerations *generations = NULL;
  KilnGeneration generation = KILN_GENERATION;
  const char *stop = NULL;
  const float *row;
  float probabilities[4];
  options.overflow = 3;
  FAILS(KilnErrorMisuse, "overflow: expected", kiln->generate(session, &prompt, 1, &options, &generations));
  options.overflow = KilnOverflowError;
  options.temperature = 0;
  FAILS(KilnErrorUsage, "--temperature", kiln->generate(session, &prompt, 1, &options, &generations));
  options.greedy = 1; /* the options of sampling are not used then */
  options.topK = -1;
  options.topP = options.minP = 2;
  options.maxNewTokens = 1;
  CHECK(kiln->generate(session, &prompt, 1, &options, &generations));
  kiln->releaseGenerations(generations);
  options.greedy = 0;
  options.temperature = options.topP = 1;
  options.minP = 0;
  FAILS(KilnErrorUsage, "--top-k", kiln->generate(session, &prompt, 1, &options, &generations));
  options.topK = 0;
  options.maxNewTokens = -1;
  FAILS(KilnErrorUsage, "--max-new-tokens", kiln->generate(session, &prompt, 1, &options, &generations));
  options.maxNewTokens = 1;
  options.slideKeep = -1;
  FAILS(KilnErrorUsage, "error: slideKeep: expected 0", kiln->generate(session, &prompt, 1, &options, &generations));
  options.slideKeep = 0;
  EXPECT(generations == NULL);
  options.stopStrings = &stop;
  options.stopStringCount = 1;
  FAILS(KilnErrorMisuse, "stopStrings: expected", kiln->generate(session, &prompt, 1, &options, &generations));
  options.stopStringCount = 0;
  options.maxNewTokens = 1 << 20;
  FAILS(KilnErrorFailed, "to fit in the context", kiln->generate(session, &prompt, 1, &options, &generations));
  FAILS(KilnErrorMisuse, "generations: expected", kiln->generate(session, &prompt, 1, &options, NULL));
  options.maxNewTokens = 5;
  options.onToken = callBack;
  options.user = session;
  CHECK(kiln->generate(session, &prompt, 1, &options, &generations));
  EXPECT(kiln->generationCount(generations) == 1);
  CHECK(kiln->generation(generations, 0, &generation));
  EXPECT(generation.tokenCount == 1 && generation.finishReason == KilnFinishCancelled);
  FAILS(KilnErrorMisuse, "index: expected one of 1", kiln->generation(generations, 1, &generation));
  FAILS(KilnErrorMisuse, "generation: expected a pointer", kiln->generation(generations, 0, NULL));
  FAILS(KilnErrorMisuse, "keepLogits", kiln->generationLogits(generations, 0, 0, &row));
  FAILS(KilnErrorMisuse, "keepLogits", kiln->generationLogProbabilities(generations, 0, probabilities, 4));
  generation.size = sizeof(size_t); /* an older header, with fewer fields */
  generation.tokenCount = 77;
  CHECK(kiln->generation(generations, 0, &generation));
  EXPECT(generation.size == sizeof(size_t) && generation.tokenCount == 77);
  kiln->releaseGenerations(generations);
  FAILS(KilnErrorMisuse, "rows of prefill, got none", kiln->decode(session, &id, 1));
}

int main(int argc, char **argv) {
  KilnModel *model;
  KilnSession *session;
  KilnModelOptions options = KILN_MODEL_OPTIONS;
  KilnModelInfo info = KILN_MODEL_INFO;
  openApi();
  EXPECT(argc == 3);
  checkVersions();
  checkNothing();
  checkDescribing(argv[1]);
  checkOpening(argv[1], argv[2]);
  checkCompiling(argv[1], argv[2]);
  options.device = "cpu";
  CHECK(kiln->openModel(argv[1], &options, &model));
  CHECK(kiln->modelInfo(model, &info));
  FAILS(KilnErrorMisuse, "session: expected a pointer", kiln->openSession(model, NULL, NULL));
  CHECK(kiln->openSession(model, NULL, &session));
  checkText(model);
  kiln->releaseModel(model); /* before its session, which goes on */
  info.name = info.device = NULL;
  checkRows(session, &info);
  checkGenerating(session);
  kiln->releaseSession(session);
  return EXIT_SUCCESS;
}
