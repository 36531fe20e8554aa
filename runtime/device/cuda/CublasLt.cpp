#include "runtime/device/cuda/CublasLt.h"

#include "support/Diagnostic.h"

static constexpr llvm::StringRef howToDoWithout =
    "compile the model with --matmul generated, and without the strategy attention=cublas";

#ifdef KILN_CUBLASLT_FOLDER

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <numeric>

namespace kiln {

namespace {

/// The functions that are called, by their names in the library.
struct Api {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) descCreate;
  decltype(&cublasLtMatmulDescSetAttribute) descSet;
  decltype(&cublasLtMatmulDescDestroy) descDestroy;
  decltype(&cublasLtMatrixLayoutCreate) layoutCreate;
  decltype(&cublasLtMatrixLayoutSetAttribute) layoutSet;
  decltype(&cublasLtMatrixLayoutDestroy) layoutDestroy;
  decltype(&cublasLtMatmulPreferenceCreate) preferenceCreate;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preferenceSet;
  decltype(&cublasLtMatmulPreferenceDestroy) preferenceDestroy;
  decltype(&cublasLtGetStatusString) statusString;
};

template <class Function> bool bind(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::optional<Api> loadApi() {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    library = dlopen((KILN_CUBLASLT_FOLDER "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  Api api;
  bool isComplete = library && bind(library, "cublasLtCreate", api.create) &&
                    bind(library, "cublasLtDestroy", api.destroy) && bind(library, "cublasLtMatmul", api.matmul) &&
                    bind(library, "cublasLtMatmulAlgoGetHeuristic", api.heuristic) &&
                    bind(library, "cublasLtMatmulDescCreate", api.descCreate) &&
                    bind(library, "cublasLtMatmulDescSetAttribute", api.descSet) &&
                    bind(library, "cublasLtMatmulDescDestroy", api.descDestroy) &&
                    bind(library, "cublasLtMatrixLayoutCreate", api.layoutCreate) &&
                    bind(library, "cublasLtMatrixLayoutSetAttribute", api.layoutSet) &&
                    bind(library, "cublasLtMatrixLayoutDestroy", api.layoutDestroy) &&
                    bind(library, "cublasLtMatmulPreferenceCreate", api.preferenceCreate) &&
                    bind(library, "cublasLtMatmulPreferenceSetAttribute", api.preferenceSet) &&
                    bind(library, "cublasLtMatmulPreferenceDestroy", api.preferenceDestroy) &&
                    bind(library, "cublasLtGetStatusString", api.statusString);
  return isComplete ? std::optional(api) : std::nullopt;
}

cudaDataType_t dataType(DType dtype) {
  return dtype == DType::F32 ? CUDA_R_32F : dtype == DType::BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

cublasLtEpilogue_t epilogueOf(const LaunchMatmul &matmul) {
  if (matmul.gelu)
    return matmul.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return matmul.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/// A product's description for the library, and the algorithm that was chosen for it. The library stores matrices by
/// columns, so it computes outᵀ = weight · aᵀ. Our row-major matrices are weightᵀ and aᵀ to it; an untransposed weight
/// is taken as it is.
struct Problem {
  explicit Problem(const Api &api) : api(api) {}
  Problem(const Problem &) = delete;
  ~Problem() {
    for (cublasLtMatrixLayout_t layout : {weight, a, out})
      if (layout)
        api.layoutDestroy(layout);
    if (desc)
      api.descDestroy(desc);
  }

  const Api &api;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t weight = nullptr, a = nullptr, out = nullptr;
  cublasLtMatmulHeuristicResult_t chosen = {};
};

class LoadedCublasLt : public CublasLt {
public:
  explicit LoadedCublasLt(const Api &api) : api(api) {}
  ~LoadedCublasLt() override {
    problems.clear();
    if (handle)
      api.destroy(handle);
  }

  Error open() { return check(api.create(&handle), "opening the library"); }

  Error run(const KernelLaunch &launch, CUstream_st *stream) override {
    const LaunchMatmul &matmul = *launch.matmul;
    auto take = [next = launch.arguments.begin()](bool isThere) mutable {
      return isThere ? reinterpret_cast<void *>(*next++) : nullptr;
    };
    void *a = take(true), *weight = take(true), *bias = take(matmul.bias), *residual = take(matmul.residual);
    void *out = take(true), *workspace = take(true);
    // The first call of a shape loads kernels. This must not become part of a graph that is being captured.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    auto restore = llvm::make_scope_exit([&] { cudaThreadExchangeStreamCaptureMode(&mode); });
    Expected<Problem *> problem = problemFor(matmul, bias, launch.tensors.back().bytes);
    if (!problem)
      return problem.takeError();
    if (bias)
      if (Error error = set((*problem)->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias))
        return error;
    const float one = 1, zero = 0;
    cublasStatus_t status =
        api.matmul(handle, (*problem)->desc, &one, weight, (*problem)->weight, a, (*problem)->a,
                   residual ? &one : &zero, residual ? residual : out, (*problem)->out, out, (*problem)->out,
                   &(*problem)->chosen.algo, workspace, (*problem)->chosen.workspaceSize, stream);
    return check(status, "a product");
  }

private:
  Error check(cublasStatus_t status, const Twine &what) const {
    return status == CUBLAS_STATUS_SUCCESS ? Error::success()
                                           : makeError("cuBLASLt: " + what + ": " + api.statusString(status));
  }

  template <class Value>
  Error set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const Value &value) const {
    return check(api.descSet(desc, attribute, &value, sizeof(value)), "describing a product");
  }

  /// `rows` and `cols` are those of the library's column-major matrix.
  Error layout(cublasLtMatrixLayout_t &made, DType dtype, int64_t rows, int64_t cols, int64_t batch) const {
    if (Error error = check(api.layoutCreate(&made, dataType(dtype), rows, cols, rows), "describing a matrix"))
      return error;
    auto count = static_cast<int32_t>(batch);
    int64_t stride = rows * cols;
    cublasStatus_t status = api.layoutSet(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count));
    if (Error error = check(status, "describing a matrix"))
      return error;
    status = api.layoutSet(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride));
    return check(status, "describing a matrix");
  }

  Error describe(const LaunchMatmul &matmul, void *bias, Problem &problem) const {
    if (Error error = check(api.descCreate(&problem.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product"))
      return error;
    if (Error error = set(problem.desc, CUBLASLT_MATMUL_DESC_TRANSA, matmul.untransposed ? CUBLAS_OP_N : CUBLAS_OP_T))
      return error;
    if (Error error = set(problem.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogueOf(matmul)))
      return error;
    if (matmul.bias) {
      if (Error error = set(problem.desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, dataType(matmul.dtype)))
        return error;
      if (Error error = set(problem.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias))
        return error;
    }
    int64_t weightRows = matmul.untransposed ? matmul.cols : matmul.depth;
    int64_t weightCols = matmul.untransposed ? matmul.depth : matmul.cols;
    if (Error error = layout(problem.weight, matmul.dtype, weightRows, weightCols, matmul.batch))
      return error;
    if (Error error = layout(problem.a, matmul.dtype, matmul.depth, matmul.rows, matmul.batch))
      return error;
    return layout(problem.out, matmul.out, matmul.cols, matmul.rows, matmul.batch);
  }

  /// Sets the alignments that the algorithm may rely on: in a batch, each matrix begins where the one before it ends.
  Error setAlignments(const LaunchMatmul &matmul, cublasLtMatmulPreference_t preference) const {
    if (matmul.batch == 1)
      return Error::success();
    int64_t factor = dtypeSize(matmul.dtype), result = dtypeSize(matmul.out) * matmul.rows * matmul.cols;
    for (auto [attribute, bytes] :
         {std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, factor * matmul.depth * matmul.cols),
          std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, factor * matmul.depth * matmul.rows),
          std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result),
          std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result)}) {
      // Buffers are aligned to 16 bytes.
      auto alignment = static_cast<uint32_t>(std::gcd(bytes, int64_t(16)));
      cublasStatus_t status = api.preferenceSet(preference, attribute, &alignment, sizeof(alignment));
      if (Error error = check(status, "asking for an algorithm"))
        return error;
    }
    return Error::success();
  }

  Error choose(const LaunchMatmul &matmul, size_t workspaceBytes, Problem &problem) const {
    cublasLtMatmulPreference_t preference = nullptr;
    if (Error error = check(api.preferenceCreate(&preference), "asking for an algorithm"))
      return error;
    auto destroy = llvm::make_scope_exit([&] { api.preferenceDestroy(preference); });
    cublasStatus_t status = api.preferenceSet(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspaceBytes,
                                              sizeof(workspaceBytes));
    if (Error error = check(status, "asking for an algorithm"))
      return error;
    if (Error error = setAlignments(matmul, preference))
      return error;
    int count = 0;
    status = api.heuristic(handle, problem.desc, problem.weight, problem.a, problem.out, problem.out, preference, 1,
                           &problem.chosen, &count);
    if (status == CUBLAS_STATUS_SUCCESS && count > 0)
      return Error::success();
    return llvm::joinErrors(check(status, "asking for an algorithm"),
                            makeError("cuBLASLt has no algorithm for a product of " + Twine(matmul.rows) + " x " +
                                      Twine(matmul.depth) + " and " + Twine(matmul.depth) + " x " + Twine(matmul.cols) +
                                      " in " + dtypeName(matmul.dtype) + "; " + howToDoWithout));
  }

  Expected<Problem *> problemFor(const LaunchMatmul &matmul, void *bias, size_t workspaceBytes) {
    std::unique_ptr<Problem> &known = problems[matmul];
    if (known)
      return known.get();
    auto problem = std::make_unique<Problem>(api);
    if (Error error = describe(matmul, bias, *problem))
      return error;
    if (Error error = choose(matmul, workspaceBytes, *problem))
      return error;
    known = std::move(problem);
    return known.get();
  }

  const Api api;
  cublasLtHandle_t handle = nullptr;
  std::map<LaunchMatmul, std::unique_ptr<Problem>> problems;
};

} // namespace

Expected<std::unique_ptr<CublasLt>> CublasLt::create() {
  std::optional<Api> api = loadApi();
  if (!api)
    return makeError("the plan has products that cuBLASLt runs, and there is no libcublasLt.so." +
                     Twine(CUBLAS_VER_MAJOR) + " in the library path or " + KILN_CUBLASLT_FOLDER +
                     "; install the CUDA toolkit, or " + howToDoWithout);
  auto library = std::make_unique<LoadedCublasLt>(*api);
  if (Error error = library->open())
    return error;
  return library;
}

} // namespace kiln

#else

namespace kiln {

Expected<std::unique_ptr<CublasLt>> CublasLt::create() {
  return makeError("the plan has products that cuBLASLt runs, and this program was built without cublasLt.h; " +
                   howToDoWithout);
}

} // namespace kiln

#endif
