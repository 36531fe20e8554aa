/* Prints what a model makes of prompts, a JSON object for each and one for the last of them step by step:
 * results MODEL DEVICE SEED-OF-WEIGHTS|own GREEDY SEED NEW-TOKENS IDS [IDS...]; IDS: 1,2,3 */
#include "support.h"

enum { mostPrompts = 4, mostIds = 64 };

static void printIds(const char *key, const int32_t *ids, size_t count) {
  printf("\"%s\": [", key);
  for (size_t i = 0; i < count; ++i)
    printf("%s%d", i ? ", " : "", (int)ids[i]);
  printf("]");
}

static void printFloats(const float *values, size_t count) {
  printf("[");
  for (size_t i = 0; i < count; ++i)
    printf("%s%.9g", i ? ", " : "", (double)values[i]);
  printf("]");
}

static void printGeneration(const KilnGenerations *generations, size_t index, size_t vocabularySize) {
  static const char *const reasons[] = {"length", "stop", "eos", "cancelled"};
  KilnGeneration generation = KILN_GENERATION;
  float logProbabilities[mostIds];
  CHECK(kiln->generation(generations, index, &generation));
  EXPECT(generation.text[generation.textLength] == 0);
  printf("{");
  printIds("tokens", generation.tokens, generation.tokenCount);
  printf(", \"finish_reason\": \"%s\", \"text\": [", reasons[generation.finishReason]);
  for (size_t i = 0; i < generation.textLength; ++i)
    printf("%s%d", i ? ", " : "", (unsigned char)generation.text[i]);
  printf("], \"logits\": [");
  for (size_t i = 0; i < generation.tokenCount; ++i) {
    const float *row;
    CHECK(kiln->generationLogits(generations, index, i, &row));
    printf("%s", i ? ", " : "");
    printFloats(row, vocabularySize);
  }
  CHECK(kiln->generationLogProbabilities(generations, index, logProbabilities, mostIds));
  printf("], \"log_probabilities\": ");
  printFloats(logProbabilities, generation.tokenCount);
  printf("}\n");
}

/* The most probable tokens behind a prompt, by prefill and decode, with their log-probabilities; and the scores of
 * prompt and tokens together. */
static void printSteps(KilnSession *session, KilnTokens prompt, size_t count, size_t vocabularySize) {
  int32_t tokens[mostIds];
  float chosen[mostIds];
  double scores[mostIds];
  float *logProbabilities = malloc(vocabularySize * sizeof(float));
  EXPECT(logProbabilities && prompt.count + count <= mostIds);
  memcpy(tokens, prompt.ids, prompt.count * sizeof *tokens);
  CHECK(kiln->prefill(session, &prompt, 1));
  for (size_t i = 0; i < count; ++i) {
    const float *row;
    int32_t best = 0, *token = &tokens[prompt.count + i];
    CHECK(kiln->logits(session, 0, &row));
    for (size_t id = 0; id < vocabularySize; ++id)
      best = row[id] > row[best] ? (int32_t)id : best;
    *token = best;
    CHECK(kiln->logProbabilities(session, 0, logProbabilities, vocabularySize));
    chosen[i] = logProbabilities[best];
    if (i + 1 < count)
      CHECK(kiln->decode(session, token, 1));
  }
  CHECK(kiln->score(session, tokens, prompt.count + count, scores));
  printf("{");
  printIds("tokens", tokens + prompt.count, count);
  printf(", \"log_probabilities\": ");
  printFloats(chosen, count);
  printf(", \"scores\": [");
  for (size_t i = 0; i + 1 < prompt.count + count; ++i)
    printf("%s%.17g", i ? ", " : "", scores[i]);
  printf("]}\n");
  free(logProbabilities);
}

int main(int argc, char **argv) {
  static int32_t ids[mostPrompts][mostIds];
  KilnTokens prompts[mostPrompts];
  size_t count = 0;
  uint64_t seed = strtoull(argv[3], NULL, 10);
  KilnModel *model;
  KilnSession *session;
  KilnModelInfo info = KILN_MODEL_INFO;
  KilnModelOptions modelOptions = KILN_MODEL_OPTIONS;
  KilnSessionOptions sessionOptions = KILN_SESSION_OPTIONS;
  KilnGenerateOptions options = KILN_GENERATE_OPTIONS;
  KilnGenerations *generations;
  openApi();
  for (int i = 7; i < argc && count < mostPrompts; ++i, ++count) {
    prompts[count].ids = ids[count];
    prompts[count].count = 0;
    for (char *text = strtok(argv[i], ","); text; text = strtok(NULL, ","))
      ids[count][prompts[count].count++] = (int32_t)strtol(text, NULL, 10);
  }
  modelOptions.device = argv[2];
  modelOptions.randomWeights = strcmp(argv[3], "own") == 0 ? NULL : &seed;
  modelOptions.batch = (int64_t)count;
  CHECK(kiln->openModel(argv[1], &modelOptions, &model));
  CHECK(kiln->modelInfo(model, &info));
  sessionOptions.canScore = 1;
  CHECK(kiln->openSession(model, &sessionOptions, &session));
  options.greedy = atoi(argv[4]);
  options.seed = strtoull(argv[5], NULL, 10);
  options.maxNewTokens = atoi(argv[6]);
  options.keepLogits = 1;
  CHECK(kiln->generate(session, prompts, count, &options, &generations));
  EXPECT(kiln->generationCount(generations) == count);
  for (size_t i = 0; i < count; ++i)
    printGeneration(generations, i, (size_t)info.vocabularySize);
  printSteps(session, prompts[count - 1], (size_t)options.maxNewTokens, (size_t)info.vocabularySize);
  kiln->releaseSession(session);
  kiln->releaseModel(model);
  kiln->releaseGenerations(generations); /* the last: it needs neither */
  return EXIT_SUCCESS;
}
