/* One model in several threads, and a text without end that another thread cancels: threads MODEL. */
#define _POSIX_C_SOURCE 200112L
#include "support.h"

#include <pthread.h>

enum { threadCount = 4, newTokens = 12 };

static KilnModel *model;

typedef struct Sequence {
  uint64_t seed;
  int32_t tokens[newTokens];
} Sequence;

/* Generates in a session of its own. */
static void *generateAlone(void *argument) {
  Sequence *sequence = argument;
  KilnSession *session;
  KilnGenerations *generations;
  KilnGeneration generation = KILN_GENERATION;
  KilnGenerateOptions options = KILN_GENERATE_OPTIONS;
  int32_t ids[16];
  size_t count;
  CHECK(kiln->openSession(model, NULL, &session));
  CHECK(kiln->tokenize(model, "ROMEO:", 6, 0, ids, 16, &count));
  KilnTokens prompt = {ids, count};
  options.seed = sequence->seed;
  options.maxNewTokens = newTokens;
  CHECK(kiln->generate(session, &prompt, 1, &options, &generations));
  CHECK(kiln->generation(generations, 0, &generation));
  EXPECT(generation.tokenCount == newTokens);
  memcpy(sequence->tokens, generation.tokens, sizeof sequence->tokens);
  kiln->releaseGenerations(generations);
  kiln->releaseSession(session);
  return NULL;
}

static void checkSessions(void) {
  Sequence together[threadCount], alone[threadCount];
  pthread_t threads[threadCount];
  for (int i = 0; i < threadCount; ++i) {
    together[i].seed = alone[i].seed = (uint64_t)i;
    EXPECT(pthread_create(&threads[i], NULL, generateAlone, &together[i]) == 0);
  }
  for (int i = 0; i < threadCount; ++i)
    EXPECT(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < threadCount; ++i) {
    generateAlone(&alone[i]);
    EXPECT(memcmp(alone[i].tokens, together[i].tokens, sizeof alone[i].tokens) == 0);
  }
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int tokensSeen;

static int32_t countToken(void *user, const KilnToken *token) {
  (void)user;
  (void)token;
  pthread_mutex_lock(&mutex);
  ++tokensSeen;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
  return 0;
}

static void *cancelLater(void *cancellation) {
  pthread_mutex_lock(&mutex);
  while (tokensSeen < 3)
    pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  kiln->cancel(cancellation);
  return NULL;
}

static void checkCancelling(void) {
  KilnSession *session;
  KilnCancellation *cancellation;
  KilnGenerations *generations;
  KilnGeneration generation = KILN_GENERATION;
  KilnGenerateOptions options = KILN_GENERATE_OPTIONS;
  int32_t id = 1;
  KilnTokens prompt = {&id, 1};
  pthread_t thread;
  CHECK(kiln->openSession(model, NULL, &session));
  CHECK(kiln->createCancellation(&cancellation));
  EXPECT(pthread_create(&thread, NULL, cancelLater, cancellation) == 0);
  options.maxNewTokens = INT32_MAX;
  options.ignoreEos = 1;
  options.overflow = KilnOverflowSlide;
  options.onToken = countToken;
  options.cancellation = cancellation;
  CHECK(kiln->generate(session, &prompt, 1, &options, &generations));
  EXPECT(pthread_join(thread, NULL) == 0);
  CHECK(kiln->generation(generations, 0, &generation));
  EXPECT(generation.finishReason == KilnFinishCancelled);
  EXPECT(generation.tokenCount >= 3 && generation.tokenCount == (size_t)tokensSeen);
  kiln->releaseGenerations(generations);
  /* It stays cancelled. */
  CHECK(kiln->generate(session, &prompt, 1, &options, &generations));
  CHECK(kiln->generation(generations, 0, &generation));
  EXPECT(generation.finishReason == KilnFinishCancelled && generation.tokenCount == 0);
  kiln->releaseGenerations(generations);
  kiln->releaseCancellation(cancellation);
  kiln->releaseSession(session);
}

int main(int argc, char **argv) {
  KilnModelOptions options = KILN_MODEL_OPTIONS;
  openApi();
  EXPECT(argc == 2);
  options.device = "cpu";
  CHECK(kiln->openModel(argv[1], &options, &model));
  checkSessions();
  checkCancelling();
  kiln->releaseModel(model);
  return EXIT_SUCCESS;
}
