//===- KernelTimes.h - what cost models take as given -----------------------===//
#pragma once

namespace kiln {

/// Times, rates and shares in the cost models of kernels that follow neither from a template nor from a datasheet: they
/// were fitted to timings of kernels on one GPU. They are read from one graphs/targets/*.times.toml, which a target's
/// file names. The unit is seconds unless stated otherwise. Each struct has the numbers of one family's `estimate`,
/// from the table with the family's name.
struct KernelTimes {
  double clock = 0;          ///< cycles a second, of multiprocessors
  double memoryLatency = 0;  ///< of a load
  double blockStart = 0;     ///< between two blocks of a launch
  double blockReduction = 0; ///< the barriers of a sum over a block

  struct RowProduct {
    double fullLoads = 0;      ///< bytes under way in a multiprocessor that keep up the memory's rate
    double loadsPower = 0;     ///< with fewer, the rate is their share of these to this power
    double doubleBuffered = 0; ///< share of the bytes of two stages that is under way
    double imbalancePower = 0; ///< the largest share of columns, over the mean, costs this power of it
    double arithmeticRate = 0; ///< share of the rate of instructions that is reached
    double normalize = 0;      ///< where rows are normalised; and
    double normalizeWarp = 0;  ///< for each warp of the block
    double tile = 0;           ///< its epilogue
    double turn = 0;           ///< from one stage of loads to the next
  } rowProduct;                ///< gemv_row_simt

  struct MmaRows {
    double round = 0; ///< of loads: what it waits for warps beside it
  } mmaRows;          ///< gemv_mma

  struct MmaTiled {
    double ends = 0;     ///< of a block: its first steps arrive, its last results leave; and
    double output = 0;   ///< for each output of a warp
    double unhidden = 0; ///< share of the shorter of reading and multiplying that the other does not hide
  } mmaTiled;            ///< gemm_mma

  struct MmaSplit {
    double sum = 0; ///< of the parts
  } mmaSplit;       ///< gemm_mma_split_k

  struct Library {
    double rate = 0; ///< share of the tensor cores' rate that is reached
    double ends = 0; ///< of a launch: nothing hides its first and last tiles
  } library;         ///< cublaslt_matmul, cublaslt_batched

  struct SplitKv {
    double round = 0;   ///< of loads, however few bytes
    double combine = 0; ///< of four splits
  } splitKv;            ///< attention_split_kv_simt

  struct MmaFlash {
    double gap = 0;  ///< cycles from one step of a warp to its next
    double ends = 0; ///< of a launch
  } mmaFlash;        ///< attention_mma

  struct WgmmaFlash {
    double gap = 0;    ///< cycles from one step of a block to its next
    double alone = 0;  ///< a step of a block by itself, without the gap, over its products
    double busy = 0;   ///< what a step keeps the multiprocessor busy with, over its products
    double beside = 0; ///< what each other block adds to a step, over its products
    double fill = 0;   ///< for each element that is there before the first step
    double ends = 0;   ///< of a launch
  } wgmmaFlash;        ///< attention_wgmma
};

} // namespace kiln
