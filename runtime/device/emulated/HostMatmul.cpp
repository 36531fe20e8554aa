#include "runtime/device/emulated/HostMatmul.h"

#include "support/process/Parallel.h"

#include <cmath>

namespace kiln {

namespace {

/// The elements of a tensor with 16 or 32 bits per element.
class Elements {
public:
  Elements(uint64_t address, DType dtype) : data(reinterpret_cast<char *>(address)), dtype(dtype) {}

  float operator[](int64_t i) const { return loadElement(data, dtype, i); }
  void set(int64_t i, float value) const {
    if (dtype == DType::F32)
      reinterpret_cast<float *>(data)[i] = value;
    else
      reinterpret_cast<uint16_t *>(data)[i] = dtype == DType::BF16 ? toBF16(value) : toF16(value);
  }
  std::vector<float> row(int64_t first, int64_t count) const {
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i)
      values[i] = (*this)[first + i];
    return values;
  }

private:
  char *data;
  DType dtype;
};

float geluTanh(float x) { return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x))); }

} // namespace

void runMatmulOnHost(const LaunchMatmul &matmul, ArrayRef<uint64_t> arguments) {
  const uint64_t *next = arguments.begin();
  auto take = [&](bool isThere, DType dtype) { return Elements(isThere ? *next++ : 0, dtype); };
  const Elements a = take(true, matmul.dtype), weight = take(true, matmul.dtype),
                 bias = take(matmul.bias, matmul.dtype), residual = take(matmul.residual, matmul.out),
                 out = take(true, matmul.out);
  // The strides of weightᵀ: between elements of a column, and between columns.
  const int64_t step = matmul.untransposed ? matmul.cols : 1, colStep = matmul.untransposed ? 1 : matmul.depth;
  parallelFor(matmul.batch * matmul.rows, [&](size_t index) {
    const auto row = static_cast<int64_t>(index);
    const int64_t weightBegin = row / matmul.rows * matmul.cols * matmul.depth;
    const std::vector<float> left = a.row(row * matmul.depth, matmul.depth);
    for (int64_t col = 0; col < matmul.cols; ++col) {
      const int64_t at = row * matmul.cols + col;
      float sum = 0;
      for (int64_t k = 0; k < matmul.depth; ++k)
        sum += left[k] * weight[weightBegin + col * colStep + k * step];
      if (matmul.bias)
        sum += bias[col];
      if (matmul.residual)
        sum += residual[at];
      out.set(at, matmul.gelu ? geluTanh(sum) : sum);
    }
  });
}

} // namespace kiln
